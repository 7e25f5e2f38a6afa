"""Atomic updates of shared memory by several waves: a buffer that is set, added to by all, and read back.

Between the first two, and between the last two, every wave must have come that far.
"""

from functools import partial

import numpy as np
import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE

from oracles.wave_kernels import Arrays, Build
from oracles.wave_kernels.building import GLOBAL, KEPT, Chip, case, options_for

M, N, TILE_M, TILE_N = tkl.sym.M, tkl.sym.N, tkl.sym.TILE_M, tkl.sym.TILE_N
ROW = tkl.sym.ROW


def waves_on_rows(chip: Chip, waves: int) -> list[tkw.Constraint]:
    """Each wave has a row; the columns are its lanes."""
    return [
        tkw.WorkgroupConstraint(M, TILE_M, 1),
        tkw.WorkgroupConstraint(N, TILE_N, 0),
        tkw.WaveConstraint(M, TILE_M / waves),
        tkw.WaveConstraint(N, TILE_N),
        tkw.HardwareConstraint(
            threads_per_wave=chip.lanes,
            waves_per_block=(1, waves, 1),
            vector_shapes={M: 1, N: chip.lanes},
        ),
    ]


def build_fold(chip: Chip, waves: int, add: bool) -> Build:
    """Every wave folds its row into one row of shared memory, then all read what came out.

    Wave takes the mapping of an atomic for one of a read.
    """
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    first = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={M: sympy.Integer(0), N: j})
    from_first = tkw.IndexMapping(num_iterators=2, inputs={M: sympy.Integer(0), N: j}, outputs={M: i, N: j})
    start = 0 if add else 1 << 30

    @tkw.wave(waves_on_rows(chip, waves))
    def fold(rows: tkl.Memory[M, N, GLOBAL, tkl.i32], out: tkl.Memory[M, N, GLOBAL, tkl.i32]):
        mine = tkw.read(rows)
        shared = tkw.allocate((M, N), (ROW, TILE_N), tkl.i32, SHARED_ADDRESS_SPACE)
        tkw.write(tkl.Register[M, N, tkl.i32](start), shared, mapping=first)
        if add:
            tkw.atomic_add(mine, shared, elements_per_thread=1, mapping=from_first)
        else:
            tkw.atomic_min(mine, shared, elements_per_thread=1, mapping=from_first)
        tkw.write(tkw.read(shared, mapping=from_first), out)

    sizes = {M: waves, N: 4 * chip.lanes, ROW: 1, TILE_M: waves, TILE_N: chip.lanes}
    return Build(fold, options_for(chip, sizes, **KEPT))


def reference(inputs: Arrays, add: bool) -> Arrays:
    row = inputs["rows"].sum(0) if add else inputs["rows"].min(0)
    return {"out": np.broadcast_to(row, inputs["rows"].shape).astype(np.float64)}


CASES = (
    *(
        case(
            f"atomic-{'add' if add else 'min'}-{waves}",
            "atomics",
            partial(build_fold, waves=waves, add=add),
            reference=partial(reference, add=add),
        )
        for add in (True, False)
        for waves in (1, 4)
    ),
)
