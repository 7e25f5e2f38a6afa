"""`tidegate check --advice`: what is said is followed in the text, and the simulator alone judges what comes of it.

Each case is a kernel and what has to be said of it. Besides that, two facts are asked for that do not come from the
advice itself: with everything followed, the judge finds nothing; and then nothing can be taken away, nor a count be
raised, without the judge finding something.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import jsonschema
import pytest

import tidegate as tg
from oracles.programs.sync_cases import draw, outcomes
from oracles.rules.mutants import mutants_of
from tests.cli.test_cli import Command
from tests.conftest import ROOT, slow_examples
from tests.placement.test_sync_cli import without_barriers
from tidegate.advice import Advice, advise, find, trials, weaker
from tidegate.advice.model import Proof
from tidegate.diag import NOWHERE, Finding
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.language.ops import ConditionalBarrier, Kernel, SyncOp
from tidegate.language.parse import parse
from tidegate.passes import run_stages
from tidegate.placement import pieces
from tidegate.placement.pieces import Piece
from tidegate.placement.place import STRATEGIES
from tidegate.session import Session
from tidegate.simulate.judge import Judgement, judge
from tidegate.synchronize import SyncOptions, synchronize
from tidegate.targets import Target, load_target
from tidegate.verify.model import Verification
from tidegate.verify.prover import Prover

EXAMPLES = sorted((ROOT / "examples").glob("*.tide"))


# --- the program with the advice followed -------------------------------------------------------------------------


def kernel_of(text: str) -> Kernel:
    (kernel,) = parse(text, "a.tide").kernels
    return kernel


def advice_of(text: str) -> Advice:
    return advice_for(kernel_of(text))


def advice_for(kernel: Kernel) -> Advice:
    target = load_target(kernel.target)
    unit = Session(kernel.name, target, kernel, None)
    return advise(run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None))


def follow(text: str, findings: list[Finding]) -> str:
    """The text with all that is to be done, done."""
    lines = text.split("\n")
    for finding in findings:
        for label in finding.labels if finding.code != "TG402" else ():
            number, instead = label.at.line - 1, dict(finding.witness)["instead"] or ""
            before = lines[number]
            lines[number] = f"{before[: label.at.column - 1]}{instead}{before[label.at.end - 1 :]}"
    return "\n".join(lines)


def judged(kernel: Kernel) -> list[str]:
    """What the simulator finds, without the verifier."""
    target = load_target(kernel.target)
    return [each.code for each in judge(build_graph(kernel, target).graph, target).findings]


def is_for_the_schedule(op: object) -> bool:
    return isinstance(op, ConditionalBarrier) or getattr(op, "pinned", False)


# --- cases --------------------------------------------------------------------------------------------------------


def rows(body: str, target: str = "gfx942", waves: int = 4) -> str:
    """Each wave has a row of a tile."""
    return f"""target {target}
