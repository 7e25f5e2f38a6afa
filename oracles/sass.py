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
from collections import Counter

from oracles.code import Block, Code, Event, NotUnderstood

LINE = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
SECTION = re.compile(r"^//-+ \.text\.(\w+)\s+-+$", re.MULTILINE)
LABEL = re.compile(r"^(\.L_\w+):")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
SETS = re.compile(r"\b(U?P\d)\b")
JUMP = re.compile(r"`\((\.L_\w+)\)")
SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS", "REDS", "UATOMS")
# Not modelled: jumps to unknown places, calls, copies of the async proxy, mbarriers.
STRANGE = ("BRX", "JMX", "JMP", "CALL", "RET", "UTMALDG", "UTMASTG", "UBLKCP", "HGMMA", "SYNCS", "ARRIVES")
COPIES = "group"


def read_sass(text: str) -> dict[str, Code]:
    """All functions of the text."""
    parts = SECTION.split(text)
    return {name: _read(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _read(text: str) -> Code:
    blocks, places, line = [Block()], {}, 0
    versions: Counter[str] = Counter()  # how often each predicate was set, in the order of the text
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
            when = f"{predicate}.{versions[predicate.lstrip('!')]}" if predicate else ""
            versions.update(SETS.findall(operands.partition(",")[0] if "SETP" not in name else operands))
            goes_on = bool(predicate) or ".DIV" in name
            if name.split(".")[0] in ("BRA", "EXIT"):
                if label := JUMP.search(operands):
                    jumps.append((len(blocks) - 1, label[1]))
                blocks[-1].may_end, blocks[-1].ends_when = name.startswith("EXIT"), when
                blocks.append(Block())
                if goes_on:
                    blocks[-2].after.append(len(blocks) - 1)
            elif event := _event(name, operands, line, when):
                blocks[-1].events.append(event)
    for block, label in jumps:
        blocks[block].after.append(places[label])
    return Code(tuple(blocks), groups=True)


def _event(name: str, operands: str, line: int, when: str) -> Event | None:
    """What an instruction does to shared memory; None where it does nothing."""
    first, text = name.split(".")[0], f"{name} {operands}".strip()
    if first in STRANGE:
        raise NotUnderstood(f"`{text}` is not modelled")
    if first in SHARED:
        return Event(text, line, touches_lds=True, when=when)
    if first == "LDGSTS":
        return Event(text, line, COPIES, touches_lds=True, is_async=True, when=when)
    if first == "LDGDEPBAR":
        return Event(text, line, commits=True, when=when)
    if first == "DEPBAR":
        left = int(operands.split(",")[1], 0)
        return None if when else Event(text, line, waits=((COPIES, left),))
    if first == "BAR":
        return _barrier(text, name, operands, line, when)
    return None


def _barrier(text: str, name: str, operands: str, line: int, when: str) -> Event:
    kind = name.split(".")[1]
    if kind not in ("SYNC", "ARV"):
        raise NotUnderstood(f"`{text}` is not modelled")
    which = operands.split(",")[0].strip()
    is_sync = kind == "SYNC"
    return Event(text, line, arrives=True, departs=is_sync, performs=True, barrier=which, when=when)
