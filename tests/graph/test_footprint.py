"""Named cases: every form of slot that pipelines use, what is widened, and when two accesses meet."""

from __future__ import annotations

import pytest

from tidegate.footprint import Conflicts, Footprints, Pairs, find_footprints, show_footprints
from tidegate.footprint.arithmetic import Arithmetic
from tidegate.footprint.model import CarriedNumber
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.flow import Flow, flow_of
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.index import WAVE, Binary, Compare, Cond, Const, Flag, Index, Inexact, Name, Select, evaluate
from tidegate.language.parse import parse
from tidegate.targets import load_target

S, W = Name("%s"), Name(WAVE)
ALL = Pairs.OWN | Pairs.WITHIN | Pairs.BACK | Pairs.FORTH


def op(sign: str, left: Index, right: Index | int) -> Index:
    return Binary(sign, left, Const(right) if isinstance(right, int) else right)


def plus(left: Index, right: int) -> Index:
    return op("+", left, right)


def select(cond: Cond, then: Index | int, otherwise: Index | int) -> Index:
    made = [Const(each) if isinstance(each, int) else each for each in (then, otherwise)]
    return Select(cond, *made)


def builder(waves: int = 4, slots: int = 4) -> GraphBuilder:
    b = GraphBuilder("case", waves=waves)
    b.buffer("%a", 1024, slots)
    b.buffer("%b", 1024, 1)
    b.size("K", 64)
    b.flag("%f")
    b.scalar("%t")
    return b


def footprints_of(b: GraphBuilder) -> tuple[Flow, Footprints]:
    flow = flow_of(b.finish())
    return flow, find_footprints(flow)


def start_of(footprints: Footprints, node: int) -> Index:
    (spot,) = footprints.accesses[node].places
    assert spot.start is not None
    return spot.start


# --- recurrences --------------------------------------------------------------------------------------------------

FORMS = {
    "mod": (op("mod", plus(S, 1), 3), 3, 1),
    "mod 2": (op("mod", plus(S, 2), 3), 3, 2),
    "equal": (select(Compare("==", plus(S, 1), Const(3)), 0, plus(S, 1)), 3, 1),
    "not less": (select(Compare(">=", plus(S, 1), Const(3)), 0, plus(S, 1)), 3, 1),
    "less": (select(Compare("<", plus(S, 1), Const(4)), plus(S, 1), 0), 4, 1),
    "last": (select(Compare("==", S, Const(2)), 0, plus(S, 1)), 3, 1),
    "down": (select(Compare("==", S, Const(0)), 2, plus(S, -1)), 3, 2),
    "down mod": (op("mod", plus(S, 3), 4), 4, 3),
    "flip": (op("-", Const(1), S), 2, 1),
    "xor": (op("xor", S, 1), 2, 1),
    "inexact xor": (Inexact(op("xor", S, 1)), 2, 1),
    "stay": (S, 3, 0),
    "subtract": (op("-", plus(S, 1), op("*", op("//", plus(S, 1), 3), 3)), 3, 1),
}
CASES = [(name, first) for name, (_, size, _) in FORMS.items() for first in range(size)]


@pytest.mark.parametrize(("form", "first"), CASES)
def test_a_slot_that_goes_round_is_solved(form: str, first: int) -> None:
    after, size, step = FORMS[form]
    b = builder()
    b.add(g.Assign((("%s", Const(first)),)))
    with b.loop("%k", 0, Name("K")):
        read = b.read("%a", slot=S)
        b.add(g.Assign((("%s", after),)))
    _, footprints = footprints_of(b)
    for trip in range(12):
        assert evaluate(start_of(footprints, read), {"#0": trip}) == (first + step * trip) % size * 1024
    assert not footprints.opaques


@pytest.mark.parametrize("form", ["mod", "equal", "not less", "less", "last", "down", "flip"])
def test_a_slot_may_start_anywhere_in_its_range(form: str) -> None:
    after, size, step = FORMS[form]
    b = builder()
    b.add(g.Assign((("%s", op("mod", Name("K"), size)),)))
    with b.loop("%k", 0, Name("K")):
        read = b.read("%a", slot=S)
        b.add(g.Assign((("%s", after),)))
    after_loop = b.read("%a", slot=S)
    _, footprints = footprints_of(b)
    for size_k in range(1, 7):
        for trip in range(7):
            found = evaluate(start_of(footprints, read), {"#0": trip, "K": size_k})
            assert found == (size_k + step * trip) % size * 1024
        assert evaluate(start_of(footprints, after_loop), {"K": size_k}) == (size_k + step * size_k) % size * 1024


