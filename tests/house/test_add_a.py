"""The pages that say how to add a target, a pass and a front end, followed to the letter.

Each takes the blocks of its page as they stand, does what the page says in a copy of the package or through the public
API, and asserts what comes of it. So a page that no longer leads there fails.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tidegate as tg
from tests.conftest import ROOT
from tests.house.test_docs import Block, blocks_of, page
from tests.house.test_layers import ORDER, imports_of
from tidegate.passes import CHECK, check_stage
from tidegate.targets import is_unchecked, known_targets, load_target

PASS, TARGET, FRONT_END = (f"docs/add-a-{what}.md" for what in ("pass", "target", "front-end"))


def block(name: str, title: str) -> Block:
    (found,) = (each for each in blocks_of(page(name)) if each.title == title)
    return found


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A module of Python that sees the package in `folder/src`, and only that one."""
    env = os.environ | {"PYTHONPATH": str(folder / "src"), "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    args = (sys.executable, "-m", *args)
    return subprocess.run(args, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", check=False)


def copy_package(folder: Path) -> Path:
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "src" / "tidegate"


# --- a pass -------------------------------------------------------------------------------------------------------


def apply_diff(text: str, folder: Path) -> None:
    """A diff without line numbers: each part must fit in one place of its file."""
    head, *parts = re.split(r"(?m)^@@\n", text + "\n")
    (name,) = re.findall(r"(?m)^\+\+\+ b/(.*)$", head)
    file = folder / name
    source = file.read_text(encoding="utf-8")
    for part in parts:
        lines = part.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
        assert source.count(old) == 1, f"{name} has not one place for\n{part}"
        source = source.replace(old, new)
    file.write_text(source, encoding="utf-8")


@pytest.fixture(scope="module")
def with_pass(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with what the page adds to it."""
    folder = tmp_path_factory.mktemp("pass")
    package = copy_package(folder)
    (package / "graph" / "doubled.py").write_text(block(PASS, "doubled.py").text + "\n", encoding="utf-8")
    for each in blocks_of(page(PASS)):
        if each.language == "diff":
            apply_diff(each.text, folder)
    for title in ("twice.tide", "test_doubled.py"):
        (folder / title).write_text(block(PASS, title).text + "\n", encoding="utf-8")
    return folder


def test_the_pass_prints_what_the_page_says(with_pass: Path) -> None:
    command, _, shown = block(PASS, "with the pass").text.partition("\n")
    ran = run(with_pass, *command.removeprefix("$ ").split())
    assert ran.stdout.rstrip("\n") == shown
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_pass_can_be_stopped_after(with_pass: Path) -> None:
    ran = run(with_pass, "tidegate", "check", "twice.tide", "--stop-after", "doubled")
    assert "warning[TG408]" in ran.stdout
    assert "not judged: stopped after `doubled`" in ran.stdout


def test_without_the_pass_nobody_knows_the_stage() -> None:
    """So that what the page adds is what makes the difference."""
    with pytest.raises(tg.BadInput, match="there is no stage `doubled`"):
        check_stage("doubled", CHECK)
    assert not [each for each in tg.check(tg.parse(block(PASS, "twice.tide").text).kernels[0]) if "408" in each.code]


def test_the_tests_of_the_pass_pass(with_pass: Path) -> None:
    ran = run(with_pass, "pytest", "-q", "-p", "no:cacheprovider", "test_doubled.py")
    assert ran.returncode == 0, ran.stdout
    assert "5 passed" in ran.stdout


def test_the_tests_of_the_pass_can_fail(with_pass: Path, tmp_path: Path) -> None:
    """With the rule about pinned barriers taken out, its twin objects."""
    shutil.copytree(with_pass, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "src" / "tidegate" / "graph" / "doubled.py"
    source = file.read_text(encoding="utf-8")
    assert source.count(" and not op.pinned") == 1
    file.write_text(source.replace(" and not op.pinned", ""), encoding="utf-8")
    ran = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "test_doubled.py")
    assert "1 failed, 4 passed" in ran.stdout


def test_the_pass_keeps_the_order_of_layers_and_opens_with_its_contract(with_pass: Path) -> None:
    file = with_pass / "src" / "tidegate" / "graph" / "doubled.py"
    left = ORDER[: ORDER.index("graph") + 1]
    assert {name.split(".")[1] for _, name in imports_of(file) if name.startswith("tidegate.")} <= set(left)
    text = file.read_text(encoding="utf-8")
    assert re.match(r'""".+\.\n\nNeeds   .+\nGives   .+\nKeeps   (?s:.+)\nCost    ', text)


def test_the_files_of_the_page_about_passes_exist() -> None:
    rows = re.findall(r"(?m)^\| (`.*?) \|", page(PASS).partition("## The pass")[0])
    named = [name for row in rows for name in re.findall(r"`([\w./-]+)`", row)]
    new = {"src/tidegate/STAGE/PASS.py", "tests/STAGE/test_PASS.py", "docs/codes/CODE.md"}
    assert len(named) >= 10
    assert {name for name in named if not (ROOT / name).exists()} == new


# --- a target -----------------------------------------------------------------------------------------------------


@pytest.fixture
def my_gpu(tmp_path: Path) -> Path:
    path = tmp_path / "my_gpu.toml"
    path.write_text(block(TARGET, "my_gpu.toml").text + "\n", encoding="utf-8")
    return path


def test_the_target_of_the_page_loads_with_its_sources(my_gpu: Path) -> None:
    target = load_target(str(my_gpu))
    assert (target.name, target.lds.bytes, target.barrier.ids, target.counters["memcnt"].max) == (
        "my_gpu",
        65536,
        (0,),
        15,
    )
    assert set(target.cited.values()) == set(target.sources), "each source is used"
    assert {name for name, text in target.sources.items() if is_unchecked(text)} == {"talk"}


COUNTED = """
kernel @k(%X: global<8x4x64xf32>, %Y: global<8x4x64xf32>) waves 4 {
  %a = alloc : lds<4x64xf32, slots = 3>
  gather_to_lds %X[0, wave] to %a[0][wave] : tile<64xf32>
  gather_to_lds %X[1, wave] to %a[1][wave] : tile<64xf32>
  iterate %k in 0 .. 6 {
    gather_to_lds %X[%k + 2, wave] to %a[(%k + 2) mod 3][wave] : tile<64xf32>
    %b = local_read %a[%k mod 3][(wave + 1) mod 4] : tile<64xf32>
    global_write %b, %Y[%k, wave]
  }
}
"""


def counts_on(target: str) -> set[int]:
    """The counts for copies that `sync` finds on a target; none: it waits for all."""
    text = tg.sync(tg.parse(COUNTED).kernels[0], target).text
    return set(map(int, re.findall(r"vmcnt\((\d+)\)", text)))


def test_facts_that_are_left_out_make_it_slow_and_safe(tmp_path: Path) -> None:
    """Two rows of the table at the end of the page, on a target that comes with Tidegate."""
    text = (ROOT / "src" / "tidegate" / "targets" / "gfx942.toml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^(name|default|aliases) *=.*\n", "", text)
    out_of_order, narrow = tmp_path / "unordered.toml", tmp_path / "full.toml"
    out_of_order.write_text('name = "unordered"\n' + re.sub(r"(?m)^in_order.*\n", "", text), encoding="utf-8")
    narrow.write_text('name = "full"\n' + text, encoding="utf-8")
    assert max(counts_on(str(narrow))) > 0
    assert counts_on(str(out_of_order)) <= {0}
    assert "`counters.*.in_order`, `operations.*.in_order` | every wait is for 0" in page(TARGET)


def files_under(folder: Path) -> Iterator[Path]:
    for top in ("src/tidegate/targets", "tests/golden", "docs"):
        for path in sorted((folder / top).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(folder)
    yield Path("mkdocs.yml")


def listed_files() -> set[str]:
    """The files that the page says are new or change."""
    rows = re.findall(r"(?m)^\| (`[^|]*\.(?:txt|md|yml)`) \|", page(TARGET).partition("It makes two files")[2])
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_file_that_lists_all_targets_is_on_the_page() -> None:
    names = ", ".join(known_targets()).encode()
    lists = {path.as_posix() for path in files_under(ROOT) if names in (ROOT / path).read_bytes()}
    assert lists
    assert lists <= listed_files()


@pytest.mark.slow
def test_a_target_that_comes_along_changes_what_the_page_lists(tmp_path: Path) -> None:
    """The command of the page, in a copy of the repository, and then the same tests once more."""
    for name in ("src", "tests", "docs", "examples", "bench", "oracles"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    before = {path: (tmp_path / path).read_bytes() for path in files_under(tmp_path)}
    toml = tmp_path / "src" / "tidegate" / "targets" / "my_gpu.toml"
    toml.write_text(block(TARGET, "my_gpu.toml").text + "\n", encoding="utf-8")
    (command,) = re.findall(r"(?m)^\$ \.venv/bin/(pytest .*) --update$", page(TARGET))
    # Of these files the tests that have to do with targets: the others would take minutes and change nothing.
    about = ("-k", "(target or TG508 or examples_do and command-line) and not make_target")
    run(tmp_path, *command.split(), "--update", "-q", "-p", "no:cacheprovider", *about)
    ran = run(tmp_path, *command.split(), "-q", "-p", "no:cacheprovider", *about)
    assert ran.returncode == 0, ran.stdout[-3000:]
    changed = {path.as_posix() for path in files_under(tmp_path) if (tmp_path / path).read_bytes() != before.get(path)}
    named = {name.replace("NAME", "my_gpu") for name in listed_files()}
    assert changed - {"src/tidegate/targets/my_gpu.toml"} == named


# --- a front end --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slate(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """What the Python of the page defines. Its last two blocks also print; they are run where `ring.slate` is."""
    folder = tmp_path_factory.mktemp("front")
    (folder / "ring.slate").write_text(block(FRONT_END, "ring.slate").text + "\n", encoding="utf-8")
    space: dict[str, Any] = {"__name__": "slate"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for each in blocks_of(page(FRONT_END)):
            if each.language == "python":
                exec(compile(each.text, FRONT_END, "exec", dont_inherit=True), space)
    return SimpleNamespace(**space)


def test_the_program_of_the_page_is_synchronized_and_proved(slate: SimpleNamespace) -> None:
    assert slate.result.checked.findings == []
    again = slate.Slate(slate.written).graph
    assert tg.prove(again).is_proved
    assert not tg.prove(slate.ring.graph).is_proved


def bare(graph: tg.SyncGraph) -> tg.SyncGraph:
    """Without what says where points come from."""
    return replace(graph, points=tuple(replace(each, label="") for each in graph.points))


def random_slate(rng: random.Random) -> str:
    """A few statements, some of them in a loop, on one or two buffers."""
    lines = [f"slate some waves {rng.choice((2, 4))} target {rng.choice(('gfx942', 'gfx950'))}"]
    slots = {name: rng.randint(1, 3) for name in rng.sample(["a", "b"], rng.randint(1, 2))}
    lines += [f"buffer {name} 1024 slots {count}" for name, count in slots.items()]

    def statement(places: list[str]) -> str:
        word = rng.choice(("store", "load", "load", "copy", "meet", "meet lds"))
        return word if word.startswith("meet") else f"{word} {rng.choice(list(slots))} {rng.choice(places)}"

    lines += [statement(["0", "1"]) for _ in range(rng.randint(0, 2))]
    lines.append("loop k N")
    lines += [statement(["k", "k+1", "k+2", "0"]) for _ in range(rng.randint(1, 4))]
    lines.append("end")
    lines += [statement(["0", "1"]) for _ in range(rng.randint(0, 2))]
    return "\n".join(lines)


def test_other_programs_are_synchronized_written_and_proved(slate: SimpleNamespace) -> None:
    """What is written and read again is the graph that the plan makes, and it is proved."""
    rng = random.Random(11)
    changed = 0
    for _ in range(25):
        text = random_slate(rng)
        program = slate.Slate(text)
        result = tg.sync(program.graph)
        assert result.after is not None
        again = slate.Slate(slate.write(program, result.plan)).graph
        assert bare(again) == bare(result.after), text
        assert tg.prove(again).is_proved, text
        changed += bool(result.plan.edits)
    assert changed >= 10


def test_an_unknown_operation_is_not_proved_and_is_named(slate: SimpleNamespace) -> None:
    text = "slate odd waves 4 target gfx942\nbuffer a 1024 slots 1\nstore a 0\nshuffle a"
    result = tg.sync(slate.Slate(text).graph)
    assert result.plan.edits
    assert [(each.code, each.at.line) for each in result.checked.findings] == [("TG103", 4)]


def test_what_slate_cannot_say_is_refused(slate: SimpleNamespace) -> None:
    from tidegate.graph.plan import Insert
    from tidegate.language.ops import Signal

    with pytest.raises(NotImplementedError, match="Slate has no Signal"):
        slate.write(slate.ring, tg.Plan((Insert(1, Signal(-1)),)))


def test_the_files_of_the_page_about_front_ends_exist() -> None:
    table = page(FRONT_END).partition("## Into Tidegate itself")[2]
    named = [name for row in re.findall(r"(?m)^\| (`.*?) \|", table) for name in re.findall(r"`([^`]+)`", row)]
    assert {name for name in named if not (ROOT / name).exists()} == {
        "src/tidegate/hosts/NAME/",
        "tests/hosts/NAME/",
        "docs/NAME.md",
    }
    for file, names in (
        ("files.py", "def load def load_text READS Loaded ttgir ptx"),
        ("hosts/programs.py", "def host_programs"),
        ("session.py", "def sessions_of host_programs Origin"),
        ("synchronize/written.py", "def write_programs"),
        ("cli/sync.py", "def _check_output"),
    ):
        source = (ROOT / "src" / "tidegate" / file).read_text(encoding="utf-8")
        for name in re.findall(r"(?:def )?\w+", names):
            assert name in source, f"{file}: {name}"
