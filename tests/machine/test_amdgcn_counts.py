"""Loosened counts on the instruction-level machine: right as they are, wrong once a rule of `needs` is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.amdgcn_counts import Row, drained, loosened, raise_some, ran_wrong
from oracles.amdgcn_machine.machine import Hostility
from oracles.amdgcn_machine.triton import kernel
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn import needs
from tidegate.hosts.amdgcn.flight import Flight, Queues, flight_of
from tidegate.hosts.triton import libtriton

pytestmark = pytest.mark.skipif(
    not libtriton.is_installed(),
    reason="NOT TESTED: Triton is not installed, and there is nothing to compile; `pip install tidegate[triton]`",
)
SMALL = ("layer-norm.gfx942", "softmax.gfx1250", "gluon-transpose.gfx1201")
Change = Callable[[Flight], Flight | None]


def machine_says(name: str) -> str:
    """Of the kernel with all counts at 0, after they were loosened; empty: nothing is wrong."""
    case, _, target = name.rpartition(".")
    one = kernel(case, target)
    right = one.run(Hostility("early", "in step"), workgroups=1)
    made, why_not = loosened(drained(one.text), one.waves * one.program().lanes)
    assert not why_not
    return ran_wrong(one, made, right)


@pytest.mark.parametrize("name", SMALL)
def test_numbers_are_right_with_the_loosest_counts(name: str) -> None:
    assert machine_says(name) == ""


def test_one_more_is_wrong() -> None:
    one = kernel("layer-norm", "gfx942")
    right = one.run(Hostility("early", "in step"), workgroups=1)
    made, _ = loosened(drained(one.text), one.waves * one.program().lanes)
    row = Row(one.name)
    raise_some(one, made, right, 4, 1, row)
    assert row.raised == {"wrong": 4}


def fills_nothing(counter: str) -> Change:
    return lambda flight: replace(flight, fills=frozenset()) if flight.counter == counter else flight


RULES: dict[str, tuple[str, Change]] = {
    "scalar loads fill registers": (
        "layer-norm.gfx942",
        lambda flight: replace(flight, fills=frozenset()) if not flight.stream else flight,
    ),
    "scalar loads are in no order": (
        "layer-norm.gfx90a",
        lambda flight: flight if flight.stream else replace(flight, stream="shared"),
    ),
    "scalar loads of gfx12 fill registers and are read before stores": (
        "layer-norm.gfx1201",
        lambda flight: flight if flight.stream else replace(flight, fills=frozenset(), reads=False),
    ),
    "vector loads fill registers": ("layer-norm.gfx942", fills_nothing("vmcnt")),
    "loads of gfx12 fill registers": ("softmax.gfx1250", fills_nothing("loadcnt")),
    "reads of shared memory fill registers": ("layer-norm.gfx942", fills_nothing("lgkmcnt")),
    "reads of shared memory of gfx12 fill registers": ("gluon-transpose.gfx1201", fills_nothing("dscnt")),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_left_out_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, change = RULES[rule]

    def changed(item: a.AsmLine, queues: Queues) -> Flight | None:
        flight = flight_of(item, queues)
        return None if flight is None else change(flight)

    monkeypatch.setattr(needs, "flight_of", changed)
    assert machine_says(name) != ""
