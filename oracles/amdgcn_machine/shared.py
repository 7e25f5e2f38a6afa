"""Instructions of the LDS unit: `ds_*`.

Needs   an instruction
Gives   `compile_shared`: how a wave issues it, with its operands
Keeps   those of one wave are performed in the order of issue (CDNA 3 ISA §11, "LDS instructions of a wave are
        executed in order"); `ds_bpermute` and its like touch no memory and count all the same
Cost    one indexing for each access
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
from oracles.amdgcn_machine.values import list_of, reader
from oracles.amdgcn_machine.wave import Wave

ONE = re.compile(r"^ds_(read|load|write|store)_(\w+)$")
TWO = re.compile(r"^ds_(read|write)2(st64)?_b(32|64)$|^ds_(load|store)_2addr(_stride64)?_b(32|64)$")
TURNED = re.compile(r"^ds_read_b(64)_tr_b(16|8)$|^ds_load_tr(16|8)_b(128|64)$")
CHANGE = re.compile(r"^ds_(\w+?)(_rtn)?_([uifb]\d\d|f16)$")
MOVES = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")
MODIFIERS = {"offset", "offset0", "offset1"}


def compile_shared(one: Instruction) -> tuple[Issue, list[Operand]]:
    operands = [parse(each) for each in one.operands]
    if one.modifiers.keys() - MODIFIERS:
        raise unknown(one)
    if one.name in MOVES:
        return _move(one, operands), operands
    if found := TURNED.match(one.name):
        return _turned(one, operands, found), operands
    if found := TWO.match(one.name):
        return _two(one, operands, found), operands
    if (found := ONE.match(one.name)) and (size := size_of(found[2])):
        is_load = found[1] in ("read", "load")
        return _one(one, operands, size, is_load), operands
    if (found := CHANGE.match(one.name)) and f"{found[1]}_{found[3]}" in ATOMICS:
        return _change(one, operands, found), operands
    raise unknown(one)


def _address(operand: Operand, offset: int) -> Callable[[Wave, np.ndarray], np.ndarray]:
    at = operand.at
    return lambda wave, lanes: wave.v[at, lanes].astype(np.int64) + offset


def _one(one: Instruction, operands: list[Operand], size: Size, is_load: bool) -> Issue:
    offset = int(one.modifiers.get("offset", "0"), 0)
    data, address = (operands[0], operands[1]) if is_load else (operands[1], operands[0])
    where = _address(address, offset)
    parts = [(data, where)]
    return _load(one, parts, size) if is_load else _store(one, parts, size)


def _two(one: Instruction, operands: list[Operand], found: re.Match) -> Issue:
    is_load = (found[1] or found[4]) in ("read", "load")
    width = int(found[3] or found[6]) // 8
    unit = width * (64 if found[2] or found[5] else 1)
    offsets = [int(one.modifiers.get(name, "0"), 0) * unit for name in ("offset0", "offset1")]
    if is_load:
        to, address = operands
        words = width // 4
        halves = [Operand(to.text, to.at + number * words, words) for number in range(2)]
        return _load(one, [(h, _address(address, o)) for h, o in zip(halves, offsets, strict=True)], Size(width))
    address, *data = operands
    return _store(one, [(d, _address(address, o)) for d, o in zip(data, offsets, strict=True)], Size(width))


Parts = list[tuple[Operand, Callable[[Wave, np.ndarray], np.ndarray]]]


def _load(one: Instruction, parts: Parts, size: Size) -> Issue:
    registers = tuple(each for to, _ in parts for each in registers_of(to, size))

    def issue(wave: Wave, place: Place) -> Access:
        lanes = active(wave)
        found = [(to, place.lds.places(where(wave, lanes), size.bytes)) for to, where in parts]

        def perform() -> None:
            for to, places in found:
                put_loaded(wave, to.at, lanes, place.lds.bytes[places], size, to.half)

        touches = [Touch(places, False) for _, places in found]
        return begin(one, "lds", place, perform, registers=registers, touches=touches)

    return issue


def _store(one: Instruction, parts: Parts, size: Size) -> Issue:
    def issue(wave: Wave, place: Place) -> Access:
        lanes = active(wave)
        found = [
            (place.lds.places(where(wave, lanes), size.bytes), values_of(wave, of, lanes, size)) for of, where in parts
        ]

        def perform() -> None:
            for places, values in found:
                place.lds.bytes[places] = values

        touches = [Touch(places, True, values=values) for places, values in found]
        return begin(one, "lds", place, perform, touches=touches)

    return issue


def _turned(one: Instruction, operands: list[Operand], found: re.Match) -> Issue:
    """Sixteen lanes hold a tile of sixteen columns by rows; afterwards a lane holds a column."""
    to, address = operands
    element = int(found[2] or found[3]) // 8
    size = Size(int(found[1] or found[4]) // 8)
    count = size.bytes // element
    lane, number = np.arange(16)[:, None], np.arange(count)[None, :]
    # Which lane holds a row's piece differs: seen in the addresses that Triton makes, confirmed by its results.
    if found[2]:  # gfx950: pieces of a row in lanes side by side
        from_lane = 16 // count * number + lane // count
    elif element == 2:  # gfx1250, 16 bits: the second pieces in the upper half of the group
        from_lane = number + 8 * (lane // 8)
    else:  # gfx1250, 8 bits: four rows, their second pieces, four rows
        from_lane = 8 * (number // 4) + number % 4 + 4 * (lane // 8)
    from_element = np.broadcast_to(lane % count, (16, count))
    where = _address(address, int(one.modifiers.get("offset", "0"), 0))

    def issue(wave: Wave, place: Place) -> Access:
        if not wave.is_full:
            raise unknown(one)
        places = place.lds.places(where(wave, wave.lane), size.bytes)

        def perform() -> None:
            tiles = place.lds.bytes[places].reshape(-1, 16, count, element)
            turned = tiles[:, from_lane, from_element].reshape(wave.lanes, size.bytes)
            put_loaded(wave, to.at, wave.lane, turned, size)

        touches = [Touch(places, False)]
        return begin(one, "lds", place, perform, registers=registers_of(to, size), touches=touches)

    return issue


def _change(one: Instruction, operands: list[Operand], found: re.Match) -> Issue:
    is_returned = bool(found[2])
    function = ATOMICS[f"{found[1]}_{found[3]}"]
    size = Size(int(found[3][1:]) // 8)
    to = operands[0]
    address, data = operands[1:3] if is_returned else operands[:2]
    where = _address(address, int(one.modifiers.get("offset", "0"), 0))

    def issue(wave: Wave, place: Place) -> Access:
        lanes = active(wave)
        places, values = place.lds.places(where(wave, lanes), size.bytes), values_of(wave, data, lanes, size)

        def perform() -> None:
            before = change(place.lds, places, values, function)
            if is_returned:
                put_loaded(wave, to.at, lanes, before, size)

        registers = registers_of(to, size) if is_returned else ()
        touches = [Touch(places, True, is_atomic=True)]
        return begin(one, "lds", place, perform, registers=registers, touches=touches)

    return issue


def _move(one: Instruction, operands: list[Operand]) -> Issue:
    """Values that go from lane to lane by way of the LDS unit, without its memory."""
    to = operands[0]
    make = {"ds_bpermute_b32": _fetch, "ds_permute_b32": _push, "ds_swizzle_b32": _swizzle}[one.name]
    move = make(one, operands)

    def issue(wave: Wave, place: Place) -> Access:
        lanes = active(wave)
        moved = move(wave)

        def perform() -> None:
            wave.v[to.at, lanes] = moved[lanes]

        return begin(one, "lds", place, perform, registers=(to.at,))

    return issue


Move = Callable[[Wave], np.ndarray]


def _fetch(one: Instruction, operands: list[Operand]) -> Move:
    offset = int(one.modifiers.get("offset", "0"), 0)
    address, data = operands[1], reader(operands[2], "u32")

    def move(wave: Wave) -> np.ndarray:
        source = (wave.v[address.at] + np.uint32(offset)) // np.uint32(4) % np.uint32(wave.lanes)
        value = np.broadcast_to(data(wave), wave.lanes)
        return np.where(wave.mask[source], value[source], np.uint32(0))

    return move


def _push(one: Instruction, operands: list[Operand]) -> Move:
    offset = int(one.modifiers.get("offset", "0"), 0)
    address, data = operands[1], reader(operands[2], "u32")

    def move(wave: Wave) -> np.ndarray:
        to = (wave.v[address.at] + np.uint32(offset)) // np.uint32(4) % np.uint32(wave.lanes)
        found = np.zeros(wave.lanes, np.uint32)
        found[to[wave.mask]] = np.broadcast_to(data(wave), wave.lanes)[wave.mask]
        return found

    return move


def _swizzle(one: Instruction, operands: list[Operand]) -> Move:
    """Quads, or in 32 lanes: and, or, xor of the lane's number."""
    data, text = operands[1], one.modifiers["offset"]
    if found := re.match(r"swizzle\((\w+),(.*)\)", text):
        if found[1] != "QUAD_PERM":
            raise unknown(one)
        quad = list_of(found[2])
        source = lambda lane: lane // 4 * 4 + np.array(quad)[lane % 4]  # noqa: E731
    else:
        code = int(text, 0)
        if code >> 15:
            quad = [code >> 2 * each & 3 for each in range(4)]
            source = lambda lane: lane // 4 * 4 + np.array(quad)[lane % 4]  # noqa: E731
        else:
            keep, either, flip = code & 31, code >> 5 & 31, code >> 10 & 31
            source = lambda lane: lane // 32 * 32 + ((lane % 32 & keep | either) ^ flip)  # noqa: E731

    def move(wave: Wave) -> np.ndarray:
        places = source(wave.lane)
        return np.where(wave.mask[places], wave.v[data.at][places], np.uint32(0))

    return move
