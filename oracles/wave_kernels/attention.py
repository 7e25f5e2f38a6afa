"""Attention over one head after another: keys and values through shared memory, the maximum and the sum on the way.

Wave's schedulers see two products in one loop here: what is loaded for the second can go under the first. With eight
waves and `prefetch-attention` Wave makes four clusters and lets two groups of waves take turns.
"""

import math
from functools import partial

import numpy as np
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.building import COPYING, GATHERING, GLOBAL, STAGED, Chip, case, options_for

H, Q, S = tkl.sym.H, tkl.sym.Q, tkl.sym.S  # heads, queries, keys
D, E = tkl.sym.D, tkl.sym.E  # elements of a key, of a value
TILE_H, TILE_Q, TILE_S, TILE_E = tkl.sym.TILE_H, tkl.sym.TILE_Q, tkl.sym.TILE_S, tkl.sym.TILE_E


def constrained(chip: Chip, waves: int) -> list[tkw.Constraint]:
    """Each workgroup takes queries of one head; each wave some of these queries."""
    return [
        tkw.WorkgroupConstraint(Q, TILE_Q, 0),
        tkw.WorkgroupConstraint(E, TILE_E, 1),
        tkw.WorkgroupConstraint(H, TILE_H, 2),
        tkw.TilingConstraint(S, TILE_S),
        tkw.WaveConstraint(Q, TILE_Q / waves),
        tkw.WaveConstraint(E, TILE_E),
        tkw.HardwareConstraint(threads_per_wave=chip.lanes, mma_type=chip.chained, vector_shapes={H: 0, Q: 16, E: 16}),
    ]


def build_attention(
    chip: Chip,
    schedule: SchedulingType = SchedulingType.NONE,
    causal: bool = False,
    waves: int = 4,
    keys: int = 256,
    **options: object,
) -> Build:
    """softmax(query @ key.T / √D) @ value; a row of `value` holds one element of all values."""
    scale = math.log2(math.e) / math.sqrt(64)
    head, element, row = (tkw.IndexMapping.iterator(place) for place in range(3))
    turned = tkw.IndexMapping(
        num_iterators=3,
        inputs={H: head, E: element, Q: row},
        outputs={H: head, Q: row, E: element},
    )

    @tkw.wave(constrained(chip, waves))
    def attention(
        query: tkl.Memory[H, Q, D, GLOBAL, tkl.f16],
        key: tkl.Memory[H, S, D, STAGED, tkl.f16],
        value: tkl.Memory[H, E, S, STAGED, tkl.f16],
        out: tkl.Memory[H, Q, E, GLOBAL, tkl.f32],
    ):
        low = tkl.Register[H, Q, tkl.f32](-1e6)
        none = tkl.Register[H, Q, tkl.f32](0.0)
        nothing = tkl.Register[H, E, Q, tkl.f32](0.0)
        scaling = tkl.Register[H, Q, S, tkl.f32](scale)
        shown = tkl.Register[Q, S, tkl.f32](0.0)
        hidden = tkl.Register[Q, S, tkl.f32](-1e6)

        @tkw.iterate(S, init_args=[low, none, nothing])
        def rows(
            highest: tkl.Register[H, Q, tkl.f32],
            weight: tkl.Register[H, Q, tkl.f32],
            mixed: tkl.Register[H, E, Q, tkl.f32],
        ):
            empty = tkl.Register[H, S, Q, tkl.f32](0.0)
            alike = tkw.mma(tkw.read(key), tkw.read(query), empty)
            alike = tkw.permute(alike, target_shape=[H, Q, S]) * scaling
            if causal:
                place = tkw.broadcast(tkw.self_index(Q, tkl.i32), target_shape=[Q, S])
                seen = tkw.cast(place >= tkw.self_index(S, tkl.i32), tkw.i1)
                alike = alike + tkw.select(seen, shown, hidden)
            higher = tkw.max(alike, highest, dim=S)
            shrink = tkw.exp2(highest - higher)
            part = tkw.exp2(alike - higher)
            heavier = tkw.sum(part, weight * shrink, dim=S)
            mixed = tkw.mma(tkw.read(value), tkw.cast(part, tkl.f16), mixed * shrink)
            return higher, heavier, mixed

        _, weight, mixed = rows
        tkw.write(mixed * tkw.reciprocal(weight), out, mapping=turned)

    sizes = {H: 2, Q: 128, S: keys, D: 64, E: 64, TILE_H: 1, TILE_Q: 16 * waves, TILE_S: 64, TILE_E: 64}
    return Build(attention, options_for(chip, sizes, schedule, **options))


def reference(inputs: Arrays, causal: bool = False) -> Arrays:
    query, key, value = (inputs[name].astype(np.float64) for name in ("query", "key", "value"))
    alike = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    if causal:
        alike = np.where(np.tri(*alike.shape[1:], dtype=bool), alike, -np.inf)
    part = np.exp(alike - alike.max(-1, keepdims=True))
    return {"out": part / part.sum(-1, keepdims=True) @ value.transpose(0, 2, 1)}


def attention(name: str, targets: tuple[str, ...] | None = None, causal: bool = False, **chosen: object):
    more = {} if targets is None else {"targets": targets}
    build = partial(build_attention, causal=causal, **chosen)
    return case(f"attention-{name}", "attention", build, reference=partial(reference, causal=causal), **more)


CASES = (
    attention("none"),
    attention("one-step", keys=64),
    # Each operand is read right after it is written, so that keys and values can take the same bytes in turn.
    attention("same-bytes", reorder_allocs=False),
    attention("causal", causal=True),
    attention("modulo", schedule=SchedulingType.MODULO),
    attention("modulo-2", schedule=SchedulingType.MODULO, multi_buffer_count=2),
    attention("causal-modulo", causal=True, schedule=SchedulingType.MODULO),
    attention("pingpong", schedule=SchedulingType.PREFETCH_ATTENTION, waves=8, keys=512),
    attention("async", use_global_to_shared=True, targets=COPYING),
    attention("async-modulo", use_global_to_shared=True, schedule=SchedulingType.MODULO, targets=GATHERING),
)
