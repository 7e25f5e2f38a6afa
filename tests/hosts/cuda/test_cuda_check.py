"""`tidegate check kernel.cu`: CUDA source through NVRTC and nvcc, each right and with its mistake."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.house.test_docs import WITH_CUDA, run_page
from tidegate import cli
from tidegate.hosts.cuda import compile as compiling
from tidegate.hosts.cuda import installed
from tidegate.hosts.cuda.installed import find_nvcc, find_nvrtc

pytestmark = pytest.mark.cuda
Run = Callable[..., tuple[int, str]]

BARRIER = "  __syncthreads();\n"
SWAP = """#include <stdint.h>
__global__ void swap(float *out, const float *in) {
  __shared__ float tile[64];
  uint32_t t = threadIdx.x;
  tile[t] = in[t];
  __syncthreads();
  out[t] = tile[t ^ 32];
}
"""
SCALE = """namespace gpu {
template <class T, int By> __global__ void scale(T *out) {
  __shared__ T tile[64];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ By];
}
}
"""
HOST = """#include <cstdio>
template <int By> __global__ void swap(float *out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ By];
}
int main() {
  float *data;
  cudaMalloc(&data, 256);
  swap<32><<<1, 64>>>(data);
  printf("%d\\n", (int)cudaDeviceSynchronize());
}
"""


@pytest.fixture(autouse=True)
def compilers() -> None:
    if find_nvrtc() is None:
        pytest.skip("NOT TESTED: NVRTC is not installed (`pip install 'tidegate[cuda]'`)")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command, in a folder with a file `k.cu` of this text."""

    def command(text: str, *args: str, name: str = "k.cu") -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        (tmp_path / name).write_text(text, encoding="utf-8")
        given = [
            each.replace("FILE", name) for each in (args if any("FILE" in one for one in args) else ("FILE", *args))
        ]
        monkeypatch.setattr("sys.argv", ["tidegate", "check", *given])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        found = capsys.readouterr()
        return int(ended.value.code or 0), found.out + found.err

    return command


def host_compiler() -> None:
    if find_nvcc() is None:
        pytest.skip("NOT TESTED: nvcc or a host compiler is not installed (`pip install 'tidegate[cuda-host]'`)")


# --- right, and with its mistake ----------------------------------------------------------------------------------


def test_a_kernel_is_proved(run: Run) -> None:
    status, said = run(SWAP, "--block", "64")
    assert status == 0
    assert said.startswith("@swap on sm_80: no findings\n  for blocks of 64 threads, 2 warps\n  compiled by NVRTC 13.0")
    assert "2 of 2 instructions that touch shared memory have exact addresses" in said
    assert "proved: no race, inversion or hang" in said


def test_a_race_stands_at_statements_of_the_source(run: Run) -> None:
    status, said = run(SWAP.replace(BARRIER, ""), "--block", "64")
    assert status == 1
    assert "error[TG101]: `tile` is read while another warp may still be writing it\n --> k.cu:6:3" in said
    assert "5 |   tile[t] = in[t];\n  |   ---------------- thread 0 (warp 0, lane 0) writes it" in said
    assert "6 |   out[t] = tile[t ^ 32];\n  |   ---------------------- thread 32 (warp 1, lane 0) reads byte 0" in said
    assert "= PTX line" in said
    assert "`ld.shared.f32 " in said


def test_documents_name_threads_warps_and_lanes(run: Run) -> None:
    text = SWAP.replace(BARRIER, "")
    _, said = run(text, "--block", "64", "--json")
    (finding,) = json.loads(said)["findings"]
    assert [(each["file"], each["line"]) for each in finding["labels"]] == [("k.cu", 6), ("k.cu", 5)]
    assert finding["witness"]["threads"] == [
        {"thread": 0, "warp": 0, "lane": 0},
        {"thread": 32, "warp": 1, "lane": 0},
    ]
    _, said = run(text, "--block", "64", "--sarif")
    (result,) = json.loads(said)["runs"][0]["results"]
    assert result["properties"]["witness"] == finding["witness"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("k.cu", 6)


def test_a_function_that_is_inlined_names_its_call(run: Run) -> None:
    text = SWAP.replace(
        "__global__", "__device__ __forceinline__ float pick(float *a, int i) {\n  return a[i];\n}\n__global__"
    )
    text = text.replace("tile[t ^ 32]", "pick(tile, t ^ 32)").replace("  __syncthreads();\n", "")
    _, said = run(text, "--block", "64")
    assert "--> k.cu:3:3" in said
    assert "= inlined at k.cu:9" in said


def test_a_header_of_the_user_is_named_as_the_user_finds_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "pick.h").write_text("__device__ float pick(float *a, int i) {\n  return a[i];\n}\n")
    text = '#include "pick.h"\n' + SWAP.replace("tile[t ^ 32]", "pick(tile, t ^ 32)").replace(
        "  __syncthreads();\n", ""
    )
    status, said = run(text, "--block", "64", "-I", "more")
    assert status == 1
    assert f"--> {os.path.join('more', 'pick.h')}:2:3" in said
    status, said = run(text, "--block", "64")
    assert status == 2
    assert 'error[TG024]: cannot open source file "pick.h"' in said


