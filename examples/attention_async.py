"""Attention, forward, with asynchronous copies: keys in two slots, one tile ahead, and values in one.

OUT = softmax(Q · Kᵀ / 8) · V for heads of width 64, as in `flash_attention`, without a mask. In iteration j the copy of
values j runs while the scores are computed, and that of keys j + 1 until the iteration ends.

Values have one slot, so they need two barriers: one between the reads of values j - 1 and the copy of values j, one
between that copy and its reads. The first serves the keys too: keys j must have landed, with nothing newer in flight,
so it has `vmcnt=0`; and keys j - 1 are read, whose slot keys j + 1 take. At the second a wave has issued its copy of
values j, then that of keys j + 1. Copies complete in order, so `vmcnt=1` waits for the values and leaves the keys on
their way; were the keys copied first, it would have to be 0.

The last tile has no keys after it: it is computed behind the loop, and its second wait leaves nothing in flight.
"""

import numpy as np

import tidegate as tg

H, S = tg.sizes(H=2, S=128)
TOLERANCE = (2e-3, 2e-3)


@tg.kernel(waves=4, target="gfx950", grid=(S // 64, H), where=[S % 64 == 0])
def attention_async(
    Q: tg.Global[H, S, 64, tg.f16],
    K: tg.Global[H, S, 64, tg.f16],
    V: tg.Global[H, S, 64, tg.f16],
    OUT: tg.Global[H, S, 64, tg.f32],
):
    keys = tg.alloc((32, 64), tg.f16, slots=2)
    values = tg.alloc((32, 64), tg.f16)
    wave, head = tg.wave(), tg.workgroup(1)
    first = tg.workgroup(0) * 64 + wave * 16

    @tg.function
    def copy_keys(j):
        tg.gather_to_lds(K, (head, j * 32 + wave * 8, 0), keys, (wave * 8, 0), (8, 64), slot=j % 2)

    @tg.function
    def copy_values(j):
        tg.gather_to_lds(V, (head, j * 32 + wave * 8, 0), values, (wave * 8, 0), (8, 64))

    @tg.function
    def weigh(k, top):
        score = tg.mma(q, tg.transpose(k), tg.fill((16, 32), tg.f32)) * 0.125
        new_top = tg.maximum(top, tg.reduce("max", score, axis=1))
        return tg.exp(score - new_top), tg.exp(top - new_top), new_top

    @tg.function
    def add_up(weight, shrink, total, out):
        v = tg.local_read(values, (0, 0), (32, 64))
        total = total * shrink + tg.reduce("add", weight, axis=1)
        return total, tg.mma(tg.cast(weight, tg.f16), v, out * shrink)

    q = tg.global_read(Q, (head, first, 0), (16, 64))
    top = tg.fill((16, 1), tg.f32, -np.inf)
    total = tg.fill((16, 1), tg.f32)
    out = tg.fill((16, 64), tg.f32)
    copy_keys(0)
    for j in tg.iterate(S // 32 - 1):
        tg.shared_memory_barrier(vmcnt=0)  # RAW: keys j have landed; WAR: keys and values j - 1 are read
        k = tg.local_read(keys, (0, 0), (32, 64), slot=j % 2)
        copy_values(j)
        copy_keys(j + 1)
        weight, shrink, top = weigh(k, top)
        tg.shared_memory_barrier(vmcnt=1)  # RAW: values j have landed
        total, out = add_up(weight, shrink, total, out)
    tg.shared_memory_barrier(vmcnt=0)  # RAW: the last keys have landed; WAR: the values before the last are read
    k = tg.local_read(keys, (0, 0), (32, 64), slot=(S // 32 - 1) % 2)
    copy_values(S // 32 - 1)
    weight, shrink, top = weigh(k, top)
    tg.shared_memory_barrier(vmcnt=0)  # RAW: the last values have landed
    total, out = add_up(weight, shrink, total, out)
    tg.global_write(out / total, OUT, (head, first, 0))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    q, k, v = (inputs[name].astype(np.float32) for name in "QKV")
    score = q @ k.swapaxes(1, 2) / 8
    weight = np.exp(score - score.max(axis=2, keepdims=True))
    return {"OUT": weight @ v / weight.sum(axis=2, keepdims=True)}
