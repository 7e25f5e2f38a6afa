import numpy as np

import tidegate as tg

(R,) = tg.sizes(R=32)


@tg.kernel(waves=4, target="gfx942", where=[R % 4 == 0], sizes=[R])
def blur(X: tg.Global[R, 64, tg.f32], Y: tg.Global[R, 64, tg.f32]):
    rows, wave = tg.alloc((4, 64), tg.f32, slots=2), tg.wave()
    for k in tg.iterate(R // 4):
        mine = tg.global_read(X, (k * 4 + wave, 0), (64,))
        tg.local_write(mine, rows, (wave,), slot=k % 2)
        above = tg.local_read(rows, ((wave + 3) % 4,), (64,), slot=k % 2)
        below = tg.local_read(rows, ((wave + 1) % 4,), (64,), slot=k % 2)
        tg.global_write(mine + above + below, Y, (k * 4 + wave, 0))


def reference(inputs, sizes):
    x = inputs["X"].reshape(-1, 4, 64)
    return {"Y": (x + np.roll(x, 1, axis=1) + np.roll(x, -1, axis=1)).reshape(inputs["X"].shape)}


TOLERANCE = (1e-5, 1e-5)
