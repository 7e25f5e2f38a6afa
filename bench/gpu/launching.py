"""One kernel on a GPU: its arguments in memory, its launch, and whether the numbers are right.

Needs   CuPy and a GPU; a manifest's entry, its folder, and a `Launch` of its case
Gives   `Loaded`, which can be launched, `Held`, arguments in memory, and `wrongness` of what came out
Keeps   outputs are poisoned before a run: what a kernel does not write is found; those that it adds to start as the
        launch says
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu.manifest import Entry, Refused
from oracles.triton_kernels import Launch, cases

# Outputs to which a kernel adds what it finds: they are not poisoned.
ADDED_TO = {
    "matmul-split": (2,),
    "layer-norm-back": (6, 7),
    "histogram": (1,),
    "sum-locked": (1,),
    "gluon-sum-tiles": (1,),
}
SCALARS = {"i32": np.int32, "i64": np.int64, "fp32": np.float32}
UNLIMITED_SHARED = 48 * 1024  # more than this must be asked for


def get_cupy() -> Any:
    """CuPy, where there is a GPU for it."""
    try:
        import cupy  # type: ignore[import-not-found]
    except ImportError:
        raise Refused("CuPy is not installed here: kernels are run through it") from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if not count:
        raise Refused("there is no GPU here: kernels are compiled without one, but run on one")
    return cupy


def launch_of(name: str, seed: int, scale: int) -> Launch:
    """The arguments of a case, drawn with a seed."""
    case = next(each for each in cases() if each.name == name)
    assert case.launch is not None
    return case.launch(np.random.default_rng(seed), scale)


class Loaded:
    """A kernel that the driver has taken; loading a file twice gives two."""

    def __init__(self, folder: Path, entry: Entry) -> None:
        if entry.ctas != 1:
            raise Refused(f"{entry.name} is launched in clusters of {entry.ctas}, which CuPy cannot do")
        self.entry = entry
        self.kernel = get_cupy().RawModule(path=str(folder / entry.ptx)).get_function(entry.entry)
        if entry.shared > UNLIMITED_SHARED:
            self.kernel.max_dynamic_shared_size_bytes = entry.shared

    def __call__(self, held: Held) -> None:
        """Launches it; does not wait."""
        self.kernel(held.grid, (self.entry.threads, 1, 1), held.arguments, shared_mem=self.entry.shared)


class Held:
    """The arguments of a launch in the GPU's memory, as bytes; the first of them are drawn, scratch memory follows."""

    def __init__(self, entry: Entry, launch: Launch) -> None:
        cupy = get_cupy()
        self.launch, self.grid = launch, launch.grid
        self.added_to = ADDED_TO.get(entry.case, ())
        self.drawn = {
            place: cupy.asarray(np.ascontiguousarray(each).reshape(-1).view(np.uint8))
            for place, each in enumerate(launch.args)
            if isinstance(each, np.ndarray)
        }
        self.live = {place: each.copy() for place, each in self.drawn.items()}
        programs = int(np.prod(launch.grid)) * entry.ctas
        self.scratch = [cupy.zeros(max(size * programs, 1), np.uint8) for size in (entry.scratch, entry.profile)]
        scalars = (SCALARS.get(each, np.int32) for each in entry.parameters)
        self.arguments = tuple(
            self.live[place] if place in self.live else scalar(launch.args[place])
            for place, scalar in enumerate(scalars)
        ) + tuple(self.scratch)

    @property
    def bytes(self) -> int:
        return sum(each.size for each in self.live.values())

    def reset(self) -> None:
        """As drawn, with poison in the outputs: NaN for floats, a large number for others."""
        for place, each in self.live.items():
            if place in self.launch.outputs and place not in self.added_to:
                each.fill(0xFF if self.launch.args[place].dtype.kind == "f" else 0x7F)
            else:
                each[...] = self.drawn[place]

    def results(self) -> list[np.ndarray]:
        """What the outputs hold now."""
        like = [self.launch.args[place] for place in self.launch.outputs]
        found = [self.live[place].get() for place in self.launch.outputs]
        return [each.view(one.dtype).reshape(one.shape) for each, one in zip(found, like, strict=True)]


def wrongness(results: list[np.ndarray], launch: Launch) -> float:
    """The largest distance from the reference in tolerances: at most 1 is right, infinite is NaN or not equal."""
    worst = 0.0
    for found, expected in zip(results, launch.expected, strict=True):
        distance = np.abs(found.astype(np.float64) - expected)
        allowed = launch.tolerance * (1 + np.abs(expected))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(distance == 0, 0.0, distance / allowed)
        worst = max(worst, float(np.nan_to_num(share, nan=np.inf, posinf=np.inf).max(initial=0.0)))
    return worst
