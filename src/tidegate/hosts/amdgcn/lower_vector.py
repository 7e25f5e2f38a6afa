"""Vector instructions: integers of lanes, comparisons, what goes between lanes and the wave.

Needs   an instruction and the lowering that it belongs to
Gives   operations; False where the instruction is none of these
Keeps   a result changes in active lanes alone; a mask that is compared into is false in the others. What is not
        computed exactly is forgotten
Cost    constant

Sections of the AMD Instinct MI300 ISA: 6 (vector ALU), 12.8 to 12.15 (opcodes).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.emitter import UNKNOWN, Emitter
from tidegate.hosts.amdgcn.forget import has_no_dpp
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa.effects import FAR

# Operator, whether with a sign, whether the operands stand the other way round.
_TWO: dict[str, tuple[str, bool, bool]] = {
    "add_u32": ("add", False, False),
    "add_nc_u32": ("add", False, False),
    "add_i32": ("add", True, False),
    "add_nc_i32": ("add", True, False),
    "sub_u32": ("sub", False, False),
    "sub_nc_u32": ("sub", False, False),
    "sub_i32": ("sub", True, False),
    "sub_nc_i32": ("sub", True, False),
    "subrev_u32": ("sub", False, True),
    "subrev_nc_u32": ("sub", False, True),
    "mul_lo_u32": ("mul", False, False),
    "mul_hi_u32": ("mulhi", False, False),
    "mul_hi_i32": ("mulhi", True, False),
    "and_b32": ("and", False, False),
    "or_b32": ("or", False, False),
    "xor_b32": ("xor", False, False),
    "min_u32": ("min", False, False),
    "min_i32": ("min", True, False),
    "max_u32": ("max", False, False),
    "max_i32": ("max", True, False),
    "lshlrev_b32": ("shl", False, True),
    "lshrrev_b32": ("shr", False, True),
    "ashrrev_i32": ("shr", True, True),
}
_THREE: dict[str, tuple[str, str]] = {  # (a first b) second c
    "and_or_b32": ("and", "or"),
    "or3_b32": ("or", "or"),
    "xor3_b32": ("xor", "xor"),
    "lshl_or_b32": ("shl", "or"),
    "lshl_add_u32": ("shl", "add"),
    "add_lshl_u32": ("add", "shl"),
    "add3_u32": ("add", "add"),
    "xad_u32": ("xor", "add"),
    "mad_u32": ("mul", "add"),
    "min3_u32": ("min", "min"),
    "max3_u32": ("max", "max"),
}
_ONE = {"mov_b32": "copy", "not_b32": "not", "bfrev_b32": "brev", "accvgpr_read_b32": "copy"}
_ONE |= {"accvgpr_write_b32": "copy", "accvgpr_mov_b32": "copy", "accvgpr_read": "copy", "accvgpr_write": "copy"}
_COMPARE = re.compile(r"v_cmp(x?)_(eq|ne|lg|lt|le|gt|ge)_([iu])(16|32|64)$")
_ANY_COMPARE = re.compile(r"v_cmp(x?)_")
_SELECTED = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16)}
_SELECTED |= {"WORD_1": (16, 16), "DWORD": (0, 32)}
# Their second operand is a result as well: a carry, or the other of two that change places.


def lower_vector(out: Emitter, item: a.AsmLine) -> bool:
    name, given = item.name.removeprefix("v_"), item.operands
    if _ANY_COMPARE.match(item.name):
        _compare(out, item)
        return True
    if name.endswith("_sdwa"):
        name, item = name.removesuffix("_sdwa"), _with_parts(out, item)
        given = item.operands
    if not given or not isinstance(given[0], a.Registers) or item.modifier("op_sel") is not None:
        return False
    result = given[0].first
    if name in _TWO and len(given) == 3 and _is_plain(item):
        operator, signed, turned = _TWO[name]
        left, right = (out.operand(each) for each in (given[1:] if not turned else given[:0:-1]))
        if operator in ("shl", "shr"):
            right = _below_32(out, right)
        out.vector(m.Compute(result, operator, (left, right), 32, signed, 32))
    elif name in _THREE and len(given) == 4 and _is_plain(item):
        first, second = _THREE[name]
        one, two, three = (out.operand(each) for each in given[1:])
        two = _below_32(out, two) if first == "shl" else two
        three = _below_32(out, three) if second == "shl" else three
        out.vector(m.Compute(result, second, (out.compute(first, one, two), three)))
    elif name in _ONE and len(given) == 2 and _is_plain(item):
        out.vector(m.Compute(result, _ONE[name], (out.operand(given[1]),)))
    elif (handler := _HANDLERS.get(name)) is not None:
        return handler(out, item)
    else:
        return False
    return True


def _is_plain(item: a.AsmLine) -> bool:
    """Without words that change the result."""
    return not any(name in ("clamp", "op_sel", "dpp8") for name, _ in item.modifiers) and has_no_dpp(item)


def _below_32(out: Emitter, count: m.Operand) -> m.Operand:
    """A shift's count: five bits."""
    if isinstance(count, m.Constant):
        return m.Constant(count.value & 31)
    return out.compute("and", count, m.Constant(31))


