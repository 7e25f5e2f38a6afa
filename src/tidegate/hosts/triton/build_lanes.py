"""Memory in which every wave, or every lane, keeps to its own bytes.

Needs   allocations, what is done to them, and the encodings that say which lane of which wave holds what
Gives   the allocations that waves exchange something through: each access to these counts as one of all waves
Keeps   where barriers are still to be placed, and all waves will meet at them, little is lost if waves exchange anyway,
        and questions about bytes become small. Where lanes of a wave may run apart, and nothing orders their accesses
        but a barrier, memory keeps to waves only if it keeps to lanes, and shares its bytes with no other memory
Cost    linear in the operations, once for each function
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.build_objects import Objects
from tidegate.hosts.triton.layouts import Encoding, is_warp_private, lanes_keep_to_themselves

Held = tuple[Encoding, tuple[int, ...]]  # who holds what of a shape
Apart = Callable[[Encoding, Encoding, tuple[int, ...]], bool]


class Lanes(Objects):
    """Knows through which memory waves exchange something."""

    def find_lanes(self) -> None:
        """Fills `exchanged`: allocations of which each access counts as one of all waves."""
        self.exchanged: frozenset[str] = frozenset()
        if self.target.lds.in_order and not self.may_be_coarse():
            return
        allocs = {op.result: op for op in walk(self.function) if self.effect(op).alloc}
        held: dict[str, list[Held | None]] = {result: [] for result in allocs}
        for op in walk(self.function):
            for value, who in self.holders(op):
                for base in self.bases(value, frozenset()):
                    if base in held:
                        held[base].append(who)
        # What a wave does to shared memory may happen in its order, whatever the lane: then waves are enough.
        apart = is_warp_private if self.target.lds.in_order else lanes_keep_to_themselves
        self.exchanged = frozenset(result for result in allocs if not _is_apart(held[result], apart))
        if not self.target.lds.in_order:
            spans = [span for op in walk(self.function) if (span := self.span(op)) is not None]
            self.exchanged |= {
                result for result, op in allocs.items() if sum(_meet(self.span(op), each) for each in spans) > 1
            }

    def may_be_coarse(self) -> bool:
        """Whether it is enough to know that waves exchange something: for barriers that all of them will meet at."""
        if self.ttgir.is_fine or not self.ttgir.is_open:
            return False
        return not any(self.effect(op).barrier == "conditional" for op in walk(self.function))

    def is_exchanged(self, value: str) -> bool:
        return not self.exchanged.isdisjoint(self.bases(value, frozenset()))

    def holders(self, op: Operation) -> Iterator[tuple[str, Held | None]]:
        """The descriptors that an operation touches, with who holds what; None: nobody knows, or not lane by lane."""
        effect = self.effect(op)
        touched = [value for value, type_ in zip(op.operands, op.operand_types, strict=False) if self.is_memory(type_)]
        if effect.alloc and op.operands:
            touched = [op.result]
        elif effect.alloc or effect.view or effect.free or effect.mbarrier or not op.name or op.regions:
            return
        texts = op.result_types if effect.layout == "result" else op.operand_types
        tensor = next((found for text in texts if (found := self.types.tensor(text)) is not None), None)
        plain = effect.layout in ("operand", "result") and tensor is not None and tensor.encoding is not None
        for value in touched:
            yield value, (tensor.encoding, tensor.shape) if plain and tensor and tensor.encoding else None

    def span(self, op: Operation) -> tuple[int, int] | None:
        """The bytes that belong to an operation: an allocation, or scratch."""
        offset = op.integer("allocation.offset")
        if offset is None:
            return None
        size = op.integer("allocation.size")
        if size is None and op.results:
            type_ = self.types.memdesc(op.result_types[0])
            size = type_.all_bytes if type_ is not None else None
        return (offset, offset + size) if size is not None else (offset, max(self.ttgir.shared, offset + 1))


def _is_apart(held: list[Held | None], apart: Apart) -> bool:
    """Whether all accesses give each element to one owner, and to the same."""
    if not held or any(each is None for each in held):
        return False
    known = [each for each in held if each is not None]
    encoding, shape = known[0]
    return all(each[1] == shape and apart(encoding, each[0], shape) for each in known)


def _meet(one: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    return one is None or (one[0] < other[1] and other[0] < one[1])
