"""Findings of one cause stand together, and no more of them are printed than `--max-findings` says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.test_cli import Command, command, folder
from tidegate.cli.grouping import MOST_ALIKE, MOST_FINDINGS, count_all, group
from tidegate.diag import Finding, Label, Span

__all__ = ["command", "folder"]  # fixtures

PAIRS = 40


def finding(line: int, cause: str) -> Finding:
    return replace(Finding("TG101", f"a race at {line}", (Label(Span("k.tide", line, 1, 2)),)), cause=cause)


@pytest.fixture
def many(folder: Path) -> str:
    """Accesses that nothing orders: each meets nearly all others."""
    lines = [
        f"  local_write %t, %b[{k} mod 8, 0]\n  %r{k} = local_read %b[(wave + {k}) mod 8, 0] : tile<1x4xi32>"
        for k in range(PAIRS)
    ]
    head = "target gfx942\nkernel @pairs() waves 8 {\n  %b = alloc : lds<8x4xi32>\n  %t = splat wave : tile<1x4xi32>\n"
    (folder / "many.tide").write_text(head + "\n".join([*lines, "}", ""]), encoding="utf-8")
    return "many.tide"


def test_many_of_one_cause_are_one_with_a_count() -> None:
    found = group([finding(line, "one") for line in range(1, 51)])
    (shown,) = found.shown
    assert (shown.count, found.total, found.causes, found.hidden) == (50, 50, 1, 0)
    assert "and 49 more with the same cause: line 2, line 3" in shown.notes[-1]


def test_few_of_one_cause_are_shown_one_by_one() -> None:
    found = group([finding(line, "one") for line in range(1, MOST_ALIKE + 1)])
    assert len(found.shown) == found.total == MOST_ALIKE
    assert found.said == f"{MOST_ALIKE} findings"


def test_of_many_causes_the_rest_is_counted() -> None:
    found = group([finding(line, f"cause {line}") for line in range(1, 31)])
    assert len(found.shown) == MOST_FINDINGS
    assert found.said == "30 findings of 30 causes, 10 not shown (`--max-findings`)"
    assert count_all([found, found]) == {"total": 60, "causes": 60, "not_shown": 20}
    assert len(group([finding(line, f"cause {line}") for line in range(1, 31)], 0).shown) == 30


def test_hundreds_of_pairs_are_a_short_report(command: Command, many: str) -> None:
    status, out, _ = command("check", many)
    assert status == 1
    assert len(out) < 10_000
    _, document, _ = command("check", many, "--json")
    found = json.loads(document)
    assert found["total"] > 500
    assert f"{found['total']:,} findings of {found['causes']} causes" in out
    assert sum(each["count"] for each in found["findings"]) + found["not_shown"] == found["total"]
    assert len(document) < 20_000


def test_the_number_of_findings_is_asked_for(command: Command, many: str) -> None:
    _, document, _ = command("check", many, "--json", "--max-findings", "1")
    found = json.loads(document)
    assert len(found["findings"]) == 1
    assert found["not_shown"] == found["total"] - found["findings"][0]["count"] > 0
