"""Runs the Wave kernels with numbers and compares them with their references: `python -m bench.wave_run`.

Needs   wave-lang and torch; no GPU
Gives   `judge`: what one kernel for one target computes under several seeds and timings; as a command, a table
Keeps   the barriers are Wave's own, unless another pass is handed in (`place`) or what Wave placed is changed
        (`before_run`); an operation that the machine does not know is a row that says so
Cost    a few seconds for each kernel and target, nearly all of it Wave's compilation

    python -m bench.wave_run --only gemm --target gfx942
    python -m bench.wave_run --strip                              # without any barrier or wait
    python -m bench.wave_run --place some.module:add_barriers     # in the place of Wave's pass
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import numpy as np

from oracles.wave_kernels import TARGETS, Arrays, Case, Hook, barrier_pass_watched, cases, first_error

SIZES = {"M": 100, "N": 90, "K": 330}  # of kernels whose sizes are known at the launch
TOLERANCE = 1e-3
# Timing and how many seeds.
RUNS = (("early", 2), ("late", 3), ("lazy", 2), ("copies-late", 2), ("copies-early", 2), ("random", 14))

BARRIERS = ("shared_memory_barrier", "workgroup_barrier", "shared_memory_barrier_signal", "shared_memory_barrier_wait")
WAITS = (*BARRIERS, "memory_counter_wait")


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one kernel for one target."""

    name: str
    target: str
    verdict: str  # equal, differs, hang, cannot run, fails
    why: str = ""


def judge(
    case: Case,
    target: str,
    before_run: Hook | None = None,
    place: Hook | None = None,
    runs: Sequence[tuple[str, int]] = RUNS,
) -> Row:
    """Compares all runs of a kernel; the row tells the first that is not equal."""
    found: list[Row] = []

    def look(trace: Any, constraints: list[Any], options: Any) -> None:
        if before_run:
            before_run(trace, constraints, options)
        found.append(run_all(case, target, trace, constraints, options, runs))

    try:
        compile_with(case, target, look, place)
    except Exception as error:
        if not found:
            return Row(case.name, target, "fails", first_error(f"{type(error).__name__}: {error}"))
    return found[0]


def compile_with(case: Case, target: str, look: Hook, place: Hook | None = None) -> None:
    """Wave's passes, with `look` after its barrier pass, or after what stands in its place."""
    from wave_lang.kernel.wave.compile import wave_compile

    build = case.make(target)
    build.options.compile_to_mlir = True

    def watch(run: Callable[..., None], trace: Any, *rest: Any, **named: Any) -> None:
        if place:
            place(trace, build.kernel.constraints, build.options)
        else:
            run(trace, *rest, **named)
        look(trace, build.kernel.constraints, build.options)

    # Wave prints the whole trace when something goes wrong.
    with barrier_pass_watched(watch), contextlib.redirect_stdout(io.StringIO()):
        wave_compile(build.options, build.kernel, build.schedule)


def run_all(
    case: Case,
    target: str,
    trace: Any,
    constraints: list[Any],
    options: Any,
    runs: Sequence[tuple[str, int]] = RUNS,
) -> Row:
    """To be called with Wave's indexing context open."""
    from oracles.wave_machine import CannotRun, Program, make_inputs

    try:
        program = Program(trace, constraints, options)
        inputs = INPUTS.get(case.kernel, same)(make_inputs(trace, SIZES))
        wanted, than, note = find_wanted(case, program, inputs)
        for timing, seeds in runs:
            for seed in range(seeds):
                ran = program.run(inputs, seed, timing)
                told = f"{timing}, seed {seed}"
                if ran.hang:
                    return Row(case.name, target, "hang", f"{told}: {ran.hang}")
                difference = compare(ran, wanted)
                if difference:
                    return Row(case.name, target, "differs", f"from {than}; {told}: {difference}")
    except CannotRun as error:
        return Row(case.name, target, "cannot run", str(error))
    return Row(case.name, target, "equal", note)


def find_wanted(case: Case, program: Any, inputs: Arrays) -> tuple[Arrays, str, str]:
    """What a run should give: the reference, or what waves in step compute where that is something else.

    A kernel that is wrong in step is wrong for another reason than its barriers; what they do can still be judged.
    """
    ran = program.run(inputs, timing="lockstep")
    in_step = {name: ran.arrays[name] for name, some in ran.written.items() if some.any()}
    reference = case.reference or REFERENCES.get(case.kernel)
    if reference is None:
        return in_step, "a run in step", "to a run in step; there is no reference"
    wanted = reference(inputs)
    if not ran.hang and compare(ran, wanted):
        return in_step, "a run in step, which is not the reference", "to a run in step, WHICH IS NOT THE REFERENCE"
    return wanted, "the reference", ""


