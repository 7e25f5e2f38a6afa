"""Accesses to memory: which of them touch shared memory, where, and on which counters they count.

Needs   an instruction, the lowering that it belongs to, the target
Gives   operations
Keeps   an instruction on shared memory that is not known may touch all of it; one that counts on a counter of shared
        memory is counted whether or not it touches any
Cost    constant

AMD Instinct MI300 ISA, 11 (local data share; 11.3: two addresses, `offset0`, `offset1`, `st64`) and 9.1.9 (loads to
shared memory: `LDS_base + M0 + offset + lane * 4`; CDNA 4 ISA: `lane * 16` for three and four words); RDNA 4 ISA, 12
(shared memory). Which instruction counts where: LLVM, SIInsertWaitcnts.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.emitter import UNKNOWN, Emitter
from tidegate.hosts.isa import model as m
from tidegate.targets import Target

_SIZES = {"b8": 1, "u8": 1, "i8": 1, "b16": 2, "u16": 2, "i16": 2, "b32": 4, "u32": 4, "i32": 4, "f32": 4, "b64": 8}
_SIZES |= {"u64": 8, "i64": 8, "f64": 8, "b96": 12, "b128": 16, "f16": 4, "bf16": 4}
_PLAIN = re.compile(r"ds_(read|load|write|store)_([biuf]\d+)(_d16|_d16_hi)?$")
_PAIR = re.compile(
    r"ds_(read2|write2|wrxchg2_rtn|load_2addr|store_2addr|storexchg_2addr_rtn)(st64|_stride64)?_b(32|64)$"
)
_TURNED = re.compile(r"ds_(?:read_b(64|96)_tr_b\d+|load_tr\d+_b(64|96|128))$")
_ATOMIC = re.compile(
    r"ds_(add|sub|rsub|inc|dec|min|max|min_num|max_num|and|or|xor|mskor|wrxchg|storexchg|cmpst|cmpstore|pk_add|sub_clamp|"
    r"cond_sub|condsub)(_rtn)?_([biuf]\d+|bf16)$"
)
# They go through the unit of shared memory and touch none.
_MOVES = re.compile(r"ds_(bpermute|permute|bpermute_fi|swizzle)_b32$")
_ASYNC = re.compile(r"(?:global|cluster)_load_async_to_lds_b(8|32|64|128)$")
_ASYNC_STORE = re.compile(r"global_store_async_from_lds_b(8|32|64|128)$")
_DIRECT = re.compile(r"(?:global|scratch)_load_lds_(ubyte|sbyte|ushort|sshort|dword|dwordx3|dwordx4)$")
# With the modifier `lds`; gfx90a writes `global_load_dword v[0:1], off lds`.
_TO_LDS = re.compile(r"(?:buffer|global|scratch)_load_(ubyte|sbyte|ushort|sshort|dword|dwordx3|dwordx4)$")
# Bytes that a lane writes, and from one lane to the next: less than a dword is written as a dword, and three have room
# for four (CDNA4 ISA §9.1.9: `TIDinWave * 4`, and `TIDinWave * 16` for 3 and 4 dwords).
_DIRECT_SIZES = {"dwordx3": (12, 16), "dwordx4": (16, 16)}
_LOADS = re.compile(r"(global|buffer|tbuffer|scratch|image)_(load|sample|gather|atomic|bvh)")
_STORES = re.compile(r"(global|buffer|tbuffer|scratch|image)_(store|atomic)")
_LISTENS = re.compile(r"(global|flat|buffer|s_buffer|s)_atomic|global_inv|buffer_inv|buffer_gl[01]_inv|buffer_wbinvl1")
_SPILL = re.compile(r"scratch_(load|store)_(?:dword(?:x[234])?|b(?:32|64|96|128))$")
_OPERATORS = {"add": "add", "and": "and", "or": "or", "xor": "xor", "min": "min", "max": "max"}
COPIES = ("global_load_async", "cluster_load_async", "global_store_async", "tensor_")
_THROUGH = ("global_", "buffer_", "tbuffer_", "scratch_", "image_")


@dataclass(frozen=True, slots=True)
class Counters:
    """Where a target counts: accesses to shared memory, copies, loads and stores of global memory."""

    shared: str
    copies: str
    tensors: str
    loads: str
    stores: str

    @classmethod
    def of(cls, target: Target) -> Counters:
        of = target.counter_of
        copies, tensors = of("gather_to_lds"), of("tensor_load_to_lds")
        return cls(of("local_read"), copies, tensors, of("global_read"), of("global_write"))


def is_copy(item: a.AsmLine) -> bool:
    """Whether an instruction moves data between global and shared memory in the background."""
    through = item.name.startswith(_THROUGH) and "_lds" in item.name
    return item.name.startswith(COPIES) or through or item.modifier("lds") is not None


def lower_shared(out: Emitter, item: a.AsmLine, counters: Counters) -> None:
    """`ds_…`."""
    name, given = item.name, item.operands
    if item.modifier("gds") is not None:
        out.opaque(f"`{name}` of global data share is not modelled", orders=True, touches=True)
        out.forget(given[:1], (), uniform=False)
    elif _MOVES.match(name):
        out.add(m.Issued(counters.shared))
        out.forget(given[:1], out.operands(given[1:]), uniform=False, by_wave=True)
    elif (found := _PLAIN.match(name)) is not None:
        effect = "read" if found[1] in ("read", "load") else "write"
        _access(out, item, effect, _SIZES.get(found[2], 0), counters.shared)
    elif (found := _TURNED.match(name)) is not None:
        _access(out, item, "read", int(found[1] or found[2]) // 8, counters.shared)
    elif (found := _PAIR.match(name)) is not None:
        _two(out, item, found, counters.shared)
    elif (found := _ATOMIC.match(name)) is not None:
        _atomic(out, item, found, counters.shared)
    elif name == "ds_nop":
        return
    elif "gws" in name or "barrier" in name:
        out.opaque(f"`{name}` is not modelled", orders=True, touches=True)
        out.forget(given[:1])
    else:
        out.opaque(f"`{name}` is not known", touches=True)
        out.forget(given[:1], (), uniform=False)


def _access(out: Emitter, item: a.AsmLine, effect: str, size: int, counter: str) -> None:
    given, offset = item.operands, item.number("offset")
    place = 1 if effect == "read" else 0
    if not size or offset is None or len(given) <= place:
        out.opaque(f"`{item.name}` is not known", touches=True)
        out.forget(given[:1])
        return
    address = out.operand(given[place])
    values = out.operands(given[1:2]) if effect == "write" else ()
    out.vector(m.Touch(effect, address, offset, size, values=values, counter=counter))
    if effect == "read":
        # Half of a register stays; what is transposed comes from the addresses of other lanes.
        kept = out.operands(given[:1]) if "d16" in item.name else ()
        turned = _TURNED.match(item.name) is not None
        out.forget(given[:1], (address, *kept), uniform=not turned, by_wave=turned)


def _two(out: Emitter, item: a.AsmLine, found: re.Match[str], counter: str) -> None:
    size = int(found[3]) // 8
    step = size * (64 if found[2] else 1)
    reads = found[1] in ("read2", "load_2addr")
    exchanges = "xchg" in found[1]
    place = 1 if reads or exchanges else 0
    offsets = [item.number("offset0"), item.number("offset1")]
    if len(item.operands) <= place or None in offsets:
        out.opaque(f"`{item.name}` is not known", touches=True)
        out.forget(item.operands[:1])
        return
    address = out.operand(item.operands[place])
    effect = "read" if reads else "atomic" if exchanges else "write"
    for number, offset in enumerate(offsets):
        assert offset is not None
        values = out.operands(item.operands[1 + number : 2 + number]) if effect == "write" else ()
        touch = m.Touch(effect, address, offset * step, size, values=values, counter=counter, counted=int(not number))
        out.vector(touch)
    if place:
        out.forget(item.operands[:1], (address,))


def _atomic(out: Emitter, item: a.AsmLine, found: re.Match[str], counter: str) -> None:
    given, offset = item.operands, item.number("offset")
    place, size = (1 if found[2] else 0), _SIZES.get(found[3], 0)
    if not size or offset is None or len(given) <= place:
        out.opaque(f"`{item.name}` is not known", touches=True)
        out.forget(given[:1])
        return
    operator, element = _OPERATORS.get(found[1], ""), f"i{8 * size}"
    if found[3].startswith(("f", "bf")) or found[1].startswith("pk"):
        operator, element = "fadd" if operator == "add" else operator, f"f{8 * size}"
    elif found[3].startswith("u") and operator in ("min", "max"):
        operator = f"u{operator}"
    address = out.operand(given[place])
    out.vector(m.Touch("atomic", address, offset, size, operator=operator, element=element, counter=counter))
    if found[2]:
        out.forget(given[:1], (), uniform=False)


def lower_copy(out: Emitter, item: a.AsmLine, counters: Counters) -> None:
    """Between global and shared memory, in the background."""
    name, given = item.name, item.operands
    if (found := _ASYNC.match(name) or _ASYNC_STORE.match(name)) is not None and len(given) > 1:
        stores = "_store_" in name
        address = out.operand(given[1 if stores else 0])
        _copy(out, item, address, int(found[1]) // 8, counters.copies, None if stores else given[1:])
        if name.startswith("cluster"):
            out.opaque(f"`{name}` writes shared memory of other workgroups, which is not modelled", orders=True)
    elif (found := _DIRECT.match(name) or _TO_LDS.match(name)) is not None:
        size, step = _DIRECT_SIZES.get(found[1], (4, 4))
        place = out.fresh()
        out.add(m.Compute(place, "mad", (m.Given("%laneid"), m.Constant(step), m.Register("m0"))))
        # The bits above those of M0 say nothing.
        _copy(out, item, m.Register(place), size, counters.copies, given, "near")
    elif name.startswith("tensor_"):
        stores = "_store_" in name
        if not counters.tensors:
            out.opaque(f"`{name}` is not known for this target", orders=True, touches=True)
            return
        out.add(m.Touch("read" if stores else "write", UNKNOWN, 0, 1, is_async=True, counter=counters.tensors))
    else:
        out.opaque(f"`{name}` is not known", orders=True, touches=True)


def _copy(
    out: Emitter,
    item: a.AsmLine,
    address: m.Operand,
    size: int,
    counter: str,
    source: tuple[a.Operand, ...] | None,
    space: str = "shared",
) -> None:
    """`source`: operands that say where in global memory it comes from; None: it goes there."""
    offset = item.number("offset")
    if offset is None or not counter:
        out.opaque(f"`{item.name}` is not known for this target", orders=True, touches=True)
        return
    effect = "read" if source is None else "write"
    values = out.operands(source) if source is not None and _is_steady(out, item) else ()
    out.vector(m.Touch(effect, address, offset, size, space, values=values, is_async=True, counter=counter))


def listens(kernel: a.KernelText) -> bool:
    """Whether a kernel learns what other workgroups write meanwhile: by atomics, or by forgetting what caches hold."""
    names = (each.name for each in kernel.body if isinstance(each, a.AsmLine))
    return any(_LISTENS.match(name) for name in names)


def _is_steady(out: Emitter, item: a.AsmLine) -> bool:
    """Whether a load finds the same at one address whenever it is carried out.

    LLVM, AMDGPUUsage, memory model: loads of a scope beyond the wave have `glc`, `sc0`, `sc1` or `scope:`; with `slc`
    they are non-temporal. Without a kernel that listens, these are about caches alone.
    """
    words = dict(item.modifiers)
    scope = words.get("scope", "SCOPE_CU")
    alone = scope == "SCOPE_CU" and not {"sc0", "sc1"} & words.keys() and ("glc" not in words or "slc" in words)
    return alone or not out.listens


def lower_spill(out: Emitter, item: a.AsmLine) -> bool:
    """Registers that are put away in a lane's own memory: `scratch_store_b32 off, v1, off offset:8`."""
    found = _SPILL.match(item.name)
    offset = item.number("offset")
    if found is None or offset is None or offset % 4:
        return False
    given = [each for each in item.operands if not (isinstance(each, a.Symbol) and each.name == "off")]
    if len(given) != 1 or not isinstance(given[0], a.Registers):
        return False
    for number, register in enumerate(given[0].names):
        slot = f"spill {offset + 4 * number}"
        result, source = (register, slot) if found[1] == "load" else (slot, register)
        out.vector(m.Compute(result, "copy", (m.Register(source),)))
    return True


