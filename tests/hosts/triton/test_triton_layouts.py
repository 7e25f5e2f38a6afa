"""Which bytes a warp touches, by hand, by plain enumeration, and by Triton itself, which shares no code with us."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import tempfile
from functools import cache
from math import prod
from typing import Any

import pytest

from tidegate.hosts.triton.layout_registers import held
from tidegate.hosts.triton.layout_shared import placed
from tidegate.hosts.triton.layouts import (
    Encoding,
    Touched,
    UnknownLayout,
    UnreadableLayout,
    allocated_bytes,
    has_even_slots,
    is_warp_private,
    lanes_keep_to_themselves,
    parse_encoding,
    slot_bytes,
    subslice_offset,
    touched,
)
from tidegate.index import ZERO, evaluate, show, why_not_affine

Shape = tuple[int, ...]

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not here to compare with: pip install tidegate[triton]",
)


def blocked(size: str, lanes: str, warps: str, order: str) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = [{size}], threadsPerWarp = [{lanes}], "
        f"warpsPerCTA = [{warps}], order = [{order}]}}>"
    )


def swizzled(vec: int, per: int, phases: int, order: str) -> str:
    return f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per}, maxPhase = {phases}, order = [{order}]}}>"


def nvmma(swizzle: int, transposed: bool, width: int, rank: int = 2) -> str:
    more = f", rank = {rank}" if rank != 2 else ""
    flag = str(transposed).lower()
    return (
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {swizzle}, transposed = {flag}, elementBitWidth = {width}{more}}}>"
    )


def read(text: str) -> Encoding:
    return parse_encoding(text, {})


def bytes_of(found: Touched, wave: int) -> set[int]:
    """Every byte of a footprint, for one wave."""
    assert not why_not_affine(found.offset), show(found.offset)
    starts = [evaluate(found.offset, {"wave": wave})]
    for extent in found.extents:
        assert extent.limit is None
        starts = [start + step * extent.stride for start in starts for step in range(extent.count)]
    return {start + byte for start in starts for byte in range(found.width)}


ROWS = blocked("1, 8", "8, 4", "4, 1", "1, 0")
PLAIN = swizzled(1, 1, 1, "1, 0")

# --- by hand ------------------------------------------------------------------------------------------------------


def test_warps_store_their_own_rows() -> None:
    """4 warps of 8 rows of 32 columns; swizzling stays inside a row."""
    found = touched(read(ROWS), (32, 32), read(swizzled(8, 1, 4, "1, 0")), (32, 32), 16, 4)
    assert (show(found.offset), found.extents, found.width, found.exact) == ("wave * 512", (), 512, True)


def test_rows_repeat_where_the_tensor_is_larger() -> None:
    found = touched(read(ROWS), (64, 32), read(PLAIN), (64, 32), 16, 4)
    assert show(found.offset) == "wave * 512"
    assert [(each.count, each.stride) for each in found.extents] == [(2, 2048)]
    assert found.width == 512


def test_warps_of_a_partition_are_counted_from_its_first() -> None:
    found = touched(read(ROWS), (32, 32), read(PLAIN), (32, 32), 16, 4, first_wave=4)
    assert show(found.offset) == "(wave - 4) * 512"


def test_a_subslice_has_the_strides_of_its_allocation() -> None:
    """Half of the columns: 64 bytes of each row of 128."""
    found = touched(read(ROWS), (32, 32), read(PLAIN), (2, 32, 64), 16, 4)
    assert show(found.offset) == "wave * 1024"
    assert [(each.count, each.stride) for each in found.extents] == [(8, 128)]
    assert found.width == 64
    later = touched(read(ROWS), (32, 32), read(PLAIN), (2, 32, 64), 16, 4, start=(0, 32))
    assert bytes_of(later, 1) == {byte + 64 for byte in bytes_of(found, 1)}


def test_a_row_of_two_warps_is_swizzled_by_parity() -> None:
    """Warps side by side in rows that are xor'ed with a bit of the other: a parity, which is exact."""
    wide = read(blocked("1, 8", "8, 4", "2, 2", "1, 0"))
    found = touched(wide, (16, 64), read(swizzled(32, 8, 2, "1, 0")), (16, 64), 16, 4)
    assert "mod 2" in show(found.offset)
    assert found.exact
    sets = [bytes_of(found, wave) for wave in range(4)]
    assert sum(map(len, sets)) == len(set.union(*sets)) == 16 * 64 * 2


def test_padding_comes_after_each_interval() -> None:
    padded = read("#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [32, 32]}>")
    found = touched(read(ROWS), (32, 32), padded, (32, 32), 16, 4)
    assert show(found.offset) == "wave * 576"  # 8 rows of 32 are 4 intervals of 64, each with 8 more
    assert [(each.count, each.stride) for each in found.extents] == [(4, 144)]
    assert (found.width, found.exact) == (128, True)
    assert slot_bytes(padded, (32, 32), 16) == (1024 + 16 * 8) * 2
    assert allocated_bytes(padded, (2, 32, 32), 16) == (2048 + 31 * 8) * 2
    assert has_even_slots(padded, (32, 32))
    assert not has_even_slots(padded, (1, 32))


def test_warps_that_hold_the_same_are_not_exact() -> None:
    """A store may be left to one of them."""
    found = touched(read(ROWS), (8, 32), read(PLAIN), (8, 32), 16, 4)
    assert (show(found.offset), found.width, found.exact) == ("0", 512, False)