def _with_parts(out: Emitter, item: a.AsmLine) -> a.AsmLine:
    """SDWA: bytes and words of sources. Another part of the result is not followed."""
    if item.modifier("dst_sel") not in (None, "DWORD"):
        return a.AsmLine("", (), (), item.text, item.at)
    operands = list(item.operands[:1])
    for place, each in enumerate(item.operands[1:]):
        part = _SELECTED.get(item.modifier(f"src{place}_sel") or "DWORD")
        if part is None or not isinstance(each, a.Registers) or len(each.names) > 1:
            operands.append(a.Symbol("?") if part is None or isinstance(each, a.Changed) else each)
        elif part == (0, 32):
            operands.append(each)
        else:
            taken = out.compute("bfe", out.operand(each), m.Constant(part[0]), m.Constant(part[1]))
            assert isinstance(taken, m.Register)
            operands.append(a.Registers((taken.name,)))
    bounds = tuple(each for each in item.modifiers if each[0] == "clamp")
    return a.AsmLine(item.name.removesuffix("_sdwa"), tuple(operands), bounds, item.text, item.at)


# --- comparisons --------------------------------------------------------------------------------------------------


def _compare(out: Emitter, item: a.AsmLine) -> None:
    """The mask is in the first operand; `v_cmpx` sets EXEC, which LLVM prints or not."""
    found = _COMPARE.match(item.name)
    is_exec = _ANY_COMPARE.match(item.name)[1] == "x"  # type: ignore[index]
    given = item.operands
    result: a.Operand = a.Registers(("exec_lo", "exec_hi")[: out.lanes // 32])
    if not is_exec or len(given) > 2:
        result, given = (
            (a.Registers(("vcc_lo", "vcc_hi")[: out.lanes // 32]), given)
            if len(given) < 3
            else (
                given[0],
                given[1:],
            )
        )
    truth = out.truth()
    if found is None or len(given) != 2 or item.name.endswith("_sdwa") or not _is_plain(item):
        out.add(m.Forget((truth,), out.operands(given), has_no_dpp(item), ""))
    else:
        _compared(out, truth, found, given)
    if not out.facts.full:
        inside = out.truth()
        out.add(m.Logic(inside, "and", (m.Register(truth), m.Register("exec"))))
        truth = inside
    name = out.mask(result)
    if isinstance(name, m.Register):
        out.set_mask(result, m.Logic(name.name, "copy", (m.Register(truth),)))
    else:
        out.forget((result,), (), uniform=False)
    if is_exec and len(item.operands) > 2:
        out.set_mask(a.Registers(("exec_lo", "exec_hi")), m.Logic("exec", "copy", (m.Register(truth),)))


def _compared(out: Emitter, truth: str, found: re.Match[str], given: tuple[a.Operand, ...]) -> None:
    operator = {"lg": "ne"}.get(found[2], found[2])
    signed, bits = found[3] == "i", int(found[4])
    left, right = out.operand(given[0]), out.operand(given[1])
    if bits != 64:
        out.add(m.Compare(truth, operator, left, right, bits, signed))
        return
    highs = out.operand(given[0], 1), out.operand(given[1], 1)
    if operator in ("eq", "ne"):
        other = out.truth()
        out.add(m.Compare(other, operator, *highs, 32, False))
        combine = "and" if operator == "eq" else "or"
        out.add(m.Compare(truth, operator, left, right, 32, False, combine, m.Register(other)))
    else:
        out.add(m.Forget((truth,), (left, right, *highs), True, ""))


# --- one by one ---------------------------------------------------------------------------------------------------


def _select(out: Emitter, item: a.AsmLine) -> bool:
    given = item.operands
    if len(given) not in (3, 4) or not isinstance(given[0], a.Registers) or not _is_plain(item):
        return False
    mask = out.mask(given[3] if len(given) == 4 else a.Registers(("vcc_lo", "vcc_hi")[: out.lanes // 32]))
    if not isinstance(mask, m.Register):
        return False
    then, otherwise = out.operand(given[2]), out.operand(given[1])
    name = mask.name
    if _is_far(then):
        name, then, otherwise = out.truth(), otherwise, then
        out.add(m.Logic(name, "not", (mask,)))
    out.vector(m.Select(given[0].first, name, then, otherwise, 32, _is_far(otherwise)))
    return True


def _is_far(given: m.Operand) -> bool:
    """Whether a number is no address of shared memory, with any offset: lanes that are masked get such a one."""
    return isinstance(given, m.Constant) and FAR <= (given.value & 0xFFFFFFFF) < (1 << 32) - FAR


def _field(out: Emitter, item: a.AsmLine) -> bool:
    result, *given = item.operands
    if len(given) != 3 or not isinstance(result, a.Registers) or not _is_plain(item):
        return False
    source, place, width = (out.operand(each) for each in given)
    triple = (source, _below_32(out, place), _below_32(out, width))
    out.vector(m.Compute(result.first, "bfe", triple, 32, item.name == "v_bfe_i32", 32))
    return True


def _insert(out: Emitter, item: a.AsmLine) -> bool:
    """`v_bfi`: the second where the first has ones, else the third."""
    result, *given = item.operands
    if len(given) != 3 or not isinstance(result, a.Registers) or not _is_plain(item):
        return False
    mask, one, other = (out.operand(each) for each in given)
    kept = out.compute("and", out.compute("not", mask), other)
    out.vector(m.Compute(result.first, "or", (out.compute("and", mask, one), kept)))
    return True


def _table(out: Emitter, item: a.AsmLine) -> bool:
    """`v_bitop3`: any function of three bits; the first has 0xf0 in its table, the last 0xaa. `v_bitop2` has no third,
    and its table speaks of 0 there."""
    result, *given = item.operands
    given = [*given, a.Immediate(0)] if item.name == "v_bitop2_b32" else given
    table = item.number("bitop3")
    if len(given) != 3 or not isinstance(result, a.Registers) or table is None or not _is_plain(item):
        return False
    bits = tuple(out.operand(each) for each in given)
    out.vector(m.Compute(result.first, "lop3", (*bits, m.Constant(table & 255))))
    return True


def _align(out: Emitter, item: a.AsmLine) -> bool:
    result, *given = item.operands
    if len(given) != 3 or not isinstance(result, a.Registers) or not isinstance(given[2], a.Immediate):
        return False
    by = given[2].value & 31
    high, low = out.operand(given[0]), out.operand(given[1])
    if by:
        low = out.compute("or", out.compute("shr", low, m.Constant(by)), out.compute("shl", high, m.Constant(32 - by)))
    out.vector(m.Compute(result.first, "copy", (low,)))
    return True


def _permute(out: Emitter, item: a.AsmLine) -> bool:
    """Bytes 0 to 3 are those of the second operand, 4 to 7 those of the first."""
    result, *given = item.operands
    if len(given) != 3 or not isinstance(result, a.Registers) or not isinstance(given[2], a.Immediate):
        return False
    chosen = [given[2].value >> 8 * place & 255 for place in range(4)]
    if any(each > 7 for each in chosen):
        return False
    table = m.Constant(sum(each << 4 * place for place, each in enumerate(chosen)))
    out.vector(m.Compute(result.first, "prmt", (out.operand(given[1]), out.operand(given[0]), table)))
    return True


def _count_bits(out: Emitter, item: a.AsmLine) -> bool:
    result, *given = item.operands
    if len(given) != 2 or not isinstance(result, a.Registers):
        return False
    out.vector(m.Compute(result.first, "add", (out.compute("popc", out.operand(given[0])), out.operand(given[1]))))
    return True


def _lanes_below(out: Emitter, item: a.AsmLine) -> bool:
    """Of a mask of ones they are the number of the lane, half by half."""
    result, *given = item.operands
    if len(given) != 2 or not isinstance(result, a.Registers) or given[0] != a.Immediate(-1):
        return False
    below = m.Given("%below_low" if "_lo_" in item.name else "%below_high")
    out.vector(m.Compute(result.first, "add", (below, out.operand(given[1]))))
    return True


def _low_24(out: Emitter, given: a.Operand, signed: bool) -> m.Operand:
    if signed:
        return out.compute("bfe", out.operand(given), m.Constant(0), m.Constant(24), signed=True)
    return out.compute("and", out.operand(given), m.Constant(0xFFFFFF))


def _multiply_24(out: Emitter, item: a.AsmLine) -> bool:
    result, *given = item.operands
    if len(given) < 2 or not isinstance(result, a.Registers) or not _is_plain(item):
        return False
    signed = "i24" in item.name
    one, other = (_low_24(out, each, signed) for each in given[:2])
    product = (one, other)
    if item.name.startswith("v_mad") and len(given) == 3:
        out.vector(m.Compute(result.first, "mad", (*product, out.operand(given[2]))))
    else:
        out.vector(m.Compute(result.first, "mul", product))
    return True


def _carried(out: Emitter, item: a.AsmLine) -> bool:
    """The sum; of the carry nothing is known."""
    given = item.operands
    if len(given) != 4 or not isinstance(given[0], a.Registers) or not _is_plain(item):
        return False
    operator = "add" if "_add_" in item.name else "sub"
    pair = given[2:] if "rev" not in item.name else given[:1:-1]
    sources = tuple(out.operand(each) for each in pair)
    name = out.fresh()
    out.add(m.Compute(name, operator, sources))
    out.forget_carry(given[1], sources)
    out.vector(m.Compute(given[0].first, "copy", (m.Register(name),)))
    return True


def _wide(out: Emitter, item: a.AsmLine) -> bool:
    """64 bits of which the lower half is computed alone."""
    given = list(item.operands)
    result = given.pop(0)
    if not isinstance(result, a.Registers) or not given or not _is_plain(item):
        return False
    name = item.name.removeprefix("v_")
    carry = given.pop(0) if name.startswith(("mad_u64", "mad_i64", "mad_co")) else None
    parts = [out.operand(each) for each in given]
    low: m.Operand = UNKNOWN
    if name.startswith("mad") and len(parts) == 3:
        low = out.compute("mad", *parts)
    elif name == "lshl_add_u64" and len(parts) == 3 and isinstance(given[1], a.Immediate) and given[1].value < 32:
        low = out.compute("add", out.compute("shl", parts[0], parts[1]), parts[2])
    elif name in ("add_nc_u64", "sub_nc_u64") and len(parts) == 2:
        low = out.compute(name[:3], *parts)
    elif name == "lshlrev_b64" and len(parts) == 2 and isinstance(given[0], a.Immediate):
        by = given[0].value & 63
        low = out.compute("shl", parts[1], m.Constant(by)) if by < 32 else m.Constant(0)
    elif name == "mov_b64" and len(parts) == 1:
        pair = [out.copied(out.operand(given[0], part)) for part in range(len(result.names))]
        for register, value in zip(result.names, pair, strict=True):
            out.vector(m.Compute(register, "copy", (value,)))
        return True
    sources = out.operands(tuple(given))
    if carry is not None:
        out.forget_carry(carry, sources)
    out.forget((result,), sources)
    out.vector(m.Compute(result.first, "copy", (low,)))
    return True


def _first_lane(out: Emitter, item: a.AsmLine) -> bool:
    result, source = item.operands[0], item.operands[1]
    if not isinstance(result, a.Registers):
        return False
    active = "" if out.facts.full else "exec"
    out.scalar(result.first, m.FromLane(result.first, out.operand(source), None, active))
    return True


def _read_lane(out: Emitter, item: a.AsmLine) -> bool:
    if len(item.operands) != 3 or not isinstance(item.operands[0], a.Registers):
        return False
    register = item.operands[0].first
    out.scalar(register, m.FromLane(register, out.operand(item.operands[1]), out.operand(item.operands[2])))
    return True


def _write_lane(out: Emitter, item: a.AsmLine) -> bool:
    """In one lane, whether active or not: `s[…]` are kept in lanes of a vector register where there are too few."""
    result, *given = item.operands
    if len(given) != 2 or not isinstance(result, a.Registers):
        return False
    chosen, truth = out.compute("and", out.operand(given[1]), m.Constant(out.lanes - 1)), out.truth()
    out.add(m.Compare(truth, "eq", m.Given("%laneid"), chosen))
    out.add(m.Select(result.first, truth, out.operand(given[0]), m.Register(result.first)))
    return True


def _swap(out: Emitter, item: a.AsmLine) -> bool:
    one, other = item.operands[:2]
    if not (isinstance(one, a.Registers) and isinstance(other, a.Registers)) or len(item.operands) != 2:
        return False
    kept = out.compute("copy", m.Register(one.first))
    out.vector(m.Compute(one.first, "copy", (m.Register(other.first),)))
    out.vector(m.Compute(other.first, "copy", (kept,)))
    return True


_HANDLERS: dict[str, Callable[[Emitter, a.AsmLine], bool]] = {
    "cndmask_b32": _select,
    "bfe_u32": _field,
    "bfe_i32": _field,
    "bfi_b32": _insert,
    "bitop3_b32": _table,
    "bitop2_b32": _table,
    "alignbit_b32": _align,
    "perm_b32": _permute,
    "bcnt_u32_b32": _count_bits,
    "mbcnt_lo_u32_b32": _lanes_below,
    "mbcnt_hi_u32_b32": _lanes_below,
    "mul_u32_u24": _multiply_24,
    "mul_i32_i24": _multiply_24,
    "mad_u32_u24": _multiply_24,
    "mad_i32_i24": _multiply_24,
    "readfirstlane_b32": _first_lane,
    "readlane_b32": _read_lane,
    "writelane_b32": _write_lane,
    "swap_b32": _swap,
}
_HANDLERS |= dict.fromkeys(("add_co_u32", "sub_co_u32", "subrev_co_u32"), _carried)
_HANDLERS |= dict.fromkeys(
    (
        "mad_u64_u32",
        "mad_i64_i32",
        "mad_co_u64_u32",
        "mad_co_i64_i32",
        "mad_nc_u64_u32",
        "lshl_add_u64",
        "lshlrev_b64",
        "add_nc_u64",
        "sub_nc_u64",
    ),
    _wide,
)
_HANDLERS["mov_b64"] = _wide
