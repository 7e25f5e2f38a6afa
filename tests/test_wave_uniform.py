"""Conditions on scalar arguments of Wave kernels, and tensor copies that only a pair of signal and wait waits for."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from wave_traces import Enough, erase, in_loops, nodes, put_before, traced

# isort: split

import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from bench.wave_kernels import Build, trace_build
from bench.wave_kernels.atomics import ROW, TILE_M, TILE_N, M, N, waves_on_rows
from bench.wave_kernels.building import CHIPS, GLOBAL, KEPT, options_for
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE, THREAD_0, THREAD_1

from tidegate.adapters.wave.build import Built, build
from tidegate.adapters.wave.context import context_of
from tidegate.adapters.wave.nodes import op_of
from tidegate.graph import model as g
from tidegate.graph.plan import Insert
from tidegate.index import Compare, Const, Flag, Name
from tidegate.language.ops import SharedMemoryBarrier, WorkgroupBarrier
from tidegate.synchronize import SyncOptions, synchronize_graph
from tidegate.targets import load_target
from tidegate.wave.checking import WaveProgram, check_program
from tidegate.wave.passing import Options, Placement, place_barriers

WAVES = 4
MEETING = (SharedMemoryBarrier, WorkgroupBarrier)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


# --- a condition on an argument -----------------------------------------------------------------------------------


def three() -> Any:
    return tkw.scalar(3, tkl.i32)


CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "greater": lambda limit: limit > three(),
    "a sum": lambda limit: limit + three() > three(),
    "itself": lambda limit: limit,
    "by wave": lambda limit: limit > tkw.scalar(THREAD_1, tkl.i32),
    "by lane": lambda limit: limit > tkw.scalar(THREAD_0, tkl.i32),
}


def guarded(condition: Callable[[Any], Any]) -> Build:
    """Each wave reads the row of the next one if a condition holds; Wave's barrier is in that branch."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    after = tkw.IndexMapping(num_iterators=2, inputs={M: (i + 1) % WAVES, N: j}, outputs={M: i, N: j})
    chip = CHIPS["gfx942"]

    @tkw.wave(waves_on_rows(chip, WAVES))
    def around_if(rows: tkl.Memory[M, N, GLOBAL, tkl.f32], out: tkl.Memory[M, N, GLOBAL, tkl.f32], limit: tkl.i32):
        shared = tkw.allocate((M, N), (TILE_M, TILE_N), tkl.f32, SHARED_ADDRESS_SPACE)
        tkw.write(tkw.read(rows), shared)

        @tkw.conditional(condition(limit))
        def sometimes():
            tkw.write(tkw.read(shared, mapping=after), out)

    sizes = {M: WAVES, N: 4 * chip.lanes, TILE_M: WAVES, TILE_N: chip.lanes}
    return Build(around_if, options_for(chip, sizes, **KEPT))


def seen(make: Build, look: Callable[[Any, Any], None], *, before: bool = False, target: str = "gfx942") -> None:
    """Looks at a trace behind Wave's barrier pass, or before it."""

    def hook(trace: Any, constraints: Any, _: Any) -> None:
        look(trace, constraints)
        raise Enough

    with suppress(Enough):
        trace_build(make, **{"before" if before else "after": hook})


def verdict(trace: Any, constraints: Any, target: str) -> tuple[bool, set[str], Built]:
    """Whether a trace is proved, the errors in it, and its graph."""
    context, facts = context_of(constraints), load_target(target)
    built = build(trace, context, facts)
    checked = check_program(WaveProgram(trace, context, facts, built, "kernel"))
    return checked.is_proved, {each.code for each in checked.findings if each.severity == "error"}, built


def branch_of(built: Built) -> tuple[object, str]:
    """The condition of the one branch, and who agrees on its arm."""
    (branch,) = (each for each in built.graph.points if isinstance(each.action, g.Branch))
    assert isinstance(branch.action, g.Branch)
    return branch.action.cond, built.graph.points[branch.successors[0]].under


