"""Random programs through the verifier and through the simulator: where do they agree?

`python -m bench verify-agreement [--quick]`: programs are drawn by `sync_cases.py`, number n with seed n; two
processes share them. Each is asked about three times:

    as it is        most race; some have all the barriers they need
    synchronized    by `tidegate sync`, strategy `minimal`
    damaged         synchronized, and then one operation that synchronizes taken away, weakened, or its count raised

What the verifier proves is judged all the same: a race, an inversion or a hang there is *missed*. A suspect that the
judge does not come to is run again with the sizes of its witness, as `tidegate check` does.

A long run can be made in slices, which are put together to one table; the table says which programs it is about:

    python -m bench.verify_agreement 0 1000 > one.json
    python -m bench.verify_agreement 1000 1000 > two.json
    python -m bench.verify_agreement write one.json two.json
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.slices import by_slices, numbers, row, sums_of
from oracles.programs.sync_cases import MIXED, Case, draw
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.plan import Change, Delete, Edit, Plan
from tidegate.index import Const
from tidegate.language import ops
from tidegate.simulate.judge import Judgement, Limits, judge
from tidegate.synchronize import synchronize_graph
from tidegate.targets import Target
from tidegate.verify.model import Suspect, Verification
from tidegate.verify.verify import verify

COUNT, QUICK = 10_000, 100
ORDER = (*MIXED[:-1], "stagger")  # one program in ten has a half that is held back
VARIANTS = ("as it is", "synchronized", "damaged")
LEAST_EXACT = 0.95
MOST_REPLAYS = 8
MOST_NAMED = 8
FAR_AWAY = 1 << 40
# Loops are run a few times only: of itself that hides nothing, since counters repeat.
FEW_TRIPS = "trips"

Pair = tuple[int, int]
Check = Callable[[g.SyncGraph, Target], Verification]

CLEAN = "both find nothing"
SAME, MORE, LESS = (
    "both find, the same pairs",
    "both find, the verifier more pairs",
    "both find, the simulator more pairs",
)
MISSED = "**the verifier proves what the simulator shows to be wrong**"
STRAY = "**the verifier has no doubts, and an access lies outside of its buffer**"
ALONE = "only the verifier finds: "
UNDECIDED = "undecided: "
ROWS = (CLEAN, SAME, MORE, LESS, MISSED, STRAY)
MUST_BE_NONE = (MISSED, STRAY)


@dataclass(frozen=True, slots=True)
class Compared:
    """What both say of one program."""

    outcome: str
    is_exact: bool  # proved, or all that is suspected is shown
    is_shown: bool  # proved, or the simulator shows that something is wrong
    verification: Verification
    judgement: Judgement


def number_of(number: int) -> Case:
    """The program with this number."""
    return draw(ORDER[number % len(ORDER)], number)


def variants_of(case: Case) -> Iterator[tuple[str, g.SyncGraph]]:
    yield "as it is", case.graph
    done = apply_to_graph(synchronize_graph(case.graph, case.target).plan, case.graph)
    yield "synchronized", done
    edits = list(damages(done))
    if edits:
        yield "damaged", apply_to_graph(Plan((random.Random(case.seed).choice(edits),)), done)


def damages(graph: g.SyncGraph) -> Iterator[Edit]:
    """Everything that can be taken away, weakened, or counted one higher."""
    for number, point in enumerate(graph.points):
        if not isinstance(point.action, g.Sync) or not isinstance(point.action.op, ops.SyncOp):
            continue
        op = point.action.op
        yield Delete(number)
        if isinstance(op, ops.SharedMemoryBarrier):
            yield Change(number, ops.WorkgroupBarrier(op.pinned))
            if op.wait_async_ops:
                yield Change(number, replace(op, wait_async_ops=False))
        if isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount):
            for place, (name, count) in enumerate(op.counts):
                yield Change(
                    number, replace(op, counts=(*op.counts[:place], (name, count + 1), *op.counts[place + 1 :]))
                )


# --- one program --------------------------------------------------------------------------------------------------


def compare(graph: g.SyncGraph, target: Target, check: Check = verify) -> Compared:
    found, judged = check(graph, target), judge(graph, target)
    wrong = [each for each in judged.findings if each.code.startswith(("TG1", "TG2"))]
    if found.undecided:
        shown = "the simulator finds" if wrong else "the simulator finds nothing"
        return Compared(f"{UNDECIDED}{'; '.join(found.undecided)}; {shown}", False, bool(wrong), found, judged)
    if found.is_proved:
        stray = any(each.code.startswith("TG3") for each in judged.findings) and not (found.doubts or found.outside)
        outcome = MISSED if wrong else STRAY if stray else CLEAN
        return Compared(outcome, outcome == CLEAN, outcome == CLEAN, found, judged)
    theirs = {_sorted(*each) for each in judged.pairs}
    mine = {_sorted(each.x, each.y) for each in found.suspects}
    theirs |= _shown_again(graph, target, [each for each in found.suspects if _sorted(each.x, each.y) not in theirs])
    if not theirs:
        return Compared(ALONE + cause_of(graph, target, found, judged), False, False, found, judged)
    outcome = SAME if mine == theirs else LESS if theirs - mine else MORE
    return Compared(outcome, mine <= theirs, True, found, judged)


def _sorted(one: int, other: int) -> Pair:
    return (min(one, other), max(one, other))


def _shown_again(graph: g.SyncGraph, target: Target, suspects: Sequence[Suspect]) -> set[Pair]:
    """What shows with the sizes of witnesses."""
    sizes = {each.name for each in graph.sizes}
    tried = {tuple((name, value) for name, value in each.point.values if name in sizes) for each in suspects}
    runs = (judge(graph, target, Limits(sizes=each)) for each in sorted(tried)[:MOST_REPLAYS] if each)
    return {_sorted(*pair) for run in runs for pair in run.pairs}


def cause_of(graph: g.SyncGraph, target: Target, found: Verification, judged: Judgement) -> str:
    """Why the simulator may show nothing, as far as can be told."""
    if found.by_path and not any(each.exact for each in found.suspects):
        return "loops with several ways in"
    if not any(each.exact for each in found.suspects):
        return "bytes or conditions that were widened"
    if any(FEW_TRIPS not in each for each in judged.bounded):
        return "the judge did not go through everything"
    if all(not (is_reached(graph, target, each.x) and is_reached(graph, target, each.y)) for each in found.suspects):
        return "a place that no run comes to"
    return "for no reason that can be told"


def is_reached(graph: g.SyncGraph, target: Target, number: int) -> bool:
    """Whether some run comes to an access: one far outside of its buffer is found there."""
    action = graph.points[number].action
    if not isinstance(action, g.Access):
        return True
    place = replace(action.footprint.place, offset=Const(FAR_AWAY))
    point = replace(graph.points[number], action=replace(action, footprint=replace(action.footprint, place=place)))
    moved = replace(graph, points=(*graph.points[:number], point, *graph.points[number + 1 :]))
    return any(each.code == "TG301" for each in judge(moved, target).findings)


# --- many ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sums:
    """What came of some programs. Counters are keyed by variant and outcome, with a tab between."""

    slices: list[tuple[int, int]] = field(default_factory=list)  # numbers of programs: from, up to
    asked: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    exact: Counter[str] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)  # outcome → programs, of those that are not agreement

    def add(self, case: Case) -> None:
        for variant, graph in variants_of(case):
            found = compare(graph, case.target)
            self.asked[variant] += 1
            self.outcomes[f"{variant}\t{found.outcome}"] += 1
            self.exact[variant] += found.is_exact
            self.shown[variant] += found.is_shown
            if found.outcome not in (CLEAN, SAME) and not (found.outcome.startswith(UNDECIDED) and found.is_shown):
                self.named.setdefault(found.outcome, []).append(f"{case.name} {variant}")

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        for name in ("asked", "outcomes", "exact", "shown"):
            getattr(self, name).update(getattr(other, name))
        for outcome, names in other.named.items():
            self.named[outcome] = [*self.named.get(outcome, ()), *names]

    @property
    def is_good(self) -> bool:
        missed = sum(self.outcomes[f"{variant}\t{row}"] for variant in VARIANTS for row in MUST_BE_NONE)
        return not missed and self.share(self.shown) >= LEAST_EXACT

    def share(self, part: Counter[str]) -> float:
        return part.total() / max(1, self.asked.total())


def chunk(limits: tuple[int, int]) -> Sums:
    sums = Sums([limits])
    for number in range(*limits):
        sums.add(number_of(number))
    return sums


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The table, and whether nothing is missed and enough is decided exactly."""
    quick = "--quick" in sys.argv if quick is None else quick
    sums = sums_of(Sums(), chunk, 0, QUICK if quick else COUNT)
    return table(sums), sums.is_good


