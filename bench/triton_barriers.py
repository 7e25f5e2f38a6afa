"""Triton's own kernels: barriers that Triton puts in, beside those of Tidegate.

`python -m bench triton-barriers [--quick] [--texts=DIR]`: each kernel of `oracles/triton_kernels` for each of its
targets, two processes side by side. Triton lays out shared memory in both; then one graph gets the barriers of Triton's
`add_membar`, the other those of `tidegate sync`, strategy `minimal`, with the waits left where they are. Barriers that
an operation brings along (those inside a reduction) are in both, and counted in neither. The verifier is asked about
both graphs, and the simulator about what the verifier suspects of Triton's.

A pair is *undecided* if the verifier does not prove our result, an operation with shared memory is not described, the
plan cannot be carried out in the file's own text, or something is raised. It is listed with its reason and left out of
the ratios.

A long run can be made in slices, which are put together to one table; the table says which pairs it is about:

    python -m bench.triton_barriers 0 200 > one.json
    python -m bench.triton_barriers 200 174 > two.json
    python -m bench.triton_barriers write one.json two.json
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, log

from bench.slices import numbers
from bench.triton_figures import TooLong, at_most, barriers_in, figures, slices
from oracles.triton_kernels import TARGETS
from oracles.triton_kernels.texts import Pair, text_of
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.plan import Change, Edit, Insert, Plan, show_plan
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.effects import effects
from tidegate.hosts.triton.program import TritonProgram, programs_of
from tidegate.hosts.triton.read import read_to_edit, read_ttgir
from tidegate.hosts.triton.write import Edited, write_ttgir
from tidegate.simulate.judge import Limits, judge
from tidegate.synchronize.model import SyncOptions
from tidegate.synchronize.refine import refine
from tidegate.synchronize.stages import synchronize_graph
from tidegate.verify.model import Suspect
from tidegate.verify.prover import Prover
from tidegate.verify.say import VERBS, WHY
from tidegate.verify.verify import verify

EVERY_QUICK = 31  # of the pairs, with --quick
MOST_UNDECIDED = 0.05
MOST_SECONDS = 120.0  # for one graph: its plan and what the verifier says of it
MOST_SUSPECTS = 4  # of one pair that are written down
LEFT_IN_PLACE = SyncOptions(strategy="minimal", merge_waits="never", least=False)
JUDGED = Limits(states=1_000, steps=50_000)

# What became of a suspect in Triton's output when a person looked at it, by the name of the pair.
JUDGEMENTS: dict[str, str] = {}


@dataclass(slots=True)
class Row:
    """What came of one pair: barriers in the file and in loops, and what was found."""

    name: str
    kernel: str
    target: str
    triton: list[int] = field(default_factory=list)
    ours: list[int] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)  # edits of ours that wait for more than the file does
    undecided: list[str] = field(default_factory=list)  # why nothing is said of ours
    unproved: str = ""  # why nothing is said of Triton's
    suspects: list[str] = field(default_factory=list)  # of Triton's, each with its witness
    count: int = 0  # of all suspects
    shown: list[str] = field(default_factory=list)  # what the simulator shows of them

    @property
    def outcome(self) -> str:
        """Of the file and of loops: fewer in one and not more in the other; more in either."""
        if self.undecided:
            return UNDECIDED
        if self.ours[0] > self.triton[0] or self.ours[1] > self.triton[1]:
            return MORE
        return EQUAL if self.ours == self.triton else FEWER


FEWER, EQUAL, MORE, UNDECIDED = "fewer barriers than Triton", "as many", "**more**", "undecided"
OUTCOMES = (FEWER, EQUAL, MORE, UNDECIDED)


@dataclass(slots=True)
class Sums:
    """What came of some pairs, as rows that JSON can hold."""

    slices: list[tuple[int, int]] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)

    def add(self, pair: Pair) -> None:
        self.rows.append(asdict(examine(pair)))

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        self.rows += other.rows

    @property
    def is_good(self) -> bool:
        rows = [Row(**each) for each in self.rows]
        undecided = sum(each.outcome == UNDECIDED for each in rows)
        worse = any(each.outcome == MORE or (each.waits and each.outcome != UNDECIDED) for each in rows)
        return not worse and undecided <= MOST_UNDECIDED * len(rows)


# --- one pair -----------------------------------------------------------------------------------------------------


def examine(pair: Pair) -> Row:
    """Both ways to put in barriers, and what the verifier says of them."""
    row = Row(pair.name, pair.case.kernel, pair.target)
    file = f"{pair.name}.ttgir"
    try:
        text = text_of(pair)
        read = read_to_edit(text, file)
        before = programs_of(read)
        after = programs_of(read_ttgir(text, file, before=("barriers",)))
    except Exception as error:
        row.undecided.append(_said(error))
        return row
    none = _counts([each.built.graph for each in before])
    row.triton = _less(_counts([each.built.graph for each in after]), none)
    row.undecided += dict.fromkeys(f"`{op.name}` is not described" for each in before for op in undescribed(each))
    for each in after:
        suspects_of(each, row)
    try:
        with at_most(MOST_SECONDS, "planning and verifying"):
            made = [synchronized(each, row) for each in before]
            row.ours = _less(_counts([graph for graph, _ in made]), none)
            plans = zip(before, (plan for _, plan in made), strict=True)
            write_ttgir(read, [Edited(each.built, plan) for each, plan in plans])
    except (Exception, TooLong) as error:
        row.undecided.append(_said(error))
    return row


def synchronized(program: TritonProgram, row: Row) -> tuple[g.SyncGraph, Plan]:
    graph = program.built.graph
    plan = refine(synchronize_graph(graph, program.target, LEFT_IN_PLACE).plan, Prover(graph, program.target))
    after = apply_to_graph(plan, graph)
    row.waits += (say_edit(each, graph) for each in plan.edits if is_wait(each))
    found = verify(after, program.target)
    if found.undecided:
        row.undecided.append(f"the verifier cannot decide: {'; '.join(dict.fromkeys(found.undecided))}")
    if found.suspects:
        row.undecided.append(f"not proved: {witness_of(found.suspects[0], after)}")
    return after, plan


def is_wait(edit: Edit) -> bool:
    """Whether an edit waits for copies: then waits are not left where they are."""
    op = edit.op if isinstance(edit, Insert | Change) else None
    return bool(getattr(op, "counts", ()) or getattr(op, "wait_async_ops", False))


def say_edit(edit: Edit, graph: g.SyncGraph) -> str:
    """The edit with the line of the file that it is about."""
    words = show_plan(Plan((edit,))).partition("#")[0].split()
    point = edit.before if isinstance(edit, Insert) else edit.point if isinstance(edit, Change) else 0
    return f"{' '.join(words)}, line {_line(graph, point)}"


def suspects_of(program: TritonProgram, row: Row) -> None:
    """What the verifier suspects of Triton's own barriers, and what the simulator shows of that."""
    graph, target = program.built.graph, program.target
    try:
        with at_most(MOST_SECONDS, "verifying Triton's"):
            found = verify(graph, target)
            row.unproved = "; ".join(dict.fromkeys(found.undecided))
            if not found.suspects:
                return
            row.count += len(found.suspects)
            row.suspects += [witness_of(each, graph) for each in found.suspects[:MOST_SUSPECTS]]
            judged = judge(graph, target, JUDGED)
            wanted = {frozenset((each.x, each.y)) for each in found.suspects}
            hit = [each for each in judged.pairs if frozenset(each) in wanted]
            row.shown += [f"lines {_line(graph, x)} and {_line(graph, y)}" for x, y in sorted(hit)[:MOST_SUSPECTS]]
    except (Exception, TooLong) as error:
        row.unproved = _said(error)


