"""The kernels of `oracles/kernels`, and how each is written out for a target.

Needs   nothing to list them; Tidegate's parser and targets to write one out
Gives   `KERNELS`; `graph_of`, `ptx_text`, `llvm_text`
Keeps   the three forms of a kernel hang together by marks: `# @read` in the `.tide`, `// @read` or `; @read` behind
        the instruction that does it. The line of the mark becomes the line of the instruction, which compilers carry
        through to the final code. `sync @meet` is the operation at that line, as `rows` writes it. A twin takes
        marked lines of the `.tide` away, and with them their instructions
Cost    milliseconds
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oracles import rows
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.language.parse import parse
from tidegate.targets import Target, load_target

FOLDER = Path(__file__).parent / "kernels"
NVIDIA = ("sm_80", "sm_90")
COPIES_AMD = ("gfx90a", "gfx942", "gfx950", "gfx1250")
AMD = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
MARK = re.compile(r"\s*(?:#|//|;) @(\w+)\s*$")
ASYNC = {"gfx1250": "asynccnt"}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, or a twin of it.

    `without`: marks whose lines are taken away. `variant`: which of the marked alternatives of the LLVM IR is taken.
    `holds`: whether final code keeps what the kernel needs.
    """

    name: str
    targets: tuple[str, ...]
    without: tuple[str, ...] = ()
    variant: str = ""
    holds: bool = True
    waves: int = 4

    @property
    def title(self) -> str:
        return " ".join([self.name, *(f"−{each}" for each in self.without), self.variant]).strip()


def _with_twins(name: str, targets: tuple[str, ...], *twins: str, waves: int = 4) -> list[Kernel]:
    return [
        Kernel(name, targets, waves=waves),
        *(Kernel(name, targets, (each,), holds=False, waves=waves) for each in twins),
    ]


EVERYWHERE = (*NVIDIA, *AMD)
KERNELS: tuple[Kernel, ...] = (
    *_with_twins("shift", EVERYWHERE, "fence"),
    Kernel("own", EVERYWHERE),
    *_with_twins("ring", EVERYWHERE, "meet"),
    *_with_twins("bare", AMD, "drain", "meet"),
    *_with_twins("split", ("gfx1201", "gfx1250"), "drain", "leave"),
    *_with_twins("loop", EVERYWHERE, "meet"),
    *_with_twins("pipeline", (*NVIDIA, *COPIES_AMD), "meet", "free"),
    *_with_twins("pipeline", NVIDIA, "close")[1:],
    *_with_twins("alone", (*NVIDIA, *COPIES_AMD), "wait", waves=1),
    Kernel("alone", (*NVIDIA, *COPIES_AMD), ("fence",), waves=1),
    Kernel("carried", COPIES_AMD, waves=1),
    Kernel("carried", ("gfx1250",), ("fence",), holds=False, waves=1),
    *(
        Kernel("counted", ("gfx90a", "gfx942", "gfx950"), variant=each, holds=False)
        for each in ("uniform", "masked", "dead", "plain")
    ),
    *_with_twins("atomics", EVERYWHERE, "meet"),
    *_with_twins("named", NVIDIA, "join", "arrive"),
)


# --- the graph ----------------------------------------------------------------------------------------------------


def tide_text(kernel: Kernel, target: str) -> str:
    """The kernel for a target; a line that is taken away leaves an empty one."""
    lines = []
    for line in _filled(FOLDER / f"{kernel.name}.tide", kernel, target).split("\n"):
        mark = MARK.search(line)
        is_gone = mark and (mark[1] in kernel.without or line.strip().startswith("#"))
        lines.append("" if is_gone else line)
    return "\n".join(lines)


@cache
def graph_of(kernel: Kernel, target: str) -> tuple[g.SyncGraph, Target]:
    (parsed,) = parse(tide_text(kernel, target)).kernels
    known = load_target(target)
    return build_graph(parsed, known).graph, known


def lines_of(kernel: Kernel, target: str) -> dict[str, int]:
    """Where each mark stands, whether or not the twin still has it."""
    text = _filled(FOLDER / f"{kernel.name}.tide", kernel, target)
    return {mark[1]: number for number, line in enumerate(text.split("\n"), 1) if (mark := MARK.search(line))}


def lanes_of(target: str) -> int:
    return 64 if target.startswith("gfx9") else 32


