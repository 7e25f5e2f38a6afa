"""What special registers and arguments of a kernel of PTX hold when it is launched.

Needs   the launch; the operations of a kernel
Gives   the values that the launch gives
Keeps   what is not said holds any value: blocks of the grid, arguments
Cost    linear in the operations, with a number for each thread

    --grid 1        `%ctaid.x` is 0, `%nctaid.x` is 1
    without         `%ctaid.x` is a symbol from 0
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate.footprint.arithmetic import Range
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa.build import Launch
from tidegate.hosts.isa.launching import AXES, MOST_BLOCKS, full_shape
from tidegate.hosts.isa.values import GLOBAL, NO_TAGS, Value, number, symbol
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.types import type_of
from tidegate.index import WORKGROUP, Name, names


def given_by(
    launch: Launch, code: m.Code, function: p.Function, arguments: Mapping[str, int], grid: tuple[int, ...] = ()
) -> tuple[dict[str, Value], dict[str, Range]]:
    """What special registers, arguments and addresses of arrays hold."""
    threads, shape = launch.threads, full_shape(launch.shape)
    linear = np.arange(threads, dtype=np.int64)
    lane = linear % launch.lanes
    bit = np.left_shift(1, lane)
    found = {
        "%tid.x": number(linear % shape[0], threads),
        "%tid.y": number(linear // shape[0] % shape[1], threads),
        "%tid.z": number(linear // (shape[0] * shape[1]), threads),
        "%laneid": number(lane, threads),
        "%lanemask_eq": number(bit, threads),
        "%lanemask_lt": number(bit - 1, threads),
        "%lanemask_le": number(2 * bit - 1, threads),
        "%lanemask_gt": number((1 << launch.lanes) - 2 * bit, threads),
        "%lanemask_ge": number((1 << launch.lanes) - bit, threads),
    }
    ranges: dict[str, Range] = {}
    for place, axis in enumerate(AXES):
        found[f"%ntid.{axis}"] = number(shape[place], threads)
        blocks = full_shape(grid)[place] if grid else 0
        found[f"%ctaid.{axis}"] = symbol(Name(WORKGROUP[place]), threads) if blocks != 1 else number(0, threads)
        found[f"%nctaid.{axis}"] = number(blocks, threads) if blocks else symbol(Name(f"%blocks_{axis}"), threads)
        ranges[WORKGROUP[place]], ranges[f"%blocks_{axis}"] = (0, (blocks or MOST_BLOCKS) - 1), (1, MOST_BLOCKS)
    for array in code.arrays:
        found[f"&{array.name}"] = Value(number(array.base, threads).base, tags=frozenset((array.name,)))
    wanted = {each.name for op in code.ops for each in m.operands_of(op.action) if isinstance(each, m.Given)}
    taken = {name for value in found.values() for name in names(value.plus)}
    for name in sorted(wanted):
        if (known := _known_argument(name, arguments)) is not None:
            found[name] = number(known, threads)
        elif name.startswith("param "):
            plain = _symbol(name, function.name)
            # Another type at the same place, of a sign or of a part of the bits, is another number.
            while plain in taken:
                plain += "_" + name.rsplit(" ", 1)[1]
            taken.add(plain)
            tags = frozenset((GLOBAL,)) if name.endswith("64") else NO_TAGS
            found[name] = symbol(Name(plain), threads, tags)
    return found, ranges


def _known_argument(given: str, arguments: Mapping[str, int]) -> int | None:
    """The number that a load of a parameter gives; None where it is not known, or means a part of it or a float."""
    if not given.startswith("param "):
        return None
    _, place, kind = given.split(" ")
    name, _, offset = place.partition("+")
    value, loaded = arguments.get(name), type_of(kind.removesuffix("_wide"))
    if value is None or offset != "0" or loaded is None or not loaded.is_integer:
        return None
    return value if value < 1 << loaded.bits - 1 else None


def _symbol(given: str, function: str) -> str:
    """`param gemm_param_2+0 u32` is `%param_2`."""
    _, place, _ = given.split(" ")
    name, _, offset = place.partition("+")
    plain = name.removeprefix(f"{function}_")
    plain = "".join(each if each.isalnum() or each == "_" else "_" for each in plain)
    return f"%{plain}" if offset == "0" else f"%{plain}_{offset}"
