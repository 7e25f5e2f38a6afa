"""The functions of `import tidegate` that take a kernel in whatever form a user holds it.

Needs   a traced function, a `CapturedTrace` or a `Kernel`
Gives   findings, results of a run, a graph, the kernel with its synchronization
Keeps   the target is the one asked for, else the kernel's own, else the default
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.diag import BadInput, Findings
from tidegate.graph.build import KernelGraph
from tidegate.graph.build import build_graph as _build_graph
from tidegate.graph.model import SyncGraph
from tidegate.language.ops import Kernel
from tidegate.language.trace import CapturedTrace, KernelFunction
from tidegate.passes import check_session
from tidegate.session import Session, pick_target

if TYPE_CHECKING:
    import numpy as np

    from tidegate.explanation import Explained
    from tidegate.report.build import Report
    from tidegate.simulate.hostile import HostileRun
    from tidegate.simulate.judge import Judgement, Limits
    from tidegate.synchronize import Synchronized
    from tidegate.verify.model import Verification

KernelLike = Kernel | CapturedTrace | KernelFunction


def kernel_of(item: KernelLike) -> Kernel:
    """The kernel itself."""
    if isinstance(item, KernelFunction):
        item = item.trace()
    found = item.kernel if isinstance(item, CapturedTrace) else item
    if not isinstance(found, Kernel):
        raise TypeError(
            f"`{type(item).__name__}` is not a kernel: give a function with `@tidegate.kernel`, or its trace"
        )
    return found


def check(kernel: KernelLike, target: str | None = None, *, advice: bool = False) -> Findings:
    """What is wrong with a kernel on a target: all that `tidegate check` finds, races and hangs included.

    No findings are no proof: `is_proved` and `verdict` of the list say what was decided. With `advice`, also what could
    be less in a kernel with which nothing is wrong: findings that are warnings.
    """
    from tidegate.decided import verdict_on

    checked = check_session(_session(kernel_of(kernel), target))
    if not advice:
        return verdict_on(checked)
    from tidegate.advice import advise

    return verdict_on(checked, advise(checked).findings)


def judge(program: KernelLike | SyncGraph, target: str | None = None, limits: Limits | None = None) -> Judgement:
    """Runs a kernel or a graph on the hostile machine in every way that matters: findings, and what was covered."""
    from tidegate.simulate.judge import judge as judge_graph

    session = _session(program, target)
    return judge_graph(session.graph, session.target, limits)


def prove(program: KernelLike | SyncGraph, target: str | None = None) -> Verification:
    """Are all accesses in order, for all sizes, trip counts and orders of the waves? Nothing is run."""
    from tidegate.verify.verify import verify

    session = _session(program, target)
    return verify(session.graph, session.target)


def sync(
    program: KernelLike | SyncGraph,
    target: str | None = None,
    strategy: str = "",
    *,
    atomics: str = "commute",
    stagger: int = 0,
    remove_redundant: bool = False,
    tighten_waits: bool = False,
    merge_waits: str = "model",
    async_deps: bool = False,
    force_barriers: bool = False,
    bisect: int | None = None,
    judge: bool = True,
    time_limit: float = 20.0,
    limits: Limits | None = None,
) -> Synchronized:
    """Puts in the barriers and waits that a kernel or a graph needs, and judges what came of it.

    Gives `.kernel` (for a graph `.after`), `.text` with a reason beside each edit, `.plan`, `.placed` with hazards and
    weight, and `.checked` with what the judge says. The program itself is not changed. Raises `BadInput` for what has
    no meaning, or if the target does not have what the program uses.
    """
    from tidegate.synchronize import SyncOptions, synchronize

    options = SyncOptions(
        strategy,
        atomics,
        stagger,
        remove_redundant,
        tighten_waits,
        merge_waits,
        async_deps,
        force_barriers,
        bisect,
        judge,
        time_limit,
    )
    result = synchronize(_session(program, target), options, limits=limits)
    if result.made is None:
        raise BadInput(*result.findings)
    return result


def explain(
    program: KernelLike | SyncGraph, target: str | None = None, *, atomics: str = "commute", stagger: int = 0
) -> Explained:
    """Says why the synchronization of a kernel or a graph stands as it does, and why there is no more of it.

    Gives `.barriers` with the hazards that each serves and what was tried with it, `.pairs` that need no barrier of
    their own, `.findings` of the program as it is, and `.text`. Raises `BadInput` for what has no meaning.
    """
    from tidegate.explanation import explain as explain_unit

    result = explain_unit(_session(program, target), atomics=atomics, stagger=stagger)
    if result.graph is None:
        raise BadInput(*result.findings)
    return result


def draw(
    program: KernelLike | SyncGraph,
    target: str | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    strategy: str = "",
    prefetch: bool = False,
) -> Report:
    """A page about a kernel or a graph: its hazards, barriers, findings, timelines, and how barriers are placed.

    Gives `.html` and `.save(path)`; a notebook shows it. With a `strategy` of `schedule_kernel`, ping-pong too. Raises
    `BadInput` for what has no meaning, `NotScheduled` if there is no ping-pong.
    """
    from tidegate.diag import Sources
    from tidegate.report.build import Asked, build_report

    unit = _session(program, target)
    sources = Sources()
    if unit.kernel is not None and not sources.line(unit.kernel.at):  # from no file: it gets lines of its own text
        from tidegate.files import load_text
        from tidegate.language.ops import Module
        from tidegate.language.show import show

        loaded = load_text(show(Module((unit.kernel,))), f"{unit.name}.tide")
        unit, sources = Session(unit.name, unit.target, loaded.kernels[0], None), loaded.sources
    return build_report(unit, sources, Asked(sizes or {}, strategy=strategy, prefetch=prefetch))


def _session(program: KernelLike | SyncGraph, target: str | None) -> Session:
    if isinstance(program, SyncGraph):
        return Session(program.name, pick_target(program.target, target), None, program)
    kernel = kernel_of(program)
    return Session(kernel.name, pick_target(kernel.target, target), kernel)


def build_graph(kernel: KernelLike, target: str | None = None) -> KernelGraph:
    """The kernel's `SyncGraph`, and where in the kernel each of its points stands."""
    found = kernel_of(kernel)
    return _build_graph(found, pick_target(found.target, target))


