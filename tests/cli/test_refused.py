"""Nothing that a user types breaks a command: bad input is status 2 with a sentence, soon, and harmless to a terminal.

Each class of bad input is tried against the commands that take it, each in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oracles.hostile.hostile_inputs import GENERIC
from tests.cli.test_cli import GOOD, PYTHON, graph_of
from tests.cli.test_robust import COMMANDS, Typed, assert_refused, command, folder, tidegate, typed
from tests.conftest import ROOT
from tidegate.diag import BadInput, visible
from tidegate.disk import read_whole
from tidegate.limits import MOST_EXPLAINED, MOST_OPERATIONS, MOST_WAVES
from tidegate.targets import load_target

__all__ = ["folder", "typed"]
# Characters that terminals obey: they never reach one.
OBEYED = ("\x1b[31m", "\x07", "\x7f", "\x85", "\x9b31m", "\u202e", "\u2066", "\u200f", "\u2028")
PAIR = """\
  local_write %a, %t[wave]
  shared_memory_barrier
  %b{0} = local_read %t[(wave + 1) mod 4] : tile<64xf32>
  shared_memory_barrier
"""
HEAD = """\
target gfx942
kernel @k(%X: global<256xf32>, %Y: global<256xf32>) waves 4 {
  %t = alloc : lds<4x64xf32>
  %a = global_read %X[wave * 64] : tile<64xf32>
"""


def pairs(count: int, *, barriers: bool) -> str:
    body = "".join(PAIR.format(number) for number in range(count))
    return HEAD + (body if barriers else body.replace("  shared_memory_barrier\n", "")) + "}\n"


def assert_harmless(text: str) -> None:
    assert visible(text.replace("\n", "")) == text.replace("\n", "")


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", ["run good.tide", "run good.tide --in-order", "run good.sync", "check good.tide"])
def test_a_negative_seed_is_bad_input(folder: Path, typed: Typed, args: str) -> None:
    done = typed(*args.split(), "--seed", "-1")
    assert_refused(done)
    assert "--seed" in done.stderr


@pytest.mark.parametrize("value", ["²", "9" * 5000, str(10**40), "-5", "0", "K", "1e9", "0x10"])
@pytest.mark.parametrize(
    "args", ["run sizes.tide", "check sizes.tide", "run sizes.tide --cycles", "draw sizes.tide -o o.svg"]
)
def test_what_is_no_size_is_bad_input(folder: Path, typed: Typed, args: str, value: str) -> None:
    assert_refused(typed(*args.split(), "--size", f"K={value}"))


@pytest.mark.parametrize("size", [pytest.param(64 * 10**6, marks=pytest.mark.slow), 64 * 10**9, 64 * 10**15])
@pytest.mark.parametrize("args", ["run sizes.tide", "run sizes.tide --in-order", "run sizes.tide --trace o.json"])
def test_a_run_of_too_large_sizes_is_bad_input(folder: Path, typed: Typed, args: str, size: int) -> None:
    assert_refused(typed(*args.split(), "--size", f"K={size}"))


@pytest.mark.parametrize(
    "name", ["check sizes.tide", "run sizes.tide --cycles", "draw sizes.tide -o o.html", "draw sizes.tide -o o.svg"]
)
def test_sizes_of_any_magnitude_end(folder: Path, typed: Typed, name: str) -> None:
    done = typed(*name.split(), "--size", f"K={64 * 10**15}")
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("waves", [0, -1, 10**5, 10**30])
@pytest.mark.parametrize("how", ["", " --in-order"])
def test_a_run_of_too_many_waves_is_bad_input(folder: Path, typed: Typed, waves: int, how: str) -> None:
    assert_refused(typed(*f"run good.tide{how}".split(), "--waves", str(waves)))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_of_too_many_waves_is_bad_input(folder: Path, typed: Typed, name: str) -> None:
    for waves in (MOST_WAVES + 1, 10**5, 10**17):
        text = GOOD.replace("waves 4", f"waves {waves}")
        (folder / "many.tide").write_text(text)
        (folder / "many.sync").write_text(
            graph_of(GOOD).replace("waves 4", f"waves {waves}").replace(".. 4", f".. {waves}")
        )
        for program in ("many.tide", "many.sync"):
            assert_refused(typed(*command(name, program)))


def test_more_workgroups_than_a_compute_unit_has_are_bad_input(folder: Path, typed: Typed) -> None:
    for number in ("0", "-1", "100000"):
        assert_refused(typed("run", "good.tide", "--cycles", "--workgroups", number))


def test_a_run_that_takes_too_many_steps_ends_and_may_be_allowed_more(folder: Path, typed: Typed) -> None:
    done = typed("run", "good.tide", "--max-steps", "10")
    assert_refused(done)
    assert "takes more than 10 steps" in done.stdout
    assert typed("run", "good.tide", "--in-order", "--max-steps", "10").returncode == 2
    assert typed("run", "good.sync", "--max-steps", "10").returncode == 2
    assert typed("run", "good.tide", "--max-steps", "0").returncode == 0


# --- large programs -----------------------------------------------------------------------------------------------

LARGE = {
    "lets": "kernel @k() waves 4 {{\n{}}}\n".format("".join(f"  %a{n} = let wave + {n}\n" for n in range(100_000))),
    "chained": "kernel @k() waves 4 {{\n  %a0 = let wave\n{}}}\n".format(
        "".join(f"  %a{n} = let %a{n - 1} + 1\n" for n in range(1, 100_000))
    ),
    "barriers": "target gfx942\nkernel @k() waves 4 {\n" + "  shared_memory_barrier\n" * 300_000 + "}\n",
    "pairs": pairs(3000, barriers=True),
    "racing": pairs(3000, barriers=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("kind", LARGE)
def test_large_programs_end(folder: Path, kind: str, name: str) -> None:
    (folder / "large.tide").write_text(LARGE[kind])
    done = tidegate(*command(name, "large.tide"), seconds=20)
    assert_refused(done)
    assert f"at most {MOST_OPERATIONS:,}" in done.stderr + done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("barriers", [True, False])
def test_the_largest_programs_end(folder: Path, barriers: bool, name: str) -> None:
    """At the limits; twice the 20 seconds of the page, for slow machines."""
    few = name in ("explain", "page")
    count = ((MOST_EXPLAINED if few else MOST_OPERATIONS) - 4) // (4 if barriers else 2)
    (folder / "large.tide").write_text(pairs(count, barriers=barriers))
    done = tidegate(*command(name, "large.tide"), seconds=40)
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr


TTGIR = """\
#s = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
#a = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
!m = !ttg.memdesc<128xf32, #s, #ttg.shared_memory, mutable>
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32}} {{
tt.func public @k(%x: tensor<128xf32, #a>) {{
%m = ttg.local_alloc : () -> !m
{body}tt.return
}}
}}
"""


def test_large_ttgir_is_refused(folder: Path, typed: Typed) -> None:
    """`run` took six gigabytes for 100,000 warps, `sync` minutes for 3,000 unrolled pairs."""
    pytest.importorskip("triton", reason="NOT TESTED: Triton is not installed")
    pair = "ttg.local_store %x, %m : tensor<128xf32, #a> -> !m\n%y{0} = ttg.local_load %m : !m -> tensor<128xf32, #a>\n"
    (folder / "pairs.ttgir").write_text(TTGIR.format(body="".join(map(pair.format, range(MOST_OPERATIONS // 2)))))
    (folder / "warps.mlir").write_text(GENERIC.replace("4 : i32", "100000 : i32"))
    for name in ("check", "sync", "explain", "run", "page"):
        for file in ("pairs.ttgir", "warps.mlir"):
            done = typed(*command(name, file))
            assert_refused(done)
            assert "TG023" in done.stderr


def test_a_large_compiled_file_is_refused(folder: Path, typed: Typed) -> None:
    for name in ("large.ptx", "large.ttgir", "large.mlir"):
        with (folder / name).open("wb") as file:
            file.truncate(10 << 20)
        done = typed("check", name)
        assert_refused(done)
        assert "larger than 4 MB" in done.stderr


def test_thousands_of_chained_lets_are_no_recursion(folder: Path) -> None:
    text = "kernel @k() waves 4 {\n  %a0 = let wave\n"
    text += "".join(f"  %a{n} = let %a{n - 1} + 1\n" for n in range(1, MOST_OPERATIONS - 10)) + "}\n"
    (folder / "chained.tide").write_text(text)
    assert tidegate("check", "chained.tide", seconds=30).returncode == 0


def test_explain_and_pages_say_that_a_program_is_too_large(folder: Path) -> None:
    (folder / "large.tide").write_text(pairs(MOST_EXPLAINED // 4, barriers=True))
    for args in ("explain large.tide", "draw large.tide -o o.html"):
        assert f"at most {MOST_EXPLAINED:,}" in tidegate(*args.split()).stderr
    done = tidegate("check", "large.tide", "--advice")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"advice: none, it has more than {MOST_EXPLAINED:,} operations" in done.stdout


# --- what is read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".tide", ".sync", ".py", ".ttgir"])
@pytest.mark.parametrize("name", ["show", "check", "json", "sarif", "sync", "explain", "schedule", "run", "page"])
def test_only_regular_files_are_read(folder: Path, typed: Typed, name: str, suffix: str) -> None:
    os.mkfifo(f"fifo{suffix}")
    Path(f"zero{suffix}").symlink_to("/dev/zero")
    Path(f"round{suffix}").symlink_to(f"round{suffix}")
    for program in (f"fifo{suffix}", f"zero{suffix}", f"round{suffix}"):
        assert_refused(typed(*command(name, program)))


def test_only_regular_files_are_targets_and_references(folder: Path, typed: Typed) -> None:
    os.mkfifo("fifo.toml")
    os.mkfifo("fifo.py")
    Path("zero.toml").symlink_to("/dev/zero")
    for file in ("fifo.toml", "zero.toml", "nowhere.toml"):
        for args in (["targets", file], ["check", "good.tide", "-t", file], ["sync", "good.tide", "-t", file]):
            assert_refused(typed(*args))
    assert_refused(typed("run", "good.tide", "--reference", "fifo.py"))


def test_a_file_has_a_largest_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (1 << 20))
    assert len(read_whole(tmp_path / "a", 1 << 20)) == 1 << 20
    with (tmp_path / "a").open("ab") as file:
        file.write(b"y")
    with pytest.raises(OSError, match="it is larger than 1 MB, the most that is read"):
        read_whole(tmp_path / "a", 1 << 20)


def test_a_large_file_is_refused(folder: Path, typed: Typed) -> None:
    with (folder / "large.tide").open("wb") as file:
        file.truncate(80 << 20)
    done = typed("check", "large.tide")
    assert_refused(done)
    assert "larger than 16 MB" in done.stderr


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 50_000, "a = " + "[{a=" * 20_000, "[wave]\nsize = " + "9" * 5000, "name = 1979-05-27", "[" * 9],
)
def test_nested_and_odd_target_files_are_bad_input(folder: Path, typed: Typed, text: str) -> None:
    (folder / "odd.toml").write_text(text)
    for args in (
        "targets odd.toml",
        "targets odd.toml --json",
        "check good.tide -t odd.toml",
        "run good.tide -t odd.toml",
    ):
        assert_refused(typed(*args.split()))
    with pytest.raises(BadInput):
        load_target("odd.toml")


# --- code of the user ---------------------------------------------------------------------------------------------

ENDS = {
    "exit": "raise SystemExit(0)",
    "nothing": "exit()",
    "interrupt": "raise KeyboardInterrupt",
    "generator": "raise GeneratorExit",
    "own": "class Own(BaseException): pass\nraise Own('x')",
    "group": "raise BaseExceptionGroup('several', [KeyboardInterrupt()])",
    "os-exit": "import os; os._exit(0)",
    "posix-exit": "import posix; posix._exit(0)",
    "mute": "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute",
    "recursion": "def f(): f()\nf()",
}


@pytest.mark.parametrize("name", ["check", "json", "sarif", "sync", "run", "show"])
def test_a_python_file_that_does_not_come_to_its_end_is_no_success(folder: Path, typed: Typed, name: str) -> None:
    for kind, code in ENDS.items():
        (folder / f"{kind}.py").write_text(f"{code}\n{PYTHON}")
        done = typed(*command(name, f"{kind}.py"))
        assert_refused(done)
        if name == "json":
            (found,) = json.loads(done.stdout)["findings"]
            assert found["code"] == "TG007"
            assert found["labels"][0]["line"] > 0, kind


def test_a_kernel_that_ends_the_process_is_no_success(folder: Path, typed: Typed) -> None:
    for code in ("os._exit(0)", "raise KeyboardInterrupt", "raise SystemExit(0)"):
        (folder / "ends.py").write_text("import os\n" + PYTHON.replace("    row = ", f"    {code}\n    row = "))
        for name in ("check", "sync", "run"):
            assert_refused(typed(*command(name, "ends.py")))


def test_a_reference_that_fails_or_gives_no_numbers_is_bad_input(folder: Path, typed: Typed) -> None:
    for code in ("os._exit(0)", "raise KeyboardInterrupt", "return {'Y': 'abc'}", "return {'Y': object()}", "return 1"):
        text = PYTHON.replace('    return {"Y"', f'    {code}\n    return {{"Y"')
        (folder / "reference.py").write_text(f"import os\n{text}")
        assert_refused(typed("run", "reference.py"))
    (folder / "reference.py").write_text(PYTHON.replace('    return {"Y"', '    inputs["Y"][:] = 0\n    return {"Y"'))
    assert typed("run", "reference.py").returncode == 0


@pytest.mark.parametrize("tolerance", ["'x'", "None", "1e-3", "(1, 2, 3)", "(-1, 0)", "(float('nan'), 0)"])
def test_a_tolerance_is_two_numbers(folder: Path, typed: Typed, tolerance: str) -> None:
    (folder / "tolerance.py").write_text(f"{PYTHON}\nTOLERANCE = {tolerance}\n")
    done = typed("run", "tolerance.py")
    assert_refused(done)
    assert "TOLERANCE" in done.stderr


def test_a_run_says_its_tolerance(folder: Path, typed: Typed) -> None:
    (folder / "tolerance.py").write_text(f"{PYTHON}\nTOLERANCE = (1e-3, np.float32(0.5))\n")
    assert "tolerance 0.001 relative, 0.5 absolute" in typed("run", "tolerance.py").stdout


def test_what_a_file_leaves_behind_changes_neither_status_nor_place(folder: Path) -> None:
    """Threads that run on, `os._exit` at the end, another folder, a path without Tidegate, a small stack."""
    for code in (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
        "import atexit, os\natexit.register(os._exit, 7)",
        "import atexit, os\natexit.register(lambda: os._exit(7))",
        "import os\nos.chdir('/')",
        "import sys\nsys.path.clear()",
        "import sys\nsys.setrecursionlimit(60)",
    ):
        (folder / "leaves.py").write_text(f"{PYTHON}\n{code}\n" if "sys" in code else f"{code}\n{PYTHON}")
        done = tidegate("show", "leaves.py", "-o", "out.tide", seconds=20)
        assert (done.returncode, done.stderr) == (0, ""), code
        assert (folder / "out.tide").exists()
        (folder / "out.tide").unlink()


def test_children_of_a_file_may_exit(folder: Path) -> None:
    code = "import os\npid = os.fork()\nif not pid:\n    os._exit(5)\n"
    code += "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5"
    (folder / "forks.py").write_text(f"{code}\n{PYTHON}")
    assert tidegate("check", "forks.py").returncode == 0


@pytest.mark.parametrize("kind", ["waits", "catches"])
def test_ctrl_c_while_a_file_is_imported(folder: Path, kind: str) -> None:
    wait = "import sys, time\nprint('ready', file=sys.stderr, flush=True)\ntime.sleep(30)\n"
    caught = wait.replace("time.sleep(30)", "try:\n    time.sleep(30)\nexcept BaseException:\n    pass")
    (folder / "slow.py").write_text((wait if kind == "waits" else caught) + PYTHON)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    args = [sys.executable, "-m", "tidegate", "check", "slow.py"]
    with subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)  # on a busy machine
    assert (process.returncode, out, err.strip()) == (130, "", "")


SWALLOWED = """
import time, tidegate.cli
from tidegate.__main__ import start
class Ends:
    def __del__(self):
        raise KeyboardInterrupt
