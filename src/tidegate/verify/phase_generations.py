"""Which generation of a barrier object each statement is about: a guess, which the proof checks.

Needs   the statements of all roles
Gives   for each statement a map from its iterations to the generation, in isl's notation; or the number of its round
Keeps   nothing: a wrong guess proves nothing, since every obligation is asked about it
Cost    the steps of a run of some rounds, of every role by itself

Roles take turns in a run of some rounds, each as far as it gets; copies land at once. Then a formula is fitted to the
generations of each statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import islpy as isl

from tidegate.index import Binary, Const, Index, evaluate, names, walk
from tidegate.verify.phase_model import Outside
from tidegate.verify.phase_space import Space, context
from tidegate.verify.phase_statements import ARRIVES, MEETS, WAITS, ObjectUseAt, SyncObject

MOST_POINTS = 6_000  # of one run
MOST_PERIOD = 64
MOST_TILES = 4  # that are tried

Iterations = tuple[int, ...]
Numbers = dict[Iterations, int]


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a statement in the run."""

    moment: tuple[int, ...]
    statement: ObjectUseAt
    iterations: Iterations
    slot: int
    parity: int


def guess(
    space: Space, counted: Sequence[ObjectUseAt], meeting: Sequence[ObjectUseAt], known: Any
) -> dict[ObjectUseAt, str | Index]:
    """Conditions on `g` and the iterations `i0`, `i1`, ..., for statements of objects whose phases are counted; where
    rounds are counted over tiles, the number of a round.

    `meeting`: those at other barriers, which the run comes to as well.
    """
    over_tiles = tiled(space, counted)
    values = sample(space, counted, known, over_tiles)
    steps = sorted(_steps(space, [*counted, *meeting], values), key=lambda each: each.moment)
    try:
        numbers = _Sample(steps).run()
    except Outside as why:
        raise Outside(str(why), named_values(space, values)) from None
    found: dict[ObjectUseAt, str | Index] = {}
    rounds = Rounds(space, counted, steps, values)
    for each in counted:
        is_tiled = each.barrier.name in over_tiles
        found[each] = rounds.number_of(each, numbers[each]) if is_tiled else _formula(each, numbers[each])
    return found


def tiled(space: Space, statements: Iterable[ObjectUseAt]) -> set[str]:
    """Objects whose rounds are counted over tiles."""
    counting = space.counting
    if counting is None:
        return set()
    return {
        each.barrier.name for each in statements if counting.is_used_in(each.slot) or counting.is_used_in(each.parity)
    }


# --- a run --------------------------------------------------------------------------------------------------------


def sample(space: Space, statements: Sequence[ObjectUseAt], known: Any, over_tiles: Collection[str]) -> dict[str, int]:
    """Parameters for which loops that count run some rounds."""
    found = known
    if space.counting is not None and space.counting.is_symbolic:
        slots = max(each.barrier.slots for each in statements)
        found = known.intersect(space.read_set(f"{{ : {space.text(()).index(space.counting.size)} > {slots} }}"))
    most = 3 * max((each.barrier.slots for each in statements if each.barrier.name not in over_tiles), default=1) + 5
    for each in statements:
        rounds = MOST_TILES if each.barrier.name in over_tiles else most
        for place, loop in enumerate(space.paths.around[each.node]):
            if space.counting is not None and space.footprints.trips[loop] == space.counting.unit:
                continue  # the rounds of a tile are enough
            # A loop around a statement runs so often, where it can.
            some = each.domain.lower_bound_val(isl.dim_type.set, place, isl.Val.int_from_si(context(), rounds))
            better = found.intersect(some.params())
            if not better.is_empty():
                found = better
    return least(found)


def least(points: Any) -> dict[str, int]:
    """A point of a set of parameters with small values, one after the other."""
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


