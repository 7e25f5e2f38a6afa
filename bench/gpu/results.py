"""What came of a run, and whether it is within its limits.

Needs   the document that a run wrote
Gives   `Results`, which answers what tables ask, and `beyond`: what must not be
Keeps   a kernel that fell back has no share in times; what nobody looked at is neither right nor wrong
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.gpu.manifest import REMOVED, TIDEGATE, TRITON, Refused

PERCENTILE = 95
PROVED = "proved"
CHECKS = ("racecheck", "synccheck")


@dataclass(frozen=True)
class Results:
    """A run, with what is asked of it."""

    read: dict

    @cached_property
    def entries(self) -> dict[str, dict]:
        return {f"{each['case']}.{each['target']}.{each['variant']}": each for each in self.read["entries"]}

    def names(self, variant: str, target: str | None = None) -> list[str]:
        """Pairs that have a variant."""
        found = (each for each in self.entries.values() if each["variant"] == variant)
        return [f"{each['case']}.{each['target']}" for each in found if target in (None, each["target"])]

    @cached_property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(each["target"] for each in self.read["entries"]))

    def fallback(self, pair: str) -> str:
        return self.entries[f"{pair}.{TIDEGATE}"]["fallback"]

    def is_control(self, pair: str) -> bool:
        return len({self.entries[f"{pair}.{variant}"]["digest"] for variant in (TRITON, TIDEGATE)}) == 1

    def time(self, pair: str) -> dict | None:
        found = self.read.get("time", {}).get(pair)
        return found if found and "error" not in found else None

    def ratio(self, pair: str) -> float:
        timed = self.time(pair)
        assert timed is not None
        return timed["ratio"][1]

    def timed(self, target: str) -> list[str]:
        """Pairs that Tidegate changed or left as they are, with times."""
        return [each for each in self.names(TIDEGATE, target) if not self.fallback(each) and self.time(each)]

    @cached_property
    def noise(self) -> float:
        """What 95 of 100 control pairs stay within: how far their median is from 1."""
        timed = {pair: each for pair, each in self.read.get("time", {}).items() if "error" not in each}
        found = [abs(each["control"][1] - 1) for each in timed.values()]
        found += [abs(each["ratio"][1] - 1) for pair, each in timed.items() if self.is_control(pair)]
        return float(np.percentile(found, PERCENTILE)) if found else 0.0

    def own_noise(self, pair: str) -> float:
        """How far the control pair of a kernel is from 1, and how well its own median is known (a notch's half)."""
        timed = self.time(pair)
        assert timed is not None
        spread = timed["ratio"][2] - timed["ratio"][0]
        return max(abs(timed["control"][1] - 1), 1.58 * spread / timed["rounds"] ** 0.5)

    def is_worse(self, pair: str) -> bool:
        """Slower by more than noise; two texts that are the same cannot be."""
        return not self.is_control(pair) and self.ratio(pair) < 1 - max(self.noise, self.own_noise(pair))

    def is_right(self, name: str) -> bool | None:
        """Whether all numbers of an entry are those of float64; None: nobody looked."""
        found = self.read.get("numbers", {}).get(name)
        if found is None:
            return None
        pair, _, variant = name.rpartition(".")
        timed = self.time(pair)
        large = timed["wrong"].get(variant, 0.0) if timed else 0.0
        return bool(found.get("right")) and large is not None and large <= 1

    def reports(self, check: str, name: str) -> int | None:
        """How much a tool reported; None: it did not run, or not to the end."""
        found = self.read.get(check, {}).get(name)
        return None if found is None or "error" in found else sum(found["reports"].values())


def read_results(path: Path) -> Results:
    if not path.is_file():
        raise Refused(f"{path} is not there: `python -m bench.gpu run DIR --out {path.parent}` writes it")
    return Results(json.loads(path.read_text(encoding="utf-8")))


def beyond(results: Results) -> list[str]:
    """What must not be: a slower kernel, a wrong number, a report that Triton's own does not have, a miss."""
    ours = [f"{pair}.{TIDEGATE}" for pair in results.names(TIDEGATE)]
    found = [f"{pair} is slower than the noise" for target in results.targets for pair in slower(results, target)]
    found += [f"{name} gives wrong numbers" for name in ours if results.is_right(name) is False]
    found += [
        f"{check} reports {name}, and not Triton's"
        for check in CHECKS
        for name in ours
        if results.reports(check, name) and not results.reports(check, name.replace(f".{TIDEGATE}", f".{TRITON}"))
    ]
    return found + [f"{name} is proved, and shown to be wrong" for name in missed(results)]


def slower(results: Results, target: str) -> list[str]:
    return [pair for pair in results.timed(target) if results.is_worse(pair)]


def without_a_barrier(results: Results) -> list[str]:
    """Entries with a barrier removed that ran."""
    ran = results.read.get("numbers", {}).keys() | results.read.get("racecheck", {}).keys()
    return [name for name, each in results.entries.items() if each["variant"].startswith(REMOVED) and name in ran]


def missed(results: Results) -> list[str]:
    return [
        name
        for name in without_a_barrier(results)
        if results.entries[name]["verdict"] == PROVED
        and (results.reports("racecheck", name) or results.is_right(name) is False)
    ]
