"""Tasks in processes side by side, each of which goes on with the rest when one ends early.

Needs   the command of a process that takes tasks on its input and says in a file what comes of each
Gives   for each task what was found, or the reason why there is nothing
Keeps   a task that breaks its process, or takes too long, costs itself alone; when time is up, what has not begun is
        left out, and what runs is ended
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

POLL = 0.05
THREADS = 4  # for the products of references: processes share the cores


@dataclass(frozen=True, slots=True)
class Lanes:
    """How processes are started, and how long they may take."""

    command: Callable[[Path], list[str]]  # for the file in which the process says what comes of its tasks
    root: Path  # where it starts
    notes: Path  # a folder for these files and for what processes print
    each: float  # seconds for a task
    until: float  # when all must end

    def run(self, tasks: list[str], number: int) -> dict[str, dict]:
        """Results by task: those of the process, or `{"error": reason}`; tasks that never began are missing."""
        shares = [tasks[lane::number] for lane in range(min(number, len(tasks)))]
        with ThreadPoolExecutor(max(1, len(shares))) as pool:
            done = pool.map(self._run_lane, shares, range(len(shares)))
            return {name: found for part in done for name, found in part.items()}

    def _run_lane(self, tasks: list[str], lane: int) -> dict[str, dict]:
        results: dict[str, dict] = {}
        turn = 0
        while (rest := [name for name in tasks if name not in results]) and time.monotonic() < self.until:
            progress = self.notes / f"{lane}.{turn}.jsonl"
            ended = self._run_process(rest, progress)
            begun, finished = _read(progress)
            results |= finished
            stuck = begun - finished.keys()
            for name in stuck or (rest[:1] if not finished else []):
                results[name] = {"error": ended or _last_words(progress)}
            turn += 1
        return results

    def _run_process(self, tasks: list[str], progress: Path) -> str:
        """Why the process was ended, or nothing if it ended itself."""
        progress.touch()
        with progress.with_suffix(".log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                self.command(progress),
                cwd=self.root,
                env={**os.environ, "OPENBLAS_NUM_THREADS": str(THREADS)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        assert process.stdin is not None
        process.stdin.write("\n".join(tasks))
        process.stdin.close()
        size, since = 0, time.monotonic()
        while process.poll() is None:
            now = time.monotonic()
            if (grown := progress.stat().st_size) != size:
                size, since = grown, now
            if now - since > self.each or now > self.until:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"took more than {self.each:g} s" if now - since > self.each else "time was up"
            time.sleep(POLL)
        return ""


def _read(progress: Path) -> tuple[set[str], dict[str, dict]]:
    """Tasks that began, and those that ended with what came of them."""
    begun: set[str] = set()
    finished: dict[str, dict] = {}
    for line in progress.read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        begun.add(said["task"])
        if "error" in said:
            finished[said["task"]] = {"error": said["error"]}
        elif "found" in said:
            finished[said["task"]] = said["found"]
    return begun, finished


def _last_words(progress: Path) -> str:
    lines = progress.with_suffix(".log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"its process ended: {lines[-1][:200]}" if lines else "its process ended"
