"""Vector instructions as functions of a wave.

Needs   an instruction; the tables of `integers` and `floats`
Gives   `compile_vector`: what computes its results, and what stores them, apart: a dual instruction reads before it
        writes
Keeps   a name, modifier or operand type that is not known raises `NotUnderstood`; nothing is ignored
Cost    a few microseconds for each instruction of a wave
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracles.amdgcn_machine import permutes
from oracles.amdgcn_machine.floats import FLOATS, SUMS
from oracles.amdgcn_machine.integers import INTEGERS, bit_operation
from oracles.amdgcn_machine.operands import Operand, parse
from oracles.amdgcn_machine.text import Instruction, NotUnderstood
from oracles.amdgcn_machine.values import Read, Write, list_of, reader, write_selected, writer
from oracles.amdgcn_machine.wave import EXEC, Wave

Compute = Callable[[Wave], Any]
ENCODING = re.compile(r"_(e32|e64|dpp|dpp8|sdwa|e64_dpp|vop3)$")
OTHER_NAMES = {
    "add_nc_u32": "add_u32",
    "sub_nc_u32": "sub_u32",
    "subrev_nc_u32": "subrev_u32",
    "add_nc_u16": "add_u16",
    "sub_nc_u16": "sub_u16",
    "add_nc_u64": "add_u64",
    "sub_nc_u64": "sub_u64",
    "add_nc_i32": "add_i32",
    "sub_nc_i32": "sub_i32",
    "add_co_ci_u32": "addc_co_u32",
    "sub_co_ci_u32": "subb_co_u32",
    "subrev_co_ci_u32": "subbrev_co_u32",
    "lshlrev_b64": "lshlrev_b64",
    "cvt_pk_rtz_f16_f32": "cvt_pkrtz_f16_f32",
    "add_co_u32": "add_co_u32",
}
TABLE = {**INTEGERS, **FLOATS}
SATURATING: dict[str, tuple[str, Callable[..., Any]]] = {
    "add_u32": ("u32:u32,u32", lambda a, b: np.where(a + b < a, np.uint32(0xFFFFFFFF), a + b)),
    "sub_u32": ("u32:u32,u32", lambda a, b: np.where(b > a, np.uint32(0), a - b)),
}
COMPARE = re.compile(r"^(cmpx?)_(\w+?)_([uif]\d\d)$")
RELATIONS: dict[str, Callable[..., Any]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lg": lambda a, b: (a < b) | (a > b),
    "neq": lambda a, b: a != b,
    "nlt": lambda a, b: ~(a < b),
    "nle": lambda a, b: ~(a <= b),
    "ngt": lambda a, b: ~(a > b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
}
KNOWN = {"op_sel", "op_sel_hi", "bitop3", "clamp", "mul", "div", "neg_lo", "neg_hi"}
SDWA = {"dst_sel", "dst_unused", "src0_sel", "src1_sel"}


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector instruction: its results are computed, then stored."""

    compute: Compute
    store: Callable[[Wave, Any], None]
    written: tuple[Operand, ...]
    read: tuple[Operand, ...]


def base_name(name: str) -> str:
    """Without `v_`, `v_dual_` and the encoding; one name for what changed its name between targets."""
    base = ENCODING.sub("", name.removeprefix("v_").removeprefix("dual_"))
    base = re.sub(r"_num_(f\d\d)$", r"_\1", base)
    return OTHER_NAMES.get(base, base)


def compile_vector(one: Instruction, lanes: int, keeps_half: bool) -> Vector:
    """`keeps_half`: a result of 16 bits keeps the other half of its register (from gfx10 on)."""
    base = base_name(one.name)
    if found := COMPARE.match(base):
        return _compare(one, found, lanes)
    if base.startswith("fma_mix"):
        return _mixed(one, base)
    if base.startswith("pk_"):
        return _packed(one, base.removeprefix("pk_"))
    signature, function = _meaning(one, base)
    results, sources = (each.split(",") for each in signature.split(":"))
    operands = [parse(each) for each in one.operands]
    if len(operands) + 1 == len(results) + len(sources) and sources[-1] == "m":
        operands.append(parse("vcc" if lanes == 64 else "vcc_lo"))
    if base in SUMS or (base.startswith("fmac") and len(operands) == 3):
        operands.append(operands[0])
    if len(operands) != len(results) + len(sources):
        raise NotUnderstood(f"line {one.line}: `{one.text}` has {len(operands)} operands")
    to, of = tuple(operands[: len(results)]), tuple(operands[len(results) :])
    reads = _readers(one, of, sources, lanes)
    return Vector(_apply(one, function, reads, results), _storing(one, to, results, lanes, keeps_half), to, of)


