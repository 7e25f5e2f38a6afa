"""Who holds what: every element is held, and what transposing, repeating and folding make of it."""

from __future__ import annotations

import itertools

import pytest

from tidegate.language.types import Tile, f16, f32
from tidegate.lowering.amd import Amd
from tidegate.lowering.nvidia import Nvidia
from tidegate.lowering.spread import (
    FREE,
    Shape,
    TileSpread,
    coordinates,
    in_blocks,
    in_rows,
    is_inside,
    narrowed,
    padded,
    transposed,
)
from tidegate.targets import load_target

SHAPES = ((64,), (8, 64), (32, 32), (64, 16), (16, 1), (1,), (4, 16, 8), (12, 66))
AMD = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


def held(spread: TileSpread) -> dict[tuple[int, int], int]:
    """Lane and register → the number of the element."""
    found = {}
    for lane in range(1 << len(spread.lanes)):
        by_lane = sum(1 << bit for place, bit in enumerate(spread.lanes) if bit != FREE and lane >> place & 1)
        for register in range(spread.count):
            found[lane, register] = by_lane | spread.of_register(register)
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lanes", [32, 64])
def test_every_element_is_held(shape: Shape, lanes: int) -> None:
    total = 1
    for side in padded(shape):
        total *= side
    for spread in (in_rows(shape, 2, lanes), in_rows(shape, 4, lanes), in_blocks(shape, lanes)):
        found = held(spread)
        assert set(found.values()) == set(range(total))
        assert len(found) == max(lanes, total)  # and none twice, but by lanes that hold the same


@pytest.mark.parametrize("shape", [(64,), (32, 32), (128,), (16, 64)])
def test_blocks_are_those_of_the_language(shape: Shape) -> None:
    """`docs/language.md`: element e of n belongs to lane e // ceil(n / lanes)."""
    total = 1
    for side in shape:
        total *= side
    for (lane, _), element in held(in_blocks(shape, 32)).items():
        assert lane == element // -(-total // 32)


@pytest.mark.parametrize("shape", [(32, 32), (64, 16), (4, 16, 8), (12, 66)])
def test_a_transposed_tile_is_held_by_the_same_lanes(shape: Shape) -> None:
    spread = in_rows(shape, 2, 32)
    turned = transposed(spread, shape)
    after = (*shape[:-2], shape[-1], shape[-2])
    for place, element in held(spread).items():
        *rest, row, column = coordinates(element, shape)
        assert coordinates(held(turned)[place], after) == (*rest, column, row)
    assert transposed(turned, after) == spread


@pytest.mark.parametrize(("wide", "narrow"), [((8, 64), (8, 1)), ((8, 64), (1, 64)), ((16, 32), (32,)), ((64,), (1,))])
def test_who_holds_an_element_holds_its_origin(wide: Shape, narrow: Shape) -> None:
    spread = in_rows(wide, 4, 32)
    origin = narrowed(spread, wide, narrow)
    full = (1,) * (len(wide) - len(narrow)) + narrow
    found = held(origin)
    for (lane, _), element in held(spread).items():
        at = tuple(0 if side == 1 else each for each, side in zip(coordinates(element, wide), full, strict=True))
        assert at in {coordinates(found[lane, each], full) for each in range(origin.count)}


def test_padding_is_told_apart() -> None:
    assert [each for each in range(4) if is_inside(each, (3,))] == [0, 1, 2]
    assert not is_inside(3 * 4 + 1, (3, 4))


@pytest.mark.parametrize("target", [*AMD, "sm_80"])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(16, 16, 32), (64, 64, 32), (32, 128, 64)])
def test_fragments_hold_every_element_once(target: str, rows: int, columns: int, depth: int) -> None:
    facts = load_target(target)
    gpu = (Nvidia if target == "sm_80" else Amd)(facts, 4)
    product = gpu.product(Tile((rows, depth), f16), Tile((depth, columns), f16), Tile((rows, columns), f32))
    assert product is not None
    for spread, total in ((product.a, rows * depth), (product.b, depth * columns), (product.acc, rows * columns)):
        found = held(spread)
        assert set(found.values()) == set(range(total))
        copies = 1 << sum(bit == FREE for bit in spread.lanes)
        assert len(found) == total * copies
        assert len(spread.lanes) == gpu.lanes.bit_length() - 1


def test_fragments_of_mma_m16n8k16() -> None:
    """PTX ISA 9.0: a0 and a1 of thread t are row t / 4, columns 2 (t mod 4) and the next; c0 and c1 likewise."""
    gpu = Nvidia(load_target("sm_80"), 4)
    product = gpu.product(Tile((16, 16), f16), Tile((16, 8), f16), Tile((16, 8), f32))
    assert product is not None
    a, b, c = held(product.a), held(product.b), held(product.acc)
    for lane, register in itertools.product(range(32), range(8)):
        row = lane // 4 + 8 * (register >> 1 & 1)
        column = 2 * (lane % 4) + (register & 1) + 8 * (register >> 2)
        assert coordinates(a[lane, register], (16, 16)) == (row, column)
    for lane, register in itertools.product(range(32), range(4)):
        depth = 2 * (lane % 4) + (register & 1) + 8 * (register >> 1)
        assert coordinates(b[lane, register], (16, 8)) == (depth, lane // 4)
        row = lane // 4 + 8 * (register >> 1)
        assert coordinates(c[lane, register], (16, 8)) == (row, 2 * (lane % 4) + (register & 1))
