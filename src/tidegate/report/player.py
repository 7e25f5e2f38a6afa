"""The steps of one strategy: windows found one by one, put in order, served by barriers that are put in.

Needs   hazards with their windows, rows of the program, and what placement put in
Gives   windows, bars and steps as dictionaries for JSON
Keeps   in each step what was shown, put in or done before stays so; the last one has everything
Cost    linear in windows times barriers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.explanation.show import count
from tidegate.graph import model as g
from tidegate.graph.barriers import tally_inserted
from tidegate.graph.flow import Flow
from tidegate.graph.plan import Insert
from tidegate.hazards.model import Hazard
from tidegate.hazards.show import loop_name
from tidegate.language.ops import SharedMemoryBarrier, Wait, WorkgroupBarrier
from tidegate.language.show import show_op
from tidegate.placement.place import Placed
from tidegate.report.wave_views import is_inside

Json = dict[str, Any]
MOST_WINDOWS = 24


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the program that matters here; barriers stand before rows."""

    point: int
    line: int
    text: str
    depth: int


class Player:
    """The steps of one strategy. Places are numbers of rows: a barrier at row r stands before it."""

    def __init__(
        self,
        graph: g.SyncGraph,
        flow: Flow,
        placed: Placed,
        hazards: list[Hazard],
        windows: list[tuple[int, ...]],
        rows: list[Row],
        inserts: list[Insert],
    ) -> None:
        self.graph, self.flow, self.placed, self.rows, self.inserts = graph, flow, placed, rows, inserts
        shown = list(zip(hazards, windows, strict=True))[:MOST_WINDOWS]
        self.hazards = [each for each, _ in shown]
        self.points = [window for _, window in shown]
        self.places = [sorted({self.row(point) for point in window}) for window in self.points]

    def row(self, point: int) -> int:
        """The row of a point's own line, else the first behind it."""
        at = self.graph.points[point].at
        for number in reversed(range(len(self.rows))):
            each = self.rows[number]
            own = self.graph.points[each.point].at
            if each.point <= point and at.line and (own.file, own.line) == (at.file, at.line):
                return number
        return next((number for number, each in enumerate(self.rows) if each.point >= point), len(self.rows))

    def windows(self) -> list[Json]:
        return [
            {
                "kind": each.kind.name,
                "title": self.title(each),
                "from": self.row(self.flow.origin[each.producer]),
                "to": self.row(self.flow.origin[each.consumer]),
                "places": places,
                "carried": each.loop >= 0 and each.distance > 0,
                "loop": self.loop_rows(each.loop),
            }
            for each, places in zip(self.hazards, self.places, strict=True)
        ]

    def loop_rows(self, loop: int) -> list[int]:
        """The first and the last row inside of a loop."""
        inside = [
            number
            for number, each in enumerate(self.rows)
            if is_inside(self.graph, self.graph.points[each.point].loop, loop)
        ]
        return [min(inside), max(inside)] if inside else [0, len(self.rows) - 1]

    def bars(self) -> list[Json]:
        """What is put in: before which row, and what it is."""
        return [{"row": self.row(each.before), "op": " ".join(show_op(each.op))} for each in self.inserts]

    def title(self, hazard: Hazard) -> str:
        lines = [self.flow.point(node).at.line for node in (hazard.producer, hazard.consumer)]
        text = f"{hazard.kind.name} {hazard.witness.buffer}, {lines[0]} → {lines[1]}"
        if hazard.loop >= 0 and hazard.distance:
            text += f" at {loop_name(self.flow, hazard.loop)} + {hazard.distance}"
        return text

    # --- what both strategies begin with ---

    def opening(self, put: str, order: list[int]) -> list[Json]:
        """Each window by itself, then all of them `put` in order."""
        steps = [
            _step(
                "Which accesses to shared memory can conflict? One buffer, shared bytes, two waves, at least one write."
            )
        ]
        for number, each in enumerate(self.hazards):
            shown = list(range(number + 1))
            round_ = "around the loop to " if each.loop >= 0 and each.distance else ""
            text = f"{self.title(each)}: a barrier must lie between, {round_}before line {self.last_line(number)}."
            steps.append(_step(text, shown, new=[number]))
        return [*steps, _step(put, list(range(len(self.hazards))), order=order)]

    def last_line(self, number: int) -> int:
        return self.flow.point(self.hazards[number].consumer).at.line

    def serving(self, insert: int) -> list[int]:
        """Windows that what is put in serves, those that are shown."""
        point = self.inserts[insert].before
        served = self.placed.serves.get(point, ())
        keys = {(each.producer, each.consumer, each.loop, each.distance) for each in served}
        return [
            number
            for number, each in enumerate(self.hazards)
            if (each.producer, each.consumer, each.loop, each.distance) in keys
            or (each.demand == 1 and point in self.points[number])
        ]

    # --- whole barriers ---

    def whole(self) -> list[Json]:
        everything = list(range(len(self.hazards)))
        order = sorted(everything, key=lambda each: (self.ends(each), self.rows_of(each)))
        steps = self.opening("Take the windows in order of their ends.", order)
        done: list[int] = []
        bars: list[int] = []
        for number in order:
            if number in done:
                continue
            holding = [bar for bar in self.meeting_bars() if number in self.serving(bar)]
            new = next((bar for bar in holding if bar not in bars), None)
            if new is None:
                continue
            also = self.together(new)
            bars += also
            covered = [each for each in self.serving(new) if each not in done]
            done += covered
            line = self.graph.points[self.inserts[new].before].at.line
            more = f" It lies in {len(covered)} windows." if len(covered) > 1 else ""
            text = f"{self.title(self.hazards[number])} holds no barrier yet: insert one before line {line}.{more}"
            steps.append(_step(text, everything, order=order, bars=bars, done=done, new=covered))
        return [*steps, self.closing(everything, order, done)]

    def ends(self, number: int) -> int:
        """Windows round a loop end in the next iteration, behind all others."""
        hazard = self.hazards[number]
        end = self.row(self.flow.origin[hazard.consumer])
        return end + (len(self.rows) if hazard.loop >= 0 and hazard.distance else 0)

    def rows_of(self, number: int) -> int:
        return self.row(self.flow.origin[self.hazards[number].producer])

    def meeting_bars(self) -> list[int]:
        """What waves meet at: not a wait for the wave's own accesses."""
        meets = (SharedMemoryBarrier, WorkgroupBarrier, Wait)
        return [number for number, each in enumerate(self.inserts) if isinstance(each.op, meets)]

    def together(self, bar: int) -> list[int]:
        """A barrier, and the waits that are put in with it."""
        before = self.inserts[bar].before
        return [number for number, each in enumerate(self.inserts) if each.before == before]

    # --- split pairs ---

    def split(self) -> list[Json]:
        everything = list(range(len(self.hazards)))
        order = sorted(everything, key=lambda each: (self.rows_of(each), self.ends(each)))
        steps = self.opening("Take the windows in order of their starts.", order)
        done: list[int] = []
        bars: list[int] = []
        for bar in self.meeting_bars():
            covered = [each for each in order if each in self.serving(bar) and each not in done]
            if not covered and done:
                if bar not in bars:
                    bars += [bar]
                continue
            cut: set[int] | None = None
            for place, number in enumerate(covered, 1):
                places = set(self.places[number])
                cut = places if cut is None else cut & places
                if len(covered) > 1 and cut:
                    text = (
                        f"{place} of {len(covered)} windows intersect: a barrier in the intersection serves them all."
                    )
                    steps.append(
                        _step(text, everything, order=order, bars=bars, done=done, new=covered[:place], cut=sorted(cut))
                    )
            bars = sorted({*bars, bar, *self.signals_of(bar)})
            done += covered
            text = "Signal at its start, wait at its end: the work in between continues."
            if not isinstance(self.inserts[bar].op, Wait):
                text = "Nothing lies between the two, or a copy must be waited for first: the barrier stays whole."
            steps.append(_step(text, everything, order=order, bars=bars, done=done, new=covered))
        every = list(range(len(self.inserts)))
        if set(every) - set(bars):
            text = "Around a loop, the first wait needs a signal before the loop, and the last signal a wait after it."
            steps.append(_step(text, everything, order=order, bars=every, done=done))
        return [*steps, self.closing(everything, order, done)]

    def signals_of(self, bar: int) -> list[int]:
        """The signals of the loop of a wait, and what they drain."""
        loop = self.graph.points[self.inserts[bar].before].loop
        return [
            number
            for number, each in enumerate(self.inserts)
            if not isinstance(each.op, Wait | SharedMemoryBarrier | WorkgroupBarrier)
            and self.graph.points[each.before].loop == loop
        ]

    def closing(self, shown: list[int], order: list[int], done: list[int]) -> Json:
        left = [each for each in shown if each not in done]
        text = f"{count(len(done), 'window')}, {tally_inserted(self.placed.plan, self.graph)}."
        if left:
            text += f" {len(left)} not served by a single barrier: they need several, or none can be inserted there."
        return _step(text, shown, order=order, bars=list(range(len(self.inserts))), done=done)


def _step(
    text: str,
    shown: Sequence[int] = (),
    *,
    order: Sequence[int] = (),
    bars: Sequence[int] = (),
    done: Sequence[int] = (),
    new: Sequence[int] = (),
    cut: Sequence[int] = (),
) -> Json:
    """`shown` windows, in this `order`; `bars` that stand; windows `done`; what is `new`; the rows of a cut."""
    return {
        "say": text,
        "shown": list(shown),
        "order": list(order),
        "bars": list(bars),
        "done": list(done),
        "new": list(new),
        "cut": list(cut),
    }
