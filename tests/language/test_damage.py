"""Damaged files end in a result or in findings: never in another exception, never in a wait without end.

Every file goes the whole way: parse, check, graph, its text, the text read again, the graph checked. What is damaged
are the examples, random kernels and the graphs of both.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oracles.programs.damaged_text import corpus, damage
from tests.language.test_roundtrip import seeds
from tidegate.diag import BadInput, Finding, Sources, show_findings
from tidegate.graph.build import build_graph
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.graph.wellformed import check_graph
from tidegate.language.check import check
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.targets import load_target

LIMIT = 10  # seconds for one file


# --- the whole way ------------------------------------------------------------------------------------------------


@contextmanager
def watched(what: str, limit: int = LIMIT) -> Iterator[None]:
    """Ends what takes too long: seconds of the processor, so that a busy machine changes nothing; what waits forever
    gets ten times as many."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {limit} s for\n{what}")

    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, limit)
    signal.setitimer(signal.ITIMER_REAL, 10 * limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def whole_way(text: str) -> tuple[str, list[Finding]]:
    """How far a text gets, and what is found."""
    if text.lstrip().startswith("graph"):
        graph = parse_graph(text)
        found = check_graph(graph)
        if not found:
            assert parse_graph(show_graph(graph)) == graph
        return "graph", found
    findings: list[Finding] = []
    for kernel in parse(text).kernels:
        assert parse(show(kernel)).kernels == (kernel,)
        target = load_target(kernel.target)
        found = check(kernel, target)
        findings += found
        if any(each.is_bad_input for each in found):
            continue
        graph = build_graph(kernel, target).graph
        again = parse_graph(show_graph(graph))
        assert again == graph
        assert check_graph(again) == []
    return "kernel", findings


def check_damaged(text: str) -> str:
    """What became of a text; anything but findings is a mistake, shown with the text."""
    with watched(text):
        try:
            kind, findings = whole_way(text)
        except BadInput as bad:
            kind, findings = "refused", list(bad.findings)
            assert findings
        except TimeoutError:
            raise
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
        shown = show_findings(findings, Sources({"<text>": text}))
        assert "Traceback" not in shown
    return "clean" if kind != "refused" and not findings else kind


def damaged(first: int, count: int) -> Iterator[str]:
    texts = corpus()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        yield damage(rng, texts[seed % len(texts)])


def test_damaged_files(request: pytest.FixtureRequest) -> None:
    results = [check_damaged(text) for text in damaged(0, len(seeds(request, 1000)))]
    # Damage that is always refused at once tests little: a part must get through to the graph.
    assert results.count("refused") < 0.85 * len(results)
    assert results.count("clean") > 0.05 * len(results)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_damaged_files(request: pytest.FixtureRequest, part: int) -> None:
    each = len(seeds(request, 20_000)) // 8
    for text in damaged(1_000_000 + part * each, each):
        check_damaged(text)


# --- the command line ---------------------------------------------------------------------------------------------


def run_cli(args: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit status, and all that was printed."""
    from tidegate import cli

    monkeypatch.setattr("sys.argv", ["tidegate", *args])
    try:
        cli.main()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    out, err = capfd.readouterr()
    return status, out + err


def test_damaged_files_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    for number, text in enumerate(islice(damaged(5_000_000, 10**9), len(seeds(request, 150)))):
        file = tmp_path / ("damaged.sync" if text.lstrip().startswith("graph") else "damaged.tide")
        file.write_bytes(text.encode("utf-8", errors="surrogatepass"))
        for args in (["check"], ["check", "--json"], ["show", "--print-after", "graph"])[number % 3 :][:1]:
            with watched(text):
                status, shown = run_cli([*args, str(file)], monkeypatch, capfd)
            assert status in (0, 1, 2), (shown, text)
            assert "Traceback" not in shown


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbfkernel @k() waves 1 {}",
        b"kernel",
        b"kernel @k() waves 1 {}\n" * 3,
        b"graph",
    ],
)
@pytest.mark.parametrize("suffix", [".tide", ".sync", ".txt"])
def test_strange_files(tmp_path: Path, content: bytes, suffix: str) -> None:
    from tidegate.cli import app

    file = tmp_path / f"strange{suffix}"
    file.write_bytes(content)
    result = CliRunner().invoke(app, ["check", str(file)])
    assert isinstance(result.exception, SystemExit | BadInput | None)


# --- what damage has found ----------------------------------------------------------------------------------------


def test_a_graph_of_a_billion_waves_is_checked_at_once() -> None:
    """The waves of all programs were listed one by one."""
    text = show_graph(build_graph(parse("kernel @k() waves 4 {}").kernels[0], load_target("")).graph)
    many = text.replace("waves 4", f"waves {10**17}").replace(".. 4", f".. {10**17}")
    with watched(many):
        assert check_graph(parse_graph(many)) == []
        (finding,) = check_graph(parse_graph(text.replace("waves 4", f"waves {10**17}")))
    assert finding.code == "TG602"


@pytest.mark.parametrize(("first", "second"), [((0, 2), (2, 4)), ((2, 4), (0, 2))])
def test_programs_start_each_wave_once(first: tuple[int, int], second: tuple[int, int]) -> None:
    text = "graph @g target none waves 4 program entry 0 waves {} .. {} program entry 0 waves {} .. {} {{ 0: end }}"
    assert check_graph(parse_graph(text.format(*first, *second))) == []
    for ranges in ((0, 2, 1, 4), (0, 1, 2, 4), (0, 2, 2, 2), (0, 4, 0, 4), (-1, 2, 2, 4), (0, 2, 2, 5)):
        assert [each.code for each in check_graph(parse_graph(text.format(*ranges)))] == ["TG602"], ranges


@pytest.mark.parametrize(
    "text",
    [
        f"kernel @k() waves {'9' * 5000} {{}}",
        f"kernel @k() waves 1 {{ %a = let {'9' * 5000} }}",
        f"kernel @k() waves 1 {{ %a = fill {'9' * 5000} : tile<f32> }}",
        f"kernel @k() waves 1 {{ %a = alloc : lds<{'9' * 5000}xf32> }}",
        f"kernel @k() waves 1 {{ {'conditional true { ' * 3000}{'}' * 3000} }}",
        f"kernel @k() waves 1 {{ {'specialize { waves 0 .. 1 { ' * 3000}{'} }' * 3000} }}",
        f"graph @g target none waves 1 {{ 0: assign %a = {'either(true, ' * 3000} }}",
    ],
    ids=["waves", "let", "fill", "size", "conditional", "specialize", "either"],
)
def test_long_numbers_and_deep_regions(text: str) -> None:
    check_damaged(text)


@pytest.mark.parametrize("count", [60, 20_000])
def test_names_that_double_each_time_are_refused_at_once(count: int) -> None:
    """Analyses replace names by what they stand for: sixty lines took all memory there was."""
    lines = "".join(f"  %a{n} = let %a{n - 1} + %a{n - 1} mod 7\n" for n in range(1, count))
    text = f"kernel @k() waves 4 {{\n  %a0 = let wave\n{lines}}}"
    with watched("doubling"):
        (finding,) = check(parse(text).kernels[0], load_target(""))
    assert (finding.code, finding.at.line) == ("TG006", 14)
    assert finding.message == "`%a12` names an expression of more than 10,000 parts"


def test_names_of_a_graph_that_double_each_time_are_refused_at_once() -> None:
    lines = "".join(f"{n}: assign %a{n} = %a{n - 1} + %a{n - 1} -> {n + 1}\n" for n in range(1, 60))
    text = f"graph @g target none waves 4 program entry 0 waves 0 .. 4 {{\n0: assign %a0 = wave -> 1\n{lines}60: end }}"
    with watched("doubling"):
        (finding,) = check_graph(parse_graph(text))
    assert finding.message == "`%a13` names an expression of more than 10,000 parts"


def test_many_names_in_a_row_are_read() -> None:
    lines = "".join(f"  %a{n} = let %a{n - 1} + wave\n" for n in range(1, 2000))
    with watched("a row"):
        assert check(parse(f"kernel @k() waves 4 {{\n  %a0 = let wave\n{lines}}}").kernels[0], load_target("")) == []