def undescribed(program: TritonProgram) -> Iterator[Operation]:
    """Operations that nobody has described and that have to do with shared memory."""
    known = effects()
    calls_share = any(_shares(op) for each in program.ttgir.functions for op in walk(each) if each != program.function)
    for op in program.built.unknown:
        if op.name in known or op.regions or _shares(op) or (op.name == "tt.call" and calls_share):
            yield op


def _shares(op: Operation) -> bool:
    return op.integer("allocation.offset") is not None or "memdesc" in op.type


def witness_of(suspect: Suspect, graph: g.SyncGraph) -> str:
    """Both places with their waves, the iterations, the byte, and why nothing orders them."""
    x, y = graph.points[suspect.x], graph.points[suspect.y]
    waves = suspect.point.waves
    second = waves[0] if suspect.within_a_wave else waves[1]
    shown = (f"{name.rstrip(chr(39))} = {value}" for name, value in suspect.point.values if not name.endswith("'"))
    places = (
        f"line {point.at.line} `{point.label}`: {_who(wave)} {_verb(point.action)}"
        for point, wave in ((x, waves[0]), (y, second))
    )
    where = f"byte {suspect.point.byte} of `{suspect.point.buffer.removeprefix('%')}`"
    says = "nothing waits for the first" if suspect.within_a_wave else WHY[suspect.why]
    loops = ", ".join(filter(None, (_iterations(suspect), *shown)))
    return "; ".join(filter(None, (*places, where, loops, says, "" if suspect.exact else "widened on the way")))


