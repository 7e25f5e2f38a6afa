"""Branches of AMD's assembly whose way is known where they are come to: a flag was set to a number just before.

Needs   a function as `tidegate.comparison.code` reads it
Gives   `settle_flags`: the same function, with a copy of such a block for each way to it that knows the flag
Keeps   every path that can be taken; a flag that anything else may have written is not known
Cost    linear in the instructions, and a copy of a block for each way to it

LLVM leaves loops by such flags: without them there is a way around the loop past its body, and past its barriers.

    .LBB0_1: … s_barrier … s_mov_b64 s[0:1], 0       ─▶ .LBB0_2 for this way goes on to .LBB0_3 only
    .LBB0_4: s_mov_b64 s[0:1], -1                    ─▶ .LBB0_2 for this way leaves
    .LBB0_2: s_andn2_b64 vcc, exec, s[0:1]
             s_cbranch_vccz .LBB0_5
    .LBB0_3: …
"""

from __future__ import annotations

import re
from dataclasses import replace

from tidegate.comparison.code import CodeBlock, CodeLine

REGISTERS = re.compile(r"^s(?:(\d+)|\[(\d+):(\d+)\])$")
TESTS = {"s_and_b64": True, "s_and_b32": True, "s_andn2_b64": False, "s_andn2_b32": False, "s_and_not1_b32": False}
NUMBERS = {"-1": True, "0": False}
MOST_BLOCKS = 8  # on the way back to where a flag was set


def settle_flags(blocks: list[CodeBlock]) -> list[CodeBlock]:
    """A function whose branches on known flags go one way."""
    found = [replace(block, after=list(block.after)) for block in blocks]
    comes: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for each in block.after:
            comes[each].append(number)
    for number, block in enumerate(blocks):
        flag, is_taken_if = _tested(block)
        if not flag or len(block.after) < 2:
            continue
        for start in comes[number]:
            value = _value(blocks, comes, start, flag)
            if value is not None:
                way = block.after[0] if value == is_taken_if else block.after[1]
                found[start].after = [len(found) if each == number else each for each in found[start].after]
                found.append(CodeBlock(block.code, [way]))
    return found


def _tested(block: CodeBlock) -> tuple[str, bool]:
    """The flag that the branch at the end of a block is about, and whether it is taken where the flag is set."""
    if not block.code or not block.code[-1].name.startswith("s_cbranch_vcc"):
        return "", False
    for at in range(len(block.code) - 2, -1, -1):
        one = block.code[at]
        if any(each.startswith("vcc") for each in _results(one)):
            _, *rest = _operands(one)
            if one.name not in TESTS or not rest[0].startswith("exec") or _writes(block.code[:at], rest[1]):
                return "", False
            return rest[1], TESTS[one.name] == (block.code[-1].name == "s_cbranch_vccnz")
    return "", False


def _value(blocks: list[CodeBlock], comes: list[list[int]], start: int, flag: str) -> bool | None:
    """Whether a flag is set at the end of a block; None if nobody knows."""
    for _ in range(MOST_BLOCKS):
        for one in reversed(blocks[start].code):
            if _writes([one], flag):
                operands = _operands(one)
                is_move = one.name.startswith("s_mov_b") and operands[0] == flag
                return NUMBERS.get(operands[1]) if is_move else None
        if len(comes[start]) != 1:
            return None
        (start,) = comes[start]
    return None


def _writes(code: list[CodeLine], flag: str) -> bool:
    """Whether something may write a flag: some instructions have two results."""
    wanted = _registers(flag)
    return any(wanted & _registers(each) for one in code for each in _results(one))


def _results(one: CodeLine) -> list[str]:
    return _operands(one)[: 1 if one.name.startswith(("s_", "v_cndmask")) else 2]


def _operands(one: CodeLine) -> list[str]:
    return [each.strip() for each in one.operands.split(",")]


def _registers(name: str) -> set[int]:
    found = REGISTERS.match(name)
    if not found:
        return set()
    first = int(found[1] or found[2])
    return set(range(first, int(found[3] or first) + 1))
