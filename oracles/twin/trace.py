"""Run every wave by itself and note of each access instance when it is issued and, at the latest, performed.

Times are places in the wave's own sequence: an event at step p has a wait at 4p, an arrival at 4p + 1 and a departure
at 4p + 2. What the worst choice of issued instructions leaves in flight is not performed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .facts import BYTES, FACTS
from .lanes import used_values
from .program import Access, Compute, Cond, Copy, Loop, Program, Statement, Sync
from .rules import Rules

NEVER = 1 << 40
Key = tuple[int, ...]
Arm = tuple[Key, int] | None  # a per-wave condition in one iteration, and which arm


@dataclass(slots=True)
class Instance:
    """One access of one wave in one iteration."""

    number: int  # of the statement
    access: Access | Copy
    wave: int
    env: dict[str, int]
    issue: int
    key: Key  # its place in program order, iterations included
    arm: Arm
    performed: int = NEVER
    performed_here: int = NEVER  # as the other lanes of the same wave see it

    @property
    def is_async(self) -> bool:
        return isinstance(self.access, Copy)

    @property
    def writes(self) -> bool:
        if isinstance(self.access, Copy):
            return self.access.operation != "lds_to_global"
        return self.access.kind != "read"


@dataclass(slots=True)
class Wave:
    """What one wave did."""

    wave: int
    instances: list[Instance] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    departures: list[int] = field(default_factory=list)
    fences: list[int] = field(default_factory=list)
    end: int = 0
    mistake: str = ""


def run_wave(program: Program, rules: Rules, wave: int, values: dict[str, int]) -> Wave:
    """One wave, from its start to its end."""
    env = {**values, "wave": wave, "wave // 2": wave // 2, "wave mod 2": wave % 2}
    runner = _Runner(program, rules, Wave(wave), env)
    runner.block(program.body, (), None, 0)
    return runner.finish()


class _Runner:
    """The queues of one wave, as they fill and drain."""

    def __init__(self, program: Program, rules: Rules, out: Wave, env: dict[str, int]) -> None:
        self.rules, self.out, self.env = rules, out, env
        self.facts = FACTS[program.target]
        self.step = 0
        self.ordinary: list[tuple[Instance, int]] = []  # in flight, with the instructions it is certain to be
        self.here: list[Instance] = []  # ordinary accesses that no fence has met
        self.queues: dict[str, list[tuple[Instance, int]]] = {c: [] for c in self.facts.copies.values()}
        self.open_group: list[Instance] = []
        self.groups: list[list[Instance]] = []
        self.signalled = False

    def block(self, body: tuple[Statement, ...], key: Key, arm: Arm, first: int) -> int:
        """Returns the number after the last statement, so that numbers do not depend on the path taken."""
        number = first
        for statement in body:
            here = (*key, number)
            if isinstance(statement, Loop):
                after = number + 1 + count(statement.body)
                for trip in range(max(0, statement.upper.at(self.env))):
                    self.env[statement.counter] = trip
                    self.block(statement.body, (*here, trip), arm, number + 1)
            elif isinstance(statement, Cond):
                middle = number + 1 + count(statement.then)
                after = middle + count(statement.otherwise)
                taken = statement.test.holds(self.env)
                inner = arm
                if statement.test.of_waves():
                    assert arm is None, "per-wave conditions are not nested here"
                    inner = (here, int(taken))
                self.block(
                    statement.then if taken else statement.otherwise,
                    here,
                    inner,
                    number + 1 if taken else middle,
                )
            else:
                after = number + 1
                self.one(statement, number, here, arm)
            number = after
        return number

    def one(self, statement: Access | Copy | Compute | Sync, number: int, key: Key, arm: Arm) -> None:
        if isinstance(statement, Compute):
            return
        self.step += 1
        now = 4 * self.step
        if isinstance(statement, Sync):
            self.sync(statement, now)
            return
        instance = Instance(number, statement, self.out.wave, dict(self.env), now, key, arm)
        self.out.instances.append(instance)
        if isinstance(statement, Access):
            certain = int(self.rules.atomics_are_certain and statement.kind == "atomic" and not statement.mask)
            self.ordinary.append((instance, certain))
            self.here.append(instance)
            return
        size = BYTES[statement.tile.dtype]
        for extent in statement.tile.shape:
            size *= extent
        if self.facts.groups:
            self.open_group.append(instance)
        else:
            units = self.facts.instructions(statement.operation, size)
            self.queues[self.facts.copies[statement.operation]].append((instance, units))

    def sync(self, sync: Sync, now: int) -> None:
        if sync.kind == "commit":
            self.groups.append(self.open_group)
            self.open_group = []
        elif sync.kind == "fence":
            self.fence(now)
        elif sync.kind == "count":
            self.waits(sync, now)
            if self.facts.wave_wide_wait and self.rules.amd_wait_is_wave_fence:
                self.fence(now)
        elif sync.kind == "wait":
            self.depart(now)
        else:
            self.waits(sync, now)
            if sync.kind == "drain" or self.facts.barrier_performs:
                self.drain_ordinary(now)
            self.arrive(now)
            if sync.kind != "signal":
                self.depart(now)

    def fence(self, now: int) -> None:
        self.out.fences.append(now)
        if self.rules.nvidia_fence_performs and self.facts.barrier_performs:
            for instance in self.here:
                instance.performed_here = min(instance.performed_here, now)  # a barrier may have come first
            self.here = []

    def arrive(self, now: int) -> None:
        if self.signalled:
            self.out.mistake = "it signals twice without a wait between"
        self.signalled = True
        self.out.arrivals.append(now + 1)
        if self.rules.half_pair_is_wave_fence:
            self.fence(now + 1)

    def depart(self, now: int) -> None:
        if not self.signalled:
            self.out.mistake = "it waits without a signal"
        self.signalled = False
        self.out.departures.append(now + 2)
        if self.rules.half_pair_is_wave_fence:
            self.fence(now + 2)

    def waits(self, sync: Sync, now: int) -> None:
        for counter, n in sync.counts:
            if counter == self.facts.lds_counter:
                self.ordinary = _leave(self.ordinary, n, now)
            elif self.facts.groups and counter == "group":
                self.wait_groups(n, now)
            elif counter in self.queues:
                self.queues[counter] = _leave(self.queues[counter], n, now)
        if sync.all_copies:
            for name in self.queues:
                self.queues[name] = _leave(self.queues[name], 0, now)
            if self.facts.groups:
                if self.rules.wait_async_ops_covers_uncommitted:
                    self.groups.append(self.open_group)
                    self.open_group = []
                self.wait_groups(0, now)

    def wait_groups(self, n: int, now: int) -> None:
        done = self.groups[: max(0, len(self.groups) - n)]
        self.groups = self.groups[len(done) :]
        for group in done:
            for instance in group:
                instance.performed = instance.performed_here = now

    def drain_ordinary(self, now: int) -> None:
        self.ordinary = _leave(self.ordinary, 0, now)

    def finish(self) -> Wave:
        out = self.out
        out.end = 4 * (self.step + 1)
        if self.signalled and not out.mistake and not self.rules.last_signal_needs_no_wait:
            out.mistake = "its last signal is never waited for"
        return out


def _leave(queue: list[tuple[Instance, int]], n: int, now: int) -> list[tuple[Instance, int]]:
    """Perform all but what the n newest units may hold. Units behind an instance count only if they are certain."""
    kept: list[tuple[Instance, int]] = []
    younger = 0
    for instance, units in reversed(queue):
        if younger >= n:
            instance.performed = min(instance.performed, now)
            instance.performed_here = min(instance.performed_here, now)
        else:
            kept.append((instance, units))
        younger += units
    return kept[::-1]


def count(body: tuple[Statement, ...]) -> int:
    """How many statements, inner ones included."""
    total = 0
    for statement in body:
        total += 1
        if isinstance(statement, Loop):
            total += count(statement.body)
        elif isinstance(statement, Cond):
            total += count(statement.then) + count(statement.otherwise)
    return total


def atomic_results_used(program: Program, rules: Rules) -> frozenset[str]:
    """Results of atomics that somebody uses."""
    return used_values(program, dead_counts=not rules.dead_use_is_no_use)
