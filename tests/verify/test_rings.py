"""The search over programs with barrier objects: known answers, and one search against another.

The proof for all trip counts is held against these searches (`bench/rings.py`), so they are tested by themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice

import pytest

import tidegate as tg
from oracles.rings.cases import CASES
from oracles.rings.compare import FOUND, PROVED, UNDECIDED, Answer, Case, Tally, compare, named
from oracles.rings.generate import draw
from oracles.rings.model import Program, expand
from oracles.rings.mutants import MUTATIONS, mutate
from oracles.rings.quotient import quotient
from oracles.rings.search import HANG, OVERRUN, RACE, RIGHT, UNKNOWN, Verdict, search, search_all
from oracles.rings.text import to_tide

KINDS = {RACE, OVERRUN, HANG}


# --- known answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_known_answer(name: str) -> None:
    program, expected = CASES[name]
    assert search_all(program).kind == expected
    # The quotient may come to another mistake of the same program first, and does not look at generations.
    assert quotient(program).kind in (KINDS if expected in KINDS else {RIGHT})


def test_where_mistakes_first_show() -> None:
    def first(name: str) -> dict[str, int]:
        return dict(search_all(CASES[name][0]).sizes)

    assert first("parity of full flipped") == {"N": 1}
    assert first("early release") == {"N": 3}
    assert first("parity right for two rounds") == {"N": 5}
    assert first("wait only in the first twelve rounds") == {"N": 13}


def test_a_missing_fence_is_named() -> None:
    assert search_all(CASES["no fence"][0]).says.startswith("no fence for the async proxy between consumer: read a[0]")


def test_a_witness_is_a_run() -> None:
    found = search_all(CASES["early release"][0])
    assert found.says == "nothing orders consumer: read a[0] at j=0 and producer: copy to a[0] reports full[0] at k=2"
    assert found.run[0] == "producer: wait empty[0] parity 1 at k=0"
    assert any(each.startswith("producer: done copy") for each in found.run)
    assert found.run[-1] == "producer: copy to a[0] reports full[0] at k=2"


def test_a_search_that_stops_says_so() -> None:
    program, _ = CASES["a ring"]
    assert len(expand(program, {"N": 30}).all) == 30 * 7
    assert search(program, {"N": 30}, most_states=50).kind == UNKNOWN


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
    flat = (each for each in small(range(600), 3, 2) if each.sizes == ("N",))
    for program in islice(flat, 200):
        for_all = answer(quotient(program, 900))
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


# --- the comparison -----------------------------------------------------------------------------------------------


def case(kind: str, answer: str) -> Case:
    return Case(CASES["a ring"][0], "none", Verdict(kind), Answer(answer, (), "", 0.5))


def test_false_proofs_and_false_alarms_are_counted() -> None:
    tally = Tally()
    for kind, answer in ((RACE, PROVED), (HANG, FOUND), (RIGHT, FOUND), (RIGHT, PROVED), (RIGHT, UNDECIDED)):
        tally.add(case(kind, answer))
    assert (len(tally.false_proofs), len(tally.false_alarms)) == (1, 1)
    assert "| wrong | 1 | 1 | 0 | 0 |" in tally.table()
    assert "| right | 1 | 1 | 1 | 0 |" in tally.table()
    both = Tally()
    written = json.dumps({each.name: getattr(tally, each.name) for each in fields(tally)})
    both.join(Tally(**json.loads(written)))
    both.join(tally)
    assert "| wrong | 2 | 2 | 0 | 0 |" in both.table()
    assert len(both.false_proofs) == 2


def test_a_mistake_that_the_runs_find() -> None:
    """The whole way: a mutant as text through `check`, and the name that prints it again."""
    mutant = mutate(draw(10), 10)[1]
    found = compare(*named(mutant.name))
    assert (found.program, found.truth, found.answer.kind) == (mutant, "wrong", FOUND)
