"""TTGIR whose accesses, barriers and waits stand inside `scf.execute_region` and other regions.

Every text that is proved here has a neighbour without its barriers, which is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli import main
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.compare import compare
from tidegate.hosts.triton.read import read_to_edit, read_ttgir

if not libtriton.is_installed():
    pytest.skip(
        "NOT TESTED: these texts are in Triton's syntax, and Triton is not installed; `pip install tidegate[triton]`",
        allow_module_level=True,
    )

from oracles.triton_kernels import compile_ttgir
from tests.hosts.triton.triton_seed_004 import seed_004

Run = Callable[..., tuple[str, int]]
M = "!ttg.memdesc<64x64xf32, #shared, #smem, mutable>"
RING = "!ttg.memdesc<2x64x64xf32, #shared, #smem, mutable>"
HEAD = """\
#row = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#col = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 8], warpsPerCTA = [1, 4], order = [0, 1]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @k(%from: tensor<64x64x!tt.ptr<f32>, #row>, %to: tensor<64x64x!tt.ptr<f32>, #col>, %n: i32, %p: i1) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
"""
ALLOC = f"%tile = ttg.local_alloc : () -> {M}\n"
LOAD = "%a = tt.load %from : tensor<64x64x!tt.ptr<f32>, #row>"
WRITE = f"ttg.local_store %a, %tile : tensor<64x64xf32, #row> -> {M}"
READ = f"%b = ttg.local_load %tile : {M} -> tensor<64x64xf32, #col>"
OUT = "tt.store %to, %b : tensor<64x64x!tt.ptr<f32>, #col>"
LOOP = "scf.for %i = %c0 to %n step %c1 : i32 {{\n{}\n}}\n"
REGIONS = {
    "two regions that are run once": f"scf.execute_region {{\n{LOAD}\n{WRITE}\nscf.yield\n}}\n"
    f"scf.execute_region no_inline {{\n{READ}\n{OUT}\nscf.yield\n}}",
    "a region with a result": f"{LOAD}\n%x = scf.execute_region -> tensor<64x64xf32, #col> {{\n{WRITE}\n{READ}\n"
    "scf.yield %b : tensor<64x64xf32, #col>\n}\ntt.store %to, %x : tensor<64x64x!tt.ptr<f32>, #col>",
    "a region that hands memory on": f"{LOAD}\n%d = scf.execute_region -> {M} {{\n{WRITE}\nscf.yield %tile : {M}\n}}\n"
    f"{READ.replace('%tile', '%d')}\n{OUT}",
    "regions in one line each": f"{LOAD}\nscf.execute_region {{ {WRITE} scf.yield }}\n"
    f"scf.execute_region {{ {READ} {OUT} scf.yield }}",
    "blocks that jump": f"scf.execute_region {{\n{LOAD}\n{WRITE}\ncf.cond_br %p, ^bb1, ^bb2\n^bb1:\n{READ}\n{OUT}\n"
    "cf.br ^bb2\n^bb2:\nscf.yield\n}",
    "blocks that meet again": f"scf.execute_region {{\n{LOAD}\ncf.cond_br %p, ^bb1, ^bb2\n^bb1:\n{WRITE}\ncf.br ^bb3\n"
    f"^bb2:\n{WRITE}\ncf.br ^bb3\n^bb3:\n{READ}\n{OUT}\nscf.yield\n}}",
    "a loop in a region in a branch": f"{LOAD}\n{WRITE}\nscf.if %p {{\nscf.execute_region {{\n"
    f"scf.for %j = %c0 to %n step %c1 : i32 {{\n{READ}\n{OUT}\n}}\nscf.yield\n}}\n}} else {{\n}}",
    "conditionals in regions": f"scf.execute_region {{\nscf.if %p {{\n{LOAD}\n{WRITE}\n}}\nscf.yield\n}}\n"
    f"scf.execute_region {{\nscf.if %p {{\n{READ}\n{OUT}\n}}\nscf.yield\n}}",
    "a switch": f"{LOAD}\n{WRITE}\n%ix = arith.index_cast %i : i32 to index\nscf.index_switch %ix\ncase 2 {{\n{READ}\n"
    f"{OUT}\nscf.yield\n}}\ncase 5 {{\nscf.yield\n}}\ndefault {{\nscf.yield\n}}",
}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line in a folder of its own, which takes the text of `k.ttgir` first; both streams together."""

    def run(text: str, *args: object) -> tuple[str, int]:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "k.ttgir").write_text(text, encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["tidegate", *map(str, args)])
        with pytest.raises(SystemExit) as done:
            main()
        return "".join(capsys.readouterr()), int(done.value.code or 0)

    return run


