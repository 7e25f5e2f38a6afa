"""What each node does to the order of accesses, in the order in which it does it.

Needs   a flow and its target
Gives   for each node its events: drains, arrivals, departures, fences, groups, tokens, issues, the access itself
Keeps   only what is certain counts: an operation counts its least number of instructions, and a count above 0 says
        nothing on a counter on which something of this program may complete out of turn
Cost    linear in the nodes
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.language import ops
from tidegate.targets import Target
from tidegate.verify.grids import find_grids

WORKGROUP = -1
NONE = ""  # the counter of what counts on none
EVERYBODY = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """The wave goes on when these are performed. `counts` are those that say something."""

    ordinary: bool = False
    copies: bool = False
    counts: tuple[tuple[str, int], ...] = ()
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrive:
    """`half`: which half of the waves does; empty for all."""

    half: str = EVERYBODY


@dataclass(frozen=True, slots=True)
class Depart:
    half: str = EVERYBODY


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """Performs ordinary accesses of its wave, and lets the other proxy follow."""


@dataclass(frozen=True, slots=True)
class LaneFence:
    """The lanes of the wave meet; other waves learn nothing. `performs`: ordinary accesses, as far as its lanes go.

    `waves`: those that come to it; None: all. `tokens`: it is a wait for these copies, and there only if they are in
    flight; then nothing is known of other accesses.
    """

    performs: bool
    waves: frozenset[int] | None = None
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes a group on counters; `token` is the name of all copies in it. Counters without groups belong to each."""

    token: str = ""
    counters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rename:
    """Tokens that get a new name, all at once; an empty one stands for no copy."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Issue:
    """Instructions on counters."""

    queues: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Access:
    """An access to shared memory. `can_wait`: whether a wait of its wave can be for it."""

    effect: str
    is_async: bool
    queues: tuple[tuple[str, int], ...]
    token: str
    proxy: str
    operator: str
    fetches: bool
    can_wait: bool
    as_one: bool = False
    element: str = ""
    grid: int | None = None  # where the elements of an atomic begin, modulo their size; None: not known
    in_one_lane: bool = False
    by_thread: bool = False  # which thread touches which byte is known


Event = Drain | Arrive | Depart | ProxyFence | LaneFence | Commit | Rename | Issue | Access


@dataclass(frozen=True, slots=True)
class Rules:
    """The facts of the target, and of the program, that decide when accesses are performed."""

    groups: frozenset[str]  # counters of groups
    in_turn: frozenset[str]  # counters on which everything completes in its turn
    lds: tuple[str, ...]
    mixed: frozenset[str]  # counters of copies on which ordinary accesses count as well
    largest: dict[str, int]  # of counters on which an access to shared memory counts
    arrival_performs: bool
    fenced: frozenset[str]  # effects of generic accesses behind which the async proxy needs a fence
    in_issue_order: bool  # whether ordinary accesses of one wave are performed in the order in which they are issued
    lanes_meet: LaneFence | None  # what `fence wave` does, if the target has it
    waits_meet: bool  # whether lanes also meet at a wait
    counters: dict[str, int]  # of the target, with the largest count of a wait

    def needs_fence(self, access: Access) -> bool:
        return access.proxy == "generic" and access.effect in self.fenced

    def says_something(self, name: str, count: int) -> bool:
        return name in self.largest and count <= self.largest[name] and (count == 0 or name in self.in_turn)

    def is_a_wait(self, counts: tuple[tuple[str, int], ...]) -> bool:
        """Whether an instruction is certain to come of a wait, so that the lanes meet at it.

        A wait for nothing has none: it names nothing, a copy that may be performed or no copy at all, or a count at
        which the counter ends (test_lanes: `test_a_wait_for_nothing_orders_no_lanes`).
        """
        return any(name in self.counters and count <= self.counters[name] for name, count in counts)


def rules_of(flow: Flow, target: Target) -> Rules:
    out_of_turn = {each.counter for point in flow.graph.points for each in point.issues if not each.in_order}
    accesses = [each.action for each in flow.graph.points if isinstance(each.action, g.Access)]
    touching = [each for each in flow.graph.points if isinstance(each.action, g.Access | g.Unknown)]
    used = {each.counter for point in touching for each in point.issues}
    copied = {each.counter for point in touching if _is_copy(point) for each in point.issues}
    others = {each.counter for point in touching if not _is_copy(point) for each in point.issues}
    if not target.lds.in_order:
        out_of_turn |= others  # the newest ordinary access may be performed before the older ones
    return Rules(
        frozenset(name for name, each in target.counters.items() if each.unit == "groups"),
        frozenset(name for name, each in target.counters.items() if each.in_order and name not in out_of_turn),
        tuple(name for name in target.lds_counters if name in used),
        frozenset(copied & others),
        {name: each.largest for name, each in target.counters.items() if name in used},
        target.barrier.performs == "ordinary",
        target.fenced if any(each.proxy != "generic" for each in accesses) else frozenset(),
        target.lds.in_order,
        LaneFence(target.fence.wave_performs == "ordinary") if "wave" in target.fence.kinds else None,
        target.fence.waits,
        {name: each.largest for name, each in target.counters.items()},
    )


def _is_copy(point: g.Point) -> bool:
    return isinstance(point.action, g.Access) and point.action.is_async


def events_of(flow: Flow, target: Target, rules: Rules, divided: Container[int]) -> dict[int, tuple[Event, ...]]:
    """By node, in program order; nodes without events are left out. `divided`: where not all lanes of a wave come."""
    grids = find_grids(flow.graph)
    by_point = {
        number: _events(point, target, rules, grids.get(number)) for number, point in enumerate(flow.graph.points)
    }
    found = {node: by_point[point] for node, point in enumerate(flow.origin) if by_point[point]}
    found = {node: _for_some(events) if node in divided else events for node, events in found.items()}
    for node in flow.closed:
        found[node] = (_anything(()),)
    return found


def _events(point: g.Point, target: Target, rules: Rules, grid: int | None) -> tuple[Event, ...]:
    queues = tuple((each.counter, each.least) for each in point.issues)
    match point.action:
        case g.Access() as access:
            return (
                Access(
                    access.effect,
                    access.is_async,
                    queues,
                    access.token if access.is_async else "",
                    access.proxy,
                    access.operator,
                    access.fetches,
                    bool(queues) or not target.counters,
                    access.as_one,
                    access.element,
                    grid,
                    access.lanes == g.ONE_LANE,
                    bool(access.footprint.threads),
                ),
            )
        case g.Unknown():
            return (_anything(queues),)
        case g.Assign(pairs):
            renamed = tuple((name, value.name) for name, value in pairs if isinstance(value, g.Token))
            return (Rename(renamed),) if renamed else ()
        case g.Sync(ops.Fence(kind="wave"), waves):
            if rules.lanes_meet is None:
                return ()
            return (replace(rules.lanes_meet, waves=frozenset(waves)) if waves else rules.lanes_meet,)
        case g.Sync(ops.CommitGroup(result=result)):
            return (Commit(result.name if result is not None else "", _closed_by(point, rules)),)
        case g.Sync(op):
            return _sync(op, rules)
    return (Issue(queues),) if queues else ()


def _closed_by(point: g.Point, rules: Rules) -> frozenset[str]:
    """The counters on which a point closes a group, and those of copies that are in none: without a counter, `NONE`."""
    groups = rules.groups.intersection(issue.counter for issue in point.issues if issue.least)
    return groups | (frozenset((*rules.counters, NONE)) - rules.groups)


def _for_some(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Those of a place to which some lanes of a wave do not come: lanes that do learn nothing about them."""
    return tuple(event for event in events if not isinstance(event, LaneFence))


