"""Where descriptors lie, what barriers, waits and scratch do: a wrong kernel that was proved once, and a right one."""

from __future__ import annotations

import sys

import pytest

from tidegate.diag import BadInput
from tidegate.graph import model as g
from tidegate.graph.fit import find_graph_misfits
from tidegate.hosts.mlir.model import walk
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.program import TritonProgram, programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.hosts.triton.tokens import count_waits
from tidegate.language.ops import Fence, MbarrierArrive, WaitCount
from tidegate.simulate.judge import judge
from tidegate.verify.verify import verify

if not libtriton.is_installed():
    pytest.skip("NOT TESTED: Triton is not installed; `pip install tidegate[triton]`", allow_module_level=True)

from oracles.triton_kernels import cases, compile_ttgir

HEAD = """
#row = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, LANES], warpsPerCTA = [4, 1], order = [1, 0]}>
#col = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, LANES], warpsPerCTA = [1, 4], order = [0, 1]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#pad = #ttg.padded_shared<[8192:+16] {order = [1, 0], shape = [64, 64]}>
#tma = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, SHAREDttg.target = "GPU", "ttg.threads-per-warp" = THREADS : i32} {
  tt.func public @k(%x: tensor<64x64xf32, #row>, %p: tensor<64x64x!tt.ptr<f32>, #row>, %n: i32, %c: i1,
      %to: tensor<64x64x!tt.ptr<f32>, #col>, %desc: !tt.tensordesc<64x64xf32, #tma>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c3 = arith.constant 3 : i32
    %true = arith.constant true
"""
TAIL = """
    tt.return
  }
}
"""
SLOT = "!ttg.memdesc<64x64xf32, #shared, #smem, mutable>"
FOUR = "!ttg.memdesc<4x64x64xf32, #shared, #smem, mutable>"
LAST = "!ttg.memdesc<2x64x64xf32, #shared, #smem, mutable, 4x64x64>"
TALL = "!ttg.memdesc<128x64xf32, #shared, #smem, mutable>"
HALF = "!ttg.memdesc<64x64xf32, #shared, #smem, mutable, 128x64>"
PADDED = "!ttg.memdesc<64x64xf32, #pad, #smem, mutable>"
TWO_PADDED = "!ttg.memdesc<2x64x64xf32, #pad, #smem, mutable>"
TWO = "!ttg.memdesc<2x64x64xf32, #shared, #smem, mutable>"
OBJECT = "!ttg.memdesc<1xi64, #bar, #smem, mutable>"
TILE = "!ttg.memdesc<64x64xf32, #tma, #smem, mutable>"
ROW, COL = "tensor<64x64xf32, #row>", "tensor<64x64xf32, #col>"
MEET = "ttg.barrier local"


