"""TTGIR that `sync` writes: proved as it is read back, and facts that come from what is parsed, not from a text search.

Each test has a mutant: with the old belief put back, the same check must fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tidegate.cli import main
from tidegate.diag import BadInput, Finding
from tidegate.files import load
from tidegate.hosts.mlir import is_generic, parse_generic
from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton import build_memory, child, libtriton, read, write
from tidegate.hosts.triton.build_objects import Objects
from tidegate.hosts.triton.compare import compare
from tidegate.hosts.triton.program import TritonProgram, programs_of
from tidegate.hosts.triton.questions import QUESTIONS
from tidegate.hosts.triton.read import read_ttgir
from tidegate.passes import run_stages
from tidegate.session import sessions_of
from tidegate.synchronize import propose, stages, written

if not libtriton.is_installed():
    pytest.skip(
        "NOT TESTED: these texts are in Triton's syntax, and Triton is not installed; `pip install tidegate[triton]`",
        allow_module_level=True,
    )

FOLDER = ROOT / "tests" / "ttgir"
GPUS = {"sm_80": ("cuda:80", 32), "sm_90": ("cuda:90", 32), "gfx942": ("hip:gfx942", 64), "gfx950": ("hip:gfx950", 64)}
Run = Callable[..., tuple[str, str, int]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line in a folder of its own, which takes the text of `k.ttgir` first."""

    def run(text: str, *args: object) -> tuple[str, str, int]:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "k.ttgir").write_text(text, encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["tidegate", *map(str, args)])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capsys.readouterr()
        return out, err, int(done.value.code or 0)

    return run


def text(body: str, target: str = "sm_80", warps: int = 4, more: str = "", parameters: str = "") -> str:
    """A kernel with pointers `%p` in layout `#a`, two neighbours a lane, and `%q` in `#b`, one element a lane."""
    gpu, lanes = GPUS[target]
    size = warps * lanes * 2
    rest = f"threadsPerWarp = [{lanes}], warpsPerCTA = [{warps}], order = [0]}}>"
    given = f"%p: tensor<{size}x!tt.ptr<f32>, #a>, %q: tensor<{size}x!tt.ptr<f32>, #b>{parameters}"
    return (
        f"#a = #ttg.blocked<{{sizePerThread = [2], {rest}\n#b = #ttg.blocked<{{sizePerThread = [1], {rest}\n"
        "#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>\n"
        "#smem = #ttg.shared_memory\n"
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, {more}ttg.target = "{gpu}", '
        f'"ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"  tt.func public @k({given}) attributes {{noinline = false}} {{\n"
        f"{body.replace('SIZE', str(size))}    tt.return\n  }}\n}}\n"
    )


def found_in(source: str, folder: Path) -> list[Finding]:
    """What is wrong with a text as it stands."""
    path = folder / "found.ttgir"
    path.write_text(source, encoding="utf-8")
    units = sessions_of(load(str(path), as_compiled=False), None)
    checked = [run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None) for unit in units]
    return [finding for each in checked for finding in each.findings]


# --- copies that are in no group ----------------------------------------------------------------------------------

