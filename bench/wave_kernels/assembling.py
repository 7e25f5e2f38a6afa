"""`python -m bench.wave_kernels.assembling NAME TARGET DIR`: one kernel's assembly, as DIR/*.rocmasm.

A module of its own, so that a crash of the compiler ends this process and no other.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from bench.wave_kernels import Case, cases, trace_of


def main() -> int:
    name, target, folder = sys.argv[1:]
    write_assembly(next(each for each in cases() if each.name == name), target, Path(folder))
    return 0


def write_assembly(case: Case, target: str, folder: Path) -> None:
    """Lets IREE compile the MLIR of a kernel and leave what it makes on the way."""
    from wave_lang.kernel.wave.utils.compile_utils import compile_to_vmfb

    traced = trace_of(case, target)
    options = replace(traced.options, dump_intermediates=str(folder), create_vmfb_file=str(folder / "kernel.vmfb"))
    Path(options.create_vmfb_file).write_bytes(compile_to_vmfb(traced.mlir, options))


if __name__ == "__main__":
    sys.exit(main())