@pytest.mark.parametrize(
    "register",
    [
        "#ttg.never_heard_of<{}>",
        blocked("1, 8", "8, 4", "3, 1", "1, 0"),
        blocked("1, 8", "8, 4", "2, 1", "1, 0"),  # 2 warps, not 4
        blocked("8", "32", "4", "0"),
        ROWS.replace("order = [1, 0]", "order = [1, 0], CGALayout = [[1, 0]]"),
    ],
)
def test_what_is_not_understood_is_the_whole_slot(register: str) -> None:
    found = touched(read(register), (32, 32), read(PLAIN), (32, 32), 16, 4)
    assert found == touched(read("#ttg.nothing"), (32, 32), read(PLAIN), (32, 32), 16, 4)
    assert (show(found.offset), found.extents, found.width, found.exact) == ("0", (), 2048, False)


def test_without_registers_it_is_the_whole_descriptor() -> None:
    found = touched(None, (32, 32), read(PLAIN), (32, 64), 16, 4)
    assert bytes_of(found, 0) == bytes_of(found, 3) == {128 * row + byte for row in range(32) for byte in range(64)}
    assert not found.exact


def test_memory_that_is_not_understood_has_no_size() -> None:
    for text in ("#ttg.never_heard_of<{}>", "#ttg.padded_shared<{order = [1, 0]}>"):
        with pytest.raises(UnknownLayout):
            slot_bytes(read(text), (32, 32), 16)


def test_elements_of_less_than_a_byte_are_the_whole_slot() -> None:
    found = touched(read(ROWS), (32, 32), read(PLAIN), (32, 32), 4, 4)
    assert (found.offset, found.width, found.exact) == (ZERO, 1024, False)


def test_a_swizzle_for_elements_of_another_size_is_the_whole_slot() -> None:
    found = touched(read(ROWS), (32, 64), read(nvmma(128, False, 16)), (32, 64), 32, 4)
    assert (found.offset, found.width, found.exact) == (ZERO, 32 * 64 * 4, False)


def test_a_rotating_swizzle_goes_on_by_one_in_each_block() -> None:
    """The table of the documentation: eight rows of four, and where each element lies in its row."""
    found = placed(read("#ttg.amd_rotating_shared<{vec = 1, perPhase = 1, maxPhase = 4, order = [1, 0]}>"), (8, 4))
    assert found is not None
    table = [0, 1, 2, 3, 5, 4, 7, 6, 10, 11, 8, 9, 15, 14, 13, 12]
    table += [17, 16, 19, 18, 20, 21, 22, 23, 27, 26, 25, 24, 30, 31, 28, 29]
    assert [table.index(4 * row + column) for row in range(8) for column in range(4)] == [
        found.at((row, column)) for row in range(8) for column in range(4)
    ]


