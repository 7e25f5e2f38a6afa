"""Boxes of bytes as bits of one large number.

Needs   where a box starts, its steps and its width
Gives   a number with a bit for every byte
Keeps   two boxes share a byte if their numbers share a bit
Cost    linear in the pieces once, then a shift
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tidegate.footprint.questions import Side
from tidegate.index import evaluate


@lru_cache(maxsize=4096)
def box(steps: tuple[tuple[int, int], ...], width: int) -> tuple[int, int]:
    """The bits of a box, and how many bytes before its start the lowest of them stands for."""
    bits, before = (1 << width) - 1, 0
    for count, stride in steps:
        if count <= 0:
            return 0, 0
        back = max(0, -stride * (count - 1))
        one, bits, before = bits, 0, before + back
        for step in range(count):
            bits |= one << (back + step * stride)
    return bits, before


def bytes_at(side: Side, env: Mapping[str, int], zero: int) -> int:
    """The bits of one side's bytes; bit 0 stands for byte `zero`, which lies below all of them."""
    steps = []
    for span in side.spans:
        count = span.count if span.limit is None else max(0, min(span.count, evaluate(span.limit, env)))
        steps.append((count, span.stride))
    bits, before = box(tuple(steps), side.width)
    return bits << (evaluate(side.start, env) - before - zero) if bits else 0


def reach(side: Side) -> tuple[int, int]:
    """How far a box can reach before and behind its start."""
    back = sum(min(0, span.stride * (span.count - 1)) for span in side.spans)
    ahead = sum(max(0, span.stride * (span.count - 1)) for span in side.spans)
    return back, ahead + side.width


def first_run(bits: int) -> tuple[int, int]:
    """The first bits that are set in a row: from, up to and not including."""
    first = (bits & -bits).bit_length() - 1
    rest = bits >> first
    return first, first + (~rest & (rest + 1)).bit_length() - 1
