"""Products whose operands go from global to shared memory without passing registers.

`use_global_to_shared` makes GatherToLDS where the chip has loads into LDS (gfx942: 4 bytes for a lane, gfx950: 16) and
TensorLoadToLDS on gfx1250. What is in flight has no register, so only a counter says that it has arrived.
"""

from functools import partial

import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.building import COPYING, GATHERING, GLOBAL, STAGED, Chip, case, options_for
from oracles.wave_kernels.gemm import SCHEDULES, TILE_K, TILE_M, TILE_N, K, M, N, build_gemm, reference


def build_half(chip: Chip, schedule: SchedulingType, tile: int = 64, steps: int = 8) -> Build:
    """left @ right where the rows of right run along the columns: it is turned on its way, so it passes registers."""
    k, n = tkl.sym.k, tkl.sym.n
    constraints = [
        tkw.WorkgroupConstraint(M, TILE_M, 0),
        tkw.WorkgroupConstraint(N, TILE_N, 1),
        tkw.TilingConstraint(K, TILE_K),
        tkw.WaveConstraint(M, TILE_M / 2),
        tkw.WaveConstraint(N, TILE_N / 2),
        tkw.IteratorBindings({k: K, n: N}),
        tkw.HardwareConstraint(threads_per_wave=chip.lanes, mma_type=chip.product),
    ]

    @tkw.wave(constraints)
    def gemm_turned(
        left: tkl.Memory[M, K, STAGED, tkl.f16],
        right: tkl.Memory[K, N, STAGED, tkl.f16],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero])
        def total(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            columns = tkw.read(right, source=(k, n), target=(n, k))
            return tkw.mma(tkw.read(left), columns, so_far)

        tkw.write(total, out)

    sizes = {M: 2 * tile, N: 2 * tile, K: steps * tile, TILE_M: tile, TILE_N: tile, TILE_K: tile}
    return Build(gemm_turned, options_for(chip, sizes, schedule, use_global_to_shared=True))


def reference_turned(inputs: Arrays) -> Arrays:
    return {"out": inputs["left"].astype(np.float64) @ inputs["right"].astype(np.float64)}


def build_async(chip: Chip, **more: object) -> Build:
    return build_gemm(chip, use_global_to_shared=True, **more)


CASES = (
    case("gemm-async-none", "gemm-async", build_async, targets=COPYING, reference=reference),
    *(
        case(
            f"gemm-async-{name}",
            "gemm-async",
            partial(build_async, schedule=schedule),
            targets=GATHERING,
            reference=reference,
        )
        for name, schedule in SCHEDULES.items()
    ),
    *(
        case(
            f"gemm-async-{name}-{count}",
            "gemm-async",
            partial(build_async, schedule=SCHEDULES[name], multi_buffer_count=count),
            targets=GATHERING,
            reference=reference,
        )
        for name in ("prefetch", "modulo")
        for count in (1, 2, 3, 4)
    ),
    *(
        case(
            f"gemm-half-async-{name}",
            "gemm-half-async",
            partial(build_half, schedule=schedule),
            targets=GATHERING,
            reference=reference_turned,
        )
        for name, schedule in (("none", SchedulingType.NONE), ("modulo", SchedulingType.MODULO))
    ),
    case(
        "gemm-cluster",
        "gemm-cluster",
        partial(build_async, clusters=(2, 2, 1)),
        targets=("gfx1250",),
        reference=reference,
    ),
)
