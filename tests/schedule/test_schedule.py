"""Ping-pong: loops in clusters, synchronized under stagger, proved, and with the results that they had.

Kernels are those of `schedule_kernels.py`, small enough to run; what is declined says why. What goes wrong where
a rule is switched off, the verifier notices or the results show.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oracles.programs.schedule_kernels import async_gemm, attention, gemm, long_body
from tests.conftest import ROOT
from tidegate.cli import app
from tidegate.diag import BadInput
from tidegate.language import ops
from tidegate.language.ops import Iterate, Kernel, walk_ops
from tidegate.language.parse import parse
from tidegate.language.trace import CapturedTrace
from tidegate.library import prove
from tidegate.pingpong import Candidate, Scheduled, schedule_kernel
from tidegate.pingpong.make import in_clusters
from tidegate.pingpong.price import price_of
from tidegate.scheduling import dependences
from tidegate.scheduling.body import MEMORY, Body, find_body, without_placed
from tidegate.scheduling.clusters import WAYS, Arrangement, Way, arrange
from tidegate.scheduling.model import REASONS, Declined, clusters_of
from tidegate.scheduling.slices import split_products
from tidegate.seeds import (
    HardwareConstraint,
    SchedReorderStrategy,
    SchedulingType,
    TilingConstraint,
    add_conditional_barriers_to_loop,
    add_shared_memory_barriers,
    reorder_graph,
    schedule_reordering,
    transform_two_PP_clusters,
)
from tidegate.seeds.schedule import select_strategy
from tidegate.session import Session
from tidegate.simulate.hostile import run_hostile
from tidegate.simulate.inorder import make_inputs, run
from tidegate.synchronize import SyncOptions, propose
from tidegate.targets import load_target

GFX = load_target("gfx942")
COPIES = load_target("gfx950")
EXAMPLES = ROOT / "examples"
SMALL = {"waves": 4, "rows": 2}


def kernel_of(text: str) -> Kernel:
    (kernel,) = parse(text).kernels
    return kernel


def body_of(text: str) -> Body:
    found = find_body(without_placed(kernel_of(text)), GFX)
    assert isinstance(found, Body), found
    return found


def scheduled(text: str, strategy: str = "clusters=2", target: str = "gfx942", **options: object) -> Candidate:
    found = schedule_kernel(kernel_of(text), load_target(target), strategy, certain=False, **options)  # type: ignore[arg-type]
    assert found.chosen is not None, found.refused
    return found.chosen


def declined(text: str, strategy: str = "clusters=2", target: str = "gfx942") -> Declined:
    found = schedule_kernel(kernel_of(text), load_target(target), strategy, certain=False)
    assert found.kernel is None
    assert found.declined is not None
    return found.declined


def loop_of(kernel: Kernel) -> Iterate:
    return next(op for op in walk_ops(kernel.body) if isinstance(op, Iterate))


def words(kernel: Kernel) -> list[str]:
    return [type(op).__name__ for op in loop_of(kernel).body.ops]


def compare(text: str, made: Kernel, target: str, sizes: list[dict[str, int]], *, exact: bool) -> None:
    """The scheduled kernel, where everything is delayed, gives what the kernel gives that was given."""
    kernel, facts = kernel_of(text), load_target(target)
    plain = propose(Session(kernel.name, facts, kernel, None), SyncOptions(judge=False)).kernel
    assert plain is not None
    for number, each in enumerate(sizes):
        inputs = make_inputs(kernel, each, seed=number)
        wanted = run(plain, inputs, sizes=each)
        found = run_hostile(made, inputs, sizes=each, target=facts, seed=number)
        assert found.findings() == []
        for name, array in wanted.items():
            if exact:
                assert array.tobytes() == found.arrays[name].tobytes(), (name, each)
            else:
                np.testing.assert_allclose(found.arrays[name], array, rtol=1e-3, atol=1e-3)


# --- clusters -----------------------------------------------------------------------------------------------------


def test_two_clusters_are_those_of_the_seed() -> None:
    """Reads and fetches, half of the products, writes, the other half: four barriers that all waves come to."""
    found = scheduled(gemm(128, 256, 64), "two-pp-cluster")
    meets, fence = "WorkgroupBarrier", "SchedulingBarrier"
    products = ["SetWavePrio", "Transpose", "Mma", "SetWavePrio", meets, fence]
    assert words(found.kernel) == [
        *["LocalRead"] * 4, *["GlobalRead"] * 2, "WaitCount", meets, fence, *products,
        *["LocalWrite"] * 2, "WaitCount", meets, fence, *products,
    ]  # fmt: skip
    barriers = [op for op in loop_of(found.kernel).body.ops if isinstance(op, ops.WorkgroupBarrier)]
    assert all(each.pinned for each in barriers)


def test_the_stagger_opens_before_the_loop_and_closes_behind_it() -> None:
    found = scheduled(gemm(128, 256, 64)).kernel
    top = [type(op).__name__ for op in found.body.ops]
    place = top.index("Iterate")
    assert top[place - 2 : place + 2] == ["SharedMemoryBarrier", "ConditionalBarrier", "Iterate", "ConditionalBarrier"]
    halves = [op.half for op in walk_ops(found.body) if isinstance(op, ops.ConditionalBarrier)]
    assert halves == ["high", "low"]


def test_every_barrier_and_fence_says_why_it_stands() -> None:
    lines = scheduled(gemm(128, 256, 64)).text.splitlines()
    for line in lines:
        if "barrier" in line or "wait_count" in line or "set_wave_prio" in line:
            assert "  # " in line, line
            assert "performs accesses that a later barrier orders" not in line


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("clusters", [2, 4])
def test_memory_and_matrix_work_take_turns(clusters: int, way: Way) -> None:
    body = body_of(gemm(128, 256, 64))
    split = split_products(body, clusters)
    assert isinstance(split, Kernel)
    found = find_body(split, GFX)
    assert isinstance(found, Body)
    made = arrange(found, clusters, way)
    if clusters == 4 and way.early:  # all reads in the first cluster leave nothing for the second
        assert isinstance(made, Declined)
        assert made.reason == "no-memory"
        return
    assert isinstance(made, Arrangement)
    assert len(made.phases) == 2 * clusters
    assert sorted(made.order) == list(range(len(found.pieces)))
    for number, phase in enumerate(made.phases):
        roles = {piece.role for piece in phase} - {"other"}
        assert roles == {"mma"} if number % 2 else roles <= set(MEMORY)


def test_dependences_are_kept_in_every_arrangement() -> None:
    """With the barriers that each needs, whatever the number of clusters."""
    for text, clusters in ((attention(), 2), (long_body(200), 2), (long_body(200), 5), (async_gemm(64, 64, 32, 3), 1)):
        body = body_of(text)
        for way in WAYS:
            made = arrange(body, clusters, way)
            if isinstance(made, Declined):
                continue
            phase = {piece.number: number for number, pieces in enumerate(made.phases) for piece in pieces}
            place = {number: at for at, number in enumerate(made.order)}
            edges = dependences.find_dependences(body, 1)
            assert edges
            for edge in edges:
                assert place[edge.first] < place[edge.later]
                assert phase[edge.later] - phase[edge.first] >= edge.gap


def test_vector_work_may_stand_beside_memory_work() -> None:
    """In attention the exponentials overlap with products of the other half, if they stand apart."""
    body = body_of(attention())
    for way in WAYS:
        made = arrange(body, 2, way)
        assert isinstance(made, Arrangement)
        where = next(number for number, phase in enumerate(made.phases) if any(_is_exp(each.op) for each in phase))
        assert where == (2 if way.apart else 1)


def _is_exp(op: ops.Op) -> bool:
    return isinstance(op, ops.Elementwise) and op.fn == "exp"


# --- results ------------------------------------------------------------------------------------------------------

TILES = [{"M": 32, "N": 32, "K": 32 * trips} for trips in (1, 2, 5)]


@pytest.mark.parametrize("clusters", [2, 4])
def test_results_of_a_product_that_is_split(clusters: int) -> None:
    text = gemm(32, 32, 64, **SMALL)
    made = scheduled(text, f"clusters={clusters}").kernel
    compare(text, made, "gfx942", [{"M": 32, "N": 32, "K": 64 * trips} for trips in (1, 2, 4)], exact=False)


def test_results_are_the_same_bits_where_no_product_is_split() -> None:
    text = attention(waves=4, rows=16, keys=32, depth=16)
    made = scheduled(text).kernel
    compare(text, made, "gfx942", [{"H": 1, "S": 64 * trips} for trips in (1, 2)], exact=True)
    text = async_gemm(32, 32, 32, 3, **SMALL, target="gfx950")
    made = scheduled(text, "clusters=1", "gfx950").kernel
    compare(text, made, "gfx950", [{"M": 32, "N": 32, "K": 32 * trips} for trips in (2, 3, 6)], exact=True)


def test_a_plain_loop_is_made_to_fetch_ahead_first() -> None:
    text = (EXAMPLES / "gemm_one_slot.tide").read_text()
    assert declined(text).reason == "not-pipelined"
    found = schedule_kernel(kernel_of(text), GFX, "two-pp-cluster", pipeline=True, certain=False)
    assert found.chosen is not None
    assert [each.strategy for each in found.candidates] == ["none", "prefetch", "two-pp-cluster"]
    compare(
        text, found.chosen.kernel, "gfx942", [{"M": 64, "N": 64, "K": 32 * trips} for trips in (1, 2, 4)], exact=False
    )


def test_products_are_split_where_they_can_be() -> None:
    """Three clusters of one product: it is cut into four parts, and one cluster has two of them."""
    made = scheduled(gemm(32, 32, 64, **SMALL), "clusters=3").kernel
    assert words(made).count("Mma") == 4
    compare(gemm(32, 32, 64, **SMALL), made, "gfx942", [{"M": 32, "N": 32, "K": 192}], exact=False)


def test_an_index_that_is_carried_out_of_the_loop() -> None:
    """Behind the loop stands a point that only assigns: nothing can be put before it, but before the next."""
    made = scheduled((EXAMPLES / "gemm_three_slots.tide").read_text())
    assert not made.notes


STORED = """target gfx942
kernel @stored(%A: global<Tx32x16xf16>, %P: global<Tx32x16xf32>) sizes(T = 3) where(T >= 1) waves 2 {
  %a = alloc : lds<32x16xf16, slots = 2>
  %first = global_read %A[0, wave * 16, 0] : tile<16x16xf16>
  local_write %first, %a[0][wave * 16, 0]
  %zero = fill 0.0 : tile<16x16xf32>
  iterate %k in 0 .. T - 1 {
    %x = local_read %a[%k mod 2][0, 0] : tile<16x16xf16>
    %y = local_read %a[%k mod 2][16, 0] : tile<16x16xf16>
    %g = global_read %A[%k + 1, wave * 16, 0] : tile<16x16xf16>
    local_write %g, %a[(%k + 1) mod 2][wave * 16, 0]
    %p = mma %x, %x, %zero : tile<16x16xf32>
    %q = mma %y, %y, %p : tile<16x16xf32>
    global_write %q, %P[%k, wave * 16, 0]
  }
}
"""


def test_what_the_last_product_gives_is_stored_beside_it() -> None:
    made = scheduled(STORED).kernel
    assert words(made).index("GlobalWrite") > len(words(made)) - 5
    compare(STORED, made, "gfx942", [{"T": trips} for trips in (1, 2, 5)], exact=True)


OWN = """target gfx950
kernel @own(%A: global<32xCxf16>, %O: global<32x16xf32>) sizes(C = 64) where(C mod 32 == 0, C >= 32) waves 2 {
  %a = alloc : lds<32x32xf16, slots = 2>
  %acc = fill 0.0 : tile<16x16xf32>
  %sum = iterate %k in 0 .. C // 32 carry(%c = %acc : tile<16x16xf32>) {
    gather_to_lds %A[wave * 16, %k * 32] to %a[%k mod 2][wave * 16, 0] : tile<16x32xf16>
    %x = local_read %a[%k mod 2][wave * 16, 0] : tile<16x16xf16>
    %y = local_read %a[%k mod 2][(wave + 1) mod 2 * 16, 16] : tile<16x16xf16>
    %d = mma %x, %x, %c : tile<16x16xf32>
    %e = mma %y, %y, %d : tile<16x16xf32>
    yield %e
  }
  global_write %sum, %O[wave * 16, 0]
}
"""


def test_a_wave_does_not_wait_at_once_for_its_own_copy() -> None:
    """What the wave itself copied needs no barrier, but it has only just been sent for: that is not pipelined."""
    assert declined(OWN, target="gfx950").reason == "not-pipelined"


def test_a_constant_does_not_hold_up_vector_work() -> None:
    """What needs nothing stands right before what uses it, wherever that is."""
    scaled = attention().replace("%m1 = reduce max %s1", "%f1 = fill 0.125 : tile<32x64xf32>\n%z1 = mul %s1, %f1 : "
        "tile<32x64xf32>\n%m1 = reduce max %z1")  # fmt: skip
    body = body_of(scaled)
    made = arrange(body, 2, Way(True, True))
    assert isinstance(made, Arrangement)
    where = {
        type(each.op).__name__ + str(getattr(each.op, "fn", "")): n for n, p in enumerate(made.phases) for each in p
    }
    assert where["Elementwiseexp"] == 2


def test_counts_are_made_anew() -> None:
    """Two tiles ahead in four slots: the wait leaves the newer tile in flight."""
    text = async_gemm(64, 64, 32, 3, waves=8)
    made = scheduled(text, "async-two-pp-cluster", "gfx950").kernel
    counts = [dict(op.counts) for op in loop_of(made).body.ops if isinstance(op, ops.WaitCount)]
    assert any(each.get("vmcnt", 0) >= 2 for each in counts), counts


def test_stagger_two_is_proved_too() -> None:
    made = scheduled(gemm(32, 32, 64, **SMALL), "clusters=4", stagger=2)
    assert sum(isinstance(op, ops.ConditionalBarrier) for op in walk_ops(made.kernel.body)) == 4
    assert not made.notes


# --- rules switched off -------------------------------------------------------------------------------------------


def test_without_order_of_bytes_results_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile that is read before it is written races with nobody, if the new order says so: only results tell."""
    text = (EXAMPLES / "gemm_one_slot.tide").read_text()
    monkeypatch.setattr(dependences, "_bytes", lambda *_: iter(()))
    found = in_clusters(body_of(text), "clusters=2", 2)
    assert isinstance(found, Candidate)
    with pytest.raises(AssertionError):
        compare(text, found.kernel, "gfx942", [{"M": 64, "N": 64, "K": 96}], exact=False)


