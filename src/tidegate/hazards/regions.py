"""A flow as nested regions in text order: sequences, loops, arms.

Needs   a flow with one entry
Gives   regions with the nodes in them in the order of the text, or None if the flow is not made of loops with one way
        in and one way out and of branches whose arms meet again
Keeps   a node belongs to one region; a region's nodes, those of inner regions included, stand together in the text;
        arms that end the wave meet nothing
Cost    linear in the nodes, times the depth of loops at heads and branches

    a; while { b; if { c } else { d } }; e      text a h b i c d j e; regions: whole, loop, then, else
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.graph.flow import Flow
from tidegate.graph.joins import find_joins

DEEPEST = 150
LONGEST_EXIT = 64  # nodes of an arm that ends the wave, beyond which it is not looked for


@dataclass(slots=True)
class Region:
    """A sequence of items. `first` up to, not including, `last` are places in the text."""

    number: int
    parent: int
    loop: int = -1  # the loop whose body it is, or -1
    branch: int = -1  # the node that decides whether it is entered, if it is an arm
    ends: bool = False  # an arm that ends the wave
    first: int = 0
    last: int = 0
    children: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Regions:
    flow: Flow
    regions: tuple[Region, ...]
    text: tuple[int, ...]  # place → node
    place: dict[int, int]  # node → place
    region_of: dict[int, int]  # node → region
    depth: tuple[int, ...]  # of regions

    def up(self, region: int) -> list[int]:
        """The region and those around it, innermost first."""
        found = []
        while region >= 0:
            found.append(region)
            region = self.regions[region].parent
        return found

    def meet(self, one: int, other: int) -> tuple[int, int, int]:
        """The innermost region that holds both, and its children on the way to each (-1: itself)."""
        below_one = below_other = -1
        while one != other:
            if self.depth[one] >= self.depth[other]:
                below_one, one = one, self.regions[one].parent
            else:
                below_other, other = other, self.regions[other].parent
        return one, below_one, below_other

    def inside(self, number: int) -> list[Region]:
        """All regions in one, not itself."""
        found, stack = [], list(self.regions[number].children)
        while stack:
            inner = self.regions[stack.pop()]
            found.append(inner)
            stack.extend(inner.children)
        return found

    def may_run_never(self, body: Region) -> bool:
        """Whether the loop of a body may run zero times: tested at its head, of unknown trips."""
        loop = self.flow.loops[body.loop]
        leaves = any(not body.first <= self.place[each] < body.last for each in self.flow.successors[loop.head])
        return leaves and loop.least < 1


def find_regions(flow: Flow) -> Regions | None:
    """The regions of a flow, if it has any."""
    if len(flow.entries) != 1 or not all(loop.reducible for loop in flow.loops):
        return None
    return _Parser(flow).parse()


class _Unstructured(Exception):
    pass


class _Parser:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.joins = find_joins(flow.successors)
        self.heads = {loop.head: number for number, loop in enumerate(flow.loops)}
        self.text: list[int] = []
        self.place: dict[int, int] = {}
        self.region_of: dict[int, int] = {}
        self.regions: list[Region] = []
        self.depth: list[int] = []

    def parse(self) -> Regions | None:
        root = self.open(-1)
        try:
            self.sequence(self.flow.entries[0], -1, root, 0)
        except _Unstructured:
            return None
        self.close(root)
        return Regions(self.flow, tuple(self.regions), tuple(self.text), self.place, self.region_of, tuple(self.depth))

    def open(self, parent: int, loop: int = -1, branch: int = -1) -> int:
        number = len(self.regions)
        self.regions.append(Region(number, parent, loop, branch, first=len(self.text)))
        self.depth.append(self.depth[parent] + 1 if parent >= 0 else 0)
        if parent >= 0:
            self.regions[parent].children.append(number)
        return number

    def close(self, region: int) -> None:
        self.regions[region].last = len(self.text)

    def put(self, node: int, region: int) -> None:
        if node in self.place:
            raise _Unstructured
        self.place[node] = len(self.text)
        self.region_of[node] = region
        self.text.append(node)

    def sequence(self, node: int, stop: int, region: int, deep: int) -> bool:
        """Items from a node up to `stop`; whether it is reached. In a loop's body `stop` is the head."""
        if deep > DEEPEST:
            raise _Unstructured
        started = False
        while node != stop or (not started and node == self.start_of(region)):
            if node < 0:
                return False
            started = True
            loop = self.heads.get(node, -1)
            if loop >= 0 and loop != self.regions[region].loop:
                node = self.loop(loop, region, deep)
                continue
            self.put(node, region)
            following = self.flow.successors[node]
            if not following:
                return False
            if len(following) == 1:
                node = following[0]
            elif stop in following and self.leaves(node, region):
                return True
            else:
                node = self.branch(node, region, deep)
                if node == -1:
                    return False
        return True

    def start_of(self, region: int) -> int:
        """The head of a loop that is tested at its end starts its own body."""
        loop = self.regions[region].loop
        return self.flow.loops[loop].head if loop >= 0 and not self.tested_first(loop) else -1

    def inside(self, node: int, loop: int) -> bool:
        number = self.flow.loop_of[node]
        while number >= 0 and number != loop:
            number = self.flow.loops[number].parent
        return number == loop

    def tested_first(self, loop: int) -> bool:
        following = self.flow.successors[self.flow.loops[loop].head]
        return len(following) == 2 and self.inside(following[0], loop) != self.inside(following[1], loop)

    def leaves(self, node: int, region: int) -> bool:
        """Whether a node is the one that decides, at the end of a loop's body, whether it goes round again."""
        loop = self.regions[region].loop
        if loop < 0 or self.tested_first(loop) or len(self.flow.loops[loop].latches) != 1:
            return False
        return any(not self.inside(each, loop) for each in self.flow.successors[node])

    def loop(self, loop: int, parent: int, deep: int) -> int:
        """The body of a loop as a region; where it is left to."""
        head = self.flow.loops[loop].head
        region = self.open(parent, loop=loop)
        if self.tested_first(loop):
            self.put(head, region)
            one, other = self.flow.successors[head]
            body, after = (one, other) if self.inside(one, loop) else (other, one)
            self.sequence(body, head, region, deep + 1)
        else:
            if not self.sequence(head, head, region, deep + 1):
                raise _Unstructured
            outside = [each for each in self.flow.successors[self.text[-1]] if not self.inside(each, loop)]
            if len(outside) != 1 or self.region_of[self.text[-1]] != region:
                raise _Unstructured
            (after,) = outside
        self.close(region)
        return after

    def branch(self, node: int, region: int, deep: int) -> int:
        """The arms of a branch as regions; where they meet."""
        join = self.joins[node]
        following = list(dict.fromkeys(self.flow.successors[node]))
        going_on = following
        if join < 0:
            going_on = [each for each in following if not self.ends_soon(each, node)]
            if len(going_on) > 1:
                raise _Unstructured
        for each in following:
            if join < 0 and each in going_on:
                continue
            arm = self.open(region, branch=node)
            reached = self.sequence(each, join, arm, deep + 1)
            self.regions[arm].ends = not reached
            self.close(arm)
        return join if join >= 0 else going_on[0] if going_on else -1

    def ends_soon(self, start: int, branch: int) -> bool:
        """Whether nothing but the end of the wave comes of an arm, and only this branch leads to it."""
        seen, stack = {start}, [start]
        while stack:
            for successor in self.flow.successors[stack.pop()]:
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)
                    if len(seen) > LONGEST_EXIT:
                        return False
        return all(each in seen or each == branch for node in seen for each in self.flow.before[node])
