"""`tidegate sync kernel.ptx`: what goes, what grows, what is put in, and when nothing is."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from oracles.programs.ptx_kernels import kernel, program
from oracles.ptx_more import MoreMaker
from oracles.ptx_threads import Maker
from tests.cli.test_robust import Typed, assert_refused, folder, typed
from tests.hosts.ptx.test_ptx_random import SHAPES, wrong_with
from tidegate.hosts.isa.edits import TextEdit
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.write import find_difference, write_ptx
from tidegate.session import Session
from tidegate.synchronize import Synchronized, propose, read_back, write_programs
from tidegate.synchronize.instructions import session_of
from tidegate.synchronize.stages import judge_result

__all__ = ["folder", "typed"]

HEAD = """  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
"""
SWAP = """  st.shared.f32 [%r4], %f1;
  BETWEEN
  ld.shared.f32 %f2, [%r5];
"""


def of(body: str, *, threads: str = "64") -> str:
    return kernel(HEAD + body, threads)


def synced(text: str) -> tuple[Synchronized, str]:
    """The result, and the text: read back and judged as the command does it."""
    unit = session_of(program(text))
    assert isinstance(unit, Session)
    result = propose(unit)
    assert result.made is not None
    new = write_programs([result], text, "k.ptx")
    (written,) = read_back([result], new, "k.ptx")
    judge_result(result, written)
    assert not result.doubt
    return result, new


def done(result: Synchronized) -> list[tuple[str, str]]:
    return [(each.what, each.text) for each in result.edits]


def mended(text: str) -> list[tuple[str, str]]:
    """What is done to a program so that it is proved; done once, nothing is left to do."""
    result, new = synced(text)
    assert result
    assert synced(new)[1] == new
    return done(result)


def refused(text: str) -> str:
    """Why nothing is put in: the text stays as it is, and a finding or a note says why."""
    result, new = synced(text)
    assert new == text
    assert not result
    (why,) = [each for each in result.notes if each.startswith(("no barrier is inserted", "left as it is"))]
    return why


# --- what nobody needs --------------------------------------------------------------------------------------------


def test_a_redundant_barrier_goes_and_nothing_else() -> None:
    text = of(SWAP.replace("BETWEEN", "bar.sync 0;") + "  bar.sync 0;\n")
    result, new = synced(text)
    assert done(result) == [("delete", "bar.sync 0;")]
    before, after = text.splitlines(keepends=True), new.splitlines(keepends=True)
    last = len(before) - 1 - before[::-1].index("  bar.sync 0;\n")
    assert after == before[:last] + before[last + 1 :]


@pytest.mark.parametrize(
    "line", ["bar.sync 0; // ; the last one", "@%p1 bar.sync 0;", "bar.sync\n 0;", "barrier.sync 0;"]
)
def test_lines_end_as_they_did(line: str) -> None:
    """Carriage returns, tabs, comments with semicolons and guards: what is not the barrier stays."""
    rest = line.partition("//")[2]
    guard = "  setp.ge.s32 %p1, %r1, 0;\n" if line.startswith("@") else ""
    text = of(SWAP.replace("BETWEEN", "bar.sync 0;") + f"{guard}\tx: {line}\n  // bar.sync 0;\n").replace("\n", "\r\n")
    result, new = synced(text)
    assert len(result.edits) == 1
    assert result
    assert new.count("\r\n") == new.count("\n")
    assert "\tx: " in new
    assert "// bar.sync 0;\r\n" in new
    assert rest in new
    assert find_difference(parse_ptx(text), parse_ptx(new)) == ""


def test_lines_that_go_on() -> None:
    """A backslash at the end of a line did not count as one: what stands behind it was sought a line too early."""
    text = of("  add.s32 %r9, \\\n    %r1, 1;\n" + SWAP.replace("BETWEEN", "bar.sync 0;") + "  bar.sync 0;\n")
    result, new = synced(text)
    assert result
    assert new == text.replace("%f2, [%r5];\n  bar.sync 0;\n", "%f2, [%r5];\n")


def test_two_instructions_in_a_line() -> None:
    text = of(
        SWAP.replace("BETWEEN", "bar.sync 0; mov.u32 %r9, 1;") + "  mov.u32 %r8, 2; bar.sync 0; mov.u32 %r9, 3;\n"
    )
    assert "  mov.u32 %r8, 2;  mov.u32 %r9, 3;\n" in synced(text)[1]


def test_a_barrier_that_may_order_global_memory_stays() -> None:
    out = """  ld.param.u64 %rd1, [k_param_0];
  st.global.u32 [%rd1], %r1;
  bar.sync 0;
  ld.global.u32 %r9, [%rd1+4];
