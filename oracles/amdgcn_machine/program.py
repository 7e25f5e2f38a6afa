"""A kernel's text as steps that a wave takes.

Needs   the text, as LLVM prints it
Gives   `load`: a `Program`; each `Step` is a function of a wave, an access, a wait, a jump, a barrier or the end
Keeps   every instruction has a meaning, or `load` raises `NotUnderstood` with its line; none is left out
Cost    some microseconds for each instruction
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oracles.amdgcn_machine.counters import waits_of
from oracles.amdgcn_machine.lanes import compile_lanes
from oracles.amdgcn_machine.matrix import compile_matrix
from oracles.amdgcn_machine.operands import Operand
from oracles.amdgcn_machine.scalar import compile_scalar
from oracles.amdgcn_machine.scalar_memory import compile_scalar_memory
from oracles.amdgcn_machine.shared import compile_shared
from oracles.amdgcn_machine.tensor import compile_tensor
from oracles.amdgcn_machine.text import Instruction, Listing, NotUnderstood, read
from oracles.amdgcn_machine.vector import Vector, compile_vector
from oracles.amdgcn_machine.vector_memory import compile_vector_memory
from oracles.amdgcn_machine.wave import EXEC, M0, SCALARS, VCC, Wave

RUN, ACCESS, WAIT, JUMP, BARRIER, END = "run", "access", "wait", "jump", "barrier", "end"
# What concerns time, caches of instructions, or modes that change no number here.
NOTHING = re.compile(
    r"^(s_nop|s_delay_alu|s_clause|s_setprio|s_sleep|s_inst_prefetch|s_set_inst_prefetch_distance|s_icache_inv|"
    r"s_setprio_inc_wg|s_sched_barrier|v_nop|s_wait_event|s_code_end|s_set_vgpr_msb|global_prefetch_b8|s_prefetch_\w+|"
    r"s_ttracedata\w*|s_dcache_wb|s_dcache_inv)$"
)
MODES = re.compile(r"^hwreg\(HW_REG_(WAVE_SCHED_MODE|WAVE_MODE, 25, 1)")
BRANCH = re.compile(r"^s_c?branch(?:_(scc0|scc1|vccz|vccnz|execz|execnz))?$")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, with the registers that must not be in flight when it goes."""

    kind: str
    line: int
    text: str
    run: Any = None  # of `run`: (wave) → None; of `access`: (wave, place) → Access; of `jump`: (wave) → bool
    registers: frozenset[int] = frozenset()
    overwritten: frozenset[int] = frozenset()  # of an access: registers that it only writes
    waits: dict[str, int] = field(default_factory=dict)
    to: int = -1
    barrier: tuple[str, str] = ("", "")  # what is done, and to which


@dataclass(slots=True)
class Program:
    """A kernel that can be run."""

    listing: Listing
    steps: list[Step]

    @property
    def target(self) -> str:
        return self.listing.target

    @property
    def lanes(self) -> int:
        if given := self.listing.facts.get("wavefront_size"):
            return int(given)
        return 64 if self.target.startswith("gfx9") else 32


def load(text: str) -> Program:
    """Reads a kernel; what is not understood is named all at once."""
    listing = read(text)
    if not listing.target:
        raise NotUnderstood("the text names no target: `.amdgcn_target` is missing")
    program = Program(listing, [])
    problems: dict[str, str] = {}
    for one in listing.code:
        try:
            program.steps.append(compile_one(one, program))
        except NotUnderstood as error:
            problems.setdefault(one.name, str(error))
        except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
            problems.setdefault(one.name, f"line {one.line}: `{one.text}`: {type(error).__name__}: {error}")
    if problems:
        raise NotUnderstood("; ".join(problems.values()))
    return program


def compile_one(one: Instruction, program: Program) -> Step:
    """The meaning of one instruction."""
    target, name = program.target, one.name
    if NOTHING.match(name):
        return Step(RUN, one.line, one.text, lambda wave: None)
    if (waits := waits_of(one, target)) is not None:
        return Step(WAIT, one.line, one.text, waits=waits)
    if name.startswith("ds_"):
        return _access(one, *compile_shared(one))
    if name.startswith(("buffer_", "global_", "scratch_")):
        return _access(one, *compile_vector_memory(one, target))
    if name.startswith("tensor_"):
        return _access(one, *compile_tensor(one))
    if name.startswith("s_load_"):
        return _access(one, *compile_scalar_memory(one))
    if found := BRANCH.match(name):
        if one.operands[0] not in program.listing.labels:
            raise NotUnderstood(f"line {one.line}: `{one.text}`: no such label")
        return Step(JUMP, one.line, one.text, _condition(found[1]), to=program.listing.labels[one.operands[0]])
    if name in ("s_endpgm", "s_endpgm_saved"):
        return Step(END, one.line, one.text)
    if name.startswith("s_barrier"):
        return _barrier(one)
    if name.startswith("s_"):
        return _scalar(one)
    return _vector(one, program)


