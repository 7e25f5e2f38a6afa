"""Which scalars of a function a graph has to know: all that slots, conditions, trips and phases depend on.

Needs   the scalars of a function as expressions
Gives   the names that are carried; the names that a finished graph mentions
Keeps   what flows into an argument that is asked about is asked about as well
Cost    linear in the operations that are asked about
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.build_state import State
from tidegate.hosts.triton.values import is_scalar, name_of
from tidegate.index import (
    Cond,
    Index,
    names,
)
from tidegate.language import ops


class Scalars(State):
    def ask(self) -> None:
        """Scalars that slots, conditions, trips and phases depend on, and all that flows into them."""
        values = self.values
        for op in walk(self.function):
            for value in self.scalars_of(op):
                values.expression(value)
        pending = list(values.needed)
        by_name = {name_of(value): value for value in (*values.arguments, *values.results, *values.outside)}
        done: set[str] = set()
        while pending:
            name = pending.pop()
            if name in done:
                continue
            done.add(name)
            if name not in by_name:
                continue
            value = by_name[name]
            argument = values.arguments.get(values.results.get(value, value))
            if value in values.results:
                pending.append(name_of(values.results[value]))
            for source in argument.sources if argument else ():
                values.expression(source)
            if value in values.counters:
                for bound in values.counters[value]:
                    values.expression(bound)
            pending += [each for each in values.needed if each not in done]
        self.names = frozenset(values.needed | done)

    def scalars_of(self, op: Operation) -> Iterator[str]:
        match op.name:
            case "ttg.memdesc_index":
                yield op.operands[1]
            case "scf.if" | "cf.cond_br" | "scf.condition" | "scf.index_switch":
                yield op.operands[0]
            case "scf.for":
                yield from op.operands[:3]
            case "tt.call":  # what the function does with them is not known here
                yield from (
                    value for value, type_ in zip(op.operands, op.operand_types, strict=False) if is_scalar(type_)
                )
            case "arith.select" if self.types.memdesc(op.result_types[0]) is not None:
                yield op.operands[0]
            case _ if self.effect(op).mbarrier or self.effect(op).by == "one":
                yield from (
                    value for value, type_ in zip(op.operands, op.operand_types, strict=False) if is_scalar(type_)
                )


def names_of(graph: g.SyncGraph) -> set[str]:
    """The names that places, conditions and assignments of a graph mention."""
    found: set[str] = set()
    for point in graph.points:
        for expr in _expressions(point.action):
            found.update(names(expr))
    for loop in graph.loops:
        found.update((*names(loop.lower), *names(loop.upper)))
    return found


def _expressions(action: g.Action) -> Iterator[Index | Cond]:
    match action:
        case g.Access(footprint=foot, mbarrier=told):
            yield from (foot.place.slot, foot.place.offset)
            if told is not None:
                yield told.slot
        case g.Assign(pairs):
            for _, value in pairs:
                yield from _in_value(value)
        case g.Branch(cond) if cond is not None:
            yield cond
        case g.Sync(ops.MbarrierWait(barrier=place, parity=parity)):
            yield from (place.slot, parity)
        case g.Sync(ops.MbarrierArrive(barrier=place)):
            yield place.slot


def _in_value(value: Index | g.Where | g.Token) -> Iterator[Index | Cond]:
    match value:
        case g.Token():
            return
        case g.Ref(slot=slot, offset=offset):
            yield from (slot, offset)
        case g.Either(cond, then, otherwise):
            yield cond
            yield from _in_value(then)
            yield from _in_value(otherwise)
        case _:
            yield value
