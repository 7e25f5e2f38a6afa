"""From bytes and operations to cycles, by the `[cost]` table of a target.

Needs   a target; whether global memory is found in the cache
Gives   for each class of operation a `Do`, not yet in its place
Keeps   more bytes or operations never cost less; a target without facts has its defaults, slow and safe
Cost    constant per operation

The latency of memory varies from line to line, by at most `*_spread`; see `luck`.
An instruction moves the widest that the target states for each lane, or four bytes. A copy to LDS takes as long as a
read from global memory and then an LDS access, unless the file says how much longer it takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.cost.steps import Do, Machine, Unit
from tidegate.targets import Target

# Bytes that an instruction moves for each lane where no width is stated.
LANE_BYTES = 4
# Bytes that memory looks up at once: each line of a tile has a latency of its own.
LINE = 128
# Operations of one matrix instruction where the target lists none for these types: 16 by 16 by 16.
MMA_OPS = 2 * 16**3


@dataclass(frozen=True, slots=True)
class Prices:
    """How long operations of one wave take on a target."""

    target: Target
    cached: bool = False
    reuse: int = 1

    @property
    def simds(self) -> int:
        """SIMDs that share the waves of a workgroup; one where nobody knows."""
        return self.target.wave.simds or 1

    def machine(self) -> Machine:
        cost = self.target.cost
        groups = tuple(name for name, each in self.target.counters.items() if each.unit == "groups")
        return Machine(cost.barrier_issue, cost.barrier_latency or cost.lds_latency, groups, cost.barrier_loss)

    def workgroups(self, waves: int, lds: int) -> int:
        """How many workgroups of so many waves and bytes of LDS a compute unit holds; one where nobody knows."""
        cost, limits = self.target.cost, []
        if cost.unit_waves:
            limits.append(cost.unit_waves // max(1, waves))
        if cost.unit_lds and lds:
            step = self.target.lds.granularity
            limits.append(cost.unit_lds // (-(-lds // step) * step))
        return max(1, min(limits, default=1))

    def plain(self, operations: int, where: int = 0) -> Do:
        """Arithmetic on so many elements; at least one instruction."""
        cost = self.target.cost
        parts = max(1, -(-operations // self.target.lanes))
        return Do(where, "alu", parts * cost.alu_issue, 0, cost.alu_latency, parts)

    def local(self, operation: str, moved: int, where: int = 0) -> Do:
        """An access of LDS: `local_read`, `local_write` or `atomic_add`."""
        cost = self.target.cost
        return self._moving(operation, "lds", moved, cost.lds_issue, cost.lds_latency, cost.lds_bytes, where)

    def global_(self, operation: str, moved: int, where: int = 0) -> Do:
        """An access of global memory: `global_read` or `global_write`."""
        cost = self.target.cost
        latency, rate = self._memory()
        return self._varying(self._moving(operation, "global", moved, cost.global_issue, latency, rate, where))

    def copy(self, operation: str, moved: int, where: int = 0) -> Do:
        """An asynchronous copy between global memory and LDS."""
        cost = self.target.cost
        latency, rate = self._memory()
        latency += cost.copy_latency or cost.lds_latency
        step = self._varying(self._moving(operation, "global", moved, cost.copy_issue, latency, rate, where))
        return replace(step, fills=moved / cost.lds_bytes)

    def mma(self, operations: int, dtype: str, where: int = 0) -> Do:
        """A matrix product of so many floating-point operations on elements of a type."""
        cost = self.target.cost
        each = max((2 * mma.m * mma.n * mma.k for mma in self.target.mma if mma.a == dtype), default=MMA_OPS)
        parts = max(1, -(-operations // each))
        rate = getattr(cost, _RATES.get(dtype, "mma_f32"))
        return Do(where, "mma", parts * cost.mma_issue, operations / rate, cost.mma_latency, parts, streams=True)

    def _memory(self) -> tuple[int, int]:
        """Latency and bytes a cycle of global memory, or of the cache before it."""
        cost = self.target.cost
        if self.cached:
            return cost.cache_latency, cost.cache_bytes
        return cost.global_latency, max(cost.global_bytes, min(cost.cache_bytes, cost.global_bytes * self.reuse))

    def _varying(self, step: Do) -> Do:
        cost = self.target.cost
        spread = cost.cache_spread if self.cached else cost.global_spread
        return replace(step, spread=spread, lines=max(1, -(-step.bytes // LINE)))

    def _moving(self, operation: str, unit: Unit, moved: int, issue: int, latency: int, rate: int, where: int) -> Do:
        known = self.target.operations[operation]
        width = self.target.lanes * max(known.bytes_per_lane, default=LANE_BYTES)
        parts = 1 if known.whole_tile else max(1, -(-moved // width))
        return Do(where, unit, parts * issue, moved / rate, latency, parts, bytes=moved)


_RATES = {
    "f64": "mma_f64",
    "f32": "mma_f32",
    "f16": "mma_f16",
    "bf16": "mma_f16",
    "i8": "mma_8bit",
    "f8e4m3fn": "mma_8bit",
    "f8e5m2": "mma_8bit",
    "f8e4m3fnuz": "mma_8bit",
    "f8e5m2fnuz": "mma_8bit",
}


def prices_of(target: Target, *, cached: bool = False, reuse: int = 1) -> Prices:
    """The prices of a target. `cached`: what is read from global memory lies in the cache that all share. `reuse`: so
    many compute units read the same bytes at about the same time; the cache gives them to all but the first.
    """
    return Prices(target, cached, reuse)
