"""The least weight of barriers by search, with the simulator as the only judge: a twin that placement is held against.

    weight, places = least_weight(graph, target)          before which points a barrier has to stand
    graph, target = small_program(random.Random(7), "loop")   with few places, so that the search is short
    is_clean(with_barriers(graph, target, places), target)

A barrier here drains everything of its wave and meets all others; where proxies are crossed, a fence stands on both
sides of it. Such a barrier at a place that all waves reach never hurts, so that a set of places that leaves a race
leaves one without any of its places, too. That is all the search relies on:

    clauses = []                                  at least one place of each is needed
    repeat: take the lightest set that meets every clause; if the judge finds nothing in it, it is the answer
            else add places to it as long as something is found; those that are left out are another clause

Knows nothing of hazards, windows, paths or trips.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.model import predecessors
from tidegate.graph.plan import Insert, Plan
from tidegate.index import ZERO, Binary, Compare, Cond, Const, Flag, Index, Name, Select
from tidegate.language import ops
from tidegate.simulate.judge import judge
from tidegate.targets import Target, load_target

# --- barriers -----------------------------------------------------------------------------------------------------


def places_of(graph: g.SyncGraph) -> list[int]:
    """Points before which a barrier may stand: all waves come there, and no signal waits for its wait."""
    held = _between_signal_and_wait(graph)
    return [
        number
        for number, point in enumerate(graph.points)
        if point.insertable and point.under == "uniform" and number not in held
    ]


def _between_signal_and_wait(graph: g.SyncGraph) -> set[int]:
    held: set[int] = set()
    work = [
        after
        for point in graph.points
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, ops.Signal)
        for after in point.successors
    ]
    while work:
        number = work.pop()
        if number not in held:
            held.add(number)
            action = graph.points[number].action
            if not (isinstance(action, g.Sync) and isinstance(action.op, ops.Wait)):
                work += graph.points[number].successors
    return held


def barrier_at(graph: g.SyncGraph, target: Target) -> tuple[ops.SyncOp, ...]:
    """What is put at a place: after it every access before it is over, for all waves and both proxies."""
    barrier = ops.SharedMemoryBarrier(wait_async_ops=True)
    crossed = any(isinstance(each.action, g.Access) and each.action.proxy != "generic" for each in graph.points)
    if not (crossed and target.fence.proxy_needed and "proxy_async" in target.fence.kinds):
        return (barrier,)
    return ops.Fence("proxy_async"), barrier, ops.Fence("proxy_async")


def with_barriers(graph: g.SyncGraph, target: Target, places: Iterable[int]) -> g.SyncGraph:
    """The graph with a barrier before each of these points."""
    guard = barrier_at(graph, target)
    return apply_to_graph(Plan(tuple(Insert(place, op) for place in sorted(places) for op in guard)), graph)


def is_clean(graph: g.SyncGraph, target: Target) -> bool:
    """Whether the hostile machine finds nothing."""
    return not judge(graph, target).findings


# --- the search ---------------------------------------------------------------------------------------------------


class CannotBeFixed(Exception):
    """Barriers at all places leave something to be found."""


def least_weight(graph: g.SyncGraph, target: Target) -> tuple[float, tuple[int, ...]]:
    """The least weight of places that leave nothing to be found, and such places; of equal weight the fewest."""
    return _Search(graph, target).run()


Cost = tuple[float, int]


@dataclass(slots=True)
class _Search:
    graph: g.SyncGraph
    target: Target
    clauses: list[frozenset[int]] = field(default_factory=list)
    clean: list[frozenset[int]] = field(default_factory=list)  # sets that are known to suffice
    racy: list[frozenset[int]] = field(default_factory=list)  # sets that are known not to
    judged: int = 0

    def run(self) -> tuple[float, tuple[int, ...]]:
        places = distinct_places(self.graph)
        if not self.suffices(frozenset(places)):
            raise CannotBeFixed(self.graph.name)
        # Heavy places are tried first, so that clauses keep the light ones: those bound the weight from below.
        heavy_first = sorted(places, key=lambda each: (-self.graph.points[each].weight, each))
        while True:
            chosen = self.lightest()
            if self.suffices(chosen):
                return sum(self.graph.points[each].weight for each in chosen), tuple(sorted(chosen))
            self.clauses.append(frozenset(places) - self.grown(chosen, heavy_first))

    def grown(self, chosen: frozenset[int], order: Collection[int]) -> frozenset[int]:
        """As many more places as leave something to be found."""
        for place in order:
            if place not in chosen and not self.suffices(chosen | {place}):
                chosen |= {place}
        return chosen

    def suffices(self, chosen: frozenset[int]) -> bool:
        if any(known <= chosen for known in self.clean):
            return True
        if any(chosen <= known for known in self.racy):
            return False
        self.judged += 1
        found = is_clean(with_barriers(self.graph, self.target, chosen), self.target)
        (self.clean if found else self.racy).append(chosen)
        return found

    # --- the lightest set that meets every clause, by branch and bound ---

    def lightest(self) -> frozenset[int]:
        best: tuple[Cost, frozenset[int]] | None = None

        def cost(chosen: Iterable[int]) -> Cost:
            weights = [self.graph.points[each].weight for each in sorted(chosen)]
            return sum(weights), len(weights)

        def visit(chosen: frozenset[int], refused: frozenset[int]) -> None:
            nonlocal best
            at_least = cost(chosen)
            if best is not None and at_least >= best[0]:
                return
            open_ = [clause - refused for clause in self.clauses if not clause & chosen]
            if not open_:
                best = at_least, chosen
                return
            for place in sorted(min(open_, key=lambda each: (len(each), sorted(each)))):
                visit(chosen | {place}, refused)
                refused |= {place}

        visit(frozenset(), frozenset())
        assert best is not None, "a clause without places"
        return best[1]


def distinct_places(graph: g.SyncGraph) -> list[int]:
    """Places without those that are the same as the next one: nothing that a barrier could order lies between."""
    places = set(places_of(graph))
    before = predecessors(graph)
    entries = {each.entry for each in (*graph.programs, *graph.functions)}
    found = []
    for place in sorted(places):
        point = graph.points[place]
        silent = isinstance(point.action, g.Compute | g.Assign | g.Alloc | g.Free) and not point.issues
        after = point.successors[0] if len(point.successors) == 1 else -1
        same = silent and after in places and before[after] == [place] and after not in entries
        if not (same and graph.points[after].weight == point.weight):
            found.append(place)
    return found


# --- small programs -----------------------------------------------------------------------------------------------

SHAPES = ("line", "loop", "nest", "branches", "zero_trip", "any")
TARGETS = ("", "gfx942", "gfx1100", "gfx1201", "gfx1250", "sm_80")
MOST_PLACES = 12
UNIT = 4


def small_program(rng: random.Random, shape: str) -> tuple[g.SyncGraph, Target]:
    """A program without synchronization, of at most `MOST_PLACES` places that differ.

    line        accesses one after the other
    loop        one loop, and perhaps accesses before and after it; slots, up to three trips ahead
    nest        two or three loops in each other, each of which runs at least twice
    branches    conditions that nothing decides, in a loop or not
    zero_trip   loops that may run no time
    any         all of these in one

    Every condition and every symbolic trip count is a name of its own, and a condition in a loop is decided each time
    anew: all paths can be taken. Footprints are exact, loops say truly how often they run, and constant trips are so
    many that every slot is used again.
    """
    while True:
        made = _Small(rng, shape)
        graph = made.make()
        if len(distinct_places(graph)) <= MOST_PLACES:
            return graph, made.target


class _Small:
    def __init__(self, rng: random.Random, shape: str) -> None:
        self.rng, self.shape = rng, shape
        self.target = load_target(rng.choice(TARGETS))
        self.waves = rng.choice((2, 2, 3))
        self.slots = rng.choice((1, 1, 2, 2, 3, 3, 4) if shape == "loop" else (1, 1, 2))
        self.b = GraphBuilder(f"small_{shape}", waves=self.waves, target=self.target.name, lanes="one")
        self.b.buffer("%a", self.waves * UNIT, self.slots)
        self.b.buffer("%b", self.waves * UNIT, rng.choice((1, self.slots)))
        self.slots_of = {each.name: each.slots for each in self.b.parts["buffers"]}
        self.counters: list[str] = []
        self.carried: list[str] = []
        self.flags = self.sizes = 0
        self.choices = 1  # in one run
        self.trips = 1

    def chance(self, of: float) -> bool:
        return self.rng.random() < of

    def make(self) -> g.SyncGraph:
        parts: dict[str, Callable[[], None]] = {
            "line": lambda: self.accesses(3, 7),
            "loop": self.around_loop,
            "nest": lambda: self.nest(self.rng.choice((2, 2, 3))),
            "branches": self.branches,
            "zero_trip": self.zero_trip,
            "any": self.anything,
        }
        parts[self.shape]()
        return self.b.finish()

    def around_loop(self) -> None:
        self.accesses(0, 2)
        with self.loop():
            self.accesses(2, 4)
        self.accesses(0, 2)

    def nest(self, depth: int) -> None:
        self.accesses(0, 1)
        with self.loop(least=2):
            if depth > 1:
                self.nest(depth - 1)
            else:
                self.accesses(1, 3)
            self.accesses(0, 1)
        self.accesses(0, 1)

    def branches(self) -> None:
        self.accesses(0, 2)
        if self.chance(0.5):
            with self.loop():
                self.accesses(0, 1)
                self.branch()
                self.accesses(0, 2)
        else:
            self.branch()
            self.accesses(0, 1)
            self.branch()
        self.accesses(1, 2)

    def branch(self) -> None:
        with self.b.branch(self.cond()) as arms:
            self.accesses(1, 2)
            if self.chance(0.6):
                arms.otherwise()
                self.accesses(1, 1)

    def cond(self) -> Cond | None:
        """Nobody decides it: once, a flag of its own; in a loop, each time anew."""
        if self.counters or self.chance(0.3):
            self.choices *= 2**self.trips
            return None
        self.flags += 1
        return Flag(self.b.flag(f"%f{self.flags}").name)

    def zero_trip(self) -> None:
        self.accesses(1, 2)
        if self.chance(0.3):
            with self.loop(least=2):
                self.accesses(0, 1)
                with self.loop(least=0):
                    self.accesses(1, 2)
                self.accesses(1, 1)
        else:
            with self.loop(least=0):
                self.accesses(1, 3)
            self.accesses(0, 1)
            if self.chance(0.4):
                with self.loop(least=0):
                    self.accesses(1, 2)
        self.accesses(1, 2)

    def anything(self) -> None:
        for _ in range(self.rng.choice((1, 2, 2))):
            self.accesses(0, 1)
            kind = self.rng.choice(("loop", "nest", "branch", "loop with branch"))
            if kind == "branch":
                self.branch()
            else:
                with self.loop(least=self.rng.choice((0, 1, 2))):
                    self.accesses(1, 3)
                    if kind == "nest":
                        with self.loop(least=self.rng.choice((0, 1, 2))):
                            self.accesses(1, 2)
                    elif kind == "loop with branch" and self.trips <= 4:
                        self.branch()
        self.accesses(1, 2)

    @contextmanager
    def loop(self, least: int = 1) -> Iterator[None]:
        """At least so many trips: constant, or a size of its own, of which at most two are drawn."""
        rng, counter = self.rng, f"%k{len(self.b.points)}"
        name = self.carry()
        enough = self.slots + 1 + (not self.counters and self.slots < 3)
        lower: Index = ZERO
        if least == 0 or (self.sizes < 2 and self.chance(0.35)):
            self.sizes += 1
            size = self.b.size(f"N{self.sizes}", 3, *self.sizes_where(least))
            upper: Index = Binary("-", size, Const(1)) if least == 0 else size
            trips = self.slots + 2
        else:
            trips = rng.choice((enough, enough + 1)) if not self.counters else enough
            upper, least = Const(trips), trips
        before, self.trips = self.trips, self.trips * trips
        with self.b.loop(counter, lower, upper):
            head = len(self.b.points) - 1
            self.b.counted[head] = replace(self.b.counted[head], least=least)
            self.counters.append(counter)
            yield
            self.counters.pop()
            if name:
                self.b.add(g.Assign(((name, self.stepped(name)),)), label="step", insertable=False)
        self.trips = before

    def sizes_where(self, least: int) -> tuple[Cond, ...]:
        """Sizes are at least 1 anyway."""
        return (Compare(">=", Name(f"N{self.sizes}"), Const(2)),) if least == 2 else ()

    def carry(self) -> str:
        """A slot that the coming loop carries, if any."""
        self.carried = [] if not self.counters else self.carried
        if self.slots == 1 or self.counters or not self.chance(0.3):
            return ""
        name = f"%s{len(self.b.points)}"
        self.b.add(g.Assign(((name, Const(self.rng.randrange(self.slots))),)), label="start", insertable=False)
        self.carried.append(name)
        return name

    def stepped(self, name: str) -> Index:
        after = Binary("+", Name(name), Const(1))
        slots = Const(self.slots)
        return self.rng.choice(
            (
                Select(Compare("==", after, slots), ZERO, after),
                Select(Compare(">=", after, slots), ZERO, after),
                Select(Compare("<", after, slots), after, ZERO),
                Binary("mod", after, slots),
            )
        )

    # --- accesses ---

    def accesses(self, least: int, most: int) -> None:
        for _ in range(self.rng.randint(least, most)):
            self.access()
            if self.chance(0.15):
                self.b.compute("compute", insertable=self.chance(0.3))

    def access(self) -> None:
        base = self.rng.choice(("%a", "%a", "%a", "%b"))
        effect = self.rng.choice(("read", "write"))
        mine = Binary("*", Name("wave"), Const(UNIT))
        next_one = Binary("*", Binary("mod", Binary("+", Name("wave"), Const(1)), Const(self.waves)), Const(UNIT))
        slot = self.slot(self.slots_of[base])
        if effect == "write":
            self.b.write(
                base, slot=slot, offset=self.rng.choice((mine, mine, next_one)), bytes=UNIT, label="local_write"
            )
        elif self.chance(0.3):
            self.b.read(base, slot=slot, bytes=self.waves * UNIT, label="local_read")
        else:
            self.b.read(
                base, slot=slot, offset=self.rng.choice((mine, next_one, next_one)), bytes=UNIT, label="local_read"
            )

    def slot(self, slots: int) -> Index:
        if slots == 1:
            return ZERO
        if not self.counters or self.chance(0.1):
            return Const(self.rng.randrange(slots))
        name = Name(self.carried[0] if self.carried and self.chance(0.5) else self.counters[-1])
        ahead = self.rng.choice((0, 0, 1, 1, 2, 3))
        if not ahead and name.name in self.carried:
            return name
        return Binary("mod", Binary("+", name, Const(ahead)) if ahead else name, Const(slots))
