"""The in-order machine: what a kernel means.

Each test is a small kernel and what NumPy says it computes, or the finding that it must end in.
"""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tidegate.diag import Sources, show_finding
from tidegate.index import Const, Inexact, Name
from tidegate.language.ops import Kernel, LocalWrite, Place, Value
from tidegate.language.parse import parse
from tidegate.language.syntax import ARITY, COMPARE
from tidegate.language.types import DTYPES, Lds, Tile, f8e4m3fnuz, f16, f32, i8, i32, i64
from tidegate.simulate import tiles
from tidegate.simulate.address import Guard, locate
from tidegate.simulate.events import Access
from tidegate.simulate.faults import Actor
from tidegate.simulate.inorder import SimulationError, make_inputs, run
from tidegate.simulate.memory import lds_bytes, lds_layout, poisoned_lds, touched_bytes
from tidegate.simulate.values import Buffer, Env, GlobalArray, Pending, PerLane
from tidegate.simulate.wave import Wave

bf16 = ml_dtypes.bfloat16


def kernel(text: str) -> Kernel:
    return parse(text, "k.tide").kernels[0]


def execute(text: str, sizes: dict[str, int] | None = None, lanes: int = 64, **given: Any) -> dict[str, Any]:
    """Runs a kernel on what is given, and on random arguments for the rest."""
    parsed = kernel(text)
    return run(parsed, make_inputs(parsed, sizes, given=given), sizes=sizes, lanes=lanes)


def failure(text: str, **given: Any) -> str:
    """The whole message of a run that must fail."""
    with pytest.raises(SimulationError) as caught:
        execute(text, **given)
    return show_finding(caught.value.finding, Sources({"k.tide": text}))


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


# --- arithmetic ---------------------------------------------------------------------------------------------------

UNARY_REFERENCE = {
    "neg": lambda x: -x,
    "abs": abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: x**-0.5,
    "recip": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.exp(x) / (1 + np.exp(x)),
    "relu": lambda x: np.where(x > 0, x, 0),
    "floor": np.floor,
}
BINARY_REFERENCE = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rem": lambda x, y: x - np.floor(x / y) * y,
    "max": lambda x, y: np.where(x > y, x, y),
    "min": lambda x, y: np.where(x < y, x, y),
    "pow": lambda x, y: x**y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "ge": lambda x, y: x >= y,
    "gt": lambda x, y: x > y,
}
BIT_REFERENCE = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x, y: ~x,
}
TERNARY_REFERENCE = {"fma": lambda x, y: x * y + x, "where": lambda x, y: np.where(x < y, x, y)}


def test_every_function_has_a_reference() -> None:
    covered = {*UNARY_REFERENCE, *BINARY_REFERENCE, *BIT_REFERENCE, *TERNARY_REFERENCE}
    assert covered == set(ARITY)


def function_kernel(fn: str, dtype: str) -> str:
    args = {1: "%x", 2: "%x, %y", 3: "%x, %y, %x"}[ARITY[fn]]
    result = "i1" if fn in COMPARE else dtype
    lines = [f"%r = {fn} {args} : tile<4x16x{result}>"]
    if fn == "where":
        lines = ["%c = lt %x, %y : tile<4x16xi1>", f"%r = where %c, %x, %y : tile<4x16x{dtype}>"]
    return f"""
    kernel @f(%X: global<4x16x{dtype}>, %Y: global<4x16x{dtype}>, %R: global<4x16x{result}>) waves 1 {{
      %x = global_read %X : tile<4x16x{dtype}>
      %y = global_read %Y : tile<4x16x{dtype}>
      {" ".join(lines)}
      global_write %r, %R
    }}"""


@pytest.mark.parametrize("fn", [*UNARY_REFERENCE, *BINARY_REFERENCE, *TERNARY_REFERENCE])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8e4m3fn"])
def test_float_functions(fn: str, dtype: str) -> None:
    kind = tiles.np_dtype(DTYPES[dtype])
    rng = np.random.default_rng(1)
    x, y = (rng.uniform(0.25, 3, (4, 16)).astype(kind) for _ in range(2))
    y[0] = x[0]
    wide = np.float64 if dtype == "f64" else np.float32
    reference: Any = UNARY_REFERENCE.get(fn) or BINARY_REFERENCE.get(fn) or TERNARY_REFERENCE[fn]
    args = (x.astype(wide), y.astype(wide))[: 1 if fn in UNARY_REFERENCE else 2]
    expected = reference(*args)
    got = execute(function_kernel(fn, dtype), X=x, Y=y)["R"]
    if fn in COMPARE:
        assert np.array_equal(got, expected)
        return
    # Half a unit in the last place of the dtype, and what the reference's own float32 steps lose.
    error = max(2.0 ** -(ml_dtypes.finfo(kind).nmant), 1e-6 if wide == np.float32 else 1e-14)
    np.testing.assert_allclose(got.astype(wide), expected, rtol=error, atol=error)


@pytest.mark.parametrize("fn", ["add", "sub", "mul", "max", "min", "lt", "ge", "neg", "abs", "where", *BIT_REFERENCE])
@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64"])
def test_integer_functions(fn: str, dtype: str) -> None:
    x, y = np.random.default_rng(2).integers(-9, 10, (2, 4, 16)).astype(dtype.replace("i", "int"))
    reference: Any = {**UNARY_REFERENCE, **BINARY_REFERENCE, **BIT_REFERENCE, **TERNARY_REFERENCE}[fn]
    expected = reference(x) if fn in UNARY_REFERENCE else reference(x, y)
    assert np.array_equal(execute(function_kernel(fn, dtype), X=x, Y=y)["R"], expected)


def test_integers_divide_downwards_and_wrap() -> None:
    a, b = np.array([-7, 7, -128, 5], np.int8), np.array([2, -2, -1, 0], np.int8)

    def both(fn: str) -> list[int]:
        return list(tiles.elementwise(fn, (a, b), (i8, i8), i8))

    assert both("div")[:2] == [-4, -4]
    assert both("div")[3] == 0
    assert both("rem") == [1, -1, 0, 0]
    assert both("sub") == [-9, 9, -127, 5]
    assert tiles.elementwise("mul", (a, a), (i8, i8), i8).tolist() == [49, 49, 0, 25]
    assert both("pow") == [49, 0, 0, 1]


