"""What instructions of PTX make of numbers, one thread at a time, on Python's numbers.

Needs   an instruction's words, its operands, the registers of a thread
Gives   the registers behind it
Keeps   as PTX ISA 9.0 says, section 9.7; shares no code with `hosts.isa`
Cost    constant
"""

from __future__ import annotations

from collections.abc import Callable

CARRY = "carry"


def value_of(name: str, registers: dict[str, int]) -> int:
    return registers[name] if name in registers else int(name, 0) & 0xFFFFFFFFFFFFFFFF


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def compute(opcode: str, given: list[str], registers: dict[str, int]) -> None:
    word, *kinds = opcode.split(".")
    if word == "setp":
        registers[given[0]] = int(_holds(kinds, given, registers))
    elif kinds == ["pred"]:
        args = [registers.get(each, 0) for each in given[1:]]
        registers[given[0]] = {
            "and": lambda: args[0] & args[1],
            "or": lambda: args[0] | args[1],
            "xor": lambda: args[0] ^ args[1],
            "not": lambda: 1 - args[0],
            "mov": lambda: args[0],
        }[word]()
    else:
        args = [value_of(each, registers) for each in given[1:-1]]
        last = given[-1] if len(given) > 1 else "0"
        args.append(registers.get(last, 0) if last.startswith("%p") else value_of(last, registers))
        registers[given[0]] = _number(word, kinds, args, registers)


def _holds(kinds: list[str], given: list[str], registers: dict[str, int]) -> bool:
    bits = int(kinds[-1][1:])
    args = [value_of(each, registers) & ((1 << bits) - 1) for each in given[1:3]]
    one, other = (signed(each, bits) for each in args) if kinds[-1][0] == "s" else args
    found = {
        "lt": one < other,
        "le": one <= other,
        "gt": one > other,
        "ge": one >= other,
        "eq": one == other,
        "ne": one != other,
    }[kinds[0]]
    if len(given) > 3:
        third = registers.get(given[3].lstrip("!"), 0) != given[3].startswith("!")
        return {"and": found and third, "or": found or third, "xor": found != third}[kinds[1]]
    return found


def _number(word: str, kinds: list[str], args: list[int], registers: dict[str, int]) -> int:
    bits = int(kinds[-1][1:])
    mask = (1 << bits) - 1
    sign = kinds[-1][0] == "s"
    given = [each & mask for each in args]
    meant = [signed(each, bits) if sign else each for each in given]
    if word == "cvt":
        inner = signed(args[0], bits) if sign else args[0] & mask
        target = int(kinds[-2][1:])
        found = signed(inner, target) if kinds[-2][0] == "s" else inner & ((1 << target) - 1)
        return found & (0xFFFFFFFFFFFFFFFF if target == 64 else 0xFFFFFFFF)
    if word == "mul" and kinds[0] in ("hi", "wide"):
        whole = meant[0] * meant[1]
        return (whole >> bits) & mask if kinds[0] == "hi" else whole & ((1 << 2 * bits) - 1)
    if "cc" in kinds:
        registers[CARRY] = (given[0] + given[1]) >> bits
    return _plain(word, kinds, given, meant, args, registers)() & mask


def _plain(
    word: str, kinds: list[str], given: list[int], meant: list[int], args: list[int], registers: dict[str, int]
) -> Callable[[], int]:
    bits = int(kinds[-1][1:])
    a, c, d = (*given, 0, 0)[:3]
    one, other = (*meant, 0)[:2]
    many = (*args, 0)[1]
    return {
        "mov": lambda: a,
        "add": lambda: _clipped(one + other, bits) if "sat" in kinds else a + c,
        "addc": lambda: a + c + registers.get(CARRY, 0),
        "sub": lambda: a - c,
        "mul": lambda: a * c,
        "mad": lambda: a * c + d,
        "mul24": lambda: (a & 0xFFFFFF) * (c & 0xFFFFFF),
        "and": lambda: a & c,
        "or": lambda: a | c,
        "xor": lambda: a ^ c,
        "not": lambda: ~a,
        "cnot": lambda: int(a == 0),
        "neg": lambda: -a,
        "abs": lambda: abs(one),
        "shl": lambda: a << min(many, 64),
        "shr": lambda: one >> min(many, 64),
        "shf": lambda: ((c << 32 | a) << (d & 31)) >> 32,
        "rem": lambda: _remainder(one, other),
        "div": lambda: _quotient(one, other),
        "min": lambda: max(0, min(one, other)) if "relu" in kinds else min(one, other),
        "max": lambda: max(one, other),
        "sad": lambda: d + abs(one - other),
        "popc": lambda: a.bit_count(),
        "clz": lambda: bits - a.bit_length(),
        "brev": lambda: int(f"{a:0{bits}b}"[::-1], 2),
        "selp": lambda: a if args[2] else c,
        "slct": lambda: a if signed(args[2]) >= 0 else c,
        "bfe": lambda: _extract(a, c & 255, d & 255, bits, kinds[-1][0] == "s"),
        "bfi": lambda: _insert(a, c, d & 255, args[3] & 255, bits),
        "prmt": lambda: _permute(a, c, d),
        "lop3": lambda: sum(
            (args[3] >> (4 * (a >> k & 1) + 2 * (c >> k & 1) + (d >> k & 1)) & 1) << k for k in range(bits)
        ),
    }[word]


def _clipped(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


def _quotient(one: int, other: int) -> int:
    size = abs(one) // abs(other)
    return -size if (one < 0) != (other < 0) else size


def _remainder(one: int, other: int) -> int:
    return one - other * _quotient(one, other)


def _extract(value: int, place: int, count: int, bits: int, sign: bool) -> int:
    """As the loop of section 9.7.1.19."""
    last = value >> min(place + count - 1, bits - 1) & 1 if sign and count else 0
    return sum((value >> (place + k) & 1 if k < count and place + k < bits else last) << k for k in range(bits))


def _insert(value: int, into: int, place: int, count: int, bits: int) -> int:
    for k in range(count):
        if place + k < bits:
            into = into & ~(1 << (place + k)) | (value >> k & 1) << (place + k)
    return into


def _permute(one: int, other: int, chosen: int) -> int:
    parts = [(other << 32 | one) >> 8 * k & 255 for k in range(8)]
    found = 0
    for k in range(4):
        part = parts[chosen >> 4 * k & 7]
        found |= ((255 if part & 128 else 0) if chosen >> 4 * k & 8 else part) << 8 * k
    return found
