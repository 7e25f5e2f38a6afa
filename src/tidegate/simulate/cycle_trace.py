"""The timeline of an estimate as a file for Perfetto and Chrome: one microsecond there is one cycle.

Needs   an estimate with its events, and the graph
Gives   text in the Trace Event Format: for each wave a track of what holds it up, and one for each unit it uses
Keeps   the same estimate gives the same text
Cost    linear in the events
"""

from __future__ import annotations

import json

from tidegate.graph.model import SyncGraph
from tidegate.simulate.cycles import Estimate

TRACKS = ("held up", "alu", "lds", "global", "mma")


def trace_of(estimate: Estimate, graph: SyncGraph) -> str:
    """The text of the file."""
    found: list[dict[str, object]] = []
    for wave in range(graph.waves * estimate.workgroups):
        group, own = divmod(wave, graph.waves)
        found.append(_name("process_name", group, 0, f"workgroup {group}"))
        for place, track in enumerate(TRACKS):
            found.append(_name("thread_name", group, _track(own, place), f"wave {own}: {track}"))
    for event in estimate.events:
        group, own = divmod(event.wave, graph.waves)
        reason = event.what.removeprefix("stalled: ")
        held, point = reason != event.what, graph.points[event.where]
        place = 0 if held else TRACKS.index(event.what)
        found.append(
            {
                "ph": "X",
                "pid": group,
                "tid": _track(own, place),
                "ts": round(event.start, 3),
                "dur": round(event.end - event.start, 3),
                "name": reason if held else point.label or point.role,
                "cat": "held up" if held else event.what,
                "args": {"point": event.where, "line": point.at.line, "label": point.label},
            }
        )
    about = {"kernel": graph.name, "time": "cycles"}
    return json.dumps({"traceEvents": found, "otherData": about}, indent=1) + "\n"


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}


def _track(wave: int, place: int) -> int:
    return wave * len(TRACKS) + place
