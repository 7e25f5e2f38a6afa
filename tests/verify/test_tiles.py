"""Persistent tiles: rounds that are counted on over tiles, each of a symbolic number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from oracles.rings.generate import Body, Counting, Round, round_of
from oracles.rings.model import (
    PART,
    Arrive,
    Barrier,
    Buffer,
    Copy,
    Expr,
    Fence,
    Guard,
    Loop,
    Program,
    Read,
    Role,
    Signal,
    Statement,
    Sync,
    Wait,
    Write,
    as_expr,
    less,
    select,
)
from oracles.rings.mutants import edited
from oracles.rings.search import RIGHT, search_all
from oracles.rings.text import to_tide
from tidegate.files import load_text
from tidegate.session import sessions_of
from tidegate.verify import phase_cases, phase_numbering, phase_proof
from tidegate.verify.model import Verification
from tidegate.verify.verify import verify

ZERO, N, T = as_expr(0), Expr("N"), Expr("T")
Rounds = Callable[[Round], Body]


def proof_of(program: Program) -> Verification:
    (session,) = sessions_of(load_text(to_tide(program), f"{program.name}.tide"), None)
    return verify(session.graph, session.target)


def fill(at: Round) -> Body:
    copy = (Arrive("full", at.slot, PART), Copy("a", at.slot, "full", at.slot))
    return (Wait("empty", at.slot, at.before), *copy)


def take(at: Round) -> Body:
    return (Wait("full", at.slot, at.parity), Read("a", at.slot), Fence(), Arrive("empty", at.slot))


def tiles(
    kind: str,
    slots: int = 3,
    producer: Rounds = fill,
    consumer: Rounds = take,
    per_tile: Callable[[Expr], Body] | None = None,
    *more: Role,
    given_by: str = "size",
) -> Program:
    """One producer, one consumer, and what the consumer does behind each tile."""
    counting = Counting(kind)
    roles = (
        Role("w0", 1, counting.loops("w0", slots, producer)),
        Role("r0", 1, counting.loops("r0", slots, consumer, per_tile)),
    )
    barriers = (Barrier("full", 1, slots), Barrier("empty", 1, slots))
    return Program(f"tiles_{kind}", (Buffer("a", slots),), barriers, (*roles, *more), ("T", "N"), given_by=given_by)


def with_epilogue(kind: str, slots: int = 2, store: int = 2, early: bool = False) -> Program:
    """An epilogue role takes what the consumer leaves of each tile."""

    def put(t: Expr) -> Body:
        at = round_of(t, store)
        write, arrive = Write("c", at.slot, 0), Arrive("cfull", at.slot)
        return (Wait("cempty", at.slot, at.before), *((arrive, write) if early else (write, arrive)))

    e = Expr("t_e")
    at = round_of(e, store)
    out = (Wait("cfull", at.slot, at.parity), Read("c", at.slot), Arrive("cempty", at.slot))
    found = tiles(kind, slots, fill, take, put, Role("e", 1, (Loop(e.op, ZERO, T, out),)))
    rings = (Barrier("cfull", 1, store), Barrier("cempty", 1, store))
    return replace(found, buffers=(*found.buffers, Buffer("c", store, 1)), barriers=(*found.barriers, *rings))


def in_turn(slots: int = 3, reset: bool = False) -> Program:
    """Two consumers take whole tiles in turn and skip the rounds of the other one's."""
    at = round_of(Expr("n_w0"), slots)
    producer = replace(Counting("counted").counted("w0", fill(at), ()), stop=T * 2)
    roles = [Role("w0", 1, (producer,))]
    for mine in range(2):
        name, turn = f"r{mine}", Expr(f"t_r{mine}")
        loop = Counting("counted").counted(name, take(round_of(Expr(f"n_{name}"), slots)), ())
        (outer,) = loop.carried
        skips = outer.next if reset else outer.next + N
        outer = replace(outer, first=N if mine else ZERO, next=skips)
        wait = Wait("turn", as_expr(mine), turn % 2 if mine else (turn + 1) % 2)
        body = (wait, *loop.body, Arrive("turn", as_expr(1 - mine)))
        roles.append(Role(name, 1, (replace(loop, body=body, carried=(outer,)),)))
    barriers = (Barrier("full", 1, slots), Barrier("empty", 1, slots), Barrier("turn", 1, 2))
    return Program("in_turn", (Buffer("a", slots),), barriers, tuple(roles), ("T", "N"))


def guarded(at: Round) -> Body:
    """The first rounds of the kernel need no empty slot."""
    assert at.round is not None
    return (Guard(less(2, at.round), fill(at)[:1]), *fill(at)[1:])


def late_release(at: Round) -> Body:
    """A slot is given back a round later, but for the last of all."""
    assert at.round is not None
    wait, read, fence, _ = take(at)
    return (wait, read, fence, Guard(less(0, at.round), (Arrive("empty", (at.round - 1) % 3),)))


