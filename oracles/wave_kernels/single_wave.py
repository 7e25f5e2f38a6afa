"""Workgroups of one wave: what one wave does is in order, so no barrier is needed, only what has been asked for."""

from functools import partial

import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.atomics import TILE_M, TILE_N, M, N, waves_on_rows
from oracles.wave_kernels.building import GATHERING, GLOBAL, KEPT, Chip, case, options_for
from oracles.wave_kernels.gemm import build_gemm, reference

ONE = {"tile": (32, 32, 64), "waves": (1, 1)}


def build_reverse(chip: Chip) -> Build:
    """Turns each row around by way of shared memory."""
    width = chip.lanes
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    back = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: width - 1 - j}, outputs={M: i, N: j})

    @tkw.wave(waves_on_rows(chip, 1))
    def reverse(rows: tkl.Memory[M, N, GLOBAL, tkl.f32], out: tkl.Memory[M, N, GLOBAL, tkl.f32]):
        shared = tkw.allocate((M, N), (TILE_M, TILE_N), tkl.f32, SHARED_ADDRESS_SPACE)
        tkw.write(tkw.read(rows), shared)
        tkw.write(tkw.read(shared, mapping=back), out)

    sizes = {M: 8, N: width, TILE_M: 1, TILE_N: width}
    return Build(reverse, options_for(chip, sizes, **KEPT))


def reference_reverse(inputs: Arrays) -> Arrays:
    return {"out": np.flip(inputs["rows"], axis=1).astype(np.float64)}


CASES = (
    case("single-wave-gemm", "single-wave", partial(build_gemm, **ONE), reference=reference),
    case(
        "single-wave-prefetch",
        "single-wave",
        partial(build_gemm, **ONE, schedule=SchedulingType.PREFETCH),
        reference=reference,
    ),
    case(
        "single-wave-async",
        "single-wave",
        partial(build_gemm, **ONE, schedule=SchedulingType.PREFETCH, use_global_to_shared=True, multi_buffer_count=2),
        targets=GATHERING,
        reference=reference,
    ),
    case("single-wave-reverse", "single-wave", build_reverse, reference=reference_reverse),
)
