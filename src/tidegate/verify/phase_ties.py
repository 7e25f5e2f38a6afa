"""What numbers that are carried have to do with each other in two accesses.

Needs   iterations of two accesses; what numbers are in tiles and rounds
Gives   parts of the iterations, with conditions on these numbers
Keeps   the parts are all of the iterations, and conditions hold in them
Cost    an intersection for each number of tiles between the two

    slot (?0 + #1) mod 3 of one access, (?2 + #3) mod 3 of another one, one tile later        ?2 == ?0 + N
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.footprint.model import Touch
from tidegate.index import Binary, Compare, Cond, Const, Index, Name, names
from tidegate.verify.paths import Iterations
from tidegate.verify.phase_counting import Counting, RoundLine
from tidegate.verify.phase_model import Instant
from tidegate.verify.phase_space import Space


def tied(
    space: Space, one: tuple[Instant, Touch, Iterations], other: tuple[Instant, Touch, Iterations], apart: Any
) -> Iterator[tuple[Any, list[Cond]]]:
    counting = space.counting
    sides = [_TiedSide(space, *each) for each in (one, other)]
    if counting is None or not any(side.carried for side in sides):
        yield apart, []
    elif not counting.is_symbolic:
        yield apart, [cond for side in sides for cond in side.known(counting)]
    elif any(len(side.carried) > 1 for side in sides):
        yield apart, []
    else:
        yield from _by_tiles(space, counting, sides, apart)


def _by_tiles(
    space: Space, counting: Counting, sides: Sequence[_TiedSide], apart: Any
) -> Iterator[tuple[Any, list[Cond]]]:
    """By how many tiles lie between the two."""
    first, second = sides
    ours, theirs = first.over_tiles, second.over_tiles
    if ours is None or theirs is None:
        yield apart, []
        return
    gap = Binary("-", theirs, ours)
    tiles = [_text(space, side, letter) for side, letter in zip(sides, "ij", strict=True)]
    rest = apart
    for step in range(-counting.most, counting.most + 1):
        names_ = f"{space.named(first.at)} -> {space.named(second.at, 'j')}"
        here = apart.intersect(space.read_map(f"{{ {names_} : {tiles[1]} - {tiles[0]} = {step} }}"))
        if not here.is_empty():
            yield here, [Compare("==", gap, Binary("*", counting.size, Const(step)))]
            rest = rest.subtract(here)
    if not rest.is_empty():
        yield rest, []


def _text(space: Space, side: _TiedSide, letter: str) -> str:
    text = space.text(space.paths.around[side.at.node], letter)
    return f"({text.index(side.line.tiles)})"


class _TiedSide:
    """One access."""

    def __init__(self, space: Space, at: Instant, touch: Touch, iterations: Iterations) -> None:
        self.space, self.at, self.iterations = space, at, iterations
        lines = space.counting.lines if space.counting is not None else {}
        used = [name for spot in touch.places if spot.start is not None for name in names(spot.start)]
        used += [name for cond in (*touch.facts, *(spot.cond for spot in touch.places)) for name in names(cond)]
        self.carried = [name for name in dict.fromkeys(used) if name in lines]
        self.line = lines[self.carried[0]] if self.carried else RoundLine(Const(0), Const(0))

    def known(self, counting: Counting) -> Iterator[Cond]:
        """What the numbers are, where the rounds of a tile are a number."""
        for name in self.carried:
            value = counting.values.get(name)
            sides = [self.placed(Name(name)), self.placed(value) if value is not None else None]
            if sides[0] is not None and sides[1] is not None:
                yield Compare("==", sides[0], sides[1])

    @property
    def over_tiles(self) -> Index | None:
        """The part of its number that whole tiles make, as the program has it; 0 where nothing is carried."""
        number = self.placed(Name(self.carried[0])) if self.carried else Const(0)
        rest = self.placed(self.line.rest)
        return None if number is None or rest is None else Binary("-", number, rest)

    def placed(self, index: Index) -> Index | None:
        return self.space.paths.index_at(index, self.at.node, self.iterations, None)
