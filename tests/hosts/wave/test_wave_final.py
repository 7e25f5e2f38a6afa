"""`verify="asm"`: the assembly of Wave's kernels is proved, whoever placed the barriers, and a race is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegate.wave
from oracles.wave_traces.wave_traces import CASES
from tidegate.diag import BadInput
from tidegate.hosts.wave.dropin import final, switch
from tidegate.wave import RaceWarning


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("wave_lang.kernel.wave.cache.WAVE_CACHE_ON", 0)  # read from the environment once
    monkeypatch.setattr("wave_lang.kernel.wave.compile.is_cache_enabled", lambda: False)
    tidegate.wave.clear_report()
    yield
    tidegate.wave.uninstall()
    tidegate.wave.clear_report()
    assert not switch._own


def compiled(name: str, **more: Any) -> Any:
    from wave_lang.kernel.wave.compile import wave_compile

    build = CASES[name].make("gfx942")
    options = replace(build.options, compile_to_mlir=False, **more)
    return wave_compile(options, build.kernel, build.schedule)


def test_the_report_has_the_verdict_on_the_assembly() -> None:
    with tidegate.wave.enabled(verify="asm"):
        compiled("pass-around")
    (entry,) = tidegate.wave.report()
    assert (entry.asm_proved, entry.asm_doubt) == (True, "")
    assert str(tidegate.wave.report()).endswith("its assembly: proved")


def test_a_race_in_the_assembly_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wave's own barriers, of which one is missing in the loop."""
    monkeypatch.setattr(switch, "_placed", lambda *_: switch.Placement(why_not="for this test"))
    with (
        tidegate.wave.enabled(verify="asm"),
        pytest.warns(tidegate.wave.FallbackWarning),
        pytest.warns(RaceWarning, match="the assembly may have a race"),
    ):
        compiled("pass-around")
    (entry,) = tidegate.wave.report()
    assert entry.asm_proved is False
    assert entry.asm_doubt in str(tidegate.wave.report())


def test_no_assembly_is_checked_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "compile_watched", lambda *_: pytest.fail("nobody asked"))
    with tidegate.wave.enabled():
        compiled("pass-around")
    (entry,) = tidegate.wave.report()
    assert entry.asm_proved is None


def test_a_folder_for_intermediates_keeps_its_files_and_only_new_ones_are_read(tmp_path: Path) -> None:
    (tmp_path / "other.rocmasm").write_text("no assembly at all", encoding="utf-8")
    with tidegate.wave.enabled(verify="asm"):
        compiled("pass-around", dump_intermediates=str(tmp_path))
    (entry,) = tidegate.wave.report()
    assert entry.asm_proved is True
    assert len(list(tmp_path.rglob("*.rocmasm"))) == 2


def test_assembly_that_nobody_finds_is_not_proved() -> None:
    assert final.find_doubt([], "kernel").words == final.NO_TEXT
    assert "no AMD GPU" in final.find_doubt(["nothing"], "kernel").words


def test_verify_takes_no_other_word() -> None:
    with pytest.raises(BadInput):
        tidegate.wave.install(verify="ptx")
