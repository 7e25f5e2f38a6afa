"""`--arg`: a kernel is checked for the values of arguments that a launch passes, and the verdict says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracles.programs.ptx_kernels import kernel
from tidegate import cli

# Each thread writes its own word and reads the one `n` words further on.
SHIFTED = """
  ld.param.{type} {register}, [k_param_1];
  {narrowed}
  mov.u32 %r1, %tid.x;
  mov.u32 %r3, tile;
  shl.b32 %r4, %r1, 2;
  add.s32 %r5, %r3, %r4;
  st.shared.u32 [%r5], %r1;
  add.s32 %r6, %r1, %r2;
  and.b32 %r6, %r6, 63;
  shl.b32 %r6, %r6, 2;
  add.s32 %r7, %r3, %r6;
  ld.shared.u32 %r8, [%r7];
"""
PLAIN = SHIFTED.format(type="u32", register="%r2", narrowed="")


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(body: str, *more: str) -> tuple[int, str]:
        path = tmp_path / "k.ptx"
        path.write_text(kernel(body, "64"), encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["tidegate", "check", str(path), *more])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        done = capsys.readouterr()
        return int(ended.value.code or 0), done.out + done.err

    return run


@pytest.mark.parametrize(
    "load",
    [
        ("u32", "%r2", ""),
        ("s32", "%r2", ""),
        ("b32", "%r2", ""),
        ("u32", "%rd2", "cvt.u32.u64 %r2, %rd2;"),
        ("s32", "%rd2", "cvt.u32.u64 %r2, %rd2;"),
    ],
)
@pytest.mark.parametrize(("value", "right"), [("0", True), ("64", True), ("0x40", True), ("1", False), ("63", False)])
def test_the_verdict_is_about_that_value(said, load: tuple[str, str, str], value: str, right: bool) -> None:
    body = SHIFTED.format(type=load[0], register=load[1], narrowed=load[2])
    status, text = said(body, "--arg", f"1={value}")
    assert (status == 0) is right, text
    assert ("proved: no race" in text) is right
    assert f"for launches with argument 1 = {int(value, 0)}" in text


def test_without_it_every_value_counts(said) -> None:
    status, text = said(PLAIN)
    assert status == 1
    assert "for launches" not in text


@pytest.mark.parametrize("name", ["1", "param_1", "k_param_1"])
def test_parameters_have_numbers_and_names(said, name: str) -> None:
    assert said(PLAIN, "--arg", f"{name}=0")[0] == 0
    assert said(PLAIN, "--arg", f"{name}=1")[0] == 1


@pytest.mark.parametrize(
    "load", ["ld.param.f32 %f1, [k_param_1]; cvt.rzi.s32.f32 %r2, %f1;", "ld.param.u8 %r2, [k_param_1+1];"]
)
def test_other_readings_of_the_bytes_stay_unknown(said, load: str) -> None:
    """0 as an integer would make both of them 0; what they are is left open, so that nothing is proved."""
    status, _ = said(PLAIN.replace("ld.param.u32 %r2, [k_param_1];", load), "--arg", "1=0")
    assert status == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("2=1", "`k` has 2 parameters, none of them is `2`"),
        ("n=1", "none of them is `n`"),
        ("1=-1", "is not the value of an argument"),
        ("1", "is not the value of an argument"),
        ("=1", "is not the value of an argument"),
        ("1=" + "9" * 400, "is not the value of an argument"),
        ("1=2147483648", "has 4 bytes, and cannot be 2147483648"),
    ],
)
def test_what_makes_no_sense_is_refused(said, given: str, words: str) -> None:
    status, text = said(PLAIN, "--arg", given)
    assert status == 2
    assert words in text