def test_what_stands_in_headers_of_cuda_is_shown_where_it_is_called(run: Run) -> None:
    text = """#include <cub/block/block_reduce.cuh>
__global__ void sum(float *data) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ Reduce::TempStorage store;
  float all = Reduce(store).Sum(data[threadIdx.x]);
  if (threadIdx.x == 0) data[0] = all;
}
"""
    assert run(text, "--block", "128")[0] == 0
    again = text.replace("  if (", "  all = Reduce(store).Sum(all);\n  if (")
    status, said = run(again, "--block", "128")
    assert status == 1  # the store is reused without a barrier
    assert "--> k.cu:6" in said or "--> k.cu:5" in said
    assert "block_reduce_warp_reductions.cuh:" in said


def test_what_the_compiler_merged_stands_at_the_function(run: Run) -> None:
    """Both arms end alike: NVRTC makes one load of the two, and gives it line 0."""
    text = """__global__ void k(float *out, const float *in, int n) {
  __shared__ volatile float a[64], b[64];
  int t = threadIdx.x;
  float found = 0;
  if (t < 40 && n != 1) {
    a[t] = in[t];
    found += a[t];
  } else {
    b[t] = in[n + t];
    found += b[t];
  }
  out[t] = found;
}
"""
    status, said = run(text, "--block", "64")
    assert status == 1
    assert "--> k.cu:1:1" in said
    assert "--> k.cu\n" not in said


# --- several kernels, and templates -------------------------------------------------------------------------------


def test_an_instance_is_compiled_because_it_is_named(run: Run) -> None:
    status, said = run(SCALE, "FILE::gpu::scale<float, 32>", "--block", "64")
    assert (status, said.partition(":")[0]) == (0, "@gpu")
    assert said.startswith("@gpu::scale<float, 32> on sm_80: no findings")
    wrong = SCALE.replace(BARRIER, "")
    status, said = run(wrong, "FILE::gpu::scale<short, 1>", "--block", "64")
    assert status == 1
    assert "error[TG108]" in said
    status, said = run(SCALE, "FILE::gpu::scale<float>", "--block", "64")
    assert status == 2
    assert "error[TG024]: `gpu::scale<float>`: " in said
    status, said = run(SCALE, "--block", "64")
    assert status == 2
    assert "`FILE::kernel<float, 4>`" in said


def test_kernels_of_a_file_by_every_name(run: Run) -> None:
    text = (
        SCALE
        + "template __global__ void gpu::scale<int, 1>(int *);\ntemplate __global__ void gpu::scale<int, 2>(int *);\n"
    )
    text += SWAP
    status, said = run(text, "--block", "64")
    assert status == 0
    assert said.count("no findings") == 3
    for name in ("swap", "_Z4swapPfPKf", "swa"):
        assert run(text, f"FILE::{name}", "--block", "64")[1].startswith("@swap on sm_80: no findings")
    assert run(text, "FILE::_ZN3gpu5scaleIiLi2EEEvPT_", "--block", "64")[1].startswith("@gpu::scale<int, 2> on")
    status, said = run(text, "FILE::scale", "--block", "64")
    assert status == 2
    assert "`scale` may be any of 2 kernels" in said
    assert "gpu::scale<int, 1>, gpu::scale<int, 2>" in said
    status, said = run(text, "FILE::swab", "--block", "64")
    assert status == 2
    assert "the file has no kernel `swab`" in said
    assert "did you mean `swap`?" in said


# --- options ------------------------------------------------------------------------------------------------------


