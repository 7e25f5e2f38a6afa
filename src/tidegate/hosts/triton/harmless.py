"""Operations that touch no shared memory and order nothing, though no type of theirs says so.

Needs   the name of an operation, and the text of inline assembly
Gives   whether it can be passed by
Keeps   an operation that is not known here may touch everything: `rocdl.ds.read.tr4.b64` or `llvm.inline_asm` need no
        descriptor for that. Assembly is read word by word, and only instructions that work on registers pass
Cost    constant for each operation; linear in the text of assembly
"""

from __future__ import annotations

import re

from tidegate.hosts.mlir.model import Operation

DIALECTS = frozenset({"arith", "math", "ub", "cf", "scf", "index", "builtin", "proton"})
# Of the dialects of Triton and of GPUs, what works on registers and global memory alone; `effects.toml` has the others.
OPERATIONS = frozenset(
    """
    tt.func tt.return tt.call tt.int_to_ptr tt.ptr_to_int tt.bitcast tt.fp_to_fp tt.clampf tt.precise_sqrt
    tt.precise_divf tt.mulhiui tt.addptr tt.advance tt.atomic_load tt.atomic_store tt.atomic_poll tt.splat tt.unsplat
    tt.expand_dims tt.reshape tt.broadcast tt.cat tt.join tt.split tt.trans tt.get_program_id tt.get_num_programs
    tt.reduce.return tt.scan.return tt.map_elementwise tt.map_elementwise.return tt.make_range tt.print tt.assert
    tt.make_tensor_descriptor tt.make_tensor_ptr
    ttg.fp4_to_fp ttg.global_scratch_alloc ttg.warp_specialize ttg.warp_specialize.partitions ttg.warp_yield
    ttg.warp_return ttg.warp_id ttg.mask ttg.mask.return ttg.predicate_stage
    ttng.packed_arith ttng.cluster_barrier ttng.cluster_arrive ttng.cluster_wait ttng.clc_is_canceled
    ttng.clc_get_program_id
    amdg.in_thread_transpose amdg.update_tensor_descriptor amdg.scaled_upcast_fp8 amdg.scaled_upcast_fp4
    amdg.upcast_mxfp amdg.extract_slice amdg.concat amdg.concat_tensors amdg.masked_load amdg.masked_store
    amdg.cluster_barrier_arrive amdg.cluster_barrier_wait amdg.instruction_sched_hint amdg.sched_group_barriers
    gpu.thread_id gpu.block_id gpu.block_dim gpu.grid_dim gpu.lane_id gpu.subgroup_id gpu.return
    rocdl.s.nop rocdl.s.sleep rocdl.waitcnt rocdl.s.waitcnt rocdl.readfirstlane rocdl.readlane rocdl.ballot
    rocdl.mbcnt.lo rocdl.mbcnt.hi
    llvm.mlir.constant llvm.mlir.undef llvm.mlir.poison llvm.mlir.zero llvm.intr.assume llvm.intr.expect
    llvm.intr.lifetime.start llvm.intr.lifetime.end
    """.split()
)
_NUMBERS = re.compile(r"(?:rocdl\.(?:workitem|workgroup|grid|cluster)\.[a-z.]+|nvvm\.read\.ptx\.sreg\.[a-z0-9_.]+)")

# Instructions by their first word, on registers alone.
_PTX = frozenset(
    """
    abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta discard div dp2a dp4a ex2 fma fns isspacep
    lg2 lop3 mad mad24 madc max min mov mul mul24 nanosleep neg not or pack popc prmt rcp rem rsqrt sad selp set setp
    shf shfl shl shr sin slct sqrt sub subc szext tanh testp vote xor griddepcontrol createpolicy pragma trap
    """.split()
)
# A label may have the name of an instruction, and the instruction behind it is another one.
_WORD = re.compile(r"(?:@!?[%$]?\w+\s+)?\{?\s*([A-Za-z_.$%][\w.]*)(?![\w.]|\s*:)")
_AMD = re.compile(
    r"(?:v_|s_(?:mov|add|sub|mul|and|or|xor|not|lsh|ash|bf|cmp|cselect|cmov|brev|bcnt|ff|flbit|sext|min|max|pack|abs|nop"
    r"|waitcnt|sleep|setprio|delay_alu|wait_(?!event)|memtime|memrealtime|getreg)|buffer_load|buffer_store|global_)\w*"
)
# What goes to shared memory; and the registers that decide where copies go there, and which lanes take part.
_LDS = re.compile(r"\blds\b|_lds_|_lds\b|\b(?:exec|m0)(?:\b|_)")


def is_harmless(op: Operation) -> bool:
    """Whether an operation without a row in the table, or with memory in none of its types, touches none."""
    if op.name == "tt.elementwise_inline_asm":
        return is_on_registers(op.string("asm_string"))
    if op.name == "tt.extern_elementwise":  # a function of a library of mathematics
        return op.attribute("pure") == "true"
    known = op.name.split(".")[0] in DIALECTS or op.name in OPERATIONS
    return known or _NUMBERS.fullmatch(op.name) is not None


def is_on_registers(text: str) -> bool:
    """Whether all instructions of a text work on registers; of PTX or of AMD's GPUs."""
    text = re.sub(r"/\*.*?\*/|//[^\n\\]*", " ", text, flags=re.DOTALL)
    lines = re.split(r";|\n|\\n|\\0A|\\09|\\t", text)
    return all(_is_plain(line.strip(" \t{}")) for line in lines)


def _is_plain(line: str) -> bool:
    if not line or line.startswith(".reg"):
        return True
    found = _WORD.match(line)
    if found is None:
        return False
    word = found[1]
    if _AMD.fullmatch(word):
        return _LDS.search(line) is None
    return word.split(".")[0] in _PTX
