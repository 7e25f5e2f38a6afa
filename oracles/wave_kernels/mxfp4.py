"""Products of 4-bit floats with a scale for each block of 32, which only gfx950 multiplies in one instruction."""

from functools import partial

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.wave.constraints import ScaledMMAType
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

from oracles.wave_kernels import Build
from oracles.wave_kernels.building import GLOBAL, STAGED, Chip, case, options_for
from oracles.wave_kernels.gemm import TILE_K, TILE_M, TILE_N, K, M, N, tiled


def build_mxfp4(
    chip: Chip,
    schedule: SchedulingType,
    tile: tuple[int, int, int] = (64, 64, 256),
    waves: tuple[int, int] = (2, 2),
    **options: object,
) -> Build:
    """Two numbers in a byte, scales that are exponents; all four operands are read through shared memory."""
    constraints = tiled(chip, waves, mma_type=ScaledMMAType.F32_16x16x128_F8F6F4)

    @tkw.wave(constraints)
    def gemm_mxfp4(
        left: tkl.Memory[M, K / 2, STAGED, tkl.i8],
        left_scale: tkl.Memory[M, K / 32, STAGED, tkl.i8],
        right: tkl.Memory[N, K / 2, STAGED, tkl.i8],
        right_scale: tkl.Memory[N, K / 32, STAGED, tkl.i8],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            rows = tkw.bitcast(tkw.read(left), tkl.f4e2m1fn)
            rows_by = tkw.bitcast(tkw.read(left_scale), tkl.f8e8m0fnu)
            columns = tkw.bitcast(tkw.read(right), tkl.f4e2m1fn)
            columns_by = tkw.bitcast(tkw.read(right_scale), tkl.f8e8m0fnu)
            return tkw.scaled_mma(rows, rows_by, columns, columns_by, so_far)

        tkw.write(total, out)

    sizes = {M: 2 * tile[0], N: 2 * tile[1], K: 6 * tile[2], TILE_M: tile[0], TILE_N: tile[1], TILE_K: tile[2]}
    return Build(gemm_mxfp4, options_for(chip, sizes, schedule, **options))


def mxfp4(name: str, **chosen: object):
    return case(f"mxfp4-{name}", "mxfp4", partial(build_mxfp4, **chosen), targets=("gfx950",))


CASES = (
    mxfp4("none", schedule=SchedulingType.NONE),
    mxfp4("prefetch", schedule=SchedulingType.PREFETCH),
    mxfp4("modulo", schedule=SchedulingType.MODULO),
    mxfp4("async", schedule=SchedulingType.NONE, use_global_to_shared=True),
    mxfp4("async-prefetch-2", schedule=SchedulingType.PREFETCH, use_global_to_shared=True, multi_buffer_count=2),
    # The tile for which Wave changes the order of the loop's operations.
    mxfp4("pingpong", schedule=SchedulingType.PREFETCH, tile=(256, 128, 256), waves=(4, 2)),
)
