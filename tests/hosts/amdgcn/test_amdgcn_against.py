"""`check --against`: assembly beside the program that it was made of, right and with what a compiler may do to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidegate as tg
from oracles.programs.amdgcn_kernels import TRANSPOSE, TRANSPOSE_SPLIT, kernel
from tests.cli.test_robust import Typed, folder, typed
from tidegate.comparison import Against

__all__ = ["folder", "typed"]

PROGRAM = """target {target}

kernel @k(%X: global<4x64xf32>, %Y: global<4x64xf32>) waves 4 {{
  %tile = alloc : lds<4x64xf32>
  %a = global_read %X[wave] : tile<64xf32>
  local_write %a, %tile[wave]
  shared_memory_barrier
  %b = local_read %tile[(wave + 1) mod 4] : tile<64xf32>
  global_write %b, %Y[wave]
}}
"""
LOOP = """target gfx942

kernel @k(%X: global<4x64xf32>, %Y: global<4x64xf32>) waves 4 {
  %tile = alloc : lds<4x64xf32>
  iterate %i in 0..8 {
    %a = global_read %X[wave] : tile<64xf32>
    local_write %a, %tile[wave]
    shared_memory_barrier
    %b = local_read %tile[(wave + 1) mod 4] : tile<64xf32>
    global_write %b, %Y[wave]
    shared_memory_barrier
  }
}
"""
BARRIER = "s_waitcnt lgkmcnt(0)\ns_barrier\n"
WRITE, READ = "ds_write_b32 v3, v4\n", "ds_read_b32 v6, v5\n"


def against(folder: Path, body: str, program: str = "", target: str = "gfx942", threads: int = 256) -> Against:
    (folder / "k.s").write_text(kernel(body, target, threads))
    (folder / "k.tide").write_text(program or PROGRAM.format(target=target))
    return tg.against(str(folder / "k.s"), str(folder / "k.tide"))


def kinds(found: Against) -> set[str]:
    return {each.kind for each in found.differences}


@pytest.mark.parametrize(("body", "target"), [(TRANSPOSE, "gfx942"), (TRANSPOSE_SPLIT, "gfx1201")])
def test_what_is_as_planned(folder: Path, body: str, target: str) -> None:
    found = against(folder, body, target=target)
    assert found.said == "barriers 1 → 1: as planned"
    assert not found.is_weaker


def test_a_barrier_that_is_gone(folder: Path) -> None:
    found = against(folder, TRANSPOSE.replace("s_barrier\n", ""))
    assert "dropped" in kinds(found)
    assert found.is_weaker
    assert any("line 7 of the program" in each.what for each in found.differences)


def test_a_barrier_more(folder: Path) -> None:
    found = against(folder, TRANSPOSE + BARRIER)
    assert kinds(found) == {"added"}
    assert not found.is_weaker
    assert found.differences[0].line == 18


def test_an_access_that_has_crossed_a_barrier(folder: Path) -> None:
    body = f"{WRITE}{READ}{BARRIER}s_waitcnt lgkmcnt(0)\n"
    found = against(folder, body)
    assert [str(each) for each in found.differences] == ["moved: line 9: read, write before it, in the plan write"]


def test_a_write_that_is_in_flight(folder: Path) -> None:
    found = against(folder, f"{WRITE}s_barrier\n{READ}s_waitcnt lgkmcnt(0)\n")
    assert kinds(found) == {"in flight"}
    assert "accesses of lines 6" in found.differences[0].what


@pytest.mark.parametrize("times", [1, 2, 3])
def test_loops_may_be_unrolled(folder: Path, times: int) -> None:
    """A loop of two barriers, one after another in each round."""
    round_ = f"{WRITE}{BARRIER}{READ}{BARRIER}"
    body = f".LBB0_1:\n{round_ * times}s_cbranch_scc1 .LBB0_1\n"
    assert against(folder, body, LOOP).said == f"barriers 2 → {2 * times}: as planned"
    less = body[::-1].replace(BARRIER[::-1], "", 1)[::-1]
    assert against(folder, less, LOOP).is_weaker


def test_a_workgroup_of_one_wave_has_no_barriers(folder: Path) -> None:
    found = against(folder, TRANSPOSE.replace("s_barrier\n", ""), threads=64)
    assert "one wave" in found.said
    assert not found.is_weaker


def test_programs_that_cannot_be_compared(folder: Path) -> None:
    text = PROGRAM.format(target="gfx942")
    (folder / "k.tide").write_text(text)
    with pytest.raises(tg.BadInput, match="is not AMD assembly"):
        tg.against(str(folder / "k.tide"), str(folder / "k.tide"))


# --- the command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [("k.s", "k.tide"), ("k.tide", "k.s")])
def test_either_file_comes_first(folder: Path, typed: Typed, files: tuple[str, str]) -> None:
    against(folder, TRANSPOSE)
    done = typed("check", files[0], "--against", files[1])
    assert done.returncode == 0
    assert "@k against its assembly: barriers 1 → 1: as planned" in done.stdout


def test_the_document_and_the_status(folder: Path, typed: Typed) -> None:
    against(folder, TRANSPOSE + BARRIER)
    done = typed("check", "k.s", "--against", "k.tide", "--json")
    assert done.returncode == 0
    (found,) = json.loads(done.stdout)["against"]
    assert (found["planned"], found["made"], found["weaker"]) == (1, 2, False)
    assert found["differences"][0]["kind"] == "added"
    against(folder, TRANSPOSE.replace("s_barrier\n", ""))
    assert typed("check", "k.tide", "--against", "k.s").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("k.tide --against k.tide", "compares assembly with what it was made of"),
        ("k.s --against k.s", "compares assembly with what it was made of"),
        ("k.s k.tide --against k.tide", "compares one file with another"),
        ("k.s --against none.tide", "cannot be read"),
    ],
)
def test_what_cannot_be_compared(folder: Path, typed: Typed, arguments: str, said: str) -> None:
    against(folder, TRANSPOSE)
    done = typed("check", *arguments.split())
    assert done.returncode == 2
    assert said in done.stderr
