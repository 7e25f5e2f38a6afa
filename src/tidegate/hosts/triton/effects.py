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


# What an operation does, besides what `Effect` says of any. Fields are named as the keys of the table, which explains
# them; the first key that a row has in `KINDS` decides which of these it is.


@dataclass(frozen=True, slots=True)
class Allocates:
    layout: str = ""
    own_lanes: bool = False


@dataclass(frozen=True, slots=True)
class Frees:
    pass


@dataclass(frozen=True, slots=True)
class Views:
    view: str


@dataclass(frozen=True, slots=True)
class UsesObject:
    mbarrier: str
    by: str = "all"


@dataclass(frozen=True, slots=True)
class Meets:
    barrier: str
    spaces: str = ""
    shared_only: bool = False
    fenced: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Commits:
    commit: str


@dataclass(frozen=True, slots=True)
class WaitsFor:
    wait: str
    count: str = ""
    unit: str = "groups"
    by: str = "all"
    meets: str = ""
    memory: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fences:
    fence: str


@dataclass(frozen=True, slots=True)
class Schedules:
    pass


@dataclass(frozen=True, slots=True)
class Prioritizes:
    priority: str


@dataclass(frozen=True, slots=True)
class Touches:
    memory: tuple[str, ...]
    layout: str = ""
    own_lanes: bool = False
    queue: str = ""
    proxy: str = "generic"
    by: str = "all"
    only_if: str = ""
    stores: int = 0
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class UsesScratch:
    scratch: tuple[str, ...]
    by: str = "all"
    inside_a_warp: bool = False
    release: bool = False
    acquire: bool = False


Does = (
    Allocates | Frees | Views | UsesObject | Meets | Commits | WaitsFor | Fences | Schedules | Prioritizes
    | Touches | UsesScratch
)  # fmt: skip
KINDS: dict[str, type[Does]] = {
    "alloc": Allocates,
    "free": Frees,
    "view": Views,
    "mbarrier": UsesObject,
    "barrier": Meets,
    "commit": Commits,
    "wait": WaitsFor,
    "fence": Fences,
    "schedule": Schedules,
    "priority": Prioritizes,
    "memory": Touches,
    "scratch": UsesScratch,
}
MARKS = ("alloc", "free", "schedule")  # keys that say no more than which kind it is
WORDS = {
    "memory": MEMORY,
    "scratch": (*ACCESSES, "barrier"),
    "view": VIEWS,
    "barrier": BARRIERS,
    "mbarrier": MBARRIERS,
    "queue": QUEUES,
    "commit": QUEUES,
    "wait": QUEUES,
}


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of the table; `effects.toml` says what each word means."""

    does: Does | None = None
    before: bool = False
    after: bool = False
    forwards: bool = False
    nothing: bool = False
    role: str = ""

    @property
    def queue(self) -> str:
        return self.does.queue if isinstance(self.does, Touches) else ""

    @property
    def commit(self) -> str:
        return self.does.commit if isinstance(self.does, Commits) else ""

    @property
    def wait(self) -> str:
        return self.does.wait if isinstance(self.does, WaitsFor) else ""

    @property
    def meets(self) -> str:
        return self.does.meets if isinstance(self.does, WaitsFor) else ""

    @property
    def barrier(self) -> str:
        return self.does.barrier if isinstance(self.does, Meets) else ""

    @property
    def mbarrier(self) -> str:
        return self.does.mbarrier if isinstance(self.does, UsesObject) else ""

    @property
    def by(self) -> str:
        """Who does it: `all`, `one`, `lanes`."""
        return self.does.by if isinstance(self.does, UsesObject | WaitsFor | Touches | UsesScratch) else "all"


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
    values = {"only_if" if key == "if" else key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
    kind = next((key for key in values if key in KINDS and (key != "memory" or "wait" not in values)), None)
    every = {each.name for kind in (Effect, *KINDS.values()) for each in fields(kind)} - {"does"}
    for key, value in values.items():
        if key not in every and key not in MARKS:
            raise ValueError(f"effects.toml: `{name}` says `{key}`, which is unknown")
        for word in value if isinstance(value, tuple) else (value,):
            if key in WORDS and word not in WORDS[key]:
                raise ValueError(f"effects.toml: `{name}` says `{word}`, which is unknown")
    own = {each.name for each in fields(KINDS[kind])} if kind else set()
    given = {key: value for key, value in values.items() if key in own}
    common = {key: value for key, value in values.items() if key not in own and key not in MARKS}
    try:
        return Effect(KINDS[kind](**given) if kind else None, **common)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(f"effects.toml: `{name}` says what does not go together: {error}") from error
