"""Every fact that a target file may state, in one table.

Needs   nothing
Gives   `FACTS`, which drives reading, checking, defaults, `show` and the documentation
Keeps   each default is slow and safe: with it a kernel may wait too often, never too seldom
Cost    constant

A new fact is one line here, one field of the same name in `model`, and one row in `judges`: who asks for it. In a key
`*` stands for a name: of a counter (the file chooses them) or of an operation (one of `OPERATIONS`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.codes import CODES as ALL_CODES

Value = bool | int | str | tuple[int, ...] | tuple[str, ...]

# The codes that reading a target may report, with their titles.
CODES = {code: title for code, title in ALL_CODES.items() if code.startswith("TG5")}

DTYPES = (
    "f64", "f32", "f16", "bf16",
    "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz",
    "i8", "i32",
)  # fmt: skip

ENDS = ("leaves", "arrives", "hangs", "undefined")


@dataclass(frozen=True, slots=True)
class AccessClass:
    """A class of access of the kernel language."""

    name: str
    meaning: str


OPERATIONS = (
    AccessClass("local_read", "LDS to registers"),
    AccessClass("local_write", "registers to LDS"),
    AccessClass("atomic_add", "read-modify-write in LDS"),
    AccessClass("global_read", "global memory to registers"),
    AccessClass("global_write", "registers to global memory"),
    AccessClass("scalar_read", "global memory to scalar registers"),
    AccessClass("gather_to_lds", "asynchronous copy, global memory to LDS, each lane an address"),
    AccessClass("tensor_load_to_lds", "asynchronous copy of a whole tile, global memory to LDS"),
    AccessClass("lds_to_global", "asynchronous store, LDS to global memory"),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. `low` and `high` bound integers; `words` closes the set of strings, if it is not empty."""

    key: str
    type: type[bool] | type[int] | type[str]
    default: Value
    meaning: str
    low: int = 0
    high: int = 2**31 - 1
    words: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        return isinstance(self.default, tuple)

    @property
    def table(self) -> str:
        return self.key.rpartition(".")[0]

    @property
    def last(self) -> str:
        return self.key.rpartition(".")[2]


