"""Targets: the files load, every fact is cited, mistakes are named, and no code knows a GPU."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tests.conftest import ROOT
from tidegate.diag import BadInput, Sources, show_findings
from tidegate.targets import (
    CODES,
    FACTS,
    OPERATIONS,
    CounterFacts,
    MmaFacts,
    OperationFacts,
    Target,
    default_target,
    is_unchecked,
    known_targets,
    library,
    list_targets,
    load_target,
    parse_target,
    report,
    resolve,
    schema_to_markdown,
    show_target,
    target_to_json,
    target_to_page,
    targets_to_table,
)
from tidegate.targets.schema import IDENTITY, MMA_FACTS, facts_of
from tidegate.targets.show import rows_of

GOLDEN = ROOT / "tests" / "golden" / "targets"
PAGES = ROOT / "docs" / "targets"
NAMES = known_targets()
# Targets of which much is known. What is asked of them alone need not hold for a small file.
FULL = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201", "gfx1250", "sm_80", "sm_90")
TINY = """\
name = "tiny"

[sources]
isa = "Tiny instruction set, section 4"
talk = "from memory: a talk about it"

[wave]
source = "isa"
size = 16

[lds]
source = "isa"
bytes = 1000
in_order = true

[barrier]
source = "talk"
ids = [0]
named = 4

