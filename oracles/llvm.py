"""LLVM IR for AMD as text: its barriers and accesses to shared memory, and the same text with a line for each of them.

Needs   the text of a module with one kernel, with debug information, as Triton's stage `llir` makes it
Gives   `read_llvm`: a `Code` whose lines are those of the text; `with_lines`: the text with those lines as locations
Keeps   branches by `br` and `switch`; calls of other functions than intrinsics raise `NotUnderstood`
Cost    linear
"""

from __future__ import annotations

import re

from oracles.code import Block, Code, Event, NotUnderstood

DEFINE = re.compile(r"^define .*!dbg !(\d+) \{")
LABEL = re.compile(r'^("[^"]+"|[\w.$-]+):')
TARGET = re.compile(r'label %("[^"]+"|[\w.$-]+)')
PLACE = re.compile(r", !dbg !\d+")
ACCESS = re.compile(r"^\s*(%\S+ = )?(tail )?(load|store|atomicrmw|cmpxchg)\b.*ptr addrspace\(3\)")
COPY = re.compile(r"@llvm\.amdgcn\.[\w.]*(\.lds\b|\.to\.lds|\.from\.lds|lds\.)[\w.]*\(")
TRANSPOSED = re.compile(r"@llvm\.amdgcn\.ds\.(read|load)\.")
BARRIER = re.compile(r"@llvm\.amdgcn\.s\.barrier(\.signal|\.wait)?\(")
CALL = re.compile(r"call [^@]*@([\w.$]+)\(")
FIRST = 900_000  # metadata numbers from here on are ours


def read_llvm(text: str) -> Code:
    """The kernel; the block without a label is its entry."""
    blocks, names, jumps, is_inside = [], {}, [], False
    for number, line in enumerate(text.split("\n"), 1):
        if DEFINE.match(line):
            is_inside, blocks = True, [Block()]
        elif line.startswith("}"):
            is_inside = False
        elif is_inside:
            if found := LABEL.match(line):
                names[found[1]] = len(blocks)
                blocks.append(Block())
            elif line.lstrip().startswith(("br ", "switch ", "indirectbr ")) or line.startswith("    i"):
                jumps += [(len(blocks) - 1, label) for label in TARGET.findall(line)]
            elif event := _event(line, number):
                blocks[-1].events.append(event)
    for block, label in jumps:
        if label in names:  # the entry has no name
            blocks[block].after.append(names[label])
    return Code(tuple(blocks))


def with_lines(text: str) -> str:
    """All old locations go; each event gets its own."""
    made, wanted, scope, is_inside = [], [], "", False
    for number, line in enumerate(text.split("\n"), 1):
        if found := DEFINE.match(line):
            scope, is_inside = found[1], True
        elif line.startswith("}"):
            is_inside = False
        elif is_inside:
            line = PLACE.sub("", line)
            if _event(line, number):
                wanted.append(number)
                line += f", !dbg !{FIRST + number}"
        made.append(line)
    return "\n".join([*made, *(f"!{FIRST + each} = !DILocation(line: {each}, scope: !{scope})" for each in wanted), ""])


def _event(line: str, number: int) -> Event | None:
    text = line.strip()
    if found := BARRIER.search(line):
        kind = found[1] or ""
        return Event(text, number, arrives=kind != ".wait", departs=kind != ".signal", barrier="-1")
    if COPY.search(line):
        return Event(text, number, "copy", touches_lds=True, is_async=True)
    if ACCESS.match(line) or TRANSPOSED.search(line):
        return Event(text, number, "ds", touches_lds=True)
    if (found := CALL.search(line)) and not found[1].startswith("llvm."):
        raise NotUnderstood(f"`{text}` is a call")
    return None
