"""The text of a program in the kernel language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from .program import Access, Compute, Cond, Copy, Loop, Program, Statement, Sync

GLOBAL_SHAPE = "8x64x512"


def to_tide(program: Program) -> str:
    """A whole .tide file."""
    arguments = [f"%{side}_{d}: global<{GLOBAL_SHAPE}x{d}>" for d in program.dtypes for side in "XY"]
    arguments += [f"%{flag}: flag" for flag in program.flags]
    lines = [f"target {program.target}", "", f"kernel @twin({', '.join(arguments)})"]
    if program.least:
        lines.append(f"    sizes(N = {max(4, program.least)})")
        if program.least > 1:
            lines.append(f"    where(N >= {program.least})")
    lines.append(f"    waves {program.waves} {{")
    for memory in program.memory:
        if memory.base:
            start = ", ".join(map(str, memory.start))
            lines.append(f"  %{memory.name} = view %{memory.base}[{start}] : {memory.text()}")
        else:
            lines.append(f"  %{memory.name} = alloc : {memory.text()}")
    lines += _block(program.body, "  ")
    return "\n".join([*lines, "}", ""])


def _block(body: tuple[Statement, ...], pad: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case Loop(counter, upper, inner):
                yield f"{pad}iterate %{counter} in 0 .. {upper.text()} {{"
                yield from _block(inner, pad + "  ")
                yield pad + "}"
            case Cond(test, then, otherwise):
                yield f"{pad}conditional {test.text()} {{"
                yield from _block(then, pad + "  ")
                if otherwise:
                    yield pad + "} else {"
                    yield from _block(otherwise, pad + "  ")
                yield pad + "}"
            case Compute():
                yield pad + statement.line
            case Access() | Copy() | Sync():
                yield pad + line(statement)
            case _:
                assert_never(statement)


def line(statement: Access | Copy | Sync) -> str:
    """One operation."""
    match statement:
        case Access():
            return _access(statement)
        case Copy(operation, place, tile):
            if operation == "lds_to_global":
                return f"lds_to_global {place.text()} to %Y_{tile.dtype}[wave, 0, 0] : {tile.text()}"
            return f"{operation} %X_{tile.dtype}[wave, 0, 0] to {place.text()} : {tile.text()}"
        case Sync(kind, counts, all_copies):
            words = "".join(f" {name}({n})" for name, n in counts) + (" wait_async_ops" if all_copies else "")
            return {
                "bare": "workgroup_barrier",
                "drain": "shared_memory_barrier" + words,
                "signal": "signal -1",
                "wait": "wait -1",
                "fence": "fence wave",
                "commit": "commit_group",
                "count": "wait_count" + words,
            }[kind]
        case _:
            assert_never(statement)


def _access(access: Access) -> str:
    extra = f" bounds({', '.join(map(str, access.bounds))})" if access.bounds else ""
    extra += f" mask %{access.mask}" if access.mask else ""
    place = access.place.text() + extra
    if access.kind == "read":
        return f"%{access.result} = local_read {place} : {access.tile.text()}"
    if access.kind == "write":
        return f"local_write %{access.value}, {place}"
    return (f"%{access.result} = " if access.result else "") + f"atomic_add %{access.value}, {place}"
