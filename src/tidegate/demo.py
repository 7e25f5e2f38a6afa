"""`tidegate demo`: one kernel without a barrier, raced, synchronized for two GPUs, proved, run, scheduled, drawn.

Needs   nothing but Tidegate; the kernel and the GPUs are in `demo.toml`
Gives   what there is to say, to whoever tells it, and a page; whether every step went as told
Keeps   every number was just computed; a step that does not go as told ends the demo
Cost    some ten seconds
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from tidegate.decided import show_decided
from tidegate.diag import BadInput, Finding, Sources, sort_findings
from tidegate.disk import reason_of
from tidegate.files import load_text
from tidegate.graph.barriers import tally
from tidegate.graph.build import build_graph
from tidegate.language.ops import Kernel
from tidegate.passes import Checked, check_session
from tidegate.pingpong import Scheduled, schedule_kernel
from tidegate.report.build import Asked, build_report
from tidegate.report.headline import cost_of_iteration
from tidegate.session import Session
from tidegate.simulate.cycles import estimate
from tidegate.synchronize import Synchronized, synchronize, write_programs
from tidegate.targets import Target, load_target

FILE = "gemm.tide"
STRATEGY = "two-pp-cluster"
RUNS = 10
CLOSE = 1e-3


class Teller(Protocol):
    """Who tells it: the command line, on a terminal or into a pipe."""

    def say(self, text: str) -> None: ...

    def program(self, text: str, before: str = "") -> None: ...

    def findings(self, findings: Sequence[Finding], sources: Sources) -> None: ...

    def table(self, rows: Sequence[Sequence[str]]) -> None: ...


@dataclass(slots=True)
class _Demo:
    """The demo on its way. `rows` are those of the table at its end."""

    tell: Teller
    output: Path
    text: str
    targets: tuple[Target, ...]
    sizes: dict[str, int]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def kernel(self) -> Kernel:
        return load_text(self.text, FILE).kernels[0]

    @property
    def sources(self) -> Sources:
        return Sources({FILE: self.text})


def run_demo(tell: Teller, output: Path) -> int:
    """The steps in order, and the exit status; the first that fails ends it."""
    known = tomllib.loads((files("tidegate") / "demo.toml").read_text(encoding="utf-8"))
    demo = _Demo(
        tell, output, known["kernel"].lstrip(), tuple(map(load_target, known["targets"])), dict(known["sizes"])
    )
    if not os.path.isdir(output.parent):
        raise BadInput(Finding("TG022", f"`{output}` cannot be written: there is no folder `{output.parent}`"))
    if os.path.isdir(output):  # said before the work, not after it
        raise BadInput(Finding("TG022", f"`{output}` cannot be written: is a directory"))
    steps: tuple[Callable[[_Demo], bool], ...] = (_show, _race, _synchronize, _schedule, _compare, _draw)
    if all(step(demo) for step in steps):
        return 0
    tell.say("The demo failed: this is an internal error.")
    return 3


def _show(demo: _Demo) -> bool:
    demo.tell.say("1. A matrix product by eight waves, through two slots of shared memory. It has no barriers yet.\n")
    demo.tell.program(demo.text)
    return True


def _race(demo: _Demo) -> bool:
    """What `check` says, and whether runs show it."""
    target = demo.targets[0]
    found = _check(demo.kernel, target).findings
    first = next((each for each in sort_findings(found) if each.code == "TG101"), None)
    demo.tell.say(f"\n2. `tidegate check` finds {len(found)} races, for all sizes at once. One, with its witness:\n")
    if first is None:
        return False
    demo.tell.findings([first], demo.sources)
    wrong = sum(_distance(demo.kernel, target, seed) > CLOSE for seed in range(RUNS))
    demo.tell.say(
        f"   On a simulator that delays everything {target.name} may delay, {wrong} of {RUNS} runs give wrong numbers."
    )
    demo.rows.append(_row("as it is", demo.kernel, target, f"{len(found)} races", demo.sizes))
    return wrong > 0


def _check(kernel: Kernel, target: Target) -> Checked:
    return check_session(Session(kernel.name, target, kernel, None))


def _distance(kernel: Kernel, target: Target, seed: int) -> float:
    """How far the result of a run is from NumPy's."""
    import numpy as np

    from tidegate.simulate.hostile import run_hostile
    from tidegate.simulate.inorder import make_inputs

    inputs = make_inputs(kernel, seed=seed)
    result = run_hostile(kernel, inputs, target=target, seed=seed).arrays["C"]
    expected = inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T
    return float(np.nan_to_num(np.max(np.abs(result - expected)), nan=np.inf))


