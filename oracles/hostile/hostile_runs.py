"""Carries out hostile command lines, each in a process and a folder of its own, and says what is wrong with its end.

    python oracles/hostile/hostile_runs.py options 0 500  cases 0 to 499 of a class; a line of JSON for each complaint
    python oracles/hostile/hostile_runs.py options 17           one case, with what it prints
    python oracles/hostile/hostile_runs.py all 0 10000 -j 16  so many of all classes together, in 16 processes; a table

A process is a fork of this one, in which all is imported; every twentieth case is a `python -m tidegate` instead. An
end is wrong with a traceback, a status that no bad input has, more than `LIMIT` seconds, bytes of an input that are not
there any more, an output that is neither the old nor the new one, or a character that talks to the terminal.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / each) for each in ("src", ".")]

from oracles.hostile.hostile_inputs import OLD, TIDE, Case  # noqa: E402, it may be run as a script
from oracles.hostile.hostile_places import CLASSES  # noqa: E402
from tidegate.hosts.cuda.installed import find_nvrtc  # noqa: E402

LIMIT = 20  # seconds of the processor, so that a busy machine changes nothing
PATIENCE = 120  # seconds of the clock, for what waits for ever
MEMORY = 6 << 30  # for one process: a program that asks for more would take the machine along
USUAL = 1 << 30  # what no bad input needs
TOGETHER = 40  # cases that one process of several carries out
REAL = 20  # every so many cases are processes of their own
DEVICES = {"zero": (1, 5), "null": (1, 3), "full": (1, 7)}
# What must not be printed: control characters but tabs and line ends, of both ranges, and bidirectional ones.
TALKS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
CTRL_C = 130
PACKAGE = f"{os.sep}tidegate{os.sep}"

# A command that has run code of a user leaves `os._exit` without effect for the rest of its process: a fork of pytest
# would go on as a second worker.
leave = os._exit


@dataclass(frozen=True, slots=True)
class End:
    """How a command ended: its status, negative for a signal, None if it did not end in time."""

    status: int | None
    seconds: float
    out: str
    err: str
    memory: int = 0  # bytes, at its largest


class NotHere(Exception):
    """This machine does not allow what a case needs, such as making devices."""


@dataclass(frozen=True, slots=True)
class Complaint:
    kind: str
    seed: int
    what: str
    command: str
    said: str
    saved: str = ""

    def __str__(self) -> str:
        again = f"python oracles/hostile/hostile_runs.py {self.kind} {self.seed}"
        return f"{self.what}: tidegate {self.command}\n  in {self.saved}, again with `{again}`\n  {self.said}"


# --- a folder ---------------------------------------------------------------------------------------------------------


def set_up(case: Case, folder: Path) -> None:
    folder.mkdir()
    where = os.fsencode(folder)
    for name, content in case.files:
        with suppress(OSError), open(os.path.join(where, name), "wb") as out:  # names may be too long
            out.write(content)
    if case.out and not os.path.exists(os.path.join(where, case.out)):
        Path(os.fsdecode(os.path.join(where, case.out))).write_bytes(OLD)
    for kind, name, target in case.odd:
        path = os.path.join(where, name)
        if kind == "link":
            os.symlink(target, path)
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            os.mkdir(path)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(os.fsdecode(os.path.relpath(path)) if len(path) > 100 else path)
        elif os.getuid() == 0:  # nodes of its own: a command of root's could replace those of the machine
            try:
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*DEVICES[kind]))
            except OSError as error:
                raise NotHere(f"no devices can be made: {error.strerror}") from None
        else:
            os.symlink(f"/dev/{kind}".encode(), path)
    if case.is_locked:
        if os.getuid() == 0:
            try:
                os.chown(folder, 65534, 65534)
            except OSError as error:
                raise NotHere(f"files cannot be given away: {error.strerror}") from None
        folder.chmod(0o555)


def contents(case: Case, folder: Path) -> dict[bytes, bytes | None]:
    """What the files of a case hold."""
    found: dict[bytes, bytes | None] = {}
    for name in {*(name for name, _ in case.files), *([case.out] if case.out else [])}:
        path = os.path.join(os.fsencode(folder), name)
        try:
            with open(path, "rb") as file:
                found[name] = file.read()
        except OSError:
            found[name] = None
    return found


# --- a process --------------------------------------------------------------------------------------------------------


def run(case: Case, folder: Path, *, real: bool = False, disturbed: bool = True) -> End:
    """Carries out a command in its folder."""
    began = time.monotonic()
    printed = [Path(f"{folder}.{name}") for name in ("out", "err")]
    case = case if disturbed else replace(case, moment=None, disk=0, is_locked=False)
    # Held open by the command and by those who copy what it prints: the end of the pipe is the end of them all.
    running, held = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(running)
        _become(case, folder, printed, real)
    os.close(held)
    status, seconds, memory = _wait(pid, began + PATIENCE)
    if case.disk:
        select.select([running], [], [], PATIENCE)
    os.close(running)
    out, err = (path.read_text(encoding="utf-8", errors="backslashreplace") for path in printed)
    return End(status, seconds, out, err, memory)


def _wait(pid: int, until: float) -> tuple[int | None, float, int]:
    """The status, the seconds of the processor, and the most memory that the process had."""
    pause = 0.001
    while time.monotonic() < until:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            seconds = used.ru_utime + used.ru_stime
            return None if seconds > LIMIT else os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss << 10
        time.sleep(pause)
        pause = min(0.02, pause * 1.3)
    os.kill(pid, signal.SIGKILL)
    return None, PATIENCE, os.wait4(pid, 0)[2].ru_maxrss << 10


def _become(case: Case, folder: Path, printed: list[Path], real: bool) -> NoReturn:
    """The rest of the life of a fork: the command."""
    try:
        os.chdir(folder)
        # Reports of crashes go there, and with the folder.
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder.parent)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(printed, 1):
            os.dup2(os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC), number)
        if case.sink == "full":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT + 1, LIMIT + 2))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if case.disk:
            # Only for files: what is printed has its own limit, and its own class of cases.
            _limit_files(case.disk)
        if case.is_locked and os.getuid() == 0:
            _drop_override()
        argv = [os.fsdecode(word) for word in case.args]
        if real and not case.moment and not case.is_locked and not case.disk:
            os.execv(sys.executable, [sys.executable, "-m", "tidegate", *argv])
        if case.moment is not None:
            _arm(*case.moment, case.by)
        status = _main(argv)
    except BaseException:  # of this file, not of the command
        os.write(2, f"harness: {traceback.format_exc()}".encode())
        status = 99
    leave(status)


def _main(argv: list[str]) -> int:
    """What `python -m tidegate` does from here on, to the last flush."""
    from tidegate.__main__ import start

    sys.argv = ["tidegate", *argv]
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, errors="backslashreplace")  # noqa: SIM115
    status = 0
    try:
        start()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        with suppress(Exception):
            traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except ValueError:  # closed
            pass
        except OSError:
            status = 120  # what Python itself ends with then
    return status


def _limit_files(size: int) -> None:
    """The disk is full: files end at `size`. What is printed goes to pipes, which have no size."""
    for number in (1, 2):
        path = os.readlink(f"/proc/self/fd/{number}")
        reading, writing = os.pipe()
        if os.fork():
            os.close(reading)
            os.dup2(writing, number)
            os.close(writing)
            continue
        os.close(writing)
        with open(path, "ab") as out, open(reading, "rb") as come:
            shutil.copyfileobj(come, out)
        leave(0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _drop_override() -> None:
    """Takes root's right to write where it may not: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, data) == 0
    for half in (0, 1):
        data[half] &= ~0b1110
    assert libc.capset(header, data) == 0


