"""`tidegate check` on PTX: kernels written by hand, each right and with its mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oracles.programs.ptx_kernels import (
    DOUBLE,
    HISTOGRAM,
    RING,
    SHIFT,
    TAIL,
    TRANSPOSE,
    TREE,
    check,
    codes,
    kernel,
    program,
)
from tidegate import cli
from tidegate.diag import BadInput
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.simulate.judge import judge

Run = Callable[..., tuple[int, str]]


def proved(body: str, block: tuple[int, ...], size: int = 8192) -> bool:
    return check(kernel(body, size=size), block).is_proved


# --- right, and with its mistake ----------------------------------------------------------------------------------


def test_a_transposition_needs_its_barrier() -> None:
    assert proved(TRANSPOSE, (16, 16))
    assert codes(kernel(TRANSPOSE.replace("bar.sync 0;", "")), (16, 16)) == {"TG101", "TG108"}


def test_a_tree_is_followed_step_by_step() -> None:
    assert proved(TREE.format(last=0), (256,))
    lost = TREE.format(last=0).replace("$L2:\n  bar.sync 0;", "$L2:")
    assert "TG101" in codes(kernel(lost), (256,))


@pytest.mark.parametrize(("sync", "right"), [("bar.warp.sync 0xffffffff;", True), ("", False)])
def test_a_warp_at_the_end_of_a_tree_needs_warp_barriers(sync: str, right: bool) -> None:
    """Lanes run apart: a tail without `bar.warp.sync` was right on GPUs that are gone."""
    body = TREE.format(last=32) + TAIL.format(sync=sync)
    found = check(kernel(body), (256,))
    assert found.is_proved == right
    assert {each.code for each in found.findings} == (set() if right else {"TG108"})


def test_a_fence_of_one_warp_orders_nothing_in_another() -> None:
    """The fence stands in a region of warp 0; lanes of warp 1 pass it by."""
    only = "setp.ge.u32 %p3, %r1, 32;\n  @%p3 bra $L9;\n  bar.warp.sync 0xffffffff;\n$L9:"
    found = check(kernel(SHIFT.format(sync=only)), (64,))
    (finding,) = found.findings
    assert finding.code == "TG108"
    point = dict(dict(finding.witness)["point"])  # type: ignore[call-overload]
    assert point["u"] == point["v"] == 1


def test_a_toggled_slot_halves_the_barriers() -> None:
    assert proved(DOUBLE.format(barrier="bar.sync 0;", toggle=1), (256,))
    assert "TG102" in codes(kernel(DOUBLE.format(barrier="bar.sync 0;", toggle=0)), (256,))
    assert "TG101" in codes(kernel(DOUBLE.format(barrier="", toggle=1)), (256,))


def test_a_ring_of_three_slots() -> None:
    assert proved(RING.format(left=1, slots=3), (256,))
    assert not proved(RING.format(left=2, slots=3), (256,))
    assert not proved(RING.format(left=1, slots=2), (256,))
    without = RING.format(left=1, slots=3).replace("bar.sync 0;", "")
    assert not proved(without, (256,))


def test_remainders_of_counters_make_addresses_exact() -> None:
    found = program(kernel(RING.format(left=1, slots=3)), (256,))
    assert found.explored.exact == found.explored.touches == 4
    assert any(name.endswith("_by3") for name in found.explored.names)


def test_a_barrier_that_some_lanes_pass_by() -> None:
    body = "mov.u32 %r1, %tid.x;\n  setp.ge.u32 %p1, %r1, {n};\n  @%p1 bra $L1;\n  bar.sync 0;\n$L1:\n"
    tail = "  mov.u32 %r3, tile;\n  ld.shared.f32 %f1, [%r3];"
    assert "TG201" in codes(kernel(body.format(n=7) + tail), (64,))
    assert "TG202" in codes(kernel(body.format(n=32) + tail), (64,))
    assert check(kernel(body.format(n=64) + tail), (64,)).is_proved  # nobody passes it by


@pytest.mark.parametrize(("place", "right"), [("%rd1", True), ("%rd2", False)])
def test_an_argument_read_by_its_address_is_that_of_all_threads(place: str, right: bool) -> None:
    """CUTLASS keeps its arguments in a structure, and NVRTC reads those by the address of the parameter."""
    body = f"""
  mov.u32 %r1, %tid.x;
  mov.b64 %rd1, k_param_0;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd2, %rd1, %rd2;
  ld.param.u32 %r9, [{place}+8];
  setp.lt.s32 %p1, %r9, 1;
  @%p1 bra $L9;
