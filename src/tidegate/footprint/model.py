"""Footprints: which bytes each access touches, over canonical names.

Needs   nothing but index expressions
Gives   `Touch` for an access, `Footprints` for a flow: bytes under given values, isl's notation, text
Keeps   frozen; two accesses have one class if they touch the same bytes, in one loop, under the same conditions
Cost    `bytes_at` is linear in the bytes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from tidegate.footprint.values import Opaque, Spot, View
from tidegate.graph.flow import Flow
from tidegate.index import (
    TRUE,
    WAVE,
    Cond,
    Index,
    evaluate,
    holds,
    names,
    show,
)


@dataclass(frozen=True, slots=True)
class Span:
    """`count` steps of `stride` bytes; with a limit, only the steps below it are taken."""

    count: int
    stride: int
    limit: Index | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The bytes of an access, whatever it does there and wherever it stands."""

    places: View
    extents: tuple[Span, ...]
    width: int

    @property
    def is_exact(self) -> bool:
        return all(spot.start is not None for spot in self.places)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The bytes of each thread: `width` of them from where it starts, counted from the start of the whole access.

    The access's shape covers them all: whoever does not ask for threads takes it for more than it is.
    """

    starts: tuple[int | None, ...]
    width: int
    lanes: int  # of a wave
    collective: bool = False


@dataclass(frozen=True, slots=True)
class Touch:
    """One access. An operation without a description has the effect `unknown`: it reads and writes.

    `may`: it touches some of these bytes, perhaps not all. `exact`: nothing was widened. `facts` hold wherever it is
    reached.
    """

    node: int
    effect: str  # read | write | atomic | unknown
    shape: Shape
    may: bool
    exact: bool
    facts: tuple[Cond, ...]
    loops: tuple[int, ...]  # around it, outermost first
    is_async: bool = False
    lanes: str = ""  # the name of its map from bytes to lanes, see `Access`
    lanes_from: int = 0
    pieces: Pieces | None = None

    @property
    def places(self) -> View:
        return self.shape.places

    @property
    def extents(self) -> tuple[Span, ...]:
        return self.shape.extents

    @property
    def width(self) -> int:
        return self.shape.width


@dataclass(frozen=True, slots=True)
class ObjectUse:
    """Which slot of a barrier object an operation is about, and the parity of the phase that it waits for."""

    object: str
    slot: Index
    parity: Index | None = None


@dataclass(frozen=True, slots=True)
class CarriedNumber:
    """What an opaque number is: `start` on the way into a loop, and `step` more in every iteration."""

    loop: int
    start: Index
    step: Index


@dataclass(frozen=True, slots=True)
class Note:
    """What could not be said exactly, and where."""

    node: int
    text: str


@dataclass(frozen=True, slots=True)
class Footprints:
    """All accesses of a flow that can be reached. `trips` are over canonical names; None where nobody knows."""

    flow: Flow
    accesses: dict[int, Touch]
    classes: dict[int, int]
    opaques: dict[str, Opaque]
    trips: tuple[Index | None, ...]  # of each loop
    counted: tuple[Index | None, ...]  # the same by its counter alone, without what the graph states
    ends_at_head: frozenset[int]  # loops that are left from their heads alone: they run as often as `trips` says
    branches: dict[int, tuple[Cond, ...]]  # node → when it goes to each of its successors
    notes: tuple[Note, ...]
    parting: frozenset[int]  # branches on what differs between waves or lanes, whatever stands around them
    uses: Mapping[int, ObjectUse]  # node → of a barrier object with phases
    carried: Mapping[str, CarriedNumber]  # opaque names that gain as much in every iteration of a loop

    def class_of(self, node: int) -> int:
        """Equal for accesses that touch the same bytes in the same loop under the same conditions."""
        return self.classes[node]

    def bytes_at(self, node: int, env: Mapping[str, int]) -> frozenset[tuple[str, int]]:
        """The bytes, counted from the beginning of their buffers, for values of all canonical names."""
        sizes = {buffer.name: buffer.bytes for buffer in self.flow.graph.buffers}
        return bytes_of(self.accesses[node].shape, env, sizes)

    def as_isl(self, node: int) -> str:
        """The bytes of an access in isl's notation, one buffer after the other."""
        return as_isl(self.accesses[node])


def bytes_of(shape: Shape, env: Mapping[str, int], sizes: Mapping[str, int]) -> frozenset[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    steps = offsets(shape, env)
    for spot in shape.places:
        if not holds(spot.cond, env):
            continue
        if spot.start is None:
            found.update((spot.buffer, byte) for byte in range(sizes[spot.buffer]))
            continue
        start = evaluate(spot.start, env)
        for step in steps:
            found.update((spot.buffer, start + step + byte) for byte in range(shape.width))
    return frozenset(found)


def offsets(shape: Shape, env: Mapping[str, int]) -> list[int]:
    """How far each piece of an access lies from its place."""
    ways = []
    for span in shape.extents:
        count = span.count if span.limit is None else max(0, min(span.count, evaluate(span.limit, env)))
        ways.append([step * span.stride for step in range(count)])
    return [sum(way) for way in product(*ways)]


# --- text ---------------------------------------------------------------------------------------------------------


def show_footprints(footprints: Footprints) -> str:
    """One line for each access, and one for each note."""
    lines = []
    for node, touch in sorted(footprints.accesses.items()):
        where = " | ".join(_show_spot(spot) for spot in touch.places)
        box = "".join(_show_span(span) for span in touch.extents)
        facts = " and ".join(show(fact) for fact in touch.facts)
        marks = (" may" if touch.may else "") + ("" if touch.exact else " widened")
        under = f" if {facts}" if facts else ""
        lines.append(f"{node}: {touch.effect} {where}{box}, {touch.width} bytes{marks}{under}")
    lines += [f"{note.node}: note: {note.text}" for note in footprints.notes]
    return "".join(f"{line}\n" for line in lines)


def _show_spot(spot: Spot) -> str:
    place = f"{spot.buffer} + {show(spot.start)}" if spot.start is not None else f"all of {spot.buffer}"
    return place if spot.cond == TRUE else f"{place} where {show(spot.cond)}"


def _show_span(span: Span) -> str:
    limit = f" below {show(span.limit)}" if span.limit is not None else ""
    return f", {span.count} by {span.stride}{limit}"


def as_isl(touch: Touch) -> str:
    from tidegate.footprint.isl_text import access_map

    used = dict.fromkeys(name for spot in touch.places for name in _names_of(spot))
    used.update(dict.fromkeys(name for fact in touch.facts for name in names(fact)))
    used.update(dict.fromkeys(name for span in touch.extents if span.limit for name in names(span.limit)))
    counters = [f"#{loop}" for loop in touch.loops]
    params = [name for name in used if name != WAVE and name not in counters]
    return access_map(touch, counters, params)


def _names_of(spot: Spot) -> list[str]:
    return [*names(spot.cond), *(names(spot.start) if spot.start is not None else ())]
