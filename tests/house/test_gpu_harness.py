"""The harness of `bench/gpu`, as far as it goes without a GPU: what it compiles, how it reads, what its tables say."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.gpu import launching, running, tables
from bench.gpu.__main__ import main
from bench.gpu.lanes import Lanes
from bench.gpu.manifest import Manifest, is_control, read_manifest, write_manifest
from bench.gpu.results import Results, beyond
from bench.gpu.sanitizing import read_reports
from oracles.triton_kernels import NVIDIA, Launch
from tests.conftest import ROOT

KERNELS = ("softmax", "gluon-rotate")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip(
        "triton", reason="NOT TESTED: compiling needs Triton, which is not installed; `pip install tidegate[triton]`"
    )
    from bench.gpu.compiling import compile_corpus

    folder = tmp_path_factory.mktemp("gpu")
    made = [compile_corpus(folder, ("sm_90",), name, "model", removed=True) for name in KERNELS]
    entries = tuple(entry for each in made for entry in each.entries if entry.case in KERNELS)
    write_manifest(folder, Manifest(made[0].versions, entries, {}))
    return folder


# --- what is compiled ---------------------------------------------------------------------------------------------


def test_the_manifest_says_all_that_a_launch_needs(compiled: Path) -> None:
    manifest = read_manifest(compiled)
    assert set(manifest.pairs()) == {f"{name}.sm_90" for name in KERNELS}
    assert len({each.entry for each in manifest.entries}) == len(manifest.entries)
    for each in manifest.entries:
        text = (compiled / each.ptx).read_text(encoding="utf-8")
        (entry,) = re.findall(r"\.visible \.entry (\w+)\(", text)
        assert entry == each.entry
        assert f".reqntid {each.threads}\n" in text
        assert ".version 8.6" in text
        assert ".loc" not in text
        assert (each.ctas, each.scratch, each.profile) == (1, 0, 0)
        assert each.shared > 0
    assert manifest.versions["triton"].startswith("3.9")


def test_arguments_are_passed_in_the_order_of_the_launch_with_scratch_behind(compiled: Path) -> None:
    entry = read_manifest(compiled).named("softmax.sm_90.triton")
    assert entry.parameters == ("*fp32", "*fp32", "i32")
    text = (compiled / entry.ptx).read_text(encoding="utf-8")
    taken = re.search(r"\.entry \w+\(([^)]*)\)", text)
    assert taken
    assert re.findall(r"\.param \.(\w+)", taken[1]) == ["u64", "u64", "u32", "u64", "u64"]


def test_a_variant_without_a_barrier_has_one_less_and_a_verdict(compiled: Path) -> None:
    manifest = read_manifest(compiled)
    for pair, (_, ours) in manifest.pairs().items():
        assert not ours.fallback, (pair, ours.fallback)
        removed = [each for each in manifest.entries if each.pair == pair and each.variant.startswith("removed-")]
        assert removed, pair
        assert {each.barriers for each in removed} == {ours.barriers - 1}
        assert {each.verdict for each in removed} == {"race"}


def test_a_pair_of_the_same_text_is_a_control_pair_whatever_its_names(compiled: Path) -> None:
    manifest = read_manifest(compiled)
    triton, ours = manifest.pairs()["softmax.sm_90"]
    assert triton.entry != ours.entry
    assert is_control((triton, replace(ours, digest=triton.digest)))
    removed = manifest.named("softmax.sm_90.removed-0")
    assert not is_control((ours, removed))


# --- launches -----------------------------------------------------------------------------------------------------


def test_launches_are_used_without_triton() -> None:
    code = """
