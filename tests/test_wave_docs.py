"""The page about Wave: its examples do what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ROOT
from test_docs import WITH_WAVE, Page


@pytest.mark.parametrize("name", WITH_WAVE)
def test_examples_do_what_the_page_says(name: str, tmp_path: Path, update: bool) -> None:
    here = Page(name, tmp_path)
    here.run()
    if update and here.new:
        (ROOT / name).write_text(here.updated(), encoding="utf-8")
    elif here.new:
        block, now = here.new[0]
        assert block.text == now, f"{name}:{block.first + 1}"
