"""What `import tidegate` and `tidegate --help` cost beside an empty typer application, in the same run."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

EMPTY = "import typer; app = typer.Typer(); app.command()(lambda: None); app()"
CASES = {
    "python, nothing imported": ["-c", "pass"],
    "import tidegate": ["-c", "import tidegate"],
    "empty typer application, --help": ["-c", EMPTY, "--help"],
    "tidegate --help": ["-c", "from tidegate.cli import main; main()", "--help"],
    "tidegate targets": ["-c", "from tidegate.cli import main; main()", "targets"],
    "tidegate check gemm_two_slots.tide": [
        "-c",
        "from tidegate.cli import main; main()",
        "check",
        "examples/gemm_two_slots.tide",
    ],
}
REPEATS = 11
MOST_MORE = 0.15


def run() -> tuple[str, bool]:
    """The table as Markdown, and whether the two that have a limit keep it."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(REPEATS):
        for name, args in CASES.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *args], capture_output=True, check=True)
            times[name].append(time.perf_counter() - start)
    medians = {name: median(found) for name, found in times.items()}
    base = medians["empty typer application, --help"]
    lines = ["| command | median | beside the empty application |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {seconds * 1000:.0f} ms | {(seconds - base) * 1000:+.0f} ms |" for name, seconds in medians.items()
    ]
    good = all(medians[name] - base <= MOST_MORE for name in ("import tidegate", "tidegate --help"))
    return "\n".join(lines), good
