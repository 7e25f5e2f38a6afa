"""What must not change places in a loop's body, and how far apart it has to stay.

Needs   a body without barriers and waits; the arrivals by which one half of the waves is held back
Gives   edges from an operation to a later one: the later stays behind, at least `gap` barriers
Keeps   every dependence within one iteration: values, bytes of shared memory, global memory, groups of copies. Those
        from one iteration to the next hold in any order of a body
Cost    the writes of shared memory times its accesses, by a look-up for most pairs

    local_read %a     (other waves' rows)          the write must be two barriers behind the read: when the half in
    local_write %x, %a                             front writes, the one held back has read
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.collecting import no_collecting
from tidegate.footprint.conflicts import Conflicts
from tidegate.footprint.meetings import Pairs
from tidegate.footprint.resolve import Footprints
from tidegate.graph import model as g
from tidegate.hazards.facts import PairFacts
from tidegate.language import ops
from tidegate.language.ops import Op, results_of
from tidegate.language.uses import uses_of
from tidegate.scheduling.body import Body, Piece
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Edge:
    """`later` stays behind `first`, with at least `gap` arrivals of a wave between them. `fills`: it reads what the
    first fetched or wrote.
    """

    first: int
    later: int
    gap: int = 0
    fills: bool = False


def find_dependences(body: Body, stagger: int) -> list[Edge]:
    """All edges, in the order of their later ends."""
    found: dict[tuple[int, int], Edge] = {}
    for edge in (*_values(body), *_bytes(body, stagger), *_global(body), *_groups(body)):
        known = found.get((edge.first, edge.later))
        if known is not None:
            edge = Edge(edge.first, edge.later, max(edge.gap, known.gap), edge.fills or known.fills)
        found[edge.first, edge.later] = edge
    return sorted(found.values(), key=lambda each: (each.later, each.first))


def _values(body: Body) -> Iterator[Edge]:
    made: dict[str, int] = {}
    for piece in body.pieces:
        for name in uses_of(piece.op):
            if name in made:
                yield Edge(made[name], piece.number)
        made.update(dict.fromkeys((each.name for each in results_of(piece.op)), piece.number))


def _bytes(body: Body, stagger: int) -> Iterator[Edge]:
    owned = [(piece.number, point) for piece in body.pieces for point in piece.points]
    return find_meeting(body.footprints, body.target, owned, stagger)


def find_meeting(
    footprints: Footprints, target: Target, owned: Iterable[tuple[int, int]], stagger: int
) -> Iterator[Edge]:
    """Pairs that can touch one byte of shared memory in one iteration, by waves that the arrivals between order.

    `owned`: operations and their points, in the order in which they stand.
    """
    with no_collecting():
        flow, graph = footprints.flow, footprints.flow.graph
        conflicts, facts = Conflicts(flow, footprints), PairFacts(flow, target, atomics="order")
    accesses = [
        (number, point) for number, point in owned if isinstance(graph.points[point].action, g.Access | g.Unknown)
    ]
    seen: list[tuple[int, int]] = []
    writes: list[tuple[int, int]] = []
    for later, second in accesses:
        reads = facts.effect(second) == "read"
        for first, one in writes if reads else seen:
            if first == later or facts.kind(one, second) is None:
                continue
            pairs = Pairs(0)
            for meeting in conflicts.same_iteration(one, second):
                pairs |= meeting.pairs
            if pairs:
                fills = facts.effect(one) != "read" and facts.effect(second) == "read"
                yield Edge(first, later, _arrivals(pairs, stagger), fills)
        seen.append((later, second))
        if not reads:
            writes.append((later, second))


def _arrivals(pairs: Pairs, stagger: int) -> int:
    """Arrivals between two accesses: none within a wave or from the half in front to the one held back."""
    if pairs & Pairs.BACK:
        return 1 + stagger
    return 1 if pairs & Pairs.WITHIN else max(0, 1 - stagger) if pairs & Pairs.FORTH else 0


def _global(body: Body) -> Iterator[Edge]:
    """Writes of global memory stay in order with all that may touch the same array."""
    seen: list[tuple[int, str, bool]] = []
    for piece in body.pieces:
        mine = list(_arrays(piece))
        for name, writes in mine:
            for first, other, wrote in seen:
                if other == name and (writes or wrote) and first != piece.number:
                    yield Edge(first, piece.number)
        seen += ((piece.number, name, writes) for name, writes in mine)


def _arrays(piece: Piece) -> Iterator[tuple[str, bool]]:
    """Arrays of global memory that an operation touches, and whether it writes them."""
    match piece.op:
        case ops.GlobalRead(place=place) | ops.ReadIndex(place=place):
            yield place.base.name, False
        case ops.GlobalWrite(place=place):
            yield place.base.name, True
        case ops.GatherToLds(source=place) | ops.TensorLoadToLds(source=place):
            yield place.base.name, False
        case ops.LdsToGlobal(dest=place):
            yield place.base.name, True


def _groups(body: Body) -> Iterator[Edge]:
    """Copies stay in their groups. Life and views of buffers stay in order with all accesses."""
    previous: dict[str, list[int]] = {"copy": [], "commit": [], "life": [], "access": []}

    def behind(piece: Piece, *kinds: str) -> Iterator[Edge]:
        return (Edge(each, piece.number) for kind in kinds for each in previous[kind])

    for piece in body.pieces:
        kind = _kind(piece.op)
        if kind == "commit":
            yield from behind(piece, "copy", "commit")
        elif kind == "copy":
            yield from behind(piece, "commit", "life")
        elif kind == "life":
            yield from behind(piece, "copy", "life", "access")
        elif kind == "access":
            yield from behind(piece, "life")
        if kind:
            previous[kind].append(piece.number)


def _kind(op: Op) -> str:
    match op:
        case ops.CommitGroup():
            return "commit"
        case ops.GatherToLds() | ops.TensorLoadToLds() | ops.LdsToGlobal():
            return "copy"
        case ops.Alloc() | ops.Dealloc():
            return "life"
        case ops.LocalRead() | ops.LocalWrite() | ops.AtomicAdd():
            return "access"
    return ""
