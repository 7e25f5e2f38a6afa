"""`check`, `sync` and `explain` of kernels of up to 100 lines and 16 waves: how long each takes, and what was bounded.

Each command on each kernel is a process of its own, forked from this one and stopped after a while; its processor time
is what counts, most imports included. `python -m bench slow-kernels [--quick]`, on a machine that does nothing else.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

COMMANDS = ("check", "sync", "explain")
MANY, QUICK = 200, 12
MOST_SECONDS, STOP_AFTER = 3.0, 60.0
MOST_BOUNDED = 0.02  # of the kernels
BOUND = "the bound of"  # what a report says that did not come to its end


@dataclass(frozen=True, slots=True)
class Row:
    """One command on one kernel."""

    seed: int
    command: str
    seconds: float
    status: int  # -1: stopped
    bounded: bool
    bytes: int


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The table, and whether the slowest is fast enough and few enough reach a bound."""
    quick = "--quick" in sys.argv if quick is None else quick
    rows = list(measure(range(QUICK if quick else MANY)))
    lines = [
        "| command | kernels | median s | 99th percentile s | worst s | take longer than 3 s | reach a bound "
        "| largest report KB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    good = True
    for command in COMMANDS:
        own = [row for row in rows if row.command == command]
        seconds = sorted(row.seconds for row in own)
        bounded, late = sum(row.bounded for row in own), sum(each > MOST_SECONDS for each in seconds)
        high = seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)]
        good = good and seconds[-1] <= MOST_SECONDS and bounded <= MOST_BOUNDED * len(own)
        good = good and all(row.status in (0, 1) for row in own)
        lines.append(
            f"| `{command}` | {len(own)} | {statistics.median(seconds):.2f} | {high:.2f} | {seconds[-1]:.2f} "
            f"| {late} ({late / len(own):.1%}) | {bounded} ({bounded / len(own):.1%}) "
            f"| {max(row.bytes for row in own) / 1024:.0f} |"
        )
    return "\n".join(lines), good


def measure(seeds: Iterable[int], commands: Iterable[str] = COMMANDS) -> Iterable[Row]:
    from oracles.programs.slow_texts import draw_text

    with tempfile.TemporaryDirectory() as place:
        for seed in seeds:
            path = Path(place) / f"slow_{seed}.tide"
            path.write_text(draw_text(seed), encoding="utf-8")
            for command in commands:
                yield measure_one(seed, command, path)


def measure_one(seed: int, command: str, path: Path, stop_after: float = STOP_AFTER) -> Row:
    """In a process of its own; what it prints is read for what it says about bounds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        # New streams: those of this process may have been opened for a file, and a pipe cannot seek.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        resource.setrlimit(resource.RLIMIT_CPU, (int(stop_after), int(stop_after) + 1))
        sys.argv = ["tidegate", command, str(path)]
        _main()
    os.close(writing)
    text = _read(reading)
    os.close(reading)
    _, ended, used = os.wait4(child, 0)
    status = os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else -1
    return Row(seed, command, used.ru_utime + used.ru_stime, status, BOUND in text, len(text))


def _main() -> None:
    from tidegate.cli import main

    status = 3
    try:
        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _read(reading: int) -> str:
    found = bytearray()
    while piece := os.read(reading, 1 << 16):
        found += piece
    return found.decode(errors="replace")


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[2])
    for row in measure(range(first, last), sys.argv[3:] or COMMANDS):
        print(row.seed, row.command, f"{row.seconds:.2f}", row.status, row.bounded, row.bytes, flush=True)
