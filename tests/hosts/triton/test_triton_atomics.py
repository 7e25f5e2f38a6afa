"""Atomics on shared memory in TTGIR: operator, type, and whether anything takes what was there before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli import main
from tidegate.graph import model as g
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir

if not libtriton.is_installed():
    pytest.skip(
        "NOT TESTED: these texts are in Triton's syntax, and Triton is not installed; `pip install tidegate[triton]`",
        allow_module_level=True,
    )

Run = Callable[..., tuple[str, int]]
TEXT = """\
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, SHAREDttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%x: tensor<256x!tt.ptr<TYPE>, #a>, %to: tensor<256x!tt.ptr<TYPE>, #a>, %at: tensor<256xi32, #a>, \
%n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %m = ttg.local_alloc PLACE: () -> !ttg.memdesc<256xTYPE, #s, #smem, mutable>
    scf.for %i = %c0 to %n step %c1 : i32 {
      %v = tt.load %x : tensor<256x!tt.ptr<TYPE>, #a>
FIRST
SECOND
    }
    tt.return
  }
}
"""
ATOMIC = """\
      %NAME = ttg.local_atomic_scatter_rmw OPERATOR, %m[%at], %v {axis = 0 : i32} : \
(!ttg.memdesc<256xTYPE, #s, #smem, mutable>, tensor<256xTYPE, #a>, tensor<256xi32, #a>) -> tensor<256xTYPE, #a>
"""
USE = "      tt.store %to, %o : tensor<256x!tt.ptr<TYPE>, #a>\n"


def text(first: str, second: str, type_: str = "i32", *, used: bool = False, laid_out: bool = True) -> str:
    """Two atomics in a loop, with nothing between them."""
    one, two = (ATOMIC.replace("OPERATOR", each) for each in (first, second))
    found = TEXT.replace("FIRST", one.replace("%NAME", "%o") + (USE if used else ""))
    found = found.replace("SECOND", two.replace("%NAME", "%p")).replace("TYPE", type_)
    place, shared = ("{allocation.offset = 0 : i32} ", "ttg.shared = 1024 : i32, ") if laid_out else ("", "")
    return found.replace("PLACE", place).replace("SHARED", shared)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def run(text: str, *args: object) -> tuple[str, int]:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "k.ttgir").write_text(text, encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["tidegate", *map(str, args)])
        with pytest.raises(SystemExit) as done:
            main()
        return "".join(capsys.readouterr()), int(done.value.code or 0)

    return run


def atomics_of(source: str) -> list[tuple[str, str, bool]]:
    (program,) = programs_of(read_ttgir(source, "k.ttgir"))
    accesses = (each.action for each in program.built.graph.points if isinstance(each.action, g.Access))
    return [(each.operator, each.element, each.fetches) for each in accesses if each.effect == "atomic"]


def test_an_atomic_says_what_it_does() -> None:
    assert atomics_of(text("add", "max")) == [("add", "i32", False), ("max", "i32", False)]
    assert atomics_of(text("add", "add", used=True)) == [("add", "i32", True), ("add", "i32", False)]
    assert atomics_of(text("fadd", "fadd", "f32")) == [("fadd", "f32", False)] * 2
    assert atomics_of(text("exch", "exch")) == [("exch", "i32", True)] * 2, "the last one stays"


@pytest.mark.parametrize("operator", ["add", "and", "or", "xor", "max", "min", "umax", "umin"])
def test_atomics_of_one_operator_that_nothing_looks_at_are_no_race(operator: str, command: Run) -> None:
    out, status = command(text(operator, operator), "check", "k.ttgir")
    assert (status, "\n  proved: no race" in out) == (0, True), out


WRONG = {
    "what was there before is used": text("add", "add", used=True),
    "two operators": text("add", "max"),
    "signed and unsigned": text("max", "umax"),
    "the last one stays": text("exch", "exch"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_atomics_are_a_race(name: str, command: Run) -> None:
    out, status = command(WRONG[name], "check", "k.ttgir")
    assert status == 1, out
    assert "error[TG103]" in out


def test_tritons_own_code_for_unused_atomics_is_no_race(command: Run) -> None:
    """Triton puts no barrier between them."""
    out, status = command(text("add", "add", laid_out=False), "check", "k.ttgir")
    assert (status, "\n  proved: no race" in out) == (0, True), out


def test_sync_orders_them_only_if_asked_to(command: Run) -> None:
    barriers = {}
    for atomics in ("order", "commute"):
        out, status = command(text("add", "add", laid_out=False), "sync", "k.ttgir", "--atomics", atomics)
        assert (status, "\n  proved: no race" in out) == (0, True), out
        barriers[atomics] = out.count("ttg.barrier local")
    assert barriers["commute"] == 0 < barriers["order"]
    out, _ = command(WRONG["two operators"].replace("PLACE", ""), "sync", "k.ttgir", "--atomics", "commute")
    assert out.count("ttg.barrier local") > 0
