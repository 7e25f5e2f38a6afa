"""A machine that runs a Wave trace with numbers, under timing that is as bad as the model allows.

Needs   a `CapturedTrace` of wave-lang 3.9.1 after its barrier pass, its constraints and options; Wave's indexing
        context open
Gives   `run`: global memory after a run of one workgroup, and whether it hung; `make_inputs`: small random arguments
Keeps   it shares no code with the analyses that it is to judge; an operation that it does not know raises `CannotRun`
Cost    about a second for a small product of matrices, most of it NumPy on the lanes of one wave

The model: ordinary accesses to shared memory are performed in the order of their wave, as late as their counter lets
them; copies to shared memory land at any time; waves go on at any pace. A kernel that computes the right numbers under
many seeds may still be wrong; one that computes others is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from wave_lang.kernel._support.indexing import subs_idxc
from wave_lang.kernel.ops.wave_ops import get_custom

from oracles.wave_machine.expressions import CannotRun
from oracles.wave_machine.numbers import Array, held_as
from oracles.wave_machine.program import Program, Ran, Workgroup

__all__ = ["CannotRun", "Program", "Ran", "make_inputs", "run"]


def run(
    trace: Any,
    constraints: Sequence[Any],
    options: Any,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    timing: str = "random",
    workgroups: Sequence[Workgroup] = ((0, 0, 0),),
) -> Ran:
    """Runs some workgroups once.

    `inputs` holds an array for each argument, outputs included; without it they are made from the seed. For many runs
    of one trace, make one `Program` and call its `run`. `timing` is

    - "early": each access is performed at once; "late": at the last moment
    - "lazy": late, and what is computed of a read moves past bare barriers too, as compilers move it, unless a
      scheduling barrier stands in its way
    - "copies-late": ordinary accesses early and copies late; "copies-early": the other way round
    - "random": anything in between, differently for each wave
    - "lockstep": at once, and the waves in turn: what is computed where they happen to go in step
    """
    program = Program(trace, constraints, options)
    return program.run(make_inputs(trace, seed=seed) if inputs is None else inputs, seed, timing, workgroups)


def make_inputs(trace: Any, sizes: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, Array]:
    """Small random numbers for each argument; `sizes` are those that are known only at the launch, by name."""
    given = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for node in trace.get_root_graph().nodes:
        if node.op != "placeholder":
            continue
        kind = get_custom(node).type
        shape = [extent_of(extent, sizes or {}) for extent in kind.symbolic_shape]
        dtype = held_as(kind.dtype)
        if np.issubdtype(dtype, np.integer):
            made[node.name] = given.integers(0, 100, shape).astype(dtype)
        else:
            made[node.name] = given.uniform(-1, 1, shape).astype(dtype)
    return made


def extent_of(extent: Any, sizes: Mapping[str, int]) -> int:
    found = subs_idxc(extent)
    if hasattr(found, "free_symbols"):
        found = found.subs({symbol: sizes[symbol.name] for symbol in found.free_symbols if symbol.name in sizes})
        if found.free_symbols:
            raise CannotRun(f"the size {found} is known only at the launch")
    return int(found)
