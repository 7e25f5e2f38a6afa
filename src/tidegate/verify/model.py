"""What the verifier says of a program.

Needs   nothing of the rest
Gives   `Verification`: proved, or suspects with witnesses, or why it could not be decided
Keeps   frozen
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.verify.asked import Point
from tidegate.verify.paths import Iterations


@dataclass(frozen=True, slots=True)
class Suspect:
    """Two accesses that nothing orders, as far as can be told; x comes first in program order, if either does.

    `why`: unmet (no barrier between them), undrained (x may be in flight when its wave arrives), unfenced (no fence
    between the proxies), parallel (there is no program order). `exact`: nothing on the way to the witness was widened.
    """

    x: int  # points
    y: int
    why: str
    within_a_wave: bool
    nodes: tuple[int, int]
    iterations: Iterations
    point: Point
    straight: bool  # whether neither the path nor the footprints were widened

    @property
    def exact(self) -> bool:
        return self.straight and self.point.sure


@dataclass(frozen=True, slots=True)
class Verification:
    """`undecided` says why not everything was asked; then suspects are those found by then, and nothing is proved."""

    suspects: tuple[Suspect, ...] = ()
    undecided: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()  # accesses that may leave their buffers: nothing is known of the bytes they touch
    shows: tuple[tuple[str, int], ...] = ()  # sizes with which what is undecided may be seen to be wrong
    doubts: tuple[str, ...] = ()  # what else may go wrong: places that cannot be computed, paths without an end
    by_path: bool = False  # loops with several ways in were followed along all their paths
    accesses: int = 0
    classes: int = 0
    questions: int = 0
    queries: int = 0
    leans_on_lanes: bool = False  # whether two accesses of a wave are kept apart by which lane touches which byte
    lanes_part: bool = False  # whether lanes may go apart where the graph does not say so
    visits: int = 0  # steps back along paths
    cut_short: str = ""  # the bound at which no further suspects were looked for

    def is_for_runs(self, suspect: Suspect, some_lanes_end: bool) -> bool:
        """Whether runs that do not show a suspect refute it: they go one way for all lanes of a wave."""
        apart = suspect.why == "parallel" or self.lanes_part or some_lanes_end
        return not (suspect.within_a_wave and apart)

    @property
    def is_proved(self) -> bool:
        """No race, no inversion, no hang, in any run, and every access stays in its buffer."""
        return self.is_ordered and not self.outside

    @property
    def is_ordered(self) -> bool:
        """The same of accesses that stay in their buffers: whether they do, synchronization does not change."""
        return not self.suspects and not self.undecided
