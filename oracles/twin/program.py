"""A random program as data: what the generator makes, `to_tide` prints and `judge` runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Env = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Index:
    """scale · ((Σ factor · name + const) [mod m]) + add. Names: wave, `wave // 2`, `wave mod 2`, N, loop counters."""

    terms: tuple[tuple[int, str], ...] = ()
    const: int = 0
    mod: int = 0
    scale: int = 1
    add: int = 0

    def at(self, env: Env) -> int:
        value = self.const
        for factor, name in self.terms:
            value += factor * env[name]
        if self.mod:
            value %= self.mod
        return self.scale * value + self.add

    def text(self) -> str:
        parts = [_name(n) if f == 1 else f"{_name(n)} * {f}" for f, n in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        text, simple = " + ".join(parts).replace("+ -", "- "), len(parts) == 1
        if self.mod:
            text, simple = (text if simple else f"({text})") + f" mod {self.mod}", False
        if self.scale != 1:
            text = (text if simple else f"({text})") + f" * {self.scale}"
        return text + (f" + {self.add}" if self.add else "")


def _name(name: str) -> str:
    if re.fullmatch(r"k\d+", name):
        return "%" + name
    return f"({name})" if " " in name else name


def number(value: int) -> Index:
    return Index(const=value)


WAVE = Index(((1, "wave"),))


@dataclass(frozen=True, slots=True)
class Tile:
    """What one wave holds."""

    shape: tuple[int, ...]
    dtype: str

    def text(self) -> str:
        return f"tile<{'x'.join(map(str, self.shape))}x{self.dtype}>"


@dataclass(frozen=True, slots=True)
class Memory:
    """A buffer, or a view of one (`base` and the element of it where the view starts)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    slots: int = 1
    base: str = ""
    start: tuple[int, ...] = ()

    def text(self) -> str:
        slots = f", slots = {self.slots}" if self.slots > 1 else ""
        return f"lds<{'x'.join(map(str, self.shape))}x{self.dtype}{slots}>"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tile lies."""

    memory: str
    at: tuple[Index, ...]
    slot: Index | None = None

    def text(self) -> str:
        slot = f"[{self.slot.text()}]" if self.slot is not None else ""
        return f"%{self.memory}{slot}[{', '.join(i.text() for i in self.at)}]"


@dataclass(frozen=True, slots=True)
class Access:
    """An ordinary access: kind is read, write or atomic; `value` is what is written or added, `result` what is got."""

    kind: str
    place: Place
    tile: Tile
    value: str = ""
    result: str = ""
    mask: str = ""
    bounds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """An asynchronous copy: gather_to_lds, tensor_load_to_lds or lds_to_global."""

    operation: str
    place: Place
    tile: Tile


@dataclass(frozen=True, slots=True)
class Compute:
    """A line that touches no shared memory. `links` share lanes element by element; `fixed`: a matrix or transposition
    decides the lanes of all of them; `uses` are the values that it reads; `dead`: nothing comes of it."""

    line: str
    uses: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    fixed: bool = False
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """bare, drain (shared_memory_barrier), signal, wait, fence, commit, or count (wait_count)."""

    kind: str
    counts: tuple[tuple[str, int], ...] = ()
    all_copies: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: a flag, or an index compared with a number. Of waves if it names `wave`."""

    index: Index
    relation: str = "=="
    value: int = 0
    flag: str = ""

    def holds(self, env: Env) -> bool:
        if self.flag:
            return bool(env[self.flag])
        got = self.index.at(env)
        return {"==": got == self.value, "<": got < self.value, ">=": got >= self.value, "!=": got != self.value}[
            self.relation
        ]

    def of_waves(self) -> bool:
        return any("wave" in name for _, name in self.index.terms)

    def text(self) -> str:
        return f"%{self.flag}" if self.flag else f"{self.index.text()} {self.relation} {self.value}"


@dataclass(frozen=True, slots=True)
class Loop:
    """`upper` trips, a number or a size with an offset."""

    counter: str
    upper: Index
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Cond:
    test: Condition
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


Statement = Access | Copy | Compute | Sync | Loop | Cond


@dataclass(frozen=True, slots=True)
class Program:
    """One kernel. `least` is the least value of the size N, 0 where the kernel has none. `masks` says of a mask how
    many first elements it lets through, or -1 where that is data."""

    target: str
    waves: int
    memory: tuple[Memory, ...]
    body: tuple[Statement, ...]
    least: int = 0
    flags: tuple[str, ...] = ()
    masks: tuple[tuple[str, int], ...] = ()
    kind: str = ""
    seed: int = 0
    dtypes: tuple[str, ...] = field(default=("f32",))
