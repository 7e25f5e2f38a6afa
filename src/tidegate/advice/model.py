"""What can be less, and who says so.

Needs   findings
Gives   `Proof`; `Less`, one piece of advice; `Advice` for one program
Keeps   frozen, but for what is gathered in `Advice`
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.diag import Finding
from tidegate.language.ops import SyncOp
from tidegate.placement.pieces import Piece


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a changed program is as good as it was. `by`: verifier or simulator."""

    by: str
    text: str


@dataclass(frozen=True, slots=True)
class Less:
    """One piece of advice. `op`: what is enough, None for nothing at all; `more`: of a count, the next that is not."""

    code: str
    piece: Piece
    proof: Proof
    op: SyncOp | None = None
    what: str = ""  # what it does that nothing needs
    more: str = ""
    or_else: tuple[Piece, ...] = ()  # what could go in its place, but not beside it
    along: tuple[Piece, ...] = ()  # what it takes to go as well


@dataclass(slots=True)
class Advice:
    """Of one program. `why_not`: why there is none to give."""

    findings: list[Finding] = field(default_factory=list)
    less: list[Less] = field(default_factory=list)
    trials: int = 0
    left_out: int = 0  # changed programs that a bound kept from being tried
    held: int = 0  # barriers and waits that may order global memory
    waits: str = ""  # why nothing is said of the waits of assembly
    why_not: str = ""

    @property
    def said(self) -> str:
        """What was tried, in a line."""
        if self.why_not:
            return f"advice: none, {self.why_not}"
        found = len(self.findings)
        tried = f"tried {self.trials} modified program{'s' * (self.trials != 1)}"
        found_text = f"{found} piece{'s' * (found != 1)}" if found else "no barrier or wait can be reduced"
        skipped = f", skipped {self.left_out}" if self.left_out else ""
        held = f"; {self.held} may order global memory and {'were' if self.held != 1 else 'was'} not tried"
        waits = f"; waits stay as they are: {self.waits}" if self.waits else ""
        return f"advice: {found_text}; {tried}{skipped}{held if self.held else ''}{waits}"