def named_values(space: Space, values: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Sizes and numbers of the program, of all that isl has names for."""
    found = ((what, values.get(param)) for what, param in space.params.items() if isinstance(what, str))
    return tuple((name, value) for name, value in found if value is not None)


def _steps(space: Space, statements: Sequence[ObjectUseAt], values: Mapping[str, int]) -> list[Execution]:
    found: list[Execution] = []
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

        if not domain.is_bounded():
            raise Outside(f"{each.barrier} is used in a loop whose end nobody knows")
        if len(found) + _most_points(domain) > MOST_POINTS:
            raise Outside("more rounds than are tried for a guess")
        domain.foreach_point(keep)
        chain = space.paths.around[each.node]
        for point in points:
            at = env | {f"#{loop}": value for loop, value in zip(chain, point, strict=True)}
            at |= carried_at(space, at)
            parity = evaluate(each.parity, at) if each.parity is not None else 0
            found.append(Execution(space.at(each.role, each.node, point), each, point, evaluate(each.slot, at), parity))
    return found


def carried_at(space: Space, env: Mapping[str, int]) -> dict[str, int]:
    """What numbers that are carried are in these iterations."""
    counting, found = space.counting, {}
    for name, line in counting.lines.items() if counting is not None and counting.is_symbolic else ():
        if all(each in env for each in (*names(line.tiles), *names(line.rest))):
            size = evaluate(counting.size, env) if counting is not None else 0
            found[name] = evaluate(line.tiles, env) * size + evaluate(line.rest, env)
    return found


def _most_points(domain: Any) -> int:
    """Of the box around a bounded set."""
    if domain.is_empty():
        return 0
    extents = (
        domain.dim_max_val(place).sub(domain.dim_min_val(place)) for place in range(domain.dim(isl.dim_type.set))
    )
    return prod(int(each.to_python()) + 1 for each in extents)


# --- numbers ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Slot:
    """One slot of an object in the run: its phase, what it waits for, and whether a wait for a phase may pass."""

    barrier: SyncObject
    generation: int = 0
    missing: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.missing = self.barrier.arrivals

    def take(self, each: ObjectUseAt) -> int:
        """The generation of an arrival, or of a copy, which lands at once."""
        generation = self.generation
        self.missing -= each.weight if each.kind == ARRIVES else 0
        self.bytes += each.weight * (each.bytes if each.kind == ARRIVES else -each.bytes)
        if self.missing < 0:
            raise Outside(f"more arrivals in a phase of {self.barrier} than the {self.barrier.arrivals} that it counts")
        if not self.missing and not self.bytes:
            self.generation, self.missing = generation + 1, self.barrier.arrivals
        return generation


class _Sample:
    """All roles take turns, each as far as it gets."""

    def __init__(self, steps: Sequence[Execution]) -> None:
        self.left: dict[int, list[Execution]] = defaultdict(list)
        for step in reversed(steps):
            self.left[step.statement.role.number].append(step)
        self.slots: dict[tuple[SyncObject, int], _Slot] = {}
        self.arrived: dict[tuple[int, SyncObject], int] = {}  # what a role has arrived for last, or how often it has
        self.waited: dict[tuple[int, SyncObject], int] = defaultdict(int)
        self.coming: dict[SyncObject, set[int]] = defaultdict(set)  # to barriers without phases
        for step in steps:
            if not step.statement.barrier.arrivals:
                self.coming[step.statement.barrier].add(step.statement.role.number)
        self.numbers: dict[ObjectUseAt, Numbers] = defaultdict(dict)

    def run(self) -> dict[ObjectUseAt, Numbers]:
        while any(self.left.values()):
            if not any(self.advance(steps) for steps in self.left.values()):
                stuck = next(steps[-1].statement.barrier for steps in self.left.values() if steps)
                raise Outside(f"where roles take turns, a wait for {stuck} never ends")
        return self.numbers

    def advance(self, steps: list[Execution]) -> bool:
        """Whether a role gets any further."""
        count = len(steps)
        while steps and self.take(steps[-1]):
            steps.pop()
        return len(steps) < count

    def take(self, step: Execution) -> bool:
        each, role = step.statement, step.statement.role.number
        key = (role, each.barrier)
        if not each.barrier.arrivals:
            return self.meet(step, key)
        slot = self.slots.setdefault((each.barrier, step.slot), _Slot(each.barrier))
        if each.kind != WAITS:
            self.numbers[each][step.iterations] = self.arrived[key] = slot.take(each)
            return True
        if each.barrier.by_parity:
            known = slot.generation - 1  # the last that is over
            if known % 2 != step.parity % 2:
                return False
        else:  # the phase that it has arrived for
            if key not in self.arrived:
                raise Outside(f"a wait for {each.barrier} without an arrival of its own")
            known = self.arrived[key]
            if known >= slot.generation:
                return False
        self.numbers[each][step.iterations] = known
        return True

    def meet(self, step: Execution, key: tuple[int, SyncObject]) -> bool:
        """A barrier of all waves: the n-th arrival of each role is for the n-th wait of all."""
        kind, barrier = step.statement.kind, step.statement.barrier
        if kind == ARRIVES or (kind == MEETS and self.arrived.get(key, 0) == self.waited[key]):
            self.arrived[key] = self.arrived.get(key, 0) + 1
            if kind == ARRIVES:
                return True
        over = all(self.arrived.get((role, barrier), 0) > self.waited[key] for role in self.coming[barrier])
        self.waited[key] += over
        return over


# --- rounds that are counted over tiles ---------------------------------------------------------------------------


class Rounds:
    """The number of the round that a statement is about: its slot, and as many slots as there are for each phase."""

    def __init__(
        self, space: Space, counted: Sequence[ObjectUseAt], steps: Sequence[Execution], values: Mapping[str, int]
    ) -> None:
        self.space, self.counted = space, counted
        names_ = {what: values.get(param, 0) for what, param in space.params.items() if isinstance(what, str)}
        self.env: dict[str, int] = names_
        self.slots = {(step.statement, step.iterations): step.slot for step in steps}

    def number_of(self, each: ObjectUseAt, numbers: Numbers) -> Index:
        """One of the numbers that its role computes there, and so many more."""
        slots = each.barrier.slots
        rounds = {at: number * slots + self.slots[each, at] for at, number in numbers.items()}
        for index in dict.fromkeys(self.candidates(each)):
            more = {number - self.evaluated(each, index, at) for at, number in rounds.items()}
            if len(more) == 1:
                return self.space.paths.math.binary("+", index, Const(more.pop()))
        raise Outside(f"no number was found for the rounds of {each.barrier}")

    def candidates(self, each: ObjectUseAt) -> Iterator[Index]:
        chain = self.space.paths.around[each.node]
        beside = (x for x in self.counted if x is not each and self.space.paths.around[x.node] == chain)
        for other in (each, *beside):
            yield other.slot
            for index in (other.slot, other.parity):
                if index is not None:
                    yield from (
                        node.left for node in walk(index) if isinstance(node, Binary) and node.op in ("//", "mod")
                    )

    def evaluated(self, each: ObjectUseAt, index: Index, at: Iterations) -> int:
        env = self.env | {f"#{loop}": n for loop, n in zip(self.space.paths.around[each.node], at, strict=True)}
        try:
            return evaluate(index, env | carried_at(self.space, env))
        except KeyError as error:
            raise Outside("a number of rounds depends on values that are not known") from error


# --- formulas -----------------------------------------------------------------------------------------------------


def _formula(statement: ObjectUseAt, numbers: Numbers) -> str:
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
        again = all(i + period in numbers for i in at if i + period <= last)  # also where a guard leaves some out
        if len(steps) != 1 or not again:
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
