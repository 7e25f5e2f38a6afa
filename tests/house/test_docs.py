"""The documentation is run: every example in it is executed, parsed or compared with what the program prints.

A fenced block is known by its language. `python` is executed, all blocks of a page in one namespace; `tide`, `sync` and
`toml` are read; `console` lines that start with `$ tidegate` are run, and what follows them must be what they print.
A block with `title="name.ext"` is also a file, in a folder that the page's later commands run in, with relative paths:
what they print is compared as it is, so that a path that was not given so would show. A title that starts
with `wrong` marks text that is meant to be rejected. A `text` block titled `output` is what the Python block before it
prints. A line `[...]` stands for lines that are left out. `--update` rewrites results.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

from tests.conftest import ROOT, slow_if
from tidegate.cli import app, main
from tidegate.codes import CODES
from tidegate.diag import BadInput, Finding
from tidegate.hosts.triton.dropin.records import clear_report

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
LONG = ("docs/benchmarks.md", "docs/command-line.md", "docs/schedule.md")  # pages whose commands take a minute

# Never decided by `check` alone.
ADVICE, BY_SYNC = "TG4", ("TG403",)
WHEN_RUN = ("TG022", "TG312")
# What running a program may add to the code that a page is about: where the same mistake leads.
FOLLOWS = ("TG1",)
# Shown by a command, by Python on the page itself, or elsewhere.
BY_COMMAND = ("TG019", "TG024", "TG025", "TG501", "TG508", "TG603")
# Pages whose commands read Triton's own syntax.
WITH_TRITON = ("docs/triton.md", "docs/drop-in.md")
WITH_WAVE = ("docs/wave.md",)  # tests/hosts/wave/test_wave_docs.py, in Wave's own environment
# tests/hosts/cuda/test_cuda_check.py, where NVRTC is installed
WITH_CUDA = ("docs/check-cuda.md", "docs/codes/TG024.md")
WITH_LLVM = ("docs/build.md", "docs/codes/TG025.md")  # tests/lowering/test_built.py


# --- blocks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    title: str
    first: int  # its first line, counted from 0
    last: int  # the line that closes it
    text: str

    @property
    def is_wrong(self) -> bool:
        return self.title.startswith("wrong")


def blocks_of(text: str) -> Iterator[Block]:
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        opening = re.fullmatch(r"```(\w+)(.*)", lines[number])
        number += 1
        if opening is None:
            assert not lines[number - 1].startswith("```"), f"line {number}: a block without a language"
            continue
        first = number
        while lines[number] != "```":
            number += 1
        title = re.search(r'title="([^"]*)"', opening[2])
        yield Block(opening[1], title[1] if title else "", first, number, "\n".join(lines[first:number]))
        number += 1


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# --- running a page -----------------------------------------------------------------------------------------------


class Page:
    """A page that is being run: its folder, its namespace, and what its examples print now."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.text = name, folder, page(name)
        self.namespace: dict[str, object] = {"__name__": f"docs_{re.sub(r'[^a-z0-9]', '_', name.lower())}"}
        self.printed = ""
        self.new: list[tuple[Block, str]] = []
        (folder / "examples").symlink_to(ROOT / "examples")
        self.remember_source()

    def remember_source(self) -> None:
        """Kernels are traced from their source: the page's Python, on the page's own lines."""
        lines = [""] * (self.text.count("\n") + 1)
        for block in blocks_of(self.text):
            if block.language == "python":
                for offset, line in enumerate(block.text.split("\n")):
                    lines[block.first + offset] = line
        source = [line + "\n" for line in lines]
        linecache.cache[self.name] = (sum(map(len, source)), None, source, self.name)

    def run(self) -> None:
        with contextlib.chdir(self.folder):
            for block in blocks_of(self.text):
                self.block(block)

    def block(self, block: Block) -> None:
        if "." in block.title:
            (self.folder / block.title).write_text(block.text + "\n", encoding="utf-8")
        match block.language:
            case "python":
                self.python(block)
            case "text" if block.title == "output":
                self.expect(block, self.printed.rstrip("\n"))
            case "console":
                self.expect(block, self.console(block))
            case "tide" | "sync" | "toml":
                self.read(block)

    def python(self, block: Block) -> None:
        code = compile("\n" * block.first + block.text, self.name, "exec", dont_inherit=True)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, self.namespace)
        self.printed = out.getvalue()

    def console(self, block: Block) -> str:
        """The block again, with what its commands print now. Commands of other programs stay as they are."""
        parts: list[str] = []
        for command, shown in commands_of(block.text):
            if not command.startswith("$ tidegate"):
                parts.append("\n".join([command, shown]) if shown else command)
                continue
            printed = run_command(shlex.split(command)[2:]).rstrip("\n")
            printed = shown if matches(shown, printed) else printed
            parts.append(f"{command}\n{printed}" if printed else command)
        return "\n".join(parts)

    def read(self, block: Block) -> None:
        found = findings_of(block, self.folder)
        meaningless = [each for each in found if each.is_bad_input]
        assert block.is_wrong or not meaningless, f"{self.name}:{block.first + 1}: {meaningless}"

    def expect(self, block: Block, now: str) -> None:
        if not matches(block.text, now):
            self.new.append((block, now))

    def updated(self) -> str:
        lines = self.text.split("\n")
        for block, now in reversed(self.new):
            lines[block.first : block.last] = now.split("\n")
        return "\n".join(lines)


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """Each `$ ...` line with what is shown under it."""
    for part in re.split(r"(?m)^(?=\$ )", text):
        if part:
            command, _, shown = part.partition("\n")
            yield command, shown.rstrip("\n")


