"""Index expressions and conditions from tokens, by precedence climbing.

Needs   a cursor, and a scope that knows which names mean something
Gives   an `Index` or a `Cond`
Keeps   never looks back: linear however the parentheses nest
"""

from __future__ import annotations

from typing import Protocol

from tidegate.diag import Span
from tidegate.index import (
    CALLS,
    COMPARISONS,
    COND_TYPES,
    PRECEDENCE,
    Binary,
    Compare,
    Cond,
    Const,
    Flag,
    Index,
    Inexact,
    Logic,
    Name,
    Not,
    Select,
    Truth,
)
from tidegate.language.lexer import ELSEWHERE, Cursor

# Deeper than anybody writes, shallow enough for every recursive function here.
MAX_DEPTH = 100
_LEVEL = {"or": 1, "and": 2, **dict.fromkeys(COMPARISONS, 4), **{op: 4 + level for op, level in PRECEDENCE.items()}}


class Scope(Protocol):
    """What a name means where it stands."""

    def is_flag(self, name: str) -> bool: ...

    def check_name(self, name: str, at: int) -> None: ...


def parse_index(cursor: Cursor, scope: Scope) -> Index:
    first = cursor.position
    expr = _parse(cursor, scope, 0, 0)[0]
    if isinstance(expr, COND_TYPES):
        cursor.fail(
            "expected an index, found a condition",
            at=cursor.span(first, cursor.position - 1),
            help="turn it into a number, as in `select(wave < 2, 1, 0)`",
        )
    return expr


def parse_cond(cursor: Cursor, scope: Scope) -> Cond:
    first = cursor.position
    expr = _parse(cursor, scope, 0, 0)[0]
    if not isinstance(expr, COND_TYPES):
        cursor.fail(
            "expected a condition, found an index",
            at=cursor.span(first, cursor.position - 1),
            help="compare it with something, as in `wave < 2`",
        )
    return expr


# An expression with its depth.
_Deep = tuple[Index | Cond, int]


def _parse(cursor: Cursor, scope: Scope, floor: int, nesting: int) -> _Deep:
    """An expression whose operators all bind tighter than `floor`."""
    first = cursor.position
    left, depth = _parse_first(cursor, scope, nesting)
    while True:
        op = cursor.text
        level = _LEVEL.get(op, 0)
        if level <= floor or cursor.kind not in ("word", "punct"):
            if cursor.kind in ("value", "bad"):
                _reject_remainder(cursor)
            return left, depth
        cursor.advance()
        right, other = _parse(cursor, scope, level, nesting + 1)
        depth = max(depth, other) + 1
        at = cursor.span(first, cursor.position - 1)
        if depth > MAX_DEPTH:
            _too_deep(cursor, at)
        left = _join(cursor, op, left, right, at)
        if op in COMPARISONS and cursor.text in COMPARISONS:
            cursor.fail(
                "a comparison cannot be chained", at=cursor.span(first, cursor.position), help="write `a < b and b < c`"
            )


def _reject_remainder(cursor: Cursor) -> None:
    """`wave %2` and `wave % 2`: what looks like a value may also be the start of the next operation."""
    at, text = cursor.position, cursor.text
    starts_operation = cursor.kind == "value" and cursor.texts[at + 1] in ("=", ",")
    if text[0] == "%" and not starts_operation and cursor.span(at - 1).line == cursor.span(at).line:
        cursor.fail(f"expected an operator, found `{text}`", help=ELSEWHERE["%"])


def _join(cursor: Cursor, op: str, left: Index | Cond, right: Index | Cond, at: Span) -> Index | Cond:
    if op in ("and", "or"):
        if isinstance(left, COND_TYPES) and isinstance(right, COND_TYPES):
            return Logic(op, left, right)
        cursor.fail(f"`{op}` joins two conditions", at=at)
    if isinstance(left, COND_TYPES) or isinstance(right, COND_TYPES):
        cursor.fail(f"`{op}` joins two indices", at=at)
    return Compare(op, left, right) if op in COMPARISONS else Binary(op, left, right)


def _parse_first(cursor: Cursor, scope: Scope, nesting: int) -> _Deep:
    """A number, a name, a call, or something in parentheses."""
    start = cursor.position
    if nesting > MAX_DEPTH:
        _too_deep(cursor, cursor.span(start))
    kind, text = cursor.kind, cursor.text
    if kind == "int":
        return Const(cursor.integer("a number")), 1
    if kind == "value":
        cursor.advance()
        scope.check_name(text, start)
        return (Flag(text) if scope.is_flag(text) else Name(text)), 1
    if text == "-":
        return _parse_minus(cursor, scope, nesting)
    if text == "(":
        cursor.advance()
        inner = _parse(cursor, scope, 0, nesting + 1)
        cursor.expect(")")
        return inner
    if kind != "word":
        cursor.fail(f"expected an index, found {cursor.found()}")
    cursor.advance()
    if text in ("true", "false"):
        return Truth(text == "true"), 1
    if text == "not":
        inner_cond, depth = _parse(cursor, scope, 3, nesting + 1)
        if not isinstance(inner_cond, COND_TYPES):
            cursor.fail("`not` takes a condition", at=cursor.span(start, cursor.position - 1))
        return Not(inner_cond), depth + 1
    if text in ("select", "inexact", *CALLS) and cursor.text == "(":
        return _parse_call(cursor, scope, text, start, nesting)
    scope.check_name(text, start)
    return Name(text), 1


def _parse_minus(cursor: Cursor, scope: Scope, nesting: int) -> _Deep:
    """`-3` is a constant; `-x` is `0 - x`."""
    cursor.advance()
    if cursor.kind == "int":
        return Const(-cursor.integer("a number")), 1
    start = cursor.position
    inner, depth = _parse_first(cursor, scope, nesting + 1)
    if isinstance(inner, COND_TYPES):
        cursor.fail("`-` takes an index", at=cursor.span(start, cursor.position - 1))
    return Binary("-", Const(0), inner), depth + 1


def _parse_call(cursor: Cursor, scope: Scope, name: str, start: int, nesting: int) -> _Deep:
    cursor.expect("(")
    args = [_parse(cursor, scope, 0, nesting + 1)]
    while cursor.accept(","):
        args.append(_parse(cursor, scope, 0, nesting + 1))
    cursor.expect(")")
    exprs, depth = [arg[0] for arg in args], max(arg[1] for arg in args) + 1
    match name, exprs:
        case "select", [Truth() | Flag() | Compare() | Not() | Logic() as cond, then, otherwise] if not isinstance(
            then, COND_TYPES
        ) and not isinstance(otherwise, COND_TYPES):
            return Select(cond, then, otherwise), depth
        case "inexact", [inner] if not isinstance(inner, COND_TYPES):
            return Inexact(inner), depth
        case (("min" | "max"), [left, right]) if not isinstance(left, COND_TYPES) and not isinstance(right, COND_TYPES):
            return Binary(name, left, right), depth
    takes = {"select": "a condition and two indices", "inexact": "one index"}.get(name, "two indices")
    cursor.fail(f"`{name}` takes {takes}", at=cursor.span(start, cursor.position - 1))


def _too_deep(cursor: Cursor, at: Span) -> None:
    cursor.fail(
        f"an expression is nested more than {MAX_DEPTH} deep", code="TG006", at=at, help="name a part of it with `let`"
    )
