"""Barriers for one trace: read, planned, written, proved as it is read back.

Needs   a trace in Wave's hands, its context, a target, and options
Gives   the trace with Tidegate's barriers, and why each of them stands; or the trace as it was, and why
Keeps   what is put in is proved on the trace as it then stands, on the graph that `check` makes of it: every access by
        itself, with its bytes. What a coarser graph was enough to place may fail there; then the plan is made again
        from all bytes, and where that is not proved either, everything is taken back
Cost    linear in the nodes for reading and writing; the plan is a few milliseconds for most kernels, the proof up to a
        second for kernels with many accesses to buffers that are used in turn

    CapturedTrace ─▶ coarse SyncGraph ─▶ plan ─▶ CapturedTrace ─▶ exact SyncGraph ─▶ proof
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tidegate.collecting import no_collecting
from tidegate.diag import BadInput
from tidegate.graph import model as g
from tidegate.graph.barriers import tally
from tidegate.graph.plan import Insert, Plan
from tidegate.hazards.model import Unplaced
from tidegate.hosts.wave.build import Built, build
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.nodes import op_of, span_of
from tidegate.hosts.wave.regions import reached_graphs
from tidegate.hosts.wave.write import Written, take_back, write
from tidegate.language.ops import ConditionalBarrier
from tidegate.language.show import show_op
from tidegate.synchronize import SyncOptions, synchronize_graph
from tidegate.synchronize.refine import refine
from tidegate.targets import Target
from tidegate.verify.prover import Prover
from tidegate.verify.verify import find_wrong

MOST_PLACES = 3  # that one reason names
CLUSTER = "the workgroups of a cluster write into each other's shared memory, and only one of them is checked"


@dataclass(frozen=True, slots=True)
class Options:
    """`counts`: waits that leave copies under way, where Wave waits for all of them.

    `schedule`: how loops are reordered for ping-pong; empty leaves that to Wave. `verify`: prove what was written;
    "asm": and the assembly that is made of it. `strategy`: where barriers go; empty takes what fits the target.
    `remove_redundant`: barriers that stand in the trace already, and that nothing needs, go: Wave puts some in where
    buffers share bytes.
    """

    counts: bool = False
    schedule: str = ""
    verify: bool | str = True
    strategy: str = ""
    remove_redundant: bool = False


@dataclass(slots=True)
class Placement:
    """What came of one trace."""

    why_not: str = ""  # why it keeps Wave's own barriers; empty if it does not
    reasons: tuple[str, ...] = ()  # one for each edit
    barriers: int = 0
    in_loops: float = 0.0  # how often barriers are met in loops, as far as anybody knows
    unclear: tuple[str, ...] = ()  # operations that were taken for worse than they may be
    seconds: dict[str, float] = field(default_factory=dict)  # read, plan, write, prove
    written: Written | None = None


def place_barriers(trace: Any, context: Context, target: Target, options: Options, name: str = "kernel") -> Placement:
    """Puts barriers into a trace, or says why not."""
    found = Placement()
    with no_collecting():
        try:
            _place(found, trace, context, target, options, name)
        except BadInput as bad:
            found.why_not = bad.findings[0].message
    return found


def _place(found: Placement, trace: Any, context: Context, target: Target, options: Options, name: str) -> None:
    if options.verify and context.mapped > 1 and _has(trace, "tensor_load_to_lds"):
        found.why_not = CLUSTER
        return
    for draft in _drafts(found, trace, context, target, options, name):
        found.why_not = _say_unplaced(draft) if not options.verify else ""  # else the proof has the last word
        if found.why_not:
            continue
        with _timed(found, "write"):
            found.written = write(draft.plan, draft.built, target, counts=options.counts)
        try:
            exact = build(trace, context, target, name=name)
            if options.verify:
                with _timed(found, "prove"):
                    found.why_not = find_doubt(exact, target)
            if not found.why_not:
                _say_what(found, draft, exact)
                return
        except BaseException:
            take_back(found.written)
            raise
        take_back(found.written)
        found.written = None


@dataclass(frozen=True, slots=True)
class _Draft:
    """Barriers for a trace, not yet written, and what they cannot order."""

    built: Built
    plan: Plan
    unplaced: tuple[Unplaced, ...]


def _say_what(found: Placement, draft: _Draft, exact: Built) -> None:
    """What stands in the trace now; the reasons are those of the plan."""
    points = exact.graph.points
    found.barriers = tally(exact.graph).barriers
    found.in_loops = tally(exact.graph, (each for each, point in enumerate(points) if point.loop >= 0)).weight
    found.reasons = tuple(_reasons(draft.plan, draft.built))
    found.unclear = tuple(f"`{each.node.name}`: {each.why}" for each in (*exact.unclear, *exact.unmodelled))


def _drafts(
    found: Placement, trace: Any, context: Context, target: Target, options: Options, name: str
) -> Iterator[_Draft]:
    """Plans for a trace, the cheapest to find first; another is asked for if what became of one is not proved."""
    wanted = SyncOptions(
        strategy=options.strategy,
        remove_redundant=options.remove_redundant,
        merge_waits="never",
        judge=False,
        loosen=False,
        least=False,  # each proof of a trace takes as long as its plan
    )

    def draft(**how: bool) -> _Draft:
        with _timed(found, "read"):
            built = build(trace, context, target, name=name, **how)
        with _timed(found, "plan"):
            placed = synchronize_graph(built.graph, target.without_wave_fence(), wanted)
            plan = placed.plan
            if options.verify and _is_staggered(
                built.graph
            ):  # what waves need that are held back, a proof knows better
                plan = refine(plan, Prover(built.graph, target))
        return _Draft(built, plan, placed.unplaced)

    coarse = draft(coarse=True)
    if _stands_for_writes_alone(coarse.plan):  # perhaps no wave writes what is another's
        coarse = draft(coarse=True, by_wave=True)
    if not _stands_for_writes_alone(coarse.plan):
        yield coarse
    yield draft()


def _say_unplaced(draft: _Draft) -> str:
    """What no barrier of a plan orders, in words."""
    if not draft.unplaced:
        return ""
    first = draft.unplaced[0]
    x, y = (draft.built.nodes[each].name for each in (first.hazard.producer, first.hazard.consumer))
    return f"no barrier can be inserted between `{x}` and `{y}`: {first.why}"


@contextmanager
def _timed(found: Placement, part: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    found.seconds[part] = found.seconds.get(part, 0.0) + time.perf_counter() - start


def _stands_for_writes_alone(plan: Plan) -> bool:
    return any(
        isinstance(edit, Insert) and edit.serves and all(each.startswith("WAW") for each in edit.serves)
        for edit in plan.edits
    )


def find_doubt(exact: Built, target: Target) -> str:
    """Why a trace as it stands is not proved, in words; empty if it is. The graph is the trace's own: nothing coarser
    than what `check` looks at is ever called proved.
    """
    if exact.unmodelled:
        return f"`{exact.unmodelled[0].node.name}`: {exact.unmodelled[0].why}"
    wrong = find_wrong(exact.graph, target, inside=True)
    if wrong is None:
        return ""
    if wrong[0] < 0:
        return "the verifier does not decide it"
    first, second = (exact.nodes[each].name for each in wrong)
    return f"the verifier sees no order between `{first}` and `{second}`"


def _has(trace: Any, op: str) -> bool:
    return any(op_of(node) == op for graph in reached_graphs(trace) for node in graph.nodes)


def _is_staggered(graph: g.SyncGraph) -> bool:
    return any(
        isinstance(each.action, g.Sync) and isinstance(each.action.op, ConditionalBarrier) for each in graph.points
    )


def _reasons(plan: Plan, built: Built) -> Iterator[str]:
    """Why each edit stands: what it orders."""
    for edit in plan.edits:
        op = getattr(edit, "op", None)
        what = next(show_op(op)) if op is not None else type(edit).__name__.lower()
        served = list(dict.fromkeys(edit.serves))
        more = [f"and {len(served) - MOST_PLACES} more"] if len(served) > MOST_PLACES else []
        point = edit.before if isinstance(edit, Insert) else getattr(edit, "point", -1)
        node = built.nodes[point] if point >= 0 else None
        at = f" before `{node.name}`" if node is not None else ""
        place = span_of(node) if node is not None else None
        where = f" ({place})" if place is not None and place.line else ""
        yield f"{what}{at}{where}: {'; '.join((*served[:MOST_PLACES], *more)) or 'prepares another'}"
