"""Races of Wave's own barriers, as the instructions that they have become.

Needs   a Python that has Wave; kernels of `oracles/wave_kernels` in whose traces `tidegate.wave.check` finds a race
Gives   `race_lines`: the way from one access to the one that it races with, past no barrier, or past one at which it is
        still in flight; nothing where LLVM has closed the race by a wait of its own
Keeps   a way is one that control can take, over branches and back edges; what neither touches shared memory nor waits,
        meets or jumps is left out; which pair of kinds races in a kernel is what the checker says of its trace
Cost    a few seconds for each kernel, to compile it

    ds_read_b32 v10, v8 offset:256          wave 3 reads the row of wave 0
    … 2 others
    ds_write_b32 v9, v6                     wave 0 may be here already, in its next iteration
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oracles.wave_kernels import Case, assembly_of, cases
from tidegate.comparison.code import BARRIER, BRANCHES, CodeBlock, CodeLine, read_assembly, touches_lds, waits_of
from tidegate.comparison.paths import access_of, events_of

CLOSED = "waits of LLVM's own stand before every barrier on the way"
Point = tuple[int, int]  # block, instruction


@dataclass(frozen=True, slots=True)
class Race:
    """Two kinds of accesses, and the barriers on the way at which the first is in flight."""

    name: str
    target: str
    first: str
    second: str
    why: str
    past: int = 0  # barriers


RACES = (
    Race("pass-around", "gfx942", "read", "write", "the next iteration writes what another wave still reads"),
    Race("one-writes-in-loop", "gfx942", "read", "write", "the first wave writes the row that others still read"),
    Race("gemm-same-bytes", "gfx942", "read", "write", "two buffers in the same bytes: one is read, the other written"),
    Race("atomic-add-4", "gfx942", "write", "atomic", "a wave adds to what another wave then sets to its first value"),
    Race("gemm-half-async-modulo", "gfx942", "copy", "read", "what a copy brings is read before it has landed", 1),
    Race("pingpong", "gfx1201", "read", "write", "waves a barrier ahead write what the others still read", 2),
    Race("pingpong-square", "gfx1201", "read", "write", "waves a barrier ahead write what the others still read", 2),
    Race("pingpong", "gfx1250", "read", "write", "waves a barrier ahead write what the others still read", 2),
    Race("pingpong-async-2", "gfx942", "copy", "read", "what a copy brings is read before it has landed", 1),
    Race("pingpong-async-2", "gfx950", "copy", "read", "what a copy brings is read before it has landed", 1),
)


def race_lines(case: Case, target: str) -> list[str]:
    """The instructions of the race that is known of a kernel; empty where the assembly has none."""
    race = next(each for each in RACES if (each.name, each.target) == (case.name, target))
    return find_race(assembly_of(case, target), race)


def find_race(text: str, race: Race) -> list[str]:
    """The shortest way between two accesses that race."""
    (blocks,) = read_assembly(text)
    if race.past:
        ways = _past_barriers(blocks, race)
    else:
        ways = (_way(blocks, point, race.second, 0) for point in _accesses(blocks, race.first))
    best = min((way for way in ways if way), key=len, default=[])
    lines = text.split("\n")
    if race.past < 2:
        return list(_shown(best, lines))
    first, *_, last = [at for at, one in enumerate(best) if _is_meeting(one)] or [0, 0]
    ahead = ["        where waves that are a barrier ahead are here:"] if best else []
    return [*_shown(best[: first + 1], lines), *ahead, *_shown(best[last:], lines)]


def _accesses(blocks: list[CodeBlock], kind: str) -> Iterator[Point]:
    for number, block in enumerate(blocks):
        yield from ((number, at) for at, one in enumerate(block.code) if _is_access(one, kind))


def _is_access(one: CodeLine, kind: str) -> bool:
    return touches_lds(one) and access_of(one)[0] == kind


def _past_barriers(blocks: list[CodeBlock], race: Race) -> Iterator[list[CodeLine]]:
    """Ways from accesses that are in flight at the first barrier behind them."""
    events = events_of(blocks)
    for point in _accesses(blocks, race.first):
        way = _way(blocks, point, race.second, race.past)
        meets = next((one.line for one in way if _is_meeting(one)), 0)
        is_open = way[0].line in events.undrained.get(meets, ()) if way else False
        if is_open or (race.first == "copy" and events.copies.get(meets, 0)):
            yield way


def _is_meeting(one: CodeLine) -> bool:
    return one.name == BARRIER or one.name.startswith("s_barrier_signal")


def _way(blocks: list[CodeBlock], start: Point, kind: str, past: int) -> list[CodeLine]:
    """The shortest way from an access to one of a kind, past so many barriers and no more."""
    first = (*start, 0)
    came: dict[tuple[int, int, int], tuple[int, int, int] | None] = {first: None}
    todo = deque([first])
    while todo:
        here = todo.popleft()
        block, at, met = here
        one = blocks[block].code[at] if at < len(blocks[block].code) else None
        if one is not None and here != first and met == past and _is_access(one, kind):
            return _walked(blocks, came, here)
        met += one is not None and _is_meeting(one)
        after = [(block, at + 1)] if at + 1 < len(blocks[block].code) else [(each, 0) for each in blocks[block].after]
        for step in ((*each, met) for each in after):
            if met <= past and step not in came:
                came[step] = here
                todo.append(step)
    return []


def _walked(
    blocks: list[CodeBlock], came: dict[tuple[int, int, int], tuple[int, int, int] | None], end: tuple[int, int, int]
) -> list[CodeLine]:
    way: list[CodeLine] = []
    here: tuple[int, int, int] | None = end
    while here is not None:
        block, at, _ = here
        way += blocks[block].code[at : at + 1]
        here = came[here]
    return way[::-1]


def _shown(way: list[CodeLine], lines: list[str]) -> Iterator[str]:
    """The instructions that matter, with their lines; how many others lie between."""
    others, last = 0, 0
    for one in way:
        matters = touches_lds(one) or one.name.startswith((BARRIER, *BRANCHES)) or any(True for _ in waits_of(one))
        others += not matters
        if matters:
            if others:
                yield f"        … {others} others"
            back = "   (back)" if one.line < last else ""
            yield f"{one.line:6}  {' '.join(lines[one.line - 1].split(';')[0].split())}{back}"
            others, last = 0, one.line


def print_races(given: Sequence[str]) -> int:
    """`races [--only NAME,...]`: each race with its instructions."""
    parser = argparse.ArgumentParser(prog="python -m bench.wave_assembly races")
    parser.add_argument("--only", help="kernels, with commas between")
    names = (parser.parse_args(given).only or "").split(",")
    known = {each.name: each for each in cases()}
    for race in RACES:
        if names == [""] or race.name in names:
            try:
                lines = race_lines(known[race.name], race.target)
            except RuntimeError as error:
                lines = [f"        does not compile: {error}"]
            print(f"{race.name} {race.target}: {race.why}")
            print("\n".join(lines or [f"        not in the assembly: {CLOSED}"]), flush=True)
    return 0
