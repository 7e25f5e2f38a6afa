"""Wave's assembly beside the barriers of its traces: kernels that match, and texts that were damaged on purpose."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from bench.wave_assembly import Row, compare, table
from bench.wave_plan import barriers_by_depth, plan_text
from bench.wave_races import RACES, find_race
from oracles.wave_kernels import Assembled, assembled, trace_of
from oracles.wave_traces.wave_traces import CASES
from tidegate.comparison.code import read_assembly
from tidegate.comparison.match import mismatches
from tidegate.comparison.paths import END, ENTRY, WITHOUT_END, events_of


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


def made(name: str, target: str, counts: bool = False) -> Assembled:
    return _made(name, target, counts)


@cache
def _made(name: str, target: str, counts: bool) -> Assembled:
    return assembled(CASES[name], target, {"counts": counts})


def compared(name: str, target: str, counts: bool = False, text: str = "") -> Row:
    found = made(name, target, counts)
    return compare(name, target, text or found.text, found.steps)


def without(text: str, pattern: str, number: int = 0) -> str:
    """A text without one of its lines."""
    place = list(re.finditer(rf"^\t{pattern}.*\n", text, re.MULTILINE))[number]
    return text[: place.start()] + text[place.end() :]


# --- paths --------------------------------------------------------------------------------------------------------


def written(*lines: str) -> str:
    code = [each if each.startswith(".") else f"\t{each}" for each in lines]
    return "\n".join(["kernel:", *code, "\ts_endpgm", ".Lfunc_end0:"])


def test_what_lies_between_two_barriers_is_the_most_of_any_path() -> None:
    text = written("ds_write_b64 v0, v[2:3]", "s_cbranch_execz .LBB0_1", "ds_write2_b32 v0, v2, v3", ".LBB0_1:")
    (blocks,) = read_assembly(text.replace("\ts_endpgm", "\ts_barrier\n\tds_read_u16 v0, v1\n\ts_endpgm"))
    events = events_of(blocks)
    assert events.after[ENTRY] == {6: (0, 16, 0, 0)}
    assert events.after[6] == {END: (2, 0, 0, 0)}
    assert not events.has_loops


def test_a_loop_without_a_barrier_has_no_end() -> None:
    (blocks,) = read_assembly(written(".LBB0_1:", "ds_read_b128 v[0:3], v4", "s_cbranch_scc0 .LBB0_1", "s_barrier"))
    events = events_of(blocks)
    assert events.after[ENTRY] == {5: (WITHOUT_END, 0, 0, 0)}
    assert events.has_loops


def test_copies_in_flight_are_those_that_a_wait_leaves() -> None:
    copy, load = "buffer_load_dwordx4 v0, s[0:3], 0 offen lds", "global_load_dwordx4 v[0:3], v4, off"
    (blocks,) = read_assembly(written(copy, copy, load, copy, "s_waitcnt vmcnt(3)", "s_barrier"))
    assert events_of(blocks).copies == {7: 2}


def test_a_flag_that_was_just_set_decides_a_branch() -> None:
    """LLVM leaves a loop by a flag; there is no way around past the barrier."""
    enter = ["s_branch .LBB0_3", ".LBB0_1:", "s_waitcnt lgkmcnt(0)", "s_barrier", "s_mov_b64 s[0:1], 0", ".LBB0_2:"]
    leave = ["s_andn2_b64 vcc, exec, s[0:1]", "s_cbranch_vccz .LBB0_5", ".LBB0_3:", "ds_read_b32 v0, v1"]
    ends = ["s_cbranch_scc0 .LBB0_1", "s_mov_b64 s[0:1], -1", "s_branch .LBB0_2", ".LBB0_5:"]
    for flag, most in (("s_mov_b64 s[0:1], -1", 4), ("s_mov_b64 s[0:1], s[2:3]", WITHOUT_END)):
        text = written(*enter, *leave, ends[0], flag, *ends[2:])
        assert events_of(*read_assembly(text)).after[ENTRY] == {5: (most, 0, 0, 0), END: (most, 0, 0, 0)}


STEPS = [
    {"op": "iterate", "graph": "body", "count": 3, "depth": 0},
    {"op": "write", "does": "write", "bytes": 16, "graph": "body", "depth": 1},
    {"op": "shared_memory_barrier", "args": [False, False], "graph": "body", "depth": 1},
    {"op": "read", "does": "read", "bytes": 16, "graph": "body", "depth": 1},
    {"op": "shared_memory_barrier_signal", "args": [-1, False], "graph": "body", "depth": 1},
    {"op": "shared_memory_barrier_wait", "args": [-1], "graph": "body", "depth": 1},
    {"op": "end", "graph": "body", "depth": 0},
]


def test_a_plan_is_written_as_assembly_and_matches_itself() -> None:
    assert barriers_by_depth(STEPS) == {1: 2}
    loop, unrolled = (events_of(*read_assembly(plan_text(STEPS, "gfx1201", unrolled=each))) for each in (False, True))
    assert (loop.barriers, unrolled.barriers) == (2, 6)
    assert mismatches(loop, loop)[0] == mismatches(unrolled, loop)[0] == []
    assert mismatches(loop, unrolled)[0]


# --- kernels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target", "counts"),
    [
        ("gemm-none", "gfx942", False),
        ("gemm-none", "gfx950", False),
        ("gemm-none", "gfx1201", False),
        ("gemm-none", "gfx1250", False),
        ("gemm-async-none", "gfx950", False),
        pytest.param("pingpong-async-2", "gfx950", True, marks=pytest.mark.slow),
    ],
)
def test_the_assembly_has_the_barriers_and_the_drains_of_the_trace(name: str, target: str, counts: bool) -> None:
    row = compared(name, target, counts)
    assert row.wrong == []
    assert row.assembly >= sum(row.trace.values()) > 0
    assert made(name, target, counts).why_not == ""
    assert (row.counted == [1, 0, 0]) == counts


@pytest.mark.parametrize("number", range(4))
def test_a_barrier_that_is_lost_is_reported(number: int) -> None:
    assert compared("gemm-none", "gfx942", text=without(made("gemm-none", "gfx942").text, "s_barrier", number)).wrong


@pytest.mark.slow
@pytest.mark.parametrize("number", range(7))
def test_a_barrier_of_waves_that_take_turns_is_missed(number: int) -> None:
    """Two of the seven are met by half of the waves only."""
    text = without(made("pingpong-async-2", "gfx950", True).text, "s_barrier", number)
    assert compared("pingpong-async-2", "gfx950", True, text).wrong


@pytest.mark.slow
def test_a_count_that_leaves_more_in_flight_is_reported_and_a_stricter_one_is_said() -> None:
    text = made("pingpong-async-2", "gfx950", True).text
    assert text.count("vmcnt(6)") == 1
    copy = re.search(r"^\tbuffer_load_dwordx4 .* lds\n", text, re.MULTILINE)[0]
    assert compared("pingpong-async-2", "gfx950", True, text.replace(copy, copy * 2)).wrong
    row = compared("pingpong-async-2", "gfx950", True, text.replace("vmcnt(6)", "vmcnt(5)"))
    assert (row.wrong, row.counted) == ([], [0, 1, 0])


@pytest.mark.parametrize("half", ["s_barrier_signal", "s_barrier_wait"])
def test_half_of_a_barrier_that_is_lost_is_reported(half: str) -> None:
    assert compared("gemm-none", "gfx1201", text=without(made("gemm-none", "gfx1201").text, half, 1)).wrong


@pytest.mark.parametrize(("target", "wait"), [("gfx942", r"s_waitcnt lgkmcnt\(0\)\n\ts_barrier"), ("gfx1201", "")])
def test_a_drain_that_is_lost_is_reported(target: str, wait: str) -> None:
    wait = wait or r"s_wait_dscnt 0x0\n\ts_barrier_signal -1"
    text = made("gemm-none", target).text
    row = compared("gemm-none", target, text=re.sub(wait, wait.split("\\t")[1], text, count=1))
    assert any("are in flight" in each for each in row.wrong)


def test_a_wait_for_copies_that_is_lost_or_weaker_is_reported() -> None:
    text = made("gemm-async-none", "gfx950").text
    for other in ("", "vmcnt(2)"):
        row = compared("gemm-async-none", "gfx950", text=text.replace("vmcnt(0)", other))
        assert any("copies are in flight" in each for each in row.wrong)


def test_an_access_that_has_crossed_a_barrier_is_reported() -> None:
    text = made("gemm-none", "gfx942").text
    write = re.search(r"^\tds_write.*\n", text, re.MULTILINE)[0]
    row = compared("gemm-none", "gfx942", text=text.replace("\ts_barrier\n", f"\ts_barrier\n{write}", 1))
    assert any("before it, in the plan" in each for each in row.wrong)


def test_a_barrier_too_many_is_reported() -> None:
    text = made("gemm-async-none", "gfx950").text
    row = compared("gemm-async-none", "gfx950", text=text.replace("\ts_endpgm", "\ts_barrier\n\ts_endpgm"))
    assert row.wrong
    assert "0 as in the trace, 1 not" in table([row])
    assert "**wrong**" in table([row])


def test_what_does_not_compile_is_said() -> None:
    row = Row("k", "gfx942", error="a | b", is_waves=True)
    assert row.is_good
    assert "1 do not compile at all" in table([row])
    assert not Row("k", "gfx942", error="a").is_good


# --- races of Wave's own ------------------------------------------------------------------------------------------


def test_a_race_reaches_the_assembly_with_waves_own_barriers_only() -> None:
    race = next(each for each in RACES if each.name == "pass-around")
    case = CASES["pass-around"]
    lines = find_race(assembled(case, "gfx942").text, race)
    assert [re.sub(r" *\d+ +", "", each, count=1).split()[0] for each in (lines[0], lines[-1])] == [
        "ds_read_b32",
        "ds_write_b32",
    ]
    assert not any("s_barrier" in each for each in lines)
    assert find_race(made("pass-around", "gfx942").text, race) == []
    assert compared("pass-around", "gfx942").wrong == []


# --- the same question, asked by a user ---------------------------------------------------------------------------


def test_a_trace_beside_its_assembly(tmp_path: Path) -> None:
    """`tg.against` takes the trace with the barriers that Wave has put in."""
    case, found = CASES["gemm-none"], []
    text = assembled(case, "gfx942").text

    def ask(trace: Any, constraints: list[Any], options: Any) -> None:
        for number, each in enumerate((text, without(text, "s_barrier"))):
            path = tmp_path / f"{number}.s"
            path.write_text(each, encoding="utf-8")
            found.append(tg.against(path, trace, "gfx942", constraints=constraints, subs=options.subs))

    trace_of(case, "gfx942", after=ask)
    right, damaged = found
    assert right.differences == ()
    assert right.planned == 2
    assert damaged.is_weaker
