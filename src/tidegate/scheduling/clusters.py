"""Clusters: which operation stands between which barriers of an iteration.

Needs   a body and its dependences; how many clusters; in which `Way` the rest is arranged around the products
Gives   `Arrangement`: the operations of each phase in order, or why there is none
Keeps   memory work stands in even phases, matrix products in odd ones, every dependence with the barriers it needs
Cost    linear in the operations times the phases, plus dependences, plus a sort

    phase   0 = M0    1 = C0    2 = M1    3 = C1        a barrier behind each phase; one half of the waves is one
            reads     products  writes    products      barrier behind the other, so one moves data while one multiplies
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from tidegate.cost import prices_of
from tidegate.diag import NOWHERE, Span
from tidegate.scheduling.body import MEMORY, Body, Piece
from tidegate.scheduling.dependences import Edge, find_dependences
from tidegate.scheduling.model import Declined

# What comes first among operations of one phase that may come in any order: values that products wait for, then what
# takes long, then the rest.
_RANK = {"local_read": 0, "copy": 1, "global_read": 1, "local_write": 2, "global_write": 3}


@dataclass(frozen=True, slots=True)
class Way:
    """What dependences leave open. `early`: values are read from shared memory as soon as they can be, else right
    before their products. `apart`: vector work behind a product stands with memory work, so that it overlaps with
    products of the other half, else with the products.
    """

    early: bool = True
    apart: bool = False


WAYS = (Way(True, False), Way(False, False), Way(True, True), Way(False, True))


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Operations of a body by phase: memory and matrix work in turns, two phases for each cluster."""

    body: Body
    phases: tuple[tuple[Piece, ...], ...]
    way: Way

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(piece.number for phase in self.phases for piece in phase)


def arrange(body: Body, clusters: int, way: Way = WAYS[0], *, stagger: int = 1) -> Arrangement | Declined:
    """The operations in so many clusters."""
    return arrange_all(body, clusters, (way,), stagger=stagger)[0]


def arrange_all(
    body: Body, clusters: int, ways: Sequence[Way] = WAYS, *, stagger: int = 1, spare: bool = False
) -> list[Arrangement | Declined]:
    """In each of the ways. `spare`: the last cluster may be without a product."""
    edges = find_dependences(body, stagger)
    work = {piece.number: _work(body, piece) for piece in body.of_role("mma")}
    found = (Arranger(body.pieces, work, clusters, edges, spare).run(way) for way in ways)
    return [
        each if isinstance(each, Declined) else Arrangement(body, each, way)
        for each, way in zip(found, ways, strict=True)
    ]


def _work(body: Body, piece: Piece) -> float:
    """For how long a product keeps the matrix unit busy."""
    prices = prices_of(body.target)
    points = (body.graph.points[each] for each in piece.points)
    return sum(prices.mma(each.work.ops, each.work.dtype).busy for each in points if each.role == "mma")


