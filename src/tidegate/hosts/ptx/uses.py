"""What instructions of PTX do with registers, for `hosts.isa.gaps`.

Needs   the items of a function
Gives   `uses_of`
Keeps   whoever has a guard may leave its result as it was
Cost    linear
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.hosts.isa.gaps import Use
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.model import names_of
from tidegate.hosts.ptx.write import MEETINGS

# They set no register: their first operand is read.
_GIVE_NOTHING = frozenset(
    "st red bra brx bar barrier cp call ret exit trap membar fence prefetch prefetchu stmatrix mbarrier "
    "setmaxnreg nanosleep brkpt pmevent isspacep discard applypriority".split()
)
_FORGET = (*MEETINGS, "membar", "fence")  # compilers load again behind these


def uses_of(body: Sequence[p.Instruction | p.Label]) -> list[Use]:
    return [_use(each) if isinstance(each, p.Instruction) else Use() for each in body]


def _use(item: p.Instruction) -> Use:
    guarded = item.guard is not None
    stored = frozenset(names_of(item.operands[1:])) if item.opcode in ("st", "red") else None
    copied = tuple(names_of(item.operands[1:])) if item.opcode == "mov" else ()
    return Use(_gives(item), _takes(item), guarded, item.opcode in _FORGET and not guarded, stored, copied)


def _gives(item: p.Instruction) -> frozenset[str]:
    if item.opcode in _GIVE_NOTHING and "red" not in item.modifiers:
        return frozenset()
    return frozenset(names_of(each for each in item.operands[:1] if not isinstance(each, p.Address)))


def _takes(item: p.Instruction) -> frozenset[str]:
    own = (item.guard.register,) if item.guard is not None else ()
    addresses = [each for each in item.operands[:1] if isinstance(each, p.Address) or item.opcode in _GIVE_NOTHING]
    return frozenset((*own, *names_of(addresses), *names_of(item.operands[1:])))
