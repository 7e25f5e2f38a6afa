"""AMDGCN instructions as operations of `hosts.isa`.

Needs   a kernel of an assembly, its target, the lanes of a wave
Gives   `Code`: operations with jumps by number, shared memory as one array
Keeps   what an instruction does to shared memory, control and synchronization is said, or it is `Opaque`. Results of
        what is not integer are forgotten
Cost    linear

A wave carries out an instruction as one: EXEC says in which of its lanes. Branches look at SCC, VCC and EXEC of a wave
(AMD Instinct MI300 ISA, 4.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.emitter import UNKNOWN, Emitter
from tidegate.hosts.amdgcn.facts import ABORT, Certain, find_facts, leads_on
from tidegate.hosts.amdgcn.forget import forget_vector
from tidegate.hosts.amdgcn.lower_memory import (
    Counters,
    can_point_to_shared,
    is_copy,
    listens,
    lower_copy,
    lower_flat,
    lower_global,
    lower_shared,
)
from tidegate.hosts.amdgcn.lower_scalar import lower_scalar
from tidegate.hosts.amdgcn.lower_vector import lower_vector
from tidegate.hosts.amdgcn.parse import second_half
from tidegate.hosts.amdgcn.starts import Starts
from tidegate.hosts.amdgcn.waits import waits_of
from tidegate.hosts.isa import model as m
from tidegate.targets import Target

ARRAY = "LDS"
_JUMPS = {"scc0": ("scc", True, False), "scc1": ("scc", False, False)}
_JUMPS |= {"vccz": ("vcc", True, True), "vccnz": ("vcc", False, True)}
_JUMPS |= {"execz": ("exec", True, True), "execnz": ("exec", False, True)}
# They do nothing to shared memory and order nothing among waves.
_NOTHING = (
    "s_nop s_sleep s_setprio s_clause s_delay_alu s_sendmsg s_waitcnt_depctr s_wait_alu s_wait_xcnt "
    "s_wait_event s_inst_prefetch s_set_inst_prefetch_distance s_setprio_inc_wg s_singleuse_vdst "
    "s_code_end s_ttracedata s_ttracedata_imm s_icache_inv s_dcache_inv s_dcache_wb s_incperflevel s_decperflevel "
    "s_round_mode s_denorm_mode s_version s_wakeup s_set_gpr_idx_off s_prefetch_inst "
    "s_prefetch_data s_prefetch_inst_pc_rel s_prefetch_data_pc_rel s_buffer_prefetch_data s_monitor_sleep "
    "s_sleep_var v_nop exp "
    "buffer_wbl2 buffer_inv buffer_gl0_inv buffer_gl1_inv buffer_wbinvl1 buffer_wbinvl1_vol global_wb global_inv "
    "global_wbinv global_prefetch_b8 flat_prefetch_b8"
).split()
# gfx1250 calls `s_setpc_b64` `s_set_pc_i64`, and so on.
_CALLS = (
    *("s_swappc", "s_swap_pc", "s_setpc", "s_set_pc", "s_call", "s_rfe", "s_add_pc", "s_subvector_loop"),
    *("s_cbranch_g_fork", "s_cbranch_i_fork", "s_cbranch_join"),
)
# The number of the register that an instruction names is not the one it works on.
_INDEXED = (
    *("s_set_gpr_idx_on", "s_set_gpr_idx_mode", "s_set_gpr_idx_idx", "s_movrel", "s_mov_regrd"),
    *("v_movrel", "v_swaprel"),
)
_MODE = re.compile(r"hwreg\(HW_REG_(?:WAVE_)?MODE, ?(\d{1,2}), ?(\d{1,2})\)$")
# Of MODE: the upper bits of vector registers (gfx1250), GPR_IDX_EN and VSKIP (gfx9). The rest is rounding and traps.
_RENUMBERING = frozenset((*range(12, 20), 27, 28))
# A scalar instruction that is not known by name is arithmetic if it names a type, and changes its result alone.
_ARITHMETIC = re.compile(
    r"_[biuf]\d+(_|$)|_bf16|^s_(mem(real)?time|get_waveid|dcache|atc|store|atomic|buffer_|scratch_)"
)
_LDS_DIRECT = ("src_lds_direct", "lds_direct")
_UNREAD = re.compile(r"(v|s|a|ttmp)\[|[^(]* ")  # an index that is computed, a word behind an operand
# What they give differs from wave to wave, or from moment to moment.
_OF_WAVES = ("s_getreg", "s_memtime", "s_memrealtime", "s_get_", "s_getpc", "s_sendmsg_rtn", "s_barrier")
# Of a register of the hardware, whether the workgroup is one of a cluster (LLVM, SIISelLowering.cpp, IB_STS2).
_CLUSTER = a.Symbol("hwreg(HW_REG_IB_STS2, 6, 4)")
# RDNA 4 ISA, 16.1 to 16.5: of arithmetic on floating-point numbers only comparisons set SCC; bits are counted without.
_KEEPS_SCC = re.compile(
    r"s_(add|sub|mul|min|max|fmac|fmaak|fmamk|ceil|floor|trunc|rndne|min_num|max_num|minimum|maximum)_f(16|32)$|"
    r"s_cvt_|s_(ff1|ctz|flbit|clz|cls|getreg|getpc|bfm|movrel|mul|pack|sext|bitreplicate)_"
)
_GLOBAL = ("global_", "buffer_", "tbuffer_", "scratch_", "image_")


def lower(kernel: a.KernelText, target: Target, starts: Starts, arrays: tuple[str, ...]) -> m.Code:
    return _Emit(kernel, target, starts, arrays).code()


class _Emit:
    def __init__(self, kernel: a.KernelText, target: Target, starts: Starts, arrays: tuple[str, ...]) -> None:
        self.kernel, self.target, self.starts = kernel, target, starts
        self.out = Emitter(starts.lanes, arrays, listens(kernel))
        self.counters = Counters.of(target)
        items = [each for each in kernel.body if isinstance(each, a.AsmLine)]
        copies = any(map(is_copy, items))
        shared = {self.counters.shared} | ({self.counters.copies, self.counters.tensors} if copies else set())
        self.counted = frozenset(shared - {""})
        self.touches = copies or any(each.name.startswith("ds_") for each in items)
        self.may_be_shared = can_point_to_shared(kernel)
        self.touches |= kernel.settings.get("group_segment_fixed_size", 0) > 0
        self.targets: list[str] = []

    def code(self) -> m.Code:
        out, labels = self.out, dict[str, int]()
        out.at = self.kernel.at
        self.starts.add_to(out)
        facts = find_facts(self.kernel.body, out.lanes, self.starts.arguments)
        for item, known in zip(self.kernel.body, facts, strict=True):
            if isinstance(item, a.Mark):
                labels[item.name] = len(out.ops)
            elif known is not None:  # nothing comes to the others
                out.begin(item, known)
                self.instruction(item, known)
        last_one = next(
            (each for each in zip(self.kernel.body[::-1], facts[::-1], strict=True) if isinstance(each[0], a.AsmLine)),
            None,
        )
        # Behind the end there may be padding, to which nothing comes.
        if last_one is None or (last_one[1] is not None and leads_on(last_one[0])):  # type: ignore[arg-type]
            out.opaque("the code of the kernel does not end", orders=True)
        out.add(m.End())
        if out.spills_lost:
            out.ops = [_without_spill(op) for op in out.ops]
        last = len(out.ops) - 1
        size = self.target.lds.bytes or 65536
        return m.Code(
            self.kernel.name,
            tuple(self.resolved(op, labels, last) for op in out.ops),
            (m.Array(ARRAY, 0, size, self.kernel.at),) if self.touches else (),
            frozenset(out.predicates),
            by_wave=True,
            absolute=self.touches,
        )

    def resolved(self, op: m.Op, labels: dict[str, int], last: int) -> m.Op:
        if isinstance(op.action, m.Jump) and op.action.target < 0:
            target = labels.get(self.targets[~op.action.target])
            if target is None:
                return m.Op(m.Opaque("a jump to a label that is not there", orders=True), None, op.at, op.text)
            return m.Op(m.Jump(min(target, last)), op.guard, op.at, op.text)
        return op

    def instruction(self, item: a.AsmLine, facts: Certain) -> None:
        out, name = self.out, item.name
        handler = _HANDLERS.get(name)
        if name in _NOTHING:
            return
        if (unread := _unread(item)) and not name.startswith("s_wait"):
            out.opaque(f"`{unread}` is not understood", orders=True, touches=True)
        if handler is not None:
            handler(self, item)
        elif name.startswith(_CALLS):
            out.opaque("a call or a jump to an address is not followed", orders=True, touches=self.touches)
            out.add(m.End())
        elif name.startswith(("s_branch", "s_cbranch")):
            self.jump(item)
        elif name.startswith("s_wait"):
            self.wait(item, facts)
        elif name.startswith(("s_barrier", "s_get_barrier")):
            self.barrier(item)
        elif name.startswith(_INDEXED):
            out.opaque(f"`{name}` is not modelled", orders=True)
        elif name.startswith("v_"):
            self.vector(item)
        elif name.startswith("ds_"):
            lower_shared(out, item, self.counters)
        elif is_copy(item):
            lower_copy(out, item, self.counters)
        elif name.startswith("flat_"):
            lower_flat(out, item, self.may_be_shared)
        elif name.startswith(_GLOBAL):
            lower_global(out, item, self.counters, self.counted)
        elif name.startswith("s_"):
            self.scalar(item, facts)
        else:
            out.opaque(f"`{name}` is not known", orders=True, touches=True)

    # --- control ---

    def jump(self, item: a.AsmLine) -> None:
        out = self.out
        target = item.operands[-1] if item.operands else None
        if not isinstance(target, a.Symbol):
            out.opaque("a jump to no label", orders=True)
            return
        self.targets.append(target.name)
        action = m.Jump(~(len(self.targets) - 1))
        if item.name == "s_branch":
            out.add(action)
            return
        known = _JUMPS.get(item.name.removeprefix("s_cbranch_"))
        if known is None:
            out.opaque(f"`{item.name}` is not modelled", orders=True)
            truth = out.truth()
            out.add(m.Forget((truth,), (), False))
            out.add(action, m.Guard(truth))
            return
        register, negated, of_lanes = known
        if of_lanes:
            truth = out.truth()
            out.add(m.Logic(truth, "any", (m.Register(register),)))
            register = truth
        out.add(action, m.Guard(register, negated))

    def end(self, item: a.AsmLine) -> None:
        self.out.add(m.End())

    def set_mode(self, item: a.AsmLine) -> None:
        """Bits of a hardware register: some of MODE decide what later instructions do."""
        given = item.operands[0] if item.operands else None
        name = given.name if isinstance(given, a.Symbol) else ""
        bits = _MODE.match(name)
        first, count = (int(bits[1]), int(bits[2])) if bits else (0, 32)
        plain = name.startswith("hwreg(HW_REG_") and "MODE" not in name.replace("SCHED_MODE", "")
        if not plain and not _RENUMBERING.isdisjoint(range(first, first + count)):
            self.out.opaque(f"`{item.text}` of this part of a register is not modelled", orders=True)

    def renumber(self, item: a.AsmLine) -> None:
        """The numbers of registers behind it are not those in the text, where no comment says them."""
        given = item.operands[0] if item.operands else None
        if not isinstance(given, a.Immediate) or given.value & 255:
            self.out.opaque(f"`{item.text}` is not modelled", orders=True)

    def abort(self, item: a.AsmLine) -> None:
        if item.operands == (a.Immediate(ABORT),):
            self.out.add(m.End(aborts=True))

    # --- waiting ---

    def wait(self, item: a.AsmLine, facts: Certain) -> None:
        """A count above 0 says nothing while something is in flight that returns in any order."""
        counts = []
        for name, count in waits_of(item):
            lost = (name == "lgkmcnt" and (facts.scalar or facts.flat_shared)) or (
                name in ("vmcnt", "loadcnt") and facts.flat_memory
            )
            lost = lost or (name == "dscnt" and facts.flat_shared)
            if name in self.counted and (count == 0 or not lost):
                counts.append((name, count))
        if counts:
            self.out.add(m.WaitCounts(tuple(counts)))

    def barrier(self, item: a.AsmLine) -> None:
        out, name = self.out, item.name
        split = name.startswith(("s_barrier_signal", "s_barrier_wait"))
        if name == "s_barrier" and not item.operands:
            out.add(m.Meet(m.Constant(0)))
        elif split and item.operands == (a.Immediate(-1),) and self.target.barrier.split:
            out.add(m.Meet(m.Constant(0), None, "depart" if name == "s_barrier_wait" else "arrive"))
            if name.endswith("isfirst"):
                out.add(m.Forget(("scc",), (), False))
        else:
            out.opaque(f"`{item.text}` of a named barrier is not modelled", orders=True)
            out.add(m.Forget(("scc",), (), False))

    # --- registers ---

    def vector(self, item: a.AsmLine) -> None:
        second = second_half(item)
        if second is None:
            self.one(item)
            return
        first = a.AsmLine(_alone(item.name), item.operands, item.modifiers[1:], item.text, item.at)
        second = a.AsmLine(_alone(second.name), second.operands, second.modifiers, item.text, item.at)
        # Both read before either writes.
        changed = first.operands[0] if first.operands else None
        kept: dict[str, str] = {}
        if isinstance(changed, a.Registers):
            for each in second.operands[1:]:
                inner = each.operand if isinstance(each, a.Changed) else each
                for register in inner.names if isinstance(inner, a.Registers) else ():
                    if register in changed.names:
                        copied = self.out.compute("copy", m.Register(register))
                        assert isinstance(copied, m.Register)
                        kept[register] = copied.name
        self.one(first)
        operands = tuple(_renamed(each, kept) if place else each for place, each in enumerate(second.operands))
        self.one(a.AsmLine(second.name, operands, second.modifiers, item.text, item.at))

    def one(self, item: a.AsmLine) -> None:
        if not lower_vector(self.out, item):
            forget_vector(self.out, item)

    def scalar(self, item: a.AsmLine, facts: Certain) -> None:
        out, name = self.out, item.name
        if name.startswith(("s_load_", "s_buffer_load_", "s_scratch_load_")):
            self.load(item, facts)
        elif name.startswith(("s_store", "s_buffer_store", "s_atomic", "s_buffer_atomic", "s_atc", "s_dcache")):
            out.forget(item.operands[:1])
        elif lower_scalar(out, item):
            return
        elif not _ARITHMETIC.search(name):
            out.opaque(f"`{name}` is not known", orders=True)
        else:
            is_cluster = item.operands[1:] == (_CLUSTER,)
            sources = (*out.operands(item.operands[1:]), *out.operands(item.operands[:1]), m.Register("scc"))
            sources = () if is_cluster else sources
            same = is_cluster or not name.startswith(_OF_WAVES)
            if not _KEEPS_SCC.match(name):
                out.add(m.Forget(("scc",), sources, same, ""))
            out.forget(item.operands[:1], sources, uniform=same)

    def load(self, item: a.AsmLine, facts: Certain) -> None:
        """Arguments are the same for all waves, and so is what lies at one address."""
        out, given = self.out, item.operands
        if len(given) < 3 or not isinstance(given[0], a.Registers):
            out.forget(given[:1], (UNKNOWN,))
            return
        base, offset = given[1], given[2]
        out.forget(given[:1], out.operands(given[1:]))
        is_argument = (
            item.name.startswith("s_load_")
            and isinstance(base, a.Registers)
            and facts.arguments.issuperset(base.names)
            and isinstance(offset, a.Immediate)
            and not item.name.startswith(("s_load_u", "s_load_i"))
            and set(item.modifiers) <= {("nv", "")}
        )
        if is_argument:
            assert isinstance(offset, a.Immediate)
            for number, register in enumerate(given[0].names):
                out.add(m.Compute(register, "copy", (m.Given(f"param {offset.value + 4 * number}"),)))


def _without_spill(op: m.Op) -> m.Op:
    """A load of what some other store may have changed."""
    match op.action:
        case m.Compute(result=result, operands=(m.Register(name),)) if name.startswith("spill "):
            return replace(op, action=m.Forget((result,), (), False, ""))
    return op


def _unread(item: a.AsmLine) -> str:
    """An operand that may be more than the word that was read."""
    names = [each.name for each in item.operands if isinstance(each, a.Symbol)]
    return next((each for each in names if each in _LDS_DIRECT or _UNREAD.match(each)), "")


def _renamed(given: a.Operand, names: dict[str, str]) -> a.Operand:
    if isinstance(given, a.Changed) and isinstance(given.operand, a.Registers):
        return a.Changed(a.Registers(tuple(names.get(each, each) for each in given.operand.names)))
    if isinstance(given, a.Registers):
        return a.Registers(tuple(names.get(each, each) for each in given.names))
    return given


def _alone(name: str) -> str:
    return name.replace("v_dual_", "v_", 1)


_HANDLERS: dict[str, Callable[[_Emit, a.AsmLine], None]] = {
    "s_endpgm": _Emit.end,
    "s_endpgm_saved": _Emit.end,
    "s_endpgm_ordered_ps_done": _Emit.end,
    "s_setreg_b32": _Emit.set_mode,
    "s_setreg_imm32_b32": _Emit.set_mode,
    "s_set_vgpr_msb": _Emit.renumber,
    "s_trap": _Emit.abort,
}
