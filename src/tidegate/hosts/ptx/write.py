"""Edits carried out in the text of a PTX file.

Needs   the text, and edits at places of its instructions
Gives   the text with barriers and waits put in, changed or taken away
Keeps   every other byte: what is put in stands on a line of its own, or before the instruction if something else
        stands before that in its line; what is taken away takes its line with it if nothing else is there
Cost    linear in the text plus the edits

    insert before 16       `  bar.sync 0;` as a line before line 16, with its reason behind it
    change  144            cp.async.wait_group 0;   ─▶   cp.async.wait_group 1;
    delete  181            the line is gone
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tidegate.diag import Span
from tidegate.hosts.isa.edits import Grammar, TextEdit, carry_out, offset_of
from tidegate.hosts.ptx import model as p

# What ends an instruction, and what may hide a semicolon.
_END = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|;', re.DOTALL)
_COUNT = re.compile(r"(wait_group\s+)\w+")
MEETINGS = ("bar", "barrier")


def write_ptx(text: str, edits: Sequence[TextEdit]) -> str:
    return carry_out(text, edits, Grammar(lambda text, _, place: _end_of(text, place), "//"))


def _end_of(text: str, place: int) -> int:
    """Behind the semicolon of the instruction that begins there."""
    return next((each.end() for each in _END.finditer(text, place) if each.group() == ";"), len(text))


def with_count(text: str, at: Span, count: int) -> str | None:
    """The text of a wait with another count; None if it names none."""
    line = offset_of(text, at)
    own = text[line : _end_of(text, line)]
    found, times = _COUNT.subn(rf"\g<1>{count}", own, count=1)
    return found if times else None


def own_text(text: str, at: Span) -> str:
    """An instruction as it stands there."""
    place = offset_of(text, at)
    return " ".join(text[place : _end_of(text, place)].split())


# --- what was written --------------------------------------------------------------------------------------------


def find_difference(before: p.Module, after: p.Module) -> str:
    """How two modules differ in more than barriers and waits; empty if they do not."""
    if (before.version, before.target, before.variables) != (after.version, after.target, after.variables):
        return "its head is another one"
    if [each.name for each in before.functions] != [each.name for each in after.functions]:
        return "it holds other functions"
    for one, other in zip(before.functions, after.functions, strict=True):
        if _head(one) != _head(other):
            return f"`{one.name}` is declared otherwise"
        if list(_rest(one)) != list(_rest(other)):
            return f"`{one.name}` holds other instructions"
    return ""


def _head(function: p.Function) -> object:
    return (
        function.is_entry,
        function.params,
        function.variables,
        function.registers,
        function.threads,
        function.most,
        function.clusters,
    )


def _rest(function: p.Function) -> Iterator[p.Instruction | p.Label]:
    return (each for each in function.body if not is_synchronization(each))


def is_synchronization(item: p.Instruction | p.Label) -> bool:
    """What may come and go: barriers without a result, and waits for copies."""
    if not isinstance(item, p.Instruction):
        return False
    if item.opcode in MEETINGS:
        return not {"red", "arrive"}.intersection(item.modifiers)
    return item.opcode == "cp" and any(each.startswith("wait") for each in item.modifiers)
