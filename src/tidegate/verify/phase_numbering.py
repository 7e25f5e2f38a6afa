"""What is known of the numbers of phases, by slot and generation or by tile and place in there.

Needs   relations
Gives   `BySlot` and `ByTile`: the next phase of the same slot, those before it, those that are not over at the start;
        statements whose slot or parity is not that of their phase
Keeps   with rounds known by tile, those before a round include all that are for its slot
Cost    some questions to isl for each statement
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import islpy as isl

from tidegate.verify.phase_model import Instant
from tidegate.verify.phase_relations import Relations
from tidegate.verify.phase_space import Space
from tidegate.verify.phase_statements import WAITS, ObjectUseAt, SyncObject


@dataclass(frozen=True, slots=True)
class BySlot:
    """Phases of an object as `[object, slot, generation]`."""

    relations: Relations
    barrier: SyncObject

    @property
    def space(self) -> Space:
        return self.relations.space

    @property
    def next(self) -> Any:
        return self.space.read_map("{ [o, s, g] -> [o, s, g + 1] }")

    @property
    def before(self) -> Any:
        """Phases of the same slot, from the first one on."""
        return self.space.read_map("{ [o, s, g] -> [o, s, h] : 0 <= h < g }")

    @property
    def open(self) -> Any:
        """Phases that are not over at the start."""
        return self.space.read_set("{ [o, s, g] : g >= 0 }")

    def has_slot(self, each: ObjectUseAt) -> bool:
        inside = self.space.read_set(f"{{ [o, s, g] : 0 <= s < {self.barrier.slots} }}")
        return bool(self.relations.phase(each).range().is_subset(inside))

    def is_there(self, each: ObjectUseAt) -> bool:
        """Whether there is such a phase: one waits for the one before the first as well."""
        least = -1 if each.kind == WAITS and self.barrier.by_parity else 0
        phases = self.space.read_set(f"{{ [o, s, g] : g >= {least} }}")
        return bool(self.relations.phase(each).range().is_subset(phases))

    def has_parity(self, wait: ObjectUseAt) -> bool:
        return bool(self.wrong_parity(wait).is_empty())

    def wrong_parity(self, wait: ObjectUseAt) -> Any:
        """The moments at which it waits with the parity of another phase."""
        space = self.space
        text = space.text(space.paths.around[wait.node])
        parity = space.closed(text, f"(g - {text.index(wait.parity)}) mod 2 = 0")
        right = space.read_map(f"{{ {space.named(Instant(wait.role, wait.node))} -> [o, s, g] : {parity} }}")
        return self.relations.phase(wait).subtract(right).domain()


@dataclass(frozen=True, slots=True)
class ByTile:
    """Rounds of an object as `[object, tile, place in there]`. A round's slot is what is left of its number."""

    relations: Relations
    barrier: SyncObject

    @property
    def space(self) -> Space:
        return self.relations.space

    @property
    def size(self) -> str:
        assert self.space.counting is not None
        return self.space.text(()).index(self.space.counting.size)

    @property
    def most(self) -> int:
        assert self.space.counting is not None
        return self.space.counting.most

    @property
    def next(self) -> Any:
        """As many rounds later as there are slots."""
        steps = (
            f"(u = t + {more} and l = k + {self.barrier.slots} - {more} * {self.size})" for more in range(self.most + 1)
        )
        inside = f"0 <= k < {self.size} and 0 <= l < {self.size}"
        return self.space.read_map(f"{{ [o, t, k] -> [o, u, l] : {inside} and ({' or '.join(steps)}) }}")

    @property
    def before(self) -> Any:
        """All rounds before a round, from the first one on: more than those of its slot."""
        order = "u < t or (u = t and l < k)"
        return self.space.read_map(f"{{ [o, t, k] -> [o, u, l] : 0 <= u and 0 <= l < {self.size} and ({order}) }}")

    @property
    def open(self) -> Any:
        return self.space.read_set("{ [o, t, k] : t >= 0 }")

    def has_slot(self, each: ObjectUseAt) -> bool:
        slots = self.barrier.slots
        return self.never(
            each, lambda number, slot, _: f"{slot} < 0 or {slot} >= {slots} or ({number} - {slot}) mod {slots} != 0"
        )

    def is_there(self, each: ObjectUseAt) -> bool:
        least = self.barrier.slots if each.kind == WAITS else 0
        ways = [f"(t = -{back} and k - {back} * {self.size} >= -{least})" for back in range(1, self.most + 1)]
        phases = self.space.read_set(f"{{ [o, t, k] : t >= 0 or {' or '.join(ways)} }}")
        return bool(self.relations.phase(each).range().is_subset(phases))

    def has_parity(self, wait: ObjectUseAt) -> bool:
        slots = self.barrier.slots
        return self.never(wait, lambda number, _, parity: f"(floor(({number})/{slots}) - {parity}) mod 2 != 0")

    def wrong_parity(self, _: ObjectUseAt) -> None:
        """Not said: the moments are known only with the numbers that are carried."""

    def never(self, each: ObjectUseAt, wrong: Any) -> bool:
        """Whether something is never so, whatever the numbers are that are carried."""
        space, formula = self.space, self.relations.formulas[each]
        assert space.counting is not None
        assert not isinstance(formula, str)
        carried = {name: f"x{place}" for place, name in enumerate(space.counting.lines)}
        text = space.text(space.paths.around[each.node], more=carried)
        parity = text.index(each.parity) if each.parity is not None else "0"
        body = space.closed(text, wrong(text.index(formula), text.index(each.slot), parity))
        own = ", ".join([f"i{place}" for place in range(len(space.paths.around[each.node]))])
        more = ", ".join(carried.values())
        domain = each.domain.add_dims(isl.dim_type.set, len(carried)).intersect_params(self.relations.known)
        return bool(
            space.read_set(f"{{ [{', '.join(filter(None, (own, more)))}] : {body} }}").intersect(domain).is_empty()
        )