class Part(Protocol):
    """What arranging needs to know of an operation. Its number is its place among those that are arranged."""

    @property
    def number(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def at(self) -> Span: ...


P = TypeVar("P", bound=Part)


class Arranger(Generic[P]):
    """Operations of one body, each behind what it depends on, and how much work its products are."""

    def __init__(
        self, pieces: Sequence[P], work: Mapping[int, float], clusters: int, edges: Sequence[Edge], spare: bool = False
    ) -> None:
        self.pieces, self.work, self.clusters, self.spare = pieces, work, clusters, spare
        self.last = 2 * clusters - 1
        self.before: dict[int, list[Edge]] = defaultdict(list)
        self.behind: dict[int, list[Edge]] = defaultdict(list)
        self.fetching = self.collect(edges)
        self.follows = self.behind_products()
        self.phase: dict[int, int] = {}
        self.latest: dict[int, int] = {}

    def run(self, way: Way) -> tuple[tuple[P, ...], ...] | Declined:
        """The operations of each phase, in order."""
        declined = self.products() or self.bounds()
        if declined is not None:
            return declined
        for piece in self.pieces:
            if piece.role != "mma":
                self.phase[piece.number] = self.choose(piece, way)
        self.settle()
        phases = tuple(self.in_order(phase) for phase in range(self.last + 1))
        for number in range(0, self.last, 2):
            if not any(piece.role in MEMORY for piece in phases[number]):
                says = f"there is too little memory work for {self.clusters} clusters"
                return Declined("no-memory", says, f"fewer clusters: cluster {number // 2} would have none")
        return phases

    def collect(self, edges: Sequence[Edge]) -> set[int]:
        """Fills `before` and `behind`. Gives what copies, or needs what the same iteration reads from global memory."""
        by_later: dict[int, list[Edge]] = defaultdict(list)
        for edge in edges:
            by_later[edge.later].append(edge)
        found: set[int] = set()
        for piece in self.pieces:  # what an operation depends on stands before it
            number = piece.number
            for edge in by_later[number]:
                apart = edge.fills and not edge.gap and edge.first in found
                edge = replace(edge, gap=1) if apart else edge  # a wave does not wait at once for what it fetches
                self.before[number].append(edge)
                self.behind[edge.first].append(edge)
            needs = any(edge.first in found and not edge.gap for edge in self.before[number])
            if needs or piece.role in ("copy", "global_read"):
                found.add(number)
        return found

    def behind_products(self) -> set[int]:
        """Operations that need a product of the same iteration, perhaps through others."""
        found = set(self.work)
        for piece in self.pieces:
            if any(edge.first in found for edge in self.before[piece.number]):
                found.add(piece.number)
        return found

    # --- products ---

    def products(self) -> Declined | None:
        """Products in text order, shared evenly among the clusters, none earlier than what it needs allows."""
        work = self.work
        total, done = sum(work.values()), 0.0
        soonest: dict[int, int] = {}
        shared = max(1, self.clusters - self.spare)
        for piece in self.pieces:
            number = piece.number
            soonest[number] = self.soonest(piece, soonest)
            if piece.role == "mma":
                share = int((done + work[number] / 2) * shared / total) if total else 0
                soonest[number] = max(soonest[number], 2 * min(share, shared - 1) + 1)
                done += work[number]
                self.phase[number] = soonest[number]
            if soonest[number] > self.last:
                return self.too_long(piece, soonest)
        held = {self.phase[each] for each in work}
        wanted = range(1, self.last + 1 - 2 * self.spare, 2)
        missing = next((each for each in wanted if each not in held), None)
        return None if missing is None else self.too_few(missing, len(work))

    def soonest(self, piece: P, known: dict[int, int]) -> int:
        found = max((known[edge.first] + edge.gap for edge in self.before[piece.number]), default=0)
        return found + self.is_wrong(piece, found)

    def too_few(self, missing: int, products: int) -> Declined:
        """Why a cluster has no product."""
        if missing == 1 and any(self.is_fetched(edge) for edges in self.before.values() for edge in edges):
            return self.not_pipelined("products need")
        says = f"{products} matrix product{'s' * (products != 1)} cannot be shared among {self.clusters} clusters"
        return Declined("no-split", says, "fewer clusters, or products that can be split")

    def too_long(self, piece: P, soonest: dict[int, int]) -> Declined:
        needed = soonest[piece.number] // 2 + 1
        if any(self.is_fetched(edge) for edge in self.chain(piece, soonest)):
            return self.not_pipelined(f"{piece.name} needs", piece)
        says = f"what {piece.name} depends on takes {needed} clusters"
        return Declined("dependence", says, f"`clusters={needed}` may fit", piece.at)

    def is_fetched(self, edge: Edge) -> bool:
        """Whether something is read that was put into shared memory in the same iteration, and not for a product."""
        return edge.fills and edge.gap > 0 and edge.first not in self.follows

    def not_pipelined(self, who: str, piece: P | None = None) -> Declined:
        says = f"{who} what is written to shared memory in the same iteration"
        now = any(
            self.is_fetched(edge) and edge.first in self.fetching for edges in self.before.values() for edge in edges
        )
        fits = "`--prefetch` fetches an iteration ahead" if now else "write it at the end of the previous iteration"
        return Declined("not-pipelined", says, fits, piece.at if piece is not None else NOWHERE)

    def chain(self, piece: P, soonest: dict[int, int]) -> list[Edge]:
        """The dependences on the longest way to an operation."""
        found, at = [], piece.number
        while self.before[at]:
            edge = max(self.before[at], key=lambda each: soonest[each.first] + each.gap)
            found.append(edge)
            at = edge.first
        return found

    # --- the rest ---

    def bounds(self) -> Declined | None:
        """The latest phase of each operation, with products where they are."""
        for piece in reversed(self.pieces):
            number = piece.number
            found = min((self.latest[edge.later] - edge.gap for edge in self.behind[number]), default=self.last)
            found -= self.is_wrong(piece, found)
            if (piece.role == "mma" and found < self.phase[number]) or found < 0:
                says = f"what depends on {piece.name} does not fit after it in {self.clusters} clusters"
                return Declined("dependence", says, f"`clusters={self.clusters + 1}` may fit", piece.at)
            self.latest[number] = self.phase.get(number, found)
        return None

    def choose(self, piece: P, way: Way) -> int:
        """What is settled later is taken as early as it can be meanwhile."""
        low = max((self.phase[edge.first] + edge.gap for edge in self.before[piece.number]), default=0)
        low += self.is_wrong(piece, low)
        high = self.latest[piece.number]
        even_low, even_high = min(low + low % 2, high), max(high - high % 2, low)
        if piece.role == "local_read":
            return even_low if way.early else even_high
        if piece.role == "local_write":
            return even_high
        if piece.role in MEMORY:
            return even_low
        return even_low if way.apart and piece.number in self.follows else low

    def settle(self) -> None:
        """What is neither memory work nor needs a product stands right before what uses it."""
        for piece in reversed(self.pieces):
            number = piece.number
            if piece.role == "other" and number not in self.follows and self.behind[number]:
                self.phase[number] = min(self.phase[edge.later] - edge.gap for edge in self.behind[number])

    def is_wrong(self, piece: P, phase: int) -> bool:
        """Whether an operation must not stand in a phase: memory work in odd ones, products in even ones. Memory work
        that needs a product may stand beside products, for behind the last there is no other place.
        """
        if piece.role == "mma":
            return phase % 2 == 0
        return piece.role in MEMORY and phase % 2 == 1 and piece.number not in self.follows

    def in_order(self, phase: int) -> tuple[P, ...]:
        """The operations of a phase: as they stood, but for what memory work should begin with."""
        mine = [piece for piece in self.pieces if self.phase[piece.number] == phase]
        rank: Callable[[P], int] = (lambda piece: _RANK.get(piece.role, 0)) if phase % 2 == 0 else (lambda _: 0)
        return _sorted(mine, self.before, rank)


def _sorted(pieces: Sequence[P], before: dict[int, list[Edge]], rank: Callable[[P], int]) -> tuple[P, ...]:
    """By rank, then as they stood, each behind what it depends on."""
    mine = {piece.number: piece for piece in pieces}
    waiting = {number: sum(edge.first in mine for edge in before[number]) for number in mine}
    behind: dict[int, list[int]] = defaultdict(list)
    for number in mine:
        for edge in before[number]:
            if edge.first in mine:
                behind[edge.first].append(number)
    ready = [(rank(mine[number]), number) for number, count in waiting.items() if not count]
    heapify(ready)
    found = []
    while ready:
        _, number = heappop(ready)
        found.append(mine[number])
        for each in behind[number]:
            waiting[each] -= 1
            if not waiting[each]:
                heappush(ready, (rank(mine[each]), each))
    return tuple(found)
