"""Random kernels and expressions survive being printed and read, and mean the same afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import MISSING, fields
from functools import cache
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest

from oracles.programs.random_kernels import random_cond, random_index, random_kernel, runnable_kernel
from tidegate.diag import BadInput
from tidegate.index import (
    ARITHMETIC,
    COMPARISONS,
    COND_TYPES,
    INDEX_TYPES,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Inexact,
    Logic,
    Name,
    Not,
    Select,
    Truth,
    evaluate,
    holds,
    walk,
)
from tidegate.index import show as show_index
from tidegate.language import ops
from tidegate.language.check import check
from tidegate.language.lexer import Cursor
from tidegate.language.ops import Block, Carried, Kernel, Module, Op, Place, walk_ops
from tidegate.language.parse import parse
from tidegate.language.parse_index import parse_cond, parse_index
from tidegate.language.show import show
from tidegate.language.syntax import ARITY
from tidegate.language.types import DTYPES, BarrierObject, Global, Lds, Tile, Type
from tidegate.simulate.inorder import make_inputs, run
from tidegate.targets import load_target

FAST, SLOW = 100, 1500


def seeds(request: pytest.FixtureRequest, usual: int) -> range:
    """As many as `--count` says, else the usual number."""
    return range(int(request.config.getoption("--count")) or usual)


# --- expressions --------------------------------------------------------------------------------------------------

LEAVES: tuple[Index, ...] = (Name("wave"), Name("lane"), Name("K"), Name("%a"), Name("%b.1"))
FLAGS = ("%f", "%g")


class _Scope:
    """Every name is known; those of `FLAGS` are flags."""

    def is_flag(self, name: str) -> bool:
        return name in FLAGS

    def check_name(self, name: str, at: int) -> None:
        pass


def read(text: str, cls: type) -> Index | Cond:
    cursor = Cursor(text, "<text>")
    found: Index | Cond = parse_cond(cursor, _Scope()) if cls in COND_TYPES else parse_index(cursor, _Scope())
    assert cursor.kind == "end", text
    return found


def value_of(expr: Index | Cond, env: dict[str, int]) -> int | bool | str:
    try:
        return holds(expr, env) if isinstance(expr, COND_TYPES) else evaluate(expr, env)
    except ZeroDivisionError:
        return "divides by 0"


def check_expression(expr: Index | Cond, rng: random.Random) -> None:
    text = show_index(expr)
    back = read(text, type(expr))
    assert back == expr, text
    assert show_index(back) == text
    env = {name: rng.randint(-9, 9) for name in ("wave", "lane", "K", "%a", "%b.1", *FLAGS)}
    assert value_of(back, env) == value_of(expr, env)


def test_expressions(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 3000):
        rng = random.Random(seed)
        depth = rng.choice((0, 1, 2, 3, 5))
        make = rng.choice((random_index, random_cond))
        check_expression(make(rng, LEAVES, depth, flags=FLAGS), rng)


def test_every_pair_of_operators_keeps_its_shape() -> None:
    """Precedence: each operator inside each other one, on either side, with a negative number beside it."""
    rng = random.Random(0)
    a, b = Name("%a"), Const(-3)
    for outer, inner in product(ARITHMETIC, repeat=2):
        for left, right in ((a, b), (b, a), (b, b)):
            nested = Binary(inner, left, right)
            check_expression(Binary(outer, nested, b), rng)
            check_expression(Binary(outer, b, nested), rng)
            check_expression(Inexact(Binary(outer, nested, nested)), rng)
    conds: list[Cond] = [Truth(True), Truth(False), *(Compare(op, b, a) for op in COMPARISONS)]
    conds += [Not(each) for each in conds] + [
        Logic(op, x, y) for op in ("and", "or") for x, y in product(conds[:3], repeat=2)
    ]
    for x, y in product(conds, repeat=2):
        for op in ("and", "or"):
            check_expression(Logic(op, x, y), rng)
        check_expression(Not(Logic("or", x, y)), rng)
        check_expression(Compare("<", Select(x, a, b), Select(y, b, a)), rng)


def test_minus_before_a_number_is_the_number() -> None:
    assert read("%a - -3", Binary) == Binary("-", Name("%a"), Const(-3))
    assert read("-3 * %a", Binary) == Binary("*", Const(-3), Name("%a"))
    assert show_index(Binary("*", Name("%a"), Const(-3))) == "%a * (-3)"
    assert show_index(Binary("-", Const(0), Name("%a"))) == "0 - %a"


# --- kernels ------------------------------------------------------------------------------------------------------


def check_kernel(kernel: Kernel) -> None:
    text = show(kernel)
    module = parse(text)
    assert module.kernels == (kernel,)
    assert show(module) == text
    bad = [each for each in check(module.kernels[0], load_target("")) if each.is_bad_input]
    assert not bad, (bad[0], text)


def test_kernels(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, FAST):
        check_kernel(random_kernel(random.Random(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, *(pytest.param(each, marks=pytest.mark.full) for each in (2, 3))])
def test_many_kernels(request: pytest.FixtureRequest, part: int) -> None:
    for seed in list(seeds(request, SLOW))[part::4]:
        check_kernel(random_kernel(random.Random(1_000_000 + seed), size=4 + seed % 60))


def test_modules(request: pytest.FixtureRequest) -> None:
    """Several kernels in one file, whose targets change from one to the next and back to none."""
    for seed in seeds(request, 40):
        rng = random.Random(seed)
        kernels = []
        for number in range(rng.choice((0, 1, 2, 4))):
            kernel = random_kernel(rng, size=6)
            target = rng.choice(("", "", "gfx950", "gfx1250", "sm_90"))
            values = {each.name: getattr(kernel, each.name) for each in fields(kernel)}
            kernels.append(Kernel(**{**values, "name": f"k{number}", "target": target}))
        module = Module(tuple(kernels))
        text = show(module)
        assert parse(text) == module
        assert show(parse(text)) == text


def same_bytes(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        np.asarray(left[name]).tobytes() == np.asarray(right[name]).tobytes() for name in left
    )


def check_runnable(seed: int, target: str = "") -> None:
    kernel = runnable_kernel(random.Random(seed), target)
    (again,) = parse(show(kernel)).kernels
    assert again == kernel
    assert check(again, load_target(target)) == [], show(kernel)
    inputs = make_inputs(kernel, seed=seed)
    results = run(kernel, inputs, lanes=8)
    assert same_bytes(results, run(again, inputs, lanes=8))
    assert same_bytes(results, run(kernel, inputs, lanes=8))


def test_runnable_kernels(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, FAST // 2):
        check_runnable(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, *(pytest.param(each, marks=pytest.mark.full) for each in (2, 3))])
def test_many_runnable_kernels(request: pytest.FixtureRequest, part: int) -> None:
    for seed in list(seeds(request, SLOW))[part::4]:
        check_runnable(1_000_000 + seed, "gfx1250" if seed % 5 == 0 else "")


def test_the_same_seed_gives_the_same_kernel() -> None:
    for seed in range(20):
        assert random_kernel(random.Random(seed)) == random_kernel(random.Random(seed))
        assert runnable_kernel(random.Random(seed)) == runnable_kernel(random.Random(seed))


# --- what the random kernels hold ---------------------------------------------------------------------------------


def parts_of(item: Any) -> Iterable[Any]:
    """Every value inside a kernel, an operation or an expression, itself included."""
    stack = [item]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, tuple):
            stack.extend(part)
        elif hasattr(part, "__dataclass_fields__"):
            stack.extend(getattr(part, each.name) for each in fields(part) if each.name != "at")


@cache
def all_ops() -> frozenset[type]:
    return frozenset(get_args(Op))


@cache
def optional_fields(cls: Any) -> dict[str, object]:
    """Fields that have a default or may be None, with what they are when nobody sets them."""
    found = {each.name: each.default for each in fields(cls) if each.default is not MISSING and each.name != "at"}
    found |= {each.name: None for each in fields(cls) if "None" in str(each.type)}
    return found


def count_coverage(kernels: Iterable[Kernel]) -> Counter[str]:
    seen: Counter[str] = Counter()
    for kernel in kernels:
        for part in parts_of(kernel):
            cls = type(part)
            if isinstance(part, Type):
                seen[f"type {getattr(part, 'kind', '') or getattr(part, 'name', '') or cls.__name__}"] += 1
            if isinstance(part, Tile | Lds | Global):
                seen[f"dtype {part.dtype}"] += 1
                seen[f"{cls.__name__} of rank {len(part.shape)}"] += 1
            if isinstance(part, Lds | BarrierObject) and part.slots > 1:
                seen[f"{cls.__name__} with slots"] += 1
            if cls in all_ops() or cls in (Place, Kernel, Block):
                seen[cls.__name__] += 1
                for name, default in optional_fields(cls).items():
                    seen[f"{cls.__name__}.{name}"] += getattr(part, name) != default
            if isinstance(part, Binary | Compare | Logic):
                seen[f"{cls.__name__} {part.op}"] += 1
            elif cls in (*INDEX_TYPES, *COND_TYPES):
                seen[f"expression {cls.__name__}"] += 1
            if isinstance(part, Inexact):
                inside = {node.op for node in walk(part) if isinstance(node, Binary)}
                seen.update(f"inexact {op}" for op in inside)
            if isinstance(part, ops.Elementwise):
                seen[f"fn {part.fn}"] += 1
            if isinstance(part, ops.Fill):
                seen[f"fill {part.value!r}"] += 1
            if isinstance(part, Carried):
                seen[f"carried {type(part.value.type).__name__} {getattr(part.value.type, 'name', '')}".strip()] += 1
            if isinstance(part, ops.Conditional):
                seen.update(f"handed {type(each.type).__name__}" for each in part.results)
            if isinstance(part, ops.Iterate):
                seen["nested iterate"] += any(isinstance(op, ops.Iterate) for op in walk_ops(part.body))
    return seen


def wanted_everywhere() -> set[str]:
    wanted = {f"dtype {name}" for name in DTYPES} | {f"fn {fn}" for fn in ARITY}
    wanted |= {f"Binary {op}" for op in ARITHMETIC} | {f"Compare {op}" for op in COMPARISONS}
    wanted |= {"Logic and", "Logic or", "expression Not", "expression Flag", "expression Truth", "expression Select"}
    wanted |= {"expression Inexact", "expression Const", "expression Name", "inexact xor", "inexact *"}
    wanted |= {
        f"type {each}" for each in ("Tile", "Lds", "Global", "index", "flag", "dep", "mbarrier", "named_barrier")
    }
    wanted |= {f"carried {each}" for each in ("Tile", "Lds", "Plain index", "Plain flag", "Plain dep")}
    wanted |= {f"handed {each}" for each in ("Tile", "Lds", "Plain")} | {"nested iterate"}
    wanted |= {f"{cls} of rank {rank}" for cls in ("Tile", "Lds", "Global") for rank in range(4)}
    wanted |= {"fill -inf", "fill 1e-07", "fill -2.25", "Lds with slots", "BarrierObject with slots"}
    for cls in (*all_ops(), Place, Kernel):
        wanted.add(cls.__name__)
        wanted |= {f"{cls.__name__}.{name}" for name in optional_fields(cls)}
    return wanted


def test_random_kernels_hold_everything() -> None:
    seen = count_coverage(random_kernel(random.Random(seed)) for seed in range(400))
    assert not {each for each in wanted_everywhere() if not seen[each]}


def test_runnable_kernels_hold_almost_everything() -> None:
    """Those of a target as well: `Kernel.target` is set only there."""
    some = [runnable_kernel(random.Random(seed)) for seed in range(600)]
    some += [runnable_kernel(random.Random(seed), "gfx1250") for seed in range(50)]
    seen = count_coverage(some)
    assert not {each for each in wanted_everywhere() if not seen[each]}


# --- what random kernels have found -------------------------------------------------------------------------------


def test_a_line_with_parentheses_after_a_barrier_is_no_count() -> None:
    """`conditional (` and `yield (` were read as counters named `conditional` and `yield`."""
    text = """kernel @k(%n: index)
    waves 2 {
  %s_1 = iterate %k in 0 .. 2 carry(%s = 0 : index) {
    shared_memory_barrier
    conditional (%s == 1 or %n == 2) and %k < 1 {
      wait_count vmcnt(0)
    }
    shared_memory_barrier lgkmcnt(0)
    yield (%s + 1) mod 2
  }
}
"""
    assert show(parse(text)) == text


def test_a_scalar_i1_is_read() -> None:
    text = """kernel @k(%A: global<4xi1>, %B: global<i1>) waves 1 {
  %x = global_read %A[1] : tile<i1>
  global_write %x, %B
}"""
    (kernel,) = parse(text).kernels
    inputs = make_inputs(kernel)
    assert run(kernel, inputs)["B"] == inputs["A"][1]


def test_deep_expressions_are_refused_and_not_a_crash() -> None:
    deep = "(" * 500 + "1" + ")" * 500
    with pytest.raises(BadInput) as raised:
        parse(f"kernel @k() waves 1 {{ %a = let {deep} }}")
    assert [each.code for each in raised.value.findings] == ["TG006"]