@pytest.mark.parametrize("rule", ["_values", "_groups"])
def test_dependences_of_other_kinds_are_needed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of(attention())
    known = set(dependences.find_dependences(body, 1))
    monkeypatch.setattr(dependences, rule, lambda *_: iter(()))
    fewer = set(dependences.find_dependences(body, 1))
    assert fewer < known if rule == "_values" else fewer <= known


def test_bare_barriers_alone_race() -> None:
    """What `sync` adds to the barriers of the schedule is needed: without it the verifier objects."""
    made = scheduled(gemm(32, 32, 64, **SMALL)).kernel
    assert prove(made).is_proved
    loop = loop_of(made)
    bare = replace(loop.body, ops=tuple(op for op in loop.body.ops if not isinstance(op, ops.WaitCount)))
    body = tuple(replace(loop, body=bare) if op is loop else op for op in made.body.ops)
    assert not prove(replace(made, body=replace(made.body, ops=body))).is_proved


# --- what is declined ---------------------------------------------------------------------------------------------

GEMM = gemm(32, 32, 64, **SMALL)
PRODUCT = "%d = mma %x1, %t1, %c"


def with_line(before: str, line: str) -> str:
    assert before in GEMM
    return GEMM.replace(before, f"{line}\n{before}", 1)


def declining() -> Iterator[tuple[str, str, str, str]]:
    plain = (EXAMPLES / "gemm_one_slot.tide").read_text()
    yield "not-pipelined", plain, "clusters=2", "gfx942"
    yield "odd-waves", gemm(48, 48, 64, waves=3, rows=1), "clusters=2", "gfx942"
    no_loop = (EXAMPLES / "softmax.tide").read_text()
    yield "no-loop", no_loop, "clusters=2", "gfx942"
    yield "fenced", with_line(PRODUCT, "workgroup_barrier pinned"), "clusters=2", "gfx942"
    yield "fenced", with_line(PRODUCT, "scheduling_barrier"), "clusters=2", "gfx942"
    staggered = GEMM.replace("%sum = iterate", "conditional_barrier high\n%sum = iterate")
    yield "staggered", staggered.replace("%x2 =", "conditional_barrier low\n%x2 ="), "clusters=2", "gfx942"
    inner = "iterate %i in 0 .. 2 {\n%z = local_read %a[0, 0] : tile<16x16xf16>\n}"
    yield "nested", with_line(PRODUCT, inner), "clusters=2", "gfx942"
    yield "no-split", GEMM, "clusters=16", "gfx942"
    yield "dependence", GEMM, "clusters=1", "gfx942"
    yield "not-copies", GEMM, "async-two-pp-cluster", "gfx942"
    yield "not-copies", async_gemm(32, 32, 32, 3, **SMALL), "two-pp-cluster", "gfx950"
    yield "misfit", async_gemm(128, 256, 64, 3), "auto", "gfx942"
    copies = async_gemm(32, 32, 32, 3, **SMALL)
    twice = copies.replace("%d = mma %x1, %t1, %c", "%d0 = mma %x1, %t1, %c : tile<16x16xf32>\n%d = mma %x1, %t1, %d0")
    yield "no-memory", twice, "clusters=2", "gfx950"
    wave = GEMM.replace("%sum = iterate", "conditional wave < 2 {\n%sum = iterate").replace("%x2 =", "}\n%x2 =")
    wave = wave.replace(", %sum :", ", %acc :")
    yield "under-condition", wave, "clusters=2", "gfx942"


