"""What the Triton benchmarks share: pairs of a kernel and a target, their texts, and the barriers in a graph.

Needs   Triton, to compile; a folder for the texts: `--texts=DIR`, or one in the system's own for temporary files
Gives   `pairs()` by number, `text_of` the TTGIR of one, `synchronized_text_of` the same after Triton's own barriers,
        `barriers_in` how many barriers a graph has
Keeps   a text is compiled once for each version of Triton and of the kernels, by whichever process comes first; what
        takes too long is stopped, and said
Cost    a fifth of a second for a text that is not there yet
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from bench import triton_kernels
from bench.slices import by_slices, sums_of
from bench.triton_kernels import Case, cases, compile_ttgir
from tidegate.adapters.triton import libtriton
from tidegate.adapters.triton.places import take_places
from tidegate.graph import model as g
from tidegate.graph.barriers import MEETING

TEXTS = "--texts="
LATE = "takes more than"


@dataclass(frozen=True, slots=True)
class Pair:
    """A kernel for a target."""

    case: Case
    target: str

    @property
    def name(self) -> str:
        return f"{self.case.name}.{self.target}"


@cache
def pairs() -> tuple[Pair, ...]:
    """All, in the order of the kernels; the number of a pair is its place here."""
    return tuple(Pair(case, target) for case in cases() for target in case.targets)


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


def pair_named(name: str) -> Pair:
    return next(each for each in pairs() if each.name == name)


@cache
def folder() -> Path:
    """Where the texts are kept."""
    for each in sys.argv:
        if each.startswith(TEXTS):
            return Path(each.removeprefix(TEXTS))
    sources = sorted(Path(triton_kernels.__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"tidegate-ttgir-{libtriton.version()}-{digest}"


def text_of(pair: Pair) -> str:
    """The TTGIR of a pair, as Triton's cache would hold it."""
    return _kept(f"{pair.name}.ttgir", lambda: compile_ttgir(pair.case, pair.target))


def synchronized_text_of(pair: Pair) -> str:
    """The same in generic form without locations, laid out and with Triton's own barriers: read without Triton."""
    return _kept(f"{pair.name}.generic.mlir", lambda: _synchronized_by_triton(text_of(pair), pair.name))


def _synchronized_by_triton(text: str, name: str) -> str:
    plain = take_places(text).text
    parsed = libtriton.parse(plain, name)
    stages = ("warp-pipeline",) if parsed.has_stages() else ()
    parsed.run(*stages, "allocate", "fences", "barriers")
    return re.sub(r"\n{2,}", "\n", take_places(parsed.generic()).text)


def _kept(name: str, make: Callable[[], str]) -> str:
    """A text from the folder; made if it is not there."""
    path = folder() / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(make(), encoding="utf-8")
        new.replace(path)
    return path.read_text(encoding="utf-8")


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
