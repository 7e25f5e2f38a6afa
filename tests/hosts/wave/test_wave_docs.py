"""The page about Wave: its examples do what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.test_docs import WITH_WAVE, run_page


@pytest.mark.parametrize("name", WITH_WAVE)
def test_examples_do_what_the_page_says(name: str, tmp_path: Path, update: bool) -> None:
    run_page(name, tmp_path, update)
