"""What a kernel author holds in Python for values without operators: buffers, arrays, copies, barriers.

Needs   the builder that is recording, for rejecting what makes no sense
Gives   `Handle` and one class for each kind of value; tiles and indices have files of their own
Keeps   a handle knows one value; it decides nothing about synchronization
"""

from __future__ import annotations

from typing import Any

from tidegate.language import types
from tidegate.language.builder import reject
from tidegate.language.ops import Value
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


def to_value(item: Any, kind: type[Handle], what: str) -> Value:
    """The value of a handle of this kind; anything else is rejected as not being `what`."""
    refuse(item)
    if isinstance(item, kind):
        return item.value
    reject("TG012", f"expected {what}, found `{item!r}`")