def _arm(event: int, microseconds: int, by: str) -> None:
    """Ends the process so long behind the n-th time that it opens, renames or removes a file of its folder."""
    left = [event]
    here = os.getcwd()

    def end(_: int, frame: FrameType | None) -> None:
        while frame is not None and PACKAGE not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:  # else the command is over, and this file would be interrupted
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGALRM, end if by == "ctrl-c" else signal.SIG_DFL)

    def heard(name: str, args: tuple[Any, ...]) -> None:
        if name not in ("open", "os.rename", "os.remove", "os.chmod", "os.truncate", "tempfile.mkstemp") or not left[0]:
            return
        path = args[0] if args else None
        if not isinstance(path, str | bytes) or not os.path.abspath(os.fsdecode(path)).startswith(here):
            return
        left[0] -= 1
        if not left[0]:
            signal.setitimer(signal.ITIMER_REAL, max(microseconds, 1) / 1e6)

    sys.addaudithook(heard)


# --- judging ----------------------------------------------------------------------------------------------------------


def complaints(
    case: Case, end: End, before: dict[bytes, bytes | None], after: dict[bytes, bytes | None]
) -> Iterator[str]:
    """What is wrong with an end, without what the outputs should hold."""
    said = end.out + end.err
    if end.status is None:
        yield f"more than {LIMIT} s"
    elif end.status < 0 and (case.by, -end.status) not in (("kill", signal.SIGALRM), ("ctrl-c", signal.SIGINT)):
        yield f"ended by {signal.Signals(-end.status).name}"
    elif end.status not in (0, 1, 2) and end.status >= 0 and not (case.by == "ctrl-c" and end.status == CTRL_C):
        yield f"status {end.status}"
    if "Traceback (most recent" in said or "Exception ignored" in said:
        yield "a traceback"
    if "mistake of Tidegate's own" in said or "internal error" in said:
        yield "a mistake of Tidegate's own"
    if found := TALKS.search(said):
        yield f"prints {found[0]!r}"
    if end.status == 2 and not said.strip() and case.sink != "full":
        yield "status 2 without a word"
    if end.memory > USUAL:
        yield "more than 1 GB"
    written = {case.out, *(case.args[at + 1] for at, word in enumerate(case.args[:-1]) if word in (b"-o", b"--trace"))}
    links = {target for kind, _, target in case.odd if kind == "link"}
    for name, content in before.items():
        if name not in written | links and after[name] != content:
            yield f"the input {name!r} is not what it was"


