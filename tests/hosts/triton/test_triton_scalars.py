"""Scalars of TTGIR: widths, steps, arguments of calls, and values on which waves or lanes disagree.

Each wrong program was once proved: a rule took a scalar for something simpler than it is. Its right neighbour differs
in a barrier or in the operation that makes the scalar, and is proved.
"""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="NOT TESTED: TTGIR in Triton's own syntax needs Triton")

from tidegate.assumptions import NO_OVERFLOW, UNIFORM
from tidegate.diag import BadInput
from tidegate.hosts.triton.build_facts import FunctionFacts
from tidegate.hosts.triton.program import TritonProgram, programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.hosts.triton.spreads import Calls, Spread
from tidegate.hosts.triton.widths import wrap, wrap_number
from tidegate.index import Name, evaluate
from tidegate.verify.verify import verify

TILE = "!ttg.memdesc<64x64xf32, #shared, #smem, mutable>"
TWO = "!ttg.memdesc<2x64x64xf32, #shared, #smem, mutable>"
TEXT = """
#row = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#col = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 8], warpsPerCTA = [1, 4], order = [0, 1]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.shared = 65536 : i32, ttg.target = "hip:gfx942",
                   "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @k(%x: tensor<64x64xf32, #row>, %to: tensor<64x64x!tt.ptr<f32>, #col>, %p: !tt.ptr<i32>,
                    %n: i32, %m: i32, %c: i1) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %t = ttg.local_alloc {allocation.offset = 0 : i32} : () -> TILE
    %tt = ttg.local_alloc {allocation.offset = 16384 : i32} : () -> TWO
BODY
    tt.return
  }
CALLEE
}
"""
WORDS = {
    "STORE": "ttg.local_store %x, %t : tensor<64x64xf32, #row> -> TILE",
    "LOAD": "%ld = ttg.local_load %t : TILE -> tensor<64x64xf32, #col>\n"
    "tt.store %to, %ld : tensor<64x64x!tt.ptr<f32>, #col>",
    "BARRIER": "ttg.barrier local",
    "TAKE_S": "%s = ttg.memdesc_index %tt[%slot] : TWO -> TILE",
    "STORE_S": "ttg.local_store %x, %s : tensor<64x64xf32, #row> -> TILE",
    "LOAD_S": "%ls = ttg.local_load %s : TILE -> tensor<64x64xf32, #col>\n"
    "tt.store %to, %ls : tensor<64x64x!tt.ptr<f32>, #col>",
}


def program(body: str, callee: str = "") -> TritonProgram:
    text = TEXT.replace("BODY", body).replace("CALLEE", callee)
    for word in sorted(WORDS, key=len, reverse=True):
        text = text.replace(word, WORDS[word])
    (found,) = programs_of(read_ttgir(text.replace("TILE", TILE).replace("TWO", TWO), "k.ttgir"))
    return found


def is_proved(body: str, callee: str = "") -> bool:
    found = program(body, callee)
    return verify(found.built.graph, found.target, memory=False).is_proved


# --- numbers -----------------------------------------------------------------------------------------------------

STEPS = """
    scf.for %i = %c0 to %n step STEP : i32 {
      %slot = arith.remsi %i, %c2 : i32
      TAKE_S
      STORE_S
      BARRIER
      LOAD_S
      END
    }
"""


@pytest.mark.parametrize("step", ["%m", "%minus", "%c2"])
def test_a_step_that_is_not_one_takes_slots_in_any_order(step: str) -> None:
    """An unknown step was taken for 1: then two iterations never use one slot, and one barrier was enough."""
    steps = "%minus = arith.subi %c0, %c1 : i32\n" + STEPS.replace("STEP", step)
    assert not is_proved(steps.replace("END", ""))
    assert is_proved(steps.replace("END", "BARRIER"))


def test_a_step_of_one_still_alternates_slots() -> None:
    assert is_proved(STEPS.replace("STEP", "%c1").replace("END", ""))


