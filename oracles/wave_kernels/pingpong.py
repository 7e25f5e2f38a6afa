"""Loops in which two groups of four waves take turns: one reads memory while the other multiplies.

Wave makes these of a prefetched loop with eight waves and a tile of at least 128×128×64: it cuts the loop into clusters
with workgroup barriers and priorities, and holds one group back by a barrier that only half of the waves meet. The
asynchronous form waits for a count of loads.
"""

from functools import partial

from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

from oracles.wave_kernels.building import GATHERING, case
from oracles.wave_kernels.gemm import build_gemm, reference

EIGHT = {"tile": (128, 256, 64), "waves": (4, 2), "schedule": SchedulingType.PREFETCH}

CASES = (
    case("pingpong", "pingpong", partial(build_gemm, **EIGHT), reference=reference),
    case("pingpong-square", "pingpong", partial(build_gemm, **{**EIGHT, "tile": (128, 128, 64)}), reference=reference),
    case("pingpong-2", "pingpong", partial(build_gemm, **EIGHT, multi_buffer_count=2), reference=reference),
    *(
        case(
            f"pingpong-async-{count}",
            "pingpong-async",
            partial(build_gemm, **EIGHT, use_global_to_shared=True, multi_buffer_count=count),
            targets=GATHERING,
            reference=reference,
        )
        for count in (2, 3)
    ),
)
