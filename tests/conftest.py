"""Options and helpers that all tests share."""

import os
from pathlib import Path

import pytest

# Spans show paths as they were given, and colours would change golden text.
os.environ.setdefault("NO_COLOR", "1")

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite golden results; review the diff")
    parser.addoption("--count", type=int, default=0, help="how many random cases, where a test draws them")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))
