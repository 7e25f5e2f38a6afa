"""Golden pages of findings: prose, a kernel that is wrong, the whole message, and the same kernel made right.

A page is a file of `tests/golden/findings`. Each `##` section is a case: its title names the codes it is about, the
first `tide` block is the input, the `text` block what is printed, and the block titled "right" is the twin, in which
nothing is found. `tide run` also runs the kernel in order; words like `X = 3` after it are sizes. `pytest --update`
rewrites the results; review the diff.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tidegate as tg
from tests.conftest import ROOT
from tidegate.codes import CODES
from tidegate.diag import BadInput, Finding, Sources, show_findings
from tidegate.files import load
from tidegate.language.check import check
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.passes import run_stages
from tidegate.session import sessions_of
from tidegate.targets import load_target

PAGES = ROOT / "tests" / "golden" / "findings"
BLOCK = re.compile(r"^```(.*)\n((?:(?!```).*\n)*)```$", re.MULTILINE)
RIGHT = 'title="right"'
# Races and hangs have `examples/broken`, targets, graphs and Triton pages of their own; advice is not given yet.
ELSEWHERE = ("TG019", "TG023", "TG024", "TG025", "TG1", "TG211", "TG221", "TG4", "TG5", "TG6")
# What running a program may add to the code that a case is about: where the same mistake leads.
FOLLOWS = ("TG1",)


@dataclass(frozen=True)
class Case:
    page: Path
    title: str
    codes: tuple[str, ...]
    prose: str
    how: str
    wrong: str
    shown: str | None
    right: str

    @property
    def name(self) -> str:
        words = re.sub(r"TG\d{3}[^:]*: ", "", self.title)
        return f"{self.page.stem}-{'-'.join(re.findall(r'[a-z0-9]+', words.lower()))}"


def cases() -> Iterator[Case]:
    for page in sorted(PAGES.glob("*.md")):
        for section in sections(page.read_text(encoding="utf-8"))[1:]:
            yield case_of(page, section)


def sections(text: str) -> list[str]:
    return re.split(r"^(?=## )", text, flags=re.MULTILINE)


def case_of(page: Path, section: str) -> Case:
    title = section.partition("\n")[0].removeprefix("## ")
    blocks = BLOCK.findall(section)
    tide = [(info, body) for info, body in blocks if info.startswith("tide")]
    shown = [body for info, body in blocks if info == "text"]
    assert len(tide) == 2, f"{page.name}: `{title}` needs an input and a twin"
    assert RIGHT in tide[1][0], f"{page.name}: the twin of `{title}` comes second, titled right"
    prose = section.partition("\n")[2].partition("```")[0].strip()
    result = shown[0].rstrip("\n") if shown else None
    codes = tuple(re.findall(r"TG\d{3}", title))
    return Case(page, title, codes, prose, tide[0][0], tide[0][1], result, tide[1][1])


CASES = list(cases())


def find(text: str, how: str) -> tuple[list[Finding], Sources]:
    """What `tidegate check` finds in a file of this text, and `tidegate run` too where the page says so."""
    Path("input.tide").write_bytes(text.encode())
    sources = Sources({"input.tide": text})
    try:
        loaded = load("input.tide")
        findings: list[Finding] = []
        for unit in sessions_of(loaded, None):
            findings += run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None).findings
            if how.startswith("tide run") and unit.kernel is not None:
                findings += run(unit.kernel, how)
    except BadInput as bad:
        return list(bad.findings), sources
    return findings, sources


def run(kernel: object, how: str) -> list[Finding]:
    from tidegate.simulate.inorder import SimulationError, make_inputs
    from tidegate.simulate.inorder import run as run_in_order

    sizes = {name: int(number) for name, number in re.findall(r"(\w+) = (-?\d+)", how)}
    try:
        run_in_order(kernel, make_inputs(kernel, sizes), sizes=sizes)
    except SimulationError as error:
        return [error.finding]
    return []


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages name the file as it was given."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(case: Case, update: bool) -> None:
    findings, sources = find(case.wrong, case.how)
    text = show_findings(findings, sources)
    found = {each.code for each in findings}
    assert set(case.codes) <= found, text
    assert all(code.startswith(FOLLOWS) for code in found - set(case.codes)), text
    if update and text != case.shown:
        rewrite(case, text)
    else:
        assert text == case.shown, "run `pytest --update` and review the diff"


def rewrite(case: Case, text: str) -> None:
    """Puts the result below the input of its case."""
    parts = sections(case.page.read_text(encoding="utf-8"))
    place = next(number for number, part in enumerate(parts) if part.startswith(f"## {case.title}\n"))
    block = f"```text\n{text}\n```"
    if case.shown is not None:
        old = next(match for match in BLOCK.finditer(parts[place]) if match[1] == "text")
        parts[place] = parts[place][: old.start()] + block + parts[place][old.end() :]
    else:
        end = next(BLOCK.finditer(parts[place])).end()
        parts[place] = parts[place][:end] + "\n\n" + block + parts[place][end:]
    case.page.write_text("".join(parts), encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_twin(case: Case) -> None:
    findings, sources = find(case.right, "tide run" if case.how.startswith("tide run") else "tide")
    assert not findings, show_findings(findings, sources)
    assert parse(case.right).kernels


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_finding_says_where(case: Case) -> None:
    """All of them but those about inputs, which have no place in the text."""
    for finding in find(case.wrong, case.how)[0]:
        assert finding.code in CODES
        assert finding.at.file == "input.tide" or finding.code == "TG022"
        lines = case.wrong.split("\n")
        for label in finding.labels:
            if label.at.line:
                assert label.at.line <= len(lines)
                assert 1 <= label.at.column <= label.at.end <= len(lines[label.at.line - 1]) + 2


def test_pages_cover_every_code() -> None:
    shown = {code for case in CASES for code in case.codes}
    wanted = {code for code in CODES if not code.startswith(ELSEWHERE)}
    assert wanted - shown == set()
    assert len(CASES) >= 60


def test_pages_are_pages() -> None:
    for page in PAGES.glob("*.md"):
        head = sections(page.read_text(encoding="utf-8"))[0]
        assert re.match(r"# .+\n\n.+", head), f"{page.name} needs a title and a sentence"
    for case in CASES:
        assert case.codes, f"`{case.title}` names no code"
        assert case.prose.endswith("."), f"`{case.title}` needs prose"
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


# --- named cases: what was wrong once ------------------------------------------------------------------------------


def codes(text: str) -> list[str]:
    return [each.code for each in find(text, "tide")[0]]


def test_arms_whose_inner_loops_depend_on_outer_ones_arrive_equally() -> None:
    """Counters of two arms have different names; that is no difference between the arms."""
    arm = "iterate %{0} in 0 .. N {{ iterate %{1} in 0 .. %{0} + 1 {{ workgroup_barrier }} }}"
    text = "kernel @k() sizes(N = 4) waves 4 {{ conditional wave == 0 {{ {} }} else {{ {} }} }}"
    assert codes(text.format(arm.format("a", "b"), arm.format("c", "d"))) == []
    other = arm.replace("+ 1", "+ 2")
    assert codes(text.format(arm.format("a", "b"), other.format("c", "d"))) == ["TG202"]


def test_loops_that_depend_on_each_other_do_not_commute() -> None:
    """Σ over i < N of M · i is not Σ over i < M of N · i."""
    inner = "iterate %{2} in 0 .. %{0} {{ workgroup_barrier }}"
    arm = "iterate %{0} in 0 .. {3} {{ iterate %{1} in 0 .. {4} {{ " + inner + " }} }}"
    text = "kernel @k() sizes(M = 4, N = 8) waves 4 {{ conditional wave == 0 {{ {} }} else {{ {} }} }}"
    first, second = arm.format("a", "b", "c", "N", "M"), arm.format("d", "e", "f", "M", "N")
    assert codes(text.format(first, second)) == ["TG202"]


def test_loops_that_do_not_depend_on_each_other_commute() -> None:
    arm = "iterate %{0} in 0 .. {2} {{ iterate %{1} in 0 .. {3} {{ workgroup_barrier }} }}"
    text = "kernel @k() sizes(M = 4, N = 8) waves 4 {{ conditional wave == 0 {{ {} }} else {{ {} }} }}"
    assert codes(text.format(arm.format("a", "b", "N", "M"), arm.format("c", "d", "M", "N"))) == []


def test_a_buffer_given_back_in_one_arm_is_live_in_the_other() -> None:
    head = "kernel @k(%f: flag) waves 4 { %a = alloc : lds<64xf32>\n conditional %f { dealloc %a } else { "
    read = "%t = local_read %a : tile<64xf32> "
    assert codes(head + read + "} }") == []
    assert codes(head + "} " + read + "}") == ["TG309"]


def test_a_buffer_allocated_in_a_loop_does_not_lie_on_itself() -> None:
    text = "kernel @k() waves 4 { iterate %i in 0 .. 4 { %a = alloc at 0 : lds<64xf32>\n dealloc %a } }"
    assert codes(text) == []


def test_a_carried_view_of_a_buffer_that_was_given_back() -> None:
    text = """kernel @k() waves 4 {
      %a = alloc : lds<64xf32>
      %b = alloc : lds<64xf32>
      dealloc %b
      %x, %y = iterate %i in 0 .. 4 carry(%p = %a : lds<64xf32>, %q = %a : lds<64xf32>) {
        %t = local_read %p : tile<64xf32>
        yield %q, %b
      }
    }"""
    assert set(codes(text)) == {"TG309"}


def test_guards_in_nested_loops_are_decided_for_each() -> None:
    text = """target gfx1201
    kernel @k() sizes(N = 4) waves 4 {
      iterate %i in 0 .. N {
        iterate %j in 0 .. 4 {
          conditional %j > 0 { wait -1 }
          signal -1
        }
        wait -1
      }
    }"""
    assert codes(text) == []


def test_a_guard_on_a_named_index_is_decided() -> None:
    text = """target gfx1201
    kernel @k() waves 4 {
      %last = let 7
      iterate %k in 0 .. %last + 1 {
        %now = let %k - 1
        conditional %now >= 0 { wait -1 }
        signal -1
      }
      wait -1
    }"""
    assert codes(text) == []


def test_a_signal_that_a_loop_leaves_over_is_reported_where_it_matters() -> None:
    """The last trip does not wait: right before a wait, wrong before a barrier."""
    text = """target gfx1201
    kernel @k() waves 4 {{
      iterate %k in 0 .. 8 {{
        signal -1
        conditional %k < 7 {{ wait -1 }}
      }}
      {}
    }}"""
    assert codes(text.format("wait -1")) == []
    assert codes(text.format("workgroup_barrier")) == ["TG208"]
    assert codes(text.format("")) == ["TG208"]


@pytest.mark.slow
def test_many_guarded_loops_in_each_other_end() -> None:
    inner = "wait -1 signal -1 "
    for depth in range(12):
        inner = f"iterate %k{depth} in 0 .. N {{ conditional %k{depth} > 0 {{ wait -1 {inner} }} }} "
    assert "TG204" in codes(f"target gfx1201 kernel @k() sizes(N = 4) waves 4 {{ {inner} }}")


def test_what_a_target_lacks_is_said_once() -> None:
    lines = "signal -1\nwait -1\n" * 5
    (finding,) = find(f"target gfx942\nkernel @k() waves 4 {{\n{lines}}}\n", "tide")[0]
    assert len(finding.labels) == 3
    assert finding.notes == ("and in 7 more places",)


@pytest.mark.parametrize("name", ["gfx9000", "gfx94o"])
def test_an_unknown_target_is_shown_at_its_kernel(name: str) -> None:
    (finding,) = find(f"target {name}\n\nkernel @k() waves 4 {{\n}}\n", "tide")[0]
    assert (finding.code, finding.at.line) == ("TG508", 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"kernel \xff", "the file is not text in UTF-8"),
        (b"kernel @k() waves 4 {\n\0}", "the file is not text: line 2 holds a NUL"),
    ],
)
def test_bytes_that_are_no_text(data: bytes, message: str) -> None:
    Path("input.tide").write_bytes(data)
    with pytest.raises(BadInput) as raised:
        load("input.tide")
    assert [(each.code, each.message) for each in raised.value.findings] == [("TG007", message)]


def test_a_byte_order_mark_is_passed_over() -> None:
    Path("input.tide").write_bytes(b"\xef\xbb\xbfkernel @k() waves 4 {\r\n}\r\n")
    assert [kernel.name for kernel in load("input.tide").kernels] == ["k"]


# --- signals and waits against running every trip ------------------------------------------------------------------

GUARDS = {
    "": lambda k, n: True,
    "%k > 0": lambda k, n: k > 0,
    "%k >= 2": lambda k, n: k >= 2,
    "%k == 0": lambda k, n: k == 0,
    "%k + 1 < N": lambda k, n: k + 1 < n,
    "%k < N - 2": lambda k, n: k < n - 2,
    "not (%k == N - 1)": lambda k, n: k != n - 1,
}
Step = tuple[str, str]


def alternates(before: list[str], inside: list[Step], after: list[str], trips: int) -> bool:
    """Runs the steps: a signal only where none is pending, a wait only where one is, nothing left in the end."""
    steps = [*before, *(word for k in range(trips) for word, guard in inside if GUARDS[guard](k, trips)), *after]
    pending = False
    for word in steps:
        if pending == (word == "signal"):
            return False
        pending = word == "signal"
    return not pending


@pytest.mark.slow
@pytest.mark.parametrize("least", [0, 1, 3])
def test_signals_and_waits_against_every_trip_count(least: int) -> None:
    """What is found clean alternates for every number of trips; most of what alternates is found clean."""
    rng = random.Random(least)
    good = missed = 0
    for _ in range(300):
        words = ("signal", "wait")
        before = [rng.choice(words) for _ in range(rng.choice((0, 0, 1)))]
        inside = [(rng.choice(words), rng.choice(list(GUARDS))) for _ in range(rng.randint(1, 3))]
        after = [rng.choice(words) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
        lines = [f"conditional {guard} {{ {word} -1 }}" if guard else f"{word} -1" for word, guard in inside]
        outer = [" ".join(f"{word} -1" for word in part) for part in (before, after)]
        bound = "N" if least else "N - 1"  # a size is at least 1, and there may be no trips
        body = " ".join(lines).replace("N", bound)
        text = (
            f"target gfx1201 kernel @k() sizes(N = 8) where(N >= {max(least, 1)}) waves 4 {{ {outer[0]} "
            f"iterate %k in 0 .. {bound} {{ {body} }} {outer[1]} }}"
        )
        found = codes(text)
        right = all(alternates(before, inside, after, trips) for trips in range(least, 12))
        assert right or found, text
        good += right
        missed += right and bool(found)
    assert good >= 2
    assert 2 * missed <= good


# --- what a review found ---


def codes_of(text: str, target: str = "") -> list[str]:
    return [each.code for kernel in parse(text).kernels for each in check(kernel, load_target(target or kernel.target))]


def test_guards_on_a_counter_keep_the_range_of_its_loop() -> None:
    """One arrival against three: both loops have four trips and the same guard."""
    text = """kernel @k() waves 2 {
  conditional wave == 0 {
    iterate %i in 0 .. 4 { conditional %i > 2 { workgroup_barrier } }
  } else {
    iterate %j in 2 .. 6 { conditional %j > 2 { workgroup_barrier } }
  }
}"""
    assert codes_of(text) == ["TG202"]
    assert codes_of(text.replace("2 .. 6", "0 .. 4")) == []


def test_a_stagger_is_not_opened_in_a_wave_group() -> None:
    text = "kernel @k() waves 4 { specialize { waves 0 .. 2 { conditional_barrier low } waves 2 .. 4 { } } }"
    assert codes_of(text) == ["TG207"]


def test_waves_that_end_in_a_group_are_reported_where_the_target_says_nothing() -> None:
    text = "kernel @k() waves 4 { specialize { waves 0 .. 2 { exit } } workgroup_barrier }"
    assert codes_of(text) == ["TG202"]
    assert codes_of("target gfx942\n" + text, "gfx942") == []


def test_barriers_with_other_numbers_are_counted_apart() -> None:
    text = """kernel @k() waves 4 {
  conditional wave < 2 { signal -1 wait -1 } else { signal 3 wait 3 }
}"""
    assert "TG202" in codes_of(text)


def test_a_buffer_on_an_mbarrier_is_found() -> None:
    text = """target sm_90
