"""The command line. Only this package prints or exits.

Exit status: 0 clean, 1 findings, 2 bad input or output that cannot be written, 3 an internal error, with a reproducer;
130 after Ctrl-C, 141 if nobody reads what is printed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.build import build_command
from tidegate.cli.check import check_command
from tidegate.cli.crash import report_crash
from tidegate.cli.draw import draw_command
from tidegate.cli.explain import explain_command
from tidegate.cli.help import Command, Commands, drop_streams
from tidegate.cli.run import run_command
from tidegate.cli.say import emit, print_findings
from tidegate.cli.schedule import schedule_command
from tidegate.cli.show import demo_command, show_command, targets_command
from tidegate.cli.sync import sync_command

if TYPE_CHECKING:
    from tidegate.diag import Finding

app = typer.Typer(
    name="tidegate",
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from tidegate import __version__

        emit(f"tidegate {__version__}")
        raise typer.Exit(0)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A synchronization compiler for GPU kernels: the cheapest barriers and the loosest waits that are correct.

    Exit status: 0 clean, 1 findings, 2 bad input, 3 an internal error, 130 after Ctrl-C.
    """


app.command("targets", cls=Command)(targets_command)
app.command("show", cls=Command)(show_command)
app.command("sync", cls=Command)(sync_command)
app.command("check", cls=Command)(check_command)
app.command("explain", cls=Command)(explain_command)
app.command("schedule", cls=Command)(schedule_command)
app.command("build", cls=Command)(build_command)
app.command("run", cls=Command)(run_command)
app.command("draw", cls=Command)(draw_command)
app.command("demo", cls=Command)(demo_command)


def main() -> None:
    """Runs a command; every end is an exit status, never a traceback."""
    from tidegate.diag import BadInput

    _open_streams()
    try:
        app(prog_name="tidegate")
    except BadInput as bad:
        sys.exit(_refuse(bad.findings))
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        from tidegate.diag import Finding

        sys.exit(_refuse([Finding("TG022", "this takes more memory than there is", help="give smaller sizes")]))
    except Exception as error:
        sys.exit(report_crash(error))


def _open_streams() -> None:
    """A stream that was closed before the start is None for Python: what goes there goes nowhere.

    What a stream's encoding cannot say is escaped: an error in the middle of a report would end it.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _refuse(findings: Sequence[Finding]) -> int:
    """Bad input: says why, if anyone can hear it."""
    from tidegate.diag import Sources

    try:
        print_findings(findings, Sources(), err=True)
    except (OSError, ValueError):
        drop_streams()
    return 2
