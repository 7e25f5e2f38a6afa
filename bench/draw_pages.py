"""`python -m bench draw-pages`: pages of `tidegate draw`: how large they are, how long they take to make and to load.

Loaded in headless Chromium (Debian's package), from the file, cold, median of `ROUNDS` interleaved loads: until a page
has drawn itself. Making a page is timed once in a process that has loaded everything.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from tidegate.files import load
from tidegate.report.build import as_written, build_report
from tidegate.session import sessions_of

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 9
PROGRAMS = (
    "examples/gemm_two_slots.py",
    "examples/gemm_split.tide",
    "examples/gemm_pingpong.tide",
    "examples/flash_attention.tide",
    "tests/ttgir/gemm.gfx942.ttgir",
    "tests/ttgir/pingpong.gfx942.ttgir",
)
DRAWN = "performance.getEntriesByType('navigation')[0].loadEventEnd"
MOST_KILOBYTES, MOST_MILLISECONDS = 500, 1000


def run() -> tuple[str, bool]:
    """The table, and whether every page is small and quick enough."""
    from oracles.chromium import Browser, find_chromium  # type: ignore[import-not-found]

    if find_chromium() is None:
        return "NOT RUN: there is no Chromium here", False
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        pages = {"docs/demo.html": (ROOT / "docs/demo.html", None)}
        pages |= {name: _make(name, Path(folder) / f"{number}.html") for number, name in enumerate(PROGRAMS)}
        loads: dict[str, list[float]] = {name: [] for name in pages}
        for _ in range(ROUNDS):
            for name, (path, _) in pages.items():
                loads[name].append(float(browser.open(path).value(DRAWN)))
        rows = ["| page of | kB | made in, s | loaded and drawn in, ms |", "|---|---:|---:|---:|"]
        good = True
        for name, (path, made) in pages.items():
            size, load_time = path.stat().st_size / 1000, statistics.median(loads[name])
            rows.append(f"| `{name}` | {size:,.0f} | {'' if made is None else f'{made:.1f}'} | {load_time:.0f} |")
            good &= size < MOST_KILOBYTES and load_time < MOST_MILLISECONDS
    return "\n".join(rows), good


def _make(name: str, path: Path) -> tuple[Path, float]:
    loaded = load(str(ROOT / name))
    (unit,) = sessions_of(loaded, None)
    before = as_written(str(ROOT / name), loaded, unit)
    start = time.perf_counter()
    build_report(unit, loaded.sources, before=before).save(path)
    return path, time.perf_counter() - start
