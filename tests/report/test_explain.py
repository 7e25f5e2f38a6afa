"""`tidegate explain`: what it says is true, by other means than those that it was found with.

Barriers that it calls needed are taken out of the kernel itself, and `check` has to object; bytes that it calls
disjoint are counted. Each check of a claim is shown to fail for another claim. `CASES` are commands whose output stands
in `tests/golden/explain`; `pytest --update` rewrites them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest

import tidegate as tg
from tests.cli.test_cli import Command, graph_of
from tests.conftest import ROOT, slow_examples
from tests.placement.test_sync_cli import ATOMIC, LATE, RACE, REDUNDANT, RING, with_barrier
from tidegate.diag import JSON_VERSION
from tidegate.explanation import (
    Barrier,
    Explained,
    Pair,
    Reason,
    Trial,
    Verdict,
    explain,
    judged,
    pairs,
    stages,
    trials,
)
from tidegate.files import load
from tidegate.graph import model as g
from tidegate.graph.plan import Delete
from tidegate.language.ops import SyncOp
from tidegate.session import sessions_of

GOLDEN = ROOT / "tests" / "golden" / "explain"
EXAMPLES = sorted((ROOT / "examples").glob("*.tide"))
FIXED = sorted((ROOT / "examples" / "broken" / "fixed").glob("*.tide"))
BROKEN = sorted((ROOT / "examples" / "broken").glob("*.tide"))
FEW = [each for each in FIXED if each.stem in "wait_one_too_high wrong_modulus select_recurrence two_arms".split()]
SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in FIXED]
IDS = {"ids": lambda path: path.stem}


@cache
def explained(path: Path, atomics: str = "commute") -> Explained:
    (unit,) = sessions_of(load(str(path)), None)
    return explain(unit, atomics=atomics)


def of(text: str, **options: str) -> Explained:
    (kernel,) = tg.parse(text, "k.tide").kernels
    return tg.explain(kernel, **options)  # type: ignore[arg-type]


def lines(result: Explained, barrier: Barrier) -> list[int]:
    return [result.line(point) for point in barrier.points]


def serves(result: Explained, barrier: Barrier) -> set[tuple[str, str, int, int, int]]:
    assert result.hazards is not None
    flow = result.hazards.flow
    return {
        (
            each.kind.name,
            each.witness.buffer,
            flow.point(each.producer).at.line,
            flow.point(each.consumer).at.line,
            each.distance,
        )
        for each in barrier.serves
    }


def codes(trial: Trial) -> set[str]:
    return {each.code for each in trial.findings}


# --- barriers -----------------------------------------------------------------------------------------------------


def test_a_double_buffered_gemm_has_one_barrier_for_four_hazards() -> None:
    result = explained(ROOT / "examples/gemm_two_slots.tide")
    (barrier,) = result.barriers
    assert lines(result, barrier) == [18]
    assert (barrier.weight, barrier.loop, barrier.is_needed) == (16.0, "%k", True)
    assert serves(result, barrier) == {
        ("RAW", "%a", 16, 19, 0),
        ("RAW", "%b", 17, 20, 0),
        ("WAR", "%a", 19, 16, 2),
        ("WAR", "%b", 20, 17, 2),
    }
    assert [(each.question, each.tried) for each in barrier.trials] == [
        ("without", ""),
        ("earlier", "before line 17"),
        ("later", "after line 19"),
        ("weaker", "bare"),
        ("weaker", "a wait only"),
        ("outside", "before the loop over `%k`"),
        ("outside", "after the loop over `%k`"),
    ]
    assert all(each.verdict is Verdict.BREAKS for each in barrier.trials)
    earlier = barrier.trials[1]
    assert {frozenset(label.at.line for label in each.labels) for each in earlier.findings} == {frozenset({17, 20})}
    assert {each.code for each in earlier.findings} == {"TG101", "TG108"}  # other waves, and other lanes of the wave


def test_with_one_slot_each_barrier_has_its_own_kind() -> None:
    result = explained(ROOT / "examples/gemm_one_slot.tide")
    kinds = [{each[0] for each in serves(result, barrier)} for barrier in result.barriers]
    assert sorted(map(sorted, kinds)) == [["RAW"], ["WAR"]]


def without(result: Explained, barrier: Barrier) -> list[tuple[str, int]]:
    """What `check` finds in the program without a barrier: the kernel is edited where a plan can."""
    assert result.graph is not None
    kernel = result.unit.kernel
    actions = [result.graph.points[point].action for point in barrier.points]
    if kernel is not None and all(isinstance(each, g.Sync) and isinstance(each.op, SyncOp) for each in actions):
        built = tg.build_graph(kernel, result.unit.target.name)
        edited = tg.apply_plan(tg.Plan(tuple(map(Delete, barrier.points))), built)
        return [(each.code, each.at.line) for each in tg.check(edited, result.unit.target.name)]
    points = [
        replace(each, action=g.Compute()) if number in barrier.points else each
        for number, each in enumerate(result.graph.points)
    ]
    found = tg.judge(replace(result.graph, points=tuple(points)), result.unit.target.name).findings
    return [(each.code, each.at.line) for each in found]


@pytest.mark.parametrize("path", [*slow_examples(EXAMPLES, "gemm", "attention", "flash"), *SLOW], **IDS)  # type: ignore[arg-type]
def test_what_is_needed_is_and_what_is_redundant_is_not(path: Path) -> None:
    result = explained(path)
    assert not result.findings
    for barrier in result.barriers:
        found = without(result, barrier)
        needed = barrier.without.verdict in (Verdict.BREAKS, Verdict.UNORDERED)  # by a run, or by the verifier
        assert bool(found) == needed, (path.stem, lines(result, barrier), found)


def test_examples_have_no_barrier_that_nothing_needs() -> None:
    """But for the stagger of the ping-pong kernel, which is for its schedule."""
    idle = [each.kind for path in EXAMPLES for each in explained(path).barriers if not each.is_needed]
    assert idle == ["stagger"]


@pytest.mark.slow
@pytest.mark.parametrize("path", BROKEN, **IDS)  # type: ignore[arg-type]
def test_broken_programs_are_explained(path: Path) -> None:
    result = explained(path)
    assert not result.why_not
    assert any(each.severity == "error" for each in result.findings)
    assert result.text.count("  error: ") >= 1
    for barrier in result.barriers:
        new = {(each.code, each.labels) for each in barrier.without.findings}
        assert not new & {(each.code, each.labels) for each in result.findings}


def test_a_bare_barrier_is_too_weak() -> None:
    result = explained(ROOT / "examples/broken/bare_barrier.tide")
    (barrier,) = result.barriers
    assert not barrier.serves
    assert [each.kind.name for each in barrier.too_weak] == ["RAW"]
    assert "redundant" not in result.text


def test_a_redundant_barrier_says_so_and_a_pinned_one_too() -> None:
    result = of(REDUNDANT)
    found = [(each.is_needed, each.pinned) for each in result.barriers]
    assert found == [(True, False), (False, False), (False, False), (False, True)]
    assert result.text.count("redundant for memory\n") == 2
    assert result.text.count("redundant for memory, pinned for scheduling\n") == 1
    assert all(len(each.trials) == 1 for each in result.barriers[1:])


def test_of_two_that_do_the_same_each_names_the_other() -> None:
    result = of(with_barrier(RACE, "shared_memory_barrier\n  shared_memory_barrier"))
    first, second = result.barriers
    assert not first.is_needed
    assert first.instead == second.points
    assert f"line {result.line(second.points[0])} orders the same accesses" in result.text


def test_signals_and_their_waits_are_one_barrier() -> None:
    result = explained(ROOT / "examples/gemm_split.tide")
    assert [(each.kind, lines(result, each)) for each in result.barriers] == [
        ("wait", [17]),
        ("split pair", [18, 22, 29, 33]),
        ("wait", [28]),
    ]
    pair = result.barriers[1]
    assert pair.weight == 17.0
    moved = {(each.question, result.line(each.part)): each for each in pair.trials if each.part >= 0}
    assert moved["earlier", 18].verdict is Verdict.BREAKS
    assert moved["later", 22].verdict is Verdict.BREAKS
    assert moved["later", 18].why == "right before the loop over `%k`"


def test_a_stagger_is_for_the_schedule_and_its_halves_need_each_other() -> None:
    result = explained(ROOT / "examples/gemm_pingpong.tide")
    (stagger,) = (each for each in result.barriers if each.kind == "stagger")
    assert lines(result, stagger) == [18, 49]
    whole, *halves = stagger.trials
    assert whole.verdict is Verdict.HOLDS
    assert [codes(each) for each in halves] == [{"TG207"}, {"TG207"}]
    needs_two = {
        result.line(each.points[0]) for each in result.barriers if any(hazard.demand == 2 for hazard in each.serves)
    }
    assert {29, 35, 39, 45} <= needs_two


def test_how_loose_a_wait_can_be() -> None:
    text = (ROOT / "docs/explain.md").read_text().split('title="copies.tide"\n')[1].split("```")[0]

    def tried(count: int) -> list[tuple[str, str]]:
        result = of(text.replace("vmcnt(1)", f"vmcnt({count})"))
        wait = next(each for each in result.barriers if each.kind == "wait")
        return [(each.tried, each.verdict.value) for each in wait.trials if each.tried.startswith("vmcnt")]

    assert tried(1) == [("vmcnt(2)", "breaks")]
    assert tried(0) == [("vmcnt(1)", "holds"), ("vmcnt(2)", "breaks")]


def test_barrier_objects_serve_what_the_judge_sees() -> None:
    result = explained(ROOT / "examples/broken/fixed/mbarrier_parity.tide")
    (barrier,) = result.barriers
    assert barrier.kind == "barrier object"
    assert {each[:2] for each in serves(result, barrier)} == {("RAW", "%first"), ("RAW", "%second")}


# --- pairs --------------------------------------------------------------------------------------------------------


def is_true(pair: Pair, result: Explained) -> bool:
    """Whether the reason of a pair holds, by counting bytes in a few iterations."""
    match pair.reason:
        case Reason.SLOT:
            return not meets(pair, result, whole_slots=True)
        case Reason.BYTES:
            return not meets(pair, result) and meets(pair, result, whole_slots=True)
        case Reason.PRIVATE | Reason.ONE_WAVE:
            return not meets(pair, result, others=True) and meets(pair, result)
        case Reason.ORDERED | Reason.DISTANCE:
            far = pair.distances is not None and pair.distances[0] > 1
            return meets(pair, result) and bool(pair.by) and far == (pair.reason is Reason.DISTANCE)
        case _:
            return True


def meets(pair: Pair, result: Explained, *, others: bool = False, whole_slots: bool = False) -> bool:
    """Whether two waves (`others`: two different ones) touch one byte, or one slot, at one of the distances."""
    assert result.graph is not None
    low, high = pair.distances or (0, 0)
    waves, trips = range(result.graph.waves), 6
    for sizes in sizes_of(pair, result):
        first, second = (
            [[touched(node, wave, k, pair.loop, result, sizes, whole_slots) for wave in waves] for k in range(trips)]
            for node in pair.ends
        )
        for later in range(low, min(trips, high if high is not None else trips) + 1):
            for start, u, v in product(range(trips - later), waves, waves):
                if not (others and u == v) and not first[start][u].isdisjoint(second[start + later][v]):
                    return True
    return False


def sizes_of(pair: Pair, result: Explained) -> list[dict[str, int]]:
    """Sizes that satisfy the assumptions: multiples of the defaults, and those of the witness."""
    assert result.graph is not None
    found = [{size.name: size.default * by for size in result.graph.sizes} for by in (4, 5)]
    return [*found, *([found[0] | dict(pair.hazard.witness.sizes)] if pair.hazard is not None else [])]


def touched(
    node: int, wave: int, iteration: int, loop: int, result: Explained, sizes: dict[str, int], whole: bool
) -> frozenset[object]:
    assert result.graph is not None
    assert result.hazards is not None
    loops = result.hazards.footprints.accesses[node].loops
    env = {**sizes, "wg0": 0, "wg1": 0, "wg2": 0, "wave": wave}
    env |= {f"#{each}": iteration if each == loop or loop < 0 else 0 for each in loops}
    found = result.hazards.footprints.bytes_at(node, env)
    if not whole:
        return frozenset(found)
    slots = {buffer.name: buffer.slot_bytes for buffer in result.graph.buffers}
    return frozenset((buffer, byte // slots[buffer]) for buffer, byte in found)


LONG = ("gemm_mbarrier", "gemm_async_store")  # a quarter of a minute each
COUNTED = [
    *slow_examples(
        path
        for path in (*EXAMPLES, *FEW)
        if path.stem not in ("flash_attention", "histogram", *LONG)  # many bytes; bytes that nobody knows
    ),
    *(pytest.param(path, marks=pytest.mark.full) for path in EXAMPLES if path.stem in LONG),
]


def in_one_nest(pair: Pair, result: Explained) -> bool:
    """Both lie in the same loops: then iterations can be counted together."""
    assert result.hazards is not None
    accesses = result.hazards.footprints.accesses
    return accesses[pair.producer].loops == accesses[pair.consumer].loops


@pytest.mark.parametrize("path", COUNTED, **IDS)  # type: ignore[arg-type]
def test_reasons_are_true(path: Path) -> None:
    result = explained(path)
    for pair in result.pairs:
        if in_one_nest(pair, result):
            assert is_true(pair, result), (pair.reason, pair.ends, pair.distances)


@pytest.mark.parametrize(
    ("reason", "other"),
    [
        (Reason.SLOT, Reason.PRIVATE),
        (Reason.SLOT, Reason.BYTES),
        (Reason.SLOT, Reason.DISTANCE),
        (Reason.PRIVATE, Reason.SLOT),
        (Reason.PRIVATE, Reason.BYTES),
        (Reason.DISTANCE, Reason.SLOT),
        (Reason.DISTANCE, Reason.PRIVATE),
        (Reason.DISTANCE, Reason.ORDERED),
    ],
)
def test_another_reason_would_be_noticed(reason: Reason, other: Reason) -> None:
    result = explained(ROOT / "examples/gemm_two_slots.tide")
    (pair, *_) = (each for each in result.pairs if each.reason is reason)
    assert is_true(pair, result)
    assert not is_true(replace(pair, reason=other), result)


def test_slots_at_another_distance_would_be_noticed() -> None:
    result = explained(ROOT / "examples/gemm_three_slots.tide")
    found = [each for each in result.pairs if each.reason is Reason.SLOT and each.distances]
    assert found
    for pair in found:
        assert pair.distances is not None
        low, high = pair.distances
        assert high is None or not is_true(replace(pair, distances=(low, high + 1)), result)


def test_every_pair_is_spoken_of_once() -> None:
    """Each ordered pair, in one iteration and round its loop: a hazard of a barrier, or a reason."""
    result = explained(ROOT / "examples/gemm_two_slots.tide")
    (barrier,) = result.barriers
    said = {(*each.ends, each.loop, (each.distances or (0, 0))[0]) for each in result.pairs}
    served = {(each.producer, each.consumer, each.loop, each.distance) for each in barrier.serves}
    assert len(said) == len(result.pairs)
    assert not said & served
    ends = {each[:2] for each in said | served}
    writes, reads = {"%a": 7, "%b": 8}, {"%a": 10, "%b": 11}
    assert ends == {
        pair
        for name in writes
        for pair in ((writes[name],) * 2, (writes[name], reads[name]), (reads[name], writes[name]))
    }


@pytest.mark.slow
def test_pairs_that_nothing_orders_race() -> None:
    for path in BROKEN:
        result = explained(path)
        assert result.hazards is not None
        flow = result.hazards.flow
        races = [{label.at for label in each.labels} for each in result.findings if each.code.startswith("TG1")]
        for pair in result.pairs:
            if result.checked is not None and result.checked.judgement is not None:
                ends = {flow.point(node).at for node in pair.ends}
                assert (pair.reason is Reason.UNORDERED) <= (ends in races)
                assert (pair.reason is Reason.QUIET) <= (ends not in races)


def test_atomics_commute_unless_an_order_is_asked_for() -> None:
    text = with_barrier(ATOMIC, "shared_memory_barrier", "  %all = ")
    assert Reason.COMMUTE in {each.reason for each in of(text).pairs}
    assert Reason.COMMUTE not in {each.reason for each in of(text, atomics="order").pairs}


def test_one_wave_and_arms() -> None:
    text = """\
