"""How many threads a block has, how many blocks there are, and what is passed to them, as texts and launches say it.

Needs   what a user asks for, and what a text demands
Gives   `Launched`; shapes of blocks and grids, as numbers and as text; values of arguments
Keeps   what is no shape is `BadInput`; a shape is never guessed
Cost    constant
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from tidegate.diag import BadInput, Finding, Label, Span

MOST_THREADS = 1024
MOST_BLOCKS = (1 << 31) - 1
AXES = "xyz"


@dataclass(frozen=True, slots=True)
class Launched:
    """Empty where nothing was said. `arguments`: by number from 0, or by name."""

    block: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()
    arguments: Mapping[str, int] = field(default_factory=dict)


def parse_launch(block: str | None, grid: str | None, arguments: Iterable[str]) -> Launched:
    shape = parse_block(block) if block is not None else ()
    return Launched(shape, parse_grid(grid) if grid is not None else (), parse_arguments(arguments))


def parse_block(text: str) -> tuple[int, ...]:
    """`256`, `16x16`, `8x8x4`."""
    found = _numbers(text)
    if not found:
        help_ = "as in `--block 256` or `--block 16x16`"
        raise BadInput(Finding("TG022", f"`{text[:80]}` is not a block shape", (), help=help_))
    return found


def parse_grid(text: str) -> tuple[int, ...]:
    """`128`, `16x8`: blocks in each direction."""
    found = _numbers(text)
    if not found or max(found) > MOST_BLOCKS:
        help_ = "as in `--grid 128` or `--grid 16x8`"
        raise BadInput(Finding("TG022", f"`{text[:80]}` is not a grid of blocks", (), help=help_))
    return found


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.lower().replace(",", "x").split("x")
    # Of numbers with more digits Python converts none, and no launch has so many threads or blocks.
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r" *0*[1-9][0-9]{0,9} *", each) for each in parts):
        return ()
    return tuple(map(int, parts))


def parse_arguments(texts: Iterable[str]) -> dict[str, int]:
    """`n=4096`, `4=0x1000`."""
    found: dict[str, int] = {}
    for each in texts:
        name, _, value = each.partition("=")
        if not name or not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19}", value):
            help_ = "as in `--arg 2=4096`: a parameter's number or name, and an integer from 0"
            raise BadInput(Finding("TG022", f"`{each[:80]}` is not the value of an argument", (), help=help_))
        found[name] = int(value, 0) if value[:2].lower() == "0x" else int(value)
    return found


def full_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape, 1, 1, 1)[:3]


def shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def choose_shape(
    name: str, at: Span, asked: tuple[int, ...], wanted: tuple[int, ...], most: tuple[int, ...]
) -> tuple[int, ...]:
    """`asked`: by the user; `wanted`: by the text, which is a demand; `most`: the largest that the text allows."""
    if wanted and asked and full_shape(wanted) != full_shape(asked):
        said = f"`{name}` asks for blocks of {shape_text(wanted)} threads, not {shape_text(asked)}"
        raise BadInput(Finding("TG022", said, (Label(at),)))
    shape = asked or wanted
    if not shape:
        limit = f", at most {shape_text(most)}" if most else ""
        message = f"how many threads does a block of `{name}` have? Its addresses depend on this{limit}"
        help_ = "state it: `--block 256`, or `--block 16x16`"
        raise BadInput(Finding("TG022", message, (Label(at),), help=help_))
    threads = prod(shape)  # of Python's numbers, which do not wrap around
    largest = min(prod(most) if most else MOST_THREADS, MOST_THREADS)
    if not 0 < threads <= largest:
        message = f"a block of {shape_text(shape)} threads: `{name}` takes at most {largest}"
        raise BadInput(Finding("TG022", message, (Label(at),)))
    return shape
