"""All orders in which the waves of a workgroup can go, as few as are needed to know them all.

Needs   a machine at its start
Gives   what any order finds, whether any hangs, and how many orders were gone through
Keeps   steps that are not open commute with every step of other waves: they are taken at once, in one order
        an open step that nothing can overtake is taken at once too (`persistent`)
        a state that was reached before is not left again: its futures are known
Cost    one copy of the machine for each open step from each state

Without barrier objects no step is open, and one order stands for all. `explore_all` takes no such short cuts: every
step of every wave, and every performance, at every moment. It reads races off the states, with no clocks.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import factorial

from tidegate.simulate.barriers import WORKGROUP
from tidegate.simulate.clocks import Clock, Id
from tidegate.simulate.machine import Machine
from tidegate.simulate.persistent import stands_alone
from tidegate.simulate.program_order import Key
from tidegate.simulate.races import Moment, Party, Watch
from tidegate.simulate.steps import Arrive, Await, Depart, End, Issue, Step

MOST_STATES = 20_000
# A state from which open steps are taken, and a copy of the machine, cost as much as so many steps.
STATE_COSTS, COPY_COSTS = 5, 40


@dataclass(slots=True)
class Explored:
    """What came of it: orders gone through to their end or to a known state, and a machine that hangs, if any does."""

    orders: int = 0
    states: int = 0
    hang: Machine | None = None
    complete: bool = True
    steps: int = 0
    copies: int = 0  # of the machine

    @property
    def cost(self) -> int:
        """In steps."""
        return self.steps + STATE_COSTS * self.states + COPY_COSTS * self.copies


def order_varies(waves: Sequence[Sequence[Step]]) -> bool:
    """Whether the order of the waves can make a difference: whether they use barrier objects."""
    for steps in waves:
        for step in steps:
            if isinstance(step, Issue):
                if step.touch.reports is not None:
                    return True
            elif isinstance(step, Arrive | Depart | Await) and step.barrier.arrivals:
                return True
    return False


def explore(machine: Machine, most: int = MOST_STATES) -> Explored:
    """Depth first over open steps; verdicts gather in the machine's watch."""
    machine.settle()
    found = Explored(steps=machine.taken)
    seen: set[Hashable] = set()
    branched = False  # until then there is one path, and no state can be reached a second time
    stack = [machine]
    while stack:
        here = stack.pop()
        found.states += 1
        ways = _open_steps(here)
        if not ways:
            found.orders += 1
            if here.is_stuck():
                found.hang = here if found.hang is None or here.taken < found.hang.taken else found.hang
            continue
        if found.states > most:
            found.complete = False
            break
        alone = ways[0] if len(ways) == 1 else next((way for way in ways if stands_alone(here, way)), None)
        branched |= alone is None
        for way in ways if alone is None else (alone,):
            there = here if way in (ways[-1], alone) else here.copy()  # the last way needs `here` no longer
            found.copies += there is not here
            before = there.taken
            _take(there, way)
            there.settle()
            found.steps += there.taken - before
            key = there.key() if branched else None
            if key in seen:
                found.orders += 1
                continue
            if key is not None:
                seen.add(key)
            stack.append(there)
    return found


def run_once(machine: Machine, rng: random.Random) -> Explored:
    """One order, at random: copies land late, and waves go on in any order."""
    found = Explored(orders=1, states=1)
    while True:
        machine.settle()
        ways = _open_steps(machine)
        if not ways:
            break
        late = [way for way in ways if isinstance(way, int)]
        _take(machine, rng.choice(late if late and rng.random() < 0.8 else ways))
    found.steps = machine.taken
    found.hang = machine if machine.is_stuck() else None
    return found


def _open_steps(machine: Machine) -> list[int | Id]:
    """Waves whose next step is open and can be taken, and copies that can land."""
    waves = [wave for wave in range(len(machine.waves)) if machine.can_step(wave)]
    return [*waves, *machine.landing]