def kernel(body: str) -> str:
    return f"{HEAD}{body}tt.return\n}}\n}}\n"


def laid_out(text: str) -> str:
    """With the memory of `tile` at its place: then a text is taken as it stands, without Triton's barriers."""
    text = text.replace("ttg.local_alloc :", "ttg.local_alloc {allocation.offset = 0 : i32} :")
    return text.replace("ttg.target", "ttg.shared = 32768 : i32, ttg.target")


@pytest.mark.parametrize("name", REGIONS)
def test_barriers_come_to_stand_inside_regions(name: str, command: Run, tmp_path: Path) -> None:
    text = kernel(ALLOC + LOOP.format(REGIONS[name]))
    out, status = command(text, "sync", "k.ttgir", "-o", "out.ttgir")
    assert status == 0, out
    assert "\n  proved: no race" in out
    after = (tmp_path / "out.ttgir").read_text(encoding="utf-8")
    assert after.count("ttg.barrier local") == 2
    assert compare(read_to_edit(text, "k.ttgir"), read_ttgir(after, "k.ttgir")).difference == ""
    for number in (0, 1):  # and neither of them is one too many
        parts = re.split(r"\n[^\n]*ttg\.barrier local[^\n]*", after)
        fewer = parts[0] + "".join(
            ("" if place == number else "\nttg.barrier local") + part for place, part in enumerate(parts[1:])
        )
        out, status = command(laid_out(fewer), "check", "k.ttgir")
        assert status == 1, out
        assert "error[TG10" in out


def test_lines_with_several_operations_are_broken_and_that_is_said(command: Run) -> None:
    out, _ = command(kernel(ALLOC + LOOP.format(REGIONS["regions in one line each"])), "sync", "k.ttgir")
    assert "note: lines with several operations were split first" in out
    assert f"\n{WRITE}\nscf.yield }}\n" in out
    out, _ = command(kernel(ALLOC + LOOP.format(REGIONS["a region with a result"])), "sync", "k.ttgir")
    assert "broken" not in out


YIELDS = f"""\
%tile = ttg.local_alloc : () -> {RING}
{LOAD}
%x = scf.execute_region -> i32 {{
  cf.cond_br %p, ^bb1, ^bb2
^bb1:
  scf.yield FIRST : i32
^bb2:
  scf.yield %c1 : i32
}}
%one = ttg.memdesc_index %tile[%x] : {RING} -> {M}
%two = ttg.memdesc_index %tile[%c0] : {RING} -> {M}
{WRITE.replace("%tile", "%one")}
{READ.replace("%tile", "%two")}
{OUT}
"""


def test_each_block_that_ends_a_region_gives_its_results(command: Run) -> None:
    """The slot was taken from the last block alone: the first one writes the slot that is read, and that was proved."""
    out, status = command(laid_out(kernel(YIELDS.replace("FIRST", "%c0"))), "check", "k.ttgir")
    assert status == 1, out
    assert "error[TG101]" in out
    out, status = command(laid_out(kernel(YIELDS.replace("FIRST", "%c1"))), "check", "k.ttgir")
    assert status == 0, out
    assert "\n  proved: no race" in out


def test_a_result_of_a_switch_is_that_of_any_of_its_regions(command: Run) -> None:
    region = "case 2 {{\nscf.yield {} : i32\n}}\ndefault {{\nscf.yield %c1 : i32\n}}\n"
    switch = f"%ix = arith.index_cast %n : i32 to index\n%x = scf.index_switch %ix -> i32\n{region}"
    for slot, status in (("%c0", 1), ("%c1", 0)):
        body = re.sub(r"%x = scf\.execute_region.*?\n}\n", switch.format(slot), YIELDS, flags=re.DOTALL)
        out, found = command(laid_out(kernel(body)), "check", "k.ttgir")
        assert found == status, out