def run_command(args: list[str]) -> str:
    """What the command prints to both streams, in order."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        patch.setattr(sys, "argv", ["tidegate", *args])
        patch.setenv("NO_COLOR", "1")
        with contextlib.suppress(SystemExit):
            main()
    return out.getvalue()


def matches(shown: str, printed: str) -> bool:
    """Whether the text is what was printed, where a line `[...]` stands for any lines."""
    pattern = "\n".join(re.escape(line) for line in shown.split("\n"))
    pattern = pattern.replace(re.escape("[...]"), "(?s:.*)")
    return re.fullmatch(pattern, printed) is not None


def findings_of(block: Block, folder: Path, *, advice: bool = False) -> list[Finding]:
    """What is wrong with a block, found as `tidegate check` would find it, with `--advice` or without."""
    from tidegate.advice import advise
    from tidegate.files import load
    from tidegate.passes import run_stages
    from tidegate.session import sessions_of
    from tidegate.targets import load_target

    path = folder / (block.title or f"block_{block.first}.{block.language}")
    path.write_text(block.text + "\n", encoding="utf-8")
    try:
        if block.language == "toml":
            load_target(str(path))
            return []
        found: list[Finding] = []
        for unit in sessions_of(load(str(path)), None):
            checked = run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None)
            found += [*checked.findings, *(advise(checked).findings if advice else ())]
        return found
    except BadInput as bad:
        return list(bad.findings)


@pytest.mark.parametrize("name", slow_if(NAMES, lambda name: name in LONG))
def test_examples_do_what_the_page_says(name: str, tmp_path: Path, update: bool) -> None:
    if name in WITH_TRITON and importlib.util.find_spec("triton") is None:
        pytest.skip(f"NOT TESTED: {name} reads Triton's own syntax, and Triton is not installed")
    if name in WITH_WAVE and importlib.util.find_spec("wave_lang") is None:
        pytest.skip(f"not here: {name} is run in an environment with Wave (`make test-wave`)")
    if name in WITH_CUDA:
        pytest.skip(f"not here: {name} is run with NVRTC (`make test-cuda`)")
    if name in WITH_LLVM:
        pytest.skip(f"not here: {name} is run with LLVM (`make test-compilers`)")
    run_page(name, tmp_path, update)


def run_page(name: str, folder: Path, update: bool) -> None:
    """Runs the examples of a page; what they print is what it says, or becomes it."""
    if name in WITH_TRITON:
        clear_report()  # of kernels that other tests have compiled in this process
    here = Page(name, folder)
    here.run()
    if update and here.new:
        (ROOT / name).write_text(here.updated(), encoding="utf-8")
    elif here.new:
        block, now = here.new[0]
        assert block.text == now, f"{name}:{block.first + 1}"


def test_there_are_many_examples() -> None:
    """So that a collector that finds none is noticed."""
    count: dict[str, int] = {}
    for name in NAMES:
        assert not re.search(r"(?m)^[ \t]+```", page(name)), f"{name}: an indented block would not be run"
        for block in blocks_of(page(name)):
            count[block.language] = count.get(block.language, 0) + 1
    assert {language: count.get(language, 0) >= least for language, least in MINIMUM.items()} == dict.fromkeys(
        MINIMUM, True
    ), count


MINIMUM = {"python": 18, "tide": 105, "sync": 5, "console": 75, "toml": 18, "text": 15}


# --- codes --------------------------------------------------------------------------------------------------------


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {path.stem for path in (DOCS / "codes").glob("TG*.md")} == set(CODES)
    index = page("docs/codes/index.md")
    for code, meaning in CODES.items():
        assert f"| [{code}]({code}.md) | {meaning} |" in index


@pytest.mark.parametrize("code", CODES)
def test_wrong_gives_this_code_and_right_does_not(code: str, tmp_path: Path) -> None:
    text = page(f"docs/codes/{code}.md")
    assert text.startswith(f"# {code}: {CODES[code]}\n")
    if code in BY_COMMAND:
        assert f"[{code}]" in text or f"{code}:" in text
        return
    wrong, right = (
        next(block for block in blocks_of(text) if block.title.startswith(f"{which}.")) for which in ("wrong", "right")
    )
    advice = code.startswith(ADVICE)
    found = {each.code for each in findings_of(wrong, tmp_path, advice=advice)}
    if code in BY_SYNC:
        assert not found
        assert f"warning[{code}]" in text
    elif code in WHEN_RUN:
        assert not found
        assert f"error[{code}]" in text
    else:
        assert code in found
        assert all(each.startswith(FOLLOWS) for each in found - {code}), found
    assert findings_of(right, tmp_path, advice=advice) == []


# --- completeness -------------------------------------------------------------------------------------------------


def test_the_language_page_has_every_operation() -> None:
    from tidegate.language.syntax import ARITY, FORMS, REGIONS
    from tidegate.language.types import DTYPES

    text = page("docs/language.md")
    for form in FORMS.values():
        assert f"`{form}`" in text.replace(r"\|", "|"), form
    for word in (*ARITY, *REGIONS, *DTYPES):
        assert f"`{word}`" in text, word


def test_the_command_page_has_every_command_and_option() -> None:
    text = page("docs/command-line.md")
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        start = text.index(f"## tidegate {name}")
        section = text[start : text.find("\n## ", start + 1)]
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert f"`{option}" in section, f"{name} {option}"


def test_the_glossary_has_the_words_of_the_code() -> None:
    text = page("docs/glossary.md")
    for word in (
        "access footprint hazard RAW WAR WAW window barrier signal wait queue counter phase stagger wave slot view "
        "demand distance pinned drain performed issued insertable judge configuration clash order race inversion "
        "placement upgrade weight"
    ).split():
        assert re.search(rf"\*\*[^*]*\b{word}\b", text, re.IGNORECASE), word


def test_the_page_of_schedules_has_every_reason_and_no_other() -> None:
    from tidegate.scheduling.model import REASONS

    table = page("docs/schedule.md").partition("| reason |")[2].partition("\n\n")[0]
    assert set(re.findall(r"(?m)^\| `([a-z-]+)` \|", table)) == set(REASONS)


def test_the_picture_of_ping_pong_is_what_its_page_draws(tmp_path: Path, update: bool) -> None:
    text, picture = page("docs/schedule.md"), DOCS / "pictures" / "pingpong.svg"
    (block,) = (block for block in blocks_of(text) if block.title == "gemm.tide")
    (tmp_path / block.title).write_text(block.text + "\n", encoding="utf-8")
    (command,) = re.findall(r"(?m)^\$ tidegate (draw gemm.tide .*)$", text)
    with contextlib.chdir(tmp_path):
        run_command(command.split())
    drawn = (tmp_path / picture.name).read_text(encoding="utf-8")
    if update:
        picture.write_text(drawn, encoding="utf-8")
    assert drawn == picture.read_text(encoding="utf-8")


def test_the_machine_model_has_the_bounds_of_the_judge() -> None:
    from tidegate.simulate import configurations as c
    from tidegate.simulate import explore as e
    from tidegate.simulate import judge as j
    from tidegate.simulate import trip_counts as t
    from tidegate.simulate.unroll import MOST_CALLS, MOST_POINTS

    usual = j.AT_ONCE
    for row in (
        f"| trips of one loop | {t.MOST_TRIPS}, and those of the default sizes |",
        f"| combinations of trip counts | {t.MOST_COMBINATIONS} |",
        f"| trips with conditions and remainders | {t.MOST_COMBINATIONS} |",
        f"| conditions with each other | {t.MOST_COMBINATIONS} |",
        f"| remainders of sizes | {t.MOST_REMAINDERS} in all, by constants up to {t.MOST_REMAINDERS} |",
        f"| combinations of flags, of numbers from outside | {t.MOST_COMBINATIONS} |",
        f"| configurations | {c.MOST_CONFIGURATIONS} |",
        f"| workgroups | {c.MOST_WORKGROUPS} |",
        f"| {j.MOST_CHOICES} in order | {j.MORE_CHOICES} at random |",
        f"| steps of one run with barrier objects | {j.LONGEST_EXPLORED:,} | {j.FEW_ORDERS} orders at random |",
        f"| {usual.states:,}, with `--explore` {j.EXPLORE.states:,} | {j.RANDOM_ORDERS} orders at random |",
        f"| steps of all runs, where {j.POINTS_TO_A_STEP} points or {j.COMPARED_IN_A_STEP} comparisons count as one, "
        f"and where a state counts as {e.STATE_COSTS} and a copy of one as {e.COPY_COSTS} | {usual.steps:,}, with",
        f"with barrier objects {j.WITH_OBJECTS.steps:,}, with",
        f"with `--explore` {j.EXPLORE.steps:,} | no further run |",
        f"or if only some configurations are run in any case | {usual.enough:,} |",
        f"numbers that the witness of a suspect names | {usual.replays} in all, and half of the steps |",
        f"| findings of one cause that are printed | {usual.alike} | only counted |",
        f"| points that all waves of a run pass | {j.most_points(usual):,} |",
        f"| points that one wave passes | {MOST_POINTS:,} |",
        f"| calls inside each other | {MOST_CALLS} |",
    ):
        assert row in page("docs/machine-model.md"), row


# --- what is found today ------------------------------------------------------------------------------------------


def found_by(name: str) -> str:
    """How `check` finds the mistake of a kernel of `examples/broken`."""
    import tidegate as tg
    from tidegate.language.check import check

    text = page(f"examples/broken/{name}.tide")
    (code,) = re.findall(r"^# finding: (TG\d{3}) at `", text, re.MULTILINE)
    (kernel,) = tg.parse(text).kernels
    if any(each.code == code for each in check(kernel, tg.load_target(kernel.target))):
        return "`check`"
    if not any(each.code == code for each in tg.check(kernel)):
        return "nothing"
    return "`check`, by the verifier" if tg.prove(kernel).suspects else "`check`, by running"


def test_the_table_of_broken_kernels_says_what_finds_them() -> None:
    text = page("examples/broken/README.md")
    rows = re.findall(r"(?m)^\| \[`(\w+)`\].* \| TG\d{3} \| ([^|]*) \|", text)
    assert {name for name, _ in rows} == {path.stem for path in (ROOT / "examples/broken").glob("*.tide")}
    assert rows == [(name, found_by(name)) for name, _ in rows]
    ways = ("`check`", "`check`, by the verifier", "`check`, by running")
    shape, verifier, running = (sum(each == by for _, each in rows) for by in ways)
    assert shape + verifier + running == len(rows)
    others = f"{verifier} by the verifier and {running} by running"
    said = f"all {len(rows)} are found, {shape} by the shape of the program, {others} it"
    assert said in " ".join(text.split())
    found = f"{shape} by checks of the program's form, {verifier} by the verifier, and {running} by running"
    said = f"`check` finds the mistake in all {len(rows)}: {found} the kernel"
    assert said in " ".join(page("README.md").split())


def test_the_library_page_has_every_public_name_that_is_no_operation() -> None:
    import tidegate as tg

    text = page("docs/library.md")
    homes = tg._HOMES.items()
    names = " ".join(names for home, names in homes if not home.startswith("tidegate.language")).split()
    assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set()


def test_contributing_names_every_make_target_and_every_part() -> None:
    text = page("CONTRIBUTING.md")
    shown = re.findall(r"(?m)^([a-z-]+):.* ## ", page("Makefile"))
    assert re.findall(r"(?m)^([a-z-]+):", page("Makefile")) == shown, "`make help` lists all"
    assert {name for name in shown if f"`make {name}`" not in text} == {"help"}
    parts = {
        path.name
        for path in (ROOT / "src/tidegate").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    unnamed = {part for part in parts if not re.search(rf"\b{re.escape(part)}\b", text)}
    assert unnamed == {"__init__.py", "collecting.py"}


# --- links and navigation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    text = re.sub(r"(?ms)^```.*?^```$|`[^`\n]*`", "", page(name))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / name).parent / file if file else ROOT / name
        assert path.exists(), f"{name} → {target}"
        if name.startswith("docs/") and file:
            assert path.resolve().is_relative_to(DOCS), f"{name} → {target}: not on the site"
        if anchor and path.suffix == ".md":
            assert anchor in anchors_of(path.read_text(encoding="utf-8")), f"{name} → {target}"


def anchors_of(text: str) -> set[str]:
    heads = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", text))
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


def test_the_navigation_names_every_page() -> None:
    named = set(re.findall(r"(?m)([\w./-]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert pages <= named
    assert named - pages <= {"benchmarks.md"}  # written by `make bench`


def test_pages_name_no_machine() -> None:
    for name in NAMES:
        assert not re.search(r"/home/|/root/|/work/|/tmp/", page(name)), name
