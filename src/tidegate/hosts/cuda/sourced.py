"""A module of PTX with the places of the CUDA source that it was compiled from.

Needs   a module, its text with `.loc` directives, the file as the user named it
Gives   the module again, each instruction at its statement of the source; notes that name the lines of the PTX
Keeps   what has no place in a file of the user stands where that was called from; copies of one statement, unrolled or
        inlined, have one place, so that they are one barrier for those who change the source
Cost    linear in the text

    bar.sync 0;         // line 40 of the PTX     ─▶     kernel.cu:12:3   `__syncthreads();`
    bar.sync 0;         // line 61, an unrolled copy ─▶  the same place
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from tidegate.diag import Sources, Span
from tidegate.hosts.isa.sources import Place, find_places
from tidegate.hosts.ptx import model as p

# Instructions that a finding may be about, and spaces in which none is.
_TOUCHING = "ld st atom red cp ldmatrix stmatrix bar barrier mbarrier wgmma fence".split()
_MEETING = {"bar", "barrier", "mbarrier", "fence"}
_ELSEWHERE = {"global", "param", "const", "local"}
MOST_NAMED = 4  # lines of PTX, or calls, of one statement
MOST_QUOTED = 80

Notes = dict[tuple[str, Span], tuple[str, ...]]


def with_source_places(
    module: p.Module, text: str, file: str, toolkit: Sequence[str], sources: Sources
) -> tuple[p.Module, Notes]:
    """`toolkit`: folders of headers that are not the user's."""
    return _Sourced(text, file, toolkit, sources).module(module)


class _Sourced:
    def __init__(self, text: str, file: str, toolkit: Sequence[str], sources: Sources) -> None:
        self.places, self.lines = find_places(text), text.split("\n")
        self.file, self.toolkit, self.sources = file, tuple(toolkit), sources
        self.real = os.path.realpath(file)
        self.names: dict[str, str] = {}  # what the user calls a file; nothing for one of the toolkit
        self.notes: Notes = {}

    def module(self, module: p.Module) -> tuple[p.Module, Notes]:
        functions = tuple(self.function(each) for each in module.functions)
        return replace(module, functions=functions, variables=tuple(map(self.variable, module.variables))), self.notes

    def function(self, function: p.Function) -> p.Function:
        first = next((each for each in self.places[function.at.line :] if each is not None and each.line), None)
        head = Span(self.file, 0, 0, 0)
        if first is not None:
            head = self.span(Place(first.chain[-1].file, first.chain[-1].line, 0), head)
        body: list[p.Instruction | p.Label] = []
        made: dict[Span, list[p.Instruction]] = {}
        for item in function.body:
            at = self.span(self.places[item.at.line], head)
            body.append(replace(item, at=at))
            if isinstance(item, p.Instruction) and _is_noted(item):
                made.setdefault(at, []).append(item)
        for at, items in made.items():
            self.notes[function.name, at] = (*self.calls(items), self.quoted(items))
        variables = tuple(replace(each, at=head) for each in function.variables)
        return replace(function, body=tuple(body), variables=variables, at=head)

    def variable(self, variable: p.Variable) -> p.Variable:
        return replace(variable, at=Span(self.file, 0, 0, 0))

    # --- places ---

    def span(self, place: Place | None, head: Span) -> Span:
        """`head`: the function, where what the compiler has merged of several statements stands: that has line 0."""
        chain = [each for each in place.chain if each.line] if place is not None else []
        if not chain:
            return head
        there = next((each for each in chain if self.named(each.file)), chain[-1])
        name = self.named(there.file) or there.file
        line = self.sources.line(Span(name, there.line, 0, 0)) or ""
        column = there.column if 0 < there.column <= len(line) else len(line) - len(line.lstrip()) + 1
        return Span(name, there.line, column, max(column + 1, _end(line, column) if there.column else len(line) + 1))

    def named(self, said: str) -> str:
        if said not in self.names:
            real = os.path.realpath(said)
            name = os.path.relpath(real) if real.startswith(os.path.join(os.getcwd(), "")) else real
            inside = any(real.startswith(os.path.join(folder, "")) for folder in self.toolkit)
            self.names[said] = self.file if real == self.real else "" if inside else name
        return self.names[said]

    # --- notes ---

    def quoted(self, items: Sequence[p.Instruction]) -> str:
        items = [each for each in items if each.opcode not in _MEETING] or items
        numbers = [each.at.line for each in items]
        if len(numbers) == 1:
            text = " ".join(self.lines[numbers[0] - 1].split())
            return f"PTX line {numbers[0]}: `{text[:MOST_QUOTED]}`"
        shown = [*map(str, numbers[:MOST_NAMED])]
        if len(numbers) > MOST_NAMED:
            shown.append(f"{len(numbers) - MOST_NAMED} more")
        what = dict.fromkeys(f"`{each.mnemonic}`" for each in items)
        return f"PTX lines {', '.join(shown[:-1])} and {shown[-1]}: {', '.join([*what][:MOST_NAMED])}"

    def calls(self, items: Sequence[p.Instruction]) -> list[str]:
        """Where functions were inlined that these are part of, and in which header they stand."""
        found: dict[str, None] = {}
        for item in items:
            place = self.places[item.at.line]
            chain = place.chain if place is not None else []
            inside = [each for each in chain if self.named(each.file)]
            if chain and not self.named(chain[0].file):
                found[f"in {chain[0].file}:{chain[0].line}"] = None
            for each in inside[1:]:
                found[f"inlined at {self.named(each.file)}:{each.line}"] = None
        return [*found][:MOST_NAMED]


def _is_noted(item: p.Instruction) -> bool:
    return item.opcode in _TOUCHING and not _ELSEWHERE.intersection(item.modifiers[:1])


def _end(line: str, column: int) -> int:
    """Behind the statement that begins there: its semicolon, or the end of the line without spaces and comments."""
    semicolon = line.find(";", column - 1)
    if semicolon >= 0 and not line[column - 1 : semicolon].startswith(("for", "while")):
        return semicolon + 2
    return len(line.partition("//")[0].rstrip()) + 1 or len(line) + 1