# --- seed 004's kernel --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seed() -> str:
    """Its TTGIR, for gfx1250 and three slots."""
    return compile_ttgir(seed_004(3), "gfx1250")


OPTIONS = ((), ("--strategy", "optimal"), ("--remove-redundant",), ("--tighten-waits",), ("--force-barriers",))


def without_stages(text: str) -> str:
    """The same regions, which Triton makes no loop of two groups of waves of."""
    text = re.sub(r" \{[^{}]*triton\.warp_pipeline\.[^{}]*\}", "", text)
    return text.replace(" no_inline", "")


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("staged", [True, False], ids=["stages", "regions"])
def test_seed_004_is_synchronized_and_proved(staged: bool, options: tuple[str, ...], command: Run, seed: str) -> None:
    """Copies, then reads of another slot of three, in one stage; the wait between the stages; products in the other."""
    out, status = command(seed if staged else without_stages(seed), "sync", "k.ttgir", "-o", "o.ttgir", *options)
    assert status == 0, out
    assert "\n  proved: no race" in out


def test_seed_004_needs_no_barrier_between_its_copies_and_its_reads(command: Run, tmp_path: Path, seed: str) -> None:
    """What Triton's analysis took for a hazard: the slots differ."""
    command(without_stages(seed), "sync", "k.ttgir", "-o", "o.ttgir")
    after = (tmp_path / "o.ttgir").read_text(encoding="utf-8")
    loop = after[after.index("scf.for") : after.index("tt.dot")]
    assert loop.count("ttg.barrier local") == 1
    copies, reads = loop.rindex("async_tdm_copy_global_to_local"), loop.index("ttg.local_load")
    assert copies < reads
    assert "ttg.barrier" not in loop[copies:reads]


def test_seed_004_with_two_slots_is_a_race(command: Run, seed: str) -> None:
    """The same waits and barriers, where copies go to the slot that is read in this iteration."""
    out, status = command(without_stages(seed), "check", "k.ttgir")
    assert (status, "\n  proved: no race" in out) == (0, True)
    slots = re.sub(r"(%prod\S* = arith\.addi %prod\S*, )%c1_i32", r"\1%c3_i32", without_stages(seed))
    assert slots != without_stages(seed)
    out, status = command(slots, "check", "k.ttgir")
    assert status == 1, out
    assert "error[TG10" in out


def test_a_wait_whose_token_is_used_stays(command: Run, tmp_path: Path) -> None:
    """`--tighten-waits` takes away waits that nothing needs, unless a load names them."""
    ptr = "tensor<64x64x!tt.ptr<f32>, #row>"
    copy = f"%c = ttg.async_copy_global_to_local %from, %tile : {ptr} -> <64x64xf32, #shared, #smem, mutable>\n"
    waits = "%g = ttg.async_commit_group tokens %c\n%w = ttg.async_wait {num = 0 : i32}\nttg.barrier local\n"
    again = "%v = ttg.async_wait {num = 0 : i32}\n"
    text = kernel(ALLOC + copy + waits + again + f"{READ}\n{OUT}\n").replace("gfx942", "gfx950")
    for read, left in ((READ, 1), (READ.replace("%tile :", "%tile token %v :"), 2)):
        out, status = command(text.replace(READ, read), "sync", "k.ttgir", "-o", "o.ttgir", "--tighten-waits")
        assert status == 0, out
        assert "\n  proved: no race" in out
        assert (tmp_path / "o.ttgir").read_text(encoding="utf-8").count("ttg.async_wait") == left
        assert ("removed 1 `wait_count`" in out) == (left == 1)


# --- waves that part ----------------------------------------------------------------------------------------------


NOBODY = f"""\
{ALLOC}{LOAD}
%r = ttg.warp_specialize()
default {{
  {WRITE}
  BARRIER
  ttg.warp_yield %c1 : i32
}} : () -> i32
{READ}
{OUT}
"""