def _synchronize(demo: _Demo) -> bool:
    names = " and ".join(target.name for target in demo.targets)
    demo.tell.say(f"\n3. `tidegate sync` inserts the missing barriers and waits for {names}, and proves the result.")
    return all(_synchronize_for(demo, target) for target in demo.targets)


def _synchronize_for(demo: _Demo, target: Target) -> bool:
    result = synchronize(Session(demo.kernel.name, target, demo.kernel, None))
    assert result.kernel is not None
    assert result.checked is not None
    text = write_programs([result], demo.text, FILE)
    demo.tell.say(f"\n   The loop for {target.name}; each edit states its reason:\n")
    demo.tell.program(_loop_of(text), demo.text)
    demo.tell.say("\n   " + show_decided(result.checked).replace("\n", "\n   "))
    worst = max(_distance(result.kernel, target, seed) for seed in range(RUNS))
    demo.tell.say(f"   {RUNS} runs against NumPy: largest difference {worst:.2g}.")
    demo.rows.append(_row("synchronized", result.kernel, target, _verdict(result), demo.sizes))
    return result.checked.is_proved and worst < CLOSE


def _loop_of(text: str) -> str:
    lines = text.splitlines(keepends=True)
    start = next(number for number, line in enumerate(lines) if "iterate" in line)
    end = next(number for number, line in enumerate(lines) if line.startswith("  }"))
    return "".join(lines[start : end + 1])


def _verdict(result: Synchronized) -> str:
    return "proved" if result.checked is not None and result.checked.is_proved else "not proved"


def _schedule(demo: _Demo) -> bool:
    """Ping-pong: the loop fetches a tile ahead, as it has to."""
    target = demo.targets[0]
    made: Scheduled = schedule_kernel(demo.kernel, target, STRATEGY, certain=False)
    demo.tell.say(
        "\n4. `tidegate schedule` makes two halves of the waves take turns: one moves data, the other multiplies."
    )
    if made.chosen is None:
        return False
    checked = _check(made.chosen.kernel, target)
    worst = _distance(made.chosen.kernel, target, 0)
    demo.tell.say("\n   " + show_decided(checked).replace("\n", "\n   "))
    demo.tell.say(f"   A run against NumPy: largest difference {worst:.2g}.")
    verdict = "proved" if checked.is_proved else "not proved"
    demo.rows.append(_row("ping-pong", made.chosen.kernel, target, verdict, demo.sizes))
    return checked.is_proved and worst < CLOSE


def _row(what: str, kernel: Kernel, target: Target, verdict: str, sizes: dict[str, int]) -> tuple[str, ...]:
    """What it has in one iteration of its loop, and what the cost model says that takes."""
    graph = build_graph(kernel, target).graph
    known: dict[str, Any] = {each.name: sizes.get(each.name, each.default) for each in graph.sizes}
    cycles, busy = cost_of_iteration(graph, target, estimate(graph, target, sizes=known, cached=True, record=True))
    return what, target.name, str(tally(graph).in_loops), f"{cycles:,.0f}", f"{busy * 100:.0f} %", verdict


def _compare(demo: _Demo) -> bool:
    demo.tell.say(
        "\n5. Before and after, estimated by the cost model with global memory in the cache (not measured):\n"
    )
    head = ("kernel", "GPU", "barriers an iteration", "cycles an iteration", "matrix units busy", "verdict")
    demo.tell.table([head, *demo.rows])
    return True


def _draw(demo: _Demo) -> bool:
    """A page with all three versions for the first GPU."""
    target = demo.targets[0]
    unit = Session(demo.kernel.name, target, demo.kernel, None)
    report = build_report(unit, demo.sources, Asked(demo.sizes, cached=True, strategy=STRATEGY))
    try:
        report.save(demo.output)
    except OSError as error:
        raise BadInput(Finding("TG022", f"`{demo.output}` cannot be written: {reason_of(error)}")) from None
    demo.tell.say(
        f"\n6. All versions for {target.name} on one page, with arcs, timelines and every reason: {demo.output}"
    )
    demo.tell.say("   For your own kernel: `tidegate draw FILE -o out.html`. To learn more: docs/tutorial.md.")
    verdicts = [each["verdict"]["kind"] for each in report.data["programs"]]
    return verdicts == ["wrong", "proved", "proved"]