def _take(machine: Machine, way: int | Id) -> None:
    if isinstance(way, int):
        machine.step(way)
    else:
        machine.land(way)


# --- without reduction --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Everything:
    """All orders: how many there are (None: too many states to say), and whether one hangs."""

    orders: int | None
    states: int
    hangs: bool


class Blind(Watch):
    """Sees nothing: for counting."""

    def copy(self) -> Blind:
        return self

    def issue(self, party: Party, clock: Clock, now: Moment) -> None:
        pass

    def forget(self, clocks: Sequence[Clock | None], last: Sequence[Key], lanes_met: Sequence[int]) -> None:
        pass


def at_least(waves: Sequence[Sequence[Step]]) -> int:
    """Orders that there are at least: the ways to mix what the waves do between two rendezvous; 0: cannot say.

    Nobody leaves a rendezvous before all have come, so that what lies between two of them can be mixed freely.
    """
    lengths: dict[int, list[int]] = {}
    for steps in waves:
        phase, count = 0, 0
        for step in steps:
            if isinstance(step, Arrive | Depart | Await) and step.barrier != WORKGROUP:
                return 0
            count += 1
            if isinstance(step, Arrive | End):
                lengths.setdefault(phase, []).append(count)
            elif isinstance(step, Depart):
                phase, count = phase + 1, 0
    total = 1
    for counts in lengths.values():
        total *= factorial(sum(counts))
        for count in counts:
            total //= factorial(count)
    return total


@dataclass(slots=True)
class _MachineState:
    """A machine, and the accesses that were performed before anything made sure of it."""

    machine: Machine
    early: frozenset[Id] = frozenset()

    def key(self) -> Hashable:
        places = tuple(wave.place for wave in self.machine.waves)
        return places, self.early, tuple(self.machine.landing), self.machine.barriers.state()

    def ways(self) -> list[int | Id]:
        """Waves that can step, once all that the step waits for is performed, and accesses that can be performed."""
        machine = self.machine
        found: list[int | Id] = []
        for number, wave in enumerate(machine.waves):
            flying = [n for n, touch in wave.flight.touches.items() if touch.region is not None]
            waits = set(machine.must(number)) & set(flying)
            if machine.can_step(number) and all((number, each) in self.early for each in waits):
                found.append(number)
            found += [(number, each) for each in flying if (number, each) not in self.early]
        return found

    def after(self, way: int | Id) -> _MachineState:
        there = self.machine.copy()
        if isinstance(way, int):
            there.step(way)
            flying = {(number, each) for number, wave in enumerate(there.waves) for each in wave.flight.touches}
            return _MachineState(there, self.early & flying)
        wave, number = way
        if way in there.landing:
            there.land(way)
        there.watch.performed(wave, number, there.waves[wave].flight.touches[number], there.waves[wave].now)
        return _MachineState(there, self.early | {way})


def explore_all(machine: Machine, most: int = MOST_STATES) -> Everything:
    """Every interleaving of steps and performances. Give it a machine whose watch is an `Overlaps`."""
    start = _MachineState(machine)
    following: dict[Hashable, list[Hashable]] = {}
    ranks: dict[Hashable, int] = {start.key(): 0}
    hangs = False
    stack = [start]
    while stack:
        here = stack.pop()
        key = here.key()
        following[key] = []
        if len(ranks) > most:
            return Everything(None, len(ranks), hangs)
        hangs |= here.machine.is_stuck()
        for way in here.ways():
            there = here.after(way)
            found = there.key()
            following[key].append(found)
            if found not in ranks:
                ranks[found] = ranks[key] + 1
                stack.append(there)
    counts: dict[Hashable, int] = {}
    for key in sorted(following, key=lambda each: -ranks[each]):
        counts[key] = sum(counts[each] for each in following[key]) if following[key] else 1
    return Everything(counts[start.key()], len(ranks), hangs)
