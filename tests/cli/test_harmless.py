"""What is shown cannot talk to a terminal, and what is proposed can be done.

Escape sequences, C1 controls and bidirectional characters in names and source, wherever these are printed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tidegate as tg
from tests.cli.test_cli import FILES, GOOD, PYTHON
from tests.cli.test_refused import OBEYED, assert_harmless
from tests.cli.test_robust import Typed, assert_refused, folder, tidegate, typed
from tidegate.diag import Finding, Label, Sources, Span, findings_to_html, show_finding, visible
from tidegate.hints import TTGIR, in_ttgir
from tidegate.report.html import page_of
from tidegate.simulate.faults import SimulationError

__all__ = ["folder", "typed"]


def test_every_character_that_is_obeyed_is_shown_as_another() -> None:
    for text in OBEYED:
        shown = visible(text)
        assert len(shown) == len(text)
        assert shown.isprintable()
    assert visible("a\tb é 漢 🙂") == "a\tb é 漢 🙂"
    assert visible("\udc80\x1b\n") == "�␛␊"


@pytest.mark.parametrize("obeyed", OBEYED)
def test_a_finding_is_harmless(obeyed: str) -> None:
    at = Span(f"a{obeyed}.tide", 1, 1, 2)
    finding = Finding("TG001", f"m{obeyed}", (Label(at, f"l{obeyed}"),), (f"n{obeyed}",), f"h{obeyed}")
    text = show_finding(finding, Sources({at.file: f"s{obeyed} = 1\n"}))
    assert_harmless(text)
    assert text.count(visible(obeyed)) == 6


@pytest.mark.parametrize("obeyed", [*OBEYED, "\n", "\udc80"])
@pytest.mark.parametrize("text", ["race.tide", "good.tide", "bad.tide"])
def test_a_file_with_an_odd_name(folder: Path, typed: Typed, obeyed: str, text: str) -> None:
    name = f"a{obeyed}b.tide"
    (folder / name).write_text(FILES[text])
    for args in (
        ["check", name],
        ["check", name, "good.tide"],
        ["explain", name],
        ["run", name],
        ["sync", name, "-o", f"o{name}"],
    ):
        done = typed(*args)
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
        assert_harmless(done.stdout + done.stderr)


@pytest.mark.parametrize("obeyed", [*OBEYED, "\udc80"])
def test_documents_of_a_file_with_an_odd_name(folder: Path, typed: Typed, obeyed: str) -> None:
    name = f"a{obeyed}b.tide"
    (folder / name).write_text(FILES["race.tide"])
    for how in ("--json", "--sarif"):
        done = typed("check", name, how)
        assert done.returncode == 1
        assert done.stdout.isascii()
        assert_harmless(done.stdout)
        found = json.loads(done.stdout)
        if how == "--json":
            assert found["file"] == name.replace("\udc80", "�")
        else:
            (result,) = found["runs"][0]["results"]
            uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            assert bytes(uri, "ascii").isalnum() or "%" in uri


@pytest.mark.parametrize("obeyed", [*OBEYED, "\n", "\udc80"])
def test_what_is_typed_is_shown_harmless(folder: Path, typed: Typed, obeyed: str) -> None:
    odd = f"x{obeyed}"
    for args in (
        [odd],
        ["check", f"--{odd}"],
        ["check", f"nowhere{odd}.tide"],
        ["check", "good.tide", "-t", odd],
        ["check", "good.tide", "-t", f"{odd}.toml"],
        ["check", f"good.tide::{odd}"],
        ["sync", "good.tide", "--strategy", odd],
        ["sync", "good.tide", "--print-after", odd],
        ["sync", "race.tide", "-o", f"nowhere/{odd}.tide"],
        ["run", "good.tide", "--seed", odd],
        ["run", "good.tide", "--size", odd],
        ["draw", "good.tide", "-o", odd],
    ):
        done = typed(*args)
        assert_refused(done)
        assert_harmless(done.stdout + done.stderr)


@pytest.mark.parametrize("obeyed", [*OBEYED])
def test_source_lines_are_harmless(folder: Path, typed: Typed, obeyed: str) -> None:
    (folder / "odd.tide").write_text(FILES["race.tide"].replace("[wave]\n", f"[wave]  # {obeyed} c\n"))
    (folder / "token.tide").write_text(GOOD.replace("local_write", f"local{obeyed}write"))
    (folder / "raises.py").write_text(f"raise Exception({obeyed!r})  # {obeyed}\n{PYTHON}")
    for file in ("odd.tide", "token.tide", "raises.py"):
        for args in (["check", file], ["check", file, "--sarif"], ["run", file], ["explain", file]):
            done = typed(*args)
            assert "Traceback" not in done.stderr
            assert_harmless(done.stdout + done.stderr)
    if "\n" not in obeyed and obeyed not in ("\x85", "\u2028"):
        assert obeyed in typed("sync", "odd.tide").stdout  # a program keeps its bytes in a pipe


@pytest.mark.parametrize("obeyed", [each for each in OBEYED if each >= "\x7f"])
def test_pages_and_notebooks_are_harmless(obeyed: str) -> None:
    found = page_of({"name": f"k{obeyed}", "target": f"t{obeyed}", "text": f"</script>{obeyed}"})
    assert obeyed not in found
    assert "</script>�" not in found
    at = Span(f"a{obeyed}.tide", 1, 1, 2)
    assert obeyed not in findings_to_html([Finding("TG001", obeyed, (Label(at),))], Sources({at.file: obeyed}))


def test_a_stream_that_cannot_say_a_character_gets_an_escape(folder: Path) -> None:
    done = tidegate("explain", "good.tide", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0
    assert done.stdout.isascii()


# --- ways out that exist ------------------------------------------------------------------------------------------


def test_help_about_ttgir_names_its_operations() -> None:
    for known, wanted in TTGIR.items():
        found = in_ttgir(Finding("TG101", "x", help=f"insert `{known}` between the two, not `other`"))
        assert f"`{wanted}`" in found.help
        assert "`other`" in found.help
        assert f"`{known}`" not in found.help


def test_sync_is_proposed_only_where_it_helps(folder: Path, typed: Typed) -> None:
    """One statement that all waves perform on the same bytes: no barrier stands between it and itself."""
    assert "`tidegate sync race.tide` inserts" in typed("check", "race.tide").stdout
    (folder / "same.tide").write_text(GOOD.replace("local_write %a, %tile[wave]", "local_write %a, %tile[0]"))
    done = typed("check", "same.tide")
    assert done.returncode == 1
    assert "`tidegate sync" not in done.stdout


# --- the Python interface -----------------------------------------------------------------------------------------


def test_seeds_and_sizes_of_the_library_are_checked() -> None:
    @tg.kernel(waves=4, target="gfx942")
    def twice(X: tg.Global[256, tg.f32], Y: tg.Global[256, tg.f32]):  # type: ignore[no-untyped-def,valid-type]
        tg.global_write(tg.global_read(X, (tg.wave() * 64,), (64,)) * 2, Y, (tg.wave() * 64,))

    for seed in (-1, "x", None, 1.5):
        for run in (tg.run, tg.run_hostile):
            with pytest.raises(SimulationError, match="is not a seed"):
                run(twice, seed=seed)  # type: ignore[operator]
    with pytest.raises(SimulationError, match="at most 1,024"):
        tg.run(twice, waves=10**6)


@pytest.mark.parametrize("given", [None, 1, "k", [], object()])
def test_what_is_no_program_is_an_error_that_says_so(given: object) -> None:
    for function in (
        tg.schedule,
        tg.check,
        tg.sync,
        tg.explain,
        tg.run,
        tg.prove,
        tg.judge,
        tg.build_graph,
        tg.make_inputs,
        tg.draw,
    ):
        with pytest.raises(tg.TidegateError, match=r"is not a kernel|unknown file type `k`"):
            function(given)  # type: ignore[operator]


WRONG = """\
@tg.kernel({kernel})
def wrong(X: {type}):
    tile = tg.alloc({alloc}, tg.f32)
    tg.local_write(tg.global_read(X, {at}, (64,)), tile, ({slot},))
