"""Kernels with numbers on the hostile machine: right where they are synchronized, found out where they are not.

What the in-order machine computes is what a kernel means. A kernel without races must compute it on every seed; of a
kernel with a race every seed must say so, and some seed must show wrong numbers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from oracles.programs.random_kernels import runnable_kernel
from tests.language.test_broken import NAMES, code_of, kernel_of, text_of
from tests.language.test_examples import NAMES as EXAMPLES
from tests.language.test_examples import OTHER_SIZES, module, trace
from tidegate.graph.build import build_graph
from tidegate.language.ops import Kernel, walk_ops
from tidegate.language.parse import parse
from tidegate.language.show import show, show_op
from tidegate.simulate.barriers import WORKGROUP
from tidegate.simulate.choices import Choices
from tidegate.simulate.faults import SimulationError
from tidegate.simulate.hostile import HostileRun, run_hostile
from tidegate.simulate.inorder import make_inputs, run
from tidegate.simulate.position import shape_of
from tidegate.simulate.program_order import compare
from tidegate.simulate.regions import Regions
from tidegate.simulate.statistics import Silent
from tidegate.simulate.steps import Drain, Issue, Step
from tidegate.simulate.unroll import Surroundings, unroll
from tidegate.targets import load_target

SEEDS = range(5)
# Mistakes that show when a kernel runs; the others stand in its text.
SHOWN = [name for name in NAMES if re.match("TG10[1-6]|TG221", code_of(text_of(name)))]
TARGETS = ("", "gfx942", "gfx1250", "sm_90", "gfx1201")
# Random kernels whose waves write one element of global memory, which nobody judges: their results depend on luck.
GLOBAL_RACES = {129}


def kernel(text: str) -> Kernel:
    (found,) = parse(text, "k.tide").kernels
    return found


def hostile(found: Kernel, seed: int = 0, **how: Any) -> HostileRun:
    inputs = how.pop("inputs", None) or make_inputs(found, how.get("sizes"), seed)
    return run_hostile(found, inputs, target=load_target(found.target), seed=seed, **how)


def codes(ran: HostileRun) -> set[str]:
    return {each.code for each in ran.findings()}


def assert_same(found: Kernel, seed: int, target: str, sizes: dict[str, int] | None = None) -> None:
    lanes, inputs = load_target(target).lanes or 64, make_inputs(found, sizes, seed)
    wanted = run(found, inputs, sizes=sizes, lanes=lanes)
    ran = run_hostile(found, inputs, target=load_target(target), sizes=sizes, seed=seed)
    assert not ran.findings()
    for name, array in wanted.items():
        got, want = (np.asarray(each, np.float64) for each in (ran.arrays[name], array))  # small floats know no NaN
        np.testing.assert_array_equal(got, want, err_msg=f"{name}, seed {seed}")


# --- kernels that are right ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_compute_what_they_mean(name: str, seed: int) -> None:
    found = trace(name)
    assert_same(found, seed, found.target, {**{size.name: size.default for size in found.sizes}})


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_other_sizes(name: str) -> None:
    found = trace(name)
    assert_same(found, 1, found.target, OTHER_SIZES[name])


def test_examples_agree_with_numpy() -> None:
    """Against the reference too, not only against the other machine."""
    found, sizes = trace("gemm_two_slots"), {"M": 64, "N": 64, "K": 64}
    inputs = make_inputs(found, sizes)
    after = hostile(found, inputs=inputs, sizes=sizes).arrays
    wanted = module("gemm_two_slots").reference(inputs, sizes)["C"]
    np.testing.assert_allclose(after["C"], wanted, *module("gemm_two_slots").TOLERANCE)


def test_random_kernels_without_a_race_compute_what_they_mean() -> None:
    clean = raced = 0
    for seed in range(150):
        target = TARGETS[seed % len(TARGETS)]
        found = runnable_kernel(random.Random(seed), target)
        ran = run_hostile(found, make_inputs(found, None, seed), target=load_target(target), seed=seed)
        assert ran.hang is None
        if ran.findings():
            raced += 1
        elif seed not in GLOBAL_RACES:
            clean += 1
            assert_same(found, seed, target)
    assert clean > 20
    assert raced > 20


@pytest.mark.parametrize("name", NAMES)
def test_fixed_twins_are_clean(name: str) -> None:
    found = kernel_of(name, fixed=True)
    for seed in SEEDS:
        assert_same(found, seed, found.target)


# --- kernels that are wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHOWN)
def test_every_seed_finds_what_is_broken(name: str) -> None:
    """With their default sizes, which are those of the witness in each file."""
    wanted, found = code_of(text_of(name)), kernel_of(name)
    for seed in SEEDS:
        assert wanted in codes(hostile(found, seed)), f"seed {seed}"


def test_a_race_shows_in_the_numbers_of_some_seeds_and_in_the_findings_of_all() -> None:
    found = kernel_of("missing_barrier")
    inputs = make_inputs(found)
    right = run(found, inputs)["Y"]
    luck = []
    for seed in range(40):
        ran = hostile(found, seed, inputs=inputs)
        assert codes(ran) == {"TG101"}
        luck.append(np.array_equal(ran.arrays["Y"], right))
    assert True in luck
    assert False in luck


@pytest.mark.parametrize("name", ["own_copy", "bare_barrier", "overwrite_next_iteration", "wait_one_too_high"])
def test_late_accesses_give_wrong_numbers(name: str) -> None:
    found = kernel_of(name)
    inputs = make_inputs(found)
    right = run(found, inputs)
    assert not all(
        np.array_equal(array, right[key], equal_nan=True)
        for seed in range(40)
        for key, array in hostile(found, seed, inputs=inputs).arrays.items()
    )


def test_a_finding_names_statements_waves_bytes_and_the_workgroup() -> None:
    text = text_of("missing_barrier").replace("waves 4", "grid(2) waves 4")
    (finding,) = hostile(kernel(text)).findings()
    assert finding.code == "TG101"
    lines = text.splitlines()
    assert [lines[label.at.line - 1].split()[0] for label in finding.labels] == ["%b", "local_write"]
    assert all("bytes" in label.text and "wave" in label.text for label in finding.labels)
    assert "in workgroup (0, 0, 0)" in finding.notes


def test_a_finding_names_the_iteration() -> None:
    (finding, *_) = hostile(kernel_of("overwrite_next_iteration")).findings()
    assert any("%k = " in label.text for label in finding.labels)


def test_a_hang_stops_the_run_and_says_who_waits() -> None:
    ran = hostile(kernel_of("mbarrier_bytes"))
    assert ran.hang is not None
    assert [wave for wave, _ in ran.hang.blocked()] == [0, 1, 2, 3]
    assert ran.findings()[-1].code == "TG221"


def test_a_wrong_index_is_said_as_on_the_other_machine() -> None:
    text = "kernel @f(%Y: global<4xf32>) waves 1 {\n  %t = fill 0.0 : tile<4xf32>\n  global_write %t, %Y[wave + 1]\n}"
    with pytest.raises(SimulationError) as here:
        hostile(kernel(text))
    with pytest.raises(SimulationError) as there:
        run(kernel(text), make_inputs(kernel(text)))
    assert here.value.finding == there.value.finding


# --- how it runs --------------------------------------------------------------------------------------------------


class Recorder(Silent):
    """The steps of each wave of the first workgroup, and the order in which waves took them."""

    def __init__(self) -> None:
        self.groups = 0
        self.steps: dict[int, list[Step]] = {}
        self.order: list[int] = []

    def workgroup(self, place: tuple[int, int, int], waves: int, time: int) -> None:
        self.groups += 1

    def step(self, time: int, wave: int, step: Step) -> None:
        self.order.append(wave)
        if self.groups == 1:
            self.steps.setdefault(wave, []).append(step)


def test_the_seed_decides_the_order() -> None:
    found = trace("gemm_pingpong")
    orders = []
    for seed in (1, 1, 2):
        recorder = Recorder()
        hostile(found, seed, listener=recorder)
        orders.append(recorder.order)
    assert orders[0] == orders[1] != orders[2]


def test_waves_run_ahead_of_one_another() -> None:
    """Some schedule lets a wave finish before another begins, where nothing holds it."""
    first = set()
    for seed in range(20):
        recorder = Recorder()
        hostile(trace("wave_private"), seed, sizes={"M": 64}, listener=recorder)
        steps = {wave: len(each) for wave, each in recorder.steps.items()}
        wave = recorder.order[0]
        if recorder.order[: steps[wave]] == [wave] * steps[wave]:
            first.add(wave)
    assert first


@pytest.mark.parametrize("name", EXAMPLES)
def test_steps_are_those_of_the_graph(name: str) -> None:
    """Both front ends say the same: bytes, counters, barriers, loops, and what comes first in the program."""
    found = trace(name)
    assert_steps_of_the_graph(found, found.target)


def test_steps_of_random_kernels_are_those_of_their_graphs() -> None:
    """Without `lane` and `read_index`, of which a graph knows less than a run does."""
    compared = 0
    for seed in range(80):
        target = TARGETS[seed % len(TARGETS)]
        found = runnable_kernel(random.Random(seed), target)
        if "lane" not in (text := show(found)) and "read_index" not in text:
            assert_steps_of_the_graph(found, target)
            compared += 1
    assert compared > 20


def assert_steps_of_the_graph(found: Kernel, target_name: str) -> None:
    recorder, target = Recorder(), load_target(target_name)
    run_hostile(found, make_inputs(found), target=target, listener=recorder)
    graph = build_graph(found, target).graph
    env = {**dict.fromkeys((each.name for each in graph.free), 0), **dict.fromkeys(("wg0", "wg1", "wg2"), 0)}
    env |= {size.name: size.default for size in found.sizes}
    around = Surroundings(graph, shape_of(graph), Regions(), bool(target.counters), env)
    waves = range(graph.waves)
    ours = {wave: list(told(recorder.steps[wave])) for wave in waves}
    theirs = {wave: list(told(unroll(around, wave, Choices()))) for wave in waves}
    for wave in waves:
        assert [each.says for each in ours[wave]] == [each.says for each in theirs[wave]]
        for one, other in zip(ours[wave], theirs[wave], strict=True):
            assert one.bytes == other.bytes or (other.may and one.bytes <= other.bytes)
    first, last = ours[0], ours[graph.waves - 1]
    for i, j in product(range(0, len(first), 3), range(0, len(last), 3)):
        order = compare(theirs[0][i].key, theirs[graph.waves - 1][j].key)
        assert compare(first[i].key, last[j].key) == order, (first[i].says, last[j].says)


@dataclass(frozen=True)
class Told:
    """What a step says, but for the number of its statement: that is one thing in a kernel and another in a graph."""

    says: tuple[object, ...]
    key: tuple[int, ...]
    bytes: frozenset[int] = frozenset()
    may: bool = False


def told(steps: Iterable[Step]) -> Iterator[Told]:
    """Without accesses to global memory that count on nothing. Copies are numbered among the copies of the wave."""
    copies: dict[int, int] = {}
    number = 0
    for step in steps:
        if isinstance(step, Issue):
            touch = step.touch
            if touch.is_async:
                copies[number] = len(copies)
            number += 1
            if touch.region is None:
                if touch.queues:
                    yield Told((touch.queues,), touch.key)
                continue
            more = (touch.reports, touch.size) if touch.is_async else ()
            says = (touch.effect, touch.queues, touch.is_async, touch.proxy, touch.operator, touch.fetches)
            bytes_ = frozenset(byte for low, high in touch.region.stretches for byte in range(low, high))
            yield Told((*says, touch.can_wait, touch.loops, *more), touch.key, bytes_, touch.may)
        else:
            if isinstance(step, Drain):
                step = replace(step, copies=frozenset(copies[each] for each in step.copies))
            yield Told((replace(step, where=0, key=()),), step.key)


def test_statistics() -> None:
    found = trace("gemm_two_slots")
    statistics = hostile(found, sizes={"M": 128, "N": 64, "K": 96}).statistics
    assert statistics.workgroups == 2
    assert statistics.accesses == 2 * 4 * (3 * 6 + 1)
    for wave in statistics.waves:
        assert wave.arrivals == wave.departures == {WORKGROUP: 3}
        assert wave.in_flight["lgkmcnt"] == 4


def test_progress_counts_workgroups() -> None:
    told: list[tuple[int, int]] = []
    hostile(trace("gemm_two_slots"), sizes={"M": 128, "N": 64, "K": 32}, progress=lambda *each: told.append(each))
    assert told == [(1, 2), (2, 2)]


def test_statements_are_numbered_in_the_order_of_the_text() -> None:
    found = kernel_of("missing_barrier")
    (clash,) = hostile(found).verdicts.clashes.values()
    texts = [next(iter(show_op(op))) for op in walk_ops(found.body)]
    assert texts[clash.first.touch.where].startswith("local_write")
    assert "local_read" in texts[clash.second.touch.where]


def test_from_python() -> None:
    @tg.kernel(waves=4, target="gfx942")
    def shift(X: tg.Global[256, tg.f32], Y: tg.Global[256, tg.f32]):  # type: ignore[no-untyped-def,valid-type]
        tile = tg.alloc((4, 64), tg.f32)
        tg.local_write(tg.global_read(X, (tg.wave() * 64,), (64,)), tile, (tg.wave(),))
        tg.workgroup_barrier()
        tg.global_write(tg.local_read(tile, ((tg.wave() + 1) % 4,), (64,)), Y, (tg.wave() * 64,))

    assert codes(tg.run_hostile(shift, seed=3)) == {"TG101"}
    ran = tg.run_hostile(shift, target="sm_80")
    assert not ran.findings()
    inputs = tg.make_inputs(shift)
    np.testing.assert_array_equal(ran.arrays["Y"], tg.run(shift, inputs=inputs, in_order=True)["Y"])


# --- rules of the machine, with numbers ---------------------------------------------------------------------------


def test_ordinary_accesses_of_one_wave_keep_their_order() -> None:
    text = """target gfx942
    kernel @f(%X: global<4xf32>, %Y: global<4xf32>) waves 1 {
      %t = alloc : lds<4xf32>
      %x = global_read %X : tile<4xf32>
      local_write %x, %t
      %a = local_read %t : tile<4xf32>
      %b = neg %a : tile<4xf32>
      local_write %b, %t
      %c = local_read %t : tile<4xf32>
      global_write %c, %Y
    }"""
    for seed in range(20):
        assert_same(kernel(text), seed, "gfx942")


def test_a_read_in_flight_sees_what_is_there_when_it_is_used() -> None:
    """Its value is used after another wave has written: on some seed it is the new one."""
    text = """target gfx942
    kernel @f(%Y: global<2x4xf32>) waves 2 {
      %t = alloc : lds<4xf32>
      %zero = fill 0.0 : tile<4xf32>
      %one = fill 1.0 : tile<4xf32>
      conditional wave == 0 {
        local_write %zero, %t
      }
      shared_memory_barrier
      %a = local_read %t : tile<4xf32>
      workgroup_barrier
      conditional wave == 1 {
        local_write %one, %t
      }
      shared_memory_barrier
      global_write %a, %Y[wave]
    }"""
    seen = set()
    for seed in range(40):
        ran = hostile(kernel(text), seed)
        assert "TG102" in codes(ran)
        seen.add(float(ran.arrays["Y"][0, 0]))
    assert seen == {0.0, 1.0}


def test_a_copy_lands_any_time_before_its_wait() -> None:
    """The wave reads its own copy too early: on some seed it is there, on some it is not."""
    found = kernel_of("own_copy")
    inputs = make_inputs(found)
    right = run(found, inputs)["Y"]
    seen = {np.array_equal(hostile(found, seed, inputs=inputs).arrays["Y"], right) for seed in range(40)}
    assert seen == {True, False}