def _meaning(one: Instruction, base: str) -> tuple[str, Callable[..., Any]]:
    if base.startswith(("bitop3_b", "bitop2_b")):
        kind = "u" + base[-2:]
        count = int(base[5])
        table = bit_operation(int(one.modifiers["bitop3"], 0))
        if count == 2:
            return f"{kind}:{kind},{kind}", lambda a, b: table(a, b, a & ~a)
        return f"{kind}:{kind},{kind},{kind}", table
    if base in SUMS:
        return SUMS[base]
    if base in ("fmamk_f32", "fmaak_f32", "madak_f32", "madmk_f32"):
        mul, add = FLOATS["fma_f32"]
        return (mul, add) if base.endswith("ak_f32") else (mul, lambda a, k, b: add(a, k, b))
    if "clamp" in one.modifiers and base in SATURATING:
        return SATURATING[base]
    if base not in TABLE:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: the machine has no instruction `{one.name}`")
    return TABLE[base]


def _apply(one: Instruction, function: Callable[..., Any], reads: list[Read], results: list[str]) -> Compute:
    """The function on its operands, then what the instruction does to its result."""
    unknown = one.modifiers.keys() - KNOWN - SDWA - permutes.MODIFIERS
    if unknown:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: modifier `{sorted(unknown)[0]}`")
    if "clamp" in one.modifiers or "mul" in one.modifiers or "div" in one.modifiers:
        if base_name(one.name) in SATURATING:
            return _apply(replace(one, modifiers={}), function, reads, results)
        if not results[0].startswith("f"):
            raise NotUnderstood(f"line {one.line}: `{one.text}`: clamp of an integer")
        function = _scaled(function, one.modifiers)
    if len(reads) == 1:
        first = reads[0]
        return lambda wave: function(first(wave))
    if len(reads) == 2:
        first, second = reads
        return lambda wave: function(first(wave), second(wave))
    return lambda wave: function(*[read(wave) for read in reads])


def _scaled(function: Callable[..., Any], modifiers: dict[str, str]) -> Callable[..., Any]:
    factor = float(modifiers.get("mul", 1)) / float(modifiers.get("div", 1))
    is_clamped = "clamp" in modifiers

    def compute(*values: Any) -> Any:
        value = function(*values)
        value = value * np.asarray(value).dtype.type(factor)
        return np.clip(np.nan_to_num(value, nan=0.0), 0, 1) if is_clamped else value

    return compute


def _readers(one: Instruction, operands: tuple[Operand, ...], kinds: list[str], lanes: int) -> list[Read]:
    halves = list_of(one.modifiers.get("op_sel", ""))
    permute = permutes.lanes_of(one.modifiers, lanes)
    found = []
    for number, (operand, kind) in enumerate(zip(operands, kinds, strict=True)):
        select = one.modifiers.get(f"src{number}_sel", "")
        move = permute.move if permute and number == 0 else None
        high = number < len(halves) and bool(halves[number]) and kind != "m"
        if high and not kind.endswith("16"):
            raise NotUnderstood(f"line {one.line}: `{one.text}`: op_sel of an operand with {kind}")
        found.append(reader(operand, kind, move, select, high))
    return found


def _storing(
    one: Instruction, to: tuple[Operand, ...], kinds: list[str], lanes: int, keeps: bool
) -> Callable[[Wave, Any], None]:
    halves = list_of(one.modifiers.get("op_sel", ""))
    high = len(halves) > len(one.operands) - 1 and bool(halves[-1])
    if "dst_sel" in one.modifiers and (one.modifiers["dst_sel"] != "DWORD" or kinds[0].endswith("16")):
        kept = one.modifiers.get("dst_unused") == "UNUSED_PRESERVE"
        select = one.modifiers["dst_sel"]
        writes = [write_selected(to[0], kinds[0], select, kept)]
    else:
        writes = [writer(each, kind, keeps, high) for each, kind in zip(to, kinds, strict=True)]
    permute = permutes.lanes_of(one.modifiers, lanes)
    store = writes[0] if len(writes) == 1 else _several(writes)
    return permute.guarded(store) if permute else store


def _several(writes: list[Write]) -> Callable[[Wave, Any], None]:
    def store(wave: Wave, values: Any) -> None:
        for write, value in zip(writes, values, strict=True):
            write(wave, value)

    return store


# --- comparisons --------------------------------------------------------------------------------------------------


