"""Barrier objects for all trip counts: known answers, obligations left out, random programs of another author."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from oracles.rings.cases import CASES, READ, WAIT_FULL, J, K, crossed, loop, ring
from oracles.rings.compare import PROVED, compare, programs
from oracles.rings.generate import draw
from oracles.rings.model import Arrive, Barrier, Elected, Fence, Program, Role, Sync, Wait, as_expr, less, select
from oracles.rings.search import RIGHT, search_all
from oracles.rings.text import to_tide
from tidegate.files import load_text
from tidegate.session import sessions_of
from tidegate.verify import phase_accesses, phase_obligations, phase_order, phase_proof
from tidegate.verify.model import Verification
from tidegate.verify.phase_statements import WAITS, ObjectUseAt
from tidegate.verify.verify import verify

ZERO = as_expr(0)
LATE = 40  # the round from which on something is wrong: beyond those that are tried for a guess


def proof_of(program: Program) -> Verification:
    (session,) = sessions_of(load_text(to_tide(program), f"{program.name}.tide"), None)
    return verify(session.graph, session.target)


@pytest.mark.parametrize("name", CASES)
def test_known_answers(name: str) -> None:
    program, kind = CASES[name]
    assert proof_of(program).is_proved == (kind == RIGHT)


# --- every obligation is needed -----------------------------------------------------------------------------------


def late(*roles: Role, **counts: int) -> Program:
    return Program("late", (), tuple(Barrier(name, count, 1) for name, count in counts.items()), roles)


def parity_late() -> Program:
    """The reader asks for the other parity from some round on."""
    parity = select(less(J, LATE), J % 2, (J + 1) % 2)
    there, back = Arrive("full", ZERO), Wait("empty", ZERO, K % 2)
    one = Role("one", 1, (loop(K, there, back),))
    return late(one, Role("two", 1, (loop(J, Wait("full", ZERO, parity), Arrive("empty", ZERO)),)), full=1, empty=1)


Off = Callable[[pytest.MonkeyPatch], None]


def without(owner: Any, name: str, value: Any) -> Off:
    return lambda patch: patch.setattr(owner, name, value)


def nothing(_: object) -> Any:
    return iter(())


OF_ONE = phase_obligations._Obligations
# A program that is wrong, what is said of it, and the obligation without which it would be proved.
NEEDED: dict[str, tuple[Program, str, Off]] = {
    "parities": (parity_late(), "parity is not that of the phase", without(OF_ONE, "parities", nothing)),
    "one after the other": (
        CASES["an arrival too many while bytes are out"][0],
        "may come into the next one",
        without(OF_ONE, "one_after_the_other", nothing),
    ),
    "no miss before": (
        CASES["every other generation"][0],
        "and pass too early",
        without(OF_ONE, "no_miss_before", nothing),
    ),
    "no miss behind": (
        CASES["an observer that arrives nowhere"][0],
        "and never end",
        without(OF_ONE, "no_miss_behind", nothing),
    ),
}
# The same, of programs that hang in every run, where a guess is made without one.
NEEDED_WITHOUT_A_RUN: dict[str, tuple[Program, str, Off]] = {
    "counts": (
        CASES["count too large"][0],
        "has fewer arrivals than the 2",
        without(OF_ONE, "counts", nothing),
    ),
    "bytes": (
        CASES["bytes too many"][0],
        "are not those of its copies",
        without(OF_ONE, "counts", nothing),
    ),
    "no circle": (crossed(), "in a circle", without(phase_order.Precedence, "has_circle", False)),
}


@pytest.mark.parametrize("name", NEEDED)
def test_an_obligation_left_out_is_noticed(name: str) -> None:
    program, said, off = NEEDED[name]
    found = proof_of(program)
    assert said in found.undecided[0]
    with pytest.MonkeyPatch.context() as patch:
        off(patch)
        assert proof_of(program).is_proved


@pytest.mark.parametrize("name", NEEDED_WITHOUT_A_RUN)
def test_an_obligation_left_out_is_noticed_without_a_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def guess(_: object, counted: list[ObjectUseAt], *__: object) -> dict[ObjectUseAt, str]:
        slots = {each: each.barrier.slots for each in counted}
        early = {each: each.barrier.name == "%empty" and each.kind == WAITS for each in counted}
        return {each: f"g = floor(i0/{slots[each]}) - {int(early[each])}" for each in counted}

    monkeypatch.setattr(phase_proof, "guess", guess)
    program, said, off = NEEDED_WITHOUT_A_RUN[name]
    assert said in proof_of(program).undecided[0]
    with pytest.MonkeyPatch.context() as patch:
        off(patch)
        assert proof_of(program).is_proved


def test_accesses_are_asked_about() -> None:
    program, _ = CASES["early release"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phase_accesses.Accesses, "clashes", nothing)
        assert proof_of(program).is_proved
    (suspect,) = proof_of(program).suspects
    assert (suspect.why, suspect.exact) == ("unmet", True)


ACROSS_A_WALL = """target gfx1250
kernel @across() waves 2 {
  %p = new_barrier : named_barrier<2>
  specialize {
    waves 0 .. 1 {
      signal %p
      wait %p
      workgroup_barrier
    }
    waves 1 .. 2 {
      workgroup_barrier
      signal %p
      wait %p
    }
  }
}
"""


def test_a_circle_by_way_of_a_barrier_of_all_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_proof, "guess", lambda *_: {})
    (session,) = sessions_of(load_text(ACROSS_A_WALL, "across.tide"), None)
    assert "in a circle" in verify(session.graph, session.target).undecided[-1]


WITHOUT_AN_ARRIVAL = """target gfx1250
kernel @without_an_arrival() waves 2 {
  %p = new_barrier : named_barrier<1>
  specialize {
    waves 0 .. 1 {
      signal %p
    }
    waves 1 .. 2 {
      wait %p
    }
  }
}
"""


def test_a_wait_without_a_parity_is_for_an_arrival_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_proof, "guess", lambda _, counted, *__: dict.fromkeys(counted, "g = 0"))
    (session,) = sessions_of(load_text(WITHOUT_AN_ARRIVAL, "alone.tide"), None)
    assert "without an arrival of its own" in verify(session.graph, session.target).undecided[0]
    monkeypatch.setattr(OF_ONE, "own_arrivals", nothing)
    assert verify(session.graph, session.target).is_proved


def test_a_run_that_would_be_long_is_not_made(capfd: pytest.CaptureFixture[str]) -> None:
    """It used to end in a callback of isl, which printed a traceback."""
    text = to_tide(crossed())
    assert "in 0 .. N" in text
    (session,) = sessions_of(load_text(text.replace("in 0 .. N", "in 0 .. 1000000000"), "long.tide"), None)
    found = verify(session.graph, session.target)
    assert found.undecided == ("barrier objects: more rounds than are tried for a guess",)
    assert capfd.readouterr().err == ""


def test_waits_that_cross_are_seen_by_a_run() -> None:
    assert "a wait for `%here` never ends" in proof_of(crossed()).undecided[0]


# --- random programs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_no_false_proof(first: int) -> None:
    found = [compare(kind, program, simulate=False) for kind, program in programs(range(first, first + 10))]
    assert not [each.program.name for each in found if each.is_false_proof]
    assert not [each.program.name for each in found if each.is_false_alarm]
    assert sum(each.answer.kind == PROVED for each in found) >= 5


def test_a_ring_that_is_filled_in_turn_is_proved() -> None:
    """Two consumers release the slots of one ring in turn, so that phases of a slot come from either."""
    program = draw(98)
    assert program.name == "pingpong_98"
    assert program.buffers[0].slots == 3
    assert search_all(program).kind == RIGHT
    assert proof_of(program).is_proved


def test_a_fence_of_another_wave_counts() -> None:
    """All waves of a group have read when the first of them fences and releases."""
    bodies = {
        "fenced": (Fence(), Arrive("empty", J % 2)),
        "not fenced": (Arrive("empty", J % 2),),
    }
    group = Barrier("group", 2)
    for name, body in bodies.items():
        plain = ring(consumer=(WAIT_FULL, READ, Sync("group"), Elected(body)))
        producer, consumer = plain.roles
        program = replace(plain, barriers=(*plain.barriers, group), roles=(producer, replace(consumer, waves=2)))
        assert (search_all(program).kind == RIGHT) == (name == "fenced")
        assert proof_of(program).is_proved == (name == "fenced")


BEHIND = """target sm_90