"""
    result, new = synced(of(out))
    assert new == of(out)
    assert any("1 barrier or wait may order accesses to global memory" in each for each in result.notes)


def test_a_barrier_with_a_result_stays() -> None:
    text = of(SWAP.replace("BETWEEN", "bar.sync 0;") + "  bar.red.popc.u32 %r9, 0, %p1;\n")
    assert synced(text)[1] == text


@pytest.mark.parametrize(("beside", "goes"), [("", True), ("activemask.b32 %r9;", False)])
def test_a_warp_barrier_goes_unless_lanes_are_asked_for(beside: str, goes: bool) -> None:
    """Behind `bar.warp.sync`, `activemask` and aligned instructions may rely on who is there."""
    text = of(SWAP.replace("BETWEEN", "bar.sync 0;") + f"  bar.warp.sync -1;\n  {beside}\n")
    assert ("bar.warp.sync" not in synced(text)[1]) == goes


COPIES = (
    HEAD
    + """  ld.param.u64 %rd1, [k_param_0];
  cp.async.ca.shared.global [%r4], [%rd1], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r4+256], [%rd1], 4;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  ld.shared.f32 %f2, [%r5];
"""
)


def test_a_wait_is_loosened_where_another_one_follows() -> None:
    text = kernel(COPIES + "  cp.async.wait_group 0;\n", "64")
    result, new = synced(text)
    assert done(result) == [("change", "cp.async.wait_group 1;")]
    assert new == text.replace("cp.async.wait_group 0;\n  bar", "cp.async.wait_group 1;\n  bar")


def test_no_more_copies_are_in_flight_at_the_end_than_before() -> None:
    """What becomes of copies into the memory of a block that has ended is not said."""
    text = kernel(COPIES, "64")
    assert synced(text)[1] == text


def test_a_wait_that_nobody_needs_stays() -> None:
    text = of(SWAP.replace("BETWEEN", "bar.sync 0;") + "  cp.async.wait_all;\n  cp.async.wait_group 0;\n")
    assert synced(text)[1] == text


# --- what is missing ----------------------------------------------------------------------------------------------


def test_a_missing_barrier_is_inserted_with_its_reason() -> None:
    text = of(SWAP.replace("  BETWEEN\n", ""))
    result, new = synced(text)
    assert result
    assert new == of(SWAP.replace("BETWEEN", "bar.sync 0;  // orders accesses to tile"))
    assert any("loads may have been dropped or moved" in each for each in result.notes)


LOOP = (
    HEAD
    + """  ld.param.u32 %r10, [k_param_1];
  mov.u32 %r11, 0;
again:
  st.shared.f32 [%r4], %f1;
  FIRST
  ld.shared.f32 %f2, [%r5];
  add.f32 %f3, %f3, %f2;
  SECOND
  add.s32 %r11, %r11, 1;
  setp.lt.s32 %p1, %r11, %r10;
  @%p1 bra again;
