"""The Python form: what is traced is what the text says, and what cannot be traced is said at its line.

Kernels stand in the tests themselves: their lines are the spans. A comment `# here` marks the line that a finding
must point to.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.language import test_untraced
from tidegate import Global, f16, f32, i32, i64
from tidegate import conditional as when
from tidegate import iterate as it
from tidegate.diag import BadInput, Finding
from tidegate.language import api, builder, handles, regions, state, trace, unusable
from tidegate.language.check import check
from tidegate.language.ops import Kernel, walk_ops
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.targets import load_target

N = tg.size("N", 256)
M, K = tg.sizes(M=64, K=128)


def traced(function: Any, **options: Any) -> Kernel:
    kernel: Kernel = function.trace(**options).kernel
    assert parse(show(kernel)).kernels == (kernel,)
    return kernel


def same(function: Any, text: str, **options: Any) -> None:
    """The trace is the kernel that this text says, down to its names."""
    (wanted,) = parse(textwrap.dedent(text)).kernels
    found = traced(function, **options)
    assert show(found) == show(wanted)
    assert found == wanted


def clean(kernel: Kernel) -> None:
    assert check(kernel, load_target(kernel.target)) == []


def body(function: Any, **options: Any) -> list[str]:
    """The lines of the kernel's body."""
    lines = show(traced(function, **options)).splitlines()
    start = next(number for number, line in enumerate(lines) if line.endswith("{") and "waves" in line)
    return [line.removeprefix("  ") for line in lines[start + 1 : -1]]


# --- what the package offers --------------------------------------------------------------------------------------


def test_every_public_name_can_be_imported() -> None:
    for name in tg.__all__:
        assert getattr(tg, name) is not None
    assert set(tg.__all__) <= set(dir(tg))


@pytest.mark.parametrize("module", [api, regions])
def test_every_function_for_kernels_is_exported(module: Any) -> None:
    """What the rewriter calls (`name_result`, `discard`) is not for users."""
    own = {
        name
        for name, item in vars(module).items()
        if not name.startswith("_")
        and getattr(item, "__module__", "") in (module.__name__, "tidegate.language.api")
        and (inspect.isfunction(item) or name == "wave_group")
    }
    assert own - set(tg.__all__) == ({"discard", "name_result"} if module is regions else set())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tidegate' has no attribute 'syncthreads'"):
        _ = tg.syncthreads


# --- every operation ----------------------------------------------------------------------------------------------


