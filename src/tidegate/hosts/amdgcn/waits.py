"""Waits of every generation: which counters they name, and down to which count.

Needs   an instruction
Gives   `waits_of`: pairs of a counter and a count
Keeps   a wait that is not understood names no counter, and so waits for nothing
Cost    constant

    s_waitcnt vmcnt(3) lgkmcnt(0)      gfx9 to gfx11, LLVM, User Guide for AMDGPU Backend, Assembler
    s_waitcnt_vscnt null, 0x0          gfx10, gfx11: stores
    s_wait_loadcnt_dscnt 0x103         gfx12: loads in bits 8 to 13, shared memory in bits 0 to 5 (SIInsertWaitcnts.cpp,
                                       encodeLoadcntDscnt)
"""

from __future__ import annotations

import re

from tidegate.hosts.amdgcn import model as a

_NAMED = re.compile(r"(vmcnt|lgkmcnt|expcnt)(?:_sat)?\((\d{1,4})\)")
_ALONE = re.compile(r"s_wait_(load|store|ds|km|sample|bvh|exp|async|tensor)cnt$")
_BOTH = re.compile(r"s_wait_(load|store)cnt_dscnt$")
EVERYTHING = ("loadcnt", "storecnt", "dscnt", "kmcnt", "samplecnt", "bvhcnt", "expcnt", "asynccnt", "tensorcnt")


def waits_of(item: a.AsmLine) -> tuple[tuple[str, int], ...]:
    text = item.operands[0].name if item.operands and isinstance(item.operands[0], a.Symbol) else ""
    if item.name == "s_waitcnt":
        named = _NAMED.findall(text)
        if named or _integer(text) is None:
            return tuple((name, int(count)) for name, count in named)
        # All counters at 0 in every generation; other numbers have another meaning in each.
        return (("vmcnt", 0), ("lgkmcnt", 0), ("expcnt", 0)) if _integer(text) == 0 else ()
    if item.name == "s_waitcnt_vscnt":
        count = _integer(text.rpartition(",")[2].strip())
        return () if count is None else (("vscnt", count),)
    if item.name == "s_wait_idle":
        return tuple((each, 0) for each in EVERYTHING)
    count = _integer(text)
    if count is None:
        return ()
    if (found := _ALONE.match(item.name)) is not None:
        return ((f"{found[1]}cnt", count),)
    if (found := _BOTH.match(item.name)) is not None:
        return ((f"{found[1]}cnt", count >> 8 & 63), ("dscnt", count & 63))
    return ()


def _integer(text: str) -> int | None:
    return int(text, 0) if re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}|0|[1-9]\d{0,8}", text) else None
