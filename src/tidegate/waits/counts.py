"""Counts for waits that name the copies they are for: the loosest that are certain to wait for all of them.

Needs   a flow whose waits have `async_deps`, and a target
Gives   for each such wait the largest safe count of each counter, and the copies that no count can wait for
Keeps   the fewest instructions (or groups) of the counter on any walk from the very copy that a value stands for:
        values are followed backwards through assignments, on each walk to the copy that it brings; one that ends in
        `null_async_dep` sets no bound. 0 where copies complete out of turn; never more than the counter can tell
Cost    for each value of a wait and each counter a search by distance: nodes times the names it has on the way, no
        farther than the counter can tell

    %t2 = gather_to_lds         %old = carried, first null_async_dep, then %new, then %t2
    ...                         wait_count deps(%old) becomes wait_count vmcnt(2) deps(%old): two copies are younger
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.graph.plan import Change, Plan
from tidegate.language.ops import CommitGroup, NullAsyncDep, SharedMemoryBarrier, WaitCount
from tidegate.placement.ways import find_out_of_turn
from tidegate.targets import Target

Waiting = SharedMemoryBarrier | WaitCount


@dataclass(slots=True)
class Counted:
    """What became of one wait: counts by counter, the same for each value, and copies that no count waits for."""

    counts: dict[str, int] = field(default_factory=dict)
    by_dep: dict[str, dict[str, int]] = field(default_factory=dict)
    uncountable: set[int] = field(default_factory=set)


def count_waits(flow: Flow, target: Target) -> dict[int, Counted]:
    """Point → what its values ask for, for every wait that names any. A point in a function serves all its calls."""
    found: dict[int, Counted] = {}
    counter = _Counter(flow, target)
    for node, point in enumerate(flow.origin):
        op = waiting_at(flow.graph.points[point])
        if op is not None and op.async_deps:
            counter.add(node, op, found.setdefault(point, Counted()))
    return found


def plan_counts(flow: Flow, target: Target) -> Plan:
    """Every wait that names copies with the counts for them; counts of other counters stay."""
    edits = []
    for point, counted in count_waits(flow, target).items():
        op = waiting_at(flow.graph.points[point])
        assert op is not None
        counts = tuple(sorted({**dict(op.counts), **counted.counts}.items()))
        if counts != op.counts:
            edits.append(Change(point, replace(op, counts=counts), ("recounted",)))
    return Plan(tuple(edits))


def waiting_at(point: g.Point) -> Waiting | None:
    if isinstance(point.action, g.Sync) and isinstance(point.action.op, Waiting):
        return point.action.op
    return None


class _Counter:
    def __init__(self, flow: Flow, target: Target) -> None:
        self.flow, self.target = flow, target
        self.out_of_turn = find_out_of_turn(flow.graph, target)
        self.tables: dict[str, list[int]] = {}
        self.steps = [_step(flow, node) for node in range(len(flow.origin))]
        self.counters_of = _counters_of(self.steps)

    def add(self, node: int, op: Waiting, into: Counted) -> None:
        """Adds what one wait asks for: the least over all its values."""
        for dep in op.async_deps:
            own = into.by_dep.setdefault(dep.name, {})
            for counter, known in self.target.counters.items():
                for copy, younger in self.search(node, dep.name, counter):
                    in_group = known.unit == "groups" and not isinstance(self.flow.action(copy), g.Sync)
                    count = younger - in_group
                    if count < 0:  # it is in no group yet when it is waited for
                        into.uncountable.add(self.flow.origin[copy])
                        continue
                    ordered = known.in_order and counter not in self.out_of_turn
                    count = min(count, known.largest) if ordered else 0
                    for counts in (own, into.counts):
                        counts[counter] = min(count, counts.get(counter, count))

    def search(self, wait: int, dep: str, counter: str) -> Iterator[tuple[int, int]]:
        """Copies on a counter that a name stands for, each with the least that is younger than it at the wait."""
        table = self.table(counter)
        most = self.target.counters[counter].largest + 1
        best: dict[tuple[int, str], int] = {}
        levels: list[deque[tuple[int, str]]] = [deque()]
        for node in self.flow.before[wait]:
            best[node, dep] = 0
            levels[0].append((node, dep))
        for distance, level in enumerate(levels):  # more are added on the way
            while level:
                node, name = level.popleft()
                if best[node, name] < distance:
                    continue
                step = self.steps[node]
                if name in step.makes:
                    if counter in step.counters:
                        yield node, distance
                    continue
                if distance == most:  # whichever copy it is, nothing less will do
                    yield node, distance
                    return
                name = step.renames.get(name, name)
                if counter not in self.counters_of.get(name, ()):
                    continue  # it stands for no copy that counts there
                farther = min(most, distance + table[node])
                for before in self.flow.before[node]:
                    if farther < best.get((before, name), most + 1):
                        best[before, name] = farther
                        while len(levels) <= farther:
                            levels.append(deque())
                        levels[farther].append((before, name))

    def table(self, counter: str) -> list[int]:
        """What each node is certain to issue on a counter, or to close."""
        found = self.tables.get(counter)
        if found is None:
            found = self.tables[counter] = [
                sum(issue.least for issue in self.flow.point(node).issues if issue.counter == counter)
                for node in range(len(self.flow.origin))
            ]
        return found


@dataclass(frozen=True, slots=True)
class _Step:
    """What a node does to names, seen from behind: those that it makes, and what others were before."""

    makes: frozenset[str] = frozenset()
    counters: frozenset[str] = frozenset()
    renames: Mapping[str, str] = field(default_factory=dict)


_PLAIN = _Step()


def _counters_of(steps: Sequence[_Step]) -> dict[str, set[str]]:
    """For each name the counters of all copies that it may stand for."""
    found: dict[str, set[str]] = {}
    copies: dict[str, set[str]] = {}  # name → those that take its value
    for step in steps:
        for name in step.makes:
            found.setdefault(name, set()).update(step.counters)
        for name, source in step.renames.items():
            copies.setdefault(source, set()).add(name)
    waiting = list(found)
    while waiting:
        source = waiting.pop()
        for name in copies.get(source, ()):
            known = found.setdefault(name, set())
            if not found[source] <= known:
                known |= found[source]
                waiting.append(name)
    return found


def _step(flow: Flow, node: int) -> _Step:
    point = flow.point(node)
    counters = frozenset(issue.counter for issue in point.issues)
    match point.action:
        case g.Access(is_async=True, token=token) if token:
            return _Step(frozenset((token,)), counters)
        case g.Sync(CommitGroup(result=result)) if result is not None:
            return _Step(frozenset((result.name,)), counters)
        case g.Sync(NullAsyncDep(result=result)):
            return _Step(frozenset((result.name,)))
        case g.Assign(pairs):
            renames = {name: value.name for name, value in pairs if isinstance(value, g.Token)}
            return _Step(renames=renames) if renames else _PLAIN
    return _PLAIN
