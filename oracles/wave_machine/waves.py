"""One wave that runs a trace, and hands control back wherever another wave could come between.

Needs   the trace's graphs as `Program` reads them; the memories, queues and barriers of the workgroup
Gives   a generator: it yields `None` before each access to shared memory, and a question ("may I go on?") at a barrier
Keeps   registers are arrays (lanes × elements), one environment for all graphs, because each node has one value at a
        time; a read of shared memory is an `Access` until its value is used
Cost    a few array operations for each node that is run
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np
import sympy

from oracles.wave_machine.addresses import Addressing, compiled
from oracles.wave_machine.barriers import Rendezvous
from oracles.wave_machine.expressions import CannotRun, Compiled
from oracles.wave_machine.memory import Buffer, GlobalArray
from oracles.wave_machine.numbers import Array
from oracles.wave_machine.timing import Access, Queues

Question = Callable[[], bool]
Running = Generator[Question | None, None, None]


class Later:
    """A computation that waits for a read, with the operands and symbols of the moment at which it stands."""

    __slots__ = ("operands", "result", "step", "symbols")

    def __init__(self, step: Callable[[Wave], Any], operands: dict[Any, Any], symbols: dict[str, Any]) -> None:
        self.step = step
        self.operands = operands
        self.symbols = symbols
        self.result: Any = None

    def missing(self) -> list[Later]:
        return [one for one in self.operands.values() if isinstance(one, Later) and one.result is None]


class Wave:
    """The state of one wave."""

    def __init__(
        self,
        number: int,
        symbols: dict[str, Any],
        queues: Queues,
        meeting: Rendezvous,
        buffers: dict[Any, Buffer],
        remembered: dict[Any, tuple[Array, Array | None]],
    ) -> None:
        self.number = number
        self.symbols = symbols  # threads as columns of lanes, all else as numbers
        self.lanes = len(symbols["$T0"])
        self.queues = queues
        self.meeting = meeting
        self.buffers = buffers
        self.remembered = remembered  # places, by wave, operation and the numbers that they depend on
        self.values: dict[Any, Any] = {}
        self.waiting: list[Later] = []  # computations that have not been done, under lazy timing
        self.active: Array | None = None  # lanes that take part, where not all do
        self.at = ""  # the node that it is at, for reports
        self.ended = False

    def value(self, node: Any) -> Any:
        """An operand that is used now."""
        if isinstance(node, (list, tuple)):
            return [self.value(one) for one in node]
        found = self.raw(node)
        if isinstance(found, Later):
            self.compute(found)
            found = found.result
        return self.queues.finish(found) if isinstance(found, Access) else found

    def put_off(self, node: Any, step: Callable[[Wave], Any]) -> Any:
        """A computation is done when its value is needed, if it waits for a read that is in flight."""
        operands = {one: self.values[one] for one in node.all_input_nodes if one in self.values}
        if not any(is_open(one) for one in operands.values()):
            return step(self)
        later = Later(step, operands, dict(self.symbols))
        self.waiting.append(later)
        return later

    def compute(self, wanted: Later) -> None:
        """What is wanted, and before it what that needs; not by recursion, because sums are long chains."""
        stack = [wanted]
        while stack:
            top = stack[-1]
            missing = top.missing()
            if missing:
                stack += missing
                continue
            stack.pop()
            if top.result is None:
                here = self.values, self.symbols
                self.values, self.symbols = top.operands, top.symbols
                top.result = top.step(self)
                self.values, self.symbols = here
                top.operands = {}

    def settle(self) -> None:
        """Does all that has been put off."""
        for later in self.waiting:
            self.compute(later)
        self.waiting.clear()

    def raw(self, node: Any) -> Any:
        """An operand that is handed on: a read that is in flight stays in flight."""
        if isinstance(node, (int, float)):
            return node
        if node not in self.values:
            raise CannotRun(f"`{getattr(node, 'name', node)}` has no value where it is used")
        return self.values[node]

    def array(self, node: Any) -> Array:
        """An operand as lanes × elements."""
        found = self.value(node)
        return np.full((self.lanes, 1), found) if isinstance(found, (int, float)) else found

    def evaluate(self, expression: Compiled, more: dict[str, Any] | None = None) -> Any:
        known = self.symbols if more is None else {**self.symbols, **more}
        for name in expression.symbols:
            if name not in known:
                raise CannotRun(f"the symbol {name} has no value")
        return expression.evaluate(known)

    def number_of(self, expression: Any) -> int:
        """A size or count, the same for all lanes."""
        if isinstance(expression, (int, float)):
            return int(expression)
        found = np.asarray(self.evaluate(compiled(expression)))
        if found.min() != found.max():
            raise CannotRun(f"{expression} differs between the lanes of a wave")
        return int(found.flat[0])

    def condition(self, expression: Any) -> Array:
        """The lanes for which it holds."""
        if isinstance(expression, sympy.Basic):
            found = np.asarray(self.evaluate(compiled(expression)))
        else:
            found = np.asarray(self.array(expression))
        if found.ndim == 2 and found.shape[1] != 1:
            raise CannotRun("a condition with more than one element for a lane")
        return np.broadcast_to(found.reshape(-1) != 0, (self.lanes,))

    def places(self, addressing: Addressing, dynamic: Iterable[Any]) -> tuple[Array, Array | None]:
        """Elements (lanes × elements) and the mask of those that take part, where not all do."""
        key = None
        if not addressing.dynamic:
            numbers = tuple(self.symbols.get(name) for name in addressing.varying)
            if all(isinstance(number, int) for number in numbers):
                key = (self.number, addressing.tag, numbers)
        if key not in self.remembered:
            found = self.find_places(addressing, dynamic)
            if key is None:
                return self.masked(*found)
            self.remembered[key] = found
        return self.masked(*self.remembered[key])

    def masked(self, places: Array, inside: Array | None) -> tuple[Array, Array | None]:
        """Without the lanes that do not take part."""
        if self.active is None:
            return places, inside
        mask = np.broadcast_to(self.active[:, None], places.shape)
        return places, mask if inside is None else mask & inside

    def find_places(self, addressing: Addressing, dynamic: Iterable[Any]) -> tuple[Array, Array | None]:
        shape = (self.lanes, addressing.elements)
        more: dict[str, Any] = {"$ELEMENT": np.arange(addressing.elements)[None, :]}
        for name, node in zip(addressing.dynamic, dynamic, strict=True):
            more[name] = self.array(node).astype(np.int64)
        places = np.broadcast_to(self.evaluate(addressing.places, more), shape)
        if addressing.mask is None:
            return places, None
        inside = np.broadcast_to(self.evaluate(addressing.mask, more), shape)
        return places, None if inside.all() else inside


def is_open(value: Any) -> bool:
    """Whether a value is not there yet."""
    return (isinstance(value, Access) and not value.done) or (isinstance(value, Later) and value.result is None)


def load(memory: GlobalArray | Buffer, places: Array, mask: Array | None) -> Array:
    """Masked elements read as zero."""
    if mask is not None:
        places = np.where(mask, places, 0)
    if isinstance(memory, GlobalArray):
        found = memory.read(places)
    else:
        memory.check(places)
        found = memory.array[places]
    return found if mask is None else np.where(mask, found, np.zeros((), found.dtype))


def store(memory: GlobalArray | Buffer, places: Array, mask: Array | None, values: Array, wave: int) -> None:
    values = np.broadcast_to(values, places.shape)
    if mask is not None:
        places, values = places[mask], values[mask]
    if isinstance(memory, GlobalArray):
        memory.write(places, values, wave)
    else:
        memory.check(places)
        memory.array[places] = values
