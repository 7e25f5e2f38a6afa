"""Kernels through LLVM: proved again as instructions, and on AMD with numbers on a machine that shares no code.

`oracles/amdgcn_machine` runs assembly instruction by instruction; on NVIDIA `bench/built.py` runs the same kernels on
a GPU (docs/benchmarks.md).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oracles.amdgcn_machine.launch import Shape, run
from oracles.amdgcn_machine.machine import Hostility
from oracles.amdgcn_machine.program import load as load_program
from tests.conftest import ROOT
from tests.house.test_docs import WITH_LLVM, run_page
from tidegate.diag import BadInput
from tidegate.files import load
from tidegate.language.parse import parse
from tidegate.lowering.build import BuiltKernel, build
from tidegate.lowering.compile import compile_ir
from tidegate.lowering.manifest import grid_of
from tidegate.session import Session, sessions_of
from tidegate.simulate.inorder import make_inputs
from tidegate.simulate.inorder import run as run_in_order
from tidegate.targets import load_target

pytestmark = pytest.mark.compilers
AMD = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
KERNELS = ("softmax", "scan", "histogram", "gemm_two_slots", "transpose", "split_k")
BROKEN = ("missing_barrier", "overwrite_next_iteration", "two_writers")
ON_NVIDIA = (*KERNELS, "layer_norm", "stencil_2d", "wave_private", "flash_attention", "gemm_cp_async", "gemm_prefetch")


def made(name: str, target: str) -> BuiltKernel:
    (session,) = sessions_of(load(str(ROOT / "examples" / f"{name}.tide")), target)
    return build(session)


def built(text: str, target: str) -> BuiltKernel:
    (kernel,) = parse(text, "k.tide").kernels
    return build(Session(kernel.name, load_target(target), kernel))


def wrongness(found: BuiltKernel) -> float:
    """The largest distance from the in-order machine, after a run on the machine of instructions."""
    kernel, manifest = found.session.kernel, found.manifest
    assert kernel is not None
    sizes = dict(manifest.sizes)
    given = make_inputs(kernel, sizes, 0)
    wanted = run_in_order(kernel, {name: each.copy() for name, each in given.items()}, sizes=sizes)
    arguments = [given[each.name] for each in manifest.arrays] + [sizes[name] for name, _ in manifest.sizes]
    shape = Shape(grid_of(manifest, sizes), kernel.waves)
    ran = run(load_program(found.assembly), found.assembly, arguments, shape, Hostility())
    assert ran.is_good, ran.lines()[:3]
    worst = 0.0
    for each, got in zip(manifest.arrays, ran.args, strict=False):
        want = np.asarray(wanted[each.name], np.float64)
        apart = np.abs(np.asarray(got, np.float64) - want) / np.maximum(1.0, np.abs(want))
        worst = max(worst, float(np.max(np.nan_to_num(apart, nan=np.inf))))
    return worst


@pytest.mark.parametrize("target", AMD)
@pytest.mark.parametrize("name", KERNELS)
def test_numbers_on_the_machine_of_instructions(name: str, target: str) -> None:
    found = made(name, target)
    assert found.is_proved
    assert wrongness(found) < 1e-4


@pytest.mark.parametrize("name", ["gemm_gather", "gemm_async_two_slots", "attention_async"])
def test_copies_to_lds_on_the_machine(name: str) -> None:
    """LLVM 22 moved a part of the address of `global.load.lds` into its offset, which counts in LDS, too: two copies
    of attention_async met. The buffer's form has no such offset."""
    found = made(name, "gfx90a")
    assert found.is_proved
    assert wrongness(found) < 1e-3


@pytest.mark.parametrize("name", ON_NVIDIA)
def test_ptx_is_proved(name: str) -> None:
    found = made(name, "sm_80")
    assert found.is_proved
    assert found.instructions or name in ("layer_norm_row",)


def test_split_barriers_become_signals_and_waits() -> None:
    found = made("gemm_split", "gfx1201")
    assert found.is_proved
    assert found.assembly.count("s_barrier_signal") >= 2
    assert wrongness(found) < 1e-4


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, target) for name in BROKEN for target in ("sm_80", "gfx942", "gfx1201")),
        ("lanes_of_a_wave", "sm_80"),  # on AMD a wave's accesses are in order once LLVM has kept their order
        ("single_buffer_pipeline", "gfx942"),
    ],
)
def test_a_broken_kernel_is_broken_as_instructions(name: str, target: str) -> None:
    """The reading back knows nothing of the kernel: it reports the same kind of race."""
    (session,) = sessions_of(load(str(ROOT / "examples" / "broken" / f"{name}.tide")), target)
    found = build(session)
    assert not found.is_proved
    assert found.read_back is not None
    assert {each.code for each in found.read_back.findings} & {"TG101", "TG102", "TG103", "TG106", "TG108"}


