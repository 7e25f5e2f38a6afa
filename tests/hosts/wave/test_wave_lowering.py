"""Traces that were proved, and that race or hang in what Wave's code generator makes of them.

Each stands beside a neighbour that is right, and proved.
"""

from __future__ import annotations

from typing import Any

import pytest

try:
    import sympy
    import wave_lang.kernel.lang as tkl
    import wave_lang.kernel.wave as tkw
    from wave_lang.kernel._support.indexing import IndexSequence
    from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE

    from oracles.wave_traces.by_hand import COUNTER, LANE, LANES, MEMORY, STEP, WAVE, WAVES, ByHand, M, N
except ImportError:
    pytest.skip("NOT TESTED: traces need Wave", allow_module_level=True)

from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.dropin.passing import Options, place_barriers
from tidegate.hosts.wave.nodes import op_of
from tidegate.results import CheckResult
from tidegate.targets import load_target

OTHER = WAVES - 1 - WAVE  # each wave's row, counted from the last
S = sympy.Symbol("S", integer=True, nonnegative=True)


def after(row: Any) -> Any:
    """A wave's own row, so much further on."""
    return sympy.Mod(WAVE + row, WAVES)


def is_unmodelled(found: CheckResult, why: str) -> bool:
    """Whether nothing is proved for this reason, in the verdict and as a finding."""
    return not found and why in found.verdict and any(each.code == "TG407" and why in each.message for each in found)


# --- symbols ------------------------------------------------------------------------------------------------------


def while_loop(made: ByHand, name: str) -> None:
    made.loop(name, None, start=made.put("NewScalar", sympy.Integer(0), tkl.i32), condition=STEP < 4)


@pytest.mark.parametrize(("row", "good"), [(COUNTER, True), (STEP, False)])
def test_the_axis_of_a_loop_is_not_its_counter(row: Any, good: bool) -> None:
    """The body of a loop with a condition sets its axis; the counter stays that of the iteration."""
    made = ByHand()
    memory = made.alloc()
    made.set_symbol(STEP, sympy.Integer(0))
    with made.region("body"):
        made.barrier()
        made.set_symbol(STEP, COUNTER + 1)
        made.write(memory, after(COUNTER))
        made.read(memory, after(row))
    while_loop(made, "body")
    assert made.check().is_proved is good


@pytest.mark.parametrize(("row", "good"), [(COUNTER, True), (STEP, False)])
def test_before_it_is_set_the_axis_of_a_loop_is_what_was_set_outside(row: Any, good: bool) -> None:
    made = ByHand()
    memory = made.alloc()
    made.set_symbol(STEP, sympy.Integer(0))
    with made.region("body"):
        made.barrier()
        made.write(memory, after(COUNTER))
        made.read(memory, after(row))
        made.set_symbol(STEP, COUNTER + 1)
    while_loop(made, "body")
    assert made.check().is_proved is good


@pytest.mark.parametrize(("again", "good"), [(False, True), (True, False)])
def test_a_symbol_that_is_set_again_is_another_one(again: bool, good: bool) -> None:
    made = ByHand()
    memory = made.alloc()
    made.set_symbol(S, sympy.Integer(0))
    made.write(memory, after(S))
    if again:
        made.set_symbol(S, sympy.Integer(1))
    made.read(memory, after(S))
    assert made.check().is_proved is good


# --- regions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("same", [True, False])
def test_a_conditional_hands_its_region_what_its_node_says(same: bool) -> None:
    """Not what the region's placeholder was lifted from: the code generator takes the list of the node."""
    made = ByHand()
    read, other = made.alloc(), made.alloc()
    made.write(other, WAVE)
    with made.region("body"):
        made.read(made.captured(read), OTHER)
    made.conditional("body", sympy.Lt(WAVE, 2), [read if same else other])
    found = made.check()
    assert found.is_proved is same
    assert same or is_unmodelled(found, "it hands its region other values than the region names")


@pytest.mark.parametrize("same", [True, False])
def test_a_loop_with_a_condition_hands_its_region_what_its_node_says(same: bool) -> None:
    made = ByHand()
    read, other = made.alloc(), made.alloc()
    made.write(other, WAVE)
    with made.region("body"):
        made.read(made.captured(read), OTHER)
        made.set_symbol(STEP, COUNTER + 1)
    start = made.put("NewScalar", sympy.Integer(0), tkl.i32)
    made.loop("body", None, (), [read if same else other], start=start, condition=STEP < 4)
    assert made.check().is_proved is same


