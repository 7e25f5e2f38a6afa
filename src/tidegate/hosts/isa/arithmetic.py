"""Arithmetic on values: exact on bits where all is known, on sums where there is a symbol.

Needs   values, and what is known of the range of each symbol
Gives   the value of an operator; truths of comparisons and selections
Keeps   a lane is known only if every operand is known there; a symbol stays only where the result is exact, on the
        assumption that sums with symbols do not wrap around. Everything else is unknown
Cost    linear in the threads
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tidegate.footprint.arithmetic import Arithmetic, Range
from tidegate.footprint.values import size_of
from tidegate.hosts.isa import bits as b
from tidegate.hosts.isa.bounded import bounded
from tidegate.hosts.isa.quotients import Quotients
from tidegate.hosts.isa.values import (
    ANYWHERE,
    GLOBAL,
    NO_TAGS,
    OUTSIDE,
    SIXTEENTH,
    Pred,
    Value,
    number,
    tags_of_either,
    truth,
    unknown,
    unsure,
)
from tidegate.index import COMPARISONS, ZERO, Binary, Compare, Cond, Const, Index, Logic, Not, Select, Truth

MOST_NODES = 60  # of a symbol: larger ones say nothing to anybody
MOST_FACTOR, MOST_WIDE = 1 << 20, 1 << 40
WHOLE_WAVE = 31  # what a shuffle among all lanes of a wave is given: the last lane, and no parts
SCALED = {"mul", "mulwide", "mad", "madwide", "shl"}
WRAPPING = {"copy", "add", "sub", "neg", "not", "mul", "shl", "and"}
ANNULLED = {"and", "mul", "mulwide"}  # by an operand that is 0, whatever the other is
UNSIGNED = {"mulwide", "mulhi", "div", "rem", "min", "max"}
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Calculator:
    """Operators over the threads of one block. `ranges`: of symbols."""

    def __init__(self, threads: int, ranges: dict[str, Range]) -> None:
        self.threads, self.ranges = threads, ranges
        self.math = Arithmetic(ranges)
        self.whole = Quotients(self.math)

    def compute(self, operator: str, given: list[Value], bits: int, signed: bool, source: int) -> Value:
        # Numba wraps an index by the length of its array where the index is negative: `sign & length` is 0 elsewhere.
        if operator in ANNULLED and any(each.is_number and not b.wrap(each.base, source).any() for each in given):
            return number(0, self.threads)
        tags = NO_TAGS.union(*(each.tags for each in given))
        if operator in SCALED:  # what was read is an index then, and no address
            tags = tags - {ANYWHERE} | (given[2].tags if len(given) > 2 else NO_TAGS)
        if operator == "sub" and given[0].tags == given[1].tags and len(tags) == 1 and ANYWHERE not in tags:
            tags = NO_TAGS  # how far two addresses of one array lie apart
        same = all(each.is_uniform for each in given)
        lost = unknown(self.threads, same, tags)
        if OUTSIDE in tags and (operator != "copy" or min(bits, source) < 32):
            return unknown(self.threads, False, tags - {OUTSIDE})
        if any(each.known is not None and not each.known.any() for each in given):
            few = bounded(operator, given, bits, signed, source)
            return lost if few is None else self.restated_few(few, tags, same)
        if operator == "shuffle":
            if not (given[2].is_number and (given[2].base == WHOLE_WAVE).all()):
                return unknown(self.threads, False, tags)
            if not all(each.is_number for each in given):
                return lost
        if all(each.plus == ZERO for each in given):
            function = b.OPERATORS.get(operator)
            if function is None:
                return lost
            # What is added to a wide product has all bits already, and a shift's count has 32 whatever is shifted.
            narrow = {"madwide": 2, "shl": 1, "shr": 1}.get(operator, len(given))
            bases = [b.wrap(each.base, source) if place < narrow else each.base for place, each in enumerate(given)]
            found = b.wrap(function(bases, bits, signed, source), bits)
            known = self.known_in(given)
            if operator in ("div", "rem"):
                known = self.divisible(known, b.wrap(given[1].base, source))
                same = same and known is not None and not known.any()
            return Value(found, ZERO, known, same if known is not None else False, tags)
        if any(not each.is_known for each in given):
            return lost
        # What a register of 16 bits holds beside a symbol is known up to multiples of 2**16, which these keep.
        wraps = bits == source == 16 and operator in WRAPPING
        if source < 32 and operator != "copy" and not wraps and not self.all_fit(given, source):
            return lost
        found_sum = self.symbolic(operator, given, bits, signed, source)
        if found_sum is None:
            return lost
        base, plus = found_sum
        found = self.total(base, plus, tags, bits)
        # 8 and 16 bits are few: counters of these do wrap around.
        return found if found is not None and (bits >= 32 or wraps or self.fits(found, bits)) else lost

    def divisible(self, known: Any, by: Any) -> Any:
        """What comes of a division by 0 is up to the machine (PTX ISA 9.7.1.7)."""
        if (by != 0).all():
            return known
        return by != 0 if known is None else known & (by != 0)

    def known_in(self, given: list[Value]) -> Any:
        known = None
        for each in given:
            if each.known is not None:
                known = each.known if known is None else known & each.known
        return known

    def total(self, base: Any, plus: Index, tags: frozenset[str], bits: int) -> Value | None:
        """A value from a number for each thread and a symbol, whose constant goes to the numbers."""
        terms, rest = self.math.sum(self.math.put(plus, {}))
        left = self.math.index((terms, 0))
        base = np.ascontiguousarray(np.broadcast_to(base + rest, (self.threads,)))
        if left == ZERO:
            return Value(b.wrap(base, bits), ZERO, None, False, tags)
        return None if size_of(left, MOST_NODES) > MOST_NODES else Value(base, left, None, False, tags)

    def restated_few(self, few: Value, tags: frozenset[str], same: bool) -> Value:
        """One of a few numbers, its symbol in normal form and its constant with the numbers."""
        terms, rest = self.math.sum(self.math.put(few.plus, {}))
        plus = self.math.index((terms, 0))
        if size_of(plus, MOST_NODES) > MOST_NODES:
            return unknown(self.threads, same, tags)
        return replace(few, base=few.base + rest, plus=plus, tags=tags, same=same)

    def restated(self, held: Value, plus: Index, bits: int) -> Value:
        """The same value in terms of other symbols. Threads of which nothing is known stay so."""
        found = self.total(held.base, plus, held.tags, bits)
        if found is None:
            return unknown(self.threads, held.is_uniform, held.tags)
        return found if held.known is None else replace(found, known=held.known, same=held.same)

    # --- with symbols ---

    def symbolic(
        self, operator: str, given: list[Value], bits: int, signed: bool, source: int
    ) -> tuple[Any, Index] | None:
        if operator == "mad":
            inner, added = self.symbolic("mul", given[:2], bits, signed, source), self.parts(given[2], source, True)
            return None if inner is None or self.is_hash(added, bits) else self.sum(inner, added)
        if operator == "madwide":
            inner = self.symbolic("mulwide", given[:2], bits, signed, source)
            return None if inner is None else self.sum(inner, self.parts(given[2], 64, True))
        first = self.parts(given[0], source, signed or operator not in ("mulwide", "mulhi"))
        second = self.parts(given[1], source, signed or operator not in ("mulwide", "mulhi")) if given[1:] else None
        match operator:
            case "copy":
                return self.copied(first, given[0], bits, signed, source)
            case "cut":  # half of a register's bits; addresses of shared memory have no more
                is_address = any(tag != GLOBAL and not tag.endswith(SIXTEENTH) for tag in given[0].tags)
                is_address = is_address and GLOBAL not in given[0].tags
                return first if is_address or self.fits(given[0], bits) else self.cut(first, bits)
            case "neg":
                return -first[0], Binary("*", first[1], Const(-1))
            case "not":
                return -first[0] - 1, Binary("*", first[1], Const(-1))
        if second is None or len(given) > 2:
            return None
        if (
            not signed
            and operator in UNSIGNED
            and not (self.is_never_negative(first) and self.is_never_negative(second))
        ):
            return None  # as bits it is a large number
        match operator:
            case "add" | "sub":
                if self.is_hash(first, bits) or self.is_hash(second, bits):
                    return None
                return self.sum(first, second if operator == "add" else (-second[0], Binary("*", second[1], Const(-1))))
            case "mul":
                return self.in_bits(self.product(first, second, MOST_FACTOR if bits <= 32 else MOST_WIDE), bits)
            case "mulwide":
                return self.product(first, second)
            case "mulhi":
                whole = self.product(first, second)
                return None if whole is None else self.whole.divided(whole, 1 << source)
            case "shl":
                if second[1] != ZERO or (second[0] < 0).any() or (second[0] >= min(bits, 40)).any():
                    return None
                return self.in_bits(self.product(first, (1 << second[0], second[1])), bits)
            case "and" | "or" | "xor":
                return self.bitwise(operator, first, second)
        return self.of_one(operator, first, second, signed, bits)

    def parts(self, value: Value, bits: int, signed: bool) -> tuple[Any, Index]:
        """Numbers as integers: bits beside a symbol are meant with a sign."""
        base = (
            value.base if value.plus != ZERO else (b.signed(value.base, bits) if signed else b.wrap(value.base, bits))
        )
        return base, value.plus

    def copied(
        self, first: tuple[Any, Index], value: Value, bits: int, signed: bool, source: int
    ) -> tuple[Any, Index] | None:
        """A number of another width; of fewer bits only where it is sure to fit."""
        if bits == source == 16:
            return first
        low, high = self.whole.bounds(value)
        if bits >= 32 and source >= 32 and (signed or bits <= source or (low is not None and low >= 0)):
            return first  # 32-bit sums do not wrap around
        # With a sign, the last bit that is kept is taken for it.
        if low is not None and high is not None and low >= 0 and high < 1 << (min(bits, source) - signed):
            return first
        # A register of 16 bits is known up to multiples of 2**16: zeros above make it a remainder.
        return self.whole.remainder(first, 1 << 16) if source == 16 and bits >= 32 and not signed else None

    def cut(self, value: tuple[Any, Index], bits: int) -> tuple[Any, Index] | None:
        """The lowest bits, with a sign, of a number that all threads share."""
        uniform = self.whole.as_one(*value)
        if uniform is None:
            return None
        half = Const(1 << (bits - 1))
        rest = Binary("mod", Binary("+", uniform, half), Const(1 << bits))
        return np.zeros_like(value[0]), self.math.put(Binary("-", rest, half), {})

    def fits(self, value: Value, bits: int) -> bool:
        """Whether a value is sure to be one of so many bits, with a sign."""
        low, high = self.whole.bounds(value)
        return low is not None and high is not None and -(1 << (bits - 1)) <= low and high < 1 << (bits - 1)

    def all_fit(self, given: list[Value], bits: int) -> bool:
        """The same of values with a symbol: others are bits, and mean what the operator takes them for."""
        return all(self.fits(each, bits) for each in given if each.plus != ZERO)

    def in_bits(self, value: tuple[Any, Index] | None, bits: int) -> tuple[Any, Index] | None:
        """A product. One by a large factor wraps around, and is meant to: a hash, or a shift that cuts bits off."""
        if value is None or value[1] == ZERO or bits == 16:
            return value
        factor = self.whole.step_of(value[1])
        return value if factor < 1 << (bits // 2) or self.fits(Value(*value), bits) else None

    def is_hash(self, value: tuple[Any, Index], bits: int) -> bool:
        """Whether a number is so large that sums with it wrap around, and are meant to."""
        base, plus = value
        return plus == ZERO and bool((np.abs(base) >= 1 << min(bits * 3 // 4, 48)).any())

    def sum(self, one: tuple[Any, Index], other: tuple[Any, Index]) -> tuple[Any, Index]:
        return one[0] + other[0], Binary("+", one[1], other[1])

    def is_never_negative(self, value: tuple[Any, Index]) -> bool:
        low = self.low_of(*value)
        return low is not None and low >= 0

    def product(
        self, one: tuple[Any, Index], other: tuple[Any, Index], most: int = MOST_WIDE
    ) -> tuple[Any, Index] | None:
        for (base, plus), (by, more) in ((one, other), (other, one)):
            if more == ZERO and (by == by.flat[0]).all():
                factor = int(by.flat[0])
                if abs(factor) < most:
                    return base * factor, Binary("*", plus, Const(factor))
        return None

    def bitwise(self, operator: str, one: tuple[Any, Index], other: tuple[Any, Index]) -> tuple[Any, Index] | None:
        if one[1] == ZERO:
            one, other = other, one
        (base, plus), (by, more) = one, other
        if more != ZERO:
            return None
        step = self.whole.step_of(plus)
        low = step & -step
        if operator != "and" and (by >= 0).all() and (by < low).all():
            # Only bits below every multiple of the symbol's step change.
            rest = base & (low - 1)
            return base - rest + (rest | by if operator == "or" else rest ^ by), plus
        if not (by == by.flat[0]).all():
            return None
        mask = int(by.flat[0])
        if operator == "and":
            return self.whole.masked(base, plus, mask, low)
        if operator == "xor" and (uniform := self.whole.as_one(base, plus)) is not None and self.is_natural(uniform):
            return (np.zeros_like(base), Binary("xor", uniform, Const(mask))) if mask >= 0 else None
        return None

    def of_one(
        self, operator: str, first: tuple[Any, Index], second: tuple[Any, Index], signed: bool, bits: int
    ) -> tuple[Any, Index] | None:
        """Operators on a symbol that all threads share, by a constant."""
        base, plus = first
        by = second[0]
        if operator in ("min", "max"):
            one, other = self.whole.as_one(*first), self.whole.as_one(*second)
            if one is None or other is None:
                return None
            return np.zeros_like(base), Binary(operator, one, other)
        if second[1] != ZERO or not (by == by.flat[0]).all():
            return None
        count = int(by.flat[0])
        if operator == "shr" and 0 <= count < 62:
            low = self.low_of(base, plus)
            if signed or (low is not None and low >= 0):
                return self.whole.divided(first, 1 << count)
        if count <= 0 or not self.is_never_negative(first):
            return None
        if operator == "div":
            return self.whole.divided(first, count)
        return self.whole.remainder(first, count) if operator == "rem" else None

    def index_of(self, value: Value, bits: int = 32) -> Index | None:
        """A value that all threads share, as an index."""
        if not value.is_known:
            return None
        return self.whole.as_one(*self.parts(value, bits, True))

    def low_of(self, base: Any, plus: Index) -> int | None:
        low, _ = self.math.bounds(plus)
        return None if low is None else low + int(base.min())

    def is_natural(self, index: Index) -> bool:
        low, _ = self.math.bounds(index)
        return low is not None and low >= 0

    # --- truths ---

    def compare(self, operator: str, left: Value, right: Value, bits: int, signed: bool) -> Pred:
        same = left.is_uniform and right.is_uniform
        if OUTSIDE in left.tags | right.tags:
            return unsure(self.threads, False)
        if left.plus == ZERO and right.plus == ZERO:
            one, other = (b.signed(each.base, bits) if signed else b.wrap(each.base, bits) for each in (left, right))
            if not signed and bits == 64:
                one, other = one.view(np.uint64), other.view(np.uint64)
            known = self.known_in([left, right])
            return Pred(b.COMPARE[operator](one, other), known, None, same if known is not None else False)
        if not (left.is_known and right.is_known):
            return unsure(self.threads, same)
        if bits < 32 and not self.all_fit([left, right], bits):
            return unsure(self.threads, same)
        (one, first), (other, second) = (self.parts(each, bits, True) for each in (left, right))
        if not signed and operator not in ("eq", "ne"):
            lows = (self.low_of(one, first), self.low_of(other, second))
            if any(each is None or each < 0 for each in lows):
                return self.compare_bits(operator, (one, first), (other, second)) or unsure(self.threads, same)
        if operator in ("eq", "ne"):
            (one, first), (other, second) = self.without_mod((one, first), (other, second))
        apart = one - other
        if not (apart == apart[0]).all():
            return self.compare_apart(operator, apart, Binary("-", first, second))
        difference = self.math.put(Binary("+", Binary("-", first, second), Const(int(apart[0]))), {})
        return self.decided(self.math.put_cond(Compare(COMPARED[operator], difference, ZERO), {}))

    def compare_bits(self, operator: str, one: tuple[Any, Index], other: tuple[Any, Index]) -> Pred | None:
        """Without a sign, a number below 0 is above every other: `n - 1 < 3` holds for n from 1 to 3."""
        left, right = self.whole.as_one(*one), self.whole.as_one(*other)
        if left is None or not isinstance(right, Const) or right.value < 0:
            return None
        compared = Compare(COMPARED[operator], left, right)
        sign = Compare(">=", left, ZERO) if operator in ("lt", "le") else Compare("<", left, ZERO)
        return self.decided(self.math.put_cond(Logic("and" if operator in ("lt", "le") else "or", sign, compared), {}))

    def without_mod(self, one: tuple[Any, Index], other: tuple[Any, Index]) -> tuple[tuple[Any, Index], ...]:
        """Two remainders of one number are equal if that of their difference is 0."""
        left, right = self.whole.as_one(*one), self.whole.as_one(*other)
        match left, right:
            case Binary("mod", a, Const(by)), Binary("mod", c, Const(size)) if by == size:
                zero = np.zeros(self.threads, np.int64)
                return (zero, Binary("mod", Binary("-", a, c), Const(by))), (zero, ZERO)
        return one, other

    def compare_apart(self, operator: str, apart: Any, plus: Index) -> Pred:
        """Lanes that differ, with a symbol: those are known in which its range decides."""
        low, high = self.math.bounds(self.math.put(plus, {}))
        function, known = b.COMPARE[operator], np.zeros(self.threads, bool)
        if low is None or high is None or operator in ("eq", "ne"):
            return unsure(self.threads, False)
        least, most = function(apart + low, 0), function(apart + high, 0)
        known = least == most
        return Pred(least, None if known.all() else known)

    def decided(self, cond: Cond) -> Pred:
        if isinstance(cond, Truth):
            return truth(cond.value, self.threads)
        if size_of(cond, MOST_NODES) > MOST_NODES:
            return unsure(self.threads, True)
        match cond:  # compilers keep a truth as 0 or 1, and ask later which it is
            case Compare(op, Select(inner, Const(one), Const(other)), Const(right)):
                held, left = (COMPARISONS[op](each, right) for each in (one, other))
                if held != left:
                    return Pred(
                        np.zeros(self.threads, bool), None, inner if held else self.math.put_cond(Not(inner), {})
                    )
        return Pred(np.zeros(self.threads, bool), None, cond)

    def logic(self, operator: str, given: list[Pred]) -> Pred:
        first = given[0]
        if operator == "copy":
            return first
        if operator == "not":
            if first.cond is not None:
                return self.decided(self.math.put_cond(Not(first.cond), {}))
            return Pred(~first.base, first.known, None, first.same)
        second = given[1]
        if first.cond is None and second.cond is None:
            known = b.known_after(operator, first, second)
            same = first.is_uniform and second.is_uniform
            held = b.LOGIC[operator](first.base & first.lanes, second.base & second.lanes)
            return Pred(held, None if known.all() else known, None, same and not known.all())
        for one, other in ((first, second), (second, first)):
            if one.is_number and one.is_uniform:
                value = bool(one.base[0])
                if operator in ("and", "or"):
                    return other if value == (operator == "and") else one
                return self.logic("not", [other]) if value else other
        if operator in ("and", "or") and first.cond is not None and second.cond is not None:
            return self.decided(self.math.put_cond(Logic(operator, first.cond, second.cond), {}))
        return unsure(self.threads, first.is_uniform and second.is_uniform)

    def select(self, pred: Pred, then: Value, otherwise: Value, bits: int) -> Value:
        if then == otherwise and then.is_known:
            return then
        tags = tags_of_either(then, otherwise)
        same = pred.is_uniform and then.is_uniform and otherwise.is_uniform
        if pred.cond is not None:
            one, other = self.index_of(then, bits), self.index_of(otherwise, bits)
            if one is None or other is None:
                return unknown(self.threads, same, tags)
            found = self.total(np.zeros(self.threads, np.int64), Select(pred.cond, one, other), tags, bits)
            return found or unknown(self.threads, same, tags)
        if then.plus != otherwise.plus:
            if pred.is_number and pred.base.all():
                return then
            if pred.is_number and not pred.base.any():
                return otherwise
            return unknown(self.threads, same, tags)
        yes, no = (b.wrap(each.base, bits) if each.plus == ZERO else each.base for each in (then, otherwise))
        base = np.where(pred.base, yes, no)
        known = pred.lanes & np.where(pred.base, then.lanes, otherwise.lanes)
        known = known | (~pred.lanes & then.lanes & otherwise.lanes & (yes == no))
        return Value(base, then.plus, None if known.all() else known, same and not known.all(), tags)
