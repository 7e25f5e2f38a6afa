"""What tile operations compute, as instructions on the registers of a lane.

Needs   tiles in registers
Gives   element-wise functions, casts, folds and running folds along an axis, matrix products
Keeps   what `simulate/tiles.py` says: floats narrower than 32 bits are computed with 32 and rounded once; integers
        wrap; a division of integers rounds down and by 0 gives 0; NaN spreads through `max` and `min`
Cost    constant for each register, but for folds across lanes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.language.types import DType, Tile, f32, f64, i32
from tidegate.lowering.gpu import Backend, Unbuilt
from tidegate.lowering.held import HeldTile, held_as, lane_bits, moved
from tidegate.lowering.ir import IrWriter, Scalar, type_of
from tidegate.lowering.spread import FREE, Shape, TileSpread, bits_of, coordinates, narrowed

MOST_BY_HAND = 4096  # products of a tile that no matrix instruction takes, in one lane
FLOAT_TESTS: Mapping[str, str] = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une", "ge": "oge", "gt": "ogt"}
INT_TESTS: Mapping[str, str] = {"lt": "slt", "le": "sle", "eq": "eq", "ne": "ne", "ge": "sge", "gt": "sgt"}
PLAIN_FLOAT: Mapping[str, str] = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
PLAIN_INT: Mapping[str, str] = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453


def number(value: float, dtype: DType) -> str:
    """A constant as LLVM writes it: floats by their bits, as those of a double."""
    if not dtype.is_float:
        return {True: "true", False: "false"}[bool(value)] if dtype.name == "i1" else str(int(value))
    import struct

    import numpy as np

    if dtype.name in ("f16", "bf16"):
        import ml_dtypes

        kind = np.float16 if dtype.name == "f16" else ml_dtypes.bfloat16
        return f"0x{'H' if dtype.name == 'f16' else 'R'}{np.asarray(value, kind).view(np.uint16).item():04X}"
    with np.errstate(all="ignore"):
        rounded = float(np.float32(value)) if dtype.bits == 32 else value
    return f"0x{struct.unpack('>Q', struct.pack('>d', rounded))[0]:016X}"


def computed_in(dtype: DType) -> DType:
    """The type in which arithmetic on a type is done."""
    return dtype if not dtype.is_float or dtype.bits == 64 else f32


# --- one element --------------------------------------------------------------------------------------------------


def convert(w: IrWriter, value: str, have: DType, want: DType) -> str:
    """The same number in another type."""
    a, b = type_of(have), type_of(want)
    if a == b:
        return value
    if want.name == "i1":
        zero = number(0, have)
        return w.once(f"{'fcmp une' if have.is_float else 'icmp ne'} {a} {value}, {zero}")
    if have.is_float and want.is_float:
        if have.bits == want.bits:  # f16 and bf16: by way of f32
            return convert(w, convert(w, value, have, f32), f32, want)
        return w.once(f"{'fpext' if want.bits > have.bits else 'fptrunc'} {a} {value} to {b}")
    if have.is_float:
        return w.call(b, f"llvm.fptosi.sat.{b}.{_suffix(a)}", ((a, value),))
    if want.is_float:
        how = "uitofp" if have.name == "i1" else "sitofp"
        if want.bits == 16 and have.bits > 16:  # rounded once
            return w.once(f"{how} {a} {value} to {b}")
        return w.once(f"{how} {a} {value} to {b}")
    if want.bits > have.bits:
        return w.once(f"{'zext' if have.name == 'i1' else 'sext'} {a} {value} to {b}")
    return w.once(f"trunc {a} {value} to {b}")


def _suffix(kind: str) -> str:
    return {"double": "f64", "float": "f32", "half": "f16", "bfloat": "bf16"}.get(kind, kind)


def element(w: IrWriter, gpu: Backend, fn: str, args: Sequence[str], kinds: Sequence[DType], result: DType) -> str:
    """One function of the language on one element."""
    if fn == "where":
        kind = type_of(result)
        a, b = (convert(w, each, have, result) for each, have in zip(args[1:], kinds[1:], strict=True))
        return w.once(f"select i1 {args[0]}, {kind} {a}, {kind} {b}")
    if fn == "not":
        return w.once(f"xor {type_of(result)} {args[0]}, {'true' if result.name == 'i1' else -1}")
    if fn in ("and", "or", "xor"):
        return w.once(f"{fn} {type_of(result)} {args[0]}, {args[1]}")
    work = computed_in(kinds[0])
    if work.name == "i1":
        work = i32
    if not work.is_float and fn in FLOAT_ONLY:
        work = f64 if work.bits == 64 else f32
    given = [convert(w, each, have, work) for each, have in zip(args, kinds, strict=True)]
    kind = type_of(work)
    if fn in FLOAT_TESTS:
        test = f"fcmp {FLOAT_TESTS[fn]}" if work.is_float else f"icmp {INT_TESTS[fn]}"
        return convert(w, w.once(f"{test} {kind} {given[0]}, {given[1]}"), BOOL, result)
    found = on_floats(w, gpu, fn, given, work) if work.is_float else on_integers(w, fn, given, kind)
    return convert(w, found, work, result)


BOOL = DType("i1", 1, "bool")
FLOAT_ONLY = frozenset(("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "recip", "sin", "cos", "tanh", "sigmoid"))


def on_floats(w: IrWriter, gpu: Backend, fn: str, args: Sequence[str], work: DType) -> str:
    kind, suffix = type_of(work), _suffix(type_of(work))
    if fn in PLAIN_FLOAT:
        return w.once(f"{PLAIN_FLOAT[fn]} {kind} {args[0]}, {args[1]}")

    def known(name: str, *given: str) -> str:
        return w.call(kind, f"llvm.{name}.{suffix}", tuple((kind, each) for each in given))

    def of(name: str, *given: str) -> str:
        return on_floats(w, gpu, name, given, work)

    one, zero = number(1.0, work), number(0.0, work)
    x = args[0]
    match fn:
        case "neg":
            return w.once(f"fneg {kind} {x}")
        case "abs" | "sqrt" | "floor":
            return known({"abs": "fabs"}.get(fn, fn), x)
        case "max" | "min":
            return known(f"{fn}imum", *args)
        case "fma":
            return known("fma", *args)
        case "relu":
            return known("maximum", x, zero)
        case "recip":
            return of("div", one, x)
        case "exp":
            return of("exp2", of("mul", x, number(LOG2_E, work)))
        case "log":
            return of("mul", of("log2", x), number(LN_2, work))
        case "sigmoid":
            return of("div", one, of("add", one, of("exp", of("neg", x))))
        case "tanh":  # 1 - 2 / (exp(2x) + 1): right at both ends
            grown = of("exp", of("add", x, x))
            return of("sub", one, of("div", number(2.0, work), of("add", grown, one)))
        case "rem":  # rounds down: the rest has the sign of the divisor
            whole = of("floor", of("div", x, args[1]))
            return known("fma", of("neg", whole), args[1], x)
        case "pow":
            return of("exp2", of("mul", args[1], of("log2", x)))
    try:
        return gpu.function(w, fn, kind, args)
    except KeyError:
        raise Unbuilt(f"`{fn}` of {work.name}") from None


def on_integers(w: IrWriter, fn: str, args: Sequence[str], kind: str) -> str:
    if fn in PLAIN_INT:
        return w.once(f"{PLAIN_INT[fn]} {kind} {args[0]}, {args[1]}")
    x = args[0]
    match fn:
        case "neg":
            return w.once(f"sub {kind} 0, {x}")
        case "abs":
            return w.call(kind, f"llvm.abs.{kind}", ((kind, x), ("i1", "false")))
        case "max" | "min":
            return w.call(kind, f"llvm.s{fn}.{kind}", ((kind, x), (kind, args[1])))
        case "relu":
            return w.call(kind, f"llvm.smax.{kind}", ((kind, x), (kind, 0)))
        case "fma":
            return w.once(f"add {kind} {w.once(f'mul {kind} {x}, {args[1]}')}, {args[2]}")
        case "floor":
            return x
        case "div" | "rem":
            return _rounded_down(w, fn, x, args[1], kind)
    raise Unbuilt(f"`{fn}` of {kind}")


def _rounded_down(w: IrWriter, fn: str, a: str, b: str, kind: str) -> str:
    is_zero = w.once(f"icmp eq {kind} {b}, 0")
    is_minus = w.once(f"icmp eq {kind} {b}, -1")  # the smallest number by -1 is more than there is
    special = w.once(f"or i1 {is_zero}, {is_minus}")
    by = w.once(f"select i1 {special}, {kind} 1, {kind} {b}")
    quotient, rest = w.once(f"sdiv {kind} {a}, {by}"), w.once(f"srem {kind} {a}, {by}")
    signs = w.once(f"icmp slt {kind} {w.once(f'xor {kind} {rest}, {by}')}, 0")
    parted = w.once(f"and i1 {w.once(f'icmp ne {kind} {rest}, 0')}, {signs}")
    if fn == "div":
        found = w.once(f"select i1 {parted}, {kind} {w.once(f'sub {kind} {quotient}, 1')}, {kind} {quotient}")
        found = w.once(f"select i1 {is_minus}, {kind} {w.once(f'sub {kind} 0, {a}')}, {kind} {found}")
    else:
        found = w.once(f"select i1 {parted}, {kind} {w.once(f'add {kind} {rest}, {by}')}, {kind} {rest}")
        found = w.once(f"select i1 {is_minus}, {kind} 0, {kind} {found}")
    return w.once(f"select i1 {is_zero}, {kind} 0, {kind} {found}")


# --- along an axis ------------------------------------------------------------------------------------------------


def start_of(fn: str, dtype: DType) -> str:
    """What changes nothing when it is folded in."""
    if fn == "add":
        return number(0, dtype)
    if dtype.is_float:
        return number(float("-inf") if fn == "max" else float("inf"), dtype)
    lowest = -(1 << (dtype.bits - 1))
    return str(lowest if fn == "max" else -lowest - 1)


def _work_of(have: DType, want: DType) -> DType:
    """Sums grow in the wider of the two types."""
    kinds = [i32 if each.name == "i1" else computed_in(each) for each in (have, want)]
    return max(kinds, key=lambda each: (each.is_float, each.bits))


def _filled(w: IrWriter, gpu: Backend, fn: str, tile: HeldTile, work: DType) -> list[str]:
    """The elements in the type of the sum; beside the tile, what changes nothing."""
    made = []
    for register, value in enumerate(tile.values):
        value = convert(w, value, tile.dtype, work)
        inside = inside_of(w, gpu, tile.spread, tile.shape, register)
        if inside == "false":
            value = start_of(fn, work)
        elif inside:
            value = w.once(f"select i1 {inside}, {type_of(work)} {value}, {type_of(work)} {start_of(fn, work)}")
        made.append(value)
    return made


def inside_of(w: IrWriter, gpu: Backend, spread: TileSpread, shape: Shape, register: int) -> str:
    """Whether a register's element is one of the tile's, and not padding; empty if it always is."""
    tests = []
    at = coordinates(spread.of_register(register), shape)
    for axis, side in enumerate(shape):
        bits = bits_of(shape, axis)
        if side == 1 << len(bits):
            continue
        place = w.int("add", lane_bits(w, gpu.lane, spread, bits), at[axis])
        if isinstance(place, int):
            if place >= side:
                return "false"
        else:
            tests.append(w.compare("slt", place, side))
    return w.both(tests)


def reduced(w: IrWriter, gpu: Backend, fn: str, tile: HeldTile, axis: int, want: DType) -> HeldTile:
    """Along an axis, which stays as a side of 1; all lanes along it hold the result."""
    work = _work_of(tile.dtype, want)
    values, spread, bits = _filled(w, gpu, fn, tile, work), tile.spread, bits_of(tile.shape, axis)
    shape = tuple(1 if each == axis % len(tile.shape) else side for each, side in enumerate(tile.shape))
    kept = narrowed(spread, tile.shape, shape)
    sums: dict[int, str] = {}
    for register, value in enumerate(values):
        key = kept.register_with(narrow_element(spread.of_register(register), tile.shape, axis))
        sums[key] = element(w, gpu, fn, (sums[key], value), (work, work), work) if key in sums else value
    made = [sums[key] for key in range(kept.count)]
    for place, bit in enumerate(spread.lanes):
        if bit in bits:
            other = w.int("xor", gpu.lane, 1 << place)
            made = [
                element(w, gpu, fn, (value, gpu.from_lane(w, value, work, other)), (work, work), work) for value in made
            ]
    return HeldTile(tuple(convert(w, each, work, want) for each in made), kept, shape, want)


def narrow_element(number_: int, shape: Shape, axis: int) -> int:
    """The number of an element once an axis is folded into a side of 1."""
    bits = bits_of(shape, axis)
    below = number_ & ((1 << bits.start) - 1)
    return below | (number_ >> bits.stop) << bits.start


def scanned(w: IrWriter, gpu: Backend, fn: str, tile: HeldTile, axis: int, want: DType) -> HeldTile:
    """Running, each element included: blocks of 2, 4, 8 and so on elements, whose second half takes the first's sum."""
    work = _work_of(tile.dtype, want)
    values, spread, bits = _filled(w, gpu, fn, tile, work), tile.spread, bits_of(tile.shape, axis)
    kind = type_of(work)
    for bit in bits:
        below = [each for each in bits if each < bit]
        ends = sum(1 << place for place, each in enumerate(spread.regs) if each in below)  # last of the first half
        lanes = sum(1 << place for place, each in enumerate(spread.lanes) if each in below)
        reg_of = {each: place for place, each in enumerate(spread.regs)}
        made = []
        for register, value in enumerate(values):
            source = register | ends
            if bit in reg_of:
                if not register >> reg_of[bit] & 1:
                    made.append(value)
                    continue
                source &= ~(1 << reg_of[bit])
                found = values[source]
                if lanes:
                    found = gpu.from_lane(w, found, work, w.int("or", gpu.lane, lanes))
                made.append(element(w, gpu, fn, (found, value), (work, work), work))
                continue
            place = spread.lanes.index(bit)
            other = w.int("and", w.int("or", gpu.lane, lanes), ~(1 << place))
            found = gpu.from_lane(w, values[source], work, other)
            more = element(w, gpu, fn, (found, value), (work, work), work)
            is_second = w.compare("ne", w.int("and", gpu.lane, 1 << place), 0)
            made.append(w.once(f"select i1 {is_second}, {kind} {more}, {kind} {value}"))
        values = made
    return HeldTile(tuple(convert(w, each, work, want) for each in values), spread, tile.shape, want)


