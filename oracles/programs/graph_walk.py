"""A naive walk of a SyncGraph by one wave: which bytes it touches, in order. Shares no code with the simulator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.index import INDEX_TYPES, evaluate, holds, is_inexact, names


@dataclass(frozen=True)
class Touch:
    """One access: what it does, its bytes of shared memory, and whether it may touch fewer."""

    effect: str
    bytes: frozenset[int]
    may: bool


def walk(graph: g.SyncGraph, wave: int, env: dict[str, int], limit: int = 100_000) -> Iterator[Touch]:
    """Follows the graph from the wave's program to its end. Names that nobody knows end the walk with a KeyError."""
    names_now: dict[str, int] = {**env, "wave": wave}
    buffers = {buffer.name: buffer for buffer in graph.buffers}
    views: dict[str, tuple[int, int]] = {}  # name → first byte, bytes of a slot
    for buffer in graph.buffers:
        assert buffer.offset is not None
        views[buffer.name] = (buffer.offset, buffer.slot_bytes)
    (start,) = (program.entry for program in graph.programs if program.first <= wave < program.last)
    number, stack = start, []
    for _ in range(limit):
        point = graph.points[number]
        match point.action:
            case g.Access() as access:
                yield _touch(access, names_now, views, buffers)
            case g.Assign(pairs):
                known = [(name, value) for name, value in pairs if not isinstance(value, g.Token)]
                new = [(name, _value(value, names_now, views)) for name, value in known]
                for name, value in new:
                    if isinstance(value, tuple):
                        views[name] = value
                    else:
                        names_now[name] = value
            case g.Branch(cond):
                assert cond is not None
                number = point.successors[0 if holds(cond, names_now) else 1]
                continue
            case g.Dispatch(ranges):
                taken = [place for place, (first, last) in enumerate(ranges) if first <= wave < last]
                number = point.successors[taken[0] if taken else -1]
                continue
            case g.Call(function, args):
                (callee,) = (each for each in graph.functions if each.name == function)
                views.update({name: _value(where, names_now, views) for name, where in args})
                stack.append(point.successors[0])
                number = callee.entry
                continue
            case g.Return():
                number = stack.pop()
                continue
            case g.End():
                return
            case _:
                pass
        (number,) = point.successors
    raise AssertionError("the walk does not end")


def _value(value, names_now, views):
    match value:
        case g.Ref(base, slot, offset):
            first, slot_bytes = views[base]
            return first + evaluate(slot, names_now) * slot_bytes + evaluate(offset, names_now), slot_bytes
        case g.Either(cond, then, otherwise):
            return _value(then if holds(cond, names_now) else otherwise, names_now, views)
        case _:
            assert isinstance(value, INDEX_TYPES)
            return evaluate(value, names_now)


def _touch(access: g.Access, names_now, views, buffers) -> Touch:
    foot = access.footprint
    unknown = [name for name in names(foot.place.offset) if name not in names_now]
    if is_inexact(foot.place.offset) and unknown:
        buffer = buffers[foot.place.base]
        return Touch(access.effect, frozenset(range(buffer.offset, buffer.offset + buffer.bytes)), True)
    base, _ = _value(foot.place, names_now, views)
    steps = []
    for extent in foot.extents:
        count = extent.count if extent.limit is None else max(0, min(extent.count, evaluate(extent.limit, names_now)))
        steps.append([place * extent.stride for place in range(count)])
    found = set()
    for combination in itertools.product(*steps):
        at = base + sum(combination)
        found.update(range(at, at + foot.width))
    return Touch(access.effect, frozenset(found), foot.may)