CASES = list(declining())


@pytest.mark.parametrize(
    ("reason", "text", "strategy", "target"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)]
)
def test_what_is_declined_says_why(reason: str, text: str, strategy: str, target: str) -> None:
    found = declined(text, strategy, target)
    assert found.reason == reason, found
    assert found.says
    assert "\n" not in str(found)


def test_reasons_are_known() -> None:
    with pytest.raises(AssertionError):
        Declined("bad mood", "no")
    assert {each[0] for each in CASES} <= set(REASONS)


def test_strategies_by_name() -> None:
    assert clusters_of("none") == 0
    assert clusters_of("two-pp-cluster") == clusters_of("async-two-pp-cluster") == 2
    assert clusters_of("clusters=5") == 5
    assert clusters_of("clusters=0") is None
    assert clusters_of("clusters=99") is None
    assert clusters_of("three") is None
    with pytest.raises(BadInput, match="no strategy"):
        schedule_kernel(kernel_of(GEMM), GFX, "three")
    with pytest.raises(BadInput, match="stagger"):
        schedule_kernel(kernel_of(GEMM), GFX, "none", stagger=3)


# --- what it costs ------------------------------------------------------------------------------------------------


def test_ping_pong_pays_where_halves_share_simds() -> None:
    found = schedule_kernel(kernel_of(gemm(256, 256, 64)), GFX, certain=False)
    prices = {each.strategy: each.price for each in found.candidates}
    assert prices["none"] is not None
    assert prices["two-pp-cluster"] is not None
    assert found.chosen is not None
    assert found.chosen.strategy == "two-pp-cluster"
    assert prices["two-pp-cluster"].busy > prices["none"].busy + 0.1
    assert prices["two-pp-cluster"].barriers == 4


