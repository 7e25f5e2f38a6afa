"""Who agrees on conditions, loops and symbols of Wave kernels; tensor copies that only a pair of signal and wait waits
for; atomics."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from oracles.wave_traces.wave_traces import Enough, erase, in_loops, nodes, put_after, put_before, traced

# isort: split

import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import (
    GET_ITER_ARG,
    SHARED_ADDRESS_SPACE,
    THREAD_0,
    THREAD_1,
    WORKGROUP_0,
    WORKGROUP_1,
)

from oracles.wave_kernels import Build, trace_build
from oracles.wave_kernels.atomics import ROW, TILE_M, TILE_N, M, N, waves_on_rows
from oracles.wave_kernels.building import CHIPS, GLOBAL, KEPT, options_for
from oracles.wave_kernels.gemm_shapes import TILES, TURN
from tidegate.graph import model as g
from tidegate.graph.plan import Insert
from tidegate.hosts.wave.agreement import Agreement
from tidegate.hosts.wave.build import Built, build
from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.dropin.checking import WaveProgram, check, check_program
from tidegate.hosts.wave.dropin.passing import Options, Placement, place_barriers
from tidegate.hosts.wave.memory import Memory
from tidegate.hosts.wave.nodes import op_of
from tidegate.hosts.wave.numbers import Numbers
from tidegate.hosts.wave.values import Values
from tidegate.index import WAVE, Compare, Const, Flag, Name, Truth
from tidegate.language.ops import SharedMemoryBarrier, WorkgroupBarrier
from tidegate.synchronize import SyncOptions, synchronize_graph
from tidegate.targets import load_target

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


# --- functions, bits and symbols in conditions --------------------------------------------------------------------


def applied(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda limit: tkw.apply_expr(limit, function) > three()


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a number": (lambda x: x + 1, "uniform"),
    "the workgroup": (lambda x: x + WORKGROUP_0, "uniform"),
    "the wave": (lambda x: x + THREAD_1, "per_wave"),
    "the lane": (lambda x: x + THREAD_0, "divergent"),
    "a piece by lane": (lambda x: sympy.Piecewise((x, THREAD_0 < 3), (0, True)), "divergent"),
    "the wave, from the lane": (lambda x: x + sympy.floor(THREAD_0 / 64) + THREAD_1, "per_wave"),
    "half a wave": (lambda x: x + sympy.floor(THREAD_0 / 32) + THREAD_1, "divergent"),
    "the lane, and rounded together": (lambda x: sympy.floor((x + THREAD_0) / 64) + THREAD_1, "divergent"),
    "fails": (lambda x: 1 // 0, "divergent"),
}
FOUND = {"uniform": set(), "per_wave": {"TG202"}, "divergent": {"TG201"}}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_names_threads_is_not_uniform(name: str) -> None:
    """`apply_expr` was as uniform as what it is applied to: a barrier that some waves do not meet was called right."""
    function, under = FUNCTIONS[name]

    def look(trace: Any, constraints: Any) -> None:
        nodes(trace, "apply_expr")[0].args = (nodes(trace, "apply_expr")[0].args[0], function)
        proved, codes, built = verdict(trace, constraints, "gfx942")
        assert (branch_of(built)[1], proved, codes) == (under, under == "uniform", FOUND[under])

    seen(guarded(applied(lambda x: x + 1)), look)


def number(value: Any, dtype: Any = tkl.i32) -> Any:
    return tkw.scalar(value, dtype)


HELD: dict[str, tuple[Callable[[], Any], object]] = {
    "true": (lambda: number(1) > number(0), [True]),
    "bits in common": (lambda: number(3) & number(2), [True]),
    "no bits in common": (lambda: number(1) & number(2), [False]),
    "bits of comparisons": (lambda: (number(1) > number(0)) & (number(2) > number(0)), [True]),
    "either bits": (lambda: number(1) | number(2), [True]),
    "negative": (lambda: number(0) > number(-1), [True]),
    "by wave": (lambda: number(THREAD_1) > number(1), [False, False, True, True]),
    "a sum that wraps": (lambda: number(2**31 - 1) + number(1) > number(0), None),
    "a product that wraps": (lambda: number(2**20) * number(2**12) + number(1) > number(0), None),
    "too large for its type": (lambda: number(200 + THREAD_0 * 0, tkl.i8) > number(0, tkl.i8), None),
    "too large for 32 bits": (lambda: number(sympy.Integer(2**32), tkl.i64) > number(0, tkl.i64), None),
    "one bit, signed": (lambda: number(1, tkl.bool) > number(0, tkl.bool), None),
    "no whole number": (lambda: number(0.5, tkl.f32) > number(0.25, tkl.f32), None),
}


@pytest.mark.parametrize("name", HELD)
def test_conditions_are_evaluated_as_wave_emits_them(name: str) -> None:
    """`1 & 2` was taken for true, and so were sums that wrap: a barrier in such a branch ordered what is behind it."""
    make, held = HELD[name]

    def look(trace: Any, constraints: Any) -> None:
        cond, under = branch_of(build(trace, context_of(constraints), load_target("gfx942")))
        if held is None:
            assert isinstance(cond, Flag)
        elif held in ([True], [False]):
            assert cond == Truth(held == [True])
        else:
            assert (cond, under) == (Compare(">=", Name(WAVE), Const(2)), "per_wave")

    seen(guarded(lambda _: make()), look)


@pytest.mark.parametrize(
    ("value", "dtype", "exact"),
    [(3, tkl.i32, True), (WORKGROUP_0, tkl.i32, True), (2 * WORKGROUP_0, tkl.i32, False), (2**40, tkl.i32, False)],
    ids=str,
)
def test_what_an_argument_is_compared_with_does_not_wrap(value: Any, dtype: Any, exact: bool) -> None:
    def look(trace: Any, constraints: Any) -> None:
        cond, under = branch_of(build(trace, context_of(constraints), load_target("gfx942")))
        assert (isinstance(cond, Compare), under) == (exact, "uniform")

    seen(guarded(lambda limit: limit > number(sympy.sympify(value), dtype)), look)


SYMBOL = tkl.sym.SYMBOL


def set_first(trace: Any, value: Any) -> None:
    """A symbol is set at the beginning of a kernel."""
    first = next(each for each in trace.get_root_graph().nodes if each.op != "placeholder")
    put_before(first, "SetSymbol", SYMBOL, put_before(first, "NewScalar", value, tkl.i32))


@pytest.mark.parametrize("condition", [SYMBOL > 2, SYMBOL * SYMBOL > 2, SYMBOL + WORKGROUP_0 > 2], ids=str)
@pytest.mark.parametrize(
    ("value", "under"), [(WORKGROUP_1, "uniform"), (THREAD_1, "per_wave"), (THREAD_0, "divergent")], ids=str
)
def test_a_condition_on_a_symbol_is_as_uniform_as_what_is_set(condition: Any, value: Any, under: str) -> None:
    """Any symbol but those of threads was uniform, and a barrier that some waves do not meet was called right."""

    def look(trace: Any, constraints: Any) -> None:
        set_first(trace, value)
        (node,) = nodes(trace, "conditional")
        node.args = (condition, *node.args[1:])
        proved, codes, built = verdict(trace, constraints, "gfx942")
        assert (branch_of(built)[1], proved, codes) == (under, under == "uniform", FOUND[under])

    seen(guarded(CONDITIONS["greater"]), look)


@pytest.mark.parametrize(
    ("value", "wide"), [(WORKGROUP_1, False), (THREAD_1, False), (THREAD_0, True), (1 - THREAD_0, True)], ids=str
)
def test_an_index_with_a_symbol_that_lanes_disagree_on_is_the_whole_buffer(value: Any, wide: bool) -> None:
    """What a symbol adds was taken for the same in all lanes of a wave."""

    def look(trace: Any, constraints: Any) -> None:
        set_first(trace, value)
        write = next(each for each in nodes(trace, "write") if each.args[1].name.startswith("allocate"))
        write.index[N].start = write.index[N].start + SYMBOL
        built = build(trace, context_of(constraints), load_target("gfx942"))
        assert [each.node is write for each in built.widened] == [True] * wide
        (point,) = (each for each in built.graph.points if each.role == "local_write")
        assert isinstance(point.action, g.Access)
        assert point.action.footprint.may == wide

    seen(guarded(CONDITIONS["greater"]), look)


# --- loops --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "under"),
    [
        (WORKGROUP_0 + 2, "uniform"),
        (sympy.Max(WORKGROUP_0, WORKGROUP_1) ** 2, "uniform"),
        (THREAD_1 + 2, "per_wave"),
        (THREAD_1 + WORKGROUP_0, "per_wave"),
        (sympy.floor(THREAD_0 / 64) + WORKGROUP_0 + 2, "per_wave"),
        (sympy.floor(THREAD_0 / 32) + WORKGROUP_0 + 2, "divergent"),
        (sympy.floor((THREAD_0 + WORKGROUP_0) / 64) + 2, "divergent"),
        (sympy.Piecewise((2, THREAD_1 > 0), (WORKGROUP_0, True)), "per_wave"),
        (THREAD_0 + 2, "divergent"),
        (SYMBOL + 2, "per_wave"),
    ],
    ids=str,
)
def test_a_loop_that_waves_run_a_different_number_of_times_is_no_uniform_one(count: Any, under: str) -> None:
    """Its trip count was one number for all waves, and the barriers in it were met by all of them."""

    def after(trace: Any, constraints: Any, _: Any) -> None:
        set_first(trace, THREAD_1)
        (loop,) = nodes(trace, "iterate")
        loop.count = count
        proved, codes, built = verdict(trace, constraints, "gfx942")
        barriers = [each for each in built.graph.points if isinstance(each.action, g.Sync)]
        assert {each.under for each in barriers} == {under}
        assert (proved, "TG201" in codes) == (under == "uniform", under == "divergent")
        found = check(trace, "gfx942", constraints=constraints)
        assert found.is_proved == proved  # an empty list is no proof: per-wave trip counts are only run
        assert found.verdict.startswith("proved: " if proved else "not proved: ")
        raise Enough

    with suppress(Enough):
        traced("gemm-small", "gfx942", after=after)


@pytest.mark.parametrize(("step", "by"), [(1, 1), (sympy.Integer(2), 2), (WORKGROUP_0, None)], ids=str)
def test_a_loop_goes_by_its_step(step: Any, by: int | None) -> None:
    """A step that is no number of Python's was taken for one."""

    def after(trace: Any, constraints: Any, _: Any) -> None:
        (loop,) = nodes(trace, "iterate")
        loop.args = (*loop.args[:4], step, *loop.args[5:])
        (found,) = build(trace, context_of(constraints), load_target("gfx942")).graph.loops
        assert (found.step if by else found.counter) == (by or "")
        raise Enough

    with suppress(Enough):
        traced("gemm-small", "gfx942", after=after)


