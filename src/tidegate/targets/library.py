"""Find targets: the files beside this one, and files of the user.

Needs   a name, an alias that a file declares, or a path that ends in `.toml`
Gives   the `Target`, read once for each version of its file
Keeps   a name is matched whole, never by a part of it; an empty name is the empty target
Cost    one small file; an alias, or a name that does not exist, reads all of them
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tidegate.diag import BadInput, Finding, Label
from tidegate.disk import read_whole, reason_of
from tidegate.targets import report
from tidegate.targets.model import Target
from tidegate.targets.parse import empty_target, parse_target
from tidegate.targets.places import find_places

_HERE = Path(__file__).parent
# The most that is read of one file: those beside this one have less than 20 kB.
MAX_BYTES = 4 << 20


def load_target(name_or_path: str) -> Target:
    """The target of this name, alias or file."""
    name = resolve(name_or_path)
    if not name:
        return _empty()
    path = Path(name) if name.endswith(".toml") else _HERE / f"{name}.toml"
    try:
        version = path.stat().st_mtime_ns
    except (OSError, ValueError) as error:
        raise BadInput(report.unreadable(name, _reason(error))) from None
    return _load(str(path), version)


def resolve(name: str) -> str:
    """The name of the target that `name` means; a path to a file and the empty name mean themselves."""
    if not name or name.endswith(".toml") or name in known_targets():
        return name
    aliases = _aliases()
    if name not in aliases:
        titles = {each: load_target(each).title for each in known_targets()}
        raise BadInput(report.unknown_target(name, known_targets(), tuple(sorted(aliases)), titles))
    return aliases[name]


@cache
def known_targets() -> tuple[str, ...]:
    """The names of the targets that come with Tidegate, in the order in which people would list them."""
    return tuple(sorted((path.stem for path in _HERE.glob("*.toml")), key=_age))


def default_target() -> str:
    """The target that commands take where nothing names one: its file says so."""
    return next((name for name in known_targets() if load_target(name).default), "")


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One line of the list of targets."""

    name: str
    title: str
    aliases: tuple[str, ...]
    wave_size: int
    lds_bytes: int
    barriers: str
    counters: tuple[str, ...]


def list_targets() -> tuple[TargetRow, ...]:
    """One row for each target that comes with Tidegate."""
    return tuple(_row(load_target(name)) for name in known_targets())


def _row(target: Target) -> TargetRow:
    barriers = ["split" if target.barrier.split else "monolithic"]
    if target.barrier.named_ids:
        barriers.append(f"{len(target.barrier.named_ids)} named")
    if target.barrier.mbarrier:
        barriers.append("mbarrier")
    return TargetRow(
        target.name,
        f"{target.vendor} {target.title}".strip(),
        target.aliases,
        target.wave.size,
        target.lds.bytes,
        ", ".join(barriers),
        tuple(f"{name} {counter.max}" for name, counter in target.counters.items()),
    )


@cache
def _empty() -> Target:
    return empty_target()


@cache
def _load(file: str, version: int) -> Target:
    """`version` makes a changed file a new entry of the cache."""
    try:
        return parse_target(read_whole(file, MAX_BYTES).decode(), file)
    except (OSError, ValueError) as error:
        raise BadInput(report.unreadable(file, _reason(error))) from None


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError) else "it is not UTF-8 text"


@cache
def _aliases() -> dict[str, str]:
    """Alias → target, over all files; a name that two of them claim is an error."""
    owners: dict[str, str] = {}
    for name in known_targets():
        for alias in load_target(name).aliases:
            if alias in owners or alias in known_targets():
                raise BadInput(_clash(alias, owners.get(alias, alias), name))
            owners[alias] = name
    return owners


def _clash(alias: str, first: str, second: str) -> Finding:
    labels = []
    for name in (second, first):
        file = _HERE / f"{name}.toml"
        places = find_places(file.read_text(encoding="utf-8"), str(file))
        labels.append(Label(places.at("name" if name == alias else "aliases"), f"`{name}` takes it"))
    return report.same_name(tuple(labels), alias)


def _age(name: str) -> tuple[str, int, str]:
    """Vendor prefix, then length before spelling: longer numbers are newer."""
    return name.rstrip("0123456789abcdef"), len(name), name
