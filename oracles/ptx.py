"""PTX as text: its barriers, waits and accesses to shared memory, and the same text with a line for each of them.

Needs   PTX of one kernel
Gives   `read_ptx`: a `Code` whose lines are those of the text; `with_lines`: the text with a `.loc` before each event
Keeps   what is not known to be harmless raises `NotUnderstood`: copies of the async proxy, mbarriers, calls
Cost    linear
"""

from __future__ import annotations

import re

from oracles.code import Block, Code, Event, NotUnderstood

STATEMENT = re.compile(r"^\s*(?:(\$?\w+):)?\s*(?:@(!?%\w+)\s+)?([a-z][\w.:]*)([^;]*);")
LABEL = re.compile(r"^\s*(\$\w+|[A-Z]\w*):")
SHARED = re.compile(r"^(ld|st|atom|red)\..*shared|^(ldmatrix|stmatrix)")
UNKNOWN = re.compile(
    r"^(cp\.async\.bulk|cp\.async\.mbarrier|mbarrier|wgmma|tcgen05|call|brx|barrier\.cluster|cp\.reduce)"
)


def read_ptx(text: str) -> Code:
    blocks, places, jumps = [Block()], {}, []
    for number, line in enumerate(_body(text), 1):
        if found := LABEL.match(line):
            places[found[1]] = len(blocks)
            blocks[-1].after.append(len(blocks))
            blocks.append(Block())
        if not (found := STATEMENT.match(line)):
            continue
        when, name, operands = found[2] or "", found[3], found[4].strip()
        if name.split(".")[0] in ("bra", "ret", "exit"):
            if name.startswith("bra"):
                jumps.append((len(blocks) - 1, operands))
            blocks[-1].may_end = not name.startswith("bra")
            if when:
                blocks[-1].after.append(len(blocks))
            blocks.append(Block())
        elif event := _event(name, operands, number, when):
            blocks[-1].events.append(event)
    for block, label in jumps:
        blocks[block].after.append(places[label])
    return Code(tuple(blocks), groups=True)


def with_lines(text: str) -> str:
    """Every event gets its own line; other instructions get line 0 of the same file."""
    made = []
    for number, line in enumerate(_body(text), 1):
        found = STATEMENT.match(line)
        if found and _event(found[3], found[4].strip(), number, ""):
            made += [f"\t.loc 1 {number} 1", line, "\t.loc 1 999999 1"]
        else:
            made.append(line)
    return "\n".join(made)


def _body(text: str) -> list[str]:
    """The lines without comments, old lines and debug sections: `.loc` of another file would hide ours."""
    lines = text.split("\n")
    section = next((place for place, line in enumerate(lines) if re.match(r"\s*\.section", line)), len(lines))
    return ["" if re.match(r"\s*\.loc\b", line) else line.split("//")[0] for line in lines[:section]]


def _event(name: str, operands: str, line: int, when: str) -> Event | None:
    text = f"{name} {operands}".strip()
    if UNKNOWN.match(name):
        raise NotUnderstood(f"`{text}` is not modelled")
    if SHARED.match(name):
        return Event(text, line, touches_lds=True, when=when)
    if name == "cp.async.commit_group":
        return Event(text, line, commits=True, when=when)
    if name in ("cp.async.wait_group", "cp.async.wait_all"):
        return Event(text, line, waits=(("group", int(operands or "0", 0)),), when=when)
    if name.startswith("cp.async."):
        return Event(text, line, "group", touches_lds=True, is_async=True, when=when)
    if name in ("bar.sync", "barrier.sync", "barrier.sync.aligned", "barrier.cta.sync", "bar.cta.sync"):
        return Event(text, line, arrives=True, departs=True, performs=True, barrier=operands, when=when)
    if name.startswith(("bar.warp", "bar.red")) or not name.startswith(("bar", "barrier")):
        return None
    raise NotUnderstood(f"`{text}` is not modelled")