@pytest.mark.slow
def test_auto_never_takes_what_is_dearer() -> None:
    for text, target in ((GEMM, "gfx942"), (async_gemm(64, 64, 32, 2, waves=8), "gfx950")):
        found = schedule_kernel(kernel_of(text), load_target(target), certain=False)
        assert found.chosen is not None
        assert found.chosen.price is not None
        assert all(each.price is None or found.chosen.price.cycles <= each.price.cycles for each in found.candidates)


@pytest.mark.slow
def test_a_choice_that_hangs_on_one_cost_is_uncertain() -> None:
    kernel = kernel_of(gemm(128, 256, 64))
    assert schedule_kernel(kernel, GFX).uncertain
    chosen = schedule_kernel(kernel, GFX, "two-pp-cluster").chosen
    assert chosen is not None
    slow = replace(GFX, cost=replace(GFX.cost, barrier_latency=4000))
    before, after = price_of(chosen.graph, GFX), price_of(chosen.graph, slow)
    assert before is not None
    assert after is not None
    assert after.cycles > before.cycles


# --- the seed's names ---------------------------------------------------------------------------------------------


def test_schedule_reordering_chooses_two_clusters_for_its_tiles() -> None:
    trace = CapturedTrace(kernel_of(gemm(128, 256, 64)))
    constraints = [HardwareConstraint("gfx942", 8), TilingConstraint("M", 128), TilingConstraint("N", 256)]
    assert select_strategy(trace.kernel, GFX, constraints) is SchedReorderStrategy.TWO_PP_CLUSTER
    found = schedule_reordering(trace, constraints, SchedulingType.PREFETCH)
    assert found.chosen is not None
    assert trace.kernel == found.kernel
    assert prove(trace.kernel).is_proved
    other = kernel_of(gemm(64, 64, 64))
    assert select_strategy(other, GFX, []) is SchedReorderStrategy.CLUSTERS


