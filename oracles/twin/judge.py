"""Judge a program by design §2: every pair of instances that touch a common byte, for each value of the size N.

Needs   a Program whose places lie inside its buffers
Gives   a Verdict with a witness
Keeps   nothing is assumed of the map from lanes to elements but that it is one for one shape and element type
Cost    quadratic in the instances, a matrix at a time

Ordered means: performed before issued. In one lane program order is enough for ordinary accesses; between lanes of a
wave a fence or a barrier stands between; a copy is performed by a wait; between waves an arrival follows the one and
the departure of the same number precedes the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .facts import FACTS
from .footprint import Footprint, Footprints
from .program import Access, Program
from .rules import STRICT, Rules
from .text import line
from .trace import NEVER, Instance, Wave, atomic_results_used, run_wave

Bools = npt.NDArray[np.bool_]
TRIPS = range(1, 8)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is a word for statistics: hang, lanes, copy or waves, with RAW, WAR or WAW."""

    safe: bool
    why: str
    reason: str = ""


def judge(program: Program, trips: Iterable[int] = TRIPS, rules: Rules = STRICT) -> Verdict:
    """Safe means safe for every given value of N (from the least on), every flag and every map of lanes."""
    sizes = [n for n in trips if n >= program.least] if program.least else [0]
    pairs = _Pairs(program, rules)
    for values in _values(program, sizes):
        waves = [run_wave(program, rules, w, values) for w in range(program.waves)]
        bad = _protocol(waves, rules) or pairs.check(waves)
        if bad:
            said = ", ".join(f"{name} = {value}" for name, value in values.items() if name != "none")
            return Verdict(False, bad.why + (f" ({said})" if said else ""), bad.reason)
    return Verdict(True, "every conflicting pair is ordered")


def _values(program: Program, sizes: list[int]) -> Iterator[dict[str, int]]:
    for n in sizes:
        for bits in range(1 << len(program.flags)):
            flags = {flag: bits >> i & 1 for i, flag in enumerate(program.flags)}
            yield {"N": n, **flags} if program.least else dict(flags)


def _protocol(waves: list[Wave], rules: Rules) -> Verdict | None:
    """Hangs: signals and waits that do not alternate, and arrivals that do not match."""
    for wave in waves:
        if wave.mistake:
            return Verdict(False, f"wave {wave.wave}: {wave.mistake}", "hang")
    most = max(len(wave.arrivals) for wave in waves)
    for wave in waves:
        if len(wave.arrivals) == most:
            continue
        if not rules.ended_waves_leave:
            return Verdict(False, f"wave {wave.wave} arrives {len(wave.arrivals)} times, another {most}", "hang")
        for instance in wave.instances:
            instance.performed = min(instance.performed, wave.end)
        wave.arrivals += [wave.end + 1] * (most - len(wave.arrivals))
    return None


