"""What came of Triton's kernels for AMD, and the tables of it.

Needs   a `Row` for each pair of a kernel and a target
Gives   `wrong`: what must not be; `table`: counts for each target, a line for each pair that is not as in the plan
Keeps   what is wrong stands first; each difference has the step that made it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from bench.slices import numbers
from bench.triton_levels import STEPS
from oracles.triton_kernels import AMD
from tidegate.hosts.triton import libtriton


@dataclass(slots=True)
class Row:
    """What came of one pair. Lists of four are its levels: the plan, lowered, optimized, assembly."""

    name: str
    target: str
    error: str = ""  # it does not compile
    why_not: str = ""  # it is left to Triton
    waves: int = 0
    barriers: list[int] = field(default_factory=list)
    triton: int = 0  # barriers in the assembly with Triton's own pass
    standing: int = 0  # of the plan, in its text
    bare: int = 0  # of those, such as drain nothing on purpose
    halves: int = 0  # of those, such as only half of the waves come to
    lost: list[int] = field(default_factory=list)  # source lines with fewer barriers than before
    waits: list[list[int]] = field(default_factory=list)
    open: list[int] = field(default_factory=list)  # lines of barriers with accesses in flight
    between: list[int] = field(default_factory=list)  # lines of accesses between a signal and its wait
    missed: list[int] = field(default_factory=list)  # lines of waits that miss a copy
    taken: list[int] = field(default_factory=list)  # waits that were taken away, and how many of them were noticed
    size: int = 0  # bytes that a GPU would load
    calls: int = 0

    @property
    def outcome(self) -> str:
        if self.error or self.why_not:
            return FAILED if self.error else LEFT
        plan, *_, assembly = self.barriers
        if assembly < plan or self.lost:
            return ONE_WAVE if self.waves == 1 else FEWER
        return EQUAL if assembly == plan else MORE

    @property
    def undrained(self) -> int:
        """Barriers that are not drained, beyond those that are bare on purpose."""
        return max(0, len(self.open) - self.bare)


EQUAL, MORE, ONE_WAVE = "as many as in the plan", "more", "fewer, for a single wave"
FEWER, LEFT, FAILED = "**fewer**", "left to Triton", "**does not compile**"
OUTCOMES = (FEWER, FAILED, EQUAL, MORE, ONE_WAVE, LEFT)

Count = Callable[[list[Row]], int]


def wrong(row: Row) -> Iterator[str]:
    """What must not be."""
    if row.outcome == FEWER:
        yield f"{row.waves} waves, barriers {' → '.join(map(str, row.barriers))}, fewer of lines {row.lost}"
    if row.error:
        yield row.error.replace("|", "/")
    for words, found in (
        ("barriers not drained, lines", row.open if row.undrained else []),
        ("accesses between a signal and its wait, lines", row.between),
        ("waits that miss a copy, lines", row.missed),
        ("waits lost in lowering, counts", _missing(row.waits[0], row.waits[1]) if row.waits else []),
        ("functions called, which are not followed", [row.calls] * (row.calls > 0)),
    ):
        if found:
            yield f"{words}: {', '.join(map(str, found))}"


def _missing(before: list[int], after: list[int]) -> list[int]:
    return sorted((Counter(before) - Counter(after)).elements())


# --- tables ----------------------------------------------------------------------------------------------------------


def table(found: list[dict], slices: list[tuple[int, int]]) -> str:
    rows = [Row(**each) for each in found]
    targets = [each for each in AMD if any(row.target == each for row in rows)]
    lines = _wrong_lines(rows)
    lines += [
        f"| Triton {libtriton.version()}, {len(rows)} for AMD of {numbers(slices)} | {' | '.join(targets)} | all |"
    ]
    lines += ["|---|" + "---:|" * (len(targets) + 1)]
    for words, count in _counts():
        lines.append(_line(words, [count([row for row in rows if row.target == each]) for each in targets]))
    lines += _unequal_lines([each for each in rows if each.outcome == MORE])
    lines += _wait_lines([each for each in rows if each.outcome in (EQUAL, MORE) and _wait_changes(each)])
    if left := [each for each in rows if each.why_not]:
        lines += ["", "| left to Triton | barriers | because |", "|---|---:|---|"]
        lines += (f"| {each.name} | {each.triton} | {each.why_not.replace('|', '/')} |" for each in left)
    return "\n".join(lines)


def _line(words: str, counts: list[int]) -> str:
    return f"| {words} | {' | '.join(f'{each:,}' for each in (*counts, sum(counts)))} |"


def _counts() -> Iterator[tuple[str, Count]]:
    for outcome in OUTCOMES:
        yield f"barriers: {outcome}", lambda rows, outcome=outcome: sum(each.outcome == outcome for each in rows)
    yield "barriers in the plan", lambda rows: sum(each.barriers[0] for each in _ours(rows))
    yield "barriers in the assembly", lambda rows: sum(each.barriers[-1] for each in _ours(rows))
    yield "barriers in the assembly with Triton's own pass", lambda rows: sum(each.triton for each in _ours(rows))
    yield "barriers not drained", lambda rows: sum(each.undrained for each in rows)
    yield "bare on purpose", lambda rows: sum(each.bare for each in rows)
    yield "of those with accesses in flight", lambda rows: sum(min(each.bare, len(each.open)) for each in rows)
    yield "accesses between a signal and its wait", lambda rows: sum(len(each.between) for each in rows)
    yield "drains taken away", lambda rows: sum(each.taken[0] for each in rows if each.taken)
    yield "and noticed", lambda rows: sum(each.taken[1] for each in rows if each.taken)
    yield "waits for copies in the plan", lambda rows: sum(len(each.waits[0]) for each in _ours(rows))
    yield "waits for copies in the assembly", lambda rows: sum(len(each.waits[-1]) for each in _ours(rows))
    yield "waits that miss a marked copy", lambda rows: sum(len(each.missed) for each in rows)


def _ours(rows: Iterable[Row]) -> list[Row]:
    return [each for each in rows if each.barriers]


def _wrong_lines(rows: list[Row]) -> list[str]:
    found = [f"| {row.name} | {words} |" for row in rows for words in wrong(row)]
    return ["| **WRONG** | |", "|---|---|", *found, ""] if found else []


# --- pairs that are not as in the plan ----------------------------------------------------------------------------


def _unequal_lines(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = ["", "| more barriers than in the plan | plan → assembly | Triton's own | because |", "|---|---|---:|---|"]
    for row in rows:
        why = "; ".join(_reasons(row))
        lines.append(f"| {row.name} | {row.barriers[0]} → {row.barriers[-1]} | {row.triton} | {why} |")
    return lines


def _reasons(row: Row) -> Iterator[str]:
    """What each step does to the number of barriers."""
    plan, lowered, optimized, assembly = row.barriers
    if row.halves:
        yield f"{row.halves} that only half of the waves come to, which the plan does not count"
    counted, brought = plan - (row.standing - row.halves), lowered - row.standing
    if brought != counted:
        yield f"operations bring along {brought}, of which the graph has {counted}: rounds, or one for each operand"
    for step, before, after in zip(STEPS[1:], (lowered, optimized), (optimized, assembly), strict=True):
        if before != after:
            yield f"{step} copies blocks, {before} → {after}"


def _wait_lines(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = ["", "| other waits for copies | counts in the plan | and in the assembly |", "|---|---|---|"]
    lines += (f"| {row.name} | {_list(row.waits[0])} | {'; '.join(_wait_changes(row))} |" for row in rows)
    return lines


def _wait_changes(row: Row) -> list[str]:
    """How waits in the assembly differ from those of the plan."""
    plan, lowered, optimized, assembly = row.waits
    own = [each for each in assembly if each not in plan]
    found = [f"{_list(own)}, LLVM's own"] if own else []
    kept = [each for each in assembly if each in plan]
    for step, before, after in zip(STEPS, (plan, lowered, optimized), (lowered, optimized, kept), strict=True):
        if more := _missing(after, before):
            found.append(f"{_list(more)} in blocks that {step} copies")
        if fewer := _missing(before, after):
            found.append(f"{_list(fewer)} fewer: {step} makes one of two")
    return found


def _list(counts: list[int]) -> str:
    return ", ".join(map(str, counts)) or "–"
