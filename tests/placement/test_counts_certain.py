"""A wait relies only on instructions that are certain to be issued on its counter: copies, never plain accesses."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import tidegate as tg
from tidegate.graph import memory
from tidegate.graph import model as g
from tidegate.graph.parse import parse_graph
from tidegate.language import ops
from tidegate.simulate.judge import judge
from tidegate.simulate.queues import InFlight, rules_of
from tidegate.simulate.regions import Region
from tidegate.simulate.steps import Drain, Queue, Touch
from tidegate.synchronize import Synchronized
from tidegate.targets import Target, known_targets, load_target
from tidegate.targets.model import ByName
from tidegate.verify.verify import verify

HEAD = """target {target}
kernel @k(%X: global<8x4x64xf32>, %Y: global<8x4x64xf32>, %f: flag) waves 4 {{
  %t = alloc : lds<4x64xf32, slots = 2>
  %u = alloc : lds<4x64xf32>
  %m = fill 1.0 : tile<64xf32>
  {lines}
}}
"""
COPY = "gather_to_lds %X[0, wave] to %t[0][wave] : tile<64xf32>"
NEXT = "gather_to_lds %X[1, wave] to %t[1][wave] : tile<64xf32>"
USE = "%a = local_read %t[0][(wave + 1) mod 4] : tile<64xf32>\n  global_write %a, %Y[0, wave]"
UNCERTAIN = {
    "uniform read": "%b = global_read %X[7, 0] : tile<64xf32>",
    "read of each wave": "%b = global_read %X[7, wave] : tile<64xf32>",
    "masked read": "%c = lt %m, %m : tile<64xi1>\n  %b = global_read %X[7, wave] mask %c : tile<64xf32>",
    "clipped read": "%b = global_read %X[7, wave] bounds(8, 4, 40) : tile<64xf32>",
    "two reads": "%b = global_read %X[7, wave] : tile<64xf32>\n  %c = global_read %X[6, wave] : tile<64xf32>",
    "store": "global_write %m, %Y[7, wave]",
    "clipped copy": "gather_to_lds %X[1, wave] to %t[1][wave] bounds(8, 4, 40) : tile<64xf32>",
    "copy in some lanes": f"conditional lane < 8 {{\n  {NEXT}\n  }}",
}
COPIES_ON_VMCNT = ("gfx90a", "gfx942", "gfx950")


def kernel(*lines: str, target: str = "gfx950") -> ops.Kernel:
    return tg.parse(HEAD.format(target=target, lines="\n  ".join(lines)), "k.tide").kernels[0]


def leaning(between: str, count: int = 1, target: str = "gfx950") -> ops.Kernel:
    """A copy, something else, and a wait that leaves one instruction in flight before the waves meet."""
    return kernel(COPY, between, f"wait_count vmcnt({count})", "workgroup_barrier", USE, target=target)


def counts(found: ops.Kernel | None) -> list[dict[str, int]]:
    assert found is not None
    waits = (op for op in ops.walk_ops(found.body) if isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount))
    return [dict(op.counts) for op in waits]


def found_after(made: Synchronized) -> list[str]:
    """What `check` finds in what `sync` made."""
    assert made.checked is not None
    return [each.code for each in made.checked.findings]


def codes(found: ops.Kernel) -> set[str]:
    return {each.code for each in tg.check(found)}


def judged(found: ops.Kernel) -> set[str]:
    return {each.code for each in judge(tg.build_graph(found).graph, load_target(found.target)).findings}


# --- what is certain, by target -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", known_targets())
def test_no_plain_access_is_certain_on_any_target(name: str) -> None:
    target = load_target(name)
    copies = ("gather_to_lds", "tensor_load_to_lds", "lds_to_global")
    for kind, operation in target.operations.items():
        if not operation.present or not operation.counter:
            continue
        if kind not in copies:
            assert not operation.certain
            assert target.issued(kind, 4096)[0] == 0
            assert target.issued(kind, 4096)[1] >= 1
        elif target.counters[operation.counter].unit == "instructions":
            assert operation.certain
            assert target.cited[f"operations.{kind}.certain"]
            assert target.issued(kind, 4096) == target.instructions(kind, 4096)


def test_what_a_file_does_not_state_is_not_certain() -> None:
    target = load_target("gfx950")
    silent = replace(target.operations["gather_to_lds"], certain=False)
    rest = tuple((name, silent if name == "gather_to_lds" else each) for name, each in target.operations.items())
    assert replace(target, operations=ByName(rest)).issued("gather_to_lds", 1024) == (0, 4)


# --- what `sync` writes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", COPIES_ON_VMCNT)
@pytest.mark.parametrize("name", UNCERTAIN)
def test_sync_does_not_count_what_may_not_be_issued(name: str, target: str) -> None:
    made = tg.sync(kernel(COPY, UNCERTAIN[name], USE, target=target))
    assert found_after(made) == []
    assert {"vmcnt": 0} in counts(made.kernel)
    assert not any(each.get("vmcnt") for each in counts(made.kernel))


@pytest.mark.parametrize("target", COPIES_ON_VMCNT)
def test_a_copy_behind_a_copy_is_counted(target: str) -> None:
    made = tg.sync(kernel(COPY, NEXT, USE, target=target))
    assert found_after(made) == []
    assert {"vmcnt": 1} in counts(made.kernel)


def test_only_the_copies_among_others_are_counted() -> None:
    between = (UNCERTAIN["uniform read"], NEXT, UNCERTAIN["store"], "local_write %m, %u[wave]")
    assert {"vmcnt": 1} in counts(tg.sync(kernel(COPY, *between, USE)).kernel)


def test_counts_from_values_rely_on_copies_alone() -> None:
    for between, count in ((UNCERTAIN["uniform read"], 0), (UNCERTAIN["store"], 0), (NEXT, 1)):
        trace = tg.CapturedTrace(kernel(f"%c = {COPY}", between, "wait_count deps(%c)", "workgroup_barrier", USE))
        tg.populate_barriers_counters(trace)
        assert counts(trace.kernel) == [{"vmcnt": count}]


def test_waits_are_tightened_to_what_is_certain() -> None:
    before = kernel(COPY, NEXT, UNCERTAIN["store"], "wait_count vmcnt(0)", "workgroup_barrier", USE)
    made = tg.sync(before, tighten_waits=True)
    assert found_after(made) == []
    assert counts(made.kernel) == [{"vmcnt": 1}]


def test_a_tensor_copy_counts_even_where_its_edges_are_clipped() -> None:
    """One instruction moves the whole tile, and its descriptor holds the bounds."""
    first = "tensor_load_to_lds %X[0, wave] to %t[0][wave] : tile<64xf32>"
    second = "tensor_load_to_lds %X[1, wave] to %t[1][wave] bounds(8, 4, 40) : tile<64xf32>"
    made = tg.sync(kernel(first, second, USE, target="gfx1250"))
    assert any(each.get("tensorcnt") == 1 for each in counts(made.kernel))


# --- what is found in programs that rely on more --------------------------------------------------------------------


@pytest.mark.parametrize("name", UNCERTAIN)
def test_a_count_that_leans_on_it_is_a_race_for_every_judge(name: str) -> None:
    found = leaning(UNCERTAIN[name])
    graph, target = tg.build_graph(found).graph, load_target("gfx950")
    assert not verify(graph, target).is_proved
    assert judged(found) == {"TG101"}
    assert codes(found) == {"TG101"}
    assert codes(leaning(UNCERTAIN[name], 0)) == set()
    assert codes(leaning(NEXT)) == set()


def test_the_finding_says_which_line_does_not_count() -> None:
    (found,) = tg.check(leaning(UNCERTAIN["uniform read"]))
    assert any(
        note == "the instructions of line 7 do not count: they may be merged, deleted, skipped, or issued on "
        "another counter"
        for note in found.notes
    )
    (other,) = tg.check(kernel(COPY, "wait_count vmcnt(1)", "workgroup_barrier", USE))
    assert not any("do not count" in note for note in other.notes)


def test_a_count_with_a_name_is_stale_if_it_leans_on_it() -> None:
    lines = (f"%c = {COPY}", UNCERTAIN["uniform read"], "wait_count vmcnt(1) deps(%c)", "workgroup_barrier", USE)
    assert codes(kernel(*lines)) >= {"TG107"}


def test_the_run_shows_wrong_numbers_for_a_count_that_leans_on_a_plain_read() -> None:
    found = leaning(UNCERTAIN["uniform read"])
    inputs = tg.make_inputs(found)
    right = tg.run(found, inputs=inputs, in_order=True)["Y"]
    runs = [tg.run_hostile(found, inputs, seed=seed) for seed in range(12)]
    assert all({each.code for each in ran.findings()} == {"TG101"} for ran in runs)
    assert not all(np.array_equal(ran.arrays["Y"], right, equal_nan=True) for ran in runs)
    strict = leaning(UNCERTAIN["uniform read"], 0)
    for seed in range(4):
        ran = tg.run_hostile(strict, inputs, seed=seed)
        assert not ran.findings()
        np.testing.assert_array_equal(ran.arrays["Y"], right)


@pytest.mark.parametrize(("target", "counter"), [("gfx942", "lgkmcnt"), ("gfx1200", "dscnt")])
def test_counts_of_lds_accesses_perform_nothing_but_at_zero(target: str, counter: str) -> None:
    """Two neighbouring writes may become one, so that `lgkmcnt(1)` leaves both in flight."""
    use = "%a = local_read %u[(wave + 1) mod 4] : tile<64xf32>\n  global_write %a, %Y[0, wave]"
    first, second = "local_write %m, %u[wave]", "local_write %m, %t[1][wave]"
    for count, expected in ((0, set()), (1, {"TG101"})):
        lines = (first, second, f"wait_count {counter}({count})", "workgroup_barrier", use)
        assert codes(kernel(*lines, target=target)) == expected


# --- graphs say themselves what is certain --------------------------------------------------------------------------

GRAPH = """graph @g target gfx950 waves 2
buffer %a bytes 512 slots 1
program entry 0 waves 0 .. 2
{{
  0: write %a[0, wave * 256] box() width 256 async issues vmcnt 1 .. 1 -> 1
  1: compute issues vmcnt {issues} -> 2
  2: sync wait_count vmcnt(1) -> 3
  3: sync workgroup_barrier -> 4
  4: read %a[0, (wave + 1) mod 2 * 256] box() width 256 issues lgkmcnt 0 .. 1 -> 5
  5: end
}}
"""


@pytest.mark.parametrize(
    ("issues", "proved"), [("1 .. 1", True), ("1 .. 4", True), ("0 .. 1", False), ("0 .. 1 unordered", False)]
)
def test_a_graph_states_what_is_certain(issues: str, proved: bool) -> None:
    graph = written(issues)
    target = load_target("gfx950")
    assert verify(graph, target).is_proved == proved
    assert bool(judge(graph, target).findings) != proved


@pytest.mark.parametrize(("issues", "proved"), [("0 .. 1", True), ("0 .. 1 unordered", False)])
def test_what_may_be_issued_out_of_turn_makes_counts_void(issues: str, proved: bool) -> None:
    """Here it matters that it may be issued: the copy between is enough otherwise."""
    graph, target = written("1 .. 1"), load_target("gfx950")
    _, certain, *_ = graph.points
    (doubtful,) = written(issues).points[1].issues
    again = replace(certain, issues=(doubtful,), successors=(2,))
    points = (*graph.points[:1], replace(certain, successors=(6,)), *graph.points[2:], again)
    changed = replace(graph, points=points)
    assert verify(changed, target).is_proved == proved
    assert bool(judge(changed, target).findings) != proved


def written(issues: str) -> g.SyncGraph:
    return parse_graph(GRAPH.format(issues=issues), "g.sync")


# --- with the old beliefs put back, something wrong is proved -------------------------------------------------------


def test_without_the_fact_a_race_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_before(self: Target, operation: str, bytes: int, *, masked: bool = False) -> tuple[int, int]:
        return self.instructions(operation, bytes)

    found = leaning(UNCERTAIN["uniform read"])
    assert codes(found) == {"TG101"}
    monkeypatch.setattr(Target, "issued", as_before)
    memory._issues.cache_clear()
    try:
        assert codes(found) == set()
        assert tg.prove(found).is_proved
        assert {"vmcnt": 1} in counts(tg.sync(kernel(COPY, UNCERTAIN["uniform read"], USE)).kernel)
    finally:
        memory._issues.cache_clear()


def test_without_masks_a_clipped_copy_would_be_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = leaning(UNCERTAIN["clipped copy"])
    assert codes(found) == {"TG101"}
    monkeypatch.setattr(memory, "_is_masked", lambda op: False)
    assert codes(found) == set()


def test_a_machine_that_issues_everything_misses_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    def issues_all(self: InFlight, name: str) -> Iterator[tuple[int, int]]:
        newer = 0
        for number, touch in reversed(self.touches.items()):
            for queue in touch.queues:
                if queue.counter == name:
                    yield number, newer
                    newer += max(queue.least, 1)

    found = leaning(UNCERTAIN["uniform read"])
    assert judged(found) == {"TG101"}
    monkeypatch.setattr(InFlight, "_newer", issues_all)
    assert judged(found) == set()
    assert not tg.prove(found).is_proved  # the verifier counts by itself


# --- issued or not: all choices, one after the other ----------------------------------------------------------------

KINDS = {"copy": Queue("vmcnt", 1), "plain": Queue("vmcnt", 0), "out of turn": Queue("vmcnt", 0, in_order=False)}


def performed_if(program: list[str | int], issued: dict[int, bool]) -> list[set[int]]:
    """Which copies have landed for certain after each wait, if these plain operations are issued and those are not."""
    queue: list[int] = []
    done: set[int] = set()
    found = []
    for place, step in enumerate(program):
        if isinstance(step, str):
            if issued.get(place, True):
                queue.append(place)
            continue
        if step == 0:
            queue = []
        elif all(program[each] != "out of turn" for each in queue):
            queue = queue[len(queue) - step :] if step < len(queue) else queue
        done |= {each for each in range(place) if program[each] == "copy" and each not in queue}
        found.append(set(done))
    return found


def test_the_machine_knows_what_is_performed_whatever_is_issued() -> None:
    """It takes the worst of both at once; going through all choices one by one finds nothing else."""
    rng = random.Random(21)
    counted = 0
    for _ in range(600):
        kinds = ("copy", "copy", "plain", "plain", "out of turn") if rng.random() < 0.3 else ("copy", "copy", "plain")
        program: list[str | int] = [
            rng.choice((0, 1, 1, 2, 3)) if rng.random() < 0.3 else rng.choice(kinds)
            for _ in range(rng.randrange(3, 10))
        ]
        doubtful = [place for place, step in enumerate(program) if step in ("plain", "out of turn")]
        ways = [
            performed_if(program, dict(zip(doubtful, choice, strict=True)))
            for choice in itertools.product((False, True), repeat=len(doubtful))
        ]
        flight, done, wait = InFlight(rules_of(load_target("gfx950"))), set[int](), 0
        for place, step in enumerate(program):
            if isinstance(step, str):
                region = Region("", ((0, 4),)) if step == "copy" else None
                flight.issue(place, Touch(place, "write", region, (KINDS[step],), is_async=step == "copy"))
                continue
            drained = flight.drained(Drain(place, counts=(("vmcnt", step),)))
            flight.perform(drained)
            done |= {each for each in drained if program[each] == "copy"}
            certain = set.intersection(*(way[wait] for way in ways))
            assert done == certain, program
            counted += bool(step and certain)
            wait += 1
    assert counted > 200  # waits for more than 0 that perform something
