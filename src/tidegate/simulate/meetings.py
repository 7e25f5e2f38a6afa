"""Whether waves meet as often as they mean to: arrivals, signals and waits, counted along the steps of each wave.

Needs   the steps of all waves of one run
Gives   what is wrong with the workgroup's barriers, by statement: TG201 to TG205, TG207 and TG208; waves at barrier
        objects that are not for them: TG211
Keeps   a signal that is left over here and waited for elsewhere is TG208, one that nobody ever waits for TG205
Cost    linear in the steps

Barrier objects are not counted here: whether their phases complete is for the machine to find out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.simulate.barriers import WORKGROUP, Barrier
from tidegate.simulate.program_order import Key
from tidegate.simulate.steps import Arrive, Await, Depart, End, Issue, Step


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong, where it shows, what it is about, and for which waves."""

    code: str
    where: int
    what: str
    other: int = -1


@dataclass(slots=True)
class Meetings:
    """What all runs of one graph show; `early` are the ends at which a wave may leave the others."""

    divergent: frozenset[int]
    early: frozenset[int]
    leaves: bool
    doors: frozenset[int] = frozenset()  # ends to which a branch leads at once: who takes it may end early
    participants: Mapping[str, frozenset[int]] = field(default_factory=dict)  # of objects that say so
    mistakes: dict[tuple[str, int], Mistake] = field(default_factory=dict)
    left_over: dict[int, Mistake] = field(default_factory=dict)
    waited_for: set[int] = field(default_factory=set)

    def look(self, waves: Sequence[Sequence[Step]]) -> None:
        """Goes through one run."""
        for number, steps in enumerate(waves):
            self._alternate(number, steps)
            if self.participants:
                self._take_part(number, steps)
        self._count(waves)

    def found(self) -> list[Mistake]:
        ends = [
            Mistake("TG208" if where in self.waited_for else each.code, where, each.what, each.other)
            for where, each in self.left_over.items()
        ]
        return [*self.mistakes.values(), *ends]

    def _add(self, mistake: Mistake) -> None:
        self.mistakes.setdefault((mistake.code, mistake.where), mistake)

    # --- signals and waits ---

    def _alternate(self, wave: int, steps: Sequence[Step]) -> None:
        pending: dict[Barrier, int] = {}  # barrier → the statement whose signal waits for its wait
        for step in steps:
            match step:
                case Arrive(where=where, barrier=barrier) if not barrier.arrivals:
                    if where in self.divergent:
                        what = f"wave {wave} arrives under a condition that may diverge between its lanes"
                        self._add(Mistake("TG201", where, what))
                    self._arrive(wave, step, pending)
                case Depart(where=where, barrier=barrier) if not barrier.arrivals:
                    signal = pending.pop(barrier, None)
                    if signal is None:
                        self._add(
                            Mistake("TG204", where, f"wave {wave} waits for {barrier}, which it has not signalled")
                        )
                    else:
                        self.waited_for.add(signal)
                case End(where=where):
                    for barrier, signal in pending.items():
                        what = f"wave {wave} ends with an unmatched signal to {barrier}"
                        self.left_over.setdefault(signal, Mistake("TG205", signal, what, where))
                case _:
                    pass

    def _arrive(self, wave: int, step: Arrive, pending: dict[Barrier, int]) -> None:
        before = pending.get(step.barrier)
        if before is not None and step.manner == "signal":
            what = f"wave {wave} signals {step.barrier} again without a wait in between"
            self._add(Mistake("TG203", step.where, what, before))
        elif before is not None:
            what = f"wave {wave} meets others at {step.barrier} with a signal left over"
            self.left_over.setdefault(before, Mistake("TG203", before, what, step.where))
        pending[step.barrier] = step.where

    def _take_part(self, wave: int, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Arrive | Depart | Await) and wave not in self.participants.get(
                step.barrier.name, (wave,)
            ):
                known = ", ".join(map(str, sorted(self.participants[step.barrier.name])))
                self._add(
                    Mistake("TG211", step.where, f"wave {wave} reaches {step.barrier}, which is for waves {known}")
                )

    # --- how often ---

    def _count(self, waves: Sequence[Sequence[Step]]) -> None:
        """Waves that come to the end of the program must have arrived as often as each other."""
        arrivals = [
            [s for s in steps if type(s) is Arrive and s.barrier == WORKGROUP and s.where not in self.divergent]
            for steps in waves
        ]
        stay = [
            number
            for number, steps in enumerate(waves)
            if not (self.leaves and isinstance(steps[-1], End) and steps[-1].where in self.early)
        ]
        if self.leaves and stay:
            longest = max(stay, key=lambda number: len(arrivals[number]))
            met = [sum(map(_arrives, steps)) for steps in waves]
            early = (n for n in stay if met[n] < met[longest] and self._ends_early(waves[n], waves[longest]))
            stay = sorted(set(stay).difference(early))
        for number in stay[1:]:
            self._compare(stay[0], arrivals[stay[0]], number, arrivals[number])

    def _ends_early(self, steps: Sequence[Step], others: Sequence[Step]) -> bool:
        """Whether a wave ends while another goes on to barriers, and does nothing that the other does behind these.

        It has an end of its own, or a branch leads it to the end at once. A wave that skips a barrier and then comes
        to the statements behind it has not ended: it does not meet the others where it should. Neither has one that
        ends where all do and has met them at other statements than they mean to.
        """
        mine, theirs = ([n for n, each in enumerate(way) if _arrives(each)] for way in (steps, others))
        own_end = _where(steps[-1]) != _where(others[-1])
        if len(mine) >= len(theirs) or not (own_end or _where(steps[-1]) in self.doors):
            return False
        behind = {_key(each) for each in steps[mine[-1] + 1 if mine else 0 : -1]}
        if any(_key(each) in behind for each in others[theirs[len(mine)] + 1 : -1]):
            return False
        return own_end or all(_where(steps[a]) == _where(others[b]) for a, b in zip(mine, theirs, strict=False))

    def _compare(self, one: int, ours: Sequence[Arrive], other: int, theirs: Sequence[Arrive]) -> None:
        if len(ours) == len(theirs):
            return
        whole = [Counter(each.manner == "half" for each in arrivals) for arrivals in (ours, theirs)]
        halves_only = whole[0][False] == whole[1][False]
        what = f"wave {one} arrives {_times(len(ours))}, wave {other} {_times(len(theirs))}"
        longer = ours if len(ours) > len(theirs) else theirs
        if halves_only:
            where = next(each.where for each in reversed(longer) if each.manner == "half")
            self._add(Mistake("TG207", where, what))
            return
        pairs = zip(ours, theirs, strict=False)
        apart = next((place for place, (a, b) in enumerate(pairs) if a.where != b.where), min(len(ours), len(theirs)))
        self._add(Mistake("TG202", longer[min(apart, len(longer) - 1)].where, what))


def _arrives(step: Step) -> bool:
    return type(step) is Arrive and step.barrier == WORKGROUP


def _where(step: Step) -> int:
    return step.touch.where if isinstance(step, Issue) else step.where


def _key(step: Step) -> tuple[int, Key]:
    """A statement in its iterations."""
    return _where(step), step.touch.key if isinstance(step, Issue) else step.key


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
