"""Kernels of up to 100 lines and 16 waves, the same ones for the same seed: what a user may hand to any command.

    text = draw_text(7)     `.tide` text; correct or racy, synchronized or not

Four in ten come from the generators of the tests, with larger parameters. The others are drawn here as text: loops up
to three deep with symbolic bounds, slots by counter, indices with `xor`, `mod`, `//`, `select`, masks, conditions on
waves, counters, flags and sizes, copies with counts or groups, split barriers, staggers, named barriers and mbarriers.
Text that has no meaning is not kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from oracles.programs.random_async import random_async_kernel
from oracles.programs.random_bodies import draw_body
from oracles.programs.random_kernels import runnable_kernel
from oracles.programs.random_sync import random_kernel_program
from tidegate.diag import BadInput
from tidegate.language.check import check
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.targets import load_target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.language.ops import Kernel

MOST_LINES, MOST_WAVES = 100, 16
TARGETS = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250", "sm_80", "sm_90")
SPLIT = ("gfx1201", "gfx1250")
COPIES = {
    "gfx942": ("gather_to_lds", "vmcnt"),
    "gfx950": ("gather_to_lds", "vmcnt"),
    "gfx1250": ("gather_to_lds", "asynccnt"),
    "sm_80": ("gather_to_lds", "group"),
    "sm_90": ("gather_to_lds", "group"),
}
WAYS = ("none", "some", "all", "all")  # how much synchronization stands in a text: after which share of accesses
MOST_LDS = 48 << 10


def draw_text(seed: int) -> str:
    """The text with this seed."""
    rng = random.Random(f"slow {seed}")
    while True:
        text = rng.choice(DRAWN)(rng)
        if text is not None and len(text.splitlines()) <= MOST_LINES and has_meaning(text):
            return text


def has_meaning(text: str) -> bool:
    """Whether a program can be made of it, for its target."""
    try:
        (kernel,) = parse(text).kernels
    except BadInput:
        return False
    found = check(kernel, load_target(kernel.target))
    return kernel.waves <= MOST_WAVES and not any(each.is_bad_input for each in found)


def _runnable(rng: random.Random) -> str:
    return show(runnable_kernel(rng, rng.choice(TARGETS), rng.choice((24, 32, 40, 48, 56))))


def _pipelined(rng: random.Random) -> str:
    return show(draw_body(rng.randrange(100_000)).kernel)


def _unsynchronized(rng: random.Random) -> str:
    return _named(random_kernel_program(rng)[0])


def _copying(rng: random.Random) -> str:
    return _named(random_async_kernel(rng)[0])


def _named(kernel: Kernel) -> str:
    return show(kernel)


def _drawn(rng: random.Random) -> str:
    return _Text(rng).make()


DRAWN: tuple[Callable[[random.Random], str], ...] = (
    *(_runnable, _pipelined, _unsynchronized, _copying),
    *(_drawn,) * 6,
)


class _Text:
    """One kernel on its way to its text. `left` is how many more lines it may have."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.target = rng.choice(TARGETS)
        self.waves = rng.choice((1, 2, 4, 4, 8, 8, 16, 16))
        self.left = rng.choice((12, 20, 30, 45, 60, 80))
        self.sync = rng.choice(WAYS)
        self.lines: list[str] = []
        self.depth = self.number = self.ahead = 0
        self.counters: list[str] = []
        self.uniform = True
        self.tiles: list[list[str]] = [[]]  # names of tiles that are visible, by region
        self.buffers: list[tuple[str, int, int, int]] = []  # name, rows, columns, slots
        self.objects = rng.random() < 0.3 and self.target in ("gfx1250", "sm_80", "sm_90")

    # --- the whole ---

    def make(self) -> str:
        rng = self.rng
        used = 0
        for number in range(rng.choice((1, 2, 2, 3, 4, 6))):
            rows, columns, slots = (
                self.waves * rng.choice((1, 1, 2, 4)),
                rng.choice((4, 8, 16, 32)),
                rng.choice((1, 1, 2, 2, 3, 4)),
            )
            if (used := used + rows * columns * slots * 4) <= MOST_LDS or not self.buffers:
                self.buffers.append((f"%b{number}", rows, columns, slots))
        for name, rows, columns, slots in self.buffers:
            more = f", slots = {slots}" if slots > 1 else ""
            self.line(f"{name} = alloc : lds<{rows}x{columns}xi32{more}>")
        self.prepare_objects()
        if self.waves % 2 == 0 and rng.random() < 0.15:
            self.staggered()
        while self.left > 0:
            self.part()
        head = [
            f"target {self.target}",
            "",
            "kernel @drawn(%X: global<256x256xi32>, %flag: flag, %n: index)",
            "    sizes(N = 4, M = 3, K = 8)",
            f"    where({rng.choice(('K mod 4 == 0', 'N >= 1', 'K mod 2 == 0, M <= 8', 'N > M'))})",
            f"    waves {self.waves} {{",
        ]
        return "\n".join([*head, *self.lines, "}", ""])

    def line(self, text: str) -> None:
        self.lines.append(f"{'  ' * (self.depth + 1)}{text}")
        self.left -= 1

    def fresh(self, hint: str) -> str:
        self.number += 1
        return f"%{hint}{self.number}"

    @contextmanager
    def region(self, head: str, *, uniform: bool = True) -> Iterator[None]:
        self.line(f"{head} {{")
        self.depth += 1
        self.tiles.append([])
        kept, self.uniform = self.uniform, self.uniform and uniform
        yield
        self.uniform = kept
        self.tiles.pop()
        self.depth -= 1
        self.lines.append(f"{'  ' * (self.depth + 1)}}}")

    # --- structure ---

    def part(self) -> None:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.16 and len(self.counters) < 3:
            self.loop()
        elif kind < 0.30 and self.depth < 5:
            self.condition()
        elif kind < 0.36 and self.objects and self.uniform:
            self.exchange()
        elif kind < 0.44 and self.uniform and self.sync != "none":
            self.barrier()
        else:
            self.access()
            if self.uniform and (self.sync == "all" or (self.sync == "some" and rng.random() < 0.3)):
                self.barrier()

    def parts(self, count: int = 0) -> None:
        for _ in range(count or self.rng.choice((1, 2, 3, 5))):
            if self.left > 0 or not count:
                self.part()

    def loop(self) -> None:
        counter = self.fresh("k")
        lower = self.rng.choice(("0", "0", "0", "1"))
        upper = self.rng.choice(("N", "M", "K // 4", "N - 1", "2", "4", "16", "%n", "N + M"))
        if self.counters and self.rng.random() < 0.25:
            upper = f"{self.counters[-1]} + 1"
        with self.region(f"iterate {counter} in {lower} .. {upper}"):
            self.counters.append(counter)
            self.parts(self.rng.choice((2, 3, 4, 6)))
            self.counters.pop()

    def condition(self) -> None:
        rng = self.rng
        uniform = rng.random() < 0.6
        cond = (
            self.uniform_cond()
            if uniform
            else rng.choice(
                (
                    f"wave < {max(1, self.waves // 2)}",
                    "wave == 0",
                    "wave mod 2 == 0",
                    f"wave >= {self.waves // 4}",
                    "wave // 2 mod 2 == 1",
                )
            )
        )
        with self.region(f"conditional {cond}", uniform=uniform):
            self.parts(rng.choice((1, 2, 3)))
        if rng.random() < 0.3:
            self.lines[-1] += " else {"
            self.depth += 1
            self.tiles.append([])
            kept, self.uniform = self.uniform, self.uniform and uniform
            self.parts(rng.choice((1, 2)))
            self.uniform = kept
            self.tiles.pop()
            self.depth -= 1
            self.lines.append(f"{'  ' * (self.depth + 1)}}}")

    def uniform_cond(self) -> str:
        rng = self.rng
        known = ["%flag", "N > 2", "M + N < K", "%n > 3"]
        for counter in self.counters:
            known += [f"{counter} + 1 < N", f"{counter} > 0", f"{counter} mod 2 == 0", f"{counter} + 2 < K // 4"]
        return rng.choice(known)

    # --- accesses ---

    def access(self) -> None:
        kind = self.rng.random()
        if kind < 0.4:
            self.write()
        elif kind < 0.8:
            self.read()
        elif kind < 0.9 or self.target not in COPIES:
            self.line(f"atomic_add {self.tile(1, 4)}, {self.place()}")
        else:
            self.copy()

    def write(self) -> None:
        mask = ""
        if self.rng.random() < 0.15:
            mask = f" bounds({self.rng.choice(('N', 'K', '%n'))}, 4)"
        self.line(f"local_write {self.tile(1, 4)}, {self.place()}{mask}")

    def read(self) -> None:
        name = self.fresh("r")
        self.line(f"{name} = local_read {self.place()} : tile<1x4xi32>")
        self.tiles[-1].append(name)

    def copy(self) -> None:
        op, counter = COPIES[self.target]
        row = self.index(256)
        self.line(f"{op} %X[{row}, 0] to {self.place()} : tile<1x4xi32>")
        if counter == "group":
            self.line("commit_group")
        self.ahead += 1
        if self.sync != "none" and self.rng.random() < 0.7:
            self.line(f"wait_count {counter}({self.rng.choice((0, 0, 1, 2))})")

    def tile(self, rows: int, columns: int) -> str:
        known = [name for region in self.tiles for name in region]
        if known and self.rng.random() < 0.8:
            return self.rng.choice(known[-6:])
        name = self.fresh("t")
        self.line(f"{name} = splat wave : tile<{rows}x{columns}xi32>")
        self.tiles[-1].append(name)
        return name

    def place(self) -> str:
        name, rows, columns, slots = self.rng.choice(self.buffers)
        slot = f"[{self.slot(slots)}]" if slots > 1 else ""
        column = self.rng.choice(("0", "0", str(columns - 4), f"({self.term()}) mod {columns // 4} * 4"))
        return f"{name}{slot}[{self.row(rows)}, {column}]"

    def row(self, rows: int) -> str:
        rng = self.rng
        own = rows // self.waves
        mine = f"wave * {own} + ({self.term()}) mod {own}" if own > 1 else "wave"
        kind = rng.random()
        if kind < 0.4:
            return mine
        if kind < 0.55:
            return f"(wave + {rng.choice((1, 2, 3))}) mod {self.waves}"
        if kind < 0.8 and rows & (rows - 1) == 0:
            return f"inexact((({self.term()}) xor ({rng.choice(('wave', '1', '3', self.term()))})) mod {rows})"
        return self.index(rows)

    def slot(self, slots: int) -> str:
        if self.counters and self.rng.random() < 0.75:
            return f"({self.rng.choice(self.counters)} + {self.rng.choice((0, 0, 1, 2))}) mod {slots}"
        return self.rng.choice((str(self.rng.randrange(slots)), f"wave mod {slots}", f"({self.term()}) mod {slots}"))

    def index(self, limit: int) -> str:
        return self.rng.choice(
            (
                f"({self.term()}) mod {limit}",
                f"({self.term()} + {self.term()}) mod {limit}",
                f"min(max({self.term()}, 0), {limit - 1})",
                f"select({self.uniform_cond()}, ({self.term()}) mod {limit}, 0)",
            )
        )

    def term(self) -> str:
        rng = self.rng
        leaves = ["wave", "wave", "N", "M", "%n", "wg0", *self.counters, *self.counters]
        leaf = rng.choice(leaves)
        return rng.choice(
            (leaf, leaf, f"{leaf} * {rng.choice((2, 3, 4))}", f"{leaf} // 2", f"{leaf} + {rng.choice((1, 2, 5))}")
        )

    # --- synchronization ---

    def barrier(self) -> None:
        rng = self.rng
        asynchronous = " wait_async_ops" if self.ahead and rng.random() < 0.6 else ""
        if self.target in SPLIT and rng.random() < 0.35:
            drain = "asynccnt(0) dscnt(0)" if self.target == "gfx1250" else "dscnt(0)"
            self.line(f"wait_count {drain}")
            self.line("signal -1")
            self.line("wait -1")
        else:
            self.line(f"shared_memory_barrier{asynchronous}")

    def staggered(self) -> None:
        """One half is held back around a loop."""
        half = self.rng.choice(("low", "high"))
        self.line(f"conditional_barrier {half}")
        self.loop()
        self.line(f"conditional_barrier {'high' if half == 'low' else 'low'}")

    def prepare_objects(self) -> None:
        if not self.objects:
            return
        self.kind = (
            "mbarrier" if self.target == "sm_90" else "named_barrier" if self.target == "gfx1250" else "mbarrier"
        )
        self.line(f"%o = new_barrier : {self.kind}<{self.waves}{', slots = 2' if self.kind == 'mbarrier' else ''}>")
        self.phase = 0

    def exchange(self) -> None:
        """All waves write, arrive, wait, read."""
        self.write()
        if self.kind == "named_barrier":
            self.line("signal %o")
            self.line("wait %o")
        elif self.counters:
            counter = self.counters[-1]
            self.line(f"mbarrier_arrive %o[{counter} mod 2]")
            self.line(f"mbarrier_wait %o[{counter} mod 2] parity {counter} // 2 mod 2")
        else:
            self.line("mbarrier_arrive %o[0]")
            self.line(f"mbarrier_wait %o[0] parity {self.phase % 2}")
            self.phase += 1
        self.read()
