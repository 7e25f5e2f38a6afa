"""Synchronization that may serve what no graph says: registers that are loaded, and global memory.

Needs   a kernel's body
Gives   `find_held`: the places of all waits, and of barriers behind a store to global memory and before an access to
        it; `unordered`: which reads have a write behind them without a barrier, once some barriers are gone
Keeps   a barrier that is left out orders no two accesses to global memory of which the first one writes; those of which
        the second one writes are asked for all that go together
Cost    linear, times the reads that are told apart

A wait that shared memory does not need may be what makes a register hold what was loaded into it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.diag import Span
from tidegate.graph.model import invert, reached_from
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.facts import leads_on

_MEMORY = ("global_", "buffer_", "tbuffer_", "flat_", "image_", "s_buffer_", "s_load", "s_store", "s_atomic", "tensor_")
_WRITES = ("_store", "_atomic", "_wb", "_inv")
_BARRIERS = "s_barrier"


def find_held(kernel: a.KernelText) -> frozenset[Span]:
    after = find_successors(kernel.body)
    touching = {place for place, item in enumerate(kernel.body) if _is_global(item)}
    writing = {place for place in touching if _writes(kernel.body[place])}
    behind = reached_from(_following(writing, after), after)
    before = reached_from(touching, invert(after))
    found: set[Span] = set()
    for place, item in enumerate(kernel.body):
        if not isinstance(item, a.AsmLine):
            continue
        is_between = item.name.startswith(_BARRIERS) and place in behind and place in before
        if is_between or item.name.startswith("s_wait"):
            found.add(item.at)
    return frozenset(found)


def unordered(kernel: a.KernelText, gone: frozenset[Span] = frozenset()) -> frozenset[tuple[int, int]]:
    """Pairs of a read of global memory and a write that some wave may come to before it meets the others."""
    body = kernel.body
    after = find_successors(body)
    stays = [_is_barrier(item) and item.at not in gone for item in body]
    reads = {place: 1 << number for number, place in enumerate(each for each in range(len(body)) if _reads(body[each]))}
    before = [0] * len(body)
    waiting = list(range(len(body) - 1, -1, -1))
    while waiting:
        place = waiting.pop()
        behind = 0 if stays[place] else before[place] | reads.get(place, 0)
        for each in after[place]:
            if behind & ~before[each]:
                before[each] |= behind
                waiting.append(each)
    writes = [each for each in range(len(body)) if _is_global(body[each]) and _writes(body[each])]
    return frozenset((read, each) for each in writes for read, bit in reads.items() if before[each] & bit)


def _is_barrier(item: a.AsmLine | a.Mark) -> bool:
    """Where waves meet: of two instructions, the second."""
    return isinstance(item, a.AsmLine) and item.name in (_BARRIERS, "s_barrier_wait")


def _reads(item: a.AsmLine | a.Mark) -> bool:
    """Scalar loads take another way to memory: they read what nobody writes."""
    return _is_global(item) and isinstance(item, a.AsmLine) and not item.name.startswith("s_")


def find_successors(body: tuple[a.AsmLine | a.Mark, ...]) -> list[list[int]]:
    labels = {item.name: place for place, item in enumerate(body) if isinstance(item, a.Mark)}
    found: list[list[int]] = []
    for place, item in enumerate(body):
        following = [place + 1] if place + 1 < len(body) else []
        if isinstance(item, a.AsmLine):
            following = following if leads_on(item) else []
            target = item.operands[-1] if item.operands else None
            if item.name.startswith(("s_branch", "s_cbranch")) and isinstance(target, a.Symbol):
                following += [labels[target.name]] if target.name in labels else []
        found.append(following)
    return found


def _following(places: Iterable[int], after: list[list[int]]) -> set[int]:
    return {each for place in places for each in after[place]}


def _is_global(item: a.AsmLine | a.Mark) -> bool:
    return isinstance(item, a.AsmLine) and item.name.startswith(_MEMORY)


def _writes(item: a.AsmLine | a.Mark) -> bool:
    return isinstance(item, a.AsmLine) and any(word in item.name for word in _WRITES)
