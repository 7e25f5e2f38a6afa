"""Searches backwards look only at what may lead to a conflict, however many ways there are."""

from __future__ import annotations

from typing import Any

import pytest

from oracles.programs.ptx_kernels import check, kernel
from tidegate.verify import pruning, search

# Many branches on values that nobody knows, between a barrier and an access, each with a read of its own.
_START = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r6, %r3, %r5;
  st.shared.f32 [%r4], %f1;
  bar.sync 0;
"""
_BRANCH = """
  ld.shared.f32 %f2, [%r6];
  setp.lt.f32 %p{number}, %f2, %f3;
  @%p{number} bra $L{number};
  ld.shared.f32 %f4, [%r6+4];
$L{number}:
"""


def program(last: str, branches: int = 60) -> str:
    body = _START + "".join(_BRANCH.format(number=number) for number in range(1, branches)) + last
    return kernel(body).replace(".reg .pred %p<", ".reg .pred %p<1")


def test_reads_behind_a_barrier_take_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = []
    real = search.Search.visit

    def counted(self: search.Search, *given: Any) -> None:
        visits.append(given)
        real(self, *given)

    monkeypatch.setattr(search.Search, "visit", counted)
    assert check(program(""), (64,)).is_proved
    pruned = len(visits)
    monkeypatch.setattr(pruning, "FEW", 1 << 30)
    assert check(program(""), (64,)).is_proved
    assert pruned < (len(visits) - pruned) / 2


def test_a_write_behind_many_branches_is_found() -> None:
    found = check(program("  st.shared.f32 [%r4], %f4;\n"), (64,))
    assert {"TG102", "TG106"} & {each.code for each in found.findings}
    assert check(program("  bar.sync 0;\n  st.shared.f32 [%r4], %f4;\n"), (64,)).is_proved
