"""Options and helpers that all tests share."""

import importlib.util
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

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


# Of tests that are quick for most programs, the ones that are not: `make fast` leaves them to `make test`.
SLOW = re.compile(
    r"(test_advice|test_explain|test_removals|test_seeds|test_sync_cli)\.py.*(gemm_mbarrier|gemm_async_store|four_slots)"
    r"|test_random_kernels_keep_their_text\[(1[2-9]|[2-9]\d)\]"
    r"|test_what_is_needed_is_and_what_is_redundant_is_not\[(gemm|attention|flash)"
    r"|test_barriers_wherever_one_can_stand_are_too_many\[(gemm|attention|flash)"
    r"|test_many_guarded_loops_in_each_other_end|test_signals_and_waits_against_every_trip_count"
    r"|test_reduction_changes_no_verdict\[[1-9]|test_one_pair_that_is_proved_is_right"
    r"|test_scheduled_loops_are_right\[[2-9]|test_a_choice_that_hangs_on_one_cost|test_auto_never_takes_what_is_dearer"
    r"|test_examples_do_what_the_page_says\[docs/(schedule|command-line|benchmarks)"
    r"|test_triton_(dropin|assembly)\.py.*(sm_90|gfx|merge|cache|verif|lines|axis|environment|plan|needless|spills)"
    r"|test_output_does_not_depend_on_hashes|test_slots_that_do_not_help|test_small_graphs_have_verdicts_of_every_kind"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SLOW.search(item.nodeid):
            item.add_marker(pytest.mark.slow)


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