kernel @k(%f: flag, %X: global<64xf32>, %Y: global<64xf32>) waves 4 {
  %tile = alloc : lds<64xf32>
  %a = global_read %X[0] : tile<64xf32>
  conditional wave == 0 {
    local_write %a, %tile[0]
    %b = local_read %tile[0] : tile<64xf32>
    global_write %b, %Y[0]
  }
}
"""
    assert [each.reason for each in of(text).pairs] == [Reason.ONE_WAVE]


# --- bounds -------------------------------------------------------------------------------------------------------


def test_when_trials_are_bounded_windows_decide_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    full = explained(ROOT / "examples/gemm_one_slot.tide")  # which is kept: not with the bound
    monkeypatch.setattr(trials, "MOST_TRIALS", 1)
    (unit,) = sessions_of(load(str(ROOT / "examples/gemm_one_slot.tide")), None)
    result = explain(unit)
    assert [each.without.verdict for each in result.barriers] == [Verdict.BREAKS, Verdict.WINDOWS]
    assert all(each.is_needed for each in result.barriers)
    bound = "the bound of 1 changed program was reached"
    assert result.notes == [f"{bound}: judged 1 modified program; 12 more by windows only"]
    for barrier, other in zip(result.barriers, full.barriers, strict=True):
        for trial, judged_trial in zip(barrier.trials, other.trials, strict=True):
            assert trial.verdict.is_wrong == judged_trial.verdict.is_wrong


def test_pairs_are_bounded_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MOST_PAIRS", 2)
    result = of(with_barrier(RING, "shared_memory_barrier", "    # every wave"))
    assert len({each.ends for each in result.pairs}) <= 2
    bound = "the bound of 2 pairs of accesses was reached"
    assert result.notes == [f"{bound}: only the first 2 pairs of accesses were asked about"]


def test_kinds_of_pairs_are_bounded_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MOST_KINDS", 0)
    monkeypatch.setattr(stages, "MOST_COMPARED", 0)  # of a program without copies nothing would be compared
    text = with_barrier(RING, "shared_memory_barrier", "    # every wave")
    assert [each.partition(":")[0] for each in of(text).notes] == [
        "the bound of 0 kinds of pairs of accesses was reached"
    ]


def test_that_copies_are_not_compared_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MOST_COMPARED", 0)
    (unit,) = sessions_of(load(str(ROOT / "examples/broken/fixed/two_copies.tide")), None)
    said = "not compared with the result of `sync`: the bound of 0 kinds of pairs of accesses was reached"
    assert said in explain(unit).notes


def test_large_programs_are_asked_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A barrier is then asked for what is served at it; the judge is asked the same."""
    full = explained(ROOT / "examples/gemm_split.tide")  # which is kept: not with the bound
    monkeypatch.setattr(stages, "MOST_SEARCHES", 0)
    (unit,) = sessions_of(load(str(ROOT / "examples/gemm_split.tide")), None)
    found = explain(unit)
    assert [each.is_needed for each in found.barriers] == [each.is_needed for each in full.barriers]
    assert found.barriers[1].serves == full.barriers[1].serves
    assert not found.barriers[0].serves
    assert any(each.startswith("many hazards") for each in found.notes)


