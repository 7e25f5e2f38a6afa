"""The synchronization of a kernel as one more thing that `triton.autotune` tries.

Needs   Triton 3.9.0; the configurations that a user would try anyway
Gives   `with_plans`: each of them once for each plan; `tunable`: a kernel that is compiled with the plan of its
        configuration
Keeps   what other kernels of the process are compiled with; each plan has a cache entry of its own
Cost    as many times the configurations as there are plans

    @triton.autotune(tidegate.triton.with_plans([triton.Config({"BLOCK": 128})]), key=["n"])
    @tidegate.triton.tunable
    @triton.jit
    def kernel(x, n, BLOCK: tl.constexpr): ...
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from tidegate.diag import BadInput, Finding, closest
from tidegate.hosts.triton.dropin.switch import check_version, disabled, enabled

# The name that a plan has among the parameters of a configuration.
AXIS = "SYNC_PLAN"
# Triton's own barriers; Tidegate's, with waits where they are, as the cost model says, wherever that saves a barrier.
PLANS = ("triton", "never", "model", "always")


def with_plans(configs: Sequence[Any], plans: Sequence[str] = PLANS) -> list[Any]:
    """Each configuration once for each plan, for `triton.autotune` on a kernel that is `tunable`."""
    import copy

    check_version()
    for plan in plans:
        _check(plan)
    found = []
    for config in configs:
        for plan in plans:
            each = copy.copy(config)
            each.kwargs = {**config.kwargs, AXIS: plan}
            found.append(each)
    return found


def tunable(kernel: Any) -> Any:
    """A `triton.jit` kernel that takes `SYNC_PLAN="triton"`, "never", "model" or "always" beside its own parameters.

    Without it the kernel is compiled as everything else in the process.
    """
    check_version()
    return _tunable()(kernel)


def _check(plan: str) -> None:
    if plan not in PLANS:
        meant = closest(plan, PLANS)
        help = f"did you mean `{meant}`?" if meant else f"one of: {', '.join(PLANS)}"
        raise BadInput(Finding("TG022", f"there is not synchronization plan `{plan}`", (), help=help))


def _under(plan: str | None) -> AbstractContextManager[None]:
    if plan is None:
        return nullcontext()
    _check(plan)
    return disabled() if plan == "triton" else enabled(merge_waits=plan)


@cache
def _tunable() -> type:
    """Triton is imported only when somebody asks."""
    from triton.runtime.jit import KernelInterface

    class Tunable(KernelInterface):  # type: ignore[misc]
        def __init__(self, fn: Any) -> None:
            self.fn = fn
            self.arg_names = fn.arg_names

        def run(self, *args: Any, **kwargs: Any) -> Any:
            with _under(kwargs.pop(AXIS, None)):
                return self.fn.run(*args, **kwargs)

        def warmup(self, *args: Any, **kwargs: Any) -> Any:
            with _under(kwargs.pop(AXIS, None)):
                return self.fn.warmup(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.fn, name)

    return Tunable