kernel @behind(%A: global<2x32xf32>)
    waves 2 {{
  %buf = alloc : lds<2x32xf32>
  %read = new_barrier : mbarrier<1>
  %zero = fill 0.0 : tile<1x32xf32>
  {body}
}}
"""
WRITE = "local_write %zero, %buf[1 - wave, 0]"
READ_OWN = "%v = local_read %buf[wave, 0] : tile<1x32xf32>\nmbarrier_arrive %read"


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (
            f"conditional wave == 0 {{\nmbarrier_wait %read parity 0\n}}\n{WRITE}\n"
            f"conditional wave == 1 {{{READ_OWN}}}",
            False,
        ),
        (f"conditional wave == 0 {{\nmbarrier_wait %read parity 0\n{WRITE}\n}} else {{{READ_OWN}}}", True),
    ],
)
def test_an_order_that_is_always_the_wrong_one(body: str, right: bool) -> None:
    """Waves of one program: what wave 1 reads behind the write is always over before wave 0 comes to it.

    Arms that different waves take have no order of their own.
    """
    (session,) = sessions_of(load_text(BEHIND.format(body=body), "behind.tide"), None)
    assert verify(session.graph, session.target).is_proved == right


STEPS = """target gfx1250

kernel @steps(%A: global<2x32xf32>)
    waves 2 {{
  %buf = alloc : lds<1x32xf32>
  %zero = fill 0.0 : tile<1x32xf32>
  specialize {{
    waves 0 .. 1 {{
      shared_memory_barrier
      %v = local_read %buf[0, 0] : tile<1x32xf32>
      wait_count dscnt(0)
      signal -1
      wait -1
    }}
    waves 1 .. 2 {{
      {body}
    }}
  }}
}}
"""
SPLIT, STORE = "signal -1\nwait -1\n", "local_write %zero, %buf[0, 0]\n"


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (f"{SPLIT}{STORE}shared_memory_barrier", False),  # at once with the read
        (f"{SPLIT}shared_memory_barrier\n{STORE}", True),
        (f"{STORE}wait_count dscnt(0)\n{SPLIT}shared_memory_barrier", True),
    ],
)
def test_a_rendezvous_that_one_role_comes_to_in_two_steps(body: str, right: bool) -> None:
    """The first whole barrier of one role meets the split one of the other, and not the other's first whole one."""
    (session,) = sessions_of(load_text(STEPS.format(body=body), "steps.tide"), None)
    assert verify(session.graph, session.target).is_proved == right


