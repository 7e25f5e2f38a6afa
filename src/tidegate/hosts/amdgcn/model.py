"""AMDGCN assembly: what its text says, as values.

Needs   nothing but places in the text
Gives   `Assembly`, its `KernelText`s, their `AsmLine`s with operands and modifiers
Keeps   frozen; an instruction is kept whether or not anybody knows it; suffixes of encodings are left out of names
Cost    a few hundred bytes an instruction

    ds_read2_b64 v[0:3], v8 offset0:1 offset1:3     two operands, two modifiers
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.diag import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Registers:
    """`v[4:7]`, `s2`, `a0`, `vcc`, `m0`: one behind the other, 32 bits each."""

    names: tuple[str, ...]

    @property
    def first(self) -> str:
        return self.names[0]


@dataclass(frozen=True, slots=True)
class Immediate:
    """An integer; `is_float`: bits of a fraction, of which nobody asks."""

    value: int
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:
    """A label, the address of an array, or what else stands there as a word."""

    name: str


@dataclass(frozen=True, slots=True)
class Changed:
    """`-v1`, `|v1|`, `sext(v1)`: an operand that is more than its bits."""

    operand: Registers | Immediate | Symbol


Operand = Registers | Immediate | Symbol | Changed


@dataclass(frozen=True, slots=True)
class AsmLine:
    """`modifiers`: words behind the operands, with the text behind their colon."""

    name: str
    operands: tuple[Operand, ...] = ()
    modifiers: tuple[tuple[str, str], ...] = ()
    text: str = ""
    at: Span = field(default=NOWHERE, compare=False)

    def modifier(self, name: str) -> str | None:
        return next((value for known, value in self.modifiers if known == name), None)

    def number(self, name: str) -> int | None:
        """The number behind a modifier, 0 where it is not there; None where it is none."""
        value = self.modifier(name)
        if value is None:
            return 0
        try:
            return int(value, 0)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class KernelText:
    """`settings`: of its `.amdhsa_kernel`; `facts`: of its metadata."""

    name: str
    body: tuple[AsmLine | Mark, ...]
    settings: dict[str, int]
    facts: dict[str, tuple[int, ...]]
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Assembly:
    target: str
    kernels: tuple[KernelText, ...]
    arrays: tuple[str, ...] = ()  # shared variables that the linker places
