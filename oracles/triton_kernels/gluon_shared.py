"""Gluon for every target: shared memory that is written and read by hand, with the barriers in their places."""

from __future__ import annotations

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from oracles.triton_kernels import TARGETS, Launch
from oracles.triton_kernels.building import case, pointers


@gluon.jit
def rotate_rows(x, out, cols, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, OTHER: gl.constexpr):
    """Pieces of a row through one buffer, read back by other threads than wrote them: two barriers in each turn."""
    space = gl.allocate_shared_memory(gl.float32, [BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    total = gl.full((BLOCK,), 0.0, gl.float32, OTHER)
    for start in range(0, cols, BLOCK):
        place = start + gl.arange(0, BLOCK, layout=LAYOUT)
        space.store(gl.load(x + gl.program_id(0) * cols + place))
        gl.barrier()
        total += space.load(OTHER)
        gl.barrier()
    gl.store(out + gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=OTHER), total)


@gluon.jit
def alternate_rows(x, out, cols, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, OTHER: gl.constexpr):
    """The same through two slots by turns: one barrier in each turn, and a compiler that finds which."""
    space = gl.allocate_shared_memory(gl.float32, [2, BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    total = gl.full((BLOCK,), 0.0, gl.float32, OTHER)
    place = gl.arange(0, BLOCK, layout=LAYOUT)
    for piece in range(cols // BLOCK):
        slot = space.index(piece % 2)
        slot.store(gl.load(x + gl.program_id(0) * cols + piece * BLOCK + place))
        total += slot.load(OTHER)
    gl.store(out + gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=OTHER), total)


@gluon.jit
def permute_rows(x, places, out, BLOCK: gl.constexpr, LAYOUT: gl.constexpr):
    """out[places[i]] = x[i], by way of a scatter, a gather and a scatter in shared memory."""
    space = gl.allocate_shared_memory(gl.float32, [BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    lane = gl.arange(0, BLOCK, layout=LAYOUT)
    row = gl.program_id(0) * BLOCK
    place = gl.load(places + row + lane)
    space.scatter(gl.load(x + row + lane), place, axis=0)
    gl.barrier()
    found = space.gather(place, axis=0)
    gl.barrier()
    space.scatter(found, place, axis=0)
    gl.barrier()
    gl.store(out + row + lane, space.load(LAYOUT))


@gluon.jit
def transpose_tiles(x, out, rows, cols, SIDE: gl.constexpr, LAYOUT: gl.constexpr):
    """A tile that is stored by rows and read through a transposed view."""
    space = gl.allocate_shared_memory(gl.float16, [SIDE, SIDE], gl.SwizzledSharedLayout(4, 1, 16, [1, 0]))
    high = gl.arange(0, SIDE, layout=gl.SliceLayout(1, LAYOUT))
    wide = gl.arange(0, SIDE, layout=gl.SliceLayout(0, LAYOUT))
    top = gl.program_id(0) * SIDE
    left = gl.program_id(1) * SIDE
    space.store(gl.load(x + (top + high)[:, None] * cols + (left + wide)[None, :]))
    gl.barrier()
    turned = space.permute((1, 0)).load(LAYOUT)
    gl.store(out + (left + high)[:, None] * rows + (top + wide)[None, :], turned)


def launch_rotate(rng: np.random.Generator, scale: int) -> Launch:
    rows, pieces, block = 4 * scale, 5 * scale, 512
    x = rng.standard_normal((rows, pieces * block)).astype(np.float32)
    expected = x.astype(np.float64).reshape(rows, pieces, block).sum(1)
    args = (x, np.zeros((rows, block), np.float32), pieces * block)
    return Launch((rows, 1, 1), args, (1,), (expected,), 1e-4)


def launch_permute(rng: np.random.Generator, scale: int) -> Launch:
    rows, block = 4 * scale, 512
    x = rng.standard_normal((rows, block)).astype(np.float32)
    places = np.argsort(rng.random((rows, block)), 1).astype(np.int32)
    # The gather takes back what the scatter put there, and the second scatter puts it there again.
    expected = np.zeros((rows, block))
    np.put_along_axis(expected, places, x.astype(np.float64), 1)
    return Launch((rows, 1, 1), (x, places, np.zeros_like(x)), (2,), (expected,), 0.0)


def launch_transpose(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 192 * scale, 128 * scale
    x = rng.standard_normal((rows, cols)).astype(np.float16)
    args = (x, np.zeros((cols, rows), np.float16), rows, cols)
    return Launch((rows // 64, cols // 64, 1), args, (1,), (x.T.astype(np.float64),), 0.0)


def choose_row_layouts(target: str) -> dict[str, object]:
    lanes = TARGETS[target].warp_size
    layouts = {name: gl.BlockedLayout([size], [lanes], [4], [0]) for name, size in (("LAYOUT", 2), ("OTHER", 1))}
    return {"BLOCK": 512, **layouts}


def choose_permute_layout(target: str) -> dict[str, object]:
    return {"BLOCK": 512, "LAYOUT": gl.BlockedLayout([1], [TARGETS[target].warp_size], [4], [0])}


def choose_tile_layout(target: str) -> dict[str, object]:
    lanes = TARGETS[target].warp_size
    return {"SIDE": 64, "LAYOUT": gl.BlockedLayout([1, 4], [lanes // 16, 16], [4, 1], [1, 0])}


ROWS = {**pointers("fp32", "x", "out"), "cols": "i32:16"}
PERMUTED = {**pointers("fp32", "x", "out"), **pointers("i32", "places")}
TILES = {**pointers("fp16", "x", "out"), "rows": "i32:16", "cols": "i32:16"}

CASES = (
    case("gluon-rotate", rotate_rows, ROWS, choose_row_layouts, launch=launch_rotate, num_warps=4),
    case("gluon-alternate", alternate_rows, ROWS, choose_row_layouts, launch=launch_rotate, num_warps=4),
    case("gluon-permute", permute_rows, PERMUTED, choose_permute_layout, launch=launch_permute, num_warps=4),
    case("gluon-transpose", transpose_tiles, TILES, choose_tile_layout, launch=launch_transpose, num_warps=4),
)
