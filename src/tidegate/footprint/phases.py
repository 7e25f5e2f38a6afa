"""Meetings found by trying everything, where everything is little.

Needs   a question whose places depend on counters and sizes through remainders alone, or on numbers with small ranges
Gives   the pairs of waves that meet, each at its least distance, with an example, and with the least rounds at any
        distance; None where there is too much to try
Keeps   no meeting is missed; `loose` says that what holds of the numbers was not all taken into account, so that a
        meeting may be none; any operator is followed, `xor` too
Cost    at most `MOST_TRIED` combinations, each a shift of a large number
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from math import lcm, prod
from operator import le

from tidegate.compiled import to_function
from tidegate.footprint.boxes import box
from tidegate.footprint.meetings import KINDS, NO_PAIRS, Ends, Pairs
from tidegate.footprint.questions import Question, Side, compared_with
from tidegate.footprint.sequences import period_in
from tidegate.index import TRUE, Binary, Cond, Const, Index, names

MOST_TRIED = 60_000
MOST_EVALUATED = 4096
MOST_VALUES = 64
MOST_READY, MOST_KEPT = 256, 1024  # sides of which is kept what they touch, and for how many combinations


@dataclass(frozen=True, slots=True)
class Example:
    """Numbers under which two accesses meet."""

    distance: int
    rounds: tuple[int, ...]
    left: tuple[Ends, ...]
    point: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tried:
    """What trying found. `rest` holds conditions on other names, `loose` that some speak of names that were tried."""

    found: dict[Pairs, Example]
    rest: tuple[Cond, ...]
    loose: bool
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Domain:
    values: range
    is_full: bool  # all values, not one for each remainder
    period: int
    reach: int = -1  # comparisons with numbers up to this one come out the same for all values beyond


def try_all(question: Question, kinds: Pairs) -> Tried | None:
    """All meetings of some kinds of pairs."""
    expressions = [*question.x.expressions(), *question.y.expressions()]
    conds = [*question.x.facts, *question.y.facts, *question.around]
    domains = _domains(question, expressions, _reaches(conds))
    if domains is None:
        return None
    checked = [cond for cond in conds if _is_checked(cond, domains)]
    rest = tuple(cond for cond in dict.fromkeys(conds) if cond not in checked)
    known = frozenset(domains)
    loose = any(known.intersection(names(cond)) for cond in rest) or not _ends_late(question, domains)
    search = _Search(question, domains, list(dict.fromkeys(checked)))
    found = search.run(kinds)
    return None if found is None else Tried(found, rest, loose, known)


def _reaches(conds: Iterable[Cond]) -> dict[str, int]:
    """By counter, the largest number that it is compared with, alone or as `d + i`."""
    found: dict[str, int] = {}
    for cond in conds:
        if (compared := compared_with(cond)) is not None:
            for name in compared[0]:
                found[name] = max(found.get(name, 0), compared[1])
    if "d" in found or "i" in found:
        found["d"] = found["i"] = max(found.get("d", 0), found.get("i", 0))
    return found


def _domains(
    question: Question, expressions: list[Index | Cond], reaches: Mapping[str, int]
) -> dict[str, _Domain] | None:
    ranges = {name: (low, high) for name, low, high in question.ranges}
    waves = _Domain(range(question.waves), True, 1)
    found = {"u": waves, "v": waves}
    used = dict.fromkeys((*question.x.told, *question.y.told))
    used.update(dict.fromkeys(reaches))
    used.update(dict.fromkeys(name for name, low, high in question.ranges if (low, high) == (0, 1)))  # flags
    if "i" in used:
        used["d"] = None
    for name in used:
        if name in found:
            continue
        low, high = ranges.get(name, (int(name == "d"), None))
        if name in ("i", "d") and question.most is not None:
            high = question.most - 1
        if low is not None and high is not None and high - low < MOST_VALUES:
            found[name] = _Domain(range(low, high + 1), True, 1)
            continue
        periods = [period_in(expr, name) for expr in expressions]
        if any(each is None for each in periods):
            return None
        period = lcm(*(each or 1 for each in periods))
        if period > MOST_VALUES:
            return None
        # Beyond all that it is compared with, a counter is as good as the one a period less.
        more = reaches.get(name, -1) + 1
        if period + more > MOST_VALUES:
            return None
        found[name] = _Domain(range(low or 0, (low or 0) + period + more), False, period, more - 1)
    return found


def _is_checked(cond: Cond, domains: Mapping[str, _Domain]) -> bool:
    compared = compared_with(cond)
    if compared is not None and all(name in domains and _decides(domains[name], compared[1]) for name in compared[0]):
        return True
    for name in names(cond):
        domain = domains.get(name)
        if domain is None:
            return False
        if not domain.is_full and domain.period % (period_in(cond, name) or domain.period + 1):
            return False
    return True


def _decides(domain: _Domain, number: int) -> bool:
    return domain.is_full or domain.reach >= number


def _ends_late(question: Question, domains: Mapping[str, _Domain]) -> bool:
    """Whether the carried loop may run as long as what was tried."""
    if question.most is None or "i" not in domains or domains["i"].is_full:
        return True
    return question.most > 2 * domains["i"].period


@dataclass(slots=True)
class _Left:
    """A loop around x alone. What remains of it follows from the iteration, and from how often it runs, if known."""

    name: str
    period: int
    trips: Callable[[Mapping[str, int]], int] | None = None
    tells: tuple[str, ...] = ()  # what the trips depend on
    alone: int = 0  # so many first iterations stand for themselves, and not for others a period later

    def rest(self, env: Mapping[str, int]) -> int:
        done = 1 + env.get(self.name, 0)
        if self.trips is not None:
            return (self.trips(env) - done) % self.period
        return -done if done <= self.alone else -done % self.period


@dataclass(slots=True)
class _Best:
    """The best of the meetings of one kind so far."""

    distance: int
    rounds: tuple[int, ...]
    rests: tuple[set[int], ...]
    point: dict[str, int]

    def is_as_good(self, distance: int, rounds: Sequence[int], rests: Sequence[int]) -> bool:
        return (
            self.distance <= distance
            and all(map(le, self.rounds, rounds))
            and all(rest in known for rest, known in zip(rests, self.rests, strict=True))
        )

    def take(self, distance: int, rounds: Sequence[int], rests: Sequence[int], point: dict[str, int]) -> None:
        if distance < self.distance:
            self.distance, self.point = distance, point
        self.rounds = tuple(map(min, self.rounds, rounds))
        for rest, known in zip(rests, self.rests, strict=True):
            known.add(rest)


Envs = dict[tuple[int, ...], list[dict[str, int]]]  # wave, then what is to be found the least of
# The first byte, the bits from there on, and the values that lead there: those of one side alone.
Reached = tuple[int, int, dict[str, int]]


@dataclass(frozen=True, slots=True)
class _PhaseSide:
    """What one side touches for some values of what both sides share; `bits` of all of it, from byte `low` on."""

    reached: tuple[Reached, ...]
    low: int
    bits: int

    def meeting(self, other: _PhaseSide) -> list[Reached]:
        """What of it shares a byte with anything of the other side."""
        apart = self.low - other.low
        theirs = other.bits >> apart if apart >= 0 else other.bits << -apart
        if not self.bits & theirs:
            return []
        return [each for each in self.reached if (each[1] << (each[0] - self.low)) & theirs]


class _Search:
    def __init__(self, question: Question, domains: dict[str, _Domain], checked: list[Cond]) -> None:
        self.question, self.domains = question, domains
        x, y = {"u", *question.x.used}, {"v", *question.y.used}
        if "i" in domains:
            y.update(("i", "d"))
            x.add("i")
        self.left = [_left(question, name, trips, domains) for name, trips in question.left]
        x.update(name for each in self.left for name in each.tells)
        late: list[Cond] = []
        x_conds: list[Cond] = [question.x.cond]
        y_conds: list[Cond] = [question.y.cond]
        for cond in checked:
            mine = set(names(cond))
            (x_conds if mine <= x else y_conds if mine <= y else late).append(cond)
        self.x, self.y = _ready(question.x, tuple(x_conds)), _ready(question.y, tuple(y_conds))
        self.late = [to_function(cond) for cond in late]
        self.shared = [name for name in domains if name in x and name in y]
        self.x_names = [name for name in domains if name in x and name not in y]
        self.y_names = [name for name in domains if name in y and name not in x]
        self.x_names += [name for name in domains if name not in x and name not in y]

    def run(self, kinds: Pairs) -> dict[Pairs, Example] | None:
        sizes = {name: len(domain.values) for name, domain in self.domains.items()}
        each = [prod(sizes[name] for name in part) for part in (self.shared, self.x_names, self.y_names)]
        if prod(each) > MOST_TRIED or each[0] * (each[1] + each[2]) > MOST_EVALUATED:
            return None
        wanted = {kind.value for kind in KINDS if kind in kinds}
        found: dict[int, _Best] = {}
        xs, ys = _Sides(self, self.x, self.x_names), _Sides(self, self.y, self.y_names)
        for shared in self.combinations(self.shared):
            self.compare(shared, xs.at(shared), ys.at(shared), wanted, found)
            if self.is_least(found, wanted):
                break
        return {Pairs(kind): self.example(best) for kind, best in found.items()}

    def is_least(self, found: dict[int, _Best], wanted: set[int]) -> bool:
        """Whether all that is asked for was found, and as near as can be."""
        if self.left or self.question.rounds or len(found) < len(wanted):
            return False
        return all(best.distance <= 1 for best in found.values())

    def example(self, best: _Best) -> Example:
        left = tuple(
            Ends(each.period, frozenset(rests), each.trips is not None)
            for each, rests in zip(self.left, best.rests, strict=True)
        )
        return Example(best.distance, best.rounds, left, best.point)

    def combinations(self, given: Iterable[str]) -> Iterator[dict[str, int]]:
        listed = list(given)
        for values in product(*(self.domains[name].values for name in listed)):
            yield dict(zip(listed, values, strict=True))

    def compare(
        self, shared: dict[str, int], xs: _PhaseSide, ys: _PhaseSide, kinds: set[int], found: dict[int, _Best]
    ) -> None:
        mine, theirs = xs.meeting(ys), ys.meeting(xs)
        if not mine:
            return
        zero = min(low for low, _, _ in (*mine, *theirs))
        x_masks = self.grouped(mine, shared, zero, self.x_key)
        y_masks = self.grouped(theirs, shared, zero, self.y_key)
        for x_bits, x_envs in x_masks.items():
            for y_bits, y_envs in y_masks.items():
                if x_bits & y_bits:
                    self.note(x_envs, y_envs, kinds, found)

    def grouped(
        self,
        reached: list[Reached],
        shared: dict[str, int],
        zero: int,
        key: Callable[[dict[str, int]], tuple[int, ...]],
    ) -> dict[int, Envs]:
        """Values that give the same bytes; of those that are alike in all that matters one is enough."""
        found: dict[int, Envs] = {}
        for low, bits, own in reached:
            env = {**shared, **own}
            alike = found.setdefault(bits << (low - zero), {}).setdefault(key(env), [])
            if self.late or not alike:
                alike.append(env)
        return found

    def x_key(self, env: dict[str, int]) -> tuple[int, ...]:
        return (env["u"], *[each.rest(env) for each in self.left])

    def y_key(self, env: dict[str, int]) -> tuple[int, ...]:
        question = self.question
        distance = env.get("d", 1) if question.carried else 0
        return (env["v"], distance, *[env.get(name, 0) for name in question.rounds])

    def note(self, xs: Envs, ys: Envs, kinds: set[int], found: dict[int, _Best]) -> None:
        half = self.question.waves // 2
        for (u, *rests), x_envs in xs.items():
            for (v, distance, *rounds), y_envs in ys.items():
                kind = _kind_of(u, v, half)
                if kind not in kinds:
                    continue
                best = found.get(kind)
                if best is not None and best.is_as_good(distance, rounds, rests):
                    continue
                point = self.together(x_envs, y_envs)
                if point is None:
                    continue
                if best is None:
                    found[kind] = _Best(distance, tuple(rounds), tuple({rest} for rest in rests), point)
                else:
                    best.take(distance, rounds, rests, point)

    def together(self, xs: list[dict[str, int]], ys: list[dict[str, int]]) -> dict[str, int] | None:
        """Values of both sides under which the conditions on both hold."""
        for x in xs:
            for y in ys:
                env = {**x, **y}
                if all(cond(env) for cond in self.late):
                    return env
        return None


class _Sides:
    """One side, for all values of what both share. What it touches depends on some of these alone."""

    def __init__(self, search: _Search, side: _Ready, names: list[str]) -> None:
        self.side, self.own = side, list(search.combinations(names))
        self.names = [name for name in search.shared if name in side.names or name in ("i", "d")]
        ends = search.domains["i"].is_full if "i" in search.domains else False
        self.most = search.question.most if ends else None
        self.known: dict[tuple[int, ...], _PhaseSide] = {}

    def at(self, shared: dict[str, int]) -> _PhaseSide:
        key = tuple([shared[name] for name in self.names])
        found = self.known.get(key)
        if found is None:
            reached = tuple(self.reached(shared))
            low = min((each[0] for each in reached), default=0)
            bits = 0
            for first, own, _ in reached:
                bits |= own << (first - low)
            found = self.known[key] = _PhaseSide(reached, low, bits)
        return found

    def reached(self, shared: dict[str, int]) -> Iterator[Reached]:
        for own in self.own:
            env = {**shared, **own}
            if self.most is not None and "d" in env and env["i"] + env["d"] >= self.most:
                continue
            touched = self.side.touched(env)
            if touched is not None:
                yield *touched, own


def _left(question: Question, name: str, trips: Index | None, domains: Mapping[str, _Domain]) -> _Left:
    """After how many iterations what x touches is the same again: what remains is told up to that."""
    domain = domains.get(name)
    if domain is None:
        return _Left(name, 1)
    period = lcm(*(period_in(part, name) or 0 for part in question.x.expressions()))
    if not period:
        return _Left(name, 1, alone=domain.values.stop if domain.is_full else 0)
    if trips is None:
        return _Left(name, period, alone=_reaches(question.x.facts).get(name, -1) + 1)
    rest = Binary("mod", trips, Const(period))
    for each in names(trips):
        known = domains.get(each)
        if known is None or (not known.is_full and known.period % (period_in(rest, each) or known.period + 1)):
            return _Left(name, 1)
    return _Left(name, period, to_function(trips), tuple(names(trips)))


@lru_cache(maxsize=MOST_READY)
def _ready(side: Side, conds: tuple[Cond, ...]) -> _Ready:
    return _Ready(side, conds)


class _Ready:
    """One side, its expressions as functions. What it touches is kept: an access meets all others as the same side."""

    def __init__(self, side: Side, conds: Iterable[Cond]) -> None:
        self.names = tuple(dict.fromkeys((*side.told, *(name for cond in conds for name in names(cond)))))
        self.known: dict[tuple[int, ...], tuple[int, int] | None] = {}
        self.start = to_function(side.start)
        self.spans = [
            (each.count, each.stride, to_function(each.limit) if each.limit is not None else None)
            for each in side.spans
        ]
        self.conds = [to_function(cond) for cond in conds if cond != TRUE]
        self.width = side.width

    def touched(self, env: Mapping[str, int]) -> tuple[int, int] | None:
        """The first byte, and bits from there on; None if there are none, or the conditions do not hold.

        A wave that divides by 0 ends with an error, and touches nothing.
        """
        key = tuple([env[name] for name in self.names])
        if key in self.known:
            return self.known[key]
        found = self.find(env)
        if len(self.known) < MOST_KEPT:
            self.known[key] = found
        return found

    def find(self, env: Mapping[str, int]) -> tuple[int, int] | None:
        try:
            steps = [
                (count if limit is None else max(0, min(count, limit(env))), stride)
                for count, stride, limit in self.spans
            ]
            start = int(self.start(env))
            if not all(cond(env) for cond in self.conds):
                return None
        except ZeroDivisionError:
            return None
        bits, before = box(tuple(steps), self.width)
        return (start - before, bits) if bits else None


def kind_of(u: int, v: int, waves: int) -> Pairs:
    return Pairs(_kind_of(u, v, waves // 2))


OWN, WITHIN, BACK, FORTH = (kind.value for kind in KINDS)


def _kind_of(u: int, v: int, half: int) -> int:
    """The value of a kind: to hash a number takes a tenth of what a member of an enumeration takes."""
    if u == v:
        return OWN
    if (u < half) == (v < half):
        return WITHIN
    return FORTH if u < half else BACK


@cache
def kinds_there_are(waves: int) -> Pairs:
    found = NO_PAIRS
    for u in range(waves):
        for v in (u, u + 1, 0, waves - 1):
            found |= kind_of(u, min(v, waves - 1), waves)
    return found
