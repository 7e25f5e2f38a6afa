"""What all kernels share: the chips as Wave sees them, the names of sizes, and options in one call.

Needs   wave-lang
Gives   `Chip` for each target, `options_for`, `case`
Keeps   what a kernel needs from a chip is looked up here; no kernel asks for a target by name
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import wave_lang.kernel.lang as tkl
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE
from wave_lang.kernel.wave.compile_options import WaveCompileOptions
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType
from wave_lang.kernel.wave.utils.general_utils import get_default_scheduling_params

from oracles.wave_kernels import TARGETS, Arrays, Build, Case

GLOBAL = GLOBAL_ADDRESS_SPACE
STAGED = tkl.sym.STAGED  # the space of an argument that is read through shared memory; Wave wants a symbol for it


@dataclass(frozen=True, slots=True)
class Chip:
    """A target, with its product of 16-bit tiles."""

    target: str
    lanes: int  # of one wave
    product: MMAType
    chained: MMAType  # a product whose result has the layout of an operand, where there is one


CHIPS = {
    "gfx942": Chip("gfx942", 64, MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16),
    "gfx950": Chip("gfx950", 64, MMAType.F32_16x16x32_F16, MMAType.F32_16x16x16_F16),
    "gfx1201": Chip("gfx1201", 32, MMAType.RDNA4_WAVE32_F32_16x16x16_F16, MMAType.RDNA4_WAVE32_F32_16x16x16_F16),
    "gfx1250": Chip("gfx1250", 32, MMAType.GFX1250_F32_16x16x32_F16, MMAType.GFX1250_F32_16x16x32_F16),
}

GATHERING = ("gfx942", "gfx950")  # where `use_global_to_shared` makes GatherToLDS
COPYING = (*GATHERING, "gfx1250")  # and where TensorLoadToLDS, which no scheduler of Wave takes

# For kernels that allocate shared memory themselves: Wave's optimizations take their writes for dead.
KEPT = {"optimization_level": False}


def options_for(
    chip: Chip,
    sizes: Mapping[object, object],
    schedule: SchedulingType = SchedulingType.NONE,
    **more: object,
) -> WaveCompileOptions:
    """Options for one chip; the delays that the schedulers want are Wave's own."""
    subs = {STAGED: SHARED_ADDRESS_SPACE, **sizes, **get_default_scheduling_params()}
    return WaveCompileOptions(subs=subs, schedule=schedule, target=chip.target, device="hip", canonicalize=True, **more)


def case(
    name: str,
    kernel: str,
    make: Callable[[Chip], Build],
    *,
    targets: tuple[str, ...] = TARGETS,
    reference: Callable[[Arrays], Arrays] | None = None,
) -> Case:
    """The case of one kernel."""
    return Case(name, kernel, targets, lambda target: make(CHIPS[target]), reference)
