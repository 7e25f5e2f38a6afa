"""What `import tidegate` offers: the stub that editors and type checkers read, and the documented style under mypy."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tests.conftest import ROOT
from tests.house.test_docs import blocks_of

STUB = ROOT / "src/tidegate/__init__.pyi"
HEAD = '''\
"""The names of `import tidegate`, for editors and type checkers.

Made from the table in `__init__.py` by `pytest tests/house/test_public.py --update`.
"""

'''
# Pages whose Python is what a user would write in a file of their own.
TYPED = (
    "README.md",
    *(f"docs/{name}.md" for name in ("library", "python", "seeds", "schedule", "async", "verify", "graph", "draw")),
)


# --- the stub -----------------------------------------------------------------------------------------------------


def stub() -> str:
    """Every name with the module that it comes from; `as` is what makes a type checker export it."""
    lines = [HEAD]
    for module, names in sorted(tidegate._HOMES.items()):
        listed = "".join(f"    {name} as {name},\n" for name in sorted(names.split()))
        lines.append(f"from {module} import (\n{listed})\n")
    return "".join((*lines, "\n__version__: str\n"))


def test_the_stub_offers_what_the_package_offers(update: bool) -> None:
    if update:
        STUB.write_text(stub(), encoding="utf-8")
    assert STUB.read_text(encoding="utf-8") == stub()


def test_every_name_of_the_stub_is_there() -> None:
    for module, names in tidegate._HOMES.items():
        home = importlib.import_module(module)
        for name in names.split():
            assert getattr(tidegate, name) is getattr(home, name)
            assert name in dir(tidegate)
            assert name in tidegate.__all__


# --- types --------------------------------------------------------------------------------------------------------


def python_of(name: str) -> str:
    """The Python of a page as one file, its blocks in order, each line where it stands on the page."""
    text = (ROOT / name).read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in blocks_of(text):
        if block.language == "python" and not block.is_wrong:
            lines[block.first : block.last] = block.text.split("\n")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", TYPED)
def test_the_documented_style_passes_mypy(name: str, tmp_path: Path) -> None:
    """As a user runs it: `mypy --strict` over a file of theirs, which imports the package; no settings of ours."""
    file = tmp_path / "mine.py"
    file.write_text(python_of(name), encoding="utf-8")
    assert "import tidegate" in file.read_text(encoding="utf-8")
    assert list(complaints(file)) == []


def complaints(file: Path) -> Iterator[str]:
    command = (
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(ROOT / ".mypy_cache/mine"),
    )
    ran = subprocess.run(
        (*command, str(file)),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "MYPYPATH": str(ROOT / "src")},
    )
    # What an installed package may have wrong inside is not shown to its users; here it lies beside its sources.
    yield from (each for each in ran.stdout.splitlines() if each.startswith(f"{file}:") and ": error:" in each)
    if ": error:" not in ran.stdout and "Success" not in ran.stdout:
        yield ran.stdout + ran.stderr