def _access(one: Instruction, issue: Any, operands: list[Operand]) -> Step:
    loads = "load" in one.name or "_read" in one.name or "rtn" in one.name or "permute" in one.name
    is_register = bool(operands) and operands[0].at >= 0 and loads and "lds" not in one.name + str(one.modifiers)
    read = {each for operand in operands[1:] for each in operand.registers}
    only_written = frozenset(operands[0].registers) - read if is_register else frozenset()
    return Step(ACCESS, one.line, one.text, issue, _registers(operands, one), only_written)


def _registers(operands: list[Operand], one: Instruction) -> frozenset[int]:
    found = {each for operand in operands for each in operand.registers}
    if "lds" in one.modifiers or "_lds_dword" in one.name:
        found.add(SCALARS + M0)
    return frozenset(found)


def _condition(kind: str | None) -> Callable[[Wave], bool]:
    if kind is None:
        return lambda wave: True
    if kind.startswith("scc"):
        wanted = int(kind[-1])
        return lambda wave: wave.scc == wanted
    at, is_nonzero = (VCC if kind.startswith("vcc") else EXEC), kind.endswith("nz")

    def condition(wave: Wave) -> bool:
        value = wave.s[at] | (wave.s[at + 1] if wave.lanes == 64 else 0)
        return (value != 0) == is_nonzero

    return condition


def _barrier(one: Instruction) -> Step:
    name, which = one.name.removeprefix("s_barrier"), one.operands[0] if one.operands else "-1"
    does = {"": "meet", "_signal": "signal", "_wait": "wait", "_signal_isfirst": "first", "_join": "join"}
    does |= {"_init": "init", "_leave": "leave"}
    if name not in does or does[name] == "leave":
        raise NotUnderstood(f"line {one.line}: `{one.text}`: the machine has no instruction `{one.name}`")
    return Step(BARRIER, one.line, one.text, barrier=(does[name], which))


def _scalar(one: Instruction) -> Step:
    if one.name.startswith(("s_setreg", "s_getreg")):
        if not MODES.match(one.operands[0]):
            raise NotUnderstood(f"line {one.line}: `{one.text}`: the machine knows no such register")
        return Step(RUN, one.line, one.text, lambda wave: None)
    if one.name == "s_sendmsg" and "MSG_DEALLOC_VGPRS" in one.operands[0]:
        return Step(RUN, one.line, one.text, lambda wave: None)
    made = compile_scalar(one)
    if made is None:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: the machine has no instruction `{one.name}`")
    run, operands = made
    return Step(RUN, one.line, one.text, run, _registers(operands, one))


def _vector(one: Instruction, program: Program) -> Step:
    for made in (compile_matrix(one, program.target), compile_lanes(one)):
        if made is not None:
            return Step(RUN, one.line, one.text, made[0], _registers(made[1], one))
    keeps = not program.target.startswith("gfx9")
    halves = [one] if one.second is None else [Instruction(one.name, one.operands, one.modifiers, one.line, one.text)]
    halves += [one.second] if one.second is not None else []
    vectors = [compile_vector(each, program.lanes, keeps) for each in halves]
    operands = [each for vector in vectors for each in (*vector.written, *vector.read)]
    run = _alone(vectors[0]) if len(vectors) == 1 else _together(vectors)
    return Step(RUN, one.line, one.text, run, _registers(operands, one))


def _alone(vector: Vector) -> Callable[[Wave], None]:
    compute, store = vector.compute, vector.store
    return lambda wave: store(wave, compute(wave))


def _together(vectors: list[Vector]) -> Callable[[Wave], None]:
    first, second = vectors

    def run(wave: Wave) -> None:
        one, other = np.copy(first.compute(wave)), np.copy(second.compute(wave))
        first.store(wave, one)
        second.store(wave, other)

    return run