"""
)


@pytest.mark.parametrize(("first", "second", "count"), [("bar.sync 0;", "", 1), ("", "bar.sync 0;", 1), ("", "", 2)])
def test_a_loop_gets_what_it_lacks(first: str, second: str, count: int) -> None:
    """Both ways round: what is read is written again in the next iteration."""
    assert (
        mended(kernel(LOOP.replace("FIRST", first).replace("SECOND", second), "64"))
        == [("insert", "bar.sync 0;")] * count
    )


def test_a_barrier_stands_outside_of_the_loop_of_its_second_access() -> None:
    text = kernel(LOOP.replace("  st.shared.f32 [%r4], %f1;\n", "").replace("FIRST", "").replace("SECOND", ""), "64")
    text = text.replace("again:", "  st.shared.f32 [%r4], %f1;\nagain:")
    result, new = synced(text)
    assert done(result) == [("insert", "bar.sync 0;")]
    assert new.index("bar.sync 0;") < new.index("again:")


def test_copies_get_a_wait_as_well() -> None:
    text = kernel(COPIES.replace("  cp.async.wait_group 0;\n  bar.sync 0;\n", "") + "  cp.async.wait_all;\n", "64")
    assert mended(text) == [("insert", "cp.async.wait_group 1;"), ("insert", "bar.sync 0;")]


def test_a_copy_that_only_its_thread_reads_gets_a_wait() -> None:
    text = COPIES.replace("  cp.async.wait_group 0;\n  bar.sync 0;\n", "").replace("[%r5]", "[%r4]")
    assert mended(kernel(text + "  cp.async.wait_all;\n", "64")) == [("insert", "cp.async.wait_group 1;")]


LANES = """  xor.b32 %r6, %r2, 4;
  add.s32 %r6, %r3, %r6;
  setp.lt.s32 %p1, %r1, 32;
  @!%p1 bra out;
  st.shared.f32 [%r4], %f1;
  ld.shared.f32 %f2, [%r6];
out:
"""


def test_lanes_of_a_warp_that_is_alone_get_a_warp_barrier() -> None:
    assert mended(of(LANES)) == [("insert", "bar.warp.sync -1;")]


def test_before_a_divergent_access_the_barrier_stands_where_threads_part() -> None:
    text = of("""  st.shared.f32 [%r4], %f1;
  setp.lt.s32 %p1, %r1, 8;
  @!%p1 bra out;
  ld.shared.f32 %f2, [%r5];
out:
""")
    result, new = synced(text)
    assert result
    assert new.index("bar.sync 0;") < new.index("@!%p1 bra out;")


def test_no_place_that_all_threads_reach() -> None:
    text = of("""  setp.lt.s32 %p1, %r1, 48;
  @!%p1 bra out;
  st.shared.f32 [%r4], %f1;
  ld.shared.f32 %f2, [%r5];
out:
""")
    assert "no place between them to which all threads of the block come together" in refused(text)


def test_a_register_that_holds_what_was_loaded() -> None:
    """`a = tile[t]; barrier; b = tile[t]` is compiled to one load without the barrier."""
    text = of("""  ld.shared.f32 %f2, [%r5];
  mov.f32 %f4, %f2;
  st.shared.f32 [%r4], %f1;
  add.f32 %f3, %f4, %f1;
""")
    assert "`%f4` holds what line 18 loaded from `tile`" in refused(text)
    assert mended(text.replace("add.f32 %f3, %f4", "add.f32 %f3, %f1")) == [("insert", "bar.sync 0;")]


def test_above_a_load_whose_value_is_stored_behind_it() -> None:
    """`tile[t] = tile[other]` reads behind the barrier: it stands before the load, not between load and store."""
    text = of("""  st.shared.f32 [%r5], %f1;
  mov.f32 %f9, %f1;
  ld.shared.f32 %f2, [%r4+512];
  st.shared.f32 [%r4], %f2;
""")
    result, new = synced(text)
    assert result
    assert new.index("bar.sync 0;") < new.index("ld.shared.f32 %f2")


def test_a_register_that_holds_what_was_stored_and_others_overwrite() -> None:
    text = of("""  st.shared.f32 [%r4], %f1;
  st.shared.f32 [%r5], %f5;
  add.f32 %f3, %f1, %f1;
""")
    assert "`%f1` holds what line 18 stored in `tile`" in refused(text)


@pytest.mark.parametrize(("lines", "is_moved"), [((4, 5), False), ((5, 4), True)])
def test_what_the_compiler_has_moved(lines: tuple[int, int], is_moved: bool) -> None:
    text = (
        of("""  .loc 1 LINE 3
  ld.shared.f32 %f2, [%r5];
  .loc 1 OTHER 3
  st.shared.f32 [%r4], %f1;
