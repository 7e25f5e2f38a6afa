"""When do two accesses meet? The question without the names of the program it comes from.

Needs   two accesses, the loops that are in the same iteration on both sides, and the loop that is not
Gives   `Question`: two boxes of bytes over variables, what holds of them, and which are the same on both sides
Keeps   accesses that differ in names of loops, buffers and opaque numbers only give equal questions
Cost    linear in the expressions

    u, v       the two waves                i, d        x's iteration of the carried loop; y's is i + d
    s0, s1     loops in one iteration       x0, y0      loops of one side
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.footprint.arithmetic import ANY, Arithmetic, Range
from tidegate.footprint.meetings import Lanes
from tidegate.footprint.model import Footprints, Span, Touch
from tidegate.footprint.values import Opaque, Spot, iteration
from tidegate.graph import model as g
from tidegate.index import WAVE, WORKGROUP, ZERO, Binary, Compare, Cond, Const, Flag, Index, Name, Not, names
from tidegate.language.types import FLAG, INDEX

AHEAD: Index = Binary("+", Name("d"), Name("i"))  # y's iteration of the carried loop


@dataclass(frozen=True, slots=True)
class Side:
    """One access: a box of bytes where a condition holds, and what holds anyway. `room` is where its buffer lies."""

    cond: Cond
    start: Index
    spans: tuple[Span, ...]
    width: int
    facts: tuple[Cond, ...]
    room: tuple[int, int]
    told: tuple[str, ...] = field(init=False, repr=False, compare=False)  # names in its bytes and its condition
    used: tuple[str, ...] = field(init=False, repr=False, compare=False)  # and in its facts

    def __post_init__(self) -> None:
        told = tuple(dict.fromkeys(name for expr in self.expressions() for name in names(expr)))
        more = (name for fact in self.facts for name in names(fact))
        object.__setattr__(self, "told", told)
        object.__setattr__(self, "used", tuple(dict.fromkeys((*told, *more))) if self.facts else told)

    def expressions(self) -> list[Index | Cond]:
        return [self.cond, self.start, *(span.limit for span in self.spans if span.limit is not None)]


@dataclass(frozen=True, slots=True)
class Question:
    waves: int
    carried: bool
    most: int | None  # iterations of the carried loop
    x: Side
    y: Side
    around: tuple[Cond, ...]  # what holds of names that both sides share
    ranges: tuple[tuple[str, int | None, int | None], ...]
    own: tuple[tuple[str, str], ...]  # the same number on both sides if the wave is the same
    rounds: tuple[str, ...]  # iterations of loops around y alone
    left: tuple[tuple[str, Index | None], ...]  # those of loops around x alone; how often they run, if y's place tells
    lanes: Lanes = Lanes.UNKNOWN


Variables = tuple[tuple[int, str], ...]  # a loop, or a counter of a form, and what stands for its iteration
Decided = tuple[str, bool]  # a flag, and whether it is on


class Asker:
    """Makes questions about the accesses of one flow."""

    def __init__(self, footprints: Footprints) -> None:
        self.footprints, self.flow = footprints, footprints.flow
        self.graph = footprints.flow.graph
        self.buffers = {buffer.name: buffer for buffer in self.graph.buffers}
        self.opaques: dict[int, list[str]] = {}  # of each access
        self.free_flags = frozenset(name for name, each in footprints.opaques.items() if _is_free_flag(each))
        self.deciding: dict[int, dict[Cond, Decided]] = {}  # of each access
        self.sides: dict[tuple[object, ...], Side] = {}
        self.bounds: dict[Cond, bool] = {}
        self.where = (*self.graph.where, *_grid(self.graph))
        self.sizes = {size.name for size in self.graph.sizes}
        self.flags = {value.name for value in self.graph.free if value.type == FLAG}
        # Numbers from outside, which may be as large as one likes unless an assumption keeps them small.
        self.given = self.sizes | {value.name for value in self.graph.free if value.type == INDEX}
        self.growing = self.given - {name for cond in self.graph.where if _limits(cond) for name in names(cond)}

    def opaques_of(self, touch: Touch) -> list[str]:
        if touch.node not in self.opaques:
            self.opaques[touch.node] = _opaques_in(touch)
        return self.opaques[touch.node]

    def flags_of(self, touch: Touch) -> dict[Cond, Decided]:
        """Facts that are flags of which nothing is known, and of which the access says nothing else."""
        if touch.node not in self.deciding:
            found = {fact: flag for fact in touch.facts if (flag := decided(fact, self.free_flags)) is not None}
            if found:
                told = _told(touch, [fact for fact in touch.facts if fact not in found])
                found = {fact: flag for fact, flag in found.items() if flag[0] not in told}
            self.deciding[touch.node] = found
        return self.deciding[touch.node]

    def always_so(self, x: Touch, y: Touch) -> frozenset[str]:
        """Flags that can be as both accesses want them, whatever else is so: they do not matter."""
        wanted = {*self.flags_of(x).values(), *self.flags_of(y).values()}
        if not wanted:
            return frozenset()
        told: set[str] = set()
        for touch in (x, y):
            mine = {flag for flag, _ in self.flags_of(touch).values()}
            told.update(name for name in self.opaques_of(touch) if name not in mine)
        return frozenset(flag for flag, value in wanted if (flag, not value) not in wanted and flag not in told)

    def shared_from(self, one: str, other: str) -> int | None:
        """Where the second buffer begins, seen from the first; None if they can have no bytes in common."""
        a, b = self.buffers[one], self.buffers[other]
        if a is b:
            return 0
        if a.offset is None or b.offset is None:
            return None
        return b.offset - a.offset

    def ask(
        self, x: Touch, y: Touch, spots: tuple[Spot, Spot], shift: int, same: Sequence[int], loop: int
    ) -> tuple[Question, tuple[Variables, Variables]]:
        """The question, and for both sides which variable stands for which loop."""
        renamed = _Renaming(self, same, loop, self.always_so(x, y))
        first = self.known_side(x, spots[0], 0, renamed.of_x(x), renamed.dropped)
        second = self.known_side(y, spots[1], shift, renamed.of_y(y), renamed.dropped)
        most = self.flow.loops[loop].most if loop >= 0 else None
        first, second = self.relevant(first, second, renamed, most)
        used = dict.fromkeys((*first.used, *second.used))
        around = _closed([*self.where], used)
        for cond in around:
            used.update(dict.fromkeys(names(cond)))
        ranges = tuple((name, *renamed.range_of(name)) for name in sorted(used))
        rounds = tuple(name for name in renamed.alone["y"].values() if name in used)
        left = tuple((name, self.told(each, used)) for each, name in renamed.alone["x"].items() if name in used)
        own = tuple(sorted((one, other) for one, other in renamed.own if one in used and other in used))
        question = Question(
            self.graph.waves, loop >= 0, most, first, second, around, ranges, own, rounds, left, lanes_between(x, y)
        )
        return question, (renamed.variables("x", x), renamed.variables("y", y))

    def told(self, loop: int, used: Iterable[str]) -> Index | None:
        """How often a loop runs, if that is a matter of sizes in use. Where it is a number, it need not be asked."""
        trips = self.footprints.trips[loop]
        if trips is None or isinstance(trips, Const) or loop not in self.footprints.ends_at_head:
            return None
        if isinstance(trips, Binary) and trips.op == "max" and trips.left == ZERO:
            trips = trips.right  # an access in the loop runs
        mentioned = set(names(trips))
        return trips if mentioned <= self.given and mentioned.issubset(used) else None

    def relevant(self, x: Side, y: Side, renamed: _Renaming, most: int | None) -> tuple[Side, Side]:
        """The sides without bounds that say nothing new: questions in different loops become one.

        A bound that large sizes meet keeps nobody from meeting, as long as the size decides nothing else; and one by a
        number is known of the counter's loop.
        """
        facts = {fact for side in (x, y) for fact in side.facts}
        dropped = {fact for fact in facts if _is_known(fact, renamed, most)}
        bounds = {fact for fact in facts - dropped if self.is_mere_bound(fact)}
        told = {*x.told, *y.told}
        told.update(name for fact in facts - bounds - dropped for name in names(fact))
        dropped |= {fact for fact in bounds if told.isdisjoint(self.given.intersection(names(fact)))}
        one, other = (replace(side, facts=tuple(fact for fact in side.facts if fact not in dropped)) for side in (x, y))
        return one, other

    def is_mere_bound(self, fact: Cond) -> bool:
        """Whether a fact only says that counters are small against a size, or against the most that is known."""
        known = self.bounds.get(fact)
        if known is None:
            known = self.bounds[fact] = self._is_mere_bound(fact)
        return known

    def _is_mere_bound(self, fact: Cond) -> bool:
        if not isinstance(fact, Compare) or fact.op not in ("<", "<="):
            return False
        grows: set[str] = set()
        against: set[str] = set()
        for atom, factor in Arithmetic({}).sum(fact.left)[0].items():
            used = set(names(atom))
            if used <= self.growing:
                if factor < 0 and (isinstance(atom, Name) or _is_quotient(atom)):
                    grows |= used
                else:
                    against |= used
            elif not isinstance(atom, Name) or not is_counter(atom.name):
                return False
        return bool(grows - against)

    def known_side(self, touch: Touch, spot: Spot, shift: int, by: dict[str, Index], dropped: frozenset[str]) -> Side:
        key = (self.footprints.class_of(touch.node), touch.places.index(spot), shift, tuple(by.items()), dropped)
        if key not in self.sides:
            mine = self.flags_of(touch)
            facts = [fact for fact in touch.facts if fact not in mine or mine[fact][0] not in dropped]
            self.sides[key] = self.side(touch, spot, shift, by, facts)
        return self.sides[key]

    def side(self, touch: Touch, spot: Spot, shift: int, by: dict[str, Index], known: Iterable[Cond]) -> Side:
        math = Arithmetic({})
        facts = tuple(math.put_cond(fact, by) for fact in known)
        cond, size = math.put_cond(spot.cond, by), self.buffers[spot.buffer].bytes
        room = (shift, shift + size)
        if spot.start is None:
            return Side(cond, Const(shift), (), size, facts, room)
        spans = tuple(
            Span(span.count, span.stride, None if span.limit is None else math.put(span.limit, by))
            for span in touch.extents
        )
        start = math.binary("+", math.put(spot.start, by), Const(shift))
        return Side(cond, start, spans, touch.width, facts, room)


def lanes_between(x: Touch, y: Touch) -> Lanes:
    """What the names of two maps from bytes to lanes say of ordinary accesses.

    Program order orders no asynchronous access, whichever lane it belongs to. Where bytes were widened, a map says
    nothing, unless one lane does it all.
    """
    if not x.lanes or (x.lanes, x.lanes_from) != (y.lanes, y.lanes_from) or x.is_async or y.is_async:
        return Lanes.UNKNOWN
    if x.lanes == g.ONE_LANE:
        return Lanes.ONE
    return Lanes.SAME_START if x.shape.is_exact and y.shape.is_exact else Lanes.UNKNOWN


class _Renaming:
    """From canonical names to variables of a question."""

    def __init__(self, asker: Asker, same: Sequence[int], loop: int, dropped: frozenset[str]) -> None:
        self.asker, self.same, self.loop = asker, {each: f"s{place}" for place, each in enumerate(same)}, loop
        self.dropped = dropped  # opaque names that do not matter
        self.opaques: dict[tuple[str, str], str] = {}
        self.own: set[tuple[str, str]] = set()
        self.ranges: dict[str, Range] = {}
        self.alone: dict[str, dict[int, str]] = {"x": {}, "y": {}}

    def of_x(self, touch: Touch) -> dict[str, Index]:
        return self.of("x", touch, Name("u"), Name("i"))

    def of_y(self, touch: Touch) -> dict[str, Index]:
        return self.of("y", touch, Name("v"), AHEAD)

    def of(self, side: str, touch: Touch, wave: Index, now: Index) -> dict[str, Index]:
        by: dict[str, Index] = {WAVE: wave}
        last = self.asker.graph.waves - 1
        self.ranges["u" if side == "x" else "v"] = (0, last)
        for loop in touch.loops:
            by[iteration(loop)] = now if loop == self.loop else Name(self.counter(side, loop))
        for name in self.asker.opaques_of(touch):
            if name not in self.dropped:
                by[name] = Name(self.opaque(side, name))
        return by

    def counter(self, side: str, loop: int) -> str:
        most = self.asker.flow.loops[loop].most
        alone = self.alone[side]
        name = self.same.get(loop) or alone.setdefault(loop, f"{side}{len(alone)}")
        self.ranges[name] = (0, None if most is None else most - 1)
        return name

    def variables(self, side: str, touch: Touch) -> Variables:
        return tuple((loop, "i" if loop == self.loop else self.counter(side, loop)) for loop in touch.loops)

    def opaque(self, side: str, name: str) -> str:
        known = self.asker.footprints.opaques[name]
        still = known.loops <= self.same.keys()
        key = ("", name) if still and known.agree else (side, name)
        if key not in self.opaques:
            number = sum(each[0] == key[0] for each in self.opaques)
            self.opaques[key] = f"{key[0]}?{number}"
        if still and not known.agree and ("x", name) in self.opaques and ("y", name) in self.opaques:
            self.own.add((self.opaques["x", name], self.opaques["y", name]))
        self.ranges[self.opaques[key]] = (known.low, known.high)
        return self.opaques[key]

    def range_of(self, name: str) -> Range:
        if name in self.ranges:
            return self.ranges[name]
        if name in self.asker.sizes:
            return 1, None
        if name in ("i", "d"):
            return (1 if name == "d" else 0), None
        if name in self.asker.flags:
            return 0, 1
        return (0, None) if name in WORKGROUP else ANY


def _is_known(fact: Cond, renamed: _Renaming, most: int | None) -> bool:
    """Whether a fact says of a counter what is known of its loop anyway."""
    match fact:
        case Compare("<", Name(name), Const(bound)) if is_counter(name):
            high = most - 1 if name == "i" and most is not None else renamed.range_of(name)[1]
            return high is not None and high < bound
        case Compare("<", ahead, Const(bound)) if ahead == AHEAD:
            return most is not None and most <= bound
    return False


def compared_with(cond: Cond) -> tuple[tuple[str, ...], int] | None:
    """The counters that a condition compares with a number; None if it is no such condition."""
    if not isinstance(cond, Compare):
        return None
    terms, rest = Arithmetic({}).sum(Binary("-", cond.left, cond.right))
    given = tuple(atom.name for atom in terms if isinstance(atom, Name) and is_counter(atom.name))
    if len(given) != len(terms) or not given or len(set(terms.values())) > 1 or abs(next(iter(terms.values()))) != 1:
        return None
    return (given, abs(rest)) if len(given) == 1 or set(given) == {"d", "i"} else None


def is_counter(name: str) -> bool:
    """Whether a variable is the iteration of a loop, in a question, in a form or in a flow."""
    return name in ("i", "d") or (name[0] in "sxyc#" and name[1:].isdigit())


def _is_quotient(atom: Index) -> bool:
    return isinstance(atom, Binary) and atom.op == "//" and isinstance(atom.left, Name)


def _limits(cond: Cond) -> bool:
    """Whether an assumption may keep a size from growing: all do but lower bounds and remainders of 0."""
    match cond:
        case Compare(">" | ">=", Name(), Const()):
            return False
        case Compare("==", Binary("mod", Name(), Const()), Const(0)):
            return False
    return True


def decided(fact: Cond, flags: Container[str]) -> Decided | None:
    """The flag that a fact is about, if it is one of these."""
    match fact:
        case Flag(name) if name in flags:
            return name, True
        case Not(Flag(name)) if name in flags:
            return name, False
    return None


def _is_free_flag(opaque: Opaque) -> bool:
    """Whether it may be on or off."""
    return (opaque.low is None or opaque.low <= 0) and (opaque.high is None or opaque.high >= 1)


def _opaques_in(touch: Touch) -> list[str]:
    return [name for name in _told(touch, touch.facts) if name.startswith("?")]


def _told(touch: Touch, facts: Iterable[Cond]) -> dict[str, None]:
    """The names in the bytes of an access and in some facts."""
    found: dict[str, None] = {}
    for spot in touch.places:
        found.update(dict.fromkeys(names(spot.cond)))
        if spot.start is not None:
            found.update(dict.fromkeys(names(spot.start)))
    for span in touch.extents:
        if span.limit is not None:
            found.update(dict.fromkeys(names(span.limit)))
    for fact in facts:
        found.update(dict.fromkeys(names(fact)))
    return found


def _grid(graph: g.SyncGraph) -> list[Cond]:
    return [Compare("<", Name(f"wg{axis}"), size) for axis, size in enumerate(graph.grid[:3])]


def _closed(conds: list[Cond], used: dict[str, None]) -> tuple[Cond, ...]:
    """The conditions that speak of names in use, of names in those, and so on."""
    reached, found, rest = set(used), [], conds
    while True:
        now = [cond for cond in rest if reached.intersection(names(cond))]
        if not now:
            return tuple(cond for cond in conds if cond in found)
        found += now
        rest = [cond for cond in rest if cond not in now]
        for cond in now:
            reached.update(names(cond))
