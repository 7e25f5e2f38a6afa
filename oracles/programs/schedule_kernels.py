"""Kernels whose loops fetch an iteration ahead, as compilers give them to a scheduler: without any barrier or wait.

Needs   tile sizes and waves
Gives   `.tide` text of matrix products, staged through registers or copied asynchronously, and of flash attention; a
        loop body of so many operations
Keeps   all are correct once they are synchronized
"""

from __future__ import annotations

HEAD = (
    "kernel @{name}(%A: global<MxKxf16>, %B: global<NxKxf16>, %C: global<MxNxf32>) "
    "sizes(M = {m}, N = {n}, K = {k4}) where(M mod {m} == 0, N mod {n} == 0, K mod {k} == 0, K >= {k}) "
    "grid(M // {m}, N // {n}) waves {waves} {{"
)


def gemm(m: int, n: int, k: int, *, waves: int = 8, rows: int = 2, target: str = "gfx942") -> str:
    """C = A · Bᵀ with tiles of m by n by k, staged through registers into one slot."""
    columns = waves // rows
    high, wide = m // rows, n // columns
    place = f"wave // {columns} * {high}", f"wave mod {columns} * {wide}"
    fetch = (
        f"%g{{0}} = global_read %A[wg0 * {m} + wave * {m // waves}, {{1}}] : tile<{m // waves}x{k}xf16>",
        f"%h{{0}} = global_read %B[wg1 * {n} + wave * {n // waves}, {{1}}] : tile<{n // waves}x{k}xf16>",
    )
    store = f"local_write %g{{0}}, %a[wave * {m // waves}, 0]", f"local_write %h{{0}}, %b[wave * {n // waves}, 0]"
    acc = f"tile<{high}x{wide}xf32>"
    multiply = (
        f"%x{{0}} = local_read %a[{place[0]}, 0] : tile<{high}x{k}xf16>",
        f"%y{{0}} = local_read %b[{place[1]}, 0] : tile<{wide}x{k}xf16>",
    )
    lines = [
        f"target {target}",
        HEAD.format(name=f"gemm_{m}_{n}_{k}", m=m, n=n, k=k, k4=4 * k, waves=waves),
        f"%a = alloc : lds<{m}x{k}xf16>",
        f"%b = alloc : lds<{n}x{k}xf16>",
        f"%acc = fill 0.0 : {acc}",
        *(each.format(0, 0) for each in (*fetch, *store)),
        f"%sum = iterate %k in 0 .. K // {k} - 1 carry(%c = %acc : {acc}) {{",
        *(each.format(1) for each in multiply),
        *(each.format(1, f"(%k + 1) * {k}") for each in fetch),
        f"%t1 = transpose %y1 : tile<{k}x{wide}xf16>",
        f"%d = mma %x1, %t1, %c : {acc}",
        *(each.format(1) for each in store),
        "yield %d",
        "}",
        *(each.format(2) for each in multiply),
        f"%t2 = transpose %y2 : tile<{k}x{wide}xf16>",
        f"%out = mma %x2, %t2, %sum : {acc}",
        f"global_write %out, %C[wg0 * {m} + {place[0]}, wg1 * {n} + {place[1]}]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def async_gemm(m: int, n: int, k: int, slots: int, *, waves: int = 8, rows: int = 2, target: str = "gfx950") -> str:
    """The same with asynchronous copies, as many tiles ahead as there are slots but one."""
    columns, ahead = waves // rows, slots - 1
    high, wide = m // rows, n // columns
    place = f"wave // {columns} * {high}", f"wave mod {columns} * {wide}"
    copy = (
        f"gather_to_lds %A[wg0 * {m} + wave * {m // waves}, ({{0}}) * {k}] to %a[{{1}}][wave * {m // waves}, 0] "
        f": tile<{m // waves}x{k}xf16>",
        f"gather_to_lds %B[wg1 * {n} + wave * {n // waves}, ({{0}}) * {k}] to %b[{{1}}][wave * {n // waves}, 0] "
        f": tile<{n // waves}x{k}xf16>",
    )
    acc = f"tile<{high}x{wide}xf32>"

    def multiply(name: str, slot: str, given: str, result: str) -> list[str]:
        return [
            f"%x{name} = local_read %a[{slot}][{place[0]}, 0] : tile<{high}x{k}xf16>",
            f"%y{name} = local_read %b[{slot}][{place[1]}, 0] : tile<{wide}x{k}xf16>",
            f"%t{name} = transpose %y{name} : tile<{k}x{wide}xf16>",
            f"%{result} = mma %x{name}, %t{name}, %{given} : {acc}",
        ]

    last = [
        line
        for number in range(ahead)
        for line in multiply(
            f"l{number}",
            f"(K // {k} - {ahead - number}) mod {slots}",
            f"s{number}" if number else "sum",
            f"s{number + 1}" if number + 1 < ahead else "out",
        )
    ]
    head = HEAD.format(name=f"async_{m}_{n}_{k}_{slots}", m=m, n=n, k=k, k4=4 * k, waves=waves)
    lines = [
        f"target {target}",
        head.replace(f"K >= {k}", f"K >= {k * ahead}"),
        f"%a = alloc : lds<{m}x{k}xf16, slots = {slots}>",
        f"%b = alloc : lds<{n}x{k}xf16, slots = {slots}>",
        f"%acc = fill 0.0 : {acc}",
        *(each.format(number, number) for number in range(ahead) for each in copy),
        f"%sum = iterate %k in 0 .. K // {k} - {ahead} carry(%c = %acc : {acc}) {{",
        *(each.format(f"%k + {ahead}", f"(%k + {ahead}) mod {slots}") for each in copy),
        *multiply("1", f"%k mod {slots}", "c", "d"),
        "yield %d",
        "}",
        *last,
        f"global_write %out, %C[wg0 * {m} + {place[0]}, wg1 * {n} + {place[1]}]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def attention(*, waves: int = 8, rows: int = 32, keys: int = 64, depth: int = 64, target: str = "gfx942") -> str:
    """Flash attention, forward: keys and values of the next iteration are fetched into registers."""
    share = keys // waves
    fetch = (
        f"%gk{{0}} = global_read %K[wg1, {{1}} + wave * {share}, 0] : tile<{share}x{depth}xf16>",
        f"%gv{{0}} = global_read %V[wg1, {{1}} + wave * {share}, 0] : tile<{share}x{depth}xf16>",
    )
    store = (f"local_write %gk{{0}}, %keys[wave * {share}, 0]", f"local_write %gv{{0}}, %values[wave * {share}, 0]")
    block = waves * rows

    def body(n: str, top: str, total: str, out: str) -> list[str]:
        wide, one, result = f"tile<{rows}x{keys}xf32>", f"tile<{rows}x1xf32>", f"tile<{rows}x{depth}xf32>"
        return [
            f"%k{n} = local_read %keys[0, 0] : tile<{keys}x{depth}xf16>",
            f"%v{n} = local_read %values[0, 0] : tile<{keys}x{depth}xf16>",
            f"%t{n} = transpose %k{n} : tile<{depth}x{keys}xf16>",
            f"%zero{n} = fill 0.0 : {wide}",
            f"%s{n} = mma %q, %t{n}, %zero{n} : {wide}",
            f"%m{n} = reduce max %s{n} axis 1 : {one}",
            f"%top{n} = max %{top}, %m{n} : {one}",
            f"%wide{n} = broadcast %top{n} : {wide}",
            f"%less{n} = sub %s{n}, %wide{n} : {wide}",
            f"%p{n} = exp %less{n} : {wide}",
            f"%gone{n} = sub %{top}, %top{n} : {one}",
            f"%scale{n} = exp %gone{n} : {one}",
            f"%old{n} = mul %{total}, %scale{n} : {one}",
            f"%sum{n} = reduce add %p{n} axis 1 : {one}",
            f"%total{n} = add %old{n}, %sum{n} : {one}",
            f"%half{n} = cast %p{n} : tile<{rows}x{keys}xf16>",
            f"%scales{n} = broadcast %scale{n} : {result}",
            f"%kept{n} = mul %{out}, %scales{n} : {result}",
            f"%out{n} = mma %half{n}, %v{n}, %kept{n} : {result}",
        ]

    one, result = f"tile<{rows}x1xf32>", f"tile<{rows}x{depth}xf32>"
    lines = [
        f"target {target}",
        f"kernel @attention(%Q: global<HxSx{depth}xf16>, %K: global<HxSx{depth}xf16>, %V: global<HxSx{depth}xf16>, "
        f"%OUT: global<HxSx{depth}xf32>) sizes(H = 1, S = {block}) where(S mod {block} == 0, S mod {keys} == 0, "
        f"S >= {keys}) grid(S // {block}, H) waves {waves} {{",
        f"%keys = alloc : lds<{keys}x{depth}xf16>",
        f"%values = alloc : lds<{keys}x{depth}xf16>",
        f"%q = global_read %Q[wg1, wg0 * {block} + wave * {rows}, 0] : tile<{rows}x{depth}xf16>",
        f"%top = fill -1000.0 : {one}",
        f"%total = fill 0.0 : {one}",
        f"%out = fill 0.0 : {result}",
        *(each.format(0, 0) for each in (*fetch, *store)),
        f"%top_l, %total_l, %out_l = iterate %j in 0 .. S // {keys} - 1 "
        f"carry(%top_c = %top : {one}, %total_c = %total : {one}, %out_c = %out : {result}) {{",
        *body("1", "top_c", "total_c", "out_c")[:2],
        *(each.format(1, f"(%j + 1) * {keys}") for each in fetch),
        *body("1", "top_c", "total_c", "out_c")[2:],
        *(each.format(1) for each in store),
        "yield %top1, %total1, %out1",
        "}",
        *body("2", "top_l", "total_l", "out_l"),
        f"%totals = broadcast %total2 : {result}",
        f"%result = div %out2, %totals : {result}",
        f"global_write %result, %OUT[wg1, wg0 * {block} + wave * {rows}, 0]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def long_body(operations: int, *, waves: int = 8, target: str = "gfx942") -> str:
    """A loop of so many operations: chains of reads and products on several accumulators, tiles fetched ahead."""
    lanes = 4
    groups = (operations - 6) // 4
    lines = [
        f"target {target}",
        "kernel @long(%A: global<128xKxf16>, %C: global<128x128xf32>) sizes(K = 1024) where(K mod 256 == 0, K >= 256) "
        f"waves {waves} {{",
        "%a = alloc : lds<128x256xf16>",
        *(f"%acc{lane} = fill 0.0 : tile<16x16xf32>" for lane in range(lanes)),
        "%g0 = global_read %A[wave * 16, 0] : tile<16x256xf16>",
        "local_write %g0, %a[wave * 16, 0]",
        f"{', '.join(f'%r{lane}' for lane in range(lanes))} = iterate %k in 0 .. K // 256 - 1 "
        f"carry({', '.join(f'%c{lane}_0 = %acc{lane} : tile<16x16xf32>' for lane in range(lanes))}) {{",
        "%g1 = global_read %A[wave * 16, (%k + 1) * 256] : tile<16x256xf16>",
    ]
    count = [0] * lanes
    for number in range(groups):
        lane, column = number % lanes, number % 16 * 16
        row = f"(wave + {number % 7}) mod {waves} * 16"
        lines += [
            f"%x{number} = local_read %a[{row}, {column}] : tile<16x16xf16>",
            f"%y{number} = local_read %a[wave * 16, {column}] : tile<16x16xf16>",
            f"%t{number} = transpose %y{number} : tile<16x16xf16>",
            f"%c{lane}_{count[lane] + 1} = mma %x{number}, %t{number}, %c{lane}_{count[lane]} : tile<16x16xf32>",
        ]
        count[lane] += 1
    lines += [
        "local_write %g1, %a[wave * 16, 0]",
        f"yield {', '.join(f'%c{lane}_{count[lane]}' for lane in range(lanes))}",
        "}",
        *(f"global_write %r{lane}, %C[wave * 16, {lane * 16}]" for lane in range(lanes)),
        "}",
    ]
    return "\n".join(lines) + "\n"
