"""Runs with the sizes that a proof names: there a suspect, or an obligation that does not hold, may show itself.

Needs   a graph, its target, the limits of a judgement, values by name
Gives   what runs with these sizes show
Keeps   what the values leave open is decided in every way, within the limits
Cost    that of the judgement
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.graph.model import SyncGraph
from tidegate.targets import Target

if TYPE_CHECKING:
    from tidegate.simulate.judge import Judgement, Limits


def judge_with(
    graph: SyncGraph, target: Target, limits: Limits, values: Iterable[tuple[str, int | None]]
) -> Judgement | None:
    """None if no size or free number of the program is among the values."""
    from tidegate.simulate.judge import judge

    names = {each.name for each in graph.sizes} | {each.name for each in graph.free}
    sizes = tuple((name, value) for name, value in values if name in names and value is not None)
    if not sizes:
        return None
    return judge(graph, target, replace(limits, sizes=sizes, few=True, enough=0, sample=False))
