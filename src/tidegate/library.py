"""The verbs of `import tidegate`: `verb(program, target=None, *, options)`.

Needs   a program in any of the forms of `programs.py`
Gives   a result that is true only if it is right, shows itself, and holds its parts
Keeps   the target is the one asked for, else the program's own, else the default. What the user got wrong is a
        `TidegateError`. No program is changed, except a trace of Wave by `sync` and `schedule`
Cost    that of the stages; nothing is imported before it is used
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.diag import BadInput, Findings, Sources
from tidegate.files import FINAL, PTX
from tidegate.graph.build import KernelGraph
from tidegate.graph.build import build_graph as _build_graph
from tidegate.graph.model import SyncGraph
from tidegate.passes import NOT_THERE, check_session
from tidegate.programs import KernelLike, Opened, Program, kernel_of, open_program, refuse, trace_of
from tidegate.results import Arrays, CheckResult, RunResult, compare
from tidegate.session import Session, pick_target
from tidegate.targets import Target

if TYPE_CHECKING:
    from tidegate.comparison import Against
    from tidegate.explanation import Explained
    from tidegate.hosts.cuda.options import CudaOptions
    from tidegate.language.ops import Kernel
    from tidegate.pingpong import Scheduled
    from tidegate.report.build import Report
    from tidegate.simulate.hostile import HostileRun
    from tidegate.simulate.judge import Judgement, Limits
    from tidegate.synchronize import Synchronized
    from tidegate.verify.model import Verification

# A reference is close enough within so much, relative and absolute, unless its file says otherwise.
TOLERANCE = (1e-5, 1e-5)


def check(
    program: Program,
    target: str | Target | None = None,
    *,
    prove: bool = True,
    simulate: bool = True,
    advice: bool = False,
    limits: Limits | None = None,
    block: str | None = None,
    cuda: CudaOptions | None = None,
    allow: Iterable[str] = (),
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> CheckResult:
    """Finds what is wrong with a program, races and hangs included. The result is true if the program is proved.

    What the verifier does not prove is simulated. `simulate=False` only proves, `prove=False` only simulates, which
    proves nothing. `advice=True` also reports, of a program without errors, which synchronization could go or be
    weaker. `limits` bounds the simulation. `block` is the shape of the blocks of a PTX or CUDA kernel, `cuda` says
    how CUDA is compiled. `allow=["TG109"]` turns that finding down to a note. `constraints` and `subs` (Wave's
    `options.subs`) belong to a Wave trace that was not compiled under `tidegate.wave.traces()`.
    """
    from tidegate.decided import verdict_on

    if not (prove or simulate):
        refuse("nothing is left to decide it", "leave out `prove=False` or `simulate=False`")
    opened = open_program(
        program, target, takes=FINAL, block=block, cuda=cuda, constraints=constraints, subs=subs, allow=allow
    )
    checked = check_session(opened.session, limits, prove=prove, simulate=simulate)
    if opened.wave is not None:
        from tidegate.hosts.wave.dropin.checking import told_apart

        checked.findings = told_apart(opened.wave, checked.findings)
    more = []
    if advice:
        from tidegate.advice import advise

        more = [*advise(checked, limits).findings]
        if opened.session.origin is not None:
            more = [*map(opened.session.origin.with_sources, more)]
    return CheckResult(opened.session.name, verdict_on(checked, more), checked, opened.sources)


def against(
    assembly: str | os.PathLike[str],
    program: Program,
    target: str | Target | None = None,
    *,
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> Against:
    """What a compiler has made of the barriers of a program: added, moved, dropped.

    `assembly`: the path of a `.s` or `.amdgcn` file. `program`: what it was made of, for instance the path of a
    `.ttgir`, or a trace of Wave with its barriers. Without a target it is that of the assembly.
    """
    from tidegate.comparison import compare_unit
    from tidegate.files import load
    from tidegate.hosts.amdgcn.program import target_of

    amdgcn = load(os.fspath(assembly), takes=FINAL).amdgcn
    if amdgcn is None:
        refuse(f"`{assembly}` is not AMD assembly", "give a `.s` or `.amdgcn` file")
    given = trace_of(program) is not None or isinstance(program, str | os.PathLike)
    chosen = target if target is not None or not given else target_of(amdgcn).name
    opened = open_program(program, chosen, constraints=constraints, subs=subs)
    return compare_unit(amdgcn.text, opened.session, [each.name for each in amdgcn.kernels])


def sync(
    program: Program,
    target: str | Target | None = None,
    *,
    strategy: str = "",
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
    block: str | None = None,
    allow: Iterable[str] = (),
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> Synchronized:
    """Inserts the barriers and waits that a program needs, and checks the result, which is true if it is proved.

    Gives `.kernel` (for a graph `.after`), `.text` with a reason beside each edit, `.plan`, `.placed` with hazards and
    weight, and `.checked` with what the judge says. The program itself is not changed, except a trace of Wave, which
    is synchronized in place, or stays as it was if the result is not proved; `.text` then lists what was inserted.
    PTX (with the `block` of its launch) keeps every byte that is no barrier or wait; `.edits` lists what is done.
    Raises `BadInput` for what has no meaning, or if the target does not have what the program uses.
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
    options.check()
    opened = open_program(
        program, target, as_compiled=False, takes=FINAL, block=block, constraints=constraints, subs=subs, allow=allow
    )
    if opened.loaded is not None and opened.loaded.ptx is not None and opened.loaded.ptx.by:
        refuse("`sync` does not rewrite CUDA source", "`tg.check(..., advice=True)` names the statements to change")
    if opened.wave is not None:
        from tidegate.hosts.wave.dropin.in_place import synchronize_in_place

        return synchronize_in_place(opened.wave, options)
    result = synchronize(opened.session, options, limits=limits, given=opened.text)
    if result.made is None:
        raise BadInput(*result.findings)
    return result


