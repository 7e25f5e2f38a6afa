"""One strategy for one kernel: the loop arranged, the kernel synchronized under stagger, and proved.

Needs   a kernel, a target, how many clusters
Gives   a `Candidate`, or why there is none
Keeps   nothing that could not be proved is given; pinned barriers of the kernel stay, others are placed anew
Cost    that of `sync` and of the verifier, for each way to arrange the loop that is tried
"""

from __future__ import annotations

from functools import partial

from tidegate.graph.apply import apply_plan
from tidegate.graph.build import KernelGraph, build_graph
from tidegate.language.ops import Kernel, SharedMemoryBarrier, Signal, WorkgroupBarrier
from tidegate.language.parse import parse
from tidegate.passes import Unit, run_stages
from tidegate.pingpong.model import Candidate
from tidegate.pingpong.price import pays_priority, price_of
from tidegate.schedule.body import Body, find_body, without_placed
from tidegate.schedule.clusters import WAYS, Arrangement, arrange
from tidegate.schedule.emit import barriers_of, reordered
from tidegate.schedule.model import ASYNC_TWO, NONE, TWO, Declined
from tidegate.schedule.slices import split_products
from tidegate.synchronize import Synchronized, SyncOptions, propose, write_programs
from tidegate.targets import Target

MEETING = (WorkgroupBarrier, SharedMemoryBarrier, Signal)


def as_it_is(kernel: Kernel, target: Target, name: str = NONE) -> Candidate | Declined:
    """No new order: synchronized, and proved."""
    built = build_graph(kernel, target)
    return _finish(name, Synchronized(Unit(kernel.name, target, kernel, None), SyncOptions(), []), built, None, "")


def in_clusters(kernel: Kernel, target: Target, strategy: str, clusters: int, stagger: int = 1) -> Candidate | Declined:
    """The cheapest of the ways to arrange the loop in so many clusters."""
    body = find_body(without_placed(kernel), target)
    if isinstance(body, Declined):
        return body
    declined = _unlike(body, strategy)
    if declined is not None:
        return declined
    split = split_products(body, clusters)
    if isinstance(split, Declined):
        plain = arrange(body, 2, stagger=stagger)
        return plain if isinstance(plain, Declined) and plain.reason == "not-pipelined" else split
    body = find_body(split, target)
    assert isinstance(body, Body)
    found = [_synchronized(each, strategy, stagger) for each in _ways(body, clusters, stagger)]
    made = [each for each in found if isinstance(each, Candidate)]
    if made:
        return min(made, key=lambda each: each.price.cycles if each.price else float("inf"))
    refused = [each for each in found if isinstance(each, Declined)]
    return next((each for each in refused if each.reason != "no-memory"), refused[0])


def _unlike(body: Body, strategy: str) -> Declined | None:
    """Why a named strategy is not for this loop."""
    copies = bool(body.of_role("copy"))
    if strategy == TWO and copies:
        return Declined("not-copies", f"`{TWO}` is for loops that write what they read", f"`{ASYNC_TWO}` is for copies")
    if strategy == ASYNC_TWO and not copies:
        return Declined("not-copies", f"`{ASYNC_TWO}` is for loops with asynchronous copies", f"`{TWO}` is for others")
    return None


def _ways(body: Body, clusters: int, stagger: int) -> list[Arrangement | Declined]:
    """All ways to arrange the loop that differ."""
    found: dict[object, Arrangement | Declined] = {}
    for way in WAYS:
        each = arrange(body, clusters, way, stagger=stagger)
        found.setdefault(each.phases if isinstance(each, Arrangement) else each, each)
    return list(found.values())


def _synchronized(arrangement: Arrangement | Declined, strategy: str, stagger: int) -> Candidate | Declined:
    if isinstance(arrangement, Declined):
        return arrangement
    built = reordered(arrangement)
    made = partial(_with_barriers, arrangement, built, strategy, stagger)
    best, outside = made(), {"meet": False, "part": False}
    for name in outside if isinstance(best, Candidate) else ():
        other = made(**{**outside, name: True})
        if isinstance(other, Candidate) and _rank(other) < _rank(best):
            best, outside[name] = other, True
    if isinstance(best, Candidate) and not pays_priority(best, arrangement.body.target):
        return made(**outside, prefer=False)
    return best


def _rank(found: Candidate | Declined) -> tuple[bool, float, int]:
    """What is better: no barrier in the loop beside those of its clusters, for it would shift the turns of the halves;
    then fewer cycles in an iteration; then fewer barriers in the kernel.
    """
    if isinstance(found, Declined) or found.price is None or found.arrangement is None:
        return True, float("inf"), 0
    barriers = sum(isinstance(getattr(each.action, "op", None), MEETING) for each in found.graph.points)
    return found.price.barriers != len(found.arrangement.phases), round(found.price.cycles, 3), barriers


# What stands in a kernel that was arranged was put there: waits are made as loose as they can be.
_OPTIONS = SyncOptions(strategy="minimal", tighten_waits=True, judge=False)


def _with_barriers(
    arrangement: Arrangement,
    built: KernelGraph,
    strategy: str,
    stagger: int,
    *,
    meet: bool = False,
    part: bool = False,
    prefer: bool = True,
) -> Candidate | Declined:
    target = arrangement.body.target
    plan = barriers_of(arrangement, built, stagger=stagger, meet=meet, part=part, prefer=prefer)
    unit = Unit(built.kernel.name, target, built.kernel, None)
    put = Synchronized(unit, SyncOptions(), [], built=built, graph=built.graph, plan=plan)
    put.kernel = apply_plan(plan, built)
    put.after = built.graph
    text = write_programs([put])
    (kernel,) = parse(text).kernels
    fresh = Synchronized(Unit(kernel.name, target, kernel, None), SyncOptions(), [])
    return _finish(strategy, fresh, build_graph(kernel, target), arrangement, text)


def _finish(
    strategy: str, start: Synchronized, built: KernelGraph, arrangement: Arrangement | None, text: str
) -> Candidate | Declined:
    """Synchronizes and proves."""
    unit = start.unit
    result = propose(unit, _OPTIONS if arrangement is not None else SyncOptions(judge=False))
    if result.kernel is None:
        bad = [each for each in result.findings if each.severity == "error"]
        if bad:
            return Declined("misfit", bad[0].message, bad[0].help)
        return Declined("not-proven", f"it cannot be synchronized: {result.why_not}")
    written = write_programs([result], text)
    (kernel,) = parse(written).kernels
    checked = run_stages(
        Unit(unit.name, unit.target, kernel, None), print_after=None, stop_after=None, show=lambda *_: None
    )
    bad = [each for each in checked.findings if each.severity == "error"]
    if bad and bad[0].code.startswith("TG3"):
        return Declined("misfit", bad[0].message, bad[0].help)
    if bad:
        return Declined("unordered", f"under stagger {bad[0].code} is found: {bad[0].message}", at=built.kernel.at)
    if not checked.is_decided:
        return Declined("not-proven", f"nothing is proved: {checked.why_not}")
    graph = build_graph(kernel, unit.target).graph
    notes = () if checked.is_proved else ("not proved for all trip counts: no race, inversion or hang in what was run",)
    return Candidate(strategy, kernel, written, graph, price_of(graph, unit.target), arrangement, notes)
