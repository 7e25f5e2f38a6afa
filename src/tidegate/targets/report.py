"""What is wrong with a target file or a target name, as findings.

Needs   the place, the key and the value at fault
Gives   one `Finding` for each kind of mistake, with the probable meaning where there is one
Keeps   codes as `schema.CODES` lists them
Cost    linear in the words known at that place
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import takewhile

from tidegate.diag import Finding, Label, Span, closest
from tidegate.targets.schema import Fact

_TYPES = {bool: "true or false", int: "an integer", str: "a text"}
_PLURALS = {bool: "truth values", int: "integers", str: "texts"}


def name_of(fact: Fact) -> str:
    """The type of a fact, in words."""
    return f"a list of {_PLURALS[fact.type]}" if fact.is_list else _TYPES[fact.type]


def not_toml(message: str, at: Span) -> Finding:
    return Finding("TG511", "this is not valid TOML", (Label(at, message[:1].lower() + message[1:]),))


def unknown_key(where: Label, key: str, known: tuple[str, ...]) -> Finding:
    return Finding(
        "TG502",
        f"`{key}` is not a key of a target file",
        (where,),
        (f"keys here: {', '.join(name.rpartition('.')[2] for name in known)}",),
        _meant(key, known),
    )


def no_source(where: Label, key: str, last: str, value: object) -> Finding:
    if key.endswith("]"):
        way = 'add `source = "..."` to the entry'
    else:
        way = f'write `{last} = {{ value = {_toml(value)}, source = "..." }}`'
    return Finding(
        "TG503",
        f"`{key}` is stated without a source",
        (where,),
        help=f"{way}, and list that source in `[sources]`",
    )


def unknown_source(where: Label, key: str, name: str, known: tuple[str, ...]) -> Finding:
    listed = f"sources of this file: {', '.join(known)}" if known else "this file has no `[sources]`"
    table = key.removesuffix(".source")
    help = _meant(name, known) or f'add `{name} = "..."` to `[sources]`'
    return Finding("TG504", f"`{table}` cites `{name}`, which the file does not list", (where,), (listed,), help)


def wrong_type(where: Label, key: str, wanted: str, value: object) -> Finding:
    return Finding("TG505", f"`{key}` must be {wanted}, not {_toml(value)}", (where,))


def out_of_range(where: Label, key: str, value: int, low: int, high: int) -> Finding:
    return Finding("TG506", f"`{key}` is {value}, but must lie between {low} and {high}", (where,))


def not_a_word(where: Label, key: str, value: str, words: tuple[str, ...]) -> Finding:
    listed = ", ".join(words)
    return Finding("TG506", f"`{key}` is `{value}`, but must be one of: {listed}", (where,), (), _meant(value, words))


def same_name(labels: tuple[Label, ...], name: str) -> Finding:
    return Finding("TG507", f"the target name `{name}` is taken twice", labels)


def unknown_target(name: str, known: tuple[str, ...], aliases: tuple[str, ...], titles: Mapping[str, str]) -> Finding:
    """`titles`: what each target is, with the products that have it."""
    sold_as = [each for each, title in titles.items() if name.lower() in re.split(r"[^a-z0-9]+", title.lower())]
    return Finding(
        "TG508",
        f"no target is named `{name}`",
        (),
        (f"targets: {', '.join(known)}", f"aliases: {', '.join(aliases)}"),
        (f"it is a `{sold_as[0]}`: {titles[sold_as[0]]}" if sold_as else _meant_target(name, known, aliases))
        or "for a target of your own give the path of its file, which ends in `.toml`",
    )


def missing_key(where: Label, owner: str, *keys: str) -> Finding:
    return Finding("TG509", f"{owner} must state {', '.join(f'`{key}`' for key in keys)}", (where,))


def unknown_counter(where: Label, key: str, name: str, known: tuple[str, ...]) -> Finding:
    listed = f"counters of this file: {', '.join(known)}" if known else "this file declares no counters"
    help = _meant(name, known) or f"declare it: `[counters.{name}]`"
    return Finding("TG510", f"`{key}` names `{name}`, which is not a counter", (where,), (listed,), help)


def unreadable(file: str, reason: str) -> Finding:
    return Finding("TG501", f"cannot read the target file: {reason}", (Label(Span(file, 0, 0, 0)),))


def _meant(word: str, known: tuple[str, ...]) -> str:
    match = closest(word, known)
    return f"did you mean `{match}`?" if match else ""


def _meant_target(name: str, known: tuple[str, ...], aliases: tuple[str, ...]) -> str:
    """The targets closest to a name, all that are equally close; aliases only where no name of a target is close.

    Among names that differ in as many letters, those that begin alike are of one family.
    """
    wanted = name.lower()
    for names in (known, aliases):
        ranks = {each: _likeness(wanted, each.lower()) for each in names}
        best = max(ranks.values(), default=(0.0, 0))
        if best[0] >= 0.6:
            meant = [f"`{each}`" for each in names if ranks[each] == best][:3]
            return f"did you mean {' or '.join([', '.join(meant[:-1]), meant[-1]] if meant[1:] else meant)}?"
    return ""


def _likeness(one: str, other: str) -> tuple[float, int]:
    """How much of both is the same, then how many letters they begin with in common."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return SequenceMatcher(None, one, other).ratio(), len(list(alike))


def _toml(value: object) -> str:
    """A value as a TOML file would write it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return "a table" if isinstance(value, dict) else str(value)
