"""Why the synchronization of a program stands as it does, and why there is no more of it.

Needs   a program and its target
Gives   its barriers with the hazards they serve and what goes wrong without, earlier, later, weaker or outside of their
        loops, and how many slots would save them; the pairs of accesses without a barrier of their own, and why
Keeps   the program is not changed; a barrier is called needed only if a finding or a hazard says so
Cost    that of `find_hazards`, a judgement for each change that is tried, and a question for each pair of accesses

    barrier, 1 → 2 conflict      without it: TG101 1 → 2; before 1: TG101 1 → 2; bare: TG101, not performed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.collecting import no_collecting
from tidegate.diag import Finding, Span
from tidegate.explanation.changes import Changes
from tidegate.explanation.model import Barrier, Explained, Trial, Verdict
from tidegate.explanation.pairs import PairFinder
from tidegate.explanation.slots import SlotTrials
from tidegate.explanation.trials import MOST_STEPS, Trials
from tidegate.graph.barriers import tally
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.hazards.find import Hazards, no_hazards
from tidegate.hazards.model import Hazard
from tidegate.hazards.show import loop_name
from tidegate.passes import run_stages
from tidegate.placement.groups import BarrierGroup, count_runs, find_barriers
from tidegate.placement.pieces import find_pieces
from tidegate.placement.trusted import by_objects
from tidegate.placement.walks import Walk, Walks
from tidegate.session import Session
from tidegate.synchronize.choose import can_compare, compare
from tidegate.synchronize.model import SyncOptions

# Hazards times barriers, beyond which a barrier is asked only for those that are served at it.
MOST_SEARCHES = 20_000
# Kinds of pairs of accesses, beyond which a program is not compared with the result of `sync`.
MOST_COMPARED = 300

# Called with the number of barriers done and of all.
Progress = Callable[[int, int], None]


@no_collecting()
def explain(
    unit: Session,
    *,
    atomics: str = "commute",
    stagger: int = 0,
    progress: Progress | None = None,
    most_steps: int = MOST_STEPS,
) -> Explained:
    """Everything there is to say about one program as it is. After `most_steps` of the judge windows alone decide."""
    SyncOptions(atomics=atomics, stagger=stagger).check()
    seen = run_stages(unit, print_after=None, stop_after="graph", show=lambda *_: None)
    result = Explained(unit, seen.findings)
    if any(each.is_bad_input for each in seen.findings):
        result.why_not = "the program has no meaning"
        return result
    placed = unit  # the program whose points have places
    if not any(point.at.line for point in unit.graph.points):
        result.listing = show_graph(unit.graph)
        placed = Session(unit.name, unit.target, None, parse_graph(result.listing, f"{unit.graph.name}.sync"))
    graph, by_thread = placed.graph, bool(placed.graph.maps)
    found = no_hazards(placed.flow, placed.target, placed.footprints) if by_thread else placed.hazards(atomics, stagger)
    result.graph, result.hazards = graph, found
    asked_kinds = len(found.conflicts.known)  # before pairs are asked about, which takes no longer for `compare`
    _Explainer(result, placed, found, atomics, most_steps).explain(progress or (lambda *_: None))
    if by_thread:
        return result  # `sync` edits instructions there, and places nothing by hazards
    if any(each.severity == "error" for each in result.findings):
        return result  # how fast a program is that goes wrong says nothing about one that does not
    if asked_kinds > MOST_COMPARED and can_compare(graph):
        asked = f"the bound of {MOST_COMPARED} kinds of pairs of accesses was reached"
        result.notes.append(f"not compared with the result of `sync`: {asked}")
    else:
        result.notes += compare(graph, unit.target, atomics, stagger, by_path=unit.origin is None)
    return result


class _Explainer:
    def __init__(
        self, result: Explained, session: Session, found: Hazards, atomics: str, most_steps: int = MOST_STEPS
    ) -> None:
        self.result, self.graph, self.found, self.flow = result, session.graph, found, found.flow
        graph, target = session.graph, session.target
        self.walks = Walks(self.flow, target, found.stagger)
        at = ((each, self.walks.served_at(each)) for each in found.hazards)
        self.served = {each: nodes for each, nodes in at if not isinstance(nodes, Walk)}
        self.trials = Trials(session, self.walks, tuple(self.served), most_steps)
        self.changes = Changes(graph, target)
        self.slots = SlotTrials(graph, found, target, atomics, self.trials)
        self.racing = _races(self.trials.base.findings)
        loose = [*(each for each in found.hazards if each not in self.served), *(one.hazard for one in found.unplaced)]
        self.quiet = [each for each in loose if not self.is_racing(each.producer, each.consumer)]

    def is_racing(self, producer: int, consumer: int) -> bool:
        """As it is, as far as anything was judged."""
        return not self.trials.base.is_decided or self.ends(producer, consumer) in self.racing

    def ends(self, producer: int, consumer: int) -> frozenset[Span]:
        return frozenset((self.flow.point(producer).at, self.flow.point(consumer).at))

    def left_to_objects(self) -> list[Hazard]:
        """Hazards of which every walk passes a barrier object, and that do not race."""
        if not self.graph.objects:
            return []
        passing = by_objects(self.found, self.result.unit.target)
        return [each for each in self.quiet if each in passing]

    def explain(self, progress: Progress) -> None:
        result, base = self.result, self.trials.base
        result.checked = base
        known = {(each.code, each.at) for each in result.findings}
        result.findings += [each for each in base.findings if (each.code, each.at) not in known]
        groups = self.groups()
        few = len(groups) * len(self.served) <= MOST_SEARCHES
        if not few:
            result.notes.append("many hazards: the accesses that waits perform for a later barrier are not listed")
        self.trials.make_room(change for group in groups for change in self.changes.of(group))
        gone = [  # first, should a bound be reached
            self.trials.run(self.changes.without(each), None if few else self.served_by(each)) for each in groups
        ]
        barriers = []
        for number, (group, without) in enumerate(zip(groups, gone, strict=True)):
            progress(number, len(groups))
            barriers.append(self.barrier(group, without))
        result.barriers = tuple(barriers)
        if self.graph.maps:
            self.note("")
            return
        own = {*self.served, *(hazard for each in barriers for hazard in each.serves)}
        apart = self.left_to_objects()
        pairs = PairFinder(self.found, result.unit.target, self.walks, own, apart, self.is_racing)
        result.pairs = tuple(pairs.find())
        first = f"only the first {pairs.count:,} pairs of accesses were asked about"
        self.note(f"{pairs.cut_short}: {first}" if pairs.cut_short else "")

    def groups(self) -> list[BarrierGroup]:
        """Of final instructions, which stand at one point for each state of the program, one for each place."""
        if not self.graph.maps:
            return find_barriers(self.flow, self.found.stagger)
        return [BarrierGroup(each.kind, each.points, each.pinned) for each in find_pieces(self.graph)]

    def is_held(self, group: BarrierGroup) -> bool:
        origin = self.result.unit.origin
        return origin is not None and any(self.graph.points[each].at in origin.held for each in group.points)

    def served_by(self, group: BarrierGroup) -> list[Hazard]:
        """Where walks become served; not what only drains for a later barrier."""
        nodes = {node for point in group.points for node in self.walks.nodes.get(point, ())}
        return [each for each, at in self.served.items() if at & nodes]

    def barrier(self, group: BarrierGroup, without: Trial) -> Barrier:
        nodes = {node for point in group.points for node in self.walks.nodes.get(point, ())}
        lost = set(without.hazards)
        here = set(self.served_by(group)) | lost
        serves = [each for each in self.served if each in here]
        serves += self.raced(without)
        trials = [without, *map(self.trials.run, self.changes.without_one(group)), *self.tried(group, without)]
        return Barrier(
            group.kind,
            group.points,
            count_runs(self.flow, nodes),
            tally(self.graph, group.points),
            self.loop_around(nodes),
            group.pinned,
            tuple(serves),
            tuple(trials),
            self.instead(group, [each for each in serves if each not in lost]),
            self.too_weak(nodes),
            self.slots.ask(group, without.hazards or serves) if without.verdict.is_wrong else None,
            self.is_held(group),
        )

    def tried(self, group: BarrierGroup, without: Trial) -> list[Trial]:
        """Only a barrier that something needs can be too early, too late, too weak."""
        if not without.verdict.is_wrong:
            return []
        found: list[Trial] = []
        stuck = ""
        for change in self.changes.of(group):
            if change.question == "weaker" and change.tried.partition("(")[0] == stuck:
                continue  # a count that is too high stays so
            trial = self.trials.run(change, without.hazards, first=True)
            found.append(trial)
            if trial.verdict is not Verdict.HOLDS and change.question == "weaker":
                stuck = change.tried.partition("(")[0]
        return found

    def raced(self, without: Trial) -> list[Hazard]:
        """Hazards that no window explains, and between whose ends there is a race without this barrier."""
        racing = _races(without.findings)
        return [each for each in self.quiet if self.ends(each.producer, each.consumer) in racing]

    def too_weak(self, nodes: set[int]) -> tuple[Hazard, ...]:
        """What these would order if they performed what they have to."""
        loose = (each for each in self.found.hazards if each not in self.served and each not in self.quiet)
        at = ((each, self.walks.served_at(each, drained=True)) for each in loose)
        return tuple(each for each, found in at if not isinstance(found, Walk) and found & nodes)

    def loop_around(self, nodes: set[int]) -> str:
        loops = {self.flow.loop_of[node] for node in nodes}
        return loop_name(self.flow, max(loops)) if len(loops) == 1 and max(loops) >= 0 else ""

    def instead(self, group: BarrierGroup, hazards: Sequence[Hazard]) -> tuple[int, ...]:
        """Where these hazards are served if the group is not there."""
        own = dict(self.walks.own)
        for point in group.points:
            for node in self.walks.nodes.get(point, ()):
                self.walks.own.pop(node, None)
        found: set[int] = set()
        for hazard in hazards:
            nodes = self.walks.served_at(hazard)
            found |= set() if isinstance(nodes, Walk) else {self.flow.origin[node] for node in nodes}
        self.walks.own = own
        return tuple(sorted(found))

    def note(self, cut_short: str) -> None:
        notes, base = self.result.notes, self.trials.base
        if not base.is_decided:
            notes.append(f"not judged: {base.why_not}" + ("" if self.graph.maps else "; by windows only"))
        elif self.trials.left_out:
            count = self.trials.count
            done = f"judged {count} modified program{'s' * (count != 1)}"
            bound = f"the bound of {self.trials.bound} was reached"
            rest = "not decided" if self.graph.maps else "by windows only"
            notes.append(f"{bound}: {done}; {self.trials.left_out} more {rest}")
        if cut_short:
            notes.append(cut_short)
        if self.found.stagger.assumed:
            notes.append("the judge runs the program without the stagger that the hazards assume")


def _races(findings: Sequence[Finding]) -> set[frozenset[Span]]:
    """The places of accesses that clash."""
    races = (each for each in findings if each.code.startswith("TG1") and each.code != "TG107")
    return {frozenset(label.at for label in each.labels) for each in races}
