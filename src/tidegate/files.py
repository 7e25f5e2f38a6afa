"""Programs from files: `.tide` kernels, traced Python, `.sync` graphs, Triton's TTGIR, PTX, CUDA, AMDGCN assembly.

Needs   a path, perhaps with `::name` behind it
Gives   kernels or a graph, with what is needed to show their source
Keeps   a text file never executes anything; a Python file is executed, as its user expects
Cost    linear in the file
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.diag import BadInput, Finding, Label, Sources, Span, closest
from tidegate.disk import read_whole, reason_of
from tidegate.graph.model import SyncGraph
from tidegate.guest import user_code
from tidegate.language.ops import Kernel
from tidegate.limits import check_compiled, check_instructions, check_size, check_waves

if TYPE_CHECKING:
    from tidegate.hosts.amdgcn.program import Amdgcn
    from tidegate.hosts.cuda.options import CudaOptions
    from tidegate.hosts.ptx.program import Ptx
    from tidegate.hosts.triton.read import Ttgir

# The most that is read of one file: reading takes about a second for a megabyte, TTGIR and PTX more.
MAX_BYTES = 16 << 20
MAX_COMPILED = 4 << 20
CUDA = (".cu", ".cuh")
CODE_OBJECTS = (".hsaco", ".co")
ASSEMBLY = (".s", ".amdgcn", *CODE_OBJECTS)
PTX = (".ptx", *CUDA)
FINAL = {".ptx": "PTX"} | dict.fromkeys(CUDA, "CUDA source") | dict.fromkeys(ASSEMBLY, "AMDGCN assembly")
READS = "it reads `.tide`, `.sync`, `.ttgir`, `.mlir`, `.ptx`, `.cu`, `.s`, `.amdgcn`, `.hsaco`, `.co` and `.py` files"


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
    ptx: Ptx | None = None
    amdgcn: Amdgcn | None = None


def load(
    where: str,
    *,
    as_compiled: bool = True,
    block: str | None = None,
    grid: str | None = None,
    takes: Container[str] = (),
    cuda: CudaOptions | None = None,
    arguments: Sequence[str] = (),
    target: str | None = None,
) -> Loaded:
    """Reads a file; `FILE::name` picks one kernel of it. `block`, `grid` and `arguments`: the shape of blocks, how many
    there are, and values of parameters, for final instructions; `cuda`: how CUDA source is compiled to those;
    `target`: which code object of a bundle is meant.

    `as_compiled`: TTGIR from before Triton's own barriers is taken with those, as it will be compiled; else its text
    is taken for one that is going to be edited. `takes`: the kinds of final instructions that the command is for.
    """
    file, _, name = where.partition("::")
    path = Path(file)
    suffix = path.suffix.lower()
    if os.path.isdir(file):  # `Path.is_dir` raises for a name that is too long
        _fail(file, "this is a folder, not a file", "name one of the files in it")
    if suffix == ".py":
        loaded = _load_python(path, file, name.lstrip("@"))
        check_size(loaded.kernels, None, file)
        return loaded
    if suffix in (".tide", ".sync"):
        loaded = _from_text(read_text(path, file), file, suffix)
    elif suffix in (".ttgir", ".mlir"):
        return _from_ttgir(read_text(path, file, MAX_COMPILED), file, name.lstrip("@"), as_compiled)
    elif suffix in FINAL:
        if suffix not in takes:
            those = (
                "`check`, `show` and `sync` take"
                if suffix in ASSEMBLY
                else "`check`, `explain`, `draw` and `sync` take"
            )
            help = f"{those} it, as in `tidegate check kernel{suffix} --block 256`"
            why = "is only checked" if suffix in ASSEMBLY else "has no operations to run or to reorder"
            _fail(file, f"{FINAL[suffix]} {why}: this command does not take it", help)
        if suffix in ASSEMBLY:
            given = _read_bytes(path, file) if suffix in CODE_OBJECTS else read_text(path, file, MAX_COMPILED)
            return _from_amdgcn(given, file, name.lstrip("@"), (block, grid, arguments), target)
        if suffix in CUDA:
            return _from_cuda(read_text(path, file, MAX_COMPILED), file, name, cuda, (block, grid, arguments))
        return _from_ptx(read_text(path, file, MAX_COMPILED), file, name.lstrip("@"), (block, grid, arguments))
    elif suffix == ".ttir":
        _fail(file, "`.ttir` is Triton's IR before it has layouts", "give the `.ttgir` that is made of it")
    else:
        _fail(file, f"unknown file type `{suffix or file}`", READS)
    loaded = _pick(loaded, name) if name else loaded
    check_size(loaded.kernels, loaded.graph, file)
    return loaded


def _fail(file: str, message: str, help: str = "") -> NoReturn:
    raise BadInput(Finding("TG007", message, (Label(Span(file, 0, 0, 0)),), help=help))


def read_text(path: Path, file: str, most: int = MAX_BYTES) -> str:
    try:
        text = read_whole(path, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        _fail(file, "the file is not text in UTF-8")
    except (OSError, ValueError) as error:
        _fail(file, f"the file cannot be read: {reason_of(error)}")
    if "\0" in text:
        _fail(file, f"the file is not text: line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL")
    return text


def _read_bytes(path: Path, file: str) -> bytes:
    try:
        return read_whole(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        _fail(file, f"the file cannot be read: {reason_of(error)}")


def load_text(text: str, file: str, *, as_compiled: bool = True, kind: str = "") -> Loaded:
    """What a text holds that would be read from a file of this name: a program, PTX, or AMD assembly; no CUDA source.

    `kind`: which of them, for a file that is not called so.
    """
    suffix = kind or Path(file).suffix.lower()
    if suffix == ".ptx":
        return _from_ptx(text, file, "", (None, None, ()))
    if suffix == ".s":
        return _from_amdgcn(text, file, "", (None, None, ()), None)
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
        _fail(file, "the file has no kernel", "a kernel starts with `kernel @name(...)`")
    return Loaded(file, kernels, None, sources)


# Operations of TTGIR that may touch shared memory or order it; most others are arithmetic.
TOUCHING = ("ttg.", "ttng.", "amdg.", "amdgpu.", "nvgpu.", "gpu.", "rocdl.")


def _from_ttgir(text: str, file: str, name: str, as_compiled: bool) -> Loaded:
    from tidegate.hosts.mlir.model import walk
    from tidegate.hosts.triton.read import read_to_edit, read_ttgir

    ttgir = read_ttgir(text, file, as_compiled=True) if as_compiled else read_to_edit(text, file)
    check_waves(ttgir.waves, "", Span(file, 0, 0, 0))
    check_compiled(sum(each.name.startswith(TOUCHING) for each in walk(ttgir.module.operation)), file)
    if not ttgir.kernels:
        _fail(file, "the file has no kernel", "a kernel of TTGIR starts with `tt.func public @name`")
    if name and name not in ttgir.names:
        _fail_without(file, name, list(ttgir.names))
    return Loaded(file, (), None, Sources({file: ttgir.text}), ttgir=ttgir.only(name) if name else ttgir)


# Of final instructions: the shape of blocks, of the grid, and arguments, as they were typed.
LaunchText = tuple[str | None, str | None, Sequence[str]]


def _from_ptx(text: str, file: str, name: str, launch: LaunchText) -> Loaded:
    from dataclasses import replace

    from tidegate.hosts.isa.launching import parse_launch
    from tidegate.hosts.ptx.parse import parse_ptx
    from tidegate.hosts.ptx.program import Ptx, pick

    launched = parse_launch(*launch)
    ptx = Ptx(file, text, parse_ptx(text, file), "", launched.block, launched.grid, arguments=launched.arguments)
    if not ptx.module.entries:
        _fail(file, "the file has no kernel", "a kernel of PTX starts with `.entry`")
    ptx = replace(ptx, chosen=pick(ptx, name)) if name else ptx
    check_instructions([len(each.body) for each in ptx.kernels], file)
    return Loaded(file, (), None, Sources({file: text}), ptx=ptx)


def _from_amdgcn(given: str | bytes, file: str, name: str, launch: LaunchText, target: str | None) -> Loaded:
    """A text, or a code object, which is disassembled."""
    from dataclasses import replace

    from tidegate.hosts.amdgcn.code_object import elf_in, read_code_object
    from tidegate.hosts.amdgcn.objdump import disassemble
    from tidegate.hosts.amdgcn.parse import parse_amdgcn
    from tidegate.hosts.amdgcn.program import Amdgcn, pick
    from tidegate.hosts.isa.launching import parse_launch

    code, text = None, given if isinstance(given, str) else ""
    if isinstance(given, bytes):
        data = elf_in(given, file, target)
        code, text = read_code_object(data, file), disassemble(data, file)
    launched = parse_launch(*launch)
    amdgcn = Amdgcn(file, text, parse_amdgcn(text, file, code), block=launched.block, arguments=launched.arguments)
    if not amdgcn.assembly.kernels:
        _fail(file, "the file has no kernel", "a kernel has an `.amdhsa_kernel`, and a label of that name")
    amdgcn = replace(amdgcn, chosen=pick(amdgcn, name)) if name else amdgcn
    check_instructions([len(each.body) for each in amdgcn.kernels], file)
    return Loaded(file, (), None, Sources({file: text}), amdgcn=amdgcn)


def _from_cuda(text: str, file: str, name: str, options: CudaOptions | None, launch: LaunchText) -> Loaded:
    """An instance of a template, `kernel<float, 4>`, is compiled because it is named; other kernels are picked."""
    from dataclasses import replace

    from tidegate.hosts.cuda.compile import compile_cuda
    from tidegate.hosts.cuda.options import CudaOptions
    from tidegate.hosts.cuda.sourced import with_source_places
    from tidegate.hosts.isa.launching import parse_launch
    from tidegate.hosts.ptx.parse import parse_ptx
    from tidegate.hosts.ptx.program import Ptx, pick

    launched = parse_launch(*launch)
    instance = name if "<" in name else ""
    made = compile_cuda(text, file, options or CudaOptions(), instance)
    sources = Sources({file: text})
    module, notes = with_source_places(parse_ptx(made.ptx, f"{file}.ptx"), made.ptx, file, made.toolkit, sources)
    ptx = Ptx(file, made.ptx, module, "", launched.block, launched.grid, notes, made.by, launched.arguments)
    if not ptx.module.entries:
        help = "a kernel is a `__global__` function; an instance of a template is named: `FILE::kernel<float, 4>`"
        _fail(file, "the file has no kernel", help)
    chosen = made.kernel or (pick(ptx, name.lstrip("@")) if name else "")
    ptx = replace(ptx, chosen=chosen)
    check_instructions([len(each.body) for each in ptx.kernels], file)
    return Loaded(file, (), None, sources, ptx=ptx)


def _load_python(path: Path, file: str, name: str) -> Loaded:
    """Executes the file and traces its kernels, or only the one that is asked for: others may be broken."""
    from tidegate.language.trace import KernelFunction

    read_text(path, file)
    module = _execute(path, file)
    found = [item for item in vars(module).values() if isinstance(item, KernelFunction)]
    own = [item for item in found if item.function.__module__ == module.__name__]
    if not own:
        _fail(file, "the file has no kernel", "decorate a function with `@tidegate.kernel(...)`")
    wanted = [item for item in own if name in ("", item.name)]
    if not wanted:
        _fail_without(file, name, [item.name for item in own])
    with user_code(path, file):
        kernels = tuple(dict.fromkeys(item.trace().kernel for item in wanted))
    compute = getattr(module, "reference", None)
    tolerance = _tolerance(getattr(module, "TOLERANCE", (1e-5, 1e-5)), file)
    reference = Reference(compute, tolerance) if callable(compute) else None
    return Loaded(file, kernels, None, Sources(), reference)


def _tolerance(given: object, file: str) -> tuple[float, float]:
    """Relative and absolute, as NumPy's `allclose` takes them."""
    match given:
        case (Real() as relative, Real() as absolute) if float(relative) >= 0 and float(absolute) >= 0:
            return float(relative), float(absolute)
    _fail(file, "`TOLERANCE` is not two numbers from 0 on", "write `TOLERANCE = (1e-3, 1e-3)`: relative, absolute")


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
        with suppress(ValueError):  # the file may have taken it out itself
            sys.path.remove(folder)
    return module


def _pick(loaded: Loaded, name: str) -> Loaded:
    wanted = tuple(kernel for kernel in loaded.kernels if kernel.name == name.lstrip("@"))
    if not wanted:
        _fail_without(loaded.file, name, [kernel.name for kernel in loaded.kernels])
    return Loaded(loaded.file, wanted, None, loaded.sources, loaded.reference)


def _fail_without(file: str, name: str, known: list[str]) -> NoReturn:
    meant = closest(name, known)
    help = f"did you mean `{meant}`?" if meant else f"it holds: {', '.join(dict.fromkeys(known)) or 'a graph'}"
    _fail(file, f"the file has no kernel `{name}`", help)
