"""Index expressions and conditions: the arithmetic that says which bytes, which slot, which wave.

Needs   nothing of the rest of Tidegate
Gives   `Index` and `Cond`, two closed unions of frozen values, with printing, evaluation and substitution
Keeps   `parse(show(e)) == e`: a tree is kept as written, never normalised behind the user's back
Cost    linear in the tree

    Index ::= 42 | name | Index (+ - * // mod xor min max) Index | select(Cond, Index, Index) | inexact(Index)
    Cond  ::= true | name | Index (< <= == != >= >) Index | not Cond | Cond and Cond | Cond or Cond

A name is `wave`, `lane`, `wg0`..`wg2`, a size parameter such as `K`, or a value of the program such as `%k`.
`//` and `mod` round towards minus infinity. An index is *quasi-affine* if it multiplies and divides by constants
only; whatever is not must be marked `inexact`, so that no analysis can overlook it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

# Expressions of which something is remembered.
# Parts of an expression once names of `let` are replaced by what they stand for: no kernel comes near (test_damage.py).
MOST_PARTS = 10_000
REMEMBERED = 1 << 16

WAVE, LANE = "wave", "lane"
WORKGROUP = ("wg0", "wg1", "wg2")
MACHINE_NAMES = (WAVE, LANE, *WORKGROUP)


class _Hashed:
    """Keeps its hash and its names: expressions are keys of many tables, and both are made from those of the parts."""

    __slots__ = ("_hash", "_names")
    __match_args__: tuple[str, ...] = ()
    _hash: int
    _names: tuple[str, ...]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash(tuple([getattr(self, name) for name in self.__match_args__]))
            object.__setattr__(self, "_hash", found)
            return found


@dataclass(frozen=True, slots=True)
class Const:
    value: int

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class Name:
    name: str

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Binary(_Hashed):
    op: str
    left: Index
    right: Index
    __hash__ = _Hashed.__hash__


@dataclass(frozen=True, slots=True)
class Select(_Hashed):
    cond: Cond
    then: Index
    otherwise: Index
    __hash__ = _Hashed.__hash__


@dataclass(frozen=True, slots=True)
class Inexact(_Hashed):
    """Says: not quasi-affine on purpose. Its value is computed exactly and analysed as anything that fits."""

    index: Index
    __hash__ = _Hashed.__hash__


Index = Const | Name | Binary | Select | Inexact


@dataclass(frozen=True, slots=True)
class Truth:
    value: bool


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean of the program that nothing is known about."""

    name: str


@dataclass(frozen=True, slots=True)
class Compare(_Hashed):
    op: str
    left: Index
    right: Index
    __hash__ = _Hashed.__hash__


@dataclass(frozen=True, slots=True)
class Not(_Hashed):
    cond: Cond
    __hash__ = _Hashed.__hash__


@dataclass(frozen=True, slots=True)
class Logic(_Hashed):
    op: str
    left: Cond
    right: Cond
    __hash__ = _Hashed.__hash__


Cond = Truth | Flag | Compare | Not | Logic

INDEX_TYPES = (Const, Name, Binary, Select, Inexact)
COND_TYPES = (Truth, Flag, Compare, Not, Logic)

ZERO, ONE = Const(0), Const(1)
TRUE = Truth(True)

# How tightly each operator binds; `min`, `max` and `select` are written as calls.
PRECEDENCE = {"xor": 1, "+": 2, "-": 2, "*": 3, "//": 3, "mod": 3}
CALLS = ("min", "max")
COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}
OPPOSITE = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}
ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
}


# --- making ------------------------------------------------------------------------------------------------------


def combine(op: str, left: Index, right: Index) -> Index:
    """`left op right`, folded where a constant makes it trivial. The parser keeps what it reads instead."""
    if isinstance(left, Const) and isinstance(right, Const) and not (op in ("//", "mod") and right.value == 0):
        return Const(ARITHMETIC[op](left.value, right.value))
    match op, left, right:
        case ("+" | "-" | "xor", _, Const(0)) | ("*" | "//", _, Const(1)):
            return left
        case ("+" | "xor", Const(0), _) | ("*", Const(1), _):
            return right
        case ("*", Const(0), _) | ("*", _, Const(0)) | ("mod", _, Const(1)):
            return ZERO
    return Binary(op, left, right)


