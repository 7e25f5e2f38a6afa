"""The machine that runs Wave traces: right kernels give their reference, kernels with too few barriers do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles.wave_kernels import cases

try:
    import wave_lang.kernel  # noqa: F401
except ImportError:
    pytest.skip(
        "NOT TESTED: the machine for Wave traces needs Wave, which is not installed; "
        "`pip install wave-lang==3.9.1 torch==2.13.0`",
        allow_module_level=True,
    )

import sympy
from wave_lang.kernel.ops.wave_ops import SharedMemoryBarrier, WorkgroupBarrier, get_custom

from bench.wave_run import Row, compare, compile_with, judge, strip
from oracles import wave_machine as machine
from oracles.wave_machine import CannotRun, Program, Ran, make_inputs
from oracles.wave_machine.arithmetic import shuffle, turn_rows
from oracles.wave_machine.barriers import Rendezvous
from oracles.wave_machine.expressions import compile_expression
from oracles.wave_machine.timing import Access, Queues

CASES = {case.name: case for case in cases()}
LATE = (("late", 3),)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


def with_program(name: str, target: str, use: Callable[[Program, Any], None]) -> None:
    """Calls `use` with the kernel as Wave synchronizes it, and raises what it raises."""
    raised: list[Exception] = []

    def look(trace: Any, constraints: list[Any], options: Any) -> None:
        try:
            use(Program(trace, constraints, options), trace)
        except Exception as error:
            raised.append(error)

    compile_with(CASES[name], target, look)
    if raised:
        raise raised[0]


# --- kernels that are right ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gemm-small", "gfx942"),
        ("gemm-small", "gfx1201"),
        ("gemm-async-prefetch-2", "gfx950"),
        ("gemm-async-none", "gfx1250"),
        ("one-writes", "gfx942"),
        ("single-wave-reverse", "gfx950"),
        ("softmax-4", "gfx942"),
    ],
)
def test_a_kernel_with_enough_barriers_gives_its_reference(name: str, target: str) -> None:
    assert judge(CASES[name], target) == Row(name, target, "equal")


# --- kernels that are not -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gemm-none", "one-writes", "softmax-4", "row-sum-4"])
def test_without_barriers_a_kernel_gives_something_else(name: str) -> None:
    assert judge(CASES[name], "gfx942", before_run=strip, runs=LATE).verdict == "differs"


def test_waves_that_write_what_they_read_need_barriers_for_the_next_step_only() -> None:
    """Each wave of this kernel writes all that it reads, so what goes wrong is a matter of pace."""
    assert judge(CASES["gemm-small"], "gfx942", before_run=strip, runs=LATE).verdict == "equal"
    assert judge(CASES["gemm-small"], "gfx942", before_run=strip, runs=(("random", 14),)).verdict == "differs"


def guard_reads(trace: Any, constraints: list[Any], options: Any) -> None:
    """A second barrier, at the end of each step of a loop."""
    for graph in trace.region_graph.subgraphs.values():
        last = next(reversed(graph.nodes))
        if graph is not trace.get_root_graph():
            with graph.inserting_before(last):
                SharedMemoryBarrier().add_to_graph(graph)


def test_passing_around_needs_a_barrier_that_wave_does_not_place() -> None:
    assert judge(CASES["pass-around"], "gfx942").verdict == "differs"
    assert judge(CASES["pass-around"], "gfx942", before_run=guard_reads).verdict == "equal"


def arrive_in_one_wave(trace: Any, constraints: list[Any], options: Any) -> None:
    """One barrier more, in the branch that only the first wave takes."""
    for graph in trace.region_graph.subgraphs.values():
        if graph is not trace.get_root_graph():
            with graph.inserting_before(next(reversed(graph.nodes))):
                WorkgroupBarrier().add_to_graph(graph)


def test_a_barrier_that_one_wave_meets_is_a_hang() -> None:
    row = judge(CASES["one-writes"], "gfx942", before_run=arrive_in_one_wave)
    assert row.verdict == "hang"
    assert "wave 0 at" in row.why


# --- runs ---------------------------------------------------------------------------------------------------------


def test_copies_that_a_held_back_half_has_in_flight_are_read_by_the_other_half() -> None:
    """Wave drains no copies before half of the waves go on: they read what the others have not yet copied."""
    assert judge(CASES["pingpong-async-2"], "gfx950", runs=(("copies-late", 2),)).verdict == "differs"


def make_bare(trace: Any, constraints: list[Any], options: Any) -> None:
    """The barrier before the writes of a step becomes a bare one: the waves meet, and nothing is drained."""
    for graph in trace.region_graph.subgraphs.values():
        drains = [node for node in graph.nodes if get_custom(node).tkw_op_name == "shared_memory_barrier"]
        for node in drains[:1]:
            with graph.inserting_before(node):
                WorkgroupBarrier().add_to_graph(graph)
            graph.erase_node(node)


def test_a_use_can_move_below_a_bare_barrier() -> None:
    """What a wave reads and uses before a bare barrier is there in time only if nothing moves the use past it."""
    assert judge(CASES["gemm-none"], "gfx942", before_run=make_bare, runs=LATE).verdict == "equal"
    assert judge(CASES["gemm-none"], "gfx942", before_run=make_bare, runs=(("lazy", 3),)).verdict == "differs"


def test_the_machine_shares_no_code_with_what_it_judges() -> None:
    folder = Path(machine.__file__).parent
    lines = [line for path in sorted(folder.glob("*.py")) for line in path.read_text(encoding="utf-8").splitlines()]
    imports = [line.lstrip() for line in lines if line.lstrip().startswith(("import ", "from "))]
    ours = [line for line in imports if "tidegate" in line or "oracles" in line]
    assert ours
    assert all(line.startswith("from oracles.wave_machine") for line in ours)


def test_a_seed_gives_one_run_and_seeds_differ() -> None:
    outs: list[np.ndarray] = []

    def use(program: Program, trace: Any) -> None:
        inputs = make_inputs(trace)
        outs.extend(program.run(inputs, seed, "random").arrays["out"] for seed in (1, 1, 2, 3, 4, 5))

    with_program("pass-around", "gfx942", use)
    first, again, *others = outs
    assert np.array_equal(first, again)
    assert any(not np.array_equal(first, other) for other in others)


def test_one_workgroup_writes_its_part_and_all_write_the_whole() -> None:
    ran: list[Ran] = []
    wanted: dict[str, np.ndarray] = {}

    def use(program: Program, trace: Any) -> None:
        inputs = make_inputs(trace)
        reference = CASES["gemm-small"].reference
        assert reference is not None
        wanted.update(reference(inputs))
        everywhere = [(*place, 0) for place in np.ndindex(*program.grid(inputs)[:2])]
        ran.append(program.run(inputs, workgroups=[(1, 0, 0)]))
        ran.append(program.run(inputs, workgroups=everywhere))

    with_program("gemm-small", "gfx942", use)
    part, whole = ran
    assert part.written["out"][32:, :32].all()
    assert part.written["out"].sum() == 32 * 32
    assert whole.written["out"].all()
    assert not compare(part, wanted)
    assert not compare(whole, wanted)


def test_an_operation_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from oracles.wave_machine import registers

    monkeypatch.delitem(registers.MAKERS, "mma")
    with pytest.raises(CannotRun, match="mma"):
        with_program("gemm-small", "gfx942", lambda program, trace: program.run(make_inputs(trace)))


def test_the_trace_is_not_changed() -> None:
    texts: list[list[str]] = []

    def show(trace: Any) -> list[str]:
        graphs = trace.region_graph.subgraphs.values()
        return [f"{node} {get_custom(node).tkw_op_name} {node.args}" for graph in graphs for node in graph.nodes]

    def use(program: Program, trace: Any) -> None:
        texts.append(show(trace))
        program.run(make_inputs(trace))
        texts.append(show(trace))

    with_program("one-writes", "gfx942", use)
    assert texts[0] == texts[1]


# --- parts --------------------------------------------------------------------------------------------------------


def test_quotients_are_exact() -> None:
    x = sympy.Symbol("x", integer=True, nonnegative=True)
    numbers = np.arange(500)
    whole = compile_expression(sympy.floor(x / 49) * 2 + sympy.Mod(x / 7, 3) * 7)
    assert whole.symbols == ("x",)
    assert np.array_equal(whole.evaluate({"x": numbers}), numbers // 49 * 2 + numbers % 21)
    with pytest.raises(CannotRun, match="whole number"):
        compile_expression(x / 2).evaluate({"x": numbers})


def test_pieces_and_conditions() -> None:
    x = sympy.Symbol("x", integer=True)
    piece = compile_expression(sympy.Piecewise((x + 1, x < 3), (sympy.Max(x, 5), True)))
    assert piece.evaluate({"x": np.arange(7)}).tolist() == [1, 2, 3, 5, 5, 5, 6]
    both = compile_expression(sympy.And(x > 1, sympy.Or(sympy.Eq(x, 2), x >= 4)))
    assert both.evaluate({"x": np.arange(6)}).tolist() == [False, False, True, False, True, True]


def test_a_read_performs_what_was_issued_before_it_and_no_more() -> None:
    done: list[str] = []

    def note(name: str) -> Access:
        def perform() -> np.ndarray:
            done.append(name)
            return np.zeros(1)

        return Access(perform)

    queues = Queues("late", 0.5)
    accesses = [note(name) for name in ("write", "read", "later")]
    for access in accesses:
        queues.issue(access)
    assert done == []
    queues.finish(accesses[1])
    assert done == ["write", "read"]
    queues.end()
    assert done == ["write", "read", "later"]


def test_a_wait_leaves_the_newest_in_flight_and_global_accesses_count() -> None:
    landed: list[int] = []
    queues = Queues("late", 0.5)
    for number in range(3):
        queues.issue_copy(Access(lambda number=number: landed.append(number)), queues.vector)
    queues.count_global()
    queues.land(queues.vector, 2)
    assert landed == [0, 1]


def test_the_k_th_arrival_of_each_wave_meets_the_k_th_of_every_other() -> None:
    meeting = Rendezvous(2)
    meeting.arrive(-1, 0)
    assert not meeting.may_leave(-1, 0)
    meeting.arrive(-1, 1)
    assert meeting.may_leave(-1, 0)
    meeting.leave(-1, 0)
    meeting.arrive(-1, 0)
    assert meeting.may_leave(-1, 1)
    assert not meeting.may_leave(-1, 0)
    meeting.arrive(-1, 0)
    assert "twice" in meeting.misuse


def test_lanes_take_from_lanes() -> None:
    lanes = np.arange(8)[:, None]
    assert shuffle(lanes, 1, 4, "XOR")[:, 0].tolist() == [1, 0, 3, 2, 5, 4, 7, 6]
    assert shuffle(lanes, 2, 4, "DOWN")[:2, 0].tolist() == [2, 3]
    assert shuffle(lanes, 3, 4, "IDX")[:, 0].tolist() == [3, 3, 3, 3, 7, 7, 7, 7]


def test_a_transposing_read_gives_lane_c_column_c() -> None:
    rows = np.arange(64).reshape(4, 16)
    assert np.array_equal(turn_rows(rows.reshape(16, 4)), rows.T)
