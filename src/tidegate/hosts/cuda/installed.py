"""Where the compilers of CUDA lie: wheels of PyPI, or nvcc of the PATH.

Needs   nothing
Gives   `Nvrtc`, with its builtins and headers; the path of nvcc; a finding (TG019) that says which extra is missing
Keeps   nothing is loaded: paths are looked for. Half an installation is none
Cost    a few folders
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tidegate.diag import Finding, Label, Span

MAJOR = "13"
# Of each header package one file: of the runtime, CCCL and crt.
HEADERS = ("cuda_fp16.h", "cccl/cuda/std/type_traits", "crt/host_defines.h")
LIBRARIES = (
    ("lib/libnvrtc.so.13", "lib/libnvrtc-builtins.so.13.*"),
    ("bin/x86_64/nvrtc64_130_0.dll", "bin/x86_64/nvrtc-builtins64_13*.dll"),
)
NVCC = ("bin/nvcc", "bin/nvcc.exe")
HOST_COMPILERS = ("g++", "clang++", "cl")


@dataclass(frozen=True, slots=True)
class Nvrtc:
    library: Path
    builtins: Path
    includes: tuple[Path, ...]


def find_nvrtc() -> Nvrtc | None:
    for root in _roots():
        for library, builtins in LIBRARIES:
            found = sorted(root.glob(builtins))
            if found and (root / library).is_file() and all((root / "include" / each).is_file() for each in HEADERS):
                return Nvrtc(root / library, found[0], (root / "include", root / "include" / "cccl"))
    return None


def find_nvcc() -> Path | None:
    """That of the extra, else that of the PATH; of no use without a compiler for the host."""
    if not any(shutil.which(each) for each in HOST_COMPILERS):
        return None
    for root in _roots():
        for each in NVCC:
            if (root / each).is_file() and any((root / "nvvm").rglob("cicc*")):
                return root / each
    found = shutil.which("nvcc")
    return Path(found) if found else None


def folders_of_toolkit(nvcc: Path | None) -> tuple[str, ...]:
    """What lies there is not the user's: findings stand where it is called from."""
    found = [str(root / "include") for root in _roots()]
    if nvcc is not None:
        found.append(str(nvcc.resolve().parent.parent))
    return tuple(os.path.realpath(each) for each in found)


def missing(file: str, has_host_code: bool) -> Finding:
    """That there is no compiler, and how to get it."""
    at = (Label(Span(file, 0, 0, 0)),)
    if has_host_code:
        message = "the file has host code, and nvcc with a host compiler, which such a file needs, is not installed"
        help = "install them with `pip install 'tidegate[cuda-host]'` and g++ or clang++; or give its PTX: `nvcc -ptx`"
        return Finding("TG019", message, at, help=help)
    message = "CUDA source is compiled by NVRTC, which is not installed"
    help = "install it with `pip install 'tidegate[cuda]'`, or give the PTX of the file: `nvcc -ptx -lineinfo`"
    return Finding("TG019", message, at, help=help)


def _roots() -> Iterator[Path]:
    """Folders of CUDA 13 among the packages that can be imported."""
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        return
    for each in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(each) / f"cu{MAJOR}").is_dir():
            yield Path(each) / f"cu{MAJOR}"
