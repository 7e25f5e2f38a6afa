"""What `llvm-objdump -d` prints of a code object, as lines that the reader of assembly takes.

Needs   the text of a disassembly
Gives   `Disassembled`: each line as assembly with a label where a jump leads to, in the place of numbers
Keeps   one line for each line, so that places are those of the text that was given. A jump leads to the address of the
        next instruction plus four times its number, whatever name is printed beside it
Cost    linear

    0000000000001700 <matmul>:                                             matmul:
        s_cbranch_scc1 65343   // 000000001D54: BF85FF3F <matmul+0x354>        s_cbranch_scc1 .at_1a54
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARK = re.compile(r"^[0-9a-fA-F]{8,16} <([^>\n]{1,2000})>:\s*$")
_CODE = re.compile(r"^\s+(\S.*?)\s*// *([0-9a-fA-F]{6,16}):((?: [0-9a-fA-F]{8}){1,8})")
_JUMP = re.compile(r"^(s_(?:branch|cbranch_\w+))\s+(-?\d{1,6}|0x[0-9a-fA-F]{1,5})$")
_SIGNS = ("Disassembly of section ", "file format elf64-amdgpu")
FIRST = 4000  # characters in which a disassembly says that it is one


@dataclass(frozen=True, slots=True)
class Disassembled:
    """`marks`: labels before lines, by their number from 1; `functions`: names at which code begins."""

    lines: list[str]
    marks: dict[int, str]
    functions: frozenset[str]


def is_disassembly(text: str) -> bool:
    return any(sign in text[:FIRST] for sign in _SIGNS)


def read_disassembly(text: str) -> Disassembled:
    lines, functions = text.split("\n"), set[str]()
    at: dict[int, int] = {}  # address → line
    jumps: dict[int, int] = {}  # line → address
    made: list[str] = []
    for number, line in enumerate(lines, 1):
        if (found := _MARK.match(line)) is not None:
            functions.add(found[1])
            made.append(f"{found[1]}:")
            continue
        code = _CODE.match(line)
        if code is None:
            made.append("")
            continue
        instruction, address = code[1], int(code[2], 16)
        at[address] = number
        if (jump := _JUMP.match(instruction)) is not None:
            offset = (int(jump[2], 0) & 0xFFFF ^ 0x8000) - 0x8000
            jumps[number] = address + 4 + 4 * offset
            instruction = f"{jump[1]} {_label(jumps[number])}"
        blank = line[: len(line) - len(line.lstrip())]
        made.append(f"{blank}{instruction}")
    marks = {at[target]: _label(target) for target in jumps.values() if target in at}
    return Disassembled(made, marks, frozenset(functions))


def _label(address: int) -> str:
    return f".at_{address:x}"
