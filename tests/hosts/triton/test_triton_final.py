"""`verify="ptx"`: the PTX that Triton makes is proved, whoever placed the barriers, and a race in it is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="NOT TESTED: Triton is not installed")

import tidegate.triton
from oracles.triton_kernels import cases, compile_to
from tests.conftest import ROOT
from tidegate.diag import BadInput
from tidegate.hosts.dropin.final import find_assembly_doubt, find_final_doubt
from tidegate.hosts.triton.dropin import switch
from tidegate.hosts.triton.dropin.placing import Placement
from tidegate.triton import FallbackWarning, RaceWarning


@pytest.fixture(autouse=True)
def empty_report() -> None:
    tidegate.triton.clear_report()


def ptx_of(name: str, target: str) -> str:
    case = next(each for each in cases() if each.name == name)
    return compile_to(case, target, "ptx")[0]["ptx"]


@pytest.mark.parametrize(("name", "target"), [("matmul-s3-w4", "sm_80"), ("softmax", "sm_90")])
def test_the_report_has_the_verdict_on_the_ptx(name: str, target: str) -> None:
    with tidegate.triton.enabled(verify="ptx"):
        text = ptx_of(name, target)
    (entry,) = tidegate.triton.report()
    assert (entry.ptx_proved, entry.ptx_doubt) == (True, "")
    assert str(tidegate.triton.report()).endswith("its PTX: proved")
    assert entry.as_metadata()["ptx_proved"] is True
    assert re.search(r"bar(rier)?\.(cta\.)?sync|bar\.warp\.sync", text)


def test_without_one_of_its_barriers_the_ptx_has_a_race() -> None:
    text = ptx_of("matmul-s3-w4", "sm_80")
    lines = text.splitlines()
    barriers = [number for number, line in enumerate(lines) if re.search(r"\bbar\.sync|\bbarrier\.sync", line)]
    assert barriers
    assert not find_final_doubt(text, "matmul").words
    doubts = [find_final_doubt("\n".join(lines[:each] + lines[each + 1 :]), "matmul") for each in barriers]
    assert any(each.is_race and "matmul.py:" in each.words for each in doubts)


def test_a_race_in_the_ptx_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tidegate's own barriers are lost on the way: only what Triton makes of the module shows it."""
    real = switch.place_barriers

    def lossy(*args: str) -> Placement:
        found = real(*args)
        assert found.text is not None
        without = re.sub(r"^ *ttg\.barrier local.*\n", "", found.text, flags=re.MULTILINE)
        assert without != found.text
        return Placement(without, "", found.reasons, found.barriers)

    monkeypatch.setattr(switch, "place_barriers", lossy)
    with tidegate.triton.enabled(verify="ptx"), pytest.warns(RaceWarning, match="the PTX may have a race"):
        ptx_of("matmul-s3-w4", "sm_80")
    (entry,) = tidegate.triton.report()
    assert entry.ptx_proved is False
    assert "its PTX: not proved" in str(tidegate.triton.report())


def test_what_is_left_to_triton_is_checked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "place_barriers", lambda *_: Placement(why_not="for a test"))
    with tidegate.triton.enabled(verify="ptx"), pytest.warns(FallbackWarning):
        ptx_of("softmax", "sm_80")
    (entry,) = tidegate.triton.report()
    assert entry.why_not == "for a test"
    assert entry.ptx_proved is True


def test_ptx_that_cannot_be_read_is_a_doubt() -> None:
    assert find_final_doubt("no PTX at all", "k").words
    assert not find_final_doubt("no PTX at all", "k").is_race


def test_a_gpu_without_ptx_has_no_verdict_on_it() -> None:
    case = next(each for each in cases() if each.name == "softmax")
    with tidegate.triton.enabled(verify="ptx"):
        compile_to(case, "gfx942", "llir")
    (entry,) = tidegate.triton.report()
    assert entry.ptx_proved is None
    assert "PTX" not in str(tidegate.triton.report())


# --- assembly -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "target"), [("matmul-s1-w4", "gfx942"), ("transpose", "gfx1201")])
def test_the_report_has_the_verdict_on_the_assembly(name: str, target: str) -> None:
    case = next(each for each in cases() if each.name == name)
    with tidegate.triton.enabled(verify="asm"):
        compile_to(case, target, "amdgcn")
    (entry,) = tidegate.triton.report()
    assert (entry.asm_proved, entry.asm_doubt, entry.ptx_proved) == (True, "", None)
    assert str(tidegate.triton.report()).endswith("its assembly: proved")
    assert entry.as_metadata()["asm_proved"] is True


def test_without_its_barriers_the_assembly_has_a_race() -> None:
    case = next(each for each in cases() if each.name == "transpose")
    text = str(compile_to(case, "gfx942", "amdgcn")[0]["amdgcn"])
    assert not find_assembly_doubt(text, "transpose", 256).words
    doubt = find_assembly_doubt(re.sub(r"\ts_barrier\n", "\n", text), "transpose", 256)
    assert doubt.is_race
    assert "moving.py:" in doubt.words
    assert find_assembly_doubt("no assembly at all", "k", 256).words


@pytest.mark.parametrize("verify", ["sass", "PTX", 2, None])
def test_an_option_that_does_not_exist_is_refused(verify: object) -> None:
    with pytest.raises(BadInput, match="`verify` cannot be"):
        tidegate.triton.install(verify=verify)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_environment_asks_for_it() -> None:
    code = "import triton\nfrom tidegate.hosts.triton.dropin import switch\nprint(switch._modes.current.key)"
    env = {**os.environ, "TIDEGATE_TRITON": "1", "TIDEGATE_TRITON_VERIFY": "ptx"}
    env["PYTHONPATH"] = str(ROOT / "src")
    start = "import tidegate.triton_start\n"
    done = subprocess.run([sys.executable, "-c", start + code], env=env, capture_output=True, text=True, check=True)
    assert "verify='ptx'" in done.stdout
