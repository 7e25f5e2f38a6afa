"""What must hold for a node to be reached at all.

Needs   paths
Gives   sets of conditions, of which one holds whenever a wave comes to a node in given iterations
Keeps   nothing that can happen is excluded; names of iterations and of free numbers on the way are new ones, so that
        they say nothing about those of any other path
Cost    one search for each stretch of straight code that is asked about, back to the nearest node that all ways to it
        pass in the same iterations; what that node asks for is known from then on
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tidegate.footprint.order import Order, order_of
from tidegate.footprint.values import iteration
from tidegate.index import Index, Name
from tidegate.verify.conds import YES, Conds
from tidegate.verify.paths import WILD, Iterations, Paths, value_of
from tidegate.verify.search import Search, simplified
from tidegate.verify.state import AT_ONCE

MOST_WAYS = 8  # beyond these, only what all of them ask is said

Ways = list[Conds] | None  # None: nothing is asked


class Reach:
    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.known: dict[int, Ways] = {}
        self.placed: dict[tuple[int, Iterations], Ways] = {}  # in given iterations
        self.renamings: dict[tuple[int, int, Iterations], int] = {}
        self.firsts: dict[int, int] = {}
        self.reducible = all(loop.reducible for loop in paths.flow.loops)

    @cached_property
    def order(self) -> Order:
        return order_of(self.paths.flow)

    def ways_to(self, node: int, iterations: Iterations) -> Ways:
        """Conditions in the iterations given; None if they ask for nothing."""
        node = self.first(node)  # in the same loops
        key = (node, iterations)
        if key not in self.placed:
            ways = self.ways(node)
            self.placed[key] = ways if ways is None else [self.renamed(way, node, iterations) for way in ways]
        return self.placed[key]

    def first(self, node: int) -> int:
        """The first node of the straight code that one stands in: whoever comes to either comes to both."""
        path = [node]
        while path[-1] not in self.firsts and (previous := self.paths.straight[path[-1]]) >= 0:
            path.append(previous)
        found = self.firsts.get(path[-1], path[-1])
        self.firsts.update(dict.fromkeys(path, found))
        return found

    def ways(self, node: int) -> Ways:
        """Conditions in the iterations of a start at a node, which is the first of straight code."""
        chain = [node]
        while chain[-1] not in self.known and (above := self.passed_before(chain[-1])) >= 0:
            chain.append(above)
        for place in reversed(range(len(chain))):
            each = chain[place]
            if each not in self.known:
                self.known[each] = self.search(each, chain[place + 1] if place + 1 < len(chain) else -1)
        return self.known[node]

    def passed_before(self, node: int) -> int:
        """The nearest node that every way to this one passes, in loops that are all around this one as well; or -1.

        From there the way goes round none of these, so both have the same iterations of them: the last time that it
        passes that node, whatever it does before.
        """
        around, above = self.paths.around, self.order.above
        found = above.get(node, -1) if self.reducible else -1
        while found >= 0 and around[found] != around[node][: len(around[found])]:
            found = above[found]
        return self.first(found) if found >= 0 else -1

    def search(self, node: int, above: int) -> Ways:
        """From a node back to one that every way to it passes, whose conditions are known; -1: to the beginning."""
        search = Search(self.paths, lambda each, state: None if each == above else state)
        search.run(node, AT_ONCE)
        if above < 0:
            return self.few([way for met in search.ended for way in met.ways])
        met = [each for each in search.met if each.node == above]
        if any(each.iterations != self.paths.start(above) for each in met):
            return self.search(node, -1)  # which no flow is known to lead to
        return self.joined(self.few([way for each in met for way in each.ways]), self.known[above])

    def few(self, ways: Sequence[Conds]) -> Ways:
        """In a nest there are many, and the guard right above the node is in each of them."""
        if not ways or not all(ways):
            return None
        found, _ = simplified(self.paths, tuple(ways), MOST_WAYS)
        return list(found) if all(found) else None

    def joined(self, near: Ways, far: Ways) -> Ways:
        """One of each."""
        if near is None or far is None:
            return near or far
        if len(near) * len(far) > MOST_WAYS:
            far = [frozenset.intersection(*far)]
        return self.few(list(dict.fromkeys(one | other for one in near for other in far)))

    def renamed(self, way: Conds, node: int, iterations: Iterations) -> Conds:
        found: set[int] = set()
        for number in way:
            key = (number, node, iterations)
            if key not in self.renamings:
                self.renamings[key] = self.renamed_one(number, node, iterations)
            found.add(self.renamings[key])
        return frozenset(found - {YES})

    def renamed_one(self, number: int, node: int, iterations: Iterations) -> int:
        book, around = self.paths.book, self.paths.around[node]
        known = {iteration(loop): step for loop, step in zip(around, iterations, strict=True) if step[0] != WILD}
        new: dict[str, Index] = {
            name: value_of(known[name]) if name in known else Name(f"{name}'")
            for name in book.names[number]
            if name[0] in "#<?"
        }
        return book.number(self.paths.math.put_cond(book.conds[number], new)) if new else number
