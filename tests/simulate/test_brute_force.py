"""The brute-force interpreter on graphs whose verdict can be worked out by hand, and the random small graphs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from oracles.brute.brute_force import Verdict, explore, judge_by_brute_force, unroll
from oracles.programs.small_graphs import small_graph
from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.wellformed import check_graph
from tidegate.index import Binary, Compare, Const, Flag, Index, Name, scale
from tidegate.language import ops
from tidegate.language.ops import Place, Value
from tidegate.language.types import DEP, BarrierObject
from tidegate.targets import load_target

WAVE = Name("wave")
MINE = scale(WAVE, 4)
OTHER = scale(Binary("mod", Binary("+", WAVE, Const(1)), Const(2)), 4)
FIRST = Compare("==", WAVE, Const(0))
BARE, DRAIN = ops.WorkgroupBarrier(), ops.SharedMemoryBarrier()
CLEAN = Verdict(frozenset(), False)
HANG = Verdict(frozenset(), True)


def race(x: int, y: int) -> Verdict:
    return Verdict(frozenset({("race", x, y)}), False)


class Small(GraphBuilder):
    """A builder whose accesses count as those of the front end do, and which numbers points for the tests."""

    def __init__(self, target: str = "gfx942", waves: int = 2) -> None:
        super().__init__("small", waves, target)
        self.of = load_target(target)
        self.buffer("%a", 16, 2, 0)

    def issue_on(self, kind: str, least: int = 1, in_order: bool = True) -> tuple[g.Issue, ...]:
        counter = self.of.counter_of(kind)
        if not counter:
            return ()
        least = 0 if self.of.counters[counter].unit == "groups" else least
        return (g.Issue(counter, least, least, in_order),)

    def put(self, offset: Index | int = 0, **facts: Any) -> int:
        return self.write("%a", offset=offset, issues=self.issue_on("local_write"), **facts)

    def get(self, offset: Index | int = 0, **facts: Any) -> int:
        return self.read("%a", offset=offset, issues=self.issue_on("local_read"), **facts)

    def copy(
        self,
        offset: Index | int = 0,
        kind: str = "gather_to_lds",
        least: int = 1,
        in_order: bool = True,
        size: int = 4,
        **more: Any,
    ) -> int:
        place = g.Ref("%a", Const(0), offset if not isinstance(offset, int) else Const(offset))
        effect = "read" if kind == "lds_to_global" else "write"
        access = g.Access(effect, g.Footprint(place, (), size), True, self.of.operations[kind].proxy, **more)
        return self.add(access, role="copy", issues=self.issue_on(kind, least, in_order))

    def add_to(self, fetches: bool = False, operator: str = "add", element: str = "i32", at: int = 0) -> int:
        foot = g.Footprint(g.Ref("%a", Const(0), Const(at)), (), 4)
        access = g.Access("atomic", foot, operator=operator, fetches=fetches, element=element)
        return self.add(access, issues=self.issue_on("atomic_add"))

    def load(self, in_order: bool = True) -> int:
        return self.compute("global_read", issues=self.issue_on("global_read", 1, in_order))

    def judge(self, **env: int) -> Verdict | None:
        return judge_by_brute_force(self.finish(), self.of, {name.replace("_", "%"): n for name, n in env.items()})


# --- workgroup barriers -------------------------------------------------------------------------------------------


def test_without_a_barrier_a_write_and_a_read_race() -> None:
    b = Small()
    x, y = b.put(MINE), b.get(OTHER)
    assert b.judge() == race(x, y)


def test_each_wave_on_its_own_bytes_is_clean() -> None:
    b = Small()
    b.put(MINE)
    b.get(MINE)
    assert b.judge() == CLEAN


@pytest.mark.parametrize("target", ["", "gfx942", "gfx950", "gfx1201", "gfx1250", "sm_80", "sm_90"])
def test_a_shared_memory_barrier_orders(target: str) -> None:
    b = Small(target)
    b.put(MINE)
    b.sync(DRAIN)
    b.get(OTHER)
    assert b.judge() == CLEAN


@pytest.mark.parametrize(
    ("target", "clean"), [("gfx942", False), ("gfx1201", False), ("", False), ("sm_80", True), ("sm_90", True)]
)
def test_a_bare_barrier_orders_only_where_it_performs(target: str, clean: bool) -> None:
    b = Small(target)
    x = b.put(MINE)
    b.sync(BARE)
    y = b.get(OTHER)
    assert b.judge() == (CLEAN if clean else race(x, y))


def test_a_drain_before_a_bare_barrier_orders() -> None:
    b = Small()
    b.put(MINE)
    b.sync(ops.WaitCount((("lgkmcnt", 0),)))
    b.sync(BARE)
    b.get(OTHER)
    assert b.judge() == CLEAN


def test_a_drain_after_a_bare_barrier_does_not_order() -> None:
    b = Small()
    x = b.put(MINE)
    b.sync(BARE)
    b.sync(ops.WaitCount((("lgkmcnt", 0),)))
    y = b.get(OTHER)
    assert b.judge() == race(x, y)


@pytest.mark.parametrize("kind", ["wave", "proxy_async"])
def test_only_a_fence_between_proxies_performs_accesses_for_other_waves(kind: str) -> None:
    b = Small()
    b.put(MINE)
    b.sync(ops.Fence(kind))
    b.sync(BARE)
    b.get(OTHER)
    assert (b.judge() == CLEAN) == (kind == "proxy_async")


def test_split_barriers_order_what_lies_outside_the_pair() -> None:
    def make(read_inside: bool) -> tuple[Small, int, int]:
        b = Small("gfx1201")
        x = b.put(MINE)
        b.sync(ops.WaitCount((("dscnt", 0),)))
        b.sync(ops.Signal(-1))
        y = b.get(OTHER) if read_inside else -1
        b.sync(ops.Wait(-1))
        return b, x, y if read_inside else b.get(OTHER)

    b, _, _ = make(False)
    assert b.judge() == CLEAN
    b, x, y = make(True)
    assert b.judge() == race(x, y)


def test_ids_are_barriers_of_their_own() -> None:
    def judge(second: int) -> Verdict | None:
        b = Small("gfx1201")
        with b.branch(FIRST) as arms:
            b.sync(ops.Signal(-1))
            b.sync(ops.Wait(-1))
            arms.otherwise()
            b.sync(ops.Signal(second))
            b.sync(ops.Wait(second))
        return b.judge()

    assert judge(-1) == CLEAN
    assert judge(3) == HANG


def test_a_wait_without_a_signal_never_passes() -> None:
    b = Small("gfx1201")
    b.sync(ops.Wait(-1))
    assert b.judge() == HANG


@pytest.mark.parametrize(("target", "hangs"), [("gfx942", False), ("", True)])
def test_a_wave_that_has_ended_leaves_the_barrier(target: str, hangs: bool) -> None:
    b = Small(target)
    with b.branch(FIRST):
        b.add(g.End())
    b.sync(BARE)
    assert b.judge() == Verdict(frozenset(), hangs)


def test_the_end_of_a_wave_performs_its_accesses() -> None:
    b = Small()
    with b.branch(FIRST):
        b.put()
        b.add(g.End())
    b.sync(BARE)
    b.put()
    assert b.judge() == CLEAN


# --- counts -------------------------------------------------------------------------------------------------------


def test_a_copy_needs_a_wait_before_the_barrier() -> None:
    def make(*before: Any) -> tuple[Small, int, int]:
        b = Small()
        x = b.copy(MINE)
        for op in before:
            b.sync(op)
        return b, x, b.get(OTHER)

    assert make(ops.WaitCount((("vmcnt", 0),)), BARE)[0].judge() == CLEAN
    assert make(ops.SharedMemoryBarrier((("vmcnt", 0),)))[0].judge() == CLEAN
    assert make(ops.SharedMemoryBarrier(wait_async_ops=True))[0].judge() == CLEAN
    for before in ((DRAIN,), (BARE, ops.WaitCount((("vmcnt", 0),))), (ops.SharedMemoryBarrier((("lgkmcnt", 0),)),)):
        b, x, y = make(*before)
        assert b.judge() == race(x, y)


@pytest.mark.parametrize(("count", "clean"), [(0, True), (1, True), (2, False), (3, False)])
def test_a_count_leaves_the_newest_in_flight(count: int, clean: bool) -> None:
    b = Small()
    x = b.copy(MINE)
    b.load()
    b.sync(ops.WaitCount((("vmcnt", count),)))
    b.sync(BARE)
    y = b.get(OTHER)
    assert b.judge() == (CLEAN if clean else race(x, y))


@pytest.mark.parametrize(("count", "clean"), [(2, True), (3, True), (4, False)])
def test_counts_are_of_instructions(count: int, clean: bool) -> None:
    b = Small()
    x = b.copy(MINE)
    b.copy(Binary("+", MINE, Const(8)), least=3)
    b.sync(ops.WaitCount((("vmcnt", count),)))
    b.sync(BARE)
    y = b.get(OTHER)
    assert b.judge() == (CLEAN if clean else race(x, y))


@pytest.mark.parametrize(("performed", "clean"), [(True, True), (False, False)])
def test_a_count_above_zero_says_nothing_while_one_is_unordered(performed: bool, clean: bool) -> None:
    b = Small()
    b.load(in_order=False)
    if performed:  # what an earlier wait has performed is in nobody's way
        b.sync(ops.WaitCount((("vmcnt", 0),)))
    x = b.copy(MINE)
    b.load()
    b.sync(ops.WaitCount((("vmcnt", 1),)))
    b.sync(BARE)
    y = b.get(OTHER)
    assert b.judge() == (CLEAN if clean else race(x, y))


def test_a_drain_covers_what_counts_with_shared_memory() -> None:
    for counter, clean in (("lgkmcnt", True), ("vmcnt", False)):
        b = Small()
        foot = g.Footprint(g.Ref("%a", Const(0), MINE), (), 4)
        x = b.add(g.Access("write", foot, True), issues=(g.Issue(counter, 1, 1),))
        b.sync(DRAIN)
        y = b.get(OTHER)
        assert b.judge() == (CLEAN if clean else race(x, y))


def test_without_any_counter_copies_can_be_waited_for() -> None:
    b = Small("")
    b.copy(MINE)
    b.sync(ops.SharedMemoryBarrier(wait_async_ops=True))
    b.get(OTHER)
    assert b.judge() == CLEAN
    b = Small("sm_90")  # a bulk copy counts on nothing there: only an mbarrier can tell
    access = g.Access("write", g.Footprint(g.Ref("%a", Const(0), MINE), (), 4), True)
    x = b.add(access)
    b.sync(ops.SharedMemoryBarrier(wait_async_ops=True))
    y = b.get(OTHER)
    assert b.judge() == race(x, y)


@pytest.mark.parametrize(("count", "clean"), [(14, True), (15, False)])
def test_a_count_at_the_maximum_never_waits(count: int, clean: bool) -> None:
    b = Small()
    x = b.put(MINE)
    b.compute("scalars", issues=(g.Issue("lgkmcnt", 20, 20),))
    b.sync(ops.WaitCount((("lgkmcnt", count),)))
    b.sync(BARE)
    y = b.get(OTHER)
    assert b.judge() == (CLEAN if clean else race(x, y))


def test_unordered_and_unknown_counters_say_nothing() -> None:
    for counter, count, clean in (("storecnt", 0, True), ("storecnt", 1, False), ("nocnt", 0, False)):
        b = Small("gfx1201")
        foot = g.Footprint(g.Ref("%a", Const(0), MINE), (), 4)
        x = b.add(g.Access("write", foot, True), issues=(g.Issue("storecnt", 1, 1),))
        b.compute(issues=(g.Issue("storecnt", 1, 1),))
        b.sync(ops.WaitCount(((counter, count),)))
        b.sync(BARE)
        y = b.get(OTHER)
        assert b.judge() == (CLEAN if clean else race(x, y))


@pytest.mark.parametrize(("groups", "count", "clean"), [(1, 0, True), (1, 1, False), (2, 1, True), (0, 0, False)])
def test_groups_are_counted_once_they_are_closed(groups: int, count: int, clean: bool) -> None:
    b = Small("sm_80")
    x = b.copy(MINE)
    for _ in range(groups):
        b.sync(ops.CommitGroup(), issues=(g.Issue("group", 1, 1),))
    b.sync(ops.WaitCount((("group", count),)))
    b.sync(BARE)
    y = b.get(OTHER)
    assert b.judge() == (CLEAN if clean else race(x, y))


def test_tokens_name_copies_and_what_came_before_on_their_counter() -> None:
    def make(named: str, in_order: bool) -> tuple[Small, int, int]:
        b = Small()
        x = b.copy(MINE, token="%old")
        b.copy(Binary("+", MINE, Const(8)), token="%new", in_order=in_order)
        b.sync(ops.NullAsyncDep(Value("%none", DEP)))
        b.add(g.Assign((("%it", g.Token(named)), (named, g.Token("%none")))))
        b.sync(ops.SharedMemoryBarrier(async_deps=(Value("%it", DEP),)))
        return b, x, b.get(OTHER)

    assert make("%old", True)[0].judge() == CLEAN
    assert make("%old", False)[0].judge() == CLEAN
    assert make("%new", True)[0].judge() == CLEAN
    for named, in_order in (("%new", False), ("%none", True)):
        b, x, y = make(named, in_order)
        assert b.judge() == race(x, y)


def test_the_token_of_a_group_is_its_copies() -> None:
    for named, clean in (("%one", False), ("%two", True)):
        b = Small("sm_80")
        for name in ("%one", "%two"):
            x = b.copy(MINE if name == "%two" else Binary("+", MINE, Const(8)))
            b.sync(ops.CommitGroup(Value(name, DEP)), issues=(g.Issue("group", 1, 1),))
        b.sync(ops.SharedMemoryBarrier(async_deps=(Value(named, DEP),)))
        y = b.get(OTHER)
        assert b.judge() == (CLEAN if clean else race(x, y))


def test_a_token_does_not_cover_the_rest_of_its_group_nor_earlier_groups_of_an_empty_one() -> None:
    close = (g.Issue("group", 1, 1),)
    b = Small("sm_80")
    b.copy(Binary("+", MINE, Const(8)), token="%first")
    x = b.copy(MINE)
    b.sync(ops.CommitGroup(), issues=close)
    b.sync(ops.SharedMemoryBarrier(async_deps=(Value("%first", DEP),)))
    y = b.get(OTHER)
    assert b.judge() == race(x, y)
    b = Small("sm_80")
    x = b.copy(MINE)
    b.sync(ops.CommitGroup(), issues=close)
    b.sync(ops.CommitGroup(Value("%empty", DEP)), issues=close)
    b.sync(ops.SharedMemoryBarrier(async_deps=(Value("%empty", DEP),)))
    y = b.get(OTHER)
    assert b.judge() == race(x, y)


# --- stagger and order --------------------------------------------------------------------------------------------


def test_a_stagger_that_is_closed_by_the_other_half_ends() -> None:
    b = Small()
    b.sync(ops.ConditionalBarrier("high"))
    b.put(MINE)
    b.sync(DRAIN)
    b.get(MINE)
    b.sync(ops.ConditionalBarrier("low"))
    assert b.judge() == CLEAN


@pytest.mark.parametrize("behind", [0, 1])
def test_a_stagger_lets_different_barriers_meet(behind: int) -> None:
    """Wave 0 writes, then drains and meets wave 1, which is at the barrier before its own and reads after it."""
    b = Small()
    if behind:
        b.sync(ops.ConditionalBarrier("high"))
    with b.branch(FIRST) as arms:
        x = b.put(0)
        arms.otherwise()
        y = b.get(0)
    b.sync(DRAIN)
    if behind:
        b.sync(ops.ConditionalBarrier("low"))
    assert b.judge() == (CLEAN if behind else race(x, y))


def test_a_stagger_of_two_inverts() -> None:
    """Wave 0 reads at y before wave 1, two barriers behind, writes at x."""
    b = Small()
    b.sync(ops.ConditionalBarrier("high"))
    b.sync(ops.ConditionalBarrier("high"))
    with b.branch(Compare("==", WAVE, Const(1))):
        x = b.put(0)
    b.sync(DRAIN)
    with b.branch(FIRST):
        y = b.get(0)
    b.sync(DRAIN)
    b.sync(ops.ConditionalBarrier("low"))
    b.sync(ops.ConditionalBarrier("low"))
    assert b.judge() == Verdict(frozenset({("inversion", x, y)}), False)


@pytest.mark.parametrize(("target", "hangs"), [("", True), ("gfx942", False)])
def test_a_stagger_that_stays_open_hangs_unless_the_end_leaves(target: str, hangs: bool) -> None:
    b = Small(target)
    b.sync(ops.ConditionalBarrier("high"))
    b.sync(DRAIN)
    assert b.judge() == Verdict(frozenset(), hangs)


def test_an_order_against_the_program_is_an_inversion() -> None:
    """Wave 1 reads at point y what wave 0 writes at point x only after wave 1 has met it."""
    b = Small()
    with b.branch(FIRST):
        b.sync(DRAIN)
    with b.branch(FIRST):
        x = b.put(0)
    with b.branch(Compare("==", WAVE, Const(1))):
        y = b.get(0)
        b.sync(DRAIN)
    assert b.judge() == Verdict(frozenset({("inversion", x, y)}), False)


def test_arms_of_one_branch_have_no_order() -> None:
    b = Small()
    with b.branch(FIRST) as arms:
        b.sync(DRAIN)
        b.put(0)
        arms.otherwise()
        b.get(0)
        b.sync(DRAIN)
    assert b.judge() == CLEAN


def test_programs_and_ranges_of_a_dispatch_have_no_order() -> None:
    b = Small()
    b.program(0, 1)
    b.sync(DRAIN)
    b.put(0)
    b.add(g.End())
    b.program(1, 2)
    b.get(0)
    b.sync(DRAIN)
    assert b.judge() == CLEAN
    b = Small()
    b.add(g.Dispatch(((0, 1),)), 1, 4)
    b.sync(DRAIN)
    b.put(0)
    b.add(g.End())
    b.get(0)
    b.sync(DRAIN)
    assert b.judge() == CLEAN


def test_a_loop_comes_before_what_follows_it() -> None:
    """The test that ends a loop has no arms: wave 0 writes in the loop after wave 1 has read behind it."""
    b = Small()
    with b.loop("%k", 0, 1), b.branch(FIRST):
        b.sync(DRAIN)
        x = b.put(0)
    with b.branch(Compare("==", WAVE, Const(1))):
        y = b.get(0)
        b.sync(DRAIN)
    assert b.judge() == Verdict(frozenset({("inversion", x, y)}), False)


def test_iterations_come_before_points() -> None:
    """Wave 1 writes at x in iteration 1, after the barrier; wave 0 read at y in iteration 0, before it: in order."""

    def make(reading: int) -> tuple[Small, int, int]:
        b = Small()
        with b.loop("%k", 0, 2) as k:
            with b.branch(FIRST) as arms:
                with b.branch(Compare("==", k, Const(1))):
                    b.sync(DRAIN)
                arms.otherwise()
                with b.branch(Compare("==", k, Const(reading))):
                    b.sync(DRAIN)
                    x = b.put(0)
            with b.branch(FIRST), b.branch(Compare("==", k, Const(0))):
                y = b.get(0)
        return b, x, y

    assert make(1)[0].judge() == CLEAN
    b, x, y = make(0)
    assert b.judge() == Verdict(frozenset({("inversion", x, y)}), False)


def test_calls_stand_where_they_are_made() -> None:
    """The second call comes after the first, though both run the same point; the first reads after the second."""
    b = Small()
    with b.branch(FIRST) as arms:
        b.sync(DRAIN)
        arms.otherwise()
    with b.branch(FIRST):
        b.add(g.Call("put", (("%p", g.Ref("%a")),)))
    with b.branch(Compare("==", WAVE, Const(1))):
        b.add(g.Call("put", (("%p", g.Ref("%a")),)))
        b.sync(DRAIN)
    b.add(g.End())
    b.function("put", ("%p",))
    x = b.write("%p", issues=b.issue_on("local_write"))
    b.add(g.Return())
    assert b.judge() == Verdict(frozenset({("inversion", x, x)}), False)


# --- loops, names, memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slots", "trips", "clean"), [(2, 3, True), (1, 1, True), (1, 2, False), (1, 0, True)])
def test_two_slots_need_one_barrier_an_iteration(slots: int, trips: int, clean: bool) -> None:
    b = Small()
    upper = b.size("N", 2)
    with b.loop("%k", 0, upper) as k:
        slot = Binary("mod", k, Const(slots))
        x = b.put(MINE, slot=slot)
        b.sync(DRAIN)
        y = b.get(OTHER, slot=slot)
    assert b.judge(N=trips) == (CLEAN if clean else race(x, y))


def test_flags_choose_views() -> None:
    for flag, clean in ((0, True), (1, False)):
        b = Small()
        b.flag("%f")
        there = g.Either(Flag("%f"), g.Ref("%a", Const(0), MINE), g.Ref("%a", Const(1), MINE))
        b.add(g.Assign((("%v", there),)))
        x = b.write("%v", issues=b.issue_on("local_write"))
        y = b.get(OTHER)
        assert b.judge(_f=flag) == (CLEAN if clean else race(x, y))


@pytest.mark.parametrize(("offset", "clean"), [(None, True), (0, False), (14, False), (32, True)])
def test_buffers_share_memory_only_where_they_have_offsets(offset: int | None, clean: bool) -> None:
    b = Small()
    b.buffer("%b", 16, 1, offset)
    with b.branch(FIRST) as arms:
        x = b.write("%a", bytes=16)
        arms.otherwise()
        y = b.read("%b", bytes=16)
    assert b.judge() == (CLEAN if clean else race(x, y))


@pytest.mark.parametrize(("limit", "clean"), [(2, True), (3, False)])
def test_footprints_are_steps_below_a_limit(limit: int, clean: bool) -> None:
    b = Small()
    with b.branch(FIRST) as arms:
        x = b.write("%a", bytes=2, extents=(g.Extent(4, 6, Const(limit)),))  # bytes 0..2, 6..8, 12..14
        arms.otherwise()
        y = b.read("%a", offset=8, bytes=5)
    assert b.judge() == (CLEAN if clean else race(x, y))


@pytest.mark.parametrize(
    ("first", "second", "clean"),
    [
        ((False, "add"), (False, "add"), True),
        ((True, "add"), (False, "add"), False),
        ((False, "add"), (False, "max"), False),
        ((False, "add", "f32"), (False, "add", "i32"), False),
        ((False, "add", "i16"), (False, "add", "i16", 2), True),
        ((False, "add", "i16"), (False, "add", "i16", 1), False),
        ((False, "add", ""), (False, "add", ""), False),
    ],
)
def test_atomics_commute_if_they_do_the_same_to_the_same_elements(first: Any, second: Any, clean: bool) -> None:
    b = Small()
    with b.branch(FIRST) as arms:
        x = b.add_to(*first)
        arms.otherwise()
        y = b.add_to(*second)
    assert b.judge() == (CLEAN if clean else race(x, y))


def test_an_atomic_conflicts_with_a_read_and_reads_do_not() -> None:
    b = Small()
    b.get(0)
    x = b.get(0)
    assert b.judge() == CLEAN
    b = Small()
    x, y = b.add_to(), b.get(0)
    assert b.judge() == race(x, y)


def test_an_own_copy_must_be_waited_for() -> None:
    for waits, clean in ((False, False), (True, True)):
        b = Small()
        x = b.copy(MINE)
        if waits:
            b.sync(ops.WaitCount((("vmcnt", 0),)))
        y = b.get(MINE)
        assert b.judge() == (CLEAN if clean else Verdict(frozenset({("own", x, y)}), False))


def test_an_own_read_must_be_drained_before_a_copy_but_not_before_a_write() -> None:
    b = Small()
    b.get(MINE)
    b.put(MINE)
    assert b.judge() == CLEAN
    b = Small()
    x, y = b.get(MINE), b.copy(MINE)
    assert b.judge() == Verdict(frozenset({("own", x, y)}), False)


# --- named barriers and mbarriers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("arrivals", "hangs", "races"), [(2, False, False), (3, True, False), (1, False, True)])
def test_a_named_barrier_completes_after_its_arrivals(arrivals: int, hangs: bool, races: bool) -> None:
    b = Small("gfx1250")
    bar = b.object("%bar", BarrierObject("named_barrier", arrivals))
    with b.branch(FIRST) as arms:
        x = b.put(0)
        b.sync(ops.WaitCount((("dscnt", 0),)))
        b.sync(ops.Signal(bar))
        arms.otherwise()
        b.sync(ops.Signal(bar))
        b.sync(ops.Wait(bar))
        y = b.get(0)
    assert b.judge() == Verdict(frozenset({("race", x, y)} if races else ()), hangs)


def test_a_consumer_waits_for_each_phase_in_turn() -> None:
    """One arrival completes a phase; a wait that has not signalled departs from the next one."""
    for signals, hangs in ((1, True), (2, False), (3, False)):
        b = Small("gfx1250")
        bar = b.object("%bar", BarrierObject("named_barrier", 1))
        with b.branch(FIRST) as arms:
            for _ in range(signals):
                b.sync(ops.Signal(bar))
            arms.otherwise()
            b.sync(ops.Wait(bar))
            b.sync(ops.Wait(bar))
        assert b.judge() == Verdict(frozenset(), hangs)


def test_a_wait_is_for_the_phase_that_was_signalled() -> None:
    """Wave 0 completes phase 1 alone; wave 1 signals phase 2, which nobody completes."""
    for signals, hangs in ((2, True), (3, False)):
        b = Small("gfx1250")
        bar = b.object("%bar", BarrierObject("named_barrier", 2))
        with b.branch(FIRST):
            for _ in range(signals):
                b.sync(ops.Signal(bar))
        b.sync(BARE)
        with b.branch(Compare("==", WAVE, Const(1))):
            b.sync(ops.Signal(bar))
            b.sync(ops.Wait(bar))
        assert b.judge() == Verdict(frozenset(), hangs)


def test_a_wait_uses_up_its_signal() -> None:
    for waits, hangs in ((1, False), (2, True)):
        b = Small("gfx1250", waves=1)
        bar = b.object("%bar", BarrierObject("named_barrier", 1))
        b.sync(ops.Signal(bar))
        for _ in range(waits):
            b.sync(ops.Wait(bar))
        assert b.judge() == Verdict(frozenset(), hangs)


def test_two_orders_are_a_race_without_any_overlap() -> None:
    """A named barrier of two as a lock: whoever signals first completes the phase that wave 0 has begun and enters;
    its second signal lets the other enter."""
    b = Small("gfx1250")
    bar = b.object("%lock", BarrierObject("named_barrier", 2))
    with b.branch(FIRST):
        b.sync(ops.Signal(bar))
    b.sync(BARE)
    b.sync(ops.Signal(bar))
    b.sync(ops.Wait(bar))
    x = b.put(0)
    b.sync(ops.WaitCount((("dscnt", 0),)))
    b.sync(ops.Signal(bar))
    graph, target = b.finish(), b.of
    seen = explore(unroll(graph, target, {}), 10_000)
    assert seen is not None
    assert seen.during == [0, 0]
    assert judge_by_brute_force(graph, target, {}) == race(x, x)


def produced(expect: int, size: int = 4, parity: int = 0, target: str = "sm_90") -> tuple[Small, int, int]:
    """Wave 0 starts a copy that reports and arrives; wave 1 waits and reads."""
    b = Small(target)
    bar = b.object("%full", BarrierObject("mbarrier", 1, 2))
    with b.branch(FIRST) as arms:
        kind = "tensor_load_to_lds"
        b.sync(ops.MbarrierArrive(Place(bar, Const(1)), expect))
        x = b.copy(0, kind, size=size, mbarrier=g.Ref("%full", Const(1)))
        arms.otherwise()
        b.sync(ops.MbarrierWait(Place(bar, Const(1)), Const(parity)))
        y = b.get(0)
    return b, x, y


@pytest.mark.parametrize("target", ["gfx1250", "sm_90"])
def test_an_mbarrier_waits_for_the_bytes_it_expects(target: str) -> None:
    assert produced(4, target=target)[0].judge() == CLEAN


def test_an_mbarrier_that_expects_nothing_lets_a_copy_race() -> None:
    b, x, y = produced(0)
    assert b.judge() == race(x, y)


@pytest.mark.parametrize(("expect", "size"), [(8, 4), (4, 8)])
def test_an_mbarrier_that_expects_other_bytes_hangs(expect: int, size: int) -> None:
    assert produced(expect, size)[0].judge() == HANG


def test_a_wait_for_the_wrong_parity_passes_too_early_or_never() -> None:
    b, x, y = produced(4, parity=1)
    verdict = b.judge()
    assert verdict is not None
    assert verdict.hang  # wave 1 comes after the phase has completed
    assert verdict.findings == {("race", x, y)}  # or before it


def test_a_reporting_copy_outlives_its_wave_and_is_performed_in_the_end() -> None:
    b, _, _ = produced(4)
    machine = unroll(b.finish(), b.of, {})
    (copy,) = (each for each in machine.flights if each.is_async)
    assert machine.waves[0][-1].kind == "end"
    assert machine.waves[0][-1].needs == 0
    seen = explore(machine, 1000)
    assert seen is not None
    assert not seen.hang
    assert copy.report == (0, 4)


# --- proxies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", ["none", "before", "after", "wave"])
def test_an_ordinary_write_needs_a_fence_before_the_async_proxy_reads(fence: str) -> None:
    b = Small("sm_90")
    x = b.put(MINE)
    if fence in ("before", "wave"):
        b.sync(ops.Fence("proxy_async" if fence == "before" else "wave"))
    b.sync(BARE)
    if fence == "after":
        b.sync(ops.Fence("proxy_async"))
    y = b.copy(OTHER, "lds_to_global")
    assert b.judge() == (CLEAN if fence in ("before", "after") else race(x, y))


def test_a_fence_of_a_wave_that_did_not_meet_the_writer_is_none() -> None:
    b = Small("sm_90", waves=3)
    with b.branch(Compare("==", WAVE, Const(2))):
        b.sync(ops.Fence("proxy_async"))
        b.add(g.End())
    with b.branch(FIRST):
        x = b.put(0)
    b.sync(BARE)
    with b.branch(Compare("==", WAVE, Const(1))):
        y = b.copy(0, "lds_to_global")
    assert b.judge() == race(x, y)


def test_the_generic_proxy_needs_no_fence_after_the_async_one() -> None:
    b = Small("sm_90")
    b.copy(MINE, "lds_to_global")
    b.sync(ops.CommitGroup(), issues=(g.Issue("group", 1, 1), g.Issue("bulk_group", 1, 1)))
    b.sync(ops.WaitCount((("bulk_group", 0),)))
    b.sync(BARE)
    b.put(OTHER)
    assert b.judge() == CLEAN


# --- limits -------------------------------------------------------------------------------------------------------


def test_too_many_states_are_no_verdict() -> None:
    b = Small()
    for offset in range(4):
        b.put(Binary("+", MINE, Const(8 * offset)))
    graph, target = b.finish(), b.of
    seen = explore(unroll(graph, target, {}), 10**6)
    assert seen is not None
    assert judge_by_brute_force(graph, target, {}, limit=seen.states) == CLEAN
    assert judge_by_brute_force(graph, target, {}, limit=seen.states - 1) is None


def test_states_are_counted_right() -> None:
    """A wave with one access: before it, in flight, performed, ended. Two of them: 16 states, in any order."""
    b = Small()
    b.put(MINE)
    seen = explore(unroll(b.finish(), b.of, {}), 100)
    assert seen is not None
    assert seen.states == 16


# --- random small graphs ------------------------------------------------------------------------------------------

SAMPLE = 300
SYNC = get_args(g.GraphSyncOp)
FEATURES = """
    drain-alone drain-counts drain-all drain-deps id-1 id-other id-named count-0 count-some count-groups
    deps-wait group-token expects fence-wave fence-proxy_async low high dispatch programs call either
    assign-token branch-wave branch-flag branch-size trips-0 trips-1 trips-2 trips-3 several-ends apart
    overlapping slots read write atomic async-read async-write fetches keeps reports unordered only-counts
    limit per_wave waves-2 waves-3
