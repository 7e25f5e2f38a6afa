"""Accesses that all waves carry out as one: no two waves conflict in one execution, and they may in two."""

from __future__ import annotations

import pytest

from tidegate.graph.builder import GraphBuilder
from tidegate.graph.model import Access, Footprint, Ref, SyncGraph
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.index import Name
from tidegate.language.ops import SharedMemoryBarrier
from tidegate.simulate.judge import judge
from tidegate.synchronize import synchronize_graph
from tidegate.targets import load_target
from tidegate.verify.verify import verify

TARGET = load_target("gfx942")


def whole(effect: str, *, as_one: bool) -> Access:
    return Access(effect, Footprint(Ref("%a"), (), 256), as_one=as_one)


def once(*, as_one: bool) -> SyncGraph:
    """All waves write the same bytes in one operation."""
    b = GraphBuilder("once", waves=4, lanes="one")
    b.buffer("%a", 256)
    b.add(whole("write", as_one=as_one))
    return b.finish()


def again(*, barrier: bool) -> SyncGraph:
    """The same, each time round a loop."""
    b = GraphBuilder("again", waves=4, lanes="one")
    b.buffer("%a", 256)
    b.size("N", 4)
    with b.loop("%k", 0, Name("N")):
        b.add(whole("write", as_one=True))
        if barrier:
            b.sync(SharedMemoryBarrier())
    return b.finish()


@pytest.mark.parametrize("as_one", [True, False])
def test_one_execution(as_one: bool) -> None:
    """Only where each wave is on its own is the same byte written twice at once."""
    graph = once(as_one=as_one)
    assert verify(graph, TARGET).is_proved is as_one
    assert bool(judge(graph, TARGET).findings) is not as_one


@pytest.mark.parametrize("barrier", [True, False])
def test_two_executions(barrier: bool) -> None:
    """A wave that is ahead may write for the next time what another still writes for this time."""
    graph = again(barrier=barrier)
    assert verify(graph, TARGET).is_proved is barrier
    assert bool(judge(graph, TARGET).findings) is not barrier


def test_sync_orders_executions_and_nothing_else() -> None:
    placed = synchronize_graph(once(as_one=True), TARGET)
    assert not placed.plan.edits
    assert not placed.unplaced
    placed = synchronize_graph(again(barrier=False), TARGET)
    assert len(placed.plan.edits) == 1
    assert not placed.unplaced


def test_text() -> None:
    graph = once(as_one=True)
    text = show_graph(graph)
    assert "as_one" in text
    assert parse_graph(text) == graph
