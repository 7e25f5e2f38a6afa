"""TTGIR files: locations, functions, both forms, refusals; texts come back unchanged but for what is put in."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.diag import BadInput, Finding
from tidegate.files import load
from tidegate.hosts.mlir.model import walk
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.places import take_places
from tidegate.hosts.triton.read import is_written, read_ttgir
from tidegate.session import sessions_of
from tidegate.synchronize import propose, write_programs

FOLDER = ROOT / "tests" / "ttgir"
TEXTS = sorted(path for path in FOLDER.glob("*.ttgir") if "bare" not in path.name)  # as compiled, with locations

needs_triton = pytest.mark.skipif(
    not libtriton.is_installed(),
    reason="NOT TESTED: Triton's own syntax needs Triton, which is not installed: pip install tidegate[triton]",
)

# What Triton prints for one store and one load, in generic form, with memory laid out.
GENERIC = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>
#other = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<1024xf32, #blocked>) -> (), sym_name = "k", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<1024xf32, #blocked>):
    %0 = "ttg.local_alloc"() {allocation.offset = 0 : i32} : () -> !ttg.memdesc<1024xf32, #shared, #smem, mutable>
    "ttg.local_store"(%arg0, %0) : (tensor<1024xf32, #blocked>, !ttg.memdesc<1024xf32, #shared, #smem, mutable>) -> ()
    %1 = "ttg.local_load"(%0) : (!ttg.memdesc<1024xf32, #shared, #smem, mutable>) -> tensor<1024xf32, #other>
    "tt.return"() : () -> ()
  }) : () -> ()
}) {"ttg.num-warps" = 4 : i32, ttg.shared = 4096 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} : () -> ()
"""  # noqa: E501


def refused(text: str, file: str = "k.ttgir") -> Finding:
    with pytest.raises(BadInput) as caught:
        read_ttgir(text, file)
    (finding,) = caught.value.findings
    return finding


@pytest.fixture
def without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libtriton, "is_installed", lambda: False)


# --- locations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_locations_are_taken_out_line_for_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines, left = text.split("\n"), take_places(text).text.split("\n")
    assert len(lines) == len(left)
    assert "loc(" not in "\n".join(left)
    for line, rest in zip(lines, left, strict=True):
        if "loc(" not in line:
            assert rest == line
        elif not line.startswith("#loc"):
            assert line.startswith(rest.partition("(")[0] if re.search(r"tt\.func|\^bb", line) else rest)


def test_a_location_in_quotes_is_none() -> None:
    text = '    "a.b"() {asm = " loc(here)"} : () -> () loc("a loc(b)"("f.py":1:2))  // loc(#x)\n'
    places = take_places(text)
    assert places.text.rstrip() == '    "a.b"() {asm = " loc(here)"} : () -> ()', "nor is one in a comment"
    assert str(places.source(1)) == "f.py:1"


@pytest.mark.parametrize(
    ("location", "source"),
    [
        ('"gemm.py":12:11', "gemm.py:12"),
        ('"a"("/home/someone/gemm.py":12:11)', "gemm.py:12"),
        ("#loc1", "gemm.py:3"),
        ('"a"(#loc1)', "gemm.py:3"),
        ("#loc2", "gemm.py:9"),
        ('callsite("gemm.py":5:1 at "gemm.py":40:1)', "gemm.py:5"),
        ('callsite("/x/triton/language/standard.py":5:1 at "gemm.py":40:1)', "gemm.py:40"),
        ('callsite(unknown at "gemm.py":40:1)', "gemm.py:40"),
        ('fused["gemm.py":7:1, "gemm.py":8:1]', "gemm.py:7"),
        ('fused<"x">[#loc1, #loc2]', "gemm.py:3"),
        ("unknown", None),
        ("#loc99", None),
        ("#loc5", None),
    ],
)
def test_where_a_line_comes_from(location: str, source: str | None) -> None:
    text = (
        '#loc1 = loc("gemm.py":3:7)\n#loc2 = loc("b"(#loc3))\n#loc3 = loc(callsite(#loc4 at "gemm.py":9:1))\n'
        f'#loc4 = loc("/x/triton/language/core.py":1:1)\n#loc5 = loc("c"(#loc5))\n"a.b"() : () -> () loc({location})\n'
    )
    found = take_places(text).source(6)
    assert (None if found is None else str(found)) == source