def test_options_reach_the_compiler(run: Run, tmp_path: Path) -> None:
    text = SWAP.replace("32]", "NEXT]").replace("{\n", "{\n  static_assert(sizeof(auto(1)) == 4);\n", 1)
    assert run(text, "--block", "64")[0] == 2
    given = ("-DNEXT=4", "--std", "c++23", "--arch", "sm_90a", "--block", "64", "--keep-ptx", "out.ptx")
    given = tuple(each.replace("c++23", "c++20") for each in given)
    text = text.replace("sizeof(auto(1))", "__cplusplus / 202002L * 4")
    status, said = run(text, *given)
    assert status == 0, said
    assert "compiled by NVRTC 13.0 for sm_90a" in said
    assert ".target sm_90a" in (tmp_path / "out.ptx").read_text()
    assert "compiled by NVRTC 13.0 for sm_90\n" in run(SWAP, "--block", "64", "--target", "sm_90")[1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--arch", "gfx942"), "`--arch gfx942` is not an architecture"),
        (("--arch", "sm_12"), "invalid value for --gpu-architecture"),
        (("--std", "c++"), "is not a standard of C++"),
        (("--target", "gfx942"), "PTX is for NVIDIA GPUs"),
        (("--block", "0"), "is not a block shape"),
        ((), "how many threads does a block of `swap` have?"),
    ],
)
def test_options_that_mean_nothing_are_told(run: Run, args: tuple[str, ...], said: str) -> None:
    block = () if "--block" in args or not args else ("--block", "64")
    status, found = run(SWAP, *args, *block)
    assert status == 2
    assert said in found


def test_the_missing_shape_stands_at_the_kernel(run: Run) -> None:
    assert "--> k.cu:2:1" in run(SWAP)[1]


def test_options_of_cuda_are_for_cuda(run: Run) -> None:
    status, said = run("kernel @k() waves 4 {\n}\n", "-DN=4", name="k.tide")
    assert status == 2
    assert "are for CUDA source" in said


# --- what does not compile ----------------------------------------------------------------------------------------


def test_every_error_stands_at_its_line(run: Run) -> None:
    wrong = SWAP.replace("in[t]", "inn[t]").replace("tile[t ^ 32]", "tile[t ^ 32] + missing(t)")
    status, said = run(wrong, "--block", "64")
    assert status == 2
    assert 'error[TG024]: identifier "inn" is undefined\n --> k.cu:5:13' in said
    assert 'error[TG024]: identifier "missing" is undefined\n --> k.cu:7:27' in said


def test_the_path_to_an_instance_is_told(run: Run) -> None:
    text = "template <class T> __device__ T twice(T a) { return a.both(); }\n"
    text += "__global__ void k(float *p) { *p = twice(*p); }\n"
    _, said = run(text, "--block", "64")
    assert "--> k.cu:1:53" in said
    assert 'detected during instantiation of "T twice(T) [with T=float]" at line 2' in said


@pytest.mark.parametrize("text", ["hello, world\n", "\x7fELF", "", "int x;\n", "kernel @k() waves 4 {\n}\n"])
def test_a_file_that_is_no_cuda(run: Run, text: str) -> None:
    status, said = run(text, "--block", "64")
    assert status == 2
    assert "error[TG024]" in said or "the file has no kernel" in said


def test_a_file_of_bytes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "b.cu").write_bytes(b"__global__ void k() {}\0\xff")
    status, said = run(SWAP, "FILE", "b.cu", "--block", "64")
    assert status == 2
    assert "the file is not text" in said