def test_a_warp_specialize_without_partitions_is_its_region(command: Run) -> None:
    """It was refused with TG602: waves were sent to partitions that are not there."""
    out, status = command(laid_out(kernel(NOBODY.replace("BARRIER", "ttg.barrier local"))), "check", "k.ttgir")
    assert (status, "\n  proved: no race" in out) == (0, True)
    out, status = command(laid_out(kernel(NOBODY.replace("BARRIER", ""))), "check", "k.ttgir")
    assert (status, "error[TG101]" in out) == (1, True)
    out, status = command(kernel(NOBODY.replace("BARRIER", "")), "sync", "k.ttgir")
    assert (status, "\n  proved: no race" in out) == (0, True)


ROW = "!ttg.memdesc<128xf32, #s, #smem, mutable>"
ROWS = "!ttg.memdesc<2x128xf32, #s, #smem, mutable>"
PARTED = f"""\
#four = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
#one = #ttg.blocked<{{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>
#s = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
#smem = #ttg.shared_memory
module attributes {{"ttg.num-warps" = 4 : i32, ttg.shared = 2048 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @k(%x: tensor<128x!tt.ptr<f32>, #four>, %n: i32, %p: i1) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %a = tt.load %x : tensor<128x!tt.ptr<f32>, #four>
    %m = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {ROWS}
    %q = ttg.local_alloc {{allocation.offset = 1024 : i32}} : () -> {ROW}
    %m0 = ttg.memdesc_index %m[%c0] : {ROWS} -> {ROW}
    %m1 = ttg.memdesc_index %m[%c1] : {ROWS} -> {ROW}
BEFORE
    RESULTSttg.warp_specialize(%w)
    default {{
DEFAULT
    }}
    partition0(%v: TYPE) num_warps(1) {{
WORK
      ttg.warp_return
    }} : (TYPE) -> YIELDED
AFTER
    tt.return
  }}
}}
"""
STORED = f"ttg.local_store %a, %q : tensor<128xf32, #four> -> {ROW}\n"
LOADED = f"%l = ttg.local_load %q : {ROW} -> tensor<128xf32, #four>\n"
ANOTHER = f"%z = ttg.local_load %v : {ROW} -> tensor<128xf32, #one>"
COUNTING = "%w = scf.for %i = %c0 to %n step %c1 iter_args(%j = %c1) -> (i32) : i32 {\n"
CAPTURED = {
    "memory": (f"%w = arith.select %p, %m0, %m1 : {ROW}", ROW),
    "memory by a branch": (
        f"%w = scf.if %p -> {ROW} {{\nscf.yield %m0 : {ROW}\n}} else {{\nscf.yield %m1 : {ROW}\n}}",
        ROW,
    ),
    "a number by a branch": (
        "%w = scf.if %p -> i32 {\nscf.yield %c1 : i32\n} else {\nscf.yield %n : i32\n}",
        "i32",
    ),
    "a number that a loop counts": (f"{COUNTING}%k = arith.addi %j, %c1 : i32\nscf.yield %k : i32\n}}", "i32"),
    "a number of a region": ("%w = scf.execute_region -> i32 {\nscf.yield %n : i32\n}", "i32"),
}


def parted(
    before: str, type_: str, work: str, default: str, after: str = "", yields: tuple[str, str] = ("", "")
) -> str:
    """Four waves, and one of its own."""
    names, types = yields
    end = f"ttg.warp_yield {names} : {types}" if names else "ttg.warp_yield"
    text = PARTED.replace("BEFORE", before).replace("DEFAULT", default + end).replace("AFTER", after)
    many = f"%r:{names.count(',') + 1} = " if names else ""
    text = text.replace("RESULTS", many).replace("YIELDED", f"({types})" if names else "()")
    return text.replace("TYPE", type_).replace("WORK", work)