"""
RIGHT = {
    "kernel": "waves=4",
    "type": "tg.Global[256, tg.f32]",
    "alloc": "(4, 64)",
    "at": "(tg.wave() * 64,)",
    "slot": "tg.wave()",
}
ODD = (
    "None",
    "'x'",
    "1.5",
    "[]",
    "{}",
    "object()",
    "float('nan')",
    "10**400",
    "-1",
    "True",
    "b'x'",
    "lambda: 1",
    "tg",
    "1j",
)


@pytest.mark.parametrize("part", RIGHT)
def test_wrong_types_in_a_python_kernel_are_findings(folder: Path, typed: Typed, part: str) -> None:
    """In one file each; the command ends with findings or bad input, never with an internal error."""
    for odd in ODD:
        value = {"kernel": f"waves={odd}", "type": f"tg.Global[{odd}, tg.f32]"}.get(part, odd)
        (folder / "wrong.py").write_text("import tidegate as tg\n\n\n" + WRONG.format(**{**RIGHT, part: value}))
        done = typed("check", "wrong.py")
        assert done.returncode in (0, 1, 2), (odd, done.stderr)
        assert "Traceback" not in done.stderr


def test_reproducers_are_for_their_user_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidegate.cli.crash import report_crash

    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr("sys.argv", ["tidegate", "check", "good.tide::shift", "--json"])
    assert report_crash(KeyError("lost")) == 3
    (file,) = folder.glob("tidegate-crash-*.txt")
    assert file.stat().st_mode & 0o777 == 0o600
    assert GOOD in file.read_text()
    err = capsys.readouterr().err
    assert str(file) in err
    assert "the command, the versions, the traceback and all of `good.tide`" in err
    os.truncate(file, 0)
