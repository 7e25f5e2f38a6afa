"""Expressions and places of a graph, read where they stand: over canonical names and values at heads of loops.

Needs   the flow, and at each node what every name stands for there
Gives   the value of an index, a condition, and the bytes that a place begins at
Keeps   what grows beyond `MOST_SIZE` becomes an opaque number with the same range; what differs inside a wave is no
        place but the whole of its buffer
Cost    linear in the expression; the same one over the same values is computed once
"""

from __future__ import annotations

from tidegate.footprint.environment import Environment
from tidegate.footprint.names import chains_of, names_of
from tidegate.footprint.values import Book, Spot, Value, View, size_of
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.index import INDEX_TYPES, TRUE, Cond, Const, Index, names, show

MOST_SIZE = 120  # nodes in one expression; beyond that a value counts as opaque
Env = Environment[Value]


class Expressions:
    """What is known of a flow before it is walked, and what has been computed."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.graph = flow, flow.graph
        self.names, self.chains = names_of(flow), chains_of(flow)
        self.book = Book(flow.graph, len(flow.loops))
        self.math = self.book.math
        self.buffers = {buffer.name: buffer for buffer in flow.graph.buffers}
        self.outside = {each.name for each in flow.graph.free} | {each.name for each in flow.graph.sizes}
        self.computed: dict[tuple[Index, tuple[int, ...]], tuple[Index, tuple[Index, ...]]] = {}
        self.spots: dict[tuple[str, int, int], tuple[View, Index, Index]] = {}
        self.starts: dict[tuple[int, int, int], Index] = {}  # bytes of a slot, slot, offset → where it starts
        self.lost: dict[int, frozenset[int]] = {-1: frozenset()}  # loop → names without a value: a loop has no head
        for number, loop in enumerate(flow.loops):
            own = frozenset() if loop.reducible else self.names.set_in[number]
            self.lost[number] = self.lost[loop.parent] | own

    def value(self, index: Index, env: Env, node: int) -> Index:
        if isinstance(index, Const):
            return index
        by = self.bindings(index, env, node)
        # The same expression over the same values: most accesses of a loop are alike. Values are kept, so that no other
        # one can come to have their identity.
        key = (index, tuple(map(id, by.values())))
        known = self.computed.get(key)
        if known is None:
            known = self.computed[key] = (self.compute(index, by, node), tuple(by.values()))
        return known[0]

    def compute(self, index: Index, by: dict[str, Index], node: int) -> Index:
        found = self.math.put(index, by)
        if size_of(found, MOST_SIZE) <= MOST_SIZE:
            return found
        return self.book.opaque(
            node,
            show(index),
            "computed",
            self.chains[self.flow.loop_of[node]],
            names(found),
            self.math.bounds(found),
            self.book.is_differing(found),
        )

    def cond(self, cond: Cond, env: Env, node: int) -> Cond:
        return self.math.put_cond(cond, self.bindings(cond, env, node))

    def bindings(self, expr: Index | Cond, env: Env, node: int) -> dict[str, Index]:
        found: dict[str, Index] = {}
        for name in names(expr):
            key = self.names.number.get(name)
            if key is None or name in found:
                continue
            is_lost = key in self.lost[self.flow.loop_of[node]]
            value = None if is_lost else env.get(key)
            if value is None and name in self.outside and not is_lost:
                continue
            if not isinstance(value, INDEX_TYPES):
                value = self.book.opaque(node, name, "arrives", self.chains[self.flow.loop_of[node]], None)
            found[name] = value
        return found

    def place(self, where: g.Where, env: Env, node: int) -> View:
        match where:
            case g.Either(cond, then, otherwise):
                return self.book.either(
                    self.cond(cond, env, node), self.place(then, env, node), self.place(otherwise, env, node)
                )
            case g.Ref(base, slot, offset):
                by = self.value(offset, env, node)
                if base in self.buffers:
                    return self.spot(base, self.value(slot, env, node), by)
                key = self.names.number.get(base, -1)
                found = None if key < 0 or key in self.lost[self.flow.loop_of[node]] else env.get(key)
                return self.sharp(self.book.moved(found, by) if isinstance(found, tuple) else self.book.everything)

    def spot(self, base: str, slot: Index, by: Index) -> View:
        """Bytes into a slot of a buffer."""
        key = (base, id(slot), id(by))
        if key not in self.spots:
            size = self.buffers[base].slot_bytes
            start = self.starts.get((size, id(slot), id(by)))
            if start is None:
                start = self.math.binary("+", self.math.binary("*", slot, Const(size)), by)
                self.starts[size, id(slot), id(by)] = start
            self.spots[key] = (self.sharp((Spot(TRUE, base, start),)), slot, by)
        return self.spots[key][0]

    def sharp(self, view: View) -> View:
        """What differs inside a wave is no place: all of the buffer is."""
        if any(spot.start is not None and self.book.is_differing(spot.start) for spot in view):
            return self.book.trim(
                Spot(TRUE if self.book.is_differing(spot.cond) else spot.cond, spot.buffer, None)
                if spot.start is None or self.book.is_differing(spot.start)
                else spot
                for spot in view
            )
        return view