@pytest.mark.parametrize("carried_first", [True, False])
def test_what_a_region_captures_is_nothing_that_its_loop_carries(carried_first: bool) -> None:
    """A captured value that did not say where it comes from took the place of the first carried one."""
    made = ByHand()
    one, other = made.alloc(), made.alloc()
    made.write(other, WAVE)
    with made.region("body"):
        captured = made.graph.create_node("placeholder", "captured")
        captured.type = MEMORY
        carried = made.carried(0)
        made.read(carried if carried_first else captured, OTHER)
        made.set_symbol(STEP, COUNTER + 1)
        made.graph.output([carried])
    start = made.put("NewScalar", sympy.Integer(0), tkl.i32)
    captures = [made.argument() if carried_first else other]
    made.loop("body", None, [one], captures, start=start, condition=STEP < 4)
    assert made.check().is_proved is carried_first


@pytest.mark.parametrize("shared", [False, True])
def test_shared_memory_that_a_region_takes_for_global(shared: bool) -> None:
    made = ByHand()
    memory = made.alloc()
    made.write(memory, WAVE)
    with made.region("body"):
        captured = made.graph.create_node("placeholder", "captured")
        captured.type = tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32]
        made.read(captured, OTHER)
    made.conditional("body", sympy.Lt(WAVE, 2), [memory if shared else made.argument()])
    assert made.check().is_proved is not shared


@pytest.mark.parametrize("chosen", [False, True])
def test_a_loop_that_hands_on_memory_which_an_operation_has_chosen(chosen: bool) -> None:
    """It was taken to keep what it started with."""
    made = ByHand()
    one, other = made.alloc(), made.alloc()
    with made.region("body"):
        carried = made.carried(0)
        made.barrier()
        found = made.put("SelectOp", made.register(1, tkl.bool), one, other, type=MEMORY)
        made.barrier()
        made.write(carried, WAVE)
        made.read(other, OTHER)
        made.graph.output([found if chosen else carried])
    made.loop("body", 3, [one])
    found = made.check()
    assert found.is_proved is not chosen
    assert not chosen or is_unmodelled(found, "the memory that its loop hands on is unknown")


@pytest.mark.parametrize("twice", [False, True])
def test_a_region_that_two_loops_run(twice: bool) -> None:
    """Of the second loop it was taken to touch what the first one carries."""
    made = ByHand()
    one, other = made.alloc(), made.alloc()
    for name in ("body",) if twice else ("body", "again"):
        with made.region(name):
            made.write(made.carried(0), WAVE)
            made.graph.output([next(iter(made.graph.nodes))])
    made.loop("body", 2, [one])
    made.read(one if not twice else other, WAVE)
    made.loop("body" if twice else "again", 2, [other])
    made.read(other, OTHER if twice else WAVE)
    found = made.check()
    assert found.is_proved is not twice
    assert not twice or is_unmodelled(found, "another operation runs its region, too")


@pytest.mark.parametrize(("memory", "good"), [(1, False), (2, True)])
def test_what_a_loop_starts_with_may_stand_in_lists(memory: int, good: bool) -> None:
    made = ByHand()
    all_of_them = one, other, last = made.alloc(), made.alloc(), made.alloc()
    made.read(all_of_them[memory], OTHER)
    with made.region("body"):
        carried = [made.carried(number) for number in range(3)]
        made.write(carried[1], WAVE)
        made.graph.output(carried)
    made.loop("body", 2, [[one, other], last])
    assert made.check().is_proved is good


@pytest.mark.parametrize("behind", [False, True])
def test_nothing_behind_the_output_of_a_region_becomes_code(behind: bool) -> None:
    """A barrier that stands there orders nothing: the code generator stops at the output."""
    made = ByHand()
    memory = made.alloc()
    with made.region("body") as body:
        made.write(memory, WAVE)
        made.barrier()
        made.read(memory, OTHER)
        if behind:
            body.output(None)
        made.barrier()
    made.loop("body", 3)
    assert made.check().is_proved is not behind


