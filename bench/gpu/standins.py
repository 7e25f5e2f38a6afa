"""Modules that stand in for Triton where it is not installed, or is another version.

Needs   to be installed before anything imports `triton`
Gives   modules in which every name exists and does nothing: the kernels cannot be compiled, their launches can be used
Keeps   nothing of an installed Triton is imported

The modules of `oracles/triton_kernels` define kernels and their launches side by side; only the launches, which are
NumPy, are called where the compiled kernels run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = "triton"


def install() -> None:
    """From now on `import triton` gives stand-ins, in this process."""
    if any(name.partition(".")[0] == PACKAGE for name in sys.modules):
        raise RuntimeError(f"{PACKAGE} is imported already")
    sys.meta_path.insert(0, _Finder())


class _Anything:
    """Has every attribute, can be called and indexed, and gives itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args: object, **_named: object) -> Any:
        return self

    def __getitem__(self, _key: object) -> Any:
        return self


class _Module(ModuleType):
    __path__: list[str] = []  # noqa: RUF012 - what makes a module a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == PACKAGE else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, _module: ModuleType) -> None:
        pass