def test_schedule_reordering_declines_other_pipelines_and_waves() -> None:
    trace = CapturedTrace(kernel_of(GEMM))
    before = trace.kernel
    found = schedule_reordering(trace, [], SchedulingType.MODULO)
    assert found.declined is not None
    assert found.declined.reason == "scheduling-type"
    assert schedule_reordering(trace, [HardwareConstraint("gfx942", 8)]).declined is not None
    assert trace.kernel is before


def by_role(loop: Iterate) -> dict[str, list[ops.Op]]:
    found: dict[str, list[ops.Op]] = {}
    for op in loop.body.ops:
        base = op.place.base.name if isinstance(op, ops.LocalRead | ops.LocalWrite | ops.GlobalRead) else ""
        found.setdefault(f"{type(op).__name__} {base}".strip(), []).append(op)
    return found


def by_hand() -> tuple[CapturedTrace, Iterate, list[list[ops.Op]]]:
    split = split_products(body_of(GEMM), 2)
    assert isinstance(split, Kernel)
    loop = loop_of(split)
    found = by_role(loop)
    clusters = transform_two_PP_clusters(
        found["Mma"],
        found["LocalRead %a"],
        found["LocalRead %b"],
        found["GlobalRead %A"],
        found["GlobalRead %B"],
        found["LocalWrite %a"],
        found["LocalWrite %b"],
    )
    return CapturedTrace(split), loop, clusters


