"""Text in generic form that is read without Triton: scopes, aliases and numbers of MLIR, and what cannot be read."""

from __future__ import annotations

import pytest

from tidegate.diag import BadInput
from tidegate.hosts.mlir import parse_generic
from tidegate.hosts.mlir.model import integer, integers, walk
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.program import TritonProgram, programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.verify.verify import verify

MEM = "!ttg.memdesc<64x64xf32, #shared, #smem, mutable>"
TWO = "!ttg.memdesc<2x64x64xf32, #shared, #smem, mutable>"
HEAD = """\
#row = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#col = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 8], warpsPerCTA = [1, 4], order = [0, 1]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory
"""
FUNCTION = """\
"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<64x64xf32, #row>, i32, i1) -> (), sym_name = "k"}> ({
  ^bb0(%x: tensor<64x64xf32, #row>, %n: i32, %c: i1):
    %c0 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %c1 = "arith.constant"() <{value = 1 : i32}> : () -> i32
"""
TAIL = """
    "tt.return"() : () -> ()
  }) : () -> ()
}) {"ttg.num-warps" = 4 : i32, ttg.shared = 32768 : i32, ttg.target = "hip:gfx942",
    "ttg.threads-per-warp" = 64 : i32} : () -> ()
"""
MEET = '"ttg.barrier"() <{addrSpace = 1 : i32}> : () -> ()'
STORE = f'"ttg.local_store"(%x, %t) : (tensor<64x64xf32, #row>, {MEM}) -> ()'
LOAD = f'%q = "ttg.local_load"(%t) : ({MEM}) -> tensor<64x64xf32, #col>'


def alloc(name: str = "%t", type_: str = MEM, offset: str = "0 : i32") -> str:
    return f'{name} = "ttg.local_alloc"() {{allocation.offset = {offset}}} : () -> {type_}'


def program(*lines: str, aliases: str = "") -> TritonProgram:
    text = HEAD + aliases + FUNCTION + "\n".join(lines) + TAIL
    (found,) = programs_of(read_ttgir(text, "k.ttgir"))
    return found


def is_proved(*lines: str, aliases: str = "") -> bool:
    found = program(*lines, aliases=aliases)
    return verify(found.built.graph, found.target, memory=False).is_proved