kernel @rows(%X: global<4x64xf32>, %Y: global<4x64xf32>) sizes(N = 4) waves {waves} {{
  %tile = alloc : lds<4x64xf32>
  %other = alloc : lds<4x64xf32>
  %a = global_read %X[wave, 0] : tile<1x64xf32>
{body}}}
"""


WRITE = "  local_write %a, %tile[wave, 0]\n"
READ = "  %b = local_read %tile[(wave + 1) mod 4, 0] : tile<1x64xf32>\n  global_write %b, %Y[wave, 0]\n"
BARRIER = "  shared_memory_barrier\n"

RING = """target gfx950
kernel @ring(%X: global<Nx64xf32>, %Y: global<Nx64xf32>) sizes(N = 32) where(N mod 4 == 0, N >= 8) waves 4 {
  %ring = alloc : lds<4x64xf32, slots = 3>
  gather_to_lds %X[wave, 0] to %ring[0][wave, 0] : tile<1x64xf32>
  gather_to_lds %X[4 + wave, 0] to %ring[1][wave, 0] : tile<1x64xf32>
  iterate %k in 0 .. N // 4 - 2 {
    WAIT
    gather_to_lds %X[(%k + 2) * 4 + wave, 0] to %ring[(%k + 2) mod 3][wave, 0] : tile<1x64xf32>
    %b = local_read %ring[%k mod 3][(wave + 1) mod 4, 0] : tile<1x64xf32>
    global_write %b, %Y[%k * 4 + wave, 0]
  }
}
"""

TWO_SLOTS = """target gfx942
kernel @two_slots(%X: global<Nx64xf32>, %Y: global<Nx64xf32>) sizes(N = 32) where(N mod 4 == 0) waves 4 {
  %tile = alloc : lds<4x64xf32, slots = 2>
  iterate %k in 0 .. N // 4 {
    %a = global_read %X[%k * 4 + wave, 0] : tile<1x64xf32>
    local_write %a, %tile[%k mod 2][wave, 0]
    shared_memory_barrier
    %b = local_read %tile[%k mod 2][(wave + 1) mod 4, 0] : tile<1x64xf32>
    shared_memory_barrier
    global_write %b, %Y[%k * 4 + wave, 0]
  }
}
"""

DEPS = rows(
    "  %one = gather_to_lds %X[wave, 0] to %tile[wave, 0] : tile<1x64xf32>\n"
    "  %two = gather_to_lds %X[wave, 0] to %other[wave, 0] : tile<1x64xf32>\n"
    "  shared_memory_barrier deps(%one, %two)\n" + READ,
    "gfx950",
)
EPILOGUE = (ROOT / "examples" / "broken" / "fixed" / "epilogue_last_slot.tide").read_text(encoding="utf-8")
STORE = (ROOT / "examples" / "broken" / "fixed" / "store_before_write_lands.tide").read_text(encoding="utf-8")
PINGPONG = (ROOT / "examples" / "gemm_pingpong.tide").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, and all that is to be said: code, line of the first place, what is enough."""

    text: str
    wanted: tuple[tuple[str, int, str | None], ...]


