"""Which generation of a barrier object each statement is about: a guess, which the proof checks.

Needs   the statements of all roles
Gives   for each statement a map from its iterations to the generation, in isl's notation
Keeps   nothing: a wrong guess proves nothing, since every obligation is asked about it
Cost    the steps of a run of some rounds, of every role by itself

Roles run by themselves, since no object decides what they do. The arrivals of a role at an object are counted, and its
share of each generation is what all of its arrivals are among those of all. A wait is for the generation of the last
wait of its role or, if its parity is another one, for the next. Then a formula is fitted to these numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tidegate.index import evaluate
from tidegate.verify.objects.model import Outside
from tidegate.verify.objects.space import Space, context
from tidegate.verify.objects.statements import ARRIVES, COPIES, WAITS, Barrier, Statement

MOST_POINTS = 6_000  # of one run
MOST_PERIOD = 64

Iterations = tuple[int, ...]
Numbers = dict[Iterations, int]


@dataclass(frozen=True, slots=True)
class Step:
    """One execution of a statement in the run."""

    moment: tuple[int, ...]
    statement: Statement
    iterations: Iterations
    slot: int
    parity: int


def guess(space: Space, statements: Sequence[Statement], known: Any) -> dict[Statement, str]:
    """Conditions on `g` and the iterations `i0`, `i1`, ..., for statements of objects with phases."""
    counted = [each for each in statements if each.barrier.arrivals]
    rounds = 3 * max((each.barrier.slots for each in counted), default=1) + 5
    values = sample(space, counted, known, rounds)
    steps = sorted(_steps(space, counted, values), key=lambda each: each.moment)
    numbers: dict[Statement, Numbers] = defaultdict(dict)
    objects: dict[tuple[Barrier, int], list[Step]] = defaultdict(list)
    for step in steps:
        objects[step.statement.barrier, step.slot].append(step)
    for (barrier, _), here in objects.items():
        _number(barrier, here, numbers)
    return {each: _formula(space, each, numbers[each]) for each in counted}


# --- a run --------------------------------------------------------------------------------------------------------


def sample(space: Space, statements: Sequence[Statement], known: Any, rounds: int) -> dict[str, int]:
    """Parameters for which loops that count run some rounds."""
    import islpy as isl

    found = known
    for each in statements:
        depth = each.domain.dim(isl.dim_type.set)
        for place in range(depth):
            # A loop around a statement runs so often, where it can.
            some = each.domain.lower_bound_val(isl.dim_type.set, place, isl.Val.int_from_si(context(), rounds))
            better = found.intersect(some.params())
            if not better.is_empty():
                found = better
    return _least(found)


def _least(points: Any) -> dict[str, int]:
    """A point of a set of parameters with small values, one after the other."""
    import islpy as isl

    count = points.dim(isl.dim_type.param)
    names = [points.get_dim_name(isl.dim_type.param, place) for place in range(count)]
    flat = points.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count) if count else points
    found = {}
    for place, name in enumerate(names):
        low = flat.dim_min_val(place)
        if not low.is_int():
            low = flat.sample_point().get_coordinate_val(isl.dim_type.set, place)
        flat = flat.fix_val(isl.dim_type.set, place, low)
        found[name] = int(low.to_python())
    return found


def _steps(space: Space, statements: Sequence[Statement], values: Mapping[str, int]) -> list[Step]:
    import islpy as isl

    found: list[Step] = []
    names = {param: values.get(param, 0) for param in space.params.values()}
    env = {what: names[param] for what, param in space.params.items() if isinstance(what, str)}
    env |= {f"!{param}": names[param] for what, param in space.params.items() if not isinstance(what, str)}
    for each in statements:
        domain = each.domain
        for place in range(domain.dim(isl.dim_type.param)):
            name = domain.get_dim_name(isl.dim_type.param, place)
            domain = domain.fix_val(isl.dim_type.param, place, isl.Val.int_from_si(context(), names.get(name, 0)))
        count = domain.dim(isl.dim_type.set)
        points: list[Iterations] = []

        def keep(point: Any, count: int = count, points: list[Iterations] = points) -> None:
            points.append(
                tuple(int(point.get_coordinate_val(isl.dim_type.set, place).to_python()) for place in range(count))
            )
            if len(found) + len(points) > MOST_POINTS:
                raise Outside("more rounds than are tried for a guess")

        if not domain.is_bounded():
            raise Outside(f"{each.barrier} is used in a loop whose end nobody knows")
        domain.foreach_point(keep)
        chain = space.paths.around[each.node]
        for point in points:
            at = env | {f"#{loop}": value for loop, value in zip(chain, point, strict=True)}
            parity = evaluate(each.parity, at) if each.parity is not None else 0
            found.append(Step(space.at(each.role, each.node, point), each, point, evaluate(each.slot, at), parity))
    return found


# --- numbers ------------------------------------------------------------------------------------------------------


def _number(barrier: Barrier, steps: Sequence[Step], numbers: dict[Statement, Numbers]) -> None:
    """Generations of one slot of an object, from the steps of all roles there."""
    arriving = [each for each in steps if each.statement.kind == ARRIVES]
    shares = _shares(barrier, arriving, lambda each: each.statement.weight, barrier.arrivals)
    generations = Fraction(sum(each.statement.weight for each in arriving), barrier.arrivals)
    arrived = _counted(arriving, shares, lambda each: each.statement.weight, numbers)
    expected = sum(each.statement.bytes * each.statement.weight for each in arriving)
    copying = [each for each in steps if each.statement.kind == COPIES]
    if copying:
        whole = -(-generations.numerator // generations.denominator) or 1
        size = expected // whole if expected else 0
        parts = _shares(barrier, copying, lambda each: each.statement.weight * each.statement.bytes, size)
        _counted(copying, parts, lambda each: each.statement.weight * each.statement.bytes, numbers)
    _waits([each for each in steps if each.statement.kind == WAITS], barrier, numbers, arrived)


def _shares(barrier: Barrier, steps: Sequence[Step], weigh: Any, whole: int) -> dict[int, int]:
    """How much of each generation comes from each role."""
    totals: dict[int, int] = defaultdict(int)
    for each in steps:
        totals[each.statement.role.number] += weigh(each)
    total = sum(totals.values())
    found = {role: round(Fraction(part * whole, total)) if total else 0 for role, part in totals.items()}
    if sum(found.values()) != whole or not all(found.values()):
        raise Outside(f"what each role adds to a phase of {barrier} is not the same in all phases")
    return found


def _counted(
    steps: Sequence[Step], shares: Mapping[int, int], weigh: Any, numbers: dict[Statement, Numbers]
) -> dict[int, list[tuple[tuple[int, ...], int]]]:
    """Numbers steps by what came before them from their role. Gives these numbers by role, in its order."""
    so_far: dict[int, int] = defaultdict(int)
    found: dict[int, list[tuple[tuple[int, ...], int]]] = defaultdict(list)
    for each in steps:
        role = each.statement.role.number
        generation = so_far[role] // shares[role]
        numbers[each.statement][each.iterations] = generation
        found[role].append((each.moment, generation))
        so_far[role] += weigh(each)
    return found


def _waits(
    steps: Sequence[Step],
    barrier: Barrier,
    numbers: dict[Statement, Numbers],
    arrived: Mapping[int, list[tuple[tuple[int, ...], int]]],
) -> None:
    last: dict[int, int] = {}
    for each in steps:
        role = each.statement.role.number
        if barrier.by_parity:
            known = last.get(role, -1)
            generation = known if known % 2 == each.parity % 2 else known + 1
        else:  # the phase that it has arrived for
            before = [number for moment, number in arrived.get(role, ()) if moment < each.moment]
            if not before:
                raise Outside(f"a wait for {barrier} without an arrival of its own")
            generation = before[-1]
        last[role] = generation
        numbers[each.statement][each.iterations] = generation


# --- formulas -----------------------------------------------------------------------------------------------------


def _formula(space: Space, statement: Statement, numbers: Numbers) -> str:
    if not numbers:
        return "1 = 0"
    depth = len(next(iter(numbers)))
    if len(set(numbers.values())) == 1:
        return f"g = {next(iter(numbers.values()))}"
    for place in range(depth):
        rest = {each[:place] + each[place + 1 :] for each in numbers}
        if len(rest) == 1 or _depends_on(numbers, place):
            found = _periodic({each[place]: number for each, number in numbers.items()}, f"i{place}")
            if found:
                return found
    if depth > 1 and (found := _nested(numbers, depth)):
        return found
    raise Outside(f"no formula was found for the phases of {statement.barrier}")


def _depends_on(numbers: Numbers, place: int) -> bool:
    """Whether this iteration alone decides."""
    seen: dict[int, int] = {}
    return all(seen.setdefault(each[place], number) == number for each, number in numbers.items())


def _periodic(numbers: Mapping[int, int], name: str) -> str:
    """`g` as a function of one iteration that gains as much in every period."""
    at = sorted(numbers)
    first, last = at[0], at[-1]
    for period in range(1, min(MOST_PERIOD, (last - first) // 2 + 1) + 1):
        steps = {numbers[i + period] - numbers[i] for i in at if i + period in numbers}
        if len(steps) != 1 or not set(range(period)).issubset({i % period for i in at}):
            continue
        (step,) = steps
        for shift in range(period):
            rest = {numbers[i] - step * ((i + shift) // period) for i in at}
            if len(rest) == 1:
                return f"g = {step} * floor(({name} + {shift})/{period}) + {rest.pop()}"
        table = {i % period: numbers[i] - step * (i // period) for i in at}
        return " or ".join(
            f"({name} mod {period} = {rest} and g = {step} * floor({name}/{period}) + {more})"
            for rest, more in sorted(table.items())
        )
    return ""


def _nested(numbers: Numbers, depth: int) -> str:
    """A nest whose inner loops always run equally often counts like one loop."""
    extents = [1 + max(each[place] for each in numbers) for place in range(depth)]
    factors = [1] * depth
    for place in range(depth - 2, -1, -1):
        factors[place] = factors[place + 1] * extents[place + 1]
    flat = {sum(i * f for i, f in zip(each, factors, strict=True)): number for each, number in numbers.items()}
    name = " + ".join(f"{factor} * i{place}" for place, factor in enumerate(factors))
    return _periodic(flat, f"({name})")
