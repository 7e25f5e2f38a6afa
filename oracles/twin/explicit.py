"""The same question once more, slowly: one concrete map of lanes, an explicit graph of events, a search for each pair.

Needs   a Program and one way to deal elements to lanes
Gives   whether every conflicting pair of bytes is ordered under that map
Keeps   shares the trace (when things are performed) with `judge`, and none of its arithmetic on arrivals and fences
Cost    a search of the graph for each conflicting pair of instances: for small programs and tests only
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

from .facts import FACTS
from .footprint import Footprint, Footprints
from .program import Access, Program
from .rules import STRICT
from .trace import NEVER, Instance, Wave, atomic_results_used, run_wave

Node = tuple[object, ...]
LANES = 2


def safe_for_one_map(program: Program, n: int, flags: dict[str, int], seed: int) -> bool:
    """Whether the program is safe for one size, one choice of flags, and elements dealt to two lanes at random."""
    waves = [run_wave(program, STRICT, w, {"N": n, **flags}) for w in range(program.waves)]
    if any(w.mistake for w in waves) or len({len(w.arrivals) for w in waves}) > 1:
        return False
    graph = _graph(waves)
    footprints = Footprints(program, STRICT)
    used = atomic_results_used(program, STRICT)
    instances = [(i, footprints.of(i.number, i.access, i.env)) for w in waves for i in w.instances]
    deal = random.Random(seed)
    lane_of: dict[int, int] = {}
    for k, (x, x_print) in enumerate(instances):
        for y, y_print in instances[k + 1 :]:
            if not (x.writes or y.writes):
                continue
            for pair in sorted(_lanes(x, x_print, y, y_print, used, lane_of, deal)):
                if not _fine(program, graph, x, y, *pair):
                    return False
    return True


def _lanes(
    x: Instance,
    x_print: Footprint,
    y: Instance,
    y_print: Footprint,
    used: frozenset[str],
    lane_of: dict[int, int],
    deal: random.Random,
) -> set[tuple[int, int]]:
    """Which lanes meet at some byte, byte by byte, without atomics that commute there."""
    a, b = x.access, y.access
    both = isinstance(a, Access) and isinstance(b, Access) and a.kind == b.kind == "atomic"
    alike = both and a.tile.dtype == b.tile.dtype and not {a.result, b.result} & used  # type: ignore[union-attr]
    met: set[tuple[int, int]] = set()
    cells = [c for c in range(len(x_print.owner)) if x_print.owner[c] >= 0 and y_print.owner[c] >= 0]
    if alike and all(x_print.begin[c] == y_print.begin[c] for c in cells):
        return met
    for c in cells:
        one, two = (lane_of.setdefault(int(p.owner[c]), deal.randrange(LANES)) for p in (x_print, y_print))
        met.add((one, two))
    return met


def _graph(waves: list[Wave]) -> dict[Node, set[Node]]:
    """Events of lanes, joined where a fence or a rendezvous joins them."""
    edges: dict[Node, set[Node]] = {}

    def edge(a: Node, b: Node) -> None:
        edges.setdefault(a, set()).add(b)

    for wave in waves:
        times = {i.issue for i in wave.instances} | {i.performed for i in wave.instances} - {NEVER}
        times |= {*wave.arrivals, *wave.departures, *wave.fences}
        line = sorted(times)
        for lane in range(LANES):
            for before, after in pairwise(line):
                edge((wave.wave, lane, before), (wave.wave, lane, after))
            for k, time in enumerate(wave.arrivals):
                edge((wave.wave, lane, time), ("met", k))
            for k, time in enumerate(wave.departures):
                edge(("met", k), (wave.wave, lane, time))
            for time in wave.fences:
                for other in range(LANES):
                    edge((wave.wave, lane, time), ("fence", wave.wave, time))
                    edge(("fence", wave.wave, time), (wave.wave, other, _next(line, time)))
    return edges


def _next(line: list[int], time: int) -> int:
    later = [t for t in line if t > time]
    return later[0] if later else time


def _reaches(graph: dict[Node, set[Node]], starts: Iterable[Node], goal: Node) -> bool:
    seen, stack = set(starts), list(starts)
    while stack:
        node = stack.pop()
        if node == goal:
            return True
        for after in graph.get(node, ()):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return False


def _fine(program: Program, graph: dict[Node, set[Node]], x: Instance, y: Instance, a: int, b: int) -> bool:
    """x in lane a and y in lane b touch one byte: is that in order?"""
    if x.wave != y.wave:
        if x.key == y.key or (x.arm and y.arm and x.arm[0] == y.arm[0] and x.arm[1] != y.arm[1]):
            return _ordered(program, graph, x, y, a, b) or _ordered(program, graph, y, x, b, a)
        if y.key < x.key:
            x, y, a, b = y, x, b, a
    return _ordered(program, graph, x, y, a, b)


def _ordered(program: Program, graph: dict[Node, set[Node]], x: Instance, y: Instance, a: int, b: int) -> bool:
    goal = (y.wave, b, y.issue)
    if x.wave == y.wave and not x.is_async and not y.is_async:
        return a == b or _reaches(graph, [(x.wave, a, x.issue)], goal)
    if x.performed == NEVER:
        return False
    wide = FACTS[program.target].wave_wide_wait or not x.is_async
    lanes = range(LANES) if wide and x.wave == y.wave else (a,)
    return _reaches(graph, [(x.wave, lane, x.performed) for lane in lanes], goal)