CASES = {
    "a double buffer with one barrier too many": Case(TWO_SLOTS, (("TG401", 9, None),)),
    "nothing too many": Case(rows(WRITE + BARRIER + READ), ()),
    "one of two": Case(rows(WRITE + BARRIER + BARRIER + READ), (("TG401", 7, None),)),
    "two of three": Case(rows(WRITE + BARRIER * 3 + READ), (("TG401", 7, None), ("TG401", 8, None))),
    "the dearest goes": Case(
        rows(f"{WRITE}{BARRIER}  iterate %k in 0 .. N {{\n  {BARRIER}  }}\n{READ}"), (("TG401", 9, None),)
    ),
    "the one that drains stays": Case(
        rows(WRITE + BARRIER + "  workgroup_barrier\n" + READ, "sm_80"), (("TG401", 8, None),)
    ),
    "the one that drains is needed": Case(
        rows(WRITE + BARRIER + "  workgroup_barrier\n" + READ), (("TG401", 8, None),)
    ),
    "drained twice": Case(rows(WRITE + "  wait_count lgkmcnt(0)\n" + BARRIER + READ), (("TG406", 7, None),)),
    "a bare barrier is enough": Case(EPILOGUE, (("TG404", 20, "workgroup_barrier"),)),
    "neither LDS nor copies": Case(
        EPILOGUE.replace("shared_memory_barrier\n", "shared_memory_barrier vmcnt(5)\n"),
        (("TG404", 20, "workgroup_barrier"),),
    ),
    "no copies": Case(
        rows(WRITE + "  shared_memory_barrier wait_async_ops\n" + READ), (("TG404", 7, "shared_memory_barrier"),)
    ),
    "a wait is enough": Case(
        rows(
            "  gather_to_lds %X[wave, 0] to %tile[wave, 0] : tile<1x64xf32>\n"
            "  shared_memory_barrier wait_async_ops\n"
            "  %b = local_read %tile[wave, 0] : tile<1x64xf32>\n  global_write %b, %Y[wave, 0]\n",
            "gfx950",
        ),
        (("TG404", 7, "wait_count vmcnt(0)"),),
    ),
    "a looser wait is enough": Case(
        rows(
            "  gather_to_lds %X[wave, 0] to %tile[wave, 0] : tile<1x64xf32>\n"
            "  gather_to_lds %X[wave, 0] to %other[wave, 0] : tile<1x64xf32>\n"
            "  shared_memory_barrier wait_async_ops\n"
            "  %b = local_read %tile[wave, 0] : tile<1x64xf32>\n  global_write %b, %Y[wave, 0]\n",
            "gfx950",
        ),
        (("TG404", 8, "wait_count vmcnt(1)"),),
    ),
    "too tight": Case(
        RING.replace("WAIT", "shared_memory_barrier vmcnt(0)"), (("TG405", 7, "shared_memory_barrier vmcnt(1)"),)
    ),
    "tight enough": Case(RING.replace("WAIT", "shared_memory_barrier vmcnt(1)"), ()),
    "a counter too many": Case(
        rows(
            "  gather_to_lds %X[wave, 0] to %tile[wave, 0] : tile<1x64xf32>\n"
            "  wait_count vmcnt(0) lgkmcnt(0)\n"
            "  %b = local_read %tile[wave, 0] : tile<1x64xf32>\n  global_write %b, %Y[wave, 0]\n",
            "gfx950",
        ),
        (("TG405", 7, "wait_count vmcnt(0)"),),
    ),
    "a wait drains for the barrier": Case(
        RING.replace("WAIT", "wait_count vmcnt(0) lgkmcnt(0)\n    shared_memory_barrier"),
        (("TG404", 8, "workgroup_barrier"), ("TG405", 7, "wait_count vmcnt(1) lgkmcnt(0)")),
    ),
    "an operation too many": Case(DEPS, (("TG405", 8, "shared_memory_barrier deps(%one)"),)),
    "all copies, whatever is named besides": Case(
        RING.replace("WAIT", "shared_memory_barrier vmcnt(1) wait_async_ops"),
        (("TG404", 7, "shared_memory_barrier vmcnt(1)"),),
    ),
    "a copy out of shared memory": Case(STORE, ()),
    "a pair that nothing needs": Case(
        rows(WRITE + "  wait_count dscnt(0)\n  signal -1\n  wait -1\n" + READ + "  signal -1\n  wait -1\n", "gfx1201"),
        (("TG401", 12, None),),
    ),
    "a fence that nothing needs": Case(rows(WRITE + BARRIER + "  fence wave\n" + READ), (("TG406", 8, None),)),
    "pinned, and needed": Case(rows(WRITE + "  shared_memory_barrier pinned\n" + READ), ()),
    "pinned, and stronger than needed": Case(
        rows(WRITE + "  shared_memory_barrier wait_async_ops pinned\n" + READ), ()
    ),
    "pinned": Case(rows(WRITE + BARRIER + READ + "  workgroup_barrier pinned\n"), (("TG402", 10, None),)),
    "pinned, and another serves as well": Case(
        rows(WRITE + "  shared_memory_barrier pinned\n" + BARRIER + READ), (("TG401", 8, None),)
    ),
    "a stagger": Case(PINGPONG, (("TG402", 18, None), ("TG402", 35, None), ("TG402", 45, None))),
}


def said(advice: Advice) -> tuple[tuple[str, int, str | None], ...]:
    found = [(each.code, each.at.line, dict(each.witness)["instead"]) for each in advice.findings]
    return tuple(sorted(found))  # type: ignore[arg-type,type-var]


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name: str) -> None:
    assert said(advice_of(CASES[name].text)) == CASES[name].wanted