class _Pairs:
    """Conflicts between accesses, remembered by their footprints."""

    def __init__(self, program: Program, rules: Rules) -> None:
        self.rules = rules
        self.facts = FACTS[program.target]
        self.footprints = Footprints(program, rules)
        self.used = atomic_results_used(program, rules)
        self.ids: dict[object, int] = {}
        self.prints: list[Footprint] = []
        self.samples: list[Instance] = []
        self.touch: list[list[bool]] = []  # conflict between two footprints of different lanes or waves
        self.apart: list[list[bool]] = []  # some common byte may belong to two lanes

    def check(self, waves: list[Wave]) -> Verdict | None:
        instances = [i for wave in waves for i in wave.instances]
        if not instances:
            return None
        ids = np.array([self.identify(i) for i in instances])
        conflict = np.array(self.touch)[np.ix_(ids, ids)]
        apart = np.array(self.apart)[np.ix_(ids, ids)]
        times = _Times(waves, instances)
        bad = self.within(times, conflict, apart) | _between(times, conflict)
        if not bad.any():
            return None
        first, second = (int(k) for k in np.argwhere(bad)[0])
        return self.told(instances[first], instances[second])

    def identify(self, instance: Instance) -> int:
        """The number of its footprint; a new one is compared with all before it."""
        access = instance.access
        start = self.footprints.memories.start(access.place, instance.env)
        clipped = isinstance(access, Access) and bool(access.bounds)
        key = (instance.number, start, tuple(i.at(instance.env) for i in access.place.at) if clipped else ())
        if key in self.ids:
            return self.ids[key]
        new = self.ids[key] = len(self.prints)
        self.prints.append(self.footprints.of(instance.number, access, instance.env))
        self.samples.append(instance)
        self.touch.append([])
        self.apart.append([])
        for old in range(new + 1):
            touch, apart = self.compare(old, new)
            for table, value in ((self.touch, touch), (self.apart, apart)):
                table[new].append(value)
                if old != new:
                    table[old].append(value)
        return new

    def compare(self, old: int, new: int) -> tuple[bool, bool]:
        a, b = self.prints[old], self.prints[new]
        if not (self.samples[old].writes or self.samples[new].writes):
            return False, False
        common = (a.owner >= 0) & (b.owner >= 0)
        if not common.any() or self.commute(old, new, common):
            return False, False
        return True, bool((a.owner[common] != b.owner[common]).any())

    def commute(self, old: int, new: int, common: Bools) -> bool:
        """§3: atomics of one operator, type and width, at the same element boundaries, whose results nobody uses."""
        x, y = self.samples[old].access, self.samples[new].access
        if not (isinstance(x, Access) and isinstance(y, Access) and x.kind == y.kind == "atomic"):
            return False
        if x.tile.dtype != y.tile.dtype or x.result in self.used or y.result in self.used:
            return False
        return bool((self.prints[old].begin[common] == self.prints[new].begin[common]).all())

    def within(self, t: _Times, conflict: Bools, apart: Bools) -> Bools:
        """Pairs of one wave that are wrong; rows come first in the wave's order."""
        earlier = (t.wave[:, None] == t.wave) & (t.issue[:, None] < t.issue)
        crossed = (t.arrival_after_issue[:, None] < t.departures) | (t.fences[:, None] < t.fences)
        ordinary = ~t.is_async[:, None] & ~t.is_async
        wrong_lanes = ordinary & apart & ~crossed
        done = t.performed_here[:, None] < t.issue
        if not self.facts.wave_wide_wait:
            after = (t.arrival_after_here[:, None] < t.departures) | (t.fences_here[:, None] < t.fences)
            same = t.number[:, None] == t.number
            own = same & ~apart if self.rules.same_copy_keeps_lanes else np.zeros_like(same)
            done &= after | ~t.is_async[:, None] | own
        wrong_copies = ~ordinary & ~done
        wrong: Bools = conflict & earlier & (wrong_lanes | wrong_copies)
        return wrong

    def told(self, x: Instance, y: Instance) -> Verdict:
        if x.wave != y.wave and y.key < x.key:
            x, y = y, x
        hazard = {(True, False): "RAW", (False, True): "WAR"}.get((x.writes, y.writes), "WAW")
        if x.wave != y.wave:
            where = f"waves {x.wave} and {y.wave}"
            kind = "waves"
        else:
            where = f"wave {x.wave}"
            kind = "copy" if x.is_async or y.is_async else "lanes"
        said = f"{hazard} {where}: `{line(x.access)}` {_trip(x)}then `{line(y.access)}` {_trip(y)}not ordered"
        return Verdict(False, said, f"{kind} {hazard}")


def _trip(instance: Instance) -> str:
    trips = [f"{name} = {value}" for name, value in instance.env.items() if name.startswith("k")]
    return f"({', '.join(trips)}) " if trips else ""


class _Times:
    """The events of all instances as arrays."""

    def __init__(self, waves: list[Wave], instances: list[Instance]) -> None:
        def counted(attribute: str, times: list[int]) -> npt.NDArray[np.int64]:
            """How many events of its wave lie before the given time of each instance (waves one after another)."""
            parts, start = [], 0
            for wave in waves:
                end = start + len(wave.instances)
                parts.append(np.searchsorted(getattr(wave, attribute), times[start:end]))
                start = end
            return np.concatenate(parts).astype(np.int64)

        issue = [i.issue for i in instances]
        here = [i.performed_here for i in instances]
        done = [i.performed for i in instances]
        never = np.int64(NEVER)
        self.wave = np.array([i.wave for i in instances])
        self.number = np.array([i.number for i in instances])
        self.is_async = np.array([i.is_async for i in instances])
        self.issue, self.performed_here = np.array(issue), np.array(here)
        self.arrival_after_issue = counted("arrivals", issue)
        self.arrival_after_here = counted("arrivals", here)
        self.arrival_after_done = np.where(np.array(done) == never, never, counted("arrivals", done))
        self.departures = counted("departures", issue)
        self.fences, self.fences_here = counted("fences", issue), counted("fences", here)
        keys = {key: rank for rank, key in enumerate(sorted({i.key for i in instances}))}
        self.rank = np.array([keys[i.key] for i in instances])
        arms = {key: n for n, key in enumerate({i.arm[0] for i in instances if i.arm})}
        self.condition = np.array([arms[i.arm[0]] if i.arm else -1 for i in instances])
        self.arm = np.array([i.arm[1] if i.arm else 0 for i in instances])


def _between(t: _Times, conflict: Bools) -> Bools:
    """Pairs of two waves that are wrong; rows come first in program order where there is one."""
    ordered = t.arrival_after_done[:, None] < t.departures
    two_arms = (t.condition[:, None] == t.condition) & (t.condition >= 0) & (t.arm[:, None] != t.arm)
    free = two_arms | (t.rank[:, None] == t.rank)
    unordered = np.where(free, ~ordered & ~ordered.T, (t.rank[:, None] < t.rank) & ~ordered)
    wrong: Bools = conflict & (t.wave[:, None] != t.wave) & unordered
    return wrong
