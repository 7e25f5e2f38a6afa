"""How long a kernel takes with Triton's barriers and with Tidegate's, and how far two equal ones lie apart.

Needs   a pair of entries, on a GPU that nobody else uses meanwhile
Gives   the ratio of a pair, Triton's time over Tidegate's: median and quartiles over rounds, and the same for a second
        copy of Triton's in the place of Tidegate's, which is the noise of this kernel
Keeps   every round runs all of them, each order as often as another, each after the same 256 MiB were written, so that
        the cache holds nothing of the one before; a kernel is enlarged until it fills the chip and takes a while
Cost    a fifth of a second for a kernel, and drawing its arguments
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu.launching import Held, Loaded, get_cupy, launch_of, wrongness
from bench.gpu.manifest import Entry

ROUNDS, WARMING = 240, 12  # multiples of the orders of three; the first are not counted
WAVES = 2  # of thread blocks, one on each compute unit
LEAST_MICROS, LEAST_SAMPLE = 40.0, 120.0  # of a launch, and of the launches that are timed together
MOST_BYTES, MOST_DRAWING = 1 << 30, 4.0  # of arguments, and seconds to draw them
FLUSHED = 256 << 20
SEED = 7


@dataclass(slots=True)
class Timed:
    """One pair; times in microseconds."""

    scale: int
    grid: tuple[int, int, int]
    micros: dict[str, float]
    ratio: list[float]  # quartile, median, quartile
    control: list[float]
    wrong: dict[str, float]  # by variant, in tolerances, at this size
    same_bits: bool  # both variants gave the same
    rounds: int = ROUNDS


def time_pair(folder: Path, pair: tuple[Entry, Entry], alone: Callable[[], Any]) -> Timed:
    """Times a pair; `alone` is a context in which no other process uses the GPU."""
    first, second = pair
    kernels = [Loaded(folder, first), Loaded(folder, second), Loaded(folder, first)]
    scale, held, took = enlarge(first, kernels[0], alone)
    results = []
    with alone():
        for kernel in kernels[:2]:
            held.reset()
            kernel(held)
            results.append(held.results())
        times = measure(kernels, held, repeats=max(1, round(LEAST_SAMPLE / took)))[WARMING:]
    names = [each.variant for each in pair]
    return Timed(
        scale,
        held.grid,
        dict(zip(names, np.median(times, axis=0).tolist(), strict=False)),
        quartiles(times[:, 0] / times[:, 1]),
        quartiles(times[:, 0] / times[:, 2]),
        {name: wrongness(each, held.launch) for name, each in zip(names, results, strict=True)},
        all(one.tobytes() == other.tobytes() for one, other in zip(*results, strict=True)),
    )


def enlarge(entry: Entry, kernel: Loaded, alone: Callable[[], Any]) -> tuple[int, Held, float]:
    """A scale that fills the chip for long enough, within limits; what is passed there, and how long it takes."""
    wanted = WAVES * get_cupy().cuda.Device().attributes["MultiProcessorCount"]
    programs = [int(np.prod(launch_of(entry.case, SEED, scale).grid)) for scale in (1, 2)]
    power = max(1.0, np.log2(programs[1] / programs[0]))  # the grid grows with this power of the scale, work no slower
    scale = int(np.ceil((wanted / programs[0]) ** (1 / power)))
    before = 0
    while True:
        start = time.monotonic()
        launch = launch_of(entry.case, SEED, scale)
        drawing = time.monotonic() - start
        with alone():
            held = Held(entry, launch)
            held.reset()
            took = float(np.median(measure([kernel], held, 1, rounds=5)))
        more = max(1.25, (LEAST_MICROS / took) ** (1 / power))
        most = min(MOST_BYTES / held.bytes, MOST_DRAWING / drawing) ** (1 / power)
        if took >= LEAST_MICROS or most < 1.25 or held.bytes == before:
            return scale, held, took
        scale, before = int(np.ceil(scale * min(more, most))), held.bytes


def measure(kernels: list[Loaded], held: Held, repeats: int, rounds: int = ROUNDS + WARMING) -> np.ndarray:
    """Microseconds of one launch: a row for each round, a column for each kernel."""
    cupy = get_cupy()
    flush = cupy.empty(FLUSHED, np.uint8)
    orders = list(permutations(range(len(kernels))))
    begin, end = ([[cupy.cuda.Event() for _ in kernels] for _ in range(rounds)] for _ in range(2))
    for kernel in kernels:
        kernel(held)
    for number in range(rounds):
        for place in orders[number % len(orders)]:
            # While this is written, the host has time to hand over what follows.
            flush.fill(number & 1)
            begin[number][place].record()
            for _ in range(repeats):
                kernels[place](held)
            end[number][place].record()
    cupy.cuda.Device().synchronize()
    elapsed = cupy.cuda.get_elapsed_time
    taken = [[elapsed(one, other) for one, other in zip(*row, strict=True)] for row in zip(begin, end, strict=True)]
    return np.array(taken) * 1000 / repeats


def quartiles(values: np.ndarray) -> list[float]:
    return [float(each) for each in np.quantile(values, (0.25, 0.5, 0.75))]
