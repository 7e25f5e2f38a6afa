"""Tidegate's own clusters in a trace: products in groups, memory work between them, two halves of the waves in turns.

Needs   a loop of a trace and its operations by phase
Gives   the trace with its body in the new order, barriers between phases, priorities, and the stagger
Keeps   every dependence of the body; barriers drain nothing: what has to be performed at them, placement adds
Cost    linear in the nodes

    low half     reads      products   writes     products
    high half               reads      products   writes     products
                 phase 0    phase 1    phase 2    phase 3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from tidegate.hosts.wave.dropin.schedule_kept import put_in_order
from tidegate.hosts.wave.dropin.schedule_loop import Loop, Step
from tidegate.scheduling.clusters import WAYS, Arranger, Way
from tidegate.scheduling.model import Declined

Phases = tuple[tuple[Step, ...], ...]
FETCHES = ("global_read", "copy")


def arrange_loop(loop: Loop, clusters: int, ways: Sequence[Way] = WAYS) -> list[Phases] | str:
    """All ways to arrange a loop in so many clusters that differ, or why there is none."""
    found: dict[Phases, None] = {}
    refused: list[Declined] = []
    for arranger, way in product((Arranger, _Spreading), ways):
        phases = arranger(loop.steps, loop.work, clusters, loop.edges).run(way)
        if isinstance(phases, Declined):
            refused.append(phases)
        else:
            found.setdefault(phases)
    if found:
        return list(found)
    if any(each.reason == "not-pipelined" for each in refused):
        return f"the loop does not fetch ahead: {refused[0].says}"
    return refused[0].says


class _Spreading(Arranger[Step]):
    """What is fetched for a later iteration is shared among the memory phases in which it can be."""

    def choose(self, piece: Step, way: Way) -> int:
        first = super().choose(piece, way)
        if piece.role not in FETCHES:
            return first
        fetches = [step.number for step in self.pieces if step.role in FETCHES]
        last = self.latest[piece.number]
        if any(self.pieces[edge.later].role == "local_write" for edge in self.behind[piece.number]):
            last -= 2  # a wave does not wait at once for what it fetches
        phases = range(first, last + 1, 2) or (first,)
        return phases[fetches.index(piece.number) * len(phases) // len(fetches)]


def put_clusters(trace: Any, constraints: Any, loop: Loop, phases: Phases) -> None:
    """Changes the trace."""
    from wave_lang.kernel.wave.schedule_reordering import add_conditional_barriers_to_loop
    from wave_lang.kernel.wave.utils.general_utils import get_hardware_constraint

    steps = [step for phase in phases for step in phase]
    place = {step.number: at for at, step in enumerate(steps)}
    assert all(place[edge.first] < place[edge.later] for edge in loop.edges), "a dependence is reversed"
    ends = {op: [node for node in loop.graph.nodes if node.op == op] for op in ("placeholder", "output")}
    put_in_order(loop.graph, [*ends["placeholder"], *(step.node for step in steps), *ends["output"]])
    for number, following in enumerate(_following(phases, ends["output"][0])):
        _hand_over(number, following, loop.node.location)
    custom, hardware = _custom(loop.node), get_hardware_constraint(constraints)
    with loop.node.graph.inserting_before(loop.node):
        _put("SharedMemoryBarrier", loop.node.graph, loop.node.location, loop.copies)
    add_conditional_barriers_to_loop(custom, trace, hardware)


def _following(phases: Phases, output: Any) -> Iterator[Any]:
    """For each phase the node that comes after it."""
    for number in range(len(phases)):
        rest = (step.node for phase in phases[number + 1 :] for step in phase)
        yield next(rest, output)


def _hand_over(number: int, following: Any, location: Any) -> None:
    """Behind a phase: a barrier, a fence for later compilers, and the priority of what follows."""
    graph = following.graph
    is_matrix = number % 2 == 1
    with graph.inserting_before(following):
        if is_matrix:
            _put("SetWavePrio", graph, location, 0)
        _put("WorkgroupBarrier", graph, location)
        _put("SchedulingBarrier", graph, location, [])
        if not is_matrix:
            _put("SetWavePrio", graph, location, 1)


def _put(name: str, graph: Any, location: Any, *args: Any) -> None:
    from wave_lang.kernel.ops import wave_ops

    getattr(wave_ops, name)(*args).add_to_graph(graph, loc=location)


def _custom(node: Any) -> Any:
    from wave_lang.kernel.ops.wave_ops import get_custom

    return get_custom(node)
