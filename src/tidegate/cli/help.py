"""Help that fits the terminal, and what a command ends with whose output cannot be written.

The docstring of a command is its help. Its paragraph `Examples:` names commands in backticks; they are shown at the
end, each on its own line.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from tidegate.cli.terminal import NARROWEST, is_coloured
from tidegate.diag import visible
from tidegate.disk import reason_of, write_whole

WIDEST = 120
HEADINGS = re.compile(r"(?m)^(?:Usage|Arguments|Options|Commands|Examples):")
# Typer brings its own copy of click from some version on; the class is found from its name that both offer.
USAGE_ERROR: Any = typer.BadParameter.__base__
# What shells say of a process that wrote to a pipe which nobody reads: 128 and the number of SIGPIPE.
CLOSED_PIPE = 141


class Command(TyperCommand):
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.help, self.examples = split_examples(self.help or "")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.width = help_width()
        super().format_help(ctx, formatter)
        with formatter.section("Examples"):
            for each in self.examples:
                formatter.write("".join(f"  {line}\n" for line in continued(each, formatter.width - 2)))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub(r"\{(\w+)\}", r"\1", each) for each in super().collect_usage_pieces(ctx)]

    def get_help(self, ctx: Any) -> str:
        return _painted(super().get_help(ctx), ctx)


class Commands(TyperGroup):
    """All commands. Each ends quietly if its output is a closed pipe, and with a sentence if the disk is full."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        with output_ends(), _shown_safely(), _written_whole():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        with output_ends(), _shown_safely():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.width = help_width()
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each with the first sentence of its help, all of it."""
        rows = [(name, (self.commands[name].help or "").partition("\n\n")[0]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(said.split())) for name, said in rows])

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def get_help(self, ctx: Any) -> str:
        return _painted(super().get_help(ctx), ctx)


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Arguments by their names alone; what is said of an option stands beside it or, if there is no room, below."""
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        records = [(each, each.get_help_record(ctx)) for each in command.get_params(ctx)]
        rows = [
            (each.metavar or record[0] if kind == "argument" else record[0], record[1])
            for each, record in records
            if record is not None and each.param_type_name == kind
        ]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows, col_max=min(30, formatter.width // 2))


def help_width() -> int:
    """Columns of the terminal, so that lines stay readable: no more than `WIDEST`."""
    return max(NARROWEST, min(shutil.get_terminal_size().columns, WIDEST) - 2)


def split_examples(text: str) -> tuple[str, tuple[str, ...]]:
    """The help without its paragraph of examples, and the examples."""
    found = re.search(r"(?ms)^[ \t]*Examples?:\s+(`.*?)(?:\n[ \t]*\n|\Z)", text)
    if found is None:
        return text, ()
    examples = tuple(" ".join(each.split()) for each in re.findall(r"`([^`]+)`", found[1]))
    return (text[: found.start()] + text[found.end() :]).strip(), examples


def continued(command: str, width: int) -> Iterator[str]:
    """A command on as many lines as it needs, as a shell reads them; an option stays with its value."""
    line = ""
    for part in re.split(r" (?=-)", command):
        if line and len(line) + len(part) + 3 > width:
            yield f"{line} \\"
            line = f"    {part}"
        else:
            line = f"{line} {part}" if line else part
    yield line


def _painted(text: str, ctx: Any) -> str:
    if not is_coloured(sys.stdout):
        return text
    ctx.color = True  # else it is taken out again where the output is no terminal
    return HEADINGS.sub(lambda found: f"\033[1m{found[0]}\033[0m", text)


@contextmanager
def _written_whole() -> Iterator[None]:
    """While options are read, `--install-completion` among them: Typer writes the start file of the shell anew with
    `Path.write_text`, which on a full disk would empty it.
    """

    def write_text(path: Path, text: str, *_: object, **__: object) -> int:
        write_whole(path, text)
        return len(text)

    known = Path.write_text
    Path.write_text = write_text  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Path.write_text = known  # type: ignore[method-assign]


@contextmanager
def _shown_safely() -> Iterator[None]:
    """Typer prints what was typed as it is: here it becomes visible."""
    try:
        yield
    except USAGE_ERROR as error:
        error.message = visible(error.message)
        raise


@contextmanager
def output_ends() -> Iterator[None]:
    """A stream that cannot be written ends the command. Files that cannot be read or written are bad input before."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        drop_streams()
        raise typer.Exit(CLOSED_PIPE) from None
    except OSError as error:
        with suppress(OSError, ValueError):
            print(f"error: the output cannot be written: {reason_of(error)}", file=sys.stderr)
        drop_streams()
        raise typer.Exit(2) from None


def drop_streams() -> None:
    """What is still to be printed goes nowhere; else Python tries again at its end, and complains."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(nothing, stream.fileno())
