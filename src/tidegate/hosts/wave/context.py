"""What a trace does not say by itself: sizes, and how many waves of how many threads run it.

Needs   Wave's indexing context and constraints, while a kernel is compiled; or the same, kept from then
Gives   a `Context`: what symbols stand for, threads, waves
Keeps   a context can be asked after Wave has closed its own
Cost    one copy of the bindings
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tidegate.diag import BadInput, Finding

THREADS = ("$T0", "$T1", "$T2")


@dataclass(frozen=True)
class Context:
    """Symbols with their values, and the shape of a workgroup."""

    sizes: Mapping[Any, Any]  # symbol → number or expression
    threads: tuple[int, ...]  # of a workgroup, by dimension
    lanes: int  # of a wave
    mapped: int = 1  # workgroups of a cluster
    constraints: tuple[Any, ...] = ()

    @property
    def waves(self) -> int:
        return max(1, prod(self.threads) // self.lanes)

    @property
    def count(self) -> int:
        """Threads of a workgroup."""
        return prod(self.threads)

    @cached_property
    def numbers(self) -> dict[str, np.ndarray[Any, Any]]:
        """The number of each thread in each dimension, in the order of the hardware."""
        every = np.arange(prod(self.threads), dtype=np.int64)
        found: dict[str, np.ndarray[Any, Any]] = {}
        for name, size in zip(THREADS, (*self.threads, 1, 1)[:3], strict=True):
            found[name] = every % size
            every = every // size
        return found


def context_of(constraints: Iterable[Any], sizes: Mapping[Any, Any] | None = None) -> Context:
    """The context of a kernel: `sizes` as given, else those of Wave's own context, which has to be open."""
    if sizes is None:
        sizes = _open_sizes()
    given = tuple(constraints)
    hardware = [each for each in given if type(each).__name__ == "HardwareConstraint"]
    if not hardware or not hardware[0].waves_per_block:
        help = "pass `constraints=kernel.constraints`; Wave fills in the waves while it compiles"
        raise BadInput(Finding("TG008", "the number of waves of this trace is unknown", (), help=help))
    own = hardware[0]
    known = _Resolved(sizes)
    waves = tuple(known.number(each) for each in own.waves_per_block)
    lanes = int(own.threads_per_wave)
    cluster = prod(known.number(each) for each in (getattr(own, "workgroups_per_cluster", None) or (1,)))
    return Context(dict(sizes), (waves[0] * lanes, *waves[1:]), lanes, cluster, given)


@dataclass(frozen=True, slots=True)
class _Resolved:
    sizes: Mapping[Any, Any]

    def number(self, item: Any) -> int:
        if isinstance(item, int):
            return item
        from tidegate.hosts.wave.numbers import Numbers

        found = Numbers(self.sizes).constant(item)
        if found is None:
            raise BadInput(Finding("TG008", f"`{item}` is unknown", ()))
        return found


def _open_sizes() -> Mapping[Any, Any]:
    from wave_lang.kernel._support.indexing import IndexingContext

    try:
        return dict(IndexingContext.current().subs)
    except (AssertionError, LookupError, IndexError, RuntimeError) as error:
        help = "call it while Wave compiles, or pass the result of `tidegate.wave.traces`"
        raise BadInput(Finding("TG008", "Wave's sizes are not known here", (), help=help)) from error
