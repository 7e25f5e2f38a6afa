"""The witness of a copy that a counted wait left in flight: which wait, which slot and iteration, and what is safe."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.diag import Finding, findings_to_json
from tidegate.graph.build import build_graph
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.language.parse import parse
from tidegate.simulate.hostile import run_graph, run_hostile
from tidegate.simulate.inorder import make_inputs
from tidegate.simulate.judge import judge
from tidegate.targets import load_target


@dataclass(frozen=True)
class Case:
    """`{n}` is the count; `safe` the largest that is."""

    text: str
    counter: str
    safe: int
    code: str
    line: int  # of the wait
    note: str


RING = """target {target}

kernel @ring(%X: global<Kx4x64xf32>, %Y: global<4x64xf32>) sizes(K = 12) where(K >= 6) waves 4 {{
  %tile = alloc : lds<4x64xf32, slots = 4>
  {copy} %X[0, wave] to %tile[0][wave] : tile<64xf32>{commit}
  {copy} %X[1, wave] to %tile[1][wave] : tile<64xf32>{commit}
  iterate %k in 0 .. K - 2 {{
    {copy} %X[%k + 2, wave] to %tile[(%k + 2) mod 4][wave] : tile<64xf32>{commit}
    {wait}
    %a = local_read %tile[%k mod 4][{row}] : tile<64xf32>
    global_write %a, %Y[wave]
  }}
}}
"""
OTHER, OWN = "(wave + 1) mod 4", "wave"


def ring(target: str, copy: str, wait: str, row: str = OTHER, commit: str = "") -> str:
    return RING.format(target=target, copy=copy, wait=wait, row=row, commit=commit)


CASES = {
    "vmcnt": Case(
        ring("gfx950", "gather_to_lds", "shared_memory_barrier vmcnt({n})").replace("global_write %a, %Y[wave]", ""),
        "vmcnt",
        2,
        "TG101",
        9,
        "iteration 2 of wave 0 reads slot 2 while wave 1's copy from iteration 0 may be in flight: "
        "`vmcnt({n})` in line 9, at most 2 is safe here",
    ),
    "vmcnt in one wave": Case(
        ring("gfx950", "gather_to_lds", "wait_count lgkmcnt(0) vmcnt({n})", OWN).replace(
            "global_write %a, %Y[wave]", ""
        ),
        "vmcnt",
        2,
        "TG105",
        9,
        "iteration 2 of wave 0 reads slot 2 while its copy from iteration 0 may be in flight: "
        "`vmcnt({n})` in line 9, at most 2 is safe here",
    ),
    "groups": Case(
        ring("sm_80", "gather_to_lds", "wait_count group({n}) workgroup_barrier", commit=" commit_group"),
        "group",
        2,
        "TG101",
        9,
        "iteration 2 of wave 0 reads slot 2 while wave 1's copy from iteration 0 may be in flight: "
        "`group({n})` in line 9, at most 2 is safe here",
    ),
    "tensorcnt": Case(
        ring("gfx1250", "tensor_load_to_lds", "shared_memory_barrier tensorcnt({n})"),
        "tensorcnt",
        2,
        "TG101",
        9,
        "iteration 2 of wave 0 reads slot 2 while wave 1's copy from iteration 0 may be in flight: "
        "`tensorcnt({n})` in line 9, at most 2 is safe here",
    ),
}


def findings(text: str) -> list[Finding]:
    (kernel,) = parse(text, "ring.tide").kernels
    target = load_target(kernel.target)
    return judge(build_graph(kernel, target).graph, target).findings


def with_count(case: Case, count: int) -> str:
    return case.text.replace("{n}", str(count))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("more", [1, 2])
def test_the_finding_names_the_wait_the_slot_and_what_is_safe(name: str, more: int) -> None:
    case = CASES[name]
    found = findings(with_count(case, case.safe + more))
    (loop,) = [each for each in found if {label.at.line for label in each.labels} == {8, 10} and each.code == case.code]
    assert case.note.replace("{n}", str(case.safe + more)) in loop.notes
    assert loop.help == f"lower the count to `{case.counter}({case.safe})` in line {case.line}"


@pytest.mark.parametrize("name", CASES)
def test_what_is_called_safe_is_safe_and_no_less_than_could_be(name: str) -> None:
    case = CASES[name]
    assert findings(with_count(case, case.safe)) == []
    for more in (1, 2, 3):
        found = findings(with_count(case, case.safe + more))
        assert found
        assert {dict(dict(each.witness)["wait"])["safe"] for each in found} == {case.safe}  # type: ignore[call-overload]


@pytest.mark.parametrize("name", CASES)
def test_programs_get_the_same(name: str) -> None:
    case = CASES[name]
    document: Any = findings_to_json(findings(with_count(case, case.safe + 1)))
    for each in document["findings"]:
        wait = each["witness"]["wait"]
        assert (wait["line"], wait["counter"], wait["count"], wait["safe"]) == (
            case.line,
            case.counter,
            case.safe + 1,
            case.safe,
        )
        assert wait["statement"].startswith(("wait_count", "shared_memory_barrier"))


@pytest.mark.parametrize("name", CASES)
def test_a_run_with_numbers_and_a_run_of_the_graph_say_so_too(name: str) -> None:
    case = CASES[name]
    (kernel,) = parse(with_count(case, case.safe + 1), "ring.tide").kernels
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    for ran in (run_hostile(kernel, make_inputs(kernel), target=target), run_graph(graph, target=target)):
        waits = [dict(each.witness).get("wait") for each in ran.findings()]
        assert waits
        assert {dict(each)["safe"] for each in waits if each is not None} == {case.safe}  # type: ignore[call-overload]


# --- the least of several -----------------------------------------------------------------------------------------


def test_what_is_safe_is_the_least_over_all_that_the_wait_left() -> None:
    """The older copy would be performed with 2 in flight, the newer one only with 1."""
    text = """target gfx950
