"""Tiles as Python objects: operators on them record element-wise operations.

Needs   the builder that is recording
Gives   `TileHandle`; `wrap`, the handle for a value of any type
Keeps   numbers and indices become tiles, dimensions of 1 are repeated; types of elements are never changed silently
"""

from __future__ import annotations

from numbers import Real
from typing import Any

from tidegate import index as ix
from tidegate.language import types
from tidegate.language.builder import active, reject
from tidegate.language.handles import BarrierHandle, BufferHandle, DepHandle, GlobalHandle, Handle
from tidegate.language.index_handles import CondHandle, IndexHandle
from tidegate.language.ops import Broadcast, Elementwise, Operand, Value
from tidegate.language.syntax import COMPARE
from tidegate.language.unusable import refuse


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
