"""PTX kernels: how many addresses are exact, what is proved, and whether a barrier less is noticed.

    python -m bench.ptx_corpus                      the NVIDIA kernels of `oracles/triton_kernels`, compiled to PTX
    python -m bench.ptx_corpus FILE.ptx... --block 256
    ... --removals                                  also each proved kernel without each of its barriers

A removal that is still proved is a barrier that shared memory does not need: it may order global memory.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tidegate.diag import BadInput
from tidegate.hosts.isa.launching import parse_block
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.program import Ptx, programs_of
from tidegate.verify.verify import verify

_BARRIER = re.compile(r"\s*(@!?%p\d+\s+)?bar(rier)?\.(cta\.)?sync\b")
_DETAILS = re.compile(r" \(line.*|`[^`]*`|\d+")


@dataclass(slots=True)
class Figures:
    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    removals: Counter[str] = field(default_factory=Counter)
    exact: int = 0
    touches: int = 0
    seconds: list[float] = field(default_factory=list)
    needless: list[str] = field(default_factory=list)

    def show(self) -> str:
        times = sorted(self.seconds) or [0.0]
        return "\n".join(
            (
                f"kernels: {dict(self.verdicts)}",
                f"accesses with exact addresses: {self.exact} of {self.touches}",
                f"seconds: median {median(times):.2f}, 90 % {times[int(0.9 * len(times))]:.2f}, most {times[-1]:.2f}",
                f"undecided: {dict(self.reasons.most_common(8))}",
                f"barriers removed: {dict(self.removals)}",
                *(f"  still proved without {each}" for each in self.needless),
            )
        )


def judge(name: str, text: str, block: tuple[int, ...], figures: Figures | None = None) -> list[tuple[str, str]]:
    """Each kernel of a text, and its verdict."""
    found = []
    for function in parse_ptx(text, name).entries:
        began = time.perf_counter()
        try:
            (program,) = programs_of(Ptx(name, text, parse_ptx(text, name), function.name, block), None)
        except BadInput:
            found.append((function.name, "bad input"))
            continue
        known = verify(program.graph, program.target, memory=False)
        undecided = program.unmodelled or known.undecided
        verdict = "undecided" if undecided else "suspects" if known.suspects else "proved"
        found.append((function.name, verdict))
        if figures is not None:
            figures.seconds.append(time.perf_counter() - began)
            figures.verdicts[verdict] += 1
            figures.exact += program.explored.exact
            figures.touches += program.explored.touches
            figures.reasons.update({without_details(each) for each in undecided})
    return found


def without_details(reason: str) -> str:
    """A reason without its place, names and numbers."""
    return _DETAILS.sub("", reason)


def remove_each(name: str, text: str, block: tuple[int, ...], figures: Figures) -> None:
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if _BARRIER.match(line):
            less = "\n".join((*lines[:number], f"// {line}", *lines[number + 1 :]))
            verdicts = {verdict for _, verdict in judge(name, less, block)}
            what = "still proved" if verdicts == {"proved"} else "noticed"
            figures.removals[what] += 1
            if what == "still proved":
                figures.needless.append(f"{name}:{number + 1}")


def triton_texts() -> Iterator[tuple[str, str]]:
    from oracles.triton_kernels import NVIDIA, cases, compile_to

    for case in cases():
        for target in case.targets:
            if target in NVIDIA:
                yield f"{case.name}.{target}", str(compile_to(case, target, "ptx")[0]["ptx"])


def main(args: list[str]) -> None:
    block = parse_block(args[args.index("--block") + 1]) if "--block" in args else ()
    files = [each for each in args if each.endswith(".ptx")]
    texts = ((each, Path(each).read_text(encoding="utf-8")) for each in files) if files else triton_texts()
    figures = Figures()
    for name, text in texts:
        found = judge(name, text, block, figures)
        print(name, *(f"{kernel}: {verdict}" for kernel, verdict in found), flush=True)
        if "--removals" in args and all(verdict == "proved" for _, verdict in found):
            remove_each(name, text, block, figures)
    print(figures.show())


if __name__ == "__main__":
    main(sys.argv[1:])
