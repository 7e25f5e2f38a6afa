"""Nothing that a user types breaks the command line, and nothing is lost: hostile runs, class by class.

No traceback, no status but 0, 1 and 2 (130 after Ctrl-C), no run of more than 20 s, no input that is not what it was,
no output that is half of one, nothing printed that talks to the terminal. `hostile_runs` has the rules, and carries out
a single case again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oracles.hostile import hostile_runs
from oracles.hostile.hostile_inputs import OLD, PYTHON, TIDE, Case
from oracles.hostile.hostile_places import CLASSES
from oracles.hostile.hostile_runs import Complaint, End, complaints, draw, why_not
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="NOT TESTED: forks, limits and devices are those of Linux"
)

RUNS = 510  # of all classes together; `make fuzz` asks for 10,000
# So many classes are carried out by one process: each start takes seconds.
TOGETHER = 4
GROUPS = [tuple(CLASSES)[first : first + TOGETHER] for first in range(0, len(CLASSES), TOGETHER)]


@pytest.mark.slow
@pytest.mark.parametrize("kinds", GROUPS, ids=",".join)
def test_hostile_runs(kinds: tuple[str, ...], request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--count") or RUNS
    kinds = tuple(kind for kind in kinds if not why_not(kind))
    each = -(-asked // len(CLASSES))
    command = [sys.executable, str(ROOT / "oracles" / "hostile" / "hostile_runs.py"), ",".join(kinds), "0", str(each)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ends = [line for line in lines if "runs" in line]
    # Else the runner itself has ended early.
    assert [end["runs"] + end["skipped"] for end in ends] == [each] * len(kinds), done.stderr
    found = [Complaint(**line) for line in lines if "runs" not in line]
    assert not found, f"{len(found)} of {each * len(kinds)} runs:\n" + "\n".join(map(str, found[:5]))


# --- the runner is tested -------------------------------------------------------------------------------------------


def test_a_seed_says_everything() -> None:
    for kind in CLASSES:
        assert draw(kind, 3) == draw(kind, 3)
        assert len({repr(draw(kind, seed)) for seed in range(20)}) > 5


@pytest.mark.parametrize(
    ("end", "what"),
    [
        (End(3, 1.0, "", "x"), "status 3"),
        (End(120, 1.0, "", "x"), "status 120"),
        (End(130, 1.0, "", ""), "status 130"),
        (End(-11, 1.0, "", ""), "ended by SIGSEGV"),
        (End(None, 20.0, "", ""), "more than 20 s"),
        (End(1, 1.0, "", "Traceback (most recent call last):"), "a traceback"),
        (End(2, 1.0, "\x1b[31m", ""), "prints '\\x1b'"),
        (End(2, 1.0, "", ""), "status 2 without a word"),
    ],
)
def test_a_wrong_end_is_seen(end: End, what: str) -> None:
    assert list(complaints(Case(()), end, {}, {})) == [what]


def test_a_right_end_is_none() -> None:
    for end in (End(0, 1.0, "fine\n", ""), End(1, 1.0, "a finding\n", ""), End(2, 1.0, "", "error\n")):
        assert list(complaints(Case(()), end, {}, {})) == []
    assert list(complaints(Case((), by="ctrl-c"), End(130, 1.0, "", ""), {}, {})) == []
    assert list(complaints(Case((), by="kill"), End(-14, 1.0, "", ""), {}, {})) == []


def test_a_lost_input_is_seen() -> None:
    case = Case((b"check", b"k.tide"), ((b"k.tide", b"x"),))
    end = End(0, 1.0, "", "")
    assert list(complaints(case, end, {b"k.tide": b"x"}, {b"k.tide": None})) == [
        "the input b'k.tide' is not what it was"
    ]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # threads of pytest do not matter to the fork
def test_runs_are_carried_out_as_stated(tmp_path: Path) -> None:
    """A program as it should be: what it prints and writes is seen, and its process leaves this one alone."""
    files = ((b"k.tide", TIDE.encode()),)
    case = Case((b"show", b"k.tide", b"-o", b"out.tide"), files, out=b"out.tide")
    hostile_runs.set_up(case, tmp_path / "a")
    before = os.getcwd()
    end = hostile_runs.run(case, tmp_path / "a")
    assert (end.status, os.getcwd()) == (0, before)
    assert b"kernel @k" in (hostile_runs.contents(case, tmp_path / "a")[b"out.tide"] or b"")
    locked = Case((b"show", b"k.tide", b"-o", b"new.tide"), files, is_locked=True)
    hostile_runs.set_up(locked, tmp_path / "b")
    assert hostile_runs.run(locked, tmp_path / "b").status == 2
    (tmp_path / "b").chmod(0o755)
    killed = Case((b"show", b"k.tide", b"-o", b"out.tide"), files, out=b"out.tide", moment=(1, 0), by="kill")
    hostile_runs.set_up(killed, tmp_path / "c")
    assert hostile_runs.run(killed, tmp_path / "c").status == -14
    assert hostile_runs.contents(killed, tmp_path / "c")[b"out.tide"] == OLD


# --- what hostile runs have found -----------------------------------------------------------------------------------


@pytest.mark.parametrize("raised", ["class E(BaseException): pass\nraise E('own')", "raise GeneratorExit('own')"])
def test_a_python_file_may_raise_anything(raised: str, tmp_path: Path) -> None:
    """Exceptions that are no `Exception` ended in a traceback."""
    from tidegate.diag import BadInput
    from tidegate.files import load

    file = tmp_path / "k.py"
    file.write_text(raised)
    with pytest.raises(BadInput, match=r"TG007: the file fails: (E|GeneratorExit): own"):
        load(str(file))


def test_a_recursion_limit_of_a_python_file_is_its_own(tmp_path: Path) -> None:
    """With a limit of 40 the commands behind the file ended as a mistake of Tidegate's own."""
    from tidegate.files import load

    file = tmp_path / "k.py"
    file.write_text(f"{PYTHON}\nimport sys\nsys.setrecursionlimit(len(__import__('inspect').stack()) + 40)\n")
    before = sys.getrecursionlimit()
    load(str(file))
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize(
    ("sizes", "waves", "words"),
    [
        ({"K": 10**18}, 4, "a wave performs more than 25,000 operations"),
        ({"N": 10**12}, 4, "the arrays of `@k` would have 512,000,000,000,000 elements"),
        ({}, 10**5, "100,000 waves cannot run: a run has at most 1,024"),
    ],
)
def test_a_run_that_would_never_end_is_refused(sizes: dict[str, int], waves: int, words: str) -> None:
    """`run --size K=...` went on for ever, `--size N=...` and `--waves` took all memory there was."""
    from tidegate.language.parse import parse
    from tidegate.simulate.faults import SimulationError
    from tidegate.simulate.inorder import make_inputs, run

    kernel = parse(TIDE).kernels[0]
    with pytest.raises(SimulationError, match=f"TG022: {words}"):
        run(kernel, make_inputs(kernel, sizes), sizes=sizes, waves=waves)
