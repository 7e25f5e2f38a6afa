"""Loops as branches: what Triton's own pass sees is read as well as what its cache keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.graph import model as g
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.simulate.judge import judge
from tidegate.verify.verify import verify

FOLDER = ROOT / "tests" / "ttgir"
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


CALLEE = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#turned = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32} {
  tt.func private @either(%p: !tt.ptr<i1>, %m: !ttg.memdesc<256xf32, #shared, #smem, mutable>)
      attributes {noinline = true} {
    %c = tt.load %p : !tt.ptr<i1>
    scf.if %c {
      %a = arith.constant dense<1.0> : tensor<256xf32, #blocked>
      ttg.local_store %a, %m : tensor<256xf32, #blocked> -> !ttg.memdesc<256xf32, #shared, #smem, mutable>
    } else {
      %b = ttg.local_load %m : !ttg.memdesc<256xf32, #shared, #smem, mutable> -> tensor<256xf32, #turned>
    }
    tt.return
  }
  tt.func public @k(%p: !tt.ptr<i1>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %m = ttg.local_alloc : () -> !ttg.memdesc<256xf32, #shared, #smem, mutable>
    scf.for %i = %zero to %n step %one : i32 {
      tt.call @either(%p, %m) : (!tt.ptr<i1>, !ttg.memdesc<256xf32, #shared, #smem, mutable>) -> ()
    }
    tt.return
  }
}
"""


def test_what_a_called_function_loads_may_differ_from_call_to_call() -> None:
    """Taken for one number, the two arms would never both run, and the race between iterations was overlooked."""
    (program,) = programs_of(read_ttgir(CALLEE, "k.ttgir"))
    suspects = verify(program.built.graph, program.target, memory=False).suspects
    assert any(each.x != each.y for each in suspects), "the store of one call and the load of another"


@pytest.mark.parametrize("passes", [(), ("cf",)], ids=["loops", "branches"])
def test_a_number_from_memory_before_a_loop_is_one_number(passes: tuple[str, ...]) -> None:
    """Blocks that are run once set a scalar once: what depends on it is known behind the loop as well."""
    text = (
        CALLEE.replace("    scf.for %i", "    %loaded = tt.load %q : !tt.ptr<i32>\n    scf.for %i")
        .replace("%zero to %n", "%zero to %loaded")
        .replace("%n: i32", "%q: !tt.ptr<i32>")
    )
    (program,) = programs_of(read_ttgir(text, "k.ttgir", before=passes))
    havoc = {
        name for each in program.built.graph.points if isinstance(each.action, g.Havoc) for name in each.action.names
    }
    assert not any("loaded" in name for name in havoc)
    assert any("loaded" in each.name for each in program.built.graph.free)
