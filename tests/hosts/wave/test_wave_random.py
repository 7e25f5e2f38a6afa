"""Random Wave traces through the drop-in: what it reports as proved is looked at again, byte by byte.

Once by `tidegate.wave.check`, which reads the trace as it was written; once by following every wave of it, for some
numbers of trips, with nothing of Tidegate (`wave_phases`). What is not proved is as it was before.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import tidegate.wave
from oracles.wave_traces.wave_phases import find_races
from oracles.wave_traces.wave_random import (
    BYTES,
    COLUMNS,
    Access,
    Barrier,
    Kernel,
    Loop,
    Made,
    Some,
    Step,
    draw_kernel,
    make_trace,
)
from tidegate.graph import model as g
from tidegate.hosts.wave.build import build
from tidegate.hosts.wave.build_flow import Flow
from tidegate.hosts.wave.context import Context, context_of
from tidegate.hosts.wave.dropin import passing
from tidegate.hosts.wave.dropin.passing import Options, Placement, place_barriers
from tidegate.hosts.wave.memory import Memory
from tidegate.hosts.wave.merging import Merging
from tidegate.hosts.wave.nodes import SYNCHRONIZATION, op_of
from tidegate.hosts.wave.regions import initial_values, reached_graphs
from tidegate.hosts.wave.uniform import Uniform
from tidegate.index import Binary, Const, Name, add
from tidegate.targets import Target, load_target
from tidegate.verify.verify import find_wrong

TRIPS = (0, 1, 2, 3)
OPTIONS = (
    Options(),
    Options(),
    Options(counts=True),
    Options(remove_redundant=True),
    Options(strategy="minimal"),
    Options(verify=False),
)


@dataclass
class Looked:
    """What came of many kernels."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def steps_of(made: Made) -> list[Any]:
    """What stands in a trace; what was taken away and put back may have another name."""
    nodes = (node for graph in reached_graphs(made.trace) for node in graph.nodes)
    return [(op_of(node), node.args if op_of(node) in SYNCHRONIZATION else node.name) for node in nodes]


def place(kernel: Kernel, options: Options) -> tuple[Made, Placement]:
    made = make_trace(kernel)
    context = context_of(made.constraints, {})
    return made, place_barriers(made.trace, context, load_target(kernel.target), options)


def errors_of(made: Made) -> list[str]:
    """What the checker finds in a trace as it stands."""
    found = tidegate.wave.check(made.trace, made.kernel.target, constraints=made.constraints, sizes={})
    return [f"{each.code} {each.message}" for each in found if each.severity == "error"]


def races_of(made: Made) -> list[str]:
    """What following every wave finds."""
    for trips in TRIPS:
        for x, y in find_races(made, trips):
            return [f"{x.node.name} and {y.node.name}, {trips} trips"]
    return []


def look(kernel: Kernel, options: Options, looked: Looked, where: str) -> None:
    races = bool(races_of(make_trace(kernel)))
    made, placed = place(kernel, options)
    looked.counts["kernels"] += 1
    looked.counts["racy before"] += races
    if placed.why_not:
        looked.counts["left to Wave"] += 1
        if steps_of(made) != steps_of(make_trace(kernel)):
            looked.wrong.append(f"{where}: left to Wave, and changed")
        return
    looked.counts["barriers put in"] += placed.barriers
    found = races_of(made) or errors_of(made)
    if found:
        looked.wrong.append(f"{where}, {options}: {found[0]}\n{kernel}")


def look_at(seeds: range) -> Looked:
    looked = Looked()
    for seed in seeds:
        rng = random.Random(seed)
        look(draw_kernel(rng), rng.choice(OPTIONS), looked, f"seed {seed}")
    return looked


def check_all(looked: Looked) -> None:
    counts = looked.counts
    assert looked.wrong == []
    assert counts["racy before"] >= 0.3 * counts["kernels"], counts
    assert counts["left to Wave"] <= 0.1 * counts["kernels"], counts  # in branches of some waves


# --- one by one ---------------------------------------------------------------------------------------------------

OWN, NEXT = Access("write", "a", "own"), Access("write", "a", "next")
READ = Access("read", "a", "own")


def kernel_of(*body: Step, waves: int = 4, buffers: tuple[str, ...] = ("a",), reuse: bool = False) -> Kernel:
    return Kernel("gfx942", waves, buffers, body, reuse)


def points_of(kernel: Kernel, kind: str) -> int:
    """How many points the accesses of one kind become, where barriers are placed."""
    made = make_trace(kernel)
    graph = build(made.trace, context_of(made.constraints, {}), load_target(kernel.target), coarse=True).graph
    return sum(isinstance(each.action, g.Access) and each.action.effect == kind for each in graph.points)


