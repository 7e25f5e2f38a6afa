"""Launches: arguments to global memory, the registers with which waves start, and a run of some workgroups.

Needs   a `Program`, its arguments as arrays and numbers in the order of the kernel's own, the shape of the grid
Gives   `run`: the arrays after the run, and what the machine found
Keeps   workgroups run one after another; shared memory and vector registers start with arbitrary bits
Cost    that of the run

Sources: LLVM, AMDGPUUsage, "Initial Kernel Execution State"; for gfx12 the ISA document's §3.5 (TTMP registers).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oracles.amdgcn_machine.machine import Found, Hostility, Workgroup
from oracles.amdgcn_machine.memory import Global, room_for
from oracles.amdgcn_machine.program import Program
from oracles.amdgcn_machine.text import NotUnderstood
from oracles.amdgcn_machine.wave import TTMP, Wave

Argument = np.ndarray | int | float
SHARED = 320 << 10  # of the largest; what a kernel asks for beyond its target is not looked at here
USER = (  # in their order, with their sizes in registers
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)
ARGUMENT = re.compile(r"\.offset:\s+(\d+)\s+\.size:\s+(\d+)(?:\s+\.\w+:\s+\S+)*?\s+\.value_kind:\s+(\w+)")
ARGUMENTS = re.compile(r"\.args:(.*?)\.group_segment_fixed_size", re.DOTALL)


@dataclass(slots=True)
class Ran:
    """Arguments after a run, and what was found in its workgroups."""

    args: list[Argument]
    found: list[Found] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return all(each.is_good for each in self.found)

    def lines(self) -> list[str]:
        """What was found, each once."""
        return list(dict.fromkeys(line for each in self.found for line in each.lines()))


@dataclass(frozen=True, slots=True)
class Shape:
    """The grid, and the waves of a workgroup."""

    grid: tuple[int, int, int]
    waves: int
    workgroups: tuple[tuple[int, int, int], ...] = ()  # to run; empty: all

    def all(self) -> list[tuple[int, int, int]]:
        x, y, z = self.grid
        return list(self.workgroups) or [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]


def run(
    program: Program,
    text: str,
    args: Sequence[Argument],
    shape: Shape,
    how: Hostility,
    watches: bool = True,
    max_steps: int = 600_000,
) -> Ran:
    """One run; the arguments are copied."""
    arrays = [each for each in args if isinstance(each, np.ndarray)]
    memory = Global(room_for(arrays) + (1 << 18))
    addresses = [memory.add(each) if isinstance(each, np.ndarray) else None for each in args]
    values = [each if at is None else at for each, at in zip(args, addresses, strict=True)]
    kernargs = _pack(text, values, _hidden(shape, program.lanes))
    kernarg_at = memory.add(kernargs)
    ran = Ran([])
    rng = np.random.default_rng(how.seed + 1)
    lds = SHARED
    for number, workgroup in enumerate(shape.all()):
        waves = [_start(program, each, kernarg_at, kernargs, workgroup, rng) for each in range(shape.waves)]
        each_how = Hostility(how.timing, how.order, how.seed + 1000 * number)
        group = Workgroup(program, waves, lds, memory, each_how, watches, max_steps)
        group.place.lds.bytes[:lds] = rng.integers(0, 256, lds, np.uint8)
        ran.found.append(group.run())
        if ran.found[-1].hang or ran.found[-1].fault:
            break
    for each, at in zip(args, addresses, strict=True):
        ran.args.append(memory.array(at, each) if at is not None and isinstance(each, np.ndarray) else each)
    return ran


def layout_of(text: str) -> list[tuple[int, int, str]]:
    """Offset, size and kind of each of the kernel's arguments, by its metadata."""
    found = ARGUMENTS.search(text)
    if not found:
        return []
    return [(int(at), int(size), kind) for at, size, kind in ARGUMENT.findall(found[1])]


def _hidden(shape: Shape, lanes: int) -> dict[str, int]:
    """Arguments that the runtime adds; the others are zero."""
    found = {f"hidden_block_count_{axis}": count for axis, count in zip("xyz", shape.grid, strict=True)}
    sizes = zip("xyz", (shape.waves * lanes, 1, 1), strict=True)
    return found | {f"hidden_group_size_{axis}": size for axis, size in sizes} | {"hidden_grid_dims": 3}


def _pack(text: str, values: Sequence[int | float], hidden: dict[str, int]) -> np.ndarray:
    layout = layout_of(text)
    if len(layout) < len(values):
        raise NotUnderstood(f"the kernel takes {len(layout)} arguments, not {len(values)}")
    packed = bytearray(max((at + size for at, size, _ in layout), default=0) + 128)
    explicit = list(zip(layout, values, strict=False))
    explicit += [(each, hidden[each[2]]) for each in layout if each[2] in hidden]
    for (at, size, _), value in explicit:
        if isinstance(value, float):
            data = struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], value)
        else:
            data = (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")
        packed[at : at + size] = data
    return np.frombuffer(bytes(packed), np.uint8)


def _start(
    program: Program,
    number: int,
    kernarg_at: int,
    kernargs: np.ndarray,
    workgroup: tuple[int, int, int],
    rng: np.random.Generator,
) -> Wave:
    """A wave as the hardware starts it."""
    facts = program.listing.facts
    if facts.get("user_sgpr_private_segment_buffer") == "1" and facts.get("private_segment_fixed_size", "0") != "0":
        raise NotUnderstood("memory of lanes by way of a buffer (`.amdhsa_user_sgpr_private_segment_buffer`)")
    wave = Wave(number, program.lanes)
    wave.v[:512] = rng.integers(0, 1 << 32, (512, wave.lanes), np.uint32)
    wave.v[0] = wave.lane + number * wave.lanes  # x, with y and z in the bits above; blocks here have one dimension
    wave.scratch = np.zeros((int(facts.get("private_segment_fixed_size", "0")) + 1024, wave.lanes), np.uint8)
    at = 0
    for name, words in USER:
        if facts.get(f"user_sgpr_{name}", "0") != "1":
            continue
        if name == "kernarg_segment_ptr":
            wave.put_scalar(at, kernarg_at, 2)
        at += words
    preloaded = int(facts.get("user_sgpr_kernarg_preload_length", "0"))
    start = int(facts.get("user_sgpr_kernarg_preload_offset", "0"))
    for each in range(preloaded):
        wave.s[at] = int(kernargs.view(np.uint32)[start + each])
        at += 1
    at = int(facts.get("user_sgpr_count", at))
    x, y, z = workgroup
    if program.target.startswith("gfx12"):
        wave.s[TTMP + 9], wave.s[TTMP + 7] = x, y | z << 16
        wave.s[TTMP + 8] = number << 25
        return wave
    for name, value in (("x", x), ("y", y), ("z", z)):
        if facts.get(f"system_sgpr_workgroup_id_{name}", "0") == "1":
            wave.s[at] = value
            at += 1
    return wave
