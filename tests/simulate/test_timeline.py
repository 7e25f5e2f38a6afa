"""The trace of a run: what Perfetto and Chrome need to draw it, and that it tells what happened."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from tests.language.test_broken import kernel_of
from tests.language.test_examples import NAMES, trace
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.simulate.hostile import run_hostile
from tidegate.simulate.inorder import make_inputs
from tidegate.simulate.kernel_steps import statements_of
from tidegate.simulate.timeline import TRACKS, Timeline
from tidegate.targets import load_target

Event = dict[str, Any]


def draw(kernel: Kernel, seed: int = 0, sizes: dict[str, int] | None = None) -> Timeline:
    timeline = Timeline(kernel.name, statements_of(kernel))
    inputs = make_inputs(kernel, sizes, seed)
    run_hostile(kernel, inputs, target=load_target(kernel.target), sizes=sizes, seed=seed, listener=timeline)
    return timeline


def events(timeline: Timeline, phase: str, category: str = "") -> list[Event]:
    found: list[Event] = json.loads(timeline.text())["traceEvents"]
    return [each for each in found if each["ph"] == phase and category in ("", each.get("cat"))]


DRAWN = [*NAMES, "broken/missing_barrier", "broken/mbarrier_bytes", "broken/inversion", "broken/fixed/expects_nothing"]


@pytest.fixture(scope="module", params=DRAWN)
def timeline(request: pytest.FixtureRequest) -> Timeline:
    name = request.param
    if not name.startswith("broken/"):
        return draw(trace(name), seed=1)
    return draw(kernel_of(name.rpartition("/")[2], fixed="fixed" in name), seed=1)


# --- every trace --------------------------------------------------------------------------------------------------


def test_text_is_the_trace(timeline: Timeline) -> None:
    loaded = json.loads(timeline.text())
    assert loaded == timeline.trace()
    assert list(loaded) == ["displayTimeUnit", "otherData", "traceEvents"]
    assert loaded["otherData"]["kernel"] == timeline.name
    assert {each["ph"] for each in loaded["traceEvents"]} <= set("MXiCsf")


def test_every_slice_starts_before_it_ends(timeline: Timeline) -> None:
    slices = events(timeline, "X")
    assert slices
    for each in slices:
        assert isinstance(each["ts"], int)
        assert isinstance(each["dur"], int)
        assert each["dur"] > 0


def test_slices_of_one_track_nest(timeline: Timeline) -> None:
    tracks = defaultdict(list)
    for each in events(timeline, "X"):
        tracks[each["pid"], each["tid"]].append((each["ts"], each["ts"] + each["dur"]))
    for spans in tracks.values():
        spans.sort(key=lambda span: (span[0], -span[1]))
        open_: list[int] = []
        for start, end in spans:
            while open_ and open_[-1] <= start:
                open_.pop()
            assert not open_ or end <= open_[-1]
            open_.append(end)


def test_every_track_has_a_name_of_its_own(timeline: Timeline) -> None:
    labels = [each for each in events(timeline, "M") if each["name"] == "thread_name"]
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in labels}
    assert len(labels) == len(names)
    used = {(each["pid"], each["tid"]) for phase in "Xisf" for each in events(timeline, phase)}
    assert used <= set(names)
    for (_, thread), name in names.items():
        assert name.split()[1] == str(thread // TRACKS)
    for process in {pid for pid, _ in names}:
        mine = [name for (pid, _), name in names.items() if pid == process]
        assert len(mine) == len(set(mine))
    processes = [each["args"]["name"] for each in events(timeline, "M") if each["name"] == "process_name"]
    assert processes
    assert len(processes) == len(set(processes))


def test_counters_go_up_and_back_to_nothing(timeline: Timeline) -> None:
    last: dict[tuple[int, str], int] = {}
    times = defaultdict(list)
    for each in events(timeline, "C"):
        last[each["pid"], each["name"]] = each["args"]["in flight"]
        times[each["pid"], each["name"]].append(each["ts"])
        assert each["args"]["in flight"] >= 0
    if timeline.name != "mbarrier_bytes":
        assert set(last.values()) <= {0}
    for stamps in times.values():
        assert all(before < after for before, after in pairwise(stamps))


def test_flows_lead_from_an_arrival_forward_to_a_departure(timeline: Timeline) -> None:
    starts = {each["id"]: each for each in events(timeline, "s")}
    ends = {each["id"]: each for each in events(timeline, "f")}
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["ts"] < ends[number]["ts"]
        assert start["pid"] == ends[number]["pid"]
    waits = [each for each in events(timeline, "X", "wait") if "rendezvous" in each["args"]]
    assert len(waits) == len(ends)


# --- what a trace tells -------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_trace() -> None:
    kernel = trace("gemm_pingpong")
    assert draw(kernel, 3).text() == draw(kernel, 3).text() != draw(kernel, 4).text()


def test_accesses_carry_bytes_buffer_statement_and_iteration() -> None:
    timeline = draw(trace("gemm_two_slots"), sizes={"M": 64, "N": 64, "K": 64})
    reads = [each for each in events(timeline, "X", "read") if each["name"] == "local_read"]
    assert len(reads) == 4 * 2 * 2
    assert {each["args"]["buffer"] for each in reads} == {"%a", "%b"}
    assert {each["args"]["iteration"]["%k"] for each in reads} == {0, 1}
    (first, *_) = [each for each in reads if each["args"]["buffer"] == "%a" and each["args"]["iteration"]["%k"] == 1]
    assert first["args"]["statement"].startswith("%a_tile = local_read %a[%k mod 2]")
    low, high = map(int, first["args"]["bytes"].split(".."))
    assert high - low == 32 * 32 * 2
    assert low >= 64 * 32 * 2


def test_bytes_move_while_the_access_is_in_flight() -> None:
    for each in events(draw(trace("gemm_gather")), "X"):
        if "moved" in each["args"]:
            assert each["ts"] <= each["args"]["moved"] <= each["ts"] + each["dur"]


def test_a_wave_waits_from_its_arrival_to_its_departure() -> None:
    timeline = draw(trace("gemm_two_slots"), sizes={"M": 64, "N": 64, "K": 96})
    arrivals = {(each["tid"] // TRACKS, each["ts"]) for each in events(timeline, "i", "arrival")}
    waits = {(each["tid"] // TRACKS, each["ts"]) for each in events(timeline, "X", "wait")}
    assert len(waits) == 4 * 3
    assert waits == arrivals


def test_nobody_departs_from_a_rendezvous_before_the_last_arrival() -> None:
    """Read off the trace alone: the last arrival of each number comes before all departures of it."""
    waits = defaultdict(list)
    for each in events(draw(trace("gemm_pingpong"), 2), "X", "wait"):
        waits[each["pid"], each["args"]["rendezvous"]].append((each["ts"], each["ts"] + each["dur"]))
    assert waits
    for spans in waits.values():
        assert max(start for start, _ in spans) < min(end for _, end in spans)


def test_each_workgroup_is_a_process_and_comes_after_the_one_before() -> None:
    timeline = draw(trace("gemm_two_slots"), sizes={"M": 128, "N": 64, "K": 32})
    times = defaultdict(list)
    for each in events(timeline, "X"):
        times[each["pid"]].append(each["ts"])
    assert list(times) == [1, 2]
    assert max(times[1]) < min(times[2])


def test_a_race_is_red() -> None:
    timeline = draw(kernel_of("missing_barrier"))
    (race,) = events(timeline, "i", "race")
    assert race["cname"] == "terrible"
    assert race["name"] == "race: %tile"
    assert "local_write %a, %tile[wave]" in race["args"]["first"]
    assert "local_read" in race["args"]["second"]
    assert not events(draw(kernel_of("missing_barrier", fixed=True)), "i", "race")


def test_what_hangs_is_unfinished() -> None:
    """A write that nothing waits for, before a wait that never ends: its slice says so, and the wait has none."""
    text = """target sm_90
    kernel @f() waves 1 {
      %t = alloc : lds<4xf32>
      %m = new_barrier : mbarrier<1>
      %z = fill 0.0 : tile<4xf32>
      local_write %z, %t
      mbarrier_wait %m parity 0
    }"""
    (kernel,) = parse(text, "k.tide").kernels
    timeline = draw(kernel)
    hang, write = sorted(events(timeline, "X"), key=lambda each: each["name"])
    assert write["args"]["unfinished"] is True
    assert hang["name"] == "hangs: %m[0]"
    assert "0 of 1 arrivals" in hang["args"]["for"]
    assert hang["ts"] + hang["dur"] >= write["ts"] + write["dur"]
    assert not any("unfinished" in each["args"] for each in events(draw(trace("scan")), "X"))
