"""Ping-pong for Wave's traces: Wave's strategies or Tidegate's, whichever is cheapest of those that are proved.

Needs   a trace behind Wave's scheduler, while Wave compiles it; its constraints and a target
Gives   the trace with its loop in another order and under stagger, and `Reordered`: what was taken, and for each of the
        others why not
Keeps   the trace changes only if it can be made right with Tidegate's barriers, by proof, and is not slower by the cost
        model; else it is as it was
Cost    a plan and two plays of the cost model for each way to arrange the loop; the best is proved

    reads, products, writes      becomes      reads | products | writes | products      one half is a | behind
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from tidegate.diag import BadInput
from tidegate.hosts.wave.context import Context, context_of
from tidegate.hosts.wave.dropin.schedule_by_wave import find_inverted, reorder_by_wave
from tidegate.hosts.wave.dropin.schedule_clusters import arrange_loop, put_clusters
from tidegate.hosts.wave.dropin.schedule_kept import keep
from tidegate.hosts.wave.dropin.schedule_loop import Facts, Loop, find_loop, find_pairs
from tidegate.hosts.wave.dropin.schedule_price import Priced, find_unproved, price
from tidegate.scheduling.model import clusters_of
from tidegate.synchronize.pricing import MARGIN
from tidegate.targets import Target, load_target

AUTO, BY_WAVE, NONE = "auto", "wave", "none"
# What `auto` tries, beside leaving everything as it is.
TRIED = (BY_WAVE, "clusters=2", "clusters=4")

Change = Callable[[], str]  # changes the trace, or says why not


@dataclass(frozen=True, slots=True)
class Reordered:
    """What came of a trace. `strategy`: what was taken, `none` if it is as it was."""

    strategy: str
    why_not: tuple[tuple[str, str], ...] = ()  # each strategy that was tried and not taken, with the reason
    cycles_before: float | None = None  # of one iteration, by the cost model; None: it does not say, or was not asked
    cycles_after: float | None = None
    barriers: tuple[int, int] = (0, 0)  # in one iteration, before and after
    by_wave: str = ""  # what Wave calls its strategy, if it has one for this loop

    def __bool__(self) -> bool:
        """Whether the loop was reordered, which it is only if that is proved."""
        return self.strategy != NONE

    def __str__(self) -> str:
        cycles = f"{_say(self.cycles_before)} → {_say(self.cycles_after)} cycles an iteration"
        name = f"{self.strategy} ({self.by_wave})" if self.strategy == BY_WAVE else self.strategy
        said = "as it was" if self.strategy == NONE else f"{name}, {cycles}"
        return "; ".join((said, *(f"not {name}: {why}" for name, why in self.why_not)))


def schedule_reordering(
    trace: Any,
    constraints: Any,
    scheduling_type: Any,
    use_global_to_shared: bool = False,
    *,
    target: str,
    strategy: str = AUTO,
    counts: bool = False,
) -> Reordered:
    """Reorders the loop of a trace in place, or says why not.

    `strategy`: `wave`, `clusters=K`, `none`, or `auto` for the cheapest of all. `counts`: barriers will be placed with
    waits that leave copies under way.
    """
    tried = TRIED if strategy == AUTO else () if strategy == NONE else (strategy,)
    try:
        facts, context = load_target(target), context_of(constraints)
    except BadInput as bad:
        return Reordered(NONE, tuple((each, bad.findings[0].message) for each in tried))
    work = _Work(trace, constraints, scheduling_type, use_global_to_shared, context, facts, counts)
    try:
        return work.choose(tried, MARGIN if strategy == AUTO else 0.0)
    except BaseException:
        work.kept.put_back()
        raise


@dataclass(frozen=True, slots=True)
class _Draft:
    """A way to reorder the loop, and what an iteration then costs."""

    name: str
    change: Change
    priced: Priced

    @property
    def cycles(self) -> float:
        """What nobody knows the price of is last."""
        return self.priced.cycles if self.priced.cycles is not None else float("inf")


class _Work:
    def __init__(
        self, trace: Any, constraints: Any, kind: Any, copies: bool, context: Context, target: Target, counts: bool
    ) -> None:
        self.trace, self.constraints, self.kind, self.copies = trace, constraints, kind, copies
        self.context, self.target, self.counts = context, target, counts
        self.kept = keep(trace)
        self.by_wave = ""
        self.refused: dict[str, str] = {}  # the first reason of each
        self.pairs: list[tuple[Any, Any]] | None = None  # accesses that must stay in order, once they are asked for

    def choose(self, tried: tuple[str, ...], gain: float) -> Reordered:
        """The cheapest that is proved, if it is cheaper by so much than what stands there."""
        drafts = _ranked([each for name in tried for each in self.drafts(name)])
        before = after = price(self.trace, self.context, self.target, counts=self.counts) if drafts else Priced()
        taken = next((each for each in drafts if self.take(each, before, gain)), None)
        if taken is not None:
            after = taken.priced
            for each in drafts:
                self.refuse(each.name, _say_better(taken, each))
        name = taken.name if taken is not None else NONE
        why_not = tuple((each, self.refused[each]) for each in tried if each != name)
        barriers = (before.barriers, after.barriers)
        return Reordered(name, why_not, before.cycles, after.cycles, barriers, self.by_wave)

    def drafts(self, name: str) -> Iterator[_Draft]:
        """All ways to carry out a strategy, each with its price; the trace is as before."""
        for change in self.changes(name):
            why_not = change()
            priced = Priced(why_not) if why_not else price(self.trace, self.context, self.target, counts=self.counts)
            self.kept.put_back()
            if priced.why_not:
                self.refuse(name, priced.why_not)
            else:
                yield _Draft(name, change, priced)

    def take(self, draft: _Draft, before: Priced, gain: float) -> bool:
        """Changes the trace, if that is right and pays."""
        cycles = draft.priced.cycles
        if before.cycles is not None and (cycles is None or cycles > before.cycles * (1 - gain)):
            says = f"it does not pay by the cost model: {_say(cycles)} cycles instead of {_say(before.cycles)}"
            self.refuse(draft.name, says)
            return False
        draft.change()
        doubt = find_unproved(self.trace, self.context, self.target, counts=self.counts)
        if doubt:
            self.kept.put_back()
            self.refuse(draft.name, doubt)
        return not doubt

    def refuse(self, name: str, why: str) -> None:
        self.refused.setdefault(name, why)

    # --- ways to change a trace ---

    def changes(self, name: str) -> list[Change]:
        if name == BY_WAVE:
            return [self.let_wave]
        clusters = clusters_of(name)
        if not clusters:
            return [lambda: f"there is no strategy `{name}`"]
        found = arrange_loop(self.loop, clusters) if isinstance(self.loop, Loop) else self.loop
        if isinstance(found, str):
            says = found
            return [lambda: says]
        return [partial(self.put, phases) for phases in found]

    @cached_property
    def facts(self) -> Facts:
        """Of the trace as it was: to be asked for only while it stands so."""
        return Facts(self.trace, self.context, self.target)

    @cached_property
    def loop(self) -> Loop | str:
        return find_loop(self.facts)

    def let_wave(self) -> str:
        found = reorder_by_wave(self.trace, self.constraints, self.kind, self.copies, self.kept)
        self.by_wave = found.name
        if found.why_not:
            return found.why_not
        if self.pairs is None:
            self.kept.put_back()
            self.pairs = find_pairs(self.facts)
            reorder_by_wave(self.trace, self.constraints, self.kind, self.copies, self.kept)
        return find_inverted(self.trace, self.pairs)

    def put(self, phases: Any) -> str:
        assert isinstance(self.loop, Loop)
        put_clusters(self.trace, self.constraints, self.loop, phases)
        return ""


def _ranked(drafts: list[_Draft]) -> list[_Draft]:
    """The cheapest first; of those that the model can hardly tell from it, the one with fewest barriers."""
    best = min((each.cycles for each in drafts), default=0.0) * (1 + MARGIN)

    def rank(draft: _Draft) -> tuple[bool, int, float]:
        near = draft.cycles <= best
        return not near, draft.priced.barriers if near else 0, draft.cycles

    return sorted(drafts, key=rank)


def _say_better(one: _Draft, other: _Draft) -> str:
    mine, others = one.priced, other.priced
    if mine.cycles is not None and mine.cycles < other.cycles:
        return f"{one.name} is cheaper: {_say(mine.cycles)} cycles instead of {_say(others.cycles)}"
    if mine.barriers == others.barriers:
        return f"{one.name} is as cheap"
    return f"{one.name} takes about as long, with {mine.barriers} barriers instead of {others.barriers}"


def _say(cycles: float | None) -> str:
    return "?" if cycles is None else f"{cycles:.0f}"
