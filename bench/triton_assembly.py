"""Triton's own kernels for AMD: barriers and waits in the assembly, beside the plan.

`python -m bench triton-assembly [--quick]`: each kernel of `oracles/triton_kernels` for each of AMD's targets, compiled
with `tidegate.triton.enabled()` to assembly and to what a GPU loads, and once more with Triton's own pass; no GPU is
needed. Three questions are asked of the assembly:

    barriers    as many as in the plan: those in the text that Tidegate hands on, and those that operations bring along;
                and none from a source line that has fewer than before
    drains      what a wave did to shared memory is done when it comes to a barrier, on all paths
    copies      a wait for copies of the plan is there with its count; where copies are marked (gfx950) it is followed
                on all paths that the wait that stands there covers them

To know that the second question finds something, each wait that stands before a barrier is taken away once. Not seen:
whether the values that a wait is for are the right ones on gfx1250, where instructions are counted and not marked;
what is done to shared memory by way of flat addresses, of which these kernels have none; and functions that are
called, of which they have none either.

A long run can be made in slices, which are put together to one table; the table says which pairs it is about:

    python -m bench.triton_assembly 0 200 > one.json
    python -m bench.triton_assembly 200 174 > two.json
    python -m bench.triton_assembly write one.json two.json
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import tidegate.triton
from bench.triton_assembly_table import Row, table, wrong
from bench.triton_figures import figures, slices
from bench.triton_levels import Texts, barriers_of, lost_lines, standing_in, waits_of
from bench.triton_stages import watched
from oracles.triton_kernels import AMD, compile_to
from oracles.triton_kernels.texts import Pair
from tidegate.comparison import code as amdgcn
from tidegate.triton import FallbackWarning

EVERY_QUICK = 41  # of the pairs, with --quick
NEAR = 4  # lines before a barrier in which its wait stands
DRAIN = re.compile(r"lgkmcnt\(0\)|dscnt 0x0\b")


@dataclass(slots=True)
class Sums:
    """What came of some pairs, as rows that JSON can hold."""

    slices: list[tuple[int, int]] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)

    def add(self, pair: Pair) -> None:
        if pair.target in AMD:
            self.rows.append(asdict(examine(pair)))

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        self.rows += other.rows

    @property
    def is_good(self) -> bool:
        return not any(True for each in self.rows for _ in wrong(Row(**each)))


# --- one pair -----------------------------------------------------------------------------------------------------


def examine(pair: Pair) -> Row:
    """Compiles a pair both ways, and asks."""
    row = Row(pair.name, pair.target)
    try:
        with warnings.catch_warnings(), watched() as seen, tidegate.triton.enabled():
            warnings.simplefilter("ignore", FallbackWarning)
            made, metadata = compile_to(pair.case, pair.target, "hsaco")
        row.triton = amdgcn.barriers_in(compile_to(pair.case, pair.target, "amdgcn")[0]["amdgcn"])
    except Exception as error:  # whatever Triton raises is what the table says
        row.error = f"{type(error).__name__}: {error}"[:200]
        return row
    row.why_not, row.waves, row.size = metadata["tidegate"]["why_not"], metadata["num_warps"], len(made["hsaco"])
    _ask_assembly(row, made["amdgcn"])
    if not row.why_not:
        texts = Texts(seen.placed, seen.llir, made["llir"], made["amdgcn"])
        row.barriers, row.waits = barriers_of(texts, pair.name), waits_of(texts)
        row.standing, row.bare, row.halves = standing_in(seen.placed)
        row.lost = sorted(lost_lines(texts, pair.name))
    return row


def _ask_assembly(row: Row, text: str) -> None:
    for found in map(amdgcn.follow, amdgcn.read_assembly(text)):
        row.open += [line for line, accesses in found.barriers.items() if accesses]
        row.between += sorted(found.between)
        row.missed += sorted(found.missed)
        row.calls += found.calls
    without = list(_without_a_wait(text))
    row.taken = [len(without), sum(map(_is_noticed, without))]


def _without_a_wait(text: str) -> Iterator[str]:
    """The text without one of the waits that stand before a barrier."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        near = range(max(0, number - NEAR), number)
        at = next((each for each in near if DRAIN.search(lines[each])), None)
        if at is not None and re.match(rf"\t{amdgcn.BARRIER}(_signal)?\b", line):
            yield "\n".join([*lines[:at], "", *lines[at + 1 :]])


def _is_noticed(text: str) -> bool:
    return any(open for each in amdgcn.read_assembly(text) for open in amdgcn.follow(each).barriers.values())


# --- many ---------------------------------------------------------------------------------------------------------


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether nothing is missing in the assembly."""
    return figures(Sums, _table, EVERY_QUICK, quick)


def _table(sums: Sums) -> str:
    return table(sums.rows, sums.slices)


if __name__ == "__main__":
    slices("triton-assembly", Sums, _table)