def problems(text: str, advice: Advice) -> Iterator[str]:
    """What the simulator has against the advice."""
    kernel = kernel_of(follow(text, advice.findings))
    for code in judged(kernel):
        yield f"followed: {code}"
    for mutant in mutants_of(kernel):
        raised_or_gone = not mutant.is_weaker and not is_for_the_schedule(mutant.op)
        if raised_or_gone and not judged(mutant.kernel):
            yield f"not said: {type(mutant.op).__name__} in line {mutant.op.at.line} {mutant.change}"


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("a copy out of shared memory",)])
def test_the_simulator_agrees(name: str) -> None:
    """With all of it followed nothing is wrong; then nothing more can go, and no count is larger."""
    assert list(problems(CASES[name].text, advice_of(CASES[name].text))) == []


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if any(c == "TG402" for c, *_ in case.wanted)])
def test_what_is_pinned_orders_no_memory(name: str) -> None:
    """The simulator finds nothing in the program without all of it."""
    lines = CASES[name].text.split("\n")
    for finding in advice_of(CASES[name].text).findings:
        for label in finding.labels:
            lines[label.at.line - 1] = ""
    assert judged(kernel_of("\n".join(lines))) == []


def test_a_pinned_barrier_of_a_stagger_is_needed_as_long_as_that_stands() -> None:
    """The two barriers that hand the matrix unit over: each alone cannot go, says the simulator too."""
    stagger, *pinned = advice_of(PINGPONG).findings
    assert "no access needs this stagger" in stagger.message
    assert [label.at.line for label in stagger.labels] == [18, 49]
    for finding in pinned:
        assert finding.message.startswith("apart from the stagger, no access needs this pinned")
        assert "without the stagger in lines 18 and 49" in finding.notes[0]
        lines = PINGPONG.split("\n")
        lines[finding.at.line - 1] = ""
        assert judged(kernel_of("\n".join(lines)))


def test_what_could_go_instead_is_named() -> None:
    (one,) = advice_of(CASES["one of two"].text).findings
    assert "the shared-memory barrier in line 8 could be removed instead, but not both" in one.notes
    for finding in advice_of(CASES["two of three"].text).findings:
        assert "the shared-memory barrier in line 9 could be removed instead, but not both" in finding.notes
    (alone,) = advice_of(TWO_SLOTS).findings
    assert not any("in its place" in note for note in alone.notes)


def test_the_next_count_is_named_and_races() -> None:
    text = CASES["too tight"].text
    (finding,) = advice_of(text).findings
    assert "`vmcnt(2)` is too loose" in finding.notes
    assert judged(kernel_of(text.replace("vmcnt(0)", "vmcnt(1)"))) == []
    assert judged(kernel_of(text.replace("vmcnt(0)", "vmcnt(2)")))


def test_a_count_stays_below_what_the_counter_can_tell() -> None:
    """More copies follow than can be counted: the largest count that is told apart is named, and none beyond it."""
    most = load_target("gfx950").counters["vmcnt"].largest
    copy = "  gather_to_lds %X[wave, 0] to {}[wave, 0] : tile<1x64xf32>\n".format
    many = "".join(copy(f"%many[{slot}]") for slot in range(most + 3))
    read = "  %b = local_read %tile[wave, 0] : tile<1x64xf32>\n"
    body = f"  %many = alloc : lds<4x64xf32, slots = {most + 3}>\n{copy('%tile')}{many}  wait_count vmcnt(0)\n{read}"
    (finding,) = advice_of(rows(body, "gfx950")).findings
    assert dict(finding.witness)["instead"] == f"wait_count vmcnt({most})"
    assert not any("too loose" in note for note in finding.notes)


