"""Scalar instructions: integers of a wave, masks of lanes, SCC.

Needs   an instruction and the lowering that it belongs to
Gives   operations; False where the instruction is none of these
Keeps   what is not computed exactly is forgotten, SCC included
Cost    constant

Sections of the AMD Instinct MI300 ISA: 5 (scalar ALU), 12.1 to 12.5 (opcodes). Later generations rename: `s_add_co_u32`
is `s_add_u32`, `s_and_not1_b32` is `s_andn2_b32` (RDNA 4 ISA, 16.1 to 16.5).
"""

from __future__ import annotations

import re

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.emitter import UNKNOWN, Emitter
from tidegate.hosts.isa import model as m

# Operator, whether with a sign, and what becomes of SCC: whether the result is not 0, forgotten, or nothing.
_TWO = {
    "add_u32": ("add", False, "lost"),
    "add_i32": ("add", True, "lost"),
    "add_co_u32": ("add", False, "lost"),
    "add_co_i32": ("add", True, "lost"),
    "sub_u32": ("sub", False, "lost"),
    "sub_i32": ("sub", True, "lost"),
    "sub_co_u32": ("sub", False, "lost"),
    "sub_co_i32": ("sub", True, "lost"),
    "mul_i32": ("mul", True, ""),
    "mul_hi_u32": ("mulhi", False, ""),
    "mul_hi_i32": ("mulhi", True, ""),
    "lshl_b32": ("shl", False, "set"),
    "lshr_b32": ("shr", False, "set"),
    "ashr_i32": ("shr", True, "set"),
    "min_i32": ("min", True, "lost"),
    "min_u32": ("min", False, "lost"),
    "max_i32": ("max", True, "lost"),
    "max_u32": ("max", False, "lost"),
}
_ONE = {"abs_i32": ("abs", True, "set"), "brev_b32": ("brev", False, ""), "bcnt1_i32_b32": ("popc", False, "set")}
_IMMEDIATE = {"addk_i32": ("add", "lost"), "addk_co_i32": ("add", "lost"), "mulk_i32": ("mul", "")}
_LOGIC = re.compile(r"s_(and|or|xor|andn2|orn2|and_not1|or_not1|nand|nor|xnor)_b(32|64)$")
_SAVE = re.compile(
    r"s_(and|or|xor|andn1|andn2|orn1|orn2|and_not0|and_not1|or_not0|or_not1|nand|nor|xnor)_saveexec_b(32|64)$"
)
_COMPARE = re.compile(r"s_cmpk?_(eq|lg|lt|le|gt|ge)_([iu])(32|64)$")
_LOGICAL = {"and": ("and", False, False), "or": ("or", False, False), "xor": ("xor", False, False)}
_LOGICAL |= {"andn2": ("and", True, False), "orn2": ("or", True, False)}
_LOGICAL |= {"nand": ("and", False, True), "nor": ("or", False, True), "xnor": ("xor", False, True)}
_LOGICAL |= {"and_not1": ("and", True, False), "or_not1": ("or", True, False)}
SCC = m.Register("scc")