def test_narrow_floats_are_rounded_once() -> None:
    # 2048 + 1 + 1 in f16 steps would stay 2048; `fma` in float32 and one rounding gives 2050.
    big, one = np.full(4, 2048, np.float16), np.full(4, 2, np.float16)
    assert tiles.elementwise("fma", (one, np.full(4, 1.5, np.float16), big), (f16,) * 3, f16)[0] == 2052
    near = np.full(1, 1 + 2**-12, np.float32)
    rest = tiles.elementwise("fma", (near, near, np.full(1, -1 - 2**-11, np.float32)), (f32,) * 3, f32)
    assert rest[0] == 2**-24, "the product keeps its last bits until the sum"
    total = tiles.reduce("add", np.full((1, 4096), 1, np.float16), f16, 1, f16)
    assert total.tolist() == [[4096.0]]


def test_casts() -> None:
    floats = np.array([1.9, -1.9, 300.0, -300.0, np.nan, np.inf], np.float32)
    assert tiles.convert(floats, i8).tolist() == [1, -1, 127, -128, 0, 127]
    assert tiles.convert(floats[-1:], i64).tolist() == [2**63 - 1]
    assert tiles.convert(floats.astype(bf16), i32).tolist() == [1, -1, 300, -300, 0, 2**31 - 1]
    assert tiles.convert(np.array([2.0, 0.0]), DTYPES["i1"]).tolist() == [True, False]
    assert tiles.convert(np.array([300], np.int32), i8).tolist() == [44]
    assert tiles.convert(np.array([1.0 + 2**-8]), DTYPES["bf16"]).astype(float).tolist() == [1.0]


def test_shapes_reductions_and_scans() -> None:
    text = """
    kernel @f(%X: global<4x8xf32>, %S: global<4x1xf32>, %T: global<8x4xf32>, %C: global<4x8xf32>, %B: global<2x4x8xf32>,
              %N: global<1x8xi32>, %I: global<4x8xi32>) waves 1 {
      %x = global_read %X : tile<4x8xf32>
      %s = reduce max %x axis 1 : tile<4x1xf32>
      global_write %s, %S
      %t = transpose %x : tile<8x4xf32>
      global_write %t, %T
      %c = scan add %x axis 0 : tile<4x8xf32>
      global_write %c, %C
      %b = broadcast %s : tile<2x4x8xf32>
      global_write %b, %B
      %zero = fill 0.0 : tile<4x8xf32>
      %p = gt %x, %zero : tile<4x8xi1>
      %q = cast %p : tile<4x8xi32>
      %n = reduce add %q axis 0 : tile<1x8xi32>
      global_write %n, %N
      %i = iota axis 1 : tile<4x8xi32>
      %j = splat wave + 100 : tile<32xi32>
      %k = reshape %j : tile<4x8xi32>
      %l = add %i, %k : tile<4x8xi32>
      global_write %l, %I
    }"""
    x = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    after = execute(text, X=x)
    assert np.array_equal(after["S"], x.max(1, keepdims=True))
    assert np.array_equal(after["T"], x.T)
    np.testing.assert_allclose(after["C"], x.cumsum(0), rtol=1e-6)
    assert np.array_equal(after["B"], np.broadcast_to(x.max(1, keepdims=True), (2, 4, 8)))
    assert np.array_equal(after["N"], (x > 0).sum(0, keepdims=True))
    assert np.array_equal(after["I"], np.broadcast_to(np.arange(8) + 100, (4, 8)))


@pytest.mark.parametrize(("element", "acc"), [("f16", "f32"), ("i8", "i32"), ("f64", "f64"), ("bf16", "bf16")])
def test_mma_accumulates_in_the_type_of_its_accumulator(element: str, acc: str) -> None:
    text = f"""
    kernel @f(%A: global<16x32x{element}>, %B: global<32x8x{element}>, %C: global<16x8x{acc}>) waves 1 {{
      %a = global_read %A : tile<16x32x{element}>
      %b = global_read %B : tile<32x8x{element}>
      %c = global_read %C : tile<16x8x{acc}>
      %r = mma %a, %b, %c : tile<16x8x{acc}>
      global_write %r, %C
    }}"""
    inputs = make_inputs(kernel(text), seed=4)
    wide = {name: each.astype(np.float64) for name, each in inputs.items()}
    got = run(kernel(text), inputs)["C"].astype(np.float64)
    error = 1e-2 if acc == "bf16" else 1e-5
    np.testing.assert_allclose(got, wide["A"] @ wide["B"] + wide["C"], rtol=error, atol=error * 10)


# --- memory -------------------------------------------------------------------------------------------------------

GEMM = """
kernel @gemm(%A: global<MxKxf16>, %B: global<KxNxf16>, %C: global<MxNxf32>)
    sizes(M = 128, N = 128, K = 128) where(M mod 64 == 0, N mod 64 == 0, K mod 32 == 0) grid(M // 64, N // 64) waves 4 {
  %a = alloc : lds<64x32xf16>
  %b = alloc : lds<32x64xf16>
  %zero = fill 0.0 : tile<32x32xf32>
  %sum = iterate %k in 0 .. K step 32 carry(%acc = %zero : tile<32x32xf32>) {
    %ga = global_read %A[wg0 * 64 + wave * 16, %k] : tile<16x32xf16>
    %gb = global_read %B[%k + wave * 8, wg1 * 64] : tile<8x64xf16>
    workgroup_barrier
    local_write %ga, %a[wave * 16, 0]
    local_write %gb, %b[wave * 8, 0]
    shared_memory_barrier
    %x = local_read %a[(wave // 2) * 32, 0] : tile<32x32xf16>
    %y = local_read %b[0, (wave mod 2) * 32] : tile<32x32xf16>
    %next = mma %x, %y, %acc : tile<32x32xf32>
    yield %next
  }
  global_write %sum, %C[wg0 * 64 + (wave // 2) * 32, wg1 * 64 + (wave mod 2) * 32]
}
"""


