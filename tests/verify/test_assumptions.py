"""What a proof assumes is printed with it: for each assumption a program that uses it, and one that does not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.assumptions import ALL, OF_HOSTS, PAGE, Assumption, find_assumptions, show_assumptions
from tidegate.cli import main
from tidegate.decided import show_decided
from tidegate.graph.build import build_graph
from tidegate.graph.model import Access
from tidegate.graph.parse import parse_graph
from tidegate.hosts import dropin
from tidegate.language.parse import parse
from tidegate.passes import check_session
from tidegate.report.program import verdict_of
from tidegate.session import Session, pick_target
from tidegate.targets import load_target
from tidegate.verify.verify import verify

HEAD = "kernel @k(%X: global<4x64xf32>, %Y: global<4x64xf32>, %I: global<4x64xi32>) waves 4 {\n"
ALLOC = "  %a = alloc : lds<4x64xf32>\n"
READ = "  %x = global_read %X[wave, 0] : tile<64xf32>\n"
WRITE = "  %z = fill 0.0 : tile<64xf32>\n  local_write %z, %a[wave, 0]\n"
OUT = "  global_write %x, %Y[wave, 0]\n"
BARRIER = "  shared_memory_barrier\n"
BACK = "  %b = local_read %a[wave, 0] : tile<64xf32>\n"
ADD = "  %z = fill 1 : tile<64xf32>\n  atomic_add %z, %a[0, 0]\n"
SCATTER = (
    "  %i = global_read %I[wave, 0] : tile<64xi32>\n  %z = fill 0.0 : tile<64xf32>\n"
    "  conditional wave == 0 {\n    local_write %z, %a[0, inexact(%i)]\n  }\n"
)

# For each: the body of a kernel that uses it, and of one that does not.
KERNELS = {
    "no-alias": (READ + OUT + BARRIER, READ + BARRIER),
    "compiler-order": (ALLOC + WRITE + BARRIER + BACK, ALLOC + WRITE),
    "lane-map": (ALLOC + WRITE + BACK, ALLOC + WRITE + BARRIER + BACK),
    "in-range": (ALLOC + SCATTER, ALLOC + WRITE),
    "float-sums": (ALLOC + ADD, ALLOC.replace("f32", "i32") + ADD.replace("f32", "i32")),
    "scatter": (ALLOC + SCATTER, ALLOC + SCATTER.replace("local_write", "atomic_add")),
}


def used_by(text: str, target: str = "gfx942") -> list[str]:
    (kernel,) = parse(text).kernels
    facts = load_target(target)
    return [each.id for each in find_assumptions(build_graph(kernel, facts).graph, facts, kernel=kernel)]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_uses_it_and_one_that_does_not(name: str) -> None:
    uses, does_not = KERNELS[name]
    assert name in used_by(HEAD + uses + "}")
    assert name not in used_by(HEAD + does_not + "}")


def test_conditions_on_sizes() -> None:
    text = "kernel @k(%X: global<Nxf32>) sizes(N = 64) where(N mod 4 == 0) waves 4 { workgroup_barrier }"
    assert used_by(text) == ["where"]
    assert used_by(text.replace("where(N mod 4 == 0) ", "")) == []


def test_named_barriers_on_a_target_that_says_nothing_about_the_end_of_a_wave() -> None:
    text = HEAD + "  %n = new_barrier : named_barrier<4>\n  signal %n\n  wait %n\n}"
    assert used_by(text, "sm_90") == ["named-wave-end"]
    assert load_target("gfx1250").barrier.named_wave_end == "hangs"
    assert used_by(text, "gfx1250") == []


def test_a_kernel_with_nothing_to_order_assumes_nothing() -> None:
    assert used_by(HEAD + READ + OUT + "}") == []


@pytest.mark.parametrize("meeting", ["workgroup_barrier", "shared_memory_barrier", "fence wave"])
def test_a_meeting_of_the_lanes_ends_what_leans_on_their_map(meeting: str) -> None:
    assert "lane-map" not in used_by(f"{HEAD}{ALLOC}{WRITE}  {meeting}\n{BACK}}}")
    assert "lane-map" in used_by(f"{HEAD}{ALLOC}{WRITE}  wait_count lgkmcnt(0)\n{BACK}}}")


def test_a_meeting_on_one_path_only_is_none() -> None:
    text = f"{HEAD}{ALLOC}{WRITE}  conditional wg0 == 0 {{\n    workgroup_barrier\n  }}\n{BACK}}}"
    assert "lane-map" in used_by(text)


@pytest.mark.parametrize(
    ("back", "leans"),
    [
        ("local_read %a[wave, 0] : tile<64xf32>", True),
        ("local_read %a[wave, 64] : tile<64xf32>", False),
        ("local_read %c[wave, 0] : tile<64xf32>", False),
    ],
)
def test_only_a_pair_that_shares_bytes_leans_on_the_map(back: str, leans: bool) -> None:
    """It was printed for accesses of one buffer that never touch the same byte."""
    rows = "  %a = alloc : lds<4x128xf32>\n  %c = alloc : lds<4x64xf32>\n"
    (kernel,) = parse(f"{HEAD}{rows}{WRITE}  %b = {back}\n}}").kernels
    checked = check_session(Session("k", load_target("gfx942"), kernel, None))
    assert checked.is_proved
    assert ("lane-map" in {each.id for each in checked.assumptions}) == leans


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.tide")), ids=lambda path: path.stem)
def test_a_proof_that_does_not_lean_on_the_map_holds_without_it(path: Path) -> None:
    """Nothing is known of lanes then, and each wave's accesses to one byte count as those of two lanes."""
    for kernel in parse(path.read_text(encoding="utf-8"), str(path)).kernels:
        target = pick_target(kernel.target, None)
        graph = build_graph(kernel, target).graph
        found = verify(graph, target)
        if not found.is_proved or found.leans_on_lanes:
            continue
        points = tuple(
            replace(each, action=replace(each.action, lanes="")) if isinstance(each.action, Access) else each
            for each in graph.points
        )
        assert verify(replace(graph, points=points), target).is_proved


