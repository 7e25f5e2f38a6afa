"""`tidegate run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.options import FileArg, TargetOption
from tidegate.cli.say import print_findings, print_stage, say, status_of, stop


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
    wanted = read_sizes(size or [])
    status, units = 0, units_of(loaded, target)
    arrays: dict[str, Any] = {}
    for unit in units:
        kernel = reject_graph(unit, "run")
        findings = run_stages(unit, print_after=None, stop_after="kernel", show=print_stage)
        print_findings(findings, loaded.sources)
        if any(each.is_bad_input for each in findings):
            raise typer.Exit(2)
        ended, results = _run(kernel, unit.target, loaded, wanted, seed, waves)
        status = max(status, ended, status_of(findings))
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
        stop(f"`@{kernel.name}` has no size `{unknown[0]}`", f"its sizes: {', '.join(sizes) or 'none'}")
    try:
        inputs = make_inputs(kernel, sizes, seed)
        results = run(kernel, inputs, sizes=sizes, waves=waves, lanes=target.lanes or 64)
    except SimulationError as error:
        print_findings([error.finding], loaded.sources)
        return (2 if error.finding.is_bad_input else 1), {}
    named = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    count = waves or kernel.waves
    who = f"@{kernel.name} on {target.name or 'no target'}, {count} wave{'s' * (count != 1)}"
    say(f"{who}, {named}" if named else who)
    expected = _expected(loaded, inputs, sizes)
    status = 0
    for name, result in results.items():
        if name in expected:
            status = max(status, _compare(name, result, expected[name], loaded.reference.tolerance))
        elif not np.array_equal(result, inputs[name], equal_nan=True):
            say(f"  {name}: {_describe(result)}")
    return status, dict(results)


def _compare(name: str, result: Any, expected: Any, tolerance: tuple[float, float]) -> int:
    import numpy as np

    got, want = np.asarray(result, np.float64), np.asarray(expected, np.float64)
    good = got.shape == want.shape and bool(np.allclose(got, want, *tolerance, equal_nan=True))
    how = f"largest difference {np.max(np.abs(got - want)):.3g}" if got.shape == want.shape else "other shape"
    say(f"  {name}: {'equals' if good else 'DIFFERS FROM'} the reference, {how}")
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
        stop(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}")


def _expected(loaded: Any, inputs: Any, sizes: dict[str, int]) -> dict[str, Any]:
    from tidegate.files import user_code

    if loaded.reference is None:
        return {}
    with user_code(Path(loaded.file), loaded.file):
        found = loaded.reference.compute(inputs, sizes)
    if not isinstance(found, dict):
        stop(f"`reference` gives `{type(found).__name__}`", "it gives a dictionary: the name of an argument, its array")
    unknown = sorted(set(map(str, found)) - set(inputs))
    if unknown:
        stop(f"`reference` gives `{unknown[0]}`, which is no argument", f"the arguments: {', '.join(inputs)}")
    return found


def read_sizes(given: list[str]) -> dict[str, int]:
    found = {}
    for each in given:
        name, _, number = each.partition("=")
        if not number.strip().isdigit() or int(number) < 1:
            stop(f"`--size {each}` is no size", "write it as `--size K=256`")
        found[name.strip()] = int(number)
    return found
