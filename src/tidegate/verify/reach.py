"""What must hold for a node to be reached at all.

Needs   paths
Gives   sets of conditions, of which one holds whenever a wave comes to a node in given iterations
Keeps   nothing that can happen is excluded; names of iterations and of free numbers on the way are new ones, so that
        they say nothing about those of any other path
Cost    one search back to the beginning for each stretch of straight code that is asked about
"""

from __future__ import annotations

from tidegate.footprint.values import iteration
from tidegate.index import Index, Name
from tidegate.verify.conds import YES, Conds
from tidegate.verify.paths import WILD, Iterations, Paths, value_of
from tidegate.verify.search import Search
from tidegate.verify.state import AT_ONCE, State

MOST_WAYS = 8  # beyond these, only what all of them ask is said


class Reach:
    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.known: dict[int, list[Conds] | None] = {}
        self.firsts: dict[int, int] = {}

    def ways_to(self, node: int, iterations: Iterations) -> list[Conds] | None:
        """Conditions in the iterations given; None if they ask for nothing."""
        node = self.first(node)  # in the same loops
        if node not in self.known:
            self.known[node] = self.search(node)
        ways = self.known[node]
        if ways is None:
            return None
        by: dict[str, Index] = {
            iteration(loop): value_of(step)
            for loop, step in zip(self.paths.around[node], iterations, strict=True)
            if step[0] != WILD
        }
        return [self.renamed(way, by) for way in ways]

    def first(self, node: int) -> int:
        """The first node of the straight code that one stands in: whoever comes to either comes to both."""
        path: list[int] = []
        while node not in self.firsts and len(path) <= len(self.paths.flow.origin):
            path.append(node)
            previous = self.straight_before(node)
            if previous is None:
                break
            node = previous
        found = self.firsts.get(node, node)
        self.firsts.update(dict.fromkeys(path, found))
        return found

    def straight_before(self, node: int) -> int | None:
        """The node before one, if there is no other way to either and both stand in the same loops."""
        flow = self.paths.flow
        previous = flow.before[node]
        if node in flow.entries or len(previous) != 1 or flow.successors[previous[0]] != (node,):
            return None
        return previous[0] if self.paths.around[previous[0]] == self.paths.around[node] else None

    def search(self, node: int) -> list[Conds] | None:
        search = Search(self.paths, _unchanged)
        search.run(node, AT_ONCE)
        ways = [way for met in search.ended for way in met.ways]
        if not ways or not all(ways):
            return None
        if len(ways) <= MOST_WAYS:
            return ways
        # In a nest there are many, and the guard right above the node is in each of them.
        common = frozenset.intersection(*ways)
        return [common] if common else None

    def renamed(self, way: Conds, by: dict[str, Index]) -> Conds:
        book, math = self.paths.book, self.paths.math
        found = set()
        for number in way:
            new = {name: by.get(name, Name(f"{name}'")) for name in book.names[number] if name[0] in "#<?"}
            found.add(book.number(math.put_cond(book.conds[number], new)))
        return frozenset(found - {YES})


def _unchanged(_: int, state: State) -> State:
    return state