""")
        + '.file 1 "/home/me/k.cu"\n'
    )
    text = text.replace("LINE", str(lines[0])).replace("OTHER", str(lines[1]))
    if is_moved:
        assert "the compiler has moved line 19 or 21" in refused(text)
    else:
        result, _ = synced(text)
        assert result
        assert any("in the source it belongs before k.cu:5" in each for each in result.notes)


def test_one_instruction_that_races_with_itself() -> None:
    assert "one instruction touches the bytes in two threads at once" in refused(of("  st.shared.u32 [tile], %r1;\n"))


def test_what_is_not_modelled_stays_as_it_is() -> None:
    text = of(SWAP.replace("BETWEEN", "mbarrier.arrive.expect_tx.shared.b64 _, [tile], 16;") + "  bar.sync 0;\n")
    assert "left as it is: `mbarrier.arrive.expect_tx.shared.b64` is not modelled" in refused(text)


# --- random kernels -----------------------------------------------------------------------------------------------


def of_random(seeds: range) -> Counter[str]:
    """What is proved afterwards is right in a run of all threads, and has nothing left to do."""
    found: Counter[str] = Counter()
    for seed in seeds:
        threads, wide = SHAPES[seed % len(SHAPES)]
        for text, width in ((Maker(seed, threads).text(), 0), (MoreMaker(seed, threads, wide).text(), wide)):
            result, new = synced(text)
            assert synced(new)[1] == new, f"seed {seed}"
            if result:
                wrong = wrong_with(re.sub("  // orders .*", "", new), threads, width)
                assert wrong in ("", "endless"), f"seed {seed}: {wrong}"
            found.update({each.what for each in result.edits} or {"nothing"})
    return found


def test_random_kernels_are_right_afterwards() -> None:
    found = of_random(range(14))
    assert found["delete"] > 3
    assert found["insert"] > 0
    assert found["nothing"] > 3


@pytest.mark.slow
def test_many_random_kernels_are_right_afterwards() -> None:
    assert of_random(range(1000, 1030))["insert"] > 2


# --- the text that is written -------------------------------------------------------------------------------------


def spoiled(text: str, edits: Sequence[TextEdit]) -> str:
    return find_difference(parse_ptx(text), parse_ptx(write_ptx(text, edits)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("xor.b32 %r5, %r2, 128;", "xor.b32 %r5, %r2, 64;", "`k` holds other instructions"),
        ("st.shared.f32 [%r4], %f1;", "", "`k` holds other instructions"),
        ("tile[8192]", "tile[4096]", "`k` is declared otherwise"),
        (".target sm_80", ".target sm_90", "its head is another one"),
        (".visible .entry k(", ".visible .entry kk(", "it holds other functions"),
        ("bar.sync 0;", "bar.red.popc.u32 %r9, 0, %p1;", "`k` holds other instructions"),
        ("bar.sync 0;", "", ""),
    ],
)
def test_a_text_with_another_change_is_doubted(old: str, new: str, said: str) -> None:
    text = of(SWAP.replace("BETWEEN", "bar.sync 0;"))
    assert find_difference(parse_ptx(text), parse_ptx(text.replace(old, new))) == said
    assert spoiled(text, []) == ""


def test_only_the_kernel_that_is_named_changes(folder: Path, typed: Typed) -> None:
    one = of(SWAP.replace("BETWEEN", "bar.sync 0;") + "  bar.sync 0;\n")
    two = one[one.index(".visible") :].replace(" k(", " other(").replace("k_param", "other_param")
    (folder / "k.ptx").write_text(one + two)
    done = typed("sync", "k.ptx::other", "-o", "out.ptx")
    assert done.returncode == 0, done.stderr
    assert (folder / "out.ptx").read_text() == one + two.replace("%f2, [%r5];\n  bar.sync 0;\n", "%f2, [%r5];\n")
    done = typed("sync", "k.ptx")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("bar.sync 0;") == 2


# --- the command --------------------------------------------------------------------------------------------------


def test_the_program_goes_to_the_output_byte_for_byte(folder: Path, typed: Typed) -> None:
    text = of(SWAP.replace("BETWEEN", "bar.sync 0;"), threads="")
    (folder / "k.ptx").write_text(text)
    done = typed("sync", "k.ptx", "--block", "64")
    assert done.returncode == 0
    assert done.stdout == text
    assert "@k on sm_80, in place: nothing changed" in done.stderr
    assert_refused(typed("sync", "k.ptx"))


def test_the_document(folder: Path, typed: Typed) -> None:
    (folder / "k.ptx").write_text(of(SWAP.replace("  BETWEEN\n", "")))
    found = json.loads(typed("sync", "k.ptx", "--json").stdout)
    (only,) = found["programs"]
    assert only["strategy"] == "in place"
    (edit,) = only["plan"]
    assert (edit["edit"], edit["op"], edit["line"]) == ("insert", "bar.sync 0;", 19)
    assert edit["why"] == ["orders accesses to tile"]
    assert only["tally"]["barriers"] == 1
    assert only["verified"]["proved"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--strategy minimal", "options of placement have no effect"),
        ("--force-barriers", "options of placement have no effect"),
        ("-o out.tide", "would hold `.ptx` text"),
        ("-o out.cu", "would hold `.ptx` text"),
        ("--grid 0", "is not a grid of blocks"),
        ("--block 64x", "is not a block shape"),
    ],
)
def test_options_that_mean_nothing_here(folder: Path, typed: Typed, options: str, said: str) -> None:
    (folder / "k.ptx").write_text(of(SWAP.replace("BETWEEN", "bar.sync 0;")))
    done = typed("sync", "k.ptx", *options.split())
    assert_refused(done)
    assert said in done.stderr


def test_only_the_first_edits(folder: Path, typed: Typed) -> None:
    (folder / "k.ptx").write_text(of("  bar.sync 0;\n  bar.sync 0;\n  bar.sync 0;\n"))
    assert typed("sync", "k.ptx", "--bisect", "2").stdout.count("bar.sync 0;") == 1
    assert "delete bar.sync 0; in line 18" in typed("sync", "k.ptx", "--print-after", "plan", "-o", "o.ptx").stdout


def test_cuda_source_is_not_rewritten(folder: Path, typed: Typed) -> None:
    """Nor compiled for that: the sentence needs no NVRTC."""
    (folder / "k.cu").write_text("__global__ void k(int *a) { __syncthreads(); a[threadIdx.x] = 0; }\n")
    done = typed("sync", "k.cu", "--block", "64")
    assert_refused(done)
    assert "`sync` does not rewrite CUDA source" in done.stderr
    assert "--keep-ptx k.ptx" in done.stderr


# --- explain and draw ---------------------------------------------------------------------------------------------


def test_explain_names_the_threads_that_race_without_a_barrier(folder: Path, typed: Typed) -> None:
    (folder / "k.ptx").write_text(of(SWAP.replace("BETWEEN", "bar.sync 0;") + "  bar.sync 0;\n"))
    done = typed("explain", "k.ptx")
    assert done.returncode == 0
    assert "2 barriers, 1 needed" in done.stdout
    assert "serves   TG101  %tile  18 → 20  threads 0 and 32" in done.stdout
    assert "line 21: bar.sync 0, weight 1\n  without  redundant for memory\n" in done.stdout


def test_explain_says_what_may_order_global_memory(folder: Path, typed: Typed) -> None:
    body = "  ld.param.u64 %rd1, [k_param_0];\n  st.global.u32 [%rd1], %r1;\n"
    body += SWAP.replace("BETWEEN", "bar.sync 0;") + "  bar.sync 0;\n  ld.global.u32 %r9, [%rd1+4];\n"
    (folder / "k.ptx").write_text(of(body))
    assert "redundant for memory, but it may order accesses to global memory" in typed("explain", "k.ptx").stdout
    document = json.loads(typed("explain", "k.ptx", "--json").stdout)
    assert [each["held"] for each in document["programs"][0]["barriers"]] == [True, True]
    assert [each["needed"] for each in document["programs"][0]["barriers"]] == [True, False]


def test_explain_says_nothing_of_a_program_with_more_than_is_modelled(folder: Path, typed: Typed) -> None:
    """It was "redundant": what no graph says may rely on it."""
    body = (
        SWAP.replace("BETWEEN", "bar.sync 0;")
        + "  mbarrier.arrive.expect_tx.shared.b64 _, [tile], 16;\n  bar.sync 0;\n"
    )
    (folder / "k.ptx").write_text(of(body))
    done = typed("explain", "k.ptx")
    assert "redundant" not in done.stdout
    assert "not judged: `mbarrier.arrive.expect_tx.shared.b64` is not modelled" in done.stdout


def test_one_instruction_in_several_states_is_one_barrier(folder: Path, typed: Typed) -> None:
    """A loop of four rounds has the barrier at four points."""
    body = LOOP.replace("ld.param.u32 %r10, [k_param_1]", "mov.u32 %r10, 4").replace("FIRST", "bar.sync 0;")
    (folder / "k.ptx").write_text(kernel(body.replace("SECOND", "bar.sync 0;"), "64"))
    assert "2 barriers, 2 needed" in typed("explain", "k.ptx").stdout


def test_explain_and_draw_name_the_source(folder: Path, typed: Typed) -> None:
    body = SWAP.replace("BETWEEN", ".loc 1 7 3\n  bar.sync 0;")
    (folder / "k.ptx").write_text(of(body) + '.file 1 "/home/me/k.cu"\n')
    assert "bar.sync 0;  // k.cu:7" in typed("explain", "k.ptx").stdout
    done = typed("draw", "k.ptx", "-o", "k.html")
    assert done.returncode == 0, done.stderr
    assert "as given: 1 barrier, proved" in done.stdout


def test_a_page_shows_the_program_as_sync_leaves_it(folder: Path, typed: Typed) -> None:
    (folder / "k.ptx").write_text(of(SWAP.replace("  BETWEEN\n", "")))
    done = typed("draw", "k.ptx", "-o", "k.html")
    assert "as given: 0 barriers, not proved" in done.stdout
    assert "synchronized: 1 barrier, proved" in done.stdout


# --- the grid -----------------------------------------------------------------------------------------------------

ASKS = (
    """  mov.u32 %r9, %nctaid.x;
  setp.lt.u32 %p1, %r9, 2;
  @%p1 bra out;
