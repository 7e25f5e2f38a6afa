"""Terminals and pipes: widths, colours, bars, completion, and how commands end when nobody wants to see more.

Commands run in processes of their own, in pseudo-terminals of a given width where they are to think they are looked at.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.cli.findings import lay_out_findings
from tidegate.cli.help import continued, split_examples
from tidegate.diag import Finding, Label, Sources, Span, show_findings
from tidegate.targets import known_targets

# Without bars, which would appear on a slow machine alone.
CODE = "import sys; from tidegate.cli import bars, main; bars.SHOW_AFTER = {}; sys.argv[0] = 'tidegate'; main()"
START = [sys.executable, "-c", CODE.format(10**9)]
# With bars that appear at once.
HASTY = [sys.executable, "-c", CODE.format(0)]
RACE = "examples/broken/missing_barrier.tide"
LONG = "examples/gemm_split.tide"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(**settings: str) -> dict[str, str]:
    taken = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in taken}
    return {**kept, "TERM": "xterm", **settings}


def in_terminal(
    width: int, *args: str, start: list[str] = START, out_in_pipe: bool = False, **settings: str
) -> tuple[int, str, str]:
    """The status, what the terminal got, and what a pipe got in place of the output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    out = subprocess.PIPE if out_in_pipe else theirs
    with subprocess.Popen(
        [*start, *args], stdin=theirs, stdout=out, stderr=theirs, cwd=ROOT, env=environment(**settings)
    ) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        piped = process.stdout.read().decode() if process.stdout else ""
    os.close(ours)
    return process.returncode, seen.decode().replace("\r\n", "\n"), piped


def in_pipe(*args: str, **settings: str) -> str:
    done = subprocess.run(
        [*START, *args], capture_output=True, text=True, cwd=ROOT, env=environment(**settings), check=False
    )
    return done.stdout + done.stderr


# --- findings -----------------------------------------------------------------------------------------------------


def random_finding(rng: random.Random) -> tuple[Finding, Sources]:
    """Up to four labels in up to three lines, long or short, of one file or two."""
    texts = {name: [_line(rng) for _ in range(12)] for name in ("one.tide", "two.tide")}
    labels = []
    for _ in range(rng.randint(1, 4)):
        file = rng.choice(["one.tide", "one.tide", "two.tide"])
        line = rng.randint(1, 12)
        column = rng.randint(1, len(texts[file][line - 1]))
        end = rng.randint(column + 1, len(texts[file][line - 1]) + 1)
        labels.append(Label(Span(file, line, column, end), rng.choice(["", "here", "wave 0 reads bytes 0..256 " * 3])))
    notes = tuple(rng.choice(["short", "hazard: " + "read after write " * 9, "two\nlines"]) for _ in range(2))
    code = rng.choice(["TG101", "TG401"])
    found = Finding(
        code, "`tile` is read " * rng.randint(1, 9), tuple(labels), notes, rng.choice(["", "do it\nor not"])
    )
    return found, Sources({name: "\n".join(lines) for name, lines in texts.items()})


def _line(rng: random.Random) -> str:
    """Neighbouring letters differ, so that a mark that is off by one marks something else."""
    first = rng.randrange(26)
    return "".join(chr(97 + (first + place) % 26) for place in range(rng.randint(1, 160)))


@pytest.mark.parametrize("seed", range(40))
def test_without_a_width_colours_are_all_that_is_added(seed: int) -> None:
    finding, sources = random_finding(random.Random(seed))
    lines = [line.plain for line in lay_out_findings([finding], sources, None)]
    assert "\n".join(lines) == show_findings([finding], sources) + "\n"


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("seed", range(20))
def test_marks_stand_under_what_they_mark(seed: int, width: int) -> None:
    finding, sources = random_finding(random.Random(seed))
    lines = [line.plain for line in lay_out_findings([finding], sources, width)]
    places = [line for line in lines if line.lstrip().startswith(("-->", ":::"))]
    assert all(len(line) <= width for line in lines if line not in places)
    marked = [label for label in finding.labels if label.at.end > label.at.column]
    files = iter(dict.fromkeys(_in_order(finding)))
    file, number, source, seen = next(files), 0, "", 0
    for line in lines:
        if line.lstrip().startswith(":::"):
            file = next(files)
        elif found := re.match(r" *(\d+) \| (.*)", line):
            number, source = int(found[1]), found[2]
        elif found := re.fullmatch(r" +\| ( *)(-+)(?: .*)?", line):
            seen += 1
            above = source[len(found[1]) : len(found[1]) + len(found[2])]
            wanted = [_text(sources, each.at) for each in marked if (each.at.file, each.at.line) == (file, number)]
            assert any(
                above == text or (above.rstrip("…") and text.startswith(above.rstrip("…"))) or above == "…"
                for text in wanted
            ), (line, source, wanted)
    assert seen == len(marked)