ALLOC = "    %m = ttg.local_alloc : () -> !ttg.memdesc<SIZExf32, #s, #smem, mutable>\n"
COPY = (
    "    %t = ttg.async_copy_global_to_local %q, %m : tensor<SIZEx!tt.ptr<f32>, #b> -> <SIZExf32, #s, #smem, mutable>\n"
)
LOAD = "    %v = ttg.local_load %m : !ttg.memdesc<SIZExf32, #s, #smem, mutable> -> tensor<SIZExf32, #a>\n"
STORE = "    tt.store %p, %v : tensor<SIZEx!tt.ptr<f32>, #a>\n"
COMMIT = "    %g = ttg.async_commit_group\n"
# A commit on one of two ways, and behind a loop that may run no time at all.
SOMETIMES = f"    scf.if %c {{\n  {COMMIT.replace('%g', '%h')}    }}\n"
LATER = f"    scf.for %i = %n to %n step %n : i32 {{\n  {COMMIT.replace('%g', '%h')}    }}\n"
OPEN = {
    "never": ALLOC + COPY + LOAD + STORE,
    "on one way": ALLOC + COPY + SOMETIMES + LOAD + STORE,
    "in a loop": ALLOC + COPY + LATER + LOAD + STORE,
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx950"])
@pytest.mark.parametrize("name", OPEN)
def test_a_copy_in_no_group_is_committed_before_its_wait(name: str, target: str, command: Run, tmp_path: Path) -> None:
    source = text(OPEN[name], target, parameters=", %c: i1, %n: i32")
    assert found_in(source, tmp_path)
    out, _, status = command(source, "sync", "k.ttgir", "-o", "out.ttgir")
    assert status == 0
    assert "\n  proved: no race" in out
    after = (tmp_path / "out.ttgir").read_text(encoding="utf-8")
    assert re.search(
        r"= ttg\.async_commit_group\n +%tidegate\d+ = ttg\.async_wait \{num = 0 : i32\}\n +ttg\.barrier", after
    )
    assert found_in(after, tmp_path) == []


def test_a_group_that_is_closed_is_not_closed_again(command: Run) -> None:
    out, _, status = command(text(ALLOC + COPY + COMMIT + LOAD + STORE), "sync", "k.ttgir")
    assert status == 0
    assert out.count("ttg.async_commit_group") == 1


def test_generic_text_gets_a_generic_commit(tmp_path: Path) -> None:
    source = libtriton.parse(text(OPEN["never"]), "k.ttgir").run("allocate").generic()
    after = written_by_sync(source, tmp_path)
    assert re.search(r'%tidegate0 = "ttg\.async_commit_group"\(\) : \(\) -> !ttg\.async\.token\n', after)
    assert found_in(after, tmp_path) == []


def written_by_sync(source: str, folder: Path) -> str:
    path = folder / "given.ttgir"
    path.write_text(source, encoding="utf-8")
    results = [propose(unit) for unit in sessions_of(load(str(path), as_compiled=False), None)]
    return written.write_programs(results, source, str(path))


def test_names_of_values_that_are_put_in_are_new(command: Run, tmp_path: Path) -> None:
    source = text(OPEN["never"]).replace("%t =", "%tidegate0 =")
    _, _, status = command(source, "sync", "k.ttgir", "-o", "out.ttgir")
    assert status == 0
    assert "%tidegate1 = ttg.async_commit_group" in (tmp_path / "out.ttgir").read_text(encoding="utf-8")


def test_a_wait_without_the_commit_is_no_proof(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old belief: a wait for 0 groups covers every copy. The text that comes of it is read back, and races."""
    monkeypatch.setattr(write, "find_open_groups", lambda _: frozenset())
    for args in (("-o", "out.ttgir"), ()):
        out, err, status = command(text(OPEN["never"]), "sync", "k.ttgir", *args)
        assert status == 1
        said = out if args else err
        assert "error[TG1" in said
        assert "proved: no race" not in said


@pytest.mark.parametrize(
    ("target", "waits"), [("sm_80", r"cp\.async\.wait_all|wait_group\s+0"), ("gfx950", r"vmcnt\(0\)")]
)
def test_what_compilers_make_of_a_wait_for_a_copy_in_no_group(target: str, waits: str) -> None:
    """The counter is waited for only if the group was closed: LLVM counts marks, PTX groups that were committed."""
    from tests.hosts.triton.test_triton_effects import GPUS as KNOWN
    from tests.hosts.triton.test_triton_effects import assembly

    KNOWN.setdefault("gfx950", ("hip", "gfx950", 64))
    wait = "    %w = ttg.async_wait {num = 0 : i32}\n    ttg.barrier local\n"
    made = {name: assembly(text(ALLOC + COPY + name + wait + LOAD + STORE, target), target) for name in ("", COMMIT)}
    drained = {name: bool(re.search(waits, code.partition("barrier" if target != "sm_80" else "bar.sync")[0]))
               for name, code in made.items()}  # fmt: skip
    assert drained[COMMIT]
    if target == "sm_80":  # the instruction is there, and the PTX ISA says that it waits for committed groups
        assert "cp.async.commit_group" in made[COMMIT]
        assert "cp.async.commit_group" not in made[""]
    else:
        assert not drained[""], "the copies are not waited for"


# --- facts --------------------------------------------------------------------------------------------------------

CONVERT = (
    "    %x = tt.load %p : tensor<SIZEx!tt.ptr<f32>, #a>\n"
    "    %y = ttg.convert_layout %x : tensor<SIZExf32, #a> -> tensor<SIZExf32, #b>\n"
    "    %z = ttg.convert_layout %y : tensor<SIZExf32, #b> -> tensor<SIZExf32, #a>\n"
    "    tt.store %p, %z : tensor<SIZEx!tt.ptr<f32>, #a>\n    tt.store %q, %y : tensor<SIZEx!tt.ptr<f32>, #b>\n"
)
SAYINGS = (
    "allocation.offset",
    "allocation.offset = 0 : i32",
    "ttg.shared = 4 : i32",
    'ttg.target = "hip:gfx942"',
    '"ttg.num-warps" = 1 : i32',
    'triton.warp_pipeline.stage = "a"',
    "module",
    '"builtin.module"() ({',
    "ttg.barrier local",
    'loc("x.py":1:2)',
)


def everywhere(source: str, comment: str) -> str:
    """A comment on a line of its own before each line, and behind each."""
    return "".join(f"// {comment}\n{line}  // {comment}\n" for line in source.splitlines())


@pytest.mark.parametrize("saying", SAYINGS)
@pytest.mark.parametrize("form", ["pretty", "generic"])
def test_a_comment_is_no_fact(saying: str, form: str, tmp_path: Path) -> None:
    source = text(CONVERT)
    if form == "generic":
        source = re.sub(r", tidegate = 1 : i32|tidegate = 1 : i32, ", "", libtriton.parse(source, "k.ttgir").generic())
        source = re.sub(r"\s*loc\(.*\)$|^#loc.*$", "", source, flags=re.MULTILINE)
    assert is_generic(source) is (form == "generic")
    plain, noisy = read_ttgir(source, "k.ttgir"), read_ttgir(everywhere(source, saying), "k.ttgir")
    for fact in ("gpu", "waves", "lanes", "shared", "is_generic", "is_allocated", "is_open", "has_stages"):
        assert getattr(noisy, fact) == getattr(plain, fact), fact
    (one,), (other,) = programs_of(plain), programs_of(noisy)
    assert one.built.graph == other.built.graph


def test_a_comment_about_memory_takes_no_barrier_away(command: Run) -> None:
    said = []
    for comment in ("", "// allocation.offset\n"):
        out, _, status = command(comment + text(CONVERT), "sync", "k.ttgir")
        assert status == 0
        said.append(out.count("ttg.barrier local"))
    assert said == [1, 1]


def test_a_search_in_the_text_would_lose_the_barrier(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old belief: a file that mentions an offset is laid out, and what has none needs no memory."""
    monkeypatch.setattr(libtriton.Parsed, "is_laid_out", lambda _: True)
    monkeypatch.setattr(libtriton, "is_complete", lambda *_: True)
    # In this process, since a child would not have the old belief.
    monkeypatch.setattr(child, "ask", lambda question, file, **given: QUESTIONS[question][0](file=file, **given))
    out, err, _ = command("// allocation.offset\n" + text(CONVERT), "sync", "k.ttgir")
    assert out.count("ttg.barrier local") == 0
    assert "proved: no race" in err


def test_comments_inside_of_attributes_are_no_attributes() -> None:
    source = '"a.b"() <{x = 1 : i32, // y = 2 : i32, }>\n z = 3 : i32}> : () -> () // "c.d"() : () -> ()\n'
    (op,) = parse_generic(source).operation.regions[0].blocks[0].operations
    assert op.attributes == (("x", "1 : i32"), ("z", "3 : i32"))
    aliased = parse_generic('#a = #ttg.x<{n = 1}> // <{(\n"a.b"() {l = "// no comment"} : () -> ()\n')
    assert aliased.aliases == {"#a": "#ttg.x<{n = 1}>"}
    assert aliased.operation.regions[0].blocks[0].operations[0].string("l") == "// no comment"


def test_an_allocation_without_a_place_is_laid_out_anew(tmp_path: Path) -> None:
    """Some operations have places and one has none: then nobody knows which of them share bytes."""
    some = ALLOC + ALLOC.replace("%m", "%o").replace("local_alloc", "local_alloc {allocation.offset = 0 : i32}")
    assert not read_ttgir(text(some), "k.ttgir").is_allocated
    both = some.replace("local_alloc :", "local_alloc {allocation.offset = 0 : i32} :")
    assert read_ttgir(text(both), "k.ttgir").is_allocated


def test_memory_that_is_not_laid_out_needs_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the memory of a conversion would be none."""
    source = libtriton.parse(text(CONVERT), "k.ttgir").generic()
    monkeypatch.setattr(libtriton, "is_installed", lambda: False)
    with pytest.raises(BadInput, match="shared memory has no layout in this file; computing one needs Triton"):
        read_ttgir(source, "k.mlir")


def test_a_module_says_how_many_warps_it_has() -> None:
    source = libtriton.parse(text(CONVERT, more="ttg.shared = 0 : i32, "), "k.ttgir").generic()
    assert read_ttgir(source, "k.mlir").waves == 4
    with pytest.raises(BadInput, match="how many warps"):
        read_ttgir(re.sub(r'"ttg\.num-warps" = 4 : i32, ', "", source), "k.mlir")


# --- stages of a warp pipeline ------------------------------------------------------------------------------------

# The first stage stores and loads: it needs a barrier inside, which Triton does not allow in a stage.
STAGES = """\
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = tt.load %p : tensor<SIZEx!tt.ptr<f32>, #a>
    %m = ttg.local_alloc : () -> !ttg.memdesc<SIZExf32, #s, #smem, mutable>
    scf.for %i = %c0 to %n step %c1 : i32 {
      %r = scf.execute_region -> tensor<SIZExf32, #b> no_inline {
        ttg.local_store %x, %m : tensor<SIZExf32, #a> -> !ttg.memdesc<SIZExf32, #s, #smem, mutable>
        %v = ttg.local_load %m : !ttg.memdesc<SIZExf32, #s, #smem, mutable> -> tensor<SIZExf32, #b>
        scf.yield %v : tensor<SIZExf32, #b>
      } {triton.warp_pipeline.stage = "read"}
      scf.execute_region no_inline {
        %w = arith.addf %r, %r : tensor<SIZExf32, #b>
        ttg.local_store %w, %m : tensor<SIZExf32, #b> -> !ttg.memdesc<SIZExf32, #s, #smem, mutable>
        tt.store %q, %w : tensor<SIZEx!tt.ptr<f32>, #b>
        scf.yield
      } {triton.warp_pipeline.stage = "write"}
      scf.yield
    } {triton.warp_pipeline.pipelined_for}
"""


def staged() -> str:
    return text(STAGES, "gfx942", warps=8, parameters=", %n: i32")


def test_stages_of_a_warp_pipeline_become_loops_in_the_text(command: Run, tmp_path: Path) -> None:
    out, _, status = command(staged(), "sync", "k.ttgir", "-o", "out.ttgir")
    assert status == 0
    assert "note: stages of a warp pipeline were turned into loops first, as Triton does" in out
    assert "\n  proved: no race" in out
    after = (tmp_path / "out.ttgir").read_text(encoding="utf-8")
    assert "warp_pipeline" not in after
    assert after.count("amdg.cond_barrier") == 2
    assert str(tmp_path) not in after
    assert "tidegate-" not in after, "no place of this machine"
    assert found_in(after, tmp_path) == []
    assert written_by_sync(after, tmp_path) == after, "and it is synchronized"


def test_edits_among_stages_would_come_to_stand_among_other_barriers(
    command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old belief: the text from before Triton's conversion can take the barriers of the one behind it."""
    monkeypatch.setattr(read, "read_to_edit", lambda source, file, gpu=None: read_ttgir(source, file, gpu=gpu))
    out, _, status = command(staged(), "sync", "k.ttgir", "-o", "out.ttgir")
    assert status == 1
    assert "proved: no race" not in out


@pytest.mark.parametrize("name", ["gluon-matmul-stages-s3.gfx950", "gluon-matmul-stages-moved.gfx1250"])
def test_staged_kernels_are_written_and_proved(name: str, command: Run) -> None:
    from oracles.triton_kernels.texts import pairs, text_of

    source = text_of(next(each for each in pairs() if each.name == name))
    _, err, status = command(source, "sync", "k.ttgir")
    assert status == 0
    assert "\n  proved: no race" in err


# --- the memory of barrier objects --------------------------------------------------------------------------------

BARRIER = "!ttg.memdesc<1xi64, #s, #smem, mutable>"
INIT = f"    ttng.init_barrier %bar, 1 : {BARRIER}\n"
MEET = "    ttg.barrier local\n"
WITH = "    %bar = ttg.local_alloc %one {allocation.offset = 0 : i32} : " + f"(tensor<1xi64, #b>) -> {BARRIER}\n"
THEN = (
    f"    %bar = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {BARRIER}\n"
    f"    ttg.local_store %one, %bar : tensor<1xi64, #b> -> {BARRIER}\n"
)
ROW = "!ttg.memdesc<2x1xi64, #s, #smem, mutable>"
SECOND = (
    "    %c1 = arith.constant 1 : i32\n"
    f"    %all = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {ROW}\n"
    f"    %bar = ttg.memdesc_index %all[%c1] : {ROW} -> {BARRIER}\n"
    f"    ttg.local_store %one, %bar : tensor<1xi64, #b> -> {BARRIER}\n"
)
STORED = {"as it is allocated": WITH, "behind that": THEN, "in a slot": SECOND}


def with_barrier(body: str, warps: int = 4) -> str:
    return text(body, "sm_90", warps, more="ttg.shared = 16 : i32, ", parameters=", %one: tensor<1xi64, #b>")


@pytest.mark.parametrize("warps", [4, 1])
@pytest.mark.parametrize("name", STORED)
def test_a_tensor_stored_before_a_barrier_is_set_up_there(name: str, warps: int, tmp_path: Path) -> None:
    """One thread sets it up: stores of other waves, and of other lanes, must be over."""
    found = found_in(with_barrier(STORED[name] + INIT, warps), tmp_path)
    assert found
    assert all(each.code in ("TG103", "TG108", "TG106") for each in found)
    assert found_in(with_barrier(STORED[name] + MEET + INIT, warps), tmp_path) == []


def test_a_store_to_another_barrier_of_the_row_is_none_of_its_business(tmp_path: Path) -> None:
    first = SECOND.replace("[%c1]", "[%c0]").replace("%bar =", "%other =").replace("%one, %bar", "%one, %other")
    body = "    %c0 = arith.constant 0 : i32\n" + first + SECOND.splitlines()[2] + "\n" + INIT
    assert found_in(with_barrier(body), tmp_path) == []


def test_a_barrier_is_set_up_before_others_wait_at_it(tmp_path: Path) -> None:
    phase = "    %c0 = arith.constant 0 : i32\n"
    fresh = THEN.splitlines()[0] + "\n"
    wait = f"    ttng.wait_barrier %bar, %c0 : {BARRIER}\n"
    arrive = f"    ttng.arrive_barrier %bar, 1 : {BARRIER}\n"
    assert any(each.code == "TG101" for each in found_in(with_barrier(phase + fresh + INIT + wait + arrive), tmp_path))


def test_triton_puts_a_barrier_there_too() -> None:
    source = re.sub(r"ttg\.shared = \d+ : i32, | \{allocation\.offset = 0 : i32\}", "", with_barrier(THEN + INIT))
    after = libtriton.parse(source, "k.ttgir").run("allocate", "fences", "barriers").plain()
    assert re.search(r"local_store .*\n *ttg\.barrier local\n *ttng\.init_barrier", after)


def test_without_the_store_of_an_allocation_nothing_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The old belief: what an allocation of barriers starts with does not matter."""
    real = build_memory.Memory.alloc

    def forgetful(self: Any, op: Operation, does: Any) -> None:
        real(self, replace(op, operands=()) if op.result in self.descriptors.objects else op, does)

    monkeypatch.setattr(build_memory.Memory, "alloc", forgetful)
    assert found_in(with_barrier(WITH + INIT), tmp_path) == []


def test_the_memory_of_a_barrier_is_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The old belief: only operations on barriers touch it. Then a store to it has no meaning at all."""
    monkeypatch.setattr(Objects, "memory_of", lambda _, view: view)
    with pytest.raises(BadInput, match="TG602"):
        found_in(with_barrier(THEN + INIT), tmp_path)


def test_a_part_of_a_buffer_is_no_barrier_object(tmp_path: Path) -> None:
    """Nobody knows which part: everything may be touched, and that is reported. Triton refuses it in its own syntax."""
    generic = libtriton.parse(with_barrier(THEN.splitlines()[0] + "\n" + INIT), "k.ttgir").generic()
    assert not any(each.code == "TG407" for each in found_in(generic, tmp_path))
    wider = generic.replace("!ttg.memdesc<1xi64,", "!ttg.memdesc<2xi64,")
    assert any(each.code == "TG407" for each in found_in(wider, tmp_path))


# --- read back ----------------------------------------------------------------------------------------------------

EXCHANGE = (
    "    %x = tt.load %p : tensor<SIZEx!tt.ptr<f32>, #a>\n" + ALLOC
    + "    ttg.local_store %x, %m : tensor<SIZExf32, #a> -> !ttg.memdesc<SIZExf32, #s, #smem, mutable>\n"
    + "    %v = ttg.local_load %m : !ttg.memdesc<SIZExf32, #s, #smem, mutable> -> tensor<SIZExf32, #b>\n"
    + "    tt.store %q, %v : tensor<SIZEx!tt.ptr<f32>, #b>\n"
)  # fmt: skip
BREAKS = {
    "a barrier is forgotten": (r" *ttg\.barrier local.*\n", "", "error[TG101]"),
    "a store is lost": (r" *ttg\.local_store.*\n", "", "not proved as written: the text contains a different program"),
    "another value is stored": (r"store %q, %v", "store %q, %v2", "not proved as written: the text cannot be read"),
    "a load is another": (
        r"(local_load %m) ",
        r"\1 {x} ",
        "not proved as written: the text contains a different program",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.parametrize("args", [("-o", "out.ttgir"), (), ("--json",), ("--diff",)], ids=" ".join)
def test_what_is_written_is_what_is_judged(
    name: str, args: tuple[str, ...], command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that makes mistakes: whatever it writes, the report speaks of that."""
    pattern, new, words = BREAKS[name]
    break_writer(monkeypatch, pattern, new)
    out, err, status = command(text(EXCHANGE), "sync", "k.ttgir", *args)
    assert status == 1
    if args == ("--json",):
        document = json.loads(out)
        assert document["findings"]
        assert not (document["programs"][0]["verified"] or {}).get("proved")
    else:
        assert words in out + err
        assert "proved: no race" not in out + err


def break_writer(monkeypatch: pytest.MonkeyPatch, pattern: str, new: str) -> None:
    from tidegate.hosts.triton import write as module

    real = module.write_ttgir
    monkeypatch.setattr(module, "write_ttgir", lambda *args, **more: re.sub(pattern, new, real(*args, **more), count=1))


def test_a_proof_of_the_plan_would_see_none_of_that(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old belief: what was planned is what was written."""
    from tidegate import synchronize
    from tidegate.synchronize import Written

    def trusting(results: Any, *_: object, **__: object) -> list[Any]:
        return [Written(each.made) for each in results]

    monkeypatch.setattr(synchronize, "read_back", trusting)
    pattern, new, _ = BREAKS["a barrier is forgotten"]
    break_writer(monkeypatch, pattern, new)
    out, _, status = command(text(EXCHANGE), "sync", "k.ttgir", "-o", "out.ttgir")
    assert status == 0
    assert "proved: no race" in out


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ttgir")), ids=lambda path: path.stem)
def test_texts_that_were_written_differ_in_synchronization_alone(path: Path, tmp_path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    after = read_ttgir(written_by_sync(source, tmp_path), "k.ttgir")
    compared = compare(read_ttgir(source, "k.ttgir"), after)
    assert compared.difference == ""
    assert all(old.name == new.name for old, new in compared.pairs)


def test_the_library_judges_what_it_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "k.ttgir"
    path.write_text(text(EXCHANGE), encoding="utf-8")
    (unit,) = sessions_of(load(str(path), as_compiled=False), None)
    assert isinstance(unit.origin, TritonProgram)
    found = stages.synchronize(unit)
    assert found.checked is not None
    assert found.checked.is_proved
    pattern, new, _ = BREAKS["a barrier is forgotten"]
    break_writer(monkeypatch, pattern, new)
    found = stages.synchronize(unit)
    assert found.checked is not None
    assert {each.code for each in found.checked.findings} == {"TG101", "TG108"}, "between waves, and between lanes"


# --- lines --------------------------------------------------------------------------------------------------------


def on_one_line(source: str) -> str:
    """The store and the load of a text in one line."""
    return re.sub(r"(local_store [^\n]*)\n *", r"\1 ", source)


def test_a_barrier_in_the_middle_of_a_line_breaks_it(command: Run, tmp_path: Path) -> None:
    """A line before it would come before the store, too."""
    out, _, status = command(on_one_line(text(EXCHANGE)), "sync", "k.ttgir", "-o", "out.ttgir")
    assert status == 0
    assert "\n  proved: no race" in out
    after = (tmp_path / "out.ttgir").read_text(encoding="utf-8")
    assert re.search(r"local_store[^\n]*\n *ttg\.barrier local[^\n]*\n[^\n]*local_load", after)


def test_a_barrier_is_not_taken_away_with_its_neighbours(command: Run, tmp_path: Path) -> None:
    """Two barriers in one line: one of them is redundant, and the line holds the other one, too."""
    barriers = text(EXCHANGE).replace("    %v = ttg", "    ttg.barrier local ttg.barrier local\n    %v = ttg")
    out, _, status = command(barriers, "sync", "k.ttgir", "--remove-redundant", "-o", "out.ttgir")
    assert status == 0
    assert "\n  proved: no race" in out
    assert (tmp_path / "out.ttgir").read_text(encoding="utf-8").count("ttg.barrier local") == 1


@pytest.mark.parametrize(
    ("barrier", "stays"),
    [
        ("ttg.barrier local", False),
        ("ttg.barrier all", True),
        ("ttg.barrier local|global_write", True),
        ("gpu.barrier", True),
        ("gpu.barrier memfence [#gpu.address_space<workgroup>]", False),
        ("rocdl.barrier", True),
    ],
)
def test_what_orders_global_memory_stays(barrier: str, stays: bool, command: Run) -> None:
    """No access to shared memory needs it. The threads of a workgroup may write and read global memory around it."""
    other = "tensor<SIZEx!tt.ptr<f32>, #b>"
    body = (
        f"    %v = tt.load %q : {other}\n    tt.store %q, %v : {other}\n    {barrier}\n    %w = tt.load %q : {other}\n"
    )
    out, _, status = command(text(body, "gfx942"), "sync", "k.ttgir", "--remove-redundant")
    assert status == 0
    assert (barrier in out) is stays


TILE = "!ttg.memdesc<SIZEx64xf32, #nv, #smem, mutable>"
BULK = (
    f"    %m = ttg.local_alloc : () -> {TILE}\n"
    f"    ttng.async_tma_copy_local_to_global %d[%n, %n] %m : !tt.tensordesc<SIZEx64xf32, #nv>, {TILE}\n"
    "    ttng.async_tma_store_wait {pendings = PENDING : i32}\n"
)


@pytest.mark.parametrize("pending", [0, 1])
def test_a_wait_for_a_bulk_store_is_not_loosened(pending: int, command: Run) -> None:
    """A workgroup that ends gives its memory back, and the store may still read it."""
    layout = "#nv = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>\n"
    given = ", %n: i32, %d: !tt.tensordesc<SIZEx64xf32, #nv>".replace("SIZE", "256")
    source = layout + text(BULK.replace("PENDING", str(pending)), "sm_90", parameters=given)
    out, err, status = command(source, "sync", "k.ttgir", "--tighten-waits")
    assert (status, "\n  proved: no race" in err) == (0, True)
    assert f"pendings = {pending} : i32" in out


def test_a_line_with_locations_is_not_broken(command: Run) -> None:
    """Where its operations begin is not known any more, when locations are taken out."""
    source = re.sub(r"(local_store [^\n]*)\n *", r'\1 loc("k.py":3:1) ', text(EXCHANGE))
    _, err, status = command(source, "sync", "k.ttgir")
    assert status == 2
    assert "its line has something else before it" in err


def test_a_count_in_a_comment_is_not_changed(command: Run) -> None:
    wait = "    %w = ttg.async_wait {num = 0 : i32}  // num = 7\n    ttg.barrier local\n"
    source = text(ALLOC + COPY + COMMIT + wait + LOAD + STORE)
    out, _, status = command(source, "sync", "k.ttgir", "--tighten-waits")
    assert status == 0
    assert "// num = 7" in out


# --- another target than the file names ---------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["check", "sync", "explain", "run", "draw"])
def test_the_target_asked_for_is_used_and_said(verb: str, command: Run, tmp_path: Path) -> None:
    more = ("-o", "out.html") if verb == "draw" else ()
    out, err, status = command(text(EXCHANGE), verb, "k.ttgir", "--target", "sm_90", *more)
    assert status == 0
    assert "@k on sm_90" in out + err
    assert (out + err).count("the file names `sm_80`; treated as `sm_90`, as requested") == 1
    out, err, status = command(text(EXCHANGE), verb, "k.ttgir", "--target", "sm_80", *more)
    assert status == 0
    assert "the file names" not in out + err


def test_a_retargeted_text_names_the_target_that_it_was_proved_for(command: Run, tmp_path: Path) -> None:
    """It kept the old name, so that reading it back was about another GPU."""
    for source in (text(EXCHANGE, "gfx942"), staged()):
        out, _, status = command(source, "sync", "k.ttgir", "--target", "gfx950", "-o", "out.ttgir")
        assert status == 0
        assert "@k on gfx950" in out
        after = (tmp_path / "out.ttgir").read_text(encoding="utf-8")
        assert re.findall(r'ttg\.target = "([^"]*)"', after) == ["hip:gfx950"]
        out, err, status = command(after, "check", "k.ttgir")
        assert (status, "@k on gfx950" in out, "the file names" in out + err) == (0, True, False)
    out, _, _ = command(text(EXCHANGE, "gfx942"), "sync", "k.ttgir", "--target", "none")
    assert 'ttg.target = "hip:gfx942"' in out, "there is no name for that"


def test_the_way_out_for_lanes_of_a_warp_is_one_that_ttgir_has(command: Run) -> None:
    """`fence wave` is not."""
    bare = text(EXCHANGE, more="ttg.shared = 1024 : i32, ").replace("alloc :", "alloc {allocation.offset = 0 : i32} :")
    out, _, status = command(bare, "check", "k.ttgir")
    assert status == 1
    (line,) = re.findall(r"error\[TG108\].*?help: ([^\n]*)", out, re.DOTALL)
    place = next(number for number, each in enumerate(bare.splitlines(), 1) if "local_load" in each)
    assert f"insert `ttg.barrier local` before line {place}," in line
    assert "fence wave" not in out


def test_passes_of_triton_run_for_the_target_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they make depends on the GPU: here, who they are run for."""
    seen: list[str] = []
    real = libtriton.PASSES["allocate"]
    monkeypatch.setitem(libtriton.PASSES, "allocate", lambda manager, gpu: (seen.append(str(gpu)), real(manager, gpu)))
    ttgir = read_ttgir(text(EXCHANGE), "k.ttgir", in_process=True)
    (program,) = programs_of(ttgir, "sm_90")
    assert seen == ["cuda:80", "cuda:90"]
    assert (program.target.name, str(program.ttgir.gpu)) == ("sm_90", "cuda:90")
    assert program.built.graph.target == "sm_90"


@pytest.mark.parametrize("verb", ["check", "sync", "explain", "run", "draw"])
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("sm_90", "its operations and layouts are for AMD's GPUs, and `sm_90` is one of NVIDIA"),
        ("gfx1100", "its layouts are for warps of 64 lanes, and those of `gfx1100` have 32"),
    ],
)
def test_a_target_that_does_not_fit_is_refused(verb: str, target: str, words: str, command: Run) -> None:
    more = ("-o", "out.html") if verb == "draw" else ()
    _, err, status = command(text(EXCHANGE, "gfx942"), verb, "k.ttgir", "--target", target, *more)
    assert status == 2
    assert f"the file names gfx942, and does not fit `{target}`: {words}" in err


def test_a_file_may_be_taken_for_no_target(command: Run) -> None:
    out, _, status = command(text(EXCHANGE), "check", "k.ttgir", "--target", "none")
    assert status == 0
    assert "treated as no particular target" in out
