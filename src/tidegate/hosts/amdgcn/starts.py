"""What registers hold when a wave starts.

Needs   a kernel's settings, its target's generation, the lanes of a wave
Gives   `Starts`: the registers, as operations before the first instruction, and those with the arguments' address
Keeps   a register of which nothing is said holds what nobody knows
Cost    constant

LLVM, User Guide for AMDGPU Backend, Initial Kernel Execution State: user registers in the order of the settings, then
the workgroup's number, one for each axis; on gfx12 that is in TTMP9 and TTMP7. Three numbers of ten bits in v0 say
which thread a lane is (packed work-item IDs, gfx90a and later).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.emitter import Emitter
from tidegate.hosts.isa import model as m

_USER = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)
MOST_PRELOADED = 64
MOST_SCALARS = 106


@dataclass(frozen=True, slots=True)
class Starts:
    kernel: a.KernelText
    lanes: int
    in_trap_registers: bool  # whether the workgroup's number is in registers of the trap handler

    @property
    def arguments(self) -> frozenset[str]:
        """The registers that hold the address of the arguments."""
        first = self._user().get("kernarg_segment_ptr")
        return frozenset() if first is None else frozenset((f"s{first}", f"s{first + 1}"))

    def _user(self) -> dict[str, int]:
        found, free = {}, 0
        for name, count in _USER:
            if self.kernel.settings.get(f"user_sgpr_{name}", 0):
                found[name] = free
                free += count
        found[""] = free
        return found

    def add_to(self, out: Emitter) -> None:
        settings = self.kernel.settings
        wide = settings.get("system_vgpr_workitem_id", 2)
        out.add(m.Compare("exec", "eq", m.Constant(0), m.Constant(0)))
        out.add(m.Compute("v0", "copy", (m.Given(f"%packed{min(max(wide, 0), 2)}"),)))
        if not settings:  # a disassembly alone does not say which register holds what
            out.add(m.Forget(tuple(f"s{each}" for each in range(MOST_SCALARS)), (), True, ""))
        free = self._user()[""]
        out.add(m.Forget(tuple(f"s{each}" for each in range(free)), (), True, ""))  # the same for all waves
        offset = settings.get("user_sgpr_kernarg_preload_offset", 0)
        length = min(settings.get("user_sgpr_kernarg_preload_length", 0), MOST_PRELOADED)
        for number in range(length):
            given = m.Given(f"param {4 * (offset + number)}")
            out.add(m.Compute(f"s{free + number}", "copy", (given,)))
        if self.in_trap_registers:
            out.add(m.Compute("ttmp9", "copy", (m.Given("%ctaid.x"),)))
            high = out.compute("shl", m.Given("%ctaid.z"), m.Constant(16))
            out.add(m.Compute("ttmp7", "or", (m.Given("%ctaid.y"), high)))
            out.add(m.Forget(tuple(f"ttmp{each}" for each in (0, 1, 2, 3, 4, 5, 6, 10, 11)), (), True, ""))
            return
        free = max(free + length, settings.get("user_sgpr_count", 0))
        for axis in "xyz":
            if settings.get(f"system_sgpr_workgroup_id_{axis}", bool(settings) and axis == "x"):
                out.add(m.Compute(f"s{free}", "copy", (m.Given(f"%ctaid.{axis}"),)))
                free += 1
