"""What Triton makes of Tidegate's plans: what is asked of the assembly, and what it costs to compile."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import pytest

from bench import __main__ as bench_main
from bench import page as page_file
from bench import triton_assembly as assembly
from bench import triton_assembly_table as tables
from bench import triton_compile as compiling
from bench import triton_levels as levels
from bench.triton_assembly_table import Row
from oracles.triton_kernels.texts import pair_named, pairs
from tidegate.comparison import code as amdgcn
from tidegate.hosts.triton import libtriton

NEEDS_TRITON = pytest.mark.skipif(
    not libtriton.is_installed(),
    reason="NOT TESTED: Triton is not installed, and there is nothing to compile; `pip install tidegate[triton]`",
)


def followed(code: str) -> amdgcn.Followed:
    """A function of the given lines, from line 2 on."""
    lines = [each if each.startswith(("\t", ".", ";")) else f"\t{each}" for each in code.strip().split("\n")]
    (blocks,) = amdgcn.read_assembly("\n".join(["kernel:", *lines, "\ts_endpgm", ".Lfunc_end0:"]))
    return amdgcn.follow(blocks)


# --- what is in flight --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "in_flight"),
    [
        ("ds_write_b64 v1, v[2:3]\ns_barrier", {3: (2,)}),
        ("ds_write_b64 v1, v[2:3]\ns_waitcnt lgkmcnt(0)\ns_barrier", {4: ()}),
        ("ds_write_b64 v1, v[2:3]\ns_waitcnt vmcnt(0)\ns_barrier", {4: (2,)}),
        ("ds_write_b64 v1, v[2:3]\ns_waitcnt vmcnt(3) lgkmcnt(0)\ns_barrier", {4: ()}),
        ("ds_read_b64 v[2:3], v1\nds_read_b64 v[4:5], v1\ns_waitcnt lgkmcnt(1)\ns_barrier", {5: (3,)}),
        ("ds_bpermute_b32 v2, v1, v3\ns_barrier", {3: ()}),
        ("ds_load_b128 v[2:5], v1\ns_wait_loadcnt_dscnt 0x300\ns_barrier_signal -1\ns_barrier_wait -1", {4: ()}),
        ("ds_load_b128 v[2:5], v1\ns_wait_loadcnt_dscnt 0x1\ns_barrier_signal -1\ns_barrier_wait -1", {4: (2,)}),
        ("buffer_store_dwordx4 v[0:3], v8, s[12:15], 0 offen\ns_barrier", {3: ()}),
    ],
)
def test_a_wait_covers_what_has_enough_behind_it(code: str, in_flight: dict) -> None:
    assert followed(code).barriers == in_flight


def test_all_paths_are_followed() -> None:
    loop = """
.LBB0_1:
s_waitcnt lgkmcnt(0)
s_barrier
s_cbranch_scc0 .LBB0_3
; %bb.2:
ds_read_b64 v[2:3], v1
s_branch .LBB0_1
.LBB0_3:
s_barrier"""
    assert followed(loop).barriers == {4: (), 10: ()}
    without = followed(loop.replace("s_waitcnt lgkmcnt(0)", "s_nop 0"))
    assert without.barriers == {4: (7,), 10: (7,)}


def test_an_access_between_a_signal_and_its_wait_is_found() -> None:
    code = "s_barrier_signal -1\nds_load_b32 v2, v1\ns_barrier_wait -1\nds_load_b32 v3, v1"
    assert followed(code).between == {3}


MARKED = """
buffer_load_dwordx4 v0, s[8:11], 0 offen lds
; asyncmark
buffer_load_dwordx4 v0, s[8:11], 0 offen lds
buffer_load_dwordx4 v0, s[8:11], 0 offen lds
; asyncmark
; wait_asyncmark(1)
s_waitcnt vmcnt(2)
s_barrier""".replace("; ", "\t; ")


def test_a_wait_for_marks_is_as_strict_as_it_says() -> None:
    assert not followed(MARKED).missed
    assert followed(MARKED.replace("vmcnt(2)", "vmcnt(3)")).missed == {7: (2,)}
    assert followed(MARKED.replace("asyncmark(1)", "asyncmark(0)")).missed == {7: (4, 5)}


# --- Triton's kernels ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@NEEDS_TRITON
@pytest.mark.parametrize(
    ("name", "outcome", "why"),
    [
        ("softmax.gfx1201", tables.EQUAL, ""),
        ("matmul-s3-w4.gfx950", tables.EQUAL, ""),
        ("gluon-matmul-moved-s2.gfx1250", tables.EQUAL, ""),
        ("gluon-alternate.gfx942", tables.MORE, "LLVM's optimizer copies blocks, 1 → 9"),
        ("column-sums.gfx942", tables.MORE, "operations bring along 3, of which the graph has 1"),
        ("gluon-matmul-stages-s3.gfx950", tables.MORE, "2 that only half of the waves come to"),
    ],
)
def test_the_assembly_has_what_the_plan_says(name: str, outcome: str, why: str) -> None:
    row = assembly.examine(pair_named(name))
    assert row.outcome == outcome
    assert not list(tables.wrong(row))
    assert row.size > 0
    assert row.triton >= row.barriers[-1]
    assert why in tables.table([asdict(row)], [(0, 1)])
    assert row.taken[1] > 0 or not row.taken[0]
    assert (".gfx9" in name or "moved" in name) or row.waits == [[]] * 4


@NEEDS_TRITON
def test_what_is_lost_on_the_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that forgets a barrier and its drain."""
    real = assembly.compile_to

    def forgetful(case, target, last):
        made, metadata = real(case, target, last)
        text = made["amdgcn"]
        made["amdgcn"] = re.sub(r"\ts_barrier\n", "", re.sub(r" *lgkmcnt\(0\)", "", text), count=1)
        return made, metadata

    monkeypatch.setattr(assembly, "compile_to", forgetful)
    row = assembly.examine(pair_named("softmax.gfx942"))
    assert row.outcome == tables.FEWER
    assert row.lost
    assert row.undrained
    sums = assembly.Sums([(0, 1)], [asdict(row)])
    assert not sums.is_good
    text = tables.table(sums.rows, sums.slices)
    assert text.startswith("| **WRONG**")
    assert "barriers 3 → 3 → 3 → 2" in text
    assert "barriers not drained, lines" in text


