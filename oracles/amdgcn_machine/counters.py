"""Counters: which instruction counts on which, and what a wait for `n` makes certain.

Needs   the target
Gives   `counters_of`: the counters of an access; `waits_of`: a wait as counters with their counts; `certain`
Keeps   an operation is certain to be done only if every completion that the ISA documents allow has done it
Cost    linear in what is outstanding

Operations of one *stream* complete in the order of their issue; streams overtake each other, so a wait for `n` makes
an operation certain if more than `n` of its stream were issued from it on. Scalar loads are in no order: each is a
stream of its own, and so is a flat access, which also counts twice.

    gfx9     vmcnt: vector loads, stores, atomics and copies to LDS, one stream (CDNA 3 ISA §4.4: in order of issue);
             lgkmcnt: LDS, one stream; scalar loads; messages
    gfx11    vmcnt: loads; vscnt: stores; lgkmcnt as before (RDNA 3 ISA §5.6)
    gfx12    loadcnt, storecnt, dscnt, kmcnt (RDNA 4 ISA §5.6); gfx1250: asynccnt with loads and stores as two streams,
             tensorcnt in order (LLVM, AMDGPUUsage, memory model of gfx12.5)
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from oracles.amdgcn_machine.operands import parse
from oracles.amdgcn_machine.text import Instruction, NotUnderstood

VM, VS, LGKM = "vmcnt", "vscnt", "lgkmcnt"
LOAD, STORE, DS, KM, ASYNC, TENSOR = "loadcnt", "storecnt", "dscnt", "kmcnt", "asynccnt", "tensorcnt"
NONE_OF_OURS = ("expcnt", "samplecnt", "bvhcnt", "xcnt")  # exports, images; xcnt is about replays of translation
LOOSE = 1 << 16
PART = re.compile(r"(\w+)\((\d+|0x[0-9a-f]+)\)")


@dataclass(slots=True, eq=False)
class Access:
    """An access to memory from its issue until it is certain to be done."""

    line: int
    text: str
    counters: tuple[str, ...]
    stream: str  # empty: a stream of its own
    perform: Any  # () → None: reads and writes memory, fills registers
    registers: tuple[int, ...] = ()  # that it will write
    is_copy: bool = False  # to or from shared memory, not by way of registers
    touches: list[Any] = field(default_factory=list)  # what it does to shared memory, for `races`
    is_done: bool = False
    left: int = 0  # counters that still hold it


def counters_of(kind: str, target: str) -> tuple[tuple[str, ...], str]:
    """Kinds: load, store, lds, scalar, message, copy (to LDS by way of vector memory), async-load, async-store,
    tensor, flat-load, flat-store."""
    if kind.startswith("flat"):
        memory = counters_of(kind.removeprefix("flat-"), target)[0]
        return (*memory, *counters_of("lds", target)[0]), ""
    if target.startswith("gfx12"):
        table = {
            "load": (LOAD, "load"),
            "copy": (LOAD, "load"),
            "store": (STORE, "store"),
            "lds": (DS, "lds"),
            "scalar": (KM, ""),
            "message": (KM, ""),
            "async-load": (ASYNC, "load"),
            "async-store": (ASYNC, "store"),
            "tensor": (TENSOR, "tensor"),
        }
    else:
        store = (VS, "store") if target.startswith(("gfx10", "gfx11")) else (VM, "memory")
        table = {
            "load": (VM, "memory"),
            "copy": (VM, "memory"),
            "store": store,
            "lds": (LGKM, "lds"),
            "scalar": (LGKM, ""),
            "message": (LGKM, ""),
        }
    if kind not in table:
        raise NotUnderstood(f"{target} has no counter for an access of kind {kind}")
    counter, stream = table[kind]
    return (counter,), stream


def waits_of(one: Instruction, target: str) -> dict[str, int] | None:
    """Counters with the count that is waited for; None if the instruction is no wait."""
    text = one.operands[0] if one.operands else ""
    if one.name == "s_waitcnt":
        return _old_wait(one, text, target)
    if one.name == "s_waitcnt_vscnt":
        return {VS: _number(one.operands[-1].split(",")[-1])}
    if one.name in ("s_waitcnt_depctr", "s_wait_alu"):
        return {}
    if one.name == "s_wait_idle":
        return dict.fromkeys((LOAD, STORE, DS, KM, ASYNC, TENSOR), 0)
    found = re.match(r"^s_wait_(\w+?cnt)(?:_(dscnt))?$", one.name)
    if not found:
        return None
    if found[2]:
        both = _number(text)
        return {found[1]: both >> 8 & 63, DS: both & 63}
    if found[1] in NONE_OF_OURS:
        return {}
    if found[1] not in (LOAD, STORE, DS, KM, ASYNC, TENSOR):
        raise NotUnderstood(f"line {one.line}: `{one.text}`: counter `{found[1]}`")
    return {found[1]: _number(text)}


def _old_wait(one: Instruction, text: str, target: str) -> dict[str, int]:
    if parts := PART.findall(text):
        counts = {name: _number(count) for name, count in parts}
    else:
        bits = _number(text)
        if target.startswith("gfx11"):
            counts = {VM: bits >> 10 & 63, LGKM: bits >> 4 & 63}
        else:
            counts = {VM: bits & 15 | bits >> 14 << 4, LGKM: bits >> 8 & 15}
    if unknown := counts.keys() - {VM, LGKM, "expcnt"}:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: counter `{sorted(unknown)[0]}`")
    counts.pop("expcnt", None)
    return counts


def _number(text: str) -> int:
    return int(parse(text.strip()).constant, 0)


def certain(queue: list[Access], count: int) -> list[Access]:
    """The accesses of a counter that a wait for `count` makes certain, oldest first."""
    if len(queue) <= count:
        return []
    seen: Counter[str] = Counter()
    found = []
    for access in reversed(queue):
        if access.stream:
            seen[access.stream] += 1
        if (seen[access.stream] if access.stream else 1) > count:
            found.append(access)
    return found[::-1]
