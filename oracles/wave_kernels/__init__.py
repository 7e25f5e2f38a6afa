"""Kernels for Wave: what its users write, traced and compiled for every target where Wave compiles it.

Needs   wave-lang 3.9.1 and torch to list, trace or compile; nothing but the standard library to import; no GPU
Gives   `cases()`: each kernel with the targets that it compiles for; `trace_of` the trace as Wave's barrier pass gets
        and leaves it; `assembly_of` the AMDGCN text
Keeps   a case compiles for every target that it lists: what does not is an error, never left out; Wave's own modules
        are as before after each call
Cost    one to ten seconds for a trace, most of it Wave's expansion and its MLIR; as much again for the assembly

    python -m oracles.wave_kernels --only gemm-prefetch-2 --target gfx950 --assembly
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("gfx942", "gfx950", "gfx1201", "gfx1250")

MODULES = (
    "gemm",
    "gemm_async",
    "gemm_shapes",
    "mxfp4",
    "pingpong",
    "manual",
    "attention",
    "attention_layouts",
    "decode",
    "extend",
    "topk",
    "control_flow",
    "atomics",
    "single_wave",
)

Arrays = dict[str, np.ndarray]
STEPS = "steps.json"  # beside the assembly: what the trace does, step by step


@dataclass(frozen=True, slots=True)
class Build:
    """What `wave_compile` takes; made anew for each compilation, because Wave writes into all three."""

    kernel: Any  # LaunchableWave
    options: Any  # WaveCompileOptions
    schedule: Any = None  # WaveSchedule, where the schedule is written by hand


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with its sizes and options."""

    name: str
    kernel: str  # the family: "gemm"
    targets: tuple[str, ...]  # where it compiles
    make: Callable[[str], Build]  # target → what to compile
    reference: Callable[[Arrays], Arrays] | None = None  # inputs → outputs in float64, by the kernel's own names


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace after Wave's barrier pass, with what that pass could see."""

    trace: Any  # CapturedTrace
    constraints: list[Any]
    options: Any
    mlir: str
    seconds: float  # that Wave's barrier pass took


@dataclass(frozen=True, slots=True)
class Assembled:
    """The assembly of a kernel, and the steps of its trace after the barrier pass (see `stepping`)."""

    text: str
    steps: list[dict[str, Any]]
    why_not: str = ""  # why it has Wave's own barriers though Tidegate's were wanted
    verdict: str = ""  # of Tidegate's check of the trace: proved, suspects, undecided; a reason behind a colon


Hook = Callable[[Any, list[Any], Any], None]  # trace, constraints, options


@cache
def cases() -> tuple[Case, ...]:
    """All kernels, in the order of the modules and of their lines."""
    return tuple(case for name in MODULES for case in import_module(f"{__name__}.{name}").CASES)


def trace_of(case: Case, target: str, before: Hook | None = None, after: Hook | None = None) -> Traced:
    """Runs Wave's own passes up to MLIR.

    `before` and `after` are called around the barrier pass, with Wave's indexing context open. There is one trace,
    which the pass changes: what `before` wants to keep it copies.
    """
    build = case.make(target)
    build = replace(build, options=replace(build.options, compile_to_mlir=True))
    return trace_build(build, before, after)


def trace_build(build: Build, before: Hook | None = None, after: Hook | None = None) -> Traced:
    """`trace_of` for a kernel that is no case."""
    from wave_lang.kernel.wave.compile import wave_compile

    seen: list[tuple[Any, float]] = []

    def watch(run: Callable[..., None], trace: Any, *rest: Any, **named: Any) -> None:
        if before:
            before(trace, build.kernel.constraints, build.options)
        start = time.perf_counter()
        run(trace, *rest, **named)
        seen.append((trace, time.perf_counter() - start))
        if after:
            after(trace, build.kernel.constraints, build.options)

    with barrier_pass_watched(watch):
        compiled = wave_compile(build.options, build.kernel, build.schedule)
    trace, seconds = seen[0]
    return Traced(trace, build.kernel.constraints, build.options, compiled.asm, seconds)


@contextmanager
def barrier_pass_watched(watch: Callable[..., None]) -> Iterator[None]:
    """While open, `watch(pass, *arguments)` stands where Wave's list of passes looks its barrier pass up."""
    wave = import_module("wave_lang.kernel.wave.wave")  # the package's own `wave` is the decorator
    own = wave.add_shared_memory_barriers
    wave.add_shared_memory_barriers = functools.wraps(own)(functools.partial(watch, own))
    try:
        yield
    finally:
        wave.add_shared_memory_barriers = own


def assembly_of(case: Case, target: str, tidegate: dict[str, Any] | None = None) -> str:
    """The AMDGCN assembly, made by another process: what crashes there is a `RuntimeError` here.

    `tidegate`: options of `tidegate.wave.enabled`, whose barriers are then compiled; None keeps Wave's own.
    """
    return assembled(case, target, tidegate).text


def assembled(case: Case, target: str, tidegate: dict[str, Any] | None = None) -> Assembled:
    """`assembly_of`, with the steps of the trace that it was made of."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", f"{__name__}.assembling", case.name, target, folder]
        command += [] if tidegate is None else [json.dumps(tidegate)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        files = sorted(Path(folder).rglob("*.rocmasm"))
        if done.returncode or not files:
            raise RuntimeError(first_error(done.stderr) or f"exit status {done.returncode}, no assembly")
        told = json.loads((Path(folder) / STEPS).read_text(encoding="utf-8"))
        return Assembled(files[0].read_text(encoding="utf-8"), **told)


def first_error(text: str) -> str:
    """The first line that says what went wrong, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if " error: " in line]
    named = named or [line for line in lines if "rror:" in line or "LLVM ERROR" in line or "Assertion" in line]
    return (named or lines[-1:] or [""])[0][:300]
