"""Runs the real compilers.

Needs   Triton's wheel for ptxas, nvdisasm (`pip install tidegate[triton]`); llvmlite for LLVM (`tidegate[llvm]`)
Gives   `to_sass`, `to_amdgcn`: text in, text out; `missing`: what is not installed, as a sentence
Keeps   LLVM runs in a child process: where it cannot select an instruction it ends the process that it runs in
Cost    ptxas and nvdisasm 0.1 s, LLVM 0.2 s with its start; `to_amdgcn` takes many texts at once
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

LONGEST = 120  # seconds
BLACKWELL = ("sm_100", "sm_103", "sm_120")


class DoesNotCompile(Exception):
    """The compiler's own words."""


def missing() -> str:
    """Which compilers are not installed; empty if all are."""
    said = []
    if importlib.util.find_spec("triton") is None:
        said.append("ptxas and nvdisasm are not installed; `pip install tidegate[triton]`")
    if importlib.util.find_spec("llvmlite") is None:
        said.append("LLVM is not installed; `pip install tidegate[llvm]`")
    return "; ".join(said)


# --- NVIDIA -------------------------------------------------------------------------------------------------------


def to_sass(ptx: str, target: str) -> str:
    """PTX through ptxas at its default level (-O3), and back to text with lines."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(ptx, encoding="utf-8")
        name = "ptxas-blackwell" if target.startswith(BLACKWELL) else "ptxas"
        _run([_tool(name), "-lineinfo", f"-arch={target}", str(source), "-o", str(binary)])
        return _run([_tool("nvdisasm"), "-c", "-g", str(binary)])


def _tool(name: str) -> str:
    found = importlib.util.find_spec("triton")
    if found is None or found.origin is None:
        raise DoesNotCompile(missing())
    return str(Path(found.origin).parent / "backends" / "nvidia" / "bin" / name)


def _run(command: Sequence[str], given: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, input=given, timeout=LONGEST, check=False)
    if done.returncode:
        raise DoesNotCompile((done.stderr or done.stdout).strip() or f"{command[0]} ended with {done.returncode}")
    return done.stdout


# --- AMD ----------------------------------------------------------------------------------------------------------


def to_amdgcn(modules: Sequence[tuple[str, str]]) -> list[str]:
    """LLVM IR with its target, each through the optimizer (O3) and the code generator."""
    made = json.loads(_run([sys.executable, __file__], json.dumps(list(modules))))
    return [str(each) for each in made]


def _compile(text: str, target: str) -> str:
    import llvmlite.binding as llvm

    # An instruction without a place gets line 0, not the line of the one before it.
    llvm.set_option("", "-use-unknown-locations=Enable")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=target, opt=3)
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


if __name__ == "__main__":
    print(json.dumps([_compile(text, target) for text, target in json.load(sys.stdin)]))
