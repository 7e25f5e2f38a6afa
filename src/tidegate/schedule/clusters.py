"""Clusters: which operation stands between which barriers of an iteration.

Needs   a body and its dependences; how many clusters; in which `Way` the rest is arranged around the products
Gives   `Arrangement`: the operations of each phase in order, or why there is none
Keeps   memory work stands in even phases, matrix products in odd ones, every dependence with the barriers it needs
Cost    linear in the operations plus dependences, plus a sort

    phase   0 = M0    1 = C0    2 = M1    3 = C1        a barrier behind each phase; one half of the waves is one
            reads     products  writes    products      barrier behind the other, so one moves data while one multiplies
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from tidegate.cost import prices_of
from tidegate.schedule.body import MEMORY, Body, Piece
from tidegate.schedule.dependences import Edge, find_dependences
from tidegate.schedule.model import Declined

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
    body: Body, clusters: int, ways: Sequence[Way] = WAYS, *, stagger: int = 1
) -> list[Arrangement | Declined]:
    """In each of the ways."""
    edges = find_dependences(body, stagger)
    return [_Arranger(body, clusters, edges).run(way) for way in ways]


class _Arranger:
    def __init__(self, body: Body, clusters: int, edges: Sequence[Edge]) -> None:
        self.body, self.clusters = body, clusters
        self.last = 2 * clusters - 1
        self.before: dict[int, list[Edge]] = defaultdict(list)
        self.behind: dict[int, list[Edge]] = defaultdict(list)
        for edge in edges:
            self.before[edge.later].append(edge)
            self.behind[edge.first].append(edge)
        self.follows = self.behind_products()
        self.phase: dict[int, int] = {}
        self.latest: dict[int, int] = {}

    def run(self, way: Way) -> Arrangement | Declined:
        declined = self.products() or self.bounds()
        if declined is not None:
            return declined
        for piece in self.body.pieces:
            if piece.role != "mma":
                self.phase[piece.number] = self.choose(piece, way)
        phases = tuple(self.in_order(phase) for phase in range(self.last + 1))
        for number in range(0, self.last, 2):
            if not any(piece.role in MEMORY for piece in phases[number]):
                says = f"there is too little memory work for {self.clusters} clusters"
                return Declined("no-memory", says, f"fewer clusters: cluster {number // 2} would have none")
        return Arrangement(self.body, phases, way)

    def behind_products(self) -> set[int]:
        """Operations that need a product of the same iteration, perhaps through others."""
        found = {piece.number for piece in self.body.of_role("mma")}
        for piece in self.body.pieces:
            if any(edge.first in found for edge in self.before[piece.number]):
                found.add(piece.number)
        return found

    # --- products ---

    def products(self) -> Declined | None:
        """Products in text order, shared evenly among the clusters, none earlier than what it needs allows."""
        work = {piece.number: self.work(piece) for piece in self.body.of_role("mma")}
        total, done = sum(work.values()), 0.0
        soonest: dict[int, int] = {}
        for piece in self.body.pieces:
            number = piece.number
            soonest[number] = self.soonest(piece, soonest)
            if piece.role == "mma":
                share = int((done + work[number] / 2) * self.clusters / total) if total else 0
                soonest[number] = max(soonest[number], 2 * min(share, self.clusters - 1) + 1)
                done += work[number]
                self.phase[number] = soonest[number]
            if soonest[number] > self.last - (piece.role in MEMORY):
                return self.too_long(piece, soonest)
        held = {self.phase[each] for each in work}
        missing = next((each for each in range(1, self.last + 1, 2) if each not in held), None)
        return None if missing is None else self.too_few(missing, len(work))

    def work(self, piece: Piece) -> float:
        prices = prices_of(self.body.target)
        points = (self.body.graph.points[each] for each in piece.points)
        return sum(prices.mma(each.work.ops, each.work.dtype).busy for each in points if each.role == "mma")

    def soonest(self, piece: Piece, known: dict[int, int]) -> int:
        found = max((known[edge.first] + edge.gap for edge in self.before[piece.number]), default=0)
        return found + (found % 2 != _parity(piece, found))

    def too_few(self, missing: int, products: int) -> Declined:
        """Why a cluster has no product."""
        if missing == 1 and any(edge.fills and edge.gap for edges in self.before.values() for edge in edges):
            says = "products need what is fetched in the same iteration"
            return Declined("not-pipelined", says, "`--prefetch` fetches an iteration ahead")
        says = f"{products} matrix product{'s' * (products != 1)} cannot be shared among {self.clusters} clusters"
        return Declined("no-split", says, "fewer clusters, or products that can be split")

    def too_long(self, piece: Piece, soonest: dict[int, int]) -> Declined:
        needed = soonest[piece.number] // 2 + 1
        if any(edge.fills and edge.gap for edge in self.chain(piece, soonest)):
            says = f"{piece.name} needs what is fetched in the same iteration"
            return Declined("not-pipelined", says, "`--prefetch` fetches an iteration ahead", piece.at)
        says = f"what {piece.name} depends on takes {needed} clusters"
        return Declined("dependence", says, f"`clusters={needed}` may fit", piece.at)

    def chain(self, piece: Piece, soonest: dict[int, int]) -> list[Edge]:
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
        for piece in reversed(self.body.pieces):
            number = piece.number
            found = min((self.latest[edge.later] - edge.gap for edge in self.behind[number]), default=self.last)
            found -= found % 2 != _parity(piece, found)
            if (piece.role == "mma" and found < self.phase[number]) or found < 0:
                says = f"what depends on {piece.name} does not fit behind it in {self.clusters} clusters"
                return Declined("dependence", says, f"`clusters={self.clusters + 1}` may fit", piece.at)
            self.latest[number] = self.phase.get(number, found)
        return None

    def choose(self, piece: Piece, way: Way) -> int:
        low = max((self.phase[edge.first] + edge.gap for edge in self.before[piece.number]), default=0)
        low += low % 2 != _parity(piece, low)
        high = self.latest[piece.number]
        if piece.role == "local_read":
            return low if way.early else high
        if piece.role in ("global_read", "copy", "global_write"):
            return low
        if piece.role == "local_write":
            return high
        if piece.number not in self.follows and self.behind[piece.number]:
            return high
        return min(low + low % 2, high) if way.apart else low

    def in_order(self, phase: int) -> tuple[Piece, ...]:
        """The operations of a phase: as they stood, but for what memory work should begin with."""
        mine = [piece for piece in self.body.pieces if self.phase[piece.number] == phase]
        rank: Callable[[Piece], int] = (lambda piece: _RANK.get(piece.role, 0)) if phase % 2 == 0 else (lambda _: 0)
        return _sorted(mine, self.before, rank)


def _parity(piece: Piece, phase: int) -> int:
    """0 for memory work, 1 for products; what is neither stays where it is."""
    return 0 if piece.role in MEMORY else 1 if piece.role == "mma" else phase % 2


def _sorted(pieces: Sequence[Piece], before: dict[int, list[Edge]], rank: Callable[[Piece], int]) -> tuple[Piece, ...]:
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