def _in_order(finding: Finding) -> list[str]:
    first = finding.labels[0].at.file
    return sorted((each.at.file for each in finding.labels), key=lambda file: (file != first, file))


def _text(sources: Sources, at: Span) -> str:
    return (sources.line(at) or "")[at.column - 1 : at.end - 1]


def test_wide_characters_and_control_characters() -> None:
    """A mark behind two wide characters stands two columns further; a source cannot talk to the terminal."""
    sources = Sources({"a.tide": "漢字 wait \x1b[31m"})
    finding = Finding("TG101", "message", (Label(Span("a.tide", 1, 4, 8)),))
    lines = [line.plain for line in lay_out_findings([finding], sources, 80)]
    assert lines[3:5] == ["1 | 漢字 wait ␛[31m", "  |      ----"]


def test_a_tab_in_a_program_stays_a_space(tmp_path: Path) -> None:
    source = (ROOT / RACE).read_text(encoding="utf-8").replace("  local_write", "\tlocal_write")
    (tmp_path / "tab.tide").write_text(source, encoding="utf-8")
    _, seen, _ = in_terminal(200, "sync", str(tmp_path / "tab.tide"))
    assert "\n        local_write %a" in ESCAPES.sub("", seen)


def test_a_window_moves_to_the_mark() -> None:
    line = "x" * 100 + "%tile" + "y" * 100
    finding = Finding("TG101", "message", (Label(Span("a.tide", 1, 101, 106), "here"),))
    lines = [each.plain for each in lay_out_findings([finding], Sources({"a.tide": line}), 40)]
    assert lines[3:5] == ["1 | …xxxxx%tileyyyyyyyyyyyyyyyyyyyyyyyy…", "  |       ----- here"]


# --- terminals and pipes ------------------------------------------------------------------------------------------

REPORTS = [
    ("check", RACE),
    ("check", LONG, "--target", "gfx942"),
    ("targets",),
    ("targets", "gfx1250"),
    ("explain", "examples/broken/fixed/missing_barrier.tide"),
    ("sync", RACE),
    ("sync", RACE, "--diff"),
    ("schedule", "examples/gemm_one_slot.tide", "--strategy", "clusters=2"),
    ("run", "examples/transpose.tide", "--counters", "--phases"),
]


@pytest.mark.slow
@pytest.mark.parametrize("args", REPORTS, ids=" ".join)
def test_a_wide_terminal_shows_what_a_pipe_gets_in_colour(args: tuple[str, ...]) -> None:
    _, seen, _ = in_terminal(1000, *args)
    assert ESCAPES.search(seen)
    assert ESCAPES.sub("", seen) == in_pipe(*args)


def test_a_program_and_its_report_are_the_same_in_a_terminal() -> None:
    """Both streams go to one terminal; the program comes first."""
    _, seen, _ = in_terminal(1000, "sync", RACE)
    program, report = ESCAPES.sub("", seen).split("}\n")
    assert program.startswith("# ")
    assert report.startswith("@missing_barrier on gfx942, minimal: inserted 1 `shared_memory_barrier`\n")
    (new,) = re.findall(r"\x1b\[32m(.*?)\x1b\[0m", seen.partition("}\n")[0])
    assert new.startswith("  shared_memory_barrier  # RAW")


