"""Loops and conditionals of a trace as edges between points.

Needs   `Iterate` and `Conditional` nodes with their graphs
Gives   points in program order, with what is known of loops
Keeps   memory that a loop carries has a name of its own, which is assigned where the loop starts and where its body
        ends; a loop that runs while a condition holds runs any number of times. A symbol is what the text before it has
        set it to, as in Wave's code generator: what stands before `set_symbol` in a loop never sees the last iteration
Cost    linear in the nodes
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from tidegate.graph import model as g
from tidegate.hosts.wave.agreement import UNIFORM
from tidegate.hosts.wave.arrays import View
from tidegate.hosts.wave.build_state import State, Unclear
from tidegate.hosts.wave.conditions import (
    WHOLE,
    compare_arguments,
    half_of,
    holds_by_wave,
    waves_where,
)
from tidegate.hosts.wave.nodes import argument, is_node, op_of
from tidegate.hosts.wave.regions import emitted, final_values, initial_values, output_of, region_of, start_of
from tidegate.index import ZERO, Binary, Compare, Cond, Const, Flag, Index, Name, Truth, add, constant, substitute
from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.language.types import FLAG, INDEX

EXPECTED_TRIPS = 16.0
Pairs = tuple[tuple[str, Index | g.Where | g.Token], ...]


class Flow(State, ABC):
    @abstractmethod
    def operation(self, node: Any) -> None: ...

    def region(self, graph: Any) -> None:
        for node in emitted(graph):
            self.operation(node)

    # --- loops ---

    def loop(self, node: Any) -> None:
        axis, step, start = argument(node, 0), argument(node, 4, 1), start_of(node)
        carried, graph = self.values.carried[node], self.graphs[region_of(node)]
        around, counters = dict(self.symbols), dict(self.counters)
        under = self.under
        by = self.memory.numbers.constant(step) or 0
        agree = self.agreement.goes_on(node) == "uniform"
        upper = self.trips(node) if start is None and by > 0 and agree else None
        counter = self.memory.fresh(str(axis).strip("$"))
        if upper is not None and by == 1:
            self.take_turns(node, counter)
        starts = self.carry(carried, initial_values(node))
        if upper is None:
            head, test = self.free_loop(node, counter, starts)
            nexts: Pairs = ()
        else:
            self.add(g.Assign(((counter, ZERO), *starts)), node, "loop")
            head = test = self.add(g.Branch(Compare("<", Name(counter), upper)), node, "trip", insertable=False)
            most = constant(upper)
            least = None if most is None else max(0, -(-most // by))
            expect = EXPECTED_TRIPS if least is None else float(least)
            self.b.counted[head] = g.Loop(head, -1, least or 0, least, expect, counter, ZERO, upper, by)
            self.symbols[f"$ARG{axis}"] = counter
            self.know(f"$ARG{axis}", most, by)
            nexts = ((counter, Binary("+", Name(counter), Const(by))),)
        self.depth += 1
        self.region(graph)
        self.depth -= 1
        nexts = (*nexts, *self.carried_on(carried, final_values(graph)))
        self.add(g.Assign(nexts) if nexts else g.Compute(), output_of(graph), "next")
        for point in self.b.open:
            self.b.edge(point, head)
        self.b.open = [test]
        self.last = -1
        if upper is not None:
            self.stop_turns(node, counter, upper)
        self.leave(around)
        self.counters, self.under = counters, under

    def know(self, symbol: str, most: int | None, by: int) -> None:
        """The values that a counter has in its loop, from 0 on; none are known of one that the trace sets itself."""
        self.counters.pop(symbol, None)
        if most is not None and not self.values.is_set(symbol):
            self.counters[symbol] = range(0, most, by)

    def carry(self, carried: list[Any], initial: list[Any]) -> Pairs:
        """Memory that a loop carries has a name of its own in it."""
        pairs: list[tuple[str, g.Where]] = []
        for each, init in zip(carried, initial, strict=False):
            view = self.view(init) if is_node(init) else None
            if view is not None and each not in self.views:
                name = self.memory.fresh(each.name)
                self.views[each] = View(name, view.array)
                pairs.append((name, view.place))
        return tuple(pairs)

    def take_turns(self, node: Any, counter: str) -> None:
        """Buffers that a loop carries in turn are slots of one buffer, by the number of the iteration."""
        for turn in self.values.turns[node]:
            starts = dict(zip(self.values.carried[node], initial_values(node), strict=False))
            views = [self.view(starts[each]) for each in turn]
            names = {view.name for view in views if view is not None}
            slots = [view.slot for view in views if view is not None]
            # Buffers that share bytes with others keep their own: none of them is a slot, and their turns are assigned.
            if len(names) > 1 or slots != [Const(number) for number in range(len(turn))]:
                continue
            for number, (each, view) in enumerate(zip(turn, views, strict=True)):
                if view is not None:
                    index = add(Name(counter), Const(number))
                    self.views[each] = replace(view, slot=Binary("mod", index, Const(len(turn))), turns=True)

    def stop_turns(self, node: Any, counter: str, upper: Index) -> None:
        """Behind a loop that runs a known number of times, each slot is known."""
        trips = constant(upper)
        for turn in self.values.turns[node] if trips is not None and trips >= 0 else ():
            for each in turn:
                view = self.views.get(each)
                if view is not None and view.turns:
                    slot = constant(substitute(view.slot, {counter: Const(trips or 0)}))
                    self.views[each] = replace(view, slot=Const(slot or 0))

    def carried_on(self, carried: list[Any], final: list[Any]) -> Pairs:
        pairs: list[tuple[str, g.Where]] = []
        for each, value in zip(carried, final, strict=False):
            own = self.views.get(each)
            view = self.view(value) if own is not None and is_node(value) else None
            if own is not None and view is None:
                self.unmodelled.append(Unclear(each, "the memory that its loop hands on is unknown"))
            elif own is not None and view is not None and not own.turns:
                pairs.append((own.name, view.place))
        return tuple(pairs)

    def trips(self, node: Any) -> Index | None:
        """How often a loop runs; None if nothing says so."""
        count = getattr(node, "count", None)
        if count is None:
            return None
        known = self.memory.numbers.constant(count)
        if known is not None:
            return Const(known)
        found = self.uniform.index(count)
        if found is not None:
            return found
        name = self.memory.fresh(f"{node.name}_count")
        self.free[name] = Value(name, INDEX)
        if self.depth:
            self.add(g.Havoc((name,), True), node)
        return Name(name)

    def free_loop(self, node: Any, counter: str, starts: Pairs) -> tuple[int, int]:
        """A loop that runs as long as a condition holds, or so often as each wave finds; its head and its test."""
        axis, goes_on = argument(node, 0), self.agreement.goes_on(node)
        agree = goes_on == "uniform"
        flag = self.memory.fresh(f"{node.name}_goes_on")
        names = (flag, counter) if agree else (counter,)
        if agree:
            self.free[flag] = Value(flag, FLAG)
        self.free[counter] = Value(counter, INDEX)
        self.add(g.Assign(starts) if starts else g.Compute(), node, "loop")
        head = self.add(g.Havoc(names, agree), node, "head", insertable=False)
        self.under = max(self.under, goes_on, key=g.VARIATIONS.index)
        test = self.add(g.Branch(Flag(flag) if agree else None), node, "trip", insertable=False)
        self.symbols[f"$ARG{axis}"] = counter
        self.know(f"$ARG{axis}", None, 1)  # the axis itself is what was set outside, until the body sets it
        return head, test

    def set_symbol(self, node: Any) -> None:
        """A symbol takes another value, which nobody knows; what has used it keeps the one before."""
        symbol = str(argument(node, 0))
        name = self.symbols[symbol] = self.memory.fresh(symbol.strip("$"))
        self.free[name] = Value(name, INDEX)
        agree = self.agreement.symbols[symbol] == UNIFORM
        self.add(g.Havoc((name,), agree), node)

    def leave(self, around: dict[str, str]) -> None:
        """Behind a region: a symbol that was set in it has no value that Wave could make code of."""
        self.symbols = {each: name for each, name in around.items() if self.symbols.get(each) == name}

    # --- conditionals ---

    def conditional(self, node: Any) -> None:
        condition, graph = argument(node, 0), self.graphs[region_of(node)]
        table = holds_by_wave(condition, self.memory.numbers, self.context)
        half = half_of(table) if table is not None else ""
        inside = [each for each in emitted(graph) if each.op not in ("placeholder", "output")]
        if half and inside and all(op_of(each) == "workgroup_barrier" for each in inside):
            for _ in inside:
                self.sync(ops.ConditionalBarrier(half), node)
            return
        cond, varies = self.condition(node, condition, table)
        if (
            cond is None and self.under != "uniform"
        ):  # inside a region of some waves a free choice is one of all of them
            flag = self.memory.fresh(f"{node.name}_taken")
            self.free[flag] = Value(flag, FLAG)
            self.add(g.Havoc((flag,), False), node, "conditional")
            cond = Flag(flag)
        branch = self.add(g.Branch(cond), node, "conditional")
        around, self.under = self.under, max(self.under, varies, key=g.VARIATIONS.index)
        symbols = dict(self.symbols)
        self.region(graph)
        self.leave(symbols)
        self.add(g.Compute(), output_of(graph), "arm")
        done, self.b.open = self.b.open, [branch]
        self.add(g.Compute(), node, "not", insertable=False)
        self.under = around
        self.b.open = [*done, *self.b.open]
        self.add(g.Compute(), node, "join", insertable=False)

    def condition(self, node: Any, condition: Any, table: list[bool] | None) -> tuple[Cond | None, str]:
        """The condition of a branch, and who agrees on it."""
        if table is not None:
            return (Truth(table[0]), "uniform") if len(set(table)) == 1 else (waves_where(table), "per_wave")
        varies = self.agreement.of(condition)
        if varies != "uniform":
            return None, varies
        if is_node(condition):
            found = compare_arguments(condition, self.named_arguments(), self.uniform)
        else:
            found = self.uniform.cond(condition)
        if found is not None:
            return found, "uniform"
        flag = self.memory.fresh(f"{node.name}_holds")
        self.free[flag] = Value(flag, FLAG)
        if self.depth:
            self.add(g.Havoc((flag,), True), node)
        return Flag(flag), "uniform"

    def named_arguments(self) -> dict[Any, str]:
        """Whole numbers that the kernel is launched with, each with its name in the graph."""
        for node in self.values.arguments:
            if str(getattr(node, "type", None)) in WHOLE and node not in self.named:
                self.named[node] = self.memory.fresh(node.name)
                self.free[self.named[node]] = Value(self.named[node], INDEX)
        return self.named
