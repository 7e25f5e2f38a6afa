"""Loops that ask a barrier object again and again until its phase is over.

Needs   the instructions of a function
Gives   for a test of a barrier object the registers that asking again may set; None where asking again does more
Keeps   a test that fails leads, by instructions without effects alone, to a test of the same phase of the same object.
        So the first one may be taken for a wait that lasts until the phase is over
Cost    linear in the instructions of the loop, for each value of what the test decides

    again:  mbarrier.try_wait.parity p, [bar], phase        waits, and sets p
            @!p bra again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.hosts.ptx import model as p

MOST_STEPS = 600
# They touch nothing but their results. What they compute matters only for what the test has decided.
_HARMLESS = frozenset(
    "mov add sub mul mad and or xor not shl shr cvt selp setp min max neg nanosleep cvta rem div bfe bfi mul24".split()
)
_TESTS = ("test_wait", "try_wait")
Known = Mapping[str, int]


def find_spin(body: Sequence[p.Instruction | p.Label], labels: Mapping[str, int], place: int) -> frozenset[str] | None:
    """`place`: of the test in the body; `labels`: places by their names."""
    test = body[place]
    assert isinstance(test, p.Instruction)
    result = test.operands[0]
    if not isinstance(result, p.Name) or test.guard is not None:
        return None
    asked = frozenset(p.names_of(test.operands[1:3]))
    changed: set[str] = set()
    seen: set[tuple[int, frozenset[tuple[str, int]]]] = set()
    stack: list[tuple[int, dict[str, int]]] = [(place + 1, {result.name: 0})]
    while stack:
        number, known = stack.pop()
        key = (number, frozenset(known.items()))
        if key in seen:
            continue
        seen.add(key)
        if number >= len(body) or len(seen) > MOST_STEPS:
            return None
        item = body[number]
        if isinstance(item, p.Label):
            stack.append((number + 1, known))
            continue
        taken = _holds(item, known)
        if item.opcode == "bra":
            target = item.operands[0] if item.operands else None
            if item.modifiers[:1] == ("idx",) or not isinstance(target, p.Name) or target.name not in labels:
                return None
            stack += [(labels[target.name], known)] if taken is not False else []
            stack += [(number + 1, known)] if taken is not True else []
        elif is_test(item) and item.guard is None:
            if item.modifiers != test.modifiers or item.operands[1:3] != test.operands[1:3]:
                return None
            changed |= set(p.names_of(item.operands[:1]))
        elif item.opcode not in _HARMLESS:
            return None
        else:
            results = set(p.names_of(item.operands[:1]))
            changed |= results
            if results & asked:
                return None
            value = _value(item, known) if taken is True else None
            kept = {name: each for name, each in known.items() if name not in results}
            stack.append((number + 1, kept if value is None else {**kept, **dict.fromkeys(results, value)}))
    return frozenset(changed)


def is_test(item: p.Instruction) -> bool:
    return item.opcode == "mbarrier" and item.modifiers[:1] != () and item.modifiers[0] in _TESTS


def _holds(item: p.Instruction, known: Known) -> bool | None:
    """Whether an instruction takes effect; None: nobody knows."""
    if item.guard is None:
        return True
    value = known.get(item.guard.register)
    return None if value is None else bool(value) != item.guard.negated


def _value(item: p.Instruction, known: Known) -> int | None:
    """What an instruction gives, where what the test has decided decides that as well."""
    given = [_operand(each, known) for each in item.operands[1:]]
    match item.opcode, item.modifiers, given:
        case "selp", _, [int(one), int(other), int(which)]:
            return one if which else other
        case "setp", (comparison, *_), [int(one), int(other)] if comparison in ("eq", "ne"):
            return int((one == other) == (comparison == "eq"))
        case "mov" | "cvt", _, [int(one)] if one in (0, 1):
            return one
        case "not", ("pred",), [int(one)]:
            return 1 - one
        case "and", _, [int(one), int(other)] if {one, other} <= {0, 1}:
            return one & other
    return None


def _operand(operand: p.Operand, known: Known) -> int | None:
    match operand:
        case p.Number(value, 0):
            return value
        case p.Name(name):
            return known.get(name)
    return None