"""
    + SWAP.replace("BETWEEN", "")
    + "out:\n"
)


@pytest.mark.parametrize(("grid", "status"), [("1", 0), ("2", 1), ("1x4", 0)])
def test_the_grid_decides(folder: Path, typed: Typed, grid: str, status: int) -> None:
    (folder / "k.ptx").write_text(of(ASKS))
    done = typed("check", "k.ptx", "--grid", grid)
    assert done.returncode == status
    assert f"for grids of {grid} block" in done.stdout
    assert typed("check", "k.ptx").returncode == 1


def test_a_grid_that_nobody_asks_for(folder: Path, typed: Typed) -> None:
    (folder / "k.ptx").write_text(of(SWAP.replace("BETWEEN", "bar.sync 0;")))
    done = typed("check", "k.ptx", "--grid", "4")
    assert_refused(done)
    assert "`--grid` has no effect: `k` does not ask how many blocks there are" in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("check k.ptx -D N=4", "PTX is compiled already"),
        ("explain k.ptx -I include", "PTX is compiled already"),
        ("check k.sync --block 64", "`--block`, `--grid` and `--arg` are for PTX, CUDA source and assembly"),
        ("sync k.tide --grid 4", "`--block`, `--grid` and `--arg` are for PTX, CUDA source and assembly"),
    ],
)
def test_options_of_other_programs(folder: Path, typed: Typed, command: str, said: str) -> None:
    done = typed(*command.split())
    assert_refused(done)
    assert said in done.stderr
