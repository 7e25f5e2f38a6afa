"""Random graphs and random plans: text, loops against their definition, plans on kernels and on graphs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields, replace
from typing import get_args

import pytest

from oracles.programs.random_graphs import built_graph, random_edges, random_graph, with_threads
from oracles.programs.random_kernels import random_kernel, runnable_kernel
from tests.language.test_roundtrip import seeds
from tidegate.diag import BadInput
from tidegate.graph import model as g
from tidegate.graph.apply import apply_plan, apply_to_graph
from tidegate.graph.build import KernelGraph, build_graph
from tidegate.graph.loops import Nest, find_loops
from tidegate.graph.parse import parse_graph
from tidegate.graph.plan import Change, Delete, Edit, Insert, Move, Plan, Reorder
from tidegate.graph.show import show_graph
from tidegate.graph.wellformed import check_graph
from tidegate.language import ops
from tidegate.language.ops import SyncOp, Value, walk_ops
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.targets import load_target

# --- text ---------------------------------------------------------------------------------------------------------


def check_text(graph: g.SyncGraph) -> None:
    text = show_graph(graph)
    again = parse_graph(text)
    assert again == graph, text
    assert show_graph(again) == text
    assert check_graph(graph) == [], text


def test_random_graphs(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 300):
        graph = random_graph(random.Random(seed))
        check_text(graph)
        check_text(with_threads(graph, random.Random(seed)))


def test_built_graphs(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 150):
        check_text(built_graph(random.Random(seed)))


def test_graphs_of_kernels(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 80):
        kernel = random_kernel(random.Random(seed))
        for target in ("", "gfx1250", "sm_90"):
            check_text(build_graph(kernel, load_target(target)).graph)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, *(pytest.param(each, marks=pytest.mark.full) for each in (2, 3))])
def test_many_graphs(request: pytest.FixtureRequest, part: int) -> None:
    for seed in list(seeds(request, 4000))[part::4]:
        rng = random.Random(1_000_000 + seed)
        check_text(random_graph(rng, size=40))
        check_text(built_graph(rng))
        check_text(build_graph(random_kernel(rng), load_target("gfx950")).graph)


def test_random_graphs_hold_everything() -> None:
    """Every action, every synchronization, every field with something else than its default."""
    seen: Counter[str] = Counter()
    for seed in range(300):
        graph = with_threads(random_graph(random.Random(seed)), random.Random(seed))
        for item in (graph, *graph.points, *graph.loops, *graph.buffers, *graph.objects, *graph.functions):
            for each in fields(item):
                seen[f"{type(item).__name__}.{each.name}"] += getattr(item, each.name) != each.default
        for point in graph.points:
            seen[type(point.action).__name__] += 1
            if isinstance(point.action, g.Sync):
                seen[type(point.action.op).__name__] += 1
            if isinstance(point.action, g.Assign):
                seen["Either"] += any(isinstance(value, g.Either) for _, value in point.action.pairs)
    wanted = {cls.__name__ for cls in get_args(g.Action)} | {cls.__name__ for cls in get_args(SyncOp)} | {"Either"}
    wanted |= {"CommitGroup", "MbarrierArrive", "MbarrierWait", "NullAsyncDep"}
    for cls in (g.SyncGraph, g.Point, g.Loop, g.Buffer, g.Object, g.Function):
        wanted |= {f"{cls.__name__}.{each.name}" for each in fields(cls) if each.name != "at"}
    assert not {each for each in wanted if not seen[each]}


# --- loops --------------------------------------------------------------------------------------------------------

Edges = list[tuple[int, ...]]


def reaches(edges: dict[int, set[int]]) -> dict[int, set[int]]:
    """What can be reached by one step or more: the closure, by repeating until nothing changes."""
    found = {point: set(after) for point, after in edges.items()}
    changed = True
    while changed:
        changed = False
        for after in found.values():
            more = set().union(*(found[each] for each in after)) if after else set()
            if not more <= after:
                after |= more
                changed = True
    return found


def loops_by_definition(edges: Edges, entries: list[int]) -> list[tuple[int, bool, frozenset[int]]]:
    """Head, whether reducible, members. A loop is a set of points that all reach each other, as large as can be, and
    inside a loop the same without the edges to its head."""
    found: list[tuple[int, bool, frozenset[int]]] = []

    def split(members: set[int], cut: int | None) -> None:
        inner = {point: {each for each in edges[point] if each in members and each != cut} for point in members}
        reach = reaches(inner)
        done: set[int] = set()
        for point in sorted(members):
            if point in done or point not in reach[point]:
                continue
            loop = {each for each in members if each in reach[point] and point in reach[each]}
            done |= loop
            entered = {each for each in loop if each in entries}
            entered |= {
                each for before in range(len(edges)) if before not in loop for each in edges[before] if each in loop
            }
            head = min(entered or loop)
            found.append((head, len(entered) <= 1, frozenset(loop)))
            split(loop, head)

    split(set(range(len(edges))), None)
    return sorted(found, key=lambda each: (each[0], -len(each[2])))


def loops_of(nest: Nest) -> list[tuple[int, bool, frozenset[int]]]:
    members: list[set[int]] = [set() for _ in nest.loops]
    for point, number in enumerate(nest.loop_of):
        while number >= 0:
            members[number].add(point)
            number = nest.loops[number].parent
    found = [(loop.head, loop.reducible, frozenset(each)) for loop, each in zip(nest.loops, members, strict=True)]
    return sorted(found, key=lambda each: (each[0], -len(each[2])))


def natural_loops(edges: Edges, entries: list[int]) -> dict[int, set[int]] | None:
    """Head → members by back edges to dominators, for what is reached; None if some cycle has no such edge."""
    count = len(edges)
    before: list[set[int]] = [{p for p in range(count) if point in edges[p]} for point in range(count)]
    live = set(entries).union(*(reaches(dict(enumerate(map(set, edges))))[each] for each in entries))
    if live != set(range(count)):
        return None
    dominators = [{point} if point in entries else set(range(count)) for point in range(count)]
    changed = True
    while changed:
        changed = False
        for point in range(count):
            # Execution comes from outside to an entry: nothing but itself dominates it.
            if point in entries:
                continue
            new = {point} | set.intersection(*(dominators[p] for p in before[point]))
            changed |= new != dominators[point]
            dominators[point] = new
    back = [(p, h) for p in range(count) for h in edges[p] if h in dominators[p]]
    forward = {p: {h for h in edges[p] if (p, h) not in back} for p in range(count)}
    if any(point in reach for point, reach in reaches(forward).items()):
        return None
    found: dict[int, set[int]] = {}
    for tail, head in back:
        body = found.setdefault(head, {head})
        stack = [tail]
        while stack:
            point = stack.pop()
            if point not in body:
                body.add(point)
                stack.extend(before[point])
    return found


def check_loops(edges: Edges, entries: list[int]) -> bool:
    """Whether the graph was reducible, so that natural loops were compared as well."""
    nest = find_loops(edges, entries)
    assert loops_of(nest) == loops_by_definition(edges, entries), (edges, entries)
    for number, loop in enumerate(nest.loops):
        assert loop.parent < number
    natural = natural_loops(edges, entries)
    if natural is not None:
        assert all(loop.reducible for loop in nest.loops), (edges, entries)
        assert {head: set(members) for head, _, members in loops_of(nest)} == natural, (edges, entries)
    return natural is not None


def test_loops(request: pytest.FixtureRequest) -> None:
    found = [check_loops(*random_edges(random.Random(seed))) for seed in seeds(request, 800)]
    assert 0.1 < sum(found) / len(found) < 0.9


@pytest.mark.slow
def test_many_loops(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 8000):
        check_loops(*random_edges(random.Random(1_000_000 + seed), size=14))


def test_kernels_state_the_loops_that_their_edges_have(request: pytest.FixtureRequest) -> None:
    """Not where a wave may end inside a loop: a body that never comes to its end is no cycle."""
    checked = 0
    for seed in seeds(request, 200):
        kernel = random_kernel(random.Random(seed))
        if any(isinstance(op, ops.Exit) for op in walk_ops(kernel.body)):
            continue
        graph = build_graph(kernel, load_target("")).graph
        nest = find_loops([point.successors for point in graph.points], [0])
        stated = Nest(graph.loops, tuple(point.loop for point in graph.points))
        assert loops_of(nest) == loops_of(stated)
        checked += bool(graph.loops)
    assert checked


# --- plans --------------------------------------------------------------------------------------------------------


def random_sync(rng: random.Random) -> SyncOp:
    return rng.choice(
        (
            ops.WorkgroupBarrier(rng.random() < 0.3),
            ops.SharedMemoryBarrier((("vmcnt", rng.choice((0, 2))),), rng.random() < 0.3),
            ops.Signal(-1),
            ops.Wait(-1),
            ops.ConditionalBarrier("low"),
            ops.WaitCount((("lgkmcnt", 0),)),
            ops.Fence("wave"),
            ops.SchedulingBarrier(),
            ops.SetWavePrio(2),
        )
    )


def random_plan(rng: random.Random, graph: g.SyncGraph) -> Plan:
    """Edits that fit: each piece of synchronization is edited once, insertions go where they may."""
    places = [number for number, point in enumerate(graph.points) if point.insertable]
    syncs = [
        number
        for number, point in enumerate(graph.points)
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, SyncOp)
    ]
    rng.shuffle(syncs)
    edits: list[Edit] = []
    for _ in range(rng.choice((0, 1, 2, 4))):
        kind = rng.choice(("insert", "delete", "change", "move"))
        if kind == "insert" or not syncs:
            edits.append(Insert(rng.choice(places), random_sync(rng), ("RAW %a",)))
        elif kind == "delete":
            edits.append(Delete(syncs.pop()))
        elif kind == "change":
            edits.append(Change(syncs.pop(), random_sync(rng)))
        elif _names_nothing(graph, syncs[-1]):
            edits.append(Move(syncs.pop(), rng.choice(places)))
    return Plan(tuple(edits))


def _names_nothing(graph: g.SyncGraph, point: int) -> bool:
    """Whether a synchronization can stand anywhere: a value of the kernel is not visible everywhere."""
    action = graph.points[point].action
    assert isinstance(action, g.Sync)
    return not isinstance(getattr(action.op, "barrier", 0), Value) and not getattr(action.op, "async_deps", ())


def comparable(graph: g.SyncGraph) -> g.SyncGraph:
    """Without `uses`: an inserted wait may name copies, whose points only the kernel's values tell."""
    return replace(graph, points=tuple(replace(point, uses=()) for point in graph.points))


