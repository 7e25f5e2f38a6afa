"""How late an access of memory is: the same number each time, for the same access of the same wave.

Needs   which draw it is, the workgroup, the wave, and which of the wave's accesses of memory it is
Gives   a share of the spread, from 0 to 1
Keeps   no clock and no state: a hash of these four numbers. Two plans of one kernel whose waves make the same accesses
        in the same order have the same luck with them, so that a difference between the plans is theirs
Cost    constant

The latency of a line is taken as equally likely anywhere in the spread. An access is as late as the latest of its n
lines, whose share is at most s with probability s to the power of n: so the share is the n-th root of a number that is
equally likely anywhere from 0 to 1.
"""

from __future__ import annotations

_WORD = (1 << 64) - 1


def lateness(draw: int, group: int, wave: int, access: int, lines: int) -> float:
    """The share of the spread by which the latest of so many lines is late."""
    word = 0
    for each in (draw, group, wave, access):
        word = _mixed((word ^ each) + 0x9E3779B97F4A7C15)
    return float(((word >> 11) / (1 << 53)) ** (1 / lines))


def _mixed(word: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): every bit depends on every bit."""
    word &= _WORD
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _WORD
    return word ^ (word >> 31)
