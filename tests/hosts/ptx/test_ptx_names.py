"""Names of C++ in PTX, and places of its source."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from oracles.programs.ptx_kernels import SHIFT, check, kernel
from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.hosts.isa.saying import with_lines
from tidegate.hosts.isa.sources import MOST_INLINED, Place, find_places
from tidegate.hosts.ptx.demangle import demangle, short_name
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.program import Ptx, pick

# As NVRTC 13.0 mangles kernels and arrays, and as c++filt writes them, without the types of parameters.
NAMES = {
    "swap": "swap",
    "_Z4swapPfPKf": "swap",
    "_ZZ4swapPfPKfE4tile": "swap::tile",
    "_ZZ1kPfE4tile_0": "k::tile",
    "_ZN3gpu5scaleIfLi4EEEvPT_": "gpu::scale<float, 4>",
    "_ZN3gpu4deep1kI6__halfLin4ELb0EEEvPT_PKS3_S3_": "gpu::deep::k<__half, -4, false>",
    "_ZN3gpu4deep1mIdEEvNS0_4TileIT_EENS4_2InEPS4_RKS4_": "gpu::deep::m<double>",
    "_ZZN3gpu4deep1mIdEEvNS0_4TileIT_EENS4_2InEPS4_RKS4_E4tile": "gpu::deep::m<double>::tile",
    "_Z1vIL4Mode1EJiPfPKN3gpu4deep5ShapeEEEvDpT0_": "v<(Mode)1, int, float*, gpu::deep::Shape const*>",
    "_Z4litsILj3ELln4ELy5ELc97EEvPVi": "lits<3u, -4l, 5ull, (char)97>",
    "_Z5plain1SPS_P6float45uint2S0_PFiiEi4dim3": "plain",
    "_ZN36_GLOBAL__N__00000000_5_e4_cu__Z3cpuf4anonEPf": "(anonymous namespace)::anon",
    "_Z1tISt4pairIiSt6vectorIfSaIfEEEEvT_": "t<std::pair<int, std::vector<float, std::allocator<float>>>>",
    "_Z1pIPFivEEvT_": "p<int (*)()>",
    "_Z1aIRA4_fEvOT_": "a<float (&) [4]>",
    # What is not understood stays as it is.
    "_Z2opIXplLi1ELi2EEEvv": "_Z2opIXplLi1ELi2EEEvv",
    "_Z3": "_Z3",
    "_Z": "_Z",
    "_ZN": "_ZN",
    "_Z1kIT_EvS9_": "_Z1kIT_EvS9_",
    "_ZN1aI" + "N1a" * 400: "_ZN1aI" + "N1a" * 400,
}


@pytest.mark.parametrize(("mangled", "written"), NAMES.items())
def test_names_are_those_of_the_source(mangled: str, written: str) -> None:
    assert "::".join(demangle(mangled)) == written


def test_another_demangler_agrees() -> None:
    if shutil.which("c++filt") is None:
        pytest.skip("NOT TESTED: c++filt is not installed")
    names = [each for each, written in NAMES.items() if each != written and "ZZ" not in each]
    done = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
    found = dict(zip(names, done.stdout.splitlines(), strict=True))
    assert {each: text.replace(" ", "") for each, text in found.items()} == {
        each: short_name(each).replace(" ", "") for each in names
    }


def test_names_that_double_with_each_letter_are_left_alone() -> None:
    """Each parameter is a template of the one before, twice: 2^40 letters."""
    name = "_Z1kI1aIiE" + "".join(f"1bIS{seen}_S{seen}_E" for seen in ["0", *"2468ACEGIKMOQSUWY"] * 3) + "EvT_"
    assert len("::".join(demangle(name))) < 10_000


def test_kernels_are_picked_by_any_name() -> None:
    names = ("_Z5scaleIfEvPT_", "_Z5scaleIiEvPT_", "_ZN3gpu4swapEPf", "plain")
    text = ".version 8.0\n.target sm_80\n" + "".join(f".visible .entry {each}()\n{{\n  ret;\n}}\n" for each in names)
    ptx = Ptx("k.ptx", text, parse_ptx(text, "k.ptx"))
    for asked, meant in (
        ("plain", "plain"),
        ("swap", "_ZN3gpu4swapEPf"),
        ("gpu::swap", "_ZN3gpu4swapEPf"),
        ("scale<int>", "_Z5scaleIiEvPT_"),
        ("scale< float >", "_Z5scaleIfEvPT_"),
        ("4swap", "_ZN3gpu4swapEPf"),
    ):
        assert pick(ptx, asked) == meant
    with pytest.raises(BadInput, match="may be any of 2 kernels"):
        pick(ptx, "scale")
    with pytest.raises(BadInput, match="no kernel `skale`"):
        pick(ptx, "skale")


def test_arrays_of_one_name_keep_their_own() -> None:
    """Two functions that were inlined have a `tile` each."""
    two = SHIFT.format(sync="").replace("tile", "_ZZ1fPfE4tile")
    text = kernel(two).replace(" tile[", " _ZZ1fPfE4tile[")
    assert "`tile`" in check(text, (32,)).findings[0].message
    both = text.replace("  .shared", "  .shared .align 4 .b8 _ZZ1gPfE4tile[64];\n  .shared")
    assert "`_ZZ1fPfE4tile`" in check(both, (32,)).findings[0].message


# --- places -------------------------------------------------------------------------------------------------------

PLACED = """.version 8.0
.entry k()
{
  mov.u32 %r1, 0;
  .loc 1 5 3
  st.shared.u32 [a], %r1;
  .loc 2 8 9, function_name $L__info_string0, inlined_at 1 6 3
  ld.shared.u32 %r2, [a];
  .loc 2 1 1, function_name $L__info_string1+4, inlined_at 2 8 9
  ld.shared.u32 %r3, [a];
  .loc 7 1 1
  ret;
}
.entry l()
{
  ret;
}
.file 1 "/home/me/k.cu"
.file 2 "/home/me/pick.h", 1, 2
"""


def test_lines_have_the_places_that_the_compiler_notes() -> None:
    found = [each and [(one.file[9:], one.line, one.column) for one in each.chain] for each in find_places(PLACED)]
    inlined = [("pick.h", 8, 9), ("k.cu", 6, 3)]
    assert found[:5] == [None] * 5
    assert found[5:7] == [[("k.cu", 5, 3)]] * 2
    assert found[7:9] == [inlined] * 2
    assert found[9:14] == [[("pick.h", 1, 1), *inlined]] * 5  # a file without a name says nothing new
    assert not any(found[14:])


def test_calls_within_calls_have_an_end() -> None:
    lines = (f".loc 1 {n + 1} 1, function_name $L0, inlined_at 1 {n} 1\n" for n in range(1, 5000))
    found = find_places('.file 1 "k.cu"\n.loc 1 1 1\n' + "".join(lines))
    assert found[-1] is not None
    assert len(found[-1].chain) == MOST_INLINED


def test_of_many_calls_the_statement_of_the_kernel_is_the_last() -> None:
    place: Place | None = None
    for line in range(9, 3, -1):
        place = Place("k.cu", line, 1, place)
    finding = Finding("TG101", "a race", (Label(Span("k.ptx", 1, 1, 2)),))
    (note,) = with_lines(finding, [None, place]).notes
    calls = "".join(f", inlined at k.cu:{line}" for line in (5, 6, 9))
    assert note == f"line 1 comes from k.cu:4{calls}"


def test_findings_in_ptx_name_the_lines_of_the_source(tmp_path: Path) -> None:
    text = kernel(SHIFT.format(sync="")) + '.file 1 "/home/me/k.cu"\n'
    text = text.replace("  st.shared", "  .loc 1 7 3\n  st.shared").replace("  ld.shared", "  .loc 1 9 3\n  ld.shared")
    (finding,) = check(text, (32,)).findings
    later, earlier = (each.at.line for each in finding.labels)
    assert f"line {later} comes from /home/me/k.cu:9" in finding.notes
    assert f"line {earlier} comes from /home/me/k.cu:7" in finding.notes
