"""Where a block of threads stands: who runs, what registers hold, who waits where ways meet again.

Needs   values
Gives   `Mask`, `Arm`, `Frame` and `State`, with keys by which equal states are one
Keeps   frozen. Threads wait at joins for evaluation only: nothing is ordered by that
Cost    a key is linear in the threads and the live registers

A branch on which threads disagree is run one arm after the other. A `Frame` holds the arms that are still to run, and
what has come to the join.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tidegate.hosts.isa.alike import merge_alike
from tidegate.hosts.isa.values import Held, Truths

Registers = Mapping[str, Held]


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Threads that may be here, and those that are for sure. `whole`: all that have not ended are here."""

    may: Truths
    sure: Truths
    whole: bool = False
    key: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.may.tobytes(), self.sure.tobytes(), self.whole))

    @property
    def is_exact(self) -> bool:
        return bool((self.may == self.sure).all())

    def within(self, true: Truths, known: Truths) -> Mask:
        """Those for which a truth holds, or may hold."""
        may, sure = self.may & (true | ~known), self.sure & true & known
        return Mask(may, sure, self.whole and not bool((self.may & ~(true & known)).any()))

    def without(self, gone: Mask) -> Mask:
        """Those that remain if some end."""
        return Mask(self.may & ~gone.sure, self.sure & ~gone.may, self.whole)

    def joined(self, other: Mask) -> Mask:
        return Mask(self.may | other.may, self.sure | other.sure)


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """Threads that stand before a block."""

    block: int
    mask: Mask
    registers: Registers

    @property
    def key(self) -> Any:
        return (self.block, self.mask.key, keys_of(self.registers))


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A branch on which threads disagree, `parent` all of them. Those that came to the join are in `done`."""

    join: int
    branch: int
    parent: Mask
    waiting: tuple[Arm, ...]
    done: Arm | None = None

    @property
    def key(self) -> Any:
        done = None if self.done is None else self.done.key
        # Which registers are one number for all arms depends on the branch.
        return (self.join, self.branch, self.parent.key, tuple(each.key for each in self.waiting), done)

    def arrive(self, arm: Arm, changed: Container[str]) -> Frame:
        """With an arm that has come to the join. `changed`: registers that arms set."""
        return replace(self, done=arm if self.done is None else join_arms(self.done, arm, changed))


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What runs now, and the frames around it, the outermost first."""

    arm: Arm
    frames: tuple[Frame, ...] = ()

    @property
    def key(self) -> Any:
        return (self.arm.key, tuple(each.key for each in self.frames))

    @property
    def root(self) -> Mask:
        """All threads that have not ended."""
        return self.frames[0].parent if self.frames else self.arm.mask

    @property
    def is_whole(self) -> bool:
        """Whether every thread that has not ended is here."""
        return self.arm.mask.whole or not (self.root.may & ~self.arm.mask.sure).any()


def join_arms(one: Arm, other: Arm, changed: Container[str]) -> Arm:
    """What two arms hold. An unknown that arms share is one number only where no arm has set it since they parted."""
    registers: dict[str, Held] = {}
    for name, held in one.registers.items():
        theirs = other.registers.get(name)
        if name not in changed and (theirs is None or theirs == held):
            registers[name] = held
        elif theirs is not None:
            registers[name] = merge_alike(one.mask.may, held, other.mask.may, theirs)
    return Arm(one.block, one.mask.joined(other.mask), registers)


def keys_of(registers: Registers) -> Any:
    return tuple((name, held.key) for name, held in sorted(registers.items()))


def only(registers: Registers, names: Iterable[str]) -> Registers:
    """Of the registers those that are still needed."""
    return {name: registers[name] for name in names if name in registers}


def everybody(threads: int) -> Mask:
    return Mask(np.ones(threads, bool), np.ones(threads, bool), True)
