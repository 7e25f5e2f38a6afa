"""What operations do to shared memory, read from `effects.toml`.

Needs   the table beside this file
Gives   an `Effect` by the name of an operation
Keeps   the table is data: a new operation is a row there; a row that says something unknown is refused when it is read
Cost    read once
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from tidegate.hosts.mlir.model import Operation

ACCESSES = ("read", "write", "atomic")
MEMORY = (*ACCESSES, "barrier", "view", "unknown")
VIEWS = ("index", "subslice", "same")
BARRIERS = ("local", "bare", "conditional", "unmodelled")
MBARRIERS = ("init", "end", "expect", "arrive", "wait", "copies")
QUEUES = ("async", "tdm", "tma", "wgmma")


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of the table; `effects.toml` says what each word means."""

    memory: tuple[str, ...] = ()
    layout: str = ""
    own_lanes: bool = False
    queue: str = ""
    proxy: str = "generic"
    by: str = "all"
    only_if: str = ""
    view: str = ""
    alloc: bool = False
    free: bool = False
    commit: str = ""
    wait: str = ""
    count: str = ""
    unit: str = "groups"
    barrier: str = ""
    spaces: str = ""
    shared_only: bool = False
    fenced: str = ""
    scope: str = ""
    fence: str = ""
    schedule: bool = False
    priority: str = ""
    mbarrier: str = ""
    scratch: tuple[str, ...] = ()
    inside_a_warp: bool = False
    before: bool = False
    after: bool = False
    release: bool = False
    acquire: bool = False
    forwards: bool = False
    meets: str = ""
    nothing: bool = False
    stores: int = 0
    skipped: bool = False
    role: str = ""


NOTHING = Effect()


@cache
def effects() -> dict[str, Effect]:
    """The whole table."""
    text = files(__package__).joinpath("effects.toml").read_text(encoding="utf-8")
    return {name: _effect(name, row) for name, row in tomllib.loads(text).items()}


def may_go(op: Operation, used: frozenset[str]) -> bool:
    """Whether an operation can be taken out of a text: a barrier, or a wait whose token nothing uses.

    A wait that hands its operands on, or at which waves may meet, does more than wait.
    """
    effect = effects().get(op.name, NOTHING)
    only_waits = bool(effect.wait) and not effect.forwards and not effect.meets
    return bool(effect.barrier) or (only_waits and used.isdisjoint(op.results))


def _effect(name: str, row: dict[str, object]) -> Effect:
    known = {each.name for each in fields(Effect)}
    values: dict[str, object] = {}
    for key, value in row.items():
        key = "only_if" if key == "if" else key
        if key not in known:
            raise ValueError(f"effects.toml: `{name}` says `{key}`, which is unknown")
        values[key] = tuple(value) if isinstance(value, list) else value
    effect = Effect(**values)  # type: ignore[arg-type]
    for words, allowed in (
        (effect.memory, MEMORY),
        (effect.scratch, (*ACCESSES, "barrier")),
        ((effect.view,), ("", *VIEWS)),
        ((effect.barrier,), ("", *BARRIERS)),
        ((effect.mbarrier,), ("", *MBARRIERS)),
        ((effect.queue, effect.commit, effect.wait), ("", *QUEUES)),
    ):
        for word in words:
            if word not in allowed:
                raise ValueError(f"effects.toml: `{name}` says `{word}`, which is unknown")
    return effect
