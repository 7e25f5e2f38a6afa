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
from tidegate.language.parse import parse
from tidegate.passes import check_session
from tidegate.pingpong.model import Candidate
from tidegate.pingpong.price import price_of
from tidegate.scheduling.clusters import Arrangement
from tidegate.scheduling.emit import barriers_of
from tidegate.scheduling.model import Declined
from tidegate.session import Session
from tidegate.synchronize import Synchronized, SyncOptions, propose, write_programs
from tidegate.targets import Target

# What stands in a kernel that was arranged was put there: waits are made as loose as they can be.
ARRANGED = SyncOptions(strategy="minimal", tighten_waits=True, judge=False, least=False, loosen=False)
AS_IT_IS = SyncOptions(judge=False, least=False, loosen=False)
ONLY_RUN = "not proved for all trip counts: no race, inversion or hang in simulation"


def draft_kernel(session: Session, strategy: str) -> Candidate | Declined:
    """The kernel in its own order."""
    return _draft(session, strategy, AS_IT_IS)


def draft_clusters(
    arrangement: Arrangement,
    reordered: Session,
    strategy: str,
    stagger: int,
    *,
    meet: bool = False,
    part: bool = False,
    prefer: bool = True,
) -> Candidate | Declined:
    """The kernel in the order of an arrangement, with its barriers and what they have to wait for."""
    assert reordered.built is not None
    plan = barriers_of(arrangement, reordered.built, stagger=stagger, meet=meet, part=part, prefer=prefer)
    made = replace(reordered, kernel=apply_plan(plan, reordered.built))
    text = write_programs([Synchronized(reordered, AS_IT_IS, [], plan=plan, graph=reordered.graph, made=made)])
    found = _draft(_read(text, reordered.target), strategy, ARRANGED, text)
    return found if isinstance(found, Declined) else replace(found, arrangement=arrangement)


def _draft(unit: Session, strategy: str, options: SyncOptions, text: str = "") -> Candidate | Declined:
    result = propose(unit, options)
    if result.kernel is None:
        bad = next((each for each in result.findings if each.severity == "error"), None)
        if bad is not None:
            return Declined("misfit", bad.message, bad.help)
        return Declined("not-proven", f"it cannot be synchronized: {result.why_not}")
    written = write_programs([result], text)
    session = _read(written, unit.target)
    return Candidate(strategy, session, written, price_of(session.graph, session.target, draws=1))


def _read(text: str, target: Target) -> Session:
    (kernel,) = parse(text).kernels
    return Session(kernel.name, target, kernel)


def prove(found: Candidate) -> Candidate | Declined:
    """The candidate, or why it must not be given to anybody."""
    checked = check_session(found.session)
    bad = next((each for each in checked.findings if each.severity == "error"), None)
    if bad is not None and bad.code.startswith("TG3"):
        return Declined("misfit", bad.message, bad.help)
    if bad is not None:
        return Declined("unordered", f"the result has {bad.code}: {bad.message}", at=bad.at)
    if not checked.is_decided:
        return Declined("not-proven", f"not proved: {checked.why_not}")
    price = price_of(found.graph, found.session.target)
    return replace(found, price=price, notes=() if checked.is_proved else (ONLY_RUN,))
