"""The names that the seeds give to what Tidegate does, with their signatures, over the stages that do it here."""

from tidegate.seeds.barriers import (
    Analysis,
    BarrierPosition,
    BarrierType,
    SyncRequirement,
    TargetConfig,
    find_intersecting_interval_strategy,
    get_barriers_analysis,
    handle_hazard,
    minimize_placement_strategy,
)
from tidegate.seeds.emission import (
    BarrierEmitter,
    BasicSplitBarrierEmitter,
    LegacyBarrierEmitter,
    add_shared_memory_barriers,
    populate_barriers_counters,
)
from tidegate.seeds.schedule import (
    HardwareConstraint,
    SchedReorderStrategy,
    SchedulingType,
    TilingConstraint,
    add_conditional_barriers_to_loop,
    reorder_graph,
    schedule_reordering,
    transform_two_PP_clusters,
)

__all__ = [
    "Analysis",
    "BarrierEmitter",
    "BarrierPosition",
    "BarrierType",
    "BasicSplitBarrierEmitter",
    "HardwareConstraint",
    "LegacyBarrierEmitter",
    "SchedReorderStrategy",
    "SchedulingType",
    "SyncRequirement",
    "TargetConfig",
    "TilingConstraint",
    "add_conditional_barriers_to_loop",
    "add_shared_memory_barriers",
    "find_intersecting_interval_strategy",
    "get_barriers_analysis",
    "handle_hazard",
    "minimize_placement_strategy",
    "populate_barriers_counters",
    "reorder_graph",
    "schedule_reordering",
    "transform_two_PP_clusters",
]
