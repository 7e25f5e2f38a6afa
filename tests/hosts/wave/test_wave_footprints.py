"""The bytes that the front end finds for an access, beside those that the machine touches when it runs the trace.

The two share no code: one evaluates index expressions for all threads at once and gathers them by waves, the other asks
for the places of one wave at a time while it runs.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oracles.wave_machine import CannotRun, run
from oracles.wave_machine.memory import Buffer
from oracles.wave_machine.waves import Wave
from oracles.wave_traces.wave_traces import Enough, traced
from tidegate.graph import model as g
from tidegate.hosts.wave.build import build
from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.memory import Memory
from tidegate.hosts.wave.nodes import op_of
from tidegate.hosts.wave.regions import reached_graphs
from tidegate.hosts.wave.touched import in_bytes
from tidegate.index import WAVE, evaluate, names
from tidegate.targets import load_target

# isort: split

import sympy
from wave_lang.kernel._support.indexing import IndexSequence
from wave_lang.kernel.lang.global_symbols import THREAD_0

Touched = dict[tuple[str, str, int], set[int]]  # graph and node, wave → bytes of its buffer


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


def key_of(node: Any, wave: int) -> tuple[str, str, int]:
    return (str(id(node.graph)), node.name, wave)


def bytes_of(foot: g.Footprint, wave: int) -> set[int]:
    start = evaluate(foot.place.offset, {WAVE: wave})
    steps = itertools.product(*(range(0, each.count * each.stride, each.stride) for each in foot.extents))
    return {start + sum(step) + byte for step in steps for byte in range(foot.width)}


def record(found: Touched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes what the machine's reads, writes and copies touch in shared memory."""
    own = Wave.places

    def places(self: Wave, addressing: Any, dynamic: Any) -> Any:
        answer = own(self, addressing, dynamic)
        frame = sys._getframe(1).f_locals
        op, memory = frame["op"], frame.get("memory", frame.get("near"))
        if isinstance(memory, Buffer) and not ("near" in frame and "found" not in frame):
            spots, mask = answer
            if "near" in frame:  # a copy: the lanes follow the first one
                spots = spots[0, 0] + np.arange(frame["found"].size)
            elif mask is not None:
                spots = spots[mask]
            size = memory.array.itemsize
            bytes_ = {int(spot) * size + byte for spot in np.unique(spots) for byte in range(size)}
            found.setdefault(key_of(op.fx_node, self.number), set()).update(bytes_)
        return answer

    monkeypatch.setattr(Wave, "places", places)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gemm-none", "gfx942"),
        ("gemm-none", "gfx1250"),
        ("gemm-modulo-2", "gfx1201"),
        ("gemm-async-none", "gfx950"),
        ("gemm-half-async-none", "gfx942"),
        ("gemm-half-async-none", "gfx950"),
        ("attention-none", "gfx942"),
        ("attention-none", "gfx950"),
        ("mxfp4-none", "gfx950"),
        ("pass-around", "gfx1201"),
        ("one-writes", "gfx942"),
        ("softmax-4", "gfx942"),
        ("row-sum-staged", "gfx942"),
    ],
)
def test_footprints_are_the_bytes_that_are_touched(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: Touched = {}
    exact = checked = 0
    record(found, monkeypatch)

    def after(trace: Any, constraints: Any, options: Any) -> None:
        nonlocal exact, checked
        with suppress(CannotRun):
            run(trace, constraints, options, seed=0, timing="lockstep")
        built = build(trace, context_of(constraints), load_target(target))
        for node, point in zip(built.nodes, built.graph.points, strict=False):
            if not isinstance(point.action, g.Access):
                continue
            foot = point.action.footprint
            if set(names(foot.place.offset)) - {WAVE}:
                continue
            for wave in range(built.graph.waves):
                touched = found.get(key_of(node, wave))
                if touched is None:
                    continue
                checked += 1
                ours = bytes_of(foot, wave)
                assert touched <= ours, f"{node.name}, wave {wave}"
                divergent = point.under == "divergent"  # then not all lanes are there
                assert foot.may or divergent or touched == ours, f"{node.name}, wave {wave}"
                exact += touched == ours
        raise Enough

    with suppress(Enough):
        traced(name, target, after=after)
    assert checked >= 4
    assert exact >= checked / 2


def test_elements_smaller_than_a_byte() -> None:
    """Three of four bits are two bytes; what starts in the middle of one is not told apart from the rest."""
    starts, width = in_bytes(np.array([0, 2, 4]), 3, 4) or (np.array([]), 0)
    assert (starts.tolist(), width) == ([0, 1, 2], 2)
    assert in_bytes(np.array([0, 1, 2]), 2, 4) is None
    assert in_bytes(np.array([1]), 3, 8) is not None


def test_atomics_know_the_type_of_their_elements_and_copies_alone_are_certain() -> None:
    atomics: list[g.Access] = []
    certain: dict[bool, set[int]] = {True: set(), False: set()}

    def after(trace: Any, constraints: Any, options: Any) -> None:
        for point in build(trace, context_of(constraints), load_target("gfx950")).graph.points:
            if isinstance(point.action, g.Access):
                certain[point.action.is_async] |= {each.least for each in point.issues}
                atomics.extend([point.action] if point.action.effect == "atomic" else [])
        raise Enough

    for name in ("atomic-add-4", "gemm-async-none"):
        with suppress(Enough):
            traced(name, "gfx950", after=after)
    assert atomics
    assert {each.element for each in atomics} <= {"f32", "i32"}
    assert certain == {True: {1}, False: {0}}


@pytest.mark.parametrize(("along", "apart"), [(0, 256), (1, 4)])
def test_elements_of_an_atomic_lie_along_the_dimension_of_the_greatest_size(along: int, apart: int) -> None:
    """Wave counts them up there, not in memory: two elements of two rows were taken for neighbours in one row."""
    found: list[set[int]] = []

    def after(trace: Any, constraints: Any, options: Any) -> None:
        memory = Memory(context_of(constraints), "gfx942")
        (node,) = (each for graph in reached_graphs(trace) for each in graph.nodes if op_of(each) == "atomic_add")
        node.args = (*node.args[:2], 2, None, *node.args[4:])  # two elements, no mapping
        for place, (dim, start) in enumerate(zip(node.index, (0, THREAD_0 * (1 + along)), strict=True)):
            node.index[dim] = IndexSequence(sympy.sympify(start), 2 if place == along else 1, 1)
        array = replace(memory.array(node.args[1]), bytes=2 * 64 * 4)  # of two rows
        starts, width = memory.threads(node, array) or (np.array([]), 0)
        found.extend({int(start) + byte for start in row for byte in range(width)} for row in starts[:64])
        raise Enough

    with suppress(Enough):
        traced("atomic-add-4", "gfx942", after=after)
    first = [4 * (1 + along) * lane for lane in range(64)]
    assert found == [{start + byte for start in (one, one + apart) for byte in range(4)} for one in first]
