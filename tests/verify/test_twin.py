"""The brute-force twin alone: small programs whose answers follow from the machine model by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oracles.twin import AMBIGUITIES, STRICT, Program, Rules, generate, judge, to_tide
from oracles.twin.__main__ import main
from oracles.twin.explicit import safe_for_one_map
from oracles.twin.facts import FACTS
from oracles.twin.program import (
    WAVE,
    Access,
    Compute,
    Cond,
    Condition,
    Copy,
    Index,
    Loop,
    Memory,
    Place,
    Statement,
    Sync,
    Tile,
    number,
)

AMD = ("gfx90a", "gfx942", "gfx950", "gfx1201", "gfx1250")
NVIDIA = ("sm_80", "sm_90")
ROW = Tile((32,), "f32")
ROWS = Memory("b", (2, 64), "f32")
NEXT = Index(((1, "wave"),), 1, mod=2)
FENCE, BARE, DRAIN, COMMIT = Sync("fence"), Sync("bare"), Sync("drain"), Sync("commit")
SIGNAL, DEPART = Sync("signal"), Sync("wait")


def place(column: int = 0, of: Index = WAVE, memory: str = "b", slot: Index | None = None) -> Place:
    return Place(memory, (of, number(column)), slot)


def write(column: int = 0, of: Index = WAVE, tile: Tile = ROW, memory: str = "b", value: str = "x") -> Access:
    return Access("write", place(column, of, memory), tile, value)


def read(column: int = 0, of: Index = WAVE, tile: Tile = ROW, memory: str = "b", result: str = "r") -> Access:
    return Access("read", place(column, of, memory), tile, result=result)


def add(column: int = 0, of: Index = WAVE, tile: Tile = ROW, memory: str = "b", result: str = "") -> Access:
    return Access("atomic", place(column, of, memory), tile, "x", result)


def copy(column: int = 0, of: Index = WAVE, tile: Tile = ROW, operation: str = "gather_to_lds") -> Copy:
    return Copy(operation, place(column, of), tile)


def wait(**counts: int) -> Sync:
    return Sync("count", tuple(counts.items()))


def safe(
    target: str,
    *body: Statement,
    memory: tuple[Memory, ...] = (ROWS,),
    waves: int = 2,
    least: int = 0,
    rules: Rules = STRICT,
) -> bool:
    return judge(Program(target, waves, memory, body, least), rules=rules).safe


def lds_wait(target: str, n: int = 0) -> Sync:
    return Sync("count", ((FACTS[target].lds_counter, n),))


def copy_wait(target: str, n: int = 0) -> Sync:
    return Sync("count", ((FACTS[target].copies["gather_to_lds"], n),))


@pytest.mark.parametrize("target", FACTS)
class TestLanes:
    def test_a_shift_needs_a_fence(self, target: str) -> None:
        assert not safe(target, write(), read(1))
        assert not safe(target, write(), Compute("scheduling_barrier"), read(1))
        for fence in (FENCE, BARE, DRAIN):
            assert safe(target, write(), fence, read(1))
        assert not safe(target, FENCE, write(), read(1), FENCE)

    def test_a_shift_needs_two_fences_in_a_loop(self, target: str) -> None:
        def loop(*body: Statement) -> Loop:
            return Loop("k0", Index(((1, "N"),)), body)

        assert not safe(target, loop(write(), FENCE, read(1)), least=1)
        assert safe(target, loop(write(), FENCE, read(1), FENCE), least=1)

    def test_own_lanes_need_nothing(self, target: str) -> None:
        assert safe(target, write(), read(), add(), write(), read())
        assert safe(target, Loop("k0", number(3), (write(), read())))

    def test_other_shapes_types_and_widths_are_other_lanes(self, target: str) -> None:
        ints = Memory("v", (2, 64), "i32", base="b", start=(0,))
        halves = Memory("h", (2, 128), "f16", base="b", start=(0,))
        flat = Memory("s", (2, 2, 32), "f32", base="b", start=(0,))
        assert not safe(target, write(), read(memory="v", tile=Tile((32,), "i32")), memory=(ROWS, ints))
        assert not safe(target, write(), read(memory="h", tile=Tile((64,), "f16")), memory=(ROWS, halves))
        assert not safe(target, write(), read(tile=Tile((16,), "f32")))
        two = Access("read", Place("s", (WAVE,)), Tile((1, 32), "f32"), result="r")
        assert not safe(target, write(), two, memory=(ROWS, flat))
        assert safe(target, write(), FENCE, two, memory=(ROWS, flat))

    def test_a_part_of_the_same_tile_keeps_its_lanes(self, target: str) -> None:
        assert safe(target, write(), Access("read", place(), ROW, result="r", bounds=(2, 16)))

    def test_transposed_and_matrix_tiles_have_other_lanes(self, target: str) -> None:
        box, tile = Memory("b", (2, 16, 16), "f32"), Tile((16, 16), "f32")
        at = Place("b", (WAVE, number(0), number(0)))
        store, load = Access("write", at, tile, "x"), Access("read", at, tile, result="r")
        turned = Compute("", ("r",), ("r", "t"), fixed=True)
        assert safe(target, store, load, memory=(box,))
        assert not safe(target, store, load, turned, memory=(box,))
        assert safe(target, store, FENCE, load, turned, memory=(box,))
        tied = Compute("", ("r",), ("r", "s"))
        product = Compute("", ("s", "c"), ("s", "c", "d"), fixed=True)
        assert not safe(target, store, load, tied, product, memory=(box,))

    def test_a_fence_in_one_arm_is_no_fence(self, target: str) -> None:
        program = (write(), Cond(Condition(WAVE, "==", 0), (FENCE,)), read(1))
        assert not safe(target, *program)
        assert safe(target, write(), Cond(Condition(WAVE, "==", 0), (FENCE,), (DRAIN, FENCE)), read(1), waves=1)

    def test_a_fence_is_for_one_wave(self, target: str) -> None:
        assert not safe(target, write(), FENCE, read(0, NEXT))
        assert safe(target, write(), DRAIN, read(0, NEXT))


@pytest.mark.parametrize("target", AMD)
def test_a_wait_is_no_fence_between_lanes_unless_read_so(target: str) -> None:
    body = (write(), lds_wait(target), read(1))
    assert not safe(target, *body)
    assert safe(target, *body, rules=Rules(amd_wait_is_wave_fence=True))


@pytest.mark.parametrize("target", AMD)
def test_amd_barriers_perform_nothing(target: str) -> None:
    assert not safe(target, write(), BARE, read(0, NEXT))
    assert safe(target, write(), lds_wait(target), BARE, read(0, NEXT))
    assert not safe(target, write(), lds_wait(target, 1), BARE, read(0, NEXT))
    assert not safe(target, write(), write(32), lds_wait(target, 1), BARE, read(0, NEXT))
    assert not safe(target, read(0, NEXT), BARE, write())


@pytest.mark.parametrize("target", NVIDIA)
def test_nvidia_barriers_perform_ordinary_accesses(target: str) -> None:
    assert safe(target, write(), BARE, read(0, NEXT))
    assert safe(target, read(0, NEXT), BARE, write())


@pytest.mark.parametrize("target", ["gfx1201", "gfx1250"])
def test_the_drain_of_a_split_pair_stands_before_its_signal(target: str) -> None:
    drained = lds_wait(target)
    assert safe(target, write(), drained, SIGNAL, DEPART, read(0, NEXT))
    assert not safe(target, write(), SIGNAL, drained, DEPART, read(0, NEXT))
    assert not safe(target, write(), drained, SIGNAL, read(0, NEXT), DEPART)
    assert not safe(target, SIGNAL, write(), read(1), DEPART)
    assert safe(target, write(), SIGNAL, DEPART, read(1))


@pytest.mark.parametrize("target", ["gfx1201", "gfx1250"])
def test_signals_and_waits_alternate(target: str) -> None:
    assert not safe(target, SIGNAL, SIGNAL, DEPART)
    assert not safe(target, DEPART)
    assert not safe(target, SIGNAL)
    assert not safe(target, SIGNAL, BARE, DEPART)
    assert safe(target, SIGNAL, DEPART, BARE, SIGNAL, DEPART)


@pytest.mark.parametrize("target", FACTS)
def test_arrivals_must_be_equal(target: str) -> None:
    first = Condition(WAVE, "==", 0)
    assert not safe(target, Cond(first, (BARE,)))
    assert safe(target, Cond(first, (DRAIN,), (BARE,)))


@pytest.mark.parametrize("target", FACTS)
def test_a_carried_hazard_needs_its_own_barrier(target: str) -> None:
    trips = Index(((1, "N"),))
    assert not safe(target, Loop("k0", trips, (write(), DRAIN, read(0, NEXT))), least=1)
    assert safe(target, Loop("k0", trips, (write(), DRAIN, read(0, NEXT), DRAIN)), least=1)


@pytest.mark.parametrize("target", FACTS)
def test_two_slots_and_one_barrier(target: str) -> None:
    slots = Memory("b", (2, 64), "f32", 2)
    this = Index(((1, "k0"),), mod=2)
    put = Access("write", place(slot=this), ROW, "x")
    get = Access("read", place(of=NEXT, slot=this), ROW, result="r")
    assert safe(target, Loop("k0", number(6), (put, DRAIN, get)), memory=(slots,))
    one = Access("write", place(slot=number(0)), ROW, "x")
    assert not safe(target, Loop("k0", number(6), (one, DRAIN, get)), memory=(slots,))


@pytest.mark.parametrize("target", FACTS)
def test_a_barrier_in_a_loop_that_may_not_run(target: str) -> None:
    def between(offset: int) -> tuple[Statement, ...]:
        return write(), Loop("k0", Index(((1, "N"),), offset), (DRAIN,)), read(0, NEXT)

    assert not safe(target, *between(-1), least=1)
    assert safe(target, *between(-1), least=2)
    assert safe(target, *between(0), least=1)


@pytest.mark.parametrize("target", FACTS)
def test_an_inversion_is_as_wrong_as_a_race(target: str) -> None:
    first, second = Condition(WAVE, "==", 0), Condition(WAVE, "==", 1)
    late_write = Cond(first, (DRAIN, write(0, number(0))))
    early_read = Cond(second, (read(0, number(0)), DRAIN))
    assert not safe(target, late_write, early_read)
    assert safe(target, early_read, late_write)


@pytest.mark.parametrize("target", FACTS)
def test_two_waves_write_one_row(target: str) -> None:
    assert not safe(target, write(0, number(0)))
    assert safe(target, write(0, number(0)), waves=1)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "gfx1250"])
def test_a_wait_on_amd_speaks_for_the_wave(target: str) -> None:
    assert not safe(target, copy(), read())
    assert not safe(target, copy(), DRAIN, read())
    assert safe(target, copy(), copy_wait(target), read(1))
    assert not safe(target, copy(), copy_wait(target), read(0, NEXT))
    assert safe(target, copy(), copy_wait(target), BARE, read(0, NEXT))
    assert not safe(target, copy(), BARE, copy_wait(target), read(0, NEXT))
    assert safe(target, copy(), Sync("drain", all_copies=True), read(0, NEXT))


@pytest.mark.parametrize("target", NVIDIA)
def test_a_wait_on_nvidia_speaks_for_its_lane(target: str) -> None:
    landed = wait(group=0)
    assert not safe(target, copy(), COMMIT, landed, read())
    assert safe(target, copy(), COMMIT, landed, FENCE, read(1))
    assert not safe(target, copy(), COMMIT, FENCE, landed, read())
    assert not safe(target, copy(), landed, FENCE, read())
    assert safe(target, copy(), COMMIT, landed, BARE, read(0, NEXT))
    assert safe(target, copy(), COMMIT, Sync("drain", (("group", 0),)), read(0, NEXT))
    assert not safe(target, copy(), COMMIT, DRAIN, read())


@pytest.mark.parametrize("target", NVIDIA)
def test_groups_are_counted_empty_ones_included(target: str) -> None:
    older = (copy(), COMMIT)
    assert safe(target, *older, copy(32), COMMIT, wait(group=1), FENCE, read())
    assert not safe(target, *older, copy(32), COMMIT, wait(group=1), FENCE, read(32))
    assert safe(target, *older, COMMIT, COMMIT, wait(group=2), FENCE, read())
    assert not safe(target, copy(), copy(32), COMMIT, wait(group=1), FENCE, read())


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "gfx1250"])
def test_only_copies_are_certain_to_count(target: str) -> None:
    load = Compute("%g = global_read ...")
    assert safe(target, copy(), copy(32), copy_wait(target, 1), read())
    assert not safe(target, copy(), load, copy_wait(target, 1), read())
    assert not safe(target, copy(), load, load, copy_wait(target, 1), read())
    assert safe(target, copy(), load, copy(32), load, copy_wait(target, 1), read())
    assert not safe(target, copy(), copy(32), copy_wait(target, 2), read())


def test_a_copy_counts_its_fewest_instructions() -> None:
    rows, wide = (Memory("b", (2, 256), "f32"),), Tile((128,), "f32")
    body = (copy(0, tile=wide), copy(128, tile=wide), wait(vmcnt=2), read(0, tile=wide))
    assert safe("gfx942", *body, memory=rows)
    assert not safe("gfx950", *body, memory=rows)


def test_queues_are_apart() -> None:
    tensor = copy(32, operation="tensor_load_to_lds")
    assert not safe("gfx1250", copy(), tensor, wait(asynccnt=1), read())
    assert safe("gfx1250", copy(), tensor, wait(asynccnt=0), read())
    assert not safe("gfx1250", copy(), tensor, wait(asynccnt=0), read(32))


def test_a_store_from_shared_memory_reads_until_it_completes() -> None:
    store = copy(operation="lds_to_global")
    assert not safe("gfx1250", write(), store)
    assert not safe("gfx1250", write(), FENCE, store)
    assert safe("gfx1250", write(), lds_wait("gfx1250"), store)
    assert not safe("gfx1250", store, write())
    assert safe("gfx1250", store, wait(asynccnt=0), write())
    assert safe("gfx1250", store, read(1))


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1250"])
def test_an_access_before_a_copy_must_be_performed(target: str) -> None:
    landed = copy_wait(target)
    assert not safe(target, read(), copy())
    assert not safe(target, read(), FENCE, copy())
    assert safe(target, read(), lds_wait(target), copy())
    assert not safe(target, copy(), copy())
    assert safe(target, copy(), landed, copy())


@pytest.mark.parametrize("target", FACTS)
class TestAtomics:
    def test_equal_ones_commute(self, target: str) -> None:
        assert safe(target, add(0, number(0)), add(0, number(0)))
        assert safe(target, add(0, number(0)), add(1, number(0)))
        assert safe(target, add(0, number(0), result="o"))

    def test_a_used_result_needs_order(self, target: str) -> None:
        use = Compute("global_write %o, ...", ("o",))
        assert not safe(target, add(0, number(0), result="o"), use)
        assert not safe(target, add(0, number(0)), BARE, add(0, number(1), result="o"), add(0, number(1)), use)
        assert safe(target, add(result="o"), use, add())
        assert not safe(target, add(result="o"), use, add(1))
        assert safe(target, add(result="o"), use, FENCE, add(1))

    def test_types_widths_and_boundaries_must_match(self, target: str) -> None:
        ints = Memory("v", (2, 64), "i32", base="b", start=(0,))
        longs = Memory("l", (2, 32), "i64", base="b", start=(0,))
        odd = Memory("o", (1, 63), "i64", base="b", start=(0, 1))
        memory = (ROWS, ints, longs, odd)
        int_add = add(memory="v", tile=Tile((32,), "i32"))
        assert safe(target, int_add, add(1, memory="v", tile=Tile((32,), "i32")), memory=memory)
        assert not safe(target, add(), int_add, memory=memory)
        assert safe(target, add(), FENCE, int_add, memory=memory)
        long_add = add(memory="l", tile=Tile((16,), "i64"))
        assert not safe(target, int_add, long_add, memory=memory)
        odd_add = add(0, number(0), memory="o", tile=Tile((16,), "i64"))
        assert not safe(target, long_add, odd_add, memory=memory, waves=1)
        assert safe(target, long_add, DRAIN, odd_add, memory=memory, waves=1)

    def test_reads_and_writes_do_not_commute_with_them(self, target: str) -> None:
        assert not safe(target, add(0, number(0)), read(0, number(0)))
        assert safe(target, add(0, number(0)), DRAIN, read(0, number(0)))
        assert not safe(target, write(), add(0, number(0)))


def test_every_ambiguity_has_its_switch() -> None:
    assert set(AMBIGUITIES) == set(STRICT.names())
    assert not any(getattr(STRICT, name) for name in AMBIGUITIES)


@pytest.mark.parametrize("kind", ["lanes", "counts", "atomics"])
def test_programs_are_a_mix_and_come_again(kind: str, tmp_path: Path) -> None:
    verdicts = [judge(generate(kind, seed)).safe for seed in range(150)]
    assert 0.3 <= verdicts.count(False) / len(verdicts) <= 0.7
    assert to_tide(generate(kind, 5)) == to_tide(generate(kind, 5))
    out = tmp_path / "out.jsonl"
    assert main([kind, "3", "4", "-o", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["seed"] for row in rows] == [3, 4, 5, 6]
    assert [row["safe"] for row in rows] == verdicts[3:7]


@pytest.mark.parametrize("kind", ["lanes", "counts", "atomics"])
def test_another_reading_never_makes_a_safe_program_unsafe(kind: str) -> None:
    for seed in range(60):
        program = generate(kind, seed)
        if judge(program).safe:
            assert judge(program, rules=STRICT.lenient()).safe, to_tide(program)


@pytest.mark.parametrize("kind", ["lanes", "counts", "atomics"])
def test_an_explicit_graph_with_concrete_lanes_agrees(kind: str) -> None:
    judged = {True: 0, False: 0}
    for seed in range(5000, 5060):
        program = generate(kind, seed)
        sizes = range(program.least, 4) if program.least else [0]
        verdict = judge(program, trips=sizes).safe
        runs = [
            safe_for_one_map(program, n, {f: bits >> i & 1 for i, f in enumerate(program.flags)}, deal)
            for n in sizes
            for bits in range(1 << len(program.flags))
            for deal in range(1 if verdict else 3)
        ]
        # One lane copies what another may read only if the deal says so: a copy on NVIDIA needs a few deals to show.
        assert verdict == all(runs), f"{kind} {seed}: {verdict}\n{to_tide(program)}"
        judged[verdict] += 1
    assert min(judged.values()) >= 10
