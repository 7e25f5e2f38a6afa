"""Rounds of a nest whose inner loop runs a symbolic number of times: rounds of all tiles are counted on.

Needs   arithmetic; which opaque numbers gain how much
Gives   `Counting`: what such a number is in tiles and rounds, in one case of how many rounds a tile has
Keeps   what is given is the number
Cost    linear in an expression

With `u` rounds in a tile, round k of tile t is number t * u + k. That is no affine function. Either u is a number, and
then it is one; or a round is known by its tile and its place in there, [t, k], and S rounds later is [t, k + S], or
[t + 1, k + S - u], or so, for all u from some number on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.footprint.arithmetic import Arithmetic
from tidegate.index import ZERO, Compare, Cond, Const, Index, Logic, Name, Not, Truth, names

UNIT = "rounds'"  # the name of a number of rounds that is no name itself


@dataclass(frozen=True, slots=True)
class RoundLine:
    """A number as `tiles` times the rounds of a tile, and `rest`. Both are affine functions of iterations."""

    tiles: Index
    rest: Index


@dataclass(frozen=True, slots=True)
class Counting:
    """One case. `unit`: how many rounds a tile has; `size`: a name for it, or its number here; `least`: of a name.

    `most`: how many tiles one step of a ring may cross. `values`: numbers that are carried, where `size` is a number.
    """

    unit: Index
    size: Name | Const
    least: int
    most: int
    math: Arithmetic
    lines: Mapping[str, RoundLine]
    values: Mapping[str, Index]

    @property
    def is_symbolic(self) -> bool:
        return isinstance(self.size, Name)

    def line(self, index: Index) -> RoundLine | None:
        """An expression with numbers that are carried; None if it is no sum of these."""
        terms, rest = self.math.sum(index)
        tiles: Index = ZERO
        more: Index = Const(rest)
        for atom, factor in terms.items():
            own = self.lines.get(atom.name) if isinstance(atom, Name) else None
            if own is None and self.is_used_in(atom):
                return None
            found = own or RoundLine(ZERO, atom)
            tiles = self.math.binary("+", tiles, self.math.binary("*", found.tiles, Const(factor)))
            more = self.math.binary("+", more, self.math.binary("*", found.rest, Const(factor)))
        return RoundLine(tiles, more)

    def is_used_in(self, expr: Index | Cond | None) -> bool:
        return expr is not None and any(name in self.lines for name in names(expr))

    # --- conditions on rounds ---

    def asked(self, cond: Cond) -> tuple[Cond, Cond] | None:
        """When a condition on rounds holds, and when nobody can say; None if it is no such condition."""
        if not self.is_used_in(cond):
            return cond, Truth(False)
        match cond:
            case Not(inner):
                found = self.asked(inner)
                return None if found is None else (_none_of(found), found[1])
            case Logic(op, left, right):
                one, other = self.asked(left), self.asked(right)
                if one is None or other is None:
                    return None
                return Logic(op, one[0], other[0]), Logic("or", one[1], other[1])
            case Compare(op, left, right):
                line = self.line(self.math.binary("-", left, right))
                return None if line is None else self.compared(op, line)
        return None

    def compared(self, op: str, line: RoundLine) -> tuple[Cond, Cond]:
        """`line op 0`."""
        less = RoundLine(self.math.binary("*", line.tiles, Const(-1)), self.math.binary("*", line.rest, Const(-1)))
        match op:
            case ">=":
                return self.not_negative(line)
            case "<=":
                return self.not_negative(less)
            case "<" | ">":
                found = self.not_negative(line if op == "<" else less)
                return _none_of(found), found[1]
        one, other = self.not_negative(line), self.not_negative(less)
        equal, unknown = Logic("and", one[0], other[0]), Logic("or", one[1], other[1])
        return (equal, unknown) if op == "==" else (_none_of((equal, unknown)), unknown)

    def not_negative(self, line: RoundLine) -> tuple[Cond, Cond]:
        """Some tiles more or less decide, unless the rest is as large as that."""
        found: Cond = Truth(False)
        for step in range(-self.most, self.most + 1):
            whole = self.math.binary("+", self.math.binary("*", self.size, Const(step)), line.rest)
            here = Compare("==", line.tiles, Const(step))
            found = Logic("or", found, Logic("and", here, Compare(">=", whole, ZERO)))
        large = self.math.binary("*", self.size, Const(self.most + 1))
        above, below = Compare(">", line.tiles, Const(self.most)), Compare("<", line.tiles, Const(-self.most))
        is_small = Compare("<", self.math.binary("+", line.rest, large), ZERO)
        is_large = Compare(">=", line.rest, large)
        unknown = Logic("or", Logic("and", above, is_small), Logic("and", below, is_large))
        return Logic("or", found, Logic("and", above, Not(is_small))), unknown


def _none_of(parts: tuple[Cond, Cond]) -> Cond:
    return Not(Logic("or", *parts))
