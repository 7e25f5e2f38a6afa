"""Questions about integers, against trying every point: `find_point`, `range_of`, and indices that leave buffers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product

import pytest

from oracles.programs.random_kernels import random_cond, random_index, small_kernel
from tests.language.test_roundtrip import seeds
from tidegate.diag import Finding
from tidegate.index import LANE, WAVE, Binary, Compare, Cond, Const, Logic, Name, constant, evaluate, holds
from tidegate.language import ops
from tidegate.language.bounds import find_outside
from tidegate.language.facts import find_facts
from tidegate.language.linear import as_system
from tidegate.language.ops import Block, Kernel, Op
from tidegate.language.parse import parse
from tidegate.language.points import _question, find_point, has_point
from tidegate.language.ranges import ANY, range_of
from tidegate.language.show import show
from tidegate.language.types import Lds, Tile

# --- points -------------------------------------------------------------------------------------------------------


def inside_box(name: str, low: int, high: int) -> Cond:
    return Logic("and", Compare(">=", Name(name), Const(low)), Compare("<=", Name(name), Const(high)))


def least_by_trying(conds: list[Cond], order: tuple[str, ...], box: dict[str, range]) -> dict[str, int] | None:
    for point in product(*(box[name] for name in order)):
        env = dict(zip(order, point, strict=True))
        if all(holds(cond, env) for cond in conds):
            return env
    return None


def check_point(rng: random.Random) -> None:
    order = ("x", "y", "%f") if rng.random() < 0.3 else ("x", "y", "z")[: rng.choice((1, 2, 3))]
    box = {name: range(2) if name == "%f" else range(rng.choice((-3, 0)), rng.choice((2, 4))) for name in order}
    leaves = tuple(Name(name) for name in order if name != "%f")
    flags = [name for name in order if name == "%f"]
    conds = [random_cond(rng, leaves, 2, affine=True, flags=flags) for _ in range(rng.choice((1, 1, 2, 3)))]
    asked = [*conds, *(inside_box(name, each.start, each.stop - 1) for name, each in box.items())]
    least = least_by_trying(conds, order, box)
    assert find_point(asked, order) == least, asked
    assert has_point(asked) == (least is not None), asked
    first = find_point(asked, order[:1], others=False)
    assert first is None if least is None else first is not None and first[order[0]] == least[order[0]], asked


def test_points(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 1000):
        check_point(random.Random(seed))


def test_a_least_point_that_takes_isl_minutes() -> None:
    """Two slots, eight waves: `lexmin` of this set does not end, the least point itself is found at once."""
    k, i, j, u, v, byte = map(Name, ("K", "i", "j", "u", "v", "byte"))
    slot = Binary("*", Binary("mod", j, Const(2)), Const(16384))
    other = Binary("*", Binary("mod", i, Const(2)), Const(16384))
    first = Binary("+", slot, Binary("*", Binary("mod", u, Const(4)), Const(4096)))
    second = Binary("+", other, Binary("*", v, Const(2048)))
    asked = [
        Compare("==", Binary("mod", k, Const(32)), Const(0)),
        Compare("<", i, Binary("//", k, Const(32))),
        *(
            Logic("and", Compare("<=", a, byte), Compare("<", byte, Binary("+", a, Const(size))))
            for a, size in ((first, 4096), (second, 2048))
        ),
        *(inside_box(name, 0, 7) for name in ("u", "v")),
        Compare("!=", u, v),
        *(Compare("<", j, i), Compare(">=", j, Const(0)), Compare(">=", k, Const(1))),
    ]
    found = find_point(asked, ("K", "i", "j", "u", "v", "byte"))
    assert found == {"K": 96, "i": 2, "j": 0, "u": 0, "v": 1, "byte": 2048}


def test_numbers_that_no_register_holds() -> None:
    least = 10**20
    x = Name("x")
    asked = [Compare(">=", x, Const(least)), Compare("==", Binary("mod", x, Const(7)), Const(3))]
    found = find_point(asked, ("x",))
    assert found == {"x": least + (3 - least) % 7}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_points(request: pytest.FixtureRequest, part: int) -> None:
    for seed in list(seeds(request, 12_000))[part::4]:
        check_point(random.Random(1_000_000 + seed))


@pytest.mark.parametrize("op", ["==", "!=", "<", ">="])
@pytest.mark.parametrize("index", ["min(N, 2)", "select(N < 2, N, 0 - N)", "N mod 3", "N // 2", "max(N mod 2, N // 3)"])
def test_not_of_what_needs_a_hidden_variable(op: str, index: str) -> None:
    """A hidden variable stands outside of `not`: it is a function of the others, never a free choice."""
    (kernel,) = parse(f"kernel @k() sizes(N = 1) where(not ({index} {op} 1)) waves 1 {{}}").kernels
    (cond,) = kernel.where
    want = next(({"N": value} for value in range(-4, 5) if holds(cond, {"N": value})), None)
    assert find_point([cond, inside_box("N", -4, 4)], ("N",)) == want


# --- ranges -------------------------------------------------------------------------------------------------------


def check_range(rng: random.Random) -> None:
    names = ("x", "y")
    known = {name: (low := rng.randint(-4, 3), low + rng.choice((0, 1, 4))) for name in names}
    index = random_index(rng, tuple(map(Name, names)), rng.choice((1, 2, 3)))
    low, high = range_of(index, known)
    values = []
    for point in product(*(range(known[name][0], known[name][1] + 1) for name in names)):
        try:
            values.append(evaluate(index, dict(zip(names, point, strict=True))))
        except ZeroDivisionError:
            continue
    assert not values or (low <= min(values) and max(values) <= high), (index, known)


def test_ranges_are_never_too_narrow(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 3000):
        check_range(random.Random(seed))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("%n", ANY),
        ("%n mod 4", (0, 3)),
        ("min(%n, 3)", (ANY[0], 3)),
        ("max(%n, 3)", (3, ANY[1])),
        ("%n // 2", ANY),
        ("0 * %n", (0, 0)),
        ("%n - %n", ANY),
        ("max(%n, 0) // 2", (0, ANY[1])),
    ],
)
def test_what_is_not_known_has_no_end(text: str, want: tuple[float, float]) -> None:
    (kernel,) = parse(f"kernel @k(%n: index) waves 1 {{ %a = let {text} }}").kernels
    let = kernel.body.ops[0]
    assert isinstance(let, ops.Let)
    assert range_of(let.value, {}) == want


# --- indices that leave buffers -----------------------------------------------------------------------------------

Env = dict[str, int]
LANES = 2


class _Ended(Exception):
    """The wave has ended."""


def visits(kernel: Kernel) -> Iterator[tuple[Op, Env]]:
    """Every access that is reached, with the values of all names there, for all sizes, flags, waves and lanes."""
    sizes = [range(1, 4) for _ in kernel.sizes]
    flags = [range(2) for _ in kernel.args]
    for values in product(*sizes, *flags, range(kernel.waves), range(LANES)):
        names = [*(each.name for each in kernel.sizes), *(each.name for each in kernel.args), WAVE, LANE]
        env = dict(zip(names, values, strict=True))
        if all(holds(cond, env) for cond in kernel.where):
            found: list[tuple[Op, Env]] = []
            with suppress(_Ended):
                _walk(kernel.body, env, found)
            yield from found


def _walk(block: Block, env: Env, found: list[tuple[Op, Env]]) -> list[int]:
    for op in block.ops:
        match op:
            case ops.Let():
                env[op.result.name] = evaluate(op.value, env)
            case ops.Exit():
                raise _Ended
            case ops.Specialize():
                for group in op.groups:
                    if group.first <= env[WAVE] < group.last:
                        _walk(group.body, env, found)
            case ops.Conditional():
                handed = _walk(op.then if holds(op.cond, env) else op.otherwise, env, found)
                env.update(zip((each.name for each in op.results), handed, strict=True))
            case ops.Iterate():
                names = [each.value.name for each in op.carried]
                handed = [evaluate(each.init, env) for each in op.carried]  # type: ignore[arg-type]
                for count in range(evaluate(op.lower, env), evaluate(op.upper, env), constant(op.step) or 1):
                    env.update({op.counter.name: count, **dict(zip(names, handed, strict=True))})
                    handed = _walk(op.body, env, found)
                env.update(zip((each.name for each in op.results), handed, strict=True))
            case ops.LocalRead():
                found.append((op, dict(env)))
    return [evaluate(each, env) for each in block.yields]  # type: ignore[arg-type]


def leaves_buffer(op: ops.LocalRead, env: Env) -> tuple[bool, bool]:
    """Whether an element that is touched lies outside its axis, and whether the slot does not exist."""
    base, tile = op.place.base.type, op.result.type
    assert isinstance(base, Lds)
    assert isinstance(tile, Tile)
    extents = (1,) * (len(base.shape) - len(tile.shape)) + tile.shape
    axes = []
    for axis, extent in enumerate(extents):
        start = evaluate(op.place.index[axis], env)
        touched = [start + step for step in range(extent)]
        if op.bounds:
            limit = evaluate(op.bounds[axis], env)
            touched = [each for each in touched if each < limit]
        axes.append(touched)
    nothing = any(not touched for touched in axes) or op.mask is not None
    outside = any(not 0 <= each < size for touched, size in zip(axes, base.shape, strict=True) for each in touched)
    return outside and not nothing, not 0 <= evaluate(op.place.slot, env) < base.slots and not nothing


def read_witness(finding: Finding) -> Env:
    """The names and numbers after `with`."""
    text = finding.labels[0].text.rpartition("with ")[2]
    found = {name: int(number) for name, number in re.findall(r"(\S+) = (-?\d+)", text)}
    found.update((WAVE, int(number)) for number in re.findall(r"wave (\d+)", text))
    return found


def check_indices(kernel: Kernel, *, exact: bool) -> bool:
    (kernel,) = parse(show(kernel)).kernels  # with spans, which say which access is meant
    findings = list(find_outside(kernel, find_facts(kernel)))
    seen = list(visits(kernel))
    for finding in findings:
        assert finding.code in ("TG301", "TG304"), finding
        kind = ("TG301", "TG304").index(finding.code)
        witness = read_witness(finding)
        real = [
            env
            for op, env in seen
            if op.at == finding.at and leaves_buffer(op, env)[kind] and witness.items() <= env.items()  # type: ignore[arg-type]
        ]
        assert real, (finding, show(kernel))
    wrong = [(op, env) for op, env in seen if any(leaves_buffer(op, env))]  # type: ignore[arg-type]
    if exact:
        assert bool(findings) == bool(wrong), (findings, wrong[:1], show(kernel))
    return bool(findings)


def test_indices_are_reported_exactly_when_they_leave(request: pytest.FixtureRequest) -> None:
    found = [check_indices(small_kernel(random.Random(seed), exact=True), exact=True) for seed in seeds(request, 250)]
    assert 0.2 < sum(found) / len(found) < 0.9


def test_what_is_reported_is_real(request: pytest.FixtureRequest) -> None:
    for seed in seeds(request, 250):
        check_indices(small_kernel(random.Random(seed), exact=False), exact=False)


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.full)])
def test_many_indices(request: pytest.FixtureRequest, part: int, exact: bool) -> None:
    for seed in list(seeds(request, 3000))[part::2]:
        check_indices(small_kernel(random.Random(1_000_000 + seed), exact=exact), exact=exact)


# --- what trying every case has found -----------------------------------------------------------------------------

NOT_REAL = {
    "a bound below the start leaves nothing": "%r = local_read %a[20] bounds(12) : tile<4xi32>",
    "a bound of another axis leaves nothing": "%r = local_read %b[4, 9] bounds(2, 16) : tile<1x1xi32>",
    "a mask may leave nothing": "%m = fill 0.0 : tile<1xi1> %r = local_read %a[9] mask %m : tile<1xi32>",
    "a carried index has no other values than its own": """
      %l = iterate %k in 0 .. 4 carry(%s = 0 : index) {
        conditional %s == 5 { %r = local_read %a[9] : tile<1xi32> }
        yield (%s + 1) mod 2
      }""",
    "a lane is not negative": "conditional lane < 0 { %r = local_read %a[9] : tile<1xi32> }",
    "a lane is not without end": "%i = let lane mod 4 + 2 %r = local_read %a[%i] : tile<1xi32>",
    "nothing comes after exit": "exit %r = local_read %a[9] : tile<1xi32>",
    "only other waves come after exit": "conditional wave >= 2 { exit } %r = local_read %a[wave + 6] : tile<1xi32>",
    "neither arm is left": """
      conditional wave < 2 { exit } else { conditional wave < 4 { exit } }
      %r = local_read %a[9] : tile<1xi32>""",
    "a loop may end before its last trip": """
      iterate %k in 0 .. 16 {
        %r = local_read %a[%k] : tile<1xi32>
        conditional %k == 7 { exit }
      }""",
    "states repeat in steps": """
      %l = iterate %k in 0 .. 8 step 2 carry(%s = 0 : index) {
        %r = local_read %a[select(%s == 0, %k, 0)] : tile<2xi32>
        conditional %k mod 4 == 2 { %q = local_read %a[%s + 6] : tile<1xi32> }
        conditional %k mod 4 == 0 { %q2 = local_read %a[7 + %s] : tile<1xi32> }
        yield 1 - %s
      }""",
}
REAL = {
    "a bound behind the array": "%r = local_read %a[6] bounds(12) : tile<4xi32>",
    "a carried index and a counter together, after the states repeat": """
      %l = iterate %k in 0 .. 9 carry(%s = 0 : index) {
        %r = local_read %a[%s + %k] : tile<1xi32>
        yield (%s + 1) mod 2
      }""",
    "the other waves go on after exit": "conditional wave < 2 { exit } %r = local_read %a[wave + 6] : tile<1xi32>",
}


def codes_of(body: str) -> list[str]:
    text = f"kernel @k() waves 4 {{ %a = alloc : lds<8xi32> %b = alloc : lds<8x8xi32> {body} }}"
    (kernel,) = parse(text).kernels
    return [each.code for each in find_outside(kernel, find_facts(kernel))]


@pytest.mark.parametrize("case", NOT_REAL)
def test_nothing_is_reported_that_cannot_happen(case: str) -> None:
    assert codes_of(NOT_REAL[case]) == []


@pytest.mark.parametrize("case", REAL)
def test_what_can_happen_is_reported(case: str) -> None:
    assert codes_of(REAL[case]) == ["TG301"]


def test_long_chains_of_select_are_checked_at_once() -> None:
    """Names of `let` were replaced a hundred times over wherever a `select` stood."""
    body = "%x0 = let wave mod 2 " + " ".join(f"%x{n + 1} = let select(%x{n} == 0, 1, 0)" for n in range(60))
    assert codes_of(f"{body} %r = local_read %a[%x60] : tile<1xi32>") == []


def test_a_choice_in_several_conditions_is_made_once() -> None:
    """A place stands in two conditions on its bytes; with a copy of its choices in each, isl took ten times as long."""
    choice = Binary("min", Binary("max", Name("x"), Const(0)), Const(3))
    text, _ = _question([Compare(">=", Name("b"), choice), Compare("<", Name("b"), Binary("+", choice, Const(4)))], ())
    assert text.count("h0 =") == 2
    assert "h2" not in text
    system, _ = as_system([Logic("and", Compare("!=", Name("a"), Const(0)), Compare("!=", Name("b"), Const(0)))], ())
    assert system is not None
    assert [len(ways) for ways in system.choices] == [2, 2]  # and not one choice of four ways