@pytest.mark.parametrize("path", [each for each in FEW if each.stem != "two_arms"], **IDS)  # of that, runs decide
def test_the_verifier_alone_says_what_runs_say(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which changes break a program does not depend on how many of them are run."""
    full = explained(path)
    monkeypatch.setattr(trials, "SHOWN_STEPS", 0)
    (unit,) = sessions_of(load(str(path)), None)
    found = explain(unit)
    assert [each.is_needed for each in found.barriers] == [each.is_needed for each in full.barriers]
    ours = [(trial.tried, trial.verdict) for each in found.barriers for trial in each.trials]
    theirs = [(trial.tried, trial.verdict) for each in full.barriers for trial in each.trials]
    assert [(tried, verdict.is_wrong) for tried, verdict in ours] == [
        (tried, verdict.is_wrong) for tried, verdict in theirs
    ]
    assert Verdict.UNORDERED in dict(ours).values()
    assert "not run)" in found.text


def test_the_page_names_the_bounds() -> None:
    text = (ROOT / "docs/explain.md").read_text(encoding="utf-8")
    assert f"The first {trials.SHOWN_STEPS:,} steps also run the changed programs" in text
    assert f"At most {trials.MOST_TRIALS} changed programs are judged, and {trials.MOST_STEPS:,} steps" in text
    assert f"At most {pairs.MOST_PAIRS:,} pairs of accesses, and {pairs.MOST_KINDS:,} kinds of pairs" in text
    assert f"of more than {stages.MOST_COMPARED} kinds of pairs" in text
    for reason in Reason:
        assert f"| `{reason.name.lower()}` |" in text


def test_judged_is_what_check_says() -> None:
    for name in ("missing_barrier", "wait_one_too_high"):
        result = explained(ROOT / f"examples/broken/{name}.tide")
        assert result.graph is not None
        found = judged(result.graph, result.unit.target).findings
        assert result.unit.kernel is not None
        assert [each.code for each in found] == [each.code for each in tg.check(result.unit.kernel)]


# --- the command --------------------------------------------------------------------------------------------------

FILES = {
    "ring.tide": with_barrier(RING, "  shared_memory_barrier", "    # every wave").replace(
        "    global_write %b", "    workgroup_barrier pinned\n    global_write %b"
    ),
    "late.tide": LATE.replace("  %c = exp", "  wait_count dscnt(0)\n  signal -1\n  %c = exp").replace(
        "  %b = local_read", "  wait -1\n  %b = local_read"
    ),
    "bare.tide": with_barrier(RACE, "workgroup_barrier"),
    "two.tide": RACE + "\n" + RACE.partition("\n\n")[2].replace("@shift", "@other"),
    "split.tide": with_barrier(RACE, "signal -1\n  wait -1"),
    "bad.tide": RACE.replace("local_write %a", "local_write %q"),
    "types.tide": RACE.replace("global_write %b", "global_write %tile"),
}
CASES = {
    "ring": "ring.tide",
    "late": "late.tide",
    "bare": "bare.tide",
    "graph": "race.sync",
    "one-of-two": "two.tide::other",
    "not-there": "split.tide",
    "bad": "bad.tide",
    "types": "types.tide",
    "missing": "nowhere.tide",
    "name-missing": "two.tide::shfit",
    "target-unknown": "ring.tide --target gfx943",
    "atomics-unknown": "ring.tide --atomics any",
    "stagger-negative": "ring.tide --stagger -1",
}
REFUSED = "bad types missing name-missing target-unknown atomics-unknown stagger-negative".split()


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "race.sync").write_text(graph_of(with_barrier(RACE, "shared_memory_barrier")), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return Command(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("name", CASES)
def test_command(name: str, command: Command, update: bool) -> None:
    status, out, err = command("explain", *CASES[name].split())
    shown = [f"$ tidegate explain {CASES[name]}", out.rstrip("\n")]
    shown += ["--- to stderr", err.rstrip("\n")] if err.strip() else []
    shown += [f"--- exit {status}", ""]
    text, place = "\n".join(shown), GOLDEN / f"{name}.txt"
    if update:
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    assert status == (2 if name in REFUSED else 0)
    assert text == place.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_json_says_as_much(name: str, command: Command) -> None:
    status, out, err = command("explain", *CASES[name].split(), "--json")
    if name in ("atomics-unknown", "stagger-negative"):
        assert (status, out) == (2, "")
        return
    document = json.loads(out)
    assert document["version"] == JSON_VERSION
    assert document["file"] == CASES[name].split()[0]
    assert (status, err) == (2 if name in REFUSED else 0, "")
    assert bool(document["findings"]) == (name in (*REFUSED, "bare", "one-of-two", "not-there"))
    for program in document["programs"]:
        count = len(program["hazards"])
        for barrier in program["barriers"]:
            assert all(0 <= each < count for each in (*barrier["serves"], *barrier["too_weak"]))
            assert barrier["trials"][0]["question"] == "without"
            assert {each["verdict"] for each in barrier["trials"]} <= {each.value for each in Verdict}
        for pair in program["pairs"]:
            assert pair["reason"].upper() in Reason.__members__


def test_json_is_complete_where_text_is_cut(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    result = explained(ROOT / "examples/gemm_split.tide")
    assert "and 4 more" in result.text
    _, out, _ = command("explain", str(ROOT / "examples/gemm_split.tide"), "--json")
    (program,) = json.loads(out)["programs"]
    assert [len(each["serves"]) for each in program["barriers"]] == [len(each.serves) for each in result.barriers]
    assert len(program["pairs"]) == len(result.pairs)


def test_a_graph_without_lines_is_listed() -> None:
    from tidegate.index import Name, scale
    from tidegate.language.ops import SharedMemoryBarrier

    builder = tg.GraphBuilder("pipeline", waves=4, target="gfx942", lanes="one")
    builder.buffer("%a", 256)
    builder.write("%a", offset=scale(Name("wave"), 64), bytes=64)
    builder.sync(SharedMemoryBarrier())
    builder.read("%a", bytes=256)
    graph = builder.finish()
    result = tg.explain(graph)
    (barrier,) = result.barriers
    assert barrier.points == (1,)
    assert barrier.is_needed
    listed = tg.show_graph(graph).split("\n")
    for point in range(3):
        assert f"{result.line(point)} | {listed[result.line(point) - 1].strip()}" in result.text


def test_what_has_no_meaning_is_bad_input() -> None:
    with pytest.raises(tg.BadInput):
        of(FILES["types.tide"])
    with pytest.raises(tg.BadInput):
        of(RACE, atomics="any")
