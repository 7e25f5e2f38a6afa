"""Barriers and waits for copies in one kernel for AMD, level by level: the plan, LLVM IR, its assembly.

Needs   the text that Tidegate hands on, LLVM IR before and behind LLVM's optimizer, and the assembly
Gives   `barriers_of`, `waits_of`: what stands at each level; `lost_lines`: source lines with fewer barriers at the end
        than at the start; `standing_in`: barriers in the plan's own text
Keeps   nothing is compared here: numbers only
Cost    the graph of the text, and a pass over each of the others

    plan ─▶ lowered: LLVM IR as Triton makes it ─▶ optimized ─▶ assembly
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from bench.triton_figures import barriers_in
from tidegate.comparison import code as amdgcn
from tidegate.graph.barriers import MEETING
from tidegate.graph.model import Sync
from tidegate.hosts.triton.program import TritonProgram, programs_of
from tidegate.hosts.triton.read import read_ttgir

LEVELS = ("plan", "lowered", "optimized", "assembly")
# What takes a number from each level to the next.
STEPS = ("lowering", "LLVM's optimizer", "code generation")

_BARRIER = re.compile(r"call void @llvm\.amdgcn\.s\.barrier(?:\.signal)?\([^)]*\)(?:.*?!dbg !(\d+))?")
_PLACE = re.compile(
    r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+).*?(?:inlinedAt: !(\d+))?\)$",
    re.MULTILINE,
)
_WAIT = re.compile(r"call void @llvm\.amdgcn\.(?:s\.wait\.asynccnt|s\.wait\.tensorcnt|wait\.asyncmark)\(i16 (\d+)")
_WAIT_IN_PLAN = re.compile(
    r"(?:ttg\.async_wait|amdg\.async_(?:tdm_|tdm_intrinsic_)?wait)\b.*?\b(?:num|num_inst|count) = (\d+)"
)
_WAIT_IN_ASSEMBLY = re.compile(r"^\t(?:; )?(?:wait_asyncmark|s_wait_asynccnt|s_wait_tensorcnt)[ (](\w+)", re.MULTILINE)
_LINE_IN_ASSEMBLY = re.compile(r"^\t\.loc\t\d+ (\d+) |^\t(s_barrier(?:_signal)?)\b", re.MULTILINE)
_DRAINING = re.compile(r"^\s*(?:ttg\.barrier|gpu\.barrier|rocdl\.barrier)\b", re.MULTILINE)
_BARE = re.compile(r"^\s*rocdl\.s\.barrier\b", re.MULTILINE)
_HALVES = re.compile(r"^\s*amdg\.cond_barrier\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Texts:
    """One kernel at each level."""

    placed: str
    lowered: str
    optimized: str
    assembly: str


def barriers_of(texts: Texts, name: str) -> list[int]:
    """How many barriers stand at each level; the plan's are those of the text and those that operations bring along."""
    plan = sum(barriers_in(each.built.graph)[0] for each in _programs(texts, name))
    in_llvm = (len(_BARRIER.findall(each)) for each in (texts.lowered, texts.optimized))
    return [plan, *in_llvm, amdgcn.barriers_in(texts.assembly)]


def waits_of(texts: Texts) -> list[list[int]]:
    """The counts of the waits for copies at each level, sorted."""
    in_llvm = (_WAIT.findall(each) for each in (texts.lowered, texts.optimized))
    found = (_WAIT_IN_PLAN.findall(texts.placed), *in_llvm, _WAIT_IN_ASSEMBLY.findall(texts.assembly))
    return [sorted(int(each, 0) for each in counts) for counts in found]


def standing_in(placed: str) -> tuple[int, int, int]:
    """Barriers in the plan's text: all, of those the ones that drain nothing, of those such for half of the waves."""
    draining, bare, halves = (len(each.findall(placed)) for each in (_DRAINING, _BARE, _HALVES))
    return draining + bare + halves, bare + halves, halves


def lost_lines(texts: Texts, name: str) -> dict[int, int]:
    """Lines of the source that have fewer barriers as they are lowered than in the plan, or in the assembly than that.

    The first by the line of the kernel itself, the second by that of the function that was inlined into it.
    """
    places = {number: (int(line), caller) for number, line, caller in _PLACE.findall(texts.lowered)}
    numbers = [each for each in _BARRIER.findall(texts.lowered) if each]
    inner = Counter(places[each][0] for each in numbers)
    outer = Counter(_outermost(places, each) for each in numbers)
    planned = Counter(line for each in _programs(texts, name) for line in _planned_lines(each))
    return dict((planned - outer) + (inner - _lines_in(texts.assembly)))


def _outermost(places: dict[str, tuple[int, str]], number: str) -> int:
    while places[number][1]:
        number = places[number][1]
    return places[number][0]


def _planned_lines(program: TritonProgram) -> Iterator[int]:
    for point in program.built.graph.points:
        if isinstance(point.action, Sync) and isinstance(point.action.op, MEETING):
            source = program.source(point.at)
            yield source.line if source else 0


def _lines_in(assembly: str) -> Counter[int]:
    found: Counter[int] = Counter()
    line = 0
    for new, barrier in _LINE_IN_ASSEMBLY.findall(assembly):
        line = int(new) if new else line
        found[line] += bool(barrier)
    return found


def _programs(texts: Texts, name: str) -> list[TritonProgram]:
    return programs_of(read_ttgir(texts.placed, f"{name}.ttgir"))
