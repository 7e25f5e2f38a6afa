"""`tidegate schedule`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.bars import progress_bar
from tidegate.cli.complete import complete_schedule_strategy
from tidegate.cli.options import FileArg, JsonOption, OutOption, TargetOption
from tidegate.cli.say import emit_json, say, say_program, say_table, stop, write
from tidegate.diag import visible

if TYPE_CHECKING:
    from tidegate.assumptions import Assumption
    from tidegate.pingpong import Candidate, Scheduled
    from tidegate.session import Session
    from tidegate.targets import Target

JSON_VERSION = 1


def schedule_command(
    file: FileArg,
    target: TargetOption = None,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="`auto`: the cheapest legal order, by the cost model. `none`: the order as written. "
            "`two-pp-cluster`: two clusters, for loops that write fetched tiles to LDS. `async-two-pp-cluster`: the "
            "same for loops with asynchronous copies. `clusters=K`: K clusters of memory and matrix work, for any "
            "loop; `clusters`: the cheapest number of them.",
            autocompletion=complete_schedule_strategy,
        ),
    ] = "auto",
    output: OutOption = None,
    as_json: JsonOption = False,
    prefetch: Annotated[
        bool, typer.Option("--prefetch", help="First make a plain loop prefetch its tiles one iteration ahead.")
    ] = False,
    stagger: Annotated[
        int, typer.Option(metavar="S", help="Delay the high half of the waves by S arrivals: 1 or 2.")
    ] = 1,
) -> None:
    """Reorder the loop of a kernel so that two halves of its waves take turns at memory and matrix work.

    Barriers and waits that are not pinned are placed again for the stagger, and the result is proved. The kernel goes
    to the output, or to OUT; the cost of each legal strategy goes to the error stream, or to the output if there is an
    OUT. If a strategy does not fit, nothing is written and the reason is printed.

    Exit status: 0 scheduled (`auto` may keep the order), 1 declined, 2 bad input.

    Examples: `tidegate schedule gemm.tide`, `tidegate schedule gemm.tide --prefetch --strategy two-pp-cluster -o
    pingpong.tide`, `tidegate schedule attention.py::attention --strategy clusters=2 --target gfx950`
    """
    from tidegate.diag import BadInput, findings_to_json

    try:
        unit, found = _schedule(file, target, strategy, output, prefetch, stagger, quiet=as_json)
    except BadInput as bad:
        if not as_json:
            raise
        emit_json(findings_to_json(list(bad.findings), file=file))
        raise typer.Exit(2) from None
    text = found.chosen.text if found.chosen is not None else None
    if text is not None and output is not None:
        write(output, text)
    if as_json:
        emit_json(_to_json(file, unit, found, output))
    else:
        if text is not None and output is None:
            say_program(text)
        _report(unit, found, output, err=text is not None and output is None)
    raise typer.Exit(0 if found.chosen is not None else 1)


def _schedule(
    file: str, target: str | None, strategy: str, output: Path | None, prefetch: bool, stagger: int, *, quiet: bool
) -> tuple[Session, Scheduled]:
    from tidegate.files import load
    from tidegate.pingpong import schedule_kernel
    from tidegate.session import sessions_of

    loaded = load(file)
    if loaded.graph is not None or loaded.ttgir is not None:
        what = "a graph" if loaded.graph is not None else "TTGIR"
        stop(f"{what} cannot be scheduled: the operations of its loops are not known", "give a kernel")
    units = sessions_of(loaded, target)
    if len(units) > 1:
        names = ", ".join(f"`{file}::{each.name}`" for each in units[:3])
        stop(f"`{file}` holds {len(units)} kernels", f"pick one: {names}")
    if output is not None and output.suffix.lower() in (".py", ".sync"):
        stop(f"`{output}` would hold `.tide` text", "name a `.tide` file")
    (unit,) = units
    assert unit.kernel is not None
    with progress_bar(f"scheduling @{unit.name}", quiet=quiet) as progress:
        found = schedule_kernel(
            unit.kernel, unit.target, strategy, pipeline=prefetch, stagger=stagger, progress=progress
        )
    return unit, found


def _report(unit: Session, found: Scheduled, output: Path | None, *, err: bool) -> None:
    title = f"@{unit.name} on {unit.target.name or 'the empty target'}, {found.asked}"
    if found.chosen is None:
        say(f"{title}: declined", err=err)
    elif found.asked == "auto":
        say(f"{title}: {found.chosen.strategy} is the cheapest by the cost model", err=err)
    else:
        say(f"{title}: {'order as written' if found.asked == 'none' else 'scheduled'}", err=err)
    if found.candidates:
        say_table(_rows(found), indent=2, err=err)
    for line in _remarks(found, unit.target, output):
        say(f"  {line}", err=err)


def _remarks(found: Scheduled, target: Target, output: Path | None) -> list[str]:
    """Why others are declined, what is proved of the chosen one, what that assumes, and where it lies."""
    from tidegate.assumptions import show_assumptions

    lines = []
    for said in dict.fromkeys(declined for _, declined in found.refused):
        names = [name for name, declined in found.refused if declined == said]
        lines.append(f"{', '.join(names)}: {said}")
    if found.chosen is not None:
        lines += found.chosen.notes
        if not found.chosen.notes:
            waves = f"{found.chosen.kernel.waves} waves in any order"
            lines.append(f"proved: no race, inversion or hang, for all sizes and trip counts, {waves}")
        lines += filter(None, [show_assumptions(_assumed(found.chosen, target))])
    if found.uncertain:
        shown = "; ".join(found.uncertain[:3]) + (f"; and {len(found.uncertain) - 3} more" * (len(found.uncertain) > 3))
        lines.append(f"uncertain: another strategy would be cheaper with {shown}")
    if found.chosen is not None and output is not None:
        lines.append(f"written to {visible(str(output))}")
    return lines


def _assumed(found: Candidate, target: Target) -> tuple[Assumption, ...]:
    from tidegate.assumptions import find_assumptions

    return find_assumptions(found.graph, target, kernel=found.kernel)


def _rows(found: Scheduled) -> list[list[str]]:
    rows = [["strategy", "cycles an iteration", "matrix units busy", "barriers", "slack"]]
    for each in found.candidates:
        price = each.price
        mark = each.strategy + (" *" if each is found.chosen and len(found.candidates) > 1 else "")
        cells = ["not known", "", "", ""]
        if price is not None:
            cells = [f"{price.cycles:,.0f}", f"{100 * price.busy:.0f} %", str(price.barriers), f"{price.slack:,.0f}"]
        rows.append([mark, *cells])
    return rows


def _to_json(file: str, unit: Session, found: Scheduled, output: Path | None) -> dict[str, object]:
    from tidegate.assumptions import assumptions_to_json

    return {
        "version": JSON_VERSION,
        "file": file,
        "kernel": unit.name,
        "target": unit.target.name,
        "asked": found.asked,
        "chosen": found.chosen.strategy if found.chosen is not None else None,
        "strategies": [
            {
                "strategy": each.strategy,
                "cycles": each.price.cycles if each.price else None,
                "busy": each.price.busy if each.price else None,
                "barriers": each.price.barriers if each.price else None,
                "slack": each.price.slack if each.price else None,
                "proved": not each.notes,
                "assumptions": assumptions_to_json(_assumed(each, unit.target)),
            }
            for each in found.candidates
        ],
        "declined": [
            {
                "strategy": name,
                "reason": each.reason,
                "says": each.says,
                "fits": each.fits,
                "line": each.at.line or None,
            }
            for name, each in found.refused
        ],
        "uncertain": list(found.uncertain),
        "output": str(output) if output is not None else None,
        "text": found.chosen.text if found.chosen is not None else None,
    }
