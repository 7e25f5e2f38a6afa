"""Traces at the edge: no shared memory, one wave, dynamic sizes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from oracles.wave_traces.wave_traces import Enough, findings_of, traced
from tidegate.hosts.wave.build import build
from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.dropin.passing import CLUSTER, Options, place_barriers
from tidegate.targets import load_target


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


def placed(name: str, target: str, facts: str | None = None, verify: bool = True) -> Any:
    found: list[Any] = []
    known = load_target(target if facts is None else facts)

    def before(trace: Any, constraints: Any, _: Any) -> None:
        found.append(place_barriers(trace, context_of(constraints), known, Options(verify=verify)))
        raise Enough

    with suppress(Enough):
        traced(name, target, before=before)
    return found[0]


def test_a_kernel_without_shared_memory_needs_nothing() -> None:
    found = placed("topk-4", "gfx942")
    assert (found.why_not, found.barriers, found.reasons) == ("", 0, ())
    assert findings_of("topk-4", "gfx942") == []


def test_one_wave_needs_no_barrier_but_waits_for_its_copies() -> None:
    found = placed("single-wave-async", "gfx950")
    assert found.why_not == ""
    assert found.barriers == 0
    waits = [reason.split(" before")[0] for reason in found.reasons]
    assert waits
    assert all("vmcnt(0)" in each or "lgkmcnt(0)" in each for each in waits)
    assert all(each.startswith("wait_count") for each in waits)


def test_the_empty_target_assumes_nothing() -> None:
    found = placed("pass-around", "gfx942", facts="")
    assert (found.why_not, found.barriers) == ("", 2)


def test_a_trip_count_that_nobody_knows_is_any() -> None:
    def before(trace: Any, constraints: Any, _: Any) -> None:
        graph = build(trace, context_of(constraints), load_target("gfx942")).graph
        assert all(loop.most is None for loop in graph.loops)
        raise Enough

    with suppress(Enough):
        traced("gemm-any-size-none", "gfx942", before=before)


def test_workgroups_that_write_into_each_other_are_left_to_wave() -> None:
    """A proof about one of them says nothing about what another writes into its memory."""
    found = placed("gemm-cluster", "gfx1250")
    assert (found.why_not, found.written) == (CLUSTER, None)
    assert placed("gemm-cluster", "gfx1250", verify=False).why_not == ""
    assert placed("gemm-none", "gfx1250").why_not == ""
