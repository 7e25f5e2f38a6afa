"""Hangs as findings: where each wave waits, for which phase, who would have to arrive, and why they do not.

Needs   a machine on which no wave can go on; for each statement its place and its text
Gives   the finding TG221, with the shortest circle of waves that wait for each other, if there is one
Keeps   the text depends on the machine alone
Cost    one pass over the steps that the waves have left

    wave 0 waits for phase 0 of `%empty[0]`, for which wave 1 would arrive in line 21, %j = 2
    wave 1 waits for phase 1 of `%full[0]`, for which wave 0 would arrive in line 11, %k = 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.diag import Facts, Finding, Label
from tidegate.simulate.barriers import Barrier
from tidegate.simulate.findings import Statement
from tidegate.simulate.machine import Listed, Machine
from tidegate.simulate.steps import Arrive, Await, Depart, Issue

Loops = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Later:
    """The first step with which a wave would help another one, if it came to it."""

    wave: int
    where: int
    loops: Loops
    is_copy: bool


@dataclass(frozen=True, slots=True)
class HeldWave:
    """A wave that waits, for a phase of a barrier object; and who could complete that phase."""

    wave: int
    step: Await | Depart
    phase: int
    helpers: tuple[Later, ...]
    own: Later | None  # an arrival of its own that stands behind the wait

    @property
    def barrier(self) -> Barrier:
        return self.step.barrier


def hang_finding(machine: Machine, statements: Sequence[Statement], name: str, notes: Sequence[str] = ()) -> Finding:
    """No wave can go on: what each waits for."""
    return _Hang(machine, statements).finding(name, notes)


class _Hang:
    def __init__(self, machine: Machine, statements: Sequence[Statement]) -> None:
        self.machine, self.statements = machine, statements
        self.held = {wave: self.hold(wave, step) for wave, step in machine.blocked()}
        self.ended = [number for number, wave in enumerate(machine.waves) if wave.ended]

    def hold(self, wave: int, step: Await | Depart) -> HeldWave:
        barriers, barrier = self.machine.barriers, step.barrier
        awaited = step.parity if isinstance(step, Await) else None
        phase = barriers.awaited(wave, barrier, awaited)
        others = (each for each in range(len(self.machine.waves)) if each != wave)
        helpers = (self.later(each, barrier) for each in others if barrier.arrivals)
        own = self.later(wave, barrier) if barrier.arrivals else None
        return HeldWave(wave, step, phase, tuple(each for each in helpers if each is not None), own)

    def later(self, wave: int, barrier: Barrier) -> Later | None:
        """The first arrival at a barrier, or copy that reports to it, that a wave has still to come to."""
        state = self.machine.waves[wave]
        lacks = self.machine.barriers.lacks(barrier)
        if state.ended or not isinstance(state.source, Listed):
            return None
        for step in state.source.steps[state.place :]:
            match step:
                case Arrive(barrier=other) if other == barrier and lacks != "bytes":
                    return Later(wave, step.where, step.loops, False)
                case Issue(touch) if touch.reports == barrier and lacks != "arrivals":
                    return Later(wave, touch.where, touch.loops, True)
        return None

    # --- the circle ---

    def circle(self) -> list[tuple[HeldWave, Later]]:
        """The fewest waves that wait for each other, the lowest first; empty if there are none."""
        found = (self.circle_through(wave) for wave in sorted(self.held))
        return min(filter(None, found), key=len, default=[])

    def circle_through(self, start: int) -> list[tuple[HeldWave, Later]]:
        ways: dict[int, list[tuple[HeldWave, Later]]] = {start: []}
        waiting = [start]
        for wave in waiting:
            for later in self.held[wave].helpers if wave in self.held else ():
                way = [*ways[wave], (self.held[wave], later)]
                if later.wave == start:
                    return way
                if later.wave in self.held and later.wave not in ways:
                    ways[later.wave] = way
                    waiting.append(later.wave)
        return []

    # --- words ---

    def finding(self, name: str, notes: Sequence[str]) -> Finding:
        circle = self.circle()
        said = [*self.waits(), *self.around(circle), *self.nobody(circle)]
        if self.ended:
            said.append(f"ended: wave{'s' * (len(self.ended) > 1)} {', '.join(map(str, self.ended))}")
        message, labels, notes = f"`@{name}` hangs: no wave can go on", tuple(self.labels()), (*said, *notes)
        return Finding("TG221", message, labels, notes, self.help(circle), self.witness(circle))

    def help(self, circle: Sequence[tuple[HeldWave, Later]]) -> str:
        barriers = self.machine.barriers
        untouched = (not barriers.filled(held.barrier) and not barriers.outstanding(held.barrier) for held, _ in circle)
        if circle and all(untouched):
            held, later = circle[0]
            before = f"wave {later.wave} must arrive at {held.barrier} before its own wait"
            return f"{before}, or wave {held.wave} must not wait for phase {held.phase} there: check the parity"
        held_at = (
            (each.barrier, each.step.parity if isinstance(each.step, Await) else None) for each in self.held.values()
        )
        helps = (barriers.what_helps(barrier, parity) for barrier, parity in held_at)
        return next(filter(None, helps), "every wave must arrive at a barrier as often as the others wait for it")

    def labels(self) -> Iterator[Label]:
        here: dict[tuple[int, Loops], list[int]] = {}
        for wave, each in self.held.items():
            here.setdefault((each.step.where, each.step.loops), []).append(wave)
        for (where, loops), waves in here.items():
            yield Label(self.statements[where].at, f"{_who(waves)} here{_at(loops)}")

    def waits(self) -> Iterator[str]:
        alike: dict[str, list[int]] = {}
        for wave, each in self.held.items():
            text = self.statements[each.step.where].text
            alike.setdefault(f"in `{text}` for {self.machine.waits_for(wave, each.step)}", []).append(wave)
        for what, waves in alike.items():
            yield f"{_who(waves)} {what}"

    def around(self, circle: Sequence[tuple[HeldWave, Later]]) -> Iterator[str]:
        """The circle, each wait in a line of its own."""
        lines = ["the waits form a circle:"] if circle else []
        for held, later in circle:
            what = f"phase {held.phase} of {held.barrier}"
            does = "issue its copy" if later.is_copy else "arrive"
            lines.append(
                f"wave {held.wave} waits for {what}, for which wave {later.wave} would {does} {self.place(later)}"
            )
        if lines:
            yield "\n".join(lines)

    def nobody(self, circle: Sequence[tuple[HeldWave, Later]]) -> Iterator[str]:
        """Without a circle: the phases to which nobody comes any more."""
        known = self.machine.waves and all(isinstance(each.source, Listed) for each in self.machine.waves)
        lost = {
            (str(each.barrier), each.phase): each.own
            for each in self.held.values()
            if each.barrier.arrivals and not each.helpers
        }
        for (barrier, phase), own in sorted(lost.items()) if known and not circle else ():
            whose = "no wave has" if own is None else f"only wave {own.wave} itself has"
            where = f", {self.place(own)}" if own is not None else ""
            yield f"{whose} an arrival left for phase {phase} of {barrier}{where}"

    def place(self, later: Later) -> str:
        statement = self.statements[later.where]
        where = f"in line {statement.at.line}" if statement.at.line else f"in `{statement.text}`"
        return f"{where}{_at(later.loops)}"

    def witness(self, circle: Sequence[tuple[HeldWave, Later]]) -> Facts:
        waits = tuple((str(wave), self.statements[each.step.where].text) for wave, each in self.held.items())
        return (
            ("waits", waits),
            ("ended", tuple(self.ended)),
            ("steps", self.machine.taken),
            *((("circle", tuple(self.link(*each) for each in circle)),) if circle else ()),
        )

    def link(self, held: HeldWave, later: Later) -> Facts:
        return (
            ("wave", held.wave),
            ("line", self.statements[held.step.where].at.line),
            ("iterations", held.step.loops),
            ("barrier", str(held.barrier).strip("`")),
            ("phase", held.phase),
            ("waits_for_wave", later.wave),
            ("which_would_arrive_in_line", self.statements[later.where].at.line),
            ("in_iterations", later.loops),
        )


def _who(waves: Sequence[int]) -> str:
    return f"wave {waves[0]} waits" if len(waves) == 1 else f"waves {', '.join(map(str, waves))} wait"


def _at(loops: Loops) -> str:
    return "".join(f", {name} = {value}" for name, value in loops)
