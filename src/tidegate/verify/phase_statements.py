"""What roles do at barrier objects.

Needs   roles and their domains
Gives   `Statement`: an arrival, a copy that reports, or a wait, of one role at one node
Keeps   every use of an object by any wave is among them; what cannot be said exactly raises `Outside`
Cost    the nodes of each role
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tidegate.graph import model as g
from tidegate.index import WAVE, ZERO, Const, Index
from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.language.types import BarrierObject
from tidegate.verify.events import WORKGROUP
from tidegate.verify.phase_domains import Domains
from tidegate.verify.phase_model import Outside, Role
from tidegate.verify.phase_space import Space

ARRIVES, COPIES, WAITS, MEETS = "arrives", "copies", "waits", "meets"


@dataclass(frozen=True, slots=True)
class SyncObject:
    """An object with phases, or a rendezvous of all waves, which has no number of arrivals."""

    name: str
    arrivals: int = 0
    slots: int = 1
    by_parity: bool = False
    waves: frozenset[int] | None = None  # who may take part; None: all

    def __str__(self) -> str:
        return f"`{self.name}`" if self.arrivals else "the workgroup's barrier"


@dataclass(frozen=True, slots=True, eq=False)
class ObjectUseAt:
    """`kind`: arrives, copies, waits; or meets, which is an arrival and a wait at once. `bytes`: of one wave.

    `maybe`: nobody can say in which iterations, but all waves come there in the same ones.
    """

    kind: str
    role: Role
    node: int
    barrier: SyncObject
    slot: Any
    domain: Any  # isl: iterations
    parity: Any = None
    bytes: int = 0
    maybe: bool = False

    @property
    def weight(self) -> int:
        return len(self.role.waves)


def barriers_of(graph: g.SyncGraph) -> dict[str, SyncObject]:
    found = {}
    for each in graph.objects:
        type_ = each.type
        assert isinstance(type_, BarrierObject)
        waves = frozenset(each.waves) if each.waves else None
        found[each.name] = SyncObject(each.name, type_.arrivals, type_.slots, type_.kind == "mbarrier", waves)
    return found


def statements_of(
    space: Space, domains: Domains, barriers: Mapping[str, SyncObject], apart: Container[int] | None
) -> Iterator[ObjectUseAt]:
    """`apart`: nodes to which not all waves come, if they run one program."""
    for node in domains.role.arms:
        for kind, barrier, slot, parity, size in _uses(space, node, barriers):
            domain = domains.found[node]
            if domain.points.is_empty():
                continue
            maybe = not domain.exact and kind == MEETS and apart is not None and node not in apart
            if not domain.exact and not maybe:
                raise Outside(f"{barrier} is used under conditions that nobody can compute")
            if barrier.waves is not None and not barrier.waves.issuperset(domains.role.waves):
                raise Outside(f"{barrier} is used by waves that it is not for")
            yield ObjectUseAt(
                kind,
                domains.role,
                node,
                barrier,
                _for(space, domains.role, slot, barrier),
                domain.points,
                None if parity is None else _for(space, domains.role, parity, barrier),
                size,
                maybe,
            )


def _for(space: Space, role: Role, index: Index, barrier: SyncObject) -> Index:
    found = space.counted(space.paths.math.put(index, {WAVE: Const(role.wave)}))
    if found is None:
        raise Outside(f"which phase of {barrier} is meant depends on values that nobody can compute")
    return found  # type: ignore[no-any-return]


def _uses(
    space: Space, node: int, barriers: Mapping[str, SyncObject]
) -> Iterator[tuple[str, SyncObject, Index, Index | None, int]]:
    use = space.footprints.uses.get(node)
    match space.flow.action(node):
        case g.Sync(ops.MbarrierArrive(expect=expect)) if use is not None:
            yield ARRIVES, barriers[use.object], use.slot, None, expect
        case g.Sync(ops.MbarrierWait()) if use is not None:
            yield WAITS, barriers[use.object], use.slot, use.parity, 0
        case g.Access(footprint=foot, is_async=True) as access if access.mbarrier is not None:
            if use is None or use.object not in barriers:
                raise Outside("a copy reports to an object that nobody can tell")
            size = foot.width * prod(each.count for each in foot.extents)
            yield COPIES, barriers[use.object], use.slot, None, size
        case g.Sync(ops.WorkgroupBarrier() | ops.SharedMemoryBarrier()):
            yield MEETS, SyncObject(str(WORKGROUP)), ZERO, None, 0
        case g.Sync(ops.ConditionalBarrier()):
            raise Outside("conditional barriers beside barrier objects")
        case g.Sync(ops.Signal(barrier=barrier)):
            yield ARRIVES, _named(barrier, barriers), ZERO, None, 0
        case g.Sync(ops.Wait(barrier=barrier)):
            yield WAITS, _named(barrier, barriers), ZERO, None, 0
        case g.Unknown() | g.Call() if space.flow.closed:
            raise Outside("recursive calls")


def _named(barrier: int | Value, barriers: Mapping[str, SyncObject]) -> SyncObject:
    return barriers[barrier.name] if isinstance(barrier, Value) else SyncObject(str(barrier))
