"""Attention of one query over a long row of keys, in two kernels: parts of the row, then the parts together."""

import math

import numpy as np
import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.wave.symbolic_constraints import SymbolicAlias

from oracles.wave_kernels import TARGETS, Arrays, Build
from oracles.wave_kernels.attention import TILE_E, TILE_H, TILE_Q, TILE_S, D, E, H, Q, S
from oracles.wave_kernels.building import GLOBAL, STAGED, Chip, case, options_for

P, TILE_P = tkl.sym.P, tkl.sym.TILE_P  # parts of the row of keys, one for each wave
PARTS = 4


def build_parts(chip: Chip) -> Build:
    """Each wave takes its own keys: the maxima and sums of the waves never meet in shared memory."""
    constraints = [
        tkw.WorkgroupConstraint(Q, TILE_Q, 0),
        tkw.WaveConstraint(Q, TILE_Q),
        tkw.WorkgroupConstraint(E, TILE_E, 1),
        tkw.WaveConstraint(E, TILE_E / 2),
        tkw.WorkgroupConstraint(S, TILE_S, 2),
        tkw.WaveConstraint(S, TILE_S / 2),
        tkw.WorkgroupConstraint(H, TILE_H, 3),
        SymbolicAlias(P, S, lambda place: sympy.ceiling(place / (TILE_S / 2))),
        tkw.HardwareConstraint(threads_per_wave=chip.lanes, mma_type=chip.chained, vector_shapes={H: 0}),
    ]

    @tkw.wave(constraints)
    def attend_part(
        query: tkl.Memory[H, Q, D, GLOBAL, tkl.f16],
        key: tkl.Memory[H, S, D, STAGED, tkl.f16],
        value: tkl.Memory[H, E, S, STAGED, tkl.f16],
        mixed: tkl.Memory[P, H, E, Q, GLOBAL, tkl.f32],
        weight: tkl.Memory[P, H, Q, GLOBAL, tkl.f32],
    ):
        empty = tkl.Register[H, S, Q, tkl.f32](0.0)
        low = tkl.Register[H, Q, tkl.f32](-1e6)
        none = tkl.Register[H, Q, tkl.f32](0.0)
        nothing = tkl.Register[H, E, Q, tkl.f32](0.0)
        alike = tkw.permute(tkw.mma(tkw.read(key), tkw.read(query), empty), target_shape=[H, Q, S])
        highest = tkw.max(alike, low, dim=S)
        part = tkw.exp2(alike - highest)
        total = tkw.sum(part, none, dim=S)
        taken = tkw.mma(tkw.read(value), tkw.cast(part, tkl.f16), nothing)
        tkw.write(highest + tkw.log2(total), weight, elements_per_thread=1)
        tkw.write(taken / total, mixed)

    sizes = {H: 2, Q: 16, S: 64 * PARTS // 2, D: 64, E: 64, P: PARTS}
    sizes |= {TILE_H: 1, TILE_Q: 16, TILE_S: 64, TILE_E: 64}
    return Build(attend_part, options_for(chip, sizes))


def build_together(chip: Chip) -> Build:
    """Weighs the parts and adds them: one wave for each column, a loop without shared memory."""
    constraints = [
        tkw.WorkgroupConstraint(Q, TILE_Q, 0),
        tkw.WaveConstraint(Q, TILE_Q),
        tkw.WorkgroupConstraint(E, TILE_E, 1),
        tkw.WaveConstraint(E, TILE_E),
        tkw.WorkgroupConstraint(H, TILE_H, 2),
        tkw.TilingConstraint(P, TILE_P),
        tkw.HardwareConstraint(
            threads_per_wave=chip.lanes, mma_type=chip.chained, vector_shapes={H: 0, Q: TILE_Q, E: TILE_E, P: 1}
        ),
    ]
    head, element, row = (tkw.IndexMapping.iterator(place) for place in range(3))
    turned = tkw.IndexMapping(
        num_iterators=3, inputs={H: head, E: element, Q: row}, outputs={H: head, E: element, Q: row}
    )

    @tkw.wave(constraints)
    def attend_together(
        mixed: tkl.Memory[P, H, E, Q, GLOBAL, tkl.f32],
        weight: tkl.Memory[P, H, Q, GLOBAL, tkl.f32],
        out: tkl.Memory[H, Q, E, GLOBAL, tkl.f32],
    ):
        low = tkl.Register[H, Q, tkl.f32](-1e6)
        none = tkl.Register[H, Q, tkl.f32](0.0)
        nothing = tkl.Register[H, E, Q, tkl.f32](0.0)

        @tkw.iterate(P, init_args=[low, none, nothing])
        def parts(
            highest: tkl.Register[H, Q, tkl.f32],
            total: tkl.Register[H, Q, tkl.f32],
            so_far: tkl.Register[H, E, Q, tkl.f32],
        ):
            this = tkw.read(weight)
            higher = tkw.maximum(this, highest)
            shrink, by = tkw.exp2(highest - higher), tkw.exp2(this - higher)
            return higher, total * shrink + by, so_far * shrink + by * tkw.read(mixed)

        _, total, so_far = parts
        tkw.write(so_far / total, out, mapping=turned)

    sizes = {H: 2, Q: 128, E: 16, P: PARTS, TILE_H: 1, TILE_Q: 128, TILE_E: 1, TILE_P: 1}
    return Build(attend_together, options_for(chip, sizes))


def reference_parts(inputs: Arrays) -> Arrays:
    query, key, value = (inputs[name].astype(np.float64) for name in ("query", "key", "value"))
    heads, rows, _ = query.shape
    alike = (query @ key.transpose(0, 2, 1)).reshape(heads, rows, PARTS, -1).transpose(2, 0, 1, 3) * math.log(2)
    weight = np.logaddexp.reduce(alike, axis=-1)
    part = np.exp(alike - weight[..., None])
    taken = value.reshape(heads, value.shape[1], PARTS, -1).transpose(2, 0, 1, 3)
    return {"mixed": taken @ part.transpose(0, 1, 3, 2), "weight": weight / math.log(2)}


def reference_together(inputs: Arrays) -> Arrays:
    weight = inputs["weight"].astype(np.float64)
    by = np.exp2(weight - weight.max(0))
    mixed = (inputs["mixed"] * by[:, :, None, :]).sum(0) / by.sum(0)[:, None, :]
    return {"out": mixed.transpose(0, 2, 1)}


CASES = (
    case("decode-parts", "attention-decode", build_parts, targets=TARGETS[:3], reference=reference_parts),
    case("decode-together", "attention-decode", build_together, reference=reference_together),
)
