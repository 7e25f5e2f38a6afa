"""Kernels of any size, the same for the same number of operations: a pipelined body repeated in loops and nests.

Gives   `make_kernel(n)`, through the builder, and `traced_kernel(n)`, through a Python function
"""

from __future__ import annotations

import tidegate as tg
from tidegate.index import Binary, Compare, Const, Index, Name
from tidegate.language import ops
from tidegate.language.builder import Builder
from tidegate.language.ops import Carried, Kernel, Place, Value
from tidegate.language.types import Global, Lds, Tile, f16, f32

TILE = Tile((16, 32), f16)
WIDE = Tile((32, 32), f16)
ACC = Tile((32, 32), f32)
OPS_PER_BODY = 8
BODIES_PER_LOOP = 2
K = tg.size("K", 128)


def make_kernel(count: int) -> Kernel:
    """About `count` operations: loops of two bodies, every fourth loop holds another loop."""
    builder = Builder(spans=False)
    source = Value("%A", Global(("M", "K"), f16))
    dest = Value("%C", Global(("M", "K"), f32))
    buffer = builder.fresh("a", Lds((64, 32), f16, 2))
    builder.emit(ops.Alloc(buffer))
    acc = builder.fill(0.0, ACC)
    made, loops = 2, 0
    while made < count:
        acc, more = _loop(builder, source, buffer, acc, nested=loops % 4 == 3)
        made += more
        loops += 1
    builder.emit(ops.GlobalWrite(acc, Place(dest, index=(Const(0), Const(0)))))
    rows, columns = Binary("mod", Name("M"), Const(64)), Binary("mod", Name("K"), Const(32))
    return builder.kernel(
        "bench",
        (source, dest),
        4,
        sizes=(ops.Size("M", 64), ops.Size("K", 128)),
        where=(Compare("==", rows, Const(0)), Compare("==", columns, Const(0))),
        target="gfx942",
    )


def _loop(builder: Builder, source: Value, buffer: Value, acc: Value, *, nested: bool) -> tuple[Value, int]:
    counter = builder.counter("k")
    inside = builder.fresh("acc", ACC)
    builder.open()
    value, made = inside, 1
    for _ in range(BODIES_PER_LOOP):
        value = _body(builder, source, buffer, counter, value)
        made += OPS_PER_BODY
    if nested:
        value, more = _loop(builder, source, buffer, value, nested=False)
        made += more
    body = builder.close((value,))
    upper = Binary("//", Name("K"), Const(32))
    (result,) = builder.loop(Const(0), upper, body, counter, (Carried(inside, acc),))
    return result, made


def _body(builder: Builder, source: Value, buffer: Value, counter: Value, acc: Value) -> Value:
    row: Index = Binary("*", Name("wave"), Const(16))
    slot = Binary("mod", Name(counter.name), Const(2))
    loaded, read, turned = builder.fresh("t", TILE), builder.fresh("r", WIDE), builder.fresh("u", WIDE)
    scaled, result = builder.fresh("s", WIDE), builder.fresh("m", ACC)
    column = Binary("*", Name(counter.name), Const(32))
    builder.emit(ops.GlobalRead(loaded, Place(source, index=(row, column))))
    builder.emit(ops.LocalWrite(loaded, Place(buffer, slot, (row, Const(0)))))
    builder.emit(ops.SharedMemoryBarrier())
    half = Binary("*", Binary("//", Name("wave"), Const(2)), Const(32))
    builder.emit(ops.LocalRead(read, Place(buffer, slot, (half, Const(0)))))
    builder.emit(ops.Transpose(turned, read))
    builder.emit(ops.Elementwise(scaled, "mul", (read, turned)))
    builder.emit(ops.Mma(result, scaled, turned, acc))
    builder.emit(ops.SharedMemoryBarrier())
    return result


def traced_kernel(count: int) -> tg.KernelFunction:
    """The same body, written in Python and unrolled to `count` operations."""
    m = tg.size("M", 64)

    @tg.kernel(waves=4, target="gfx942", sizes=(K,))
    def bench(A: tg.Global[m, K, f16], C: tg.Global[m, K, f32]):
        a = tg.alloc((64, 32), f16, slots=2)
        acc = tg.zeros((32, 32), f32)
        for k in tg.iterate(K // 32):
            for _ in range(count // OPS_PER_BODY):
                tile = tg.global_read(A, (tg.wave() * 16, k * 32), (16, 32))
                tg.local_write(tile, a, (tg.wave() * 16, 0), slot=k % 2)
                tg.shared_memory_barrier()
                read = tg.local_read(a, (tg.wave() // 2 * 32, 0), (32, 32), slot=k % 2)
                turned = read.T
                acc = tg.mma(read * turned, turned, acc)
                tg.shared_memory_barrier()
        tg.global_write(acc, C, (0, 0))

    return bench


def count_ops(kernel: Kernel) -> int:
    return sum(1 for _ in ops.walk_ops(kernel.body))


def gemm_of_eight_waves() -> tg.KernelFunction:
    """C = A · Bᵀ, double buffered: eight waves on a tile of 128×128, 32 of K at a time, one barrier for each."""
    m, n, k_size = tg.sizes(M=256, N=256, K=1024)

    @tg.kernel(
        waves=8,
        target="gfx942",
        grid=(m // 128, n // 128),
        where=[m % 128 == 0, n % 128 == 0, k_size % 32 == 0],
    )
    def gemm(A: tg.Global[m, k_size, f16], B: tg.Global[n, k_size, f16], C: tg.Global[m, n, f32]):
        a = tg.alloc((128, 32), f16, slots=2)
        b = tg.alloc((128, 32), f16, slots=2)
        wave, top, left = tg.wave(), tg.workgroup(0) * 128, tg.workgroup(1) * 128
        row, column = wave // 4 * 64, wave % 4 * 32
        acc = tg.fill((64, 32), f32)
        for k in tg.iterate(k_size // 32):
            a_part = tg.global_read(A, (top + wave * 16, k * 32), (16, 32))
            b_part = tg.global_read(B, (left + wave * 16, k * 32), (16, 32))
            tg.local_write(a_part, a, (wave * 16, 0), slot=k % 2)
            tg.local_write(b_part, b, (wave * 16, 0), slot=k % 2)
            tg.shared_memory_barrier()  # RAW: tile k is written; WAR: tile k - 1 is read, its slot is free for k + 1
            a_tile = tg.local_read(a, (row, 0), (64, 32), slot=k % 2)
            b_tile = tg.local_read(b, (column, 0), (32, 32), slot=k % 2)
            acc = tg.mma(a_tile, b_tile.T, acc)
        tg.global_write(acc, C, (top + row, left + column))

    return gemm
