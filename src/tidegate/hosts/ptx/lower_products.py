"""Matrix products of four warps (`wgmma`), which read shared memory in the background.

Needs   an instruction and the lowering that it belongs to
Gives   asynchronous reads of the pieces that matrix descriptors name, groups of products and waits for them
Keeps   every warp that takes part reads all of both matrices, in whole rows of the swizzle: never less than it does.
        A product reads 32 bytes along K, whatever its elements are
Cost    a descriptor has at most 64 pieces

Sections of the PTX ISA 9.0: 9.7.15.5.1 (layouts and descriptors), 9.7.15.5.2 (wgmma.mma_async), 9.7.15.7 (groups).

    K outermost:   8 rows of 32 bytes of K for each group; a group is `stride` bytes behind the other
    M, N outermost (transposed): 8 lines along K, 32 to 128 bytes of M or N each; `leading` bytes along M or N, `stride`
    along K. Without a swizzle a piece is 8 lines of 16 bytes, and the two strides change places
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, partial

from tidegate.hosts.isa import model as m
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.lowering import Lowering
from tidegate.targets import Target
from tidegate.targets.model import ByName, CounterFacts

QUEUE = "wgmma"
MOST_GROUPS = 63  # of a wait: the ISA names no limit, and less is always safe
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}  # bytes of a row, by the mode of the swizzle
_HALVES = ("f16", "bf16")  # of other elements no matrix is transposed


@cache
def with_products(target: Target) -> Target:
    """The target with a queue for groups of products."""
    if QUEUE in target.counters:
        return target
    more = (QUEUE, CounterFacts(MOST_GROUPS, "groups", True))
    return replace(target, counters=ByName((*target.counters.items(), more)))


def lower_product(out: Lowering, item: p.Instruction) -> None:
    words = item.modifiers
    if words[:1] == ("fence",):
        return  # it orders registers (9.7.15.7.1); shared memory needs `fence.proxy.async`
    if words[:1] == ("commit_group",):
        out.unguarded(m.Commit(QUEUE))
    elif words[:1] == ("wait_group",) and item.operands and isinstance(item.operands[0], p.Number):
        out.unguarded(m.WaitGroups(item.operands[0].value, queue=QUEUE))
    elif words[:2] != ("mma_async", "sync") or not _multiply(out, item):
        out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True, touches=True)


def _multiply(out: Lowering, item: p.Instruction) -> bool:
    """Whether the form is known: `d, a, b, scale-d, ...`, where `a` may stand in registers."""
    shape = next((found for each in item.modifiers if (found := _SHAPE.fullmatch(each))), None)
    operands = item.operands
    if shape is None or len(operands) < 4 or {"sp", "b1"} & set(item.modifiers):
        return False
    types = [each for each in item.modifiers if each in ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")]
    halves = all(each in _HALVES for each in types[-2:]) and len(types) >= 2
    registers = isinstance(operands[1], p.Vector)
    flags = [each.value for each in operands[6:] if isinstance(each, p.Number)]
    if not types or (halves and len(flags) != (1 if registers else 2)) or (not halves and flags):
        return False
    matrices = [] if registers else [(operands[1], 64, bool(halves and flags[0]))]
    matrices.append((operands[2], int(shape[1]), bool(halves and flags[-1])))
    for operand, rows, is_transposed in matrices:
        pieces = partial(pieces_of, rows, is_transposed)
        read = m.Touch("read", out.operand(operand), 0, 0, is_async=True, collective=True)
        out.unguarded(replace(read, pieces=pieces, queue=QUEUE, proxy="async"))
    out.guarded(m.Forget(out.results(item), (), False))
    return True


def pieces_of(rows: int, is_transposed: bool, descriptor: int) -> tuple[tuple[int, ...], int] | None:
    """Where the pieces of a matrix begin, and the bytes of each: 8 rows of the swizzle.

    The bits of the address that choose the row take part in the swizzle, those below are exchanged within a row. Bits
    14 and 15 are no part of the address; whoever sets them is taken at his word, and is far outside of the array.
    """
    start, leading, stride = (
        (descriptor >> place & mask) << 4 for place, mask in ((0, 0xFFFF), (16, 0x3FFF), (32, 0x3FFF))
    )
    width = _WIDTHS[descriptor >> 62 & 3]
    if not width or descriptor >> 49 & 7:  # a pattern that does not begin at a multiple of its size
        return None
    first = start // width * width
    along = -(-rows * 2 // width) if is_transposed else rows // 8
    if is_transposed and width > 16:
        steps = [(i, leading, j, stride) for i in range(along) for j in range(2)]
    elif is_transposed:
        steps = [(i, stride, j, leading) for i in range(along) for j in range(2)]
    else:
        across = range(2) if width == 16 else range(1)
        steps = [(i, stride, j, leading) for i in range(along) for j in across]
    return tuple(first + i * one + j * other for i, one, j, other in steps), 8 * width
