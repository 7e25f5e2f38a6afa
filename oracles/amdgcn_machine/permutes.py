"""DPP: the first operand comes from another lane of the wave.

Needs   the modifiers of the instruction
Gives   `lanes_of`: a `Permute` that moves values and says which lanes are written; None where nothing moves
Keeps   a lane whose source is outside its row, or is switched off, gets zero with `bound_ctrl`, else keeps its value
Cost    one indexing

Source: AMD's ISA documents (CDNA 3 §12.15, RDNA 4 §16.10), "DPP"; rows are 16 lanes, banks 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.amdgcn_machine.text import NotUnderstood
from oracles.amdgcn_machine.values import list_of
from oracles.amdgcn_machine.wave import Wave

KINDS = (
    "quad_perm",
    "row_shl",
    "row_shr",
    "row_ror",
    "row_mirror",
    "row_half_mirror",
    "row_bcast",
    "row_newbcast",
    "row_share",
    "row_xmask",
    "wave_shr",
    "wave_shl",
    "wave_ror",
    "wave_rol",
    "dpp8",
)
MODIFIERS = {*KINDS, "row_mask", "bank_mask", "bound_ctrl", "fi"}
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Permute:
    """Source lanes (-1: none), lanes that may be written, and what a missing source means."""

    source: np.ndarray
    allowed: np.ndarray
    is_zero: bool  # a missing source is zero, else the lane is not written
    reads_inactive: bool

    def move(self, wave: Wave, value: Any) -> Any:
        moved = value[np.maximum(self.source, 0)]
        return np.where(self._is_there(wave), moved, 0).astype(value.dtype)

    def _is_there(self, wave: Wave) -> np.ndarray:
        known = self.source >= 0
        return known if self.reads_inactive else known & wave.mask[np.maximum(self.source, 0)]

    def guarded(self, store: Callable[[Wave, Any], None]) -> Callable[[Wave, Any], None]:
        """Stores in the lanes that are written."""

        def stored(wave: Wave, value: Any) -> None:
            before = wave.mask, wave.is_full
            mask = wave.mask & self.allowed
            if not self.is_zero:
                mask = mask & self._is_there(wave)
            wave.mask, wave.is_full = mask, bool(mask.all())
            store(wave, value)
            wave.mask, wave.is_full = before

        return stored


def lanes_of(modifiers: dict[str, str], lanes: int) -> Permute | None:
    kind = next((each for each in KINDS if each in modifiers), "")
    if not kind:
        return None
    source = np.array([_source(kind, modifiers[kind], lane, lanes) for lane in range(lanes)])
    rows = int(modifiers.get("row_mask", "0xf"), 0)
    banks = int(modifiers.get("bank_mask", "0xf"), 0)
    lane = np.arange(lanes)
    allowed = (rows >> lane // 16 & 1).astype(bool) & (banks >> lane % 16 // 4 & 1).astype(bool)
    is_zero = "bound_ctrl" in modifiers or kind == "dpp8"
    return Permute(source, allowed, is_zero, modifiers.get("fi", "0") == "1")


def _source(kind: str, value: str, lane: int, lanes: int) -> int:
    row, place = lane // 16 * 16, lane % 16
    if kind == "quad_perm":
        return lane // 4 * 4 + list_of(value)[lane % 4]
    if kind == "dpp8":
        return lane // 8 * 8 + list_of(value)[lane % 8]
    if kind == "row_mirror":
        return row + 15 - place
    if kind == "row_half_mirror":
        return lane // 8 * 8 + 7 - lane % 8
    count = int(re.sub(r"\D", "", value))
    if kind == "row_shl":
        return row + place + count if place + count < 16 else NOWHERE
    if kind == "row_shr":
        return row + place - count if place >= count else NOWHERE
    if kind == "row_ror":
        return row + (place - count) % 16
    if kind in ("row_newbcast", "row_share"):
        return row + count
    if kind == "row_xmask":
        return row + (place ^ count)
    if kind == "row_bcast":
        last = lane // (count + 1) * (count + 1) - 1
        return last if last >= 0 else NOWHERE
    raise NotUnderstood(f"DPP of kind `{kind}` in {lanes} lanes")
