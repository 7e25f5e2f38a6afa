"""Quotients and remainders by a constant, of numbers beside a symbol.

Needs   a number for each thread, the symbol that all threads share, and what is known of the symbol's range
Gives   the same in pieces that can be computed further; None where nothing exact can be said
Keeps   rounded down, exact for every value in the range; what would have to be known of a symbol is in `wanted`
Cost    linear in the threads

`(%k * 2863311531) // 2**33` is `%k // 3`: what compilers make of a division by a constant is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np

from tidegate.footprint.arithmetic import Arithmetic, Range
from tidegate.hosts.isa.values import Value
from tidegate.index import ZERO, Binary, Const, Index, Name, walk

MOST_PARTS = 64  # of a product, that may belong to what is divided
Parts = tuple[Any, Index]  # a number for each thread, and a symbol


@dataclass(slots=True)
class Quotients:
    math: Arithmetic
    wanted: dict[tuple[str, int], None] = field(default_factory=dict)  # remainders of symbols that would say more

    def masked(self, base: Any, plus: Index, mask: int, low: int) -> Parts | None:
        """`x and mask`, where the mask is one run of bits: what is left by its end, less what is left by its start."""
        if 0 <= mask < low:
            return base & mask, ZERO
        start = mask & -mask
        end = mask + start  # 0: the run goes on to the sign
        if not mask or end & (end - 1):
            return None
        if end and low % start == 0 and (whole := self.divided((base, plus), start)) is not None:
            found = self.remainder(whole, end // start)
            return None if found is None else (found[0] * start, Binary("*", found[1], Const(start)))
        below = self.remainder((base, plus), start)
        whole = self.remainder((base, plus), end) if end else (base, plus)
        if below is None or whole is None:
            return None
        return whole[0] - below[0], Binary("-", whole[1], below[1])

    def remainder(self, value: Parts, by: int) -> Parts | None:
        uniform = self.as_one(*value)
        if uniform is not None:
            return np.zeros_like(value[0]), self.with_wanted("mod", uniform, by)
        if self.step_of(value[1]) % by == 0:
            return value[0] % by, ZERO
        self.want(value[1], by)
        return None

    def divided(self, value: Parts, by: int) -> Parts | None:
        """Rounded down."""
        low, high = self.bounds(Value(*value))
        if low is not None and high is not None and low >= 0 and high < by:
            return np.zeros_like(value[0]), ZERO
        value, by = self.by_multiplying(value, by)
        uniform = self.as_one(*value)
        if uniform is not None:
            return np.zeros_like(value[0]), self.with_wanted("//", uniform, by)
        terms, rest = self.math.sum(self.math.put(value[1], {}))
        if all(factor % by == 0 for factor in terms.values()):
            whole = self.math.index(({atom: factor // by for atom, factor in terms.items()}, 0))
            return (value[0] + rest) // by, whole
        self.want(value[1], by)
        return None

    def by_multiplying(self, product: Parts, by: int) -> tuple[Parts, int]:
        """`n * factor // by` where that is `n // divisor` for all n in its range: `factor` rounds `by / divisor` up."""
        terms, rest = self.math.sum(self.math.put(product[1], {}))
        base = product[0] + rest
        whole = gcd(int(np.gcd.reduce(base)), *terms.values())
        for part in range(1, MOST_PARTS):
            factor = whole // part
            if whole % part or factor < MOST_PARTS or not by % factor or (divisor := round(by / factor)) < 2:
                continue
            inner = base // factor, self.math.index(({atom: times // factor for atom, times in terms.items()}, 0))
            low, high = self.bounds(Value(*inner))
            more = factor * divisor - by
            if low is not None and low >= 0 and high is not None and more >= 0 and more * high < by:
                return inner, divisor
        return product, by

    def with_wanted(self, operator: str, uniform: Index, by: int) -> Index:
        """A quotient or remainder; where it stays one, what would have to be known of each symbol in it."""
        found = self.math.put(Binary(operator, uniform, Const(by)), {})
        if any(isinstance(node, Binary) and node.op == operator for node in walk(found)):
            self.want(uniform, by)
        return found

    def want(self, plus: Index, by: int) -> None:
        for atom, factor in self.math.sum(self.math.put(plus, {}))[0].items():
            if isinstance(atom, Name):
                self.wanted[atom.name, by // gcd(by, factor)] = None

    def as_one(self, base: Any, plus: Index) -> Index | None:
        """The value as one index, if all threads hold the same."""
        if not (base == base.flat[0]).all():
            return None
        return self.math.put(Binary("+", plus, Const(int(base.flat[0]))), {})

    def step_of(self, plus: Index) -> int:
        """What all that the symbol can be is a multiple of."""
        return gcd(*self.math.sum(self.math.put(plus, {}))[0].values()) or 1

    def bounds(self, value: Value) -> Range:
        low, high = self.math.bounds(value.plus)
        least, most = int(value.base.min()), int(value.base.max())
        return None if low is None else low + least, None if high is None else high + most
