"""Wave kernels in ping-pong: what Wave's strategies and Tidegate's make of them: `python -m bench.wave_schedule`.

Needs   wave-lang and torch; no GPU
Gives   a row for each kernel and target: cycles of an iteration by the cost model, as it is, by Wave and as `auto`
        chooses, each with Tidegate's barriers, and the barriers of an iteration; why a strategy was declined
Keeps   every kernel goes on to MLIR in the order that was chosen; one that does not is a row that says so
Cost    a few seconds for each kernel and target, most of it Wave's compilation

    python -m bench.wave_schedule --only pingpong --target gfx942 --why
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from oracles.wave_kernels import TARGETS, Case, cases, first_error, trace_of

FAMILIES = ("pingpong", "pingpong-async")
NAMES = ("attention-pingpong", "gemm-prefetch", "gemm-none", "manual-stagger", "mxfp4-prefetch", "mxfp4-pingpong")
HEAD = "| kernel | target | Wave's strategy | `auto` takes | cycles as it is, by Wave, by `auto` | barriers |"

Pass = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one kernel; `Reordered` by Wave's strategy alone, and as `auto` chooses."""

    name: str
    target: str
    before: Any = None  # the price as it is
    by_wave: Any = None
    chosen: Any = None
    error: str = ""


def more_cases() -> tuple[Case, ...]:
    """Tiles and schedules that Wave's strategies do not take."""
    from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType

    from oracles.wave_kernels.building import GATHERING, case
    from oracles.wave_kernels.gemm import build_gemm, reference

    plans: tuple[tuple[str, tuple[int, int, int], tuple[int, int], str, dict[str, object]], ...] = (
        ("prefetch-256x128x32", (256, 128, 32), (4, 2), "PREFETCH", {}),
        ("prefetch-64x128x64", (64, 128, 64), (2, 4), "PREFETCH", {}),
        ("prefetch-2-128x192x32", (128, 192, 32), (4, 2), "PREFETCH", {"multi_buffer_count": 2}),
        ("modulo-128x128x32", (128, 128, 32), (4, 2), "MODULO", {}),
        ("four-stage-128x128x64", (128, 128, 64), (4, 2), "FOUR_STAGE", {}),
        ("none-128x128x64", (128, 128, 64), (4, 2), "NONE", {}),
        (
            "async-2-64x128x64",
            (64, 128, 64),
            (2, 4),
            "PREFETCH",
            {"use_global_to_shared": True, "multi_buffer_count": 2},
        ),
    )
    return tuple(
        case(
            f"eight-{name}",
            "eight",
            functools.partial(build_gemm, tile=tile, waves=waves, schedule=SchedulingType[kind], **more),
            targets=GATHERING if more.get("use_global_to_shared") else TARGETS,
            reference=reference,
        )
        for name, tile, waves, kind, more in plans
    )


@contextmanager
def schedule_pass_watched(watch: Pass) -> Iterator[None]:
    """While open, `watch(pass, *arguments)` stands where Wave's list of passes looks its reordering up."""
    wave = import_module("wave_lang.kernel.wave.wave")  # the package's own `wave` is the decorator
    own = wave.schedule_reordering
    wave.schedule_reordering = functools.wraps(own)(functools.partial(watch, own))
    try:
        yield
    finally:
        wave.schedule_reordering = own


def look_at(case: Case, target: str) -> Row:
    """One kernel: Wave's strategy is tried and taken back, then the best is taken."""
    from tidegate.hosts.wave.context import context_of
    from tidegate.hosts.wave.dropin.schedule import schedule_reordering
    from tidegate.hosts.wave.dropin.schedule_kept import keep
    from tidegate.hosts.wave.dropin.schedule_price import price
    from tidegate.targets import load_target

    found: list[Row] = []

    def watch(_own: Pass, trace: Any, *rest: Any) -> None:
        kept = keep(trace)
        before = price(trace, context_of(rest[0]), load_target(target))
        by_wave = schedule_reordering(trace, *rest, target=target, strategy="wave")
        kept.put_back()
        found.append(Row(case.name, target, before, by_wave, schedule_reordering(trace, *rest, target=target)))

    said = io.StringIO()  # Wave prints a trace that it fails on
    try:
        with schedule_pass_watched(watch), contextlib.redirect_stdout(said):
            trace_of(case, target)
    except Exception as error:
        return Row(case.name, target, error=first_error(f"{type(error).__name__}: {error}"))
    return found[0] if found else Row(case.name, target, error="Wave does not come to its reordering")


def line_of(row: Row) -> str:
    if row.error:
        return f"| {row.name} | {row.target} | {row.error} |"
    wave, chosen = row.by_wave, row.chosen
    name = wave.by_wave or "–"
    if wave.by_wave and wave.strategy == "none":
        name = f"{wave.by_wave}, declined"
    by_wave = wave.cycles_after if wave.strategy != "none" else None
    taken = chosen.strategy != "none"
    three = (row.before.cycles, by_wave, chosen.cycles_after if taken else None)
    cycles = ", ".join("–" if each is None else f"{each:.0f}" for each in three)
    barriers = f"{row.before.barriers} → {chosen.barriers[1]}" if taken else f"{row.before.barriers}"
    return f"| {row.name} | {row.target} | {name} | {chosen.strategy} | {cycles} | {barriers} |"


def main() -> int:
    arguments = read_arguments()
    os.environ["WAVE_CACHE_ON"] = "0"
    every = (*(each for each in cases() if each.kernel in FAMILIES or each.name in NAMES), *more_cases())
    chosen = [each for each in every if arguments.only in (None, each.name, each.kernel)]
    if not chosen:
        print(f"no kernel is named {arguments.only}", file=sys.stderr)
        return 2
    failed = 0
    print(f"{HEAD}\n|---|---|---|---|---|---|")
    for case in chosen:
        for target in case.targets:
            if arguments.target in (None, target):
                row = look_at(case, target)
                failed += bool(row.error)
                print(line_of(row), flush=True)
                if arguments.why and row.chosen:
                    for name, why in dict((*row.by_wave.why_not, *row.chosen.why_not)).items():
                        print(f"    not {name}: {why}", flush=True)
    return 1 if failed else 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.wave_schedule", description=__doc__)
    parser.add_argument("--only", help="a kernel, or all of a family")
    parser.add_argument("--target", choices=TARGETS, help="one target")
    parser.add_argument("--why", action="store_true", help="say why strategies were not taken")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
