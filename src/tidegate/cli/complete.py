"""What the shell is offered while a command is typed. Nothing is executed for it; programs are read as text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegate.disk import read_whole

SUFFIXES = (".tide", ".sync", ".py", ".ttgir", ".mlir", ".ptx", ".cu", ".s", ".amdgcn", ".hsaco", ".co")
# Longer files are not looked through for the names of kernels: whoever types does not wait.
LOOKED_AT = 4 << 20
Complete = Callable[[str], list[str]]


def complete_file(incomplete: str) -> list[str]:
    """Programs and folders; behind `FILE::`, the kernels of a text file."""
    file, colons, name = incomplete.partition("::")
    if colons:
        return [f"{file}::{each}" for each in kernels_of(Path(file)) if each.startswith(name)]
    found = [*_entries(incomplete)]
    while len(found) == 1 and found[0].endswith("/") and (inside := [*_entries(found[0])]):
        found = inside  # a folder alone would be taken for the end of the word
    return found


def _entries(begun: str) -> Iterator[str]:
    folder, _, name = begun.rpartition("/")
    place = Path(f"{folder}/" if "/" in begun else ".").expanduser()
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return
    for each in entries:
        if each.name.startswith(name) and (name.startswith(".") or not each.name.startswith(".")):
            shown = f"{folder}/{each.name}" if "/" in begun else each.name
            if os.path.isdir(each):
                yield f"{shown}/"
            elif each.suffix.lower() in SUFFIXES:
                yield shown


def kernels_of(path: Path) -> list[str]:
    """Names of the kernels that a text file or a Python file defines, as far as its text shows them."""
    try:
        text = read_whole(path, LOOKED_AT).decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return []
    if path.suffix == ".py":
        return re.findall(r"(?m)^@[\w.]*kernel\b[^\n]*\n(?:[^\n]*\n)*?def (\w+)", text)
    return re.findall(r"(?m)^\s*kernel @(\w+)", text)


def complete_target(incomplete: str) -> list[str]:
    from tidegate.targets import known_targets

    return _begun([*known_targets(), "none"], incomplete)


def complete_sync_strategy(incomplete: str) -> list[str]:
    from tidegate.placement.place import STRATEGIES

    return _begun(list(STRATEGIES), incomplete)


def complete_schedule_strategy(incomplete: str) -> list[str]:
    from tidegate.scheduling.model import ASYNC_TWO, AUTO, CLUSTERS, NONE, TWO

    return _begun([AUTO, NONE, TWO, ASYNC_TWO, CLUSTERS, *(f"{CLUSTERS}={count}" for count in range(1, 5))], incomplete)


def complete_show_stage(incomplete: str) -> list[str]:
    from tidegate.passes import SHOW, names_of

    return _begun([*names_of(SHOW)], incomplete)


def complete_check_stage(incomplete: str) -> list[str]:
    from tidegate.passes import CHECK, names_of

    return _begun([*names_of(CHECK)], incomplete)


def complete_sync_stage(incomplete: str) -> list[str]:
    from tidegate.passes import names_of
    from tidegate.synchronize import SYNC

    return _begun([*names_of(SYNC)], incomplete)


def complete_words(*words: str) -> Complete:
    """For options that take one of a few words."""

    def complete(incomplete: str) -> list[str]:
        return _begun(list(words), incomplete)

    return complete


def _begun(words: list[str], incomplete: str) -> list[str]:
    return [each for each in words if each.startswith(incomplete)]
