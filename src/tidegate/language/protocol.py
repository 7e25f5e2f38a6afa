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

from dataclasses import dataclass, field

from tidegate.diag import Finding, Label, Span
from tidegate.index import (
    WAVE,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    constant,
    count_trips,
    show,
    substitute,
    substitute_cond,
)
from tidegate.language import ops, trips
from tidegate.language.alternation import ALTERNATION, Alternation, WaveState
from tidegate.language.arrivals import Arrivals, add_arrivals, either, ordered, show_arrivals
from tidegate.language.facts import MOST_WAVES, Facts, Variation
from tidegate.language.ops import Block, Conditional, Iterate, Kernel, Op, Specialize

# Loops inside each other that are walked trip by trip: each level multiplies the work.
MAX_NESTED = 2
# Loops of a kernel that are walked trip by trip; beyond that, guards excuse nothing.
MAX_WALKED = 300


def find_protocol_mistakes(kernel: Kernel, facts: Facts, wave_end_leaves: bool) -> list[Finding]:
    """One walk over the program text."""
    header = trips.header_conds(kernel)
    walker = _Walker(kernel, facts=facts, wave_end_leaves=wave_end_leaves, around=header)
    state = WaveState()
    walker.block(kernel.body, state, Variation.UNIFORM, 0)
    walker.end(state, "the kernel ends")
    if any(each.code == "TG202" for each in walker.findings) and _arrive_equally(kernel, facts, header):
        return [each for each in walker.findings if each.code != "TG202"]
    return walker.findings


def _arrive_equally(kernel: Kernel, facts: Facts, header: tuple[Cond, ...]) -> bool:
    """Whether all waves arrive equally often, counted wave by wave: what one arm leaves out another may make up for."""
    if kernel.waves > MOST_WAVES:
        return False
    first: Arrivals | None = None
    for wave in range(kernel.waves):
        around = (*header, Compare("==", Name(WAVE), Const(wave)))
        walker = _Walker(kernel, facts=facts, wave_end_leaves=False, around=around, wave=wave)
        found = walker.block(kernel.body, WaveState(), Variation.UNIFORM, 0)
        if any(each.code == "TG202" for each in walker.findings) or found != (first if first is not None else found):
            return False
        first = found
    return True


@dataclass(slots=True, kw_only=True)
class _Walker(Alternation):
    facts: Facts
    wave_end_leaves: bool
    around: tuple[Cond, ...]
    wave: int | None = None  # the only wave that is walked; None: all of them
    nested: int = 0
    walked: int = 0
    counters: dict[str, Index] = field(default_factory=dict)

    def block(self, block: Block, state: WaveState, level: Variation, depth: int) -> Arrivals:
        total: Arrivals = {}
        for op in block.ops:
            if not state.ended:
                add_arrivals(total, self.op(op, state, level, depth))
        return total

    def op(self, op: Op, state: WaveState, level: Variation, depth: int) -> Arrivals:
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

    # --- regions ---

    def loop(self, op: Iterate, state: WaveState, level: Variation, depth: int) -> Arrivals:
        lower, upper = self.of_wave(op.lower), self.of_wave(op.upper)
        bounds = max(self.facts.of(lower), self.facts.of(upper))
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
        number = count_trips(lower, upper, constant(op.step) or 1)
        how_often = f"trips({self.neutral(lower)} .. {self.neutral(upper)}{_step(op)})"
        total: Arrivals = {}
        for key, count in found.items():
            if number is not None and not any(f"#{depth}" in factor for factor in key):
                add_arrivals(total, {key: count * number} if number else {})
            else:  # what happens in a trip depends on which trip it is
                add_arrivals(total, {ordered((how_often, *key)): count})
        return total

    def of_wave(self, index: Index) -> Index:
        """The index as the wave finds it that is walked."""
        if self.wave is None:
            return index
        return substitute(trips.plain(index, self.facts), {WAVE: Const(self.wave)})

    def neutral(self, index: Index) -> str:
        """The text of an index in which counters are numbered from outside in: their names are no difference."""
        return show(substitute(trips.plain(index, self.facts), self.counters))

    def close_loop(self, op: Iterate, before: WaveState, state: WaveState, first: int, depth: int) -> None:
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

    def trip_by_trip(self, op: Iterate, before: WaveState, depth: int) -> tuple[WaveState | None, list[Finding]]:
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

        def walk(kind: str, start: WaveState) -> WaveState:
            self.around = (*outside, *kinds[kind])
            now = start.copy()
            self.block(op.body, now, Variation.UNIFORM, depth + 1)
            return now

        ends: list[WaveState] = []
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

    def may_run_no_time(self, op: Iterate, before: WaveState, state: WaveState, zero: tuple[Cond, ...]) -> None:
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

    def conditional(self, op: Conditional, state: WaveState, level: Variation, depth: int) -> Arrivals:
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

    def compare_arms(
        self, op: Conditional, then: Arrivals, other: Arrivals, first: WaveState, second: WaveState
    ) -> None:
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
            "the target does not specify what the end of a wave does to a barrier",
        )

    def specialize(self, op: Specialize, state: WaveState, depth: int) -> Arrivals:
        counts: list[tuple[Arrivals, Span, str]] = []
        covered = sum(group.last - group.first for group in op.groups)
        before = state.copy()
        for group in op.groups:
            if self.wave is not None:
                if group.first <= self.wave < group.last:
                    return self.block(group.body, state, Variation.PER_WAVE, depth)
                continue
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
        if self.wave is None and covered < self.kernel.waves:
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


def _step(op: Iterate) -> str:
    return "" if constant(op.step) == 1 else f" step {show(op.step)}"
