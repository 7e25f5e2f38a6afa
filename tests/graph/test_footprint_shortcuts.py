"""Ways to an answer that save time give the answer of the way that they save.

A guess stands for a question to isl, one wave for all of them, a form for the accesses that have it, and a flag that
only lets two accesses run is left out. Each is switched off here, and what is found without it is the same; all but
the example that is shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from oracles.programs.random_graphs import built_graph
from oracles.programs.random_kernels import small_kernel
from oracles.programs.small_graphs import small_graph
from tidegate.footprint import Conflicts, Meeting, ask, find_footprints
from tidegate.footprint.ask import Answer, OverlapSolver
from tidegate.footprint.forms import Forms
from tidegate.footprint.guess import guess
from tidegate.footprint.questions import AHEAD, Asker, Question, Side
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.index import TRUE, ZERO, Binary, Compare, Cond, Const, Index, Name, holds, names
from tidegate.language.points import find_point
from tidegate.targets import load_target

Patch = pytest.MonkeyPatch


# --- questions ----------------------------------------------------------------------------------------------------


def trips(rng: random.Random) -> Index:
    """How often a loop over a size runs, a few rounds of which were taken out."""
    size: Index = Name("n")
    if rng.random() < 0.6:
        size = Binary("//", Binary("+", size, Const(31)), Const(32))
    return Binary("max", ZERO, Binary("+", size, Const(-rng.randrange(3))))


def side(rng: random.Random, wave: str, counter: Index, facts: tuple[Cond, ...]) -> Side:
    slots, size = rng.choice((1, 2, 3, 4)), rng.choice((64, 256))
    base = rng.choice((counter, counter, trips(rng), ZERO))
    start: Index = Binary("mod", Binary("+", base, Const(rng.randrange(4))), Const(slots))
    start = Binary("*", start, Const(size))
    if rng.random() < 0.3:
        start = Binary("+", start, Binary("*", Name(wave), Const(size // 4)))
    return Side(TRUE, start, (), rng.choice((16, size)), facts, (0, slots * size))


def question(rng: random.Random) -> Question:
    """Two slots, by a counter or by how often a loop has run; the loop of a counter ends with the size."""
    carried = rng.random() < 0.4
    x_count, y_count = ("i", "i") if carried else rng.choice((("s0", "s0"), ("x0", "y0"), ("x0", "s0")))
    x = side(rng, "u", Name(x_count), _within(rng, Name(x_count)))
    y = side(rng, "v", AHEAD if carried else Name(y_count), _within(rng, Name(y_count)))
    used = sorted({name for each in (x, y) for expr in (*each.expressions(), *each.facts) for name in names(expr)})
    waves = rng.choice((1, 2, 4))
    low = {"d": 1, "n": rng.choice((1, None))}
    high = {"u": waves - 1, "v": waves - 1}
    ranges = tuple((name, low.get(name, 0), high.get(name)) for name in used)
    rounds = tuple(name for name in used if name == "y0")
    left = tuple((name, rng.choice((None, trips(rng)))) for name in used if name == "x0" and "n" in used)
    return Question(waves, carried, None, x, y, (), ranges, (), rounds, left)


def _within(rng: random.Random, counter: Index) -> tuple[Cond, ...]:
    return (Compare("<", Binary("*", counter, Const(32)), Binary("-", Name("n"), Const(rng.randrange(96)))),)


def told(answer: Answer) -> dict[object, object]:
    return {kind: (each.distance, each.rounds, each.left, each.exact) for kind, each in answer.items()}


def answers(count: int) -> list[dict[object, object]]:
    return [told(OverlapSolver().answer_new(question(random.Random(seed)))) for seed in range(count)]


def test_a_guess_is_a_point() -> None:
    guessed = 0
    for seed in range(400):
        asked = question(random.Random(seed))
        conds = [*asked.x.facts, *asked.y.facts, Compare("==", asked.x.start, asked.y.start)]
        conds += [Compare(">=", Name(name), Const(low)) for name, low, _ in asked.ranges if low is not None]
        conds += [Compare("<=", Name(name), Const(high)) for name, _, high in asked.ranges if high is not None]
        point = guess(conds, ("d", *asked.rounds), asked.left)
        if point is not None:
            guessed += 1
            assert all(holds(cond, point) for cond in conds), seed
            assert isinstance(find_point(conds, ()), dict), seed
    assert guessed > 50


def test_answers_that_are_guessed_are_those_of_isl(monkeypatch: Patch) -> None:
    found: list[bool] = []

    def noted(*args: object) -> dict[str, int] | None:
        point = guess(*args)  # type: ignore[arg-type]
        found.append(point is not None)
        return point

    monkeypatch.setattr(ask, "guess", noted)
    with_guesses = answers(400)
    monkeypatch.setattr(ask, "guess", lambda *_: None)
    assert with_guesses == answers(400)
    assert found.count(True) > 50
    assert found.count(False) > 5


def test_one_wave_answers_for_all_where_waves_are_alike(monkeypatch: Patch) -> None:
    together = answers(300)
    monkeypatch.setattr(ask, "_tells_waves_apart", lambda _: True)
    monkeypatch.setattr(ask, "_is_plain", lambda _: False)
    assert together == answers(300)


# --- flows --------------------------------------------------------------------------------------------------------


def graphs(first: int, count: int) -> Iterator[tuple[int, g.SyncGraph]]:
    for seed in range(first, first + count):
        kernel = small_kernel(random.Random(seed), exact=True)
        yield seed, build_graph(kernel, load_target(kernel.target)).graph
        yield seed, built_graph(random.Random(seed))
        yield seed, small_graph(random.Random(seed))[0]


def meetings(graph: g.SyncGraph) -> dict[tuple[int, int, int], list[object]]:
    flow = flow_of(graph)
    conflicts = Conflicts(flow, find_footprints(flow))
    found = {}
    for x, y in product(conflicts.footprints.accesses, repeat=2):
        common = [loop for loop in flow.loops_around(x) if loop in flow.loops_around(y)]
        for loop in (-1, *common):
            found[x, y, loop] = [_shown(each) for each in conflicts.meetings(x, y, loop)]
    return found


def _shown(meeting: Meeting) -> object:
    return (meeting.distance, meeting.pairs, sorted(meeting.rounds), meeting.exact)


def without_forms(patch: Patch) -> None:
    patch.setattr(Forms, "of", lambda *_: None)


def with_all_flags(patch: Patch) -> None:
    patch.setattr(Asker, "always_so", lambda *_: frozenset())


@pytest.mark.parametrize("without", [with_all_flags, without_forms])
@pytest.mark.parametrize(("first", "count"), [(0, 4), pytest.param(4, 20, marks=pytest.mark.slow)])
def test_meetings_are_the_same_without(
    without: Callable[[Patch], None], first: int, count: int, monkeypatch: Patch
) -> None:
    drawn = list(graphs(first, count))
    before = [meetings(graph) for _, graph in drawn]
    without(monkeypatch)
    for (seed, graph), known in zip(drawn, before, strict=True):
        found = meetings(graph)
        for pair, each in known.items():
            assert each == found[pair], (seed, pair)