def judge(kind: str, seed: int, case: Case, *, real: bool = False) -> list[Complaint]:
    """Carries out a case and says what is wrong."""
    with tempfile.TemporaryDirectory(prefix="tidegate-hostile-") as made:
        folder = Path(made) / "case"
        whole: bytes | None = None
        if case.out:
            set_up(replace(case, is_locked=False), folder)
            if run(case, folder, disturbed=False).status in (0, 1):
                whole = contents(case, folder)[case.out]
            shutil.rmtree(folder)
        set_up(case, folder)
        before = contents(case, folder)
        end = run(case, folder, real=real)
        after = contents(case, folder)
        found = list(complaints(case, end, before, after))
        if case.out and after[case.out] not in (before[case.out], whole):
            found.append(f"the output {case.out!r} is neither the old nor the new one")
        if case.out and end.status == 0 and whole is not None and after[case.out] != whole:
            found.append(f"status 0, and the output {case.out!r} is not written")
        if case.by == "ctrl-c" and (left := sorted(set(os.listdir(folder)) - _expected(case))):
            found.append(f"leaves {left} behind")
        folder.chmod(0o755)
    command = " ".join(map(repr, case.args)).replace("b'", "'")
    said = (end.err.strip() or end.out.strip())[-1500:]
    return [Complaint(kind, seed, what, command, said) for what in found]


def _expected(case: Case) -> set[str]:
    names = {*(name for name, _ in case.files), *(name for _, name, _ in case.odd), case.out}
    return {os.fsdecode(name) for name in names}


def draw(kind: str, seed: int) -> Case:
    return CLASSES[kind](random.Random(f"{kind} {seed}"))