import sys
from bench.gpu import standins
standins.install()
from bench.gpu.launching import launch_of
from oracles.triton_kernels import cases
print(len([each for each in cases() if each.launch]), launch_of("softmax", 0, 2).grid, "triton._C" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    count, rest = ran.stdout.split(maxsplit=1)
    assert int(count) >= 60
    assert rest == "(16, 1, 1) False\n"


class InMemory(np.ndarray):
    """An array of the host in the place of one of the GPU."""

    def get(self) -> np.ndarray:
        return np.array(self)


def on_the_host() -> SimpleNamespace:
    def held(made: np.ndarray) -> InMemory:
        return np.array(made).view(InMemory)

    return SimpleNamespace(asarray=held, zeros=lambda *args: held(np.zeros(*args)))


def test_what_a_launch_holds(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "get_cupy", on_the_host)
    entry = replace(read_manifest(compiled).named("softmax.sm_90.triton"), scratch=128)
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    launch = Launch((2, 1, 1), (x, np.zeros_like(x), 2), (1,), (x.astype(np.float64),), 1e-3)
    held = launching.Held(entry, launch)
    held.reset()
    passed: list[Any] = list(held.arguments)
    assert passed[0].view(np.float32).tolist() == [0, 1, 2, 3]
    assert np.isnan(passed[1].view(np.float32)).all(), "outputs are poisoned"
    assert (type(passed[2]), passed[2]) == (np.int32, 2)
    assert [each.size for each in passed[3:]] == [256, 1], "scratch memory for two thread blocks, and none"
    assert launching.wrongness(held.results(), launch) == math.inf
    added = launching.Held(replace(entry, case="histogram"), launch)
    added.reset()
    assert not added.results()[0].any(), "what a kernel adds to starts as the launch says"


def test_wrongness_is_counted_in_tolerances() -> None:
    launch = Launch((1, 1, 1), (np.zeros(2),), (0,), (np.array([1.0, 0.0]),), 0.1)
    assert launching.wrongness([np.array([1.0, 0.0])], launch) == 0
    assert launching.wrongness([np.array([1.1, 0.0])], launch) == pytest.approx(0.5)
    assert launching.wrongness([np.array([1.0, 0.2])], launch) == pytest.approx(2)
    assert launching.wrongness([np.array([np.nan, 0.0])], launch) == math.inf
    assert launching.wrongness([np.array([1.0, 1e-9])], replace(launch, tolerance=0.0)) == math.inf


def test_kernels_for_hopper_run_on_hopper_alone() -> None:
    assert set(running.RUNS_ON) == set(NVIDIA)
    runs = {
        name: [chip for chip in ((8, 0), (8, 9), (9, 0), (10, 0)) if on(chip)] for name, on in running.RUNS_ON.items()
    }
    assert runs == {"sm_80": [(8, 0), (8, 9), (9, 0), (10, 0)], "sm_90": [(9, 0)]}


# --- processes ----------------------------------------------------------------------------------------------------

WORKER = """
import json, os, sys, time
def say(**what):
    with open(sys.argv[1], "a") as out:
        out.write(json.dumps(what) + "\\n")
for name in sys.stdin.read().split():
    say(task=name)
    if name == "dies":
        print("a bad address")
        os._exit(3)
    if name == "hangs":
        time.sleep(60)
    if name == "fails":
        say(task=name, error="wrong")
        sys.exit(1)
    say(task=name, found={"n": len(name)})
"""


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_task_that_breaks_its_process_costs_itself_alone(tmp_path: Path, lanes: int) -> None:
    def command(progress: Path) -> list[str]:
        return [sys.executable, "-c", WORKER, str(progress)]

    runner = Lanes(command, tmp_path, tmp_path, 8.0, time.monotonic() + 500)  # a busy machine is slow to start
    assert runner.run(["a", "dies", "bb", "hangs", "fails", "ccc"], lanes) == {
        "a": {"n": 1},
        "dies": {"error": "its process ended: a bad address"},
        "bb": {"n": 2},
        "hangs": {"error": "took more than 8 s"},
        "fails": {"error": "wrong"},
        "ccc": {"n": 3},
    }


def test_what_never_began_is_missing(tmp_path: Path) -> None:
    runner = Lanes(lambda _: ["false"], tmp_path, tmp_path, 2.0, time.monotonic() - 1)
    assert runner.run(["a", "b"], 1) == {}


# --- compute-sanitizer --------------------------------------------------------------------------------------------

SAID = """\
========= COMPUTE-SANITIZER
something that the program prints
========= Error: Race reported between Write access at softmax_sm_90_removed_0+0x450
=========     and Read access at softmax_sm_90_removed_0+0x460 [160 hazards]
=========
========= Warning: Race reported between Write access at matmul_s3_w4_sm_90_removed_2+0x1bc0
=========     and Write access at matmul_s3_w4_sm_90_removed_2+0x15b0 [1790 hazards]
=========     and Write access at matmul_s3_w4_sm_90_removed_2+0x15c0 [1790 hazards]
=========
========= Warning: Race reported between Write access at matmul_s3_w4_sm_90_removed_2+0x1b40
=========     and Write access at matmul_s3_w4_sm_90_removed_2+0x15b0 [1788 hazards]
=========
========= Barrier error detected. Divergent thread(s) in block
=========     at sort_sm_80_tidegate(float *)+0x50
=========     by thread (32,0,0) in block (0,0,0)
=========
========= Program hit cudaErrorIllegalAddress (error 700) due to "an illegal memory access was encountered"
=========
========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)
========= ERROR SUMMARY: 1 error
"""


def test_reports_are_read_by_kernel() -> None:
    assert read_reports(SAID) == {
        "softmax_sm_90_removed_0": {"race": 1},
        "matmul_s3_w4_sm_90_removed_2": {"race, as a warning": 2},
        "sort_sm_80_tidegate": {"barrier": 1},
        "": {"error": 1},
    }
    assert read_reports("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == {}


# --- tables -------------------------------------------------------------------------------------------------------


def entry(case: str, variant: str, digest: str, barriers: int, **more: str) -> dict:
    rest = {"fallback": "", "verdict": "", **more}
    return {"case": case, "target": "sm_90", "variant": variant, "digest": digest, "barriers": barriers, **rest}


def timed(ratio: float, control: float, wrong: float | None = 0.5) -> dict:
    return {
        "scale": 2,
        "grid": [300, 1, 1],
        "micros": {"triton": 50.0, "tidegate": 50.0 / ratio},
        "ratio": [ratio - 0.005, ratio, ratio + 0.005],
        "control": [control - 0.005, control, control + 0.005],
        "wrong": {"triton": 0.5, "tidegate": wrong},
        "same_bits": True,
        "rounds": 240,
    }


def sample() -> dict:
    """Four kernels: one faster, one the same, one left to Triton, one whose process broke; two barriers removed."""
    entries = [
        entry("fast", "triton", "1", 5),
        entry("fast", "tidegate", "2", 4),
        entry("fast", "removed-0", "3", 3, verdict="race"),
        entry("fast", "removed-1", "4", 3, verdict="race"),
        entry("same", "triton", "5", 2),
        entry("same", "tidegate", "5", 2),
        entry("left", "triton", "6", 2),
        entry("left", "tidegate", "6", 2, fallback="barrier objects"),
        entry("broken", "triton", "7", 1),
        entry("broken", "tidegate", "8", 1),
    ]
    names = [f"{each['case']}.sm_90.{each['variant']}" for each in entries]
    right: dict[str, dict] = {name: {"right": True, "worst": 0.5} for name in names}
    right["fast.sm_90.removed-0"] = {"right": False, "worst": None}
    races: dict[str, dict] = {name: {"right": True, "reports": {}} for name in names}
    races["fast.sm_90.removed-0"]["reports"] = {"race": 2}
    races["left.sm_90.triton"]["reports"] = races["left.sm_90.tidegate"]["reports"] = {"race": 1}
    return {
        "device": "NVIDIA H200",
        "versions": {"triton": "3.9.0", "tidegate": "1", "merge_waits": "model"},
        "entries": entries,
        "failed": {"odd.sm_90": "ValueError: no"},
        "not run": {"synccheck": ["fast.sm_90.triton"]},
        "unassigned": {"synccheck": {"": {"error": 1}}},
        "numbers": right,
        "time": {
            "fast.sm_90": timed(1.1, 1.002),
            "same.sm_90": timed(0.996, 1.001),
            "left.sm_90": timed(1.0, 0.999),
            "broken.sm_90": {"error": "took more than 90 s"},
        },
        "racecheck": races,
        "synccheck": {},
    }


def test_a_table_says_what_was_found() -> None:
    results = Results(sample())
    text = tables.kernels_table(results)
    assert "| NVIDIA H200, Triton 3.9.0, Tidegate 1, waits merged: model | sm_90 |" in text
    assert "| left to Triton, without a share in what follows | 1 |" in text
    assert "geometric mean of other PTX | 1.1000 (1) |" in text
    assert "| geometric mean with the same PTX, too | 1.0467 (2) |" in text
    assert "| worst | 1.100 fast |" in text
    assert "| racecheck: kernels with reports, Triton's barriers / Tidegate's | 1 / 1 |" in text
    row = "| fast.sm_90 | 300 | 50.0 | 5 → 4 | 1.100 | 1.095–1.105 | 1.002 | right | 0 / 0 | – / – |"
    assert row in text
    assert "| same.sm_90 | 300 | 50.0 | 2 → 2 | (0.996) |" in text
    assert "| left.sm_90 | barrier objects |" in text
    assert "| odd.sm_90 | does not compile: ValueError: no |" in text
    assert "| broken.sm_90 | time: took more than 90 s |" in text
    assert "| 1 more | synccheck: not run, time was up |" in text
    assert "| ? | synccheck: reports 1 error |" in text
    assert beyond(results) == []


def test_a_table_of_removed_barriers() -> None:
    text = tables.removed_table(Results(sample()))
    assert "| race | 2 | 1 | 1 | 1 |" in text
    assert "shown to be wrong by racecheck or by numbers: 0." in text


def test_what_is_beyond_the_limits_is_said() -> None:
    read = sample()
    read["time"]["fast.sm_90"] = timed(0.98, 1.001, wrong=None)
    read["entries"][2]["verdict"] = "proved"
    read["racecheck"]["same.sm_90.tidegate"]["reports"] = {"race": 1}
    assert beyond(Results(read)) == [
        "fast.sm_90 is slower than the noise",
        "fast.sm_90.tidegate gives wrong numbers",
        "racecheck reports same.sm_90.tidegate, and not Triton's",
        "fast.sm_90.removed-0 is proved, and shown to be wrong",
    ]
    assert "**0.980**" in tables.kernels_table(Results(read))
    noisy = sample()
    noisy["time"]["fast.sm_90"] = timed(0.98, 0.975)
    assert beyond(Results(noisy)) == [], "its own control pair is as far from 1"


def test_tables_have_their_places_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import page as benchmarks

    page = tmp_path / "benchmarks.md"
    page.write_text(benchmarks.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(benchmarks, "PAGE", page)
    (tmp_path / "results.json").write_text(json.dumps(sample()), encoding="utf-8")
    assert main(["table", str(tmp_path / "results.json")]) == 0
    assert "| fast.sm_90 | 300 |" in page.read_text(encoding="utf-8")


# --- mistakes -----------------------------------------------------------------------------------------------------

NO_CUPY = "raise ImportError('cupy')"
NO_GPU = """
class cuda:
    class runtime:
        CUDARuntimeError = type("CUDARuntimeError", (Exception,), {})
        def getDeviceCount():
            raise cuda.runtime.CUDARuntimeError
"""


@pytest.mark.parametrize(("cupy", "words"), [(NO_CUPY, "CuPy is not installed here"), (NO_GPU, "there is no GPU here")])
def test_without_a_gpu_one_sentence_says_so(tmp_path: Path, cupy: str, words: str) -> None:
    (tmp_path / "cupy.py").write_text(cupy, encoding="utf-8")
    write_manifest(tmp_path, Manifest({}, (), {}))
    ran = subprocess.run(
        [sys.executable, "-m", "bench.gpu", "run", str(tmp_path)],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith(words)
    assert ran.stderr.count("\n") == 1


def test_a_mistake_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path)]) == 2
    assert "`python -m bench.gpu compile" in capsys.readouterr().err
    assert main(["table", str(tmp_path / "none.json")]) == 2
    assert "`python -m bench.gpu run" in capsys.readouterr().err


def test_a_kernel_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton", reason="NOT TESTED: compiling needs Triton, which is not installed")
    assert main(["compile", str(tmp_path), "--only", "nothing"]) == 2
    assert capsys.readouterr().err == "no kernel that can be launched is named nothing\n"
