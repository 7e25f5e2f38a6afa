"""Meetings are those that happen: all that walks show are reported, and what is reported as exact is shown by one."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pytest

from oracles.programs.random_graphs import built_graph
from oracles.programs.random_kernels import runnable_kernel, small_kernel
from oracles.programs.small_graphs import small_graph
from tests.graph.test_footprint_bytes import Event, all_events, environments
from tidegate.footprint import Conflicts, Footprints, Meeting, Pairs, find_footprints
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.flow import Flow, flow_of
from tidegate.index import evaluate, holds
from tidegate.language.types import FLAG
from tidegate.targets import load_target

Seen = dict[tuple[int, int, int, Pairs], set[int]]  # x, y, loop or -1, kind → distances


def kind_of(u: int, v: int, waves: int) -> Pairs:
    if u == v:
        return Pairs.OWN
    low = [wave < waves // 2 for wave in (u, v)]
    return Pairs.WITHIN if low[0] == low[1] else Pairs.FORTH if low[0] else Pairs.BACK


def absolute(graph: g.SyncGraph, event: Event) -> tuple[tuple[str, int], ...]:
    """A bit for every byte. Those of buffers with an offset lie in one space, those of others apart."""
    where = {each.name: ("", each.offset) if each.offset is not None else (each.name, 0) for each in graph.buffers}
    spaces: dict[str, set[int]] = {}
    for buffer, byte in event.bytes:
        space, offset = where[buffer]
        spaces.setdefault(space, set()).add(offset + byte + 100_000)  # an access may lie before its buffer
    found = []
    for space, bytes_ in sorted(spaces.items()):
        low = min(bytes_)
        bits = bytearray((max(bytes_) - low) // 8 + 1)
        for byte in bytes_:
            bits[(byte - low) // 8] |= 1 << ((byte - low) % 8)
        found.append((space, int.from_bytes(bits, "little") << low))
    return tuple(found)


def inside(graph: g.SyncGraph, event: Event) -> Event:
    """An access without what lies outside of its buffer."""
    sizes = {each.name: each.bytes for each in graph.buffers}
    return replace(event, bytes=frozenset(each for each in event.bytes if 0 <= each[1] < sizes[each[0]]))


def share(one: tuple[tuple[str, int], ...], other: tuple[tuple[str, int], ...]) -> bool:
    return any(a & b for space, a in one for place, b in other if space == place)


def relation(flow: Flow, x: Event, y: Event) -> tuple[int, int]:
    """The first common loop in whose iterations they differ, and by how many; -1 and 0 if there is none."""
    for loop in flow.loops_around(x.node):
        if loop not in y.iterations:
            break
        if x.iterations[loop] != y.iterations[loop]:
            return loop, y.iterations[loop] - x.iterations[loop]
    return -1, 0


def meetings_between(conflicts: Conflicts, x: int, y: int, loop: int) -> tuple[Meeting, ...]:
    return conflicts.carried(x, y, loop) if loop >= 0 else conflicts.same_iteration(x, y)


def rounds_between(footprints: Footprints, loop: int, x: Event, y: Event, env: dict[str, int]) -> int:
    """How often a walk from one access to the other goes round a loop that does not hold both at once."""
    found = y.iterations.get(loop, 0)
    if loop in x.iterations:
        trips = footprints.trips[loop]
        assert trips is not None
        around = {f"#{each}": count for each, count in x.iterations.items()}
        found += evaluate(trips, {**env, **around, "wave": x.wave}) - 1 - x.iterations[loop]
    return found


def check_sound(flow: Flow, conflicts: Conflicts, events: list[Event], seen: Seen, env: dict[str, int]) -> int:
    """Every pair of accesses that share a byte is reported, not too far apart, and not with too many rounds."""
    graph, found = flow.graph, 0
    groups: dict[tuple[tuple[str, int], ...], list[Event]] = {}
    for event in events:
        groups.setdefault(absolute(graph, event), []).append(event)
    for (xs, first), (ys, second) in product(groups.items(), repeat=2):
        if share(xs, ys):
            for x, y in product(first, second):
                found += check_pair(flow, conflicts, x, y, seen, env)
    return found


def check_pair(flow: Flow, conflicts: Conflicts, x: Event, y: Event, seen: Seen, env: dict[str, int]) -> bool:
    loop, distance = relation(flow, x, y)
    if distance < 0:
        return False
    kind = kind_of(x.wave, y.wave, flow.graph.waves)
    seen.setdefault((x.node, y.node, loop, kind), set()).add(distance)
    where = (x.node, y.node, loop, distance, kind, x.known, y.known)
    reported = [each for each in meetings_between(conflicts, x.node, y.node, loop) if kind in each.pairs]
    if not reported:
        # Where a place is not known, its buffer is all that is claimed; these two meet outside of theirs.
        assert not share(*(absolute(flow.graph, inside(flow.graph, each)) for each in (x, y))), where
        return False
    assert reported[0].distance <= distance, (*where, reported)
    for each in reported:
        for inner, first in each.rounds:
            gone = rounds_between(conflicts.footprints, inner, x, y, env)
            assert gone >= first, (*where, each)
    return True


def check_precise(conflicts: Conflicts, footprints: Footprints, seen: Seen) -> tuple[int, list[object]]:
    """Of the exact meetings, how many there are, and which no walk showed."""
    flow, missing, count = conflicts.flow, [], 0
    for x, y in product(footprints.accesses, repeat=2):
        if footprints.accesses[x].may or footprints.accesses[y].may:
            continue
        common = [loop for loop in flow.loops_around(x) if loop in flow.loops_around(y)]
        for loop in (-1, *common):
            for meeting in meetings_between(conflicts, x, y, loop):
                for kind in Pairs:
                    if meeting.exact and kind in meeting.pairs:
                        count += 1
                        if meeting.distance not in seen.get((x, y, loop, kind), ()):
                            missing.append((x, y, loop, kind, meeting))
    return count, missing


def check(
    graph: g.SyncGraph, envs: Iterable[dict[str, int]], seeds: int = 1, most: int = 400
) -> tuple[int, int, list[object]]:
    flow = flow_of(graph)
    footprints = find_footprints(flow)
    # Bytes are compared here, whichever lane touches them.
    accesses = {node: replace(touch, lanes="") for node, touch in footprints.accesses.items()}
    footprints = replace(footprints, accesses=accesses)
    conflicts = Conflicts(flow, footprints)
    seen: Seen = {}
    met = 0
    for env in envs:
        for seed in range(seeds):
            events = all_events(flow, footprints, env, seed, most)
            if len(events) <= 300:
                met += check_sound(flow, conflicts, events, seen, env)
    return met, *check_precise(conflicts, footprints, seen)


def every_environment(graph: g.SyncGraph) -> list[dict[str, int]]:
    """All values from outside that small graphs can tell apart."""
    names = [*((size.name, range(1, 9)) for size in graph.sizes)]
    names += [(each.name, range(2 if each.type == FLAG else 4)) for each in graph.free]
    ways = [dict(zip([name for name, _ in names], way, strict=True)) for way in product(*(each for _, each in names))]
    envs = [{**way, "wg0": 0, "wg1": 0, "wg2": 0} for way in ways]
    return [env for env in envs if all(holds(cond, env) for cond in graph.where)]


@pytest.mark.slow
def test_meetings_of_small_kernels_are_those_that_happen() -> None:
    met = exact = 0
    for seed in range(250):
        kernel = small_kernel(random.Random(seed), exact=True)
        graph = build_graph(kernel, load_target(kernel.target)).graph
        done = check(graph, every_environment(graph)[:12])
        assert not done[2], (seed, done[2][0])
        met, exact = met + done[0], exact + done[1]
    assert met > 5000
    assert exact > 1000


@pytest.mark.slow
def test_meetings_of_random_kernels_are_reported() -> None:
    rng, met = random.Random(5), 0
    for seed in range(25):
        kernel = runnable_kernel(random.Random(seed))
        graph = build_graph(kernel, load_target(kernel.target)).graph
        met += check(graph, environments(graph, rng, 2))[0]
    assert met > 5000


@pytest.mark.slow
def test_meetings_of_random_graphs_are_reported() -> None:
    rng, met = random.Random(6), 0
    for seed in range(120):
        graph = built_graph(random.Random(seed)) if seed % 2 else small_graph(random.Random(seed))[0]
        met += check(graph, environments(graph, rng, 2), 2)[0]
    assert met > 3000