def _filled(path: Path, kernel: Kernel, target: str) -> str:
    """The text with what differs between targets filled in."""
    lanes, is_nvidia = lanes_of(target), target.startswith("sm_")
    values = {
        "TARGET": target,
        "LANES": lanes,
        "PAD": lanes + 1,
        "THREADS": lanes * kernel.waves,
        "LAST_THREAD": lanes * kernel.waves - 1,
        "SLOT": lanes * kernel.waves * 4,
        "LDS": "dscnt" if target.startswith("gfx12") else "lgkmcnt",
        "COPIES": "group" if is_nvidia else ASYNC.get(target, "vmcnt"),
        "COMMIT": "commit_group" if is_nvidia else "",
        "COPY_BASE": "%mine" if target in ASYNC else "%a.wave",
    }
    text = path.read_text(encoding="utf-8")
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"${name}", str(values[name]))
    return text


# --- written out --------------------------------------------------------------------------------------------------


def _syncs(kernel: Kernel, target: str) -> dict[str, g.GraphSyncOp]:
    """What stands at each mark, as far as it is still there."""
    graph, _ = graph_of(kernel, target)
    at = {point.at.line: point.action.op for point in graph.points if isinstance(point.action, g.Sync)}
    return {mark: at[line] for mark, line in lines_of(kernel, target).items() if line in at}


def ptx_text(kernels: Sequence[Kernel], target: str) -> str:
    """One module with a function for each kernel, `kernel_0` first: starting ptxas takes longest."""
    functions = [_function(kernel, target, f"kernel_{number}") for number, kernel in enumerate(kernels)]
    return "\n".join([_filled(FOLDER / "module.ptx", kernels[0], target), *functions])


def _function(kernel: Kernel, target: str, name: str) -> str:
    """PTX with a `.loc` before every instruction that has a mark."""
    lines, syncs, body = lines_of(kernel, target), _syncs(kernel, target), []
    for line in _filled(FOLDER / f"{kernel.name}.ptx", kernel, target).split("\n"):
        mark = MARK.search(line)
        if line.strip().startswith("sync @"):
            at = line.split("@")[1].strip()
            made = rows.ptx_of(syncs[at]) if at in syncs else []
            body += [f"  .loc 1 {lines[at]} 1\n  {each}" for each in made]
        elif mark:
            body.append(f"  .loc 1 {lines[mark[1]]} 1\n{line[: mark.start()]}\n  .loc 1 1 1")
        else:
            body.append(line)
    threads = str(lanes_of(target) * kernel.waves)
    text = _filled(FOLDER / "header.ptx", kernel, target).replace("BODY", "\n".join(body))
    return text.replace("NAMED_THREADS", threads).replace("$NAME", name)


def llvm_text(kernel: Kernel, target: str) -> str:
    """LLVM IR with a debug location at every instruction that has a mark."""
    lines, syncs, body = lines_of(kernel, target), _syncs(kernel, target), []
    for line in _filled(FOLDER / f"{kernel.name}.ll", kernel, target).split("\n"):
        variant, _, rest = line.partition("|")
        if rest and variant.isalpha():
            if variant != kernel.variant:
                continue
            line = rest
        if line.strip().startswith("sync @"):
            name = line.split("@")[1].strip()
            made = rows.llvm_of(syncs[name], target) if name in syncs else []
            body += [f"  {each}, !dbg !{100 + lines[name]}" for each in made]
        elif mark := MARK.search(line):
            body.append(f"{_copied(line[: mark.start()], target)}, !dbg !{100 + lines[mark[1]]}")
        else:
            body.append(line)
    places = [f"!{100 + line} = !DILocation(line: {line}, scope: !4)" for line in sorted(lines.values())]
    header = _filled(FOLDER / "header.ll", kernel, target).replace("BODY", "\n".join(body))
    return "\n".join([header, *places, ""])


def _copied(line: str, target: str) -> str:
    """`copy %x to %a0` as the intrinsic of the target; its scope tells LLVM apart what only waits keep apart."""
    found = re.match(r"\s*copy (\S+) to (\S+)", line)
    if not found:
        return line
    places = f"ptr addrspace(1) {found[1]}, ptr addrspace(3) {found[2]}"
    scopes = "!alias.scope !12, !noalias !13"
    if target in ASYNC:
        return f"  call void @llvm.amdgcn.global.load.async.to.lds.b32({places}, i32 0, i32 0), {scopes}"
    return f"  call void @llvm.amdgcn.global.load.lds({places}, i32 4, i32 0, i32 0), {scopes}"
