"""Random kernels, the same ones for the same seed.

    kernel = random_kernel(random.Random(7))                 well-formed: no finding TG0xx
    kernel = runnable_kernel(random.Random(7))               no finding at all, and the in-order machine runs it
    kernel = runnable_kernel(random.Random(7), "gfx1250")    the same for a target, with its split barriers

`random_kernel` draws from all that can be written: every operation with every optional field, every type, every index
operator, conditions of any shape, loops that carry tiles, indices, flags, dependences and views, wave groups, barriers
wherever they may stand. Its accesses may leave their buffers and its barriers may hang.

`runnable_kernel` draws from the same operations and keeps three promises: indices stay inside (they are made so:
`... mod n`, `min(max(..., 0), n)`, counters and carried slots with a known range, bounds for sizes that nobody knows);
waves meet at every barrier (barriers stand where all waves agree, or the same number of times in both arms); loops are
short. It may race: nothing here decides where synchronization is needed. It prefers what real kernels do: rows by
wave, slots by `k mod n`, slots carried round a loop, loops over `K // 16` with `K mod 16 = 0`, a neighbour's rows.

`random_index` and `random_cond` give expressions alone; `small_kernel` gives kernels of one loop nest and a few
accesses with affine indices, for questions that can be answered by trying all waves and trips.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import prod

from tidegate.index import (
    COMPARISONS,
    LANE,
    ONE,
    WAVE,
    WORKGROUP,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Flag,
    Index,
    Inexact,
    Logic,
    Name,
    Not,
    Select,
    Truth,
    evaluate,
    holds,
    names,
)
from tidegate.language import ops
from tidegate.language.builder import Builder
from tidegate.language.ops import Block, Carried, Group, Kernel, Op, Operand, Place, Size, Value
from tidegate.language.syntax import ARITY, COMPARE
from tidegate.language.types import (
    DEP,
    DTYPES,
    FLAG,
    INDEX,
    BarrierObject,
    DType,
    Global,
    Lds,
    Tile,
    Type,
    i1,
    i32,
)

UNIFORM, PER_WAVE, DIVERGENT = 0, 1, 2
FLOATS = (0.0, 1.0, -1.0, 0.5, -2.25, 1e-07, -3e-05, 65504.0, 1e22, float("inf"), float("-inf"), -0.0)
COUNTERS = ("vmcnt", "lgkmcnt", "asynccnt", "tensorcnt")
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 64)

# --- expressions --------------------------------------------------------------------------------------------------


def random_index(
    rng: random.Random, leaves: Sequence[Index], depth: int = 3, *, affine: bool = False, flags: Sequence[str] = ()
) -> Index:
    """An index over these leaves and numbers. An affine one multiplies and divides by positive constants only."""
    if depth <= 0 or rng.random() < 0.25:
        if leaves and rng.random() < 0.65:
            return rng.choice(leaves)
        return Const(rng.choice((*NUMBERS, -1, -3, -64)))

    def inner() -> Index:
        return random_index(rng, leaves, depth - 1, affine=affine, flags=flags)

    kind = rng.choice(
        ("+", "+", "-", "*", "//", "mod", "min", "max", "select", *(() if affine else ("xor", "inexact")))
    )
    if kind == "select":
        return Select(random_cond(rng, leaves, depth - 1, affine=affine, flags=flags), inner(), inner())
    if kind == "inexact":
        return Inexact(inner())
    if affine and kind in ("*", "//", "mod"):
        number: Index = Const(rng.choice((1, 2, 3, 4, 8, 16)))
        if rng.random() < 0.1:
            number = Binary("+", number, ONE)
        if kind == "*" and rng.random() < 0.5:
            return Binary("*", number if rng.random() < 0.8 else Const(-2), inner())
        return Binary(kind, inner(), number)
    return Binary(kind, inner(), inner())


def random_cond(
    rng: random.Random, leaves: Sequence[Index], depth: int = 3, *, affine: bool = False, flags: Sequence[str] = ()
) -> Cond:
    """A condition over these leaves and flags."""
    kind = rng.choice(("compare", "compare", "compare", "not", "and", "or", "flag", "truth"))
    if depth <= 0 and kind in ("not", "and", "or"):
        kind = "compare"

    def inner() -> Cond:
        return random_cond(rng, leaves, depth - 1, affine=affine, flags=flags)

    if kind == "flag" and flags:
        return Flag(rng.choice(flags))
    if kind == "truth" and rng.random() < 0.5:
        return Truth(rng.random() < 0.5)
    if kind == "not":
        return Not(inner())
    if kind in ("and", "or"):
        return Logic(kind, inner(), inner())
    left = random_index(rng, leaves, depth - 1, affine=affine, flags=flags)
    right = random_index(rng, leaves, depth - 1, affine=affine, flags=flags)
    return Compare(rng.choice(tuple(COMPARISONS)), left, right)


# --- kernels ------------------------------------------------------------------------------------------------------


def random_kernel(rng: random.Random, size: int = 24) -> Kernel:
    """A well-formed kernel of about `size` operations."""
    return _Maker(rng, size, runnable=False).kernel()


def runnable_kernel(rng: random.Random, target: str = "", size: int = 24) -> Kernel:
    """A kernel without findings on its target, which the in-order machine runs in a few milliseconds."""
    return _Maker(rng, size, runnable=True, target=target).kernel()


class _Maker:
    """Makes one kernel. Knows of every visible value how it varies, whether it is exact, and how large it can be."""

    def __init__(self, rng: random.Random, size: int, *, runnable: bool, target: str = "") -> None:
        self.rng, self.left, self.runnable, self.target = rng, size, runnable, target
        self.b = Builder(spans=False)
        self.values: list[Value] = []
        self.level: dict[str, int] = {LANE: DIVERGENT, WAVE: PER_WAVE}
        self.inexact: set[str] = set()
        self.below: dict[str, int] = {}  # names whose values are 0, 1, ... below this number
        self.steps: dict[str, tuple[str, int]] = {}  # name → (size, n): name * n + n never exceeds the size
        self.sizes: dict[str, int] = {}
        self.multiple: dict[str, int] = {}
        self.waves = rng.choice((1, 2, 2, 3, 4, 4, 4, 8))
        self.under = UNIFORM
        self.depth = self.loops = 0
        self.top = 0  # bytes of shared memory in use
        self.free: list[tuple[int, int]] = []  # offsets and sizes that were given back
        self.dtypes = (*rng.sample([each for each in DTYPES.values() if each not in (i1, i32)], 3), i32, i1)
        self.extents = rng.choice(((1, 2, 4), (2, 4, 8), (1, 3, 4)))
        self.busy: set[str] = set()  # named barriers that are signalled and not yet waited for
        self.phases: dict[tuple[str, int], int] = {}
        self.split = bool(target) and runnable and _has_split(target)

    # --- the whole ---

    def kernel(self) -> Kernel:
        rng = self.rng
        for name in rng.sample(("M", "N", "K", "N_1"), rng.choice((0, 1, 1, 2, 3))):
            self.multiple[name] = rng.choice((1, 1, 2, 4))
            self.sizes[name] = self.multiple[name] * rng.choice((1, 2, 3))
        grid = self.grid()
        self.below[WAVE] = self.waves
        args = self.arguments()
        self.table = args[0]
        for _ in range(rng.choice((0, 1, 2, 2))):  # what most kernels start with; the rest may come anywhere
            self.make_alloc()
        self.block()
        where = self.assumptions()
        return self.b.kernel(
            rng.choice(("k", "gemm", "a.b", "_x1")),
            args,
            self.waves,
            sizes=tuple(Size(*each) for each in self.sizes.items()),
            where=where,
            grid=grid,
            target=self.target or ("" if self.runnable or rng.random() < 0.5 else rng.choice(("gfx950", "sm_90"))),
        )

    def grid(self) -> tuple[Index, ...]:
        rng = self.rng
        found: list[Index] = []
        for axis in range(rng.choice((0, 0, 1, 2, 3))):
            name = rng.choice([*self.sizes, ""])
            if not name:
                found.append(Const(rng.choice((1, 2))))
                self.below[WORKGROUP[axis]] = evaluate(found[-1], {})
            elif self.multiple[name] > 1 or not self.runnable:
                found.append(Binary("//", Name(name), Const(self.multiple[name])))
                self.steps[WORKGROUP[axis]] = (name, self.multiple[name])
            else:
                found.append(Binary("min", Name(name), Const(2)))
                self.below[WORKGROUP[axis]] = 2
        while self.runnable and prod(evaluate(each, self.sizes) for each in found) > 3:
            axis = len(found) - 1
            self.below.pop(WORKGROUP[axis], None)
            self.steps.pop(WORKGROUP[axis], None)
            found.pop()
        return tuple(found)

    def assumptions(self) -> tuple[Cond, ...]:
        """What is assumed of sizes: that they are multiples, and anything that the defaults satisfy."""
        rng = self.rng
        found: list[Cond] = []
        for name, by in self.multiple.items():
            if by > 1:
                found.append(Compare("==", Binary("mod", Name(name), Const(by)), ZERO))
        leaves = tuple(Name(name) for name in self.sizes)
        for _ in range(rng.choice((0, 0, 1, 2)) if leaves else 0):
            cond = random_cond(rng, leaves, 2, affine=True)
            if holds(cond, self.sizes):
                found.append(cond)
        return tuple(found)

    def arguments(self) -> tuple[Value, ...]:
        """First a table of integers that nobody writes, so that indices read from it are the same for all waves."""
        rng = self.rng
        ints = [each for each in self.dtypes if not each.is_float]
        args = [Value("%table", Global((rng.choice((4, 8, 64)), 4)[: rng.choice((1, 2))], rng.choice(ints)))]
        for number in range(rng.choice((1, 2, 3))):
            shape = tuple(rng.choice((*self.sizes, 4, 8, 16)) for _ in range(rng.choice((0, 1, 2, 2, 3))))
            args.append(Value(f"%{'ABC'[number]}", Global(shape, rng.choice(self.dtypes))))
        if rng.random() < 0.5:
            args.append(Value("%n", INDEX))
        args += [Value(f"%flag.{number}", FLAG) for number in range(rng.choice((0, 1, 2)))]
        for arg in args:
            self.b.taken[arg.name[1:]] = 1
            self.define(arg, UNIFORM)
        return tuple(args)

    # --- what is visible ---

    def define(self, value: Value, level: int = UNIFORM, inexact: bool = False) -> Value:
        self.values.append(value)
        self.level[value.name] = level
        if inexact:
            self.inexact.add(value.name)
        return value

    def fresh(self, hint: str, type_: Type, level: int = UNIFORM, inexact: bool = False) -> Value:
        return self.define(self.b.fresh(hint, type_), level, inexact)

    def some(self, wanted: Callable[[Value], bool]) -> Value | None:
        found = [value for value in self.values if wanted(value)]
        # Recent values are used more often, as in programs that people write.
        return found[-1 - min(int(self.rng.expovariate(0.4)), len(found) - 1)] if found else None

    def emit(self, op: Op) -> None:
        match op:
            case ops.NewBarrier(Value(_, BarrierObject("mbarrier", _, slots))):
                self.top = -(-self.top // 16) * 16 + 8 * slots
        self.b.emit(op)

    @contextmanager
    def region(self, level: int) -> Iterator[None]:
        visible, under, free = len(self.values), self.under, self.free
        self.under, self.depth, self.free = max(under, level), self.depth + 1, []
        yield
        del self.values[visible:]
        self.under, self.depth, self.free = under, self.depth - 1, free

    # --- expressions ---

    def leaves(self, level: int, *, exact: bool, lane: bool = False) -> list[Index]:
        found: list[Index] = [
            Name(name) for name in (*self.sizes, WORKGROUP[0], *self.below, *self.steps) if name[0] != "%"
        ]
        if lane and level == DIVERGENT:
            found.append(Name(LANE))
        found += [
            Name(value.name)
            for value in self.values
            if value.type == INDEX and not (exact and value.name in self.inexact)
        ]
        return [each for each in found if self.level.get(each.name, UNIFORM) <= level]  # type: ignore[union-attr]

    def flags(self, level: int) -> list[str]:
        return [each.name for each in self.values if each.type == FLAG and self.level[each.name] <= level]

    def index(self, level: int = PER_WAVE, *, exact: bool = True, lane: bool = False, depth: int = 2) -> Index:
        """Any affine index over what is visible."""
        leaves = self.leaves(level, exact=exact, lane=lane)
        return random_index(self.rng, leaves, depth, affine=True, flags=self.flags(level))

    def cond(self, level: int) -> Cond:
        leaves = self.leaves(level, exact=self.rng.random() < 0.8, lane=True)
        made = random_cond(self.rng, leaves, 2, affine=True, flags=self.flags(level))
        if level == DIVERGENT and LANE not in names(made):
            made = Logic("and", Compare("<", Name(LANE), Const(self.rng.choice((1, 5, 32)))), Not(made))
        return made

    def strange(self, level: int = PER_WAVE) -> Index:
        """What is not affine: xor, products, numbers read from memory. Runnable ones never divide by 0."""
        rng, leaves = self.rng, self.leaves(level, exact=False)
        a, b = (random_index(rng, leaves, 1, affine=True) for _ in range(2))
        if self.runnable:
            return Binary(rng.choice(("xor", "*", "+")), a, b)
        return rng.choice((Binary("xor", a, b), Binary("*", a, b), Binary("//", a, b), Binary("mod", a, b)))

    def inside(self, n: int, level: int = PER_WAVE, shape: tuple[int, ...] | None = None) -> Index:
        """An index that is 0, 1, ... below n; where `shape` says that elements may differ, perhaps a tile."""
        rng = self.rng
        known = [Name(name) for name, most in self.below.items() if most <= n and self.is_visible(name, level)]
        kind = rng.choice(("mod", "mod", "number", "clamp", "known", "known", "wave", "select", "strange", "tile"))
        e = self.index(min(level, PER_WAVE) if rng.random() < 0.8 else level)
        if kind == "known" and known:
            return rng.choice(known)
        if kind == "wave" and level >= PER_WAVE:
            return Binary("mod", Binary("+", Name(WAVE), Const(rng.choice((0, 1)))), Const(n))
        if kind == "clamp":
            return Binary("min", Binary("max", e, ZERO), Const(n - 1))
        if kind == "select":
            return Select(self.cond(min(level, PER_WAVE)), Const(rng.randrange(n)), Binary("mod", e, Const(n)))
        if kind == "strange":
            return Inexact(Binary("mod", self.strange(min(level, PER_WAVE)), Const(n)))
        if kind == "tile" and shape is not None:
            tile = self.some(lambda v: isinstance(v.type, Tile) and v.type.shape == shape and _is_int(v.type.dtype))
            if tile is not None:
                return Inexact(Binary("mod", Name(tile.name), Const(n)))
        if kind == "number":
            return Const(rng.randrange(n))
        # A condition inside `e` may name an inexact value; a marked index may hold anything.
        return Binary("mod", e, Const(n))

    def is_visible(self, name: str, level: int) -> bool:
        good = name[0] != "%" or any(value.name == name for value in self.values)
        return good and name not in self.inexact and self.level.get(name, UNIFORM) <= level

    def anywhere(self, n: int, shape: tuple[int, ...] | None = None) -> Index:
        """An index into `n` places; outside of them now and then, where that is allowed."""
        if not self.runnable and self.rng.random() < 0.2:
            return self.index()
        return self.marked(self.inside(n, shape=shape))

    def marked(self, index: Index) -> Index:
        """Marked inexact as a whole, if a condition in it depends on a number that was read from memory."""
        bad = not isinstance(index, Inexact) and any(name in self.inexact for name in names(index))
        return Inexact(index) if bad else index

    # --- blocks ---

    def block(self, marks: Sequence[Callable[[], None]] = ()) -> None:
        """Operations, as many as are left for this block, with `marks` in order between them."""
        rng = self.rng
        count = self.left if self.depth == 0 else rng.randint(0, max(1, min(6, self.left)))
        places = sorted(rng.randrange(count + 1) for _ in marks)
        pending = list(marks)
        done = 0
        while done < count or pending:
            while pending and places[0] <= done:
                places.pop(0)
                pending.pop(0)()
            if done < count:
                self.left -= 1
                self.op()
            done += 1
            if self.depth == 0 and self.left <= 0:
                for mark in pending:
                    mark()
                return

    def op(self) -> None:
        kinds, weights = zip(*_WEIGHTS.items(), strict=True)
        for _ in range(20):
            kind = self.rng.choices(kinds, weights)[0]
            if getattr(self, f"make_{kind}")():
                return
        self.emit(ops.SchedulingBarrier())

    # --- shared memory ---

    def make_alloc(self) -> bool:
        rng = self.rng
        rank = rng.choice((0, 1, 2, 2, 3))
        shape = tuple(rng.choice((*self.extents, self.waves, self.waves * 2)) for _ in range(rank))
        slots = rng.choice((1, 1, 2, 3))
        # Copies need an array with the same elements.
        known = [arg.type.dtype for arg in self.values if isinstance(arg.type, Global) and arg != self.table]
        type_ = Lds(shape, rng.choice(known if rng.random() < 0.7 else self.dtypes), slots)
        offset = None
        if rng.random() < 0.3:
            top = max([self.top, *(at + size for at, size in self.free)])
            offset = rng.choice((*(at for at, size in self.free if size >= type_.bytes), top, top + 4, top + 100))
            self.free = [each for each in self.free if each[0] != offset]
            if not self.runnable and rng.random() < 0.3:
                offset = rng.choice((0, 16))
        start = -(-self.top // 16) * 16 if offset is None else offset
        self.top = max(self.top, start + type_.bytes)
        result = self.fresh("lds", type_)
        self.below[result.name + "#"] = start  # where it lies, for `dealloc`
        self.emit(ops.Alloc(result, offset))
        return True

    def make_dealloc(self) -> bool:
        """Only what this block has allocated, and nothing that a view, a loop or a condition may still hold."""
        made = [op.result for op in self.b.stack[-1] if isinstance(op, ops.Alloc)]
        held = {
            value.name
            for op in self.b.stack[-1]
            if not isinstance(op, ops.Alloc | ops.LocalRead)
            for value in _held(op)
        }
        buffers = [each for each in made if each in self.values and not (self.runnable and each.name in held)]
        if not buffers or (len(buffers) < 2 and self.rng.random() < 0.8):
            return False
        buffer = self.rng.choice(buffers)
        self.values.remove(buffer)
        assert isinstance(buffer.type, Lds)
        self.free.append((self.below.pop(buffer.name + "#"), buffer.type.bytes))
        self.emit(ops.Dealloc(buffer))
        return True

    def buffer(self, wanted: Callable[[Lds], bool] = lambda _: True) -> Value | None:
        return self.some(lambda v: isinstance(v.type, Lds) and self.is_one_buffer(v) and wanted(v.type))

    def is_one_buffer(self, value: Value) -> bool:
        """Whether all lanes of a wave mean the same buffer: only then may it be accessed."""
        return self.level.get(value.name, UNIFORM) <= PER_WAVE

    def make_view(self) -> bool:
        rng, base = self.rng, self.buffer()
        if base is None:
            return False
        type_ = base.type
        assert isinstance(type_, Lds)
        slot = self.marked(self.inside(type_.slots))
        index: tuple[Index, ...] = ()
        kind = rng.choice(("slot", "row", "bytes", "all"))
        if kind == "row" and type_.shape:
            index = (self.anywhere(type_.shape[0]),)
            made = Lds(type_.shape[1:], type_.dtype)
        elif kind == "bytes":
            dtype = rng.choice([each for each in self.dtypes if type_.slot_bytes % each.bytes == 0] or [type_.dtype])
            made = Lds((max(1, type_.slot_bytes // dtype.bytes),), dtype)
        elif kind == "all":
            slot, made = ZERO, type_
        else:
            made = Lds(type_.shape, type_.dtype)
        self.emit(ops.View(self.fresh("view", made), Place(base, slot, index)))
        return True

    def make_select_view(self) -> bool:
        base = self.buffer()
        other = self.buffer(lambda t: base is not None and t == base.type)
        if base is None or other is None:
            return False
        level = self.rng.choice((UNIFORM, PER_WAVE))
        self.emit(ops.SelectView(self.fresh("chosen", base.type), self.cond(level), base, other))
        return True

    # --- accesses ---

    def part(self, shape: tuple[int | str, ...], most: int = 1) -> tuple[int, ...]:
        """The shape of a tile that fits in the last dimensions; up to `most` times as large."""
        rng = self.rng
        rank = rng.randint(max(0, len(shape) - 2), len(shape))
        found: list[int] = []
        for size in shape[len(shape) - rank :]:
            full = size if isinstance(size, int) else rng.choice((1, 2, 4))
            found.append(max(1, rng.choice((full, full, full // 2, 1, full * most))))
        return tuple(found)

    def place(self, base: Value, tile: tuple[int, ...], *, bounded: bool = False) -> tuple[Place, tuple[Index, ...]]:
        """Where the tile lies, and bounds, which sizes that nobody knows may need."""
        rng, type_ = self.rng, base.type
        assert isinstance(type_, Lds | Global)
        gap = len(type_.shape) - len(tile)
        index: list[Index] = []
        limits: list[Index] = []
        needed = bounded and rng.random() < 0.25
        for axis, size in enumerate(type_.shape):
            extent = 1 if axis < gap else tile[axis - gap]
            if isinstance(size, str):
                found, safe = self.along_size(size, extent)
                limits.append(
                    Name(size) if rng.random() < 0.7 else Binary("min", Name(size), Const(rng.choice((1, 8))))
                )
            else:
                safe = extent <= size
                found = self.start(size, extent, tile if axis >= gap and gap == 0 else None) if safe else ZERO
                limits.append(Const(size if rng.random() < 0.7 else rng.randint(1, size)))
            needed = needed or not safe
            index.append(found)
        if needed and not bounded:  # nothing can mask this access: at the start of an axis the tile fits or not
            index = [ZERO for _ in index]
        slot = self.anywhere(type_.slots) if isinstance(type_, Lds) else ZERO
        while index and index[-1] == ZERO and rng.random() < 0.5:
            index.pop()
        return Place(base, slot, tuple(index)), tuple(limits) if needed and bounded and type_.shape else ()

    def start(self, size: int, extent: int, tile: tuple[int, ...] | None) -> Index:
        if extent > 1 and self.rng.random() < 0.6:
            part = self.anywhere(size // extent, None)
            if not isinstance(part, Inexact):
                return Binary("*", part, Const(extent))
        return self.anywhere(size - extent + 1, tile)

    def along_size(self, size: str, extent: int) -> tuple[Index, bool]:
        """An index along a size that is only known by name, and whether the tile stays inside without a bound."""
        for name, (of, step) in self.steps.items():
            if of == size and extent <= step and self.is_visible(name, PER_WAVE) and self.rng.random() < 0.8:
                return Binary("*", Name(name), Const(step)), True
        if extent <= self.multiple[size] and self.rng.random() < 0.3:
            return ZERO, True
        return self.marked(self.inside(self.rng.choice((2, 8)))), False

    def tile(self, type_: Tile) -> Value:
        """A tile of this type: one that is there, or a new one."""
        rng = self.rng
        found = self.some(lambda v: v.type == type_)
        if found is not None and rng.random() < 0.8:
            return found
        return self.new_tile(type_)

    def new_tile(self, type_: Tile) -> Value:
        rng, result = self.rng, self.b.fresh("tile", type_)
        kind = rng.choice(("fill", "fill", "splat", "iota"))
        if kind == "iota" and type_.shape:
            self.emit(ops.Iota(result, rng.randrange(len(type_.shape))))
        elif kind == "splat":
            value = self.index(exact=rng.random() < 0.5) if rng.random() < 0.8 else Inexact(self.strange())
            self.emit(ops.Splat(result, value))
        else:
            value = rng.choice(FLOATS) if type_.dtype.is_float else float(rng.choice(NUMBERS))
            self.emit(ops.Fill(result, value))
        return self.define(result)

    def any_tile(self) -> Value:
        found = self.some(lambda v: isinstance(v.type, Tile))
        if found is not None and self.rng.random() < 0.9:
            return found
        shape = tuple(self.rng.choice(self.extents) for _ in range(self.rng.choice((0, 1, 2, 2, 3))))
        return self.new_tile(Tile(shape, self.rng.choice(self.dtypes)))

    def mask(self, shape: tuple[int, ...]) -> Value | None:
        return self.tile(Tile(shape, i1)) if self.rng.random() < 0.15 else None

    def access(self, is_global: bool) -> tuple[Place, tuple[Index, ...], Tile, Value | None] | None:
        base = self.some(lambda v: isinstance(v.type, Global) and v != self.table) if is_global else self.buffer()
        if base is None:
            return None
        assert isinstance(base.type, Lds | Global)
        most = 2 if self.rng.random() < 0.1 else 1
        tile = Tile(self.part(base.type.shape, most), base.type.dtype)
        mask = self.mask(tile.shape)
        place, bounds = self.place(base, tile.shape, bounded=True)
        return place, bounds, tile, mask

    def make_global_read(self) -> bool:
        return self._read(ops.GlobalRead, is_global=True)

    def make_local_read(self) -> bool:
        return self._read(ops.LocalRead, is_global=False)

    def _read(self, cls: type, *, is_global: bool) -> bool:
        found = self.access(is_global)
        if found is None:
            return False
        place, bounds, tile, mask = found
        self.emit(cls(self.fresh("read", tile), place, bounds, mask))
        return True

    def make_global_write(self) -> bool:
        return self._write(ops.GlobalWrite, is_global=True)

    def make_local_write(self) -> bool:
        return self._write(ops.LocalWrite, is_global=False)

    def _write(self, cls: type, *, is_global: bool) -> bool:
        found = self.access(is_global)
        if found is None:
            return False
        place, bounds, tile, mask = found
        self.emit(cls(self.tile(tile), place, bounds, mask))
        return True

    def make_atomic_add(self) -> bool:
        found = self.access(is_global=False)
        if found is None:
            return False
        place, bounds, type_, mask = found
        if type_.dtype.bytes not in (4, 8):  # no target has smaller ones
            return False
        tile = self.tile(type_)
        result = self.fresh("before", type_) if self.rng.random() < 0.4 else None
        self.emit(ops.AtomicAdd(result, tile, place, bounds, mask))
        return True

    def make_read_index(self) -> bool:
        assert isinstance(self.table.type, Global)
        level = self.rng.choice((UNIFORM, PER_WAVE))
        index = tuple(self.marked(self.inside(int(size), level)) for size in self.table.type.shape)
        self.emit(ops.ReadIndex(self.fresh("number", INDEX, level, True), Place(self.table, ZERO, index)))
        return True

    # --- copies ---

    def make_copy(self) -> bool:
        rng = self.rng
        there = self.some(lambda v: isinstance(v.type, Global) and v != self.table)
        if there is None:
            return False
        assert isinstance(there.type, Global)
        dtype = there.type.dtype
        here = self.buffer(lambda t: t.dtype == dtype)
        if here is None:
            return False
        cls = rng.choice((ops.GatherToLds, ops.TensorLoadToLds, ops.LdsToGlobal))
        copy = self.copy(cls, here, there, None)
        if copy is not None:
            self.emit(copy)
        return copy is not None

    def copy(self, cls: type, here: Value, there: Value, mbarrier: Place | None) -> Op | None:
        assert isinstance(here.type, Lds)
        assert isinstance(there.type, Global)
        shape = self.part(here.type.shape)
        shape = shape[max(0, len(shape) - len(there.type.shape)) :]
        room = there.type.shape[len(there.type.shape) - len(shape) :]
        shape = tuple(
            min(size, limit) if isinstance(limit, int) else size for size, limit in zip(shape, room, strict=True)
        )
        local, _ = self.place(here, shape)
        far, bounds = self.place(there, shape, bounded=True)
        result = self.fresh("copy", DEP) if self.rng.random() < 0.6 else None
        tile = Tile(shape, there.type.dtype)
        if cls is ops.LdsToGlobal:
            return ops.LdsToGlobal(result, local, far, tile, bounds)
        if not self.runnable and mbarrier is None and self.rng.random() < 0.6:
            mbarrier = self.mbarrier_place()
        made: Op = cls(result, far, local, tile, bounds, mbarrier)
        return made

    def mbarrier_place(self) -> Place | None:
        found = self.some(lambda v: isinstance(v.type, BarrierObject) and v.type.kind == "mbarrier")
        if found is None:
            return None
        assert isinstance(found.type, BarrierObject)
        return Place(found, self.marked(self.inside(found.type.slots, PER_WAVE)))

    def make_commit_group(self) -> bool:
        if self.runnable and self.target:
            return False  # few targets count groups
        self.emit(ops.CommitGroup(self.fresh("group", DEP) if self.rng.random() < 0.5 else None))
        return True

    def make_null_dep(self) -> bool:
        self.emit(ops.NullAsyncDep(self.fresh("none", DEP)))
        return True

    # --- arithmetic ---

    def make_tile(self) -> bool:
        shape = tuple(self.rng.choice(self.extents) for _ in range(self.rng.choice((0, 1, 2, 2, 3))))
        self.new_tile(Tile(shape, self.rng.choice(self.dtypes)))
        return True

    def make_elementwise(self) -> bool:
        rng, first = self.rng, self.any_tile()
        assert isinstance(first.type, Tile)
        is_float = first.type.dtype.is_float
        fn = rng.choice([each for each in ARITY if each not in (_NOT_FOR_FLOATS if is_float else _FLOATS_ONLY)])
        args = [first, *(self.tile(first.type) for _ in range(ARITY[fn] - 1))]
        if fn == "where":
            args = [self.tile(Tile(first.type.shape, i1)), *args[1:]]
        dtype = i1 if fn in COMPARE else first.type.dtype
        self.emit(ops.Elementwise(self.fresh(fn, Tile(first.type.shape, dtype)), fn, tuple(args)))
        return True

    def make_shape(self) -> bool:
        """Casts, reductions, scans, and the operations that move elements."""
        rng, tile = self.rng, self.any_tile()
        assert isinstance(tile.type, Tile)
        shape, dtype = tile.type.shape, tile.type.dtype
        kind = rng.choice(("cast", "reduce", "scan", "transpose", "broadcast", "reshape"))
        if kind == "cast":
            self.emit(ops.Cast(self.fresh("cast", Tile(shape, rng.choice(self.dtypes))), tile))
        elif kind in ("reduce", "scan") and shape:
            axis, fn = rng.randrange(len(shape)), rng.choice(("add", "max", "min"))
            if kind == "scan":
                self.emit(ops.Scan(self.fresh("scan", tile.type), fn, tile, axis))
            else:
                kept = tuple(1 if each == axis else size for each, size in enumerate(shape))
                self.emit(ops.Reduce(self.fresh("reduce", Tile(kept, dtype)), fn, tile, axis))
        elif kind == "transpose" and len(shape) >= 2:
            turned = (*shape[:-2], shape[-1], shape[-2])
            self.emit(ops.Transpose(self.fresh("turned", Tile(turned, dtype)), tile))
        elif kind == "broadcast" and len(shape) < 4:
            wide = tuple(rng.choice(self.extents) if size == 1 else size for size in shape)
            more = (rng.choice(self.extents),) if rng.random() < 0.3 and len(shape) < 3 else ()
            self.emit(ops.Broadcast(self.fresh("wide", Tile((*more, *wide), dtype)), tile))
        elif kind == "reshape":
            other = rng.choice(((prod(shape),), tuple(reversed(shape)), (1, *shape)))[:4]
            if prod(other) != prod(shape):
                return False
            self.emit(ops.Reshape(self.fresh("shaped", Tile(other, dtype)), tile))
        else:
            return False
        return True

    def make_mma(self) -> bool:
        rng = self.rng
        if self.runnable and self.target:
            return False  # each target has its own shapes
        m, n, k = (rng.choice(self.extents) for _ in range(3))
        dtype = rng.choice(self.dtypes)
        pairs = [each for each in self.dtypes if (each.is_float, each.bits) == (dtype.is_float, dtype.bits)]
        sums = [each for each in DTYPES.values() if each.is_float == dtype.is_float and each.bits >= dtype.bits]
        a, b = self.tile(Tile((m, k), dtype)), self.tile(Tile((k, n), rng.choice(pairs)))
        acc = self.tile(Tile((m, n), rng.choice(sums)))
        self.emit(ops.Mma(self.fresh("acc", acc.type), a, b, acc))
        return True

    def make_let(self) -> bool:
        level = self.rng.choice((UNIFORM, PER_WAVE, PER_WAVE, DIVERGENT))
        if self.rng.random() < 0.15:
            n = self.rng.choice((2, 3, 4))
            result = self.b.fresh("small", INDEX)
            value = self.inside(n, min(level, PER_WAVE))
            if not any(name in self.inexact for name in names(value)) and not _has_inexact(value):
                self.below[result.name] = n
                self.emit(ops.Let(result, value))
                self.define(result, self.level_of(value))
                return True
        exact = self.rng.random() < 0.8
        value = self.index(level, exact=exact, lane=True) if exact else Inexact(self.strange(min(level, PER_WAVE)))
        inexact = not exact or any(name in self.inexact for name in names(value))
        self.emit(ops.Let(self.fresh("let", INDEX, self.level_of(value), inexact), value))
        return True

    def level_of(self, expr: Index | Cond) -> int:
        return max((self.level.get(name, UNIFORM) for name in names(expr)), default=UNIFORM)

    # --- control ---

    def make_iterate(self) -> bool:
        if self.depth >= 4 or self.left < 2 or (self.runnable and self.loops >= 2):
            return False
        rng = self.rng
        level = rng.choice((UNIFORM, UNIFORM, UNIFORM, PER_WAVE, DIVERGENT))
        lower, upper, step, known = self.trips(level)
        bounds = max(self.level_of(lower), self.level_of(upper))
        odd = any(name in self.inexact or _has_inexact(e) for e in (lower, upper) for name in names(e))
        pairs = [self.carried() for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
        phase = self.loop_phase(bounds, lower, step) if rng.random() < 0.15 else None
        counter = self.b.counter("k")
        with self.region(bounds):
            self.loops += 1
            inexact = any(name in self.inexact for name in names(lower)) or _has_inexact(lower)
            self.define(counter, self.level_of(lower), inexact)
            known(counter.name)
            made: list[Carried] = []
            for init, level_, most, type_ in pairs:
                value = self.fresh("carried", type_, level_)
                if most:
                    self.below[value.name] = most
                made.append(Carried(value, init))
            self.b.open()
            self.block([lambda: phase(counter)] if phase else ())
            yields = [
                self.handed(each.value.type, level_, each.value if most else None, most)
                for each, (_, level_, most, _) in zip(made, pairs, strict=True)
            ]
            body = self.b.close(yields)
            self.loops -= 1
        expect = rng.choice((None, None, 0, 3, 100))
        results = self.b.loop(lower, upper, body, counter, tuple(made), step, expect)
        for result, each in zip(results, made, strict=True):
            self.define(result, max(self.level[each.value.name], bounds), odd)
        return True

    def trips(self, level: int) -> tuple[Index, Index, Index, Callable[[str], None]]:
        """Bounds, a step, and what they say about the counter."""
        rng = self.rng
        sizes = [name for name in self.sizes if self.multiple[name] > 1 or not self.runnable]
        if sizes and level == UNIFORM and rng.random() < 0.5:
            name = rng.choice(sizes)
            by = self.multiple[name]
            count: Index = Binary("//", Name(name), Const(by)) if by > 1 or rng.random() < 0.5 else Name(name)
            return ZERO, count, ONE, lambda k: self.steps.__setitem__(k, (name, by))
        if self.runnable or rng.random() < 0.5:
            step = rng.choice((1, 1, 2, 3))
            if level == UNIFORM and rng.random() < 0.6:
                most = rng.choice((0, 1, 2, 3, 4))
                return ZERO, Const(most), Const(step), lambda k: self.below.__setitem__(k, max(1, most))
            lower = ZERO if rng.random() < 0.7 else self.inside(2, level)
            e = self.index(level, exact=rng.random() < 0.8, lane=True)
            return lower, Binary("mod", e, Const(rng.choice((2, 3)))), Const(step), lambda k: None
        wide = rng.choice((ONE, Const(2), Binary("+", ONE, Const(3))))
        return self.index(level, lane=True), self.index(level, exact=False, lane=True), wide, lambda k: None

    def carried(self) -> tuple[Operand, int, int, Type]:
        """What a loop carries: the first value, how it varies, a bound on it if it is a slot, its type."""
        rng = self.rng
        kind = rng.choice(("tile", "tile", "index", "slot", "slot", "dep", "view", "flag"))
        if kind == "slot":
            most = rng.choice((2, 3))
            return Const(rng.randrange(most)), UNIFORM, most, INDEX
        if kind == "index":
            level = rng.choice((UNIFORM, PER_WAVE))
            return self.index(level), level, 0, INDEX
        if kind == "tile":
            tile = self.any_tile()
            return tile, PER_WAVE, 0, tile.type
        wanted = {"dep": lambda v: v.type == DEP, "view": lambda v: isinstance(v.type, Lds) and self.is_one_buffer(v)}
        found = self.some(wanted.get(kind, lambda v: v.type == FLAG and self.level[v.name] == UNIFORM))
        if found is None:
            return ZERO, UNIFORM, 0, INDEX
        return found, UNIFORM, 0, found.type

    def handed(self, type_: Type, level: int, slot: Value | None = None, most: int = 0) -> Operand:
        """What a region hands on for a value of this type."""
        rng = self.rng
        if slot is not None:
            value: Index = Binary("mod", Binary("+", Name(slot.name), Const(rng.choice((1, 1, 2)))), Const(most))
            if rng.random() < 0.3:
                after = Binary("+", Name(slot.name), ONE)
                value = Select(Compare("<", after, Const(most)), after, ZERO)
            return value
        if type_ == INDEX:
            return self.index(level)
        found = self.some(
            lambda v: (
                v.type == type_
                and (type_ != FLAG or self.level[v.name] <= level)
                and (not isinstance(type_, Lds) or self.is_one_buffer(v))
            )
        )
        if isinstance(type_, Tile) and rng.random() < 0.3:
            return self.new_tile(type_)
        assert found is not None
        return found

    def make_conditional(self) -> bool:
        if self.depth >= 4 or self.left < 2:
            return False
        rng = self.rng
        level = rng.choice((UNIFORM, UNIFORM, PER_WAVE, DIVERGENT))
        cond = self.cond(level)
        level = self.level_of(cond)
        odd = any(name in self.inexact for name in names(cond))
        types = [self.handed_type() for _ in range(rng.choice((0, 0, 0, 1, 2)))]
        both = self.matched() if level == PER_WAVE and self.under == UNIFORM and rng.random() < 0.4 else ()
        arms: list[Block] = []
        for _ in range(2):
            with self.region(level):
                self.b.open()
                if types or both or not arms or rng.random() < 0.6:
                    self.block(both)
                arms.append(self.b.close([self.handed(type_, UNIFORM) for type_ in types]))
        found = self.b.branch(cond, arms[0], arms[1], tuple("result" for _ in types))
        for value in found:
            self.define(value, PER_WAVE if level < PER_WAVE and isinstance(value.type, Tile) else level, odd)
        return True

    def handed_type(self) -> Type:
        rng = self.rng
        kind = rng.choice(("tile", "tile", "index", "other"))
        if kind == "tile":
            return self.any_tile().type
        if kind == "index":
            return INDEX
        found = self.some(lambda v: v.type == DEP or (isinstance(v.type, Lds) and self.is_one_buffer(v)))
        flags = self.flags(UNIFORM)
        if flags and rng.random() < 0.3:
            return FLAG
        return INDEX if found is None else found.type

    def matched(self) -> tuple[Callable[[], None], ...]:
        """The same barriers for regions of different waves."""
        kinds = [
            self.rng.choice((ops.WorkgroupBarrier, ops.SharedMemoryBarrier)) for _ in range(self.rng.choice((1, 2)))
        ]
        return tuple(lambda cls=cls: self.emit(cls()) for cls in kinds)  # type: ignore[misc]

    def make_specialize(self) -> bool:
        if self.depth >= 3 or self.left < 2:
            return False
        rng = self.rng
        ends = sorted(rng.sample(range(self.waves + 1), min(self.waves + 1, rng.choice((2, 2, 3)))))
        both: tuple[Callable[[], None], ...] = ()
        if self.under == UNIFORM and rng.random() < 0.4:
            ends = sorted({0, self.waves, *ends[1:-1]})
            both = self.matched()
        for first, last in pairwise(ends):
            with self.region(PER_WAVE):
                self.b.open()
                mine = self.own_barrier(last - first) if rng.random() < 0.3 else ()
                self.block(mine or both)
                if mine and both:
                    for mark in both:
                        mark()
                group = Group(first, last, self.b.close())
            if rng.random() < 0.9 or both:
                self.b.group(group)
        return True

    def own_barrier(self, arrivals: int) -> tuple[Callable[[], None], ...]:
        """A named barrier that the waves of one group share; where waves differ already, nobody can say who comes."""
        if self.under != PER_WAVE or self.depth != 1 or (self.target and self.runnable):
            return ()
        barrier = self.b.fresh("named", BarrierObject("named_barrier", arrivals))
        self.emit(ops.NewBarrier(barrier))
        return (lambda: self.emit(ops.Signal(barrier)), lambda: self.emit(ops.Wait(barrier)))

    def make_exit(self) -> bool:
        """Under a condition on which all waves agree; or for some lanes, the same in all waves."""
        if self.rng.random() < 0.8 or self.busy:
            return False
        if not self.runnable and self.rng.random() < 0.5:
            self.emit(ops.Exit())
            return True
        if self.under != UNIFORM:
            return False
        cond: Cond = Compare("<", Name(LANE), Const(self.rng.choice((0, 3, 100))))
        if self.rng.random() < 0.6:
            cond = self.cond(UNIFORM)
        self.b.open()
        self.emit(ops.Exit())
        then = self.b.close()
        self.b.branch(cond, then, Block())
        return True

    # --- synchronization ---

    def deps(self) -> tuple[Value, ...]:
        found = [value for value in self.values if value.type == DEP]
        return tuple(self.rng.sample(found, min(len(found), self.rng.choice((0, 1, 2)))))

    def counts(self) -> tuple[ops.Count, ...]:
        chosen = self.rng.sample(COUNTERS, self.rng.choice((0, 0, 1, 2)))
        if self.target and self.runnable:
            chosen = []
        return tuple((name, self.rng.choice((0, 1, 5, 15))) for name in chosen)

    def may_meet(self) -> bool:
        return not self.runnable or self.under == UNIFORM

    def pinned(self) -> bool:
        return self.rng.random() < 0.1

    def make_barrier(self) -> bool:
        if not self.may_meet():
            return False
        if self.rng.random() < 0.5:
            self.emit(ops.WorkgroupBarrier(self.pinned()))
        else:
            waits = self.rng.random() < 0.3
            self.emit(ops.SharedMemoryBarrier(self.counts(), waits, self.deps(), self.pinned()))
        return True

    def make_split(self) -> bool:
        """Signal and wait, with operations between: on a number, or on a named barrier of all waves."""
        rng = self.rng
        if not self.may_meet() or self.left < 1:
            return False
        named = self.some(lambda v: isinstance(v.type, BarrierObject) and v.type.kind == "named_barrier")
        if not self.runnable:
            barrier: int | Value = named if named is not None and rng.random() < 0.5 else rng.choice((-1, 0, 3))
            self.emit(rng.choice((ops.Signal, ops.Wait))(barrier, self.pinned()))
            return True
        if self.split:
            barrier = -1
            if "-1" in self.busy:
                return False
        elif not self.target:
            barrier = self.b.fresh("named", BarrierObject("named_barrier", self.waves))
            self.emit(ops.NewBarrier(barrier))
        else:
            return False
        self.busy.add("-1")
        self.emit(ops.Signal(barrier, self.pinned()))
        for _ in range(rng.choice((0, 1, 2))):
            self.left -= 1
            self.quiet()
        self.emit(ops.Wait(barrier, self.pinned()))
        self.busy.discard("-1")
        return True

    def quiet(self) -> None:
        """An operation that is no barrier and no region."""
        getattr(self, f"make_{self.rng.choice(('local_read', 'local_write', 'elementwise', 'global_read'))}")()

    def make_conditional_barrier(self) -> bool:
        rng = self.rng
        if not self.runnable:
            self.emit(ops.ConditionalBarrier(rng.choice(("low", "high"))))
            return True
        if self.under != UNIFORM or self.waves % 2:
            return False
        first, second = rng.choice((("low", "high"), ("high", "low")))
        self.emit(ops.ConditionalBarrier(first))
        for _ in range(rng.choice((0, 1, 3))):
            self.left -= 1
            self.quiet()
            if rng.random() < 0.4:
                self.make_barrier()
        self.emit(ops.ConditionalBarrier(second))
        return True

    def make_wait_count(self) -> bool:
        counts, deps = self.counts(), self.deps()
        if not counts and not deps:
            return False
        self.emit(ops.WaitCount(counts, deps))
        return True

    def make_small_sync(self) -> bool:
        rng = self.rng
        kind = rng.choice(("wave", "proxy", "schedule", "prio"))
        if kind == "proxy" and self.target and self.runnable:
            return False
        if kind in ("wave", "proxy"):
            self.emit(ops.Fence("wave" if kind == "wave" else "proxy_async"))
        else:
            self.emit(ops.SchedulingBarrier() if kind == "schedule" else ops.SetWavePrio(rng.randrange(4)))
        return True

    def make_object(self) -> bool:
        """A barrier object; runnable kernels also get one whole phase of it."""
        rng = self.rng
        kind = rng.choice(("named_barrier", "mbarrier", "mbarrier"))
        slots = rng.choice((1, 1, 2)) if kind == "mbarrier" else 1
        if self.runnable:
            return not self.target and self.under == UNIFORM and self.loops == 0 and self.one_phase(slots)
        self.emit(ops.NewBarrier(self.fresh("object", BarrierObject(kind, rng.choice((1, self.waves)), slots))))
        return True

    def make_mbarrier_use(self) -> bool:
        place = None if self.runnable else self.mbarrier_place()
        if place is None:
            return False
        if self.rng.random() < 0.5:
            self.emit(ops.MbarrierArrive(place, self.rng.choice((0, 0, 64, 1024))))
        else:
            self.emit(ops.MbarrierWait(place, self.index(PER_WAVE)))
        return True

    def one_phase(self, slots: int) -> bool:
        """Some waves arrive, one may start a copy that reports, and all wait: two phases now and then."""
        rng = self.rng
        alone = rng.random() < 0.4
        barrier = self.b.fresh("mbar", BarrierObject("mbarrier", 1 if alone else self.waves, slots))
        self.emit(ops.NewBarrier(barrier))
        place = Place(barrier, Const(rng.randrange(slots)))
        for phase in range(rng.choice((1, 1, 2))):
            if alone:
                with self.region(PER_WAVE):
                    self.b.open()
                    self.arrive(place)
                    producer = Group(0, 1, self.b.close())
                self.emit(ops.Specialize((producer,)))
                # Without this, the producer could run ahead by two phases, and others would miss one.
                self.emit(ops.MbarrierWait(place, Const(phase)))
                self.emit(ops.WorkgroupBarrier())
            else:
                self.arrive(place)
                self.emit(ops.MbarrierWait(place, Const(phase + 2 * rng.randrange(2))))
        return True

    def arrive(self, place: Place) -> None:
        copy = self.reporting(place)
        bytes_ = copy.tile.bytes if isinstance(copy, ops.GatherToLds | ops.TensorLoadToLds) else 0
        arrive = ops.MbarrierArrive(place, bytes_)
        for op in self.rng.sample((arrive, copy), 2) if copy is not None else (arrive,):
            self.emit(op)

    def reporting(self, place: Place) -> Op | None:
        here = self.buffer()
        there = self.some(lambda v: isinstance(v.type, Global) and here is not None and v.type.dtype == here.type.dtype)
        if here is None or there is None or self.rng.random() < 0.3:
            return None
        return self.copy(self.rng.choice((ops.GatherToLds, ops.TensorLoadToLds)), here, there, place)

    def loop_phase(self, bounds: int, lower: Index, step: Index) -> Callable[[Value], None] | None:
        """One phase of an mbarrier in each trip: its parity is that of the trip."""
        if not self.runnable or self.target or bounds or self.under or self.loops or self.depth:
            return None
        barrier = self.b.fresh("mbar", BarrierObject("mbarrier", self.waves))
        self.emit(ops.NewBarrier(barrier))
        place = Place(barrier)

        def mark(counter: Value) -> None:
            trip = Binary("//", Binary("-", Name(counter.name), lower), step)
            self.arrive(place)
            self.emit(ops.MbarrierWait(place, Binary("mod", trip, Const(2))))

        return mark


def _has_split(target: str) -> bool:
    from tidegate.targets import load_target

    return load_target(target).barrier.split


def _is_int(dtype: DType) -> bool:
    return not dtype.is_float and dtype != i1


def _has_inexact(expr: Index | Cond) -> bool:
    from tidegate.index import is_inexact

    return is_inexact(expr)


def _held(op: Op) -> Iterator[Value]:
    """Buffers that an operation takes as a value, or that operations in its regions name."""
    for block in ops.blocks_of(op):
        yield from (each for each in block.yields if isinstance(each, Value))
        for inner in block.ops:
            yield from _held(inner)
    for name in ("then", "otherwise"):
        value = getattr(op, name, None)
        if isinstance(value, Value):
            yield value
    if isinstance(op, ops.View):
        yield op.place.base
    yield from (each.init for each in getattr(op, "carried", ()) if isinstance(each.init, Value))


_FLOATS_ONLY = frozenset("exp exp2 log log2 sqrt rsqrt recip sin cos tanh sigmoid floor".split())
_NOT_FOR_FLOATS = frozenset("and or xor not".split())
# How often each kind of operation is tried; some find nothing to work on and another is drawn.
_WEIGHTS = {
    "alloc": 5,
    "dealloc": 1,
    "view": 2,
    "select_view": 1.5,
    "global_read": 4,
    "global_write": 4,
    "local_read": 10,
    "local_write": 10,
    "atomic_add": 2,
    "read_index": 1,
    "copy": 6,
    "commit_group": 1,
    "null_dep": 1,
    "tile": 2,
    "elementwise": 5,
    "shape": 4,
    "mma": 2,
    "let": 3,
    "iterate": 5,
    "conditional": 4,
    "specialize": 2,
    "exit": 1,
    "barrier": 5,
    "split": 2,
    "conditional_barrier": 1,
    "wait_count": 2,
    "small_sync": 2,
    "object": 2,
    "mbarrier_use": 2,
}


# --- small kernels, to be tried exhaustively ----------------------------------------------------------------------


def small_kernel(rng: random.Random, *, exact: bool) -> Kernel:
    """A few accesses with affine indices under loops and conditions with small bounds.

    Exact ones hold only what the analysis of indices follows completely: no results of loops or conditions, carried
    indices that are numbers in each trip, no lanes, no exits. The others hold all of that too.
    """
    return _Small(rng, exact).kernel()


class _Small:
    def __init__(self, rng: random.Random, exact: bool) -> None:
        self.rng, self.exact = rng, exact
        self.b = Builder(spans=False)
        self.names: list[Index] = [Name(WAVE)]
        self.tile = Value("", INDEX)
        self.depth = 0

    def kernel(self) -> Kernel:
        rng = self.rng
        sizes: tuple[Size, ...] = ()
        where: tuple[Cond, ...] = ()
        if rng.random() < 0.4:
            sizes, where = (Size("N", 2),), (Compare("<=", Name("N"), Const(3)),)
            self.names.append(Name("N"))
        args = (Value("%f", FLAG),) if rng.random() < 0.3 else ()
        self.flags = [each.name for each in args]
        self.buffers = []
        for _ in range(rng.choice((1, 2))):
            shape = tuple(rng.choice((2, 3, 5, 8)) for _ in range(rng.choice((1, 1, 2))))
            self.buffers.append(self.b.fresh("lds", Lds(shape, i32, rng.choice((1, 2, 3)))))
            self.b.emit(ops.Alloc(self.buffers[-1]))
        self.block(rng.choice((2, 3, 5)))
        return self.b.kernel("small", args, rng.choice((1, 2, 3)), sizes=sizes, where=where)

    def index(self, depth: int = 1) -> Index:
        made = random_index(self.rng, self.names, depth, affine=True, flags=() if self.exact else self.flags)
        return Binary("mod", made, Const(self.rng.choice((2, 3, 4)))) if self.rng.random() < 0.5 else made

    def cond(self) -> Cond:
        names = self.names if self.exact or self.rng.random() < 0.8 else [*self.names, Name(LANE)]
        return random_cond(self.rng, names, 1, affine=True, flags=self.flags)

    def block(self, count: int) -> None:
        visible = len(self.names)
        for _ in range(count):
            kind = self.rng.choice(("access", "access", "let", "loop", "conditional", "group", "other"))
            if kind == "access" or self.depth >= 3:
                self.access()
            elif kind == "let":
                value = self.b.fresh("let", INDEX)
                self.b.emit(ops.Let(value, self.index() if self.exact or self.rng.random() < 0.8 else Name(LANE)))
                self.names.append(Name(value.name))
            elif kind == "loop":
                self.loop()
            elif kind == "conditional":
                self.conditional()
            elif kind == "group":
                self.b.open()
                self.inner()
                self.b.emit(ops.Specialize((Group(0, 1, self.b.close()),)))
            elif not self.exact and self.rng.random() < 0.5:
                self.b.emit(ops.Exit())
        del self.names[visible:]

    def inner(self) -> None:
        self.depth += 1
        self.block(self.rng.choice((1, 1, 2)))
        self.depth -= 1

    def access(self) -> None:
        rng, buffer = self.rng, self.rng.choice(self.buffers)
        assert isinstance(buffer.type, Lds)
        shape = buffer.type.shape[rng.choice((0, len(buffer.type.shape) - 1)) :]
        tile = Tile(tuple(rng.choice((1, 1, 2)) for _ in shape), i32)
        index = tuple(self.index() for _ in buffer.type.shape)
        slot = self.index() if buffer.type.slots > 1 or rng.random() < 0.1 else ZERO
        bounds = tuple(self.index() for _ in index) if rng.random() < 0.3 else ()
        mask = None
        if not self.exact and rng.random() < 0.2:
            mask = self.b.fresh("mask", Tile(tile.shape, i1))
            self.b.emit(ops.Fill(mask, 0.0))
        self.b.emit(ops.LocalRead(self.b.fresh("read", tile), Place(buffer, slot, index), bounds, mask))

    def loop(self) -> None:
        rng = self.rng
        lower: Index = Const(rng.choice((0, 0, 1, -1)))
        upper: Index = Const(rng.choice((0, 1, 2, 3, 4)))
        if rng.random() < 0.3:
            upper = Binary("mod", self.index(), Const(3))
        carried: tuple[Carried, ...] = ()
        if rng.random() < 0.4:
            start: Index = Const(rng.choice((0, 1, 2)))
            carried = (Carried(self.b.fresh("s", INDEX), start if self.exact else rng.choice((start, self.index()))),)
        counter = self.b.counter("k")
        visible = len(self.names)
        self.names += [Name(counter.name), *(Name(each.value.name) for each in carried)]
        self.b.open()
        self.inner()
        yields: list[Operand] = []
        for each in carried:
            after: Index = Binary("+", Name(each.value.name), Const(rng.choice((1, 1, 2))))
            yields.append(after if rng.random() < 0.5 else Binary("mod", after, Const(rng.choice((2, 3)))))
            if not self.exact and rng.random() < 0.4:
                yields[-1] = self.index()
        body = self.b.close(yields)
        del self.names[visible:]
        results = self.b.loop(lower, upper, body, counter, carried, Const(rng.choice((1, 1, 2))))
        if not self.exact:
            self.names += [Name(each.name) for each in results]

    def conditional(self) -> None:
        count = 0 if self.exact else self.rng.choice((0, 1))
        cond, arms = self.cond(), []
        for _ in range(2):
            self.b.open()
            self.inner()
            arms.append(self.b.close([self.index() for _ in range(count)]))
        results = self.b.branch(cond, arms[0], arms[1], ("result",) * count)
        self.names += [Name(each.name) for each in results]
