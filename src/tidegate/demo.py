"""`tidegate demo`: one kernel, from Python to its graph, with and without its barriers, in a minute.

Needs   nothing but Tidegate
Gives   text for the terminal, and 0 if every step went as told
"""

# mypy: disable-error-code="type-arg,valid-type,arg-type"
# The annotations of a kernel are values, which type checkers do not follow.

from __future__ import annotations

from collections.abc import Callable

from tidegate.diag import BadInput, Sources, show_findings, sort_findings
from tidegate.graph.build import build_graph
from tidegate.graph.show import show_graph
from tidegate.hazards.show import show_hazards
from tidegate.language import api as tg
from tidegate.language.check import check
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.language.regions import iterate
from tidegate.language.show import show
from tidegate.language.trace import Global, kernel
from tidegate.language.types import f16, f32
from tidegate.passes import Checked, Unit, run_stages, show_decided
from tidegate.synchronize import synchronize, write_programs
from tidegate.targets import default_target, list_targets, load_target

Print = Callable[[str], None]
M, N, K = tg.sizes(M=64, N=64, K=128)


@kernel(
    waves=4, target=default_target(), grid=(M // 64, N // 64), where=[M % 64 == 0, N % 64 == 0, K % 32 == 0, K >= 32]
)
def gemm(A: Global[M, K, f16], B: Global[N, K, f16], C: Global[M, N, f32]) -> None:
    """C = A · Bᵀ through two slots of shared memory, one barrier an iteration."""
    a = tg.alloc((64, 32), f16, slots=2)
    b = tg.alloc((64, 32), f16, slots=2)
    wave = tg.wave()
    acc = tg.zeros((32, 32), f32)
    for k in iterate(K // 32):
        tg.local_write(tg.global_read(A, (wave * 16, k * 32), (16, 32)), a, (wave * 16, 0), slot=k % 2)
        tg.local_write(tg.global_read(B, (wave * 16, k * 32), (16, 32)), b, (wave * 16, 0), slot=k % 2)
        tg.shared_memory_barrier()
        a_tile = tg.local_read(a, (wave // 2 * 32, 0), (32, 32), slot=k % 2)
        b_tile = tg.local_read(b, (wave % 2 * 32, 0), (32, 32), slot=k % 2)
        acc = tg.mma(a_tile, b_tile.T, acc)
    tg.global_write(acc, C, (wave // 2 * 32, wave % 2 * 32))


def run_demo(say: Print) -> int:
    """The steps in order; the first that fails ends it."""
    steps = (_show_kernel, _run_kernel, _judge_kernel, _synchronize, _break_kernel, _show_graph)
    try:
        good = all(step(say) for step in steps)
    except BadInput as bad:
        say(show_findings(bad.findings, Sources()))
        return 2
    say("" if good else "\nThe demo did not go as told: this is a mistake of Tidegate's own.")
    return 0 if good else 3


def _show_kernel(say: Print) -> bool:
    program = gemm.trace().kernel
    text = show(program)
    say("1. A kernel, traced from Python: a GEMM of four waves through two slots of shared memory.\n")
    say(text)
    same = parse(text).kernels == (program,)
    say(f"   It parses back to the same kernel: {same}.\n")
    return same


def _run_kernel(say: Print) -> bool:
    errors = [_run(gemm.trace().kernel, seed) for seed in range(3)]
    say("2. Run on a machine that delays whatever its target lets it delay, with three seeds, against NumPy:")
    say(f"   largest difference {max(errors):.2g}.\n")
    return max(errors) < 1e-3


def _run(program: Kernel, seed: int) -> float:
    """How far the result is from NumPy's."""
    import numpy as np

    from tidegate.simulate.hostile import run_hostile
    from tidegate.simulate.inorder import make_inputs

    inputs = make_inputs(program, seed=seed)
    result = run_hostile(program, inputs, target=load_target(program.target), seed=seed).arrays["C"]
    expected = inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T
    return float(np.nan_to_num(np.max(np.abs(result - expected)), nan=np.inf))


def _judge_kernel(say: Print) -> bool:
    """Right as it is; without its barrier it races, though not every run shows that."""
    good = _check(show(gemm.trace().kernel), "gemm.tide")
    say("3. Is it right for other sizes, and whoever is faster? `tidegate check`:\n")
    say(f"   {len(good.findings)} findings\n   " + show_decided(good).replace("\n", "\n   ") + "\n")
    text = _strip(gemm.trace().kernel)
    found = _check(text, "racy.tide").findings
    wrong = sum(_run(parse(text).kernels[0], seed) > 1e-3 for seed in range(20))
    say(f"   Without its barrier, {wrong} of 20 such runs give other numbers. `check` needs no luck; it says first:\n")
    say(show_findings(sort_findings(found)[:1], Sources({"racy.tide": text})) + "\n")
    return not good.findings and {each.code for each in found} == {"TG101", "TG102"} and wrong > 0


def _check(text: str, name: str) -> Checked:
    program = parse(text, name).kernels[0]
    unit = Unit(program.name, load_target(program.target), program, None)
    return run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None)


def _strip(program: Kernel) -> str:
    """The kernel's text without a single barrier."""
    return "".join(line for line in show(program).splitlines(keepends=True) if "barrier" not in line)


def _synchronize(say: Print) -> bool:
    """Barriers are taken away and put back, in the text as it is, with reasons."""
    text = _strip(gemm.trace().kernel)
    program = parse(text, "bare.tide").kernels[0]
    result = synchronize(Unit(program.name, load_target(program.target), program, None))
    assert result.placed is not None
    assert result.checked is not None
    say("4. Who puts the barriers in? `tidegate sync`, given that text without any: the hazards it finds, then what it")
    say("   makes of the loop. Each barrier says why it stands.\n")
    assert result.hazards is not None
    say("   " + show_hazards(result.hazards).rstrip().replace("\n", "\n   ") + "\n")
    lines = write_programs([result], text, "bare.tide").splitlines()
    start = next(number for number, line in enumerate(lines) if "iterate" in line)
    end = next(number for number, line in enumerate(lines) if line == "  }")
    say("\n".join(lines[start : end + 1]) + "\n")
    say(f"   weight {result.placed.weight:g}, judged again: {len(result.checked.findings)} findings")
    say("   " + show_decided(result.checked).replace("\n", "\n   "))
    same = result.kernel == gemm.trace().kernel
    say(f"   The same kernel as written by hand: {same}. Targets to choose from: {len(list_targets())}.\n")
    return not result.checked.findings and same


def _break_kernel(say: Print) -> bool:
    say("5. Two other mistakes, found without running anything: a buffer that is too small, and a barrier that only")
    say("   some waves reach.\n")
    text = show(gemm.trace().kernel).replace("lds<64x32xf16, slots = 2>", "lds<48x32xf16, slots = 2>", 1)
    text = text.replace(
        "    shared_memory_barrier\n", "    conditional wave < 2 {\n      shared_memory_barrier\n    }\n"
    )
    found = [
        each for kernel in parse(text, "broken.tide").kernels for each in check(kernel, load_target(default_target()))
    ]
    say(show_findings(found, Sources({"broken.tide": text})))
    say("")
    return {each.code for each in found} == {"TG202", "TG301"}


def _show_graph(say: Print) -> bool:
    built = build_graph(gemm.trace().kernel, load_target(default_target()))
    lines = show_graph(built.graph).splitlines()
    say("6. What synchronization depends on, whatever a kernel was written in: its SyncGraph (the loop's points).\n")
    for line in lines:
        if " loop 0" in line:
            say("   " + line.strip())
    say("")
    return True
