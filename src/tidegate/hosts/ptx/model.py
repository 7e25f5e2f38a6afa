"""A PTX module: what its text says, as values.

Needs   nothing but places in the text
Gives   `Module`, its `Function`s, their variables and `Instruction`s with operands
Keeps   frozen; an instruction is kept whether or not anybody knows it
Cost    a few hundred bytes an instruction

    @%p1 ld.shared.v2.f32 {%f1, %f2}, [%r3+8];

Registers of an inner scope carry the number of the scope, `%r1#2`: the text may declare one name several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.diag import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Name:
    """A register, a variable, a label or a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """An integer, or the bits of a floating-point constant: `fraction` says how many it has."""

    value: int
    fraction: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; the base is a register, a variable or a number. `more`: coordinates of a tensor."""

    base: Name | Number
    offset: int = 0
    more: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, c}`; also the lists of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`a|b`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """`!%p1`, `-%r1`."""

    sign: str
    operand: Operand


Operand = Name | Number | Address | Vector | Pair | Negated


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p1` or `@!%p1`."""

    register: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """`opcode` is the first word, `modifiers` those behind its dots."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    at: Span = field(default=NOWHERE, compare=False)

    @property
    def mnemonic(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """Memory with a name. `bytes` is None where the launch decides (`extern .shared x[]`)."""

    name: str
    space: str
    bytes: int | None
    align: int = 1
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Function:
    """An entry or a device function. `threads`: the block's shape that it asks for, `most` the largest one."""

    name: str
    is_entry: bool
    params: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]
    variables: tuple[Variable, ...] = ()
    registers: tuple[tuple[str, str], ...] = ()  # name, type; `%r<4>` is written out
    threads: tuple[int, ...] = ()
    most: tuple[int, ...] = ()
    clusters: bool = False
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Module:
    version: str
    target: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    declared: frozenset[str] = frozenset()  # functions without a body, or with one further down

    @property
    def entries(self) -> tuple[Function, ...]:
        return tuple(each for each in self.functions if each.is_entry)


def names_of(operands: Iterable[Operand]) -> Iterator[str]:
    """All names in operands, those inside of addresses and lists included."""
    for each in operands:
        if isinstance(each, Name):
            yield each.name
        elif isinstance(each, Address):
            yield from names_of((each.base,))
        elif isinstance(each, Vector):
            yield from names_of(each.items)
        elif isinstance(each, Pair):
            yield from names_of((each.first, each.second))
        elif isinstance(each, Negated):
            yield from names_of((each.operand,))
