"""What a target is: the facts about one GPU, as one immutable value.

Needs   nothing
Gives   `Target` and its parts; the few questions that need more than one fact
Keeps   a target is hashable and pickles; no default stands here: those are in `schema`
Cost    constant for each question

Nothing here knows a GPU by name. Reading files is `parse`, finding them is `library`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from tidegate.codes import PROXY_READ

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ByName(Mapping[str, T], Generic[T]):
    """A mapping by name that keeps its order and, unlike a dict, is hashable."""

    pairs: tuple[tuple[str, T], ...] = ()

    def __getitem__(self, name: str) -> T:
        for known, value in self.pairs:
            if known == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, slots=True)
class WaveFacts:
    """Waves, and the SIMDs that run them."""

    size: int
    max_per_workgroup: int
    simds: int
    to_simd: str

    def simd_of(self, wave: int) -> int | None:
        """The SIMD on which a wave of a workgroup runs, or None where the target does not say."""
        return wave % self.simds if self.to_simd == "modulo" and self.simds else None


@dataclass(frozen=True, slots=True)
class LdsFacts:
    """The memory that the waves of one workgroup share."""

    bytes: int
    granularity: int
    banks: int
    in_order: bool


@dataclass(frozen=True, slots=True)
class BarrierFacts:
    """Execution barriers inside one workgroup."""

    split: bool
    ids: tuple[int, ...]
    named: int
    named_first: int
    performs: str
    wave_end: str
    named_wave_end: str
    mbarrier: bool
    mbarrier_bytes: bool

    @property
    def named_ids(self) -> tuple[int, ...]:
        """The numbers that named barriers may take: never that of a workgroup barrier."""
        numbers = range(self.named_first, self.named_first + self.named)
        return tuple(number for number in numbers if number not in self.ids)


@dataclass(frozen=True, slots=True)
class FenceFacts:
    """Fences between ways of reaching the same memory, and between the lanes of a wave."""

    proxy_needed: bool
    kinds: tuple[str, ...]
    wave_performs: str
    waits: bool


@dataclass(frozen=True, slots=True)
class CounterFacts:
    """A queue of operations in flight that a wave can wait for."""

    max: int
    unit: str
    in_order: bool

    @property
    def largest(self) -> int:
        """The largest count that a wait can tell from fewer: but for groups, a counter saturates at its maximum."""
        return max(0, self.max - (self.unit != "groups"))


@dataclass(frozen=True, slots=True)
class OperationFacts:
    """How one class of access is carried out."""

    present: bool
    counter: str
    certain: bool
    in_order: bool
    bytes_per_lane: tuple[int, ...]
    whole_tile: bool
    mbarrier: bool
    proxy: str


@dataclass(frozen=True, slots=True)
class MmaFacts:
    """A matrix instruction of one wave: an m×n accumulator from an m×k and a k×n operand."""

    m: int
    n: int
    k: int
    a: str
    b: str
    acc: str


@dataclass(frozen=True, slots=True)
class Cost:
    """How long things take, in cycles of a compute unit. `tidegate.cost` says what is made of it."""

    clock: int
    alu_issue: int
    alu_latency: int
    lds_issue: int
    lds_latency: int
    lds_bytes: int
    global_issue: int
    global_latency: int
    global_spread: int
    global_bytes: int
    cache_size: int
    cache_latency: int
    cache_spread: int
    cache_bytes: int
    copy_issue: int
    copy_latency: int
    mma_issue: int
    mma_latency: int
    mma_f64: int
    mma_f32: int
    mma_f16: int
    mma_8bit: int
    barrier_issue: int
    barrier_latency: int
    barrier_loss: int
    unit_lds: int
    unit_waves: int


MOST_LANES = 1024  # that a file may state


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about the target that no fact expresses."""

    text: str


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU. The target with the empty name has no stated fact: monolithic barriers, nothing assumed."""

    name: str
    vendor: str
    title: str
    aliases: tuple[str, ...]
    default: bool
    wave: WaveFacts
    lds: LdsFacts
    barrier: BarrierFacts
    fence: FenceFacts
    counters: ByName[CounterFacts]
    operations: ByName[OperationFacts]
    mma: tuple[MmaFacts, ...]
    cost: Cost
    notes: tuple[Note, ...]
    sources: ByName[str]
    cited: ByName[str] = field(repr=False)
    """Dotted key of every stated fact → the name of its source."""
    allowed: frozenset[str] = frozenset()
    """Codes of findings that the user has turned down: no fact of the GPU, but what is asked of programs on it."""

    @property
    def lanes(self) -> int:
        """Lanes of one wave."""
        return self.wave.size

    @property
    def known_lanes(self) -> int:
        """The same where a file states it, else 0: a default says nothing of a GPU."""
        return self.wave.size if "wave.size" in self.cited else 0

    @property
    def fenced(self) -> frozenset[str]:
        """Effects of generic accesses behind which the async proxy comes only after a fence."""
        if not self.fence.proxy_needed:
            return frozenset()
        return frozenset(("write", "atomic") if PROXY_READ in self.allowed else ("read", "write", "atomic"))

    def without_wave_fence(self) -> Target:
        """The same GPU for a program in which no `fence wave` can be written: barriers stand in for it."""
        kinds = tuple(each for each in self.fence.kinds if each != "wave")
        return replace(self, fence=replace(self.fence, kinds=kinds))

    def has(self, operation: str) -> bool:
        """Whether the target can carry out this class of access."""
        return self.operations[operation].present

    def counter_of(self, operation: str) -> str:
        """The counter on which it counts, or an empty string: then no count can be waited for."""
        return self.operations[operation].counter

    @property
    def lds_counters(self) -> tuple[str, ...]:
        """The counters of ordinary accesses to shared memory."""
        named = (self.counter_of(each) for each in ("local_read", "local_write", "atomic_add") if self.has(each))
        return tuple(dict.fromkeys(name for name in named if name))

    def may_count(self, counter: str, in_flight: tuple[str, ...]) -> bool:
        """Whether a wait for more than zero says anything while these operations are in flight."""
        if not self.counters[counter].in_order:
            return False
        return all(self.operations[name].in_order for name in in_flight if self.counter_of(name) == counter)

    def instructions(self, operation: str, bytes: int) -> tuple[int, int]:
        """The fewest and the most instructions by which one wave moves a tile of `bytes` bytes, if it is issued at all.

        Without known widths it is at least one instruction, and at most one for each byte. Where no file states the
        lanes of a wave, the fewest are those of the most lanes that one could state.
        """
        known = self.operations[operation]
        if bytes <= 0 or not known.present:
            return 0, 0
        if known.whole_tile:
            return 1, 1
        if not known.bytes_per_lane:
            return 1, bytes
        widest, narrowest = max(known.bytes_per_lane), min(known.bytes_per_lane)
        return -(-bytes // ((self.known_lanes or MOST_LANES) * widest)), -(-bytes // (self.lanes * narrowest))

    def issued(self, operation: str, bytes: int, *, masked: bool = False) -> tuple[int, int]:
        """The fewest and the most instructions that count on the counter of an operation.

        None is certain where the compiler may drop, merge or replace it, nor where a wave without an active lane jumps
        over it. A mask does not matter where one instruction moves the whole tile: then the hardware clips it.
        """
        known = self.operations[operation]
        least, most = self.instructions(operation, bytes)
        return (least if known.certain and (known.whole_tile or not masked) else 0), most

    def mmas(self, a: str, b: str, acc: str) -> tuple[MmaFacts, ...]:
        """The matrix instructions for these element types, in the order of the file."""
        return tuple(each for each in self.mma if (each.a, each.b, each.acc) == (a, b, acc))
