"""Counts that let a copy go on which the wait names: written for another order of the program, or simply wrong.

Needs   a flow whose waits have counts and name copies
Gives   for each such wait and value the largest count that would do, where what stands there does not
Keeps   found by going forwards: what every name stands for at every node, with the least that has been issued since on
        any path; names that stand for nothing on a path are in no hurry there
Cost    nodes times names that are alive, until nothing changes; none without such waits

It shares nothing with the stage that makes counts, which goes backwards from each wait.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.language import ops
from tidegate.targets import Target

# name → counter and copy (a point) → the least that is younger, or None where the copy is in no group yet
Alive = dict[str, dict[tuple[str, int], int]]
OPEN = -1  # a copy whose group is not closed


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
    waits = [node for node in range(len(flow.origin)) if _claims(flow.action(node))]
    if not waits:
        return []
    alive = _solve(flow, target)
    found: dict[Stale, None] = {}
    for node in waits:
        action = flow.action(node)
        assert isinstance(action, g.Sync)
        assert isinstance(action.op, ops.SharedMemoryBarrier | ops.WaitCount)
        counts = dict(action.op.counts)
        for dep in action.op.async_deps:
            for (counter, copy), younger in sorted(alive[node].get(dep.name, {}).items()):
                safe = _safe(flow.graph, target, counter, younger)
                count = counts.get(counter)
                if count is None or safe is None or count > safe:
                    found[Stale(flow.origin[node], copy, dep.name, counter, count, safe)] = None
    return list(found)


def _claims(action: g.Action) -> bool:
    match action:
        case g.Sync(ops.SharedMemoryBarrier(counts=counts, async_deps=deps, wait_async_ops=every)):
            return bool(counts and deps) and not every
        case g.Sync(ops.WaitCount(counts=counts, async_deps=deps)):
            return bool(counts and deps)
    return False


def _safe(graph: g.SyncGraph, target: Target, counter: str, younger: int) -> int | None:
    known = target.counters[counter]
    if younger == OPEN:
        return None
    in_turn = all(issue.in_order for point in graph.points for issue in point.issues if issue.counter == counter)
    return min(younger, known.largest) if known.in_order and in_turn else 0


def _solve(flow: Flow, target: Target) -> list[Alive]:
    """What names stand for before each node."""
    before: list[Alive] = [{} for _ in flow.origin]
    queue = deque(flow.entries)
    waiting, seen = set(queue), set(queue)
    while queue:
        node = queue.popleft()
        waiting.discard(node)
        after = _pass(flow.point(node), flow.origin[node], before[node], target)
        for successor in flow.successors[node]:
            changed = _join(before[successor], after)
            if (changed or successor not in seen) and successor not in waiting:
                queue.append(successor)
                waiting.add(successor)
            seen.add(successor)
    return before


def _join(into: Alive, other: Alive) -> bool:
    changed = False
    for name, copies in other.items():
        known = into.setdefault(name, {})
        for key, younger in copies.items():
            if key not in known or younger < known[key]:
                known[key] = younger
                changed = True
    return changed


def _pass(point: g.Point, number: int, before: Alive, target: Target) -> Alive:
    issued = {issue.counter: issue.least for issue in point.issues}
    after = before
    if any(issued.values()):
        after = {
            name: {
                (counter, copy): _older(younger, issued.get(counter, 0), target.counters[counter].largest)
                for (counter, copy), younger in copies.items()
            }
            for name, copies in before.items()
        }
    made, copies = "", {}
    match point.action:
        case g.Access(is_async=True, token=token):
            made = token
            copies = {(name, number): OPEN if target.counters[name].unit == "groups" else 0 for name in issued}
        case g.Sync(ops.CommitGroup(result=result)) if result is not None:
            made, copies = result.name, {(name, number): 0 for name in issued}
        case g.Sync(ops.NullAsyncDep(result=result)):
            made = result.name
        case g.Assign(pairs):
            renamed = {name: value.name for name, value in pairs if isinstance(value, g.Token)}
            if renamed:
                return {**after, **{name: dict(after.get(old, {})) for name, old in renamed.items()}}
    return {**after, made: copies} if made else after


def _older(younger: int, issued: int, most: int) -> int:
    """A copy whose group is closed has none that is younger: its own does not count."""
    return min(most + 1, younger + issued)
