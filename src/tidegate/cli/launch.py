"""How PTX and CUDA kernels are compiled and launched, as the command line says it.

Needs   options of `check`, `explain`, `draw`, `show` and `sync`
Gives   `LaunchAsked`, which loads files with them
Keeps   what is said of PTX or CUDA must have some to be about
Cost    constant
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.say import stop

if TYPE_CHECKING:
    from tidegate.files import Loaded
    from tidegate.hosts.cuda.options import CudaOptions


@dataclass(frozen=True, slots=True)
class LaunchAsked:
    """`block`, `grid`, `arguments`: as they were typed. `takes`: the kinds of files that a launch may be about."""

    block: str | None
    grid: str | None
    arguments: Sequence[str]
    cuda: CudaOptions
    takes: Collection[str]
    target: str | None = None
    allow: Sequence[str] = ()  # codes of findings that are turned down

    def load(self, file: str, *, as_compiled: bool = True) -> Loaded:
        from tidegate.files import load

        return load(
            file,
            as_compiled=as_compiled,
            block=self.block,
            grid=self.grid,
            takes=self.takes,
            cuda=self.cuda,
            arguments=self.arguments,
            target=self.target,
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
    assembly: bool = False,
    allow: Sequence[str] | None = None,
) -> LaunchAsked:
    """The architecture of CUDA source is that of the target, unless it is named. `assembly`: taken as well."""
    from tidegate.files import CUDA, FINAL, PTX
    from tidegate.hosts.cuda.options import CudaOptions

    kinds = [Path(each.partition("::")[0]).suffix.lower() for each in files]
    sources = [each for each in kinds if each in CUDA]
    if (include or define or arch or std or keep_ptx is not None) and not sources:
        help = "PTX is compiled already: give the `.cu` file" if ".ptx" in kinds else "give a `.cu` file"
        stop("`-I`, `-D`, `--arch`, `--std` and `--keep-ptx` are for CUDA source", help)
    takes = tuple(FINAL) if assembly else PTX
    if (block is not None or grid is not None or arg) and not any(each in takes for each in kinds):
        more = (
            (", CUDA source and assembly", "`.ptx`, `.cu` or `.s`")
            if assembly
            else (" and CUDA source", "`.ptx` or `.cu`")
        )
        stop(f"`--block`, `--grid` and `--arg` are for PTX{more[0]}", f"give a {more[1]} file")
    if grid is not None and not any(each in PTX for each in kinds):
        stop("`--grid` is for PTX and CUDA source", "leave it out: nothing is known of the grid of assembly")
    if keep_ptx is not None and len(sources) > 1:
        stop("`--keep-ptx` names one file, and there are several sources", "check them one by one")
    named = target if target and target.startswith("sm_") else ""
    cuda = CudaOptions(tuple(include or ()), tuple(define or ()), arch or named, std or "")
    return LaunchAsked(block, grid, arg or (), cuda, takes, target, allow or ())
