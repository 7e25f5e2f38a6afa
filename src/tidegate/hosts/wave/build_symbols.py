"""Names in the graph for the symbols of a trace.

Needs   which symbols a region sets, and the counters of loops around
Gives   `SymbolNames`: translators for expressions over symbols, as they are at the place that is being built
Keeps   a symbol is what the text before it has set it to, as in Wave's code generator; one that was set in a region has
        no value behind it
Cost    constant for each symbol
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.hosts.wave.build_points import TraceFacts
from tidegate.hosts.wave.uniform import Uniform
from tidegate.index import WORKGROUP


class SymbolNames:
    def __init__(self, facts: TraceFacts) -> None:
        self.facts = facts
        self.names: dict[str, str] = {f"$WG{number}": name for number, name in enumerate(WORKGROUP)}
        self.counters: dict[str, range] = {}  # of loops around that run a known number of times → their values

    @property
    def uniform(self) -> Uniform:
        apart = self.facts.agreement.divergent
        names = {each: name for each, name in self.names.items() if each not in apart} if apart else self.names
        return Uniform(names, self.facts.memory.numbers)

    @property
    def places(self) -> Uniform:
        """What is uniform, and what each wave knows by itself: where in a buffer its accesses lie."""
        names = self.uniform.names
        counters = {each: values for each, values in self.counters.items() if each in names}
        return Uniform(names, self.facts.memory.numbers, self.facts.context.waves, counters)

    def set(self, symbol: str) -> str:
        """A symbol takes another value, which has a new name."""
        name = self.names[symbol] = self.facts.memory.fresh(symbol.strip("$"))
        return name

    def count(self, symbol: str, counter: str, most: int | None, by: int) -> None:
        """The values that a counter has in its loop, from 0 on; none are known of one that the trace sets itself."""
        self.names[symbol] = counter
        self.counters.pop(symbol, None)
        if most is not None and not self.facts.values.is_set(symbol):
            self.counters[symbol] = range(0, most, by)

    @contextmanager
    def in_region(self) -> Iterator[None]:
        """Behind a region, a symbol that was set in it has no value that Wave could make code of."""
        names, counters = dict(self.names), dict(self.counters)
        yield
        self.names = {each: name for each, name in names.items() if self.names.get(each) == name}
        self.counters = counters
