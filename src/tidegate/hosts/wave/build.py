"""A Wave trace as a `SyncGraph`.

Needs   a `CapturedTrace` as it stands before or after Wave's barrier pass, its context, and a target
Gives   the graph; for every point the node before which an insertion there goes; what could not be understood
Keeps   what nobody has described and what takes shared memory reads and writes all of it, and is reported; an operation
        that all waves carry out together does not conflict with itself; conditions that nobody can follow may go
        either way, each time
Cost    linear in the nodes, plus one evaluation for each different index

    read(%a) read(%a) mma mma write(%b)       read %a[...]; compute; write %b[...]

`coarse`: to place barriers that all waves meet at, it is enough to know which buffers waves exchange something through,
and which writes have bytes in common (`parts`): a read counts as one of all waves of all of its buffer, and neighbours
that need no order among them are one point (`merging`). `by_wave`: a wave's own part of a part stays its own, which
costs more to ask about. Nothing is ever proved of a coarse graph: barriers that were placed with it are read back from
the trace, access by access and byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from tidegate.graph import model as g
from tidegate.hosts.wave.arrays import Array, View, misplaced, share_bytes, whole
from tidegate.hosts.wave.build_state import Unclear
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.merging import Merging
from tidegate.hosts.wave.nodes import (
    ACCESSES,
    PASSES_MEMORY,
    PRODUCTS,
    SCHEDULING,
    SYNCHRONIZATION,
    argument,
    is_node,
    is_shared_type,
    op_of,
    outer,
    says_space,
)
from tidegate.hosts.wave.parts import find_parts
from tidegate.hosts.wave.private import find_private
from tidegate.hosts.wave.regions import find_unread, initial_values, output_of
from tidegate.hosts.wave.twins import Twins
from tidegate.hosts.wave.values import Bases
from tidegate.index import WAVE, Const, Index, Name, add
from tidegate.language import ops
from tidegate.targets import Target

__all__ = ["Built", "Unclear", "build"]
MOST_INSTRUCTIONS = 8  # that one access to shared memory becomes


@dataclass(frozen=True)
class Built:
    """A graph, where its points come from, and what could not be understood."""

    graph: g.SyncGraph
    nodes: tuple[Any, ...]  # point → its node; an insertion before the point goes before it
    unclear: tuple[Unclear, ...]
    widened: tuple[Unclear, ...] = ()  # accesses that are taken for ones to a whole buffer
    unmodelled: tuple[Unclear, ...] = ()  # what the graph leaves out: nothing is proved of the trace


def build(
    trace: Any, context: Context, target: Target, *, name: str = "kernel", coarse: bool = False, by_wave: bool = False
) -> Built:
    """The graph of a trace."""
    return _Builder(trace, context, target, name, coarse, by_wave).built()


class _Builder(Merging):
    def built(self) -> Built:
        self.allocations()
        self.unmodelled += [Unclear(node, why) for node, why in find_unread(self.values)]
        root = self.graphs[self.trace.root_graph]
        self.region(root)
        if self.b.open or not self.b.points:
            self.add(g.End(), output_of(root), "end")
        said = (tuple(each) for each in (self.nodes, self.unclear, self.widened, self.unmodelled))
        return Built(self.b.finish(), *said)

    def allocations(self) -> None:
        """Every allocation is a buffer, but not the one that holds the others; those used in turn are slots of one."""
        arrays = {node: self.memory.array(node) for node in self.values.allocations}
        self.unmodelled += [Unclear(node, why) for node, array in arrays.items() if (why := misplaced(array, arrays))]
        parents = {array.root for array in arrays.values() if array.offset is not None}
        arrays = {node: array for node, array in arrays.items() if node not in parents}
        pairs = [pair for pair in combinations(arrays, 2) if share_bytes(*(arrays[each] for each in pair))]
        self.shared = frozenset(node for pair in pairs for node in pair)
        if self.coarse:
            self.private = find_private(self.values, self.memory, self.shared)
            self.parts = find_parts(self.values, self.memory, self.shared | self.private)
            if self.by_wave:
                self.parts.find_owned(self.memory)
        turns = self.in_turn(arrays)
        shares: dict[Any, Any] = {}
        if self.coarse:
            twins = Twins(self.values, self.parts, turns)
            shares, self.merging = twins.shares, frozenset(twins.merging)
        for node, array in arrays.items():
            partner = shares.get(node, node)
            first, slot = turns.get(partner, (partner, 0))
            self.views[node] = View(arrays[first].name, array, Const(slot))
        # An access is taken to stay in its buffer: where buffers lie matters only if they share bytes.
        slots: dict[Any, int] = {}
        for node, (first, _) in turns.items():
            slots[first] = slots.get(first, 0) + (node in arrays)
        self.b.parts["buffers"] = [
            g.Buffer(
                array.name,
                self.size_of(node, array),
                slots.get(node, 1),
                array.offset if node in self.shared else None,
            )
            for node, array in arrays.items()
            if shares.get(node, node) is node and turns.get(node, (node, 0))[0] is node
        ]

    def in_turn(self, arrays: dict[Any, Array]) -> dict[Any, tuple[Any, int]]:
        """For allocations that a loop uses in turn, and for what it carries: the first of them, and their place."""
        found: dict[Any, tuple[Any, int]] = {}
        for loop, turns in self.values.turns.items():
            starts = dict(zip(self.values.carried[loop], initial_values(loop), strict=False))
            for turn in turns:
                own = [self.values.source(starts[each]) for each in turn]
                if self.shared.isdisjoint(own) and all(arrays[each].bytes == arrays[own[0]].bytes for each in own):
                    found |= {node: (own[0], slot) for slot, node in enumerate(own)}
                    found |= {node: (own[0], slot) for slot, node in enumerate(turn)}
        return found

    def size_of(self, node: Any, array: Array) -> int:
        """Bytes of a buffer, or the parts that stand for them."""
        count = self.parts.counts.get(node)
        return array.bytes if count is None else count * (self.context.waves if self.by_wave else 1)

    def operation(self, node: Any) -> None:
        op = self.values.ops[node]
        if op in ACCESSES:
            self.access(node, op)
        elif op == "iterate":
            self.loop(node)
        elif op == "conditional":
            self.conditional(node)
        elif op in SYNCHRONIZATION:
            self.synchronization(node, op)
        elif op in PASSES_MEMORY:
            pass
        elif op == "set_symbol":
            self.set_symbol(node)
        elif self.values.takes_memory(node):
            self.anything(node)
        elif any(isinstance(each, str) and each in self.graphs for each in node.args):
            self.unclear.append(Unclear(node, "it is unknown when its region runs"))
            self.add(g.Unknown(()), node)
        else:
            self.other(node, op)

    def other(self, node: Any, op: str) -> None:
        """Touches no shared memory. Neighbours are one point, unless it matters what they are."""
        if not self.coarse and op == "set_wave_prio":
            self.sync(ops.SetWavePrio(int(argument(node, 0, 0))), node)
        elif not self.coarse and op == "scheduling_barrier":
            self.sync(ops.SchedulingBarrier(), node)
        elif not self.coarse and op in (*PRODUCTS, *SCHEDULING):
            self.add(g.Compute(), node, role="mma" if op in PRODUCTS else "other", uses=self.uses(node))
        elif self.coarse and not self.target.barrier.split:
            pass  # only a signal gains by standing before it
        elif self.last < 0 or not isinstance(self.b.points[self.last].action, g.Compute):
            self.last = self.add(g.Compute(), node, "compute")
        else:
            self.points[node] = self.last

    # --- memory ---

    def access(self, node: Any, op: str) -> None:
        touching = self.values.touching[node]
        effect, is_async, bases = touching.effect, touching.is_async, touching.bases
        view = self.view(touching.memory) if bases else None
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
        counter = self.counters_of[op] if is_async else self.lds
        certain = is_async and self.target.operations[op].certain
        issues = (g.Issue(counter, int(certain), 1 if is_async else MOST_INSTRUCTIONS),) if counter else ()
        if self.coarse and self.taken_in(node, bases, action, issues):
            return
        role = "copy" if is_async else "local_read" if effect == "read" else "local_write"
        number = self.add(action, node, role=role, issues=issues, uses=() if self.coarse else self.uses(node))
        self.bases_at[number] = bases

    def lanes(self, node: Any, array: Array) -> str:
        """Which lane touches which byte, where the index says which bytes these are."""
        return self.memory.lanes(node, array, self.places, by_parts=self.coarse)

    def footprint(self, node: Any, effect: str, place: g.Ref, array: Array, bases: Bases) -> g.Footprint:
        if self.coarse and not bases & self.private and not bases & self.shared:
            count = self.parts.counts.get(next(iter(bases)))
            if count is not None:
                return self.part(node, place, count)
            if effect == "read":
                return whole(array, place)
        if self.values.touching[node].is_async and self.under == "divergent":
            self.widened.append(Unclear(node, "it lands where the first active lane says, which may be any lane"))
            return whole(array, place, may=True)
        places = self.places
        if not self.memory.is_exact(node, array, places):
            self.widened.append(Unclear(node, "its index cannot be followed: it may touch all of its buffer"))
        return self.memory.footprint(node, array, place, places)

    def part(self, node: Any, place: g.Ref, count: int) -> g.Footprint:
        """Some parts of a buffer; a read without any touches all of them."""
        waves = self.context.waves if self.by_wave else 1
        first, many = self.parts.spans.get(node, (0, count))
        offset: Index = Const(first * waves)
        if self.by_wave and node in self.parts.owned:
            return g.Footprint(replace(place, offset=add(offset, Name(WAVE))), (), 1)
        return g.Footprint(replace(place, offset=offset), (), many * waves)

    def elsewhere(self, node: Any, op: str, memory: Any, is_async: bool) -> None:
        """Memory that is no allocation of the trace: a kernel's arguments are not shared."""
        found = outer(memory) if is_node(memory) else None
        if is_async or found is None or not self.is_argument(found):
            self.unclear.append(Unclear(node, "the memory that it touches is unknown"))
            self.add(g.Unknown(()), node)
        elif self.coarse:
            self.other(node, op)
        else:
            role = "global_read" if op == "read" else "global_write"
            counter = self.target.counter_of(role)
            # LLVM may split it, drop it or move it to the other side of a wait: none of them is certain.
            issues = (g.Issue(counter, 0, 1),) if counter else ()
            self.add(g.Compute(), node, role=role, issues=issues, uses=self.uses(node))

    def is_argument(self, found: Any) -> bool:
        """Whether a value is memory that the kernel is launched with. What a region is handed may be any memory, unless
        its type says that it is not shared."""
        if op_of(found) != "placeholder" or hasattr(found, "iter_idx") or is_shared_type(found):
            return False
        return found in self.values.arguments or says_space(found)

    def anything(self, node: Any) -> None:
        """Nobody has described it: it reads and writes all that it can reach, all waves together."""
        self.unclear.append(Unclear(node, "its effect on shared memory is unknown"))
        views = [self.view(each) for each in node.all_input_nodes if self.values.bases_of(each)]
        for view in views:
            if view is not None:
                foot = whole(view.array, view.place, may=True)
                self.add(g.Access("write", foot, as_one=True), node, role="local_write")
        if not views or None in views:
            self.add(g.Unknown(()), node)
        self.stretch_from = len(self.b.points)
