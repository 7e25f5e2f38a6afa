"""SASS as `nvdisasm -c -g` prints it.

Needs   the text, with line information
Gives   a `Code` for each function, by its name
Keeps   a branch goes both ways unless it has no predicate; what ends a function or waits is never left out; an
        instruction under `!PT` is never executed and is left out
Cost    linear

    //## File "k.tide", line 7
            /*00c0*/                   LDS R9, [R0+0x4] ;
"""

from __future__ import annotations

import re

from oracles.code import Block, Code, Event, NotUnderstood

LINE = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
SECTION = re.compile(r"^//-+ \.text\.(\w+)\s+-+$", re.MULTILINE)
LABEL = re.compile(r"^(\.L_\w+):")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
JUMP = re.compile(r"`\((\.L_\w+)\)")
SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS", "REDS", "UATOMS")
# They change nothing in the order of shared memory, or nothing that these kernels use.
STRANGE = ("BRX", "JMX", "JMP", "CALL", "RET", "UTMALDG", "UTMASTG", "UBLKCP", "HGMMA", "SYNCS", "ARRIVES")
COPIES = "group"


def read_sass(text: str) -> dict[str, Code]:
    """All functions of the text."""
    parts = SECTION.split(text)
    return {name: _read(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _read(text: str) -> Code:
    blocks, places, line = [Block()], {}, 0
    jumps: list[tuple[int, str]] = []
    for row in text.split("\n"):
        if found := LINE.match(row):
            line = int(found[1])
        elif found := LABEL.match(row):
            places[found[1]] = len(blocks)
            blocks[-1].after.append(len(blocks))
            blocks.append(Block())
        elif found := INSTRUCTION.match(row):
            predicate, name, operands = found[1] or "", found[2], found[3].strip()
            if predicate == "!PT":
                continue
            goes_on = bool(predicate) or ".DIV" in name
            if name.split(".")[0] in ("BRA", "EXIT"):
                if label := JUMP.search(operands):
                    jumps.append((len(blocks) - 1, label[1]))
                blocks[-1].may_end = name.startswith("EXIT")
                blocks.append(Block())
                if goes_on:
                    blocks[-2].after.append(len(blocks) - 1)
            elif event := _event(name, operands, line, bool(predicate)):
                blocks[-1].events.append(event)
    for block, label in jumps:
        blocks[block].after.append(places[label])
    return Code(tuple(blocks), groups=True)


def _event(name: str, operands: str, line: int, may_skip: bool) -> Event | None:
    """What an instruction does to shared memory; None where it does nothing."""
    first, text = name.split(".")[0], f"{name} {operands}".strip()
    if first in STRANGE:
        raise NotUnderstood(f"`{text}` is not modelled")
    if first in SHARED:
        return Event(text, line, touches_lds=True, may_skip=may_skip)
    if first == "LDGSTS":
        return Event(text, line, COPIES, touches_lds=True, is_async=True, may_skip=may_skip)
    if first == "LDGDEPBAR":
        return Event(text, line, commits=True, may_skip=may_skip)
    if first == "DEPBAR":
        left = int(operands.split(",")[1], 0)
        return None if may_skip else Event(text, line, waits=((COPIES, left),))
    if first == "BAR":
        return _barrier(text, name, operands, line, may_skip)
    return None


def _barrier(text: str, name: str, operands: str, line: int, may_skip: bool) -> Event:
    kind = name.split(".")[1]
    if kind not in ("SYNC", "ARV"):
        raise NotUnderstood(f"`{text}` is not modelled")
    which = operands.split(",")[0].strip()
    is_sync = kind == "SYNC"
    return Event(
        text, line, arrives=True, departs=is_sync, performs=True, barrier=which, may_skip=may_skip
    )
