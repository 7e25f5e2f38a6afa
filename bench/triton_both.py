"""Triton's own kernels for NVIDIA: the verdict on TTGIR beside the verdict on the PTX that Triton makes of it.

    python -m bench.triton_both 0 400 > one.json       pairs of a kernel and a target, by number
    python -m bench.triton_both write one.json ...     the table of docs/benchmarks.md

Needs   Triton; no GPU
Gives   for each kernel and each change of it both verdicts; a change is one barrier less, or one wait that leaves one
        group of copies more in flight. The change is made in TTGIR behind Triton's own barrier pass, and Triton lowers
        the changed text. Barriers that operations bring along are only in PTX: those are removed there
Keeps   neither verdict sees the other text; whatever takes too long counts as undecided
Cost    a compilation and two proofs for each change: half a second
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from bench.slices import by_slices
from bench.triton_figures import at_most, in_a_child, over_pairs
from oracles.triton_kernels import NVIDIA, compile_to
from oracles.triton_kernels.texts import Pair
from tidegate.hosts.dropin.final import find_final_doubt
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.dropin.placing import Doubt, find_doubt
from tidegate.hosts.triton.dropin.switch import between

PROVED, RACE, UNDECIDED = "proved", "race", "undecided"
SECONDS = 30.0  # of one verdict
PAIR_SECONDS = 900.0
WHOLE, BARRIER, WAIT, INNER = "as it is", "barrier removed", "wait raised", "barrier of an operation removed in PTX"
BEYOND = "PTX not modelled"
KINDS = (WHOLE, BARRIER, WAIT, INNER)
_BARRIER = re.compile(r"^\s*ttg\.barrier\b")
_WAIT = re.compile(r"(ttg\.async_wait\b.*?\bnum = )(\d+)")
_INNER = re.compile(r"bar(?:rier)?(?:\.cta)?\.sync\b")
_STATEMENT = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)[^;]*;")
AROUND = 3  # operations on each side by which a barrier is known again
_OBJECTS = re.compile(r"barrier objects|tensormap|mbarrier|wgmma|cluster|bulk")


@dataclass(frozen=True, slots=True)
class Both:
    """One text and what is said of it; the verdict on TTGIR is empty for a change that is made in PTX."""

    pair: str
    kind: str
    line: int
    ttgir: str
    ptx: str
    why: tuple[str, str] = ("", "")


@dataclass(slots=True)
class Sums:
    slices: list[tuple[int, int]] = field(default_factory=list)
    rows: list[list[object]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def add(self, pair: Pair) -> None:
        if pair.target not in NVIDIA:
            return
        found = in_a_child(lambda: {"rows": [_as_list(each) for each in examine(pair)]}, PAIR_SECONDS)
        self.rows += found.get("rows", [])
        if "error" in found:
            self.failed.append(f"{pair.name}: {found['error']}")

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        self.rows += other.rows
        self.failed += other.failed


def _as_list(both: Both) -> list[object]:
    return [both.pair, both.kind, both.line, both.ttgir, both.ptx, list(both.why)]


# --- one kernel ---------------------------------------------------------------------------------------------------


def examine(pair: Pair) -> Iterator[Both]:
    """The kernel as it is, and if its PTX is decided, each change of it."""
    text, ptx = compiled(pair)
    whole = judged(pair.name, WHOLE, 0, text, ptx)
    yield whole
    if is_beyond(whole):
        return
    known: set[int] = set()
    for kind, line, changed in changes(text):
        new_text, new_ptx = compiled(pair, changed)
        known |= lost_barriers(ptx, new_ptx) if kind == BARRIER else set()
        yield judged(pair.name, kind, line, new_text, new_ptx)
    yield from judged_inside(pair.name, ptx, known)


def judged_inside(name: str, ptx: str, known: set[int]) -> Iterator[Both]:
    """Each barrier that is not one of TTGIR's, removed in PTX."""
    for number, (line, _) in enumerate(barriers_of(ptx)):
        if number not in known:
            verdict, why = final_verdict(without_line(ptx, line), name)
            yield Both(name, INNER, line, "", verdict, ("", why))


def barriers_of(ptx: str) -> list[tuple[int, tuple[str, ...]]]:
    """Lines of the barriers of a PTX text, and the operations around each."""
    found = [(number, each) for number, each in enumerate(ptx.split("\n"), 1) if _STATEMENT.match(each)]
    names = [_STATEMENT.match(each)[1] for _, each in found]  # type: ignore[index]
    places = [at for at, name in enumerate(names) if _INNER.match(name)]
    return [(found[at][0], tuple(names[max(0, at - AROUND) : at + AROUND + 1])) for at in places]