def _anything(queues: tuple[tuple[str, int], ...]) -> Access:
    return Access("write", False, queues, "", "generic", "", False, True)


def _sync(op: object, rules: Rules) -> tuple[Event, ...]:
    meet = (Arrive(), Depart())
    match op:
        case ops.WorkgroupBarrier():
            return meet
        case ops.SharedMemoryBarrier(counts, every_copy, deps):
            return (Drain(True, every_copy, _certain(counts, rules), () if counts else _names(deps)), *meet)
        case ops.ConditionalBarrier(half=half):
            return (Arrive(half), Depart(half))
        case ops.Signal(barrier=barrier) if barrier == WORKGROUP:
            return (Arrive(),)
        case ops.Wait(barrier=barrier) if barrier == WORKGROUP:
            return (Depart(),)
        case ops.WaitCount(counts, deps):
            drain = Drain(counts=_certain(counts, rules), tokens=() if counts else _names(deps))
            if rules.waits_meet and rules.is_a_wait(counts):
                return (drain, LaneFence(False))
            return (drain, LaneFence(False, None, drain.tokens)) if rules.waits_meet and drain.tokens else (drain,)
        case ops.Fence(kind="proxy_async"):
            return (ProxyFence(),)
        case ops.NullAsyncDep(result=result):
            return (Rename(((result.name, ""),)),)
    return ()


def _certain(counts: tuple[tuple[str, int], ...], rules: Rules) -> tuple[tuple[str, int], ...]:
    return tuple((name, count) for name, count in counts if rules.says_something(name, count))


def _names(deps: tuple[ops.Value, ...]) -> tuple[str, ...]:
    return tuple(each.name for each in deps)


def conflict(x: Access, y: Access) -> bool:
    """Whether the order of two accesses to the same bytes matters."""
    if x.effect == y.effect == "read":
        return False
    if x.effect != "atomic" or y.effect != "atomic" or x.fetches or y.fetches:
        return True
    same = x.operator == y.operator in g.COMMUTING and x.element == y.element != ""
    return not (same and x.grid is not None and x.grid == y.grid)