GUARDED = """
    scf.for %i = %c1 to %n step %c1 : i32 {
      STORE
      COND
      scf.if %cc {
        BARRIER
      }
      LOAD
      BARRIER
    }
"""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        pytest.param(
            "%cc = arith.trunci %i : i32 to i1",
            "%odd = arith.ori %i, %c1 : i32\n %cc = arith.cmpi sge, %i, %c1 : i32",
            id="the lowest bit of a positive number may be 0",
        ),
        pytest.param(
            "%b = arith.trunci %i : i32 to i8\n %z = arith.constant 0 : i8\n %cc = arith.cmpi ne, %b, %z : i8",
            "%b = arith.extsi %i : i32 to i64\n %z = arith.constant 0 : i64\n %cc = arith.cmpi ne, %b, %z : i64",
            id="so may its lowest byte",
        ),
        pytest.param(
            "%b = arith.trunci %i : i32 to i16\n %z = arith.constant 0 : i16\n %cc = arith.cmpi sgt, %b, %z : i16",
            "%w = arith.extsi %i : i32 to i64\n %b = arith.trunci %w : i64 to i32\n%cc = arith.cmpi sgt, %b, %c0 : i32",
            id="half of the numbers of 16 bits are negative",
        ),
        pytest.param(
            "%b = arith.trunci %i : i32 to i8\n %o = arith.constant 1 : i8\n %d = arith.addi %b, %o : i8\n"
            "%cc = arith.cmpi sgt, %d, %b : i8",
            "%d = arith.addi %i, %c1 : i32\n %cc = arith.cmpi sgt, %d, %i : i32",
            id="a sum of bytes wraps",
        ),
        pytest.param(
            "%b = arith.cmpi sgt, %i, %c1 : i32\n %a = arith.constant true\n %cc = arith.addi %b, %a : i1",
            "%b = arith.cmpi sgt, %i, %c0 : i32\n %a = arith.constant true\n %cc = arith.muli %b, %a : i1",
            id="a sum of two truths is neither",
        ),
        pytest.param(
            "%b = arith.cmpi sgt, %i, %c0 : i32\n %a = arith.constant false\n %cc = arith.cmpi sgt, %b, %a : i1",
            "%b = arith.cmpi sgt, %i, %c0 : i32\n %a = arith.constant false\n %cc = arith.cmpi ne, %b, %a : i1",
            id="a truth is -1 where it has a sign",
        ),
        pytest.param(
            "%d = arith.xori %i, %c1 : i32\n %cc = arith.cmpi sle, %d, %c1 : i32",
            "%cc = arith.cmpi sge, %i, %c1 : i32",
            id="a counter is no bit",
        ),
    ],
)
def test_widths(wrong: str, right: str) -> None:
    assert not is_proved(GUARDED.replace("COND", wrong))
    assert is_proved(GUARDED.replace("COND", right))


EXTENDED = """
    %minus = arith.subi %c0, %n : i32
    %e = arith.CAST : i32 to i64
    %three = arith.constant 3 : i64
    %two = arith.constant 2 : i64
    %r = arith.REST %e, %three : i64
    %is_two = arith.cmpi eq, %r, %two : i64
    %is_one = arith.cmpi eq, %n, %c1 : i32
    scf.if %is_one {
      STORE
      scf.if %is_two {
        BARRIER
      }
      LOAD
    }
"""


def test_a_negative_number_without_its_sign_is_another_one() -> None:
    """-1 as an unsigned number is 2^32 - 1, whose rest by 3 is 0; as -1 it has the rest 2, if it is rounded down."""
    assert not is_proved(EXTENDED.replace("CAST", "extui %minus").replace("REST", "remui"))
    two = "%d = arith.addi %n, %c1 : i32\n" + EXTENDED.replace("CAST", "extsi %d").replace("REST", "remsi")
    assert is_proved(two)


@pytest.mark.parametrize("bits", [2, 8, 16])
def test_wrapping_is_what_the_type_holds(bits: int) -> None:
    for number in range(-600, 600, 7):
        held = wrap_number(number, bits)
        assert held == evaluate(wrap(Name("n"), bits), {"n": number})
        assert -(1 << bits - 1) <= held < 1 << bits - 1
        assert (held - number) % (1 << bits) == 0


def test_a_sum_of_32_bits_is_assumed_to_fit_and_a_counter_by_one_is_not() -> None:
    assert NO_OVERFLOW in program(GUARDED.replace("COND", "%d = arith.addi %i, %n : i32\n"
                                                  "%cc = arith.cmpi sgt, %d, %i : i32")).assumed  # fmt: skip
    plain = program("scf.for %i = %c0 to %n step %c1 : i32 {\n STORE\n BARRIER\n LOAD\n BARRIER\n }")
    assert plain.assumed == frozenset()


