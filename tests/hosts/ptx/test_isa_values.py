"""Arithmetic on vectors of threads, against Python's numbers; symbols against numbers put in for them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidegate.hosts.isa.arithmetic import Calculator
from tidegate.hosts.isa.values import GLOBAL, Value, number, symbol, unknown
from tidegate.index import Name, evaluate, holds

THREADS = 16
M32 = 0xFFFFFFFF


def calculator() -> Calculator:
    return Calculator(THREADS, {"%k": (0, 1000)})


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def test_operators_on_bits() -> None:
    rnd = random.Random(5)
    calc = calculator()
    for _ in range(40):
        a = [rnd.choice((rnd.getrandbits(32), rnd.randrange(64), 1 << rnd.randrange(32))) for _ in range(THREADS)]
        c = [rnd.choice((rnd.getrandbits(32), rnd.randrange(40))) for _ in range(THREADS)]
        expected = {
            ("add", False): [x + y for x, y in zip(a, c, strict=True)],
            ("sub", False): [x - y for x, y in zip(a, c, strict=True)],
            ("mul", False): [x * y for x, y in zip(a, c, strict=True)],
            ("mulhi", False): [x * y >> 32 for x, y in zip(a, c, strict=True)],
            ("mulhi", True): [signed(x) * signed(y) >> 32 for x, y in zip(a, c, strict=True)],
            ("div", False): [x // y if y else M32 for x, y in zip(a, c, strict=True)],
            ("rem", True): [int(np.fmod(signed(x), signed(y))) if y else x for x, y in zip(a, c, strict=True)],
            ("shl", False): [x << y if y < 32 else 0 for x, y in zip(a, c, strict=True)],
            ("shr", False): [x >> y if y < 32 else 0 for x, y in zip(a, c, strict=True)],
            ("shr", True): [signed(x) >> min(y, 31) for x, y in zip(a, c, strict=True)],
            ("min", True): [min(signed(x), signed(y)) for x, y in zip(a, c, strict=True)],
            ("max", False): [max(x, y) for x, y in zip(a, c, strict=True)],
            ("xor", False): [x ^ y for x, y in zip(a, c, strict=True)],
        }
        for (operator, sign), wanted in expected.items():
            found = calc.compute(operator, [number(a, THREADS), number(c, THREADS)], 32, sign, 32)
            assert found.base.tolist() == [each & M32 for each in wanted], operator


def test_what_is_unknown_is_annulled_by_0() -> None:
    """Numba adds `sign & length` to an index: the sign of a thread number is 0, the length is an argument."""
    calc = calculator()
    lost, zero, some = unknown(THREADS, True, frozenset({GLOBAL})), number(0, THREADS), number(range(THREADS), THREADS)
    for operator in ("and", "mul", "mulwide"):
        for given in ([lost, zero], [zero, lost], [zero, symbol(Name("%k"), THREADS)]):
            assert calc.compute(operator, given, 32, False, 32) == zero
        assert not calc.compute(operator, [lost, some], 32, False, 32).is_known
    for operator in ("add", "or", "xor", "sub", "shr", "mulhi", "min", "div"):
        assert calc.compute(operator, [lost, zero], 32, False, 32) != zero


def test_fields_of_bits() -> None:
    calc, rnd = calculator(), random.Random(3)
    for _ in range(60):
        a, place, count = rnd.getrandbits(32), rnd.randrange(40), rnd.randrange(40)
        given = [number(each, THREADS) for each in (a, place, count)]
        plain = (a >> place) & ((1 << count) - 1) if place < 32 else 0
        assert calc.compute("bfe", given, 32, False, 32).base[0] == plain & M32
        into = rnd.getrandbits(32)
        given = [number(each, THREADS) for each in (a, into, place, count)]
        mask = ((1 << count) - 1) << place & M32 if place < 32 else 0
        wanted = into & ~mask | (a << place) & mask
        assert calc.compute("bfi", given, 32, False, 32).base[0] == wanted & M32
        table = rnd.randrange(256)
        words = [rnd.getrandbits(32) for _ in range(3)]
        found = calc.compute("lop3", [number(each, THREADS) for each in (*words, table)], 32, False, 32).base[0]
        for bit in range(32):
            row = (words[0] >> bit & 1) << 2 | (words[1] >> bit & 1) << 1 | words[2] >> bit & 1
            assert int(found) >> bit & 1 == table >> row & 1


@pytest.mark.parametrize("seed", range(60))
def test_symbols_stand_for_every_number(seed: int) -> None:
    """A value with a symbol has, for each number put in, the value that is computed with that number."""
    rnd = random.Random(seed)
    calc = calculator()
    start = symbol(Name("%k"), THREADS)
    values: list[Value] = [start, number(list(range(THREADS)), THREADS)]
    steps: list[tuple[str, int, int | tuple[str, int], int, bool]] = []
    for _ in range(rnd.randint(2, 7)):
        operator = rnd.choice(
            ("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "rem", "div", "mulhi", "copy", "not")
        )
        first = rnd.randrange(len(values))
        constant = rnd.choice((1, 2, 3, 4, 5, 8, 12, 64, 512, 0x55555556, 0xAAAAAAAB))
        if operator in ("shl", "shr"):
            constant = rnd.randrange(6)
        if operator in ("and",):
            constant = rnd.choice((1, 3, 7, 12, 512, 0xFFFFFFFC))
        other = rnd.randrange(len(values)) if operator in ("add", "sub") and rnd.random() < 0.6 else -1
        second = values[other] if other >= 0 else number(constant, THREADS)
        given = [values[first]] if operator in ("copy", "not") else [values[first], second]
        values.append(calc.compute(operator, given, 32, False, 32))
        steps.append((operator, first, constant if other < 0 else ("value", other), 32, False))
    for k in (0, 1, 2, 3, 7, 11, 12, 100, 999):
        plain = Calculator(THREADS, {})
        again: list[Value] = [number(k, THREADS), number(list(range(THREADS)), THREADS)]
        for place, (operator, first, second_, bits, sign) in enumerate(steps):
            held = again[second_[1]] if isinstance(second_, tuple) else number(second_, THREADS)
            given = [again[first]] if operator in ("copy", "not") else [again[first], held]
            again.append(plain.compute(operator, given, bits, sign, bits))
            value = values[place + 2]
            if value.is_known:
                total = value.base + evaluate(value.plus, {"%k": k})
                exact = again[-1].base
                in_range = (exact < 1 << 31).all() and (np.abs(total) < 1 << 31).all()
                if in_range and all((e.base < 1 << 31).all() for e in again):  # sums do not wrap around
                    assert total.tolist() == exact.tolist(), (operator, value.plus)


WORDS = ("add", "sub", "neg", "not", "mul", "shl", "and", "copy", "shr", "rem", "max")


@pytest.mark.parametrize("seed", range(60))
def test_small_registers_wrap_around_beside_a_symbol(seed: int) -> None:
    """A counter without end: what is known holds whatever multiples of 65,536 it has passed."""
    rnd = random.Random(seed)
    calc = Calculator(THREADS, {"%k": (0, None)})
    lanes = list(range(THREADS))
    values: list[Value] = [symbol(Name("%k"), THREADS), number(lanes, THREADS)]
    steps: list[tuple[str, int, int, int]] = []
    for _ in range(rnd.randint(1, 6)):
        operator, first = rnd.choice(WORDS), rnd.randrange(len(values))
        bits = 32 if operator == "copy" and rnd.random() < 0.7 else 16
        second = rnd.choice((-1, rnd.choice((1, 3, 4, 7, 15, 255, 256, 0xFF00, 0xFFFC, 40_000))))
        if operator == "shl":
            second = rnd.randrange(9)
        steps.append((operator, first, second, bits))
        values.append(step_of_words(calc, values, steps[-1]))
    for k in (0, 1, 5, 255, 256, 32_767, 32_768, 65_535, 65_536, 65_539, 200_001):
        plain = Calculator(THREADS, {})
        again: list[Value] = [number(k & 0xFFFF, THREADS), number(lanes, THREADS)]
        for place, step in enumerate(steps):
            again.append(step_of_words(plain, again, step))
            value, mask = values[place + 2], M32 if step[3] == 32 else 0xFFFF
            if value.is_known:
                total = value.base + evaluate(value.plus, {"%k": k})
                assert (total & mask).tolist() == (again[-1].base & mask).tolist(), (step, value.plus)
        for one, other in ((0, -1), (-1, -2), (1, -1)):
            found = calc.compare("eq", values[one], values[other], 16, False)
            exact = plain.compare("eq", again[one], again[other], 16, False)
            if found.cond is not None:
                assert exact.base.all() == exact.base.any() == holds(found.cond, {"%k": k})
            elif found.known is None:
                assert found.base.tolist() == exact.base.tolist()


def step_of_words(calc: Calculator, values: list[Value], step: tuple[str, int, int, int]) -> Value:
    operator, first, second, bits = step
    given = [values[first]]
    if operator not in ("neg", "not", "copy"):
        given.append(values[1] if second < 0 else number(second, THREADS))
    return calc.compute(operator, given, bits, False, 16)


def test_comparisons_with_symbols() -> None:
    calc = calculator()
    k = symbol(Name("%k"), THREADS)
    tid = number(list(range(THREADS)), THREADS)
    moved = calc.compute("add", [k, tid], 32, False, 32)
    for operator, test in (("lt", lambda x, y: x < y), ("ne", lambda x, y: x != y), ("ge", lambda x, y: x >= y)):
        pred = calc.compare(operator, moved, calc.compute("add", [tid, number(5, THREADS)], 32, False, 32), 32, True)
        assert pred.cond is not None
        for value in (0, 4, 5, 6, 900):
            assert holds(pred.cond, {"%k": value}) == test(value, 5)
    assert not calc.compare("lt", moved, number(8, THREADS), 32, True).is_uniform
    assert calc.compare("ge", moved, number(0, THREADS), 32, True).base.all()
