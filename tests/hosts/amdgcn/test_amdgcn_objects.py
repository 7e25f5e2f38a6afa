"""Code objects and disassemblies: the same kernel, read back from its bytes."""

from __future__ import annotations

import random
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from oracles.programs.amdgcn_kernels import DOUBLE
from oracles.programs.amdgcn_kernels import kernel as text_of
from tests.conftest import ROOT
from tidegate.diag import BadInput
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.code_object import BUNDLE, COMPRESSED, elf_in, read_code_object
from tidegate.hosts.amdgcn.disassembly import read_disassembly
from tidegate.hosts.amdgcn.objdump import disassemble, find_objdumps
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.library import check

OBJECT = ROOT / "tests" / "data" / "two-slots.gfx90a.hsaco"  # `DOUBLE`, assembled and linked by Triton's wheel
needs_objdump = pytest.mark.skipif(
    next(find_objdumps(), None) is None, reason="NOT TESTED: no `llvm-objdump` is installed"
)
HEAD = "\nk.hsaco:\tfile format elf64-amdgpu\n\nDisassembly of section .text:\n\n"
SWAP = """\
0000000000001700 <swap>:
\tv_lshlrev_b32_e32 v1, 2, v0                                // 000000001700: 24020082
\tv_xor_b32_e32 v2, 0x100, v1                                // 000000001704: 2A0402FF 00000100
\ts_branch 1                                                 // 00000000170C: BF820001 <swap+0x14>
\ts_nop 0                                                    // 000000001710: BF800000
\tds_write_b32 v1, v3                                        // 000000001714: D81A0000 00000301
\ts_waitcnt lgkmcnt(0)                                       // 00000000171C: BF8CC07F
\ts_barrier                                                  // 000000001720: BF8A0000
\tds_read_b32 v4, v2                                         // 000000001724: D86C0000 04000002
\ts_waitcnt lgkmcnt(0)                                       // 00000000172C: BF8CC07F
\ts_endpgm                                                   // 000000001730: BF810000
\ts_nop 0                                                    // 000000001734: BF800000
"""
LOOP = "s_cbranch_scc1 65533                                       // 00000000172C: BF85FFFD <swap+0x24>"


def written(folder: Path, text: str) -> str:
    path = folder / "swap.s"
    path.write_text(text, encoding="utf-8")
    return str(path)


# --- text ---------------------------------------------------------------------------------------------------------


def test_a_disassembly_is_checked_line_by_line(tmp_path: Path) -> None:
    where = written(tmp_path, HEAD + SWAP)
    assert check(where, target="gfx90a", block="128").is_proved
    racy = HEAD + SWAP.replace("\ts_barrier  ", "\ts_nop 0  ")
    (finding,) = check(written(tmp_path, racy), target="gfx90a", block="128")
    assert (finding.code, [each.at.line for each in finding.labels]) == ("TG101", [14, 11])


def test_jumps_lead_to_addresses_forward_and_back() -> None:
    read = read_disassembly(
        HEAD
        + SWAP.replace("s_waitcnt lgkmcnt(0)                                       // 00000000172C: BF8CC07F", LOOP)
    )
    lines = (HEAD + SWAP).split("\n")
    assert {lines[line - 1].split()[0] for line in read.marks} == {"ds_write_b32", "ds_read_b32"}
    assert read.functions == {"swap"}
    (kernel,) = parse_amdgcn(HEAD + SWAP).kernels
    jump = next(each for each in kernel.body if isinstance(each, a.AsmLine) and each.name == "s_branch")
    assert jump.operands == (a.Symbol(".at_1714"),)
    assert a.Mark(".at_1714") in kernel.body


def test_a_jump_into_nowhere_is_not_proved(tmp_path: Path) -> None:
    where = written(tmp_path, HEAD + SWAP.replace("s_branch 1 ", "s_branch 99 "))
    assert not check(where, target="gfx90a", block="128").is_proved