def test_a_start_out_of_range_is_not_believed() -> None:
    b = builder()
    b.add(g.Assign((("%s", Name("%t")),)))
    with b.loop("%k", 0, Name("K")):
        b.read("%a", slot=S)
        b.add(g.Assign((("%s", select(Compare("==", plus(S, 1), Const(3)), 0, plus(S, 1))),)))
    _, footprints = footprints_of(b)
    assert footprints.opaques  # %t may be 7, and then it never comes round


def test_an_outer_slot_advances_by_what_the_inner_loop_runs() -> None:
    b = builder()
    b.add(g.Assign((("%s", Const(0)),)))
    with b.loop("%i", 0, Name("K")):
        with b.loop("%j", 0, 2):
            read = b.read("%a", slot=S)
            b.add(g.Assign((("%s", op("mod", plus(S, 1), 3)),)))
        last = b.read("%a", slot=S)
    _, footprints = footprints_of(b)
    for i in range(5):
        for j in range(2):
            assert evaluate(start_of(footprints, read), {"#0": i, "#1": j}) == (2 * i + j) % 3 * 1024
        assert evaluate(start_of(footprints, last), {"#0": i}) == (2 * i + 2) % 3 * 1024


def test_a_slot_that_a_loop_of_unknown_length_moves_goes_on_from_there() -> None:
    b = builder(slots=3)
    b.add(g.Assign((("%s", Const(0)),)))
    with b.loop("%i", 0, Name("K")):
        write = b.write("%a", slot=S)
        read = b.read("%a", slot=op("mod", plus(S, 1), 3))
        with b.loop("%j", 0, Name("%t")):
            b.add(g.Assign((("%s", op("mod", plus(S, 1), 3)),)))
    flow, footprints = footprints_of(b)
    (opaque,) = (each for each in footprints.opaques.values() if each.when == "arrives")
    assert (opaque.low, opaque.agree) == (0, True)
    (carried,) = footprints.carried.items()
    assert carried == (opaque.name, CarriedNumber(0, Const(0), op("max", Const(0), Name("%t"))))
    assert start_of(footprints, write) == op("*", op("mod", Name(opaque.name), 3), 1024)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(write, read) == ()
    assert [each.distance for each in conflicts.carried(write, read, 0)] == [1]


def test_names_that_hand_their_slots_on() -> None:
    b = builder()
    b.add(g.Assign((("%x", Const(0)), ("%y", Const(2)), ("%z", Name("%t")))))
    with b.loop("%k", 0, Name("K")):
        read = b.read("%a", slot=Name("%x"))
        b.add(g.Assign((("%x", Name("%y")), ("%y", Name("%z")), ("%z", Name("%x")))))
    _, footprints = footprints_of(b)
    for trip in range(7):
        assert evaluate(start_of(footprints, read), {"#0": trip, "%t": 3}) == (0, 2, 3)[trip % 3] * 1024


