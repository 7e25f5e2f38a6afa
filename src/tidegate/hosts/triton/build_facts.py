"""One function of TTGIR as its text tells it, before there is a point.

Needs   a `Ttgir`, one of its functions, and how far the arguments of called functions are shared
Gives   `FunctionFacts`: effects, types, spreads, sizes; the scalars that a graph has to know; the allocations that a
        descriptor may lie in
Keeps   nothing here changes while a graph is built, but for expressions that are remembered; what flows into a scalar
        that is asked about is asked about as well
Cost    linear in the operations
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.effects import NOTHING, Allocates, Effect, Views, effects
from tidegate.hosts.triton.harmless import is_harmless
from tidegate.hosts.triton.read import Ttgir
from tidegate.hosts.triton.spreads import Calls
from tidegate.hosts.triton.types import Types
from tidegate.hosts.triton.values import is_scalar, name_of, values_of
from tidegate.index import TRUE, Cond


class FunctionFacts:
    """What parts of a builder ask about a function. `prefix`: of its values, if the function is called."""

    def __init__(self, ttgir: Ttgir, function: Operation, calls: Calls, prefix: str = "") -> None:
        self.ttgir, self.function, self.calls, self.prefix = ttgir, function, calls, prefix
        self.frame = f"%{prefix}_frame" if prefix else None  # where the memory of a called function lies
        self.types = Types(ttgir.module.aliases)
        self.values = values_of(function)
        if prefix:  # a function's values are others in each call
            self.values.fixed.outside_loops.clear()
        self.spreads = calls.of(function, self.values)
        self.values.apart = frozenset(value for value, each in self.spreads.found.items() if not each.is_shared)
        self.table = effects()
        self.waves = ttgir.waves + max(
            (sum(op.integers("partitionNumWarps")) for op in walk(function) if op.name == "ttg.warp_specialize"),
            default=0,
        )
        self.names = self._find_names()  # scalars that the graph knows

    # --- operations ---

    def effect(self, op: Operation) -> Effect:
        return self.table.get(op.name, NOTHING)

    def touches_memory(self, op: Operation) -> bool:
        """Whether an operation may touch shared memory, as far as its types and its name tell."""
        if any(map(self.types.is_memory, (*op.operand_types, *op.result_types))):
            return True
        return op.name not in self.table and not is_harmless(op)

    def does_something(self, op: Operation) -> bool:
        """Whether an operation is more than arithmetic on scalars that can be followed."""
        if self.effect(op) != NOTHING or op.regions or op.integer("allocation.offset") is not None:
            return True
        if self.touches_memory(op):
            return True
        return any(result in self.values.opaque and self.is_carried(result) for result in op.results)

    def descriptors(self, op: Operation) -> list[str]:
        """The operands that are shared memory."""
        given = zip(op.operands, op.operand_types, strict=True)
        return [value for value, type_ in given if self.types.is_memory(type_)]

    def is_used(self, op: Operation) -> bool:
        """Whether anything takes what an operation makes."""
        made = set(op.results)
        return any(not made.isdisjoint(each.operands) for each in walk(self.function))

    def is_masked(self, op: Operation) -> bool:
        """Whether a mask may leave some bytes untouched."""
        tensors = (self.types.tensor(type_) for type_ in op.operand_types)
        return "i1" in op.operand_types or any(each is not None and each.element == "i1" for each in tensors)

    def size_of(self, op: Operation) -> int | None:
        """The bytes that were laid out for an operation or a call; None: it has some, and nobody knows how many.

        Where its own size is not stated, it has all from its offset to the end of shared memory.
        """
        offset, size = op.integer("allocation.offset"), op.integer("allocation.size")
        if size is not None or offset is None:
            return size or 0
        return self.ttgir.shared - offset if self.ttgir.shared > offset else None

    def predicates(self, op: Operation) -> list[str]:
        return _of_types(op, lambda type_: type_ == "i1")

    def predicate(self, op: Operation) -> Cond | None:
        """The scalar condition of an operation, unless it always holds."""
        found = self.predicates(op)
        cond = self.values.cond(found[-1]) if found and not op.name.startswith("ttng.warp_group_dot") else TRUE
        return None if cond == TRUE else cond

    # --- values ---

    def is_apart(self, values: Iterable[str]) -> bool:
        """Whether waves or lanes need not agree on one of some values."""
        return not self.values.apart.isdisjoint(values)

    def is_carried(self, value: str) -> bool:
        return name_of(value) in self.names

    def bases(self, value: str, asked: frozenset[str] = frozenset()) -> Iterator[str]:
        """The allocations that a descriptor may lie in."""
        if value in asked:
            return
        asked |= {value}
        values = self.values
        if value in values.results:
            yield from self.bases(values.results[value], asked)
        elif value in values.arguments:
            for source in values.arguments[value].sources:
                yield from self.bases(source, asked)
        elif value in values.made:
            op, number = values.made[value]
            if isinstance(self.effect(op).does, Allocates):
                yield value
            elif op.name == "arith.select":
                for each in op.operands[1:]:
                    yield from self.bases(each, asked)
            elif isinstance(self.effect(op).does, Views):
                yield from self.bases(op.operands[0], asked)
            elif self.effect(op).forwards:
                yield from self.bases(op.operands[number], asked)

    def _find_names(self) -> frozenset[str]:
        """Scalars that slots, conditions, trips and phases depend on, and all that flows into them."""
        values = self.values
        for op in walk(self.function):
            for value in self._scalars_of(op):
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
        return frozenset(values.needed | done)

    def _scalars_of(self, op: Operation) -> Iterable[str]:
        match op.name:
            case "ttg.memdesc_index":
                return (op.operands[1],)
            case "scf.if" | "cf.cond_br" | "scf.condition" | "scf.index_switch":
                return (op.operands[0],)
            case "scf.for":
                return op.operands[:3]
            case "tt.call":  # what the function does with them is not known here
                return _of_types(op, is_scalar)
            case "arith.select" if self.types.memdesc(op.result_types[0]) is not None:
                return (op.operands[0],)
            case _ if self.effect(op).mbarrier or self.effect(op).by == "one":
                return _of_types(op, is_scalar)
        return ()


def _of_types(op: Operation, is_wanted: Callable[[str], bool]) -> list[str]:
    """The operands whose types are wanted."""
    return [value for value, type_ in zip(op.operands, op.operand_types, strict=False) if is_wanted(type_)]
