"""`tidegate run`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.bars import progress_bar
from tidegate.cli.complete import complete_words
from tidegate.cli.cycles import CyclesAsked, cost_of, say_cycles
from tidegate.cli.options import FileArg, JsonOption, TargetOption
from tidegate.cli.results import compare, describe, has_new_nan, save, say_counters, say_phases
from tidegate.cli.say import fill_sizes, print_findings, read_sizes, say, say_notes, status_of, stop, write
from tidegate.diag import visible

if TYPE_CHECKING:
    from tidegate.graph.model import SyncGraph
    from tidegate.language.ops import Kernel
    from tidegate.simulate.hostile import HostileRun
    from tidegate.targets import Target


# Steps of waves that a run takes, unless it is allowed more: half a minute or so.
MOST_STEPS = 250_000
# Workgroups that share a compute unit: no GPU has room for more.
MOST_GROUPS = 64


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command line asks for."""

    sizes: dict[str, int]
    seed: int
    waves: int | None
    in_order: bool
    most_steps: int
    trace: Path | None
    counters: bool
    phases: bool
    on: str


def run_command(
    file: FileArg,
    target: TargetOption = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Seed of the random inputs and of the schedule.",
            autocompletion=complete_words(*map(str, range(8))),
        ),
    ] = 0,
    waves: Annotated[int | None, typer.Option(metavar="N", help="Run with another number of waves.")] = None,
    size: Annotated[
        list[str] | None, typer.Option("--size", "-s", metavar="NAME=N", help="Set a size; may be repeated.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="OUT.json", help="Write a timeline for Perfetto and Chrome."),
    ] = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="Print the most operations in flight on each counter, for each wave.")
    ] = False,
    phases: Annotated[bool, typer.Option("--phases", help="Print how often each wave passed each barrier.")] = False,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Perform every access immediately; hides races.")
    ] = False,
    max_steps: Annotated[
        int, typer.Option(metavar="N", min=0, help="Stop a run after N wave steps; 0: never.")
    ] = MOST_STEPS,
    on: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="`simulator`, or `gpu`: build the kernel, run it on this machine's NVIDIA GPU, and time it.",
            autocompletion=complete_words("simulator", "gpu"),
        ),
    ] = "simulator",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT.npz", help="Save all arrays after the run.")
    ] = None,
    cycles: Annotated[
        bool, typer.Option("--cycles", help="Do not run: print the cycles estimated by the target's cost model.")
    ] = False,
    workgroups: Annotated[
        int | None, typer.Option(metavar="N", help="With `--cycles`: N workgroups share a compute unit.")
    ] = None,
    cached: Annotated[
        bool, typer.Option("--cached", help="With `--cycles`: global memory hits in the shared cache.")
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option(metavar="FILE.py", help="Compare with the `reference` in this file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a kernel on this computer with random inputs, in an adversarial simulator: it delays everything it may delay.

    Waves run at their own pace, and accesses are performed as late as their waits allow; the seed picks the order.
    Races and wrong orders are found with any seed, if these sizes show them; wrong numbers depend on the seed. Global
    memory is not checked. If the Python file, or the one that `--reference` names, has a function `reference(inputs,
    sizes)`, the results are compared with it; for other arrays that were written, the range is shown. Exit status: 0
    clean, 1 findings or results that differ from the reference, 2 bad input.

    A `.sync` graph runs too: it has no data, and the seed decides what it leaves open.

    `--cycles` runs and judges nothing: it prints an estimate of the cycles, in total and for one iteration of each
    loop, and the reasons for stalls; `--json` prints them as a document, `--trace` writes the timeline.

    In the counters, an operation on global memory counts while it queues behind one on shared memory.

    Examples: `tidegate run examples/gemm_two_slots.py`, `tidegate run gemm.tide --size K=256 --seed 7 -o out.npz`,
    `tidegate run gemm.tide --trace gemm.json --counters --phases`, `tidegate run gemm.tide --in-order`,
    `tidegate run gemm.tide --reference gemm.py`, `tidegate run gemm.tide --cycles --workgroups 2`
    """
    from tidegate.files import load
    from tidegate.passes import NOT_THERE
    from tidegate.session import sessions_of

    loaded = load(file)
    if reference is not None:
        loaded = _with_reference(loaded, reference)
    wanted = _Wanted(read_sizes(size or []), seed, waves, in_order, max_steps, trace, counters, phases, on)
    _check_options(wanted)
    if cycles:
        asked = CyclesAsked(1 if workgroups is None else workgroups, cached, trace, as_json)
        raise typer.Exit(_run_cycles(file, loaded, target, wanted, asked, output))
    if workgroups is not None or cached or as_json:
        stop("`--workgroups`, `--cached` and `--json` need `--cycles`", "give `--cycles` too")
    status, units = 0, sessions_of(loaded, target)
    say_notes(units)
    if trace is not None and len(units) > 1:
        stop("`--trace` writes one timeline, and the file has several kernels", f"pick one: `{file}::{units[0].name}`")
    arrays: dict[str, Any] = {}
    for unit in units:
        if unit.kernel is None:
            if output is not None:
                stop(f"`@{unit.name}` is a graph: it has no arrays to save", "drop `--output`")
            status = max(status, _run_graph(unit.graph, unit.target, loaded, wanted))
            continue
        findings = unit.of_kernel
        print_findings(findings, loaded.sources)
        if any(each.is_bad_input for each in findings):
            raise typer.Exit(2)
        if not in_order and any(each.code in NOT_THERE for each in findings):
            say(f"@{unit.name} on {unit.target.name}: not run: the target lacks an operation that it uses")
            status = 1
            continue
        ended, results = _run(unit.kernel, unit.target, loaded, wanted)
        status = max(status, ended, status_of(findings))
        arrays.update({name if len(units) == 1 else f"{unit.name}.{name}": each for name, each in results.items()})
    if output is not None and arrays:
        save(output, arrays)
    raise typer.Exit(status)


def _with_reference(loaded: Any, file: str) -> Any:
    """The programs, with the reference of another file."""
    from tidegate.files import load

    if Path(file).suffix.lower() != ".py":
        stop(f"`--reference {file}`: a reference is a function in a Python file", "name a `.py` file")
    found = load(file).reference
    if found is None:
        stop(f"`{file}` has no `reference`", "define `def reference(inputs, sizes)` in it")
    return replace(loaded, reference=found)


def _run_cycles(
    file: str, loaded: Any, target: str | None, wanted: _Wanted, asked: CyclesAsked, output: Path | None
) -> int:
    """Estimates instead of runs; gives the exit status."""
    from tidegate.session import sessions_of

    if wanted.in_order or wanted.counters or wanted.phases or wanted.waves is not None or output is not None:
        stop(
            "`--cycles` does not run the kernel",
            "drop `--in-order`, `--counters`, `--phases`, `--waves` and `--output`, or `--cycles`",
        )
    if not 1 <= asked.workgroups <= MOST_GROUPS:
        said = f"`--workgroups {asked.workgroups}`: at least 1 and at most {MOST_GROUPS} share a compute unit"
        stop(said, f"give a number from 1 to {MOST_GROUPS}")
    units, costed = sessions_of(loaded, target), []
    say_notes(units)
    if asked.trace is not None and len(units) > 1:
        stop("`--trace` writes one timeline, and the file has several kernels", f"pick one: `{file}::{units[0].name}`")
    for unit in units:
        if unit.meaningless:
            print_findings(unit.meaningless, loaded.sources, err=asked.as_json)
            return 2
        graph = unit.graph
        costed.append(cost_of(graph, unit.target, fill_sizes(graph.name, graph.sizes, wanted.sizes), asked))
    say_cycles(costed, file, asked)
    return 0


def _check_options(wanted: _Wanted) -> None:
    if wanted.on not in ("simulator", "gpu"):
        stop(f"`--on {wanted.on}`: a kernel runs on `simulator` or `gpu`", "give one of them")
    if wanted.on == "gpu" and (wanted.in_order or wanted.trace or wanted.counters or wanted.phases or wanted.waves):
        said = "`--in-order`, `--trace`, `--counters`, `--phases` and `--waves` belong to the simulator"
        stop(said, "drop them, or `--on gpu`")
    if not wanted.in_order:
        return
    for name, given in (("trace", wanted.trace), ("counters", wanted.counters), ("phases", wanted.phases)):
        if given:
            stop(f"`--{name}` applies to the hostile machine, which `--in-order` does not use", "drop one of them")


def _run(kernel: Kernel, target: Target, loaded: Any, wanted: _Wanted) -> tuple[int, dict[str, Any]]:
    """Runs one kernel and says how it went; gives the exit status and the arrays."""
    import numpy as np

    from tidegate.simulate.inorder import SimulationError, make_inputs

    sizes = fill_sizes(kernel.name, kernel.sizes, wanted.sizes)
    try:
        inputs = make_inputs(kernel, sizes, wanted.seed)
        status, results = _simulate(kernel, target, loaded, wanted, inputs, sizes)
    except SimulationError as error:
        print_findings([error.finding], loaded.sources)
        return (2 if error.finding.is_bad_input else 1), {}
    if not results:
        return status, {}
    expected = _expected(loaded, inputs, sizes)
    for name, result in results.items():
        if name in expected:
            status = max(status, compare(name, result, expected[name], loaded.reference.tolerance))
        elif not np.array_equal(result, inputs[name], equal_nan=True):
            say(f"  {name}: {describe(result)}")
        if has_new_nan(result, inputs[name]):
            say(f"  {name} holds NaN: computed, or read from uninitialized shared memory, which is filled with it")
    return status, results


def _run_graph(graph: SyncGraph, target: Target, loaded: Any, wanted: _Wanted) -> int:
    """Runs a graph, which has no numbers, and says what was found; gives the exit status."""
    from tidegate.graph.fit import find_graph_misfits
    from tidegate.graph.wellformed import check_graph
    from tidegate.passes import NOT_THERE
    from tidegate.simulate.faults import SimulationError
    from tidegate.simulate.hostile import run_graph
    from tidegate.simulate.statements import statements_of
    from tidegate.simulate.timeline import Timeline
    from tidegate.simulate.unroll import Endless, Misstep

    if wanted.in_order or wanted.waves is not None:
        stop(
            f"`@{graph.name}` is a graph: it has no data, and its number of waves is fixed",
            "drop `--in-order`, `--waves`",
        )
    bad = check_graph(graph)
    if bad:
        print_findings(bad, loaded.sources)
        raise typer.Exit(2)
    misfits, sizes = list(find_graph_misfits(graph, target)), fill_sizes(graph.name, graph.sizes, wanted.sizes)
    if any(each.code in NOT_THERE for each in misfits):
        print_findings(misfits, loaded.sources)
        say(f"@{graph.name} on {target.name}: not run: the target lacks an operation that it uses")
        return 1
    timeline = Timeline(graph.name, statements_of(graph)) if wanted.trace is not None else None
    try:
        with progress_bar(f"@{graph.name}, workgroups") as progress:
            ran = run_graph(
                graph,
                target=target,
                sizes=sizes,
                seed=wanted.seed,
                listener=timeline,
                progress=progress,
                most_steps=wanted.most_steps,
            )
    except SimulationError as error:
        print_findings([error.finding], loaded.sources)
        return 2
    except Misstep as misstep:
        print_findings([*misfits, misstep.finding], loaded.sources)
        return 1
    except Endless as endless:
        stop(f"`@{graph.name}` does not end: {endless}", "a graph that never ends cannot be run")
    if timeline is not None and wanted.trace is not None:
        write(wanted.trace, timeline.text())
    findings = [*misfits, *ran.findings()]
    print_findings(findings, loaded.sources)
    _say_who(graph, target, wanted, sizes)
    _say_more(ran, wanted)
    return status_of(findings)


def _simulate(
    kernel: Kernel, target: Target, loaded: Any, wanted: _Wanted, inputs: dict[str, Any], sizes: dict[str, int]
) -> tuple[int, dict[str, Any]]:
    """Runs it on the machine asked for, and says what was found; no arrays if it hangs."""
    from tidegate.simulate.inorder import run

    if wanted.on == "gpu":
        return 0, _run_on_gpu(kernel, target, inputs, sizes)
    if wanted.in_order:
        lanes, most = target.lanes or 64, wanted.most_steps
        results = run(kernel, inputs, sizes=sizes, waves=wanted.waves, lanes=lanes, most_steps=most)
        _say_who(kernel, target, wanted, sizes)
        return 0, dict(results)
    ran = _run_hostile(kernel, target, wanted, inputs, sizes)
    findings = ran.findings()
    print_findings(findings, loaded.sources)
    _say_who(kernel, target, wanted, sizes)
    _say_more(ran, wanted)
    return status_of(findings), {} if ran.hang is not None else dict(ran.arrays)


def _run_on_gpu(kernel: Kernel, target: Target, inputs: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """Builds, launches and times it. A kernel that is not proved may never end, and is not launched."""
    from tidegate.lowering.build import build
    from tidegate.lowering.launch import get_cupy, run_arrays
    from tidegate.session import Session

    get_cupy()
    session = Session(kernel.name, target, kernel)
    if target.vendor != "NVIDIA":
        stop(
            f"`@{kernel.name}` is for {target.name}: only NVIDIA's GPUs run kernels here",
            "name another one, as in `--target sm_80`",
        )
    if not session.verification.is_proved:
        stop(f"`@{kernel.name}` is not proved, and may never end on a GPU", "`tidegate check` says why")
    results, seconds = run_arrays(build(session), inputs, sizes)
    say(f"@{kernel.name} on the GPU, built for {target.name}: {1e6 * seconds:.1f} us, median of 20 launches")
    return results


def _say_more(ran: HostileRun, wanted: _Wanted) -> None:
    if wanted.trace is not None:
        say(f"  timeline: {visible(str(wanted.trace))}, for https://ui.perfetto.dev")
    if wanted.counters:
        say_counters(ran)
    if wanted.phases:
        say_phases(ran)


def _run_hostile(
    kernel: Kernel, target: Target, wanted: _Wanted, inputs: dict[str, Any], sizes: dict[str, int]
) -> HostileRun:
    from tidegate.simulate.hostile import run_hostile
    from tidegate.simulate.kernel_steps import statements_of
    from tidegate.simulate.timeline import Timeline

    timeline = Timeline(kernel.name, statements_of(kernel)) if wanted.trace is not None else None
    with progress_bar(f"@{kernel.name}, workgroups") as progress:
        ran = run_hostile(
            kernel,
            inputs,
            target=target,
            sizes=sizes,
            waves=wanted.waves,
            seed=wanted.seed,
            listener=timeline,
            progress=progress,
            most_steps=wanted.most_steps,
        )
    if timeline is not None and wanted.trace is not None:
        write(wanted.trace, timeline.text())
    return ran


def _say_who(program: Kernel | SyncGraph, target: Target, wanted: _Wanted, sizes: dict[str, int]) -> None:
    named = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    count = wanted.waves or program.waves
    who = f"@{program.name} on {target.name or 'no target'}, {count} wave{'s' * (count != 1)}"
    say(f"{who}, {named}" if named else who)


def _expected(loaded: Any, inputs: Any, sizes: dict[str, int]) -> dict[str, Any]:
    import numpy as np

    from tidegate.guest import user_code

    if loaded.reference is None:
        return {}
    with user_code(Path(loaded.file), loaded.file):
        copies = {name: each.copy() if isinstance(each, np.ndarray) else each for name, each in inputs.items()}
        found = loaded.reference.compute(copies, dict(sizes))
    if not isinstance(found, dict):
        stop(f"`reference` gives `{type(found).__name__}`", "return a dictionary from argument names to arrays")
    unknown = sorted(set(map(str, found)) - set(inputs))
    if unknown:
        stop(f"`reference` returns `{unknown[0]}`, which is not an argument", f"the arguments: {', '.join(inputs)}")
    return found