ELEMENTWISE = """
kernel @k(%X: global<64xf32>, %Y: global<64xf32>, %Z: global<64xf32>) waves 1 {{
  %x = global_read %X : tile<64xf32>
  %y = global_read %Y : tile<64xf32>
  %r = {op} : tile<64xf32>
  global_write %r, %Z
}}
"""
FUNCTIONS = (
    *(f"{fn} %x, %y" for fn in ("add", "sub", "mul", "div", "rem", "max", "min")),
    *(f"{fn} %x" for fn in ("neg", "abs", "exp", "exp2", "recip", "sin", "cos", "tanh", "sigmoid", "relu", "floor")),
    "fma %x, %y, %x",
    "scan add %x axis 0",
    "scan max %x axis 0",
)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_on_the_machine(op: str) -> None:
    assert wrongness(built(ELEMENTWISE.format(op=op), "gfx942")) < 2e-4


INTEGERS = """
kernel @k(%X: global<64xi32>, %Y: global<64xi32>, %Z: global<64xi32>) waves 1 {{
  %x = global_read %X : tile<64xi32>
  %y = global_read %Y : tile<64xi32>
  %r = {fn} %x, %y : tile<64xi32>
  global_write %r, %Z
}}
"""


@pytest.mark.parametrize("fn", ["add", "sub", "mul", "div", "rem", "max", "min", "and", "or", "xor"])
def test_integers_on_the_machine(fn: str) -> None:
    """Inputs are -4 to 4: divisions round down, and by 0 give 0."""
    assert wrongness(built(INTEGERS.format(fn=fn), "gfx1201")) == 0


SHAPES = """
kernel @k(%X: global<12x20xf32>, %Y: global<20x12xf32>, %Z: global<12x1xf32>) waves 2 {
  %part = alloc : lds<12x20xf32>
  %x = global_read %X : tile<12x20xf32>
  conditional wave == 0 {
    local_write %x, %part
  }
  shared_memory_barrier
  %y = local_read %part : tile<12x20xf32>
  %t = transpose %y : tile<20x12xf32>
  global_write %t, %Y
  %s = reduce add %y axis 1 : tile<12x1xf32>
  global_write %s, %Z
}
"""


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_sides_that_are_no_powers_of_two(target: str) -> None:
    assert wrongness(built(SHAPES, target)) < 1e-5


LANES = """
kernel @k(%X: global<64xi32>, %Y: global<64xi32>) waves 1 {
  %rows = alloc : lds<64xi32>
  %x = global_read %X : tile<64xi32>
  local_write %x, %rows
  conditional lane < 7 {
    %two = fill 2 : tile<64xi32>
    %more = mul %x, %two : tile<64xi32>
    local_write %more, %rows
  }
  %y = local_read %rows : tile<64xi32>
  global_write %y, %Y
}
"""


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_conditions_on_lanes_mean_the_lanes_of_the_language(target: str) -> None:
    found = built(LANES, target)
    kernel = found.session.kernel
    assert kernel is not None
    given = make_inputs(kernel, {}, 0)
    lanes = load_target(target).lanes
    wanted = run_in_order(kernel, {name: each.copy() for name, each in given.items()}, lanes=lanes)
    ran = run(load_program(found.assembly), found.assembly, [given["X"], given["Y"]], Shape((1, 1, 1), 1), Hostility())
    assert np.array_equal(np.asarray(ran.args[1]), wanted["Y"])


def test_llvm_that_refuses_is_a_finding() -> None:
    with pytest.raises(BadInput) as caught:
        compile_ir("define void @f() { nonsense }", load_target("gfx942"))
    assert caught.value.findings[0].code == "TG025"


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    found = made("softmax", "sm_80")
    path = tmp_path / "softmax.ptx"
    found.save(path)
    assert path.read_text(encoding="utf-8") == found.assembly
    assert path.with_suffix(".json").exists()
    found.save(tmp_path / "softmax.ll")
    assert "define ptx_kernel void @softmax" in (tmp_path / "softmax.ll").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WITH_LLVM)
def test_examples_do_what_the_page_says(name: str, tmp_path: Path, update: bool) -> None:
    run_page(name, tmp_path, update)
