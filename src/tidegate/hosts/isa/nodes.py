"""What exploration gives: pieces of a program with everything about threads decided.

Needs   index expressions
Gives   `Node`s with steps and where they lead; what could not be modelled, with its place
Keeps   a step's places are a number for each thread plus an index that all threads share
Cost    a step holds one array
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.hosts.isa.model import Op
from tidegate.index import Cond, Index

# Where instructions are those of waves: which waves come to a step. None: all; empty: nobody knows which.
Waves = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Access:
    """An access to one array. `starts`: the first byte for each thread, None for those that do not take part."""

    op: Op
    array: str
    starts: tuple[int | None, ...]
    plus: Index
    bytes: int
    may: bool
    widened: bool = False
    as_one: bool = False  # threads that write the same bytes write the same values
    waves: Waves = None
    counts: bool = True  # whether no other step of the same instruction counts
    token: str = ""  # the name of a copy that a barrier object tracks: its phase is not over before the copy is


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block meet, or those of these waves. `part`: of two, "arrive" or "depart"."""

    op: Op
    part: str = ""
    waves: Waves = None
    object: str = ""  # a barrier object in memory that the threads wait for
    token: int = 0  # which arrival the wait is for


@dataclass(frozen=True, slots=True)
class SetsUp:
    """A barrier object begins or ends."""

    op: Op
    object: str


@dataclass(frozen=True, slots=True)
class Arrives:
    """All threads arrive at a barrier object; the wait is the barrier."""

    op: Op
    object: str
    token: int


@dataclass(frozen=True, slots=True)
class Issues:
    """An instruction that counts and touches no shared memory."""

    op: Op
    counter: str
    waves: Waves = None


@dataclass(frozen=True, slots=True)
class CountedWait:
    op: Op
    counts: tuple[tuple[str, int], ...]
    waves: Waves = None


@dataclass(frozen=True, slots=True)
class Fence:
    """The lanes of these waves meet; None: of all."""

    op: Op
    waves: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Commit:
    """Threads close their groups of copies. `threads`: those that do for sure; None: all."""

    op: Op
    threads: tuple[bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class WaitGroups:
    op: Op
    count: int
    threads: tuple[bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProxyOrder:
    op: Op
    waves: Waves = None


Step = Access | Barrier | SetsUp | Arrives | Issues | Fence | ProxyOrder | Commit | WaitGroups | CountedWait
Assigned = tuple[tuple[str, Index], ...]


@dataclass(slots=True)
class Edge:
    """To another node, by its number; names take values on the way."""

    node: int
    assigned: Assigned = ()


@dataclass(slots=True)
class Node:
    """Steps, then a choice: with two edges the first is taken if the condition holds. None: either."""

    block: int
    steps: list[Step] = field(default_factory=list)
    cond: Cond | None = None
    edges: list[Edge] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong or not modelled. `code`: of a finding that is certain; empty: nothing is proved beside it."""

    op: Op
    text: str
    code: str = ""


@dataclass(slots=True)
class Explored:
    nodes: list[Node]
    names: list[str]  # symbols that edges assign
    problems: dict[Problem, None]
    notes: dict[Problem, None]  # what was taken for more than it may be
    touches: int = 0  # instructions that touch shared memory, and those of them of which every place is exact
    exact: int = 0
    states: int = 0
    attempts: int = 1
    tiles: set[int] = field(default_factory=set)  # how many lanes meet at warp barriers; 0: not all of any group
    uses_free: set[str] = field(default_factory=set)
    copied: dict[int, Op] = field(default_factory=dict)  # writes of the same bytes by threads not known to agree
    doubled: dict[int, Op] = field(default_factory=dict)  # writes in which lanes of a wave write the same bytes
    apart: dict[int, bool] = field(default_factory=dict)  # block → whether some threads may be elsewhere, or have ended
    arrivals: dict[str, set[int | None]] = field(default_factory=dict)  # barrier object → how many it is set up for
    tracked: dict[str, set[str]] = field(default_factory=dict)  # barrier object → the names of copies that it tracks
    parts_wait: bool = False  # some threads close groups of copies or wait for them where others do not
