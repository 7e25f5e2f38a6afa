"""One half of the waves on paper: clusters, memory, matrix work, what holds its wave up, and barriers across all.

Needs   a scene, where time lies on the paper, and the rows that both halves have
Gives   pieces of SVG
Keeps   nothing outside of the window is drawn; of what overlaps in a row, each has a track of its own while there are
        no more than `MOST_TRACKS`
Cost    linear in what is drawn, times the tracks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.graph.model import SyncGraph
from tidegate.report import colours
from tidegate.report.scene import Half, Scene
from tidegate.report.svg import SIZE, line, rect, text, width_of
from tidegate.report.wave_views import Bar, Cluster, Meeting

HEAD, STRIP, TRACK, GAP, FOOT = 19.0, 22.0, 9.0, 4.0, 18.0
MOST_TRACKS = 6
# Nothing is narrower than so many pixels.
LEAST = 1.0
# How much wider bold letters are.
BOLD = 1.25
# Around letters that lines may cross.
HALO: dict[str, str | float] = {"paint_order": "stroke", "stroke": colours.GROUND, "stroke_width": 5}
UNITS = (("global", "global memory"), ("lds", "LDS"), ("mma", "matrix unit"), ("alu", "other work"))


@dataclass(frozen=True, slots=True)
class Paper:
    """Where time lies: cycle `start` at pixel `left`, `scale` pixels a cycle, until pixel `right`."""

    left: float
    right: float
    start: float
    scale: float

    def x(self, cycle: float) -> float:
        return min(max(self.left + (cycle - self.start) * self.scale, self.left), self.right)

    def span(self, start: float, end: float) -> tuple[float, float]:
        """Left edge and width."""
        left = min(self.x(start), self.right - LEAST)
        return left, max(self.x(end) - left, LEAST)


@dataclass(frozen=True, slots=True)
class Row:
    unit: str
    name: str
    tracks: int

    @property
    def height(self) -> float:
        return max(self.tracks, 1) * TRACK + (TRACK / 2 if self.tracks < 2 else 0)


def rows_of(scene: Scene) -> tuple[Row, ...]:
    """The rows of both halves: of every unit that one of them uses, and of what holds them up."""
    found = []
    for unit, name in UNITS:
        shown = [[bar for bar in half.view.bars if bar.unit == unit and scene.shows(bar)] for half in scene.halves]
        if any(shown):
            found.append(Row(unit, name, max(max(_tracks(bars), default=0) + 1 for bars in shown)))
    return (*found, Row("held", "held up", 1))


def height_of(rows: Sequence[Row]) -> float:
    """Of one half, without its foot."""
    return HEAD + STRIP + sum(row.height + GAP for row in rows)


def draw_half(scene: Scene, half: Half, rows: Sequence[Row], paper: Paper, top: float) -> Iterator[str]:
    bottom = top + height_of(rows)
    yield text(16, top + 13, half.name, font_weight="bold", fill=colours.INK)
    y = top + HEAD + STRIP + GAP
    for row in rows:
        yield rect(paper.left, y, paper.right - paper.left, row.height, fill=colours.STRIPE)
        yield _name(row.name, paper, y + row.height / 2 + 4.5)
        y += row.height + GAP
    yield _name(f"wave {half.view.wave}: clusters", paper, top + HEAD + 15)
    for cluster in half.view.clusters:
        if scene.shows(cluster):
            yield from _cluster(cluster, paper, top + HEAD, bottom)
    yield from _iterations(scene, half, paper, top, bottom)
    y = top + HEAD + STRIP + GAP
    for row in rows:
        yield from _held(scene, half, paper, y, row) if row.unit == "held" else _bars(scene, half, paper, y, row)
        y += row.height + GAP
    yield from _barriers(scene, half, paper, top + HEAD, bottom)


def _name(words: str, paper: Paper, y: float) -> str:
    return text(paper.left - 10, y, words, text_anchor="end", fill=colours.FAINT)


def _iterations(scene: Scene, half: Half, paper: Paper, top: float, bottom: float) -> Iterator[str]:
    """Where each iteration begins; labels that would touch the one before are left out."""
    free = paper.left
    for number, start in enumerate(half.view.iterations):
        if not scene.start <= start < scene.end:
            continue
        x, words = paper.x(start), f"k = {number}"
        yield line(x, top + 2, x, bottom, class_="iteration", stroke=colours.FAINT, stroke_opacity=0.5)
        if x >= free and x + 4 + width_of(words, SIZE) < paper.right:
            yield text(x + 4, top + 13, words, fill=colours.FAINT, **HALO)
            free = x + 10 + width_of(words, SIZE)


def _cluster(cluster: Cluster, paper: Paper, y: float, bottom: float) -> Iterator[str]:
    """A block with its letter, and its colour behind the rows."""
    letter, name, ground, ink = colours.CLUSTERS[cluster.kind]
    x, width = paper.span(cluster.start, cluster.end)
    tip = f"{name}: {_cycles(cluster.start, cluster.end, paper.start)}"
    yield rect(x, y + STRIP, width, bottom - y - STRIP, fill=ground, fill_opacity=0.4)
    yield rect(x, y, width, STRIP, tip, class_=f"cluster {cluster.kind}", fill=ground, stroke=ink, stroke_width=0.5)
    if letter and width >= BOLD * width_of(letter, SIZE) + 3:
        yield text(x + width / 2, y + 15.5, letter, text_anchor="middle", font_weight="bold", fill=ink)


def _bars(scene: Scene, half: Half, paper: Paper, y: float, row: Row) -> Iterator[str]:
    bars = [bar for bar in half.view.bars if bar.unit == row.unit and scene.shows(bar)]
    height = TRACK if row.tracks > 1 else row.height
    for bar, track in zip(bars, _tracks(bars), strict=True):
        x, width = paper.span(bar.start, bar.end)
        _, colour = colours.BARS[bar.kind]
        tip = f"{_point(scene.panel.graph, bar.where)}: {_cycles(bar.start, bar.end, paper.start)}"
        yield rect(x, y + track * TRACK + 0.5, width, height - 1, tip, class_=f"bar {bar.kind}", fill=colour)


def _tracks(bars: Sequence[Bar]) -> list[int]:
    """A track for each bar, the first that is free; if none is, the one that will be first."""
    ends: list[float] = []
    found = []
    for bar in bars:
        free = next((track for track, end in enumerate(ends) if end <= bar.start), len(ends))
        if free == MOST_TRACKS:
            free = min(range(MOST_TRACKS), key=ends.__getitem__)
        ends[free : free + 1] = [bar.end]
        found.append(free)
    return found


def _held(scene: Scene, half: Half, paper: Paper, y: float, row: Row) -> Iterator[str]:
    for held in half.view.held:
        if scene.shows(held):
            x, width = paper.span(held.start, held.end)
            name, _ = colours.REASONS[held.reason]
            cycles = _cycles(held.start, held.end, paper.start)
            tip = f"{_point(scene.panel.graph, held.where)}: held up {name}, {cycles}"
            fill = f"url(#held-{held.reason})"
            yield rect(x, y, width, row.height, tip, class_=f"held by-{held.reason}", fill=fill)


def _barriers(scene: Scene, half: Half, paper: Paper, top: float, bottom: float) -> Iterator[str]:
    """A bar where the wave goes on; conditional ones are labelled below, unless two labels would touch."""
    free = 0.0
    for meeting in filter(scene.shows_meeting, half.view.meetings):
        x, kind = paper.x(meeting.released), kind_of(meeting)
        cycles = _cycles(meeting.arrived, meeting.released, paper.start)
        tip = f"{_point(scene.panel.graph, meeting.where)}: arrives and goes on, {cycles}"
        yield line(x, top, x, bottom, tip, class_=f"barrier {kind}", **stroke_of(kind))
        words = f"conditional_barrier {meeting.half}"
        width = width_of(words, SIZE)
        left = min(x, paper.right - width)
        if meeting.half and left >= free:
            at, anchor = (x, "start") if left == x else (paper.right, "end")
            yield text(at, bottom + 14, words, text_anchor=anchor, fill=colours.CONDITIONAL, **HALO)
            free = left + width + 12


def kind_of(meeting: Meeting) -> str:
    return "conditional" if meeting.half else "pinned" if meeting.pinned else "plain"


def stroke_of(kind: str) -> dict[str, str | float]:
    """How a barrier is drawn: `plain`, `pinned` or `conditional`."""
    if kind == "conditional":
        return {"stroke": colours.CONDITIONAL, "stroke_width": 2.5}
    dashes: dict[str, str | float] = {"stroke_dasharray": "5 3"} if kind == "pinned" else {}
    return {"stroke": colours.BARRIER, "stroke_width": 1.5, **dashes}


def _point(graph: SyncGraph, where: int) -> str:
    point = graph.points[where]
    return f"line {point.at.line}, {point.label}" if point.at.line else f"point {where}, {point.label or point.role}"


def _cycles(start: float, end: float, zero: float) -> str:
    return f"cycles {start - zero:,.0f} to {end - zero:,.0f}"
