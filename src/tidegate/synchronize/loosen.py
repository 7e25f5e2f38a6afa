"""Counts of waits for copies, as large as the verifier proves them.

Needs   a plan for a graph and its target; which of its counts a run shows to be the largest (`placement/exact.py`)
Gives   the plan with larger counts, or without waits that nothing needs; and which counts are shown to be the loosest
Keeps   every step is proved, all else unchanged. A plan that is not proved, not even where nothing it puts in leaves
        anything in flight, stays as it is, and nothing is claimed of it
Cost    a proof for the plan, and one for each count that is the loosest already; where it is not, two for each doubling
        of what is missing, up to `MOST_PROOFS` and `MOST_POINTS` for a program; none for counts that a run shows

Placement follows walks, and a walk may go round a loop as often as it likes. The proof knows in which iterations bytes
meet, how often a loop runs, and which conditions hold together. A larger count only asks less: what is not proved with
one more is not proved with more than that, and one count that has become larger makes no other one larger.

    gather %a                      vmcnt(1)    a walk goes round the loop once
    iterate 0 .. 7 { gather %t }   vmcnt(7)    proved; vmcnt(8) is not
    wait_count vmcnt(?)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from tidegate.graph import model as g
from tidegate.graph.plan import Change, Delete, Edit, Insert, Move, Plan
from tidegate.language.ops import SharedMemoryBarrier, WaitCount
from tidegate.placement.need import copy_counters
from tidegate.placement.tighten import LOOSER, NEEDLESS, Waiting, waiting_at
from tidegate.verify.prover import Prover

MOST_PROOFS, MOST_POINTS = 64, 100_000  # and points of all programs that are tried together
SHOWN = "the loosest safe count"
PROVED = "the largest count that is proved"
NOT_LOOSEST = "some counts may be tighter than necessary"

Trial = Callable[[int], bool | None]  # a count → whether it is proved; None where a bound is reached


class Proofs:
    """Proofs of one program with other plans, up to a bound."""

    def __init__(self, prover: Prover, most: int = MOST_PROOFS) -> None:
        self.prover, self.graph, self.target, self.most = prover, prover.graph, prover.target, most
        self.known: dict[Plan, bool] = {}

    def ask(self, plan: Plan) -> bool | None:
        """None where a bound is reached."""
        if plan not in self.known:
            if len(self.known) >= min(self.most, MOST_POINTS // max(1, len(self.graph.points))):
                return None
            self.known[plan] = self.prover.is_ordered(plan)
        return self.known[plan]


@dataclass(frozen=True, slots=True)
class Loosened:
    """`loosest`: counts by the place of their edit in the plan, and counter. `why_not`: why not all are shown to be."""

    plan: Plan
    loosest: frozenset[tuple[int, str]] = frozenset()
    why_not: str = ""


def loosen(
    plan: Plan,
    proofs: Proofs,
    exact: frozenset[tuple[int, str]] = frozenset(),
    *,
    standing: bool = False,
    races: Callable[[Plan], bool] | None = None,
) -> Loosened:
    """`exact`: points and counters that need no proof. `standing`: what stands in the program may change, too.
    `races`: whether a run shows that a plan is wrong; what is not proved may be right all the same."""
    return _Loosener(plan, proofs, exact, standing, races or (lambda _: False)).loosen()


def largest(count: int, limit: int, trial: Trial) -> tuple[int, bool]:
    """The largest count that holds, from one that does; and whether it is certain that no larger one does."""
    good, bad, step = count, limit + 1, 1
    while bad - good > 1:
        middle = min(good + step, limit) if bad > limit else (good + bad) // 2
        held = trial(middle)
        if held is None:
            return good, False
        if held:
            good, step = middle, 2 * step
        else:
            bad = middle
    return good, True


class _Loosener:
    def __init__(
        self,
        plan: Plan,
        proofs: Proofs,
        exact: frozenset[tuple[int, str]],
        standing: bool,
        races: Callable[[Plan], bool],
    ) -> None:
        self.plan, self.proofs, self.exact, self.races = plan, proofs, exact, races
        self.edits: list[Edit | None] = [*plan.edits]
        self.own = list(_standing(plan, proofs.graph)) if standing else []
        self.edits += self.own
        self.counters = frozenset(copy_counters(proofs.graph))

    def loosen(self) -> Loosened:
        counts = [(place, name) for place in self.in_order() for name in counted(self.edits[place], self.counters)]
        tried = [each for each in counts if not self.is_exact(*each)]
        claims = tried or any(edit is not None and edit.serves == (LOOSER,) for edit in self.edits)
        if claims and not self.proofs.ask(plan_of(self.edits)):
            if not self.start_from_nothing(counts):
                return Loosened(self.plan, why_not="the plan is not proved")
            tried = counts
        loosest = {each for each in counts if each not in tried}
        for place, name in tried:
            if self.loosen_one(place, name):
                loosest.add((place, name))
        missing = len(loosest) < len(counts)
        return self.result(loosest, "too many programs to prove" if missing else "")

    def start_from_nothing(self, counts: list[tuple[int, str]]) -> bool:
        """Leaves nothing in flight anywhere, if that is proved: what walks count may be more than a proof sees."""
        edits = list(self.edits)
        for place, name in counts:
            if place < len(self.plan.edits):
                edits[place] = with_count(edits[place], name, 0)
        if not self.proofs.ask(plan_of(edits)):
            return False
        self.edits = edits
        return True

    def is_exact(self, place: int, name: str) -> bool:
        edit = self.edits[place]
        return edit is not None and edit.serves != (LOOSER,) and (point_of(edit), name) in self.exact

    def in_order(self) -> list[int]:
        """Places of edits that wait, those that are met most first; of those, the later ones."""
        places = [place for place, edit in enumerate(self.edits) if waiting(edit) is not None]
        points = self.proofs.graph.points
        return sorted(places, key=lambda place: (-points[point_of(self.edits[place])].weight, -place))

    def loosen_one(self, place: int, name: str) -> bool:
        """Puts the largest count that is proved in its place, or none; whether it is shown to be the largest."""
        edit, proofs = self.edits[place], self.proofs
        op = waiting(edit)
        assert op is not None
        count = dict(op.counts)[name]
        limit = proofs.target.counters[name].largest if name in proofs.target.counters else count

        def other(more: int | None) -> Plan:
            return plan_of([*self.edits[:place], with_count(edit, name, more), *self.edits[place + 1 :]])

        if count < limit and proofs.ask(other(count + 1)) and proofs.ask(other(None)):
            self.edits[place] = with_count(edit, name, None)
            return True
        most, certain = largest(count, limit, lambda each: proofs.ask(other(each)))
        self.edits[place] = with_count(edit, name, most)
        return certain

    def races_with_more(self, place: int, name: str) -> bool:
        """Whether a run shows that a count is the largest: one more races, or is more than the counter holds."""
        edit, counters = self.edits[place], self.proofs.target.counters
        op = waiting(edit)
        assert op is not None
        count = dict(op.counts)[name]
        if name in counters and count == counters[name].largest:
            return True
        more = with_count(edit, name, count + 1)
        return self.races(plan_of([*self.edits[:place], more, *self.edits[place + 1 :]]))

    def result(self, loosest: set[tuple[int, str]], why_not: str) -> Loosened:
        """Without edits that are taken back or change nothing; of what is shown, that is said."""
        kept: list[Edit] = []
        shown: set[tuple[int, str]] = set()
        for place, edit in enumerate(self.edits):
            if edit is None or edit in self.own:
                continue
            names = counted(edit, self.counters)
            if edit.serves == (LOOSER,) and all((place, name) in loosest for name in names):
                is_shown = all(self.is_exact(place, name) or self.races_with_more(place, name) for name in names)
                edit = replace(edit, serves=(SHOWN if is_shown else PROVED,))
            shown |= {(len(kept), name) for name in names if (place, name) in loosest}
            kept.append(edit)
        return Loosened(Plan(tuple(kept)), frozenset(shown), why_not)


# --- edits that wait ----------------------------------------------------------------------------------------------


def _standing(plan: Plan, graph: g.SyncGraph) -> Iterator[Edit]:
    """What stands in the program and waits for copies by counts, as edits that change nothing yet."""
    edited = {edit.point for edit in plan.edits if isinstance(edit, Change | Delete | Move)}
    for number, point in enumerate(graph.points):
        op = waiting_at(point)
        if op is not None and number not in edited and not getattr(op, "wait_async_ops", False):
            yield Change(number, op, (LOOSER,))


def plan_of(edits: Iterable[Edit | None]) -> Plan:
    return Plan(tuple(each for each in edits if each is not None))


def waiting(edit: Edit | None) -> Waiting | None:
    """What an edit puts in, if that waits."""
    op = edit.op if isinstance(edit, Insert | Change) else None
    return op if isinstance(op, SharedMemoryBarrier | WaitCount) else None


def counted(edit: Edit | None, counters: frozenset[str]) -> tuple[str, ...]:
    """The counters of copies that an edit counts on."""
    op = waiting(edit)
    if op is None or getattr(op, "wait_async_ops", False):
        return ()
    return tuple(name for name, _ in op.counts if name in counters)


def point_of(edit: Edit | None) -> int:
    assert isinstance(edit, Insert | Change)
    return edit.before if isinstance(edit, Insert) else edit.point


def with_count(edit: Edit | None, name: str, count: int | None) -> Edit | None:
    """The edit with another count, or without one; None if nothing is left of it."""
    op = waiting(edit)
    assert op is not None
    assert isinstance(edit, Insert | Change)
    if count == dict(op.counts).get(name):
        return edit
    rest = {each: known for each, known in op.counts if each != name}
    counts = tuple(sorted((rest if count is None else {**rest, name: count}).items()))
    if isinstance(op, WaitCount) and not counts:
        return None if isinstance(edit, Insert) else Delete(edit.point, (NEEDLESS,))
    return replace(edit, op=replace(op, counts=counts, async_deps=()))
