"""The cost model against the clock: a pipelined matrix product with three, two and one barriers per iteration.

The times were measured on an H200, before over after; the model is given the same kernels, the facts of the target, and
what the hardware decides before a kernel runs: how many workgroups share a compute unit, and whether the matrices fit
into the cache. `python -m bench cost-ranking`
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.graph.build import build_graph
from tidegate.language.parse import parse
from tidegate.simulate.cycles import estimate
from tidegate.targets import Target, load_target

TARGET = "sm_90"
PLANS = ("three", "two", "one")
# Workgroups are numbered so that this many rows of tiles are worked on together.
GROUPED = 8
# Registers of a thread for addresses and counters, beside accumulators and operands; registers of a compute unit.
ADDRESSES, REGISTERS, WARP = 40, 65536, 32
# A measured ratio this close to 1 is no difference, as two runs of one kernel differ by as much; a ratio of the model,
# which is the same each time, if it is this close.
NOISE, EQUAL = 0.0101, 0.005


@dataclass(frozen=True, slots=True)
class Shape:
    """A problem: C of m by n from k products each."""

    m: int
    n: int
    k: int

    @property
    def bytes(self) -> int:
        return 2 * self.k * (self.m + self.n)


@dataclass(frozen=True, slots=True)
class Tile:
    """A kernel: its tile, slots of shared memory, and waves in rows and columns."""

    m: int
    n: int
    k: int
    slots: int
    rows: int
    columns: int

    @property
    def waves(self) -> int:
        return self.rows * self.columns

    @property
    def lds(self) -> int:
        return 2 * self.slots * self.k * (self.m + self.n)

    def registers(self) -> int:
        """Of a thread: accumulators, two slices of operands, addresses; in steps of 8."""
        rows, columns = self.m // self.rows, self.n // self.columns
        used = rows * columns // WARP + 2 * (rows + columns) * 16 // 2 // WARP + ADDRESSES
        return min(255, -(-used // 8) * 8)

    def workgroups(self, target: Target) -> int:
        """How many share a compute unit: by shared memory, by waves, by registers."""
        cost = target.cost
        limits = (
            cost.unit_lds // (self.lds + 1024),
            cost.unit_waves // self.waves,
            REGISTERS // (self.registers() * WARP * self.waves),
        )
        return max(1, min(limits))


LARGE, FLAT = Shape(4096, 4096, 4096), Shape(8192, 8192, 1024)
# Time with three barriers over time with one and the wait moved before the copies: for LARGE, for FLAT. With three
# slots there is one number, which is taken for both.
MEASURED: dict[Tile, tuple[float, float]] = {
    Tile(128, 128, 64, 2, 2, 2): (0.97, 1.03),
    Tile(128, 128, 32, 2, 2, 2): (0.85, 0.98),
    Tile(64, 64, 32, 2, 2, 2): (0.87, 1.04),
    Tile(128, 256, 32, 2, 2, 4): (0.84, 0.98),
    Tile(64, 128, 32, 3, 2, 2): (1.08, 1.08),
}


def kernel_of(tile: Tile, plan: str) -> str:
    """The text of the kernel: slices of 16 are read one ahead of the product; copies are as many tiles ahead as there
    are slots.
    """
    share_a, share_b = tile.m // tile.waves, tile.n // tile.waves
    rows, columns = tile.m // tile.rows, tile.n // tile.columns

    def copies(step: str, slot: str, between: str = "") -> list[str]:
        found = [
            f"gather_to_lds %A[wg0 * {tile.m} + wave * {share_a}, ({step}) * {tile.k}] "
            f"to %a[{slot}][wave * {share_a}, 0] : tile<{share_a}x{tile.k}xf16>",
            between,
            f"gather_to_lds %B[wg1 * {tile.n} + wave * {share_b}, ({step}) * {tile.k}] "
            f"to %b[{slot}][wave * {share_b}, 0] : tile<{share_b}x{tile.k}xf16>",
            "commit_group",
        ]
        return [each for each in found if each]

    def read(slice_: int) -> list[str]:
        row, column = f"wave // {tile.columns} * {rows}", f"wave mod {tile.columns} * {columns}"
        return [
            f"%a{slice_} = local_read %a[%k mod {tile.slots}][{row}, {slice_ * 16}] : tile<{rows}x16xf16>",
            f"%b{slice_} = local_read %b[%k mod {tile.slots}][{column}, {slice_ * 16}] : tile<{columns}x16xf16>",
            f"%t{slice_} = transpose %b{slice_} : tile<16x{columns}xf16>",
        ]

    acc, slices = f"tile<{rows}x{columns}xf32>", tile.k // 16
    body = read(0)
    for number in range(slices):
        if number + 1 < slices:
            body += read(number + 1)
        body.append(f"%c{number + 1} = mma %a{number}, %t{number}, %c{number} : {acc}")
    barrier, ahead = "workgroup_barrier", f"(%k + {tile.slots}) mod {tile.slots}"
    filled = copies(f"%k + {tile.slots}", ahead, barrier if plan == "three" else "")
    if plan == "one":
        body += [f"wait_count group({tile.slots - 2})", barrier, *filled]
    else:
        body += [barrier, *filled, f"wait_count group({tile.slots - 1})", barrier]
    start = [line for slot in range(tile.slots) for line in copies(str(slot), str(slot))]
    start += [f"wait_count group({tile.slots - 1})", barrier]
    lines = [
        f"target {TARGET}",
        "kernel @matmul(%A: global<MxKxf16>, %B: global<NxKxf16>, %C: global<MxNxf32>) "
        f"sizes(M = {LARGE.m}, N = {LARGE.n}, K = {LARGE.k}) grid(M // {tile.m}, N // {tile.n}) waves {tile.waves} {{",
        f"%a = alloc : lds<{tile.m}x{tile.k}xf16, slots = {tile.slots}>",
        f"%b = alloc : lds<{tile.n}x{tile.k}xf16, slots = {tile.slots}>",
        f"%acc = fill 0.0 : {acc}",
        *start,
        f"%out = iterate %k in 0 .. K // {tile.k} carry(%c0 = %acc : {acc}) {{",
        *body,
        f"yield %c{slices}",
        "}",
        f"global_write %out, %C[wg0 * {tile.m} + wave // {tile.columns} * {rows}, "
        f"wg1 * {tile.n} + wave mod {tile.columns} * {columns}]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def reuse(tile: Tile, shape: Shape, at_once: int) -> int:
    """How many of the workgroups that run at once read the same tile, on average over both operands."""
    rows = min(GROUPED, shape.m // tile.m)
    columns = min(max(1, at_once // rows), shape.n // tile.n)
    asked = rows * columns * (tile.m + tile.n)
    return max(1, asked // (rows * tile.m + columns * tile.n))


def modelled(tile: Tile, shape: Shape, target: Target) -> dict[str, float]:
    """Cycles of the workgroups on one compute unit, for each plan."""
    workgroups, cached = tile.workgroups(target), shape.bytes <= target.cost.cache_size
    found = {}
    for plan in PLANS:
        (kernel,) = parse(kernel_of(tile, plan)).kernels
        graph = build_graph(kernel, target).graph
        sizes = {"M": shape.m, "N": shape.n, "K": shape.k}
        shared = reuse(tile, shape, 132 * workgroups)
        found[plan] = estimate(graph, target, sizes=sizes, cached=cached, reuse=shared, workgroups=workgroups).cycles
    return found


def verdict(measured: float, model: float) -> str:
    """Whether the model puts the two plans in the order that the clock does."""
    if abs(measured - 1) <= NOISE:
        return "yes" if abs(model - 1) <= NOISE else "**no**"
    if abs(model - 1) <= EQUAL:
        return "undecided"
    return "yes" if (measured > 1) == (model > 1) else "**no**"


def run() -> tuple[str, bool]:
    target = load_target(TARGET)
    lines = [
        "| tile | slots | workgroups | problem | three / two | three / one | measured three / one | ranked alike |",
        "|---|---:|---:|---|---:|---:|---:|---|",
    ]
    said = []
    for tile, times in MEASURED.items():
        for shape, measured in zip((LARGE, FLAT), times, strict=True):
            cycles = modelled(tile, shape, target)
            model = cycles["three"] / cycles["one"]
            said.append(verdict(measured, model))
            lines.append(
                f"| {tile.m}×{tile.n}×{tile.k} | {tile.slots} | {tile.workgroups(target)} "
                f"| {shape.m}×{shape.n}×{shape.k} | {cycles['three'] / cycles['two']:.3f} | {model:.3f} "
                f"| {measured:.2f} | {said[-1]} |"
            )
    wrong = said.count("**no**")
    lines += [
        "",
        f"{said.count('yes')} of {len(said)} alike, {said.count('undecided')} undecided, {wrong} the other way.",
    ]
    return "\n".join(lines), wrong == 0
