"""AMD assembly that others wrote: what is proved, what is reported, what is left open, and why.

    git clone https://github.com/HazyResearch/HipKittens
    python -m bench.amdgcn_public HipKittens                  every `.s` of a checkout, each in the newest version that
                                                              any branch has of it: many live in the history alone
    ... --only attn                                           those with this in their path
    ... --target gfx942                                       of texts that name no GPU, such as disassemblies
    ... --block 256                                           for kernels whose metadata states no shape

Nothing of a checkout is executed. Files for a host, and texts in which instructions are numbers, are left out.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.ptx_corpus import without_details
from tidegate.diag import BadInput
from tidegate.files import MAX_COMPILED
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.program import Amdgcn, AmdgcnProgram, programs_of
from tidegate.hosts.isa.launching import parse_block
from tidegate.limits import check_instructions
from tidegate.verify.verify import verify

MOST_NUMBERS = 1000  # `.long` in one file


def texts(checkout: str, only: str) -> Iterator[tuple[str, str, str]]:
    """Path, commit and text."""
    named = _git(checkout, "log", "--all", "--format=@%h", "--name-only", "--diff-filter=AM", "--", "*.s")
    commit, seen = "", dict[str, str]()
    for line in named.splitlines():
        if line.startswith("@"):
            commit = line[1:]
        elif line:
            seen.setdefault(line, commit)
    for path, commit in sorted(seen.items()):
        if only in path:
            try:
                text = _git(checkout, "show", f"{commit}:{path}")
            except subprocess.CalledProcessError:
                continue  # a merge names files of its parents
            is_host = "x86_64" in Path(path).name
            if not is_host and len(text) <= MAX_COMPILED and text.count(".long") < MOST_NUMBERS:
                yield path, commit, text


def _git(checkout: str, *words: str) -> str:
    done = subprocess.run(["git", "-C", checkout, *words], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def judge(path: str, text: str, block: tuple[int, ...], target: str | None) -> tuple[str, int, int, str]:
    """The worst verdict on the kernels of a text, instructions with exact addresses and all, the first reason."""
    try:
        assembly = parse_amdgcn(text, path)
        check_instructions([len(each.body) for each in assembly.kernels], path)
        amdgcn = Amdgcn(path, text, assembly, block=block)
        programs = programs_of(amdgcn, None if assembly.target else target)
    except BadInput as bad:
        return "refused", 0, 0, bad.findings[0].message
    found = [_verdict(each) for each in programs]
    exact, touches = (sum(getattr(each.explored, name) for each in programs) for name in ("exact", "touches"))
    verdict, reason = min(found, key=lambda each: ("undecided", "reported", "proved").index(each[0]))
    if not touches and verdict == "proved":
        return "no shared memory", 0, 0, ""
    return verdict, exact, touches, reason


def _verdict(program: AmdgcnProgram) -> tuple[str, str]:
    known = verify(program.graph, program.target, memory=False)
    undecided = (*program.unmodelled, *known.undecided)
    if undecided:
        return "undecided", without_details(undecided[0])
    return ("reported", known.suspects[0].why) if known.suspects else ("proved", "")


def main(args: list[str]) -> None:
    block = parse_block(args[args.index("--block") + 1]) if "--block" in args else ()
    only, target = ((args[args.index(each) + 1] if each in args else None) for each in ("--only", "--target"))
    verdicts, reasons = Counter[str](), Counter[str]()
    for path, commit, text in texts(args[0], only or ""):
        began = time.perf_counter()
        verdict, exact, touches, reason = judge(path, text, block, target)
        verdicts[verdict] += 1
        reasons.update({f"{verdict}: {reason}": 1} if reason else {})
        seconds = time.perf_counter() - began
        print(f"{commit} {path}: {verdict}, {exact} of {touches} exact, {seconds:.1f} s {reason}", flush=True)
    print(dict(verdicts))
    for reason, count in reasons.most_common():
        print(f"  {count} {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
