"""Wave's kernels: barriers and waits in the assembly, beside those that stand in the trace.

`python -m bench.wave_assembly [--only NAME,...] [--target T] [--counts] [--wave] [--slice K/N] [-o OUT.json]` with a
Python that has Wave: each kernel of `wave_kernels` for each of its targets, compiled with Tidegate's barriers (or
Wave's own, with --wave) to assembly; no GPU is needed. The steps of the trace after the barrier pass are written down
as the assembly that they ask for, and both are followed on all paths (`tidegate.comparison.match`):

    barriers    each way through the assembly meets the barriers of a way through the trace, in their order, and does
                no more between two of them; LLVM unrolls and peels loops, so there may be several of one
    drains      at a barrier that drains in the trace nothing of the wave is in flight on shared memory
    copies      no more copies are in flight at a barrier, or at any read, than the trace leaves
    counts      which waits that leave copies in flight stand as they are, and where LLVM waits for more: facts

The exit status is 1 if something does not match. `write ONE.json ...` puts slices together to one table; `races`
prints instructions that race in kernels with Wave's own barriers (`bench.wave_races`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.wave_plan import MAY_NOT_RUN, barriers_by_depth, plan_text
from oracles.wave_kernels import TARGETS, Case, assembled, cases
from tidegate.comparison.code import read_assembly
from tidegate.comparison.match import mismatches
from tidegate.comparison.paths import Events, events_of

SIDE_BY_SIDE = 2  # processes
MOST_SAID = 3  # places of one kind in a cell
NO_LINE = {0: "entry", -1: "end"}


@dataclass(slots=True)
class Row:
    """One kernel for one target."""

    name: str
    target: str
    trace: dict[str, int] = field(default_factory=dict)  # barriers by the depth of loops
    assembly: int = 0
    is_unrolled: bool = False  # no loop is left
    one_wave: bool = False  # LLVM drops barriers of a workgroup that is one wave
    wrong: list[str] = field(default_factory=list)
    counted: list[int] = field(default_factory=lambda: [0, 0, 0])  # waits kept, made stricter, not needed any more
    early: list[str] = field(default_factory=list)  # waits that LLVM adds, which end copies
    why_not: str = ""  # why barriers are Wave's own
    error: str = ""  # why it does not compile
    is_waves: bool = False  # and neither does it with Wave's own barriers

    @property
    def is_good(self) -> bool:
        return not self.wrong and (not self.error or self.is_waves)


def examine(case: Case, target: str, tidegate: dict[str, Any] | None) -> Row:
    """Compiles one kernel, and asks; what does not compile is in the row."""
    try:
        found = assembled(case, target, tidegate)
    except RuntimeError as error:
        return Row(case.name, target, error=str(error), is_waves=tidegate is None or _fails(case, target))
    row = compare(case.name, target, found.text, found.steps)
    row.why_not = found.why_not
    return row


def _fails(case: Case, target: str) -> bool:
    """Whether it does not compile with Wave's own barriers either."""
    try:
        assembled(case, target)
    except RuntimeError:
        return True
    return False


def compare(name: str, target: str, text: str, steps: Sequence[dict[str, Any]]) -> Row:
    """An assembly beside the steps of its trace."""
    row = Row(name, target, {str(depth): count for depth, count in barriers_by_depth(steps).items()})
    (blocks,) = read_assembly(text)
    made = events_of(blocks)
    plan = plan_text(steps, target, unrolled=not made.has_loops)
    told = events_of(*read_assembly(plan))
    row.assembly, row.is_unrolled, row.one_wave = made.barriers, not made.has_loops, _is_one_wave(text)
    if made.under_reads > told.under_reads:
        row.wrong.append(f"{made.under_reads} copies are in flight at a read, in the trace {told.under_reads}")
    if row.one_wave and not made.barriers:
        return row
    wrong, matched = mismatches(made, told)
    if wrong:
        # LLVM leaves some loops at their top: then nobody sees that they run at all. And of a block that is passed a
        # known number of times nobody sees how often: there the plan has loops as well.
        plan = plan_text(steps, target, at_top=made.has_loops)
        told = events_of(*read_assembly(plan))
        wrong, matched = mismatches(made, told)
    row.wrong += [f"{NO_LINE.get(each.line) or f'line {each.line}'}: {each.what}" for each in wrong]
    if not wrong:
        _ask_lost(row, told, matched, plan.split("\n"))
        _ask_counts(row, made, told, matched, text.split("\n"))
    return row


def _is_one_wave(text: str) -> bool:
    threads = re.search(r"\.max_flat_workgroup_size: *(\d+)", text)
    lanes = re.search(r"\.wavefront_size: *(\d+)", text)
    return bool(threads and lanes) and int(threads[1]) <= int(lanes[1])  # type: ignore[index]


def _ask_lost(row: Row, told: Events, matched: dict[int, set[int]], plan: list[str]) -> None:
    """Barriers of the trace that no path of the assembly comes to."""
    found = set().union(*matched.values())
    for line, name in told.names.items():
        if line > 0 and line not in found:
            where = ", in a block that may not run" if plan[line - 1].endswith(MAY_NOT_RUN) else ""
            row.wrong.append(f"`{name}` of the trace is nowhere{where}")


