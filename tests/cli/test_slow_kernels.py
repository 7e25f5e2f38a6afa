"""The benchmark of slow kernels: that it measures what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT


def test_rows_are_measured_though_the_output_is_a_file(tmp_path: Path) -> None:
    """A child had the streams of its parent on a pipe, which cannot seek: every command ended with status 3 at once."""
    out = tmp_path / "rows"
    paths = [str(ROOT / "src"), str(ROOT)]
    with out.open("w") as stream:
        command = [sys.executable, "-m", "bench.slow_kernels", "6", "7", "check", "sync"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        subprocess.run(command, stdout=stream, check=True, env=env, cwd=ROOT)
    rows = [line.split() for line in out.read_text(encoding="utf-8").splitlines()]
    assert [(seed, command, status) for seed, command, _, status, _, _ in rows] == [
        ("6", "check", "0"),
        ("6", "sync", "0"),
    ]
    assert all(int(count) > 100 for *_, count in rows)
