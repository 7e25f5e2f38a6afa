"""A product whose loop is put in order by hand, with Wave's schedule language.

The user names operations by tags, cuts the loop into stages and orders the steady part: what barriers it needs is left
to Wave, but for those that the user writes.
"""

from functools import partial

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType
from wave_lang.kernel.wave.wave_schedule import WaveSchedule, wave_schedule

from oracles.wave_kernels import Build
from oracles.wave_kernels.building import GLOBAL, STAGED, Chip, case, options_for
from oracles.wave_kernels.gemm import TILE_K, TILE_M, TILE_N, K, M, N, reference, tiled


def build_tagged(chip: Chip, schedule: WaveSchedule, waves: tuple[int, int]) -> Build:
    """The product of `gemm`, with a name for the loop, each read and the product."""
    constraints = tiled(chip, waves)

    @tkw.wave(constraints)
    def gemm_tagged(
        left: tkl.Memory[M, K, STAGED, tkl.f16],
        right: tkl.Memory[N, K, STAGED, tkl.f16],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
    ):
        zero = tkl.Register[M, N, tkl.f32](0.0)

        @tkw.iterate(K, init_args=[zero], tag="sum")
        def total(so_far: tkl.Register[M, N, tkl.f32]) -> tkl.Register[M, N, tkl.f32]:
            rows = tkw.read(left, tag="rows")
            columns = tkw.read(right, tag="columns")
            return tkw.mma(rows, columns, so_far, tag="product")

        tkw.write(total, out)

    sizes = {M: 256, N: 256, K: 512, TILE_M: 128, TILE_N: 128, TILE_K: 64}
    return Build(gemm_tagged, options_for(chip, sizes, SchedulingType.MANUAL), schedule)


def moved(tag: str) -> tuple[object, object, object]:
    """The global reads, shared writes and shared reads of one operand."""
    far, near = tkw.partition_by_address_space(tkw.get_node_by_tag_and_type(tag, tkw.Read), GLOBAL_ADDRESS_SPACE)
    return far, tkw.get_node_by_tag_and_type(tag, tkw.Write), near


@wave_schedule()
def two_stages():
    """Load and store for the next step while this one is multiplied; nothing is moved within the loop."""
    loop = tkw.get_node_by_tag("sum")
    (far_a, put_a, near_a), (far_b, put_b, near_b) = moved("rows"), moved("columns")
    product = tkw.get_node_by_tag("product")
    with tkw.pipeline(loop) as stages:
        stages.set_stage([(far_a, far_b), (put_a, put_b)])
        stages.set_stage([(near_a, near_b), (product,)])


@wave_schedule()
def halves_in_turn():
    """Multiplies in two halves with the stores between them, and starts half of the waves one barrier later."""
    loop = tkw.get_node_by_tag("sum")
    (far_a, put_a, near_a), (far_b, put_b, near_b) = moved("rows"), moved("columns")
    product = tkw.get_node_by_tag("product")
    pipelined = tkw.pipeline(loop)
    with pipelined as stages:
        stages.set_stage([(far_a, far_b), (put_a, put_b)])
        stages.set_stage([(near_a, near_b), (product,)])
    steady = partial(tkw.filter_nodes, subgraph=pipelined.KERNEL)
    reads = [steady(nodes) for nodes in (near_a, near_b, far_a, far_b)]
    first, second = tkw.partition_by_dim(steady(product), dim=K, num_partitions=2)
    order = [
        tkw.cluster([*reads, tkw.WorkgroupBarrier(), tkw.SchedulingBarrier([])]),
        tkw.cluster([tkw.SetWavePrio(1), first, tkw.SetWavePrio(0), tkw.SharedMemoryBarrier()]),
        tkw.cluster([steady(put_a), steady(put_b), tkw.WorkgroupBarrier(), tkw.SchedulingBarrier([])]),
        tkw.cluster([tkw.SetWavePrio(1), second, tkw.SetWavePrio(0)]),
    ]
    tkw.insert_before(pipelined.KERNEL, tkw.SharedMemoryBarrier())
    tkw.insert_at_end(pipelined.KERNEL, tkw.SharedMemoryBarrier())
    tkw.reorder_graph(pipelined.KERNEL, order)
    tkw.stagger(pipelined.KERNEL)


CASES = (
    case("manual-stages", "manual", partial(build_tagged, schedule=two_stages, waves=(2, 2)), reference=reference),
    case("manual-stagger", "manual", partial(build_tagged, schedule=halves_in_turn, waves=(4, 2)), reference=reference),
)
