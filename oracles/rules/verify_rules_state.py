"""Rules of the verifier, to be switched off: what is performed when, split barriers, fences; see `verify_rules.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oracles.rules.verify_rules import Patch, cautious, changed, rule
from tidegate.graph import model as g
from tidegate.language import ops
from tidegate.targets import Target
from tidegate.verify import events, ground, state, verify
from tidegate.verify.events import WORKGROUP, Access, Arrive, Depart, Drain, Event, ProxyFence, Rules
from tidegate.verify.meet import Meet
from tidegate.verify.state import State


def ruled(patch: Patch, **facts: object) -> None:
    """Other facts of the target than those in its file."""
    changed(patch, ground, "rules_of", lambda old: lambda flow, target: replace(old(flow, target), **facts))


# --- what is performed --------------------------------------------------------------------------------------------


@rule("drains", "arriving performs nothing where the target does not say so")
def _drains(patch: Patch) -> None:
    ruled(patch, arrival_performs=True)


@rule("copies in flight", "a drain of shared memory performs no copies")
def _copies(patch: Patch) -> None:
    changed(patch, state, "drained", lambda old: lambda known, drain, rules: old(known, _all_copies(drain), rules))


def _all_copies(drain: Drain) -> Drain:
    return replace(drain, copies=drain.copies or drain.ordinary)


@rule("counts", "a wait leaves as many in flight as it says")
def _counts(patch: Patch) -> None:
    def fewer(drain: Drain) -> Drain:
        return replace(drain, counts=tuple((name, max(0, count - 1)) for name, count in drain.counts))

    changed(patch, state, "drained", lambda old: lambda known, drain, rules: old(known, fewer(drain), rules))


@rule("its own instructions", "an operation is in flight until its own last instruction is done")
def _own(patch: Patch) -> None:
    def performed(old: Any) -> Any:
        return lambda x, known, rules: old(x, state._issue(known, x.queues, rules), rules)

    changed(patch, verify, "is_performed", performed)


@rule(
    "least instructions",
    "an operation counts the fewest instructions that it may become",
)
def _least(patch: Patch) -> None:
    def most(old: Any) -> Any:
        def found(point: g.Point, target: Target, rules: Rules, grid: int | None) -> tuple[Event, ...]:
            issues = tuple(replace(each, least=each.most) for each in point.issues)
            return old(replace(point, issues=issues), target, rules, grid)  # type: ignore[no-any-return]

        return found

    changed(patch, events, "_events", most)


@rule("saturation", "a count beyond the counter's maximum waits for nothing")
def _saturation(patch: Patch) -> None:
    patch.setattr(
        Rules,
        "says_something",
        lambda self, name, count: name in self.largest and (count == 0 or name in self.in_turn),
    )


@rule("out of turn", "a count above 0 says nothing where something may complete out of turn")
def _out_of_turn(patch: Patch) -> None:
    patch.setattr(
        Rules, "says_something", lambda self, name, count: name in self.largest and count <= self.largest[name]
    )


@rule("counters", "a wait for one counter says nothing of another")
def _counters(patch: Patch) -> None:
    def all_of(old: Any) -> Any:
        def found(known: State, drain: Drain, rules: Rules) -> State:
            if not drain.counts:
                return old(known, drain, rules)  # type: ignore[no-any-return]
            least = min(count for _, count in drain.counts)
            return old(known, replace(drain, counts=tuple((name, least) for name in rules.largest)), rules)  # type: ignore[no-any-return]

        return found

    changed(patch, state, "drained", all_of)


@rule("copies no wait is for", "a copy on no counter is performed by no wait")
def _no_wait(patch: Patch) -> None:
    def waited(old: Any) -> Any:
        return lambda x, known, rules: old(replace(x, can_wait=True), known, rules)

    changed(patch, verify, "is_performed", waited)


@rule("groups", "a counter of groups counts groups, not copies")
def _groups(patch: Patch) -> None:
    def single(old: Any) -> Any:
        def found(flow: Any, target: Target) -> Rules:
            rules: Rules = old(flow, target)
            return replace(rules, groups=frozenset())

        return found

    def counted(old: Any) -> Any:
        def found(point: g.Point, target: Target, rules: Rules, grid: int | None) -> tuple[Event, ...]:
            issues = tuple(replace(each, least=max(1, each.least)) for each in point.issues)
            return old(replace(point, issues=issues), target, rules, grid)  # type: ignore[no-any-return]

        return found

    changed(patch, ground, "rules_of", single)
    changed(patch, events, "_events", counted)


@rule("commits", "a copy that no group holds is waited for by no count")
def _commits(patch: Patch) -> None:
    def performed(old: Any) -> Any:
        def found(x: Access, known: State, rules: Rules) -> bool:
            counts = ((name, known.count(name)) for name, _ in x.queues)
            loose = any(each is not None and each.left <= 0 for name, each in counts if name in rules.groups)
            return old(x, known, rules) or (known.arrived and loose)

        return found

    changed(patch, verify, "is_performed", performed)


@rule("groups left in flight", "a wait for groups leaves as many in flight as it says")
def _groups_left(patch: Patch) -> None:
    def one_less(old: Any) -> Any:
        def found(known: State, commit: events.Commit, rules: Rules) -> State:
            fewer = ((name, replace(each, left=max(0, each.left - 1))) for name, each in known.counts)
            return old(replace(known, counts=tuple(fewer)), commit, rules)  # type: ignore[no-any-return]

        return found

    changed(patch, state, "_commit", one_less)


@rule("tokens", "a wait for one operation says nothing of others")
def _tokens(patch: Patch) -> None:
    def every(old: Any) -> Any:
        return lambda known, drain, rules: old(known, replace(drain, copies=drain.copies or bool(drain.tokens)), rules)

    changed(patch, state, "drained", every)


@rule("null tokens", "a token that stands for no operation waits for none")
def _null_tokens(patch: Patch) -> None:
    def everything(old: Any) -> Any:
        def found(known: State, pairs: tuple[tuple[str, str], ...]) -> State:
            null = any(not value and name in known.tokens for name, value in pairs)
            return replace(old(known, pairs), copies=known.copies or null)

        return found

    changed(patch, state, "_rename", everything)


@rule("named once", "of copies with one name the last is waited for")
def _named_once(patch: Patch) -> None:
    def kept(old: Any) -> Any:
        return lambda known, x, rules: replace(old(known, x, rules), tokens=known.tokens)

    changed(patch, state, "_pass", kept)


# --- split barriers, fences ---------------------------------------------------------------------------------------


@rule("signal arrives", "the signal is the arrival: a drain behind it comes too late")
def _signal_arrives(patch: Patch) -> None:
    _split(patch, (), (Arrive(), Depart()))


@rule("wait departs", "the wait is the departure: an access before it is not ordered")
def _wait_departs(patch: Patch) -> None:
    _split(patch, (Arrive(), Depart()), ())


def _split(patch: Patch, signal: tuple[Event, ...], wait: tuple[Event, ...]) -> None:
    def found(old: Any) -> Any:
        def sync(op: object, rules: Rules) -> tuple[Event, ...]:
            if isinstance(op, ops.Signal | ops.Wait) and op.barrier == WORKGROUP:
                return signal if isinstance(op, ops.Signal) else wait
            return old(op, rules)  # type: ignore[no-any-return]

        return sync

    changed(patch, events, "_sync", found)


@rule("fences", "between proxies a fence is needed")
def _fences(patch: Patch) -> None:
    ruled(patch, fenced=frozenset())


@rule("kinds of fences", "a fence of another kind is none between proxies")
def _kinds_of_fences(patch: Patch) -> None:
    ruled(patch, lanes_meet=ProxyFence())


@rule(
    "fences that know of x",
    "a fence of y's wave counts only behind the departure that x is known by",
)
def _late_fences(patch: Patch) -> None:
    def any_place(old: Any) -> Any:
        def found(known: State, event: Event, rules: Rules, half: str) -> State:
            if isinstance(event, ProxyFence) and not known.arrived:
                return replace(known, fenced=True)
            return old(known, event, rules, half)  # type: ignore[no-any-return]

        return found

    changed(patch, verify, "before", any_place)


# --- lanes --------------------------------------------------------------------------------------------------------


@rule("lanes", "the lanes of a wave are in no order by themselves")
def _lanes(patch: Patch) -> None:
    def asynchronous(old: Any) -> Any:
        def found(self: verify._Verifier, unordered: Any, second: int, mode: Any) -> bool:
            copies = self.access[unordered.node].is_async or self.access[second].is_async
            return old(self, unordered, second, mode) and (copies or not mode.waves.same)

        return found

    changed(patch, verify._Verifier, "may_clash", asynchronous)


@rule("lanes that know of a wait", "a wait of one lane says nothing to the others where the target does not say so")
def _waits(patch: Patch) -> None:
    ruled(patch, waits_meet=True)


@rule("fences within a wave", "a fence of one wave performs nothing for others")
def _within(patch: Patch) -> None:
    ruled(patch, lanes_meet=ProxyFence())


@rule("fences where lanes part", "in a divergent region a fence does not reach the lanes that are not there")
def _divergent(patch: Patch) -> None:
    def all_come(_: Any) -> Any:
        return lambda found: found

    changed(patch, events, "_for_some", all_come)


@rule("issue order", "where accesses are performed in no order, a fence that performs nothing orders no lanes")
def _issue_order(patch: Patch) -> None:
    ruled(patch, in_issue_order=True)


@cautious("one map", "accesses with one map from bytes to lanes that start at one byte keep to their lanes")
def _one_map(patch: Patch) -> None:
    def nothing(old: Any) -> Any:
        return lambda self, conds, *rest: conds

    changed(patch, Meet, "in_two_lanes", nothing)


@cautious("in turn", "where operations complete in turn, a count above 0 says something")
def _in_turn(patch: Patch) -> None:
    ruled(patch, in_turn=frozenset())


@cautious(
    "older by name",
    "where copies complete in turn, one that is waited for by name performs older ones",
)
def _older(patch: Patch) -> None:
    def alone(old: Any) -> Any:
        def found(known: State, x: Access, rules: Rules) -> State:
            return replace(state._issue(known, x.queues, rules), tokens=known.tokens - {x.token})

        return found

    changed(patch, state, "_pass", alone)


@cautious("groups in turn", "a group that is waited for by name performs older groups")
def _older_groups(patch: Patch) -> None:
    def alone(old: Any) -> Any:
        return lambda known, commit, rules: replace(
            old(replace(known, tokens=frozenset()), commit, rules), tokens=known.tokens - {commit.token}
        )

    changed(patch, state, "_commit", alone)


@cautious(
    "instructions between",
    "instructions issued in between are among those that may be in flight",
)
def _between(patch: Patch) -> None:
    patch.setattr(state, "_issue", lambda known, queues, rules: known)
