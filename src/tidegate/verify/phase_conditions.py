"""What isl says of iterations, as conditions of a program, and the other way round.

Needs   relations between the iterations of two accesses; what a search back from an arrival has met
Gives   for each part of a relation a set of conditions; for what was met a relation
Keeps   nothing gets less: a condition that cannot be said is left out
Cost    linear in the constraints
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import islpy as isl

from tidegate.index import ZERO, Binary, Compare, Cond, Const, Index, Logic, Name, names, why_not_affine
from tidegate.language.points import IslText
from tidegate.verify.paths import WILD, Paths, value_of
from tidegate.verify.phase_model import Instant
from tidegate.verify.phase_space import Space
from tidegate.verify.search import Met


def ways_of(space: Space, relation: Any, first: Sequence[str], second: Sequence[str]) -> Iterator[list[Cond]]:
    """The parts of a relation as conditions on iterations that are called so."""
    for part in relation.wrap().flatten().compute_divs().get_basic_sets():
        yield list(_conditions(space, part, [*first, *second]))


def _conditions(space: Space, part: Any, inner: Sequence[str]) -> Iterator[Cond]:
    by_param: dict[str, Index | None] = {}
    for what, param in space.params.items():
        opaque = isinstance(what, str) and what in space.footprints.opaques
        by_param[param] = Name(f"{what}@" if opaque else what) if isinstance(what, str) else None
    values: list[Index | None] = [
        by_param.get(part.get_dim_name(isl.dim_type.param, place)) for place in range(part.dim(isl.dim_type.param))
    ]
    values += [Name(each) for each in inner]
    count = part.dim(isl.dim_type.div)
    divs: list[Index | None] = []
    local = part.get_local_space()
    for place in range(count):
        found = local.get_div(place)
        divs.append(None if found.is_nan() else _divided(found, [*values, *divs], count))
    for constraint in part.get_constraints():
        terms = [constraint.get_coefficient_val(kind, place) for kind, place in _places(part, count)]
        total = _sum(terms, [*values, *divs], constraint.get_constant_val())
        if total is not None:
            yield Compare("==" if constraint.is_equality() else ">=", total, ZERO)


def _places(part: Any, count: int) -> list[tuple[Any, int]]:
    kinds = (isl.dim_type.param, isl.dim_type.set)
    found = [(kind, place) for kind in kinds for place in range(part.dim(kind))]
    return [*found, *((isl.dim_type.div, place) for place in range(count))]


def _divided(quotient: Any, values: Sequence[Index | None], count: int) -> Index | None:
    """The greatest integer below a linear function of dimensions and earlier quotients."""
    whole = quotient.get_denominator_val()
    scaled = quotient.scale_val(whole)
    kinds = (isl.dim_type.param, isl.dim_type.in_)
    places = [(kind, place) for kind in kinds for place in range(scaled.dim(kind))]
    places += [(isl.dim_type.div, place) for place in range(count)]
    terms = [scaled.get_coefficient_val(kind, place) for kind, place in places]
    if any(not each.is_zero() for each in terms[len(values) :]):
        return None
    total = _sum(terms[: len(values)], values, scaled.get_constant_val())
    return None if total is None else Binary("//", total, Const(int(whole.to_python())))


def _sum(terms: Sequence[Any], values: Sequence[Index | None], constant: Any) -> Index | None:
    total: Index = Const(int(constant.to_python()))
    for term, value in zip(terms, values, strict=True):
        if term.is_zero():
            continue
        if value is None:
            return None
        factor = int(term.to_python())
        total = Binary("+", total, value if factor == 1 else Binary("*", value, Const(factor)))
    return total


def one_of(name: str, numbers: Sequence[int]) -> Cond:
    """That a name is one of these numbers."""
    runs: list[tuple[int, int]] = []
    for each in sorted(numbers):
        if runs and runs[-1][1] == each - 1:
            runs[-1] = (runs[-1][0], each)
        else:
            runs.append((each, each))
    parts = [
        Logic("and", Compare(">=", Name(name), Const(low)), Compare("<=", Name(name), Const(high)))
        for low, high in runs
    ]
    return reduce(lambda left, right: Logic("or", left, right), parts)


def relation_of(space: Space, paths: Paths, met: Met, start: Instant) -> Any:
    """From the iterations of what was met to those where the search began."""
    one = Instant(start.role, met.node)
    own = {f"#{loop}": f"j{place}" for place, loop in enumerate(paths.around[start.node])}
    found = None
    for way in met.ways:
        conds = [paths.book.conds[each] for each in way]
        part = space.read_map(_text(space, own, met, conds, one, start))
        found = part if found is None else found.union(part)
    return found


def _text(space: Space, own: Mapping[str, str], met: Met, conds: Sequence[Cond], one: Instant, start: Instant) -> str:
    hidden: dict[str, str] = {}
    for name in (*(base for base, _ in met.iterations), *(name for cond in conds for name in names(cond))):
        if name[0] in "#<" and name != WILD and name not in own and "@" not in name:
            hidden.setdefault(name, f"b{len(hidden)}")
    variables = _Parameters(space, {**own, **hidden})
    text = IslText(variables)
    body = [f"{each} >= 0" for each in hidden.values()]
    steps = ((place, step) for place, step in enumerate(met.iterations) if step[0] != WILD)
    body += [f"i{place} = {text.index(value_of(step))}" for place, step in steps]
    for cond in conds:
        if not why_not_affine(cond) and all(variables.has(name) for name in names(cond)):
            body.append(f"({text.cond(cond)})")
    bound = [*hidden.values(), *text.hidden]
    exists = f"exists {', '.join(bound)} : " if bound else ""
    inside = " and ".join([*(f"({each})" for each in text.defined), *body]) or "1 = 1"
    return f"{{ {space.named(one)} -> {space.named(start, 'j')} : {exists}{inside} }}"


class _Parameters(dict[str, str]):
    """isl's names of iterations, and parameters for what has one value for the whole run."""

    def __init__(self, space: Space, own: Mapping[str, str]) -> None:
        super().__init__(own)
        self.space = space

    def has(self, name: str) -> bool:
        return name in self or (name[0] not in "#<" and "@" not in name and self.space.is_fixed(name))

    def __missing__(self, name: str) -> str:
        return self.space.param(name)