def smaller(kind: str, seed: int, case: Case, what: str) -> Case:
    """The case with as few lines in its first file as show the same, as far as a few seconds suffice."""
    until = time.monotonic() + 8
    size = max(1, case.files[0][1].count(b"\n") // 2) if case.files else 0
    while size:
        lines = case.files[0][1].split(b"\n")
        for start in range(0, len(lines), size):
            if time.monotonic() > until:
                return case
            left = b"\n".join(lines[:start] + lines[start + size :])
            tried = replace(case, files=((case.files[0][0], left), *case.files[1:]))
            if any(each.what == what for each in judge(kind, seed, tried)):
                case = tried
                break
        else:
            size //= 2
    return case


def save(complaint: Complaint, case: Case) -> Complaint:
    """Keeps a case that fails where its user finds it."""
    folder = Path(tempfile.gettempdir()) / f"tidegate-hostile-{complaint.kind}-{complaint.seed}"
    if folder.exists():
        shutil.rmtree(folder)
    with suppress(OSError):
        set_up(replace(case, is_locked=False), folder)
        (folder / "COMMAND").write_text(f"{complaint}\n{case!r}\n", encoding="utf-8", errors="backslashreplace")
    return replace(complaint, saved=str(folder))


@contextmanager
def prepared() -> Iterator[None]:
    """All is imported before the first fork, and nothing of the surroundings gets into what is printed."""
    os.environ.update(NO_COLOR="1", PYTHONPATH=os.pathsep.join(sys.path[:2]))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as made:
        for number, args in enumerate((b"check k.tide", b"sync k.tide", b"run k.tide", b"draw k.tide -o o.html")):
            case = Case(tuple(args.split()), ((b"k.tide", TIDE.encode()),))
            set_up(case, Path(made) / str(number))
            _in_this_process(case, Path(made) / str(number))
    yield


def _in_this_process(case: Case, folder: Path) -> None:
    """So that its imports are there in all forks."""
    from tidegate.cli import app

    before, kept = os.getcwd(), (sys.stdout, sys.stderr)
    with open(os.devnull, "w") as nowhere:
        os.chdir(folder)
        sys.stdout = sys.stderr = nowhere
        with suppress(SystemExit):
            app([os.fsdecode(word) for word in case.args])
        sys.stdout, sys.stderr = kept
        os.chdir(before)


# --- all classes at once ----------------------------------------------------------------------------------------------

# The columns of the table; a complaint that is none of these counts as another one.
COLUMNS = {
    "tracebacks": re.compile("a traceback"),
    f"over {LIMIT} s": re.compile("more than .* s$"),
    "status 3": re.compile("status 3$|a mistake of Tidegate's own"),
    "bytes lost": re.compile("the input .* is not what|the output .* is neither|.*the output .* is not written"),
}
NEEDS_TRITON = ("damaged-ttgir",)
NEEDS_CUDA = ("damaged-cuda",)


def why_not(kind: str) -> str:
    """Why a class cannot be carried out here; nothing if it can."""
    if kind in NEEDS_TRITON and importlib.util.find_spec("triton") is None:
        return "not run: Triton is not installed"
    if kind in NEEDS_CUDA and find_nvrtc() is None:
        return "not run: NVRTC is not installed"
    return ""


def run_all(kinds: list[str], first: int, count: int, jobs: int) -> int:
    """Carries out parts of the classes in several processes; prints complaints and a table. Gives their number."""
    each = -(-count // len(kinds))
    able = [kind for kind in kinds if not why_not(kind)]
    parts = [(kind, first + start, min(TOGETHER, each - start)) for start in range(0, each, TOGETHER) for kind in able]
    found: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    began, total = time.monotonic(), 0
    with ThreadPoolExecutor(jobs) as pool:
        for (kind, start, size), (complaints_, ran, skipped) in zip(parts, pool.map(_part, parts), strict=True):
            found[kind].update(runs=ran, skipped=skipped, unfinished=size - ran - skipped)
            for complaint in complaints_:
                print(f"{kind}: {complaint}\n", flush=True)
                column = next((name for name, said in COLUMNS.items() if said.match(complaint.what)), "other")
                found[kind][column] += 1
            total += ran
            print(f"\r{total} runs, {kind} {start}, {time.monotonic() - began:.0f} s ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return _table(found, time.monotonic() - began, jobs)


def _part(part: tuple[str, int, int]) -> tuple[list[Complaint], int, int]:
    kind, first, count = part
    command = [sys.executable, __file__, kind, str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if not lines or "runs" not in lines[-1]:
        print(f"{kind} {first}: the runs ended early\n{done.stderr[-2000:]}", flush=True)
        return [Complaint(**line) for line in lines], 0, 0
    end = lines.pop()
    return [Complaint(**line) for line in lines], end["runs"], end["skipped"]


def _table(found: dict[str, Counter[str]], seconds: float, jobs: int) -> int:
    columns = [*COLUMNS, "other"]
    if any(each["unfinished"] for each in found.values()):
        columns.append("unfinished")
    print(f"| class | runs | {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) + 1)}")
    for kind, counts in found.items():
        if why := why_not(kind):
            print(f"| {kind} | {why} |{' |' * len(columns)}")
            continue
        more = f" ({counts['skipped']:,} not possible here)" if counts["skipped"] else ""
        print(f"| {kind} | {counts['runs']:,}{more} | {' | '.join(str(counts[each]) for each in columns)} |")
    all_ = sum(found.values(), Counter[str]())
    print(f"| all | {all_['runs']:,} | {' | '.join(str(all_[each]) for each in columns)} |")
    print(f"\n{seconds:.0f} s in {jobs} processes, Python {sys.version.split()[0]}")
    return sum(all_[each] for each in columns)


def one_case(kind: str, seed: int) -> None:
    """Shows a case and what comes of it."""
    case = draw(kind, seed)
    print(repr(case)[:3000])
    with tempfile.TemporaryDirectory() as made:
        set_up(case, Path(made) / "case")
        print(run(case, Path(made) / "case"))
        (Path(made) / "case").chmod(0o755)
    print(*judge(kind, seed, case), sep="\n")


def cases(kind: str, first: int, count: int) -> None:
    """Carries out cases of a class: a line of JSON for each complaint, and one that says how many were carried out."""
    skipped = 0
    for seed in range(first, first + count):
        case = draw(kind, seed)
        try:
            found = judge(kind, seed, case, real=seed % REAL == 0)
        except NotHere:
            skipped += 1
            continue
        if found:
            is_text = kind.startswith("damaged") and not found[0].what.startswith("more than")
            less = smaller(kind, seed, case, found[0].what) if is_text else case
            # All that is wrong with a case is told, the text once.
            print(json.dumps(asdict(save(found[0], less))))
            print(*(json.dumps(asdict(each)) for each in found[1:]), sep="\n", end="", flush=True)
            if found[1:]:
                print(flush=True)
    print(json.dumps({"runs": count - skipped, "skipped": skipped}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Hostile command lines.")
    parser.add_argument("kind", help=f"all, or one or several with commas between them: {', '.join(CLASSES)}")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int, nargs="?")
    parser.add_argument("-j", "--jobs", type=int, default=0, help="how many processes; a table at the end")
    asked = parser.parse_args()
    kinds = list(CLASSES) if asked.kind == "all" else asked.kind.split(",")
    if unknown := set(kinds) - set(CLASSES):
        parser.error(f"there is no class {', '.join(sorted(unknown))}")
    if asked.jobs or asked.kind == "all":
        sys.exit(1 if run_all(kinds, asked.first, asked.count or len(kinds), asked.jobs or 1) else 0)
    with prepared():
        for kind in kinds:
            if asked.count is None:
                one_case(kind, asked.first)
            else:
                cases(kind, asked.first, asked.count)


if __name__ == "__main__":
    main()
