"""Which elements of a tile take part in an access, where masks and conditions on lanes tell.

Needs   a kernel, and how many lanes a wave has; 0: nobody knows, and conditions on lanes tell nothing
Gives   the elements as one box, by axes, for every wave; that nobody knows, or that it is no box
Keeps   every element that may take part is in the box; `exact` means that no other is
Cost    the elements of a mask times the waves, once for each mask and each set of conditions

    conditional lane >= 32 { local_write %a, %rows }      elements 32..64 of tile<64xf32>, on a GPU with 64 lanes
    mask %m, where %m = lt %iota, %splat of 16            elements 0..16

Element e of n belongs to lane e // ceil(n / lanes), as the language says. A mask is known if it is computed from
constants, `iota` and the wave.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tidegate.index import LANE, WAVE, Binary, Compare, Cond, Const, Index, Name, Select, evaluate, holds, names, walk
from tidegate.language import ops
from tidegate.language.facts import Facts
from tidegate.language.ops import Kernel, Op, Value, results_of, walk_ops
from tidegate.language.trips import plain, plain_cond
from tidegate.language.types import Tile

MOST_ELEMENTS = 8192  # of a tile, and of all waves together 16 times as many

FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: a // b if b else 0,
    "rem": lambda a, b: a % b if b else 0,
    "max": max,
    "min": min,
    "neg": operator.neg,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
    "ge": operator.ge,
    "gt": operator.gt,
    "where": lambda cond, then, otherwise: then if cond else otherwise,
}


@dataclass(frozen=True, slots=True)
class Along:
    """Elements along one axis of a tile: the first one, how many there are, and how far apart.

    `below`: how many of them take part, where waves differ in that.
    """

    first: Index
    count: int
    step: int
    below: Index | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The elements that may take part, by axes; `exact`: all of these do."""

    axes: tuple[Along, ...]
    exact: bool


