"""Kernels as `.tide` text.

Needs   a kernel, well-formed or not
Gives   text that parses to the same kernel
Keeps   `parse(show(k)) == k`
Cost    linear in the kernel
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tidegate.index import ONE, ZERO
from tidegate.index import show as show_index
from tidegate.language.ops import (
    Block,
    Conditional,
    Elementwise,
    Iterate,
    Kernel,
    Module,
    Op,
    Operand,
    Place,
    Specialize,
    Value,
)
from tidegate.language.syntax import Form, Hole, Literal, Maybe, form_of
from tidegate.language.types import BarrierObject, Lds

INDENT = "  "


def show(program: Module | Kernel) -> str:
    """The text of a file."""
    kernels = program.kernels if isinstance(program, Module) else (program,)
    lines: list[str] = []
    target = ""
    for kernel in kernels:
        if lines:
            lines.append("")
        if kernel.target != target:
            lines += [f"target {kernel.target or 'none'}", ""]
            target = kernel.target
        lines += show_kernel(kernel)
    return "\n".join(lines) + "\n" if lines else ""


def show_kernel(kernel: Kernel) -> list[str]:
    """The lines of one kernel."""
    args = ", ".join(f"{arg.name}: {arg.type}" for arg in kernel.args)
    lines = [f"kernel @{kernel.name}({args})"]
    clauses = []
    if kernel.sizes:
        clauses.append(f"sizes({', '.join(f'{size.name} = {size.default}' for size in kernel.sizes)})")
    if kernel.where:
        clauses.append(f"where({', '.join(map(show_index, kernel.where))})")
    if kernel.grid:
        clauses.append(f"grid({', '.join(map(show_index, kernel.grid))})")
    lines += [2 * INDENT + clause for clause in clauses]
    lines += [f"{2 * INDENT}waves {kernel.waves} {{", *_show_block(kernel.body, INDENT), "}"]
    return lines


def _show_block(block: Block, indent: str) -> Iterator[str]:
    for op in block.ops:
        yield from show_op(op, indent)
    if block.yields:
        yield f"{indent}yield {', '.join(map(show_operand, block.yields))}"


def show_op(op: Op, indent: str = "") -> Iterator[str]:
    """The lines of one operation; a region takes several."""
    match op:
        case Iterate():
            yield f"{indent}{_results(op.results)}{_show_loop_head(op)} {{"
            yield from _show_block(op.body, indent + INDENT)
            yield indent + "}"
        case Conditional():
            types = f" : {', '.join(str(value.type) for value in op.results)}" if op.results else ""
            yield f"{indent}{_results(op.results)}conditional {show_index(op.cond)}{types} {{"
            yield from _show_block(op.then, indent + INDENT)
            if op.otherwise.ops or op.otherwise.yields:
                yield indent + "} else {"
                yield from _show_block(op.otherwise, indent + INDENT)
            yield indent + "}"
        case Specialize():
            yield indent + "specialize {"
            for group in op.groups:
                yield f"{indent}{INDENT}waves {group.first} .. {group.last} {{"
                yield from _show_block(group.body, indent + 2 * INDENT)
                yield f"{indent}{INDENT}}}"
            yield indent + "}"
        case Elementwise():
            args = ", ".join(arg.name for arg in op.args)
            yield f"{indent}{op.result.name} = {op.fn} {args} : {op.result.type}"
        case _:
            printer: Callable[[Any], str] = _printer(type(op))  # type: ignore[arg-type]
            result = getattr(op, "result", None)
            prefix = f"{result.name} = " if result is not None else ""
            yield f"{indent}{prefix}{printer(op)}"


def _results(results: tuple[Value, ...]) -> str:
    return f"{', '.join(value.name for value in results)} = " if results else ""


def _show_loop_head(op: Iterate) -> str:
    text = f"iterate {op.counter.name} in {show_index(op.lower)} .. {show_index(op.upper)}"
    if op.step != ONE:
        text += f" step {show_index(op.step)}"
    if op.expect is not None:
        text += f" expect {op.expect}"
    if op.carried:
        each = (f"{c.value.name} = {show_operand(c.init)} : {c.value.type}" for c in op.carried)
        text += f" carry({', '.join(each)})"
    return text


def show_operand(operand: Operand) -> str:
    return operand.name if isinstance(operand, Value) else show_index(operand)


def show_place(place: Place) -> str:
    """`%a[slot][i, j]`; the slot is left out where there is only one."""
    many = isinstance(place.base.type, Lds | BarrierObject) and place.base.type.slots != 1
    index = f"[{', '.join(map(show_index, place.index))}]" if place.index else ""
    if many:
        return f"{place.base.name}[{show_index(place.slot)}]{index}"
    if place.slot != ZERO:
        return f"{place.base.name}[{show_index(place.slot)}]{index or '[]'}"
    return place.base.name + index


@cache
def _printer(cls: type) -> Callable[[Any], str]:
    """A function that prints one kind of operation, from its form."""
    form = form_of(cls)
    pieces = [_piece(form, part) for part in form.parts]
    word = form.word

    def run(op: Any) -> str:
        return word + "".join([piece(op) for piece in pieces])

    return run


def _piece(form: Form, part: Literal | Hole | Maybe) -> Callable[[Any], str]:
    if isinstance(part, Literal):
        text = part.text if part.text == "," else " " + part.text
        return lambda op: text
    hole = part.hole if isinstance(part, Maybe) else part
    name, shower = hole.field, SHOWERS.get(hole.kind, _spaced(str))
    if isinstance(part, Hole):
        return lambda op: shower(getattr(op, name))
    default, keyword, is_flag = form.defaults[name], " " + part.keyword, hole.kind == "flag"

    def run(op: Any) -> str:
        value = getattr(op, name)
        if value == default:
            return ""
        return keyword if is_flag else keyword + shower(value)

    return run


def _spaced(shower: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: " " + shower(value)


# How each kind of field is written, with the space before it.
SHOWERS: dict[str, Callable[[Any], str]] = {
    "value": lambda value: " " + value.name,
    "type": lambda value: f" {value.type}",
    "tile": _spaced(str),
    "place": _spaced(show_place),
    "index": _spaced(show_index),
    "cond": _spaced(show_index),
    "indices": lambda value: f"({', '.join(map(show_index, value))})",
    "group": lambda value: f"({', '.join(each.name for each in value)})",
    "counts": lambda value: "".join(f" {name}({most})" for name, most in value),
    "barrier": lambda value: f" {value.name if isinstance(value, Value) else value}",
    "int": _spaced(str),
    "float": _spaced(repr),
}
