"""Attention of new tokens over cached ones and over themselves, for sequences of different lengths.

Lengths and starts come from memory: symbols are set while the kernel runs, the cache is read through a table of places,
and two loops follow one another that hold different buffers.
"""

import math
from functools import partial

import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType
from wave_lang.kernel.wave.utils.mma_utils import get_mfma_load_elems_per_thread

from oracles.wave_kernels import Build
from oracles.wave_kernels.attention import TILE_E, TILE_H, TILE_Q, TILE_S, D, E, H, Q, S
from oracles.wave_kernels.building import GLOBAL, STAGED, Chip, case, options_for

G, TILE_G = tkl.sym.G, tkl.sym.TILE_G  # sequences and one
NEW, OLD, LONGEST = tkl.sym.NEW, tkl.sym.OLD, tkl.sym.LONGEST
HEADS, WAVES, QUERIES = 2, 4, 64


def constrained(chip: Chip) -> tuple[list[tkw.Constraint], tuple[object, ...]]:
    g, h, q, s, d, e = (tkl.sym.g, tkl.sym.h, tkl.sym.q, tkl.sym.s, tkl.sym.d, tkl.sym.e)
    constraints = [
        tkw.WorkgroupConstraint(Q, TILE_Q, 0, iters=sympy.ceiling(LONGEST / QUERIES)),
        tkw.WorkgroupConstraint(E, TILE_E, 1),
        tkw.WorkgroupConstraint(H, TILE_H, 2),
        tkw.WorkgroupConstraint(G, TILE_G, 3, iters=G - 1),
        tkw.TilingConstraint(S, TILE_S),
        tkw.WaveConstraint(Q, TILE_Q / WAVES),
        tkw.WaveConstraint(E, TILE_E),
        tkw.IteratorBindings({g: G, h: H, q: Q, s: S, d: D, e: E}),
        tkw.HardwareConstraint(
            threads_per_wave=chip.lanes, mma_type=chip.chained, vector_shapes={H: 0, G: 0, Q: 16, E: 16}
        ),
    ]
    return constraints, (g, h, q, s, d, e)


def build_extend(chip: Chip, schedule: SchedulingType) -> Build:
    """First the cached keys, then the new ones; the running maximum, sum and mixture pass from loop to loop."""
    constraints, (g, h, q, s, d, e) = constrained(chip)
    width = get_mfma_load_elems_per_thread(chip.chained)
    inner = tkl.MemoryLayout(shape=[None, HEADS, 64])
    row = tkl.MemoryLayout(shape=[None])

    @tkw.wave(constraints)
    def attention_extend(
        query: tkl.Memory[Q, H, D, GLOBAL, tkl.f16, inner],
        key: tkl.Memory[S, H, D, STAGED, tkl.f16, inner],
        value: tkl.Memory[S, H, E, STAGED, tkl.f16, inner],
        old_key: tkl.Memory[S, H, D, STAGED, tkl.f16, inner],
        old_value: tkl.Memory[S, H, E, STAGED, tkl.f16, inner],
        starts: tkl.Memory[G, GLOBAL, tkl.i32, row],
        old_starts: tkl.Memory[G, GLOBAL, tkl.i32, row],
        places: tkl.Memory[S, GLOBAL, tkl.i32, row],
        out: tkl.Memory[Q, H, E, GLOBAL, tkl.f32, inner],
    ):
        low = tkl.Register[H, Q, tkl.f32](-1e6)
        none = tkl.Register[H, Q, tkl.f32](0.0)
        nothing = tkl.Register[H, E, Q, tkl.f32](0.0)
        scaling = tkl.Register[H, Q, S, tkl.f32](math.log2(math.e) / math.sqrt(64))
        shown = tkl.Register[Q, S, tkl.f32](0.0)
        hidden = tkl.Register[Q, S, tkl.f32](-1e6)

        def length_from(table: object, start: object) -> object:
            return tkw.read(table, elements_per_thread=1, source=(g + 1,), target=(g,)) - start

        def mix(keys: object, values: object, state: tuple[object, object, object]) -> tuple[object, object, object]:
            highest, weight, mixed = state
            empty = tkl.Register[H, S, Q, tkl.f32](0.0)
            asked = tkw.read(query, source=(q + NEW, h, d), target=(h, q, d))
            alike = tkw.permute(tkw.mma(keys, asked, empty), target_shape=[H, Q, S]) * scaling
            inside = tkw.apply_expr(tkw.self_index(S, tkl.i32), lambda place: place < S)
            inside = tkw.cast(tkw.broadcast(inside, target_shape=[Q, S]), tkw.i1)
            alike = alike + tkw.select(inside, shown, hidden)
            higher = tkw.max(alike, highest, dim=S)
            shrink = tkw.exp2(highest - higher)
            part = tkw.exp2(alike - higher)
            heavier = tkw.sum(part, weight * shrink, dim=S)
            return higher, heavier, tkw.mma(values, tkw.cast(part, tkl.f16), mixed * shrink)

        start = tkw.read(starts, elements_per_thread=1)
        tkw.set_symbol(NEW, start)
        length = length_from(starts, start)
        tkw.set_symbol(Q, length)
        old_start = tkw.read(old_starts, elements_per_thread=1)
        tkw.set_symbol(OLD, old_start)
        tkw.set_symbol(S, length_from(old_starts, old_start))

        @tkw.iterate(S, init_args=[low, none, nothing])
        def cached(
            highest: tkl.Register[H, Q, tkl.f32],
            weight: tkl.Register[H, Q, tkl.f32],
            mixed: tkl.Register[H, E, Q, tkl.f32],
        ):
            key_at = tkw.read(places, elements_per_thread=1, source=(s + OLD,), target=(s,))
            value_at = tkw.read(places, elements_per_thread=width, source=(s + OLD,), target=(s,))
            keys = tkw.read(old_key, elements_per_thread=width, source=(key_at, h, d), target=(h, s, d))
            values = tkw.read(old_value, elements_per_thread=width, source=(value_at, h, e), target=(h, e, s))
            return mix(keys, values, (highest, weight, mixed))

        tkw.set_symbol(S, length)

        highest_old, weight_old, mixed_old = cached

        @tkw.iterate(S, init_args=[highest_old, weight_old, mixed_old])
        def fresh(
            highest: tkl.Register[H, Q, tkl.f32],
            weight: tkl.Register[H, Q, tkl.f32],
            mixed: tkl.Register[H, E, Q, tkl.f32],
        ):
            keys = tkw.read(key, source=(s + NEW, h, d), target=(h, s, d))
            values = tkw.read(value, source=(s + NEW, h, e), target=(h, e, s))
            return mix(keys, values, (highest, weight, mixed))

        _, weight, mixed = fresh
        answer = mixed * tkw.reciprocal(weight)
        tkw.write(answer, out, source=(h, e, q), target=(q + NEW, h, e))

    sizes = {H: HEADS, D: 64, E: 64, LONGEST: 256, TILE_G: 1, TILE_H: 1, TILE_Q: QUERIES, TILE_S: 64, TILE_E: 64}
    options = options_for(chip, sizes, schedule, dynamic_symbols=[Q, S, G], use_buffer_ops=True)
    return Build(attention_extend, options)


CASES = (case("extend-none", "attention-extend", partial(build_extend, schedule=SchedulingType.NONE)),)
