"""Signals and waits of one wave, in turn, on one path; and what is said where two paths meet and disagree.

Needs   barriers of the workgroup, one after the other
Gives   findings TG201, TG203 to TG205 and TG207 to TG209; the state that a wave is in
Keeps   one finding for one mistake: a barrier is excused until it is signalled or waited for again
Cost    constant for each barrier, times the barriers that are signalled and not waited for
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.diag import NOWHERE, Finding, Label, Span
from tidegate.language import ops
from tidegate.language.arrivals import Arrivals
from tidegate.language.facts import Variation
from tidegate.language.ops import Kernel, Op

# Findings about signals and waits that do not alternate: what guards may excuse.
ALTERNATION = ("TG203", "TG204", "TG205", "TG208")
# The barrier that `workgroup_barrier` meets at, too; others are counted apart.
WORKGROUP_ID = -1


@dataclass(slots=True)
class WaveState:
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

    def copy(self) -> WaveState:
        return WaveState(
            dict(self.pending), set(self.excused), dict(self.doubts), self.low, self.high, self.opened, self.ended
        )


@dataclass(slots=True)
class Alternation:
    """What is found on the way. `about`: the barrier's id; `guarded`: findings under conditions, of which `guards` hold
    here."""

    kernel: Kernel
    findings: list[Finding] = field(default_factory=list)
    about: dict[Finding, int] = field(default_factory=dict)
    guards: int = 0
    guarded: set[Finding] = field(default_factory=set)

    def report(
        self, code: str, message: str, at: Span, label: str, *more: Label, help: str = "", number: int | None = None
    ) -> None:
        self.findings.append(Finding(code, message, (Label(at, label), *more), help=help))
        if number is not None:
            self.about[self.findings[-1]] = number

    def divergence(self, op: Op, level: Variation) -> None:
        if level == Variation.DIVERGENT:
            self.report(
                "TG201",
                "a barrier is under a condition that diverges within a wave",
                op.at,
                "some lanes never arrive",
                help="move the barrier out of the conditional",
            )

    def meet(self, op: ops.WorkgroupBarrier | ops.SharedMemoryBarrier, state: WaveState) -> None:
        for number, at in sorted(state.pending.items()):
            if not self.doubted(number, state):
                self.report(
                    "TG203",
                    f"barrier {number} is signalled and then met again without a wait in between",
                    op.at,
                    "arrives here",
                    Label(at, "signalled here"),
                    help=f"insert `wait {number}` between them",
                    number=number,
                )
        state.pending.clear()

    def doubted(self, number: int, state: WaveState) -> bool:
        """Reports what was held back about a signal that a loop left over."""
        held_back = state.doubts.pop(number, None)
        if held_back is not None:
            self.findings.append(held_back)
        return held_back is not None

    def signal(self, op: ops.Signal, number: int, state: WaveState) -> Arrivals:
        same = state.pending.get(number) == op.at
        if number in state.pending and not self.doubted(number, state):
            self.report(
                "TG203",
                f"barrier {number} is signalled twice without a wait in between",
                op.at,
                "signalled again in the next trip" if same else "signalled again",
                *(() if same else (Label(state.pending[number], "signalled here"),)),
                help=f"insert `wait {number}` between them",
                number=number,
            )
        state.pending[number] = op.at
        state.excused.discard(number)
        return {(): 1} if number == WORKGROUP_ID else {(f"barrier {number}",): 1}

    def wait(self, op: ops.Wait, number: int, state: WaveState) -> None:
        state.doubts.pop(number, None)
        if state.pending.pop(number, None) is None and number not in state.excused:
            self.report(
                "TG204",
                f"barrier {number} is waited for but was not signalled on this path",
                op.at,
                "waits here forever",
                help=f"insert `signal {number}` before it on every path",
                number=number,
            )
            if self.guards:
                self.guarded.add(self.findings[-1])
            state.excused.add(number)
        else:
            state.excused.discard(number)

    def conditional_barrier(self, op: ops.ConditionalBarrier, state: WaveState) -> None:
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

    def explain_early_wait(self, number: int, at: Span, first: int) -> bool:
        """A wait at the top of a body whose signal stands at its end: one mistake, not two."""
        for place, each in enumerate(self.findings[first:], first):
            if each.code == "TG204" and self.about[each] == number:
                be = "may be" if each in self.guarded else "is"
                self.findings[place] = early = replace(
                    each,
                    message=f"barrier {number} {be} waited for in the first trip, before anything signals it",
                    labels=(each.labels[0], Label(at, "signalled here, for the next trip")),
                    help=f"insert `signal {number}` before the loop, and `wait {number}` after it",
                )
                self.about[early] = number
                return True
        return False

    # --- where paths meet ---

    def join(self, state: WaveState, other: WaveState, at: Span, before: tuple[int, int]) -> None:
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

    def same_pending(self, first: WaveState, second: WaveState, where: str, region: Label) -> None:
        for number in sorted(set(first.pending) ^ set(second.pending)):
            at = {**first.pending, **second.pending}[number]
            if number not in first.excused | second.excused:
                self.report(
                    "TG208",
                    f"a signal of barrier {number} is left over: {where} disagree",
                    at,
                    "signalled here",
                    region,
                    help=f"insert `wait {number}` on every path, or a signal before the loop and a wait after it",
                    number=number,
                )
            for state in (first, second):
                state.pending.pop(number, None)
                state.excused.add(number)

    def end(self, state: WaveState, when: str, *more: Label) -> None:
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
                help=f"insert `wait {number}` after it",
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