def outer_loop(trace: Any) -> Any:
    """The one that runs while a condition holds."""
    return next(each for each in nodes(trace, "iterate") if each.args[5] is not None)


def when(condition: Any) -> Callable[[Any], None]:
    def change(trace: Any) -> None:
        loop = outer_loop(trace)
        loop.args = (*loop.args[:6], condition)

    return change


def starting(value: Any) -> Callable[[Any], None]:
    def change(trace: Any) -> None:
        start = outer_loop(trace).args[5]
        start.args = (value, *start.args[1:])

    return change


def with_symbol(value: Any) -> Callable[[Any], None]:
    def change(trace: Any) -> None:
        set_first(trace, value)
        when(sympy.And(TURN < TILES, SYMBOL < 2))(trace)

    return change


def next_turn(function: Callable[[Any], Any]) -> Callable[[Any], None]:
    def change(trace: Any) -> None:
        node = nodes(trace, "apply_expr")[-1]
        node.args = (node.args[0], function)

    return change


def set_inside(value: Any) -> Callable[[Any], None]:
    """The symbol of the loop is set once more, where a condition holds."""

    def change(trace: Any) -> None:
        last = nodes(trace, "set_symbol")[-1]
        put_before(last, "SetSymbol", TURN, put_before(last, "NewScalar", value, tkl.i32))

    return change


