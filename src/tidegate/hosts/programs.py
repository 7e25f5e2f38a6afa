"""Programs of other compilers, whichever it was.

Needs   a file of TTGIR, PTX or assembly that was read, and the target that was asked for
Gives   its programs, each with a graph of its own
Keeps   no reader is imported that the file does not need
Cost    that of building each graph
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.graph.model import SyncGraph

if TYPE_CHECKING:
    from tidegate.hosts.amdgcn.program import Amdgcn, AmdgcnProgram
    from tidegate.hosts.ptx.program import Ptx, PtxProgram
    from tidegate.hosts.triton.program import TritonProgram
    from tidegate.hosts.triton.read import Ttgir


def host_programs(
    ttgir: Ttgir | None, ptx: Ptx | None, amdgcn: Amdgcn | None, target: str | None
) -> Iterator[tuple[AmdgcnProgram | PtxProgram | TritonProgram, SyncGraph]]:
    if ttgir is not None:
        from tidegate.hosts.triton.program import programs_of as programs_of_ttgir

        for each in programs_of_ttgir(ttgir, target):
            yield each, each.built.graph
    if ptx is not None:
        from tidegate.hosts.ptx.program import programs_of as programs_of_ptx

        for program in programs_of_ptx(ptx, target):
            yield program, program.graph
    if amdgcn is not None:
        from tidegate.hosts.amdgcn.program import programs_of as programs_of_amdgcn

        for kernel in programs_of_amdgcn(amdgcn, target):
            yield kernel, kernel.graph
