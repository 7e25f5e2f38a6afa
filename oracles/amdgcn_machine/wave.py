"""The registers of one wave.

Needs   the number of lanes
Gives   a `Wave`: vector registers as rows over lanes, scalars as numbers, EXEC as a mask, what is outstanding
Keeps   `exec` and its mask agree; a register is written under the mask that its instruction was issued with
Cost    a register costs 4 bytes a lane

Registers have one numbering, so that what is in flight can be kept in one set:

    0 … 1023      v0 …              2000 … 2105   s0 …
    1024 … 1535   a0 …              2106 …        vcc, ttmp, m0, null, exec
"""

from __future__ import annotations

from typing import Any

import numpy as np

ACCUMULATORS, SCALARS = 1024, 2000
VCC, TTMP, M0, NULL, EXEC = 106, 108, 124, 125, 126
SCC = SCALARS + 128
SCALAR_ROOM = 128
FULL = 0xFFFFFFFF


class Wave:
    """One wave's state; the machine keeps its program counter and clocks here too."""

    def __init__(self, number: int, lanes: int) -> None:
        self.number, self.lanes = number, lanes
        self.v = np.zeros((ACCUMULATORS + 512, lanes), np.uint32)
        self.i = self.v.view(np.int32)
        self.f = self.v.view(np.float32)
        self.s = [0] * SCALAR_ROOM
        self.scc = 0
        self.pc = 0
        self.time = 0  # instructions so far: the wave's own clock
        self.lane = np.arange(lanes)
        self.mask = np.ones(lanes, bool)
        self.is_full = True
        self.outstanding: dict[str, list[Any]] = {}
        self.pending: dict[int, Any] = {}  # a register, and the access that will write it
        self.scratch = np.zeros((0, lanes), np.uint8)
        self.known: list[int] = []  # of each wave, up to which of its times everything is known to have happened
        self.set_exec((1 << lanes) - 1)

    def set_exec(self, value: int) -> None:
        self.s[EXEC], self.s[EXEC + 1] = value & FULL, value >> 32
        self.refresh()

    def refresh(self) -> None:
        """After EXEC was written as a scalar."""
        value = self.s[EXEC] | (self.s[EXEC + 1] << 32 if self.lanes == 64 else 0)
        self.mask = self.to_mask(value)
        self.is_full = bool(self.mask.all())

    def exec(self) -> int:
        return self.s[EXEC] | (self.s[EXEC + 1] << 32 if self.lanes == 64 else 0)

    def to_mask(self, value: int) -> np.ndarray:
        bits = np.frombuffer(value.to_bytes(8, "little"), np.uint8)
        return np.unpackbits(bits, bitorder="little")[: self.lanes].astype(bool)

    def from_mask(self, mask: np.ndarray) -> int:
        return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")

    def scalar64(self, at: int) -> int:
        return self.s[at] | self.s[at + 1] << 32

    def scalar_mask(self, at: int) -> np.ndarray:
        return self.to_mask(self.s[at] | (self.s[at + 1] << 32 if self.lanes == 64 else 0))

    def put_scalar(self, at: int, value: int, words: int = 1) -> None:
        if at == NULL:
            return
        for number in range(words):
            self.s[at + number] = value >> 32 * number & FULL
        if at + words > EXEC:
            self.refresh()

    def put_mask(self, at: int, mask: np.ndarray) -> None:
        """A mask of lanes into one or two scalars, by the width of the wave."""
        self.put_scalar(at, self.from_mask(mask), 2 if self.lanes == 64 else 1)

    def put(self, at: int, value: np.ndarray) -> None:
        """32 bits for each lane."""
        if self.is_full:
            self.v[at] = value
        else:
            np.copyto(self.v[at], value, where=self.mask)