# --- what `sync` puts in ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", slow_examples(EXAMPLES), ids=lambda path: path.stem)
def test_what_sync_puts_in_gets_no_advice(path: Path, strategy: str) -> None:
    kernel = kernel_of(without_barriers(path.read_text(encoding="utf-8")))
    unit = Session(kernel.name, load_target(kernel.target), kernel, None)
    result = synchronize(unit, SyncOptions(strategy, judge=False))
    assert result.kernel is not None
    assert advice_for(result.kernel).findings == []


@pytest.mark.parametrize("path", slow_examples(EXAMPLES, "gemm", "attention", "flash"), ids=lambda path: path.stem)
def test_barriers_wherever_one_can_stand_are_too_many(path: Path) -> None:
    """Barriers are forced: with the advice followed the simulator finds nothing, and there is no more advice."""
    kernel = kernel_of(without_barriers(path.read_text(encoding="utf-8")))
    target = load_target(kernel.target)
    forced = synchronize(Session(kernel.name, target, kernel, None), SyncOptions(force_barriers=True, judge=False))
    text = forced.text
    advice = advice_of(text)
    # Each of them waits for the stores of that kernel too: who reads what these write is not known.
    assert bool(advice.findings) == (path.stem != "gemm_async_store")
    assert not advice.left_out
    followed = follow(text, advice.findings)
    assert judged(kernel_of(followed)) == []
    assert advice_of(followed).findings == []


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_stay_right(seed: int) -> None:
    """Some synchronization stands, `sync` has put in the rest: with what is too much gone, nothing is found."""
    case = draw("standing", seed)
    after = next(outcomes(case, ("minimal",))).after
    unit = Session("program", case.target, None, after)
    advice = advise(run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None))
    assert not advice.why_not
    edits = {point: each.op for each in advice.less if each.code != "TG402" for point in each.piece.points}
    assert judge(Prover(after, case.target).edited(edits, {}).graph, case.target).findings == []


# --- who says so --------------------------------------------------------------------------------------------------


# Which phase a wait is for is no affine function of anything, so that runs decide.
UNDECIDED = """target sm_90
kernel @square(%X: global<2x64xf32>, %Y: global<2x64xf32>, %p: index) waves 2 {
  %rows = alloc : lds<2x64xf32>
  %done = new_barrier : mbarrier<2>
  %a = global_read %X[wave] : tile<64xf32>
  local_write %a, %rows[wave]
  mbarrier_arrive %done
  mbarrier_wait %done parity inexact(%p * %p + %p) mod 2
  %b = local_read %rows[1 - wave] : tile<64xf32>
  workgroup_barrier
  global_write %b, %Y[wave]
}
"""


def test_the_verifier_proves_and_the_simulator_shows() -> None:
    (proved,) = advice_of(TWO_SLOTS).findings
    assert proved.notes[0].startswith("proved without it: no race, inversion or hang, for all sizes and trip counts")
    assert dict(proved.witness)["by"] == "verifier"
    (shown,) = advice_of(UNDECIDED).findings
    assert shown.notes[0].startswith("no error in simulation without it: ")
    assert dict(shown.witness)["by"] == "simulator"


def test_a_program_with_findings_gets_no_advice() -> None:
    advice = advice_of(rows(WRITE + READ + BARRIER))
    assert (advice.findings, advice.trials) == ([], 0)
    assert advice.said == "advice: none, there are findings"


def test_bounds_are_said_and_nothing_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CASES["two of three"].text
    every = advice_of(text)
    for most in range(every.trials):
        monkeypatch.setattr(trials, "MOST_TRIALS", most)
        advice = advice_of(text)
        assert advice.trials == most
        assert advice.left_out > 0
        assert f"skipped {advice.left_out}" in advice.said
        assert set(said(advice)) <= set(said(every))
        assert judged(kernel_of(follow(text, advice.findings))) == []


