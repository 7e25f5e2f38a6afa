"""What the generators of all three kinds share: names, views, sources of tiles, regions, barriers by target."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from .facts import BYTES, FACTS, Facts
from .program import (
    WAVE,
    Access,
    Compute,
    Cond,
    Condition,
    Copy,
    Index,
    Loop,
    Memory,
    Place,
    Program,
    Statement,
    Sync,
    Tile,
    number,
)

T = TypeVar("T")


@dataclass
class Builder:
    """A program in the making. `block` is what statements are added to."""

    rng: random.Random
    target: str
    waves: int
    memory: list[Memory] = field(default_factory=list)
    prelude: list[Statement] = field(default_factory=list)
    block: list[Statement] = field(default_factory=list)
    sources: dict[Tile, str] = field(default_factory=dict)
    masks: dict[str, int] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    dtypes: set[str] = field(default_factory=lambda: {"f32"})
    counters: list[str] = field(default_factory=list)  # loops that we are in
    least: int = 0
    names: int = 0

    @property
    def facts(self) -> Facts:
        return FACTS[self.target]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def add(self, *statements: Statement) -> None:
        self.block += statements

    # -- memory ---------------------------------------------------------------------------------------------------

    def alloc(self, shape: tuple[int, ...], dtype: str, slots: int = 1) -> Memory:
        memory = Memory(self.name("b"), shape, dtype, slots)
        self.memory.append(memory)
        return memory

    def view(self, base: Memory, shape: tuple[int, ...], dtype: str, start: tuple[int, ...] = (0,)) -> Memory:
        """The same bytes as another type; one view for each type."""
        for memory in self.memory:
            if (memory.base, memory.shape, memory.dtype, memory.start) == (base.name, shape, dtype, start):
                return memory
        memory = Memory(self.name("v"), shape, dtype, 1, base.name, start)
        self.memory.append(memory)
        return memory

    # -- tiles ----------------------------------------------------------------------------------------------------

    def source(self, tile: Tile, fresh: bool = False) -> str:
        """A tile from nowhere: a number everywhere, or what global memory holds."""
        if tile in self.sources and not fresh:
            return self.sources[tile]
        name = self.name("x")
        self.dtypes.add(tile.dtype)
        if self.chance(0.4):
            self.prelude.append(Compute(f"%{name} = fill 1 : {tile.text()}"))
        else:
            self.prelude.append(Compute(f"%{name} = global_read %X_{tile.dtype}[wave, 0, 0] : {tile.text()}"))
        if not fresh:
            self.sources[tile] = name
        return name

    def mask(self, tile: Tile) -> str:
        """The first elements only, or as the data says."""
        flat, bits = Tile(tile.shape, "i32"), Tile(tile.shape, "i1")
        left, right, name = self.name("i"), self.name("c"), self.name("m")
        known = self.chance(0.5) and len(tile.shape) == 1
        limit = max(1, tile.shape[-1] // 2)
        if known:
            first = f"%{left} = iota axis 0 : {flat.text()}"
        else:
            self.dtypes.add("i32")
            first = f"%{left} = global_read %X_i32[wave, 0, 0] : {flat.text()}"
        self.prelude += [
            Compute(first),
            Compute(f"%{right} = fill {limit} : {flat.text()}"),
            Compute(f"%{name} = lt %{left}, %{right} : {bits.text()}"),
        ]
        self.masks[name] = limit if known else -1
        return name

    def store(self, value: str, tile: Tile) -> None:
        """Use a value: into global memory, at times through an element-wise operation."""
        self.dtypes.add(tile.dtype)
        if self.chance(0.2):
            total = self.name("s")
            self.add(Compute(f"%{total} = add %{value}, %{value} : {tile.text()}", (value,), (value, total)))
            value = total
        self.add(Compute(f"global_write %{value}, %Y_{tile.dtype}[wave, 0, 0]", (value,)))

    def copy(self, operation: str, place: Place, tile: Tile) -> None:
        self.dtypes.add(tile.dtype)
        self.add(Copy(operation, place, tile))

    # -- regions --------------------------------------------------------------------------------------------------

    def inside(self, fill: Callable[[], None]) -> tuple[Statement, ...]:
        """What `fill` adds, as a block of its own."""
        outer, self.block = self.block, []
        fill()
        inner, self.block = tuple(self.block), outer
        return inner

    def loop(self, fill: Callable[[], None], upper: Index | None = None) -> None:
        counter = f"k{len(self.counters)}" if not self.counters else f"k{self.name('')}"
        upper = upper or self.trips()
        self.counters.append(counter)
        body = self.inside(fill)
        self.counters.pop()
        self.add(Loop(counter, upper, body))

    def trips(self) -> Index:
        """A few, or a size."""
        if self.chance(0.4) or self.counters:
            return number(self.rng.randint(1, 3 if self.counters else 4))
        self.least = max(self.least, 1)
        return Index(((1, "N"),), self.pick((0, 0, -1)))

    def test(self, of_waves: float = 0.3) -> Condition | None:
        """A condition on waves, on the counter, or a flag."""
        if self.chance(of_waves) and self.waves > 1:
            return Condition(WAVE, self.pick(("==", "<", ">=")), self.rng.randint(1, self.waves - 1))
        if self.counters:
            counter = ((1, self.counters[-1]),)
            if self.chance(0.4):
                return Condition(Index(counter, mod=2), "==", self.rng.randint(0, 1))
            return Condition(Index(counter), self.pick(("<", ">=", "!=", "==")), self.rng.randint(0, 2))
        if len(self.flags) < 2:
            self.flags.append(f"F{len(self.flags)}")
            return Condition(number(0), flag=self.flags[-1])
        return None

    def maybe_conditional(self, probability: float, fill: Callable[[], None], of_waves: float = 0.3) -> None:
        test = self.test(of_waves) if self.chance(probability) else None
        if test is None:
            fill()
        else:
            then = self.inside(fill)
            self.add(Cond(test, then, self.inside(fill) if self.chance(0.35) else ()))

    # -- synchronization ------------------------------------------------------------------------------------------

    def wait(self, counter: str, n: int) -> None:
        self.add(Sync("count", ((counter, n),)))

    def barrier(self, kind: str = "") -> None:
        """Any workgroup barrier; `pair` is signal and wait."""
        kind = kind or self.pick(("bare", "drain", "drain", "drain", "pair"))
        if kind == "pair" and not self.facts.split:
            kind = "drain"
        if kind == "pair":
            if self.chance(0.7):
                self.wait(self.facts.lds_counter, 0)
            self.add(Sync("signal"), Sync("wait"))
        else:
            self.add(Sync(kind))

    def program(self, kind: str, seed: int) -> Program:
        return Program(
            self.target,
            self.waves,
            tuple(self.memory),
            (*self.prelude, *self.block),
            self.least,
            tuple(self.flags),
            tuple(self.masks.items()),
            kind,
            seed,
            tuple(sorted(self.dtypes)),
        )


def row(memory: Memory, column: int | Index = 0, of: Index = WAVE, slot: Index | None = None) -> Place:
    """A place in the row of a wave: the first index is the wave's, the last the column."""
    last = column if isinstance(column, Index) else number(column)
    middle = [number(0)] * (len(memory.shape) - 2)
    return Place(memory.name, (of, *middle, last), slot)


def neighbour(waves: int) -> Index:
    return Index(((1, "wave"),), 1, mod=waves)


def elements(memory: Memory) -> int:
    """Elements of one wave's row."""
    total = 1
    for extent in memory.shape[1:]:
        total *= extent
    return total


def double(value: str, result: str, tile: Tile) -> Compute:
    """Element by element, so that lanes stay."""
    return Compute(f"%{result} = add %{value}, %{value} : {tile.text()}", (value,), (value, result))


__all__ = ["BYTES", "Access", "Builder", "double", "elements", "neighbour", "row"]
