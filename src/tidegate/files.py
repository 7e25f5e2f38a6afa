"""Programs from files: `.tide` kernels, Python files with traced kernels, `.sync` graphs, Triton's TTGIR.

Needs   a path, perhaps with `::name` behind it
Gives   kernels or a graph, with what is needed to show their source
Keeps   a text file never executes anything; a Python file is executed, as its user expects
Cost    linear in the file
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.diag import BadInput, Finding, Label, Sources, Span, closest
from tidegate.graph.model import SyncGraph
from tidegate.language.ops import Kernel

if TYPE_CHECKING:
    from tidegate.adapters.triton.read import Ttgir

MAX_BYTES = 256 << 20
READS = "it reads `.tide`, `.sync`, `.ttgir`, `.mlir` and `.py` files"


@dataclass(frozen=True, slots=True)
class Reference:
    """What a kernel should compute, as the Python file beside it says, and how close is close."""

    compute: Callable[..., dict[str, Any]]
    tolerance: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file holds. A `.sync` file holds one graph, all others hold kernels."""

    file: str
    kernels: tuple[Kernel, ...]
    graph: SyncGraph | None
    sources: Sources
    reference: Reference | None = None
    ttgir: Ttgir | None = None


def load(where: str, *, as_compiled: bool = True) -> Loaded:
    """Reads a file; `FILE::name` picks one kernel of it.

    `as_compiled`: TTGIR from before Triton's own barriers is taken with those, as it will be compiled; else its text
    is taken for one that is going to be edited.
    """
    file, _, name = where.partition("::")
    path = Path(file)
    suffix = path.suffix.lower()
    if path.is_dir():
        _fail(file, "this is a folder, not a file", "name one of the files in it")
    if suffix == ".py":
        return _load_python(path, file, name.lstrip("@"))
    if suffix in (".tide", ".sync"):
        loaded = _from_text(read_text(path, file), file, suffix)
    elif suffix in (".ttgir", ".mlir"):
        return _from_ttgir(read_text(path, file), file, name.lstrip("@"), as_compiled)
    elif suffix == ".ttir":
        _fail(file, "`.ttir` is Triton's IR before it has layouts", "give the `.ttgir` that is made of it")
    else:
        _fail(file, f"nothing is known about `{suffix or file}` files", READS)
    return _pick(loaded, name) if name else loaded


def _fail(file: str, message: str, help: str = "") -> NoReturn:
    raise BadInput(Finding("TG007", message, (Label(Span(file, 0, 0, 0)),), help=help))


def read_text(path: Path, file: str) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            _fail(file, f"the file is larger than {MAX_BYTES >> 20} MB")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        _fail(file, f"the file cannot be read: {(error.strerror or str(error)).lower()}")
    except UnicodeDecodeError:
        _fail(file, "the file is not text in UTF-8")
    if "\0" in text:
        _fail(file, f"the file is not text: line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL")
    return text


def load_text(text: str, file: str, *, as_compiled: bool = True, kind: str = "") -> Loaded:
    """What a text holds that would be read from a `.tide`, `.sync`, `.ttgir` or `.mlir` file of this name.

    `kind`: which of them, for a file that is not called so.
    """
    suffix = kind or Path(file).suffix.lower()
    if suffix in (".ttgir", ".mlir"):
        return _from_ttgir(text, file, "", as_compiled)
    return _from_text(text, file, suffix)


def _from_text(text: str, file: str, suffix: str) -> Loaded:
    sources = Sources({file: text})
    if suffix == ".sync":
        from tidegate.graph.parse import parse_graph

        return Loaded(file, (), parse_graph(text, file), sources)
    from tidegate.language.parse import parse

    kernels = parse(text, file).kernels
    if not kernels:
        _fail(file, "the file holds no kernel", "a kernel starts with `kernel @name(...)`")
    return Loaded(file, kernels, None, sources)


