"""Attention in the layout batch, sequence, head, element, with fewer heads of keys than of queries."""

import math
from functools import partial

import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.attention import TILE_E, TILE_H, TILE_Q, TILE_S, D, E, H, Q, S
from oracles.wave_kernels.building import GLOBAL, STAGED, Chip, case, options_for

B, TILE_B = tkl.sym.B, tkl.sym.TILE_B
WAVES = 4


def build_bshd(chip: Chip, schedule: SchedulingType, **options: object) -> Build:
    """All four tensors are stored by batch, place, head and element; Wave turns them by where it reads."""
    constraints = [
        tkw.WorkgroupConstraint(Q, TILE_Q, 0),
        tkw.WorkgroupConstraint(E, TILE_E, 1),
        tkw.WorkgroupConstraint(B, TILE_B, 2),
        tkw.WorkgroupConstraint(H, TILE_H, 3),
        tkw.TilingConstraint(S, TILE_S),
        tkw.WaveConstraint(Q, TILE_Q / WAVES),
        tkw.WaveConstraint(E, TILE_E),
        tkw.HardwareConstraint(
            threads_per_wave=chip.lanes, mma_type=chip.chained, vector_shapes={B: 0, H: 0, Q: 16, E: 16}
        ),
    ]
    i, j, k, n = (tkw.IndexMapping.iterator(place) for place in range(4))

    def same(*dims: object) -> tkw.IndexMapping:
        where = dict(zip(dims, (i, j, k, n), strict=True))
        return tkw.IndexMapping(num_iterators=4, inputs=where, outputs=where)

    turned = tkw.IndexMapping(num_iterators=4, inputs={B: i, H: j, E: k, Q: n}, outputs={B: i, Q: n, H: j, E: k})

    @tkw.wave(constraints)
    def attention_bshd(
        query: tkl.Memory[B, Q, H, D, GLOBAL, tkl.f16],
        key: tkl.Memory[B, S, H, D, STAGED, tkl.f16],
        value: tkl.Memory[B, S, H, E, STAGED, tkl.f16],
        out: tkl.Memory[B, Q, H, E, GLOBAL, tkl.f32],
    ):
        low = tkl.Register[B, H, Q, tkl.f32](-1e6)
        none = tkl.Register[B, H, Q, tkl.f32](0.0)
        nothing = tkl.Register[B, H, E, Q, tkl.f32](0.0)
        scaling = tkl.Register[B, H, Q, S, tkl.f32](math.log2(math.e) / math.sqrt(64))

        @tkw.iterate(S, init_args=[low, none, nothing])
        def rows(
            highest: tkl.Register[B, H, Q, tkl.f32],
            weight: tkl.Register[B, H, Q, tkl.f32],
            mixed: tkl.Register[B, H, E, Q, tkl.f32],
        ):
            empty = tkl.Register[B, H, S, Q, tkl.f32](0.0)
            asked = tkw.read(query, mapping=same(B, H, Q, D))
            alike = tkw.mma(tkw.read(key, mapping=same(B, H, S, D)), asked, empty)
            alike = tkw.permute(alike, target_shape=[B, H, Q, S]) * scaling
            higher = tkw.max(alike, highest, dim=S)
            shrink = tkw.exp2(highest - higher)
            part = tkw.exp2(alike - higher)
            heavier = tkw.sum(part, weight * shrink, dim=S)
            taken = tkw.read(value, mapping=same(B, H, E, S))
            mixed = tkw.mma(taken, tkw.cast(part, tkl.f16), mixed * shrink)
            return higher, heavier, mixed

        _, weight, mixed = rows
        tkw.write(mixed * tkw.reciprocal(weight), out, mapping=turned)

    sizes = {B: 1, H: 2, Q: 128, S: 256, D: 64, E: 64, TILE_B: 1, TILE_H: 1, TILE_Q: 64, TILE_S: 64, TILE_E: 64}
    return Build(attention_bshd, options_for(chip, sizes, schedule, **options))


def reference(inputs: Arrays) -> Arrays:
    query, key, value = (inputs[name].astype(np.float64).transpose(0, 2, 1, 3) for name in ("query", "key", "value"))
    alike = query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1])
    part = np.exp(alike - alike.max(-1, keepdims=True))
    return {"out": (part / part.sum(-1, keepdims=True) @ value).transpose(0, 2, 1, 3)}


CASES = (
    case("bshd-none", "attention-bshd", partial(build_bshd, schedule=SchedulingType.NONE), reference=reference),
    case("bshd-modulo", "attention-bshd", partial(build_bshd, schedule=SchedulingType.MODULO), reference=reference),
)
