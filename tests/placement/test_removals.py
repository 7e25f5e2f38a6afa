"""Take a barrier or wait from a good kernel, or raise a count: `tidegate check --explore` objects, or we know why not.

The examples in their small form hold nothing that could be left out. In the right forms of the broken kernels some can,
and each such place has its reason in `bench/removals.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from bench import explore, removals
from oracles.brute.brute_force import Verdict, judge_by_brute_force
from oracles.programs.small_examples import EXAMPLES, NAMES, load_small, skeleton
from oracles.rules.mutants import SYNC, mutants_of
from tests.conftest import slow_examples
from tidegate.graph.build import build_graph
from tidegate.language import ops
from tidegate.language.ops import Block, Kernel, walk_ops
from tidegate.language.parse import parse
from tidegate.language.types import Tile
from tidegate.simulate.configurations import find_configurations
from tidegate.simulate.inorder import make_inputs, run
from tidegate.targets import load_target

CLEAN = Verdict(frozenset(), hang=False)
TWINS = {kernel.name: kernel for kernel in removals.twins()}

# --- the small forms ----------------------------------------------------------------------------------------------


def test_every_example_has_a_small_form() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", slow_examples(NAMES))
def test_small_form_is_synchronized_like_the_example(name: str) -> None:
    (example,) = parse((EXAMPLES / f"{name}.tide").read_text()).kernels
    small = load_small(name).kernel
    assert skeleton(small.body) == skeleton(example.body)
    assert small.target == example.target
    assert 2 <= small.waves <= 4
    assert elements(small) <= elements(example) // 2


def elements(kernel: Kernel) -> int:
    """Of all tiles that a wave makes."""
    types = [value.type for op in walk_ops(kernel.body) for value in ops.results_of(op)]
    return sum(prod(type_.shape) for type_ in types if isinstance(type_, Tile))


@pytest.mark.parametrize("name", slow_examples(NAMES))
def test_small_form_is_clean(name: str) -> None:
    codes, bounded = removals.judge_kernel(load_small(name).kernel)
    assert codes == ()
    assert set(bounded) <= {"no larger trip counts"}


@pytest.mark.parametrize("name", slow_examples(NAMES))
def test_small_form_computes_the_same(name: str) -> None:
    small = load_small(name)
    sizes = {size.name: size.default for size in small.kernel.sizes}
    inputs = make_inputs(small.kernel, sizes, seed=1)
    after = run(small.kernel, inputs, sizes=sizes)
    rtol, atol = small.module.TOLERANCE
    for output, wanted in small.module.reference(inputs, sizes).items():
        np.testing.assert_allclose(after[output], wanted, rtol, atol, err_msg=output)


# --- removals -----------------------------------------------------------------------------------------------------


def test_every_kind_of_synchronization_is_removed() -> None:
    kernels = [*removals.examples(), *TWINS.values()]
    changed = {(type(mutant.op), mutant.change.split("(")[0]) for kernel in kernels for mutant in mutants_of(kernel)}
    assert {kind for kind, change in changed if change == "removed"} == set(SYNC)


@pytest.mark.parametrize("name", slow_examples(NAMES))
def test_nothing_can_be_left_out_of_an_example(name: str) -> None:
    tried = removals.try_all([load_small(name).kernel])
    assert tried
    assert [each.key for each in tried if not each.codes] == []


@pytest.mark.parametrize("name", slow_examples(TWINS))
def test_what_can_be_left_out_of_a_twin_has_a_reason(name: str) -> None:
    tried = removals.try_all([TWINS[name]])
    assert all(each.verdict != "undecided" for each in tried)
    assert {each.key for each in tried if not each.codes} == {key for key in removals.REASONS if key[0] == name}


# --- the same by brute force --------------------------------------------------------------------------------------


# Brute force knows no lanes, and so nothing about `divergent_barrier`.
@pytest.mark.parametrize("name", sorted({name for name, _, _ in removals.REASONS} - {"divergent_barrier"}))
def test_somebody_else_agrees_about_what_is_harmless(name: str) -> None:
    """Every order is gone through, by code that shares nothing with the judge; and what does harm is seen to do it."""
    mutants = {(name, each.line, each.change): each.kernel for each in mutants_of(on_two_waves(name))}
    harmless = {key for key in removals.REASONS if key[0] == name}
    for key in harmless:
        assert {*every_order(mutants[key])} == {CLEAN}
    others = [mutants[key] for key in mutants if key not in harmless]
    assert any({*every_order(kernel)} - {CLEAN, None} for kernel in others)


def on_two_waves(name: str) -> Kernel:
    """A twin in which each of two waves reads what the other wrote; as it is where it names waves or their number.

    Accesses to global memory are left out where no count sees them: nobody else does, and they make many orders.
    """
    text = (removals.FIXED / f"{name}.tide").read_text()
    if not re.search(r"specialize|new_barrier|wave < 2", text):
        text = re.sub(r"\(wave \+ \d\) mod \d", "(wave + 1) mod 2", re.sub(r"waves \d", "waves 2", text))
    (kernel,) = parse(text).kernels
    return kernel if "vmcnt" in text else replace(kernel, body=without_global(kernel.body))


def without_global(block: Block) -> Block:
    kept: list[ops.Op] = []
    for op in block.ops:
        if isinstance(op, ops.GlobalRead):
            kept.append(ops.Fill(op.result, 0.0))
        elif not isinstance(op, ops.GlobalWrite):
            kept.append(ops.map_blocks(op, lambda inner, _: without_global(inner)))
    return replace(block, ops=tuple(kept))


def every_order(kernel: Kernel) -> Iterator[Verdict | None]:
    """The verdict on each configuration; None where there are too many states."""
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    for each in find_configurations(graph).runs:
        yield judge_by_brute_force(graph, target, {"wg0": 0, "wg1": 0, "wg2": 0, **dict(each.env)}, limit=20_000)


# --- orders -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", explore.kernels(), ids=lambda kernel: kernel.name)
def test_reduction_loses_nothing(kernel: Kernel) -> None:
    found = explore.compare(kernel)
    assert found.verdict == found.verdict_of_all
    assert (explore.show_verdict(found.verdict) == "clean") != kernel.name.endswith("_broken")
    assert found.orders < found.possible
