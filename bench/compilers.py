"""`python -m bench.compilers`: what ptxas and LLVM leave of the order that proofs rely on.

Needs   `pip install tidegate[triton,llvm]`; no GPU
Gives   the table of docs/real-compilers.md; `--why` the first objection of each pair that is not kept;
        `--code KERNEL TARGET` the events of final code, in their order; `--triton NAME…` Triton's kernels
Cost    ten seconds

    python -m bench.compilers --code 'shift −fence' sm_90
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
from oracles.compilers import missing  # noqa: E402
from oracles.corpus import EVERYWHERE, KERNELS  # noqa: E402
from oracles.examine import Examined, examine  # noqa: E402

KEPT, BROKEN = "kept", "**broken**"


def table(found: Sequence[Examined]) -> str:
    """Kernels down, targets across. The table does not say what is proved: that changes with Tidegate."""
    by_name: dict[str, dict[str, Examined]] = {}
    for each in found:
        by_name.setdefault(each.kernel.title, {})[each.target] = each
    lines = [f"| kernel | {' | '.join(EVERYWHERE)} |", f"|---|{'---|' * len(EVERYWHERE)}"]
    for name, row in by_name.items():
        cells = [_cell(row[target]) if target in row else "" for target in EVERYWHERE]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(one: Examined) -> str:
    return "error" if one.error else KEPT if one.is_kept else BROKEN


def _say_why(found: Sequence[Examined]) -> None:
    for each in found:
        if not each.is_kept:
            first = each.error or (each.objections or each.unplaced)[0]
            print(f"{each.kernel.title} on {each.target}: {first}")


def _show_code(title: str, target: str) -> None:
    for each in examine([(kernel, target) for kernel in KERNELS if kernel.title == title]):
        for event in each.code.events if each.code else []:
            print(f"{event.line:4}  {event.text}")


def _show_triton(names: Sequence[str]) -> None:
    from oracles.from_triton import compared

    for name in names:
        print(f"{name}: {compared(name)}")


def main(given: Sequence[str]) -> int:
    if said := missing():
        print(f"NOT RUN: {said}")
        return 2
    if given[:1] == ["--code"] and len(given) == 3:
        _show_code(*given[1:])
        return 0
    if given[:1] == ["--triton"]:
        _show_triton(given[1:])
        return 0
    found = examine([(kernel, target) for kernel in KERNELS for target in kernel.targets])
    if given == ["--why"]:
        _say_why(found)
    else:
        print(table(found))
    return int(any(each.is_kept != each.kernel.holds for each in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