def _ask_counts(row: Row, made: Events, told: Events, matched: dict[int, set[int]], lines: list[str]) -> None:
    """What became of waits that leave copies in flight."""
    for line, places in matched.items():
        wanted = {told.counts[each] for each in places if told.counts.get(each)}
        if wanted:
            count = made.counts.get(line)
            row.counted[2 if count is None else 0 if count in wanted else 1] += 1
    for line, (before, behind) in sorted(made.early.items()):
        needs = next((each.strip() for each in lines[line:] if re.match(r"\t[a-z]", each)), "")
        wait = f"`{_code(lines[line - 1])}`, copies {before} → {behind}"
        row.early.append(f"line {line}: {wait}, before `{_code(needs)}`")


def _code(line: str) -> str:
    return " ".join(line.split(";")[0].split())


# --- the table ----------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    lines = ["| kernel | target | barriers trace → assembly | undrained | counts kept / stricter / dropped |"]
    lines += ["|---|---|---|---|---|", *map(_line, rows), ""]
    for title, pick in (
        ("**Not as in the trace**", _wrong),
        ("LLVM waits for copies", _early),
        ("Wave's own barriers", _why_not),
    ):
        said = [f"- {row.name} {row.target}: {each}" for row in rows for each in _few(pick(row))]
        lines += [f"{title}:", "", *said, ""] if said else []
    bad, none = sum(not row.is_good for row in rows), sum(bool(row.error) and row.is_good for row in rows)
    kept, stricter, dropped = (sum(row.counted[each] for row in rows) for each in range(3))
    trace, assembly = sum(sum(row.trace.values()) for row in rows), sum(row.assembly for row in rows)
    said = [f"{len(rows)} pairs: {len(rows) - bad - none} as in the trace, {bad} not, {none} do not compile at all"]
    said += [f"barriers {trace} → {assembly}"]
    said += [f"counted waits: {kept} kept, {stricter} stricter, {dropped} dropped"]
    said += [f"{sum(len(row.early) for row in rows)} waits of LLVM's own that end copies"]
    return "\n".join([*lines, "; ".join(said)])


def _line(row: Row) -> str:
    if row.error:
        return f"| {row.name} | {row.target} | {row.error.replace('|', '/')} | | |"
    trace = " + ".join(f"{count} at depth {depth}" for depth, count in row.trace.items()) or "0"
    note = " (one wave)" if row.one_wave else " (unrolled)" if row.is_unrolled and sum(row.trace.values()) else ""
    undrained = sum("in flight" in each for each in row.wrong)
    counts = " / ".join(map(str, row.counted)) if any(row.counted) else ""
    mark = " **wrong**" if row.wrong else ""
    return f"| {row.name} | {row.target} | {trace} → {row.assembly}{note}{mark} | {undrained} | {counts} |"


def _wrong(row: Row) -> list[str]:
    return row.wrong


def _early(row: Row) -> list[str]:
    return row.early


def _why_not(row: Row) -> list[str]:
    return [row.why_not] if row.why_not else []


def _few(given: list[str]) -> Iterator[str]:
    yield from given[:MOST_SAID]
    if len(given) > MOST_SAID:
        yield f"and {len(given) - MOST_SAID} more"


# --- many ---------------------------------------------------------------------------------------------------------


def main(given: Sequence[str]) -> int:
    if given[:1] == ["races"]:
        from bench.wave_races import print_races

        return print_races(given[1:])
    if given[:1] == ["write"]:
        rows = [Row(**each) for path in given[1:] for each in json.loads(Path(path).read_text(encoding="utf-8"))]
    else:
        arguments = _read_arguments(given)
        rows = list(_rows(arguments))
        if arguments.output:
            text = json.dumps([asdict(row) for row in rows], indent=1)
            Path(arguments.output).write_text(text, encoding="utf-8")
    print(table(rows))
    return int(not all(row.is_good for row in rows))


def _rows(arguments: argparse.Namespace) -> Iterator[Row]:
    names = arguments.only.split(",") if arguments.only else []
    targets = [arguments.target] if arguments.target else list(TARGETS)
    chosen = [each for each in cases() if not names or each.name in names or each.kernel in names]
    work = [(each, target) for each in chosen for target in targets if target in each.targets]
    part, of = map(int, arguments.slice.split("/"))
    options = None if arguments.wave else {"counts": arguments.counts}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:  # each starts a process, and waits for it
        for row in pool.map(partial(_examine, options), work[part - 1 :: of]):
            print(_line(row), file=sys.stderr, flush=True)
            yield row


def _examine(options: dict[str, Any] | None, one: tuple[Case, str]) -> Row:
    return examine(*one, options)


def _read_arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.wave_assembly", description=__doc__)
    parser.add_argument("--only", help="kernels or families, with commas between")
    parser.add_argument("--target", choices=TARGETS, help="one target")
    parser.add_argument("--counts", action="store_true", help="waits that leave copies in flight")
    parser.add_argument("--wave", action="store_true", help="Wave's own barriers")
    parser.add_argument("--slice", default="1/1", help="K/N: each Nth pair, from the Kth on")
    parser.add_argument("-o", "--output", help="the rows as JSON")
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
