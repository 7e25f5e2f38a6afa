"""What a panel shows: which waves, and from when until when.

Needs   a panel: a graph, its target, and an estimate that has recorded its events
Gives   a `Scene`: one wave of each half of the waves, and a window of time
Keeps   the window begins with the first iteration of any wave shown, and holds at most `SHOWN` iterations of each
Cost    linear in the events
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.graph.model import SyncGraph
from tidegate.report.wave_views import Bar, Cluster, Held, Meeting, WaveView, view_of
from tidegate.simulate.cycles import Estimate
from tidegate.targets import Target

# Iterations in a picture: the first, in which a stagger opens, and three more.
SHOWN = 4
# No window is longer than so many iterations of the steady state, however slow the first are.
LONGEST = 4.5


@dataclass(frozen=True, slots=True)
class Panel:
    """A program and its estimate, made with `record=True`; `title` stands above it."""

    title: str
    graph: SyncGraph
    target: Target
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Half:
    """Some waves, and the one of them that is drawn."""

    name: str
    view: WaveView


@dataclass(frozen=True, slots=True)
class Scene:
    panel: Panel
    halves: tuple[Half, ...]
    start: float
    end: float

    def shows(self, each: Bar | Held | Cluster) -> bool:
        return each.end > self.start and each.start < self.end

    def shows_meeting(self, meeting: Meeting) -> bool:
        """Whether its release is in the window; at the very start it belongs to what was before."""
        return self.start < meeting.released <= self.end


def scene_of(panel: Panel) -> Scene:
    if not panel.estimate.events:
        raise ValueError(f"the estimate of @{panel.graph.name} has no events: it was made without `record=True`")
    halves = tuple(
        Half(name, view_of(panel.graph, panel.target, panel.estimate.events, wave))
        for name, wave in _halves(panel.graph.waves)
    )
    start, end = _window(panel.estimate, [half.view for half in halves])
    return Scene(panel, halves, start, end)


def _halves(waves: int) -> list[tuple[str, int]]:
    """Names, and the waves that stand for them."""
    if waves == 1:
        return [("wave 0", 0)]
    if waves % 2:
        return [("first wave (0)", 0), (f"last wave ({waves - 1})", waves - 1)]
    middle = waves // 2
    return [
        (f"low half ({_waves(0, middle - 1)})", 0),
        (f"high half ({_waves(middle, waves - 1)})", middle),
    ]


def _waves(first: int, last: int) -> str:
    return f"wave {first}" if first == last else f"waves {first}..{last}"


def _window(estimate: Estimate, views: list[WaveView]) -> tuple[float, float]:
    """From the first iteration until the last that is shown ends; all, where no wave runs a loop."""
    looping = [each for each in views if each.iterations]
    if not looping:
        return 0.0, max(event.end for event in estimate.events)
    start = min(each.iterations[0] for each in looping)
    end = max(each.iterations[SHOWN] if len(each.iterations) > SHOWN else each.end for each in looping)
    steady = max(cost.cycles for cost in estimate.loops if any(cost.loop == each.loop for each in looping))
    return start, min(end, start + LONGEST * steady) if steady else end
