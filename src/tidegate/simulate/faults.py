"""What goes wrong while a kernel runs, as findings.

Needs   who runs which operation, and what is wrong with it
Gives   `SimulationError`, which carries a finding with the operation's place, the wave, and the values of its indices

TG022  inputs that do not fit the kernel       TG302  outside an array in global memory
TG221  no wave can go on                       TG304  a slot that a barrier object does not have
TG301  outside a buffer in shared memory       TG312  an index has no value, or lanes disagree where one is needed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tidegate.diag import Finding, Label, TidegateError
from tidegate.index import Cond, Index, names
from tidegate.language.ops import Op
from tidegate.simulate.values import Env, NoSlot, NoValue, PerLane

# So many comparisons take as long as a step.
COMPARED_A_STEP = 4


class SimulationError(TidegateError):
    """Raised where a run cannot go on; carries what to tell the user."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.code}: {finding.message}")
        self.finding = finding
        self.findings = (finding,)


@dataclass(slots=True)
class Budget:
    """Steps that a run may take; 0: as many as it needs. Comparing two accesses takes part of a step."""

    most: int = 0
    spent: int = 0
    compared: int = 0

    def step(self, name: str) -> None:
        self.spent += 1
        if self.most and self.spent + self.compared // COMPARED_A_STEP > self.most:
            help = "give smaller sizes, or allow more with `--max-steps`"
            raise unfit(f"a run of `@{name}` takes more than {self.most:,} steps", help)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who runs which operation, for messages."""

    op: Op
    env: Env

    def where(self) -> str:
        """`workgroup (1, 0), wave 2`."""
        groups = ", ".join(str(self.env.get(name, 0)) for name in ("wg0", "wg1", "wg2"))
        return f"workgroup ({groups}), wave {self.env['wave']}"

    def values(self, exprs: Iterable[Index | Cond]) -> str:
        """The values of the names in index expressions; nothing if there are none."""
        found = dict.fromkeys(chain.from_iterable(map(names, exprs)))
        shown = ", ".join(f"{name} = {_show(self.env.get(name))}" for name in found if name in self.env)
        return f"there {shown}" if shown else ""


def _show(value: object) -> str:
    match value:
        case PerLane(values):
            return f"{values.min()}..{values.max()} over the lanes"
        case np.ndarray():
            return "a tile"
    return str(value)


def outside(actor: Actor, code: str, message: str, label: str, facts: tuple[str, ...], help: str) -> SimulationError:
    notes = tuple(note for note in (actor.where(), *facts) if note)
    return SimulationError(Finding(code, message, (Label(actor.op.at, label),), notes, help))


def no_value(actor: Actor, reason: NoValue) -> SimulationError:
    label = (Label(actor.op.at, "evaluated here"),)
    if isinstance(reason, NoSlot):
        return SimulationError(Finding("TG304", str(reason), label, (actor.where(),)))
    return SimulationError(Finding("TG312", f"an index has no value: {reason}", label, (actor.where(),)))


def unfit(message: str, help: str = "") -> SimulationError:
    return SimulationError(Finding("TG022", message, help=help))
