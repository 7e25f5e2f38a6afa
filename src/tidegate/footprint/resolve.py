"""The bytes that every access touches, as quasi-affine expressions where that can be said.

Needs   a flow
Gives   `Footprints`: for each access its places, its extents and what holds there, over canonical names; notes
Keeps   every byte that a wave can touch is in its footprint; what cannot be computed is the whole buffer, and noted
Cost    near-linear in the nodes: one walk, then one look at each access

    write %a[%s] + wave * 64      in loop 2, where %s goes 0, 1, 2, 0, ...
    becomes %a + #2 mod 3 * 1024 + wave * 64
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.collecting import no_collecting
from tidegate.footprint.model import CarriedNumber, Footprints, Note, ObjectUse, Pieces, Shape, Span, Touch
from tidegate.footprint.solve import Solver
from tidegate.footprint.values import View
from tidegate.footprint.walk import Facts, Raw, Walk
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.index import TRUE, Cond, Const, Index

__all__ = ["Footprints", "find_footprints"]


def find_footprints(flow: Flow) -> Footprints:
    """What each access touches."""
    with no_collecting():
        walk = Walk(flow)
        solver = Solver(walk)
        walk.run()
        return _Finish(walk, solver).footprints()


class _Finish:
    """Closes what the walk found."""

    def __init__(self, walk: Walk, solver: Solver) -> None:
        self.walk, self.solver, self.flow = walk, solver, walk.flow
        self.facts: dict[int, tuple[Cond, ...]] = {}  # by identity
        self.shapes: dict[tuple[int, tuple[Index | None, ...]], tuple[View, tuple[Index | None, ...]]] = {}
        self.kept: list[View] = []  # so that no other view comes to have the identity of one of them
        self.notes: dict[Note, None] = {}
        self.classes: dict[object, int] = {}
        self.numbers: dict[int, int] = {}  # by identity
        self.equal: dict[object, int] = {}
        self.pieces: dict[tuple[str, int, bool], tuple[int, int, Pieces]] = {}

    def footprints(self) -> Footprints:
        touches = {node: self.touch(node, raw) for node, raw in sorted(self.walk.raw.items())}
        loops = range(len(self.flow.loops))
        trips = tuple(self.runs(loop, self.solver.trips) for loop in loops)
        counted = tuple(self.runs(loop, self.solver.counted) for loop in loops)
        branches = {node: tuple(map(self.solver.close_cond, conds)) for node, conds in self.walk.conds.items()}
        self.settle()
        classes = {node: self.class_of(node, touch) for node, touch in touches.items()}
        return Footprints(
            self.flow,
            touches,
            classes,
            self.walk.book.opaques,
            trips,
            counted,
            self.ends_at_head(),
            branches,
            tuple(self.notes),
            frozenset(self.walk.parting),
            {node: self.use(each) for node, each in self.walk.uses.items()},
            {name: self.carried(each) for name, each in self.solver.counters.carried.items()},
        )

    def carried(self, each: CarriedNumber) -> CarriedNumber:
        return replace(each, start=self.solver.close_index(each.start), step=self.solver.close_index(each.step))

    def use(self, use: ObjectUse) -> ObjectUse:
        slot = self.solver.close_index(use.slot)
        return replace(use, slot=slot, parity=None if use.parity is None else self.solver.close_index(use.parity))

    def runs(self, loop: int, trips: Callable[[int], Index | None]) -> Index | None:
        """How often a loop runs, over canonical names."""
        if loop not in self.walk.started or self.flow.loops[loop].facts is None:
            return None
        found = trips(loop)
        if found is None:
            return None
        closed = self.solver.close(found)
        return None if isinstance(closed, tuple) else closed

    def ends_at_head(self) -> frozenset[int]:
        flow, chains = self.flow, self.walk.chains
        found = {number for number, loop in enumerate(flow.loops) if loop.reducible}
        for node, loop in enumerate(flow.loop_of):
            for each in flow.successors[node]:
                if flow.loop_of[each] != loop:
                    there = chains[flow.loop_of[each]]
                    found -= {left for left in chains[loop] if left not in there and flow.loops[left].head != node}
        return frozenset(found)

    def settle(self) -> None:
        """Heads of loops are registered with what they depend on, so that agreement can be decided."""
        book = self.walk.book
        work = [name for used in book.depends.values() for name in used]
        while work:
            name = work.pop()
            if name not in self.walk.heads or name in book.depends:
                continue
            parts = [each for each in (self.solver.start(name), self.solver.next(name)) if each is not None]
            book.depends[name] = {each for part in parts for each in self.solver.mentioned(part)}
            work.extend(book.depends[name])
        book.settle()

    def touch(self, node: int, raw: Raw) -> Touch:
        action = self.flow.action(node)
        view, limits = self.closed(raw)
        loops = self.walk.chains[self.flow.loop_of[node]]
        facts = self.facts_of(raw.facts)
        reason = raw.reason or ("" if all(spot.start is not None for spot in view) else "its place cannot be computed")
        if reason:
            reached = ", ".join(dict.fromkeys(spot.buffer for spot in view if spot.start is None)) or "nothing"
            self.notes[Note(node, f"{reason}: treated as all of {reached}")] = None
        if not isinstance(action, g.Access):
            return Touch(node, "unknown", Shape(view, (), 0), True, False, facts, loops)
        foot = action.footprint
        spans = tuple(Span(each.count, each.stride, limit) for each, limit in zip(foot.extents, limits, strict=True))
        lost = any(old.limit is not None and new is None for old, new in zip(foot.extents, limits, strict=True))
        may = foot.may or lost or bool(reason)
        width, pieces = foot.width, None
        if foot.threads:
            low, width, pieces = self.by_thread(action)
            view = self.walk.book.moved(view, Const(low))
        shape = Shape(view, spans, width)
        lanes = (action.lanes, action.lanes_from, pieces)
        return Touch(node, action.effect, shape, may, not reason, facts, loops, action.is_async, *lanes)

    def by_thread(self, access: g.Access) -> tuple[int, int, Pieces]:
        """Where the first thread starts, how many bytes all of them cover, and those of each."""
        foot, graph = access.footprint, self.flow.graph
        key = (foot.threads, foot.width, access.collective)
        if key not in self.pieces:
            map_ = next(each for each in graph.maps if each.name == foot.threads)
            used = [each for each in map_.starts if each is not None]
            low, high = (min(used), max(used) + foot.width) if used else (0, 0)
            starts = tuple(None if each is None else each - low for each in map_.starts)
            self.pieces[key] = (low, high - low, Pieces(starts, foot.width, graph.lanes, access.collective))
        return self.pieces[key]

    def closed(self, raw: Raw) -> tuple[View, tuple[Index | None, ...]]:
        key = (id(raw.view), raw.limits)
        if key not in self.shapes:
            view = self.solver.close(raw.view)
            assert isinstance(view, tuple)
            limits = tuple(self.limit(each) for each in raw.limits)
            self.shapes[key] = (self.walk.sharp(view), limits)
            self.kept.append(raw.view)
        return self.shapes[key]

    def limit(self, limit: Index | None) -> Index | None:
        """A limit that differs inside a wave limits nothing that can be told."""
        if limit is None:
            return None
        closed = self.solver.close(limit)
        assert not isinstance(closed, tuple)
        return None if self.walk.book.is_differing(closed) else closed

    def facts_of(self, facts: Facts | None) -> tuple[Cond, ...]:
        chain: list[Facts] = []
        while facts is not None and id(facts) not in self.facts:
            chain.append(facts)
            facts = facts.before
        found = self.facts[id(facts)] if facts is not None else ()
        for each in reversed(chain):
            cond = self.solver.close_cond(each.cond)
            if cond != TRUE and cond not in found and not self.walk.book.is_differing(cond):
                found = (*found, cond)
            self.facts[id(each)] = found
        return found

    def class_of(self, node: int, touch: Touch) -> int:
        shape = touch.shape
        place, facts = self.number(shape.places), self.number(touch.facts)
        bytes_ = (place, shape.extents, shape.width, touch.may, touch.exact)
        pieces = id(touch.pieces) if touch.pieces is not None else 0  # one object for each map and width
        key = (*bytes_, self.flow.loop_of[node], facts, touch.is_async, touch.lanes, touch.lanes_from, pieces)
        return self.classes.setdefault(key, len(self.classes))

    def number(self, value: View | tuple[Cond, ...]) -> int:
        """Equal for equal values. Most are the same objects, and comparing trees takes long."""
        known = self.numbers.get(id(value))
        if known is None:
            known = self.numbers[id(value)] = self.equal.setdefault(value, len(self.equal))
        return known
