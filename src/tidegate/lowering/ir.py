"""LLVM IR as text, one function at a time.

Needs   instructions in the order in which they run
Gives   names of results, blocks, declarations, and a place in the source for each instruction
Keeps   arithmetic on numbers that are known is done here, so that places that are numbers stay numbers
Cost    constant for each instruction
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.diag import Span
from tidegate.language.types import DType

Scalar = int | str  # a number that is known, or the name of an i32
TYPES: Mapping[str, str] = {
    "f64": "double",
    "f32": "float",
    "f16": "half",
    "bf16": "bfloat",
    "i64": "i64",
    "i32": "i32",
    "i16": "i16",
    "i8": "i8",
    "i1": "i1",
}
_FOLDED: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lshr": lambda a, b: a >> b,
    "ashr": lambda a, b: a >> b,
}
_NEUTRAL = {("add", 0), ("sub", 0), ("mul", 1), ("or", 0), ("xor", 0), ("shl", 0), ("lshr", 0), ("ashr", 0)}


def type_of(dtype: DType) -> str:
    """The type of one element in a register."""
    return TYPES[dtype.name]


def in_memory(dtype: DType) -> str:
    return "i8" if dtype.name == "i1" else TYPES[dtype.name]


@dataclass(slots=True)
class IrWriter:
    """The body of a function that is being written."""

    lines: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)  # name → declaration
    block: str = "entry"
    line: int = 0  # of the source, for whatever comes next
    _count: int = 0
    _known: dict[tuple[str, str], str] = field(default_factory=dict)  # what was computed in this block already

    def at(self, span: Span) -> None:
        self.line = span.line or self.line

    def fresh(self, hint: str = "v") -> str:
        self._count += 1
        return f"%{hint}{self._count}"

    def let(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}{self._place()}")
        return name

    def once(self, text: str) -> str:
        """A result without effects, computed once in a block."""
        key = (self.block, text)
        if key not in self._known:
            self._known[key] = self.let(text)
        return self._known[key]

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}{self._place()}")

    def _place(self) -> str:
        return f", !dbg !{LINES + self.line}" if self.line else ""

    def start(self, label: str) -> None:
        """What follows is another block, to which the one before has jumped."""
        self.lines.append(f"{label[1:]}:")
        self.block = label[1:]

    def jump(self, label: str) -> None:
        self.do(f"br label {label}")

    def branch(self, cond: str, then: str, otherwise: str) -> None:
        self.do(f"br i1 {cond}, label {then}, label {otherwise}")

    def call(self, result: str, name: str, arguments: Iterable[tuple[str, Scalar]], more: str = "") -> str:
        """A call of an intrinsic, which is declared as it is called."""
        given = list(arguments)
        types = ", ".join(kind for kind, _ in given)
        self.declared[name] = f"declare {result} @{name}({types}){more}"
        text = f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in given)})"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text)

    # --- whole numbers of 32 bits ---

    def int(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return _FOLDED[op](a, b)
        if isinstance(a, int) and op in ("add", "mul", "and", "or", "xor"):
            a, b = b, a
        if (op, b) in _NEUTRAL:
            return a
        if op in ("mul", "and") and b == 0:
            return 0
        return self.once(f"{op} i32 {a}, {b}")

    def compare(self, how: str, a: Scalar, b: Scalar) -> str:
        return self.once(f"icmp {how} i32 {a}, {b}")

    def both(self, conds: Iterable[str]) -> str:
        """Whether all of them hold; `""` stands for what always does."""
        found = ""
        for each in conds:
            found = each if not found else found if not each else self.once(f"and i1 {found}, {each}")
        return found

    def wide(self, value: Scalar) -> Scalar:
        """The number with 64 bits."""
        return value if isinstance(value, int) else self.once(f"sext i32 {value} to i64")


LINES = 1_000_000  # metadata numbers from here on are lines of the source


def debug_of(lines: Iterable[str], name: str, file: str, kind: str) -> str:
    """What says which line of the source each instruction comes from. `kind`: how much LLVM writes of it."""
    wanted = sorted({int(line.rsplit("!dbg !", 1)[1]) for line in lines if "!dbg !" in line})
    made = [
        "!llvm.dbg.cu = !{!0}",
        "!llvm.module.flags = !{!4, !5}",
        '!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, producer: "tidegate", emissionKind: KIND)'.replace(
            "KIND", kind
        ),
        f'!1 = !DIFile(filename: "{file}", directory: ".")',
        f'!2 = distinct !DISubprogram(name: "{name}", file: !1, line: 1, type: !3, unit: !0, '
        "spFlags: DISPFlagDefinition)",
        "!3 = !DISubroutineType(types: !{})",
        '!4 = !{i32 2, !"Debug Info Version", i32 3}',
        '!5 = !{i32 7, !"Dwarf Version", i32 4}',
    ]
    made += [f"!{each} = !DILocation(line: {each - LINES}, column: 1, scope: !2)" for each in wanted]
    return "\n".join(made)
