"""Copies of tiles by the tensor unit of gfx1250: `tensor_load_to_lds`, `tensor_store_from_lds`.

Needs   an instruction with two groups of descriptor registers: tiles of one or two dimensions
Gives   `compile_tensor`: how a wave issues it, with its operands
Keeps   the descriptor is taken at the issue; what is outside of the tensor is zero, or not stored; EXEC is ignored
Cost    one indexing

The descriptor, as Triton fills it (`third_party/amd/lib/TritonAMDGPUToLLVM/TDMUtility.cpp`), by 32-bit words:

    group 0   0: predicate; 1: shared address; 2, 3: global address, 57 bits
    group 1   0: size of an element (log2) at 16, padding at 20, its interval (log2 of 8-byte units) at 22, its amount
              in words less one at 25; extents of the tensor from bit 48 on, those of the tile from bit 112 on;
              5, 6: elements from row to row, 48 bits
"""

from __future__ import annotations

import numpy as np

from oracles.amdgcn_machine.access import Issue, Place, Touch, begin, unknown
from oracles.amdgcn_machine.counters import Access
from oracles.amdgcn_machine.operands import Operand, parse
from oracles.amdgcn_machine.text import Instruction
from oracles.amdgcn_machine.wave import Wave


def compile_tensor(one: Instruction) -> tuple[Issue, list[Operand]]:
    operands = [parse(each) for each in one.operands]
    is_load = one.name == "tensor_load_to_lds"
    if len(operands) != 2 or one.modifiers or one.name not in ("tensor_load_to_lds", "tensor_store_from_lds"):
        raise unknown(one)
    first, second = (each.scalar for each in operands)

    def issue(wave: Wave, place: Place) -> Access:
        inner, outer, inside = _places(one, wave.s[first : first + 4], wave.s[second : second + 8])
        touched = place.lds.places(inner, 1)[:, 0]
        there = place.memory.places(outer[inside], 1)[:, 0]

        def perform() -> None:
            if is_load:
                found = np.zeros(len(touched), np.uint8)
                found[inside] = place.memory.bytes[there]
                place.lds.bytes[touched] = found
            else:
                place.memory.bytes[there] = place.lds.bytes[touched[inside]]

        return begin(one, "tensor", place, perform, is_copy=True, touches=[Touch(touched[:, None], is_load)])

    return issue, operands


def _places(one: Instruction, head: list[int], body: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each byte of the tile: its place in shared memory, its address, and whether it is inside the tensor."""
    if not head[0] & 1:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing.astype(bool)
    bits = sum(word << 32 * number for number, word in enumerate(body))
    size = 1 << (bits >> 16 & 3)
    extents = bits >> 48 & 0xFFFFFFFF, bits >> 80 & 0xFFFFFFFF
    tile = bits >> 112 & 0xFFFF, max(1, bits >> 128 & 0xFFFF)
    if bits >> 18 & 3 or bits >> 144 & 0xFFFF:
        raise unknown(one)  # barriers that it arrives at, iterations, a third dimension
    step = bits >> 160 & (1 << 48) - 1
    y, x, byte = (each.reshape(-1) for each in np.indices((tile[1], tile[0], size)))
    inner = (y * tile[0] + x) * size + byte
    if bits >> 20 & 1 and one.name == "tensor_load_to_lds":  # for a store Triton makes padding a part of the tile
        interval, amount = 8 << (bits >> 22 & 7), 4 * ((bits >> 25 & 0x7F) + 1)
        inner = inner + inner // interval * amount
    base = head[2] | (head[3] & 0x1FFFFFF) << 32
    return inner + head[1], base + (y * step + x) * size + byte, (x < extents[0]) & (y < extents[1])
