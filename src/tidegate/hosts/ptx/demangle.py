"""Mangled names as C++ writes them.

Needs   a name of PTX, which compilers of C++ mangle by the Itanium ABI
Gives   the name without the types of its parameters: `scale<float, 4>`, `tile`; the name itself if it is not mangled
Keeps   a name that uses what is not known here stays as it is: nothing is made up
Cost    linear in the name, but for substitutions that name long types again and again, which are cut off

    _ZN3gpu5scaleIfLi4EEEvPT_              gpu::scale<float, 4>
    _ZZ5scaleIfLi4EEvPT_E4tile             tile, of scale<float, 4>
"""

from __future__ import annotations

import re
from functools import lru_cache

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_TWO = {"Dh": "half", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t", "Da": "auto", "Dn": "decltype(nullptr)"}
_STD = {"St": "std", "Sa": "std::allocator", "Ss": "std::string", "Sb": "std::basic_string"}
_SUFFIXES = {"P": "*", "R": "&", "O": "&&"}
_LITERAL = {"j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
_ANONYMOUS = re.compile(r"_GLOBAL__N_|_INTERNAL_")
LONGEST, DEEPEST = 4000, 60


class _Unknown(Exception):
    """A part that is not understood here."""


@lru_cache(4096)
def demangle(name: str) -> tuple[str, ...]:
    """The function around it, if it has one, and its own name."""
    if not name.startswith("_Z"):
        return (name,)
    try:
        reader = _Reader(name)
        return tuple(reader.around() if reader.peek() == "Z" else [reader.name()])
    except (_Unknown, IndexError, ValueError):
        return (name,)


def short_name(name: str) -> str:
    """Of a kernel its name with template arguments, of a variable of a function that of the variable."""
    return demangle(name)[-1]


class _Reader:
    """Reads one name from left to right."""

    def __init__(self, name: str) -> None:
        self.text, self.at = name, 2
        self.seen: list[str] = []  # what later parts may name again
        self.arguments: list[str] = []
        self.depth = 0

    def encoding_parts(self) -> list[str]:
        if self.peek() == "Z":
            return self.around()
        found = self.name()
        while self.at < len(self.text) and self.peek() not in "E.$":
            self.type()  # results and parameters, which the name does not need
        return [found]

    def around(self) -> list[str]:
        """A function, with all of its parameters, and what is in it."""
        self.expect("Z")
        found = self.encoding_parts()
        self.expect("E")
        if self.take("s"):
            raise _Unknown  # a text
        return [*found, self.name()]

    # --- characters ---

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def take(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise _Unknown

    def digits(self) -> int:
        found = re.compile(r"\d{1,6}").match(self.text, self.at)
        if found is None:
            raise _Unknown
        self.at = found.end()
        return int(found[0])

    def note(self, text: str) -> str:
        if len(text) > LONGEST:
            raise _Unknown
        self.seen.append(text)
        return text

    # --- names ---

    def name(self) -> str:
        if self.take("N"):
            return self.nested()
        if self.peek() == "S" and self.peek(2) != "St":
            found = self.substitution()
            return found + self.template_arguments() if self.peek() == "I" else found
        found = ("std::" if self.take("St") else "") + self.plain()
        if self.peek() == "I":
            self.note(found)
            found += self.template_arguments()
        return found

    def nested(self) -> str:
        while self.peek() in "rVK" and self.peek():
            self.at += 1  # of a member function
        found = ""
        while not self.take("E"):
            if self.peek() == "I":
                found += self.template_arguments()
            elif self.peek() == "S":
                found = self.substitution()
                continue  # it is known already
            elif self.peek() == "T":
                found = self.parameter()
            else:
                part = self.plain(found)
                found = f"{found}::{part}" if found else part
            if self.peek() != "E":
                self.note(found)
        if not found:
            raise _Unknown
        return found

    def plain(self, around: str = "") -> str:
        self.take("L")  # of this file alone
        if self.peek().isdigit():
            count = self.digits()
            found = self.text[self.at : self.at + count]
            if len(found) < count:
                raise _Unknown
            self.at += count
            while self.take("B"):
                tag = self.digits()
                self.at += tag
            return "(anonymous namespace)" if _ANONYMOUS.match(found) else found
        if around and self.peek(2) in ("C1", "C2", "C3"):
            self.at += 2
            return around.rpartition("::")[2].partition("<")[0]
        raise _Unknown  # operators and functions without a name

    def substitution(self) -> str:
        self.expect("S")
        if self.peek() in "tasb":
            found = _STD["S" + self.peek()]
            self.at += 1
            if found == "std":
                found = f"std::{self.plain()}"
                self.note(found)
            return found
        return self.seen[self.sequence()]

    def sequence(self) -> int:
        """`_` is 0, `0_` is 1; digits are of base 36."""
        found = re.compile(r"([0-9A-Z]{0,4})_").match(self.text, self.at)
        if found is None:
            raise _Unknown
        self.at = found.end()
        return int(found[1], 36) + 1 if found[1] else 0

    def parameter(self) -> str:
        self.expect("T")
        return self.arguments[self.sequence()]

    # --- template arguments ---

    def template_arguments(self) -> str:
        self.expect("I")
        found: list[str] = []
        while not self.take("E"):
            found += self.argument()
        self.arguments = found
        return f"<{', '.join(found)}>"

    def argument(self) -> list[str]:
        if self.take("J"):
            found: list[str] = []
            while not self.take("E"):
                found += self.argument()
            return found
        if self.take("XadL_Z"):  # the address of a function or a variable
            found = self.encoding_parts()[-1:]
            self.expect("EE")
            return [f"&{found[0]}"]
        return [self.literal() if self.peek() == "L" else self.type()]

    def literal(self) -> str:
        self.expect("L")
        if self.take("_Z"):  # a function or a variable
            found = self.encoding_parts()[-1]
            self.expect("E")
            return f"&{found}"
        kind = self.peek()
        named = self.type()
        value = re.compile(r"n?\d{1,20}").match(self.text, self.at)
        if value is None:
            raise _Unknown
        self.at = value.end()
        self.expect("E")
        number = value[0].replace("n", "-")
        if kind == "b":
            return "true" if number == "1" else "false"
        if kind in _BUILTIN:
            return number + _LITERAL.get(kind, "") if kind in "ijlmxy" else f"({named}){number}"
        return f"({named}){number}"

    # --- types ---

    def type(self) -> str:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Unknown
        found = self.read_type()
        self.depth -= 1
        return found

    def read_type(self) -> str:
        kind = self.peek()
        if kind in _BUILTIN:
            self.at += 1
            return _BUILTIN[kind]
        if self.peek(2) in _TWO:
            self.at += 2
            return _TWO[self.text[self.at - 2 : self.at]]
        if kind in _SUFFIXES:
            self.at += 1
            return self.note(_pointed(self.type(), _SUFFIXES[kind]))
        if kind in ("K", "V", "r"):
            return self.qualified()
        if self.take("Dp"):
            return self.note(f"{self.type()}...")
        if self.take("F"):
            return self.function()
        if self.take("A"):
            count = self.digits()
            self.expect("_")
            return self.note(f"{self.type()} [{count}]")
        return self.class_type()

    def qualified(self) -> str:
        words = ""
        while self.peek() and self.peek() in "rVK":
            words += {"K": " const", "V": " volatile", "r": ""}[self.peek()]
            self.at += 1
        return self.note(self.type() + words)

    def function(self) -> str:
        """What it returns and takes."""
        found = [self.type()]
        while not self.take("E"):
            found.append(self.type())
        taken = ", ".join(found[1:])
        return self.note(f"{found[0]} ({'' if taken == 'void' else taken})")

    def class_type(self) -> str:
        if self.peek() == "T":
            found = self.note(self.parameter())
            return self.note(found + self.template_arguments()) if self.peek() == "I" else found
        if self.peek() == "S" and self.peek(2) != "St":
            found = self.substitution()
            return self.note(found + self.template_arguments()) if self.peek() == "I" else found
        if self.peek() == "N" or self.peek().isdigit() or self.peek(2) == "St":
            outer, found = self.arguments, self.name()
            self.arguments = outer or self.arguments
            return self.note(found)
        raise _Unknown  # functions, arrays, members, expressions


def _pointed(inner: str, mark: str) -> str:
    """Marks of a function or an array stand in its middle: `int (*)(int)`, `float (&) [4]`."""
    found = re.search(r" \(([*&]*)\)(?= ?[\[(])", inner)
    if found is not None:
        return f"{inner[: found.end() - 1]}{mark}{inner[found.end() - 1 :]}"
    ending = re.search(r" [\[(]", inner) if inner.endswith(("]", ")")) and "<" not in inner else None
    if ending is None:
        return inner + mark
    place = ending.start()
    return f"{inner[:place]} ({mark}){inner[place if inner[place + 1] == '[' else place + 1 :]}"