def add(left: Index, right: Index) -> Index:
    return combine("+", left, right)


def scale(index: Index, by: int) -> Index:
    """`index * by`; a product with a constant stays one product."""
    if isinstance(index, Binary) and index.op == "*" and isinstance(index.right, Const):
        return combine("*", index.left, Const(index.right.value * by))
    return combine("*", index, Const(by))


# --- asking ------------------------------------------------------------------------------------------------------


def names(expr: Index | Cond) -> tuple[str, ...]:
    """Every name in the tree, in order, with repetitions."""
    kind = type(expr)  # a question has hundreds of nodes: `isinstance` takes twice as long
    if kind is Const or kind is Truth:
        return ()
    if kind is Name or kind is Flag:
        return (expr.name,)  # type: ignore[union-attr]
    try:
        return expr._names  # type: ignore[union-attr]
    except AttributeError:
        found: tuple[str, ...] = ()
        for each in children(expr):
            found += names(each)
        object.__setattr__(expr, "_names", found)
        return found


def find_overgrown(meanings: Iterable[tuple[str, Index]]) -> str:
    """The first name whose meaning is larger than any analysis can follow, once the names in it are replaced by theirs.

    Each may name the one before it twice: sixty lines would stand for more parts than there is memory. Nothing is put
    together to find out. `meanings`: in the order in which names may use each other.
    """
    parts: dict[str, int] = {}
    for name, index in meanings:
        parts[name] = sum(parts.get(node.name, 1) if isinstance(node, Name) else 1 for node in walk(index))
        if parts[name] > MOST_PARTS:
            return name
    return ""


def walk(expr: Index | Cond) -> Iterator[Index | Cond]:
    """The nodes of the tree, parents first, left to right."""
    stack: list[Index | Cond] = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def children(node: Index | Cond) -> tuple[Index | Cond, ...]:
    match node:
        case Binary(_, left, right) | Compare(_, left, right):
            return (left, right)
        case Logic(_, a, b):
            return (a, b)
        case Select(cond, then, otherwise):
            return (cond, then, otherwise)
        case Inexact(index):
            return (index,)
        case Not(cond):
            return (cond,)
        case Const() | Name() | Truth() | Flag():
            return ()
        case _:
            assert_never(node)


@lru_cache(maxsize=REMEMBERED)
def why_not_affine(expr: Index | Cond) -> str:
    """What makes an expression not quasi-affine, in words; empty if it is. `inexact` hides what is in it."""
    stack: list[Index | Cond] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Inexact):
            continue
        if isinstance(node, Binary):
            reason = _why_not_affine_here(node)
            if reason:
                return reason
        stack.extend(reversed(children(node)))
    return ""


def _why_not_affine_here(node: Binary) -> str:
    if node.op == "xor":
        return "`xor` is linear over bits, not over integers"
    if node.op == "*" and constant(node.left) is None and constant(node.right) is None:
        return f"`{show(node)}` multiplies two values that vary"
    if node.op in ("//", "mod"):
        divisor = constant(node.right)
        if divisor is None:
            return f"`{show(node)}` divides by a value that varies"
        if divisor <= 0:
            return f"`{show(node)}` divides by {divisor}; a divisor must be positive"
    return ""


def constant(index: Index) -> int | None:
    """The value of an expression without names, or None."""
    if isinstance(index, Const):
        return index.value
    if names(index):
        return None
    try:
        return evaluate(index, {})
    except ZeroDivisionError:
        return None


