"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.complete import complete_check_stage, complete_file, complete_target, complete_words

FILE_HELP = (
    "A `.tide` kernel, a `.sync` graph, Triton's `.ttgir`, PTX, CUDA source, AMD assembly, or a Python file with "
    "`@tidegate.kernel` functions, which is executed to trace them; text files are never executed. `FILE::name` picks "
    "one kernel."
)
FileArg = Annotated[
    str, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False, autocompletion=complete_file)
]
FilesArg = Annotated[
    list[str], typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False, autocompletion=complete_file)
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="T",
        help="The GPU; default: the one the file names, else the default that `tidegate targets` names.",
        autocompletion=complete_target,
    ),
]
MaxFindings = Annotated[
    int,
    typer.Option(
        "--max-findings",
        metavar="N",
        min=0,
        help="Show at most N findings, one per cause; 0: show all.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a versioned JSON document instead of text.")]
PrintAfter = Annotated[
    str | None,
    typer.Option(
        metavar="STAGE",
        help="Print the result of a stage: `kernel`, `graph`, `verify` or `judge`.",
        autocompletion=complete_check_stage,
    ),
]
StopAfter = Annotated[
    str | None, typer.Option(metavar="STAGE", help="Stop after a stage.", autocompletion=complete_check_stage)
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="CODE",
        help="Turn a finding down to a note and an assumption of the proof, here and in the file by a line "
        "`tidegate: allow CODE` in a comment: `TG109`.",
        autocompletion=complete_words("TG109"),
    ),
]
OutOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write to a file.")]
AtomicsOption = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="`commute`: no order between atomics of one operator and type whose results are not used. `order`: "
        "order them like other accesses.",
        autocompletion=complete_words("commute", "order"),
    ),
]
StaggerOption = Annotated[
    int, typer.Option(metavar="S", help="Assume that the high half of the waves is S arrivals behind in loops.")
]
SeedOption = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Seed for random choices.", autocompletion=complete_words(*map(str, range(8)))
    ),
]
BlockOption = Annotated[
    str | None,
    typer.Option("--block", metavar="N|NxM|NxMxK", help="Threads per block, for PTX, CUDA and assembly."),
]
GridOption = Annotated[
    str | None,
    typer.Option("--grid", metavar="N|NxM|NxMxK", help="PTX, CUDA: blocks of the launch; default: any number."),
]
ArgOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="N=VALUE",
        help="PTX, CUDA: the integer that parameter N gets, counted from 0; assembly: at byte N; may be repeated.",
    ),
]
IncludeOption = Annotated[
    list[str] | None,
    typer.Option("--include", "-I", metavar="FOLDER", help="CUDA: a folder of includes; may be repeated."),
]
DefineOption = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="NAME[=VALUE]", help="CUDA: define a macro; may be repeated."),
]
ArchOption = Annotated[
    str | None,
    typer.Option(
        "--arch", metavar="SM", help="CUDA: compile for this architecture, as in `sm_90a`; default: --target."
    ),
]
StdOption = Annotated[str | None, typer.Option("--std", metavar="C++NN", help="CUDA: the standard, as in `c++20`.")]
KeepPtxOption = Annotated[
    Path | None, typer.Option("--keep-ptx", metavar="OUT", help="CUDA: write the PTX that is checked to a file.")
]
