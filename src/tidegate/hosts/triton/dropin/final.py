"""The PTX that Triton made of a kernel, checked.

Needs   the text of the PTX, as Triton's stage gives it; it names the shape of its block itself
Gives   a `Doubt`: no words if every kernel of it is proved, else what stands in the way
Keeps   nothing of Triton is asked, so that the proof holds of what ptxas is given, whoever placed the barriers
Cost    that of `check kernel.ptx`, without a run of the simulator
"""

from __future__ import annotations

from tidegate.diag import BadInput
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


def _doubt(program: PtxProgram) -> Doubt:
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
