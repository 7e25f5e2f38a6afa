"""What goes in and out of Triton's stages on the way, while a kernel is compiled.

Needs   Triton; no GPU
Gives   `watched`: the text that Tidegate hands on, and LLVM IR as it is before LLVM's optimizer
Keeps   what is watched is not changed
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidegate.hosts.triton.dropin import placing, switch


@dataclass(slots=True)
class Seen:
    """What was on its way; empty if it was never there."""

    placed: str = ""  # the module with Tidegate's barriers
    llir: str = ""  # LLVM IR before it is optimized


@contextmanager
def watched() -> Iterator[Seen]:
    """Takes down what one compilation hands on. One at a time."""
    from triton._C.libtriton import llvm

    seen = Seen()
    place, optimize = switch.place_barriers, llvm.optimize_module

    def placing_seen(*args: Any, **kwargs: Any) -> placing.Placement:
        found = place(*args, **kwargs)
        seen.placed = found.text or ""
        return found

    def optimizing_seen(module: Any, *args: Any, **kwargs: Any) -> Any:
        seen.llir = str(module)
        return optimize(module, *args, **kwargs)

    switch.place_barriers, llvm.optimize_module = placing_seen, optimizing_seen
    try:
        yield seen
    finally:
        switch.place_barriers, llvm.optimize_module = place, optimize
