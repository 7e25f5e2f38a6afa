"""Operands: which registers they name, and constants as bits.

Needs   the text of an operand
Gives   `parse`: an `Operand`: where its first register is and how many there are, or a constant, and its signs
Keeps   what is no register and no constant raises `NotUnderstood`
Cost    nothing
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from oracles.amdgcn_machine.text import NotUnderstood
from oracles.amdgcn_machine.wave import ACCUMULATORS, EXEC, M0, NULL, SCALARS, SCC, TTMP, VCC

REGISTER = re.compile(r"^(v|s|a|ttmp)(?:(\d+)(?:\.([lh]))?|\[(\d+)(?::(\d+))?\])$")
STARTS = {"v": 0, "a": ACCUMULATORS, "s": SCALARS, "ttmp": SCALARS + TTMP}
NAMED = {
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1),
    "null": (NULL, 1),
}
INV_2PI = 0.15915494309189532
FLOATS = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494", "0.15915494309189532")
FORMATS = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


@dataclass(frozen=True, slots=True)
class Operand:
    """A register range (`at` ≥ 0), or a constant (`at` = -1) as it is written."""

    text: str
    at: int
    words: int
    half: int = 0  # 1: the upper 16 bits
    constant: str = ""
    is_negated: bool = False
    is_absolute: bool = False
    is_extended: bool = False

    @property
    def is_vector(self) -> bool:
        return 0 <= self.at < SCALARS

    @property
    def is_scalar(self) -> bool:
        return self.at >= SCALARS

    @property
    def registers(self) -> range:
        return range(self.at, self.at + self.words) if self.at >= 0 else range(0)

    @property
    def scalar(self) -> int:
        if not self.is_scalar:
            raise NotUnderstood(f"`{self.text}` is not a scalar register")
        return self.at - SCALARS


def parse(text: str) -> Operand:
    """An operand with its signs."""
    body, is_negated, is_absolute, is_extended = text.strip(), False, False, False
    if re.match(r"^-[|a-z(]", body):
        body, is_negated = body[1:], True
    if found := re.match(r"^neg\((.*)\)$", body):
        body, is_negated = found[1], True
    if found := re.match(r"^\|(.*)\|$", body) or re.match(r"^abs\((.*)\)$", body):
        body, is_absolute = found[1], True
    if found := re.match(r"^sext\((.*)\)$", body):
        body, is_extended = found[1], True
    signs = {"is_negated": is_negated, "is_absolute": is_absolute, "is_extended": is_extended}
    if found := REGISTER.match(body):
        kind, one, half, first, last = found.groups()
        low = int(one if one is not None else first)
        high = int(last) if last is not None else low
        return Operand(text, STARTS[kind] + low, high - low + 1, int(half == "h"), **signs)
    if body in NAMED:
        at, words = NAMED[body]
        return Operand(text, SCALARS + at, words, **signs)
    if body in ("scc", "src_scc"):
        return Operand(text, SCC, 1, **signs)
    if is_number(body):
        return Operand(text, -1, 0, constant=body, **signs)
    raise NotUnderstood(f"operand `{text}`")


def is_number(text: str) -> bool:
    return text in FLOATS or bool(re.match(r"^-?(0x[0-9a-fA-F]+|\d+)$", text)) or bool(re.match(r"^lit64\(", text))


def bits_of(constant: str, kind: str) -> int:
    """A constant as the bits that an operand of that type sees; literals of doubles are their upper half."""
    width = int(re.sub(r"\D", "", kind) or 32)
    if constant.startswith("lit64("):
        return int(constant[6:-1], 0)
    if constant in FLOATS:
        format_ = {16: "f16", 32: "f32", 64: "f64"}[width]
        value = INV_2PI if constant.startswith("0.159") else float(constant)
        to, back = FORMATS[format_]
        return int(struct.unpack(back, struct.pack(to, value))[0])
    number = int(constant, 0)
    if kind == "f64" and constant.startswith("0x"):
        return number << 32
    return number & (1 << width) - 1
