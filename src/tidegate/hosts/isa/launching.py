"""How many threads a block has, as texts and launches say it.

Needs   what a user asks for, and what a text demands
Gives   shapes of blocks, as numbers and as text
Keeps   what is no shape is `BadInput`; a shape is never guessed
Cost    constant
"""

from __future__ import annotations

import re
from math import prod

from tidegate.diag import BadInput, Finding, Label, Span

MOST_THREADS = 1024
AXES = "xyz"


def parse_block(text: str) -> tuple[int, ...]:
    """`256`, `16x16`, `8x8x4`."""
    parts = text.lower().replace(",", "x").split("x")
    # Of numbers with more digits Python converts none, and no block has so many threads.
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r" *0*[1-9][0-9]{0,8} *", each) for each in parts):
        help_ = "as in `--block 256` or `--block 16x16`"
        raise BadInput(Finding("TG022", f"`{text[:80]}` is not a block shape", (), help=help_))
    return tuple(map(int, parts))


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