@pytest.mark.parametrize(
    ("start", "trips", "good"), [(0, 3, True), (0, WAVE + 1, False), (sympy.Integer(0), WAVE + 1, False)]
)
def test_a_loop_with_a_condition_that_starts_with_0_counts(start: Any, trips: Any, good: bool) -> None:
    """Wave takes its start for none, and forgets the condition: waves that count further wait for the others."""
    made = ByHand()
    memory = made.alloc()
    with made.region("body"):
        made.write(memory, WAVE)
        made.barrier()
        made.read(memory, OTHER)
        made.barrier()
    made.loop("body", trips, start=start, condition=STEP < 4)
    assert made.check().is_proved is good


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "good"), [(2048, True), (1536, False), (1024, False)])
def test_an_allocation_that_reaches_beyond_the_one_that_it_lies_in(size: int, good: bool) -> None:
    """The bytes behind may be those of any other buffer."""
    made = ByHand()
    view, other = made.alloc(parent=made.heap(size), offset=1024), made.alloc()
    made.write(view, WAVE)
    made.read(other, OTHER)
    found = made.check()
    assert found.is_proved is good
    assert good or is_unmodelled(found, "it reaches beyond the allocation that it lies in")


@pytest.mark.parametrize(("kind", "good"), [(tkl.i8, True), (tkl.bool, False)])
def test_elements_smaller_than_a_byte_beside_another_allocation(kind: Any, good: bool) -> None:
    """Wave counts a bit for each, and LLVM takes a byte."""
    made = ByHand()
    heap = made.heap(2048)
    made.write(made.alloc(kind=kind, parent=heap), WAVE, 0 * LANE)
    made.read(made.alloc(parent=heap, offset=256 if good else 32), OTHER)
    assert made.check().is_proved is good


@pytest.mark.parametrize(("kind", "good"), [(tkl.f16, True), (tkl.f32, False)])
def test_a_copy_of_elements_that_are_larger_than_those_of_its_buffer(kind: Any, good: bool) -> None:
    made = ByHand()
    memory = made.alloc(3 * WAVES, 2 * LANES, tkl.f16)
    made.copy(memory, 3 * WAVE, LANE * 2, 2, kind)
    made.read(memory, 3 * WAVE + 1)
    assert made.check().is_proved is good


@pytest.mark.parametrize(("kind", "good"), [(tkl.f32, True), (tkl.f16, False), (tkl.i8, False)])
def test_a_copy_fills_a_word_of_each_lane(kind: Any, good: bool) -> None:
    """One half of a word for each lane, in a row of 64: they land in this row and in the next one."""
    made = ByHand()
    memory = made.alloc(3 * WAVES + 4, LANES, kind)
    made.copy(memory, 3 * WAVE, kind=kind)
    made.read(memory, 3 * WAVE + 4)
    assert made.check().is_proved is good


@pytest.mark.parametrize(("apart", "good"), [(256, True), (257, False)])
def test_a_copy_between_two_words_may_start_in_the_first(apart: int, good: bool) -> None:
    made = ByHand()
    memory = made.alloc(1, 4 * 260, tkl.i8)
    made.write(memory, 0, WAVE * apart + LANE * 4, 4)
    made.put("MemoryCounterWait", None, None, 0, None, type=[])
    made.copy(memory, 0, WAVE * apart + LANE * 4, 4, tkl.i8)
    assert made.check().is_proved is good


@pytest.mark.parametrize(("bound", "good"), [(4, True), (100, False)])
@pytest.mark.parametrize("first", [None, 4])
def test_a_mask_that_lets_the_last_wave_leave_its_buffer(bound: int, good: bool, first: int | None) -> None:
    """A mask was taken to switch off every lane that leaves. Equal places with other masks are asked by themselves."""
    made = ByHand()
    memory, other = made.alloc(), made.alloc()
    for most in (first, bound):
        if most is not None:
            node = made.write(memory, WAVE + 1)
            node.args = (*node.args[:5], {M: most}, *node.args[6:])
            made.barrier()
    made.read(other, WAVE)
    assert made.check().is_proved is good


@pytest.mark.parametrize(("column", "good"), [(sympy.Mod(LANE * COUNTER, LANES), True), (LANE * COUNTER, False)])
def test_lanes_that_leave_their_buffer_in_a_later_iteration(column: Any, good: bool) -> None:
    made = ByHand()
    memory = made.alloc()
    with made.region("body"):
        made.write(memory, 3, column)
        made.barrier()
    made.loop("body", 3)
    assert made.check().is_proved is good


@pytest.mark.parametrize(("further", "good"), [(0, True), (1, False)])
def test_lanes_of_a_wave_that_is_moved_to_stay_in_its_buffer(further: int, good: bool) -> None:
    """The first wave takes more room than the last one, which starts too near to the end for as much."""
    made = ByHand()
    memory = made.alloc(1, 1024)
    last = 960 - 2 + LANE

    def place(by: int) -> Any:
        return sympy.Piecewise((LANE * 2, WAVE < 1), (128 * WAVE + LANE, WAVE < 3), (last + by, True))

    made.write(memory, 0, place(0))
    made.read(memory, 0, place(further))
    assert made.check().is_proved is good


