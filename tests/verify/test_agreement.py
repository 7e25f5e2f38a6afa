"""What is redundant, and how loose a wait may be: the verifier, advice, `explain` and `sync` give one answer.

A barrier of a program that is proved is *redundant* if the program without it is proved. `explain` says so of each,
advice names it, or another that could go in its place, and `sync --remove-redundant` removes redundant barriers one
after the other, in the order of advice, until none is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.advice import Advice, advise
from tidegate.advice.trials import Edits
from tidegate.advice.weaker import with_count
from tidegate.explanation.model import Explained
from tidegate.explanation.show import Sayings
from tidegate.explanation.stages import explain
from tidegate.files import load
from tidegate.graph import model as g
from tidegate.graph.apply import apply_plan
from tidegate.graph.barriers import is_barrier, tally
from tidegate.graph.build import build_graph
from tidegate.graph.plan import Delete, Insert, Plan
from tidegate.language.ops import SharedMemoryBarrier, WaitCount
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.passes import check_session
from tidegate.placement.groups import STAGGER
from tidegate.placement.pieces import Piece, find_pieces, removal_order
from tidegate.placement.stores import find_stores, waits_for
from tidegate.session import Session, sessions_of
from tidegate.synchronize import SyncOptions, propose
from tidegate.synchronize.redundant import can_go
from tidegate.targets import Target
from tidegate.verify.prover import Prover
from tidegate.verify.verify import is_ordered, verify

EXAMPLES = sorted((ROOT / "examples").glob("*.tide"))
BROKEN = sorted((ROOT / "examples" / "broken").glob("*.tide"))
FIXED = sorted((ROOT / "examples" / "broken" / "fixed").glob("*.tide"))
# Several seconds each, for the changed programs that `explain` and advice try.
LONG = (
    "attention_async gemm_async_four_slots gemm_async_store gemm_async_two_slots gemm_cp_async gemm_gather "
    "gemm_mbarrier gemm_pingpong gemm_split gemm_tdm gemm_three_slots masked_tail tail_mask_too_wide"
).split()


def some(paths: list[Path]) -> list[object]:
    marked = ((each, [pytest.mark.full] if each.stem in LONG else []) for each in paths)
    return [pytest.param(each, id=each.stem, marks=marks) for each, marks in marked]


def still_proved(graph: g.SyncGraph, target: Target, edits: Edits) -> bool:
    return is_ordered(Prover(graph, target).edited(edits, {}).graph, target)  # from nothing


def unit_of(path: Path) -> Session:
    (unit,) = sessions_of(load(str(path)), None)
    return unit


def graph_of(unit: Session) -> g.SyncGraph:
    if unit.kernel is None:
        assert unit.graph is not None
        return unit.graph
    return build_graph(unit.kernel, unit.target).graph


def with_more(unit: Session) -> Iterator[Session]:
    """The program with one barrier too many: beside each that stands in it, and before its first access."""
    assert unit.kernel is not None
    built = build_graph(unit.kernel, unit.target)
    graph = built.graph
    barriers = [number for number, point in enumerate(graph.points) if is_barrier(point.action)]
    accesses = [number for number, point in enumerate(graph.points) if isinstance(point.action, g.Access)]
    for place in dict.fromkeys((*barriers[:3], *accesses[:1])):
        point = graph.points[place]
        if point.insertable and point.under == "uniform":
            text = show(apply_plan(Plan((Insert(place, SharedMemoryBarrier()),)), built))
            yield replace(unit, kernel=parse(text, f"{unit.name}.tide").kernels[0])


# --- what each of them says -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pieces:
    graph: g.SyncGraph
    target: Target

    @property
    def all(self) -> list[Piece]:
        return find_pieces(self.graph)

    def without(self, *gone: Piece) -> bool:
        points = dict.fromkeys(point for each in gone for point in each.points)
        return still_proved(self.graph, self.target, points)

    @property
    def redundant(self) -> set[tuple[int, ...]]:
        """By the verifier: each that can go alone."""
        return {each.points for each in self.all if self.without(each)}

    @property
    def removed(self) -> set[int]:
        """By the verifier: barriers that go one after the other."""
        gone: list[Piece] = []
        for piece in sorted(self.all, key=lambda each: removal_order(each, self.graph)):
            if can_go(piece, self.graph) and not self.stores(piece) and self.without(*gone, piece):
                gone.append(piece)
        return {point for each in gone for point in each.points}

    def stores(self, piece: Piece) -> bool:
        """Whether it waits for stores, of which nothing is known here."""
        found = find_stores(self.graph)
        actions = [self.graph.points[point].action for point in piece.points]
        return any(waits_for(each.op, found) for each in actions if isinstance(each, g.Sync))


def said_by_advice(advice: Advice) -> set[tuple[int, ...]]:
    """What it says can go, alone or instead of another."""
    alone = [each for each in advice.less if each.op is None and not each.along]
    return {piece.points for each in alone for piece in (each.piece, *each.or_else)}


def said_by_explain(result: Explained) -> set[tuple[int, ...]]:
    return {each.points for each in result.barriers if not each.is_needed}


def removed_by_sync(unit: Session) -> set[int]:
    plan = propose(unit, SyncOptions(remove_redundant=True, judge=False)).plan
    assert all(isinstance(each, Delete) for each in plan.edits)
    return {each.point for each in plan.edits if isinstance(each, Delete)}


def agree(unit: Session) -> int:
    """Of one program that is proved as it is; how many redundant pieces it has."""
    pieces = Pieces(graph_of(unit), unit.target)
    checked = check_session(unit)
    redundant, advice = pieces.redundant, advise(checked)
    assert said_by_explain(explain(unit)) == redundant
    free = {each.points for each in pieces.all if not (each.pinned or each.kind == STAGGER or pieces.stores(each))}
    assert said_by_advice(advice) & free == redundant & free
    gone = {point for each in advice.less if each.code == "TG401" for point in each.piece.points}
    assert removed_by_sync(unit) == pieces.removed == gone
    return len(redundant)


# --- programs that are right ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", some([*EXAMPLES, *FIXED]))
def test_all_say_the_same_of_every_barrier(path: Path) -> None:
    unit = unit_of(path)
    if not verify(graph_of(unit), unit.target).is_proved:
        pytest.skip("the verifier does not decide it, and runs take its place")
    agree(unit)


@pytest.mark.parametrize("path", some(EXAMPLES))
def test_all_say_the_same_where_a_barrier_is_too_many(path: Path) -> None:
    programs = [each for each in with_more(unit_of(path)) if is_ordered(graph_of(each), each.target)]
    assert programs or path.stem in ("gemm_mbarrier", "gemm_pingpong")
    for each in programs:
        assert agree(each)


@pytest.mark.parametrize("path", some([*EXAMPLES, *FIXED]))
def test_no_count_could_be_larger_unless_advice_says_so(path: Path) -> None:
    unit = unit_of(path)
    graph, checked = graph_of(unit), check_session(unit)
    if not is_ordered(graph, unit.target):
        pytest.skip("the verifier does not decide it, and runs take its place")
    waits = [
        (number, point.action.op, name, count)
        for number, point in enumerate(graph.points)
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, SharedMemoryBarrier | WaitCount)
        for name, count in point.action.op.counts
    ]
    if not waits:
        return
    stores = find_stores(graph)
    advice = advise(checked)
    known = {point for each in advice.less for point in each.piece.points}
    for each in advice.less:
        if each.code == "TG405":  # the count that it names is enough, beside all else that it says
            followed = {point: less.op for less in advice.less if not less.along for point in less.piece.points}
            assert still_proved(graph, unit.target, followed)
    for number, op, name, count in waits:
        if count < unit.target.counters[name].largest and not waits_for(op, stores):
            looser = still_proved(graph, unit.target, {number: with_count(op, name, count + 1)})
            assert number in known or not looser, f"line {graph.points[number].at.line}: {name}({count + 1})"


# --- programs that are wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", some(BROKEN))
def test_nothing_is_called_redundant_in_a_program_that_is_wrong(path: Path) -> None:
    unit = unit_of(path)
    checked = check_session(unit)
    wrong = any(each.severity == "error" for each in checked.findings)
    assert wrong
    assert advise(checked).why_not
    result = explain(unit)
    if result.graph is not None:
        sayings = Sayings(result, result.graph)
        said = [text for each in result.barriers for word, text in sayings.rows(each) if word == "without"]
        assert not any("redundant" in each for each in said)


@pytest.mark.parametrize("path", some(BROKEN))
def test_what_sync_makes_of_a_wrong_program_has_no_redundant_barrier(path: Path) -> None:
    made = propose(unit_of(path), SyncOptions(remove_redundant=True, judge=False))
    if made.after is None or not is_ordered(made.after, made.unit.target):
        return  # no barrier mends it
    pieces = Pieces(made.after, made.unit.target)
    assert not pieces.removed
    assert tally(made.after).barriers == len([each for each in made.after.points if is_barrier(each.action)])
