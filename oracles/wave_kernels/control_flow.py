"""Loops in loops, and writes that only some waves or some steps do.

A barrier inside a branch that not all waves take would hang; outside it, it must stand on every path.
"""

from functools import partial

import numpy as np
import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE, THREAD_1
from wave_lang.kernel.wave.utils.symbol_utils import get_induction_symbol

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.atomics import ROW, waves_on_rows
from oracles.wave_kernels.building import GLOBAL, KEPT, STAGED, Chip, case, options_for
from oracles.wave_kernels.gemm import TILE_K, TILE_M, TILE_N, K, M, N

L, STEP = tkl.sym.L, tkl.sym.STEP


def build_nested(chip: Chip) -> Build:
    """The sum over l of left[l] @ right[l].T: a loop around the loop of the sum."""
    constraints = [
        tkw.WorkgroupConstraint(M, TILE_M, 0),
        tkw.WorkgroupConstraint(N, TILE_N, 1),
        tkw.TilingConstraint(L, 1),
        tkw.TilingConstraint(K, TILE_K),
        tkw.WaveConstraint(M, TILE_M / 2),
        tkw.WaveConstraint(N, TILE_N / 2),
        tkw.HardwareConstraint(threads_per_wave=chip.lanes, mma_type=chip.product, vector_shapes={L: 0}),
    ]

    @tkw.wave(constraints)
    def gemm_nested(
        left: tkl.Memory[L, M, K, STAGED, tkl.f16],
        right: tkl.Memory[L, N, K, STAGED, tkl.f16],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(L, init_args=[zero])
        def layers(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            @tkw.iterate(K, init_args=[so_far])
            def total(inner: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
                return tkw.mma(tkw.read(left), tkw.read(right), inner)

            return total

        tkw.write(layers, out)

    sizes = {L: 4, M: 128, N: 128, K: 256, TILE_M: 64, TILE_N: 64, TILE_K: 64}
    return Build(gemm_nested, options_for(chip, sizes))


def first_row() -> tuple[tkw.IndexMapping, tkw.IndexMapping]:
    """Writes go to row 0 of shared memory, reads come from it."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    zero = sympy.Integer(0)
    put = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={M: zero, N: j})
    take = tkw.IndexMapping(num_iterators=2, inputs={M: zero, N: j}, outputs={M: i, N: j})
    return put, take


def this_step() -> tkw.IndexMapping:
    """Reads the rows of the step that the loop is in."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    return tkw.IndexMapping(
        num_iterators=2, inputs={STEP: get_induction_symbol(STEP), M: i, N: j}, outputs={M: i, N: j}
    )


def build_one_writes(chip: Chip, waves: int = 4) -> Build:
    """The first wave puts its row into shared memory under a condition; all add it to their own."""
    put, take = first_row()

    @tkw.wave(waves_on_rows(chip, waves))
    def add_first_row(rows: tkl.Memory[M, N, GLOBAL, tkl.f32], out: tkl.Memory[M, N, GLOBAL, tkl.f32]):
        mine = tkw.read(rows)
        shared = tkw.allocate((M, N), (ROW, TILE_N), tkl.f32, SHARED_ADDRESS_SPACE)

        @tkw.conditional(sympy.Eq(THREAD_1, 0))
        def first_wave():
            tkw.write(mine, shared, mapping=put)

        tkw.write(mine + tkw.read(shared, mapping=take), out)

    sizes = {M: waves, N: 4 * chip.lanes, ROW: 1, TILE_M: waves, TILE_N: chip.lanes}
    return Build(add_first_row, options_for(chip, sizes, **KEPT))


def build_pass_around(chip: Chip, waves: int = 4) -> Build:
    """In each step every wave puts a row into shared memory and adds up the rows of the next wave."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    after = tkw.IndexMapping(num_iterators=2, inputs={M: (i + 1) % waves, N: j}, outputs={M: i, N: j})
    constraints = [*waves_on_rows(chip, waves), tkw.TilingConstraint(STEP, 1)]

    @tkw.wave(constraints)
    def pass_around(rows: tkl.Memory[STEP, M, N, GLOBAL, tkl.f32], out: tkl.Memory[M, N, GLOBAL, tkl.f32]):
        shared = tkw.allocate((M, N), (TILE_M, TILE_N), tkl.f32, SHARED_ADDRESS_SPACE)

        @tkw.iterate(STEP, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def steps(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            tkw.write(tkw.read(rows, mapping=this_step()), shared)
            return so_far + tkw.read(shared, mapping=after)

        tkw.write(steps, out)

    sizes = {M: waves, N: 4 * chip.lanes, STEP: 3, TILE_M: waves, TILE_N: chip.lanes}
    return Build(pass_around, options_for(chip, sizes, **KEPT))


def build_sometimes(chip: Chip, waves: int = 4) -> Build:
    """In each step the first wave puts its row into shared memory and all add it up."""
    put, take = first_row()
    constraints = [*waves_on_rows(chip, waves), tkw.TilingConstraint(STEP, 1)]

    @tkw.wave(constraints)
    def follow_first(rows: tkl.Memory[STEP, M, N, GLOBAL, tkl.f32], out: tkl.Memory[M, N, GLOBAL, tkl.f32]):
        shared = tkw.allocate((M, N), (ROW, TILE_N), tkl.f32, SHARED_ADDRESS_SPACE)

        @tkw.iterate(STEP, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def steps(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            mine = tkw.read(rows, mapping=this_step())

            @tkw.conditional(sympy.Eq(THREAD_1, 0))
            def first_wave():
                tkw.write(mine, shared, mapping=put)

            return so_far + tkw.read(shared, mapping=take)

        tkw.write(steps, out)

    sizes = {M: waves, N: 4 * chip.lanes, STEP: 3, ROW: 1, TILE_M: waves, TILE_N: chip.lanes}
    return Build(follow_first, options_for(chip, sizes, **KEPT))


def reference_nested(inputs: Arrays) -> Arrays:
    left, right = inputs["left"].astype(np.float64), inputs["right"].astype(np.float64)
    return {"out": (left @ right.transpose(0, 2, 1)).sum(0)}


def reference_one(inputs: Arrays) -> Arrays:
    rows = inputs["rows"].astype(np.float64)
    return {"out": rows + rows[:1]}


def reference_steps(inputs: Arrays, around: bool) -> Arrays:
    total = inputs["rows"].astype(np.float64).sum(0)
    return {"out": np.roll(total, -1, axis=0) if around else np.broadcast_to(total[:1], total.shape)}


CASES = (
    case("gemm-nested", "nested-loops", build_nested, reference=reference_nested),
    case("one-writes", "conditional", build_one_writes, reference=reference_one),
    case("one-writes-in-loop", "conditional", build_sometimes, reference=partial(reference_steps, around=False)),
    case("pass-around", "pass-around", build_pass_around, reference=partial(reference_steps, around=True)),
)
