"""Loads, stores, atomics, copies and matrix loads of PTX.

Needs   an instruction and the lowering that it belongs to
Gives   operations: what touches shared memory, and what becomes of the results
Keeps   an address without a state space may lead to shared memory; a shape that is not known touches all of it
Cost    constant

Sections of the PTX ISA 9.0: 9.7.9.8 (ld), 9.7.9.11 (st), 9.7.13.5 (atom), 9.7.13.7 (red), 9.7.9.25.3 (cp.async),
9.7.14.5.15 (ldmatrix), 9.7.14.5.16 (stmatrix).
"""

from __future__ import annotations

import re

from tidegate.hosts.isa import model as m
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.lower_objects import track_copies
from tidegate.hosts.ptx.lowering import Lowering
from tidegate.hosts.ptx.types import ELEMENTS, space_in, types_in, vector_in

MEMORY = ("ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "wmma", "st_async", "red_async")
_OPERATORS = ("add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas", "popc")
# Other threads may write meanwhile, so that threads need not find the same.
_UNSTABLE = {"volatile", "relaxed", "acquire", "mmio", "cv"}


def lower_memory(out: Lowering, item: p.Instruction) -> None:
    if "async" in item.modifiers and item.opcode != "cp":
        out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True)
        return
    match item.opcode:
        case "ld" | "ldu":
            _load(out, item)
        case "st":
            _store(out, item)
        case "atom" | "red":
            _atomic(out, item)
        case "cp":
            _copy(out, item)
        case "ldmatrix" | "stmatrix":
            _matrix(out, item)
        case _:
            _wmma(out, item)


def _address(out: Lowering, operand: p.Operand | None) -> tuple[m.Operand, int] | None:
    if not isinstance(operand, p.Address):
        return None
    return out.operand(operand.base), operand.offset


def _load(out: Lowering, item: p.Instruction) -> None:
    space, types = space_in(item.modifiers), types_in(item.modifiers)
    source = item.operands[1] if len(item.operands) > 1 else None
    at = _address(out, source)
    results = out.results(item)
    if at is None or not types:
        out.forget(item, has_address=True)
        return
    if space == "param" and isinstance(source, p.Address) and isinstance(source.base, p.Name):
        if len(results) == 1 and vector_in(item.modifiers) == 1 and source.base.name in out.params:
            name = f"param {source.base.name}+{source.offset} {types[0].name}"
            if types[0].bits == 32 and not types[0].signed and out.registers[results[0]].endswith("64"):
                name += "_wide"  # with zeros above, which is not the number that its 32 bits are with a sign
            out.guarded(m.Compute(results[0], "copy", (m.Given(name),), 64, types[0].signed, 64))
        else:  # what a call gave back is each thread's own; arguments are those of all
            # Only of a kernel's parameters an address can be had: what stands at one is the same for all threads.
            is_argument = source.base.name in out.params or source.base.name in out.registers
            out.guarded(m.Forget(results, (at[0],) if source.base.name in out.registers else (), is_argument))
        return
    if space == "cluster":
        out.opaque(item, "shared memory of another block is not modelled", orders=True)
        return
    size = types[0].bits // 8 * vector_in(item.modifiers)
    if space in ("shared", "any"):
        out.guarded(m.Touch("read", *at, size, space))
    # What threads load from one address is one value, unless another thread may write there meanwhile: of shared
    # memory that is what is being proved.
    # Without a state space it may be local memory, which each thread has of its own.
    steady = space in ("shared", "global", "const") and not _UNSTABLE.intersection(item.modifiers)
    # Pointers have 64 bits; a compiler that keeps shorter ones in memory has them in its own.
    may_be_address = types[0].bits >= 64 or space == "local"
    out.guarded(m.Forget(results, (at[0],), steady, "memory" if may_be_address else ""))


def _store(out: Lowering, item: p.Instruction) -> None:
    space, types = space_in(item.modifiers), types_in(item.modifiers)
    at = _address(out, item.operands[0] if item.operands else None)
    if at is None or not types:
        out.opaque(item, f"`{item.mnemonic}` is not known", touches=True)
        return
    if space == "cluster":
        out.opaque(item, "shared memory of another block is not modelled", orders=True)
    elif space in ("shared", "any"):
        size = types[0].bits // 8 * vector_in(item.modifiers)
        stored = item.operands[1] if len(item.operands) > 1 else None
        out.guarded(m.Touch("write", *at, size, space, values=_values(out, stored)))


def _atomic(out: Lowering, item: p.Instruction) -> None:
    """Atomics on one element are no data race, whatever they are (8.7): their order is not asked for."""
    space, types = space_in(item.modifiers), types_in(item.modifiers)
    place = 1 if item.opcode == "atom" else 0
    at = _address(out, item.operands[place] if len(item.operands) > place else None)
    if at is None or not types or space == "cluster":
        out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True, touches=True)
        return
    if space in ("shared", "any"):
        operator = next((each for each in item.modifiers if each in _OPERATORS), "")
        kind = types[-1]
        if operator in ("min", "max") and kind.name.startswith("u"):
            operator = f"u{operator}"
        size = kind.bits // 8 * vector_in(item.modifiers)
        element = ELEMENTS.get(kind.name, "")
        # Threads that exchange for one value leave that value, in whatever order.
        given = item.operands[place + 1] if operator == "exch" and len(item.operands) == place + 2 else None
        values = _values(out, given)
        out.guarded(m.Touch("atomic", *at, size, space, operator=operator, element=element, values=values))
    if place:
        out.guarded(m.Forget(out.results(item), (), False, "memory" if types[-1].bits >= 64 else ""))