"""
    tail = "  bar.sync 0;\n$L9:\n  mov.u32 %r3, tile;\n  ld.shared.f32 %f1, [%r3];"
    assert proved(body + tail, (64,)) is right


def test_an_early_exit_leaves_the_barrier_to_the_others() -> None:
    body = "mov.u32 %r1, %tid.x;\n  ld.param.u32 %r9, [k_param_1];\n  setp.ge.s32 %p1, %r1, %r9;\n  @%p1 {go};\n"
    assert proved(body.format(go="exit") + SHIFT.format(sync="bar.sync 0;"), (64,))
    assert proved(body.format(go="bra $L9") + SHIFT.format(sync="bar.sync 0;") + "$L9:", (64,))
    # What was written before the end is not known to those who go on.
    late = SHIFT.format(sync=body.format(go="exit").replace("mov.u32 %r1, %tid.x;", "") + "bar.sync 0;")
    assert not proved(late, (64,))


def test_a_histogram_by_atomics() -> None:
    add = "red.shared.add.u32 [%r6], 1;"
    assert proved(HISTOGRAM.format(add=add), (256,))
    fetched = "atom.shared.add.u32 %r8, [%r6], 1;"
    assert proved(HISTOGRAM.format(add=fetched), (256,))
    plain = "ld.shared.u32 %r8, [%r6];\n  st.shared.u32 [%r6], %r8;"
    found = check(kernel(HISTOGRAM.format(add=plain)), (256,))
    assert not found.is_proved
    assert "TG403" in {each.code for each in found.findings}


def test_the_block_decides() -> None:
    """Right for one warp at a time, wrong for two: the neighbour of lane 31 is in the next warp."""
    body = SHIFT.format(sync="bar.warp.sync 0xffffffff;").replace("xor.b32 %r5, %r2, 4", "xor.b32 %r5, %r2, 128")
    assert proved(body, (32,))
    assert codes(kernel(body), (64,)) == {"TG101"}


@pytest.mark.parametrize(
    "between", ["", "membar.cta;", "fence.acq_rel.cta;", "shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;"]
)
def test_lanes_of_a_warp_are_in_no_order(between: str) -> None:
    assert codes(kernel(SHIFT.format(sync=between)), (32,)) == {"TG108"}


def test_a_warp_barrier_orders_the_lanes_it_names() -> None:
    assert proved(SHIFT.format(sync="bar.warp.sync -1;"), (32,))
    assert not proved(SHIFT.format(sync="bar.warp.sync 0x0000ffff;"), (32,))


def test_barriers_of_all_threads_in_every_spelling() -> None:
    for text in ("bar.sync 0;", "barrier.sync 0;", "barrier.cta.sync.aligned 1;", "bar.sync 0, 64;", "bar.cta.sync 3;"):
        assert proved(SHIFT.format(sync=text).replace("xor.b32 %r5, %r2, 4", "xor.b32 %r5, %r2, 128"), (64,)), text
    assert proved(SHIFT.format(sync="bar.red.popc.u32 %r9, 0, %p1;"), (64,))


def test_the_simulator_shows_what_waves_do_to_each_other() -> None:
    """It knows the bytes of waves, and of lanes only that one map gives them to the same ones."""
    for body, block in ((TRANSPOSE, (16, 16)), (DOUBLE.format(barrier="bar.sync 0;", toggle=1), (256,))):
        right, wrong = (program(kernel(each), block) for each in (body, body.replace("bar.sync 0;", "")))
        assert not judge(right.graph, right.target).findings
        assert "TG101" in {each.code for each in judge(wrong.graph, wrong.target).findings}


# --- what is not modelled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "mbarrier.expect_tx.shared.b64 [tile], 64;",
        "mbarrier.try_wait.parity.shared.b64 %p1, [tile], 0;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1}, %rd1, %rd2, %r1, 0, 0, 1, 1, 1, 0;",
        "cp.async.bulk.commit_group;",
        "barrier.cluster.arrive;",
        "bar.arrive 1, 64;",
        "bar.sync 1, 32;",
        "call mystery, (%r1);",
        "cp.async.mbarrier.arrive.noinc.shared.b64 [tile];",
    ],
)
def test_nothing_is_proved_beside_what_is_not_modelled(line: str) -> None:
    found = check(kernel(f"{line}\n  {SHIFT.format(sync='bar.sync 0;')}"), (64,))
    assert found.verification is not None
    assert found.verification.undecided
    assert not found.is_proved


WMMA = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 4;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  st.shared.v4.f32 [%r4], {{%f1, %f1, %f1, %f1}};
  {sync}
  shr.u32 %r5, %r1, 5;
  shl.b32 %r6, %r5, 5;
  add.s32 %r7, %r3, %r6;
  wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}}, [%r7], {stride};
  {last}
  wmma.store.d.sync.aligned.col.m16n16k16.shared.f16 [%r7+{to}], {{%r10, %r11, %r12, %r13}}, 32;
"""


