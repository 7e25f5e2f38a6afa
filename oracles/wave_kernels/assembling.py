"""`python -m oracles.wave_kernels.assembling NAME TARGET DIR [OPTIONS]`: one kernel's assembly, as DIR/*.rocmasm.

Beside it stands DIR/steps.json: what the trace does to memory and how it synchronizes, after the barrier pass, and what
Tidegate's check says of it. OPTIONS
are those of `tidegate.wave.enabled` as JSON; without them barriers are Wave's own. A module of its own, so that a crash
of the compiler ends this process and no other.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from oracles.wave_kernels import STEPS, Case, cases, trace_of
from oracles.wave_kernels.stepping import steps_of


def main() -> int:
    name, target, folder, *rest = sys.argv[1:]
    case = next(each for each in cases() if each.name == name)
    write_assembly(case, target, Path(folder), json.loads(rest[0]) if rest else None)
    return 0


def write_assembly(case: Case, target: str, folder: Path, tidegate: dict[str, Any] | None = None) -> None:
    """Lets IREE compile the MLIR of a kernel and leave what it makes on the way."""
    from wave_lang.kernel.wave.utils.compile_utils import compile_to_vmfb

    told: dict[str, Any] = {}

    def look(trace: Any, constraints: list[Any], options: Any) -> None:
        told.update(steps=steps_of(trace), verdict=verdict_on(trace, target, constraints, options))

    with barriers_of(tidegate) as why_not:
        traced = trace_of(case, target, after=look)
    (folder / STEPS).write_text(json.dumps({**told, "why_not": "; ".join(why_not)}), encoding="utf-8")
    options = replace(traced.options, dump_intermediates=str(folder), create_vmfb_file=str(folder / "kernel.vmfb"))
    Path(options.create_vmfb_file).write_bytes(compile_to_vmfb(traced.mlir, options))


def verdict_on(trace: Any, target: str, constraints: list[Any], options: Any) -> str:
    """`proved`, `suspects` or `undecided`, with the first reason behind a colon."""
    from tidegate.diag import BadInput
    from tidegate.wave import check

    try:
        found = check(trace, target, constraints=constraints, sizes=options.subs)
    except BadInput as bad:
        return f"undecided: {bad.findings[0].message}"
    if found:
        return "proved"
    errors = [each for each in found if each.severity == "error"]
    return f"suspects: {errors[0].code} {errors[0].message}" if errors else f"undecided: {found.verdict}"


@contextmanager
def barriers_of(tidegate: dict[str, Any] | None) -> Iterator[list[str]]:
    """Tidegate's barriers where options are given; gives why a kernel keeps Wave's own all the same."""
    why_not: list[str] = []
    if tidegate is None:
        yield why_not
        return
    import tidegate.wave as dropin

    with warnings.catch_warnings(), dropin.enabled(**tidegate):
        warnings.simplefilter("ignore", dropin.FallbackWarning)
        yield why_not
    why_not += [each.placement.why_not for each in dropin.report().entries if each.placement.why_not]


if __name__ == "__main__":
    sys.exit(main())
