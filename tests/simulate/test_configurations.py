"""The configurations that are run against all that could be: what any size up to a bound shows, they must show.

The graphs have loops over a size, indices with `mod`, `//` and `select`, conditions on the counter and on the size, and
a default size of 1, so that nothing shows by luck.
"""

from __future__ import annotations

import random

import pytest

from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.show import show_graph
from tidegate.index import ZERO, Binary, Compare, Cond, Const, Index, Name, Select
from tidegate.language import ops
from tidegate.simulate.configurations import Configuration, Configurations, find_configurations
from tidegate.simulate.judge import Limits, _Judge
from tidegate.simulate.periods import trips_to_show
from tidegate.targets import load_target

TARGET = load_target("gfx942")
LARGEST = 30


def by(op: str, left: Index, right: int) -> Index:
    return Binary(op, left, Const(right))


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.b = GraphBuilder("c", waves=2, target="gfx942", lanes="one")
        self.b.size("N", 1)
        self.slots = rng.choice((1, 2, 3))
        self.b.buffer("%a", 8, self.slots, 0)

    def make(self) -> g.SyncGraph:
        rng, b = self.rng, self.b
        b.program(0, 2)
        if rng.random() < 0.3:
            self.access(Name("N"))
        with b.loop("%k", 0, rng.choice((Name("N"), Name("N"), by("//", Name("N"), 2)))):
            self.body(Name("%k"), 0)
        if rng.random() < 0.5:
            b.sync(ops.SharedMemoryBarrier())
        self.access(by("mod", Name("N"), rng.choice((2, 3))))
        b.add(g.End())
        return b.finish()

    def body(self, counter: Index, depth: int) -> None:
        for _ in range(self.rng.randint(2, 4)):
            kind = self.rng.random()
            if kind < 0.5:
                self.access(counter)
            elif kind < 0.8:
                self.b.sync(ops.SharedMemoryBarrier())
            elif depth < 2:
                with self.b.branch(self.cond(counter)):
                    self.body(counter, depth + 1)

    def access(self, counter: Index) -> None:
        slot = by("mod", self.index(counter), self.slots)
        mine, other = by("*", Name("wave"), 4), by("*", by("mod", by("+", Name("wave"), 1), 2), 4)
        place = g.Ref("%a", slot, self.rng.choice((mine, other)))
        self.b.add(g.Access(self.rng.choice(("read", "write")), g.Footprint(place, (), 4)))

    def index(self, k: Index) -> Index:
        rng = self.rng
        compare = Compare(rng.choice((">=", "==", "<")), k, Const(rng.randrange(7)))
        return rng.choice(
            (
                ZERO,
                by("mod", k, rng.choice((2, 3, 4))),
                by("mod", by("//", k, rng.choice((2, 3))), 2),
                Select(compare, Const(1), ZERO),
                by("mod", by("+", k, rng.randrange(3)), rng.choice((2, 3))),
            )
        )

    def cond(self, k: Index) -> Cond:
        rng = self.rng
        return rng.choice(
            (
                Compare(rng.choice(("<", "==", ">=")), k, Const(rng.randrange(8))),
                Compare("==", by("mod", k, rng.choice((2, 3))), ZERO),
                Compare("<", by("+", k, rng.randrange(1, 4)), Name("N")),
                Compare("==", by("mod", Name("N"), rng.choice((2, 3))), Const(rng.randrange(2))),
            )
        )


def shown_by(graph: g.SyncGraph, configurations: Configurations) -> set[tuple[str, int, int]]:
    """The clashes that any of these configurations shows, by statements."""
    judge = _Judge(graph, TARGET, Limits())
    for each in configurations.runs:
        judge.run(each, configurations)
    return set(judge.found)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(6))
def test_what_any_size_shows_is_shown(chunk: int) -> None:
    for seed in range(chunk * 20, (chunk + 1) * 20):
        graph = _Maker(random.Random(f"sizes {seed}")).make()
        group = (("wg0", 0), ("wg1", 0), ("wg2", 0))
        every = Configurations([Configuration((("N", size), *group)) for size in range(1, LARGEST)])
        missed = shown_by(graph, every) - shown_by(graph, find_configurations(graph))
        assert not missed, f"seed {seed}: {missed}\n{show_graph(graph)}"


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (by("mod", Name("%k"), 3), 3),
        (by("mod", by("*", Name("%k"), 2), 4), 2),
        (by("mod", by("//", Name("%k"), 2), 2), 4),
        (by("mod", Name("%n"), 7), 1),
        (Compare("<", Name("%k"), Const(9)), 9),
        (by("*", Name("%k"), 64), 1),
        (Select(Compare("==", by("+", Name("%k"), 1), Const(3)), ZERO, by("+", Name("%k"), 1)), 3),
    ],
)
def test_how_long_an_index_takes_to_repeat(expr: Index | Cond, expected: int) -> None:
    assert trips_to_show([expr], {"%k"}) == expected


def test_patterns_repeat_together() -> None:
    assert trips_to_show([by("mod", Name("%k"), 2), by("mod", Name("%k"), 3)], {"%k"}) == 6
