"""What names hold at the head of a loop, as functions of its iteration.

Needs   a walk that has passed the loop: for each name its value on the way in, and the next one, over the values at
        the head
Gives   a closed form over `#loop`, or an opaque number that varies in the loop, with its range where one is inductive
Keeps   a closed form is the value in every iteration; views and indices alike
Cost    linear in the names of a loop that somebody asks for; orbits end after `MOST_STEPS`

    next %s                                   in iteration #2
    %s + 4                                    start + #2 * 4
    select(%s + 1 == 3, 0, %s + 1)            (start + #2) mod 3     if the start lies in 0..2
    %t, where the next %t is %s               start of %s, start of %t, and so on in turn
    %s * 2, in a loop of 3 trips              start, start * 2, start * 4, start * 8
"""

from __future__ import annotations

from math import lcm

from tidegate.footprint.arithmetic import both
from tidegate.footprint.carried import CarriedNumbers
from tidegate.footprint.heads import Heads
from tidegate.footprint.sequences import MOST_PERIOD, follows, period_in, rotation_of, sequence
from tidegate.footprint.values import Spot, Value, View, is_head, iteration, size_of
from tidegate.footprint.walk import Walk
from tidegate.index import (
    TRUE,
    ZERO,
    Cond,
    Const,
    Index,
    Name,
    constant,
    evaluate,
    names,
    walk,
)

MOST_STEPS = 96
MOST_TRIPS = 12  # of a loop in which a name gets one value for each
MOST_SIZE = 40  # of such a value


