"""Printing, exit statuses, and bad input: what all commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.diag import Finding, Sources
    from tidegate.language.ops import Size
    from tidegate.passes import Checked

# Seconds before a progress bar appears.
SHOW_AFTER = 1.0


def say(text: str) -> None:
    print(text)


def print_stage(stage: str, text: str) -> None:
    print(f"# after {stage}\n{text}")


def print_findings(findings: Any, sources: Sources, *, err: bool = False) -> None:
    from tidegate.diag import show_findings

    if findings:
        stream = sys.stderr if err else sys.stdout
        text = show_findings(findings, sources)
        print(_colour(text) if stream.isatty() and not os.environ.get("NO_COLOR") else text, end="\n\n", file=stream)


def _colour(text: str) -> str:
    """Headers in red or yellow, marks in blue, for a terminal."""
    lines = []
    for line in text.split("\n"):
        if line.startswith("error["):
            line = f"\033[1;31m{line}\033[0m"
        elif line.startswith("warning["):
            line = f"\033[1;33m{line}\033[0m"
        lines.append(line)
    return "\n".join(lines)


def stop(message: str, help: str = "") -> NoReturn:
    from tidegate.diag import BadInput, Finding

    raise BadInput(Finding("TG022", message, (), help=help))


def status_of(findings: list[Finding]) -> int:
    if any(each.is_bad_input for each in findings):
        return 2
    return 1 if any(each.severity == "error" for each in findings) else 0


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        stop(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}")


def table(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for what takes longer than a moment; nothing if nobody looks at it."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from time import monotonic

    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=None)
    begin, started = monotonic(), False

    def tell(done: int, total: int) -> None:
        nonlocal started
        if not started and monotonic() - begin > SHOW_AFTER:
            bar.start()
            started = True
        bar.update(task, completed=done, total=total)

    try:
        yield tell
    finally:
        if started:
            bar.stop()


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
    }