def test_gemm_through_shared_memory() -> None:
    started = time.process_time()
    inputs = make_inputs(kernel(GEMM), seed=5)
    kept = {name: each.copy() for name, each in inputs.items()}
    got = run(kernel(GEMM), inputs)["C"]
    np.testing.assert_allclose(got, inputs["A"].astype("f4") @ inputs["B"].astype("f4"), rtol=1e-4, atol=1e-4)
    assert time.process_time() - started < 2
    assert all(np.array_equal(inputs[name], kept[name]) for name in inputs), "inputs are copied"


def test_sizes_change_the_grid_and_the_loop() -> None:
    sizes = {"M": 64, "N": 192, "K": 32}
    inputs = make_inputs(kernel(GEMM), sizes)
    got = run(kernel(GEMM), inputs, sizes=sizes)["C"]
    np.testing.assert_allclose(got, inputs["A"].astype("f4") @ inputs["B"].astype("f4"), rtol=1e-4, atol=1e-4)


def test_bounds_and_masks() -> None:
    text = """
    kernel @f(%X: global<Nxf32>, %Y: global<Nxf32>, %Z: global<2x8xf32>) sizes(N = 13) waves 2 {
      %x = global_read %X[wave * 8] bounds(N) : tile<8xf32>
      %i = iota axis 0 : tile<8xi32>
      %three = splat 3 : tile<8xi32>
      %m = lt %i, %three : tile<8xi1>
      %minus = fill -1.0 : tile<8xf32>
      global_write %x, %Y[wave * 8] bounds(N)
      global_write %minus, %Y[wave * 8] mask %m
      %t = alloc : lds<2x8xf32>
      local_write %minus, %t[wave]
      local_write %x, %t[wave] mask %m
      %r = local_read %t[wave] bounds(2, 5) : tile<8xf32>
      global_write %r, %Z[wave]
    }"""
    x = np.arange(1, 14, dtype=np.float32)
    after = execute(text, X=x, Y=zeros(13), Z=np.full((2, 8), 9, np.float32))
    expected = x.copy()
    expected[[0, 1, 2, 8, 9, 10]] = -1
    assert np.array_equal(after["Y"], expected)
    assert after["Z"].tolist() == [[1, 2, 3, -1, -1, 0, 0, 0], [9, 10, 11, -1, -1, 0, 0, 0]]


def test_a_tile_of_lower_rank_fills_the_last_dimensions() -> None:
    text = """
    kernel @f(%X: global<2x3x8xi32>, %Y: global<3x8xi32>) waves 1 {
      %t = alloc : lds<3x8xi32, slots = 2>
      %x = global_read %X[1] : tile<3x8xi32>
      local_write %x, %t[1]
      %row = local_read %t[1][2, 4] : tile<4xi32>
      global_write %x, %Y
      global_write %row, %Y[0, 2]
    }"""
    x = np.arange(48, dtype=np.int32).reshape(2, 3, 8)
    expected = x[1].copy()
    expected[0, 2:6] = x[1, 2, 4:]
    assert np.array_equal(execute(text, X=x)["Y"], expected)


def test_layout_and_poison() -> None:
    parsed = kernel("""
    kernel @f(%O: global<4xf32>, %P: global<4xi32>) waves 1 {
      %a = alloc : lds<3xf16>
      %b = alloc : lds<4xi32>
      %c = alloc at 100 : lds<3xf8e4m3fnuz>
      %d = alloc : lds<4xf32, slots = 2>
      %x = local_read %d[1] : tile<4xf32>
      %y = local_read %b : tile<4xi32>
      global_write %x, %O
      global_write %y, %P
    }""")
    assert lds_layout(parsed) == {"%a": 0, "%b": 16, "%c": 100, "%d": 112}
    assert lds_bytes(parsed) == 144
    assert np.isnan(poisoned_lds(parsed)[100:103].view(tiles.np_dtype(f8e4m3fnuz)).astype(float)).all()
    after = run(parsed, make_inputs(parsed))
    assert np.isnan(after["O"]).all()
    assert (after["P"].view(np.uint32) == 0xA5A5A5A5).all()


def test_each_workgroup_has_fresh_shared_memory() -> None:
    text = """
    kernel @f(%O: global<2x4xf32>) grid(2) waves 1 {
      %a = alloc : lds<4xf32>
      %one = fill 1.0 : tile<4xf32>
      conditional wg0 == 0 { local_write %one, %a }
      %r = local_read %a : tile<4xf32>
      global_write %r, %O[wg0]
    }"""
    after = execute(text)["O"]
    assert (after[0] == 1).all()
    assert np.isnan(after[1]).all()


def test_views_select_view_and_carried_views() -> None:
    text = """
    kernel @f(%X: global<32xi32>, %Y: global<4x8xi32>, %Z: global<2xi64>) waves 1 {
      %t = alloc : lds<2x8xi32, slots = 2>
      %x = global_read %X : tile<32xi32>
      %flat = view %t : lds<32xi32>
      local_write %x, %flat
      %low = view %t[0] : lds<8xi32>
      %high = view %t[1][1] : lds<8xi32>
      %last, %other = iterate %k in 0 .. 3 carry(%v = %low : lds<8xi32>, %w = %high : lds<8xi32>) {
        %r = local_read %v : tile<8xi32>
        global_write %r, %Y[%k]
        yield %w, %v
      }
      %chosen = select_view 1 < 2, %low, %high : lds<8xi32>
      %c = local_read %chosen : tile<8xi32>
      %d = local_read %last : tile<8xi32>
      %e = sub %c, %d : tile<8xi32>
      global_write %e, %Y[3]
      %wide = view %t[0][0, 2] : lds<2xi64>
      %q = local_read %wide : tile<2xi64>
      global_write %q, %Z
    }"""
    x = np.arange(32, dtype=np.int32)
    after = execute(text, X=x)
    assert after["Y"].tolist() == [list(range(8)), list(range(24, 32)), list(range(8)), [-24] * 8]
    assert np.array_equal(after["Z"], x[2:6].view(np.int64))


