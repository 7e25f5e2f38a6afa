"""The types of values in a kernel.

    Type ::= tile<32x64xf16>                     what one wave holds in its registers
           | lds<64x32xf16, slots = 2>           a buffer in shared memory
           | global<MxKxf16>                     an argument in global memory, sizes may be parameters
           | index | flag                        an integer, a boolean that all lanes of a wave share
           | dep                                 an asynchronous operation that something may wait for
           | named_barrier<4> | mbarrier<4, slots = 2>

The number of a barrier object is how many arrivals complete one of its phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `numpy` names the type that holds it in NumPy or ml_dtypes."""

    name: str
    bits: int
    numpy: str

    @property
    def is_float(self) -> bool:
        return self.name[0] in "fb"

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    def __repr__(self) -> str:
        return self.name


f64 = DType("f64", 64, "float64")
f32 = DType("f32", 32, "float32")
f16 = DType("f16", 16, "float16")
bf16 = DType("bf16", 16, "bfloat16")
f8e4m3fn = DType("f8e4m3fn", 8, "float8_e4m3fn")
f8e5m2 = DType("f8e5m2", 8, "float8_e5m2")
f8e4m3fnuz = DType("f8e4m3fnuz", 8, "float8_e4m3fnuz")
f8e5m2fnuz = DType("f8e5m2fnuz", 8, "float8_e5m2fnuz")
i64 = DType("i64", 64, "int64")
i32 = DType("i32", 32, "int32")
i16 = DType("i16", 16, "int16")
i8 = DType("i8", 8, "int8")
i1 = DType("i1", 1, "bool")

DTYPES = {
    each.name: each for each in (f64, f32, f16, bf16, f8e4m3fn, f8e5m2, f8e4m3fnuz, f8e5m2fnuz, i64, i32, i16, i8, i1)
}


@dataclass(frozen=True, slots=True)
class Tile:
    """What one wave holds in registers. A tile without dimensions is a scalar."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes

    def __str__(self) -> str:
        return f"tile<{'x'.join(map(str, (*self.shape, self.dtype.name)))}>"


@dataclass(frozen=True, slots=True)
class Lds:
    """A buffer in shared memory: `slots` copies of a row-major array, one after the other."""

    shape: tuple[int, ...]
    dtype: DType
    slots: int = 1

    @property
    def slot_bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes

    @property
    def bytes(self) -> int:
        return self.slot_bytes * self.slots

    def __str__(self) -> str:
        slots = f", slots = {self.slots}" if self.slots != 1 else ""
        return f"lds<{'x'.join(map(str, (*self.shape, self.dtype.name)))}{slots}>"


@dataclass(frozen=True, slots=True)
class Global:
    """An array in global memory; a dimension is a number or the name of a size parameter."""

    shape: tuple[int | str, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"global<{'x'.join(map(str, (*self.shape, self.dtype.name)))}>"


@dataclass(frozen=True, slots=True)
class Plain:
    """A type without parameters: `index`, `flag` or `dep`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class BarrierObject:
    """A barrier with participants of its own: `named_barrier` or `mbarrier`, which has phases, bytes and slots."""

    kind: str
    arrivals: int
    slots: int = 1

    def __str__(self) -> str:
        slots = f", slots = {self.slots}" if self.slots != 1 else ""
        return f"{self.kind}<{self.arrivals}{slots}>"


Type = Tile | Lds | Global | Plain | BarrierObject

MAX_SIZE = 10**12 - 1  # what the text can say
MAX_COUNT = 10**9 - 1
MAX_ELEMENTS = 1 << 40


def why_no_type(type_: Type) -> str:
    """What the text cannot say about a type that was not read from text; empty if nothing is wrong with it."""
    match type_:
        case Plain():
            return ""
        case BarrierObject():
            bad = _bad_count(type_.arrivals, "arrivals") or _bad_count(type_.slots, "slots")
            return bad and f"{bad} in {type_.kind.replace('_', ' ')}"
    if not isinstance(type_.dtype, DType):
        return f"`{type_.dtype!r}` is not an element type"
    for dim in type_.shape:
        named = isinstance(type_, Global) and isinstance(dim, str)
        if not named and (type(dim) is not int or not 1 <= dim <= MAX_SIZE):
            return f"`{dim!r}` is not a size: sizes are positive numbers of at most 12 digits"
    if isinstance(type_, Global):
        return ""
    slots = type_.slots if isinstance(type_, Lds) else 1
    bad = _bad_count(slots, "slots")
    if not bad and prod(type_.shape) * slots > MAX_ELEMENTS:
        bad = f"`{type_}` has more than 2^40 elements"
    return bad


def _bad_count(number: int, what: str) -> str:
    is_count = type(number) is int and 1 <= number <= MAX_COUNT
    return "" if is_count else f"`{number!r}` is not a number of {what}"


INDEX, FLAG, DEP = Plain("index"), Plain("flag"), Plain("dep")
# What a name has after it was reported as undefined; every rule accepts it, so that one mistake is one finding.
UNKNOWN = Plain("unknown")


def strides(shape: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Row-major strides, in the unit of the last dimension's step."""
    steps = []
    for size in reversed(shape):
        steps.append(unit)
        unit *= size
    return tuple(reversed(steps))
