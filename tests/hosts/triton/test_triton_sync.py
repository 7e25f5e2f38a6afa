"""TTGIR from end to end: checked as compiled, synchronized, and each barrier that was put in is needed."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.cli import main
from tidegate.diag import BadInput, Finding
from tidegate.files import load
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.places import take_places
from tidegate.hosts.triton.read import read_ttgir
from tidegate.hosts.triton.values import name_of
from tidegate.passes import run_stages
from tidegate.session import sessions_of
from tidegate.synchronize import propose, write_programs
from tidegate.synchronize.model import SyncOptions

if not libtriton.is_installed():
    pytest.skip(
        "NOT TESTED: these texts are in Triton's syntax, and Triton is not installed; `pip install tidegate[triton]`",
        allow_module_level=True,
    )

FOLDER = ROOT / "tests" / "ttgir"
COMPILED = (
    "gemm.sm_80",
    "gemm.sm_90",
    "gemm.gfx942",
    "gemm.gfx950",
    "pingpong.gfx942",
    "spread.gfx942",
    "spread.sm_80",
)
BARE = "pingpong_bare.gfx942"
BARRIER = re.compile(r"^ *ttg\.barrier local\b.*\n", re.MULTILINE)


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.ttgir").read_text(encoding="utf-8")


def found_in(text: str, folder: Path, *, as_compiled: bool = False) -> list[Finding]:
    """What `check` says of a text, with its barriers alone or with those that Triton would put in."""
    path = folder / "k.ttgir"
    path.write_text(text, encoding="utf-8")
    found: list[Finding] = []
    for unit in sessions_of(load(str(path), as_compiled=as_compiled), None):
        found += run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None).findings
    return found


@cache
def synchronized(name: str, merge_waits: str = "model") -> str:
    path = FOLDER / f"{name}.ttgir"
    options = SyncOptions(merge_waits=merge_waits)
    results = [propose(unit, options) for unit in sessions_of(load(str(path), as_compiled=False), None)]
    assert not any(finding for each in results if each.checked for finding in each.checked.findings)
    return write_programs(results, text_of(name), str(path))


def run(*args: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, int]:
    monkeypatch.setattr("sys.argv", ["tidegate", *map(str, args)])
    with pytest.raises(SystemExit) as done:
        main()
    out, err = capsys.readouterr()
    return out, err, int(done.value.code or 0)


def in_loops(text: str, name: str) -> int:
    """How many barriers stand in loops, of those that the text has and those inside operations."""
    ttgir = load_text(text)
    loops = [op for op in walk(ttgir) if op.name == "scf.for"]
    return sum(op.name == name for loop in loops for op in walk(loop))


def load_text(text: str) -> Operation:
    from tidegate.hosts.triton.read import read_ttgir

    return read_ttgir(text, "k.ttgir").module.operation


# --- as compiled --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPILED)
def test_with_tritons_own_barriers_nothing_is_found(name: str, tmp_path: Path) -> None:
    assert found_in(text_of(name), tmp_path, as_compiled=True) == []


@pytest.mark.parametrize("name", ["gemm.sm_80", "gemm.sm_90", "gemm.gfx942", "gemm.gfx950", "spread.gfx942"])
def test_without_any_barrier_the_races_are_found(name: str, tmp_path: Path) -> None:
    found = found_in(text_of(name), tmp_path)
    assert found
    assert {each.code[:3] for each in found} == {"TG1"}
    lines = text_of(name).split("\n")
    for each in found:
        assert len(each.labels) == 2
        for label in each.labels:
            assert re.search(
                r"local_|async_copy|buffer_load_to|warp_group_dot|tt\.reduce|convert", lines[label.at.line - 1]
            )


def test_a_race_names_both_places_in_the_file_and_in_the_source(tmp_path: Path) -> None:
    found = found_in(text_of("gemm.gfx942"), tmp_path)
    first = next(each for each in found if each.code == "TG102")
    assert {label.at.line for label in first.labels} == {55, 70}
    assert "line 55 comes from kernels.py:23" in first.notes
    assert "line 70 comes from kernels.py:23" in first.notes


# --- synchronized -------------------------------------------------------------------------------------------------


def test_two_barriers_are_enough_where_triton_has_three() -> None:
    """The loop of a pipelined matmul on sm_80: one barrier behind each wait would do for Triton too."""
    text = text_of("gemm.sm_80")
    own = libtriton.parse(text, "k.ttgir").run("allocate", "fences", "barriers").plain()
    assert in_loops(own, "ttg.barrier") == 3
    assert in_loops(synchronized("gemm.sm_80"), "ttg.barrier") == 2


@pytest.mark.parametrize("name", COMPILED)
def test_never_more_barriers_in_a_loop_than_triton_has(name: str) -> None:
    own = libtriton.parse(text_of(name), "k.ttgir").run("allocate", "fences", "barriers").plain()
    for merge in ("model", "never"):
        assert in_loops(synchronized(name, merge), "ttg.barrier") <= in_loops(own, "ttg.barrier")


TWINS = [(name, merge) for name in COMPILED if not name.startswith("pingpong") for merge in ("model", "never")]


@pytest.mark.parametrize(("name", "merge_waits"), TWINS)
def test_every_barrier_that_is_put_in_is_needed(name: str, merge_waits: str, tmp_path: Path) -> None:
    """Its twin: one barrier less, and the verifier objects."""
    after = synchronized(name, merge_waits)
    assert found_in(after, tmp_path) == []
    barriers = list(BARRIER.finditer(after))
    assert barriers
    for each in barriers:
        twin = after[: each.start()] + after[each.end() :]
        assert found_in(twin, tmp_path), each[0]


def test_what_stands_in_the_file_stays(tmp_path: Path) -> None:
    """The ping-pong schedule brings its own barriers."""
    assert synchronized("pingpong.gfx942") == text_of("pingpong.gfx942")
    assert found_in(text_of("pingpong.gfx942"), tmp_path) == []


def test_waits_are_never_moved_where_that_is_asked() -> None:
    assert "%tidegate" not in synchronized("gemm.gfx950", "never")


# --- ping-pong ----------------------------------------------------------------------------------------------------


def test_a_bare_barrier_between_the_halves_is_a_race_with_a_witness(tmp_path: Path) -> None:
    """The reads of the half behind are not complete when the half ahead stores: triton-lang/triton issue 11696."""
    (finding,) = found_in(text_of(BARE), tmp_path)
    assert finding.code == "TG102"
    read, written = sorted(finding.labels, key=lambda label: label.at.line)
    assert (read.at.line, written.at.line) == (31, 36)
    assert read.text.startswith("wave 4 may touch bytes"), "of the half that is behind"
    assert written.text.startswith("wave 0 writes bytes"), "of the half that is ahead"
    assert any("the waves meet between them, but wave 4 has not waited" in note for note in finding.notes)


def test_a_whole_barrier_there_is_enough(tmp_path: Path) -> None:
    text = text_of(BARE)
    assert text.count("rocdl.s.barrier") == 1
    assert found_in(text.replace("rocdl.s.barrier", "ttg.barrier local"), tmp_path) == []


def test_sync_makes_the_bare_barrier_a_whole_one() -> None:
    after = synchronized(BARE)
    assert re.sub(r"ttg\.barrier local  // .*", "rocdl.s.barrier", after) == text_of(BARE)


def test_without_the_conditional_barriers_the_halves_do_not_alternate(tmp_path: Path) -> None:
    """Only one of the two: the halves wait for each other for ever."""
    text = text_of(BARE).replace("rocdl.s.barrier", "ttg.barrier local")
    for which in ("high", "low"):
        assert found_in(text.replace(f"    amdg.cond_barrier %{which}\n", ""), tmp_path)
    both = re.sub(r"    amdg\.cond_barrier %\w+\n", "", text)
    assert found_in(both, tmp_path) == []


def test_every_barrier_of_the_ping_pong_loop_is_needed(tmp_path: Path) -> None:
    """Without one, halves meet at other barriers than before, and something is wrong."""
    text = text_of(BARE).replace("rocdl.s.barrier", "ttg.barrier local")
    loop = text.index("scf.for")
    for each in BARRIER.finditer(text, loop):
        assert found_in(text[: each.start()] + text[each.end() :], tmp_path), text[: each.start()].count("\n") + 1


# --- operations that nobody has described -------------------------------------------------------------------------

UNKNOWN = """\
#a = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<1024xf32, #a>) -> (), sym_name = "k", sym_visibility = "public"}> ({
  ^bb0(%v: tensor<1024xf32, #a>):
    %m = "ttg.local_alloc"() {allocation.offset = 0 : i32} : () -> !ttg.memdesc<1024xf32, #s, #smem, mutable>
    "ttg.local_store"(%v, %m) : (tensor<1024xf32, #a>, !ttg.memdesc<1024xf32, #s, #smem, mutable>) -> ()
    "mine.exchange"(%m) : (!ttg.memdesc<1024xf32, #s, #smem, mutable>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) {"ttg.num-warps" = 4 : i32, ttg.shared = 4096 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} : () -> ()
"""  # noqa: E501


def test_what_nobody_has_described_touches_everything_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(UNKNOWN, encoding="utf-8")
    (unit,) = sessions_of(load(str(path)), None)
    found = run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None).findings
    told, *races = found
    assert told.code == "TG407"
    assert told.message == "the effect of `mine.exchange` on shared memory is unknown here"
    assert told.at.line == 9
    assert "effects.toml" in told.help
    assert races, "it may read what another wave has stored"
    assert all(each.code.startswith("TG1") for each in races)
    assert {label.at.line for each in races for label in each.labels} == {8, 9}


def test_sync_puts_a_barrier_before_what_nobody_has_described(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(UNKNOWN, encoding="utf-8")
    (unit,) = sessions_of(load(str(path), as_compiled=False), None)
    after = write_programs([propose(unit)], UNKNOWN, str(path))
    lines = after.split("\n")
    at = next(number for number, line in enumerate(lines) if '"mine.exchange"' in line)
    assert lines[at - 1].lstrip().startswith('"ttg.barrier"()')


# --- the command line ---------------------------------------------------------------------------------------------


def test_check_ends_with_its_findings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(FOLDER)
    out, err, status = run("check", "gemm.sm_80.ttgir", monkeypatch=monkeypatch, capsys=capsys)
    assert (status, err) == (0, "")
    assert out.startswith("@gemm on sm_80: no findings\n  as Triton 3.9.0 compiles it: ")
    assert "\n  proved: no race, inversion or hang" in out
    out, _, status = run("check", f"{BARE}.ttgir", monkeypatch=monkeypatch, capsys=capsys)
    assert status == 1
    assert out.startswith(
        f"error[TG102]: `b` is written while another wave may still be reading it\n  --> {BARE}.ttgir:36"
    )


def test_check_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(FOLDER)
    out, _, status = run("check", f"{BARE}.ttgir", "--json", monkeypatch=monkeypatch, capsys=capsys)
    document = json.loads(out)
    assert status == 1
    assert document["checked"] == ["@pingpong on gfx942"]
    (finding,) = document["findings"]
    assert finding["code"] == "TG102"


def test_sync_as_json_and_into_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(FOLDER)
    out, _, status = run("sync", "gemm.gfx942.ttgir", "--json", monkeypatch=monkeypatch, capsys=capsys)
    assert status == 0
    assert json.loads(out)["text"] == synchronized("gemm.gfx942")
    into = tmp_path / "out.ttgir"
    _, _, status = run("sync", "gemm.gfx942.ttgir", "-o", into, monkeypatch=monkeypatch, capsys=capsys)
    assert status == 0
    assert into.read_text(encoding="utf-8") == synchronized("gemm.gfx942")
    _, err, status = run(
        "sync", "gemm.gfx942.ttgir", "-o", tmp_path / "out.tide", monkeypatch=monkeypatch, capsys=capsys
    )
    assert status == 2
    assert ".ttgir" in err


def test_what_is_synchronized_is_not_synchronized_again(tmp_path: Path) -> None:
    path = tmp_path / "k.ttgir"
    path.write_text(synchronized("gemm.gfx942"), encoding="utf-8")
    (unit,) = sessions_of(load(str(path), as_compiled=False), None)
    assert write_programs([propose(unit)], synchronized("gemm.gfx942"), str(path)) == synchronized("gemm.gfx942")


@pytest.mark.parametrize(
    ("text", "status"), [("module {\n}\n", 2), ("module {\n  nonsense\n}\n", 2)], ids=["no kernel", "broken"]
)
def test_bad_input_ends_with_two(
    text: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.ttgir").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    _, err, found = run("check", "k.ttgir", monkeypatch=monkeypatch, capsys=capsys)
    assert found == status
    assert "error[TG0" in err


def test_explain_and_run_take_it_as_it_will_be_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FOLDER)
    out, _, status = run("explain", "gemm.gfx942.ttgir", monkeypatch=monkeypatch, capsys=capsys)
    assert status == 0
    assert out.startswith("@gemm on gfx942: 3 barriers, 3 needed")
    _, _, status = run("run", "gemm.gfx942.ttgir", monkeypatch=monkeypatch, capsys=capsys)
    assert status == 0


MYSTERY = """\
#a = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<256xf32, #a>) -> (), sym_name = "k", sym_visibility = "public"}> ({
  ^bb0(%v: tensor<256xf32, #a>):
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %m = "ttg.local_alloc"() {allocation.offset = 0 : i32} : () -> !ttg.memdesc<2x256xf32, #s, #smem, mutable>
    %s = "ttg.memdesc_index"(%m, %one) : (!ttg.memdesc<2x256xf32, #s, #smem, mutable>, i32) -> !ttg.memdesc<256xf32, #s, #smem, mutable>
    %x = MAKE -> !ttg.memdesc<256xf32, #s, #smem, mutable>
    "ttg.barrier"() <{addrSpace = 1 : i32}> : () -> ()
    %r = "ttg.local_load"(%x) : (!ttg.memdesc<256xf32, #s, #smem, mutable>) -> tensor<256xf32, #a>
    "ttg.local_store"(%v, %s) : (tensor<256xf32, #a>, !ttg.memdesc<256xf32, #s, #smem, mutable>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) {"ttg.num-warps" = 4 : i32, ttg.shared = 2048 : i32, ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32} : () -> ()
"""  # noqa: E501


@pytest.mark.parametrize(
    "make",
    [
        '"mystery.view"(%m, %one) : (!ttg.memdesc<2x256xf32, #s, #smem, mutable>, i32)',
        '"mystery.get"(%one) : (i32)',
    ],
)
def test_what_a_descriptor_of_an_unknown_operation_reaches_is_everything(make: str, tmp_path: Path) -> None:
    """It may be the slot that is stored to right behind the load."""
    found = found_in(MYSTERY.replace("MAKE", make), tmp_path)
    assert any(each.code in ("TG102", "TG103") and any(at.at.line == 13 for at in each.labels) for each in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" : (!ttg.memdesc<256xf32, #s, #smem, mutable>) -> tensor<256xf32, #a>", " : () -> ()"),
        ('"ttg.local_store"(%v, %s)', '"ttg.local_store"()'),
        ("!ttg.memdesc<2x256xf32, #s, #smem, mutable>", "!ttg.memdesc<>"),
    ],
)
def test_types_that_do_not_fit_are_refused(old: str, new: str, tmp_path: Path) -> None:
    """Generic text is read without Triton's verifier."""
    text = MYSTERY.replace("MAKE", '"mystery.get"(%one) : (i32)')
    assert old in text
    with pytest.raises(BadInput) as refused:
        found_in(text.replace(old, new), tmp_path)
    assert refused.value.findings[0].code in ("TG005", "TG001", "TG602")


def test_a_conditional_barrier_of_other_waves_than_a_half_is_refused(tmp_path: Path) -> None:
    """Without knowing who arrives there, nobody knows who meets whom at the other barriers."""
    text = text_of(BARE).replace("%half = arith.divsi %thread, %c256", "%half = arith.remsi %thread, %c256")
    with pytest.raises(BadInput) as refused:
        found_in(text, tmp_path)
    assert refused.value.findings[0].code == "TG012"


def test_a_wait_that_does_not_say_for_how_many_waits_for_nothing(tmp_path: Path) -> None:
    """In generic form an attribute may be missing."""
    path = FOLDER / "gemm.sm_80.ttgir"
    ttgir = read_ttgir(path.read_text(encoding="utf-8"), path.name, before=("barriers",))
    wait = next(op for op in walk(ttgir.module.operation) if op.name == "ttg.async_wait")
    text = libtriton.parse(take_places(path.read_text(encoding="utf-8")).text, path.name)
    generic = text.run("allocate", "fences", "barriers").generic()
    assert wait.integer("num") is not None
    found = found_in(re.sub(r" <\{num = \d+ : i32\}>", "", generic), tmp_path)
    assert {each.code for each in found} & {"TG101", "TG105", "TG106"}
    assert any(each.code == "TG407" for each in found)


def test_an_operation_with_regions_that_nobody_knows_hides_nothing(tmp_path: Path) -> None:
    """What is in its regions may be run at any time, and how often nobody knows."""
    store = re.compile(r'    "ttg\.local_store"\(%v, %s\).*\n')
    text = MYSTERY.replace("MAKE", '"ttg.memdesc_index"(%m, %one) : (!ttg.memdesc<2x256xf32, #s, #smem, mutable>, i32)')
    assert not any(each.code == "TG407" for each in found_in(text, tmp_path))
    (line,) = store.findall(text)
    hidden = text.replace(
        line, f'    "mystery.region"() ({{\n{line}    "mystery.end"() : () -> ()\n    }}) : () -> ()\n'
    )
    found = found_in(hidden, tmp_path)
    assert any(each.code == "TG407" and "mystery.region" in each.message for each in found)
    assert {each.code for each in found} & {"TG102", "TG103"}


def test_names_that_differ_in_signs_alone_stay_apart() -> None:
    names = ["%a#1", "%a_1", "%a.1", "%a-1", "%a$1", "%a"]
    assert len({name_of(each) for each in names}) == len(names)


# --- counts -------------------------------------------------------------------------------------------------------

PRODUCT = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
!left = !ttg.memdesc<64x32xf16, #shared, #smem, mutable>
!right = !ttg.memdesc<32x64xf16, #shared1, #smem, mutable>
!sum = tensor<64x64xf32, #mma>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%v: tensor<64x32xf16, #blocked>, %acc: !sum) {
    %a = ttg.local_alloc : () -> !left
    %b = ttg.local_alloc : () -> !right
    %d = ttng.warp_group_dot %a, %b, %acc {inputPrecision = 0 : i32, isAsync = true} : !left * !right -> !sum
    %w = ttng.warp_group_dot_wait %d {pendings = COUNT : i32} : !sum
    ttg.barrier local
    ttg.local_store %v, %a : tensor<64x32xf16, #blocked> -> !left
    tt.return
  }
}
"""


@pytest.mark.parametrize(("count", "codes"), [(0, set()), (1, {"TG102", "TG105"})])
def test_both_operands_of_a_product_are_one_unit_of_its_queue(count: int, codes: set[str], tmp_path: Path) -> None:
    """Reading the right operand is no younger product behind reading the left one: with 1 pending both may go on."""
    found = found_in(PRODUCT.replace("COUNT", str(count)), tmp_path)
    assert {each.code for each in found} == codes
