"""Atomics commute only if they do the same to the same elements: one operator, one type, the same boundaries."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import tidegate as tg
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.hazards.elements import Elements
from tidegate.hazards.facts import PairFacts
from tidegate.hazards.find import find_hazards
from tidegate.language import ops
from tidegate.passes import check_session
from tidegate.session import Session
from tidegate.simulate import races
from tidegate.simulate.judge import judge
from tidegate.simulate.steps import Touch
from tidegate.synchronize import Synchronized
from tidegate.targets import load_target
from tidegate.verify import verify as verifier
from tidegate.verify.events import Access
from tidegate.verify.verify import verify

GFX942 = load_target("gfx942")

# --- kernels ----------------------------------------------------------------------------------------------------------

TWO = """target gfx942
kernel @k(%Y: global<64xi32>) waves 2 {{
  %a = alloc at 0 : lds<64x{first}>
  %one = fill 1.0 : tile<{elements}x{first}>
  conditional wave < 1 {{
    atomic_add %one, %a[0]
  }}
  dealloc %a
  %b = alloc at {at} : lds<64x{second}>
  %two = fill 1.0 : tile<{others}x{second}>
  conditional wave >= 1 {{
    atomic_add %two, %b[0]
  }}
}}
"""


def two(first: str, second: str, at: int = 0) -> ops.Kernel:
    """Wave 0 adds to a buffer, wave 1 to another one at the same bytes, and no barrier stands between."""
    sizes = {"i64": 8, "f64": 8, "i32": 4, "f32": 4}
    text = TWO.format(first=first, second=second, at=at, elements=64 // sizes[first], others=64 // sizes[second])
    return tg.parse(text, "k.tide").kernels[0]


def graph_of(kernel: ops.Kernel) -> g.SyncGraph:
    return build_graph(kernel, GFX942).graph


def found_after(made: Synchronized) -> list[str]:
    """What `check` finds in what `sync` made."""
    assert made.checked is not None
    return [each.code for each in made.checked.findings]


@pytest.mark.parametrize(
    ("first", "second", "at", "commute"),
    [
        ("i32", "i32", 0, True),
        ("f32", "f32", 4, True),
        ("i64", "i64", 8, True),
        ("i32", "f32", 0, False),
        ("i32", "i64", 0, False),
        ("f32", "f64", 0, False),
        ("i64", "i64", 4, False),
        ("f64", "f64", 12, False),
    ],
)
def test_every_judge_demands_type_width_and_boundaries(first: str, second: str, at: int, commute: bool) -> None:
    kernel = two(first, second, at)
    graph = graph_of(kernel)
    assert verify(graph, GFX942).is_proved == commute
    assert {each.code for each in judge(graph, GFX942).findings} == (set() if commute else {"TG103"})
    assert {each.code for each in tg.run_hostile(kernel).findings()} == (set() if commute else {"TG103"})
    assert {each.code for each in tg.check(kernel)} == (set() if commute else {"TG103"})
    hazards = [number for number, point in enumerate(graph.points) if isinstance(point.action, g.Access)]
    assert PairFacts(flow_of(graph), GFX942, atomics="commute").commute(*hazards) == commute


def test_atomics_commute_unless_an_order_is_asked_for() -> None:
    kernel = two("i32", "i32")
    for asked, barriers in (({}, 0), ({"atomics": "commute"}, 0), ({"atomics": "order"}, 1)):
        made = tg.sync(kernel, **asked)
        assert found_after(made) == []
        assert made.kernel is not None
        assert sum(isinstance(op, ops.SharedMemoryBarrier) for op in ops.walk_ops(made.kernel.body)) == barriers
        assert any("`--atomics commute`, the default, leaves them unordered" in each for each in made.notes) == bool(
            barriers
        )


def test_a_histogram_needs_no_barrier_between_its_additions() -> None:
    """The loop of a histogram had a barrier in every iteration, which ordered additions of which none is read."""
    text = Path("examples/histogram.tide").read_text()
    (kernel,) = tg.parse(text, "k.tide").kernels
    (bare,) = tg.parse(re.sub(r"(?m)^ *shared_memory_barrier.*\n", "", text), "k.tide").kernels
    made, ordered = tg.sync(bare), tg.sync(bare, atomics="order")
    assert made.placed is not None
    assert ordered.placed is not None
    assert (made.placed.weight, ordered.placed.weight) == (2, 17)
    assert made.kernel == kernel
    assert [each.code for each in tg.check(kernel, advice=True)] == []


@pytest.mark.parametrize("operator", ["exch", "subtract", ""])
def test_an_operator_that_is_not_known_to_commute_does_not(operator: str) -> None:
    graph = graph_of(two("i32", "i32"))
    points = tuple(
        replace(each, action=replace(each.action, operator=operator)) if isinstance(each.action, g.Access) else each
        for each in graph.points
    )
    graph = replace(graph, points=points)
    assert not verify(graph, GFX942).is_proved
    assert {each.code for each in judge(graph, GFX942).findings} == {"TG103"}
    hazards = [number for number, point in enumerate(points) if isinstance(point.action, g.Access)]
    assert not PairFacts(flow_of(graph), GFX942).commute(*hazards)


def test_sync_orders_atomics_of_two_types_though_atomics_may_commute() -> None:
    for types, barriers in ((("i32", "i32"), 0), (("i32", "f32"), 1)):
        made = tg.sync(two(*types), atomics="commute")
        assert found_after(made) == []
        assert made.kernel is not None
        assert sum(isinstance(op, ops.SharedMemoryBarrier) for op in ops.walk_ops(made.kernel.body)) == barriers


def test_a_histogram_with_bins_from_data_still_commutes() -> None:
    text = """target gfx942
