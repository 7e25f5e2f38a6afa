"""Rules of `tidegate sync`, each of which can be switched off: what the fuzz has to notice.

Needs   the stages as they are; nothing in them knows of this
Gives   `RULES`: by name what a rule says, and how it is switched off by a patch
Keeps   a patch ends with its context
Cost    none

    with pytest.MonkeyPatch.context() as patch:
        RULES["write after write"].off(patch)
        ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from tidegate.footprint import boxes, conflicts, forms, questions
from tidegate.footprint.conflicts import Conflicts
from tidegate.footprint.solve import Solver
from tidegate.footprint.values import Book
from tidegate.footprint.walk import Walk as Names
from tidegate.graph import flow as flows
from tidegate.graph import model as g
from tidegate.graph.plan import Change, Delete, Plan
from tidegate.hazards import find, regions
from tidegate.hazards.facts import PairFacts
from tidegate.hazards.model import Kind
from tidegate.index import ZERO
from tidegate.language.ops import WorkgroupBarrier
from tidegate.placement import drains, edits, nests, place, redundant, walks
from tidegate.synchronize import stages

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds, how it is switched off, and what has to be asked of `sync` for it to matter."""

    says: str
    off: Callable[[Patch], None]
    options: tuple[tuple[str, object], ...] = ()


RULES: dict[str, Rule] = {}


Off = Callable[[Patch], None]


def _without_a_net(off: Off, patch: Patch) -> None:
    """Switches a rule off; nor is the exact search asked where the plan that comes of it fails."""
    patch.setattr(stages, "_by_optimum", lambda found, target, asked, placed: placed)
    patch.setattr(conflicts, "_MET", {})  # what is found now is not to be remembered
    off(patch)


def rules_into(rules: dict[str, Rule]) -> Callable[..., Callable[[Off], Off]]:
    """What stands above a function that switches a rule off, and keeps it under its name."""

    def rule(name: str, says: str, **options: object) -> Callable[[Off], Off]:
        def keep(off: Off) -> Off:
            rules[name] = Rule(says, partial(_without_a_net, off), tuple(options.items()))
            return off

        return keep

    return rule


rule = rules_into(RULES)


