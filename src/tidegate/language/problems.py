"""What is wrong with one operation, in words, and what several kinds of operations ask of a value.

Needs   a value, and what it must be
Gives   a problem, or none; where and in which kernel is for `check` to say
Keeps   a value of unknown type is never a problem: its mistake has been reported
Cost    constant
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.diag import Finding, Label, Span
from tidegate.language.ops import Value
from tidegate.language.types import UNKNOWN, Lds, Tile, Type


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule that an operation breaks. `about`: values whose types show it; `at`: where in the operation it is."""

    code: str
    message: str
    help: str = ""
    about: tuple[Value, ...] = ()
    at: Span | None = None
    more: tuple[Label, ...] = ()


Problems = Iterator[Problem]


def must_be_tile(value: Value) -> Problems:
    if not isinstance(value.type, Tile) and value.type != UNKNOWN:
        help = "read it with `local_read`" if isinstance(value.type, Lds) else ""
        yield Problem("TG012", f"`{value.name}` is {a(value.type)}, not a tile", help, (value,))


def must_have_axis(axis: int, shape: tuple[int, ...]) -> Problems:
    if not 0 <= axis < len(shape):
        text = f"there is no axis {axis} in a tile with {count_of(len(shape), 'dimension')}"
        yield Problem("TG016", text, "axes count from 0")


def must_be(value: Value, wanted: Type) -> Problems:
    found = value.type
    if found not in (wanted, UNKNOWN) and wanted != UNKNOWN:
        only_dtype = isinstance(wanted, Tile | Lds) and type(wanted) is type(found) and wanted.shape == found.shape
        text = f"`{value.name}` should be {a(wanted)}, but is {a(found)}"
        yield Problem("TG011" if only_dtype else "TG010", text, about=(value,))


def defined_twice(name: str, again: Span, first: Span) -> Finding:
    """Of text and of kernels from elsewhere alike."""
    labels = (Label(again, "here again"), Label(first, "first here"))
    return Finding("TG004", f"`{name}` is defined twice", labels, help="names are unique in a kernel")


def a(what: Type | str) -> str:
    """`tile<4xf32>` with its article: `an index`, `an lds`, `an mbarrier`."""
    text = str(what)
    return f"{'an' if text[0] in 'ilm' else 'a'} `{text}`"


def count_of(number: int, noun: str, many: str = "") -> str:
    return f"{number or 'no'} {noun if number == 1 else many or noun + 's'}"
