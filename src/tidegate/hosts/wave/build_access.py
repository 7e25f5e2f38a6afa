"""Accesses of a trace as points.

Needs   nodes that touch memory, with the buffers that they may touch
Gives   accesses with footprints; other operations where it matters what they are
Keeps   what cannot be followed touches all of its buffer; what nobody has described reads and writes all that it can
        reach. Of a coarse graph a read is one of all waves of all of its buffer, and an access of parts is of these
Cost    constant for each node, plus one evaluation for each different index
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.graph import model as g
from tidegate.hosts.wave.arrays import Array, whole
from tidegate.hosts.wave.build_buffers import Buffers
from tidegate.hosts.wave.build_points import TraceFacts, TracePoints, Unclear
from tidegate.hosts.wave.build_symbols import SymbolNames
from tidegate.hosts.wave.merging import Merging
from tidegate.hosts.wave.nodes import PRODUCTS, SCHEDULING, argument, is_node, is_shared_type, op_of, outer, says_space
from tidegate.hosts.wave.values import Bases
from tidegate.index import WAVE, Const, Index, Name, add
from tidegate.language import ops

MOST_INSTRUCTIONS = 8  # that one access to shared memory becomes


class TraceAccesses:
    def __init__(self, facts: TraceFacts, points: TracePoints, buffers: Buffers, symbols: SymbolNames) -> None:
        self.facts, self.points, self.buffers, self.symbols = facts, points, buffers, symbols
        self.merging = Merging(points, buffers)

    def access(self, node: Any, op: str) -> None:
        touching = self.facts.values.touching[node]
        effect, is_async, bases = touching.effect, touching.is_async, touching.bases
        view = self.buffers.view(touching.memory) if bases else None
        if view is None:
            self.elsewhere(node, op, touching.memory, is_async)
            return
        action = g.Access(
            effect,
            self.footprint(node, effect, view.place, view.array, bases),
            is_async,
            operator=op.removeprefix("atomic_").removeprefix("scatter_") if effect == "atomic" else "",
            fetches=effect == "atomic" and bool(node.users),
            as_one=True,
            element=view.array.element if effect == "atomic" else "",
            lanes=self.lanes(node, view.array),
        )
        # LLVM may make one instruction of two neighbours, or two of one: of those that are no copies, none is certain.
        counter = self.facts.counters_of[op] if is_async else self.facts.lds
        certain = is_async and self.facts.target.operations[op].certain
        issues = (g.Issue(counter, int(certain), 1 if is_async else MOST_INSTRUCTIONS),) if counter else ()
        if self.facts.coarse and self.merging.taken_in(node, bases, action, issues):
            return
        role = "copy" if is_async else "local_read" if effect == "read" else "local_write"
        uses = () if self.facts.coarse else self.points.uses(node)
        number = self.points.add(action, node, role=role, issues=issues, uses=uses)
        self.merging.bases_at[number] = bases

    def lanes(self, node: Any, array: Array) -> str:
        """Which lane touches which byte, where the index says which bytes these are."""
        return self.facts.memory.lanes(node, array, self.symbols.places, by_parts=self.facts.coarse)

    def footprint(self, node: Any, effect: str, place: g.Ref, array: Array, bases: Bases) -> g.Footprint:
        if self.facts.coarse and not bases & self.buffers.private and not bases & self.buffers.shared:
            count = self.buffers.parts.counts.get(next(iter(bases)))
            if count is not None:
                return self.part(node, place, count)
            if effect == "read":
                return whole(array, place)
        if self.facts.values.touching[node].is_async and self.points.under == "divergent":
            self.points.widened.append(
                Unclear(node, "it lands where the first active lane says, which may be any lane")
            )
            return whole(array, place, may=True)
        places = self.symbols.places
        if not self.facts.memory.is_exact(node, array, places):
            self.points.widened.append(Unclear(node, "its index cannot be followed: it may touch all of its buffer"))
        return self.facts.memory.footprint(node, array, place, places)

    def part(self, node: Any, place: g.Ref, count: int) -> g.Footprint:
        """Some parts of a buffer; a read without any touches all of them."""
        waves = self.facts.context.waves if self.facts.by_wave else 1
        first, many = self.buffers.parts.spans.get(node, (0, count))
        offset: Index = Const(first * waves)
        if self.facts.by_wave and node in self.buffers.parts.owned:
            return g.Footprint(replace(place, offset=add(offset, Name(WAVE))), (), 1)
        return g.Footprint(replace(place, offset=offset), (), many * waves)

    def elsewhere(self, node: Any, op: str, memory: Any, is_async: bool) -> None:
        """Memory that is no allocation of the trace: a kernel's arguments are not shared."""
        found = outer(memory) if is_node(memory) else None
        if is_async or found is None or not self.is_argument(found):
            self.points.unknown(node, "the memory that it touches is unknown")
        elif self.facts.coarse:
            self.other(node, op)
        else:
            role = "global_read" if op == "read" else "global_write"
            counter = self.facts.target.counter_of(role)
            # LLVM may split it, drop it or move it to the other side of a wait: none of them is certain.
            issues = (g.Issue(counter, 0, 1),) if counter else ()
            self.points.add(g.Compute(), node, role=role, issues=issues, uses=self.points.uses(node))

    def is_argument(self, found: Any) -> bool:
        """Whether a value is memory that the kernel is launched with. What a region is handed may be any memory, unless
        its type says that it is not shared."""
        if op_of(found) != "placeholder" or hasattr(found, "iter_idx") or is_shared_type(found):
            return False
        return found in self.facts.values.arguments or says_space(found)

    def anything(self, node: Any) -> None:
        """Nobody has described it: it reads and writes all that it can reach, all waves together."""
        self.points.unclear.append(Unclear(node, "its effect on shared memory is unknown"))
        views = [self.buffers.view(each) for each in node.all_input_nodes if self.facts.values.bases_of(each)]
        for view in views:
            if view is not None:
                foot = whole(view.array, view.place, may=True)
                self.points.add(g.Access("write", foot, as_one=True), node, role="local_write")
        if not views or None in views:
            self.points.add(g.Unknown(()), node)
        self.points.stretch_from = len(self.points.b.points)

    def other(self, node: Any, op: str) -> None:
        """Touches no shared memory. Neighbours are one point, unless it matters what they are."""
        if not self.facts.coarse and op == "set_wave_prio":
            self.points.sync(ops.SetWavePrio(int(argument(node, 0, 0))), node)
        elif not self.facts.coarse and op == "scheduling_barrier":
            self.points.sync(ops.SchedulingBarrier(), node)
        elif not self.facts.coarse and op in (*PRODUCTS, *SCHEDULING):
            self.points.add(g.Compute(), node, role="mma" if op in PRODUCTS else "other", uses=self.points.uses(node))
        elif self.facts.coarse and not self.facts.target.barrier.split:
            pass  # only a signal gains by standing before it
        elif self.points.last < 0 or not isinstance(self.points.b.points[self.points.last].action, g.Compute):
            self.points.last = self.points.add(g.Compute(), node, "compute")
        else:
            self.points.of[node] = self.points.last
