"""`explain`, `draw`, `sync` and documents for CUDA source: at its statements, with the launch that was stated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidegate as tg
from tests.hosts.cuda.test_cuda_check import BARRIER, SWAP, Run, compilers
from tidegate import cli

__all__ = ["compilers"]
pytestmark = pytest.mark.cuda

COPIES = """#include <cuda_pipeline.h>
__global__ void ring(float *c, const float *a, int n) {
  __shared__ float as[3][256];
  int x = threadIdx.x;
  float s = 0;
  __pipeline_memcpy_async(&as[0][x], &a[x], 4);
  __pipeline_commit();
  __pipeline_memcpy_async(&as[1][x], &a[256 + x], 4);
  __pipeline_commit();
#pragma unroll 1
  for (int k = 0; k < n; ++k) {
    __pipeline_wait_prior(0);
    __syncthreads();
    __pipeline_memcpy_async(&as[(k + 2) % 3][x], &a[(k + 2) * 256 + x], 4);
    __pipeline_commit();
    s += as[k % 3][255 - x];
  }
  c[x] = s;
}
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Any command, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def command(*args: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        found = capsys.readouterr()
        return int(ended.value.code or 0), found.out + found.err

    return command


def test_explain_speaks_of_statements(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SWAP)
    status, said = run("explain", "k.cu", "--block", "64")
    assert status == 0
    assert "6 | __syncthreads();" in said
    assert "serves   TG101  %tile  5 → 7  threads 0 and 32" in said


def test_a_statement_that_was_unrolled_is_one_barrier(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(COPIES.replace("#pragma unroll 1\n", ""))
    status, said = run("explain", "k.cu", "--block", "256")
    assert status == 0
    assert "1 barrier, 1 needed" in said
    assert "line 11: cp.async.wait_group 0" in said
    assert "could be wait_group 1" in said


def test_draw_shows_the_source(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SWAP)
    assert run("draw", "k.cu", "--block", "64", "-o", "k.html")[0] == 0
    page = (tmp_path / "k.html").read_text()
    assert "tile[t] = in[t];" in page
    report = tg.draw(tmp_path / "k.cu", block="64")
    (only,) = report.data["programs"]
    assert [(each["from"], each["to"], each["state"]) for each in only["hazards"]] == [(5, 7, "ordered")]


def test_the_document_states_the_launch(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SWAP.replace("= in[t]", "= in[blockIdx.x * 64 + t]"))
    status, said = run("check", "k.cu", "--block", "64", "--grid", "16", "--json")
    assert status == 0
    taken = json.loads(said)["verified"][0]["taken"]
    assert taken[:2] == ["for blocks of 64 threads, 2 warps", "for grids of 16 blocks"]
    assert taken[2].startswith("compiled by NVRTC")


def test_a_ring_is_loosened_and_a_missing_barrier_named_in_the_source(run: Run, tmp_path: Path) -> None:
    """PTX that NVRTC made: the wait leaves a copy in flight; without its barrier, the place in the source is said."""
    (tmp_path / "k.cu").write_text(COPIES)
    assert run("check", "k.cu", "--block", "256", "--keep-ptx", "k.ptx")[0] == 0
    status, said = run("sync", "k.ptx", "--block", "256", "-o", "out.ptx")
    assert status == 0
    assert "changed 1 `cp.async.wait_group 1;`" in said
    before, after = ((tmp_path / name).read_text() for name in ("k.ptx", "out.ptx"))
    assert after == before.replace("wait_group 0;", "wait_group 1;")
    assert run("sync", "out.ptx", "--block", "256", "-o", "again.ptx")[0] == 0
    assert (tmp_path / "again.ptx").read_text() == after

    (tmp_path / "k.cu").write_text(SWAP.replace(BARRIER, ""))
    assert run("check", "k.cu", "--block", "64", "--keep-ptx", "k.ptx")[0] == 1
    status, said = run("sync", "k.ptx", "--block", "64", "-o", "out.ptx")
    assert status == 0
    assert "in the source it belongs before k.cu:6" in said
    assert run("check", "out.ptx", "--block", "64")[0] == 0
