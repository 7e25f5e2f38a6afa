"""What Python variables hold, so that a region that changes it is found.

Needs   the variables of a function where a region begins and where it ends
Gives   a finding for what changed in a way that the kernel cannot say
Keeps   a handle counts as the value or expression that it stands for; functions, classes and modules stay closed
Cost    linear in what the variables reach within DEPTH steps

A body is traced once, so a list, a dictionary or an object that it changes would stay for all trips what it was in the
first one. Variables are carried or merged; what variables refer to cannot be.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

from tidegate.index import names
from tidegate.language.builder import active, reject
from tidegate.language.handles import Handle
from tidegate.language.index_handles import CondHandle, IndexHandle
from tidegate.language.unusable import Unusable

DEPTH = 6
OWN = "__tidegate"  # how the variables of the rewriter start
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range)
_OPAQUE = (ModuleType, type, FunctionType, BuiltinFunctionType)


class Snapshot:
    """What the variables of a function hold where a region begins."""

    def __init__(self, local: Mapping[str, Any], assigned: tuple[str, ...], skip: tuple[str, ...] = ()) -> None:
        self.assigned = assigned
        self.held = {
            name: (item, fingerprint(item))
            for name, item in local.items()
            if not name.startswith(OWN) and name not in skip and not has_ended(item)
        }

    def check_trip(self, local: Mapping[str, Any]) -> None:
        """The body of a loop ends: what it changed and does not carry would be lost for later trips."""
        for name, (item, before) in self.held.items():
            now = local.get(name, item)
            if fingerprint(now) == before:
                continue
            if name not in self.assigned or now is item:
                _reject_change("TG013", name, "the body of this loop", "and is carried")
            reject(
                "TG013",
                f"`{name}` is `{item!r}` before the loop and `{now!r}` after a trip",
                "only tiles, buffers, indices and copies are carried, each in a variable of its own",
            )

    def check_arm(self, local: Mapping[str, Any], where: str) -> None:
        """A region that not all waves enter ends: variables that it assigns are compared elsewhere."""
        for name, (item, before) in self.held.items():
            now = item if name in self.assigned else local.get(name, item)
            if fingerprint(now) != before:
                _reject_change("TG014", name, where, "")


def _reject_change(code: str, name: str, where: str, so: str) -> None:
    help = f"keep what changes in a plain variable, which is assigned there {so}".rstrip()
    reject(code, f"what `{name}` holds changes in {where}", help)


def has_ended(item: Any) -> bool:
    """Whether a variable still holds a value of a region that has ended: then it holds nothing."""
    ended = active().ended
    return isinstance(item, Unusable) or any(name in ended for name in _names_in(fingerprint(item)))


def _names_in(found: Any) -> Iterator[str]:
    """The values of the program that a fingerprint names."""
    match found:
        case ("value", str(name)):
            yield name
        case ("index" | "condition", expr):
            yield from names(expr)
        case (_, _, tuple() as inner):
            for each in inner:
                yield from _names_in(each)


def is_same(mine: Any, theirs: Any) -> bool:
    """Whether two variables hold the same, as far as a kernel can tell."""
    return fingerprint(mine) == fingerprint(theirs) and (not isinstance(mine, _OPAQUE) or mine is theirs)


def fingerprint(item: Any, depth: int = DEPTH, seen: dict[int, tuple[int, Any]] | None = None) -> Hashable:
    """A value that stays equal as long as nothing that `item` reaches changes."""
    match item:
        case Handle():
            return ("value", item.value.name)
        case IndexHandle():
            return ("index", item.expr)
        case CondHandle():
            return ("condition", item.cond)
    kind = type(item).__name__
    if isinstance(item, _PLAIN):
        return (kind, repr(item), ())
    if isinstance(item, _OPAQUE) or type(item).__module__.partition(".")[0] == "tidegate":
        return ("", "", ())
    seen = {} if seen is None else seen
    if not depth or seen.get(id(item), (0,))[0] >= depth:
        return (kind, "", ())
    own, inner = _look_into(item)
    seen[id(item)] = (depth, (item, inner))  # kept alive: nothing else gets this number
    return (kind, own, tuple([fingerprint(each, depth - 1, seen) for each in inner]))


def _look_into(item: Any) -> tuple[Hashable, list[Any]]:
    """What an object says about itself, and what it refers to."""
    if isinstance(item, dict):
        return repr(list(item)), list(item.values())
    if isinstance(item, list | tuple | deque):
        return "", list(item)
    if isinstance(item, set | frozenset):
        return tuple(sorted(map(repr, item))), []
    if isinstance(item, MethodType):
        return "", [item.__self__]
    if isinstance(item, GeneratorType):
        frame = item.gi_frame
        return (-1, []) if frame is None else (frame.f_lasti, list(frame.f_locals.values()))
    if isinstance(item, Iterator):
        return "", _position_of(item)
    if hasattr(item, "tobytes"):
        return bytes(item.tobytes()), []
    attributes = _attributes(item)
    return tuple(attributes), list(attributes.values())


def _position_of(item: Iterator[Any]) -> list[Any]:
    """How far an iterator of Python has come, where it can say so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return list(item.__reduce__())
    except (TypeError, AttributeError):
        return list(_attributes(item).values())


def _attributes(item: Any) -> dict[str, Any]:
    """The attributes of an object; those that Python computes once and keeps are no state."""
    cls = type(item)
    slots = [name for each in cls.__mro__ for name in _names_of(each.__dict__.get("__slots__", ()))]
    found = {
        name: getattr(item, name) for name in slots if name not in ("__dict__", "__weakref__") and hasattr(item, name)
    }
    found.update(getattr(item, "__dict__", {}))
    return {name: each for name, each in found.items() if not isinstance(getattr(cls, name, None), cached_property)}


def _names_of(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