WHILE: dict[str, tuple[Callable[[Any], None], str]] = {
    "as it is": (lambda _: None, "uniform"),
    "condition by workgroup": (when(TURN + WORKGROUP_0 < TILES), "uniform"),
    "condition by wave": (when(TURN + THREAD_1 < TILES), "per_wave"),
    "symbol by workgroup": (with_symbol(WORKGROUP_0), "uniform"),
    "symbol by wave": (with_symbol(THREAD_1), "per_wave"),
    "symbol by lane": (with_symbol(THREAD_0), "divergent"),
    "start by workgroup": (starting(WORKGROUP_1), "uniform"),
    "start by wave": (starting(THREAD_1), "per_wave"),
    "next by workgroup": (next_turn(lambda now: now + WORKGROUP_0 + 1), "uniform"),
    "next by wave": (next_turn(lambda now: now + THREAD_1 + 1), "per_wave"),
    "set to a number": (set_inside(sympy.Integer(7)), "uniform"),
    "set by wave": (set_inside(THREAD_1), "per_wave"),
    "what it does not carry": (when(sympy.And(TURN < TILES, GET_ITER_ARG(0) < 3)), "divergent"),
}


@pytest.mark.parametrize("name", WHILE)
def test_a_loop_that_waves_leave_at_different_times_is_no_uniform_one(name: str) -> None:
    """Other symbols of its condition, and what it carries, were not looked at."""
    change, under = WHILE[name]

    def after(trace: Any, constraints: Any, _: Any) -> None:
        change(trace)
        proved, _, built = verdict(trace, constraints, "gfx942")
        assert {each.under for each in built.graph.points if isinstance(each.action, g.Sync)} == {under}
        assert proved == (under == "uniform")
        raise Enough

    with suppress(Enough):
        traced("gemm-persistent", "gfx942", after=after)


