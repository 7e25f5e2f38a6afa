"""The target of a TTGIR file: what its GPU is called here, and what TTGIR makes of its queues.

Needs   the name that Triton gives to a GPU
Gives   a `Target`
Keeps   TTGIR's own rules where they differ from the machine's: copies count in groups on every GPU, as `ttg.async_wait`
        says, and barriers are whole; Triton makes instructions and counts of that
Cost    constant
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tidegate.hosts.triton.libtriton import Gpu
from tidegate.targets import Target, known_targets, load_target
from tidegate.targets.model import ByName, CounterFacts

LARGEST = 63
# The queues of TTGIR. Bulk copies, the data mover and matrix products count one for each operation.
_QUEUES = {
    "async": CounterFacts(LARGEST, "groups", True),
    "tdm": CounterFacts(LARGEST + 1, "instructions", True),
    "tma": CounterFacts(LARGEST + 1, "instructions", True),
    "wgmma": CounterFacts(LARGEST + 1, "instructions", True),
}


# Who makes the GPUs of a backend, as target files name them; and how the backend abbreviates their names.
_BACKENDS = {"NVIDIA": "cuda", "AMD": "hip"}
_PREFIX = {"cuda": "sm_", "hip": ""}


def name_of(gpu: Gpu) -> str:
    """`cuda:80` is sm_80, `hip:gfx942` is gfx942."""
    return f"sm_{gpu.arch}" if gpu.backend == "cuda" else gpu.arch.removesuffix("-strict")


@lru_cache(maxsize=64)
def as_ttgir_sees_it(target: Target) -> Target:
    """The target with the queues of TTGIR, whole barriers, and no fences below them."""
    kept = tuple((name, each) for name, each in target.counters.items() if each.unit != "groups")
    # TTGIR has no fence for the lanes of a wave, and its waits say nothing of other lanes: a barrier orders these.
    fence = replace(target.without_wave_fence().fence, waits=False)
    barrier = replace(target.barrier, split=False)
    return replace(target, counters=ByName((*kept, *_QUEUES.items())), barrier=barrier, fence=fence)


def counts_instructions(gpu: Gpu) -> bool:
    """Whether Triton works out of a wait's tokens how many instructions may be under way.

    It does where the GPU has a counter for copies to shared memory alone; the number in the text means nothing there.
    """
    return "asynccnt" in load_target(name_of(gpu)).counters


def follows_marks(gpu: Gpu) -> bool:
    """Whether a wait for groups becomes LLVM's `wait.asyncmark`, for which the marks of a text count, too."""
    return gpu.backend == "hip" and not counts_instructions(gpu)


def target_of(gpu: Gpu, asked: str | None = None) -> Target:
    """The target of a file: the one asked for, else its own; `none` is the one of which nothing is known."""
    return as_ttgir_sees_it(load_target(name_of(gpu) if asked is None else "" if asked == "none" else asked))


def gpu_of(target: Target) -> Gpu | None:
    """What Triton calls a target; None for one that Triton does not compile for."""
    backend = _BACKENDS.get(target.vendor)
    if backend is None or target.name not in known_targets():
        return None
    return Gpu(backend, target.name.removeprefix(_PREFIX[backend]))


def find_misfit(gpu: Gpu, lanes: int, target: Target) -> str:
    """Why a file for a GPU cannot be taken for a target; nothing if it can."""
    if not target.name:
        return ""
    vendor = next((each for each, backend in _BACKENDS.items() if backend == gpu.backend), "")
    if vendor and target.vendor and vendor != target.vendor:
        return f"its operations and layouts are for {vendor}'s GPUs, and `{target.name}` is one of {target.vendor}"
    if target.lanes != lanes:
        return f"its layouts are for warps of {lanes} lanes, and those of `{target.name}` have {target.lanes}"
    return ""