def changed(patch: Patch, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    patch.setattr(owner, name, make(getattr(owner, name)))


# --- hazards ------------------------------------------------------------------------------------------------------


def _no(kind: Kind) -> Callable[[Patch], None]:
    def off(patch: Patch) -> None:
        def without(old: Any) -> Any:
            def found(self: PairFacts, first: int, second: int) -> Kind | None:
                known = old(self, first, second)
                return None if known is kind else known

            return found

        changed(patch, PairFacts, "kind", without)

    return off


rule("write after write", "two writes need order")(_no(Kind.WAW))
rule("write after read", "a write after a read needs order")(_no(Kind.WAR))
rule("read after write", "a read after a write needs order")(_no(Kind.RAW))


@rule("cross-iteration", "an access meets those of later iterations")
def _cross_iteration(patch: Patch) -> None:
    patch.setattr(Conflicts, "carried", lambda self, x, y, loop: ())


@rule("nested loop", "hazards are carried by loops around loops, too")
def _nested_loop(patch: Patch) -> None:
    def innermost(old: Any) -> Any:
        def carried(self: Conflicts, x: int, y: int, loop: int) -> Any:
            inner = any(each.parent == loop for each in self.flow.loops)
            return () if inner else old(self, x, y, loop)

        return carried

    changed(patch, Conflicts, "carried", innermost)


@rule("distance", "a hazard is as near as its nearest meeting")
def _distance(patch: Patch) -> None:
    def later(old: Any) -> Any:
        def carried(self: Conflicts, x: int, y: int, loop: int) -> Any:
            return tuple(replace(each, distance=each.distance + 1) for each in old(self, x, y, loop))

        return carried

    changed(patch, Conflicts, "carried", later)


@rule("rounds", "a consumer in a loop of its own may be met in the first iteration")
def _rounds(patch: Patch) -> None:
    def more(old: Any) -> Any:
        def found(self: find._Finder, *args: Any) -> Any:
            for each in old(self, *args):
                alone = [loop for loop in self.flow.loops_around(each.consumer) if loop != each.loop]
                around = self.flow.loops_around(each.producer)
                yield replace(each, rounds=tuple((loop, 1) for loop in alone if loop not in around))

        return found

    changed(patch, find._Finder, "from_meetings", more)


@rule("within a wave", "two lanes of a wave, and a copy and an access of the same wave, need something between them")
def _within_a_wave(patch: Patch) -> None:
    def across(old: Any) -> Any:
        def found(self: Any, first: int, second: int, loop: int, met: Any) -> Any:
            return (each for each in old(self, first, second, loop, met) if each.demand)

        return found

    changed(patch, find._Finder, "from_meetings", across)


@rule("atomics keep their order", "atomics of which one is read, or of two operators, need order")
def _atomics(patch: Patch) -> None:
    def commute(self: PairFacts, first: int, second: int) -> bool:
        return True

    patch.setattr(PairFacts, "commute", commute)


@rule("stagger", "a half that is held back asks for as many barriers more")
def _stagger(patch: Patch) -> None:
    patch.setattr(PairFacts, "demand", lambda self, pairs, second: int(bool(pairs & find.ACROSS)))


@rule("unknown operations", "an operation without a description may write all that it reaches")
def _unknown(patch: Patch) -> None:
    def effect(self: PairFacts, node: int) -> str:
        action = self.flow.action(node)
        return action.effect if isinstance(action, g.Access) else "read"

    patch.setattr(PairFacts, "effect", effect)


@rule("a copy hides behind nothing", "of several producers one stands for those alone that the same waits perform")
def _classes(patch: Patch) -> None:
    patch.setattr(find, "_class_of", lambda performed, node: (False, (), False, -1))


@rule("a consumer in an arm stands for none behind it", "only a consumer on every walk stands for a later one")
def _consumers(patch: Patch) -> None:
    patch.setattr(find._InRegions, "is_served", staticmethod(lambda group, above, fence: bool(group.served)))


@rule("cycles with several ways in", "every walk in a cycle that has no head may be the one")
def _irreducible(patch: Patch) -> None:
    def pair(self: find._Anywhere, first: int, second: int) -> None:
        if first < second:
            self.add(first, second, -1, self.conflicts.same_iteration(first, second))

    patch.setattr(find._Anywhere, "pair", pair)


# --- footprints ---------------------------------------------------------------------------------------------------


@rule("slot recurrence", "a slot that a loop carries moves on in each iteration")
def _slot_recurrence(patch: Patch) -> None:
    def first_value(old: Any) -> Any:
        def solved(self: Solver, symbol: str) -> Any:
            loop, key = self.walk.heads[symbol]
            facts = self.flow.loops[loop].facts
            counts = facts is not None and self.walk.names.given[key] == facts.counter
            start = self.start(symbol)
            return old(self, symbol) if counts or start is None else start

        return solved

    changed(patch, Solver, "find", first_value)


@rule("views that loops carry", "a view that a loop carries moves on, too")
def _carried_view(patch: Patch) -> None:
    def first_value(old: Any) -> Any:
        def solved(self: Solver, symbol: str) -> Any:
            start = self.start(symbol)
            return start if isinstance(start, tuple) else old(self, symbol)

        return solved

    changed(patch, Solver, "find", first_value)


@rule("views by condition", "a view that a condition chooses may be either")
def _either(patch: Patch) -> None:
    patch.setattr(Book, "either", lambda self, cond, then, otherwise: then)


@rule("extents", "an access touches all pieces of its box")
def _extents(patch: Patch) -> None:
    def first_piece(old: Any) -> Any:
        def side(self: questions.Asker | forms.Forms, *args: Any) -> Any:
            return replace(old(self, *args), spans=())

        return side

    changed(patch, questions.Asker, "side", first_piece)
    changed(patch, forms.Forms, "side", first_piece)
    boxes_cache = [each for each in vars(boxes).values() if hasattr(each, "cache_clear")]
    for each in boxes_cache:
        each.cache_clear()


@rule("overlapping buffers", "buffers at the same bytes are the same memory")
def _overlapping(patch: Patch) -> None:
    patch.setattr(find._Clusters, "join", lambda self, one, other: None)


@rule("numbers from memory", "a number that is read from memory may be anything")
def _havoc(patch: Patch) -> None:
    def zero(old: Any) -> Any:
        def forgotten(self: Names, given: Any, node: int, agree: bool) -> Any:
            for name in given:
                if name in self.names.views:
                    yield from old(self, (name,), node, agree)
                else:
                    yield self.names.number[name], ZERO

        return forgotten

    changed(patch, Names, "forgotten", zero)


@rule("call", "what a function touches counts where it is called")
def _call(patch: Patch) -> None:
    patch.setattr(flows._Writer, "write_out", lambda self, action, node, around: None)


# --- walks --------------------------------------------------------------------------------------------------------


@rule("zero-trip", "a barrier in a loop that may not run serves nothing around it")
def _zero_trip(patch: Patch) -> None:
    def all_entered(old: Any) -> Any:
        def start(self: walks.Walks, flow: Any, *args: Any) -> None:
            old(self, flow, *args)
            self.entered = set(range(len(flow.loops)))

        return start

    patch.setattr(regions.Regions, "may_run_never", lambda self, body: False)
    changed(patch, walks.Walks, "__init__", all_entered)


@rule("branch cover", "a barrier in one arm does not serve walks through the other")
def _branch_cover(patch: Patch) -> None:
    """Arms count as if all were passed one after the other, in the nest and on walks."""

    def in_line(old: Any) -> Any:
        def start(self: walks.Walks, flow: Any, *args: Any) -> None:
            old(self, flow, *args)
            self.flow = _first_arms(flow)

        return start

    def all_met(old: Any) -> Any:
        def prepare(self: Any, region: Any) -> Any:
            kept = [each for each in region.children if self.regions.regions[each].branch < 0]
            return old(self, replace(region, children=kept))

        return prepare

    changed(patch, nests._Nest, "prepare", all_met)
    changed(patch, walks.Walks, "__init__", in_line)


def _first_arms(flow: flows.Flow) -> flows.Flow:
    """Every branch that is not a loop's own goes to its first successor, if both sides are for all waves."""
    heads = {loop.head for loop in flow.loops}
    successors = tuple(
        following[:1] if len(following) > 1 and node not in heads and flow.point(node).under == "uniform" else following
        for node, following in enumerate(flow.successors)
    )
    return replace(flow, successors=successors)


@rule("arms in the nest", "the constraints of a nest take away what lies in arms not taken")
def _arms(patch: Patch) -> None:
    def all_met(old: Any) -> Any:
        def prepare(self: Any, region: Any) -> Any:
            kept = [each for each in region.children if self.regions.regions[each].branch < 0]
            return old(self, replace(region, children=kept))

        return prepare

    changed(patch, nests._Nest, "prepare", all_met)
    patch.setattr(place, "exchange", lambda walks, hazards, slots, chosen: chosen)


@rule("round a loop", "barriers before the consumer of the next iteration count once, and not twice")
def _round(patch: Patch) -> None:
    def doubled(old: Any) -> Any:
        def existing(self: Any, region: Any) -> int:
            return 1 + int(old(self, region))

        return existing

    changed(patch, nests._Nest, "existing", doubled)


@rule("performed before arriving", "an arrival counts if the producer has been performed by then")
def _performed(patch: Patch) -> None:
    def at_once(old: Any) -> Any:
        return lambda self, state, *rest: old(self, state._replace(performed=True), *rest)

    changed(patch, walks._Search, "pass_events", at_once)


@rule("counts", "a count leaves as many in flight as it says, or the group itself")
def _counts(patch: Patch) -> None:
    def loose(self: walks._Search, name: str, count: int, state: walks.State) -> bool:
        return True

    patch.setattr(walks._Search, "old_enough", loose)


@rule("between signal and wait", "nothing arrives between a signal and its wait")
def _halves(patch: Patch) -> None:
    patch.setattr(place, "between_halves", lambda flow: frozenset())


# --- kinds of barriers --------------------------------------------------------------------------------------------


@rule("drains", "a barrier waits for what is in flight")
def _drains(patch: Patch) -> None:
    patch.setattr(edits._Writer, "barrier", lambda self, what: [WorkgroupBarrier()])


@rule("drains of copies", "a wait for LDS does not wait for copies")
def _copies(patch: Patch) -> None:
    def ordinary(old: Any) -> Any:
        return lambda hazard: {drains.ORDINARY if each == drains.COPIES else each for each in old(hazard)}

    changed(patch, drains, "_needed", ordinary)


@rule("what arriving performs", "only on some targets does arriving perform ordinary accesses")
def _by_arrival(patch: Patch) -> None:
    def always(old: Any) -> Any:
        def found(self: PairFacts, first: int, *rest: bool) -> Any:
            known = old(self, first, *rest)
            return replace(known, by_arrival=not known.is_async)

        return found

    changed(patch, PairFacts, "find_performed", always)


@rule("fences", "the other proxy needs a fence")
def _fences(patch: Patch) -> None:
    def never(old: Any) -> Any:
        return lambda self, first, crosses, *rest: old(self, first, False, *rest)

    changed(patch, PairFacts, "find_performed", never)


@rule("upgrades", "a barrier that stands and drains too little is made to drain")
def _upgrades(patch: Patch) -> None:
    patch.setattr(edits._Writer, "upgrade", lambda self, point, what, why: [])


@rule("drains before signals", "what a pair drains is drained before its signal")
def _signals(patch: Patch) -> None:
    def bare(old: Any) -> Any:
        def meet(self: Any, events: Any, what: set[str]) -> Any:
            found = old(self, events, what)
            return [each for each in found if type(each).__name__ in ("Signal", "Wait", "SharedMemoryBarrier")] or found

        return meet

    changed(patch, edits._Writer, "meet", bare)


# --- pairs --------------------------------------------------------------------------------------------------------


@rule("pairs serve", "a signal moves up and a wait down only as far as all hazards stay served")
def _works(patch: Patch) -> None:
    def unasked(old: Any) -> Any:
        def split(found: Any, walks: Any, *args: Any) -> Any:
            walks.is_served = lambda *args, **more: True
            try:
                return old(found, walks, *args)
            finally:
                del walks.is_served

        return split

    def unnoticed(old: Any) -> Any:
        """Nor are whole barriers taken where pairs cannot be drained."""

        def find_drains(*args: Any) -> Any:
            found = old(*args)
            found.failed.clear()
            return found

        return find_drains

    changed(patch, place, "split", unasked)
    changed(patch, place, "find_drains", unnoticed)


@rule("prologue and epilogue", "a signal of the iteration before needs one before the loop, and a wait behind it")
def _prologue(patch: Patch) -> None:
    def no_prologue(old: Any) -> Any:
        def meet(self: Any, events: Any, what: set[str]) -> Any:
            found = old(self, events, what)
            return [] if len(found) and all(type(each).__name__ == "Wait" for each in found[-1:]) else found

        return meet

    changed(patch, edits._Writer, "meet", no_prologue)


# --- strategies ---------------------------------------------------------------------------------------------------


@rule("redundant means needless", "a barrier goes only if everything it served is served", remove_redundant=True)
def _redundant(patch: Patch) -> None:
    def without_all(old: Any) -> Any:
        def make_plan(flow: Any, target: Any, *args: Any, **more: Any) -> Any:
            plan = old(flow, target, *args, **more)
            changed = {each.point for each in plan.edits if isinstance(each, Change | Delete)}
            gone = [each for each in redundant._candidates(walks.Walks(flow, target)) if each not in changed]
            return Plan((*plan.edits, *(Delete(each) for each in gone)))

        return make_plan

    changed(patch, place, "make_plan", without_all)


@rule("what stands is not enough", "hazards that no barrier in the program serves get new ones")
def _left(patch: Patch) -> None:
    def none_left(old: Any) -> Any:
        return lambda self, hazards: [] if any(self.walks.own.values()) else old(self, hazards)

    changed(patch, place._Placer, "left", none_left)
