"""Short assembly for the machine, and a kernel that is synchronized by hand."""

from __future__ import annotations

import numpy as np

from oracles.amdgcn_machine.machine import Found, Hostility, Workgroup
from oracles.amdgcn_machine.memory import Global
from oracles.amdgcn_machine.program import load
from oracles.amdgcn_machine.wave import Wave

LDS = 4096


def text_of(code: str, target: str = "gfx942") -> str:
    """Assembly as LLVM prints it: a label starts its line, all else is indented."""
    lines = [each.strip() for each in code.strip().split("\n")]
    body = [each if each.endswith(":") else f"\t{each}" for each in lines]
    head = [f'\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"', "\t.text", "kernel:"]
    return "\n".join([*head, *body, "\ts_endpgm", ".Lfunc_end0:", ""])


class Ran:
    """The waves after their end, what was found, shared and global memory."""

    def __init__(self, waves: list[Wave], found: Found, lds: np.ndarray, array: np.ndarray) -> None:
        self.waves, self.found, self.lds, self.array = waves, found, lds, array

    def v(self, at: int, dtype: type = np.uint32) -> list:
        return self.waves[0].v[at].view(dtype).tolist()

    def s(self, at: int) -> int:
        return self.waves[0].s[at]


def run(code: str, target: str = "gfx942", waves: int = 1, how: Hostility | None = None, is_text: bool = False) -> Ran:
    """v0 holds the thread, v1 the wave; s[0:1] the address of 1024 numbers 0, 1, 2, …; LDS is zero."""
    program = load(code if is_text else text_of(code, target))
    memory = Global(1 << 20)
    address = memory.add(np.arange(1024, dtype=np.uint32))
    started = [Wave(number, program.lanes) for number in range(waves)]
    for wave in started:
        wave.v[0], wave.v[1] = wave.lane + wave.number * program.lanes, wave.number
        wave.put_scalar(0, address, 2)
        wave.scratch = np.zeros((256, program.lanes), np.uint8)
    group = Workgroup(program, started, LDS, memory, how or Hostility(), max_steps=20_000)
    found = group.run()
    return Ran(started, found, group.place.lds.bytes, memory.array(address, np.zeros(1024, np.uint32)))


# Each wave writes its numbers, reads those of the next wave, and stores them.
NEIGHBOURS = """
v_lshlrev_b32_e32 v2, 2, v0
global_load_dword v3, v2, s[0:1]
v_add_u32_e32 v4, 0x100, v2
v_and_b32_e32 v4, 0x3ff, v4
s_waitcnt vmcnt(0)
ds_write_b32 v2, v3
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v5, v4
s_waitcnt lgkmcnt(0)
global_store_dword v2, v5, s[0:1]
"""
NEIGHBOURS_GFX12 = """
v_lshlrev_b32_e32 v2, 2, v0
global_load_b32 v3, v2, s[0:1]
v_add_nc_u32_e32 v4, 0x80, v2
v_and_b32_e32 v4, 0x1ff, v4
s_wait_loadcnt 0x0
ds_store_b32 v2, v3
s_wait_dscnt 0x0
s_barrier_signal -1
s_barrier_wait -1
ds_load_b32 v5, v4
s_wait_dscnt 0x0
global_store_b32 v2, v5, s[0:1]
"""
