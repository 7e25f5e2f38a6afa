"""`tidegate check --sarif`: valid by the schema of SARIF 2.1.0, and what code scanning asks for beyond it.

The logs of broken kernels and of bad input stand in `tests/golden/sarif`; `pytest --update` rewrites
them. `tests/data/README.md` says where the schema comes from.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from tests.cli.test_cli import FILES, Command, graph_of, process
from tests.conftest import ROOT
from tidegate import __version__
from tidegate.cli.sarif import FINGERPRINT, GROUPS, Reported, sarif_log
from tidegate.codes import CODES
from tidegate.diag import Finding, Label, Sources, Span

Json = dict[str, Any]

GOLDEN = ROOT / "tests" / "golden" / "sarif"
SCHEMA = json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
BROKEN = sorted((ROOT / "examples" / "broken").glob("*.tide"))

CASES = {
    "race": "missing_barrier.tide",
    "hang": "named_cycle.tide",
    "bad-input": "bad.tide no_named_barrier.tide nowhere.tide",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The broken kernels, and small files."""
    for path in BROKEN:
        shutil.copy(path, tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "race.sync").write_text(graph_of(FILES["race.tide"]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Checking:
    """Runs `check --sarif`, and accepts the log only if it is valid, says the exit status, and has no loose ends."""

    def __init__(self, command: Command) -> None:
        self.command = command

    def __call__(self, *args: str) -> tuple[int, Json]:
        status, out, err = self.command("check", *args, "--sarif")
        assert err == ""
        log = json.loads(out)
        VALIDATOR.validate(log)
        (run,) = log["runs"]
        (invocation,) = run["invocations"]
        assert (invocation["exitCode"], invocation["executionSuccessful"]) == (status, status < 2)
        check_run(run)
        return status, run

    def one(self, *args: str) -> Json:
        """The only result."""
        (result,) = self(*args)[1]["results"]
        return result


@pytest.fixture
def sarif(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Checking:
    return Checking(Command(folder, monkeypatch, capsys))


def check_run(run: Json) -> None:
    """What GitHub's page on SARIF support asks for, and that every reference leads somewhere."""
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("Tidegate", __version__)
    for rule in [*driver["rules"], *driver.get("notifications", [])]:
        assert all(rule[each]["text"] for each in ("shortDescription", "fullDescription", "help"))
        assert (ROOT / re.findall(r"docs/codes/\w+\.md", rule["help"]["text"])[0]).exists()
    assert [rule["id"] for rule in driver["rules"]] == sorted({each["ruleId"] for each in run["results"]})
    for result in run["results"]:
        rule = driver["rules"][result["ruleIndex"]]
        assert (rule["id"], rule["defaultConfiguration"]["level"]) == (result["ruleId"], result["level"])
        (place,) = result["locations"]
        related = result.get("relatedLocations", [])
        for each in (place, *related):
            check_place(each["physicalLocation"])
        links = re.findall(r"(?<!\\)\]\((\d+)\)", result["message"]["text"])
        assert links == [str(each["id"]) for each in related]
        assert re.fullmatch(r"[0-9a-f]{32}:\d+", result["partialFingerprints"][FINGERPRINT])
    prints = [(uri_of(each), each["partialFingerprints"][FINGERPRINT]) for each in run["results"]]
    assert len(set(prints)) == len(prints)


def check_place(place: Json) -> None:
    """A file below this folder, and a stretch of one of its lines."""
    where = place["artifactLocation"]
    assert where["uriBaseId"] == "%SRCROOT%"
    assert not re.search(r"^/|^[a-z]+:|\\|(^|/)\.\.?(/|$)", where["uri"])
    lines = Path(unquote(where["uri"])).read_text(encoding="utf-8").split("\n")
    if region := place.get("region"):
        line = lines[region["startLine"] - 1]
        assert 1 <= region["startColumn"] <= region["endColumn"] <= len(line) + 1
        words = line[region["startColumn"] - 1 : region["endColumn"] - 1]
        assert words.strip() or region["startColumn"] == len(line) + 1


def uri_of(result: Json) -> str:
    return str(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def print_of(result: Json) -> str:
    return str(result["partialFingerprints"][FINGERPRINT])


# --- golden -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_log(name: str, sarif: Checking, update: bool) -> None:
    sarif(*CASES[name].split())
    _, out, _ = sarif.command("check", *CASES[name].split(), "--sarif")
    place = GOLDEN / f"{name}.json"
    if update:
        place.parent.mkdir(exist_ok=True)
        place.write_text(out, encoding="utf-8")
    assert out == place.read_text(encoding="utf-8"), "run `pytest --update` and review the diff"


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*")} == set(CASES)


# --- the schema ---------------------------------------------------------------------------------------------------


def test_the_schema_is_that_of_sarif() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["title"] == "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"


def result_of(log: Json) -> Json:
    found: Json = log["runs"][0]["results"][0]
    return found


def region_of(log: Json) -> Json:
    found: Json = result_of(log)["locations"][0]["physicalLocation"]["region"]
    return found


DAMAGE: dict[str, Callable[[Json], object]] = {
    "no runs": lambda log: log.pop("runs"),
    "another version": lambda log: log.update(version="2.0.0"),
    "an unknown property": lambda log: log["runs"][0].update(findings=[]),
    "no tool": lambda log: log["runs"][0].pop("tool"),
    "no name": lambda log: log["runs"][0]["tool"]["driver"].pop("name"),
    "a rule without an id": lambda log: log["runs"][0]["tool"]["driver"]["rules"][0].pop("id"),
    "a rule twice": lambda log: log["runs"][0]["tool"]["driver"].update(
        rules=log["runs"][0]["tool"]["driver"]["rules"] * 2
    ),
    "a help address that is none": lambda log: log["runs"][0]["tool"]["driver"]["rules"][0].update(helpUri=3),
    "no word on success": lambda log: log["runs"][0]["invocations"][0].pop("executionSuccessful"),
    "an exit code in words": lambda log: log["runs"][0]["invocations"][0].update(exitCode="one"),
    "results as an object": lambda log: log["runs"][0].update(results={}),
    "no message": lambda log: result_of(log).pop("message"),
    "a message without text": lambda log: result_of(log).update(message={}),
    "an unknown level": lambda log: result_of(log).update(level="fatal"),
    "a negative rule": lambda log: result_of(log).update(ruleIndex=-2),
    "a fingerprint that is no text": lambda log: result_of(log)["partialFingerprints"].update(x=1),
    "a related place twice": lambda log: result_of(log).update(relatedLocations=result_of(log)["relatedLocations"] * 2),
    "line 0": lambda log: region_of(log).update(startLine=0),
    "column 0": lambda log: region_of(log).update(startColumn=0),
    "columns of another kind": lambda log: log["runs"][0].update(columnKind="bytes"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_schema_rejects_a_damaged_log(damage: str) -> None:
    """So that the schema is known to be asked."""
    log = json.loads((GOLDEN / "race.json").read_text(encoding="utf-8"))
    assert VALIDATOR.is_valid(log)
    damaged = copy.deepcopy(log)
    DAMAGE[damage](damaged)
    assert not VALIDATOR.is_valid(damaged)


def test_a_loose_end_is_seen(folder: Path) -> None:
    """What the schema does not see, `check_run` does."""
    run = json.loads((GOLDEN / "race.json").read_text(encoding="utf-8"))["runs"][0]
    check_run(run)
    for damage in (
        lambda run: run["results"][0].update(ruleId="TG102"),
        lambda run: run["results"][0].update(level="warning"),
        lambda run: run["results"][0].pop("relatedLocations"),
        lambda run: run["results"].append(run["results"][0]),
        lambda run: run["tool"]["driver"]["rules"][0].pop("help"),
        lambda run: region_of({"runs": [run]}).update(endColumn=1000),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"].update(uri="/etc/hosts"),
    ):
        damaged = copy.deepcopy(run)
        damage(damaged)
        with pytest.raises((AssertionError, KeyError)):
            check_run(damaged)


# --- what is said -------------------------------------------------------------------------------------------------


def test_every_broken_kernel_in_one_log(sarif: Checking) -> None:
    """One result for each finding of the JSON document, with its place and all of its words."""
    names = [path.name for path in BROKEN]
    status, run = sarif(*names)
    findings = json.loads(sarif.command("check", *names, "--json")[1])["findings"]
    assert status == 1
    assert len(run["results"]) == len(findings) >= len(BROKEN)
    key = [(uri_of(each), each["ruleId"], each["message"]["text"]) for each in run["results"]]
    for finding in findings:
        first = finding["labels"][0]
        texts = [finding["message"], *finding["notes"], finding["help"], *(each["text"] for each in finding["labels"])]
        assert any(
            (uri, code) == (first["file"], finding["code"]) and all(text in message for text in texts)
            for uri, code, message in key
        ), finding
    assert [each["properties"]["witness"] for each in run["results"] if "properties" in each] == [
        each["witness"] for each in findings if each["witness"]
    ]


def test_a_race_has_both_places_the_kernel_and_the_witness(sarif: Checking) -> None:
    result = sarif.one("race.tide")
    assert (result["ruleId"], result["level"], uri_of(result)) == ("TG101", "error", "race.tide")
    assert result["locations"][0]["logicalLocations"] == [{"name": "shift", "kind": "function"}]
    lines = FILES["race.tide"].split("\n")
    places = [result["locations"][0], *result["relatedLocations"]]
    words = []
    for each in places:
        region = each["physicalLocation"]["region"]
        words.append(lines[region["startLine"] - 1][region["startColumn"] - 1 : region["endColumn"] - 1])
    assert words == ["%b = local_read %tile[(wave + 1) mod 4] : tile<64xf32>", "local_write %a, %tile[wave]"]
    assert result["properties"]["witness"]["hazard"] == "RAW"


def test_a_clean_file(sarif: Checking) -> None:
    status, run = sarif("good.tide", "--print-after", "graph")
    assert (status, run["results"], run["tool"]["driver"]["rules"]) == (0, [], [])
    assert run["properties"]["checked"] == ["@shift on gfx942"]
    assert run["properties"]["verified"][0]["proved"]


@pytest.mark.parametrize("file", ["race.tide", "race.py", "race.sync"])
def test_every_kind_of_file(sarif: Checking, file: str) -> None:
    result = sarif.one(file)
    assert (result["ruleId"], uri_of(result)) == ("TG101", file)
    assert result["locations"][0]["logicalLocations"][0]["name"] == "shift"
    assert len(result["relatedLocations"]) == 1


def test_several_kernels_of_a_file(sarif: Checking) -> None:
    Path("both.tide").write_text(FILES["two.tide"].replace("  shared_memory_barrier\n", ""))
    _, run = sarif("both.tide")
    names = [each["locations"][0]["logicalLocations"][0]["name"] for each in run["results"]]
    assert names == ["shift", "other"]
    assert len({print_of(each) for each in run["results"]}) == 2
    assert sarif.one("both.tide::other") == {**run["results"][1]}


def test_a_finding_without_a_place_is_about_the_file(sarif: Checking) -> None:
    """The memory of a graph: no line says how much it is."""
    text = (
        Path("race.sync")
        .read_text()
        .replace("buffer %tile bytes 1024 slots 1 at 0", "buffer %tile bytes 99999999 slots 1")
    )
    Path("large.sync").write_text(text)
    _, run = sarif("large.sync", "--stop-after", "graph")
    (result,) = [each for each in run["results"] if each["ruleId"] == "TG303"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "large.sync", "uriBaseId": "%SRCROOT%"}
    }


def test_advice_is_a_warning() -> None:
    log = sarif_log([Reported(Finding("TG403", "not known exactly"), "a.tide")], Sources(), status=0)
    VALIDATOR.validate(log)
    assert result_of(log)["level"] == "warning"


def test_every_code_makes_a_rule() -> None:
    at = Label(Span("a.tide", 1, 1, 2))
    log = sarif_log([Reported(Finding(code, "x", (at,)), "a.tide") for code in CODES], Sources(), status=2)
    VALIDATOR.validate(log)
    assert [each["id"] for each in log["runs"][0]["tool"]["driver"]["rules"]] == sorted(CODES)
    assert {code[:3] for code in CODES} == set(GROUPS)


# --- bad input ----------------------------------------------------------------------------------------------------


def test_text_without_meaning_gives_results(sarif: Checking) -> None:
    status, run = sarif("bad.tide")
    assert status == 2
    assert {each["ruleId"] for each in run["results"]} == {"TG003"}
    assert run["properties"]["decided"] == []


@pytest.mark.parametrize("file", ["nowhere.tide", "notes.txt", "none.py", "two.tide::shfit"])
def test_a_file_without_programs_gives_a_notification(sarif: Checking, file: str) -> None:
    status, run = sarif(file)
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert (status, run["results"]) == (2, [])
    assert told["descriptor"] == {"id": "TG007", "index": 0}
    assert told["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == file.partition("::")[0]


@pytest.mark.parametrize("file", sorted(FILES))
def test_every_file_gives_a_log_and_the_usual_status(sarif: Checking, file: str) -> None:
    """However bad the file is."""
    assert sarif(file)[0] == sarif.command("check", file)[0]


def test_a_bad_file_does_not_hide_the_others(sarif: Checking) -> None:
    status, run = sarif("nowhere.tide", "race.tide")
    assert (status, [each["ruleId"] for each in run["results"]]) == (2, ["TG101"])


@pytest.mark.parametrize("args", ["--stop-after grahp", "--size K", "--size K=3"])
def test_an_option_that_cannot_be_carried_out_gives_a_notification(sarif: Checking, args: str) -> None:
    status, run = sarif("race.tide", *args.split())
    (told,) = run["invocations"][0]["toolConfigurationNotifications"]
    assert (status, run["results"], run["properties"]["decided"]) == (2, [], [])
    assert told["message"]["text"]


def test_not_with_json(sarif: Checking) -> None:
    status, out, err = sarif.command("check", "race.tide", "--json", "--sarif")
    assert (status, out) == (2, "")
    assert "`--json` and `--sarif`" in err


# --- texts and addresses ------------------------------------------------------------------------------------------


def test_no_text_becomes_a_placeholder_or_a_link() -> None:
    """Braces are doubled and what looks like a link is not one: SARIF 2.1.0, 3.11.5 and 3.11.6."""
    labels = (Label(Span("a.tide", 3, 1, 2), "x[0](1)"), Label(Span("b[1].tide", 4, 1, 2)))
    log = sarif_log([Reported(Finding("TG001", "expected `{`", labels, ("{0}",)), "a.tide")], Sources(), status=2)
    VALIDATOR.validate(log)
    lines = result_of(log)["message"]["text"].split("\n")
    assert lines == ["expected `{{`.", r"line 3: x[0\](1).", r"[b\[1\].tide, line 4](1).", "{{0}}."]


def test_addresses_are_relative_and_encoded(sarif: Checking) -> None:
    Path("my kernels").mkdir()
    shutil.copy("race.tide", "my kernels/größe: 1%.tide")
    wanted = "my%20kernels/gr%C3%B6%C3%9Fe%3A%201%25.tide"
    for given in ("my kernels/größe: 1%.tide", "my kernels/../my kernels/./größe: 1%.tide"):
        assert uri_of(sarif.one(given)) == wanted
    assert uri_of(sarif.one(os.path.abspath("my kernels/größe: 1%.tide"))) == wanted


def test_a_file_elsewhere_has_an_absolute_address(sarif: Checking, folder: Path, monkeypatch: Any) -> None:
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    _, out, _ = Command(Path("nowhere"), monkeypatch, sarif.command.capsys)("check", "../race.tide", "--sarif")
    log = json.loads(out)
    VALIDATOR.validate(log)
    place = result_of(log)["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": (folder / "race.tide").resolve().as_uri()}


def test_columns_count_characters(sarif: Checking) -> None:
    text = FILES["race.tide"].replace("  local_write", "  # größer 𝔸\n  local_write")
    Path("wide.tide").write_text(text, encoding="utf-8")
    assert sarif.one("wide.tide")["ruleId"] == "TG101"
    assert sarif("wide.tide")[1]["columnKind"] == "unicodeCodePoints"


# --- fingerprints -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["race.tide", "race.py"])
def test_a_fingerprint_stays_when_lines_move(sarif: Checking, file: str) -> None:
    before = sarif.one(file)
    Path(file).write_text("# one\n\n# two\n" + Path(file).read_text())
    after = sarif.one(file)
    assert print_of(after) == print_of(before)
    moved = [each["locations"][0]["physicalLocation"]["region"]["startLine"] for each in (before, after)]
    assert moved[1] == moved[0] + 3


def test_a_fingerprint_stays_when_other_text_changes(sarif: Checking) -> None:
    before = sarif.one("race.tide")
    text = Path("race.tide").read_text().replace("  local_write %a", "    local_write   %a")
    Path("race.tide").write_text(text.replace("  %a =", "  %c = fill 1 : tile<64xf32>  # more\n  %a ="))
    assert print_of(sarif.one("race.tide")) == print_of(before)


def test_a_fingerprint_stays_when_points_move(sarif: Checking) -> None:
    """In a graph the lines are full of numbers of other points."""
    before = sarif.one("race.sync")
    more = FILES["race.tide"].replace("  local_write", "  %c = fill 1 : tile<64xf32>\n  local_write")
    Path("race.sync").write_text(graph_of(more))
    assert print_of(sarif.one("race.sync")) == print_of(before)


def test_a_fingerprint_knows_code_program_and_both_operations(sarif: Checking) -> None:
    text = FILES["race.tide"]
    texts = [
        text,
        text.replace("@shift", "@other"),
        text.replace("(wave + 1) mod 4", "(wave + 2) mod 4"),
        text.replace("%a", "%row"),
    ]
    prints = []
    for each in texts:
        Path("one.tide").write_text(each)
        prints.append(print_of(sarif.one("one.tide")))
    assert len(set(prints)) == len(texts)


def test_the_same_mistake_twice_is_two_results(sarif: Checking) -> None:
    """Neither text nor program tells them apart, so they are counted, in each file anew."""
    write = "  local_write %a, %tile[wave + 1]\n"
    text = FILES["good.tide"].replace("  local_write %a, %tile[wave]\n", write + "  shared_memory_barrier\n" + write)
    Path("twice.tide").write_text(text)
    Path("again.tide").write_text(text)
    _, run = sarif("twice.tide", "again.tide")
    found = [print_of(each) for each in run["results"] if each["ruleId"] == "TG301"]
    assert [each[-2:] for each in found] == [":1", ":2"] * 2
    assert len({each[:-2] for each in found}) == 1


def test_the_log_does_not_depend_on_hashes(folder: Path) -> None:
    args = ("check", "found.tide", "race.tide", "hang.tide", "--sarif")
    shown = {process(folder, *args, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("0", "1")}
    assert len(shown) == 1
    assert len(json.loads(shown.pop())["runs"][0]["results"]) >= 3
