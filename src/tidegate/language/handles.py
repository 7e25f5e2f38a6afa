"""What a kernel author holds in Python: values with operators, which record what is done with them.

Needs   the builder that is recording
Gives   `Tile`, `Buffer`, `Index`, ... handles; arithmetic on them records operations or builds expressions
Keeps   a handle knows one value or one expression; it decides nothing about synchronization
"""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any, NoReturn

from tidegate import index as ix
from tidegate.language import types
from tidegate.language.builder import active, reject
from tidegate.language.ops import Broadcast, Elementwise, Operand, Value
from tidegate.language.syntax import COMPARE
from tidegate.language.unusable import refuse


class Handle:
    """A value of the program."""

    __slots__ = ("value",)
    value: Value

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def type(self) -> types.Type:
        return self.value.type

    def __repr__(self) -> str:
        return f"<{self.value.name}: {self.value.type}>"

    def __bool__(self) -> bool:
        reject(
            "TG012",
            f"`{self.value.name}` has no truth value while a kernel is traced",
            "use `with tidegate.conditional(...)` for a condition of the kernel",
        )


class BufferHandle(Handle):
    """Shared memory."""

    __slots__ = ()


class GlobalHandle(Handle):
    """An array in global memory."""

    __slots__ = ()


class DepHandle(Handle):
    """An asynchronous operation."""

    __slots__ = ()


class BarrierHandle(Handle):
    """A named barrier or an mbarrier."""

    __slots__ = ()


class TileHandle(Handle):
    """A tile. Operators work element by element; numbers and dimensions of 1 are repeated."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # numbers of NumPy leave their operators to this class

    @property
    def shape(self) -> tuple[int, ...]:
        return self._tile.shape

    @property
    def dtype(self) -> types.DType:
        return self._tile.dtype

    @property
    def _tile(self) -> types.Tile:
        assert isinstance(self.value.type, types.Tile)
        return self.value.type

    def __add__(self, other: Any) -> TileHandle:
        return elementwise("add", self, other)

    def __radd__(self, other: Any) -> TileHandle:
        return elementwise("add", other, self)

    def __sub__(self, other: Any) -> TileHandle:
        return elementwise("sub", self, other)

    def __rsub__(self, other: Any) -> TileHandle:
        return elementwise("sub", other, self)

    def __mul__(self, other: Any) -> TileHandle:
        return elementwise("mul", self, other)

    def __rmul__(self, other: Any) -> TileHandle:
        return elementwise("mul", other, self)

    def __truediv__(self, other: Any) -> TileHandle:
        return elementwise("div", self, other)

    def __rtruediv__(self, other: Any) -> TileHandle:
        return elementwise("div", other, self)

    def __floordiv__(self, other: Any) -> TileHandle:
        return _floor_divide(self, self, other)

    def __rfloordiv__(self, other: Any) -> TileHandle:
        return _floor_divide(self, other, self)

    def __mod__(self, other: Any) -> TileHandle:
        return elementwise("rem", self, other)

    def __rmod__(self, other: Any) -> TileHandle:
        return elementwise("rem", other, self)

    def __and__(self, other: Any) -> TileHandle:
        return elementwise("and", self, other)

    def __rand__(self, other: Any) -> TileHandle:
        return elementwise("and", other, self)

    def __or__(self, other: Any) -> TileHandle:
        return elementwise("or", self, other)

    def __ror__(self, other: Any) -> TileHandle:
        return elementwise("or", other, self)

    def __xor__(self, other: Any) -> TileHandle:
        return elementwise("xor", self, other)

    def __rxor__(self, other: Any) -> TileHandle:
        return elementwise("xor", other, self)

    def __invert__(self) -> TileHandle:
        return elementwise("not", self)

    def __neg__(self) -> TileHandle:
        return elementwise("neg", self)

    def __abs__(self) -> TileHandle:
        return elementwise("abs", self)

    def __pow__(self, other: Any) -> TileHandle:
        return elementwise("pow", self, other)

    def __rpow__(self, other: Any) -> TileHandle:
        return elementwise("pow", other, self)

    def __matmul__(self, other: Any) -> TileHandle:
        from tidegate.language.api import mma

        return mma(self, other)

    @property
    def T(self) -> TileHandle:
        from tidegate.language.api import transpose

        return transpose(self)

    def to(self, dtype: types.DType) -> TileHandle:
        from tidegate.language.api import cast

        return cast(self, dtype)

    def __lt__(self, other: Any) -> TileHandle:
        return elementwise("lt", self, other)

    def __le__(self, other: Any) -> TileHandle:
        return elementwise("le", self, other)

    def __gt__(self, other: Any) -> TileHandle:
        return elementwise("gt", self, other)

    def __ge__(self, other: Any) -> TileHandle:
        return elementwise("ge", self, other)

    def __eq__(self, other: Any) -> TileHandle:  # type: ignore[override]
        return elementwise("eq", self, other)

    def __ne__(self, other: Any) -> TileHandle:  # type: ignore[override]
        return elementwise("ne", self, other)


class IndexHandle:
    """An index expression. It is recorded where it is used."""

    __slots__ = ("expr",)
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, expr: ix.Index) -> None:
        self.expr = expr

    def __repr__(self) -> str:
        return f"<index {ix.show(self.expr)}>"

    def __bool__(self) -> bool:
        reject(
            "TG012",
            f"`{ix.show(self.expr)}` has no truth value while a kernel is traced",
            "use `with tidegate.conditional(...)` for a condition of the kernel",
        )

    def __index__(self) -> int:
        found = ix.constant(self.expr)
        if found is None:
            reject(
                "TG012",
                f"`{ix.show(self.expr)}` is not known while a kernel is traced",
                "use `for k in tidegate.iterate(...)` for a loop of the kernel",
            )
        return found

    def _with(self, op: str, other: Any) -> Any:
        if isinstance(other, TileHandle):
            return NotImplemented  # the tile repeats the index in all its elements
        return IndexHandle(ix.combine(op, self.expr, to_index(other)))

    def _from(self, op: str, other: Any) -> Any:
        if isinstance(other, TileHandle):
            return NotImplemented
        return IndexHandle(ix.combine(op, to_index(other), self.expr))

    def _compare(self, op: str, other: Any) -> Any:
        if isinstance(other, TileHandle):
            return NotImplemented
        return CondHandle(ix.Compare(op, self.expr, to_index(other)))

    def __add__(self, other: Any) -> Any:
        return self._with("+", other)

    def __radd__(self, other: Any) -> Any:
        return self._from("+", other)

    def __sub__(self, other: Any) -> Any:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._from("-", other)

    def __mul__(self, other: Any) -> Any:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Any:
        return self._from("*", other)

    def __floordiv__(self, other: Any) -> Any:
        return self._with("//", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._from("//", other)

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, TileHandle) else _reject_bits("/", "use `//`, which rounds down")

    def __mod__(self, other: Any) -> Any:
        return self._with("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._from("mod", other)

    def __and__(self, other: Any) -> Any:
        """`x & 7` is `x mod 8`."""
        return NotImplemented if isinstance(other, TileHandle) else self % _power_of_mask(other)

    __rand__ = __and__

    def __rshift__(self, other: Any) -> Any:
        """`x >> 3` is `x // 8`."""
        return NotImplemented if isinstance(other, TileHandle) else self // _power(">>", other)

    def __lshift__(self, other: Any) -> Any:
        """`x << 3` is `x * 8`."""
        return NotImplemented if isinstance(other, TileHandle) else self * _power("<<", other)

    def __or__(self, other: Any) -> Any:
        help = "add what has no bits in common, as in `x * 2 + 1`"
        return NotImplemented if isinstance(other, TileHandle) else _reject_bits("|", help)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return self._with("xor", other)

    def __rxor__(self, other: Any) -> Any:
        return self._from("xor", other)

    def __neg__(self) -> Any:
        return self._from("-", 0)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def __eq__(self, other: Any) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: Any) -> Any:
        return self._compare("!=", other)


class SizeHandle(IndexHandle):
    """A size parameter, with the value it has when nobody says otherwise."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: int) -> None:
        super().__init__(ix.Name(name))
        self.name, self.default = name, default