def test_the_steps_of_the_seed_by_hand() -> None:
    trace, loop, clusters = by_hand()
    new = reorder_graph(loop, clusters)
    assert sum(isinstance(op, ops.Transpose) for op in new.body.ops) == 2  # named by no cluster, and not lost
    add_conditional_barriers_to_loop(new, trace, HardwareConstraint("gfx942", 4))
    assert not prove(trace.kernel, target="gfx942").is_proved  # the seed's barriers drain nothing
    add_shared_memory_barriers(trace, "gfx942")
    assert prove(trace.kernel).is_proved


def test_the_steps_refuse_what_breaks_dependences() -> None:
    trace, loop, clusters = by_hand()
    with pytest.raises(BadInput, match="would come before what makes"):
        reorder_graph(loop, [clusters[1], clusters[0], *clusters[2:]])
    with pytest.raises(BadInput, match="not an operation of the loop"):
        reorder_graph(loop, [[replace(clusters[2][0])], *clusters])
    roles = by_role(loop)
    early = reorder_graph(loop, [[*roles["GlobalRead %A"], *roles["LocalWrite %a"]], roles["LocalRead %a"]])
    with pytest.raises(BadInput, match="would come before"):
        add_conditional_barriers_to_loop(early, trace, HardwareConstraint("gfx942", 4))
    with pytest.raises(BadInput, match="halved"):
        add_conditional_barriers_to_loop(loop, trace, HardwareConstraint("gfx942", 3))
    with pytest.raises(BadInput, match="halved"):
        transform_two_PP_clusters([], [], [], [], [], [], [])