@pytest.mark.slow
@pytest.mark.parametrize("args", [each for each in REPORTS if each[0] != "sync"], ids=" ".join)
def test_nothing_is_wider_than_a_narrow_terminal(args: tuple[str, ...]) -> None:
    """But places of files, which stay whole."""
    status, seen, _ = in_terminal(40, *args)
    lines = ESCAPES.sub("", seen).split("\n")
    assert status in (0, 1)
    assert [line for line in lines if len(line) > 40 and "-->" not in line and "://" not in line] == []
    words = {word for word in in_pipe(*args).split() if re.fullmatch(r"[\w@]{3,12}", word)}
    assert words <= set(" ".join(lines).split()) | _cut_words(args)


def _cut_words(args: tuple[str, ...]) -> set[str]:
    """Words of source lines, of which a window is shown."""
    sources = " ".join((ROOT / each).read_text(encoding="utf-8") for each in args if each.endswith(".tide"))
    return set(re.findall(r"\w+", sources))


@pytest.mark.parametrize(
    ("settings", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"FORCE_COLOR": "0"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_when_a_terminal_gets_colours(settings: dict[str, str], coloured: bool) -> None:
    _, seen, _ = in_terminal(80, "check", RACE, **settings)
    assert bool(re.search(r"\x1b\[[\d;]*m", seen)) is coloured  # a bar moves the cursor on a slow machine
    assert "error[TG101]" in ESCAPES.sub("", seen)


def test_a_pipe_gets_colours_only_if_they_are_forced() -> None:
    plain, forced = in_pipe("check", RACE), in_pipe("check", RACE, FORCE_COLOR="1")
    assert "\x1b" not in plain
    assert "\x1b[" in forced
    assert ESCAPES.sub("", forced) == plain
    assert in_pipe("check", RACE, FORCE_COLOR="1", NO_COLOR="1") == plain
    assert in_pipe("check", RACE, COLUMNS="40") == plain


def test_documents_have_no_colours_anywhere() -> None:
    _, seen, _ = in_terminal(40, "check", RACE, "--json")
    assert json.loads(seen)["findings"][0]["code"] == "TG101"
    _, seen, _ = in_terminal(40, "check", RACE, "--sarif")
    assert json.loads(seen)["version"] == "2.1.0"


# --- bars ---------------------------------------------------------------------------------------------------------

WORK = [
    ("check examples/gemm_mbarrier.tide examples/scan.tide", "files", "judging @gemm_mbarrier"),
    ("explain examples/gemm_two_slots.tide", "explaining @gemm_two_slots", "explaining @gemm_two_slots"),
    (
        "sync examples/gemm_two_slots.tide --strategy optimal",
        "synchronizing @gemm_two_slots",
        "judging @gemm_two_slots",
    ),
    ("schedule examples/gemm_one_slot.tide --strategy none", "scheduling @gemm_one_slot", "scheduling @gemm_one_slot"),
    ("run examples/gemm_two_slots.tide", "@gemm_two_slots, workgroups", "@gemm_two_slots, workgroups"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("work", "first", "second"), WORK, ids=[each[0].split()[0] for each in WORK])
def test_long_work_has_a_bar_that_goes_away(work: str, first: str, second: str) -> None:
    """The output is what it would be without; what stands on the terminal at the end is the report alone."""
    _, seen, out = in_terminal(100, *work.split(), start=HASTY, out_in_pipe=True)
    _, quiet, same = in_terminal(100, *work.split(), start=HASTY, out_in_pipe=True, TERM="dumb")
    assert first in seen
    assert second in seen
    assert out == same
    assert first not in quiet
    assert "\x1b[2K" in seen.rpartition(second)[2]
    left = re.sub(r"(?:\x1b\[1A\x1b\[2K)+", "", seen.rpartition("\x1b[2K")[2])
    assert ESCAPES.sub("", left).strip() == quiet.strip()


@pytest.mark.parametrize("more", ["--json", "--sarif"])
def test_no_bar_beside_a_document(more: str) -> None:
    _, seen, out = in_terminal(80, "check", "examples/gemm_mbarrier.tide", RACE, more, start=HASTY, out_in_pipe=True)
    assert seen == ""
    assert json.loads(out)


def test_no_bar_in_a_pipe() -> None:
    done = subprocess.run(
        [*HASTY, "check", "examples/gemm_mbarrier.tide", LONG], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stderr == ""
    assert "judging" not in done.stdout


def test_what_is_printed_meanwhile_stands_in_the_output() -> None:
    """Not in the error stream, to which the bar goes."""
    work = ("check", "examples/gemm_mbarrier.tide", "--print-after", "graph")
    _, seen, out = in_terminal(80, *work, start=HASTY, out_in_pipe=True)
    assert out == in_pipe(*work)
    assert "# after graph" not in seen


# --- help ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "targets", "show", "sync", "check", "explain", "schedule", "run", "draw", "demo"])
def test_help_fits(name: str) -> None:
    narrow, wide = (in_pipe(*name.split(), "--help", COLUMNS=columns) for columns in ("40", "300"))
    too_wide = [line for line in narrow.split("\n") if len(line) > 40]
    assert all(re.fullmatch(r"  tidegate \w+( [^-]\S*)*( \\)?", line) for line in too_wide), too_wide
    assert all(len(line) <= 120 for line in wide.split("\n"))
    assert len(wide.split("\n")) < len(narrow.split("\n"))
    _, seen, _ = in_terminal(80, *name.split(), "--help")
    assert seen.startswith("\x1b[1mUsage:\x1b[0m tidegate")


def test_examples_are_taken_out_of_a_docstring() -> None:
    text = "Does it.\n\nMore.\n\nExamples: `tidegate a b`,\n`tidegate a\nc`"
    assert split_examples(text) == ("Does it.\n\nMore.", ("tidegate a b", "tidegate a c"))
    assert split_examples("Does it.") == ("Does it.", ())


def test_a_long_example_can_be_pasted() -> None:
    command = "tidegate schedule gemm.tide --prefetch --strategy two-pp-cluster -o pingpong.tide"
    lines = list(continued(command, 38))
    assert len(lines) > 1
    assert all(len(line) <= 38 for line in lines)
    pasted = subprocess.run(["bash", "-c", "echo " + "\n".join(lines)], capture_output=True, text=True, check=True)
    assert pasted.stdout.rstrip("\n") == command
    assert list(continued(command, 200)) == [command]


def test_what_is_misspelt_gets_the_nearest_name() -> None:
    assert "Did you mean 'explain'?" in in_pipe("explian", LONG)
    assert "--strategy" in in_pipe("sync", LONG, "--stratgey", "optimal").partition("No such option")[2]
    assert "did you mean `gfx950`?" in in_pipe("check", LONG, "--target", "gfx95o")


# --- completion ---------------------------------------------------------------------------------------------------


def complete(line: str, folder: Path = ROOT) -> list[str]:
    """What bash is offered for the last word of a line."""
    words = line.split(" ")
    settings = environment(COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), _TIDEGATE_COMPLETE="complete_bash")
    done = subprocess.run(START, capture_output=True, text=True, cwd=folder, env=settings, check=False)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("line", ["tidegate check a.tide --target ", "tidegate targets ", "tidegate sync a.tide -t "])
def test_targets_are_completed(line: str) -> None:
    assert complete(line) == [*known_targets(), "none"]
    assert complete(line + "sm_") == [each for each in known_targets() if each.startswith("sm_")]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tidegate s", "show sync schedule"),
        ("tidegate sync a.tide --strategy ", "minimal intersecting optimal"),
        ("tidegate schedule a.tide --strategy a", "auto async-two-pp-cluster"),
        ("tidegate show a.tide --print-after ", "kernel graph"),
        ("tidegate check a.tide --stop-after ", "kernel graph verify judge"),
        ("tidegate sync a.tide --print-after p", "plan"),
        ("tidegate sync a.tide --merge-waits ", "model never always"),
        ("tidegate explain a.tide --atomics c", "commute"),
        ("tidegate run a.tide --seed 3", "3"),
        ("tidegate check --s", "--sarif --size --seed --std --stop-after"),
    ],
)
def test_words_are_completed(line: str, offered: str) -> None:
    assert complete(line) == offered.split()


def test_files_are_completed(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "notes").mkdir()
    for name in ("kernels/a.tide", "kernels/b.py", "kernels/c.txt", "kernels/.hidden.tide", "gemm.sync", "x.md"):
        (tmp_path / name).write_text("kernel @first() waves 1 {\n}\nkernel @second() waves 1 {\n}\n")
    assert complete("tidegate check ", tmp_path) == ["gemm.sync", "kernels/", "notes/"]
    assert complete("tidegate check ke", tmp_path) == ["kernels/a.tide", "kernels/b.py"]
    assert complete("tidegate check kernels/a", tmp_path) == ["kernels/a.tide"]
    assert complete("tidegate check gemm.sync ke", tmp_path) == ["kernels/a.tide", "kernels/b.py"]
    assert complete("tidegate check kernels/a.tide::s", tmp_path) == ["kernels/a.tide::second"]
    assert complete("tidegate check nothing", tmp_path) == []


def test_completion_executes_no_python(tmp_path: Path) -> None:
    code = "import tidegate as tg\nopen('executed', 'w')\n\n\n@tg.kernel(\n    waves=4,\n)\ndef gemm():\n    pass\n"
    (tmp_path / "gemm.py").write_text(code)
    assert complete("tidegate check gemm.py::", tmp_path) == ["gemm.py::gemm"]
    assert not (tmp_path / "executed").exists()


def test_the_script_for_bash_is_shown() -> None:
    settings = environment(_TIDEGATE_COMPLETE="source_bash")
    done = subprocess.run(START, capture_output=True, text=True, env=settings, check=False)
    assert "complete -o default -F _tidegate_completion tidegate" in done.stdout


# --- ends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [f"show {LONG}", "--help", "check --help", "targets", f"sync {LONG} --no-judge"])
def test_a_closed_pipe_ends_quietly(args: str) -> None:
    """The pipe is closed before anything is written to it."""
    ours, theirs = os.pipe()
    os.close(ours)
    with subprocess.Popen([*START, *args.split()], stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT) as process:
        os.close(theirs)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert process.returncode == 141
    assert "BrokenPipe" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["check", "show", "sync", "run"])
