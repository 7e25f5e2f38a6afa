"""What calls of device functions do to shared memory and to other threads.

Needs   a module
Gives   for a call the effect of any function that it may reach: none, accesses, or more than is modelled
Keeps   a function is harmless only if it synchronizes nothing, ends no thread, names no shared array, and so do those
        that it calls. A call through a register reaches a function of the file
Cost    linear in the functions of the module

    call (retval0), sobel, (...)      none: arithmetic and global memory
    call (retval0), %rd1, (...)       what the worst function of the file does
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.lower_arithmetic import ARITHMETIC, FORGOTTEN
from tidegate.hosts.ptx.types import space_in

# Functions of the runtime that touch no shared memory of the program.
HARMLESS: tuple[str, ...] = ("vprintf", "__assertfail", "malloc", "free", "__assert_fail")
# Kernels that launch kernels: the launched ones have shared memory of their own.
HARMLESS += ("cudaGetParameterBufferV2", "cudaLaunchDeviceV2")
_OF_DEVICE = "GetParameterBufferV2 LaunchDeviceV2 StreamCreateWithFlags StreamDestroy MemcpyAsync PeekAtLastError"
HARMLESS += tuple(f"__cudaCDP2{each}" for each in _OF_DEVICE.split())
_MOVES = ("ld", "ldu", "st", "atom", "red", "cvta")
_JUMPS = ("bra", "ret", "membar", "fence", "activemask", "nanosleep", "prefetch", "prefetchu")
_AWAY = ("global", "const", "local", "param")  # state spaces that no address of shared memory belongs to


class Harm(IntEnum):
    """`TOUCHES`: it may read and write all of shared memory; `ORDERS`: it may synchronize, too, or end the thread."""

    NONE = 0
    TOUCHES = 1
    ORDERS = 2


def find_harms(module: p.Module) -> dict[str, Harm]:
    """For each device function of the file what it may do, calls inside included."""
    functions = {each.name: each for each in module.functions if not each.is_entry}
    shared = frozenset(each.name for each in module.variables if each.space == "shared")
    harms = {name: _own_harm(each, shared) for name, each in functions.items()}
    calls = {name: tuple(_called(each)) for name, each in functions.items()}
    changed = True
    while changed:  # a function is as harmful as the worst one that it may reach
        changed = False
        for name, called in calls.items():
            worst = max((harm_of(each, harms, module) for each in called), default=Harm.NONE)
            changed |= worst > harms[name]
            harms[name] = max(harms[name], worst)
    return harms


def harm_of(called: str, harms: dict[str, Harm], module: p.Module) -> Harm:
    """`called`: a function or the register that holds one; empty where the call names neither."""
    if called in harms:
        return harms[called]
    if called in HARMLESS:
        return Harm.NONE
    elsewhere = any(each not in harms and each not in HARMLESS for each in module.declared)
    if not called.startswith("%") or elsewhere or not harms:
        return Harm.ORDERS
    return max(harms.values())


def callee_of(item: p.Instruction) -> str:
    """The function or register that a call names first; the other names are its prototype."""
    return next((each.name for each in item.operands if isinstance(each, p.Name)), "")


def _called(function: p.Function) -> Iterator[str]:
    for each in function.body:
        if isinstance(each, p.Instruction) and each.opcode == "call":
            yield callee_of(each)


def _own_harm(function: p.Function, shared: frozenset[str]) -> Harm:
    names = shared | {each.name for each in function.variables if each.space == "shared"}
    found = (_harm_of_instruction(each, names) for each in function.body if isinstance(each, p.Instruction))
    return max(found, default=Harm.NONE)


def _harm_of_instruction(item: p.Instruction, shared: frozenset[str]) -> Harm:
    if item.opcode == "call" or item.opcode in _JUMPS:
        return Harm.ORDERS if item.modifiers[:1] == ("idx",) else Harm.NONE
    if any(each in shared for each in p.names_of(item.operands)) or "shared" in item.mnemonic:
        return Harm.ORDERS  # an address of shared memory could leave the function
    if item.opcode in _MOVES:
        if "async" in item.modifiers:
            return Harm.ORDERS
        return Harm.NONE if space_in(item.modifiers) in _AWAY else Harm.TOUCHES
    known = item.opcode in ARITHMETIC | FORGOTTEN
    return Harm.NONE if known and not any(isinstance(each, p.Address) for each in item.operands) else Harm.ORDERS
