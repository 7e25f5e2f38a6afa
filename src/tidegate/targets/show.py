"""A target as text and as JSON: every fact with its value and its source.

Needs   a `Target`
Gives   the page of `tidegate targets NAME`, a versioned document, and the table of the documentation
Keeps   a fact that the file does not state is shown with its default and marked so
Cost    linear in the facts
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.targets.judges import JUDGES
from tidegate.targets.model import Target
from tidegate.targets.schema import FACTS, IDENTITY, MMA_FACTS, NOTE_FACTS, OPERATIONS, Fact, facts_of

JSON_VERSION = 1
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class FactRow:
    """One fact of one target; the source is empty where the value is the default."""

    key: str
    value: Any
    source: str


def rows_of(target: Target) -> Iterator[FactRow]:
    """All facts, in the order of the schema. Of an operation that is missing, only that it is."""
    for table in ("wave", "lds", "barrier", "fence"):
        yield from _table_rows(target, table, getattr(target, table), facts_of(table))
    for name, counter in target.counters.items():
        yield from _table_rows(target, f"counters.{name}", counter, facts_of("counters.*"))
    for name, operation in target.operations.items():
        facts = facts_of("operations.*")
        if not operation.present:
            facts = tuple(fact for fact in facts if fact.last == "present")
        yield from _table_rows(target, f"operations.{name}", operation, facts)
    yield from _table_rows(target, "cost", target.cost, facts_of("cost"))


def _table_rows(target: Target, table: str, values: object, facts: tuple[Fact, ...]) -> Iterator[FactRow]:
    for fact in facts:
        key = f"{table}.{fact.last}"
        yield FactRow(key, getattr(values, fact.last), target.cited.get(key, ""))


def show_target(target: Target) -> str:
    """The target as a page of plain text."""
    name = target.name or '"" (the empty target)'
    lines = [f"{name} · {target.vendor} {target.title}" if target.title else name]
    if target.aliases:
        lines.append(f"also called {', '.join(target.aliases)}")
    table = ""
    for row in rows_of(target):
        if row.key.rpartition(".")[0] != table:
            table = row.key.rpartition(".")[0]
            lines += ["", table]
        lines.append(f"  {row.key.rpartition('.')[2]:<18} {text_of(row.value):<22} {row.source or DEFAULT}")
        if row.key == "barrier.named_first":
            lines += [f"  {'':<18} {text}" for text in named_apart(target)]
    lines += _show_records(target)
    return "\n".join(lines) + "\n"


def named_apart(target: Target) -> Iterator[str]:
    """Why fewer named barriers can be used than there are: one of them is the workgroup's."""
    numbers = target.barrier.named_ids
    taken = [each for each in target.barrier.ids if 0 <= each - target.barrier.named_first < target.barrier.named]
    if taken:
        text = f"number {', '.join(map(str, taken))} is the workgroup's barrier, which leaves {len(numbers)}"
        yield f"{text}: {numbers[0]} to {numbers[-1]}" if numbers else text


def _show_records(target: Target) -> Iterator[str]:
    """Matrix instructions, notes and sources: the parts of the page that are lists."""
    if target.mma:
        yield from ("", "mma")
    for index, each in enumerate(target.mma):
        shape = f"{each.m}x{each.n}x{each.k}"
        yield f"  {shape:<18} {f'{each.a} · {each.b} → {each.acc}':<40} {target.cited[f'mma[{index}].m']}"
    if target.notes:
        yield from ("", "notes")
    for index, note in enumerate(target.notes):
        yield f"  {note.text} ({target.cited[f'notes[{index}].text']})"
    if target.sources:
        yield from ("", "sources")
    for name, text in target.sources.items():
        yield f"  {name}: {text}"


def text_of(value: object) -> str:
    """A value as the pages show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value) or "-"
    return str(value) if value != "" else "-"


def target_to_json(target: Target) -> dict[str, object]:
    """A versioned document; `default` marks the facts that the file does not state."""
    return {
        "version": JSON_VERSION,
        "name": target.name,
        "vendor": target.vendor,
        "title": target.title,
        "aliases": list(target.aliases),
        "facts": [
            {"key": row.key, "value": _plain(row.value), "source": row.source, "default": not row.source}
            for row in rows_of(target)
        ],
        "mma": [asdict(each) | {"source": target.cited[f"mma[{i}].m"]} for i, each in enumerate(target.mma)],
        "notes": [{"text": n.text, "source": target.cited[f"notes[{i}].text"]} for i, n in enumerate(target.notes)],
        "sources": dict(target.sources),
    }


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def schema_to_markdown() -> str:
    """The keys of a target file, their types and defaults, for `docs/targets/index.md`."""
    lines = ["| key | value | default | meaning | asked for by |", "|---|---|---|---|---|"]
    for fact in (*IDENTITY, *FACTS, *MMA_FACTS, *NOTE_FACTS):
        stated = fact in (*MMA_FACTS, *NOTE_FACTS) or fact.key == "name"
        default = "must be stated" if stated else _defaulttext_of(fact)
        judges = ", ".join(JUDGES.get(fact.key, ("shown",)))
        lines.append(f"| `{fact.key}` | {_values_of(fact)} | {default} | {fact.meaning} | {judges} |")
    lines += ["", "| operation | meaning |", "|---|---|"]
    lines += [f"| `{each.name}` | {each.meaning} |" for each in OPERATIONS]
    return "\n".join(lines) + "\n"


def _values_of(fact: Fact) -> str:
    if fact.words:
        return ", ".join(f"`{word}`" for word in fact.words)
    if fact.type is int:
        return f"{'integers' if fact.is_list else 'integer'} {fact.low}..{fact.high}"
    return {bool: "true, false", str: "texts" if fact.is_list else "text"}[fact.type]


def _defaulttext_of(fact: Fact) -> str:
    return {"yes": "true", "no": "false", "-": "none"}.get(text_of(fact.default), text_of(fact.default))
