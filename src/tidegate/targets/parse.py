"""Read a target file: check every key against the schema, and build the target.

Needs   the text of a TOML file
Gives   a `Target`, or `BadInput` with every mistake of the file and its place
Keeps   no fact without a source that the file lists; nothing outside the schema is accepted
Cost    linear in the text

A fact is `key = { value = ..., source = "..." }`. Where a table has a `source`, a bare `key = value` takes that one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.targets import report
from tidegate.targets.model import (
    BarrierFacts,
    ByName,
    Cost,
    CounterFacts,
    FenceFacts,
    LdsFacts,
    MmaFacts,
    Note,
    OperationFacts,
    Target,
    WaveFacts,
)
from tidegate.targets.places import Places, find_places
from tidegate.targets.schema import (
    FACTS,
    IDENTITY,
    MMA_FACTS,
    NOTE_FACTS,
    OPERATIONS,
    Fact,
    Value,
    facts_of,
)

Values = dict[str, Any]
_MISSING = object()


def parse_target(text: str, file: str) -> Target:
    """The target that `text` describes; `file` is only its name in messages."""
    reader = _Reader(find_places(text, file))
    target = _build(reader, _load(text, file))
    if not target.name:
        reader.report(report.missing_key(reader.label("name"), "a target file", "name"))
    if reader.findings:
        raise BadInput(*reader.findings)
    return target


def empty_target() -> Target:
    """The target of which nothing is known: monolithic barriers, nothing assumed."""
    return _build(_Reader(Places("", [])), {})


def _load(text: str, file: str) -> Values:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        found = re.match(r"line (\d+), column (\d+)", place)
        line, column = (int(found[1]), int(found[2])) if found else (text.count("\n") + 1, 1)
        raise BadInput(report.not_toml(message, Span(file, line, column, column + 1))) from None
    except RecursionError:
        raise BadInput(report.not_toml("values are nested too deep", Span(file, 0, 0, 0))) from None
    except ValueError as error:  # a number of more digits than Python reads
        raise BadInput(report.not_toml(str(error), Span(file, 0, 0, 0))) from None


@dataclass(slots=True)
class _Reader:
    """What has been read of one file so far."""

    places: Places
    sources: dict[str, str] = field(default_factory=dict)
    cited: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def label(self, key: str, text: str = "") -> Label:
        return Label(self.places.at(key), text)

    def report(self, finding: Finding) -> None:
        self.findings.append(finding)


def _build(reader: _Reader, document: Values) -> Target:
    """All tables of a file, in the order of the schema."""
    known = [fact.key for fact in IDENTITY] + ["sources", *dict.fromkeys(fact.key.split(".")[0] for fact in FACTS)]
    for key in document:
        if key not in (*known, "mma", "notes"):
            reader.report(report.unknown_key(reader.label(key), key, (*known, "mma", "notes")))
    identity = _read_identity(reader, document)
    _read_sources(reader, document.get("sources", {}))
    counters = {
        name: CounterFacts(**_read_table(reader, f"counters.{name}", raw, facts_of("counters.*")))
        for name, raw in _table(reader, "counters", document).items()
    }
    return Target(
        **identity,
        wave=WaveFacts(**_read_top(reader, "wave", document)),
        lds=LdsFacts(**_read_top(reader, "lds", document)),
        barrier=BarrierFacts(**_read_top(reader, "barrier", document)),
        fence=FenceFacts(**_read_top(reader, "fence", document)),
        counters=ByName(tuple(counters.items())),
        operations=_read_operations(reader, document, tuple(counters)),
        mma=tuple(MmaFacts(**values) for values in _read_records(reader, "mma", document, MMA_FACTS)),
        cost=Cost(**_read_top(reader, "cost", document)),
        notes=tuple(Note(**values) for values in _read_records(reader, "notes", document, NOTE_FACTS)),
        sources=ByName(tuple(reader.sources.items())),
        cited=ByName(tuple(reader.cited.items())),
    )


def _read_identity(reader: _Reader, document: Values) -> Values:
    """Name, vendor, title and aliases: they say what the file is about and need no source."""
    values: Values = {}
    for fact in IDENTITY:
        values[fact.key] = _check(reader, fact.key, fact, document.get(fact.key, _MISSING))
    seen: set[str] = {values["name"]}
    for alias in values["aliases"]:
        if alias in seen:
            reader.report(report.same_name((reader.label("aliases", f"`{alias}` again"),), alias))
        seen.add(alias)
    return values


def _read_sources(reader: _Reader, raw: object) -> None:
    for name, text in _table(reader, "sources", {"sources": raw}).items():
        if isinstance(text, str) and text.strip():
            reader.sources[name] = text
        else:
            reader.report(report.wrong_type(reader.label(f"sources.{name}"), f"sources.{name}", "a text", text))


def _table(reader: _Reader, key: str, document: Values) -> Values:
    raw = document.get(key, {})
    if isinstance(raw, dict):
        return raw
    reader.report(report.wrong_type(reader.label(key), key, "a table", raw))
    return {}


def _read_top(reader: _Reader, key: str, document: Values) -> Values:
    return _read_table(reader, key, document.get(key, {}), facts_of(key))


def _read_table(reader: _Reader, key: str, raw: object, facts: tuple[Fact, ...]) -> Values:
    """The value of each fact of a table, by the last part of its key."""
    table = _table(reader, key, {key: raw})
    names = tuple(fact.last for fact in facts)
    for name in table:
        if name not in (*names, "source"):
            reader.report(report.unknown_key(reader.label(f"{key}.{name}"), f"{key}.{name}", _dotted(key, names)))
    shared = _source_of(reader, f"{key}.source", table.get("source"))
    return {fact.last: _read_fact(reader, f"{key}.{fact.last}", fact, table, shared) for fact in facts}


def _dotted(table: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{table}.{name}" for name in names)


def _read_fact(reader: _Reader, key: str, fact: Fact, table: Values, shared: str) -> Value:
    """One fact: a table of value and source, or a bare value under the source of its table."""
    raw = table.get(fact.last, _MISSING)
    if raw is _MISSING:
        return fact.default
    if isinstance(raw, dict):
        strange = [name for name in raw if name not in ("value", "source")]
        for name in strange:
            known = _dotted(key, ("value", "source"))
            reader.report(report.unknown_key(reader.label(f"{key}.{name}"), f"{key}.{name}", known))
        source = _source_of(reader, f"{key}.source", raw.get("source")) or shared
        is_cited = bool(strange) or "source" in raw or "source" in table
        if "value" not in raw:
            reader.report(report.missing_key(reader.label(key), f"`{key}`", "value"))
            return fact.default
        raw = raw["value"]
    else:
        source, is_cited = shared, "source" in table
    if not is_cited and "[" not in key:
        reader.report(report.no_source(reader.label(key), key, fact.last, raw))
    reader.cited[key] = source
    return _check(reader, key, fact, raw)


def _source_of(reader: _Reader, key: str, raw: object) -> str:
    """The name of a source, if the file lists it."""
    if raw is None:
        return ""
    if not isinstance(raw, str):
        reader.report(report.wrong_type(reader.label(key), key, "the name of a source", raw))
    elif raw not in reader.sources:
        reader.report(report.unknown_source(reader.label(key), key, raw, tuple(reader.sources)))
    else:
        return raw
    return ""


def _check(reader: _Reader, key: str, fact: Fact, raw: object) -> Value:
    """A value of the type and in the range that the schema asks for; else a finding and the default."""
    if raw is _MISSING:
        return fact.default
    items: list[Any] = raw if fact.is_list and isinstance(raw, list) else [raw]
    if fact.is_list != isinstance(raw, list) or any(type(item) is not fact.type for item in items):
        reader.report(report.wrong_type(reader.label(key), key, report.name_of(fact), raw))
        return fact.default
    for item in items:
        if isinstance(item, int) and not fact.low <= item <= fact.high:
            reader.report(report.out_of_range(reader.label(key), key, item, fact.low, fact.high))
            return fact.default
        if fact.words and item not in fact.words:
            reader.report(report.not_a_word(reader.label(key), key, str(item), fact.words))
            return fact.default
    value: Value = tuple(items) if fact.is_list else items[0]
    return value


def _read_operations(reader: _Reader, document: Values, counters: tuple[str, ...]) -> ByName[OperationFacts]:
    """Every class of access, stated or not; each names a counter of the file or none."""
    raw = _table(reader, "operations", document)
    names = tuple(each.name for each in OPERATIONS)
    for name in raw:
        if name not in names:
            key = f"operations.{name}"
            reader.report(report.unknown_key(reader.label(key), key, _dotted("operations", names)))
    pairs = []
    for name in names:
        key = f"operations.{name}"
        operation = OperationFacts(**_read_table(reader, key, raw.get(name, {}), facts_of("operations.*")))
        if operation.counter and operation.counter not in counters:
            where = reader.label(f"{key}.counter")
            reader.report(report.unknown_counter(where, f"{key}.counter", operation.counter, counters))
        pairs.append((name, operation))
    return ByName(tuple(pairs))


def _read_records(reader: _Reader, key: str, document: Mapping[str, Any], facts: tuple[Fact, ...]) -> list[Values]:
    """An array of tables, in which every field must be stated."""
    raw = document.get(key, [])
    if not isinstance(raw, list):
        reader.report(report.wrong_type(reader.label(key), key, "an array of tables", raw))
        return []
    records = []
    for index, entry in enumerate(raw):
        place = f"{key}[{index}]"
        if isinstance(entry, dict):
            if missing := [fact.last for fact in facts if fact.last not in entry]:
                reader.report(report.missing_key(reader.label(place), f"`{place}`", *missing))
            if "source" not in entry:
                reader.report(report.no_source(reader.label(place), place, facts[-1].last, ""))
        records.append(_read_table(reader, place, entry, facts))
    return records
