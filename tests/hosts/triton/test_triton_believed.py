"""TTGIR that was proved and races: each rests on a step of the reading that did not hold in general."""

from __future__ import annotations

import re

import pytest

from tidegate.diag import BadInput
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.harmless import is_on_registers

if not libtriton.is_installed():
    pytest.skip("NOT TESTED: Triton is not installed; `pip install tidegate[triton]`", allow_module_level=True)

from tests.hosts.triton.test_triton_views import COL, HEAD, MEET, ROW, SLOT, TAIL, alloc, is_proved, program
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.verify.verify import verify

STORE = f"ttg.local_store %x, %a : {ROW} -> {SLOT}"
ASSEMBLY = (
    'tt.elementwise_inline_asm "TEXT" {constraints = "=r,r", packed_element = 1 : i32, pure = PURE} %n : i32 -> i32'
)
HARMLESS = {
    "cuda:80": ["mov.b32 $0, $1;", "{ .reg .b32 t; lop3.b32 t, $1, 15, 0, 0xc0; prmt.b32 $0, t, t, 0x3210; }"],
    "hip:gfx942": ["v_mov_b32 $0, $1", "v_cvt_f32_f16 $0, $1; s_nop 0", "s_mov_b32 $0, 1"],
}
TOUCHING = {
    "cuda:80": [
        "st.shared.b32 [$1], 1; mov.b32 $0, $1;",
        "ld.b32 $0, [$1];",
        "bar.sync 0; mov.b32 $0, $1;",
        "@p st.shared.b32 [$1], 1;",
        "/* mov */ red.shared.add.u32 [$1], 1;",
        "mov: st.shared.b32 [$1], 1;",
    ],
    "hip:gfx942": [
        "ds_write_b32 $1, $1",
        "s_barrier",
        "v_mov_b32 $0, $1; ds_read_b32 $0, $1",
        "buffer_load_dword $0 lds",
        "v_1: ds_write_b32 $1, $1",
        "v_mov : s_barrier",
        "s_mov_b64 exec, 0",
        "s_mov_b32 m0, $1",
    ],
}
CASES = [(gpu, text, True) for gpu, texts in HARMLESS.items() for text in texts]
CASES += [(gpu, text, False) for gpu, texts in TOUCHING.items() for text in texts]


@pytest.mark.parametrize(("gpu", "text", "good"), CASES)
@pytest.mark.parametrize("pure", ["true", "false"])
def test_assembly_that_touches_memory_or_meets(gpu: str, text: str, good: bool, pure: str) -> None:
    """It was passed by: no type of it is a descriptor. `pure` is what the author says of it, right or wrong."""
    assembly = "%w = " + ASSEMBLY.replace("TEXT", text).replace("PURE", pure)
    body = f"{alloc('%a', SLOT)}\n{STORE}\n{MEET}\n{assembly}"
    assert is_on_registers(text) is good
    assert is_proved(body, gpu) is good
    assert bool(program(body, gpu).built.unknown) is not good