def same(inputs: Arrays) -> Arrays:
    return inputs


def any_bytes(inputs: Arrays) -> Arrays:
    """For operands of 4 bits: all of them, and scales near one."""
    given = np.random.default_rng(1)
    ranges = {name: (126, 129) if name.endswith("_scale") else (0, 256) for name in inputs if name != "out"}
    made = {name: given.integers(*ends, inputs[name].shape).astype(np.uint8) for name, ends in ranges.items()}
    return inputs | {name: array.view(np.int8) for name, array in made.items()}


def multiply_scaled(inputs: Arrays) -> Arrays:
    """Floats of 4 bits, two in a byte, with one exponent for each 32."""

    def wide(name: str) -> np.ndarray:
        raw = inputs[name].view(np.uint8)
        magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        numbers = np.concatenate([magnitudes, -magnitudes])
        found = numbers[np.stack([raw & 15, raw >> 4], axis=-1)].reshape(len(raw), -1)
        scale = np.exp2(inputs[f"{name}_scale"].view(np.uint8).astype(np.float64) - 127)
        return found * np.repeat(scale, 32, axis=1)

    return {"out": wide("left") @ wide("right").T}


INPUTS: dict[str, Callable[[Arrays], Arrays]] = {"mxfp4": any_bytes}
REFERENCES: dict[str, Callable[[Arrays], Arrays]] = {"mxfp4": multiply_scaled}


def compare(ran: Any, wanted: Arrays) -> str:
    """How many of the elements that were written are not what they should be, or not the same for all who wrote."""
    for name, right in wanted.items():
        mask = ran.written[name]
        if not mask.any():
            return f"nothing is written to `{name}`"
        got, meant = ran.arrays[name][mask].astype(np.float64), np.asarray(right, np.float64)[mask]
        wrong = ~(np.abs(got - meant) <= TOLERANCE * (1 + np.abs(meant)))
        if wrong.any():
            return f"{wrong.sum()} of {wrong.size} elements of `{name}`"
        if ran.disputed[name].any():
            return f"two waves write different values to {ran.disputed[name].sum()} elements of `{name}`"
    return ""


def strip(trace: Any, constraints: list[Any], options: Any) -> None:
    """Takes every barrier and every wait away."""
    from wave_lang.kernel.ops.wave_ops import get_custom

    for graph in trace.region_graph.subgraphs.values():
        for node in list(graph.nodes):
            if get_custom(node).tkw_op_name in WAITS:
                graph.erase_node(node)


# --- the command --------------------------------------------------------------------------------------------------


def main() -> int:
    arguments = read_arguments()
    chosen = [each for each in cases() if arguments.only in (None, each.name, each.kernel)]
    if not chosen:
        print(f"no kernel is named {arguments.only}", file=sys.stderr)
        return 2
    wanted = [arguments.target] if arguments.target else list(TARGETS)
    work = [(each.name, target) for each in chosen for target in wanted if target in each.targets]
    print("| kernel | target | outcome | |\n|---|---|---|---|")
    counts: dict[str, int] = {}
    for row in rows_of(work, "bench.wave_run:strip" if arguments.strip else arguments.before_run, arguments.place):
        print(f"| {row.name} | {row.target} | {row.verdict} | {row.why} |", flush=True)
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 0 if counts.keys() <= {"equal"} else 1


def rows_of(work: list[tuple[str, str]], before_run: str | None, place: str | None) -> Iterator[Row]:
    """One process after another: a crash costs the row that it happened in."""
    pool = new_pool()
    for name, target in work:
        try:
            yield pool.submit(judge_named, name, target, before_run, place).result()
        except BrokenProcessPool:
            pool = new_pool()
            yield Row(name, target, "fails", "the process ended")
    pool.shutdown()


def new_pool() -> ProcessPoolExecutor:
    # Forked processes would share what MLIR has set up.
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def judge_named(name: str, target: str, before_run: str | None, place: str | None) -> Row:
    (case,) = (each for each in cases() if each.name == name)
    return judge(case, target, load_hook(before_run), load_hook(place))


def load_hook(name: str | None) -> Hook | None:
    """`some.module:function`."""
    if name is None:
        return None
    module, _, function = name.partition(":")
    hook: Hook = getattr(import_module(module), function)
    return hook


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.wave_run", description=__doc__)
    parser.add_argument("--only", help="a kernel, or all of a family")
    parser.add_argument("--target", choices=TARGETS, help="one target")
    parser.add_argument("--strip", action="store_true", help="take all barriers and waits away before the run")
    parser.add_argument("--before-run", help="MODULE:FUNCTION that changes the trace before the run")
    parser.add_argument("--place", help="MODULE:FUNCTION that places barriers instead of Wave")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
