"""Prefetching: the loop fetches a tile ahead, computes the same to the last bit, and can be synchronized.

Each kernel is run as it is and prefetched, both synchronized, with sizes at which the loop runs zero times, once, twice
and more often. `sync` must find nothing wrong with either.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import ROOT
from tidegate.index import Const
from tidegate.language import ops
from tidegate.language.check import check
from tidegate.language.ops import Conditional, Iterate, Kernel, walk_ops
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.language.types import Lds
from tidegate.scheduling.model import Declined
from tidegate.scheduling.prefetch import prefetch
from tidegate.session import Session
from tidegate.simulate.hostile import run_hostile
from tidegate.simulate.inorder import make_inputs, run
from tidegate.synchronize import SyncOptions, synchronize
from tidegate.targets import load_target

HEAD = """target {target}
kernel @gemm(%A: global<32xKxf16>, %B: global<32xKxf16>, %C: global<32x32xf32>)
    sizes(K = 64) where({where}) waves 2 {{
"""
GEMM = """  %a = alloc : lds<32x16xf16{slots}>
  %b = alloc : lds<32x16xf16{slots}>
{before}  %acc = fill 0.0 : tile<16x32xf32>
  %sum = iterate %k in {range} carry(%acc_1 = %acc : tile<16x32xf32>) {{
{stage}    shared_memory_barrier
    %x = local_read %a{slot}[wave * 16, 0] : tile<16x16xf16>
    %y = local_read %b{slot}[0, 0] : tile<32x16xf16>
    %t = transpose %y : tile<16x32xf16>
    %acc_2 = mma %x, %t, %acc_1 : tile<16x32xf32>
{work}    shared_memory_barrier
    yield %acc_2
  }}
  global_write %sum, %C[wave * 16, 0]
}}
"""
WRITES = """    %g = global_read %A[wave * 16, {column}] : tile<16x16xf16>
    %h = global_read %B[wave * 16, {column}] : tile<16x16xf16>
    %two = fill 2.0 : tile<16x16xf16>
    %scaled = mul %h, %two : tile<16x16xf16>
    local_write %g, %a{slot}[wave * 16, 0]
    local_write %scaled, %b{slot}[wave * 16, 0]
"""
COPIES = """    gather_to_lds %A[wave * 16, {column}] to %a{slot}[wave * 16, 0] : tile<16x16xf16>
    gather_to_lds %B[wave * 16, {column}] to %b{slot}[wave * 16, 0] : tile<16x16xf16>