def test_padded_rows_may_be_rearranged() -> None:
    """The example of the documentation: even rows first, and an element of padding after every sixteen."""
    shared = read("#ttg.padded_shared<[16:+1] {offset = [[0, 1], [0, 2], [2, 0], [4, 0], [1, 0]], block = []}>")
    found = placed(shared, (8, 4))
    assert found is not None
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    assert [found.at((row, 0)) // 4 for row in order] == list(range(8))
    odd_rows = touched(read(linear_text(((0, 1), (0, 2)), ((2, 0), (4, 0)), ((1, 0),))), (8, 4), shared, (8, 4), 16, 2)
    assert (show(odd_rows.offset), odd_rows.width, odd_rows.exact) == ("wave * 34", 32, True)


def test_subslices_start_where_the_swizzle_lets_them() -> None:
    shared = read(swizzled(8, 1, 4, "1, 0"))
    assert subslice_offset(shared, (32, 64), 16, (8, 0)) == (1024, True)
    assert subslice_offset(shared, (32, 64), 16, (8, 0), (8, 64)) == (1024, True)
    assert subslice_offset(shared, (32, 64), 16, (0, 16)) == (32, False)
    assert subslice_offset(shared, (32, 64), 16, (0, 32)) == (64, True)  # phases reach 32 columns
    assert subslice_offset(shared, (32, 64), 16, (2, 0), (2, 64)) == (256 ^ 32, False)
    assert subslice_offset(shared, (32, 64), 16, (0, 0)) == (0, True)


def test_lanes_and_warps_that_keep_to_themselves() -> None:
    rows, shape = read(ROWS), (32, 32)
    narrow = read(blocked("1, 4", "4, 8", "4, 1", "1, 0"))  # the same rows for each warp, other lanes
    other = read(blocked("1, 8", "8, 4", "1, 4", "1, 0"))
    assert lanes_keep_to_themselves(rows, rows, shape)
    assert is_warp_private(rows, rows, shape)
    assert not is_warp_private(rows, narrow, shape)  # its 4 warps have 4 rows each, and again 16 rows on
    assert is_warp_private(rows, read(blocked("2, 4", "4, 8", "4, 1", "1, 0")), shape)
    assert not lanes_keep_to_themselves(rows, read(blocked("2, 4", "4, 8", "4, 1", "1, 0")), shape)
    assert not is_warp_private(rows, other, shape)
    assert not is_warp_private(rows, rows, (8, 32))  # all warps hold all
    assert not lanes_keep_to_themselves(rows, read("#ttg.nothing"), shape)


# --- text ---------------------------------------------------------------------------------------------------------


def test_aliases_and_nesting_are_read() -> None:
    aliases = {"#blocked": ROWS, "mine": "#ttg.slice<{dim = 1, parent = #blocked}>"}
    found = parse_encoding("#mine", aliases)
    assert found == read(f"#ttg.slice<{{dim = 1, parent = {ROWS}}}>")
    assert found.parent() == read(ROWS)
    assert read("#ttg.padded_shared<[512:+16, 64:+8] {order = [1, 0]}>").vectors("pads") == ((512, 16), (64, 8))
    assert read("#ttg.shared_linear<{offset = [[0, 1]]}, alignment = 16>").number("alignment", 0) == 16


@pytest.mark.parametrize("text", ["", "blocked", "#ttg.blocked<{", "#ttg.blocked<{a = }>", "#a b", "#ttg.a<{a = ~}>"])
def test_what_is_no_encoding_is_refused(text: str) -> None:
    with pytest.raises(UnreadableLayout):
        read(text)


# --- by enumeration -----------------------------------------------------------------------------------------------

Bases = tuple[Shape, ...]


def expand(bases: Bases) -> list[Shape]:
    """The coordinates that each number has, counted through."""
    rank = len(bases[0]) if bases else 0
    found: list[Shape] = [(0,) * rank]
    for base in bases:
        found += [tuple(a ^ b for a, b in zip(each, base, strict=True)) for each in found]
    return found


def xor(a: Shape, b: Shape) -> Shape:
    return tuple(p ^ q for p, q in zip(a, b, strict=True))


def linear_text(register: Bases, lane: Bases, warp: Bases) -> str:
    def show_bases(bases: Bases) -> str:
        return "[" + ", ".join(str(list(base)) for base in bases) + "]"

    return (
        f"#ttg.generic_linear<{{register = {show_bases(register)}, lane = {show_bases(lane)}, "
        f"warp = {show_bases(warp)}, block = []}}>"
    )


def random_linear(draw: random.Random, shape: Shape) -> tuple[Bases, Bases, Bases]:
    """Every coordinate bit once, some mixed into others, and some that flip nothing, dealt out at random."""
    pool: list[Shape] = []
    for dim, size in enumerate(shape):
        pool += [tuple(1 << bit if d == dim else 0 for d in range(len(shape))) for bit in range(size.bit_length() - 1)]
    draw.shuffle(pool)
    for _ in range(draw.choice([0, 0, 0, 1, 2])):
        a, b = draw.sample(range(len(pool)), 2)
        pool[a] = xor(pool[a], pool[b])
    for _ in range(draw.choice([0, 0, 0, 1])):
        pool.insert(draw.randrange(len(pool)), (0,) * len(shape))
    cuts = sorted(draw.choices(range(len(pool) + 1), k=2))
    return tuple(pool[: cuts[0]]), tuple(pool[cuts[0] : cuts[1]]), tuple(pool[cuts[1] :])


def swizzle_by_words(row: int, column: int, vec: int, per: int, phases: int, columns: int) -> int:
    """The documentation of `swizzled_shared`, element by element."""
    return row * columns + ((column // vec) ^ ((row // per) % phases)) * vec + column % vec


@pytest.mark.parametrize("seed", [*range(100), *(pytest.param(n, marks=pytest.mark.slow) for n in range(100, 600))])
def test_random_layouts_leave_no_byte_out(seed: int) -> None:
    draw = random.Random(seed)
    rows, columns = draw.choice([4, 8, 16]), draw.choice([8, 16, 32])
    vec, per = draw.choice([1, 2, 4]), draw.choice([1, 2])
    phases = draw.choice([each for each in (1, 2, 4, 8) if vec * each <= columns])
    register, lane, warp = random_linear(draw, (rows, columns))
    size, waves, first = draw.choice([1, 2, 4]), 1 << len(warp), draw.choice([0, 0, 4])
    interval, padding = draw.choice([(8, 1), (16, 4), (32, 2), (0, 0)])
    if interval:  # padding on a plain order, as Triton has it
        shared, vec, per, phases = f"#ttg.padded_shared<[{interval}:+{padding}] {{order = [1, 0]}}>", 1, 1, 1
    else:
        shared = swizzled(vec, per, phases, "1, 0")
    text = linear_text(register, lane, warp)
    found = touched(read(text), (rows, columns), read(shared), (rows, columns), 8 * size, waves, first)
    warps = expand(warp) if warp else [(0, 0)]
    held = expand((*register, *lane)) if register or lane else [(0, 0)]
    truth = []
    for wave in range(waves):
        mine = set()
        for row, column in (xor(each, warps[wave]) for each in held):
            at = swizzle_by_words(row, column, vec, per, phases, columns)
            at += at // interval * padding if interval else 0
            mine |= {at * size + byte for byte in range(size)}
        described = bytes_of(found, first + wave)
        assert mine <= described, f"wave {wave} touches {sorted(mine - described)[:4]}"
        assert not found.exact or mine == described
        assert max(described) < slot_bytes(read(shared), (rows, columns), 8 * size)
        truth.append(mine)
    private = sum(map(len, truth)) == len(set.union(*truth))
    assert is_warp_private(read(text), read(text), (rows, columns)) == private


def test_a_dropped_warp_basis_is_noticed() -> None:
    """The twin of the tests above: an encoding that lost a basis describes other bytes, and enumeration objects."""
    register, lane = ((0, 1), (0, 2), (0, 4)), ((0, 8), (0, 16), (1, 0), (2, 0), (4, 0))
    good = touched(read(linear_text(register, lane, ((8, 0), (16, 0)))), (32, 32), read(PLAIN), (32, 32), 16, 4)
    bad = touched(read(linear_text(register, lane, ((8, 0), (0, 0)))), (32, 32), read(PLAIN), (32, 32), 16, 4)
    assert good.exact
    assert not bad.exact
    assert all(bytes_of(good, wave) == bytes_of(touched_rows(), wave) for wave in range(4))
    assert bytes_of(bad, 2) != bytes_of(good, 2)


def touched_rows() -> Touched:
    return touched(read(ROWS), (32, 32), read(PLAIN), (32, 32), 16, 4)


# --- by Triton ----------------------------------------------------------------------------------------------------


def mma(version: int, warps: str, tile: str) -> str:
    return (
        f"#ttg.nvidia_mma<{{versionMajor = {version}, versionMinor = 0, warpsPerCTA = [{warps}], "
        f"instrShape = [{tile}]}}>"
    )


def mfma(version: int, warps: str, tile: str, transposed: bool, more: str = "") -> str:
    return (
        f"#ttg.amd_mfma<{{version = {version}, warpsPerCTA = [{warps}], instrShape = [{tile}], "
        f"isTransposed = {str(transposed).lower()}{more}}}>"
    )


def wmma(version: int, arrangement: str, transposed: bool, more: str = "") -> str:
    return (
        f"#ttg.amd_wmma<{{version = {version}, isTranspose = {str(transposed).lower()}, "
        f"ctaLayout = {{{arrangement}}}{more}}}>"
    )


def operand(index: int, parent: str, width: int) -> str:
    return f"#ttg.dot_op<{{opIdx = {index}, parent = {parent}" + (f", kWidth = {width}" if width else "") + "}>"


def sliced(dim: int, parent: str) -> str:
    return f"#ttg.slice<{{dim = {dim}, parent = {parent}}}>"


LINEAR = (
    "#ttg.linear<{register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "
    "warp = [[16, 0], [32, 0]], block = []}>"
)
BLOCKED = [
    ROWS,
    blocked("1, 8", "2, 16", "4, 1", "1, 0"),
    blocked("1, 4", "4, 8", "1, 4", "1, 0"),
    blocked("2, 4", "8, 4", "2, 2", "1, 0"),
    blocked("4, 1", "16, 2", "2, 2", "0, 1"),
    blocked("8, 1", "8, 4", "1, 4", "0, 1"),
]
MMA = [
    mma(2, "2, 2", "16, 8"),
    mma(2, "4, 1", "16, 8"),
    mma(2, "1, 4", "16, 8"),
    mma(3, "4, 1", "16, 16, 16"),
    mma(3, "4, 1", "16, 64, 16"),
]
WMMA = [
    wmma(1, "warp = [[0, 1], [1, 0]]", False),
    wmma(1, "warp = [[0, 1], [1, 0]]", True),
    wmma(2, "warp = [[0, 1], [1, 0]]", False),
    wmma(2, "register = [[0, 1], [1, 0]], warp = [[0, 2], [2, 0]]", True),
    wmma(2, "warp = [[1, 0], [2, 0]]", True),
    wmma(3, "warp = [[0, 1], [1, 0]]", True, ", instrShape = [16, 16, 32]"),
    wmma(3, "register = [[1, 0]], warp = [[0, 1], [2, 0]]", False, ", instrShape = [16, 16, 32]"),
]
MFMA = [
    mfma(version, warps, f"{tile}, {tile}, {depth}", transposed)
    for version, tile, depth in ((3, 32, 8), (3, 16, 16), (4, 32, 16), (4, 16, 32))
    for warps in ("2, 2", "4, 1")
    for transposed in (False, True)
] + [
    mfma(3, "2, 2", "16, 16, 16", True, ", tilesPerWarp = [2, 2]"),
    mfma(3, "1, 4", "32, 32, 8", False, ", tilesPerWarp = [1, 2]"),
]
THIRTY_TWO = [
    *BLOCKED,
    LINEAR,
    *MMA,
    *WMMA,
    *(operand(index, parent, 0) for parent in BLOCKED for index in (0, 1)),
    *(operand(index, parent, width) for parent in MMA[:3] for index in (0, 1) for width in (1, 2, 4)),
    *(operand(0, parent, width) for parent in MMA[3:] for width in (1, 2, 4)),
    *(operand(index, parent, 16) for parent in WMMA[:2] for index in (0, 1)),
    *(operand(index, parent, width) for parent in WMMA[2:5] for index in (0, 1) for width in (8, 16)),
    *(operand(index, parent, width) for parent in WMMA[5:] for index in (0, 1) for width in (8, 16)),
]
SIXTY_FOUR = [
    *MFMA,
    mfma(3, "2, 2", "4, 64, 4", False),
    mfma(3, "2, 2", "4, 64, 4", True),
    mfma(3, "2, 2", "64, 4, 4", True),
    blocked("1, 8", "16, 4", "4, 1", "1, 0"),
    *(operand(index, parent, width) for parent in MFMA for index in (0, 1) for width in (4, 8, 16)),
]
FLAT = [sliced(dim, parent) for parent in (*BLOCKED, *MMA[:3], LINEAR) for dim in (0, 1)] + [
    blocked("4", "32", "4", "0")
]
DEEP = [
    blocked("1, 1, 4", "2, 4, 4", "2, 2, 1", "2, 1, 0"),
    mma(2, "2, 2, 1", "1, 16, 8"),
    operand(0, mma(2, "2, 2, 1", "1, 16, 8"), 2),
    operand(1, mma(2, "2, 2, 1", "1, 16, 8"), 2),
]
REGISTERS = [
    *((text, shape, 32) for text in THIRTY_TWO for shape in ((64, 64), (16, 128), (256, 32))),
    *((text, shape, 64) for text in SIXTY_FOUR for shape in ((64, 64), (32, 256), (256, 32))),
    *((text, shape, 32) for text in FLAT for shape in ((32,), (256,))),
    *((text, (4, 32, 32), 32) for text in DEEP),
    (mma(3, "4, 2", "16, 32, 16"), (128, 64), 32),
    (mfma(3, "2, 2, 1", "16, 16, 16", True), (4, 64, 64), 64),
    (mma(2, "2, 2", "8, 8"), (64, 64), 32),
    *((operand(index, mma(2, "2, 2", "8, 8"), 1), (64, 64), 32) for index in (0, 1)),
    *((operand(index, mfma(4, "2, 2", "16, 16, 128", True), 32), (64, 256), 64) for index in (0, 1)),
    *((operand(index, mfma(4, "2, 2", "32, 32, 64", True), 32), (256, 64), 64) for index in (0, 1)),
    *(
        (operand(index, mfma(3, "2, 2", "16, 16, 4", True, ", elementBitWidth = 64"), 1), (64, 64), 64)
        for index in (0, 1)
    ),
    (mfma(3, "2, 2", "16, 16, 4", True, ", elementBitWidth = 64"), (64, 64), 64),
]
SHARED = [
    *(
        (swizzled(*each, order), shape)
        for each in ((1, 1, 1), (8, 1, 8), (8, 2, 4), (4, 4, 2), (1, 1, 16), (8, 1, 16))
        for order in ("1, 0", "0, 1")
        for shape in ((64, 64), (16, 128), (256, 32))
    ),
    *(
        (nvmma(width, transposed, bits), (64, 256) if not transposed else (256, 64))
        for width in (0, 32, 64, 128)
        for transposed in (False, True)
        for bits in (8, 16, 32)
    ),
    (nvmma(128, False, 16), (512, 128)),
    (nvmma(128, True, 16), (256, 512)),
    (nvmma(32, True, 8), (512, 512)),
    (nvmma(0, False, 16, 1), (64,)),
    (nvmma(64, False, 16, 3), (2, 512, 64)),
    (nvmma(128, False, 16), (8, 512)),
    (nvmma(0, False, 16), (16, 512)),
    (nvmma(128, False, 16, 3), (4, 4, 128)),
    (nvmma(64, False, 8, 3), (2, 64, 64)),
    (nvmma(0, False, 8, 3), (2, 64, 64)),
    (nvmma(0, False, 16, 1), (1024,)),
    (swizzled(8, 1, 8, "2, 1, 0"), (4, 32, 64)),
    (swizzled(8, 1, 8, "1, 2, 0"), (4, 64, 32)),
    (swizzled(1, 1, 1, "0"), (256,)),
    ("#ttg.shared_linear<{offset = [[0, 1], [0, 2], [1, 2], [2, 1]]}, alignment = 16>", (4, 4)),
]


class Triton:
    """Triton's own idea of layouts: text in, bases of a linear layout out."""

    def __init__(self) -> None:
        from triton._C.libtriton import amd, gluon_ir, ir, nvidia

        self.ir = ir
        self.context = ir.context()
        ir.load_dialects(self.context)
        nvidia.load_dialects(self.context)
        amd.load_dialects(self.context)
        self.builder = gluon_ir.GluonOpBuilder(self.context)

    def module(self, body: str, warps: int, lanes: int) -> Any:
        text = (
            f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
            f'ttg.target = "cuda:90", "ttg.threads-per-warp" = {lanes} : i32}} {{\n{body}\n}}'
        )
        with tempfile.NamedTemporaryFile("w", suffix=".ttgir", delete=False) as file:
            file.write(text)
        try:
            return self.ir.parse_mlir_module(file.name, self.context)
        finally:
            os.unlink(file.name)

    def argument(self, type: str, warps: int, lanes: int) -> Any:
        module = self.module(f"tt.func public @f(%a: {type}) {{ tt.return }}", warps, lanes)
        self.keep = module
        return module.get_function("f").args(0)

    def held(self, text: str, shape: Shape, warps: int, lanes: int) -> tuple[Bases, Bases, Bases]:
        """Bases of registers, lanes and warps."""
        value = self.argument(f"tensor<{'x'.join(map(str, shape))}xf16, {text}>", warps, lanes)
        layout = self.builder.get_gluon_layout_from_tensor(value)
        found = self.builder.to_linear_layout(layout._to_ir(self.builder), list(shape))
        assert not found.block_bases
        register, lane, warp = (
            tuple(map(tuple, each)) for each in (found.reg_bases, found.lane_bases, found.warp_bases)
        )
        return register, lane, warp

    def offsets(self, text: str, shape: Shape) -> Bases:
        """The coordinates that each bit of an offset flips."""
        width = re.search(r"elementBitWidth = (\d+)", text)
        element = f"i{width.group(1)}" if width else "f16"
        type = f"!ttg.memdesc<{'x'.join(map(str, shape))}x{element}, {text}, #ttg.shared_memory, mutable>"
        layout = self.builder.get_gluon_layout_from_memdesc(self.argument(type, 4, 32))
        found = self.builder.to_linear_layout(layout._to_ir(self.builder), list(shape))
        return tuple(map(tuple, found.offset_bases))

    def allocated(self, text: str, shape: Shape, element: str) -> int:
        """How much Triton's allocator takes for one buffer."""
        from triton._C.libtriton import passes

        type = f"!ttg.memdesc<{'x'.join(map(str, shape))}x{element}, {text}, #ttg.shared_memory, mutable>"
        body = f"%a = ttg.local_alloc : () -> {type} ttg.local_dealloc %a : {type}"
        module = self.module(f"tt.func public @f() {{ {body} tt.return }}", 4, 32)
        manager = self.ir.pass_manager(self.context)
        passes.ttgpuir.add_allocate_shared_memory(manager)
        manager.run(module, "allocate")
        return int(module.get_int_attr("ttg.shared"))

    def stored(self, register: str, shared: str, shape: Shape, alloc: Shape, start: Shape, slot: int) -> list[set[int]]:
        """The bytes of a store of 16-bit elements by each of 4 warps, from the instructions that Triton makes of it."""
        from triton._C.libtriton import nvidia, passes

        def memory(*sizes: Shape) -> str:
            first, *rest = ("x".join(map(str, size)) for size in sizes)
            return f"!ttg.memdesc<{first}xf16, {shared}, #ttg.shared_memory, mutable{''.join(', ' + r for r in rest)}>"

        whole, one, part = memory((3, *alloc)), memory(alloc), memory(shape, alloc)
        tensor = f"tensor<{'x'.join(map(str, shape))}xf16, {register}>"
        module = self.module(
            f"tt.func public @f(%v: {tensor}) {{ %n = arith.constant {slot} : i32 %a = ttg.local_alloc : () -> {whole} "
            f"%b = ttg.memdesc_index %a[%n] : {whole} -> {one} "
            f"%c = ttg.memdesc_subslice %b[{', '.join(map(str, start))}] : {one} -> {part} "
            f"ttg.local_store %v, %c : {tensor} -> {part} tt.return }}",
            4,
            32,
        )
        manager = self.ir.pass_manager(self.context)
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, 80, 80)
        nvidia.passes.ttgpuir.add_to_llvmir(manager, 80, 80)
        passes.common.add_canonicalizer(manager)
        manager.run(module, "lower")
        lines = module.str_nodebug().splitlines()
        found = execute(lines, 4 * 32)
        return [set().union(*found[32 * wave : 32 * wave + 32]) for wave in range(4)]


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "xor": lambda a, b: a ^ b,
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
    "shl": lambda a, b: a << b,
    "lshr": lambda a, b: a >> b,
    "ashr": lambda a, b: a >> b,
    "urem": lambda a, b: a % b,
    "udiv": lambda a, b: a // b,
}
CONSTANT = re.compile(r"(%\d+) = llvm\.mlir\.constant\((-?\d+) : i32\)")
BINARY = re.compile(rf"(%\d+) = llvm\.({'|'.join(ARITHMETIC)})(?: disjoint)? (%\d+), (%\d+) .*: i32$")
EQUAL = re.compile(r'(%\d+) = llvm\.icmp "eq" (%\d+), (%\d+) : i32')
SELECT = re.compile(r"(%\d+) = llvm\.select (%\d+), (%\d+), (%\d+) : i1, i32")
STEP = re.compile(
    r"(%\d+) = llvm\.getelementptr (?:inbounds )?(%\d+)\[(%?-?\d+)\] : .* -> !llvm.ptr<3>, (i8|i16|f16|i32)"
)
STORE = re.compile(r"llvm\.store %\d+, (%\d+) .*: (?:vector<(\d+)x)?[if](\d+)>?, !llvm.ptr<3>")


def execute(lines: list[str], threads: int) -> list[set[int]]:
    """The bytes of shared memory that each thread stores to: LLVM's integers, as far as addresses need them."""
    values: dict[str, list[int]] = {}
    found: list[set[int]] = [set() for _ in range(threads)]
    for line in lines:
        if match := CONSTANT.search(line):
            values[match[1]] = [int(match[2])] * threads
        elif match := BINARY.search(line):
            values[match[1]] = list(map(ARITHMETIC[match[2]], values[match[3]], values[match[4]]))
        elif match := EQUAL.search(line):
            values[match[1]] = [int(a == b) for a, b in zip(values[match[2]], values[match[3]], strict=True)]
        elif match := SELECT.search(line):
            chosen = zip(values[match[2]], values[match[3]], values[match[4]], strict=True)
            values[match[1]] = [then if cond else otherwise for cond, then, otherwise in chosen]
        elif "tid.x" in line:
            values[line.split()[0]] = list(range(threads))
        elif "ttg.warp_id" in line:
            values[line.split()[0]] = [thread // 32 for thread in range(threads)]
        elif "llvm.mlir.addressof" in line:
            values[line.split()[0]] = [0] * threads
        elif match := STEP.search(line):
            index = values[match[3]] if match[3].startswith("%") else [int(match[3])] * threads
            size = {"i8": 1, "i16": 2, "f16": 2, "i32": 4}[match[4]]
            values[match[1]] = [base + n * size for base, n in zip(values[match[2]], index, strict=True)]
        elif match := STORE.search(line):
            count = int(match[2] or 1) * int(match[3]) // 8
            for bytes, start in zip(found, values[match[1]], strict=True):
                bytes.update(range(start, start + count))
        else:
            assert not re.search(r"store|inline_asm|getelementptr", line), line
    return found


@cache
def triton() -> Triton:
    return Triton()


def waves_of(text: str) -> int:
    found = re.findall(r"warpsPerCTA = \[([\d, ]+)\]", text)
    return prod(map(int, found[-1].split(", "))) if found else 4


@needs_triton
@pytest.mark.parametrize(("text", "shape", "lanes"), REGISTERS)
def test_triton_gives_each_lane_the_same_elements(text: str, shape: Shape, lanes: int) -> None:
    register, lane, warp = triton().held(text, shape, waves_of(text), lanes)
    found = held(read(text), shape)
    assert found is not None
    assert found.warp == warp
    assert found.lane == lane
    assert {each for each in found.register if any(each)} == {each for each in register if any(each)}


@needs_triton
@pytest.mark.parametrize(("text", "shape"), SHARED)
def test_triton_puts_each_element_at_the_same_offset(text: str, shape: Shape) -> None:
    found = placed(read(text), shape)
    assert found is not None
    for bit, coordinates in enumerate(triton().offsets(text, shape)):
        assert found.at(coordinates) == 1 << bit


def described_by_triton(
    register: str, shape: Shape, shared: str, alloc: Shape, size: int, lanes: int
) -> list[set[int]]:
    """The bytes that each warp touches: every register of every lane, one after the other."""
    by_offset = expand(triton().offsets(shared, alloc))
    at = {coordinates: offset for offset, coordinates in enumerate(by_offset)}
    registers, lane, warp = triton().held(register, shape, waves_of(register), lanes)
    mine = set(expand((*registers, *lane)))
    return [
        {at[xor(each, first)] * size + byte for each in mine for byte in range(size)}
        for first in (expand(warp) if warp else [(0,) * len(shape)])
    ]


# Warps that hold what no other warp holds, in memory whose swizzle stays inside what a warp holds: all of it is exact.
COMMON = [
    *((text, shared, 32) for text in (ROWS, BLOCKED[1], LINEAR, MMA[1], MMA[3], MMA[4])
      for shared in (PLAIN, swizzled(8, 1, 8, "1, 0"), swizzled(8, 2, 4, "1, 0"), nvmma(128, False, 16))),
    *((text, shared, 64) for text in (MFMA[2], MFMA[3], MFMA[6], MFMA[7], blocked("1, 8", "16, 4", "4, 1", "1, 0"))
      for shared in (PLAIN, swizzled(8, 1, 8, "1, 0"), swizzled(4, 1, 16, "1, 0"))),
    *((text, PLAIN, 32) for text in (BLOCKED[3], MMA[0], WMMA[0], WMMA[2], WMMA[4])),
    *((text, PLAIN, 64) for text in MFMA[:16]),
    (blocked("8, 1", "8, 4", "1, 4", "0, 1"), swizzled(8, 1, 8, "0, 1"), 32),
]  # fmt: skip


@needs_triton
@pytest.mark.parametrize(("register", "shared", "lanes"), COMMON)
def test_the_common_ones_are_exact(register: str, shared: str, lanes: int) -> None:
    shape = (128, 64)
    found = touched(read(register), shape, read(shared), shape, 16, 4)
    assert found.exact
    for wave, mine in enumerate(described_by_triton(register, shape, shared, shape, 2, lanes)):
        assert bytes_of(found, wave) == mine


@needs_triton
@pytest.mark.parametrize(
    ("register", "mutant"),
    [
        (ROWS, blocked("1, 8", "8, 4", "1, 4", "1, 0")),
        (BLOCKED[3], BLOCKED[3].replace("order = [1, 0]", "order = [0, 1]")),
        (LINEAR, LINEAR.replace("[[16, 0], [32, 0]]", "[[32, 0], [16, 0]]")),
        (MMA[1], MMA[1].replace("[4, 1]", "[2, 2]")),
    ],
)
def test_a_wrong_encoding_misses_bytes_that_triton_touches(register: str, mutant: str) -> None:
    """The twin of what follows: were an encoding misread, the comparison would object."""
    shape = (64, 64)
    truth = described_by_triton(register, shape, PLAIN, shape, 2, 32)
    good, bad = (touched(read(text), shape, read(PLAIN), shape, 16, 4) for text in (register, mutant))
    assert all(mine <= bytes_of(good, wave) for wave, mine in enumerate(truth))
    assert not all(mine <= bytes_of(bad, wave) for wave, mine in enumerate(truth))


PAIRS = [
    (register, shared, lanes, shape, 2)
    for register, shape, lanes in REGISTERS
    for shared, whole in SHARED
    if shape == whole and "elementBitWidth = 8" not in shared and "elementBitWidth = 32" not in shared
]


@needs_triton
@pytest.mark.parametrize("seed", [*range(25), *(pytest.param(n, marks=pytest.mark.slow) for n in range(25, 200))])
def test_no_byte_that_triton_touches_is_left_out(seed: int) -> None:
    """Registers and memory at random, and a subslice of an allocation now and then."""
    draw = random.Random(seed)
    register, shared, lanes, shape, size = draw.choice(PAIRS)
    waves = waves_of(register)
    alloc = tuple(size * draw.choice([1, 1, 2]) for size in shape)
    if "shared_linear" in shared or "nvmma" in shared:
        alloc = shape
    start = tuple(draw.randrange(full // part) * part for part, full in zip(shape, alloc, strict=True))
    found = touched(read(register), shape, read(shared), (3, *alloc), 8 * size, waves, 0, start)
    truth = described_by_triton(register, shape, shared, alloc, size, lanes)
    moved = {coordinates: offset for offset, coordinates in enumerate(expand(triton().offsets(shared, alloc)))}[start]
    assert len(truth) == waves
    for wave, mine in enumerate(truth):
        mine = {(byte // size ^ moved) * size + byte % size for byte in mine}  # a subslice xors its start in
        described = bytes_of(found, wave)
        assert mine <= described
        assert not found.exact or mine == described
    base, additive = subslice_offset(read(shared), alloc, 8 * size, start, shape)
    assert base == moved * size
    if additive:
        first = touched(read(register), shape, read(shared), alloc, 8 * size, waves)
        assert all({byte + base for byte in bytes_of(first, n)} == bytes_of(found, n) for n in range(waves))


@needs_triton
@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(n, marks=pytest.mark.slow) for n in range(15, 60))])
def test_triton_agrees_who_keeps_to_themselves(seed: int) -> None:
    draw = random.Random(seed)
    shape, lanes = draw.choice([((64, 64), 32), ((64, 64), 64), ((256, 32), 32)])
    texts = [text for text, whole, count in REGISTERS if (whole, count) == (shape, lanes)]
    first = draw.choice(texts)
    second = draw.choice([first, draw.choice(texts)])
    owners: dict[Shape, set[tuple[int, int]]] = {}
    for text in {first, second}:
        register, lane, warp = triton().held(text, shape, 4, lanes)
        for n, a in enumerate(expand(warp)):
            for m, b in enumerate(expand(lane)):
                for c in expand(register):
                    owners.setdefault(xor(xor(a, b), c), set()).add((n, m))
    one_lane = all(len(each) == 1 for each in owners.values())
    one_warp = all(len({n for n, _ in each}) == 1 for each in owners.values())
    assert lanes_keep_to_themselves(read(first), read(second), shape) == one_lane
    assert is_warp_private(read(first), read(second), shape) == one_warp


@needs_triton
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (PLAIN, (64, 64)),
        (PLAIN, (3, 64, 64)),
        ("#ttg.padded_shared<[512:+16] {order = [1, 0], shape = [64, 64]}>", (64, 64)),
        ("#ttg.padded_shared<[512:+16] {order = [1, 0], shape = [64, 64]}>", (3, 64, 64)),
        ("#ttg.padded_shared<[64:+8, 256:+16] {order = [1, 0], shape = [64, 64]}>", (64, 64)),
        ("#ttg.padded_shared<[8192:+16] {order = [1, 0], shape = [64, 64]}>", (3, 64, 64)),
        (nvmma(128, False, 16), (64, 128)),
        (nvmma(128, False, 16), (3, 64, 128)),
        (nvmma(128, False, 8).replace("}", ", fp4Padded = true}"), (64, 64)),
        ("#ttg.amd_rotating_shared<{vec = 1, perPhase = 1, maxPhase = 4, order = [1, 0]}>", (64, 64)),
        ("#ttg.shared_linear<{offset = [[0, 1], [0, 2], [1, 2], [2, 1]]}, alignment = 16>", (4, 4)),
    ],
)
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_triton_allocates_as_many_bytes(text: str, shape: Shape, bits: int) -> None:
    text = re.sub(r"elementBitWidth = 16", f"elementBitWidth = {bits}", text)
    found = triton().allocated(text, shape, f"i{bits}")
    assert found == allocated_bytes(read(text), shape, bits)
    assert found <= slot_bytes(read(text), shape, bits)


PADDED = "#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>"
ROTATING = "#ttg.amd_rotating_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"


INSTRUCTIONS = [
    (register, shared, shape, start)
    for shared in (
        PLAIN,
        swizzled(8, 1, 8, "1, 0"),
        swizzled(4, 2, 4, "0, 1"),
        ROTATING,
        PADDED,
        PADDED.replace("64:+8", "16:+4, 512:+16"),
        PADDED.replace("64:+8", "4096:+8"),
        "#ttg.padded_shared<[128:+4] {offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [4, 0], [8, 0], "
        "[16, 0], [32, 0], [1, 0], [2, 0]], block = []}>",
        nvmma(64, False, 16),
    )
    for shape, start in (((64, 64), (0, 0)), ((32, 64), (32, 0)), ((64, 32), (0, 32)))
    for register in (ROWS, BLOCKED[3], MMA[0])
    if shared != ROTATING or start[0] == 0  # Triton refuses a subslice of some rows of a swizzling pattern
]


@needs_triton
@pytest.mark.parametrize(("register", "shared", "shape", "start"), INSTRUCTIONS)
def test_instructions_touch_no_other_bytes(register: str, shared: str, shape: Shape, start: Shape) -> None:
    """To the end: through padding, slots and subslices, which Triton's layouts alone say nothing about."""
    alloc, slot = (64, 64), 2
    base = slot * slot_bytes(read(shared), alloc, 16)
    assert has_even_slots(read(shared), alloc)
    found = touched(read(register), shape, read(shared), (3, *alloc), 16, 4, 0, start)
    for wave, mine in enumerate(triton().stored(register, shared, shape, alloc, start, slot)):
        assert len(mine) == 2 * prod(shape) // 4
        described = {byte + base for byte in bytes_of(found, wave)}
        assert mine <= described
        assert not found.exact or mine == described
