"""Rewriting of index expressions: whatever is simplified has the same value for all values of its names."""

from __future__ import annotations

import itertools
import random

import pytest

from tidegate.footprint.arithmetic import Arithmetic
from tidegate.index import Binary, Compare, Cond, Const, Index, Logic, Name, Not, Select, evaluate, show

PART = 1_500


def check(expr: Index, ranges: dict[str, tuple[int, int]]) -> None:
    math = Arithmetic(dict(ranges))
    made = math.put(expr, {})
    low, high = math.bounds(made)
    for values in itertools.product(*(range(first, last + 1) for first, last in ranges.values())):
        env = dict(zip(ranges, values, strict=True))
        value = evaluate(expr, env)
        assert evaluate(made, env) == value, f"{show(expr)} became {show(made)}, at {env}"
        assert low is None or low <= value, f"{show(made)} at {env}"
        assert high is None or high >= value, f"{show(made)} at {env}"


@pytest.mark.parametrize("factor", [-2, -1, 1, 2])
def test_a_step_back_is_a_remainder_only_where_it_is_one(factor: int) -> None:
    """`select(3 - wave >= 0, 3 - wave, 5 - wave)` became a remainder with negative factors, and a race was proved."""
    for offset, limit, step, last in itertools.product((-3, 0, 3), range(-4, 5), range(-2, 7), (1, 5)):
        around = Binary("+", Binary("*", Name("w"), Const(factor)), Const(offset))
        under = Binary("+", around, Const(step))
        for over in (Binary("-", under, Const(limit + step)), Const(0)):
            check(Select(Compare(">=", around, Const(limit)), over, under), {"w": (0, last)})
            check(Select(Compare("<", around, Const(limit)), under, over), {"w": (0, last)})


@pytest.mark.parametrize("part", range(2))
def test_random_expressions_keep_their_values(part: int) -> None:
    for seed in range(part * PART, (part + 1) * PART):
        rng = random.Random(seed)
        ranges = {}
        for name in "ab":
            first = rng.randint(-4, 3)
            ranges[name] = (first, first + rng.randint(0, 7))
        check(draw(rng, rng.choice((1, 2, 2, 3))), ranges)


def draw(rng: random.Random, depth: int) -> Index:
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        return rng.choice([Name("a"), Name("b"), Const(rng.randint(-6, 9))])
    if kind < 0.4:
        return Select(draw_cond(rng, depth - 1), draw(rng, depth - 1), draw(rng, depth - 1))
    if kind < 0.6:  # the shapes of counters that go round
        around = Binary("+", Binary("*", Name(rng.choice("ab")), Const(rng.choice((-2, -1, 1, 2)))), Const(-1))
        limit, step = rng.randint(-6, 6), rng.randint(-3, 9)
        under = Binary("+", around, Const(step))
        arms = [rng.choice([Const(0), Binary("-", under, Const(limit + step))]), under]
        rng.shuffle(arms)
        return Select(Compare(rng.choice((">=", "<", "==", "<=", ">")), around, Const(limit)), arms[0], arms[1])
    op = rng.choice(["+", "-", "*", "//", "mod", "xor", "min", "max"])
    right = Const(rng.randint(1, 8)) if op in ("//", "mod") else draw(rng, depth - 1)
    return Binary(op, draw(rng, depth - 1), right)


def draw_cond(rng: random.Random, depth: int) -> Cond:
    kind = rng.random()
    if depth > 0 and kind < 0.15:
        return Not(draw_cond(rng, depth - 1))
    if depth > 0 and kind < 0.3:
        return Logic(rng.choice(("and", "or")), draw_cond(rng, depth - 1), draw_cond(rng, depth - 1))
    op = rng.choice(("<", "<=", "==", "!=", ">=", ">"))
    return Compare(op, draw(rng, max(0, depth - 1)), draw(rng, max(0, depth - 1)))
