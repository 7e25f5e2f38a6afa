"""Integer arithmetic, comparisons and selections of PTX.

Needs   an instruction and the lowering that it belongs to
Gives   operations; False where the instruction is none of these
Keeps   an instruction on floating-point numbers, or with carries or saturation, forgets its results
Cost    constant

Sections of the PTX ISA 9.0: 9.7.1 (integers), 9.7.6 (comparison), 9.7.8 (logic and shifts), 9.7.9 (moves).
"""

from __future__ import annotations

from tidegate.hosts.isa import model as m
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.lowering import Lowering
from tidegate.hosts.ptx.types import Type, types_in

_PLAIN = {"add", "sub", "min", "max", "div", "rem", "and", "or", "xor", "shl", "shr", "not", "neg", "abs", "bfe", "bfi"}
_PLAIN |= {"popc", "clz", "brev", "lop3", "prmt"}
# How many operands stand behind the result.
_OPERANDS = {"not": 1, "neg": 1, "abs": 1, "popc": 1, "clz": 1, "brev": 1, "cvt": 1, "cvta": 1, "mad": 3, "bfe": 3}
_OPERANDS |= {"selp": 3, "prmt": 3, "lop3": 4, "bfi": 4}
# Results that nobody computes; they depend on their operands alone.
FORGOTTEN = frozenset(
    "fma sqrt rcp rsqrt sin cos lg2 ex2 tanh copysign testp set slct sad dp4a dp2a bfind fns szext bmsk shf cnot "
    "mul24 mad24 vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 "
    "vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4 "
    "tex tld4 txq suld suq istypep isspacep createpolicy alloca stacksave".split()
)
# Their results depend on other lanes, on the moment, or on the carry that another instruction leaves.
_OF_OTHERS = frozenset("shfl vote match redux activemask elect mma movmatrix addc subc madc".split())
_INTEGER = _PLAIN | {"mul", "mad", "selp", "cvt"}
ARITHMETIC = _INTEGER | _OF_OTHERS | {"setp", "mov", "cvta"}
_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def lower_arithmetic(out: Lowering, item: p.Instruction) -> bool:
    opcode, words = item.opcode, item.modifiers
    types = types_in(words)
    if opcode in _OF_OTHERS:
        return _of_others(out, item)
    if "pred" in words:
        return _logic(out, item)
    if opcode == "mov" and len(words) != 1:
        out.forget(item, has_address=False)
        return True
    if opcode == "setp":
        return _compare(out, item, types)
    if opcode == "mov":
        return _move(out, item)
    if opcode == "cvta":
        return _convert_address(out, item, types)
    if not types:
        return False
    whole = len(item.operands) == 1 + _OPERANDS.get(opcode, 2)
    if opcode not in _INTEGER:
        return False
    # A word that is not known here changes the result: `.sat`, `.relu`, `.cc`, a rounding, or what comes next.
    known = _widths(opcode) | {each.name for each in types}
    integer = whole and all(each.is_integer for each in types) and known.issuperset(words)
    result = out.results(item)
    if not integer or len(result) != 1 or (opcode == "prmt" and len(types) + len(words) != 2):
        out.forget(item, has_address=False)
        return True
    given = tuple(out.operand(each) for each in item.operands[1:])
    return _integer(out, item, result[0], given, types)


def _widths(opcode: str) -> set[str]:
    """Which bits of a product are kept."""
    return {"lo", "hi", "wide"} if opcode in ("mul", "mad") else set()


