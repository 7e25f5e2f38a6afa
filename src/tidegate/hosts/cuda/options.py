"""How CUDA source is compiled.

Needs   what the command line says
Gives   `CudaOptions`; arguments of NVRTC or nvcc that say it
Keeps   `-lineinfo` is always there: without it no finding could name a line of the source
Cost    none
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.diag import BadInput, Finding

DEFAULT_ARCH = "80"
_ARCH = re.compile(r"(?:sm_|compute_|)([1-9]\d{1,2}[af]?)")
_STD = re.compile(r"(?:c\+\+|)(\d\d)")


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """As nvcc takes them. `arch` empty: the oldest that Tidegate describes."""

    includes: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    arch: str = ""
    std: str = ""

    def arguments(self, *folders: str) -> Iterator[str]:
        """For both compilers; `folders`: further ones to find includes in, after those that were asked for."""
        yield f"-arch=compute_{self.number()}"
        yield "-lineinfo"
        if self.std:
            found = _STD.fullmatch(self.std.lower())
            if found is None:
                raise BadInput(
                    Finding("TG022", f"`--std {self.std[:40]}` is not a standard of C++", (), help=_STD_HELP)
                )
            yield f"-std=c++{found[1]}"
        yield from (f"-D{each}" for each in self.defines)
        yield from (f"-I{each}" for each in (*self.includes, *folders))

    def number(self) -> str:
        """`80`, `90a`."""
        found = _ARCH.fullmatch(self.arch or DEFAULT_ARCH)
        if found is None:
            said = f"`--arch {self.arch[:40]}` is not an architecture"
            raise BadInput(Finding("TG022", said, (), help="as in `--arch sm_90a`"))
        return found[1]


_STD_HELP = "as in `--std c++20`"