@tg.kernel(waves=8, target="gfx1250", grid=(N // 256, 2), where=[N % 256 == 0, (N > 8) | ~(N > 4)], sizes=[K])
def everything(X: Global[N, f32], T: Global[64, i32], F: tg.Flag, S: tg.Scalar):
    a = tg.alloc((8, 64), f32, slots=2)
    b = tg.alloc((8, 64), f32, at=8192)
    w, g = tg.wave(), tg.workgroup(1)
    n = tg.let(w * 2 + 1, "n")
    part = tg.view(a, (w,), slot=1, shape=(64,))
    raw = tg.view(b, (0, 0), shape=(512,), dtype=i32)
    one = tg.select_view(F, part, part)
    mask = tg.iota((64,)) < 32
    x = tg.global_read(X, (g * 8 + w,), (64,), bounds=(N,), mask=mask)
    i = tg.read_index(T, (w,))
    y = tg.local_read(a, (w,), (64,), slot=tg.inexact(i))
    whole = tg.local_read(b)
    tg.local_write(x + y, a, (w,), slot=n % 2)
    old = tg.atomic_add(x, b, (w,), fetch=True)
    tg.atomic_add(old, b, (w,), bounds=(8, 64))
    dep = tg.gather_to_lds(X, (w * 64,), a, (w,), (64,), slot=0, bounds=(N,))
    tg.tensor_load_to_lds(X, (0,), a, (0, 0), (64,), slot=1)
    out = tg.lds_to_global(b, (w,), X, (w * 64,), (64,))
    tg.wait_count(asynccnt=1, deps=[dep])
    tg.shared_memory_barrier(wait_async_ops=True, deps=[dep, out], dscnt=0, pinned=True)
    s = tg.splat(S + tg.minimum(w, 3) - tg.maximum(w, 1) + tg.select(w > 2, 1, 0), (64,))
    h = tg.cast(s, f16)
    m = tg.zeros((16, 32), f16)
    q = tg.mma(m, m.T, tg.fill((16, 16), f32, 0.5))
    q2 = m @ tg.transpose(m)
    r = tg.reduce("add", q, 1)
    c = tg.scan("max", q2, 0)
    wide = tg.broadcast(r, (16, 16))
    flat = tg.reshape(c + wide, (256,))
    e = tg.exp(flat) + tg.exp2(flat) - tg.log(flat) * tg.log2(flat) / tg.sqrt(flat)
    e = tg.maximum(e, tg.minimum(tg.rsqrt(e), tg.recip(e))) + 1
    e = tg.where(e > 0, tg.floor(e), tg.sin(e) + tg.cos(e)) % 3
    e = tg.fma(tg.tanh(e), tg.sigmoid(e), tg.relu(e)) ** 2.0
    e = tg.power(tg.absolute(-e), abs(e))
    bits = ~((h.to(i32) & 7) | (s ^ 1))
    tg.global_write(x, X, (w * 64,), mask=(bits == 3))
    tg.signal()
    tg.wait(pinned=True)
    bar = tg.named_barrier(8)
    tg.signal(bar)
    tg.wait(bar)
    ready = tg.mbarrier(8, slots=2)
    tg.gather_to_lds(X, (w * 64,), a, (w,), (64,), reports=(ready, 1))
    tg.mbarrier_arrive(ready, slot=n % 2, expect=256)
    tg.mbarrier_wait(ready, 0, slot=n % 2)
    tg.conditional_barrier("low")
    tg.conditional_barrier("high")
    tg.workgroup_barrier()
    tg.fence("wave")
    tg.scheduling_barrier()
    tg.set_wave_prio(2)
    none = tg.null_async_dep()
    tg.wait_count(deps=[none])
    tg.commit_group()
    with tg.wave_group(0, 4):
        tg.local_write(tg.zeros((64,), i32), raw, (0,))
    with tg.wave_group(4, 8):
        tg.local_write(x, one, (0,))
    with tg.conditional(tg.lane() < 4):
        tg.exit_wave()
    tg.dealloc(b)
    _ = whole


EVERYTHING = """\
target gfx1250

kernel @everything(%X: global<Nxf32>, %T: global<64xi32>, %F: flag, %S: index)
    sizes(N = 256, K = 128)
    where(N mod 256 == 0, N > 8 or not (N > 4))
    grid(N // 256, 2)
    waves 8 {
  %a = alloc : lds<8x64xf32, slots = 2>
  %b = alloc at 8192 : lds<8x64xf32>
  %n = let wave * 2 + 1
  %part = view %a[1][wave] : lds<64xf32>
  %raw = view %b[0, 0] : lds<512xi32>
  %one = select_view %F, %part, %part : lds<64xf32>
  %iota = iota axis 0 : tile<64xi32>
  %fill = fill 32 : tile<64xi32>
  %mask = lt %iota, %fill : tile<64xi1>
  %x = global_read %X[wg1 * 8 + wave] bounds(N) mask %mask : tile<64xf32>
  %loaded = read_index %T[wave]
  %y = local_read %a[inexact(%loaded)][wave] : tile<64xf32>
  %whole = local_read %b : tile<8x64xf32>
  %add = add %x, %y : tile<64xf32>
  local_write %add, %a[%n mod 2][wave]
  %old = atomic_add %x, %b[wave]
  atomic_add %old, %b[wave] bounds(8, 64)
  %dep = gather_to_lds %X[wave * 64] to %a[0][wave] bounds(N) : tile<64xf32>
  tensor_load_to_lds %X[0] to %a[1][0, 0] : tile<64xf32>
  %out = lds_to_global %b[wave] to %X[wave * 64] : tile<64xf32>
  wait_count asynccnt(1) deps(%dep)
  shared_memory_barrier dscnt(0) wait_async_ops deps(%dep, %out) pinned
  %s = splat %S + min(wave, 3) - max(wave, 1) + select(wave > 2, 1, 0) : tile<64xi32>
  %h = cast %s : tile<64xf16>
  %m = fill 0.0 : tile<16x32xf16>
  %t = transpose %m : tile<32x16xf16>
  %fill_2 = fill 0.5 : tile<16x16xf32>
  %q = mma %m, %t, %fill_2 : tile<16x16xf32>
  %t_1 = transpose %m : tile<32x16xf16>
  %fill_3 = fill 0.0 : tile<16x16xf32>
  %q2 = mma %m, %t_1, %fill_3 : tile<16x16xf32>
  %r = reduce add %q axis 1 : tile<16x1xf32>
  %c = scan max %q2 axis 0 : tile<16x16xf32>
  %wide = broadcast %r : tile<16x16xf32>
  %add_2 = add %c, %wide : tile<16x16xf32>
  %flat = reshape %add_2 : tile<256xf32>
  %exp = exp %flat : tile<256xf32>
  %exp2 = exp2 %flat : tile<256xf32>
  %add_3 = add %exp, %exp2 : tile<256xf32>
  %log = log %flat : tile<256xf32>
  %log2 = log2 %flat : tile<256xf32>
  %mul = mul %log, %log2 : tile<256xf32>
  %sqrt = sqrt %flat : tile<256xf32>
  %div = div %mul, %sqrt : tile<256xf32>
  %e = sub %add_3, %div : tile<256xf32>
  %rsqrt = rsqrt %e : tile<256xf32>
  %recip = recip %e : tile<256xf32>
  %min = min %rsqrt, %recip : tile<256xf32>
  %max = max %e, %min : tile<256xf32>
  %fill_4 = fill 1.0 : tile<256xf32>
  %e_1 = add %max, %fill_4 : tile<256xf32>
  %fill_5 = fill 0.0 : tile<256xf32>
  %gt = gt %e_1, %fill_5 : tile<256xi1>
  %floor = floor %e_1 : tile<256xf32>
  %sin = sin %e_1 : tile<256xf32>
  %cos = cos %e_1 : tile<256xf32>
  %add_5 = add %sin, %cos : tile<256xf32>
  %where = where %gt, %floor, %add_5 : tile<256xf32>
  %fill_6 = fill 3.0 : tile<256xf32>
  %e_2 = rem %where, %fill_6 : tile<256xf32>
  %tanh = tanh %e_2 : tile<256xf32>
  %sigmoid = sigmoid %e_2 : tile<256xf32>
  %relu = relu %e_2 : tile<256xf32>
  %fma = fma %tanh, %sigmoid, %relu : tile<256xf32>
  %fill_7 = fill 2.0 : tile<256xf32>
  %e_3 = pow %fma, %fill_7 : tile<256xf32>
  %neg = neg %e_3 : tile<256xf32>
  %abs = abs %neg : tile<256xf32>
  %abs_1 = abs %e_3 : tile<256xf32>
  %e_4 = pow %abs, %abs_1 : tile<256xf32>
  %cast = cast %h : tile<64xi32>
  %fill_8 = fill 7 : tile<64xi32>
  %and = and %cast, %fill_8 : tile<64xi32>
  %fill_9 = fill 1 : tile<64xi32>
  %xor = xor %s, %fill_9 : tile<64xi32>
  %or = or %and, %xor : tile<64xi32>
  %bits = not %or : tile<64xi32>
  %fill_10 = fill 3 : tile<64xi32>
  %eq = eq %bits, %fill_10 : tile<64xi1>
  global_write %x, %X[wave * 64] mask %eq
  signal -1
  wait -1 pinned
  %bar = new_barrier : named_barrier<8>
  signal %bar
  wait %bar
  %ready = new_barrier : mbarrier<8, slots = 2>
  gather_to_lds %X[wave * 64] to %a[0][wave] reports %ready[1] : tile<64xf32>
  mbarrier_arrive %ready[%n mod 2] expect 256
  mbarrier_wait %ready[%n mod 2] parity 0
  conditional_barrier low
  conditional_barrier high
  workgroup_barrier
  fence wave
  scheduling_barrier
  set_wave_prio 2
  %none = null_async_dep
  wait_count deps(%none)
  commit_group
  specialize {
    waves 0 .. 4 {
      %fill_11 = fill 0 : tile<64xi32>
      local_write %fill_11, %raw[0]
    }
    waves 4 .. 8 {
      local_write %x, %one[0]
    }
  }
  conditional lane < 4 {
    exit
  }
  dealloc %b
}
"""


def test_every_operation_is_what_the_text_says() -> None:
    """The golden text of all operations; names follow the variables."""
    assert show(traced(everything)) == EVERYTHING
    same(everything, EVERYTHING)


def test_every_operation_occurs() -> None:
    from typing import get_args

    from tidegate.language import ops

    made = {type(op) for op in walk_ops(traced(everything).body)}
    assert set(get_args(ops.Op)) - made == {ops.Iterate}


def test_every_function_is_used_above() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    used = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    public = {
        name for name in tg.__all__ if tg._HOME_OF[name] in ("tidegate.language.api", "tidegate.language.regions")
    }
    assert public - used == set()


# --- loops --------------------------------------------------------------------------------------------------------


def test_a_tile_is_carried() -> None:
    @tg.kernel
    def k(X: Global[256, f32]):
        acc = tg.zeros((64,), f32)
        for i in tg.iterate(4):
            acc = acc + tg.global_read(X, (i * 64,), (64,))
        tg.global_write(acc, X, (0,))

    same(
        k,
        """
        kernel @k(%X: global<256xf32>) waves 4 {
          %acc = fill 0.0 : tile<64xf32>
          %acc_3 = iterate %i in 0 .. 4 carry(%acc_1 = %acc : tile<64xf32>) {
            %tile = global_read %X[%i * 64] : tile<64xf32>
            %acc_2 = add %acc_1, %tile : tile<64xf32>
            yield %acc_2
          }
          global_write %acc_3, %X[0]
        }
        """,
    )


def test_indices_views_and_copies_are_carried() -> None:
    @tg.kernel(target="gfx950")
    def k(X: Global[1024, f32]):
        a = tg.alloc((4, 64), f32, slots=2)
        b = tg.alloc((4, 64), f32, slots=2)
        slot, dep = 0, tg.null_async_dep()
        front, back = a, b
        for i in tg.iterate(0, 8, 2, expect=4):
            tg.wait_count(deps=[dep])
            dep = tg.gather_to_lds(X, (i * 64,), front, (tg.wave(),), (64,), slot=slot)
            slot = (slot + 1) % 2
            front, back = back, front
        tg.shared_memory_barrier(deps=[dep])

    assert body(k) == [
        "%a = alloc : lds<4x64xf32, slots = 2>",
        "%b = alloc : lds<4x64xf32, slots = 2>",
        "%none = null_async_dep",
        "%dep_2, %slot_1, %front_1, %back_1 = iterate %i in 0 .. 8 step 2 expect 4 carry(%dep = %none : dep, "
        "%slot = 0 : index, %front = %a : lds<4x64xf32, slots = 2>, %back = %b : lds<4x64xf32, slots = 2>) {",
        "  wait_count deps(%dep)",
        "  %dep_1 = gather_to_lds %X[%i * 64] to %front[%slot][wave] : tile<64xf32>",
        "  yield %dep_1, (%slot + 1) mod 2, %back, %front",
        "}",
        "shared_memory_barrier deps(%dep_2)",
    ]
    clean(traced(k))


def test_nested_loops_carry_through() -> None:
    @tg.kernel
    def k():
        n = 0
        for i in tg.iterate(4):
            for j in tg.iterate(i + 1):
                n = n + j
        tg.let(n)

    assert body(k) == [
        "%n_3 = iterate %i in 0 .. 4 carry(%n = 0 : index) {",
        "  %n_2 = iterate %j in 0 .. %i + 1 carry(%n_1 = %n : index) {",
        "    yield %n_1 + %j",
        "  }",
        "  yield %n_2",
        "}",
        "%index = let %n_3",
    ]


def test_augmented_assignment_carries() -> None:
    @tg.kernel
    def k():
        acc = tg.zeros((64,), f32)
        n = 0
        for _ in tg.iterate(4):
            acc += 1
            n += 2
        tg.let(n)

    assert "yield %acc_2, %n + 2" in "\n".join(body(k))


def test_python_loops_are_unrolled_inside_and_outside() -> None:
    @tg.kernel
    def k(X: Global[256, f32]):
        total = tg.zeros((64,), f32)
        for part in range(2):
            total = total + part
        for i in tg.iterate(2):
            for part in range(2):
                total = total + tg.global_read(X, (i * 64 + part,), (64,))
        left = 2
        while left:
            total = total * left
            left -= 1
        if len(total.shape) == 1:
            tg.global_write(total, X, (0,))

    lines = "\n".join(body(k))
    assert lines.count("global_read") == 2
    assert lines.count("mul") == 2
    assert "carry(%total_3 = %total_2 : tile<64xf32>)" in lines
    assert "%part" not in lines


def test_a_name_of_an_earlier_loop_is_free_again() -> None:
    """`row` of the first loop is gone; in the second it is a new variable, not a carried one."""

    @tg.kernel
    def k(X: Global[256, f32]):
        for i in tg.iterate(2):
            row = tg.global_read(X, (i,), (64,))
            ok = i < 1
            with tg.conditional(ok):
                tg.global_write(row, X, (0,))
        for j in tg.iterate(2):
            row = tg.global_read(X, (j,), (64,))
            ok = j < 1
            with tg.conditional(ok):
                tg.global_write(row, X, (0,))

    assert "carry" not in show(traced(k))
    clean(traced(k))


def test_a_value_used_after_its_loop_is_found() -> None:
    @tg.kernel
    def k(X: Global[256, f32]):
        for i in tg.iterate(2):
            row = tg.global_read(X, (i,), (64,))
        tg.global_write(row, X, (0,))  # here

    (finding,) = check(k.trace().kernel, load_target(""))
    assert (finding.code, finding.message) == ("TG009", "`%row` is not visible here")
    assert finding.help == "hand it out of the region: assign a variable that exists before it"
    assert_here(finding, k.function)
    assert "global_read" in linecache.getline(finding.labels[1].at.file, finding.labels[1].at.line)


def test_a_carried_type_that_changes_is_found() -> None:
    @tg.kernel
    def k():
        acc = tg.zeros((64,), f32)
        for _ in tg.iterate(2):  # here
            acc = acc.to(f16)

    (finding,) = check(k.trace().kernel, load_target(""))
    assert finding.code == "TG013"
    assert finding.message == "the loop's body hands on a `tile<64xf16>` for `%acc_1`, which is a `tile<64xf32>`"
    assert_here(finding, k.function)


# --- conditions ---------------------------------------------------------------------------------------------------


def test_one_arm_and_a_merged_variable() -> None:
    @tg.kernel
    def k(F: tg.Flag):
        n = 1
        x = tg.zeros((64,), f32)
        with tg.conditional(F):
            n = 2
            x = x + 1
        tg.let(n)
        tg.reduce("add", x, 0)

    assert body(k) == [
        "%x = fill 0.0 : tile<64xf32>",
        "%n, %x_2 = conditional %F : index, tile<64xf32> {",
        "  %fill = fill 1.0 : tile<64xf32>",
        "  %x_1 = add %x, %fill : tile<64xf32>",
        "  yield 2, %x_1",
        "} else {",
        "  yield 1, %x",
        "}",
        "%index = let %n",
        "%add = reduce add %x_2 axis 0 : tile<1xf32>",
    ]


def test_two_arms() -> None:
    @tg.kernel
    def k():
        with tg.conditional((tg.wave() < 2) & (tg.wave() >= 1)):
            x = tg.fill((64,), f32, 1)
            only = tg.let(1)
            _ = only
        with tg.otherwise():
            x = tg.fill((64,), f32, 2)
        tg.exp(x)

    assert body(k) == [
        "%x_2 = conditional wave < 2 and wave >= 1 : tile<64xf32> {",
        "  %x = fill 1.0 : tile<64xf32>",
        "  %index = let 1",
        "  yield %x",
        "} else {",
        "  %x_1 = fill 2.0 : tile<64xf32>",
        "  yield %x_1",
        "}",
        "%exp = exp %x_2 : tile<64xf32>",
    ]


def test_conditionals_in_loops_carry_what_they_merge() -> None:
    @tg.kernel
    def k():
        n = 0
        for i in tg.iterate(4):
            with tg.conditional(i > 0):
                n = n + 1
        tg.let(n)

    assert body(k) == [
        "%n_2 = iterate %i in 0 .. 4 carry(%n = 0 : index) {",
        "  %n_1 = conditional %i > 0 : index {",
        "    yield %n + 1",
        "  } else {",
        "    yield %n",
        "  }",
        "  yield %n_1",
        "}",
        "%index = let %n_2",
    ]


def test_python_values_inside_the_arms_are_their_own() -> None:
    """`scale` differs between the arms and is not used after them: that is no mistake."""

    @tg.kernel
    def k(F: tg.Flag):
        x = tg.zeros((64,), f32)
        with tg.conditional(F):
            scale = 2.0
            x = x * scale
        with tg.otherwise():
            scale = 3.0
            x = x * scale
        tg.exp(x)

    assert [line for line in body(k) if "= fill" in line] == [
        "%x = fill 0.0 : tile<64xf32>",
        "  %fill = fill 2.0 : tile<64xf32>",
        "  %fill_1 = fill 3.0 : tile<64xf32>",
    ]


def test_an_unchanged_variable_is_no_result() -> None:
    @tg.kernel
    def k(F: tg.Flag):
        n = 1
        with tg.conditional(F):
            n = 1
            tg.workgroup_barrier()
        tg.let(n)

    assert body(k) == ["conditional %F {", "  workgroup_barrier", "}", "%index = let 1"]


def test_wave_groups_that_follow_each_other_are_one_region() -> None:
    @tg.kernel
    def k():
        with tg.wave_group(0, 2):
            tg.workgroup_barrier()
        with tg.wave_group(2, 4):
            tg.workgroup_barrier()
        with tg.wave_group(0, 1):
            tg.scheduling_barrier()

    assert [line for line in body(k) if "specialize" in line or "waves" in line] == [
        "specialize {",
        "  waves 0 .. 2 {",
        "  waves 2 .. 4 {",
        "specialize {",
        "  waves 0 .. 1 {",
    ]


# --- functions, names, constants ----------------------------------------------------------------------------------


@tg.function
def summed(X: Any, count: int) -> Any:
    """A helper with a loop of its own."""
    acc = tg.zeros((64,), f32)
    for i in tg.iterate(count):
        acc = acc + tg.global_read(X, (i * 64,), (64,))
    return acc


def plain_helper(x: Any) -> Any:
    return tg.exp(x) + 1


def test_helpers() -> None:
    @tg.kernel
    def k(X: Global[256, f32]):
        total = summed(X, 4)
        again = plain_helper(summed(X, 2))
        tg.global_write(total + again, X, (0,))

    lines = "\n".join(body(k))
    assert lines.count("iterate") == 2
    assert "0 .. 4" in lines
    assert "0 .. 2" in lines
    clean(traced(k))
    assert summed.__name__ == "summed"
    assert summed.__doc__ == "A helper with a loop of its own."


def test_aliases_of_imports() -> None:
    @tg.kernel
    def k():
        n = 0
        for _ in it(4):
            n = n + 1
            with when(tg.wave() < 2):
                n = n + 1
        tg.let(n)

    assert sum("yield" in line for line in body(k)) == 3


def test_closures() -> None:
    width, dtype = 32, f16

    def make(scale: float) -> Any:
        @tg.kernel
        def k(X: Global[256, f16]):
            tg.global_write(tg.fill((width,), dtype, scale), X, (0,))

        return k

    assert body(make(2.0)) == ["%fill = fill 2.0 : tile<32xf16>", "global_write %fill, %X[0]"]
    assert body(make(3.0))[0] == "%fill = fill 3.0 : tile<32xf16>"


def test_a_kernel_in_a_class() -> None:
    class Kernels:
        @tg.kernel(waves=2)
        def k(X: Global[256, f32]):
            tg.global_write(tg.zeros((64,), f32), X, (0,))

    assert traced(Kernels.k).name == "k"
    assert traced(Kernels.k).waves == 2


def test_constants_and_overrides() -> None:
    @tg.kernel(waves=4, target="gfx942")
    def k(X: Global[256, f32], BLOCK=64, *, TWICE=False, SHAPES=()):
        for _ in range(2 if TWICE else 1):
            tg.global_write(tg.zeros((BLOCK,), f32), X, (0,))
        for shape in SHAPES:
            tg.zeros(shape, f32)

    assert "tile<64xf32>" in body(k)[0]
    assert "tile<32xf32>" in body(k, BLOCK=32)[0]
    assert len(body(k, TWICE=True)) == 4
    assert len(body(k, SHAPES=[(2,), (3,)])) == 4
    assert traced(k, waves=8, target="gfx950").waves == 8
    assert traced(k, waves=8, target="gfx950").target == "gfx950"
    assert (traced(k).waves, traced(k).target) == (4, "gfx942")
    assert k.trace().kernel is k.trace().kernel
    assert k.trace().target == "gfx942"
    assert str(k) == str(k.trace()) == show(k.trace().kernel)
    assert repr(k) == "<tidegate kernel `k`>"


def test_with_and_without_parentheses() -> None:
    @tg.kernel
    def bare():
        """What it does."""
        tg.workgroup_barrier()

    @tg.kernel()
    def empty():
        tg.workgroup_barrier()

    assert traced(bare).body == traced(empty).body
    assert traced(bare).waves == traced(empty).waves == 4
    assert bare.__doc__ == "What it does."


def test_an_early_return_of_python() -> None:
    @tg.kernel
    def k(STOP=False):
        tg.workgroup_barrier()
        if STOP:
            return
        tg.scheduling_barrier()

    assert len(body(k)) == 2
    assert len(body(k, STOP=True)) == 1


def test_sizes_in_the_order_of_arguments_then_the_decorators() -> None:
    @tg.kernel(sizes=[N], grid=M // 64, where=M % 64 == 0)
    def k(X: Global[K, M, f32], Y: Global[M, 4, f32]):
        tg.workgroup_barrier()

    assert show(traced(k)).splitlines()[1:4] == [
        "    sizes(K = 128, M = 64, N = 256)",
        "    where(M mod 64 == 0)",
        "    grid(M // 64)",
    ]


def test_tuples_and_chains_of_assignments() -> None:
    @tg.kernel
    def k():
        a, b = tg.zeros((64,), f32), tg.fill((64,), f32, 1)
        c = d = a + b
        for _ in tg.iterate(2):
            a, b = b, a
        tg.exp(a + c + d)

    assert "yield %fill_1, %fill" not in "\n".join(body(k))
    assert "  yield %b, %a" in body(k)


def test_spans_are_the_lines_of_the_function() -> None:
    for op in walk_ops(traced(everything).body):
        assert op.at.file == __file__
        line = linecache.getline(__file__, op.at.line)
        assert line[op.at.column - 1 :].rstrip() == line.strip()
        assert op.at.end == len(line.rstrip()) + 1
    barrier = next(op for op in walk_ops(traced(everything).body) if type(op).__name__ == "SharedMemoryBarrier")
    assert "tg.shared_memory_barrier(" in linecache.getline(__file__, barrier.at.line)
    assert "def everything" in "".join(linecache.getline(__file__, traced(everything).at.line + n) for n in (0, 1))


def test_spans_inside_helpers_are_the_helpers_lines() -> None:
    @tg.kernel
    def k(X: Global[256, f32]):
        tg.global_write(plain_helper(summed(X, 2)), X, (0,))

    lines = [linecache.getline(__file__, op.at.line) for op in walk_ops(traced(k).body)]
    assert any("return tg.exp(x) + 1" in line for line in lines)
    assert any("for i in tg.iterate(count)" in line for line in lines)


# --- what cannot be traced ----------------------------------------------------------------------------------------


def assert_here(finding: Finding, function: Callable[..., Any]) -> None:
    """The finding points to the line marked `# here` in the function, if there is one."""
    lines, first = inspect.getsourcelines(function)
    marked = [number for number, line in enumerate(lines, first) if line.rstrip().endswith("# here")]
    assert len(marked) == 1, "mark one line"
    assert (finding.at.file, finding.at.line) == (__file__, marked[0])


def rejected(code: str, message: str, help: str = "") -> Callable[[Callable[[], None]], None]:
    """Runs the function, which must be rejected at the line marked `# here` with this whole message."""

    def decorate(function: Callable[[], None]) -> None:
        CASES.append((function, code, message, help))

    return decorate


CASES: list[tuple[Callable[[], None], str, str, str]] = []
TRUTH = "use `with tidegate.conditional(...)` for a condition of the kernel"
FUNCTION = "decorate the function with `@tidegate.function`"
CARRIED = "only tiles, buffers, indices and copies are carried, each in a variable of its own"
MERGED = "only tiles, buffers, indices and copies come out of a conditional"


def trace_of(function: Callable[..., Any], **options: Any) -> Any:
    return tg.kernel(**options)(function).trace()


@rejected("TG007", "this operation is outside a kernel", "call it in a function with `@tidegate.kernel`")
def outside_a_kernel() -> None:
    tg.workgroup_barrier()  # here


@rejected("TG007", "this operation is outside a kernel", "call it in a function with `@tidegate.kernel`")
def loop_outside_a_kernel() -> None:
    for _ in tg.iterate(4):  # here
        pass


@rejected("TG012", "`%x` has no truth value while a kernel is traced", TRUTH)
def truth_of_a_tile() -> None:
    @trace_of
    def k():
        x = tg.zeros((64,), f32)
        if x:  # here
            pass


@rejected("TG012", "`wave` has no truth value while a kernel is traced", TRUTH)
def truth_of_an_index() -> None:
    @trace_of
    def k():
        while tg.wave():  # here
            pass


@rejected(
    "TG012",
    "`wave < 2` is not known while a kernel is traced",
    "use `with tidegate.conditional(...)`, and `&`, `|`, `~` for `and`, `or`, `not`",
)
def truth_of_a_condition() -> None:
    @trace_of
    def k():
        tg.select(tg.wave() < 2 and tg.wave() > 0, 1, 2)  # here


@rejected(
    "TG012",
    "`K // 32` is not known while a kernel is traced",
    "use `for k in tidegate.iterate(...)` for a loop of the kernel",
)
def range_of_a_size() -> None:
    @trace_of
    def k():
        for _ in range(K // 32):  # here
            pass


@rejected("TG012", "an index cannot be made of `1.5`")
def index_from_a_float() -> None:
    @trace_of
    def k():
        tg.let(1.5)  # here


@rejected("TG012", "a condition cannot be made of `1`", "compare something, as in `wave < 2`")
def condition_from_a_number() -> None:
    @trace_of
    def k():
        with tg.conditional(1):  # here
            pass


@rejected("TG012", "expected a tile, found `<%a: lds<64xf32>>`")
def buffer_for_a_tile() -> None:
    @trace_of
    def k():
        a = tg.alloc((64,), f32)
        tg.cast(a, f16)  # here


@rejected("TG012", "expected shared memory, found `<%X: global<64xf32>>`")
def array_for_a_buffer() -> None:
    @trace_of
    def k(X: Global[64, f32]):
        tg.local_read(X, (0,), (64,))  # here


@rejected("TG012", "expected global memory, found `<%a: lds<64xf32>>`")
def buffer_for_an_array() -> None:
    @trace_of
    def k():
        a = tg.alloc((64,), f32)
        tg.global_write(tg.zeros((64,), f32), a, (0,))  # here


@rejected("TG012", "expected an asynchronous operation, found `None`")
def nothing_to_wait_for() -> None:
    @trace_of
    def k():
        tg.wait_count(deps=[None])  # here


@rejected("TG012", "expected a barrier, found `'-1'`")
def a_word_for_a_barrier() -> None:
    @trace_of
    def k():
        tg.signal("-1")  # here


@rejected("TG012", "expected an mbarrier, found `3`")
def a_number_for_an_mbarrier() -> None:
    @trace_of
    def k():
        tg.mbarrier_wait(3, 0)  # here


@rejected("TG012", "`exp` needs at least one tile")
def exponential_of_a_number() -> None:
    @trace_of
    def k():
        tg.exp(1.0)  # here


@rejected("TG012", "`where` chooses between tiles", "make one of them with `tidegate.fill`")
def where_of_numbers() -> None:
    @trace_of
    def k():
        x = tg.zeros((64,), f32)
        tg.where(x > 0, 1, 2)  # here


@rejected("TG011", "`add` of `f32` and `f16`", "cast one of them, as in `x.to(tidegate.f32)`")
def two_element_types() -> None:
    @trace_of
    def k():
        x = tg.zeros((64,), f32)
        _ = x + tg.zeros((64,), f16)  # here


@rejected("TG012", "a tile cannot be made of `'1'`")
def a_word_for_a_tile() -> None:
    @trace_of
    def k():
        x = tg.zeros((64,), f32)
        _ = x + "1"  # here


@rejected("TG016", "a grid has axes 0, 1 and 2, not 3")
def fourth_axis() -> None:
    @trace_of
    def k():
        tg.workgroup(3)  # here


@rejected("TG010", "`transpose` needs two dimensions, not `tile<64xf32>`")
def transpose_of_a_row() -> None:
    @trace_of
    def k():
        _ = tg.zeros((64,), f32).T  # here


@rejected("TG012", "`mul` is not a reduction", "use `add`, `max` or `min`")
def unknown_reduction() -> None:
    @trace_of
    def k():
        tg.reduce("mul", tg.zeros((64,), f32), 0)  # here


@rejected("TG012", "`left` is not a half of the waves", "use `low` or `high`")
def unknown_half() -> None:
    @trace_of
    def k():
        tg.conditional_barrier("left")  # here


@rejected("TG012", "`all` is not a fence", "use `wave` or `proxy_async`")
def unknown_fence() -> None:
    @trace_of
    def k():
        tg.fence("all")  # here


@rejected("TG005", "`0` is not a size", "the sizes of tiles and buffers are positive numbers")
def size_of_zero() -> None:
    @trace_of
    def k():
        tg.alloc((64, 0), f32)  # here


@rejected("TG012", "`iterate` takes one to three bounds, not 4")
def four_bounds() -> None:
    @trace_of
    def k():
        for _ in tg.iterate(1, 2, 3, 4):  # here
            pass


def helper_with_a_loop() -> None:
    for _ in tg.iterate(4):
        tg.workgroup_barrier()


def helper_with_a_condition() -> None:
    with tg.conditional(tg.wave() < 2):
        tg.workgroup_barrier()


def helper_with_a_group() -> None:
    with tg.wave_group(0, 2):
        tg.workgroup_barrier()


@rejected(
    "TG013",
    "`acc` is carried by the loop, but its body leaves `None` in it",
    "let it hold a value of the kernel, or use another name in the body",
)
def carried_becomes_none() -> None:
    @trace_of
    def k():
        acc = tg.zeros((64,), f32)
        for _ in tg.iterate(4):  # here
            acc = None
        _ = acc


@rejected("TG013", "`scale` is `1.0` before the loop and `2.0` after a trip", CARRIED)
def a_float_changes() -> None:
    @trace_of
    def k():
        scale = 1.0
        for _ in tg.iterate(4):  # here
            scale = scale * 2


@rejected("TG013", "`first` is `True` before the loop and `False` after a trip", CARRIED)
def a_boolean_changes() -> None:
    @trace_of
    def k():
        first = True
        for _ in tg.iterate(4):  # here
            if not first:
                tg.workgroup_barrier()
            first = False


@rejected(
    "TG013",
    "`pair` is `(<%fill: tile<64xf32>>, 1)` before the loop and `(<%add: tile<64xf32>>, 1)` after a trip",
    CARRIED,
)
def a_tuple_changes() -> None:
    @trace_of
    def k():
        pair = (tg.zeros((64,), f32), 1)
        for _ in tg.iterate(4):  # here
            pair = (pair[0] + 1, 1)


@rejected("TG014", "`scale` is `2.0` in one arm of a conditional and `1.0` in the other", MERGED)
def a_float_differs_between_arms() -> None:
    @trace_of
    def k(F: tg.Flag):
        scale = 1.0
        with tg.conditional(F):
            scale = 2.0
        tg.fill((64,), f32, scale)  # here


@rejected("TG014", "`x` is `<%x: tile<64xf32>>` in one arm of a conditional and `None` in the other", MERGED)
def a_tile_or_nothing() -> None:
    @trace_of
    def k(F: tg.Flag):
        x = None
        with tg.conditional(F):
            x = tg.zeros((64,), f32)
        _ = x + 1  # here


@rejected("TG014", "`scale` is `2.0` in one arm of a conditional and `1.0` in the other", MERGED)
def a_product_with_a_float_that_differs() -> None:
    @trace_of
    def k(F: tg.Flag):
        x = tg.zeros((64,), f32)
        with tg.conditional(F):
            scale = 2.0
        with tg.otherwise():
            scale = 1.0
        _ = x * scale  # here


@rejected("TG014", "`x` is `<%x: tile<64xf32>>` in one arm and `1` in the other", "give it a value of one type in both")
def a_tile_or_a_number() -> None:
    @trace_of
    def k(F: tg.Flag):
        x = 1
        with tg.conditional(F):  # here
            x = tg.zeros((64,), f32)
        _ = x


PLAIN = "keep what changes in a plain variable, which is assigned there"
IN_LOOP, IN_ARM = "changes in the body of this loop", "changes in an arm of this conditional"


class Pipe:
    """State in an object, as a user might keep it."""

    def __init__(self) -> None:
        self.slot = 0

    def advance(self) -> None:
        self.slot = 1 - self.slot


@rejected("TG013", f"what `pipe` holds {IN_LOOP}", f"{PLAIN} and is carried")
def an_object_changes_in_a_loop() -> None:
    @trace_of
    def k():
        pipe = Pipe()
        for _ in tg.iterate(4):  # here
            tg.let(pipe.slot)
            pipe.advance()


@rejected("TG013", f"what `pipes` holds {IN_LOOP}", f"{PLAIN} and is carried")
def an_object_in_containers_changes_in_a_loop() -> None:
    @trace_of
    def k():
        pipes = {"a": ([Pipe()], 1)}
        for _ in tg.iterate(4):  # here
            pipes["a"][0][0].advance()


@rejected("TG013", f"what `s` holds {IN_LOOP}", f"{PLAIN} and is carried")
def a_list_changes_in_a_loop() -> None:
    @trace_of
    def k():
        s = [0]
        for _ in tg.iterate(4):  # here
            tg.let(s[0])
            s[0] = 1 - s[0]


@rejected("TG013", f"what `s` holds {IN_LOOP}", f"{PLAIN} and is carried")
def a_list_grows_in_a_loop() -> None:
    @trace_of
    def k():
        s = [0]
        for _ in tg.iterate(4):  # here
            s += [1]


@rejected("TG013", f"what `accs` holds {IN_LOOP}", f"{PLAIN} and is carried")
def a_list_of_tiles_changes_in_a_loop() -> None:
    @trace_of
    def k():
        accs = [tg.zeros((64,), f32), tg.zeros((64,), f32)]
        for _ in tg.iterate(4):  # here
            for j in range(2):
                accs[j] = accs[j] + 1


@rejected("TG013", f"what `seen` holds {IN_LOOP}", f"{PLAIN} and is carried")
def a_set_changes_in_a_loop() -> None:
    @trace_of
    def k():
        seen = {1}
        for _ in tg.iterate(4):  # here
            seen.add(2)


@rejected("TG013", f"what `table` holds {IN_LOOP}", f"{PLAIN} and is carried")
def an_array_changes_in_a_loop() -> None:
    @trace_of
    def k():
        table = np.zeros(4, np.int32)
        for _ in tg.iterate(4):  # here
            table[1] = 2


@rejected("TG013", f"what `slots` holds {IN_LOOP}", f"{PLAIN} and is carried")
def an_iterator_advances_in_a_loop() -> None:
    @trace_of
    def k():
        slots = itertools.cycle([0, 1])
        for _ in tg.iterate(4):  # here
            tg.let(next(slots))


@rejected("TG013", f"what `slots` holds {IN_LOOP}", f"{PLAIN} and is carried")
def a_generator_advances_in_a_loop() -> None:
    @trace_of
    def k():
        slots = (n for n in range(4))
        next(slots)
        for _ in tg.iterate(4):  # here
            tg.let(next(slots))


@rejected("TG013", "`pair` is `(0, 1)` before the loop and `(1, 0)` after a trip", CARRIED)
def a_tuple_of_numbers_changes() -> None:
    @trace_of
    def k():
        pair = (0, 1)
        for _ in tg.iterate(4):  # here
            tg.let(pair[0])
            pair = (pair[1], pair[0])


@rejected("TG013", "`state` is `{'s': 0}` before the loop and `{'s': 1}` after a trip", CARRIED)
def a_dictionary_is_replaced() -> None:
    @trace_of
    def k():
        state = {"s": 0}
        for _ in tg.iterate(4):  # here
            state = {"s": 1 - state["s"]}


@rejected("TG013", f"what `s` holds {IN_LOOP}", f"{PLAIN} and is carried")
def an_inner_function_assigns_in_a_loop() -> None:
    @trace_of
    def k():
        s = 0

        def bump():
            nonlocal s
            s = 1 - s

        for _ in tg.iterate(4):  # here
            tg.let(s)
            bump()


@rejected("TG014", f"what `s` holds {IN_ARM}", PLAIN)
def a_list_changes_in_an_arm() -> None:
    @trace_of
    def k(F: tg.Flag):
        s = [0]
        with tg.conditional(F):  # here
            s[0] = 1
        tg.let(s[0])


@rejected("TG014", f"what `pipe` holds {IN_ARM}", PLAIN)
def an_object_changes_in_the_other_arm() -> None:
    @trace_of
    def k(F: tg.Flag):
        pipe = Pipe()
        with tg.conditional(F):  # here
            pass
        with tg.otherwise():
            pipe.advance()


@rejected("TG014", "what `s` holds changes in this wave group", PLAIN)
def a_list_changes_in_a_group() -> None:
    @trace_of
    def k():
        s = [0]
        with tg.wave_group(0, 2):  # here
            s.append(1)


@rejected("TG014", "`pair` is `(1, 0)` in one arm of a conditional and `(0, 1)` in the other", MERGED)
def a_tuple_differs_between_arms() -> None:
    @trace_of
    def k(F: tg.Flag):
        pair = (0, 1)
        with tg.conditional(F):
            pair = (1, 0)
        tg.let(pair[0])  # here


ONE_ARM = "give it a value in both arms, or before the conditional"
GROUP = "use it inside the group, or choose with `tidegate.select` or `tidegate.conditional`"


@rejected("TG014", "`x` has a value in one arm of a conditional only", ONE_ARM)
def a_variable_of_one_arm() -> None:
    @trace_of
    def k(F: tg.Flag):
        with tg.conditional(F):
            x = tg.fill((64,), f32, 1)
        tg.exp(x)  # here


@rejected("TG014", "`row` has a value in one arm of a conditional only", ONE_ARM)
def a_number_of_the_other_arm() -> None:
    @trace_of
    def k(F: tg.Flag):
        with tg.conditional(F):
            pass
        with tg.otherwise():
            row = 1
        tg.let(row)  # here


@rejected("TG014", "`x` has a value in one arm of a conditional only", ONE_ARM)
def an_attribute_of_a_variable_of_one_arm() -> None:
    @trace_of
    def k(F: tg.Flag):
        with tg.conditional(F):
            x = tg.fill((64,), f32, 1)
        _ = x.shape  # here


@rejected("TG014", "`row` is `1` in a wave group and `0` outside it", GROUP)
def a_number_leaves_a_group() -> None:
    @trace_of
    def k():
        row = 0
        with tg.wave_group(0, 2):
            row = 1
        tg.let(row)  # here


@rejected("TG014", "`x` is `<%x_1: tile<64xf32>>` in a wave group and `<%x: tile<64xf32>>` outside it", GROUP)
def a_tile_leaves_a_group() -> None:
    @trace_of
    def k():
        x = tg.zeros((64,), f32)
        with tg.wave_group(0, 2):
            x = x + 1
        tg.exp(x)  # here


@rejected("TG014", "`flag` has a value in a wave group only", "use it inside the group")
def a_value_only_in_a_group() -> None:
    @trace_of
    def k():
        with tg.wave_group(0, 2):
            flag = tg.wave() < 1
        with tg.conditional(flag):  # here
            pass


@rejected(
    "TG013",
    "`acc` is carried by the loop, but its body leaves `<%acc_2: tile<64xf32>> in a wave group, "
    "<%acc_1: tile<64xf32>> outside it` in it",
    "let it hold a value of the kernel, or use another name in the body",
)
def a_group_assigns_what_a_loop_carries() -> None:
    @trace_of
    def k():
        acc = tg.zeros((64,), f32)
        for _ in tg.iterate(4):  # here
            with tg.wave_group(0, 2):
                acc = acc + 1


@rejected("TG007", "this wave group is left by `return`, `break` or `continue`", "let its body end")
def a_return_from_a_group() -> None:
    @trace_of
    def k():
        with tg.wave_group(0, 2):  # here
            tg.workgroup_barrier()
            return


@rejected("TG007", "this wave group is left by `return`, `break` or `continue`", "let its body end")
def a_break_out_of_a_group() -> None:
    @trace_of
    def k():
        for _ in range(4):
            with tg.wave_group(0, 2):  # here
                break


@rejected(
    "TG012", "`&` of these is not an index expression", "`x & 7` is `x % 8`: the mask is one less than a power of two"
)
def a_mask_with_a_gap() -> None:
    @trace_of
    def k():
        tg.let(tg.wave() & 6)  # here


@rejected(
    "TG012",
    "`>>` of these is not an index expression",
    "`x << 3` is `x * 8` and `x >> 3` is `x // 8`: shift by a number that is known, 0 to 63",
)
def a_shift_by_an_index() -> None:
    @trace_of
    def k():
        tg.let(tg.wave() >> tg.wave())  # here


@rejected("TG012", "`|` of these is not an index expression", "add what has no bits in common, as in `x * 2 + 1`")
def bits_joined() -> None:
    @trace_of
    def k():
        tg.let(1 | tg.wave())  # here


@rejected("TG012", "`/` of these is not an index expression", "use `//`, which rounds down")
def a_fraction_of_an_index() -> None:
    @trace_of
    def k():
        tg.let(tg.wave() / 2)  # here


@rejected("TG012", "`a b` is not a name for a size", "use letters, digits and `_`")
def a_size_that_cannot_be_said() -> None:
    tg.size("a b", 4)  # here


@rejected("TG012", "a condition cannot be made of `1`", "compare something, as in `wave < 2`")
def a_condition_compared_with_a_number() -> None:
    @trace_of
    def k():
        _ = (tg.wave() < 2) == 1  # here


@rejected(
    "TG007",
    "`otherwise` without a `conditional` before it",
    "put `with tidegate.otherwise():` right after the block of a `conditional`",
)
def otherwise_alone() -> None:
    @trace_of
    def k(F: tg.Flag):
        with tg.conditional(F):
            pass
        tg.workgroup_barrier()
        with tg.otherwise():  # here
            pass


LEFT = "use `with tidegate.conditional(...)` for what some trips do"


@rejected("TG007", "the body of this loop is left by `break` or `continue`", LEFT)
def a_break() -> None:
    @trace_of
    def k():
        for _ in tg.iterate(4):  # here
            tg.workgroup_barrier()
            break


@rejected("TG007", "the body of this loop is left by `break` or `continue`", LEFT)
def a_continue() -> None:
    @trace_of
    def k(SKIP=True):
        for _ in tg.iterate(4):  # here
            if SKIP:
                continue
            tg.workgroup_barrier()


@rejected("TG007", "`k` returns from inside a loop", "use `tidegate.exit_wave()` to end a wave, or let the loop end")
def a_return_from_a_loop() -> None:
    @trace_of
    def k():
        for _ in tg.iterate(4):  # here
            return


@rejected("TG007", "this conditional is left by `return`, `break` or `continue`", "let its arms end")
def a_return_from_a_conditional() -> None:
    @trace_of
    def k(F: tg.Flag):
        with tg.conditional(F):  # here
            return


@rejected("TG005", "`'f32'` is not an element type", "write `Global[M, K, f16]`: sizes, then the element type")
def annotation_without_an_element_type() -> None:
    _ = Global[64, "f32"]  # here


@rejected(
    "TG005",
    "`1.5` is not a size",
    "use a positive number, or make sizes with `M, K = tidegate.sizes(M=128, K=64)`",
)
def annotation_with_a_strange_size() -> None:
    _ = Global[1.5, f32]  # here


@rejected(
    "TG007",
    "`everything` is a kernel, not a function to call",
    "use `everything.trace()` for its program, or `tidegate run FILE` to run it",
)
def calling_a_kernel() -> None:
    everything(1, 2)  # here


@rejected("TG003", "`everything` has no constant `BLOCK`", "its constants: none")
def unknown_constant() -> None:
    everything.trace(BLOCK=64)  # here


@rejected("TG003", "`kernel` has no option `wave`", "did you mean `waves`?")
def unknown_option() -> None:
    tg.kernel(wave=4)  # here


@rejected(
    "TG007",
    "argument `X` of `k` has neither an annotation nor a default",
    "annotate it as in `A: tidegate.Global[M, K, tidegate.f16]`, or give a constant its default",
)
def argument_without_meaning() -> None:
    def k(X):  # here
        pass

    tg.kernel(k).trace()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_rejected(case: tuple[Callable[[], None], str, str, str]) -> None:
    function, code, message, help = case
    depth = len(builder._recording)
    with pytest.raises(BadInput) as raised:
        function()
    (finding,) = raised.value.findings
    assert (finding.code, finding.message, finding.help) == (code, message, help)
    assert_here(finding, function)
    assert len(builder._recording) == depth, "the builder was left open"


@pytest.mark.parametrize(
    ("helper", "message"),
    [
        (helper_with_a_loop, "this loop is in a function that is not traced"),
        (helper_with_a_condition, "this conditional is in a function that is not traced"),
        (helper_with_a_group, "this wave group is in a function that is not traced"),
    ],
)
def test_regions_in_an_undecorated_helper(helper: Callable[[], None], message: str) -> None:
    def k():
        helper()

    with pytest.raises(BadInput) as raised:
        trace_of(k)
    (finding,) = raised.value.findings
    assert (finding.code, finding.message, finding.help) == ("TG007", message, FUNCTION)
    assert "tg." in linecache.getline(finding.at.file, finding.at.line)
    lines, first = inspect.getsourcelines(helper)
    assert first < finding.at.line < first + len(lines)


def test_an_annotation_that_means_nothing() -> None:
    def k(X: Nowhere[64]):  # noqa: F821
        pass

    with pytest.raises(BadInput) as raised:
        tg.kernel(k)
    (finding,) = raised.value.findings
    assert finding.code == "TG012"
    assert finding.message == "an annotation of `k` cannot be evaluated: name 'Nowhere' is not defined"


def test_a_function_without_source() -> None:
    space: dict[str, Any] = {"tg": tg}
    exec("def k():\n    tg.workgroup_barrier()\n", space)
    with pytest.raises(BadInput) as raised:
        trace_of(space["k"])
    (finding,) = raised.value.findings
    assert (finding.code, finding.message) == ("TG007", "the source of `k` cannot be read")
    assert finding.help == "define the kernel with `def` in a file, or build it with `tidegate.language.builder`"


def test_every_rejection_is_reached() -> None:
    """Each `reject(...)` of the Python form has a case above, known by its code and the fixed words of its message."""
    said = [f"{code}: {message}" for _, code, message, _ in CASES] + [
        *(f"{code}: {message}" for _, code, message in test_untraced.CASES),
        *(": ".join(words.split(" ", 1)) for _, words in test_untraced.PASSED.values()),
        "TG012: `'N'` is not a size parameter",
        "TG007: this loop is in a function that is not traced",
        "TG007: this conditional is in a function that is not traced",
        "TG012: an annotation of `k` cannot be evaluated: name 'Nowhere' is not defined",
    ]
    for module in (builder, handles, api, regions, state, trace, unusable):
        for code, words in rejections(Path(module.__file__)):
            hits = [each for each in said if each.startswith(code) and all(word in each for word in words)]
            assert hits, f"{Path(module.__file__).name}: nothing reaches {code} {words}"


def rejections(path: Path) -> list[tuple[str, list[str]]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("reject", "Finding") and len(node.args) >= 2:
            code, message = node.args[:2]
            if not isinstance(code, ast.Constant):
                continue
            parts = message.values if isinstance(message, ast.JoinedStr) else [message]
            words = [part.value.strip() for part in parts if isinstance(part, ast.Constant)]
            found.append((code.value, [word for word in words if word]))
    return found


def test_the_library_takes_a_kernel_in_any_form() -> None:
    @tg.kernel(waves=4, target="gfx942")
    def double(X: tg.Global[64, f32], Y: tg.Global[64, f32]):
        tg.global_write(tg.global_read(X, (tg.wave() * 16,), (16,)) * 2, Y, (tg.wave() * 16,))

    trace = double.trace()
    for form in (double, trace, trace.kernel):
        assert list(tg.check(form)) == []
        assert [each.code for each in tg.check(form, "sm_80")] == []
        assert tg.build_graph(form).graph.target == "gfx942"
        inputs = tg.make_inputs(form, seed=3)
        assert (tg.run(form, inputs=inputs)["Y"] == inputs["X"] * 2).all()
        assert (tg.run(form, seed=3)["Y"] == inputs["X"] * 2).all()


# --- what was wrong once ------------------------------------------------------------------------------------------


def test_a_number_that_only_the_body_sets_is_carried() -> None:
    """The loop may run no trip: then `row` is 0."""

    @tg.kernel
    def k():
        row = 0
        for _ in tg.iterate(tg.wave()):
            row = 3
        tg.let(row)

    assert body(k) == [
        "%row_1 = iterate %_ in 0 .. wave carry(%row = 0 : index) {",
        "  yield 3",
        "}",
        "%index = let %row_1",
    ]


def test_an_assignment_in_a_comprehension_is_carried() -> None:
    @tg.kernel
    def k():
        s = 0
        for _ in tg.iterate(4):
            tg.let(s)
            _ = [s := 1 - s for _ in range(1)]

    assert "  yield 1 - %s" in body(k)


def test_a_captured_name_of_a_pattern_is_carried() -> None:
    @tg.kernel
    def k():
        s = 0
        for _ in tg.iterate(4):
            match (s + 1, 0):
                case (s, _):
                    tg.workgroup_barrier()

    assert "  yield %s + 1" in body(k)


def test_what_is_only_read_or_made_inside_is_free() -> None:
    class Shape:
        rows = 4

        @functools.cached_property
        def size(self) -> int:
            return self.rows * 16

    @tg.kernel
    def k(F: tg.Flag):
        tiles = [tg.zeros((64,), f32), tg.fill((64,), f32, 1)]
        shape, pipe, names = Shape(), Pipe(), {"a": (1, 2)}
        acc = tg.zeros((64,), f32)
        for i in tg.iterate(4):
            i = i * 2
            parts = [tile + i for tile in tiles]
            parts.append(parts[0] * names["a"][0] * shape.size)
            own = Pipe()
            own.advance()
            with tg.conditional(F):
                inner = {"x": parts[-1] * own.slot * pipe.slot}
                inner["y"] = inner["x"] + 1
                acc = acc + inner["y"]
        for i in tg.iterate(4):
            parts = [tiles[0] + i]
            own = Pipe()
            own.advance()
            acc = acc + parts[0]
        tg.exp(acc)

    clean(traced(k))


def test_a_function_with_a_loop_is_called_for_the_first_time_in_a_loop() -> None:
    @tg.function
    def inner(x: Any) -> Any:
        for _ in tg.iterate(2):
            x = x + 1
        return x

    @tg.kernel
    def k():
        x = tg.zeros((64,), f32)
        for _ in tg.iterate(2):
            x = inner(x)
        tg.exp(x)

    assert "\n".join(body(k)).count("iterate") == 2


def test_a_group_keeps_what_stands_around_it() -> None:
    @tg.kernel
    def k():
        row, x = 0, tg.zeros((64,), f32)
        for part in range(2):
            tg.let(part)
        for i in tg.iterate(2):
            with tg.wave_group(0, 2):
                y = x * i
                for part in range(3):
                    y = y + part
        with tg.wave_group(2, 4):
            row = 0
            y = x * 2
            tg.exp(y)
        tg.let(row)

    assert body(k)[-1] == "%index_2 = let 0"
    assert "carry" not in show(traced(k))
    clean(traced(k))


def test_two_contexts_in_one_with() -> None:
    @tg.kernel
    def k(F: tg.Flag):
        n = 1
        with tg.conditional(F), tg.conditional(tg.wave() < 2):
            n = 2
        tg.let(n)

    assert sum("conditional" in line for line in body(k)) == 2
    assert body(k)[-1] == "%index = let %n_1"


@pytest.mark.parametrize(
    ("cond", "text"),
    [
        (lambda a, b: a == b, "wave < 2 and wg0 < 2 or not (wave < 2) and not (wg0 < 2)"),
        (lambda a, b: a != b, "wave < 2 and not (wg0 < 2) or not (wave < 2) and wg0 < 2"),
        (lambda a, b: a ^ b, "wave < 2 and not (wg0 < 2) or not (wave < 2) and wg0 < 2"),
        (lambda a, _: a == True, "wave < 2"),  # noqa: E712
        (lambda a, _: a != True, "not (wave < 2)"),  # noqa: E712
        (lambda a, _: False == a, "not (wave < 2)"),  # noqa: E712, SIM300
        (lambda a, _: True ^ a, "not (wave < 2)"),
        (lambda a, _: True & a, "true and wave < 2"),
        (lambda a, _: False | a, "false or wave < 2"),
    ],
)
def test_conditions_compare_and_join(cond: Any, text: str) -> None:
    @tg.kernel
    def k():
        with tg.conditional(cond(tg.wave() < 2, tg.workgroup(0) < 2)):
            tg.scheduling_barrier()

    assert body(k)[0] == f"conditional {text} {{"
    with pytest.raises(TypeError, match="unhashable"):
        hash(tg.wave() < 2)


def test_else_of_a_loop_comes_after_it() -> None:
    @tg.kernel
    def k():
        s = 0
        for _ in tg.iterate(4):
            s = s + 1
        else:
            s = s + 10
            for _ in tg.iterate(2):
                s = s * 2
        tg.let(s)

    assert body(k)[3] == "%s_3 = iterate %__1 in 0 .. 2 carry(%s_2 = %s_1 + 10 : index) {"


def test_a_result_that_an_index_names_keeps_its_name() -> None:
    @tg.kernel
    def k():
        a = tg.alloc((4, 64), i32)
        t = tg.iota((64,))
        at = tg.inexact(t)
        u = plain(t)
        t = tg.fill((64,), i32, 3)
        tg.local_write(u + t, a, (0, at))

    def plain(item: Any) -> Any:
        return item

    assert body(k)[1:3] == ["%t = iota axis 0 : tile<64xi32>", "%t_1 = fill 3 : tile<64xi32>"]
    assert body(k)[-1] == "local_write %add, %a[0, inexact(%t)]"


def test_adding_to_a_list_works_in_place() -> None:
    @tg.kernel
    def k():
        a: list[int] = []
        b = a
        a += [1]
        tg.let(len(b))

    assert body(k) == ["%index = let 1"]


def test_constants_that_are_equal_and_not_the_same() -> None:
    @tg.kernel
    def k(FLAG: Any = 0, PAIR: Any = ()):
        tg.let(2 if FLAG is True else 1)
        tg.let(2 if PAIR and PAIR[0] is True else 1)

    assert body(k, FLAG=1)[0] == "%index = let 1"
    assert body(k, FLAG=True)[0] == "%index = let 2"
    assert body(k, PAIR=(1,))[1] == "%index_1 = let 1"
    assert body(k, PAIR=(True,))[1] == "%index_1 = let 2"
    assert body(k, PAIR=([True],))[1] == "%index_1 = let 1"


def test_names_that_the_text_cannot_say() -> None:
    @tg.kernel
    def größe(É: Global[256, f32], scale=2.0):
        é = tg.global_read(É, (0,), (64,))
        n = tg.let(1, "my index-1")
        π = é * scale
        tg.global_write(π, É, (n,))

    assert show(traced(größe, scale=3.0)).splitlines() == [
        "kernel @große(%E: global<256xf32>)".replace("ß", ""),
        "    waves 4 {",
        "  %e = global_read %E[0] : tile<64xf32>",
        "  %my_index_1 = let 1",
        "  %fill = fill 3.0 : tile<64xf32>",
        "  %v = mul %e, %fill : tile<64xf32>",
        "  global_write %v, %E[%my_index_1]",
        "}",
    ]


def test_fills_of_integers_are_exact() -> None:
    @tg.kernel
    def k(X: Global[64, i64]):
        x = tg.global_read(X, (0,), (64,))
        x = x + 9007199254740993
        x = x + np.int64(2) + 3.0
        tg.fill((4,), i32, True)
        tg.fill((4,), f32, 63)
        tg.global_write(x, X, (0,))

    fills = [op.value for op in walk_ops(k.trace().kernel.body) if type(op).__name__ == "Fill"]
    assert fills == [9007199254740993, 2, 3, 1, 63.0]
    assert [type(each) for each in fills] == [int, int, int, int, float]
    assert "fill 9007199254740993 : tile<64xi64>" in str(k)


def test_bits_of_indices() -> None:
    @tg.kernel
    def k():
        w = tg.wave()
        tg.let((w & 7) + (w >> 1) + (w << 2) + (3 & w) + (w & 0) + (w >> 0))
        tg.let(9 // (w + 1) + 9 % (w + 1))

    assert body(k) == [
        "%index = let w mod 8 + w // 2 + w * 4 + w mod 4 + w".replace("w", "wave"),
        "%index_1 = let 9 // (wave + 1) + 9 mod (wave + 1)",
    ]


def test_operators_of_tiles_in_both_orders() -> None:
    @tg.kernel
    def k():
        i, f = tg.iota((4,)), tg.zeros((4,), f32)
        _ = (i // 2, 9 // i, f // 2, 9 % i, 3 & i, 3 | i, 3 ^ i, 2**f, np.float32(2) * f, tg.wave() & i)

    names = [line.split(" = ")[1].split()[0] for line in body(k)]
    made = [name for name in names if name not in ("fill", "splat")]
    assert made == ["iota", "div", "div", "div", "floor", "rem", "and", "or", "xor", "pow", "mul", "and"]


def test_one_item_needs_no_tuple() -> None:
    @tg.kernel(target="gfx950")
    def k(X: Global[N, f32]):
        a = tg.alloc(64, f32)
        x = tg.global_read(X, np.int64(3), np.int64(64), bounds=N)
        tg.local_write(x, a)
        dep = tg.gather_to_lds(X, tg.wave(), a, 0, 64, bounds=N)
        tg.wait_count(deps=dep)
        tg.shared_memory_barrier(deps=dep)
        y = tg.zeros((4, 64), f32)
        tg.reduce("add", y, -1)
        tg.scan("add", y, -2)
        tg.iota((4, 64), axis=-1)

    assert body(k) == [
        "%a = alloc : lds<64xf32>",
        "%x = global_read %X[3] bounds(N) : tile<64xf32>",
        "local_write %x, %a",
        "%dep = gather_to_lds %X[wave] to %a[0] bounds(N) : tile<64xf32>",
        "wait_count deps(%dep)",
        "shared_memory_barrier deps(%dep)",
        "%y = fill 0.0 : tile<4x64xf32>",
        "%add = reduce add %y axis 1 : tile<4x1xf32>",
        "%add_1 = scan add %y axis 0 : tile<4x64xf32>",
        "%iota = iota axis 1 : tile<4x64xi32>",
    ]


def test_a_number_of_numpy_is_carried() -> None:
    @tg.kernel
    def k():
        n = np.int64(1)
        for _ in tg.iterate(4):
            n = n + 1
        tg.let(n * np.int64(2) + np.int64(3) * n)

    assert body(k)[-1] == "%index = let %n_1 * 2 + 3 * %n_1"