# --- tables -------------------------------------------------------------------------------------------------------


def table(sums: Sums) -> str:
    rows = {*ROWS, *(key.split("\t")[1] for key in sums.outcomes)}
    lines = [f"| {numbers(sums.slices)} | {' | '.join(VARIANTS)} | all |", "|---|" + "---:|" * (len(VARIANTS) + 1)]
    lines.append(row("asked about", [sums.asked[each] for each in VARIANTS]))
    order = sorted(rows, key=lambda each: (ROWS.index(each) if each in ROWS else len(ROWS), each))
    lines += (row(each, [sums.outcomes[f"{variant}\t{each}"] for variant in VARIANTS]) for each in order)
    for text, part in (
        ("proved, or the simulator shows that something is wrong", sums.shown),
        ("proved, or everything that is suspected is shown", sums.exact),
    ):
        shares = [part[each] / max(1, sums.asked[each]) for each in VARIANTS]
        lines.append(f"| {text} | {' | '.join(f'{each:.1%}' for each in (*shares, sums.share(part)))} |")
    if sums.named:
        lines += ["", "| not the same | programs |", "|---|---|"]
        for outcome, names in sorted(sums.named.items()):
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            lines.append(f"| {outcome} | {', '.join(names[:MOST_NAMED])}{more} |")
    return "\n".join(lines)


if __name__ == "__main__":
    by_slices(sys.argv[1:], "verify-agreement", Sums, chunk, table)