def test_a_disassembly_names_no_gpu(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        check(written(tmp_path, HEAD + SWAP), block="128")
    assert "--target" in (caught.value.findings[0].help or "")


def test_what_is_no_instruction_is_not_proved(tmp_path: Path) -> None:
    """Bytes that the disassembler does not know may do anything."""
    text = HEAD + SWAP.replace("v_xor_b32_e32 v2, 0x100, v1 ", "<unknown> ")
    assert not check(written(tmp_path, text), target="gfx90a", block="128").is_proved


# --- code objects -------------------------------------------------------------------------------------------------


def test_the_descriptor_and_the_metadata_are_read() -> None:
    found = read_code_object(OBJECT.read_bytes(), "k.hsaco")
    assert found.target == "gfx90a"
    settings = found.settings["k"]
    stated = parse_amdgcn(text_of(DOUBLE, "gfx90a")).kernels[0].settings
    assert {key: settings[key] for key in stated if key != "group_segment_fixed_size"} == {
        key: value for key, value in stated.items() if key != "group_segment_fixed_size"
    }
    assert settings["group_segment_fixed_size"] == 2048
    assert (found.facts["k"]["max_flat_workgroup_size"], found.facts["k"]["wavefront_size"]) == ((256,), (64,))


@needs_objdump
def test_a_code_object_has_the_verdict_of_its_assembly(tmp_path: Path) -> None:
    found = check(OBJECT)
    assert found.is_proved
    text = disassemble(OBJECT.read_bytes(), "k.hsaco")
    for line in ("s_waitcnt vmcnt(1)", "s_barrier"):
        place = text.index(line)
        worse = text[:place] + "s_nop 0" + text[place + len(line) :]
        assert not check(written(tmp_path, worse), target="gfx90a", block="256").is_proved


def test_without_a_disassembler_the_message_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tidegate.hosts.amdgcn.objdump.ROCM", str(tmp_path))
    with pytest.raises(BadInput) as caught:
        disassemble(OBJECT.read_bytes(), "k.hsaco")
    assert "`llvm-objdump`, which is not on the path" in caught.value.findings[0].message


def test_a_disassembler_that_does_not_know_the_gpu_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An older LLVM beside a newer one: the first that prints instructions is taken."""
    shell = shutil.which("sh")
    old = tmp_path / "llvm-objdump-18"
    old.write_text(f"#!{shell}\necho 'cannot find the target' >&2\nexit 1\n", encoding="utf-8")
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tidegate.hosts.amdgcn.objdump.ROCM", str(tmp_path))
    with pytest.raises(BadInput) as caught:
        disassemble(OBJECT.read_bytes(), "k.hsaco")
    assert "cannot find the target" in caught.value.findings[0].notes[0]
    new = tmp_path / "llvm-objdump-17"
    line = "\\ts_endpgm // 000000001700: BF810000"
    new.write_text(f"#!{shell}\nprintf '{line}'\n", encoding="utf-8")
    new.chmod(new.stat().st_mode | stat.S_IXUSR)
    assert "s_endpgm" in disassemble(OBJECT.read_bytes(), "k.hsaco")


def bundle(*entries: tuple[str, bytes]) -> bytes:
    size = len(BUNDLE) + 8 + sum(24 + len(name) for name, _ in entries)
    head, body = BUNDLE + len(entries).to_bytes(8, "little"), b""
    for name, data in entries:
        place = size + len(body)
        head += b"".join(each.to_bytes(8, "little") for each in (place, len(data), len(name))) + name.encode()
        body += data
    return head + body


def test_a_bundle_is_taken_apart() -> None:
    data = OBJECT.read_bytes()
    one = bundle(("host-x86_64-unknown-linux-gnu", b""), ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", data))
    assert elf_in(one, "k.co", None) == data
    two = bundle(("hipv4-amdgcn-amd-amdhsa--gfx90a", data), ("hipv4-amdgcn-amd-amdhsa--gfx942", data[:-1]))
    assert elf_in(two, "k.co", "gfx90a") == data
    with pytest.raises(BadInput, match="holds 2 code objects"):
        elf_in(two, "k.co", None)
    with pytest.raises(BadInput, match="compressed"):
        elf_in(COMPRESSED + data, "k.co", None)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_bytes_are_bad_input(seed: int) -> None:
    chance = random.Random(seed)
    whole = OBJECT.read_bytes()
    for _ in range(100):
        data = bytearray(whole[: chance.choice((len(whole), chance.randrange(len(whole))))])
        for _ in range(chance.randrange(1, 40)):
            if len(data) > 4:
                data[chance.randrange(4, len(data))] = chance.randrange(256)
        for given in (
            bytes(data),
            bundle(("hipv4-amdgcn-amd-amdhsa--gfx90a", bytes(data)))[: 60 + chance.randrange(400)],
        ):
            with suppress(BadInput):
                read_code_object(elf_in(given, "k.co", None), "k.co")
