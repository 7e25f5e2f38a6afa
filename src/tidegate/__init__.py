"""Tidegate: a synchronization compiler for GPU kernels.

    import tidegate as tg

    @tg.kernel(waves=4, target="gfx942")
    def row_shift(X: tg.Global[256, tg.f32], Y: tg.Global[256, tg.f32]):
        tile = tg.alloc((4, 64), tg.f32)
        tg.local_write(tg.global_read(X, (tg.wave() * 64,), (64,)), tile, (tg.wave(),))
        tg.shared_memory_barrier()
        tg.global_write(tg.local_read(tile, ((tg.wave() + 1) % 4,), (64,)), Y, (tg.wave() * 64,))

Everything is imported when it is first used, so that `import tidegate` costs next to nothing. Editors and type checkers
read `__init__.pyi`, which `pytest tests/house/test_public.py --update` makes from the table below.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Where each public name lives.
_HOMES = {
    "tidegate.language.api": (
        "absolute alloc atomic_add broadcast cast commit_group conditional_barrier cos dealloc exit_wave exp "
        "exp2 fence fill floor fma gather_to_lds global_read global_write inexact iota lane lds_to_global let "
        "local_read local_write log log2 maximum mbarrier mbarrier_arrive mbarrier_wait minimum mma "
        "named_barrier null_async_dep power read_index recip reduce relu reshape rsqrt scan "
        "scheduling_barrier select select_view set_wave_prio shared_memory_barrier sigmoid signal sin size sizes "
        "splat sqrt tanh tensor_load_to_lds transpose view wait wait_count wave where workgroup "
        "workgroup_barrier zeros "
    ),
    "tidegate.language.regions": "conditional iterate otherwise wave_group",
    "tidegate.language.tile_handles": "TileHandle",
    "tidegate.language.trace": "CapturedTrace Flag Global KernelFunction Scalar function kernel",
    "tidegate.language.types": ("bf16 f16 f32 f64 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz i1 i16 i32 i64 i8"),
    "tidegate.language.ops": "Kernel Module",
    "tidegate.language.parse": "parse",
    "tidegate.language.show": "show",
    "tidegate.diag": "BadInput Finding TidegateError",
    "tidegate.targets": "load_target",
    "tidegate.graph.model": "SyncGraph",
    "tidegate.graph.builder": "GraphBuilder",
    "tidegate.graph.parse": "parse_graph",
    "tidegate.graph.show": "show_graph",
    "tidegate.graph.plan": "Plan show_plan",
    "tidegate.graph.apply": "apply_plan apply_to_graph",
    "tidegate.building": "build",
    "tidegate.library": (
        "against build_graph check draw explain judge make_inputs prove run run_hostile schedule sync"
    ),
    "tidegate.results": "Arrays CheckResult RunResult",
    "tidegate.scheduling.prefetch": "prefetch",
    "tidegate.pingpong": "schedule_kernel",
    "tidegate.seeds": (
        "BarrierEmitter BarrierPosition BarrierType BasicSplitBarrierEmitter HardwareConstraint LegacyBarrierEmitter "
        "SchedReorderStrategy SchedulingType SyncRequirement TargetConfig TilingConstraint "
        "add_conditional_barriers_to_loop add_shared_memory_barriers find_intersecting_interval_strategy "
        "get_barriers_analysis handle_hazard minimize_placement_strategy populate_barriers_counters reorder_graph "
        "schedule_reordering transform_two_PP_clusters"
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
