"""Loops before anything is solved: what names hold on the way in and next, how often a loop runs, where it is left.

Needs   a walk that has passed the loop
Gives   `Heads`: the start and the next value of a name, over the values at the head; trips; questions about values
Keeps   a number of trips is given only where it is exact
Cost    each name and each loop once, linear in its nodes
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.footprint.values import Spot, Value, View, is_head, iteration
from tidegate.footprint.walk import Walk
from tidegate.graph import model as g
from tidegate.index import TRUE, ZERO, Binary, Compare, Const, Index, Name, names


class Heads:
    """What a walk has found about heads of loops. A name at a head is written `@loop.name`."""

    def __init__(self, walk: Walk) -> None:
        self.walk, self.flow, self.book, self.math = walk, walk.flow, walk.book, walk.math
        self.nexts: dict[str, Value | None] = {}
        self.counts: dict[int, Index | None] = {}
        self.leaving: dict[int, set[int]] = {}

    # --- what names hold ---

    def next(self, symbol: str) -> Value | None:
        """The value at the end of the loop's body, over those at its head."""
        if symbol not in self.nexts:
            loop, key = self.walk.heads[symbol]
            ways = [each for each in self.flow.loops[loop].latches if each in self.walk.left]
            head = self.flow.loops[loop].head
            known = [(way, self.walk.along(way, head).get(key)) for way in ways]
            given = [(way, value) for way, value in known if value is not None]
            found = self.walk.merge(given, head, loop) if given else None
            if given and found is None:
                found = self.walk.no_value(head, self.walk.names.given[key])
            self.nexts[symbol] = found
        return self.nexts[symbol]

    def start(self, symbol: str) -> Value | None:
        loop, key = self.walk.heads[symbol]
        found = self.walk.started[loop].get(key)
        name = self.walk.names.given[key]
        return Name(name) if found is None and name in self.walk.outside else found

    # --- trips ---

    def leaving_from(self, loop: int) -> set[int]:
        if loop not in self.leaving:
            chains, found = self.walk.chains, set()
            for node in self.members(loop):
                if any(loop not in chains[self.flow.loop_of[each]] for each in self.flow.successors[node]):
                    found.add(node)
            self.leaving[loop] = found
        return self.leaving[loop]

    def members(self, loop: int) -> list[int]:
        """The nodes of a loop, found backwards from its ends."""
        head = self.flow.loops[loop].head
        seen, stack = {head}, [head, *self.flow.loops[loop].latches]
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
            if node != head:
                stack.extend(each for each in self.flow.before[node] if each not in seen)
                seen.update(self.flow.before[node])
        chains = self.walk.chains
        return [node for node in seen if loop in chains[self.flow.loop_of[node]]]

    def trips(self, loop: int) -> Index | None:
        """How often the loop runs, over what is known outside of it."""
        if loop not in self.counts:
            self.counts[loop] = self.count_trips(loop)
        return self.counts[loop]

    def count_trips(self, loop: int) -> Index | None:
        """By the counter; where that gives no number and the graph states one, what it states."""
        known = self.flow.loops[loop].facts
        counted = self.counted(loop)
        is_stated = known is not None and known.least == known.most and self.inside(loop) != [False, True]
        return Const(known.least) if known and is_stated and not isinstance(counted, Const) else counted

    def inside(self, loop: int) -> list[bool]:
        """Of the successors of its head, whether each stays in the loop."""
        after = self.flow.successors[self.flow.loops[loop].head]
        return [loop in self.walk.chains[self.flow.loop_of[each]] for each in after]

    def counted(self, loop: int) -> Index | None:
        """What the test at the head and the steps of the counter say, whatever the graph states beside them."""
        known = self.flow.loops[loop].facts
        if known is None:
            return None
        counter = self.walk.names.number.get(known.counter)
        test = self.flow.action(self.flow.loops[loop].head)
        # The loop goes on where the test holds, and ends where not: a graph may have it the other way round.
        if self.inside(loop) != [True, False]:
            return None
        if counter is None or test != g.Branch(Compare("<", Name(known.counter), known.upper)):
            return None
        symbol = f"@{loop}.{known.counter}"
        if symbol not in self.walk.heads:  # nothing in the loop sets its counter
            return None
        start, after = self.walk.started[loop].get(counter), self.next(symbol)
        if isinstance(start, tuple | None) or after != self.math.binary("+", Name(symbol), Const(known.step)):
            return None
        head = self.walk.entered[self.flow.loops[loop].head]
        upper = self.walk.value(known.upper, head, self.flow.loops[loop].head)
        if any(self.walk.heads.get(name, (-1, 0))[0] == loop for name in names(upper)) or self.varies(upper, (loop,)):
            return None
        gap = self.math.binary("+", self.math.binary("-", upper, start), Const(known.step - 1))
        return self.math.binary("max", ZERO, self.math.binary("//", gap, Const(known.step)))

    # --- asking about values ---

    def put(self, value: Value, by: dict[str, Index], views: dict[str, View] | None = None) -> Value:
        if isinstance(value, tuple):
            return self.book.put_view(value, by, views or {})
        return self.math.put(value, by)

    def earlier(self, loop: int, by: int) -> Index:
        return Binary("+", Name(iteration(loop)), Const(-by))

    def mentioned(self, value: Value) -> list[str]:
        """All names and views in a value, in order."""
        if not isinstance(value, tuple):
            return list(dict.fromkeys(names(value)))
        found: dict[str, None] = {}
        for spot in value:
            found[spot.buffer] = None
            found.update(dict.fromkeys(names(spot.cond)))
            if spot.start is not None:
                found.update(dict.fromkeys(names(spot.start)))
        return list(found)

    def is_symbol(self, value: Value) -> str:
        """The head's name that a value is, or an empty text."""
        match value:
            case Name(name) if is_head(name):
                return name
            case (Spot(cond=cond, buffer=base, start=start),) if cond == TRUE and start == ZERO and is_head(base):
                return base
        return ""

    def varies(self, value: Value, loops: Iterable[int]) -> bool:
        own = {iteration(loop) for loop in loops}
        return any(name in own or self.is_opaque(name, loops) for name in self.mentioned(value))

    def is_opaque_in(self, value: Value, loop: int) -> bool:
        return any(self.is_opaque(name, (loop,)) for name in self.mentioned(value))

    def is_opaque(self, name: str, loops: Iterable[int]) -> bool:
        found = self.book.opaques.get(name)
        return found is not None and any(loop in found.loops for loop in loops)

    def differs(self, value: Value) -> bool:
        return any(name in self.book.differing for name in self.mentioned(value))
