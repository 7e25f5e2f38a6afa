"""Indices that leave their buffer, with a witness.

Needs   a well-typed kernel and its facts
Gives   findings TG301 (shared), TG302 (global) and TG304 (slot), and TG020/TG021 about the sizes themselves
Keeps   what is reported is real: sizes, workgroup, wave and trip at which it happens are named. Indices that come from
        memory, masked accesses, and paths under conditions that are not affine or differ between lanes, are left to
        the simulator
Cost    intervals first; isl only where they do not suffice, once for each different question

A carried index is followed through the loop's first trips as long as its values are numbers, and to the loop's end if
they repeat; intervals answer for all trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidegate.diag import NOWHERE, Finding, Label, Span
from tidegate.index import (
    INDEX_TYPES,
    WAVE,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    Not,
    add,
    constant,
    evaluate,
    holds,
    names,
    scale,
    show,
    substitute_cond,
    walk,
    why_not_affine,
)
from tidegate.language import ops
from tidegate.language.carried import follow_carried, settle_ranges
from tidegate.language.facts import Facts, Variation
from tidegate.language.here import Here, at_start
from tidegate.language.ops import (
    Block,
    Conditional,
    Iterate,
    Kernel,
    Let,
    Op,
    Place,
    Specialize,
    blocks_of,
    results_of,
    walk_ops,
)
from tidegate.language.points import Point, Undecided, find_point
from tidegate.language.problems import a
from tidegate.language.ranges import range_of
from tidegate.language.types import INDEX, Global, Lds, strides
from tidegate.language.uses import places_of


def find_outside(kernel: Kernel, facts: Facts) -> Iterator[Finding]:
    """Findings about sizes, then about each access in the order of the text."""
    bad = tuple(_check_sizes(kernel))
    yield from bad
    if not bad:
        walker = _Walker(kernel, facts, _made(kernel))
        yield from walker.block(kernel.body, at_start(kernel))


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
            help="remove or fix one of them",
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


def _made(kernel: Kernel) -> dict[str, Span]:
    """Where every buffer and array comes from."""
    made = {arg.name: kernel.at for arg in kernel.args}
    made.update({value.name: op.at for op in walk_ops(kernel.body) for value in results_of(op)})
    return made


@dataclass(slots=True)
class _Walker:
    kernel: Kernel
    facts: Facts
    made: dict[str, Span]

    def block(self, block: Block, here: Here) -> Iterator[Finding]:
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
                    for arm, test in ((op.then, cond), (op.otherwise, Not(cond))):
                        yield from self.block(arm, self.under(here, test))
                case Specialize():
                    for group in op.groups:
                        waves = (
                            Compare(">=", Name(WAVE), Const(group.first)),
                            Compare("<", Name(WAVE), Const(group.last)),
                        )
                        yield from self.block(group.body, here.under(*waves))
                case ops.Exit():
                    return
                case _:
                    yield from self.access(op, here)
            here = self.after(op, here)

    def under(self, here: Here, *conds: Cond) -> Here:
        """What holds under conditions as well; where one cannot be followed, nothing is known any more."""
        return here.under(*conds) if all(self.follows(cond, here) for cond in conds) else replace(here, known=False)

    def follows(self, cond: Cond, here: Here) -> bool:
        """Whether the condition is about sizes, waves, counters and arguments alone: all that they allow can happen."""
        if self.facts.is_inexact(cond) or why_not_affine(cond) or self.facts.of(cond) == Variation.DIVERGENT:
            return False
        known = {*here.order, *(arg.name for arg in self.kernel.args)}
        return all(name in known for name in names(cond) if name.startswith("%"))

    def after(self, op: Op, here: Here) -> Here:
        """What holds after a region that some waves do not leave."""
        ends = [_may_end(block) for block in blocks_of(op)]
        if not any(ends):
            return here
        if isinstance(op, Conditional) and not all(ends):
            cond = substitute_cond(op.cond, here.replaced)
            if any(isinstance(each, ops.Exit) for each in (op.then if ends[0] else op.otherwise).ops):
                return self.under(here, Not(cond) if ends[0] else cond)
        return replace(here, known=False)

    def loop(self, op: Iterate, here: Here) -> Iterator[Finding]:
        counter, lower, upper = op.counter.name, here.plain(op.lower), here.plain(op.upper)
        ranges = dict(here.ranges)
        low, high = range_of(lower, ranges)[0], range_of(upper, ranges)[1]
        ranges[counter] = (low, high - 1)
        settle_ranges(op, ranges)
        step = constant(op.step) or 1
        conds: list[Cond] = [Compare(">=", Name(counter), lower), Compare("<", Name(counter), upper)]
        if step != 1:
            conds.append(Compare("==", Binary("mod", Binary("-", Name(counter), lower), Const(step)), ZERO))
        inside = replace(here, ranges=ranges, order=(*here.order, counter))
        inside = replace(inside, known=False) if _may_end(op.body) else self.under(inside, *conds)
        findings = tuple(self.block(op.body, inside))
        if findings or not any(each.value.type == INDEX for each in op.carried):
            yield from findings
            return
        yield from self.first_trips(op, inside, lower, step)

    def first_trips(self, op: Iterate, inside: Here, lower: Index, step: int) -> Iterator[Finding]:
        """The body once more for each of the first trips, as long as carried indices are plain numbers."""
        values = {
            each.value.name: inside.plain(each.init)
            for each in op.carried
            if each.value.type == INDEX and isinstance(each.init, INDEX_TYPES)
        }
        states, period = follow_carried(op, values, lower, step)
        for trip, fixed in enumerate(states):
            first, counter = Binary("+", lower, Const(trip * step)), Name(op.counter.name)
            when: list[Cond] = [Compare("==", counter, first)]
            if period and trip >= len(states) - period:  # the same again every `period` trips
                since = Binary("mod", Binary("-", counter, first), Const(period * step))
                when = [Compare(">=", counter, first), Compare("==", since, ZERO)]
            ranges = {**inside.ranges, **{name: range_of(value, {}) for name, value in fixed.items()}}
            here = replace(inside, replaced={**inside.replaced, **fixed}, ranges=ranges)
            here = self.under(here, *when)
            if here.known and find_point(here.conds, here.order) is None:
                return  # the loop has ended before
            findings = tuple(self.block(op.body, here))
            if findings:
                yield from findings
                return

    def access(self, op: Op, around: Here) -> Iterator[Finding]:
        found = False
        for place, tile, bounds in places_of(op):
            base = place.base.type
            if not isinstance(base, Lds | Global) or getattr(op, "mask", None) is not None:
                continue  # a mask may leave nothing of the access
            at = [place.index[axis] if axis < len(place.index) else ZERO for axis in range(len(base.shape))]
            # Nothing is touched unless each axis has an element below its bound.
            here = self.under(
                around, *(Compare("<", around.plain(x), around.plain(y)) for x, y in zip(at, bounds, strict=False))
            )
            if isinstance(base, Lds):
                for finding in self.slot(op.at, place, base, here):
                    yield finding
                    found = True
            extents = (1,) * (len(base.shape) - len(tile)) + tile
            for axis, (size, extent) in enumerate(zip(base.shape, extents, strict=True)):
                index = at[axis]
                limit = bounds[axis] if bounds else None
                point = self.outside(index, extent, size, limit, here)
                if point is not None:
                    yield self.explain(op.at, place, axis, index, extent, size, limit, here, point)
                    found = True
                    break
        if isinstance(op, ops.View) and not found:
            yield from self.view(op, around)

    def view(self, op: ops.View, here: Here) -> Iterator[Finding]:
        """A view starts inside its buffer; it must end there too."""
        base, type_ = op.place.base.type, op.result.type
        if not isinstance(base, Lds) or not isinstance(type_, Lds):
            return
        start: Index = scale(op.place.slot, base.slot_bytes)
        for index, step in zip(op.place.index, strides(base.shape, base.dtype.bytes), strict=False):
            start = add(start, scale(index, step))
        point = self.outside(start, type_.bytes, base.bytes, None, here)
        if point is not None:
            first = _value_at(here.plain(start), point)
            reach = f"{first}..{first + type_.bytes}" if isinstance(first, int) else f"{type_.bytes} from {first} on"
            yield Finding(
                "TG301",
                f"the view `{op.result.name[1:]}` ends outside `{op.place.base.name[1:]}`",
                (
                    Label(op.at, f"bytes {reach} of {base.bytes}, with {_witness(point, here.plain(start))}"),
                    *self.base(op.place),
                ),
                help="use a smaller view, or start it earlier",
            )

    def base(self, place: Place) -> Iterator[Label]:
        made = self.made.get(place.base.name, NOWHERE)
        if made.line:
            yield Label(made, f"`{place.base.name}` is {a(place.base.type)}")

    def explain(
        self,
        at: Span,
        place: Place,
        axis: int,
        index: Index,
        extent: int,
        size: int | str,
        limit: Index | None,
        here: Here,
        point: Point,
    ) -> Finding:
        is_shared = isinstance(place.base.type, Lds)
        room = f"{size} = {point[size]}" if isinstance(size, str) else str(size)
        first, stop = (
            _value_at(here.plain(index), point),
            None if limit is None else _value_at(here.plain(limit), point),
        )
        reach = show(index)
        if isinstance(first, int):
            end = first + extent
            reach = f"{first}..{max(first, min(end, stop)) if isinstance(stop, int) else end}"
        witness = _witness(point, index, str(size), *_trips_of(point, index))
        notes = [f"index: `{show(index)}`, and the tile reaches {extent} along this axis"]
        help = "make the buffer larger or the index smaller"
        if limit is not None:
            notes.append(f"bounds: `{show(limit)}` along this axis")
            help = "bounds mask the elements beyond them: they must not exceed the array"
        elif not is_shared:
            help = "mask the access with `bounds(...)`, or state what sizes are allowed in `where(...)`"
        return Finding(
            "TG301" if is_shared else "TG302",
            f"`{place.base.name[1:]}` is accessed outside the {'shared buffer' if is_shared else 'global array'}",
            (Label(at, f"touches {reach} of {room} along axis {axis}, with {witness}"), *self.base(place)),
            tuple(notes),
            help,
        )

    def slot(self, at: Span, place: Place, base: Lds, here: Here) -> Iterator[Finding]:
        point = self.outside(place.slot, 1, base.slots, None, here)
        if point is not None:
            value = _value_at(here.plain(place.slot), point)
            yield Finding(
                "TG304",
                f"`{place.base.name[1:]}` has {base.slots} slot{'s' * (base.slots != 1)}, but slot {value} is used",
                (Label(at, f"with {_witness(point, place.slot, *_trips_of(point, place.slot))}"), *self.base(place)),
                (f"slot: `{show(place.slot)}`",),
                f"give the buffer more slots, or take the index `mod {base.slots}`",
            )

    def outside(self, index: Index, extent: int, size: int | str, limit: Index | None, here: Here) -> Point | None:
        """A point at which the index leaves [0, size), or None if there is none or nobody can say."""
        index = here.plain(index)
        if self.facts.is_inexact(index) or self.facts.of(index) == Variation.DIVERGENT:
            return None
        low, high = range_of(index, here.ranges)
        if low >= 0 and isinstance(size, int) and high + extent <= size:
            return None
        if not here.known or why_not_affine(index):
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


def _may_end(block: Block) -> bool:
    return any(isinstance(op, ops.Exit) for op in walk_ops(block))


def _small(index: Index) -> bool:
    """Few names and few operations: thousands of `let`, each one more than the last, would nest as deep."""
    return len(names(index)) <= 16 and sum(1 for _ in walk(index)) <= 128


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
