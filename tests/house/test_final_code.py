"""The readers and the checker of final code, on code by hand."""

from __future__ import annotations

import pytest

from oracles.amdgcn import read_amdgcn
from oracles.code import Block, Code, Event, NotUnderstood
from oracles.facts import LANES, OWN, ROLES, WAVES, Fact, Mark
from oracles.llvm import read_llvm
from oracles.order import objections, placed, unplaced
from oracles.ptx import read_ptx
from oracles.sass import read_sass
from oracles.sides import compare

# --- order --------------------------------------------------------------------------------------------------------


def amd(text: str) -> Code:
    """Instructions, each behind its line where it has one."""
    rows = ["kernel:"]
    for row in text.strip().split("\n"):
        line, _, code = row.strip().rpartition("| ")
        rows += [f"\t.loc\t1 {line or 0} 1"] if not code.startswith(".") else []
        rows.append(code if code.startswith(".") else f"\t{code}")
    return read_amdgcn("\n".join([*rows, "\ts_endpgm", ".Lfunc_end0:"]))


def broken(code: Code, between: str, lag: int | None = 0, has_copy: bool = False) -> bool:
    return bool(objections(code, [Fact(Mark(1), Mark(2), between, lag, has_copy)]))


@pytest.mark.parametrize(
    ("between", "code", "is_broken"),
    [
        (OWN, "1| ds_write_b32 v0, v1 / 2| ds_read_b32 v1, v0", False),
        (LANES, "2| ds_read_b32 v1, v0 / 1| ds_write_b32 v0, v1", True),
        (WAVES, "1| ds_write_b32 v0, v1 / s_waitcnt lgkmcnt(0) / s_barrier / 2| ds_read_b32 v1, v0", False),
        (WAVES, "1| ds_write_b32 v0, v1 / s_barrier / s_waitcnt lgkmcnt(0) / 2| ds_read_b32 v1, v0", True),
        (
            WAVES,
            "1| ds_write_b32 v0, v1 / ds_read_b32 v4, v5 / s_waitcnt lgkmcnt(1) / s_barrier / 2| ds_read_b32 v1, v0",
            False,
        ),
        (
            WAVES,
            "ds_read_b32 v4, v5 / 1| ds_write_b32 v0, v1 / s_waitcnt lgkmcnt(1) / s_barrier / 2| ds_read_b32 v1, v0",
            True,
        ),
        (
            WAVES,
            "1| ds_store_b32 v0, v1 / s_wait_dscnt 0x0 / s_barrier_signal -1 / 2| ds_load_b32 v1, v0"
            " / s_barrier_wait -1",
            True,
        ),
        (
            WAVES,
            "1| ds_store_b32 v0, v1 / s_wait_dscnt 0x0 / s_barrier_signal 3 / s_barrier_wait 3 / 2| ds_load_b32 v1, v0",
            True,
        ),
    ],
)
def test_order_in_assembly(between: str, code: str, is_broken: bool) -> None:
    assert broken(amd(code.replace(" / ", "\n")), between) == is_broken


COUNTED = """
1| global_load_lds_dword v0, s[0:1]
{between}
s_waitcnt vmcnt(1)
s_barrier
2| ds_read_b32 v1, v0"""


@pytest.mark.parametrize(
    ("between", "is_broken"),
    [
        ("global_load_dword v4, v5, s[2:3]", False),
        ("global_store_dword v4, v5, s[2:3]", False),
        ("s_load_dword s4, s[2:3], 0x0", True),
        ("v_mov_b32_e32 v4, 0", True),
        ("s_cbranch_execz .LBB0_2\nglobal_load_dword v4, v5, s[2:3]\n.LBB0_2:", True),
    ],
)
def test_a_counted_wait_counts_what_every_path_issues(between: str, is_broken: bool) -> None:
    assert broken(amd(COUNTED.format(between=between)), WAVES, has_copy=True) == is_broken


def sass(text: str) -> Code:
    rows = ["//--------------------- .text.k                   --------------------------"]
    for row in text.strip().split("\n"):
        line, _, code = row.strip().rpartition("| ")
        rows += [f'\t//## File "k", line {line}'] if line else []
        rows.append(code if code.startswith(".L") else f"        /*0000*/                   {code} ;")
    return read_sass("\n".join(rows))["k"]


