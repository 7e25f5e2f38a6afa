"""Random CUDA kernels under racecheck: nothing that Tidegate proves may be reported.

    python -m bench.gpu.cuda_random compile DIR FIRST LAST   kernels with these seeds to PTX, with Tidegate's verdicts
    python -m bench.gpu.cuda_random run DIR OUT              each on a GPU under racecheck, for several arguments
    python -m bench.gpu.cuda_random table DIR OUT            counts by verdict and report; 1 if a proved one is reported

Needs   NVRTC to compile; CuPy, a GPU and compute-sanitizer to run
Gives   for each kernel what the verifier says of its PTX, and what racecheck reports of a launch with each argument
Keeps   a kernel that hangs or fails costs itself alone; a report is assigned by the name of its kernel
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.gpu.lanes import Lanes
from bench.gpu.manifest import Refused
from bench.gpu.sanitizing import RACECHECK, command, read_reports

ARGUMENTS = (0, 1, 2, 3, 5, 8)
LANES, EACH, SECONDS = 12, 20.0, 540.0
DYNAMIC = 16 << 10  # bytes for arrays whose size the launch gives
FLOATS = 1 << 16  # more than any of these kernels reads or writes
ROOT = Path(__file__).resolve().parent.parent.parent
MANIFEST, REPORTS = "cuda_random.json", "cuda_random_reports.json"


def compile_all(folder: Path, first: int, last: int) -> int:
    """Writes one PTX file, and what is known of its kernels."""
    from oracles.programs.random_cuda import HEAD, make
    from tidegate.diag import Sources
    from tidegate.files import Loaded
    from tidegate.hosts.cuda.compile import compile_cuda
    from tidegate.hosts.cuda.options import CudaOptions
    from tidegate.hosts.ptx.parse import parse_ptx
    from tidegate.hosts.ptx.program import Ptx
    from tidegate.passes import check_session
    from tidegate.session import sessions_of

    made = [make(seed) for seed in range(first, last)]
    text = compile_cuda(HEAD + "\n".join(each.text for each in made), "random.cu", CudaOptions()).ptx
    module = parse_ptx(text, "random.ptx")
    entries = {}
    for each in made:
        ptx = Ptx("random.ptx", text, module, chosen=each.name, block=each.block)
        (unit,) = sessions_of(Loaded("random.ptx", (), None, Sources({}), ptx=ptx), None)
        entries[each.name] = {"block": each.block, "proved": check_session(unit).is_proved}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "random.ptx").write_text(text, encoding="utf-8")
    (folder / MANIFEST).write_text(json.dumps(entries), encoding="utf-8")
    return 0


def run_all(folder: Path, out: Path) -> int:
    entries = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as notes:
        lanes = Lanes(
            lambda progress: [
                *command(RACECHECK),
                sys.executable,
                "-m",
                __spec__.name,
                "work",
                str(folder),
                str(progress),
            ],
            ROOT,
            Path(notes),
            EACH,
            time.monotonic() + SECONDS,
        )
        done = lanes.run(list(entries), LANES)
        logs = sorted(Path(notes).glob("*.log"))
        found = [read_reports(each.read_text(encoding="utf-8", errors="replace")) for each in logs]
    reports: dict[str, dict[str, int]] = {}
    for part in found:
        for name, kinds in part.items():
            mine = reports.setdefault(name, {})
            for kind, number in kinds.items():
                mine[kind] = mine.get(kind, 0) + number
    out.mkdir(parents=True, exist_ok=True)
    (out / REPORTS).write_text(json.dumps({"done": done, "reports": reports}), encoding="utf-8")
    print(f"{len(done)} kernels run, {len(reports)} reported")
    return 0


def work(folder: Path, progress: Path) -> int:
    """The process that racecheck watches: each kernel once for each argument."""
    from bench.gpu.launching import get_cupy

    cupy: Any = get_cupy()
    entries = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    module = cupy.RawModule(path=str(folder / "random.ptx"))
    given, out = cupy.zeros(FLOATS, "f4"), cupy.zeros(FLOATS, "f4")
    with progress.open("a", encoding="utf-8") as notes:
        for name in sys.stdin.read().split():
            print(json.dumps({"task": name}), file=notes, flush=True)
            try:
                for n in ARGUMENTS:
                    module.get_function(name)(
                        (1,), tuple(entries[name]["block"]), (out, given, cupy.int32(n)), shared_mem=DYNAMIC
                    )
                    cupy.cuda.runtime.deviceSynchronize()
            except Exception as error:  # of the driver: it is this kernel's result
                print(json.dumps({"task": name, "error": str(error)[:200]}), file=notes, flush=True)
                return 1
            print(json.dumps({"task": name, "found": {}}), file=notes, flush=True)
    return 0


def table(folder: Path, out: Path) -> int:
    entries = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    results = json.loads((out / REPORTS).read_text(encoding="utf-8"))
    if "" in results["reports"]:
        raise Refused(f"reports that name no kernel: {results['reports']['']}")
    counts: dict[tuple[bool, str], int] = {}
    bad = []
    for name, entry in entries.items():
        kinds = results["reports"].get(name, {})
        error = results["done"].get(name, {"error": "not run"}).get("error")
        said = "race" if "race" in kinds else "race within a warp" if kinds else "failed" if error else "silent"
        counts[entry["proved"], said] = counts.get((entry["proved"], said), 0) + 1
        if entry["proved"] and said != "silent":
            bad.append(f"{name}: {said} {kinds or error}")
    for is_proved in (True, False):
        row = {said: number for (proved, said), number in sorted(counts.items()) if proved is is_proved}
        print("proved" if is_proved else "not proved", row)
    print(*bad, sep="\n")
    return int(bool(bad))


def main(given: list[str]) -> int:
    verb, *rest = given
    if verb == "compile":
        return compile_all(Path(rest[0]), int(rest[1]), int(rest[2]))
    return {"run": run_all, "work": work, "table": table}[verb](Path(rest[0]), Path(rest[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
