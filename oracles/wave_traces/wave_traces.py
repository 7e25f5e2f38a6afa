"""Traces of small Wave kernels, and ways to damage them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

try:
    import wave_lang.kernel  # noqa: F401
except ImportError:
    pytest.skip(
        "not here: what needs Wave is run by `make test` in an environment of its own (`make test-wave`)",
        allow_module_level=True,
    )

import sympy

import tidegate.wave
from oracles.wave_kernels import Traced, cases, trace_of
from tidegate.diag import Finding
from tidegate.hosts.wave.nodes import op_of
from tidegate.hosts.wave.regions import reached_graphs

CASES = {case.name: case for case in cases()}
Mutate = Callable[[Any], None]


class Enough(BaseException):
    """What follows in Wave is not asked for; no handler of its own is to take it for an error."""


def findings_of(name: str, target: str, mutate: Mutate | None = None, **asked: Any) -> list[Finding]:
    """What `check` says of a kernel with Wave's own barriers, damaged or not."""
    found: list[Finding] = []

    def after(trace: Any, constraints: Any, _: Any) -> None:
        if mutate is not None:
            mutate(trace)
        found.extend(tidegate.wave.check(trace, target, constraints=constraints, **asked))
        raise Enough

    with suppress(Enough):
        trace_of(CASES[name], target, after=after)
    return found


def traced(name: str, target: str, before: Any = None, after: Any = None) -> Traced:
    return trace_of(CASES[name], target, before, after)


def nodes(trace: Any, *names: str) -> list[Any]:
    """All nodes of these operations, outer graphs first."""
    return [node for graph in reached_graphs(trace) for node in graph.nodes if op_of(node) in names]


def in_loops(trace: Any, *names: str) -> list[Any]:
    root = trace.region_graph.subgraphs[trace.root_graph]
    return [node for node in nodes(trace, *names) if node.graph is not root]


def erase(*given: Any) -> None:
    for node in given:
        node.graph.erase_node(node)


def put_before(node: Any, op: str, *args: Any) -> Any:
    """A new operation before a node."""
    from wave_lang.kernel.ops import wave_ops

    with node.graph.inserting_before(node):
        return getattr(wave_ops, op)(*args).add_to_graph(node.graph)


def put_after(node: Any, op: str, *args: Any) -> Any:
    return put_before(node.next, op, *args)


def in_a_loop(trace: Any, barrier: Any, trips: object) -> None:
    """A barrier in a loop of its own, at the place where it stood."""
    import torch.fx as fx
    from wave_lang.kernel.ops.wave_ops import Iterate, Output, SharedMemoryBarrier

    body = fx.Graph()
    SharedMemoryBarrier().add_to_graph(body)
    body.output([]).tkw_op = Output
    trace.region_graph.subgraphs["alone"] = body
    with barrier.graph.inserting_before(barrier):
        loop = Iterate(sympy.Symbol("ALONE"), [], "alone", []).add_to_graph(barrier.graph, type=[])
    loop.count, body.parent_op = trips, loop
    erase(barrier)


def codes(findings: list[Finding]) -> set[str]:
    return {each.code for each in findings}


def said(findings: list[Finding]) -> Iterator[str]:
    for each in findings:
        yield each.message
        yield from each.notes