def main():
    Ends()
    time.sleep(100)
tidegate.cli.main = main
start()
"""


def test_ctrl_c_at_the_end_of_an_object_is_not_lost(folder: Path) -> None:
    """Python prints what is raised there, and goes on."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", SWALLOWED], env=env, capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_while_python_ends_is_quiet(folder: Path) -> None:
    """The command is over: an exception would be printed with a traceback, as ignored."""
    code = "import atexit, time, tidegate.cli\nfrom tidegate.__main__ import start\n"
    code += "atexit.register(lambda: (print('ready', flush=True), time.sleep(100)))\n"
    code += "tidegate.cli.main = lambda: None\nstart()\n"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    assert (process.returncode, err) == (-signal.SIGINT, "")


@pytest.mark.slow
def test_ctrl_c_at_any_moment(folder: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for number in range(24):
        args = [sys.executable, "-m", "tidegate", "sync", "race.tide", "-o", "race.tide"]
        with subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(0.15 + 0.05 * number)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=300)
        assert "kernel @shift" in (folder / "race.tide").read_text()
        # Before Python has its handlers, and when the command is over, the signal ends the process without a word.
        silent = process.returncode == -signal.SIGINT and not err
        # While Python itself starts and looks for the package, what it says is its own.
        early = "Traceback" in err and "in start\n" not in err and "cli" not in err
        assert early or silent or process.returncode in (0, 130), err
        assert early or "Traceback" not in err, err
        assert "tidegate sync" not in err


@pytest.mark.parametrize("closed", ["sys.stdout.close()", "sys.stderr.close()", "os.close(1)", "os.close(2)"])
def test_a_file_that_closes_streams(folder: Path, closed: str) -> None:
    """Its findings were lost with the stream: status 2 without a word."""
    Path("k.py").write_text(f"import os, sys\n{closed}\n")
    ended = tidegate("check", "k.py")
    assert ended.returncode == 2
    assert "k.py" in ended.stdout + ended.stderr


def test_a_stagger_without_end(folder: Path, typed: Typed) -> None:
    """Numbers that no list is long enough for were an internal error."""
    assert_refused(typed("sync", "race.tide", "--stagger", "9" * 400))


def test_memory_without_end(folder: Path, typed: Typed) -> None:
    """isl cannot hold what it would be asked about (found in generic MLIR: `ttg.shared` of thirty digits)."""
    text = graph_of(GOOD)
    assert "bytes 1024" in text
    Path("k.sync").write_text(text.replace("bytes 1024", f"bytes {1024 * 10**30}"))
    assert_refused(typed("check", "k.sync"))
