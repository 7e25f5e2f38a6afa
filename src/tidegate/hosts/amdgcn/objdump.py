"""The disassembler of LLVM, run on a code object.

Needs   an `llvm-objdump` on the path, or that of ROCm
Gives   `disassemble`: its text
Keeps   the newest that knows the GPU is taken; where none does, `BadInput` says which were asked, and what each said
Cost    a process, about a second for a megabyte
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tidegate.diag import BadInput, Finding, Label, Span

NAME = "llvm-objdump"
ROCM = "/opt/rocm/llvm/bin"  # where ROCm has it, on the path or not
VERSIONS = range(40, 13, -1)
SECONDS = 300
MOST_SAID = 160  # characters of a tool's own words


def disassemble(data: bytes, file: str) -> str:
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        path = Path(folder) / "kernel.hsaco"
        path.write_bytes(data)
        for tool in find_objdumps():
            text, why_not = _run(tool, path)
            if text:
                return text
            said.append(f"`{tool}`: {why_not}")
    place = Label(Span(file, 0, 0, 0))
    if not said:
        help_ = f"install LLVM or ROCm, or give the text that `{NAME} -d` prints of it elsewhere"
        raise BadInput(
            Finding("TG007", f"a code object is read with `{NAME}`, which is not on the path", (place,), help=help_)
        )
    message = f"no `{NAME}` here disassembles this code object"
    raise BadInput(Finding("TG007", message, (place,), notes=tuple(said), help="a newer LLVM knows more GPUs"))


def find_objdumps() -> Iterator[str]:
    """Those with a number in their name first, from the newest on."""
    names = (*(f"{NAME}-{version}" for version in VERSIONS), NAME, os.path.join(ROCM, NAME))
    seen: set[str] = set()
    for each in names:
        found = shutil.which(each)
        if found is not None and (real := os.path.realpath(found)) not in seen:
            seen.add(real)
            yield found


def _run(tool: str, path: Path) -> tuple[str, str]:
    """The text, or why there is none."""
    try:
        done = subprocess.run(
            [tool, "-d", str(path)], capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)[:MOST_SAID]
    if done.returncode == 0 and re.search(r"// *[0-9A-Fa-f]{6,}:", done.stdout):
        return done.stdout, ""
    words = done.stderr.replace(str(path), "the file").strip().split("\n")[0]
    return "", words[:MOST_SAID] or "it prints no instructions"
