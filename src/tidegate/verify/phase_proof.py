"""Programs with barrier objects and roles, decided for all trip counts.

Needs   what a proof of the same program rests on: flow, footprints, paths, questions, events
Gives   that all waits end, and end for what they are meant for; and the accesses of two waves that nothing orders
Keeps   where the program is none of those that can be decided, or an obligation does not hold, `Outside` says why:
        nothing is proved then
Cost    some hundred questions to isl; given up after a number of its operations

The proof is by induction over time: while every phase was as guessed so far, obligations see to it that the next step
keeps to the guess. No circle of waits means that somebody can always go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import islpy as isl

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.index import Index
from tidegate.language import ops
from tidegate.targets import Target
from tidegate.verify.events import WORKGROUP, Event, LaneFence, Rules
from tidegate.verify.meet import Meet
from tidegate.verify.parting import Parting
from tidegate.verify.phase_accesses import Accesses
from tidegate.verify.phase_beside import still_loose
from tidegate.verify.phase_cases import cases_of
from tidegate.verify.phase_counting import Counting
from tidegate.verify.phase_domains import Domains
from tidegate.verify.phase_generations import guess
from tidegate.verify.phase_meetings import find_meetings
from tidegate.verify.phase_model import LoosePair, ObjectProof, Outside, Role
from tidegate.verify.phase_obligations import find_broken
from tidegate.verify.phase_order import in_memory, in_time
from tidegate.verify.phase_relations import Relations
from tidegate.verify.phase_roles import find_roles
from tidegate.verify.phase_space import MAX_OPERATIONS, Space, context
from tidegate.verify.phase_statements import ObjectUseAt, barriers_of, statements_of

MOST_CLASHES = 250

Guesses = dict[tuple[Role, int, str], str | Index]


def prove(
    flow: Flow, meet: Meet, events: Mapping[int, tuple[Event, ...]], rules: Rules, parting: Parting, target: Target
) -> ObjectProof:
    """Raises `Outside` where nothing can be said."""
    context().set_max_operations(MAX_OPERATIONS)
    context().reset_operations()
    try:
        return _prove(flow, meet, events, rules, parting, target)
    except isl.Error as error:
        raise Outside("the questions about barrier objects are too hard for isl") from error
    finally:
        context().set_max_operations(0)


def _prove(
    flow: Flow, meet: Meet, events: Mapping[int, tuple[Event, ...]], rules: Rules, parting: Parting, target: Target
) -> ObjectProof:
    paths, footprints = meet.paths, meet.footprints
    if not parting.crossing.isdisjoint(events):
        raise Outside("waves that diverge and whose paths cross before they meet again")
    roles = find_roles(flow, footprints, paths)
    depth = max((len(around) for around in paths.around), default=0)
    space = Space(flow, footprints, paths, meet.isl, paths.rank, depth)
    slots = max((each.slots for each in barriers_of(flow.graph).values()), default=1)
    cases: Sequence[Counting | None] = cases_of(space, footprints, slots)
    guesses: Guesses = {}
    accesses: list[Accesses] = []
    clashes: dict[tuple[int, int, str, bool], LoosePair] = {}
    for case in cases or [None]:
        space = Space(flow, footprints, paths, meet.isl, paths.rank, depth, case)
        if space.known().is_empty():
            continue
        relations, domains = _relations(space, roles, parting, guesses)
        if broken := find_broken(in_time(relations)):
            raise broken.outside(relations)
        accesses.append(Accesses(in_memory(relations), domains, meet, events, rules))
        for each in islice(accesses[-1].clashes(), MOST_CLASHES):
            clashes.setdefault((each.x, each.y, each.why, each.within_a_wave), each)
    reporting = frozenset(node for each in accesses for node in each.reporting)
    if not any(each.order.relations.meetings.maybe for each in accesses):
        return ObjectProof(roles, tuple(clashes.values()), reporting)
    if still_loose(flow, target, clashes.values(), reporting):
        raise Outside("only a barrier under conditions that nobody can compute may order some accesses")
    return ObjectProof(roles, (), reporting)


def _relations(
    space: Space, roles: tuple[Role, ...], parting: Parting, guesses: Guesses
) -> tuple[Relations, list[Domains]]:
    """What is guessed in the first case holds in all of them."""
    domains = [Domains(space, role) for role in roles]
    barriers = barriers_of(space.flow.graph)
    apart = parting.apart if len(space.flow.entries) == 1 else None
    every = [each for found in domains for each in statements_of(space, found, barriers, apart)]
    known = space.known()
    statements = [each for each in every if not each.domain.intersect_params(known).is_empty()]
    _come_with_all_lanes(statements, parting)
    meetings = find_meetings(space, roles, statements, known)
    counted = [each for each in statements if each.barrier.name not in meetings.names]
    if not guesses:
        found = guess(space, counted, [each for each in statements if each not in counted], known)
        guesses.update({(each.role, each.node, each.kind): formula for each, formula in found.items()})
    unknown = [each.barrier for each in counted if (each.role, each.node, each.kind) not in guesses]
    if unknown:
        raise Outside(f"no formula was found for the phases of {unknown[0]}")
    formulas = {each: guesses[each.role, each.node, each.kind] for each in counted}
    return Relations(space, statements, formulas, meetings, space.known()), domains


def _come_with_all_lanes(statements: list[ObjectUseAt], parting: Parting) -> None:
    for each in statements:
        if each.node in parting.divided:
            raise Outside(f"some lanes of a wave come to {each.barrier} and others do not")


def fences_of(flow: Flow, events: Mapping[int, tuple[Event, ...]], rules: Rules) -> dict[int, tuple[Event, ...]]:
    """The lanes of a wave meet where it waits for others at a named barrier, right behind its own arrival."""
    found = {}
    for node in range(len(flow.origin)):
        match flow.action(node):
            case g.Sync(ops.Wait(barrier=barrier)) if barrier != WORKGROUP:
                (*_, last) = flow.before[node] or (-1,)
                match flow.action(last) if len(flow.before[node]) == 1 else None:
                    case g.Sync(ops.Signal(barrier=other)) if other == barrier:
                        found[node] = (*events.get(node, ()), LaneFence(rules.arrival_performs))
    return found
