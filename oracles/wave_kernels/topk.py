"""Rows of scores: the highest few of each, sums and a softmax over more than one wave."""

from functools import partial

import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.building import GLOBAL, STAGED, Chip, case, options_for

M, N, TOP = tkl.sym.M, tkl.sym.N, tkl.sym.TOP
TILE_M, TILE_N = tkl.sym.TILE_M, tkl.sym.TILE_N


def one_row(chip: Chip, waves: int, **shapes: int) -> list[tkw.Constraint]:
    """A workgroup for each row, which all its waves share."""
    more = {tkl.sym.TOP: shapes["top"]} if shapes else {}
    return [
        tkw.WorkgroupConstraint(M, TILE_M, 1),
        tkw.WorkgroupConstraint(N, TILE_N, 0),
        tkw.WaveConstraint(M, TILE_M),
        tkw.WaveConstraint(N, TILE_N / waves),
        tkw.HardwareConstraint(
            threads_per_wave=chip.lanes,
            waves_per_block=(waves, 1, 1),
            vector_shapes={M: 1, N: TILE_N / waves, **more},
        ),
    ]


def build_topk(chip: Chip, top: int, each: int) -> Build:
    """The highest of a row with their places, by one wave whose lanes hold `each` elements."""

    @tkw.wave(one_row(chip, 1, top=top))
    def highest_of_row(
        score: tkl.Memory[M, N, GLOBAL, tkl.f32],
        best: tkl.Memory[M, TOP, GLOBAL, tkl.f32],
        place: tkl.Memory[M, TOP, GLOBAL, tkl.i32],
    ):
        values, places = tkw.topk(tkw.read(score), TOP, N)
        tkw.write(values, best, elements_per_thread=top)
        tkw.write(places, place, elements_per_thread=top)

    sizes = {M: 16, N: each * chip.lanes, TOP: top, TILE_M: 1, TILE_N: each * chip.lanes}
    return Build(highest_of_row, options_for(chip, sizes))


def build_row_sum(chip: Chip, waves: int, staged: bool) -> Build:
    """The sum of a row over several waves, whose parts meet in shared memory."""
    space = STAGED if staged else GLOBAL
    width = 4 * chip.lanes * waves

    @tkw.wave(one_row(chip, waves))
    def row_sum(
        left: tkl.Memory[M, N, space, tkl.f32],
        right: tkl.Memory[M, N, GLOBAL, tkl.f32],
        out: tkl.Memory[M, GLOBAL, tkl.f32],
    ):
        total = tkw.sum(tkw.read(left) * tkw.read(right), dim=N, block=True)
        tkw.write(total, out)

    sizes = {M: 16, N: width, TILE_M: 1, TILE_N: width}
    return Build(row_sum, options_for(chip, sizes))


def build_softmax(chip: Chip, waves: int) -> Build:
    """Two reductions over the waves of a workgroup, one after the other, and a product of all with the second."""
    width = 4 * chip.lanes * waves

    @tkw.wave(one_row(chip, waves))
    def softmax(score: tkl.Memory[M, N, GLOBAL, tkl.f32], out: tkl.Memory[M, N, GLOBAL, tkl.f32]):
        row = tkw.read(score)
        high = tkw.broadcast(tkw.max(row, dim=N, block=True), target_shape=[M, N])
        part = tkw.exp2(row - high)
        total = tkw.broadcast(tkw.sum(part, dim=N, block=True), target_shape=[M, N])
        tkw.write(part / total, out)

    sizes = {M: 16, N: width, TILE_M: 1, TILE_N: width}
    return Build(softmax, options_for(chip, sizes))


def reference_topk(inputs: Arrays, top: int) -> Arrays:
    place = np.argsort(-inputs["score"], axis=1, kind="stable")[:, :top]
    return {"best": np.take_along_axis(inputs["score"].astype(np.float64), place, 1), "place": place}


def reference_sum(inputs: Arrays) -> Arrays:
    return {"out": (inputs["left"].astype(np.float64) * inputs["right"]).sum(1)}


def reference_softmax(inputs: Arrays) -> Arrays:
    part = np.exp2(inputs["score"].astype(np.float64) - inputs["score"].max(1, keepdims=True))
    return {"out": part / part.sum(1, keepdims=True)}


CASES = (
    *(
        case(f"topk-{top}", "topk", partial(build_topk, top=top, each=each), reference=partial(reference_topk, top=top))
        for top, each in ((2, 4), (4, 1))
    ),
    case("row-sum-4", "row-sum", partial(build_row_sum, waves=4, staged=False), reference=reference_sum),
    case("row-sum-staged", "row-sum", partial(build_row_sum, waves=2, staged=True), reference=reference_sum),
    case("softmax-4", "softmax", partial(build_softmax, waves=4), reference=reference_softmax),
)