def _iterations(suspect: Suspect) -> str:
    """`#0 + 1`: one iteration after that of the second access."""
    return ", ".join(f"the first in iteration {base} {by:+d}" for base, by in suspect.iterations if by)


def _who(wave: int | None) -> str:
    return "a wave" if wave is None else f"wave {wave}"


def _verb(action: g.Action) -> str:
    return VERBS[action.effect] if isinstance(action, g.Access) else "may touch"


def _line(graph: g.SyncGraph, point: int) -> int:
    return graph.points[point].at.line


def _counts(graphs: Sequence[g.SyncGraph]) -> list[int]:
    found = [barriers_in(each) for each in graphs]
    return [sum(each[0] for each in found), sum(each[1] for each in found)]


def _less(one: list[int], other: list[int]) -> list[int]:
    return [a - b for a, b in zip(one, other, strict=True)]


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, TooLong) else f"{type(error).__name__}: {error}"[:200].replace("\n", " ")


# --- many ---------------------------------------------------------------------------------------------------------


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether nowhere more barriers are put in than by Triton, and little is undecided."""
    return figures(Sums, table, EVERY_QUICK, quick)


# --- tables -------------------------------------------------------------------------------------------------------


def table(sums: Sums) -> str:
    rows = [Row(**each) for each in sums.rows]
    parts = [summary(rows, sums), more_lines(rows), wait_lines(rows), undecided_lines(rows)]
    parts += [suspect_lines(rows), kernel_lines(rows)]
    return "\n\n".join("\n".join(each) for each in parts if each)


def summary(rows: list[Row], sums: Sums) -> list[str]:
    decided = [each for each in rows if not each.undecided]
    lines = [f"| Triton {libtriton.version()}, {numbers(sums.slices)} | |", "|---|---:|"]
    lines += (f"| {word} | {sum(each.outcome == word for each in rows)} |" for word in OUTCOMES)
    lines.append(f"| not decided, of all | {(len(rows) - len(decided)) / max(1, len(rows)):.1%} |")
    for place, words in ((0, "in all files"), (1, "in all loops")):
        theirs, ours = (sum(getattr(each, who)[place] for each in decided) for who in ("triton", "ours"))
        lines.append(f"| barriers {words}, Triton / Tidegate | {theirs} / {ours} |")
    looping = [each for each in decided if each.triton[1] > 0 and each.ours[1] > 0]
    none = sum(each.triton[1] > 0 and not each.ours[1] for each in decided)
    kept = [each for each in decided if not each.waits]
    lines += (
        f"| barriers in loops beside Triton's, {_mean(looping)} |",
        f"| Triton has barriers in loops, Tidegate none | {none} |",
        f"| **waits put in or made stricter** | {len(decided) - len(kept)} |",
        f"| fewer barriers, of those with all waits as they are | {sum(each.outcome == FEWER for each in kept)} |",
        f"| barriers in loops, with all waits as they are, {_mean([each for each in looping if not each.waits])} |",
        f"| Triton's own barriers proved | {sum(not each.count and not each.unproved for each in rows)} |",
        f"| Triton's own barriers with a suspect | {sum(each.count > 0 for each in rows)} |",
        f"| Triton's own barriers not decided | {sum(bool(each.unproved) for each in rows)} |",
    )
    return lines


def _mean(rows: list[Row]) -> str:
    ratio = f"{geometric_mean([each.ours[1] / each.triton[1] for each in rows]):.3f}" if rows else "–"
    return f"geometric mean of {len(rows)} pairs where both have some | {ratio}"


def geometric_mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def more_lines(rows: list[Row]) -> list[str]:
    more = [each for each in rows if each.outcome == MORE]
    if not more:
        return []
    lines = ["**MORE BARRIERS THAN TRITON:**", "", "| pair | file | loops |", "|---|---:|---:|"]
    return [*lines, *(f"| {each.name} | {_beside(each, 0)} | {_beside(each, 1)} |" for each in more)]


def wait_lines(rows: list[Row]) -> list[str]:
    """Where the waits are not left as they are: a barrier less may be paid for there."""
    found = [each for each in rows if each.waits]
    lines = ["| **waits put in or made stricter** | barriers | edits |", "|---|---:|---|"] if found else []
    edits = (f"| {each.name} | {each.outcome} | {'; '.join(f'`{edit}`' for edit in each.waits)} |" for each in found)
    return [*lines, *edits]


def undecided_lines(rows: list[Row]) -> list[str]:
    found = [each for each in rows if each.undecided]
    lines = [f"| undecided | {UNDECIDED} because |", "|---|---|"] if found else []
    return [*lines, *(f"| {each.name} | {_cell('; '.join(each.undecided))} |" for each in found)]


def suspect_lines(rows: list[Row]) -> list[str]:
    """Every pair where the verifier suspects something of Triton's own output."""
    found = [each for each in rows if each.count]
    if not found:
        return []
    lines = ["| Triton's own output | suspects | witnesses | shown by the simulator | judgement |"]
    lines.append("|---|---:|---|---|---|")
    for each in found:
        shown = "; ".join(each.shown) or "no"
        judged = JUDGEMENTS.get(each.name, "not judged yet")
        witnesses = _cell("<br>".join(each.suspects))
        lines.append(f"| {each.name} | {each.count} | {witnesses} | {shown} | {_cell(judged)} |")
    return lines


def kernel_lines(rows: list[Row]) -> list[str]:
    """In each cell: barriers in the file, Triton / ours, and behind the dot those in loops."""
    names = list(dict.fromkeys(each.name.removesuffix(f".{each.target}") for each in rows))
    by_name = {each.name: each for each in rows}
    lines = [f"| kernel | {' | '.join(TARGETS)} |", "|---|" + "---:|" * len(TARGETS)]
    for name in names:
        cells = (_both(by_name.get(f"{name}.{target}")) for target in TARGETS)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _both(row: Row | None) -> str:
    if row is None:
        return ""
    if row.undecided:
        return "?"
    text = f"{_beside(row, 0)} · {_beside(row, 1)}"
    return f"**{text}**" if row.outcome == MORE else text


def _beside(row: Row, place: int) -> str:
    return f"{row.triton[place]} / {row.ours[place]}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    slices("triton-barriers", Sums, table)
