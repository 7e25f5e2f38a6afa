"""Triton's own compiler: parsing TTGIR, laying out shared memory, placing barriers, printing in generic form.

Needs   the extra `triton`, which is imported only here and only when something is asked
Gives   text in, text out; raises `BadInput` with Triton's own words where it refuses
Keeps   one context for each module, so that nothing is shared between files; Triton's words on the error stream are
        caught
Cost    a few milliseconds for each call; the first one loads libtriton, which takes about a second
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidegate.diag import BadInput, Finding, Label, Span

INSTALL = "install it with `pip install 'tidegate[triton]'`"
TESTED = ("3.9.0",)
# A PTX version only decides which instructions may be chosen; any recent one serves.
PTX_VERSION = 86
# An attribute of no dialect fails Triton's verifier, and what is not verified is printed in generic form.
_MARK = "tidegate"
# Where a text lies while Triton's parser reads it, and so the source of what has no location of its own.
_FOLDER, _MODULE = "tidegate-", "module.ttgir"
_SOURCE = re.compile(rf'"[^"]*{_FOLDER}[^"/]*/{_MODULE}"')
# Attributes and operations that say how far a module is compiled.
TARGET, SHARED, OFFSET, ALLOC = "ttg.target", "ttg.shared", "allocation.offset", "ttg.local_alloc"
STAGE = "triton.warp_pipeline.stage"
_VERSION = re.compile(r"^__version__ *= *['\"]([^'\"]+)['\"]", re.MULTILINE)
_ERROR = re.compile(r'loc\("(?P<file>[^"]*)":(?P<line>\d+):(?P<column>\d+)\): error: (?P<words>.*)')


def is_installed() -> bool:
    """Whether Triton can be imported; nothing is imported to find out."""
    return importlib.util.find_spec("triton") is not None


def version() -> str:
    """The version of the Triton that `import triton` gives; nothing is imported to find out.

    The package that would be imported is asked first: what `pip` has recorded may be another one, or none at all for
    builds under another name (`pytorch-triton`).
    """
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    loaded = getattr(sys.modules.get("triton"), "__version__", None)
    if isinstance(loaded, str):
        return loaded
    try:
        return _version_in_source() or of("triton")
    except PackageNotFoundError:
        return ""


def _version_in_source() -> str:
    spec = importlib.util.find_spec("triton")
    try:
        with open((spec and spec.origin) or "", encoding="utf-8") as source:
            found = _VERSION.search(source.read())
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1] if found else ""


def find_missing() -> str:
    """Why Triton cannot be asked, as the end of a sentence; nothing if it can.

    What its passes do and how they are called is that of single versions (tests/hosts/triton/test_triton_versions.py).
    """
    if not is_installed():
        return "which is not installed"
    if version() not in TESTED:
        return f"version {' or '.join(TESTED)}; Triton {version() or 'of an unknown version'} is installed"
    return ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What Triton calls a target: `cuda:80`, `hip:gfx942`."""

    backend: str
    arch: str

    @classmethod
    def parse(cls, text: str) -> Gpu:
        backend, _, arch = text.partition(":")
        return cls(backend, arch)

    def __str__(self) -> str:
        return f"{self.backend}:{self.arch}"


@dataclass(slots=True)
class Parsed:
    """A module in Triton's hands."""

    module: Any
    context: Any
    gpu: Gpu

    def take_for(self, gpu: Gpu) -> None:
        """Names another GPU in the module, as if it had been compiled for that."""
        from triton._C.libtriton import ir

        self.module.set_attr(TARGET, ir.builder(self.context).get_string_attr(str(gpu)))
        self.gpu = gpu

    def is_laid_out(self) -> bool:
        """Whether shared memory has its places: some are stated, and no allocation lacks one."""
        stated, missing = [self.module.get_int_attr(SHARED) is not None], []

        def look(op: Any) -> None:
            has = op.get_int_attr(OFFSET) is not None
            stated.append(has)
            missing.append(not has and op.get_name() == ALLOC)

        self.module.walk(look)
        return any(stated) and not any(missing)

    def lacks(self, names: Collection[str]) -> bool:
        """Whether an operation of these names has no memory of its own."""
        found: list[bool] = []
        self.module.walk(lambda op: found.append(op.get_int_attr(OFFSET) is None and op.get_name() in names))
        return any(found)

    def places(self) -> list[bool]:
        """For each operation, whether it has memory."""
        found: list[bool] = []
        self.module.walk(lambda op: found.append(op.get_int_attr(OFFSET) is not None))
        return found

    def has_stages(self) -> bool:
        """Whether stages of a warp pipeline are still to be made loops in which two groups of waves take turns."""
        found: list[bool] = []
        self.module.walk(lambda op: found.append(op.get_str_attr(STAGE) is not None))
        return any(found)

    def text(self, file: str) -> str:
        """As Triton prints it, with locations; what has none comes from the text itself, a file of this name."""
        name = file.replace("\\", "/").replace('"', "")
        return _SOURCE.sub(lambda _: f'"{name}"', str(self.module.str()))

    def plain(self) -> str:
        """As Triton prints it, without locations."""
        return str(self.module.str_nodebug())

    def generic(self) -> str:
        """In generic form, with locations. The module is marked afterwards and good for nothing else."""
        from triton._C.libtriton import ir

        self.module.set_attr(_MARK, ir.builder(self.context).get_int32_attr(1))
        return str(self.module.str())

    def run(self, *passes: str) -> Parsed:
        """Runs passes of Triton's, by the names that `PASSES` has."""
        from triton._C.libtriton import ir

        manager = ir.pass_manager(self.context)
        for name in passes:
            PASSES[name](manager, self.gpu)
        with _words_of_triton() as said:
            _, error = _tried(lambda: manager.run(self.module, "tidegate"))
        if error is not None:
            what = ", ".join(passes)
            raise BadInput(Finding("TG007", f"Triton cannot carry out `{what}`: {_first(said, error)}"))
        return self


