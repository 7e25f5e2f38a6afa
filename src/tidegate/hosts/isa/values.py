"""What a register holds: a number for each thread of the block, plus a symbol that is the same for all.

Needs   NumPy, index expressions
Gives   `Value` for numbers, `Pred` for truths; merging under masks
Keeps   frozen, with a key that is equal for equal values. A lane that is not `known` may hold anything; where no lane
        is, `same` says that all threads hold one value
Cost    linear in the threads

    smem + tid * 4 + k * 1024      base: the address for each thread; plus: `%k * 1024`; tags: {smem}

With a symbol, a value is a sum of integers that do not wrap around; without one, `base` holds the bits of the register.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.index import ZERO, Cond, Index

Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]
NO_TAGS: frozenset[str] = frozenset()
GLOBAL = "global"  # the tag of what comes of an argument: by itself it cannot lead to shared memory
OUTSIDE = "outside"  # the tag of an address that may also lead outside of all memory: nothing is touched there
SIXTEENTH = "/16"  # behind an array's name: the tag of an address divided by 16, as matrix descriptors hold it
ANYWHERE = "anywhere"  # the tag of what may also be an address that was read from memory


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """`tags`: what the number may be an address of. `alike`: where lanes are unknown, for each the first lane that is
    sure to hold the same (`hosts.isa.alike`); None: nobody has asked."""

    base: Numbers
    plus: Index = ZERO
    known: Truths | None = None  # None: all lanes
    same: bool = False
    tags: frozenset[str] = NO_TAGS
    among: tuple[int, int] | None = None  # where no lane is known: stride and count, `base + plus + stride * x`
    alike: Numbers | None = None
    key: Any = field(init=False)

    def __post_init__(self) -> None:
        held = self.base if self.known is None or self.among else np.where(self.known, self.base, 0)
        known = b"" if self.known is None else self.known.tobytes()
        object.__setattr__(
            self, "key", (held.tobytes(), self.plus, known, self.same, self.tags, self.among, _key(self.alike))
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def is_known(self) -> bool:
        return self.known is None

    @property
    def is_number(self) -> bool:
        """Whether all lanes are known, without a symbol."""
        return self.known is None and self.plus == ZERO and OUTSIDE not in self.tags

    @property
    def is_uniform(self) -> bool:
        if OUTSIDE in self.tags:  # some lanes hold another number
            return False
        if self.known is None:
            return bool((self.base == self.base[0]).all())
        return self.same

    @property
    def lanes(self) -> Truths:
        return np.ones(len(self.base), bool) if self.known is None else self.known


@dataclass(frozen=True, slots=True, eq=False)
class Pred:
    """A truth for each thread; with `cond`, one that all threads share and that names decide."""

    base: Truths
    known: Truths | None = None
    cond: Cond | None = None
    same: bool = False
    alike: Numbers | None = None  # as of a `Value`
    key: Any = field(init=False)

    def __post_init__(self) -> None:
        held = self.base if self.known is None else self.base & self.known
        known = b"" if self.known is None else self.known.tobytes()
        object.__setattr__(self, "key", (held.tobytes(), known, self.cond, self.same, _key(self.alike)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pred) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def is_number(self) -> bool:
        return self.known is None and self.cond is None

    @property
    def is_uniform(self) -> bool:
        if self.cond is not None:
            return True
        if self.known is None:
            return bool((self.base == self.base[0]).all())
        return self.same

    @property
    def lanes(self) -> Truths:
        return np.ones(len(self.base), bool) if self.known is None else self.known


Held = Value | Pred


def _key(alike: Numbers | None) -> bytes:
    return b"" if alike is None else alike.tobytes()


def number(values: Any, threads: int) -> Value:
    """A known number for each thread, or one for all."""
    base = np.ascontiguousarray(np.broadcast_to(np.asarray(values, np.int64), (threads,)))
    return Value(base)


def symbol(index: Index, threads: int, tags: frozenset[str] = NO_TAGS) -> Value:
    return Value(np.zeros(threads, np.int64), index, tags=tags)


def unknown(threads: int, same: bool, tags: frozenset[str] = NO_TAGS) -> Value:
    return Value(np.zeros(threads, np.int64), ZERO, np.zeros(threads, bool), same, tags)


def truth(values: Any, threads: int) -> Pred:
    return Pred(np.ascontiguousarray(np.broadcast_to(np.asarray(values, bool), (threads,))))


def unsure(threads: int, same: bool) -> Pred:
    return Pred(np.zeros(threads, bool), np.zeros(threads, bool), None, same)


def merge(first: Truths, one: Held, second: Truths, other: Held) -> Held:
    """What lanes hold that come from two places: in `first` those of one, in `second` of the other, in both either."""
    if one == other and one.known is None:
        return one
    if isinstance(one, Pred) and isinstance(other, Pred):
        if one.cond is not None or other.cond is not None:
            one, other = _without_cond(one), _without_cond(other)
        known = _known(first, one, second, other, one.base == other.base)
        return Pred(np.where(first, one.base, other.base), known)
    if not (isinstance(one, Value) and isinstance(other, Value)):
        return unknown(len(first), False)
    tags = tags_of_either(one, other)
    if one.plus != other.plus:
        return unknown(len(first), False, tags)
    known = _known(first, one, second, other, one.base == other.base)
    return Value(np.where(first, one.base, other.base), one.plus, known, False, tags)


def tags_of_either(one: Value, other: Value) -> frozenset[str]:
    """What one of two values may be an address of: beside an address, a number of which nobody knows is one as well."""
    tags = one.tags | other.tags
    doubtful = any(not each.tags and not each.is_known for each in (one, other))
    return tags | {ANYWHERE} if tags and doubtful else tags


def _known(first: Truths, one: Held, second: Truths, other: Held, equal: Truths) -> Truths | None:
    either = first & second
    known = np.where(first & ~second, one.lanes, np.where(second & ~first, other.lanes, one.lanes & other.lanes))
    known = known & ~(either & ~equal)
    known = known | ~(first | second)  # nobody comes there, and what is not reached may hold anything
    return None if known.all() else known


def _without_cond(pred: Pred) -> Pred:
    return pred if pred.cond is None else unsure(len(pred.base), False)
