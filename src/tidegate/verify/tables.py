"""Places and conditions that are not affine, tried for all waves and for all iterations that differ.

Needs   where two accesses start, over the names of a question, with their boxes; ranges of names
Gives   a `Table`: for which iterations some pair of waves meets, as conditions that isl can join with others
Keeps   exact: every wave, and every value or remainder of every other name that matters, is tried. Where names have too
        many values there is no table
Cost    the product of the sizes of its axes, at most `MOST_POINTS`, in NumPy

    %a + #0 mod 3 * 4096 + (wave xor #0) * 128      axes u', v', and #0 modulo 32; left to isl: #0 mod 3 * 4096

`xor` with a number below 2**n changes the lowest n bits only: the others are left to isl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import gcd, lcm, prod
from typing import TYPE_CHECKING, Any

from tidegate.footprint.arithmetic import ANY, Arithmetic, Range, Sum
from tidegate.footprint.sequences import period_in
from tidegate.index import Binary, Cond, Const, Index, Name, evaluate, names, why_not_affine
from tidegate.verify.arrays import divides_by_zero, divisors, fits, is_true, such_that, value_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Truths = NDArray[Any]

MOST_POINTS = 1 << 21
MOST_VALUES = 64  # of one name
MOST_SHIFTS = 32  # distances of what is left to isl
MOST_KEPT, SMALL = 2_000, 1 << 12  # tables that are kept, and points of one


@dataclass(frozen=True, slots=True)
class Axis:
    """The values of a name from `low` on; or, with `rest`, all remainders modulo `size`."""

    name: str
    low: int
    size: int
    rest: bool

    @property
    def index(self) -> Index:
        return Binary("mod", Name(self.name), Const(self.size)) if self.rest else Name(self.name)


@dataclass(frozen=True, slots=True)
class Box:
    """Where an access starts, over the names of the question; its steps, and how many bytes lie at each."""

    start: Index
    steps: tuple[tuple[int, int], ...]
    width: int

    @property
    def offsets(self) -> list[int]:
        return [
            sum(way) for way in product(*([step * stride for step in range(count)] for count, stride in self.steps))
        ]


class RangesOf(dict[str, Range]):
    """Ranges that a function gives."""

    def __init__(self, of: Callable[[str], Range]) -> None:
        super().__init__()
        self.of = of

    def get(self, name: str, default: Range = ANY) -> Range:  # type: ignore[override]
        return self.of(name)


class Table:
    """Which waves meet, for each value of the other axes and each distance of what is left to isl.

    The waves are the first two axes. `apart`: the distance at which two accesses of one wave
    keep to their lanes, and do not count.
    """

    def __init__(
        self, axes: Sequence[Axis], boxes: tuple[Box, Box], parts: _Parts, may_pair: Cond, apart: int | None
    ) -> None:
        self.axes, self.boxes, self.parts = tuple(axes), boxes, parts
        self.env = {axis.name: _along(axis, place, len(axes)) for place, axis in enumerate(axes)}
        self.by_value = {axis.name for axis in axes if not axis.rest}
        self.shifts = self.overlaps(may_pair, apart, tuple(axis.size for axis in axes))
        self.held: dict[Cond, Truths] = {}

    @property
    def is_small(self) -> bool:
        """Whether it may be kept for as long as somebody may ask again."""
        return prod(axis.size for axis in self.axes) <= SMALL

    @property
    def points(self) -> int:
        """How much memory it takes."""
        return prod(axis.size for axis in self.axes) * len(self.shifts)

    def overlaps(self, may_pair: Cond, apart: int | None, shape: tuple[int, ...]) -> dict[int, Truths]:
        import numpy as np

        here = self.parts.distance(self.env)
        # A number that cannot be computed may be any.
        unknown = divides_by_zero([box.start for box in self.boxes], self.env)
        pairs = is_true(may_pair, self.env)
        found: dict[int, Truths] = {}
        for shift in self.parts.shifts(self.boxes, here):
            distance = np.asarray(here + shift)
            meets = _overlaps(distance, *self.boxes)
            if apart is not None:
                meets = meets & (distance != apart)
            found[shift] = np.broadcast_to((meets | unknown) & pairs, shape)
        return found

    def ask(self, conds: Iterable[Cond]) -> tuple[list[Cond], bool] | None:
        """The conditions with what is known of the waves put in; whether nothing was lost; None if they never meet."""
        mine, others, exact = self.sorted(conds)
        found: list[Cond] = []
        for shift, meets in self.shifts.items():
            where = self.filtered(meets, mine).any(axis=(0, 1))
            there = such_that(where, [axis.index for axis in self.axes[2:]], [axis.low for axis in self.axes[2:]])
            if there is not None:
                found.append(_both(there, self.parts.is_apart(shift)))
        if not found:
            return None
        return [*others, reduce(_either, found)], exact

    def sorted(self, conds: Iterable[Cond]) -> tuple[list[Cond], list[Cond], bool]:
        """Conditions that the table decides, those that are left to isl, and whether all are one of these."""
        mine: list[Cond] = []
        others: list[Cond] = []
        exact = True
        for cond in conds:
            used = set(names(cond))
            affine = not why_not_affine(cond)
            with_waves = not (affine and used.isdisjoint(name.name for name in self.axes[:2]))
            if used <= self.by_value and with_waves and fits(cond, self.env):
                mine.append(cond)
            elif affine:
                others.append(cond)
                exact = exact and used.isdisjoint(axis.name for axis in self.axes[:2])
            else:
                exact = False
        return mine, others, exact

    def filtered(self, meets: Truths, conds: Iterable[Cond]) -> Truths:
        for cond in conds:
            if cond not in self.held:
                self.held[cond] = is_true(cond, self.env) | divides_by_zero([cond], self.env)
            meets = meets & self.held[cond]
        return meets

    def witness(self, point: Mapping[str, int], conds: Iterable[Cond]) -> dict[str, int]:
        """Waves that meet at a point which isl has found, and a byte that both touch; nothing if a value is missing."""
        import numpy as np

        mine, _, _ = self.sorted(conds)
        shift = self.parts.shift_at(point)
        if shift not in self.shifts:
            return {}
        meets = self.filtered(self.shifts[shift], mine)
        for place, axis in enumerate(self.axes):
            if axis.name in point and place > 1:
                at = point[axis.name] % axis.size if axis.rest else point[axis.name] - axis.low
                if not 0 <= at < axis.size:
                    return {}
                meets = np.take(meets, [at], axis=place)
        where = np.argwhere(meets)
        if not len(where):
            return {}
        u, v = (self.axes[place].low + int(where[0][place]) for place in (0, 1))
        return {self.axes[0].name: u, self.axes[1].name: v}


@dataclass(frozen=True, slots=True)
class _Parts:
    """How far y starts behind x: a part that the axes decide, and one that is left to isl."""

    decided: Sum
    left: Sum
    math: Arithmetic

    def distance(self, env: Mapping[str, Any]) -> Any:
        return value_in(self.math.index(self.decided), env)

    def is_apart(self, shift: int) -> Cond:
        return self.math.compare("==", self.math.index(self.left), Const(shift))

    def shift_at(self, point: Mapping[str, int]) -> int:
        left = self.math.index(self.left)
        return evaluate(left, {name: point.get(name, 0) for name in names(left)})

    def shifts(self, boxes: tuple[Box, Box], here: Any) -> list[int]:
        """The distances of the part that is left at which boxes can overlap, so far apart by the other one."""
        step = gcd(*self.left[0].values())
        if not step:
            return [0]
        x, y = boxes
        low = min(x.offsets) - max(y.offsets) - y.width + 1 - int(here.max() if hasattr(here, "max") else here)
        high = max(x.offsets) - min(y.offsets) + x.width - 1 - int(here.min() if hasattr(here, "min") else here)
        least, most = self.math.bounds_of(self.left)
        low, high = max(low, low if least is None else least), min(high, high if most is None else most)
        return [each * step for each in range(-(-low // step), high // step + 1)]


def normal_start(start: Index, ranges: Callable[[str], Range]) -> Index:
    """Where a box starts, with `xor` kept to the bits that it changes."""
    math = Arithmetic(RangesOf(ranges))
    return _low_bits(math.put(start, {}), math)


def make_table(
    boxes: tuple[Box, Box],
    starts: tuple[Index, Index],
    conds: Sequence[Cond],
    waves: tuple[str, str],
    ranges: Callable[[str], Range],
    may_pair: Cond,
    apart: int | None,
) -> Table | None:
    """The table of a question under some conditions; None if too much would have to be tried.

    `starts`: those of the boxes, as `normal_start` gives them. Small tables are kept for changed
    programs, which ask for them again.
    """
    used = dict.fromkeys(name for expr in (*starts, *conds) for name in names(expr))
    key = (boxes, starts, tuple(conds), waves, tuple((name, ranges(name)) for name in (*used, *waves)), may_pair, apart)
    if key in _KEPT:
        return _KEPT[key]
    found = _make_table(boxes, starts, conds, waves, ranges, may_pair, apart)
    if found is None or found.is_small:
        if len(_KEPT) >= MOST_KEPT:
            _KEPT.clear()
        _KEPT[key] = found
    return found


_KEPT: dict[object, Table | None] = {}


def forget_tables() -> None:
    """For those who change a rule: what was tabulated under another one must not answer."""
    _KEPT.clear()


def always(
    waves: tuple[str, str], index: Index, conds: Sequence[Cond], ranges: Callable[[str], Range], room: tuple[int, int]
) -> bool:
    """Whether an index lies in a room, both ends included, wherever conditions hold, tried for all values of names."""
    axes = _axes_of(waves, [index], ranges)
    if axes is None:
        return False
    env = {axis.name: _along(axis, place, len(axes)) for place, axis in enumerate(axes)}
    if not fits(index, env) or not all(fits(each, env) for each in divisors([index])):
        return False
    value = value_in(index, env)
    outside = (value < room[0]) | (value > room[1]) | divides_by_zero([index], env)
    by_value = {axis.name for axis in axes if not axis.rest}
    for cond in conds:
        if set(names(cond)) <= by_value and fits(cond, env):
            outside = outside & (is_true(cond, env) | divides_by_zero([cond], env))
    return not outside.any()


def _make_table(
    boxes: tuple[Box, Box],
    starts: tuple[Index, Index],
    conds: Sequence[Cond],
    waves: tuple[str, str],
    ranges: Callable[[str], Range],
    may_pair: Cond,
    apart: int | None,
) -> Table | None:
    math = Arithmetic(RangesOf(ranges))
    terms, rest = math.sum(math.binary("-", starts[1], starts[0]))
    # By what a place divides is tried even where the rest of it is the same on both sides and falls out.
    divided = [*divisors([box.start for box in boxes])]
    axes = _axes(waves, [*(atom for atom in terms if why_not_affine(atom)), *divided], conds, ranges)
    if axes is None:
        return None
    decided = {atom: factor for atom, factor in terms.items() if _is_decided(atom, axes)}
    left = {atom: factor for atom, factor in terms.items() if atom not in decided}
    if any(why_not_affine(atom) or not set(waves).isdisjoint(names(atom)) for atom in left):
        return None
    parts = _Parts((decided, rest), (left, 0), math)
    env = {axis.name: _along(axis, place, len(axes)) for place, axis in enumerate(axes)}
    computed = (math.index(parts.decided), may_pair, *divided)
    if not all(fits(expr, env) for expr in computed) or len(parts.shifts(boxes, parts.distance(env))) > MOST_SHIFTS:
        return None
    return Table(axes, boxes, parts, may_pair, apart)


def _axes(
    waves: tuple[str, str], atoms: Sequence[Index], conds: Sequence[Cond], ranges: Callable[[str], Range]
) -> list[Axis] | None:
    """The axes that these parts of places need; conditions are tried as well if that does not become too much."""
    odd: list[Index | Cond] = [*atoms]
    found = _axes_of(waves, odd, ranges)
    for cond in conds if found is not None else ():
        if why_not_affine(cond) or not set(waves).isdisjoint(names(cond)):
            more = _axes_of(waves, [*odd, cond], ranges)
            if more is not None:
                odd.append(cond)
                found = more
    return found


def _axes_of(
    waves: tuple[str, str], exprs: Sequence[Index | Cond], ranges: Callable[[str], Range]
) -> list[Axis] | None:
    used = dict.fromkeys([*waves, *(name for expr in exprs for name in names(expr))])
    axes = [_axis(name, exprs, ranges(name)) for name in used]
    known = [axis for axis in axes if axis is not None]
    return known if len(known) == len(axes) and prod(axis.size for axis in known) <= MOST_POINTS else None


def _axis(name: str, exprs: Iterable[Index | Cond], known: Range) -> Axis | None:
    low, high = known
    if low is not None and high is not None and high - low < MOST_VALUES:
        return Axis(name, low, high - low + 1, False)
    periods = [period_in(expr, name) for expr in exprs if name in names(expr)]
    size = lcm(*(each or 0 for each in periods))
    return Axis(name, 0, size, True) if 0 < size <= MOST_VALUES else None


def _is_decided(atom: Index, axes: Sequence[Axis]) -> bool:
    by_name = {axis.name: axis for axis in axes}
    for name in names(atom):
        axis = by_name.get(name)
        if axis is None or (axis.rest and axis.size % (period_in(atom, name) or axis.size + 1)):
            return False
    return True


def _low_bits(index: Index, math: Arithmetic) -> Index:
    """`b xor a`, where a lies below 2**n, as the bits of b from n on and the others `xor` a."""
    match index:
        case Binary("xor", left, right):
            left, right = _low_bits(left, math), _low_bits(right, math)
            for one, other in ((left, right), (right, left)):
                low, high = math.bounds(one)
                if low is None or high is None or low < 0:
                    continue
                size = 1 << high.bit_length()
                above = math.binary("*", math.divide(other, size), Const(size))
                return math.binary("+", above, math.xor(one, math.mod(other, size)))
            return Binary("xor", left, right)
        case Binary(op, left, right):
            return math.binary(op, _low_bits(left, math), _low_bits(right, math))
    return index


def _along(axis: Axis, place: int, count: int) -> Any:
    import numpy as np

    return np.arange(axis.low, axis.low + axis.size).reshape([-1 if each == place else 1 for each in range(count)])


def _overlaps(distance: Any, x: Box, y: Box) -> Any:
    """Whether boxes share a byte if y starts so far behind x: some steps lie less than a width apart."""
    import numpy as np

    apart = np.unique(np.subtract.outer(np.array(x.offsets), np.array(y.offsets)))
    low, high = int(distance.min()), int(distance.max())
    few = high - low < max(distance.size, SMALL)  # then each is looked at once: to sort them takes longer than the rest
    values, where = (np.arange(low, high + 1), distance - low) if few else (distance, ...)
    place = np.searchsorted(apart, values - x.width, side="right")
    meets = (place < len(apart)) & (apart[np.minimum(place, len(apart) - 1)] < values + y.width)
    return meets[where]


def _both(one: Cond, other: Cond) -> Cond:
    from tidegate.footprint.arithmetic import both

    return both(one, other)


def _either(one: Cond, other: Cond) -> Cond:
    from tidegate.footprint.arithmetic import logic

    return logic("or", one, other)
