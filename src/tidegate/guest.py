"""Code of the user in this process: whatever ends it is a finding with its line, and it cannot end the command.

Needs   a Python file, and a block of code that runs parts of it
Gives   `BadInput` for everything that the file raises, `SystemExit` and its like too; Ctrl-C stays Ctrl-C
Keeps   `os._exit` in the file is no success; what the file prints goes to the error stream
Cost    none of its own
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from tidegate.diag import BadInput, Finding, Label, Span, closest

really_exit = os._exit
END_HELP = "a file that is read for its kernels ends"


class _Exited(BaseException):
    """Raised in place of `os._exit`: not an `Exception`, so that the file does not catch it by accident."""


@contextmanager
def surroundings_kept() -> Iterator[None]:
    """What a file changes for the whole process, without which the command could not go on or would write elsewhere."""
    folder, path, depth = os.getcwd(), list(sys.path), sys.getrecursionlimit()
    try:
        yield
    finally:
        os.chdir(folder)
        sys.path += [each for each in path if each not in sys.path]
        sys.setrecursionlimit(depth)


class _Lent(io.TextIOBase):
    """A stream that is not closed by the file that prints to it (test_refused: `test_a_file_that_closes_streams`)."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def close(self) -> None:
        self.flush()


@contextmanager
def _streams_kept() -> Iterator[None]:
    """What the file prints goes to the error stream: the output belongs to the command."""
    lent, numbers = _Lent(sys.stderr), {}
    for number in (1, 2):
        with suppress(OSError):  # it may be closed already
            numbers[number] = os.dup(number)
    try:
        with redirect_stdout(lent), redirect_stderr(lent):
            yield
    finally:
        for number, kept in numbers.items():
            with suppress(OSError):
                os.dup2(kept, number)
                os.close(kept)


@contextmanager
def user_code(path: Path, file: str) -> Iterator[None]:
    """What goes wrong in a Python file is a mistake in that file: a finding with its line, never a crash."""
    interrupts = _Interrupts()
    try:
        with _streams_kept(), interrupts.counted(), _without_exit(), surroundings_kept():
            yield
    except BadInput:
        raise
    except SyntaxError as error:
        at = Span(file, error.lineno or 0, error.offset or 1, (error.offset or 1) + 1)
        raise BadInput(Finding("TG007", f"the file is not Python: {error.msg}", (Label(at),))) from None
    except BaseException as error:
        if interrupts.count:
            raise KeyboardInterrupt from None
        if isinstance(error, AssertionError) and _is_own(error):
            raise
        at, said = _where(error, str(path.resolve()), file), f"the file fails: {_said(error)}"
        help = _meant(error) if isinstance(error, Exception) else END_HELP
        raise BadInput(Finding("TG007", said, (Label(at),), help=help)) from error
    if interrupts.count:  # and the file has caught it
        raise KeyboardInterrupt


class _Interrupts:
    """Tells Ctrl-C from a `KeyboardInterrupt` that the file raises itself."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        usual = threading.current_thread() is threading.main_thread()
        if not usual or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self.note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        signal.default_int_handler(number, frame)


# --- os._exit -----------------------------------------------------------------------------------------------------


@contextmanager
def _without_exit() -> Iterator[None]:
    """`os._exit` ends a process with any status, and nothing runs after it: a file could pass for clean unread."""
    _set_exit(_Refusal().refuse)
    try:
        yield
    finally:
        _set_exit(really_exit)


def ignore_exit() -> None:
    """For the end of the process, when the exit status is known."""
    _Refusal.ended = True
    _set_exit(_Refusal().refuse)


class _Refusal:
    """In place of `os._exit`. Children of this process, which multiprocessing ends so, exit as before."""

    ended = False

    def __init__(self) -> None:
        self.owner = os.getpid()

    def refuse(self, status: int = 0) -> None:
        if os.getpid() != self.owner:
            really_exit(status)
        if not self.ended:
            raise _Exited(f"os._exit({status})")


def _set_exit(function: Callable[..., Any]) -> None:
    for name in ("os", "posix", "nt"):
        module: Any = sys.modules.get(name)
        if module is not None:
            module._exit = function


# --- what is said -------------------------------------------------------------------------------------------------


def _said(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # a class of the file, whose `__str__` is as broken
        text = "it cannot say why"
    name = "it calls" if isinstance(error, _Exited) else f"{type(error).__name__}:"
    return f"{name} {text}".rstrip(": ") if text else type(error).__name__


def _meant(error: BaseException) -> str:
    """What a name was probably meant to be, as Python's own traceback says it."""
    if not isinstance(error, AttributeError) or not isinstance(error.name, str):
        return ""
    try:
        meant = closest(error.name, dir(error.obj))
    except Exception:  # `dir` asks the object, which may be broken
        return ""
    return f"did you mean `{meant}`?" if meant else ""


def _is_own(error: BaseException) -> bool:
    """Whether the error was raised in this package: then it is an internal error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(str(Path(__file__).resolve().parent))


def _where(error: BaseException, path: str, file: str) -> Span:
    """The last line of the file itself on the way to the error."""
    from tidegate.language.builder import span_of_line

    found, trace = Span(file, 0, 0, 0), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in (path, file):
            found = span_of_line(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found