def test_a_graph_is_launched_as_it_says(tmp_path: Path) -> None:
    text = (ROOT / "tests" / "golden" / "graph" / "wave_private.sync").read_text(encoding="utf-8")
    graph = parse_graph(text, "wave_private.sync")
    found = {each.id for each in find_assumptions(graph, load_target(graph.target))}
    assert "launch" in found
    assert "lane-map" not in found, "the lanes of a graph are its own"
    assert "in-range" in {each.id for each in find_assumptions(graph, load_target(graph.target), in_range=False)}


def test_values_that_are_declared_equal() -> None:
    from tidegate.graph import model as g

    def graph(action: g.Action, following: tuple[int, ...], under: str = "uniform") -> g.SyncGraph:
        foot = g.Footprint(g.Ref("%a"), (), 4)
        points = (
            g.Point(action, following),
            g.Point(g.Access("read", foot), (2,), under=under),
            g.Point(g.End(), ()),
        )
        return g.SyncGraph("k", "gfx942", 2, points, (g.Program(0, 0, 2),), (g.Buffer("%a", 64),))

    def is_used(found: g.SyncGraph) -> bool:
        return "uniform" in {each.id for each in find_assumptions(found, load_target("gfx942"))}

    assert is_used(graph(g.Havoc(("%n",), agree=True), (1,)))
    assert not is_used(graph(g.Havoc(("%n",)), (1,)))
    assert is_used(graph(g.Branch(None), (1, 2)))
    assert not is_used(graph(g.Branch(None), (1, 2), under="per_wave"))


# --- where it is said ---------------------------------------------------------------------------------------------

PROVED = f"target gfx942\n{HEAD}{ALLOC}{READ}  local_write %x, %a[wave, 0]\n{BARRIER}{BACK}{OUT}}}\n"
LINE = "assuming: global buffers do not alias; the compiler keeps the order (docs/assumptions.md)"


def checked_of(text: str) -> tuple[Session, str]:
    (kernel,) = parse(text).kernels
    unit = Session(kernel.name, load_target(kernel.target), kernel, None)
    return unit, show_decided(check_session(unit))


def test_one_line_below_the_proof() -> None:
    _, said = checked_of(PROVED)
    assert said.splitlines()[1:] == [LINE]


def test_a_race_assumes_nothing() -> None:
    _, said = checked_of(PROVED.replace(BARRIER, "").replace("%a[wave, 0] : tile", "%a[3 - wave, 0] : tile"))
    assert said.startswith("not proved")
    assert "assuming" not in said


# Which phase a wait is for is no affine function of anything.
SQUARE = """target sm_90
kernel @square(%X: global<2x64xf32>, %Y: global<2x64xf32>, %p: index) waves 2 {
  %a = global_read %X[wave] : tile<64xf32>
  global_write %a, %Y[wave]
  %done = new_barrier : mbarrier<2>
  mbarrier_arrive %done
  mbarrier_wait %done parity inexact(%p * %p + %p) mod 2
}
"""


def test_a_verdict_of_the_simulator_has_it_too() -> None:
    _, said = checked_of(SQUARE)
    assert said.startswith("not proved: barrier objects: ")
    assert "assuming: " in said.splitlines()[-1]


def test_the_page_of_a_drawing_says_it() -> None:
    (kernel,) = parse(PROVED).kernels
    unit = Session(kernel.name, load_target("gfx942"), kernel, None)
    verdict = verdict_of(check_session(unit))
    assert verdict["kind"] == "proved"
    assert LINE in str(verdict["text"])


@pytest.mark.parametrize("command", ["check --json", "check --sarif", "sync --json"])
def test_a_list_in_every_document(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.tide").write_text(PROVED)
    first, *flags = command.split()
    monkeypatch.setattr("sys.argv", ["tidegate", first, str(tmp_path / "k.tide"), *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    if flags == ["--sarif"]:
        (verified,) = document["runs"][0]["properties"]["verified"]
    elif first == "sync":
        verified = document["programs"][0]["verified"]
    else:
        (verified,) = document["verified"]
    assert [each["id"] for each in verified["assumptions"]] == ["no-alias", "compiler-order"]
    assert verified["assumptions"][0]["page"] == f"{PAGE}#no-alias"
    assert verified["assumptions"][0]["meaning"].endswith(".")


def test_the_reports_of_drop_ins_have_the_list() -> None:
    class Entry:
        def lines(self) -> list[str]:
            return []

    log: dropin.Log = dropin.Log()
    assert log.report().assumptions == []
    log.add(Entry())
    assert [each["id"] for each in log.report().assumptions] == [each.id for each in OF_HOSTS]


# --- the page -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assumption", ALL, ids=lambda each: each.id)
def test_each_has_a_section_that_answers_four_questions(assumption: Assumption) -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    section = re.search(rf"(?ms)^## {assumption.id}\n(.*?)(?=^## |\Z)", page)
    assert section, f"no heading `{assumption.id}`"
    for word in ("**Means**", "**False**", "**Consequence**", "**Check**"):
        assert word in section[1]
    assert f"| [`{assumption.id}`](#{assumption.id}) | {assumption.text} |" in page


def test_names_stay_and_are_told_apart() -> None:
    assert len({each.id for each in ALL}) == len({each.text for each in ALL}) == len(ALL)
    assert show_assumptions(()) == ""
    longest = max(len(each.text) for each in ALL)
    assert longest <= 32, "the line below a proof is short"