@pytest.mark.parametrize("name", ["greater", "a sum", "itself"])
def test_a_condition_on_an_argument_is_uniform(name: str) -> None:
    """It was taken for divergent, and the barrier that Wave puts into the branch was called a mistake (TG201)."""

    def look(trace: Any, constraints: Any) -> None:
        proved, codes, built = verdict(trace, constraints, "gfx942")
        assert (proved, codes) == (True, set())
        cond, under = branch_of(built)
        assert under == "uniform"
        exact = name == "greater"  # a sum may wrap, and which number is true Wave decides
        assert cond == Compare(">", Name("%limit"), Const(3)) if exact else isinstance(cond, Flag)
        (barrier,) = nodes(trace, "shared_memory_barrier")
        assert barrier.graph.parent_op is nodes(trace, "conditional")[0]
        erase(barrier)
        proved, codes, _ = verdict(trace, constraints, "gfx942")
        assert (proved, codes & {"TG101"}) == (False, {"TG101"}), "without it, it is a race"

    seen(guarded(CONDITIONS[name]), look)


@pytest.mark.parametrize(
    ("name", "code", "under"), [("by wave", "TG202", "per_wave"), ("by lane", "TG201", "divergent")]
)
def test_a_condition_that_also_names_threads_is_not(name: str, code: str, under: str) -> None:
    """The neighbours that are really wrong: some waves, or some lanes, do not come to the barrier."""

    def look(trace: Any, constraints: Any) -> None:
        proved, codes, built = verdict(trace, constraints, "gfx942")
        assert (proved, code in codes) == (False, True)
        assert branch_of(built)[1] == under

    seen(guarded(CONDITIONS[name]), look)


@pytest.mark.parametrize("name", CONDITIONS)
def test_barriers_are_placed_around_such_a_branch(name: str) -> None:
    def look(trace: Any, constraints: Any) -> None:
        found = place_barriers(trace, context_of(constraints), load_target("gfx942"), Options())
        assert (found.why_not, found.barriers) == ("", 1)
        assert verdict(trace, constraints, "gfx942")[:2] == (True, set())

    seen(guarded(CONDITIONS[name]), look, before=True)


# --- tensor copies ------------------------------------------------------------------------------------------------


STANDING: dict[str, tuple[tuple[Any, ...], ...]] = {
    "a whole barrier": (("SharedMemoryBarrier",),),
    "one that waits for loads": (("SharedMemoryBarrier", True),),
    "a bare one": (("WorkgroupBarrier",),),
    "a pair that does not wait": (("SharedMemoryBarrierSignal", -1, False), ("SharedMemoryBarrierWait", -1)),
    "a pair that waits": (("SharedMemoryBarrierSignal", -1, True), ("SharedMemoryBarrierWait", -1)),
    "a wait for loads": (("MemoryCounterWait", 0, None, 0, None),),
}
LEFT = {"a bare one": 3}  # it stays, and is no wait


