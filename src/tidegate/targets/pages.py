"""Targets as pages of the documentation.

Needs   targets
Gives   `docs/targets/NAME.md`, and the table of targets in `docs/targets/index.md`, as Markdown
Keeps   a page says what `show_target` says, with the meaning of each fact; it follows from the data alone
Cost    linear in the facts
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.targets.model import Target
from tidegate.targets.schema import FACTS, OPERATIONS, Fact
from tidegate.targets.show import DEFAULT, named_apart, rows_of, text_of

# What the text of a source says where no document was read.
UNCHECKED = ("not checked against", "no vendor document", "from memory", "in a summary only")


def is_unchecked(source: str) -> bool:
    """Whether the text of a source says that it is not a document which somebody read."""
    return any(words in source for words in UNCHECKED)


def target_to_page(target: Target) -> str:
    """All facts of a target with their sources."""
    lines = [f"# {target.name}", "", _opening(target), ""]
    lines += _fact_tables(target)
    lines += _mma_table(target)
    if target.notes:
        lines += ["## Notes", ""]
        for index, note in enumerate(target.notes):
            source = target.cited[f"notes[{index}].text"]
            lines.append(f"* {note.text} ({source}{_mark(target.sources[source])})")
        lines.append("")
    if target.sources:
        lines += ["## Sources", "", "| source | text |", "|---|---|"]
        lines += [f"| {name}{_mark(text)} | {_plain(text)} |" for name, text in target.sources.items()]
    return "\n".join(lines).rstrip("\n") + "\n"


def _opening(target: Target) -> str:
    about = " ".join(each for each in (target.vendor, target.title) if each) or "No description"
    called = f", also called {', '.join(f'`{each}`' for each in target.aliases)}" if target.aliases else ""
    return (
        f"{about}{called}. `tidegate targets {target.name}` prints the same facts. A source marked * is not a document "
        "that somebody read: see [where facts come from](index.md#where-facts-come-from). What the file does not state "
        f"has the source `{DEFAULT}`."
    )


def _fact_tables(target: Target) -> Iterator[str]:
    by_key = {fact.key: fact for fact in FACTS}
    meanings = {each.name: each.meaning for each in OPERATIONS}
    table = ""
    for row in rows_of(target):
        place, _, last = row.key.rpartition(".")
        if place != table:
            if table:
                yield ""
            table = place
            yield from (f"## {place}", "")
            if place.startswith("operations."):
                yield from (f"{meanings[place.removeprefix('operations.')].capitalize()}.".replace("Lds", "LDS"), "")
            yield from ("| fact | value | source | meaning |", "|---|---|---|---|")
        source = f"{row.source}{_mark(target.sources[row.source])}" if row.source else DEFAULT
        yield f"| {last} | {text_of(row.value)} | {source} | {_meaning(row.key, by_key, target)} |"
    yield ""


def _meaning(key: str, by_key: dict[str, Fact], target: Target) -> str:
    first, _, rest = key.partition(".")
    fact = by_key[f"{first}.*.{rest.rpartition('.')[2]}" if first in ("counters", "operations") else key]
    more = list(named_apart(target)) if key == "barrier.named" else []
    return "; ".join([fact.meaning, *more])


def _mma_table(target: Target) -> Iterator[str]:
    if target.mma:
        yield from ("## mma", "", "| m × n × k | operands | accumulator | source |", "|---|---|---|---|")
        for index, each in enumerate(target.mma):
            source = target.cited[f"mma[{index}].m"]
            shape = f"{each.m} × {each.n} × {each.k}"
            yield f"| {shape} | {each.a} · {each.b} | {each.acc} | {source}{_mark(target.sources[source])} |"
        yield ""


def _mark(source: str) -> str:
    return r"\*" if is_unchecked(source) else ""


def _plain(text: str) -> str:
    return text.replace("|", r"\|")


def targets_to_table(targets: tuple[Target, ...]) -> str:
    """One line for each target: what it is, and what its facts rest on."""
    lines = [
        "| target | | stated | of them not read in a document | left at the default |",
        "|---|---|---|---|---|",
    ]
    for target in targets:
        rows = list(rows_of(target))
        cited = [row.source for row in rows if row.source]
        cited += [target.cited[f"mma[{index}].m"] for index in range(len(target.mma))]
        cited += [target.cited[f"notes[{index}].text"] for index in range(len(target.notes))]
        open_ = sum(is_unchecked(target.sources[source]) for source in cited)
        about = " ".join(each for each in (target.vendor, target.title) if each) or "–"
        left = len(rows) - sum(bool(row.source) for row in rows)
        lines.append(f"| [{target.name}]({target.name}.md) | {about} | {len(cited)} | {open_} | {left} |")
    return "\n".join(lines) + "\n"
