"""Types from text.

Needs   the text of one type
Gives   a `Type`, or a sentence that says what is wrong with the text
Keeps   `str` of a type is read as that type
Cost    linear in the text; the same few types recur, so each text is read once
"""

from __future__ import annotations

import re
from functools import lru_cache

from tidegate.diag import closest
from tidegate.language.types import DTYPES, MAX_ELEMENTS, BarrierObject, Global, Lds, Plain, Tile, Type

_PARTS = re.compile(r"(\w+)<([^,>]*)(?:,\s*slots\s*=\s*(\d{1,9}))?\s*>")
_SIZE = re.compile(r"[A-Z][A-Z0-9_]*")


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type | str:
    if text in ("index", "flag", "dep"):
        return Plain(text)
    match = _PARTS.fullmatch(text)
    if match is None:
        return f"`{text}` is not a type"
    kind, inside, slot_text = match.groups()
    slots = int(slot_text) if slot_text else 1
    if slot_text and kind not in ("lds", "mbarrier"):
        return f"a {kind} has no slots"
    if slots < 1:
        return "a buffer has at least one slot"
    if kind in ("named_barrier", "mbarrier"):
        arrivals = inside.strip()
        if not re.fullmatch(r"[1-9]\d{0,8}", arrivals):
            return f"`{text}` needs the number of arrivals that complete a phase"
        return BarrierObject(kind, int(arrivals), slots)
    *dims, dtype_name = (part.strip() for part in inside.split("x"))
    dtype = DTYPES.get(dtype_name)
    if dtype is None:
        meant = closest(dtype_name, DTYPES)
        return f"`{dtype_name}` is not an element type" + (f"; did you mean `{meant}`?" if meant else "")
    if kind == "global":
        bad = next((dim for dim in dims if not _SIZE.fullmatch(dim) and not _is_size(dim)), None)
        if bad is not None:
            return f"`{bad}` is not a size: sizes are positive numbers, or names in capital letters without `x`"
        return Global(tuple(int(dim) if dim.isdigit() else dim for dim in dims), dtype)
    bad = next((dim for dim in dims if not _is_size(dim)), None)
    if bad is not None:
        return f"`{bad}` is not a size: the sizes of a {kind} are positive numbers"
    shape = tuple(map(int, dims))
    total = slots
    for size in shape:
        total *= size
    if total > MAX_ELEMENTS:
        return f"`{text}` has more than 2^40 elements"
    return Lds(shape, dtype, slots) if kind == "lds" else Tile(shape, dtype)


def _is_size(dim: str) -> bool:
    return bool(re.fullmatch(r"[1-9][0-9]{0,11}", dim))