"""
# The range of a loop, and the column of its tile: counted in tiles, in elements, in two tiles at once, from the second.
RANGES = {
    "tiles": ("0 .. K // 16", "%k * 16"),
    "elements": ("0 .. K - 15 step 16", "%k"),
    "from": ("1 .. K // 16", "%k * 16"),
    "from step": ("16 .. K - 15 step 32", "%k"),
}
COLUMNS = (8, 16, 32, 48, 80)  # of A and B: none to five tiles


def gemm(
    stage: str,
    range: str = "tiles",
    *,
    target: str = "gfx950",
    slots: str = "",
    slot: str = "",
    where: str = "K mod 8 == 0",
    before: str = "",
    work: str = "",
) -> Kernel:
    bounds, column = RANGES[range]
    stage = stage.format(column=column, slot=slot)
    body = GEMM.format(stage=stage, slots=slots, slot=slot, range=bounds, before=before, work=work)
    return kernel_of(HEAD.format(target=target, where=where) + body)


def kernel_of(text: str) -> Kernel:
    (kernel,) = parse(text).kernels
    return kernel


def prefetched(kernel: Kernel) -> Kernel:
    """What comes of it, which is well-formed, can be read back, and is not prefetched again."""
    target = load_target(kernel.target)
    made = prefetch(kernel, target)
    assert isinstance(made, Kernel), made
    assert check(made, target) == []
    assert parse(show(made)).kernels == (made,)
    assert prefetch(made, target) == made
    return made


def compare(kernel: Kernel, made: Kernel, **sizes: tuple[int, ...]) -> None:
    """Both, synchronized, give the same arrays; the prefetched one also where everything is delayed."""
    plain, ahead = synchronized(kernel), synchronized(made)
    ((name, values),) = sizes.items()
    for value in values:
        inputs = make_inputs(kernel, {name: value}, seed=value)
        wanted = run(plain, inputs, sizes={name: value})
        hostile = run_hostile(ahead, inputs, sizes={name: value}, target=load_target(ahead.target), seed=value)
        assert hostile.findings() == []
        for array, found in wanted.items():
            assert found.tobytes() == hostile.arrays[array].tobytes(), (name, value, array)


def synchronized(kernel: Kernel) -> Kernel:
    result = synchronize(Session(kernel.name, load_target(kernel.target), kernel, None), SyncOptions())
    assert result.kernel is not None
    assert result.checked is not None
    assert result.checked.findings == []
    return result.kernel


def declined(kernel: Kernel) -> str:
    found = prefetch(kernel, load_target(kernel.target))
    assert isinstance(found, Declined), show(found)
    assert found.says
    return found.reason


def loop_of(kernel: Kernel) -> Iterate:
    return next(op for op in walk_ops(kernel.body) if isinstance(op, Iterate))


def labels(kernel: Kernel) -> list[str]:
    """The kinds of operations in the loop, in order."""
    return [type(op).__name__ for op in loop_of(kernel).body.ops]


# --- the order in the loop ----------------------------------------------------------------------------------------


def test_reads_fetches_products_writes() -> None:
    made = prefetched(gemm(WRITES))
    reads, work = ["LocalRead"] * 2, ["Transpose", "Mma"]
    assert labels(made) == [*reads, "GlobalRead", "GlobalRead", *work, "Fill", "Elementwise", *["LocalWrite"] * 2]
    assert labels(prefetched(gemm(COPIES))) == [*reads, *["GatherToLds"] * 2, *work]


def test_the_first_and_the_last_tile() -> None:
    text = show(prefetched(gemm(COPIES, where="K mod 16 == 0")))
    for part in (
        "to %a[0][wave * 16, 0]",
        "iterate %k in 0 .. K // 16 - 1 ",
        "to %a[(%k + 1) mod 2][wave * 16, 0]",
        "local_read %a[%k mod 2][",
        "local_read %a[(K // 16 - 1) mod 2][",
    ):
        assert part in text


def test_one_slot_is_enough_for_writes() -> None:
    assert slots_of(prefetched(gemm(WRITES))) == {1}
    assert slots_of(prefetched(gemm(COPIES))) == {2}
    assert slots_of(prefetched(gemm(COPIES, slots=", slots = 3", slot="[%k mod 3]"))) == {3}


def slots_of(kernel: Kernel) -> set[int]:
    buffers = [op.result.type for op in walk_ops(kernel.body) if isinstance(op, ops.Alloc)]
    return {type_.slots for type_ in buffers if isinstance(type_, Lds)}


def test_a_loop_that_runs_needs_no_condition() -> None:
    assert not any(isinstance(op, Conditional) for op in walk_ops(prefetched(gemm(WRITES, where="K >= 16")).body))
    assert any(isinstance(op, Conditional) for op in walk_ops(prefetched(gemm(WRITES, where="K >= 15")).body))


def test_expected_trips_are_one_less() -> None:
    kernel = gemm(WRITES, where="K >= 16")
    loop = loop_of(kernel)
    body = tuple(replace(op, expect=9) if op is loop else op for op in kernel.body.ops)
    assert loop_of(prefetched(replace(kernel, body=replace(kernel.body, ops=body)))).expect == 8


# --- what is computed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("range", RANGES)
@pytest.mark.parametrize("stage", [WRITES, COPIES], ids=["writes", "copies"])
def test_same_results(stage: str, range: str) -> None:
    kernel = gemm(stage, range)
    compare(kernel, prefetched(kernel), K=COLUMNS)


@pytest.mark.parametrize("stage", [WRITES, COPIES], ids=["writes", "copies"])
def test_buffers_with_slots(stage: str) -> None:
    kernel = gemm(stage, slots=", slots = 3", slot="[%k mod 3]", where="K >= 16, K mod 8 == 0")
    compare(kernel, prefetched(kernel), K=COLUMNS[1:])


@pytest.mark.parametrize("name", ["flash_attention", "gemm_one_slot", "gemm_two_slots"])
def test_examples(name: str) -> None:
    kernel = kernel_of((ROOT / "examples" / f"{name}.tide").read_text())
    size = {"S": (64, 128)} if name == "flash_attention" else {"K": (32, 96)}
    compare(kernel, prefetched(kernel), **size)


# Values that both stages need, an index that is carried, a place of its own, and results that are handed through.
MIXED = """target gfx942
kernel @mixed(%A: global<32xKxf16>, %C: global<32x32xf32>, %D: global<32x16xf32>, %S: global<Kxi32>) sizes(K = 64)
    where(K mod 8 == 0) waves 2 {
  %a = alloc : lds<32x16xf16>
  %p = alloc : lds<32x32xf16>
  %acc = fill 0.0 : tile<16x32xf32>
  %one = fill 1.0 : tile<16x16xf32>
  %sum, %total, %same, %n, %m = iterate %k in 0 .. K // 16 carry(%acc_1 = %acc : tile<16x32xf32>,
      %total_1 = %one : tile<16x16xf32>, %same_1 = %one : tile<16x16xf32>, %n_1 = 3 : index, %m_1 = 0 : index) {
    %column = let %k * 16
    %row = read_index %S[%k]
    %g = global_read %A[wave * 16, %column] : tile<16x16xf16>
    %bias = splat inexact(%row) + %column : tile<16x16xf16>
    %h = add %g, %bias : tile<16x16xf16>
    local_write %h, %a[wave * 16, 0]
    %direct = global_read %A[0, %column] : tile<16x16xf16>
    %y = local_read %a[0, 0] : tile<32x16xf16>
    %wide = cast %h : tile<16x16xf32>
    %total_2 = add %total_1, %wide : tile<16x16xf32>
    %t = transpose %y : tile<16x32xf16>
    %zero = fill 0.0 : tile<16x32xf32>
    %score = mma %direct, %t, %zero : tile<16x32xf32>
    %weight = cast %score : tile<16x32xf16>
    local_write %weight, %p[wave * 16, 0]
    %other = local_read %p[(wave + 1) mod 2 * 16, 0] : tile<16x32xf16>
    %back = cast %other : tile<16x32xf32>
    %acc_2 = add %acc_1, %back : tile<16x32xf32>
    yield %acc_2, %total_2, %same_1, (%n_1 + %column) mod 7, inexact(%row)
  }
  %end = splat %n : tile<16x16xf32>
  %rest = add %total, %end : tile<16x16xf32>
  %most = mul %rest, %same : tile<16x16xf32>
  %id = splat %m : tile<16x16xf32>
  %all = add %most, %id : tile<16x16xf32>
  global_write %sum, %C[wave * 16, 0]
  global_write %all, %D[wave * 16, 0]
}
"""


@pytest.mark.parametrize("where", ["K mod 8 == 0", "K >= 16"])
def test_values_of_both_stages(where: str) -> None:
    kernel = kernel_of(MIXED.replace("K mod 8 == 0", where))
    made = prefetched(kernel)
    assert len(loop_of(made).carried) == len(loop_of(kernel).carried) + 2  # %h and %row
    compare(kernel, made, K=COLUMNS[where == "K >= 16" :])


def test_inside_another_loop() -> None:
    text = show(gemm(COPIES)).replace("%sum = iterate", "iterate %j in 0 .. 3 {\n%sum = iterate")
    kernel = kernel_of(
        text.replace("global_write %sum, %C[wave * 16, 0]\n", "global_write %sum, %C[wave * 16, 0]\n}\n")
    )
    compare(kernel, prefetched(kernel), K=(8, 16, 48))


def test_groups_of_copies() -> None:
    kernel = gemm(COPIES + "    commit_group\n", target="sm_80")
    made = prefetched(kernel)
    assert labels(made)[2:5] == ["GatherToLds", "GatherToLds", "CommitGroup"]
    compare(kernel, made, K=(8, 16, 48))


def test_tokens_that_nobody_waits_for_are_dropped() -> None:
    stage = COPIES.replace("gather_to_lds %B", "%token = gather_to_lds %B") + "    wait_count deps(%token)\n"
    made = prefetched(gemm(stage))
    assert not any(part in show(made) for part in ("%token", "wait_count"))


def test_trips_that_memory_says() -> None:
    read = "%r = read_index %N[0]\n%n = let inexact(%r) mod 4\n%acc = fill"
    text = show(gemm(WRITES)).replace("(%A", "(%N: global<1xi32>, %A").replace("0 .. K // 16", "0 .. %n")
    kernel = kernel_of(text.replace("%acc = fill", read, 1).replace("K mod 8 == 0", "K == 64"))
    made = prefetched(kernel)
    compare(kernel, made, K=(64,))
    text = show(kernel).replace("%t = ", "%c = let %k * 16\n%d = global_read %A[0, %c] : tile<16x16xf16>\n%t = ")
    assert declined(kernel_of(text)) == "not-proven"


# --- what is left alone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gemm_pingpong", "gemm_gather", "gemm_split", "gemm_tdm", "gemm_cp_async"])
def test_pipelined_loops_stay(name: str) -> None:
    kernel = kernel_of((ROOT / "examples" / f"{name}.tide").read_text())
    assert prefetch(kernel, load_target(kernel.target)) is kernel


def test_a_loop_that_never_runs_stays() -> None:
    kernel = gemm(WRITES)
    loop = loop_of(kernel)
    body = tuple(replace(op, upper=Const(0)) if op is loop else op for op in kernel.body.ops)
    kernel = replace(kernel, body=replace(kernel.body, ops=body))
    assert prefetch(kernel, load_target("gfx950")) is kernel


# --- what is declined ---------------------------------------------------------------------------------------------

IN_LOOP = {
    "workgroup_barrier pinned": "fenced",
    "scheduling_barrier": "fenced",
    "set_wave_prio 1": "fenced",
    "fence wave": "fenced",
    "conditional_barrier low": "staggered",
    "conditional %k == 1 {\n}": "nested",
    "iterate %j in 0 .. 2 {\n}": "nested",
    "exit": "nested",
    "%n = new_barrier : named_barrier<2>": "objects",
    "%late = alloc : lds<16xf32>": "dependence",
    "global_write %t, %A[0, 0]": "dependence",
    "atomic_add %x, %a[0, 0]": "dependence",
    "gather_to_lds %A[0, 0] to %b[%k mod 2 * 16, 0] : tile<16x16xf16>": "dependence",
}


@pytest.mark.parametrize("op", IN_LOOP)
def test_operations_that_do_not_fit(op: str) -> None:
    assert declined(gemm(COPIES, work=f"    {op}\n")) == IN_LOOP[op]


def test_no_loop() -> None:
    assert declined(kernel_of(show(gemm(WRITES)).replace("mma %x, %t, %acc_1", "add %acc_1, %acc_1"))) == "no-loop"


def test_objects() -> None:
    named = "  %n = new_barrier : named_barrier<2>\n"
    assert declined(gemm(WRITES, target="gfx1250", before=named, work="    signal %n\n    wait %n\n")) == "objects"
    stores = "    lds_to_global %a[wave * 16, 0] to %A[wave * 16, 0] : tile<16x16xf16>\n"
    assert declined(gemm(COPIES + "    commit_group\n", target="sm_80", work=stores)) == "objects"


@pytest.mark.parametrize("cond", ["wave == 0", "lane == 0"])
def test_waves_that_part(cond: str) -> None:
    text = show(gemm(WRITES)).replace("%sum = iterate", f"conditional {cond} {{\n%sum = iterate")
    assert declined(kernel_of(text.rstrip() + "\n}\n")) == "under-condition"


def test_wave_groups() -> None:
    text = show(gemm(WRITES)).replace("%sum = iterate", "specialize {\nwaves 0 .. 1 {\n%sum = iterate")
    assert declined(kernel_of(text.rstrip() + "\n}\n}\n")) == "wave-groups"


def test_bounds_that_differ() -> None:
    assert declined(kernel_of(show(gemm(WRITES)).replace("0 .. K // 16", "0 .. wave + 1"))) == "under-condition"


def test_stage_0_on_what_is_carried() -> None:
    carried = show(gemm(WRITES)).replace("f32>) {", "f32>, %c_1 = 0 : index) {", 1)
    carried = carried.replace("%sum = ", "%sum, %c = ").replace("yield %acc_2", "yield %acc_2, %c_1 + 1")
    assert declined(kernel_of(carried.replace("%A[wave * 16, %k * 16]", "%A[wave * 16, %c_1 * 16]"))) == "dependence"
    prefetch_example = kernel_of((ROOT / "examples" / "gemm_prefetch.tide").read_text())
    assert declined(prefetch_example) == "dependence"


def test_stage_0_on_stage_1() -> None:
    text = show(gemm(WRITES)).replace("local_write %g, %a", "%e = local_read %b[0, 0] : tile<16x16xf16>\nADD")
    both = "%f = add %e, %g : tile<16x16xf16>\nlocal_write %f, %a"
    assert declined(kernel_of(text.replace("ADD", both))) == "dependence"


def test_reads_before_writes() -> None:
    stage = "    %old = local_read %a[0, 0] : tile<16x16xf16>\n" + WRITES
    assert declined(gemm(stage)) == "dependence"


def test_slots_that_meet() -> None:
    assert declined(gemm(COPIES, slots=", slots = 2", slot="[%k // 2 mod 2]")) == "dependence"
    assert declined(gemm(COPIES, slots=", slots = 2", slot="[1]")) == "dependence"
    assert declined(gemm(COPIES, "from step", slots=", slots = 2", slot="[%k mod 2]")) == "dependence"


def test_buffers_that_cannot_grow() -> None:
    assert declined(gemm(COPIES, before="  %v = view %a[0, 0] : lds<32x16xf16>\n")) == "dependence"
    padded = "  %pad = fill 0.0 : tile<32x16xf16>\n  local_write %pad, %a[0, 0]\n"
    assert declined(gemm(COPIES, before=padded)) == "dependence"
    assert declined(gemm(COPIES.replace("%b{slot}[wave * 16", "%b{slot}[%k mod 2 * 16"))) == "dependence"
    large = "  %large = alloc : lds<159x1024xi8>\n"
    assert declined(gemm(COPIES.replace("{slot}", ""), before=large, target="gfx950")) == "dependence"
