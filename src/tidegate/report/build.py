"""A page about one program: as it was given, as Tidegate synchronizes it, and in ping-pong if that is asked for.

Needs   a program from a file or from Python, and its target
Gives   a `Report`: all that the page shows as a dictionary, and the page itself
Keeps   what stands on the page is what `check`, `sync`, `explain`, `schedule` and the cost model say; the same program
        gives the same page; a program without a meaning is no page but `BadInput`
Cost    that of explaining each of the programs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tidegate.diag import BadInput, Finding, Sources, TidegateError
from tidegate.disk import write_whole
from tidegate.edition import own_version
from tidegate.explanation import Explained, explain
from tidegate.files import Loaded, load, load_text
from tidegate.graph.fit import find_graph_misfits
from tidegate.graph.model import SyncGraph
from tidegate.hosts.ptx.program import PtxProgram
from tidegate.language.ops import Fence, Module, WaitCount
from tidegate.language.show import show
from tidegate.passes import Checked, check_session
from tidegate.placement.groups import SINGLE
from tidegate.report.headline import cost_of_iteration
from tidegate.report.html import notebook_frame, page_of
from tidegate.report.lanes import cost_timeline, hostile_timeline, sizes_of
from tidegate.report.program import program_view
from tidegate.report.steps import animations
from tidegate.session import Session, sessions_of
from tidegate.simulate.cycle_steps import NoEstimate
from tidegate.simulate.cycles import Estimate, estimate
from tidegate.synchronize import propose, write_programs
from tidegate.targets import Target

Json = dict[str, Any]
# What only performs accesses of its own wave.
WAITS = (SINGLE[WaitCount], SINGLE[Fence])
# Steps of the judge for each program on a page, after which windows alone say what a changed barrier breaks.
MOST_STEPS = 60_000
# Told what is being done, how much of it is done and how much there is.
Progress = Callable[[str, int, int], None]


class NotScheduled(TidegateError):
    """Ping-pong was asked for, and there is none; says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What else a page is asked for."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    cached: bool = False  # whether global memory is found in the cache
    strategy: str = ""  # ping-pong by this strategy too
    prefetch: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A page; in a notebook it shows itself."""

    name: str
    data: Json

    @property
    def html(self) -> str:
        """The page, with everything in it."""
        return page_of(self.data)

    def __bool__(self) -> bool:
        """Whether the program is proved as it was given."""
        return bool(self.data["programs"][0]["verdict"]["kind"] == "proved")

    def __str__(self) -> str:
        """The verdict of each program on the page, a line each."""
        lines = [f"@{self.name} on {self.data['target']}"]
        for each in self.data["programs"]:
            count = each["figures"]["barriers"]
            verdict = each["verdict"]["text"].split("\n")[0]
            lines.append(f"  {each['title']}: {count} barrier{'s' * (count != 1)}, {verdict}")
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Writes the page: whole, or the file stays as it is."""
        write_whole(path, self.html)

    def _repr_html_(self) -> str:
        return notebook_frame(self.html)


@dataclass(frozen=True, slots=True)
class _Version:
    """One form of the program: what it is called, where it comes from."""

    title: str
    unit: Session
    sources: Sources


def build_report(
    unit: Session,
    sources: Sources,
    asked: Asked | None = None,
    *,
    before: Session | None = None,
    progress: Progress = lambda *_: None,
) -> Report:
    """`before`: the program that is synchronized, where that is not the one that is shown first (TTGIR as compiled)."""
    asked = asked or Asked()
    _check_sizes(unit, asked)
    views: list[Json] = []
    for version_ in _versions(unit, before or unit, sources, asked, progress):
        checked = check_session(version_.unit)
        explained = explain(version_.unit, progress=partial(progress, version_.title), most_steps=MOST_STEPS)
        if explained.graph is None:
            raise BadInput(*explained.findings)
        views.append(_view(version_, explained, checked, asked))
    data = {
        "tidegate": own_version(),
        "name": unit.name,
        "target": unit.target.name or "no target",
        "about": unit.target.title,
        "programs": views,
        "animations": [] if unit.graph.maps else _animations(before or unit, sources),
    }
    return Report(unit.name, data)


def as_written(where: str, loaded: Loaded, unit: Session) -> Session | None:
    """Of TTGIR, which is shown with Triton's own barriers, the program without; None: the one that is shown."""
    if loaded.ttgir is None:
        return None
    loaded = load(where, as_compiled=False)
    (before,) = sessions_of(loaded, unit.target.name or "none", unit.target.allowed)
    return before


def _check_sizes(unit: Session, asked: Asked) -> None:
    known = [each.name for each in unit.program.sizes]
    for name in asked.sizes:
        if name not in known:
            help = f"its sizes: {', '.join(known) or 'none'}"
            raise BadInput(Finding("TG022", f"`@{unit.name}` has no size `{name}`", help=help))