class CondHandle:
    """A condition. Join conditions with `&`, `|`, `^`, `~`, `==` and `!=`."""

    __slots__ = ("cond",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, cond: ix.Cond) -> None:
        self.cond = cond

    def __repr__(self) -> str:
        return f"<condition {ix.show(self.cond)}>"

    def __bool__(self) -> bool:
        reject(
            "TG012",
            f"`{ix.show(self.cond)}` is not known while a kernel is traced",
            "use `with tidegate.conditional(...)`, and `&`, `|`, `~` for `and`, `or`, `not`",
        )

    def __and__(self, other: Any) -> CondHandle:
        return CondHandle(ix.Logic("and", self.cond, to_cond(other)))

    def __rand__(self, other: Any) -> CondHandle:
        return CondHandle(ix.Logic("and", to_cond(other), self.cond))

    def __or__(self, other: Any) -> CondHandle:
        return CondHandle(ix.Logic("or", self.cond, to_cond(other)))

    def __ror__(self, other: Any) -> CondHandle:
        return CondHandle(ix.Logic("or", to_cond(other), self.cond))

    def __invert__(self) -> CondHandle:
        return CondHandle(ix.Not(self.cond))

    def __xor__(self, other: Any) -> CondHandle:
        """Exactly one of the two."""
        mine, theirs = self.cond, to_cond(other)
        if isinstance(theirs, ix.Truth):
            return ~self if theirs.value else self
        return CondHandle(ix.Logic("or", _both(mine, ix.Not(theirs)), _both(ix.Not(mine), theirs)))

    __rxor__ = __xor__

    def __ne__(self, other: Any) -> CondHandle:  # type: ignore[override]
        return self.__xor__(other)

    def __eq__(self, other: Any) -> CondHandle:  # type: ignore[override]
        """Both or neither."""
        mine, theirs = self.cond, to_cond(other)
        if isinstance(theirs, ix.Truth):
            return self if theirs.value else ~self
        return CondHandle(ix.Logic("or", _both(mine, theirs), _both(ix.Not(mine), ix.Not(theirs))))


