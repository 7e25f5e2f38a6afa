"""Barriers that cannot be met, as far as the shape of the program tells.

Needs   a well-typed kernel, its facts, and what the target does when a wave ends
Gives   findings TG201 to TG205 and TG207 to TG209: the kernel still runs, and shows them
Keeps   each finding is a path on which waves arrive unequally or a signal and a wait do not alternate. Named barriers
        and mbarriers are left to the simulator and the verifier: their participants differ
Cost    linear in the kernel; loops whose guards matter are walked once more for each kind of trip

Arrivals are counted as sums of products of trip counts and conditions, so that two arms with the same loops agree.
A loop's body is walked once. Where a signal and a wait do not alternate so, it is walked for its first trip, those
between and its last, with the guards that are decided there: `conditional %k > 0 { wait -1 }` skips the first trip.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.diag import NOWHERE, Finding, Label, Span
from tidegate.index import Cond, Index, Name, constant, count_trips, show, substitute, substitute_cond
from tidegate.language import ops, trips
from tidegate.language.arrivals import Arrivals, add_arrivals, either, ordered, show_arrivals
from tidegate.language.facts import Facts, Variation
from tidegate.language.ops import Block, Conditional, Iterate, Kernel, Op, Specialize

# Findings about signals and waits that do not alternate: what guards may excuse.
ALTERNATION = ("TG203", "TG204", "TG205", "TG208")
# Loops inside each other that are walked trip by trip: each level multiplies the work.
MAX_NESTED = 2
# The barrier that `workgroup_barrier` meets at, too; others are counted apart.
WORKGROUP_ID = -1
# Loops of a kernel that are walked trip by trip; beyond that, guards excuse nothing.
MAX_WALKED = 300


@dataclass(slots=True)
class State:
    """Where a wave stands: signals that wait for their wait, and how many more low than high halves arrived.

    An id is `excused` after a mistake with it was reported, until it is signalled or waited for again. A loop whose
    last trip leaves a signal is right if a wait follows; `doubts` keeps what is to be said if none does.
    """

    pending: dict[int, Span] = field(default_factory=dict)
    excused: set[int] = field(default_factory=set)
    doubts: dict[int, Finding] = field(default_factory=dict)
    low: int = 0
    high: int = 0
    opened: Span = NOWHERE
    ended: bool = False

    def copy(self) -> State:
        return State(
            dict(self.pending), set(self.excused), dict(self.doubts), self.low, self.high, self.opened, self.ended
        )


def find_protocol_mistakes(kernel: Kernel, facts: Facts, wave_end_leaves: bool) -> list[Finding]:
    """One walk over the program text."""
    walker = _Walker(kernel, facts, wave_end_leaves, [], trips.header_conds(kernel))
    state = State()
    walker.block(kernel.body, state, Variation.UNIFORM, 0)
    walker.end(state, "the kernel ends")
    return walker.findings


@dataclass(slots=True)
class _Walker:
    kernel: Kernel
    facts: Facts
    wave_end_leaves: bool
    findings: list[Finding]
    around: tuple[Cond, ...]
    nested: int = 0
    walked: int = 0
    about: dict[Finding, int] = field(default_factory=dict)  # the id of the barrier
    counters: dict[str, Index] = field(default_factory=dict)
    guards: int = 0
    guarded: set[Finding] = field(default_factory=set)  # under conditions

    def report(
        self, code: str, message: str, at: Span, label: str, *more: Label, help: str = "", number: int | None = None
    ) -> None:
        self.findings.append(Finding(code, message, (Label(at, label), *more), help=help))
        if number is not None:
            self.about[self.findings[-1]] = number

    def block(self, block: Block, state: State, level: Variation, depth: int) -> Arrivals:
        total: Arrivals = {}
        for op in block.ops:
            if not state.ended:
                add_arrivals(total, self.op(op, state, level, depth))
        return total

    def op(self, op: Op, state: State, level: Variation, depth: int) -> Arrivals:
        match op:
            case Iterate():
                return self.loop(op, state, level, depth)
            case Conditional():
                return self.conditional(op, state, level, depth)
            case Specialize():
                return self.specialize(op, state, depth)
            case ops.Exit():
                self.end(state, "the wave ends", Label(op.at, "ends here"))
                state.ended = True
            case ops.WorkgroupBarrier() | ops.SharedMemoryBarrier():
                self.divergence(op, level)
                self.meet(op, state)
                return {(): 1}
            case ops.Signal() if isinstance(op.barrier, int):
                self.divergence(op, level)
                return self.signal(op, op.barrier, state)
            case ops.Wait() if isinstance(op.barrier, int):
                self.divergence(op, level)
                self.wait(op, op.barrier, state)
            case ops.ConditionalBarrier():
                self.divergence(op, level)
                self.conditional_barrier(op, state)
        return {}

    def divergence(self, op: Op, level: Variation) -> None:
        if level == Variation.DIVERGENT:
            self.report(
                "TG201",
                "a barrier stands under a condition on which the lanes of a wave disagree",
                op.at,
                "some lanes never arrive",
                help="move the barrier out of the conditional",
            )

    def meet(self, op: ops.WorkgroupBarrier | ops.SharedMemoryBarrier, state: State) -> None:
        for number, at in sorted(state.pending.items()):
            if not self.doubted(number, state):
                self.report(
                    "TG203",
                    f"barrier {number} is signalled and then met again without a wait between",
                    op.at,
                    "arrives here",
                    Label(at, "signalled here"),
                    help=f"put `wait {number}` between them",
                    number=number,
                )
        state.pending.clear()

    def doubted(self, number: int, state: State) -> bool:
        """Reports what was held back about a signal that a loop left over."""
        held_back = state.doubts.pop(number, None)
        if held_back is not None:
            self.findings.append(held_back)
        return held_back is not None

    def signal(self, op: ops.Signal, number: int, state: State) -> Arrivals:
        same = state.pending.get(number) == op.at
        if number in state.pending and not self.doubted(number, state):
            self.report(
                "TG203",
                f"barrier {number} is signalled twice without a wait between",
                op.at,
                "signalled again in the next trip" if same else "signalled again",
                *(() if same else (Label(state.pending[number], "signalled here"),)),
                help=f"put `wait {number}` between them",
                number=number,
            )
        state.pending[number] = op.at
        state.excused.discard(number)
        return {(): 1} if number == WORKGROUP_ID else {(f"barrier {number}",): 1}

    def wait(self, op: ops.Wait, number: int, state: State) -> None:
        state.doubts.pop(number, None)
        if state.pending.pop(number, None) is None and number not in state.excused:
            self.report(
                "TG204",
                f"barrier {number} is waited for but was not signalled on this path",
                op.at,
                "waits here for ever",
                help=f"put `signal {number}` before it on every path",
                number=number,
            )
            if self.guards:
                self.guarded.add(self.findings[-1])
            state.excused.add(number)
        else:
            state.excused.discard(number)

    def conditional_barrier(self, op: ops.ConditionalBarrier, state: State) -> None:
        if self.kernel.waves % 2 and not any(each.code == "TG209" for each in self.findings):
            self.report(
                "TG209",
                f"{self.kernel.waves} waves have no halves",
                op.at,
                f"only the {op.half} half arrives here",
                help="use an even number of waves",
            )
        if op.half == "low":
            state.low += 1
        else:
            state.high += 1
        if state.low != state.high:
            state.opened = op.at

    # --- regions ---

    def loop(self, op: Iterate, state: State, level: Variation, depth: int) -> Arrivals:
        bounds = max(self.facts.of(op.lower), self.facts.of(op.upper))
        before, outside, first = state.copy(), self.around, len(self.findings)
        self.around = (*outside, *trips.inside_conds(op, self.facts))
        self.counters[op.counter.name] = Name(f"#{depth}")
        found = self.block(op.body, state, max(level, bounds), depth + 1)
        self.around = outside
        if found and bounds == Variation.PER_WAVE:
            self.report(
                "TG202",
                "waves run a loop with a barrier a different number of times",
                op.at,
                f"from {show(op.lower)} to {show(op.upper)}, which differs between waves",
                help="make the bounds the same for all waves, and mask the work instead",
            )
        if not state.ended:
            self.close_loop(op, before, state, first, depth)
            if (before.low - before.high) != (state.low - state.high):
                self.report(
                    "TG207",
                    "conditional barriers in a loop do not match",
                    state.opened,
                    "one more half arrives in each trip",
                    Label(op.at, "in this loop"),
                    help="open before the loop and close after it, or match them inside",
                )
                state.low, state.high = before.low, before.high
        state.ended = before.ended
        number = count_trips(op.lower, op.upper, constant(op.step) or 1)
        how_often = f"trips({self.neutral(op.lower)} .. {self.neutral(op.upper)}{_step(op)})"
        total: Arrivals = {}
        for key, count in found.items():
            if number is not None and not any(f"#{depth}" in factor for factor in key):
                add_arrivals(total, {key: count * number} if number else {})
            else:  # what happens in a trip depends on which trip it is
                add_arrivals(total, {ordered((how_often, *key)): count})
        return total

    def neutral(self, index: Index) -> str:
        """The text of an index in which counters are numbered from outside in: their names are no difference."""
        return show(substitute(trips.plain(index, self.facts), self.counters))

    def close_loop(self, op: Iterate, before: State, state: State, first: int, depth: int) -> None:
        """The body's end meets its start. `first` is where the body's findings begin."""
        wrong = [each for each in self.findings[first:] if each.code in ALTERNATION]
        if not wrong and set(before.pending) == set(state.pending):
            return
        after, instead = self.trip_by_trip(op, before, depth)
        if after is not None:
            self.findings[first:] = [each for each in self.findings[first:] if each.code not in ALTERNATION]
            state.pending, state.excused, state.doubts = after.pending, after.excused, after.doubts
            left_over = set(after.pending) - set(before.pending)
            for each in wrong:
                if each.code == "TG208" and self.about[each] in left_over:
                    state.doubts[self.about[each]] = each
            zero = self.kinds(op).get(trips.ZERO_TRIPS)
            if zero is not None and set(before.pending) != set(after.pending):
                self.may_run_no_time(op, before, state, zero)
            return
        if wrong and instead:
            self.findings[first:] = [each for each in self.findings[first:] if each not in wrong] + instead
            state.pending = dict(before.pending)
            state.excused |= {self.about[each] for each in instead}
            return
        for number in sorted(set(state.pending) - set(before.pending)):
            if self.explain_early_wait(number, state.pending[number], first):
                del state.pending[number]
                state.excused.add(number)
        self.same_pending(before, state, "this loop's end and its start", Label(op.at, "in this loop"))

    def kinds(self, op: Iterate) -> dict[str, tuple[Cond, ...]]:
        return trips.trips_of(op, self.facts, self.around) or {}

    def trip_by_trip(self, op: Iterate, before: State, depth: int) -> tuple[State | None, list[Finding]]:
        """The state after at least one trip, if signals and waits alternate in every kind of trip.

        If they do not, but the first trip is right, what is wrong with the others.
        """
        self.walked += 1
        if self.nested == MAX_NESTED or self.walked > MAX_WALKED:
            return None, []
        kinds = self.kinds(op)
        if not kinds:
            return None, []
        findings, outside = self.findings, self.around
        self.findings, self.nested = [], self.nested + 1

        def walk(kind: str, start: State) -> State:
            self.around = (*outside, *kinds[kind])
            now = start.copy()
            self.block(op.body, now, Variation.UNIFORM, depth + 1)
            return now

        ends: list[State] = []
        agree = starts_well = True
        if trips.ONLY in kinds:
            ends.append(walk(trips.ONLY, before))
        if trips.FIRST in kinds:
            later = walk(trips.FIRST, before)
            starts_well = not self.findings
            if trips.BETWEEN in kinds:
                agree = set(walk(trips.BETWEEN, later).pending) == set(later.pending)
            if trips.LAST in kinds:
                ends.append(walk(trips.LAST, later))
        agree = agree and all(set(each.pending) == set(ends[0].pending) and not each.ended for each in ends)
        wrong = list(dict.fromkeys(each for each in self.findings if each.code in ALTERNATION))
        self.findings, self.around, self.nested = findings, outside, self.nested - 1
        if ends and agree and not wrong:
            return ends[0], []
        return None, wrong if starts_well else []

    def may_run_no_time(self, op: Iterate, before: State, state: State, zero: tuple[Cond, ...]) -> None:
        sizes = trips.witness((*self.around, *zero), [size.name for size in self.kernel.sizes])
        for number in sorted(set(before.pending) ^ set(state.pending)):
            signalled = number in state.pending
            self.report(
                "TG208",
                f"barrier {number} is {'signalled' if signalled else 'waited for'} only if this loop runs at all",
                op.at,
                f"does not run{f' with {sizes}' if sizes else ''}",
                Label({**before.pending, **state.pending}[number], "signalled here"),
                help=f"state that it runs, as in `where({show(op.upper)} > {show(op.lower)})`, or guard what stands "
                "after it by the same condition",
                number=number,
            )
            state.pending.pop(number, None)
            state.excused.add(number)

    def explain_early_wait(self, number: int, at: Span, first: int) -> bool:
        """A wait at the top of a body whose signal stands at its end: one mistake, not two."""
        for place, each in enumerate(self.findings[first:], first):
            if each.code == "TG204" and self.about[each] == number:
                be = "may be" if each in self.guarded else "is"
                self.findings[place] = early = replace(
                    each,
                    message=f"barrier {number} {be} waited for in the first trip, before anything signals it",
                    labels=(each.labels[0], Label(at, "signalled here, for the next trip")),
                    help=f"put `signal {number}` before the loop, and `wait {number}` after it",
                )
                self.about[early] = number
                return True
        return False

    def conditional(self, op: Conditional, state: State, level: Variation, depth: int) -> Arrivals:
        own = self.facts.of(op.cond)
        if (self.nested and own == Variation.UNIFORM) or own == Variation.PER_WAVE:
            truth = trips.decide(op.cond, self.facts, self.around)
            if truth is not None:
                return self.block(op.then if truth else op.otherwise, state, level, depth)
        other_state, before = state.copy(), (state.low, state.high)
        self.guards += 1
        then = self.block(op.then, state, max(level, own), depth)
        other = self.block(op.otherwise, other_state, max(level, own), depth)
        self.guards -= 1
        if own == Variation.PER_WAVE:
            self.compare_arms(op, then, other, state, other_state)
        ended = (state.ended, other_state.ended)
        self.join(state, other_state, op.at, before)
        if ended == (True, False):
            return other  # whoever goes on came through the other arm
        if own == Variation.UNIFORM and then != other and not any(ended):
            return either(
                f"[{show(substitute_cond(trips.plain_cond(op.cond, self.facts), self.counters))}]", then, other
            )
        return then

    def compare_arms(self, op: Conditional, then: Arrivals, other: Arrivals, first: State, second: State) -> None:
        if first.ended or second.ended:
            if not self.wave_end_leaves:
                self.report_ending(op.at)
        elif then != other:
            self.report(
                "TG202",
                "the arms of a condition that differs between waves arrive a different number of times",
                op.at,
                f"{show_arrivals(then)} in one arm, {show_arrivals(other)} in the other",
                help="give both arms the same barriers, or move them out",
            )

    def report_ending(self, at: Span) -> None:
        self.report(
            "TG202",
            "some waves end while others go on to barriers",
            at,
            "the target does not say what the end of a wave does to a barrier",
        )

    def specialize(self, op: Specialize, state: State, depth: int) -> Arrivals:
        counts: list[tuple[Arrivals, Span, str]] = []
        covered = sum(group.last - group.first for group in op.groups)
        before = state.copy()
        for group in op.groups:
            own = before.copy()
            found = self.block(group.body, own, Variation.PER_WAVE, depth)
            if not own.ended:
                where = "the end of a wave group and its start"
                self.same_pending(before, own, where, Label(group.at, "in this group"))
                counts.append((found, group.at, f"waves {group.first}..{group.last}"))
            elif not self.wave_end_leaves:
                self.report_ending(group.at)
            if not own.ended and (own.low - own.high) != (before.low - before.high):
                self.report(
                    "TG207",
                    "conditional barriers in a wave group do not match",
                    own.opened,
                    "only the waves of this group arrive",
                    Label(group.at, "in this group"),
                    help="open and close the stagger outside of wave groups",
                )
        if covered < self.kernel.waves:
            counts.append(({}, op.at, "the waves in no group"))
        for found, at, who in counts[1:]:
            if found != counts[0][0]:
                self.report(
                    "TG202",
                    "wave groups arrive at the workgroup's barrier a different number of times",
                    at,
                    f"{who}: {show_arrivals(found)}",
                    Label(counts[0][1], f"{counts[0][2]}: {show_arrivals(counts[0][0])}"),
                    help="give each group the same number of barriers, or use a named barrier",
                )
                break
        return counts[0][0] if counts else {}

    # --- where paths meet ---

    def join(self, state: State, other: State, at: Span, before: tuple[int, int]) -> None:
        """After a conditional: a wave that ended in one arm takes no part."""
        if state.ended and not other.ended:
            state.pending, state.excused = other.pending, other.excused
            state.low, state.high, state.ended = other.low, other.high, False
        elif not other.ended:
            self.same_pending(state, other, "the two arms", Label(at, "of this conditional"))
            state.excused |= other.excused
            if (state.low - state.high) != (other.low - other.high):
                opened = state.opened if state.opened != NOWHERE else other.opened
                self.report(
                    "TG207",
                    "conditional barriers match in one arm only",
                    opened,
                    "arrives in one arm only",
                    Label(at, "of this conditional"),
                    help="open and close the stagger in the same arm",
                )
                state.low, state.high = before

    def same_pending(self, first: State, second: State, where: str, region: Label) -> None:
        for number in sorted(set(first.pending) ^ set(second.pending)):
            at = {**first.pending, **second.pending}[number]
            if number not in first.excused | second.excused:
                self.report(
                    "TG208",
                    f"a signal of barrier {number} is left over: {where} disagree",
                    at,
                    "signalled here",
                    region,
                    help=f"put `wait {number}` on every path, or a signal before the loop and a wait after it",
                    number=number,
                )
            for state in (first, second):
                state.pending.pop(number, None)
                state.excused.add(number)

    def end(self, state: State, when: str, *more: Label) -> None:
        if state.ended:
            return
        for number, at in sorted(state.pending.items()):
            if self.doubted(number, state):
                continue
            self.report(
                "TG205",
                f"barrier {number} is signalled but {when} without a wait",
                at,
                "signalled here",
                *more,
                help=f"put `wait {number}` after it",
                number=number,
            )
        if state.low != state.high:
            self.report(
                "TG207",
                f"conditional barriers do not match when {when}",
                state.opened,
                f"the low half arrives {_times(state.low)}, the high half {_times(state.high)}",
                *more,
                help=f"close it with `conditional_barrier {'high' if state.low > state.high else 'low'}`",
            )


def _times(number: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _step(op: Iterate) -> str:
    return "" if constant(op.step) == 1 else f" step {show(op.step)}"
