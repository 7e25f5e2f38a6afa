"""Races and inversions, decided for all trip counts and all waves.

Needs   a well-formed graph and its target
Gives   a `Verification`
Keeps   proved means: every conflicting pair of accesses of two waves or of two lanes of one wave, and every pair within
        a wave of which one is asynchronous, is performed in program order, in every run. Shares no code with hazards,
        placement, waits and schedule; footprints are compared with the bytes that the simulator touches
        (tests/graph/test_footprint.py)
Cost    one search for each stretch of straight code, as far back as accesses can be unordered; one question for each
        pair of classes of accesses that a search finds

From each access y all paths are followed backwards, until enough arrivals lie between and everything before them is
drained. What is met on the way is not ordered before y. Whether it touches the same bytes, in the iterations and under
the conditions of the path, is a question about integer points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from tidegate.collecting import no_collecting
from tidegate.footprint.model import Touch
from tidegate.footprint.values import iteration
from tidegate.graph import model as g
from tidegate.index import names
from tidegate.targets import Target
from tidegate.verify.ahead import drained_behind
from tidegate.verify.asked import Point, Waves
from tidegate.verify.events import Access, conflict
from tidegate.verify.ground import Ground, Stretch
from tidegate.verify.model import Suspect, Verification
from tidegate.verify.parting import between
from tidegate.verify.paths import WILD, Iterations
from tidegate.verify.phase_model import ObjectProof, Outside
from tidegate.verify.protocol import Protocol, find_protocol
from tidegate.verify.pruning import find_useful
from tidegate.verify.search import MOST_EFFORT, Met, Search, TooMuch, spend
from tidegate.verify.searching import OneWrong, SearchMode, Unordered
from tidegate.verify.state import BETWEEN_LANES, IN_ONE_LANE, State, before, is_fenced, is_over, is_performed, unsure
from tidegate.verify.stretches import groups_at_fences, stretches

HALVES = ("low", "high")
MOST_SUSPECTS = 250


def verify(
    graph: g.SyncGraph,
    target: Target,
    *,
    memory: bool = True,
    trusted: bool | None = None,
    ground: Ground | None = None,
    enough: Callable[[Suspect], bool] | None = None,
) -> Verification:
    """`memory`: whether to ask as well that buffers live and loops end. `trusted`: whether another compiler vouches for
    places that depend on unknown values; by default, if not `memory`. `ground`: of a program alike, from earlier.
    `enough`: a suspect of which it ends with its stretch of code."""
    with no_collecting():
        verifier = _Verifier(graph, target, ground, enough=enough)
        found = verifier.verify(memory)
        if found.undecided:
            return found
        return replace(found, outside=verifier.ground.outside(not memory if trusted is None else trusted))


def is_ordered(graph: g.SyncGraph, target: Target, ground: Ground | None = None) -> bool:
    """As `verify(...).is_ordered`, and sooner where it is not: what no barrier can order is asked about first."""
    return _first_wrong(graph, target, ground, at_once_first=True) is None


def find_wrong(
    graph: g.SyncGraph, target: Target, ground: Ground | None = None, *, inside: bool = False
) -> tuple[int, int] | None:
    """Two points that nothing orders, the first that are found, without a witness; None if all is proved.

    Where nothing could be decided, both are -1. `inside`: also where an access may leave its buffer, as if `trusted`.
    """
    ground = ground if ground is not None and ground.carries(graph, target) else Ground(graph, target)
    wrong = _first_wrong(graph, target, ground)
    return (-1, -1) if wrong is None and inside and ground.outside(trusted=True) else wrong


def _first_wrong(
    graph: g.SyncGraph, target: Target, ground: Ground | None, *, at_once_first: bool = False
) -> tuple[int, int] | None:
    with no_collecting():
        try:
            found = _Verifier(graph, target, ground, witnesses=False).verify(False, at_once_first)
        except OneWrong as wrong:
            return wrong.points
    return None if found.is_ordered else (-1, -1)


class _Verifier:
    def __init__(
        self,
        graph: g.SyncGraph,
        target: Target,
        ground: Ground | None = None,
        *,
        witnesses: bool = True,
        enough: Callable[[Suspect], bool] | None = None,
    ) -> None:
        if ground is None or not ground.carries(graph, target):
            ground = Ground(graph, target)
        self.ground, self.flow, self.target = ground, ground.flow_with(graph), target
        self.rules, self.events = ground.rules_and_events(self.flow)
        self.edited = ground.edited(self.events) if graph is not ground.graph else {}
        self.footprints, self.paths, self.meet = ground.footprints, ground.paths, ground.meet
        self.reach, self.parting = ground.reach, ground.parting
        self.witnesses, self.enough = witnesses, enough
        self.access: dict[int, Access] = {
            node: each[0] for node in self.footprints.accesses if isinstance((each := self.events[node])[0], Access)
        }
        self.any_async = any(each.is_async for each in self.access.values())
        self.kinds = {(each.is_async, each.can_wait, each.queues) for each in self.access.values()}
        self.suspects: dict[tuple[int, int, bool], Suspect] = {}
        self.steps: dict[tuple[int, State, str, bool], State | None] = {}
        self.looked: set[int] = set()  # nodes whose events the searches of one stretch have asked for
        self.proof: ObjectProof | None = None  # of a program with barrier objects
        self.reporting: frozenset[int] = frozenset()  # copies about which that proof asks
        self.shows: tuple[tuple[str, int], ...] = ()
        self.groups: list[frozenset[int] | None] = []  # waves that come to the same fences
        self.leans = False  # whether a pair of one wave is kept apart by its lanes alone
        self.paths.effort = self.saved = 0  # steps of searches, and of those that an earlier proof has made
        self.before = (self.meet.asked, self.meet.isl.count)
        self.meet.by_thread = 0

    def verify(self, memory: bool, at_once_first: bool = False) -> Verification:
        try:
            self.protocol = find_protocol(self.flow, self.events, self.meet, self.parting, self.reach)
            undecided = self.beyond_barriers() or self.ground.contradiction(memory)
            if undecided:
                return Verification(undecided=undecided, shows=self.shows)
            self.take_clashes()
            if at_once_first:  # a question for each access, where searches may take thousands of steps
                self.at_once()
            cut_short = self.searched_all()
            if not at_once_first:
                self.at_once()
        except TooMuch as reason:
            found, why = tuple(self.suspects.values()), (str(reason),)
            return Verification(
                found, why, queries=self.meet.isl.count - self.before[1], visits=self.paths.effort - self.saved
            )
        wild = any(not loop.reducible for loop in self.flow.loops)
        return Verification(
            tuple(self.suspects.values()),
            doubts=self.ground.doubts(memory),
            by_path=wild,
            accesses=len(self.access),
            classes=len(set(self.footprints.classes.values())),
            questions=self.meet.asked - self.before[0],
            queries=self.meet.isl.count - self.before[1],
            leans_on_lanes=self.leans,
            lanes_part=any(self.flow.point(each).under != "divergent" for each in self.parting.divided),
            visits=self.paths.effort - self.saved,
            cut_short=cut_short,
        )

    # --- barrier objects ---

    def beyond_barriers(self) -> tuple[str, ...]:
        """Why nothing can be said, if barriers of one workgroup that runs one program are not all there is."""
        reasons = self.protocol.undecided
        if not self.protocol.beyond:
            return reasons
        from tidegate.verify.phase_proof import fences_of, prove

        try:
            self.proof = prove(self.flow, self.meet, self.events, self.rules, self.parting, self.target)
        except Outside as why:
            self.shows = why.values
            return (*reasons[:-1], f"{reasons[-1]}: {why}")
        self.reporting = self.proof.reporting
        self.protocol = Protocol({node: 0 for role in self.proof.roles for node in role.arms})
        self.events = {**self.events, **fences_of(self.flow, self.events, self.rules)}
        self.edited = self.ground.edited(self.events)
        return ()

    def take_clashes(self) -> None:
        """What the proof of barrier objects leaves unordered."""
        for each in self.proof.suspects(self.meet, self.is_exact) if self.proof is not None else ():
            if not self.witnesses:
                raise OneWrong(each.x, each.y)
            self.suspects.setdefault((each.x, each.y, each.within_a_wave), each)

    # --- stretches of code ---

    def searched_all(self) -> str:
        """Looks from each stretch of code; why not from all of them."""
        self.groups = groups_at_fences(self.events, self.flow.graph.waves)
        met = sorted(self.access.keys() & self.protocol.ahead.keys(), key=self.paths.rank.__getitem__)
        for among in (True, False):
            for head, nodes in stretches(self.flow, self.events, met, among_waves=among).items():
                for mode in self.modes(head):
                    if among == (not mode.waves.same and mode.need > 0):
                        self.segment(head, nodes, mode)
                if self.is_enough():  # enough to see that it is wrong
                    return f"the bound of {MOST_SUSPECTS} suspects was reached"
                if self.enough is not None and any(map(self.enough, self.suspects.values())):
                    return "one suspect was asked for"
        return ""

    def modes(self, head: int) -> Iterator[SearchMode]:
        ahead = self.protocol.ahead[head]
        if self.proof is None and not self.protocol.staggers:  # with a proof all pairs of waves were asked about
            yield SearchMode(Waves(), 1)
        elif self.proof is None:
            for x in HALVES:
                for y in HALVES:
                    more = {("low", "high"): ahead, ("high", "low"): -ahead}.get((x, y), 0)
                    yield SearchMode(Waves(x, y), 1 + more)
        if not all(each.in_one_lane for each in self.access.values()):
            for of in self.groups:
                yield SearchMode(Waves(same=True, of=of), 1)
        if self.any_async and any(each.in_one_lane or each.by_thread for each in self.access.values()):
            yield SearchMode(Waves(same=True, one_lane=True), 0)

    def segment(self, head: int, nodes: Sequence[int], mode: SearchMode) -> None:
        """Adds the suspects of one stretch, those of an earlier proof where that looked at nothing that differs."""
        # Where x's wave is looked for behind y, nodes behind it count as well: nothing is kept of that.
        kept = (mode.waves.same or mode.need > 0) and self.rules == self.ground.rules
        key = (head, tuple(nodes), mode, self.witnesses)
        known = self.ground.known(key, self.edited) if kept else None
        if known is None:
            known = self.searched(head, nodes, mode)
            if kept and self.paths.effort < MOST_EFFORT // 3:  # beyond that, searches drop conditions sooner
                self.ground.keep(key, known)
        else:
            self.saved += known.effort
            spend(self.paths, known.effort)
        self.leans |= known.leans
        for each in known.suspects:
            self.suspects.setdefault((each.x, each.y, each.within_a_wave), each)
        if known.suspects and not self.witnesses:
            raise OneWrong(known.suspects[0].x, known.suspects[0].y)

    def searched(self, head: int, nodes: Sequence[int], mode: SearchMode) -> Stretch:
        """The suspects of one stretch, whatever others have given: another program may not have those."""
        others, effort = self.suspects, self.paths.effort
        self.suspects, self.looked = {}, set()
        try:
            self.search_from(head, nodes, mode)
            looked = frozenset(self.looked)
            edited = {node: events for node, events in self.edited.items() if node in looked}
            return Stretch(looked, edited, tuple(self.suspects.values()), self.leans, self.paths.effort - effort)
        finally:
            self.suspects = {**self.suspects, **others}

    def search_from(self, head: int, nodes: Sequence[int], mode: SearchMode) -> None:
        if not mode.waves.same and mode.need <= 0:
            for node in nodes:
                if self.is_enough():
                    return
                for state, loose in self.behind(node, mode):
                    self.pairs([node], self.search(node, [node], state, mode, loose), mode)
            return
        state = State(need=mode.need)
        if mode.waves.same:
            state = IN_ONE_LANE if mode.waves.one_lane else replace(BETWEEN_LANES, of=mode.waves.of)
        found = self.search(head, nodes, state, mode)
        self.pairs(nodes, found, mode)
        # What stands before an access in its own stretch is unordered before it as well.
        why = "undrained" if mode.waves.one_lane else "unmet"
        for place, node in enumerate(nodes):
            if self.is_enough():
                return
            earlier = (each for each in nodes[:place] if self.proof is None or each not in self.proof.reporting)
            own = [Unordered(each, self.paths.start(node), (frozenset(),), False, why) for each in earlier]
            self.pairs([node], own, mode)

    def behind(self, node: int, mode: SearchMode) -> Iterator[tuple[State, bool]]:
        """Where the way back begins if x's wave may come to y's place later than y's wave does."""
        arrivals = 1 - mode.need - (node in self.protocol.signalled)
        if not arrivals:
            yield State(need=0, passed=True, departed=True), False
            return
        half, apart = mode.waves.x, self.parting.apart
        yield from drained_behind(self.flow, self.events, self.rules, node, arrivals, half, apart)

    def search(
        self, head: int, nodes: Sequence[int], state: State, mode: SearchMode, loose: bool = False
    ) -> list[Unordered]:
        """Accesses that are met on the way back before they are sure to be performed: those that `nodes` clash with."""
        parted = not mode.waves.same and mode.need <= 0
        step = partial(self.step, half=mode.waves.x, parted=parted)
        useful = find_useful(self.flow, step, self.access, nodes, head, state)
        search = Search(self.paths, step, parted=parted, useful=useful)
        search.run(head, state, loose=loose)
        return [found for met in search.met if (found := self.unordered(met)) is not None]

    def step(self, node: int, state: State, half: str, parted: bool) -> State | None:
        """The state before a node; None if nothing before it can be unordered."""
        self.looked.add(node)
        events = self.events.get(node)
        if not events:
            return state
        doubtful = parted and node in self.parting.apart  # y's wave comes there; does x's?
        key = (node, state, half, doubtful)
        if key not in self.steps:
            for event in reversed(events):
                state = unsure(state, event) if doubtful else before(state, event, self.rules, half)
            self.steps[key] = None if is_over(state, self.kinds, self.rules) else state
        return self.steps[key]

    def unordered(self, met: Met) -> Unordered | None:
        x = self.access.get(met.node)
        if x is None or met.node in self.reporting:
            return None
        if not is_performed(x, met.state, self.rules):
            why = "undrained" if met.state.arrived else "unmet"
        elif self.rules.needs_fence(x) and not is_fenced(x, met.state, self.rules):
            why = "unfenced"
        else:
            return None
        return Unordered(met.node, met.iterations, met.ways, met.loose, why, met.state.arrived)

    # --- pairs ---

    def pairs(self, nodes: Sequence[int], found: Sequence[Unordered], mode: SearchMode) -> None:
        for y in nodes:
            if self.is_enough():
                return
            for each in found:
                if self.may_clash(each, y, mode):
                    self.ask(each, y, mode.waves)

    def is_enough(self) -> bool:
        """Whether so many are suspected that more would say nothing: thousands of accesses in a row make millions."""
        return len(self.suspects) >= MOST_SUSPECTS

    def may_clash(self, found: Unordered, second: int, mode: SearchMode) -> bool:
        x, y = self.access[found.node], self.access[second]
        known = (self.flow.origin[found.node], self.flow.origin[second], mode.waves.same)
        if known in self.suspects or found.node in self.reporting:
            return False
        if found.why == "unfenced" and y.proxy == "generic":
            return False
        ordinary, one_lane = not (x.is_async or y.is_async), x.in_one_lane and y.in_one_lane
        if x.by_thread and y.by_thread and not one_lane:  # the question itself knows which lanes meet
            one_lane = mode.waves.one_lane
        if mode.waves.same and (one_lane != mode.waves.one_lane or (one_lane and ordinary)):
            return False
        # Ordinary accesses on both sides of a place where the lanes meet are performed in the order of issue.
        if mode.waves.same and found.met and ordinary and self.rules.in_issue_order:
            return False
        return conflict(x, y)

    def ask(self, found: Unordered, second: int, waves: Waves) -> None:
        x, y = self.footprints.accesses[found.node], self.footprints.accesses[second]
        point = self.meet.find(x, y, found.iterations, found.ways, waves) if waves.same else None
        if waves.same:
            if point is None and self.witnesses and not self.leans:
                self.leans = self.meet.leans_on_lanes(x, y, found.iterations, found.ways, waves)
            point = point if point is not None and self.can_be(found, x, y, waves) else None
        else:
            point = self.reached(found, x, y, waves)
        if point is None:
            return
        pair = (self.flow.origin[found.node], self.flow.origin[second])
        if not self.witnesses:
            raise OneWrong(*pair)
        self.suspects[*pair, waves.same] = Suspect(
            *pair,
            found.why,
            waves.same,
            (found.node, second),
            found.iterations,
            point,
            not found.loose and self.is_exact(x) and self.is_exact(y) and not self.is_wild(found, second),
        )

    def can_be(self, found: Unordered, x: Touch, y: Touch, waves: Waves) -> bool:
        """Whether x is reached at all under these conditions: a path to it may ask for what another excludes."""
        before = self.reach.ways_to(found.node, found.iterations)
        if before is None:
            return True
        ways = tuple({one | other for one in found.ways for other in before})
        return self.meet.find(x, y, found.iterations, ways, waves) is not None

    def reached(self, found: Unordered, x: Touch, y: Touch, waves: Waves) -> Point | None:
        """Where two waves meet, if x is reached at all."""
        if not self.meet.ever_meet(x, y, waves):
            return None
        before = self.reach.ways_to(found.node, found.iterations)
        if before is None:
            return self.meet.find(x, y, found.iterations, found.ways, waves)
        return self.meet.find_reached(x, y, found.iterations, found.ways, before, waves)

    def is_wild(self, found: Unordered, second: int) -> bool:
        """Whether one of two accesses lies in a loop with several ways in: there all paths count as possible."""
        return any(base == WILD for base, _ in (*found.iterations, *self.paths.start(second)))

    def is_exact(self, touch: Touch) -> bool:
        """Whether nothing was widened, and no number stands for one that is only too hard to compute."""
        starts = [name for spot in touch.places if spot.start is not None for name in names(spot.start)]
        conds = [name for cond in (*touch.facts, *(spot.cond for spot in touch.places)) for name in names(cond)]
        opaques = (self.footprints.opaques.get(name) for name in (*starts, *conds))
        return touch.exact and all(each is None or each.when in ("leaves", "branch") for each in opaques)

    # --- without program order ---

    def at_once(self) -> None:
        """One statement in two waves, and arms of a condition that different waves take."""
        for node in self.access if self.proof is None else ():
            if node in self.protocol.ahead and not self.access[node].as_one:
                self.together(node, node, self.paths.start(node), Waves())
        for branch in self.parting.branches:
            if branch in self.protocol.ahead:
                self.arms(branch, self.parting.joins[branch])

    def arms(self, branch: int, join: int) -> None:
        successors = dict.fromkeys(self.flow.successors[branch])
        arms = [between(self.flow, each, join, branch).intersection(self.access) for each in successors]
        divided, common = not self.parting.divided.isdisjoint(self.flow.successors[branch]), self.paths.around[branch]
        for place, one in enumerate(arms):
            for other in arms[place + 1 :]:
                for x in sorted(one - other):
                    for y in sorted(other - one):
                        iterations = self.beside(x, y, common)
                        if self.proof is None:
                            self.together(x, y, iterations, Waves())
                        if divided:
                            self.together(x, y, iterations, Waves(same=True))

    def beside(self, x: int, y: int, common: tuple[int, ...]) -> Iterations:
        """x's iterations beside y's: the same of loops around the branch, any of others."""
        start = dict(zip(self.paths.around[y], self.paths.start(y), strict=True))
        return tuple(
            start[loop]
            if loop in common and loop in start
            else ((f"{iteration(loop)}|beside", 0) if self.flow.loops[loop].reducible else (WILD, 0))
            for loop in self.paths.around[x]
        )

    def together(self, first: int, second: int, iterations: Iterations, waves: Waves) -> None:
        found = Unordered(first, iterations, (frozenset(),), False, "parallel")
        if self.may_clash(found, second, SearchMode(waves, 0)):
            self.ask(found, second, waves)
