"""Options and helpers that all tests share."""

import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

# A shell starts what it runs in the background with Ctrl-C ignored, and every child inherits that: tests that
# interrupt a command would wait for it for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Spans show paths as they were given, and colours would change golden text.
os.environ.setdefault("NO_COLOR", "1")

ROOT = Path(__file__).resolve().parent.parent


# What needs Wave is run in an environment of its own (`make test-wave`); elsewhere it is not even imported.
WITHOUT_WAVE = ("test_wave_lanes.py", "test_wave_touched.py")
HAS_WAVE = importlib.util.find_spec("wave_lang") is not None
collect_ignore = [
    str(path.relative_to(Path(__file__).parent))
    for path in sorted(Path(__file__).parent.glob("hosts/wave/test_wave_*.py"))
    if not HAS_WAVE and path.name not in WITHOUT_WAVE
]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if collect_ignore:
        count = len(collect_ignore)
        terminalreporter.write_line(f"NOT HERE: {count} files of tests that need Wave; `make test-wave` runs them")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite golden results; review the diff")
    parser.addoption("--count", type=int, default=0, help="how many random cases, where a test draws them")


# Examples that take the analyses seconds: tests over all examples leave them to `make test`.
HEAVY = ("gemm_mbarrier", "gemm_async_store", "four_slots")


def slow_if(values: Iterable[Any], is_slow: Callable[[Any], bool]) -> list[Any]:
    """Values to parametrize a test with; the slow ones run in `make test` only."""
    return [pytest.param(value, marks=pytest.mark.slow) if is_slow(value) else value for value in values]


def slow_examples(examples: Iterable[Any], *prefixes: str) -> list[Any]:
    """Examples, by path or name: slow are those of `HEAVY` and those whose names begin as given."""

    def is_slow(example: Any) -> bool:
        name = Path(example).stem
        return name.startswith(prefixes) or any(part in name for part in HEAVY)

    return slow_if(examples, is_slow)


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """What a test finds out, perhaps with rules switched off, is not remembered for the next one."""
    yield
    conflicts = sys.modules.get("tidegate.footprint.conflicts")
    if conflicts is not None:
        conflicts.forget_meetings()


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))
