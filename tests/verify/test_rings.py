"""The search over programs with barrier objects: known answers, and one search against another.

The proof for all trip counts is held against these searches (`bench/rings.py`), so they are tested by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

import tidegate as tg
from oracles.rings.generate import MUTATIONS, draw, mutate
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
    expand,
    less,
    select,
)
from oracles.rings.quotient import quotient
from oracles.rings.search import HANG, OVERRUN, PHASE, RACE, RIGHT, UNKNOWN, Verdict, search, search_all
from oracles.rings.text import to_tide

N, K, J = Expr("N"), Expr("k"), Expr("j")
Body = tuple[Statement, ...]


def loop(counter: Expr, *body: Statement, stop: Expr = N, start: int = 0) -> Loop:
    return Loop(counter.op, as_expr(start), stop, body)


def ring(producer: Body | None = None, consumer: Body | None = None, **counts: int) -> Program:
    """Copies into two slots, one consumer; what is given replaces the loop body of a role, or a count."""
    counts = {"full": 1, "empty": 1} | counts
    barriers = tuple(Barrier(name, count, 2) for name, count in counts.items())
    roles = (
        Role("producer", 1, (loop(K, *(PRODUCER if producer is None else producer)),)),
        Role("consumer", 1, (loop(J, *(CONSUMER if consumer is None else consumer)),)),
    )
    return Program("ring", (Buffer("a", 2),), barriers, roles)


WAIT_EMPTY = Wait("empty", K % 2, (K // 2 + 1) % 2)
EXPECT = Arrive("full", K % 2, PART)
COPY = Copy("a", K % 2, "full", K % 2)
PRODUCER = (WAIT_EMPTY, EXPECT, COPY)
WAIT_FULL = Wait("full", J % 2, J // 2 % 2)
READ = Read("a", J % 2)
RELEASE = Arrive("empty", J % 2)
CONSUMER = (WAIT_FULL, READ, Fence(), RELEASE)


def kinds(program: Program) -> tuple[str, str]:
    return search_all(program).kind, quotient(program).kind


# --- known answers ------------------------------------------------------------------------------------------------


def test_the_ring_is_right_for_all_trip_counts() -> None:
    assert kinds(ring()) == (RIGHT, RIGHT)


WRONG: dict[str, tuple[Program, str]] = {
    "parity of full flipped": (
        ring(consumer=(Wait("full", J % 2, (J // 2 + 1) % 2), READ, Fence(), RELEASE)),
        RACE,
    ),
    "parity of empty flipped: the first round waits for a release": (
        ring(producer=(Wait("empty", K % 2, K // 2 % 2), EXPECT, COPY)),
        HANG,
    ),
    "parity that stays": (ring(consumer=(Wait("full", J % 2, as_expr(0)), READ, Fence(), RELEASE)), RACE),
    "release lost": (ring(consumer=(WAIT_FULL, READ, Fence())), HANG),
    "release doubled": (ring(consumer=(WAIT_FULL, READ, Fence(), RELEASE, RELEASE)), HANG),
    "count too large": (ring(empty=2), HANG),
    "bytes too many": (ring(producer=(WAIT_EMPTY, Arrive("full", K % 2, 2 * PART), COPY)), HANG),
    "bytes too few": (ring(producer=(WAIT_EMPTY, Arrive("full", K % 2, PART // 2), COPY)), HANG),
    "no bytes": (ring(producer=(WAIT_EMPTY, Arrive("full", K % 2), COPY)), RACE),
    "early release": (ring(consumer=(WAIT_FULL, RELEASE, READ, Fence())), RACE),
    "wait moved behind the read": (ring(consumer=(READ, WAIT_FULL, Fence(), RELEASE)), RACE),
    "wait moved behind the copy": (ring(producer=(EXPECT, COPY, WAIT_EMPTY)), HANG),
    "no fence": (ring(consumer=(WAIT_FULL, READ, RELEASE)), RACE),
    "copy lost": (ring(producer=(WAIT_EMPTY, EXPECT)), HANG),
    "other slot": (ring(consumer=(WAIT_FULL, Read("a", (J + 1) % 2), Fence(), RELEASE)), RACE),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_found(name: str) -> None:
    program, expected = WRONG[name]
    assert search_all(program).kind == expected
    # The quotient may come to another mistake of the same program first.
    assert quotient(program).is_wrong


def test_a_fence_of_the_producer_is_enough() -> None:
    fenced = ring(producer=(WAIT_EMPTY, Fence(), EXPECT, COPY), consumer=(WAIT_FULL, READ, RELEASE))
    assert kinds(fenced) == (RIGHT, RIGHT)


def test_copies_may_land_before_their_bytes_are_expected() -> None:
    assert kinds(ring(producer=(WAIT_EMPTY, COPY, EXPECT))) == (RIGHT, RIGHT)


def test_a_parity_that_is_right_for_two_rounds() -> None:
    """Wrong from round 4 on: the third use of slot 0 waits for a phase of the second."""
    parity = select(less(J, 2), 0, 1)
    program = ring(consumer=(Wait("full", J % 2, parity), READ, Fence(), RELEASE))
    assert [search(program, {"N": size}).kind for size in (1, 2, 3, 4)] == [RIGHT] * 4
    assert search(program, {"N": 5}).is_wrong
    assert quotient(program).is_wrong


def test_a_mistake_that_first_shows_at_thirteen() -> None:
    late = Guard(less(J, 12), (WAIT_FULL,))
    program = ring(consumer=(late, READ, Fence(), RELEASE))
    assert search(program, {"N": 12}).kind == RIGHT
    assert search_all(program).sizes == (("N", 13),)


def test_two_consumers_of_three_slots_lose_the_parity() -> None:
    """Each consumer sees every other generation of a slot; nothing keeps the second from passing at the start."""
    roles = [Role("producer", 1, (loop(K, Wait("empty", K % 3, (K // 3 + 1) % 2), *fill(3), stop=N * 2),))]
    for mine in range(2):
        counter = Expr(f"j{mine}")
        at = counter * 2 + mine
        body = (Wait("full", at % 3, at // 3 % 2), Read("a", at % 3), Fence(), Arrive("empty", at % 3))
        roles.append(Role(f"consumer{mine}", 1, (loop(counter, *body),)))
    program = Program("pair", (Buffer("a", 3),), (Barrier("full", 1, 3), Barrier("empty", 1, 3)), tuple(roles))
    found = search_all(program)
    assert (found.kind, found.sizes) == (RACE, (("N", 2),))
    assert "read a[0] at j1=1" in found.says
    assert quotient(program).kind == RACE


def fill(slots: int) -> Body:
    return Arrive("full", K % slots, PART), Copy("a", K % slots, "full", K % slots)


def test_an_arrival_too_many_while_bytes_are_out() -> None:
    roles = (
        Role("one", 1, (Arrive("full", as_expr(0), PART), COPY_ONCE)),
        Role("two", 1, (Arrive("full", as_expr(0)),)),
    )
    program = Program("overrun", (Buffer("a", 1),), (Barrier("full", 1, 1),), roles)
    assert search(program, {"N": 1}).kind == OVERRUN


COPY_ONCE = Copy("a", as_expr(0), "full", as_expr(0))


def test_arrivals_whose_generation_depends_on_the_order() -> None:
    """Each wave completes a generation alone; which one depends on the order. Nothing else is wrong."""
    roles = tuple(Role(name, 1, (Signal("turn"),)) for name in ("one", "two"))
    assert search(Program("order", (), (Barrier("turn", 1),), roles), {"N": 1}).kind == PHASE


def test_named_barriers_between_two_roles() -> None:
    here, there = Signal("empty"), Signal("full")
    writer = Role("writer", 1, (loop(K, Sync("empty"), Write("a", as_expr(0)), there),))
    reader = Role("reader", 1, (here, loop(J, Sync("full"), Read("a", as_expr(0)), here)))
    barriers = (Barrier("full", 2), Barrier("empty", 2))
    program = Program("named", (Buffer("a", 1),), barriers, (writer, reader))
    assert kinds(program) == (RIGHT, RIGHT)
    early = Role("reader", 1, (here, loop(J, Sync("full"), here, Read("a", as_expr(0)))))
    assert kinds(Program("named", (Buffer("a", 1),), barriers, (writer, early))) == (RACE, RACE)


def test_a_witness_is_a_run() -> None:
    found = search_all(WRONG["early release"][0])
    assert found.says == (
        "nothing orders consumer: read a[0] at j=0 and producer: copy to a[0] reports full[0] at k=2"
    ) or found.says.startswith("nothing orders producer: copy")
    assert found.run[0] == "producer: wait empty[0] parity 1 at k=0"
    assert any(each.startswith("producer: done copy") for each in found.run)


def test_a_search_that_stops_says_so() -> None:
    steps = expand(ring(), {"N": 30})
    assert len(steps.all) == 30 * 7
    assert search(ring(), {"N": 30}, most_states=50).kind == UNKNOWN


# --- one search against another -----------------------------------------------------------------------------------


def small(seeds: range, most_waves: int, most_stages: int) -> Iterator[Program]:
    """A right program of each seed and three mutants, if it is no larger than this."""
    for seed in seeds:
        program = draw(seed)
        if program.stages <= most_stages and sum(each.waves for each in program.roles) <= most_waves:
            yield program
            yield from (mutate(program, number)[1] for number in (seed, seed + 1, seed + 2))


def answer(verdict: Verdict) -> str:
    return "wrong" if verdict.is_wrong else verdict.kind


def test_the_reduction_loses_nothing() -> None:
    """Every order of the steps, against the few that the search follows."""
    found: Counter[str] = Counter()
    for program in small(range(60), 4, 3):
        sizes = dict.fromkeys(program.sizes, 2)
        all_orders = answer(search(program, sizes, 3_000, reduced=False))
        if all_orders != UNKNOWN:
            assert answer(search(program, sizes)) == all_orders, program.name
            found[all_orders] += 1
    assert min(found[RIGHT], found["wrong"]) >= 10


def test_search_and_quotient_agree() -> None:
    found: Counter[str] = Counter()
    flat = (each for each in small(range(300), 3, 3) if each.sizes == ("N",))
    for program in islice(flat, 200):
        for_all = answer(quotient(program, 1_200))
        assert for_all in (answer(search_all(program)), UNKNOWN), program.name
        found[for_all] += 1
    assert sum(found.values()) == 200
    assert found[RIGHT] >= 10
    assert found["wrong"] >= 100


# --- the generator ------------------------------------------------------------------------------------------------


def test_what_is_drawn_is_right() -> None:
    for seed in range(40):
        program = draw(seed)
        for sizes in (dict.fromkeys(program.sizes, 3), dict.fromkeys(program.sizes, 5)):
            assert search(program, sizes).kind == RIGHT, program.name


@pytest.mark.parametrize("kind", MUTATIONS)
def test_each_kind_of_mutant_is_caught(kind: str) -> None:
    """Not each mutant: some changes do no harm."""
    mutants = (mutate(draw(seed), seed, kind) for seed in range(200))
    made = [program for name, program in mutants if name == kind]
    assert any(search_all(program).is_wrong for program in made[:12])


def test_the_same_seed_gives_the_same_program() -> None:
    assert [draw(seed) for seed in range(20)] == [draw(seed) for seed in range(20)]
    assert mutate(draw(3), 3) == mutate(draw(3), 3)


def test_programs_are_valid_kernels() -> None:
    for seed in range(30):
        for program in (draw(seed), mutate(draw(seed), seed)[1]):
            (kernel,) = tg.parse(to_tide(program)).kernels
            assert kernel.name == program.name


@pytest.mark.parametrize("seed", [6, 8, 10])
def test_a_right_program_gets_no_finding(seed: int) -> None:
    assert list(tg.check(tg.parse(to_tide(draw(seed))))) == []
