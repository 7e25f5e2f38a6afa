"""`tidegate draw -o out.html`: what a page says, checked against the stages; how it behaves is in `test_page.py`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.conftest import ROOT
from tidegate.demo import run_demo
from tidegate.diag import Finding, Sources, sort_findings
from tidegate.files import load, load_text
from tidegate.report.build import Asked, Report, build_report
from tidegate.report.steps import without_barriers
from tidegate.session import sessions_of
from tidegate.simulate.cycles import estimate

RACY = """\
target gfx942

kernel @shift(%X: global<Kx4x64xf32>, %Y: global<Kx4x64xf32>) sizes(K = 4) waves 4 {
  %rows = alloc : lds<4x64xf32, slots = 2>
  iterate %k in 0 .. K {
    %mine = global_read %X[%k, wave, 0] : tile<64xf32>
    local_write %mine, %rows[%k mod 2][wave]
    %next = local_read %rows[%k mod 2][(wave + 1) mod 4] : tile<64xf32>  # </script><script>alert(1)</script>
    global_write %next, %Y[%k, wave, 0]
  }
}
"""
EXAMPLES = ("gemm_one_slot.tide", "gemm_two_slots.py", "gemm_split.py", "gemm_pingpong.tide", "flash_attention.tide")


def tidegate_command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidegate", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def report_of(file: str, **asked: Any) -> Report:
    loaded = load(file)
    (unit,) = sessions_of(loaded, None)
    return build_report(unit, loaded.sources, Asked(**asked))


@pytest.fixture(scope="module")
def racy() -> Report:
    loaded = load_text(RACY, "shift.tide")
    (unit,) = sessions_of(loaded, None)
    return build_report(unit, loaded.sources)


# --- programs -----------------------------------------------------------------------------------------------------


def test_a_program_that_races_is_shown_as_given_and_synchronized(racy: Report) -> None:
    given, after = racy.data["programs"]
    assert (given["verdict"]["kind"], after["verdict"]["kind"]) == ("wrong", "proved")
    assert {each["code"] for each in given["findings"]} == {"TG101", "TG102"}
    assert {each["kind"] for each in given["hazards"]} == {"RAW", "WAR"}
    assert {each["state"] for each in given["hazards"]} == {"races"}
    (barrier,) = after["barriers"]
    assert barrier["needed"]
    assert sorted(barrier["serves"]) == [
        number for number, each in enumerate(after["hazards"]) if each["state"] == "ordered"
    ]
    assert dict(after["lines"])[barrier["parts"][0]["line"]].strip().startswith("shared_memory_barrier")
    assert (given["figures"]["barriers"], after["figures"]["barriers"]) == (0, 1)


def test_a_program_that_is_clean_is_shown_once() -> None:
    data = report_of(str(ROOT / "examples/gemm_two_slots.py")).data
    (only,) = data["programs"]
    assert only["verdict"]["kind"] == "proved"
    assert only["lines"][0][1].startswith("@tg.kernel")


def test_ping_pong_is_a_version_of_its_own() -> None:
    data = report_of(str(ROOT / "examples/gemm_one_slot.tide"), strategy="clusters=2", prefetch=True).data
    assert [each["title"] for each in data["programs"]] == ["as given", "ping-pong, clusters=2"]


@pytest.mark.parametrize("file", EXAMPLES)
def test_a_barrier_stands_in_the_window_of_what_it_alone_serves(file: str) -> None:
    """The window is asked of other walks than those that say what a barrier serves."""
    for program in report_of(str(ROOT / "examples" / file)).data["programs"]:
        for hazard in program["hazards"]:
            if len(hazard["barriers"]) != 1:
                continue
            barrier = program["barriers"][hazard["barriers"][0]]
            if barrier["kind"] in ("shared-memory barrier", "workgroup barrier"):
                assert barrier["parts"][0]["line"] in hazard["window"], hazard["title"]


@pytest.mark.parametrize("file", EXAMPLES)
def test_all_lines_that_a_page_speaks_of_are_shown(file: str) -> None:
    for program in report_of(str(ROOT / "examples" / file)).data["programs"]:
        shown = {number for number, _ in program["lines"]}
        spoken = {line for each in program["hazards"] for line in (each["from"], each["to"])}
        spoken |= {part["line"] for each in program["barriers"] for part in each["parts"]}
        assert spoken <= shown


def test_a_window_ends_where_the_barrier_would_be_too_late(racy: Report) -> None:
    """RAW: between write and read; WAR: on the way round; of the write no place, for the barrier is then before it."""
    windows = {each["kind"]: each["window"] for each in racy.data["programs"][0]["hazards"]}
    lines = {text.strip().partition(" ")[0]: number for number, text in racy.data["programs"][0]["lines"]}
    assert windows["RAW"] == [lines["%next"]]
    assert set(windows["WAR"]) >= {lines["global_write"], lines["%mine"], lines["local_write"]}


# --- what a page must not say -------------------------------------------------------------------------------------


def data_of(text: str, file: str = "case.tide") -> dict[str, Any]:
    loaded = load_text(text, file)
    (unit,) = sessions_of(loaded, None)
    return build_report(unit, loaded.sources).data


def body(lines: str, waves: int = 4) -> str:
    head = f"target gfx942\nkernel @case(%X: global<4x64xf32>, %Y: global<4x64xf32>) waves {waves} {{\n"
    return head + lines + "\n}\n"


def test_several_operations_in_one_line() -> None:
    ops = "%a = global_read %X[wave] : tile<64xf32> local_write %a, %t[wave] %b = local_read %t[(wave + 1) mod 4] : "
    data = data_of(body(f"%t = alloc : lds<4x64xf32>\n{ops}tile<64xf32> local_write %b, %t[wave]"))
    assert [each["verdict"]["kind"] for each in data["programs"]] == ["wrong", "proved"]


def test_of_hazards_in_the_same_lines_one_that_races_makes_all_race(tmp_path: Path) -> None:
    """A function that is called twice: between its first reads a barrier stands, between the second none."""
    source = tmp_path / "twice.py"
    source.write_text(
        """\
