"""Barrier objects at which all threads of a block meet: whether they can be taken for barriers.

Needs   explored nodes, who set which object up for how many arrivals
Gives   what is wrong with them, with its place; nothing if each wait can be taken for a barrier of the block
Keeps   an object is set up once, for as many arrivals as the block has threads, and not used before or behind its end;
        all threads arrive and wait together, and nothing stands between an arrival and the wait for its own phase
Cost    linear in the nodes, for each use of an object

So the n-th phase is over when all threads have arrived n times, and nobody arrives again before: a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.graph.model import reached_from
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.model import Op, UseObject


def find_misuse(nodes: list[n.Node], counts: dict[str, set[int | None]], threads: int) -> Iterator[tuple[Op, str]]:
    after = [[edge.node for edge in node.edges] for node in nodes]
    places: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for number, node in enumerate(nodes):
        for place, step in enumerate(node.steps):
            if isinstance(step, n.Arrives | n.Barrier | n.SetsUp) and (name := step.object):
                places.setdefault(name, {}).setdefault(type(step).__name__, []).append((number, place))
                if isinstance(step, n.Arrives | n.Barrier) and (why := _why_not(nodes, after, number, place)):
                    yield step.op, why
    for name, found in places.items():
        yield from _not_set_up(nodes, after, name, found, counts.get(name, set()), threads)


def _not_set_up(
    nodes: list[n.Node],
    after: list[list[int]],
    name: str,
    found: dict[str, list[tuple[int, int]]],
    counts: set[int | None],
    threads: int,
) -> Iterator[tuple[Op, str]]:
    uses = [*found.get("Arrives", ()), *found.get("Barrier", ())]
    if not uses:
        return
    op = nodes[uses[0][0]].steps[uses[0][1]].op
    set_up = found.get("SetsUp", [])
    inits = [each for each in set_up if _what(nodes, each) == "init"]
    if len(inits) != 1 or _reaches(after, inits[0], inits[0]):
        yield op, f"a barrier object in `{name}` that is not set up once"
    elif counts != {threads}:
        yield op, f"a barrier object in `{name}` for other than all threads of the block"
    elif any(_reaches(after, each, inits[0]) for each in uses):
        yield op, f"a barrier object in `{name}` that is used before it is set up"
    elif any(_reaches(after, end, each) for end in set_up if end not in inits for each in uses):
        yield op, f"a barrier object in `{name}` that is used behind its end"


def _what(nodes: list[n.Node], at: tuple[int, int]) -> str:
    action = nodes[at[0]].steps[at[1]].op.action
    return action.what if isinstance(action, UseObject) else ""


def _reaches(after: list[list[int]], one: tuple[int, int], other: tuple[int, int]) -> bool:
    if one[0] == other[0] and one[1] < other[1]:
        return True
    return other[0] in reached_from(after[one[0]], after)


def _why_not(nodes: list[n.Node], after: list[list[int]], number: int, place: int) -> str:
    """Of an arrival, what follows it; of a wait, what stands before it."""
    step = nodes[number].steps[place]
    if isinstance(step, n.Arrives):
        good = all(
            isinstance(each, n.Barrier) and (each.object, each.token) == (step.object, step.token)
            for each in _next(nodes, after, number, place)
        )
        return "" if good else "an arrival at a barrier object, behind which the thread does not wait for it at once"
    return "" if _follows_an_arrival(nodes, after, number, place) else "a wait at a barrier object without an arrival"


def _next(nodes: list[n.Node], after: list[list[int]], number: int, place: int) -> Iterator[n.Step | None]:
    """The first steps behind one, on all ways; None where a way ends."""
    steps = nodes[number].steps[place + 1 :]
    if steps:
        yield steps[0]
        return
    seen, stack = set[int](), list(after[number])
    if not stack:
        yield None
    while stack:
        each = stack.pop()
        if each in seen:
            continue
        seen.add(each)
        if nodes[each].steps:
            yield nodes[each].steps[0]
        elif after[each]:
            stack.extend(after[each])
        else:
            yield None


def _follows_an_arrival(nodes: list[n.Node], after: list[list[int]], number: int, place: int) -> bool:
    step = nodes[number].steps[place]
    assert isinstance(step, n.Barrier)
    if place:
        return _is_its_arrival(nodes[number].steps[place - 1], step)
    before: list[list[int]] = [[] for _ in nodes]
    for each, following in enumerate(after):
        for other in following:
            before[other].append(each)
    seen, stack = {number}, list(before[number])
    good = bool(stack)
    while stack and good:
        each = stack.pop()
        if nodes[each].steps:
            good = _is_its_arrival(nodes[each].steps[-1], step)
        elif each not in seen:
            good = bool(before[each])
            stack.extend(before[each])
        seen.add(each)
    return good


def _is_its_arrival(step: n.Step, wait: n.Barrier) -> bool:
    return isinstance(step, n.Arrives) and (step.object, step.token) == (wait.object, wait.token)