def with_standing(name: str, options: Options) -> tuple[Placement, list[Any], tuple[bool, set[str]], set[str]]:
    """What comes of tensor copies where something stands before their reads: placement, signals, verdicts."""
    found: list[Any] = []

    def before(trace: Any, constraints: Any, _: Any) -> None:
        first = next(each for each in in_loops(trace, "read") if "shared" in each.name)
        for op in STANDING[name]:
            put_before(first, *op)
        was = verdict(trace, constraints, "gfx1250")[1]
        placed = place_barriers(trace, context_of(constraints), load_target("gfx1250"), options)
        kinds = [node for node in nodes(trace, "shared_memory_barrier_signal") if node.args[1]]
        found.append((placed, kinds, verdict(trace, constraints, "gfx1250")[:2], was))
        raise Enough

    with suppress(Enough):
        traced("gemm-async-none", "gfx1250", before=before)
    return found[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("options", [Options(), Options(strategy="minimal"), Options(counts=True)], ids=repr)
@pytest.mark.parametrize("name", STANDING)
def test_tensor_copies_are_waited_for_by_a_pair(name: str, options: Options) -> None:
    """No other operation of Wave waits for them: what stands there becomes a pair, or is told to wait."""
    placed, waiting, after, was = with_standing(name, options)
    assert was & {"TG101", "TG105"} or name == "a pair that waits", "as it was given, it is a race"
    assert (placed.why_not, placed.barriers) == ("", LEFT.get(name, 2))
    assert len(waiting) == 1
    assert after == (True, set())


def test_a_pair_that_signals_before_the_last_copy_does_not_wait_for_it() -> None:
    """The neighbour that is really wrong: the second copy is started between signal and wait."""

    def after(trace: Any, constraints: Any, _: Any) -> None:
        assert verdict(trace, constraints, "gfx1250")[:2] == (True, set())
        signal = nodes(trace, "shared_memory_barrier_signal")[-1]  # behind both copies
        assert signal.args[1]
        copies = nodes(trace, "tensor_load_to_lds")
        erase(signal)
        put_before(copies[1], "SharedMemoryBarrierSignal", -1, True)
        proved, codes, _ = verdict(trace, constraints, "gfx1250")
        assert (proved, bool(codes & {"TG101", "TG105"})) == (False, True)
        raise Enough

    with suppress(Enough):
        traced("gemm-async-none", "gfx1250", after=after)


def test_what_was_written_for_tensor_copies_can_be_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof that fails leaves the trace as it was, also where a barrier became a pair."""
    import tidegate.wave.passing as passing

    monkeypatch.setattr(passing, "find_doubt", lambda *_: "nothing is believed here")
    for name in ("a whole barrier", "one that waits for loads", "a pair that does not wait"):

        def before(trace: Any, constraints: Any, _: Any, name: str = name) -> None:
            first = next(each for each in in_loops(trace, "read") if "shared" in each.name)
            for op in STANDING[name]:
                put_before(first, *op)
            was = [(op_of(node), node.args) for node in first.graph.nodes]
            found = place_barriers(trace, context_of(constraints), load_target("gfx1250"), Options())
            assert (found.why_not, found.written) == ("nothing is believed here", None)
            assert [(op_of(node), node.args) for node in first.graph.nodes] == was
            raise Enough

        with suppress(Enough):
            traced("gemm-async-none", "gfx1250", before=before)


# --- atomics ------------------------------------------------------------------------------------------------------


def twice(*, used: bool = False, other: bool = False) -> Build:
    """Every wave adds its row to one row of shared memory, two times."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    first = tkw.IndexMapping(num_iterators=2, inputs={M: sympy.Integer(0), N: j}, outputs={M: i, N: j})
    chip = CHIPS["gfx942"]

    @tkw.wave(waves_on_rows(chip, WAVES))
    def add_twice(rows: tkl.Memory[M, N, GLOBAL, tkl.i32], out: tkl.Memory[M, N, GLOBAL, tkl.i32]):
        mine = tkw.read(rows)
        shared = tkw.allocate((M, N), (ROW, TILE_N), tkl.i32, SHARED_ADDRESS_SPACE)
        seen = tkw.atomic_add(mine, shared, elements_per_thread=1, mapping=first)
        if other:
            tkw.atomic_min(mine, shared, elements_per_thread=1, mapping=first)
        else:
            tkw.atomic_add(mine, shared, elements_per_thread=1, mapping=first)
        tkw.write(seen if used else mine, out)

    sizes = {M: WAVES, N: 4 * chip.lanes, ROW: 1, TILE_M: WAVES, TILE_N: chip.lanes}
    return Build(add_twice, options_for(chip, sizes, **KEPT))


@pytest.mark.parametrize(
    ("how", "what", "left"),
    [
        ({}, [("add", "i32", False)] * 2, 0),
        ({"used": True}, [("add", "i32", True), ("add", "i32", False)], 1),
        ({"other": True}, [("add", "i32", False), ("min", "i32", False)], 1),
    ],
    ids=["unused", "used", "two operators"],
)
def test_atomics_that_nobody_looks_at_commute(how: Any, what: list[tuple[str, str, bool]], left: int) -> None:
    def look(trace: Any, constraints: Any) -> None:
        target = load_target("gfx942")
        graph = build(trace, context_of(constraints), target).graph
        accesses = (each.action for each in graph.points if isinstance(each.action, g.Access))
        atomics = [(each.operator, each.element, each.fetches) for each in accesses if each.effect == "atomic"]
        assert atomics == what
        for option, count in (("order", 1), ("commute", left)):
            plan = synchronize_graph(graph, target, SyncOptions(atomics=option)).plan
            put_in = [each for each in plan.edits if isinstance(each, Insert) and isinstance(each.op, MEETING)]
            assert len(put_in) == count, option
        assert verdict(trace, constraints, "gfx942")[0] == (left == 0), "the proof asks for no more than that"

    seen(twice(**how), look, before=True)
