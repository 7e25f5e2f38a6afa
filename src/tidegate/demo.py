"""`tidegate demo`: one kernel, from Python to its graph, in a minute.

Needs   nothing but Tidegate
Gives   text for the terminal, and 0 if every step went as told
"""

# mypy: disable-error-code="type-arg,valid-type,arg-type"
# The annotations of a kernel are values, which type checkers do not follow.

from __future__ import annotations

from collections.abc import Callable

from tidegate.diag import BadInput, Sources, show_findings, sort_findings
from tidegate.graph.build import build_graph
from tidegate.graph.plan import Insert, Plan, show_plan
from tidegate.graph.show import show_graph
from tidegate.language import api as tg
from tidegate.language.check import check
from tidegate.language.ops import Kernel, SharedMemoryBarrier
from tidegate.language.parse import parse
from tidegate.language.regions import iterate
from tidegate.language.show import show
from tidegate.language.trace import Global, kernel
from tidegate.language.types import f16, f32
from tidegate.passes import Checked, Unit, run_stages, show_judgement
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
    steps = (_show_kernel, _run_kernel, _judge_kernel, _break_kernel, _show_graph, _edit)
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
    assert good.judgement is not None
    say("3. Is it right for other sizes, and whoever is faster? `tidegate check`:\n")
    say(f"   {len(good.findings)} findings\n   " + show_judgement(good.judgement).replace("\n", "\n   ") + "\n")
    text = show(gemm.trace().kernel).replace("    shared_memory_barrier\n", "")
    found = _check(text, "racy.tide").findings
    wrong = sum(_run(parse(text).kernels[0], seed) > 1e-3 for seed in range(20))
    say(f"   Without its barrier, {wrong} of 20 such runs give other numbers. `check` needs no luck; it says first:\n")
    say(show_findings(sort_findings(found)[:1], Sources({"racy.tide": text})) + "\n")
    return not good.findings and {each.code for each in found} == {"TG101", "TG102"} and wrong > 0


def _check(text: str, name: str) -> Checked:
    program = parse(text, name).kernels[0]
    unit = Unit(program.name, load_target(program.target), program, None)
    return run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None)


def _break_kernel(say: Print) -> bool:
    say("4. Two other mistakes, found without running anything: a buffer that is too small, and a barrier that only")
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
    say("5. What synchronization depends on, whatever a kernel was written in: its SyncGraph (the loop's points).\n")
    for line in lines:
        if " loop 0" in line:
            say("   " + line.strip())
    say("")
    return True


def _edit(say: Print) -> bool:
    from tidegate.graph.apply import apply_plan

    built = build_graph(gemm.trace().kernel, load_target(default_target()))
    end = next(number for number, point in enumerate(built.graph.points) if point.label == "next")
    plan = Plan((Insert(end, SharedMemoryBarrier(), ("an example: this barrier is not needed",)),))
    edited = apply_plan(plan, built)
    say("6. A plan is a list of edits with reasons; it applies to the kernel and gives a kernel.\n")
    say("   " + show_plan(plan))
    barriers = show(edited).count("shared_memory_barrier")
    say(f"   Barriers before and after: 1 and {barriers}. Targets that come with Tidegate: {len(list_targets())}.")
    return barriers == 2
