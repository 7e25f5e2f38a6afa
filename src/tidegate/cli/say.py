"""Printing, exit statuses, and bad input: what all commands share.

On a terminal reports are coloured and wrapped to its width; a pipe gets the same text as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.cli.bars import above_bars
from tidegate.cli.terminal import is_plain, lay_out, put, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.diag import Finding, Sources
    from tidegate.language.ops import Size
    from tidegate.passes import Checked, Unit


def emit(text: str) -> None:
    """A document or a program: as it is, wherever it goes."""
    with above_bars():
        print(text)


def say(text: str, *, err: bool = False, wrap: bool = True) -> None:
    """A part of a report."""
    stream = sys.stderr if err else sys.stdout
    with above_bars():
        if is_plain(stream):
            print(text, file=stream)
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
    if is_plain(sys.stdout) or not before:
        sys.stdout.write(text)
    else:
        from tidegate.cli.paint import paint_new

        put(paint_new(text, before), sys.stdout)
    sys.stdout.flush()


def say_diff(before: str, after: str, file: str) -> None:
    """What changes, as a unified diff."""
    from difflib import unified_diff

    lines = list(unified_diff(before.splitlines(), after.splitlines(), file, file, lineterm=""))
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


def say_notes(units: Sequence[Unit]) -> None:
    """Where programs are not taken as their files say: for which target, one line for each."""
    for unit in units:
        if unit.note:
            say(f"@{unit.name}: {unit.note}", err=True)


def status_of(findings: list[Finding]) -> int:
    if any(each.is_bad_input for each in findings):
        return 2
    return 1 if any(each.severity == "error" for each in findings) else 0


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        stop(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}")


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def read_sizes(given: list[str]) -> dict[str, int]:
    found = {}
    for each in given:
        name, _, number = each.partition("=")
        if not number.strip().isdigit() or int(number) < 1:
            stop(f"`--size {each}` is no size", "write it as `--size K=256`")
        found[name.strip()] = int(number)
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
    return {
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
