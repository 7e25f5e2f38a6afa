"""Where the memory descriptors of a function lie.

Needs   the types of descriptors, and what flows into them
Gives   `Descriptors`: a `View` for each descriptor that is followed; those that regions and blocks hand on have names
        of their own
Keeps   a descriptor without a view may lie anywhere: whoever uses it may touch everything, and that is reported
Cost    constant for each descriptor, linear in what flows into it where that is asked
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.effects import Allocates, Views
from tidegate.hosts.triton.types import MemDesc
from tidegate.hosts.triton.values import name_of
from tidegate.hosts.triton.views import View, is_traced
from tidegate.index import ZERO, Const
from tidegate.language.ops import Value


class Descriptors:
    def __init__(self, points: Points) -> None:
        self.points, self.facts = points, points.facts
        self.views: dict[str, View] = {}
        self.objects: dict[str, Value] = {}  # allocations that hold barrier objects

    def own_memory(self, name: str, bytes: int, slots: int, offset: int | None) -> g.Ref:
        """Memory of the function itself: a buffer, or a part of the frame that a call gives it."""
        if self.facts.frame is None:
            return g.Ref(self.points.b.buffer(name, bytes, slots, offset))
        return g.Ref(self.facts.frame, ZERO, Const(offset or 0))

    def unnamed_memory(self, kind: str, bytes: int, offset: int | None) -> g.Ref:
        """Memory that no descriptor is for: scratch, captures, the frame of a call."""
        return self.own_memory(f"%{kind}{len(self.points.b.parts.get('buffers', ()))}", bytes, 1, offset)

    def parameter(self, name: str, type_: MemDesc) -> None:
        """A descriptor that a kernel is given: it may be any memory, and is taken for memory of its own."""
        buffer = self.points.b.buffer(name_of(name), type_.slot_bytes, type_.slots)
        self.views[name] = View(g.Ref(buffer), (0,) * type_.rank, type_, type_.slots > 1)

    # --- what is handed on ---

    def enter(self, arguments: Iterable[tuple[str, str]]) -> None:
        """Descriptors that are handed to a block are places with a name of their own."""
        for name, type_ in arguments:
            if name not in self.views and (found := self.handed_on(name, type_)) is not None:
                self.views[name] = found

    def carry(self, carried: tuple[tuple[str, str], ...], inits: tuple[str, ...]) -> None:
        """Descriptors that loops carry are places with a name of their own."""
        for (name, type_), init in zip(carried, inits, strict=True):
            found = self.handed_on(name, type_)
            if found is not None and init in self.views:
                self.views[name] = found

    def handed_on(self, name: str, type_: str) -> View | None:
        """A descriptor that a region or a block takes; None: no type tells where in its memory it lies.

        It is a slot, or a part of one of which nobody knows where it starts.
        """
        found = self.facts.types.memdesc(type_)
        if found is None or not found.is_shared or not self.is_traced(name):
            return None
        start = (0,) * found.rank if found.allocated[-found.rank :] == found.slot_shape else None
        return View(g.Ref(name_of(name)), start, found)

    def is_traced(self, value: str, asked: frozenset[str] = frozenset()) -> bool:
        """Whether a descriptor is nowhere `opaque` on its way from its allocations, by the types alone.

        Views inside of a loop are made later than the argument that they flow into.
        """
        if value in asked:
            return True
        asked |= {value}
        if value in self.views:
            return not self.views[value].opaque
        values, types = self.facts.values, self.facts.types
        type_ = types.memdesc(values.type_of(value))
        if type_ is None or not type_.is_known:
            return False
        if value in values.results:
            return self.is_traced(values.results[value], asked)
        if value in values.arguments:
            return all(self.is_traced(each, asked) for each in values.arguments[value].sources)
        if value not in values.made:
            return value in values.outside
        op, number = values.made[value]
        effect = self.facts.effect(op)
        if isinstance(effect.does, Allocates):
            return True
        if op.name == "arith.select":
            return all(self.is_traced(each, asked) for each in op.operands[1:])
        if isinstance(effect.does, Views):
            source = types.memdesc(op.operand_types[0])
            return (
                source is not None
                and is_traced(effect.does.view, source, type_)
                and self.is_traced(op.operands[0], asked)
            )
        return effect.forwards and self.is_traced(op.operands[number], asked)

    def place_of(self, value: str) -> g.Where:
        """Where a descriptor lies. What becomes of a name that takes one of which nobody knows that, nobody can say."""
        if value not in self.views:
            at = (Label(self.points.at.at),) if self.points.at is not None else ()
            message = f"`{value}` comes from an operation without a description, and is handed on where others are too"
            raise BadInput(Finding("TG005", message, at))
        return self.views[value].place

    # --- what may be reached ---

    def buffers_of(self, value: str) -> Iterator[str]:
        """The buffers that a descriptor may lie in; the memory of a barrier object has a name of its own."""
        if value not in self.views:
            return
        known = [self.views[base].place.base for base in self.facts.bases(value) if base in self.views]
        for name in known or [self.views[value].place.base]:
            yield f"{name}_memory" if name in self.objects else name

    def anything(self, op: Operation) -> None:
        """An operation without a description: it reads and writes all that it can reach, all waves together."""
        given = self.facts.descriptors(op)
        reached = tuple(dict.fromkeys(name for value in given for name in self.buffers_of(value)))
        buffers = self.points.b.buffers
        # Assembly, or an operation of another dialect, has no descriptor that says what it reaches.
        if not given or not all(value in self.views for value in given) or not all(name in buffers for name in reached):
            self.points.unknown(op)
            return
        self.points.collected.unknown.append(op)
        if not reached:
            self.points.add(g.Compute(), op)
        together = not self.facts.is_apart(given)
        for name in reached:
            foot = g.Footprint(g.Ref(name), (), buffers[name].bytes, True)
            self.points.add(g.Access("write", foot, as_one=together), op, role="local_write")
        # A descriptor that it makes has no view: whoever uses that may touch everything.
