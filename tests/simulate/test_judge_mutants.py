"""The comparison with the brute force is tested itself: a machine with one rule broken must be caught by it.

Each mutant changes one rule of the machine. If no random graph shows the difference, the comparison would not notice
that the rule is wrong, and the rule needs a graph of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from oracles.brute.brute_force import Verdict, judge_by_brute_force
from oracles.brute.judging import by_clocks
from oracles.programs.focused_graphs import doubtful, focused_graph, object_graph
from oracles.programs.small_graphs import small_graph
from tidegate.graph.model import SyncGraph
from tidegate.simulate import explore, machine, persistent, position, queues, races, regions, unroll
from tidegate.simulate.barriers import Barriers, _Phases
from tidegate.simulate.clocks import Clock
from tidegate.simulate.machine import Machine
from tidegate.simulate.queues import InFlight
from tidegate.simulate.races import Watch
from tidegate.simulate.regions import Regions
from tidegate.simulate.steps import Arrive, Await, Depart, Drain, Touch
from tidegate.targets import Target

SEEDS = range(4_800)
Case = tuple[SyncGraph, Target, dict[str, int], Verdict]


@cache
def case(seed: int) -> Case | None:
    """Most graphs dwell on one rule, or on barrier objects."""
    rng = random.Random(f"mutants {seed}")
    if seed % 16 == 1:
        graph, target, env = doubtful(rng)
    elif seed % 4 == 0:
        graph, target, env = small_graph(rng, proxies=seed % 8 == 0)
    else:
        graph, target, env = object_graph(rng) if seed % 4 == 3 else focused_graph(rng)
    expected = judge_by_brute_force(graph, target, env, 3_000)
    return None if expected is None else (graph, target, env, expected)


def is_caught() -> bool:
    """Whether the machine as it is now disagrees with the brute force."""
    for seed in SEEDS:
        found = case(seed)
        if found is None:
            continue
        graph, target, env, expected = found
        verdict, explored = by_clocks(graph, target, env)
        if expected.hang and seed % 4:  # there, clocks may find more (`test_judge_random`)
            verdict = replace(verdict, findings=verdict.findings & expected.findings)
        if verdict != expected or not explored.complete:
            return True
    return False


Mutant = Callable[[pytest.MonkeyPatch], None]
MUTANTS: dict[str, Mutant] = {}


def mutant(make: Mutant) -> Mutant:
    MUTANTS[make.__name__] = make
    return make


def changed(patch: pytest.MonkeyPatch, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    patch.setattr(owner, name, make(getattr(owner, name)))


# --- what is performed --------------------------------------------------------------------------------------------


@mutant
def drains_perform_nothing_ordinary(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "ordinary", lambda self: [])


@mutant
def counts_leave_one_more(patch: pytest.MonkeyPatch) -> None:
    changed(patch, InFlight, "_counted", lambda old: lambda self, name, count: old(self, name, count + 1))


@mutant
def counts_leave_one_less(patch: pytest.MonkeyPatch) -> None:
    changed(patch, InFlight, "_counted", lambda old: lambda self, name, count: old(self, name, max(0, count - 1)))


@mutant
def counts_above_zero_say_nothing(patch: pytest.MonkeyPatch) -> None:
    changed(patch, InFlight, "_counted", lambda old: lambda self, name, count: [] if count else old(self, name, 0))


@mutant
def out_of_turn_is_in_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "_in_turn", lambda self, name: True)


@mutant
def counters_have_no_maximum(patch: pytest.MonkeyPatch) -> None:
    def no_maximum(old: Any) -> Any:
        def rules(target: Target) -> queues.Rules:
            found = old(target)
            return replace(found, counters={n: (unit, turn, 2**30) for n, (unit, turn, _) in found.counters.items()})

        return rules

    from oracles.brute import judging

    changed(patch, judging, "rules_of", no_maximum)


@mutant
def a_token_is_for_one_copy_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "_upto", lambda self, number: [number] if number in self.touches else [])


@mutant
def tokens_wait_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "_upto", lambda self, number: [])


@mutant
def all_copies_wait_for_those_that_cannot_be_waited_for(patch: pytest.MonkeyPatch) -> None:
    def drained(old: Any) -> Any:
        def every(self: InFlight, drain: Drain) -> list[int]:
            more = [n for n, touch in self.touches.items() if touch.is_async] if drain.every_copy else []
            return sorted({*old(self, drain), *more})

        return every

    changed(patch, InFlight, "drained", drained)


@mutant
def commits_close_no_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "commit", lambda self, counters: None)


@mutant
def groups_hold_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    def counted(old: Any) -> Any:
        def more(self: InFlight, name: str, count: int) -> list[int]:
            found = list(old(self, name, count))
            if count == 0 and self._counts_groups(name):
                found += [n for n in self.open_group.get(name, ()) if n in self.touches]
            return found

        return more

    changed(patch, InFlight, "_counted", counted)


@mutant
def operations_without_memory_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "_matters", lambda self, touch: False)


@mutant
def operations_count_once(patch: pytest.MonkeyPatch) -> None:
    def issue(old: Any) -> Any:
        def once(self: InFlight, number: int, touch: Touch) -> None:
            least = tuple(replace(queue, least=min(queue.least, 1)) for queue in touch.queues)
            old(self, number, replace(touch, queues=least))

        return once

    changed(patch, InFlight, "issue", issue)


@mutant
def arrivals_always_perform(patch: pytest.MonkeyPatch) -> None:
    from oracles.brute import judging

    changed(patch, judging, "rules_of", lambda old: lambda target: replace(old(target), arrival_performs=True))


@mutant
def arrivals_never_perform(patch: pytest.MonkeyPatch) -> None:
    from oracles.brute import judging

    changed(patch, judging, "rules_of", lambda old: lambda target: replace(old(target), arrival_performs=False))


@mutant
def the_end_performs_what_nobody_can_wait_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "at_end", lambda self: list(self.touches))


@mutant
def the_end_performs_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "at_end", lambda self: [])


@mutant
def lds_drains_do_not_wait_for_counters(patch: pytest.MonkeyPatch) -> None:
    from oracles.brute import judging

    changed(patch, judging, "rules_of", lambda old: lambda target: replace(old(target), lds_counters=()))


# --- barriers -----------------------------------------------------------------------------------------------------


@mutant
def ended_waves_always_leave(patch: pytest.MonkeyPatch) -> None:
    from oracles.brute import judging

    changed(patch, judging, "rules_of", lambda old: lambda target: replace(old(target), wave_end_leaves=True))


@mutant
def ended_waves_never_leave(patch: pytest.MonkeyPatch) -> None:
    from oracles.brute import judging

    changed(patch, judging, "rules_of", lambda old: lambda target: replace(old(target), wave_end_leaves=False))


@mutant
def an_end_tells_nothing(patch: pytest.MonkeyPatch) -> None:
    changed(patch, Barriers, "end", lambda old: lambda self, wave, clock=None: old(self, wave, None))


@mutant
def a_phase_tells_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Barriers, "met", lambda self, barrier: None)


@mutant
def a_phase_does_not_know_the_one_before(patch: pytest.MonkeyPatch) -> None:
    def advance(self: _Phases, arrivals: int) -> None:
        while self.arrived >= arrivals and self.outstanding == 0:
            self.complete += 1
            self.arrived -= arrivals

    patch.setattr(_Phases, "advance", advance)


@mutant
def bytes_do_not_hold_a_phase(patch: pytest.MonkeyPatch) -> None:
    def arrive(old: Any) -> Any:
        return lambda self, wave, barrier, expect=0, clock=None: old(self, wave, barrier, 0, clock)

    changed(patch, Barriers, "arrive", arrive)


@mutant
def parity_is_the_other_way(patch: pytest.MonkeyPatch) -> None:
    changed(patch, Barriers, "may_pass", lambda old: lambda self, barrier, parity: not old(self, barrier, parity))


@mutant
def a_wait_without_a_signal_is_for_the_phase_being_filled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Phases, "awaited_by", lambda self, wave: self.signalled.get(wave, self.complete + 1))


@mutant
def nobody_learns_at_a_rendezvous(patch: pytest.MonkeyPatch) -> None:
    changed(patch, Barriers, "depart", lambda old: lambda self, wave, barrier: old(self, wave, barrier) and None)


@mutant
def arriving_is_no_new_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Machine, "_tell", lambda self, wave: self.waves[wave].clock.tell(wave, self.waves[wave].time))


@mutant
def halves_are_swapped(patch: pytest.MonkeyPatch) -> None:
    def sync(old: Any) -> Any:
        def other_half(self: Any, point: Any, number: int, op: Any) -> Any:
            if type(op).__name__ == "ConditionalBarrier":
                op = replace(op, half="low" if op.half == "high" else "high")
            return old(self, point, number, op)

        return other_half

    changed(patch, unroll._Walker, "sync", sync)


@mutant
def every_id_is_one_barrier(patch: pytest.MonkeyPatch) -> None:
    def named(old: Any) -> Any:
        return lambda self, barrier, point: unroll.WORKGROUP if isinstance(barrier, int) else old(self, barrier, point)

    changed(patch, unroll._Walker, "named", named)


# --- clocks and clashes -------------------------------------------------------------------------------------------


@mutant
def landings_are_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    changed(patch, Clock, "join", lambda old: lambda self, other: replace(old(self, other), landed=self.landed))


@mutant
def fences_fence_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Clock, "fence", lambda self: self)


@mutant
def fences_are_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    changed(patch, Clock, "join", lambda old: lambda self, other: replace(old(self, other), fenced=self.fenced))


@mutant
def a_landing_does_not_know_what_came_before(patch: pytest.MonkeyPatch) -> None:
    def report(old: Any) -> Any:
        def alone(self: Barriers, barrier: Any, size: int, clock: Clock) -> None:
            none = (0,) * len(clock.times)
            old(self, barrier, size, Clock(none, none, clock.landed))

        return alone

    changed(patch, Barriers, "report", report)


@mutant
def the_wrong_order_is_fine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watch, "ordered", lambda self, earlier, later, bytes_: None)


@mutant
def arms_have_an_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(races, "compare", lambda one, other: (one > other) - (one < other))


@mutant
def iterations_have_no_order(patch: pytest.MonkeyPatch) -> None:
    changed(patch, races, "compare", lambda old: lambda one, other: old(one[:3], other[:3]))


@mutant
def loops_are_passed_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(position.Position, "_turn", lambda self, bottom, chain: None)


@mutant
def atomics_always_commute(patch: pytest.MonkeyPatch) -> None:
    def conflict(old: Any) -> Any:
        return lambda one, other, regions: None if one.effect == other.effect == "atomic" else old(one, other, regions)

    changed(patch, races, "conflict", conflict)


@mutant
def atomics_never_commute(patch: pytest.MonkeyPatch) -> None:
    def conflict(one: Touch, other: Touch, regions: Regions) -> Any:
        if one.effect == other.effect == "read" or one.region is None or other.region is None:
            return None
        return regions.common(one.region, other.region)

    patch.setattr(races, "conflict", conflict)


@mutant
def atomics_of_all_types_commute(patch: pytest.MonkeyPatch) -> None:
    def commute(one: Touch, other: Touch) -> bool:
        return one.operator == other.operator and not (one.fetches or other.fetches)

    patch.setattr(races, "commute", commute)


@mutant
def boundaries_of_elements_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    changed(patch, races, "commute", lambda old: lambda one, other: old(replace(one, grid=0), replace(other, grid=0)))


@mutant
def what_may_not_be_issued_counts(patch: pytest.MonkeyPatch) -> None:
    def newer(self: InFlight, name: str) -> Any:
        count = 0
        for number, touch in reversed(self.touches.items()):
            for queue in touch.queues:
                if queue.counter == name:
                    yield number, count
                    count += max(1, queue.least)

    patch.setattr(InFlight, "_newer", newer)


@mutant
def neighbours_overlap(patch: pytest.MonkeyPatch) -> None:
    def common(old: Any) -> Any:
        return lambda one, other: old(one, tuple((low - 1, high + 1) for low, high in other))

    def near(old: Any) -> Any:
        """Also of regions whose ends only touch: they are told apart before their stretches are."""

        def found(self: Any, region: Any) -> Any:
            others = (each for *_, each in self._spaces.get(region.space, []))
            return {each for each in others if regions._first_common(region.stretches, each.stretches) is not None}

        return found

    changed(patch, regions, "_first_common", common)
    changed(patch, regions.Regions, "near", near)


@mutant
def only_the_first_stretch_counts(patch: pytest.MonkeyPatch) -> None:
    changed(patch, regions, "_first_common", lambda old: lambda one, other: old(one[:1], other[:1]))


@mutant
def own_accesses_never_clash(patch: pytest.MonkeyPatch) -> None:
    def meet(old: Any) -> Any:
        return lambda self, record, party, *rest: (
            None if record.party.wave == party.wave else old(self, record, party, *rest)
        )

    changed(patch, Watch, "meet", meet)


# --- forgetting and exploring -------------------------------------------------------------------------------------


@mutant
def forgets_what_some_wave_does_not_know(patch: pytest.MonkeyPatch) -> None:
    def over(old: Any) -> Any:
        return lambda self, record, clocks, *rest: old(self, record, [clocks[0], *[None] * (len(clocks) - 1)], *rest)

    changed(patch, Watch, "_is_over", over)


@mutant
def forgets_what_others_may_still_come_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(races, "may_still_come", lambda last, other: False)
    # One lane does it all in these programs; else nothing would be forgotten before the lanes have met.
    patch.setattr(races.Record, "is_over_for_lanes", lambda self, lanes_met, in_turn: True)


@mutant
def takes_one_order_only(patch: pytest.MonkeyPatch) -> None:
    changed(patch, explore, "_open_steps", lambda old: lambda machine: old(machine)[:1])


@mutant
def arrivals_are_never_open(patch: pytest.MonkeyPatch) -> None:
    def is_open(old: Any) -> Any:
        return lambda self, wave: not isinstance(self.next(wave), Arrive) and old(self, wave)

    changed(patch, machine.Machine, "is_open", is_open)


@mutant
def waits_for_a_parity_are_never_open(patch: pytest.MonkeyPatch) -> None:
    def is_open(old: Any) -> Any:
        return lambda self, wave: not isinstance(self.next(wave), Await) and old(self, wave)

    changed(patch, machine.Machine, "is_open", is_open)


@mutant
def copies_need_no_fence(patch: pytest.MonkeyPatch) -> None:
    changed(patch, Clock, "see", lambda old: lambda self, copies: replace(old(self, copies), fenced_landed=copies))


@mutant
def states_are_told_apart_by_place_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Machine, "key", lambda self: tuple(wave.place for wave in self.waves))


@mutant
def a_wait_for_a_parity_always_stands_alone(patch: pytest.MonkeyPatch) -> None:
    def stands_alone(old: Any) -> Any:
        def more(machine: Machine, way: Any) -> bool:
            is_wait = isinstance(way, int) and isinstance(machine.next(way), Await)
            return is_wait or old(machine, way)

        return more

    changed(patch, explore, "stands_alone", stands_alone)


@mutant
def an_arrival_stands_alone_though_its_phase_may_fill_up(patch: pytest.MonkeyPatch) -> None:
    alone = lambda others, barrier: not others.waited_for(barrier) and barrier not in others.reported  # noqa: E731
    patch.setattr(persistent, "_arrival_stands_alone", alone)


@mutant
def an_arrival_stands_alone_though_somebody_waits_for_the_phase_before(patch: pytest.MonkeyPatch) -> None:
    def alone(others: Any, barrier: Any) -> bool:
        return not others.completes(barrier) and barrier not in others.reported

    patch.setattr(persistent, "_arrival_stands_alone", alone)


@mutant
def an_arrival_stands_alone_though_copies_report(patch: pytest.MonkeyPatch) -> None:
    def alone(others: Any, barrier: Any) -> bool:
        return not others.completes(barrier) and not others.waited_for(barrier)

    patch.setattr(persistent, "_arrival_stands_alone", alone)


@mutant
def the_end_of_a_copy_stands_alone_though_it_is_not_expected(patch: pytest.MonkeyPatch) -> None:
    def alone(others: Any, barrier: Any) -> bool:
        filled = others.barriers.filled(barrier) + others.arrivals.get(barrier, 0)
        return barrier not in others.reported and filled <= barrier.arrivals and not others.waited_for(barrier)

    patch.setattr(persistent, "_landing_stands_alone", alone)


@mutant
def the_end_of_a_copy_stands_alone_though_others_report(patch: pytest.MonkeyPatch) -> None:
    def alone(others: Any, barrier: Any) -> bool:
        filled = others.barriers.filled(barrier) + others.arrivals.get(barrier, 0)
        expected = others.barriers.outstanding(barrier) > 0
        return expected and filled <= barrier.arrivals and not others.waited_for(barrier)

    patch.setattr(persistent, "_landing_stands_alone", alone)


@mutant
def the_end_of_a_copy_stands_alone_though_others_arrive_for_the_next_phase(patch: pytest.MonkeyPatch) -> None:
    def alone(others: Any, barrier: Any) -> bool:
        expected = others.barriers.outstanding(barrier) > 0
        return expected and barrier not in others.reported and not others.waited_for(barrier)

    patch.setattr(persistent, "_landing_stands_alone", alone)


@mutant
def the_end_of_a_copy_stands_alone_though_somebody_waits_for_the_phase_before(patch: pytest.MonkeyPatch) -> None:
    def alone(others: Any, barrier: Any) -> bool:
        filled = others.barriers.filled(barrier) + others.arrivals.get(barrier, 0)
        expected = others.barriers.outstanding(barrier) > 0
        return expected and barrier not in others.reported and filled <= barrier.arrivals

    patch.setattr(persistent, "_landing_stands_alone", alone)


@mutant
def others_never_pass_a_wait(patch: pytest.MonkeyPatch) -> None:
    def passes(old: Any) -> Any:
        return lambda self, wave, step: not isinstance(step, Await | Depart) and old(self, wave, step)

    changed(patch, persistent._Others, "_passes", passes)


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_machine_with_one_rule_broken_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert is_caught()


@pytest.mark.slow
def test_the_machine_as_it_is_is_not_caught() -> None:
    assert not is_caught()
