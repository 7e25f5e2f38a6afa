"""Timelines of a page: what each wave has issued, has in flight, has performed, and waits for.

Needs   a graph and its target
Gives   two timelines as dictionaries for JSON: by the cost model in cycles, and of a run on the hostile machine in
        steps
Keeps   a bar begins where an access is issued and ends where it is performed; the same graph gives the same bars; what
        is cut off at the end is said
Cost    an estimate and one run of one workgroup

    {"title": ..., "unit": "cycles", "start": 0, "end": 812, "cut": "", "waves": [
      {"name": "wave 0", "bars": [[kind, start, end, line, what]], "held": [[reason, start, end, line]],
       "meets": [[arrived, released, line]], "marks": [[time, line, what]], "turns": [0, 203]}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.diag import Finding
from tidegate.graph.model import SyncGraph
from tidegate.report.scene import SHOWN, Panel, Scene
from tidegate.report.wave_views import WaveView, view_of
from tidegate.simulate.cycles import Estimate
from tidegate.simulate.faults import SimulationError
from tidegate.simulate.hostile import run_graph
from tidegate.simulate.races import Clash
from tidegate.simulate.statistics import Silent
from tidegate.simulate.steps import Arrive, Await, Depart, Issue, Step, Touch
from tidegate.simulate.unroll import Endless, Misstep
from tidegate.targets import Target

Json = dict[str, Any]
MOST_WAVES = 8
# Steps of a run that are shown, of all waves together.
MOST_STEPS = 600


def cost_timeline(graph: SyncGraph, target: Target, found: Estimate, *, cached: bool = False) -> Json:
    """From the start until the first iterations of the heaviest loop are done, of up to eight waves."""
    shown = _shown(graph.waves)
    views = {wave: view_of(graph, target, found.events, wave) for wave in shown}
    scene = _from_the_start(Panel("", graph, target, found), list(views.values()))
    waves = []
    for wave, view in views.items():
        waves.append(
            {
                "name": f"wave {wave}",
                "bars": [
                    [each.kind, _t(each.start), _t(each.end), _line(graph, each.where), _label(graph, each.where)]
                    for each in view.bars
                    if scene.shows(each)
                ],
                "held": [
                    [each.reason, _t(each.start), _t(each.end), _line(graph, each.where)]
                    for each in view.held
                    if scene.shows(each)
                ],
                "meets": [
                    [_t(each.arrived), _t(each.released), _line(graph, each.where)]
                    for each in view.meetings
                    if scene.shows_meeting(each)
                ],
                "marks": [],
                "turns": [_t(each) for each in view.iterations if scene.start <= each < scene.end],
            }
        )
    return {
        "title": "Cost model",
        "about": "Cycles of the target's cost model, up to the first iterations of the heaviest loop. "
        f"Global memory is assumed to {'hit in the cache' if cached else 'miss the cache'}.",
        "unit": "cycles",
        "start": _t(scene.start),
        "end": _t(scene.end),
        "cut": _cut(graph.waves, shown),
        "waves": waves,
    }


def _from_the_start(panel: Panel, views: Sequence[WaveView]) -> Scene:
    """All, or until every wave has done `SHOWN` iterations and begun another."""
    ends = [view.iterations[SHOWN] if len(view.iterations) > SHOWN else view.end for view in views if view.iterations]
    last = max(event.end for event in panel.estimate.events)
    return Scene(panel, (), 0.0, max(ends) if ends else last)


def _shown(waves: int) -> list[int]:
    """All, or as many of each half."""
    if waves <= MOST_WAVES:
        return list(range(waves))
    half = MOST_WAVES // 2
    return [*range(half), *range(waves // 2, waves // 2 + half)]


def _cut(waves: int, shown: list[int]) -> str:
    return f"{len(shown)} of {waves} waves" if len(shown) < waves else ""


def _t(time: float) -> float:
    return round(time, 1)


def _line(graph: SyncGraph, point: int) -> int:
    return graph.points[point].at.line


def _label(graph: SyncGraph, point: int) -> str:
    return graph.points[point].label or graph.points[point].role


# --- a run on the hostile machine ---------------------------------------------------------------------------------


class _Enough(Exception):
    """As much has been heard as is shown."""


class _Recorder(Silent):
    """Hears the first workgroup of a run, as far as it is shown."""

    def __init__(self, graph: SyncGraph) -> None:
        self.graph = graph
        self.waves: list[Json] = []
        self.issued: list[int] = []
        self.open: dict[tuple[int, int], tuple[int, Touch]] = {}
        self.arrived: dict[tuple[int, object], list[int]] = {}
        self.last: list[int] = []
        self.end_time = 0
        self.cut = ""

    def workgroup(self, place: tuple[int, int, int], waves: int, time: int) -> None:
        if self.waves:
            raise _Enough
        self.issued, self.last = [0] * waves, [time] * waves
        self.waves = [
            {"name": f"wave {wave}", "bars": [], "held": [], "meets": [], "marks": [], "turns": []}
            for wave in range(waves)
        ]

    def step(self, time: int, wave: int, step: Step) -> None:
        if time >= MOST_STEPS:
            self.cut = f"the first {MOST_STEPS} steps"
            self.end(time)
            raise _Enough
        self.end_time = time + 1
        match step:
            case Issue(touch):
                self.open[wave, self.issued[wave]] = (time, touch)
                self.issued[wave] += 1
            case Arrive():
                self.arrived.setdefault((wave, step.barrier), []).append(time)
            case Depart() | Await():
                arrived = self.arrived.get((wave, step.barrier)) if isinstance(step, Depart) else None
                start = arrived.pop(0) if arrived else self.last[wave]
                self.waves[wave]["meets"].append([start, time, _line(self.graph, step.where)])
                if start + 1 < time:
                    self.waves[wave]["held"].append(["barrier", start + 1, time, _line(self.graph, step.where)])
        self.last[wave] = time

    def performed(self, time: int, wave: int, number: int) -> None:
        start, touch = self.open.pop((wave, number))
        point = self.graph.points[touch.where]
        what = _label(self.graph, touch.where)
        if touch.region is not None and touch.region.stretches:
            what += f", {touch.region}"
        if touch.loops:
            what += f", {', '.join(f'{name} = {value}' for name, value in touch.loops)}"
        kind = "atomic" if touch.effect == "atomic" else point.role
        self.waves[wave]["bars"].append([kind, start, max(time, start + 1), point.at.line, what])

    def clash(self, time: int, clash: Clash) -> None:
        first, second = clash.first, clash.second
        lines = [_line(self.graph, each.touch.where) for each in (first, second)]
        word = "wrong order" if clash.kind == "inversion" else "race"
        text = f"{word}: wave {first.wave} in line {lines[0]}, wave {second.wave} in line {lines[1]}, "
        text += f"bytes {clash.bytes[0]}..{clash.bytes[1]}"
        for party, line in zip((first, second), lines, strict=True):
            self.waves[party.wave]["marks"].append([time, line, text])

    def hangs(self, time: int, wave: int, step: Depart | Await, what: str) -> None:
        line = _line(self.graph, step.where)
        self.waves[wave]["held"].append(["hang", self.last[wave] + 1, time + 1, line])
        self.waves[wave]["marks"].append([self.last[wave] + 1, line, f"hangs: waits for {what}"])

    def end(self, time: int) -> None:
        for wave, number in list(self.open):
            start, touch = self.open[wave, number]
            self.performed(time if touch.region is not None else start + 1, wave, number)
        self.end_time = max(self.end_time, time)


def hostile_timeline(
    graph: SyncGraph, target: Target, sizes: Mapping[str, int] | None = None, seed: int = 0
) -> Json | None:
    """One workgroup, with every access as late as the target allows; None if it cannot be run."""
    heard = _Recorder(graph)
    try:
        run_graph(graph, target=target, sizes=sizes, seed=seed, listener=heard)
    except _Enough:
        pass
    except (SimulationError, Misstep, Endless):
        return None
    if not heard.waves or not any(each["bars"] for each in heard.waves):
        return None
    shown = _shown(len(heard.waves))
    cut = ", ".join(filter(None, (_cut(len(heard.waves), shown), heard.cut)))
    return {
        "title": "Hostile machine",
        "about": "Steps of one workgroup in the simulator, which performs every access as late as the target allows.",
        "unit": "steps",
        "start": 0,
        "end": heard.end_time,
        "cut": cut,
        "waves": [heard.waves[wave] for wave in shown],
    }


def sizes_of(findings: Sequence[Finding]) -> dict[str, int]:
    """Sizes that show all findings that name some: of each size the largest."""
    found: dict[str, int] = {}
    for each in findings:
        for note in each.notes:
            if note.startswith("found with "):
                for part in note.removeprefix("found with ").split(", "):
                    name, _, number = part.partition(" = ")
                    if number.isdigit():
                        found[name] = max(found.get(name, 0), int(number))
    return found
