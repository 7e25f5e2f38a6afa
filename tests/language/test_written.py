"""Whatever `sync` and `schedule` write is read back from its text and judged in that form: `.tide`, `.sync`, Python.

A writer is made to forget something. The report must speak of what was written, not of what was planned; with the old
belief put back, that the plan is the text, the same mistakes go unnoticed. TTGIR: `test_triton_written.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tests.conftest import ROOT
from tidegate import synchronize
from tidegate.cli import main
from tidegate.pingpong import drafts, schedule_kernel
from tidegate.synchronize import Written, written
from tidegate.targets import load_target

KERNEL = """\
target gfx942

kernel @k(%X: global<4x64xf32>, %Y: global<4x64xf32>)
    waves 4 {
  %tile = alloc : lds<4x64xf32>
  %a = global_read %X[wave, 0] : tile<64xf32>
  local_write %a, %tile[wave, 0]
  %b = local_read %tile[(wave + 1) mod 4, 0] : tile<64xf32>
  global_write %b, %Y[wave, 0]
}
"""
PYTHON = """\
import tidegate as tg

@tg.kernel(waves=4, target="gfx942")
def k(X: tg.Global[4, 64, tg.f32], Y: tg.Global[4, 64, tg.f32]):
    tile, wave = tg.alloc((4, 64), tg.f32), tg.wave()
    tg.local_write(tg.global_read(X, (wave, 0), (64,)), tile, (wave, 0))
    tg.global_write(tg.local_read(tile, ((wave + 1) % 4, 0), (64,)), Y, (wave, 0))
"""
GRAPH = """\
graph @k target gfx942 waves 4
buffer %tile bytes 1024 slots 1
program entry 0 waves 0 .. 4
{
  0: write %tile[0, wave * 256] box() width 256 label "write" role local_write -> 1
  1: read %tile[0, (wave + 1) mod 4 * 256] box() width 256 label "read" role local_read -> 2
  2: end
}
"""
FILES = {"k.tide": KERNEL, "k.sync": GRAPH, "k.py": PYTHON}
# What a writer may do to a text: forget the barrier, so that the text is another program than was planned.
FORGET = re.compile(r"^ *shared_memory_barrier.*\n|sync shared_memory_barrier(?= label)", re.MULTILINE)
Run = Callable[..., tuple[str, str, int]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[str, str, int]:
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capsys.readouterr()
        return out, err, int(done.value.code or 0)

    return run


def broken(real: Callable[..., str]) -> Callable[..., str]:
    """A writer that forgets the barrier."""

    def write(*args: Any, **more: Any) -> str:
        return FORGET.sub(lambda found: "compute" if found[0].startswith("sync") else "", real(*args, **more))

    return write


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("args", [("-o", "out"), (), ("--json",), ("--diff",)], ids=" ".join)
def test_what_is_written_is_what_is_judged(
    name: str, args: tuple[str, ...], command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err, status = command("sync", name, *args)
    assert status == 0
    if args != ("--json",):
        assert "proved: no race" in out + err
    monkeypatch.setattr(synchronize, "write_programs", broken(synchronize.write_programs))
    out, err, status = command("sync", name, *args)
    assert status == 1
    if args == ("--json",):
        (finding,) = json.loads(out)["findings"]
        assert finding["code"] == "TG106"
        assert finding["message"].startswith("not proved as written: ")
    else:
        assert "\n  not proved as written: the text" in out + err
        assert "proved: no race" not in out + err


@pytest.mark.parametrize("name", FILES)
def test_a_proof_of_the_plan_would_see_none_of_that(name: str, command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old belief: what was planned is what was written."""

    def trusting(results: Any, *_: object, **__: object) -> list[Written]:
        return [Written(each.made) for each in results]

    monkeypatch.setattr(synchronize, "read_back", trusting)
    monkeypatch.setattr(synchronize, "write_programs", broken(synchronize.write_programs))
    out, _, status = command("sync", name, "-o", "out")
    assert status == 0
    assert "proved: no race" in out


@pytest.mark.parametrize("name", FILES)
def test_a_text_that_cannot_be_read_back_is_not_proved(
    name: str, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronize, "write_programs", lambda *_, **__: "nonsense\n")
    out, _, status = command("sync", name, "-o", "out")
    assert status == 1
    assert "error[TG106]: not proved as written: the text cannot be read back: " in out


def test_the_library_judges_what_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = tg.parse(KERNEL).kernels
    found = tg.sync(kernel)
    assert found.checked is not None
    assert found.checked.is_proved
    monkeypatch.setattr(written, "write_programs", broken(written.write_programs))
    found = tg.sync(kernel)
    assert found.checked is not None
    assert not found.checked.is_proved
    assert found.doubt == "the text contains a different program than planned"
    assert "not proved as written" in found._repr_html_()


def test_a_schedule_is_proved_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = tg.parse((ROOT / "examples/gemm_one_slot.tide").read_text(encoding="utf-8")).kernels
    target = load_target(kernel.target or "gfx942")
    found = schedule_kernel(kernel, target, "two-pp-cluster", pipeline=True, certain=False)
    assert found.chosen is not None
    assert tg.parse(found.chosen.text).kernels == (found.chosen.kernel,)
    monkeypatch.setattr(drafts, "write_programs", broken(drafts.write_programs))
    found = schedule_kernel(kernel, target, "two-pp-cluster", pipeline=True, certain=False)
    assert found.chosen is None
    assert found.declined is not None
    assert found.declined.reason == "unordered"


def test_findings_without_an_output_have_the_places_of_the_given_file(command: Run) -> None:
    """Two waves write one row: no barrier orders that, and the finding names the file that the user knows."""
    Path("k.tide").write_text(KERNEL.replace("%tile[wave, 0]\n", "%tile[wave // 2, 0]\n"), encoding="utf-8")
    _, err, status = command("sync", "k.tide")
    assert status == 1
    assert " --> k.tide:7:3" in err