class Parts:
    """What masks and lanes leave of the tiles of one kernel."""

    def __init__(self, kernel: Kernel, facts: Facts, lanes: int) -> None:
        self.waves, self.facts, self.lanes = kernel.waves, facts, lanes
        self.made_by: dict[str, Op] = {value.name: op for op in walk_ops(kernel.body) for value in results_of(op)}
        self.tiles: dict[tuple[str, int], list[int] | None] = {}
        self.known: dict[object, Part | None] = {}

    def of(self, tile: Tile, mask: Value | None, conds: Sequence[Cond]) -> Part | None:
        """The part of a tile under a mask and under conditions on lanes; None if it may be any."""
        key = (tile.shape, mask.name if mask is not None else "", tuple(conds))
        if key not in self.known:
            self.known[key] = self.find(tile.shape, mask, [plain_cond(cond, self.facts) for cond in conds])
        return self.known[key]

    def find(self, shape: tuple[int, ...], mask: Value | None, conds: Sequence[Cond]) -> Part | None:
        count = prod(shape)
        told = [cond for cond in conds if {LANE, WAVE}.issuperset(names(cond)) and not _may_divide_by_zero(cond)]
        told = told if self.lanes else []
        if count > MOST_ELEMENTS or count * self.waves > 16 * MOST_ELEMENTS:
            return None
        exact = len(told) == len(conds)
        boxes: list[tuple[tuple[int, int, int], ...]] = []
        for wave in range(self.waves):
            taken = self.taken(count, told, wave)
            if mask is not None:
                chosen = self.elements(mask.name, wave)
                exact = exact and chosen is not None
                taken = [each for each in taken if chosen is None or chosen[each]]
            box = _box(taken, shape)
            if box is None:
                return None
            boxes.append(box)
        if not any(boxes):
            return None  # no wave touches anything: there is no box of no bytes
        boxes = [box or ((0, 0, 0),) * len(shape) for box in boxes]
        axes = [_joined([box[axis] for box in boxes]) for axis in range(len(shape))]
        known = tuple(axis for axis in axes if axis is not None)
        return Part(known, exact) if len(known) == len(axes) else None

    def taken(self, count: int, conds: Sequence[Cond], wave: int) -> list[int]:
        """The elements of lanes for which conditions hold."""
        if not conds:
            return [*range(count)]
        each = max(1, -(-count // self.lanes))
        lanes = {lane for lane in range(self.lanes) if all(holds(cond, {LANE: lane, WAVE: wave}) for cond in conds)}
        return [element for element in range(count) if element // each in lanes]

    # --- tiles of known numbers ---

    def elements(self, name: str, wave: int) -> list[int] | None:
        """The elements of a tile, in row-major order; None if not all are known."""
        key = (name, wave)
        if key not in self.tiles:
            op = self.made_by.get(name)
            self.tiles[key] = None
            if op is not None and isinstance(tile := results_of(op)[0].type, Tile) and not tile.dtype.is_float:
                found = self.computed(op, tile, wave) if prod(tile.shape) <= MOST_ELEMENTS else None
                self.tiles[key] = None if found is None else [_wrapped(each, tile.dtype.bits) for each in found]
        return self.tiles[key]

    def computed(self, op: Op, tile: Tile, wave: int) -> Sequence[int] | None:
        count = prod(tile.shape)
        match op:
            case ops.Fill(value=int(value)):
                return [value] * count
            case ops.Splat(value=value):
                index = plain(value, self.facts)
                known = {WAVE}.issuperset(names(index)) and not _may_divide_by_zero(index)
                return [evaluate(index, {WAVE: wave})] * count if known else None
            case ops.Iota(axis=axis):
                inner = prod(tile.shape[axis % len(tile.shape) + 1 :])
                return [element // inner % tile.shape[axis] for element in range(count)]
            case ops.Elementwise(fn=fn, args=args):
                return self.applied(fn, tile, [self.elements(each.name, wave) for each in args])
            case ops.Reshape(tile=given):
                return self.elements(given.name, wave)
            case ops.Cast(tile=given):
                found = self.elements(given.name, wave)
                return found if found is None or tile.dtype.bits > 1 else [each != 0 for each in found]
        return None

    def applied(self, fn: str, tile: Tile, args: Sequence[list[int] | None]) -> Sequence[int] | None:
        known = [each for each in args if each is not None]
        if len(known) < len(args):
            return None
        if fn == "not":
            return [1 - each if tile.dtype.bits == 1 else ~each for each in known[0]]
        return [int(FUNCTIONS[fn](*each)) for each in zip(*known, strict=True)] if fn in FUNCTIONS else None


def _may_divide_by_zero(expr: Index | Cond) -> bool:
    """Whether some divisor is not a constant other than 0: `7 mod wave` has no value in wave 0."""
    divisors = [part.right for part in walk(expr) if isinstance(part, Binary) and part.op in ("//", "mod")]
    return not all(isinstance(divisor, Const) and divisor.value for divisor in divisors)


def _wrapped(value: int, bits: int) -> int:
    if bits == 1:
        return int(value != 0)
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _box(elements: Sequence[int], shape: tuple[int, ...]) -> tuple[tuple[int, int, int], ...] | None:
    """Elements as a first one, a number and a distance along each axis; empty if there are none, None if no box."""
    if not elements:
        return ()
    axes: list[tuple[int, int, int]] = []
    inner = prod(shape)
    for size in shape:
        inner //= size
        found = sorted({element // inner % size for element in elements})
        step = found[1] - found[0] if len(found) > 1 else 1
        if found != list(range(found[0], found[-1] + 1, step)):
            return None
        axes.append((found[0], len(found), step))
    return tuple(axes) if prod(count for _, count, _ in axes) == len(elements) else None


def _joined(boxes: Sequence[tuple[int, int, int]]) -> Along | None:
    """One axis of all waves: one distance, from a first element and up to a last one that the wave may decide."""
    steps = {step for _, count, step in boxes if count > 1} or {1}
    if len(steps) > 1:
        return None
    counts = [count for _, count, _ in boxes]
    below = None if len(set(counts)) == 1 else _by_wave(counts)
    return Along(_by_wave([first for first, _, _ in boxes]), max(counts), steps.pop(), below)


def _by_wave(values: Sequence[int]) -> Index:
    """A number for each wave."""
    found: Index = Const(values[-1])
    for wave in range(len(values) - 2, -1, -1):
        if values[wave] != values[wave + 1]:
            found = Select(Compare("<=", Name(WAVE), Const(wave)), Const(values[wave]), found)
    return found
