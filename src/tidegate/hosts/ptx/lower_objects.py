"""Barrier objects in shared memory (`mbarrier`) at which all threads of a block meet.

Needs   an instruction, the function around it, and the lowering that it belongs to
Gives   operations at objects: set up, arrive, wait for an arrival's own phase, track copies, end
Keeps   a form that is not known here is not modelled, and nothing is proved then. Whoever uses an object reads its
        eight bytes; whoever sets it up or ends it writes them
Cost    that of following a loop around a test once

Sections of the PTX ISA 9.0: 9.7.13.15 (mbarrier), 9.7.9.25.3 (cp.async.mbarrier.arrive).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.hosts.isa import model as m
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.lowering import Lowering
from tidegate.hosts.ptx.spins import find_spin, is_test
from tidegate.hosts.ptx.types import space_in

BYTES = 8
_SPACES = ("shared", "any")
_WEAK = {"relaxed", "cluster", "shared::cluster", "noComplete"}


def lower_object(
    out: Lowering, item: p.Instruction, body: Sequence[p.Instruction | p.Label], labels: Mapping[str, int]
) -> None:
    words, operands = item.modifiers, item.operands
    what = words[0] if words else ""
    if _WEAK.intersection(words) or space_in(words) not in _SPACES or "b64" not in words:
        out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True, touches=True)
    elif what == "init" and len(operands) == 2:
        _use(out, item, "init", operands[0], operands[1])
    elif what == "inval" and len(operands) == 1:
        _use(out, item, "end", operands[0])
    elif what == "arrive" and "expect_tx" not in words and len(operands) in (2, 3) and isinstance(operands[0], p.Name):
        result = operands[0].name if operands[0].name in out.registers else ""
        _use(out, item, "arrive", operands[1], operands[2] if len(operands) > 2 else None, result)
    elif is_test(item) and "parity" not in words and len(operands) >= 3:
        _wait(out, item, body, labels)
    else:
        out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True)


def track_copies(out: Lowering, item: p.Instruction) -> None:
    """The phase is not over before the copies of the thread so far are: without `noinc`, the arrival of these is one
    that is expected in addition."""
    if "noinc" in item.modifiers or len(item.operands) != 1 or space_in(item.modifiers) not in _SPACES:
        out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True)
    else:
        _use(out, item, "track", item.operands[0])


def _wait(
    out: Lowering, item: p.Instruction, body: Sequence[p.Instruction | p.Label], labels: Mapping[str, int]
) -> None:
    place = next(number for number, each in enumerate(body) if each is item)
    spun = find_spin(body, labels, place)
    if spun is None:
        out.opaque(item, f"`{item.mnemonic}` that is not repeated until the phase is over is not modelled", orders=True)
        return
    if kept := tuple(sorted(spun.intersection(out.registers))):
        out.guarded(m.Forget(kept, (), False))
    _use(out, item, "wait", item.operands[1], item.operands[2])
    for result in out.results(item):
        out.guarded(m.Logic(result, "copy", (m.Constant(1),)))


def _use(
    out: Lowering,
    item: p.Instruction,
    what: str,
    address: p.Operand,
    operand: p.Operand | None = None,
    result: str = "",
) -> None:
    if not isinstance(address, p.Address):
        out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True, touches=True)
        return
    at, given = out.operand(address.base), None if operand is None else out.operand(operand)
    effect = "write" if what in ("init", "end") else "read"
    told = (given,) if what == "init" and given is not None else ()
    touch = m.Touch(effect, at, address.offset, BYTES, space_in(item.modifiers), values=told)
    if what != "wait":
        out.guarded(touch)
    out.unguarded(m.UseObject(what, at, address.offset, given, result))
    if what == "wait":  # until the phase is over, and nothing may stand between the arrival and this
        out.guarded(touch)