@pytest.mark.parametrize("options", OPTIONS)
def test_own_row_then_the_next_waves(options: Options) -> None:
    """Two writes that were taken for one: whose number is the last, nothing ordered."""
    made, placed = place(kernel_of(OWN, NEXT, READ), options)
    assert (placed.why_not, placed.barriers) == ("", 2)
    assert races_of(made) == []
    assert errors_of(made) == []


@pytest.mark.parametrize(
    ("body", "points"),
    [
        ((OWN, NEXT), 2),
        ((OWN, OWN), 2),  # lanes that go on at their own pace write the same bytes
        ((OWN, Access("write", "a", "own, second")), 1),
        ((Access("write", "a", "own", "low half"), Access("write", "a", "own", "high half")), 1),
        ((Access("write", "a", "own", "lane"), Access("write", "a", "own", "moved")), 2),
        ((Access("write", "a", "own"), Access("write", "a", "own", "reverse")), 2),
        ((OWN, Access("write", "b", "own"), Access("write", "a", "own, second")), 2),
        ((OWN, Access("write", "b", "own"), NEXT, Access("write", "b", "next")), 2),
        # What is taken in must leave the place between two others that need it.
        ((OWN, Access("write", "b", "own"), Access("write", "b", "next"), Access("write", "a", "own, second")), 3),
    ],
)
def test_only_writes_without_a_common_byte_are_one_point(body: tuple[Step, ...], points: int) -> None:
    both = tuple(dict.fromkeys(each.buffer for each in body if isinstance(each, Access)))
    reads = tuple(Access("read", name, row) for name in both for row in ("next", "next, second"))
    kernel = kernel_of(*body, Barrier(), *reads, buffers=both)
    assert points_of(kernel, "write") == points
    made, placed = place(kernel, Options(verify=False))
    assert placed.why_not == ""
    assert races_of(made) == []
    assert errors_of(made) == []


def test_reads_are_one_point_whatever_they_have_in_common() -> None:
    body = (OWN, Barrier(), Access("read", "a", "own"), Access("read", "a", "next"), Access("read", "a", "next"))
    assert points_of(kernel_of(*body), "read") == 1


def test_two_copies_to_the_same_bytes_are_two_points() -> None:
    copy = Access("copy", "a", "own")
    made, placed = place(kernel_of(copy, copy, waves=1), Options(verify=False))
    assert placed.why_not == ""
    assert races_of(made) == []


def test_buffers_that_share_bytes_and_take_turns_are_no_slots() -> None:
    """The first of them was taken for a buffer with two slots, of which one lies in nobody's bytes."""
    loop = Loop(2, (Access("write", "a", "own", "low half"),), ("a", "b"))
    made, placed = place(kernel_of(Access("copy", "b", "own"), loop, buffers=("a", "b"), reuse=True), Options())
    assert placed.why_not == ""
    assert len(placed.reasons) == 1
    assert races_of(made) == []


@pytest.mark.parametrize("verify", [True, False])
def test_where_no_barrier_can_stand_the_trace_is_left_alone(verify: bool) -> None:
    kernel = kernel_of(Some(2, (OWN, Access("read", "a", "next"))))
    made, placed = place(kernel, Options(verify=verify))
    assert placed.why_not
    assert steps_of(made) == steps_of(make_trace(kernel))


def test_all_that_was_taken_away_comes_back() -> None:
    """Of neighbours only the last did, and none before something that was put in meanwhile."""
    hopeless = Some(2, (OWN, Access("read", "a", "next")))
    kernel = kernel_of(Barrier(), Barrier(), Barrier(), Loop(2, (READ, Barrier(), Barrier(), OWN)), hopeless)
    made, placed = place(kernel, Options(remove_redundant=True))
    assert placed.why_not
    assert steps_of(made) == steps_of(make_trace(kernel))


def test_two_buffers_that_are_numbered_through_stay_two() -> None:
    """What one point does to both must not hide what a later one does to the second."""
    body = (
        Access("read", "a", "own"),
        Access("read", "b", "own", "reverse"),
        Access("write", "a", "first", "moved", 4),
    )
    kernel = kernel_of(*body, Access("write", "b", "next"), Access("write", "b", "pair"), buffers=("a", "b"), waves=2)
    assert points_of(kernel, "write") == 2
    made, placed = place(kernel, Options(verify=False))
    assert placed.why_not == ""
    assert races_of(made) == []


# --- many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_what_is_reported_as_proved_is_right(part: int) -> None:
    check_all(look_at(range(30 * part, 30 * (part + 1))))


