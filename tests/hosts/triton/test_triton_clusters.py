"""Workgroups of a cluster, `num_ctas` > 1, share memory, which no graph says: nothing is proved of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.cli import main
from tidegate.hosts.triton import libtriton

if not libtriton.is_installed():
    pytest.skip(
        "NOT TESTED: these texts are in Triton's syntax, and Triton is not installed; `pip install tidegate[triton]`",
        allow_module_level=True,
    )

import tidegate.triton
from tidegate.triton import FallbackWarning

Run = Callable[..., tuple[str, int]]
ADVICE = ("check", "--advice", "k.ttgir")
WHY = "not proved: workgroups of a cluster, which are not modelled"
M = "!ttg.memdesc<64x64xf32, #shared, #smem, mutable>"
TEXT = f"""\
#row = #ttg.blocked<{{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]CGA}}>
#col = #ttg.blocked<{{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]CGA}}>
#shared = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]CGA}}>
#smem = #ttg.shared_memory
module attributes {{"ttg.num-ctas" = COUNT : i32, "ttg.num-warps" = 4 : i32, SHAREDttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @k(%from: tensor<64x64x!tt.ptr<f32>, #row>, %to: tensor<64x64x!tt.ptr<f32>, #col>) {{
    %tile = ttg.local_alloc PLACE: () -> {M}
    %a = tt.load %from : tensor<64x64x!tt.ptr<f32>, #row>
    ttg.local_store %a, %tile : tensor<64x64xf32, #row> -> {M}
    %b = ttg.local_load %tile : {M} -> tensor<64x64xf32, #col>
    tt.store %to, %b : tensor<64x64x!tt.ptr<f32>, #col>
    tt.return
  }}
}}
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def run(text: str, *args: object) -> tuple[str, int]:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "k.ttgir").write_text(text, encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["tidegate", *map(str, args)])
        with pytest.raises(SystemExit) as done:
            main()
        return "".join(capsys.readouterr()), int(done.value.code or 0)

    return run


def text(count: int, *, laid_out: bool = False) -> str:
    cga = ", CGALayout = [[0, 0]]" if count == 2 else ""
    place = "{allocation.offset = 0 : i32} " if laid_out else ""
    shared = "ttg.shared = 16384 : i32, " if laid_out else ""
    return TEXT.replace("CGA", cga).replace("COUNT", str(count)).replace("PLACE", place).replace("SHARED", shared)


@pytest.mark.parametrize("verb", ["check", "sync"])
def test_nothing_is_proved_of_a_cluster(verb: str, command: Run) -> None:
    """`sync` said proved, of one workgroup alone."""
    out, status = command(text(1), verb, "k.ttgir")
    assert (status, "\n  proved: no race" in out) == (0, True), out
    out, status = command(text(2), verb, "k.ttgir")
    assert status == 0, out
    assert WHY in out
    assert "warning[TG407]" in out
    assert "  proved" not in out


def test_a_race_inside_a_workgroup_is_found_all_the_same(command: Run) -> None:
    out, status = command(text(2, laid_out=True), "check", "k.ttgir")
    assert status == 1, out
    assert "error[TG101]" in out
    assert "  proved" not in out


def test_no_barrier_of_a_cluster_is_called_needless(command: Run) -> None:
    twice = text(2).replace("    %b =", "    ttg.barrier local\n    ttg.barrier local\n    %b =")
    out, status = command(twice, *ADVICE)
    assert (status, "TG401" in out, "advice: none, workgroups of a cluster" in out) == (0, False, True), out
    out, _ = command(twice.replace(", CGALayout = [[0, 0]]", "").replace('ctas" = 2', 'ctas" = 1'), *ADVICE)
    assert "warning[TG401]" in out


def test_the_drop_in_leaves_a_cluster_to_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "ttgir"))
    import kernels

    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "i32", **dict.fromkeys(("BM", "BN", "BK"), "constexpr")}
    source = ASTSource(kernels.gemm, types, {"BM": 64, "BN": 64, "BK": 32})
    tidegate.triton.clear_report()
    options = {"num_ctas": 2, "enable_fp_fusion": True, "ptx_version": 86}
    with tidegate.triton.enabled(verify=True), pytest.warns(FallbackWarning, match="workgroups of a cluster"):
        triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    (entry,) = tidegate.triton.report().entries
    assert "workgroups of a cluster" in entry.why_not
    sys.modules.pop("kernels", None)