def test_a_scalar_from_memory_is_assumed_to_be_the_same_for_all_waves() -> None:
    guarded = "LOADED\n STORE\n scf.if %cc {\n BARRIER\n }\n"
    loaded = "%v = tt.load %p : !tt.ptr<i32>\n %cc = arith.cmpi sgt, %v, %c0 : i32"
    assert UNIFORM in program(guarded.replace("LOADED", loaded)).assumed
    assert UNIFORM not in program(guarded.replace("LOADED", "%cc = arith.cmpi sgt, %n, %c0 : i32")).assumed


# --- who agrees --------------------------------------------------------------------------------------------------

OWN = {
    "warp": "%w = ttg.warp_id",
    "thread": "%w = rocdl.workitem.id.x : i32",
    "lane of the first": "%v = rocdl.workitem.id.x : i32\n %w = rocdl.readfirstlane %v : i32",
    "thread of gpu": "%v = gpu.thread_id x\n %w = arith.index_cast %v : index to i32",
    "assembly": '%w = tt.elementwise_inline_asm "v_mov_b32 $0, v0" {constraints = "=v,v", packed_element = 1 : i32, '
    "pure = true} %c0 : i32 -> i32",
    "library": '%w = tt.extern_elementwise %c0 {libname = "", libpath = "", pure = true, symbol = "f"} : (i32) -> i32',
    "tensor of assembly": "%a = arith.constant dense<0> : tensor<1xi32, #one>\n %b = tt.elementwise_inline_asm "
    '"v_mov_b32 $0, v0" {constraints = "=v,v", packed_element = 1 : i32, pure = true} %a '
    ": tensor<1xi32, #one> -> tensor<1xi32, #one>\n"
    "%w = tt.unsplat %b : tensor<1xi32, #one>",
}
SHARED = {
    "argument": "%w = arith.addi %n, %m : i32",
    "program": "%w = tt.get_program_id x : i32",
    "load": "%w = tt.load %p : !tt.ptr<i32>",
    "product": "%w = arith.muli %n, %m : i32",
}
ONE = "#one = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>\n"
BRANCHES = {
    "barrier": "%q = arith.cmpi eq, %w, %c0 : i32\n scf.if %q {\n BARRIER\n }",
    "arms": "%q = arith.cmpi eq, %w, %c0 : i32\n scf.if %q {\n STORE\n } else {\n LOAD\n }",
    "nested": "%q = arith.cmpi slt, %w, %c2 : i32\n %r = arith.cmpi eq, %w, %c1 : i32\n"
    "scf.if %q {\n scf.if %r {\n STORE\n } else {\n LOAD\n }\n }",
    "yielded": "%q = arith.cmpi eq, %w, %c0 : i32\n %f = arith.constant false\n %y = arith.constant true\n"
    "%r = scf.if %q -> (i1) {\n scf.yield %f : i1\n } else {\n scf.yield %y : i1\n }\n scf.if %r {\n BARRIER\n }",
    "carried": "%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> (i32) : i32 {\n"
    "%b = arith.addi %a, %w : i32\n scf.yield %b : i32\n }\n %q = arith.cmpi eq, %r, %c0 : i32\n"
    "scf.if %q {\n BARRIER\n }",
    "trips": "scf.for %i = %c0 to %w step %c1 : i32 {\n BARRIER\n }",
    "last value": "%r = scf.for %i = %c0 to %w step %c1 iter_args(%a = %c0) -> (i32) : i32 {\n"
    "%b = arith.addi %a, %c1 : i32\n scf.yield %b : i32\n }\n %q = arith.cmpi eq, %r, %c2 : i32\n"
    "scf.if %q {\n BARRIER\n }",
    "while": "%r = scf.while (%a = %c0) : (i32) -> i32 {\n %q = arith.cmpi slt, %a, %w : i32\n"
    "scf.condition(%q) %a : i32\n } do {\n ^bb0(%d: i32):\n BARRIER\n %b = arith.addi %d, %c1 : i32\n"
    "scf.yield %b : i32\n }",
    "switch": "%j = arith.index_cast %w : i32 to index\n scf.index_switch %j\n case 0 {\n STORE\n scf.yield\n }\n"
    "case 1 {\n LOAD\n scf.yield\n }\n default {\n }",
    "blocks": "%q = arith.cmpi eq, %w, %c0 : i32\n cf.cond_br %q, ^bb1, ^bb2\n ^bb1:\n BARRIER\n cf.br ^bb2\n ^bb2:",
    "slot": "%slot = arith.remsi %w, %c2 : i32\n %other = arith.subi %c1, %slot : i32\n TAKE_S\n"
    "%u = ttg.memdesc_index %tt[%other] : TWO -> TILE\n STORE_S\n"
    "%lu = ttg.local_load %u : TILE -> tensor<64x64xf32, #col>",
    "memory": "%q = arith.cmpi eq, %w, %c0 : i32\n %first = ttg.memdesc_index %tt[%c0] : TWO -> TILE\n"
    "%second = ttg.memdesc_index %tt[%c1] : TWO -> TILE\n %s = arith.select %q, %first, %second : TILE\n"
    "%u = arith.select %q, %second, %first : TILE\n STORE_S\n"
    "%lu = ttg.local_load %u : TILE -> tensor<64x64xf32, #col>",
    "call": "tt.call @g(%w) {allocation.offset = 60000 : i32, allocation.size = 0 : i32} : (i32) -> ()",
    "returned": "%v = tt.call @h(%w) {allocation.offset = 60000 : i32, allocation.size = 0 : i32} : (i32) -> i32\n"
    "%q = arith.cmpi eq, %v, %c0 : i32\n scf.if %q {\n BARRIER\n }",
}
CALLEES = """
  tt.func private @g(%v: i32) attributes {noinline = true} {
    %z = arith.constant 0 : i32
    %q = arith.cmpi eq, %v, %z : i32
    scf.if %q {
      BARRIER
    }
    tt.return
  }
  tt.func private @h(%v: i32) -> i32 attributes {noinline = true} {
    tt.return %v : i32
  }
"""