@pytest.mark.parametrize(("wide", "pad", "good"), [(64, 0, True), (64, 4, True), (256, 0, False), (48, 4, False)])
def test_a_tile_is_copied_row_behind_row(wide: int, pad: int, good: bool) -> None:
    """Of a buffer with longer rows, and where no gap of the hardware fits its padding, other bytes are written."""
    made = ByHand("gfx1250")
    memory = made.alloc(8 if wide < 256 else 2, wide + pad, pad=pad)
    tile = 64 if wide == 256 else wide
    row, column = (0, 64 * WAVE) if wide == 256 else (2 * WAVE, 0)
    made.write(memory, row, column + sympy.Mod(LANE, 32))
    made.put("MemoryCounterWait", None, None, 0, None, type=[])
    place = {M: IndexSequence(sympy.sympify(row), 1, 1), N: IndexSequence(sympy.sympify(column), 1, 1)}
    made.put("TensorLoadToLDS", made.argument(), memory, tkl.f32, [2, tile], place, place, {}, None, type=[])
    codes = {each.code for each in made.check()}
    assert ("TG103" not in codes) is good
    assert ("TG403" in codes) is not good


@pytest.mark.parametrize(("dims", "good"), [((M, N), True), ((N, M), False)])
def test_the_mapping_of_an_atomic_goes_by_the_dimensions_of_what_is_added(dims: tuple[Any, Any], good: bool) -> None:
    made = ByHand()
    memory = made.alloc(64, 64, tkl.i32)
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    mapping = tkw.IndexMapping(num_iterators=2, inputs={M: i, N: j}, outputs={M: i, N: j})
    type = tkl.Register[(*dims, tkl.i32)]
    one = made.put("NewRegister", dims, tkl.i32, 1, type=type)
    made.at(made.put("AtomicAddOp", one, memory, 1, mapping, type=type), WAVE, LANE)
    made.read(memory, WAVE + WAVES)
    assert made.check().is_proved is good


# --- barriers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "good"), [(0, True), (2, False), (-3, False)])
def test_waves_that_wait_at_a_barrier_with_a_name_of_its_own(number: int, good: bool) -> None:
    """Without a signal they wait for ever; barrier 0 lets everybody pass."""
    made = ByHand("gfx1250")
    made.write(made.alloc(), WAVE, sympy.Mod(LANE, 32))
    made.put("SharedMemoryBarrierWait", number, type=[])
    found = made.check()
    assert found.is_proved is good
    assert good or is_unmodelled(found, "the participants of this barrier are unknown")


@pytest.mark.parametrize(("number", "why"), [(0, ""), (2, "the participants of this barrier are unknown")])
def test_what_is_not_modelled_is_left_to_wave(number: int, why: str) -> None:
    """The trace is as it was, or needs one barrier, and has it."""
    made = ByHand("gfx1250")
    memory, lane = made.alloc(), sympy.Mod(LANE, 32)
    made.put("SharedMemoryBarrierWait", number, type=[])
    made.write(memory, WAVE, lane)
    made.read(memory, OTHER, lane)
    made.graph.output(None)
    hardware = tkw.HardwareConstraint(threads_per_wave=LANES, waves_per_block=(WAVES, 1, 1))
    found = place_barriers(
        made.trace, context_of([hardware], {}), load_target(made.target), Options(strategy="minimal")
    )
    assert found.why_not.endswith(why)
    assert bool(found.why_not) is bool(why)
    assert [op_of(each) for each in made.graph.nodes].count("shared_memory_barrier") == (not why)


# --- what a result says -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("by", "good"), [(0, True), (1, False)])
def test_a_result_without_findings_is_true_only_if_it_is_proved(by: int, good: bool) -> None:
    """The last wave may write behind its buffer: runs find nothing, and an empty list was taken for a proof."""
    made = ByHand()
    made.write(made.alloc(), WAVE + by)
    found = made.check()
    assert isinstance(found, CheckResult)
    assert (list(found), bool(found), found.is_proved) == ([], good, good)
    assert found.verdict.startswith("proved:" if good else "not proved: an access that may leave `allocate`")
    assert str(found) == found.verdict
