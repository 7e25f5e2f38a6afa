"""The least weight by search, on cases whose answer is known; and that random programs are what they promise to be."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations

import pytest

from oracles.brute.brute_placement import (
    MOST_PLACES,
    SHAPES,
    CannotBeFixed,
    distinct_places,
    is_clean,
    least_weight,
    places_of,
    small_program,
    with_barriers,
)
from oracles.programs.nests import count_hazards, nest_graph
from oracles.programs.random_sync import (
    TAGS,
    partly_synchronized,
    random_kernel_program,
    random_program,
    show_distribution,
    staggered_program,
)
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.graph.wellformed import check_graph
from tidegate.index import Binary, Compare, Const, Flag, Index, Name
from tidegate.language import ops
from tidegate.language.check import check
from tidegate.language.ops import Kernel
from tidegate.targets import Target, load_target

WAVES, ROW = 2, 4
TARGET = load_target("gfx942")
MINE = Binary("*", Name("wave"), Const(ROW))
OTHER = Binary("*", Binary("-", Const(1), Name("wave")), Const(ROW))


def builder(slots: int = 1) -> GraphBuilder:
    made = GraphBuilder("case", waves=WAVES, target="gfx942", lanes="one")
    made.buffer("%a", WAVES * ROW, slots)
    return made


def write(b: GraphBuilder, slot: Index | int = 0, offset: Index = MINE) -> int:
    return b.write("%a", slot=slot, offset=offset, bytes=ROW)


def read(b: GraphBuilder, slot: Index | int = 0) -> int:
    return b.read("%a", slot=slot, offset=OTHER, bytes=ROW)


# --- known answers ---


def test_line_of_write_and_read_needs_one() -> None:
    b = builder()
    write(b)
    second = read(b)
    assert least_weight(b.finish(), TARGET) == (1.0, (second,))


def test_reads_of_own_rows_need_none() -> None:
    b = builder()
    write(b)
    b.read("%a", offset=MINE, bytes=ROW)
    assert least_weight(b.finish(), TARGET) == (0.0, ())


def test_writes_of_each_others_rows_need_one() -> None:
    b = builder()
    write(b)
    second = write(b, offset=OTHER)
    assert least_weight(b.finish(), TARGET) == (1.0, (second,))


def test_one_barrier_serves_windows_that_meet() -> None:
    b = builder(slots=2)
    write(b, 0)
    write(b, 1)
    third = read(b, 0)
    read(b, 1)
    assert least_weight(b.finish(), TARGET) == (1.0, (third,))


@pytest.mark.parametrize(("slots", "each_trip"), [(1, 2), (2, 1), (3, 1), (4, 1)])
@pytest.mark.parametrize("trips", [6, "N"])
def test_loop_of_write_and_read(slots: int, each_trip: int, trips: int | str) -> None:
    b = builder(slots)
    weight = 16 if isinstance(trips, str) else trips
    with b.loop("%k", 0, b.size("N", 4) if isinstance(trips, str) else trips) as k:
        slot = Binary("mod", k, Const(slots))
        write(b, slot)
        read(b, slot)
    assert least_weight(b.finish(), TARGET)[0] == each_trip * weight


def test_copy_two_trips_ahead_needs_one_barrier_with_three_slots() -> None:
    b = builder(slots=3)
    with b.loop("%k", 0, 6) as k:
        foot = g.Footprint(g.Ref("%a", Binary("mod", Binary("+", k, Const(2)), Const(3)), MINE), (), ROW)
        b.add(g.Access("write", foot, is_async=True), issues=(g.Issue("vmcnt", 1, 1),))
        read(b, Binary("mod", k, Const(3)))
    assert least_weight(b.finish(), TARGET)[0] == 6


@pytest.mark.parametrize(("lower", "outside"), [(0, 0.0), (1, 1.0)])
def test_barrier_in_a_loop_serves_around_it_only_if_it_runs(lower: int, outside: float) -> None:
    """Sizes are at least 1: `0 .. N` runs, and what the loop needs anyway serves; `1 .. N` may not run."""
    b = builder(slots=3)
    write(b, 0)
    with b.loop("%k", lower, b.size("N", 4)):
        read(b, 2)
        write(b, 2)
    read(b, 0)
    inside = 2 * 16.0  # between the read and the write, and between that and the read of the next trip
    assert least_weight(b.finish(), TARGET)[0] == inside + outside


@pytest.mark.parametrize("both", [False, True])
def test_barrier_in_one_arm_does_not_serve_the_other(both: bool) -> None:
    """Each arm has a window of its own; one around both is served by barriers in both."""
    b = builder(slots=3)
    b.flag("%f")
    write(b, 0)
    with b.branch(Flag("%f")) as arms:
        write(b, 1)
        read(b, 1)
        if both:
            arms.otherwise()
            write(b, 2)
            read(b, 2)
    read(b, 0)
    graph = b.finish()
    total, places = least_weight(graph, TARGET)
    join = next(number for number, point in enumerate(graph.points) if point.label == "join")
    outside = [each for each in places if each > join]
    assert total == 2.0
    assert len(outside) <= (0 if both else 1)
    assert is_clean(with_barriers(graph, TARGET, places), TARGET)
    in_one_arm = [each for each in places if each < join][:1]
    assert not is_clean(with_barriers(graph, TARGET, in_one_arm), TARGET)


def test_outer_barrier_is_lighter_than_an_inner_one() -> None:
    b = builder()
    with b.loop("%i", 0, 3):
        write(b)
        with b.loop("%j", 0, 4):
            b.compute()
        read(b)
    total, _ = least_weight(b.finish(), TARGET)
    assert total == 2 * 3


def test_fence_between_proxies_is_part_of_a_barrier() -> None:
    target = load_target("sm_90")
    b = GraphBuilder("case", waves=WAVES, target="sm_90", lanes="one")
    b.buffer("%a", WAVES * ROW)
    write(b)
    foot = g.Footprint(g.Ref("%a", Const(0), OTHER), (), ROW)
    second = b.add(g.Access("read", foot, is_async=True, proxy="async"), issues=(g.Issue("bulk_group", 0, 0),))
    graph = b.finish()
    assert least_weight(graph, target) == (1.0, (second,))
    assert any(point.action == g.Sync(ops.Fence("proxy_async")) for point in with_barriers(graph, target, [1]).points)


def test_one_statement_that_conflicts_with_itself_cannot_be_fixed() -> None:
    b = builder()
    b.write("%a", bytes=ROW)
    with pytest.raises(CannotBeFixed):
        least_weight(b.finish(), TARGET)


def test_per_wave_places_are_none() -> None:
    b = builder()
    with b.branch(Compare("==", Name("wave"), Const(0))):
        b.write("%a", offset=MINE, bytes=ROW, under="per_wave")
    graph = b.finish()
    assert all(graph.points[each].under == "uniform" for each in places_of(graph))


def test_no_place_lies_between_signal_and_wait() -> None:
    b = builder()
    signal = b.sync(ops.Signal(-1))
    between = write(b)
    wait = b.sync(ops.Wait(-1))
    after = read(b)
    assert set(places_of(b.finish())) >= {signal, after}
    assert not {between, wait} & set(places_of(b.finish()))


# --- the search ---


@pytest.mark.parametrize("shape", SHAPES)
def test_search_finds_what_trying_all_sets_finds(shape: str) -> None:
    """All sets of all places, those that look alike too."""
    tried = 0
    for seed in range(400):
        graph, target = small_program(random.Random(f"all {shape} {seed}"), shape)
        places = places_of(graph)
        if len(places) > 8:
            continue
        assert least_weight(graph, target)[0] == by_trying(graph, target, places), f"{shape} {seed}"
        tried += 1
        if tried == 3:
            break
    assert tried == 3


def by_trying(graph: g.SyncGraph, target: Target, places: list[int]) -> float:
    sets = [each for count in range(len(places) + 1) for each in combinations(places, count)]
    weights = {each: sum(graph.points[place].weight for place in each) for each in sets}
    lightest_first = sorted(sets, key=lambda each: (weights[each], len(each)))
    return next(weights[each] for each in lightest_first if is_clean(with_barriers(graph, target, each), target))


@pytest.mark.slow
def test_more_barriers_never_hurt() -> None:
    rng = random.Random("more")
    for seed in range(18):
        graph, target = small_program(random.Random(f"more {seed}"), SHAPES[seed % len(SHAPES)])
        _, places = least_weight(graph, target)
        others = [each for each in places_of(graph) if each not in places]
        more = rng.sample(others, rng.randint(0, len(others)))
        assert is_clean(with_barriers(graph, target, [*places, *more]), target), seed


@pytest.mark.slow
def test_every_place_of_the_answer_is_needed() -> None:
    for seed in range(18):
        graph, target = small_program(random.Random(f"less {seed}"), SHAPES[seed % len(SHAPES)])
        _, places = least_weight(graph, target)
        for place in places:
            if graph.points[place].weight:
                fewer = [each for each in places if each != place]
                assert not is_clean(with_barriers(graph, target, fewer), target), seed


@pytest.mark.parametrize("shape", SHAPES)
def test_small_programs_are_small_and_can_be_fixed(shape: str) -> None:
    racy = 0
    for seed in range(30):
        graph, target = small_program(random.Random(f"small {shape} {seed}"), shape)
        places = distinct_places(graph)
        assert len(places) <= MOST_PLACES
        assert is_clean(with_barriers(graph, target, places), target), seed
        racy += not is_clean(graph, target)
    assert racy >= 15


# --- random programs ---

COUNT = 60


def chunks() -> list[object]:
    return [pytest.param(each, marks=[pytest.mark.slow] if each else []) for each in range(10)]


def of_kernel(rng: random.Random) -> tuple[g.SyncGraph, Target, object]:
    kernel, target, features = random_kernel_program(rng)
    return build_graph(kernel, target).graph, target, features


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_program, partly_synchronized, of_kernel])
@pytest.mark.parametrize("chunk", chunks())
def test_barriers_everywhere_make_random_programs_clean(
    make: Callable[[random.Random], tuple[g.SyncGraph, Target, object]], chunk: int
) -> None:
    racy = 0
    for seed in range(chunk * COUNT, (chunk + 1) * COUNT):
        graph, target, _ = make(random.Random(seed))
        assert check_graph(graph) == []
        guarded = with_barriers(graph, target, places_of(graph))
        assert is_clean(guarded, target), f"seed {seed}\n{show_graph(graph)}"
        racy += seed % 4 == 0 and not is_clean(graph, target)
    assert racy >= COUNT // 4 // 2


def test_random_programs_hold_no_synchronization_and_can_be_printed() -> None:
    for seed in range(100):
        graph, _, _ = random_program(random.Random(seed))
        found = [point.action.op for point in graph.points if isinstance(point.action, g.Sync)]
        assert all(isinstance(op, ops.CommitGroup) for op in found)
        assert parse_graph(show_graph(graph)) == graph
        assert graph == random_program(random.Random(seed))[0]


def test_random_kernels_are_without_findings_of_their_own() -> None:
    for seed in range(100):
        kernel, target, _ = random_kernel_program(random.Random(seed))
        assert isinstance(kernel, Kernel)
        assert check(kernel, target) == [], seed


@pytest.mark.slow
def test_random_programs_have_everything() -> None:
    """Nothing that the generators can draw is so rare that a few thousand programs miss it."""
    found = [random_program(random.Random(seed))[2] for seed in range(1500)]
    found += [partly_synchronized(random.Random(seed))[2] for seed in range(300)]
    found += [staggered_program(random.Random(seed))[2] for seed in range(30)]
    assert {tag for each in found for tag in each.tags} == set(TAGS)
    assert {each.depth for each in found} == {0, 1, 2, 3}
    assert {each.slots for each in found} == {1, 2, 3, 4}
    assert "| irreducible |" in show_distribution(found)


# --- nests for timing ---


def test_nests_have_a_hazard_for_every_four_points() -> None:
    for points in (1000, 4000):
        graph = nest_graph(points)
        assert check_graph(graph) == []
        assert points <= len(graph.points) <= points * 1.1
        assert count_hazards(graph) * 4 >= len(graph.points)
        assert graph == nest_graph(points)
        assert graph != nest_graph(points, seed=1)