FACTS = (
    Fact("wave.size", int, 64, "lanes of a wave; by default many, so that few instructions count", 1, 1024),
    Fact("wave.max_per_workgroup", int, 0, "most waves in a workgroup; 0: not known, not checked", 0, 1024),
    Fact("wave.simds", int, 0, "SIMDs that share the waves of a workgroup; 0: not known", 0, 64),
    Fact("wave.to_simd", str, "unknown", "`modulo`: wave w runs on SIMD w mod `simds`", words=("modulo", "unknown")),
    Fact("lds.bytes", int, 0, "bytes of LDS that one workgroup can have; 0: not known, not checked"),
    Fact("lds.granularity", int, 1, "bytes by which LDS is allocated", 1, 65536),
    Fact("lds.banks", int, 0, "banks of four bytes; 0: not known", 0, 1024),
    Fact("lds.in_order", bool, False, "whether one wave's ordinary LDS accesses are performed in issue order"),
    Fact("barrier.split", bool, False, "whether arrival and departure are separate instructions of one wave"),
    Fact("barrier.ids", int, (), "numbers of the barriers that all waves of a workgroup join", -64, 64),
    Fact("barrier.named", int, 0, "how many numbered barriers exist whose participants are chosen", 0, 64),
    Fact("barrier.named_first", int, 0, "number of the first of them", 0, 64),
    Fact(
        "barrier.performs", str, "nothing", "which accesses of the arriving wave an arrival performs by itself",
        words=("nothing", "ordinary"),
    ),
    Fact("barrier.wave_end", str, "undefined", "what the end of a wave does to a barrier of `ids`", words=ENDS),
    Fact("barrier.named_wave_end", str, "undefined", "what it does to a named barrier", words=ENDS),
    Fact("barrier.mbarrier", bool, False, "whether there are barrier objects in LDS, with phases"),
    Fact("barrier.mbarrier_bytes", bool, False, "whether such an object also counts bytes still to arrive"),
    Fact("fence.proxy_needed", bool, True, "whether a fence must stand between generic and async accesses"),
    Fact("fence.kinds", str, (), "fences of the kernel language that exist (`wave`, `proxy_async`)"),
    Fact(
        "fence.wave_performs", str, "nothing",
        "which accesses of the wave `fence wave` performs for its other lanes; nothing: it only keeps their order",
        words=("nothing", "ordinary"),
    ),
    Fact("fence.waits", bool, False, "whether a wait for a counter orders the lanes of its wave as `fence wave` does"),
    Fact("counters.*.max", int, 0, "largest n that a wait can name; 0: a wait can only drain", 0, 65535),
    Fact(
        "counters.*.unit", str, "instructions", "what the counter counts",
        words=("instructions", "groups", "transactions"),
    ),
    Fact("counters.*.in_order", bool, False, "whether units complete in issue order; false: only n = 0 says anything"),
    Fact("operations.*.present", bool, True, "whether the target has it; what no file rules out is not rejected"),
    Fact("operations.*.counter", str, "", "the counter on which it counts; empty: none can be waited for"),
    Fact(
        "operations.*.certain", bool, False,
        "whether each one without a mask is certain to be issued on that counter; false: no wait relies on it",
    ),
    Fact(
        "operations.*.in_order", bool, False,
        "whether it completes in order with the others on its counter; while one that does not is in flight, n = 0",
    ),
    Fact("operations.*.bytes_per_lane", int, (), "bytes that one instruction can move for each lane", 1, 1024),
    Fact("operations.*.whole_tile", bool, False, "whether one instruction moves a tile of any size"),
    Fact("operations.*.mbarrier", bool, False, "whether it can report its completion to an mbarrier"),
    Fact("operations.*.proxy", str, "generic", "the proxy through which it reaches LDS", words=("generic", "async")),
    Fact("cost.clock", int, 0, "MHz of a compute unit; 0: not known, times stay in cycles", 0, 10000),
    Fact("cost.alu_issue", int, 4, "cycles for which a SIMD is taken by one plain instruction of a wave", 1, 64),
    Fact("cost.alu_latency", int, 16, "cycles until the result of a plain instruction can be used", 1, 1024),
    Fact("cost.lds_issue", int, 4, "cycles for which a SIMD is taken by one LDS instruction", 1, 64),
    Fact("cost.lds_latency", int, 128, "cycles until the first bytes of an LDS read can be used", 1, 10000),
    Fact("cost.lds_bytes", int, 64, "bytes that the LDS of a compute unit moves in a cycle", 1, 4096),
    Fact("cost.global_issue", int, 4, "cycles for which a SIMD is taken by one global instruction", 1, 64),
    Fact("cost.global_latency", int, 1000, "cycles until the first bytes of a read from memory can be used", 1, 100000),
    Fact("cost.global_spread", int, 250, "cycles that it may take longer, from line to line", 0, 100000),
    Fact("cost.global_bytes", int, 8, "bytes that memory moves in a cycle for one compute unit, if all ask", 1, 4096),
    Fact("cost.cache_size", int, 0, "bytes of the last cache that all compute units share; 0: not known"),
    Fact("cost.cache_latency", int, 500, "cycles until the first bytes of a read from there can be used", 1, 100000),
    Fact("cost.cache_spread", int, 125, "cycles that it may take longer, from line to line", 0, 100000),
    Fact("cost.cache_bytes", int, 16, "bytes that it moves in a cycle for one compute unit, if all ask", 1, 4096),
    Fact("cost.copy_issue", int, 4, "cycles for which a SIMD is taken by one instruction of a copy to LDS", 1, 64),
    Fact(
        "cost.copy_latency", int, 0,
        "cycles that a copy to LDS takes longer than a read to registers; 0: not known, as an LDS read", 0, 10000,
    ),
    Fact("cost.mma_issue", int, 4, "cycles for which a SIMD is taken by one matrix instruction, to issue it", 1, 64),
    Fact("cost.mma_latency", int, 64, "cycles until the result of one matrix instruction can be used", 1, 1024),
    Fact("cost.mma_f64", int, 16, "floating-point operations in a cycle of the matrix unit of a SIMD, on f64", 1),
    Fact("cost.mma_f32", int, 32, "the same on f32", 1),
    Fact("cost.mma_f16", int, 64, "the same on f16 and bf16", 1),
    Fact("cost.mma_8bit", int, 64, "the same on i8 and f8", 1),
    Fact("cost.barrier_issue", int, 4, "cycles for which a SIMD is taken by an arrival", 1, 64),
    Fact(
        "cost.barrier_latency", int, 0,
        "cycles from the last arrival at a barrier until waves go on; 0: not known, as an LDS read", 0, 10000,
    ),
    Fact(
        "cost.barrier_loss", int, 0,
        "cycles that units lose which are busy with other work when waves meet; 0: none, or not known", 0, 10000,
    ),
    Fact("cost.unit_lds", int, 0, "bytes of LDS of a compute unit, for all its workgroups; 0: not known"),
    Fact("cost.unit_waves", int, 0, "most waves that a compute unit holds; 0: not known", 0, 1024),
)  # fmt: skip

MMA_FACTS = (
    Fact("mma.m", int, 0, "rows of the accumulator that one wave computes", 1, 256),
    Fact("mma.n", int, 0, "columns of the accumulator", 1, 256),
    Fact("mma.k", int, 0, "length of the reduction", 1, 1024),
    Fact("mma.a", str, "", "element type of the left operand", words=DTYPES),
    Fact("mma.b", str, "", "element type of the right operand", words=DTYPES),
    Fact("mma.acc", str, "", "element type of the accumulator", words=DTYPES),
)
NOTE_FACTS = (Fact("notes.text", str, "", "a remark that no fact expresses"),)

IDENTITY = (
    Fact("name", str, "", "the name by which the target is asked for"),
    Fact("vendor", str, "", "who makes it"),
    Fact("title", str, "", "architecture and products, for people"),
    Fact("aliases", str, (), "other names that mean this target"),
    Fact("default", bool, False, "whether commands take this target where nothing names one"),
)
"""What the file is about, not facts: these need no source."""


def facts_of(table: str) -> tuple[Fact, ...]:
    """The facts of one table, such as `lds` or `counters.*`."""
    return tuple(fact for fact in FACTS if fact.table == table)
