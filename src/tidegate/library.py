"""The functions of `import tidegate` that take a kernel in whatever form a user holds it.

Needs   a traced function, a `CapturedTrace` or a `Kernel`
Gives   findings, results of a run, a graph
Keeps   the target is the one asked for, else the kernel's own, else the default
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.diag import Finding
from tidegate.graph.build import KernelGraph
from tidegate.graph.build import build_graph as _build_graph
from tidegate.language.check import check as _check
from tidegate.language.ops import Kernel
from tidegate.language.trace import CapturedTrace, KernelFunction
from tidegate.passes import pick_target

if TYPE_CHECKING:
    import numpy as np

KernelLike = Kernel | CapturedTrace | KernelFunction


def kernel_of(item: KernelLike) -> Kernel:
    """The kernel itself."""
    if isinstance(item, KernelFunction):
        item = item.trace()
    return item.kernel if isinstance(item, CapturedTrace) else item


def check(kernel: KernelLike, target: str | None = None) -> list[Finding]:
    """What is wrong with a kernel on a target, without running it. Races are not decided by this version."""
    found = kernel_of(kernel)
    return _check(found, pick_target(found.target, target))


def build_graph(kernel: KernelLike, target: str | None = None) -> KernelGraph:
    """The kernel's `SyncGraph`, and where in the kernel each of its points stands."""
    found = kernel_of(kernel)
    return _build_graph(found, pick_target(found.target, target))


def make_inputs(kernel: KernelLike, sizes: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, Any]:
    """Random arguments that fit a kernel, by name."""
    from tidegate.simulate.inorder import make_inputs as make

    return dict(make(kernel_of(kernel), sizes, seed))


def run(
    kernel: KernelLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    waves: int | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray[Any, Any]]:
    """Runs a kernel on this computer, in order; gives all its global arrays. Without inputs it makes random ones."""
    from tidegate.simulate.inorder import run as run_in_order

    found = kernel_of(kernel)
    given = make_inputs(found, sizes, seed) if inputs is None else inputs
    lanes = pick_target(found.target, None).lanes or 64
    return run_in_order(found, given, sizes=sizes, waves=waves, lanes=lanes)
