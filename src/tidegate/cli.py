"""The command line. Only this module prints or exits.

Exit status: 0 clean, 1 findings, 2 bad input, 3 a mistake of Tidegate's own, with a reproducer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from tidegate.diag import Finding, Sources

app = typer.Typer(
    name="tidegate",
    help="A synchronization compiler for GPU kernels: the cheapest barriers and the loosest waits that are correct.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FILE_HELP = (
    "A `.tide` kernel, a `.sync` graph, or a Python file with `@tidegate.kernel` functions, which is executed to trace "
    "them; text files never execute anything. `FILE::name` picks one kernel."
)
FileArg = Annotated[str, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)]
FilesArg = Annotated[list[str], typer.Argument(metavar="FILE...", help=FILE_HELP, show_default=False)]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="T",
        help="The GPU; default: the one the file names, else the default that `tidegate targets` names.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a versioned JSON document instead of text.")]
PrintAfter = Annotated[
    str | None, typer.Option(metavar="STAGE", help="Print the program after a stage: `kernel` or `graph`.")
]
StopAfter = Annotated[str | None, typer.Option(metavar="STAGE", help="Stop after a stage.")]
OutOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write to a file.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from tidegate import __version__

        _print(f"tidegate {__version__}")
        raise typer.Exit(0)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A synchronization compiler for GPU kernels: the cheapest barriers and the loosest waits that are correct."""