[counters.memcnt]
source = "isa"
max = 3
"""


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update", default=False))


def compare(page: Path, text: str, update: bool) -> None:
    if update:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text


def message_of(error: BadInput, text: str = "", file: str = "mine.toml") -> str:
    return show_findings(error.findings, Sources({file: text}))


# --- the files ---------------------------------------------------------------------------------------------------


def test_the_targets_that_come_with_tidegate() -> None:
    assert tuple(name for name in NAMES if name in FULL) == FULL
    assert default_target() == "gfx942"
    assert [row.name for row in list_targets()] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_golden_page(name: str, update: bool) -> None:
    compare(GOLDEN / f"{name}.txt", show_target(load_target(name)), update)


def test_golden_page_of_the_empty_target(update: bool) -> None:
    compare(GOLDEN / "empty.txt", show_target(load_target("")), update)


@pytest.mark.parametrize("name", NAMES)
def test_file_is_about_its_name_and_every_fact_is_cited(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert set(target.cited.values()) == set(target.sources), "each source is used, each fact has one"
    assert all(f"mma[{index}].{fact.last}" in target.cited for index in range(len(target.mma)) for fact in MMA_FACTS)


@pytest.mark.parametrize("name", FULL)
def test_much_is_known(name: str) -> None:
    target = load_target(name)
    assert target.vendor
    assert target.title
    assert len([row for row in rows_of(target) if row.source]) > 30
    assert target.wave.size * target.wave.max_per_workgroup == 1024
    assert target.barrier.wave_end == "leaves"


@pytest.mark.parametrize("name", FULL)
def test_each_source_says_where_to_look(name: str) -> None:
    for key, text in load_target(name).sources.items():
        checked = "https://" in text or "compiled with" in text or "assembled with" in text or "LLVM," in text
        checked |= "measured on" in text and "docs/benchmarks.md" in text
        honest = is_unchecked(text) or "PTX ISA" in text or "Triton," in text
        assert checked or honest, f"{key}: {text}"


@pytest.mark.parametrize("name", NAMES)
def test_facts_agree_with_each_other(name: str) -> None:
    target = load_target(name)
    assert target.lds.bytes % target.lds.granularity == 0
    assert not target.barrier.split or target.barrier.ids
    assert len(set(target.mma)) == len(target.mma)
    for operation in target.operations.values():
        assert not (operation.whole_tile and operation.bytes_per_lane)
        assert not operation.mbarrier or target.barrier.mbarrier
        assert operation.present or operation.counter == ""


# --- what the facts say ------------------------------------------------------------------------------------------


def test_barriers() -> None:
    assert not load_target("gfx942").barrier.split
    assert load_target("gfx1200").barrier.ids == (-1,)
    assert load_target("gfx1250").barrier.named_ids == tuple(range(1, 17))
    assert load_target("gfx1250").barrier.named_wave_end == "hangs"
    assert load_target("sm_90").barrier.named_ids == tuple(range(1, 16)), "0 is the barrier of the workgroup"
    assert load_target("sm_80").barrier.performs == "ordinary"
    assert {load_target(name).barrier.performs for name in FULL if name.startswith("gfx")} == {"nothing"}


def test_a_scalar_read_in_flight_makes_counts_useless() -> None:
    target = load_target("gfx942")
    assert target.may_count("lgkmcnt", ("local_read", "local_write"))
    assert not target.may_count("lgkmcnt", ("local_read", "scalar_read"))
    assert target.may_count("vmcnt", ("global_read", "global_write", "gather_to_lds", "scalar_read"))
    separate = load_target("gfx1200")
    assert separate.may_count("dscnt", ("local_read", "scalar_read"))
    assert not separate.may_count("kmcnt", ())


def test_copies() -> None:
    assert load_target("gfx950").counter_of("gather_to_lds") == "vmcnt"
    assert not load_target("gfx1100").has("gather_to_lds")
    assert load_target("gfx1250").counter_of("tensor_load_to_lds") == "tensorcnt"
    assert load_target("gfx1250").counter_of("lds_to_global") == "asynccnt"
    assert load_target("sm_80").counters["group"].unit == "groups"
    assert load_target("sm_90").counter_of("tensor_load_to_lds") == "", "it reports to an mbarrier"
    assert load_target("sm_90").operations["tensor_load_to_lds"].mbarrier


@pytest.mark.parametrize(
    ("name", "operation", "bytes", "expected"),
    [
        ("gfx942", "gather_to_lds", 64 * 16, (4, 4)),
        ("gfx950", "gather_to_lds", 64 * 16, (1, 4)),
        ("gfx950", "gather_to_lds", 64 * 16 + 1, (2, 5)),
        ("gfx1250", "gather_to_lds", 32 * 16, (1, 16)),
        ("gfx1250", "tensor_load_to_lds", 1 << 20, (1, 1)),
        ("gfx1250", "local_read", 32 * 64, (4, 64)),
        ("gfx942", "tensor_load_to_lds", 4096, (0, 0)),
        ("gfx942", "local_write", 0, (0, 0)),
        ("gfx942", "local_write", 1, (1, 1)),
        ("sm_80", "gather_to_lds", 32 * 16, (1, 4)),
        ("", "local_read", 4096, (1, 4096)),
        ("", "gather_to_lds", 4096, (1, 4096)),
    ],
)
def test_instruction_ranges(name: str, operation: str, bytes: int, expected: tuple[int, int]) -> None:
    assert load_target(name).instructions(operation, bytes) == expected


def test_waves_map_to_simds() -> None:
    assert [load_target("gfx942").wave.simd_of(wave) for wave in (0, 3, 4, 7)] == [0, 3, 0, 3]
    assert load_target("gfx1100").wave.simd_of(1) is None


def test_matrix_instructions() -> None:
    assert MmaFacts(16, 16, 32, "f16", "f16", "f32") in load_target("gfx950").mmas("f16", "f16", "f32")
    assert load_target("gfx942").mmas("f8e4m3fn", "f8e4m3fn", "f32") == ()
    assert load_target("sm_80").mmas("f8e4m3fn", "f8e4m3fn", "f32") == ()


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alias", "name"), [("gfx94", "gfx942"), ("gfx95", "gfx950"), ("gfx120x", "gfx1200"), ("sm_90a", "sm_90")]
)
def test_aliases(alias: str, name: str) -> None:
    assert resolve(alias) == name
    assert load_target(alias) is load_target(name)


@pytest.mark.parametrize("name", ["gfx9", "gfx94x", "gfx942:xnack+", "GFX942", "fx942", "gfx"])
def test_a_name_is_never_matched_in_part(name: str) -> None:
    with pytest.raises(BadInput) as error:
        load_target(name)
    assert [finding.code for finding in error.value.findings] == ["TG508"]


def test_unknown_name() -> None:
    with pytest.raises(BadInput) as error:
        load_target("gfx943")
    assert message_of(error.value) == (
        "error[TG508]: no target is named `gfx943`\n"
        f"  = targets: {', '.join(NAMES)}\n"
        f"  = aliases: {', '.join(sorted(alias for name in NAMES for alias in load_target(name).aliases))}\n"
        "  = help: did you mean `gfx942`?"
    )
    with pytest.raises(BadInput) as error:
        resolve("vega")
    assert message_of(error.value).endswith(
        "help: for a target of your own give the path of its file, which ends in `.toml`"
    )


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("gfx1202", "did you mean `gfx1200` or `gfx1201`?"),
        ("gfx943", "did you mean `gfx942`?"),
        ("gfx940", "did you mean `gfx942`?"),
        ("GFX942", "did you mean `gfx942`?"),
        ("sm_90b", "did you mean `sm_90`?"),
        ("sm90", "did you mean `sm_90`?"),
        ("gfx9", "did you mean `gfx90a`, `gfx942` or `gfx950`?"),
        ("family_x", "did you mean `family_y`?"),
        ("vega", ""),
    ],
)
def test_the_closest_names_are_meant(name: str, help: str) -> None:
    """Names of targets before aliases, and those of the same family before others that differ as much."""
    assert report._meant_target(name, FULL, ("family_y", "gfx120x", "gfx94", "gfx95", "sm_90a")) == help


def test_two_files_that_claim_one_alias(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"\naliases = ["both"]\n')
    with targets_in(tmp_path), pytest.raises(BadInput) as error:
        resolve("both")
    assert show_findings(error.value.findings, Sources()).replace(str(tmp_path), "HERE") == (
        "error[TG507]: the target name `both` is taken twice\n"
        " --> HERE/two.toml:2:1\n"
        "  |\n"
        '2 | aliases = ["both"]\n'
        "  | ------- `two` takes it\n"
        "  ::: HERE/one.toml\n"
        '2 | aliases = ["both"]\n'
        "  | ------- `one` takes it"
    )


@contextlib.contextmanager
def targets_in(folder: Path) -> Iterator[None]:
    """As if Tidegate came with the files of this folder."""

    def forget() -> None:
        library.known_targets.cache_clear()
        library._aliases.cache_clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "_HERE", folder)
        forget()
        try:
            yield
        finally:
            forget()


# --- a new target ------------------------------------------------------------------------------------------------


def test_a_small_file_is_a_target(tmp_path: Path, update: bool) -> None:
    """One file beside the others is all: it is listed, shown, has a page, and kernels are checked against it."""
    for path in library._HERE.glob("*.toml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    kernel = tg.parse("target tiny\nkernel @k() waves 4 {\n  %a = alloc : lds<512xf32>\n  wait_count memcnt(4)\n}\n")
    with targets_in(tmp_path):
        assert set(known_targets()) == {*NAMES, "tiny"}
        assert {row.name: row.barriers for row in list_targets()}["tiny"] == "monolithic, 3 named"
        tiny = load_target("tiny")
        with pytest.raises(BadInput) as error:
            load_target("tiny2")
        assert {each.code for each in tg.check(kernel.kernels[0])} == {"TG303", "TG310"}
    assert "tiny" in message_of(error.value)
    assert "did you mean `tiny`?" in message_of(error.value)
    compare(GOLDEN / "small.txt", show_target(tiny), update)
    assert "| named | 4 | talk\\* |" in target_to_page(tiny)
    assert "| [tiny](tiny.md) | – | 6 | 2 |" in targets_to_table((tiny,))


def test_a_small_file_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    assert load_target(str(file)) == parse_target(TINY, "tiny.toml")
    assert load_target(str(file)).instructions("local_write", 64) == (1, 64)


@pytest.mark.parametrize("name", NAMES)
def test_page_of_the_documentation(name: str, update: bool) -> None:
    compare(PAGES / f"{name}.md", target_to_page(load_target(name)), update)


def test_there_is_no_page_without_a_target() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {"index", *NAMES}


def test_the_navigation_has_every_target(update: bool) -> None:
    file = ROOT / "mkdocs.yml"
    text = file.read_text(encoding="utf-8")
    lines = "".join(f"          - targets/{name}.md\n" for name in ("index", *NAMES))
    now = re.sub(r"(?m)(?:^ +- targets/[\w.-]+\.md\n)+", lines, text)
    if update:
        file.write_text(now, encoding="utf-8")
        return
    assert text == now


def test_what_is_not_a_document_says_so() -> None:
    assert is_unchecked("not checked against a vendor document")
    assert is_unchecked("PTX ISA 9.0 (from memory)")
    assert not is_unchecked("PTX ISA 9.0, barrier{.cta}")


# --- the empty target --------------------------------------------------------------------------------------------


def test_the_empty_target_assumes_nothing() -> None:
    target = load_target("")
    assert target.name == ""
    assert not target.cited
    assert not target.counters
    assert not target.barrier.split
    assert target.barrier.performs == "nothing"
    assert not target.lds.in_order
    assert all(target.has(each.name) for each in OPERATIONS), "nothing is rejected"
    assert {target.counter_of(each.name) for each in OPERATIONS} == {""}
    assert {row.source for row in rows_of(target)} == {""}


# --- files of the user -------------------------------------------------------------------------------------------


def test_a_file_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    text = 'name = "mine"\n[sources]\nisa = "the manual"\n[lds]\nsource = "isa"\nbytes = 1024\n'
    file.write_text(text)
    target = load_target(str(file))
    assert (target.name, target.lds.bytes, target.cited["lds.bytes"]) == ("mine", 1024, "isa")
    assert load_target(str(file)) is target
    assert target == parse_target(text, "elsewhere.toml")
    assert target.wave == load_target("").wave


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "old"\n')
    assert load_target(str(file)).name == "old"
    file.write_text('name = "new"\n')
    later = file.stat().st_mtime_ns + 1_000_000_000
    os.utime(file, ns=(later, later))
    assert load_target(str(file)).name == "new"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        load_target("nowhere/mine.toml")
    assert message_of(error.value) == (
        "error[TG501]: cannot read the target file: no such file or directory\n --> nowhere/mine.toml"
    )
    file = tmp_path / "latin.toml"
    file.write_bytes(b'name = "\xe9"\n')
    with pytest.raises(BadInput) as error:
        load_target(str(file))
    assert "it is not UTF-8 text" in message_of(error.value)
    with pytest.raises(BadInput):
        load_target("nul\0.toml")


# --- mistakes ----------------------------------------------------------------------------------------------------


def bad_cases() -> list[tuple[str, str, str]]:
    """Title, file and message of each case of the golden page."""
    _, *sections = (GOLDEN / "bad.txt").read_text(encoding="utf-8").split("\n#### ")
    cases = []
    for section in sections:
        title, _, rest = section.partition("\n")
        text, _, message = rest.partition("\n====\n")
        cases.append((title, text + "\n", message.strip("\n")))
    return cases


def say(text: str) -> str:
    with pytest.raises(BadInput) as error:
        parse_target(text, "mine.toml")
    assert all(finding.is_bad_input and finding.code in CODES for finding in error.value.findings)
    return message_of(error.value, text)


@pytest.mark.parametrize(("title", "text", "message"), bad_cases(), ids=[case[0] for case in bad_cases()])
def test_mistakes_are_named(title: str, text: str, message: str, update: bool) -> None:
    said = say(text)
    if update:
        page = GOLDEN / "bad.txt"
        old, new = (f"#### {title}\n{text}====\n{each}\n" for each in (message, said))
        page.write_text(page.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        return
    assert said == message


def test_every_code_has_a_case() -> None:
    said = "".join(message for _, _, message in bad_cases())
    elsewhere = {"TG501", "TG508"}
    assert {code for code in CODES if code in said} | elsewhere == set(CODES)
    assert len(bad_cases()) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_any_line_may_be_lost(name: str) -> None:
    """Take one line away: the file still loads, or its mistake is a finding; there is never another exception."""
    lines = (ROOT / "src/tidegate/targets" / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    for index in range(0, len(lines), 3):
        text = "\n".join(lines[:index] + lines[index + 1 :])
        with contextlib.suppress(BadInput):
            parse_target(text, "mine.toml")


def test_any_damage_is_a_finding() -> None:
    """Whatever happens to a file, reading it ends in a target or in findings that can be shown."""
    chance = random.Random(0)
    whole = (ROOT / "src/tidegate/targets/gfx1250.toml").read_text(encoding="utf-8")
    for _ in range(300):
        at = chance.randrange(len(whole))
        text = whole[:at] + chance.choice(['"', "=", "[", "]", "{", "}", ",", "\n", "x", "\0", "7"]) + whole[at + 2 :]
        with contextlib.suppress(BadInput):
            parse_target(text, "mine.toml")


# --- the schema --------------------------------------------------------------------------------------------------


def test_the_schema_and_the_classes_have_the_same_fields() -> None:
    hints: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(Target)}
    assert set(hints) >= {fact.key for fact in IDENTITY}
    for table in ("wave", "lds", "barrier", "fence", "cost"):
        part = getattr(load_target(""), table)
        assert [field.name for field in dataclasses.fields(part)] == [fact.last for fact in facts_of(table)]
    for table, cls in (("counters.*", CounterFacts), ("operations.*", OperationFacts)):
        assert [field.name for field in dataclasses.fields(cls)] == [fact.last for fact in facts_of(table)]
    assert [field.name for field in dataclasses.fields(MmaFacts)] == [fact.last for fact in MMA_FACTS]


def test_defaults_lie_in_their_own_range() -> None:
    for fact in FACTS:
        if isinstance(fact.default, int) and fact.type is int:
            assert fact.low <= fact.default <= fact.high, fact.key
        if fact.words:
            assert fact.default in fact.words, fact.key


@pytest.mark.parametrize("part", ["keys", "targets"])
def test_the_documentation_has_the_tables(part: str, update: bool) -> None:
    page = PAGES / "index.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(f"<!-- {part} -->\n")
    table, _, after = rest.partition(f"<!-- end of {part} -->")
    now = schema_to_markdown() if part == "keys" else targets_to_table(tuple(map(load_target, NAMES)))
    if update:
        page.write_text(f"{before}<!-- {part} -->\n{now}<!-- end of {part} -->{after}", encoding="utf-8")
        return
    assert after
    assert table == now


def test_the_documentation_has_every_code() -> None:
    text = (ROOT / "docs/targets/index.md").read_text(encoding="utf-8")
    assert all(f"`{code}` | {title} |" in text for code, title in CODES.items())


# --- the rest ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", *NAMES])
def test_json_and_pickle(name: str) -> None:
    target = load_target(name)
    document = json.loads(json.dumps(target_to_json(target)))
    assert document["version"] == 1
    defaults = {fact["key"]: fact["default"] for fact in document["facts"]}
    assert defaults["lds.bytes"] is ("lds.bytes" not in target.cited)
    assert pickle.loads(pickle.dumps(target)) == target
    assert hash(target) == hash(pickle.loads(pickle.dumps(target)))


def test_no_code_names_an_architecture() -> None:
    """Names, attributes and strings; documentation, and messages after "as in", may give examples."""
    named = re.compile(r"\b(gfx\d\w*|sm_\d\w*)\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sorted((ROOT / "src/tidegate").rglob("*.py"))
        for line, word in words_of(path.read_text(encoding="utf-8"))
        if named.search(re.sub(r"as in `[^`]*`", "", word))
    ]
    assert found == []


def words_of(source: str) -> list[tuple[int, str]]:
    """The identifiers and the strings of a program, without its docstrings."""
    tree = ast.parse(source)
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    words = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            words.append((node.lineno, node.value))
        elif isinstance(node, ast.Name):
            words.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute):
            words.append((node.lineno, node.attr))
    return words


def test_the_import_is_cheap() -> None:
    code = "import sys, tidegate.targets; print(*sorted({'rich', 'numpy', 'islpy', 'typer'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
