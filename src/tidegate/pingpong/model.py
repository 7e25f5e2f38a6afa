"""What scheduling gives: candidates, each with its proof and its price, and the one that is taken.

Needs   the values of the stages
Gives   frozen values that the command line shows
Keeps   a candidate that is not declined is synchronized and proved
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.graph import model as g
from tidegate.language.ops import Kernel
from tidegate.scheduling.clusters import Arrangement
from tidegate.scheduling.model import Declined
from tidegate.session import Session


@dataclass(frozen=True, slots=True)
class Price:
    """One iteration of the loop, by the cost model."""

    cycles: float
    busy: float  # share of the time in which the matrix units work
    barriers: int
    slack: float  # cycles for which a wave waits for others at barriers


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy that is legal: the kernel, synchronized and proved, its text with reasons, and what it costs."""

    strategy: str
    session: Session = field(repr=False)
    text: str = field(repr=False)
    price: Price | None  # None: the cost model cannot follow it
    arrangement: Arrangement | None = field(default=None, repr=False)  # None: as it was
    notes: tuple[str, ...] = ()

    @property
    def kernel(self) -> Kernel:
        assert self.session.kernel is not None
        return self.session.kernel

    @property
    def graph(self) -> g.SyncGraph:
        return self.session.graph


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What came of it. `uncertain`: costs whose change by 30 % would change the choice."""

    asked: str
    chosen: Candidate | None
    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[str, Declined], ...]
    uncertain: tuple[str, ...] = ()

    @property
    def session(self) -> Session | None:
        """The chosen program, for other verbs to take."""
        return self.chosen.session if self.chosen is not None else None

    @property
    def kernel(self) -> Kernel | None:
        return self.chosen.kernel if self.chosen is not None else None

    @property
    def declined(self) -> Declined | None:
        """Why there is nothing, if there is nothing."""
        return self.refused[0][1] if self.chosen is None and self.refused else None

    @property
    def text(self) -> str:
        """The chosen kernel, with the reason of each line; empty if it was declined."""
        return self.chosen.text if self.chosen is not None else ""

    def __bool__(self) -> bool:
        """Whether there is a kernel, and it is proved. `auto` may have chosen the order as it was."""
        return self.chosen is not None and not self.chosen.notes

    def __str__(self) -> str:
        return self.text if self.chosen is not None else f"declined: {self.declined}"

    def _repr_html_(self) -> str:
        from tidegate.notebook import paragraph, text_block

        return text_block(self.text) if self.chosen is not None else paragraph(str(self), "warning")