@app.command("targets")
def targets_command(
    target: Annotated[str | None, typer.Argument(metavar="[T]", help="Show one target, or a `.toml` file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the known GPUs, or show one with every fact and its source.

    Examples: `tidegate targets`, `tidegate targets gfx1250`, `tidegate targets my_gpu.toml --json`
    """
    from tidegate.targets import default_target, list_targets, load_target, show_target, target_to_json

    if target is not None:
        found = load_target("" if target == "none" else target)
        _print(json.dumps(target_to_json(found), indent=2) if as_json else show_target(found))
        return
    rows = list_targets()
    if as_json:
        _print(json.dumps({"version": 1, "targets": [_row(row) for row in rows]}, indent=2))
        return
    _print(_table([list(_row(rows[0])), *[[_cell(value) for value in _row(row).values()] for row in rows]]))
    _print(f"\ndefault: {default_target()}; `none` is the target about which nothing is assumed")


@app.command("show")
def show_command(
    file: FileArg,
    target: TargetOption = None,
    print_after: PrintAfter = "kernel",
    output: OutOption = None,
) -> None:
    """Print a program as text: the kernel language (default), or its SyncGraph.

    Examples: `tidegate show gemm.py -o gemm.tide`, `tidegate show gemm.tide --print-after graph`
    """
    from tidegate.files import load
    from tidegate.passes import check_stage, run_stages, units_of

    check_stage(print_after)
    loaded = load(file)
    shown: list[str] = []
    for unit in units_of(loaded, target):
        stage = "graph" if unit.kernel is None else print_after
        findings = run_stages(
            unit, print_after=stage, stop_after=None, show=lambda _, text: shown.append(text.rstrip("\n"))
        )
        bad = [each for each in findings if each.is_bad_input]
        if bad:
            _print_findings(bad, loaded.sources)
            raise typer.Exit(2)
    text = "\n\n".join(shown)
    if output is None:
        _print(text)
    else:
        _write(output, text + "\n")


@app.command("check")
def check_command(
    files: FilesArg,
    target: TargetOption = None,
    as_json: JsonOption = False,
    print_after: PrintAfter = None,
    stop_after: StopAfter = None,
) -> None:
    """Find what is wrong with programs: meaning, memory, the barrier protocol, the fit to their target.

    Races, and what waves do at barrier objects, are not decided by this version. Exit status: 0 clean, 1 findings,
    2 bad input; the worst of all files.

    Examples: `tidegate check gemm.tide`, `tidegate check gemm.py::gemm --target gfx1201 --json`
    """
    from tidegate.diag import Sources, findings_to_json
    from tidegate.passes import check_stage

    check_stage(print_after)
    check_stage(stop_after)
    show = _print_stage if not as_json else lambda *_: None
    checks = [_Check(file, len(files) > 1) for file in files]
    for each in checks:
        each.run(target, print_after, stop_after, show)
        if as_json:
            continue
        _print_findings(each.findings, each.sources or Sources(), err=each.sources is None)
        if each.sources is not None:
            _print(each.verdict())
    if as_json:
        given = files if len(files) > 1 else files[0]
        decided = (
            ["meaning", "memory", "workgroup barrier", "target"]
            if all(each.sources is not None for each in checks)
            else []
        )
        findings = [finding for each in checks for finding in each.findings]
        names = [name for each in checks for name in each.names]
        _print(json.dumps(findings_to_json(findings, file=given, checked=names, decided=decided), indent=2))
    raise typer.Exit(max(_status(each.findings) for each in checks))


class _Check:
    """What `check` finds out about one file; without sources, no program could be made of it."""

    def __init__(self, file: str, among_others: bool) -> None:
        self.file, self.among_others = file, among_others
        self.findings: list[Finding] = []
        self.names: list[str] = []
        self.sources: Sources | None = None

    def run(self, target: str | None, print_after: str | None, stop_after: str | None, show: Any) -> None:
        from tidegate.diag import BadInput
        from tidegate.files import load
        from tidegate.passes import run_stages, units_of

        try:
            loaded = load(self.file)
            units = units_of(loaded, target)
        except BadInput as bad:
            self.findings += bad.findings
            return
        self.sources = loaded.sources
        for unit in units:
            self.findings += run_stages(unit, print_after=print_after, stop_after=stop_after, show=show)
            self.names.append(f"@{unit.name} on {unit.target.name or 'no target'}")

    def verdict(self) -> str:
        found = self.findings
        what = f"{len(found)} finding{'s' * (len(found) != 1)}" if found else "no findings"
        where = f"{self.file}: " if self.among_others else ""
        return f"{where}{', '.join(self.names)}: {what}; races and barrier objects are not decided by this version"


@app.command("run")
def run_command(
    file: FileArg,
    target: TargetOption = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random inputs.")] = 0,
    waves: Annotated[int | None, typer.Option(metavar="N", help="Run with another number of waves.")] = None,
    size: Annotated[
        list[str] | None, typer.Option("--size", "-s", metavar="NAME=N", help="Set a size; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT.npz", help="Save all arrays after the run.")
    ] = None,
) -> None:
    """Run a kernel on this computer, in order, with random inputs.

    Waves take turns and every access is performed at once, so races do not show. Where the Python file has a function
    `reference(inputs, sizes)`, the results are compared with it; of other arrays that were written, the range is shown.

    Examples: `tidegate run examples/gemm_two_slots.py`, `tidegate run gemm.tide --size K=256 --seed 7 -o out.npz`
    """
    from tidegate.files import load
    from tidegate.passes import reject_graph, run_stages, units_of

    loaded = load(file)
    wanted = _sizes(size or [])
    status, units = 0, units_of(loaded, target)
    arrays: dict[str, Any] = {}
    for unit in units:
        kernel = reject_graph(unit, "run")
        findings = run_stages(unit, print_after=None, stop_after="kernel", show=_print_stage)
        _print_findings(findings, loaded.sources)
        if any(each.is_bad_input for each in findings):
            raise typer.Exit(2)
        ended, results = _run(kernel, unit.target, loaded, wanted, seed, waves)
        status = max(status, ended, _status(findings))
        arrays.update({name if len(units) == 1 else f"{unit.name}.{name}": each for name, each in results.items()})
    if output is not None and arrays:
        _save(output, arrays)
    raise typer.Exit(status)


def _run(
    kernel: Any, target: Any, loaded: Any, wanted: dict[str, int], seed: int, waves: int | None
) -> tuple[int, dict[str, Any]]:
    """Runs one kernel and says how it went; gives the exit status and the arrays."""
    import numpy as np

    from tidegate.simulate.inorder import SimulationError, make_inputs, run

    sizes = {each.name: wanted.get(each.name, each.default) for each in kernel.sizes}
    unknown = sorted(set(wanted) - set(sizes))
    if unknown:
        _stop(f"`@{kernel.name}` has no size `{unknown[0]}`", f"its sizes: {', '.join(sizes) or 'none'}")
    try:
        inputs = make_inputs(kernel, sizes, seed)
        results = run(kernel, inputs, sizes=sizes, waves=waves, lanes=target.lanes or 64)
    except SimulationError as error:
        _print_findings([error.finding], loaded.sources)
        return (2 if error.finding.is_bad_input else 1), {}
    named = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    count = waves or kernel.waves
    who = f"@{kernel.name} on {target.name or 'no target'}, {count} wave{'s' * (count != 1)}"
    _print(f"{who}, {named}" if named else who)
    expected = _expected(loaded, inputs, sizes)
    status = 0
    for name, result in results.items():
        if name in expected:
            status = max(status, _compare(name, result, expected[name], loaded.reference.tolerance))
        elif not np.array_equal(result, inputs[name], equal_nan=True):
            _print(f"  {name}: {_describe(result)}")
    return status, dict(results)


def _compare(name: str, result: Any, expected: Any, tolerance: tuple[float, float]) -> int:
    import numpy as np

    got, want = np.asarray(result, np.float64), np.asarray(expected, np.float64)
    good = got.shape == want.shape and bool(np.allclose(got, want, *tolerance, equal_nan=True))
    how = f"largest difference {np.max(np.abs(got - want)):.3g}" if got.shape == want.shape else "other shape"
    _print(f"  {name}: {'equals' if good else 'DIFFERS FROM'} the reference, {how}")
    return 0 if good else 1


def _describe(array: Any) -> str:
    """Shape, element type and range of an array that was written."""
    import numpy as np

    numbers = np.asarray(array, np.float64)
    shape = "x".join(map(str, array.shape)) or "one"
    if not numbers.size:
        return f"{shape} {array.dtype}, written"
    with np.errstate(all="ignore"):
        found = (numbers.min(), numbers.mean(), numbers.max())
    low, mean, high = (f"{number:.4g}" for number in found)
    return f"{shape} {array.dtype}, written: min {low}, mean {mean}, max {high}"


def _save(path: Path, arrays: dict[str, Any]) -> None:
    """NumPy's files know no bf16 and no 8-bit floats (kind `V`): these are saved as f32, which holds them exactly."""
    import numpy as np

    known = {name: each.astype(np.float32) if each.dtype.kind == "V" else each for name, each in arrays.items()}
    try:
        with path.open("wb") as file:
            np.savez(file, **known)
    except OSError as error:
        _stop(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}")


def _expected(loaded: Any, inputs: Any, sizes: dict[str, int]) -> dict[str, Any]:
    from tidegate.files import user_code

    if loaded.reference is None:
        return {}
    with user_code(Path(loaded.file), loaded.file):
        found = loaded.reference.compute(inputs, sizes)
    if not isinstance(found, dict):
        _stop(
            f"`reference` gives `{type(found).__name__}`", "it gives a dictionary: the name of an argument, its array"
        )
    unknown = sorted(set(map(str, found)) - set(inputs))
    if unknown:
        _stop(f"`reference` gives `{unknown[0]}`, which is no argument", f"the arguments: {', '.join(inputs)}")
    return found


@app.command("demo")
def demo_command() -> None:
    """A walk through one kernel: write it, check it, break it, run it, see its graph.

    Examples: `tidegate demo`
    """
    from tidegate.demo import run_demo

    raise typer.Exit(run_demo(_print))


def main() -> None:
    """Runs a command; every end is an exit status, never a traceback."""
    from tidegate.diag import BadInput, Sources

    try:
        app()
    except BadInput as bad:
        _print_findings(bad.findings, Sources(), err=True)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        sys.exit(_report_crash(error))


def _report_crash(error: Exception) -> int:
    """An internal error: says where a reproducer lies."""
    import hashlib
    import tempfile
    import traceback

    from tidegate import __version__

    trace = "".join(traceback.format_exception(error))
    inputs = [Path(each.partition("::")[0]) for each in sys.argv[1:]]
    parts = [f"tidegate {__version__}, Python {sys.version}", " ".join(["tidegate", *sys.argv[1:]]), trace]
    parts += [f"--- {path.name}\n{path.read_text(errors='replace')}" for path in inputs if path.is_file()]
    text = "\n\n".join(parts)
    name = f"tidegate-crash-{hashlib.sha256(text.encode()).hexdigest()[:10]}.txt"
    place = Path(tempfile.gettempdir()) / name
    place.write_text(text)
    last = trace.strip().splitlines()[-1]
    print(f"error: Tidegate failed: {last}", file=sys.stderr)
    print(f"This is a mistake of Tidegate's own. Please report it with {place}", file=sys.stderr)
    return 3


# --- printing -----------------------------------------------------------------------------------------------------


def _print(text: str) -> None:
    print(text)


def _print_stage(stage: str, text: str) -> None:
    print(f"# after {stage}\n{text}")


def _print_findings(findings: Any, sources: Sources, *, err: bool = False) -> None:
    from tidegate.diag import show_findings

    if findings:
        stream = sys.stderr if err else sys.stdout
        text = show_findings(findings, sources)
        print(_colour(text) if stream.isatty() and not os.environ.get("NO_COLOR") else text, end="\n\n", file=stream)


def _colour(text: str) -> str:
    """Headers in red or yellow, marks in blue, for a terminal."""
    lines = []
    for line in text.split("\n"):
        if line.startswith("error["):
            line = f"\033[1;31m{line}\033[0m"
        elif line.startswith("warning["):
            line = f"\033[1;33m{line}\033[0m"
        lines.append(line)
    return "\n".join(lines)


def _stop(message: str, help: str = "") -> NoReturn:
    from tidegate.diag import BadInput, Finding

    raise BadInput(Finding("TG022", message, (), help=help))


def _status(findings: list[Finding]) -> int:
    if any(each.is_bad_input for each in findings):
        return 2
    return 1 if any(each.severity == "error" for each in findings) else 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        _stop(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}")


def _sizes(given: list[str]) -> dict[str, int]:
    found = {}
    for each in given:
        name, _, number = each.partition("=")
        if not number.strip().isdigit() or int(number) < 1:
            _stop(f"`--size {each}` is no size", "write it as `--size K=256`")
        found[name.strip()] = int(number)
    return found


def _row(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    return str(value or "–")


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
