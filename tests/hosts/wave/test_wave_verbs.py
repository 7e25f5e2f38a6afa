"""The verbs of the library and the names of the seeds, given a trace of Wave."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import tidegate as tg
import tidegate.wave
from oracles.wave_traces.wave_traces import Enough, erase, findings_of, nodes, traced
from tidegate import seeds

ONE = "pass-around"  # Wave's own barriers leave a race in it


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


def bare(use: Callable[[Any, Any], None], name: str = ONE, target: str = "gfx942") -> None:
    """A trace as Wave hands it to its barrier pass."""
    raised: list[BaseException] = []

    def before(trace: Any, constraints: Any, _: Any) -> None:
        try:
            use(trace, constraints)
        except BaseException as error:
            raised.append(error)
        raise Enough

    with suppress(Enough):
        traced(name, target, before=before)
    if raised:
        raise raised[0]


def barriers(trace: Any) -> int:
    return len(nodes(trace, "shared_memory_barrier", "shared_memory_barrier_signal"))


def test_check_sync_and_explain_take_a_trace_and_sync_changes_it() -> None:
    def use(trace: Any, constraints: Any) -> None:
        how = {"constraints": constraints}
        before = tg.check(trace, "gfx942", **how)
        assert not before
        assert {each.code for each in before} >= {"TG101"}
        assert not tg.check(trace, "gfx942", simulate=False, **how)
        assert not tg.explain(trace, "gfx942", **how)
        assert not tg.run(trace, "gfx942", **how)
        assert barriers(trace) == 0
        result = tg.sync(trace, "gfx942", **how)
        assert result
        assert barriers(trace) == 2
        assert str(result).startswith("shared_memory_barrier")
        assert "RAW" in str(result)
        after = tg.check(trace, "gfx942", **how)
        assert after
        assert not list(after)
        assert tg.explain(trace, "gfx942", **how)
        assert tg.run(trace, "gfx942", **how)
        assert tg.draw(trace, "gfx942", **how)

    bare(use)


def test_the_seeds_synchronize_the_same_trace_in_place() -> None:
    def use(trace: Any, constraints: Any) -> None:
        found = seeds.get_barriers_analysis(trace, "gfx942", constraints=constraints)
        assert {each.barrier_type.name for each in found} == {"FILL", "READY"}
        placed = seeds.minimize_placement_strategy(found)
        assert len(placed) == 2
        assert barriers(trace) == 0
        seeds.add_shared_memory_barriers(trace, "gfx942", constraints=constraints)
        assert barriers(trace) == 2
        assert tg.check(trace, "gfx942", constraints=constraints)
        erase(nodes(trace, "shared_memory_barrier")[0])
        assert not tg.check(trace, "gfx942", constraints=constraints)

    bare(use)


def test_what_cannot_be_proved_leaves_the_trace_as_it_was() -> None:
    """The workgroups of a cluster write into each other's memory."""

    def use(trace: Any, constraints: Any) -> None:
        with pytest.raises(tg.TidegateError, match="the trace is as it was"):
            seeds.add_shared_memory_barriers(trace, "gfx1250", constraints=constraints)
        assert barriers(trace) == 0
        result = tg.sync(trace, "gfx1250", constraints=constraints)
        assert not result
        assert "cluster" in str(result)
        assert barriers(trace) == 0
        assert not tg.check(trace, "gfx1250", constraints=constraints)
        with pytest.raises(tg.TidegateError, match="workgroups of a cluster"):
            tg.draw(trace, "gfx1250", constraints=constraints)

    bare(use, "gemm-cluster", "gfx1250")


def test_what_a_trace_has_no_way_for_is_refused() -> None:
    def use(trace: Any, constraints: Any) -> None:
        how = {"constraints": constraints}
        for verb in (tg.check, tg.sync, tg.explain, tg.draw, tg.run, seeds.add_shared_memory_barriers):
            with pytest.raises(tg.TidegateError, match="sizes and waves of this trace are unknown"):
                verb(trace, "gfx942")
        with pytest.raises(tg.TidegateError, match="while Wave compiles it"):
            tg.schedule(trace, "gfx942", **how)
        with pytest.raises(tg.TidegateError, match="option of `sync`"):
            tg.sync(trace, "gfx942", stagger=1, **how)
        with pytest.raises(tg.TidegateError, match="do not name the copies"):
            seeds.populate_barriers_counters(trace, "gfx942")
        with pytest.raises(tg.TidegateError, match="is not a trace"):
            seeds.add_conditional_barriers_to_loop(None, trace, seeds.HardwareConstraint())  # type: ignore[arg-type]
        with pytest.raises(tg.TidegateError, match="no numbers"):
            tg.run(trace, "gfx942", in_order=True, **how)
        found = seeds.get_barriers_analysis(trace, "gfx942", **how)
        emitter = seeds.BarrierEmitter.dispatch(seeds.TargetConfig("gfx942"))
        with pytest.raises(tg.TidegateError, match="does not write into a trace of Wave"):
            emitter.emit(trace, found)
        assert barriers(trace) == 0

    bare(use)


def test_check_says_the_same_as_the_check_of_the_drop_in() -> None:
    said: list[Any] = []

    def after(trace: Any, constraints: Any, _: Any) -> None:
        said.extend(tg.check(trace, "gfx942", constraints=constraints))
        raise Enough

    with suppress(Enough):
        traced(ONE, "gfx942", after=after)
    assert said == findings_of(ONE, "gfx942")
    assert said
