"""What there is to say about the synchronization of one program.

Needs   hazards, findings
Gives   frozen values: barriers with what they serve and what was tried; pairs that need no barrier of their own
Keeps   every claim names what it rests on: a finding of the judge, or a hazard whose window holds no barrier any more
Cost    constant
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tidegate.diag import Finding
from tidegate.graph import model as g
from tidegate.graph.barriers import Tally, tally
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard, Kind
from tidegate.passes import Checked
from tidegate.session import Session


class Verdict(Enum):
    """What became of a change."""

    BREAKS = "breaks"  # the judge finds what it did not find before
    OVERLOOKED = "overlooked"  # it finds nothing, but a hazard is no longer ordered: other sizes, or widened bytes
    UNORDERED = "unordered"  # not run; the verifier no longer finds an order for a pair that it had one for
    WINDOWS = "windows"  # not judged; a hazard is no longer ordered
    HOLDS = "holds"  # nothing goes wrong
    UNJUDGED = "unjudged"  # not judged; all hazards are still ordered
    CANNOT = "cannot"  # there is nothing to try, and `why` says why

    @property
    def is_wrong(self) -> bool:
        return self in (Verdict.BREAKS, Verdict.OVERLOOKED, Verdict.UNORDERED, Verdict.WINDOWS)


@dataclass(frozen=True, slots=True)
class Trial:
    """One change to one barrier. `findings` are those that the program does not have as it is."""

    question: str  # without | earlier | later | weaker | outside
    tried: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    hazards: tuple[Hazard, ...] = ()  # no longer ordered
    gone: tuple[Finding, ...] = ()  # that the program has as it is, and not with the change
    why: str = ""
    part: int = -1  # the point that was moved, of a barrier with several


@dataclass(frozen=True, slots=True)
class MoreSlots:
    """How many slots would save a barrier that only keeps iterations apart."""

    buffers: tuple[str, ...]
    have: tuple[int, ...]  # slots of each
    more: int | None  # so many more of each save it; None: none of those that were tried
    tried: int  # the most that were; 0: not even one fits
    bytes: int  # that one more of each takes
    fits: bool  # whether more than those that were tried would fit
    anew: bool = False  # whether something else has to wait for more then: what `sync` does

    @property
    def is_saved(self) -> bool:
        return self.more is not None


@dataclass(frozen=True, slots=True)
class Barrier:
    """Synchronization that belongs together: one operation, a split pair, a stagger, or a barrier object."""

    kind: str
    points: tuple[int, ...]
    weight: float  # how often it is executed
    tally: Tally  # the barriers that it counts for: none if it is a wait, a fence, a stagger or an mbarrier
    loop: str  # the loop around all of it, by its counter; empty: none
    pinned: bool
    serves: tuple[Hazard, ...]
    trials: tuple[Trial, ...]
    instead: tuple[int, ...]  # points that order what it serves if it is not there
    too_weak: tuple[Hazard, ...] = ()  # it stands between their ends and does not order them
    more_slots: MoreSlots | None = None  # None: it is for something else, or nobody can say
    held: bool = False  # it may order what no graph says: accesses to global memory

    @property
    def without(self) -> Trial:
        return next(each for each in self.trials if each.question == "without")

    @property
    def is_needed(self) -> bool:
        return self.without.verdict.is_wrong


class Reason(Enum):
    """Why a pair of accesses needs no barrier of its own, or has none."""

    ORDERED = "ordered by a barrier that serves another pair"
    DISTANCE = "iterations apart, with a barrier in between"
    SLOT = "they are in different slots"
    PRIVATE = "each lane touches only its own bytes, in program order"
    ONE_WAVE = "one wave does both, each lane on its own bytes, in program order"
    BYTES = "they touch different bytes"
    ARMS = "only one of two arms is taken"
    COMMUTE = "atomics that commute"
    OBJECT = "left to the barrier objects between them; the judge finds no race"
    QUIET = "not every window between them holds a barrier; the judge finds no race"
    UNORDERED = "nothing orders them"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses of one buffer, in this order, and why no barrier stands for them."""

    reason: Reason
    kind: Kind | None  # None: atomics that commute
    buffer: str
    producer: int  # nodes
    consumer: int
    loop: int  # -1: in one iteration
    distances: tuple[int, int | None] | None  # iterations between them, from and to; None: no end
    by: tuple[int, ...] = ()  # points of the barriers that order them
    why: str = ""
    hazard: Hazard | None = None

    @property
    def ends(self) -> tuple[int, int]:
        return self.producer, self.consumer


@dataclass(slots=True)
class Explained:
    """One program. `why_not`: why there is nothing to say."""

    unit: Session
    findings: list[Finding]  # of the program as it is
    graph: g.SyncGraph | None = None
    hazards: Hazards | None = None
    barriers: tuple[Barrier, ...] = ()
    pairs: tuple[Pair, ...] = ()
    checked: Checked | None = None
    listing: str = ""  # the graph as text, if it came without lines: those are the lines that are spoken of
    notes: list[str] = field(default_factory=list)
    why_not: str = ""

    @property
    def text(self) -> str:
        """All of it, as `tidegate explain` prints it."""
        from tidegate.diag import Sources
        from tidegate.explanation.show import show_explained

        return show_explained(self, Sources())

    def __bool__(self) -> bool:
        """Whether the program is proved as it is."""
        from tidegate.decided import is_right
        from tidegate.passes import check_session

        found = (*self.findings, *(self.checked.findings if self.checked is not None else ()))
        if any(each.severity == "error" for each in found):
            return False
        # `checked` is about the graph alone: what its host says of the program (test_verbs, TTGIR) is asked for here.
        return is_right(check_session(self.unit))

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The same, for a notebook."""
        from tidegate.notebook import text_block

        return text_block(self.text)

    @property
    def tally(self) -> Tally:
        """Of all its barriers."""
        assert self.graph is not None
        return tally(self.graph)

    def line(self, point: int) -> int:
        assert self.graph is not None
        return self.graph.points[point].at.line