def check_planned(seed: int) -> None:
    rng = random.Random(seed)
    built = build_graph(runnable_kernel(rng), load_target(""))
    plan = random_plan(rng, built.graph)
    kernel = apply_plan(plan, built)
    assert parse(show(kernel)).kernels == (kernel,)
    direct = apply_to_graph(plan, built.graph)
    assert check_graph(direct) == []
    assert comparable(build_graph(kernel, load_target("")).graph) == comparable(direct), (plan, show(built.kernel))


def test_plans(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 120):
        check_planned(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_plans(request: pytest.FixtureRequest, part: int) -> None:
    for seed in list(seeds(request, 2500))[part::4]:
        check_planned(1_000_000 + seed)


def body_points(built: KernelGraph, loop: int) -> list[int]:
    """The points where the operations of a loop's body start."""
    body = (*built.paths[built.graph.loops[loop].head], 0)
    starts: dict[tuple[int, ...], int] = {}
    for number, path in enumerate(built.paths):
        if path[:-1] == body:
            starts.setdefault(path, number)
    return [starts[path] for path in sorted(starts)[:-1]]


def test_new_orders_keep_every_operation(request: pytest.FixtureRequest) -> None:
    """Two neighbours change places; where the second needs the first, the order is refused."""
    checked = refused = 0
    for seed in seeds(request, 150):
        rng = random.Random(seed)
        built = build_graph(runnable_kernel(rng), load_target(""))
        for loop in range(len(built.graph.loops)):
            order = body_points(built, loop)
            if len(order) > 1:
                place = rng.randrange(len(order) - 1)
                order[place : place + 2] = reversed(order[place : place + 2])
            try:
                kernel = apply_plan(Plan((Reorder(loop, tuple(order)),)), built)
            except BadInput as bad:
                refused += {each.code for each in bad.findings} == {"TG603"}
                continue
            now = Counter(type(op).__name__ for op in walk_ops(kernel.body))
            assert now == Counter(type(op).__name__ for op in walk_ops(built.kernel.body))
            plain = [repr(op) for op in walk_ops(kernel.body) if not ops.blocks_of(op)]
            assert sorted(plain) == sorted(repr(op) for op in walk_ops(built.kernel.body) if not ops.blocks_of(op))
            assert apply_plan(Plan((Reorder(loop, tuple(body_points(built, loop))),)), built) == built.kernel
            checked += len(order) > 1
    assert checked
    assert refused


PLANNED = """kernel @k(%A: global<64xf32>) waves 4 {
  %a = alloc : lds<64xf32>
  iterate %k in 0 .. 4 {
    %t = local_read %a[wave * 16] : tile<16xf32>
    shared_memory_barrier
    local_write %t, %a[wave * 16]
  }
}
"""


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Insert(99, ops.WorkgroupBarrier()), "there is no point 99"),
        (Insert(-1, ops.WorkgroupBarrier()), "there is no point -1"),
        (Insert(2, ops.WorkgroupBarrier()), "nothing can be inserted before point 2"),
        (Delete(0), "point 0 is not synchronization"),
        (Change(3, ops.SchedulingBarrier()), "point 3 is not synchronization"),
        (Move(4, 99), "there is no point 99"),
        (Move(4, 2), "nothing can be inserted before point 2"),
        (Reorder(7, (1,)), "there is no loop 7"),
        (Reorder(0, (3,)), "does not name each of its 3 operations once"),
        (Reorder(0, (3, 3, 4)), "does not name each of its 3 operations once"),
        (Reorder(0, (3, 4, 99)), "does not name each of its 3 operations once"),
    ],
)
def test_a_plan_that_does_not_fit_says_why(edit: Edit, message: str) -> None:
    built = build_graph(parse(PLANNED).kernels[0], load_target(""))
    with pytest.raises(BadInput) as raised:
        apply_plan(Plan((edit,)), built)
    (finding,) = raised.value.findings
    assert finding.code == "TG603"
    assert message in finding.message


