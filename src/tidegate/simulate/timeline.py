"""A run on the hostile machine as a trace for Perfetto or Chrome: who had what in flight, and who waited for whom.

Needs   to be the listener of a run (`statistics.Listener`), and the texts of its statements
Gives   a JSON object in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open
Keeps   every slice starts before it ends; slices on one track nest; the same run gives the same trace
Cost    linear in the steps, times the tracks of a wave for a slice

Time counts the steps of all waves, one microsecond each. A workgroup is a process, a wave a thread. Where accesses of a
wave are in flight at once and do not nest, further tracks `wave 2 (b)` stand below its own.

    {"displayTimeUnit": "ms", "otherData": {"kernel": ..., "time": "steps"}, "traceEvents": [...]}

    ph  what                                    name, cat, and args
    M   names and order of processes and tracks `process_name`, `thread_name`, `thread_sort_index`
    X   an access, from its issue until the     the word of its operation; `read`, `write`, `atomic`, `copy`
        machine is sure that it is performed    bytes, buffer, statement, iteration, moved: when its bytes moved
    X   a wait at a barrier, from the arrival   `wait: the workgroup barrier`; `wait`
        (or the step before) to the departure   statement, and of a rendezvous its number
    X   a wait that never ends, in red          `hangs: %full[1]`; `hang`; statement, for: what it waits for
    i   an arrival                              `arrive: the workgroup barrier`; `arrival`; statement
    i   a race, in red                          `race: %tile`; `race`; first, second, bytes
    C   operations in flight on a counter       `wave 0 vmcnt`; `counter`; in flight
    s f from the last arrival of a rendezvous   `rendezvous`; `rendezvous`; id is unique in the trace
        to each departure from it

An access on global memory that no wait can be for is not in flight: it has a slice of one step. One that is in flight
when its workgroup hangs ends there, with `"unfinished": true`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.simulate.barriers import Barrier
from tidegate.simulate.findings import Statement
from tidegate.simulate.races import Clash
from tidegate.simulate.steps import Arrive, Await, Depart, Issue, Step, Touch

TracePoint = dict[str, Any]
# Threads of one wave have numbers next to one another.
TRACKS = 4096
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@dataclass(slots=True)
class _Slice:
    """From `start` to `end` on some track of a wave."""

    wave: int
    start: int
    end: int
    event: TracePoint


@dataclass(slots=True)
class _Workgroup:
    """What a workgroup is doing: accesses in flight, arrivals not departed from, the last step of each wave."""

    number: int
    issued: list[int]
    last: list[int]
    open: dict[tuple[int, int], tuple[int, Touch]] = field(default_factory=dict)
    moved: dict[tuple[int, int], int] = field(default_factory=dict)
    arrived: dict[tuple[int, Barrier], list[int]] = field(default_factory=dict)
    meetings: dict[tuple[Barrier, int], tuple[int, int]] = field(default_factory=dict)  # last arrival: time, wave
    counts: dict[tuple[Barrier, int, bool], int] = field(default_factory=dict)
    counters: dict[tuple[int, str], TracePoint] = field(default_factory=dict)
    slices: list[_Slice] = field(default_factory=list)


class Timeline:
    """Listens to a run; `trace()` gives what it has heard."""

    def __init__(self, name: str, statements: Sequence[Statement]) -> None:
        self.name = name
        self.statements = statements
        self.names: list[TracePoint] = []
        self.events: list[TracePoint] = []
        self.groups = 0
        self.flows = 0
        self.group = _Workgroup(0, [], [])

    def trace(self) -> TracePoint:
        """The whole trace."""
        about = {"kernel": self.name, "time": "steps"}
        return {"displayTimeUnit": "ms", "otherData": about, "traceEvents": [*self.names, *self.events]}

    def text(self) -> str:
        """The trace as JSON, one event on each line."""
        trace = self.trace()
        lines = ",\n".join(map(json.dumps, trace.pop("traceEvents")))
        return f'{json.dumps(trace)[:-1]}, "traceEvents": [\n{lines}\n]}}\n'

    # --- what it hears ---

    def workgroup(self, place: tuple[int, int, int], waves: int, time: int) -> None:
        self.groups += 1
        self.group = _Workgroup(self.groups, [0] * waves, [time] * waves)
        self._name("process_name", {"name": f"workgroup ({', '.join(map(str, place))})"})
        for wave in range(waves):
            self._track(wave, 0)

    def step(self, time: int, wave: int, step: Step) -> None:
        group = self.group
        match step:
            case Issue(touch):
                group.open[wave, group.issued[wave]] = (time, touch)
                group.issued[wave] += 1
            case Arrive():
                self._arrive(time, wave, step)
            case Depart() | Await():
                self._depart(time, wave, step)
        group.last[wave] = time

    def performed(self, time: int, wave: int, number: int) -> None:
        self._close(time, wave, number, {})

    def moved(self, time: int, wave: int, number: int) -> None:
        self.group.moved[wave, number] = time

    def in_flight(self, time: int, wave: int, counter: str, count: int) -> None:
        """Of several changes at one time only the last is kept."""
        last = self.group.counters.get((wave, counter))
        if last is not None and last["ts"] == time:
            last["args"]["in flight"] = count
            return
        event = self._event("C", time, wave, f"wave {wave} {counter}", "counter", {"in flight": count})
        self.group.counters[wave, counter] = event
        self.events.append(event)

    def clash(self, time: int, clash: Clash) -> None:
        first, second = (self.statements[party.touch.where] for party in (clash.first, clash.second))
        about = {
            "first": f"wave {clash.first.wave}: {first.text}",
            "second": f"wave {clash.second.wave}: {second.text}",
            "bytes": f"{clash.bytes[0]}..{clash.bytes[1]}",
        }
        name = f"{'wrong order' if clash.kind == 'inversion' else 'race'}: {second.memory}"
        event = self._event("i", time, self._issuing(time), name, "race", about)
        self.events.append({**event, "s": "t", "cname": "terrible"})

    def hangs(self, time: int, wave: int, step: Depart | Await, what: str) -> None:
        """A slice from the wave's last step to the end."""
        start = self.group.last[wave]
        about = {"statement": self.statements[step.where].text, "for": what}
        event = self._event("X", start, wave, f"hangs: {_name(step.barrier)}", "hang", about)
        self.group.slices.append(_Slice(wave, start, time + 1, {**event, "cname": "terrible"}))

    def end(self, time: int) -> None:
        """Closes what is open, and finds a track for each slice."""
        group = self.group
        for wave, number in list(group.open):
            _, touch = group.open[wave, number]
            if touch.region is None:
                self._close(group.open[wave, number][0] + 1, wave, number, {})
            else:
                self._close(time + 1, wave, number, {"unfinished": True})
        self._place(group.slices)

    # --- barriers ---

    def _arrive(self, time: int, wave: int, step: Arrive) -> None:
        group, barrier = self.group, step.barrier
        group.arrived.setdefault((wave, barrier), []).append(time)
        number = self._count(barrier, wave, arrivals=True)
        group.meetings[barrier, number] = (time, wave)
        text = {"statement": self.statements[step.where].text}
        self.events.append({**self._event("i", time, wave, f"arrive: {_name(barrier)}", "arrival", text), "s": "t"})

    def _depart(self, time: int, wave: int, step: Depart | Await) -> None:
        """A wait by parity has no arrival of its own: the wave waits since its last step."""
        group, barrier = self.group, step.barrier
        arrived = group.arrived.get((wave, barrier)) if isinstance(step, Depart) else None
        start = arrived.pop(0) if arrived else group.last[wave]
        about: TracePoint = {"statement": self.statements[step.where].text}
        if not barrier.arrivals:
            number = about["rendezvous"] = self._count(barrier, wave, arrivals=False)
            if (barrier, number) in group.meetings:
                self._flow(*group.meetings[barrier, number], time, wave)
        if start < time:
            event = self._event("X", start, wave, f"wait: {_name(barrier)}", "wait", about)
            group.slices.append(_Slice(wave, start, time, event))

    def _count(self, barrier: Barrier, wave: int, *, arrivals: bool) -> int:
        key = (barrier, wave, arrivals)
        self.group.counts[key] = self.group.counts.get(key, 0) + 1
        return self.group.counts[key]

    def _flow(self, start: int, source: int, end: int, dest: int) -> None:
        self.flows += 1
        for phase, time, wave in (("s", start, source), ("f", end, dest)):
            event = self._event(phase, time, wave, "rendezvous", "rendezvous", {})
            self.events.append({**event, "id": self.flows, **({"bp": "e"} if phase == "f" else {})})

    # --- slices and tracks ---

    def _close(self, time: int, wave: int, number: int, more: TracePoint) -> None:
        start, touch = self.group.open.pop((wave, number))
        statement = self.statements[touch.where]
        about: TracePoint = {
            "bytes": str(touch.region).removeprefix("bytes ") if touch.region and touch.region.stretches else "",
            "buffer": statement.memory,
            "statement": statement.text,
            "iteration": dict(touch.loops),
        }
        if (wave, number) in self.group.moved:
            about["moved"] = self.group.moved.pop((wave, number))
        word = statement.text.partition(" = ")[2] or statement.text
        kind = "copy" if touch.is_async else touch.effect
        event = self._event("X", start, wave, word.split()[0], kind, {**about, **more})
        self.group.slices.append(_Slice(wave, start, time, event))

    def _place(self, slices: list[_Slice]) -> None:
        """Each slice on the first track of its wave where it nests with all before it."""
        tracks: dict[int, list[list[int]]] = {}  # of each wave, for each track the ends of the slices that are open
        for each in sorted(slices, key=lambda s: (s.start, -s.end, s.wave)):
            mine = tracks.setdefault(each.wave, [[]])
            for ends in mine:
                while ends and ends[-1] <= each.start:
                    ends.pop()
            fitting = (place for place, ends in enumerate(mine) if not ends or each.end <= ends[-1])
            place = next(fitting, len(mine))
            if place == len(mine):
                mine.append([])
                self._track(each.wave, place)
            mine[place].append(each.end)
            each.event["tid"] += place
            each.event["dur"] = each.end - each.start
            self.events.append(each.event)

    def _issuing(self, time: int) -> int:
        """The wave that issued an access at this time."""
        return next((wave for wave, last in enumerate(self.group.last) if last == time), 0)

    # --- events ---

    def _track(self, wave: int, place: int) -> None:
        label = f"wave {wave}" if not place else f"wave {wave} ({_letters(place)})"
        self._name("thread_name", {"name": label}, wave * TRACKS + place)
        self._name("thread_sort_index", {"sort_index": wave * TRACKS + place}, wave * TRACKS + place)

    def _name(self, name: str, about: TracePoint, thread: int = 0) -> None:
        self.names.append({"ph": "M", "pid": self.group.number, "tid": thread, "name": name, "args": about})

    def _event(self, phase: str, time: int, wave: int, name: str, category: str, about: TracePoint) -> TracePoint:
        place = {"pid": self.group.number, "tid": wave * TRACKS}
        return {"ph": phase, "ts": time, **place, "name": name, "cat": category, "args": about}


def _name(barrier: Barrier) -> str:
    return str(barrier).replace("`", "")


def _letters(place: int) -> str:
    return ALPHABET[place] if place < len(ALPHABET) else str(place)
