"""The examples: both forms are one kernel, they compute what NumPy says, and the README tells the truth about them.

`python tests/language/test_examples.py` writes the text forms and the tables of the README anew, from the Python forms.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tidegate.diag import Sources, show_findings
from tidegate.graph.barriers import MEETING
from tidegate.index import holds
from tidegate.language import ops
from tidegate.language.check import check
from tidegate.language.ops import Kernel, Op, walk_ops
from tidegate.language.parse import parse
from tidegate.language.show import show, show_op
from tidegate.language.types import Lds
from tidegate.simulate.inorder import make_inputs, run
from tidegate.targets import load_target

EXAMPLES = ROOT / "examples"
README = EXAMPLES / "README.md"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

# Other sizes than the defaults. Many make a loop run once, or not at all.
OTHER_SIZES: dict[str, dict[str, int]] = {
    "attention_async": {"H": 1, "S": 192},
    "flash_attention": {"H": 1, "S": 192},
    "gemm_async_four_slots": {"M": 64, "N": 192, "K": 96},
    "gemm_async_store": {"M": 32, "N": 32, "K": 128},
    "gemm_async_two_slots": {"M": 64, "N": 192, "K": 32},
    "gemm_cp_async": {"M": 64, "N": 192, "K": 64},
    "gemm_gather": {"M": 64, "N": 192, "K": 64},
    "gemm_mbarrier": {"M": 64, "N": 96, "K": 32},
    "gemm_one_slot": {"M": 64, "N": 192, "K": 32},
    "gemm_pingpong": {"M": 256, "N": 256, "K": 64},
    "gemm_prefetch": {"M": 64, "N": 192, "K": 32},
    "gemm_split": {"M": 64, "N": 192, "K": 32},
    "gemm_tdm": {"M": 64, "N": 192, "K": 128},
    "gemm_three_slots": {"M": 64, "N": 192, "K": 64},
    "gemm_two_slots": {"M": 64, "N": 192, "K": 32},
    "histogram": {"G": 1, "N": 256},
    "layer_norm": {"M": 16},
    "scan": {"M": 1, "N": 256},
    "softmax": {"M": 8, "N": 256},
    "split_k": {"M": 32, "N": 64, "K": 128},
    "stencil_2d": {"B": 1, "T": 0},
    "transpose": {"M": 64, "N": 192},
    "wave_private": {"M": 64},
}
SYNC = (
    ops.WorkgroupBarrier
    | ops.SharedMemoryBarrier
    | ops.ConditionalBarrier
    | ops.Signal
    | ops.Wait
    | ops.WaitCount
    | ops.Fence
    | ops.MbarrierArrive
    | ops.MbarrierWait
)


# --- both forms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_text_form_is_the_trace(name: str) -> None:
    text = (EXAMPLES / f"{name}.tide").read_text()
    assert parse(text).kernels == (trace(name),)
    assert text == text_form(name), "run `python tests/language/test_examples.py`"


@pytest.mark.parametrize("name", NAMES)
def test_every_synchronization_has_a_reason(name: str) -> None:
    for op in sync_of(trace(name)):
        assert reason(op), f"{name}.py:{op.at.line}"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found(name: str) -> None:
    kernel = trace(name)
    assert all(holds(cond, {size.name: size.default for size in kernel.sizes}) for cond in kernel.where)
    findings = check(kernel, load_target(kernel.target))
    assert not findings, show_findings(findings, Sources())


# --- what they compute --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["python", "text"])
@pytest.mark.parametrize("name", NAMES)
def test_default_sizes(name: str, form: str) -> None:
    kernel = trace(name) if form == "python" else parse((EXAMPLES / f"{name}.tide").read_text()).kernels[0]
    compare(name, kernel, {})


@pytest.mark.parametrize("name", NAMES)
def test_other_sizes(name: str) -> None:
    compare(name, trace(name), OTHER_SIZES[name])


def test_constants() -> None:
    compare("flash_attention", trace("flash_attention", CAUSAL=False), {}, CAUSAL=False)


def compare(name: str, kernel: Kernel, sizes: dict[str, int], **constants: Any) -> None:
    sizes = {size.name: size.default for size in kernel.sizes} | sizes
    assert all(holds(cond, sizes) for cond in kernel.where)
    inputs = make_inputs(kernel, sizes, seed=1)
    after = run(kernel, inputs, sizes=sizes)
    rtol, atol = module(name).TOLERANCE
    wanted = module(name).reference(inputs, sizes, **constants)
    for output, array in wanted.items():
        assert after[output].dtype == array.dtype
        np.testing.assert_allclose(after[output], array, rtol, atol, err_msg=output)


# --- the README ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["examples", "pinned"])
def test_readme_tables(table: str) -> None:
    assert TABLES[table]() in README.read_text(), "run `python tests/language/test_examples.py`"


def test_only_schedules_pin_barriers() -> None:
    assert {name for name in NAMES if any(is_pinned(op) for op in sync_of(trace(name)))} == {"gemm_pingpong"}


def table_of_examples() -> str:
    head = "example | what it does | target | waves | slots | barriers per iteration | outside loops | waits"
    return as_table(head, [row_of(name) for name in NAMES])


def row_of(name: str) -> list[object]:
    kernel = trace(name)
    buffers = [op.result.type for op in walk_ops(kernel.body) if isinstance(op, ops.Alloc)]
    slots = max(type_.slots for type_ in buffers if isinstance(type_, Lds))
    looped = [op for loop in walk_ops(kernel.body) if isinstance(loop, ops.Iterate) for op in walk_ops(loop.body)]
    barriers = [op for op in sync_of(kernel) if isinstance(op, MEETING)]
    inside = [op for op in barriers if any(op is each for each in looped)]
    per_iteration = f"{len(inside)} split" if any(isinstance(op, ops.Signal) for op in inside) else len(inside)
    waits = ", ".join(dict.fromkeys(f"`{each}`" for op in sync_of(kernel) for each in waits_of(op)))
    what = (module(name).__doc__ or "").partition("\n")[0].rstrip(".")
    files = f"{name} ([Python]({name}.py), [text]({name}.tide))"
    return [files, what, kernel.target, kernel.waves, slots, per_iteration, len(barriers) - len(inside), waits or "–"]


def waits_of(op: Op) -> list[str]:
    found = [f"{counter}({most})" for counter, most in getattr(op, "counts", ())]
    found += [next(show_op(op)).split()[0]] if isinstance(op, ops.MbarrierWait) else []
    return found + (["wait_async_ops"] if getattr(op, "wait_async_ops", False) else [])


def table_of_pinned() -> str:
    rows: list[list[object]] = []
    for name in NAMES:
        lines = (EXAMPLES / f"{name}.tide").read_text().splitlines()
        places = [number for number, line in enumerate(lines, 1) if re.match(r"\s*\w+_barrier pinned", line)]
        pinned = [op for op in sync_of(trace(name)) if is_pinned(op)]
        for op, line in zip(pinned, places, strict=True):
            rows.append([f"{name}.tide, line {line}", f"`{next(show_op(op))}`", reason(op)])
    return as_table("where | barrier | reason", rows)


TABLES = {"examples": table_of_examples, "pinned": table_of_pinned}


def as_table(head: str, rows: list[list[object]]) -> str:
    rule = "|".join("---" for _ in head.split("|"))
    return "\n".join([f"| {head} |", f"|{rule}|", *(f"| {' | '.join(map(str, row))} |" for row in rows)]) + "\n"


# --- reading examples ---------------------------------------------------------------------------------------------


def module(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


def trace(name: str, **constants: Any) -> Kernel:
    kernel: Kernel = getattr(module(name), name).trace(**constants).kernel
    return kernel


def sync_of(kernel: Kernel) -> list[SYNC]:
    return [op for op in walk_ops(kernel.body) if isinstance(op, SYNC)]


def is_pinned(op: Op) -> bool:
    return bool(getattr(op, "pinned", False))


def reason(op: Op) -> str:
    """The comment beside an operation in the Python form."""
    line = Path(op.at.file).read_text().splitlines()[op.at.line - 1]
    return line.partition("  # ")[2]


def text_form(name: str) -> str:
    """The printed trace, with the reasons that stand in the Python form."""
    kernel = trace(name)
    synchronization = iter(sync_of(kernel))
    names = "workgroup_barrier shared_memory_barrier conditional_barrier signal wait wait_count fence"
    words = re.compile(rf"\s*({'|'.join(names.split())}|mbarrier_arrive|mbarrier_wait)\b")
    lines = [
        f"{line}  # {reason(next(synchronization))}" if words.match(line) else line
        for line in show(kernel).splitlines()
    ]
    what = (module(name).__doc__ or "").partition("\n")[0]
    return "\n".join([f"# {what}", f"# Why it is synchronized like this stands in {name}.py.", *lines, ""])


def write() -> None:
    for name in NAMES:
        (EXAMPLES / f"{name}.tide").write_text(text_form(name))
    readme = README.read_text()
    for table in TABLES.values():
        text = table()
        head = text.partition("\n")[0]
        old = re.search(rf"{re.escape(head)}\n(\|.*\n)*", readme)
        assert old is not None, f"no table `{head}`"
        readme = readme.replace(old.group(), text)
    README.write_text(readme)


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(EXAMPLES.parent))
    write()
