"""Fragments of matrix instructions straight out of shared memory: `ldmatrix`.

Needs   a read of a tile with elements of 16 bits whose spread is that of a fragment
Gives   loads of four 8x8 matrices by a warp
Keeps   the bytes of each row are 16 and aligned so; lane l names row l mod 8 of matrix l // 8 (PTX ISA 9.0, `ldmatrix`)
Cost    one instruction for 8 elements of a lane
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.lowering.memory import MemoryWriter, TileSpot
from tidegate.lowering.spread import FREE, TileSpread

NAME = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.{}b16.p3"
ROW_BYTES = 16


@dataclass(frozen=True, slots=True)
class Fragments:
    """`rows`: whose lanes name rows of matrices; `is_turned`: what lies in a row goes to different lanes."""

    rows: TileSpread
    is_turned: bool


def fragments_of(spot: TileSpot, spread: TileSpread) -> Fragments | None:
    """How whole fragments are loaded, if they can be."""
    if spot.dtype.bits != 16 or spot.space != 3 or spot.bounds or spot.scattered or spot.aligned % ROW_BYTES:
        return None
    if len(spread.regs) < 3 or len(spread.lanes) != 5 or FREE in spread.lanes or spot.sides[-1] % 8:
        return None
    pair, *rest = spread.regs
    low, high = spread.lanes[:2], spread.lanes[2:]
    matrices = tuple(rest[:2])
    if any(bit < 3 for bit in rest):
        return None
    if (pair, *low) == (0, 1, 2) and min(high) >= 3:
        return Fragments(TileSpread(tuple(rest[2:]), (*high, *matrices)), False)
    if high == (0, 1, 2) and min(pair, *low) >= 3:
        return Fragments(TileSpread(tuple(rest[2:]), (pair, *low, *matrices)), True)
    return None


def read_fragments(memory: MemoryWriter, spot: TileSpot, spread: TileSpread, found: Fragments) -> list[str]:
    """The values of a lane, in the order of its registers."""
    w, values = memory.w, []
    kind = "half" if spot.dtype.name == "f16" else "bfloat" if spot.dtype.name == "bf16" else "i16"
    name = NAME.format("trans." if found.is_turned else "")
    for register in range(found.rows.count):
        address = memory.address(spot, found.rows, register)
        four = w.call("{ i32, i32, i32, i32 }", name, (("ptr addrspace(3)", address),), " #1")
        for matrix in range(4):
            word = w.let(f"extractvalue {{ i32, i32, i32, i32 }} {four}, {matrix}")
            both = w.let(f"bitcast i32 {word} to <2 x {kind}>")
            values += [w.let(f"extractelement <2 x {kind}> {both}, i32 {each}") for each in range(2)]
    assert len(values) == spread.count
    return values
