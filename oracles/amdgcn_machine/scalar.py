"""Scalar instructions as functions of a wave.

Needs   an instruction
Gives   `compile_scalar`: the function, and the operands written and read; None where the name is of another kind
Keeps   numbers are unsigned within their width; SCC is set as the ISA documents say, else it keeps its value
Cost    a microsecond

Source: AMD's ISA documents (CDNA 3 §12.1-12.5, RDNA 4 §16.1-16.5), "Scalar ALU instructions".
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

from oracles.amdgcn_machine.operands import Operand, bits_of, parse
from oracles.amdgcn_machine.text import Instruction, NotUnderstood
from oracles.amdgcn_machine.wave import EXEC, SCALARS, SCC, Wave

Run = Callable[[Wave], None]
Value = tuple[int, int | None]  # the result, and SCC where it is set
M32, M64 = 0xFFFFFFFF, (1 << 64) - 1


def signed(value: int, width: int = 32) -> int:
    return value - (1 << width) if value >> width - 1 & 1 else value


def _nonzero(value: int) -> Value:
    return value, int(value != 0)


def _add(a: int, b: int) -> Value:
    return a + b & M32, a + b >> 32


def _sub(a: int, b: int) -> Value:
    return a - b & M32, int(b > a)


def _add_signed(a: int, b: int) -> Value:
    total = signed(a) + signed(b)
    return total & M32, int(not -(1 << 31) <= total < 1 << 31)


def _sub_signed(a: int, b: int) -> Value:
    total = signed(a) - signed(b)
    return total & M32, int(not -(1 << 31) <= total < 1 << 31)


def _field(value: int, control: int, is_signed: bool, width: int) -> Value:
    offset, size = control & width - 1, control >> 16 & 0x7F
    found = value >> offset & (1 << size) - 1
    if is_signed and size and found >> size - 1 & 1:
        found |= -1 << size
    found &= (1 << width) - 1
    return _nonzero(found)


def _first_high(value: int) -> Value:
    return (32 - value.bit_length() if value else M32), None


def _first_low(value: int) -> Value:
    return ((value & -value).bit_length() - 1 if value else M32), None


def _reverse(value: int, width: int) -> Value:
    return int(f"{value:0{width}b}"[::-1], 2), None


def _shift_add(count: int) -> Callable[[int, int], Value]:
    return lambda a, b: ((a << count) + b & M32, int((a << count) + b > M32))


def f32(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def to_bits(value: float) -> int:
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def _float(function: Callable[[float, float], float]) -> Callable[[int, int], Value]:
    return lambda a, b: (to_bits(function(f32(a), f32(b))), None)


def _to_int(bits: int, low: int, high: int) -> Value:
    value = f32(bits)
    return (0 if math.isnan(value) else int(min(max(value, low), high))) & M32, None


def _logic(width: int) -> dict[str, tuple[str, Callable[..., Value]]]:
    mask, b = (1 << width) - 1, f"b{width}"
    kind = f"{width}:{width},{width}"
    return {
        f"and_{b}": (kind, lambda a, c: _nonzero(a & c)),
        f"or_{b}": (kind, lambda a, c: _nonzero(a | c)),
        f"xor_{b}": (kind, lambda a, c: _nonzero(a ^ c)),
        f"andn2_{b}": (kind, lambda a, c: _nonzero(a & ~c & mask)),
        f"and_not1_{b}": (kind, lambda a, c: _nonzero(a & ~c & mask)),
        f"orn2_{b}": (kind, lambda a, c: _nonzero((a | ~c) & mask)),
        f"or_not1_{b}": (kind, lambda a, c: _nonzero((a | ~c) & mask)),
        f"nand_{b}": (kind, lambda a, c: _nonzero(~(a & c) & mask)),
        f"nor_{b}": (kind, lambda a, c: _nonzero(~(a | c) & mask)),
        f"xnor_{b}": (kind, lambda a, c: _nonzero(~(a ^ c) & mask)),
        f"not_{b}": (f"{width}:{width}", lambda a: _nonzero(~a & mask)),
        f"mov_{b}": (f"{width}:{width}", lambda a: (a, None)),
        f"wqm_{b}": (f"{width}:{width}", lambda a: _whole_quads(a, width)),
        f"brev_{b}": (f"{width}:{width}", lambda a: _reverse(a, width)),
        f"lshl_{b}": (f"{width}:{width},32", lambda a, c: _nonzero(a << c % width & mask)),
        f"lshr_{b}": (f"{width}:{width},32", lambda a, c: _nonzero(a >> c % width)),
        f"ashr_i{width}": (f"{width}:{width},32", lambda a, c: _nonzero(signed(a, width) >> c % width & mask)),
        f"bfe_u{width}": (f"{width}:{width},32", lambda a, c: _field(a, c, False, width)),
        f"bfe_i{width}": (f"{width}:{width},32", lambda a, c: _field(a, c, True, width)),
        f"bfm_{b}": (f"{width}:32,32", lambda a, c: (((1 << a % width) - 1) << c % width & mask, None)),
        f"bcnt1_i32_{b}": (f"32:{width}", lambda a: _nonzero(a.bit_count())),
        f"bcnt0_i32_{b}": (f"32:{width}", lambda a: _nonzero(width - a.bit_count())),
        f"ff1_i32_{b}": (f"32:{width}", _first_low),
        f"ctz_i32_{b}": (f"32:{width}", _first_low),
    }


def _whole_quads(value: int, width: int) -> Value:
    found = 0
    for quad in range(0, width, 4):
        if value >> quad & 15:
            found |= 15 << quad
    return _nonzero(found)


B2 = "32:32,32"
OPERATIONS: dict[str, tuple[str, Callable[..., Value]]] = {
    **_logic(32),
    **_logic(64),
    "movk_i32": ("32:32", lambda a: (signed(a & 0xFFFF, 16) & M32, None)),
    "add_u32": (B2, _add),
    "sub_u32": (B2, _sub),
    "add_i32": (B2, _add_signed),
    "sub_i32": (B2, _sub_signed),
    "mul_i32": (B2, lambda a, b: (a * b & M32, None)),
    "mul_hi_u32": (B2, lambda a, b: (a * b >> 32, None)),
    "mul_hi_i32": (B2, lambda a, b: (signed(a) * signed(b) >> 32 & M32, None)),
    "add_u64": ("64:64,64", lambda a, b: (a + b & M64, None)),
    "sub_u64": ("64:64,64", lambda a, b: (a - b & M64, None)),
    "mul_u64": ("64:64,64", lambda a, b: (a * b & M64, None)),
    "min_u32": (B2, lambda a, b: (min(a, b), int(a < b))),
    "max_u32": (B2, lambda a, b: (max(a, b), int(a >= b))),
    "min_i32": (B2, lambda a, b: (min(signed(a), signed(b)) & M32, int(signed(a) < signed(b)))),
    "max_i32": (B2, lambda a, b: (max(signed(a), signed(b)) & M32, int(signed(a) >= signed(b)))),
    "abs_i32": ("32:32", lambda a: _nonzero(abs(signed(a)))),
    "sext_i32_i16": ("32:32", lambda a: (signed(a & 0xFFFF, 16) & M32, None)),
    "sext_i32_i8": ("32:32", lambda a: (signed(a & 0xFF, 8) & M32, None)),
    "flbit_i32_b32": ("32:32", _first_high),
    "clz_i32_u32": ("32:32", _first_high),
    "lshl1_add_u32": (B2, _shift_add(1)),
    "lshl2_add_u32": (B2, _shift_add(2)),
    "lshl3_add_u32": (B2, _shift_add(3)),
    "lshl4_add_u32": (B2, _shift_add(4)),
    "pack_ll_b32_b16": (B2, lambda a, b: (a & 0xFFFF | (b & 0xFFFF) << 16, None)),
    "pack_lh_b32_b16": (B2, lambda a, b: (a & 0xFFFF | b & 0xFFFF0000, None)),
    "pack_hh_b32_b16": (B2, lambda a, b: (a >> 16 | b & 0xFFFF0000, None)),
    "pack_hl_b32_b16": (B2, lambda a, b: (a >> 16 | (b & 0xFFFF) << 16, None)),
    "add_f32": (B2, _float(lambda a, b: a + b)),
    "sub_f32": (B2, _float(lambda a, b: a - b)),
    "mul_f32": (B2, _float(lambda a, b: a * b)),
    "max_f32": (B2, _float(max)),
    "min_f32": (B2, _float(min)),
    "fmac_f32": ("32:32,32,32", lambda a, b, c: (to_bits(f32(a) * f32(b) + f32(c)), None)),
    "fmamk_f32": ("32:32,32,32", lambda a, k, c: (to_bits(f32(a) * f32(k) + f32(c)), None)),
    "fmaak_f32": ("32:32,32,32", lambda a, b, k: (to_bits(f32(a) * f32(b) + f32(k)), None)),
    "cvt_f32_u32": ("32:32", lambda a: (to_bits(float(a)), None)),
    "cvt_f32_i32": ("32:32", lambda a: (to_bits(float(signed(a))), None)),
    "cvt_u32_f32": ("32:32", lambda a: _to_int(a, 0, M32)),
    "cvt_i32_f32": ("32:32", lambda a: _to_int(a, -(1 << 31), (1 << 31) - 1)),
}
RENAMED = (("add_nc_u64", "add_u64"), ("sub_nc_u64", "sub_u64"), ("_num_f32", "_f32"), ("_co_", "_"))
INTO_ITSELF = ("addk_i32", "mulk_i32", "addk_co_i32")
RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "neq": lambda a, b: a != b,
    "nlt": lambda a, b: not a < b,
    "nle": lambda a, b: not a <= b,
    "ngt": lambda a, b: not a > b,
    "nge": lambda a, b: not a >= b,
}
COMPARE = re.compile(r"^s_cmp(k?)_(\w+?)_([iuf])(32|64)$")
SAVE = re.compile(r"^s_(and|or|xor|andn2|and_not1|orn2|or_not1|and_not0|or_not0)_saveexec_b(32|64)$")


def compile_scalar(one: Instruction) -> tuple[Run, list[Operand]] | None:
    """What the instruction does, and its operands, the written one first."""
    name = one.name.removeprefix("s_")
    for old, new in RENAMED:
        name = name.replace(old, new)
    operands = [parse(each) for each in one.operands]
    if found := COMPARE.match(one.name):
        return _compare(found, operands), operands
    if found := SAVE.match(one.name):
        return _save_exec(one, found, operands), operands
    special = {
        "cselect_b32": _select,
        "cselect_b64": _select,
        "cmov_b32": _move_if,
        "cmovk_i32": _move_if,
        "bitcmp0_b32": _test_bit,
        "bitcmp1_b32": _test_bit,
        "bitset0_b32": _set_bit,
        "bitset1_b32": _set_bit,
        "addc_u32": _add_with_carry,
        "add_ci_u32": _add_with_carry,
        "subb_u32": _subtract_with_borrow,
        "sub_ci_u32": _subtract_with_borrow,
    }
    if name in special:
        return special[name](name, operands), operands
    if name in INTO_ITSELF or one.name in ("s_addk_co_i32",):
        kind, given = "mul_i32" if name.startswith("mul") else "add_i32", [operands[0], operands[0], operands[1]]
        return _plain(*OPERATIONS[kind], given, is_short=True), operands
    if name not in OPERATIONS:
        return None
    if name == "fmac_f32":
        operands.append(operands[0])
    return _plain(*OPERATIONS[name], operands), operands


def read_scalar(operand: Operand, width: int = 32) -> Callable[[Wave], int]:
    """A scalar operand of 32 or 64 bits as a number."""
    if operand.at < 0:
        number = bits_of(operand.constant, f"u{width}")
        return lambda wave: number
    if operand.at == SCC:
        return lambda wave: wave.scc
    at = operand.at - SCALARS
    if not operand.is_scalar:
        raise NotUnderstood(f"`{operand.text}` where a scalar is expected")
    if width == 64 and operand.words == 2:
        return lambda wave: wave.s[at] | wave.s[at + 1] << 32
    return lambda wave: wave.s[at]


def _plain(kind: str, function: Callable[..., Value], operands: list[Operand], is_short: bool = False) -> Run:
    to, of = kind.split(":")
    at, words = operands[0].scalar, int(to) // 32
    reads = [read_scalar(each, int(width)) for each, width in zip(operands[1:], of.split(","), strict=True)]
    if is_short:
        last = reads[-1]
        reads[-1] = lambda wave: signed(last(wave) & 0xFFFF, 16) & M32

    def run(wave: Wave) -> None:
        value, scc = function(*[read(wave) for read in reads])
        wave.put_scalar(at, value, words)
        if scc is not None:
            wave.scc = scc

    return run


def _compare(found: re.Match, operands: list[Operand]) -> Run:
    is_short, relation, kind, width = found.groups()
    test = RELATIONS[relation]
    first, second = (read_scalar(each, int(width)) for each in operands)
    bits = int(width)

    def value(number: int, is_second: bool) -> float:
        if kind == "f":
            return f32(number)
        if is_second and is_short:
            number = number & 0xFFFF if kind == "u" else signed(number & 0xFFFF, 16) & M32
        return signed(number, bits) if kind == "i" else number

    def run(wave: Wave) -> None:
        wave.scc = int(test(value(first(wave), False), value(second(wave), True)))

    return run


def _save_exec(one: Instruction, found: re.Match, operands: list[Operand]) -> Run:
    kind, width = found[1], int(found[2])
    to, read = operands[0].scalar, read_scalar(operands[1], int(found[2]))
    mask = (1 << width) - 1
    combine: dict[str, Callable[[int, int], int]] = {
        "and": lambda a, e: a & e,
        "or": lambda a, e: a | e,
        "xor": lambda a, e: a ^ e,
        "andn2": lambda a, e: a & ~e & mask,
        "and_not1": lambda a, e: a & ~e & mask,
        "orn2": lambda a, e: (a | ~e) & mask,
        "or_not1": lambda a, e: (a | ~e) & mask,
        "and_not0": lambda a, e: ~a & e & mask,
        "or_not0": lambda a, e: (~a | e) & mask,
    }
    function = combine[kind]

    def run(wave: Wave) -> None:
        before = wave.exec()
        value = function(read(wave), before)
        wave.put_scalar(to, before, width // 32)
        wave.put_scalar(EXEC, value, width // 32)
        wave.scc = int(value != 0)

    return run


def _select(name: str, operands: list[Operand]) -> Run:
    width = int(name[-2:])
    at, first, second = operands[0].scalar, read_scalar(operands[1], width), read_scalar(operands[2], width)
    return lambda wave: wave.put_scalar(at, first(wave) if wave.scc else second(wave), width // 32)


def _move_if(name: str, operands: list[Operand]) -> Run:
    at, read = operands[0].scalar, read_scalar(operands[1])

    def run(wave: Wave) -> None:
        if wave.scc:
            wave.put_scalar(at, read(wave))

    return run


def _test_bit(name: str, operands: list[Operand]) -> Run:
    value, place = (read_scalar(each) for each in operands)
    wanted = int(name[6])

    def run(wave: Wave) -> None:
        wave.scc = int(value(wave) >> place(wave) % 32 & 1 == wanted)

    return run


def _set_bit(name: str, operands: list[Operand]) -> Run:
    at, place = operands[0].scalar, read_scalar(operands[1])
    wanted = int(name[6])

    def run(wave: Wave) -> None:
        bit = 1 << place(wave) % 32
        wave.put_scalar(at, wave.s[at] | bit if wanted else wave.s[at] & ~bit)

    return run


def _add_with_carry(name: str, operands: list[Operand]) -> Run:
    at, first, second = operands[0].scalar, read_scalar(operands[1]), read_scalar(operands[2])

    def run(wave: Wave) -> None:
        total = first(wave) + second(wave) + wave.scc
        wave.put_scalar(at, total & M32)
        wave.scc = total >> 32

    return run


def _subtract_with_borrow(name: str, operands: list[Operand]) -> Run:
    at, first, second = operands[0].scalar, read_scalar(operands[1]), read_scalar(operands[2])

    def run(wave: Wave) -> None:
        total = first(wave) - second(wave) - wave.scc
        wave.put_scalar(at, total & M32)
        wave.scc = int(total < 0)

    return run