def test_what_another_name_held_before() -> None:
    b = builder()
    b.add(g.Assign((("%s", Const(0)), ("%p", Const(3)))))
    with b.loop("%k", 0, Name("K")):
        read = b.read("%a", slot=Name("%p"))
        b.add(g.Assign((("%p", S), ("%s", op("mod", plus(S, 1), 3)))))
    _, footprints = footprints_of(b)
    found = [evaluate(start_of(footprints, read), {"#0": trip}) // 1024 for trip in range(6)]
    assert found == [3, 0, 1, 2, 0, 1]


def test_an_orbit_that_is_no_rotation() -> None:
    b = builder()
    b.add(g.Assign((("%s", Const(0)), ("%q", Const(1)))))
    with b.loop("%k", 0, Name("K")):
        read = b.read("%a", slot=S)
        b.add(g.Assign((("%s", Name("%q")), ("%q", op("mod", op("+", S, Name("%q")), 3)))))
    _, footprints = footprints_of(b)
    x, y = 0, 1
    for trip in range(20):
        assert evaluate(start_of(footprints, read), {"#0": trip}) == x * 1024
        x, y = y, (x + y) % 3


# --- views --------------------------------------------------------------------------------------------------------


def test_rotating_views() -> None:
    b = builder(slots=2)
    b.add(g.Assign((("%v", g.Ref("%a")), ("%w", g.Ref("%a", Const(1))))))
    with b.loop("%k", 0, Name("K")):
        write = b.write("%v", bytes=1024)
        read = b.read("%w", bytes=1024)
        b.add(g.Assign((("%v", g.Ref("%w")), ("%w", g.Ref("%v")))))
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(write, read) == ()
    assert [(each.distance, each.pairs) for each in conflicts.carried(write, read, 0)] == [(1, ALL)]
    assert [(each.distance, each.exact) for each in conflicts.carried(write, write, 0)] == [(2, True)]


def test_a_view_through_select_meets_both_buffers_but_not_at_once() -> None:
    b = builder()
    b.add(g.Assign((("%v", g.Either(Flag("%f"), g.Ref("%a"), g.Ref("%b"))),)))
    b.add(g.Assign((("%w", g.Either(Flag("%f"), g.Ref("%b"), g.Ref("%a"))),)))
    one, other, a = b.write("%v", bytes=16), b.read("%w", bytes=16), b.read("%a", bytes=16)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(one, other) == ()
    assert conflicts.same_iteration(one, a)[0].pairs == ALL
    assert conflicts.same_iteration(other, a)[0].exact


def test_a_view_chosen_by_a_branch() -> None:
    b = builder()
    with b.branch(Compare("<", W, Const(2))) as arms:
        b.add(g.Assign((("%v", g.Ref("%a")),)))
        arms.otherwise()
        b.add(g.Assign((("%v", g.Ref("%b")),)))
    write, read = b.write("%v", bytes=16), b.read("%b", bytes=16)
    flow, footprints = footprints_of(b)
    (meeting,) = Conflicts(flow, footprints).same_iteration(write, read)
    assert meeting.pairs == Pairs.OWN | Pairs.WITHIN | Pairs.BACK


def test_a_callee_at_two_offsets() -> None:
    b = builder()
    b.function("f", ("%p",))
    b.write("%p", bytes=256)
    b.add(g.Return())
    b.program(0, 4)
    b.add(g.Call("f", (("%p", g.Ref("%a")),)))
    b.add(g.Call("f", (("%p", g.Ref("%a", Const(0), Const(256))),)))
    b.read("%a", offset=256, bytes=256)
    flow, footprints = footprints_of(b)
    (read,) = (node for node, touch in footprints.accesses.items() if touch.effect == "read")
    first, second = sorted(node for node in footprints.accesses if node != read)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(first, second) == ()
    assert conflicts.same_iteration(first, read) == ()
    assert conflicts.same_iteration(second, read)[0].pairs == ALL


def test_a_parameter_that_was_set_on_one_way_only_may_be_the_callees() -> None:
    b = builder()
    b.function("f", ("%p",))
    b.add(g.Return())
    b.program(0, 4)
    with b.branch(Flag("%f")):
        b.add(g.Assign((("%p", g.Ref("%a", Const(1))),)))
    b.add(g.Call("f", (("%p", g.Ref("%b")),)))
    b.write("%p", bytes=4)
    b.read("%b", bytes=4)
    flow, footprints = footprints_of(b)
    write, read = sorted(footprints.accesses)
    assert Conflicts(flow, footprints).same_iteration(write, read)


# --- what is not quasi-affine -------------------------------------------------------------------------------------


def test_a_swizzle_is_tried() -> None:
    b = builder(waves=8)
    swizzle = op("*", op("xor", W, 1), 128)
    write, read = b.write("%a", offset=op("*", W, 128), bytes=128), b.read("%a", offset=Inexact(swizzle), bytes=128)
    flow, footprints = footprints_of(b)
    assert footprints.accesses[read].exact
    (meeting,) = Conflicts(flow, footprints).same_iteration(write, read)
    assert (meeting.pairs, meeting.exact) == (Pairs.WITHIN, True)


def test_a_swizzle_with_a_counter_is_tried() -> None:
    b = builder(waves=2)
    with b.loop("%k", 0, Name("K")):
        where = op("*", op("xor", W, op("mod", Name("%k"), 2)), 64)
        write = b.write("%a", offset=where, bytes=64)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(write, write)[0].pairs == Pairs.OWN
    assert {each.distance: each.pairs for each in conflicts.carried(write, write, 0)} == {
        1: Pairs.BACK | Pairs.FORTH,
        2: Pairs.OWN,
    }


def test_an_index_from_memory_is_the_whole_buffer_and_noted() -> None:
    b = builder(slots=1)
    b.add(g.Havoc(("%n",)))
    write = b.write("%a", offset=Inexact(op("*", Name("%n"), 4)), bytes=4)
    apart, there = b.read("%b", bytes=4), b.read("%a", offset=512, bytes=4)
    flow, footprints = footprints_of(b)
    assert [note.node for note in footprints.notes] == [write]
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(write, apart) == ()
    (meeting,) = conflicts.same_iteration(write, there)
    assert (meeting.pairs, meeting.exact) == (ALL, False)
    assert footprints.bytes_at(write, {}) == {("%a", byte) for byte in range(1024)}


def test_an_unknown_operation_reaches_what_it_names_or_everything() -> None:
    b = builder()
    some, everything = b.add(g.Unknown(("%b",))), b.add(g.Unknown())
    read = b.read("%a", bytes=4)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert footprints.accesses[some].effect == "unknown"
    assert conflicts.same_iteration(some, read) == ()
    assert conflicts.same_iteration(everything, read)[0].pairs == ALL


# --- meetings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "write", "read", "same", "carried"),
    [
        (2, 0, 0, True, 2),
        (2, 1, 0, False, 1),
        (3, 2, 0, False, 2),
        (3, 1, 0, False, 1),
        (3, 0, 1, False, 2),
        (4, 3, 0, False, 3),
        (1, 0, 0, True, 1),
    ],
)
def test_slots_by_remainder(slots: int, write: int, read: int, same: bool, carried: int) -> None:
    b = builder(slots=slots)
    with b.loop("%k", 0, Name("K")) as k:
        one = b.write("%a", slot=op("mod", plus(k, write), slots), bytes=1024)
        other = b.read("%a", slot=op("mod", plus(k, read), slots), bytes=1024)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert bool(conflicts.same_iteration(one, other)) == same
    assert [(each.distance, each.pairs, each.exact) for each in conflicts.carried(one, other, 0)] == [
        (carried, ALL, True)
    ]


