"""The kernels of `examples/broken`: one mistake each, with the code that must be reported, and a fixed twin.

A header is `# <what is wrong>`, then one line `# finding: <code> at `<operation>` [against `<operation>`]`, then
`# fix: ...`. `check` must report that code at that operation, of the kernel and of its graph alone, and nothing in the
twins. What it finds by the shape of the program is found without running; races and hangs are found by running.
"""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tidegate.codes import CODES
from tidegate.diag import Finding
from tidegate.graph.build import build_graph
from tidegate.graph.model import SyncGraph
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.passes import run_stages
from tidegate.session import Session
from tidegate.targets import load_target

FOLDER = ROOT / "examples" / "broken"
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


def operations_of(text: str) -> list[str]:
    """Where it must be reported, and against what, if the header says so."""
    return re.findall(r"`([^`]+)`", text.splitlines()[1])


CODE_OF = {name: code_of(text_of(name)) for name in NAMES}
RUNNING = [name for name in NAMES if CODE_OF[name].startswith("TG1") or CODE_OF[name] == "TG221"]
STATIC = [name for name in NAMES if name not in RUNNING]
HANGS = [name for name in NAMES if CODE_OF[name] == "TG221"]


def findings(kernel: Kernel) -> list[Finding]:
    """What is found without running."""
    from tidegate.language.check import check

    return check(kernel, load_target(kernel.target))


def judged(kernel: Kernel | None, graph: SyncGraph | None = None) -> list[Finding]:
    """All that `check` finds in a kernel, or in a graph alone."""
    program = kernel or graph
    assert program is not None
    unit = Session(program.name, load_target(program.target), kernel, graph)
    return run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None).findings


def graph_of(kernel: Kernel) -> SyncGraph:
    """The graph of a kernel as a `.sync` file has it: its text, without places in the kernel."""
    return parse_graph(show_graph(build_graph(kernel, load_target(kernel.target)).graph))


def follows_from(code: str, other: str) -> bool:
    """Whether a finding may stand beside that of the cause: barriers that are not met leave accesses without order.

    Where lanes disagree on a barrier, waves arrive at it differently often.
    """
    return other == code or other.startswith("TG1") or (code, other) == ("TG201", "TG202")


def run_in_order(kernel: Kernel) -> None:
    from tidegate.simulate.inorder import make_inputs, run

    run(kernel, make_inputs(kernel, None, 0), lanes=load_target(kernel.target).lanes)


def test_there_are_many_and_each_has_a_twin() -> None:
    assert len(NAMES) >= 32
    assert NAMES == TWINS


def test_every_race_and_every_hang_of_the_workgroup_has_an_example() -> None:
    shown = {code_of(text_of(name)) for name in NAMES}
    only_in_graphs, no_mistake = {"TG211", "TG109"}, {"TG106"}  # TG109 may be allowed: its page has the example
    assert {code for code in CODES if code.startswith(("TG1", "TG2"))} - only_in_graphs - no_mistake <= shown


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
def test_its_shape_shows_this_code_alone_at_this_operation(name: str) -> None:
    found = findings(kernel_of(name))
    assert {each.code for each in found} == {CODE_OF[name]}
    lines = text_of(name).splitlines()
    assert any(operations_of(text_of(name))[0] in lines[each.at.line - 1] for each in found)


@pytest.mark.parametrize("name", RUNNING)
def test_its_shape_shows_neither_a_race_nor_a_hang(name: str) -> None:
    assert findings(kernel_of(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_check_reports_this_code_at_this_operation(name: str) -> None:
    """And nothing but what follows from it. Both places of a race are those that the header names."""
    text = text_of(name)
    found = judged(kernel_of(name))
    assert all(follows_from(CODE_OF[name], each.code) for each in found), found
    lines = [[text.splitlines()[label.at.line - 1] for label in each.labels] for each in found]
    at, *against = operations_of(text)
    assert any(
        each.code == CODE_OF[name]
        and at in places[0]
        and (not CODE_OF[name].startswith("TG1") or all(other in places[1] for other in against))
        for each, places in zip(found, lines, strict=True)
    ), found


@pytest.mark.parametrize("name", NAMES)
def test_check_reports_this_code_in_the_graph(name: str) -> None:
    found = {each.code for each in judged(None, graph_of(kernel_of(name)))}
    assert CODE_OF[name] in found
    assert all(follows_from(CODE_OF[name], each) for each in found), found


@pytest.mark.parametrize("name", NAMES)
def test_check_finds_nothing_in_the_twin(name: str) -> None:
    kernel = kernel_of(name, fixed=True)
    assert judged(kernel) == []
    assert judged(None, graph_of(kernel)) == []


@pytest.mark.parametrize("name", NAMES)
def test_twin_runs(name: str) -> None:
    run_in_order(kernel_of(name, fixed=True))


@pytest.mark.parametrize("name", HANGS)
def test_hang_shows_in_order_too(name: str) -> None:
    from tidegate.simulate.inorder import SimulationError

    with pytest.raises(SimulationError) as raised:
        run_in_order(kernel_of(name))
    assert raised.value.finding.code == "TG221"
