"""Damaged assembly: findings, never a traceback, and never a proof of what nobody has read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from oracles.programs.amdgcn_kernels import (
    DIVERGENT,
    DOUBLE,
    HALVES,
    TRANSPOSE,
    TRANSPOSE_SPLIT,
    check,
    kernel,
)
from oracles.programs.damaged_text import damage
from tidegate.diag import BadInput
from tidegate.files import FINAL, load
from tidegate.passes import check_session
from tidegate.session import sessions_of

TEXTS = (
    *(kernel(body) for body in (TRANSPOSE, DOUBLE, DIVERGENT, HALVES)),
    *(kernel(TRANSPOSE_SPLIT, target) for target in ("gfx1201", "gfx1250")),
)


def test_damaged_assembly(tmp_path: Path) -> None:
    rng, path, checked = random.Random(7), tmp_path / "k.s", 0
    for _ in range(500):
        path.write_text(damage(rng, rng.choice(TEXTS)), encoding="utf-8", errors="surrogatepass")
        try:
            for session in sessions_of(load(str(path), takes=FINAL), None):
                check_session(session, simulate=False)
                checked += 1
        except BadInput:
            continue
    assert checked > 100


@pytest.mark.parametrize(
    "line",
    [
        ".long 0xbf8a0000",  # an instruction as a number
        ".macro barrier",
        ".rept 3",
        ".if 1",
        '.include "other.s"',
        ".section .rodata",  # what follows is not read
    ],
)
def test_what_the_assembler_would_change_is_never_proved(line: str) -> None:
    first, rest = TRANSPOSE.strip().split("\n", 1)
    assert not check(kernel(f"{first}\n{line}\n{rest}")).is_proved


def test_an_instruction_behind_a_label_is_read() -> None:
    assert check(kernel(TRANSPOSE.replace("s_barrier\n", ".LBB0_7: s_barrier\n"))).is_proved
    lost = TRANSPOSE.replace("s_barrier\n", "").replace("ds_write_b32", ".LBB0_7: ds_write_b32")
    assert not check(kernel(lost)).is_proved


def test_a_trap_for_debuggers_comes_back() -> None:
    """What stands behind it is read; behind one that aborts nothing is."""
    lost = TRANSPOSE.replace("s_barrier\n", "").replace("ds_read_b32", "s_trap {}\nds_read_b32")
    assert not check(kernel(lost.format(3))).is_proved
    assert check(kernel(lost.format(2))).is_proved


def test_a_comment_is_none_of_the_code() -> None:
    for text in ("; s_barrier", "// s_barrier", "/* s_barrier */", "/*\ns_barrier\n*/"):
        assert not check(kernel(TRANSPOSE.replace("s_barrier\n", f"{text}\n"))).is_proved
