"""The broken examples, built as they are, on a GPU: what it shows, beside what was expected before the run.

`python -m bench.built_broken compile FOLDER` here, `PYTHONPATH=src:. python -m bench.built_broken run FOLDER` on the
machine with the GPU; it prints a table.

Needs   `compile`: LLVM; `run`: CuPy, a GPU and compute-sanitizer
Gives   for each kernel: whether it ends, whether its numbers are those of the in-order machine, what racecheck and
        synccheck say
Keeps   each kernel runs in processes of its own, with a limit of time
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TARGET = "sm_90"
LIMIT, WITH_TOOL = 20, 60  # seconds
# What the GPU should show: `race`, racecheck reports it; `numbers`, they differ; `hang`, the kernel does not end;
# `sync`, synccheck reports it; `nothing`. Written before the first run.
EXPECTED = {
    "async_store_other": "nothing",  # racecheck follows no bulk stores
    "atomic_then_read": "race",
    "bare_barrier": "nothing",  # right on NVIDIA: a barrier performs what came before
    "bare_barrier_after_read": "nothing",
    "barrier_in_one_branch": "race",
    "barrier_in_zero_trip_loop": "race",
    "constant_slots": "race",
    "copies_in_one_group": "race",
    "copy_behind_write": "race",
    "dealloc_alloc": "race",
    "divergent_barrier": "sync",
    "expects_nothing": "numbers",
    "inversion": "race",
    "lanes_of_a_copy": "race",
    "lanes_of_a_wave": "race",
    "loop_carried_view": "race",
    "masked_tail": "race",
    "mbarrier_arrivals": "hang",
    "mbarrier_bytes": "hang",
    "mbarrier_parity": "hang",
    "missing_barrier": "race",
    "missing_proxy_fence": "nothing",  # no tool looks at proxies, and the hardware rarely shows it
    "null_dep_on_one_path": "race",
    "odd_halves": "sync",
    "one_arm": "race",
    "overwrite_next_iteration": "race",
    "own_copy": "numbers",
    "pingpong_bare_after_reads": "nothing",
    "pingpong_bare_after_writes": "nothing",
    "plain_barrier_after_copy": "race",
    "producer_consumer": "sync",
    "same_row": "race",
    "select_view": "race",
    "stagger_closed_on_one_path": "race",
    "stagger_two": "race",
    "tail_mask_too_wide": "race",
    "two_arms": "race",
    "two_writers": "race",
    "uncommitted_copy": "race",
    "unequal_trips": "race",
    "unmatched_stagger": "race",
    "view_in_wave_group": "race",
    "wrong_dep": "race",
    "wrong_modulus": "race",
}


def compile_all(folder: Path) -> None:
    from tidegate.files import load
    from tidegate.lowering.build import build
    from tidegate.session import sessions_of
    from tidegate.simulate.inorder import make_inputs
    from tidegate.simulate.inorder import run as run_in_order

    folder.mkdir(parents=True, exist_ok=True)
    for name in EXPECTED:
        (session,) = sessions_of(load(str(ROOT / "examples" / "broken" / f"{name}.tide")), TARGET)
        build(session).save(folder / f"{name}.ptx")
        kernel = session.kernel
        assert kernel is not None
        given = make_inputs(kernel, {}, 0)
        try:
            wanted = run_in_order(kernel, {key: np.copy(each) for key, each in given.items()}, lanes=32)
        except Exception:  # a kernel that hangs has no result
            wanted = {}
        data = {f"in_{key}": np.asarray(each) for key, each in given.items()}
        data |= {f"out_{key}": np.asarray(each, np.float64) for key, each in wanted.items()}
        np.savez_compressed(folder / f"{name}.npz", **data)


def run_one(folder: Path, name: str) -> None:
    import cupy

    from tidegate.lowering.launch import load_built

    data, kernel = np.load(folder / f"{name}.npz"), load_built(folder / f"{name}.ptx")
    arrays = {each.name: cupy.asarray(data[f"in_{each.name}"]) for each in kernel.manifest.arrays}
    kernel.launch(arrays)
    cupy.cuda.runtime.deviceSynchronize()
    right = all(
        np.allclose(cupy.asnumpy(arrays[each.name]).astype(np.float64), data[f"out_{each.name}"], 1e-3, 1e-3, True)
        for each in kernel.manifest.arrays
        if f"out_{each.name}" in data
    )
    print("RIGHT" if right else "OTHER NUMBERS")


def shown(folder: Path, name: str) -> dict[str, str]:
    """What a run and both tools say."""
    base = [sys.executable, "-m", "bench.built_broken", "one", str(folder), name]
    found = {}
    for tool in ("", "racecheck", "synccheck"):
        options = ["--racecheck-report", "all"] if tool == "racecheck" else []
        command = ["compute-sanitizer", "--tool", tool, *options, *base] if tool else base
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=WITH_TOOL if tool else LIMIT, check=False
            )
            said = done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            found[tool or "run"] = "hang"
            continue
        if not tool:
            found["run"] = "right" if "RIGHT" in said else "numbers" if "OTHER NUMBERS" in said else said[-120:].strip()
        elif tool == "racecheck":
            found[tool] = "race" if re.search(r"SUMMARY: [1-9]\d* hazard", said) else "silent"
        else:
            found[tool] = "sync" if "Barrier error" in said or "barrier" in said.lower() else "silent"
    return found


def run_all(folder: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        rows = list(pool.map(lambda name: shown(folder, name), EXPECTED))
    good = 0
    print("| kernel | expected | run | racecheck | synccheck | as expected |\n|---|---|---|---|---|---|")
    for name, row in zip(EXPECTED, rows, strict=True):
        expected, words = EXPECTED[name], set(row.values())
        is_good = expected in words or (expected == "nothing" and words <= {"right", "silent"})
        good += is_good
        print(f"| {name} | {expected} | {row['run']} | {row['racecheck']} | {row['synccheck']} | {is_good} |")
    print(f"{good} of {len(EXPECTED)} as expected")
    (folder / "shown.json").write_text(json.dumps(dict(zip(EXPECTED, rows, strict=True))))


if __name__ == "__main__":
    command, where, *rest = sys.argv[1:]
    {"compile": compile_all, "run": run_all}.get(command, lambda folder: run_one(folder, rest[0]))(Path(where))
