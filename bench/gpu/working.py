"""The process in which kernels run: takes tasks one by one, and says what came of each before it takes the next.

Needs   a folder of compiled kernels, CuPy and a GPU; names of tasks on its input, one in a line
Gives   lines of JSON in a file: a task that begins, and what came of it
Keeps   after an error nothing else is tried: a kernel that failed may have left the GPU's context unusable, and who
        started this process starts another one for the rest
"""

from __future__ import annotations

import fcntl
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from bench.gpu import standins
from bench.gpu.manifest import Manifest, read_manifest

NUMBERS, TIME, ONCE = "numbers", "time", "once"
SEEDS, SCALES = (0, 1, 2), (1, 3)


def work(folder: Path, kind: str, progress: Path, lock: Path) -> int:
    """Does all tasks; 1 after the first that fails."""
    standins.install()
    manifest = read_manifest(folder)
    do: Callable[[str], dict] = {
        NUMBERS: lambda name: check_numbers(folder, manifest, name),
        ONCE: lambda name: run_once(folder, manifest, name),
        TIME: lambda name: time_one(folder, manifest, name, lock),
    }[kind]
    with progress.open("a", encoding="utf-8") as out:
        for name in sys.stdin.read().split():
            say(out, {"task": name})
            try:
                start = time.monotonic()
                found = do(name)
                say(out, {"task": name, "found": {**found, "seconds": round(time.monotonic() - start, 2)}})
            except Exception as error:  # of a kernel, of the driver, of a reference: it is this task's result
                say(out, {"task": name, "error": f"{type(error).__name__}: {error}".splitlines()[0][:200]})
                return 1
    return 0


def say(out: TextIO, what: dict) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()


def check_numbers(folder: Path, manifest: Manifest, name: str) -> dict:
    """The largest distance from float64 over seeds and sizes; None is NaN, or not equal where it must be."""
    from bench.gpu.launching import Held, Loaded, launch_of, wrongness

    entry = manifest.named(name)
    kernel = Loaded(folder, entry)
    worst = 0.0
    for scale in SCALES:
        for seed in SEEDS:
            held = Held(entry, launch_of(entry.case, seed, scale))
            held.reset()
            kernel(held)
            worst = max(worst, wrongness(held.results(), held.launch))
    return {"right": worst <= 1, "worst": finite(worst)}


def run_once(folder: Path, manifest: Manifest, name: str) -> dict:
    """One small launch, for a tool that watches; the numbers are looked at, too."""
    from bench.gpu.launching import Held, Loaded, launch_of, wrongness

    entry = manifest.named(name)
    held = Held(entry, launch_of(entry.case, SEEDS[0], 1))
    held.reset()
    Loaded(folder, entry)(held)
    return {"right": wrongness(held.results(), held.launch) <= 1}


def time_one(folder: Path, manifest: Manifest, name: str, lock: Path) -> dict:
    """A pair, timed while no other process holds the lock."""
    from bench.gpu.timing import time_pair

    timed = time_pair(folder, manifest.pairs()[name], lambda: held_lock(lock))
    return {**asdict(timed), "wrong": {variant: finite(each) for variant, each in timed.wrong.items()}}


@contextmanager
def held_lock(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
