"""Random programs without synchronization that barriers at uniform places can make correct.

    graph, target, features = random_program(random.Random(7))         no synchronization at all
    graph, target, features = partly_synchronized(random.Random(7))    some barriers stand already, often too few
    graph, target, features = staggered_program(random.Random(7))      one half of the waves held back in a loop
    kernel, target, features = random_kernel_program(random.Random(7)) the same in the kernel language
    print(show_distribution(each_features))                            how many programs have what

Most of them race. All are fixable, because of three promises:

* One statement in two waves does not conflict with itself. Each wave writes a part of its own: its row, the row of
  another wave by a permutation, its columns, or everything if it is the only wave. Reads may be of anything.
* Where waves part (`under` is not uniform) accesses of different waves do not conflict: each region is either for one
  wave, or on one part per wave, or reads only, and two arms use memory apart. A copy there is alone on its memory.
* A barrier may stand before every access, or before the point before it that does nothing.

`Features` says what is in a program, for tables; `tags` are words from `TAGS`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.plan import Insert, Plan
from tidegate.index import ONE, ZERO, Binary, Compare, Cond, Const, Flag, Index, Inexact, Logic, Name, Not, Select
from tidegate.language import ops
from tidegate.language.builder import Builder
from tidegate.language.ops import Carried, Kernel, Place, Size, Value
from tidegate.language.types import FLAG, INDEX, Global, Lds, Tile, i1, i32
from tidegate.targets import Target, load_target

TARGETS = ("", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250", "gfx1250", "sm_80", "sm_90", "sm_90")
COPIES = ("gather_to_lds", "tensor_load_to_lds", "lds_to_global")
WAVE = Name("wave")
ROW = 8  # bytes of a slot that belong to one wave
MOST_NESTED = 4
FORMS = ("equal", "at_least", "less", "modulo")  # how a carried slot starts again at 0

# What a program may have, in the order of tables.
TAGS = (
    *("loop", "nest", "siblings", "irreducible"),
    *("constant trips", "symbolic trips", "zero trips possible", "never runs"),
    *("slot k mod n", "slot k + c", "slot of two counters", "slot by wave", "slot constant"),
    *(f"carried {form}" for form in FORMS),
    *("carried rotation", "carried view", "carried across nests", "view by condition"),
    *("flag", "branch any", "counter condition", "size condition", "early exit", "scalar bound"),
    *("per wave", "per wave any", "per wave loop", "dispatch", "divergent"),
    *("call", "call per wave", "copy in", "copy out", "proxies", "atomic", "commuting atomic"),
    *("masked", "tail limit", "one writer", "columns", "permuted write", "read all", "private", "inexact", "unknown"),
    *("overlapping buffers", "reused bytes", "havoc"),
    *("standing barrier", "standing bare", "standing pinned", "standing pair", "standing wait"),
    "standing wait of some waves",
    *("stagger 1", "stagger 2", "low half held back"),
)


@dataclass(frozen=True, slots=True)
class Features:
    """What a program has."""

    target: str
    waves: int
    depth: int  # of loops
    slots: int  # the most of any buffer
    offsets: tuple[int, ...]  # c of slots `(k + c) mod n`: how many trips ahead an access works
    accesses: int
    tags: frozenset[str]


def show_distribution(programs: Iterable[Features]) -> str:
    """A table: how many programs have what."""
    found = list(programs)
    rows: list[tuple[str, Counter[str]]] = [
        ("target", Counter(each.target or "none" for each in found)),
        ("waves", Counter(str(each.waves) for each in found)),
        ("depth", Counter(str(each.depth) for each in found)),
        ("slots", Counter(str(each.slots) for each in found)),
        ("offset", Counter(str(offset) for each in found for offset in set(each.offsets))),
        ("accesses", Counter(f"{each.accesses // 4 * 4} to {each.accesses // 4 * 4 + 3}" for each in found)),
    ]
    lines = [f"| {name} {value} | {counts[value]} |" for name, counts in rows for value in sorted(counts, key=_natural)]
    tags = Counter(tag for each in found for tag in each.tags)
    lines += (f"| {tag} | {tags[tag]} |" for tag in TAGS)
    return "\n".join([f"| of {len(found)} programs | have it |", "|---|---:|", *lines])


def _natural(text: str) -> tuple[int, str]:
    return (int(text.split()[0]), text) if text[0].isdigit() else (-1, text)


def random_program(rng: random.Random) -> tuple[g.SyncGraph, Target, Features]:
    """A graph without synchronization; `commit_group`, which belongs to copies, is the only `Sync` in it."""
    maker = _Maker(rng)
    graph = maker.make()
    return graph, maker.target, maker.features(graph)


def binary(op: str, left: Index, right: int) -> Index:
    return Binary(op, left, Const(right))


class _Maker:
    """Builds one graph. `left` is how many more accesses it may have."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.target = load_target(rng.choice(TARGETS))
        self.waves = rng.choice((2, 2, 2, 3, 4))
        self.slots = rng.choice((1, 1, 2, 2, 2, 3, 3, 4))
        self.left = rng.choice((3, 4, 5, 6, 7, 8))
        self.b = GraphBuilder("program", waves=self.waves, target=self.target.name, lanes="one")
        self.tags: set[str] = set()
        self.offsets: set[int] = set()
        self.counters: list[str] = []  # of the loops around
        self.carried: list[str] = []  # indices from 0 below `slots` that have a value here
        self.views: list[str] = []  # views of one slot that have a value here
        self.number = 0  # names made so far
        self.trips = 1  # how often what is added now is executed, at most
        self.nested = 0  # regions around
        self.free = 0  # conditions that double the runs
        self.sizes = 0
        self.depth = 0
        self.apart = False  # between accesses there is a point of its own for barriers
        self.callable: list[tuple[str, bool]] = []  # functions, and whether only for each wave's own row

    def chance(self, of: float) -> bool:
        return self.rng.random() < of

    def tag(self, *words: str) -> None:
        assert all(word in TAGS for word in words), words
        self.tags.update(words)

    def fresh(self, hint: str) -> str:
        self.number += 1
        return f"%{hint}{self.number}"

    def features(self, graph: g.SyncGraph) -> Features:
        accesses = sum(isinstance(point.action, g.Access) for point in graph.points)
        slots = max(buffer.slots for buffer in graph.buffers)
        return Features(
            graph.target, self.waves, self.depth, slots, tuple(sorted(self.offsets)), accesses, frozenset(self.tags)
        )

    # --- the whole ---

    def make(self) -> g.SyncGraph:
        self.apart = self.chance(0.2)
        self.declare()
        if self.chance(0.25):
            self.functions()
        self.b.program(0, self.waves)
        self.prepare()
        while self.left > 0:
            self.part()
        if self.chance(0.1):
            self.reuse()
        self.b.add(g.End(), label="end")
        return self.b.finish()

    def declare(self) -> None:
        """Buffers in groups: what lies in two groups shares no byte."""
        b, rng = self.b, self.rng
        size = self.waves * ROW
        self.groups: list[list[str]] = []
        self.slots_of: dict[str, int] = {}
        overlapping = self.chance(0.2)
        for name in ("%a", "%b", "%c")[: rng.choice((1, 2, 2, 3))]:
            self.slots_of[name] = self.slots if name == "%a" or self.chance(0.6) else 1
            shares = overlapping and name == "%b"
            at = {"%a": 0, "%b": rng.choice((4, ROW, size - 4))}.get(name) if overlapping else None
            b.buffer(name, size, self.slots_of[name], at)
            if shares:
                self.tag("overlapping buffers")
                self.groups[0].append(name)
            else:
                self.groups.append([name])
        if self.chance(0.2):
            b.buffer("%own", size, 1)
            self.slots_of["%own"] = 1
            self.private = True
        else:
            self.private = False

    def prepare(self) -> None:
        """Names that have a value from the start."""
        if self.chance(0.25):
            first, second = self.rng.choice(self.buffers()), self.rng.choice(self.buffers())
            cond, name = self.free_cond(), self.fresh("v")
            self.b.add(g.Assign(((name, g.Either(cond, self.ref(first), self.ref(second))),)), label="select_view")
            self.views.append(name)
            self.tag("view by condition")
        if self.slots > 1 and self.chance(0.15):  # stepped by inner loops, too
            name = self.fresh("s")
            self.b.add(g.Assign(((name, Const(self.rng.randrange(self.slots))),)), label="start")
            self.carried.append(name)

    def buffers(self) -> list[str]:
        return [name for group in self.groups for name in group]

    def functions(self) -> None:
        for per_wave in (False, True):
            if per_wave and not self.chance(0.5):
                continue
            name = "own" if per_wave else "touch"
            self.b.function(name, ("%p",))
            start = len(self.b.points)
            for _ in range(self.rng.choice((1, 1, 2))):
                if per_wave:
                    self.emit(self.rng.choice(("local_read", "local_write")), g.Ref("%p", ZERO, self.mine()), (), ROW)
                else:
                    self.touch("%p", ZERO)
            self.b.add(g.Return(), label="return")
            if per_wave:
                self.mark(start, len(self.b.points), "per_wave")
            self.callable.append((name, per_wave))
        self.left = max(self.left, 3)

    def reuse(self) -> None:
        """One buffer is given back, and another takes its bytes."""
        size = self.waves * ROW
        for name in ("%x", "%y"):
            self.b.buffer(name, size, 1, 4096)
            self.slots_of[name] = 1
        for name in ("%x", "%y"):
            self.b.add(g.Alloc(name), label="alloc")
            for _ in range(self.rng.choice((1, 2))):
                self.touch(name, ZERO)
            self.b.add(g.Free(name), label="dealloc")
        self.tag("reused bytes")

    # --- structure ---

    def part(self) -> None:
        kind = self.rng.random() if self.left > 0 and self.nested < MOST_NESTED else 1.0
        if kind < 0.3 and len(self.counters) < 3 and self.trips <= 6:
            self.loop_part()
        elif kind < 0.42:
            self.uniform_branch()
        elif kind < 0.54:
            self.parting()
        elif kind < 0.57 and self.trips == 1 and len(self.counters) < 3:
            self.irreducible()
        elif kind < 0.59 and not self.counters:
            self.early_exit()
        else:
            self.one_access()

    def parts(self, least: int = 1) -> None:
        for _ in range(self.rng.choice((least, 1, 2, 3))):
            self.part()

    def one_access(self) -> None:
        """On a buffer, on a view, or through a function."""
        calls = [name for name, per_wave in self.callable if not per_wave]
        if calls and self.chance(0.4):
            base = self.rng.choice(self.buffers())
            self.b.add(g.Call(calls[0], (("%p", self.ref(base)),)), label="call")
            self.left -= 1
            self.tag("call")
        elif self.views and self.chance(0.4):
            self.touch(self.rng.choice(self.views), ZERO)
        elif self.private and self.chance(0.3):
            self.tag("private")
            self.emit(self.rng.choice(("local_read", "local_write")), g.Ref("%own", ZERO, self.mine()), (), ROW)
        else:
            base = self.rng.choice(self.buffers())
            self.touch(base, self.slot(base))

    @contextmanager
    def inside(self, trips: int = 1, counter: str = "") -> Iterator[None]:
        """A region that may not run: what gets a value in it has none after it."""
        kept = len(self.carried), len(self.views), self.trips
        self.trips *= trips
        self.nested += 1
        if counter:
            self.counters.append(counter)
            self.depth = max(self.depth, len(self.counters))
        yield
        if counter:
            self.counters.pop()
        del self.carried[kept[0] :], self.views[kept[1] :]
        self.trips = kept[2]
        self.nested -= 1

    def loop_part(self) -> None:
        """A loop, or two that follow each other and work on the same memory."""
        many = 2 if self.chance(0.15) else 1
        if many == 2:
            self.tag("siblings")
        for _ in range(many):
            self.tag("loop", *(("nest",) if self.counters else ()))
            steps = self.carry()
            lower, upper, most, least = self.bounds()
            counter = self.fresh("k")
            constant = isinstance(upper, Const)
            with self.b.loop(counter, lower, upper, self.rng.choice((1, 1, 2)) if constant else 1):
                head = len(self.b.points) - 1
                if not constant and self.chance(0.7):  # whoever made the graph may know it, or not
                    self.b.counted[head] = replace(self.b.counted[head], least=least)
                with self.inside(most, counter):
                    early = self.chance(0.2)
                    if early:
                        self.step(steps)
                    self.parts(least=2)
                if not early:
                    self.step(steps)

    def bounds(self) -> tuple[Index, Index, int, int]:
        """Bounds of a loop, how often it runs at most, when judged, and at least."""
        rng = self.rng
        if (
            self.trips <= 3
            and self.sizes < (2 if self.trips == 1 and self.slots < 3 and self.chance(0.3) else 1)
            and self.chance(0.45)
        ):
            self.tag("symbolic trips")
            most = self.slots + 2
            if self.chance(0.1):
                self.tag("scalar bound", "zero trips possible")
                self.sizes = 2
                return ZERO, self.b.scalar(f"%n{self.number}"), most, 0
            name = f"N{self.sizes}"
            self.sizes += 1
            least = rng.choice((0, 1, 1, 2))
            where = (Compare(">=", Name(name), Const(least)),) if least and self.chance(0.7) else ()
            size = self.b.size(name, 2, *where)
            least = least if where else 1
            if self.chance(0.4):
                self.tag(*(("zero trips possible",) if least < 2 else ()))
                low, high = rng.choice(((ZERO, binary("-", size, 1)), (ONE, size)))
                return low, high, most, least - 1
            return ZERO, size, most, least
        trips = rng.choice((0, 1, 2, 2, 2, 3, 3, 3)) if self.trips <= 3 else rng.choice((0, 1, 2, 2, 2))
        self.tag("constant trips" if trips else "never runs")
        lower = rng.choice((0, 0, 1))
        return Const(lower), Const(lower + trips), max(1, trips), trips

    def carry(self) -> list[tuple[tuple[str, Index | g.Where], ...]]:
        """Slots that the coming loop carries: their first values now, and the assignments for the end of its body."""
        rng, steps = self.rng, []
        if self.slots > 1 and self.chance(0.4):
            name = self.fresh("s")
            self.b.add(g.Assign(((name, Const(rng.randrange(self.slots))),)), label="start")
            self.carried.append(name)
            steps.append(((name, self.stepped(name)),))
        if self.counters and self.carried and self.chance(0.3):
            steps.append(((self.carried[0], self.stepped(self.carried[0])),))
            self.tag("carried across nests")
        if self.slots > 1 and self.chance(0.15):
            count = rng.choice((2, self.slots))
            names = [self.fresh("r") for _ in range(count)]
            starts = rng.sample(range(self.slots), count)
            self.b.add(
                g.Assign(tuple((name, Const(at)) for name, at in zip(names, starts, strict=True))), label="start"
            )
            self.carried += names
            steps.append(tuple((name, Name(after)) for name, after in zip(names, names[1:] + names[:1], strict=True)))
            self.tag("carried rotation")
        if self.chance(0.12):
            names = [self.fresh("w") for _ in range(2)]
            places = [self.ref("%a", Const(0)), self.ref("%a", Const(self.slots - 1))]
            if self.slots == 1:
                places[1] = self.ref(self.rng.choice(self.buffers()))
            self.b.add(g.Assign(tuple(zip(names, places, strict=True))), label="start")
            self.views += names
            steps.append(tuple((name, g.Ref(other)) for name, other in zip(names, reversed(names), strict=True)))
            self.tag("carried view")
        return steps

    def stepped(self, name: str) -> Index:
        """The slot after this one, in each form that people write."""
        form = self.rng.choice(FORMS)
        self.tag(f"carried {form}")
        by = self.rng.choice((1, 1, 1, 2)) if form == "modulo" else 1
        after = binary("+", Name(name), by)
        slots = Const(self.slots)
        match form:
            case "equal":
                return Select(Compare("==", after, slots), ZERO, after)
            case "at_least":
                return Select(Compare(">=", after, slots), ZERO, after)
            case "less":
                return Select(Compare("<", after, slots), after, ZERO)
        return Binary("mod", after, slots)

    def step(self, steps: list[tuple[tuple[str, Index | g.Where], ...]]) -> None:
        for pairs in steps:
            self.b.add(g.Assign(pairs), label="step", insertable=self.chance(0.7))

    def free_cond(self) -> Cond:
        """A condition on which all waves agree and that nothing else decides."""
        self.tag("flag")
        flag = self.flag(self.rng.choice(("%f", "%f", "%g")))
        return Not(flag) if self.chance(0.3) else flag

    def flag(self, name: str) -> Flag:
        """Declared when it is first used: each doubles the runs."""
        if name not in self.b.free:
            self.b.flag(name)
        return Flag(name)

    def uniform_cond(self) -> Cond | None:
        kind = self.rng.random()
        if self.counters and kind < 0.4:
            self.tag("counter condition")
            counter = Name(self.rng.choice(self.counters))
            return self.rng.choice(
                (
                    Compare("==", counter, Const(self.rng.choice((0, 1, 2)))),
                    Compare(">", counter, ZERO),
                    Compare("==", binary("mod", counter, 2), ONE),
                )
            )
        if self.sizes == 1 and kind < 0.5 and not self.counters:
            self.tag("size condition")
            return Compare(">", Name("N0"), Const(2)) if "N0" in self.size_names() else self.free_cond()
        if self.free == 0 and self.trips <= 4 and kind < 0.7:
            self.free += self.trips
            self.tag("branch any")
            return None
        return self.free_cond()

    def size_names(self) -> set[str]:
        return {size.name for size in self.b.parts.get("sizes", ())}

    def uniform_branch(self) -> None:
        with self.b.branch(self.uniform_cond()) as arms:
            with self.inside():
                self.parts()
            if self.chance(0.5):
                arms.otherwise()
                with self.inside():
                    self.parts()

    def early_exit(self) -> None:
        self.tag("early exit")
        with self.b.branch(self.free_cond()):
            if self.chance(0.5):
                self.one_access()
            self.b.add(g.End(), label="exit")

    def irreducible(self) -> None:
        """A cycle of two accesses that can be entered at both, left after some rounds."""
        b, name = self.b, self.fresh("i")
        self.tag("irreducible")
        self.depth = max(self.depth, len(self.counters) + 1)
        trips = self.rng.choice((1, 2, 3))
        b.add(g.Assign(((name, ZERO),)), label="start")
        fork = b.add(g.Branch(self.free_cond()), label="fork")
        with self.inside(trips):
            first = len(b.points)
            self.touch("%a", self.slot("%a"))
            second = len(b.points)
            self.touch("%a", self.slot("%a"))
        b.edge(fork, second)
        b.add(g.Assign(((name, binary("+", Name(name), 1)),)), label="next")
        test = b.add(g.Branch(Compare("<", Name(name), Const(trips))), label="again")
        b.edge(test, first)
        b.open = [test]
        b.compute("after")

    # --- where waves part ---

    def mark(self, start: int, end: int, under: str) -> None:
        for number in range(start, end):
            self.b.points[number].under = under

    def parting(self) -> None:
        kind = self.rng.choice(("one", "one", "own", "own", "any", "dispatch", "loop", "divergent"))
        if kind in ("any", "divergent") and (self.free or self.trips > 1 or self.waves > 3):
            kind = "own"
        one, two = self.rng.sample(self.groups, 2) if len(self.groups) > 1 else (self.groups[0], [])
        if kind == "loop":
            self.loop_per_wave(one)
        elif kind == "dispatch":
            self.dispatch(one, two)
        elif kind == "divergent":
            self.divergent(one)
        else:
            self.branch_per_wave(kind, one, two)

    def branch_per_wave(self, kind: str, one: list[str], two: list[str]) -> None:
        self.tag("per wave any" if kind == "any" else "per wave")
        start = len(self.b.points) + 1
        if kind == "any":
            self.free += self.waves
        with self.b.branch(None if kind == "any" else self.on_wave(single=kind == "one")) as arms:
            self.apart_accesses(one, alone=kind == "one")
            if two and self.chance(0.5):
                arms.otherwise()
                self.apart_accesses(two)
        self.mark(start, len(self.b.points) - 1, "per_wave")

    def on_wave(self, single: bool) -> Cond:
        one = Compare("==", WAVE, Const(self.rng.randrange(self.waves)))
        if single:
            return self.rng.choice(
                (one, Compare("<", WAVE, ONE), Logic("and", one, self.flag("%f")) if self.chance(0.5) else one)
            )
        return self.rng.choice((one, Compare("==", binary("mod", WAVE, 2), ZERO), Compare(">", WAVE, ZERO)))

    def apart_accesses(self, group: Sequence[str], alone: bool = False, copies: bool = True) -> None:
        """Accesses of which no two waves' conflict. `alone`: only one wave runs them."""
        rng, base = self.rng, self.rng.choice(group)
        slot, kinds = self.slot(base), [each for each in self.kinds() if copies]
        mode = rng.choice(("own", "own", "read", "all" if alone else "own", "copy", "unknown", "call"))
        calls = [name for name, per_wave in self.callable if per_wave]
        if mode == "copy" and kinds:
            self.emit(rng.choice(kinds), g.Ref(base, slot, self.mine()), (), ROW)
        elif mode == "unknown" and alone and self.chance(0.3):
            self.spend()
            self.b.add(g.Unknown((base,)), label="unknown", insertable=not self.apart)
            self.tag("unknown")
        elif calls and (mode == "call" or self.chance(0.4)):
            self.b.add(g.Call(calls[0], (("%p", g.Ref(base, slot)),)), label="call")
            self.tag("call per wave")
        else:
            for _ in range(rng.choice((1, 1, 2))):
                kind = "local_read" if mode == "read" else rng.choice(("local_read", "local_write", "local_write"))
                if mode == "all":
                    self.emit(kind, g.Ref(base, slot), (), self.waves * ROW)
                elif mode == "read":
                    self.emit(kind, g.Ref(base, self.slot(base), self.anywhere()), (), ROW)
                else:
                    self.emit(kind, g.Ref(base, slot, self.mine()), (), ROW, masked=True)

    def dispatch(self, one: list[str], two: list[str]) -> None:
        self.tag("dispatch")
        cut = self.rng.randrange(1, self.waves)
        start = self.b.add(g.Dispatch(((0, cut),)), label="specialize")
        first, ends = len(self.b.points), []
        for group in (one, two):
            self.b.open = [start]
            self.b.compute("group")
            if group:
                self.apart_accesses(group)
            ends += self.b.open
        self.mark(first, len(self.b.points), "per_wave")
        self.b.open = ends
        self.b.compute("join", insertable=False)

    def loop_per_wave(self, group: list[str]) -> None:
        """A loop that each wave runs as often as its number says; never as often as all others."""
        self.tag("per wave loop")
        counter = self.fresh("j")
        start = len(self.b.points) + 1
        with self.b.loop(counter, 0, WAVE):
            self.apart_accesses(group, copies=False)
        self.mark(start, len(self.b.points), "per_wave")

    def divergent(self, group: list[str]) -> None:
        """Lanes disagree: the wave may run the arm, and only some of its lanes touch memory."""
        self.tag("divergent")
        self.free += self.waves
        choice = self.b.add(g.Branch(None), label="conditional")
        first = len(self.b.points)
        base = self.rng.choice(group)
        kind = self.rng.choice(("local_read", "local_write"))
        self.emit(kind, g.Ref(base, self.slot(base), self.mine()), (), ROW, may=True)
        self.mark(first, len(self.b.points), "divergent")
        self.b.open = [*self.b.open, choice]
        self.b.compute("join", insertable=False)

    # --- places ---

    def mine(self) -> Index:
        return binary("*", WAVE, ROW)

    def permuted(self) -> Index:
        """The row of another wave, of a different one for each."""
        shifted = binary("mod", binary("+", WAVE, self.rng.randrange(1, self.waves)), self.waves)
        return binary("*", self.rng.choice((shifted, Binary("-", Const(self.waves - 1), WAVE))), ROW)

    def anywhere(self) -> Index:
        """A row, which several waves may choose."""
        one = binary("*", Select(Compare("==", WAVE, ZERO), ONE, ZERO), ROW)
        return self.rng.choice((self.permuted(), self.permuted(), ZERO, Const(ROW), one))

    def ref(self, base: str, slot: Index | None = None) -> g.Ref:
        return g.Ref(base, self.slot(base) if slot is None else slot)

    def slot(self, base: str) -> Index:
        slots = self.slots_of.get(base, 1)
        if slots == 1:
            return ZERO
        rng, kind = self.rng, self.rng.random()
        if self.carried and kind < 0.4:
            name = Name(rng.choice(self.carried))
            return self.ahead(name, slots) if self.chance(0.4) else name
        if not self.counters or kind < 0.5:
            self.tag("slot constant")
            return Const(rng.randrange(slots))
        if len(self.counters) > 1 and kind < 0.56:
            self.tag("slot of two counters")
            two = Binary("+", Name(self.counters[-1]), Name(self.counters[-2]))
            return binary("mod", two, slots)
        if kind < 0.6:
            self.tag("slot by wave")
            return binary("mod", Binary("+", Name(self.counters[-1]), WAVE), slots)
        counter = Name(self.counters[-1] if self.chance(0.8) else rng.choice(self.counters))
        if self.chance(0.5):
            return self.ahead(counter, slots)
        self.tag("slot k mod n")
        self.offsets.add(0)
        return binary("mod", counter, slots)

    def ahead(self, index: Index, slots: int) -> Index:
        offset = self.rng.randrange(1, slots + 1)
        self.tag("slot k + c")
        self.offsets.add(offset)
        return binary("mod", binary("+", index, offset), slots)

    # --- accesses ---

    def kinds(self) -> list[str]:
        """Copies that a wait of the wave can complete; others need an mbarrier."""
        return [
            each
            for each in COPIES
            if self.target.has(each) and (self.target.counter_of(each) or not self.target.counters)
        ]

    def touch(self, base: str, slot: Index) -> None:
        """An access by all waves, of which no two instances of one moment conflict."""
        rng, kinds = self.rng, self.kinds()
        kind = rng.choice(
            ("local_read", "local_read", "local_read", "local_write", "local_write", "local_write", "atomic")
        )
        if kinds and self.chance(0.3):
            kind = rng.choice(kinds)
        if kind == "atomic":
            self.atomic(base, slot)
        elif kind in ("local_read", "lds_to_global"):
            self.read(kind, base, slot)
        else:
            self.write(kind, base, slot)

    def read(self, kind: str, base: str, slot: Index) -> None:
        choice = self.rng.random()
        if choice < 0.2:
            self.tag("read all")
            self.emit(kind, g.Ref(base, slot), (), self.waves * ROW)
        elif choice < 0.26 and base in self.slots_of:
            self.tag("inexact")
            self.emit(kind, g.Ref(base, slot, Inexact(binary("*", binary("xor", WAVE, 1), 4))), (), 4)
        elif choice < 0.3 and base in self.slots_of:
            name = self.fresh("h")
            self.tag("havoc")
            self.b.add(g.Havoc((name,), self.chance(0.5)), label="read_index", insertable=self.chance(0.5))
            self.emit(kind, g.Ref(base, slot, binary("*", Name(name), 4)), (), 4)
        elif choice < 0.45:
            self.columns(kind, base, slot)
        else:
            self.emit(
                kind, g.Ref(base, slot, self.anywhere() if self.chance(0.8) else self.mine()), (), ROW, masked=True
            )

    def write(self, kind: str, base: str, slot: Index) -> None:
        choice = self.rng.random()
        if choice < 0.15:
            self.columns(kind, base, slot)
        elif choice < 0.25:
            self.tag("one writer")
            only = g.Extent(1, self.waves * ROW, Binary("-", ONE, WAVE))
            self.emit(kind, g.Ref(base, slot), (only,), self.waves * ROW)
        elif choice < 0.5:
            self.tag("permuted write")
            self.emit(kind, g.Ref(base, slot, self.permuted()), (), ROW, masked=True)
        elif choice < 0.6:
            self.emit(kind, g.Ref(base, slot, binary("+", self.mine(), 4)), (), 4)
        else:
            self.emit(kind, g.Ref(base, slot, self.mine()), (), ROW, masked=True)

    def columns(self, kind: str, base: str, slot: Index) -> None:
        """Two bytes of every so many: each wave's lie between those of the others."""
        self.tag("columns")
        self.emit(kind, g.Ref(base, slot, binary("*", WAVE, 2)), (g.Extent(ROW // 2, 2 * self.waves),), 2)

    def atomic(self, base: str, slot: Index) -> None:
        self.spend()
        fetches = self.chance(0.5)
        self.tag("atomic" if fetches else "commuting atomic")
        at = self.rng.choice((self.mine(), self.permuted())) if fetches else self.rng.choice((ZERO, self.anywhere()))
        operator = self.rng.choice(("add", "add", "max"))
        foot = g.Footprint(g.Ref(base, slot, at), (), ROW)
        element = "f32" if len(self.b.points) % 4 == 3 else "i32"
        access = g.Access("atomic", foot, operator=operator, fetches=fetches, element=element)
        self.add_access(access, "atomic_add")

    def emit(
        self,
        kind: str,
        place: g.Ref,
        extents: tuple[g.Extent, ...],
        width: int,
        *,
        masked: bool = False,
        may: bool = False,
    ) -> None:
        """An access or a copy at a place; `masked`: some of its bytes may be left out."""
        self.spend()
        if masked and self.chance(0.1):
            may = True
        elif masked and self.chance(0.1):
            sized = "N0" in self.size_names() and self.trips <= 4
            limit: Index = Name("N0") if sized and self.chance(0.5) else Const(self.rng.randrange(5))
            extents, width = (g.Extent(4, 2, limit),), 2
            self.tag("tail limit")
        if may:
            self.tag("masked")
        foot = g.Footprint(place, extents, width, may)
        if kind in ("local_read", "local_write"):
            self.add_access(g.Access(kind.removeprefix("local_"), foot), kind)
            return
        effect, proxy = (
            ("read" if kind == "lds_to_global" else "write"),
            self.target.operations[kind].proxy or "generic",
        )
        self.tag("copy out" if effect == "read" else "copy in", *(("proxies",) if proxy != "generic" else ()))
        self.add_access(g.Access(effect, foot, True, proxy), kind)
        grouped = [name for name, each in self.target.counters.items() if each.unit == "groups"]
        if grouped and self.chance(0.7):
            self.b.sync(ops.CommitGroup(), issues=tuple(g.Issue(name, 1, 1) for name in grouped), label="commit_group")

    def spend(self) -> None:
        self.left -= 1

    def add_access(self, access: g.Access, kind: str) -> None:
        role = {"local_read": "local_read", "local_write": "local_write", "atomic_add": "local_write"}.get(kind, "copy")
        if self.apart or self.chance(0.1):
            self.b.compute("before")
        self.b.add(access, label=kind, role=role, issues=self.issues(kind), insertable=not self.apart)
        if self.chance(0.1):
            self.b.compute("global_read", role="global_read", issues=self.issues("global_read"))

    def issues(self, kind: str) -> tuple[g.Issue, ...]:
        counter = self.target.counter_of(kind)
        if not counter:
            return ()
        in_order = self.target.operations[kind].in_order
        if self.target.counters[counter].unit == "groups":
            return (g.Issue(counter, 0, 0, in_order),)
        least = self.rng.choice((1, 1, 2))
        return (g.Issue(counter, least, least + self.rng.choice((0, 0, 1)), in_order),)


# --- programs with a stagger --------------------------------------------------------------------------------------


def staggered_program(rng: random.Random) -> tuple[g.SyncGraph, Target, Features]:
    """Ping-pong by hand: conditional barriers hold one half of the waves back in a loop, by one arrival or by two."""
    maker = _Staggered(rng)
    graph = maker.make()
    return graph, maker.target, maker.features(graph)


class _Staggered(_Maker):
    """As a program, around and in one loop. Nothing in it ends a wave early, or the halves would never be even."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.waves = rng.choice((2, 2, 4))
        self.left = rng.choice((3, 4, 5, 6))
        self.b = GraphBuilder("program", waves=self.waves, target=self.target.name, lanes="one")

    def make(self) -> g.SyncGraph:
        rng = self.rng
        self.apart = self.chance(0.1)
        self.declare()
        self.b.program(0, self.waves)
        self.prepare()
        for _ in range(rng.choice((0, 0, 1))):
            self.one_access()
        by = rng.choice((1, 1, 2))
        first, second = rng.choice((("high", "low"), ("high", "low"), ("low", "high")))
        self.tag(f"stagger {by}", *(("low half held back",) if first == "low" else ()))
        for _ in range(by):
            self.b.sync(ops.ConditionalBarrier(first), label="conditional_barrier")
        self.loop_part()
        for _ in range(by):
            self.b.sync(ops.ConditionalBarrier(second), label="conditional_barrier")
        for _ in range(rng.choice((0, 1, 1))):
            self.one_access()
        self.b.add(g.End(), label="end")
        return self.b.finish()

    def part(self) -> None:
        """Sometimes a barrier of the schedule is in the loop."""
        if self.counters and self.chance(0.15):
            self.tag("standing bare", "standing pinned")
            self.b.sync(ops.WorkgroupBarrier(True), label="workgroup_barrier")
        super().part()

    def early_exit(self) -> None:
        self.one_access()


# --- programs with some synchronization ---------------------------------------------------------------------------


def partly_synchronized(rng: random.Random) -> tuple[g.SyncGraph, Target, Features]:
    """A program in which barriers stand already: whole or bare, some pinned; pairs with one step between; waits."""
    maker = _Maker(rng)
    graph = maker.make()
    places = [n for n, point in enumerate(graph.points) if point.insertable and point.under == "uniform"]
    edits: dict[int, tuple[ops.SyncOp, ...]] = {}
    for place in rng.sample(places, min(len(places), rng.choice((1, 1, 2, 3)))):
        after = _next_alone(graph, place)
        if maker.target.barrier.split and rng.random() < 0.6 and after in places:
            if not edits.keys() & {place, after}:
                edits[place] = (*_drain(rng, maker.target), ops.Signal(-1, rng.random() < 0.2))
                edits[after] = (ops.Wait(-1),)
                maker.tag("standing pair")
        elif place not in edits:
            edits[place] = _standing(rng, maker)
    alone = [n for n, point in enumerate(graph.points) if point.insertable and point.under == "per_wave"]
    if alone and rng.random() < 0.5:  # a wait is for whichever wave comes there
        edits[rng.choice(alone)] = _drain(rng, maker.target, least=1)
        maker.tag("standing wait of some waves")
    plan = Plan(tuple(Insert(place, op) for place, added in sorted(edits.items()) for op in added))
    graph = apply_to_graph(plan, graph)
    return graph, maker.target, maker.features(graph)


def _next_alone(graph: g.SyncGraph, place: int) -> int:
    """The point after this one, if no other point leads there and this one leads nowhere else."""
    action, following = graph.points[place].action, graph.points[place].successors
    if not isinstance(action, g.Access | g.Compute | g.Assign) or following == (place,):
        return -1
    return following[0] if g.predecessors(graph)[following[0]] == [place] else -1


def _standing(rng: random.Random, maker: _Maker) -> tuple[ops.SyncOp, ...]:
    pinned = rng.random() < 0.25
    if pinned:
        maker.tag("standing pinned")
    kind = rng.random()
    if kind < 0.4:
        maker.tag("standing barrier")
        return (ops.SharedMemoryBarrier(wait_async_ops=rng.random() < 0.4, pinned=pinned),)
    if kind < 0.8:
        maker.tag("standing bare")
        return *_drain(rng, maker.target), ops.WorkgroupBarrier(pinned)
    maker.tag("standing wait")
    return _drain(rng, maker.target, least=1)


def _drain(rng: random.Random, target: Target, least: int = 0) -> tuple[ops.SyncOp, ...]:
    """Waits for some of what the wave has in flight, or for nothing."""
    waits: list[ops.SyncOp] = [ops.Fence("wave")]
    waits += (ops.WaitCount(((name, rng.choice((0, 0, 1))),)) for name in target.counters if _counts(target, name))
    return tuple(rng.sample(waits, rng.choice((least, 1))))


def _counts(target: Target, name: str) -> bool:
    kinds = (*COPIES, "local_read")
    return any(target.has(each) and target.counter_of(each) == name for each in kinds)


# --- kernels ------------------------------------------------------------------------------------------------------


def random_kernel_program(rng: random.Random) -> tuple[Kernel, Target, Features]:
    """A kernel without synchronization, with the promises of `random_program`."""
    maker = _KernelMaker(rng)
    return maker.make(), maker.target, maker.features()


ELEMENTS = 2  # of a row, four bytes each
ROW_TILE = Tile((1, ELEMENTS), i32)


class _KernelMaker:
    """Builds one kernel: rows by wave, slots by counter or carried, conditions, copies."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.target = load_target(rng.choice(TARGETS))
        self.waves = rng.choice((2, 2, 3, 4))
        self.slots = rng.choice((1, 1, 2, 2, 3))
        self.left = rng.choice((3, 4, 5, 6, 8))
        self.b = Builder(spans=False)
        self.counters: list[str] = []
        self.carried: list[str] = []
        self.tags: set[str] = set()
        self.offsets: set[int] = set()
        self.depth = self.nested = self.accesses = 0
        self.trips = 1
        self.sizes: list[Size] = []
        self.where: list[Cond] = []

    def chance(self, of: float) -> bool:
        return self.rng.random() < of

    def features(self) -> Features:
        offsets = tuple(sorted(self.offsets))
        tags = frozenset(self.tags)
        return Features(self.target.name, self.waves, self.depth, self.slots, offsets, self.accesses, tags)

    def make(self) -> Kernel:
        rows = Lds((self.waves, ELEMENTS), i32, self.slots)
        self.source = Value("%X", Global((self.waves, ELEMENTS), i32))
        self.dest = Value("%Y", Global((self.waves, ELEMENTS), i32))
        self.flag = Value("%flag", FLAG)
        self.buffers = [self.b.fresh("lds", rows), self.b.fresh("lds", replace(rows, slots=1))]
        for buffer in self.buffers:
            self.b.emit(ops.Alloc(buffer))
        self.tile, self.mask = self.b.fresh("tile", ROW_TILE), self.b.fresh("mask", Tile(ROW_TILE.shape, i1))
        self.b.emit(ops.Fill(self.tile, 1.0))
        self.b.emit(ops.Fill(self.mask, 1.0))
        while self.left > 0:
            self.part()
        return self.b.kernel(
            "program",
            (self.source, self.dest, self.flag),
            self.waves,
            sizes=tuple(self.sizes),
            where=tuple(self.where),
            target=self.target.name,
        )

    def part(self) -> None:
        kind = self.rng.random() if self.left > 0 and self.nested < MOST_NESTED else 1.0
        if kind < 0.3 and len(self.counters) < 3 and self.trips <= 6:
            self.loop()
        elif kind < 0.4:
            self.tags.add("flag")
            self.conditional(self.uniform_cond(), self.parts)
        elif kind < 0.5:
            self.tags.add("per wave")
            self.conditional(Compare("==", WAVE, Const(self.rng.randrange(self.waves))), self.own_access)
        elif kind < 0.53 and not self.counters:
            self.tags.add("early exit")
            self.conditional(Flag("%flag"), lambda: self.b.emit(ops.Exit()))
        else:
            self.access()

    def parts(self) -> None:
        for _ in range(self.rng.choice((1, 2, 3))):
            self.part()

    def uniform_cond(self) -> Cond:
        if self.counters and self.chance(0.5):
            self.tags.add("counter condition")
            return Compare(">", Name(self.rng.choice(self.counters)), ZERO)
        return Flag("%flag")

    def conditional(self, cond: Cond, then: Callable[[], None]) -> None:
        kept = len(self.carried)
        self.nested += 1
        self.b.open()
        then()
        arm = self.b.close()
        self.nested -= 1
        del self.carried[kept:]
        self.b.branch(cond, arm, ops.Block())

    def loop(self) -> None:
        rng, kept = self.rng, len(self.carried)
        self.tags.update(("loop", "nest") if self.counters else ("loop",))
        lower, upper, trips = self.bounds()
        carried = []
        if self.slots > 1 and self.chance(0.5):
            carried.append(Carried(self.b.fresh("s", INDEX), Const(rng.randrange(self.slots))))
            self.carried.append(carried[0].value.name)
        counter = self.b.counter("k")
        self.counters.append(counter.name)
        self.depth = max(self.depth, len(self.counters))
        before, self.trips = self.trips, self.trips * trips
        self.nested += 1
        self.b.open()
        self.parts()
        body = self.b.close([self.stepped(each.value.name) for each in carried])
        self.nested -= 1
        self.trips = before
        self.counters.pop()
        del self.carried[kept:]
        results = self.b.loop(lower, upper, body, counter, tuple(carried))
        self.carried += [each.name for each in results if not self.nested]

    def bounds(self) -> tuple[Index, Index, int]:
        if not self.sizes and self.chance(0.5):
            self.tags.add("symbolic trips")
            self.sizes.append(Size("N", 2))
            least = self.rng.choice((1, 1, 2))
            self.where += [Compare(">=", Name("N"), Const(least))] * (least > 1)
            if self.chance(0.4):
                self.tags.update(("zero trips possible",) if least < 2 else ())
                return ONE, Name("N"), self.slots + 2
            return ZERO, Name("N"), self.slots + 2
        trips = self.rng.choice((0, 1, 2, 3))
        self.tags.add("constant trips" if trips else "never runs")
        return ZERO, Const(trips), max(1, trips)

    def stepped(self, name: str) -> Index:
        after = binary("+", Name(name), 1)
        form = self.rng.choice(FORMS)
        self.tags.add(f"carried {form}")
        op = {"equal": "==", "at_least": ">=", "less": "<"}.get(form)
        if op is None:
            return binary("mod", after, self.slots)
        test = Compare(op, after, Const(self.slots))
        return Select(test, after, ZERO) if form == "less" else Select(test, ZERO, after)

    # --- accesses ---

    def slot(self, buffer: Value) -> Index:
        assert isinstance(buffer.type, Lds)
        slots = buffer.type.slots
        if slots == 1:
            return ZERO
        if self.carried and self.chance(0.5):
            return Name(self.rng.choice(self.carried))
        if not self.counters or self.chance(0.2):
            self.tags.add("slot constant")
            return Const(self.rng.randrange(slots))
        ahead = self.rng.randrange(slots)
        self.offsets.add(ahead)
        self.tags.add("slot k + c" if ahead else "slot k mod n")
        counter = Name(self.counters[-1])
        return binary("mod", binary("+", counter, ahead) if ahead else counter, slots)

    def place(self, row: Index) -> Place:
        buffer = self.rng.choice((self.buffers[0], self.buffers[0], self.buffers[1]))
        return Place(buffer, self.slot(buffer), (row, ZERO))

    def other_row(self) -> Index:
        return binary("mod", binary("+", WAVE, self.rng.randrange(1, self.waves)), self.waves)

    def own_access(self) -> None:
        """An access that no other wave's can conflict with."""
        self.count()
        if self.chance(0.5):
            self.b.emit(ops.LocalWrite(self.tile, self.place(WAVE)))
        else:
            self.b.emit(ops.LocalRead(self.b.fresh("read", ROW_TILE), self.place(WAVE)))

    def count(self) -> None:
        self.left -= 1
        self.accesses += 1

    def access(self) -> None:
        self.count()
        rng = self.rng
        copies = [each for each in COPIES if self.target.has(each) and self.waits_for(each)]
        kind = rng.choice(("read", "read", "write", "write", "atomic", "all", *copies[:2]))
        mask = self.mask if self.chance(0.15) else None
        row = self.other_row() if self.chance(0.6) else WAVE
        match kind:
            case "read":
                self.b.emit(ops.LocalRead(self.b.fresh("read", ROW_TILE), self.place(row), (), mask))
            case "all":
                self.tags.add("read all")
                tile = Tile((self.waves, ELEMENTS), i32)
                self.b.emit(ops.LocalRead(self.b.fresh("read", tile), self.place(ZERO)))
            case "write":
                self.tags.update(("permuted write",) if row != WAVE else ())
                self.b.emit(ops.LocalWrite(self.tile, self.place(row), (), mask))
            case "atomic":
                fetched = self.b.fresh("before", ROW_TILE) if self.chance(0.5) else None
                self.tags.add("atomic" if fetched else "commuting atomic")
                self.b.emit(ops.AtomicAdd(fetched, self.tile, self.place(row)))
            case _:
                self.copy(kind, row)
        if mask is not None and kind in ("read", "write"):
            self.tags.add("masked")

    def waits_for(self, kind: str) -> bool:
        return bool(self.target.counter_of(kind)) or not self.target.counters

    def copy(self, kind: str, row: Index) -> None:
        far = Place(self.source if kind != "lds_to_global" else self.dest, ZERO, (WAVE, ZERO))
        if kind == "lds_to_global":
            self.tags.add("copy out")
            self.b.emit(ops.LdsToGlobal(None, self.place(row), far, ROW_TILE))
        else:
            self.tags.add("copy in")
            made = ops.GatherToLds if kind == "gather_to_lds" else ops.TensorLoadToLds
            self.b.emit(made(None, far, self.place(row), ROW_TILE))
        if self.target.operations[kind].proxy not in ("", "generic"):
            self.tags.add("proxies")
        if any(each.unit == "groups" for each in self.target.counters.values()) and self.chance(0.7):
            self.b.emit(ops.CommitGroup())