# --- files --------------------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_operations_have_their_places_in_the_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ttgir = read_ttgir(text, path.name)
    lines = text.split("\n")
    seen = 0
    for op in walk(ttgir.module.operation):
        if is_written(ttgir, op):
            seen += 1
            assert op.name.split(".")[-1] in lines[op.at.line - 1][op.at.column - 1 : op.at.end - 1]
    assert seen > 20
    for op in walk(ttgir.module.operation):
        if op.name in ("ttg.local_load", "ttg.local_store", "ttg.async_wait", "tt.dot"):
            assert is_written(ttgir, op)
            source = ttgir.places.source(op.at.line)
            assert source is not None
            assert source.file == "kernels.py"


@needs_triton
def test_the_lines_of_the_source_are_those_of_the_kernel() -> None:
    path = FOLDER / "gemm.sm_80.ttgir"
    ttgir = read_ttgir(path.read_text(encoding="utf-8"), path.name)
    source = (FOLDER / "kernels.py").read_text(encoding="utf-8").split("\n")
    for op in walk(ttgir.module.operation):
        place = ttgir.places.source(op.at.line)
        if op.name == "tt.dot":
            assert place is not None
            assert "tl.dot(" in source[place.line - 1]
        if op.name == "ttg.async_copy_global_to_local":
            assert place is not None
            assert "tl.load(" in source[place.line - 1]


@needs_triton
def test_an_operation_of_several_lines_has_its_source() -> None:
    path = FOLDER / "spread.gfx942.ttgir"
    ttgir = read_ttgir(path.read_text(encoding="utf-8"), path.name)
    reductions = [op for op in walk(ttgir.module.operation) if op.name == "tt.reduce"]
    assert all(ttgir.places.source(op.at.line) is not None for op in reductions)


@needs_triton
def test_what_a_file_says_of_its_gpu() -> None:
    path = FOLDER / "pingpong.gfx942.ttgir"
    ttgir = read_ttgir(path.read_text(encoding="utf-8"), path.name)
    assert (ttgir.gpu.backend, ttgir.gpu.arch, ttgir.waves, ttgir.lanes) == ("hip", "gfx942", 8, 64)
    assert ttgir.shared > 0, "laid out by Triton's allocation"
    assert not ttgir.is_generic
    assert not ttgir.is_allocated


# What Triton 3.9 prints for WMMA of a single warp.
ONE_WARP = """\
#mma = #ttg.amd_wmma<{version = 2, isTranspose = true, ctaLayout = {}}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx1201", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @one(%a: tensor<16x16xf32, #mma>) {
    %0 = ttg.local_alloc %a : (tensor<16x16xf32, #mma>) -> !ttg.memdesc<16x16xf32, #shared, #smem>
    tt.return
  }
}
"""  # noqa: E501


@needs_triton
def test_a_wmma_layout_of_one_warp_is_read(tmp_path: Path) -> None:
    """Triton's own parser aborts the process: in a child, so that it does not end the tests."""
    path = tmp_path / "one.ttgir"
    path.write_text(ONE_WARP, encoding="utf-8")
    child = subprocess.run([sys.executable, "-m", "tidegate", "check", str(path)], capture_output=True, text=True)
    assert child.returncode == 0, child.stdout + child.stderr
    assert "proved" in child.stdout