def test_histogram_with_an_index_for_each_element() -> None:
    text = """
    kernel @histogram(%X: global<2x64xi32>, %H: global<8xi32>, %B: global<2x64xi32>) waves 2 {
      %h = alloc : lds<8xi32>
      %zero = fill 0.0 : tile<8xi32>
      conditional wave == 0 { local_write %zero, %h }
      shared_memory_barrier
      %x = global_read %X[wave] : tile<64xi32>
      %one = fill 1.0 : tile<64xi32>
      %before = atomic_add %one, %h[inexact(%x)]
      global_write %before, %B[wave]
      shared_memory_barrier
      %r = local_read %h : tile<8xi32>
      global_write %r, %H
    }"""
    x = np.random.default_rng(6).integers(0, 8, (2, 64)).astype(np.int32)
    after = execute(text, X=x)
    assert np.array_equal(after["H"], np.bincount(x.reshape(-1), minlength=8))
    # Each wave's elements find what the elements before them left; either wave may have come first.
    assert any(np.array_equal(after["B"], counts_before(x, order)) for order in ((0, 1), (1, 0)))


def counts_before(x: Any, order: tuple[int, int]) -> Any:
    counts, before = np.zeros(8, np.int32), np.zeros_like(x)
    for wave in order:
        for e, bucket in enumerate(x[wave]):
            before[wave, e] = counts[bucket]
            counts[bucket] += 1
    return before


def test_element_indices_in_one_dimension_of_two() -> None:
    text = """
    kernel @f(%X: global<4x4xf32>, %P: global<4xi64>, %Y: global<4xf32>) waves 1 {
      %p = global_read %P : tile<4xi64>
      %x = global_read %X[inexact(%p), 0] : tile<4xf32>
      global_write %x, %Y
    }"""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    assert execute(text, X=x, P=np.array([3, 0, 2, 1]))["Y"].tolist() == [12, 1, 10, 7]


def test_read_index_and_let() -> None:
    text = """
    kernel @f(%T: global<4xi32>, %X: global<8xf32>, %Y: global<2xf32>, %o: index) waves 1 {
      %i = read_index %T[%o]
      %j = let inexact(%i) * 2
      %x = global_read %X[inexact(%j)] : tile<2xf32>
      global_write %x, %Y
    }"""
    x = np.arange(8, dtype=np.float32)
    assert execute(text, T=np.array([0, 1, 3, 2], np.int32), X=x, o=2)["Y"].tolist() == [6, 7]


def test_asynchronous_copies_waits_and_groups() -> None:
    text = """
    kernel @f(%X: global<20xf32>, %Y: global<2x16xf32>, %Z: global<12xf32>) waves 2 {
      %t = alloc : lds<16xf32, slots = 2>
      %none = null_async_dep
      %c = gather_to_lds %X[wave * 16] to %t[wave] bounds(20) : tile<16xf32>
      %g = commit_group
      wait_count vmcnt(0) deps (%c, %g, %none)
      shared_memory_barrier wait_async_ops
      %r = local_read %t[1 - wave] : tile<16xf32>
      global_write %r, %Y[wave]
      conditional wave == 1 {
        lds_to_global %t[0][4] to %Z[8] bounds(12) : tile<8xf32>
      }
      fence proxy_async
    }"""
    x = np.arange(20, dtype=np.float32)
    after = execute(text, X=x, Z=zeros(12))
    assert after["Y"].tolist() == [[16, 17, 18, 19] + [0] * 12, list(range(16))]
    assert after["Z"].tolist() == [0] * 8 + [4, 5, 6, 7]


def test_bounds_of_a_copy_clip_its_global_side() -> None:
    text = """
    kernel @f(%X: global<8xf32>, %Y: global<12xf32>, %Z: global<4xf32>) waves 1 {
      %t = alloc : lds<12xf32>
      %minus = fill -1.0 : tile<12xf32>
      local_write %minus, %t
      gather_to_lds %X to %t[8] bounds(2) : tile<4xf32>
      %r = local_read %t : tile<12xf32>
      global_write %r, %Y
      lds_to_global %t[8] to %Z bounds(3) : tile<4xf32>
    }"""
    after = execute(text, X=np.arange(1, 9, dtype=np.float32), Z=np.full(4, 9, np.float32))
    assert after["Y"].tolist() == [-1] * 8 + [1, 2, 0, 0]
    assert after["Z"].tolist() == [1, 2, 0, 9]


def test_touched_bytes() -> None:
    buffer = Value("%t", Lds((4, 8), f32, 2))
    env: Env = {"%t": Buffer("%t", 64, Lds((4, 8), f32, 2)), "wave": 1, "lane": PerLane(np.arange(4))}
    op = LocalWrite(Value("%x", Tile((2,), f32)), Place(buffer))
    everything = Guard()

    def touched(place: Place, shape: tuple[int, ...], guard: Guard = everything) -> list[int]:
        return list(touched_bytes(locate(place, shape, guard, Actor(op, env), "written")))

    first = 64 + 128 + 32 + 24
    assert touched(Place(buffer, Name("wave"), (Const(1), Const(6))), (2,)) == list(range(first, first + 8))
    both = [*range(first, first + 8), *range(first + 32, first + 40)]
    assert touched(Place(buffer, Name("wave"), (Const(1), Const(6))), (2, 2)) == both
    clipped = Guard(bounds=(Const(4), Const(7)))
    assert touched(Place(buffer, Name("wave"), (Const(1), Const(6))), (2,), clipped) == both[:4]
    past_row = Place(buffer, Const(0), (Const(0), Const(6)))
    assert touched(past_row, (4,)) == list(range(64 + 24, 64 + 40))
    lanes = Guard(lanes=np.array([True, False, False, True]))
    assert touched(Place(buffer), (8,), lanes) == [*range(64, 72), *range(64 + 24, 64 + 32)]
    # Six elements on four lanes: two each, and the last lane has none.
    assert touched(Place(buffer), (6,), lanes) == [*range(64, 72)]


