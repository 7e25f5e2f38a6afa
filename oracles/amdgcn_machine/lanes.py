"""Vector instructions that look across lanes or fill scalars: readlane, permlane, mbcnt.

Needs   an instruction
Gives   `compile_lanes`: a function of a wave, or None where the name is of another kind
Keeps   EXEC counts where the ISA documents say so: `v_readlane` and `v_writelane` ignore it
Cost    a few microseconds
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oracles.amdgcn_machine.operands import Operand, parse
from oracles.amdgcn_machine.text import Instruction, NotUnderstood
from oracles.amdgcn_machine.values import list_of, reader
from oracles.amdgcn_machine.vector import base_name
from oracles.amdgcn_machine.wave import FULL, Wave

Run = Callable[[Wave], None]


def compile_lanes(one: Instruction) -> tuple[Run, list[Operand]] | None:
    """What the instruction does, and its operands; the first is written."""
    base = base_name(one.name)
    make: dict[str, Any] = {
        "readlane_b32": _read_lane,
        "readfirstlane_b32": _read_first,
        "writelane_b32": _write_lane,
        "mbcnt_lo_u32_b32": _count_below,
        "mbcnt_hi_u32_b32": _count_below,
        "permlane16_b32": _permute_rows,
        "permlanex16_b32": _permute_rows,
        "permlane16_swap_b32": _swap_rows,
        "permlane32_swap_b32": _swap_rows,
        "swap_b32": _swap,
    }
    if base not in make:
        return None
    operands = [parse(each) for each in one.operands]
    return make[base](one, base, operands), operands


def _read_lane(one: Instruction, base: str, of: list[Operand]) -> Run:
    to, value, lane = of[0].scalar, of[1].at, reader(of[2], "u32")
    return lambda wave: wave.put_scalar(to, int(wave.v[value, int(lane(wave)) % wave.lanes]))


def _read_first(one: Instruction, base: str, of: list[Operand]) -> Run:
    to, value = of[0].scalar, of[1].at
    return lambda wave: wave.put_scalar(to, int(wave.v[value, int(np.argmax(wave.mask))]))


def _write_lane(one: Instruction, base: str, of: list[Operand]) -> Run:
    to, value, lane = of[0].at, reader(of[1], "u32"), reader(of[2], "u32")

    def run(wave: Wave) -> None:
        wave.v[to, int(lane(wave)) % wave.lanes] = value(wave)

    return run


def _count_below(one: Instruction, base: str, of: list[Operand]) -> Run:
    """Bits of the operand that belong to lanes below; of the lower or upper 32 lanes."""
    to, bits, start = of[0].at, reader(of[1], "u32"), reader(of[2], "u32")
    shift = 32 if base == "mbcnt_hi_u32_b32" else 0

    def run(wave: Wave) -> None:
        below = np.array([((1 << lane) - 1 >> shift) & FULL for lane in range(wave.lanes)], np.uint32)
        wave.put(to, np.bitwise_count(bits(wave) & below) + start(wave))

    return run


def _permute_rows(one: Instruction, base: str, of: list[Operand]) -> Run:
    """Each lane names a lane of its row, or of the neighbouring row, by four bits of two scalars."""
    to, value, low, high = of[0].at, of[1].at, reader(of[2], "u32"), reader(of[3], "u32")
    other = 16 if base == "permlanex16_b32" else 0
    reads_inactive, is_zero = (list_of(one.modifiers.get("op_sel", "")) or [0, 0])[:2]

    def run(wave: Wave) -> None:
        select = int(low(wave)) | int(high(wave)) << 32
        places = np.array([select >> 4 * (lane % 16) & 15 for lane in range(wave.lanes)])
        source = (wave.lane // 16 * 16 ^ other) + places
        is_there = wave.mask[source] | bool(reads_inactive)
        missing = np.uint32(0) if is_zero else wave.v[to]
        wave.put(to, np.where(is_there, wave.v[value][source], missing))

    return run


def _swap_rows(one: Instruction, base: str, of: list[Operand]) -> Run:
    """The upper rows of the first register and the lower rows of the second change places."""
    first, second = of[0].at, of[1].at
    size = 16 if "16" in base else 32

    def run(wave: Wave) -> None:
        if not wave.is_full:
            raise NotUnderstood(f"line {one.line}: `{one.text}` with lanes switched off")
        upper = wave.lane // size % 2 == 1
        mine, other = wave.v[first].copy(), wave.v[second].copy()
        wave.v[first, upper] = other[~upper]
        wave.v[second, ~upper] = mine[upper]

    return run


def _swap(one: Instruction, base: str, of: list[Operand]) -> Run:
    first, second = of[0].at, of[1].at

    def run(wave: Wave) -> None:
        mine = wave.v[first].copy()
        wave.put(first, wave.v[second])
        wave.put(second, mine)

    return run
