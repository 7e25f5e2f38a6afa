"""The PTX or the assembly that a compiler made of a kernel, checked.

Needs   the text, as the compiler gives it, and how many threads a block has where the text does not state its shape
Gives   a `Doubt`: no words if every kernel of it is proved, else what stands in the way
Keeps   nothing else of the compiler is asked, so that the proof holds of what ptxas is given, or the GPU, whoever
        placed the barriers
Cost    that of `check kernel.ptx` and `check kernel.s`, without a run of the simulator
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.diag import BadInput
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.program import Amdgcn, AmdgcnProgram
from tidegate.hosts.amdgcn.program import programs_of as programs_of_amdgcn
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.program import Ptx, PtxProgram, programs_of
from tidegate.limits import check_instructions
from tidegate.passes import check_session
from tidegate.session import Session

RACE = "TG1"


class RaceWarning(UserWarning):
    """The verifier suspects a race in what a compiler has made of a kernel."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why something is not proved, without words if it is; `is_race`: two accesses were found that nothing orders."""

    words: str = ""
    is_race: bool = False


def find_final_doubt(text: str, kernel: str) -> Doubt:
    """Why the PTX of a kernel is not proved; a race counts as one only where both instructions are named."""
    file = f"{kernel}.ptx"
    try:
        ptx = Ptx(file, text, parse_ptx(text, file))
        check_instructions([len(each.body) for each in ptx.kernels], file)
        programs = programs_of(ptx, None)
    except BadInput as bad:
        return Doubt(bad.findings[0].message)
    return next((doubt for each in programs if (doubt := _doubt(each)).words), Doubt())


def find_assembly_doubt(text: str, kernel: str, threads: int = 0) -> Doubt:
    """Why the assembly of a kernel is not proved. `threads`: of a block; 0: the metadata states the block's shape."""
    file = f"{kernel}.amdgcn"
    try:
        amdgcn = Amdgcn(file, text, parse_amdgcn(text, file), block=(threads,) if threads else ())
        check_instructions([len(each.body) for each in amdgcn.kernels], file)
        programs = programs_of_amdgcn(amdgcn, None)
    except BadInput as bad:
        return Doubt(bad.findings[0].message)
    if not programs:
        return Doubt("the assembly has no kernel")
    return next((doubt for each in programs if (doubt := _doubt(each)).words), Doubt())


def _doubt(program: PtxProgram | AmdgcnProgram) -> Doubt:
    checked = check_session(Session(program.name, program.target, None, program.graph, program), simulate=False)
    errors = [each for each in checked.findings if each.severity == "error"]
    if checked.is_proved and not errors:
        return Doubt()
    if checked.unmodelled:
        return Doubt("; ".join(checked.unmodelled))
    if errors:
        first = errors[0]
        places = "; ".join(note for note in first.notes if " comes from " in note)
        return Doubt(f"{first.message}{f' ({places})' if places else ''}", first.code.startswith(RACE))
    undecided = checked.verification.undecided if checked.verification is not None else ()
    return Doubt("; ".join(undecided) or "the verifier does not decide it")