def test_a_point_is_edited_once() -> None:
    built = build_graph(parse(PLANNED).kernels[0], load_target(""))
    with pytest.raises(BadInput) as raised:
        apply_plan(Plan((Delete(4), Move(4, 5), Change(4, ops.SchedulingBarrier()))), built)
    assert [each.code for each in raised.value.findings] == ["TG603", "TG603"]
    assert all("is edited twice" in each.message for each in raised.value.findings)


# --- what random graphs have found --------------------------------------------------------------------------------


def test_carried_flags_have_a_meaning_in_the_graph() -> None:
    """A flag that a loop carries was a name that nothing assigns."""
    text = """kernel @k(%f: flag, %g: flag) waves 2 {
  %last = iterate %k in 0 .. 3 carry(%now = %f : flag) {
    conditional %now and %k < 2 {
      workgroup_barrier
    }
    yield %g
  }
  conditional not %last {
    workgroup_barrier
  }
}
"""
    check_text(build_graph(parse(text).kernels[0], load_target("")).graph)


def test_tiles_in_any_index_have_a_meaning_in_the_graph() -> None:
    """Only tiles directly in the index of an access were known, and only results of operations."""
    text = """kernel @k() waves 2 {
  %a = alloc : lds<8xi32, slots = 2>
  %t = fill 1.0 : tile<1xi32>
  %last = iterate %k in 0 .. inexact(%t) carry(%now = %t : tile<1xi32>) {
    %i = let inexact(%now) + 1
    %r = local_read %a[inexact(%t mod 2)][inexact(%i)] : tile<1xi32>
    conditional inexact(%now) < 3 {
      workgroup_barrier
    }
    yield %r
  }
}
"""
    check_text(build_graph(parse(text).kernels[0], load_target("")).graph)