def test_matrices_of_a_wave_are_read_and_written_row_by_row() -> None:
    """Two warps, side by side: rows of 32 bytes in lines of 64, 16 of them in the 1,024 bytes that were written."""
    given = {"sync": "bar.sync 0;", "stride": 32, "last": "", "to": 1024}
    assert proved(WMMA.format(**given), (64,))
    assert not proved(WMMA.format(**{**given, "sync": "bar.warp.sync -1;"}), (64,))
    # A line of 48 bytes: the matrices of the two warps overlap, and are written where others read.
    assert proved(WMMA.format(**{**given, "stride": 24}), (64,))
    assert not proved(WMMA.format(**{**given, "stride": 24, "to": 0}), (64,))
    assert not proved(WMMA.format(**{**given, "to": 0}), (64,))
    assert proved(WMMA.format(**{**given, "to": 0, "last": "bar.warp.sync -1;"}), (64,))
    assert not proved(WMMA.format(**{**given, "to": 16, "last": "bar.warp.sync -1;"}), (64,))


def test_a_stride_that_is_not_known_makes_a_matrix_touch_everything() -> None:
    given = {"sync": "bar.sync 0;", "stride": "%r9", "last": "bar.sync 0;", "to": 1024}
    found = program(kernel(WMMA.format(**given)), (64,))
    assert found.explored.exact < found.explored.touches or found.explored.notes
    assert not proved(WMMA.format(**{**given, "last": ""}), (64,))


def test_an_unknown_instruction_with_an_address_touches_everything() -> None:
    found = check(kernel(SHIFT.format(sync="mystery.b32 %r9, [%r4];\n  bar.sync 0;")), (64,))
    assert not found.is_proved
    assert any("mystery.b32" in each.message for each in found.findings)


def test_an_address_is_swizzled_wherever_its_array_lies() -> None:
    """The lower bits of an address are those of its offset: `xor` with them stays exact."""
    swizzled = SHIFT.format(sync="{sync}").replace("xor.b32 %r5, %r2, 4", "xor.b32 %r5, %r4, 128")
    swizzled = swizzled.replace("add.s32 %r6, %r3, %r5", "mov.u32 %r6, %r5")
    found = program(kernel(swizzled.format(sync="bar.sync 0;")), (64,))
    assert found.explored.exact == found.explored.touches == 2
    assert proved(swizzled.format(sync="bar.sync 0;"), (64,))
    assert codes(kernel(swizzled.format(sync="")), (64,)) == {"TG101"}


