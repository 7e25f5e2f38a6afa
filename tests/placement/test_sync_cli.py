"""`tidegate sync`: what it prints, what it writes, how it ends, and that text it writes says what its plan asks for.

Each case of `CASES` is a command in a folder with small files; the program on the output, what is said about it on the
error stream and the exit status stand in `tests/golden/sync`. `pytest --update` rewrites them; review the diff.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from oracles.programs.random_sync import random_kernel_program
from tests.cli.test_cli import Command, graph_of, process
from tests.conftest import ROOT, slow_examples, slow_if
from tests.placement.test_least_weight import NOT_AT_FIRST
from tidegate.diag import JSON_VERSION
from tidegate.graph.apply import apply_plan
from tidegate.graph.model import Sync
from tidegate.graph.parse import parse_graph
from tidegate.graph.patch import Edited, Reason, patch
from tidegate.graph.plan import Change, Delete, Insert, Move, Plan, Reorder, show_plan
from tidegate.language.ops import Kernel, SharedMemoryBarrier, SyncOp, Wait, WorkgroupBarrier, walk_ops
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.passes import names_of
from tidegate.session import Session
from tidegate.synchronize import SYNC, SyncOptions, propose, synchronize, write_programs
from tidegate.synchronize.judging import BarrierJudge
from tidegate.synchronize.written import reasons_of
from tidegate.targets import load_target

GOLDEN = ROOT / "tests" / "golden" / "sync"
EXAMPLES = sorted((ROOT / "examples").glob("*.tide"))
BROKEN = sorted((ROOT / "examples" / "broken").glob("*.tide"))

RACE = """\
# Each wave reads its neighbour's row.
target gfx942

kernel @shift(%X: global<256xf32>, %Y: global<256xf32>) waves 4 {
  %tile = alloc : lds<4x64xf32>   # one row for each wave
  %a = global_read %X[wave * 64] : tile<64xf32>
  local_write %a, %tile[wave]

  # the neighbour's row
  %b = local_read %tile[(wave + 1) mod 4] : tile<64xf32>
  global_write %b, %Y[wave * 64]
}
"""
RING = """\
target gfx942

kernel @ring(%X: global<KxWxf32>, %Y: global<KxWxf32>)
    sizes(K = 8, W = 256) where(W == 256) waves 4 {
  %tile = alloc : lds<4x64xf32, slots = 2>
  iterate %k in 0 .. K {
    %a = global_read %X[%k, wave * 64] : tile<64xf32>
    local_write %a, %tile[%k mod 2][wave]
    # every wave reads the row of the next one
    %b = local_read %tile[%k mod 2][(wave + 1) mod 4] : tile<64xf32>
    global_write %b, %Y[%k, wave * 64]
  }
}
"""
LATE = """\
target gfx1201

kernel @late(%X: global<256xf32>, %Y: global<256xf32>) waves 4 {
  %tile = alloc : lds<4x64xf32>
  %a = global_read %X[wave * 64] : tile<64xf32>
  local_write %a, %tile[wave]
  %c = exp %a : tile<64xf32>  # work between the two
  %b = local_read %tile[(wave + 1) mod 4] : tile<64xf32>
  %d = add %b, %c : tile<64xf32>
  global_write %d, %Y[wave * 64]
}
"""
SAME = RACE.replace("%tile[wave]\n", "%tile[wave // 2]\n")
ATOMIC = """\
target gfx942

kernel @count(%Y: global<64xi32>) waves 4 {
  %sum = alloc : lds<64xi32>
  %one = fill 1 : tile<64xi32>
  %zero = fill 0 : tile<64xi32>
  conditional wave == 0 {
    local_write %zero, %sum[0]
  }
  atomic_add %one, %sum[0]
  atomic_add %one, %sum[0]
  %all = local_read %sum[0] : tile<64xi32>
  conditional wave == 0 {
    global_write %all, %Y[0]
  }
}
"""
WIDE = """\
kernel @gather(%X: global<4x64xf32>, %I: global<4xi32>, %Y: global<4x64xf32>) waves 4 {
  %tile = alloc : lds<4x64xf32>
  %i = read_index %I[wave]
  %a = global_read %X[wave] : tile<64xf32>
  local_write %a, %tile[wave]
  %b = local_read %tile[inexact(%i)] : tile<64xf32>
  global_write %b, %Y[wave]
}
"""
PINGPONG = """\
target gfx942

kernel @halves(%X: global<8x64xf32>, %Y: global<8x64xf32>) waves 8 {
  %tile = alloc : lds<8x64xf32>
  iterate %k in 0 .. 4 {
    %a = global_read %X[wave] : tile<64xf32>
    local_write %a, %tile[wave]
    %b = local_read %tile[(wave + 4) mod 8] : tile<64xf32>
    global_write %b, %Y[wave]
  }
}
"""
PYTHON = """\
import tidegate as tg


