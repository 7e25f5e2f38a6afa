"""Footprints are the bytes that waves touch: a naive walk of the nodes, with the iterations of all loops counted.

`Walker` is the reference for everything in `tests/test_footprint*.py`: it follows one wave, decides what the graph
leaves open from a seed, and notes at every access the bytes and the value of every canonical name.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from oracles.programs.random_graphs import built_graph, random_graph
from oracles.programs.random_kernels import runnable_kernel, small_kernel
from oracles.programs.small_graphs import small_graph
from tests.conftest import ROOT
from tidegate.footprint import Footprints, find_footprints
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.flow import Flow, flow_of
from tidegate.index import INDEX_TYPES, evaluate, holds
from tidegate.language.parse import parse
from tidegate.language.types import FLAG
from tidegate.simulate.inputs import fill_sizes
from tidegate.targets import load_target

FILES = sorted([*ROOT.glob("examples/*.tide"), *ROOT.glob("examples/broken/*.tide")])
Bytes = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Event:
    """One access of one wave. `known` gives every canonical name its value there."""

    wave: int
    node: int
    bytes: Bytes
    iterations: dict[int, int]
    known: dict[str, int]


class Walker:
    """Follows the nodes of a flow. The same seed decides the same way where waves agree."""

    def __init__(self, flow: Flow, footprints: Footprints, wave: int, env: dict[str, int], seed: int, most: int = 3000):
        self.flow, self.graph, self.wave, self.seed, self.most = flow, flow.graph, wave, seed, most
        self.env: dict[str, int] = {**env, "wave": wave, "lane": 0}
        self.outside = dict(self.env)
        self.views: dict[str, tuple[str, int]] = {buffer.name: (buffer.name, 0) for buffer in flow.graph.buffers}
        self.slots = {buffer.name: buffer.slot_bytes for buffer in flow.graph.buffers}
        self.iterations: dict[int, int] = {}
        self.opaque: dict[str, int] = {}
        self.born: dict[tuple[int, str], list[Any]] = {}
        for each in footprints.opaques.values():
            self.born.setdefault((each.node, each.when), []).append(each)
        self.chains = {node: flow.loops_around(node) for node in range(len(flow.origin))}
        self.saved: list[tuple[int, dict[str, tuple[str, int]]]] = []
        self.ended = False

    def events(self) -> Iterator[Event]:
        number = next(n for n, each in enumerate(self.graph.programs) if each.first <= self.wave < each.last)
        node = self.flow.entries[number]
        self.iterations = dict.fromkeys(self.chains[node], 0)
        for _ in range(self.most):
            self.note(node, "arrives")
            action = self.flow.action(node)
            try:
                if isinstance(action, g.Access):
                    yield Event(self.wave, node, self.touched(action), dict(self.iterations), self.canonical())
                following = self.step(node, action)
            except (KeyError, ZeroDivisionError):
                return  # a name without a value: nothing more is said of this wave
            if following < 0:
                self.ended = True
                return
            self.note(node, "leaves")
            self.move(node, following)
            node = following

    def canonical(self) -> dict[str, int]:
        return {**self.outside, **{f"#{loop}": at for loop, at in self.iterations.items()}, **self.opaque}

    def note(self, node: int, when: str) -> None:
        for each in self.born.get((node, when), ()):
            if each.what in self.env:
                self.opaque[each.name] = self.env[each.what]

    def move(self, node: int, to: int) -> None:
        before, after = self.chains[node], self.chains[to]
        self.iterations = {loop: at for loop, at in self.iterations.items() if loop in after}
        for loop in after:
            if loop not in before:
                self.iterations[loop] = 0
            elif self.flow.loops[loop].head == to:
                self.iterations[loop] += 1
                for inner in after[after.index(loop) + 1 :]:
                    self.iterations[inner] = 0

    def choose(self, node: int, what: str, agree: bool, count: int) -> int:
        rounds = tuple(sorted(self.iterations.items()))
        key = f"{self.seed} {node} {what} {rounds} {0 if agree else self.wave}"
        return random.Random(key).randrange(count)

    def step(self, node: int, action: g.Action) -> int:
        following = self.flow.successors[node]
        match action:
            case g.Assign(pairs):
                self.assign(pairs)
            case g.Havoc(given, agree):
                for name in given:
                    self.env[name] = self.choose(node, name, agree, 6)
            case g.Branch(cond):
                return following[self.branch(node, cond)]
            case g.Dispatch(ranges):
                taken = [place for place, (first, last) in enumerate(ranges) if first <= self.wave < last]
                return following[taken[0] if taken else -1]
            case g.Call(_, args) if node not in self.flow.closed:
                self.saved.append((node, {name: self.views[name] for name, _ in args if name in self.views}))
                self.assign(args)
            case g.Call():
                return -1
            case g.Return():
                if self.flow.calls[node] < 0:
                    return -1
                call, views = self.saved.pop()
                assert call == self.flow.calls[node]
                self.views.update(views)
            case g.End():
                return -1
            case _:
                pass
        return following[0]

    def branch(self, node: int, cond: Any) -> int:
        if cond is None:
            under = g.VARIATIONS.index
            mine = under(self.flow.point(node).under)
            agree = all(under(self.flow.point(each).under) <= mine for each in self.flow.successors[node])
            which = self.choose(node, "branch", agree, 2)
        else:
            which = 0 if holds(cond, self.env) else 1
        for each in self.born.get((node, "branch"), ()):
            self.opaque[each.name] = 1 - which
        return which

    def assign(self, pairs: Any) -> None:
        new = [(name, self.value(value)) for name, value in pairs if not isinstance(value, g.Token)]
        for name, value in new:
            (self.views if isinstance(value, tuple) else self.env)[name] = value

    def value(self, value: Any) -> Any:
        match value:
            case g.Ref(base, slot, offset):
                buffer, start = self.views[base]
                if base in self.slots:
                    start += evaluate(slot, self.env) * self.slots[base]
                return buffer, start + evaluate(offset, self.env)
            case g.Either(cond, then, otherwise):
                return self.value(then if holds(cond, self.env) else otherwise)
        assert isinstance(value, INDEX_TYPES)
        return evaluate(value, self.env)

    def touched(self, access: g.Access) -> Bytes:
        foot = access.footprint
        buffer, start = self.value(foot.place)
        steps = []
        for extent in foot.extents:
            count = extent.count
            if extent.limit is not None:
                count = max(0, min(count, evaluate(extent.limit, self.env)))
            steps.append([place * extent.stride for place in range(count)])
        starts = {start + sum(way) for way in itertools.product(*steps)}
        return frozenset((buffer, first + byte) for first in starts for byte in range(foot.width))


def all_events(flow: Flow, footprints: Footprints, env: dict[str, int], seed: int, most: int = 3000) -> list[Event]:
    """What all waves do, one after the other."""
    return [
        event for wave in range(flow.graph.waves) for event in Walker(flow, footprints, wave, env, seed, most).events()
    ]


def environments(graph: g.SyncGraph, rng: random.Random, count: int) -> Iterator[dict[str, int]]:
    """Values for sizes and what is set from outside; only those that the graph allows."""
    for _ in range(count):
        env = {size.name: rng.choice((size.default, 1, 2, 3, 4, 5, 7, size.default * 2)) for size in graph.sizes}
        env.update({f"wg{axis}": 0 for axis in range(3)})
        env.update({each.name: rng.randrange(2 if each.type == FLAG else 5) for each in graph.free})
        if all(holds(cond, env) for cond in graph.where):
            yield env


def check_bytes(graph: g.SyncGraph, rng: random.Random, tries: int = 3) -> tuple[int, int]:
    """Every access that is seen touches what its footprint says. How many were compared, and how many exactly."""
    flow = flow_of(graph)
    footprints = find_footprints(flow)
    sizes = {buffer.name: buffer.bytes for buffer in graph.buffers}
    compared = exact = 0
    for env in environments(graph, rng, tries):
        for event in all_events(flow, footprints, env, rng.randrange(1000), 600):
            touch = footprints.accesses[event.node]
            try:
                claimed = footprints.bytes_at(event.node, event.known)
                facts = [fact for fact in touch.facts if not holds(fact, event.known)]
            except KeyError:
                continue  # names an opaque number that has no name in the program
            assert not facts, (event.node, facts, event.known)
            inside = {(buffer, byte) for buffer, byte in event.bytes if 0 <= byte < sizes[buffer]}
            assert inside <= claimed, (event.node, event.known)
            if touch.exact and not any(
                old.limit and not new.limit
                for old, new in zip(flow.action(event.node).footprint.extents, touch.extents, strict=True)
            ):
                assert claimed == event.bytes, (event.node, event.known)
                exact += 1
            compared += 1
    return compared, exact


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_examples_touch_what_their_footprints_say(path: Path) -> None:
    for kernel in parse(path.read_text(), path.name).kernels:
        graph = build_graph(kernel, load_target(kernel.target)).graph
        flow = flow_of(graph)
        footprints = find_footprints(flow)
        env = {**fill_sizes(kernel, None), "wg0": 0, "wg1": 0, "wg2": 0, **{each.name: 1 for each in graph.free}}
        for event in all_events(flow, footprints, env, 1):
            touch = footprints.accesses[event.node]
            assert touch.exact or footprints.notes
            claimed = footprints.bytes_at(event.node, event.known)
            assert event.bytes == claimed if touch.exact else event.bytes <= claimed


def test_random_kernels_touch_what_their_footprints_say() -> None:
    rng, compared, exact = random.Random(1), 0, 0
    for seed in range(150):
        kernel = runnable_kernel(random.Random(seed))
        done = check_bytes(build_graph(kernel, load_target(kernel.target)).graph, rng, 2)
        compared, exact = compared + done[0], exact + done[1]
    assert exact > 0.8 * compared > 2000, (exact, compared)


def test_small_kernels_touch_what_their_footprints_say() -> None:
    rng, compared, exact = random.Random(2), 0, 0
    for seed in range(300):
        kernel = small_kernel(random.Random(seed), exact=bool(seed % 2))
        done = check_bytes(build_graph(kernel, load_target(kernel.target)).graph, rng, 2)
        compared, exact = compared + done[0], exact + done[1]
    assert exact > 0.8 * compared > 500, (exact, compared)


@pytest.mark.slow
def test_random_graphs_touch_what_their_footprints_say() -> None:
    rng, compared, exact = random.Random(3), 0, 0
    for seed in range(300):
        graph = built_graph(random.Random(seed)) if seed % 2 else small_graph(random.Random(seed))[0]
        done = check_bytes(graph, rng)
        compared, exact = compared + done[0], exact + done[1]
    assert exact > 0.2 * compared > 400, (exact, compared)


@pytest.mark.slow
def test_graphs_with_any_edges_touch_what_their_footprints_say() -> None:
    rng, compared = random.Random(4), 0
    for seed in range(400):
        graph = random_graph(random.Random(seed))
        # What it states of its loops may be wrong, and would be believed.
        plain = tuple(g.Loop(loop.head, loop.parent, reducible=loop.reducible) for loop in graph.loops)
        compared += check_bytes(replace(graph, loops=plain), rng)[0]
    assert compared > 200, compared
