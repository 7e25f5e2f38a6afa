"""Random CUDA kernels through NVRTC: what a run of all threads shows to be wrong is never proved.

`oracles.cuda_threads` carries out each thread of the PTX by itself, on Python's numbers, and shares no code with the
evaluator.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oracles.cuda_threads import Kernel, Unknown, is_wrong, kernels_of
from oracles.programs import random_cuda, random_rounds
from oracles.programs.random_cuda import HEAD, Made
from tidegate.diag import Sources
from tidegate.files import Loaded
from tidegate.hosts.cuda.compile import compile_cuda
from tidegate.hosts.cuda.installed import find_nvrtc
from tidegate.hosts.cuda.options import CudaOptions
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.program import Ptx
from tidegate.passes import check_session
from tidegate.session import sessions_of

pytestmark = pytest.mark.cuda
ARGUMENTS = (0, 1, 2, 3, 5, 8)
AT_ONCE = 50  # kernels of one file
# Those that are enough alone to show that the run of all threads sees a race, and that it sees none.
RACE = """extern "C" __global__ void k(float *out, const float *in, int n) {
  __shared__ volatile float a[64];
  BODY
}
"""


def compiled(text: str) -> tuple[str, dict[str, Kernel]]:
    if find_nvrtc() is None:
        pytest.skip("NOT TESTED: NVRTC is not installed (`pip install 'tidegate[cuda]'`)")
    ptx = compile_cuda(HEAD + text, "random.cu", CudaOptions()).ptx
    return ptx, {each.name: each for each in kernels_of(ptx)}


def wrong_with(kernel: Kernel, block: tuple[int, int, int]) -> str:
    return next((found for n in ARGUMENTS if (found := is_wrong(kernel, block, n))), "")


def verdicts(seeds: range, make: Callable[[int], Made] = random_cuda.make) -> list[tuple[str, bool]]:
    """What is wrong with each kernel, and whether it is proved."""
    found = []
    for first in range(seeds.start, seeds.stop, AT_ONCE):
        made = [make(seed) for seed in range(first, min(first + AT_ONCE, seeds.stop))]
        text, kernels = compiled("\n".join(each.text for each in made))
        module = parse_ptx(text, "random.ptx")
        for each in made:
            ptx = Ptx("random.ptx", text, module, chosen=each.name, block=each.block)
            (unit,) = sessions_of(Loaded("random.ptx", (), None, Sources({}), ptx=ptx), None)
            is_proved = check_session(unit).is_proved
            found.append((judged(each, kernels[each.name]), is_proved))
            assert not (is_proved and found[-1][0]), f"{each.name}: {found[-1][0]}\n{each.text}"
    return found


def judged(made: Made, kernel: Kernel) -> str:
    try:
        return wrong_with(kernel, made.block)
    except Unknown as unknown:
        raise AssertionError(f"{made.name}: {unknown}\n{made.text}") from None


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("a[threadIdx.x] = in[threadIdx.x]; out[threadIdx.x] = a[threadIdx.x ^ 32];", "race"),
        ("a[threadIdx.x] = in[threadIdx.x]; __syncthreads(); out[threadIdx.x] = a[threadIdx.x ^ 32];", ""),
        ("a[threadIdx.x] = in[threadIdx.x]; __syncwarp(); out[threadIdx.x] = a[threadIdx.x ^ 1];", ""),
        ("a[threadIdx.x] = in[threadIdx.x]; __syncwarp(); out[threadIdx.x] = a[threadIdx.x ^ 32];", "race"),
        ("if (n > 2) atomicAdd((float *)&a[0], 1.f); else out[0] = a[threadIdx.x];", ""),
        ("atomicAdd((float *)&a[n % 4], 1.f); out[0] = a[threadIdx.x];", "race"),
        ("for (int k = 0; k < n; k++) { a[(threadIdx.x + k) % 64] = 1; __syncthreads(); }", ""),
        ("for (int k = 0; k < n; k++) a[(threadIdx.x + k) % 64] = k;", "race"),
        ("a[threadIdx.x] = 1; if (n > 1) __trap(); out[0] = a[threadIdx.x];", ""),
        ("a[threadIdx.x] = 1; if (n > 1) __trap(); out[0] = a[threadIdx.x ^ 1];", "race"),
        ("if (threadIdx.x < 7) __syncthreads(); a[threadIdx.x] = 1; out[threadIdx.x] = a[threadIdx.x];", ""),
    ],
)
def test_the_run_of_all_threads_sees_what_is_wrong(body: str, wrong: str) -> None:
    """The judge is judged: without races in its answers, the tests below would pass."""
    _, kernels = compiled(RACE.replace("BODY", body))
    assert wrong_with(kernels["k"], (64, 1, 1)).partition(" ")[0] == wrong


def test_nothing_wrong_is_proved() -> None:
    found = verdicts(range(30))
    assert sum(bool(wrong) for wrong, _ in found) >= 6
    assert sum(is_proved for _, is_proved in found) >= 15


@pytest.mark.slow
def test_nothing_wrong_is_proved_of_many(request: pytest.FixtureRequest) -> None:
    found = verdicts(range(1000, 1000 + (request.config.getoption("--count") or 60)))
    right = [is_proved for wrong, is_proved in found if not wrong]
    assert len(right) <= 0.75 * len(found)
    assert sum(right) >= 0.9 * len(right)


def test_nothing_wrong_about_counters_is_proved() -> None:
    """Remainders, heads and tails, strides, launches that abort."""
    found = verdicts(range(30), random_rounds.make)
    assert sum(bool(wrong) for wrong, _ in found) >= 6
    right = [is_proved for wrong, is_proved in found if not wrong]
    assert sum(right) >= 0.8 * len(right)


@pytest.mark.slow
def test_nothing_wrong_about_counters_is_proved_of_many(request: pytest.FixtureRequest) -> None:
    found = verdicts(range(1000, 1000 + (request.config.getoption("--count") or 60)), random_rounds.make)
    right = [is_proved for wrong, is_proved in found if not wrong]
    assert sum(right) >= 0.8 * len(right)
