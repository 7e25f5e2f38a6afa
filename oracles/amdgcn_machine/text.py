"""Assembly as LLVM prints it, as instructions with their operands, labels and the facts of the kernel's directives.

Needs   the text of one kernel: what `llc` or Triton prints
Gives   `read`: a `Listing` of instructions in order; a branch names a label, a label the number of an instruction
Keeps   every instruction is there with its line; comments are dropped, but for LLVM's names of high registers
Cost    linear

    v_add_u32_dpp v4 /*v260*/, v3, |v2| row_shr:8 bound_ctrl:1    → v260; v3; |v2|; {row_shr: 8, bound_ctrl: 1}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LABEL = re.compile(r"^([.\w$@]+):")
COMMENT = re.compile(r"(;|//).*$")
HIGH = re.compile(r"(-?\|?)[sva](?:\d+|\[\d+:\d+\])(\.[lh])?(\|?) /\*(v(?:\d+|\[\d+:\d+\]))(?:\.[lh])?\*/")
TARGET = re.compile(r'\.amdgcn_target\s+"[^"]*?(gfx\w+?)(?:[:+-][^"]*)?"')
FACT = re.compile(r"^\s*\.amdhsa_(\w+)\s+(\S+)")
META = re.compile(r"^\s*-?\s*\.(\w+):\s+'?([\w.\-]+)'?\s*$")
SPLIT = re.compile(r",(?![^\[(|]*[\])])")
MODIFIER = re.compile(r"^[a-z]\w*(:.*)?$")
REGISTER = re.compile(r"^[sva]\d+(\.[lh])?$|^[sva]\[|^(vcc|exec|scc|m0|ttmp|null|off|src_|flat_|sgpr_|vgpr_)")
FLAGS = ("offen", "idxen", "lds", "glc", "slc", "dlc", "nt", "sc0", "sc1", "tfe", "nv", "clamp", "gds", "bound_ctrl")
LABELS = ("s_branch", "s_cbranch", "s_call")
FREE = ("s_waitcnt", "s_delay_alu", "s_sendmsg", "s_setreg", "s_getreg")  # their operands have a grammar of their own


class NotUnderstood(Exception):
    """The machine has no meaning for this text; it names the instruction and its line."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `second` is the other half of a dual instruction."""

    name: str
    operands: tuple[str, ...]
    modifiers: dict[str, str]
    line: int
    text: str
    second: Instruction | None = None


@dataclass(slots=True)
class Listing:
    """A kernel: its code, where its labels are, and its directives as they stand there."""

    target: str = ""
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    kernel: str = ""


def read(text: str) -> Listing:
    """The first kernel of the text."""
    listing = Listing()
    if found := TARGET.search(text):
        listing.target = found[1]
    is_code = True
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith(".amdhsa_kernel"):
            listing.kernel = stripped.split()[1]
        if found := FACT.match(line) or META.match(line):
            listing.facts.setdefault(found[1], found[2])
        if re.match(r"^\.Lfunc_end\d+:", line) or stripped.startswith((".rodata", ".section")):
            is_code = stripped == ".text" or (is_code and not listing.code)
        elif is_code:
            _take_line(listing, line, number)
    return listing


def _take_line(listing: Listing, line: str, number: int) -> None:
    while found := LABEL.match(line):
        listing.labels[found[1]] = len(listing.code)
        line = line[found.end() :]
    stripped = COMMENT.sub("", line).strip()
    if stripped and not stripped.startswith((".", "#")):
        listing.code.append(read_instruction(stripped, number))


def read_instruction(text: str, line: int) -> Instruction:
    """One instruction without its comment."""
    text = HIGH.sub(lambda found: f"{found[1]}{found[4]}{found[2] or ''}{found[3]}", text)
    if " :: " in text:
        first, second = text.split(" :: ", 1)
        other = read_instruction(second.strip(), line)
        one = read_instruction(first.strip(), line)
        return Instruction(one.name, one.operands, one.modifiers, line, text, other)
    name, _, rest = text.partition(" ") if "\t" not in text else text.partition("\t")
    rest = rest.strip()
    if name.startswith((*FREE, *LABELS)):
        return Instruction(name, (rest,) if rest else (), {}, line, text)
    pieces = [each.strip() for each in SPLIT.split(rest)] if rest else []
    modifiers: dict[str, str] = {}
    if pieces:
        last, *words = _words(pieces[-1])
        if _is_modifier(last):
            words, last = [last, *words], ""
        pieces[-1:] = [last] if last else []
        for word in words:
            key, _, value = word.partition(":")
            modifiers[key] = value
    return Instruction(name, tuple(pieces), modifiers, line, text)


def _words(piece: str) -> list[str]:
    """The operand and what stands behind it; brackets may hold spaces."""
    return re.findall(r"(?:[^\s\[(]|\[[^\]]*\]|\([^)]*\))+", piece)


def _is_modifier(word: str) -> bool:
    return bool(MODIFIER.match(word)) and not REGISTER.match(word)