@pytest.mark.parametrize("branch", BRANCHES)
def test_what_differs_by_wave_or_lane_parts_waves(branch: str) -> None:
    """Each was proved while every scalar counted as one number for the workgroup."""
    for source in ("warp", "thread"):
        assert not is_proved(f"{OWN[source]}\n{BRANCHES[branch]}", CALLEES), source
    assert is_proved(f"{SHARED['argument']}\n{BRANCHES[branch]}", CALLEES)


@pytest.mark.parametrize("source", OWN)
def test_operations_that_are_not_uniform(source: str) -> None:
    found = OWN[source].replace("#one", "#row1") if source == "tensor of assembly" else OWN[source]
    body = f"{found}\n{BRANCHES['barrier']}"
    text = TEXT.replace("BODY", body).replace("CALLEE", "").replace("BARRIER", WORDS["BARRIER"])
    text = ONE.replace("#one", "#row1") + text.replace("TILE", TILE).replace("TWO", TWO)
    (made,) = programs_of(read_ttgir(text, "k.ttgir"))
    assert not verify(made.built.graph, made.target, memory=False).is_proved


@pytest.mark.parametrize("source", SHARED)
def test_operations_that_are_uniform(source: str) -> None:
    assert is_proved(f"{SHARED[source]}\n{BRANCHES['barrier']}")
    assert is_proved(f"{SHARED[source]}\n{BRANCHES['nested']}")


def test_a_uniform_condition_inside_a_divergent_one_keeps_its_arms_apart() -> None:
    """All waves that come there take the same arm."""
    inside = "%q = arith.cmpi slt, %w, %c2 : i32\n scf.if %q {\n scf.if %c {\n STORE\n } else {\n LOAD\n }\n }"
    assert is_proved(f"{OWN['warp']}\n{inside}")
    assert is_proved(f"{OWN['thread']}\n{inside}")


def test_lanes_that_part_twice_are_one_wave() -> None:
    """Lanes of one wave store, others load afterwards: the two conditions never hold of one lane, but of one wave."""
    twice = (
        "%q = arith.cmpi slt, %w, %c2 : i32\n %r = arith.cmpi sge, %w, %c2 : i32\n"
        "scf.if %q {\n STORE\n }\n BETWEEN\n scf.if %r {\n LOAD\n }"
    )
    assert not is_proved(f"{OWN['thread']}\n{twice.replace('BETWEEN', '')}")
    assert is_proved(f"{OWN['thread']}\n{twice.replace('BETWEEN', 'BARRIER')}")