def test_a_compiler_that_dies_is_a_finding(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is ended by a signal, as by a crash in the compiler."""
    real = compiling._run

    def killed(task: object, name: str, command: list[str]) -> object:
        code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
        return real(task, name, [command[0], "-c", code])  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "_run", killed)
    status, said = run(SWAP, "--block", "64")
    assert status == 2
    assert "error[TG024]: NVRTC crashed on this file: Killed" in said


def test_a_compiler_that_never_ends_is_a_finding(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "SECONDS", 0.01)
    status, said = run(SWAP, "--block", "64")
    assert status == 2
    assert "did not end within" in said


def test_a_missing_extra_is_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    monkeypatch.setattr(installed.shutil, "which", lambda _: None)
    status, said = run(SWAP, "--block", "64")
    assert status == 2
    assert "error[TG019]: CUDA source is compiled by NVRTC, which is not installed" in said
    assert "pip install 'tidegate[cuda]'" in said
    status, said = run(HOST, "--block", "64")
    assert status == 2
    assert "pip install 'tidegate[cuda-host]'" in said


def test_host_code_without_nvcc_says_what_it_takes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "find_nvcc", lambda: None)
    status, said = run(HOST, "--block", "64")
    assert status == 2
    assert "error[TG024]" in said
    assert "pip install 'tidegate[cuda-host]'" in said


OBJECT = """#include <cuda/barrier>
__global__ void swap(float *out, const float *in) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ barrier meeting;
  __shared__ float tile[64];
  int t = threadIdx.x;
  if (t == 0) init(&meeting, blockDim.x);
  __syncthreads();
  for (int k = 0; k < 100; k++) {
    tile[t] = in[t + 64 * k];
    meeting.arrive_and_wait();
    out[t + 64 * k] = tile[t ^ 32];
    meeting.arrive_and_wait();
  }
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_barrier_object_of_the_library(run: Run, arch: str) -> None:
    status, said = run(OBJECT, "--block", "64", "--arch", arch)
    assert status == 0, said
    less = OBJECT.replace("    meeting.arrive_and_wait();\n  }", "  }")
    status, said = run(less, "--block", "64", "--arch", arch)
    assert status == 1
    assert "error[TG102]" in said or "error[TG106]" in said
    _, said = run(OBJECT.replace("blockDim.x);", "32);"), "--block", "64", "--arch", arch)
    assert "not proved" in said
    assert "for other than all threads of the block" in said


# --- host code ----------------------------------------------------------------------------------------------------


def test_host_code_goes_to_nvcc(run: Run) -> None:
    host_compiler()
    status, said = run(HOST, "--block", "64")
    assert status == 0, said
    assert said.startswith("@swap<32> on sm_80: no findings")
    assert "compiled by nvcc" in said
    status, said = run(HOST.replace(BARRIER, ""), "FILE::swap<1>", "--block", "64")
    assert status == 1
    assert "error[TG108]" in said
    assert "--> k.cu:5:3" in said


LAUNCHES = """__global__ void inner(float *out) { out[threadIdx.x] = 1; }
__global__ void outer(float *out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) inner<<<1, 64>>>(out);
  out[threadIdx.x] = tile[threadIdx.x ^ 32];
}
int main() { outer<<<1, 64>>>(nullptr); }
"""


def test_kernels_that_launch_kernels(run: Run) -> None:
    host_compiler()
    status, said = run(LAUNCHES, "FILE::outer", "--block", "64")
    assert status == 0, said
    status, said = run(LAUNCHES.replace(BARRIER, ""), "FILE::outer", "--block", "64")
    assert status == 1
    assert "error[TG101]" in said


def test_what_nvcc_says_stands_at_its_line(run: Run) -> None:
    host_compiler()
    status, said = run(HOST.replace("tile[threadIdx.x] =", "tile[nowhere] ="), "--block", "64")
    assert status == 2
    assert 'error[TG024]: identifier "nowhere" is undefined\n --> k.cu:4:8' in said
    status, said = run('#include "nothere.h"\n' + HOST, "--block", "64")
    assert status == 2
    assert "error[TG024]: nothere.h: No such file or directory\n --> k.cu:1:10" in said


@pytest.mark.parametrize(
    ("text", "has"),
    [
        (SWAP, False),
        (HOST, True),
        ("// k<<<1, 2>>>();\n/* int main() */ __global__ void k() {}", False),
        ('__device__ void f() { printf("<<<"); }', True),  # texts are looked at: nvcc takes such a file as well
        ("__global__ void k(int cudaMallocs) {}", False),
    ],
)
def test_host_code_is_seen(text: str, has: bool) -> None:
    assert compiling.has_host_code(text) == has


# --- advice -------------------------------------------------------------------------------------------------------


def test_copies_of_a_barrier_go_together(run: Run) -> None:
    """The loop is unrolled: its barrier is needed between some steps, so no copy of it may be called redundant."""
    text = """__global__ void k(float *data) {
  __shared__ volatile float tile[64];
  int t = threadIdx.x;
#pragma unroll
  for (int step = 0; step < 4; step++) {
    SYNC
    if (step != 1) tile[t ^ (step << 4)] = data[t];
  }
  AGAIN
}
"""
    needed = text.replace("SYNC", "__syncthreads();").replace("AGAIN", "")
    status, said = run(needed, "--block", "64", "--advice")
    assert (status, "no barrier or wait can be reduced" in said) == (0, True)
    twice = text.replace("SYNC", "__syncthreads();\n    __syncthreads();").replace("AGAIN", "__syncthreads();")
    status, said = run(twice, "--block", "64", "--advice")
    assert status == 0
    assert said.count("warning[TG401]: this workgroup barrier is redundant") == 2
    assert "--> k.cu:10:3" in said
    assert "remove all of it" in said


# --- the pages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_CUDA)
def test_examples_do_what_the_page_says(name: str, tmp_path: Path, update: bool) -> None:
    run_page(name, tmp_path, update)


def test_the_examples_are_wrong_and_right(run: Run) -> None:
    wrong, right = (ROOT / "examples" / "cuda" / f"{name}.cu" for name in ("transpose_race", "transpose"))
    status, said = run(wrong.read_text(encoding="utf-8"), "--block", "32x8")
    assert (status, "error[TG101]" in said) == (1, True)
    status, said = run(right.read_text(encoding="utf-8"), "--block", "32x8")
    assert (status, "proved: no race" in said) == (0, True)
