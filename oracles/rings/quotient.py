"""All trip counts at once: explicit search over a finite quotient of the runs of a program with one size.

Needs   a Program whose roles have no loops with carried values
Gives   a `Verdict`: race, overrun or hang for some N, right for all N, or unknown
Keeps   shares the model's statements with `search.py`, and neither its steps, nor its clocks, nor its reduction

Three things make the runs for all N finitely many states:

    counters    shifted together by a period after which every slot, parity and guard is the same again, as long as
                the slowest wave is beyond the first rounds
    N           is decided when a wave asks: until then only a least value is known, and both answers are followed
    knowledge   of each cell only the last write and, behind it, the last read of each wave matter: a wave that knows a
                write also knows what that write had to know. So each is one token, and knowledge a set of tokens.

A role that runs ahead without bound makes the quotient infinite; `most_states` stops that. Which generation a step
belongs to is not looked at, only what comes of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import lcm
from typing import NamedTuple

from oracles.rings.model import (
    PART,
    WORKGROUP,
    Arrive,
    Copy,
    Depart,
    Drain,
    Elected,
    Expr,
    Fence,
    Guard,
    Loop,
    Program,
    Read,
    Signal,
    Statement,
    Store,
    Sync,
    Wait,
    Write,
    all_statements,
    value_of,
)
from oracles.rings.search import HANG, OVERRUN, RACE, RIGHT, UNKNOWN, Verdict

SIZE = "N"
FAR = 1 << 20  # an N beyond all that counters come to


class NotFlat(Exception):
    """The quotient has no counters for this program."""


class Jump(NamedTuple):
    """Goes on at `target` unless the condition holds."""

    condition: Expr
    target: int


class Start(NamedTuple):
    counter: str
    value: Expr


class Next(NamedTuple):
    counter: str
    target: int


Line = Statement | Jump | Start | Next
Pair = tuple[frozenset[tuple[int, ...]], frozenset[tuple[int, ...]]]  # tokens known, and those known to the async proxy
NOTHING: Pair = (frozenset(), frozenset())


class Thing(NamedTuple):
    """An object: the parity of completed generations, arrivals, bytes, and what completed generations and this know."""

    parity: int
    arrived: int
    bytes: int
    past: Pair
    now: Pair


@dataclass(frozen=True, slots=True)
class Wave:
    at: int
    counters: tuple[tuple[str, int], ...]
    known: Pair
    # Of named barriers: how many generations are complete from the one on that the next wait is for.
    ahead: tuple[tuple[int, int], ...] = ()


class Flight(NamedTuple):
    thing: int
    cell: tuple[int, ...]
    parts: int
    amount: int
    known: Pair


@dataclass(frozen=True, slots=True)
class State:
    waves: tuple[Wave, ...]
    things: tuple[Thing, ...]
    flying: tuple[Flight, ...]
    tokens: frozenset[tuple[int, ...]]  # (buffer, slot, part, wave, is generic); of a write -1 - wave, of a copy -1
    size: int
    is_decided: bool


class Found(Exception):
    def __init__(self, kind: str, says: str) -> None:
        super().__init__(says)
        self.kind, self.says = kind, says


def lines_of(body: tuple[Statement, ...], is_first: bool, lines: list[Line]) -> None:
    for each in body:
        match each:
            case Sync(name):
                lines += [Signal(name), Depart(name)]
            case Guard(condition, inner):
                at = len(lines)
                lines.append(Jump(condition, 0))
                lines_of(inner, is_first, lines)
                lines[at] = Jump(condition, len(lines))
            case Elected(inner):
                if is_first:
                    lines_of(inner, is_first, lines)
            case Loop():
                if each.carried:
                    raise NotFlat("carried values")
                lines.append(Start(each.counter, each.start))
                at = len(lines)
                condition = Expr("<", (Expr(each.counter), each.stop))
                lines.append(Jump(condition, 0))
                lines_of(each.body, is_first, lines)
                lines.append(Next(each.counter, at))
                lines[at] = Jump(condition, len(lines))
            case _:
                lines.append(each)


def mentions(expr: Expr, name: str) -> bool:
    return expr.op == name or any(mentions(each, name) for each in expr.args)


def rates(body: tuple[Statement, ...]) -> Iterator[tuple[str, int]]:
    """Loops that run as often as N says, and how many rounds one more in N gives."""
    for each in body:
        if isinstance(each, Loop):
            if mentions(each.stop, SIZE):
                far = [value_of(each.stop, {SIZE: size}) for size in (FAR, FAR + 1)]
                if far[1] > far[0]:
                    yield each.counter, far[1] - far[0]
            yield from rates(each.body)
        elif isinstance(each, Guard | Elected):
            yield from rates(each.body)


def expressions(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """All of them, with those of inner statements."""
    for each in body:
        yield from (value for name in type(each).__slots__ if isinstance(value := getattr(each, name), Expr))
        if isinstance(each, Loop | Guard | Elected):
            yield from expressions(each.body)


def numbers_in(expr: Expr) -> Iterator[int]:
    if expr.op.lstrip("-").isdigit():
        yield abs(int(expr.op))
    for each in expr.args:
        yield from numbers_in(each)


def divisors_in(expr: Expr) -> Iterator[int]:
    if expr.op in ("//", "mod"):
        yield int(expr.args[1].op)
    for each in expr.args:
        yield from divisors_in(each)


def waits_in(lines: list[Line], start: int, stop: int) -> bool:
    return any(isinstance(each, Wait | Depart | Arrive | Signal) for each in lines[start:stop])


class Quotient:
    def __init__(self, program: Program, most_states: int) -> None:
        if program.sizes != (SIZE,):
            raise NotFlat("several sizes")
        self.program, self.most_states = program, most_states
        self.lines: list[list[Line]] = []
        self.role: list[tuple[str, int]] = []
        for role in program.roles:
            for index in range(role.waves):
                self.lines.append([])
                lines_of(role.body, index == 0, self.lines[-1])
                self.role.append((role.name, index))
        self.rates = dict(pair for role in program.roles for pair in rates(role.body))
        slots = [max(each, 1) for each in program.slots.values()]
        exprs = [each for role in program.roles for each in expressions(role.body)]
        numbers = [number for each in exprs for number in numbers_in(each)]
        self.period = 2 * lcm(*slots, *(number for each in exprs for number in divisors_in(each)))
        self.first = 2 * max(slots + numbers) + 2  # from here on comparisons with numbers say the same
        self.things: dict[tuple[str, int], int] = {}
        self.counts: list[int] = []
        self.named: set[int] = set()
        self.performs = program.target == "sm_90"
        for name, count, number in [(each.name, each.count, each.slots) for each in program.barriers] + [
            (WORKGROUP, len(self.lines), 0)
        ]:
            for slot in range(max(number, 1)):
                self.things[name, slot] = len(self.counts)
                self.named |= set() if number else {len(self.counts)}
                self.counts.append(count)
        self.meets = any(isinstance(each, Sync) and each.barrier == WORKGROUP for each in all_statements(program))
        self.alone = set(self.waits_alone())
        self.buffers = {each.name: number for number, each in enumerate(program.buffers)}

    # --- values ---

    def value(self, expr: Expr, state: State, wave: int) -> int:
        env = dict(state.waves[wave].counters)
        if mentions(expr, SIZE):
            assert state.is_decided
            env[SIZE] = state.size
        return value_of(expr, env)

    def answers(self, condition: Expr, state: State, wave: int) -> Iterator[tuple[State, bool]]:
        """Both answers to a condition about N, each with what N is then; conditions hold from some N on."""
        env = dict(state.waves[wave].counters)
        if state.is_decided or not mentions(condition, SIZE):
            yield state, bool(value_of(condition, env | {SIZE: state.size}))
            return
        if not value_of(condition, env | {SIZE: FAR}):
            yield state, False
            return
        size = state.size
        while not value_of(condition, env | {SIZE: size}):
            yield replace(state, size=size, is_decided=True), False
            size += 1
        yield replace(state, size=size), True

    # --- steps ---

    def waits_alone(self) -> Iterator[tuple[int, int]]:
        """Waves that may wait at a named barrier without an arrival of theirs just before."""
        for wave, lines in enumerate(self.lines):
            for at, line in enumerate(lines):
                if isinstance(line, Depart) and (at == 0 or lines[at - 1] != Signal(line.barrier)):
                    yield wave, self.things[line.barrier, 0]

    def start(self) -> State:
        things = tuple(Thing(0, 0, 0, NOTHING, NOTHING) for _ in self.counts)
        return State(
            tuple(Wave(0, (), NOTHING) for _ in self.lines),
            things,
            (),
            frozenset(),
            0 if self.program.given_by == "argument" else 1,
            False,
        )

    def first_of(self, wave: int) -> Wave:
        return Wave(0, (), NOTHING, tuple(sorted((number, 0) for who, number in self.alone if who == wave)))

    def is_local(self, wave: int, at: int) -> bool:
        """Commutes with all steps of others, and no run goes on for ever with such steps only."""
        line = self.lines[wave][at]
        if isinstance(line, Next):
            return waits_in(self.lines[wave], line.target, at)
        return not isinstance(line, Arrive | Wait | Signal | Depart)

    def successors(self, state: State) -> Iterator[State]:
        for wave, it in enumerate(state.waves):
            if it.at < len(self.lines[wave]) and self.is_local(wave, it.at):
                yield from self.step(state, wave)
                return
        for wave, it in enumerate(state.waves):
            if it.at < len(self.lines[wave]):
                yield from self.step(state, wave)
        for number in range(len(state.flying)):
            yield self.land(state, number)

    def step(self, state: State, wave: int) -> Iterator[State]:
        it = state.waves[wave]
        line = self.lines[wave][it.at]
        match line:
            case Jump(condition, target):
                for after, holds in self.answers(condition, state, wave):
                    yield self.put(after, wave, replace(it, at=it.at + 1 if holds else target))
            case Start(counter, value):
                counters = dict(it.counters) | {counter: self.value(value, state, wave)}
                yield self.put(state, wave, replace(it, at=it.at + 1, counters=tuple(sorted(counters.items()))))
            case Next(counter, target):
                counters = dict(it.counters)
                counters[counter] += 1
                yield self.put(state, wave, replace(it, at=target, counters=tuple(sorted(counters.items()))))
            case Wait(name, slot, parity):
                thing = state.things[self.things[name, self.value(slot, state, wave)]]
                if thing.parity != self.value(parity, state, wave):
                    yield self.put(state, wave, replace(it, at=it.at + 1, known=both(it.known, thing.past)))
            case Depart(name):
                number = self.things[name, 0]
                ahead = dict(it.ahead)
                if ahead.get(number, 0) > 0:
                    ahead[number] -= 1
                    if (wave, number) not in self.alone:
                        del ahead[number]
                    known = both(it.known, state.things[number].past)
                    gone = replace(it, at=it.at + 1, known=known, ahead=tuple(sorted(ahead.items())))
                    yield self.put(state, wave, gone)
            case Arrive(name, slot, expect):
                yield self.arrive(state, wave, self.things[name, self.value(slot, state, wave)], expect)
            case Signal(name):
                yield self.arrive(state, wave, self.things[name, 0], 0)
            case Fence():
                yield self.put(state, wave, replace(it, at=it.at + 1, known=(it.known[0], it.known[0])))
            case Copy() | Read() | Write() | Store():
                yield self.access(state, wave, line)
            case Drain():
                mine = frozenset(each for each in state.tokens if self.is_late(each, wave))
                yield self.put(state, wave, replace(it, at=it.at + 1, known=both(it.known, (mine, mine))))
            case _:
                raise AssertionError(line)

    def put(self, state: State, wave: int, it: Wave) -> State:
        known = it.known
        ends = it.at == len(self.lines[wave])
        if ends:
            it = Wave(it.at, (), NOTHING)
        state = replace(state, waves=(*state.waves[:wave], it, *state.waves[wave + 1 :]))
        if not ends:
            return state
        # The barrier of all waves no longer counts this one.
        number = self.things[WORKGROUP, 0]
        thing = state.things[number]
        return self.complete(state, number, thing._replace(now=both(thing.now, known)) if self.meets else thing)

    def arrive(self, state: State, wave: int, number: int, expect: int) -> State:
        it, thing = state.waves[wave], state.things[number]
        if thing.arrived == self.counts[number]:
            raise Found(OVERRUN, f"{self.role[wave]}: one arrival more than the count of its barrier")
        thing = thing._replace(arrived=thing.arrived + 1, bytes=thing.bytes + expect, now=both(thing.now, it.known))
        ahead = dict(it.ahead) | ({number: 0} if number in self.named else {})
        after = self.put(state, wave, replace(it, at=it.at + 1, ahead=tuple(sorted(ahead.items()))))
        return self.complete(after, number, thing)

    def complete(self, state: State, number: int, thing: Thing) -> State:
        waves = state.waves
        if thing.arrived and thing.arrived == self.needed(state, number) and thing.bytes == 0:
            thing = Thing(1 - thing.parity, 0, 0, both(thing.past, thing.now), NOTHING)
            waves = tuple(replace(each, ahead=self.moved(wave, number, each)) for wave, each in enumerate(waves))
        things = (*state.things[:number], thing, *state.things[number + 1 :])
        return replace(state, waves=waves, things=things)

    def moved(self, wave: int, number: int, it: Wave) -> tuple[tuple[int, int], ...]:
        """A generation more is complete; where each wait follows its arrival, only the first one matters."""
        most = 1 << 30 if (wave, number) in self.alone else 1
        return tuple((name, min(count + 1, most) if name == number else count) for name, count in it.ahead)

    def needed(self, state: State, number: int) -> int:
        if number != self.things[WORKGROUP, 0]:
            return self.counts[number]
        return sum(each.at < len(lines) for each, lines in zip(state.waves, self.lines, strict=True))

    def land(self, state: State, number: int) -> State:
        flight = state.flying[number]
        state = replace(state, flying=(*state.flying[:number], *state.flying[number + 1 :]))
        tokens = frozenset((*flight.cell, part, -1, 0) for part in range(flight.parts)) & state.tokens
        thing = state.things[flight.thing]
        now = both(thing.now, (flight.known[0] | tokens, flight.known[1] | tokens))
        return self.complete(state, flight.thing, thing._replace(bytes=thing.bytes - flight.amount, now=now))

    # --- memory ---

    def is_late(self, token: tuple[int, ...], wave: int) -> bool:
        """An access of this wave that only a drain performs: a store, and where arrivals perform nothing, any."""
        if token[4]:
            return not self.performs and token[3] in (wave, -1 - wave)
        return token[3] == wave

    def access(self, state: State, wave: int, op: Copy | Read | Write | Store) -> State:
        buffer = self.program.buffers[self.buffers[op.buffer]]
        cell = (self.buffers[op.buffer], self.value(op.slot, state, wave))
        part = op.part if isinstance(op, Read | Write) else None
        parts = range(buffer.parts) if part is None else (part + self.role[wave][1],)
        reads, is_async = isinstance(op, Read | Store), isinstance(op, Copy | Store)
        known, fenced = state.waves[wave].known
        met = {each for each in state.tokens if each[:2] == cell and each[2] in parts and (each[3] < 0 or not reads)}
        for token in met:
            is_own = not is_async and token[4] and token[3] in (wave, -1 - wave)  # in order, as one wave issues them
            if not is_own and token not in (fenced if is_async and token[4] else known):
                raise Found(RACE, f"{self.role[wave]}: {op} meets an access that it does not know of")
        owner = wave if reads else -1 if is_async else -1 - wave
        new = {(*cell, each, owner, 0 if is_async else 1) for each in parts}
        # A write takes the place of all that it knows of, a read that of the wave's read before.
        state = self.without(state, frozenset((set() if reads else met) | new) & state.tokens)
        it = state.waves[wave]
        state = replace(state, tokens=state.tokens | new)
        if isinstance(op, Copy):
            thing = self.things[op.barrier, self.value(op.at, state, wave)]
            flight = Flight(thing, cell, len(parts), PART * len(parts), it.known)
            state = replace(state, flying=tuple(sorted((*state.flying, flight), key=order)))
        elif not is_async and self.performs:
            it = replace(it, known=(it.known[0] | new, it.known[1]))
        return self.put(state, wave, replace(it, at=it.at + 1))

    def without(self, state: State, gone: frozenset[tuple[int, ...]]) -> State:
        if not gone:
            return state

        def less(pair: Pair) -> Pair:
            return pair[0] - gone, pair[1] - gone

        return replace(
            state,
            waves=tuple(replace(each, known=less(each.known)) for each in state.waves),
            things=tuple(each._replace(past=less(each.past), now=less(each.now)) for each in state.things),
            flying=tuple(each._replace(known=less(each.known)) for each in state.flying),
            tokens=state.tokens - gone,
        )

    # --- the quotient ---

    def shifted(self, state: State) -> State:
        """All counters less by a period, once the slowest wave is far enough."""
        least = state.size
        for wave, it in enumerate(state.waves):
            if it.at == len(self.lines[wave]):
                continue
            mine = [value // self.rates[name] for name, value in it.counters if name in self.rates]
            least = min(least, max(mine, default=0))
        by = (least - self.first) // self.period * self.period
        if by <= 0:
            return state
        waves = tuple(
            replace(each, counters=tuple((name, self.less_by(name, value, by)) for name, value in each.counters))
            for each in state.waves
        )
        return replace(state, waves=waves, size=state.size - by)

    def less_by(self, name: str, value: int, by: int) -> int:
        return value - by * self.rates[name] if name in self.rates else value

    def run(self) -> Verdict:
        start = self.start()
        seen, todo = {start}, deque([start])
        try:
            while todo:
                state = todo.popleft()  # the nearest first: a role that runs away must not hide a mistake
                any_next = False
                for after in self.successors(state):
                    any_next = True
                    it = self.shifted(after)
                    if it not in seen:
                        seen.add(it)
                        todo.append(it)
                if not any_next and any(
                    each.at < len(lines) for each, lines in zip(state.waves, self.lines, strict=True)
                ):
                    raise Found(HANG, "no wave can go on")
                if len(seen) > self.most_states:
                    return Verdict(UNKNOWN, f"more than {self.most_states} states", states=len(seen))
        except Found as found:
            return Verdict(found.kind, found.says, states=len(seen))
        return Verdict(RIGHT, states=len(seen))


def both(one: Pair, other: Pair) -> Pair:
    return one[0] | other[0], one[1] | other[1]


def order(flight: Flight) -> tuple[object, ...]:
    return flight.thing, flight.cell, flight.parts, flight.amount, sorted(flight.known[0]), sorted(flight.known[1])


def quotient(program: Program, most_states: int = 30_000) -> Verdict:
    """The verdict for all N."""
    try:
        return Quotient(program, most_states).run()
    except NotFlat as why:
        return Verdict(UNKNOWN, f"not flat: {why}")