def count_trips(lower: Index, upper: Index, step: int) -> int | None:
    """How often a loop from `lower` up to, not including, `upper` runs, if both are numbers."""
    low, high = constant(lower), constant(upper)
    return None if low is None or high is None else max(0, -(-(high - low) // step))


def is_inexact(expr: Index | Cond) -> bool:
    return any(isinstance(node, Inexact) for node in walk(expr))


# --- computing ---------------------------------------------------------------------------------------------------


def evaluate(index: Index, env: Mapping[str, int]) -> int:
    """The value under `env`. A name that is missing there is a KeyError."""
    if type(index) is Binary:  # most are: runs evaluate millions, and a `match` takes twice as long
        return ARITHMETIC[index.op](evaluate(index.left, env), evaluate(index.right, env))
    match index:
        case Name(name):
            return env[name]
        case Const(value):
            return value
        case Binary(op, left, right):
            return ARITHMETIC[op](evaluate(left, env), evaluate(right, env))
        case Select(cond, then, otherwise):
            return evaluate(then if holds(cond, env) else otherwise, env)
        case Inexact(inner):
            return evaluate(inner, env)
        case _:
            assert_never(index)


def holds(cond: Cond, env: Mapping[str, int]) -> bool:
    """Whether the condition is true under `env`, where flags are integers too."""
    match cond:
        case Truth(value):
            return value
        case Flag(name):
            return bool(env[name])
        case Compare(op, left, right):
            return COMPARISONS[op](evaluate(left, env), evaluate(right, env))
        case Not(inner):
            return not holds(inner, env)
        case Logic(op, left, right):
            return (holds(left, env) and holds(right, env)) if op == "and" else (holds(left, env) or holds(right, env))
        case _:
            assert_never(cond)


def substitute(index: Index, by: Mapping[str, Index]) -> Index:
    """The index with names replaced. Shares what does not change."""
    match index:
        case Const():
            return index
        case Name(name):
            return by.get(name, index)
        case Binary(op, left, right):
            new = (substitute(left, by), substitute(right, by))
            return index if new[0] is left and new[1] is right else Binary(op, *new)
        case Select(cond, then, otherwise):
            return Select(substitute_cond(cond, by), substitute(then, by), substitute(otherwise, by))
        case Inexact(inner):
            return Inexact(substitute(inner, by))
        case _:
            assert_never(index)


def substitute_cond(cond: Cond, by: Mapping[str, Index]) -> Cond:
    match cond:
        case Truth() | Flag():
            return cond
        case Compare(op, left, right):
            return Compare(op, substitute(left, by), substitute(right, by))
        case Not(inner):
            return Not(substitute_cond(inner, by))
        case Logic(op, left, right):
            return Logic(op, substitute_cond(left, by), substitute_cond(right, by))
        case _:
            assert_never(cond)


# --- printing ----------------------------------------------------------------------------------------------------


def show(expr: Index | Cond) -> str:
    """The text that parses to the same tree."""
    if isinstance(expr, COND_TYPES):
        return _show_cond(expr, 0)
    return _show_index(expr, 0)


def _show_index(index: Index, above: int) -> str:
    match index:
        case Const(value):
            return str(value) if value >= 0 or above < PRECEDENCE["*"] else f"({value})"
        case Name(name):
            return name
        case Binary(op, left, right) if op in CALLS:
            return f"{op}({_show_index(left, 0)}, {_show_index(right, 0)})"
        case Binary(op, left, right):
            binds = PRECEDENCE[op]
            text = f"{_show_index(left, binds)} {op} {_show_index(right, binds + 1)}"
            return f"({text})" if binds < above else text
        case Select(cond, then, otherwise):
            return f"select({_show_cond(cond, 0)}, {_show_index(then, 0)}, {_show_index(otherwise, 0)})"
        case Inexact(inner):
            return f"inexact({_show_index(inner, 0)})"
        case _:
            assert_never(index)


_BINDS_COND = {"or": 1, "and": 2}


def _show_cond(cond: Cond, above: int) -> str:
    match cond:
        case Truth(value):
            return "true" if value else "false"
        case Flag(name):
            return name
        case Compare(op, left, right):
            text = f"{_show_index(left, 0)} {op} {_show_index(right, 0)}"
            return f"({text})" if above > 3 else text
        case Not(inner):
            return f"not {_show_cond(inner, 4)}"
        case Logic(op, left, right):
            binds = _BINDS_COND[op]
            text = f"{_show_cond(left, binds)} {op} {_show_cond(right, binds + 1)}"
            return f"({text})" if binds < above else text
        case _:
            assert_never(cond)