# --- the command --------------------------------------------------------------------------------------------------


def command(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["schedule", *map(str, args)])
    if isinstance(result.exception, BadInput):
        return 2, str(result.exception)
    return result.exit_code, result.output


def test_the_command(tmp_path: Path) -> None:
    file, out = tmp_path / "gemm.tide", tmp_path / "out.tide"
    file.write_text(GEMM)
    status, said = command(file, "--strategy", "two-pp-cluster", "-o", out)
    assert status == 0, said
    assert "two-pp-cluster *" in said
    assert "proved: no race, inversion or hang" in said
    assert prove(parse(out.read_text()).kernels[0]).is_proved
    status, said = command(file, "--strategy", "clusters=16")
    assert status == 1
    assert "clusters=16: line" in said
    status, said = command(file, "--strategy", "clusters=1", "--json")
    assert status == 1
    document = json.loads(said)
    assert document["declined"][0]["reason"] == "dependence"
    assert document["chosen"] is None
    assert [each["strategy"] for each in document["strategies"]] == ["none"]


def test_the_command_refuses(tmp_path: Path) -> None:
    file = tmp_path / "gemm.tide"
    file.write_text(GEMM)
    assert command(file, "--strategy", "three")[0] == 2
    assert command(file, "-o", tmp_path / "out.py")[0] == 2
    status, said = command(file, "--strategy", "three", "--json")
    assert status == 2
    assert json.loads(said)["findings"][0]["code"] == "TG022"
    two = tmp_path / "two.tide"
    two.write_text(GEMM + gemm(64, 64, 64).split("\n", 1)[1])
    status, said = command(two)
    assert status == 2
    assert "holds 2 kernels" in said
    graph = tmp_path / "k.sync"
    graph.write_text("")
    assert command(graph)[0] == 2


def test_scheduled_says_what_was_declined() -> None:
    found = Scheduled("auto", None, (), (("clusters=2", Declined("no-loop", "no loop")),))
    assert found.kernel is None
    assert found.declined is not None
