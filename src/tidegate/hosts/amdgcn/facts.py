"""What is certain, or possible, at each instruction, whatever values registers hold.

Needs   a kernel's body, the lanes of a wave, the register that holds the address of the arguments
Gives   `Certain` for each instruction: whether all lanes are active, where the arguments are, what may be in flight
        that returns in any order
Keeps   `full` and `arguments` hold on every path; `scalar` and `flat` are missing only where no path has them
Cost    linear, times the depth of loops

    s_and_saveexec_b64 s[4:5], vcc      from here on not all lanes are active; s[4:5] holds the mask of all
    s_or_b64 exec, exec, s[4:5]         from here on they are again
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.waits import waits_of

_JUMPS = re.compile(r"s_c?branch")
_SCALAR = (
    *("s_load", "s_buffer_load", "s_scratch_load", "s_memtime", "s_memrealtime", "s_sendmsg", "s_dcache", "s_atc"),
    *("s_store", "s_buffer_store", "s_atomic", "s_buffer_atomic", "s_prefetch", "s_get_waveid"),
)
_SAVES = re.compile(r"s_(and|or|xor|andn[12]|orn[12]|and_not[01]|or_not[01]|nand|nor|xnor)_(saveexec|wrexec)_b(32|64)")
_ENDS = ("s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done", "s_setpc_b64", "s_rfe_b64", "s_branch")
ABORT = 2  # LLVM, AMDGPUUsage, trap handler: it ends the program; a trap of another number comes back


@dataclass(frozen=True, slots=True)
class Certain:
    """`masks`: masks of all lanes. `arguments`: registers that hold the address of the arguments."""

    full: bool = True
    masks: frozenset[str] = frozenset()
    arguments: frozenset[str] = frozenset()
    scalar: bool = False  # a scalar load may be in flight
    flat_memory: bool = False  # a flat access may be in flight, of global memory
    flat_shared: bool = False  # the same, of shared memory

    def joined(self, other: Certain) -> Certain:
        return Certain(
            self.full and other.full,
            self.masks & other.masks,
            self.arguments & other.arguments,
            self.scalar or other.scalar,
            self.flat_memory or other.flat_memory,
            self.flat_shared or other.flat_shared,
        )


def leads_on(item: a.AsmLine) -> bool:
    """Whether the instruction behind this one may come next."""
    aborts = item.name == "s_trap" and item.operands == (a.Immediate(ABORT),)
    return item.name not in _ENDS and not aborts


def mask_of(operand: a.Operand, lanes: int) -> str:
    """The name of the mask that registers hold, one bit for each lane; empty if they hold none."""
    if not isinstance(operand, a.Registers) or len(operand.names) != lanes // 32:
        return ""
    return mask_in(operand.first, lanes)


def mask_in(register: str, lanes: int) -> str:
    """The mask that a register belongs to."""
    if register in ("vcc_lo", "exec_lo") or (lanes == 64 and register in ("vcc_hi", "exec_hi")):
        return register.partition("_")[0]
    kind, number = register.rstrip("0123456789"), register.lstrip("stmp")
    if kind not in ("s", "ttmp") or not number.isdigit():
        return ""
    return f"mask {kind}{int(number) // (lanes // 32) * (lanes // 32)}"


def find_facts(body: Sequence[a.AsmLine | a.Mark], lanes: int, arguments: frozenset[str]) -> list[Certain | None]:
    """Before each item of a body; None where nothing comes to."""
    labels = {item.name: place for place, item in enumerate(body) if isinstance(item, a.Mark)}
    found: list[Certain | None] = [None] * len(body)
    work: list[tuple[int, Certain]] = [(0, Certain(arguments=arguments))] if body else []
    while work:
        place, facts = work.pop()
        while place < len(body):
            known = found[place]
            joined = facts if known is None else known.joined(facts)
            if joined == known:
                break
            found[place] = facts = joined
            item = body[place]
            if isinstance(item, a.AsmLine):
                facts = _after(item, facts, lanes)
                if _JUMPS.match(item.name) and item.operands:
                    target = item.operands[-1]
                    if isinstance(target, a.Symbol) and target.name in labels:
                        work.append((labels[target.name], facts))
                if not leads_on(item):
                    break
            place += 1
    return found


def _after(item: a.AsmLine, facts: Certain, lanes: int) -> Certain:
    name = item.name
    if name.startswith("s_wait"):
        counts = dict(waits_of(item))
        shared = any(counts.get(each) == 0 for each in ("lgkmcnt", "dscnt"))
        memory = any(counts.get(each) == 0 for each in ("vmcnt", "loadcnt"))
        return replace(
            facts,
            scalar=facts.scalar and not shared,
            flat_memory=facts.flat_memory and not memory,
            flat_shared=facts.flat_shared and not shared,
        )
    if name.startswith("flat_"):
        facts = replace(facts, flat_memory=True, flat_shared=True)
    if name.startswith(_SCALAR):
        facts = replace(facts, scalar=True)
    return _registers_after(item, facts, lanes)


def _registers_after(item: a.AsmLine, facts: Certain, lanes: int) -> Certain:
    name = item.name
    was_full, source = facts.full, item.operands[1] if len(item.operands) > 1 else None
    saved = _SAVES.match(name)
    first = mask_of(item.operands[0], lanes) if item.operands else ""
    # Some vector instructions set a mask beside their result.
    results = item.operands[: 2 if name.startswith("v_") else 1]
    gone = {each for given in results if isinstance(given, a.Registers) for each in given.names}
    gone = gone if not name.startswith(("s_cmp", "s_bitcmp")) else set()
    masks = facts.masks - {mask_in(each, lanes) for each in gone}
    arguments = facts.arguments - gone
    full = was_full
    if saved is not None:
        full = False
        if saved[2] == "saveexec" and was_full and first:
            masks = masks | {first}
            full = saved[1] == "or"
        return replace(facts, full=full, masks=masks, arguments=arguments)
    if first == "exec":
        held = [_is_all(each, facts, lanes) for each in item.operands[1:]]
        full = (name.startswith("s_mov_b") and held == [True]) or (name.startswith("s_or_b") and any(held))
    elif name.startswith("v_cmpx") or any(each.startswith("exec") for each in gone):
        full = False
    elif first and name.startswith("s_mov_b") and source is not None and _is_all(source, facts, lanes):
        masks = masks | {first}
    return replace(facts, full=full, masks=masks, arguments=arguments)


def _is_all(operand: a.Operand, facts: Certain, lanes: int) -> bool:
    """Whether an operand is the mask of all lanes."""
    if isinstance(operand, a.Immediate):
        return operand.value == -1
    mask = mask_of(operand, lanes)
    return (mask == "exec" and facts.full) or mask in facts.masks
