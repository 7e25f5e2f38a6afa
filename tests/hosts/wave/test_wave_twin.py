"""The twin alone, on kernels whose answer is known by hand."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("wave_lang")

import numpy as np
import sympy

from oracles.wave_twin import Verdict, judge
from oracles.wave_twin.build import compiled
from oracles.wave_twin.evaluate import whole
from oracles.wave_twin.gates import dense, gated
from oracles.wave_twin.generate import program
from oracles.wave_twin.program import Branch, Gate, K, L, Loop, Program, Shared, Touch, W

FULL, BARE, SIGNAL, WAIT, DRAIN = (Gate(kind) for kind in ("full", "bare", "signal", "wait", "drain"))
NEXT, BESIDE = sympy.Mod(W + 1, 4), sympy.Mod(L + 1, 64)
OWN_WRITE, OWN_READ = Touch(True, 0, W, L), Touch(False, 0, W, L)
NEXT_WRITE, NEXT_READ = Touch(True, 0, NEXT, L), Touch(False, 0, NEXT, L)
BESIDE_READ = Touch(False, 0, W, BESIDE)
ROWS = (Shared(4, 64),)


def verdict(*body: object, buffers: tuple[Shared, ...] = ROWS, target: str = "gfx942") -> Verdict:
    lanes = 64 if target == "gfx942" else 32
    subject = compiled(Program(target, lanes, (4, 1, 1), buffers, body), "unplaced")
    return judge(subject.trace, subject.setting)


def kinds(*body: object, buffers: tuple[Shared, ...] = ROWS) -> set[str]:
    return set(verdict(*body, buffers=buffers).kinds)


CASES = {
    "own bytes need nothing": ((OWN_WRITE, OWN_READ), set()),
    "the next wave's row": ((OWN_WRITE, NEXT_READ), {"waves"}),
    "the next wave's row, with a barrier": ((OWN_WRITE, FULL, NEXT_READ), set()),
    "a read, then a write of the next row": ((NEXT_READ, OWN_WRITE), {"waves"}),
    "two writes, own row and next row": ((OWN_WRITE, NEXT_WRITE), {"waves"}),
    "two writes with a barrier": ((OWN_WRITE, FULL, NEXT_WRITE), set()),
    "two reads": ((OWN_READ, NEXT_READ), set()),
    "a barrier before does not help": ((FULL, OWN_WRITE, NEXT_READ), {"waves"}),
    "a bare barrier drains nothing": ((OWN_WRITE, BARE, NEXT_READ), {"waves"}),
    "a drain and a bare barrier": ((OWN_WRITE, DRAIN, BARE, NEXT_READ), set()),
    "a drain alone": ((OWN_WRITE, DRAIN, NEXT_READ), {"waves"}),
    "a bare barrier, then a drain, then a bare barrier": ((OWN_WRITE, BARE, DRAIN, BARE, NEXT_READ), set()),
    "a drain behind the bare barrier": ((OWN_WRITE, BARE, DRAIN, NEXT_READ), {"waves"}),
    "the neighbour lane's element": ((OWN_WRITE, BESIDE_READ), {"lanes"}),
    "the neighbour lane, with a barrier": ((OWN_WRITE, FULL, BESIDE_READ), set()),
    "the neighbour lane, with a bare barrier": ((OWN_WRITE, BARE, BESIDE_READ), set()),
    "the neighbour lane, with a drain": ((OWN_WRITE, DRAIN, BESIDE_READ), {"lanes"}),
    "one row from four waves": ((Touch(True, 0, sympy.Integer(0), L),), {"same-waves"}),
    "one element from two lanes": ((Touch(True, 0, W, sympy.floor(L / 2)),), {"same-lanes"}),
    "two elements that overlap": ((Touch(True, 0, W, sympy.floor(L / 2) + L % 2, 2),), {"same-lanes"}),
    "one wave writes a row for all": (
        (Branch(sympy.Eq(W, 0), (Touch(True, 0, sympy.Integer(2), L),)), FULL, Touch(False, 0, sympy.Integer(2), L)),
        set(),
    ),
    "one wave writes a row, no barrier": (
        (Branch(sympy.Eq(W, 0), (Touch(True, 0, sympy.Integer(2), L),)), Touch(False, 0, sympy.Integer(2), L)),
        {"waves"},
    ),
    "a barrier for some waves": ((Branch(sympy.Lt(W, 2), (FULL,)),), {"hang"}),
    "a barrier for some lanes": ((Branch(sympy.Lt(L, 2), (FULL,)),), {"divergent"}),
    "a write masked off where the other reads": (
        (Touch(True, 0, W, L, bound=32), Touch(False, 0, NEXT, sympy.floor(L / 2) + 32)),
        set(),
    ),
    "a write not masked enough": (
        (Touch(True, 0, W, L, bound=33), Touch(False, 0, NEXT, sympy.floor(L / 2) + 32)),
        {"waves"},
    ),
    "a mapping to the next row": ((OWN_WRITE, Touch(False, 0, NEXT, L, mapped=True)), {"waves"}),
    "a mapped write to the own row": ((Touch(True, 0, W, L, mapped=True), OWN_READ), set()),
}


@pytest.mark.parametrize("name", CASES)
def test_straight(name: str) -> None:
    body, expected = CASES[name]
    assert kinds(*body) == expected


def staggered(*body: object) -> tuple[object, ...]:
    """The upper half of the waves runs one arrival ahead."""
    return (Branch(sympy.Lt(W, 2), (FULL,)), *body, Branch(sympy.Ge(W, 2), (FULL,)))


def test_stagger() -> None:
    """Wave 3 reads wave 0's row after its first departure; wave 0 has written it before its second arrival."""
    assert kinds(*staggered(OWN_WRITE, FULL, NEXT_READ)) == {"waves"}
    assert kinds(*staggered(OWN_WRITE, FULL, FULL, NEXT_READ)) == set()
    assert kinds(Branch(sympy.Lt(W, 2), (FULL,)), OWN_WRITE, FULL, FULL, NEXT_READ) == {"hang"}