def test_spreads_of_values() -> None:
    made = program(
        "%w = ttg.warp_id\n %v = rocdl.workitem.id.x : i32\n %f = rocdl.readfirstlane %v : i32\n"
        "%l = tt.load %p : !tt.ptr<i32>\n %sum = arith.addi %l, %f : i32\n %id = tt.get_program_id x : i32"
    )
    spreads = FunctionFacts(made.ttgir, made.function, Calls(made.ttgir.functions)).spreads
    names = {"%w": "WAVE", "%v": "LANE", "%f": "WAVE", "%l": "READ", "%sum": "WAVE", "%id": "SAME", "%n": "SAME"}
    assert {name: spreads.of(name).name for name in names} == names
    assert [each.under for each in Spread] == ["uniform", "uniform", "per_wave", "divergent"]


# --- calls and blocks --------------------------------------------------------------------------------------------

CALLED = """
  tt.func private @f(%tt: TWO, %slot: i32, %x: tensor<64x64xf32, #row>, %to: tensor<64x64x!tt.ptr<f32>, #col>)
      attributes {noinline = true} {
    %c1 = arith.constant 1 : i32
    %other = arith.subi %c1, %slot : i32
    %u = ttg.memdesc_index %tt[%other] : TWO -> TILE
    TAKE_S
    STORE_S
    %lu = ttg.local_load %u : TILE -> tensor<64x64xf32, #col>
    tt.store %to, %lu : tensor<64x64x!tt.ptr<f32>, #col>
    tt.return
  }
"""
CALL = (
    "tt.call @f(%tt, SLOT, %x, %to) {allocation.offset = 60000 : i32, allocation.size = 0 : i32} : "
    "(TWO, i32, tensor<64x64xf32, #row>, tensor<64x64x!tt.ptr<f32>, #col>) -> ()\n"
)


def test_each_call_has_arguments_of_its_own() -> None:
    """One constant for all calls made the slots of two calls never meet."""
    first, second = CALL.replace("SLOT", "%c0"), CALL.replace("SLOT", "%c1")
    assert not is_proved(first + second, CALLED)
    assert is_proved(first + "BARRIER\n" + second, CALLED)
    assert is_proved(first + first, CALLED)


LOOP = """
    STORE
    %c4 = arith.constant 4 : i32
    cf.br ^bb1(%c0, %c4 : i32, i32)
  ^bb1(%i: i32, %j: i32):
    %lt = arith.cmpi slt, %i, BOUND : i32
    cf.cond_br %lt, WAYS
  ^bb2:
    BARRIER
    %next = arith.addi %i, %c1 : i32
    %less = arith.subi %j, %c1 : i32
    BACK
  ^bb3:
    LOAD
"""
AGAIN = "cf.br ^bb1(%next, %less : i32, i32)"


def test_a_loop_of_blocks_that_runs_four_times() -> None:
    assert is_proved(LOOP.replace("BOUND", "%c4").replace("WAYS", "^bb2, ^bb3").replace("BACK", AGAIN))


@pytest.mark.parametrize(
    ("bound", "ways", "back"),
    [
        pytest.param("%c4", "^bb3, ^bb2", AGAIN, id="it is left where the condition holds"),
        pytest.param("%j", "^bb2, ^bb3", AGAIN.replace("%less", "%c4"), id="its bound is set in it"),
        pytest.param(
            "%c4", "^bb2, ^bb3", "cf.cond_br %c, ^bb1(%next, %less : i32, i32), ^bb3", id="it is left in its middle"
        ),
    ],
)
def test_a_loop_of_blocks_that_cannot_be_counted_is_not(bound: str, ways: str, back: str) -> None:
    found = program(LOOP.replace("BOUND", bound).replace("WAYS", ways).replace("BACK", back))
    assert all(loop.counter == "" and loop.least == 0 for loop in found.built.graph.loops)


def test_an_inverted_loop_of_blocks_may_never_run() -> None:
    assert not is_proved(LOOP.replace("BOUND", "%c4").replace("WAYS", "^bb3, ^bb2").replace("BACK", AGAIN))


def test_a_jump_that_is_not_known_is_an_error() -> None:
    with pytest.raises(BadInput, match="jumps"):
        program("cf.switch %n : i32, [\n default: ^bb1,\n 0: ^bb1\n ]\n ^bb1:")
