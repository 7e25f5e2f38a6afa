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
from tidegate.hosts.triton.build_facts import FunctionFacts
from tidegate.hosts.triton.effects import Allocates, Frees, Touches, UsesObject, Views
from tidegate.hosts.triton.layouts import Encoding, is_warp_private, lanes_keep_to_themselves

Held = tuple[Encoding, tuple[int, ...]]  # who holds what of a shape
Apart = Callable[[Encoding, Encoding, tuple[int, ...]], bool]


def find_exchanged(facts: FunctionFacts, in_order: bool) -> frozenset[str]:
    """Allocations of which each access counts as one of all waves.

    `in_order`: what a wave does to shared memory happens in its order, whatever the lane. Then waves are enough.
    """
    if in_order and not _may_be_coarse(facts):
        return frozenset()
    allocs = {op.result: op for op in walk(facts.function) if isinstance(facts.effect(op).does, Allocates)}
    held: dict[str, list[Held | None]] = {result: [] for result in allocs}
    for op in walk(facts.function):
        for value, who in _holders(facts, op):
            for base in facts.bases(value):
                if base in held:
                    held[base].append(who)
    apart = is_warp_private if in_order else lanes_keep_to_themselves
    exchanged = frozenset(result for result in allocs if not _is_apart(held[result], apart))
    if in_order:
        return exchanged
    spans = [span for op in walk(facts.function) if (span := _span(facts, op)) is not None]
    return exchanged | {
        result for result, op in allocs.items() if sum(_meet(_span(facts, op), each) for each in spans) > 1
    }


def _may_be_coarse(facts: FunctionFacts) -> bool:
    """Whether it is enough to know that waves exchange something: for barriers that all of them will meet at."""
    if facts.ttgir.is_fine or not facts.ttgir.is_open:
        return False
    return not any(facts.effect(op).barrier == "conditional" for op in walk(facts.function))


def _holders(facts: FunctionFacts, op: Operation) -> Iterator[tuple[str, Held | None]]:
    """The descriptors that an operation touches, with who holds what; None: nobody knows, or not lane by lane."""
    does, given = facts.effect(op).does, zip(op.operands, op.operand_types, strict=False)
    touched = [value for value, type_ in given if facts.types.is_memory(type_)]
    if isinstance(does, Allocates) and op.operands:
        touched = [op.result]
    elif isinstance(does, Allocates | Views | Frees | UsesObject) or not op.name or op.regions:
        return
    layout = does.layout if isinstance(does, Allocates | Touches) else ""
    texts = op.result_types if layout == "result" else op.operand_types
    tensor = next((found for text in texts if (found := facts.types.tensor(text)) is not None), None)
    plain = layout in ("operand", "result") and tensor is not None and tensor.encoding is not None
    for value in touched:
        yield value, (tensor.encoding, tensor.shape) if plain and tensor and tensor.encoding else None


def _span(facts: FunctionFacts, op: Operation) -> tuple[int, int] | None:
    """The bytes that belong to an operation: an allocation, or scratch."""
    offset = op.integer("allocation.offset")
    if offset is None:
        return None
    size = op.integer("allocation.size")
    if size is None and op.results:
        type_ = facts.types.memdesc(op.result_types[0])
        size = type_.all_bytes if type_ is not None else None
    return (offset, offset + size) if size is not None else (offset, max(facts.ttgir.shared, offset + 1))


def _is_apart(held: list[Held | None], apart: Apart) -> bool:
    """Whether all accesses give each element to one owner, and to the same."""
    if not held or any(each is None for each in held):
        return False
    known = [each for each in held if each is not None]
    encoding, shape = known[0]
    return all(each[1] == shape and apart(encoding, each[0], shape) for each in known)


def _meet(one: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    return one is None or (one[0] < other[1] and other[0] < one[1])
