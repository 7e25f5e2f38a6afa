"""The types and modifiers of PTX instructions, as numbers.

Needs   the modifiers of an instruction
Gives   widths, signs, vector lengths, state spaces
Keeps   what is not a type is None
Cost    constant
"""

from __future__ import annotations

from dataclasses import dataclass

_INTEGERS = {f"{kind}{bits}": (bits, kind == "s") for kind in "bus" for bits in (8, 16, 32, 64)}
_OTHERS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b128": 128}
_OTHERS |= {"u16x2": 32, "s16x2": 32, "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16}
# Names that the kernel language has for elements of atomics.
ELEMENTS = {"b32": "i32", "u32": "i32", "s32": "i32", "b64": "i64", "u64": "i64", "s64": "i64", "b16": "i16"}
ELEMENTS |= {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}
SPACES = ("shared", "global", "const", "local", "param")


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    bits: int
    signed: bool
    is_integer: bool


def type_of(modifier: str) -> Type | None:
    if modifier in _INTEGERS:
        bits, signed = _INTEGERS[modifier]
        return Type(modifier, bits, signed, True)
    return Type(modifier, _OTHERS[modifier], True, False) if modifier in _OTHERS else None


def types_in(modifiers: tuple[str, ...]) -> list[Type]:
    return [found for each in modifiers if (found := type_of(each)) is not None]


def vector_in(modifiers: tuple[str, ...]) -> int:
    return next((int(each[1:]) for each in modifiers if each in ("v2", "v4", "v8")), 1)


def space_in(modifiers: tuple[str, ...]) -> str:
    """`shared::cta` is `shared`; no space at all means an address that may lead anywhere."""
    for each in modifiers:
        plain = each.split("::")[0]
        if plain in SPACES:
            return "cluster" if each == "shared::cluster" else plain
    return "any"
