"""All compiled kernels on the GPU of this machine: numbers, times, and what racecheck and synccheck say.

Needs   a folder of compiled kernels, CuPy, a GPU and for the checks `compute-sanitizer`; neither Triton nor Tidegate
Gives   one document with all results, which holds what the tables need of the manifest, too
Keeps   no kernel ends the run; what was not run is listed with its phase
Cost    about ten minutes for the whole corpus on an H200 with 16 cores, less with `--only`
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.gpu.lanes import Lanes
from bench.gpu.launching import get_cupy
from bench.gpu.manifest import REMOVED, Entry, Manifest, Refused, is_control, read_manifest
from bench.gpu.sanitizing import RACECHECK, SYNCCHECK, command, read_reports
from bench.gpu.working import NUMBERS, ONCE, TIME

RESULTS = "results.json"
ROOT = Path(__file__).resolve().parent.parent.parent
LANES = 8  # processes side by side
# sm_90 means sm_90a: code for that chip and no other. What is for sm_80 runs on later ones, too.
RUNS_ON: dict[str, Callable[[tuple[int, int]], bool]] = {
    "sm_80": lambda chip: chip >= (8, 0),
    "sm_90": lambda chip: chip == (9, 0),
}


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of work."""

    name: str
    kind: str
    each: float  # seconds that a task may take
    check: str = ""


PHASES = (
    Phase(NUMBERS, NUMBERS, 60),
    Phase(TIME, TIME, 90),
    Phase(RACECHECK, ONCE, 90, RACECHECK),
    Phase(SYNCCHECK, ONCE, 90, SYNCCHECK),
)


def run_corpus(
    folder: Path, out: Path, phases: tuple[str, ...], only: str | None, targets: tuple[str, ...], seconds: float
) -> dict:
    """Runs the phases until time is up, and writes the results after each of them."""
    until = time.monotonic() + seconds
    manifest = read_manifest(folder)
    device, capability = look_at_device()
    entries = chosen(manifest, only, targets, capability)
    results: dict = {
        "device": device,
        "versions": manifest.versions,
        "entries": [facts_of(each) for each in entries],
        "failed": manifest.failed,
        "not run": {},
        "unassigned": {},
    }
    out.mkdir(parents=True, exist_ok=True)
    for phase in PHASES:
        if phase.name in phases:
            start = time.monotonic()
            run_phase(phase, folder, manifest, entries, until, results)
            took = time.monotonic() - start
            left = len(results["not run"].get(phase.name, ()))
            print(f"{phase.name}: {len(results[phase.name])} in {took:.0f} s, {left} not run", flush=True)
            (out / RESULTS).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


def look_at_device() -> tuple[str, tuple[int, int]]:
    known = get_cupy().cuda.runtime.getDeviceProperties(0)
    return known["name"].decode(), (known["major"], known["minor"])


def chosen(manifest: Manifest, only: str | None, targets: tuple[str, ...], capability: tuple[int, int]) -> list[Entry]:
    found = [
        each
        for each in manifest.entries
        if each.target in targets and RUNS_ON[each.target](capability) and only in (None, each.case)
    ]
    if not found:
        raise Refused(f"nothing in the folder is for this GPU ({capability[0]}.{capability[1]}) and was asked for")
    return found


def facts_of(entry: Entry) -> dict:
    """What the tables say of an entry."""
    names = ("case", "target", "variant", "digest", "barriers", "fallback", "verdict")
    return {name: getattr(entry, name) for name in names}


def run_phase(
    phase: Phase, folder: Path, manifest: Manifest, entries: list[Entry], until: float, results: dict
) -> None:
    here = {each.pair for each in entries}
    if phase.kind == TIME:
        pairs = {name: pair for name, pair in manifest.pairs().items() if name in here}
        # What Tidegate changed comes first, should time be up before all have run.
        tasks = sorted(pairs, key=lambda name: (bool(pairs[name][1].fallback), is_control(pairs[name])))
    else:
        tasks = [each.name for each in entries if phase.check != SYNCCHECK or not each.variant.startswith(REMOVED)]
    before = command(phase.check) if phase.check else []
    with tempfile.TemporaryDirectory(prefix="tidegate-gpu-") as name:
        notes = Path(name)

        def start(progress: Path) -> list[str]:
            child = [sys.executable, "-m", "bench.gpu", "work", str(folder.resolve()), phase.kind, str(progress)]
            return [*before, *child, str(notes / "lock")]

        found = Lanes(start, ROOT, notes, phase.each, until).run(tasks, LANES)
        if phase.check and (rest := add_reports(found, entries, notes)):
            results["unassigned"][phase.name] = rest
    results[phase.name] = found
    if missing := [each for each in tasks if each not in found]:
        results["not run"][phase.name] = missing


def add_reports(found: dict[str, dict], entries: list[Entry], notes: Path) -> dict[str, dict[str, int]]:
    """Puts what the tool said beside each task that it was about; gives the rest, which names none of them."""
    said = read_reports("\n".join(each.read_text(errors="replace") for each in sorted(notes.glob("*.log"))))
    for each in entries:
        if each.name in found:
            found[each.name]["reports"] = said.pop(each.entry, {})
    return said
