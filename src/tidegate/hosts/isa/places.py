"""Arithmetic that does not lean on where arrays lie.

Needs   values with tags that say which array's address is in them
Gives   `AnyPlace`: as `Calculator`; what would differ if an array lay elsewhere is unknown
Keeps   a value with an array's tag is the array's address plus a number; one without is the same wherever arrays lie.
        That they lie at multiples of 1024 is taken for granted (docs/assumptions.md, `aligned`)
Cost    that of a `Calculator`; eight times that where an address is more than added to

    tile + 4 * tid        an address
    tile and 127          a number: its low bits are those of every multiple of 1024
    tile shr 10           unknown: the linker decides
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.footprint.arithmetic import Range
from tidegate.hosts.isa.arithmetic import Calculator
from tidegate.hosts.isa.bits import wrap
from tidegate.hosts.isa.values import ANYWHERE, GLOBAL, NO_TAGS, SIXTEENTH, Pred, Value, unknown, unsure
from tidegate.index import ZERO

# How far an array is moved to see what changes: to the start of memory, and each bit of an address by itself.
MOST_KEPT = 4_000_000  # results, times threads
STEPS = (-1024, *(1 << bit for bit in range(10, 17)))


class AnyPlace(Calculator):
    def __init__(self, threads: int, ranges: dict[str, Range]) -> None:
        super().__init__(threads, ranges)
        self.results: dict[object, Value] = {}
        self.left = MOST_KEPT // threads

    def compute(self, operator: str, given: list[Value], bits: int, signed: bool, source: int) -> Value:
        """Rounds of a loop compute much alike: a result without a symbol is kept, since no range decides it."""
        if any(each.plus != ZERO for each in given):
            return self.anywhere(operator, given, bits, signed, source)
        key = (operator, bits, signed, source, *(each.key for each in given))
        found = self.results.get(key)
        if found is None:
            found = self.anywhere(operator, given, bits, signed, source)
            if self.left:
                self.left -= 1
                self.results[key] = found
        return found

    def anywhere(self, operator: str, given: list[Value], bits: int, signed: bool, source: int) -> Value:
        found = super().compute(operator, given, bits, signed, source)
        arrays = _arrays(*given)
        if not arrays or not found.lanes.any() or _only_adds(operator, given, source):
            return found
        again = super().compute
        for array in sorted(arrays):
            ways = {
                _way(found, again(operator, _moved(given, array, step), bits, signed, source), step, bits)
                for step in STEPS
            }
            others = found.tags - {array, array + SIXTEENTH}
            if ways == {0}:
                found = replace(found, tags=others)
            elif ways == {1}:
                found = replace(found, tags=others | {array})
            elif ways == {16}:
                found = replace(found, tags=others | {array + SIXTEENTH})
            else:
                same = all(each.is_uniform for each in given)
                return unknown(self.threads, same, found.tags | {array, ANYWHERE})
        return found

    def compare(self, operator: str, left: Value, right: Value, bits: int, signed: bool) -> Pred:
        found = super().compare(operator, left, right, bits, signed)
        arrays = _arrays(left, right)
        if not arrays or (left.tags == right.tags and len(arrays) == 1):
            return found
        for array in arrays:
            for step in STEPS:
                one, other = _moved([left, right], array, step)
                if super().compare(operator, one, other, bits, signed) != found:
                    return unsure(self.threads, left.is_uniform and right.is_uniform)
        return found


def _arrays(*given: Value) -> frozenset[str]:
    tags = NO_TAGS.union(*(each.tags for each in given)) - {GLOBAL, ANYWHERE}
    return frozenset(each.removesuffix(SIXTEENTH) for each in tags)


def _only_adds(operator: str, given: list[Value], source: int) -> bool:
    """Whether the result is an address for sure, or how far two of one array lie apart."""
    tagged = [bool(_arrays(each)) for each in given]
    match operator:
        case "copy" | "cut" | "shuffle":
            return source >= 32 and tagged[0] and sum(tagged) == 1
        case "add":
            return sum(tagged) == 1
        case "sub":
            return not tagged[1] or (given[0].tags == given[1].tags and len(given[0].tags) == 1)
        case "mad" | "madwide":
            return tagged == [False, False, True]
    return False


def _moved(given: list[Value], array: str, step: int) -> list[Value]:
    found = []
    for each in given:
        far = step * (array in each.tags) + step // 16 * (array + SIXTEENTH in each.tags)
        found.append(replace(each, base=each.base + far) if far else each)
    return found


def _way(found: Value, again: Value, step: int, bits: int) -> int:
    """0: nothing changes; 1: the result moves with the array; 16: by a sixteenth of that; -1: none of these."""
    if found.plus != again.plus or (found.lanes != again.lanes).any():
        return -1
    apart = (again.base - found.base)[found.lanes]
    part = step // 16
    if found.plus == ZERO:
        apart, step, part = wrap(apart, bits), int(wrap(step, bits)), int(wrap(part, bits))
    if not apart.any():
        return 0
    return 1 if (apart == step).all() else 16 if (apart == part).all() else -1