OTHERS = {
    "a function of another library": '%w = tt.extern_elementwise %n {libname = "", libpath = "", pure = PURE, '
    'symbol = "f"} : (i32) -> i32',
    "an instruction of LLVM": 'llvm.call_intrinsic "llvm.amdgcn.ds.bvh.stack.rtn"() : () -> ()',
    "assembly of LLVM": 'llvm.inline_asm has_side_effects "ds_write_b32 v0, v0", "" : () -> ()',
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_operation_of_which_nothing_is_known(name: str) -> None:
    body = f"{alloc('%a', SLOT)}\n{STORE}\n{MEET}\n"
    found = program(body + OTHERS[name].replace("PURE", "false"))
    assert [each.name for each in found.built.unknown]
    assert not is_proved(body + OTHERS[name].replace("PURE", "false"))
    if "PURE" in OTHERS[name]:
        assert is_proved(body + OTHERS[name].replace("PURE", "true"))


COPY = (
    "%m = arith.constant dense<true> : tensor<64x64xi1, #row>\n"
    "%z = arith.constant dense<0.0> : tensor<64x64xf32, #row>\n"
    f"%k = ttg.async_copy_global_to_local %p, %a mask %m OTHER : tensor<64x64x!tt.ptr<f32>, #row> -> {SLOT}\n"
    "%g = ttg.async_commit_group tokens %k\n %w = ttg.async_wait %g {num = 0 : i32}"
)
READ = f"%l = ttg.local_load %a : {SLOT} -> {COL}"


@pytest.mark.parametrize(("gpu", "stored"), [("hip:gfx950", True), ("hip:gfx942", True), ("cuda:80", False)])
def test_what_a_masked_copy_stores_itself(gpu: str, stored: bool) -> None:
    """On AMD's GPUs `other` is stored by an ordinary write, which a wait for copies does not perform."""
    plain = f"{alloc('%a', SLOT)}\n{COPY.replace('OTHER', '')}\n"
    other = f"{alloc('%a', SLOT)}\n{COPY.replace('OTHER', 'other %z')}\n"
    bare = "rocdl.s.barrier" if stored else MEET
    assert is_proved(f"{plain}{bare}\n{READ}", gpu)
    assert is_proved(f"{other}{bare}\n{READ}", gpu) is not stored
    assert is_proved(f"{other}{MEET}\n{READ}", gpu)


def test_two_masked_copies_to_the_same_bytes() -> None:
    """The second copy may land before the store of the first one, which nothing has waited for."""
    twice = COPY.replace("OTHER", "other %z")
    again = twice.split("\n", 2)[2]
    for name in "kgw":
        again = re.sub(rf"%{name}\b", f"%{name}2", again)
    body = f"{alloc('%a', SLOT)}\n{twice}\nBETWEEN\n{again}\n{MEET}\n{READ}"
    assert not is_proved(body.replace("BETWEEN", ""))
    assert is_proved(body.replace("BETWEEN", MEET))


def given(body: str) -> bool:
    """A function that is given its memory."""
    four, eight = (
        "!ttg.memdesc<4x64x64xf32, #shared, #smem, mutable>",
        "!ttg.memdesc<8x32x64xf32, #shared, #smem, mutable>",
    )
    text = HEAD.replace("%desc:", f"%t: {four}, %desc:").replace("LANES", "8").replace("THREADS", "64")
    text = text.replace("GPU", "hip:gfx942").replace("SHARED", "ttg.shared = 65536 : i32, ")
    slots = f"%s = ttg.memdesc_index %t[%c1] : {four} -> {SLOT}\n %r = ttg.memdesc_reinterpret %t : {four} -> {eight}\n"
    (found,) = programs_of(read_ttgir(text + slots + body + TAIL, "k.ttgir"))
    return verify(found.built.graph, found.target, memory=False).is_proved


def test_slots_of_memory_that_is_seen_as_others() -> None:
    """Slot 2 of eight is the first half of slot 1 of four. It was taken for the third of four."""
    half, part = "!ttg.memdesc<32x64xf32, #shared, #smem, mutable>", "tensor<32x64xf32, #row>"
    eight = "!ttg.memdesc<8x32x64xf32, #shared, #smem, mutable>"
    load = f"%h = ttg.memdesc_index %r[SLOT] : {eight} -> {half}\n %l = ttg.local_load %h : {half} -> {part}"
    load = load.replace("#row>", "#col>")
    store = f"ttg.local_store %x, %s : {ROW} -> {SLOT}\n"
    assert not given(store + load.replace("SLOT", "%c2"))
    assert given(store + MEET + "\n" + load.replace("SLOT", "%c2"))
    assert given(store + load.replace("SLOT", "%c1"))


HALF = """
    %t = rocdl.workitem.id.x : i32
    %edge = arith.constant {} : i32
    %low = arith.cmpi slt, %t, %edge : i32
    amdg.cond_barrier %low
    %high = arith.cmpi sge, %t, %edge : i32
    amdg.cond_barrier %high
"""


@pytest.mark.parametrize(("edge", "good"), [(256, True), (128, False)])
def test_a_function_may_say_itself_how_many_waves_run_it(edge: int, good: bool) -> None:
    """The layouts are those of eight warps, whatever the module says of other functions."""
    head = HEAD.replace("[4, 1]", "[8, 1]").replace("[1, 4]", "[1, 8]").replace("LANES", "8").replace("THREADS", "64")
    head = head.replace("GPU", "hip:gfx942").replace("SHARED", "ttg.shared = 65536 : i32, ")
    head = head.replace("#tma>) {", '#tma>) attributes {"ttg.num-warps" = 8 : i32} {')
    source = head + HALF.format(edge) + TAIL
    if not good:  # of four waves it would be a half
        with pytest.raises(BadInput, match="not one half of them"):
            programs_of(read_ttgir(source, "k.ttgir"))
        return
    (found,) = programs_of(read_ttgir(source, "k.ttgir"))
    assert found.built.graph.waves == 8
    assert verify(found.built.graph, found.target, memory=False).is_proved


@pytest.mark.parametrize(("waves", "good"), [(4, True), (2, False)])
def test_a_function_that_other_waves_run_is_not_followed(waves: int, good: bool) -> None:
    inner = (
        f'tt.func private @f() attributes {{noinline = true, "ttg.num-warps" = {waves} : i32}} {{\n tt.return\n }}\n'
    )
    body = f"{alloc('%a', SLOT)}\n{STORE}\n{MEET}\ntt.call @f() : () -> ()\n{READ}"
    head = HEAD.replace("tt.func public", inner + "  tt.func public").replace("LANES", "8").replace("THREADS", "64")
    head = head.replace("GPU", "hip:gfx942").replace("SHARED", "ttg.shared = 65536 : i32, ")
    (found,) = programs_of(read_ttgir(head + body + TAIL, "k.ttgir"))
    assert [each.name for each in found.built.unknown] == ([] if good else ["tt.call"])
    assert verify(found.built.graph, found.target, memory=False).is_proved is good


PACKED = """
#mma = #ttg.amd_mfma<{version = 4, warpsPerCTA = [4, 1], instrShape = [32, 32, 64], isTransposed = true}>
#src = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [4, 16], warpsPerCTA = [4, 1], order = [0, 1]}>
#tall = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>
"""
BYTES = "!ttg.memdesc<128x64xi8, #tall, #smem, mutable>"
UNPACK = (
    f"%l = amdg.local_load_packed_transposed %a : {BYTES} -> "
    "tensor<256x32xi8, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 16}>>"
)


@pytest.mark.parametrize(("barrier", "good"), [("rocdl.s.barrier", False), ("", False), (MEET, True)])
def test_a_load_whose_result_has_another_shape(barrier: str, good: bool) -> None:
    """Of 128 rows of pairs wave 0 takes 0 to 15 and 64 to 79. It was taken to read the 32 that it stores."""
    fill = "%v = arith.constant dense<1> : tensor<128x64xi8, #src>\nttg.local_store %v, %a : tensor<128x64xi8, #src>"
    head = HEAD.replace("LANES", "8").replace("THREADS", "64").replace("GPU", "hip:gfx950")
    head = head.replace("SHARED", "ttg.shared = 8192 : i32, ")
    body = f"{alloc('%a', BYTES)}\n{fill} -> {BYTES}\n{barrier}\n{UNPACK}"
    (found,) = programs_of(read_ttgir(PACKED + head + body + TAIL, "k.ttgir"))
    assert verify(found.built.graph, found.target, memory=False).is_proved is good


OWN = "{allocation.offset = 32768 : i32, allocation.size = 16384 : i32}"
COMBINE = """({
  ^bb0(%u: f32, %v: f32):
    %s = arith.addf %u, %v : f32
    tt.KIND.return %s : f32
  })"""
LINE = "tensor<64xf32, #ttg.slice<{dim = AXIS, parent = #row}>>"
REDUCE = f'%o = "tt.reduce"(%x) <{{axis = AXIS : i32}}> {COMBINE.replace("KIND", "reduce")} {OWN} : ({ROW}) -> {LINE}'
SCAN = (
    f'%o = "tt.scan"(%x) <{{axis = AXIS : i32, reverse = false}}> {COMBINE.replace("KIND", "scan")} {OWN} : '
    f"({ROW}) -> {ROW}"
)
GATHER = (
    "%i = arith.constant dense<0> : tensor<64x64xi32, #row>\n"
    f"%o = tt.gather %x[%i] {OWN.replace('{', '{axis = AXIS : i32, ')} : ({ROW}, tensor<64x64xi32, #row>) -> {ROW}"
)
ATOMIC = (
    "%g = arith.constant 4096 : i64\n%to1 = tt.int_to_ptr %g : i64 -> !tt.ptr<i32>\n"
    f"%o = tt.atomic_rmw add, relaxed, gpu, %to1, %n {OWN} : (!tt.ptr<i32>, i32) -> i32"
)
NEEDED = {
    **{
        name: (text.replace("AXIS", "1"), text.replace("AXIS", "0"))
        for name, text in (("reduce", REDUCE), ("scan", SCAN), ("gather", GATHER))
    },
    "atomic": (ATOMIC, f"{ATOMIC}\n%again = arith.addi %o, %n : i32"),
}


@pytest.mark.parametrize("gpu", ["cuda:80", "hip:gfx942"])
@pytest.mark.parametrize("name", NEEDED)
def test_memory_that_an_operation_does_not_need(name: str, gpu: str) -> None:
    """Rows lie in one warp each, and so no barrier is made for an operation along them, whatever the text says."""
    without, needed = NEEDED[name]
    start = f"{alloc('%a', SLOT)}\n{STORE}\n"
    assert not is_proved(f"{start}{without}\n{READ}", gpu)
    assert is_proved(f"{start}{needed}\n{READ}", gpu)


@pytest.mark.parametrize("gpu", ["cuda:80", "hip:gfx950", "hip:gfx1250"])
@pytest.mark.parametrize(("count", "good"), [(-1, False), (0, True)])
def test_a_wait_for_less_than_none(count: int, good: bool, gpu: str) -> None:
    """`-1` was less than any count that is safe; `wait.asyncmark` takes it for 65535."""
    copy = COPY.replace(" mask %m OTHER", "").replace("num = 0", f"num = {count}").replace("%g {num", "{num")
    found = program(f"{alloc('%a', SLOT)}\n{copy}\n{MEET}\n{READ}", gpu)
    assert [each.name for each in found.built.unknown] == ([] if good else ["ttg.async_wait"])
    assert verify(found.built.graph, found.target, memory=False).is_proved is good


def one_warp(gpu: str, lanes: int) -> str:
    head = HEAD.replace("[4, 1]", "[1, 1]").replace("[1, 4]", "[1, 1]").replace('num-warps" = 4', 'num-warps" = 1')
    head = head.replace("LANES", str(lanes // 8)).replace("THREADS", str(lanes)).replace("GPU", gpu)
    body = f"{alloc('%a', SLOT)}\n{STORE}\nrocdl.s.barrier\n{READ}"
    return head.replace("SHARED", "ttg.shared = 16384 : i32, ") + body + TAIL


@pytest.mark.parametrize(("gpu", "lanes"), [("gfx1201", 32), ("gfx942", 64)])
def test_the_lanes_of_a_file_are_those_of_its_gpu(gpu: str, lanes: int) -> None:
    """64 lanes are two waves of gfx1201. They were taken for one, whose accesses happen in its order."""
    (found,) = programs_of(read_ttgir(one_warp(f"hip:{gpu}", lanes), "k.ttgir"))
    assert verify(found.built.graph, found.target, memory=False).is_proved
    with pytest.raises(BadInput, match=f"and those of `{gpu}` have {lanes}"):
        programs_of(read_ttgir(one_warp(f"hip:{gpu}", 96 - lanes), "k.ttgir"))


@pytest.mark.parametrize(("gpu", "good"), [("hip:gfx950", True), ("hip:gfx1250", False), ("cuda:80", False)])
def test_a_mark_of_llvm_closes_no_group_of_triton(gpu: str, good: bool) -> None:
    """Of gfx1250 Triton counts back to the last `ttg.async_commit_group`; without one it waits for nothing."""
    copy = COPY.replace(" mask %m OTHER", "").replace("%g {num", "{num")
    copy = re.sub(r"%g = ttg\.async_commit_group.*", "rocdl.asyncmark", copy)
    body = f"{alloc('%a', SLOT)}\n{copy}\n{MEET}\n{READ}"
    assert "asyncmark" in body
    assert is_proved(body, gpu) is good