import tidegate as tg


@tg.kernel(waves=4, target="gfx942")
def twice(X: tg.Global[4, 64, tg.f32], Y: tg.Global[4, 64, tg.f32]):
    rows, wave = tg.alloc((4, 64), tg.f32), tg.wave()

    @tg.function
    def shift(value, ordered: bool):
        tg.local_write(value, rows, (wave,))
        if ordered:
            tg.shared_memory_barrier()
        return tg.local_read(rows, ((wave + 1) % 4,), (64,))

    first = shift(tg.global_read(X, (wave, 0), (64,)), True)
    tg.shared_memory_barrier()
    tg.global_write(shift(first, False), Y, (wave, 0))
""",
        encoding="utf-8",
    )
    given = report_of(str(source)).data["programs"][0]
    raw = [each for each in given["hazards"] if each["kind"] == "RAW"]
    assert {each["state"] for each in raw} == {"races"}
    assert {each["code"] for each in given["findings"]} == {"TG101"}


def test_lines_of_another_file_are_named_and_have_no_arc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "its_helper.py").write_text(
        "import tidegate as tg\n\n\n"
        "@tg.function\n"
        "def put(value, rows, wave):\n"
        "    tg.local_write(value, rows, (wave,))\n",
        encoding="utf-8",
    )
    (tmp_path / "uses.py").write_text(
        "import its_helper\nimport tidegate as tg\n\n\n"
        '@tg.kernel(waves=4, target="gfx942")\n'
        "def uses(X: tg.Global[4, 64, tg.f32], Y: tg.Global[4, 64, tg.f32]):\n"
        "    rows, wave = tg.alloc((4, 64), tg.f32), tg.wave()\n"
        "    its_helper.put(tg.global_read(X, (wave, 0), (64,)), rows, wave)\n"
        "    tg.global_write(tg.local_read(rows, ((wave + 1) % 4,), (64,)), Y, (wave, 0))\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    given = report_of(str(tmp_path / "uses.py")).data["programs"][0]
    (hazard,) = given["hazards"]
    assert hazard["title"].startswith("RAW %buffer, its_helper.py:6 → 9")
    assert hazard["from"] == 0
    assert dict(given["lines"])[hazard["to"]].strip().startswith("tg.global_write(tg.local_read")


def test_text_that_looks_like_a_mark_of_the_page() -> None:
    data = data_of(
        body("%t = alloc : lds<4x64xf32>  # {{script}} {{data}}\nlocal_write %t0, %t[wave]").replace(
            "local_write %t0", "%t0 = global_read %X[wave] : tile<64xf32>\nlocal_write %t0"
        )
    )
    page = Report("case", data).html
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert held is not None
    assert json.loads(held[1])["name"] == "case"


def test_the_timeline_has_the_sizes_that_show_the_race(tmp_path: Path) -> None:
    """With K = 1, the default, nothing is written twice."""
    text = RACY.replace("sizes(K = 4)", "sizes(K = 1)").replace(
        "%rows[%k mod 2][(wave + 1) mod 4]", "%rows[(%k + 1) mod 2][(wave + 1) mod 4]"
    )
    given = data_of(text)["programs"][0]
    assert given["findings"]
    assert any(wave["marks"] for wave in given["timelines"][1]["waves"])


def test_what_is_too_much_is_left_out_and_said() -> None:
    writes = "\n".join("local_write %a, %t[wave]" for _ in range(12))
    reads = "\n".join(f"%r{n} = local_read %t[(wave + 1) mod 4] : tile<64xf32>" for n in range(12))
    text = body(f"%t = alloc : lds<4x64xf32>\n%a = global_read %X[wave] : tile<64xf32>\n{writes}\n{reads}")
    given = data_of(text)["programs"][0]
    assert len(given["findings"]) == 20
    assert "124 more findings are not shown" in " ".join(given["notes"])


def test_a_hazard_within_one_wave_has_no_window() -> None:
    """It asks for a wait; barriers before the copy would not help."""
    data = report_of(str(ROOT / "examples/gemm_async_store.tide")).data
    for program in data["programs"]:
        for hazard in program["hazards"]:
            needs = dict(map(tuple, hazard["rows"])).get("needs", "")
            assert not (needs.startswith("a wait") and hazard["window"])


def test_what_barrier_objects_order_is_not_called_a_race() -> None:
    program = report_of(str(ROOT / "examples/histogram.tide")).data["programs"][0]
    assert program["verdict"]["kind"] == "proved"
    assert "races" not in {each["state"] for each in program["hazards"]}


@pytest.mark.parametrize("file", ["broken/one_arm.tide", "broken/unequal_trips.tide", "broken/same_row.tide"])
def test_findings_are_those_of_check_and_every_race_has_an_arc(file: str) -> None:
    given = report_of(str(ROOT / "examples" / file)).data["programs"][0]
    (kernel,) = load(str(ROOT / "examples" / file)).kernels
    assert [each["code"] for each in given["findings"]] == [each.code for each in sort_findings(tidegate.check(kernel))]
    arcs = {frozenset((each["from"], each["to"])) for each in given["hazards"] if each["state"] == "races"}
    for finding in given["findings"]:
        if finding["code"] in ("TG101", "TG102", "TG103"):
            assert frozenset(finding["lines"]) in arcs
    assert not given["verdict"]["text"].startswith("proved")


def test_split_pairs_are_shown_only_for_a_target_that_the_program_fits() -> None:
    for animation in report_of(str(ROOT / "examples/attention_async.tide")).data["animations"]:
        assert animation["steps"][-1]["done"] == list(range(len(animation["windows"]))) or len(animation["bars"]) < 20


def test_a_graph_is_not_scheduled_and_sizes_are_known() -> None:
    kernel = tidegate.parse(RACY).kernels[0]
    with pytest.raises(tidegate.BadInput, match="only a kernel can be scheduled"):
        tidegate.draw(tidegate.build_graph(kernel).graph, strategy="auto")
    with pytest.raises(tidegate.BadInput, match="has no size `Q`"):
        tidegate.draw(kernel, sizes={"Q": 1})


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(each, marks=pytest.mark.full) for each in range(1, 8))], ids=lambda part: f"{part} of 8"
)
@pytest.mark.slow
def test_every_program_of_the_repository_can_be_drawn(part: int) -> None:
    """Examples, broken ones, cases of the other tests: no crash."""
    files = [*ROOT.glob("examples/*.tide"), *ROOT.glob("examples/broken/*.tide"), *ROOT.glob("tests/sync_cases/*")]
    for path in sorted(files)[part::8]:
        if path.name in SLOW:
            continue
        loaded = load(str(path))
        for unit in sessions_of(loaded, None):
            with suppress(tidegate.BadInput):
                assert build_report(unit, loaded.sources).data["programs"]


SLOW = ("gemm_mbarrier.tide", "gemm_tdm.tide", "gemm_pingpong.tide")  # tens of seconds


# --- timelines ----------------------------------------------------------------------------------------------------


def test_bars_begin_before_they_end_and_lie_in_the_window(racy: Report) -> None:
    for program in racy.data["programs"]:
        titles = [each["title"] for each in program["timelines"]]
        assert titles == ["Cost model", "Hostile machine"]
        for timeline in program["timelines"]:
            assert len(timeline["waves"]) == 4
            for wave in timeline["waves"]:
                assert wave["bars"]
                for _, start, end, line, _ in wave["bars"]:
                    assert start < end
                    assert end > timeline["start"]
                    assert start < timeline["end"]
                    assert line in dict(program["lines"])


def test_a_race_is_marked_where_it_happens_and_gone_afterwards(racy: Report) -> None:
    before, after = ([each["marks"] for each in p["timelines"][1]["waves"]] for p in racy.data["programs"])
    marks = [mark for each in before for mark in each]
    assert marks
    assert all("race" in text for _, _, text in marks)
    assert not any(after)


def test_on_the_hostile_machine_every_wave_passes_each_barrier(racy: Report) -> None:
    after = racy.data["programs"][1]
    line = after["barriers"][0]["parts"][0]["line"]
    for wave in after["timelines"][1]["waves"]:
        assert [each[2] for each in wave["meets"]] == [line] * 4  # K = 4 iterations
        assert all(arrived < released for arrived, released, _ in wave["meets"])


def test_cycles_of_the_page_are_those_of_the_estimate() -> None:
    file = str(ROOT / "examples/gemm_two_slots.tide")
    (program,) = report_of(file, sizes={"K": 512}).data["programs"]
    (kernel,) = load(file).kernels
    found = estimate(tidegate.build_graph(kernel).graph, tidegate.load_target(kernel.target), sizes={"K": 512})
    assert program["figures"]["cycles"] == round(found.loops[0].cycles)


# --- steps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", EXAMPLES)
def test_the_last_step_has_all_barriers_and_every_window_is_done(file: str) -> None:
    data = report_of(str(ROOT / "examples" / file)).data
    assert [each["title"] for each in data["animations"]] == ["Whole barriers", "Split pairs"]
    for animation in data["animations"]:
        steps, windows = animation["steps"], animation["windows"]
        last = steps[-1]
        assert last["bars"] == list(range(len(animation["bars"])))
        assert sorted(last["done"]) == list(range(len(windows))), animation["title"]
        for before, after in pairwise(steps):
            assert set(before["shown"]) <= set(after["shown"])
            assert set(before["bars"]) <= set(after["bars"])
            assert set(before["done"]) <= set(after["done"])


def test_whole_barriers_are_those_of_sync(racy: Report) -> None:
    """Of the animation for whole barriers: as many, and before the same line."""
    whole = racy.data["animations"][0]
    (bar,) = whole["bars"]
    assert bar["op"] == "shared_memory_barrier"
    assert whole["rows"][bar["row"]][1].startswith("%next = local_read")


def test_split_pairs_have_a_signal_and_a_wait() -> None:
    split = report_of(str(ROOT / "examples/gemm_split.py")).data["animations"][1]
    words = [each["op"].split()[0] for each in split["bars"]]
    assert words.count("signal") == words.count("wait") == 2
    assert any(each["cut"] for each in split["steps"])


def test_barriers_are_set_aside_before_they_are_placed() -> None:
    (kernel,) = load(str(ROOT / "examples/gemm_split.py")).kernels
    bare = without_barriers(tidegate.build_graph(kernel).graph)
    assert "signal" not in tidegate.show_graph(bare)


# --- the file -----------------------------------------------------------------------------------------------------


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts, self.references = 0, []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.references += [value for name, value in attrs if name in ("src", "href")]


def test_a_page_is_one_file_and_no_text_of_a_program_ends_its_script(racy: Report) -> None:
    parser = _Tags()
    parser.feed(racy.html)
    assert parser.scripts == 2  # the data, and what draws it
    assert parser.references == []
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', racy.html, re.DOTALL)
    assert held is not None
    assert json.loads(held[1]) == json.loads(json.dumps(racy.data))
    assert "@import" not in racy.html
    assert "url(http" not in racy.html


def test_the_same_program_gives_the_same_page(racy: Report) -> None:
    loaded = load_text(RACY, "shift.tide")
    (unit,) = sessions_of(loaded, None)
    assert build_report(unit, loaded.sources).html == racy.html


def test_the_command_says_what_is_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "shift.tide").write_text(RACY, encoding="utf-8")
    ran = tidegate_command("draw", "shift.tide", "-o", "shift.html", "--trace", "shift.json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "as given: 0 barriers, not proved" in ran.stdout
    assert "synchronized: 1 barrier, proved" in ran.stdout
    assert (tmp_path / "shift.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    events = json.loads((tmp_path / "shift.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {each["ph"] for each in events} == {"M", "X"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "out.png"), "only `.html` and `.svg` are"),
        ((), "no output file given"),
        (("-o", "nowhere/out.html"), "cannot be written"),
        (("-o", "out.html", "--size", "Q=1"), "has no size `Q`"),
        (("-o", "out.html", "--prefetch"), "`--prefetch` needs `--strategy`"),
    ],
)
def test_what_cannot_be_drawn(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "shift.tide").write_text(RACY, encoding="utf-8")
    ran = tidegate_command("draw", "shift.tide", *words, cwd=tmp_path)
    assert ran.returncode == 2
    assert said in ran.stderr


# --- notebooks ----------------------------------------------------------------------------------------------------


def test_notebooks_show_kernels_plans_findings_and_results() -> None:
    kernel = tidegate.parse(RACY).kernels[0]
    assert "kernel @shift" in kernel._repr_html_()
    assert "&lt;4x64xf32" in kernel._repr_html_()
    found = tidegate.check(kernel)
    assert found._repr_html_().count("<pre") == len(found) == 2
    assert "error[TG101]" in found._repr_html_()
    result = tidegate.sync(kernel)
    assert re.search(r"<span[^>]*>\s*shared_memory_barrier", result._repr_html_())
    assert "proved" in result._repr_html_()
    assert "insert shared_memory_barrier before" in result.plan._repr_html_()
    assert "RAW" in result.plan._repr_html_()
    shown = tidegate.check(result.kernel)._repr_html_()
    assert shown.startswith('<p style="color: #2c8a4b">no findings</p><p>proved: ')
    assert "weight" in tidegate.explain(result.kernel)._repr_html_()
    assert tidegate.draw(kernel)._repr_html_().startswith("<iframe srcdoc=")


def test_a_kernel_without_a_file_is_drawn_with_lines_of_its_own() -> None:
    kernel = tidegate.parse(RACY).kernels[0]
    program = tidegate.draw(kernel).data["programs"][0]
    assert any("local_write" in text for _, text in program["lines"])


# --- the demo -----------------------------------------------------------------------------------------------------


class _Listener:
    """Hears what the demo says."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.rows: list[list[str]] = []
        self.codes: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def program(self, text: str, before: str = "") -> None:
        self.said.append(text)

    def findings(self, findings: Sequence[Finding], sources: Sources) -> None:
        self.codes += [each.code for each in findings]

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        self.rows += [list(row) for row in rows]


@pytest.mark.slow
def test_the_demo_goes_as_told_and_its_page_is_the_one_in_the_documentation(tmp_path: Path, update: bool) -> None:
    heard = _Listener()
    assert run_demo(heard, tmp_path / "demo.html") == 0
    assert heard.codes == ["TG101"]
    _, given, *made = heard.rows
    assert given[-1].endswith("races")
    assert [row[-1] for row in made] == ["proved"] * 3
    assert "signal -1" in "".join(heard.said), "the second GPU has split pairs"
    as_given, synchronized, pingpong = (int(row[3].replace(",", "")) for row in (given, made[0], made[2]))
    assert as_given < pingpong < synchronized, "barriers cost something, and ping-pong gives some of it back"
    page = (tmp_path / "demo.html").read_text(encoding="utf-8")
    if update:
        (ROOT / "docs/demo.html").write_text(page, encoding="utf-8")
    assert page == (ROOT / "docs/demo.html").read_text(encoding="utf-8")