def can_point_to_shared(kernel: a.KernelText) -> bool:
    """Whether a flat address may be one of shared memory: for that a kernel needs to find out where it lies.

    LLVM, AMDGPUUsage, address spaces: `src_shared_base`, on older GPUs the queue or a hidden argument. What a launch
    passes holds no address of shared memory.
    """
    settings = kernel.settings
    if not settings or settings.get("user_sgpr_queue_ptr"):
        return True
    items = (each for each in kernel.body if isinstance(each, a.AsmLine))
    return any(
        isinstance(given, a.Symbol) and ("shared_base" in given.name or "hwreg" in given.name)
        for each in items
        for given in each.operands
        if not each.name.startswith("s_setreg")
    )


def lower_flat(out: Emitter, item: a.AsmLine, may_be_shared: bool) -> None:
    """Its counts are those of global and of shared memory, and say nothing of copies before it (`facts`)."""
    name, given = item.name, item.operands
    if may_be_shared:
        out.opaque(f"`{name}` may lead to shared memory", touches=True)
    if name.startswith("flat_load"):
        kept = given[:1] if "_d16" in name else ()
        out.forget(given[:1], out.operands((*given[1:], *kept)), uniform=not may_be_shared and _is_steady(out, item))
    elif not name.startswith("flat_store"):
        out.forget(given[:1], (), uniform=False)


def lower_global(out: Emitter, item: a.AsmLine, counters: Counters, counted: frozenset[str]) -> None:
    """Global, local and texture memory: what comes back, and what counts beside copies. `counted`: counters that
    accesses to shared memory are counted on."""
    name, given = item.name, item.operands
    returns = not _STORES.match(name) or any(
        word in ("glc", "sc0") or value.startswith("TH_ATOMIC_RETURN") for word, value in item.modifiers
    )
    spills = name.startswith("scratch_") and lower_spill(out, item)
    if not spills and name.startswith("scratch_store"):
        out.spills_lost = True
    counter = ""
    if _LOADS.match(name) and "atomic" not in name and not name.startswith("image"):
        counter = counters.loads
    elif _STORES.match(name) and "atomic" not in name:
        counter = counters.stores
    elif "atomic" in name and counters.loads == counters.stores:
        counter = counters.loads
    if counter in counted:
        out.add(m.Issued(counter))
    if returns and not spills:
        steady = "atomic" not in name and "addtid" not in name and not name.startswith(("scratch", "image"))
        kept = given[:1] if "d16" in name else ()
        out.forget(given[:1], out.operands((*given[1:], *kept)), uniform=steady and _is_steady(out, item))
