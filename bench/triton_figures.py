"""What the Triton benchmarks share: figures over pairs of a kernel and a target, and the barriers in a graph.

Needs   the pairs and their texts (`oracles.triton_kernels.texts`)
Gives   `figures` and `slices` over all pairs or some, `barriers_in` how many barriers a graph has
Keeps   what takes too long is stopped, and said
Cost    that of what is done with each pair
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.slices import by_slices, sums_of
from oracles.triton_kernels.texts import TEXTS, pairs
from tidegate.graph import model as g
from tidegate.graph.barriers import MEETING

LATE = "takes more than"


def over_pairs(make: Callable[[list[tuple[int, int]]], Any], limits: tuple[int, int]) -> Any:
    """The sums of the pairs with numbers from one up to, not including, another; there may be fewer."""
    end = min(limits[1], len(pairs()))
    sums = make([(limits[0], end)])
    for number in range(limits[0], end):
        sums.add(pairs()[number])
    return sums


def some_pairs(sums: Any, chunk: Callable[[tuple[int, int]], Any], every: int) -> Any:
    """The sums of every so many pairs, in this process."""
    for number in range(0, len(pairs()), every):
        sums.join(chunk((number, number + 1)))
    return sums


def figures(
    make: Callable[..., Any], table: Callable[[Any], str], every: int, quick: bool | None = None
) -> tuple[str, bool]:
    """The table of all pairs, or of every so many, and whether it is good. `quick` None: the arguments say."""
    quick = "--quick" in sys.argv if quick is None else quick
    chunk = partial(over_pairs, make)
    sums = some_pairs(make(), chunk, every) if quick else sums_of(make(), chunk, 0, len(pairs()))
    return table(sums), sums.is_good


def slices(name: str, make: Callable[..., Any], table: Callable[[Any], str]) -> None:
    """Some pairs by their numbers, or a table from such, as the arguments say."""
    given = [each for each in sys.argv[1:] if not each.startswith(TEXTS)]
    by_slices(given, name, make, partial(over_pairs, make), table)


def barriers_in(graph: g.SyncGraph) -> tuple[int, int]:
    """Barriers in the file, and those of them in loops."""
    found = [each for each in graph.points if isinstance(each.action, g.Sync) and isinstance(each.action.op, MEETING)]
    return len(found), sum(each.loop >= 0 for each in found)


def in_a_child(work: Callable[[], dict], seconds: float) -> dict:
    """What `work` gives, in a process of its own that begins as this one is now; `error` if it fails or never ends."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of others: the child uses none of theirs
        child = os.fork()
    if not child:
        os.close(reading)
        try:
            found = dict(work())
        except BaseException as error:
            found = {"error": f"{type(error).__name__}: {error}"[:200]}
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        late = not select.select([stream], [], [], seconds)[0]
        if late:
            os.kill(child, signal.SIGKILL)
        said = stream.read()
    _, status = os.waitpid(child, 0)
    if late:
        return {"error": f"{LATE} {seconds:g} s"}
    return json.loads(said) if said else {"error": f"the process ended with {os.waitstatus_to_exitcode(status)}"}


class TooLong(Exception):
    """Raised where something takes longer than it may."""


@contextmanager
def at_most(seconds: float, what: str) -> Iterator[None]:
    """Stops what takes longer. Only for the main thread of a process, and one at a time."""

    def stop(_number: int, _frame: object) -> None:
        raise TooLong(f"{what} takes more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