@tg.kernel(waves=4, target="gfx942")
def shift(X: tg.Global[256, tg.f32], Y: tg.Global[256, tg.f32]):
    tile = tg.alloc((4, 64), tg.f32)
    tg.local_write(tg.global_read(X, (tg.wave() * 64,), (64,)), tile, (tg.wave(),))
    tg.global_write(tg.local_read(tile, ((tg.wave() + 1) % 4,), (64,)), Y, (tg.wave() * 64,))


@tg.kernel(waves=4, target="gfx942")
def clean(X: tg.Global[256, tg.f32], Y: tg.Global[256, tg.f32]):
    tg.global_write(tg.global_read(X, (tg.wave() * 64,), (64,)), Y, (tg.wave() * 64,))
"""


def with_barrier(text: str, barrier: str, before: str = "  # the neighbour") -> str:
    return text.replace(before, f"  {barrier}\n{before}")


REDUNDANT = with_barrier(RACE, "shared_memory_barrier  # needed\n  workgroup_barrier  # not needed").replace(
    "  global_write",
    "  shared_memory_barrier  # nor is this\n  workgroup_barrier pinned  # for the schedule\n  global_write",
)
FILES = {
    "race.tide": RACE,
    "ring.tide": RING,
    "late.tide": LATE,
    "same.tide": SAME,
    "atomic.tide": ATOMIC,
    "wide.tide": WIDE,
    "halves.tide": PINGPONG,
    "bare.tide": with_barrier(RACE, "workgroup_barrier  # they meet here"),
    "pinned.tide": with_barrier(RACE, "workgroup_barrier pinned"),
    "redundant.tide": REDUNDANT,
    "two.tide": RACE + "\n# the second one\n" + RACE.partition("\n\n")[2].replace("@shift", "@other"),
    "good.tide": with_barrier(RACE, "shared_memory_barrier"),
    "split.tide": with_barrier(RACE, "signal -1\n  wait -1"),
    "bad.tide": RACE.replace("local_write %a", "local_write %q"),
    "types.tide": RACE.replace("global_write %b", "global_write %tile"),
    "kernels.py": PYTHON,
    "broken.py": PYTHON.replace("tg.wave() * 64", "tg.nothing", 1),
}
CASES: dict[str, str] = {
    "race": "race.tide",
    "ring": "ring.tide",
    "late": "late.tide",
    "late-minimal": "late.tide --strategy minimal",
    "late-optimal": "late.tide --strategy optimal",
    "ring-optimal": "ring.tide --strategy optimal --time-limit 60",
    "race-intersecting": "race.tide --strategy intersecting",
    "good": "good.tide",
    "bare": "bare.tide",
    "pinned": "pinned.tide",
    "redundant": "redundant.tide",
    "remove-redundant": "redundant.tide --remove-redundant",
    "same": "same.tide",
    "two": "two.tide",
    "one-of-two": "two.tide::other",
    "sync": "race.sync",
    "python": "kernels.py",
    "python-one": "kernels.py::shift",
    "atomic": "atomic.tide",
    "atomic-order": "atomic.tide --atomics order",
    "wide": "wide.tide",
    "stagger": "halves.tide --stagger 1",
    "other-target": "race.tide --target gfx1201",
    "other-target-one": "two.tide::other --target sm_90",
    "no-target": "race.tide --target none",
    "force": "ring.tide --force-barriers",
    "bisect-0": "ring.tide --bisect 0",
    "bisect-many": "ring.tide --bisect 9",
    "no-judge": "same.tide --no-judge",
    "output": "race.tide -o out.tide",
    "output-finding": "same.tide -o same.tide",
    "output-sync": "race.sync -o out.sync",
    **{f"print-{stage}": f"race.tide --print-after {stage}" for stage in names_of(SYNC)},
    **{f"stop-{stage}": f"race.tide --print-after {stage} --stop-after {stage}" for stage in names_of(SYNC)},
    "bad": "bad.tide",
    "types": "types.tide",
    "not-there": "split.tide",
    "not-there-output": "split.tide -o out.tide",
    "bad-python": "broken.py",
    "missing": "nowhere.tide",
    "name-missing": "two.tide::shfit",
    "target-unknown": "race.tide --target gfx943",
    "strategy-unknown": "race.tide --strategy fewest",
    "atomics-unknown": "race.tide --atomics any",
    "stagger-negative": "race.tide --stagger -1",
    "bisect-negative": "race.tide --bisect -1",
    "time-limit-zero": "race.tide --strategy optimal --time-limit 0",
    "time-limit-alone": "race.tide --time-limit 5",
    "force-strategy": "race.tide --force-barriers --strategy minimal",
    "force-redundant": "race.tide --force-barriers --remove-redundant",
    "stage-unknown": "race.tide --stop-after hazard",
    "no-judge-judge": "race.tide --no-judge --print-after judge",
    "output-folder": "race.tide -o folder",
    "output-nowhere": "race.tide -o nowhere/out.tide",
    "output-python": "kernels.py -o kernels.py",
    "output-other": "race.tide -o race.sync",
}
FINDS = "same output-finding bisect-0 not-there not-there-output".split()
REFUSED = (
    "bad types bad-python missing name-missing target-unknown strategy-unknown atomics-unknown stagger-negative "
    "bisect-negative time-limit-zero time-limit-alone force-strategy force-redundant stage-unknown no-judge-judge "
    "output-folder output-nowhere output-python output-other"
).split()


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "race.sync").write_text(graph_of(RACE), encoding="utf-8")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return Command(tmp_path, monkeypatch, capsys)


def read(name: str) -> str:
    return Path(name).read_text(encoding="utf-8")


# --- golden -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_command(name: str, command: Command, update: bool) -> None:
    given = {each: read(each) for each in FILES}
    status, out, err = command("sync", *CASES[name].split())
    shown = [f"$ tidegate sync {CASES[name]}", out.rstrip("\n")]
    shown += ["--- to stderr", err.rstrip("\n")] if err.strip() else []
    shown += [f"--- {path.name}", path.read_text().rstrip("\n")] if (path := Path("out.tide")).exists() else []
    shown += [f"--- exit {status}", ""]
    text, place = "\n".join(shown), GOLDEN / f"{name}.txt"
    if update:
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    assert text == place.read_text(encoding="utf-8"), "run `pytest --update` and review the diff"
    assert "Traceback" not in out + err
    changed = {each for each, old in given.items() if read(each) != old}
    assert changed <= {each for each in given if f"-o {each}" in CASES[name]}


@pytest.mark.parametrize("name", CASES)
def test_status(name: str) -> None:
    """0 clean, 1 findings, 2 bad input; written down here, so that `--update` cannot change it."""
    wanted = 1 if name in FINDS else 2 if name in REFUSED else 0
    assert (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").endswith(f"--- exit {wanted}\n")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


# --- what golden files do not say ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["race", "ring", "late", "two", "bare", "pinned", "halves", "atomic", "wide"])
def test_what_is_printed_is_clean_and_stays_as_it_is(command: Command, name: str) -> None:
    """The output alone is the program: it can be piped, checked, and synchronized again, which changes nothing."""
    status, out, _ = command("sync", f"{name}.tide")
    assert status == 0
    Path("out.tide").write_text(out, encoding="utf-8")
    assert command("check", "out.tide")[0] == 0
    assert command("sync", "out.tide")[:2] == (0, out)


@pytest.mark.parametrize("file", ["race.tide", "race.sync", "two.tide"])
def test_a_file_is_synchronized_in_place(command: Command, file: str) -> None:
    _, printed, err = command("sync", file)
    assert read(file) != printed
    status, out, nothing = command("sync", file, "-o", file)
    assert (status, out, nothing) == (0, err, "")
    assert read(file) == printed
    again = command("sync", file, "-o", file)
    assert "nothing changed" in again[1]
    assert read(file) == printed


def test_findings_name_places_in_the_file_that_was_written(command: Command) -> None:
    text = SAME.replace("  local_write", "  workgroup_barrier\n  local_write")
    Path("same.tide").write_text(text, encoding="utf-8")
    _, out, _ = command("sync", "same.tide", "-o", "out.tide", "--remove-redundant")
    line = read("out.tide").split("\n").index("  local_write %a, %tile[wave // 2]") + 1
    assert f"--> out.tide:{line}:3" in out
    assert "`sync` cannot order them: one statement touches the same bytes in two waves" in out
    _, _, err = command("sync", "same.tide", "--remove-redundant")
    line = text.split("\n").index("  local_write %a, %tile[wave // 2]") + 1
    assert f"--> same.tide:{line}:3" in err


def test_advice_names_places_in_the_file_that_was_written(command: Command) -> None:
    """Judged or not: the old lines are gone."""
    text = WIDE.replace("  global_write", "  %c = local_read %tile[wave + 1] : tile<64xf32>\n  global_write")
    for more in ((), ("--no-judge",)):
        Path("wide.tide").write_text(text, encoding="utf-8")
        status, out, _ = command("sync", "wide.tide", "-o", "wide.tide", *more)
        assert status == 1
        assert read("wide.tide") != text
        for code, words in (("warning[TG403]", "inexact(%i)"), ("error[TG301]", "wave + 1]")):
            line = next(number for number, each in enumerate(read("wide.tide").split("\n"), 1) if words in each)
            found = out[out.index(code) :]
            assert found.split("\n")[1].strip() == f"--> wide.tide:{line}:3"
            assert f"{line} |   %" in found


def test_nothing_is_written_when_nothing_could_be_synchronized(command: Command) -> None:
    """Not even the kernels that could be: a file that looks done should be done."""
    Path("some.tide").write_text(RACE + "\n" + FILES["split.tide"].partition("\n\n")[2].replace("@shift", "@other"))
    before = read("some.tide")
    status, out, _ = command("sync", "some.tide", "-o", "some.tide")
    assert status == 1
    assert out.endswith("`some.tide` is not written\n")
    assert read("some.tide") == before
    assert command("sync", "some.tide")[1] == ""
    assert command("sync", "some.tide::shift")[0] == 0


def test_piping(tmp_path: Path) -> None:
    (tmp_path / "race.tide").write_text(RACE, encoding="utf-8")
    done = process(tmp_path, "sync", "race.tide")
    assert done.returncode == 0
    assert parse(done.stdout).kernels[0].name == "shift"
    assert done.stderr.startswith("@shift on gfx942, minimal: inserted 1 `shared_memory_barrier`\n")


@pytest.mark.slow
def test_output_does_not_depend_on_hashes(tmp_path: Path) -> None:
    import os

    (tmp_path / "ring.tide").write_text(RING, encoding="utf-8")
    shown = {
        process(tmp_path, "sync", "ring.tide", "--json", env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in "012"
    }
    assert len(shown) == 1


def test_python_becomes_text(command: Command) -> None:
    _, out, _ = command("sync", "kernels.py")
    assert [each.name for each in parse(out).kernels] == ["shift", "clean"]
    assert command("sync", "kernels.py", "-o", "out.tide")[0] == 0
    assert read("out.tide") == out


def test_the_kernel_is_for_the_target_that_was_asked_for(command: Command) -> None:
    """Else the next `check` would judge it on another one. Kernels that were not asked for keep theirs."""
    _, out, _ = command("sync", "two.tide::other", "--target", "sm_90")
    assert {each.name: each.target for each in parse(out).kernels} == {"shift": "gfx942", "other": "sm_90"}
    _, out, _ = command("sync", "two.tide::shift", "--target", "sm_90")
    assert {each.name: each.target for each in parse(out).kernels} == {"shift": "sm_90", "other": "gfx942"}
    _, out, _ = command("sync", "two.tide", "--target", "sm_90")
    assert (out.count("target sm_90"), out.count("target")) == (1, 1)
    _, out, _ = command("sync", "race.sync", "--target", "sm_90")
    assert parse_graph(out, "out").target == "sm_90"


def test_optimal_that_reaches_its_limit_says_how_far_it_may_be(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A guard makes a walk doubtful: without proofs nobody knows whether its barrier is needed."""
    path = tmp_path / "late.tide"
    path.write_text(NOT_AT_FIRST, encoding="utf-8")
    monkeypatch.setattr(BarrierJudge, "is_tired", property(lambda _: True))
    status, _, err = command("sync", str(path), "--strategy", "optimal", "--time-limit", "0.5")
    assert status == 0
    assert "weight 32, bound 16: a plan up to 50% lighter may exist; the search reached its limit" in err
    (program,) = json.loads(command("sync", str(path), "--strategy", "optimal", "--json")[1])["programs"]
    assert (program["weight"], program["bound"], program["proven"]) == (32, 16, False)


