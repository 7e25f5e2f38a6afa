"""AMDGCN assembly: exact addresses, what is proved, and whether a barrier or a wait less is noticed.

    python -m bench.amdgcn_corpus                       AMD's kernels of `oracles/triton_kernels`, compiled to assembly
    python -m bench.amdgcn_corpus --ttgir               beside the verdict on the TTGIR that each is made of
    python -m bench.amdgcn_corpus FILE.s... --block 256
    ... --only gfx942                                   those with this in their names
    ... --removals                                      also each proved kernel without each of its barriers, and with
                                                        each count of `s_waitcnt` and `s_wait_…` raised by one

No GPU is needed. What is still proved after a removal is a barrier that shared memory does not need, or a wait that
serves registers and global memory alone.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.ptx_corpus import Figures, without_details
from tidegate.diag import BadInput
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.program import Amdgcn, programs_of
from tidegate.hosts.isa.launching import parse_block
from tidegate.verify.verify import verify

_BARRIER = re.compile(r"\s*s_barrier(_signal -1)?\s*$")
_WAIT = re.compile(r"((?:vm|lgkm)cnt\()(\d+)(?=\))|(s_wait_(?:ds|async|tensor|load)cnt )(0x[0-9a-f]+)")


@dataclass(slots=True)
class Agreement:
    """Verdicts on assembly beside those on what it is made of, and the kernels of which they differ."""

    source: str = "TTGIR"
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    differ: list[str] = field(default_factory=list)

    def add(self, name: str, one: str, other: str) -> None:
        self.pairs[one, other] += 1
        if one != other:
            self.differ.append(f"  {name}: {self.source} {one}, assembly {other}")

    def show(self) -> str:
        rows = [f"{self.source} {one}, assembly {other}: {count}" for (one, other), count in sorted(self.pairs.items())]
        return "\n".join((*rows, *self.differ))


def judge(name: str, text: str, block: tuple[int, ...], figures: Figures | None = None) -> str:
    """The verdict on the only kernel of a text, or the worst of several."""
    began = time.perf_counter()
    try:
        assembly = parse_amdgcn(text, name)
        open_ = [each.facts for each in assembly.kernels if not each.facts.get("reqd_workgroup_size")]
        most = [each.get("max_flat_workgroup_size", ())[:1] for each in open_]
        programs = programs_of(Amdgcn(name, text, assembly, block=block or (most[0] if most else ())), None)
    except BadInput as bad:
        return f"bad input: {bad.findings[0].message}"
    verdicts = []
    for program in programs:
        known = verify(program.graph, program.target, memory=False)
        undecided = program.unmodelled or known.undecided
        verdicts.append("suspects" if known.suspects and not undecided else "undecided" if undecided else "proved")
        if figures is not None:
            figures.exact += program.explored.exact
            figures.touches += program.explored.touches
            figures.reasons.update({without_details(each) for each in undecided})
    verdict = next((each for each in ("undecided", "suspects") if each in verdicts), "proved")
    if figures is not None:
        figures.seconds.append(time.perf_counter() - began)
        figures.verdicts[verdict] += 1
    return verdict


def weaken_each(name: str, text: str, block: tuple[int, ...], figures: Figures) -> None:
    """Without each barrier, both halves of it; with each count one higher."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if _BARRIER.match(line):
            gone = {number}
            if "signal" in line:
                later = (each for each in range(number, len(lines)) if "s_barrier_wait" in lines[each])
                gone.add(next(later, number))
            less = "\n".join("" if each in gone else kept for each, kept in enumerate(lines))
            _count("barrier removed", judge(name, less, block), f"{name}:{number + 1}", figures)
        for found in _WAIT.finditer(line):
            head, count = (found[1], found[2]) if found[1] else (found[3], found[4])
            more = f"{line[: found.start()]}{head}{int(count, 0) + 1}{line[found.end() :]}"
            raised = "\n".join((*lines[:number], more, *lines[number + 1 :]))
            _count("count raised", judge(name, raised, block), "", figures)


def _count(what: str, verdict: str, place: str, figures: Figures) -> None:
    figures.removals[f"{what}, {'still proved' if verdict == 'proved' else 'noticed'}"] += 1
    if verdict == "proved" and place:
        figures.needless.append(place)


def ttgir_verdict(name: str, text: str) -> str:
    from tidegate.files import load_text
    from tidegate.session import sessions_of

    try:
        (session,) = sessions_of(load_text(text, f"{name}.ttgir"), None)
    except BadInput:
        return "bad input"
    known = session.verification
    unmodelled = session.origin.unmodelled if session.origin is not None else ()
    return "undecided" if known.undecided or unmodelled else "suspects" if known.suspects else "proved"


def triton_texts(only: str) -> Iterator[tuple[str, str, str]]:
    from oracles.triton_kernels import AMD, compile_to
    from oracles.triton_kernels.texts import pairs, text_of

    for pair in pairs():
        if pair.target in AMD and only in pair.name:
            yield pair.name, str(compile_to(pair.case, pair.target, "amdgcn")[0]["amdgcn"]), text_of(pair)


def main(args: list[str]) -> None:
    block = parse_block(args[args.index("--block") + 1]) if "--block" in args else ()
    only = args[args.index("--only") + 1] if "--only" in args else ""
    files = [each for each in args if each.endswith((".s", ".amdgcn"))]
    named = ((each, Path(each).read_text(encoding="utf-8"), "") for each in files)
    figures, agreement = Figures(), Agreement()
    for name, text, ttgir in named if files else triton_texts(only):
        verdict = judge(name, text, block, figures)
        beside = ttgir_verdict(name, ttgir) if ttgir and "--ttgir" in args else ""
        if beside:
            agreement.add(name, beside, verdict)
        print(name, verdict, *((f"TTGIR {beside}",) if beside else ()), flush=True)
        if "--removals" in args and verdict == "proved":
            weaken_each(name, text, block, figures)
    print(figures.show())
    print(agreement.show())


if __name__ == "__main__":
    main(sys.argv[1:])
