"""Accesses of Wave traces that follow waves, lanes and counters at once: each rule, and a program just outside of it.

What is inside is right by the twin and proved; what is outside is wrong by the twin and refused.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("wave_lang")

import numpy as np
import sympy
import wave_lang.kernel.lang as tkl
from wave_lang.kernel.lang.global_symbols import WORKGROUP_0

from oracles.wave_traces.wave_traces import nodes, put_before
from oracles.wave_twin import judge
from oracles.wave_twin.build import Subject, compiled
from oracles.wave_twin.product import errors
from oracles.wave_twin.program import Gate, K, L, Loop, Program, Shared, Touch, W
from tidegate.graph import model as g
from tidegate.hosts.wave.build import Built, build
from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.iterations import MOST_ITERATIONS, MOST_PLACES, by_iteration, values_of
from tidegate.hosts.wave.lanes import lane_key
from tidegate.index import WAVE, evaluate
from tidegate.targets import load_target

FULL = Gate("full")
ROWS = Shared(4, 64)
NEXT = sympy.Mod(W + 1, 4)
TURNED = sympy.Mod(K[0] + L, 64)
BY_TURNS = sympy.Mod(K[0] + W, 4)


def write(row: Any, col: Any, count: int = 1, *, mapped: bool = False) -> Touch:
    return Touch(True, 0, sympy.sympify(row), sympy.sympify(col), count, mapped)


def read(row: Any, col: Any, count: int = 1, *, mapped: bool = False) -> Touch:
    return Touch(False, 0, sympy.sympify(row), sympy.sympify(col), count, mapped)


@dataclass(frozen=True)
class Rule:
    inside: tuple[object, ...]
    outside: tuple[object, ...]
    buffer: Shared = ROWS


RULES = {
    "a mapped write keeps to its lanes": Rule(
        (write(W, L, mapped=True), read(W, L)),
        (write(W, sympy.Mod(L + 1, 64), mapped=True), read(W, L)),
    ),
    "a mapped write of a vector, too": Rule(
        (write(W, 2 * L, 2, mapped=True), read(W, 2 * L, 2)),
        (write(W, 2 * L, 2, mapped=True), read(W, 2 * sympy.Mod(L + 1, 64), 2)),
        Shared(4, 128),
    ),
    "a mapped read of less than 64 bits keeps to its lanes": Rule(
        (write(W, L), read(W, L, mapped=True)),
        (write(W, L), read(W, 63 - L, mapped=True)),
    ),
    "waves whose lanes lie differently keep to them": Rule(
        (write(W, sympy.Mod(L + W, 64)), read(W, sympy.Mod(L + W, 64))),
        (write(W, sympy.Mod(L + W, 64)), read(W, sympy.Mod(L + 2 * W, 64))),  # wave 0 alone would be right
    ),
    "a row by wave and counter": Rule(
        (Loop(4, (write(BY_TURNS, L), read(BY_TURNS, L), FULL)),),
        (Loop(4, (write(BY_TURNS, L), read(sympy.Mod(K[0] + W + 1, 4), L), FULL)),),
    ),
    "a row by wave and counter needs the barrier": Rule(
        (Loop(4, (write(BY_TURNS, L), FULL)),),
        (Loop(4, (write(BY_TURNS, L),)),),
    ),
    "lanes that turn stay in the row of their wave": Rule(
        (Loop(3, (write(W, TURNED), FULL)),),
        (Loop(3, (write(W, TURNED), FULL, read(NEXT, TURNED))),),
    ),
    "lanes that turn meet each other": Rule(
        (Loop(3, (write(W, TURNED), FULL)),),
        (Loop(3, (write(W, TURNED),)),),
    ),
    "in one iteration nothing turns": Rule(
        (Loop(1, (write(W, TURNED), read(W, L))),),
        (Loop(2, (write(W, TURNED), read(W, L))),),
    ),
    "lanes that move on by a counter": Rule(
        (Loop(3, (write(W, L + 64 * K[0]),)),),
        (Loop(3, (write(W, L + 32 * K[0]),)),),
        Shared(4, 192),
    ),
    "a mapping that names a counter": Rule(
        (Loop(4, (write(4 * sympy.Mod(K[0], 2) + W, L, mapped=True), FULL, read(4 * sympy.Mod(K[0], 2) + NEXT, L))),),
        (Loop(4, (write(W + 4 * sympy.floor(K[0] / 2), L, mapped=True), FULL, read(NEXT, L))),),
        Shared(8, 64),
    ),
}


def subject_of(body: tuple[object, ...], buffer: Shared, target: str = "gfx942") -> Subject:
    lanes = 64 if target == "gfx942" else 32
    return compiled(Program(target, lanes, (4, 1, 1), (buffer,), body), "unplaced")


def built_from(subject: Subject) -> Built:
    context = context_of(subject.kernel.constraints, subject.options.subs)
    return build(subject.trace, context, load_target(subject.setting.target))


@pytest.mark.parametrize("name", RULES)
def test_inside_of_a_rule(name: str) -> None:
    subject = subject_of(RULES[name].inside, RULES[name].buffer)
    assert judge(subject.trace, subject.setting).kinds == set()
    assert errors(subject) == []


@pytest.mark.parametrize("name", RULES)
def test_outside_of_a_rule(name: str) -> None:
    subject = subject_of(RULES[name].outside, RULES[name].buffer)
    assert judge(subject.trace, subject.setting).kinds & {"waves", "lanes"}
    assert errors(subject)


@pytest.mark.parametrize(("bits", "count", "codes"), [(16, 2, []), (16, 4, ["TG108"]), (8, 8, ["TG108"])])
def test_a_read_that_may_be_transposed_has_no_lanes(bits: int, count: int, codes: list[str]) -> None:
    """From 64 bits on the hardware may deal the bytes of a mapped read, of which the twin knows nothing."""
    own = (W, count * L, count)
    subject = subject_of((write(*own), read(*own, mapped=True)), Shared(4, 32 * count, bits), "gfx1250")
    assert errors(subject) == codes
    subject = subject_of((write(*own, mapped=True), read(*own)), Shared(4, 32 * count, bits), "gfx1250")
    assert errors(subject) == []


# --- counters of which not all values are known -------------------------------------------------------------------


def unknown_trips(trace: Any) -> None:
    nodes(trace, "iterate")[0].count = WORKGROUP_0 + 2


def set_in_the_loop(trace: Any) -> None:
    """The counter takes another value, for every thread the same."""
    (node,) = nodes(trace, "write")
    named = {name for each in node.index.values() for name in each.start.free_symbols}
    (counter,) = (each for each in named if str(each).startswith("$ARG"))
    put_before(node, "SetSymbol", counter, put_before(node, "NewScalar", WORKGROUP_0, tkl.i32))


def many_trips(trace: Any) -> None:
    nodes(trace, "iterate")[0].count = MOST_ITERATIONS + 1


@pytest.mark.parametrize("change", [unknown_trips, set_in_the_loop, many_trips])
def test_a_counter_of_which_not_all_values_are_known_is_not_tried_out(change: Any) -> None:
    subject = subject_of((Loop(3, (write(W, TURNED), FULL)),), ROWS)
    assert built_from(subject).widened == ()
    change(subject.trace)
    assert len(built_from(subject).widened) == 1


def test_a_row_by_wave_and_counter_is_exact_for_any_number_of_trips() -> None:
    subject = subject_of((Loop(4, (write(BY_TURNS, L), read(BY_TURNS, L), FULL)),), ROWS)
    nodes(subject.trace, "iterate")[0].count = WORKGROUP_0 + 2
    assert built_from(subject).widened == ()
    assert errors(subject) == []


# --- the bytes, beside a dictionary -------------------------------------------------------------------------------


def bytes_of(foot: Any, names: dict[str, int]) -> set[int]:
    start = evaluate(foot.offset, names)
    steps = itertools.product(*(range(0, each.count * each.stride, each.stride) for each in foot.extents))
    return {start + sum(step) + byte for step in steps for byte in range(foot.width)}


def test_the_bytes_of_each_iteration() -> None:
    """Random tables: no byte is left out, none is made up unless the access `may` touch it, and where there is a key
    it is that of each iteration."""
    rng = random.Random(0)
    exact = keys = 0
    for _ in range(400):
        waves, lanes, width = rng.choice([1, 2, 3]), 4, rng.choice([1, 2])
        values = list(itertools.product(*(range(rng.choice([1, 2, 3])) for _ in range(rng.choice([1, 2])))))
        names = [f"k{number}" for number in range(len(values[0]))]
        step, turn, stride, skew = (
            rng.choice([1, 2, 4]),
            rng.choice([0, 1]),
            rng.choice([16, 20]),
            rng.choice([0, 0, 2]),
        )
        starts = [
            np.array(
                [
                    wave * stride + step * sum(value) + skew * wave * value[0] + 2 * ((lane + turn * value[-1]) % lanes)
                    for wave in range(waves)
                    for lane in range(lanes)
                ]
            )
            for value in values
        ]
        found = by_iteration(names, values, starts, width, waves, lanes)
        assert found is not None
        for value, table in zip(values, starts, strict=True):
            for wave, row in enumerate(table.reshape(waves, -1)):
                ours = bytes_of(found.touched, {WAVE: wave, **dict(zip(names, value, strict=True))})
                real = {int(start) + byte for start in row for byte in range(width)}
                assert real <= ours
                assert found.touched.may or real == ours
            assert found.lanes in ("", lane_key(table, width, waves, lanes))
        exact += not found.touched.may
        keys += bool(found.lanes)
        rolled = turn and any(value[-1] for value in values)
        assert bool(found.lanes) == (not rolled)
    assert exact > 300
    assert 50 < keys < 350


def test_too_many_iterations_or_places_say_nothing() -> None:
    counters = {"k": range(MOST_ITERATIONS), "l": range(2)}
    assert values_of(["l", "k"], counters) is None
    assert values_of([], counters) is None
    values = values_of(["k"], counters)
    assert values is not None
    moving = [np.array([[value, value + 1]]) for (value,) in values]
    assert by_iteration(["k"], values[:MOST_PLACES], moving[:MOST_PLACES], 1, 1, 2) is not None
    assert by_iteration(["k"], values[: MOST_PLACES + 1], moving[: MOST_PLACES + 1], 1, 1, 2) is None
    assert values_of(["l"], {"l": range(0)}) == [(0,)]


def test_where_an_access_starts_is_said_by_wave_and_counter() -> None:
    """Not by the whole buffer: each wave in each iteration has its row."""
    built = built_from(subject_of((Loop(4, (write(BY_TURNS, L), FULL)),), ROWS))
    (point,) = (each for each in built.graph.points if isinstance(each.action, g.Access))
    assert isinstance(point.action, g.Access)
    (counter,) = (each.counter for each in built.graph.loops)
    for wave, k in itertools.product(range(4), range(4)):
        assert evaluate(point.action.footprint.place.offset, {WAVE: wave, counter: k}) == (wave + k) % 4 * 256
