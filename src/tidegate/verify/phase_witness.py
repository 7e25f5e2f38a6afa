"""Where an obligation on barrier objects first does not hold.

Needs   the moments at which it does not, as an integer set
Gives   the smallest sizes with which it shows, and the first such moment in words
Keeps   nothing is claimed about a run: whether waves hang or race there, the simulator says
Cost    one least point for each size

    a wait for `%empty` whose parity is not that of the phase it comes to: wave 0, iteration 300
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import islpy as isl

from tidegate.graph.show import show_action
from tidegate.verify.phase_generations import least, named_values
from tidegate.verify.phase_model import Instant, Outside
from tidegate.verify.phase_relations import Relations
from tidegate.verify.phase_space import Space, context, union


@dataclass(frozen=True, slots=True)
class Broken:
    """An obligation that does not hold, in words; `moments`: where not, as an isl set, if that is known."""

    says: str
    moments: Any = None

    def outside(self, relations: Relations) -> Outside:
        try:
            return self.shown(relations)
        except isl.Error:  # that it does not hold is known already
            return Outside(self.says)

    def shown(self, relations: Relations) -> Outside:
        moments = self.moments
        if moments is not None:
            moments = moments.intersect_params(relations.known)
        if moments is None or moments.is_empty():
            return Outside(self.says)
        values = least(union(each.params() for each in _sets(moments)))
        return Outside(self.says + _first(relations, moments, values), named_values(relations.space, values))


def _first(relations: Relations, moments: Any, values: dict[str, int]) -> str:
    """The earliest of these moments, by the sum of its iterations, with these sizes."""
    space, found = relations.space, []
    instants = {space.name(each): each for each in _instants(relations)}
    for points in _sets(moments):
        moment = instants.get(points.get_tuple_name() or "")
        fixed = _with(points, values)
        if moment is None or fixed.is_empty():
            continue
        point = fixed.lexmin().sample_point()
        count = fixed.dim(isl.dim_type.set)
        at = tuple(int(point.get_coordinate_val(isl.dim_type.set, place).to_python()) for place in range(count))
        found.append((sum(at), at, moment.node, moment))
    return _said(space, *min(found, key=lambda each: each[:3])[1:]) if found else ""


def _said(space: Space, at: tuple[int, ...], node: int, moment: Instant) -> str:
    point = space.flow.point(node)
    place = f"line {point.at.line}" if point.at.line else f"`{show_action(point.action)}`"
    numbers = ", ".join(map(str, at))
    when = f", iteration {numbers}" if len(at) == 1 else f", iterations {numbers}" if at else ""
    return f": wave {moment.role.wave}, {place}{when}"


def _instants(relations: Relations) -> list[Instant]:
    return [Instant(each.role, each.node, end) for each in relations.statements for end in (0, 1)]


def _with(points: Any, values: dict[str, int]) -> Any:
    for place in range(points.dim(isl.dim_type.param)):
        name = points.get_dim_name(isl.dim_type.param, place)
        if name in values:
            points = points.fix_val(isl.dim_type.param, place, isl.Val.int_from_si(context(), values[name]))
    return points


def _sets(moments: Any) -> list[Any]:
    if isinstance(moments, isl.Set):
        return [moments]
    found = moments.get_set_list()
    return [found.get_at(place) for place in range(found.n_set())]
