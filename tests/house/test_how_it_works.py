"""The pages about how it works name files that exist, numbers that the code has, and sources that can be looked up."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.house.test_docs import page
from tidegate.footprint import phases, solve
from tidegate.placement import anywhere, drains, optimal, place
from tidegate.simulate import cycles
from tidegate.synchronize import choose, refine, together
from tidegate.targets import known_targets, load_target
from tidegate.verify import search, verify

ALGORITHMS = "docs/algorithms.md"
PARTS = ("Idea", "Cost", "Tested by")


def sections(name: str) -> dict[str, str]:
    """The parts of a page by their headings."""
    parts = re.split(r"(?m)^## (.*)$", page(name))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_algorithm_says_what_it_takes_and_gives_what_it_costs_and_why_it_is_right() -> None:
    found = sections(ALGORITHMS)
    named = re.findall(r"(?m)^\| \[[^\]]*\]\(#([\w-]+)\) \|", page(ALGORITHMS))
    heads = {re.sub(r"[^a-z -]", "", head.lower()).replace(" ", "-"): head for head in found}
    assert len(named) == 8
    for anchor in named:
        text = found[heads[anchor]]
        for part in ("From", "To"):
            assert f"**{part}**" in text, f"{anchor}: {part}"
        for part in PARTS:
            assert re.search(rf"\*\*{part}[^*]*\*\*", text), f"{anchor}: {part}"
        assert re.search(r"\*\*Why it (is right|may be trusted)", text), anchor
        assert re.search(r"`tests/[\w/]+/test_\w+\.py`", text), anchor


@pytest.mark.parametrize("name", [ALGORITHMS, "docs/verify.md", "docs/add-a-front-end.md", "docs/compare.md"])
def test_files_that_are_named_exist(name: str) -> None:
    for file in re.findall(r"`((?:tests|src|bench|oracles)/[\w/]+\.(?:py|toml))`", page(name)):
        assert (ROOT / file).exists(), file
    for file in re.findall(r"`((?:placement|waits|verify|simulate|synchronize)/\w+\.py)`", page(name)):
        assert (ROOT / "src" / "tidegate" / file).exists(), file


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("orbits of at most {} steps", solve.MOST_STEPS),
        ("bounded by {} combinations", phases.MOST_TRIED),
        ("hazards times places are at most {}", place.MOST_POLISHED),
        ("up to {} hazards times drains", drains.MOST_TRIES),
        ("`--time-limit` ({} s)", int(optimal.TIME_LIMIT)),
        ("up to {} proofs", refine.MOST_TRIALS),
        ("up to {} more where barriers move", together.MOST_MOVES),
        ("up to {} loops are tried", choose.MOST_LOOPS),
        ("{} visits in all", search.MOST_EFFORT),
        ("for {} draws", cycles.DRAWS),
    ],
)
def test_numbers_are_those_of_the_code(said: str, number: int) -> None:
    assert said.format(f"{number:,}") in page(ALGORITHMS)


def test_numbers_about_the_proof_are_those_of_the_code() -> None:
    text = page("docs/verify.md")
    assert f"the bound of {search.MOST_EFFORT:,} steps back along paths" in text
    assert f"more than {verify.MOST_SUSPECTS:,} suspects" in text
    assert f"Beyond {anywhere.MOST_TRIES:,} hazards times barriers" in page(
        "docs/decisions/0013-windows-are-difference-constraints.md"
    )


def test_the_page_about_proof_has_every_reason_why_nothing_is_decided() -> None:
    source = (ROOT / "src" / "tidegate" / "verify" / "protocol.py").read_text(encoding="utf-8")
    reasons = re.findall(r'found\.append\("([^"]+)"\)', source)
    assert len(reasons) >= 6
    for reason in reasons:
        assert f"`{reason}`" in page("docs/verify.md"), reason


def test_the_comparison_has_a_paragraph_and_a_source_for_each_tool() -> None:
    text = page("docs/compare.md")
    tools = re.findall(r"(?m)^\| \[[^\]]*\]\(#([\w-]+)\) \|", text)
    assert len(tools) == 8
    heads = {
        re.sub(r"[^a-z -]", "", head.lower()).replace(" ", "-"): body
        for head, body in sections("docs/compare.md").items()
    }
    for tool in tools:
        body = heads[tool]
        assert re.search(r"\]\(https://", body), f"{tool}: no source"
        assert re.search(r"\*What .* can and Tidegate cannot\*", body), f"{tool}: what it can that we cannot"
    assert "## What Tidegate cannot do at all" in text


@pytest.mark.parametrize("name", known_targets())
def test_the_page_of_a_target_lists_the_sources_of_its_facts(name: str) -> None:
    text, target = page(f"docs/targets/{name}.md"), load_target(name)
    listed = text.partition("## Sources")[2]
    cited = {source.rstrip("\\*") for source in re.findall(r"(?m)^\| [\w.]+ \| [^|]* \| ([\w.]+(?:\\\*)?) \|", text)}
    assert cited - {"default"}, "no fact cites anything"
    for source in cited - {"default"}:
        assert re.search(rf"(?m)^\| {re.escape(source)}(\\\*)? \| .", listed), source
    assert set(target.cited.values()) <= set(target.sources)
    assert f"- targets/{name}.md" in page("mkdocs.yml")
    assert f"[{name}]({name}.md)" in page("docs/targets/index.md")
