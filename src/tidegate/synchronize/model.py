"""What `sync` is asked for, and what comes of it.

Needs   the values of the stages
Gives   `SyncOptions`, and `Synchronized` for one program, before and after
Keeps   options that mean nothing are refused before anything is done
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.diag import BadInput, Finding, Span, closest, findings_to_html
from tidegate.graph import model as g
from tidegate.graph.plan import Plan
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Unplaced
from tidegate.language.ops import Kernel
from tidegate.passes import Checked
from tidegate.placement.place import STRATEGIES, Placed
from tidegate.session import Session
from tidegate.simulate.judge import Judgement

if TYPE_CHECKING:
    from tidegate.hosts.isa.edits import TextEdit

# Atomics that leave the same in any order: left as they are, or ordered like other accesses.
ATOMICS = ("commute", "order")


# Whether a wait may move earlier for the sake of a barrier: where the cost model says that it pays; not at all; always.
MERGE_WAITS = ("model", "never", "always")


AS_WRITTEN = "not proved as written"
MOST_STAGGER = 1_000  # arrivals: each is a copy of every question


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """What to do, and how far to look afterwards."""

    strategy: str = ""
    atomics: str = "commute"
    stagger: int = 0
    remove_redundant: bool = False
    tighten_waits: bool = False
    merge_waits: str = "model"  # whether a wait may move before a barrier that could then serve for two
    async_deps: bool = False  # name what waits are for, as values
    force_barriers: bool = False
    bisect: int | None = None  # carry out only so many edits
    judge: bool = True
    seconds: float = 20.0  # that the strategy `optimal` may take
    least: bool = True  # ask the verifier for fewer barriers than the hazards ask for
    loosen: bool = True  # counts as far as they are proved; else as far as walks show

    def check(self) -> None:
        """Raises `BadInput` for what has no meaning."""
        if self.strategy and self.strategy not in STRATEGIES:
            meant = closest(self.strategy, STRATEGIES)
            help = f"did you mean `{meant}`?" if meant else f"one of: {', '.join(STRATEGIES)}"
            _refuse(f"there is no strategy `{self.strategy}`", help)
        if self.atomics not in ATOMICS:
            _refuse(f"atomics cannot be `{self.atomics}`", "`commute` or `order`")
        if self.merge_waits not in MERGE_WAITS:
            _refuse(f"waits cannot be merged `{self.merge_waits}`", f"one of: {', '.join(MERGE_WAITS)}")
        if not 0 <= self.stagger <= MOST_STAGGER:
            _refuse(f"a stagger cannot be {self.stagger}", f"0 to {MOST_STAGGER} arrivals")
        if self.bisect is not None and self.bisect < 0:
            _refuse(f"cannot apply {self.bisect} edits", "0 or more")
        if not self.seconds > 0:
            _refuse(f"a time limit cannot be {self.seconds:g} seconds", "more than 0")
        if self.force_barriers and (self.strategy or self.remove_redundant or self.tighten_waits):
            _refuse("forced barriers precede every access: no strategy applies, and nothing is redundant")


def _refuse(message: str, help: str = "") -> None:
    raise BadInput(Finding("TG022", message, (), help=help))


@dataclass(slots=True)
class Synchronized:
    """One program, before and after. `why_not`: why there is nothing after."""

    unit: Session
    options: SyncOptions
    findings: list[Finding]  # of the program as it was given, without running it
    hazards: Hazards | None = None
    placed: Placed | None = None  # None where barriers were forced
    plan: Plan = field(default_factory=Plan)
    left_out: int = 0  # edits that `bisect` left out
    refined: bool = False  # whether edits were taken back that the verifier proves redundant
    graph: g.SyncGraph | None = None  # as it was given; None: it has no meaning
    made: Session | None = None  # the program with the plan carried out
    places: dict[Span, Span] = field(default_factory=dict)  # from what was given to what was written
    judged: Judgement | None = None  # as it was given, where placement asked
    checked: Checked | None = None
    explained: tuple[Unplaced, ...] = ()  # conflicts that findings speak of
    notes: tuple[str, ...] = ()
    why_not: str = ""
    doubt: str = ""  # why the text that was written is not the program that was planned
    listing: str = ""  # what was inserted, for a program without text
    edits: tuple[TextEdit, ...] = ()  # of final instructions, which no plan of points says
    refused: Mapping[frozenset[Span], str] = field(default_factory=dict)  # races, and why nothing is put in there
    given: str = ""  # the text of the file that it comes from, which `text` edits

    @property
    def session(self) -> Session | None:
        """The program after, for other verbs to take."""
        return self.made

    @property
    def after(self) -> g.SyncGraph | None:
        return self.made.graph if self.made is not None else None

    @property
    def kernel(self) -> Kernel | None:
        """The program after, if it was a kernel."""
        return self.made.kernel if self.made is not None else None

    @property
    def text(self) -> str:
        """The program after, each edit with its reason; empty if there is none."""
        from tidegate.synchronize.written import write_programs

        if self.made is None or self.listing:
            return self.listing
        return write_programs([self], self.given)

    def __bool__(self) -> bool:
        """Whether the result is proved, as its text says it. A result that was not judged is not."""
        from tidegate.decided import is_right

        return self.made is not None and not self.doubt and is_right(self.checked)

    def __str__(self) -> str:
        return self.text or self.why_not

    def _repr_html_(self) -> str:
        """The program after with new lines marked, and what is proved, for a notebook."""
        from tidegate.decided import show_decided
        from tidegate.graph.show import show_graph
        from tidegate.language.show import show
        from tidegate.notebook import new_lines, paragraph, text_block

        if self.made is None:
            return paragraph(self.why_not) + findings_to_html(self.findings)
        own = show(self.unit.kernel) if self.unit.kernel is not None else show_graph(self.unit.graph)
        before = (self.given or own) if self.edits else own
        block = text_block(self.text, new_lines(before, self.text))
        if self.doubt:
            return block + paragraph(f"{AS_WRITTEN}: {self.doubt}", "error")
        if self.checked is None:
            return block + paragraph("not judged")
        wrong = any(each.severity == "error" for each in self.checked.findings)
        kind = "error" if wrong else "good" if self.checked.is_proved else "warning"
        said = paragraph(show_decided(self.checked), kind)
        return block + said + (findings_to_html(self.checked.findings) if self.checked.findings else "")
