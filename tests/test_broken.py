"""The kernels of `examples/broken`: one mistake each, with the code that must be reported, and a fixed twin.

A header is `# <what is wrong>`, then one line `# finding: <code> at `<operation>``, then `# fix: ...`. What can be seen
without running is asked of `check`; hangs of barrier objects are asked of the in-order machine.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.codes import CODES
from tidegate.diag import Finding
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.language.show import show

FOLDER = Path(__file__).parent.parent / "examples" / "broken"
NAMES = sorted(path.stem for path in FOLDER.glob("*.tide"))
TWINS = sorted(path.stem for path in (FOLDER / "fixed").glob("*.tide"))


def text_of(name: str, *, fixed: bool = False) -> str:
    return (FOLDER / "fixed" / f"{name}.tide" if fixed else FOLDER / f"{name}.tide").read_text(encoding="utf-8")


def kernel_of(name: str, *, fixed: bool = False) -> Kernel:
    (kernel,) = parse(text_of(name, fixed=fixed), f"{name}.tide").kernels
    return kernel


def code_of(text: str) -> str:
    (code,) = re.findall(r"^# finding: (TG\d{3}) at `", text, re.MULTILINE)
    return code


def program_of(text: str) -> str:
    """The text without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


RACES = [name for name in NAMES if code_of(text_of(name)).startswith("TG1")]
HANGS = [name for name in NAMES if code_of(text_of(name)) == "TG221"]
STATIC = [name for name in NAMES if name not in {*RACES, *HANGS}]


def findings(kernel: Kernel) -> list[Finding]:
    from tidegate.language.check import check
    from tidegate.targets import load_target

    return check(kernel, load_target(kernel.target))


def run_in_order(kernel: Kernel) -> None:
    from tidegate.simulate.inorder import make_inputs, run
    from tidegate.targets import load_target

    run(kernel, make_inputs(kernel, None, 0), lanes=load_target(kernel.target).lanes)


def test_there_are_many_and_each_has_a_twin() -> None:
    assert len(NAMES) >= 32
    assert NAMES == TWINS


def test_every_race_and_every_hang_of_the_workgroup_has_an_example() -> None:
    shown = {code_of(text_of(name)) for name in NAMES}
    assert {code for code in CODES if code.startswith(("TG1", "TG2"))} <= shown


def test_the_table_names_each_file_with_its_code() -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\((\w+)\.tide\) \| .* \| (TG\d{3}) \|", (FOLDER / "README.md").read_text(), re.M)
    assert sorted((name, link, code) for name, link, code in rows) == [
        (name, name, code_of(text_of(name))) for name in NAMES
    ]


@pytest.mark.parametrize("name", NAMES)
def test_header_says_what_is_wrong_where_and_how_to_repair_it(name: str) -> None:
    text = text_of(name)
    first, second, third, fourth = text.splitlines()[:4]
    assert re.fullmatch(r"# [A-Z].*\.", first)
    assert second.startswith("# finding: ")
    assert third.startswith("# fix: ")
    assert fourth.startswith("# why: ")
    assert text.count("# finding:") == 1
    assert code_of(text) in CODES
    operations = re.findall(r"`([^`]+)`", second)
    assert 1 <= len(operations) <= 2
    for operation in operations:
        assert operation in program_of(text)


@pytest.mark.parametrize("fixed", [False, True], ids=["broken", "fixed"])
@pytest.mark.parametrize("name", NAMES)
def test_text_round_trips(name: str, fixed: bool) -> None:
    module = parse(text_of(name, fixed=fixed), f"{name}.tide")
    assert parse(show(module)) == module
    (kernel,) = module.kernels
    assert kernel.name == name
    assert kernel.target


@pytest.mark.parametrize("name", NAMES)
def test_twin_differs_and_names_no_finding(name: str) -> None:
    assert kernel_of(name) != kernel_of(name, fixed=True)
    assert kernel_of(name).target == kernel_of(name, fixed=True).target
    assert "# finding:" not in text_of(name, fixed=True)


@pytest.mark.parametrize("name", STATIC)
def test_check_reports_this_code_alone_at_this_operation(name: str) -> None:
    text = text_of(name)
    found = findings(kernel_of(name))
    assert {each.code for each in found} == {code_of(text)}
    operation = re.findall(r"`([^`]+)`", text.splitlines()[1])[0]
    lines = text.splitlines()
    assert any(operation in lines[each.at.line - 1] for each in found)


@pytest.mark.parametrize("name", [*RACES, *HANGS])
def test_check_finds_nothing_in_races_and_hangs_of_objects(name: str) -> None:
    assert findings(kernel_of(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_check_finds_nothing_in_the_twin(name: str) -> None:
    assert findings(kernel_of(name, fixed=True)) == []


@pytest.mark.parametrize("name", NAMES)
def test_twin_runs(name: str) -> None:
    run_in_order(kernel_of(name, fixed=True))


@pytest.mark.parametrize("name", HANGS)
def test_hang_shows_when_it_runs(name: str) -> None:
    from tidegate.simulate.inorder import SimulationError

    with pytest.raises(SimulationError) as raised:
        run_in_order(kernel_of(name))
    assert raised.value.finding.code == "TG221"
