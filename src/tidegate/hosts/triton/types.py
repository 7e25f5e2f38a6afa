"""Types of TTGIR: tensors and memory descriptors.

Needs   the text of a type, and the aliases of its module
Gives   `Tensor`, `MemDesc`, or None for anything else
Keeps   a descriptor knows the allocation that its strides follow
Cost    linear in the text, once for each text of a module

    !ttg.memdesc<128x16xf16, #shared, #smem, mutable, 128x32>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from tidegate.hosts.mlir.model import split_top
from tidegate.hosts.triton.layouts import (
    Encoding,
    UnknownLayout,
    UnreadableLayout,
    allocated_bytes,
    has_even_slots,
    parse_encoding,
    slot_bytes,
)

_SHAPED = re.compile(r"((?:\d+x)*)(.+)", re.DOTALL)
# Types of dialects whose values are no shared memory, nor name any.
_NO_MEMORY = ("!tt.ptr<", "!tt.tensordesc<", "!ttg.async.token")
_SHARED_POINTER = re.compile(r"!tt\.ptr<.*,\s*3\s*>")  # to the address space of shared memory
TENSOR_MEMORY = "#ttng.tensor_memory"
_BITS = re.compile(r"(?:bf|f|i|si|ui)(\d+)")


@dataclass(frozen=True, slots=True)
class Tensor:
    shape: tuple[int, ...]
    element: str
    encoding: Encoding | None

    @property
    def bytes(self) -> int:
        return prod(self.shape) * bits_of(self.element) // 8


@dataclass(frozen=True, slots=True)
class MemDesc:
    """A piece of memory. `slot`: the shape that the encoding is for; dimensions before it count slots."""

    shape: tuple[int, ...]
    element: str
    encoding: Encoding | None
    space: str
    allocated: tuple[int, ...]

    @property
    def bits(self) -> int:
        return bits_of(self.element)

    @property
    def is_shared(self) -> bool:
        return self.space != TENSOR_MEMORY  # a space that nobody knows is taken for the one that is shared

    @property
    def rank(self) -> int:
        """The dimensions that the encoding is for; those before them count slots."""
        return min(len(self.shape), _rank(self.encoding, len(self.shape)))

    @property
    def slots(self) -> int:
        return prod(self.shape[: len(self.shape) - self.rank])

    @property
    def slot_shape(self) -> tuple[int, ...]:
        return self.shape[len(self.shape) - self.rank :]

    @property
    def is_known(self) -> bool:
        """Whether the encoding says where elements lie, and each slot as far behind the last as the next."""
        if self.encoding is None:
            return False
        try:
            slot_bytes(self.encoding, self.slot_shape, self.bits)
            return self.slots == 1 or has_even_slots(self.encoding, self.slot_shape)
        except UnknownLayout:
            return False

    @property
    def slot_bytes(self) -> int:
        """From one slot to the next; for memory that nobody knows, what its elements take at least."""
        if self.encoding is None or not self.is_known:
            return -(-prod(self.slot_shape) * self.bits // 8)
        return slot_bytes(self.encoding, self.slot_shape, self.bits)

    @property
    def last_bytes(self) -> int:
        """Of the last slot: the padding behind it belongs to nobody."""
        if self.encoding is None or not self.is_known:
            return self.slot_bytes
        return min(self.slot_bytes, allocated_bytes(self.encoding, self.slot_shape, self.bits))

    @property
    def all_bytes(self) -> int:
        return self.slot_bytes * (self.slots - 1) + self.last_bytes


def _rank(encoding: Encoding | None, otherwise: int) -> int:
    if encoding is None:
        return otherwise
    if order := encoding.numbers("order"):
        return len(order)
    for key in ("offset", "block"):
        if vectors := encoding.vectors(key):
            return len(vectors[0])
    if encoding.name == "nvmma_shared":
        return encoding.number("rank", 2)
    return otherwise


def bits_of(element: str) -> int:
    found = _BITS.match(element)
    return int(found[1]) if found else 64


@dataclass(slots=True)
class Types:
    """The types of one module; each text is read once."""

    aliases: Mapping[str, str]
    known: dict[str, Tensor | MemDesc | None] = field(default_factory=dict)

    def of(self, text: str) -> Tensor | MemDesc | None:
        if text not in self.known:
            self.known[text] = self.read(text)
        return self.known[text]

    def memdesc(self, text: str) -> MemDesc | None:
        found = self.of(text)
        return found if isinstance(found, MemDesc) else None

    def is_memory(self, text: str) -> bool:
        """Whether a type is shared memory, or may be: what nobody can read is not taken for harmless."""
        found = self.of(text)
        if found is None:
            if text.startswith("memref<"):
                return True
            return text.startswith("!") and not (text.startswith(_NO_MEMORY) and _SHARED_POINTER.search(text) is None)
        if isinstance(found, Tensor):  # of pointers, perhaps
            return _SHARED_POINTER.search(found.element) is not None
        return found.is_shared

    def tensor(self, text: str) -> Tensor | None:
        found = self.of(text)
        return found if isinstance(found, Tensor) else None

    def read(self, text: str) -> Tensor | MemDesc | None:
        if text.startswith("tensor<"):
            parts = split_top(text[len("tensor<") : -1])
            shape, element = _shaped(parts[0])
            return Tensor(shape, element, self.encoding(parts[1]) if len(parts) > 1 else None)
        if text.startswith("!ttg.memdesc<"):
            parts = split_top(text[len("!ttg.memdesc<") : -1])
            shape, element = _shaped(parts[0])
            space = self.aliases.get(parts[2], parts[2]) if len(parts) > 2 else ""
            rest = [each for each in parts[3:] if each[:1].isdigit()]
            allocated = tuple(map(int, rest[0].split("x"))) if rest else shape
            return MemDesc(shape, element, self.encoding(parts[1]), space, allocated)
        return None

    def encoding(self, text: str) -> Encoding | None:
        try:
            return parse_encoding(text, self.aliases)
        except (UnreadableLayout, KeyError):
            return None


def _shaped(text: str) -> tuple[tuple[int, ...], str]:
    found = _SHAPED.fullmatch(text)
    assert found is not None
    return tuple(int(each) for each in found[1].split("x") if each), found[2]
