"""The places where design §2 can be read in two ways, each as one named switch.

The default of every switch is the conservative reading: with it the program is called unsafe. `True` is the other
reading. `AMBIGUITIES` says what each is about; `judge` takes a `Rules`, and the command line marks every unsafe
program whose verdict one of them decides.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Rules:
    """Readings of design §2; see AMBIGUITIES."""

    amd_wait_is_wave_fence: bool = False
    nvidia_fence_performs: bool = False
    same_copy_keeps_lanes: bool = False
    matrix_value_keeps_lanes: bool = False
    documented_lane_map: bool = False
    masks_are_known: bool = False
    wait_async_ops_covers_uncommitted: bool = False
    atomics_are_certain: bool = False
    ended_waves_leave: bool = False
    half_pair_is_wave_fence: bool = False
    last_signal_needs_no_wait: bool = False
    dead_use_is_no_use: bool = False

    def lenient(self) -> Rules:
        """Every switch the other way."""
        return Rules(**{f.name: True for f in fields(self)})

    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self))

    def but(self, name: str) -> Rules:
        """One switch the other way."""
        return replace(self, **{name: not getattr(self, name)})


STRICT = Rules()

AMBIGUITIES: dict[str, str] = {
    "amd_wait_is_wave_fence": (
        "AMD: `write; wait_count lgkmcnt(0); read of another lane's element`. §2 names a wave-level fence and any "
        "workgroup barrier as what orders two lanes, and no wait. If the emission keeps the compiler from moving LDS "
        "accesses across every wait, a wait is as good as the fence. Read here: it orders asynchronous copies only."
    ),
    "nvidia_fence_performs": (
        "NVIDIA: `read; fence wave; copy over the same bytes` in one wave. x must be *performed* before y is issued "
        "when either is asynchronous, and only a workgroup barrier performs ordinary accesses there. bar.warp.sync "
        "orders shared memory among lanes, so it may be enough. Read here: it is not."
    ),
    "same_copy_keeps_lanes": (
        "NVIDIA: one gather_to_lds statement to the same place in two iterations, with a wait_group between and no "
        "fence. Is it the same lane that copies the same bytes? Read here: unknown, the fence is needed."
    ),
    "matrix_value_keeps_lanes": (
        "Two statements that move the same matrix operand or transposed tile (or tiles tied to it element by element), "
        "same place: do they share the map that the matrix unit fixes? Read here: only instances of one statement do."
    ),
    "documented_lane_map": (
        "docs/language.md says that element e of a tile of n belongs to lane e // ceil(n / lanes) 'where lanes "
        "matter'. With it tile<64xf32> and tile<1x64xf32>, or f32 and i32 views of one shape, share their lanes. §2 "
        "promises one map for one shape and one element type only. Read here: nothing is known across types or shapes."
    ),
    "masks_are_known": (
        "A mask made of iota and constants: are elements outside it known not to be touched? Read here: a mask is "
        "opaque, all elements may be touched. (bounds(...) is exact.)"
    ),
    "wait_async_ops_covers_uncommitted": (
        "NVIDIA: does `shared_memory_barrier wait_async_ops` wait for copies that no commit_group closed "
        "(cp.async.wait_all) or for groups only (wait_group 0)? Read here: committed groups only."
    ),
    "atomics_are_certain": (
        "'Plain loads and stores are not certain' to be counted: is an unmasked LDS atomic one of them? It cannot be "
        "deleted, nor become a scalar load. Read here: not certain, so lgkmcnt/dscnt(n > 0) never performs anything."
    ),
    "ended_waves_leave": (
        "'A hang: unequal arrivals', while every target says `wave_end = leaves`. If a wave ends with fewer arrivals "
        "the others go on. Read here: unequal arrivals are wrong whatever the end of a wave does."
    ),
    "half_pair_is_wave_fence": (
        "Does `signal` alone, or `wait` alone, keep the lanes of its wave in order? Read here: only the whole pair "
        "between two accesses does."
    ),
    "last_signal_needs_no_wait": (
        "A signal that no wait follows until the wave ends: 'a lost signal'. Read here: wrong."
    ),
    "dead_use_is_no_use": (
        "An atomic's result that only dead operations use: does nobody use it? Read here: any operation that names it "
        "uses it."
    ),
}