# --- other shapes -------------------------------------------------------------------------------------------------


def repeated(tile: HeldTile, shape: Shape, spread: TileSpread) -> HeldTile:
    """Sides of 1 repeated; `tile` is held as `narrowed` says."""
    narrow = (1,) * (len(shape) - len(tile.shape)) + tile.shape
    values = []
    for register in range(spread.count):
        at = coordinates(spread.of_register(register), shape)
        element_ = 0
        for side, place, before in zip(shape, at, narrow, strict=True):
            wide = (before - 1).bit_length()
            element_ = element_ << wide | (place if before == side else 0)
        values.append(tile.values[tile.spread.register_with(element_)])
    return HeldTile(tuple(values), spread, shape, tile.dtype)


# --- matrix products ----------------------------------------------------------------------------------------------


def multiplied(w: IrWriter, gpu: Backend, a: HeldTile, b: HeldTile, acc: HeldTile, want: DType) -> HeldTile:
    """a · b + acc, on the matrix unit where an instruction takes the tiles."""
    tiles = (Tile(a.shape, a.dtype), Tile(b.shape, b.dtype), Tile(acc.shape, acc.dtype))
    work = computed_in(acc.dtype)
    product = gpu.product(*tiles)
    if product is None:
        return _by_hand(w, gpu, a, b, acc, want)
    a, b, acc = (held_as(each, spread, w, gpu) for each, spread in ((a, product.a), (b, product.b), (acc, product.acc)))
    sums = [convert(w, each, acc.dtype, work) for each in acc.values]
    found = gpu.multiply(w, a.values, b.values, sums, tiles)
    return HeldTile(tuple(convert(w, each, work, want) for each in found), product.acc, acc.shape, want)


