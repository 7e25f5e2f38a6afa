"""All orders in which the waves of a workgroup can go, as few as are needed to know them all.

Needs   a machine at its start
Gives   what any order finds, whether any hangs, and how many orders were gone through
Keeps   steps that are not open commute with every step of other waves: they are taken at once, in one order
        a state that was reached before is not left again: its futures are known
Cost    one copy of the machine for each open step from each state

Without barrier objects no step is open, and one order stands for all. `explore_all` takes no such short cuts: every
step of every wave, and every performance, at every moment. It reads races off the states, with no clocks.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import dataclass, field

from tidegate.simulate.clocks import Id
from tidegate.simulate.machine import Machine

MOST_STATES = 20_000


@dataclass(slots=True)
class Explored:
    """What came of it: orders gone through to their end or to a known state, and a machine that hangs, if any does."""

    orders: int = 0
    states: int = 0
    hang: Machine | None = None
    complete: bool = True
    ends: list[Machine] = field(default_factory=list)  # one for each way that ended well, up to a few


def explore(machine: Machine, most: int = MOST_STATES) -> Explored:
    """Depth first over open steps; verdicts gather in the machine's watch."""
    machine.settle()
    found = Explored()
    seen = {machine.key()}
    stack = [machine]
    while stack:
        here = stack.pop()
        found.states += 1
        ways = _open_steps(here)
        if not ways:
            found.orders += 1
            _keep_end(found, here)
            continue
        if found.states > most:
            found.complete = False
            break
        for way in ways:
            there = here.copy()
            _take(there, way)
            there.settle()
            key = there.key()
            if key in seen:
                found.orders += 1
            else:
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
    _keep_end(found, machine)
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


def _keep_end(found: Explored, machine: Machine) -> None:
    if machine.is_stuck():
        found.hang = found.hang or machine
    elif len(found.ends) < 4:
        found.ends.append(machine)


# --- without reduction --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Everything:
    """All orders: how many there are (None: too many states to say), and whether one hangs."""

    orders: int | None
    states: int
    hangs: bool


def explore_all(machine: Machine, most: int = MOST_STATES) -> Everything:
    """Every interleaving of steps and performances. Give it a machine whose watch is an `Overlaps`."""
    following: dict[Hashable, list[Hashable]] = {}
    ranks: dict[Hashable, int] = {}
    hangs = False
    stack = [machine]
    ranks[_all_key(machine)] = 0
    while stack:
        here = stack.pop()
        key = _all_key(here)
        following[key] = []
        if len(ranks) > most:
            return Everything(None, len(ranks), hangs)
        hangs |= here.is_stuck()
        for way in _all_steps(here):
            there = here.copy()
            if len(way) == 1:
                there.step(way[0])
            else:
                there.perform(way[0], [way[1]])
            found = _all_key(there)
            following[key].append(found)
            if found not in ranks:
                ranks[found] = ranks[key] + 1
                stack.append(there)
    counts: dict[Hashable, int] = {}
    for key in sorted(following, key=lambda each: -ranks[each]):
        counts[key] = sum(counts[each] for each in following[key]) if following[key] else 1
    return Everything(counts[_all_key(machine)], len(ranks), hangs)


def _all_steps(machine: Machine) -> list[tuple[int, ...]]:
    """Waves that can step, once everything is performed that the step waits for, and accesses that can be performed."""
    found: list[tuple[int, ...]] = []
    for number, wave in enumerate(machine.waves):
        waits = any(wave.flight.touches[each].region is not None for each in machine.must(number))
        if machine.can_step(number) and not waits:
            found.append((number,))
        found += [(number, each) for each, touch in wave.flight.touches.items() if touch.region is not None]
    return found


def _all_key(machine: Machine) -> Hashable:
    return (
        tuple((wave.place, tuple(wave.flight.touches)) for wave in machine.waves),
        tuple(machine.landing),
        machine.barriers.state(),
    )
