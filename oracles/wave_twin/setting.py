"""What a trace does not say itself: the workgroup, the sizes and the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from wave_lang.kernel.lang.global_symbols import (
    DEVICE_DIM_0,
    DEVICE_DIM_1,
    DEVICE_DIM_2,
    THREAD_0,
    THREAD_1,
    THREAD_2,
    WORKGROUP_0,
    WORKGROUP_1,
    WORKGROUP_2,
)
from wave_lang.kernel.wave.constraints import HardwareConstraint

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Unsupported(Exception):
    """The twin has no rule for something in the trace: it says nothing at all."""


@dataclass(frozen=True)
class Setting:
    """A workgroup of `lanes` times the waves in `waves` along the three thread axes."""

    target: str
    lanes: int
    waves: tuple[int, int, int]
    sizes: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def wave_count(self) -> int:
        return self.waves[0] * self.waves[1] * self.waves[2]

    @property
    def threads(self) -> int:
        return self.lanes * self.wave_count

    @staticmethod
    def of(target: str, constraints: Iterable[Any], sizes: Mapping[Any, Any]) -> Setting:
        """The setting that a kernel's constraints describe."""
        hardware = next(c for c in constraints if isinstance(c, HardwareConstraint))
        x, y, z = (int(w) for w in hardware.waves_per_block)
        return Setting(target, int(hardware.threads_per_wave), (x, y, z), dict(sizes))

    def thread_values(self) -> dict[Any, Ints]:
        """The thread ids of every thread, in the hardware's order: x runs fastest. One workgroup stands for all."""
        linear = np.arange(self.threads, dtype=np.int64)
        wide = self.lanes * self.waves[0]
        zero = np.zeros_like(linear)
        return {
            THREAD_0: linear % wide,
            THREAD_1: linear // wide % self.waves[1],
            THREAD_2: linear // (wide * self.waves[1]),
            **dict.fromkeys(
                (WORKGROUP_0, WORKGROUP_1, WORKGROUP_2, DEVICE_DIM_0, DEVICE_DIM_1, DEVICE_DIM_2),
                zero,
            ),
        }
