"""Every fact of a target is asked for: for each judge that the table names, its answer about a program changes with it.

A fact that no judge reads is a belief that nothing checks. `targets.judges` says who asks for which fact; here each
entry of that table has a witness: a small program, and another value of the fact, with which the judge gives another
answer. All of them start from one made-up target in which everything is stated.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import pytest

from tests.conftest import ROOT
from tidegate.assumptions import find_assumptions
from tidegate.cost import prices_of
from tidegate.graph.build import build_graph
from tidegate.language.check import check
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.scheduling.body import find_body
from tidegate.scheduling.emit import shares_simds
from tidegate.session import Session
from tidegate.simulate.cycles import estimate
from tidegate.simulate.judge import judge
from tidegate.synchronize import SyncOptions, synchronize
from tidegate.targets import FACTS, OPERATIONS, Target, known_targets, load_target, parse_target, show_target
from tidegate.targets.judges import JUDGE_NAMES, JUDGES
from tidegate.targets.schema import MMA_FACTS, NOTE_FACTS
from tidegate.verify.verify import verify

KEYS = [fact.key for fact in (*FACTS, *MMA_FACTS, *NOTE_FACTS)]

# --- the target ---------------------------------------------------------------------------------------------------

ORDINARY = {"counter": "lcnt", "certain": True, "in_order": True, "bytes_per_lane": [4, 16]}
PLAIN = {"certain": True, "bytes_per_lane": [4, 16]}
COPY = {"counter": "cnt", "certain": True, "in_order": True, "mbarrier": True}
COUNTER = {"max": 8, "unit": "instructions", "in_order": True}
TABLES: dict[str, dict[str, Any]] = {
    "wave": {"size": 32, "max_per_workgroup": 8, "simds": 4, "to_simd": "modulo"},
    "lds": {"bytes": 65536, "granularity": 512, "banks": 32, "in_order": True},
    "barrier": {
        "split": True, "ids": [-1], "named": 4, "performs": "nothing", "wave_end": "leaves",
        "named_wave_end": "hangs", "mbarrier": True, "mbarrier_bytes": True,
    },
    "fence": {"proxy_needed": True, "kinds": ["wave", "proxy_async"]},
    "counters.cnt": COUNTER,
    "counters.lcnt": COUNTER,
    "counters.grp": {**COUNTER, "unit": "groups"},
    "operations.local_read": ORDINARY,
    "operations.local_write": ORDINARY,
    "operations.atomic_add": ORDINARY,
    "operations.global_read": PLAIN,
    "operations.global_write": PLAIN,
    "operations.scalar_read": PLAIN,
    "operations.gather_to_lds": {**COPY, "bytes_per_lane": [4]},
    "operations.tensor_load_to_lds": {**COPY, "whole_tile": True, "proxy": "async"},
    "operations.lds_to_global": {**COPY, "counter": "grp", "whole_tile": True},
    "cost": {
        "unit_lds": 4096, "unit_waves": 32, "copy_latency": 200, "barrier_latency": 30, "barrier_loss": 40,
        "clock": 1000, "cache_size": 1024,
    },
}  # fmt: skip


@cache
def made_up() -> Target:
    """All of it that the schema knows."""
    lines = ['name = "made_up"', 'sources = { here = "made up" }']
    for table, values in TABLES.items():
        starred = ".".join((table.split(".")[0], "*")) if "." in table else table
        lines += [f"[{table}]", 'source = "here"']
        lines += [f"{key} = {_toml(value)}" for key, value in values.items() if f"{starred}.{key}" in KEYS]
    for a, acc in (("f16", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32")):
        lines += ["[[mma]]", f'm = 16\nn = 16\nk = 16\na = "{a}"\nb = "{a}"\nacc = "{acc}"\nsource = "here"']
    lines += ["[[notes]]", 'text = "a note"\nsource = "here"']
    return parse_target("\n".join(lines), "made_up.toml")


def _toml(value: Any) -> str:
    """JSON and TOML agree about numbers, flags, texts and lists."""
    return json.dumps(value)


def changed(target: Target, key: str, value: object) -> Target:
    """The target with another value of one fact: `lds.bytes`, `counters.cnt.max`, `mma[0].m`."""
    table, _, last = key.rpartition(".")
    head, _, name = table.partition(".")
    if name:
        names = getattr(target, head)
        pairs = tuple((each, replace(old, **{last: value}) if each == name else old) for each, old in names.pairs)
        return replace(target, **{head: type(names)(pairs)})
    if head in ("mma[0]", "notes[0]"):
        field_ = head.removesuffix("[0]")
        first, *others = getattr(target, field_)
        return replace(target, **{field_: (replace(first, **{last: value}), *others)})
    return replace(target, **{head: replace(getattr(target, head), **{last: value})})


# --- the judges ---------------------------------------------------------------------------------------------------


def ask_verifier(kernel: Kernel, target: Target) -> object:
    found = verify(build_graph(kernel, target).graph, target)
    return found.is_proved, sorted((each.x, each.y, each.why) for each in found.suspects)


def ask_simulator(kernel: Kernel, target: Target) -> object:
    return sorted((each.code, each.at.line) for each in judge(build_graph(kernel, target).graph, target).findings)


def ask_fit(kernel: Kernel, target: Target) -> object:
    return [(each.code, each.message) for each in check(kernel, target)]


def ask_waits(kernel: Kernel, target: Target) -> object:
    result = synchronize(Session(kernel.name, target, kernel, None), SyncOptions(judge=False))
    return [(str(edit.op), edit.before) for edit in result.plan.edits]


def ask_schedule(kernel: Kernel, target: Target) -> object:
    body = find_body(kernel, target)
    return shares_simds(body)


def ask_cost(kernel: Kernel, target: Target) -> object:
    graph = build_graph(kernel, target).graph
    alone = [estimate(graph, target, cached=cached).cycles for cached in (True, False)]
    return *alone, estimate(graph, target, workgroups=2).cycles, prices_of(target).workgroups(4, 1100)


def ask_assumption(kernel: Kernel, target: Target) -> object:
    return find_assumptions(build_graph(kernel, target).graph, target, kernel=kernel)


def ask_shown(_: Kernel, target: Target) -> object:
    return show_target(target)


ASK: dict[str, Callable[[Kernel, Target], object]] = {
    "verifier": ask_verifier,
    "simulator": ask_simulator,
    "fit": ask_fit,
    "waits": ask_waits,
    "schedule": ask_schedule,
    "cost": ask_cost,
    "assumption": ask_assumption,
    "shown": ask_shown,
}

# --- the programs -------------------------------------------------------------------------------------------------

HEAD = "kernel @k(%X: global<2x4x64xf32>, %Y: global<4x64xf32>) waves 4 {\n"
TAIL = "  %s = local_read %a[3 - wave, 0] : tile<64xf32>\n  global_write %s, %Y[wave, 0]\n}\n"
BUFFERS = "  %a = alloc : lds<4x64xf32>\n  %b = alloc : lds<4x64xf32>\n"
COPIES = (
    "  %p = gather_to_lds %X[0, wave, 0] to %a[wave, 0] : tile<64xf32>\n"
    "  %q = gather_to_lds %X[1, wave, 0] to %b[wave, 0] : tile<64xf32>\n"
)
SHIFTED = "  %s = local_read %a[wave, 1] : tile<32xf32>\n  global_write %s, %Y[wave, 0]\n}\n"
WRITE = "  %x = global_read %X[0, wave, 0] : tile<64xf32>\n  local_write %x, %a[wave, 0]\n"

PROGRAMS = {
    # Each copy is two instructions: `cnt(2)` leaves the second one in flight.
    "two copies": HEAD + BUFFERS + COPIES + "  wait_count cnt(2)\n  workgroup_barrier\n" + TAIL,
    "two copies, unsynchronized": HEAD + BUFFERS + COPIES + TAIL,
    "two tensor copies": HEAD + BUFFERS + COPIES.replace("gather", "tensor_load") + "  wait_count cnt(1)\n"
    "  workgroup_barrier\n" + TAIL,
    "two stores in no group": HEAD + BUFFERS + "  %x = global_read %X[0, wave, 0] : tile<64xf32>\n"
    "  lds_to_global %a[wave, 0] to %Y[wave, 0] : tile<64xf32>\n"
    "  lds_to_global %b[wave, 0] to %Y[wave, 0] : tile<64xf32>\n  wait_count grp(1)\n"
    "  workgroup_barrier\n  local_write %x, %a[3 - wave, 0]\n}\n",
    "a group": HEAD + "  commit_group\n}\n",
    "two writes": HEAD + BUFFERS + WRITE + "  local_write %x, %b[wave, 0]\n  wait_count lcnt(1)\n"
    "  workgroup_barrier\n" + TAIL,
    "a bare barrier": HEAD + BUFFERS + WRITE + "  workgroup_barrier\n" + TAIL,
    "an early end": HEAD + "  conditional wave == 3 {\n    exit\n  }\n  workgroup_barrier\n}\n",
    "signal and wait": HEAD + "  signal -1\n  wait -1\n}\n",
    "four named barriers": HEAD + "".join(f"  %n{i} = new_barrier : named_barrier<4>\n  signal %n{i}\n  wait %n{i}\n"
                                         for i in range(4)) + "}\n",
    "an mbarrier": HEAD + "  %m = new_barrier : mbarrier<4>\n  mbarrier_arrive %m expect 16\n}\n",
    "a copy that reports": HEAD + BUFFERS + "  %m = new_barrier : mbarrier<4>\n"
    "  gather_to_lds %X[0, wave, 0] to %a[wave, 0] reports %m : tile<64xf32>\n}\n",
    "a copy over a write": HEAD + BUFFERS + WRITE + "  shared_memory_barrier\n"
    "  tensor_load_to_lds %X[0, wave, 0] to %a[3 - wave, 0] : tile<64xf32>\n}\n",
    "shifted behind a fence": HEAD + BUFFERS + WRITE + "  fence wave\n" + SHIFTED,
    "shifted behind a wait": HEAD + BUFFERS + WRITE + "  wait_count lcnt(0)\n" + SHIFTED,
    "a copy over a read": HEAD + BUFFERS + "  %s = local_read %a[wave, 0] : tile<64xf32>\n  fence wave\n"
    "  gather_to_lds %X[0, wave, 0] to %a[wave, 0] : tile<64xf32>\n  global_write %s, %Y[wave, 0]\n}\n",
    "a fence": HEAD + "  fence proxy_async\n}\n",
    "sixty kilobytes": HEAD + "  %a = alloc : lds<15360xf32>\n}\n",
    "a product": HEAD + "  %l = fill 0.0 : tile<16x16xf16>\n  %c = fill 0.0 : tile<16x16xf32>\n"
    "  %d = mma %l, %l, %c : tile<16x16xf32>\n}\n",
    "everything": HEAD + BUFFERS + COPIES + WRITE + "  shared_memory_barrier cnt(0)\n" + "".join(
        f"  %l{t} = fill 0 : tile<32x32x{t}>\n  %c{t} = fill 0 : tile<32x32x{acc}>\n"
        f"  %d{t} = mma %l{t}, %l{t}, %c{t} : tile<32x32x{acc}>\n"
        for t, acc in (("f16", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32"))
    ) + "  %t = local_read %a[3 - wave, 0] : tile<64xf32>\n  %s = exp %t : tile<64xf32>\n"
    "  workgroup_barrier\n  global_write %s, %Y[wave, 0]\n}\n",
    "a loop of eight waves": "kernel @k(%X: global<Nx64xf32>, %Y: global<8x64xf32>) sizes(N = 64) waves 8 {\n"
    "  %a = alloc : lds<8x64xf32>\n  %l = fill 0.0 : tile<16x16xf16>\n  %c = fill 0.0 : tile<16x16xf32>\n"
    "  %r = iterate %i in 0 .. N // 8 carry(%acc = %c : tile<16x16xf32>) {\n"
    "    %x = global_read %X[%i * 8 + wave, 0] : tile<64xf32>\n    local_write %x, %a[wave, 0]\n"
    "    %y = local_read %a[wave, 0] : tile<64xf32>\n    %d = mma %l, %l, %acc : tile<16x16xf32>\n"
    "    yield %d\n  }\n}\n",
}  # fmt: skip


@cache
def program(name: str) -> Kernel:
    (kernel,) = parse(PROGRAMS[name]).kernels
    return kernel


# --- the witnesses ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Witness:
    """With this value of a fact, the judges say something else about the program."""

    key: str  # in which a name stands for `*`
    value: object
    program: str
    judges: str
    base: dict[str, object] = field(default_factory=dict)  # facts that differ from the made-up target on both sides

    @property
    def fact(self) -> str:
        head, *rest = self.key.split(".")
        return ".".join((head, "*", *rest[1:])) if head in ("counters", "operations") else self.key.replace("[0]", "")


GATHER, TENSOR = "operations.gather_to_lds", "operations.tensor_load_to_lds"
WITNESSES = [
    Witness("wave.size", 64, "two copies", "verifier simulator"),
    Witness("wave.size", 64, "two copies, unsynchronized", "waits"),
    Witness("wave.size", 64, "everything", "cost"),
    Witness("wave.max_per_workgroup", 3, "a bare barrier", "fit"),
    Witness("wave.simds", 3, "a loop of eight waves", "schedule cost"),
    Witness("wave.to_simd", "unknown", "a loop of eight waves", "schedule", {"wave.simds": 3}),
    Witness("lds.bytes", 32768, "sixty kilobytes", "fit"),
    Witness("lds.granularity", 4096, "everything", "cost"),
    Witness("lds.banks", 64, "everything", "shown"),
    Witness("lds.in_order", False, "two writes", "verifier simulator"),
    # Here reads of LDS count on the counter of the copies.
    Witness("lds.in_order", False, "two copies, unsynchronized", "waits", {"operations.local_read.counter": "cnt"}),
    Witness("barrier.split", False, "signal and wait", "fit"),
    Witness("barrier.ids", (0,), "signal and wait", "fit"),
    Witness("barrier.named", 3, "four named barriers", "fit"),
    Witness("barrier.named_first", 1, "four named barriers", "fit", {"barrier.ids": (0,)}),
    Witness("barrier.performs", "ordinary", "a bare barrier", "verifier simulator"),
    Witness("barrier.wave_end", "hangs", "an early end", "simulator fit"),
    Witness("barrier.named_wave_end", "undefined", "four named barriers", "assumption"),
    Witness("barrier.mbarrier", False, "an mbarrier", "fit"),
    Witness("barrier.mbarrier_bytes", False, "an mbarrier", "fit"),
    Witness("fence.proxy_needed", False, "a copy over a write", "verifier simulator"),
    Witness("fence.kinds", (), "a fence", "fit"),
    Witness("fence.kinds", (), "shifted behind a fence", "verifier simulator"),
    Witness("fence.wave_performs", "ordinary", "a copy over a read", "verifier simulator"),
    Witness("fence.waits", True, "shifted behind a wait", "verifier simulator"),
    Witness("counters.cnt.max", 2, "two copies", "verifier simulator fit"),
    Witness("counters.cnt.max", 2, "two copies, unsynchronized", "waits"),
    Witness("counters.grp.unit", "instructions", "two stores in no group", "verifier simulator"),
    Witness("counters.grp.unit", "instructions", "a group", "fit"),
    Witness("counters.cnt.in_order", False, "two copies", "verifier simulator"),
    Witness("counters.cnt.in_order", False, "two copies, unsynchronized", "waits"),
    Witness(f"{GATHER}.present", False, "two copies", "fit"),
    Witness(f"{GATHER}.counter", "", "two copies", "verifier simulator"),
    Witness(f"{GATHER}.certain", False, "two copies", "verifier simulator"),
    Witness(f"{GATHER}.certain", False, "two copies, unsynchronized", "waits"),
    Witness(f"{GATHER}.in_order", False, "two copies", "verifier simulator"),
    Witness(f"{GATHER}.in_order", False, "two copies, unsynchronized", "waits"),
    Witness(f"{GATHER}.bytes_per_lane", (8,), "two copies", "verifier simulator"),
    Witness(f"{GATHER}.bytes_per_lane", (8,), "two copies, unsynchronized", "waits"),
    Witness(f"{GATHER}.bytes_per_lane", (8,), "everything", "cost", {"cost.copy_issue": 1000}),
    Witness(f"{GATHER}.whole_tile", True, "two copies", "verifier simulator"),
    Witness(f"{GATHER}.whole_tile", True, "everything", "cost", {"cost.copy_issue": 1000}),
    Witness(f"{GATHER}.mbarrier", False, "a copy that reports", "fit"),
    Witness(f"{TENSOR}.proxy", "generic", "a copy over a write", "verifier simulator"),
    Witness("cost.clock", 2000, "everything", "shown"),
    Witness("cost.cache_size", 2048, "everything", "shown"),
    *(
        Witness(f"cost.{each.name}", 40 * getattr(made_up().cost, each.name) + 1, "everything", "cost")
        for each in fields(made_up().cost)
        if each.name not in ("clock", "cache_size", "global_issue", "unit_lds", "unit_waves")
    ),
    Witness("cost.global_issue", 2000, "a bare barrier", "cost"),
    Witness("cost.unit_waves", 4, "everything", "cost"),
    Witness("cost.unit_lds", 8192, "everything", "cost"),
    *(Witness(f"mma[0].{each}", 32, "a product", "fit") for each in "mnk"),
    *(Witness(f"mma[0].{each}", 1, "a product", "cost", {"cost.mma_issue": 64}) for each in "mnk"),
    *(Witness(f"mma[0].{each}", "i8", "a product", "fit") for each in ("a", "b", "acc")),
    Witness("notes[0].text", "another note", "everything", "shown"),
]


def test_every_fact_has_its_judges() -> None:
    assert list(JUDGES) == KEYS, "a fact of the schema without a row, or a row without a fact"
    assert all(judges and set(judges) <= set(JUDGE_NAMES) for judges in JUDGES.values())
    assert set(ASK) == set(JUDGE_NAMES)


def test_every_row_has_a_witness() -> None:
    shown = {(each.fact, judge) for each in WITNESSES for judge in each.judges.split()}
    stated = {(key, judge) for key, judges in JUDGES.items() for judge in judges}
    assert sorted(stated - shown) == [], "no program shows that this judge asks for this fact"
    assert sorted(shown - stated) == [], "this judge asks for the fact and is not named"


@pytest.mark.parametrize("witness", WITNESSES, ids=lambda each: f"{each.key}-{each.judges.replace(' ', '-')}")
def test_the_answer_depends_on_the_fact(witness: Witness) -> None:
    before = made_up()
    for key, value in witness.base.items():
        before = changed(before, key, value)
    after = changed(before, witness.key, witness.value)
    assert after != before
    kernel = program(witness.program)
    for name in witness.judges.split():
        answer = ASK[name](kernel, before)
        assert answer == ASK[name](kernel, before), f"the {name} does not know what it says"
        assert answer != ASK[name](kernel, after), f"the {name} never asks for `{witness.key}`"


@pytest.mark.parametrize("key", [key for key, judges in JUDGES.items() if "assumption" in judges])
def test_what_nobody_decides_has_its_place_on_the_page(key: str) -> None:
    assert f"`{key}`" in (ROOT / "docs" / "assumptions.md").read_text(encoding="utf-8")


def test_every_class_of_access_is_asked_about() -> None:
    """A class that no operation of the language belongs to would be a table that nobody reads."""
    from tidegate.language.fit import CLASS_OF

    assert {each.name for each in OPERATIONS} == set(CLASS_OF.values())


@pytest.mark.parametrize("name", known_targets())
def test_a_count_of_lds_accesses_is_believed_only_in_order(name: str) -> None:
    """No target says that LDS accesses complete in turn on a counter, and not that they are performed in order."""
    target = load_target(name)
    counted = [each for each in ("local_read", "local_write", "atomic_add") if target.operations[each].in_order]
    assert target.lds.in_order or not counted