def _both(left: ix.Cond, right: ix.Cond) -> ix.Cond:
    return ix.Logic("and", left, right)


def _power_of_mask(mask: Any) -> int:
    number = ix.constant(to_index(mask))
    if number is None or number < 0 or number & (number + 1):
        _reject_bits("&", "`x & 7` is `x % 8`: the mask is one less than a power of two")
    return number + 1


def _power(op: str, bits: Any) -> int:
    number = ix.constant(to_index(bits))
    if number is None or not 0 <= number < 64:
        _reject_bits(op, "`x << 3` is `x * 8` and `x >> 3` is `x // 8`: shift by a number that is known, 0 to 63")
    return int(1 << number)


def _reject_bits(op: str, help: str) -> NoReturn:
    reject("TG012", f"`{op}` of these is no index expression", help)


def as_number(item: Any) -> int | None:
    """The whole number that a Python object is, if it is one: an `int`, or what has `__index__`."""
    if isinstance(item, Handle | IndexHandle):
        return None
    try:
        return operator.index(item)
    except TypeError:
        return None


def to_index(item: Any) -> ix.Index:
    """An index from what a user passed."""
    if isinstance(item, IndexHandle):
        return item.expr
    number = as_number(item)
    if number is None:
        reject("TG012", f"an index cannot be made of `{item!r}`")
    return ix.Const(number)


def to_cond(item: Any) -> ix.Cond:
    refuse(item)
    if isinstance(item, CondHandle):
        return item.cond
    if isinstance(item, bool):
        return ix.Truth(item)
    reject("TG012", f"a condition cannot be made of `{item!r}`", "compare something, as in `wave < 2`")


def to_value(item: Any, kind: type[Handle], what: str) -> Value:
    refuse(item)
    if isinstance(item, kind):
        return item.value
    reject("TG012", f"expected {what}, found `{item!r}`")


def to_operand(item: Any) -> Operand:
    """What can be carried: a handle's value, or an index."""
    return item.value if isinstance(item, Handle) else to_index(item)


def wrap(operand: Operand) -> Any:
    """The handle for a value of the program, by its type."""
    if not isinstance(operand, Value):
        return IndexHandle(operand)
    match operand.type:
        case types.Tile():
            return TileHandle(operand)
        case types.Lds():
            return BufferHandle(operand)
        case types.Global():
            return GlobalHandle(operand)
        case types.BarrierObject():
            return BarrierHandle(operand)
        case types.Plain("index"):
            return IndexHandle(ix.Name(operand.name))
        case types.Plain("flag"):
            return CondHandle(ix.Flag(operand.name))
    return DepHandle(operand)


def elementwise(fn: str, *args: Any) -> TileHandle:
    """Records one element-wise operation; numbers become tiles and dimensions of 1 are repeated."""
    refuse(*args)
    tiles = [arg for arg in args if isinstance(arg, TileHandle)]
    if not tiles:
        reject("TG012", f"`{fn}` needs at least one tile")
    data = [arg for arg in (args[1:] if fn == "where" else args) if isinstance(arg, TileHandle)]
    if fn == "where" and not data:
        reject("TG012", "`where` chooses between tiles", "make one of them with `tidegate.fill`")
    dtype = data[0].dtype
    for tile in data[1:]:
        if tile.dtype != dtype:
            reject("TG011", f"`{fn}` of `{dtype}` and `{tile.dtype}`", "cast one of them, as in `x.to(tidegate.f32)`")
    rank = max(len(tile.shape) for tile in tiles)
    padded = [(1,) * (rank - len(tile.shape)) + tile.shape for tile in tiles]
    shape = tuple(max(sizes) for sizes in zip(*padded, strict=True))
    values = tuple(_fit(arg, shape, dtype) for arg in args)
    result_type = types.Tile(shape, types.i1 if fn in COMPARE else dtype)
    builder = active()
    result = builder.fresh(fn, result_type)
    builder.emit(Elementwise(result, fn, values, builder.here()))
    return TileHandle(result)


def _floor_divide(tile: TileHandle, left: Any, right: Any) -> TileHandle:
    """`div` of integers is whole already."""
    quotient = elementwise("div", left, right)
    return elementwise("floor", quotient) if tile.dtype.is_float else quotient


def _fit(arg: Any, shape: tuple[int, ...], dtype: types.DType) -> Value:
    """The argument as a tile of this shape."""
    builder = active()
    if isinstance(arg, Real):
        return builder.fill(arg, types.Tile(shape, dtype))
    if isinstance(arg, IndexHandle):
        return builder.splat(arg.expr, types.Tile(shape, dtype))
    if not isinstance(arg, TileHandle):
        reject("TG012", f"a tile cannot be made of `{arg!r}`")
    if arg.shape == shape:
        return arg.value
    result = builder.fresh("wide", types.Tile(shape, arg.dtype))
    builder.emit(Broadcast(result, arg.value, builder.here()))
    return result
