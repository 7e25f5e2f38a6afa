"""Persistent kernels of TTGIR whose partitions count rounds over tiles, as Triton's own specialization writes them.

Each partition computes program ids, bounds of loops and counters again. The text is written by hand.
"""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="NOT TESTED: TTGIR in Triton's own syntax needs Triton")

from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.verify.model import Verification
from tidegate.verify.verify import verify

ROW = "!ttg.memdesc<128xf32, #s, #smem, mutable>"
ROWS = "!ttg.memdesc<2x128xf32, #s, #smem, mutable>"
BAR = "!ttg.memdesc<1xi64, #s, #smem, mutable>"
BARS = "!ttg.memdesc<2x1xi64, #s, #smem, mutable>"
NAMES = ("m", "full", "empty", "n", "rows", "cols")
TYPES = (ROWS, BARS, BARS, "i32", "i32", "i32")
# What every partition does: P stands for its mark, WORK for what it does in a round.
LOOPS = """
%Pc0 = arith.constant 0 : i32
%Pc1 = arith.constant 1 : i32
%Pz = arith.constant 0 : i64
%Po = arith.constant 1 : i64
%Ptwo = arith.constant 2 : i64
%Ptrue = arith.constant true
%Pid = tt.get_program_id x : i32
%Pall = tt.get_num_programs x : i32
%Ptiles = arith.muli %Prows, %Pcols : i32
%Pend = scf.for %Ptile = %Pid to %Ptiles step %Pall iter_args(%Pcount = %Pz) -> (i64) : i32 {
  %Pmore = scf.for %Pk = %Pc0 to %Pn step %Pc1 iter_args(%Pi = %Pcount) -> (i64) : i32 {
    %Ph = arith.divui %Pi, %Ptwo : i64
    %Pd = arith.muli %Ph, %Ptwo : i64
    %Pr = arith.subi %Pi, %Pd : i64
    %Pslot = arith.trunci %Pr : i64 to i32
    %Pg = arith.andi %Ph, %Po : i64
    %Pbit = arith.trunci %Pg : i64 to i1
    %Pnot = arith.xori %Pbit, %Ptrue : i1
    %Pat = ttg.memdesc_index %Pm[%Pslot] : ROWS -> ROW
    %Pf = ttg.memdesc_index %Pfull[%Pslot] : BARS -> BAR
    %Pe = ttg.memdesc_index %Pempty[%Pslot] : BARS -> BAR
    WORK
    %Pi2 = arith.addi %Pi, %Po : i64
    scf.yield %Pi2 : i64
  }
  scf.yield %Pmore : i64
}
"""
FILL = """%Pw = arith.extui %Pnot : i1 to i32
ttng.wait_barrier %Pe, %Pw : BAR
ttg.local_store %a, %Pat : tensor<128xf32, #four> -> ROW
ttng.arrive_barrier %Pf, 128 : BAR"""
TAKE = """%Pw = arith.extsi %Pbit : i1 to i32
ttng.wait_barrier %Pf, %Pw : BAR
%Pv = ttg.local_load %Pat : ROW -> tensor<128xf32, #one>
ttng.arrive_barrier %Pe, 128 : BAR"""
TEXT = """
#four = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#one = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.shared = 2048 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%x: tensor<128x!tt.ptr<f32>, #four>, %n: i32, %rows: i32, %cols: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %a = tt.load %x : tensor<128x!tt.ptr<f32>, #four>
    %m = ttg.local_alloc {allocation.offset = 0 : i32} : () -> ROWS
    %full = ttg.local_alloc {allocation.offset = 1024 : i32} : () -> BARS
    %empty = ttg.local_alloc {allocation.offset = 1040 : i32} : () -> BARS
    %f0 = ttg.memdesc_index %full[%c0] : BARS -> BAR
    %f1 = ttg.memdesc_index %full[%c1] : BARS -> BAR
    %e0 = ttg.memdesc_index %empty[%c0] : BARS -> BAR
    %e1 = ttg.memdesc_index %empty[%c1] : BARS -> BAR
    ttng.init_barrier %f0, 128 : BAR
    ttng.init_barrier %f1, 128 : BAR
    ttng.init_barrier %e0, 128 : BAR
    ttng.init_barrier %e1, 128 : BAR
    ttg.barrier local
    ttg.warp_specialize(CAPTURES)
    default {
DEFAULT
      ttg.warp_yield
    }
    partition0(ARGUMENTS) num_warps(1) {
PARTITION
      ttg.warp_return
    } : (TYPES) -> ()
    tt.return
  }
}
"""


