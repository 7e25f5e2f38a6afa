"""What statements are about, and the order of a role's own moments.

Needs   statements with their generations
Gives   `Relations`: for every statement the phase that it is about, program order between two moments, what waits for
        what
Keeps   program order is that of every wave of the role; a pair of an arrival and a wait is of one generation
Cost    a join of isl's maps for each pair of statements of one object

    arrives %full, generation g   →   end of a wait for %full, generation g

A wall is a rendezvous of all waves outside all loops: what comes before it comes before all behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegate.index import Index
from tidegate.language.points import IslText
from tidegate.verify.phase_meetings import MeetingEdges
from tidegate.verify.phase_model import Instant, Outside
from tidegate.verify.phase_space import Space, several
from tidegate.verify.phase_statements import ARRIVES, COPIES, MEETS, WAITS, ObjectUseAt


@dataclass
class Relations:
    space: Space
    statements: Sequence[ObjectUseAt]
    formulas: Mapping[ObjectUseAt, str | Index]  # conditions on the generation, or the number of a round
    meetings: MeetingEdges
    known: Any
    kept: dict[object, Any] = field(default_factory=dict)

    @cached_property
    def counted(self) -> list[ObjectUseAt]:
        """Statements at objects of which nobody knows better than by counting."""
        return [each for each in self.statements if each in self.formulas]

    @cached_property
    def objects(self) -> dict[str, int]:
        return {
            name: number for number, name in enumerate(dict.fromkeys(each.barrier.name for each in self.statements))
        }

    def phase(self, each: ObjectUseAt, *, end: int = 0) -> Any:
        """From the moments of a statement to `[object, slot, generation]`, or to `[object, tile, place in it]`."""
        key = ("phase", each, end)
        if key not in self.kept:
            number = self.objects[each.barrier.name]
            text = self.space.text(self.space.paths.around[each.node])
            body = self.space.closed(text, " or ".join(f"({way})" for way in self.ways(each, text)))
            moment = Instant(each.role, each.node, end)
            found = self.space.read_map(f"{{ {self.space.named(moment)} -> [{number}, s, g] : {body} }}")
            domain = self.space.moments(moment, each.domain).intersect_params(self.known)
            self.kept[key] = found.intersect_domain(domain).coalesce()
        return self.kept[key]

    def ways(self, each: ObjectUseAt, text: IslText) -> Iterator[str]:
        """What `s` and `g` are, in isl's notation."""
        formula, counting = self.formulas[each], self.space.counting
        if isinstance(formula, str):
            yield f"s = {text.index(each.slot)} and ({formula})"
        elif not self.is_by_tiles(each):
            affine = self.space.affine(formula)
            if affine is None:
                raise Outside(f"which round of {each.barrier} is meant depends on values that nobody can compute")
            yield f"s = {text.index(each.slot)} and g = floor(({text.index(affine)})/{each.barrier.slots})"
        elif counting is not None:
            line, size = counting.line(formula), text.index(counting.size)
            if line is None:
                raise Outside(f"rounds of {each.barrier} that are no sums")
            tiles, rest = text.index(line.tiles), text.index(line.rest)
            for more in range(-counting.most, counting.most + 1):
                yield f"s = {tiles} + {more} and g = {rest} - {more} * {size} and 0 <= g < {size}"

    def is_by_tiles(self, each: ObjectUseAt) -> bool:
        """Whether a round is known by its tile and its place in there."""
        counting = self.space.counting
        return counting is not None and counting.is_symbolic and not isinstance(self.formulas[each], str)

    # --- order in a role ---

    def order(self, one: Instant, other: Instant) -> Any:
        """Program order of two moments of a role, each before itself as well; None if they never are in it."""
        key = ("order", one, other)
        if key not in self.kept:
            text = self.space.order_text(one, other) if one.role is other.role else ""
            self.kept[key] = self.space.read_map(text) if text else None
        return self.kept[key]

    def all_order(self, ones: Iterable[Instant], others: Sequence[Instant]) -> Any:
        """The same for many in one stretch, as a relation of isl's between several spaces. A way never comes back to a
        stretch, and of two stretches everything is known."""
        pairs = ((one, other) for one in ones for other in others if self.stretch(one) == self.stretch(other))
        parts = (self.order(one, other) for one, other in pairs)
        return several(each for each in parts if each is not None)

    def stretch(self, moment: Instant) -> int:
        """Between which walls a moment lies."""
        rank = self.space.outermost(moment.node)
        walls = self.meetings.walls.get(moment.role.number, ())
        return sum(wall < rank or (wall == rank and bool(moment.end)) for wall in walls)

    # --- edges ---

    def sources(self, *kinds: str) -> list[Instant]:
        """What others may wait for."""
        return [Instant(each.role, each.node) for each in self.statements if each.kind in kinds]

    @cached_property
    def targets(self) -> list[Instant]:
        """The ends of waits."""
        return [Instant(each.role, each.node, 1) for each in self.statements if each.kind in (WAITS, MEETS)]

    def joined(self, kind: str) -> list[Any]:
        """What waits have of statements of a kind in their own stretch: of others a wall says as much."""
        return [edge for one, other, edge in self.pairs(kind) if self.stretch(one) == self.stretch(other)]

    def pairs(self, kind: str) -> list[tuple[Instant, Instant, Any]]:
        """All that statements of a kind have waits for, with the iterations in which these are for them."""
        if ("pairs", kind) not in self.kept:
            found = []
            for one in self.counted:
                for other in self.counted:
                    if one.kind == kind and other.kind == WAITS and other.barrier == one.barrier:
                        edge = self.phase(one).apply_range(self.phase(other, end=1).reverse())
                        if not edge.is_empty():
                            found.append((Instant(one.role, one.node), Instant(other.role, other.node, 1), edge))
            self.kept["pairs", kind] = found
        return self.kept["pairs", kind]  # type: ignore[no-any-return]

    @property
    def goes_back(self) -> bool:
        """Whether something waits for what comes behind a wall that it stands before."""
        found = (*self.meetings.edges, *self.meetings.maybe, *self.pairs(ARRIVES), *self.pairs(COPIES))
        return any(self.stretch(one) > self.stretch(other) for one, other, _ in found)