def test_nested_remainders() -> None:
    b = builder(slots=2)
    with b.loop("%k", 0, Name("K")) as k:
        one = b.write("%a", slot=op("mod", op("mod", k, 6), 2), bytes=1024)
        other = b.read("%a", slot=op("mod", op("//", op("mod", k, 6), 2), 2), bytes=1024)
    flow, footprints = footprints_of(b)
    (meeting,) = Conflicts(flow, footprints).carried(one, other, 0)
    assert (meeting.distance, meeting.exact) == (1, True)


def test_constant_slots() -> None:
    b = builder()
    zero, one = b.write("%a", slot=0, bytes=1024), b.read("%a", slot=1, bytes=1024)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(zero, one) == ()
    assert conflicts.same_iteration(zero, zero)[0].pairs == ALL
    assert conflicts.isl_queries == 0


def test_private_data_meet_only_themselves() -> None:
    b = builder()
    with b.loop("%k", 0, Name("K")):
        one = b.write("%a", offset=op("*", W, 256), bytes=256)
        other = b.read("%a", offset=plus(op("*", W, 256), 16), bytes=64)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(one, other)[0].pairs == Pairs.OWN
    assert [(each.distance, each.pairs) for each in conflicts.carried(one, other, 0)] == [(1, Pairs.OWN)]


def test_the_neighbours_rows() -> None:
    b = builder()
    one = b.write("%a", offset=op("*", W, 256), bytes=256)
    other = b.read("%a", offset=op("*", op("mod", plus(W, 1), 4), 256), bytes=256)
    flow, footprints = footprints_of(b)
    (meeting,) = Conflicts(flow, footprints).same_iteration(one, other)
    assert meeting.pairs == Pairs.WITHIN | Pairs.BACK | Pairs.FORTH
    assert (meeting.witness.buffer, meeting.witness.last - meeting.witness.first) == ("%a", 256)


def test_overlapping_offsets() -> None:
    b = GraphBuilder("offsets", waves=2)
    b.buffer("%a", 64, 1, 0)
    b.buffer("%b", 64, 1, 32)
    b.buffer("%c", 64, 1, 96)
    b.buffer("%d", 64)
    low, high = b.write("%a", bytes=32), b.write("%a", offset=32, bytes=32)
    on, behind, apart = b.read("%b", bytes=64), b.read("%c", bytes=64), b.read("%d", bytes=64)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(low, on) == ()
    (meeting,) = conflicts.same_iteration(high, on)
    assert (meeting.witness.buffer, meeting.witness.first, meeting.witness.last) == ("%a", 32, 64)
    assert conflicts.same_iteration(high, behind) == conflicts.same_iteration(high, apart) == ()


