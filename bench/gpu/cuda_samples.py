"""Programs of NVIDIA/cuda-samples under racecheck: nothing of a file whose kernels are proved may be reported.

    python -m bench.gpu.cuda_samples compile CHECKOUT DIR    the programs that nvcc builds, for sm_90
    python -m bench.gpu.cuda_samples run DIR OUT             each on a GPU under racecheck
    python -m bench.gpu.cuda_samples table ROWS.json OUT     reports beside the verdicts of `bench.cuda_corpus --json`

Needs   nvcc and a checkout to compile; a GPU and compute-sanitizer to run
Gives   for each program how it ended and what racecheck reports; 1 if a kernel of a proved file is reported
Keeps   a program that hangs or fails costs itself alone. Racecheck judges one run: its silence proves nothing
Cost    a compilation for each program; at most a minute for each run
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.gpu.sanitizing import RACECHECK, command, read_reports

# Of one file each, with fixed inputs and a check of their own; what they pass on the command line keeps them short.
SAMPLES: dict[str, tuple[str, ...]] = {
    "0_Introduction/clock": (),
    "0_Introduction/fp16ScalarProduct": (),
    "0_Introduction/matrixMul": ("-wA=128", "-hA=128", "-wB=128", "-hB=128"),
    "0_Introduction/simpleAWBarrier": (),
    "0_Introduction/simpleCooperativeGroups": (),
    "0_Introduction/simpleTemplates": (),
    "0_Introduction/simpleVoteIntrinsics": (),
    "2_Concepts_and_Techniques/dct8x8": (),
    "2_Concepts_and_Techniques/inlinePTX": (),
    "2_Concepts_and_Techniques/reductionMultiBlockCG": (),
    "2_Concepts_and_Techniques/shfl_scan": (),
    "2_Concepts_and_Techniques/threadFenceReduction": (),
    "3_CUDA_Features/binaryPartitionCG": (),
    "3_CUDA_Features/globalToShmemAsyncCopy": ("-wA=128", "-hA=128", "-wB=128", "-hB=128"),
    "3_CUDA_Features/newdelete": (),
    "5_Domain_Specific/SobolQRNG": (),
    "5_Domain_Specific/dwtHaar1D": (),
    "5_Domain_Specific/fastWalshTransform": (),
    "6_Performance/transpose": (),
    "6_Performance/alignedTypes": (),
}
EACH, SECONDS = 60.0, 540.0
RESULTS = "cuda_samples.json"


def compile_all(checkout: Path, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for name in SAMPLES:
        sources = sorted(
            str(each) for each in (checkout / "Samples" / name).rglob("*.c*") if each.suffix in (".cu", ".cpp")
        )
        made = folder / name.replace("/", "-")
        asked = [
            "nvcc",
            "-arch=sm_90",
            "-std=c++17",
            "-lineinfo",
            f"-I{checkout / 'Common'}",
            "-o",
            str(made),
            *sources,
        ]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        print(name, "built" if not done.returncode else f"not built: {(done.stderr or done.stdout).strip()[:160]}")
    return 0


def run_all(folder: Path, out: Path) -> int:
    found = {}
    end = time.monotonic() + SECONDS
    for name, arguments in SAMPLES.items():
        program = folder / name.replace("/", "-")
        if not program.exists() or time.monotonic() > end:
            continue
        try:
            asked = [*command(RACECHECK), str(program.resolve()), *arguments]
            done = subprocess.run(asked, capture_output=True, text=True, timeout=EACH, check=False)
            lines = [line for line in done.stdout.splitlines() if "Race reported" in line or "hazard" in line]
            found[name] = {"status": done.returncode, "reports": read_reports(done.stdout), "lines": lines[:40]}
        except subprocess.TimeoutExpired:
            found[name] = {"status": "too long", "reports": {}, "lines": []}
        print(name, found[name]["status"], len(found[name]["lines"]), flush=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / RESULTS).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


def table(rows: Path, out: Path) -> int:
    verdicts: dict[str, list[str]] = {}
    for each in json.loads(rows.read_text(encoding="utf-8")):
        place = next((name for name in SAMPLES if f"Samples/{name}/" in each["file"]), "")
        if place and each["kernel"]:
            verdicts.setdefault(place, []).append(each["verdict"])
    bad = 0
    for name, found in json.loads((out / RESULTS).read_text(encoding="utf-8")).items():
        mine = verdicts.get(name, [])
        is_bad = bool(found["reports"]) and bool(mine) and set(mine) == {"proved"}
        bad += is_bad
        counts = ", ".join(f"{mine.count(each)} {each}" for each in sorted(set(mine)))
        print(f"| {name} | {counts} | {found['status']} | {found['reports'] or 'silent'} |{' BAD' * is_bad}")
    return int(bad > 0)


def main(given: list[str]) -> int:
    verb, one, other = given
    return {"compile": compile_all, "run": run_all, "table": table}[verb](Path(one), Path(other))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