@pytest.mark.parametrize("wait", ["mbarrier_wait %full parity 0", ""])
def test_a_wave_may_wait_for_a_copy_of_its_own(wait: str) -> None:
    text = f"""target sm_90

kernel @own(%A: global<32x32xf16>)
    waves 2 {{
  %a = alloc : lds<32x32xf16>
  %full = new_barrier : mbarrier<1>
  conditional wave == 0 {{
    mbarrier_arrive %full expect 2048
    tensor_load_to_lds %A[0, 0] to %a[0, 0] reports %full : tile<32x32xf16>
    {wait}
    %t = local_read %a[0, 0] : tile<32x32xf16>
  }}
}}
"""
    (session,) = sessions_of(load_text(text, "own.tide"), None)
    assert verify(session.graph, session.target).is_proved == bool(wait)


# --- false alarms of their own ------------------------------------------------------------------------------------

OWN_COPY = """target sm_90
kernel @k(%X: global<64xf32>) waves 1 {
  %a = alloc : lds<64xf32>
  %bar = new_barrier : mbarrier<1>
  mbarrier_arrive %bar expect 256
  tensor_load_to_lds %X[0] to %a reports %bar : tile<64xf32>
  mbarrier_wait %bar parity 0
  %v = local_read %a : tile<64xf32>
}
"""
GUARDED = """target sm_90
kernel @k() sizes(N = 6) waves 2 {
  %bar = new_barrier : named_barrier<2>
  specialize {
    waves 0 .. 1 {
      iterate %t in 0 .. N {
        conditional %t mod 3 == 0 {
          signal %bar
          wait %bar
        } else {
          signal %bar
          wait %bar
        }
      }
    }
    waves 1 .. 2 {
      iterate %u in 0 .. N {
        signal %bar
        wait %bar
      }
    }
  }
}
"""


def verified(text: str) -> Verification:
    (session,) = sessions_of(load_text(text, "k.tide"), None)
    return verify(session.graph, session.target)


def test_a_copy_that_its_own_wave_waits_for_in_straight_code() -> None:
    assert verified(OWN_COPY).is_proved
    assert not verified(OWN_COPY.replace("  mbarrier_wait %bar parity 0\n", "")).is_proved


def test_arrivals_under_a_guard_that_leaves_rounds_out() -> None:
    assert verified(GUARDED).is_proved
    assert not verified(GUARDED.replace("          wait %bar\n        } else", "        } else")).is_proved