def carrying(first: Any, further: Any) -> Build:
    """Waves exchange rows while a number that the loop carries is small."""
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    after = tkw.IndexMapping(num_iterators=2, inputs={M: (i + 1) % WAVES, N: j}, outputs={M: i, N: j})
    chip = CHIPS["gfx942"]
    *others, hardware = waves_on_rows(chip, WAVES)
    hardware.vector_shapes[TURN] = 0  # type: ignore[attr-defined]

    @tkw.wave([*others, tkw.TilingConstraint(TURN), hardware])
    def carry(
        rows: tkl.Memory[M, N, GLOBAL, tkl.f32],
        out: tkl.Memory[M, N, GLOBAL, tkl.f32],
        numbers: tkl.Memory[M, N, GLOBAL, tkl.i32],
    ):
        shared = tkw.allocate((M, N), (TILE_M, TILE_N), tkl.f32, SHARED_ADDRESS_SPACE)
        start, initial = tkw.scalar(0, tkl.i32), tkl.Register[M, N, tkl.i32](first)

        @tkw.iterate(TURN, start=start, condition=GET_ITER_ARG(0) < 3, init_args=[initial])
        def turns(now: tkl.Register[M, N, tkl.i32]):
            turn = tkw.self_index(TURN, tkl.i32)
            tkw.write(tkw.read(rows), shared)
            tkw.write(tkw.read(shared, mapping=after), out)
            tkw.set_symbol(TURN, tkw.apply_expr(turn, lambda x: x + 1))
            return now + tkl.Register[M, N, tkl.i32](further)

        tkw.write(turns, numbers)

    sizes = {M: WAVES, N: 4 * chip.lanes, TILE_M: WAVES, TILE_N: chip.lanes}
    return Build(carry, options_for(chip, sizes, **KEPT))


