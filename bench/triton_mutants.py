"""Triton's own kernels, damaged: nothing crashes, and verifier and simulator agree.

`python -m bench triton-mutants [--quick] [--texts=DIR]`: a kernel of `triton_kernels`, laid out and synchronized
by Triton, printed in generic form and changed; number n is drawn with seed n, two processes share them. Our own reader
reads the result, for Triton would refuse some of them. Then the verifier and the simulator are asked. What the verifier
proves, the simulator must not show to race or hang; what the simulator shows must be among the verifier's suspects.

    swapped    an operation that accesses or orders goes up past neighbours that it does not need
    dropped    a barrier is taken away         fence     a fence between proxies is taken away
    added      a barrier is put in             count     a wait waits for another number
    renamed    an operation on shared memory becomes one that nobody has described
    slot       `memdesc_index` takes another slot        bounds    a loop runs from, to or by something else
    offset     two allocations lie at the same bytes     garbled   a piece of the text is missing

A long run can be made in slices, which are put together to one table; the table says which mutants it is about:

    python -m bench.triton_mutants 0 500 > one.json
    python -m bench.triton_mutants 500 500 > two.json
    python -m bench.triton_mutants write one.json two.json
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from bench.slices import by_slices, numbers, sums_of
from bench.triton_figures import LATE, in_a_child
from oracles.triton_kernels.texts import TEXTS, pairs, synchronized_text_of
from tidegate.diag import BadInput, Finding
from tidegate.graph import model as g
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.effects import (
    NOTHING,
    Allocates,
    Commits,
    Fences,
    Meets,
    Touches,
    UsesObject,
    WaitsFor,
    effects,
)
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir
from tidegate.simulate.judge import Judgement, Limits, judge
from tidegate.targets import Target
from tidegate.verify.model import Verification
from tidegate.verify.verify import MOST_SUSPECTS, verify

COUNT, QUICK = 1_000, 40
LEAST_DECIDED = 0.9
MOST_NAMED = 12
MOST_PASSED = 3  # operations that act, on a way up
MOST_TRIES = 1000  # kernels that are looked at until a mutation has a place
LIMITS = Limits(states=300, steps=40_000)
MOST_SECONDS = 30.0  # for reading, verifying and judging one

_OPERATION = re.compile(r'^(\s*)(?:(%[\w.$-]+)(?::\d+)? = )?"([\w.]+)"\(([^()]*)\)')
_VALUE = re.compile(r"%[\w.$-]+")
STRAYS = re.compile("may leave|cannot be computed")
_SLOT = re.compile(r"slot (-?\d+)")
BARRIER = '"ttg.barrier"() <{addrSpace = 1 : i32}> : () -> ()'
UNKNOWN = "mystery.touches"
_ENDS = ("scf.yield", "scf.condition", "tt.return", "cf.br", "cf.cond_br", "ttg.warp_yield", "ttg.warp_return")


@dataclass(frozen=True, slots=True)
class Line:
    """An operation that stands on one line, without regions."""

    number: int
    indent: str
    result: str
    name: str
    operands: tuple[str, ...]
    text: str

    @property
    def touches(self) -> bool:
        """Whether it has to do with shared memory or its synchronization."""
        return self.name in effects() or "memdesc" in self.text or "allocation.offset" in self.text

    @property
    def acts(self) -> bool:
        """Whether it accesses shared memory, or orders what does."""
        does = effects().get(self.name, NOTHING).does
        acts = isinstance(does, Meets | WaitsFor | Commits | Fences | UsesObject | Touches)
        return acts or (isinstance(does, Allocates) and bool(self.operands)) or "allocation.offset" in self.text


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed kernel, and what was done to it."""

    seed: int
    kind: str
    pair: str
    says: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.seed} ({self.kind}, {self.pair}: {self.says})"


# --- drawing ------------------------------------------------------------------------------------------------------


def draw(seed: int) -> Mutant:
    """The mutant with this number. Kinds come in turn; kernels are tried until one has a place for it."""
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    for _ in range(MOST_TRIES):
        pair = rng.choice(pairs())
        made = mutate(synchronized_text_of(pair), kind, rng)
        if made is not None:
            return Mutant(seed, kind, pair.name, *made)
    raise AssertionError(f"no kernel has a place for `{kind}`")


def mutate(text: str, kind: str, rng: random.Random) -> tuple[str, str] | None:
    """What was done, and the new text; None where there is no place for it."""
    lines = text.split("\n")
    said = MUTATIONS[kind](lines, operations(lines), rng)
    return None if said is None else (said, "\n".join(lines))


