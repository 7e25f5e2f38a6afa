"""Changed programs, each asked once: is it still without a race, an inversion or a hang?

Needs   a graph that is clean on its target
Gives   a `Proof`, or None where there is none
Keeps   what the verifier suspects is taken as wrong, unless it suspected that before the change; the simulator is asked
        only where the verifier cannot decide; the same in every run: numbers of programs, points and steps are bounded,
        never time
Cost    a verification for each change, up to the bounds
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.advice.model import Proof
from tidegate.graph import model as g
from tidegate.graph.fit import find_graph_misfits
from tidegate.language.ops import SyncOp
from tidegate.passes import Checked
from tidegate.placement.pieces import Piece
from tidegate.session import Session
from tidegate.simulate.judge import Limits, judge
from tidegate.verify.prover import Prover, Tried
from tidegate.verify.say import what_is_proved
from tidegate.verify.verify import verify

# Changed programs; points of all of them together; steps of those that the simulator runs.
MOST_TRIALS, MOST_POINTS, MOST_STEPS = 1_000, 100_000, 1_000_000

# What stands at a point instead of what is there; None for nothing.
Edits = Mapping[int, SyncOp | None]


class Trials:
    """Tries edits to one graph. `cleared`: what the verifier suspects in it as it is, and no run shows."""

    def __init__(self, checked: Checked, session: Session, limits: Limits | None = None) -> None:
        self.graph, self.target, self.limits = session.graph, session.target, limits or Limits()
        self.cleared = {(each.x, each.y) for each in checked.verification.suspects} if checked.verification else set()
        self.misfits = {each.code for each in find_graph_misfits(self.graph, self.target)}
        self.prover = Prover(self.graph, self.target, session.ground)
        self.known: dict[frozenset[tuple[int, SyncOp | None]], Proof | None] = {}
        self.count = self.points = self.steps = self.left_out = 0

    def without(self, *pieces: Piece, given: Edits | None = None) -> Proof | None:
        """The program without these, other edits given."""
        return self.ask({**(given or {}), **_without(pieces)})

    def fails_without(self, *pieces: Piece) -> bool:
        return self.fails(_without(pieces))

    def fails(self, edits: Edits) -> bool:
        """Whether it was tried, and is no longer proved."""
        return self.ask(edits) is None and frozenset(edits.items()) in self.known

    def ask(self, edits: Edits) -> Proof | None:
        key = frozenset(edits.items())
        if key in self.known:
            return self.known[key]
        if self.count >= MOST_TRIALS or self.points >= MOST_POINTS or self.steps >= MOST_STEPS:
            self.left_out += 1
            return None
        self.count += 1
        self.points += len(self.graph.points)
        self.known[key] = found = self.decide(self.prover.edited(edits, {}))
        return found

    def decide(self, tried: Tried) -> Proof | None:
        graph = tried.graph
        if {each.code for each in find_graph_misfits(graph, self.target)} - self.misfits:
            return None
        verification = verify(graph, self.target, ground=tried.ground)
        if verification.is_proved:
            return Proof("verifier", what_is_proved(verification, graph))
        suspects = {(each.x, each.y) for each in verification.suspects}
        return self.simulate(graph) if suspects <= self.cleared else None

    def simulate(self, graph: g.SyncGraph) -> Proof | None:
        judgement = judge(graph, self.target, self.limits)
        self.steps += judgement.steps
        if judgement.findings or not judgement.runs:
            return None
        count = judgement.configurations
        ran = ", ".join((f"{count} configuration{'s' * (count != 1)}", *judgement.covered))
        bounded = f"; {'; '.join(judgement.bounded)}" if judgement.bounded else ""
        return Proof("simulator", f"{ran}{bounded}")


def _without(pieces: Iterable[Piece]) -> dict[int, SyncOp | None]:
    return {point: None for each in pieces for point in each.points}
