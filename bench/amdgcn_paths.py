"""Two texts of AMD's assembly side by side: what one does between its barriers, on all paths, the other does too.

Needs   functions as `bench.amdgcn` reads them: what a compiler made, and what it was told (`bench.wave_plan`)
Gives   `events_of`: barriers, signals and their waits, what lies between two of them in bytes, what is in flight at
        each; `mismatches`: where the first goes a way that the second does not have
Keeps   a way through the one is the same events in a way through the other, with no more of each kind of access
        between them, and no more in flight at them: loops may be unrolled or peeled, blocks copied, accesses joined
Cost    linear in the instructions times the barriers, for most kernels a hundredth of a second

    plan                     assembly                 says
    ds_write 16              ds_write_b128 v0, v[2:5]
    s_waitcnt lgkmcnt(0)     s_barrier                line 2: not drained, `ds_write_b128` (line 1) is in flight
    s_barrier                ds_read_b128 v[2:5], v1
    ds_read 16
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bench.amdgcn import (
    ASYNC,
    BARRIER,
    LDS,
    TENSOR,
    VECTOR,
    Block,
    Instruction,
    follow,
    queue_of,
    touches_lds,
    waits_of,
)

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
class _Piece:
    """Instructions that end at an event, or where control goes on."""

    code: list[Instruction] = field(default_factory=list)
    event: int | None = None
    after: list[int] = field(default_factory=list)


def events_of(blocks: list[Block]) -> Events:
    """All events of a function."""
    found = Events()
    pieces, starts = _pieces(blocks, found)
    for line, start in starts.items():
        found.after[line] = _next_events(pieces, start)
    found.undrained = follow(blocks).barriers
    _follow_copies(pieces, found)
    found.has_loops = _has_loops(pieces)
    return found


def _pieces(blocks: list[Block], found: Events) -> tuple[list[_Piece], dict[int, int]]:
    """Blocks cut at their events; the first piece behind each event."""
    pieces: list[_Piece] = []
    first_of: list[int] = []
    starts = {ENTRY: 0}
    for block in blocks:
        first_of.append(len(pieces))
        pieces.append(_Piece())
        for one in block.code:
            pieces[-1].code.append(one)
            if one.name.startswith(BARRIER):
                found.names[one.line] = f"{one.name} {one.operands}".strip()
                pieces[-1].event, pieces[-1].after = one.line, [len(pieces)]
                starts[one.line] = len(pieces)
                pieces.append(_Piece())
        pieces[-1].after = [-1 - each for each in block.after]  # blocks, until all are known
        if any(one.name == "s_endpgm" for one in block.code):
            pieces[-1].event = END
    for piece in pieces:
        piece.after = [each if each >= 0 else first_of[-1 - each] for each in piece.after]
    return pieces, starts


def _next_events(pieces: list[_Piece], start: int) -> dict[int, Weights]:
    """Events that come next, each with the most of each kind on the way there."""
    weights = {start: NOTHING}
    times: dict[int, int] = {}
    todo, found = [start], dict[int, Weights]()
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


def _weight(code: Iterable[Instruction]) -> Weights:
    """Bytes that one lane reads, writes and copies. Atomics are there or not: some are loops of their own."""
    found = dict.fromkeys(KINDS, 0)
    for one in code:
        if touches_lds(one):
            kind, width = access_of(one)
            found[kind] = 1 if kind == "atomic" else found[kind] + width
    return tuple(found.values())


def access_of(one: Instruction) -> tuple[str, int]:
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


def _has_loops(pieces: list[_Piece]) -> bool:
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


def _follow_copies(pieces: list[_Piece], found: Events) -> None:
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
    for state, piece in zip(before, pieces, strict=True):
        if state is not None:
            _look(state, piece, found)


def _step(state: _Queues, one: Instruction) -> _Queues:
    queue = queue_of(one)
    if queue in state:
        copies = int(touches_lds(one))
        return state | {queue: (0, *(each + copies for each in state[queue][:-1]))}
    for waited, count in waits_of(one):
        if waited in state:
            youngest = state[waited]
            state = state | {waited: tuple(youngest[min(each, count)] for each in range(DEEPEST + 1))}
    return state


def _look(state: _Queues, piece: _Piece, found: Events) -> None:
    last = max((at for at, one in enumerate(piece.code) if queue_of(one)), default=-1)
    for at, one in enumerate(piece.code):
        had = _in_flight(state)
        if one.line == piece.event:
            found.copies[one.line] = had
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


# --- side by side -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mismatch:
    line: int  # of the assembly; ENTRY and END are no lines
    kind: str  # order, between, undrained, copies
    what: str


def mismatches(made: Events, told: Events) -> tuple[list[Mismatch], dict[int, set[int]]]:
    """Where the assembly leaves its plan, and which events of the plan each of its events may be."""
    found: dict[tuple[int, str], Mismatch] = {}
    matched: dict[int, set[int]] = {}
    todo = [(ENTRY, frozenset({ENTRY}))]
    seen = set(todo)
    while todo:
        line, places = todo.pop()
        for after, weights in made.after[line].items():
            fitting, wrong = _fitting(made, told, after, weights, places)
            for each in wrong:
                found.setdefault((each.line, each.kind), each)
            matched.setdefault(after, set()).update(fitting)
            state = (after, frozenset(fitting))
            if fitting and after != END and state not in seen:
                seen.add(state)
                todo.append(state)
    return sorted(found.values(), key=lambda each: (each.line, each.kind)), matched


def _fitting(
    made: Events, told: Events, after: int, weights: Weights, places: frozenset[int]
) -> tuple[set[int], list[Mismatch]]:
    """Events of the plan that the next one may be; if there is none, those that it is nearest to, and why not."""
    steps = [(each, most) for place in sorted(places) for each, most in told.after[place].items()]
    named = [(each, most) for each, most in steps if made.names[after] == told.names[each]]
    if not named:
        return set(), [Mismatch(after, "order", f"`{made.names[after]}`, where the plan has {_names(told, steps)}")]
    wrong: list[Mismatch] = []
    roomy = [(each, most) for each, most in named if all(map(int.__le__, weights, most))]
    if not roomy:
        more = f"{_bytes(weights)} before it, in the plan {' or '.join(_bytes(most) for _, most in named)}"
        wrong.append(Mismatch(after, "between", more))
    kept = {each for each, _ in roomy or named}
    for kind, rule in (("undrained", _is_drained), ("copies", _has_landed)):
        good = {each for each in kept if rule(made, told, after, each)}
        if not good:
            wrong.append(Mismatch(after, kind, _why(made, told, after, kept, kind)))
        kept = good or kept
    return kept, wrong


def _is_drained(made: Events, told: Events, after: int, each: int) -> bool:
    return not made.undrained.get(after) or bool(told.undrained.get(each))


def _has_landed(made: Events, told: Events, after: int, each: int) -> bool:
    return made.copies.get(after, 0) <= told.copies.get(each, 0)


def _why(made: Events, told: Events, after: int, places: set[int], kind: str) -> str:
    if kind == "undrained":
        return f"accesses of lines {', '.join(map(str, made.undrained[after]))} are in flight"
    most = max(told.copies.get(each, 0) for each in places)
    return f"{made.copies[after]} copies are in flight, in the plan {most}"


def _names(told: Events, steps: list[tuple[int, Weights]]) -> str:
    return " or ".join(sorted({f"`{told.names[each]}`" for each, _ in steps})) or "nothing"


def _bytes(weights: Weights) -> str:
    said = list(_said(weights))
    return ", ".join(said) or "nothing"


def _said(weights: Weights) -> Iterator[str]:
    for kind, count in zip(KINDS, weights, strict=True):
        if count:
            yield f"{kind} {'without end' if count >= WITHOUT_END else count}"