def test_addresses_agree_with_counting_one_element_at_a_time() -> None:
    rng = np.random.default_rng(8)
    for _ in range(300):
        memory = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
        kind = Lds(memory, DTYPES[str(rng.choice(["i8", "f16", "f32"]))], int(rng.integers(1, 4)))
        shape = tuple(int(rng.integers(1, n + 1)) for n in memory[int(rng.integers(0, len(memory) + 1)) :])
        start = [int(rng.integers(0, n)) for n in memory][: int(rng.integers(0, len(memory) + 1))]
        slot, bounds = int(rng.integers(0, kind.slots)), [int(n) for n in rng.integers(0, 7, len(memory))]
        own = int(rng.integers(-1, len(start)))  # the dimension in which each element has its own index, if any
        mask, owns = rng.integers(0, 2, shape).astype(bool), rng.integers(0, 3, shape)
        lanes = rng.integers(0, 2, 4).astype(bool)
        expected = set()
        for number, element in enumerate(np.ndindex(shape)):
            index = [*start, *[0] * (len(memory) - len(start))]
            for d, step in zip(range(len(memory) - len(shape), len(memory)), element, strict=True):
                index[d] += step
            if own >= 0:
                index[own] = int(owns[element]) if owns.size > 1 else index[own] - start[own] + int(owns[element])
            active = mask[element] and lanes[number // -(-mask.size // 4)]
            if active and all(i < bound for i, bound in zip(index, bounds, strict=True)):
                flat = slot
                for i, n in zip(index, memory, strict=True):
                    flat = flat * n + i
                expected |= {16 + flat * kind.dtype.bytes + byte for byte in range(kind.dtype.bytes)}
        buffer, guard = Value("%t", kind), Guard(tuple(map(Const, bounds)), Value("%m", Tile(shape, i32)), lanes)
        env: Env = {"%t": Buffer("%t", 16, kind), "%m": mask, "%o": owns, "wave": 0}
        index_of = [Inexact(Name("%o")) if d == own else Const(i) for d, i in enumerate(start)]
        place = Place(buffer, Const(slot), tuple(index_of))
        actor = Actor(LocalWrite(buffer, place), env)
        try:
            got = set(touched_bytes(locate(place, shape, guard, actor, "written")).tolist())
        except SimulationError:
            assert not expected <= set(range(16, 16 + kind.bytes))
            continue
        assert got == expected


# --- control ------------------------------------------------------------------------------------------------------


def test_loops_carry_indices_and_may_run_zero_times() -> None:
    text = """
    kernel @f(%X: global<8x4xi32>, %Y: global<4xi32>, %S: global<2x4xi32>, %n: index) waves 1 {
      %t = alloc : lds<4xi32, slots = 3>
      %zero = fill 0.0 : tile<4xi32>
      %sum, %slot = iterate %k in 0 .. %n carry(%acc = %zero : tile<4xi32>, %s = 0 : index) {
        %x = global_read %X[%k] : tile<4xi32>
        local_write %x, %t[%s]
        %r = local_read %t[%s] : tile<4xi32>
        %next = add %acc, %r : tile<4xi32>
        yield %next, select(%s + 1 >= 3, 0, %s + 1)
      }
      global_write %sum, %Y
      %a = splat %slot : tile<4xi32>
      global_write %a, %S[0]
      conditional %n > 0 {
        %last = local_read %t[(%n - 1) mod 3] : tile<4xi32>
        global_write %last, %S[1]
      }
    }"""
    x = np.arange(32, dtype=np.int32).reshape(8, 4)
    after = execute(text, X=x, n=8)
    assert np.array_equal(after["Y"], x.sum(0))
    assert np.array_equal(after["S"], [[2] * 4, x[7]])
    empty = execute(text, X=x, n=0, S=zeros(2, 4, dtype=np.int32))
    assert not empty["Y"].any()
    assert not empty["S"].any()


def test_conditionals_with_results_flags_and_branches_of_one_wave() -> None:
    text = """
    kernel @f(%Y: global<4x4xf32>, %on: flag) waves 4 {
      %one = fill 1.0 : tile<4xf32>
      %two = fill 2.0 : tile<4xf32>
      %r, %row = conditional %on and not wave == 2 : tile<4xf32>, index {
        yield %one, wave
      } else {
        %s = add %two, %two : tile<4xf32>
        yield %s, 5 - wave
      }
      conditional wave == 3 or wave == 2 and true { global_write %r, %Y[%row] }
    }"""
    assert execute(text, Y=zeros(4, 4), on=True)["Y"][:, 0].tolist() == [0, 0, 0, 1]
    assert execute(text, Y=zeros(4, 4), on=False)["Y"][:, 0].tolist() == [0, 0, 4, 4]


def test_each_lane_writes_in_its_own_arm_only() -> None:
    text = """
    kernel @f(%Y: global<4xf32>) waves 1 {
      %one = fill 1.0 : tile<4xf32>
      %two = fill 2.0 : tile<4xf32>
      conditional lane == 1 or lane == 2 { global_write %one, %Y } else { global_write %two, %Y }
    }"""
    assert execute(text, Y=zeros(4), lanes=4)["Y"].tolist() == [2, 1, 1, 2]


def test_lanes_go_different_ways() -> None:
    text = """
    kernel @f(%X: global<16xf32>, %Y: global<16xf32>, %R: global<16xf32>, %I: global<16xi32>) waves 1 {
      %t = alloc : lds<16xf32>
      %zero = fill 0.0 : tile<16xf32>
      local_write %zero, %t
      %r, %i = conditional lane < 4 : tile<16xf32>, index {
        %x = global_read %X : tile<16xf32>
        %inner = conditional lane mod 2 == 0 : tile<16xf32> {
          local_write %x, %t
          yield %x
        } else {
          yield %zero
        }
        yield %inner, 7
      } else {
        %one = fill 1.0 : tile<16xf32>
        conditional lane == 6 { local_write %one, %t }
        yield %one, lane
      }
      global_write %r, %R
      %m = local_read %t : tile<16xf32>
      global_write %m, %Y
      %n = splat %i : tile<16xi32>
      global_write %n, %I
    }"""
    x = np.arange(10, 26, dtype=np.float32)
    after = execute(text, X=x, lanes=8)  # two elements belong to each lane
    assert after["R"].tolist() == [10, 11, 0, 0, 14, 15, 0, 0, *[1] * 8]
    assert after["Y"].tolist() == [10, 11, 0, 0, 14, 15, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]
    assert after["I"].tolist() == [7] * 8 + [4, 4, 5, 5, 6, 6, 7, 7]


def test_elements_of_idle_lanes_read_as_zero_and_an_arm_without_lanes_does_not_run() -> None:
    text = """
    kernel @f(%X: global<4xf32>, %Y: global<4xf32>) waves 2 {
      %r = conditional lane == 1 : tile<4xf32> {
        %x = global_read %X : tile<4xf32>
        %s = reduce add %x axis 0 : tile<1xf32>
        %b = broadcast %s : tile<4xf32>
        yield %b
      } else {
        %y = global_read %X : tile<4xf32>
        yield %y
      }
      conditional lane < 0 { wait -1 }
      conditional wave == 0 { global_write %r, %Y }
    }"""
    assert execute(text, X=np.array([1, 2, 3, 4], np.float32), lanes=4)["Y"].tolist() == [1, 2, 3, 4]


def test_lanes_may_go_round_a_loop_differently_often() -> None:
    text = """
    kernel @f(%Y: global<4xi32>) waves 1 {
      %zero = fill 0.0 : tile<4xi32>
      %one = fill 1.0 : tile<4xi32>
      %n = iterate %k in lane .. 3 carry(%c = %zero : tile<4xi32>) {
        %next = add %c, %one : tile<4xi32>
        yield %next
      }
      global_write %n, %Y
    }"""
    assert execute(text, lanes=4)["Y"].tolist() == [3, 2, 1, 0]


def test_a_lane_has_a_base_of_its_own() -> None:
    text = """
    kernel @f(%T: global<4xi32>, %X: global<8x4xf32>, %Y: global<4xf32>, %Z: global<4xf32>) waves 1 {
      %i = read_index %T[lane]
      %x = global_read %X[inexact(%i), 0] : tile<4xf32>
      global_write %x, %Y
      %t = alloc : lds<4xf32, slots = 2>
      local_write %x, %t[lane mod 2]
      %u = alloc : lds<4xf32, slots = 2>
      local_write %x, %u[1 - lane mod 2]
      %v = view %t[0] : lds<4xf32>
      %w = view %u[0] : lds<4xf32>
      %s = select_view lane mod 2 == 0, %v, %w : lds<4xf32>
      %z = local_read %s : tile<4xf32>
      global_write %z, %Z
    }"""
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    after = execute(text, T=np.array([7, 0, 2, 5], np.int32), X=x, lanes=4)
    assert after["Y"].tolist() == [28, 1, 10, 23]
    assert after["Z"].tolist() == [28, 1, 10, 23]


def test_exit_ends_a_wave_or_some_of_its_lanes() -> None:
    text = """
    kernel @f(%Y: global<4x4xf32>) waves 4 {
      %one = fill 1.0 : tile<4xf32>
      conditional wave == 1 { exit }
      conditional wave == 2 {
        conditional lane >= 2 { exit }
      }
      conditional wave == 3 {
        conditional lane >= 2 { exit } else { exit }
      }
      workgroup_barrier
      global_write %one, %Y[wave]
    }"""
    got = execute(text, Y=zeros(4, 4), lanes=4)["Y"]
    assert got.tolist() == [[1, 1, 1, 1], [0] * 4, [1, 1, 0, 0], [0] * 4]


# --- synchronization ----------------------------------------------------------------------------------------------

EXCHANGE = """
kernel @exchange(%Y: global<4xi32>) waves 4 {{
  %t = alloc : lds<4xi32>
  %w = splat wave + 1 : tile<1xi32>
  local_write %w, %t[wave]
  {sync}
  %r = local_read %t[(wave + 1) mod 4] : tile<1xi32>
  global_write %r, %Y[wave]
}}
"""


@pytest.mark.parametrize(
    "sync",
    [
        "workgroup_barrier",
        "signal -1 wait -1",
        "signal 3 set_wave_prio 1 wait 3",
        "%b = new_barrier : named_barrier<4> signal %b wait %b",
        "conditional wave < 2 { workgroup_barrier } else { shared_memory_barrier lgkmcnt(0) }",
        "conditional_barrier low conditional_barrier high scheduling_barrier",
        "%m = new_barrier : mbarrier<4> mbarrier_arrive %m mbarrier_wait %m parity 0",
    ],
)
def test_every_rendezvous_meets(sync: str) -> None:
    assert execute(EXCHANGE.format(sync=sync))["Y"].tolist() == [2, 3, 4, 1]


def test_without_a_rendezvous_the_neighbour_is_not_there_yet() -> None:
    # Waves take turns one event at a time, so only a wave that does more before its write is late.
    slow = EXCHANGE.replace(
        "  local_write", "  conditional wave == 1 {{ fence wave fence wave fence wave }}\n  local_write"
    )
    assert execute(slow.format(sync=""))["Y"][0] == np.int32(np.uint32(0xA5A5A5A5))
    assert execute(slow.format(sync="workgroup_barrier"))["Y"].tolist() == [2, 3, 4, 1]


def test_stagger_holds_one_half_back_by_one_rendezvous() -> None:
    text = """
    kernel @f(%Y: global<2xi32>) waves 2 {
      %t = alloc : lds<2xi32>
      %one = fill 1.0 : tile<1xi32>
      %two = fill 2.0 : tile<1xi32>
      local_write %one, %t[wave]
      conditional_barrier high
      conditional wave == 0 { fence wave fence wave fence wave fence wave local_write %two, %t[0] }
      workgroup_barrier
      conditional wave == 1 {
        %r = local_read %t[0] : tile<1xi32>
        global_write %r, %Y[0]
      }
      conditional_barrier low
    }"""
    assert execute(text, Y=zeros(2, dtype=np.int32))["Y"][0] == 2


PIPE = """
kernel @pipe(%X: global<6x4xf32>, %Y: global<6x4xf32>) waves 2 {{
  %t = alloc : lds<4xf32, slots = 2>
  {objects}
  specialize {{
    waves 0 .. 1 {{
      iterate %i in 0 .. 6 {{
        {free_wait}
        {produce}
      }}
    }}
    waves 1 .. 2 {{
      iterate %k in 0 .. 6 {{
        {full_wait}
        %r = local_read %t[%k mod 2] : tile<4xf32>
        global_write %r, %Y[%k]
        {free}
      }}
    }}
  }}
}}
"""


def check_pipe(**parts: str) -> None:
    parsed = kernel(PIPE.format(**parts))
    inputs = make_inputs(parsed, seed=7)
    assert np.array_equal(run(parsed, inputs)["Y"], inputs["X"])


def test_producer_and_consumer_with_named_barriers() -> None:
    check_pipe(
        objects="%full = new_barrier : named_barrier<1> %free = new_barrier : named_barrier<1>",
        free_wait="conditional %i >= 2 { wait %free }",
        produce="""%x = global_read %X[%i] : tile<4xf32>
                   local_write %x, %t[%i mod 2]
                   signal %full""",
        full_wait="wait %full",
        free="signal %free",
    )


@pytest.mark.parametrize("order", ["expect first", "copy first"])
def test_producer_and_consumer_with_mbarriers(order: str) -> None:
    arrive = "mbarrier_arrive %full[%i mod 2] expect 16"
    copy = "tensor_load_to_lds %X[%i] to %t[%i mod 2] reports %full[%i mod 2] : tile<4xf32>"
    check_pipe(
        objects="%full = new_barrier : mbarrier<1, slots = 2> %free = new_barrier : mbarrier<1, slots = 2>",
        # The phase before the first counts as complete: a fresh mbarrier lets parity 1 pass.
        free_wait="mbarrier_wait %free[%i mod 2] parity 1 - %i // 2 mod 2",
        produce=f"{arrive} {copy}" if order == "expect first" else f"{copy} {arrive}",
        full_wait="mbarrier_wait %full[%k mod 2] parity %k // 2 mod 2",
        free="mbarrier_arrive %free[%k mod 2]",
    )


def test_a_scheduler_may_let_a_read_stay_in_flight() -> None:
    """A wave goes on with a tile that is not there yet; only a use performs the read."""
    parsed = kernel("""
    kernel @f(%Y: global<4xf32>) waves 1 {
      %t = alloc : lds<4xf32>
      %x = local_read %t : tile<4xf32>
      %last = iterate %k in 0 .. 2 carry(%c = %x : tile<4xf32>) {
        workgroup_barrier
        yield %c
      }
      %r = neg %last : tile<4xf32>
      global_write %r, %Y
    }""")

    class Late(Pending):
        used = False

        def tile(self) -> Any:
            self.used = True
            return np.ones(4, np.float32)

    late = Late()
    env: Env = {"wave": 0, "%Y": GlobalArray("Y", (4,), f32)}
    steps = Wave(parsed.body, env, lds_layout(parsed), waves=1, lanes=64).run()
    seen = [type(steps.send(None)).__name__, type(steps.send(late)).__name__]
    seen += [type(steps.send(None)).__name__ for _ in range(3)]
    assert seen == ["Access", "Arrive", "Depart", "Arrive", "Depart"]
    assert not late.used
    store = steps.send(None)
    assert late.used
    assert isinstance(store, Access)
    assert store.tile is not None
    assert store.tile.tolist() == [-1] * 4


# --- what goes wrong ----------------------------------------------------------------------------------------------


def test_a_hang_says_what_each_wave_waits_for() -> None:
    text = """kernel @f(%n: index) waves 4 {
  %m = new_barrier : mbarrier<1, slots = 2>
  %b = new_barrier : named_barrier<2>
  conditional wave == 0 { exit }
  conditional wave == 1 { workgroup_barrier }
  conditional wave == 2 {
    mbarrier_arrive %m[1] expect 64
    mbarrier_wait %m[1] parity 0
  }
  signal %b
  wait %b
}"""
    assert failure(text) == (
        "error[TG221]: `@f` hangs: no wave can go on\n"
        "  --> k.tide:5:27\n"
        "   |\n"
        " 5 |   conditional wave == 1 { workgroup_barrier }\n"
        "   |                           ----------------- wave 1 waits here\n"
        "...\n"
        " 8 |     mbarrier_wait %m[1] parity 0\n"
        "   |     ---------------------------- wave 2 waits here\n"
        "...\n"
        "11 |   wait %b\n"
        "   |   ------- wave 3 waits here\n"
        "   = workgroup (0, 0, 0)\n"
        "   = wave 1 waits in `workgroup_barrier` for rendezvous 1 of the workgroup barrier: no arrival of wave 2, 3\n"
        "   = wave 2 waits in `mbarrier_wait %m[1] parity 0` for the phase with parity 0 of `%m[1]`: "
        "phase 0 has 1 of 1 arrivals and 64 bytes outstanding\n"
        "   = wave 3 waits in `wait %b` for phase 0 of `%b`: phase 0 has 1 of 2 arrivals\n"
        "   = ended: wave 0\n"
        "   = help: every wave must arrive at a barrier as often as the others wait for it"
    )


def test_a_wait_without_a_signal_hangs() -> None:
    assert "rendezvous 1 of the workgroup barrier: no arrival of wave 0" in failure("kernel @f() waves 1 { wait -1 }")


def test_outside_shared_memory() -> None:
    text = """kernel @f() waves 2 {
  %t = alloc : lds<8x4xf32, slots = 2>
  %u = alloc : lds<64xf32>
  %x = fill 0.0 : tile<2x4xf32>
  iterate %k in 0 .. 4 {
    local_write %x, %t[1][%k * 2 + wave, 0]
  }
}"""
    assert failure(text) == (
        "error[TG301]: `%t` is written outside its bytes\n"
        " --> k.tide:6:5\n"
        "  |\n"
        "6 |     local_write %x, %t[1][%k * 2 + wave, 0]\n"
        "  |     --------------------------------------- written at bytes 256..260 of 256, element (1, 0) of the tile\n"
        "  = workgroup (0, 0, 0), wave 1\n"
        "  = `%t[1][%k * 2 + wave, 0]` lies in `lds<8x4xf32, slots = 2>`\n"
        "  = there %k = 3, wave = 1\n"
        "  = help: keep the index inside the buffer, or guard the access with `bounds` or `mask`"
    )


def test_outside_global_memory() -> None:
    text = """kernel @f(%X: global<NxNxf32>) sizes(N = 10) grid(2) waves 1 {
  %x = global_read %X[0, wg0 * 8] bounds(N, 2 * N) : tile<2x8xf32>
}"""
    assert failure(text) == (
        "error[TG302]: `%X` is read outside the array\n"
        " --> k.tide:2:3\n"
        "  |\n"
        "2 |   %x = global_read %X[0, wg0 * 8] bounds(N, 2 * N) : tile<2x8xf32>\n"
        "  |   ---------------------------------------------------------------- "
        "read at index 10 of 10 in dimension 1, element (0, 2) of the tile\n"
        "  = workgroup (1, 0, 0), wave 0\n"
        "  = `%X[0, wg0 * 8]` lies in an array of 10x10\n"
        "  = there wg0 = 1\n"
        "  = help: guard the access with `bounds` or `mask`"
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("%r = local_read %t[0 - 1] : tile<2xf32>", "TG301"),
        ("%r = local_read %t[inexact(%i)] : tile<4xf32>", "TG301"),
        ("%v = view %t[1] : lds<16xf32>", "TG301"),
        ("atomic_add %x, %t[15]", "TG301"),
        ("gather_to_lds %X to %t[13] : tile<4xf32>", "TG301"),
        ("gather_to_lds %X[1] to %t : tile<4xf32>", "TG302"),
        ("lds_to_global %t to %X[0 - 1] : tile<4xf32>", "TG302"),
        ("%n = read_index %I[4]", "TG302"),
        ("%n = let 4 // (%z - %z)", "TG312"),
        ("iterate %k in 0 .. 4 step %z { }", "TG312"),
        ("mbarrier_arrive %m[2]", "TG304"),
        ("mbarrier_wait %m[0] parity lane", "TG312"),
        ("%r = local_read %t[%z + 1000000000000 * 1000000000000] : tile<4xf32>", "TG312"),
    ],
)
def test_nothing_ends_in_a_traceback(line: str, code: str) -> None:
    text = f"""kernel @f(%X: global<4xf32>, %I: global<4xi32>, %z: index) waves 1 {{
      %t = alloc : lds<16xf32>
      %m = new_barrier : mbarrier<1, slots = 2>
      %x = fill 0.0 : tile<2xf32>
      %i = global_read %I : tile<4xi32>
      {line}
    }}"""
    message = failure(text, I=np.array([0, 1, 16, 2], np.int32))
    assert message.startswith(f"error[{code}]")
    assert line.split(" :")[0] in message, "the message shows the line"


