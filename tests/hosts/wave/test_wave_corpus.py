"""The kernels of `oracles/wave_kernels`: what they are, and that a few of them are traced."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from oracles.wave_kernels import TARGETS, Case, cases, trace_of
from tests.conftest import ROOT

try:
    import wave_lang.kernel  # noqa: F401
except ImportError:
    pytest.skip(
        "NOT TESTED: the Wave kernels need Wave, which is not installed; `pip install wave-lang==3.9.1 torch==2.13.0`",
        allow_module_level=True,
    )

from oracles.wave_kernels.counting import count_ops

CASES = {case.name: case for case in cases()}
FAMILIES = """
    gemm gemm-async gemm-half-async gemm-cluster gemm-any-size gemm-batched gemm-two-loops gemm-persistent
    mxfp4 pingpong pingpong-async manual
    attention attention-bshd attention-decode attention-extend
    topk row-sum softmax nested-loops conditional pass-around atomics single-wave
""".split()


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


def test_importing_the_package_imports_neither_wave_nor_torch() -> None:
    code = "import sys, oracles.wave_kernels; sys.exit(bool({'wave_lang', 'torch'} & sys.modules.keys()))"
    root = ROOT
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_names_are_unique_and_the_families_are_those_listed() -> None:
    assert len(CASES) == len(cases()) >= 30
    assert sorted({case.kernel for case in cases()}) == sorted(FAMILIES)


def test_each_schedule_has_one_to_four_buffers() -> None:
    for schedule in ("prefetch", "modulo", "four-stage"):
        assert {f"gemm-{schedule}-{count}" for count in (1, 2, 3, 4)} <= CASES.keys()


@pytest.mark.parametrize("case", cases(), ids=list(CASES))
def test_targets_are_known_and_in_order(case: Case) -> None:
    assert case.targets
    assert list(case.targets) == [target for target in TARGETS if target in case.targets]


@pytest.mark.parametrize(("target", "added"), [("gfx942", {"barrier": 1}), ("gfx1201", {"signal": 1, "wait": 1})])
def test_a_small_kernel_is_traced_before_and_after_the_barrier_pass(target: str, added: dict[str, int]) -> None:
    seen: list[dict[str, int]] = []
    traced = trace_of(CASES["pass-around"], target, lambda trace, *_: seen.append(count_ops(trace)))
    assert seen == [{}]
    assert count_ops(traced.trace) == added
    assert "func.func @pass_around" in traced.mlir
    assert traced.options.target == target
    assert traced.seconds > 0


def test_a_pipelined_kernel_is_traced_and_the_barrier_pass_is_put_back() -> None:
    wave = sys.modules["wave_lang.kernel.wave.wave"]
    own = wave.add_shared_memory_barriers
    traced = trace_of(CASES["gemm-prefetch-2"], "gfx950")
    assert wave.add_shared_memory_barriers is own
    assert count_ops(traced.trace)["barrier"] > 0


def test_references_say_what_a_product_and_a_passing_around_give() -> None:
    left, right = np.eye(2, 3, dtype=np.float16), np.arange(6, dtype=np.float16).reshape(2, 3)
    assert CASES["gemm-none"].reference({"left": left, "right": right})["out"].tolist() == [[0, 3], [1, 4]]
    rows = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
    assert CASES["pass-around"].reference({"rows": rows})["out"].tolist() == [[2, 3], [4, 5], [0, 1]]
