"""TTGIR as a `SyncGraph`.

Needs   a `Ttgir` with its memory laid out, and one of its functions
Gives   the graph, and for every point the operation before which an insertion there goes
Keeps   what the effects table does not describe and what takes a memory descriptor reads and writes all it can reach,
        and is reported; scalars that nobody can follow may be anything; an operation that all waves carry out together
        does not conflict with itself
Cost    linear in the operations

    ttg.convert_layout {allocation.offset = 0}        write scratch, as one; barrier; read scratch
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.assumptions import Assumption
from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton.build_programs import Programs, waves_of
from tidegate.hosts.triton.build_scalars import names_of
from tidegate.hosts.triton.read import Ttgir
from tidegate.hosts.triton.values import is_scalar, name_of
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Built:
    """A graph, where its points come from, and what could not be understood."""

    graph: g.SyncGraph
    before: tuple[Operation | None, ...]  # point → the operation before which an insertion goes
    unknown: tuple[Operation, ...]
    relaxed: tuple[Operation, ...] = ()  # waits that are taken for ones at which waves do not meet
    assumed: frozenset[Assumption] = frozenset()  # what the graph relies on and does not show


def build(ttgir: Ttgir, function: Operation, target: Target) -> Built:
    """The graph of one function. Text in generic form may say anything: what makes no sense is a mistake in it."""
    try:
        return _Builder(replace(ttgir, waves=waves_of(function, ttgir.waves)), function, target).built()
    except (IndexError, KeyError, ValueError, AssertionError) as error:
        message = f"`@{function.string('sym_name')}` does not have the shape that a function of TTGIR has"
        raise BadInput(Finding("TG005", message, (Label(function.at),))) from error


class _Builder(Programs):
    def built(self) -> Built:
        self.find_objects()
        self.find_lanes()
        self.ask()
        for name, type_ in self.function.regions[0].blocks[0].arguments:
            if is_scalar(type_) and name_of(name) in self.names:
                self.declare(name, type_)
            elif (found := self.types.memdesc(type_)) is not None and found.is_shared:
                self.parameter(name, found)
        self.start()
        self.region(self.function.regions[0])
        self.work()
        self.assume()
        self.callees()
        # What may touch everything touches memory, also where nothing else is known to be any.
        if not self.b.parts.get("buffers") and any(isinstance(each.action, g.Unknown) for each in self.b.points):
            self.b.buffer("%shared_memory", max(self.ttgir.shared, 1))
        graph = self.b.finish()
        used = names_of(graph)
        graph = replace(graph, free=tuple(each for each in self.free.values() if each.name in used))
        before = [*self.before, *([None] * (len(graph.points) - len(self.before)))]
        return Built(graph, tuple(before), tuple(self.unknown), tuple(self.relaxed), frozenset(self.assumed))
