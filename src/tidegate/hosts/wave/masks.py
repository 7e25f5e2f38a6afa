"""Which lanes of a masked access are switched on.

Needs   a read or a write with bounds, its index, and numbers of all threads
Gives   for each thread how many of its elements, from the first on, are not switched off; None if nobody knows
Keeps   a mask compares the index before a mapping, as Wave's code generator does (`_build_mask`): elements count along
        the dimension of the greatest size
Cost    one evaluation for each bound

    read(%a[row, lane], bounds={N: 48})        1 in lanes 0 .. 47, 0 in the others
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate.hosts.wave.nodes import argument, op_of
from tidegate.hosts.wave.numbers import Numbers

_BOUNDS = {"read": 4, "write": 5}


def bounds_of(node: Any) -> Mapping[Any, Any]:
    """The bounds of an access by dimension; empty if it is not masked."""
    at = _BOUNDS.get(op_of(node))
    return (argument(node, at) or {}) if at is not None else {}


def switched_on(
    node: Any, index: Mapping[Any, Any], elements: int, numbers: Numbers, threads: int
) -> np.ndarray[Any, Any] | None:
    sizes = [numbers.constant(getattr(each, "size", 1)) for each in index.values()]
    known = [each for each in sizes if each is not None]
    if len(known) < len(sizes):
        return None
    fastest = list(index)[max(range(len(known)), key=lambda d: (known[d], d))]
    found = np.full(threads, elements, dtype=np.int64)
    for dim, bound in bounds_of(node).items():
        start = numbers.value(getattr(index[dim], "start", index[dim])) if dim in index else None
        most = numbers.value(bound)
        if start is None or most is None:
            return None
        room = np.broadcast_to(np.asarray(most - start), (threads,))
        found = np.minimum(found, np.clip(room, 0, elements)) if dim == fastest else np.where(room > 0, found, 0)
    return found
