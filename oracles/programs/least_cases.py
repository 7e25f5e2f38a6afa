"""Small random kernels with few places for a barrier, so that every set of places can be tried.

Needs   the kernel language alone
Gives   `draw(seed, kind)`: a kernel as text, its graph, and the places where a barrier may stand
Keeps   the same kernel for the same seed and kind; at most `MOST_STATEMENTS` statements and `MOST_PLACES` places; each
        kernel needs at least one barrier or wait, unless none was found in `MOST_DRAWS` draws

The kinds lean towards what a placement gets wrong: accesses before a loop that meet those inside it only from a later
iteration on, accesses in a loop that meet those behind it only in some last iterations, loops that may not run at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.language import ops
from tidegate.language.parse import parse
from tidegate.targets import Target, load_target
from tidegate.verify.verify import is_ordered

KINDS = ("line", "loop", "late", "tail", "zero", "two", "nest", "guard", "branch", "copies", "ahead", "standing")
TARGETS = ("gfx942", "gfx950", "gfx1100", "gfx1201", "sm_80", "sm_90", "gfx1250")
WITH_COPIES = ("gfx942", "gfx950", "gfx950", "sm_80", "sm_90", "gfx1250")
MOST_STATEMENTS, MOST_PLACES, MOST_DRAWS = 9, 8, 40
SIZES = ("N", "M")
GLOBAL = "global<4x128xf32>"


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    kind: str
    text: str
    kernel: ops.Kernel
    graph: g.SyncGraph
    target: Target
    places: tuple[int, ...]
    known_trips: bool  # no size decides anything: one run of the simulator decides the kernel


def draw(seed: int, kind: str = "") -> Case:
    """The kernel of a seed; without a kind, the seed decides that too."""
    kind = kind or KINDS[seed % len(KINDS)]
    rng = random.Random(f"least {kind} {seed}")
    last: Case | None = None
    for _ in range(MOST_DRAWS):
        maker = _Maker(rng, kind)
        text = maker.make()
        if maker.statements > MOST_STATEMENTS:
            continue
        case = case_of(text, seed, kind)
        if len(case.places) > MOST_PLACES:
            continue
        last = case
        if not is_ordered(case.graph, case.target):
            return last
    assert last is not None, f"no kernel of kind {kind} has so few places"
    return last


def case_of(text: str, seed: int = 0, kind: str = "") -> Case:
    """A kernel that is given as text."""
    kernel = parse(text).kernels[0]
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    return Case(seed, kind, text, kernel, graph, target, find_places(graph), not graph.sizes and not graph.free)


def find_places(graph: g.SyncGraph) -> tuple[int, ...]:
    """Points before which a barrier may matter, one for each stretch in which nothing touches or orders memory."""
    allowed = [number for number, point in enumerate(graph.points) if point.insertable and point.under == "uniform"]
    after = g.predecessors(graph)
    touching = [number for number, point in enumerate(graph.points) if isinstance(point.action, g.Access)]
    behind = g.reached_from(touching, [point.successors for point in graph.points])
    ahead = g.reached_from(touching, after)
    kept = []
    for number in allowed:
        point = graph.points[number]
        following = point.successors[0] if len(point.successors) == 1 else -1
        silent = not isinstance(point.action, g.Access | g.Sync)
        same = silent and following in allowed and after[following] == [number]
        if same and graph.points[following].weight == point.weight:
            continue  # a barrier before the next point does the same
        if number in ahead and any(each in behind for each in after[number]):
            kept.append(number)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class _Buffer:
    name: str
    slots: int
    width: int


@dataclass(frozen=True, slots=True)
class _Counter:
    name: str
    upper: str  # as text


class _Maker:
    """One kernel: a kind decides the shape, chance the rest."""

    def __init__(self, rng: random.Random, kind: str) -> None:
        self.rng, self.kind = rng, kind
        self.copies = kind in ("copies", "ahead") or (kind != "line" and rng.random() < 0.2)
        self.target = rng.choice(WITH_COPIES if self.copies else TARGETS)
        self.waves = rng.choice((2, 2, 3, 4))
        many = (2, 2, 3, 3, 4) if kind in ("late", "tail", "ahead") else (1, 1, 2, 2, 3, 4)
        widths = (64, 64, 128) if self.copies else (64,)
        self.buffers = [
            _Buffer(name, rng.choice(many), rng.choice(widths)) for name in "abc"[: rng.choice((1, 1, 1, 2, 2, 3))]
        ]
        self.lines: list[str] = []
        self.counters: list[_Counter] = []
        self.where: list[str] = []
        self.sizes: list[str] = []
        self.flags = 0
        self.statements = self.names = 0

    def make(self) -> str:
        shapes: dict[str, Callable[[], None]] = {
            "line": lambda: self.accesses(3, 6),
            "late": self.late,
            "tail": self.tail,
            "zero": self.zero,
            "two": self.two,
            "nest": self.nest,
            "guard": self.guarded,
            "branch": self.branches,
            "ahead": self.prefetched,
        }
        shape = shapes.get(self.kind, self.loop)
        if self.kind in ("copies", "standing"):
            shape = self.rng.choice((self.loop, self.late, self.tail, self.two, self.guarded, shapes["line"]))
        shape()
        if self.kind == "standing":
            self.sprinkle()
        return self.text()

    # --- shapes ---

    def loop(self) -> None:
        self.accesses(0, 2)
        self.iterate(lambda: self.accesses(1, 4))
        self.accesses(0, 2)

    def late(self) -> None:
        """Constant slots before the loop, rotating ones in it."""
        self.accesses(1, 3)
        self.iterate(lambda: self.accesses(1, 3, rotating=True))
        self.accesses(0, 1)

    def tail(self) -> None:
        """Rotating slots in the loop, constant ones or those of the last iterations behind it."""
        self.accesses(0, 1)
        self.iterate(lambda: self.accesses(1, 3, rotating=True))
        self.accesses(1, 3)

    def zero(self) -> None:
        self.accesses(1, 2)
        self.iterate(lambda: self.accesses(1, 3), least=0)
        self.accesses(1, 2)

    def two(self) -> None:
        self.accesses(0, 1)
        self.iterate(lambda: self.accesses(1, 2))
        self.accesses(0, 1)
        self.iterate(lambda: self.accesses(1, 2))
        self.accesses(0, 1)

    def nest(self) -> None:
        def body() -> None:
            self.accesses(0, 1)
            self.iterate(lambda: self.accesses(1, 2))
            self.accesses(0, 1)

        self.accesses(0, 1)
        self.iterate(body)
        self.accesses(0, 1)

    def guarded(self) -> None:
        def body() -> None:
            self.accesses(0, 1)
            self.conditional(self.guard())
            self.accesses(0, 2)

        self.accesses(0, 2)
        self.iterate(body)
        self.accesses(0, 1)

    def branches(self) -> None:
        self.accesses(1, 2)
        if self.rng.random() < 0.4:
            self.iterate(lambda: self.conditional(self.free_condition()))
        else:
            self.conditional(self.free_condition())
        self.accesses(1, 2)
        if self.rng.random() < 0.3:
            self.conditional(self.free_condition())

    def prefetched(self) -> None:
        """A pipeline: copies before the loop, copies ahead in it, reads behind it."""
        buffer = self.buffers[0]
        ahead = self.rng.choice((1, 1, 2, max(1, buffer.slots - 1)))
        for slot in range(ahead):
            self.gather(buffer, str(slot % buffer.slots))

        def body() -> None:
            parts = [
                lambda: self.gather(buffer, self.rotating(ahead, buffer.slots)),
                lambda: self.read(buffer, self.rotating(0, buffer.slots)),
            ]
            self.rng.shuffle(parts)
            for part in parts:
                part()
            self.accesses(0, 1)

        self.iterate(body)
        self.accesses(0, 2)

    # --- regions ---

    def iterate(self, body: Callable[[], None], least: int | None = None) -> None:
        self.statements += 1
        rng, name = self.rng, "%" + "kji"[len(self.counters)] + (str(self.statements) if self.statements > 1 else "")
        lower, upper = self.bounds(least)
        step = " step 2" if rng.random() < 0.05 else ""
        self.line(f"iterate {name} in {lower} .. {upper}{step} {{")
        self.counters.append(_Counter(name, upper))
        body()
        self.counters.pop()
        self.line("}")

    def bounds(self, least: int | None) -> tuple[str, str]:
        rng = self.rng
        lower = rng.choice(("0", "0", "0", "0", "1"))
        if least is None and rng.random() < 0.35:
            return lower, str(int(lower) + rng.choice((1, 2, 2, 3, 3, 4, 5, 6)))
        size = self.sizes[0] if self.sizes and rng.random() < 0.3 else self.size()
        if least == 0 or rng.random() < 0.25:
            return lower, rng.choice((f"{size} - 1", f"{size} - 2", f"{size} // 2"))
        return lower, size

    def size(self) -> str:
        if len(self.sizes) == len(SIZES):
            return self.rng.choice(self.sizes)
        name = SIZES[len(self.sizes)]
        self.sizes.append(name)
        if self.rng.random() < 0.4:
            self.where.append(self.rng.choice((f"{name} >= 2", f"{name} >= 3", f"{name} >= 4", f"{name} mod 2 == 0")))
        return name

    def conditional(self, cond: str) -> None:
        self.statements += 1
        self.line(f"conditional {cond} {{")
        self.accesses(1, 2)
        if self.rng.random() < 0.3:
            self.line("} else {")
            self.accesses(1, 1)
        self.line("}")

    def guard(self) -> str:
        """A condition on the counter of the loop."""
        counter = self.counters[-1]
        k, upper = counter.name, counter.upper
        first = (f"{k} > 0", f"{k} > 0", f"{k} > 1", f"{k} >= 2", f"{k} == 0", f"{k} < 2")
        last = (f"{k} + 1 < {upper}", f"{k} + 1 < {upper}", f"{k} + 2 < {upper}", f"{k} == {upper} - 1")
        other = (f"{k} mod 2 == 0", f"{k} mod 2 == 1", self.free_condition())
        return self.rng.choice((*first, *last, *other))

    def free_condition(self) -> str:
        if self.sizes and self.rng.random() < 0.3:
            return f"{self.sizes[0]} > {self.rng.choice((2, 3))}"
        if self.counters and self.rng.random() < 0.3:
            return f"{self.counters[-1].name} > 0"
        if self.flags and self.rng.random() < 0.4:
            return self.rng.choice(("%f1", "not %f1"))
        self.flags += 1
        return f"%f{self.flags}"

    # --- accesses ---

    def accesses(self, least: int, most: int, rotating: bool = False) -> None:
        for _ in range(self.rng.randint(least, most)):
            buffer = self.buffers[0] if self.rng.random() < 0.7 else self.rng.choice(self.buffers)
            slot = self.slot(buffer.slots, rotating)
            chance = self.rng.random()
            if self.copies and chance < 0.3:
                self.gather(buffer, slot)
            elif chance < 0.65:
                self.read(buffer, slot)
            else:
                self.statements += 1
                self.line(f"local_write %v{buffer.width}, {self.place(buffer, slot, self.row())}")

    def read(self, buffer: _Buffer, slot: str) -> None:
        self.statements += 1
        self.names += 1
        row = "0" if self.rng.random() < 0.1 else self.row()
        self.line(f"%r{self.names} = local_read {self.place(buffer, slot, row)} : tile<{buffer.width}xf32>")

    def gather(self, buffer: _Buffer, slot: str) -> None:
        self.statements += 1
        place = self.place(buffer, slot, self.row())
        self.line(f"gather_to_lds %X[wave, 0] to {place} : tile<{buffer.width}xf32>")
        if self.target.startswith("sm_") and self.rng.random() < 0.9:
            self.line("commit_group")

    def row(self) -> str:
        return self.rng.choice(("wave", "wave", f"(wave + 1) mod {self.waves}"))

    def place(self, buffer: _Buffer, slot: str, row: str) -> str:
        return f"%{buffer.name}[{slot}][{row}]" if buffer.slots > 1 else f"%{buffer.name}[{row}]"

    def slot(self, slots: int, rotating: bool) -> str:
        rng = self.rng
        if slots == 1:
            return "0"
        if self.counters and (rng.random() < 0.75 or rotating):
            return self.rotating(rng.choice((0, 0, 1, 1, 2, 3)), slots)
        if self.sizes and not self.counters and rng.random() < 0.2:
            return f"({self.sizes[0]} + {rng.choice((slots - 1, 0, 1))}) mod {slots}"
        return str(rng.randrange(slots))

    def rotating(self, ahead: int, slots: int) -> str:
        if slots == 1:
            return "0"
        counter = self.counters[-1] if self.rng.random() < 0.9 else self.counters[0]
        return f"({counter.name} + {ahead}) mod {slots}" if ahead else f"{counter.name} mod {slots}"

    # --- text ---

    def line(self, text: str) -> None:
        self.lines.append(text)

    def sprinkle(self) -> None:
        """Part of the synchronization that the kernel needs."""
        for _ in range(self.rng.choice((1, 1, 2))):
            at = self.rng.randrange(len(self.lines) + 1)
            kinds = ["workgroup_barrier", "shared_memory_barrier", "shared_memory_barrier", "fence wave"]
            if self.copies:
                counter = next(each for each in ("vmcnt", "asynccnt", "group") if each in _counters(self.target))
                kinds += [f"wait_count {counter}({self.rng.choice((0, 1, 2))})", "shared_memory_barrier wait_async_ops"]
            self.lines.insert(at, self.rng.choice(kinds))

    def text(self) -> str:
        flags = "".join(f", %f{number + 1}: flag" for number in range(self.flags))
        lines = [f"target {self.target}", f"kernel @least(%X: {GLOBAL}{flags})"]
        if self.sizes:
            lines.append(f"    sizes({', '.join(f'{each} = 4' for each in self.sizes)})")
        if self.where:
            lines.append(f"    where({', '.join(self.where)})")
        lines.append(f"    waves {self.waves} {{")
        for buffer in self.buffers:
            slots = f", slots = {buffer.slots}" if buffer.slots > 1 else ""
            lines.append(f"  %{buffer.name} = alloc : lds<{self.waves}x{buffer.width}xf32{slots}>")
        widths = sorted({buffer.width for buffer in self.buffers})
        lines += (f"  %v{width} = fill 1.0 : tile<{width}xf32>" for width in widths)
        depth = 1
        for line in self.lines:
            depth -= line.startswith("}")
            lines.append("  " * depth + line)
            depth += line.endswith("{")
        return "\n".join([*lines, "}", ""])


def _counters(target: str) -> tuple[str, ...]:
    return tuple(load_target(target).counters)