def test_arms_of_one_branch_do_not_meet_in_one_iteration() -> None:
    b = builder()
    with b.loop("%k", 0, Name("K")) as k, b.branch(Compare("==", op("mod", k, 2), Const(0))) as arms:
        one = b.write("%a", bytes=4)
        arms.otherwise()
        other = b.read("%a", bytes=4)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.same_iteration(one, other) == ()
    assert [each.distance for each in conflicts.carried(one, other, 0)] == [1]
    assert [each.distance for each in conflicts.carried(one, one, 0)] == [2]


def test_a_loop_that_runs_once_carries_nothing() -> None:
    b = builder()
    with b.loop("%k", 0, 1):
        once = b.write("%a", bytes=4)
    with b.loop("%j", 0, 3) as j:
        few = b.write("%a", slot=j, bytes=4)
        far = b.read("%a", slot=op("-", j, 3), bytes=4)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.carried(once, once, 0) == ()
    assert conflicts.carried(few, far, 1) == ()  # three iterations later, and there are only three


def test_the_first_round_in_which_they_meet() -> None:
    b = builder()
    write = b.write("%a", slot=2, bytes=4)
    with b.loop("%k", 0, Name("K")) as k:
        read = b.read("%a", slot=k, bytes=4)
    flow, footprints = footprints_of(b)
    (meeting,) = Conflicts(flow, footprints).same_iteration(write, read)
    assert meeting.rounds == ((0, 2),)


def test_the_rounds_that_remain_after_they_meet() -> None:
    b = builder()
    with b.loop("%k", 0, 4) as k:
        write = b.write("%a", slot=op("mod", plus(k, 1), 3), bytes=4)
    reads = [b.read("%a", slot=slot, bytes=4) for slot in range(3)]
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    found = [conflicts.same_iteration(write, read)[0].rounds for read in reads]
    assert found == [((0, 1),), (), ((0, 2),)]  # slots 1, 2, 0, 1


def test_the_rounds_that_remain_of_a_loop_as_long_as_a_size_says() -> None:
    b = builder()
    with b.loop("%k", 0, Name("K")) as k:
        write = b.write("%a", slot=op("mod", k, 3), bytes=4)
    reads = [b.read("%a", slot=op("mod", plus(Name("K"), ahead), 3), bytes=4) for ahead in (-1, -2, 0)]
    reads.append(b.read("%a", slot=2, bytes=4))
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    found = [conflicts.same_iteration(write, read)[0].rounds for read in reads]
    assert found == [(), ((0, 1),), ((0, 2),), ()]


def test_the_rounds_of_a_loop_that_is_left_and_entered_again() -> None:
    b = builder()
    with b.loop("%o", 0, 5):
        before = b.read("%a", slot=2, bytes=4)
        with b.loop("%k", 0, 4) as k:
            write = b.write("%a", slot=op("mod", k, 4), bytes=4)
            fixed = b.read("%a", slot=1, bytes=4)
    flow, footprints = footprints_of(b)
    conflicts = Conflicts(flow, footprints)
    assert conflicts.carried(write, before, 0)[0].rounds == ((1, 1),)
    assert conflicts.carried(write, fixed, 0)[0].rounds == ((1, 2),)
    assert conflicts.carried(fixed, write, 0)[0].rounds == ((1, 1),)
    assert conflicts.carried(write, write, 0)[0].rounds == ()


def test_no_rounds_remain_of_a_loop_that_may_be_left_early() -> None:
    b = builder()
    with b.loop("%k", 0, 4) as k:
        write = b.write("%a", slot=op("mod", plus(k, 1), 3), bytes=4)
        with b.branch(None):
            inside = b.read("%a", slot=2, bytes=4)
            b.add(g.End())
    flow, footprints = footprints_of(b)
    assert conflicts_of(flow, footprints, write, inside) == ()


def conflicts_of(flow: Flow, footprints: Footprints, x: int, y: int) -> tuple[tuple[int, int], ...]:
    (meeting,) = Conflicts(flow, footprints).same_iteration(x, y)
    return meeting.rounds


# --- text ---------------------------------------------------------------------------------------------------------


