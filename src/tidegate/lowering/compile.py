"""LLVM IR through LLVM, in a process of its own.

Needs   llvmlite (`pip install tidegate[llvm]`)
Gives   `compile_ir`: PTX or AMDGCN assembly
Keeps   LLVM ends the process in which it cannot select an instruction: that is a finding with LLVM's words
Cost    0.2 s to start, and what LLVM takes
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass

from tidegate.diag import BadInput, Finding
from tidegate.targets import Target

LONGEST = 300  # seconds
NVIDIA_FEATURES = "+ptx80"  # the first version of PTX that has all that is written


@dataclass(frozen=True, slots=True)
class CompiledCode:
    assembly: str


def compile_ir(text: str, target: Target) -> CompiledCode:
    """Raises `BadInput` with what LLVM says."""
    if importlib.util.find_spec("llvmlite") is None:
        raise BadInput(Finding("TG019", "LLVM is not installed", help="install it: pip install 'tidegate[llvm]'"))
    given = json.dumps((text, target.name, target.vendor == "NVIDIA"))
    command = [sys.executable, __file__]
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        raise BadInput(Finding("TG025", f"LLVM did not finish within {LONGEST} s")) from None
    if done.returncode:
        words = [line for line in done.stderr.strip().splitlines() if line.strip()]
        said = next((line for line in words if "error" in line.lower()), words[-1] if words else "it said nothing")
        raise BadInput(Finding("TG025", f"LLVM cannot compile this kernel for {target.name}: {said.strip()}"))
    return CompiledCode(json.loads(done.stdout))


def _compile(text: str, cpu: str, is_nvidia: bool) -> str:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "nvptx64-nvidia-cuda" if is_nvidia else "amdgcn-amd-amdhsa"
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=NVIDIA_FEATURES if is_nvidia else "", opt=3
    )
    module = llvm.parse_assembly(f'target datalayout = "{machine.target_data}"\n{text}')
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


if __name__ == "__main__":
    json.dump(_compile(*json.load(sys.stdin)), sys.stdout)
