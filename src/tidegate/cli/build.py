"""`tidegate build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.options import FileArg, JsonOption, TargetOption
from tidegate.cli.say import emit, emit_json, print_findings, say, say_notes, stop, write
from tidegate.diag import visible

if TYPE_CHECKING:
    from tidegate.lowering.build import BuiltKernel
    from tidegate.passes import Checked
    from tidegate.session import Session

JSON_VERSION = 1
NO_KERNEL = {".sync": "a graph", ".ttgir": "TTGIR", ".ptx": "PTX", ".cu": "CUDA source", ".s": "assembly"}


def build_command(
    file: FileArg,
    target: TargetOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Write to a file, and its manifest beside it as `.json`. `OUT.ll` is the LLVM IR. Default: the "
            "assembly goes to the output, without a manifest.",
        ),
    ] = None,
    allow_findings: Annotated[
        bool, typer.Option("--allow-findings", help="Build a kernel that is not proved, as it is.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the instructions of a kernel: PTX for NVIDIA, AMDGCN assembly for AMD, through LLVM.

    The kernel is proved first, and the instructions again: they are read back, and every barrier, wait and fence of the
    kernel must have its instruction there. A kernel that is not proved is not built; synchronize it with `tidegate
    sync`. The manifest says how the kernel is launched: `tidegate.lowering.launch.load_built` takes both files.

    Exit status: 0 built and proved, 1 findings, or built and not proved, 2 bad input.

    Examples: `tidegate build gemm.tide --target sm_80 -o gemm.ptx`, `tidegate build softmax.py::softmax -t gfx942 -o
    softmax.s`, `tidegate build broken.tide -t sm_90 --allow-findings -o broken.ptx`
    """
    from tidegate.files import load
    from tidegate.lowering.build import build
    from tidegate.passes import check_session
    from tidegate.session import sessions_of

    kind = NO_KERNEL.get(Path(file.partition("::")[0]).suffix.lower())
    if kind:
        stop(f"{kind} holds no kernel of the language: this command does not take it", "give a `.tide` or `.py` file")
    loaded = load(file)
    units = sessions_of(loaded, target)
    if len(units) > 1:
        names = ", ".join(f"`{file}::{each.name}`" for each in units[:3])
        stop(f"`{file}` holds {len(units)} kernels", f"pick one: {names}")
    (unit,) = units
    say_notes(units)
    checked = check_session(unit)
    print_findings(checked.findings, loaded.sources, err=True)
    if unit.meaningless:
        raise typer.Exit(2)
    if not (_is_right(checked) or allow_findings):
        say(f"@{unit.name} on {unit.target.name}: not built: the kernel is not proved", err=True)
        say("  `tidegate sync` synchronizes it; `--allow-findings` builds it as it is", err=True)
        raise typer.Exit(1)
    made = build(unit)
    text = made.lowered.text if output is not None and output.suffix == ".ll" else made.assembly
    if output is not None:
        write(output, text)
        write(output.with_suffix(".json"), made.manifest.text())
    elif not as_json:
        emit(text.rstrip("\n"))
    if as_json:
        emit_json(_to_json(file, unit, made, output))
    else:
        _report(unit, made, output)
    raise typer.Exit(0 if made.is_proved or allow_findings else 1)


def _is_right(checked: Checked) -> bool:
    from tidegate.decided import is_right

    return is_right(checked)


def _report(unit: Session, made: BuiltKernel, output: Path | None) -> None:
    """Goes to the error stream if the assembly goes to the output."""
    err, told = output is None, made.manifest
    say(f"@{unit.name} on {unit.target.name}: {told.threads} threads, {told.shared} bytes of shared memory", err=err)
    counts = ", ".join(f"{many} {name}" for name, many in made.instructions.items())
    say(f"  as in the kernel: {counts or 'no barrier, wait or fence'}", err=err)
    for line in _verdict(made):
        say(f"  {line}", err=err)
    if output is not None:
        beside = visible(str(output.with_suffix(".json")))
        say(f"  written to {visible(str(output))}, manifest {beside}", err=err)


def _verdict(made: BuiltKernel) -> list[str]:
    from tidegate.decided import show_decided

    if made.read_back is None:
        return ["read back: not possible for this target"]
    lines = [f"read back: {show_decided(made.read_back).splitlines()[0]}"]
    wrong = [each for each in made.read_back.findings if each.severity == "error"]
    return lines + [f"  {each.code}: {each.message}" for each in wrong[:3]]


def _to_json(file: str, unit: Session, made: BuiltKernel, output: Path | None) -> dict[str, Any]:
    return {
        "version": JSON_VERSION,
        "file": file,
        "kernel": unit.name,
        "target": unit.target.name,
        "threads": made.manifest.threads,
        "shared": made.manifest.shared,
        "instructions": dict(made.instructions),
        "proved": made.is_proved,
        "read_back": _verdict(made),
        "output": str(output) if output is not None else None,
        "assembly": None if output is not None else made.assembly,
    }
