"""A kernel of Wave in which a wave writes its own row, and then the next wave's."""

from dataclasses import replace

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE

from oracles.wave_kernels import Build
from oracles.wave_kernels.atomics import TILE_M, TILE_N, M, N, waves_on_rows
from oracles.wave_kernels.building import CHIPS, GLOBAL, KEPT, options_for


def build_two_writes(target: str = "gfx942", waves: int = 4) -> Build:
    """Every wave puts its row into its own place, twice that into the next wave's, and takes what is in its own."""
    chip = CHIPS[target]
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    after = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={M: (i + 1) % waves, N: j})

    @tkw.wave(waves_on_rows(chip, waves))
    def two_writes(rows: tkl.Memory[M, N, GLOBAL, tkl.f32], out: tkl.Memory[M, N, GLOBAL, tkl.f32]):
        mine = tkw.read(rows)
        shared = tkw.allocate((M, N), (TILE_M, TILE_N), tkl.f32, SHARED_ADDRESS_SPACE)
        tkw.write(mine, shared)
        tkw.write(mine + mine, shared, mapping=after)
        tkw.write(tkw.read(shared), out)

    sizes = {M: waves, N: 4 * chip.lanes, TILE_M: waves, TILE_N: chip.lanes}
    return Build(two_writes, replace(options_for(chip, sizes, **KEPT), compile_to_mlir=True))
