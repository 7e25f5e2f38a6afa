"""Wave's own strategies, carried out by Wave itself.

Needs   a trace behind Wave's scheduler, and what Wave's pass is given
Gives   the trace as Wave reorders it and the name of its strategy, or why Wave leaves it alone
Keeps   where accesses that may touch the same bytes would change places, that is said; the trace is then to be put back
Cost    Wave's pass, and a look at each pair of accesses that depend on each other
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from tidegate.hosts.wave.dropin.schedule_kept import Kept
from tidegate.hosts.wave.nodes import PRODUCTS, op_of
from tidegate.hosts.wave.regions import reached_graphs, region_of

WAVES = 8
ATTENTION = "attention"


@dataclass(frozen=True, slots=True)
class ByWave:
    """What Wave did: the name of its strategy, or why it did nothing."""

    name: str = ""
    why_not: str = ""


def reorder_by_wave(
    trace: Any, constraints: Any, scheduling_type: Any, use_global_to_shared: bool, kept: Kept
) -> ByWave:
    """Lets Wave reorder a trace that stands as it was kept."""
    from wave_lang.kernel.wave.schedule_reordering import schedule_reordering

    try:
        schedule_reordering(trace, constraints, scheduling_type, use_global_to_shared)
    except Exception as error:  # Wave asserts what its strategies expect of a loop
        return ByWave(why_not=f"Wave's pass fails: {type(error).__name__}{f': {error}' if str(error) else ''}")
    if kept.is_changed():
        return ByWave(_name_of(trace, scheduling_type, use_global_to_shared))
    return ByWave(why_not=_why_not(trace, constraints, scheduling_type, use_global_to_shared))


def _name_of(trace: Any, scheduling_type: Any, use_global_to_shared: bool) -> str:
    """What Wave calls the strategy that it has just taken: which one follows from what it was given."""
    from wave_lang.kernel.wave.schedule_reordering import SchedReorderStrategy

    if scheduling_type.name == "PREFETCH_ATTENTION":
        return ATTENTION
    if any(op_of(node) == "scaled_mma" for graph in reached_graphs(trace) for node in graph.nodes):
        return str(SchedReorderStrategy.MXFP4_PP_CLUSTER.name)
    if use_global_to_shared:
        return str(SchedReorderStrategy.ASYNC_TWO_PP_CLUSTER.name)
    return str(SchedReorderStrategy.TWO_PP_CLUSTER.name)


def _why_not(trace: Any, constraints: Any, scheduling_type: Any, use_global_to_shared: bool) -> str:
    """What Wave asks for and does not find."""
    from wave_lang.kernel.wave.utils.general_utils import get_hardware_constraint

    kind = scheduling_type.name
    if kind not in ("PREFETCH", "PREFETCH_ATTENTION"):
        return f"Wave reorders loops that were scheduled as PREFETCH or PREFETCH_ATTENTION, not as {kind}"
    loops = [node for graph in reached_graphs(trace) for node in graph.nodes if op_of(node) == "iterate"]
    if not loops:
        return "there is no loop"
    waves = prod(get_hardware_constraint(constraints).waves_per_block)
    bodies = [trace.region_graph.subgraphs[region_of(each)] for each in loops]
    products = [node for body in bodies for node in body.nodes if op_of(node) in PRODUCTS]
    if not products:
        return "no loop with products"
    if waves != WAVES:
        return f"Wave takes {WAVES} waves, and there are {waves}"
    if kind == "PREFETCH_ATTENTION":
        return next(map(_missing, bodies), "") or "Wave finds no new order for the loop"
    return _misfit(products, constraints, use_global_to_shared) or "Wave finds no new order for the loop"


def _missing(body: Any) -> str:
    """Steps of attention that Wave asks for."""
    from wave_lang.kernel.wave.utils.classes import AttentionOperationType

    there = {str(getattr(each, "value", each)) for node in body.nodes if (each := node.meta.get("prefetch_stage"))}
    wanted = [str(each.value) for each in AttentionOperationType.get_all_types()]
    missing = [each for each in wanted if each not in there]
    return f"Wave asks for steps of attention that the loop does not have: {', '.join(missing)}" if missing else ""


def _misfit(products: list[Any], constraints: Any, copies: bool) -> str:
    """Tiles that Wave does not take."""
    from wave_lang.kernel.wave import schedule_reordering as wave

    try:
        tile = wave.get_mma_tile_size(products, constraints)
        bits = wave.get_mma_bitwidth(products[0])
    except Exception:  # several products of different kinds, or operands of two types
        return "Wave cannot tell which tile the products are of"
    if None in tile:
        return "Wave cannot tell which tile the products are of"
    scaled = op_of(products[0]) == "scaled_mma"
    known = (wave.MXFP4PPConfig,) if scaled else (wave.asyncTwoPPConfig if copies else wave.twoPPConfig,)
    for each in known:
        sizes = (each.block_m, each.block_n, each.block_k)
        fits = all(own % other == 0 for own, other in zip(tile, sizes, strict=True))
        if not fits or bits != each.bitwidth or copies != each.use_global_to_shared:
            how = "through registers" if not each.use_global_to_shared else "by copies"
            says = f"Wave takes tiles of multiples of {'×'.join(map(str, sizes))} of {each.bitwidth} bits, {how}"
            mine = "by copies" if copies else "through registers"
            return f"{says}; this one is {'×'.join(map(str, tile))} of {bits} bits, {mine}"
    return ""


def find_inverted(trace: Any, pairs: Iterable[tuple[Any, Any]]) -> str:
    """Two accesses that changed places although they depend on each other, in words; empty if there are none.

    Wave makes new nodes of those that it reorders: each remembers the one that it was made of.
    """
    place: dict[Any, tuple[int, int]] = {}
    for number, graph in enumerate(reached_graphs(trace)):
        for at, node in enumerate(graph.nodes):
            for each in _made_of(node):
                place[each] = (number, at)
    for first, later in pairs:
        if first not in place or later not in place:
            return f"`{first.name}` or `{later.name}` is gone"
        if place[first] > place[later]:
            return f"`{later.name}` would come before `{first.name}`, and both may touch the same bytes"
    return ""


def _made_of(node: Any) -> Iterator[Any]:
    yield node
    of = getattr(getattr(node, "tkw_op", None), "fx_node", None)
    if of is not None and of is not node:
        yield of
