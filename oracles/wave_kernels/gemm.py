"""Products of matrices through shared memory: one loop, under each of Wave's schedules and counts of buffers.

`gemm-SCHEDULE-N` has N buffers for each operand; without a number Wave chooses. What differs between the cases is only
what the scheduler makes of the loop.
"""

from functools import partial

import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.wave.constraints import HardwareConstraint
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.building import GLOBAL, STAGED, Chip, case, options_for

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
TILE_M, TILE_N, TILE_K = tkl.sym.TILE_M, tkl.sym.TILE_N, tkl.sym.TILE_K


def tiled(chip: Chip, waves: tuple[int, int] = (2, 2), **hardware: object) -> list[tkw.Constraint]:
    """A tile for each workgroup, and a part of it for each wave; `hardware`: more about that, or something else."""
    known: dict[str, object] = {"threads_per_wave": chip.lanes, "mma_type": chip.product, **hardware}
    return [
        tkw.WorkgroupConstraint(M, TILE_M, 0),
        tkw.WorkgroupConstraint(N, TILE_N, 1),
        tkw.TilingConstraint(K, TILE_K),
        tkw.WaveConstraint(M, TILE_M / waves[0]),
        tkw.WaveConstraint(N, TILE_N / waves[1]),
        tkw.HardwareConstraint(**known),
    ]


def build_gemm(
    chip: Chip,
    schedule: SchedulingType = SchedulingType.NONE,
    tile: tuple[int, int, int] = (64, 64, 64),
    waves: tuple[int, int] = (2, 2),
    steps: int = 8,
    clusters: tuple[int, int, int] | None = None,
    **options: object,
) -> Build:
    """left @ right.T for two f16 matrices whose rows run along the sum."""
    constraints = tiled(chip, waves, workgroups_per_cluster=clusters)

    @tkw.wave(constraints)
    def gemm(
        left: tkl.Memory[M, K, STAGED, tkl.f16],
        right: tkl.Memory[N, K, STAGED, tkl.f16],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            return tkw.mma(tkw.read(left), tkw.read(right), so_far)

        tkw.write(total, out)

    sizes = {M: 2 * tile[0], N: 2 * tile[1], K: steps * tile[2], TILE_M: tile[0], TILE_N: tile[1], TILE_K: tile[2]}
    return Build(gemm, options_for(chip, sizes, schedule, **options))


def build_small(chip: Chip) -> Build:
    """One product in each step of each wave: every wave reads each operand's buffer once."""
    depth = HardwareConstraint(chip.lanes).mma_matrix_shapes(chip.product)[2]
    return build_gemm(chip, tile=(32, 32, depth))


def reference(inputs: Arrays) -> Arrays:
    return {"out": inputs["left"].astype(np.float64) @ inputs["right"].astype(np.float64).T}


SCHEDULES = {
    "prefetch": SchedulingType.PREFETCH,
    "modulo": SchedulingType.MODULO,
    "four-stage": SchedulingType.FOUR_STAGE,
}

CASES = (
    case("gemm-none", "gemm", build_gemm, reference=reference),
    case("gemm-small", "gemm", build_small, reference=reference),
    # Each operand is read right after it is written, so that both can take the same bytes in turn.
    case("gemm-same-bytes", "gemm", partial(build_gemm, reorder_allocs=False), reference=reference),
    *(
        case(f"gemm-{name}", "gemm", partial(build_gemm, schedule=schedule), reference=reference)
        for name, schedule in SCHEDULES.items()
    ),
    *(
        case(
            f"gemm-{name}-{count}",
            "gemm",
            partial(build_gemm, schedule=SCHEDULES[name], multi_buffer_count=count),
            reference=reference,
        )
        for name in SCHEDULES
        for count in (1, 2, 3, 4)
    ),
)