def _by_hand(w: IrWriter, gpu: Backend, a: HeldTile, b: HeldTile, acc: HeldTile, want: DType) -> HeldTile:
    """Each lane computes its elements of the result; whatever it needs comes from other lanes."""
    work = computed_in(acc.dtype)
    depth, (rows, columns) = a.shape[-1], acc.shape
    if (
        len(a.shape) != 2
        or acc.spread.count * depth > MOST_BY_HAND
        or not all(each & (each - 1) == 0 for each in (rows, columns, depth))
    ):
        raise Unbuilt(f"a product of {a.shape} and {b.shape} elements of {a.dtype}, which no matrix instruction takes,")
    wide = (rows, columns)
    sums = [convert(w, each, acc.dtype, work) for each in acc.values]
    for step in range(depth):
        column = _slice(w, gpu, a, 1, step, acc.spread, wide)
        row = _slice(w, gpu, b, 0, step, acc.spread, wide)
        for register in range(acc.spread.count):
            given = (column[register], row[register])
            kinds = (a.dtype, b.dtype)
            x, y = (convert(w, each, have, work) for each, have in zip(given, kinds, strict=True))
            sums[register] = element(w, gpu, "fma", (x, y, sums[register]), (work,) * 3, work)
    return HeldTile(tuple(convert(w, each, work, want) for each in sums), acc.spread, acc.shape, want)


