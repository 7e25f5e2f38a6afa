"""Barriers and weight mean one thing: every command counts alike, and as one would by hand."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.cli.explain import program_to_json
from tidegate.cli.sync_report import report, to_json
from tidegate.diag import Sources
from tidegate.explanation.stages import explain
from tidegate.files import load, load_text
from tidegate.graph.barriers import tally
from tidegate.graph.build import build_graph
from tidegate.graph.parse import parse_graph
from tidegate.placement.pieces import find_pieces
from tidegate.report.build import Asked, build_report
from tidegate.session import Session, sessions_of
from tidegate.synchronize import Synchronized, SyncOptions, propose
from tidegate.synchronize.choose import compare

EXAMPLES = sorted((ROOT / "examples").glob("*.tide"))
# Several seconds each, for the changed programs that `explain` tries.
LONG = (
    "attention_async gemm_async_four_slots gemm_async_store gemm_async_two_slots gemm_cp_async gemm_gather "
    "gemm_mbarrier gemm_pingpong gemm_split gemm_tdm gemm_three_slots"
).split()
SOME = [pytest.param(each, id=each.stem, marks=[pytest.mark.full] if each.stem in LONG else []) for each in EXAMPLES]
DRAWN = "gemm_one_slot histogram softmax".split()
BARRIER = re.compile(r"^\s*(?:workgroup_barrier|shared_memory_barrier|signal)\b")


def unit_of(path: Path) -> Session:
    (unit,) = sessions_of(load(str(path)), None)
    return unit


def counted(text: str) -> tuple[int, float]:
    """`2 barriers, ... weight 17` in a line of a report."""
    found = re.search(r"(\d+) barriers?,(?: \d+ needed,)? weight ([\d.]+)", text)
    assert found, text
    return int(found[1]), float(found[2])


def in_json(result: Synchronized) -> dict[str, object]:
    (program,) = to_json("k.tide", None, "", [result], [])["programs"]  # type: ignore[misc]
    assert isinstance(program, dict)
    return program


# --- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_barriers_are_those_that_stand_in_the_text(path: Path) -> None:
    """Every trip count of an example is unknown or stated: a loop weighs 16, or what it says."""
    unit = unit_of(path)
    assert unit.kernel is not None
    lines = path.read_text(encoding="utf-8").splitlines()
    barriers = [number for number, line in enumerate(lines) if BARRIER.match(line)]
    depth, in_loops, loops = 0, 0, []
    for number, line in enumerate(lines):
        if number in barriers:
            in_loops += bool(loops)
        if re.match(r"\s*(?:%\w+(?:, %\w+)* = )?iterate\b", line):
            loops.append(depth)
        depth += line.count("{") - line.count("}")
        while loops and depth <= loops[-1]:
            loops.pop()
    found = tally(build_graph(unit.kernel, unit.target).graph)
    assert (found.barriers, found.in_loops) == (len(barriers), in_loops)


SPLIT = """target gfx1201
kernel @k(%X: global<Nx64xf32>) sizes(N = 8) waves 4 {
  signal -1
  iterate %k in 0 .. N {
    wait -1
    wait_count dscnt(0)
    signal -1
  }
  wait -1
  fence wave
  shared_memory_barrier
}
"""


def test_a_pair_counts_once_and_waits_and_fences_do_not() -> None:
    (unit,) = sessions_of(load_text(SPLIT, "k.tide"), None)
    assert unit.kernel is not None
    found = tally(build_graph(unit.kernel, unit.target).graph)
    assert (found.barriers, found.in_loops, found.weight) == (3, 1, 18)
    assert str(found) == "3 barriers, weight 18"


CALLED = """graph @k target gfx942 waves 2
function @f entry 3
program entry 0 waves 0 .. 2
{
  0: call @f() -> 1
  1: call @f() -> 2
  2: end
  3: sync shared_memory_barrier -> 4
  4: return
}
"""


def test_a_barrier_in_a_function_weighs_as_much_as_its_calls() -> None:
    found = tally(parse_graph(CALLED, "k.sync"))
    assert (found.barriers, found.weight) == (1, 2)


# --- every command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_sync_counts_what_stands_and_what_it_inserts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    bare = re.sub(r"(?m)^ *(?:shared_memory_barrier|workgroup_barrier(?! pinned)|wait_count)\b.*\n", "", text)
    forced = SyncOptions(force_barriers=True, judge=False)
    for given, options in product((text, bare), (SyncOptions(judge=False), forced)):
        (unit,) = sessions_of(load_text(given, "k.tide"), None)
        result = propose(unit, options)
        assert result.after is not None
        assert result.graph is not None
        before, after = tally(result.graph), tally(result.after)
        program = in_json(result)
        assert program["tally"] == {"barriers": after.barriers, "in_loops": after.in_loops, "weight": after.weight}
        lines = [line for line in report(result) if "barrier" in line and "weight" in line and "note" not in line]
        assert [counted(line) for line in lines] == [(after.barriers, after.weight)] * bool(after.barriers)
        if result.placed is not None:
            assert program["weight"] == result.placed.weight == after.weight - before.weight


@pytest.mark.parametrize("path", SOME)
def test_explain_and_advice_count_alike(path: Path) -> None:
    unit = unit_of(path)
    result = explain(unit)
    assert result.graph is not None
    found = tally(result.graph)
    assert counted(result.text.splitlines()[0]) == (found.barriers, found.weight)
    document = program_to_json(result)
    assert document["tally"] == {"barriers": found.barriers, "in_loops": found.in_loops, "weight": found.weight}
    parts = [each for each in result.barriers if each.tally.barriers]
    assert sum(each.tally.barriers for each in parts) == found.barriers
    assert sum(each.tally.weight for each in parts) == sum(each.weight for each in parts) == found.weight
    pieces = [each for each in find_pieces(result.graph) if each.tally.barriers]
    assert sum(each.weight for each in pieces) == found.weight
    printed = re.findall(r"(?m)^lines? .*, weight ([\d.]+)", result.text)
    assert sum(map(float, printed)) == found.weight
    for note in compare(result.graph, unit.target):
        assert "barrier" not in note or counted(note)


@pytest.mark.parametrize("name", DRAWN)
def test_the_page_counts_alike(name: str) -> None:
    unit = unit_of(ROOT / "examples" / f"{name}.tide")
    assert unit.kernel is not None
    found = tally(build_graph(unit.kernel, unit.target).graph)
    page = build_report(unit, Sources(), Asked()).data["programs"][0]
    figures = page["figures"]
    assert (figures["barriers"], figures["in loops"], figures["weight"]) == (
        found.barriers,
        found.in_loops,
        found.weight,
    )
    costs = [re.match(r"weight ([\d.]+)$", each["costs"]) for each in page["barriers"]]
    assert sum(float(each[1]) for each in costs if each is not None) == found.weight