kernel @k(%X: global<4x64xi32>) waves 4 {
  %bins = alloc : lds<64xi32>
  %half = view %bins[32] : lds<32xi32>
  %x = global_read %X[wave] : tile<64xi32>
  %one = fill 1.0 : tile<64xi32>
  atomic_add %one, %bins[inexact(%x)]
  atomic_add %one, %half[inexact(%x)]
}
"""
    (kernel,) = tg.parse(text, "k.tide").kernels
    graph = graph_of(kernel)
    assert verify(graph, GFX942).is_proved
    assert not judge(graph, GFX942).findings
    assert found_after(tg.sync(kernel, atomics="commute")) == []


@pytest.mark.parametrize("dtype", ["i8", "i16", "f16", "bf16"])
def test_an_atomic_of_a_size_that_the_target_lacks_is_a_finding(dtype: str) -> None:
    text = f"""target gfx942
kernel @k(%X: global<4x64x{dtype}>) waves 4 {{
  %a = alloc : lds<64x{dtype}>
  %x = global_read %X[wave] : tile<64x{dtype}>
  atomic_add %x, %a[0]
}}
"""
    (found,) = tg.check(tg.parse(text, "k.tide").kernels[0])
    assert found.code == "TG305"
    assert "its atomics take 4 and 8 bytes" in found.notes
    assert found.at.line == 5


def test_a_python_kernel_with_an_atomic_that_is_too_small_is_a_finding() -> None:
    @tg.kernel(waves=2, target="gfx942")
    def small(X: tg.Global[2, 64, tg.i8]) -> None:  # type: ignore[valid-type]
        a = tg.alloc((64,), tg.i8)
        x = tg.global_read(X, (tg.wave(), 0), (64,))
        tg.atomic_add(x, a, (0,))

    assert [each.code for each in tg.check(small)] == ["TG305"]


# --- graphs -----------------------------------------------------------------------------------------------------------

GRAPH = """graph @g target gfx942 waves 2
buffer %a bytes 64 slots 2
program entry 0 waves 0 .. 2
{{
  0: atomic %a[0, {first}] box({steps}) width {width} operator add{element} lanes "one" issues lgkmcnt 0 .. 1 -> 1
  1: atomic %a[0, {second}] box() width 8 operator add element i32 lanes "one" issues lgkmcnt 0 .. 1 -> 2
  2: end
}}
"""


def graph(
    first: str = "0", second: str = "8", element: str = " element i32", width: int = 8, steps: str = ""
) -> g.SyncGraph:
    text = GRAPH.format(first=first, second=second, element=element, width=width, steps=steps)
    found = parse_graph(text, "g.sync")
    assert parse_graph(show_graph(found)) == found
    return found


ALIGNED = {
    "apart": {},
    "wave times four": {"first": "wave * 4"},
    "a sum": {"first": "wave * 8 + 4"},
    "a choice": {"first": "select(wave == 0, 4, 12)"},
    "any number of fours": {"first": "inexact(wave * wave) * 4"},
    "a slot": {"second": "wave mod 2 * 16"},
    "steps": {"steps": "2 by 16"},
    "a remainder": {"first": "wave * 4 mod 8"},
}
CROSSED = {
    "wave times two": {"first": "wave * 2"},
    "wave times six": {"first": "wave * 6"},
    "off by two": {"first": "2"},
    "a choice": {"first": "select(wave == 0, 4, 10)"},
    "steps across": {"steps": "2 by 6"},
    "half an element": {"width": 6},
    "another type": {"element": " element f32", "second": "0"},
    "no type": {"element": "", "second": "0"},
}


@pytest.mark.parametrize("name", ALIGNED)
def test_atomics_at_the_same_boundaries_commute(name: str) -> None:
    found = graph(**ALIGNED[name])
    assert verify(found, GFX942).is_proved
    assert not judge(found, GFX942).findings
    assert found_after(tg.sync(found, atomics="commute")) == []


@pytest.mark.parametrize("name", CROSSED)
def test_atomics_across_boundaries_are_a_race(name: str) -> None:
    found = graph(**CROSSED[name])
    assert not verify(found, GFX942).is_proved
    assert {each.code for each in judge(found, GFX942).findings} == {"TG103"}


ALONE = """graph @g target gfx942 waves 2
buffer %a bytes 64 slots 1
program entry 0 waves 0 .. 2
{{
  0: atomic %a[0, wave * {stride}] box() width 8 operator add element i32 lanes "one" issues lgkmcnt 0 .. 1 -> 1
  1: end
}}
"""


@pytest.mark.parametrize(("stride", "clean"), [(0, True), (4, True), (2, False), (6, False), (8, True)])
def test_one_statement_in_two_waves_must_keep_to_the_same_elements(stride: int, clean: bool) -> None:
    found = parse_graph(ALONE.format(stride=stride), "g.sync")
    assert verify(found, GFX942).is_proved == clean
    assert bool(judge(found, GFX942).findings) != clean
    made = tg.sync(found, atomics="commute")
    assert bool(found_after(made)) != clean
    assert bool(made.placed.unplaced) != clean


VIEWS = """graph @g target gfx942 waves 2
buffer %a bytes 64 slots 2
program entry 0 waves 0 .. 2
{{
  0: assign %v = view %a[0, 0] -> 1
  1: branch any -> 2, 4
  2: atomic %v[0, 0] box() width 8 operator add element i32 lanes "one" issues lgkmcnt 0 .. 1 -> 3
  3: assign %v = view %v[0, {step}] -> 1
  4: atomic %a[0, 0] box() width 64 operator add element i32 lanes "one" issues lgkmcnt 0 .. 1 -> 5
  5: end
}}
"""


@pytest.mark.parametrize(("step", "clean"), [(4, True), (8, True), (2, False), (6, False)])
def test_a_view_that_moves_is_followed(step: int, clean: bool) -> None:
    found = parse_graph(VIEWS.format(step=step), "g.sync")
    one, other = (each.action for each in found.points if isinstance(each.action, g.Access))
    assert Elements(found).commute(one, other) == clean
    accesses = [number for number, point in enumerate(found.points) if isinstance(point.action, g.Access)]
    suspects = {(each.x, each.y) for each in verify(found, GFX942).suspects}
    assert bool(suspects & {tuple(accesses), tuple(reversed(accesses))}) != clean


def test_a_graph_with_atomics_that_are_too_small_is_a_finding() -> None:
    text = ALONE.format(stride=4).replace("element i32", "element i8")
    found = check_session(Session("g", GFX942, None, parse_graph(text, "g.sync")))
    assert [each.code for each in found.findings] == ["TG305"]


def test_a_type_that_nobody_knows_is_a_mistake_in_a_graph() -> None:
    text = ALONE.format(stride=4).replace("element i32", "element word")
    found = check_session(Session("g", GFX942, None, parse_graph(text, "g.sync")))
    assert [each.code for each in found.findings] == ["TG602"]


# --- with the old belief put back, something wrong is proved ----------------------------------------------------------


def by_operator(one: g.Access | Touch | Access, other: g.Access | Touch | Access) -> bool:
    return one.operator == other.operator and not (one.fetches or other.fetches)


def old_conflict(x: Access, y: Access) -> bool:
    return not (x.effect == y.effect == "atomic" and by_operator(x, y)) and {x.effect, y.effect} != {"read"}


def is_called_clean(judged: str) -> bool:
    """Whether one of the three calls i32 against f32 clean."""
    found = graph_of(two("i32", "f32"))
    match judged:
        case "verify":
            return verify(found, GFX942).is_proved
        case "simulate":
            return not judge(found, GFX942).findings
    return not find_hazards(flow_of(found), GFX942, atomics="commute").hazards


@pytest.mark.parametrize("judged", ["verify", "simulate", "hazards"])
def test_names_of_operators_are_not_enough(judged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_called_clean(judged)
    match judged:
        case "verify":
            monkeypatch.setattr(verifier, "conflict", old_conflict)
        case "simulate":
            monkeypatch.setattr(races, "commute", by_operator)
        case _:
            monkeypatch.setattr(Elements, "commute", lambda self, one, other: by_operator(one, other))
    assert [each for each in ("verify", "simulate", "hazards") if is_called_clean(each)] == [judged]


@pytest.mark.parametrize("judged", ["verify", "simulate", "hazards"])
def test_types_without_boundaries_are_not_enough(judged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = parse_graph(ALONE.format(stride=2), "g.sync")
    match judged:
        case "verify":
            old = verifier.conflict
            assert not verify(found, GFX942).is_proved
            monkeypatch.setattr(verifier, "conflict", lambda x, y: old(replace(x, grid=0), replace(y, grid=0)))
            assert verify(found, GFX942).is_proved
        case "simulate":
            meets = races.commute
            assert judge(found, GFX942).findings
            monkeypatch.setattr(races, "commute", lambda x, y: meets(replace(x, grid=0), replace(y, grid=0)))
            assert not judge(found, GFX942).findings
        case _:
            assert tg.sync(found, judge=False).placed.unplaced
            monkeypatch.setattr(Elements, "begin", lambda self, atomic: 0)
            assert not tg.sync(found, judge=False).placed.unplaced
