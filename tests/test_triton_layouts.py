"""Which bytes a warp touches, by hand, by plain enumeration, and by Triton itself, which shares no code with us."""

from __future__ import annotations

import importlib.util
import random

import pytest

from tidegate.adapters.triton.layouts import (
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
from tidegate.index import evaluate, show, why_not_affine

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


@pytest.mark.parametrize("seed", range(300))
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
