"""Which lane of a warp touches which byte when a tensor is moved between registers and shared memory, as a name.

Needs   the encodings of the tensor and of the memory descriptor, their shape, the size of an element
Gives   a name: accesses of one name that start at the same byte give each byte to one lane, and to the same; nothing
        where that is not known for certain
Keeps   two maps have one name only if they are one map. An element that several lanes hold has none, nor have elements
        that an instruction may move for a whole warp, which reads and writes through other lanes than those that hold
        them: `ldmatrix`, `stmatrix`, the transposing loads of AMD
Cost    quadratic in the bits of an offset; each question is answered once

    4 bytes an element, 2 a lane, 32 lanes, 4 warps side by side        "4 r1 l2.4.8.10.20 w40.80"

An offset is an xor of what registers, lanes and warps flip. What registers flip is one lane's; two lanes, or warps,
that differ by that alone are told apart by nothing, so all is counted modulo what registers reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tidegate.hosts.triton.layout_registers import held
from tidegate.hosts.triton.layout_shared import element_bytes, placed
from tidegate.hosts.triton.layout_text import Encoding
from tidegate.hosts.triton.layout_tiles import Vector, is_power_of_two

# Bytes that one lane has side by side, from which on no instruction moves them through other lanes. `ldmatrix` gives 4
# neighbouring bytes to a lane, or 2 of each of two rows. The loads of AMD that transpose give neighbours to neighbours.
# Seen in what Triton 3.9 compiles: it takes `ldmatrix` for any layout that fits, blocked ones of f32 too
# (tests/hosts/triton/test_triton_lanes.py).
RUN = {"cuda": 8, "hip": 4}


@lru_cache(maxsize=4096)
def lanes_of(
    register: Encoding | None,
    shape: Vector,
    shared: Encoding | None,
    slot: Vector,
    element_bits: int,
    backend: str,
    *,
    start: Vector | None = None,
    first_wave: int = 0,
    lane_by_lane: bool = False,
) -> str:
    """The name of the map from bytes to lanes of one access; empty if none is known.

    `slot`: the shape of the allocation's slot, `start`: where in it the tensor lies. `lane_by_lane`: the instruction
    is one that each lane carries out for itself, such as `cp.async`.
    """
    mine = None if register is None else held(register, shape)
    memory = None if shared is None else placed(shared, slot)
    size = element_bytes(element_bits)
    if mine is None or memory is None or not is_power_of_two(size) or element_bits % 8:
        return ""
    if shared is not None and shared.number("elementBitWidth", element_bits) != element_bits:
        return ""  # the swizzle is in elements of another size
    if len(shape) != len(slot) or not all(
        _fits(*each) for each in zip(start or (0,) * len(slot), shape, slot, strict=True)
    ):
        return ""
    own = _reduced(memory.at(base) for base in mine.register)
    lanes = [_modulo(memory.at(base), own) for base in mine.lane]
    if len(_reduced((*own, *lanes))) != len(own) + len(lanes):
        return ""  # two lanes hold one element
    if not lane_by_lane and not _has_run(own, size, RUN.get(backend, max(RUN.values())), memory.pads):
        return ""
    warps = [_modulo(memory.at(base), own) for base in mine.warp]
    fixed = 0 if start is None else _modulo(memory.at(start), own)
    parts = [f"{size}", f"r{_hex(own)}", f"l{_hex(lanes)}", f"w{_hex(warps)}"]
    parts += [f"from {fixed:x}"] if fixed else []
    parts += [f"pad {interval}+{padding}" for interval, padding in memory.pads]
    parts += [f"wave {first_wave}"] if first_wave else []
    return " ".join(parts)


def _fits(low: int, size: int, full: int) -> bool:
    return is_power_of_two(size) and low >= 0 and low % size == 0 and low + size <= full


def _has_run(own: Sequence[int], size: int, run: int, pads: Sequence[tuple[int, int]]) -> bool:
    """Whether a lane has so many bytes side by side, wherever it has some."""
    if any(interval * size < run for interval, _ in pads):
        return False
    step = 1
    while step * size < run:
        if _modulo(step, own):
            return False
        step *= 2
    return True


def _reduced(vectors: Iterable[int]) -> list[int]:
    """The one basis of what the vectors reach by xor in which each leading bit stands in one vector alone."""
    basis: list[int] = []
    for vector in vectors:
        vector = _modulo(vector, basis)
        if vector:
            top = 1 << vector.bit_length() - 1
            basis = [each ^ vector if each & top else each for each in basis]
            basis.append(vector)
    return sorted(basis)


def _modulo(vector: int, basis: Sequence[int]) -> int:
    """A vector without what the basis can flip: no leading bit of the basis is left in it."""
    for each in basis:
        if vector >> each.bit_length() - 1 & 1:
            vector ^= each
    return vector


def _hex(vectors: Sequence[int]) -> str:
    return ".".join(f"{each:x}" for each in vectors)