def operations(lines: list[str]) -> list[Line]:
    found = []
    for number, text in enumerate(lines):
        if (match := _OPERATION.match(text)) and not text.endswith("({"):
            operands = tuple(_VALUE.findall(match[4]))
            found.append(Line(number, match[1], match[2] or "", match[3], operands, text))
    return found


Mutation = Callable[[list[str], list[Line], random.Random], str | None]


def swapped(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    known = {each.number: each for each in ops}
    can = [(each, ways) for each in ops if each.acts and (ways := _ways_up(each, known))]
    if not can:
        return None
    moved, ways = rng.choice(can)
    place = rng.choice(ways)
    lines.insert(place, lines.pop(moved.number))
    return f"`{moved.name}` {moved.number - place} lines up to line {place + 1}"


def _ways_up(moved: Line, known: dict[int, Line]) -> list[int]:
    """Where a line may go, one swap after the other: each place lies before one more that acts."""
    found, place = [], moved.number
    while (above := known.get(place - 1)) is not None and _can_pass(above, moved):
        place -= 1
        if above.acts:
            found.append(place)
    return found[:MOST_PASSED]


def _can_pass(above: Line, moved: Line) -> bool:
    ends = above.name in _ENDS or moved.name in _ENDS
    return not ends and above.indent == moved.indent and (not above.result or above.result not in moved.operands)


def dropped(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    return _drop(lines, [each for each in ops if each.name == "ttg.barrier"], rng)


def fence(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    return _drop(lines, [each for each in ops if each.name == "ttng.fence_async_shared"], rng)


def _drop(lines: list[str], can: list[Line], rng: random.Random) -> str | None:
    if not can:
        return None
    one = rng.choice(can)
    del lines[one.number]
    return f"`{one.name}` in line {one.number + 1}"


def added(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    can = [each for each in ops if each.indent]
    if not can:
        return None
    one = rng.choice([each for each in can if each.touches] or can)
    lines.insert(one.number, one.indent + BARRIER)
    return f"before `{one.name}` in line {one.number + 1}"


def count(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    waits = {name: row.does for name, row in effects().items() if isinstance(row.does, WaitsFor) and "_" in name}
    can = [each for each in ops if each.name in waits and re.search(rf"\b{waits[each.name].count} = \d+", each.text)]
    if not can:
        return None
    one = rng.choice(can)
    key = waits[one.name].count
    match = re.search(rf"\b{key} = (\d+)", one.text)
    assert match is not None
    old = int(match[1])
    new = rng.choice([each for each in (old - 1, old + 1, old + 2, 0, 5) if each >= 0 and each != old])
    lines[one.number] = one.text[: match.start(1)] + str(new) + one.text[match.end(1) :]
    return f"`{one.name}` in line {one.number + 1} waits for {new}, not {old}"


def renamed(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    can = [each for each in ops if "memdesc" in each.text.partition(") -> ")[0] and each.name not in _ENDS]
    if not can:
        return None
    one = rng.choice(can)
    lines[one.number] = one.text.replace(f'"{one.name}"', f'"{UNKNOWN}"', 1)
    return f"`{one.name}` in line {one.number + 1}"


def slot(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    can = [each for each in ops if each.name == "ttg.memdesc_index"]
    if not can:
        return None
    one = rng.choice(can)
    slots = re.search(r"memdesc<(\d+)x", one.text)
    assert slots is not None
    new = rng.randrange(int(slots[1]))
    _with_constant(lines, one.number, one.operands[1], new, "i32")
    return f"line {one.number + 1} takes slot {new}"


def bounds(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    heads = [(number, each) for number, each in enumerate(lines) if '"scf.for"(' in each]
    if not heads:
        return None
    number, text = rng.choice(heads)
    match = _OPERATION.match(text)
    assert match is not None
    which = rng.randrange(3)
    new = rng.choice(((0, 1, 2), (0, 1, 2, 3, 7), (1, 2, 3, 32))[which])
    close = next(each for each in lines[number + 1 :] if each.startswith(match[1] + "})"))
    type_ = re.search(r" : \((\w+),", close)
    _with_constant(lines, number, _VALUE.findall(match[4])[which], new, type_[1] if type_ else "i32", which)
    return f"the loop in line {number + 1}: {('from', 'to', 'by')[which]} {new}"


def _with_constant(lines: list[str], number: int, old: str, new: int, type_: str, place: int = 1) -> None:
    """One operand becomes a constant, which stands on a line before."""
    text = lines[number]
    match = _OPERATION.match(text)
    assert match is not None
    operands = match[4].split(", ")
    assert operands[place].startswith(old)
    operands[place] = "%mutant"
    lines[number] = text[: match.start(4)] + ", ".join(operands) + text[match.end(4) :]
    lines.insert(number, f'{match[1]}%mutant = "arith.constant"() <{{value = {new} : {type_}}}> : () -> {type_}')


def offset(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    found = {each.number: int(m[1]) for each in ops if (m := re.search(r"allocation\.offset = (\d+)", each.text))}
    can = [number for number in found if len(set(found.values())) > 1]
    if not can:
        return None
    one = rng.choice(can)
    new = rng.choice(sorted({*found.values()} - {found[one]}))
    lines[one] = re.sub(r"allocation\.offset = \d+", f"allocation.offset = {new}", lines[one])
    return f"line {one + 1} lies at {new}, not {found[one]}"


def garbled(lines: list[str], ops: list[Line], rng: random.Random) -> str | None:
    number = rng.choice([place for place, each in enumerate(lines) if each.strip()])
    text = lines[number]
    start = rng.randrange(len(text))
    end = min(len(text), start + rng.choice((1, 1, 3, 10, 400)))
    lines[number] = text[:start] + text[end:]
    return f"columns {start + 1} to {end} of line {number + 1}"


MUTATIONS: dict[str, Mutation] = {
    "swapped": swapped,
    "dropped": dropped,
    "added": added,
    "count": count,
    "renamed": renamed,
    "slot": slot,
    "bounds": bounds,
    "offset": offset,
    "fence": fence,
    "garbled": garbled,
}
KINDS = tuple(MUTATIONS)

# --- one mutant ---------------------------------------------------------------------------------------------------

CRASHED, REJECTED = "**crashed**", "rejected as bad input"
PROVED, SHOWN = "proved, and nothing is shown", "shown to be wrong, and suspected"
OUTSIDE = "shown to be wrong outside of a buffer, which the verifier doubts"
SHOWN_ALONE, UNDECIDED = "shown to be wrong, and not decided by the verifier", "undecided"
MISSED, UNSUSPECTED = "**proved, and shown to be wrong**", "**shown, and not among the suspects**"
OUTCOMES = (CRASHED, MISSED, UNSUSPECTED, REJECTED, PROVED, SHOWN, OUTSIDE, SHOWN_ALONE, UNDECIDED)
MUST_BE_NONE = (CRASHED, MISSED, UNSUSPECTED)
DECIDED = (PROVED, SHOWN, OUTSIDE, SHOWN_ALONE)


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of a mutant, and why."""

    outcome: str
    says: str = ""


def examine(mutant: Mutant) -> Examined:
    """In a process of its own: one that takes too long is ended, wherever it is, and one that breaks is seen."""
    found = in_a_child(lambda: asdict(examine_here(mutant)), MOST_SECONDS)
    if "error" not in found:
        return Examined(**found)
    return Examined(UNDECIDED if found["error"].startswith(LATE) else CRASHED, found["error"])


def examine_here(mutant: Mutant) -> Examined:
    """Reads it, and asks the verifier and the simulator about each of its kernels."""
    try:
        programs = programs_of(read_ttgir(mutant.text, f"mutant{mutant.seed}.mlir"))
        found = [asked(each.built.graph, each.target) for each in programs]
    except BadInput as bad:
        return Examined(REJECTED, bad.findings[0].code)
    except Exception as error:
        return Examined(CRASHED, f"{type(error).__name__}: {error}"[:160])
    return min(found, key=lambda each: OUTCOMES.index(each.outcome), default=Examined(REJECTED, "no kernel"))


def asked(graph: g.SyncGraph, target: Target) -> Examined:
    return compare(graph, verify(graph, target), judge(graph, target, LIMITS))


def compare(graph: g.SyncGraph, found: Verification, judged: Judgement) -> Examined:
    """What both say, as one outcome."""
    wrong = [each for each in judged.findings if each.code.startswith(("TG1", "TG2"))]
    first = f"{wrong[0].code} in line {wrong[0].at.line}" if wrong else ""
    if found.undecided:
        reason = found.undecided[0]
        return Examined(SHOWN_ALONE, first) if wrong else Examined(UNDECIDED, f"the verifier: {reason}")
    outside = (
        lines_outside(wrong, graph) if any(STRAYS.search(each) for each in (*found.doubts, *found.outside)) else set()
    )
    if wrong and all(_lines(each) in outside for each in wrong):
        return Examined(OUTSIDE, first)
    if found.is_proved:
        return Examined(MISSED, first) if wrong else Examined(PROVED)
    suspects = {frozenset((each.x, each.y)) for each in found.suspects}
    new = [each for each in judged.pairs if frozenset(each) not in suspects]
    new = [each for each in new if frozenset(graph.points[point].at.line for point in each) not in outside]
    if new and len(found.suspects) < MOST_SUSPECTS:
        return Examined(UNSUSPECTED, f"points {sorted(new)[:3]}")
    if wrong:
        return Examined(SHOWN, first)
    exact = any(each.exact for each in found.suspects)
    return Examined(UNDECIDED, f"suspected, not shown{'' if exact else ', and widened on the way'}")


def lines_outside(findings: list[Finding], graph: g.SyncGraph) -> set[frozenset[int]]:
    """The lines of findings about a slot that no buffer has: what lies there is another matter than order."""
    most = max((each.slots for each in graph.buffers), default=1)
    found = set()
    for each in findings:
        texts = (*each.notes, *(label.text for label in each.labels))
        if any(not 0 <= int(number) < most for text in texts for number in _SLOT.findall(text)):
            found.add(_lines(each))
    return found


def _lines(finding: Finding) -> frozenset[int]:
    return frozenset(label.at.line for label in finding.labels)


# --- many ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sums:
    """What came of some mutants. Counters are keyed by kind and outcome, with a tab between."""

    slices: list[tuple[int, int]] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # why some are undecided or rejected
    named: dict[str, list[str]] = field(default_factory=dict)  # outcome → mutants that must not be

    def add(self, mutant: Mutant) -> None:
        found = examine(mutant)
        self.outcomes[f"{mutant.kind}\t{found.outcome}"] += 1
        if found.outcome in (UNDECIDED, REJECTED):
            self.reasons[f"{found.outcome}: {found.says}"] += 1
        if found.outcome in (*MUST_BE_NONE, UNDECIDED):
            self.named.setdefault(found.outcome, []).append(f"{mutant.name} {found.says}")

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        self.outcomes.update(other.outcomes)
        self.reasons.update(other.reasons)
        for outcome, names in other.named.items():
            self.named[outcome] = [*self.named.get(outcome, ()), *names]

    def total(self, outcomes: tuple[str, ...], kinds: tuple[str, ...] = KINDS) -> int:
        return sum(self.outcomes[f"{kind}\t{outcome}"] for kind in kinds for outcome in outcomes)

    @property
    def share(self) -> float:
        """Decided, of those that have a meaning."""
        read = self.total(OUTCOMES) - self.total((REJECTED,))
        return self.total(DECIDED) / read if read else 1.0

    @property
    def is_good(self) -> bool:
        return not self.total(MUST_BE_NONE) and self.share >= LEAST_DECIDED


def chunk(limits: tuple[int, int]) -> Sums:
    sums = Sums([limits])
    for number in range(*limits):
        sums.add(draw(number))
    return sums


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The table, and whether nothing crashes, both agree, and enough is decided."""
    quick = "--quick" in sys.argv if quick is None else quick
    sums = sums_of(Sums(), chunk, 0, QUICK if quick else COUNT)
    return table(sums), sums.is_good


def table(sums: Sums) -> str:
    head = f"Triton {libtriton.version()}, {numbers(sums.slices)}"
    lines = [f"| {head} | {' | '.join(KINDS)} | all |", "|---|" + "---:|" * (len(KINDS) + 1)]
    for outcome in OUTCOMES:
        cells = (f"{sums.total((outcome,), (kind,)):,}" for kind in KINDS)
        lines.append(f"| {outcome} | {' | '.join(cells)} | {sums.total((outcome,)):,} |")
    lines += ["", f"Decided, of those that are not rejected: {sums.share:.1%}."]
    if sums.reasons:
        lines += ["", "| why | mutants |", "|---|---:|"]
        lines += (f"| {words} | {number:,} |" for words, number in sorted(sums.reasons.items()))
    if sums.named:
        lines += ["", "| outcome | mutants, by seed |", "|---|---|"]
    for outcome in OUTCOMES:
        if names := sums.named.get(outcome):
            most = len(names) if outcome in MUST_BE_NONE else MOST_NAMED
            more = f" and {len(names) - most} more" if len(names) > most else ""
            lines.append(f"| {outcome} | {'; '.join(names[:most]).replace('|', '/')}{more} |")
    return "\n".join(lines)


if __name__ == "__main__":
    by_slices([each for each in sys.argv[1:] if not each.startswith(TEXTS)], "triton-mutants", Sums, chunk, table)
