"""Edits carried out in the text of AMD assembly.

Needs   the text, and edits at places of its instructions
Gives   the text after them; a wait with other counts; how two assemblies differ in more than synchronization
Keeps   every other byte
Cost    linear in the text for each edit

    s_waitcnt vmcnt(0) lgkmcnt(0)   with vmcnt(3)            ─▶   s_waitcnt vmcnt(3) lgkmcnt(0)
                                    without lgkmcnt          ─▶   s_waitcnt vmcnt(0)
    s_wait_loadcnt_dscnt 0x0        with loadcnt 2           ─▶   s_wait_loadcnt_dscnt 0x200
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tidegate.diag import Span
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.waits import waits_of
from tidegate.hosts.isa.edits import Grammar, TextEdit, carry_out, offset_of

_PAIR = re.compile(r"s_wait_(load|store)cnt_dscnt$")
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]+|\d+)$")
_LOOSEST = 63  # of each of two counters in one number
_BARRIERS = ("s_barrier", "s_barrier_signal", "s_barrier_wait")

Counts = Mapping[str, int]


def _end_of(text: str, at: Span, place: int) -> int:
    return place + at.end - at.column


GRAMMAR = Grammar(_end_of, ";", "\n\t")


def write_amdgcn(text: str, edits: Sequence[TextEdit]) -> str:
    return carry_out(text, edits, GRAMMAR)


def own_text(text: str, at: Span) -> str:
    place = offset_of(text, at)
    return " ".join(text[place : _end_of(text, at, place)].split())


def with_counts(item: a.AsmLine, own: str, counts: Counts) -> str | None:
    """A wait with these counts alone; None if no text says that. `own`: its text as it stands."""
    known = dict(waits_of(item))
    if not counts or not counts.keys() <= known.keys() or item.name == "s_wait_idle":
        return None
    if item.name == "s_waitcnt":
        return _named(own, known, counts)
    if (found := _PAIR.match(item.name)) is not None:
        first, second = (counts.get(each, _LOOSEST) for each in (f"{found[1]}cnt", "dscnt"))
        return _NUMBER.sub(hex(first << 8 | second), own)
    ((_, count),) = counts.items()
    return _NUMBER.sub(hex(count) if "0x" in own.lower() else str(count), own)


def _named(own: str, known: Counts, counts: Counts) -> str | None:
    found = own
    for name in known:
        if not re.search(rf"\b{name}(_sat)?\(", found):
            return None  # all counters in one number
        part = f"{name}({counts[name]})" if name in counts else ""
        found = re.sub(rf"[ &,]*\b{name}(?:_sat)?\(\w+\)", f" {part}" if part else "", found, count=1)
    return " ".join(found.split())


# --- what was written --------------------------------------------------------------------------------------------


def is_synchronization(item: a.AsmLine | a.Mark) -> bool:
    """What may come and go: whole barriers and their halves, and waits."""
    if not isinstance(item, a.AsmLine):
        return False
    return item.name in _BARRIERS or item.name.startswith("s_wait") or item.name == "s_waitcnt"


def find_difference(before: a.Assembly, after: a.Assembly) -> str:
    """How two assemblies differ in more than barriers and waits; empty if they do not."""
    if (before.target, before.arrays) != (after.target, after.arrays):
        return "its head is another one"
    if [each.name for each in before.kernels] != [each.name for each in after.kernels]:
        return "it holds other kernels"
    for one, other in zip(before.kernels, after.kernels, strict=True):
        if (one.settings, one.facts) != (other.settings, other.facts):
            return f"`{one.name}` is declared otherwise"
        if list(_rest(one)) != list(_rest(other)):
            return f"`{one.name}` holds other instructions"
    return ""


def _rest(kernel: a.KernelText) -> Iterator[a.AsmLine | a.Mark]:
    return (each for each in kernel.body if not is_synchronization(each))
