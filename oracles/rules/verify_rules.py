"""Rules of the verifier, each of which can be switched off: how many arrivals are needed, and which paths count.

Needs   the verifier as it is; nothing in it knows of this
Gives   `RULES`: by name what a rule says, and how it is switched off by a patch, so that more is proved than is right
        `CAUTIOUS`: the same, so that less is proved than could be
Keeps   a patch ends with its context
Cost    none

    with pytest.MonkeyPatch.context() as patch:
        RULES["stagger"].off(patch)
        ...

What is performed, and which pairs are asked about, stands in `verify_rules_state.py` and `verify_rules_pairs.py`;
`verify_mutants.py` imports all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tidegate.index import Cond, Const, Index, Name
from tidegate.verify import ahead, search, state, verify
from tidegate.verify.asked import Waves
from tidegate.verify.conds import Conds
from tidegate.verify.events import Arrive, Depart, Event
from tidegate.verify.isl_questions import Questions
from tidegate.verify.paths import Paths
from tidegate.verify.protocol import Protocol
from tidegate.verify.reach import Reach, Ways
from tidegate.verify.search import Met, Search
from tidegate.verify.state import State

Patch = pytest.MonkeyPatch
Off = Callable[[Patch], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds, and how it is switched off."""

    says: str
    off: Off


RULES: dict[str, Rule] = {}
CAUTIOUS: dict[str, Rule] = {}


def rule(name: str, says: str, rules: dict[str, Rule] = RULES) -> Callable[[Off], Off]:
    def keep(off: Off) -> Off:
        rules[name] = Rule(says, off)
        return off

    return keep


def cautious(name: str, says: str) -> Callable[[Off], Off]:
    return rule(name, says, CAUTIOUS)


