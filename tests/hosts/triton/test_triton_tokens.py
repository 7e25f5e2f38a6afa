"""Waits for tokens: what they let be under way, against what Triton works out of them."""

from __future__ import annotations

import pytest

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import walk
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.hosts.triton.tokens import count_waits
from tidegate.language.ops import WaitCount

if not libtriton.is_installed():
    pytest.skip("NOT TESTED: Triton is not installed; `pip install tidegate[triton]`", allow_module_level=True)

from oracles.triton_kernels import cases, compile_ttgir

HEAD = """
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "hip:%s", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%%p: tensor<128x!tt.ptr<f32>, #blocked>, %%n: i32, %%c: i1) {
    %%zero = arith.constant 0 : i32
    %%one = arith.constant 1 : i32
    %%m = ttg.local_alloc : () -> !ttg.memdesc<128xf32, #shared, #smem, mutable>
"""
TAIL = "\n    tt.return\n  }\n}\n"
COPY = (
    "%x{0} = ttg.async_copy_global_to_local %p, %m : tensor<128x!tt.ptr<f32>, #blocked> -> "
    "<128xf32, #shared, #smem, mutable>\n    %{0} = ttg.async_commit_group tokens %x{0}"
)


def counts_in(body: str, gpu: str = "gfx1250") -> list[int | None]:
    """What waits let be, in the order of the text."""
    (function,) = read_ttgir(HEAD % gpu + body + TAIL, "k.ttgir").functions
    found = count_waits(function)
    return [left.count if (left := found.get(id(op))) else None for op in walk(function) if op.name == "ttg.async_wait"]


def test_groups_that_were_started_since_are_counted() -> None:
    copies = "\n".join(COPY.format(name) for name in "abd")
    waits = "\n".join(
        f"%w{n} = ttg.async_wait {given} {{num = 0 : i32}}" for n, given in enumerate(("%a", "%b", "%a, %d"))
    )
    assert counts_in(f"{copies}\n{waits}") == [2, 1, 0]


def test_a_loop_that_hands_tokens_on_has_one_count() -> None:
    body = f"""
    {COPY.format("a")}
    {COPY.format("b")}
    %r:2 = scf.for %i = %zero to %n step %one
        iter_args(%old = %a, %young = %b) -> (!ttg.async.token, !ttg.async.token) : i32 {{
      %w = ttg.async_wait %old {{num = 0 : i32}}
      {COPY.format("d")}
      scf.yield %young, %d : !ttg.async.token, !ttg.async.token
    }}
    %v = ttg.async_wait %r#0 {{num = 0 : i32}}
    """
    assert counts_in(body) == [1, 1]


def test_a_token_from_before_a_loop_that_starts_more_is_not_counted() -> None:
    """It has the least age in the first iteration; in later ones more are under way than that."""
    body = f"""
    {COPY.format("a")}
    {COPY.format("b")}
    scf.for %i = %zero to %n step %one : i32 {{
      {COPY.format("d")}
      %w = ttg.async_wait %a {{num = 0 : i32}}
    }}
    """
    assert counts_in(body) == [None]


def test_a_region_that_is_run_once_hands_tokens_on() -> None:
    body = f"""
    {COPY.format("a")}
    %r = scf.execute_region -> !ttg.async.token {{
      {COPY.format("b")}
      %w = ttg.async_wait %a {{num = 0 : i32}}
      {COPY.format("d")}
      scf.yield %b : !ttg.async.token
    }}
    %v = ttg.async_wait %r {{num = 0 : i32}}
    %u = ttg.async_wait %a {{num = 0 : i32}}
    """
    assert counts_in(body) == [1, 1, 2]


def test_arms_that_differ_are_not_counted_unless_one_starts_nothing() -> None:
    arm = f"scf.if %c {{\n      {COPY.format('d')}\n    }}\n    "
    wait = "%w = ttg.async_wait %a {num = 0 : i32}"
    assert counts_in(COPY.format("a") + "\n    " + arm + wait) == [0]  # nothing is left on the other way
    assert counts_in("\n    ".join((COPY.format("a"), COPY.format("b"), arm, wait))) == [None]


def test_on_other_gpus_the_number_is_what_it_says() -> None:
    body = f"{COPY.format('a')}\n    {COPY.format('b')}\n    %w = ttg.async_wait %a {{num = 0 : i32}}"
    found = {}
    for gpu, lanes in (("gfx950", "64"), ("gfx1250", "32")):
        text = (HEAD % gpu).replace("[32]", f"[{lanes}]").replace("= 32 :", f"= {lanes} :") + body + TAIL
        (program,) = programs_of(read_ttgir(text, "k.ttgir"))
        actions = [each.action for each in program.built.graph.points]
        found[gpu] = [a.op.counts for a in actions if isinstance(a, g.Sync) and isinstance(a.op, WaitCount)]
    assert found == {"gfx950": [(("async", 0),)], "gfx1250": [(("async", 1),)]}


@pytest.mark.parametrize(
    "name", ["matmul-s3-w4", "matmul-s4-w8", "attention-full-s3", "matmul-described", "matmul-grouped"]
)
def test_where_nothing_is_left_triton_counts_no_instruction(name: str) -> None:
    """Triton's own pass turns groups into instructions: where we say none it must say none."""
    from triton._C.libtriton import amd, ir, passes

    text = compile_ttgir(next(each for each in cases() if each.name == name), "gfx1250")
    parsed = libtriton.parse(text, f"{name}.ttgir")
    manager = ir.pass_manager(parsed.context)
    amd.passes.ttgpuir.add_update_async_wait_count(manager, "gfx1250")
    passes.convert.add_scf_to_cf(manager)
    amd.passes.ttgpuir.add_allocate_shared_memory(manager, "gfx1250")
    manager.run(parsed.module, "counts")
    before = read_ttgir(text, f"{name}.ttgir")
    after = read_ttgir(parsed.text(f"{name}.ttgir"), f"{name}.ttgir")
    counted = []
    for each in (before, after):
        found = count_waits(each.functions[0])
        waits = [op for op in walk(each.functions[0]) if "wait" in op.name and op.operands]
        counted.append([left.count if (left := found.get(id(op))) else None for op in waits])
    instructions = [
        op.integer("num_inst") if op.name == "amdg.async_wait" else op.integer("count")
        for op in walk(after.functions[0])
        if op.name in ("amdg.async_wait", "amdg.async_tdm_intrinsic_wait") and op.operands
    ]
    assert counted[0] == counted[1], "loops and blocks say the same"
    assert None not in counted[0]
    assert not any(found for count, found in zip(counted[0], instructions, strict=True) if count == 0)
    assert any(counted[0]) or not any(instructions)
