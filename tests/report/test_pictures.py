"""Pictures of the documentation: those that a page draws are what its command draws, and all of them are shown.

A page draws a picture if it has `$ tidegate draw ... -o NAME.svg` and shows `pictures/NAME.svg`. `--update` writes them
again. The others are made by hand.
"""

from __future__ import annotations

import contextlib
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.house.test_docs import DOCS, NAMES, blocks_of, page, run_command

PICTURES = DOCS / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


def drawn_by(name: str) -> list[tuple[str, str]]:
    """The pictures that a page shows and draws itself, each with its command."""
    text = page(name)
    found = re.findall(r"(?m)^\$ tidegate (draw .* -o ([\w-]+\.svg))$", text)
    return [(picture, command) for command, picture in found if f"](pictures/{picture})" in text]


DRAWN = [(name, picture, command) for name in NAMES for picture, command in drawn_by(name)]


def test_pages_draw_some() -> None:
    assert len(DRAWN) >= 3


@pytest.mark.parametrize(("name", "picture", "command"), DRAWN, ids=[picture for _, picture, _ in DRAWN])
def test_a_picture_is_what_its_page_draws(name: str, picture: str, command: str, tmp_path: Path, update: bool) -> None:
    for block in blocks_of(page(name)):
        if "." in block.title:
            (tmp_path / block.title).write_text(block.text + "\n", encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with contextlib.chdir(tmp_path):
        run_command(command.split())
    drawn = (tmp_path / picture).read_text(encoding="utf-8")
    if update:
        (PICTURES / picture).write_text(drawn, encoding="utf-8")
    assert drawn == (PICTURES / picture).read_text(encoding="utf-8")


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_shown_and_says_in_words_what_it_shows(picture: Path) -> None:
    root = ET.fromstring(picture.read_text(encoding="utf-8"))
    assert root.find(f"{SVG}title") is not None or root.get("aria-label")
    texts = [page(name) for name in NAMES]
    shown = re.compile(rf"!\[([^\]]*)\]\((?:docs/)?pictures/{re.escape(picture.name)}\)")
    words = [match[1] for text in texts for match in shown.finditer(text)]
    assert words, f"{picture.relative_to(ROOT)} is on no page"
    assert all(words), picture.name
