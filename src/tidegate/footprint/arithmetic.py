"""Expressions in one normal form, so that equal values look equal and decided questions disappear.

Needs   index expressions, values for some of their names, and ranges that are known of the others
Gives   sums of atoms with constant factors, conditions against constants; `inexact` marks are taken off
Keeps   the value under every assignment of names that respects the ranges
Cost    linear in the tree, times the logarithm of its width

    (%k + 1 + 3) mod 4   becomes   %k mod 4      where `%k` is known to lie in 0..3 it becomes `%k`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from tidegate.index import (
    ARITHMETIC,
    COMPARISONS,
    ONE,
    OPPOSITE,
    ZERO,
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
    show,
)

Range = tuple[int | None, int | None]  # from, up to and including; None: nobody knows
ANY: Range = (None, None)
Sum = tuple[dict[Index, int], int]


class Arithmetic:
    """Normal forms under ranges of names."""

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        self.ranges = ranges
        self._keys: dict[Index, str] = {}

    # --- indices ---

    def put(self, index: Index, by: Mapping[str, Index]) -> Index:
        """The index with names replaced, in normal form."""
        match index:
            case Const():
                return index
            case Name(name):
                return by.get(name, index)
            case Inexact(inner):
                return self.put(inner, by)
            case Select(cond, then, otherwise):
                return self.select(self.put_cond(cond, by), self.put(then, by), self.put(otherwise, by))
            case Binary("+" | "-"):
                return self.index(self.put_sum(index, by))
            case Binary(op, left, right):
                return self.binary(op, self.put(left, by), self.put(right, by))
            case _:
                assert_never(index)

    def put_sum(self, index: Index, by: Mapping[str, Index]) -> Sum:
        """The same for a sum, which is put in order once and not at every step."""
        terms: dict[Index, int] = {}
        rest = 0
        stack = [(index, 1)]
        while stack:
            node, factor = stack.pop()
            if isinstance(node, Binary):
                if node.op == "+":
                    stack += ((node.left, factor), (node.right, factor))
                    continue
                if node.op == "-":
                    stack += ((node.left, factor), (node.right, -factor))
                    continue
                if node.op == "*" and isinstance(node.right, Const):
                    stack.append((node.left, factor * node.right.value))
                    continue
            more, constant = self.sum(self.put(node, by))
            rest += factor * constant
            for atom, times in more.items():
                terms[atom] = terms.get(atom, 0) + factor * times
        return {atom: factor for atom, factor in terms.items() if factor}, rest

    def binary(self, op: str, left: Index, right: Index) -> Index:
        """`left op right`, where both are in normal form."""
        if isinstance(left, Const) and isinstance(right, Const) and not (op in ("//", "mod") and right.value == 0):
            return Const(ARITHMETIC[op](left.value, right.value))
        if op in ("+", "-"):
            return self.index(_plus(self.sum(left), self.sum(right), 1 if op == "+" else -1))
        if op == "*" and isinstance(right, Const):
            return self.index(_times(self.sum(left), right.value))
        if op == "*" and isinstance(left, Const):
            return self.index(_times(self.sum(right), left.value))
        if op == "mod" and isinstance(right, Const) and right.value > 0:
            return self.mod(left, right.value)
        if op == "//" and isinstance(right, Const) and right.value > 0:
            return self.divide(left, right.value)
        if op in ("min", "max"):
            return self.extreme(op, left, right)
        if op == "xor":
            return self.xor(left, right)
        return Binary(op, left, right)

    def sum(self, index: Index) -> Sum:
        """An index in normal form as atoms with factors, and a constant."""
        terms: dict[Index, int] = {}
        rest = 0
        stack: list[tuple[Index, int]] = [(index, 1)]
        while stack:
            node, factor = stack.pop()
            if isinstance(node, Const):
                rest += factor * node.value
            elif isinstance(node, Binary) and node.op in ("+", "-"):
                stack.append((node.left, factor))
                stack.append((node.right, factor if node.op == "+" else -factor))
            elif isinstance(node, Binary) and node.op == "*" and isinstance(node.right, Const):
                stack.append((node.left, factor * node.right.value))
            else:
                terms[node] = terms.get(node, 0) + factor
        return {atom: factor for atom, factor in terms.items() if factor}, rest

    def index(self, parts: Sum) -> Index:
        """A sum written out, its atoms in one order."""
        terms, rest = parts
        if not terms:
            return Const(rest)
        order = sorted(terms, key=self.key) if len(terms) > 1 else list(terms)
        found: Index | None = None
        for atom in order:
            factor = terms[atom]
            term = atom if factor == 1 else Binary("*", atom, Const(factor))
            found = term if found is None else Binary("+", found, term)
        assert found is not None
        return found if rest == 0 else Binary("+", found, Const(rest))

    def key(self, atom: Index) -> str:
        text = self._keys.get(atom)
        if text is None:
            text = self._keys[atom] = show(atom)
        return text

    def mod(self, index: Index, by: int) -> Index:
        terms, rest = self.sum(index)
        flat: Sum = ({}, rest % by)
        for atom, factor in terms.items():
            if factor % by == 0:
                continue
            inner, times = atom, factor % by
            if isinstance(atom, Binary) and atom.op == "mod" and isinstance(atom.right, Const):
                size = atom.right.value
                if (size * times) % by == 0:
                    inner = atom.left
            flat = _plus(flat, _times(self.sum(inner), times), 1)
        reduced = {atom: factor % by for atom, factor in flat[0].items() if factor % by}
        rest = flat[1] % by
        if not reduced:
            return Const(rest)
        for atom, factor in reduced.items():
            if isinstance(atom, Select) and isinstance(atom.then, Const):  # one arm is a number, and so it stays
                others = ({each: times for each, times in reduced.items() if each is not atom}, rest)
                then, otherwise = (
                    self.mod(self.index(_plus(others, _times(self.sum(arm), factor), 1)), by)
                    for arm in (atom.then, atom.otherwise)
                )
                return self.select(atom.cond, then, otherwise)
        for parts in ((reduced, rest), (terms, self.sum(index)[1])):
            low, high = self.bounds_of(parts)
            if low is not None and high is not None and low // by == high // by:
                return self.index((parts[0], parts[1] - low // by * by))
        return Binary("mod", self.index((reduced, rest)), Const(by))

    def divide(self, index: Index, by: int) -> Index:
        if by == 1:
            return index
        terms, rest = self.sum(index)
        whole = {atom: factor // by for atom, factor in terms.items() if factor % by == 0}
        left = {atom: factor for atom, factor in terms.items() if factor % by}
        low, high = self.bounds_of((left, rest))
        if low is not None and high is not None and low // by == high // by:
            return self.index((whole, low // by))
        more, rest = divmod(rest, by)
        if len(left) == 1 and rest == 0:
            (atom,) = left
            if left[atom] == 1 and isinstance(atom, Binary) and atom.op == "//" and isinstance(atom.right, Const):
                deeper = Binary("//", atom.left, Const(atom.right.value * by))
                return self.index(_plus((whole, more), ({deeper: 1}, 0), 1))
        return self.index(_plus((whole, more), ({Binary("//", self.index((left, rest)), Const(by)): 1}, 0), 1))

    def extreme(self, op: str, left: Index, right: Index) -> Index:
        low, high = self.bounds(self.binary("-", left, right))
        if high is not None and high <= 0:
            return left if op == "min" else right
        if low is not None and low >= 0:
            return right if op == "min" else left
        return Binary(op, left, right)

    def xor(self, left: Index, right: Index) -> Index:
        if left == right:
            return ZERO
        for one, other in ((left, right), (right, left)):
            if one == ZERO:
                return other
            if one == ONE and _inside(self.bounds(other), 0, 1):
                return self.binary("-", ONE, other)
        return Binary("xor", left, right)

    def select(self, cond: Cond, then: Index, otherwise: Index) -> Index:
        if isinstance(cond, Truth):
            return then if cond.value else otherwise
        if then == otherwise:
            return then
        if isinstance(cond, Not):
            return self.select(cond.cond, otherwise, then)
        match cond:
            case Compare("==", Name(name), Const()) if isinstance(then, Const):
                if self.put(otherwise, {name: cond.right}) == then:  # no exception at all
                    return otherwise
            case Compare(">=" | "<", around, Const(limit)):
                over, under = (then, otherwise) if cond.op == ">=" else (otherwise, then)
                wrapped = self.wrapped(around, limit, over, under)
                if wrapped is not None:
                    return wrapped
        return Select(cond, then, otherwise)

    def wrapped(self, around: Index, limit: int, over: Index, under: Index) -> Index | None:
        """`select(x >= n - 1, 0, x + 1)`, of which x is never more than n - 1, is `(x + 1) mod n`."""
        terms, step = _plus(self.sum(under), self.sum(around), -1)
        size = limit + step
        if terms or size <= 0:
            return None
        low, high = self.bounds(around)
        if low is None or high is None or low + step < 0:
            return None
        back, rest = _plus(self.sum(under), self.sum(over), -1)
        # One step back is a remainder only below 2 * size: `3 - wave` may start far above (test_arithmetic).
        is_back = not back and rest == size and high + step < 2 * size
        is_start = isinstance(over, Const) and high == limit and over.value == 0
        return self.mod(under, size) if is_back or is_start else None

    # --- conditions ---

    def put_cond(self, cond: Cond, by: Mapping[str, Index]) -> Cond:
        match cond:
            case Truth():
                return cond
            case Flag(name):
                value = by.get(name)
                return cond if value is None or value == Name(name) else self.truth(value)
            case Compare(op, left, right):
                return self.compare(op, self.put(left, by), self.put(right, by))
            case Not(inner):
                return negate(self.put_cond(inner, by))
            case Logic(op, left, right):
                return logic(op, self.put_cond(left, by), self.put_cond(right, by))
            case _:
                assert_never(cond)

    def truth(self, value: Index) -> Cond:
        """Whether a number that stands for a flag is not 0."""
        match value:
            case Select(cond, Const(a), Const(b)):
                return Truth(a != 0) if (a != 0) == (b != 0) else cond if a else negate(cond)
            case Name(name) if self.is_flag(name):
                return Flag(name)
        return self.compare("!=", value, ZERO)

    def is_flag(self, name: str) -> bool:
        """Whether a name that takes the place of a flag is one: it is, where names are only renamed."""
        return bool(name)

    def compare(self, op: str, left: Index, right: Index) -> Cond:
        terms, rest = _plus(self.sum(left), self.sum(right), -1)
        if not terms:
            return Truth(COMPARISONS[op](rest, 0))
        low, high = self.bounds_of((terms, rest))
        decided = _decide(op, low, high)
        if decided is not None:
            return Truth(decided)
        return Compare(op, self.index((terms, 0)), Const(-rest))

    # --- ranges ---

    def bounds(self, index: Index) -> Range:
        """The least and the greatest value, as far as ranges tell."""
        match index:
            case Const(value):
                return value, value
            case Name(name):
                return self.ranges.get(name, ANY)
            case Binary("+" | "-" | "*", _, _):
                terms, rest = self.sum(index)
                if len(terms) == 1 and index in terms:
                    return ANY
                return self.bounds_of((terms, rest))
            case Binary("mod", left, Const(by)) if by > 0:
                low, high = self.bounds(left)
                return (0, by - 1) if low is None or high is None or low < 0 else (0, min(high, by - 1))
            case Binary("//", left, Const(by)) if by > 0:
                low, high = self.bounds(left)
                return (None if low is None else low // by, None if high is None else high // by)
            case Binary("min" | "max" as op, left, right):
                return _extreme(op, self.bounds(left), self.bounds(right))
            case Binary("xor", left, right):
                low, high = _around(self.bounds(left), self.bounds(right))
                return ANY if low is None or high is None or low < 0 else (0, (1 << high.bit_length()) - 1)
            case Select(_, then, otherwise):
                return _around(self.bounds(then), self.bounds(otherwise))
            case Inexact(inner):
                return self.bounds(inner)
        return ANY

    def bounds_of(self, parts: Sum) -> Range:
        low: int | None = parts[1]
        high: int | None = parts[1]
        for atom, factor in parts[0].items():
            a, b = self.bounds(atom)
            if factor < 0:
                a, b = b, a
            low = None if low is None or a is None else low + a * factor
            high = None if high is None or b is None else high + b * factor
        return low, high


def negate(cond: Cond) -> Cond:
    match cond:
        case Truth(value):
            return Truth(not value)
        case Not(inner):
            return inner
        case Compare(op, left, right):
            return Compare(OPPOSITE[op], left, right)
    return Not(cond)


def logic(op: str, left: Cond, right: Cond) -> Cond:
    """`left op right`, decided where one side decides it."""
    absorbs = op == "or"
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Truth):
            return one if one.value == absorbs else other
    return left if left == right else Logic(op, left, right)


def both(left: Cond, right: Cond) -> Cond:
    return logic("and", left, right)


def _plus(one: Sum, other: Sum, sign: int) -> Sum:
    terms = dict(one[0])
    for atom, factor in other[0].items():
        new = terms.get(atom, 0) + sign * factor
        if new:
            terms[atom] = new
        else:
            terms.pop(atom, None)
    return terms, one[1] + sign * other[1]


def _times(parts: Sum, by: int) -> Sum:
    return ({atom: factor * by for atom, factor in parts[0].items()} if by else {}), parts[1] * by


def _inside(found: Range, low: int, high: int) -> bool:
    return found[0] is not None and found[1] is not None and low <= found[0] and found[1] <= high


def _around(one: Range, other: Range) -> Range:
    low = None if one[0] is None or other[0] is None else min(one[0], other[0])
    high = None if one[1] is None or other[1] is None else max(one[1], other[1])
    return low, high


def _extreme(op: str, one: Range, other: Range) -> Range:
    pick = min if op == "min" else max
    low, high = (None if a is None or b is None else pick(a, b) for a, b in zip(one, other, strict=True))
    if op == "min" and high is None:
        high = one[1] if one[1] is not None else other[1]
    if op == "max" and low is None:
        low = one[0] if one[0] is not None else other[0]
    return low, high


def _decide(op: str, low: int | None, high: int | None) -> bool | None:
    """What `value op 0` is for all values from `low` to `high`, if it is one answer."""
    below, above = high is not None and high < 0, low is not None and low > 0
    not_above, not_below = high is not None and high <= 0, low is not None and low >= 0
    yes, no = {
        "<": (below, not_below),
        "<=": (not_above, above),
        ">": (above, not_above),
        ">=": (not_below, below),
        "==": (False, below or above),
        "!=": (below or above, False),
    }[op]
    return True if yes else False if no else None
