"""Which waves run the same program.

Needs   a flow, and what its branches decide
Gives   the roles, by what is left of the flow when the number of the wave is known
Keeps   waves of one role come to the same nodes, in the same iterations, at the same barrier objects
Cost    the nodes, for each wave

    dispatch 0 .. 4          waves 0 to 3 are one role; of these, `branch wave == 0` makes wave 0 another one
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.footprint.model import Footprints
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.index import WAVE, Cond, Const, Truth, names
from tidegate.verify.paths import Paths
from tidegate.verify.phase_model import Role


def find_roles(flow: Flow, footprints: Footprints, paths: Paths) -> tuple[Role, ...]:
    found: dict[object, tuple[int, dict[int, tuple[int, ...]], list[int]]] = {}
    for entry, program in zip(flow.entries, flow.graph.programs, strict=True):
        for wave in range(program.first, program.last):
            arms = dict(_arms(flow, footprints, paths, entry, wave))
            key = (entry, tuple(sorted(arms.items())), wave if _is_alone(flow, footprints, paths, arms, wave) else -1)
            found.setdefault(key, (entry, arms, []))[2].append(wave)
    return tuple(Role(number, tuple(waves), entry, arms) for number, (entry, arms, waves) in enumerate(found.values()))


def for_wave(paths: Paths, cond: Cond, wave: int) -> Cond:
    return paths.math.put_cond(cond, {WAVE: Const(wave)}) if WAVE in names(cond) else cond


def _arms(
    flow: Flow, footprints: Footprints, paths: Paths, entry: int, wave: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    seen, stack = {entry}, [entry]
    while stack:
        node = stack.pop()
        following = flow.successors[node]
        conds = footprints.branches.get(node)
        if conds is not None:
            kept = (
                each for each, cond in zip(following, conds, strict=True) if for_wave(paths, cond, wave) != Truth(False)
            )
            following = tuple(dict.fromkeys(kept))
        yield node, following
        for each in following:
            if each not in seen:
                seen.add(each)
                stack.append(each)


def _is_alone(flow: Flow, footprints: Footprints, paths: Paths, arms: dict[int, tuple[int, ...]], wave: int) -> bool:
    """Whether the wave's number says more than which arms it takes: in which iterations, or at which slot."""
    for node in arms:
        conds = footprints.branches.get(node, ())
        if any(WAVE in names(cond) and not isinstance(for_wave(paths, cond, wave), Truth) for cond in conds):
            return True
        use = footprints.uses.get(node)
        if use is not None and (WAVE in names(use.slot) or (use.parity is not None and WAVE in names(use.parity))):
            return True
    return any(
        trips is not None and WAVE in names(trips) and flow.loops[loop].head in arms
        for loop, trips in enumerate(footprints.trips)
    )


def groups_of(graph: g.SyncGraph) -> dict[str, frozenset[int]]:
    """The waves that may take part in an object, where it says so."""
    return {each.name: frozenset(each.waves) for each in graph.objects if each.waves}
