"""Random loops through ping-pong scheduling: free of races and hangs, the same results, and declined for the reason.

The loops themselves are examined first: each can be synchronized, and computes the same in every order of its waves. In
`make check` there are a few, in `make test` some more; `python -m bench schedule-fuzz` draws thousands.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.schedule_fuzz import (
    DECLINED,
    ELSEWHERE,
    PROOF,
    RACES,
    REORDERED,
    RESULTS,
    RIGHT,
    STAGGER,
    examine,
    faults_of,
    refuse,
)
from oracles.programs.random_bodies import TAGS, TRIPS, WAYS, Case, draw_body, draw_features, draw_illegal, draw_plain
from tidegate.index import evaluate, holds
from tidegate.language import ops
from tidegate.language.ops import Block, Kernel, Op, map_blocks
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.pingpong import schedule_kernel
from tidegate.scheduling.model import REASONS
from tidegate.session import Session
from tidegate.simulate.hostile import run_hostile
from tidegate.simulate.inorder import make_inputs, run
from tidegate.synchronize import synchronize

FEW, MANY = 6, 25


def some(few: int, many: int) -> list[object]:
    """Numbers of programs; those after the first few are slow."""
    return [pytest.param(each, marks=[pytest.mark.slow] if each >= few else []) for each in range(many)]


# --- the loops themselves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", some(10, 40))
def test_originals_can_be_made_right_and_mean_something(seed: int) -> None:
    case = draw_body(seed)
    assert parse(show(case.kernel)).kernels == (case.kernel,)
    made = synchronize(Session(case.name, case.target, case.kernel, None))
    assert made.kernel is not None
    assert made.checked is not None
    assert not made.findings
    assert not made.checked.findings
    for trips in TRIPS:
        sizes = case.sizes(trips)
        inputs = make_inputs(case.kernel, sizes, seed=trips)
        wanted = run(made.kernel, inputs, sizes=sizes, lanes=case.target.lanes)
        found = run_hostile(made.kernel, inputs, target=case.target, sizes=sizes, seed=trips).arrays
        for name, array in wanted.items():
            assert np.isfinite(array.astype(np.float32)).all(), name
            assert np.array_equal(array, found[name]), name


def test_one_seed_gives_one_program() -> None:
    assert draw_body(3) == draw_body(3)
    assert draw_illegal(3) == draw_illegal(3)


@pytest.mark.parametrize("trips", TRIPS)
def test_the_loop_runs_as_often_as_it_is_said(trips: int) -> None:
    for case in map(draw_body, range(10)):
        (loop,) = (op for op in case.kernel.body.ops if isinstance(op, ops.Iterate))
        sizes = case.sizes(trips)
        assert all(holds(cond, sizes) for cond in case.kernel.where)
        assert len(range(*(evaluate(each, sizes) for each in (loop.lower, loop.upper, loop.step)))) == trips


def test_drawn_programs_have_everything() -> None:
    drawn = [draw_features(seed) for seed in range(400)]
    assert {tag for each in drawn for tag in each.tags} == set(TAGS)
    assert {each.waves for each in drawn} == {2, 4, 6, 8}
    assert {each.clusters for each in drawn} == {1, 2, 3, 4}
    assert {each.products for each in drawn} >= {1, 2, 3, 4, 6}


# --- what comes of them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", some(2, MANY))
def test_scheduled_loops_are_right(seed: int) -> None:
    case = draw_body(seed)
    found = examine(case)
    right = ((REORDERED,), (REORDERED, ELSEWHERE), (DECLINED,))
    assert found.outcomes in right, f"{found.says}\n\n{case.text}"
    assert found.reason in ("", *REASONS)


@pytest.mark.parametrize("seed", some(2, 8))
def test_plain_loops_are_scheduled(seed: int) -> None:
    """So it is the one thing wrong for which others are declined."""
    kernel, target = draw_plain(seed)
    assert schedule_kernel(kernel, target, "clusters=2").declined is None, show(kernel)


@pytest.mark.parametrize("seed", some(len(WAYS), 3 * len(WAYS)))
def test_one_thing_wrong_is_declined_for_that(seed: int) -> None:
    case = draw_illegal(seed)
    outcome, says = refuse(case)
    assert outcome == RIGHT, f"{case.name}: {says}\n\n{case.text}"


# --- the examination itself ---------------------------------------------------------------------------------------


def test_damage_is_noticed() -> None:
    """Without drains there are races, without conditional barriers no stagger, without a result other numbers."""
    case, kernel = scheduled()
    assert not list(faults_of(case, kernel))
    bare = changed(kernel, {ops.SharedMemoryBarrier: ops.WorkgroupBarrier(), ops.WaitCount: None})
    assert {RACES, PROOF} <= {each for each, _ in faults_of(case, bare)}
    assert STAGGER in {each for each, _ in faults_of(case, changed(kernel, {ops.ConditionalBarrier: None}))}
    (loop,) = (op for op in kernel.body.ops if isinstance(op, ops.Iterate))
    idle = replace(loop, body=replace(loop.body, yields=tuple(each.value for each in loop.carried)))
    assert RESULTS in {each for each, _ in faults_of(case, changed(kernel, {ops.Iterate: idle}))}


def scheduled() -> tuple[Case, Kernel]:
    """A loop that is reordered, with a buffer of one slot that waves share, and a sum that it hands on."""
    for seed in range(200):
        if {"neighbour's rows", "1 slot", "products: chain", "slot by counter"} <= draw_features(seed).tags:
            case = draw_body(seed)
            made = schedule_kernel(case.kernel, case.target, case.strategy).kernel
            if made is not None:
                return case, made
    raise AssertionError("none is reordered")


def changed(kernel: Kernel, change: dict[type, Op | None]) -> Kernel:
    """The kernel with operations of some kinds replaced, or left out."""

    def inside(block: Block, _: int = 0) -> Block:
        found = (change.get(type(op), op) for op in block.ops)
        return replace(block, ops=tuple(map_blocks(op, inside) for op in found if op is not None))

    return replace(kernel, body=inside(kernel.body))
