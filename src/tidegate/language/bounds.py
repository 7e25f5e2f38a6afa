"""Indices that leave their buffer, with a witness.

Needs   a well-typed kernel and its facts
Gives   findings TG301 (shared), TG302 (global) and TG304 (slot), and TG020/TG021 about the sizes themselves
Keeps   what is reported is real: sizes, workgroup, wave and trip at which it happens are named. Indices that come from
        memory, and paths under conditions that are not affine, are left to the simulator
Cost    intervals first; isl only where they do not suffice, once for each different question

A carried index is followed through the loop's first trips as long as its values are numbers; intervals answer for all
trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidegate.diag import Finding, Label, Span
from tidegate.index import (
    INDEX_TYPES,
    WAVE,
    WORKGROUP,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    Not,
    constant,
    evaluate,
    holds,
    names,
    show,
    substitute,
    substitute_cond,
    why_not_affine,
)
from tidegate.language import ops
from tidegate.language.facts import Facts
from tidegate.language.ops import Block, Conditional, Iterate, Kernel, Let, Op, Place, Specialize
from tidegate.language.points import Point, Undecided, find_point
from tidegate.language.ranges import ANY, Range, join, range_of
from tidegate.language.types import FLAG, INDEX, Global, Lds, Tile

# Trips of a loop that a carried index is followed through.
MAX_TRIPS = 70


def find_outside(kernel: Kernel, facts: Facts) -> Iterator[Finding]:
    """Findings about sizes, then about each access in the order of the text."""
    bad = tuple(_check_sizes(kernel))
    yield from bad
    if not bad:
        walker = _Walker(kernel, facts)
        yield from walker.block(kernel.body, _start(kernel))


def _check_sizes(kernel: Kernel) -> Iterator[Finding]:
    defaults = {size.name: size.default for size in kernel.sizes}
    order = tuple(defaults)
    affine = [cond for cond in kernel.where if not why_not_affine(cond)]
    positive = [Compare(">=", Name(name), Const(1)) for name in order]
    if find_point([*affine, *positive], order) is None:
        text = ", ".join(show(cond) for cond in kernel.where)
        yield Finding(
            "TG020",
            f"no sizes satisfy the assumptions of `@{kernel.name}`",
            (Label(kernel.at, f"where({text})"),),
            help="drop or mend one of them",
        )
        return
    for cond in kernel.where:
        try:
            good = holds(cond, defaults)
        except (KeyError, ZeroDivisionError):
            good = True  # an unknown name or a division by zero is reported as such
        if not good:
            named = ", ".join(f"{name} = {defaults[name]}" for name in dict.fromkeys(names(cond)) if name in defaults)
            yield Finding(
                "TG021",
                f"the default sizes break the assumption `{show(cond)}`",
                (Label(kernel.at, named),),
                help="change the defaults in `sizes(...)`",
            )


@dataclass(frozen=True, slots=True)
class _Here:
    """What holds at a place: conditions on names, their ranges, and whether all of it is known."""

    conds: tuple[Cond, ...]
    ranges: dict[str, Range]
    order: tuple[str, ...]
    replaced: dict[str, Index]
    known: bool = True

    def under(self, *conds: Cond) -> _Here:
        affine = all(not why_not_affine(cond) for cond in conds)
        return replace(self, conds=(*self.conds, *conds)) if affine else replace(self, known=False)

    def plain(self, index: Index) -> Index:
        """The index with names of `let` replaced by what they stand for."""
        for _ in range(100):
            new = substitute(index, self.replaced)
            if new == index:
                break
            index = new
        return index


def _start(kernel: Kernel) -> _Here:
    ranges: dict[str, Range] = {WAVE: (0, kernel.waves - 1)}
    conds: list[Cond] = [cond for cond in kernel.where if not why_not_affine(cond)]
    for size in kernel.sizes:
        ranges[size.name] = (1, ANY[1])
        conds.append(Compare(">=", Name(size.name), Const(1)))
    for axis, name in enumerate(WORKGROUP):
        extent = kernel.grid[axis] if axis < len(kernel.grid) else Const(1)
        ranges[name] = (0, range_of(extent, ranges)[1] - 1)
        if not why_not_affine(extent):
            conds += [Compare(">=", Name(name), ZERO), Compare("<", Name(name), extent)]
    conds += [Compare(">=", Name(WAVE), ZERO), Compare("<", Name(WAVE), Const(kernel.waves))]
    order = (*(size.name for size in kernel.sizes), *WORKGROUP, WAVE)
    for arg in kernel.args:
        if arg.type == FLAG:
            ranges[arg.name] = (0, 1)
    return _Here(tuple(conds), ranges, order, {})


@dataclass(slots=True)
class _Walker:
    kernel: Kernel
    facts: Facts

    def block(self, block: Block, here: _Here) -> Iterator[Finding]:
        for op in block.ops:
            match op:
                case Let():
                    value = here.plain(op.value)
                    here = replace(here, replaced={**here.replaced, op.result.name: value}) if _small(value) else here
                    here.ranges[op.result.name] = range_of(value, here.ranges)
                case Iterate():
                    yield from self.loop(op, here)
                case Conditional():
                    cond = substitute_cond(op.cond, here.replaced)
                    inexact = self.facts.is_inexact(cond)
                    for arm, test in ((op.then, cond), (op.otherwise, Not(cond))):
                        yield from self.block(arm, replace(here, known=False) if inexact else here.under(test))
                case Specialize():
                    for group in op.groups:
                        waves = (
                            Compare(">=", Name(WAVE), Const(group.first)),
                            Compare("<", Name(WAVE), Const(group.last)),
                        )
                        yield from self.block(group.body, here.under(*waves))
                case _:
                    yield from self.access(op, here)

    def loop(self, op: Iterate, here: _Here) -> Iterator[Finding]:
        counter, lower, upper = op.counter.name, here.plain(op.lower), here.plain(op.upper)
        ranges = dict(here.ranges)
        low, high = range_of(lower, ranges)[0], range_of(upper, ranges)[1]
        ranges[counter] = (low, high - 1)
        _settle(op, ranges)
        step = constant(op.step) or 1
        conds: list[Cond] = [Compare(">=", Name(counter), lower), Compare("<", Name(counter), upper)]
        if step != 1:
            conds.append(Compare("==", Binary("mod", Binary("-", Name(counter), lower), Const(step)), ZERO))
        inside = replace(here, ranges=ranges, order=(*here.order, counter))
        if self.facts.is_inexact(lower) or self.facts.is_inexact(upper):
            inside = replace(inside, known=False)
        else:
            inside = inside.under(*conds)
        findings = tuple(self.block(op.body, inside))
        if findings or not any(each.value.type == INDEX for each in op.carried):
            yield from findings
            return
        yield from self.first_trips(op, inside, lower, step)

    def first_trips(self, op: Iterate, inside: _Here, lower: Index, step: int) -> Iterator[Finding]:
        """The body once more for each of the first trips, as long as carried indices are plain numbers."""
        values = {
            each.value.name: inside.plain(each.init)
            for each in op.carried
            if each.value.type == INDEX and isinstance(each.init, INDEX_TYPES)
        }
        seen: set[tuple[int | None, ...]] = set()
        for trip in range(MAX_TRIPS):
            numbers = {name: constant(value) for name, value in values.items()}
            state = tuple(numbers.values())
            if None in state or state in seen:
                return
            seen.add(state)
            now = Binary("+", lower, Const(trip * step))
            fixed = {name: Const(number) for name, number in numbers.items() if number is not None}
            ranges = {**inside.ranges, **{name: (each.value, each.value) for name, each in fixed.items()}}
            here = replace(inside, replaced={**inside.replaced, **fixed}, ranges=ranges)
            findings = tuple(self.block(op.body, here.under(Compare("==", Name(op.counter.name), now))))
            if findings:
                yield from findings
                return
            values = _next(op, {**fixed, op.counter.name: now}, here)

    def access(self, op: Op, here: _Here) -> Iterator[Finding]:
        for place, tile, bounds in places_of(op):
            base = place.base.type
            if isinstance(base, Lds):
                yield from self.slot(op.at, place, base, here)
            if not isinstance(base, Lds | Global):
                continue
            code = "TG301" if isinstance(base, Lds) else "TG302"
            extents = (1,) * (len(base.shape) - len(tile)) + tile
            for axis, (size, extent) in enumerate(zip(base.shape, extents, strict=True)):
                index = place.index[axis] if axis < len(place.index) else ZERO
                limit = bounds[axis] if bounds else None
                problem = self.outside(index, extent, size, limit, here)
                if problem is not None:
                    yield _explain(code, op.at, place, axis, index, extent, size, problem)
                    break

    def slot(self, at: Span, place: Place, base: Lds, here: _Here) -> Iterator[Finding]:
        point = self.outside(place.slot, 1, base.slots, None, here)
        if point is not None:
            value = _value_at(here.plain(place.slot), point)
            yield Finding(
                "TG304",
                f"`{place.base.name[1:]}` has {base.slots} slot{'s' * (base.slots != 1)}, but slot {value} is used",
                (Label(at, f"with {_witness(point, place.slot, *_trips_of(point, place.slot))}"),),
                (f"slot: `{show(place.slot)}`",),
                f"give the buffer more slots, or take the index `mod {base.slots}`",
            )

    def outside(self, index: Index, extent: int, size: int | str, limit: Index | None, here: _Here) -> Point | None:
        """A point at which the index leaves [0, size), or None if there is none or nobody can say."""
        index = here.plain(index)
        if self.facts.is_inexact(index) or (limit is not None and self.facts.is_inexact(limit)):
            return None
        low, high = range_of(index, here.ranges)
        if low >= 0 and isinstance(size, int) and high + extent <= size:
            return None
        if not here.known or why_not_affine(index) or (limit is not None and why_not_affine(here.plain(limit))):
            return None
        if any(name.startswith("%") and name not in here.order for name in names(index)):
            return None  # a carried index or a result: followed by `first_trips`, or unknown
        room: Index = Name(size) if isinstance(size, str) else Const(size)
        last: Index = Binary("+", index, Const(extent - 1)) if extent > 1 else index
        if limit is not None:
            last = Binary("min", last, Binary("-", here.plain(limit), Const(1)))
        for wrong in (Compare("<", index, ZERO), Compare(">=", last, room)):
            point = find_point((*here.conds, wrong), here.order)
            if point is not None and not isinstance(point, Undecided):
                return point
        return None


def _small(index: Index) -> bool:
    return len(list(names(index))) <= 16


def _settle(op: Iterate, ranges: dict[str, Range]) -> None:
    """Ranges of carried indices: widened by what the body hands on until they hold, or unknown."""
    carried = [
        (each.value.name, each.init, op.body.yields[place])
        for place, each in enumerate(op.carried)
        if each.value.type == INDEX and place < len(op.body.yields)
    ]
    lets = {each.result.name: each.value for each in op.body.ops if isinstance(each, Let)}
    for name, init, _ in carried:
        ranges[name] = range_of(init, ranges) if isinstance(init, INDEX_TYPES) else ANY
    for _ in range(MAX_TRIPS):
        for let, value in lets.items():
            ranges[let] = range_of(value, ranges)
        new = {
            name: join(ranges[name], range_of(next_, ranges) if isinstance(next_, INDEX_TYPES) else ANY)
            for name, _, next_ in carried
        }
        if all(ranges[name] == found for name, found in new.items()):
            return
        ranges.update(new)
    ranges.update({name: ANY for name, _, _ in carried})


def _next(op: Iterate, fixed: dict[str, Index], here: _Here) -> dict[str, Index]:
    """What carried indices are after one trip."""
    lets = {each.result.name: each.value for each in op.body.ops if isinstance(each, Let)}
    found: dict[str, Index] = {}
    for each, operand in zip(op.carried, op.body.yields, strict=False):
        if each.value.type == INDEX and isinstance(operand, INDEX_TYPES):
            value: Index = operand
            for _ in range(20):
                new = substitute(value, {**lets, **fixed})
                if new == value:
                    break
                value = new
            number = constant(value)
            found[each.value.name] = value if number is None else Const(number)
    return found


def places_of(op: Op) -> Iterator[tuple[Place, tuple[int, ...], tuple[Index, ...]]]:
    """Every place that an operation touches, with the shape of the tile there and the bounds that mask it."""
    match op:
        case ops.GlobalRead() | ops.LocalRead() if isinstance(op.result.type, Tile):
            yield op.place, op.result.type.shape, op.bounds
        case ops.GlobalWrite() | ops.LocalWrite() | ops.AtomicAdd() if isinstance(op.tile.type, Tile):
            yield op.place, op.tile.type.shape, op.bounds
        case ops.ReadIndex():
            yield op.place, (), ()
        case ops.View():
            yield op.place, (), ()
        case ops.GatherToLds() | ops.TensorLoadToLds():
            yield op.source, op.tile.shape, op.bounds
            yield op.dest, op.tile.shape, ()
        case ops.LdsToGlobal():
            yield op.source, op.tile.shape, ()
            yield op.dest, op.tile.shape, op.bounds


def _explain(
    code: str, at: Span, place: Place, axis: int, index: Index, extent: int, size: int | str, point: Point
) -> Finding:
    first = _value_at(index, point)
    room = f"{size} = {point[size]}" if isinstance(size, str) else str(size)
    name = place.base.name[1:]
    reach = f"{first}..{first + extent}" if isinstance(first, int) else show(index)
    where = "shared buffer" if code == "TG301" else "global array"
    return Finding(
        code,
        f"`{name}` is accessed outside the {where}",
        (
            Label(
                at,
                f"touches {reach} of {room} along axis {axis}, with {_witness(point, index, str(size), *_trips_of(point, index))}",
            ),
        ),
        (f"index: `{show(index)}`, and the tile reaches {extent} along this axis",),
        "mask the access with `bounds(...)`, or state what sizes are allowed in `where(...)`"
        if code == "TG302"
        else "make the buffer larger or the index smaller",
    )


def _value_at(index: Index, point: Point) -> int | str:
    try:
        return evaluate(index, point)
    except KeyError:
        return show(index)


def _trips_of(point: Point, index: Index) -> Iterator[str]:
    """The counters of the loops around, where an index names something that they carry."""
    if any(name.startswith("%") and name not in point for name in names(index)):
        yield from (name for name in point if name.startswith("%"))


def _witness(point: Point, index: Index, *more: str) -> str:
    """The names that matter, sizes first: `K = 32, wave 3, %k = 0`."""
    used = {*names(index), *more}
    shown = []
    for name, value in point.items():
        if name == WAVE:
            shown.append(f"wave {value}")
        elif name in used:
            shown.append(f"{name} = {value}")
    return ", ".join(shown)
