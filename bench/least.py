"""Cheapest barriers, loosest waits: `sync` beside brute force on small random kernels.

`python -m bench.least START COUNT [--kind K] [--json]` compares that many kernels; in JSON, one line for each
`python -m bench.least --show SEED [--kind K]`          prints one kernel, its plans and the plan of brute force
`python -m bench least [--quick]`                       the table of docs/benchmarks.md

Needs   `oracles.programs.least_cases`, which draws the kernels, and `bench.least_compare`
Gives   for each strategy: plans heavier than the least that the verifier proves, and bounds above that least; for
        each distinct plan: counts that can be raised, drains that can be weaker, barriers and waits that can go
Keeps   one process, the same records for the same seeds
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from bench.least_compare import STRATEGIES, Outcome, Record, compare, made
from bench.least_search import Search
from bench.slices import CHUNK, in_order
from oracles.programs.least_cases import KINDS, Case, draw
from tidegate.diag import BadInput
from tidegate.graph.plan import show_plan
from tidegate.language.show import show

COUNT, QUICK = 5_000, 48
SHOWN = 12

# --- tables -------------------------------------------------------------------------------------------------------

COLUMNS = (
    "| kernels | number | least found | not proved | heavier: default | and faster | minimal | optimal | "
    "met more often: default | minimal | optimal | worst ratio: default | minimal | optimal | "
    "bound too high | counts | not loosest | needless waits | needless drains | needless barriers |"
)


def table(records: Sequence[Record]) -> str:
    lines = [COLUMNS, "|---|" + "---:|" * (COLUMNS.count("|") - 2)]
    kinds = dict.fromkeys(record.kind for record in records)
    lines += (row(kind, [record for record in records if record.kind == kind]) for kind in kinds)
    lines.append(row("all", records))
    asked, unsure = sum(record.asked for record in records), sum(record.unsure for record in records)
    lines += ["", f"The simulator was asked about {asked} sets that are not proved, and finds nothing in {unsure}."]
    failing = [record for record in records if record.failures()]
    if failing:
        lines += ["", f"The first of {len(failing)} kernels, by what is wrong:", ""]
        lines += first_failures(failing)
    return "\n".join(lines)


def row(name: str, records: Sequence[Record]) -> str:
    decided = [record for record in records if record.least is not None]
    pairs = [(record, outcome) for record in decided for outcome in record.outcomes]
    heavy, more, worst = [], [], []
    for strategy in STRATEGIES:
        of = [(record, outcome) for record, outcome in pairs if outcome.strategy == strategy and outcome.proved]
        heavy.append(str(sum(record.is_heavy(outcome) for record, outcome in of)))
        more.append(str(sum(record.is_met_more(outcome) for record, outcome in of)))
        worst.append(f"{max((record.ratio(outcome) for record, outcome in of), default=1.0):.2f}")
    spare: Counter[str] = Counter()
    for _, outcome in pairs:
        spare.update({kind: len(what) for kind, what in outcome.spare.items()})
    cells = [
        name,
        str(len(records)),
        str(len(decided)),
        str(sum(not outcome.proved for _, outcome in pairs)),
        heavy[0],
        str(sum(record.is_heavy(outcome) and record.is_faster(outcome) for record, outcome in pairs)),
        *heavy[1:],
        *more,
        *worst,
        str(sum(record.is_bound_wrong(outcome) for record, outcome in pairs)),
        str(sum(outcome.counts for _, outcome in pairs)),
        *(str(spare[kind]) for kind in ("count", "wait removed", "drain", "removed")),
    ]
    return f"| {' | '.join(cells)} |"


def first_failures(failing: Sequence[Record]) -> list[str]:
    """Seeds by what is wrong with them."""
    by_what: dict[str, list[int]] = {}
    for record in failing:
        for failure in record.failures():
            strategy, what, *_ = failure.split(": ")
            what = what.split()[0] if what.startswith(("weight", "bound")) else what
            by_what.setdefault(f"{strategy}: {what}", []).append(record.seed)
    return [f"* {what}: {', '.join(map(str, seeds[:SHOWN]))}" for what, seeds in sorted(by_what.items())]


def run(quick: bool | None = None) -> tuple[str, bool]:
    """For `python -m bench least`."""
    quick = "--quick" in sys.argv if quick is None else quick
    records = list(in_order(record_of, range(QUICK if quick else COUNT), CHUNK))
    good = not any(record.failures() for record in records)
    return table(records), good


def record_of(seed: int) -> Record:
    return compare(draw(seed))


# --- one kernel ---------------------------------------------------------------------------------------------------


def show_case(case: Case) -> str:
    record = compare(case)
    search = Search(case)
    least = search.least()
    parts = [f"seed {case.seed}, {case.kind}", case.text]
    for name in STRATEGIES:
        try:
            result = made(case, name)
        except BadInput as bad:
            parts.append(f"--- {name}: {bad}")
            continue
        outcome = next(each for each in record.outcomes if each.strategy == name) if record.outcomes else Outcome(name)
        said = f"weight {outcome.weight:g}, bound {outcome.bound}, proved {outcome.proved}"
        more = f", met {outcome.executed:g} times, {outcome.cycles:g} cycles" if outcome.cycles is not None else ""
        parts.append(f"--- {name}: {said}{more}")
        parts.append(show_plan(result.plan) + (show(result.kernel) if result.kernel is not None else ""))
        parts += (f"    {kind}: {', '.join(what)}" for kind, what in outcome.spare.items())
    if least is None:
        return "\n".join([*parts, "--- brute force: not proved with barriers at all places"])
    parts.append(f"--- brute force: weight {least.weight:g}, barriers before {', '.join(map(str, least.places))}")
    if record.least_draining is not None and record.least_draining > least.weight:
        parts.append(f"    with barriers alone, without waits and fences of their own: {record.least_draining:g}")
    parts += (describe(case, place, place in least.places) for place in case.places)
    return "\n".join([*parts, *record.failures()])


def describe(case: Case, place: int, is_chosen: bool) -> str:
    point = case.graph.points[place]
    return (
        f"  {'*' if is_chosen else ' '} before {place}: {point.label} in line {point.at.line}, weight {point.weight:g}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.least")
    parser.add_argument("start", type=int, nargs="?", default=0)
    parser.add_argument("count", type=int, nargs="?", default=QUICK)
    parser.add_argument("--kind", choices=KINDS, default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", type=int)
    given = parser.parse_args(arguments)
    if given.show is not None:
        print(show_case(draw(given.show, given.kind)))
        return 0
    began = time.perf_counter()
    records = []
    for seed in range(given.start, given.start + given.count):
        records.append(compare(draw(seed, given.kind)))
        if given.json:
            print(json.dumps(asdict(records[-1]) | {"failures": records[-1].failures()}), flush=True)
    if not given.json:
        print(table(records))
    print(f"{given.count / (time.perf_counter() - began):.1f} programs a second", file=sys.stderr)
    return int(any(record.failures() for record in records))


if __name__ == "__main__":
    sys.exit(main())