def test_large_programs_begin_with_what_promises_most(monkeypatch: pytest.MonkeyPatch) -> None:
    many = "".join(
        f"{WRITE}{BARRIER}  %b{n} = local_read %tile[(wave + 1) mod 4, 0] : tile<1x64xf32>\n{BARRIER}"
        for n in range(20)
    )
    monkeypatch.setattr(trials, "MOST_POINTS", 500)
    monkeypatch.setattr(find, "MOST_POINTS", 500)
    advice = advice_of(rows(many))
    assert advice.left_out
    assert [each.code for each in advice.findings] == ["TG401"]  # the last one, behind which nothing is touched


def test_the_page_has_the_bounds() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for bound in (trials.MOST_TRIALS, trials.MOST_POINTS, trials.MOST_STEPS):
        assert f"{bound:,} " in text


# --- programs in other forms --------------------------------------------------------------------------------------


@tg.kernel(waves=4, target="gfx942")
def unrolled(X: tg.Global[4, 64, tg.f32], Y: tg.Global[4, 64, tg.f32]):
    tile = tg.alloc((4, 64), tg.f32)
    for _ in range(3):
        tg.local_write(tg.global_read(X, (tg.wave(), 0), (1, 64)), tile, (tg.wave(), 0))
        tg.shared_memory_barrier()
        tg.global_write(tg.local_read(tile, ((tg.wave() + 1) % 4, 0), (1, 64)), Y, (tg.wave(), 0))
        tg.shared_memory_barrier()
        tg.workgroup_barrier()


def test_one_line_of_python_is_changed_everywhere_or_nowhere() -> None:
    """The last of the second barriers could go, but the others of that line could not; all of the third ones can."""
    (finding,) = tg.check(unrolled, advice=True)
    assert (finding.code, finding.message) == ("TG401", "this workgroup barrier is redundant")
    assert len(finding.labels) == 1
    assert len(dict(finding.witness)["points"]) == 3  # type: ignore[arg-type]
    assert list(tg.check(unrolled)) == []


def test_a_graph_without_lines_names_points() -> None:
    target = load_target("gfx942")
    graph = build_graph(kernel_of(TWO_SLOTS), target).graph
    bare = replace(graph, points=tuple(replace(each, at=NOWHERE) for each in graph.points))
    checked = run_stages(Session("k", target, None, bare), print_after=None, stop_after=None, show=lambda *_: None)
    (finding,) = advise(checked).findings
    (point,) = dict(finding.witness)["points"]  # type: ignore[misc]
    assert finding.notes[0] == f"point {point}: `shared_memory_barrier`"


# --- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for name, text in {
        "two.tide": TWO_SLOTS,
        "good.tide": rows(WRITE + BARRIER + READ),
        "race.tide": rows(WRITE + READ),
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path, monkeypatch, capsys)


def test_advice_is_asked_for(command: Command) -> None:
    status, out, err = command("check", "two.tide")
    assert (status, err) == (0, "")
    assert "advice" not in out
    assert "TG4" not in out
    status, out, err = command("check", "two.tide", "--advice")
    assert (status, err) == (0, "")
    assert out.startswith("warning[TG401]: this shared-memory barrier is redundant\n --> two.tide:9:5\n")
    assert "@two_slots on gfx942: no findings\n" in out
    assert out.endswith("  advice: 1 piece; tried 4 modified programs\n")
    assert command("check", "good.tide", "--advice")[1].endswith(
        "advice: no barrier or wait can be reduced; tried 3 modified programs\n"
    )


def test_advice_does_not_hide_findings(command: Command) -> None:
    status, out, _ = command("check", "two.tide", "race.tide", "--advice")
    assert status == 1
    assert "error[TG101]" in out
    assert "warning[TG401]" in out
    assert out.endswith("  advice: none, there are findings\n")


