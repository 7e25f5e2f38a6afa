"""Triton's kernels on the machine: numbers equal the references on every AMD target, and nothing is found in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import amdgcn_mutants as bench
from oracles.amdgcn_machine.machine import Hostility
from oracles.amdgcn_machine.mutate import KINDS, Mutant, mutants
from oracles.amdgcn_machine.program import load
from oracles.amdgcn_machine.triton import TARGETS, Kernel, kernel
from tidegate.hosts.triton import libtriton

pytestmark = pytest.mark.skipif(
    not libtriton.is_installed(),
    reason="NOT TESTED: Triton is not installed, and there is nothing to compile; `pip install tidegate[triton]`",
)
SMALL = ("softmax", "transpose", "gluon-alternate", "matmul-64-s3-w2")
MORE = ("cumsum-w2", "layer-norm", "histogram", "route-tokens", "matmul-s3-w4", "attention-32-w2", "sort", "sum-last")
HOWS = (Hostility("late", "ahead"), Hostility("random", "random", 7))


def agree(one: Kernel, how: Hostility) -> None:
    ran = one.run(how)
    assert ran.lines() == []
    assert one.compare(ran) == []


@pytest.mark.parametrize(("name", "target"), [(name, target) for name in SMALL for target in TARGETS])
def test_small_kernels_compute_what_they_should(name: str, target: str) -> None:
    agree(kernel(name, target), Hostility("late", "ahead"))


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize(("name", "target"), [(name, target) for name in MORE for target in TARGETS])
def test_more_kernels_compute_what_they_should(name: str, target: str, how: Hostility) -> None:
    agree(kernel(name, target), how)


def test_copies_to_shared_memory_run_with_numbers() -> None:
    """gfx950 copies to where M0 says."""
    one = kernel("matmul-64-s3-w2", "gfx950")
    assert "offen lds" in one.text
    agree(one, Hostility("random", "random", 3))


# --- mutants ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one() -> Kernel:
    return kernel("gluon-alternate", "gfx942")


def test_each_kind_of_mistake_races_in_a_real_kernel(one: Kernel) -> None:
    in_step = Hostility("early", "in step")
    assert one.run(in_step, workgroups=1).is_good
    without_race = set(KINDS)
    for mutant in mutants(one.text):
        if mutant.kind in without_race:
            ran = one.run(in_step, workgroups=1, program=load(mutant.text))
            without_race -= {mutant.kind} if ran.found[0].races else set()
    assert without_race == set()


def test_the_bench_names_what_the_machine_sees(one: Kernel) -> None:
    right = one.run(Hostility("early", "in step"), workgroups=1)
    assert bench.watch(one, one.program(), right) == ("nothing", "")
    barriers = [each for each in mutants(one.text) if each.kind == "barrier"]
    seen = [bench.watch(one, load(each.text), right)[0] for each in barriers]
    assert set(seen) == {"race", "nothing"}  # the first stands before anything was done to shared memory
    assert seen[0] == "nothing"


def test_the_bench_counts_what_both_sides_say() -> None:
    table = bench.Table()
    mutant = Mutant("barrier", 3, "", "without `s_barrier`")
    table.add("k.gfx942", mutant, "race", "finding", "", is_hopeless=False)
    assert table.wrong == []
    table.add("k.gfx942", mutant, "race", "proved", "write-read", is_hopeless=False)
    table.add("k.gfx942", mutant, "nothing", "undecided", "", is_hopeless=False)
    table.unsupported = "TG007: unknown file type `.s`"
    shown = table.show()
    assert "WRONG: k.gfx942 line 3, barrier" in shown
    assert "3 mutants, 2 with a race or a hang on the machine" in shown
    assert "TIDEGATE WAS NOT ASKED" in shown
    assert "not proved, though the machine sees no race: k.gfx942" in shown


def test_the_bench_knows_a_file_that_tidegate_takes_from_one_that_it_does_not(tmp_path: Path) -> None:
    """A file without a kernel is asked about once assembly is taken, and never proved."""
    said, words = bench.ask("\t.text\n", tmp_path, 256)
    assert said != "proved"
    assert bool(words) == (said == "not asked")
