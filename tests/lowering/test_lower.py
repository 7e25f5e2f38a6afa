"""Kernels as LLVM IR: what cannot be built, and what the manifest says. No compiler is needed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate import cli
from tidegate.diag import BadInput
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.lowering.compared import compare_with_plan
from tidegate.lowering.lower import LoweredKernel, lower
from tidegate.lowering.manifest import grid_of, manifest_of, read_manifest, sizes_of
from tidegate.targets import load_target

Run = Callable[..., tuple[int, str]]
HEAD = (
    "kernel @k(%X: global<MxNxf32>, %Y: global<MxNxf32>) sizes(M = 8, N = 64) where(N mod 64 == 0) grid(M) waves 4 {{\n"
)
ROW = "  %x = global_read %X[wg0, 0] : tile<64xf32>\n"


def kernel(body: str, head: str = HEAD) -> Kernel:
    (found,) = parse(head.replace("{{", "{") + body + "}\n", "k.tide").kernels
    return found


def refused(body: str, target: str) -> str:
    with pytest.raises(BadInput) as caught:
        lower(kernel(body), load_target(target))
    (finding,) = caught.value.findings
    assert finding.code == "TG025"
    return finding.message


@pytest.mark.parametrize(
    ("body", "target", "says"),
    [
        ("  signal -1\n" + ROW + "  wait -1\n", "sm_80", "a signal without its wait behind it"),
        ("  wait_count vmcnt(0)\n", "sm_80", "a wait for `vmcnt`"),
        ("  wait_count asynccnt(0)\n", "gfx942", "a wait for `asynccnt`"),
        ("  wait_count group(0)\n", "gfx1250", "a wait for `group`"),
        ("  %b = new_barrier : mbarrier<4>\n", "gfx942", "an mbarrier"),
        ("  commit_group\n", "gfx942", "`CommitGroup`"),
        (
            "  %l = alloc : lds<3x64xf32>\n  gather_to_lds %X[wg0, 0] to %l[0, 0] : tile<3x64xf32>\n",
            "sm_80",
            "a copy of a tile with sides that are no powers of two",
        ),
        (
            "  %l = alloc : lds<8x1xf16>\n  %h = fill 0.0 : tile<8x1xf16>\n  local_write %h, %l\n"
            "  %r = reshape %h : tile<8xf16>\n  %f = fill 0.0 : tile<12xf16>\n  %g = reshape %f : tile<3x4xf16>\n",
            "sm_80",
            "a reshaped tile with sides that are no powers of two",
        ),
    ],
)
def test_what_cannot_be_built_is_a_finding_at_its_operation(body: str, target: str, says: str) -> None:
    assert refused(body, target).startswith(says)


ACROSS = "%s = reduce add %x axis 0 : tile<1xf32>\n"


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize(
    "body",
    [
        f"  conditional lane < 7 {{ {ACROSS} }}\n",
        f"  conditional lane < 7 {{ exit }}\n  {ACROSS}",
        f"  conditional lane < 7 {{ conditional wave < 1 {{ {ACROSS} }} }}\n",
    ],
)
def test_lanes_that_are_elsewhere_take_part_in_nothing(body: str, target: str) -> None:
    """A shuffle that not all lanes of a wave carry out is not defined."""
    assert refused(ROW + body, target).startswith("a move between lanes under a condition")
    whole = body.replace("lane < 7", "wave < 2")
    assert lower(kernel(ROW + whole), load_target(target)).text


def lowered(target: str = "sm_80") -> tuple[Kernel, LoweredKernel]:
    found = kernel(ROW + "  global_write %x, %Y[wg0, 0] bounds(M, N)\n")
    return found, lower(found, load_target(target))


def test_the_manifest_says_how_a_kernel_is_launched(tmp_path: Path) -> None:
    found, made = lowered()
    manifest = manifest_of(found, made, load_target("sm_80"))
    path = tmp_path / "k.json"
    path.write_text(manifest.text(), encoding="utf-8")
    assert read_manifest(path) == manifest
    shapes = {"X": (16, 128), "Y": (16, 128)}
    sizes = sizes_of(manifest, shapes, {})
    assert sizes == {"M": 16, "N": 128}
    assert grid_of(manifest, sizes) == (16, 1, 1)
    assert manifest.threads == 128


@pytest.mark.parametrize(
    ("shapes", "given", "says"),
    [
        ({"X": (16, 128), "Y": (16, 64)}, {}, "has the shape (16, 64), where `N` is 128"),
        ({"X": (16, 128), "Y": (16,)}, {}, "has 1 dimensions, and the kernel asks for 2"),
        ({"X": (16, 100), "Y": (16, 100)}, {}, "break the assumption `N mod 64 == 0`"),
        ({"X": (16, 128), "Y": (16, 128)}, {"M": 8}, "where `M` is 8"),
    ],
)
def test_arrays_that_do_not_fit(shapes: dict[str, tuple[int, ...]], given: dict[str, int], says: str) -> None:
    found, made = lowered()
    with pytest.raises(BadInput) as caught:
        sizes_of(manifest_of(found, made, load_target("sm_80")), shapes, given)
    assert says in caught.value.findings[0].message


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"edition": 99}'])
def test_a_file_that_is_no_manifest(text: str, tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput):
        read_manifest(path)


# --- what the comparison sees -------------------------------------------------------------------------------------

SYNCED = kernel(
    "  %l = alloc : lds<64xf32, slots = 2>\n"
    "  gather_to_lds %X[wg0, 0] to %l[0][0] : tile<64xf32>\n"
    "  commit_group\n"
    "  shared_memory_barrier group(0)\n"
    "  fence wave\n"
    "  workgroup_barrier\n"
)
ASSEMBLY = "\n".join(
    f".loc 1 {line} 1\n{text}"
    for line, text in (
        (4, "cp.async.commit_group;"),
        (5, "cp.async.wait_group 0;\nbar.sync 0;"),
        (6, "bar.warp.sync -1;"),
        (7, "bar.sync 0;"),
    )
)


@pytest.mark.parametrize(
    ("before", "after", "missing"),
    [
        ("cp.async.commit_group;", "nop;", "commit_group"),
        ("cp.async.wait_group 0;", "cp.async.wait_group 1;", "shared_memory_barrier"),
        ("cp.async.wait_group 0;\nbar.sync 0;", "cp.async.wait_group 0;", "shared_memory_barrier"),
        ("bar.warp.sync -1;", "nop;", "fence"),
        ("bar.sync 0;", "nop;", "shared_memory_barrier workgroup_barrier"),
    ],
)
def test_an_instruction_that_is_missing_is_seen(before: str, after: str, missing: str) -> None:
    target = load_target("sm_80")
    assert not list(compare_with_plan(SYNCED, ASSEMBLY, target))
    found = compare_with_plan(SYNCED, ASSEMBLY.replace(before, after), target)
    assert " ".join(each.operation for each in found) == missing


def test_counts_of_amd_may_be_smaller_but_not_larger() -> None:
    """LLVM joins waits: a smaller count leaves less under way."""
    body = kernel("  wait_count vmcnt(2)\n  set_wave_prio 1\n")
    for text, good in (("s_waitcnt vmcnt(2)", True), ("s_waitcnt vmcnt(0)", True), ("s_waitcnt vmcnt(3)", False)):
        assembly = f".loc 1 2 1\n{text}\n.loc 1 3 1\ns_setprio 1\n"
        assert (not list(compare_with_plan(body, assembly, load_target("gfx942")))) is good


# --- the command, as far as it needs no compiler ------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def main(*given: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", *given])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return main


@pytest.mark.parametrize("name", ["graph.sync", "kernel.ptx", "kernel.ttgir"])
def test_what_holds_no_kernel_is_refused(name: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("", encoding="utf-8")
    status, said = run("build", str(path))
    assert status == 2
    assert "holds no kernel of the language" in said


def test_a_kernel_that_is_not_proved_is_not_built(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "k.ptx"
    status, said = run("build", "examples/broken/missing_barrier.tide", "-t", "sm_80", "-o", str(out))
    assert status == 1
    assert "not built: the kernel is not proved" in said
    assert not out.exists()
    assert "TG101" in said


def test_a_run_on_a_gpu_says_what_is_missing(run: Run) -> None:
    if importlib.util.find_spec("cupy") is not None:
        pytest.skip("NOT TESTED: CuPy is installed here")
    status, said = run("run", "examples/softmax.tide", "-t", "sm_80", "--on", "gpu")
    assert status == 2
    assert "CuPy is not installed" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--on", "moon"], "runs on `simulator` or `gpu`"), (["--on", "gpu", "--in-order"], "belong to the simulator")],
)
def test_options_of_a_run_that_do_not_go_together(options: list[str], says: str, run: Run) -> None:
    status, said = run("run", "examples/softmax.tide", *options)
    assert status == 2
    assert says in said