def test_help_lists_sync(command: Command) -> None:
    assert re.search(r"(?m)^  sync ", command("--help")[1])
    assert "\n  tidegate sync gemm.tide -o gemm.tide\n" in command("sync", "--help")[1]


# --- JSON ---------------------------------------------------------------------------------------------------------

FIELDS = ["version", "file", "output", "text", "programs", "total", "causes", "not_shown", "findings"]
PROGRAM = (
    "program strategy plan left_out hazards unplaced weight tally bound proven notes why_not verified judged"
).split()
EDIT = ["edit", "op", "point", "line", "serves", "why"]
HAZARD = "kind producer consumer loop distance demand buffer bytes sizes exact".split()
END = ["point", "line", "statement", "wave", "iterations"]


def test_json_document(command: Command) -> None:
    """The fields that `docs/json.md` promises."""
    status, out, err = command("sync", "ring.tide", "--json", "--print-after", "plan")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert list(found) == FIELDS
    assert (found["version"], found["file"], found["output"]) == (JSON_VERSION, "ring.tide", None)
    assert found["text"] == command("sync", "ring.tide")[1]
    (program,) = found["programs"]
    assert list(program) == PROGRAM
    assert (program["program"], program["strategy"], program["why_not"]) == ("@ring on gfx942", "minimal", None)
    (edit,) = program["plan"]
    assert list(edit) == EDIT
    assert (edit["edit"], edit["op"], edit["line"]) == ("insert", "shared_memory_barrier", 10)
    served = [program["hazards"][number] for number in edit["serves"]]
    assert {each["kind"] for each in served} == {"RAW", "WAR"}
    for each in program["hazards"]:
        assert list(each) == HAZARD
        assert list(each["producer"]) == list(each["consumer"]) == END
    (raw,) = (each for each in served if each["kind"] == "RAW")
    assert (raw["producer"]["line"], raw["consumer"]["line"], raw["demand"], raw["exact"]) == (8, 10, 1, True)
    (carried,) = (each for each in served if each["kind"] == "WAR")
    assert (carried["loop"], carried["distance"]) == ("%k", 2)
    assert program["verified"]["proved"]
    assert program["judged"] is None


