"""Proofs against real compilers: kernels through ptxas and LLVM, and the order in their final code."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from bench.compilers import main, table
from oracles.code import Code
from oracles.compilers import DoesNotCompile, missing, to_amdgcn
from oracles.corpus import FOLDER, KERNELS, MARK, Kernel, llvm_text, tide_text
from oracles.examine import Examined, examine
from oracles.order import objections
from tests.conftest import ROOT

pytestmark = pytest.mark.compilers
NEEDS_COMPILERS = pytest.mark.skipif(bool(missing()), reason=f"NOT TESTED: {missing()}")
PAIRS = [(kernel, target) for kernel in KERNELS for target in kernel.targets]
PAGE = ROOT / "docs" / "real-compilers.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def title(kernel: Kernel, target: str) -> str:
    return f"{kernel.title.replace(' ', '_')}.{target}"


@pytest.fixture(scope="module")
def examined() -> dict[tuple[Kernel, str], Examined]:
    """All pairs at once: compilers take long to start."""
    return {(each.kernel, each.target): each for each in examine(PAIRS)}


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: there are wheels of ptxas for Linux only")
def test_the_compilers_are_there() -> None:
    """Where they can be installed, their absence is a failure: the tests below would all be left out."""
    assert not missing()


# --- kernels and their twins --------------------------------------------------------------------------------------


@NEEDS_COMPILERS
@pytest.mark.parametrize(("kernel", "target"), PAIRS, ids=[title(*each) for each in PAIRS])
def test_the_final_code_keeps_the_order_of_the_kernel_and_not_of_its_twins(
    kernel: Kernel, target: str, examined: dict
) -> None:
    found = examined[kernel, target]
    assert not found.error
    assert not found.unplaced
    assert not found.absent
    assert found.facts
    assert bool(found.objections) != kernel.holds, [str(each) for each in found.objections]


@NEEDS_COMPILERS
@pytest.mark.parametrize(("kernel", "target"), PAIRS, ids=[title(*each) for each in PAIRS])
def test_nothing_is_proved_that_a_compiler_breaks(kernel: Kernel, target: str, examined: dict) -> None:
    found = examined[kernel, target]
    assert found.is_kept or not found.is_proved


@NEEDS_COMPILERS
@pytest.mark.parametrize(("kernel", "target"), PAIRS, ids=[title(*each) for each in PAIRS])
def test_the_kernels_themselves_are_proved(kernel: Kernel, target: str, examined: dict) -> None:
    """All but the one with a named barrier, for which there is no proof for all trip counts."""
    is_meant = kernel.holds and not kernel.without and kernel.name != "named"
    assert examined[kernel, target].is_proved or not is_meant


@NEEDS_COMPILERS
def test_every_barrier_and_wait_of_the_final_code_is_missed(examined: dict) -> None:
    """Taken out of the final code of a kernel that needs it, each barrier makes the checker object."""
    asked = 0
    for (kernel, target), found in examined.items():
        if not kernel.holds or kernel.without or kernel.name in ("shift", "own", "carried", "alone"):
            continue
        for number, block in enumerate(found.code.blocks):
            for place, event in enumerate(block.events):
                if event.arrives or event.departs:
                    assert objections(_without(found.code, number, place), found.facts), (title(kernel, target), event)
                    asked += 1
    assert asked > 40


def _without(code: Code, number: int, place: int) -> Code:
    block = code.blocks[number]
    left = replace(block, events=[*block.events[:place], *block.events[place + 1 :]])
    return replace(code, blocks=(*code.blocks[:number], left, *code.blocks[number + 1 :]))


@NEEDS_COMPILERS
def test_the_table_is_that_of_the_page(examined: dict, update: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = f"\n{table(list(examined.values()))}\n\n"
    if update:
        PAGE.write_text(TABLE.sub(lambda _: made, text), encoding="utf-8")
    else:
        assert TABLE.search(text)[0] == made


@NEEDS_COMPILERS
def test_an_instruction_that_llvm_cannot_select_is_an_error_and_no_crash() -> None:
    kernel = next(each for each in KERNELS if each.name == "carried")
    with pytest.raises(DoesNotCompile):
        to_amdgcn([(llvm_text(kernel, "gfx1250"), "gfx942")])


@NEEDS_COMPILERS
def test_the_command_shows_the_final_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--code", "shift −fence", "sm_90"]) == 0
    read, write = capsys.readouterr().out.strip().split("\n")
    assert "LDS" in read
    assert "STS" in write


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda each: each.title)
def test_marks_are_those_of_the_kernel(kernel: Kernel) -> None:
    """Each access of the `.tide` has a mark, and what the other forms name is there."""
    lines = (FOLDER / f"{kernel.name}.tide").read_text(encoding="utf-8").split("\n")
    marks = {found[1] for line in lines if (found := MARK.search(line))}
    accesses = [line for line in lines if re.search(r"local_|gather_to_lds|atomic_", line)]
    assert all(MARK.search(line) for line in accesses)
    assert set(kernel.without) <= marks
    assert tide_text(kernel, kernel.targets[0]).count("\n") == len(lines) - 1
    for form in ("ll", "ptx"):
        path = FOLDER / f"{kernel.name}.{form}"
        if path.exists():
            used = set(re.findall(r"(?:[;/] |sync )@(\w+)", path.read_text(encoding="utf-8")))
            assert used <= marks


# --- Triton's own output ------------------------------------------------------------------------------------------


@NEEDS_COMPILERS
@pytest.mark.parametrize(
    ("name", "accesses", "syncs"),
    [
        ("softmax.sm_80", 4, 3),
        ("matmul-s3-w4.sm_80", 80, 13),
        ("layer-norm.sm_90", 10, 5),
        ("transpose.sm_80", 8, 1),
        ("softmax.gfx942", 4, 3),
        ("matmul-s3-w4.gfx950", 32, 3),
        ("softmax.gfx1201", 4, 6),
        ("layer-norm.gfx942", 7, 5),
    ],
)
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_what_triton_writes_keeps_to_its_side_of_every_barrier(name: str, accesses: int, syncs: int) -> None:
    from oracles.from_triton import compared

    found = compared(name)
    assert not found.moved
    assert (found.asked, found.syncs) == (accesses, syncs)