def lower_scalar(out: Emitter, item: a.AsmLine) -> bool:
    name, given = item.name.removeprefix("s_"), item.operands
    if (found := _COMPARE.match(item.name)) is not None and len(given) == 2:
        _compare(out, item, found[1], found[2] == "i", int(found[3]))
    elif (found := _LOGIC.match(item.name)) is not None and len(given) == 3:
        _logic(out, item, _LOGICAL[found[1]], int(found[2]))
    elif (found := _SAVE.match(item.name)) is not None and len(given) == 2:
        _save(out, item, found[1])
    elif "_wrexec_" in name:
        out.forget((*given[:1], a.Registers(("exec_lo", "exec_hi")[: out.lanes // 32])), uniform=False)
        out.add(m.Forget(("scc",), (), False))
    elif name in ("mov_b32", "mov_b64", "not_b32", "not_b64", "cselect_b32", "cselect_b64") and len(given) > 1:
        _move(out, item, name)
    elif name in _TWO and len(given) == 3 and isinstance(given[0], a.Registers):
        operator, signed, scc = _TWO[name]
        left, right = out.operand(given[1]), out.operand(given[2])
        if operator in ("shl", "shr"):
            right = (
                m.Constant(right.value & 31)
                if isinstance(right, m.Constant)
                else out.compute("and", right, m.Constant(31))
            )
        _result(out, given[0].first, m.Compute(given[0].first, operator, (left, right), 32, signed, 32), scc)
    elif name in _ONE and len(given) == 2 and isinstance(given[0], a.Registers):
        operator, signed, scc = _ONE[name]
        _result(out, given[0].first, m.Compute(given[0].first, operator, (out.operand(given[1]),), 32, signed, 32), scc)
    elif name in _IMMEDIATE and len(given) == 2 and isinstance(given[0], a.Registers):
        operator, scc = _IMMEDIATE[name]
        register = given[0].first
        pair = (m.Register(register), _sixteen(out.operand(given[1])))
        _result(out, register, m.Compute(register, operator, pair, 32, True, 32), scc)
    else:
        return _others(out, item, name)
    return True


def _others(out: Emitter, item: a.AsmLine, name: str) -> bool:
    given = item.operands
    if len(given) < 2 or not isinstance(given[0], a.Registers):
        return False
    register = given[0].first
    if name == "movk_i32":
        _result(out, register, m.Compute(register, "copy", (_sixteen(out.operand(given[1])),)), "")
    elif name in ("sext_i32_i8", "sext_i32_i16"):
        bits = 8 if name.endswith("i8") else 16
        _result(out, register, m.Compute(register, "copy", (out.operand(given[1]),), 32, True, bits), "")
    elif name in ("bfe_u32", "bfe_i32") and len(given) == 3 and isinstance(given[2], a.Immediate):
        _field(out, item, register, given[2].value, name == "bfe_i32")
    elif name.startswith("lshl") and name.endswith("_add_u32") and len(given) == 3 and name[4:5].isdigit():
        moved = out.compute("shl", out.operand(given[1]), m.Constant(int(name[4])))
        _result(out, register, m.Compute(register, "add", (moved, out.operand(given[2]))), "lost")
    elif name in ("pack_ll_b32_b16", "pack_lh_b32_b16", "pack_hh_b32_b16") and len(given) == 3:
        _pack(out, item, register, name[5:7])
    elif name in ("bitcmp0_b32", "bitcmp1_b32"):
        count = out.compute("and", out.operand(given[1]), m.Constant(31))
        bit = out.compute("and", out.compute("shr", out.operand(given[0]), count), m.Constant(1))
        out.add(m.Compare("scc", "eq", bit, m.Constant(int(name[6]))))
    elif name in ("bitset0_b32", "bitset1_b32") and isinstance(given[1], a.Immediate):
        place = 1 << (given[1].value & 31)
        way, other = ("or", place) if name[6] == "1" else ("and", ~place)
        _result(out, register, m.Compute(register, way, (m.Register(register), m.Constant(other))), "")
    elif name in ("add_u64", "add_nc_u64", "sub_nc_u64", "mul_u64") and len(given) == 3:
        low = (out.operand(given[1]), out.operand(given[2]))
        _wide(out, given[0], m.Compute(register, name[:3], low))
    elif name in ("lshl_b64", "lshr_b64") and len(given) == 3:
        _shift_pair(out, item, name == "lshl_b64")
    elif name == "cmov_b32":
        _result(out, register, m.Select(register, "scc", out.operand(given[1]), m.Register(register)), "")
    else:
        return False
    return True


def _result(out: Emitter, register: str, action: m.Action, scc: str) -> None:
    out.scalar(register, action)
    if scc == "set":
        out.add(m.Compare("scc", "ne", m.Register(register), m.Constant(0)))
    elif scc:
        sources = m.operands_of(action)
        out.add(m.Forget(("scc",), sources))


def _sixteen(given: m.Operand) -> m.Operand:
    """An immediate of 16 bits, with its sign."""
    if isinstance(given, m.Constant):
        return m.Constant(((given.value & 0xFFFF) ^ 0x8000) - 0x8000)
    return UNKNOWN


def _compare(out: Emitter, item: a.AsmLine, operator: str, signed: bool, bits: int) -> None:
    operator = "ne" if operator == "lg" else operator
    left, right = item.operands
    if bits == 64:
        highs = out.operand(left, 1), out.operand(right, 1)
        one = out.truth()
        out.add(m.Compare(one, operator, *highs, 32, False))
        combine = "and" if operator == "eq" else "or"
        lows = out.operand(left), out.operand(right)
        if operator in ("eq", "ne"):
            out.add(m.Compare("scc", operator, *lows, 32, False, combine, m.Register(one)))
        else:
            out.add(m.Forget(("scc",), (*lows, *highs)))
        return
    second = out.operand(right)
    if item.name.startswith("s_cmpk") and isinstance(second, m.Constant):
        second = _sixteen(second) if signed else m.Constant(second.value & 0xFFFF)
    out.add(m.Compare("scc", operator, out.operand(left), second, 32, signed))


def _field(out: Emitter, item: a.AsmLine, register: str, packed: int, signed: bool) -> None:
    """The place in bits 0 to 4, the width in bits 16 to 22."""
    place, width = packed & 31, min(packed >> 16 & 127, 32)
    source = item.operands[1]
    if isinstance(source, a.Registers) and source.first == "ttmp8" and (place, width) == (25, 5):
        action: m.Action = m.Compute(register, "copy", (m.Given("%wave"),))  # LLVM, AMDGPUUsage: the wave's number
    elif width + place > 32 or not width:
        action = m.Forget((register,), (out.operand(source),), True, "")
    else:
        triple = (out.operand(source), m.Constant(place), m.Constant(width))
        action = m.Compute(register, "bfe", triple, 32, signed, 32)
    _result(out, register, action, "set")


def _pack(out: Emitter, item: a.AsmLine, register: str, which: str) -> None:
    left, right = out.operand(item.operands[1]), out.operand(item.operands[2])
    low = out.compute("and", left, m.Constant(0xFFFF)) if which[0] == "l" else out.compute("shr", left, m.Constant(16))
    high = (
        out.compute("shl", right, m.Constant(16)) if which[1] == "l" else out.compute("and", right, m.Constant(-65536))
    )
    _result(out, register, m.Compute(register, "or", (low, high)), "")


def _wide(out: Emitter, result: a.Operand, low: m.Compute) -> None:
    """64 bits of which the lower half is computed alone."""
    assert isinstance(result, a.Registers)
    name = out.fresh()
    out.add(m.Compute(name, low.operator, low.operands, low.bits, low.signed, low.source_bits))
    out.forget((result,), low.operands)
    out.add(m.Compute(result.first, "copy", (m.Register(name),)))


def _shift_pair(out: Emitter, item: a.AsmLine, left: bool) -> None:
    result, source, count = item.operands
    assert isinstance(result, a.Registers)
    if not isinstance(count, a.Immediate) or len(result.names) != 2:
        out.forget((result,), (*out.operands((source, count)),))
        out.add(m.Forget(("scc",), (*out.operands((source, count)),)))
        return
    by = count.value & 63
    low, high = out.copied(out.operand(source, 0)), out.copied(out.operand(source, 1))
    if not left:
        low, high = high, low
    # `low` is where bits come from, `high` where they go.
    one, other, rest = ("shl", "shr", by - 32) if left else ("shr", "shl", by - 32)
    if by >= 32:
        near: m.Operand = m.Constant(0)
        far = out.compute(one, low, m.Constant(rest))
    elif by == 0:
        near, far = low, high
    else:
        near = out.compute(one, low, m.Constant(by))
        far = out.compute("or", out.compute(one, high, m.Constant(by)), out.compute(other, low, m.Constant(32 - by)))
    first, second = result.names if left else result.names[::-1]
    out.scalar(first, m.Compute(first, "copy", (near,)))
    out.scalar(second, m.Compute(second, "copy", (far,)))
    _is_not_zero(out, result)


def _is_not_zero(out: Emitter, result: a.Registers) -> None:
    both = [m.Register(each) for each in result.names]
    joined = both[0] if len(both) == 1 else out.compute("or", both[0], both[1])
    out.add(m.Compare("scc", "ne", joined, m.Constant(0)))


# --- numbers that may be masks ------------------------------------------------------------------------------------


def _logic(out: Emitter, item: a.AsmLine, how: tuple[str, bool, bool], bits: int) -> None:
    operator, negates, negated = how
    result, left, right = item.operands
    if not isinstance(result, a.Registers):
        return
    values: list[m.Operand] = []
    for part in range(bits // 32):
        one, other = out.operand(left, part), out.operand(right, part)
        other = out.compute("not", other) if negates else other
        value = out.compute(operator, one, other)
        values.append(out.compute("not", value) if negated else value)
    mask = _joined(out, left, right, how) if bits == out.lanes else None
    _set_both(out, result, values, mask)
    if mask is not None and any(_is_mask(each) for each in (result, left, right)):
        out.add(m.Logic("scc", "any", (mask,)))
    else:
        _is_not_zero(out, result)


def _joined(out: Emitter, left: a.Operand, right: a.Operand, how: tuple[str, bool, bool]) -> m.Operand | None:
    operator, negates, negated = how
    one, other = out.mask(left), out.mask(right)
    if one is None or other is None:
        return None
    if negates:
        other = _truth(out, "not", other)
    found = _truth(out, operator, one, other)
    return _truth(out, "not", found) if negated else found


def _truth(out: Emitter, operator: str, *given: m.Operand) -> m.Operand:
    name = out.truth()
    out.add(m.Logic(name, operator, given))
    return m.Register(name)


def _is_mask(given: a.Operand) -> bool:
    """Whether registers are sure to hold a mask: others are numbers as well."""
    return isinstance(given, a.Registers) and given.first in ("exec_lo", "vcc_lo")


def _set_both(out: Emitter, result: a.Registers, values: list[m.Operand], mask: m.Operand | None) -> None:
    """Numbers and the mask that they are."""
    for register, value in zip(result.names, values, strict=False):
        if register != "null":
            out.scalar(register, m.Compute(register, "copy", (value,)))
    name = out.mask(result)
    if mask is not None and isinstance(name, m.Register):
        out.add(m.Logic(name.name, "copy", (mask,)))


def _save(out: Emitter, item: a.AsmLine, how: str) -> None:
    """`D = exec; exec = S op exec`; `andn2`, `and_not1`: `S & ~exec`; `andn1`, `and_not0`: `~S & exec`."""
    result, source = item.operands
    given, old, saved = out.mask(source), out.truth(), out.mask(result)
    out.add(m.Logic(old, "copy", (m.Register("exec"),)))
    now: m.Operand
    if given is None:
        now = m.Register(out.truth())
        assert isinstance(now, m.Register)
        out.add(m.Forget((now.name,), (), False, ""))
    else:
        other: m.Operand = m.Register(old)
        if how in ("andn2", "orn2", "and_not1", "or_not1"):
            other = _truth(out, "not", other)
        if how in ("andn1", "orn1", "and_not0", "or_not0"):
            given = _truth(out, "not", given)
        base = {"nand": "and", "nor": "or", "xnor": "xor"}.get(how, "or" if how.startswith("or") else how[:3])
        now = _truth(out, base, given, other)
        if how in ("nand", "nor", "xnor"):
            now = _truth(out, "not", now)
    out.set_mask(a.Registers(("exec_lo", "exec_hi")), m.Logic("exec", "copy", (now,)))
    if isinstance(saved, m.Register):
        out.set_mask(result, m.Logic(saved.name, "copy", (m.Register(old),)))
    else:
        out.forget((result,))
    out.add(m.Logic("scc", "any", (m.Register("exec"),)))


def _move(out: Emitter, item: a.AsmLine, name: str) -> None:
    result, *given = item.operands
    if not isinstance(result, a.Registers):
        return
    values: list[m.Operand] = []
    for part in range(len(result.names)):
        if name.startswith("mov"):
            values.append(out.copied(out.operand(given[0], part)))
        elif name.startswith("not"):
            values.append(out.compute("not", out.operand(given[0], part)))
        else:
            found = out.fresh()
            out.add(m.Select(found, "scc", out.operand(given[0], part), out.operand(given[-1], part)))
            values.append(m.Register(found))
    masks = [out.mask(each) for each in given]
    mask: m.Operand | None = None
    if len(result.names) == out.lanes // 32 and all(each is not None for each in masks):
        first, last = masks[0], masks[-1]
        assert first is not None and last is not None  # noqa: PT018
        if name.startswith("mov"):
            mask = _truth(out, "copy", first) if isinstance(first, m.Register) else first
        elif name.startswith("not"):
            mask = _truth(out, "not", first)
        else:
            yes = _truth(out, "and", SCC, first)
            mask = _truth(out, "or", yes, _truth(out, "and", _truth(out, "not", SCC), last))
    _set_both(out, result, values, mask)
    if name.startswith("not"):
        if mask is not None and any(_is_mask(each) for each in (result, *given)):
            out.add(m.Logic("scc", "any", (mask,)))
        else:
            _is_not_zero(out, result)