LOOPS = {
    "one barrier in a loop leaves the way back": ((OWN_WRITE, FULL, NEXT_READ), 3, {"waves"}),
    "two barriers": ((OWN_WRITE, FULL, NEXT_READ, FULL), 3, set()),
    "one barrier, one trip": ((OWN_WRITE, FULL, NEXT_READ), 1, set()),
    "no trip at all": ((OWN_WRITE, NEXT_READ), 0, set()),
    "a row that moves with the counter": ((Touch(True, 0, sympy.Mod(W + K[0], 4), L), OWN_READ), 2, {"waves"}),
    "a barrier in every second iteration": (
        (OWN_WRITE, Branch(sympy.Eq(K[0] % 2, 0), (FULL,)), NEXT_READ),
        2,
        {"waves"},
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    body, trips, expected = LOOPS[name]
    assert kinds(Loop(trips, body)) == expected


def test_two_slots_need_one_barrier() -> None:
    two = (Shared(8, 64),)
    slot = 4 * sympy.Mod(K[0], 2)
    body = (Touch(True, 0, slot + W, L), FULL, Touch(False, 0, slot + NEXT, L))
    assert kinds(Loop(4, body), buffers=two) == set()


def test_buffers_that_go_round() -> None:
    """Write the first and read it after one barrier: with two buffers in turn one barrier is enough."""
    body = (OWN_WRITE, FULL, NEXT_READ)
    assert kinds(Loop(4, body, 0, 2), buffers=ROWS * 2) == set()
    assert kinds(Loop(4, body), buffers=ROWS * 2) == {"waves"}


def test_a_loop_hands_its_buffers_on() -> None:
    """After three trips of two buffers, the first name stands for the second buffer."""
    before, after = Touch(True, 1, W, L), Touch(False, 0, NEXT, L)
    still = Loop(3, (Touch(False, 0, W, sympy.Integer(0)),), 0, 2)
    assert kinds(before, still, after, buffers=ROWS * 2) >= {"waves"}
    even = Loop(2, (), 0, 2)
    assert kinds(before, even, after, buffers=ROWS * 2) == set()


def test_views_of_one_heap() -> None:
    """Two buffers over each other conflict, behind each other they do not."""
    body = (Touch(True, 0, W, L), Touch(False, 1, NEXT, L))
    assert kinds(*body, buffers=(Shared(4, 64, 32, 0), Shared(4, 64, 32, 1024))) == set()
    assert kinds(*body, buffers=(Shared(4, 64, 32, 0), Shared(4, 64, 32, 0))) == {"waves"}
    # The second lies over the last row of the first: wave 3 reads in it what other lanes of its own wrote.
    assert kinds(*body, buffers=(Shared(4, 64, 32, 0), Shared(4, 64, 8, 768))) == {"waves", "lanes"}
    one_wave = (Touch(True, 0, W, L), Touch(False, 1, W, L))
    assert kinds(*one_wave, buffers=(Shared(4, 64, 32, 0), Shared(4, 64, 32, 256))) == {"waves"}
    assert kinds(*one_wave, buffers=(Shared(4, 64, 32, 0), Shared(4, 64, 32, 16))) == {"waves", "lanes"}


SPLITS = {
    "a pair": ((OWN_WRITE, SIGNAL, WAIT, Touch(False, 0, NEXT, L)), set()),
    "an access within the pair, read before the wait": ((OWN_WRITE, SIGNAL, Touch(False, 0, NEXT, L), WAIT), {"waves"}),
    "written after the signal": ((SIGNAL, OWN_WRITE, WAIT, Touch(False, 0, NEXT, L)), {"waves"}),
    "two signals": ((SIGNAL, SIGNAL, WAIT, WAIT), {"hang"}),
    "a wait without a signal": ((WAIT,), {"hang"}),
    "a wait before its signal": ((WAIT, SIGNAL), {"hang"}),
    "a signal that is lost": ((SIGNAL,), {"hang"}),
    "a whole barrier inside a pair": ((SIGNAL, FULL, WAIT), {"hang"}),
    "lanes need the pair": ((OWN_WRITE, SIGNAL, Touch(False, 0, W, sympy.Mod(L + 1, 32)), WAIT), {"lanes"}),
    "lanes with the pair": ((OWN_WRITE, SIGNAL, WAIT, Touch(False, 0, W, sympy.Mod(L + 1, 32))), set()),
}


@pytest.mark.parametrize("name", SPLITS)
def test_split(name: str) -> None:
    body, expected = SPLITS[name]
    assert set(verdict(*body, target="gfx1201").kinds) == expected


def test_witness() -> None:
    (problem,) = verdict(OWN_WRITE, NEXT_READ).problems
    assert (problem.first, problem.second) == ("write", "read")
    assert (problem.who[0] - problem.who[1]) % 4 == 1


@pytest.mark.parametrize("layout", [(4, 1, 1), (1, 4, 1), (2, 2, 1)])
def test_layouts_of_waves(layout: tuple[int, int, int]) -> None:
    subject = compiled(Program("gfx942", 64, layout, ROWS, (OWN_WRITE, NEXT_READ)), "unplaced")
    assert judge(subject.trace, subject.setting).kinds == {"waves"}
    subject = compiled(Program("gfx942", 64, layout, ROWS, (OWN_WRITE, OWN_READ)), "unplaced")
    assert judge(subject.trace, subject.setting).safe


def test_expressions_against_sympy() -> None:
    rng = random.Random(0)
    known = {W: np.arange(12) % 4, L: np.arange(12), K[0]: np.full(12, 3)}
    for _ in range(60):
        a, b = rng.choice([W, L, K[0]]), rng.choice([W, L, K[0]])
        c, d = rng.randrange(1, 7), rng.randrange(2, 9)
        expr = sympy.floor((c * a + b) / d) + sympy.Mod(a + c, d) * b - sympy.Max(a, c)
        for at, value in enumerate(whole(expr, known)):
            assert value == expr.subs({s: int(v[at]) for s, v in known.items()})


@pytest.mark.parametrize("seed", range(12))
def test_barriers_everywhere_are_enough_or_nothing_is(seed: int) -> None:
    best = compiled(dense(program(seed)), "unplaced")
    left = judge(best.trace, best.setting)
    branches = any(isinstance(s, Branch) for s in _statements(program(seed).body))
    assert left.safe or left.kinds & {"same-waves", "same-lanes"} or branches


def _statements(body: tuple[object, ...]) -> list[object]:
    found: list[object] = []
    for s in body:
        found += [s, *(_statements(s.body) if isinstance(s, (Loop, Branch)) else [])]
    return found


def test_enough_of_the_given_programs_are_unsafe() -> None:
    subjects = [compiled(gated(program(seed), seed), "unplaced") for seed in range(60)]
    unsafe = sum(not judge(subject.trace, subject.setting).safe for subject in subjects)
    assert 15 <= unsafe <= 45


def test_wave_makes_code_of_what_is_built() -> None:
    """The traces are such that Wave's own code generator takes them, with its own barriers."""
    for seed in range(6):
        assert "func.func @twin" in compiled(program(seed), "emitted").kernel.asm
