"""Runs the workgroups of a kernel with numbers, as unkindly as the counters allow.

Needs   a `Program`, global memory, the state with which waves start
Gives   `Workgroup.run`: global memory changes; `Found`: races, registers that are used before their wait, hangs
Keeps   a wave steps while it can; an access is performed between its issue and the wait that makes it certain, those
        of one stream in the order of issue; a barrier lets waves pass when all that have not ended are there
Cost    about 10 µs for each instruction of a wave

Timing is

    early     each access is performed at once
    late      at the wait that makes it certain, or at the end of its wave
    random    some streams early, some late, differently for each wave; here and there something in between

and waves are interleaved at random, one after another, the last first, or in step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from oracles.amdgcn_machine.access import Place
from oracles.amdgcn_machine.barriers import Barriers
from oracles.amdgcn_machine.counters import Access, certain
from oracles.amdgcn_machine.memory import Fault, Memory, Shared
from oracles.amdgcn_machine.program import ACCESS, BARRIER, END, JUMP, RUN, WAIT, Program, Step
from oracles.amdgcn_machine.races import Race, Watch
from oracles.amdgcn_machine.wave import SCALARS, Wave

TIMINGS = ("early", "late", "random")
ORDERS = ("random", "ahead", "behind", "in step")
AT_ONCE, HELD, SOMETIMES = "at once", "held", "sometimes"


@dataclass(frozen=True, slots=True)
class Hostility:
    """How a run is timed."""

    timing: str = "late"
    order: str = "ahead"
    seed: int = 0


@dataclass(slots=True)
class Found:
    """What went wrong in a run."""

    races: list[Race] = field(default_factory=list)
    early: dict[tuple[int, int], str] = field(default_factory=dict)  # lines of the access and of the use
    hang: str = ""
    fault: str = ""
    steps: int = 0

    @property
    def is_good(self) -> bool:
        return not (self.races or self.early or self.hang or self.fault)

    def lines(self) -> list[str]:
        """As sentences."""
        said = [str(each) for each in self.races] + list(self.early.values())
        return said + [each for each in (self.hang, self.fault) if each]


class Workgroup:
    """The waves of one workgroup, their shared memory and barriers."""

    def __init__(
        self,
        program: Program,
        waves: list[Wave],
        lds: int,
        memory: Memory,
        how: Hostility,
        watches: bool = True,
        max_steps: int = 600_000,
    ) -> None:
        self.program, self.waves, self.how, self.max_steps = program, waves, how, max_steps
        self.place = Place(program.target, Shared(lds), memory)
        self.watch = Watch(lds, len(waves)) if watches else None
        self.barriers = Barriers(waves)
        self.rng = random.Random(how.seed)
        self.found = Found()
        self.alive = list(waves)
        self.at = waves[0]  # the wave that steps
        self.manner: dict[tuple[int, str], str] = {}
        for wave in waves:
            wave.known = [-1] * len(waves)

    def run(self) -> Found:
        """Until all waves have ended, or none can go on."""
        try:
            with np.errstate(all="ignore"):
                while self.alive and not self.found.hang:
                    self._turn()
        except Fault as fault:
            step = self.program.steps[self.at.pc]
            self.found.fault = f"line {step.line} (wave {self.at.number}), `{step.text}`: {fault}"
        if self.watch:
            self.found.races = sorted(self.watch.races.values())
        return self.found

    def _turn(self) -> None:
        ready = [each for each in self.alive if not self.barriers.is_held(each)]
        if not ready:
            lines = sorted({self.program.steps[each.pc].line for each in self.alive})
            places = ", ".join(map(str, lines))
            self.found.hang = f"hang: waves wait at a barrier (lines {places}) that others never reach"
            return
        wave, count = self._choose(ready)
        for _ in range(count):
            self.found.steps += 1
            if not self._step(wave):
                break
        if self.found.steps > self.max_steps:
            self.found.hang = f"no end after {self.max_steps} instructions"

    def _choose(self, ready: list[Wave]) -> tuple[Wave, int]:
        """Which wave goes on, and how far if nothing holds it."""
        if self.how.order == "ahead":
            return ready[0], 1 << 12
        if self.how.order == "behind":
            return ready[-1], 1 << 12
        if self.how.order == "in step":
            return min(ready, key=lambda each: each.time), 1
        return self.rng.choice(ready), self.rng.choice((1, 5, 40, 400))

    # --- one instruction ------------------------------------------------------------------------------------------

    def _step(self, wave: Wave) -> bool:
        """One instruction; False if the wave cannot go on now."""
        self.at = wave
        step = self.program.steps[wave.pc]
        wave.time += 1
        if wave.pending and not wave.pending.keys().isdisjoint(step.registers):
            self._look_at_registers(wave, step)
        if step.kind == RUN:
            step.run(wave)
        elif step.kind == ACCESS:
            self._issue(wave, step.run(wave, self.place))
        elif step.kind == WAIT:
            for counter, count in step.waits.items():
                self._wait(wave, counter, count)
        elif step.kind == JUMP:
            if step.run(wave):
                wave.pc = step.to
                return True
        elif step.kind == BARRIER:
            wave.pc += 1
            return self.barriers.step(wave, *step.barrier)
        elif step.kind == END:
            self._end(wave)
            return False
        wave.pc += 1
        return True

    def _look_at_registers(self, wave: Wave, step: Step) -> None:
        """A register that a load will still write; the next load of the same stream may write it too."""
        for register in sorted(wave.pending.keys() & step.registers):
            access = wave.pending[register]
            if step.kind == ACCESS and access.stream and register in step.overwritten:
                continue
            name = _name(register)
            self.found.early.setdefault(
                (access.line, step.line),
                f"line {step.line} uses {name} (wave {wave.number}) before a wait for `{access.text}` "
                f"(line {access.line})",
            )

    def _end(self, wave: Wave) -> None:
        for counter in list(wave.outstanding):
            for access in wave.outstanding[counter]:
                self._perform(wave, access)
        wave.outstanding.clear()
        self.alive.remove(wave)
        self.barriers.leave(wave)

    # --- accesses -------------------------------------------------------------------------------------------------

    def _issue(self, wave: Wave, access: Access) -> None:
        if self.watch:
            self.watch.issue(wave, access)
        access.left = len(access.counters)
        for counter in access.counters:
            wave.outstanding.setdefault(counter, []).append(access)
        for register in access.registers:
            wave.pending[register] = access
        manner = self._manner_of(wave, access)
        if manner == AT_ONCE:
            self._perform_up_to(wave, access)
        elif manner == SOMETIMES and self.rng.random() < 0.3:
            self._perform_up_to(wave, self.rng.choice(wave.outstanding[access.counters[0]]))

    def _manner_of(self, wave: Wave, access: Access) -> str:
        if self.how.timing == "early":
            return AT_ONCE
        if self.how.timing == "late":
            return HELD
        key = wave.number, access.counters[0] + access.stream
        if key not in self.manner:
            self.manner[key] = self.rng.choice((AT_ONCE, HELD, SOMETIMES))
        return self.manner[key]

    def _perform_up_to(self, wave: Wave, access: Access) -> None:
        """An access, and those of its stream before it."""
        if access.stream:
            for each in wave.outstanding[access.counters[0]]:
                if each is access:
                    break
                if each.stream == access.stream:
                    self._perform(wave, each)
        self._perform(wave, access)

    def _perform(self, wave: Wave, access: Access) -> None:
        if not access.is_done:
            access.is_done = True
            access.perform()
            self.place.lds.settle()

    def _wait(self, wave: Wave, counter: str, count: int) -> None:
        queue = wave.outstanding.get(counter, [])
        for access in certain(queue, count):
            queue.remove(access)
            access.left -= 1
            if access.left:
                continue
            self._perform(wave, access)
            if self.watch:
                self.watch.done(wave, access)
            for register in access.registers:
                if wave.pending.get(register) is access:
                    del wave.pending[register]


def _name(register: int) -> str:
    if register >= SCALARS:
        return f"s{register - SCALARS}"
    return f"v{register}" if register < 1024 else f"a{register - 1024}"