def test_json_with_output(command: Command) -> None:
    status, out, err = command("sync", "race.tide", "--json", "-o", "out.tide")
    found = json.loads(out)
    assert (status, err, found["output"]) == (0, "", "out.tide")
    assert read("out.tide") == found["text"]


@pytest.mark.parametrize("stage", names_of(SYNC))
def test_json_of_a_stop(command: Command, stage: str) -> None:
    status, out, _ = command("sync", "race.tide", "--json", "--stop-after", stage)
    (program,) = json.loads(out)["programs"]
    assert status == 0
    assert list(program) == PROGRAM
    assert bool(program["hazards"]) == (stage not in ("kernel", "graph"))
    assert bool(program["plan"]) == (stage in ("plan", "verify", "judge"))
    assert (program["verified"] is None) == (program["why_not"] is not None) == (stage not in ("verify", "judge"))


def test_json_of_what_cannot_be_ordered(command: Command) -> None:
    status, out, _ = command("sync", "same.tide", "--json")
    found = json.loads(out)
    (program,) = found["programs"]
    assert status == 1
    assert [each["why"] for each in program["unplaced"]] == ["one statement touches the same bytes in two waves"]
    assert [each["code"] for each in found["findings"]] == ["TG103"]


@pytest.mark.parametrize("file", ["bad.tide", "nowhere.tide", "broken.py", "types.tide"])
def test_json_of_bad_input(command: Command, file: str) -> None:
    status, out, _ = command("sync", file, "--json")
    found = json.loads(out)
    assert (status, found["text"]) == (2, None)
    assert found["findings"]


