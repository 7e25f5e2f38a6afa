"""Where in a graph's program a wave stands: the keys of its steps.

Needs   a graph; then every move of a wave from point to point
Gives   keys as `program_order` compares them, and the loops around with their iterations
Keeps   the keys of one wave grow, whatever the edges: an edge to a point that is not later is another iteration
Cost    linear in the nesting for each move

Loops are those that the graph states; where an edge goes back outside of them, the whole program counts as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.graph.joins import find_joins
from tidegate.graph.model import Branch, Dispatch, SyncGraph
from tidegate.simulate.program_order import Key, arm


@dataclass(frozen=True, slots=True)
class Shape:
    """What does not change while waves run: the loops around each point, and where arms meet."""

    chains: tuple[tuple[int, ...], ...]
    heads: tuple[int, ...]
    joins: tuple[int, ...]
    leaves_loop: frozenset[int]  # branches of which one successor lies outside the branch's loop
    plain: frozenset[tuple[int, int]] = frozenset()  # edges that neither leave a region, nor enter one, nor go back


def shape_of(graph: SyncGraph) -> Shape:
    around: list[tuple[int, ...]] = []
    for number, loop in enumerate(graph.loops):
        around.append((*(around[loop.parent] if loop.parent >= 0 else ()), number))
    chains = tuple(around[point.loop] if point.loop >= 0 else () for point in graph.points)
    leaving = frozenset(
        number
        for number, point in enumerate(graph.points)
        if isinstance(point.action, Branch)
        and point.loop >= 0
        and any(point.loop not in chains[successor] for successor in point.successors)
    )
    joins = find_joins([point.successors for point in graph.points])
    ends = {joins[number] for number, point in enumerate(graph.points) if isinstance(point.action, Branch | Dispatch)}
    plain = frozenset(
        (number, to)
        for number, point in enumerate(graph.points)
        for to in point.successors
        if to > number and to not in ends and chains[to] == chains[number]
    )
    return Shape(chains, tuple(loop.head for loop in graph.loops), tuple(joins), leaving, plain)


@dataclass(slots=True)
class _Region:
    """A loop (`join` is -2), an arm, or a call (`join` is -3) that a wave is in."""

    number: int  # of the loop; of the branch; of the call
    part: int  # the iteration; the arm
    join: int


LOOP, CALL = -2, -3


@dataclass(slots=True)
class Position:
    """Where one wave is. `program` tells waves apart that start at different points."""

    shape: Shape
    program: int
    point: int
    regions: list[_Region] = field(default_factory=list)
    turns: int = 0  # edges that went back outside of every loop
    known: Key | None = None  # the part of a key that the regions give, until one of them changes

    def __post_init__(self) -> None:
        self._enter(self.point, 0)

    def key(self) -> Key:
        if self.known is None:
            self.known = self._around()
        return (*self.known, self.point)

    def _around(self) -> Key:
        parts = [arm(self.program), self.turns]
        for region in self.regions:
            if region.join == LOOP:
                parts += (self.shape.heads[region.number], region.part)
            elif region.join == CALL:
                parts.append(region.number)
            else:
                parts += (region.number, arm(region.part))
        return tuple(parts)

    def iterations(self) -> dict[int, int]:
        """The loops around, and which iteration of each this is."""
        return {region.number: region.part for region in self.regions if region.join == LOOP}

    def move(self, to: int) -> None:
        """Along an edge inside one function."""
        if (self.point, to) in self.shape.plain:
            self.point = to
            return
        self.known = None
        bottom = self._frame()
        chain = self.shape.chains[to]
        for place in range(bottom, len(self.regions)):
            region = self.regions[place]
            left = region.number not in chain if region.join == LOOP else region.join == to
            if left:
                del self.regions[place:]
                break
        if to <= self.point:
            self._turn(bottom, chain)
        self._enter(to, bottom)

    def take(self, branch: int, which: int) -> None:
        """Into an arm of a branch or a dispatch; the move follows."""
        if branch not in self.shape.leaves_loop:
            self.known = None
            self.regions.append(_Region(branch, which, self.shape.joins[branch]))

    def call(self, entry: int) -> None:
        self.known = None
        self.regions.append(_Region(self.point, 0, CALL))
        self._enter(entry, len(self.regions))

    def come_back(self, call: int, to: int) -> None:
        """From a function to the point after its call."""
        del self.regions[self._frame() - 1 :]
        self.known = None
        self.point = call
        self.move(to)

    def _frame(self) -> int:
        """The first region of the function that runs now."""
        calls = [place for place, region in enumerate(self.regions) if region.join == CALL]
        return calls[-1] + 1 if calls else 0

    def _turn(self, bottom: int, chain: tuple[int, ...]) -> None:
        for place in reversed(range(bottom, len(self.regions))):
            region = self.regions[place]
            if region.join == LOOP and region.number in chain:
                region.part += 1
                del self.regions[place + 1 :]
                return
        del self.regions[bottom:]
        self.turns += 1

    def _enter(self, to: int, bottom: int) -> None:
        inside = {region.number for region in self.regions[bottom:] if region.join == LOOP}
        for loop in self.shape.chains[to]:
            if loop not in inside:
                self.regions.append(_Region(loop, 0, LOOP))
        self.point = to
