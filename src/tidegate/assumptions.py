"""What a proof takes for granted: the assumptions that it holds under, each with a name that stays.

Needs   the graph that was judged, its target, and the kernel that it was built from, if there is one
Gives   the assumptions that the verdict about this program uses, in a fixed order
Keeps   no assumption is left out that the verifier or the simulator makes about this program; one that nothing in the
        program touches is not listed. Each name is a heading of docs/assumptions.md
Cost    linear in the graph; for `lane-map` a search from each ordinary access to the next synchronization

An assumption is about what lies outside of the model: callers, compilers, inputs. What the model itself says about a
GPU is a fact of its target file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from tidegate import index as ix
from tidegate.graph import model as g
from tidegate.language import ops
from tidegate.language.ops import Kernel, walk_ops
from tidegate.language.types import DTYPES, Tile
from tidegate.language.uses import places_of
from tidegate.targets import Target

PAGE = "docs/assumptions.md"


@dataclass(frozen=True, slots=True)
class Assumption:
    """`text`: a few words for the line below a proof. `meaning`: a sentence. The page says when it is false."""

    id: str
    text: str
    meaning: str

    @property
    def page(self) -> str:
        return f"{PAGE}#{self.id}"


class Host(Protocol):
    """A program of another compiler."""

    @property
    def assumed(self) -> frozenset[Assumption]:
        """What its graph relies on and does not show."""

    @property
    def is_final(self) -> bool:
        """Whether it is code for the hardware, which no compiler changes any more."""


NO_ALIAS = Assumption(
    "no-alias",
    "global buffers do not alias",
    "Global arrays share no bytes, and accesses to global memory are not checked for races.",
)
IN_RANGE = Assumption(
    "in-range",
    "indices in range",
    "Accesses whose place is not known exactly stay inside their buffers.",
)
COMPILER_ORDER = Assumption(
    "compiler-order",
    "the compiler keeps the order",
    "The compiler that lowers the program to instructions keeps every access to shared memory, and every copy, on its "
    "side of the barriers, waits and fences.",
)
LANE_MAP = Assumption(
    "lane-map",
    "one lane map per tile type",
    "The lowering assigns an element of a tile to the same lane wherever the shape and the element type are the same.",
)
SCATTER = Assumption(
    "scatter",
    "scatters hit each element once",
    "A write with one index per element writes each element at most once.",
)
AS_ONE = Assumption(
    "as-one",
    "copies of one value agree",
    "Waves and lanes that write the same bytes in one workgroup-wide operation write the same values.",
)
FLOAT_SUMS = Assumption(
    "float-sums",
    "float sums round in any order",
    "Atomic additions of floats whose results are not used may execute in any order: the last bits of a sum may "
    "differ between runs.",
)
WHERE = Assumption(
    "where",
    "`where` holds",
    "The kernel is launched with sizes that satisfy its `where` conditions.",
)
UNIFORM = Assumption(
    "uniform",
    "uniform conditions agree",
    "Values and branches that the program declares uniform are the same in all waves.",
)
LAUNCH = Assumption(
    "launch",
    "launched as stated",
    "A workgroup has the number of waves, and a wave the number of lanes, that the text states.",
)
NO_OVERFLOW = Assumption(
    "no-overflow",
    "32-bit indices do not overflow",
    "Sums, products and loop counters of 32 and more bits that slots, conditions and trip counts depend on stay in the "
    "range of their type.",
)
ALIGNED = Assumption(
    "aligned",
    "shared arrays are aligned",
    "Every array of shared memory starts at a multiple of 1024 bytes, as far as the bits of addresses can tell.",
)
NAMED_WAVE_END = Assumption(
    "named-wave-end",
    "ending waves do not arrive",
    "The end of a wave changes nothing at a named barrier: it neither arrives nor lowers the number of arrivals.",
)
PROXY_READS = Assumption(
    "proxy-reads",
    "reads end before async writes",
    "A write of the async proxy that barriers order behind generic reads comes behind them in memory, without a fence "
    "between the proxies: the user allows TG109.",
)
# What is assumed of every program of another compiler that has anything to order.
OF_HOSTS = (NO_ALIAS, IN_RANGE, COMPILER_ORDER, AS_ONE, LAUNCH, NO_OVERFLOW)
ALL = (
    NO_ALIAS,
    IN_RANGE,
    COMPILER_ORDER,
    LANE_MAP,
    SCATTER,
    AS_ONE,
    FLOAT_SUMS,
    WHERE,
    UNIFORM,
    LAUNCH,
    NO_OVERFLOW,
    ALIGNED,
    NAMED_WAVE_END,
    PROXY_READS,
)

# What keeps lanes of a wave apart from what they did before: nothing behind it leans on a lane map.
MEETINGS = (
    ops.WorkgroupBarrier,
    ops.SharedMemoryBarrier,
    ops.ConditionalBarrier,
    ops.Signal,
    ops.Wait,
    ops.MbarrierWait,
)


def find_assumptions(
    graph: g.SyncGraph,
    target: Target,
    *,
    kernel: Kernel | None = None,
    in_range: bool = True,
    leans: bool = True,
    allows: bool = False,
    host: Host | None = None,
) -> tuple[Assumption, ...]:
    """`kernel`: what the graph was built from. `in_range`: whether accesses were shown to stay in their buffers.

    `leans`: whether a proof may have relied on which lane touches which byte; a proof knows that it has not.
    `allows`: whether it holds only since the user allows TG109. `host`: the program of another compiler that the graph
    was made of.
    """
    assumed = host.assumed if host is not None else frozenset()
    used = {
        NO_ALIAS: _reads_and_writes_global(graph),
        IN_RANGE: not in_range or _has_inexact(graph, kernel),
        COMPILER_ORDER: _has_synchronization(graph) and not (host is not None and host.is_final),
        LANE_MAP: kernel is not None and leans and _leans_on_lanes(graph),
        SCATTER: kernel is not None and _scatters(kernel),
        AS_ONE: any(isinstance(each.action, g.Access) and _writes_as_one(each.action) for each in graph.points),
        FLOAT_SUMS: any(isinstance(each.action, g.Access) and _adds_floats(each.action) for each in graph.points),
        WHERE: bool(graph.where),
        UNIFORM: any(_is_declared_uniform(graph, point) for point in graph.points),
        LAUNCH: kernel is None,
        NO_OVERFLOW: False,  # a graph has numbers without a width: a front end says what it took for such
        ALIGNED: False,  # in a graph, buffers have offsets and no addresses
        PROXY_READS: allows,
        NAMED_WAVE_END: target.barrier.named_wave_end != "hangs" and _has_named(graph),
    }
    touches = any(isinstance(each.action, g.Access | g.Unknown | g.Sync) for each in graph.points)
    return tuple(each for each in ALL if (used[each] or each in assumed) and touches)


def show_assumptions(found: tuple[Assumption, ...]) -> str:
    """One line; empty if nothing is assumed."""
    return f"assuming: {'; '.join(each.text for each in found)} ({PAGE})" if found else ""


def assumptions_to_json(found: tuple[Assumption, ...]) -> list[dict[str, str]]:
    return [{"id": each.id, "meaning": each.meaning, "page": each.page} for each in found]


def _reads_and_writes_global(graph: g.SyncGraph) -> bool:
    """A program that writes nothing, or reads nothing, cannot meet itself in global memory."""
    copies = [each.action for each in graph.points if each.role == "copy" and isinstance(each.action, g.Access)]
    reads = any(each.role == "global_read" for each in graph.points) or any(each.effect == "write" for each in copies)
    writes = any(each.role == "global_write" for each in graph.points) or any(each.effect == "read" for each in copies)
    return reads and writes


def _has_inexact(graph: g.SyncGraph, kernel: Kernel | None) -> bool:
    if kernel is not None:
        places = (place for op in walk_ops(kernel.body) for place, _, _ in places_of(op))
        return any(_is_inexact(each) for place in places for each in (place.slot, *place.index))
    refs = [each.action.footprint.place for each in graph.points if isinstance(each.action, g.Access)]
    refs += [ref for each in graph.points if isinstance(each.action, g.Assign) for ref in _refs(each.action)]
    return any(_is_inexact(each) for ref in refs for each in (ref.slot, ref.offset))


def _refs(assign: g.Assign) -> Iterator[g.Ref]:
    waiting: list[object] = [value for _, value in assign.pairs]
    while waiting:
        match waiting.pop():
            case g.Ref() as ref:
                yield ref
            case g.Either(then=then, otherwise=otherwise):
                waiting += [then, otherwise]


def _is_inexact(index: ix.Index) -> bool:
    return any(isinstance(node, ix.Inexact) for node in ix.walk(index))


def _has_synchronization(graph: g.SyncGraph) -> bool:
    """Without any, accesses are proved apart from each other, and their order does not matter."""
    touches = any(isinstance(each.action, g.Access | g.Unknown) for each in graph.points)
    return touches and any(isinstance(each.action, g.Sync) for each in graph.points)


def _leans_on_lanes(graph: g.SyncGraph) -> bool:
    """Whether an ordinary access may touch the bytes of an earlier one of its wave with no meeting between them."""
    ordinary = {
        number: each.action
        for number, each in enumerate(graph.points)
        if isinstance(each.action, g.Access) and not each.action.is_async
    }
    return any(_meets_again(graph, ordinary, number) for number in ordinary)


def _meets_again(graph: g.SyncGraph, ordinary: dict[int, g.Access], first: int) -> bool:
    waiting, seen = list(graph.points[first].successors), set[int]()
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        action = graph.points[number].action
        if isinstance(action, g.Sync) and _lanes_meet(action.op):
            continue
        if number in ordinary and _may_share(graph, ordinary[first], ordinary[number]):
            return True
        waiting += graph.points[number].successors
    return False


def _lanes_meet(op: object) -> bool:
    return isinstance(op, MEETINGS) or (isinstance(op, ops.Fence) and op.kind == "wave")


def _may_share(graph: g.SyncGraph, one: g.Access, other: g.Access) -> bool:
    """Bases alone are compared: a view may lie anywhere."""
    if one.effect == other.effect == "read":
        return False
    buffers = {each.name for each in graph.buffers}
    first, second = one.footprint.place.base, other.footprint.place.base
    return first == second or not {first, second} <= buffers


def _writes_as_one(access: g.Access) -> bool:
    return access.as_one and access.effect != "read"


def _adds_floats(access: g.Access) -> bool:
    """Whether it commutes with its like, though rounding does not."""
    is_sum = access.effect == "atomic" and access.operator in ("add", "fadd") and not access.fetches
    return is_sum and access.element in DTYPES and DTYPES[access.element].is_float


def _scatters(kernel: Kernel) -> bool:
    tiles = {value.name for op in walk_ops(kernel.body) for value in ops.results_of(op) if isinstance(value.type, Tile)}
    writes = (op for op in walk_ops(kernel.body) if isinstance(op, ops.LocalWrite))
    return any(name in tiles for op in writes for index in op.place.index for name in ix.names(index))


def _is_declared_uniform(graph: g.SyncGraph, point: g.Point) -> bool:
    match point.action:
        case g.Havoc(agree=True):
            return True
        case g.Branch(cond=None):
            rank = g.VARIATIONS.index
            return point.under != "divergent" and all(
                rank(graph.points[each].under) <= rank(point.under) for each in point.successors
            )
    return False


def _has_named(graph: g.SyncGraph) -> bool:
    return any(each.type.kind == "named_barrier" for each in graph.objects)
