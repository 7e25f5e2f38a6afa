"""`python -m oracles.twin KIND START COUNT [-o file.jsonl]`: programs with their verdicts, then statistics."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from typing import TextIO

from . import AMBIGUITIES, STRICT, generate, judge, to_tide
from .program import Program


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m oracles.twin", description=__doc__)
    parser.add_argument("kind", choices=("lanes", "counts", "atomics"))
    parser.add_argument("start", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("-o", "--output", help="a file of JSON lines; without it only statistics are printed")
    options = parser.parse_args(arguments)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as out:
            _work(options.kind, options.start, options.count, out)
    else:
        _work(options.kind, options.start, options.count, None)
    return 0


def decided_by(program: Program) -> list[str]:
    """Readings, each of which alone would make an unsafe program safe; ["several"] if only some together do."""
    if not judge(program, rules=STRICT.lenient()).safe:
        return []
    return [name for name in AMBIGUITIES if judge(program, rules=STRICT.but(name)).safe] or ["several"]


def _work(kind: str, start: int, count: int, out: TextIO | None) -> None:
    reasons: Counter[str] = Counter()
    readings: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    began = time.perf_counter()
    for seed in range(start, start + count):
        program = generate(kind, seed)
        verdict = judge(program)
        readers = [] if verdict.safe else decided_by(program)
        targets[program.target] += not verdict.safe
        if not verdict.safe:
            reasons[verdict.reason] += 1
        readings.update(readers)
        if out:
            row = {
                "kind": kind,
                "seed": seed,
                "target": program.target,
                "safe": verdict.safe,
                "reason": verdict.reason,
                "why": verdict.why,
                "decided_by": readers,
                "tide": to_tide(program),
            }
            out.write(json.dumps(row) + "\n")
    seconds = time.perf_counter() - began
    wrong = sum(reasons.values())
    print(f"{kind}: {count} programs, {wrong} unsafe ({wrong / max(1, count):.1%}), {count / seconds:.0f} a second")
    for title, table in (("reason", reasons), ("unsafe by target", targets), ("decided by a reading", readings)):
        print(f"  {title}: " + ", ".join(f"{name} {n}" for name, n in table.most_common()))


if __name__ == "__main__":
    sys.exit(main())
