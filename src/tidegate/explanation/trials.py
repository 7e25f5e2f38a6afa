"""Changes tried: what the judge finds in the changed program, and which hazards are no longer ordered in it.

Needs   a graph, its hazards, walks past its barriers
Gives   `Trial`s
Keeps   only what the program does not have as it is counts as going wrong; the same in every run: what is bounded is
        bounded by numbers of trials and steps, never by a clock. The verifier decides every change that it can, and
        the first ones are run as well, for an example
Cost    a judgement for each trial, up to the bounds; then windows alone decide
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tidegate.diag import Finding
from tidegate.explanation.changes import Change
from tidegate.explanation.model import Trial, Verdict
from tidegate.graph import model as g
from tidegate.hazards.model import Hazard
from tidegate.passes import Checked, Narrow, check_session
from tidegate.placement.events import all_events
from tidegate.placement.walks import Walks
from tidegate.session import Session
from tidegate.simulate.judge import A_TRIAL, Limits
from tidegate.targets import Target
from tidegate.verify.ground import Ground
from tidegate.verify.model import Suspect, Verification
from tidegate.verify.prover import Prover, Tried
from tidegate.verify.say import possible
from tidegate.verify.verify import MOST_SUSPECTS, verify

# Judgements of changed programs, and steps of all of them (as `Checked.work` counts), after which windows alone decide.
MOST_TRIALS, MOST_STEPS = 400, 250_000
# Of a program that nothing but runs decide: their orders are explored, and a step takes longer.
STEPS_OF_RUNS = 100_000
# Questions about threads take less time than those that isl answers, and nothing is run.
BY_THREAD = 8
# Steps after which a changed program is run only where the verifier cannot say what is different.
SHOWN_STEPS = 40_000
# Of the program as it is, which `tidegate check` looks at for longer.
THE_PROGRAM = Limits(steps=25_000, enough=5_000, replays=4)


def judged(
    graph: g.SyncGraph,
    target: Target,
    limits: Limits | None = None,
    narrow: Narrow | None = None,
    ground: Ground | None = None,
) -> Checked:
    """What is wrong with a graph: all that `tidegate check` finds."""
    return check_session(Session(graph.name, target, None, graph, earlier=ground), limits, narrow)


class Trials:
    """Tries changes to one graph. `served` are the hazards that are ordered as it is."""

    def __init__(
        self,
        session: Session,
        walks: Walks,
        served: Sequence[Hazard],
        most_steps: int = MOST_STEPS,
    ) -> None:
        self.graph, self.target, self.walks, self.served = session.graph, session.target, walks, served
        self.most_steps = most_steps * (BY_THREAD if self.graph.maps else 1)
        self.prover = Prover(self.graph, self.target)
        self.base = self._base(session)
        if self.base.verification is not None and self.base.verification.undecided:
            self.most_steps = min(self.most_steps, STEPS_OF_RUNS)
        self.known = {_key(each) for each in self.base.findings}
        self.suspected = self._suspected()
        self.count = self.steps = self.left_out = self.proved_alone = 0

    def _base(self, session: Session) -> Checked:
        """The program as it is. What no graph says may order final instructions: nothing is said of such a program."""
        if self.graph.maps and session.origin is not None and session.origin.unmodelled:
            return Checked([], why_not="; ".join(session.origin.unmodelled))
        return judged(self.graph, self.target, THE_PROGRAM, ground=session.ground)

    def run(self, change: Change, hazards: Sequence[Hazard] | None = None, *, first: bool = False) -> Trial:
        """`hazards`: those that may be affected; None: all. `first`: whether one thing that goes wrong is enough."""
        if change.why:
            return Trial(change.question, change.tried, Verdict.CANNOT, why=change.why, part=change.part)
        if not self.fits(change):
            why = "nothing can be inserted there"
            return Trial(change.question, change.tried, Verdict.CANNOT, why=why, part=change.part)
        lost = tuple(self.lost(change, self.served if hazards is None else hazards))
        after = None
        # A program that is not judged is not built either: that takes time for each of its points.
        if self.is_spent:
            self.left_out += self.base.is_decided
        else:
            program = self.prover.edited(change.instead, change.before)
            unordered = self.unordered(program, lost if first else None)
            if unordered is not None:
                wrong = tuple(possible(each, program.graph, "nothing was run") for each in unordered)
                verdict = Verdict.UNORDERED if wrong else Verdict.HOLDS
                return Trial(change.question, change.tried, verdict, wrong, lost if wrong else (), part=change.part)
            after = self.judge(program, first=first)
        found = tuple(self.new(after))
        if after is None:
            verdict = Verdict.WINDOWS if lost else Verdict.UNJUDGED
        elif found:
            verdict = Verdict.BREAKS
        elif after.is_proved:  # the verifier knows which paths can be taken: windows do not
            verdict, lost = Verdict.HOLDS, ()
        elif self.graph.maps and self.base.is_proved:  # no window stands for what the verifier cannot decide
            verdict = Verdict.UNJUDGED
        else:
            verdict = Verdict.OVERLOOKED if lost else Verdict.HOLDS
        gone = self.gone(after)
        return Trial(change.question, change.tried, verdict, found, lost, gone, part=change.part)

    def fits(self, change: Change) -> bool:
        return all(self.graph.points[place].insertable for place in change.before)

    def make_room(self, changes: Iterable[Change]) -> None:
        """Before the first change is tried, so that all are tried in one graph and share what proofs of it leave."""
        for each in changes:
            if self.fits(each):
                self.prover.make_room(each.before)

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is judged."""
        return self.count >= MOST_TRIALS or self.steps >= self.most_steps

    @property
    def bound(self) -> str:
        """What ended it, in words."""
        if self.count >= MOST_TRIALS:
            return f"{MOST_TRIALS} changed program{'s' * (MOST_TRIALS != 1)}"
        return f"{self.most_steps:,} steps"

    def unordered(self, program: Tried, lost: Sequence[Hazard] | None) -> tuple[Suspect, ...] | None:
        """What the verifier suspects in a changed program and not in the program as it is, once enough has been run.

        `lost`: hazards of which one is enough; any suspect is, if there are none. None: all suspects are wanted. The
        answer is None where it has to be judged: a run may show something else, or nothing that went away can be told.
        """
        if self.graph.maps or self.steps < SHOWN_STEPS or self.is_spent:
            return None  # of threads nothing is ever run
        if not self.base.is_decided or self.suspected is None:
            return None
        before, at = self.suspected, self.walks.flow.point
        ends = {(at(each.producer).at, at(each.consumer).at) for each in lost or ()}

        def is_new(suspect: Suspect) -> bool:
            return _place(suspect, program.graph) not in before

        def is_enough(suspect: Suspect) -> bool:
            x, y = (program.graph.points[each].at for each in (suspect.x, suspect.y))
            return is_new(suspect) and (not ends or (x, y) in ends)

        enough = None if lost is None else is_enough
        verification = verify(program.graph, self.target, ground=program.ground, enough=enough)
        self.count += 1
        self.steps += Checked([], verification=verification).work
        self.proved_alone += 1
        if enough is not None and any(map(enough, verification.suspects)):
            return tuple(filter(is_new, verification.suspects))
        return self.narrow(program.graph, verification)

    def judge(self, program: Tried, *, first: bool = False) -> Checked | None:
        """What `tidegate check` says of a changed program; None if it is not judged."""
        if not self.base.is_decided:
            return None
        if self.is_spent:
            self.left_out += 1
            return None
        # What is wrong in the program as it is would end a run before it comes to what the change breaks.
        limits = replace(A_TRIAL, first=first and not self.known)
        checked = judged(program.graph, self.target, limits, self.narrow, program.ground)
        self.count += 1
        self.steps += checked.work
        return checked

    def _suspected(self) -> frozenset[object] | None:
        """The suspects of the program as it is, by their places; None if they cannot be told apart from others."""
        asked = self.base.verification
        if asked is None or asked.undecided or asked.doubts or asked.outside or len(asked.suspects) >= MOST_SUSPECTS:
            return None
        if not all(self.graph.points[number].at.line for number in _ends(asked.suspects)):
            return None
        return frozenset(_place(each, self.graph) for each in asked.suspects)

    def narrow(self, program: g.SyncGraph, found: Verification) -> tuple[Suspect, ...] | None:
        """The suspects that a changed program has beside those of the program as it is: only these need be shown.

        None where suspects go away, or nothing was decided: then all that the program does counts.
        """
        before = self.suspected
        if before is None or found.undecided or found.doubts or found.outside or len(found.suspects) >= MOST_SUSPECTS:
            return None
        places = {_place(each, program): each for each in found.suspects}
        if len(places) < len(found.suspects) or not before <= places.keys():
            return None
        return tuple(each for place, each in places.items() if place not in before)

    def new(self, after: Checked | None) -> list[Finding]:
        """Errors that the program does not have as it is."""
        return [each for each in _errors(after) if _key(each) not in self.known]

    def gone(self, after: Checked | None) -> tuple[Finding, ...]:
        if after is None or after.narrowed:
            return ()
        keys = {_key(each) for each in _errors(after)}
        return tuple(each for each in self.base.findings if each.severity == "error" and _key(each) not in keys)

    def lost(self, change: Change, hazards: Iterable[Hazard]) -> list[Hazard]:
        """Hazards that are served as it is, and not with the change."""
        walks = self.walks
        own = dict(walks.own)
        for point, op in change.instead.items():
            for node in walks.nodes.get(point, ()):
                walks.own.pop(node, None)
                if op is not None:
                    walks.own[node] = all_events((op,))
        before = {node: all_events(ops) for point, ops in change.before.items() for node in walks.nodes.get(point, ())}
        found = [each for each in hazards if not walks.is_served(each, before)]
        walks.own = own
        return found


def _place(suspect: Suspect, graph: g.SyncGraph) -> object:
    """Equal for one pair of accesses in two programs that differ in synchronization only."""
    return graph.points[suspect.x].at, graph.points[suspect.y].at, suspect.within_a_wave


def _ends(suspects: Iterable[Suspect]) -> Iterator[int]:
    for each in suspects:
        yield from (each.x, each.y)


def _errors(checked: Checked | None) -> list[Finding]:
    return [each for each in checked.findings if each.severity == "error"] if checked is not None else []


def _key(finding: Finding) -> object:
    """Equal for one mistake in two programs, whatever run showed it."""
    if not finding.at.line:
        return (finding.code, finding.message, finding.notes)
    return (finding.code, tuple(sorted((label.at.file, label.at.line, label.at.column) for label in finding.labels)))
