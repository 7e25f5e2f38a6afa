"""Threads that end early, and what they leave behind.

Needs   nodes with their steps, and where threads end while others go on
Gives   those ends behind which others still meet, and before which shared memory was touched with no meeting between
Keeps   conservative: a copy counts wherever it stands before, since its thread may never have waited for it
Cost    linear in the nodes for each end

A barrier lets threads go on that have not ended (PTX ISA 9.7.12, `exit`); nothing says that it performs the accesses of
those that have.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.graph.model import invert
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.model import Op, Touch


def find_endings(nodes: list[n.Node], ends: list[tuple[n.Node, int, Op]]) -> Iterator[Op]:
    if not ends:
        return
    number = {id(node): place for place, node in enumerate(nodes)}
    after = [[edge.node for edge in node.edges] for node in nodes]
    before = invert(after)
    for node, place, op in ends:
        start = number[id(node)]
        if _meets_later(nodes, after, start, place) and _touched_before(nodes, before, start, place):
            yield op


def _meets_later(nodes: list[n.Node], after: list[list[int]], start: int, place: int) -> bool:
    if any(isinstance(step, n.Barrier | n.Fence) for step in nodes[start].steps[place:]):
        return True
    seen, stack = set[int](), list(after[start])
    while stack:
        each = stack.pop()
        if each not in seen:
            seen.add(each)
            if any(isinstance(step, n.Barrier | n.Fence) for step in nodes[each].steps):
                return True
            stack.extend(after[each])
    return False


def _touched_before(nodes: list[n.Node], before: list[list[int]], start: int, place: int) -> bool:
    stack: list[tuple[int, bool]] = []
    found, met = _in(nodes[start].steps[:place], False)
    if found:
        return True
    stack += [(each, met) for each in before[start]]
    seen: set[tuple[int, bool]] = set()
    while stack:
        each, met = stack.pop()
        if (each, met) in seen:
            continue
        seen.add((each, met))
        found, behind = _in(nodes[each].steps, met)
        if found:
            return True
        stack += [(previous, behind) for previous in before[each]]
    return False


def _in(steps: list[n.Step], met: bool) -> tuple[bool, bool]:
    """Whether something of these steps, seen backwards, is open; and whether the threads have met before them."""
    for step in reversed(steps):
        if isinstance(step, n.Barrier):
            met = True
        elif isinstance(step, n.Access):
            touch = step.op.action
            if not met or not isinstance(touch, Touch) or touch.is_async:
                return True, met
    return False, met