@pytest.mark.full
def test_many_that_are_reported_as_proved_are_right(request: pytest.FixtureRequest) -> None:
    count = request.config.getoption("--count") or 10_000
    looked = look_at(range(1_000_000, 1_000_000 + count))
    print(dict(looked.counts))
    check_all(looked)


# --- lanes --------------------------------------------------------------------------------------------------------


def lanes_of(kernel: Kernel, access: Access) -> set[tuple[int, int]]:
    """Bytes of wave 0 with their lanes, from where it starts."""
    column = COLUMNS[access.column]
    places = [column(lane, access.elements, kernel.lanes) * BYTES for lane in range(kernel.lanes)]
    table = {(start + at, lane) for lane, start in enumerate(places) for at in range(access.elements * BYTES)}
    return {(byte - min(places), lane) for byte, lane in table}


def test_accesses_with_one_key_give_each_byte_to_one_lane() -> None:
    kernel = kernel_of(*(Access("write", "a", "own", column, size) for column in COLUMNS for size in (1, 2, 4)))
    made = make_trace(kernel)
    memory = Memory(context_of(made.constraints, {}), kernel.target)
    places = Uniform({}, memory.numbers)
    keys: dict[str, list[set[tuple[int, int]]]] = {}
    for node, (access, _) in made.accesses.items():
        keys.setdefault(memory.lanes(node, memory.array(node.args[1]), places), []).append(lanes_of(kernel, access))
    for key, tables in keys.items():
        for table in tables:
            alone = len({byte for byte, _ in table}) == len(table)
            assert bool(key) == alone
            assert not key or table == tables[0]
    assert len(keys) == 7  # two orders of lanes in three widths, and none for what lanes have in common
    assert sum(map(len, keys.values())) == 18


# --- mutants: what was believed once makes all of this fail -------------------------------------------------------


def merge_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes of one part are one point, whoever they belong to."""
    monkeypatch.setattr(Merging, "apart", lambda *_: False)


def prove_coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proved is the graph that barriers were placed with."""
    own = passing._place

    def remembering(found: Placement, trace: Any, context: Context, target: Target, *rest: Any) -> None:
        graph = lambda: build(trace, context, target, coarse=True).graph  # noqa: E731
        with monkeypatch.context() as patch:
            patch.setattr(passing, "find_doubt", lambda *_: "" if find_wrong(graph(), target) is None else "doubt")
            own(found, trace, context, target, *rest)

    monkeypatch.setattr(passing, "_place", remembering)


def take_turns_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers that a loop carries in turn are slots of the first, as far as their numbers say so."""

    def take_turns(self: Flow, node: Any, counter: str) -> None:
        for turn in self.values.turns[node]:
            starts = dict(zip(self.values.carried[node], initial_values(node), strict=False))
            for number, each in enumerate(turn):
                view = self.buffers.view(starts[each])
                if view is not None and view.slot == Const(number):
                    slot = Binary("mod", add(Name(counter), Const(number)), Const(len(turn)))
                    self.views[each] = replace(view, slot=slot, turns=True)

    monkeypatch.setattr(Flow, "take_turns", take_turns)


def test_with_the_old_merge_and_the_old_proof_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    merge_all(monkeypatch)
    prove_coarse(monkeypatch)
    looked = Looked()
    look(kernel_of(OWN, NEXT, READ), Options(), looked, "two writes")
    assert len(looked.wrong) == 1
    assert len(look_at(range(40)).wrong) >= 3


def test_the_old_merge_alone_is_found_where_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    merge_all(monkeypatch)
    looked = Looked()
    for seed in range(40):
        look(draw_kernel(random.Random(seed)), Options(verify=False), looked, f"seed {seed}")
    assert len(looked.wrong) >= 3


def test_a_proof_of_the_exact_graph_finds_the_old_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the plan is made again, from all bytes."""
    merge_all(monkeypatch)
    made, placed = place(kernel_of(OWN, NEXT, READ), Options())
    assert (placed.why_not, placed.barriers) == ("", 2)
    assert errors_of(made) == []


def test_slots_in_shared_bytes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof notices that such slots leave their bytes; without it, the twin finds the race."""
    take_turns_always(monkeypatch)
    loop = Loop(2, (Access("write", "a", "own", "low half"),), ("a", "b"))
    kernel = kernel_of(Access("copy", "b", "own"), loop, buffers=("a", "b"), reuse=True)
    looked = Looked()
    look(kernel, Options(), looked, "shared bytes in turn")
    assert (len(looked.wrong), looked.counts["left to Wave"]) == (0, 1)
    monkeypatch.setattr(passing, "find_doubt", lambda *_: "")
    look(kernel, Options(), looked, "shared bytes in turn, not proved")
    assert len(looked.wrong) == 1
