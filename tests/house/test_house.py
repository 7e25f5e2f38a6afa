"""The house as a test: small files that say what they are, packages that import one way, names that somebody uses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench import house
from bench.house import SOURCE, count_code, count_lines, files_of, mutual_imports, stages, unused
from tidegate.language.ops import CommitGroup
from tidegate.scheduling.body import Piece
from tidegate.scheduling.clusters import Arranger
from tidegate.scheduling.dependences import Edge

MOST_LINES = 450
# Files above the limit, each with the reason why it is one file.
LARGE = {
    "language/ops.py": "the operations are one closed union: a reader sees the whole language as one list",
    "language/api.py": "the Python form of that union, a short function for each operation",
}
# Files of a stage without a contract of their own: they are lists, and open with what is in them.
LISTS = {"language/types.py", "simulate/events.py"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "legacy", "tools"}


def sources() -> list[Path]:
    return files_of(SOURCE)


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def write(root: Path, files: dict[str, str]) -> Path:
    """A package of these files; the same tree under `root` can be searched for unused names."""
    source = root / "src" / "tidegate"
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return source


# --- the house ----------------------------------------------------------------------------------------------------


def test_no_two_packages_import_each_other() -> None:
    assert mutual_imports(("at import", "in a function")) == []


def test_no_two_packages_import_each_other_for_types() -> None:
    assert mutual_imports(house.WHENS) == []


def test_files_are_small() -> None:
    large = {name_of(path) for path in sources() if count_lines(path) > MOST_LINES}
    assert large == set(LARGE)


def test_every_file_says_what_it_is() -> None:
    silent = [name_of(path) for path in sources() if not ast.get_docstring(house.tree_of(path))]
    assert silent == []


def test_every_file_of_a_stage_opens_with_its_contract() -> None:
    """What it needs and what it gives; the command line has commands instead."""
    of_stages = [path for path in sources() if path.parent != SOURCE and path.name != "__init__.py"]
    texts = {name_of(path): ast.get_docstring(house.tree_of(path)) or "" for path in of_stages}
    silent = {name for name, text in texts.items() if not all(f"\n{word} " in text for word in ("Needs", "Gives"))}
    assert {name for name in silent if not name.startswith("cli/")} == LISTS


def test_nothing_has_a_name_that_says_nothing() -> None:
    parts = {part.removesuffix(".py") for path in sources() for part in path.relative_to(SOURCE).parts}
    assert {part for part in parts if VAGUE & set(part.split("_"))} == set()


def test_everything_is_named_somewhere() -> None:
    nowhere, _ = unused()
    assert list(map(str, nowhere)) == []


# --- costs that contracts state -----------------------------------------------------------------------------------


def test_arranging_looks_at_each_dependence_once() -> None:
    """Each of 1600 operations needs the two before it: too many ways back to go, and deeper than Python recurses."""
    roles = ["global_read", *["other"] * 1600, "local_write", "local_read"]
    pieces = [Piece(number, CommitGroup(), role, (number,)) for number, role in enumerate(roles)]
    ladder = [Edge(first, later) for later in range(2, 1601) for first in (later - 2, later - 1)]
    arranger = Arranger(pieces, {}, 2, [Edge(0, 1), *ladder, Edge(1600, 1601), Edge(1601, 1602, 0, True)])
    assert arranger.before[1602] == [Edge(1601, 1602, 1, True)]
    assert arranger.fetching == set(range(1602))


# --- the tests are tested -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("from tidegate.two import b\n", "at import"),
        ("try:\n    import tidegate.two.b\nexcept ImportError:\n    pass\n", "at import"),
        ("def f():\n    from tidegate.two.b import g\n", "in a function"),
        ("def f():\n    import_module('tidegate.two.b')\n", "in a function"),
        ("if TYPE_CHECKING:\n    from tidegate.two.b import g\n", "for types"),
    ],
)
def test_packages_that_import_each_other_are_seen(tmp_path: Path, text: str, when: house.When) -> None:
    source = write(tmp_path, {"one/a.py": text, "two/b.py": "from tidegate.one.a import f\n"})
    assert house.imported_packages(source)["tidegate.one", "tidegate.two"] == {when}
    assert mutual_imports(("at import", when), source) == ["tidegate.one and tidegate.two"]


def test_an_import_one_way_is_none_each_way(tmp_path: Path) -> None:
    source = write(tmp_path, {"one/a.py": "import tidegate.two.b\nimport tidegate.one.c\n", "two/b.py": "import os\n"})
    assert mutual_imports(house.WHENS, source) == []


def test_only_code_is_counted(tmp_path: Path) -> None:
    text = '"""About\nthis."""\n\n# why\nx = """a\n\nb"""\n\n\n'
    text += 'def f():\n    """Says."""\n    return (\n        x  # why\n    )\n'
    source = write(tmp_path, {"one/a.py": text, "one/b.py": "y = 1\n"})
    assert count_code(source / "one" / "a.py") == 7
    assert stages(source) == [house.Stage("one", 8, 2, "one/a.py", 14)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    return f\n", ["f"]),
        ("def f():\n    pass\n\n\nf()\n", []),
        ("class C:\n    def m(self):\n        pass\n\n\nC\n", ["m"]),
        ("class C(NodeVisitor):\n    def visit_Name(self, node):\n        pass\n\n\nC\n", []),
        ("class C(ABC):\n    def m(self):\n        pass\n\n\nC\n", ["m"]),
        ("@app.command()\ndef f():\n    pass\n", []),
        ("@cache\ndef f():\n    pass\n", ["f"]),
        ("Size = int\n", ["Size"]),
        ("LIMIT: int = 3\nprint(LIMIT)\n", []),
        ("def f():\n    pass\n\n\ngetattr(x, 'f')\n", []),
    ],
)
def test_what_nobody_names_is_seen(tmp_path: Path, text: str, found: list[str]) -> None:
    write(tmp_path, {"a.py": text})
    nowhere, _ = unused(tmp_path)
    assert [each.name for each in nowhere] == found


def test_code_in_prose_names_and_prose_does_not(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def wave():\n    pass\n\n\ndef slot():\n    pass\n\n\ndef tile():\n    pass\n"})
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("A wave calls `slot`.\n\n```python\ntile()\n```\n", encoding="utf-8")
    nowhere, only_tests = unused(tmp_path)
    assert ([each.name for each in nowhere], only_tests) == (["wave"], [])


def test_what_only_tests_name_is_told_apart(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def f():\n    pass\n"})
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("from tidegate.a import f\n", encoding="utf-8")
    nowhere, only_tests = unused(tmp_path)
    assert (nowhere, [each.name for each in only_tests]) == ([], ["f"])
