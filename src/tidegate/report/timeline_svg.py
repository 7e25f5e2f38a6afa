"""Draw what the cost model says of programs: both halves of the waves over time, one panel below the other.

Needs   panels: programs with estimates that have recorded their events
Gives   one SVG, about 1200 pixels wide
Keeps   all panels have one scale, from the first iteration that each shows on; the same panels give the same text
Cost    linear in the events

    low half    | M | |  C  |   | M | |  C  |      barriers are bars across all rows of a half; where both halves go on
    high half         | M | |  C  |   | M | |      from one meeting, a dotted line joins them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidegate.graph import model as g
from tidegate.language import ops
from tidegate.report import colours
from tidegate.report.half_svg import FOOT, HALO, HEAD, Paper, Row, draw_half, height_of, kind_of, rows_of, stroke_of
from tidegate.report.scene import Half, Panel, Scene, scene_of
from tidegate.report.svg import SIZE, document, hatching, line, rect, text, width_of
from tidegate.report.wave_views import WaveView

__all__ = ["Panel", "draw_panels"]

WIDTH, LEFT, RIGHT, MARGIN = 1200.0, 184.0, 1176.0, 18.0
TITLE, AXIS, BETWEEN, PANELS_APART = 54.0, 24.0, 18.0, 28.0
# Pixels that lie between two marks of the axis, at least.
TICK_APART = 90.0


def draw_panels(panels: Sequence[Panel]) -> str:
    """The text of the file."""
    if not panels:
        raise ValueError("there is nothing to draw")
    scenes = [scene_of(each) for each in panels]
    scale = (RIGHT - LEFT) / max(1.0, *(scene.end - scene.start for scene in scenes))
    body: list[str] = []
    y = MARGIN
    for scene in scenes:
        body += _panel(scene, scale, y)
        y += _height(scene) + PANELS_APART
    legend, below = _legend(scenes, y)
    height = below + MARGIN
    patterns = "".join(hatching(f"held-{reason}", colour) for reason, (_, colour) in colours.REASONS.items())
    ground = rect(0, 0, WIDTH, height, fill=colours.GROUND)
    title = "; ".join(f"@{each.graph.name} on {_target(each)}, {each.title}" for each in panels)
    return document(WIDTH, height, title, _about(scenes), [f"<defs>{patterns}</defs>", ground, *body, *legend])


def _target(panel: Panel) -> str:
    return panel.target.name or "no target"


def _about(scenes: Sequence[Scene]) -> str:
    """The picture in words."""
    found = []
    for scene in scenes:
        names = " and ".join(f"{half.name}, shown by wave {half.view.wave}" for half in scene.halves)
        found.append(f"{scene.panel.title}. {scene.end - scene.start:,.0f} cycles by the cost model of {names}.")
        if _stagger_of(scene) is not None:
            found.append(f"The {_stagger_words(scene)}.")
    return " ".join(found)


# --- one panel ----------------------------------------------------------------------------------------------------


def _panel(scene: Scene, scale: float, top: float) -> Iterator[str]:
    panel, rows = scene.panel, rows_of(scene)
    paper = Paper(LEFT, LEFT + (scene.end - scene.start) * scale, scene.start, scale)
    yield text(16, top + 15, panel.title, font_size=17, font_weight="bold", fill=colours.INK)
    about = f"@{panel.graph.name} on {_target(panel)}, by its cost model"
    yield text(16, top + 36, about, fill=colours.FAINT)
    each = height_of(rows) + FOOT + BETWEEN
    tops = [top + TITLE + place * each for place in range(len(scene.halves))]
    for (upper, above), (lower, below) in pairwise(zip(scene.halves, tops, strict=True)):
        yield from _meetings(scene, upper, lower, paper, (above + height_of(rows), below + HEAD))
    for half, y in zip(scene.halves, tops, strict=True):
        yield from draw_half(scene, half, rows, paper, y)
    yield from _stagger(scene, rows, paper, tops)
    yield from _axis(scene, paper, tops[-1] + each - BETWEEN)


def _height(scene: Scene) -> float:
    each = height_of(rows_of(scene)) + FOOT
    return TITLE + len(scene.halves) * each + (len(scene.halves) - 1) * BETWEEN + AXIS


def _meetings(scene: Scene, upper: Half, lower: Half, paper: Paper, ends: tuple[float, float]) -> Iterator[str]:
    """Lines between barriers of both halves from which they go on together."""
    times = {round(each.released, 3) for each in upper.view.meetings if scene.shows_meeting(each)}
    for meeting in lower.view.meetings:
        if round(meeting.released, 3) in times:
            x = paper.x(meeting.released)
            yield line(x, ends[0], x, ends[1], class_="together", stroke=colours.BARRIER, stroke_dasharray="1 3")


def _stagger(scene: Scene, rows: Sequence[Row], paper: Paper, tops: Sequence[float]) -> Iterator[str]:
    found = _stagger_of(scene)
    if found is None:
        return
    _, low, high = found
    above, below = tops[0] + height_of(rows), tops[1]
    y, left, right = above + FOOT + BETWEEN / 2 - 2, paper.x(min(low, high)), paper.x(max(low, high))
    look: dict[str, str | float] = {"stroke": colours.CONDITIONAL, "stroke_width": 1.5}
    yield line(left, y, right, y, class_="stagger", **look)
    for x, here in ((paper.x(low), above), (paper.x(high), below + HEAD)):
        yield line(x, y - 5, x, y + 5, **look)
        yield line(x, y, x, here, stroke=colours.CONDITIONAL, stroke_dasharray="2 2")
    words = _stagger_words(scene)
    at, anchor = (right + 7, "start") if right + 7 + width_of(words, SIZE) < RIGHT else (left - 7, "end")
    yield text(at, y + 4, words, text_anchor=anchor, fill=colours.CONDITIONAL, font_weight="bold", **HALO)


def _stagger_words(scene: Scene) -> str:
    found = _stagger_of(scene)
    if found is None:
        return ""
    number, low, high = found
    return f"stagger at k = {number}: {abs(high - low):,.0f} cycles"


def _stagger_of(scene: Scene) -> tuple[int, float, float] | None:
    """An iteration in the window, and when each half begins it, where conditional barriers hold one half back."""
    points = scene.panel.graph.points
    held = any(
        isinstance(each.action, g.Sync) and isinstance(each.action.op, ops.ConditionalBarrier) for each in points
    )
    if not held or len(scene.halves) < 2:
        return None
    low, high = (_shown(scene, half.view) for half in scene.halves)
    number = min(len(low), len(high), 2) - 1
    if number < 0 or low[number] == high[number]:
        return None
    return number, low[number], high[number]


def _shown(scene: Scene, view: WaveView) -> list[float]:
    return [each for each in view.iterations if scene.start <= each < scene.end]


def _axis(scene: Scene, paper: Paper, y: float) -> Iterator[str]:
    step = _step(TICK_APART / paper.scale)
    yield line(paper.left, y, paper.right, y, stroke=colours.INK)
    yield text(paper.left - 10, y + 18, "cycles", text_anchor="end", fill=colours.INK)
    tick = 0
    while tick <= scene.end - scene.start:
        x = paper.x(scene.start + tick)
        yield line(x, y, x, y + 4, stroke=colours.INK)
        yield text(x, y + 18, f"{tick:,}", text_anchor="middle", fill=colours.INK)
        tick += step


def _step(least: float) -> int:
    """A round number of cycles, at least so many."""
    power = 1
    while True:
        for each in (1, 2, 5):
            if each * power >= least:
                return each * power
        power *= 10


# --- the legend ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Item:
    """`shape`: a block, or the kind of a barrier."""

    shape: str
    words: str
    fill: str = ""
    ink: str = ""


def _legend(scenes: Sequence[Scene], top: float) -> tuple[list[str], float]:
    """Everything that is drawn, once; gives where it ends too."""
    found, x, y = [], 16.0, top
    for item in _items(scenes):
        width = 26 + width_of(item.words, SIZE) + 14
        if x + width > WIDTH - 8:
            x, y = 16.0, y + 21
        if item.shape == "block":
            found.append(rect(x, y, 20, 12, fill=item.fill, stroke=item.ink, stroke_width=0.5))
        else:
            found.append(line(x + 10, y - 2, x + 10, y + 14, **stroke_of(item.shape)))
        found.append(text(x + 26, y + 11, item.words, fill=colours.INK))
        x += width
    return found, y + 14


def _items(scenes: Sequence[Scene]) -> Iterator[_Item]:
    """In the order of the tables."""
    views = [(scene, half.view) for scene in scenes for half in scene.halves]
    clusters = {each.kind for scene, view in views for each in view.clusters if scene.shows(each)}
    bars = {each.kind for scene, view in views for each in view.bars if scene.shows(each)}
    reasons = {each.reason for scene, view in views for each in view.held if scene.shows(each)}
    barriers = {kind_of(each) for scene, view in views for each in view.meetings if scene.shows_meeting(each)}
    for kind, (letter, name, ground, ink) in colours.CLUSTERS.items():
        if kind in clusters:
            yield _Item("block", f"{letter}: {name}" if letter else name, ground, ink)
    for kind, (name, colour) in colours.BARS.items():
        if kind in bars:
            yield _Item("block", name, colour, colour)
    for kind, name in colours.BARRIERS.items():
        if kind in barriers:
            yield _Item(kind, name)
    for reason, (name, colour) in colours.REASONS.items():
        if reason in reasons:
            yield _Item("block", f"held up {name}", f"url(#held-{reason})", colour)
