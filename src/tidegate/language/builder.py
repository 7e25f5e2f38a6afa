"""Recording operations, one after another, with regions that open and close.

Needs   calls in program order
Gives   a `Kernel`
Keeps   names are unique; an operation is recorded where it was written, with that place as its span
Cost    constant per operation

Tracing, tests and generators of random kernels all record through this class.
"""

from __future__ import annotations

import linecache
import operator
import re
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from tidegate.diag import NOWHERE, BadInput, Finding, Label, Span
from tidegate.index import ONE, Cond, Index
from tidegate.language.ops import (
    Block,
    Carried,
    Conditional,
    Fill,
    Group,
    Iterate,
    Kernel,
    Op,
    Operand,
    Size,
    Specialize,
    Splat,
    Value,
    results_of,
)
from tidegate.language.types import INDEX, DType, Tile, Type

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_recording: list[Builder] = []


def active() -> Builder:
    """The builder that records what is called now."""
    if not _recording:
        reject("TG007", "this operation is outside a kernel", "call it in a function with `@tidegate.kernel`")
    return _recording[-1]


def reject(code: str, message: str, help: str = "", at: Span | None = None) -> NoReturn:
    """Stops the trace: what was written has no meaning. Without a place, it is the line that is being executed.

    The kernel is lost even if its function catches this: a part of its body was not recorded.
    """
    stop(BadInput(Finding(code, message, (Label(at or find_caller()),), help=help)))


def stop(error: BadInput) -> NoReturn:
    """Stops the trace that is going on, if there is one."""
    if _recording and _recording[-1].stopped is None:
        _recording[-1].stopped = error
    raise error


