"""A place that is affine once the wave is a number.

Needs   an index, the name of the wave in it, how many waves there are
Gives   an affine index for it, and conditions that go with that; None if it is not affine for some wave
Keeps   the same value for every wave
Cost    linear in the waves
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.footprint.arithmetic import Arithmetic
from tidegate.index import Binary, Compare, Cond, Const, Index, Logic, Name, why_not_affine


def by_wave(place: Index, wave: str, name: str, waves: int, math: Arithmetic) -> tuple[Index | None, list[Cond]]:
    """A new name with one case for each wave; a swizzle is affine in the bits of the wave, and needs no cases."""
    places = [math.put(place, {wave: Const(number)}) for number in range(waves)]
    if any(map(why_not_affine, places)):
        return None, []
    by_bits = _by_bits(places, wave, math)
    if by_bits is not None:
        return by_bits, []
    cases: Cond | None = None
    for number, known in enumerate(places):
        case = Logic("and", Compare("==", Name(wave), Const(number)), Compare("==", Name(name), known))
        cases = case if cases is None else Logic("or", cases, case)
    return Name(name), [cases] if cases is not None else []


def _by_bits(places: Sequence[Index], wave: str, math: Arithmetic) -> Index | None:
    """The sum of what each bit of the wave adds to the place of wave 0; None if they do not add up."""
    apart = [math.put(Binary("-", each, places[0]), {}) for each in places]
    added = [each.value for each in apart if isinstance(each, Const)]
    if len(added) < len(apart):
        return None
    bits = [1 << bit for bit in range((len(added) - 1).bit_length())]
    if any(value != sum(added[bit] for bit in bits if number & bit) for number, value in enumerate(added)):
        return None
    found = places[0]
    for bit in bits:
        on = Binary("mod", Binary("//", Name(wave), Const(bit)), Const(2))
        found = Binary("+", found, Binary("*", on, Const(added[bit])))
    return found
