"""`TIDEGATE_TRITON=1 python train.py`: Tidegate is there as soon as the program imports Triton.

Needs   the file `tidegate_triton.pth` beside the installed package, which imports this where the variable is set
Gives   `tidegate.triton.install()` right behind the program's own `import triton`
Keeps   a program that never imports Triton pays nothing and sees nothing; subprocesses inherit the variable; where
        Tidegate cannot be installed, Triton is imported as without it, and one warning says why
Cost    one more finder on `sys.meta_path` until Triton is there

    TIDEGATE_TRITON=1                          on; 0 or unset: off
    TIDEGATE_TRITON_MERGE_WAITS=never          options of `install`
    TIDEGATE_TRITON_VERIFY=1                   or `ptx`
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ON, MERGE_WAITS, VERIFY = "TIDEGATE_TRITON", "TIDEGATE_TRITON_MERGE_WAITS", "TIDEGATE_TRITON_VERIFY"
TRITON = "triton"


def is_on(name: str) -> bool:
    """Whether a variable is set to something other than 0."""
    return os.environ.get(name, "0") not in ("", "0")


def install_as_asked() -> None:
    """With the options that the environment names; stays off where that fails.

    The program has asked for Triton and not for Tidegate: another version, an option that does not exist or a mistake
    of ours is no reason to end it (tests/hosts/triton/test_triton_versions.py).
    """
    try:
        from tidegate.triton import install

        asked = os.environ.get(VERIFY)
        verify = asked if asked in ("ptx", "asm") else is_on(VERIFY)
        install(merge_waits=os.environ.get(MERGE_WAITS) or "model", verify=verify)
    except Exception as error:
        warnings.warn(f"{ON}=1 is ignored, Triton is unchanged: {error}", RuntimeWarning, stacklevel=2)


class _Finder(MetaPathFinder):
    """Finds Triton as everybody would, and installs behind its import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != TRITON:
            return None
        # The finders behind this one are asked one by one: programs look whether Triton is there long before they
        # import it, so that this one must stay until then.
        others = (each for each in sys.meta_path if each is not self)
        specs = (each.find_spec(fullname, path, target) for each in others if hasattr(each, "find_spec"))
        spec = next((each for each in specs if each is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(Loader):
    """Loads a module as its own loader does, which the module is left with."""

    def __init__(self, own: Loader, finder: _Finder) -> None:
        self.own, self.finder = own, finder

    def __getattr__(self, name: str) -> object:
        """Of a spec that is only looked at: `get_source`, `is_package`."""
        return getattr(self.own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.own
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        self.own.exec_module(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        install_as_asked()


if is_on(ON):
    if TRITON in sys.modules:
        install_as_asked()
    elif not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
