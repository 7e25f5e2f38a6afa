"""Allocations of a trace as buffers, and the values that stand for them.

Needs   what an `Allocate` node says
Gives   `Array`: bytes, and how indices become bytes; `View`: which buffer and which slot a value stands for
Cost    constant
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.graph import model as g
from tidegate.index import ZERO, Index


@dataclass(frozen=True, slots=True)
class Array:
    """One allocation: its bytes, and how indices become bytes."""

    name: str
    bytes: int
    bits: int  # of an element
    strides: tuple[int, ...]  # in elements
    root: Any  # the allocation that it lies in, itself if it lies alone
    offset: int | None  # in it
    dims: tuple[Any, ...] = ()  # as Wave names them
    element: str = ""  # the type of its elements, if it is one that graphs know
    padding: int = 0  # elements at the end of each row that hold nothing


@dataclass(frozen=True, slots=True)
class View:
    """A value that stands for memory: which buffer, or a name for one; which slot of it."""

    name: str
    array: Array
    slot: Index = ZERO
    turns: bool = False  # whether the slot changes by itself, from iteration to iteration

    @property
    def place(self) -> g.Ref:
        return g.Ref(self.name, self.slot)


def share_bytes(one: Array, other: Array) -> bool:
    """Whether two allocations lie, in part, in the same bytes."""
    if one.offset is None or other.offset is None or one.root is not other.root:
        return False
    return one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes


def misplaced(array: Array, arrays: Mapping[Any, Array]) -> str:
    """Why it is not known which bytes an allocation in another one takes; empty if it is."""
    if array.offset is None:
        return ""
    if array.bits % 8:  # Wave counts bits, and LLVM gives such an element a whole byte
        return "its elements are no whole bytes, and it lies beside others"
    if not 0 <= array.offset <= arrays[array.root].bytes - array.bytes:
        return "it reaches beyond the allocation that it lies in"
    return ""


def whole(array: Array, place: g.Ref, *, may: bool = False) -> g.Footprint:
    """All bytes of a buffer."""
    return g.Footprint(place, (), array.bytes, may)
