"""The bytes that one wave of a graph touches: places, views and footprints with every name decided.

Needs   the graph's buffers, and the wave's names: their values, and which of them nobody knows
Gives   regions of bytes; findings where an access leaves its buffer, or uses memory that was given back
Keeps   at a place that nobody knows an access touches the whole buffer, and only may touch it
Cost    linear in the expressions; the region of a box is made once
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.compiled import to_function
from tidegate.diag import Finding, Label
from tidegate.graph import model as g
from tidegate.index import Cond, Index, names
from tidegate.language.types import DTYPES
from tidegate.simulate.regions import SHARED, Region, Regions
from tidegate.simulate.spreads import ANYWHERE, Spread, either, plus, spread_of, times


@dataclass(frozen=True, slots=True)
class PlaceNow:
    """Bytes from `first` on of a buffer; None: anywhere in it, some multiple of a step behind a known place."""

    buffers: tuple[g.Buffer, ...]
    first: int | None
    spread: Spread = ANYWHERE


@dataclass(slots=True)
class GraphMemory:
    """Shared memory as one wave sees it. `env` and `unknown` are the wave's own, which it changes."""

    regions: Regions
    buffers: dict[str, g.Buffer]
    wave: int
    env: dict[str, int]
    unknown: set[str]
    report: Callable[[Finding], None]
    views: dict[str, PlaceNow] = field(default_factory=dict)
    live: dict[str, bool] = field(default_factory=dict)  # buffers that were allocated, and not freed since
    maps: dict[str, tuple[int, g.ThreadMap]] = field(default_factory=dict)  # with the lanes of a wave
    used: dict[int, Sequence[str]] = field(default_factory=dict)  # the names in an expression, by its identity

    def touched(self, point: g.Point, foot: g.Footprint) -> tuple[list[Region], bool, int | None]:
        """The bytes, a region for each space; whether they are more than will be touched; and the first of them."""
        place = self.place(foot.place)
        for buffer in place.buffers:
            if self.live.get(buffer.name) is False:
                message = f"`{buffer.name[1:]}` is used after its dealloc"
                self.report(Finding("TG309", message, (Label(point.at, f"by wave {self.wave}"),)))
        if place.first is None:
            return self.all_of(place.buffers), True, None
        if foot.threads:
            return [self.of_threads(point, place.buffers[0], place.first, foot)], False, place.first
        steps, may = [], False
        for extent in foot.extents:
            count = extent.count
            if extent.limit is not None:
                if self.is_unknown(extent.limit):
                    may = True
                else:
                    count = max(0, min(count, to_function(extent.limit)(self.env)))
            steps.append((count, extent.stride))
        (buffer,) = place.buffers
        region = self.regions.box(_space(buffer), place.first, tuple(steps), foot.width)
        low = buffer.offset or 0
        if region.stretches and not may and not foot.may:
            first, last = region.stretches[0][0] - low, region.stretches[-1][1] - low
            if first < 0 or last > buffer.bytes:
                self.report(self.outside(point, buffer, first, last))
        return [region], may, place.first

    def of_threads(self, point: g.Point, buffer: g.Buffer, first: int, foot: g.Footprint) -> Region:
        """The bytes of all threads of the wave that take part."""
        lanes, map_ = self.maps[foot.threads]
        mine = map_.starts[self.wave * lanes : (self.wave + 1) * lanes]
        region = self.regions.of(
            _space(buffer), ((first + each, first + each + foot.width) for each in mine if each is not None)
        )
        low = buffer.offset or 0
        if region.stretches and not foot.may:
            begin, end = region.stretches[0][0] - low, region.stretches[-1][1] - low
            if begin < 0 or end > buffer.bytes:
                self.report(self.outside(point, buffer, begin, end))
        return region

    def all_of(self, buffers: Sequence[g.Buffer]) -> list[Region]:
        """All bytes of some buffers."""
        spaces: dict[str, list[tuple[int, int]]] = {}
        for buffer in buffers:
            low = buffer.offset or 0
            spaces.setdefault(_space(buffer), []).append((low, low + buffer.bytes))
        return [self.regions.of(space, stretches) for space, stretches in spaces.items()]

    def place(self, where: g.Where) -> PlaceNow:
        match where:
            case g.Either(cond, then, otherwise):
                if self.is_unknown(cond):
                    one, other = self.place(then), self.place(otherwise)
                    spread = either(_spread(one), _spread(other))
                    buffers = tuple(dict.fromkeys((*one.buffers, *other.buffers)))
                    return one if one == other else PlaceNow(buffers, None, spread)
                return self.place(then if to_function(cond)(self.env) else otherwise)
            case g.Ref(base, slot, offset):
                if base in self.buffers:
                    buffer = self.buffers[base]
                    if self.is_unknown(slot) or self.is_unknown(offset):
                        slots = times(self.spread(slot), (buffer.slot_bytes, 0))
                        spread = plus(plus((buffer.offset or 0, 0), slots), self.spread(offset))
                        return PlaceNow((buffer,), None, spread)
                    first = (buffer.offset or 0) + to_function(slot)(self.env) * buffer.slot_bytes
                    return PlaceNow((buffer,), first + to_function(offset)(self.env))
                view = self.views[base]
                if view.first is None or self.is_unknown(offset):
                    return replace(view, first=None, spread=plus(_spread(view), self.spread(offset)))
                return replace(view, first=view.first + to_function(offset)(self.env))

    def spread(self, index: Index) -> Spread:
        return spread_of(index, self.env, self.unknown)

    def grid(self, foot: g.Footprint, element: str) -> int | None:
        """Where the elements of an atomic begin, modulo their size; None if not all alike, or not known."""
        size = DTYPES[element].bytes if element in DTYPES else 0
        if not size or foot.width % size or any(each.count > 1 and each.stride % size for each in foot.extents):
            return None
        first, step = _spread(self.place(foot.place))
        return None if step % size else first % size

    def is_unknown(self, expr: Index | Cond) -> bool:
        """Whether an expression depends on what nobody knows."""
        used = self.used.get(id(expr))
        if used is None:
            used = self.used[id(expr)] = tuple(dict.fromkeys(names(expr)))
        return not self.unknown.isdisjoint(used)

    def allocate(self, point: g.Point, name: str, begins: bool) -> None:
        """A buffer comes to life, or its bytes are given back."""
        for buffer in self.place(g.Ref(name)).buffers:
            if begins and buffer.offset is not None:
                for other in self.buffers.values():
                    if other is not buffer and self.live.get(other.name) and buffer.overlaps(other):
                        message = f"`{buffer.name[1:]}` overlaps `{other.name[1:]}`, which is live"
                        self.report(Finding("TG308", message, (Label(point.at),)))
            self.live[buffer.name] = begins

    def outside(self, point: g.Point, buffer: g.Buffer, first: int, last: int) -> Finding:
        what = f"wave {self.wave} touches bytes {first}..{last} of {buffer.bytes}"
        return Finding("TG301", f"`{buffer.name[1:]}` is accessed outside its bytes", (Label(point.at, what),))


def _spread(place: PlaceNow) -> Spread:
    return place.spread if place.first is None else (place.first, 0)


def _space(buffer: g.Buffer) -> str:
    return SHARED if buffer.offset is not None else buffer.name