def test_json_of_forced_and_bisected(command: Command) -> None:
    (program,) = json.loads(command("sync", "ring.tide", "--force-barriers", "--json")[1])["programs"]
    assert (program["strategy"], program["weight"]) == ("forced", None)
    assert {(each["why"][0], len(each["serves"])) for each in program["plan"]} == {("forced", 0)}
    (program,) = json.loads(command("sync", "ring.tide", "--bisect", "0", "--json")[1])["programs"]
    assert (program["plan"], program["left_out"]) == ([], 1)


# --- text that is patched -----------------------------------------------------------------------------------------


def synchronized(text: str, **options: Any) -> tuple[str, list[Kernel]]:
    """The text that comes of a text, and the kernels that the plans give."""
    results = [
        propose(Session(each.name, load_target(each.target), each, None), SyncOptions(**options))
        for each in parse(text, "a.tide").kernels
    ]
    return write_programs(results, text, "a.tide"), [each.kernel for each in results if each.kernel is not None]


def without_barriers(text: str) -> str:
    """All synchronization that a plan could put in, taken away line by line."""
    words = "workgroup_barrier shared_memory_barrier signal wait wait_count fence conditional_barrier".split()
    return "".join(line for line in text.splitlines(keepends=True) if (line.split() or [""])[0] not in words)