def two_kernels() -> str:
    """Two kernels and a function that one of them calls, in one file."""
    text = (FOLDER / "spread.gfx942.ttgir").read_text(encoding="utf-8")
    start, end = text.index("  tt.func public"), text.index("\n}", text.index("  tt.func public"))
    other = text[start:end].replace("@spread", "@again")
    private = "  tt.func private @helper(%a: i32) -> i32 attributes {noinline = true} {\n    tt.return %a : i32\n  }\n"
    return text[:end] + "\n" + other + "\n" + private.rstrip("\n") + text[end:]


@needs_triton
def test_a_file_may_hold_several_kernels(tmp_path: Path) -> None:
    path = tmp_path / "two.ttgir"
    path.write_text(two_kernels(), encoding="utf-8")
    loaded = load(str(path))
    assert loaded.ttgir is not None
    assert loaded.ttgir.names == ("spread", "again")
    assert [op.string("sym_name") for op in loaded.ttgir.functions] == ["spread", "again", "helper"]
    assert [unit.name for unit in sessions_of(load(f"{path}::again"), None)] == ["again"]
    assert [unit.name for unit in sessions_of(load(f"{path}::@spread"), None)] == ["spread"]
    with pytest.raises(BadInput, match="no kernel `spred`") as caught:
        load(f"{path}::spred")
    assert "did you mean `spread`?" in caught.value.findings[0].help


@needs_triton
def test_a_file_without_a_kernel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.ttgir"
    path.write_text("module {\n}\n", encoding="utf-8")
    with pytest.raises(BadInput, match="has no kernel") as caught:
        load(str(path))
    assert caught.value.findings[0].code == "TG007"


def test_ttir_is_no_ttgir(tmp_path: Path) -> None:
    path = tmp_path / "k.ttir"
    path.write_text("module {\n}\n", encoding="utf-8")
    with pytest.raises(BadInput, match="before it has layouts"):
        load(str(path))


# --- without Triton -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_triton")
def test_generic_form_needs_no_triton() -> None:
    ttgir = read_ttgir(GENERIC, "k.mlir", as_compiled=True)
    assert ttgir.is_generic
    assert ttgir.names == ("k",)
    assert (ttgir.waves, ttgir.lanes, ttgir.shared) == (4, 64, 4096)
    at = {op.name: (op.at.line, op.at.column) for op in walk(ttgir.module.operation)}
    assert at["ttg.local_store"] == (9, 5)
    assert at["ttg.local_load"] == (10, 5)


@needs_triton
def test_generic_form_is_the_same_with_triton() -> None:
    """Memory is laid out already, so nobody asks Triton."""
    ttgir = read_ttgir(GENERIC, "k.mlir", as_compiled=True)
    assert ttgir.module.operation.name == "builtin.module"
    assert not ttgir.is_compiled


@pytest.mark.usefixtures("without_triton")
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_tritons_own_syntax_needs_triton(path: Path) -> None:
    finding = refused(path.read_text(encoding="utf-8"), path.name)
    assert finding.code == "TG019"
    assert finding.is_bad_input
    assert (
        finding.message == "the file is in Triton's own syntax, and reading that needs Triton, which is not installed"
    )
    assert finding.help == (
        "install it with `pip install 'tidegate[triton]'`, or print the file in generic form "
        "(`triton-opt --mlir-print-op-generic`)"
    )
    assert finding.at.file == path.name


@pytest.mark.usefixtures("without_triton")
def test_passes_of_tritons_need_triton() -> None:
    with pytest.raises(BadInput, match="running Triton's passes needs Triton"):
        read_ttgir(GENERIC, "k.mlir", before=("barriers",))


# --- refusals -----------------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tt.get_program_id", "tt.no_such_thing", "custom op 'tt.no_such_thing' is unknown"),
        ("tt.return", "tt.return %nobody : i32", "use of undeclared SSA value name"),
        ("module attributes", "module attribute", "expected"),
    ],
)
def test_broken_text_is_refused_with_tritons_words(old: str, new: str, words: str) -> None:
    text = (FOLDER / "spread.gfx942.ttgir").read_text(encoding="utf-8")
    old = old if old in text else "tt.make_range"
    finding = refused(text.replace(old, new, 1))
    assert finding.code == "TG001"
    assert words in finding.message
    assert finding.at.file == "k.ttgir"
    assert finding.at.line == text[: text.index(old)].count("\n") + 1