def parse(text: str, file: str) -> Parsed:
    """Hands a text to Triton's parser."""
    from triton._C.libtriton import amd, ir, nvidia

    context = ir.context()
    ir.load_dialects(context)
    amd.load_dialects(context)
    nvidia.load_dialects(context)
    with _words_of_triton() as said:
        module, error = _tried(lambda: parse_in(text, context))
    if error is not None:
        raise BadInput(_refusal(file, said, error))
    return Parsed(module, context, Gpu.parse(target_named(module)))


def is_complete(text: str, file: str) -> bool | None:
    """Whether all that Triton's allocation gives memory to has some, in a text in which memory is laid out.

    None: Triton does not take the text, and cannot say.
    """
    try:
        return parse(text, file).places() == parse(text, file).run("allocate").places()
    except BadInput:
        return None


def target_named(module: Any) -> str:
    """The GPU that a module names, as Triton writes it."""
    return str(module.get_operation().get_str_attr(TARGET) or "")


def parse_in(text: str, context: Any) -> Any:
    """The module that a text stands for, in a context that is there; raises what Triton raises."""
    from triton._C.libtriton import ir

    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        path = os.path.join(folder, _MODULE)
        # Half of a surrogate pair has no bytes in UTF-8; a text from a program may hold one.
        with open(path, "w", encoding="utf-8", errors="replace") as out:
            # Triton 3.9 prints an empty layout for WMMA of a single warp, and its parser aborts the process when it
            # reads one (test_a_wmma_layout_of_one_warp_is_read).
            out.write(text.replace("ctaLayout = {}", "ctaLayout = {warp = []}"))
        module = ir.parse_mlir_module(path, context)
    module.context = context
    return module


def _capability(gpu: Gpu) -> int:
    return int(gpu.arch) if gpu.arch.isdigit() else 80


def _allocate(manager: Any, gpu: Gpu) -> None:
    from triton._C.libtriton import amd, nvidia

    if gpu.backend == "hip":
        amd.passes.ttgpuir.add_allocate_shared_memory(manager, gpu.arch)
    else:
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, _capability(gpu), PTX_VERSION)


def _fence(manager: Any, gpu: Gpu) -> None:
    """The fences between proxies, which Triton puts in between allocation and barriers."""
    from triton._C.libtriton import nvidia

    if gpu.backend == "cuda" and _capability(gpu) >= 90:
        nvidia.passes.ttnvgpuir.add_proxy_fence_insertion(manager, _capability(gpu))


def _membar(manager: Any, gpu: Gpu) -> None:
    from triton._C.libtriton import amd, nvidia

    if gpu.backend == "hip":
        amd.passes.ttgpuir.add_membar(manager, gpu.arch)
    else:
        nvidia.passes.ttgpuir.add_membar(manager, _capability(gpu), PTX_VERSION)


def _scf_to_cf(manager: Any, gpu: Gpu) -> None:
    from triton._C.libtriton import passes

    passes.convert.add_scf_to_cf(manager)


def _pipeline_warps(manager: Any, gpu: Gpu) -> None:
    from triton._C.libtriton import amd

    if gpu.backend == "hip":
        amd.passes.ttgpuir.add_warp_pipeline_conversion(manager, gpu.arch)


def _warp_groups(manager: Any, gpu: Gpu) -> None:
    from triton._C.libtriton import passes

    passes.ttgpuir.add_allocate_warp_groups(manager)


PASSES = {
    "allocate": _allocate,
    "fences": _fence,
    "barriers": _membar,
    "cf": _scf_to_cf,
    "warp-pipeline": _pipeline_warps,
    "warp-groups": _warp_groups,
}


def _tried(call: Callable[[], Any]) -> tuple[Any, RuntimeError | None]:
    """What a call gives, or how it fails: what Triton says of that is known only afterwards."""
    try:
        return call(), None
    except RuntimeError as error:
        return None, error


# --- what Triton says ---------------------------------------------------------------------------------------------


_is_child: list[bool] = []  # not empty: the error stream of this process is a file that the parent reads, too


def say_on_error_stream() -> None:
    """For a child whose error stream is a file: Triton's words stay in it, where the parent finds those of a crash."""
    _is_child.append(True)


@contextmanager
def _words_of_triton() -> Iterator[list[str]]:
    """Triton writes to the error stream of the process; what it says belongs into a finding."""
    said: list[str] = []
    sys.stderr.flush()
    if _is_child:
        start = os.fstat(2).st_size
        yield said
        said += os.pread(2, os.fstat(2).st_size - start, start).decode("utf-8", "replace").splitlines()
        return
    with tempfile.TemporaryFile() as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            said += caught.read().decode("utf-8", "replace").splitlines()


def _first(said: list[str], error: Exception) -> str:
    return next((line.partition("error: ")[2] for line in said if "error: " in line), str(error))


def _refusal(file: str, said: list[str], error: Exception) -> Finding:
    for line in said:
        if found := _ERROR.search(line):
            at = Span(file, int(found["line"]), int(found["column"]), int(found["column"]) + 1)
            return Finding("TG001", f"Triton's parser says: {found['words']}", (Label(at),))
    return Finding("TG001", f"Triton's parser refuses the file: {error}", (Label(Span(file, 0, 0, 0)),))
