"""Steps of a five-point stencil: waves own rows of the field and exchange their edges through shared memory.

Each workgroup advances one field of 64×64 by T steps. A wave keeps its 16 rows in registers and publishes them for the
shifted reads. Outside the field everything is 0: masks keep reads from the border around it, which nobody writes.

The rows just above and below a wave's own belong to its neighbours. Step t reads slot t mod 2 and writes the other, so
the barrier at the top of a step does both jobs: the field of step t is complete, and the slot that will take step t + 1
has been read by all. The first barrier also serves the values from before the loop.
"""

import numpy as np

import tidegate as tg

B, T = tg.sizes(B=2, T=5)
TOLERANCE = (1e-5, 1e-6)


@tg.kernel(waves=4, target="gfx942", grid=(B,), sizes=(T,))
def stencil_2d(X: tg.Global[B, 64, 64, tg.f32], Y: tg.Global[B, 64, 64, tg.f32]):
    field = tg.alloc((66, 66), tg.f32, slots=2)
    wave, batch = tg.wave(), tg.workgroup(0)
    top = wave * 16
    row = tg.iota((16, 64), axis=0) + top
    column = tg.iota((16, 64), axis=1)
    has_north = row > 0
    has_south = row < 63
    has_west = column > 0
    has_east = column < 63
    here = tg.global_read(X, (batch, top, 0), (16, 64))
    tg.local_write(here, field, (top + 1, 1), slot=0)
    for t in tg.iterate(T):
        tg.shared_memory_barrier()  # RAW: the field of step t is written; WAR: the field of step t - 1 is read
        north = tg.local_read(field, (top, 1), (16, 64), slot=t % 2, mask=has_north)
        south = tg.local_read(field, (top + 2, 1), (16, 64), slot=t % 2, mask=has_south)
        west = tg.local_read(field, (top + 1, 0), (16, 64), slot=t % 2, mask=has_west)
        east = tg.local_read(field, (top + 1, 2), (16, 64), slot=t % 2, mask=has_east)
        here = here * 0.5 + (north + south + west + east) * 0.125
        tg.local_write(here, field, (top + 1, 1), slot=(t + 1) % 2)
    tg.global_write(here, Y, (batch, top, 0))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    field = inputs["X"]
    for _ in range(sizes["T"]):
        wide = np.pad(field, ((0, 0), (1, 1), (1, 1)))
        around = wide[:, :-2, 1:-1] + wide[:, 2:, 1:-1] + wide[:, 1:-1, :-2] + wide[:, 1:-1, 2:]
        field = field * np.float32(0.5) + around * np.float32(0.125)
    return {"Y": field}
