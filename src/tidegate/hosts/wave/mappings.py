"""What Wave's code generator makes of a mapping.

Needs   an access with a mapping, and the buffer that it touches
Gives   the dimensions for which the mapping is asked; whether its elements are taken for neighbours
Cost    constant; the second asks Wave itself
"""

from __future__ import annotations

from typing import Any

from tidegate.hosts.wave.arrays import Array
from tidegate.hosts.wave.nodes import op_of

Dims = tuple[Any, ...]


def mapped_dims(node: Any, array: Array) -> Dims | None:
    """The dimensions for which a mapping is asked, in the order in which what it says is paired with those of the
    buffer: of an atomic, these are the dimensions of what is added (`handle_generic_atomic`)."""
    if not op_of(node).startswith("atomic"):
        return _without_scales(array.dims)
    dims = getattr(getattr(node, "type", None), "symbolic_shape", None)
    return None if dims is None else _without_scales(tuple(dims))


def _without_scales(dims: Dims) -> Dims:
    from wave_lang.kernel.wave.utils.general_utils import infer_dim

    return tuple(infer_dim(each) for each in dims)


def reads_in_a_row(node: Any, constraints: Dims, target: str) -> bool | None:
    """Whether Wave's code generator takes elements for neighbours; None: both are taken for touched.

    It does so where the hardware transposes a block, and where it believes that a mapping is contiguous.
    """
    if not constraints:
        return None
    from wave_lang.kernel.ops.wave_ops import get_custom

    try:
        return bool(get_custom(node).is_contiguous_vec(constraints, target))
    except Exception:  # Wave's own context may be closed by now
        return None