def _integer(out: Lowering, item: p.Instruction, result: str, given: tuple[m.Operand, ...], types: list[Type]) -> bool:
    opcode, words, kind = item.opcode, item.modifiers, types[0]
    bits, signed = kind.bits, kind.signed
    action: m.Action
    if opcode == "cvt":
        source = types[1] if len(types) > 1 else kind
        narrow = min(source.bits, bits)
        # Where bits are cut off first, the sign is that of what is left, 9.7.9.21.
        sign = source.signed if bits >= source.bits else kind.signed
        way = "cut" if bits < source.bits == 64 else "copy"
        width = 64 if bits == 64 else 16 if bits == narrow == 16 else 32
        action = m.Compute(result, way, given, width, sign, narrow)
    elif opcode == "selp":
        predicate = item.operands[3] if len(item.operands) > 3 else None
        if not isinstance(predicate, p.Name):
            return False
        action = m.Select(result, predicate.name, given[0], given[1], bits)
    elif opcode in ("mul", "mad"):
        way = "wide" if "wide" in words else "hi" if "hi" in words else "lo"
        name = {"lo": opcode, "wide": f"{opcode}wide", "hi": f"{opcode}hi"}[way]
        if name == "madhi":
            out.forget(item, has_address=False)
            return True
        action = m.Compute(result, name, given, 2 * bits if way == "wide" else bits, signed, bits)
    else:
        if opcode in ("shl", "shr", "and", "or", "xor", "not", "lop3", "prmt", "bfi") and bits < 16:
            return False
        width = 32 if opcode in ("popc", "clz") else bits
        action = m.Compute(result, opcode, given, width, signed, bits)
    out.guarded(action)
    return True


def _compare(out: Lowering, item: p.Instruction, types: list[Type]) -> bool:
    """`setp.lt.and.s32 p|q, a, b, !c`, 9.7.6.2."""
    words = item.modifiers
    results = out.results(item)
    if not types or not types[0].is_integer or not words or len(item.operands) < 3:
        out.forget(item, has_address=False)
        return True
    name, kind = words[0], types[0]
    operator = _COMPARISONS.get(name) or _UNSIGNED.get(name)
    combine = next((each for each in words[1:] if each in ("and", "or", "xor")), "")
    first = item.operands[0]
    result = first.first if isinstance(first, p.Pair) else first
    # `.ftz`, or a word that is not known here, changes the result.
    if operator is None or not isinstance(result, p.Name) or set(words) - {name, combine, kind.name}:
        out.forget(item, has_address=False)
        return True
    if isinstance(first, p.Pair):
        out.guarded(m.Forget(results, out.sources(item)))
    other, negated = None, False
    if combine and len(item.operands) > 3:
        last = item.operands[3]
        negated = isinstance(last, p.Negated)
        inner = last.operand if isinstance(last, p.Negated) else last
        if not isinstance(inner, p.Name):
            out.forget(item, has_address=False)
            return True
        other = m.Register(inner.name)
    if result.name == "_":
        return True
    signed = kind.signed and name not in _UNSIGNED
    left, right = out.operand(item.operands[1]), out.operand(item.operands[2])
    out.guarded(m.Compare(result.name, operator, left, right, kind.bits, signed, combine, other, negated))
    return True


def _logic(out: Lowering, item: p.Instruction) -> bool:
    results = out.results(item)
    operator = {"mov": "copy", "not": "not", "and": "and", "or": "or", "xor": "xor"}.get(item.opcode)
    wanted = 1 if operator in ("copy", "not") else 2
    if operator is None or len(results) != 1 or len(item.operands) != 1 + wanted or item.modifiers != ("pred",):
        out.forget(item, has_address=False)
        return True
    given: list[m.Operand] = []
    for each in item.operands[1:]:
        if isinstance(each, p.Negated):
            out.forget(item, has_address=False)
            return True
        given.append(out.operand(each))
    out.guarded(m.Logic(results[0], operator, tuple(given)))
    return True


def _move(out: Lowering, item: p.Instruction) -> bool:
    """Moves, and those that join or divide registers, 9.7.9.4."""
    if len(item.operands) != 2:
        return False
    target, source = item.operands
    kinds = types_in(item.modifiers)
    bits = kinds[0].bits if kinds else 32
    if isinstance(target, p.Vector):
        return _divide(out, item, target, source, bits)
    results = out.results(item)
    if isinstance(source, p.Vector):
        return _join(out, item, results, source, bits)
    # The bits of a fraction in the type of another width are its own number's there.
    other = isinstance(source, p.Number) and source.fraction not in (0, bits)
    if len(results) != 1 or bits > 64 or other:
        out.forget(item, has_address=False)
        return True
    if isinstance(source, p.Name) and source.name not in out.registers and source.name in out.params:
        out.guarded(m.Forget(results, (), True))  # where a kernel's parameter lies: one place for all threads
        return True
    wide = bits if bits in (16, 64) else 32
    if wide == 64 and isinstance(source, p.Name | p.Address):
        base = source.base if isinstance(source, p.Address) else source
        # An address of shared memory in 64 bits is on its way to be a generic one.
        out.has_generic |= isinstance(base, p.Name) and base.name in out.arrays
    out.guarded(m.Compute(results[0], "copy", (out.operand(source),), wide, False, bits))
    return True


