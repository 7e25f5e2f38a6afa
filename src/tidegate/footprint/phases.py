"""Meetings found by trying everything, where everything is little.

Needs   a question whose places depend on counters and sizes through remainders alone, or on numbers with small ranges
Gives   the pairs of waves that meet, each at its least distance, with an example; None where there is too much to try
Keeps   no meeting is missed; `loose` says that what holds of the numbers was not all taken into account, so that a
        meeting may be none; any operator is followed, `xor` too
Cost    at most `MOST_TRIED` combinations, each a shift of a large number
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import lcm, prod

from tidegate.footprint.arithmetic import Arithmetic
from tidegate.footprint.boxes import box, reach
from tidegate.footprint.compiled import to_function
from tidegate.footprint.meetings import NO_PAIRS, Pairs
from tidegate.footprint.questions import Question, Side, is_counter
from tidegate.footprint.sequences import period_in
from tidegate.index import Binary, Compare, Cond, Index, Name, names

MOST_TRIED = 60_000
MOST_EVALUATED = 4096
MOST_VALUES = 64


@dataclass(frozen=True, slots=True)
class Example:
    """Numbers under which two accesses meet."""

    distance: int
    rounds: tuple[int, ...]
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
        if (compared := _compared(cond)) is not None:
            for name in compared[0]:
                found[name] = max(found.get(name, 0), compared[1])
    if "d" in found or "i" in found:
        found["d"] = found["i"] = max(found.get("d", 0), found.get("i", 0))
    return found


def _compared(cond: Cond) -> tuple[tuple[str, ...], int] | None:
    """The counters that a condition compares with a number; None if it is no such condition."""
    if not isinstance(cond, Compare):
        return None
    terms, rest = Arithmetic({}).sum(Binary("-", cond.left, cond.right))
    given = tuple(atom.name for atom in terms if isinstance(atom, Name) and is_counter(atom.name))
    if len(given) != len(terms) or not given or len(set(terms.values())) > 1 or abs(next(iter(terms.values()))) != 1:
        return None
    return (given, abs(rest)) if len(given) == 1 or set(given) == {"d", "i"} else None


def _domains(
    question: Question, expressions: list[Index | Cond], reaches: Mapping[str, int]
) -> dict[str, _Domain] | None:
    ranges = {name: (low, high) for name, low, high in question.ranges}
    waves = _Domain(range(question.waves), True, 1)
    found = {"u": waves, "v": waves}
    used = dict.fromkeys(name for expr in expressions for name in names(expr))
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
    compared = _compared(cond)
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


class _Search:
    def __init__(self, question: Question, domains: dict[str, _Domain], checked: list[Cond]) -> None:
        self.question, self.domains = question, domains
        x = {"u", *(name for expr in (*question.x.expressions(), *question.x.facts) for name in names(expr))}
        y = {"v", *(name for expr in (*question.y.expressions(), *question.y.facts) for name in names(expr))}
        if "i" in domains:
            y.update(("i", "d"))
            x.add("i")
        late: list[Cond] = []
        x_conds: list[Cond] = [question.x.cond]
        y_conds: list[Cond] = [question.y.cond]
        for cond in checked:
            mine = set(names(cond))
            (x_conds if mine <= x else y_conds if mine <= y else late).append(cond)
        self.x, self.y = _Ready(question.x, x_conds), _Ready(question.y, y_conds)
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
        found: dict[Pairs, Example] = {}
        for values in self.combinations(self.shared):
            self.compare(values, kinds, found)
        return found

    def combinations(self, given: Iterable[str]) -> Iterator[dict[str, int]]:
        listed = list(given)
        for values in product(*(self.domains[name].values for name in listed)):
            yield dict(zip(listed, values, strict=True))

    def compare(self, shared: dict[str, int], kinds: Pairs, found: dict[Pairs, Example]) -> None:
        question = self.question
        xs = list(self.envs(self.x, shared, self.x_names))
        ys = list(self.envs(self.y, shared, self.y_names))
        if not xs or not ys:
            return
        zero = min(side.lowest(env) for side, envs in ((self.x, xs), (self.y, ys)) for env in envs)
        x_masks = _grouped(self.x, xs, zero, ())
        y_masks = _grouped(self.y, ys, zero, ("d", *question.rounds))
        for (x_bits, _), x_envs in x_masks.items():
            for (y_bits, _), y_envs in y_masks.items():
                if x_bits & y_bits:
                    self.note(x_envs, y_envs, kinds, found)

    def envs(self, side: _Ready, shared: dict[str, int], given: list[str]) -> Iterator[dict[str, int]]:
        most = self.question.most
        for own in self.combinations(given):
            env = {**shared, **own}
            if most is not None and "d" in env and env["i"] + env["d"] >= most and self.domains["i"].is_full:
                continue
            if side.is_reached(env):
                yield env

    def note(
        self, xs: list[dict[str, int]], ys: list[dict[str, int]], kinds: Pairs, found: dict[Pairs, Example]
    ) -> None:
        for x in xs:
            for y in ys:
                kind = kind_of(x["u"], y["v"] if "v" in y else x["u"], self.question.waves)
                if kind not in kinds:
                    continue
                distance = y.get("d", 1) if self.question.carried else 0
                old = found.get(kind)
                if old is not None and not self.question.rounds and old.distance <= distance:
                    continue
                env = {**x, **y}
                if all(cond(env) for cond in self.late):
                    rounds = tuple(y.get(name, 0) for name in self.question.rounds)
                    found[kind] = _nearer(old, Example(distance, rounds, env))


class _Ready:
    """One side, its expressions as functions."""

    def __init__(self, side: Side, conds: Iterable[Cond]) -> None:
        self.start = to_function(side.start)
        self.spans = [
            (each.count, each.stride, to_function(each.limit) if each.limit is not None else None)
            for each in side.spans
        ]
        self.conds = [to_function(cond) for cond in conds]
        self.width, self.back = side.width, reach(side)[0]

    def is_reached(self, env: Mapping[str, int]) -> bool:
        """Whether the conditions hold and the bytes have a place; a wave that divides by 0 ends with an error."""
        try:
            for _, _, limit in self.spans:
                if limit is not None:
                    limit(env)
            self.start(env)
            return all(cond(env) for cond in self.conds)
        except ZeroDivisionError:
            return False

    def lowest(self, env: Mapping[str, int]) -> int:
        return int(self.start(env)) + self.back

    def bits(self, env: Mapping[str, int], zero: int) -> int:
        """The bytes; bit 0 stands for byte `zero`."""
        steps = [
            (count if limit is None else max(0, min(count, limit(env))), stride) for count, stride, limit in self.spans
        ]
        bits, before = box(tuple(steps), self.width)
        return bits << (self.start(env) - before - zero) if bits else 0


def _grouped(
    side: _Ready, envs: list[dict[str, int]], zero: int, apart: tuple[str, ...]
) -> dict[tuple[int, tuple[int, ...]], list[dict[str, int]]]:
    """Values that give the same bytes, but for those names that must be told apart."""
    found: dict[tuple[int, tuple[int, ...]], list[dict[str, int]]] = {}
    for env in envs:
        bits = side.bits(env, zero)
        if bits:
            found.setdefault((bits, tuple(env.get(name, 0) for name in apart)), []).append(env)
    return found


def _nearer(old: Example | None, new: Example) -> Example:
    """The lesser distance, and the least of each number of rounds at it."""
    if old is None or new.distance < old.distance:
        return new
    if new.distance > old.distance:
        return old
    rounds = tuple(min(a, b) for a, b in zip(old.rounds, new.rounds, strict=True))
    return Example(old.distance, rounds, old.point)


def kind_of(u: int, v: int, waves: int) -> Pairs:
    half = waves // 2
    if u == v:
        return Pairs.OWN
    if (u < half) == (v < half):
        return Pairs.WITHIN
    return Pairs.FORTH if u < half else Pairs.BACK


def kinds_there_are(waves: int) -> Pairs:
    found = NO_PAIRS
    for u in range(waves):
        for v in (u, u + 1, 0, waves - 1):
            found |= kind_of(u, min(v, waves - 1), waves)
    return found
