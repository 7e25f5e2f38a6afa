"""What instructions of AMD assembly do with registers, for `hosts.isa.gaps`.

Needs   a body, and where all lanes of a wave are active
Gives   `uses_of`
Keeps   an instruction that may leave part of its result as it was is said to; one whose first operand may be a source
        takes it, too
Cost    linear
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.facts import Certain
from tidegate.hosts.amdgcn.flight import registers_of
from tidegate.hosts.isa.gaps import Use

_STORES = re.compile(r"(ds|buffer|global|scratch|tbuffer)_(write|store)|s_(cmp|bitcmp|wait|barrier|c?branch)|tensor_")
_PURE = re.compile(
    r"(ds_(read|load)|(buffer|global|scratch|tbuffer)_load)(?!.*d16)|s_load|s_buffer_load|"
    r"v_(mov|add|sub|mul|lshl|lshr|ashr|and|or|xor|max|min|perm|bfe|bfi|cvt|exp|log|rcp|accvgpr_read|accvgpr_write)(?!.*sdwa|.*dpp)|"
    r"s_(mov|add|sub|mul|lshl|lshr|ashr|and|or|xor|bfe|cselect)_"
)
_COPIES = re.compile(r"v_mov_b(32|64)|v_accvgpr_(read|write)|s_mov_b")
_SHARED_STORE = re.compile(r"ds_(write|store)")


def uses_of(body: Sequence[a.AsmLine | a.Mark], facts: Sequence[Certain | None]) -> list[Use]:
    return [
        _use(item, known is not None and known.full) if isinstance(item, a.AsmLine) else Use()
        for item, known in zip(body, facts, strict=True)
    ]


def _use(item: a.AsmLine, full: bool) -> Use:
    gives = frozenset[str]() if _STORES.match(item.name) else _names(item.operands[:1])
    takes = registers_of(item)
    if _PURE.match(item.name) and "::" not in item.text and not item.name.startswith("v_dual"):
        takes = (takes - gives) | _names(item.operands[1:])
    partly = not (full or item.name.startswith("s_"))
    stored = _names(item.operands[1:]) if _SHARED_STORE.match(item.name) else None
    copied = tuple(sorted(_names(item.operands[1:]))) if _COPIES.match(item.name) else ()
    return Use(gives, takes, partly, item.name.startswith("s_barrier"), stored, copied)


def _names(operands: Sequence[a.Operand]) -> frozenset[str]:
    inner = (each.operand if isinstance(each, a.Changed) else each for each in operands)
    return frozenset(name for each in inner if isinstance(each, a.Registers) for name in each.names if name != "null")
