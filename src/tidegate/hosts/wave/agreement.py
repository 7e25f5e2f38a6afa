"""Who agrees on a value of a trace: all threads, the lanes of each wave, or nobody.

Needs   a trace's values, and what is known of its symbols
Gives   for values, expressions and loops one of `VARIATIONS`
Keeps   what cannot be followed is divergent. A symbol is as far apart as the farthest value that is set to it anywhere,
        and so is what a loop carries; what is set where only some come, or carried by a loop that some leave earlier,
        differs by who they are. What is read at one place is one value, but for global memory that the kernel writes
Cost    what conditions, trip counts and set symbols depend on, a few times over

    set_symbol(S, scalar($T1)); conditional(S > 2)             per_wave
    iterate(.., condition=$GET_ITER_ARG_0 < 4)                 as far apart as what it starts with and hands on
    conditional(apply_expr(limit, lambda x: x + $T0) > 3)      divergent
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tidegate.graph.model import VARIATIONS
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.nodes import argument, is_node, op_of, outer
from tidegate.hosts.wave.numbers import Numbers
from tidegate.hosts.wave.regions import emitted, final_values, initial_values, region_of, start_of
from tidegate.hosts.wave.values import Values

UNIFORM, PER_WAVE, DIVERGENT = range(len(VARIATIONS))
# What they compute depends on their arguments alone, element by element.
_PLAIN = frozenset(
    "add and_ or_ sub mul ge gt le lt eq ne cast neg abs minimum maximum select truediv mod broadcast".split()
)
_SCALARS = ("i8", "i16", "i32", "i64", "index", "bool", "i1", "f16", "bf16", "f32", "f64")
_ALIKE = ("$WG", "$DD", "$APPLY_EXPR_ARG_")  # workgroups, devices; what a function is applied to is looked at by itself
_CARRIED = "$GET_ITER_ARG_"  # in the condition of a loop: what it carries, by number


class Agreement:
    """`of` for values and expressions, `goes_on` for loops."""

    def __init__(self, values: Values, numbers: Numbers, context: Context) -> None:
        self.values, self.numbers, self.context = values, numbers, context
        self.symbols: dict[str, int] = {}  # those that are set, and those of loops
        self.carried: dict[Any, int] = {}  # what loops carry, as far as anybody asks
        self.comes: dict[Any, int] = {}  # graph → who comes there
        self.seen: dict[Any, int] = {}
        self.changed = False
        self.placeholders = {each for carried in values.carried.values() for each in carried}
        self.written = {
            outer(each.memory)
            for each in values.touching.values()
            if each.effect != "read" and not each.bases and is_node(each.memory)
        }
        self.settle()
        # The symbols on which the lanes of a wave may disagree.
        self.divergent = frozenset(name for name, level in self.symbols.items() if level == DIVERGENT)

    def of(self, item: Any) -> str:
        """Who agrees on a value, an expression, or all of several."""
        return VARIATIONS[self.level(item)]

    def goes_on(self, loop: Any) -> str:
        """Who agrees on how often a loop runs."""
        return VARIATIONS[self.trips(loop)]

    # --- until nothing changes ---

    def settle(self) -> None:
        flow: list[tuple[Any, Any, str]] = []
        for graph in self.values.reached:
            for node in emitted(graph):
                op = self.values.ops[node]
                if op in ("set_symbol", "conditional", "iterate"):
                    flow.append((graph, node, op))
                if op == "set_symbol":
                    self.symbols[str(argument(node, 0))] = UNIFORM
                elif op == "iterate":
                    self.symbols[f"$ARG{argument(node, 0)}"] = UNIFORM
        self.changed = bool(flow)
        while self.changed:
            self.changed = False
            self.seen = {}
            for graph, node, op in flow:
                here = self.comes.get(graph, UNIFORM)
                if op == "set_symbol":
                    self.add(self.symbols, str(argument(node, 0)), max(here, self.level(argument(node, 1))))
                elif op == "conditional":
                    self.add(self.comes, self.inside(node), max(here, self.level(argument(node, 0))))
                else:
                    self.loop(node, here)

    def inside(self, node: Any) -> Any:
        return self.values.graphs[region_of(node)]

    def add(self, levels: dict[Any, int], key: Any, level: int) -> None:
        if levels.get(key, -1) < level:
            levels[key], self.changed = level, True

    def loop(self, node: Any, here: int) -> None:
        axis, start, trips = argument(node, 0), start_of(node), self.trips(node)
        self.add(self.comes, self.inside(node), max(here, trips))
        self.add(self.symbols, f"$ARG{axis}", trips)
        if start is not None:  # what the axis is set to is the number of the next iteration
            self.add(self.symbols, str(axis), trips)
        initial, final = initial_values(node), final_values(self.inside(node))
        for number, each in enumerate(self.values.carried[node]):
            if each in self.carried:
                given = [values[number] if number < len(values) else None for values in (initial, final)]
                known = DIVERGENT if None in given else self.level(given)
                self.add(self.carried, each, max(trips, known))

    def trips(self, loop: Any) -> int:
        axis, start, condition = argument(loop, 0), start_of(loop), argument(loop, 6)
        if start is None:
            count = getattr(loop, "count", None)
            return self.level(axis if count is None else count)
        return max(self.level(start), self.symbols.get(str(axis), UNIFORM), self.expression(condition, loop))

    # --- values ---

    def level(self, item: Any) -> int:
        if is_node(item):
            return self.node(item)
        if isinstance(item, list | tuple):
            return self.most(item)
        if isinstance(item, dict):
            return self.most(item.values())
        return self.expression(item)

    def most(self, items: Iterable[Any]) -> int:
        return max((self.level(each) for each in items), default=UNIFORM)

    def node(self, node: Any) -> int:
        node = self.values.source(node)
        if node in self.placeholders:
            if node not in self.carried:
                self.add(self.carried, node, UNIFORM)
            return self.carried[node]
        if node not in self.seen:
            self.seen[node] = self.compute(node, op_of(node))
        return self.seen[node]

    def compute(self, node: Any, op: str) -> int:
        if node in self.values.arguments:
            return UNIFORM if str(getattr(node, "type", None)) in _SCALARS else DIVERGENT
        if op in ("scalar", "register"):
            return self.level(argument(node, 0 if op == "scalar" else 2))
        if op == "self_index":
            return self.index(node)
        if op == "read":
            if self.may_be_written(outer(argument(node, 0))):
                return DIVERGENT  # some may read before it is written, and some behind
            given = [argument(node, number) for number in (3, 4, 5)]  # what its mapping is given, bounds, source
            return max(self.index(node), self.mapping(argument(node, 2)), self.most(given))
        if op == "apply_expr":
            return max(self.level(argument(node, 0)), self.applied(argument(node, 0), argument(node, 1)))
        if op in _PLAIN and node.args:
            return max(self.level(node.args), self.level(node.kwargs))
        return DIVERGENT

    def may_be_written(self, memory: Any) -> bool:
        """Whether the kernel writes memory that is not shared; what has no name of its own may be any of it."""
        if self.values.bases_of(memory):
            return False
        arguments = self.values.arguments
        return memory in self.written or (
            bool(self.written) and (memory not in arguments or any(each not in arguments for each in self.written))
        )

    def index(self, node: Any) -> int:
        index = getattr(node, "index", None) or {}
        if not index:
            return DIVERGENT
        return self.most((getattr(each, "start", each), getattr(each, "stride", 1)) for each in index.values())

    def mapping(self, mapping: Any) -> int:
        """What a mapping names, but for the index and the values that it is given."""
        if mapping is None:
            return UNIFORM
        given = {*mapping.iters, *mapping.dynamic_val_indices}
        exprs = (*mapping.input_mapping.values(), *mapping.output_mapping.values())
        named = {each for expr in exprs for each in getattr(expr, "free_symbols", ())}
        return max((self.symbol(each) for each in named - given), default=UNIFORM)

    def applied(self, given: Any, function: Any) -> int:
        """What a function of an `apply_expr` names: threads, for example, which Wave's code generator puts in."""
        from wave_lang.kernel._support.indexing import index_symbol

        count = len(given) if isinstance(given, list | tuple) else 1
        try:
            return self.expression(function(*(index_symbol(f"$APPLY_EXPR_ARG_{number}") for number in range(count))))
        except Exception:  # it is the user's own
            return DIVERGENT

    # --- expressions ---

    def expression(self, expr: Any, loop: Any = None) -> int:
        symbols = getattr(expr, "free_symbols", ())
        if not symbols:
            return UNIFORM
        found = self.numbers.fraction(expr)
        if found is not None:
            return self.by_thread(found[0])
        given = getattr(expr, "args", ())
        if not given:
            return self.symbol(expr, loop)
        # All of sympy's operations are functions: who agrees on everything that is given agrees on what is made of it.
        # So `$WG0 + floor($T0/64)` is as far apart as its parts, and not as `$T0` by itself.
        return max(self.expression(each, loop) for each in given)

    def symbol(self, symbol: Any, loop: Any = None) -> int:
        name = str(symbol)
        if symbol in self.numbers.known:
            found = self.numbers.known[symbol]
            if isinstance(found, np.ndarray):
                return self.by_thread(found)
            if found != symbol:
                return self.expression(found)
        if name in self.symbols:
            return self.symbols[name]
        if name.startswith(_CARRIED) and loop is not None:
            number, carried = name.removeprefix(_CARRIED), self.values.carried[loop]
            return self.node(carried[int(number)]) if number.isdigit() and int(number) < len(carried) else DIVERGENT
        return UNIFORM if not name.startswith("$") or name.startswith(_ALIKE) else DIVERGENT

    def by_thread(self, found: Any) -> int:
        every = np.broadcast_to(np.asarray(found), (self.context.count,))
        if bool((every == every[0]).all()):
            return UNIFORM
        rows = every.reshape(self.context.waves, -1)
        return PER_WAVE if bool((rows == rows[:, :1]).all()) else DIVERGENT
