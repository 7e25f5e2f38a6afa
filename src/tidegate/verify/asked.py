"""What is asked about two accesses, and what comes of it.

Needs   conditions on waves, iterations, sizes and bytes; a table where bytes are no affine function of these
Gives   `Waves`, `Question` and `Point`
Keeps   a point is looked for when somebody asks for its numbers
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidegate.footprint.values import Spot
from tidegate.index import ZERO, Compare, Cond, Const, Name
from tidegate.language.points import UNDECIDED, Undecided
from tidegate.verify.paths import U, V
from tidegate.verify.tables import Table
from tidegate.verify.threads import ThreadPairs

BYTE = "byte'"


@dataclass(frozen=True, slots=True)
class Waves:
    """Which pairs of waves: of which halves (empty: any), and whether one and the same, in two of its lanes."""

    x: str = ""
    y: str = ""
    same: bool = False
    one_lane: bool = False  # of the same wave, and one lane of it does both
    of: frozenset[int] | None = None  # of the same wave, which is one of these; None: any

    def conds(self, count: int) -> Iterator[Cond]:
        """Which numbers x's and y's wave may have, of so many."""
        u, v = Name(U), Name(V)
        for name in (u, v):
            yield Compare(">=", name, ZERO)
            yield Compare("<", name, Const(count))
        yield Compare("==" if self.same else "!=", u, v)
        yield from self.halves(count)

    def halves(self, count: int) -> Iterator[Cond]:
        """That each of them lies in its half."""
        for name, half in ((Name(U), self.x), (Name(V), self.y)):
            if half:
                yield Compare("<" if half == "low" else ">=", name, Const(count // 2))


@dataclass(slots=True, eq=False)
class Point:
    """Where two accesses meet; the small point that shows it is looked for when somebody asks.

    Most are never asked about: it is enough that there is one, and a small one takes isl longer than all the rest.
    """

    buffer: str
    exact: bool  # whether nothing was widened on the way to it
    find: Callable[[], dict[str, int] | Undecided | None]
    known: dict[str, int] | Undecided | None = None

    @property
    def found(self) -> dict[str, int]:
        """Names and their values; none where isl gives up."""
        if self.known is None:
            found = self.find()
            self.known = UNDECIDED if found is None else found
        return self.known if isinstance(self.known, dict) else {}

    @property
    def values(self) -> tuple[tuple[str, int], ...]:
        return tuple(self.found.items())

    @property
    def sure(self) -> bool:
        """Whether nothing was widened or left undecided."""
        return self.exact and (bool(self.found) or isinstance(self.known, dict))

    @property
    def byte(self) -> int:
        return self.found.get(BYTE, 0)

    def __getitem__(self, name: str) -> int:
        return self.found.get(name, 0)

    @property
    def waves(self) -> tuple[int | None, int | None]:
        """The waves of x and of y, if that matters."""
        return self.value(U), self.value(V)

    def value(self, name: str) -> int | None:
        """The value of a name that the question was about."""
        return self.found.get(name)


@dataclass(frozen=True, slots=True)
class Question:
    """When two places meet, whether that is exact, and where; with a table, the bytes and the waves are in that."""

    conds: tuple[Cond, ...]
    sure: bool
    spot: Spot
    table: Table | None = None
    threads: ThreadPairs | None = None

    def with_way(self, way: Iterable[Cond]) -> tuple[list[Cond], bool] | None:
        """What isl is asked on a way, and whether nothing is lost; None if they do not meet."""
        if self.table is None:
            return [*self.conds, *way], self.sure
        found = self.table.ask((*self.conds, *way))
        return None if found is None else (found[0], found[1] and self.sure)

    def waves_at(self, point: dict[str, int], way: Iterable[Cond]) -> dict[str, int]:
        if self.threads is not None:
            return self.threads.witness(point)
        return {} if self.table is None else self.table.witness(point, (*self.conds, *way))
