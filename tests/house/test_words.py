"""One class name for one idea: names that several classes of `src` have, counted. The numbers may only fall.

An underscore in front does not make another name. Judges that share no code with what they judge have their own twins
of some classes (`verify/events.py`, `placement/events.py`, `simulate/steps.py`): those repeats are meant.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "tidegate"
# Classes beyond the first of their name, in all; and of one name, except for those of the twins. Write the smaller
# number when one of them falls.
MOST_REPEATS = 204
MOST_OF_ONE_NAME = 6
TWINS = {"events.py", "steps.py"}


def repeats(source: Path, without: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """Every name of several classes, with their places."""
    found = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and path.name not in without:
                found[node.name.lstrip("_")].append(f"{path.relative_to(source)}:{node.lineno}")
    return {name: places for name, places in found.items() if len(places) > 1}


def test_names_of_classes_are_repeated_no_more_than_before() -> None:
    found = repeats(SOURCE)
    listed = "\n".join(f"{name}: {', '.join(places)}" for name, places in sorted(found.items()))
    assert sum(len(places) - 1 for places in found.values()) <= MOST_REPEATS, listed


def test_no_name_means_many_things() -> None:
    found = repeats(SOURCE, frozenset(TWINS))
    assert {name: places for name, places in found.items() if len(places) > MOST_OF_ONE_NAME} == {}


def test_repeats_are_seen(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class A:\n    class B: ...\nclass C: ...\n", encoding="utf-8")
    (tmp_path / "two.py").write_text("class _A: ...\ndef f():\n    class C: ...\n", encoding="utf-8")
    (tmp_path / "events.py").write_text("class B: ...\n", encoding="utf-8")
    assert repeats(tmp_path) == {
        "A": ["one.py:1", "two.py:1"],
        "B": ["events.py:1", "one.py:2"],
        "C": ["one.py:3", "two.py:3"],
    }
    assert set(repeats(tmp_path, frozenset({"events.py"}))) == {"A", "C"}