def _divide(out: Lowering, item: p.Instruction, target: p.Vector, source: p.Operand, bits: int) -> bool:
    part = bits // max(1, len(target.items))
    if bits > 64 or part not in (16, 32):
        out.forget(item, has_address=False)
        return True
    given = out.operand(source)
    for place, each in enumerate(target.items):
        if isinstance(each, p.Name) and each.name in out.registers:
            moved = out.fresh(wide=True)
            out.guarded(m.Compute(moved, "shr", (given, m.Constant(place * part)), bits, False, bits))
            out.guarded(m.Compute(each.name, "cut", (m.Register(moved),), 32, False, part))
    return True


def _join(out: Lowering, item: p.Instruction, results: tuple[str, ...], source: p.Vector, bits: int) -> bool:
    part = bits // max(1, len(source.items))
    if bits > 64 or part not in (16, 32) or len(results) != 1:
        out.forget(item, has_address=False)
        return True
    found: m.Operand = m.Constant(0)
    for place, each in enumerate(source.items):
        plain, moved, both = out.fresh(wide=True), out.fresh(wide=True), out.fresh(wide=True)
        out.guarded(m.Compute(plain, "copy", (out.operand(each),), 64, False, part))
        out.guarded(m.Compute(moved, "shl", (m.Register(plain), m.Constant(place * part)), 64, False, 64))
        out.guarded(m.Compute(both, "or", (found, m.Register(moved)), 64, False, 64))
        found = m.Register(both)
    out.guarded(m.Compute(results[0], "copy" if bits == 64 else "cut", (found,), 64 if bits == 64 else 32, False, bits))
    return True


def _convert_address(out: Lowering, item: p.Instruction, types: list[Type]) -> bool:
    """`cvta`, 9.7.9.20: an address keeps what it is an address of."""
    results = out.results(item)
    if len(results) != 1 or not types or len(item.operands) < 2:
        return False
    if "to" not in item.modifiers and any(each.startswith("shared") for each in item.modifiers):
        out.has_generic = True
    out.guarded(m.Compute(results[0], "copy", (out.operand(item.operands[1]),), types[0].bits, False, types[0].bits))
    return True


def _of_others(out: Lowering, item: p.Instruction) -> bool:
    """`shfl.sync.idx` from one lane of the whole wave is followed: it is how programs find their wave's number."""
    first = item.operands[0] if item.operands else None
    if item.opcode == "shfl" and "idx" in item.modifiers and len(item.operands) >= 4:
        result = first.first if isinstance(first, p.Pair) else first
        if isinstance(result, p.Name) and result.name in out.registers:
            if others := tuple(each for each in out.results(item) if each != result.name):
                out.guarded(m.Forget(others, (), False))
            lanes = item.operands[4:5] if "sync" in item.modifiers else (p.Number(0xFFFFFFFF),)  # all that are there
            given = tuple(out.operand(each) for each in (*item.operands[1:4], *(lanes or (p.Name("?"),))))
            out.guarded(m.Compute(result.name, "shuffle", given, 32, False, 32))
            return True
    results = out.results(item)
    if results:
        # What depends on which lanes happen to be there is another thing in each wave; what a lane gets that carries
        # this out without being named is not defined (PTX ISA 9.0, `shfl.sync`).
        members = item.operands[-1]
        whole = isinstance(members, p.Number) and members.value & 0xFFFFFFFF == 0xFFFFFFFF
        together = "sync" in item.modifiers and item.opcode != "elect" and whole
        out.guarded(m.Forget(results, out.sources(item), False, by_wave=together))
    return True
