"""What threads do at barrier objects in memory, as steps of nodes.

Needs   the values of addresses and operands, and the threads that take part
Gives   steps, or why there is none; a number for each arrival, by which a wait knows what it is for
Keeps   an arrival or a wait is that of all threads of a block of several waves. Copies that an object tracks have names
        of their own, since one who goes back past a copy of a name knows nothing of older ones
Cost    linear in the threads
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.hosts.isa import model as m
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.states import Mask, State
from tidegate.hosts.isa.values import Value

OF_ARRIVALS = 1 << 40  # where the numbers of arrivals begin, so that they are no addresses


@dataclass(slots=True)
class ObjectUses:
    threads: int
    lanes: int
    arrays: Mapping[str, m.Array]
    out: n.Explored
    numbers: dict[object, int] = field(default_factory=dict)

    def number_of(self, op: m.Op) -> int:
        return OF_ARRIVALS + self.numbers.setdefault(id(op), len(self.numbers))

    def use(
        self, op: m.Op, action: m.UseObject, address: Value, given: Value | None, mask: Mask, state: State
    ) -> n.SetsUp | n.Arrives | n.Barrier | str:
        """A step; or why that cannot be said."""
        homes = address.tags & self.arrays.keys()
        here = address.base[mask.may] + action.offset
        if not address.is_number or len(homes) != 1 or address.tags != homes or (here != here[0]).any():
            return "which barrier object is meant cannot be computed"
        (array,) = homes
        name = f"{array}_{int(here[0]) - self.arrays[array].base}"
        known = given is not None and given.is_number and given.is_uniform
        number = int(given.base[0]) if given is not None and known else None
        if action.what in ("init", "end", "track"):
            if action.what == "init":
                self.out.arrivals.setdefault(name, set()).add(number)
            return n.SetsUp(op, name)
        if not (mask.whole and state.root.sure.all() and self.threads > self.lanes):
            return "a barrier object for some of the block's threads, or for a single warp, is not modelled"
        if action.what == "arrive":
            if action.operand is not None and number != 1:
                return "an arrival that may count for several is not modelled"
            return n.Arrives(op, name, self.number_of(op))
        return n.Barrier(op, "", None, name, number or 0)

    def track(self, name: str, mask: Mask, node: n.Node) -> None:
        """The copies of this piece of code that these threads have issued, and that no object tracks yet."""
        for place, step in enumerate(node.steps):
            if isinstance(step, n.Access) and isinstance(step.op.action, m.Touch) and step.op.action.is_async:
                copying = np.array([each is not None for each in step.starts])
                if not step.token and not step.op.action.queue and not (copying & ~mask.sure).any():
                    token = f"%copy{self.numbers.setdefault((id(step.op), step.array, name), len(self.numbers))}"
                    node.steps[place] = replace(step, token=token)
                    self.out.tracked.setdefault(name, set()).add(token)
