"""Layouts of registers as bits, and how they are put together from tiles.

Needs   sizes that are powers of two
Gives   `Held`: for each bit of the register, lane and warp number the coordinates that it flips; `Tiling` builds one
Keeps   a tensor that is larger than its layout repeats it, in further registers; one that is smaller is held several
        times: the bits beyond it flip nothing
Cost    a few operations for each bit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What each bit of a register, lane or warp number adds to the coordinates, by xor."""

    register: tuple[Vector, ...]
    lane: tuple[Vector, ...]
    warp: tuple[Vector, ...]


def is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def bits(size: int) -> int:
    """How many bits count up to a power of two."""
    return size.bit_length() - 1


@dataclass
class Tiling:
    """A layout under construction: what is added lies beyond what is already there, in its dimension."""

    shape: Vector
    bases: dict[str, list[Vector]] = field(default_factory=lambda: {"register": [], "lane": [], "warp": []})
    reach: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reach = [1] * len(self.shape)

    def add(self, what: str, dim: int, count: int) -> None:
        """`count` of something side by side along a dimension."""
        for _ in range(bits(count)):
            self.bases[what].append(tuple(self.reach[dim] if d == dim else 0 for d in range(len(self.shape))))
            self.reach[dim] *= 2

    def same(self, what: str, count: int) -> None:
        """`count` of something that hold the same elements."""
        self.bases[what].extend([(0,) * len(self.shape)] * bits(count))

    def bend(self, what: str, base: Vector) -> None:
        """One bit that flips these coordinates."""
        self.bases[what].append(base)
        for dim, value in enumerate(base):
            self.reach[dim] = max(self.reach[dim], 1 << value.bit_length())

    def done(self) -> Held | None:
        """The layout on the shape: repeated in registers up to it, held several times beyond it."""
        for dim, size in enumerate(self.shape):
            self.add("register", dim, max(1, size // self.reach[dim]))
        found: dict[str, tuple[Vector, ...]] = {}
        for what, bases in self.bases.items():
            if any(not self.fits(base) and not is_power_of_two(sum(base)) for base in bases):
                return None  # how Triton cuts a basis that flips several bits is not documented
            found[what] = tuple(base if self.fits(base) else (0,) * len(self.shape) for base in bases)
        return Held(found["register"], found["lane"], found["warp"])

    def fits(self, base: Vector) -> bool:
        return all(value < size for value, size in zip(base, self.shape, strict=True))


def are_powers(rank: int, *sizes: Sequence[int]) -> bool:
    """Whether there is one power of two for each dimension in every one of these lists."""
    return all(len(each) == rank and all(map(is_power_of_two, each)) for each in sizes)