@pytest.mark.parametrize("path", slow_examples([*EXAMPLES, *BROKEN]), ids=lambda path: path.stem)
@pytest.mark.parametrize("stripped", [False, True], ids=["as it is", "stripped"])
def test_examples_keep_their_text(path: Path, stripped: bool) -> None:
    """What comes out is what the plan gives, and every line of the author is still there, unless it was changed."""
    text = path.read_text(encoding="utf-8")
    text = without_barriers(text) if stripped else text
    kernels = parse(text, "a.tide").kernels
    result = propose(Session(path.stem, load_target(kernels[0].target), kernels[0], None))
    if result.after is None:
        return
    found = write_programs([result], text, "a.tide")
    assert parse(found).kernels == (result.kernel,)
    changed = {result.graph.points[each.point].at.line for each in result.plan.edits if not isinstance(each, Insert)}  # type: ignore[union-attr]
    lines = iter(found.split("\n"))
    for number, line in enumerate(text.split("\n"), 1):
        assert number in changed or line in lines, f"line {number} is lost: {line}"


def noise(text: str, rng: random.Random) -> str:
    """Comments, empty lines, several operations in a line, other ends of lines."""
    layout = rng.choice(("plain", "comments", "one line", "crlf"))
    if layout == "one line":
        head, _, body = text.partition("waves ")
        return f"{head}waves {' '.join(body.split())}"
    lines: list[str] = []
    for line in text.split("\n"):
        if layout != "plain" and rng.random() < 0.2:
            lines.append(line[: len(line) - len(line.lstrip())] + f"# note {len(lines)}")
        if layout != "plain" and rng.random() < 0.1:
            lines.append("")
        lines.append(f"{line}  # why {len(lines)}" if layout != "plain" and line and rng.random() < 0.2 else line)
    return ("\r\n" if layout == "crlf" else "\n").join(lines)


@pytest.mark.parametrize("seed", slow_if(range(60), lambda seed: seed >= 12))
def test_random_kernels_keep_their_text(seed: int) -> None:
    rng = random.Random(seed)
    kernel, target, _ = random_kernel_program(rng)
    text = noise(show(kernel), rng)
    (kernel,) = parse(text, "a.tide").kernels
    options = SyncOptions(force_barriers=True) if rng.random() < 0.2 else SyncOptions()
    result = propose(Session(kernel.name, target, kernel, None), options)
    found = write_programs([result], text, "a.tide")
    assert parse(found, "a.tide").kernels == (result.kernel,)
    notes = re.findall(r"# (?:note|why) \d+", text)
    assert [each for each in notes if each not in found] == []
    # Back again: some of what stands there is deleted, changed or moved.
    (kernel,) = parse(found, "a.tide").kernels
    result = propose(Session(kernel.name, target, kernel, None), SyncOptions())
    assert result.unit.built is not None
    result.plan = Plan(tuple(random_edits(result.unit.built.graph.points, rng)))
    result.made = replace(result.unit, kernel=apply_plan(result.plan, result.unit.built))
    result.placed = None
    again = write_programs([result], found, "a.tide")
    assert parse(again, "a.tide").kernels == (result.kernel,)
    whole_lines = [each for each in re.findall(r"(?m)^ *# note \d+", found) if each not in again]
    assert whole_lines == []


def random_edits(points: Any, rng: random.Random) -> list[Any]:
    found: list[Any] = []
    for number, point in enumerate(points):
        if isinstance(point.action, Sync) and isinstance(point.action.op, SyncOp):
            kind = rng.random()
            if kind < 0.4:
                found.append(Delete(number))
            elif kind < 0.7:
                found.append(Change(number, SharedMemoryBarrier(pinned=True), ("because",)))
            elif kind < 0.8:
                found.append(Move(number, len(points) - 1))
    return found


def patched(text: str, *edits: Any) -> str:
    """Edits of the first kernel, each with a word as its reason."""
    kernels = parse(text, "a.tide").kernels
    built = tg.build_graph(kernels[0])
    why = tuple((Reason("because"),) for _ in edits)
    first = Edited(kernels[0], kernels[0].target, built.paths, Plan(tuple(edits)), why)
    found = patch(text, "a.tide", [first, *(Edited(each, each.target) for each in kernels[1:])])
    assert parse(found).kernels[0] == apply_plan(Plan(tuple(edits)), built)
    return found


def body(text: str) -> str:
    return "kernel @k() waves 4 {\n" + text + "}\n"


BARRIER = WorkgroupBarrier()


