"""Kernels that Numba compiled: what `tidegate check` says of their PTX, and of it with one barrier less.

    python oracles/numba_kernels.py FOLDER      with a Python that has numba-cuda
    python -m bench.numba_kernels FOLDER        with Tidegate's

Needs   the folder
Gives   for each kernel its verdict, and how many of its barriers can go without Tidegate noticing
Cost    a check for each kernel and each barrier
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bench.cuda_corpus import judge_one
from bench.triton_both import without_line

_BARRIER = re.compile(r"\s*bar\.(warp\.)?sync\b")
_ENTRY = re.compile(r"\.entry (\w+)")


def judged(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    block, (kernel,) = text.partition("\n")[0].removeprefix("// --block "), _ENTRY.findall(text)
    verdict, why = judge_one(path, kernel, block, ())
    said = f"| `{path.stem}` | {block} | {verdict}{f': {why}' if why else ''} |"
    lines = [number for number, line in enumerate(text.split("\n"), 1) if _BARRIER.match(line)]
    if verdict != "proved":
        return f"{said} {len(lines)} | |"
    less = path.with_suffix(".less")
    unnoticed = []
    for number in lines:
        less.write_text(without_line(text, number), encoding="utf-8")
        if judge_one(less, kernel, block, ())[0] == "proved":
            unnoticed.append(number)
    less.unlink(missing_ok=True)
    return f"{said} {len(lines)} | {', '.join(f'line {each}' for each in unnoticed) or 'none'} |"


if __name__ == "__main__":
    print("| kernel | block | verdict | barriers | of these not missed |\n|---|---|---|---:|---|")
    for each in sorted(Path(sys.argv[1]).glob("*.ptx")):
        print(judged(each), flush=True)
