"""Which program shows that a rule of the verifier is switched off: without the rule it is proved, and it is wrong.

Needs   `RULES` and `CAUTIOUS` of `verify_rules.py`
Gives   `SHOWN_BY`: for each rule a program that is wrong by the simulator's word, and proved without the rule; of
        `CAUTIOUS` one that is proved with the rule only
        `program(name)`: a program by its name
        `UNSEEN`: rules that no run can show, with the reason

Names: `broken NAME` and `fixed NAME` of `examples/broken`, `case NAME` of `tests/verify_cases`, `focused SEED` of
`oracles/programs/focused_graphs.py`, `KIND SEED` of `oracles/programs/sync_cases.py`.

`python -m bench verify-rules` writes the table.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from oracles.programs.focused_graphs import focused_graph
from oracles.programs.sync_cases import draw
from oracles.rules import verify_rules_objects, verify_rules_pairs, verify_rules_state
from oracles.rules.verify_rules import CAUTIOUS, RULES, Rule
from tidegate.files import load
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.simulate.judge import judge
from tidegate.targets import Target, load_target
from tidegate.verify.tables import forget_tables
from tidegate.verify.verify import verify

ROOT = Path(__file__).resolve().parent.parent
ALL = (verify_rules_objects, verify_rules_pairs, verify_rules_state)  # imported, they add their rules

SHOWN_BY = {
    "direction": "broken inversion",
    "stagger": "broken stagger_two",
    "behind the place of y": "case behind_a_bare_barrier",
    "drained behind": "case behind_a_bare_barrier",
    "as far as an arrival": "case behind_a_bare_barrier",
    "weakest behind": "case behind_a_drain_on_one_path",
    "stagger by place": "case behind_the_closing",
    "halves": "case not_its_half",
    "which half": "focused 188",
    "half-open end": "broken overwrite_next_iteration",
    "zero trips": "broken barrier_in_zero_trip_loop",
    "several ways to a node": "broken stagger_two",
    "ways that can be gone": "broken stagger_two",
    "iterations": "broken single_buffer_pipeline",
    "rounds": "broken counter_saturates",
    "any earlier iteration": "case the_iteration_before",
    "all ways": "case two_ways_to_a_read",
    "all predecessors": "broken barrier_in_one_branch",
    "less is known": "case drained_on_one_of_two_paths",
    "whose condition": "case behind_the_closing",
    "free choices": "case another_way_each_time",
    "stop when all is drained": "broken plain_barrier_after_copy",
    "drains": "broken bare_barrier",
    "copies in flight": "broken plain_barrier_after_copy",
    "counts": "broken wait_one_too_high",
    "its own instructions": "broken stale_count",
    "least instructions": "broken count_of_instructions",
    "saturation": "broken counter_saturates",
    "out of turn": "focused 123",
    "counters": "case wait_for_the_wrong_counter",
    "copies no wait is for": "case copy_on_no_counter",
    "groups": "broken copies_in_one_group",
    "commits": "broken uncommitted_copy",
    "groups left in flight": "broken copies_in_one_group",
    "tokens": "broken wrong_dep",
    "null tokens": "broken null_dep_on_one_path",
    "named once": "case copies_of_one_name",
    "signal arrives": "broken drain_after_signal",
    "wait departs": "case read_before_the_wait",
    "fences": "broken missing_proxy_fence",
    "kinds of fences": "case fence_of_another_kind",
    "fences that know of x": "case fence_between_signal_and_wait",
    "lanes": "broken lanes_of_a_wave",
    "lanes that know of a wait": "broken lanes_of_a_copy",
    "fences within a wave": "case fence_for_other_waves",
    "fences where lanes part": "case fence_where_lanes_part",
    "issue order": "case lanes_in_no_issue_order",
    "one map": "case one_map_of_lanes",
    "within a wave": "broken own_copy",
    "one statement": "broken same_row",
    "arms": "broken two_arms",
    "loops in arms": "case loop_in_an_arm",
    "read after write": "broken missing_barrier",
    "write after read": "broken overwrite_next_iteration",
    "write after write": "broken two_writers",
    "atomics": "broken atomic_then_read",
    "results of atomics": "case atomics_whose_results_are_used",
    "what nobody described": "case operation_that_nobody_described",
    "shared bytes": "broken dealloc_alloc",
    "unknown places": "case place_from_data",
    "masks that nobody knows": "case mask_that_nobody_knows",
    "places by wave": "case places_by_a_product",
    "tried values": "case places_by_xor",
    "other waves": "case not_its_half",
    "last iteration": "broken epilogue_last_slot",
    "barrier objects": "case object_that_nobody_completes",
    "different programs": "focused 287",
    "waves that disagree": "broken one_arm",
    "other barriers": "case wait_for_another_barrier",
    "calls": "case recursion_between_signal_and_wait",
    "turns": "broken signal_twice",
    "signals are waited for": "case signal_without_a_wait",
    "conditional barriers match": "broken unmatched_stagger",
    "in turn": "fixed wait_one_too_high",
    "older by name": "fixed wrong_dep",
    "groups in turn": "case older_group",
    "instructions between": "fixed count_of_instructions",
    "trips": "case loop_that_runs",
    "guards": "case guarded_wait",
    "conditions on the way": "case the_same_condition_twice",
    "slots": "fixed loop_carried_view",
    "roles": "case end_behind_a_barrier",
}
# The simulator lets all lanes of a wave go the same way.
UNSEEN = {"arms of lanes": "case copies_in_both_arms"}


def program(name: str) -> tuple[g.SyncGraph, Target]:
    kind, which = name.split(" ", 1)
    match kind:
        case "broken":
            return _loaded(ROOT / "examples" / "broken" / f"{which}.tide")
        case "fixed":
            return _loaded(ROOT / "examples" / "broken" / "fixed" / f"{which}.tide")
        case "case":
            return _loaded(next((ROOT / "tests" / "verify_cases").glob(f"{which}.*")))
        case "focused":
            graph, target, _ = focused_graph(random.Random(int(which)))
            return graph, target
    case = draw(kind, int(which))
    return case.graph, case.target


def _loaded(path: Path) -> tuple[g.SyncGraph, Target]:
    found = load(str(path))
    if found.graph is not None:
        return found.graph, load_target(found.graph.target)
    (kernel,) = found.kernels
    target = load_target(kernel.target)
    return build_graph(kernel, target).graph, target


def is_proved_without(rule: Rule, graph: g.SyncGraph, target: Target) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        rule.off(patch)
        forget_tables()
        try:
            return verify(graph, target).is_ordered
        finally:
            forget_tables()


def run(quick: bool | None = None) -> tuple[str, bool]:
    """Which rule is noticed by which program, and whether each is."""
    lines = ["| rule | without it this is proved | the simulator shows |", "|---|---|---|"]
    good = True
    for name, rule in RULES.items():
        shown_by = UNSEEN.get(name) or SHOWN_BY[name]
        graph, target = program(shown_by)
        proved = is_proved_without(rule, graph, target)
        codes = sorted({found.code for found in judge(graph, target).findings})
        good = good and proved and bool(codes) != (name in UNSEEN)
        lines.append(f"| {name}: {rule.says} | {shown_by if proved else '**nothing**'} | {' '.join(codes) or '–'} |")
    lines += ["", "| rule | without it this is not proved any more |", "|---|---|"]
    for name, rule in CAUTIOUS.items():
        lost = not is_proved_without(rule, *program(SHOWN_BY[name]))
        good = good and lost
        lines.append(f"| {name}: {rule.says} | {SHOWN_BY[name] if lost else '**nothing**'} |")
    return "\n".join(lines), good
