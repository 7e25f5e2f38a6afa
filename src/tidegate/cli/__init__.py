"""The command line. Only this package prints or exits.

Exit status: 0 clean, 1 findings, 2 bad input, 3 a mistake of Tidegate's own, with a reproducer; 130 after Ctrl-C, 141
if nobody reads what is printed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.check import check_command
from tidegate.cli.draw import draw_command
from tidegate.cli.explain import explain_command
from tidegate.cli.help import Command, Group
from tidegate.cli.run import run_command
from tidegate.cli.say import emit, print_findings
from tidegate.cli.schedule import schedule_command
from tidegate.cli.show import demo_command, show_command, targets_command
from tidegate.cli.sync import sync_command

app = typer.Typer(
    name="tidegate",
    cls=Group,
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

    Exit status: 0 clean, 1 findings, 2 bad input, 3 a mistake of Tidegate's own, 130 after Ctrl-C.
    """


app.command("targets", cls=Command)(targets_command)
app.command("show", cls=Command)(show_command)
app.command("sync", cls=Command)(sync_command)
app.command("check", cls=Command)(check_command)
app.command("explain", cls=Command)(explain_command)
app.command("schedule", cls=Command)(schedule_command)
app.command("run", cls=Command)(run_command)
app.command("draw", cls=Command)(draw_command)
app.command("demo", cls=Command)(demo_command)


def main() -> None:
    """Runs a command; every end is an exit status, never a traceback."""
    from tidegate.diag import BadInput, Sources

    _open_streams()
    try:
        app()
    except BadInput as bad:
        print_findings(bad.findings, Sources(), err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        sys.exit(_report_crash(error))


def _open_streams() -> None:
    """A stream that was closed before the start is None for Python: what goes there goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def _report_crash(error: Exception) -> int:
    """An internal error: says where a reproducer lies."""
    import hashlib
    import tempfile
    import traceback

    from tidegate import __version__

    trace = "".join(traceback.format_exception(error))
    inputs = [Path(each.partition("::")[0]) for each in sys.argv[1:]]
    parts = [f"tidegate {__version__}, Python {sys.version}", " ".join(["tidegate", *sys.argv[1:]]), trace]
    parts += [f"--- {path.name}\n{path.read_text(errors='replace')}" for path in inputs if path.is_file()]
    text = "\n\n".join(parts)
    name = f"tidegate-crash-{hashlib.sha256(text.encode()).hexdigest()[:10]}.txt"
    place = Path(tempfile.gettempdir()) / name
    last = trace.strip().splitlines()[-1]
    print(f"error: Tidegate failed: {last}", file=sys.stderr)
    try:
        place.write_text(text, encoding="utf-8")
    except OSError:
        print(text, file=sys.stderr)
        print("This is a mistake of Tidegate's own. Please report it with what stands above", file=sys.stderr)
    else:
        print(f"This is a mistake of Tidegate's own. Please report it with {place}", file=sys.stderr)
    return 3
