"""Counts that let a copy go on which the wait names: written for another order of the program, or simply wrong.

Needs   a flow whose waits have counts and name copies
Gives   for each such wait and value the largest count that would do, where what stands there does not
Keeps   found by going forwards: what every name stands for at every node, with the least that has been issued since on
        any path; names that stand for nothing on a path are in no hurry there, nor copies that an earlier wait has seen
        complete. A wait without counts is taken to complete what its own names stand for, and no more
        the first trips of a loop are told apart, as many as are certain or possible; conditions are free
Cost    nodes and trips times names that are alive, until nothing changes; none without such waits

It shares nothing with the stage that makes counts, which goes backwards from each wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.flow import Flow, FlowLoop
from tidegate.language import ops
from tidegate.targets import Target

# name → counter and copy (a point) → the least that is younger
Alive = dict[str, dict[tuple[str, int], int]]
# Of a loop; beyond that trips are not told apart. As many as a counter tells, or fewer where states become too many.
MOST_TRIPS, MOST_STATES = (64, 8), 20_000
OPEN = -1  # in the place of that: a copy whose group is not closed


@dataclass(frozen=True, slots=True)
class Stale:
    """At `wait`, a count of `counter` that does not wait for `copy`. `count` None: nothing counts there; `safe` None:
    no count would do."""

    wait: int
    copy: int
    name: str
    counter: str
    count: int | None
    safe: int | None


def find_stale(flow: Flow, target: Target) -> list[Stale]:
    """Each wait, name and copy once, in the order of the program."""
    waits = [node for node in range(len(flow.origin)) if claims(flow.action(node))]
    if not waits:
        return []
    rules = _rules_of(flow.graph, target)
    alive = _solve(flow, rules)
    found: dict[Stale, None] = {}
    for node in waits:
        op = _waiting(flow.action(node))
        assert op is not None
        counts = _counts(op, rules)
        for dep in op.async_deps:
            for (counter, copy), younger in sorted(alive[node].get(dep.name, {}).items()):
                safe = rules.safe(counter, younger)
                count = counts.get(counter)
                if count is None or safe is None or count > safe:
                    found[Stale(flow.origin[node], copy, dep.name, counter, count, safe)] = None
    return list(found)


def claims(action: g.Action) -> bool:
    """Whether something waits by counts and says what for."""
    op = _waiting(action)
    if op is None or (isinstance(op, ops.SharedMemoryBarrier) and op.wait_async_ops):
        return False
    return bool(op.counts and op.async_deps)


def _waiting(action: g.Action) -> ops.SharedMemoryBarrier | ops.WaitCount | None:
    if isinstance(action, g.Sync) and isinstance(action.op, ops.SharedMemoryBarrier | ops.WaitCount):
        return action.op
    return None


@dataclass(frozen=True, slots=True)
class _Rules:
    """The facts of the target and of the program that decide what a count waits for."""

    largest: dict[str, int]  # of every counter
    groups: frozenset[str]
    in_turn: frozenset[str]
    lds: tuple[str, ...]

    def safe(self, counter: str, younger: int) -> int | None:
        if younger == OPEN:
            return None
        return min(younger, self.largest[counter]) if counter in self.in_turn else 0

    def completes(self, counter: str, count: int, younger: int) -> bool:
        safe = self.safe(counter, younger)
        return safe is not None and count <= safe


def _rules_of(graph: g.SyncGraph, target: Target) -> _Rules:
    ordinary = [each for each in graph.points if isinstance(each.action, g.Access) and not each.action.is_async]
    uncertain = () if target.lds.in_order else ordinary
    out_of_turn = {issue.counter for point in graph.points for issue in point.issues if not issue.in_order}
    out_of_turn |= {issue.counter for point in uncertain for issue in point.issues}
    return _Rules(
        {name: each.largest for name, each in target.counters.items()},
        frozenset(name for name, each in target.counters.items() if each.unit == "groups"),
        frozenset(name for name, each in target.counters.items() if each.in_order and name not in out_of_turn),
        target.lds_counters,
    )


def _counts(op: ops.SharedMemoryBarrier | ops.WaitCount, rules: _Rules) -> dict[str, int]:
    """What a wait counts down to; a barrier that drains LDS does so with the counters of LDS."""
    lds = rules.lds if isinstance(op, ops.SharedMemoryBarrier) else ()
    return {**dict(op.counts), **dict.fromkeys(lds, 0)}


# A node, and for each loop around it how many trips are over.
State = tuple[int, tuple[int, ...]]


def _solve(flow: Flow, rules: _Rules) -> list[Alive]:
    """What names stand for before each node."""
    tried = (_follow(flow, rules, most) for most in (*MOST_TRIPS, 0))
    found = next((each for each in tried if each is not None), {})
    before: list[Alive] = [{} for _ in flow.origin]
    for (node, _), alive in found.items():
        _join(before[node], alive)
    return before


def _follow(flow: Flow, rules: _Rules, most: int) -> dict[State, Alive] | None:
    """The same by state, telling so many trips apart; None if there are too many states."""
    queue: deque[State] = deque((entry, (0,) * len(flow.loops_around(entry))) for entry in flow.entries)
    before: dict[State, Alive] = {state: {} for state in queue}
    waiting = set(queue)
    while queue:
        state = queue.popleft()
        waiting.discard(state)
        node, _ = state
        after = _pass(flow.point(node), flow.origin[node], before[state], rules)
        for following in _next(flow, state, most):
            is_new = following not in before
            if is_new and most and len(before) >= MOST_STATES:
                return None
            if (_join(before.setdefault(following, {}), after) or is_new) and following not in waiting:
                queue.append(following)
                waiting.add(following)
    return before


def _next(flow: Flow, state: State, most: int) -> Iterator[State]:
    """Where a wave may go: not out of a loop at its head before the least of its trips, nor into one trip too many."""
    node, trips = state
    around = flow.loops_around(node)
    over = dict(zip(around, trips, strict=True))
    own = around[-1] if around and node == flow.loops[around[-1]].head else -1
    for successor in flow.successors[node]:
        beyond = flow.loops_around(successor)
        if own >= 0 and not _may_go(flow.loops[own], over[own], own in beyond, most):
            continue
        counts = []
        for loop in beyond:
            again = loop in over and successor == flow.loops[loop].head
            counts.append(min(_told(flow.loops[loop], most), over.get(loop, 0) + again))
        yield successor, tuple(counts)


def _may_go(loop: FlowLoop, over: int, stays: bool, most: int) -> bool:
    """At the head of a loop of which so many trips are over."""
    if stays:
        return loop.most is None or loop.most > most or over < loop.most
    return over >= min(loop.least, _told(loop, most))


def _told(loop: FlowLoop, most: int) -> int:
    """How many trips are told apart; more are taken for the last of them."""
    return loop.most if loop.most is not None and loop.most <= most else min(loop.least, most)


def _join(into: Alive, other: Alive) -> bool:
    changed = False
    for name, copies in other.items():
        known = into.setdefault(name, {})
        for key, younger in copies.items():
            if key not in known or younger < known[key]:
                known[key] = younger
                changed = True
    return changed


def _pass(point: g.Point, number: int, before: Alive, rules: _Rules) -> Alive:
    issued: dict[str, int] = {}
    for issue in point.issues:
        if issue.counter in rules.largest:
            issued[issue.counter] = issued.get(issue.counter, 0) + issue.least
    after = _issued(before, issued, rules)
    match point.action:
        case g.Access(is_async=True, token=token) if token:
            return {**after, token: {(name, number): OPEN if name in rules.groups else 0 for name in issued}}
        case g.Sync(ops.CommitGroup(result=result)) if result is not None:
            return {**after, result.name: {(name, number): 0 for name in issued}}
        case g.Sync(ops.NullAsyncDep(result=result)):
            return {**after, result.name: {}}
        case g.Sync(ops.SharedMemoryBarrier() | ops.WaitCount() as op):
            return _waited(after, op, rules)
        case g.Assign(pairs):
            renamed = {name: value.name for name, value in pairs if isinstance(value, g.Token)}
            return {**after, **{name: dict(after.get(old, {})) for name, old in renamed.items()}}
    return after


def _issued(before: Alive, issued: dict[str, int], rules: _Rules) -> Alive:
    """So many more are younger. A group that is closed here is not younger than itself: from `OPEN` it is 0."""
    if not any(issued.values()):
        return before
    return {
        name: {
            (counter, copy): min(rules.largest[counter] + 1, younger + issued.get(counter, 0))
            for (counter, copy), younger in copies.items()
        }
        for name, copies in before.items()
    }


def _waited(before: Alive, op: ops.SharedMemoryBarrier | ops.WaitCount, rules: _Rules) -> Alive:
    """Without what has been seen complete."""
    if isinstance(op, ops.SharedMemoryBarrier) and op.wait_async_ops:
        return {}
    counts = _counts(op, rules)
    named = {dep.name for dep in op.async_deps} if not op.counts else set()
    return {
        name: {
            (counter, copy): younger
            for (counter, copy), younger in copies.items()
            if counter not in counts or not rules.completes(counter, counts[counter], younger)
        }
        for name, copies in before.items()
        if name not in named
    }