def _from_ttgir(text: str, file: str, name: str, as_compiled: bool) -> Loaded:
    from tidegate.adapters.triton.read import read_to_edit, read_ttgir

    ttgir = read_ttgir(text, file, as_compiled=True) if as_compiled else read_to_edit(text, file)
    if not ttgir.kernels:
        _fail(file, "the file holds no kernel", "a kernel of TTGIR starts with `tt.func public @name`")
    if name and name not in ttgir.names:
        _fail_without(file, name, list(ttgir.names))
    return Loaded(file, (), None, Sources({file: ttgir.text}), ttgir=ttgir.only(name) if name else ttgir)


def _load_python(path: Path, file: str, name: str) -> Loaded:
    """Executes the file and traces its kernels, or only the one that is asked for: others may be broken."""
    from tidegate.language.trace import KernelFunction

    read_text(path, file)
    module = _execute(path, file)
    found = [item for item in vars(module).values() if isinstance(item, KernelFunction)]
    own = [item for item in found if item.function.__module__ == module.__name__]
    if not own:
        _fail(file, "the file holds no kernel", "decorate a function with `@tidegate.kernel(...)`")
    wanted = [item for item in own if name in ("", item.name)]
    if not wanted:
        _fail_without(file, name, [item.name for item in own])
    with user_code(path, file):
        kernels = tuple(dict.fromkeys(item.trace().kernel for item in wanted))
    compute = getattr(module, "reference", None)
    tolerance = getattr(module, "TOLERANCE", (1e-5, 1e-5))
    reference = Reference(compute, tolerance) if callable(compute) else None
    return Loaded(file, kernels, None, Sources(), reference)


def _execute(path: Path, file: str) -> ModuleType:
    """Runs a file as a module of its own, its places named as the user named the file; its folder is importable."""
    name = f"tidegate_input_{path.stem}"
    module = ModuleType(name)
    module.__file__ = file
    folder = str(path.resolve().parent)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        with user_code(path, file):
            exec(compile(read_text(path, file), file, "exec", dont_inherit=True), vars(module))
    finally:
        sys.path.remove(folder)
    return module


@contextmanager
def user_code(path: Path, file: str) -> Iterator[None]:
    """What goes wrong in a Python file is a mistake in that file: a finding with its line, never a crash.

    What the file prints goes to the error stream: the output belongs to the command. What it says about how deep
    functions may call each other holds for itself.
    """
    deepest = sys.getrecursionlimit()
    try:
        with redirect_stdout(sys.stderr):
            try:
                yield
            finally:
                sys.setrecursionlimit(deepest)
    except BadInput:
        raise
    except SyntaxError as error:
        at = Span(file, error.lineno or 0, error.offset or 1, (error.offset or 1) + 1)
        raise BadInput(Finding("TG007", f"the file is not Python: {error.msg}", (Label(at),))) from None
    except BaseException as error:  # also what no handler of a program is made for, such as an exception of its own
        if isinstance(error, KeyboardInterrupt):
            raise
        if isinstance(error, AssertionError) and _is_own(error):
            raise
        at, said = _where(error, str(path.resolve()), file), f"the file fails: {type(error).__name__}: {error}"
        raise BadInput(Finding("TG007", said, (Label(at),), help=_meant(error))) from error


def _meant(error: BaseException) -> str:
    """What a name was probably meant to be, as Python's own traceback says it."""
    if not isinstance(error, AttributeError) or not isinstance(error.name, str):
        return ""
    meant = closest(error.name, dir(error.obj))
    return f"did you mean `{meant}`?" if meant else ""


def _is_own(error: BaseException) -> bool:
    """Whether the error was raised in this package: then it is a mistake of Tidegate's own."""
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


def _pick(loaded: Loaded, name: str) -> Loaded:
    wanted = tuple(kernel for kernel in loaded.kernels if kernel.name == name.lstrip("@"))
    if not wanted:
        _fail_without(loaded.file, name, [kernel.name for kernel in loaded.kernels])
    return Loaded(loaded.file, wanted, None, loaded.sources, loaded.reference)


def _fail_without(file: str, name: str, known: list[str]) -> NoReturn:
    meant = closest(name, known)
    help = f"did you mean `{meant}`?" if meant else f"it holds: {', '.join(dict.fromkeys(known)) or 'a graph'}"
    _fail(file, f"the file holds no kernel `{name}`", help)
