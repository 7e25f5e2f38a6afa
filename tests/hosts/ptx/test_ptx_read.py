"""The reader of PTX: what it understands, and that damaged text is a finding with a place, never a crash."""

from __future__ import annotations

import random

import pytest

from oracles.programs.ptx_kernels import DOUBLE, HISTOGRAM, RING, TRANSPOSE, kernel
from tidegate.diag import BadInput
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.program import Ptx, programs_of

MODULE = """//
.version 8.7
.target sm_90a, texmode_independent
.address_size 64
  .file  1 "a.cu"
.extern .func (.param .b32 func_retval0) vprintf
(
  .param .b64 vprintf_param_0
)
;
.global .align 4 .u32 counter = 7;
.const .align 4 .b8 table[8] = {1, 2, 3, 4, 0, 0, 0, 255};
.extern .shared .align 16 .b8 dynamic[];
.shared .align 8 .b64 one[2][3];
.visible .entry _Z1kPf(
  .param .u64 .ptr .global .align 16 _Z1kPf_param_0,
  .param .align 8 .b8 _Z1kPf_param_1[16]
)
.maxntid 256, 1, 1
.minnctapersm 2
{
  .reg .pred   %p<3>;
  .reg .b32   %r<5>;
  .reg .f32 %f<4>;
  .loc  1 12 3
  ld.param.u64 %rd1, [_Z1kPf_param_1+8];
  { .reg .b32 %r1; mov.u32 %r1, %tid.x; { .reg .b32 %r1; mov.b32 %r1, -1; } }
  @!%p1 bra   $L__BB0_2;
  .pragma "nounroll";
  ld.shared.v4.f32   {%f0, %f1, %f2, _}, [dynamic+16];
  setp.lt.and.s32 %p1|%p2, %r1, 0x10, !%p2;
  mov.f32 %f1, 0f3F800000;
  mov.u32 %r2, dynamic+32;
  call.uni (retval0), vprintf, (param0, param1);
  /* a
     comment */ st.shared.u32 [%r2+-4], %r3;
$L__BB0_2:                              // %end
  $L_table: .branchtargets $L__BB0_2;
  ret;
}
.func helper(.reg .b32 %a)
{
  ret;
}
  .section  .debug_abbrev
  {
.b8 1
.b8 17
  }
"""


def test_a_module() -> None:
    module = parse_ptx(MODULE, "a.ptx")
    assert (module.version, module.target) == ("8.7", "sm_90a")
    assert [(each.name, each.is_entry) for each in module.functions] == [("_Z1kPf", True), ("helper", False)]
    sizes = {each.name: (each.space, each.bytes) for each in module.variables}
    assert sizes == {
        "counter": ("global", 4),
        "table": ("const", 8),
        "dynamic": ("shared", None),
        "one": ("shared", 48),
    }
    (entry,) = module.entries
    assert entry.most == (256, 1, 1)
    assert [each.bytes for each in entry.params] == [8, 16]


def test_instructions() -> None:
    (entry,) = parse_ptx(MODULE, "a.ptx").entries
    found = {each.mnemonic: each for each in entry.body if isinstance(each, p.Instruction)}
    load = found["ld.shared.v4.f32"]
    assert load.operands[1] == p.Address(p.Name("dynamic"), 16)
    assert isinstance(load.operands[0], p.Vector)
    assert found["bra"].guard == p.Guard("%p1", True)
    assert found["st.shared.u32"].operands[0] == p.Address(p.Name("%r2"), -4)
    assert found["mov.f32"].operands[1] == p.Number(0x3F800000, 32)
    compare = found["setp.lt.and.s32"]
    assert compare.operands[0] == p.Pair(p.Name("%p1"), p.Name("%p2"))
    assert compare.operands[3] == p.Negated("!", p.Name("%p2"))
    assert MODULE.split("\n")[found["st.shared.u32"].at.line - 1].endswith("st.shared.u32 [%r2+-4], %r3;")


def test_scopes_keep_names_apart() -> None:
    (entry,) = parse_ptx(MODULE, "a.ptx").entries
    moves = [each for each in entry.body if isinstance(each, p.Instruction) and each.opcode == "mov"]
    assert [str(each.operands[0]) for each in moves[:2]] == ["Name(name='%r1#1')", "Name(name='%r1#2')"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("hello", 1),
        (".version 8.0\n.visible .entry k(", 2),
        (".version 8.0\n.visible .entry k()\n{\n  mov.u32 %r1, ", 4),
        (".version 8.0\n.visible .entry k()\n{\n  add.u32 %r1 %r2;\n}", 4),
        (".version 8.0\n.shared .align x .b8 a[4];", 2),
        (".version 8.0\n.visible .entry k()\n{\n  mov.u32 %r1, \x01;\n}", 4),
        (".version 8.0\n.visible .entry k()\n{\n  ld.shared.u32 %r1, [%r2+];\n}", 4),
    ],
)
def test_damage_has_a_place(text: str, line: int) -> None:
    with pytest.raises(BadInput) as found:
        parse_ptx(text, "k.ptx")
    assert found.value.findings[0].at.line == line


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_is_a_crash(seed: int) -> None:
    """Characters are lost, doubled and changed; what can still be read is built."""
    rnd = random.Random(seed)
    bodies = (TRANSPOSE, DOUBLE.format(barrier="bar.sync 0;", toggle=1), RING.format(left=1, slots=3))
    text = rnd.choice([MODULE, *(kernel(each) for each in (*bodies, HISTOGRAM.format(add="ret;")))])
    letters = list(text)
    for _ in range(rnd.randint(1, 6)):
        place = rnd.randrange(len(letters))
        letters[place] = rnd.choice(("", letters[place] * 2, rnd.choice('{}[](),;:%$.@!0x9ab\n "')))
    try:
        module = parse_ptx("".join(letters), "k.ptx")
        programs_of(Ptx("k.ptx", "", module, block=(64,)), None)
    except BadInput:
        pass


def test_deep_nesting_is_refused() -> None:
    text = ".version 8.0\n.visible .entry k()\n{\n" + "{" * 100 + "}" * 101
    with pytest.raises(BadInput, match="nested"):
        parse_ptx(text, "k.ptx")