def _versions(unit: Session, before: Session, sources: Sources, asked: Asked, progress: Progress) -> Iterator[_Version]:
    yield _Version("as given", unit, sources)
    progress("synchronizing", 0, 1)
    result = propose(before)
    if result.edits and result.made is not None and isinstance(result.made.origin, PtxProgram):
        ptx = result.made.origin.ptx
        yield _Version("synchronized", result.made, Sources({ptx.file: ptx.text}))
    elif result.made is not None and (result.plan.edits or before is not unit):
        file, text = _written_as(unit)
        known = sources.texts.get(file, "")
        written = write_programs([result], known if text else "", file)
        yield _again("synchronized", written, file, unit)
    if asked.strategy:
        from tidegate.pingpong import schedule_kernel

        if unit.kernel is None:
            raise BadInput(Finding("TG022", "only a kernel can be scheduled", help="give a kernel, not a graph"))
        made = schedule_kernel(unit.kernel, unit.target, asked.strategy, pipeline=asked.prefetch, certain=False)
        if made.chosen is None:
            raise NotScheduled(str(made.declined))
        written = made.chosen.text or show(Module((replace(made.chosen.kernel, target=unit.target.name),)))
        yield _again(f"ping-pong, {made.chosen.strategy}", written, f"{unit.name}.tide", unit)


def _written_as(unit: Session) -> tuple[str, bool]:
    """The name of the file that holds the program afterwards, and whether its text is that of the file before."""
    points = unit.given.points if unit.given is not None else ()
    file = (
        unit.kernel.at.file if unit.kernel is not None else next((each.at.file for each in points if each.at.line), "")
    )
    if unit.kernel is not None and not file.endswith(".tide"):
        return f"{unit.name}.tide", False
    if unit.kernel is None and unit.origin is None and not file.endswith(".sync"):
        return f"{unit.name}.sync", False
    return file, True


def _again(title: str, text: str, file: str, unit: Session) -> _Version:
    """The program as it stands in the text now."""
    loaded: Loaded = load_text(text, file, as_compiled=False)
    units = sessions_of(loaded, unit.target.name or "none", unit.target.allowed)
    known = {each.name: each for each in units}
    return _Version(title, known[unit.name], loaded.sources)


def _view(version_: _Version, explained: Explained, checked: Checked, asked: Asked) -> Json:
    graph, target = explained.graph, version_.unit.target
    assert graph is not None
    found, why_not = _estimate(graph, target, asked)
    view = program_view(explained, checked, version_.sources, version_.title)
    timelines = [cost_timeline(graph, target, found, cached=asked.cached)] if found is not None and found.events else []
    # The sizes that were asked for, else those that show what is wrong.
    known = {each.name for each in graph.sizes}
    shown = {name: value for name, value in sizes_of(checked.findings).items() if name in known}
    # The simulator knows waves, and no threads: what it calls a race there need not be one.
    run = None if graph.maps else hostile_timeline(graph, target, {**shown, **asked.sizes})
    view["timelines"] = [*timelines, *([run] if run is not None else [])]
    view["no_cost"] = why_not
    view["figures"] = _figures(explained, checked, view, _cost(graph, target, found))
    return view


def _estimate(graph: SyncGraph, target: Target, asked: Asked) -> tuple[Estimate | None, str]:
    known = {each.name: asked.sizes.get(each.name, each.default) for each in graph.sizes}
    try:
        return estimate(graph, target, sizes=known, cached=asked.cached, record=True), ""
    except NoEstimate as reason:
        return None, f"no estimate: {reason}"


def _cost(graph: SyncGraph, target: Target, found: Estimate | None) -> tuple[float, float]:
    return cost_of_iteration(graph, target, found) if found is not None else (0.0, 0.0)


def _figures(explained: Explained, checked: Checked, view: Json, cost: tuple[float, float]) -> Json:
    """Counts and costs; barriers and their weight as `explain` counts them."""
    cycles, busy, found = *cost, explained.tally
    return {
        "findings": sum(each.severity == "error" for each in checked.findings),
        "hazards": len(view["hazards"]),
        "barriers": found.barriers,
        "in loops": found.in_loops,
        "waits": sum(each.kind in WAITS for each in explained.barriers),
        "weight": found.weight,
        "cycles": round(cycles) if cycles else None,
        "busy": round(busy * 100) if busy else None,
    }


def _animations(unit: Session, sources: Sources) -> list[Json]:
    def graph_for(target: Target) -> SyncGraph | None:
        other = unit if target.name == unit.target.name else replace(unit, target=target)
        if unit.kernel is not None:
            return other.graph if other is unit or not other.of_kernel else None
        return unit.graph if other is unit or not list(find_graph_misfits(unit.graph, target)) else None

    return animations(graph_for, unit.target, sources)