@pytest.mark.parametrize(
    ("text", "edit", "wanted"),
    [
        ("", Insert(0, BARRIER), "  workgroup_barrier  # because\n"),
        ("    signal -1\n", Insert(1, BARRIER), "    signal -1\n    workgroup_barrier  # because\n"),
        ("\tsignal -1\n", Insert(0, BARRIER), "\tworkgroup_barrier  # because\n\tsignal -1\n"),
        (
            "  # what it is for\n  # and more\n  signal -1\n",
            Insert(0, BARRIER),
            "  workgroup_barrier  # because\n  # what it is for\n  # and more\n  signal -1\n",
        ),
        # In the middle of a line there was no room for the reason: it was left out.
        ("  signal -1 wait -1\n", Insert(1, BARRIER), "  signal -1\n  workgroup_barrier  # because\n  wait -1\n"),
        (
            "  conditional wave < 2 { signal -1 }\n",
            Insert(1, BARRIER),
            "  conditional wave < 2 {\n    workgroup_barrier  # because\n    signal -1\n  }\n",
        ),
        (
            "  conditional wave < 2 { signal -1 } else { wait -1 }\n",
            Insert(2, BARRIER),
            "  conditional wave < 2 { signal -1\n    workgroup_barrier  # because\n  } else { wait -1 }\n",
        ),
        (
            "  signal -1\n  # the end\n",
            Insert(1, BARRIER),
            "  signal -1\n  # the end\n  workgroup_barrier  # because\n",
        ),
        ("  signal -1  # old\n  wait -1\n", Delete(0), "  wait -1\n"),
        ("  signal -1 wait -1  # both\n", Delete(0), "  wait -1  # both\n"),
        ("  signal -1 wait -1  # both\n", Change(0, BARRIER), "  workgroup_barrier wait -1  # both\n"),
        ("  signal\n    -1\n  wait -1\n", Delete(0), "  wait -1\n"),
        ("  signal\n    -1\n  wait -1\n", Change(0, BARRIER), "  workgroup_barrier  # because\n  wait -1\n"),
        ("  signal -1  # old\n", Change(0, BARRIER), "  workgroup_barrier  # old  # because\n"),
        ("  signal -1\n  wait -1\n", Move(0, 2), "  wait -1\n  signal -1  # because\n"),
        (
            "  conditional wave < 2 {\n    signal -1\n  }\n",
            Insert(3, BARRIER),
            "  conditional wave < 2 {\n    signal -1\n  } else {\n    workgroup_barrier  # because\n  }\n",
        ),
        (
            "  iterate %k in 0 .. 4 {\n  }\n",
            Insert(2, BARRIER),
            "  iterate %k in 0 .. 4 {\n    workgroup_barrier  # because\n  }\n",
        ),
    ],
)
def test_an_edit_in_text(text: str, edit: Any, wanted: str) -> None:
    assert patched(body(text), edit) == body(wanted)


def test_a_yield_comes_last() -> None:
    text = "  %r = iterate %k in 0 .. 4 carry(%s = 0 : index) {\n    yield %s + 1\n  }\n"
    assert patched(body(text), Insert(2, BARRIER)) == body(
        text.replace("yield", "workgroup_barrier  # because\n    yield")
    )


def test_new_orders_are_printed_anew() -> None:
    text = "kernel @k() waves 4 {\n  iterate %k in 0 .. 4 { signal -1 wait -1 }\n}\n"
    (kernel,) = parse(text).kernels
    result = propose(Session("k", load_target("gfx1201"), kernel, None))
    assert result.unit.built is not None
    result.plan, result.placed = Plan((Reorder(0, (3, 2)),)), None
    result.made = replace(result.unit, kernel=apply_plan(result.plan, result.unit.built))
    assert write_programs([result], text) == show(result.kernel)


@pytest.mark.parametrize("path", slow_examples([*EXAMPLES, *BROKEN]), ids=lambda path: path.stem)
def test_each_edit_says_why_it_stands(path: Path) -> None:
    (kernel,) = parse(path.read_text(encoding="utf-8"), "a.tide").kernels
    result = propose(Session(path.stem, load_target(kernel.target), kernel, None))
    why = reasons_of(result, result.unit.built.paths if result.unit.built is not None else ())
    assert len(why) == len(result.plan.edits)
    assert all(why)


def test_a_signal_stands_for_what_its_wait_orders() -> None:
    found, _ = synchronized(LATE)
    assert re.findall(r"(wait_count|signal|wait) .*  # (.*)", found) == [
        ("wait_count", "RAW %tile: line 6 → 11"),
        ("signal", "RAW %tile: line 6 → 11"),
        ("wait", "RAW %tile: line 6 → 11"),
    ]


def test_reasons_are_few_and_the_shortest_first() -> None:
    lines = "".join(f"  local_write %a, %tile[{row}][wave]\n" for row in range(6))
    reads = "".join(f"  %b{row} = local_read %tile[{row}][(wave + 1) mod 4] : tile<64xf32>\n" for row in range(6))
    made = "  %tile = alloc : lds<4x64xf32, slots = 6>\n  %a = fill 1.0 : tile<64xf32>\n"
    found, _ = synchronized(body(made + lines + reads))
    (comment,) = re.findall(r"barrier  # (.*)", found)
    assert comment == "RAW %tile: line 4 → 11; RAW %tile: line 5 → 12; RAW %tile: line 6 → 13; and 3 more"