def program(body: str, gpu: str = "hip:gfx942", shared: int = 65536) -> TritonProgram:
    threads = 64 if gpu.startswith("hip:gfx9") else 32
    text = HEAD + body + TAIL
    for mark, meant in (
        ("LANES", str(threads // 8)),
        ("THREADS", str(threads)),
        ("GPU", gpu),
        ("SHARED", f"ttg.shared = {shared} : i32, " if shared else ""),
    ):
        text = text.replace(mark, meant)
    (found,) = programs_of(read_ttgir(text, "k.ttgir"))
    return found


def is_proved(body: str, gpu: str = "hip:gfx942", shared: int = 65536) -> bool:
    found = program(body, gpu, shared)
    return verify(found.built.graph, found.target, memory=False).is_proved and not found.unmodelled


def alloc(name: str, type_: str, offset: int = 0) -> str:
    return f"{name} = ttg.local_alloc {{allocation.offset = {offset} : i32}} : () -> {type_}"


def store(to: str, type_: str = SLOT) -> str:
    return f"ttg.local_store %x, {to} : {ROW} -> {type_}"


def load(of: str, type_: str = SLOT) -> str:
    return f"%read{of[1:]} = ttg.local_load {of} : {type_} -> {COL}"


def lines(*each: str) -> str:
    return "\n    ".join(("", *each))


# --- places -------------------------------------------------------------------------------------------------------

LAST_SLOTS = lines(
    alloc("%t", FOUR),
    f"%u = ttg.memdesc_subslice %t[2, 0, 0] : {FOUR} -> {LAST}",
    f"%two = ttg.memdesc_index %t[%c2] : {FOUR} -> {SLOT}",
    f"%zero = ttg.memdesc_index %t[%c0] : {FOUR} -> {SLOT}",
)
CHOSEN = lines(
    LAST_SLOTS,
    f"%v = scf.if %c -> ({LAST}) {{ scf.yield %u : {LAST} }} else {{ scf.yield %u : {LAST} }}",
)
BELOW = lines(alloc("%t", TALL), f"%half = ttg.memdesc_subslice %t[64, 0] : {TALL} -> {HALF}")
AS_SLOT = f"%z = ttg.memdesc_reinterpret %half : {HALF} -> {SLOT}"
CARRIED = f"%v = scf.for %i = %c0 to %n step %c1 iter_args(%a = %z) -> ({SLOT}) : i32 {{ scf.yield %a : {SLOT} }}"
UNEVEN = lines(
    alloc("%t", TWO_PADDED),
    f"%s = ttg.memdesc_index %t[%c1] : {TWO_PADDED} -> {PADDED}",
)
HANDED_ON = {
    "if": f"%v = scf.if %c -> ({PADDED}) {{ scf.yield %s : {PADDED} }} else {{ scf.yield %s : {PADDED} }}",
    "for": f"%v = scf.for %i = %c0 to %n step %c1 iter_args(%a = %s) -> ({PADDED}) : i32 {{ scf.yield %a : {PADDED} }}",
    "execute": f"%v = scf.execute_region -> ({PADDED}) {{ scf.yield %s : {PADDED} }}",
    "blocks": f"""%v = scf.execute_region -> ({PADDED}) {{
      cf.br ^bb1(%s : {PADDED})
    ^bb1(%a: {PADDED}):
      scf.yield %a : {PADDED}
    }}""",
}


@pytest.mark.parametrize("setup", [LAST_SLOTS, CHOSEN], ids=["directly", "through a branch"])
def test_a_slot_of_a_part_of_the_slots_lies_behind_the_part_that_is_left_out(setup: str) -> None:
    source = "%v" if setup is CHOSEN else "%u"
    setup = lines(setup, f"%s = ttg.memdesc_index {source}[%c0] : {LAST} -> {SLOT}", store("%s"))
    assert not is_proved(lines(setup, load("%two")))
    assert is_proved(lines(setup, load("%zero")))
    assert is_proved(lines(setup, MEET, load("%two")))


@pytest.mark.parametrize("carried", [False, True], ids=["directly", "round a loop"])
def test_a_part_of_a_slot_that_is_reinterpreted_may_lie_anywhere_in_it(carried: bool) -> None:
    setup = lines(BELOW, AS_SLOT, *([CARRIED] if carried else []), store("%v" if carried else "%z"))
    assert not is_proved(lines(setup, load("%half", HALF)))
    assert is_proved(lines(setup, MEET, load("%half", HALF))) is not carried  # then it may be any memory


def test_a_whole_slot_that_is_reinterpreted_lies_where_it_did() -> None:
    setup = lines(alloc("%half", SLOT), AS_SLOT.replace(HALF, SLOT), CARRIED, store("%v"))
    assert not is_proved(lines(setup, load("%half")))
    assert is_proved(lines(setup, MEET, load("%half")))


@pytest.mark.parametrize("how", HANDED_ON)
def test_memory_of_which_nobody_knows_the_places_stays_so_when_it_is_handed_on(how: str) -> None:
    """The second slot lies behind the first with its padding, where another allocation is."""
    setup = lines(UNEVEN, HANDED_ON[how], load("%v", PADDED))
    behind, apart = (lines(alloc("%u", SLOT, offset), store("%u")) for offset in (16384, 49152))
    assert not is_proved(lines(setup, behind))
    known = setup.replace(PADDED, SLOT).replace(TWO_PADDED, TWO)
    assert not is_proved(lines(known, behind))
    assert is_proved(lines(known, MEET, behind))
    assert is_proved(lines(known, apart))


def test_the_next_slot_of_a_part_lies_one_slot_further() -> None:
    setup = lines(LAST_SLOTS, f"%s = ttg.memdesc_index %u[%c1] : {LAST} -> {SLOT}", store("%s"))
    assert is_proved(lines(setup, load("%two")))
    assert not is_proved(lines(setup, f"%three = ttg.memdesc_index %t[%c3] : {FOUR} -> {SLOT}", load("%three")))


# --- barriers -----------------------------------------------------------------------------------------------------

SHARING = (lines(alloc("%t", SLOT), store("%t")), load("%t"))


@pytest.mark.parametrize(
    ("barrier", "orders"),
    [
        ("gpu.barrier", True),
        ("gpu.barrier memfence [#gpu.address_space<workgroup>]", True),
        ("gpu.barrier memfence [#gpu.address_space<workgroup>, #gpu.address_space<global>]", True),
        ("gpu.barrier memfence []", False),
        ("gpu.barrier memfence [#gpu.address_space<global>]", False),
        ("gpu.barrier scope <workgroup>", True),
        ("gpu.barrier scope <subgroup>", False),
        ("gpu.barrier scope <cluster>", False),
        ("rocdl.barrier", True),
        ("rocdl.s.barrier", False),
        ("ttg.barrier local", True),
        ("ttg.barrier global_read", False),
    ],
)
def test_a_barrier_orders_what_its_scope_and_address_spaces_say(barrier: str, orders: bool) -> None:
    assert is_proved(lines(SHARING[0], barrier, SHARING[1])) is orders


def test_a_barrier_of_a_wave_is_a_fence_between_its_lanes() -> None:
    for barrier, count in (("gpu.barrier scope <subgroup>", 1), ("gpu.barrier scope <subgroup> memfence []", 0)):
        actions = [point.action for point in program(lines(SHARING[0], barrier, SHARING[1])).built.graph.points]
        assert sum(isinstance(each, g.Sync) and each.op == Fence("wave") for each in actions) == count


@pytest.mark.parametrize(
    "barrier",
    ["rocdl.s.barrier.signal id = -1", "rocdl.s.barrier.wait id = -1", "nvvm.barrier id = %c1 number_of_threads = %c2"],
)
def test_barriers_at_which_nobody_knows_who_meets_are_refused(barrier: str) -> None:
    with pytest.raises(BadInput) as caught:
        program(lines(SHARING[0], MEET, barrier, SHARING[1]))
    assert {each.code for each in caught.value.findings} == {"TG012"}


# --- scratch ------------------------------------------------------------------------------------------------------

USED = lines(alloc("%t", SLOT), store("%t"), MEET, load("%t"))


@pytest.mark.parametrize(
    ("place", "shared"),
    [("{allocation.offset = 0 : i32} ", 0), ("{allocation.offset = 0 : i32} ", 65536), ("", 65536)],
    ids=["no size at all", "up to the end", "no place"],
)
def test_scratch_without_a_size_or_a_place_is_not_nothing(place: str, shared: int) -> None:
    convert = f"%cv = ttg.convert_layout %x {place}: {ROW} -> {COL}"
    assert not is_proved(lines(USED, convert), shared=shared)
    assert is_proved(lines(USED, MEET, convert), shared=shared) is bool(shared)  # without one it may touch anything


def test_scratch_with_its_own_size_lies_where_it_lies() -> None:
    place = "{allocation.offset = 32768 : i32, allocation.size = 16384 : i32}"
    assert is_proved(lines(USED, f"%cv = ttg.convert_layout %x {place} : {ROW} -> {COL}"))


def test_scratch_of_an_operation_that_also_accesses_memory_is_reported() -> None:
    body = lines(alloc("%t", SLOT), f"ttg.local_store %x, %t {{allocation.offset = 0 : i32}} : {ROW} -> {SLOT}")
    assert [op.name for op in program(body).built.unknown] == ["ttg.local_store"]


# --- waits that count instructions --------------------------------------------------------------------------------

COPY = (
    f"%k{{0}} = ttg.async_copy_global_to_local %p, {{1}} : tensor<64x64x!tt.ptr<f32>, #row> -> {SLOT}\n"
    "    %g{0} = ttg.async_commit_group tokens %k{0}"
)
# 8 instructions of 16 bytes a lane at least; of 4 bytes, as Triton 3.9 compiles this one, 32.
TWO_COPIES = lines(alloc("%t", SLOT), alloc("%u", SLOT, 16384), COPY.format(0, "%t"), COPY.format(1, "%u"))


@pytest.mark.parametrize("groups", ["", ", ttg.num_commit_groups = 0 : i32"])
@pytest.mark.parametrize("tokens", ["", "%g0 "])
@pytest.mark.parametrize(("count", "holds"), [(0, True), (8, True), (9, False), (63, False)])
def test_a_wait_is_for_the_instructions_that_it_counts(count: int, holds: bool, tokens: str, groups: str) -> None:
    """`s_wait_asynccnt` takes `num_inst`, whatever tokens and groups are named beside it."""
    wait = f"%w = amdg.async_wait {tokens}{{num_inst = {count} : i32{groups}}}"
    assert is_proved(lines(TWO_COPIES, wait, MEET, load("%t")), "hip:gfx1250") is holds


@pytest.mark.parametrize("name", ["matmul-s3-w4", "matmul-s4-w8", "attention-full-s3", "gluon-matmul-moved-s3"])
def test_what_triton_counts_itself_is_followed(name: str) -> None:
    """After Triton's own pass no wait lets more groups be under way than before it, and each is understood."""
    from triton._C.libtriton import amd, ir

    text = compile_ttgir(next(each for each in cases() if each.name == name), "gfx1250")
    parsed = libtriton.parse(text, "k.ttgir")
    manager = ir.pass_manager(parsed.context)
    amd.passes.ttgpuir.add_update_async_wait_count(manager, "gfx1250")
    manager.run(parsed.module, "counts")
    found = []
    for each in (text, parsed.text("k.ttgir")):
        (compiled,) = programs_of(read_ttgir(each, "k.ttgir"))
        actions = [point.action for point in compiled.built.graph.points]
        waits = [a.op.counts for a in actions if isinstance(a, g.Sync) and isinstance(a.op, WaitCount)]
        found.append([count for counts in waits for _, count in counts])
        assert not compiled.built.unknown
    assert any(found[1])
    assert all(after <= before for before, after in zip(*found, strict=True))


def test_a_group_that_may_hold_no_copy_is_no_instruction() -> None:
    body = lines(TWO_COPIES, "%e = ttg.async_commit_group", "%w = ttg.async_wait %g0 {num = 0 : i32}")
    found = program(body, "hip:gfx1250")
    (function,) = found.ttgir.functions
    (wait,) = [op for op in walk(function) if op.name == "ttg.async_wait"]
    assert count_waits(function, lambda _: 8)[id(wait)].instructions == 8


SMALL = "!ttg.memdesc<2x64xf32, #shared, #smem, mutable>"
MASK = "%m = arith.constant dense<true> : tensor<64x64xi1, #row>\n    "
BACK = "%k1 = amdg.async_copy_local_to_global %u, %p {}: {} -> tensor<64x64x!tt.ptr<f32>, #row>"
FEW = (
    "%few = tt.splat %first : !tt.ptr<f32> -> tensor<2x64x!tt.ptr<f32>, #row>\n"
    f"    %k1 = amdg.async_copy_local_to_global %u, %few : {SMALL} -> tensor<2x64x!tt.ptr<f32>, #row>"
)
YOUNGER = {
    "back": (SLOT, BACK.format("", SLOT), True),
    "back under a mask": (SLOT, MASK + BACK.format("mask %m ", SLOT), False),
    "back, by one wave for all": (SMALL, FEW.replace("%first", "%one"), False),
    "here under a mask": (SLOT, MASK + COPY.format(1, "%u mask %m").partition("\n")[0], True),
}


@pytest.mark.parametrize("wait", ["%g0 {num = 0 : i32}", "{num = 1 : i32}", None])
@pytest.mark.parametrize("name", YOUNGER)
def test_a_group_that_a_wave_jumps_over_is_not_counted(name: str, wait: str | None) -> None:
    """`s_cbranch_execz` jumps over a copy to global memory, and Triton counts it: an older one goes on."""
    type_, copy, holds = YOUNGER[name]
    younger = (alloc("%u", type_, 16384), copy, "%g1 = ttg.async_commit_group tokens %k1")
    pointer = "%one = tt.int_to_ptr %long : i64 -> !tt.ptr<f32>"
    made = lines("%long = arith.constant 4096 : i64", pointer)
    done = f"%w = ttg.async_wait {wait}" if wait else "%w = amdg.async_wait %g0 {num_inst = 1 : i32}"
    body = (made, alloc("%t", SLOT), COPY.format(0, "%t"), *younger)
    assert is_proved(lines(*body, done, MEET, load("%t")), "hip:gfx1250") is holds
    assert is_proved(lines(*body, "%w = ttg.async_wait {num = 0 : i32}", MEET, load("%t")), "hip:gfx1250")


@pytest.mark.parametrize("wait", ["%g0 {num = 0 : i32}", "{num = 0 : i32}"])
@pytest.mark.parametrize(("copy", "holds"), [("back", True), ("back under a mask", False)])
def test_a_copy_that_a_wave_jumps_over_is_not_counted_outside_of_groups(copy: str, holds: bool, wait: str) -> None:
    """Triton lets copies go on that no group has taken yet, by their count."""
    type_, younger, _ = YOUNGER[copy]
    body = (alloc("%t", SLOT), COPY.format(0, "%t"), alloc("%u", type_, 16384), younger)
    assert is_proved(lines(*body, f"%w = ttg.async_wait {wait}", MEET, load("%t")), "hip:gfx1250") is holds


CALLED = f"""
  tt.func private @f(%q: tensor<2x64x!tt.ptr<f32>, #row>) attributes {{noinline = true}} {{
    %b = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {SMALL}
    %k = ttg.async_copy_global_to_local %q, %b : tensor<2x64x!tt.ptr<f32>, #row> -> {SMALL}
    %g = ttg.async_commit_group tokens %k
    tt.return
  }}
  tt.func public"""
CALL = (
    "%few = tt.splat %one : !tt.ptr<f32> -> tensor<2x64x!tt.ptr<f32>, #row>\n"
    "    tt.call @f(%few) {allocation.offset = 16384 : i32, allocation.size = 512 : i32} : "
    "(tensor<2x64x!tt.ptr<f32>, #row>) -> ()"
)


@pytest.mark.parametrize(
    ("gpu", "count", "holds"), [("hip:gfx1250", 1, False), ("hip:gfx1250", 0, True), ("cuda:80", 1, True)]
)
def test_copies_of_a_called_function_are_not_counted(
    gpu: str, count: int, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton makes of `num = 1` the instructions of the older, larger group: it looks into no function."""
    monkeypatch.setattr(sys.modules[__name__], "HEAD", HEAD.replace("\n  tt.func public", CALLED))
    made = ("%long = arith.constant 4096 : i64", "%one = tt.int_to_ptr %long : i64 -> !tt.ptr<f32>")
    wait = f"%w = ttg.async_wait {{num = {count} : i32}}"
    body = lines(*made, alloc("%t", SLOT), COPY.format(0, "%t"), CALL, wait, MEET, load("%t"))
    assert is_proved(body, gpu) is holds


# --- barrier objects ----------------------------------------------------------------------------------------------

TMA = lines(
    "ttng.barrier_expect %o, 16384, %true : " + OBJECT,
    f"ttng.async_tma_copy_global_to_local %desc[%c0, %c0] %t, %o, %true : "
    f"!tt.tensordesc<64x64xf32, #tma>, {OBJECT} -> {TILE}",
    f"ttng.wait_barrier %o, %c0 : {OBJECT}",
    load("%t", TILE),
)


def received(*before: str) -> TritonProgram:
    return program(lines(alloc("%t", TILE), alloc("%o", OBJECT, 32768), *before, TMA), "cuda:90")


@pytest.mark.parametrize("meet", ["", MEET])
def test_who_issues_a_copy_relies_on_the_barrier_that_it_reports_to(meet: str) -> None:
    """A tile of two messages is copied by two warps, and one thread of the first has set the barrier up."""
    expect, copy, *rest = TMA.strip().split("\n")
    found = program(lines(alloc("%t", TILE), alloc("%o", OBJECT, 32768), init(1), meet, copy, expect, *rest), "cuda:90")
    assert (not judge(found.built.graph, found.target).findings) is bool(meet)


def arrive(count: int) -> str:
    return f"ttng.arrive_barrier %o, {count} : {OBJECT}"


def init(count: int) -> str:
    return f"ttng.init_barrier %o, {count} : {OBJECT}"


@pytest.mark.parametrize(
    ("before", "clean"), [((init(1),), True), ((init(2), arrive(1)), True), ((init(2), arrive(2)), False)]
)
def test_an_arrival_counts_as_often_as_it_says(before: tuple[str, ...], clean: bool) -> None:
    """Two arrivals at once complete a phase, and the copy reports to the next one."""
    found = received(*before)
    assert (not judge(found.built.graph, found.target).findings) is clean
    arrivals = sum(
        isinstance(each.action, g.Sync) and isinstance(each.action.op, MbarrierArrive)
        for each in found.built.graph.points
    )
    assert arrivals == 1 + sum(int(each.split(",")[1].split(":")[0]) for each in before if "arrive" in each)


def test_a_barrier_that_is_set_up_for_two_counts_proves_nothing() -> None:
    found = received(init(2), MEET, init(1), MEET, arrive(1), MEET)
    assert found.unmodelled
    assert "ttng.wait_barrier" in {op.name for op in found.built.unknown}


def test_a_tensor_copy_of_gfx1250_arrives_itself_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its barrier counts arrivals; that bytes stand at the arrival is our way to say when that is."""
    copy = (
        f"%k = amdg.async_tdm_copy_global_to_local %desc into %t, barrier = %o : "
        f"!tt.tensordesc<64x64xf32, #shared>, {OBJECT} -> {SLOT}"
    )
    monkeypatch.setattr(sys.modules[__name__], "HEAD", HEAD.replace("f32, #tma>)", "f32, #shared>)"))
    setup = (alloc("%t", SLOT), alloc("%o", OBJECT, 32768), f"amdg.init_barrier %o, 4 : {OBJECT}", MEET)
    found = program(lines(*setup, copy, f"amdg.wait_barrier %o, %c0 : {OBJECT}", load("%t")), "hip:gfx1250")
    assert not found.unmodelled
    assert not list(find_graph_misfits(found.built.graph, found.target, lowered=True))


CARRIED_BARRIER = (
    f"%last = scf.for %i = %c0 to %n step %c1 iter_args(%b = %o) -> ({OBJECT}) : i32 {{\n"
    f"ttng.init_barrier %b, 1 : {OBJECT}\nscf.yield %b : {OBJECT}\n}}"
)
END = f"ttng.inval_barrier %o : {OBJECT}"


@pytest.mark.parametrize(
    ("setup", "rest", "known"),
    [
        ((init(1), MEET), (MEET, END), True),
        ((init(1), MEET), (MEET, END, MEET, arrive(1)), False),
        ((MEET,), (MEET, init(1)), False),
        ((f"scf.if %c {{ {init(1)} }}", MEET), (), False),
        (("scf.for %i = %c0 to %n step %c1 : i32 {", init(1), MEET), (MEET, "}"), False),
        ((init(1), MEET), (MEET, CARRIED_BARRIER), False),
    ],
    ids=["once", "used behind its end", "used before", "set up in a branch", "set up in each round", "carried"],
)
def test_a_barrier_that_does_not_live_once_proves_nothing(
    setup: tuple[str, ...], rest: tuple[str, ...], known: bool
) -> None:
    """Whoever sets a barrier up begins with phase 0, whatever its parity was."""
    found = program(lines(alloc("%t", TILE), alloc("%o", OBJECT, 32768), *setup, TMA, *rest), "cuda:90")
    assert bool(found.unmodelled) is not known


SIGNAL = f"ttng.async_copy_mbarrier_arrive %o {{noIncrement}} : {OBJECT}"
ONE_COPY = f"%k = ttg.async_copy_global_to_local %p, %t : tensor<64x64x!tt.ptr<f32>, #row> -> {SLOT}"


@pytest.mark.parametrize(
    ("copy", "known"),
    [
        ((ONE_COPY, SIGNAL), True),
        ((f"scf.if %c {{ {ONE_COPY} }}", SIGNAL), False),
        ((f"scf.for %i = %c0 to %n step %c1 : i32 {{\n{SIGNAL}\n{ONE_COPY}\n}}",), False),
        ((ONE_COPY, SIGNAL.replace(" {noIncrement}", "")), False),
    ],
    ids=["one after the other", "from a branch", "of the iteration before", "that counts itself in"],
)
def test_a_barrier_is_told_of_copies_only_where_it_is_known_of_which(copy: tuple[str, ...], known: bool) -> None:
    setup = (alloc("%t", SLOT), alloc("%o", OBJECT, 32768), f"ttng.init_barrier %o, 128 : {OBJECT}")
    found = program(lines(*setup, MEET, *copy), "cuda:80")
    assert bool(found.unmodelled) is not known


def test_lanes_of_loads_to_lds_are_not_those_that_hold_the_pointers() -> None:
    """gfx950 writes lane by lane behind M0; gfx1250 takes an address from each lane, as `cp.async` does."""
    for gpu, known in (("hip:gfx1250", True), ("cuda:80", True), ("hip:gfx942", False)):
        points = program(lines(alloc("%t", SLOT), ONE_COPY), gpu).built.graph.points
        (copy,) = [each.action for each in points if isinstance(each.action, g.Access)]
        assert bool(copy.lanes) is known, gpu