def test_ctrl_c_ends_quietly(command: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen(
        [*START, command, "slow.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert (process.returncode, rest) == (130, b"")


def test_a_reproducer_that_cannot_be_written_is_printed(tmp_path: Path) -> None:
    code = (
        "import sys, tempfile, tidegate.passes; from tidegate.cli import main\n"
        "def fail(*_, **__): raise AssertionError('impossible')\n"
        "tidegate.passes.run_stages = fail; tempfile.tempdir = 'nowhere'; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "check", str(ROOT / LONG)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("error: Tidegate failed: AssertionError: impossible\n")
    assert (ROOT / LONG).read_text(encoding="utf-8") in done.stderr


# --- diffs --------------------------------------------------------------------------------------------------------


def test_a_diff_is_what_changes(tmp_path: Path) -> None:
    source = (ROOT / RACE).read_text(encoding="utf-8")
    (tmp_path / "race.tide").write_text(source, encoding="utf-8")
    run = [*START, "sync", "race.tide"]
    diff = subprocess.run([*run, "--diff"], capture_output=True, text=True, cwd=tmp_path, check=True)
    after = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert diff.stderr == after.stderr
    applied = subprocess.run(["git", "apply", "-p0", "-"], input=diff.stdout, text=True, cwd=tmp_path, check=False)
    assert applied.returncode == 0
    assert (tmp_path / "race.tide").read_text(encoding="utf-8") == after.stdout
    again = subprocess.run([*run, "--diff"], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert again.stdout == ""


@pytest.mark.parametrize("more", [["-o", "out.tide"], ["--json"]])
def test_a_diff_stands_alone(more: list[str]) -> None:
    assert "`--diff` replaces" in in_pipe("sync", RACE, "--diff", *more)


def test_a_stream_that_was_closed_before_the_start(tmp_path: Path) -> None:
    for closing in ("targets >&-", "targets 2>&-", "check missing.tide >&- 2>&-"):
        done = subprocess.run(
            ["bash", "-c", f'"{sys.executable}" -m tidegate {closing}'], cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == (2 if "missing" in closing else 0)
