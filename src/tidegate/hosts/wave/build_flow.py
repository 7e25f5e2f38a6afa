"""Loops and conditionals of a trace as edges between points.

Needs   `Iterate` and `Conditional` nodes with their graphs
Gives   points in program order, with what is known of loops
Keeps   memory that a loop carries has a name of its own, which is assigned where the loop starts and where its body
        ends; a loop that runs while a condition holds runs any number of times; what stands before `set_symbol` in a
        loop never sees the last iteration
Cost    linear in the nodes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidegate.graph import model as g
from tidegate.hosts.wave.agreement import UNIFORM
from tidegate.hosts.wave.arrays import View
from tidegate.hosts.wave.build_buffers import Buffers
from tidegate.hosts.wave.build_points import TraceFacts, TracePoints, Unclear
from tidegate.hosts.wave.build_symbols import SymbolNames
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

Pairs = tuple[tuple[str, Index | g.Where | g.Token], ...]


class Flow:
    """`build`: adds the points of one node, whatever it is."""

    def __init__(
        self,
        facts: TraceFacts,
        points: TracePoints,
        buffers: Buffers,
        symbols: SymbolNames,
        build: Callable[[Any], None],
    ) -> None:
        self.facts, self.points, self.buffers, self.symbols, self.build = facts, points, buffers, symbols, build
        self.b, self.values, self.memory, self.views = points.b, facts.values, facts.memory, buffers.views
        self.depth = 0  # loops around
        self.arguments: dict[Any, str] = {}  # numbers that the kernel is launched with → their names

    def region(self, graph: Any) -> None:
        for node in emitted(graph):
            self.build(node)

    # --- loops ---

    def loop(self, node: Any) -> None:
        axis, step, start = argument(node, 0), argument(node, 4, 1), start_of(node)
        carried, graph = self.values.carried[node], self.facts.graphs[region_of(node)]
        under = self.points.under
        by = self.memory.numbers.constant(step) or 0
        agree = self.facts.agreement.goes_on(node) == "uniform"
        upper = self.trips(node) if start is None and by > 0 and agree else None
        counter = self.memory.fresh(str(axis).strip("$"))
        if upper is not None and by == 1:
            self.take_turns(node, counter)
        starts = self.carry(carried, initial_values(node))
        if upper is None:
            head, test = self.free_loop(node, counter, starts)
            nexts: Pairs = ()
        else:
            self.points.add(g.Assign(((counter, ZERO), *starts)), node, "loop")
            head = test = self.points.add(g.Branch(Compare("<", Name(counter), upper)), node, "trip", insertable=False)
            self.b.count(head, counter, ZERO, upper, by)
            nexts = ((counter, Binary("+", Name(counter), Const(by))),)
        self.depth += 1
        with self.symbols.in_region():
            self.symbols.count(f"$ARG{axis}", counter, None if upper is None else constant(upper), by)
            self.region(graph)
        self.depth -= 1
        nexts = (*nexts, *self.carried_on(carried, final_values(graph)))
        self.points.add(g.Assign(nexts) if nexts else g.Compute(), output_of(graph), "next")
        self.b.go_round(head, test)
        self.points.last = -1
        if upper is not None:
            self.stop_turns(node, counter, upper)
        self.points.under = under

    def carry(self, carried: list[Any], initial: list[Any]) -> Pairs:
        """Memory that a loop carries has a name of its own in it."""
        pairs: list[tuple[str, g.Where]] = []
        for each, init in zip(carried, initial, strict=False):
            view = self.buffers.view(init) if is_node(init) else None
            if view is not None and each not in self.views:
                name = self.memory.fresh(each.name)
                self.views[each] = View(name, view.array)
                pairs.append((name, view.place))
        return tuple(pairs)

    def take_turns(self, node: Any, counter: str) -> None:
        """Buffers that a loop carries in turn are slots of one buffer, by the number of the iteration."""
        for turn in self.values.turns[node]:
            starts = dict(zip(self.values.carried[node], initial_values(node), strict=False))
            views = [self.buffers.view(starts[each]) for each in turn]
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
            view = self.buffers.view(value) if own is not None and is_node(value) else None
            if own is not None and view is None:
                self.points.unmodelled.append(Unclear(each, "the memory that its loop hands on is unknown"))
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
        found = self.symbols.uniform.index(count)
        if found is not None:
            return found
        name = self.memory.fresh(f"{node.name}_count")
        self.b.scalar(name)
        if self.depth:
            self.points.add(g.Havoc((name,), True), node)
        return Name(name)

    def free_loop(self, node: Any, counter: str, starts: Pairs) -> tuple[int, int]:
        """A loop that runs as long as a condition holds, or so often as each wave finds; its head and its test."""
        goes_on = self.facts.agreement.goes_on(node)
        agree = goes_on == "uniform"
        flag = self.memory.fresh(f"{node.name}_goes_on")
        names = (flag, counter) if agree else (counter,)
        if agree:
            self.b.flag(flag)
        self.b.scalar(counter)
        self.points.add(g.Assign(starts) if starts else g.Compute(), node, "loop")
        head = self.points.add(g.Havoc(names, agree), node, "head", insertable=False)
        self.points.under = max(self.points.under, goes_on, key=g.VARIATIONS.index)
        test = self.points.add(g.Branch(Flag(flag) if agree else None), node, "trip", insertable=False)
        return head, test

    def set_symbol(self, node: Any) -> None:
        """A symbol takes another value, which nobody knows; what has used it keeps the one before."""
        symbol = str(argument(node, 0))
        name = self.b.scalar(self.symbols.set(symbol)).name
        self.points.add(g.Havoc((name,), self.facts.agreement.symbols[symbol] == UNIFORM), node)

    # --- conditionals ---

    def conditional(self, node: Any) -> None:
        condition, graph = argument(node, 0), self.facts.graphs[region_of(node)]
        table = holds_by_wave(condition, self.memory.numbers, self.facts.context)
        half = half_of(table) if table is not None else ""
        inside = [each for each in emitted(graph) if each.op not in ("placeholder", "output")]
        if half and inside and all(op_of(each) == "workgroup_barrier" for each in inside):
            for _ in inside:
                self.points.sync(ops.ConditionalBarrier(half), node)
            return
        cond, varies = self.condition(node, condition, table)
        if cond is None and self.points.under != "uniform":
            # Inside a region of some waves, a free choice is one of all of them.
            flag = self.memory.fresh(f"{node.name}_taken")
            self.b.flag(flag)
            self.points.add(g.Havoc((flag,), False), node, "conditional")
            cond = Flag(flag)
        branch = self.points.add(g.Branch(cond), node, "conditional")
        around, self.points.under = self.points.under, max(self.points.under, varies, key=g.VARIATIONS.index)
        with self.symbols.in_region():
            self.region(graph)
        self.points.add(g.Compute(), output_of(graph), "arm")
        with self.b.other_way(branch):
            self.points.add(g.Compute(), node, "not", insertable=False)
        self.points.under = around
        self.points.add(g.Compute(), node, "join", insertable=False)

    def condition(self, node: Any, condition: Any, table: list[bool] | None) -> tuple[Cond | None, str]:
        """The condition of a branch, and who agrees on it."""
        if table is not None:
            return (Truth(table[0]), "uniform") if len(set(table)) == 1 else (waves_where(table), "per_wave")
        varies = self.facts.agreement.of(condition)
        if varies != "uniform":
            return None, varies
        if is_node(condition):
            found = compare_arguments(condition, self.named_arguments(), self.symbols.uniform)
        else:
            found = self.symbols.uniform.cond(condition)
        if found is not None:
            return found, "uniform"
        flag = self.memory.fresh(f"{node.name}_holds")
        self.b.flag(flag)
        if self.depth:
            self.points.add(g.Havoc((flag,), True), node)
        return Flag(flag), "uniform"

    def named_arguments(self) -> dict[Any, str]:
        """Whole numbers that the kernel is launched with, each with its name in the graph."""
        for node in self.values.arguments:
            if str(getattr(node, "type", None)) in WHOLE and node not in self.arguments:
                self.arguments[node] = self.b.scalar(self.memory.fresh(node.name)).name
        return self.arguments
