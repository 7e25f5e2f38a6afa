"""Attention, forward, with an online softmax: keys and values pass through shared memory once.

OUT = softmax(Q · Kᵀ / 8) · V for heads of width 64. Four waves own 16 queries each and share tiles of 32 keys and
values. With `CAUSAL` a query sees only keys up to its own position, and a workgroup stops at its last query.

Queries, the running maximum and sum, and the output stay in registers. Only the tiles of keys and values are shared:
tile j lies in slot j mod 2, so one barrier per iteration does both jobs, as in `gemm_two_slots`. Its trip count differs
between workgroups, but not between the waves of one.
"""

import numpy as np

import tidegate as tg

H, S = tg.sizes(H=2, S=128)
TOLERANCE = (2e-3, 2e-3)


@tg.kernel(waves=4, target="gfx942", grid=(S // 64, H), where=[S % 64 == 0])
def flash_attention(
    Q: tg.Global[H, S, 64, tg.f16],
    K: tg.Global[H, S, 64, tg.f16],
    V: tg.Global[H, S, 64, tg.f16],
    OUT: tg.Global[H, S, 64, tg.f32],
    CAUSAL: bool = True,
):
    keys = tg.alloc((32, 64), tg.f16, slots=2)
    values = tg.alloc((32, 64), tg.f16, slots=2)
    wave, head = tg.wave(), tg.workgroup(1)
    first = tg.workgroup(0) * 64 + wave * 16
    q = tg.global_read(Q, (head, first, 0), (16, 64))
    top = tg.fill((16, 1), tg.f32, -np.inf)
    total = tg.fill((16, 1), tg.f32)
    out = tg.fill((16, 64), tg.f32)
    for j in tg.iterate((tg.workgroup(0) + 1) * 2 if CAUSAL else S // 32):
        slot = j % 2
        k_part = tg.global_read(K, (head, j * 32 + wave * 8, 0), (8, 64))
        v_part = tg.global_read(V, (head, j * 32 + wave * 8, 0), (8, 64))
        tg.local_write(k_part, keys, (wave * 8, 0), slot=slot)
        tg.local_write(v_part, values, (wave * 8, 0), slot=slot)
        tg.shared_memory_barrier()  # RAW: tile j is written; WAR: tile j - 1 is read, its slot is free for j + 1
        k = tg.local_read(keys, (0, 0), (32, 64), slot=slot)
        v = tg.local_read(values, (0, 0), (32, 64), slot=slot)
        score = tg.mma(q, tg.transpose(k), tg.fill((16, 32), tg.f32)) * 0.125
        if CAUSAL:
            query = tg.iota((16, 32), axis=0) + first
            key = tg.iota((16, 32), axis=1) + j * 32
            score = tg.where(key <= query, score, -np.inf)
        new_top = tg.maximum(top, tg.reduce("max", score, axis=1))
        weight = tg.exp(score - new_top)
        shrink = tg.exp(top - new_top)
        total = total * shrink + tg.reduce("add", weight, axis=1)
        out = tg.mma(tg.cast(weight, tg.f16), v, out * shrink)
        top = new_top
    tg.global_write(out / total, OUT, (head, first, 0))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int], CAUSAL: bool = True) -> dict[str, np.ndarray]:
    q, k, v = (inputs[name].astype(np.float32) for name in "QKV")
    score = q @ k.swapaxes(1, 2) / 8
    if CAUSAL:
        score = np.where(np.tri(sizes["S"], dtype=bool), score, -np.inf)
    weight = np.exp(score - score.max(axis=2, keepdims=True))
    return {"OUT": weight @ v / weight.sum(axis=2, keepdims=True)}
