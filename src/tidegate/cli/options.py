"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FILE_HELP = (
    "A `.tide` kernel, a `.sync` graph, or a Python file with `@tidegate.kernel` functions, which is executed to trace "
    "them; text files never execute anything. `FILE::name` picks one kernel."
)
FileArg = Annotated[str, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)]
FilesArg = Annotated[list[str], typer.Argument(metavar="FILE...", help=FILE_HELP, show_default=False)]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="T",
        help="The GPU; default: the one the file names, else the default that `tidegate targets` names.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a versioned JSON document instead of text.")]
PrintAfter = Annotated[
    str | None, typer.Option(metavar="STAGE", help="Print what a stage makes: `kernel`, `graph`, `verify` or `judge`.")
]
StopAfter = Annotated[str | None, typer.Option(metavar="STAGE", help="Stop after a stage.")]
OutOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write to a file.")]
AtomicsOption = Annotated[
    str, typer.Option(metavar="HOW", help="`order` atomics among themselves, or let those `commute` that do.")
]
StaggerOption = Annotated[
    int, typer.Option(metavar="S", help="Assume that in loops the high half of the waves is so many arrivals behind.")
]
