"""The command line: what each command prints and how it ends.

Each case of `CASES` is a command in a folder with small files; what it prints and its exit status stand in
`tests/golden/cli`. `pytest --update` rewrites them; review the diff. Some run in a process of their own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tidegate import cli
from tidegate.diag import JSON_VERSION
from tidegate.graph.parse import parse_graph
from tidegate.language.parse import parse
from tidegate.targets import known_targets

GOLDEN = ROOT / "tests" / "golden" / "cli"

GOOD = """\
target gfx942

kernel @shift(%X: global<256xf32>, %Y: global<256xf32>) waves 4 {
  %tile = alloc : lds<4x64xf32>
  %a = global_read %X[wave * 64] : tile<64xf32>
  local_write %a, %tile[wave]
  shared_memory_barrier
  %b = local_read %tile[(wave + 1) mod 4] : tile<64xf32>
  global_write %b, %Y[wave * 64]
}
"""
PYTHON = """\
import numpy as np

import tidegate as tg

N = tg.size("N", 256)
FACTOR = 2


@tg.kernel(waves=4, target="gfx942", where=[N % 256 == 0], grid=(N // 256,))
def double(X: tg.Global[N, tg.f32], Y: tg.Global[N, tg.f32]):
    at = tg.workgroup() * 256 + tg.wave() * 64
    row = tg.global_read(X, (at,), (64,))
    tg.global_write(row * FACTOR, Y, (at,))


def reference(inputs, sizes):
    return {"Y": (inputs["X"] * 2).astype(np.float32)}
"""
PAIR = """\
target gfx1250

kernel @pair(%X: global<2x64xf32>, %Y: global<2x64xf32>) waves 2 {
  %tile = alloc : lds<2x64xf32>
  %both = new_barrier : named_barrier<2>
  %a = global_read %X[wave] : tile<64xf32>
  local_write %a, %tile[wave]
  wait_count dscnt(0)
  signal %both
  wait %both
  %b = local_read %tile[1 - wave] : tile<64xf32>
  global_write %b, %Y[wave]
}
"""
FILES = {
    "good.tide": GOOD,
    "pair.tide": PAIR,
    "number.tide": GOOD.replace("Y: global<256xf32>", "Y: global<256xf32>, %n: index").replace(
        "  shared_memory_barrier\n", "  conditional %n < 9 {\n    shared_memory_barrier\n  }\n"
    ),
    "two.tide": GOOD + "\n" + GOOD.partition("\n\n")[2].replace("@shift", "@other"),
    "found.tide": GOOD.replace("(wave + 1) mod 4", "wave + 1").replace(
        "  shared_memory", "  signal -1\n  shared_memory"
    ),
    "bad.tide": GOOD.replace("local_write %a", "local_write %q").replace("%tile[(wave", "%tiel[(wave"),
    "race.tide": GOOD.replace("  shared_memory_barrier\n", ""),
    "hang.tide": "target sm_90\n\nkernel @k() waves 4 {\n  %bar = new_barrier : mbarrier<4>\n"
    "  conditional wave < 3 {\n    mbarrier_arrive %bar\n  }\n  mbarrier_wait %bar parity 0\n}\n",
    "sizes.tide": "kernel @k(%X: global<Kxf32>) sizes(K = 128) where(K mod 64 == 0) grid(K // 64) waves 1 {\n"
    "  %a = global_read %X[wg0 * 64] : tile<64xf32>\n  %b = neg %a : tile<64xf32>\n"
    "  global_write %b, %X[wg0 * 64]\n}\n",
    "empty.tide": "",
    "comment.tide": "# nothing here\n",
    "nul.tide": GOOD.replace("global_read", "global\0read"),
    "graph.sync": "",
    "double.py": PYTHON,
    "wrong.py": PYTHON.replace("FACTOR = 2", "FACTOR = 3"),
    "shape.py": PYTHON.replace('(inputs["X"] * 2)', '(inputs["X"] * 2)[:8]'),
    "reference_fails.py": PYTHON.replace('(inputs["X"] * 2)', '(inputs["Z"] * 2)'),
    "reference_list.py": PYTHON.replace('return {"Y": (inputs["X"] * 2).astype(np.float32)}', "return [1]"),
    "race.py": "import tidegate as tg\n\n\n@tg.kernel(waves=4, target='gfx942')\n"
    "def shift(X: tg.Global[4, 64, tg.f32], Y: tg.Global[4, 64, tg.f32]):\n    tile = tg.alloc((4, 64), tg.f32)\n"
    "    tg.local_write(tg.global_read(X, (tg.wave(), 0), (64,)), tile, (tg.wave(), 0))\n    tg.workgroup_barrier()\n"
    "    tg.global_write(tg.local_read(tile, ((tg.wave() + 1) % 4, 0), (64,)), Y, (tg.wave(), 0))\n",
    "syntax.py": PYTHON.replace("FACTOR = 2", "FACTOR = = 2"),
    "raises.py": PYTHON.replace("FACTOR = 2", "FACTOR = 1 // 0"),
    "exits.py": PYTHON.replace("FACTOR = 2", "raise SystemExit('no GPU here')"),
    "trace_raises.py": PYTHON.replace("row * FACTOR", "row * {}['missing']"),
    "trace_rejects.py": PYTHON.replace("row * FACTOR", "row if row else row"),
    "neighbours.py": PYTHON
    + "\n\n@tg.kernel(waves=4)\ndef broken(X: tg.Global[N, tg.f32]):\n    tg.local_write(X, X, (0,))\n",
    "remainder.tide": GOOD.replace("(wave + 1) mod 4", "(wave + 1) % 4"),
    "none.py": "import tidegate\n",
    "notes.txt": "hello\n",
    "later.ttgir": "module {}\n",
    "gpu.toml": "[target\n",
}

CASES: dict[str, str] = {
    "targets": "targets",
    "targets-unknown": "targets gfx9000",
    "targets-bad-toml": "targets gpu.toml",
    "targets-missing-toml": "targets nowhere.toml",
    "show-tide": "show good.tide",
    "show-py": "show double.py",
    "show-sync": "show graph.sync",
    "show-graph": "show good.tide --print-after graph",
    "show-two": "show two.tide",
    "show-one-of-two": "show two.tide::other",
    "show-unknown-stage": "show good.tide --print-after grahp",
    "show-other-target": "show double.py --target gfx1250 --print-after graph",
    "check-good": "check good.tide",
    "check-two": "check two.tide",
    "check-sync": "check graph.sync",
    "check-found": "check found.tide",
    "check-bad": "check bad.tide",
    "check-found-stop": "check found.tide --stop-after kernel --print-after kernel",
    "check-other-target": "check good.tide --target sm_80",
    "check-no-target": "check good.tide --target none",
    "check-unknown-target": "check good.tide --target gfx943",
    "check-unknown-stage": "check good.tide --stop-after placement",
    "check-name-missing": "check two.tide::shfit",
    "check-name-of-graph": "check graph.sync::shift",
    "check-several": "check good.tide found.tide double.py",
    "check-several-bad": "check bad.tide good.tide nowhere.tide",
    "check-neighbour-broken": "check neighbours.py::double",
    "check-broken-neighbour": "check neighbours.py",
    "check-name-missing-py": "check neighbours.py::duoble",
    "check-remainder": "check remainder.tide",
    "check-race": "check race.tide",
    "check-race-sync": "check race.sync",
    "check-race-python": "check race.py",
    "check-hang": "check hang.tide",
    "check-some-race": "check race.tide pair.tide graph.sync race.sync",
    "check-number": "check number.tide",
    "check-explore": "check pair.tide --explore",
    "check-explore-one-order": "check good.tide --explore",
    "check-stop-graph": "check race.tide --stop-after graph",
    "check-stop-judge": "check race.tide --stop-after judge",
    "check-print-judge": "check pair.tide --print-after judge",
    "check-missing-file": "check nowhere.tide",
    "check-folder": "check folder",
    "check-empty": "check empty.tide",
    "check-comment": "check comment.tide",
    "check-nul": "check nul.tide",
    "check-not-utf8": "check binary.tide",
    "check-unknown-suffix": "check notes.txt",
    "check-ttgir": "check later.ttgir",
    "check-py-none": "check none.py",
    "check-py-syntax": "check syntax.py",
    "check-py-raises": "check raises.py",
    "check-py-exits": "check exits.py",
    "check-py-trace-raises": "check trace_raises.py",
    "check-py-trace-rejects": "check trace_rejects.py",
    "run-tide": "run good.tide",
    "run-py": "run double.py",
    "run-size": "run double.py --size N=512 --seed 3",
    "run-one-kernel": "run neighbours.py::@double",
    "run-save-folder": "run good.tide -o folder",
    "version": "--version",
    "run-two-sizes": "run sizes.tide -s K=64",
    "run-size-unknown": "run double.py --size M=512",
    "run-size-no-number": "run double.py --size N",
    "run-size-zero": "run double.py --size N=0",
    "run-size-breaks": "run double.py --size N=100",
    "run-waves": "run good.tide --waves 2",
    "run-waves-zero": "run good.tide --waves 0",
    "run-wrong-reference": "run wrong.py",
    "run-other-shape": "run shape.py",
    "run-reference-fails": "run reference_fails.py",
    "run-reference-list": "run reference_list.py",
    "run-hang": "run hang.tide",
    "run-found": "run found.tide",
    "run-race": "run race.tide",
    "run-race-in-order": "run race.tide --in-order",
    "run-counters": "run good.tide --counters --phases",
    "run-counters-in-order": "run good.tide --counters --in-order",
    "run-trace": "run good.tide --trace out.json",
    "run-trace-folder": "run good.tide --trace folder",
    "run-trace-nowhere": "run good.tide --trace nowhere/out.json",
    "run-trace-two": "run two.tide --trace out.json",
    "run-bad": "run bad.tide",
    "run-sync": "run graph.sync --phases",
    "run-sync-race": "run race.sync --seed 3",
    "run-sync-waves": "run graph.sync --waves 2",
    "run-sync-size": "run graph.sync --size K=3",
    "demo": "demo",
}
STATUS = {
    0: "targets show-tide show-py show-sync show-graph show-two show-one-of-two show-other-target check-good check-two "
    "check-explore check-explore-one-order check-stop-graph check-print-judge "
    "version check-neighbour-broken run-one-kernel "
    "check-sync check-other-target check-no-target run-tide run-py run-size run-two-sizes run-waves demo "
    "run-race-in-order run-counters run-trace run-sync",
    1: "check-race check-race-sync check-race-python check-hang check-some-race check-number check-stop-judge "
    "check-several check-found check-found-stop run-wrong-reference run-other-shape run-hang run-found run-race "
    "run-sync-race",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files above, in which commands run."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "binary.tide").write_bytes(b"kernel \xff\xfe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "graph.sync").write_text(graph_of(GOOD), encoding="utf-8")
    (tmp_path / "race.sync").write_text(graph_of(FILES["race.tide"]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in [each for each in sys.modules if each.startswith("tidegate_input_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def graph_of(text: str) -> str:
    from tidegate.graph.build import build_graph
    from tidegate.graph.show import show_graph
    from tidegate.targets import load_target

    (kernel,) = parse(text, "good.tide").kernels
    return show_graph(build_graph(kernel, load_target(kernel.target)).graph)


class Command:
    """Runs a command in this process, as the installed script does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys

    def __call__(self, *args: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = self.capsys.readouterr()
        where = (str(self.folder.resolve()) + "/", str(self.folder) + "/")
        for text in where:
            out, err = out.replace(text, ""), err.replace(text, "")
        return int(ended.value.code or 0), out, err


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(folder, monkeypatch, capsys)


# --- golden -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_command(name: str, command: Command, update: bool) -> None:
    status, out, err = command(*CASES[name].split())
    shown = [f"$ tidegate {CASES[name]}", out.rstrip("\n")]
    shown += ["--- to stderr", err.rstrip("\n")] if err.strip() else []
    shown += [f"--- exit {status}", ""]
    text, place = "\n".join(shown), GOLDEN / f"{name}.txt"
    if update:
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    assert text == place.read_text(encoding="utf-8"), "run `pytest --update` and review the diff"
    assert "Traceback" not in out + err


@pytest.mark.parametrize("name", CASES)
def test_status(name: str) -> None:
    """0 clean, 1 findings, 2 bad input; written down here, so that `--update` cannot change it."""
    wanted = next((status for status, names in STATUS.items() if name in names.split()), 2)
    assert (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").endswith(f"--- exit {wanted}\n")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


# --- what golden files do not say ---------------------------------------------------------------------------------


def test_targets_shows_every_fact_as_its_golden_page(command: Command) -> None:
    status, out, _ = command("targets", "gfx1250")
    assert status == 0
    assert out.rstrip("\n") == (ROOT / "tests/golden/targets/gfx1250.txt").read_text(encoding="utf-8").rstrip("\n")


def test_targets_none_is_the_empty_target(command: Command) -> None:
    status, out, _ = command("targets", "none")
    assert status == 0
    assert out.startswith('"" (the empty target)')
    assert out.rstrip("\n") == (ROOT / "tests/golden/targets/empty.txt").read_text(encoding="utf-8").rstrip("\n")


def test_an_unknown_target_lists_the_known_ones(command: Command) -> None:

    status, _, err = command("targets", "gfx9000")
    assert status == 2
    assert all(name in err for name in known_targets())


def test_targets_as_json(command: Command) -> None:
    status, out, _ = command("targets", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["version"] == 1
    known = " ".join(known_targets())
    assert " ".join(row["name"] for row in found["targets"]) == known
    status, out, _ = command("targets", "gfx942", "--json")
    assert status == 0
    assert json.loads(out)["version"] == 1


@pytest.mark.parametrize(("file", "reader"), [("good.tide", parse), ("double.py", parse), ("graph.sync", parse_graph)])
def test_show_writes_what_it_prints(command: Command, file: str, reader: Any) -> None:
    suffix = "sync" if reader is parse_graph else "tide"
    _, printed, _ = command("show", file)
    assert command("show", file, "-o", f"out.{suffix}") == (0, "", "")
    written = Path(f"out.{suffix}").read_text(encoding="utf-8")
    assert written == printed
    again = command("show", f"out.{suffix}")[1]
    assert again == printed
    assert reader(written, "out") == reader(printed, "out")


def test_show_cannot_write(command: Command) -> None:
    status, _, err = command("show", "good.tide", "-o", "folder")
    assert status == 2
    assert err == "error[TG022]: `folder` cannot be written: is a directory\n\n"


COUNTS = ["total", "causes", "not_shown"]
FIELDS = ["version", "file", "checked", "decided", "verified", "judged", *COUNTS, "findings"]
DECIDED = ["meaning", "memory", "workgroup barrier", "target", "races", "hangs"]
VERIFIED = "program file proved by_path undecided suspects shown refuted accesses classes assumptions".split()
JUDGED = "program file configurations runs steps orders possible_orders covered bounded".split()


def test_json_document(command: Command) -> None:
    """The fields that `docs/json.md` promises."""
    status, out, err = command("check", "found.tide", "--json")
    found = json.loads(out)
    assert (status, err) == (1, "")
    assert list(found) == FIELDS
    assert found["version"] == JSON_VERSION == 1
    assert found["file"] == "found.tide"
    assert found["checked"] == ["@shift on gfx942"]
    assert (found["decided"], found["judged"]) == (DECIDED[:4], [])  # the target has no split barriers
    for each in found["findings"]:
        assert list(each) == ["code", "severity", "message", "labels", "notes", "help", "count", "witness"]
        assert each["severity"] == "error"
        for label in each["labels"]:
            assert list(label) == ["file", "line", "column", "end", "text"]
            assert label["file"] == "found.tide"
    places = [(each["labels"][0]["line"], each["labels"][0]["column"], each["code"]) for each in found["findings"]]
    assert places == sorted(places)
    assert len(places) >= 2
    assert command("check", "found.tide", "--json")[1] == out


def test_json_of_a_race_says_in_fields_what_it_says_in_sentences(command: Command) -> None:
    (finding,) = json.loads(command("check", "race.tide", "--json")[1])["findings"]
    witness = finding["witness"]
    assert list(witness) == ["hazard", "why", "bytes", "first", "second", "configuration"]
    assert (witness["hazard"], witness["why"], witness["bytes"]) == ("RAW", "unmet", [256, 512])
    assert (witness["first"]["wave"], witness["first"]["effect"]) == (1, "write")
    assert (witness["second"]["wave"], witness["second"]["effect"]) == (0, "read")
    assert witness["second"]["line"] == finding["labels"][0]["line"]


def test_json_of_a_clean_file(command: Command) -> None:
    status, out, _ = command("check", "good.tide", "--json", "--print-after", "graph")
    found = json.loads(out)
    assert status == 0
    assert found["findings"] == []
    assert found["decided"] == DECIDED
    assert [list(each) for each in found["verified"]] == [VERIFIED]
    assert found["verified"][0]["proved"]
    assert found["judged"] == []  # there was nothing left to decide


def test_json_says_what_was_run(command: Command) -> None:
    status, out, _ = command("check", "race.tide", "--json")
    found = json.loads(out)
    (ran,) = found["judged"]
    assert status == 1
    assert [each["code"] for each in found["findings"]] == ["TG101"]
    assert ran == {
        "program": "@shift on gfx942",
        "file": "race.tide",
        "configurations": 1,
        "runs": 1,
        "steps": ran["steps"],
        "orders": 1,
        "possible_orders": None,
        "covered": ["all orders of the waves"],
        "bounded": [],
    }
    assert ran["steps"] > 8
    (ran,) = json.loads(command("check", "number.tide", "--json")[1])["judged"]
    assert ran["configurations"] > 1
    assert [each for each in ran["bounded"] if "numbers from outside" in each]


def test_json_counts_orders_where_asked(command: Command) -> None:
    (ran,) = json.loads(command("check", "pair.tide", "--json", "--explore")[1])["judged"]
    assert 1 <= ran["orders"] < ran["possible_orders"]
    assert str(ran["orders"]) in ran["covered"][-1]
    assert not json.loads(command("check", "pair.tide", "--json")[1])["judged"]  # it is proved


@pytest.mark.parametrize("stage", ["kernel", "graph"])
def test_json_of_a_check_that_ran_nothing(command: Command, stage: str) -> None:
    status, out, _ = command("check", "race.tide", "--json", "--stop-after", stage)
    found = json.loads(out)
    assert (status, found["judged"], found["findings"]) == (0, [], [])
    assert found["decided"] == DECIDED[:4]


def test_a_seed_changes_nothing_where_nothing_is_bounded(command: Command) -> None:
    assert command("check", "race.tide", "--seed", "1") == command("check", "race.tide", "--seed", "2")
    assert command("check", "race.tide", "--seed", "x")[0] == 2


def test_kernel_and_graph_are_judged_alike(command: Command) -> None:
    """The same codes in the same order; the places are those of the file that was given."""
    findings = [json.loads(command("check", f"race.{each}", "--json")[1])["findings"] for each in ("tide", "sync")]
    assert [[each["code"] for each in found] for found in findings] == [["TG101"], ["TG101"]]
    assert [found[0]["labels"][0]["file"] for found in findings] == ["race.tide", "race.sync"]
    assert [found[0]["labels"][0]["text"] for found in findings] == ["wave 0 reads bytes 256..512 in phase 0"] * 2


@pytest.mark.parametrize("file", ["bad.tide", "empty.tide", "nowhere.tide", "syntax.py", "binary.tide"])
def test_json_of_bad_input(command: Command, file: str) -> None:
    """A tool that asks for JSON gets JSON, however bad the file is."""
    status, out, err = command("check", file, "--json")
    assert (status, err) == (2, "")
    found = json.loads(out)
    assert list(found) == FIELDS
    assert found["findings"]
    assert (found["checked"], found["decided"], found["judged"]) == ([], [], [])


def test_json_of_several_files(command: Command) -> None:
    """One document; `file` is a list only then."""
    status, out, err = command("check", "good.tide", "found.tide", "double.py", "--json")
    found = json.loads(out)
    assert (status, err) == (1, "")
    assert list(found) == FIELDS
    assert found["file"] == ["good.tide", "found.tide", "double.py"]
    assert found["checked"] == ["@shift on gfx942", "@shift on gfx942", "@double on gfx942"]
    assert found["decided"] == DECIDED[:4]  # what every program was checked for
    assert [each["program"] for each in found["verified"]] == ["@shift on gfx942", "@double on gfx942"]
    alone = json.loads(command("check", "found.tide", "--json")[1])
    assert found["findings"] == alone["findings"]
    assert json.loads(command("check", "good.tide", "--json")[1])["file"] == "good.tide"


def test_json_of_several_files_with_a_bad_one(command: Command) -> None:
    status, out, err = command("check", "found.tide", "nowhere.tide", "--json")
    found = json.loads(out)
    assert (status, err) == (2, "")
    assert found["decided"] == []
    assert {each["code"] for each in found["findings"]} > {"TG007"}


def test_run_saves_all_arrays(command: Command) -> None:
    import numpy as np

    printed = command("run", "good.tide")
    assert command("run", "good.tide", "-o", "out.npz") == printed
    with np.load("out.npz") as found:
        assert set(found) == {"X", "Y"}
        assert (np.roll(found["X"], -64) == found["Y"]).all()
        low, mean, high = (f"{number:.4g}" for number in (found["Y"].min(), found["Y"].mean(), found["Y"].max()))
    assert f"  Y: 256 float32, written: min {low}, mean {mean}, max {high}\n" in printed[1]
    assert command("run", "two.tide", "-o", "out.npz")[0] == 0
    with np.load("out.npz") as found:
        assert set(found) == {"shift.X", "shift.Y", "other.X", "other.Y"}


def test_run_writes_a_timeline(command: Command) -> None:
    status, out, _ = command("run", "race.tide", "--trace", "out.json")
    assert status == 1
    assert "  timeline: out.json, for https://ui.perfetto.dev\n" in out
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in found["traceEvents"] if each.get("cat") == "race"] == ["race: %tile"]
    first = Path("out.json").read_bytes()
    command("run", "race.tide", "--trace", "out.json")
    assert Path("out.json").read_bytes() == first
    command("run", "race.tide", "--trace", "out.json", "--seed", "1")
    assert Path("out.json").read_bytes() != first


def test_run_finds_a_race_whatever_the_seed(command: Command) -> None:
    for seed in range(8):
        status, out, _ = command("run", "race.tide", "--seed", str(seed))
        assert status == 1
        assert out.startswith("error[TG101]")


def test_run_saves_nothing_after_a_hang(command: Command) -> None:
    assert command("run", "hang.tide", "-o", "out.npz")[0] == 1
    assert not Path("out.npz").exists()


COMMANDS = ["targets", "show", "sync", "check", "explain", "schedule", "build", "run", "draw", "demo"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples(command: Command, name: str) -> None:
    """Each on its own line, and each can be read: its options exist."""
    status, out, _ = command(name, "--help")
    assert status == 0
    text, _, examples = out.partition("\nExamples:\n")
    lines = examples.splitlines()
    assert lines
    for line in lines:
        words = line.split()
        assert line == "  " + " ".join(words)
        assert words[:2] == ["tidegate", name]
        assert all(re.search(rf"[ ,]{word}[ ,\n]", text) for word in words if word.startswith("-"))
    assert "Examples" not in text
    assert command(name, "-h")[1] == out


def test_help_lists_every_command(command: Command) -> None:
    status, out, _ = command("--help")
    assert status == 0
    assert re.findall(r"^  (\w+) ", out.partition("Commands:")[2], re.MULTILINE) == COMMANDS
    assert "..." not in out.partition("Commands:")[2]


def test_every_seed_gives_its_own_inputs_and_the_same_each_time(command: Command) -> None:
    first = command("run", "wrong.py", "--seed", "1")[1]
    assert command("run", "wrong.py", "--seed", "1")[1] == first
    assert command("run", "wrong.py", "--seed", "2")[1] != first


def test_a_python_file_may_import_its_neighbours(command: Command) -> None:
    Path("neighbour.py").write_text("WIDTH = 64\n")
    Path("uses.py").write_text("from neighbour import WIDTH\n" + PYTHON.replace("(64,)", "(WIDTH,)"))
    path = list(sys.path)
    assert command("check", "uses.py")[0] == 0
    assert sys.path == path


# --- mistakes of Tidegate's own -----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [AssertionError("impossible"), RecursionError("too deep"), KeyError("lost")])
def test_an_internal_error_writes_a_reproducer(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("tidegate.passes.run_stages", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "folder"))
    status, out, err = command("check", "good.tide::shift")
    assert (status, out) == (3, "")
    first, second, third = err.rstrip("\n").split("\n")
    assert first == f"error: Tidegate failed: {type(error).__name__}: {error}"
    place = re.fullmatch(r"This is an internal error. Please report it with (\S+/)?(tidegate-crash-\w{10}.txt)", second)
    assert place is not None
    held = "the command, the versions, the traceback and all of `good.tide`"
    assert third == f"That file holds {held}: look through it before you send it"
    text = (tmp_path / "folder" / place[2]).read_text(encoding="utf-8")
    assert "tidegate check good.tide::shift" in text
    assert "Traceback" in text
    assert GOOD in text


def test_an_error_in_a_trace_that_is_ours_is_not_blamed_on_the_file(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("impossible")

    own = Path(cli.__file__).parent / "language" / "builder.py"
    fail.__code__ = fail.__code__.replace(co_filename=str(own))
    monkeypatch.setattr("tidegate.language.builder.Builder.emit", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "folder"))
    assert command("check", "double.py")[0] == 3


def test_ctrl_c(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegate.passes.run_stages", interrupt)
    assert command("check", "good.tide") in [(130, "", ""), (130, "\n", ""), (130, "", "\n")]


def test_an_unknown_command_or_option(command: Command) -> None:
    for args in (("nothing",), ("check",), ("check", "good.tide", "--nothing"), ("run", "good.tide", "--seed", "x")):
        status, out, err = command(*args)
        assert (status, out) == (2, "")
        assert "Usage: " in err


# --- as a process -------------------------------------------------------------------------------------------------


def process(folder: Path, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    code = "import sys; from tidegate.cli import main; sys.argv[0] = 'tidegate'; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *args], cwd=folder, capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize(
    ("args", "status"),
    [("check good.tide", 0), ("check found.tide", 1), ("check bad.tide", 2), ("run double.py", 0), ("nothing", 2)],
)
def test_exit_status_of_a_process(folder: Path, args: str, status: int) -> None:
    done = process(folder, *args.split())
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    code = "import sys; from tidegate.cli import main; sys.argv[0] = 'tidegate'; main()"
    script = f'"{sys.executable}" -c "{code}" show good.tide --print-after graph | head -c 1'
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.slow
def test_output_does_not_depend_on_hashes(folder: Path) -> None:
    import os

    shown = {
        process(folder, "check", "found.tide", "--json", env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("0", "1", "2")
    }
    assert len(shown) == 1


def test_what_a_python_file_prints_does_not_spoil_the_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And places in it are named as the user named the file."""
    (tmp_path / "loud.py").write_text(
        "import tidegate as tg\n"
        "print('hello')\n"
        "@tg.kernel(waves=4)\n"
        "def k(X: tg.Global[64, tg.f32]):\n"
        "    tg.global_write(tg.fill((16,), tg.f32), X, (tg.wave() * 17,))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "check", "loud.py", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], finding["labels"][0]["file"], done.stderr) == ("TG302", "loud.py", "hello\n")


def test_an_argument_without_meaning_is_shown_where_it_is_defined(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("import tidegate as tg\n@tg.kernel\ndef k(n):\n    pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "check", "bare.py"], capture_output=True, text=True, cwd=tmp_path
    )
    assert " --> bare.py:2:1" in done.stderr


def test_a_reference_that_names_no_argument_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(
        "import tidegate as tg\n@tg.kernel\ndef k(X: tg.Global[4, tg.f32]):\n    tg.workgroup_barrier()\n"
        "def reference(inputs, sizes):\n    return {'Z': inputs['X']}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "run", "other.py"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, "`reference` returns `Z`, which is not an argument" in done.stderr) == (2, True)


# --- the page of commands -----------------------------------------------------------------------------------------


def options_of(command: Any) -> set[str]:
    """All spellings of the options of a command, but for its help, which every command has."""
    found = {name for each in command.params if each.param_type_name == "option" for name in each.opts}
    return found - {"-h", "--help"}


def documented(section: str) -> set[str]:
    """What tables name in their first column, if it looks like an option."""
    cells = re.findall(r"(?m)^\| (`-(?:[^|\\]|\\.)*) \|", section)
    return {name for cell in cells for name in re.findall(r"`(--?[a-zA-Z][a-z-]*)", cell)} - {"-h", "--help"}


def test_the_page_has_every_option_of_every_command_and_no_other() -> None:
    import typer.main

    head, *sections = re.split(r"(?m)^## ", (ROOT / "docs/command-line.md").read_text(encoding="utf-8"))
    by_name = {each.partition("\n")[0].removeprefix("tidegate "): each for each in sections}
    group: Any = typer.main.get_command(cli.app)
    commands = {name: each for name, each in by_name.items() if each.startswith("tidegate ")}
    assert set(commands) == set(group.commands) == set(COMMANDS)
    assert documented(head) == options_of(group)
    for name, command in group.commands.items():
        assert documented(commands[name]) == options_of(command), name
        for spelled in re.findall(rf"\$ tidegate {name}\b([^\n]*)", commands[name]):
            assert set(re.findall(r"(?<= )--?[a-zA-Z][a-z-]*", spelled)) <= options_of(command), spelled


def test_the_page_has_every_exit_status(tmp_path: Path) -> None:
    table = (ROOT / "docs/command-line.md").read_text(encoding="utf-8").partition("| exit status |")[2]
    statuses = re.findall(r"(?m)^\| (\d+) \|", table.partition("\n\n")[0])
    assert statuses == ["0", "1", "2", "3", "130", "141"]
