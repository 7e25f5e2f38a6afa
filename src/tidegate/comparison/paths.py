"""AMD's assembly by its events: where waves meet, what lies between on all paths, and what is in flight.

Needs   a function as `tidegate.comparison.code` reads it
Gives   `events_of`: barriers, signals and their waits, which come next, with the bytes that a lane reads, writes and
        copies on the way; at each of them accesses and copies in flight, at most on any path
Keeps   all paths are followed; a loop without an event is bytes without end
Cost    linear in the instructions times the events, for most kernels a hundredth of a second

    ds_write_b128 v0, v[2:5]      entry → line 3: write 16
    s_waitcnt lgkmcnt(0)
    s_barrier                     line 3: drained
    ds_read_b128 v[2:5], v1       line 3 → end: read 16
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.comparison.code import (
    ASYNC,
    BARRIER,
    LDS,
    TENSOR,
    VECTOR,
    CodeBlock,
    CodeLine,
    follow,
    queue_of,
    touches_lds,
    waits_of,
)
from tidegate.comparison.flags import settle_flags

ENTRY, END = 0, -1  # lines where no instruction stands
KINDS = ("read", "write", "atomic", "copy")
WITHOUT_END = 1 << 20  # bytes: a loop without a barrier
DEEPEST = 64  # of a queue; what is farther back is not told apart
WIDTH = re.compile(r"_[bufi](\d+)(?=_|$)")
WORDS = re.compile(r"dword(?:x(\d))?|_b(\d+)$")
Weights = tuple[int, ...]  # bytes by kind, for one lane
NOTHING: Weights = (0,) * len(KINDS)


@dataclass(slots=True)
class Events:
    """Where waves meet, or say that they are there, by lines; and what lies between."""

    names: dict[int, str] = field(default_factory=lambda: {ENTRY: "entry", END: "end"})
    after: dict[int, dict[int, Weights]] = field(default_factory=dict)  # the next events, and the most between
    undrained: dict[int, tuple[int, ...]] = field(default_factory=dict)  # accesses in flight at each
    copies: dict[int, int] = field(default_factory=dict)  # in flight at each, at most
    counts: dict[int, int] = field(default_factory=dict)  # that the wait right before it leaves, where there is one
    early: dict[int, tuple[int, int]] = field(default_factory=dict)  # other waits that end copies: before, behind
    under_reads: int = 0  # copies in flight at any read, at most
    has_loops: bool = False

    @property
    def barriers(self) -> int:
        """Signals stand for themselves and their waits."""
        return sum(name.split()[0] in (BARRIER, "s_barrier_signal") for name in self.names.values())


@dataclass(slots=True)
class _UpToEvent:
    """Instructions that end at an event, or where control goes on."""

    code: list[CodeLine] = field(default_factory=list)
    event: int | None = None
    after: list[int] = field(default_factory=list)


def events_of(blocks: list[CodeBlock]) -> Events:
    """All events of a function."""
    blocks = settle_flags(blocks)
    found = Events()
    pieces, starts = _pieces(blocks, found)
    for line, places in starts.items():
        found.after[line] = _next_events(pieces, places)
    found.undrained = follow(blocks).barriers
    _follow_copies(pieces, found)
    found.has_loops = _has_loops(pieces)
    return found


def _pieces(blocks: list[CodeBlock], found: Events) -> tuple[list[_UpToEvent], dict[int, list[int]]]:
    """Blocks cut at their events; the first pieces behind each event, which may stand in copies of a block."""
    pieces: list[_UpToEvent] = []
    first_of: list[int] = []
    starts = {ENTRY: [0]}
    for block in blocks:
        first_of.append(len(pieces))
        pieces.append(_UpToEvent())
        for one in block.code:
            pieces[-1].code.append(one)
            if one.name.startswith(BARRIER):
                found.names[one.line] = f"{one.name} {one.operands}".strip()
                pieces[-1].event, pieces[-1].after = one.line, [len(pieces)]
                starts.setdefault(one.line, []).append(len(pieces))
                pieces.append(_UpToEvent())
        pieces[-1].after = [-1 - each for each in block.after]  # blocks, until all are known
        if any(one.name == "s_endpgm" for one in block.code):
            pieces[-1].event = END
    for piece in pieces:
        piece.after = [each if each >= 0 else first_of[-1 - each] for each in piece.after]
    return pieces, starts


def _next_events(pieces: list[_UpToEvent], places: list[int]) -> dict[int, Weights]:
    """Events that come next, each with the most of each kind on the way there."""
    weights = dict.fromkeys(places, NOTHING)
    times: dict[int, int] = {}
    todo, found = list(places), dict[int, Weights]()
    while todo:
        number = todo.pop()
        piece = pieces[number]
        total = _add(weights[number], _weight(piece.code))
        if piece.event is not None:
            found[piece.event] = _most(found.get(piece.event, NOTHING), total)
            continue
        for each in piece.after:
            known = weights.get(each)
            new = total if known is None else _most(known, total)
            if new != known:
                times[each] = times.get(each, 0) + 1
                if known is not None and times[each] > len(pieces):  # it grows around a loop
                    new = tuple(old if old == more else WITHOUT_END for old, more in zip(known, new, strict=True))
                weights[each] = new
                todo.append(each)
    return found


def _weight(code: Iterable[CodeLine]) -> Weights:
    """Bytes that one lane reads, writes and copies. Atomics are there or not: some are loops of their own."""
    found = dict.fromkeys(KINDS, 0)
    for one in code:
        if touches_lds(one):
            kind, width = access_of(one)
            found[kind] = 1 if kind == "atomic" else found[kind] + width
    return tuple(found.values())


def access_of(one: CodeLine) -> tuple[str, int]:
    """What an instruction does to shared memory, and to how many bytes."""
    if queue_of(one) != LDS:
        words = WORDS.search(one.name)
        bits = int(words[2]) if words and words[2] else 32 * int((words and words[1]) or 1)
        return "copy", 1 if queue_of(one) == TENSOR else bits // 8
    kind = "read" if re.match(r"ds_(read|load)", one.name) else "write" if "write" in one.name else "atomic"
    kind = "write" if one.name.startswith("ds_store") else kind
    width = WIDTH.search(one.name)
    twice = 2 if re.search(r"(read|write)2|2addr", one.name) else 1
    return kind, int(width[1]) // 8 * twice if width else int(one.operands or 0)


def _add(one: Weights, other: Weights) -> Weights:
    return tuple(min(a + b, WITHOUT_END) for a, b in zip(one, other, strict=True))


def _most(one: Weights, other: Weights) -> Weights:
    return tuple(map(max, one, other))


def _has_loops(pieces: list[_UpToEvent]) -> bool:
    """Whether a path comes back, by taking away what nothing leads to any more."""
    comes = [0] * len(pieces)
    for piece in pieces:
        for each in piece.after:
            comes[each] += 1
    todo = [number for number, count in enumerate(comes) if not count]
    done = 0
    while todo:
        done += 1
        for each in pieces[todo.pop()].after:
            comes[each] -= 1
            if not comes[each]:
                todo.append(each)
    return done < len(pieces)


# --- copies -------------------------------------------------------------------------------------------------------

# For each queue, how many of the youngest i entries are copies, at most on any path.
_Queues = dict[str, tuple[int, ...]]
_EMPTY: _Queues = dict.fromkeys((VECTOR, ASYNC, TENSOR), (0,) * (DEEPEST + 1))


def _follow_copies(pieces: list[_UpToEvent], found: Events) -> None:
    before: list[_Queues | None] = [_EMPTY] + [None] * (len(pieces) - 1)
    todo = [0]
    while todo:
        number = todo.pop()
        state = before[number] or _EMPTY
        for one in pieces[number].code:
            state = _step(state, one)
        for each in pieces[number].after:
            known = before[each]
            new = state if known is None else {key: _most(known[key], state[key]) for key in state}
            if new != known:
                before[each] = new
                todo.append(each)
    for known, piece in zip(before, pieces, strict=True):
        if known is not None:
            _look(known, piece, found)


def _step(state: _Queues, one: CodeLine) -> _Queues:
    queue = queue_of(one)
    if queue in state:
        copies = int(touches_lds(one))
        return state | {queue: (0, *(each + copies for each in state[queue][:-1]))}
    for waited, count in waits_of(one):
        if waited in state:
            youngest = state[waited]
            state = state | {waited: tuple(youngest[min(each, count)] for each in range(DEEPEST + 1))}
    return state


def _look(state: _Queues, piece: _UpToEvent, found: Events) -> None:
    last = max((at for at, one in enumerate(piece.code) if queue_of(one)), default=-1)
    for at, one in enumerate(piece.code):
        had = _in_flight(state)
        if one.line == piece.event:
            found.copies[one.line] = max(had, found.copies.get(one.line, 0))
        if touches_lds(one) and access_of(one)[0] == "read":
            found.under_reads = max(found.under_reads, had)
        state = _step(state, one)
        if at > last and piece.event not in (None, END):  # it stands right before the barrier
            for queue, count in waits_of(one):
                if queue in state:
                    found.counts[piece.event] = min(count, found.counts.get(piece.event, count))
        elif _in_flight(state) < had:
            found.early[one.line] = (had, _in_flight(state))


def _in_flight(state: _Queues) -> int:
    return sum(each[-1] for each in state.values())