def test_documents_carry_it(command: Command) -> None:
    status, out, _ = command("check", "two.tide", "--advice", "--json")
    document = json.loads(out)
    (finding,) = document["findings"]
    assert (status, finding["code"], finding["severity"]) == (0, "TG401", "warning")
    assert finding["witness"]["instead"] is None
    (entry,) = document["advice"]
    assert entry == {
        "program": "@two_slots on gfx942",
        "file": "two.tide",
        "pieces": 1,
        "tried": 4,
        "left_out": 0,
        "held": 0,
        "why_not": None,
    }
    assert "advice" not in json.loads(command("check", "two.tide", "--json")[1])
    status, out, _ = command("check", "two.tide", "race.tide", "--advice", "--sarif")
    log = json.loads(out)
    schema = json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(log)
    levels = {each["ruleId"]: each["level"] for each in log["runs"][0]["results"]}
    assert (status, levels) == (1, {"TG401": "warning", "TG101": "error"})


# --- the tests are tested -----------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch
GOOD = Proof("verifier", "")


def _alone(adviser: find._Adviser, found: list[Piece]) -> dict[Piece, Proof]:
    """What can go, each alone."""
    proofs = {each: adviser.trials.without(each) for each in found}
    gone = {each: proof for each, proof in proofs.items() if proof is not None}
    adviser.edits |= {point: None for each in gone for point in each.points}
    return gone


def _strongest_first(op: object, graph: g.SyncGraph, target: Target) -> Iterator[tuple[SyncOp, str]]:
    yield from reversed(list(weaker.weaker(op, graph, target)))


def _overlook(patch: Patch) -> None:
    """Neither the verifier nor the simulator finds anything."""
    patch.setattr(trials, "verify", lambda *_, **__: Verification(undecided=("nobody knows",)))
    patch.setattr(trials, "judge", lambda *_: Judgement(runs=1))


MUTANTS: dict[str, tuple[str, Callable[[Patch], None]]] = {
    "everything is proved": ("nothing too many", lambda m: m.setattr(trials.Trials, "decide", lambda *_: GOOD)),
    "nothing is proved": ("one of two", lambda m: m.setattr(trials.Trials, "decide", lambda *_: None)),
    "suspects are overlooked": ("one of two", _overlook),
    "each alone": ("one of two", lambda m: m.setattr(find._Adviser, "remove", _alone)),
    "in order of places": (
        "the dearest goes",
        lambda m: m.setattr(find._Adviser, "order", lambda _, each: each.points),
    ),
    "what drains goes": (
        "the one that drains stays",
        lambda m: m.setattr(find._Adviser, "order", lambda _, each: (-each.weight, each.points)),
    ),
    "waits go first": (
        "drained twice",
        lambda m: m.setattr(find, "WAITS", ()),
    ),
    "strongest first": ("neither LDS nor copies", lambda m: m.setattr(find, "weaker", _strongest_first)),
    "no weaker kinds": ("no copies", lambda m: m.setattr(find, "weaker", lambda *_: ())),
    "counts stay": (
        "too tight",
        lambda m: m.setattr(find._Adviser, "largest", lambda _, piece, op, name, count: count),
    ),
    "counts stay behind a weaker kind": (
        "a looser wait is enough",
        lambda m: m.setattr(find._Adviser, "loosen", lambda *_: None),
    ),
    "counters stay": ("a counter too many", lambda m: m.setattr(find._Adviser, "needless", lambda *_: ())),
    "operations stay": ("an operation too many", lambda m: m.setattr(find._Adviser, "needless", lambda *_: ())),
    "pinned ones go": ("pinned", lambda m: m.setattr(find, "_is_kept", lambda _: False)),
    "pinned ones are not spoken of": ("a stagger", lambda m: m.setattr(find._Adviser, "kept", lambda *_: [])),
    "stores are not known": (
        "a copy out of shared memory",
        lambda m: m.setattr(find._Adviser, "stores", lambda *_: False),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_in_the_advice_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, damage = MUTANTS[name]
    damage(monkeypatch)
    assert said(advice_of(CASES[case].text)) != CASES[case].wanted


def test_each_place_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_places", lambda *_: set())
    assert len(tg.check(unrolled, advice=True)) > 1
