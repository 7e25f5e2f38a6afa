"""From a kernel in some order to one that is synchronized and has a price; and from there to one that is proved.

Needs   a kernel, or an arrangement of its loop
Gives   a `Candidate` that is not proved yet, its price by one play, or why there is none; `prove`: the same, proved,
        its price by all plays
Keeps   what came of it is what its text says: text is parsed again after each step
Cost    that of `sync` and of the cost model for a draft, that of the verifier for a proof
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.graph.apply import apply_plan
from tidegate.graph.build import KernelGraph, build_graph
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.passes import Unit, check_unit
from tidegate.pingpong.model import Candidate
from tidegate.pingpong.price import price_of
from tidegate.schedule.clusters import Arrangement
from tidegate.schedule.emit import barriers_of
from tidegate.schedule.model import Declined
from tidegate.synchronize import Synchronized, SyncOptions, propose, write_programs
from tidegate.targets import Target

# What stands in a kernel that was arranged was put there: waits are made as loose as they can be.
ARRANGED = SyncOptions(strategy="minimal", tighten_waits=True, judge=False, least=False, loosen=False)
AS_IT_IS = SyncOptions(judge=False, least=False, loosen=False)
ONLY_RUN = "not proved for all trip counts: no race, inversion or hang in what was run"


def draft_kernel(kernel: Kernel, target: Target, strategy: str) -> Candidate | Declined:
    """The kernel in its own order."""
    return _draft(Unit(kernel.name, target, kernel, None), strategy, AS_IT_IS)


def draft_clusters(
    arrangement: Arrangement,
    built: KernelGraph,
    strategy: str,
    stagger: int,
    *,
    meet: bool = False,
    part: bool = False,
    prefer: bool = True,
) -> Candidate | Declined:
    """The kernel in the order of an arrangement, with its barriers and what they have to wait for."""
    target = arrangement.body.target
    plan = barriers_of(arrangement, built, stagger=stagger, meet=meet, part=part, prefer=prefer)
    put = Synchronized(Unit(built.kernel.name, target, built.kernel, None), AS_IT_IS, [])
    put.built, put.graph, put.after, put.plan = built, built.graph, built.graph, plan
    put.kernel = apply_plan(plan, built)
    text = write_programs([put])
    (kernel,) = parse(text).kernels
    found = _draft(Unit(kernel.name, target, kernel, None), strategy, ARRANGED, text)
    return found if isinstance(found, Declined) else replace(found, arrangement=arrangement)


def _draft(unit: Unit, strategy: str, options: SyncOptions, text: str = "") -> Candidate | Declined:
    result = propose(unit, options)
    if result.kernel is None:
        bad = next((each for each in result.findings if each.severity == "error"), None)
        if bad is not None:
            return Declined("misfit", bad.message, bad.help)
        return Declined("not-proven", f"it cannot be synchronized: {result.why_not}")
    written = write_programs([result], text)
    (kernel,) = parse(written).kernels
    graph = build_graph(kernel, unit.target).graph
    return Candidate(strategy, kernel, written, graph, price_of(graph, unit.target, draws=1))


def prove(found: Candidate, target: Target) -> Candidate | Declined:
    """The candidate, or why it must not be given to anybody."""
    unit = Unit(found.kernel.name, target, found.kernel, None)
    checked = check_unit(unit)
    bad = next((each for each in checked.findings if each.severity == "error"), None)
    if bad is not None and bad.code.startswith("TG3"):
        return Declined("misfit", bad.message, bad.help)
    if bad is not None:
        return Declined("unordered", f"{bad.code} is found in what came of it: {bad.message}", at=bad.at)
    if not checked.is_decided:
        return Declined("not-proven", f"nothing is proved: {checked.why_not}")
    price = price_of(found.graph, target)
    return replace(found, price=price, notes=() if checked.is_proved else (ONLY_RUN,))
