"""Vector memory: `buffer_*`, `global_*`, `scratch_*`, and copies between global and shared memory.

Needs   an instruction
Gives   `compile_vector_memory`: how a wave issues it, with its operands; None for what only tends caches
Keeps   a lane outside of a buffer reads zero and writes nothing; a copy to shared memory lands when it is performed
Cost    one indexing for each access

    buffer_load_dwordx4 v1, s[4:7], 0 offen lds       shared memory at M0 + offset + 16 × lane (gfx950)
    global_load_async_to_lds_b128 v1, v[2:3], off     shared memory at v1 + offset (gfx1250)

Sources: CDNA 3 ISA §9.1 (buffers: ranges, LDS), RDNA 4 ISA §9; LLVM, AMDGPU DMA Operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from oracles.amdgcn_machine.access import (
    ATOMICS,
    Issue,
    Place,
    Size,
    Touch,
    active,
    begin,
    change,
    put_loaded,
    registers_of,
    size_of,
    unknown,
    values_of,
)
from oracles.amdgcn_machine.counters import Access
from oracles.amdgcn_machine.operands import Operand, parse
from oracles.amdgcn_machine.text import Instruction
from oracles.amdgcn_machine.wave import M0, Wave

CACHES = re.compile(r"^(buffer|global)_(inv|wbl2|wb|wbinv|wbinvl1|wbinvl1_vol|gl0_inv|gl1_inv)$")
NAME = re.compile(r"^(buffer|global|scratch)_(load|store|atomic)_(\w+)$")
ASYNC = re.compile(r"^global_(load_async_to|store_async_from)_lds_(b8|b32|b64|b128)$")
HINTS = {"scale_offset", "glc", "slc", "dlc", "nt", "sc0", "sc1", "nv", "scope", "th", "offset", "offen", "lds"}

# For each wave: active lanes, which of them are inside, and their addresses.
Where = Callable[[Wave], tuple[np.ndarray, np.ndarray, np.ndarray]]


def compile_vector_memory(one: Instruction, target: str) -> tuple[Issue, list[Operand]]:
    operands = [parse(each) for each in one.operands if each != "off"]
    if one.modifiers.keys() - HINTS:
        raise unknown(one)
    if CACHES.match(one.name):
        kind = "store" if "wb" in one.name else "load"
        return (lambda wave, place: begin(one, kind, place, lambda: None)), []
    if found := ASYNC.match(one.name):
        size = size_of(found[2])
        assert size is not None
        return _asynchronous(one, size, found[1].startswith("load")), operands
    found = NAME.match(one.name)
    if not found:
        raise unknown(one)
    unit, kind, rest = found.groups()
    is_copy = "lds" in one.modifiers or rest.startswith("lds_")
    size = size_of(rest.removeprefix("lds_"))
    if kind == "atomic":
        return _atomic(one, rest, unit, target), operands
    if size is None:
        raise unknown(one)
    if unit == "scratch":
        return _scratch(one, size, kind == "load"), operands
    if is_copy:
        return _copy(one, size, _where(one, one.operands, unit, target)), operands
    is_load = kind == "load"
    if is_load or unit == "buffer":
        data, addressed = parse(one.operands[0]), one.operands[1:]
    else:
        data, addressed = parse(one.operands[1]), (one.operands[0], *one.operands[2:])
    where = _where(one, addressed, unit, target)
    return (_load(one, data, where, size) if is_load else _store(one, data, where, size)), operands


# --- addresses ----------------------------------------------------------------------------------------------------


def _where(one: Instruction, texts: tuple[str, ...], unit: str, target: str) -> Where:
    offset = int(one.modifiers.get("offset", "0"), 0)
    if unit == "buffer":
        return _in_buffer(one, texts, offset, target)
    return _in_global(one, texts, offset)


def _in_global(one: Instruction, texts: tuple[str, ...], offset: int) -> Where:
    if len(texts) != 2:
        raise unknown(one)
    vector, base = parse(texts[0]), None if texts[1] == "off" else parse(texts[1])
    unit = _bytes_of(one) if "scale_offset" in one.modifiers else 1

    def where(wave: Wave) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lanes = active(wave)
        if base is None:
            low, high = wave.v[vector.at, lanes].astype(np.int64), wave.v[vector.at + 1, lanes].astype(np.int64)
            address = low | high << 32
        else:
            address = wave.v[vector.at, lanes].astype(np.int64) * unit + wave.scalar64(base.scalar)
        return lanes, np.ones(len(lanes), bool), address + offset

    return where


def _bytes_of(one: Instruction) -> int:
    found = size_of(one.name.split("_", 2)[2]) or size_of(one.name.rsplit("_", 1)[1])
    if found is None:
        raise unknown(one)
    return found.bytes


def _in_buffer(one: Instruction, texts: tuple[str, ...], offset: int, target: str) -> Where:
    vector, (resource, more) = texts[0] if len(texts) == 3 else "off", (parse(each) for each in texts[-2:])
    has_lane_offset = "offen" in one.modifiers
    if has_lane_offset == (vector == "off"):
        raise unknown(one)
    size = size_of(one.name.split("_", 2)[2]) or Size(4)

    def where(wave: Wave) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lanes = active(wave)
        base, records = _resource(wave.s[resource.scalar : resource.scalar + 4], target)
        start = wave.s[more.scalar] if more.at >= 0 else int(more.constant, 0)
        at = np.full(len(lanes), offset, np.int64)
        if has_lane_offset:
            at += wave.v[parse(vector).at, lanes]
        return lanes, at + start + size.bytes <= records, base + at + start

    return where


def _resource(words: list[int], target: str) -> tuple[int, int]:
    """Base and size of a buffer."""
    if target.startswith("gfx125"):
        base = words[0] | (words[1] & 0x1FFFFFF) << 32
        return base, words[1] >> 25 | words[2] << 7 | (words[3] & 0x3F) << 39
    return words[0] | (words[1] & 0xFFFF) << 32, words[2]


# --- ordinary accesses --------------------------------------------------------------------------------------------


def _load(one: Instruction, to: Operand, where: Where, size: Size) -> Issue:
    registers = registers_of(to, size)

    def issue(wave: Wave, place: Place) -> Access:
        lanes, inside, addresses = where(wave)
        places = place.memory.places(addresses[inside], size.bytes)

        def perform() -> None:
            found = np.zeros((len(lanes), size.bytes), np.uint8)
            found[inside] = place.memory.bytes[places]
            put_loaded(wave, to.at, lanes, found, size, to.half)

        return begin(one, "load", place, perform, registers=registers)

    return issue


def _store(one: Instruction, data: Operand, where: Where, size: Size) -> Issue:
    def issue(wave: Wave, place: Place) -> Access:
        lanes, inside, addresses = where(wave)
        places = place.memory.places(addresses[inside], size.bytes)
        values = values_of(wave, data, lanes[inside], size)

        def perform() -> None:
            place.memory.bytes[places] = values

        return begin(one, "store", place, perform)

    return issue


def _atomic(one: Instruction, name: str, unit: str, target: str) -> Issue:
    is_returned = "sc0" in one.modifiers or "glc" in one.modifiers or "RETURN" in one.modifiers.get("th", "")
    is_compare = name.startswith("cmpswap")
    if not is_compare and name not in ATOMICS:
        raise unknown(one)
    size = Size(8 if name.endswith(("64", "x2")) else 4)
    texts = one.operands
    to = parse(texts[0])
    if unit == "buffer":
        data, addressed = parse(texts[0]), texts[1:]
    else:
        rest = texts[1:] if is_returned else texts
        data, addressed = parse(rest[1]), (rest[0], *rest[2:])
    where = _where(one, addressed, unit, target)

    def issue(wave: Wave, place: Place) -> Access:
        lanes, inside, addresses = where(wave)
        lanes = lanes[inside]
        places = place.memory.places(addresses[inside], size.bytes)
        values = values_of(wave, data, lanes, size)
        other = Operand(data.text, data.at + size.bytes // 4, 1)
        compared = values_of(wave, other, lanes, size) if is_compare else None

        def perform() -> None:
            if compared is None:
                before = change(place.memory, places, values, ATOMICS[name])
            else:
                before = _swap_if_equal(place, places, values, compared)
            if is_returned:
                put_loaded(wave, to.at, lanes, before, size)

        registers = registers_of(to, size) if is_returned else ()
        return begin(one, "load" if is_returned else "store", place, perform, registers=registers)

    return issue


def _swap_if_equal(place: Place, places: np.ndarray, values: np.ndarray, compared: np.ndarray) -> np.ndarray:
    before = np.zeros_like(values)
    for lane, at in enumerate(places):
        before[lane] = place.memory.bytes[at]
        if (before[lane] == compared[lane]).all():
            place.memory.bytes[at] = values[lane]
    return before


def _scratch(one: Instruction, size: Size, is_load: bool) -> Issue:
    """Memory of each lane, for registers that do not fit."""
    data = parse(one.operands[0 if is_load else 1])
    places = [one.operands[1], one.operands[2]] if is_load else [one.operands[0], one.operands[2]]
    vector, base = (None if each == "off" else parse(each) for each in places)
    offset = int(one.modifiers.get("offset", "0"), 0)

    def issue(wave: Wave, place: Place) -> Access:
        lanes = active(wave)
        start = np.full(len(lanes), offset + (wave.s[base.scalar] if base else 0), np.int64)
        if vector:
            start += wave.v[vector.at, lanes]
        at = start[:, None] + np.arange(size.bytes)
        values = None if is_load else values_of(wave, data, lanes, size)

        def perform() -> None:
            if values is None:
                put_loaded(wave, data.at, lanes, wave.scratch[at, lanes[:, None]], size, data.half)
            else:
                wave.scratch[at, lanes[:, None]] = values

        registers = registers_of(data, size) if is_load else ()
        return begin(one, "load" if is_load else "store", place, perform, registers=registers)

    return issue


# --- copies -------------------------------------------------------------------------------------------------------


def _copy(one: Instruction, size: Size, where: Where) -> Issue:
    """Global memory to shared memory; the place is the wave's (M0), then one after another by lanes."""
    offset = int(one.modifiers.get("offset", "0"), 0)
    step = 4 if size.bytes <= 4 else 16  # of three words the place of a fourth is skipped (CDNA 4 ISA, 9.1.9)

    def issue(wave: Wave, place: Place) -> Access:
        lanes, inside, addresses = where(wave)
        sources = place.memory.places(addresses[inside], size.bytes)
        to = place.lds.places(wave.s[M0] + offset + step * lanes.astype(np.int64), size.bytes)

        def perform() -> None:
            found = np.zeros(to.shape, np.uint8)
            found[inside] = place.memory.bytes[sources]
            place.lds.bytes[to] = found

        return begin(one, "copy", place, perform, is_copy=True, touches=[Touch(to, True)])

    return issue


def _asynchronous(one: Instruction, size: Size, is_load: bool) -> Issue:
    """gfx1250: each lane names both of its places."""
    offset = int(one.modifiers.get("offset", "0"), 0)
    texts = one.operands
    shared = parse(texts[0] if is_load else texts[1])
    where = _in_global(one, texts[1:] if is_load else (texts[0], texts[2]), offset)

    def issue(wave: Wave, place: Place) -> Access:
        lanes, _, addresses = where(wave)
        inner = place.lds.places(wave.v[shared.at, lanes].astype(np.int64) + offset, size.bytes)
        # Triton masks a lane by a place outside of shared memory; where it would load from may be anywhere.
        inside = inner[:, 0] < place.lds.size
        inner, outer = inner[inside], place.memory.places(addresses[inside], size.bytes)

        def perform() -> None:
            if is_load:
                place.lds.bytes[inner] = place.memory.bytes[outer]
            else:
                place.memory.bytes[outer] = place.lds.bytes[inner]

        kind = "async-load" if is_load else "async-store"
        return begin(one, kind, place, perform, is_copy=True, touches=[Touch(inner, is_load)])

    return issue