def _slice(
    w: IrWriter, gpu: Backend, tile: HeldTile, axis: int, at: int, spread: TileSpread, wide: Shape
) -> tuple[str, ...]:
    """One column or row of a tile, repeated to the shape of the result and held like it."""
    bits = bits_of(tile.shape, axis)
    kept = tuple(1 if each == axis else side for each, side in enumerate(tile.shape))
    have = narrowed(tile.spread, tile.shape, kept)
    wanted = narrowed(spread, wide, kept)
    chosen: dict[int, str] = {}
    fixed_lanes = [(place, at >> (bit - bits.start) & 1) for place, bit in enumerate(tile.spread.lanes) if bit in bits]
    for register, value in enumerate(tile.values):
        number_ = tile.spread.of_register(register)
        regs = [bit for bit in tile.spread.regs if bit in bits]
        if all((number_ >> bit & 1) == (at >> (bit - bits.start) & 1) for bit in regs):
            chosen[have.register_with(narrow_element(number_, tile.shape, axis))] = value
    part = HeldTile(tuple(chosen[each] for each in range(have.count)), have, kept, tile.dtype)
    if fixed_lanes:  # all lanes take it from those that hold this column
        source: Scalar = gpu.lane
        for place, bit in fixed_lanes:
            source = w.int("or", source, 1 << place) if bit else w.int("and", source, ~(1 << place))
        part = part.with_values([gpu.from_lane(w, each, tile.dtype, source) for each in part.values])
    return repeated(held_as(part, wanted, w, gpu), wide, spread).values


def renumbered(tile: HeldTile, spread: TileSpread, shape: Shape) -> HeldTile:
    """The same registers as those of another shape."""
    assert FREE not in spread.regs
    return moved(tile, spread, shape)