def refused(*lines: str, aliases: str = "") -> str:
    with pytest.raises(BadInput) as caught:
        program(*lines, aliases=aliases)
    return str(caught.value)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without Triton: nothing else checks the text."""
    monkeypatch.setattr(libtriton, "is_installed", lambda: False)


# --- types --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "aliases",
    [
        f"!mem = {MEM}\n",
        f"!mem={MEM}\n",
        "!e = f32\n!mem = !ttg.memdesc<64x64x!e, #shared, #smem, mutable>\n",
        f"!inner = {MEM}\n!mem = !inner\n",
    ],
)
def test_an_alias_of_a_type_is_that_type(aliases: str) -> None:
    lines = (alloc(type_="!mem"), STORE.replace(MEM, "!mem"), LOAD.replace(MEM, "!mem"))
    assert not is_proved(*lines, aliases=aliases)
    assert is_proved(*lines[:2], MEET, lines[2], aliases=aliases)


def test_an_alias_that_stands_for_nothing_is_refused() -> None:
    assert "!mem" in refused(alloc(type_="!mem"))


def test_memory_of_a_type_that_nobody_can_read_is_not_invisible() -> None:
    other = "!ttg.memory<64x64xf32>"
    lines = (alloc(type_=other), STORE.replace(MEM, other), LOAD.replace(MEM, other))
    found = program(*lines)
    assert [op.name for op in found.built.unknown] == ["ttg.local_alloc", "ttg.local_store", "ttg.local_load"]
    assert not is_proved(*lines)


# --- names --------------------------------------------------------------------------------------------------------


def arms(then: str, otherwise: str, given: str = "%c") -> str:
    end = '"scf.yield"() : () -> ()'
    return f'"scf.if"({given}) ({{\n{then}\n{end}\n}}, {{\n{otherwise}\n{end}\n}}) : (i1) -> ()'


def slot(by: str) -> str:
    return (
        f'%i = "arith.addi"(%c0, {by}) : (i32, i32) -> i32\n'
        f'%s = "ttg.memdesc_index"(%t, %i) : ({TWO}, i32) -> {MEM}\n'
        f'"ttg.local_store"(%x, %s) : (tensor<64x64xf32, #row>, {MEM}) -> ()'
    )


FIRST = f'%r = "ttg.memdesc_index"(%t, %c0) : ({TWO}, i32) -> {MEM}\n' + LOAD.replace("%t", "%r")


def test_arms_may_use_one_name_for_two_slots() -> None:
    both, second = arms(slot("%c0"), slot("%c1")), arms(slot("%c1"), slot("%c1"))
    assert not is_proved(alloc(type_=TWO), both, FIRST)
    assert is_proved(alloc(type_=TWO), second, FIRST)
    assert is_proved(alloc(type_=TWO), both, MEET, FIRST)


def test_arms_may_use_one_name_for_two_conditions() -> None:
    meet = arms(MEET, "", "%i")
    some = '%i = "arith.cmpi"(%n, %c0) <{predicate = 4 : i64}> : (i32, i32) -> i1'
    always = '%i = "arith.constant"() <{value = true}> : () -> i1'
    assert not is_proved(alloc(), arms(f"{some}\n{STORE}\n{meet}", f"{always}\n{meet}"), LOAD)
    assert is_proved(alloc(), arms(f"{always}\n{STORE}\n{meet}", f"{always}\n{meet}"), LOAD)


def test_each_value_and_each_label_has_a_name_of_its_own() -> None:
    module = parse_generic(
        """"f"() ({
        ^bb0(%a: i32):
          %r:2 = "g"(%a) ({
          ^bb0(%a: i32):
            "h"(%a)[^bb1] : (i32) -> ()
          ^bb1:
            "i"() : () -> ()
          }) : (i32) -> (i32, i32)
          "j"(%r, %r#1, %b#0)[^bb1] : (i32, i32, i32) -> ()
        ^bb1:
          %b = "k"() : () -> i32
        }) : () -> ()
        "f"() ({ ^bb0(%a: i32): "j"(%a) : (i32) -> () }) : () -> ()"""
    )
    ops = [(op.name, op.results, op.operands, op.successors) for op in walk(module.operation)]
    assert [each for each in ops if each[0] in "ghijk"] == [
        ("g", ("%r#0", "%r#1"), ("%a",), ()),
        ("h", (), ("%a_1",), ("^bb1_1",)),
        ("i", (), (), ()),
        ("j", (), ("%r#0", "%r#1", "%b"), ("^bb1",)),
        ("k", ("%b",), (), ()),
        ("j", (), ("%a",), ()),
    ]


def test_a_region_that_defines_a_name_twice_is_refused() -> None:
    assert "`%t` is defined twice" in refused(alloc(), alloc())


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", ["0x0 : i32", "0x0:i32", "0"])
def test_offsets_are_read_however_they_are_written(offset: str) -> None:
    lines = (alloc(offset=offset), alloc("%u", offset=offset), STORE, LOAD.replace("%t", "%u"))
    assert not is_proved(*lines)
    assert is_proved(lines[0], alloc("%u", offset="0x4000 : i32"), *lines[2:])
    assert is_proved(*lines[:3], MEET, lines[3])


def test_numbers_in_digits_of_sixteen() -> None:
    assert [integer(each) for each in ("0x40 : i32", "0xFFFFFFFF : i32", "0x80 : i8", "-3", "0x7f : index")] == [
        64,
        -1,
        -128,
        -3,
        127,
    ]
    assert integers("array<i32: 0x40, -2>") == (64, -2)
    assert integers("[0x10, 2 : i32]") == (16, 2)


@pytest.mark.parametrize("offset", ["#zero", '"0"', "0.0 : f32", "dense<0> : tensor<1xi32>"])
def test_a_number_that_cannot_be_read_is_refused(offset: str) -> None:
    assert integer(offset) is None
    assert "allocation.offset" in refused(alloc(offset=offset))


def test_a_list_that_cannot_be_read_is_refused() -> None:
    assert integers("#offsets") is None
    assert integers("[1, #a]") is None
    part = f'%u = "ttg.memdesc_subslice"(%t) <{{offsets = #some}}> : ({TWO}) -> {TWO}'
    assert "offsets" in refused(alloc(type_=TWO), part)


# --- scratch ------------------------------------------------------------------------------------------------------


def convert(to: str) -> str:
    return f'%v = "ttg.convert_layout"(%x) : (tensor<64x64xf32, #row>) -> tensor<64x64xf32, {to}>'


def test_without_triton_nobody_knows_that_scratch_is_not_needed() -> None:
    """A conversion between warps that has no memory; one in which each lane keeps what it has needs none."""
    assert [op.name for op in program(convert("#col")).built.unknown] == ["ttg.convert_layout"]
    assert not is_proved(convert("#col"))
    assert is_proved(convert("#row"))
