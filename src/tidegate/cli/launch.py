"""How PTX and CUDA kernels are compiled and launched, as the command line says it.

Needs   options of `check`, `explain`, `draw`, `show` and `sync`
Gives   `LaunchAsked`, which loads files with them
Keeps   what is said of PTX or CUDA must have some to be about
Cost    constant
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.say import stop

if TYPE_CHECKING:
    from tidegate.files import Loaded
    from tidegate.hosts.cuda.options import CudaOptions


@dataclass(frozen=True, slots=True)
class LaunchAsked:
    """`block`, `grid`, `arguments`: as they were typed."""

    block: str | None
    grid: str | None
    arguments: Sequence[str]
    cuda: CudaOptions

    def load(self, file: str, *, as_compiled: bool = True) -> Loaded:
        from tidegate.files import load

        return load(
            file,
            as_compiled=as_compiled,
            block=self.block,
            grid=self.grid,
            takes_ptx=True,
            cuda=self.cuda,
            arguments=self.arguments,
        )


def launch_of(
    files: Sequence[str],
    target: str | None,
    *,
    block: str | None,
    grid: str | None = None,
    arg: Sequence[str] | None,
    include: Sequence[str] | None = None,
    define: Sequence[str] | None = None,
    arch: str | None = None,
    std: str | None = None,
    keep_ptx: Path | None = None,
) -> LaunchAsked:
    """The architecture of CUDA source is that of the target, unless it is named."""
    from tidegate.files import CUDA
    from tidegate.hosts.cuda.options import CudaOptions

    kinds = [Path(each.partition("::")[0]).suffix.lower() for each in files]
    sources = [each for each in kinds if each in CUDA]
    if (include or define or arch or std or keep_ptx is not None) and not sources:
        help = "PTX is compiled already: give the `.cu` file" if ".ptx" in kinds else "give a `.cu` file"
        stop("`-I`, `-D`, `--arch`, `--std` and `--keep-ptx` are for CUDA source", help)
    if (block is not None or grid is not None or arg) and not sources and ".ptx" not in kinds:
        stop("`--block`, `--grid` and `--arg` are for PTX and CUDA source", "give a `.ptx` or `.cu` file")
    if keep_ptx is not None and len(sources) > 1:
        stop("`--keep-ptx` names one file, and there are several sources", "check them one by one")
    named = target if target and target.startswith("sm_") else ""
    cuda = CudaOptions(tuple(include or ()), tuple(define or ()), arch or named, std or "")
    return LaunchAsked(block, grid, arg or (), cuda)
