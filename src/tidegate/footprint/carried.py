"""CarriedNumbers that a nest of loops carries, where an inner loop runs a symbolic number of times.

Needs   loops, and a name at a head for which no closed form was found
Gives   slots and phases over an opaque number; for such a number its start and what it gains in every iteration
Keeps   a number that is carried is `start + step * iteration`, and the step is the same in all iterations
Cost    a few evaluations for each name; for a slot and its phase one for each pair of values

    outer loop 0, inner loop 1 of N trips        in the inner loop
    %n + 1                                       ?0 + #1, where ?0 gains N in every iteration of loop 0
    select(%s + 1 == 3, 0, %s + 1)               (?1 + #1) mod 3, where ?1 gains N
    select(%s + 1 == 3, 1 - %p, %p)              (?1 + #1) mod 6 // 3
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from tidegate.footprint.arithmetic import both
from tidegate.footprint.heads import Heads
from tidegate.footprint.model import CarriedNumber
from tidegate.footprint.sequences import rotation_of
from tidegate.footprint.values import Value, is_head, iteration
from tidegate.index import TRUE, ZERO, Binary, Cond, Const, Index, Name, evaluate, names, walk

MOST_SLOTS = 32


class CarriedNumbers:
    """Those of one flow. `carried`: by opaque name, over names at heads until all loops are solved."""

    def __init__(self, heads: Heads) -> None:
        self.heads, self.book, self.math = heads, heads.book, heads.math
        self.carried: dict[str, CarriedNumber] = {}
        self.bases: dict[tuple[int, Index, Index], Name] = {}

    # --- a counter that gains a symbolic number ---

    def note(self, opaque: str, symbol: str, start: Value | None, after: Value | None) -> None:
        """What an opaque number gains, if it gains as much in every iteration."""
        loop = self.heads.walk.heads[symbol][0]
        if start is None or after is None or isinstance(start, tuple) or isinstance(after, tuple):
            return
        step = self.math.binary("-", after, Name(symbol))
        if self.is_same(step, loop):
            self.carried[opaque] = CarriedNumber(loop, start, step)

    def is_same(self, step: Index, loop: int) -> bool:
        """Whether a value is the same in all iterations of a loop."""
        own = any(self.heads.walk.heads.get(name, (-1, 0))[0] == loop for name in names(step))
        return not own and not self.heads.varies(step, (loop,))

    def base(self, loop: int, start: Index, step: Index, name: str) -> Name:
        """A number that no name holds: slots and phases are what is left of it."""
        key = (loop, start, step)
        if key not in self.bases:
            low, more = self.math.bounds(start)[0], self.math.bounds(step)[0]
            within = (low, None) if low is not None and more is not None and more >= 0 else (None, None)
            head, chain = self.heads.flow.loops[loop].head, self.heads.walk.chains[loop]
            on = {*names(start), *names(step), iteration(loop)}
            self.bases[key] = self.book.opaque(head, name, "arrives", chain, on, within)
            self.carried[self.bases[key].name] = CarriedNumber(loop, start, step)
        return self.bases[key]

    # --- a phase beside a slot ---

    def phase(self, symbol: str, own: list[str]) -> Index | None:
        """A phase that turns over where the slot beside it wraps, and that nobody else changes."""
        found = self.slot_beside(symbol, own)
        if found is None:
            return None
        slot, step, size = found
        loop, (first, turn) = self.heads.walk.heads[symbol][0], (self.start(slot), self.start(symbol))
        if first is None or turn is None:
            return None
        gone = self.math.binary("*", Name(iteration(loop)), Const(step))
        whole = self.math.binary("+", self.joined(first, turn, size), gone)
        turning = self.math.divide(self.math.mod(whole, 2 * size), size)
        asked: Cond = TRUE
        for value, most in ((first, size), (turn, 2)):
            if self.is_within(value, most):
                continue
            if not is_head(self.heads.is_symbol(value)):
                return None
            asked = both(asked, self.math.compare(">=", value, ZERO))
            asked = both(asked, self.math.compare("<", value, Const(most)))
        if asked == TRUE:
            return turning
        name, on = self.heads.walk.names.given[self.heads.walk.heads[symbol][1]], {*names(whole), iteration(loop)}
        head, chain = self.heads.flow.loops[loop].head, self.heads.walk.chains[loop]
        return self.math.select(asked, turning, self.book.opaque(head, name, "arrives", chain, on))

    def slot_beside(self, symbol: str, own: list[str]) -> tuple[str, int, int] | None:
        """The slot, how far it moves each time, and the number of slots."""
        slot = next((name for name in own if name != symbol), "")
        after, turn = self.next(slot) if slot else None, self.next(symbol)
        if after is None or turn is None or set(own) != {slot, symbol} or set(names(after)) != {slot}:
            return None
        sizes = {*_sizes(after), *_sizes(turn)}
        found = rotation_of(after, slot, sizes, (0, 0))
        if found is None or found[1] > MOST_SLOTS or not set(names(turn)) <= {slot, symbol}:
            return None
        for step in (found[0], found[0] + found[1]):  # a slot that stays may be one that goes once round
            if self.turns_over(symbol, slot, step, found[1]):
                return slot, step, found[1]
        return None

    def turns_over(self, phase: str, slot: str, step: int, size: int) -> bool:
        """Whether a phase turns over where its slot wraps, for all values of both."""
        after = self.next(phase)
        return after is not None and all(
            evaluate(after, {slot: at, phase: over}) == (at + size * over + step) % (2 * size) // size
            for at, over in product(range(size), range(2))
        )

    def joined(self, slot: Index, phase: Index, size: int) -> Index:
        return self.math.binary("+", slot, self.math.binary("*", phase, Const(size)))

    def is_within(self, value: Index, size: int) -> bool:
        low, high = self.math.bounds(value)
        return low is not None and high is not None and low >= 0 and high < size

    # --- slots and phases that gain a symbolic number ---

    def over_tiles(self, symbol: str, own: list[str]) -> Index | None:
        """A slot that moves by a symbolic number in every iteration, or the phase beside one."""
        if own == [symbol]:
            return self.slot_over_tiles(symbol)
        return self.phase_over_tiles(symbol, own) if len(own) == 2 and symbol in own else None

    def slot_over_tiles(self, symbol: str) -> Index | None:
        after, first, loop = self.next(symbol), self.start(symbol), self.heads.walk.heads[symbol][0]
        if isinstance(first, Const) and self.put(after, {symbol: first.value}) == first:
            return first  # the one slot of a ring
        match self.put(after, {symbol: 0}):
            case Binary("mod", step, Const(size)) if 1 < size <= MOST_SLOTS:
                pass
            case _:
                return None
        if not isinstance(first, Const) or not self.is_within(first, size) or not self.is_same(step, loop):
            return None
        return self.math.mod(self.base(loop, first, step, symbol), size) if self.moves(symbol, step, size) else None

    def moves(self, slot: str, step: Index, size: int) -> bool:
        """Whether a slot goes on by a step, from each value that it may have."""
        after = self.next(slot)
        return all(
            self.put(after, {slot: at}) == self.math.mod(self.math.binary("+", step, Const(at)), size)
            for at in range(size)
        )

    def phase_over_tiles(self, symbol: str, own: list[str]) -> Index | None:
        slot = next(name for name in own if name != symbol)
        after, loop = self.next(symbol), self.heads.walk.heads[symbol][0]
        first, turn = self.start(slot), self.start(symbol)
        match self.put(after, {slot: 0, symbol: 0}):
            case Binary("//", Binary("mod", step, Const(around)), Const(size)) if around == 2 * size <= 2 * MOST_SLOTS:
                pass
            case Binary("mod", step, Const(2)):
                size = 1
            case _:
                return None
        if not isinstance(first, Const) or not isinstance(turn, Const) or not self.is_same(step, loop):
            return None
        if not self.is_within(first, size) or not self.is_within(turn, 2) or not self.moves(slot, step, size):
            return None
        for at, over in product(range(size), range(2)):
            gone = self.math.mod(self.math.binary("+", step, Const(at + size * over)), 2 * size)
            if self.put(after, {slot: at, symbol: over}) != self.math.divide(gone, size):
                return None
        base = self.base(loop, Const(first.value + size * turn.value), step, symbol)
        return self.math.mod(self.math.divide(base, size), 2)

    # --- values at heads ---

    def next(self, symbol: str) -> Index | None:
        found = self.heads.next(symbol)
        return None if isinstance(found, tuple) else found

    def start(self, symbol: str) -> Index | None:
        found = self.heads.start(symbol)
        return None if isinstance(found, tuple) else found

    def put(self, value: Index | None, by: Mapping[str, int]) -> Index | None:
        return None if value is None else self.math.put(value, {name: Const(number) for name, number in by.items()})


def _sizes(index: Index) -> Iterable[int]:
    return {node.value + more for node in walk(index) if isinstance(node, Const) for more in (-1, 0, 1, 2)}