@needs_triton
def test_triton_says_nothing_to_the_error_stream(capfd: pytest.CaptureFixture[str]) -> None:
    refused("module {\n  nonsense\n}\n")
    assert capfd.readouterr() == ("", "")


def test_broken_generic_text_is_refused_with_its_place(without_triton: None) -> None:
    finding = refused(GENERIC.replace('%1 = "ttg.local_load"(%0) :', '%1 = "ttg.local_load"(%0)'), "k.mlir")
    assert (finding.code, finding.at.line) == ("TG001", 10)


# --- texts that come back -----------------------------------------------------------------------------------------


PUT_IN = (
    r"\+ {5,7}(ttg\.barrier local|%tidegate\d+ = ttg\.async_wait \{num = \d+ : i32\})"
    r"  // ((RAW|WAR|WAW) .*|performs accesses that a later barrier orders)"
)


def synchronized(path: Path) -> tuple[str, str]:
    """A text before and after `sync`."""
    loaded = load(str(path), as_compiled=False)
    results = [propose(unit) for unit in sessions_of(loaded, None)]
    text = path.read_text(encoding="utf-8")
    return text, write_programs(results, text, str(path))


@needs_triton
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_only_lines_are_put_in_and_triton_reads_the_result(path: Path) -> None:
    text, after = synchronized(path)
    edits = [line for line in difflib.ndiff(text.split("\n"), after.split("\n")) if line[0] != " "]
    assert all(re.fullmatch(PUT_IN, line) for line in edits), edits
    kept = [line for line in after.split("\n") if "  // " not in line]
    assert "\n".join(kept) == text
    libtriton.parse(after, path.name)


@needs_triton
def test_generic_text_gets_generic_lines(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(GENERIC, encoding="utf-8")
    text, after = synchronized(path)
    (line,) = set(after.split("\n")) - set(text.split("\n"))
    assert line.startswith('    "ttg.barrier"() <{addrSpace = 1 : i32}> : () -> ()  // RAW %0: line 9 → 1')
    libtriton.parse(after, path.name)


@needs_triton
def test_the_fixture_texts_are_what_the_kernels_compile_to() -> None:
    """In a process of its own: it compiles."""
    code = "import json, kernels; print(json.dumps({name: kernels.compiled(name) for name in kernels.TEXTS}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, check=True, capture_output=True, text=True)
    if libtriton.version() not in libtriton.TESTED:
        pytest.skip(f"NOT TESTED: the texts are those of Triton {libtriton.TESTED[0]}, this is {libtriton.version()}")
    made = json.loads(done.stdout)
    assert {path.stem for path in TEXTS if path.stem in made} == set(made)
    for name, text in made.items():
        assert (FOLDER / f"{name}.ttgir").read_text(encoding="utf-8") == text, name


def test_files_of_every_kind_are_named() -> None:
    from tidegate.files import READS

    assert all(suffix in READS for suffix in (".ttgir", ".mlir"))


def test_names_of_the_file_stay_apart() -> None:
    """Regions beside each other may call different values the same: each value still has one name."""
    for path in sorted(FOLDER.glob("*.ttgir")):
        ttgir = read_ttgir(path.read_text(encoding="utf-8"), path.name)
        for function in ttgir.functions:
            made = [name for op in walk(function) for name in op.results]
            made += [
                name
                for op in walk(function)
                for region in op.regions
                for block in region.blocks
                for name, _ in block.arguments
            ]
            assert len(set(made)) == len(made), path.name
            used = {name for op in walk(function) for name in op.operands}
            assert used <= set(made), path.name
            buffers = [op.result for op in walk(function) if op.name == "ttg.local_alloc"]
            assert all(f"{name} = ttg.local_alloc" in ttgir.text for name in buffers), path.name