def changed(patch: Patch, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    patch.setattr(owner, name, make(getattr(owner, name)))


# --- how many arrivals --------------------------------------------------------------------------------------------


@rule("direction", "an order the wrong way round is no order")
def _direction(patch: Patch) -> None:
    def unordered(old: Any) -> Any:
        def found(self: verify._Verifier, met: Met) -> Any:
            return None if met.state.need >= 2 else old(self, met)

        return found

    def segment(old: Any) -> Any:
        def pairs(self: verify._Verifier, head: int, nodes: Any, mode: verify._Mode) -> None:
            if mode.waves.same or mode.need < 2:
                old(self, head, nodes, mode)
            else:
                self.pairs(nodes, self.search(head, nodes, State(need=mode.need), mode), mode)

        return pairs

    changed(patch, verify._Verifier, "unordered", unordered)
    changed(patch, verify._Verifier, "segment", segment)


def _needs(patch: Patch, need: Callable[[int], int]) -> None:
    def modes(old: Any) -> Any:
        def found(self: verify._Verifier, head: int) -> Iterator[verify._Mode]:
            for mode in old(self, head):
                yield mode if mode.waves.same else replace(mode, need=need(mode.need))

        return found

    changed(patch, verify._Verifier, "modes", modes)


@rule("stagger", "from a half that is held back more arrivals are needed")
def _stagger(patch: Patch) -> None:
    _needs(patch, lambda need: min(need, 1))


@rule(
    "behind the place of y",
    "where fewer than one are needed, x may be in flight when y is issued",
)
def _ahead(patch: Patch) -> None:
    def segment(old: Any) -> Any:
        def found(self: verify._Verifier, head: int, nodes: Any, mode: verify._Mode) -> None:
            if mode.waves.same or mode.need > 0:
                old(self, head, nodes, mode)

        return found

    changed(patch, verify._Verifier, "segment", segment)


@rule("drained behind", "behind the place of y only what is drained there is performed")
def _drained_behind(patch: Patch) -> None:
    done = replace(state.AT_ONCE, ordinary=True, copies=True)
    patch.setattr(verify, "drained_behind", lambda *args: iter([(done, False)]))


@rule(
    "as far as an arrival",
    "behind the place of y drains count up to the arrival that is needed, no further",
)
def _one_further(patch: Patch) -> None:
    def further(old: Any) -> Any:
        return lambda flow, known, rules, start, arrivals, *rest: old(flow, known, rules, start, arrivals + 1, *rest)

    changed(patch, verify, "drained_behind", further)


@rule(
    "weakest behind",
    "behind the place of y the path counts on which least is drained",
)
def _weakest_behind(patch: Patch) -> None:
    changed(patch, ahead, "is_weaker", lambda old: lambda one, other: old(other, one))


@rule("stagger by place", "how far a half is ahead depends on the place")
def _by_place(patch: Patch) -> None:
    def constant(old: Any) -> Any:
        def found(*args: Any) -> Protocol:
            known: Protocol = old(*args)
            least = min(known.ahead.values(), key=lambda each: -abs(each), default=0)
            return replace(known, ahead=dict.fromkeys(known.ahead, least))

        return found

    changed(patch, verify, "find_protocol", constant)


@rule("halves", "at a conditional barrier only one half arrives")
def _halves(patch: Patch) -> None:
    changed(
        patch, verify, "before", lambda old: lambda known, event, rules, half: old(known, _whole(event), rules, half)
    )


def _whole(event: Event) -> Event:
    return Arrive() if isinstance(event, Arrive) else Depart() if isinstance(event, Depart) else event


@rule("which half", "the half that is held back is the one that the barrier names")
def _which_half(patch: Patch) -> None:
    def swapped(old: Any) -> Any:
        other = {"low": "high", "high": "low", "": ""}
        return lambda self, count: old(replace(self, x=other[self.x], y=other[self.y]), count)

    changed(patch, Waves, "halves", swapped)


@rule("half-open end", "a barrier before the producer orders nothing after it")
def _half_open(patch: Patch) -> None:
    def unordered(old: Any) -> Any:
        def found(self: verify._Verifier, met: Met) -> Any:
            node = met.node
            while met.iterations != self.paths.start(met.node) and len(self.flow.before[node]) == 1:
                node = self.flow.before[node][0]
                if any(isinstance(event, Depart) for event in self.events.get(node, ())):
                    return None
            return old(self, met)

        return found

    changed(patch, verify._Verifier, "unordered", unordered)


# --- paths --------------------------------------------------------------------------------------------------------


@rule("zero trips", "a loop may not run at all")
def _zero_trips(patch: Patch) -> None:
    def runs(old: Any) -> Any:
        def found(self: Paths, loop: int, node: int, count: Index, outside: Any) -> Iterator[Cond]:
            yield from old(self, loop, node, count, outside)
            if node == self.flow.loops[loop].head:
                yield self.math.compare(">=", count, Const(1))

        return found

    changed(patch, Paths, "entered_from_behind", runs)


@rule("several ways to a node", "what one way to a node asks for is not asked on another")
def _several_ways(patch: Patch) -> None:
    def all_of_them(old: Any) -> Any:
        def found(self: Reach, ways: Sequence[Conds]) -> Ways:
            return old(self, ways and [frozenset[int]().union(*ways)])

        return found

    changed(patch, Reach, "few", all_of_them)


@rule("ways that can be gone", "a way is left out only if nobody can go it")
def _ways_that_can_be_gone(patch: Patch) -> None:
    patch.setattr(Questions, "is_possible", lambda self, way, book: False)


@rule("iterations", "an access meets those of earlier iterations")
def _iterations(patch: Patch) -> None:
    patch.setattr(Search, "go_round", lambda self, before, here, loop, turns: None)


@rule("rounds", "a path may go round a loop more than once")
def _rounds(patch: Patch) -> None:
    def once(old: Any) -> Any:
        def found(self: Search, before: int, here: Met, loop: int, turns: int) -> None:
            base, offset = here.iterations[self.paths.around[here.node].index(loop)]
            if base.startswith("<") or offset:
                return
            self.go(before, here, None, turns)

        return found

    changed(patch, Search, "go_round", once)


@rule(
    "any earlier iteration",
    "where nothing changes, the iteration before is one of all earlier ones",
)
def _any_earlier(patch: Patch) -> None:
    def nearest_lost(old: Any) -> Any:
        def found(self: Search, before: int, here: Met, loop: int, first: int, turns: int) -> None:
            place = self.paths.around[here.node].index(loop)
            base, offset = here.iterations[place]
            further = (*here.iterations[:place], (base, offset - 1), *here.iterations[place + 1 :])
            old(self, before, replace(here, iterations=further), loop, first, turns)

        return found

    changed(patch, Search, "any_earlier", nearest_lost)


@rule("all ways", "of several paths to one place each counts")
def _all_ways(patch: Patch) -> None:
    patch.setattr(search, "_simplified", lambda ways, *_: (ways[:1], False))


@rule("all predecessors", "all paths count, not one of them")
def _all_predecessors(patch: Patch) -> None:
    def one(old: Any) -> Any:
        def found(self: Search, here: Met, turns: int) -> None:
            taken = [each for each in self.flow.before[here.node] if self.paths.turns(here.node, each) < 0][:1]
            for before in taken or dict.fromkeys(self.flow.before[here.node]):
                loop = self.paths.turns(here.node, before)
                if loop >= 0:
                    self.go_round(before, here, loop, turns + 1)
                else:
                    self.go(before, here, None, turns)
            for before in self.flow.before[here.node] if taken else ():
                loop = self.paths.turns(here.node, before)
                if loop >= 0:
                    self.go_round(before, here, loop, turns + 1)

        return found

    changed(patch, Search, "go_back", one)


@rule(
    "less is known",
    "a path is left out only if one on which no more is known has been followed",
)
def _less_is_known(patch: Patch) -> None:
    def parts(one: State, other: State) -> bool:
        return (one.need, one.departed, one.arrived) == (other.need, other.departed, other.arrived)

    patch.setattr(search, "is_weaker", parts)


@rule("whose condition", "conditions behind the last departure are those of the wave of y")
def _whose(patch: Patch) -> None:
    def mine(old: Any) -> Any:
        return lambda self, node, before, iterations, turned, wave: old(self, node, before, iterations, turned, "u")

    changed(patch, Paths, "edge", mine)


@rule(
    "free choices",
    "a condition that nobody knows may hold in one iteration and not in the next",
)
def _free(patch: Patch) -> None:
    def fixed(old: Any) -> Any:
        def found(self: Paths, name: str, node: int, iterations: Any, wave: str | None) -> Index | None:
            return Name(name) if name in self.footprints.opaques else old(self, name, node, iterations, wave)

        return found

    def decided(old: Any) -> Any:
        def found(self: Paths, before: int, node: int, iterations: Any, wave: str | None) -> Cond | None:
            conds = self.footprints.branches.get(before)
            arms = [arm for arm, each in enumerate(self.flow.successors[before]) if each == node]
            if conds is None or len(arms) != 1 or self.is_known(before, node):
                return None
            return self.at(conds[arms[0]], before, iterations, wave)

        return found

    changed(patch, Paths, "named", fixed)
    changed(patch, Paths, "decided", decided)


@rule(
    "stop when all is drained",
    "a barrier is not enough: what is before it must be drained",
)
def _stop(patch: Patch) -> None:
    patch.setattr(verify, "is_over", lambda known, kinds, rules: known.arrived)


@cautious("trips", "a loop that runs at least once passes its barriers")
def _trips(patch: Patch) -> None:
    def inside(old: Any) -> Any:
        def found(self: Paths, before: int, node: int, iterations: Any, wave: str | None) -> Cond | None:
            return None if before in self.head_of else old(self, before, node, iterations, wave)

        return found

    patch.setattr(Paths, "entered_from_behind", lambda self, loop, node, count, outside: ())
    changed(patch, Paths, "decided", inside)


@cautious("conditions on the way", "a path counts only if its conditions hold together")
def _conditions(patch: Patch) -> None:
    patch.setattr(Paths, "decided", lambda self, before, node, iterations, wave: None)
