"""Triton's kernels for the machine: compiled for a target without a GPU, with arguments and what should come out.

Needs   Triton (`pip install tidegate[triton]`); a case of `oracles.triton_kernels` that knows how it is launched
Gives   `Kernel`: text, program, arguments; `compare`: sentences on what differs from the reference
Keeps   a kernel is compiled once for each process; gfx90a and gfx1100 are compiled for as gfx942 and gfx1201 are
Cost    a second to compile
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import oracles.triton_kernels as corpus
from oracles.amdgcn_machine.launch import Ran, Shape, run
from oracles.amdgcn_machine.machine import Hostility
from oracles.amdgcn_machine.program import Program, load
from oracles.amdgcn_machine.text import NotUnderstood

LIKE = {"gfx90a": "gfx942", "gfx1100": "gfx1201"}  # sources that choose by target choose as for these
LANES = {"gfx90a": 64, "gfx1100": 32}
# gfx942 takes these bits for other numbers than the reference: an exponent less one, and no number for -0.
OTHER_NUMBERS = (("matmul-fp8e4", "gfx942"),)
TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel with one launch."""

    name: str
    text: str
    launch: corpus.Launch
    waves: int

    def program(self) -> Program:
        return load(self.text)

    def shape(self, workgroups: int = 0) -> Shape:
        """All workgroups, or the first few."""
        shape = Shape(self.launch.grid, self.waves)
        return Shape(self.launch.grid, self.waves, tuple(shape.all()[:workgroups])) if workgroups else shape

    def run(self, how: Hostility, workgroups: int = 0, program: Program | None = None, max_steps: int = 600_000) -> Ran:
        chosen = program or self.program()
        return run(chosen, self.text, self.launch.args, self.shape(workgroups), how, max_steps=max_steps)

    def compare(self, ran: Ran) -> list[str]:
        """Of a whole run."""
        said = []
        for at, expected in zip(self.launch.outputs, self.launch.expected, strict=True):
            array = np.asarray(ran.args[at]).astype(np.float64).reshape(expected.shape)
            good = np.isclose(array, expected, rtol=self.launch.tolerance, atol=self.launch.tolerance, equal_nan=True)
            if not good.all():
                place = tuple(int(each) for each in np.argwhere(~good)[0])
                said.append(
                    f"argument {at}: {int((~good).sum())} of {good.size} numbers differ, the first at {place}: "
                    f"{array[place]:.6g} instead of {expected[place]:.6g}"
                )
        return said


def kernel(name: str, target: str, scale: int = 1, seed: int = 0) -> Kernel:
    """A case of the corpus by its name."""
    case = next(each for each in corpus.cases() if each.name == name)
    if case.launch is None:
        raise ValueError(f"{name} has no launch")
    if (name, target) in OTHER_NUMBERS:
        raise NotUnderstood(f"the reference of {name} is not for the numbers of {target}")
    with _more_targets():
        made, metadata = corpus.compile_to(case, target, "amdgcn")
    launch = case.launch(np.random.default_rng(seed), scale)
    return Kernel(f"{name}.{target}", made["amdgcn"], launch, int(metadata["num_warps"]))


@contextlib.contextmanager
def _more_targets() -> Iterator[None]:
    """Targets of the machine that the corpus does not list."""
    added = {name: corpus.Chip("hip", name, lanes) for name, lanes in LANES.items()}
    corpus.TARGETS.update(added)
    try:
        yield
    finally:
        for name in added:
            del corpus.TARGETS[name]
