"""The PTX or the assembly that Triton made of a kernel, checked.

Needs   the text, as Triton's stage gives it; PTX names the shape of its block itself
Gives   a `Doubt`: no words if every kernel of it is proved, else what stands in the way
Keeps   nothing of Triton is asked but how many threads a block has, so that the proof holds of what ptxas is given, or
        the GPU, whoever placed the barriers
Cost    that of `check kernel.ptx` and `check kernel.s`, without a run of the simulator
"""

from __future__ import annotations

from tidegate.diag import BadInput
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.program import Amdgcn, AmdgcnProgram
from tidegate.hosts.amdgcn.program import programs_of as programs_of_amdgcn
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.program import Ptx, PtxProgram, programs_of
from tidegate.hosts.triton.dropin.placing import Doubt
from tidegate.limits import check_instructions
from tidegate.passes import check_session
from tidegate.session import Session

RACE = "TG1"


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


def find_assembly_doubt(text: str, kernel: str, threads: int) -> Doubt:
    """The same for the assembly of a kernel in blocks of so many threads."""
    file = f"{kernel}.amdgcn"
    try:
        amdgcn = Amdgcn(file, text, parse_amdgcn(text, file), block=(threads,))
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