def _compare(one: Instruction, found: re.Match, lanes: int) -> Vector:
    kind, relation, type_ = found.groups()
    operands = tuple(parse(each) for each in one.operands)
    to, of = operands[:-2], operands[-2:]
    if relation == "class":
        raise NotUnderstood(f"line {one.line}: `{one.text}`: the machine has no instruction `{one.name}`")
    if relation not in RELATIONS:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: relation `{relation}`")
    compute = _apply(one, RELATIONS[relation], _readers(one, of, [type_, type_], lanes), ["m"])
    places = [each.scalar for each in to] + ([EXEC] if kind == "cmpx" else [])

    def store(wave: Wave, value: Any) -> None:
        mask = np.broadcast_to(value, wave.lanes) & wave.mask
        for at in places:
            wave.put_mask(at, mask)

    return Vector(compute, store, to, of)


# --- several numbers in a register --------------------------------------------------------------------------------


def _mixed(one: Instruction, base: str) -> Vector:
    """v_fma_mix: operands are f32, or a half of a register as f16."""
    to, *of = [parse(each) for each in one.operands]
    halves = list_of(one.modifiers.get("op_sel", "[0,0,0]"))
    are_short = list_of(one.modifiers.get("op_sel_hi", "[0,0,0]"))
    kinds = ["f16" if each else "f32" for each in are_short]
    pairs = zip(of, kinds, halves, strict=True)
    reads = [reader(each, kind, high=bool(half) and kind == "f16") for each, kind, half in pairs]
    kind = "f32" if base == "fma_mix_f32" else "f16"
    dtype = np.float32 if kind == "f32" else np.float16

    def compute(a: Any, b: Any, c: Any) -> Any:
        return (np.asarray(a).astype(np.float64) * b + c).astype(np.float32).astype(dtype)

    plain = Instruction(one.name, one.operands, {k: v for k, v in one.modifiers.items() if k == "clamp"}, one.line, "")
    store = writer(to, kind, keeps_other_half=True, high=base == "fma_mixhi_f16")
    return Vector(_apply(plain, compute, reads, [kind]), store, (to,), tuple(of))


def _packed(one: Instruction, base: str) -> Vector:
    to, *of = [parse(each) for each in one.operands]
    if base == "fmac_f16":
        base, of = "fma_f16", [*of, to]
    unknown = one.modifiers.keys() - {"op_sel", "op_sel_hi", "neg_lo", "neg_hi"}
    base = {"lshl_add_u32": "?"}.get(base_name("v_" + base), base_name("v_" + base))
    if unknown or base not in TABLE or ":" not in TABLE[base][0]:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: the machine has no instruction `{one.name}`")
    signature, function = TABLE[base]
    kinds = signature.split(":")[1].split(",")
    kind = signature.split(":")[0]
    low = list_of(one.modifiers.get("op_sel", ""))
    high = list_of(one.modifiers.get("op_sel_hi", "")) or [1] * len(of)
    if base == "mov_b32":
        first, second = _part(of[0], "u32", (low or [0, 0])[0]), _part(of[1], "u32", (low or [0, 1])[1])
        return _pair_of(to, of, "u32", first, second)
    signs = [list_of(one.modifiers.get(each, "")) or [0] * len(of) for each in ("neg_lo", "neg_hi")]
    computes = []
    for selected, sign in zip((low or [0] * len(of), high), signs, strict=True):
        parts = zip(of, kinds, selected, sign, strict=True)
        reads = [_negated(_part(each, each_kind, part), bool(minus)) for each, each_kind, part, minus in parts]
        computes.append(_apply(Instruction(one.name, (), {}, one.line, one.text), function, reads, [kind]))
    return _pair_of(to, of, kind, *computes)


def _part(operand: Operand, kind: str, part: int) -> Read:
    """The lower or upper part of a pair: of 16 bits in a register, of 32 bits in two."""
    if operand.at < 0:
        return reader(operand, kind)
    if kind.endswith("16"):
        return reader(operand, kind, high=bool(part))
    at = operand.at + (part if operand.words == 2 else 0)
    return reader(Operand(operand.text, at, 1), kind)


def _negated(read: Read, is_negated: bool) -> Read:
    return (lambda wave: -read(wave)) if is_negated else read


def _pair_of(to: Operand, of: list[Operand], kind: str, low: Compute, high: Compute) -> Vector:
    if kind.endswith("16"):

        def store(wave: Wave, value: Any) -> None:
            first, second = (np.asarray(each).view(np.uint16).astype(np.uint32) for each in value)
            wave.put(to.at, first | second << np.uint32(16))

    else:

        def store(wave: Wave, value: Any) -> None:
            for number, each in enumerate(value):
                wave.put(to.at + number, np.asarray(each).view(np.uint32))

    return Vector(lambda wave: (np.copy(low(wave)), np.copy(high(wave))), store, (to,), tuple(of))