""".split()


def features(graph: g.SyncGraph, env: dict[str, int]) -> Iterator[str]:
    yield f"waves-{graph.waves}"
    yield from ["programs"] * (len(graph.programs) > 1)
    yield from ["several-ends"] * (sum(isinstance(point.action, g.End) for point in graph.points) > len(graph.programs))
    first, second = graph.buffers
    yield "apart" if None in (first.offset, second.offset) else "overlapping" if second.offset < first.bytes else "side"
    for loop in graph.loops:
        yield f"trips-{env['N'] if loop.upper == Name('N') else loop.most}"
    for point in graph.points:
        yield point.under
        yield from ["unordered"] * any(not issue.in_order for issue in point.issues)
        match point.action:
            case g.Access() as access:
                yield from of_access(access)
            case g.Sync(op):
                yield from of_sync(op)
            case g.Branch(cond):
                yield from ["branch-wave"] * ("'wave'" in str(cond))
                yield from ["branch-flag"] * ("'%f'" in str(cond))
                yield from ["branch-size"] * ("'N'" in str(cond) and point.label == "conditional")
            case g.Compute():
                yield from ["only-counts"] * bool(point.issues)
            case g.Assign(pairs):
                yield from ("either" for _, value in pairs if isinstance(value, g.Either))
                yield from ("assign-token" for _, value in pairs if isinstance(value, g.Token))
            case g.Dispatch() | g.Call() as action:
                yield type(action).__name__.lower()


def of_access(access: g.Access) -> Iterator[str]:
    yield f"async-{access.effect}" if access.is_async else access.effect
    yield from ["fetches" if access.fetches else "keeps"] * (access.effect == "atomic")
    yield from ["reports"] * (access.mbarrier is not None)
    yield from ["limit"] * any(extent.limit is not None for extent in access.footprint.extents)
    yield from ["slots"] * ("mod" in str(access.footprint.place.slot))


def of_sync(op: Any) -> Iterator[str]:
    match op:
        case ops.SharedMemoryBarrier(counts, everything, deps):
            yield "drain-counts" if counts else "drain-all" if everything else "drain-deps" if deps else "drain-alone"
        case ops.Signal(int(number)) | ops.Wait(int(number)):
            yield "id-1" if number == -1 else "id-other"
        case ops.Signal() | ops.Wait():
            yield "id-named"
        case ops.WaitCount(counts, deps):
            yield from ("count-groups" if "group" in name else "count-some" if n else "count-0" for name, n in counts)
            yield from ["deps-wait"] * bool(deps)
        case ops.CommitGroup(result):
            yield from ["group-token"] * (result is not None)
        case ops.MbarrierArrive(_, expect):
            yield from ["expects"] * bool(expect)
        case ops.Fence(kind):
            yield f"fence-{kind}"
        case ops.ConditionalBarrier(half):
            yield half


def test_small_graphs_hold_everything() -> None:
    synced: Counter[type] = Counter()
    had: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    for seed in range(SAMPLE):
        graph, target, env = small_graph(random.Random(seed))
        assert check_graph(graph) == []
        assert graph.target == target.name
        assert small_graph(random.Random(seed)) == (graph, target, env)
        targets[target.name] += 1
        synced.update({type(point.action.op) for point in graph.points if isinstance(point.action, g.Sync)})
        had.update(set(features(graph, env)))
    assert {op.__name__: synced[op] for op in SYNC if synced[op] < 5} == {}
    assert {name: had[name] for name in FEATURES if had[name] < 5} == {}
    assert {name: n for name, n in targets.items() if n < 10} == {}
    assert set(targets) == {"", "gfx942", "gfx950", "gfx1201", "gfx1250", "sm_80", "sm_90"}


@pytest.mark.slow
def test_small_graphs_have_verdicts_of_every_kind() -> None:
    found: Counter[str] = Counter()
    for seed in range(SAMPLE):
        verdict = judge_by_brute_force(*small_graph(random.Random(seed)), limit=20_000)
        if verdict is None:
            found["unknown"] += 1
            continue
        kinds = {kind for kind, _, _ in verdict.findings} | ({"hang"} if verdict.hang else set())
        found.update(kinds or {"clean"})
    wanted = {"clean": 0.25, "race": 0.2, "hang": 0.1, "own": 0.05, "inversion": 0.02}
    assert {kind: found[kind] for kind, part in wanted.items() if found[kind] < part * SAMPLE} == {}
    assert found["unknown"] <= 0.03 * SAMPLE


def test_proxies_appear_only_where_they_are_asked_for() -> None:
    def asynchronous(proxies: bool) -> int:
        graphs = [small_graph(random.Random(seed), proxies)[0] for seed in range(SAMPLE)]
        actions = [point.action for graph in graphs for point in graph.points]
        return sum(isinstance(action, g.Access) and action.proxy == "async" for action in actions)

    assert asynchronous(False) == 0
    assert asynchronous(True) >= 10
