"""Nothing that a user has is lost: files are written whole or not at all, and what cannot be written is said.

Commands run as processes, under limits that a full disk or an impatient user would set. `test_refused.py` tries bad
input against the same commands.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import FILES, GOOD, graph_of
from tests.conftest import ROOT
from tests.language.test_damage import watched
from tidegate import cli, disk
from tidegate.disk import write_whole

Process = subprocess.CompletedProcess[str]
Typed = Callable[..., Process]
# Every command that reads a program, as it is typed; PROGRAM is the file.
COMMANDS = {
    "show": "show PROGRAM",
    "graph": "show PROGRAM --print-after graph",
    "check": "check PROGRAM",
    "json": "check PROGRAM --json",
    "sarif": "check PROGRAM --sarif",
    "sync": "sync PROGRAM",
    "sync-json": "sync PROGRAM --json",
    "explain": "explain PROGRAM",
    "schedule": "schedule PROGRAM",
    "run": "run PROGRAM",
    "in-order": "run PROGRAM --in-order",
    "cycles": "run PROGRAM --cycles",
    "page": "draw PROGRAM -o out.html",
    "picture": "draw PROGRAM -o out.svg",
    "timeline": "draw PROGRAM --trace out.json",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("good.tide", "race.tide", "sizes.tide", "double.py"):
        (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    (tmp_path / "good.sync").write_text(graph_of(GOOD), encoding="utf-8")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tidegate(*args: str, before: Callable[[], None] | None = None, seconds: int = 60, **how: Any) -> Process:
    """One command in a process of its own; bytes that are not UTF-8 come back as they are.

    `seconds`: of the processor, so that a busy machine changes nothing; what waits forever gets ten times as many.
    """

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        if before is not None:
            before()

    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **how.pop("env", {})}
    how = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL} | how
    return subprocess.run(
        [sys.executable, "-m", "tidegate", *args],
        stderr=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
        check=False,
        env=env,
        timeout=10 * seconds,
        preexec_fn=limited,
        **how,
    )


@pytest.fixture
def typed(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Runs a command in this process, for at most a minute of the processor: hundreds of processes take longer."""

    def run(*args: str) -> Process:
        monkeypatch.setattr(sys, "argv", ["tidegate", *args])
        with watched(" ".join(args), 60), pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(args, int(ended.value.code or 0), out, err)

    return run


def command(name: str, program: str) -> list[str]:
    return [each.replace("PROGRAM", program) for each in COMMANDS[name].split()]


def assert_refused(done: Process) -> None:
    """Status 2 and a sentence: on the error stream, or in the document that was asked for."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "error" in (done.stderr + (done.stdout or "")).lower()


# --- files are written whole or not at all ------------------------------------------------------------------------


def small_files() -> None:
    """What a full disk does: no file grows beyond one byte."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))


