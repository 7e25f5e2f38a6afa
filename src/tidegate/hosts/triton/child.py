"""Triton in a process of its own, for files that somebody gives us.

Needs   a question of `questions`, and its arguments
Gives   the answer; `BadInput` where Triton refuses the text, crashes, or takes too long or too much memory
Keeps   whatever a file does to Triton's parser, this process goes on; a child that is lost is replaced at the next
        question; a child ends with its parent, and by itself when its time is up
Cost    one start of Python and Triton in each process that asks, and one message each way for a question; this process
        does not load Triton

    ask ── {"question": "lower", "arguments": {...}} ─▶ serve ─▶ Triton
        ◀─ {"answer": ...}, {"refused": [...]}, {"missing": "..."}, {"exhausted": true}, {"wrong": "..."}, or nothing
"""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from typing import IO, Any, NoReturn

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.questions import QUESTIONS

# Triton takes a second for a megabyte of text (docs/benchmarks.md has the figures of whole kernels): ten times that.
SECONDS, BYTES_A_SECOND = 12, 100_000
MEMORY = 4 << 30
# Of what a child says at its end so much goes into a finding.
LONGEST = 300
# The child has the folders of this process to import from, and does not install the drop-in.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from tidegate.hosts.triton.child import serve
serve(int(sys.argv[2]))
"""
_NOT_FOR_CHILDREN = "TIDEGATE_TRITON"
# How LLVM, the C++ library and Python say that memory has run out.
_NO_MEMORY = re.compile(r"out of memory|allocation failed|bad_alloc|MemoryError", re.IGNORECASE)


class _Gone(Exception):
    """The child does not answer."""


class TritonFailed(RuntimeError):
    """An exception in a question that no text explains: a mistake of Tidegate's own."""


# --- this side ------------------------------------------------------------------------------------------------------


def ask(question: str, file: str, **arguments: Any) -> Any:
    """The answer to a question about the text of a file."""
    with _LOCK:
        try:
            seconds = SECONDS + len(arguments["text"]) // BYTES_A_SECOND
            message = {"question": question, "seconds": seconds, "arguments": {"file": file, **arguments}}
            reply = _child().ask(message)
        except _Gone as gone:
            _fail(file, "TG007", str(gone))
        except BaseException:  # Ctrl-C: an answer that is still to come belongs to no later question
            _end()
            raise
    if "missing" in reply:
        _fail(file, "TG019", f"Triton {libtriton.version()} is installed and cannot be imported: {reply['missing']}")
    if "exhausted" in reply:
        _fail(file, "TG007", _too_large())
    if "refused" in reply:
        raise BadInput(*(_finding(file, *each) for each in reply["refused"]))
    if "wrong" in reply:
        raise TritonFailed(reply["wrong"])
    return QUESTIONS[question][1](reply["answer"])


def _fail(file: str, code: str, message: str) -> NoReturn:
    raise BadInput(Finding(code, message, (Label(Span(file, 0, 0, 0)),)))


def _finding(file: str, code: str, message: str, place: list[int] | None) -> Finding:
    return Finding(code, message, () if place is None else (Label(Span(file, *place)),))


class _Child:
    """A process that answers questions, one after the other."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.words = tempfile.TemporaryFile()  # noqa: SIM115, `end` closes it
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_CHILDREN)}
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path), str(MEMORY)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.words,
                env=environment,
            )
        except OSError as error:
            self.words.close()
            raise _Gone(f"Triton's parser cannot be started: {error.strerror or error}") from None

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The reply; raises `_Gone`, with what happened, if there is none."""
        to_it, from_it = self.process.stdin, self.process.stdout
        assert to_it is not None
        assert from_it is not None
        try:
            to_it.write(json.dumps(message).encode() + b"\n")
            to_it.flush()
            line = from_it.readline()
        except BrokenPipeError:
            line = b""
        if line.endswith(b"\n"):
            found: dict[str, Any] = json.loads(line)
            return found
        self.process.wait()
        words = os.pread(self.words.fileno(), 1 << 16, 0).decode("utf-8", "replace")
        said = _say_end(self.process.returncode, words, message["seconds"])
        _end()
        raise _Gone(said)

    def end(self) -> None:
        if self.owner == os.getpid():  # a fork has inherited it, and must not end it
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # part of a question that nobody reads any more
                    stream.close()
        self.words.close()


_LOCK = threading.Lock()
_running: list[_Child] = []  # none or one


def _child() -> _Child:
    # That of a parent answers the parent; one that was killed while nobody asked says nothing about a file.
    if _running and (_running[0].owner != os.getpid() or _running[0].process.poll() is not None):
        _end()
    if not _running:
        _running.append(_Child())
    return _running[0]


def _end() -> None:
    while _running:
        _running.pop().end()


def _after_fork() -> None:
    """The lock may have been held by a thread that the fork does not have."""
    global _LOCK
    _LOCK = threading.Lock()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _say_end(status: int, words: str, seconds: int) -> str:
    triton = f"Triton {libtriton.version()}"
    if status == -signal.SIGALRM:
        return f"{triton} takes more than {seconds} s for the file, and was stopped"
    if _NO_MEMORY.search(words):
        return _too_large()
    last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "")[:LONGEST]
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return f"{triton} crashes on the file ({how})" + (f": {last}" if last else "")


def _too_large() -> str:
    return f"Triton {libtriton.version()} needs more than {MEMORY >> 20} MB of memory for the file"


# --- the other side -------------------------------------------------------------------------------------------------


def serve(memory: int) -> None:
    """What the child does: answers until nobody asks any more."""
    import resource  # Unix has it, and so have the systems that Triton is built for

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process if it wants to
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process also where no Python runs
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not pass for an answer
    libtriton.say_on_error_stream()
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_reply(json.loads(line), sys.stderr)).encode() + b"\n")
        answers.flush()


def _reply(message: dict[str, Any], errors: IO[str]) -> dict[str, Any]:
    # What was said about an earlier text does not explain a later end.
    os.ftruncate(errors.fileno(), 0)
    os.lseek(errors.fileno(), 0, os.SEEK_SET)
    signal.alarm(message["seconds"])
    try:
        if missing := _missing():
            return {"missing": missing}
        answer = QUESTIONS[message["question"]][0](**message["arguments"])
        return {"answer": asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else answer}
    except BadInput as bad:
        return {"refused": [_written(each) for each in bad.findings]}
    except MemoryError:
        return {"exhausted": True}
    except Exception as error:
        return {"wrong": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)


def _missing() -> str:
    """Why Triton cannot be imported."""
    try:
        from triton._C.libtriton import ir  # noqa: F401
    except Exception as error:  # whatever a broken package raises
        return f"{type(error).__name__}: {error}"
    return ""


def _written(finding: Finding) -> tuple[str, str, tuple[int, int, int] | None]:
    at = finding.labels[0].at if finding.labels else None
    return finding.code, finding.message, None if at is None else (at.line, at.column, at.end)
