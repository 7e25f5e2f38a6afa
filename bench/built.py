"""Our own kernels on a GPU: `python -m bench.built compile FOLDER` here, `python -m bench.built run FOLDER` there.

Needs   `compile`: LLVM; `run`: CuPy and a GPU, and the folder
Gives   for each example and size: the largest distance from the reference, and the time of a launch
Keeps   inputs and references are made where the kernels are compiled, by the in-order machine
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SEEDS = (0, 1, 2)
TOLERANCE = {"f16": 2e-2, "bf16": 8e-2}


def compile_all(folder: Path, names: list[str], targets: tuple[str, ...]) -> None:
    from tidegate.diag import BadInput
    from tidegate.files import load
    from tidegate.lowering.build import build
    from tidegate.session import sessions_of
    from tidegate.simulate.inorder import make_inputs
    from tidegate.simulate.inorder import run as run_in_order

    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for path in sorted((ROOT / "examples").glob("*.tide")):
        if names and path.stem not in names:
            continue
        for target in targets:
            (session,) = sessions_of(load(str(path)), target)
            if not session.verification.is_proved or any(each.severity == "error" for each in session.of_kernel):
                said = next((each.message for each in session.of_kernel if each.severity == "error"), "not proved")
                print(f"{path.stem} {target}: {said}")
                continue
            try:
                made = build(session)
            except BadInput as bad:
                print(f"{path.stem} {target}: {bad.findings[0].message}")
                continue
            name = f"{path.stem}.{target}"
            made.save(folder / f"{name}.ptx")
            print(f"{name}: {'proved' if made else 'not proved'} as PTX", flush=True)
            kernel = session.kernel
            assert kernel is not None
            sizes = [{each.name: each.default for each in kernel.sizes}]
            sizes.append({name: value * 2 for name, value in sizes[0].items()})
            for number, values in enumerate(sizes):
                for seed in SEEDS:
                    case = f"{path.stem}.{number}.{seed}"
                    rows.append({"case": case, "built": name, "sizes": values, "proved": bool(made)})
                    if (folder / f"{case}.npz").exists():
                        continue
                    given = make_inputs(kernel, values, seed)
                    wanted = run_in_order(kernel, {k: v.copy() for k, v in given.items()}, sizes=values, lanes=32)
                    data = {f"in_{key}": _plain(value) for key, value in given.items()}
                    data |= {
                        f"out_{key}": _outcome(value) for key, value in wanted.items() if _changed(value, given[key])
                    }
                    np.savez_compressed(folder / f"{case}.npz", **data)
    (folder / "cases.json").write_text(json.dumps(rows))


def _changed(value, given) -> bool:
    return not np.array_equal(np.asarray(value), np.asarray(given), equal_nan=np.asarray(given).dtype.kind == "f")


def _outcome(value):
    value = np.asarray(value)
    return value if value.dtype.kind in "iub" else value.astype(np.float32)


def _plain(value):  # bfloat16 has no place in a file of NumPy
    value = np.asarray(value)
    return value.view(np.uint16) if value.dtype.name == "bfloat16" else value


def run_all(folder: Path) -> None:
    import cupy

    from tidegate.lowering.launch import load_built

    loaded = {}
    for row in json.loads((folder / "cases.json").read_text()):
        data = np.load(folder / f"{row['case']}.npz")
        try:
            if row["built"] not in loaded:
                loaded[row["built"]] = load_built(folder / f"{row['built']}.ptx")
            kernel = loaded[row["built"]]
            arrays = {each.name: cupy.asarray(data[f"in_{each.name}"]) for each in kernel.manifest.arrays}
            kernel.launch(arrays, sizes=row["sizes"])
            cupy.cuda.runtime.deviceSynchronize()
        except Exception as error:
            print(row["built"], row["case"], "FAILED", str(error)[:300], flush=True)
            continue
        worst = 0.0
        for each in kernel.manifest.arrays:
            got = cupy.asnumpy(arrays[each.name])
            if each.dtype == "bf16":
                got = (got.astype(np.uint32) << 16).view(np.float32)
            if f"out_{each.name}" not in data:
                continue
            wanted = data[f"out_{each.name}"].astype(np.float64)
            scale = np.maximum(1.0, np.abs(wanted))
            difference = np.abs(got.astype(np.float64) - wanted) / scale
            difference[(got == wanted) | (np.isnan(got) & np.isnan(wanted))] = 0
            worst = max(worst, float(np.max(difference, initial=0)))
        print(row["built"], row["case"], "ok" if worst < 2e-2 else "WRONG", f"{worst:.3g}", flush=True)


if __name__ == "__main__":
    command, where, *rest = sys.argv[1:]
    if command == "compile":
        compile_all(Path(where), rest, ("sm_80", "sm_90"))
    else:
        run_all(Path(where))
