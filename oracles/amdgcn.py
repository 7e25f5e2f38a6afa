"""AMD's assembly as LLVM prints it, with the lines of its `.loc`.

Needs   the text; `tidegate.comparison.code` reads its blocks and knows its queues
Gives   a `Code` for its only kernel
Keeps   all branches; `s_cbranch_execz` jumps over what no lane needs, so a masked load may not be issued
Cost    linear
"""

from __future__ import annotations

import re

from oracles.code import Block, Code, Event, NotUnderstood
from tidegate.comparison import code as amdgcn

LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")


def read_amdgcn(text: str, which: int = 0) -> Code:
    """The function of that number."""
    lines, line = {}, 0
    for number, row in enumerate(text.split("\n"), 1):
        if found := LOC.match(row):
            line = int(found[1])
        lines[number] = line
    blocks = []
    for block in amdgcn.read_assembly(text)[which]:
        events = [_event(each, lines[each.line]) for each in block.code]
        blocks.append(Block([each for each in events if each], list(block.after)))
    return Code(tuple(blocks))


def _event(one: amdgcn.CodeLine, line: int) -> Event | None:
    text = f"{one.name} {one.operands}".strip()
    if one.name in amdgcn.CALLS:
        raise NotUnderstood(f"`{text}` is a call")
    if queue := amdgcn.queue_of(one):
        touches = amdgcn.touches_lds(one)
        return Event(text, line, queue, touches, is_async=touches and queue != amdgcn.LDS)
    if waits := tuple(amdgcn.waits_of(one)):
        return Event(text, line, waits=waits)
    if one.name == amdgcn.BARRIER:
        return Event(text, line, arrives=True, departs=True, barrier=amdgcn.WORKGROUP)
    if one.name.startswith(amdgcn.SIGNAL):
        return Event(text, line, arrives=True, barrier=one.operands)
    if one.name == amdgcn.MEET:
        return Event(text, line, departs=True, barrier=one.operands)
    if one.name.startswith(amdgcn.BARRIER):
        raise NotUnderstood(f"`{text}` is not modelled")
    return None
