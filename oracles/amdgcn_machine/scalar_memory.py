"""Scalar loads.

Needs   an instruction
Gives   `compile_scalar_memory`: how a wave issues it, with its operands
Keeps   scalar loads come back in no order, so only a wait for zero makes one certain
Cost    nothing

Source: CDNA 3 ISA §4.4 and RDNA 4 ISA §5.6: "scalar memory reads can return out of order".
"""

from __future__ import annotations

import re

import numpy as np

from oracles.amdgcn_machine.access import Issue, Place, begin, unknown
from oracles.amdgcn_machine.counters import Access
from oracles.amdgcn_machine.operands import Operand, parse
from oracles.amdgcn_machine.scalar import read_scalar
from oracles.amdgcn_machine.text import Instruction
from oracles.amdgcn_machine.wave import Wave

NAME = re.compile(r"^s_load_(?:dword(?:x(\d+))?|b(\d+))$")
HINTS = {"glc", "dlc", "nv", "offset", "scope", "th"}


def compile_scalar_memory(one: Instruction) -> tuple[Issue, list[Operand]]:
    found = NAME.match(one.name)
    if not found or one.modifiers.keys() - HINTS:
        raise unknown(one)
    words = int(found[2]) // 32 if found[2] else int(found[1] or 1)
    to, base, where = operands = [parse(each) for each in one.operands]
    more, offset = read_scalar(where), int(one.modifiers.get("offset", "0"), 0)

    def issue(wave: Wave, place: Place) -> Access:
        address = wave.scalar64(base.scalar) + more(wave) + offset & ~3
        places = place.memory.places(np.array([address], np.int64), 4 * words)[0]

        def perform() -> None:
            for number, value in enumerate(place.memory.bytes[places].view(np.uint32)):
                wave.put_scalar(to.scalar + number, int(value))

        return begin(one, "scalar", place, perform, registers=tuple(range(to.at, to.at + words)))

    return issue, operands