def test_inactive_elements_may_lie_anywhere() -> None:
    text = """
    kernel @f(%X: global<4xf32>, %Y: global<8xf32>) waves 1 {
      %t = alloc : lds<4xf32>
      %i = iota axis 0 : tile<8xi32>
      %four = splat 4 : tile<8xi32>
      %m = lt %i, %four : tile<8xi1>
      %x = global_read %X mask %m : tile<8xf32>
      local_write %x, %t mask %m
      %y = local_read %t bounds(4) : tile<8xf32>
      global_write %y, %Y
    }"""
    assert execute(text, X=np.array([1, 2, 3, 4], np.float32))["Y"].tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


def test_inputs_that_do_not_fit() -> None:
    parsed = kernel("kernel @f(%X: global<Nxf32>, %i: index) sizes(N = 4) where(N mod 4 == 0) waves 1 { }")

    def message(inputs: dict[str, Any], **how: Any) -> str:
        with pytest.raises(SimulationError) as caught:
            run(parsed, inputs, **how)
        assert caught.value.finding.code == "TG022"
        return caught.value.finding.message

    assert message({}) == "`%X` of `@f` is missing"
    assert message({"X": zeros(5), "i": 0}) == "`%X` has shape (5,) where `global<Nxf32>` needs (4,)"
    assert message({"X": zeros(4, dtype=int), "i": 0}) == "`%X` holds int64 where `global<Nxf32>` needs float32"
    assert message({"X": zeros(4), "i": 0, "j": 1}) == "`%j` is not an argument of `@f`"
    assert message({"X": zeros(4), "i": 0}, sizes={"M": 1}) == "`M` is not a size of `@f`"
    assert message({"X": zeros(4), "i": 0}, sizes={"N": 3}) == "`%X` has shape (4,) where `global<Nxf32>` needs (3,)"
    assert (
        message({"X": zeros(3), "i": 0}, sizes={"N": 3})
        == "`@f` assumes `N mod 4 == 0`, which does not hold with N = 3"
    )
    assert message({"X": zeros(4), "i": 0}, sizes={"N": -4}) == "`N` is -4; a size cannot be negative"
    assert message({"X": zeros(4), "i": "a"}) == "`%i` is 'a' where `index` needs a number"
    assert message({"X": zeros(4), "i": 0}, waves=0) == "0 waves of 64 lanes cannot run"


def test_inputs_depend_on_the_seed_alone() -> None:
    parsed = kernel("kernel @f(%X: global<Nxbf16>, %J: global<Nxi8>, %i: index, %f: flag) sizes(N = 64) waves 1 { }")
    first, again, other = make_inputs(parsed), make_inputs(parsed), make_inputs(parsed, seed=1)
    assert np.array_equal(first["X"], again["X"])
    assert not np.array_equal(first["X"], other["X"])
    assert first["X"].dtype == bf16
    assert abs(first["J"]).max() <= 4
    assert (first["i"], first["f"]) == (0, False)
