"""Synchronization that may serve what no graph says: registers that are loaded, and global memory.

Needs   a kernel's body
Gives   `find_held`: the places of all waits, and of barriers behind a store to global memory and before an access to it
Keeps   a barrier that is left out orders no two accesses to global memory of which the first one writes
Cost    linear

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
