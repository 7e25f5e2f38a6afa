"""`TIDEGATE_TRITON=1 python train.py`: Tidegate is there as soon as the program imports Triton.

Needs   the file `tidegate_triton.pth` beside the installed package, which imports this where the variable is set
Gives   `tidegate.triton.install()` right behind the program's own `import triton`
Keeps   a program that never imports Triton pays nothing and sees nothing; subprocesses inherit the variable
Cost    one more finder on `sys.meta_path` until Triton is there

    TIDEGATE_TRITON=1                          on; 0 or unset: off
    TIDEGATE_TRITON_MERGE_WAITS=never          options of `install`
    TIDEGATE_TRITON_VERIFY=1
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

ON, MERGE_WAITS, VERIFY = "TIDEGATE_TRITON", "TIDEGATE_TRITON_MERGE_WAITS", "TIDEGATE_TRITON_VERIFY"
TRITON = "triton"


def is_on(name: str) -> bool:
    """Whether a variable is set to something other than 0."""
    return os.environ.get(name, "0") not in ("", "0")


def install_as_asked() -> None:
    """With the options that the environment names."""
    from tidegate.triton import install

    install(merge_waits=os.environ.get(MERGE_WAITS) or "model", verify=is_on(VERIFY))


class _Finder(MetaPathFinder):
    """Finds Triton as everybody would, and installs behind its import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != TRITON:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, own: Loader) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.own.exec_module(module)
        install_as_asked()


if is_on(ON):
    if TRITON in sys.modules:
        install_as_asked()
    elif not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
