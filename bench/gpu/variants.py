"""The variants of one kernel: Triton's barriers, Tidegate's, and Tidegate's without one of them.

Needs   a function that compiles the kernel as Triton would
Gives   a `Variant` for each: the text, and what is known of it
Keeps   a barrier is removed only if the verifier then says that the kernel races: what could be left out is no test
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.gpu.manifest import TRITON

Compile = Callable[[], tuple[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Variant:
    """One text of a kernel."""

    name: str
    ptx: str
    metadata: dict[str, Any]
    fallback: str = ""
    verdict: str = ""


def variants_of(compile_kernel: Compile, removed: bool) -> Iterator[Variant]:
    """All variants, Triton's first."""
    yield Variant(TRITON, *compile_kernel())
