"""Random programs with barrier objects through `tidegate check` and through explicit search: where do they agree?

`python -m bench.rings START COUNT > one.json` asks about the programs of some seeds: a right one and a mutant of each.
`python -m bench.rings write one.json two.json` joins such slices to the table in docs/benchmarks.md.
`python -m bench.rings growth` prints how long a plain ring takes by slots and consumers, and the same over tiles.
"""

from __future__ import annotations

import sys
import time

import tidegate as tg
from bench.slices import by_slices, numbers, sums_of
from oracles.rings.compare import Tally, compare, programs
from oracles.rings.generate import plain_ring
from oracles.rings.text import to_tide

COUNT, QUICK = 2_500, 20
SLOTS, CONSUMERS = (2, 3, 4, 6, 8), (1, 2, 3, 4)


def chunk(limits: tuple[int, int]) -> Tally:
    tally = Tally([limits])
    for mutation, program in programs(range(*limits)):
        tally.add(compare(mutation, program))
    return tally


def table(tally: Tally) -> str:
    pairs = numbers(tally.slices).replace(" programs", " pairs")
    lines = [f"A right program and a mutant by seed, {pairs}.", "", tally.show()]
    for says, names in (("**false proofs**", tally.false_proofs), ("false alarms", tally.false_alarms)):
        lines += ["", f"{says}: {', '.join(names) or 'none'}"]
    return "\n".join(lines)


def growth(kind: str) -> str:
    """Seconds of one core to prove, or to give up, without runs."""
    lines = [f"| {kind}, slots | {' | '.join(f'{each} consumers' for each in CONSUMERS)} |"]
    lines.append("|---|" + "--:|" * len(CONSUMERS))
    rows = ((slots, [timed(slots, each, kind) for each in CONSUMERS]) for slots in SLOTS)
    lines += (f"| {slots} | {' | '.join(row)} |" for slots, row in rows)
    return "\n".join(lines)


def timed(slots: int, consumers: int, kind: str) -> str:
    module = tg.parse(to_tide(plain_ring(slots, consumers, kind)))
    start = time.process_time()
    result = tg.check(module, simulate=False)
    seconds = time.process_time() - start
    return f"{seconds:.2f} s" if result.is_proved else f"not proved, {seconds:.2f} s"


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The table, and whether nothing wrong is proved and nothing right has a finding."""
    quick = "--quick" in sys.argv if quick is None else quick
    tally = sums_of(Tally(), chunk, 0, QUICK if quick else COUNT)
    return table(tally), not tally.false_proofs and not tally.false_alarms


if __name__ == "__main__":
    if sys.argv[1:] == ["growth"]:
        print("\n\n".join(map(growth, ("flat", "counted", "carried"))))
    else:
        by_slices(sys.argv[1:], "rings", Tally, chunk, table)
