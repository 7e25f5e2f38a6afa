"""The names that a file itself gives to values, in place of those of Triton's printer.

Needs   operations with their places in the file, and its lines
Gives   the same operations with the file's names
Keeps   each value has one name in its function; what has none in the file, because a pass or a printer put it there,
        keeps the printer's, changed where the file uses that for something else
Cost    linear in the operations

    %65:15 = "scf.for"(%3, ...) ({ ^bb0(%arg9: i32, ...)      in the file: %acc_55:15 = scf.for %acc_57 = ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate.hosts.mlir.model import Block, Operation, Region, walk

_RESULTS = re.compile(r"\s*(%[\w$.-]+)(?::\d+)?((?:\s*,\s*%[\w$.-]+)*)\s*=\s*")
_ASSIGNED = re.compile(r"(%[\w$.-]+) = ")
_TYPED = re.compile(r"(%[\w$.-]+): ")
_VALUE = re.compile(r"%[\w$.-]+")


def with_names(function: Operation, lines: Sequence[str]) -> Operation:
    """A function whose values are called as in the file."""
    given = {value: name for op in walk(function) for value, name in _given(op, lines)}
    by: dict[str, str] = {}
    taken: dict[str, str] = {}  # the file's name, without its number → the printer's, of which it is
    values = list(_values(function))
    for value in (*(each for each in values if each in given), *(each for each in values if each not in given)):
        own, wanted = value.partition("#")[0], given.get(value, value)
        base, mark, number = wanted.partition("#")
        while taken.setdefault(base, own) != own:  # regions beside each other may use a name twice
            base += "_"
        by[value] = f"{base}{mark}{number}"
    return _renamed(function, by)


def _given(op: Operation, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What an operation defines, and what the file calls it."""
    line = lines[op.at.line - 1] if 1 <= op.at.line <= len(lines) else ""
    rest = line[op.at.column - 1 :]
    if not starts_with(rest, op.name):
        return
    found = _RESULTS.match(line)
    if found is not None and op.results:
        more = _VALUE.findall(found[2])
        if more:
            yield from zip(op.results, (found[1], *more), strict=False)
        elif len(op.results) == 1:
            yield op.results[0], found[1]
        else:
            yield from ((result, f"{found[1]}#{number}") for number, result in enumerate(op.results))
    arguments = op.regions[0].blocks[0].arguments if op.regions and op.regions[0].blocks else ()
    pattern = {"scf.for": _ASSIGNED, "tt.func": _TYPED}.get(op.name)
    if pattern is not None and arguments:
        names = pattern.findall(rest)
        if len(names) == len(arguments):
            yield from zip((name for name, _ in arguments), names, strict=True)


def starts_with(text: str, name: str) -> bool:
    """Whether a text begins with the name of an operation, in either form."""
    if text.startswith(f'"{name}"'):
        return True
    following = text[len(name) : len(name) + 1]
    return text.startswith(name) and not (following.isalnum() or following in ("_", "."))


def _values(op: Operation) -> Iterator[str]:
    for each in walk(op):
        yield from each.results
        for region in each.regions:
            for block in region.blocks:
                yield from (name for name, _ in block.arguments)


def _renamed(op: Operation, by: dict[str, str]) -> Operation:
    def block(each: Block) -> Block:
        arguments = tuple((by.get(name, name), type_) for name, type_ in each.arguments)
        return Block(each.label, arguments, tuple(_renamed(inner, by) for inner in each.operations))

    return replace(
        op,
        results=tuple(by.get(each, each) for each in op.results),
        operands=tuple(by.get(each, each) for each in op.operands),
        regions=tuple(Region(tuple(map(block, region.blocks))) for region in op.regions),
    )
