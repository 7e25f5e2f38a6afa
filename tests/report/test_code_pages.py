"""Every code has a page with a wrong program that has the finding, and a right one that has none.

`test_docs.py` sees to it that what a page shows is what its commands print. Here the pages are held to what they are
for: the command behind `Wrong` names the code and ends with the status that the index promises, the command behind
`Right` ends with 0 and finds nothing. What no command can show is in a list, and its page says why.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest

import tidegate as tg
from tests.conftest import ROOT
from tests.house.test_docs import Block, blocks_of, commands_of, page
from tidegate.cli import main
from tidegate.codes import CODES

# A package that is missing, and a plan that somebody makes by hand: no command of a page shows these.
NO_COMMAND = {
    "TG019": "what is missing is a package",
    "TG024": "it takes a compiler of CUDA",
    "TG025": "it takes LLVM",
    "TG603": "only a program that makes one by hand",
}
# Here the command is wrong, not a file.
NO_FILE = {"TG501": "the mistake is in the command", "TG508": "the mistake is in the command"}
# What a run adds to the code that a page is about is where the same mistake leads.
STATUS = {"TG0": 2, "TG1": 1, "TG2": 1, "TG3": 1, "TG4": 0, "TG5": 2, "TG6": 2}
# Found by the verifier, and shown again in a run.
BY_VERIFIER = ("TG101", "TG102", "TG103", "TG104", "TG105")
SHOWN = [code for code in CODES if code not in NO_COMMAND]


def halves(code: str) -> tuple[str, str]:
    """A page from `Wrong` to `Right`, and from there on."""
    found = re.fullmatch(r"(?s).*?^(Wrong\b.*?)^(Right\b.*)", page(f"docs/codes/{code}.md"), re.MULTILINE)
    assert found, f"{code}: no `Wrong` before a `Right`"
    return found[1], found[2]


def commands(text: str) -> list[str]:
    return [
        command
        for block in blocks_of(text)
        if block.language == "console"
        for command, _ in commands_of(block.text)
        if command.startswith("$ tidegate")
    ]


def run(command: str) -> tuple[int, str]:
    """The exit status and both streams, in order."""
    out = io.StringIO()
    status: object = 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        patch.setattr(sys, "argv", command.split()[1:])
        patch.setenv("NO_COLOR", "1")
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    assert isinstance(status, int)
    return status, out.getvalue()


def files(code: str) -> dict[str, Block]:
    return {each.title: each for each in blocks_of(page(f"docs/codes/{code}.md")) if "." in each.title}


def test_every_code_is_in_the_navigation_once_and_in_order() -> None:
    nav = re.findall(r"(?m)^ +- codes/(TG\d{3})\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert nav == list(CODES)


@pytest.mark.parametrize("code", SHOWN)
def test_wrong_is_found_and_right_is_clean(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for title, block in files(code).items():
        Path(title).write_text(block.text + "\n", encoding="utf-8")
    wrong, right = halves(code)
    bad, good = commands(wrong), commands(right)
    assert bad, f"{code}: nothing shows what is wrong"
    assert good, f"{code}: nothing shows what is right"
    status, printed = run(bad[-1])
    assert f"[{code}]" in printed
    assert status == STATUS[code[:3]], printed
    status, printed = run(good[0])
    assert not re.search(r"\[TG\d{3}\]", printed), printed
    assert status == 0, printed


@pytest.mark.parametrize("code", [code for code in SHOWN if code not in NO_FILE])
def test_commands_are_about_the_files_of_the_page(code: str) -> None:
    wrong, right = halves(code)
    names = set(files(code))
    kinds = {name.rpartition(".")[2] for name in names if name.startswith(("wrong.", "right."))}
    assert len(kinds) == 1, f"{code}: a wrong and a right file of one kind"
    (kind,) = kinds
    assert {f"wrong.{kind}", f"right.{kind}"} <= names
    assert f"wrong.{kind}" in commands(wrong)[-1].split()
    assert f"right.{kind}" in commands(right)[0].split()
    assert files(code)[f"wrong.{kind}"].text != files(code)[f"right.{kind}"].text or "--size" in commands(wrong)[-1]


@pytest.mark.parametrize(("code", "why"), [*NO_COMMAND.items(), *NO_FILE.items()])
def test_what_cannot_be_shown_by_a_kernel_says_why(code: str, why: str) -> None:
    assert why in page(f"docs/codes/{code}.md")
    assert not any(name.startswith(("wrong.", "right.")) for name in files(code))


@pytest.mark.parametrize("code", BY_VERIFIER)
def test_the_verifier_suspects_what_is_wrong_and_proves_what_is_right(code: str) -> None:
    text = page(f"docs/codes/{code}.md")
    assert "The [verifier](../verify.md) finds the pair" in text
    assert "finds it by running" not in text
    (wrong,), (right,) = (tg.parse(files(code)[f"{which}.tide"].text).kernels for which in ("wrong", "right"))
    assert tg.prove(wrong).suspects
    assert tg.prove(right).is_proved
