"""Triton's parser in a child process: whatever a file does to it is a finding, and this process goes on.

Before, the parser ran in this process: text nested 100,000 deep ended it with SIGSEGV, and text nested 400 deep ended
in a RecursionError of our own reader.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegate.diag import BadInput
from tidegate.hosts.mlir import parse_generic
from tidegate.hosts.mlir.parse import MAX_REGIONS
from tidegate.hosts.triton import child, libtriton
from tidegate.hosts.triton.layout_text import UnreadableLayout, parse_encoding
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_ttgir

needs_triton = pytest.mark.skipif(not libtriton.is_installed(), reason="NOT TESTED: Triton is not installed")

HEAD = """\
module attributes {%s"ttg.num-warps" = 4 : i32, ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%%c: i1) {
"""
TAIL = "    tt.return\n  }\n}\n"
PLAIN = HEAD % "" + TAIL
# Attributes in each other: the parser recurses, and there is no region that our own reader would count.
CRASHING = HEAD % f"a = {'[' * 300_000}{']' * 300_000}, " + TAIL
GENERIC = (
    '"builtin.module"() ({{\n"tt.func"() <{{sym_name = "k", function_type = (i1) -> ()}}> ({{\n^bb0(%c: i1):\n{}'
    '"tt.return"() : () -> ()\n}}) : () -> ()\n}}) {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:80", '
    'ttg.shared = 0 : i32, "ttg.threads-per-warp" = 32 : i32}} : () -> ()\n'
)


def nested(depth: int) -> str:
    return HEAD % "" + "scf.if %c {\n" * depth + "}\n" * depth + TAIL


def nested_generic(depth: int) -> str:
    inner = '"scf.if"(%c) ({\n' * depth + '"scf.yield"() : () -> ()\n}, {\n}) : (i1) -> ()\n' * depth
    return GENERIC.format(inner)


def long(lines: int) -> str:
    return HEAD % "" + "".join(f"    %x{n} = arith.constant {n} : i32\n" for n in range(lines)) + TAIL


@pytest.fixture
def fresh() -> Iterator[None]:
    """A child that starts under the limits of the test, and is gone after it."""
    child._end()
    yield
    child._end()


def refusal(text: str) -> str:
    with pytest.raises(BadInput) as bad:
        read_ttgir(text, "k.ttgir")
    (finding,) = bad.value.findings
    assert finding.at.file == "k.ttgir"
    return f"{finding.code}: {finding.message}"


# --- nesting --------------------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.parametrize("form", [nested, nested_generic])
@pytest.mark.parametrize("depth", [MAX_REGIONS + 1, 400, 20_000])
def test_regions_that_are_nested_too_deep_are_a_finding(form: Callable[[int], str], depth: int) -> None:
    assert refusal(form(depth)) == f"TG006: regions are nested more than {MAX_REGIONS} deep"


@needs_triton
@pytest.mark.parametrize("form", [nested, nested_generic])
@pytest.mark.parametrize("verb", ["check", "sync", "explain", "show", "draw"])
def test_regions_nested_as_deep_as_they_may_be_go_the_whole_way(
    form: Callable[[int], str], verb: str, tmp_path: Path
) -> None:
    """What reads them may recurse: no stage behind the reader gives up earlier than the reader."""
    file = tmp_path / "k.ttgir"
    file.write_text(form(MAX_REGIONS - 2))
    more = ["-o", str(tmp_path / "out.html")] if verb == "draw" else []
    done = subprocess.run([sys.executable, "-m", "tidegate", verb, str(file), *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_alias_that_names_itself_has_no_encoding() -> None:
    for aliases in ({"#a": "#b", "#b": "#a"}, {"#a": "#ttg.slice<{parent = #a}>"}):
        with pytest.raises(UnreadableLayout):
            parse_encoding("#a", aliases)


def test_brackets_in_each_other_have_no_encoding() -> None:
    for one, other in (("[", "]"), ("{", "}"), ("#a<", ">")):
        with pytest.raises(UnreadableLayout, match="nested more than"):
            parse_encoding(f"#ttg.x<{{a = {one * 2000}{other * 2000}}}>", {})


def test_aliases_that_double_each_time_are_refused_before_they_are_put_together() -> None:
    """Sixty lines would be a type of more characters than there are bytes on earth."""
    lines = ["!a0 = tuple<i32>", *(f"!a{n} = tuple<!a{n - 1}, !a{n - 1}>" for n in range(1, 60))]
    with pytest.raises(BadInput, match="a type is longer than 1 MB once its aliases are replaced"):
        parse_generic("\n".join([*lines, '"a.b"() : () -> !a59']))
    encodings = {"#a0": "#ttg.x<{}>"} | {f"#a{n}": f"#ttg.x<{{a = #a{n - 1}, b = #a{n - 1}}}>" for n in range(1, 60)}
    with pytest.raises(UnreadableLayout):
        parse_encoding("#a59", encodings)


# --- ends -----------------------------------------------------------------------------------------------------------


@needs_triton
def test_a_crash_of_triton_is_a_finding_and_the_next_file_is_read() -> None:
    """In this process the text is the end of it: the test is worth something only as long as that is so."""
    assert refusal(CRASHING) == f"TG007: Triton {libtriton.version()} crashes on the file (SIGSEGV)"
    assert read_ttgir(PLAIN, "k.ttgir").names == ("k",)
    code = (
        "import sys\nfrom tidegate.hosts.triton.read import read_ttgir\n"
        "read_ttgir(sys.stdin.read(), 'k.ttgir', in_process=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=CRASHING, capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV


@needs_triton
def test_the_command_ends_with_a_finding_where_triton_crashes(tmp_path: Path) -> None:
    file = tmp_path / "k.ttgir"
    file.write_text(CRASHING)
    done = subprocess.run([sys.executable, "-m", "tidegate", "check", str(file)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "crashes on the file (SIGSEGV)" in done.stderr
    assert "Traceback" not in done.stderr


@needs_triton
@pytest.mark.usefixtures("fresh")
def test_a_file_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "SECONDS", 1)
    monkeypatch.setattr(child, "BYTES_A_SECOND", 1 << 40)
    began = time.monotonic()
    said = refusal(long(120_000))
    assert said == f"TG007: Triton {libtriton.version()} takes more than 1 s for the file, and was stopped"
    assert time.monotonic() - began < 60  # the file itself would take minutes; the machine may be busy


@needs_triton
@pytest.mark.usefixtures("fresh")
def test_a_file_that_takes_too_much_memory_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MEMORY", 200 << 20)
    said = refusal(long(120_000))
    assert said == f"TG007: Triton {libtriton.version()} needs more than 200 MB of memory for the file"
    assert read_ttgir(PLAIN, "k.ttgir").names == ("k",)


@needs_triton
def test_a_child_that_was_killed_between_two_files_is_replaced() -> None:
    read_ttgir(PLAIN, "k.ttgir")
    first = child._running[0].process
    first.kill()
    first.wait()
    assert read_ttgir(PLAIN, "k.ttgir").names == ("k",)
    assert child._running[0].process.pid != first.pid


@needs_triton
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # threads of pytest do not matter to the fork
def test_a_fork_asks_a_child_of_its_own() -> None:
    read_ttgir(PLAIN, "k.ttgir")
    own = child._running[0].process
    pid = os.fork()
    if not pid:
        found = read_ttgir(PLAIN, "k.ttgir").names == ("k",) and child._running[0].process.pid != own.pid
        child._end()
        os._exit(0 if found else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert read_ttgir(PLAIN, "k.ttgir").names == ("k",)
    assert child._running[0].process is own


ASK_AND_WAIT = """
import sys, time
from tidegate.hosts.triton import child
from tidegate.hosts.triton.read import read_ttgir
read_ttgir(sys.stdin.read(), "k.ttgir")
print(child._running[0].process.pid, flush=True)
time.sleep(60)
"""


@needs_triton
def test_a_child_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", ASK_AND_WAIT], stdin=-1, stdout=-1, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(PLAIN)
        parent.stdin.close()
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError("the child is still there")


# --- the drop-in ----------------------------------------------------------------------------------------------------


@needs_triton
def test_the_drop_in_starts_no_child() -> None:
    """Its texts come from Triton itself."""
    from tidegate.hosts.triton.dropin.placing import count_barriers, find_doubt, place_barriers

    child._end()
    text = read_ttgir(PLAIN, "k.ttgir", in_process=True).text
    place_barriers(text, "k", "model")
    find_doubt(text, "k")
    count_barriers(text, "k")
    (program,) = programs_of(read_ttgir(text, "k.ttgir", in_process=True), "sm_90")
    assert program.target.name == "sm_90"
    assert child._running == []