def test_footprints_as_text_and_for_isl() -> None:
    import islpy as isl

    b = builder()
    with b.loop("%k", 0, op("//", Name("K"), 2)) as k:
        read = b.read("%a", slot=op("mod", k, 2), offset=op("*", W, 64), extents=(g.Extent(4, 256),), bytes=16)
    graph = b.finish()
    assert parse_graph(show_graph(graph)) is not None
    _, footprints = footprints_of_graph(graph)
    assert show_footprints(footprints) == (
        f"{read}: read %a + #0 mod 2 * 1024 + wave * 64, 4 by 256, 16 bytes if #0 + K // 2 * (-1) < 0\n"
    )
    assert isl.Map.read_from_str(isl.Context(), footprints.as_isl(read)).is_empty() is False


def footprints_of_graph(graph: g.SyncGraph) -> tuple[Flow, Footprints]:
    flow = flow_of(graph)
    return flow, find_footprints(flow)


def test_two_reads_of_the_same_bytes_have_one_class() -> None:
    b = builder()
    one, other, third = b.read("%a", bytes=4), b.write("%a", bytes=4), b.read("%a", bytes=8)
    _, footprints = footprints_of(b)
    assert footprints.class_of(one) == footprints.class_of(other) != footprints.class_of(third)


def test_many_loops_one_after_another_need_no_recursion() -> None:
    b = builder()
    b.add(g.Assign((("%s", Const(0)),)))
    for number in range(1200):
        with b.loop(f"%k{number}", 0, Name("K")):
            b.add(g.Assign((("%s", op("mod", plus(S, 1), 3)),)))
    read = b.read("%a", slot=S)
    _, footprints = footprints_of(b)
    assert evaluate(start_of(footprints, read), {"K": 5, **dict.fromkeys(footprints.opaques, 0)}) % 1024 == 0


def test_a_slot_that_two_loops_carry_keeps_its_range_and_its_steps() -> None:
    """A persistent loop goes on with the slot where the tile before has left it."""
    text = """
kernel @persistent() sizes(K = 3, T = 3) waves 2 {
  %t = alloc : lds<2x64xf32, slots = 2>
  %z = fill 0.0 : tile<64xf32>
  %s0 = iterate %i in 0 .. T carry(%s = 0 : index) {
    %s2 = iterate %k in 0 .. K carry(%w = %s : index) {
      local_write %z, %t[%w][wave]
      %b = local_read %t[%w][1 - wave] : tile<64xf32>
      yield select(%w + 1 == 2, 0, %w + 1)
    }
    yield %s2
  }
}
"""
    module = parse(text)
    graph = build_graph(module.kernels[0], load_target("gfx942")).graph
    flow = flow_of(graph)
    footprints = find_footprints(flow)
    write, read = sorted(footprints.accesses)
    inner = flow.loop_of[write]
    meetings = Conflicts(flow, footprints).carried(read, write, inner)
    assert [each.distance for each in meetings] == [2]


@pytest.mark.parametrize("first", [-1, 0, 2])
@pytest.mark.parametrize("below", [True, False])
def test_a_slot_that_is_reset_is_a_remainder(first: int, below: bool) -> None:
    """The pipeliner of Triton carries the slot before, may start at -1, and adds one where it uses it."""
    math = Arithmetic({"#0": (0, None)})
    later = Binary("mod", Binary("+", Name("#0"), Const(first + 3)), Const(3))
    before = math.select(Compare("==", Name("#0"), Const(0)), Const(first), math.put(later, {}))
    following = Binary("+", Name("%s"), Const(1))
    reset = Select(Compare(">=", following, Const(3)), Const(0), following)
    kept = Select(Compare("<", following, Const(3)), following, Const(0))
    use = math.put(kept if below else reset, {"%s": before})
    assert isinstance(use, Binary)
    assert use.op == "mod"
    assert [evaluate(use, {"#0": trip}) for trip in range(7)] == [(trip + first + 1) % 3 for trip in range(7)]


def test_what_is_no_remainder_stays_a_choice() -> None:
    """A slot that may be beyond the last is not reset to the first."""
    math = Arithmetic({"%s": (0, 5)})
    following = Binary("+", Name("%s"), Const(1))
    found = math.put(Select(Compare(">=", following, Const(3)), Const(0), following), {})
    assert [evaluate(found, {"%s": slot}) for slot in range(6)] == [1, 2, 0, 0, 0, 0]
