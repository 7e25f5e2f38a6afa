"""How a kernel of PTX is launched, and what its special registers and arguments hold then.

Needs   what the command line says of the launch; the operations of a kernel
Gives   `Launched`; the values that the launch gives
Keeps   what is not said holds any value: blocks of the grid, arguments
Cost    linear in the operations, with a number for each thread

    --grid 1        `%ctaid.x` is 0, `%nctaid.x` is 1
    without         `%ctaid.x` is a symbol from 0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tidegate.diag import BadInput, Finding
from tidegate.footprint.arithmetic import Range
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa.build import Launch
from tidegate.hosts.isa.values import GLOBAL, NO_TAGS, Value, number, symbol
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.types import type_of
from tidegate.index import WORKGROUP, Name, names

AXES = "xyz"
MOST_BLOCKS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Launched:
    """Empty where nothing was said. `arguments`: by number from 0, or by name."""

    block: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()
    arguments: Mapping[str, int] = field(default_factory=dict)


def parse_launch(block: str | None, grid: str | None, arguments: Iterable[str]) -> Launched:
    shape = parse_block(block) if block is not None else ()
    return Launched(shape, parse_grid(grid) if grid is not None else (), parse_arguments(arguments))


def parse_arguments(texts: Iterable[str]) -> dict[str, int]:
    """`n=4096`, `4=0x1000`."""
    found: dict[str, int] = {}
    for each in texts:
        name, _, value = each.partition("=")
        if not name or not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19}", value):
            help_ = "as in `--arg 2=4096`: a parameter's number or name, and an integer from 0"
            raise BadInput(Finding("TG022", f"`{each[:80]}` is not the value of an argument", (), help=help_))
        found[name] = int(value, 0) if value[:2].lower() == "0x" else int(value)
    return found


def parse_block(text: str) -> tuple[int, ...]:
    """`256`, `16x16`, `8x8x4`."""
    found = _numbers(text)
    if not found:
        help_ = "as in `--block 256` or `--block 16x16`"
        raise BadInput(Finding("TG022", f"`{text[:80]}` is not a block shape", (), help=help_))
    return found


def parse_grid(text: str) -> tuple[int, ...]:
    """`128`, `16x8`: blocks in each direction."""
    found = _numbers(text)
    if not found or max(found) > MOST_BLOCKS:
        help_ = "as in `--grid 128` or `--grid 16x8`"
        raise BadInput(Finding("TG022", f"`{text[:80]}` is not a grid of blocks", (), help=help_))
    return found


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.lower().replace(",", "x").split("x")
    # Of numbers with more digits Python converts none, and no launch has so many threads or blocks.
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r" *0*[1-9][0-9]{0,9} *", each) for each in parts):
        return ()
    return tuple(map(int, parts))


def full(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape, 1, 1, 1)[:3]


def given_by(
    launch: Launch, code: m.Code, function: p.Function, arguments: Mapping[str, int], grid: tuple[int, ...] = ()
) -> tuple[dict[str, Value], dict[str, Range]]:
    """What special registers, arguments and addresses of arrays hold."""
    threads, shape = launch.threads, full(launch.shape)
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
        blocks = full(grid)[place] if grid else 0
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