def explain(
    program: Program,
    target: str | Target | None = None,
    *,
    atomics: str = "commute",
    stagger: int = 0,
    block: str | None = None,
    cuda: CudaOptions | None = None,
    allow: Iterable[str] = (),
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> Explained:
    """Explains the synchronization of a program: what each barrier serves, and why other pairs need none.

    Gives `.barriers` with the hazards that each serves and what was tried with it, `.pairs` that need no barrier of
    their own, `.findings` of the program as it is, and `.text`. True if the program is proved. Raises `BadInput` for
    what has no meaning.
    """
    from tidegate.explanation import explain as explain_unit

    opened = open_program(
        program, target, takes=PTX, block=block, cuda=cuda, constraints=constraints, subs=subs, allow=allow
    )
    result = explain_unit(opened.session, atomics=atomics, stagger=stagger)
    if result.graph is None:
        raise BadInput(*result.findings)
    return result


def schedule(
    program: Program,
    target: str | Target | None = None,
    *,
    strategy: str = "auto",
    prefetch: bool = False,
    stagger: int = 1,
    certain: bool = True,
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> Scheduled:
    """Puts the loop of a kernel in ping-pong, synchronizes it and proves it. True if there is a proved kernel.

    `prefetch` first makes the loop fetch an iteration ahead. `certain=False` skips the check of whether the choice of
    `auto` would change with the costs. If no strategy fits, `.declined` says why. Raises `BadInput` for a strategy that
    does not exist, and for what is not a kernel.
    """
    from tidegate.pingpong import schedule_kernel

    if trace_of(program) is not None:
        help = "call `tidegate.seeds.schedule_reordering` in its place, or `tidegate.wave.install(schedule=True)`"
        refuse("the loop of a Wave trace is reordered while Wave compiles it", help)
    session = open_program(program, target, constraints=constraints, subs=subs).session
    if session.kernel is None:
        what = "TTGIR" if session.origin is not None else "a graph"
        refuse(f"{what} cannot be scheduled: the operations of its loops are not known", "give a kernel")
    return schedule_kernel(
        session.kernel, session.target, strategy, pipeline=prefetch, stagger=stagger, certain=certain
    )


def draw(
    program: Program,
    target: str | Target | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    strategy: str = "",
    prefetch: bool = False,
    cached: bool = False,
    block: str | None = None,
    cuda: CudaOptions | None = None,
    allow: Iterable[str] = (),
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> Report:
    """Draws a page about a program: its hazards, barriers, findings, timelines, and how barriers are placed.

    Gives `.html` and `.save(path)`; a notebook shows it. With a `strategy` of `schedule`, ping-pong too. True if the
    program is proved as it was given. Raises `BadInput` for what has no meaning, `NotScheduled` if there is no
    ping-pong; both are `TidegateError`s.
    """
    from tidegate.report.build import Asked, as_written, build_report

    opened = open_program(
        program, target, takes=PTX, block=block, cuda=cuda, constraints=constraints, subs=subs, allow=allow
    )
    if opened.wave is not None:
        if opened.wave.unmodelled:  # a graph alone would not tell
            refuse(f"the trace has {opened.wave.unmodelled[0]}", "`tg.check` says what holds of it")
        session = opened.session
        opened = Opened(Session(session.name, session.target, None, session.graph))
    asked = Asked(_sizes(opened.session, sizes), cached, strategy, prefetch)
    if opened.loaded is not None:
        before = as_written(opened.where, opened.loaded, opened.session)
        return build_report(opened.session, opened.sources, asked, before=before)
    unit, sources = opened.session, Sources()
    if unit.kernel is not None and not sources.line(unit.kernel.at):  # from no file: it gets lines of its own text
        from tidegate.files import load_text
        from tidegate.language.ops import Module
        from tidegate.language.show import show

        loaded = load_text(show(Module((unit.kernel,))), f"{unit.name}.tide")
        unit, sources = Session(unit.name, unit.target, loaded.kernels[0], None), loaded.sources
    return build_report(unit, sources, asked)


# --- runs ---------------------------------------------------------------------------------------------------------


def run(
    program: Program,
    target: str | Target | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    waves: int | None = None,
    seed: int = 0,
    in_order: bool = False,
    reference: Callable[[Arrays, dict[str, int]], Mapping[str, Any]] | None = None,
    tolerance: tuple[float, float] | None = None,
    max_steps: int = 0,
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> RunResult:
    """Runs a program once on a simulated machine that delays whatever its target may delay, with arrays of numbers.

    `in_order=True` performs every access at once, so that no race shows. Without `inputs` they are random: the seed
    decides inputs and delays. The result is true if the run ended, showed no error, and equals the `reference`: that of
    the Python file, if the program is one. Run in order, it is true only if there is a reference. A graph has no
    numbers: it gives no arrays.
    """
    if isinstance(target, Mapping):  # what was the second argument in 0.1
        refuse("the second argument is the target", "give the arrays by name: `tg.run(kernel, inputs=...)`")
    opened = open_program(program, target, constraints=constraints, subs=subs)
    session = opened.session
    if session.meaningless:
        raise BadInput(*session.meaningless)
    known = Findings(session.of_kernel if session.kernel is not None else session.of_graph)
    asked = _sizes(session, sizes)
    if any(each.code in NOT_THERE for each in known) and not in_order:
        return RunResult(session.name, {}, {}, known, sources=opened.sources)
    if session.kernel is None:
        if in_order or inputs is not None or waves is not None or reference is not None:
            refuse(f"`@{session.name}` is a graph: it has no numbers", "leave out everything but sizes, seed and steps")
        return _run_graph(opened, asked, seed, max_steps, known)
    if reference is None and opened.loaded is not None and opened.loaded.reference is not None:
        reference, tolerance = opened.loaded.reference.compute, tolerance or opened.loaded.reference.tolerance
    ran = _run_kernel(opened, session.kernel, inputs, asked, waves, seed, in_order, max_steps, known)
    if reference is None or not ran.arrays:
        return ran
    values = {each.name: asked.get(each.name, each.default) for each in session.kernel.sizes}
    compared, different = compare(ran.arrays, ran.inputs, values, reference, tolerance or TOLERANCE)
    return replace(ran, compared=compared, different=different)


def _run_kernel(
    opened: Opened,
    kernel: Kernel,
    inputs: Mapping[str, Any] | None,
    sizes: Mapping[str, int],
    waves: int | None,
    seed: int,
    in_order: bool,
    max_steps: int,
    known: Findings,
) -> RunResult:
    """A hang, and an access outside of memory, are findings of the run; inputs that do not fit are bad input."""
    from tidegate.simulate.hostile import run_hostile as run_on
    from tidegate.simulate.inorder import SimulationError, make_inputs
    from tidegate.simulate.inorder import run as run_in_order

    given: Arrays = {}
    how: dict[str, Any] = {"sizes": sizes, "waves": waves, "most_steps": max_steps}
    try:
        given = dict(make_inputs(kernel, sizes, seed, inputs))
        if in_order:
            arrays = run_in_order(kernel, given, lanes=opened.session.target.lanes or 64, **how)
            return RunResult(kernel.name, given, dict(arrays), known, True, sources=opened.sources)
        ran = run_on(kernel, given, target=opened.session.target, seed=seed, **how)
    except SimulationError as error:
        if error.finding.is_bad_input:
            raise
        found = Findings((*known, error.finding))
        return RunResult(kernel.name, given, {}, found, in_order, sources=opened.sources)
    arrays = {} if ran.hang is not None else dict(ran.arrays)
    found = Findings((*known, *ran.findings()))
    return RunResult(kernel.name, given, arrays, found, statistics=ran.statistics, sources=opened.sources)


def _run_graph(opened: Opened, sizes: Mapping[str, int], seed: int, max_steps: int, known: Findings) -> RunResult:
    from tidegate.simulate.hostile import run_graph
    from tidegate.simulate.unroll import Endless, Misstep

    session = opened.session
    try:
        ran = run_graph(session.graph, target=session.target, sizes=sizes, seed=seed, most_steps=max_steps)
    except Misstep as misstep:
        return RunResult(session.name, {}, {}, Findings((*known, misstep.finding)), sources=opened.sources)
    except Endless as endless:
        refuse(f"`@{session.name}` does not end: {endless}", "a graph that never ends cannot be run")
    found = Findings((*known, *ran.findings()))
    return RunResult(session.name, {}, {}, found, statistics=ran.statistics, sources=opened.sources)


def _sizes(session: Session, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """Sizes that were asked for, all of which the program has."""
    known = [each.name for each in session.program.sizes]
    for name in sizes or {}:
        if name not in known:
            refuse(f"`@{session.name}` has no size `{name}`", f"its sizes: {', '.join(known) or 'none'}")
    return dict(sizes or {})


# --- parts --------------------------------------------------------------------------------------------------------


def build_graph(kernel: KernelLike, target: str | None = None) -> KernelGraph:
    """The kernel's `SyncGraph`, and where in the kernel each of its points stands."""
    found = kernel_of(kernel)
    return _build_graph(found, pick_target(found.target, target))


def make_inputs(kernel: KernelLike, sizes: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, Any]:
    """Random arguments that fit a kernel, by name."""
    from tidegate.simulate.inorder import make_inputs as make

    return dict(make(kernel_of(kernel), sizes, seed))


# --- the names of 0.1 ---------------------------------------------------------------------------------------------


def judge(program: KernelLike | SyncGraph, target: str | None = None, limits: Limits | None = None) -> Judgement:
    """The `.judgement` of `check(program, prove=False)`, without the checks that come before it."""
    from tidegate.simulate.judge import judge as judge_graph

    session = open_program(program, target).session
    return judge_graph(session.graph, session.target, limits)


def prove(program: KernelLike | SyncGraph, target: str | None = None) -> Verification:
    """The `.verification` of `check(program, simulate=False)`, without the checks that come before it."""
    from tidegate.verify.verify import verify

    session = open_program(program, target).session
    return verify(session.graph, session.target)


def run_hostile(
    kernel: KernelLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    waves: int | None = None,
    seed: int = 0,
) -> HostileRun:
    """What `run` is made of: the run itself, whose `findings()` are those of the run alone."""
    from tidegate.simulate.hostile import run_hostile as run_on

    found = kernel_of(kernel)
    given = make_inputs(found, sizes, seed) if inputs is None else inputs
    return run_on(found, given, target=pick_target(found.target, target), sizes=sizes, waves=waves, seed=seed)