def test_lines_in_reasons_are_those_of_the_new_text() -> None:
    found, _ = synchronized(RING + "\n" + RING.partition("\n\n")[2].replace("@ring", "@again"))
    lines = ["", *found.split("\n")]
    named = re.findall(r"(RAW|WAR) %tile: line (\d+) → (\d+)", found)
    assert len(named) >= 3
    for kind, first, second in named:
        wanted = ("local_write", "local_read") if kind == "RAW" else ("local_read", "local_write")
        assert wanted[0] in lines[int(first)]
        assert wanted[1] in lines[int(second)]


def test_plans_keep_their_reasons_in_one_column() -> None:
    op = SharedMemoryBarrier((("vmcnt", 1),), wait_async_ops=True)
    found = show_plan(Plan((Insert(3, BARRIER, ("one",)), Change(7, op, ("two",)), Delete(9))))
    assert len({line.index("#") for line in found.splitlines() if "#" in line}) == 1


def weight_of(kernel: Kernel) -> float:
    """How often waves meet at the workgroup's barrier."""
    met = (SharedMemoryBarrier, WorkgroupBarrier, Wait)
    points = tg.build_graph(kernel).graph.points
    return sum(each.weight for each in points if isinstance(each.action, Sync) and isinstance(each.action.op, met))


@pytest.mark.parametrize("strategy", ["minimal", "intersecting", "optimal"])
@pytest.mark.parametrize("path", slow_examples(EXAMPLES), ids=lambda path: path.stem)
def test_barriers_of_examples_come_back_at_the_same_weight(path: Path, strategy: str) -> None:
    """Taken away, and put back by `sync`. The ping-pong loses its stagger, which is a schedule, and is lighter."""
    text = path.read_text(encoding="utf-8")
    (hand,), (bare,) = (parse(each).kernels for each in (text, without_barriers(text)))
    result = tg.sync(bare, strategy=strategy, atomics="commute")
    assert result.kernel is not None
    assert result.checked is not None
    assert result.checked.findings == []
    wanted, found = weight_of(hand), weight_of(result.kernel)
    assert found < wanted if path.stem == "gemm_pingpong" else found == wanted


# --- the library --------------------------------------------------------------------------------------------------


def test_every_form_of_a_program_gives_the_same_plan() -> None:
    (kernel,) = parse(RACE, "race.tide").kernels
    graph = tg.build_graph(kernel).graph
    results = [tg.sync(each) for each in (kernel, graph)]
    assert len({show_plan(each.plan) for each in results}) == 1
    for each in results:
        assert each.checked is not None
        assert each.checked.findings == []
    assert results[0].kernel is not None
    assert sum(isinstance(op, SharedMemoryBarrier) for op in walk_ops(results[0].kernel.body)) == 1
    assert parse(results[0].text).kernels == (results[0].kernel,)
    assert parse_graph(results[1].text, "a.sync") == results[1].after


def test_sync_is_a_function_whatever_was_imported_before() -> None:
    import importlib

    importlib.import_module("tidegate.synchronize")
    assert callable(tg.sync)


def test_what_cannot_be_synchronized_is_bad_input() -> None:
    (kernel,) = parse(FILES["split.tide"]).kernels
    with pytest.raises(tg.BadInput) as bad:
        tg.sync(kernel)
    assert [each.code for each in bad.value.findings] == ["TG210"]
    with pytest.raises(tg.BadInput, match="there is no strategy"):
        tg.sync(kernel, strategy="fewest")


# --- forced barriers and bisection --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_forced_barriers_leave_no_race(seed: int) -> None:
    kernel, target, _ = random_kernel_program(random.Random(seed))
    result = synchronize(Session(kernel.name, target, kernel, None), SyncOptions(force_barriers=True))
    assert result.checked is not None
    assert result.checked.findings == []


def test_each_edit_of_a_bisection_brings_the_plan_nearer() -> None:
    """With all edits it is clean, with fewer it is not: the plan holds nothing that is not needed."""
    (kernel,) = parse(without_barriers((ROOT / "examples/gemm_one_slot.tide").read_text())).kernels
    whole = tg.sync(kernel)
    assert len(whole.plan.edits) >= 2
    counts = []
    for number in range(len(whole.plan.edits) + 1):
        part = tg.sync(kernel, bisect=number)
        assert part.plan == Plan(whole.plan.edits[:number])
        assert part.checked is not None
        counts.append(len(part.checked.findings))
    assert counts[-1] == 0
    assert all(counts[:-1])
