"""Tidegate in the place of Wave's passes: on and off, what it puts in, what it says, what it leaves to Wave."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

import tidegate.wave
from oracles.wave_traces.wave_traces import CASES, nodes
from oracles.wave_traces.wave_two_writes import build_two_writes
from tests.conftest import ROOT
from tidegate.diag import BadInput
from tidegate.hosts.wave.dropin import switch
from tidegate.hosts.wave.dropin.passing import Placement
from tidegate.hosts.wave.nodes import op_of
from tidegate.wave import FallbackWarning, NotPlaced, Traced, UnsupportedWave


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")
    tidegate.wave.clear_report()
    yield
    tidegate.wave.uninstall()
    tidegate.wave.clear_report()
    assert not switch._own


def compiled(name: str, target: str = "gfx942") -> str:
    """The MLIR that Wave makes."""
    from wave_lang.kernel.wave.compile import wave_compile

    build = CASES[name].make(target)
    return str(wave_compile(replace(build.options, compile_to_mlir=True), build.kernel, build.schedule).asm)


def barriers(text: str) -> int:
    return text.count("amdgpu.lds_barrier")


# --- on and off ---------------------------------------------------------------------------------------------------


def test_installed_it_places_barriers_and_says_why() -> None:
    own = compiled("pass-around")
    tidegate.wave.install()
    ours = compiled("pass-around")
    assert (barriers(own), barriers(ours)) == (1, 2)
    (entry,) = tidegate.wave.report()
    assert (entry.kernel, entry.target, entry.why_not, entry.barriers) == ("pass_around", "gfx942", "", 2)
    assert any(reason.startswith("shared_memory_barrier before") and "RAW" in reason for reason in entry.reasons)
    assert any("WAR" in reason for reason in entry.reasons)
    assert "2 barriers; proved" in str(tidegate.wave.report())


def test_for_a_while_and_off_again() -> None:
    wave = import_module("wave_lang.kernel.wave.wave")
    own = wave.add_shared_memory_barriers
    with tidegate.wave.enabled():
        assert wave.add_shared_memory_barriers is not own
        assert barriers(compiled("pass-around")) == 2
        with tidegate.wave.disabled():
            assert barriers(compiled("pass-around")) == 1
        assert barriers(compiled("pass-around")) == 2
    assert wave.add_shared_memory_barriers is own
    assert barriers(compiled("pass-around")) == 1
    assert len(tidegate.wave.report()) == 2


def test_importing_it_imports_neither_wave_nor_torch() -> None:
    code = "import sys, tidegate.wave; sys.exit(bool({'wave_lang', 'torch', 'sympy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_versions_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(switch.TESTED, "wave-lang", ("1.0.0",))
    with pytest.raises(UnsupportedWave, match=r"knows wave-lang 1\.0\.0; 3\.9\.1 is installed"):
        tidegate.wave.install()
    monkeypatch.setitem(switch.TESTED, "no-such-package", ("1.0.0",))
    monkeypatch.setitem(switch.TESTED, "wave-lang", ("3.9.1",))
    with pytest.raises(UnsupportedWave, match="which is not installed"):
        tidegate.wave.install()


@pytest.mark.parametrize("options", [{"schedule": "sideways"}, {"schedule": "clusters=0"}, {"strategy": "none"}])
def test_an_option_that_does_not_exist_is_bad_input(options: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        tidegate.wave.install(**options)  # type: ignore[arg-type]


def test_the_key_of_waves_cache_knows_options_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = import_module("wave_lang.kernel.wave.cache")
    build = CASES["pass-around"].make("gfx942")

    def key() -> str:
        return str(cache.WaveCacheManager.get_hash(None, build.kernel.constraints, build.kernel._f, build.options))

    own = key()
    seen = {own}
    for options in ({}, {"counts": True}, {"schedule": "wave"}):
        with tidegate.wave.enabled(**options):  # type: ignore[arg-type]
            seen.add(key())
            monkeypatch.setattr(switch, "fingerprint", lambda: "other files")
            seen.add(key())
            monkeypatch.undo()
    assert len(seen) == 7
    assert key() == own


# --- what it puts in ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_every_target_gets_the_barriers_that_it_has(target: str) -> None:
    tidegate.wave.install()
    text = compiled("pass-around", target)
    signals = text.count("rocdl.s.barrier.signal")
    assert text.count("rocdl.s.barrier.wait") == signals
    assert barriers(text) + signals == 2
    (entry,) = tidegate.wave.report()
    assert entry.why_not == ""


def test_counts_leave_copies_under_way() -> None:
    """Where both operands are copied and one is read first, two copies of the other stay under way."""
    with tidegate.wave.enabled():
        drained = compiled("gemm-async-modulo-1", "gfx950")
    with tidegate.wave.enabled(counts=True):
        counted = compiled("gemm-async-modulo-1", "gfx950")
    assert [entry.why_not for entry in tidegate.wave.report()] == ["", ""]
    assert "amdgpu.memory_counter_wait load(2)" in counted
    assert "amdgpu.memory_counter_wait load(2)" not in drained
    assert counted.count("amdgpu.lds_barrier") == 0  # it would wait for everything
    assert counted.count("rocdl.s.barrier") == barriers(drained)


def test_barriers_that_stand_there_for_nothing_can_go() -> None:
    with tidegate.wave.enabled():
        kept = compiled("gemm-two-loops")
    with tidegate.wave.enabled(remove_redundant=True):
        less = compiled("gemm-two-loops")
    assert (barriers(kept), barriers(less)) == (6, 4)


def test_what_a_kernel_has_is_taken_into_account_and_nothing_is_put_in_twice() -> None:
    """A trace that is synchronized gets nothing more."""
    found: list[int] = []

    def listen(traced: Traced) -> None:
        if traced.when == "after":
            from tidegate.hosts.wave.dropin.passing import Options, place_barriers
            from tidegate.targets import load_target

            assert traced.context is not None
            again = place_barriers(traced.trace, traced.context, load_target(traced.target), Options())
            assert again.written is not None
            found.append(len(again.written.new))

    with tidegate.wave.enabled(), tidegate.wave.traces(listen):
        compiled("pass-around")
        compiled("gemm-modulo-2")
    assert found == [0, 0]


def test_own_row_then_the_next_waves_row_takes_two_barriers() -> None:
    """The two writes were taken for one: one barrier was called proved, and the checker found a race (TG103)."""
    from wave_lang.kernel.wave.compile import wave_compile

    tidegate.wave.install()
    build = build_two_writes()
    with tidegate.wave.traces() as found:
        text = str(wave_compile(build.options, build.kernel).asm)
    assert str(tidegate.wave.report()).splitlines()[0] == "@two_writes on gfx942: 2 barriers; proved"
    assert barriers(text) == 2
    assert tidegate.wave.check(found.found[0].trace)


# --- what it leaves to Wave ---------------------------------------------------------------------------------------


def test_a_mistake_of_ours_does_not_end_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no idea")

    monkeypatch.setattr(switch, "place_barriers", broken)
    tidegate.wave.install()
    with pytest.warns(FallbackWarning, match="keeps Wave's own barriers: Tidegate fails: RuntimeError: no idea"):
        assert barriers(compiled("pass-around")) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled("pass-around")  # said once
    assert "Wave's own barriers, since Tidegate fails" in str(tidegate.wave.report())


def test_what_is_not_proved_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.hosts.wave.dropin import passing

    monkeypatch.setattr(passing, "find_doubt", lambda *_: "nobody believes it")
    tidegate.wave.install()
    with pytest.warns(FallbackWarning, match="nobody believes it"):
        assert compiled("pass-around") == compiled("pass-around")
    tidegate.wave.uninstall()
    own = compiled("pass-around")
    monkeypatch.undo()
    assert barriers(own) == 1


def test_a_target_that_nobody_knows_is_left_to_wave() -> None:
    wave = import_module("wave_lang.kernel.wave.wave")
    seen: list[str] = []

    def listen(traced: Traced) -> None:
        if traced.when == "before":
            with pytest.warns(FallbackWarning, match="gfx906"):
                wave.add_shared_memory_barriers(traced.trace, target="gfx906")
            seen.extend(op_of(node) for node in nodes(traced.trace, "shared_memory_barrier"))
            for node in nodes(traced.trace, "shared_memory_barrier"):
                node.graph.erase_node(node)

    with tidegate.wave.enabled(), tidegate.wave.traces() as found:
        monkey = switch._listeners
        monkey.insert(0, _once(listen))
        try:
            compiled("pass-around")
        finally:
            del monkey[0]
    assert seen == ["shared_memory_barrier"]
    assert len(found) == 2


def _once(listen: Any) -> Any:
    """A listener that does not listen to what it starts itself."""
    busy: list[bool] = []

    def heard(traced: Traced) -> None:
        if not busy:
            busy.append(True)
            listen(traced)

    return heard


def test_a_loop_that_was_reordered_never_gets_waves_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be too few under the stagger: nothing is compiled rather than that."""
    with tidegate.wave.enabled(schedule="wave"):
        assert compiled("pingpong-square").count("rocdl.s.setprio") > 0
    (entry,) = tidegate.wave.report()
    assert entry.schedule.startswith("wave (TWO_PP_CLUSTER)")

    def refuse(*_: Any, **__: Any) -> Any:
        return Placement(why_not="not today")

    monkeypatch.setattr(switch, "place_barriers", refuse)
    with tidegate.wave.enabled(schedule="wave"), pytest.raises(NotPlaced, match="cannot be placed: not today"):
        compiled("pingpong-square")


# --- traces and check ---------------------------------------------------------------------------------------------


def test_traces_are_collected_and_can_be_checked_later() -> None:
    with tidegate.wave.traces() as found:
        compiled("pass-around")
    (traced,) = found
    assert (traced.kernel, traced.target, traced.when) == ("pass_around", "gfx942", "after")
    (race,) = tidegate.wave.check(traced.trace)
    assert race.code == "TG102"
    with tidegate.wave.enabled(), tidegate.wave.traces() as found:
        compiled("pass-around")
    assert tidegate.wave.check(found.found[0].trace)


def test_a_trace_of_which_nothing_is_known_is_bad_input() -> None:
    class Trace:
        pass

    with pytest.raises(BadInput, match="the sizes and waves of this trace are unknown"):
        tidegate.wave.check(Trace())
