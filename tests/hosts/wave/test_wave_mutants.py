"""Traces with one barrier or wait too few: whoever computes something else must have been found by the verifier.

The machine that runs traces with numbers and the verifier share no code. A mutant that the verifier proves must compute
what its original does, under every timing that is tried; most mutants are found by both.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from oracles.wave_machine import CannotRun, Program, make_inputs
from oracles.wave_traces.wave_traces import CASES, Enough, erase, nodes, put_before, traced
from tidegate.hosts.wave.build import build
from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.dropin.passing import Options, place_barriers
from tidegate.targets import load_target
from tidegate.verify.verify import is_ordered

KERNELS = (
    "pass-around",
    "one-writes-in-loop",
    "atomic-add-4",
    "softmax-4",
    "row-sum-staged",
    "gemm-small",
    "gemm-none",
    "gemm-prefetch-2",
    "gemm-modulo-2",
    "gemm-async-none",
    "gemm-async-modulo-2",
)
TIMINGS = (("early", 2), ("late", 2), ("lazy", 1), ("copies-late", 1), ("copies-early", 1), ("random", 4))
MEETING = ("shared_memory_barrier", "workgroup_barrier", "shared_memory_barrier_signal")


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


def mutate(trace: Any, draw: random.Random) -> str:
    """Takes a barrier away, or lets it wait for less; says which."""
    found = nodes(trace, *MEETING)
    chosen = draw.choice(found)
    kind = draw.choice(["gone", "bare", "no copies"])
    name = f"{chosen.name} {kind}"
    if chosen.tkw_op_name == "shared_memory_barrier_signal":
        waits = [node for node in nodes(trace, "shared_memory_barrier_wait") if node.graph is chosen.graph]
        after = [node for node in waits if node in _behind(chosen)]
        erase(*after[:1], chosen)
    elif kind == "gone" or chosen.tkw_op_name == "workgroup_barrier":
        erase(chosen)
    elif kind == "bare":
        put_before(chosen, "WorkgroupBarrier")
        erase(chosen)
    else:
        chosen.args = (False, False)
    return name


def _behind(node: Any) -> list[Any]:
    every = list(node.graph.nodes)
    return every[every.index(node) :]


def outputs(program: Program, inputs: Any, seed: int, timing: str) -> dict[str, Any] | str:
    ran = program.run({name: array.copy() for name, array in inputs.items()}, seed, timing)
    return ran.hang or {name: ran.arrays[name] for name in inputs}


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return False
    return all(np.allclose(one[name], other[name], atol=1e-3, rtol=1e-3, equal_nan=True) for name in one)


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("name", KERNELS)
def test_what_computes_something_else_is_found(name: str, target: str, request: pytest.FixtureRequest) -> None:
    if target not in CASES[name].targets:
        target = "gfx950"
    tries = request.config.getoption("--count") or 2
    draw = random.Random(f"{name} {target}")
    differing = 0

    def after_ours(trace: Any, constraints: Any, options: Any) -> None:
        nonlocal differing
        facts, context = load_target(target), context_of(constraints)
        inputs = make_inputs(trace, seed=1)
        for _ in range(tries):
            for node in [*nodes(trace, "shared_memory_barrier_wait"), *nodes(trace, *MEETING)]:
                erase(node)
            placed = place_barriers(trace, context, facts, Options())
            assert not placed.why_not
            right = outputs(Program(trace, constraints, options), inputs, 0, "early")
            assert not isinstance(right, str)
            what = mutate(trace, draw)
            proved = is_ordered(build(trace, context, facts).graph, facts)
            program = Program(trace, constraints, options)
            for timing, seeds in TIMINGS:
                for seed in range(seeds):
                    if not is_same(right, outputs(program, inputs, seed, timing)):
                        assert not proved, f"{what}: differs ({timing}, seed {seed}), and is proved"
                        differing += 1
                        break
        raise Enough

    with suppress(Enough, CannotRun):
        traced(name, target, before=after_ours)
    assert differing or name not in ("gemm-none", "gemm-modulo-2", "pass-around"), "no mutant computes anything else"