def make_inputs(kernel: KernelLike, sizes: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, Any]:
    """Random arguments that fit a kernel, by name."""
    from tidegate.simulate.inorder import make_inputs as make

    return dict(make(kernel_of(kernel), sizes, seed))


def run(
    kernel: KernelLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    waves: int | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray[Any, Any]]:
    """Runs a kernel on this computer, in order; gives all its global arrays. Without inputs it makes random ones.

    Every access is performed at once, so that races do not show: `run_hostile` is for them.
    """
    from tidegate.simulate.inorder import run as run_in_order

    found = kernel_of(kernel)
    given = make_inputs(found, sizes, seed) if inputs is None else inputs
    lanes = pick_target(found.target, None).lanes or 64
    return run_in_order(found, given, sizes=sizes, waves=waves, lanes=lanes)


def run_hostile(
    kernel: KernelLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    waves: int | None = None,
    seed: int = 0,
) -> HostileRun:
    """Runs a kernel on a machine that is as unkind as its target allows; without inputs it makes random ones.

    Gives the `arrays` after the run, `findings()` about races, wrong orders and a hang, and `statistics`. The seed
    decides inputs and schedule.
    """
    from tidegate.simulate.hostile import run_hostile as run_on

    found = kernel_of(kernel)
    given = make_inputs(found, sizes, seed) if inputs is None else inputs
    return run_on(found, given, target=pick_target(found.target, target), sizes=sizes, waves=waves, seed=seed)
