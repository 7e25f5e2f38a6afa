"""`tg.build`: a proved kernel as instructions of its target.

Needs   a kernel in any of the forms of `programs.py`; LLVM (`pip install tidegate[llvm]`)
Gives   a result that is true only if the instructions are proved, too
Keeps   a kernel that is not proved is not built, unless that is asked for
Cost    two proofs, and what LLVM takes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.decided import is_right
from tidegate.diag import BadInput, Finding
from tidegate.passes import check_session
from tidegate.programs import Program, open_program
from tidegate.targets import Target

if TYPE_CHECKING:
    from tidegate.lowering.build import BuiltKernel


def build(program: Program, target: str | Target | None = None, *, allow_findings: bool = False) -> BuiltKernel:
    """Makes a kernel's instructions, PTX or AMDGCN, through LLVM (`pip install tidegate[llvm]`).

    The kernel is proved first, unless `allow_findings`, and the instructions are read back and proved again: the result
    is true if they are. `launch(...)` runs them on this machine's GPU, `save(path)` writes them with their manifest.
    """
    from tidegate.lowering.build import build as build_session

    opened = open_program(program, target)
    session = opened.session
    if session.meaningless:
        raise BadInput(*session.meaningless)
    if not allow_findings:
        checked = check_session(session)
        if not is_right(checked):
            errors = [each for each in checked.findings if each.severity == "error"]
            said = Finding("TG025", f"`@{session.name}` is not proved", help="`tg.sync` synchronizes it")
            raise BadInput(said, *errors)
    return build_session(session)
