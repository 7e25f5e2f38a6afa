"""What was written, as a reader of the text finds it.

Needs   results of `propose` with their plans carried out, and the text that holds all of them
Gives   for each the program that the text alone gives, with its places in the text; or why that is not the program
        that was planned
Keeps   nothing of the plan is taken over: the text is parsed, and for TTGIR a graph is built of what it says. A kernel
        or a graph that is equal to the planned one may keep the places of the file that it came from
Cost    that of reading the text, and of building the graphs of TTGIR
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidegate.diag import BadInput, Span
from tidegate.files import Loaded, load_text
from tidegate.language.ops import Kernel, walk_ops
from tidegate.session import Session
from tidegate.synchronize.instructions import amdgcn_of, ptx_of, session_of
from tidegate.synchronize.model import Synchronized

if TYPE_CHECKING:
    from tidegate.hosts.amdgcn.program import Amdgcn
    from tidegate.hosts.ptx.program import Ptx


@dataclass(frozen=True, slots=True)
class Written:
    """A program as its text gives it. `doubt`: why the text is not what was planned; then nothing is said of it.

    `places`: from the places of what was given to those in the text, where the unit has those of the text.
    """

    unit: Session
    places: dict[Span, Span] = field(default_factory=dict)
    doubt: str = ""


def read_back(results: Sequence[Synchronized], text: str, file: str, *, keep_places: bool = False) -> list[Written]:
    """The programs of a text that was written. `keep_places`: those of the given file, where the program is equal."""
    if (program := ptx_of(results[0].unit)) is not None:
        return _read_ptx(results, program.ptx, text, file)
    if (assembly := amdgcn_of(results[0].unit)) is not None:
        return _read_amdgcn(results, assembly.amdgcn, text, file)
    try:
        loaded = load_text(text, file, as_compiled=False, kind=_kind(results[0].unit))
    except BadInput as bad:
        return [Written(each.unit, doubt=_words(bad)) for each in results]
    return [_read(each, loaded, keep_places) for each in results]


def _kind(unit: Session) -> str:
    """How the name of a file ends that holds such a program."""
    return (".ttgir" if unit.origin is not None else ".sync") if unit.kernel is None else ".tide"


def _words(bad: BadInput) -> str:
    return f"the text cannot be read back: {bad.findings[0].message}"


def _read(result: Synchronized, loaded: Loaded, keep_places: bool) -> Written:
    if result.unit.origin is not None:
        return _read_ttgir(result, loaded)
    unit = result.unit
    assert result.made is not None
    if result.kernel is not None:
        kernel = next((each for each in loaded.kernels if each.name == result.kernel.name), None)
        if kernel != result.kernel:
            return Written(unit, doubt=_other(kernel is not None))
        assert kernel is not None
        if keep_places:
            return Written(result.made)
        return Written(replace(unit, kernel=kernel), _places(result.kernel, kernel))
    graph = loaded.graph
    if graph != result.made.graph:
        return Written(unit, doubt=_other(graph is not None))
    assert graph is not None
    if keep_places:
        return Written(result.made)
    pairs = zip(result.made.graph.points, graph.points, strict=True)
    return Written(replace(unit, given=graph), {old.at: new.at for old, new in pairs if old.at.line})


def _other(is_there: bool) -> str:
    return "the text contains a different program than planned" if is_there else "the text does not contain the program"


def _places(before: Kernel, after: Kernel) -> dict[Span, Span]:
    pairs = zip(walk_ops(before.body), walk_ops(after.body), strict=True)
    return {old.at: new.at for old, new in pairs if old.at.line}


def _read_ttgir(result: Synchronized, loaded: Loaded) -> Written:
    from tidegate.hosts.triton.compare import compare
    from tidegate.hosts.triton.program import TritonProgram, programs_for

    unit, given = result.unit, result.unit.origin
    assert isinstance(given, TritonProgram)
    if loaded.ttgir is None:
        return Written(unit, doubt=_other(False))
    try:
        programs = programs_for(loaded.ttgir, unit.target)
    except BadInput as bad:
        return Written(unit, doubt=_words(bad))
    program = next((each for each in programs if each.name == unit.name), None)
    if program is None:
        return Written(unit, doubt=_other(False))
    compared = compare(given.ttgir, program.ttgir)
    if compared.difference:
        return Written(unit, doubt=f"{_other(True)}: {compared.difference}")
    return Written(replace(unit, given=program.built.graph, origin=program), compared.places)


def _read_ptx(results: Sequence[Synchronized], given: Ptx, text: str, file: str) -> list[Written]:
    """The same launch of the kernels that the new text holds, which has to differ in synchronization alone."""
    from tidegate.hosts.ptx.parse import parse_ptx
    from tidegate.hosts.ptx.program import programs_of
    from tidegate.hosts.ptx.write import find_difference

    try:
        module = parse_ptx(text, file)
        difference = find_difference(given.module, module)
        ptx = replace(given, file=file, text=text, module=module)
        programs = {each.name: each for each in programs_of(ptx, results[0].unit.target.name)}
    except BadInput as bad:
        return [Written(each.unit, doubt=_words(bad)) for each in results]
    if difference:
        return [Written(each.unit, doubt=f"{_other(True)}: {difference}") for each in results]
    return [Written(session_of(programs[each.unit.name])) for each in results]


def _read_amdgcn(results: Sequence[Synchronized], given: Amdgcn, text: str, file: str) -> list[Written]:
    """The same launch of the kernels that the new text holds, which has to differ in synchronization alone."""
    from tidegate.hosts.amdgcn.parse import parse_amdgcn
    from tidegate.hosts.amdgcn.program import programs_of
    from tidegate.hosts.amdgcn.write import find_difference

    try:
        assembly = parse_amdgcn(text, file)
        difference = find_difference(given.assembly, assembly)
        amdgcn = replace(given, file=file, text=text, assembly=assembly)
        programs = {each.name: each for each in programs_of(amdgcn, results[0].unit.target.name)}
    except BadInput as bad:
        return [Written(each.unit, doubt=_words(bad)) for each in results]
    if difference:
        return [Written(each.unit, doubt=f"{_other(True)}: {difference}") for each in results]
    return [Written(session_of(programs[each.unit.name])) for each in results]
