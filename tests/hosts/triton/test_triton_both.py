"""Triton's own kernels: the verdicts on TTGIR and PTX agree, also with one barrier less or one weaker wait."""

from __future__ import annotations

import pytest

from bench import triton_both as both
from oracles.triton_kernels.texts import pair_named

# Waits and a ring of copies, reductions in a loop, a scan.
NAMES = ("matmul-64-s3-w1.sm_90", "softmax-online.sm_90", "cumsum.sm_80")


@pytest.mark.parametrize("name", NAMES)
def test_both_levels_agree(name: str) -> None:
    rows = list(both.examine(pair_named(name)))
    asked = [each for each in rows if each.kind != both.INNER]
    assert asked[0].ttgir == asked[0].ptx == both.PROVED
    assert [each for each in asked if each.ttgir != each.ptx] == []
    assert any(each.ptx == both.RACE for each in rows)