@pytest.mark.parametrize(
    "args",
    [
        "sync race.tide -o race.tide",
        "show good.tide -o race.tide",
        "run good.tide -o race.tide",
        "run good.tide --trace race.tide",
        "draw good.tide --trace race.tide",
        "run good.tide --cycles --trace race.tide",
    ],
)
def test_a_full_disk_leaves_the_old_file(folder: Path, args: str) -> None:
    done = tidegate(*args.split(), before=small_files, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert_refused(done)
    assert "file too large" in done.stderr
    assert (folder / "race.tide").read_text() == FILES["race.tide"]
    assert not list(folder.glob(".tidegate-*"))


def test_a_full_disk_leaves_the_old_page_and_the_old_picture(folder: Path) -> None:
    for name in ("out.html", "out.svg"):
        (folder / name).write_text("old")
        assert_refused(tidegate("draw", "good.tide", "-o", name, before=small_files))
        assert (folder / name).read_text() == "old"


def test_a_full_disk_leaves_the_start_file_of_the_shell(folder: Path) -> None:
    """`--install-completion` writes `.bashrc` anew."""
    (folder / ".bashrc").write_text("alias ll='ls -l'\n")
    script = f"{sys.executable} -m tidegate --install-completion; echo $?"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    run = ["/bin/bash", "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, env=env, preexec_fn=small_files, check=False)
    assert (folder / ".bashrc").read_text() == "alias ll='ls -l'\n", done.stdout + done.stderr


WRITER = """
import sys
sys.path.insert(0, {source!r})
from tidegate import cli
from tidegate import disk
from tidegate.disk import write_whole
print("ready", flush=True)
number = 0
while True:
    write_whole({file!r}, bytes([number % 2]) * {size})
    number += 1
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_whenever_a_writer_ends_the_file_is_old_or_new(tmp_path: Path, how: signal.Signals) -> None:
    rng, file, size = random.Random(int(how)), tmp_path / "out.bin", 3_000_000
    file.write_bytes(b"\2" * size)
    code = WRITER.format(source=str(ROOT / "src"), file=str(file), size=size)
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.random() * 0.1)
            process.send_signal(how)
        found = file.read_bytes()
        assert len(found) == size
        assert len(set(found)) == 1
    if how == signal.SIGINT:  # Python ends in order, and takes away what it began
        assert [each.name for each in tmp_path.iterdir()] == ["out.bin"]


def test_a_file_keeps_its_mode_and_a_new_one_obeys_the_umask(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("old")
    file.chmod(0o640)
    write_whole(file, "new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "b", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o640
    assert {each.name for each in tmp_path.iterdir()} == {"a", "b"}


def test_the_file_at_the_end_of_links_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "a"
    file.write_text("old")
    (tmp_path / "one").symlink_to("real/a")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "dangling").symlink_to("real/b")
    for name in ("two", "dangling"):
        write_whole(tmp_path / name, name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == name
    assert file.read_text() == "two"
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "round", "x")


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    """Root may write everything: then the same is tried with a folder that nobody can write to."""
    file = tmp_path / "a"
    file.write_text("old")
    file.chmod(0o444)
    if os.access(file, os.W_OK):
        with pytest.raises(OSError, match=r"No such file|denied|not permitted"):
            write_whole("/proc/self/new", "new")
        return
    with pytest.raises(PermissionError):
        write_whole(file, "new")
    assert file.read_text() == "old"


def test_streams_fifos_and_devices_are_written_directly(folder: Path) -> None:
    with Path("out.txt").open("w") as out:
        assert tidegate("sync", "race.tide", "-o", "/dev/stdout", stdout=out).returncode == 0
    text = Path("out.txt").read_text()
    assert text.startswith("target gfx942\n")  # what is said afterwards stands behind the program, not on it
    assert "no findings afterwards" in text
    assert tidegate("sync", "race.tide", "-o", "/dev/null").returncode == 0
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert tidegate("show", "good.tide", "-o", "pipe").returncode == 0
        assert reader.stdout is not None
        assert "kernel @shift" in reader.stdout.read()
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_a_fifo_that_nothing_reads_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-o FIFO` never ended."""
    monkeypatch.setattr(disk, "READER_COMES", 0)
    os.mkfifo("pipe")
    with pytest.raises(OSError, match="nothing reads from it"):
        write_whole("pipe", "text")


def test_one_function_writes_all_files() -> None:
    """`disk` writes; elsewhere only the stand-in for a closed stream is opened, and other tools get temporary files."""
    found = []
    for path in sorted((ROOT / "src/tidegate").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        folder = path.relative_to(ROOT / "src/tidegate").parent.as_posix()
        if path.name != "disk.py" and not folder.startswith(("hosts/triton", "hosts/cuda")):
            text = text.replace(', "w":', "")  # a key of a table
            found += [
                (path.name, word) for word in (".write_text(", ".write_bytes(", '.open("w', ', "w"') if word in text
            ]
    temporary = [("launch.py", ".write_text("), ("objdump.py", ".write_bytes(")]
    assert sorted(found) == [("__init__.py", '.open("w'), *temporary]


# --- places that cannot be written --------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "folder", "nowhere/out", "good.tide/out", "/dev/full", "x" * 300])
@pytest.mark.parametrize(
    "args", ["show good.tide -o", "sync race.tide -o", "run good.tide -o", "run good.tide --trace", "draw good.tide -o"]
)
def test_a_place_that_cannot_be_written_is_bad_input(folder: Path, args: str, place: str) -> None:
    before = sorted(each.name for each in folder.iterdir())
    assert_refused(tidegate(*args.split(), place))
    assert sorted(each.name for each in folder.iterdir()) == before


@pytest.mark.parametrize("name", ["show", "check", "json", "sarif", "sync", "explain", "run", "cycles", "picture"])
def test_an_output_that_is_full_is_said(folder: Path, name: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = tidegate(*command(name, "good.tide"), stdout=full)
    assert done.returncode == 2
    assert done.stderr.endswith("error: the output cannot be written: no space left on device\n")


@pytest.mark.parametrize("args", ["--help", "--version", "targets", "check --help"])
def test_help_on_a_full_device(args: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = tidegate(*args.split(), stdout=full)
    assert (done.returncode, done.stderr) == (2, "error: the output cannot be written: no space left on device\n")


def test_an_error_stream_that_is_full_changes_no_status(folder: Path) -> None:
    for args, status in (("check nowhere.tide", 2), ("check good.tide", 0), ("check race.tide", 1)):
        script = f"{sys.executable} -m tidegate {args} 2> /dev/full"
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        assert subprocess.run(["/bin/sh", "-c", script], env=env, capture_output=True, check=False).returncode == status