def with_named(kind: str) -> Program:
    """A named barrier of two roles behind each tile."""
    found = tiles(kind, 2, fill, take, lambda _: (Sync("pair"),))
    other = Role("o", 1, (Loop("t_o", ZERO, T, (Signal("pair"),)),))
    return replace(found, roles=(*found.roles, other), barriers=(*found.barriers, Barrier("pair", 2)))


RIGHT_ONES: dict[str, Program] = {
    **{f"{kind}, {slots} slots": tiles(kind, slots) for kind in ("counted", "carried") for slots in (1, 2, 3, 8)},
    "numbers from outside, perhaps 0": tiles("carried", 4, given_by="argument"),
    "an epilogue role": with_epilogue("counted"),
    "an epilogue role, slot and phase carried": with_epilogue("carried", 4, 1),
    "tiles in turn": in_turn(),
    "tiles in turn, even slots": in_turn(4),
    "a guard on the first rounds": tiles("counted", 3, guarded),
    "given back a round later": tiles("counted", 3, fill, late_release),
}


@pytest.mark.parametrize("name", RIGHT_ONES)
def test_a_right_one_is_proved(name: str) -> None:
    program = RIGHT_ONES[name]
    assert search_all(program).kind == RIGHT
    assert proof_of(program).is_proved


# --- mistakes -----------------------------------------------------------------------------------------------------


def changed(program: Program, role: int, path: tuple[int, ...], new: Callable[[Any], Statement]) -> Program:
    return edited(program, role, path, lambda old: (new(old),))


def forgets(program: Program, role: int, which: int) -> Program:
    """A counter, a slot or a phase begins anew in each tile."""

    def new(loop: Loop) -> Loop:
        carried = list(loop.carried)
        carried[which] = replace(carried[which], next=ZERO)
        return replace(loop, carried=tuple(carried))

    return changed(program, role, (0,), new)


def in_rounds(program: Program, role: int, new: Callable[[Loop], Loop]) -> Program:
    """The inner loop changed."""
    return changed(program, role, (0, 0), new)


def wraps_at(loop: Loop, last: int) -> Loop:
    """The slot wraps one too late or too early; its phase with it."""
    slot, phase = (Expr(each.name) for each in loop.carried)
    wraps = Expr("==", (slot + 1, as_expr(last)))
    return replace(
        loop,
        carried=(
            replace(loop.carried[0], next=select(wraps, 0, slot + 1)),
            replace(loop.carried[1], next=select(wraps, as_expr(1) - phase, phase)),
        ),
    )


def without(loop: Loop, place: int) -> Loop:
    return replace(loop, body=(*loop.body[:place], *loop.body[place + 1 :]))


def flipped(at: Round) -> Body:
    return (Wait("full", at.slot, at.before), *take(at)[1:])


def early(at: Round) -> Body:
    wait, read, fence, arrive = take(at)
    return (wait, arrive, read, fence)


WRONG_ONES: dict[str, Program] = {
    "the consumer's phase is not carried over tiles": forgets(tiles("carried"), 1, 1),
    "the producer's phase is not carried over tiles": forgets(tiles("carried"), 0, 1),
    "the consumer's slot is not carried over tiles": forgets(tiles("carried"), 1, 0),
    "the counter begins anew in each tile": forgets(tiles("counted"), 1, 0),
    "the consumer has a round more in each tile": in_rounds(
        tiles("counted"), 1, lambda loop: replace(loop, stop=N + 1)
    ),
    "the producer has a round more in each tile": in_rounds(
        tiles("carried"), 0, lambda loop: replace(loop, stop=N + 1)
    ),
    "the consumer has a tile less": changed(tiles("counted"), 1, (0,), lambda loop: replace(loop, stop=T - 1)),
    "the slot wraps too early": in_rounds(tiles("carried"), 1, lambda loop: wraps_at(loop, 2)),
    "parity flipped": tiles("carried", 2, fill, flipped),
    "no arrival": in_rounds(tiles("counted", 2), 1, lambda loop: without(loop, 3)),
    "no wait for a full slot": in_rounds(tiles("counted", 2), 1, lambda loop: without(loop, 0)),
    "no wait for an empty slot": in_rounds(tiles("carried", 2), 0, lambda loop: without(loop, 0)),
    "no fence": in_rounds(tiles("carried", 2), 1, lambda loop: without(loop, 2)),
    "early release": tiles("counted", 2, fill, early),
    "the epilogue's slot is filled behind its arrival": with_epilogue("counted", early=True),
    "tiles in turn, counters that do not skip": in_turn(3, reset=True),
    "a guard that is a round too long": tiles("counted", 2, guarded),
}


@pytest.mark.parametrize("name", WRONG_ONES)
def test_a_wrong_one_is_not_proved(name: str) -> None:
    program = WRONG_ONES[name]
    assert search_all(program).is_wrong
    assert not proof_of(program).is_proved


# --- every obligation is needed -----------------------------------------------------------------------------------

LATE = 40  # rounds beyond those that are tried for a guess


