"""The benchmark of slow kernels: that it measures what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tidegate.graph.build import build_graph
from tidegate.language.parse import parse
from tidegate.targets import load_target
from tidegate.verify.say import show_verification
from tidegate.verify.verify import MOST_SUSPECTS, verify


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


def test_a_program_with_hundreds_of_races_is_said_to_be_cut_short() -> None:
    """Each race takes questions: beyond some hundreds nobody reads on, and the verdict says that it stopped."""
    writes = "\n".join(["  local_write %t, %b[0, 0]"] * 24)
    text = (
        "target gfx942\n\nkernel @many() waves 4 {\n  %b = alloc : lds<4x4xi32>\n  %t = splat wave : tile<1x4xi32>\n"
        f"{writes}\n  shared_memory_barrier\n{writes}\n}}\n"
    )
    (kernel,) = parse(text).kernels
    graph = build_graph(kernel, load_target("gfx942")).graph
    found = verify(graph, load_target("gfx942"))
    assert MOST_SUSPECTS <= len(found.suspects) < 24 * 25
    assert f"the bound of {MOST_SUSPECTS} suspects was reached" in show_verification(found, graph)
