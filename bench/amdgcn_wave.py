"""Wave's kernels as assembly, beside the trace that each is made of.

    python -m bench.amdgcn_wave [--only NAME,...] [--target T] [--wave] [--slice K/N]

With a Python that has Wave. Each kernel of `oracles.wave_kernels` is compiled for each of its targets, with Tidegate's
barriers or, with `--wave`, with Wave's own; the verdict of `tidegate.wave.check` on the trace stands beside that of
`tidegate check` on the assembly. No GPU is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.amdgcn_corpus import Agreement, judge
from bench.ptx_corpus import Figures
from oracles.wave_kernels import TARGETS, Case, assembled, cases


def pairs(arguments: argparse.Namespace) -> list[tuple[Case, str]]:
    names = arguments.only.split(",") if arguments.only else []
    targets = [arguments.target] if arguments.target else list(TARGETS)
    chosen = [each for each in cases() if not names or each.name in names or each.kernel in names]
    work = [(each, target) for each in chosen for target in targets if target in each.targets]
    part, of = map(int, arguments.slice.split("/"))
    return work[part - 1 :: of]


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.amdgcn_wave", description=__doc__)
    parser.add_argument("--only", help="kernels or families, with commas between")
    parser.add_argument("--target", choices=TARGETS, help="one target")
    parser.add_argument("--wave", action="store_true", help="Wave's own barriers")
    parser.add_argument("--slice", default="1/1", help="K/N: each Nth pair, from the Kth on")
    arguments = parser.parse_args(given)
    figures, agreement = Figures(), Agreement("trace")
    for case, target in pairs(arguments):
        name = f"{case.name}.{target}"
        try:
            found = assembled(case, target, None if arguments.wave else {})
        except RuntimeError as error:
            print(name, f"does not compile: {error}", flush=True)
            continue
        verdict = judge(name, found.text, (), figures)
        print(name, f"assembly {verdict}, trace {found.verdict}", found.why_not, flush=True)
        agreement.add(name, found.verdict.partition(":")[0], verdict)
    print(figures.show())
    print(agreement.show())


if __name__ == "__main__":
    main(sys.argv[1:])
