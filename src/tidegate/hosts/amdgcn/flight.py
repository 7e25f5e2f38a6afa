"""What an instruction leaves in flight, and which registers it has to do with.

Needs   an instruction, the counters of its target
Gives   `Flight`: the counter it counts on, in which order it returns, the registers that it fills later or still reads;
        `registers_of`: registers that an instruction reads or writes; `why_unknown`: why nothing is said of one
Keeps   what is not known to leave a register alone has to do with it; each register of an instruction that is not known
        to store counts as filled by it; counting that no source settles is uncertain
Cost    constant

Orders: CDNA 3 ISA 4.4 and RDNA 4 ISA 5.6 (vector memory and shared memory in order of issue, scalar memory in none);
LLVM, SIInsertWaitcnts.cpp (counterOutOfOrder; that later generations need no wait for the data of a store, but gfx12.5
and the scheduling mode of gfx12 for any source: X_CNT, VM_VSRC); LLVM pull request 105549 (gfx12: loads may write
registers out of order, though they count in order). Nothing is assumed of stores that have a counter of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.lower_memory import is_copy
from tidegate.hosts.amdgcn.parse import second_half
from tidegate.hosts.amdgcn.waits import waits_of
from tidegate.targets import Target

VECTOR = ("buffer_", "global_", "scratch_", "tbuffer_")
# They return nothing; whether those of some generations are counted is said nowhere.
_CACHES = re.compile(r"(buffer|global)_(inv|wb\w*|gl[01]_inv|prefetch\w*)$")
FENCES = re.compile(r"(buffer|global)_(inv|wb\w*|gl[01]_inv)$|s_[id]cache_")
_STORES = re.compile(r"(buffer|global|scratch|tbuffer)_store|ds_(write|store)")
_RETURNS = re.compile(r"glc|sc0|TH_ATOMIC_RETURN")
_SCOPES = ("glc", "slc", "dlc", "sc0", "sc1", "scope")
_ADDS = re.compile(r"ds_(add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|cmpst|cmpstore|pk_add)(_rtn)?_")
_SIGNS = re.compile(r"ds_(wrxchg|storexchg|cond|append|consume)")
_MESSAGE = re.compile(r"s_sendmsg|s_[id]cache_")
_SCALAR = re.compile(r"s_(buffer_|scratch_)?load_|s_mem(real)?time|s_sendmsg_rtn|s_atc_probe|s_get_waveid")
_FLAG = re.compile(r"s_barrier_(signal_isfirst|leave)|s_get_barrier_state")  # SCC or a register, on KM_CNT: SCC_WRITE
_UNKNOWN = re.compile(
    r"flat_|image_|exp\b|export|lds_|s_set_gpr_idx|v_movrel|v_swaprel|s_movrel|s_swappc|s_setpc|s_call|s_rfe|s_add_pc|"
    r"s_cbranch_[gij]|ds_gws|ds_ordered|ds_bvh|s_(buffer_|scratch_)?(store|atomic)|s_dcache_discard|\."
)
_KNOWN = ("s_", "v_", "ds_", "tensor_", "cluster_load_async", *VECTOR)
_REGISTER = re.compile(r"-?\|?(neg\(|abs\(|sext\()?([vsa]|ttmp)(\[|\d)")
_BOTH = ("vcc_lo", "vcc_hi", "exec_lo", "exec_hi")
_ACCESS = ("exec_lo", "exec_hi", "m0", "flat_lo", "flat_hi")
_MODE = re.compile(r"s_setreg\w*$")


@dataclass(frozen=True, slots=True)
class Flight:
    """`stream`: those of one stream return in order; empty: in none. `fills`: registers that it writes when it returns,
    `holds`: those it may read until then. `kept`: a wait that completes it is never taken back. `reads`: memory that
    others may write."""

    counter: str
    stream: str
    fills: frozenset[str] = frozenset()
    holds: frozenset[str] = frozenset()
    kept: bool = False
    reads: bool = False
    certain: bool = True

    @property
    def matters(self) -> bool:
        """Whether anything may rely on its completion; what others read of shared memory is not asked here."""
        return bool(self.fills or self.holds or self.kept or self.reads or not self.stream)


@dataclass(frozen=True, slots=True)
class Queues:
    """Where a target counts what, and whether sources of an access are read late."""

    shared: str
    loads: str
    stores: str
    scalars: str
    copies: str
    tensors: str
    reads_late: bool

    @classmethod
    def of(cls, target: Target, body: tuple[a.AsmLine | a.Mark, ...]) -> Queues:
        """Sources are read late where translation may repeat an access (X_CNT), or where the hardware checks no
        registers of vector memory (the scheduling mode of gfx12)."""
        names = [each for each in body if isinstance(each, a.AsmLine)]
        late = any(each.name.startswith("s_wait_xcnt") or _sets_mode(each) for each in names)
        of = target.counter_of
        return cls(
            of("local_read"),
            of("global_read"),
            of("global_write"),
            of("scalar_read"),
            of("gather_to_lds"),
            of("tensor_load_to_lds"),
            late or target.counter_of("gather_to_lds") == "asynccnt",
        )


def _sets_mode(item: a.AsmLine) -> bool:
    return bool(_MODE.match(item.name)) and "SCHED_MODE" in " ".join(map(str, item.operands))


def why_unknown(item: a.AsmLine) -> str:
    """Why nothing can be said of a kernel with this instruction; empty: it can."""
    if _UNKNOWN.match(item.name) or not item.name.startswith(_KNOWN):
        return f"`{item.name}` in line {item.at.line} may concern registers that it does not name"
    hidden = [each.name for each in item.operands if isinstance(each, a.Symbol) and _REGISTER.match(each.name)]
    if hidden or item.modifier("tfe") is not None or item.modifier("gds") is not None:
        return f"registers of `{item.name}` in line {item.at.line} are not known"
    if item.name == "s_waitcnt" and not waits_of(item):
        return f"the counts of line {item.at.line} are not known"
    return ""


def registers_of(item: a.AsmLine) -> frozenset[str]:
    """All that it may read or write, whether named or not."""
    name = item.name
    found = set(_named(item.operands))
    if (second := second_half(item)) is not None:
        found |= _named(second.operands)
    if name.startswith("v_"):
        found |= {*_BOTH, "m0"}
    elif name.startswith(("s_cbranch", "s_barrier", "s_sendmsg")):
        found |= {*_BOTH, "scc", "m0"}
    elif name.startswith("s_") and not name.startswith("s_wait"):
        found |= {"scc"} | ({"exec_lo", "exec_hi"} if "exec" in name else set())
    elif not name.startswith("s_"):
        found |= set(_ACCESS)
    return frozenset(found)


def written_by(item: a.AsmLine) -> frozenset[str]:
    """At least the registers that it writes: some instructions have two results, and swaps write both operands."""
    if _STORES.match(item.name) or item.name.startswith(("s_cmp", "s_bitcmp", "s_wait", "tensor_")):
        return frozenset()
    found = set(_named(item.operands[: 2 if item.name.startswith("v_") else 1]))
    if (second := second_half(item)) is not None:
        found |= _named(second.operands[:1])
    if item.name.startswith("v_cmp") or "_co_" in item.name or "div_scale" in item.name:
        found |= {"vcc_lo", "vcc_hi"}
    if "saveexec" in item.name or item.name.startswith("v_cmpx"):
        found |= {"exec_lo", "exec_hi"}
    return frozenset(found)


def _named(operands: tuple[a.Operand, ...]) -> set[str]:
    inner = (each.operand if isinstance(each, a.Changed) else each for each in operands)
    return {name for each in inner if isinstance(each, a.Registers) for name in each.names if name != "null"}


def flight_of(item: a.AsmLine, queues: Queues) -> Flight | None:
    """None where nothing is left behind, or only what has a counter that nobody loosens."""
    name = item.name
    if name.startswith("ds_") and name != "ds_nop":
        fills = frozenset() if _STORES.match(name) else _results(item)
        return Flight(queues.shared, "shared", fills, _sources(item, queues))
    if _FLAG.match(name):
        return Flight(queues.scalars, "", frozenset(_named(item.operands)) | {"scc"})
    if _SCALAR.match(name):
        return Flight(queues.scalars, "", _results(item), _sources(item, queues), reads="load" in name)
    if _MESSAGE.match(name):
        return Flight(queues.scalars, "", kept=True)
    if name.startswith("tensor_"):
        return Flight(queues.tensors, "tensor", holds=_sources(item, queues), reads=True, kept="_store" in name)
    if "_async_" in name:
        stores = "_store_" in name
        stream = "store" if stores else "load"  # in which order the two return is not established
        return Flight(queues.copies, stream, holds=_sources(item, queues), reads=not stores, kept=stores)
    if name.startswith(VECTOR):
        return _vector(item, queues)
    return None


def _vector(item: a.AsmLine, queues: Queues) -> Flight | None:
    name, scoped = item.name, any(item.modifier(each) is not None for each in _SCOPES)
    shared_counter = queues.loads == queues.stores
    if _CACHES.match(name):
        return Flight(queues.loads, "memory", kept="_wb" in name, certain=False)
    if "_atomic_" in name:
        returns = any(_RETURNS.match(f"{key}{value}") or _RETURNS.match(value) for key, value in item.modifiers)
        if not (returns or shared_counter):
            return None
        fills = _results(item) if returns else frozenset[str]()
        return Flight(queues.loads, "memory", fills, _sources(item, queues), kept=True)
    if _STORES.match(name):
        return Flight(queues.loads, "memory", holds=_sources(item, queues), kept=True) if shared_counter else None
    fills = frozenset() if is_copy(item) else _results(item)
    return Flight(queues.loads, "memory", fills, _sources(item, queues), kept=scoped, reads=True)


def _results(item: a.AsmLine) -> frozenset[str]:
    """Of a load, its first operand; of what is not known as one, all of them."""
    if _ADDS.match(item.name) and "_rtn" not in item.name:
        return frozenset()
    if re.search(r"load|_read|permute|swizzle|_rtn|_atomic_", item.name):
        return frozenset(_named(item.operands[:1]))
    return frozenset(_named(item.operands))


def _sources(item: a.AsmLine, queues: Queues) -> frozenset[str]:
    if not queues.reads_late:
        return frozenset()
    return frozenset(_named(item.operands)) | ({"m0"} if is_copy(item) else set())


def is_atomic(item: a.AsmLine) -> bool:
    """Of global or shared memory: others may take it for a sign."""
    return "_atomic_" in item.name or bool(_ADDS.match(item.name) or _SIGNS.match(item.name))


def is_global_store(item: a.AsmLine) -> bool:
    name = item.name
    atomic = "_atomic_" in name and not name.startswith("ds_")
    return atomic or name.startswith(("buffer_store", "global_store", "tbuffer_store", "tensor_store"))