@NEEDS_TRITON
def test_only_amd_is_asked() -> None:
    sums = assembly.Sums()
    sums.add(next(each for each in pairs() if each.target == "sm_80"))
    assert not sums.rows


def test_one_wave_needs_no_barrier_and_bare_ones_are_named_apart() -> None:
    row = Row("k.gfx942", "gfx942", waves=1, barriers=[2, 2, 2, 0], waits=[[], [], [], []], taken=[0, 0])
    assert row.outcome == tables.ONE_WAVE
    assert not list(tables.wrong(row))
    bare = replace(row, waves=8, barriers=[2, 2, 2, 2], bare=1, open=[7])
    assert bare.undrained == 0
    assert list(tables.wrong(replace(bare, open=[7, 9]))) == ["barriers not drained, lines: 7, 9"]
    assert list(tables.wrong(replace(bare, waits=[[0, 4], [0], [0], [0]]))) == ["waits lost in lowering, counts: 4"]


def test_a_fallback_and_what_does_not_compile_are_listed() -> None:
    rows = [
        Row("a.gfx942", "gfx942", why_not="barrier objects", triton=4, taken=[0, 0]),
        Row("b.gfx950", "gfx950", error="RuntimeError: a | b"),
    ]
    text = tables.table([asdict(each) for each in rows], [(0, 2)])
    assert "| a.gfx942 | 4 | barrier objects |" in text
    assert "| b.gfx950 | RuntimeError: a / b |" in text


@pytest.mark.slow
def test_barriers_in_the_text_of_a_plan() -> None:
    text = "    ttg.barrier local\n    rocdl.s.barrier\n    rocdl.sched.barrier none\n    amdg.cond_barrier %1\n"
    assert levels.standing_in(text) == (3, 2, 1)


# --- compile time -------------------------------------------------------------------------------------------------


@NEEDS_TRITON
def test_a_kernel_is_compiled_all_three_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "WARM", ())
    monkeypatch.setattr(compiling, "ROUNDS", 1)
    sums = compiling.Sums([(0, 1)])
    sums.add(pair_named("softmax.sm_80"))
    (row,) = sums.rows
    assert not row["error"]
    assert 0 < row["tidegate inside"] < row["tidegate"]
    assert row["tidegate ratio"] == pytest.approx(row["tidegate"] / row["triton"])
    text = compiling.table(sums)
    assert "| measured | 1 | – | 1 |" in text
    assert "| softmax.sm_80 |" in text


@NEEDS_TRITON
def test_each_round_begins_with_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "in_a_child", lambda work, seconds: {"all": seconds})
    pair = pair_named("softmax.sm_80")
    assert [next(iter(compiling.a_round(pair, number))) for number in range(3)] == list(compiling.MODES)


def test_what_does_not_compile_is_said() -> None:
    sums = compiling.Sums([(0, 1)], [{"name": "k.sm_80", "error": "takes more than 180 s"}])
    assert not sums.is_good
    assert "| k.sm_80 | takes more than 180 s |" in compiling.table(sums)


def test_the_page_has_a_place_for_both() -> None:
    page = page_file.PAGE.read_text(encoding="utf-8")
    for name in ("triton-assembly", "triton-compile"):
        assert name in bench_main.BENCHMARKS
        assert name in bench_main.NEED_TRITON
        assert f"<!-- {name} -->" in page
        assert f"<!-- end of {name} -->" in page
