"""The kernels of `oracles/triton_kernels`: what they are, their references, and that a few of them compile."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from oracles.triton_kernels import NVIDIA, TARGETS, Case, cases, compile_ttgir
from tests.conftest import ROOT

try:
    import triton  # noqa: F401
except ImportError:
    pytest.skip(
        "NOT TESTED: the Triton kernels need Triton, which is not installed; `pip install tidegate[triton]`",
        allow_module_level=True,
    )

CASES = {case.name: case for case in cases()}
FAMILIES = """
    matmul matmul-masked matmul-persistent matmul-grouped matmul-batched matmul-split matmul-described
    matmul-specialized matmul-fp8 matmul-weights matmul-experts matmul-micro
    attention attention-paged attention-back-dots attention-back-keys attention-back-queries
    softmax softmax-online layer-norm layer-norm-back rms-norm cross-entropy
    cumsum recurrence histogram sort top-k route-tokens column-sums
    transpose rotary gather-rows convolution sum-locked sum-last look-up
    gluon-rotate gluon-alternate gluon-permute gluon-transpose
    gluon-add gluon-add-signalled gluon-matmul-copied gluon-sum-tiles gluon-matmul-tma gluon-matmul-two-kinds
    gluon-matmul-staged gluon-matmul-buffered gluon-matmul-stages
    gluon-matmul-lanes gluon-matmul-moved gluon-matmul-two-kinds-moved
""".split()
BYTES = {"fp32": 4, "i32": 4, "fp16": 2, "i8": 1, "u8": 1, "fp8e5": 1, "fp8e4nv": 1}
# One kernel of each kind of code, each on one target of each kind of memory.
COMPILED = (
    ("matmul-s3-w4", "sm_80"),
    ("matmul-s3-w4", "sm_90"),
    ("matmul-s3-w8", "gfx950"),
    ("attention-full-s2", "gfx942"),
    ("softmax", "gfx1201"),
    ("layer-norm", "gfx1250"),
    ("sort", "sm_80"),
    ("matmul-described", "sm_90"),
    ("gluon-alternate", "gfx942"),
    ("gluon-matmul-copied-s3", "sm_80"),
    ("gluon-matmul-two-kinds", "sm_90"),
    ("gluon-matmul-stages-s3", "gfx950"),
    ("gluon-matmul-moved-s3", "gfx1250"),
)


def test_importing_the_package_does_not_import_triton() -> None:
    code = "import sys, oracles.triton_kernels; sys.exit('triton' in sys.modules)"
    root = ROOT
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_names_are_unique_and_the_families_are_those_listed() -> None:
    assert len(CASES) == len(cases())
    assert sorted({case.kernel for case in cases()}) == sorted(FAMILIES)
    assert len(FAMILIES) >= 25


@pytest.mark.parametrize("case", cases(), ids=list(CASES))
def test_targets_are_known_and_in_order(case: Case) -> None:
    assert case.targets
    assert list(case.targets) == [target for target in TARGETS if target in case.targets]


@pytest.mark.parametrize("case", cases(), ids=list(CASES))
def test_a_launch_passes_what_the_kernel_takes_and_what_comes_out_is_known(case: Case) -> None:
    if case.launch is None:
        assert not set(NVIDIA) & set(case.targets), "what compiles for NVIDIA has a launch"
        return
    launch = case.launch(np.random.default_rng(0), 1)
    for target in set(NVIDIA) & set(case.targets):
        source, _ = case.source(target)
        passed = [(place, type_) for place, type_ in enumerate(source.signature.values()) if type_ != "constexpr"]
        assert len(passed) == len(launch.args)
        for (place, type_), arg in zip(passed, launch.args, strict=True):
            assert type_.startswith("*") == isinstance(arg, np.ndarray), (type_, arg)
            if isinstance(arg, np.ndarray):
                assert arg.itemsize == BYTES[type_[1:]], (type_, arg.dtype)
                assert arg.flags.c_contiguous
            elif (place,) in source.attrs:
                assert arg % 16 == 0, "the kernel was told that it is a multiple of 16"
    assert all(size >= 1 for size in launch.grid)
    assert len(launch.outputs) == len(launch.expected)
    for place, expected in zip(launch.outputs, launch.expected, strict=True):
        assert expected.dtype == np.float64
        assert launch.args[place].shape == expected.shape
        assert np.isfinite(expected).all()
    assert math.isfinite(launch.tolerance)


@pytest.mark.parametrize(("name", "target"), COMPILED)
def test_it_compiles(name: str, target: str) -> None:
    text = compile_ttgir(CASES[name], target)
    assert "tt.func public @" in text
    assert "loc(" in text
    chip = TARGETS[target]
    assert f'ttg.target = "{chip.backend}:{chip.arch}"' in text
