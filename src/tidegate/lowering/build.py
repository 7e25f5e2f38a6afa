"""A kernel that is proved, as instructions of its target that are proved again.

Needs   a session with a kernel; LLVM (`pip install tidegate[llvm]`)
Gives   `BuiltKernel`: assembly, the LLVM IR that it comes from, a manifest, and what the reading back said
Keeps   what is written was read back from its text: every barrier, wait and fence of the kernel has its instruction
        there, and races and hangs are decided for the instructions as for any other assembly
Cost    LLVM, and `check` of what comes out
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.diag import BadInput, Finding
from tidegate.disk import write_whole
from tidegate.lowering.compared import compare_with_plan, counts_of
from tidegate.lowering.compile import compile_ir
from tidegate.lowering.lower import LoweredKernel, lower
from tidegate.lowering.manifest import Manifest, manifest_of
from tidegate.passes import Checked, check_session
from tidegate.session import Session, sessions_of


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """`read_back`: what `check` says of the assembly; None: it was not asked, or cannot read this target's."""

    session: Session
    lowered: LoweredKernel
    assembly: str
    manifest: Manifest
    read_back: Checked | None

    @property
    def instructions(self) -> dict[str, int]:
        """Barriers, waits and fences of the kernel by kind: each was found among the instructions."""
        assert self.session.kernel is not None
        return counts_of(self.session.kernel, self.session.target)

    @property
    def is_proved(self) -> bool:
        return self.read_back is not None and self.read_back.is_proved

    def __bool__(self) -> bool:
        return self.is_proved

    def save(self, path: Path) -> None:
        """The assembly or, as `.ll`, what LLVM took; the manifest beside it."""
        write_whole(str(path), self.lowered.text if path.suffix == ".ll" else self.assembly)
        write_whole(str(path.with_suffix(".json")), self.manifest.text())

    def launch(self, **arguments: Any) -> None:
        """Runs it on this machine's GPU: arrays, indices, flags and sizes by name; arrays are the GPU's."""
        from tidegate.lowering.launch import LoadedKernel

        names = {each.name for each in self.manifest.arrays}
        plain = {name for name, _ in self.manifest.scalars}
        arrays = {name: value for name, value in arguments.items() if name in names}
        scalars = {name: value for name, value in arguments.items() if name in plain}
        sizes = {name: value for name, value in arguments.items() if name not in names | plain}
        LoadedKernel(self.assembly, self.manifest).launch(arrays, sizes=sizes, **scalars)


def build(session: Session) -> BuiltKernel:
    """Raises `BadInput` where an operation cannot be built, and where LLVM cannot compile it."""
    kernel, target = session.kernel, session.target
    if kernel is None:
        message = f"`@{session.name}` is no kernel of the language: it has no data to compute with"
        raise BadInput(Finding("TG025", message, help="build a `.tide` file, or a Python file with a kernel"))
    lowered = lower(kernel, target)
    assembly = compile_ir(lowered.text, target).assembly
    missing = tuple(compare_with_plan(kernel, assembly, target))
    if missing:
        raise AssertionError("; ".join(map(str, missing)))  # nothing is written: a fault of ours
    manifest = manifest_of(kernel, lowered, target)
    return BuiltKernel(session, lowered, assembly, manifest, read_back(assembly, session, manifest))


def read_back(assembly: str, session: Session, manifest: Manifest) -> Checked | None:
    """The verdict on the assembly, by its own reader."""
    from tidegate.files import load_text

    kind = ".ptx" if session.target.vendor == "NVIDIA" else ".s"
    loaded = load_text(assembly, f"{session.name}{kind}", kind=kind)
    (unit,) = sessions_of(loaded, session.target.name)
    return check_session(unit)