@pytest.mark.parametrize("name", CAPTURED)
def test_what_a_partition_captures_may_be_computed_before(name: str, command: Run) -> None:
    """Its waves do not run what came before: names of loops and branches had no value there (TG312)."""
    before, type_ = CAPTURED[name]
    steps = "%k0 = arith.constant 0 : i32\n%k1 = arith.constant 1 : i32\nscf.for %s = %k0 to %v step %k1 : i32 {\n}"
    work = ANOTHER if type_ == ROW else steps
    out, status = command(parted(before, type_, work, STORED), "check", "k.ttgir")
    assert status == 0, out
    assert "TG312" not in out
    if type_ == ROW:  # the slot that the others write may be the one that is captured
        wrong = STORED.replace("%q", "%m1")
        out, status = command(parted(before, type_, work, wrong), "check", "k.ttgir")
        assert status == 1, out
        assert "error[TG10" in out


# What partitions capture is written to memory that Triton lays out for it, here where `%m` lies.
LAID_OUT = "ttg.warp_specialize(%w) attributes {allocation.offset = 0 : i32, allocation.size = 4 : i32}"
USED_BEFORE = (STORED + "ttg.barrier local\n" + LOADED).replace("%q", "%m0")


def test_memory_of_captures_is_memory(command: Run) -> None:
    """It was not modelled: waves that were still reading `%m` when others wrote there were no finding."""
    text = parted(f"%w = arith.addi %n, %c1 : i32\n{USED_BEFORE}BARRIER\n", "i32", "", "DEFAULT")
    text = text.replace("ttg.warp_specialize(%w)", LAID_OUT)
    again = STORED.replace("%q", "%m0")  # the partition has read what it captures before a region begins
    for barrier, default, status in (("", "", 1), ("ttg.barrier local", "", 0), ("ttg.barrier local", again, 0)):
        out, found = command(text.replace("BARRIER", barrier).replace("DEFAULT", default), "check", "k.ttgir")
        assert found == status, out
        assert ("error[TG102]" in out) == bool(status)


RESULTS = {
    "computed": ("%t = arith.addi %n, %c1 : i32\n", "%t, %p"),
    "a product": ("%t = arith.muli %n, %n : i32\n", "%t, %p"),
    "counted": (
        "%t = scf.for %i = %c0 to %n step %c1 iter_args(%j = %c1) -> (i32) : i32 {\n"
        "%k = arith.addi %j, %c1 : i32\nscf.yield %k : i32\n}\n",
        "%t, %p",
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_a_warp_specialize_are_followed(name: str, command: Run) -> None:
    """They were refused with TG602: nothing assigned what they are computed from."""
    default, given = RESULTS[name]
    steps = f"scf.for %i2 = %c0 to %r#0 step %c1 : i32 {{\nttg.barrier local\n{STORED}}}\n"
    after = f"{steps}scf.if %r#1 {{\nBARRIER\n{LOADED}}}\n"
    for barrier, status in (("ttg.barrier local", 0), ("", 1)):
        text = parted("%w = arith.addi %n, %c1 : i32", "i32", "", default, after, (given, "i32, i1"))
        out, found = command(text.replace("BARRIER", barrier), "check", "k.ttgir")
        assert found == status, out
        assert "TG602" not in out


def test_memory_that_nothing_uses_any_more_is_not_live(command: Run) -> None:
    """Triton gives the bytes of `tile` to `next`: only `local_dealloc` says where memory ends, and there is none."""
    second = f"%next = ttg.local_alloc : () -> {M}\n{WRITE.replace('%tile', '%next')}\n"
    body = f"{ALLOC}{LOAD}\n{WRITE}\n{READ}\n{OUT}\n{second}"
    text = laid_out(kernel(body.replace(READ, f"ttg.barrier local\n{READ}\nttg.barrier local")))
    out, status = command(text, "run", "k.ttgir")
    assert (status, "TG308" in out) == (0, False), out
    out, status = command(text.replace(f"{OUT}\n", f"{OUT}\nttg.local_dealloc %tile : {M}\n"), "run", "k.ttgir")
    assert (status, "TG308" in out) == (0, False), out
    late = text.replace("tt.return", f"ttg.local_dealloc %next : {M}\nttg.local_dealloc %tile : {M}\ntt.return")
    out, status = command(late, "run", "k.ttgir")
    assert (status, "error[TG308]" in out) == (1, True), out
