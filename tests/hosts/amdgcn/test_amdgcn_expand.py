"""Hand-written assembly: macros, repetitions, conditions and symbols, as the assembler carries them out."""

from __future__ import annotations

import pytest

from oracles.programs.amdgcn_kernels import TRANSPOSE, check, codes, kernel
from tidegate.hosts.amdgcn.expand import expand


def expanded(text: str) -> list[str]:
    return [" ".join(line.split()) for _, line in expand(list(enumerate(text.strip().split("\n"), 1))) if line.strip()]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (".set a, 3\nv_mov_b32 v[a+1], a", ["v_mov_b32 v[4], 3"]),
        ("a = 2\n.set a, a*4\ns_mov_b32 s[a], -a", ["s_mov_b32 s[8], -8"]),
        (".set n, 2\nds_read_b64 v[n:n+1], v0 offset:16*n", ["ds_read_b64 v[2:3], v0 offset:32"]),
        (".set n, 2\ns_waitcnt vmcnt(n+1) lgkmcnt(0)", ["s_waitcnt vmcnt(3) lgkmcnt(0)"]),
        (
            ".set n, 1\nbuffer_load_dword v1, s[n*4:n*4+3], 0 offen offset:n lds",
            ["buffer_load_dword v1, s[4:7], 0 offen offset:1 lds"],
        ),
        (".rept 2\ns_nop 0\n.endr", ["s_nop 0", "s_nop 0"]),
        (".irp x, 1, 2\ns_nop \\x\n.endr", ["s_nop 1", "s_nop 2"]),
        (
            ".macro go n m=7\ns_nop \\n\ns_sleep \\m\n.endm\ngo 1\ngo 2, 3\ngo m=4, n=5",
            ["s_nop 1", "s_sleep 7", "s_nop 2", "s_sleep 3", "s_nop 5", "s_sleep 4"],
        ),
        (
            ".macro twice x:req\n.if \\x > 1\ns_nop \\x\n.else\ns_sleep \\x\n.endif\n.endm\ntwice 1\ntwice 2",
            ["s_sleep 1", "s_nop 2"],
        ),
        (".macro mark\nlabel_\\@:\n.endm\nmark\nmark", ["label_1:", "label_2:"]),
        (".ifdef x\ns_nop 1\n.elseif 1\ns_nop 2\n.endif", ["s_nop 2"]),
        ("v_add_f32 v0, -v1, |v2|", ["v_add_f32 v0, -v1, |v2|"]),
    ],
)
def test_what_is_left_of_directives(text: str, lines: list[str]) -> None:
    assert expanded(text) == lines


@pytest.mark.parametrize(
    "text",
    [
        ".macro a\na\n.endm\na",
        ".rept 9999999\ns_nop 0\n.endr",
        ".if nobody\n.endif",
        ".macro open",
        ".rept 2\n.rept 1000000\ns_nop 0\n.endr\n.endr",
    ],
)
def test_what_is_not_understood_stays(text: str) -> None:
    """Then the directive is in the body, and nothing is proved."""
    given = list(enumerate(text.split("\n"), 1))
    assert expand(given) == given


def test_a_kernel_of_macros_is_proved_and_its_mistake_found() -> None:
    body = TRANSPOSE.replace("s_barrier\n", ".macro meet\ns_barrier\n.endm\nmeet\n")
    assert body != TRANSPOSE
    assert check(kernel(body)).is_proved
    assert codes(kernel(body.replace("\nmeet\n", "\n"))) == {"TG101"}


def test_lines_of_a_macro_belong_to_the_line_that_uses_it() -> None:
    lines = expand(list(enumerate(".macro a\ns_nop 1\n.endm\ns_nop 0\na".split("\n"), 1)))
    assert [(number, text.strip()) for number, text in lines] == [(4, "s_nop 0"), (5, "s_nop 1")]
