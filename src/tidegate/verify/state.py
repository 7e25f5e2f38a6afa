"""What is known to be performed, on the way back from an access y towards those before it.

Needs   events, in reverse
Gives   `State`: whether an access x that is met now is performed before y is issued
Keeps   an event less never makes more known: a path on which fewer things happen orders no more
Cost    constant for each event, times the counters that were waited for

Between waves the way back has two parts. First come departures of the waves: as many as x has to be away from y. The
arrival that belongs to the last of them is where the second part begins: what is drained before it, by the wave of x,
is performed before y is issued. Between the lanes of one wave it is the same, and a wave-level fence is a departure and
an arrival at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from tidegate.verify.events import (
    NONE,
    Access,
    Arrive,
    Commit,
    Depart,
    Drain,
    Event,
    Issue,
    LaneFence,
    ProxyFence,
    Rename,
    Rules,
)


@dataclass(frozen=True, slots=True)
class Count:
    """Of one counter: how many that are met next may be in flight; of groups, whether that of now is not."""

    left: int
    over: bool = False


@dataclass(frozen=True, slots=True)
class State:
    need: int = 1  # departures still to come
    passed: bool = False  # one of them is passed
    departed: bool = False  # the last of them is, its arrival is not
    arrived: bool = False  # the second part
    ordinary: bool = False  # ordinary accesses are performed
    copies: bool = False  # and all copies that can be waited for
    counts: tuple[tuple[str, Count], ...] = ()
    tokens: frozenset[str] = frozenset()  # names of copies that are waited for
    group: frozenset[str] = frozenset()  # counters on which the group that is met now is waited for by its name
    fenced: bool = False  # by y's own wave
    fence: State | None = None  # what is performed before a fence of x's wave; None: there is none
    lanes: bool = False  # whether x and y are of one wave: wave-level fences count
    of: frozenset[int] | None = None  # the waves that this one is one of; None: of all
    held: State | None = None  # copies that a wait names at which the lanes of the wave meet: it waits for them
    hashed: int = field(init=False, repr=False, compare=False)  # searches look states up all the time

    def __post_init__(self) -> None:
        waits = (self.ordinary, self.copies, self.counts, self.tokens, self.group, self.fenced, self.fence, self.held)
        way = (self.need, self.passed, self.departed, self.arrived, self.lanes, self.of)
        object.__setattr__(self, "hashed", hash((way, waits)))

    def __hash__(self) -> int:
        return self.hashed

    def count(self, name: str) -> Count | None:
        return next((each for known, each in self.counts if known == name), None)


BETWEEN_LANES = State(lanes=True)
IN_ONE_LANE = State(need=0, arrived=True, lanes=True)
AT_ONCE = State(need=0, arrived=True)  # nobody has to be met

AccessKind = tuple[bool, bool, tuple[tuple[str, int], ...]]  # asynchronous, can be waited for, on which counters


FENCED = State(need=0, passed=True, arrived=True, ordinary=True)  # a fence performs ordinary accesses itself


def is_weaker(one: State, other: State) -> bool:
    """Whether one knows of nothing that the other does not, in the same part of the way."""
    if one is other or one == other:
        return True
    if (one.need, one.passed, one.departed, one.arrived) != (other.need, other.passed, other.departed, other.arrived):
        return False
    if (one.lanes, one.of) != (other.lanes, other.of):
        return False
    if one.ordinary > other.ordinary or one.copies > other.copies or one.fenced > other.fenced:
        return False
    if not one.group <= other.group:
        return False
    if one.fence is not None and (other.fence is None or not is_weaker(one.fence, other.fence)):
        return False
    if one.held is not None and (other.held is None or not is_weaker(one.held, other.held)):
        return False
    theirs = dict(other.counts)
    for name, each in one.counts:
        known = theirs.get(name)
        if known is None or known.left > each.left or known.over < each.over:
            return False
    return one.tokens <= other.tokens


def is_performed(x: Access, state: State, rules: Rules) -> bool:
    """Whether an access that is met in this state is performed before y is issued."""
    if state.held is not None and x.is_async and is_performed(x, state.held, rules):
        return True
    if not state.arrived:
        return False
    if state.ordinary if not x.is_async else state.copies and x.can_wait:
        return True
    if x.is_async and x.can_wait and (_is_in_group(x, state) or (x.token and x.token in state.tokens)):
        return True
    # A graph in which an access counts on several counters is refused; were it asked, all of them would have to say so.
    return bool(x.queues) and all(_has_left(name, state, rules) for name, _ in x.queues)


def _is_in_group(x: Access, state: State) -> bool:
    return not state.group.isdisjoint([name for name, _ in x.queues] or [NONE])


def _has_left(counter: str, state: State, rules: Rules) -> bool:
    known = state.count(counter)
    return known is not None and (known.over if counter in rules.groups else known.left <= 0)


def is_fenced(x: Access, state: State, rules: Rules) -> bool:
    """Whether a fence between the proxies stands behind an access, where it is sure to be performed."""
    return state.fenced or (state.fence is not None and is_performed(x, state.fence, rules))


def is_over(state: State, kinds: Collection[AccessKind], rules: Rules) -> bool:
    """Whether everything that comes before is sure to be performed."""
    if not state.arrived:
        return False
    if state.lanes and rules.in_issue_order and not any(is_async for is_async, _, _ in kinds):
        return True
    if rules.fenced and not state.fenced and (state.fence is None or not _is_over_there(state.fence, kinds, rules)):
        return False
    return _is_over_there(state, kinds, rules)


def _is_over_there(state: State, kinds: Collection[AccessKind], rules: Rules) -> bool:
    """Fences aside."""
    for is_async, can_wait, queues in kinds:
        if not is_async and state.ordinary:
            continue
        if is_async and can_wait and state.copies:
            continue
        known = ((name, state.count(name)) for name, _ in queues)
        if any(each and each.left <= 0 and (each.over or name not in rules.groups) for name, each in known):
            continue
        return False
    return True


def before(state: State, event: Event, rules: Rules, half: str) -> State:
    """The state before an event, seen from a wave in this half."""
    found = _before(state, event, rules, half)
    if state.held is not None and isinstance(event, Commit | Rename | Issue | Access):
        found = replace(found, held=_before(state.held, event, rules, half))
    if state.fence is not None:
        inner = _before(state.fence, event, rules, half)
        return found if inner is state.fence else replace(found, fence=inner)
    return found


def unsure(state: State, event: Event) -> State:
    """The state before an event that the wave of x may not come to: what is known gets less, and never more."""
    gone: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    match event:
        case Rename(pairs):
            gone = frozenset(name for name, _ in pairs)
        case Commit(token, counters):
            gone, closed = frozenset((token,)), counters
        case Access(token=token):
            gone = frozenset((token,))
    inner = unsure(state.fence, event) if state.fence is not None else None
    if state.tokens.isdisjoint(gone) and inner is state.fence and state.group.isdisjoint(closed):
        return state
    return replace(state, tokens=state.tokens - gone, fence=inner, group=state.group - closed)


def _before(state: State, event: Event, rules: Rules, half: str) -> State:
    match event:
        case Depart(who):
            return _depart(state) if who in ("", half) else state
        case Arrive(who):
            return _arrive(state, rules.arrival_performs) if who in ("", half) else state
        case Drain():
            return drained(state, event, rules) if state.arrived else state
        case ProxyFence():
            if state.arrived:
                return replace(state, ordinary=True, fence=FENCED if state.fence is None else state.fence)
            # A fence of y's own wave, if it stands behind all departures that y needs: else x is not known of there.
            return replace(state, fenced=True) if not state.passed else state
        case LaneFence(performs, waves):
            if not state.lanes or (waves is not None and (state.of is None or not state.of <= waves)):
                return state
            if event.tokens:  # a wait for a copy that has landed may be none, but then the lanes met where it landed
                known = state.held or IN_ONE_LANE
                return replace(state, held=replace(known, tokens=known.tokens.union(event.tokens)))
            return _arrive(_depart(state), performs)
        case Commit():
            return _commit(state, event, rules)
        case Rename(pairs):
            return _rename(state, pairs)
        case Issue(queues):
            return _issue(state, queues, rules)
        case Access():
            return _pass(state, event, rules)


def _depart(state: State) -> State:
    if not state.need:
        return state
    return replace(state, need=state.need - 1, passed=True, departed=state.need == 1)


def _arrive(state: State, performs: bool) -> State:
    if not (state.departed or state.arrived):
        return state
    return replace(state, departed=False, arrived=True, ordinary=state.ordinary or performs)


def drained(state: State, drain: Drain, rules: Rules) -> State:
    counts = dict(state.counts)
    for name, count in (*drain.counts, *(((each, 0) for each in rules.lds) if drain.ordinary else ())):
        known = counts.get(name)
        counts[name] = Count(min(known.left, count), known.over) if known else Count(count)
    return replace(
        state,
        ordinary=state.ordinary or drain.ordinary,
        copies=state.copies or drain.copies,
        counts=tuple(sorted(counts.items(), key=lambda each: each[0])),
        tokens=state.tokens.union(drain.tokens),
    )


def _commit(state: State, commit: Commit, rules: Rules) -> State:
    if not state.arrived:
        return state
    counts = dict(state.counts)
    for name in rules.groups & commit.counters:
        known = counts.get(name)
        if known is not None:
            counts[name] = Count(max(0, known.left - 1), known.left <= 0)
    found = tuple(sorted(counts.items(), key=lambda each: each[0]))
    token = commit.token
    named = commit.counters if token and token in state.tokens else frozenset[str]()
    return replace(state, counts=found, tokens=state.tokens - {token}, group=(state.group - commit.counters) | named)


def _rename(state: State, pairs: tuple[tuple[str, str], ...]) -> State:
    gone = {name for name, _ in pairs}
    if gone.isdisjoint(state.tokens):
        return state
    return replace(state, tokens=(state.tokens - gone) | {old for name, old in pairs if old and name in state.tokens})


def _issue(state: State, queues: tuple[tuple[str, int], ...], rules: Rules) -> State:
    if not state.counts or not queues:
        return state
    least = dict(queues)
    counts = tuple(
        (
            name,
            Count(max(0, each.left - least[name]), each.over) if name in least and name not in rules.groups else each,
        )
        for name, each in state.counts
    )
    return replace(state, counts=counts)


def _pass(state: State, x: Access, rules: Rules) -> State:
    # An ordinary access may be performed, and count no more, while a copy before it is in flight.
    counted = x.queues if x.is_async else tuple(each for each in x.queues if each[0] not in rules.mixed)
    after = _issue(state, counted, rules)
    named = bool(x.token) and x.token in after.tokens
    if not (x.is_async and x.can_wait and (named or _is_in_group(x, after))):
        return after if not named else replace(after, tokens=after.tokens - {x.token})
    # It is waited for by name; what is older completes before it where copies complete in their turn. Of groups, those
    # before its own, and that only if it is known to be in one.
    counts = dict(after.counts)
    for name, _ in x.queues:
        if name in rules.in_turn and (name not in rules.groups or name in after.group):
            known = counts.get(name)
            counts[name] = Count(0, known is not None and known.over)
    found = tuple(sorted(counts.items(), key=lambda each: each[0]))
    return replace(after, counts=found, tokens=after.tokens - {x.token})