kernel @k(%X: global<3x4x64xf32>) waves 4 {
  %a = alloc : lds<4x64xf32, slots = 3>
  gather_to_lds %X[0, wave] to %a[0][wave] : tile<64xf32>
  gather_to_lds %X[1, wave] to %a[1][wave] : tile<64xf32>
  gather_to_lds %X[2, wave] to %a[2][wave] : tile<64xf32>
  shared_memory_barrier vmcnt(3)
  %x = local_read %a[0][(wave + 1) mod 4] : tile<64xf32>
  %y = local_read %a[1][(wave + 1) mod 4] : tile<64xf32>
}
"""
    found = findings(text)
    assert len(found) == 2
    assert all("at most 1 is safe here" in " ".join(each.notes) for each in found)
    assert findings(text.replace("vmcnt(3)", "vmcnt(1)")) == []
    assert len(findings(text.replace("vmcnt(3)", "vmcnt(2)"))) == 1


def test_the_last_wait_before_the_barrier_that_both_meet_at_is_named() -> None:
    """A later wait of the copy's own wave, which performs it, comes too late and is not meant."""
    text = """target gfx950
kernel @k(%X: global<2x4x64xf32>) waves 4 {
  %a = alloc : lds<4x64xf32>
  gather_to_lds %X[0, wave] to %a[wave] : tile<64xf32>
  wait_count vmcnt(3)
  wait_count vmcnt(2)
  workgroup_barrier
  %x = local_read %a[(wave + 1) mod 4] : tile<64xf32>
  wait_count vmcnt(1)
  workgroup_barrier
}
"""
    (found,) = [each for each in findings(text) if each.code == "TG101"]
    assert "`vmcnt(2)` in line 6, only 0 is safe here" in " ".join(found.notes)


def test_a_copy_in_no_group_is_said_to_be_so() -> None:
    text = ring("sm_80", "gather_to_lds", "wait_count group(0) workgroup_barrier").replace("wave + 1", "wave + 2")
    found = findings(text)
    assert any("`group(0)` in line 9, it is in no group yet" in note for each in found for note in each.notes)
    assert all("commit_group" in each.help for each in found if "in no group" in " ".join(each.notes))


def test_where_operations_complete_out_of_turn_only_0_is_safe() -> None:
    (kernel,) = parse(with_count(CASES["vmcnt"], 1)).kernels
    target = load_target("gfx950")
    text = show_graph(build_graph(kernel, target).graph)
    graph = parse_graph(re.sub(r"(\(%k \+ 2\) mod 4.* issues vmcnt 1 \.\. \d+)", r"\1 unordered", text))
    assert graph != parse_graph(text)
    found = judge(graph, target).findings
    assert found
    assert all("only 0 is safe here" in " ".join(each.notes) for each in found if "wait" in dict(each.witness))


def test_without_a_count_on_its_counter_nothing_is_said() -> None:
    for wait in ("workgroup_barrier", "shared_memory_barrier", "shared_memory_barrier lgkmcnt(0)"):
        found = findings(ring("gfx950", "gather_to_lds", wait))
        assert found
        assert all("wait" not in dict(each.witness) for each in found)
