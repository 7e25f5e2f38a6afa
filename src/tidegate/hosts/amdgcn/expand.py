"""What an assembler does before there are instructions: macros, repetitions, conditions, symbols for numbers.

Needs   lines without comments, each with its number
Gives   `expand`: the lines that are left, each with the number of the line that the author wrote
Keeps   the meaning that LLVM's assembler gives them (GNU as, `.macro`, `.rept`, `.irp`, `.if`, `.set`). Where one of
        them is not understood the lines are given back as they are, and directives stay in the body, which is then not
        modelled
Cost    linear in the lines that come of it, up to a bound

    .set slot, 4                             v_mov_b32 v5, 1
    .macro fill reg                          ds_write_b32 v0, v5 offset:64
      v_mov_b32 v[\\reg+1], 1
      ds_write_b32 v0, v[\\reg+1] offset:16*slot
    .endm
    fill slot
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

MOST_LINES = 300_000
MOST_DEPTH = 24
MOST_TEXT = 2000  # characters of an expression
_SET = re.compile(r"\s*\.(?:set|equ|equiv)\s+([A-Za-z_.$][\w.$]*)\s*,\s*(.+?)\s*$")
_ASSIGN = re.compile(r"\s*([A-Za-z_$][\w.$]*)\s*=\s*([^=].*?)\s*$")
_NAME = re.compile(r"(?<![\w.$\\])[A-Za-z_.$][\w.$]*")
_RANGE = re.compile(r"(?<![\w.])(v|s|a|acc|ttmp)\[([^\[\]]+)\]")
_TAIL = re.compile(r"((?:[A-Za-z_]\w*:)?)([^:]+)$")
_CALL = re.compile(r"([A-Za-z_]\w*)\(((?:[^()]|\([^()]*\))*)\)")
_SUM = re.compile(r"\d\s*(?:[+*/%|&-]|<<|>>)\s*\(?\d|\(\s*\d+\s*[+*/%|&<>-]")  # of numbers
_NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)(?![\w.])")
_ENDS = {".macro": (".endm", ".endmacro"), ".rept": (".endr",), ".irp": (".endr",), ".irpc": (".endr",)}
_OPENS = {".endm": (".macro",), ".endmacro": (".macro",), ".endr": (".rept", ".irp", ".irpc")}
_TESTS: dict[str, Callable[[int], bool]] = {
    ".if": lambda value: value != 0,
    ".ifne": lambda value: value != 0,
    ".ifeq": lambda value: value == 0,
    ".ifgt": lambda value: value > 0,
    ".ifge": lambda value: value >= 0,
    ".iflt": lambda value: value < 0,
    ".ifle": lambda value: value <= 0,
}
_SPECIAL = (".ifdef", ".ifndef", ".ifc", ".ifnc", ".ifb", ".ifnb", ".ifnotdef")
Line = tuple[int, str]


class _NotUnderstood(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Macro:
    """`parameters`: names with what they are where nobody says anything."""

    parameters: tuple[tuple[str, str], ...]
    body: tuple[Line, ...]


def expand(lines: list[Line]) -> list[Line]:
    """The same lines if nothing has to be done."""
    if not any("." in text or "=" in text for _, text in lines):
        return lines
    try:
        expander = _Expander()
        expander.run(lines, 0)
        return expander.out
    except (_NotUnderstood, RecursionError, ZeroDivisionError):
        return lines


class _Expander:
    def __init__(self) -> None:
        self.symbols: dict[str, int] = {}
        self.macros: dict[str, _Macro] = {}
        self.out: list[Line] = []
        self.uses = 0

    def run(self, lines: Iterable[Line], depth: int) -> None:
        given = list(lines)
        if depth > MOST_DEPTH:
            raise _NotUnderstood
        place = 0
        while place < len(given):
            number, text = given[place]
            if len(self.out) > MOST_LINES:
                raise _NotUnderstood
            words = text.split(None, 1)
            word, rest = (words[0], words[1] if len(words) > 1 else "") if words else ("", "")
            if word in _ENDS:
                inner, place = _inside(given, place)
                self.block(word, rest, inner, depth)
            elif word in _TESTS or word in _SPECIAL:
                inner, place = self.branch(given, place)
                self.run(inner, depth)
            elif (found := _SET.match(text)) or (found := _ASSIGN.match(text)):
                self.set(found[1], found[2])
            elif word in self.macros:
                self.call(self.macros[word], rest, number, depth)
            elif word == ".purgem":
                self.macros.pop(rest.strip(), None)
            else:
                self.out.append((number, self.plain(text)))
            place += 1

    def block(self, word: str, rest: str, inner: list[Line], depth: int) -> None:
        if word == ".macro":
            name, *parameters = re.split(r"[\s,]+", re.sub(r"\s*=\s*", "=", rest.strip()))
            pairs = (each.partition("=") for each in parameters if each)
            self.macros[name] = _Macro(
                tuple((one.partition(":")[0], default) for one, _, default in pairs), tuple(inner)
            )
        elif word == ".rept":
            for _ in range(self.number(rest)):
                self.run(inner, depth + 1)
        else:
            name, _, values = rest.partition(",")
            if not values:
                name, _, values = rest.strip().partition(" ")
            listed = list(values.strip()) if word == ".irpc" else [each.strip() for each in _split(values)]
            for each in listed:
                self.run(((number, _substituted(text, {name.strip(): each})) for number, text in inner), depth + 1)

    def set(self, name: str, text: str) -> None:
        value = self.value(text)
        if value is None:
            self.symbols.pop(name, None)
        else:
            self.symbols[name] = value

    def call(self, macro: _Macro, rest: str, number: int, depth: int) -> None:
        """The lines of a macro belong to the line that uses it."""
        given = _arguments(rest, len(macro.parameters))
        values = dict(macro.parameters)
        names = [name for name, _ in macro.parameters]
        place = 0
        for each in given:
            head, sign, tail = each.partition("=")
            if sign and head.strip() in values:
                values[head.strip()] = tail.strip()
            elif place < len(names):
                values[names[place]] = each
                place += 1
            else:
                raise _NotUnderstood
        self.uses += 1
        values["@"] = str(self.uses)
        self.run(((number, _substituted(text, values)) for _, text in macro.body), depth + 1)

    # --- conditions ---

    def branch(self, lines: list[Line], start: int) -> tuple[list[Line], int]:
        """The lines between a condition and its end that hold, and where the end stands."""
        taken, is_open, depth = list[Line](), self.holds(lines[start][1]), 0
        done = is_open
        for place in range(start + 1, len(lines)):
            word = (lines[place][1].split() or [""])[0]
            if word in _TESTS or word in _SPECIAL:
                depth += 1
            elif word == ".endif":
                if not depth:
                    return taken, place
                depth -= 1
            elif not depth and word in (".else", ".elseif"):
                is_open = not done and (word == ".else" or self.holds(lines[place][1]))
                done = done or is_open
                continue
            if is_open:
                taken.append(lines[place])
        raise _NotUnderstood

    def holds(self, text: str) -> bool:
        word, _, rest = text.strip().partition(" ")
        if word in (".ifdef", ".ifndef", ".ifnotdef"):
            return (rest.strip() in self.symbols) == (word == ".ifdef")
        if word in (".ifb", ".ifnb"):
            return (not rest.strip()) == (word == ".ifb")
        if word in (".ifc", ".ifnc"):
            one, _, other = rest.partition(",")
            return (one.strip() == other.strip()) == (word == ".ifc")
        return _TESTS[".if" if word == ".elseif" else word](self.number(rest))

    # --- numbers ---

    def number(self, text: str) -> int:
        value = self.value(text)
        if value is None:
            raise _NotUnderstood
        return value

    def value(self, text: str) -> int | None:
        text = self.named(text)
        if len(text) > MOST_TEXT:
            return None
        text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or ").replace("/", "//"))
        try:
            return _evaluated(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, ValueError, OverflowError, MemoryError, ZeroDivisionError):
            return None

    def named(self, text: str) -> str:
        """With numbers in the place of symbols."""
        return _NAME.sub(lambda found: f"({self.symbols[found[0]]})" if found[0] in self.symbols else found[0], text)

    def plain(self, text: str) -> str:
        """A line with its symbols and sums as numbers; one that has none stays as it is."""
        stripped = text.lstrip()
        if stripped.startswith(".amdhsa_"):
            head, _, tail = text.rpartition(" ")
            value = self.value(tail) if self.named(tail) != tail else None
            return text if value is None else f"{head} {value}"
        label, colon, rest = _label_of(stripped)
        name, space, operands = rest.replace("\t", " ").partition(" ")
        if not space or '"' in text or name.startswith("."):
            return text
        named = self.named(operands)
        if named == operands and not _SUM.search(operands):
            return text
        named = _RANGE.sub(self.registers, named)
        shown = ", ".join(self.operand(each.strip()) for each in _split(named))
        return f"{text[: len(text) - len(stripped)]}{label}{colon}{name} {shown}"

    def registers(self, found: re.Match[str]) -> str:
        parts = [self.value(each) for each in found[2].split(":")]
        if any(each is None for each in parts):
            return found[0]
        kind = "a" if found[1] == "acc" else found[1]
        return f"{kind}[{':'.join(map(str, parts))}]"

    def operand(self, text: str) -> str:
        """Words, each of them a number, a register, or a modifier with one."""
        text = _CALL.sub(self.called, text)
        if _NUMBER.fullmatch(text) or not re.search(r"[()+*/<>&|~%-]|:", text):
            return text
        words = re.split(r"\s+(?=[a-zA-Z_]\w*[:(]|[a-zA-Z_]\w*$|[a-zA-Z_]\w*\s)", text)
        return " ".join(map(self.word, words))

    def called(self, found: re.Match[str]) -> str:
        value = self.value(found[2])
        return found[0] if value is None else f"{found[1]}({value})"

    def word(self, text: str) -> str:
        found = _TAIL.match(text)
        if found is None or "[" in text:
            return text
        value = self.value(found[2]) if re.search(r"\d", found[2]) else None
        return text if value is None else f"{found[1]}{value}"


def _label_of(text: str) -> tuple[str, str, str]:
    found = re.match(r"([A-Za-z_.$][\w.$@]*)(:\s*)", text)
    return (found[1], found[2], text[found.end() :]) if found else ("", "", text)


def _inside(lines: list[Line], start: int) -> tuple[list[Line], int]:
    """The lines between a directive and its end."""
    opening = lines[start][1].split()[0]
    ends, depth = _ENDS[opening], 0
    for place in range(start + 1, len(lines)):
        word = (lines[place][1].split() or [""])[0]
        if word in ends:
            if not depth:
                return lines[start + 1 : place], place
            depth -= 1
        elif word in _OPENS[ends[0]]:
            depth += 1
    raise _NotUnderstood


def _substituted(text: str, values: dict[str, str]) -> str:
    if "\\" not in text:
        return text
    for name in sorted(values, key=len, reverse=True):
        text = re.sub(rf"\\{re.escape(name)}(?!\w)(?:\\\(\))?" if name != "@" else r"\\@", lambda _: values[name], text)  # noqa: B023
    return text.replace("\\()", "")


def _arguments(text: str, count: int) -> list[str]:
    parts = [each.strip() for each in _split(text)] if text.strip() else []
    if len(parts) == 1 and count > 1:
        parts = text.split()
    return parts


def _split(text: str) -> Iterator[str]:
    """At commas that no bracket encloses."""
    depth, start = 0, 0
    for place, each in enumerate(text):
        if each in "[(":
            depth += 1
        elif each in "])":
            depth -= 1
        elif each == "," and depth <= 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


_OPERATORS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: int(a / b) if abs(a) < 1 << 52 else a // b,
    ast.Mod: lambda a, b: a - b * int(a / b) if abs(a) < 1 << 52 else a % b,
    ast.LShift: lambda a, b: a << min(max(b, 0), 64),
    ast.RShift: lambda a, b: a >> min(max(b, 0), 64),
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.Eq: lambda a, b: -int(a == b),
    ast.NotEq: lambda a, b: -int(a != b),
    ast.Lt: lambda a, b: -int(a < b),
    ast.LtE: lambda a, b: -int(a <= b),
    ast.Gt: lambda a, b: -int(a > b),
    ast.GtE: lambda a, b: -int(a >= b),
}


def _evaluated(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool) and abs(value) < 1 << 80:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluated(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _evaluated(inner)
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return ~_evaluated(inner)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return int(not _evaluated(inner))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            found = _OPERATORS[type(operator)](_evaluated(left), _evaluated(right))
            if abs(found) < 1 << 80:
                return found
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_evaluated(left), _evaluated(right))
        case ast.BoolOp(op=operator, values=values):
            truths = [bool(_evaluated(each)) for each in values]
            return int(all(truths) if isinstance(operator, ast.And) else any(truths))
    raise ValueError