def _values(out: Lowering, stored: p.Operand | None) -> tuple[m.Operand, ...]:
    """What decides the bytes that are stored."""
    items = stored.items if isinstance(stored, p.Vector) else (stored,)
    if not all(isinstance(each, p.Name | p.Number) for each in items):
        return ()
    return tuple(out.operand(each) for each in items if isinstance(each, p.Name | p.Number))


def _copy(out: Lowering, item: p.Instruction) -> None:
    """9.7.9.25.3: groups are per thread; a wait says something to its own thread only."""
    words, operands = item.modifiers, item.operands
    if words[:3] == ("async", "mbarrier", "arrive"):
        track_copies(out, item)
    elif words[:1] != ("async",) or "bulk" in words or "mbarrier" in words:
        out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True)
    elif "commit_group" in words:
        out.unguarded(m.Commit())
    elif "wait_all" in words:
        out.unguarded(m.WaitGroups(0, True))
    elif "wait_group" in words:
        count = operands[0] if operands else p.Number(0)
        if isinstance(count, p.Number):
            out.unguarded(m.WaitGroups(count.value))
        else:
            out.opaque(item, "a wait whose count is no constant", orders=True)
    else:
        at = _address(out, operands[0] if operands else None)
        size = operands[2] if len(operands) > 2 else None
        if at is None or not isinstance(size, p.Number) or size.value not in (4, 8, 16) or space_in(words) == "cluster":
            out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True, touches=True)
        else:
            # A copy of fewer bytes than it names fills the rest with zeros.
            out.unguarded(m.Touch("write", *at, size.value, "shared", is_async=True))


def _matrix(out: Lowering, item: p.Instruction) -> None:
    """Each of the first 8 lanes for each matrix names a row of 16 bytes; the wave reads them together."""
    is_load = item.opcode == "ldmatrix"
    place = 1 if is_load else 0
    at = _address(out, item.operands[place] if len(item.operands) > place else None)
    count = next((int(each[1]) for each in item.modifiers if each in ("x1", "x2", "x4")), 0)
    if at is None or not count or "m8n8" not in item.modifiers or space_in(item.modifiers) not in ("shared", "any"):
        out.opaque(item, f"`{item.mnemonic}` has a shape that is not known", touches=True)
        return
    space = space_in(item.modifiers)
    effect = "read" if is_load else "write"
    out.guarded(m.Touch(effect, *at, 16, space, collective=True, lanes=8 * count))
    if is_load:
        out.guarded(m.Forget(out.results(item), (at[0],), False, "", by_wave=True))


def _wmma(out: Lowering, item: p.Instruction) -> None:
    """9.7.14.4.3: the lanes of a wave read or write a matrix together, row by row, from one address."""
    if "mma" in item.modifiers[:1] or space_in(item.modifiers) == "global":
        out.forget(item, has_address=False, uniform=False)  # each lane holds a part of the matrix
        return
    effect, count, length = _rows_of(item)
    at = _address(out, item.operands[effect == "read"] if len(item.operands) > 1 else None)
    if at is None or not count:
        out.opaque(item, f"the bytes of `{item.mnemonic}` are not computed", touches=True)
        return
    space = space_in(item.modifiers)
    if space in ("shared", "any"):
        rows = _row_of_lane(out, item, at[0])
        out.guarded(m.Touch(effect, rows, at[1], length, space, collective=True, lanes=count))
    elif space == "cluster":
        out.opaque(item, "shared memory of another block is not modelled", orders=True)
    if effect == "read":
        out.forget(item, has_address=False, uniform=False)


def _row_of_lane(out: Lowering, item: p.Instruction, base: m.Operand) -> m.Operand:
    """Where a row begins, one for each lane: the stride counts elements, and may be a register."""
    size = types_in(item.modifiers)[0].bits // 8
    _, _, length = _rows_of(item)
    stride = out.operand(item.operands[2]) if len(item.operands) > 2 else m.Constant(length // size)
    step: m.Operand = m.Constant(stride.value * size) if isinstance(stride, m.Constant) else m.Register(out.fresh(True))
    if isinstance(step, m.Register):
        out.add(m.Compute(step.name, "mulwide", (stride, m.Constant(size)), 64, True, 32), None)
    row = out.fresh(wide=True)
    out.add(m.Compute(row, "mad", (m.Given("%laneid"), step, base), 64, True, 64), None)
    return m.Register(row)


def _rows_of(item: p.Instruction) -> tuple[str, int, int]:
    """Whether a matrix is read or written, how many rows it has, and their bytes; none if that is not known."""
    words, types = item.modifiers, types_in(item.modifiers)
    shape = next((found for each in words if (found := re.fullmatch(r"m(\d+)n(\d+)k(\d+)", each))), None)
    order = next((each for each in words if each in ("row", "col")), "")
    if words[:1] not in (("load",), ("store",)) or words[1:2] not in (("a",), ("b",), ("c",), ("d",)):
        return "", 0, 0
    if shape is None or not order or len(types) != 1 or types[0].bits < 8:
        return "", 0, 0
    m_, n_, k_ = map(int, shape.groups())
    high, wide = {"a": (m_, k_), "b": (k_, n_)}.get(words[1], (m_, n_))
    count, length = (high, wide) if order == "row" else (wide, high)
    effect = "read" if words[0] == "load" else "write"
    return effect, count, length * (types[0].bits // 8)