@pytest.mark.parametrize(
    ("between", "code", "is_broken"),
    [
        (WAVES, "1| STS [R0], R1 / BAR.SYNC.DEFER_BLOCKING 0x0 / 2| LDS R1, [R0] / EXIT", False),
        (WAVES, "1| STS [R0], R1 / @P0 BAR.SYNC.DEFER_BLOCKING 0x0 / 2| LDS R1, [R0] / EXIT", True),
        (WAVES, "1| STS [R0], R1 / BAR.SYNC.DEFER_BLOCKING 0x1, 0x40 / 2| LDS R1, [R0] / EXIT", True),
        (
            WAVES,
            "1| LDGSTS.E [R0], [R2.64] / LDGDEPBAR / DEPBAR.LE SB0, 0x0 / BAR.SYNC 0x0 / 2| LDS R1, [R0] / EXIT",
            False,
        ),
        (
            WAVES,
            "1| LDGSTS.E [R0], [R2.64] / DEPBAR.LE SB0, 0x0 / LDGDEPBAR / BAR.SYNC 0x0 / 2| LDS R1, [R0] / EXIT",
            True,
        ),
        (
            WAVES,
            "1| LDGSTS.E [R0], [R2.64] / LDGDEPBAR / DEPBAR.LE SB0, 0x1 / BAR.SYNC 0x0 / 2| LDS R1, [R0] / EXIT",
            True,
        ),
        (
            WAVES,
            "1| LDGSTS.E [R0], [R2.64] / LDGDEPBAR / LDGDEPBAR / DEPBAR.LE SB0, 0x1 / BAR.SYNC 0x0"
            " / 2| LDS R1, [R0] / EXIT",
            False,
        ),
        (OWN, "1| LDGSTS.E [R0], [R2.64] / LDGDEPBAR / 2| LDS R1, [R0] / EXIT", True),
        (OWN, "1| LDGSTS.E [R0], [R2.64] / LDGDEPBAR / DEPBAR.LE SB0, 0x0 / 2| LDS R1, [R0] / EXIT", False),
        (
            ROLES,
            "@P0 BRA `(.L_x_1) / 1| STS [R0], R1 / BAR.ARV 0x1, 0x40 / EXIT / .L_x_1:"
            " / BAR.SYNC 0x1, 0x40 / 2| LDS R1, [R0] / EXIT",
            False,
        ),
        (
            ROLES,
            "@P0 BRA `(.L_x_1) / BAR.ARV 0x1, 0x40 / 1| STS [R0], R1 / EXIT / .L_x_1:"
            " / BAR.SYNC 0x1, 0x40 / 2| LDS R1, [R0] / EXIT",
            True,
        ),
        (
            ROLES,
            "@P0 STS [R4], R1 / 1| @!P0 STS [R0], R1 / @!P0 BAR.ARV 0x1, 0x40 / @!P0 EXIT"
            " / BAR.SYNC 0x1, 0x40 / 2| LDS R1, [R0] / EXIT",
            False,
        ),
        (
            ROLES,
            "1| @!P0 STS [R0], R1 / ISETP.GE.AND P0, PT, R1, R2, PT / @!P0 BAR.ARV 0x1, 0x40"
            " / @!P0 EXIT / BAR.SYNC 0x1, 0x40 / 2| LDS R1, [R0] / EXIT",
            True,
        ),
    ],
)
def test_order_in_sass(between: str, code: str, is_broken: bool) -> None:
    assert broken(sass(code.replace(" / ", "\n")), between, has_copy="LDGSTS" in code) == is_broken


def test_loops_are_followed_and_executions_counted() -> None:
    """The write of one iteration and the read of the next: only the second read needs a barrier before it."""
    loop = ".L_x_1:\n2| LDS R1, [R0]\n{barrier}\n1| STS [R0], R1\n@P0 BRA `(.L_x_1)\nEXIT"
    assert broken(sass(loop.format(barrier="BAR.SYNC 0x0")), WAVES, lag=1)
    both = loop.replace("1| STS", "1| STS [R0], R1\nBAR.SYNC 0x0\nMOV").format(barrier="BAR.SYNC 0x0")
    assert not broken(sass(both), WAVES, lag=1)
    assert broken(sass(both), WAVES, lag=0)


def test_code_that_is_not_understood_gets_no_verdict() -> None:
    with pytest.raises(NotUnderstood, match="BRX"):
        sass("BRX R2 -0x1\nEXIT")
    with pytest.raises(NotUnderstood, match="mbarrier"):
        read_ptx("\tmbarrier.init.shared::cta.b64 [%r1], 1;")


def test_an_access_without_a_line_is_told_apart() -> None:
    code = amd("1| global_load_lds_dword v0, s[0:1]\n0| ds_read_b32 v1, v0\ns_waitcnt vmcnt(0)")
    facts = [Fact(Mark(1), Mark(2), OWN, None, True)]
    assert unplaced(code)
    assert not objections(code, facts)
    assert not unplaced(placed(code, facts))
    assert objections(placed(code, facts), facts)


# --- sides of barriers --------------------------------------------------------------------------------------------


def code_of(*events: str) -> Code:
    """`b3` is a barrier of line 3, `a4` an access of line 4."""
    made = [
        Event(each, int(each[1:]), touches_lds=each[0] == "a", arrives=each[0] == "b", departs=each[0] == "b")
        for each in events
    ]
    return Code((Block(made),))


def test_an_access_that_crosses_a_barrier_has_moved() -> None:
    before = code_of("a1", "b2", "a3", "a4", "b5", "a6")
    assert not compare(before, code_of("a1", "b2", "a4", "a3", "b5", "a6")).moved
    assert not compare(before, code_of("a1", "b2", "a3", "b5", "a6")).moved
    assert compare(before, code_of("a1", "a3", "b2", "a4", "b5", "a6")).moved
    assert compare(before, code_of("a1", "b2", "a3", "a4", "a6")).moved


def test_branches_of_llvm_ir_are_followed() -> None:
    text = """define amdgpu_kernel void @k() !dbg !4 {
  store float 1.0, ptr addrspace(3) @s, align 4
  br i1 %c, label %then, label %end
then:
  tail call void @llvm.amdgcn.s.barrier()
  br label %end
end:
  %l = load float, ptr addrspace(3) @s, align 4
  ret void
}"""
    kept = read_llvm(text)
    assert [block.after for block in kept.blocks] == [[1, 2], [2], []]
    assert not compare(kept, kept).moved
    assert compare(kept, read_llvm(text.replace("br label %end", "br label %then"))).moved == ()
    always = "  br label %then\n"
    assert compare(read_llvm(text.replace("  br i1 %c, label %then, label %end\n", always)), kept).moved
