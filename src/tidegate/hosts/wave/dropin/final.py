"""The assembly that Wave's kernels become, checked while Wave compiles them.

Needs   Wave's own functions that make assembly: through LLVM, or by its own emitter
Gives   the same results, and what the verifier says of each text
Keeps   Wave is given what it would have been given; a folder for intermediate files that the user asked for is used,
        and only what this compilation wrote there is read
Cost    that of `check kernel.s`, and of writing LLVM's intermediate files
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidegate.hosts.dropin.final import Doubt, find_assembly_doubt

SUFFIX = ".rocmasm"  # of the file that IREE writes before it assembles a kernel
NO_TEXT = "IREE left no assembly behind"


def compile_watched(compile_: Callable[[str, Any], Any], asm: str, options: Any, kernel: str) -> tuple[Any, Doubt]:
    """What Wave's function makes of MLIR, and what is doubtful about the assembly on the way."""
    with _folder_of(options) as folder:
        before = _times(folder)
        made = compile_(asm, replace(options, dump_intermediates=str(folder)))
        new = [path for path, time in _times(folder).items() if before.get(path) != time]
        texts = [path.read_text(encoding="utf-8") for path in sorted(new)]
    return made, find_doubt(texts, kernel)


def find_doubt(texts: list[str], kernel: str) -> Doubt:
    """The first reason why not all of these texts are proved."""
    if not texts:
        return Doubt(NO_TEXT)
    try:
        return next((doubt for text in texts if (doubt := find_assembly_doubt(text, kernel)).words), Doubt())
    except Exception as error:  # a mistake of ours must not end somebody else's compilation
        return Doubt(f"Tidegate fails: {type(error).__name__}: {error}")


@contextmanager
def _folder_of(options: Any) -> Iterator[Path]:
    if options.dump_intermediates:
        yield Path(options.dump_intermediates)
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        yield Path(folder)


def _times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob(f"*{SUFFIX}")}
