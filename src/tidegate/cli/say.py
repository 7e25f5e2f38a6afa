"""Printing, exit statuses, and bad input: what all commands share.

On a terminal reports are coloured and wrapped to its width; a pipe gets the same text as it is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.cli.bars import above_bars
from tidegate.cli.terminal import is_plain, is_terminal, lay_out, put, width_of
from tidegate.diag import visible, visible_lines
from tidegate.disk import reason_of, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.diag import Finding, Sources
    from tidegate.language.ops import Size
    from tidegate.passes import Checked
    from tidegate.session import Session


NOT_PLAIN = re.compile("[^\n -~]")
# Programs of more lines are printed without what is new standing out: to compare them takes the square of that.
MOST_PAINTED = 5000
# The most digits of a size: more than any memory has bytes.
SIZE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([0-9]{1,18})\s*", re.ASCII)


def emit(text: str) -> None:
    """A document or a program: as it is, but that it cannot talk to a terminal."""
    with above_bars():
        print(visible_lines(text) if is_terminal(sys.stdout) else text)


def emit_json(document: object) -> None:
    """A document in printable ASCII, which no terminal obeys."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    emit(NOT_PLAIN.sub(lambda found: _escape(found[0]), text))


def _escape(each: str) -> str:
    """As JSON does, and DEL too; a byte of a name that is not UTF-8 has no character, and strict readers refuse half of
    one.
    """
    if "\ud800" <= each <= "\udfff":
        return "\\ufffd"
    return "\\u007f" if each == "\x7f" else json.dumps(each)[1:-1]


def say(text: str, *, err: bool = False, wrap: bool = True) -> None:
    """A part of a report."""
    stream = sys.stderr if err else sys.stdout
    with above_bars():
        if is_plain(stream):
            print(visible_lines(text), file=stream)
            return
        from tidegate.cli.paint import paint

        width = width_of(stream) if wrap else None
        put((each for line in text.split("\n") for each in lay_out(paint(line), width)), stream)


def say_table(rows: Sequence[Sequence[str]], *, indent: int = 0, err: bool = False) -> None:
    """The first row is the head."""
    stream = sys.stderr if err else sys.stdout
    with above_bars():
        if is_plain(stream):
            print("\n".join(" " * indent + line for line in table(rows).split("\n")), file=stream)
            return
        from tidegate.cli.paint import paint_table

        put(paint_table(rows, width_of(stream), indent), stream)


def say_program(text: str, before: str = "") -> None:
    """A program as it is; on a terminal, what was not there before stands out."""
    if is_plain(sys.stdout):
        sys.stdout.write(text)
    elif not before or max(before.count("\n"), text.count("\n")) > MOST_PAINTED:
        sys.stdout.write(visible_lines(text))
    else:
        from tidegate.cli.paint import paint_new

        put(paint_new(text, before), sys.stdout)
    sys.stdout.flush()


def say_diff(before: str, after: str, file: str) -> None:
    """What changes, as a unified diff."""
    from difflib import unified_diff

    old, new = (re.split("\r?\n", text.removesuffix("\n")) for text in (before, after))
    lines = list(unified_diff(old, new, visible(file), visible(file), lineterm=""))
    if is_plain(sys.stdout):
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    else:
        from tidegate.cli.paint import paint_diff

        put(map(paint_diff, lines), sys.stdout)
    sys.stdout.flush()


def print_stage(stage: str, text: str, *, err: bool = False) -> None:
    """What a stage made, most often a program: not wrapped."""
    say(f"# after {stage}\n{text}", err=err, wrap=False)


def print_findings(findings: Any, sources: Sources, *, err: bool = False) -> None:
    from tidegate.diag import show_findings

    if not findings:
        return
    stream = sys.stderr if err else sys.stdout
    with above_bars():
        if is_plain(stream):
            print(show_findings(findings, sources), end="\n\n", file=stream)
            return
        from tidegate.cli.findings import lay_out_findings

        put(lay_out_findings(findings, sources, width_of(stream)), stream)


def stop(message: str, help: str = "") -> NoReturn:
    from tidegate.diag import BadInput, Finding

    raise BadInput(Finding("TG022", message, (), help=help))


def say_notes(units: Sequence[Session]) -> None:
    """Where programs are not taken as their files say: for which target, one line for each."""
    for unit in units:
        if unit.note:
            say(f"@{unit.name}: {unit.note}", err=True)


def status_of(findings: Sequence[Finding]) -> int:
    if any(each.is_bad_input for each in findings):
        return 2
    return 1 if any(each.severity == "error" for each in findings) else 0


def write(path: Path, text: str | bytes) -> None:
    """Writes a file: whole, or it stays as it is and the command ends."""
    try:
        write_whole(path, text)
    except OSError as error:
        stop(f"`{path}` cannot be written: {reason_of(error)}")


def table(rows: Sequence[Sequence[str]]) -> str:
    rows = [[*map(visible, row)] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def read_sizes(given: list[str]) -> dict[str, int]:
    found = {}
    for each in given:
        said = SIZE.fullmatch(each)
        if said is None or not int(said[2]):
            stop(f"`--size {each}` is not a size", "write it as `--size K=256`")
        found[said[1]] = int(said[2])
    return found


def fill_sizes(name: str, sizes: tuple[Size, ...], asked: Mapping[str, int]) -> dict[str, int]:
    """The value of each size of a program: the one asked for, or its default."""
    found = {each.name: asked.get(each.name, each.default) for each in sizes}
    unknown = sorted(set(asked) - set(found))
    if unknown:
        stop(f"`@{name}` has no size `{unknown[0]}`", f"its sizes: {', '.join(found) or 'none'}")
    return found


def verification_to_json(checked: Checked) -> dict[str, object]:
    """What the verifier says of a program."""
    from tidegate.assumptions import assumptions_to_json

    found = checked.verification
    assert found is not None
    origin = checked.session.origin if checked.session is not None else None
    return {
        **({"taken": list(origin.said)} if origin is not None else {}),
        "proved": found.is_proved,
        "by_path": found.by_path,
        "undecided": list(found.undecided),
        "suspects": len(found.suspects),
        "shown": checked.shown,
        "refuted": checked.refuted,
        "accesses": found.accesses,
        "classes": found.classes,
        "assumptions": assumptions_to_json(checked.assumptions),
    }
