"""The names of `import tidegate`, for editors and type checkers.

Made from the table in `__init__.py` by `pytest tests/house/test_public.py --update`.
"""

from tidegate.building import (
    build as build,
)
from tidegate.diag import (
    BadInput as BadInput,
    Finding as Finding,
    TidegateError as TidegateError,
)
from tidegate.graph.apply import (
    apply_plan as apply_plan,
    apply_to_graph as apply_to_graph,
)
from tidegate.graph.builder import (
    GraphBuilder as GraphBuilder,
)
from tidegate.graph.model import (
    SyncGraph as SyncGraph,
)
from tidegate.graph.parse import (
    parse_graph as parse_graph,
)
from tidegate.graph.plan import (
    Plan as Plan,
    show_plan as show_plan,
)
from tidegate.graph.show import (
    show_graph as show_graph,
)
from tidegate.language.api import (
    absolute as absolute,
    alloc as alloc,
    atomic_add as atomic_add,
    broadcast as broadcast,
    cast as cast,
    commit_group as commit_group,
    conditional_barrier as conditional_barrier,
    cos as cos,
    dealloc as dealloc,
    exit_wave as exit_wave,
    exp as exp,
    exp2 as exp2,
    fence as fence,
    fill as fill,
    floor as floor,
    fma as fma,
    gather_to_lds as gather_to_lds,
    global_read as global_read,
    global_write as global_write,
    inexact as inexact,
    iota as iota,
    lane as lane,
    lds_to_global as lds_to_global,
    let as let,
    local_read as local_read,
    local_write as local_write,
    log as log,
    log2 as log2,
    maximum as maximum,
    mbarrier as mbarrier,
    mbarrier_arrive as mbarrier_arrive,
    mbarrier_wait as mbarrier_wait,
    minimum as minimum,
    mma as mma,
    named_barrier as named_barrier,
    null_async_dep as null_async_dep,
    power as power,
    read_index as read_index,
    recip as recip,
    reduce as reduce,
    relu as relu,
    reshape as reshape,
    rsqrt as rsqrt,
    scan as scan,
    scheduling_barrier as scheduling_barrier,
    select as select,
    select_view as select_view,
    set_wave_prio as set_wave_prio,
    shared_memory_barrier as shared_memory_barrier,
    sigmoid as sigmoid,
    signal as signal,
    sin as sin,
    size as size,
    sizes as sizes,
    splat as splat,
    sqrt as sqrt,
    tanh as tanh,
    tensor_load_to_lds as tensor_load_to_lds,
    transpose as transpose,
    view as view,
    wait as wait,
    wait_count as wait_count,
    wave as wave,
    where as where,
    workgroup as workgroup,
    workgroup_barrier as workgroup_barrier,
    zeros as zeros,
)
from tidegate.language.ops import (
    Kernel as Kernel,
    Module as Module,
)
from tidegate.language.parse import (
    parse as parse,
)
from tidegate.language.regions import (
    conditional as conditional,
    iterate as iterate,
    otherwise as otherwise,
    wave_group as wave_group,
)
from tidegate.language.show import (
    show as show,
)
from tidegate.language.tile_handles import (
    TileHandle as TileHandle,
)
from tidegate.language.trace import (
    CapturedTrace as CapturedTrace,
    Flag as Flag,
    Global as Global,
    KernelFunction as KernelFunction,
    Scalar as Scalar,
    function as function,
    kernel as kernel,
)
from tidegate.language.types import (
    bf16 as bf16,
    f16 as f16,
    f32 as f32,
    f64 as f64,
    f8e4m3fn as f8e4m3fn,
    f8e4m3fnuz as f8e4m3fnuz,
    f8e5m2 as f8e5m2,
    f8e5m2fnuz as f8e5m2fnuz,
    i1 as i1,
    i16 as i16,
    i32 as i32,
    i64 as i64,
    i8 as i8,
)
from tidegate.library import (
    against as against,
    build_graph as build_graph,
    check as check,
    draw as draw,
    explain as explain,
    judge as judge,
    make_inputs as make_inputs,
    prove as prove,
    run as run,
    run_hostile as run_hostile,
    schedule as schedule,
    sync as sync,
)
from tidegate.pingpong import (
    schedule_kernel as schedule_kernel,
)
from tidegate.results import (
    Arrays as Arrays,
    CheckResult as CheckResult,
    RunResult as RunResult,
)
from tidegate.scheduling.prefetch import (
    prefetch as prefetch,
)
from tidegate.seeds import (
    BarrierEmitter as BarrierEmitter,
    BarrierPosition as BarrierPosition,
    BarrierType as BarrierType,
    BasicSplitBarrierEmitter as BasicSplitBarrierEmitter,
    HardwareConstraint as HardwareConstraint,
    LegacyBarrierEmitter as LegacyBarrierEmitter,
    SchedReorderStrategy as SchedReorderStrategy,
    SchedulingType as SchedulingType,
    SyncRequirement as SyncRequirement,
    TargetConfig as TargetConfig,
    TilingConstraint as TilingConstraint,
    add_conditional_barriers_to_loop as add_conditional_barriers_to_loop,
    add_shared_memory_barriers as add_shared_memory_barriers,
    find_intersecting_interval_strategy as find_intersecting_interval_strategy,
    get_barriers_analysis as get_barriers_analysis,
    handle_hazard as handle_hazard,
    minimize_placement_strategy as minimize_placement_strategy,
    populate_barriers_counters as populate_barriers_counters,
    reorder_graph as reorder_graph,
    schedule_reordering as schedule_reordering,
    transform_two_PP_clusters as transform_two_PP_clusters,
)
from tidegate.targets import (
    load_target as load_target,
)

__version__: str