@pytest.mark.parametrize(
    ("first", "further", "under"),
    [
        (0, 1, "uniform"),
        (THREAD_1, 1, "per_wave"),
        (0, THREAD_1, "per_wave"),
        (THREAD_0, 1, "divergent"),
        (0, THREAD_0, "divergent"),
    ],
    ids=str,
)
def test_what_a_loop_carries_is_as_uniform_as_what_it_starts_with_and_hands_on(
    first: Any, further: Any, under: str
) -> None:
    def look(trace: Any, constraints: Any) -> None:
        put_before(next(each for each in in_loops(trace, "write")), "SharedMemoryBarrier")  # Wave puts in one of two
        proved, codes, built = verdict(trace, constraints, "gfx942")
        assert {each.under for each in built.graph.points if isinstance(each.action, g.Sync)} == {under}
        assert (proved, "TG201" in codes) == (under == "uniform", under == "divergent")

    seen(carrying(first, further), look)


# --- values from memory -------------------------------------------------------------------------------------------


def at_thread(read: Any) -> None:
    (sequence,) = read.index.values()
    sequence.start = sequence.start + THREAD_0


def mapped_by_thread(read: Any) -> None:
    (dim,) = read.index
    i = tkw.IndexMapping.iterator(0)
    mapping = tkw.IndexMapping(num_iterators=1, inputs={dim: i + THREAD_0}, outputs={dim: i})
    read.args = (*read.args[:2], mapping, *read.args[3:])


def mapped_by_value(value: Any) -> Callable[[Any], None]:
    def change(read: Any) -> None:
        (dim,) = read.index
        i, given = tkw.IndexMapping.iterator(0), tkw.IndexMapping.dynamic_val(0)
        mapping = tkw.IndexMapping(
            num_iterators=1, inputs={dim: i + given}, outputs={dim: i}, dynamic_val_mappings={dim: i}
        )
        scalar = put_before(read, "NewScalar", value, tkl.i32)
        read.args = (*read.args[:2], mapping, (scalar,), *read.args[4:])

    return change


def written_too(read: Any) -> None:
    put_after(read, "Write", read, read.args[0], 1)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda _: None, "uniform"),
        (at_thread, "divergent"),
        (mapped_by_thread, "divergent"),
        (mapped_by_value(WORKGROUP_0), "uniform"),
        (mapped_by_value(sympy.floor(THREAD_0 / 32)), "per_wave"),
        (mapped_by_value(THREAD_0), "divergent"),
        (written_too, "divergent"),
    ],
    ids=["as it is", "index", "mapping", "value by workgroup", "value by wave", "value by lane", "written"],
)
def test_what_is_read_is_uniform_if_all_threads_read_one_place(change: Callable[[Any], None], found: str) -> None:
    """Values that a mapping is given were not looked at, nor what it names, nor whether the kernel writes there."""

    def after(trace: Any, constraints: Any, _: Any) -> None:
        read = nodes(trace, "set_symbol")[0].args[1]
        change(read)
        context = context_of(constraints)
        agreement = Agreement(Values(trace), Memory(context).numbers, context)
        assert agreement.of(read) == found
        assert agreement.of(nodes(trace, "set_symbol")[0].args[0]) == found
        raise Enough

    with suppress(Enough):
        traced("extend-none", "gfx1201", after=after)


def test_numbers_of_no_use_are_not_known() -> None:
    a, b, c = sympy.symbols("a b c")
    numbers = Numbers({a: 7, b: -4, c: 0})
    assert [numbers.value(sympy.Mod(a, each, evaluate=False)) for each in (4, b, c)] == [3, None, None]
    assert [numbers.value(each) for each in (0.5, None, sympy.Xor(a > 1, b > 1, c > 1, evaluate=False) | (a > 1))] == [
        None,
        None,
        None,
    ]


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
    import tidegate.hosts.wave.dropin.passing as passing

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