class Solver(Heads):
    """Closed forms, each found once. A name whose solution is being looked for is not asked again."""

    def __init__(self, walk: Walk) -> None:
        super().__init__(walk)
        self.solved: dict[str, Value] = {}
        self.solving: set[str] = set()
        self.closed: dict[int, tuple[Index, Index]] = {}  # by identity
        self.counters = CarriedNumbers(self)
        walk.exit_value = self.exit_value

    # --- the way out of a loop ---

    def exit_value(self, name: str, value: Value, before: int, loop: int) -> Value:
        """What a name's value is after the loop, which the edge from `before` leaves."""
        chain = self.walk.chains[self.flow.loop_of[before]]
        inside = chain[chain.index(loop) :]
        closed = value
        for each in reversed(inside):
            closed = self.close_one(closed, each)
            trips = self.trips(each)
            if trips is not None and self.flow.loops[each].head == before and self.leaving_from(each) == {before}:
                closed = self.put(closed, {iteration(each): trips})
        if not self.varies(closed, inside):
            return closed
        if isinstance(closed, tuple):
            return self.whole(closed, loop)
        around = self.walk.chains[self.flow.loops[loop].parent]
        on = {*names(closed), *self.walk.steering[loop]}
        last = [unknown for unknown in self.mentioned(closed) if self.is_opaque(unknown, inside)]
        if last and not any(iteration(each) in names(closed) for each in inside):
            # The numbers that nobody knows keep their last values; what is known around them stays known.
            by: dict[str, Index] = {}
            for unknown in last:
                within, differs = self.math.bounds(Name(unknown)), unknown in self.book.differing
                by[unknown] = self.book.opaque(before, name, "leaves", around, on, within, differs)
            return self.put(closed, by)
        return self.book.opaque(before, name, "leaves", around, on, self.math.bounds(closed), self.differs(closed))

    # --- solutions ---

    def close(self, value: Value) -> Value:
        """A value over canonical names only."""
        match value:
            case (Spot(cond=cond, buffer=buffer, start=start),) if cond == TRUE and start and not is_head(buffer):
                closed = self.close_index(start)
                return value if closed is start else (Spot(TRUE, buffer, closed),)
        while True:
            loops = {self.walk.heads[name][0] for name in self.mentioned(value) if is_head(name)}
            if not loops:
                return value
            value = self.close_one(value, max(loops, key=lambda loop: len(self.walk.chains[loop])))

    def close_index(self, index: Index) -> Index:
        """Where many accesses start: buffers whose slots are of one size have it in common."""
        known = self.closed.get(id(index))
        if known is None:
            found = index
            while loops := {self.walk.heads[name][0] for name in names(found) if is_head(name)}:
                closed = self.close_one(found, max(loops, key=lambda loop: len(self.walk.chains[loop])))
                assert not isinstance(closed, tuple)
                found = closed
            known = self.closed[id(index)] = (found, index)
        return known[0]

    def close_cond(self, cond: Cond) -> Cond:
        while True:
            heads = [name for name in dict.fromkeys(names(cond)) if is_head(name)]
            if not heads:
                return cond
            deepest = max(len(self.walk.chains[self.walk.heads[name][0]]) for name in heads)
            now = [name for name in heads if len(self.walk.chains[self.walk.heads[name][0]]) == deepest]
            cond = self.math.put_cond(cond, {name: self.index(name) for name in now})

    def close_one(self, value: Value, loop: int) -> Value:
        heads = [name for name in self.mentioned(value) if self.walk.heads.get(name, (-1, 0))[0] == loop]
        if not heads:
            return value
        found = {name: self.solve(name) for name in heads}
        indices = {name: each for name, each in found.items() if not isinstance(each, tuple)}
        views = {name: each for name, each in found.items() if isinstance(each, tuple)}
        return self.put(value, indices, views)

    def index(self, name: str) -> Index:
        found = self.solve(name)
        assert not isinstance(found, tuple)
        return found

    def solve(self, symbol: str) -> Value:
        if symbol not in self.solved:
            self.solving.add(symbol)
            found = self.find(symbol)
            self.solving.discard(symbol)
            self.solved[symbol] = found if found is not None else self.give_up(symbol)
        return self.solved[symbol]

    def try_solve(self, symbol: str) -> Value | None:
        """The solution, unless it is the one being looked for, or opaque in its loop."""
        if symbol in self.solving:
            return None
        found = self.solve(symbol)
        return None if self.is_opaque_in(found, self.walk.heads[symbol][0]) else found

    def find(self, symbol: str) -> Value | None:
        loop, start, after = self.walk.heads[symbol][0], self.start(symbol), self.next(symbol)
        if start is None and self.walk.names.given[self.walk.heads[symbol][1]] in self.walk.names.views:
            return self.book.everything  # a parameter that nobody had set keeps what the callee was given
        if after is None:
            return start
        if self.is_symbol(after) == symbol:
            return start
        own = [name for name in self.mentioned(after) if self.walk.heads.get(name, (-1, 0))[0] == loop]
        if self.is_opaque_in(after, loop):
            return self.counters.over_tiles(symbol, own)
        if not own:
            return follows(self.book, loop, [start], after)
        if own == [symbol]:
            found = self.advancing(symbol, start, after) or self.rotating(symbol, start, after)
            if found is not None:
                return found
        found = self.chain(symbol) or self.behind(symbol, own) or self.orbit(symbol) or self.trip_by_trip(symbol)
        return found or self.counters.phase(symbol, own) or self.counters.over_tiles(symbol, own)

    def advancing(self, symbol: str, start: Value | None, after: Value) -> Value | None:
        """A constant is added in every iteration."""
        loop = self.walk.heads[symbol][0]
        if start is None:
            return None
        if isinstance(after, tuple):
            if len(after) != 1 or after[0].cond != TRUE or after[0].buffer != symbol or after[0].start is None:
                return None
            step = constant(after[0].start)
        else:
            difference = self.math.binary("-", after, Name(symbol))
            step = difference.value if isinstance(difference, Const) else None
        if step is None:
            return None
        gone = self.math.binary("*", Name(iteration(loop)), Const(step))
        return self.book.moved(start, gone) if isinstance(start, tuple) else self.math.binary("+", start, gone)

    def rotating(self, symbol: str, start: Value | None, after: Value) -> Value | None:
        """A counter that goes round: the next value depends on nothing but this one."""
        if isinstance(after, tuple) or isinstance(start, tuple | None) or any(name != symbol for name in names(after)):
            return None
        sizes = {buffer.slots for buffer in self.walk.graph.buffers}
        low, high = self.math.bounds(start)
        known = low is not None and high is not None
        found = rotation_of(after, symbol, sizes, (low, high) if known else (0, 0))
        if found is None:
            return None
        step, size = found
        loop = self.walk.heads[symbol][0]
        gone = self.math.binary("*", Name(iteration(loop)), Const(step))
        turning = self.math.mod(self.math.binary("+", start, gone), size)
        return turning if known else self.if_in_range(symbol, start, size, turning)

    def if_in_range(self, symbol: str, start: Index, size: int, turning: Index) -> Index | None:
        """Goes round if its start is in range. A start that an outer loop carries may turn out to be, later on."""
        if not is_head(self.is_symbol(start)):
            return None
        loop, key = self.walk.heads[symbol]
        on = {*names(start), iteration(loop)}
        name = self.walk.names.given[key]
        other = self.book.opaque(self.flow.loops[loop].head, name, "arrives", self.walk.chains[loop], on)
        inside = both(self.math.compare(">=", start, ZERO), self.math.compare("<", start, Const(size)))
        return self.math.select(inside, turning, other)

    def chain(self, symbol: str) -> Value | None:
        """Names that hand their values on: what a name holds now, another one held before."""
        loop = self.walk.heads[symbol][0]
        passed, now = [symbol], symbol
        while True:
            after = self.next(now)
            following = "" if after is None else self.is_symbol(after)
            if not following or self.walk.heads[following][0] != loop or len(passed) > MOST_PERIOD:
                break
            if following in passed:
                starts = [self.start(each) for each in passed]
                return sequence(self.book, loop, starts, passed.index(following))
            passed.append(following)
            now = following
        if len(passed) == 1:
            return None
        last = self.try_solve(passed[-1])
        if last is None:
            return None
        shifted = self.put(last, {iteration(loop): self.earlier(loop, len(passed) - 1)})
        return follows(self.book, loop, [self.start(each) for each in passed[:-1]], shifted)

    def behind(self, symbol: str, own: list[str]) -> Value | None:
        """The next value is a function of other names that are solved."""
        loop, after = self.walk.heads[symbol][0], self.next(symbol)
        if symbol in own or after is None:
            return None
        for each in own:
            if self.try_solve(each) is None:
                return None
        closed = self.put(self.close_one(after, loop), {iteration(loop): self.earlier(loop, 1)})
        return follows(self.book, loop, [self.start(symbol)], closed)

    def orbit(self, symbol: str) -> Value | None:
        """Names that start with numbers and depend on one another alone come round sooner or later."""
        loop = self.walk.heads[symbol][0]
        nexts = self.together(symbol)
        starts = {each: self.start(each) for each in nexts}
        if not nexts or not all(isinstance(each, Const) for each in starts.values()):
            return None
        periods = [period_in(after, iteration(loop)) for after in nexts.values()]
        period = lcm(*(each or 0 for each in periods))
        if not 0 < period <= MOST_PERIOD:
            return None
        now = {each: start.value for each, start in starts.items() if isinstance(start, Const)}
        seen: dict[tuple[int, ...], int] = {}
        values: list[Value | None] = []
        for step in range(MOST_STEPS * period):
            state = (step % period, *now.values())
            if state in seen:
                return sequence(self.book, loop, values, seen[state])
            if len(values) > MOST_STEPS:
                break
            seen[state] = step
            values.append(Const(now[symbol]))
            env = {**now, iteration(loop): step}
            try:
                now = {each: evaluate(after, env) for each, after in nexts.items()}
            except ZeroDivisionError:
                return None
        return None

    def trip_by_trip(self, symbol: str) -> Value | None:
        """In a loop of few trips, one value for each: `%off * 2` from 1 on is 1, 2, 4, 8 in three trips."""
        loop = self.walk.heads[symbol][0]
        most, nexts = self.flow.loops[loop].most, self.together(symbol, alone=False)
        now = {each: self.start(each) for each in nexts}
        if most is None or most > MOST_TRIPS or not nexts:
            return None
        values: list[Value | None] = []
        for trip in range(most + 1):  # the head is passed once more, on the way out
            known = {each: value for each, value in now.items() if value is not None and not isinstance(value, tuple)}
            if len(known) < len(now) or size_of(known[symbol], MOST_SIZE) > MOST_SIZE:
                return None
            values.append(known[symbol])
            by = {**known, iteration(loop): Const(trip)}
            now = {each: self.math.put(after, by) for each, after in nexts.items()}
        return sequence(self.book, loop, values, most)

    def together(self, symbol: str, *, alone: bool = True) -> dict[str, Index]:
        """The names that a name depends on, with their next values; those that advance evenly are replaced.

        `alone`: they depend on one another only; else also on what is the same in all iterations.
        """
        loop = self.walk.heads[symbol][0]
        found: dict[str, Index] = {}
        work = [symbol]
        while work:
            each = work.pop()
            after = self.next(each)
            if each in found or after is None or isinstance(after, tuple):
                if each not in found:
                    return {}
                continue
            by: dict[str, Index] = {}
            for name in dict.fromkeys(names(after)):
                if not is_head(name) or self.walk.heads[name][0] != loop:
                    continue
                even = None if name == symbol else self.evenly(name)
                if even is not None:
                    by[name] = even
                else:
                    work.append(name)
            found[each] = self.math.put(after, by)
        inner = {iteration(loop), *found}
        others = {name for each in found.values() for name in names(each)} - inner
        fits = not others if alone else not any(self.is_opaque(name, (loop,)) for name in others)
        return found if fits else {}

    def evenly(self, symbol: str) -> Index | None:
        start, after = self.start(symbol), self.next(symbol)
        if start is None or after is None or isinstance(start, tuple) or isinstance(after, tuple):
            return None
        if after == Name(symbol):
            return start
        found = self.advancing(symbol, start, after)
        return None if isinstance(found, tuple) else found

    # --- where nothing helps ---

    def give_up(self, symbol: str) -> Value:
        loop, key = self.walk.heads[symbol]
        start, after = self.start(symbol), self.next(symbol)
        name = self.walk.names.given[key]
        if name in self.walk.names.views:
            return self.whole((Spot(TRUE, symbol, None),), loop)
        parts = [each for each in (start, after) if each is not None and not isinstance(each, tuple)]
        on = {each for part in parts for each in names(part)} - {symbol}
        differs = any(self.differs(part) for part in parts)
        within = self.inductive(symbol, start, after) or (None, None)
        head = self.flow.loops[loop].head
        found = self.book.opaque(head, name, "arrives", self.walk.chains[loop], on, within, differs)
        self.counters.note(found.name, symbol, start, after)
        return found

    def inductive(self, symbol: str, start: Value | None, after: Value | None) -> tuple[int, int] | None:
        """A range 0 up to N - 1 that the next value never leaves."""
        if after is None or isinstance(after, tuple) or isinstance(start, tuple):
            return None
        low, high = (0, 0) if start is None else self.math.bounds(start)
        sizes = {each.value + more for each in _constants(after) for more in (0, 1)}
        sizes |= {buffer.slots for buffer in self.walk.graph.buffers}
        for size in sorted(each for each in sizes if 0 < each <= 64):
            if low is None or high is None or low < 0 or high >= size:
                continue
            inside = [self.math.bounds(self.math.put(after, {symbol: Const(value)})) for value in range(size)]
            if all(a is not None and b is not None and a >= 0 and b < size for a, b in inside):
                return 0, size - 1
        return None

    def whole(self, view: View, loop: int) -> View:
        """Every buffer that a view may lie in, wherever in it. What loops around this one hold is not known yet."""
        seen: set[str] = set()
        found: list[str] = []
        work = [spot.buffer for spot in reversed(view)]
        while work:
            base = work.pop()
            if base in seen:
                continue
            seen.add(base)
            if not is_head(base) or self.walk.heads[base][0] != loop:
                found.append(base)
                continue
            for part in (self.start(base), self.next(base)):
                work.extend(spot.buffer for spot in part or ()) if isinstance(part, tuple) else None
        return self.book.trim(Spot(TRUE, base, None) for base in found)


def _constants(index: Index) -> list[Const]:
    return [node for node in walk(index) if isinstance(node, Const)]
