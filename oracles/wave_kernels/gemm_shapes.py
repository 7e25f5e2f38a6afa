"""Products in other forms: any sizes, batches, two products in a row, tiles taken in turn by few workgroups."""

from functools import partial

import numpy as np
import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import WORKGROUP_0
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.building import GLOBAL, STAGED, Chip, case, options_for
from oracles.wave_kernels.gemm import TILE_K, TILE_M, TILE_N, K, M, N, reference, tiled

B, TILE_B = tkl.sym.B, tkl.sym.TILE_B
L, TILE_L = tkl.sym.L, tkl.sym.TILE_L
TURN, TILES = tkl.sym.TURN, tkl.sym.TILES
WORKERS = 4


def build_any_size(chip: Chip, schedule: SchedulingType) -> Build:
    """All sizes are known only at the launch; what lies beyond them is masked."""
    constraints = [*tiled(chip), tkw.Assumption(K > TILE_K * 4)]

    @tkw.wave(constraints)
    def gemm_any_size(
        left: tkl.Memory[M, K, STAGED, tkl.f16],
        right: tkl.Memory[N, K, STAGED, tkl.f16],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            return tkw.mma(tkw.read(left), tkw.read(right), so_far)

        tkw.write(total, out)

    sizes = {TILE_M: 64, TILE_N: 64, TILE_K: 64}
    return Build(gemm_any_size, options_for(chip, sizes, schedule, dynamic_symbols=[M, N, K]))


def build_batched(chip: Chip, schedule: SchedulingType) -> Build:
    """One product for each of a batch."""
    constraints = [
        tkw.WorkgroupConstraint(B, TILE_B, 2),
        *tiled(chip)[:-1],
        tkw.HardwareConstraint(threads_per_wave=chip.lanes, mma_type=chip.product, vector_shapes={B: 0}),
    ]

    @tkw.wave(constraints)
    def gemm_batched(
        left: tkl.Memory[B, M, K, STAGED, tkl.f16],
        right: tkl.Memory[B, N, K, STAGED, tkl.f16],
        out: tkl.Memory[B, M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[B, M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(so_far: tkl.Register[B, M, N, tkl.f32]) -> tkl.Register[B, M, N, tkl.f32]:
            return tkw.mma(tkw.read(left), tkw.read(right), so_far)

        tkw.write(total, out)

    sizes = {B: 2, M: 128, N: 128, K: 512, TILE_B: 1, TILE_M: 64, TILE_N: 64, TILE_K: 64}
    return Build(gemm_batched, options_for(chip, sizes, schedule))


def build_two_loops(chip: Chip) -> Build:
    """left @ right.T + more @ down.T: two loops in a row with sums of their own."""
    constraints = [*tiled(chip), tkw.TilingConstraint(L, TILE_L)]

    @tkw.wave(constraints)
    def gemm_two_loops(
        left: tkl.Memory[M, K, STAGED, tkl.f16],
        right: tkl.Memory[N, K, STAGED, tkl.f16],
        more: tkl.Memory[M, L, STAGED, tkl.f16],
        down: tkl.Memory[N, L, STAGED, tkl.f16],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def first(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            return tkw.mma(tkw.read(left), tkw.read(right), so_far)

        @tkw.iterate(L, init_args=[first])
        def second(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            return tkw.mma(tkw.read(more), tkw.read(down), so_far)

        tkw.write(second, out)

    sizes = {M: 128, N: 128, K: 512, L: 256, TILE_M: 64, TILE_N: 64, TILE_K: 64, TILE_L: 32}
    return Build(gemm_two_loops, options_for(chip, sizes))


def build_same_sum(chip: Chip) -> Build:
    """(left + more) @ right.T in two loops that read right through one buffer."""

    @tkw.wave(tiled(chip))
    def gemm_same_sum(
        left: tkl.Memory[M, K, STAGED, tkl.f16],
        more: tkl.Memory[M, K, STAGED, tkl.f16],
        right: tkl.Memory[N, K, STAGED, tkl.f16],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def first(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            return tkw.mma(tkw.read(left), tkw.read(right), so_far)

        @tkw.iterate(K, init_args=[first])
        def second(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            return tkw.mma(tkw.read(more), tkw.read(right), so_far)

        tkw.write(second, out)

    sizes = {M: 128, N: 128, K: 512, TILE_M: 64, TILE_N: 64, TILE_K: 64}
    return Build(gemm_same_sum, options_for(chip, sizes))


def build_persistent(chip: Chip) -> Build:
    """Few workgroups take the tiles of the result in turn: a loop over tiles around the loop of the sum."""
    columns = sympy.ceiling(N / TILE_N)
    constraints = [
        tkw.WorkgroupConstraint(M, TILE_M, 0, iters=WORKERS, apply_fn=lambda _: TURN // columns),
        tkw.WorkgroupConstraint(N, TILE_N, 1, iters=1, apply_fn=lambda _: TURN % columns),
        tkw.TilingConstraint(K, TILE_K),
        tkw.TilingConstraint(TURN),
        tkw.WaveConstraint(M, TILE_M / 2),
        tkw.WaveConstraint(N, TILE_N / 2),
        tkw.HardwareConstraint(threads_per_wave=chip.lanes, mma_type=chip.product, vector_shapes={TURN: 0}),
    ]

    @tkw.wave(constraints)
    def gemm_persistent(
        left: tkl.Memory[M, K, STAGED, tkl.f16],
        right: tkl.Memory[N, K, STAGED, tkl.f16],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        start = tkw.scalar(WORKGROUP_0, tkl.i32)

        @tkw.iterate(TURN, start=start, condition=TURN < TILES, init_args=[])
        def turns():
            turn = tkw.self_index(TURN, tkl.i32)
            tkw.set_symbol(TURN, turn)
            zero = tkl.Register[M, N, tkl.f32](0.0)

            @tkw.iterate(K, init_args=[zero])
            def total(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
                return tkw.mma(tkw.read(left), tkw.read(right), so_far)

            tkw.write(total, out)
            tkw.set_symbol(TURN, tkw.apply_expr(turn, lambda now: now + WORKERS))

    sizes = {M: 256, N: 256, K: 256, TILE_M: 64, TILE_N: 64, TILE_K: 64, TILES: 16}
    return Build(gemm_persistent, options_for(chip, sizes))


def reference_batched(inputs: Arrays) -> Arrays:
    left, right = inputs["left"].astype(np.float64), inputs["right"].astype(np.float64)
    return {"out": left @ right.transpose(0, 2, 1)}


def reference_two(inputs: Arrays) -> Arrays:
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    return {"out": wide["left"] @ wide["right"].T + wide["more"] @ wide["down"].T}


def reference_same(inputs: Arrays) -> Arrays:
    both = inputs["left"].astype(np.float64) + inputs["more"].astype(np.float64)
    return {"out": both @ inputs["right"].astype(np.float64).T}


PLANS = (("none", SchedulingType.NONE), ("prefetch", SchedulingType.PREFETCH), ("modulo", SchedulingType.MODULO))

CASES = (
    *(
        case(f"gemm-any-size-{name}", "gemm-any-size", partial(build_any_size, schedule=plan), reference=reference)
        for name, plan in PLANS
    ),
    case(
        "gemm-batched",
        "gemm-batched",
        partial(build_batched, schedule=SchedulingType.PREFETCH),
        reference=reference_batched,
    ),
    case("gemm-two-loops", "gemm-two-loops", build_two_loops, reference=reference_two),
    case("gemm-same-sum", "gemm-two-loops", build_same_sum, reference=reference_same),
    case("gemm-persistent", "gemm-persistent", build_persistent, reference=reference),
)
