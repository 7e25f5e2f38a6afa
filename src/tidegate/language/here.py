"""What holds at a place of a kernel: conditions on names, ranges of them, and what they stand for.

Needs   a kernel
Gives   `Here`: what holds at the start, and with it what holds under more conditions
Keeps   frozen but for `ranges`, which the walk that owns it fills; `known` says whether all conditions were followed
Cost    constant for each condition; a name is replaced as often as names of `let` stand for one another
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.index import WAVE, WORKGROUP, ZERO, Compare, Cond, Const, Index, Name, substitute, why_not_affine
from tidegate.language.ops import Kernel
from tidegate.language.ranges import ANY, Range, range_of
from tidegate.language.types import FLAG


@dataclass(frozen=True, slots=True)
class Here:
    """What holds at a place: conditions on names, their ranges, and whether all of it is known."""

    conds: tuple[Cond, ...]
    ranges: dict[str, Range]
    order: tuple[str, ...]
    replaced: dict[str, Index]
    known: bool = True

    def under(self, *conds: Cond) -> Here:
        return replace(self, conds=(*self.conds, *conds))

    def plain(self, index: Index) -> Index:
        """The index with names of `let` replaced by what they stand for."""
        for _ in range(100):
            new = substitute(index, self.replaced)
            if new == index:
                break
            index = new
        return index


def at_start(kernel: Kernel) -> Here:
    """What holds everywhere: sizes are positive, and which waves and workgroups there are."""
    ranges: dict[str, Range] = {WAVE: (0, kernel.waves - 1)}
    conds: list[Cond] = [cond for cond in kernel.where if not why_not_affine(cond)]
    for size in kernel.sizes:
        ranges[size.name] = (1, ANY[1])
        conds.append(Compare(">=", Name(size.name), Const(1)))
    for axis, name in enumerate(WORKGROUP):
        extent = kernel.grid[axis] if axis < len(kernel.grid) else Const(1)
        ranges[name] = (0, range_of(extent, ranges)[1] - 1)
        if not why_not_affine(extent):
            conds += [Compare(">=", Name(name), ZERO), Compare("<", Name(name), extent)]
    conds += [Compare(">=", Name(WAVE), ZERO), Compare("<", Name(WAVE), Const(kernel.waves))]
    order = (*(size.name for size in kernel.sizes), *WORKGROUP, WAVE)
    for arg in kernel.args:
        if arg.type == FLAG:
            ranges[arg.name] = (0, 1)
    return Here(tuple(conds), ranges, order, {})
