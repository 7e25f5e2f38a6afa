"""Which waves a condition on the thread's number is true for.

Needs   the scalars of a function, and a condition in it
Gives   `low` or `high`, the half of the waves; None if it is anything else
Keeps   the condition is computed for every thread: a wave whose lanes disagree is no answer
Cost    one evaluation for each wave and lane, of a few operations

    %t = rocdl.workitem.id.x;  %h = arith.divsi %t, %c256;  %c = arith.cmpi eq, %h, %c0       low, of 8 waves of 64
"""

from __future__ import annotations

from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton.ranges import number_of
from tidegate.hosts.triton.values import UNSIGNED, Values
from tidegate.hosts.triton.widths import width_of, wrap_number

THREAD = ("rocdl.workitem.id.x", "gpu.thread_id", "nvvm.read.ptx.sreg.tid.x")
_COMPARE = {
    0: "__eq__",
    1: "__ne__",
    2: "__lt__",
    3: "__le__",
    4: "__gt__",
    5: "__ge__",
    6: "__lt__",
    7: "__le__",
    8: "__gt__",
    9: "__ge__",
}


def waves_where(values: Values, cond: str, waves: int, lanes: int) -> str | None:
    """The half of the waves for which a condition holds."""
    found: list[bool] = []
    for wave in range(waves):
        seen = {_value(values, cond, wave, lane, lanes, 0) for lane in range(lanes)}
        if len(seen) != 1 or None in seen:
            return None
        found.append(bool(seen.pop()))
    half = waves // 2
    if found == [True] * half + [False] * (waves - half):
        return "low"
    if found == [False] * half + [True] * (waves - half):
        return "high"
    return None


def _value(values: Values, name: str, wave: int, lane: int, lanes: int, depth: int) -> int | None:
    if name not in values.made or depth > 32:
        return None
    op, _ = values.made[name]
    if op.name in THREAD and _is_first_axis(op):
        return wave * lanes + lane
    if op.name == "ttg.warp_id":
        return wave
    if op.name == "arith.constant":
        return number_of(op)
    given = [_value(values, each, wave, lane, lanes, depth + 1) for each in op.operands]
    numbers = [each for each in given if each is not None]
    found = _compute(op, numbers) if len(numbers) == len(given) else None
    bits = width_of(op.result_types[0])
    return wrap_number(found, bits) if found is not None and bits > 1 else found


def _is_first_axis(op: Operation) -> bool:
    """Threads of a workgroup are numbered along x; `gpu.thread_id` names its axis in an attribute."""
    return op.name != "gpu.thread_id" or "x" in (op.attribute("dimension") or "").removeprefix("#gpu<dim")


def _compute(op: Operation, given: list[int]) -> int | None:
    match op.name:
        case _ if op.result_types[0] == "i1" and op.name in ("arith.addi", "arith.subi", "arith.muli"):
            return None
        case "arith.addi":
            return given[0] + given[1]
        case "arith.subi":
            return given[0] - given[1]
        case "arith.muli":
            return given[0] * given[1]
        case "arith.divsi" | "arith.divui" if given[1] > 0 and given[0] >= 0:
            return given[0] // given[1]
        case "arith.remsi" | "arith.remui" if given[1] > 0 and given[0] >= 0:
            return given[0] % given[1]
        case "arith.shrui" | "arith.shrsi" if given[0] >= 0 and 0 <= given[1] < width_of(op.result_types[0]):
            return given[0] >> given[1]
        case "arith.andi":
            return given[0] & given[1]
        case "arith.xori":
            return given[0] ^ given[1]
        case "arith.index_cast" | "arith.extsi" | "arith.trunci" if op.operand_types[0] != "i1":
            return given[0] & 1 if op.result_types[0] == "i1" else given[0]
        case "arith.extui":
            return given[0] % (1 << width_of(op.operand_types[0]))
        case "arith.cmpi" if op.operand_types[0] != "i1":
            number = op.integer("predicate")
            if number not in _COMPARE or (number in UNSIGNED and min(given) < 0):
                return None
            return int(getattr(given[0], _COMPARE[number])(given[1]))
    return None