def lost_barriers(ptx: str, changed: str) -> set[int]:
    """The number of the barrier that the changed text lacks: that without which both look most alike."""
    before, after = ([around for _, around in barriers_of(each)] for each in (ptx, changed))
    if len(before) != len(after) + 1:
        return set()
    alike = [sum(map(tuple.__eq__, (*before[:number], *before[number + 1 :]), after)) for number in range(len(before))]
    return {alike.index(max(alike))}


def is_beyond(whole: Both) -> bool:
    """Whether the PTX has operations that are not modelled: none of its changes can be decided."""
    return whole.ptx == UNDECIDED and bool(_OBJECTS.search(whole.why[1]))


def compiled(pair: Pair, changed: str = "") -> tuple[str, str]:
    """The module behind Triton's barrier pass, or a changed one in its place, and the PTX that Triton makes of it."""
    texts = []

    def rewrite(text: str) -> str:
        texts.append(changed or libtriton.parse(text, "k.ttgir").run("barriers").text("k.ttgir"))
        return texts[0]

    with between(rewrite, "both"):
        made, _ = compile_to(pair.case, pair.target, "ptx")
    return texts[0], str(made["ptx"])


def changes(text: str) -> Iterator[tuple[str, int, str]]:
    """Each barrier removed, each wait for copies raised by one: kind, line, text."""
    for number, line in enumerate(text.split("\n"), 1):
        if _BARRIER.match(line):
            yield BARRIER, number, without_line(text, number)
        elif found := _WAIT.search(line):
            lines = text.split("\n")
            lines[number - 1] = f"{line[: found.start(2)]}{int(found[2]) + 1}{line[found.end(2) :]}"
            yield WAIT, number, "\n".join(lines)


def without_line(text: str, number: int) -> str:
    lines = text.split("\n")
    return "\n".join((*lines[: number - 1], "", *lines[number:]))


def judged(name: str, kind: str, line: int, text: str, ptx: str) -> Both:
    upper, lower = first_verdict(text, name), final_verdict(ptx, name)
    return Both(name, kind, line, upper[0], lower[0], (upper[1], lower[1]))


def first_verdict(text: str, name: str) -> tuple[str, str]:
    return _verdict(partial(find_doubt, text, name))


def final_verdict(ptx: str, name: str) -> tuple[str, str]:
    return _verdict(partial(find_final_doubt, ptx, name))


def _verdict(ask: partial[Doubt]) -> tuple[str, str]:
    try:
        with at_most(SECONDS, "it"):
            doubt = ask()
    except Exception as error:
        return UNDECIDED, f"{type(error).__name__}: {error}"[:200]
    if not doubt.words:
        return PROVED, ""
    return RACE if doubt.is_race else UNDECIDED, doubt.words[:200]


# --- the table ----------------------------------------------------------------------------------------------------

COLUMNS = ("both proved", "both a race", BEYOND, "only PTX: a race", "only PTX: proved", "other")


def column_of(both: Both) -> str:
    """Which column counts a row; a change that was made in PTX alone has a verdict on PTX alone."""
    if is_beyond(both):
        return BEYOND
    if both.kind == INNER:
        return {RACE: COLUMNS[3], PROVED: COLUMNS[4]}.get(both.ptx, COLUMNS[5])
    return {(PROVED, PROVED): COLUMNS[0], (RACE, RACE): COLUMNS[1]}.get((both.ttgir, both.ptx), COLUMNS[5])


def table(sums: Sums) -> str:
    rows = [Both(*each[:5], tuple(each[5])) for each in sums.rows]  # type: ignore[arg-type, misc]
    lines = [f"| target | text | {' | '.join(COLUMNS)} |", f"|---|---|{'---:|' * len(COLUMNS)}"]
    for target in sorted({each.pair.rpartition(".")[2] for each in rows}):
        for kind in KINDS:
            mine = [each for each in rows if each.kind == kind and each.pair.endswith(f".{target}")]
            counts = Counter(map(column_of, mine))
            lines.append(f"| {target} | {kind} | {' | '.join(str(counts[each] or '') for each in COLUMNS)} |")
    other = (each for each in rows if column_of(each) == COLUMNS[5])
    named = (f"{each.pair}, {each.kind} {each.line or ''}: {each.ttgir}, {each.ptx} {each.why}" for each in other)
    return "\n".join((*lines, *(f"\nother: {each}" for each in named), *(f"\nfailed: {each}" for each in sums.failed)))


def run() -> None:
    import sys

    by_slices(sys.argv[1:], "triton-both", Sums, partial(over_pairs, Sums), table)


if __name__ == "__main__":
    run()
