"""An internal error: a reproducer is written, and what it holds and where it is are printed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

# The most that a reproducer holds of one file.
MOST_BYTES = 4 << 20


def report_crash(error: Exception) -> int:
    """Writes the reproducer, or prints it where it cannot be written; gives the exit status."""
    import traceback

    from tidegate.diag import visible

    trace = "".join(traceback.format_exception(error))
    files = dict(filter(None, map(_read, dict.fromkeys(sys.argv[1:]))))
    text = _reproducer(trace, files)
    held = ["the command", "the versions", "the traceback", *(f"all of `{each}`" for each in files)]
    said = f"{', '.join(held[:-1])} and {held[-1]}"
    try:
        print(f"error: Tidegate failed: {visible(trace.strip().splitlines()[-1])}", file=sys.stderr)
        try:
            place = _write(text)
        except OSError:
            print("\n".join(map(visible, text.split("\n"))), file=sys.stderr)
            print(f"This is an internal error. Please report it with the text above: {visible(said)}", file=sys.stderr)
        else:
            print(f"This is an internal error. Please report it with {visible(str(place))}", file=sys.stderr)
            print(f"That file holds {visible(said)}: look through it before you send it", file=sys.stderr)
    except OSError:  # nobody can hear it
        from tidegate.cli.help import drop_streams

        drop_streams()
    return 3


def _read(argument: str) -> tuple[str, str] | None:
    """Name and text of an argument that is a file; `FILE::name` means FILE."""
    from tidegate.disk import read_whole

    file = argument.partition("::")[0]
    try:
        return file, read_whole(file, MOST_BYTES).decode("utf-8", errors="replace")
    except (OSError, ValueError):  # an option, or a file that cannot be read
        return None


def _reproducer(trace: str, files: dict[str, str]) -> str:
    import shlex

    from tidegate import __version__

    parts = [f"tidegate {__version__}, Python {sys.version}", shlex.join(["tidegate", *sys.argv[1:]]), trace]
    return "\n\n".join([*parts, *(f"--- {file}\n{text}" for file, text in files.items())])


def _write(text: str) -> Path:
    """In the folder for temporary files, readable for its user alone: it holds source that others may not know."""
    import hashlib
    import tempfile

    from tidegate.disk import write_whole

    number = hashlib.sha256(text.encode("utf-8", errors="backslashreplace")).hexdigest()[:10]
    place = Path(tempfile.gettempdir()) / f"tidegate-crash-{number}.txt"
    if place.is_symlink():  # the folder is shared, and the link may lead anywhere
        raise FileExistsError
    with suppress(FileExistsError):
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    write_whole(place, text)
    return place