def verdict(fill: str = FILL, take: str = TAKE, change: tuple[str, str] = ("", "")) -> Verification:
    """`change`: of what the partition does around its rounds."""
    default = LOOPS.replace("WORK", fill)
    for name in NAMES:  # the default region sees what is around it
        default = default.replace(f"%P{name},", f"%{name},").replace(f"%P{name} ", f"%{name} ")
        default = default.replace(f"%P{name}[", f"%{name}[")
    text = TEXT.replace("DEFAULT", default.replace("%P", "%p."))
    other = LOOPS.replace("WORK", take).replace(*change) if change[0] else LOOPS.replace("WORK", take)
    text = text.replace("PARTITION", other.replace("%P", "%q."))
    text = text.replace("CAPTURES", ", ".join(f"%{name}" for name in NAMES))
    text = text.replace("ARGUMENTS", ", ".join(f"%q.{name}: {type_}" for name, type_ in zip(NAMES, TYPES, strict=True)))
    text = text.replace("TYPES", ", ".join(TYPES))
    for word, type_ in (("ROWS", ROWS), ("ROW", ROW), ("BARS", BARS), ("BAR", BAR)):
        text = text.replace(word, type_)
    (found,) = programs_of(read_ttgir(text, "k.ttgir"))
    return verify(found.built.graph, found.target, memory=False)


def test_partitions_that_count_the_same_rounds_are_proved() -> None:
    found = verdict()
    assert found.undecided == ()
    assert found.suspects == ()


WRONG = {
    "other tiles": ("%Ptiles = arith.muli %Prows, %Pcols", "%Ptiles = arith.addi %Prows, %Pcols"),
    "other programs": ("tt.get_num_programs x", "tt.get_num_programs y"),
    "other rounds": ("to %Pn step", "to %Prows step"),
    "a counter that begins anew": ("scf.yield %Pmore : i64", "scf.yield %Pz : i64"),
    "another slot": ("ttg.memdesc_index %Pm[%Pslot]", "ttg.memdesc_index %Pm[%Pc0]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_partitions_that_do_not_are_not(name: str) -> None:
    found = verdict(change=WRONG[name])
    assert found.undecided or found.suspects


def test_arrivals_by_another_number_are_not() -> None:
    assert verdict(take=TAKE.replace("128 : BAR", "64 : BAR")).undecided


def test_a_bit_is_a_parity_whatever_its_sign() -> None:
    assert verdict(take=TAKE.replace("extsi", "extui")).is_proved
    assert verdict(take=TAKE.replace("%Pbit : i1 to", "%Pnot : i1 to")).undecided


CALLS = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.shared = 2048 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%n: i32, %m: i32) {
    tt.call @f(%n) : (i32) -> ()
    tt.call @f(%m) : (i32) -> ()
    tt.return
  }
  tt.func private @f(%n: i32) {
    %c0 = arith.constant 0 : i32
    %all = tt.get_num_programs x : i32
    scf.for %i = %c0 to %n step %all : i32 {
      gpu.barrier
    }
    tt.return
  }
}
"""


def test_a_loop_of_a_function_runs_as_often_as_each_call_says() -> None:
    """Only loops of the kernel itself have one number of trips for the whole run."""
    (found,) = programs_of(read_ttgir(CALLS, "k.ttgir"))
    assert not any(each.counter.endswith(".round") for each in found.built.graph.loops)