def test_a_generic_address_keeps_its_array() -> None:
    generic = """
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd1, %r1, 4;
  mov.u32 %r3, tile;
  cvt.u64.u32 %rd2, %r3;
  cvta.shared.u64 %rd3, %rd2;
  add.s64 %rd4, %rd3, %rd1;
  st.f32 [%rd4], %f1;
  {sync}
  xor.b64 %rd5, %rd1, 128;
  add.s64 %rd6, %rd3, %rd5;
  ld.f32 %f2, [%rd6];
"""
    assert proved(generic.format(sync="bar.sync 0;"), (64,))
    assert codes(kernel(generic.format(sync="")), (64,)) == {"TG101"}


def test_bytes_beyond_an_array_are_found() -> None:
    assert "TG301" in codes(kernel(SHIFT.format(sync="bar.sync 0;"), size=128), (64,))


# --- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*args: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", "check", *args])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        found = capsys.readouterr()
        return int(ended.value.code or 0), found.out + found.err

    return command


def test_the_shape_of_the_block_is_asked_for(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(kernel(TRANSPOSE))
    status, said = run(str(path))
    assert status == 2
    assert "how many threads does a block of `k` have?" in said
    assert "--block 256" in said
    assert run(str(path), "--block", "16x16")[0] == 0
    status, said = run(str(path), "--block", "two")
    assert (status, "is not a block shape" in said) == (2, True)
    status, said = run(str(path), "--block", "64x64")
    assert (status, "at most 1024" in said) == (2, True)


def test_a_shape_in_the_text_is_enough(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(kernel(TRANSPOSE, "16, 16, 1"))
    status, said = run(f"{path}::k")
    assert status == 0
    assert "for blocks of 16x16x1 threads, 8 warps" in said
    assert "proved: no race, inversion or hang, 8 waves in any order" in said
    assert run(str(path), "--block", "32x8")[0] == 2
    assert run(f"{path}::other", "--block", "16x16")[0] == 2


def test_a_finding_names_threads_and_lines(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(kernel(TRANSPOSE.replace("bar.sync 0;", ""), "16, 16, 1"))
    status, said = run(str(path))
    assert status == 1
    assert "error[TG101]: `tile` is read while another warp may still be writing it" in said
    assert "(warp 1, lane" in said


def test_graphs_of_threads_round_trip() -> None:
    for body in (TRANSPOSE, TREE.format(last=32) + TAIL.format(sync="bar.warp.sync -1;"), RING.format(left=1, slots=3)):
        graph = program(kernel(body), (256,)).graph
        assert parse_graph(show_graph(graph)) == graph


def test_a_kernel_of_no_block_is_refused() -> None:
    with pytest.raises(BadInput, match="how many threads"):
        program(kernel(TRANSPOSE))


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("ld.param.u32 %r9, [k_param_1];", True),
        ("ld.param.u32 %r8, [k_param_1];\n  mad.lo.s32 %r9, %r8, 3, 1;", True),
        ("mov.u32 %r9, %ctaid.x;", True),
        ("mov.u32 %r9, 7;", True),
        ("mov.u32 %r9, %tid.x;", False),
        ("ld.param.u32 %r8, [k_param_1];\n  add.s32 %r9, %r8, %r1;", False),
        ("ld.param.u32 %r9, [k_param_1];\n  @%p1 mov.u32 %r9, 1;", False),
        ("mov.u32 %r8, %laneid;\n  add.s32 %r9, %r8, 0;", False),
        ("shr.u32 %r8, %r1, 5;\n  shfl.sync.idx.b32 %r9, %r8, 0, 31, -1;", False),  # one for each warp
        ("ld.shared.u32 %r9, [%r4];", False),
        ("add.s32 %r9, %r9, 1;", False),
    ],
)
def test_threads_that_store_what_the_launch_gives_store_the_same(value: str, right: bool) -> None:
    body = f"""
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  setp.eq.s32 %p1, %r1, 40;
  {value}
  st.shared.u32 [%r3+1024], %r9;
"""
    assert proved(body, (64,)) == right


# The first 32 threads copy what all 64 read.
SOME_COPY = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  and.b32 %r5, %r1, 31;
  shl.b32 %r5, %r5, 2;
  add.s32 %r5, %r3, %r5;
  setp.ge.u32 %p1, %r1, {copying};
  setp.ge.u32 %p2, %r1, {waiting};
  @%p1 bra $L1;
  cp.async.ca.shared.global [%r4], [%rd1], 4;
$L1:
  @%p2 bra $L2;
  cp.async.commit_group;
  {wait}
$L2:
  {last}
  bar.sync 0;
  ld.shared.f32 %f1, [%r5];
"""
SOME = {"copying": 32, "waiting": 32, "wait": "cp.async.wait_group 0;", "last": ""}


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"waiting": 40}, True),
        ({"waiting": 31}, False),  # thread 31 copies, and does not wait
        ({"copying": 33}, False),
        ({"copying": 32, "waiting": 0}, False),
        ({"wait": "cp.async.wait_all;"}, True),
        ({"wait": "cp.async.wait_group 1;"}, False),
        ({"wait": "cp.async.commit_group;\n  cp.async.wait_group 1;"}, True),
        ({"wait": "", "last": "cp.async.wait_group 0;"}, True),
        ({"wait": "", "last": "cp.async.wait_group 0;", "waiting": 8}, False),  # copies in no group
        ({"wait": "", "last": "cp.async.wait_all;", "waiting": 8}, True),
        # Others copy later, and have closed one group less.
        ({"wait": "", "last": "cp.async.ca.shared.global [%r4+512], [%rd1], 4;\n  cp.async.wait_group 0;"}, False),
    ],
)
def test_threads_that_do_not_copy_need_not_wait(change: dict[str, object], right: bool) -> None:
    assert proved(SOME_COPY.format(**{**SOME, **change}), (64,)) == right


CHOSEN_WAIT = """ld.global.u32 %r6, [%rd1+64];
  setp.gt.u32 %p3, %r6, 0;
  @%p3 bra $L3;
  cp.async.wait_group 0;
  bra $L2;
$L3:
  cp.async.wait_all;"""


@pytest.mark.parametrize(("wait", "certain"), [(CHOSEN_WAIT, False), ("", True)])
def test_waits_that_each_thread_chooses_make_a_race_possible_only(wait: str, certain: bool) -> None:
    """Every thread waits in one of two ways, which a graph of waves cannot say: this is right, but not proved."""
    found = check(kernel(SOME_COPY.format(**{**SOME, "wait": wait}), size=8192), (64,))
    assert not found.is_proved
    assert found.findings
    assert all((each.code != "TG106") == certain for each in found.findings)


@pytest.mark.parametrize(
    ("value", "other", "right"),
    [
        ("7", "", True),
        ("%r6", "", True),  # an argument
        ("%r1", "", False),  # which of the threads was last?
        ("7", "atom.shared.exch.b32 %r8, [%r3], 8;", False),
        ("7", "ld.shared.u32 %r8, [%r3];", False),
        ("7", "bar.sync 0;\n  ld.shared.u32 %r8, [%r3];", True),
        ("7", "atom.shared.add.u32 %r8, [%r3], 1;", False),
    ],
)
def test_threads_that_exchange_for_one_value(value: str, other: str, right: bool) -> None:
    body = f"""
  mov.u32 %r1, %tid.x;
  mov.u32 %r3, tile;
  ld.param.u32 %r6, [k_param_1];
  atom.shared.exch.b32 %r7, [%r3], {value};
  {other}
"""
    assert proved(body, (64,)) == right