kernel @k() waves 4 {
  %m = new_barrier : mbarrier<1>
  %a = alloc at 0 : lds<64xf32>
}"""
    assert codes_of(text) == ["TG308"]
    assert codes_of(text.replace("at 0", "at 16")) == []


def test_lanes_do_not_reach_an_index_through_a_name() -> None:
    text = """kernel @k() waves 4 {
  %a = alloc : lds<2x64xf32>
  %t = fill 1.0 : tile<64xf32>
  %x = let select(lane < 16, 0, 1)
  local_write %t, %a[%x, 0]
}"""
    assert codes_of(text) == ["TG012"]
    assert codes_of(text.replace("[%x, 0]", "[inexact(%x), 0]")) == []


def test_forty_loops_that_give_memory_back_end() -> None:
    deep = 38
    text = "kernel @k() waves 1 { %a = alloc : lds<4xf32> " + "".join(
        f"iterate %k{number} in 0 .. 2 {{ " for number in range(deep)
    )
    assert codes_of(text + "dealloc %a " + "}" * deep + " }") == ["TG309"]


def test_words_of_other_languages_lead_to_ours() -> None:
    with pytest.raises(BadInput) as bad:
        parse("kernel @k() waves 1 { if wave < 2 { } }")
    assert bad.value.findings[0].help == "did you mean `conditional`?"


def test_large_integers_stay_exact() -> None:
    text = "kernel @k() waves 1 {\n  %t = fill 9007199254740993 : tile<4xi64>\n}\n"
    assert "fill 9007199254740993 " in show(parse(text))


def test_a_condition_that_all_waves_meet_is_no_difference_between_them() -> None:
    text = "kernel @k() waves 4 {{ conditional {cond} {{ workgroup_barrier }} }}"
    assert codes_of(text.format(cond="wave < 4")) == []
    assert codes_of(text.format(cond="wave * 2 > 6")) == []
    assert codes_of(text.format(cond="wave < 3")) == ["TG202"]


def test_lanes_that_disagree_do_not_choose_a_buffer() -> None:
    text = """kernel @k() waves 4 {{
  %a = alloc : lds<64xf32>
  %b = alloc : lds<64xf32>
  %t = fill 1.0 : tile<4xf32>
  %v = select_view {cond}, %a, %b : lds<64xf32>
  %w = conditional {cond} : lds<64xf32> {{
    yield %a
  }} else {{
    yield %v
  }}
  local_write %t, %w[0]
}}"""
    assert codes_of(text.format(cond="lane < 4")) == ["TG012"]
    assert codes_of(text.format(cond="wave < 4")) == []


# --- the verdict beside the list ----------------------------------------------------------------------------------

ENDS_EARLY = """
target gfx942
kernel @early(%X: global<8x64xf32>, %Y: global<8x64xf32>) waves 8 {
  %r = alloc : lds<8x64xf32>
  %a = global_read %X[wave, 0] : tile<64xf32>
  conditional wave >= 4 { exit }
  local_write %a, %r[wave]
  shared_memory_barrier
  %b = local_read %r[(wave + 1) mod 4] : tile<64xf32>
  global_write %b, %Y[wave, 0]
}
"""


def test_no_findings_are_no_proof() -> None:
    """A list that is empty said nothing about programs that were only run."""
    run = tg.check(tg.parse(ENDS_EARLY).kernels[0])
    proved = tg.check(tg.parse(ENDS_EARLY.replace("conditional wave >= 4 { exit }", "")).kernels[0])
    raced = tg.check(tg.parse(ENDS_EARLY.replace("shared_memory_barrier", "")).kernels[0])
    assert (list(run), list(proved)) == ([], [])
    assert (run.is_proved, proved.is_proved, raced.is_proved) == (False, True, False)
    assert run.verdict.startswith("not proved: ")
    assert "judged: 1 configuration" in run.verdict
    assert proved.verdict.startswith("proved: ")
    assert raced.verdict.startswith("not proved: ")
    assert "not proved: " in run._repr_html_()