def find_caller() -> Span:
    """The line outside this package that is being executed."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return span_of_line(frame.f_code.co_filename, frame.f_lineno)


def span_of_line(file: str, line: int) -> Span:
    text = linecache.getline(file, line).rstrip()
    indent = len(text) - len(text.lstrip())
    return Span(file, line, indent + 1, max(indent + 2, len(text) + 1))


@dataclass(slots=True)
class Builder:
    """Open regions are a stack of lists; the last one takes what is emitted."""

    spans: bool = True
    stack: list[list[Op]] = field(default_factory=lambda: [[]])
    taken: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  # values of regions that have ended
    opened: list[Span] = field(default_factory=list)  # where the open regions begin
    quoted: set[str] = field(default_factory=set)  # values that an index expression has named
    stopped: BadInput | None = None  # the first mistake, which the traced function may have caught
    unentered: dict[int, tuple[str, Span]] = field(default_factory=dict)  # regions that were made and not entered

    def __enter__(self) -> Builder:
        _recording.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _recording.pop()

    def here(self) -> Span:
        return find_caller() if self.spans else NOWHERE

    def emit(self, op: Op) -> None:
        self.stack[-1].append(op)

    def fresh(self, hint: str, type_: Type) -> Value:
        """A value with a name that nobody has."""
        hint = clean_name(hint)
        count = self.taken.get(hint, 0)
        self.taken[hint] = count + 1
        if not count:
            return Value(f"%{hint}", type_)
        name = f"{hint}_{count}"
        return self.fresh(name, type_) if name in self.taken else self.fresh_exact(name, type_)

    def fresh_exact(self, name: str, type_: Type) -> Value:
        self.taken[name] = 1
        return Value(f"%{name}", type_)

    def rename_last(self, value: Value, hint: str) -> Value:
        """Gives the result of the operation just recorded the name of the variable that takes it."""
        block, hint = self.stack[-1], clean_name(hint)
        if not block or getattr(block[-1], "result", None) != value or value.name == f"%{hint}":
            return value
        if value.name in self.quoted:
            return value
        named = self.fresh(hint, value.type)
        block[-1] = replace(block[-1], result=named)  # type: ignore[arg-type]
        if self.taken.get(value.name[1:]) == 1:
            del self.taken[value.name[1:]]
        return named

    def quote(self, value: Value) -> str:
        """The name of a value for an index expression, which keeps it: the value is not renamed any more."""
        self.quoted.add(value.name)
        return value.name

    # --- small things that other operations need ---

    def fill(self, number: Any, type_: Tile) -> Value:
        result = self.fresh("fill", type_)
        self.emit(Fill(result, _number(number, type_.dtype), self.here()))
        return result

    def splat(self, index: Index, type_: Tile) -> Value:
        result = self.fresh("splat", type_)
        self.emit(Splat(result, index, self.here()))
        return result

    # --- regions ---

    def promise(self, what: str) -> int:
        """A region is made; it must be entered."""
        key = len(self.unentered) and max(self.unentered) + 1
        self.unentered[key] = (what, self.here())
        return key

    def open(self) -> None:
        self.stack.append([])
        self.opened.append(self.here())

    def close(self, yields: Iterable[Operand] = ()) -> Block:
        """Ends a region: what it defines cannot be used after it."""
        ops = self.stack.pop()
        self.opened.pop()
        self.ended.update(value.name for op in ops for value in results_of(op))
        return Block(tuple(ops), tuple(yields), self.here())

    def loop(
        self,
        lower: Index,
        upper: Index,
        body: Block,
        counter: Value,
        carried: tuple[Carried, ...] = (),
        step: Index = ONE,
        expect: int | None = None,
        at: Span = NOWHERE,
    ) -> tuple[Value, ...]:
        """Records a loop whose body is closed; gives its results."""
        self.ended.update((counter.name, *(each.value.name for each in carried)))
        results = tuple(self.fresh(_stem(each.value), each.value.type) for each in carried)
        self.emit(Iterate(results, counter, lower, upper, body, step, carried, expect, at))
        return results

    def counter(self, hint: str) -> Value:
        return self.fresh(hint, INDEX)

    def branch(
        self, cond: Cond, then: Block, otherwise: Block, names: tuple[str, ...] = (), at: Span = NOWHERE
    ) -> tuple[Value, ...]:
        types = [INDEX if not isinstance(each, Value) else each.type for each in then.yields]
        results = tuple(self.fresh(name, type_) for name, type_ in zip(names, types, strict=True))
        self.emit(Conditional(results, cond, then, otherwise, at))
        return results

    def group(self, group: Group, at: Span = NOWHERE) -> None:
        """Records a wave group; groups of different waves that follow one another are one region."""
        block = self.stack[-1]
        last = block[-1] if block else None
        if isinstance(last, Specialize) and all(
            group.last <= each.first or each.last <= group.first for each in last.groups
        ):
            block[-1] = replace(last, groups=(*last.groups, group))
        else:
            self.emit(Specialize((group,), at))

    def kernel(
        self,
        name: str,
        args: tuple[Value, ...],
        waves: int,
        *,
        sizes: tuple[Size, ...] = (),
        where: tuple[Cond, ...] = (),
        grid: tuple[Index, ...] = (),
        target: str = "",
        at: Span = NOWHERE,
    ) -> Kernel:
        return Kernel(clean_name(name), args, Block(tuple(self.stack[0])), waves, sizes, where, grid, target, at)


_SAYABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def clean_name(hint: str) -> str:
    """A name that the text can say: letters without their accents, and `_` for what is no letter or digit."""
    if _SAYABLE.fullmatch(hint):
        return hint
    plain = unicodedata.normalize("NFKD", hint).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", plain)
    return plain if _SAYABLE.fullmatch(plain) else f"v{plain}"


def _number(value: Any, dtype: DType) -> float:
    """Whole numbers stay whole in tiles of integers: a float has only 53 bits."""
    try:
        if not dtype.is_float:
            return operator.index(value)
    except TypeError:
        pass
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        reject("TG012", f"a tile cannot be filled with `{value!r}`", "give a number")
    if dtype.is_float:
        return number
    return int(number) if number.is_integer() else number


def _stem(value: Value) -> str:
    """A name without the number that made it unique."""
    return re.sub(r"(?<=\w)_\d+$", "", value.name[1:])
