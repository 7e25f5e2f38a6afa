"""Long runs over numbered programs: by a process for each core, or in slices that are put together to one table.

Needs   sums of some programs that can be added to and joined; `slices` are the numbers they are about, from and up to
Gives   `in_order`: a function of many things; `sums_of`: the sums of many; `by_slices`: a slice as a document, or a
        table from such; `numbers` and `row`: what their tables say alike
Keeps   programs in order, so that the names in a table are the same each time
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

CHUNK = 20


class Joined(Protocol):
    def join(self, other: Self) -> None: ...


Sums = TypeVar("Sums", bound=Joined)
Item = TypeVar("Item")
Result = TypeVar("Result")


def sums_of(sums: Sums, chunk: Callable[[tuple[int, int]], Sums], start: int, count: int) -> Sums:
    """Programs from a number on joined to `sums`. `chunk` sums up those between two numbers, in another process."""
    end = start + count
    chunks = [(first, min(first + CHUNK, end)) for first in range(start, end, CHUNK)]
    for part in in_order(chunk, chunks):
        sums.join(part)
    return sums


def in_order(function: Callable[[Item], Result], items: Iterable[Item], at_once: int = 1) -> Iterator[Result]:
    """What a function gives for each item, in their order; `at_once` items are handed to a process together."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield from pool.map(function, items, chunksize=at_once)


def by_slices(
    arguments: Sequence[str],
    name: str,
    make: Callable[..., Any],
    chunk: Callable[[tuple[int, int]], Any],
    table: Callable[[Any], str],
    show: Callable[[Any], str] | None = None,
) -> None:
    """`START COUNT` prints the sums of a slice, `write FILE ...` joins such and writes the table called `name`.

    `make` is the class of the sums, `show` how they are written down, if not field by field.
    """
    sums = make()
    if arguments[0] != "write":
        start, count = map(int, arguments)
        sums_of(sums, chunk, start, count)
        print(show(sums) if show else json.dumps({each.name: getattr(sums, each.name) for each in fields(sums)}))
        return
    from bench.__main__ import write

    for each in arguments[1:]:
        sums.join(make(**json.loads(Path(each).read_text(encoding="utf-8"))))
    text = table(sums)
    write(name, text)
    print(text)


def numbers(slices: Iterable[tuple[int, int]]) -> str:
    """Which programs were drawn, neighbouring slices as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(tuple(each) for each in slices):
        if found and found[-1][1] >= start:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    count = sum(end - start for start, end in found)
    return f"{count:,} programs: {', '.join(f'{start} to {end - 1}' for start, end in found)}"


def row(name: str, counts: list[int]) -> str:
    return f"| {name} | {' | '.join(f'{each:,}' for each in (*counts, sum(counts)))} |"
