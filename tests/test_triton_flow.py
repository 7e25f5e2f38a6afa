"""Loops as branches: what Triton's own pass sees is read as well as what its cache keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.adapters.triton import libtriton
from tidegate.adapters.triton.program import programs_of
from tidegate.adapters.triton.read import read_ttgir
from tidegate.simulate.judge import judge
from tidegate.verify.verify import verify

FOLDER = Path(__file__).parent / "ttgir"
TEXTS = sorted(FOLDER.glob("*.ttgir"))

pytestmark = pytest.mark.skipif(
    not libtriton.is_installed(), reason="Triton is not installed: `pip install 'tidegate[triton]'`"
)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("passes", [("barriers",), ("cf", "barriers")], ids=["loops", "branches"])
def test_both_forms_are_proved_alike(path: Path, passes: tuple[str, ...]) -> None:
    """With Triton's barriers nothing is wrong, in whichever form; a bare barrier is wrong in both."""
    ttgir = read_ttgir(path.read_text(encoding="utf-8"), path.name, before=passes)
    for program in programs_of(ttgir):
        assert not program.built.unknown
        assert verify(program.built.graph, program.target, memory=False).is_proved is ("bare" not in path.stem)


@pytest.mark.parametrize("path", [each for each in TEXTS if "gemm" in each.stem], ids=lambda path: path.stem)
def test_branches_keep_what_is_known_of_loops(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for passes in ((), ("cf",)):
        (program,) = programs_of(read_ttgir(text, path.name, before=passes))
        (loop,) = program.built.graph.loops
        assert loop.counter
        assert loop.reducible
        assert loop.step == 1


@pytest.mark.parametrize("passes", [(), ("cf",)], ids=["loops", "branches"])
def test_without_barriers_both_forms_race(passes: tuple[str, ...]) -> None:
    path = FOLDER / "gemm.sm_80.ttgir"
    (program,) = programs_of(read_ttgir(path.read_text(encoding="utf-8"), path.name, before=passes))
    assert not verify(program.built.graph, program.target, memory=False).is_proved
    assert judge(program.built.graph, program.target).findings
