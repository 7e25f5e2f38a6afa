"""Asks facts of final code, on all its paths.

Needs   `Code`; facts by lines
Gives   `Objection`s: a fact that does not hold, with the instructions that show it
Keeps   every path is walked until each of the two instructions was met `MOST` times. An access is performed by a wait
        on its queue that leaves fewer than were issued behind it (what the code issues, not what the source says), by
        a barrier where the target's barrier performs, by nothing else. A count of groups counts commits
Cost    for each fact a search over blocks and small states

Other waves: x is performed, then its wave arrives, then y's wave departs, then y. One wave: x before y; and performed,
where one of them is a copy. An instruction that the compiler removed has nothing to keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from oracles.code import Block, Code, Event
from oracles.facts import ACCESS, ARRIVAL, DEPARTURE, ROLES, SIDE, WAVES, Fact, Mark
from oracles.roles import meeting

WORKGROUP = ("-1", "0x0")  # the barrier of all waves, as AMD and NVIDIA number it
MOST = 4  # times that an instruction is met on a path
FLYING, DONE, ARRIVED, MET = range(4)


@dataclass(frozen=True, slots=True)
class Objection:
    fact: Fact
    why: str

    def __str__(self) -> str:
        return f"{self.fact}: {self.why}"


def objections(code: Code, facts: Iterable[Fact]) -> list[Objection]:
    """Every fact that the code breaks, once."""
    present = {mark for event in code.events for mark in _marks(event)}
    asked = [fact for fact in facts if fact.first in present and fact.second in present]
    return [found for fact in asked if (found := _ask(code, fact))]


def _ask(code: Code, fact: Fact) -> Objection | None:
    if fact.between != ROLES:
        return _Search(code, fact).first()
    is_met = meeting(code, fact.first.line, fact.second.line)
    return None if is_met else Objection(fact, "no barrier that one arrives at and the other leaves lies between")


def absent(code: Code, facts: Iterable[Fact]) -> list[int]:
    """Lines of accesses that the code no longer has."""
    present = {event.line for event in code.events if event.touches_lds}
    wanted = {mark.line for fact in facts for mark in (fact.first, fact.second) if mark.event == ACCESS}
    return sorted(wanted - present)


def unplaced(code: Code) -> list[str]:
    """Accesses that the compiler no longer has a line for: then nothing can be said."""
    return [event.text for event in code.events if event.touches_lds and not event.line]


def placed(code: Code, facts: Iterable[Fact]) -> Code:
    """LLVM forgets the line of what it moves to another block. Where one is missing and one has none, they are one."""
    lost = absent(code, facts)
    if len(lost) != 1 or len(unplaced(code)) != 1:
        return code
    blocks = [Block([_named(each, lost[0]) for each in block.events], block.after) for block in code.blocks]
    return replace(code, blocks=tuple(blocks))


def _named(event: Event, line: int) -> Event:
    return replace(event, line=line) if event.touches_lds and not event.line else event


def _marks(event: Event) -> Iterator[Mark]:
    if event.touches_lds:
        yield Mark(event.line, ACCESS)
    if event.arrives:
        yield Mark(event.line, ARRIVAL)
    if event.departs:
        yield Mark(event.line, DEPARTURE)


@dataclass(frozen=True, slots=True)
class _Flight:
    """One execution of x: its number, how far it is, what was issued or committed behind it."""

    number: int
    stage: int = FLYING
    behind: int = 0
    committed: bool = False


@dataclass(frozen=True, slots=True)
class _State:
    xs: int = 0
    ys: int = 0
    flights: tuple[_Flight, ...] = ()


class _Search:
    """One fact against all paths."""

    def __init__(self, code: Code, fact: Fact) -> None:
        self.code, self.fact = code, fact

    def first(self) -> Objection | None:
        seen, todo = {(0, _State())}, [(0, _State())]
        while todo:
            number, state = todo.pop()
            ends = [state]
            for event in self.code.blocks[number].events:
                nexts = []
                for each in ends:
                    if why := self.wrong(each, event):
                        return Objection(self.fact, why)
                    nexts.append(self.step(each, event))
                    if event.may_skip:
                        nexts.append(each)
                ends = [each for each in dict.fromkeys(nexts) if max(each.xs, each.ys) <= MOST]
            for key in [(after, end) for after in self.code.blocks[number].after for end in ends]:
                if key not in seen:
                    seen.add(key)
                    todo.append(key)
        return None

    def wrong(self, state: _State, event: Event) -> str:
        """Why this event must not come here; nothing if it may."""
        marks = list(_marks(event))
        if self.fact.second in marks and (late := self.late(state)):
            return f"at `{event.text}` {late}"
        if self.fact.first in marks:
            lag = self.fact.lag
            allowed = 0 if lag is None else state.xs + lag
            if state.ys > allowed:
                return f"`{event.text}` comes behind the instruction that it has to come before"
        return ""

    def late(self, state: _State) -> str:
        """What of x is not far enough for this y."""
        needed = self.needed()
        for flight in state.flights:
            concerns = self.fact.lag is None or flight.number <= state.ys - self.fact.lag
            if concerns and flight.stage < needed:
                return ("it may be in flight", "no barrier was met since", "the barrier was not left")[flight.stage]
        return ""

    def needed(self) -> int:
        if self.fact.between == SIDE:
            return FLYING
        if self.fact.between == WAVES:
            return MET
        # On NVIDIA a fence of the warp performs ordinary accesses, and ptxas leaves no instruction of it.
        return DONE if self.fact.has_copy else FLYING

    def step(self, state: _State, event: Event) -> _State:
        marks = list(_marks(event))
        flights = [moved for each in state.flights if (moved := self.moved(each, event)).stage < MET]
        if self.fact.first in marks and self.fact.between != SIDE:
            is_done = self.code.groups and not event.is_async and self.fact.between != WAVES
            flights.append(_Flight(state.xs, DONE if is_done else FLYING))
        return _State(state.xs + (self.fact.first in marks), state.ys + (self.fact.second in marks), tuple(flights))

    def moved(self, flight: _Flight, event: Event) -> _Flight:
        """One execution of x when something behind it was executed."""
        queue = self.queue()
        if flight.stage == FLYING:
            if event.commits and queue == "group":
                flight = replace(flight, behind=flight.behind + flight.committed, committed=True)
            elif event.queue == queue and queue != "group":
                flight = replace(flight, behind=min(flight.behind + 1, 64))
            is_waited = any(name == queue and flight.behind >= left for name, left in event.waits)
            is_performed = event.performs and not self.is_copy()
            if (is_waited and (flight.committed or queue != "group")) or is_performed:
                flight = replace(flight, stage=DONE, behind=0, committed=False)
        if event.barrier not in WORKGROUP:
            return flight
        if event.arrives and flight.stage == DONE:
            flight = replace(flight, stage=ARRIVED)
        if event.departs and flight.stage == ARRIVED:
            flight = replace(flight, stage=MET)
        return flight

    def queue(self) -> str:
        return next(event.queue for event in self.code.events if self.fact.first in _marks(event))

    def is_copy(self) -> bool:
        return any(event.is_async for event in self.code.events if self.fact.first in _marks(event))
