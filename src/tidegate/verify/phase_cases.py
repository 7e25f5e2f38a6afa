"""How many rounds a tile may have, in cases that are decided one by one.

Needs   opaque numbers that gain as much in every iteration; how often loops run
Gives   for each case its `Counting`
Keeps   the cases cover all numbers of rounds; in each, a number is what is said of it
Cost    a few questions to isl for each number
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.footprint.model import CarriedNumber, Footprints
from tidegate.index import Const, Index, Name, names
from tidegate.verify.phase_counting import UNIT, Counting, RoundLine
from tidegate.verify.phase_space import Space

MOST_FACTOR = 4  # tiles that a number gains in one iteration
MOST_CROSSED = 2  # tiles that one step of a ring crosses; with fewer rounds, each number of them is a case


def cases_of(space: Space, footprints: Footprints, steps: int) -> list[Counting]:
    """That for all large numbers first; none where nothing is carried. `steps`: of a ring."""
    used = {name for use in footprints.uses.values() for each in (use.slot, use.parity) if each for name in names(each)}
    carried = {name: each for name, each in footprints.carried.items() if name in used}
    for unit in _units(space, footprints, carried.values()):
        found = {name: _line(space, unit, each) for name, each in carried.items()}
        lines = {name: each for name, each in found.items() if each is not None}
        if len(lines) == len(carried):
            break
    else:
        return []
    least = -(-steps // MOST_CROSSED)
    math, size = space.paths.math, unit if isinstance(unit, Name) else Name(UNIT)
    cases = [Counting(unit, size, least, -(-steps // least) + 1, math, lines, {})]
    for number in range(least):
        values = {name: _value(space, unit, number, each) for name, each in carried.items()}
        kept = {name: each for name, each in values.items() if each is not None}
        cases.append(Counting(unit, Const(number), number, 0, math, lines, kept))
    return cases


def _units(space: Space, footprints: Footprints, carried: Iterable[CarriedNumber]) -> Iterator[Index]:
    """What a tile's number of rounds may be: how often loops inside run, and what is gained."""
    found: dict[Index, None] = {}
    for each in carried:
        inner = (number for number, loop in enumerate(footprints.flow.loops) if loop.parent == each.loop)
        found.update(dict.fromkeys(trips for loop in inner if (trips := footprints.trips[loop]) is not None))
    found.update(dict.fromkeys(each.step for each in carried))
    for unit in found:
        if not any(name.startswith("#") for name in names(unit)) and _is_counted(space, unit):
            yield unit


def _is_counted(space: Space, unit: Index) -> bool:
    """Whether it is a number that is never negative: the cases begin with 0."""
    affine = space.affine(unit)
    if affine is None:
        return False
    text = space.text(())
    negative = space.read_set(f"{{ : {space.closed(text, f'{text.index(affine)} < 0')} }}")
    return bool(negative.intersect(space.known()).is_empty())


def _line(space: Space, unit: Index, each: CarriedNumber) -> RoundLine | None:
    start, step = _times(space, unit, each.start), _times(space, unit, each.step)
    if start is None or step is None:
        return None
    math, now = space.paths.math, Name(f"#{each.loop}")
    tiles = math.binary("+", Const(start[0]), math.binary("*", now, Const(step[0])))
    return RoundLine(tiles, math.binary("+", Const(start[1]), math.binary("*", now, Const(step[1]))))


def _times(space: Space, unit: Index, index: Index) -> tuple[int, int] | None:
    """a and b of `a * unit + b`, where the unit is at least 1."""
    math = space.paths.math
    rests = [math.binary("-", index, math.binary("*", unit, Const(factor))) for factor in range(MOST_FACTOR + 1)]
    for factor, rest in enumerate(rests):
        if isinstance(rest, Const):
            return factor, rest.value
    for factor, rest in enumerate(rests):
        number = _number(space, rest, unit, 1, None)
        if number is not None:
            return factor, number
    return None


def _number(space: Space, index: Index, unit: Index, low: int, high: int | None) -> int | None:
    """The number that an expression is, where the unit lies between two bounds; None if it is several, or none."""
    affine, size = space.affine(index), space.affine(unit)
    if affine is None or size is None or any(name.startswith("#") for name in names(affine)):
        return None
    text = space.text(())
    conds = [f"x = {text.index(affine)}", f"{text.index(size)} >= {low}"]
    conds += [f"{text.index(size)} <= {high}"] if high is not None else []
    body = space.closed(text, " and ".join(conds))
    points = space.read_set(f"{{ [x] : {body} }}").intersect_params(space.known())
    if points.is_empty():
        return None
    least, most = points.dim_min_val(0), points.dim_max_val(0)
    return int(least.to_python()) if least.is_int() and least.eq(most) else None


def _value(space: Space, unit: Index, number: int, each: CarriedNumber) -> Index | None:
    """A number that is carried, where a tile has so many rounds."""
    start, step = (_number(space, part, unit, number, number) for part in (each.start, each.step))
    if start is None or step is None:
        return None
    math = space.paths.math
    return math.binary("+", Const(start), math.binary("*", Name(f"#{each.loop}"), Const(step)))