def late_parity(at: Round) -> Body:
    assert at.round is not None
    return (Wait("full", at.slot, select(less(at.round, LATE), at.parity, at.before)), *take(at)[1:])


def late_slot(at: Round) -> Body:
    assert at.round is not None
    slot = select(less(at.round, LATE), at.slot, (at.round + 1) % 2)
    return (*take(at)[:3], Arrive("empty", slot))


def few_rounds(slots: int, wrong: Statement) -> Program:
    """Wrong where a tile has two rounds: fewer than a ring of so many slots has by far."""
    return tiles("counted", slots, fill, lambda at: (*take(at), Guard(less(N, 3), (wrong,))))


NEEDED: dict[str, tuple[Program, str, Any, str, Any]] = {
    "parities": (
        tiles("counted", 2, fill, late_parity),
        "parity is not that of the phase",
        phase_numbering.ByTile,
        "has_parity",
        lambda *_: True,
    ),
    "slots": (
        tiles("counted", 2, fill, late_slot),
        "a slot of `%empty`",
        phase_numbering.ByTile,
        "has_slot",
        lambda *_: True,
    ),
}


@pytest.mark.parametrize("name", NEEDED)
def test_an_obligation_left_out_is_noticed(name: str) -> None:
    program, said, owner, what, instead = NEEDED[name]
    found = proof_of(program)
    assert said in found.undecided[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, what, instead)
        assert proof_of(program).is_proved


def test_few_rounds_are_cases_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    program = few_rounds(8, Arrive("empty", ZERO))
    assert search_all(program).kind != RIGHT
    assert not proof_of(program).is_proved
    cases = phase_cases.cases_of
    monkeypatch.setattr(phase_proof, "cases_of", lambda *args: cases(*args)[:1])
    assert proof_of(program).is_proved


def test_roles_that_share_no_number_of_rounds() -> None:
    """Each role is right by itself; nobody knows whether %n and %m are one number."""
    text = to_tide(tiles("counted", 2, given_by="argument"))
    assert text.count("in 0 .. %n") == 2
    other = text.replace("%n: index", "%n: index, %m: index").replace("in 0 .. %n", "in 0 .. %m", 1)
    (session,) = sessions_of(load_text(other, "other.tide"), None)
    assert not verify(session.graph, session.target).is_proved


# --- barriers that nobody can compute -----------------------------------------------------------------------------

NOW_AND_THEN = """target sm_90
kernel @now_and_then(%X: global<64xf32>, %Y: global<64xf32>) sizes(N = 8, M = 3) waves 2 {
  %a = alloc : lds<64xf32, slots = 2>
  %c = alloc : lds<2x64xf32>
  %full = new_barrier : mbarrier<1, slots = 2>
  %zero = fill 0.0 : tile<64xf32>
  iterate %k in 0 .. N {
    conditional wave == 0 {
      fence proxy_async
      mbarrier_arrive %full[%k mod 2] expect 256
      tensor_load_to_lds %X[0] to %a[%k mod 2] reports %full[%k mod 2] : tile<64xf32>
    }
    mbarrier_wait %full[%k mod 2] parity %k // 2 mod 2
    %x = local_read %a[%k mod 2] : tile<64xf32>
    conditional %k mod M == 0 {
      local_write %zero, %c[wave, 0]
      workgroup_barrier
      %y = local_read %c[0, 0] : tile<64xf32>
      workgroup_barrier
    }
    workgroup_barrier
  }
}
"""


def verdict_of(text: str) -> Verification:
    (session,) = sessions_of(load_text(text, "text.tide"), None)
    return verify(session.graph, session.target)


def test_a_barrier_under_a_condition_that_nobody_can_compute() -> None:
    """All waves come to it or none: the program without objects says what it orders."""
    assert verdict_of(NOW_AND_THEN).is_proved


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_barrier_that_is_missing_is_noticed(place: int) -> None:
    parts = NOW_AND_THEN.split("workgroup_barrier")
    text = "workgroup_barrier".join(parts[: place + 1]) + "workgroup_barrier".join(parts[place + 1 :])
    assert verdict_of(text).is_proved == (place == 1)  # the one behind it is enough


def test_what_such_a_barrier_may_order_is_not_taken_for_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_proof, "still_loose", lambda flow, target, pairs, reporting: list(pairs))
    assert "under conditions that nobody can compute" in verdict_of(NOW_AND_THEN).undecided[-1]


def test_a_wait_that_such_a_barrier_keeps_from_ending() -> None:
    """Wave 1 waits for what wave 0 does behind a barrier that both come to, if they do at all."""
    text = NOW_AND_THEN.replace(
        "    conditional wave == 0 {\n      fence",
        "    conditional wave == 1 {\n      mbarrier_wait %full[%k mod 2] parity %k // 2 mod 2\n    }\n"
        "    conditional %k mod M == 0 {\n      workgroup_barrier\n    }\n"
        "    conditional wave == 0 {\n      fence",
    )
    assert not verdict_of(text).is_proved
