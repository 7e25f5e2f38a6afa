"""The names that the seeds give to barrier insertion, over the stages that do it here.

Needs   a `CapturedTrace`, ours or Wave's, and a target by name
Gives   what must be ordered (`SyncRequirement`), and where barriers go (`BarrierPosition`)
Keeps   nothing is decided here: hazards come from `hazards`, places from `placement`; `emission.py` puts them in
Cost    that of the stages; nothing is run on the simulator unless the kernel has barrier objects

    add_shared_memory_barriers(trace, "gfx1201")

    get_barriers_analysis ─▶ [SyncRequirement] ─▶ strategy ─▶ [BarrierPosition] ─▶ emitter ─▶ trace.kernel

An empty target means monolithic barriers, of which nothing is assumed but that waves meet there. What the kernel's own
operations are, on which counter a copy counts and through which proxy it goes, is then said by the target that the
kernel names: these are no liberties but duties, and leaving them out would leave races. A kernel that names none is
taken without any facts. With a target that is named here only that one counts, and a kernel that uses what it does not
have is refused. What no barrier can order stays as it is: `unordered` of its requirement says why, `check` finds it.

`docs/seeds.md` says for every name and step of the seeds where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from tidegate.diag import BadInput, Finding
from tidegate.footprint.meetings import Witness
from tidegate.graph import model as g
from tidegate.graph.build import KernelGraph, build_graph
from tidegate.graph.drafts import Path
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Change, Edit, Insert
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard, Kind
from tidegate.hazards.regions import find_regions
from tidegate.hazards.show import loop_name, name_hazard
from tidegate.hosts.wave.build import Built
from tidegate.language.fit import find_misfits
from tidegate.language.ops import Kernel, SyncOp
from tidegate.language.show import show_op
from tidegate.language.trace import CapturedTrace, KernelFunction
from tidegate.passes import NOT_THERE
from tidegate.placement.place import Options, place
from tidegate.programs import WaveTrace, trace_of
from tidegate.session import Session
from tidegate.synchronize import racing_in, trust
from tidegate.targets import Target, load_target

if TYPE_CHECKING:
    from tidegate.hosts.wave.dropin.checking import WaveProgram

# --- the target ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """Which barriers to emit. Made from a target's name; an empty one is monolithic, and nothing is assumed."""

    target: str = ""
    facts: Target = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = "" if self.target == "none" else self.target
        object.__setattr__(self, "target", name)
        object.__setattr__(self, "facts", load_target(name))

    @property
    def has_split_barriers(self) -> bool:
        return self.facts.barrier.split

    @property
    def has_named_barriers(self) -> bool:
        return bool(self.facts.barrier.named_ids)

    @property
    def max_named_barriers(self) -> int:
        return len(self.facts.barrier.named_ids)

    @property
    def has_mbarriers(self) -> bool:
        return self.facts.barrier.mbarrier

    @property
    def barrier_ids(self) -> tuple[int, ...]:
        """Barriers that all waves join."""
        return self.facts.barrier.ids

    def own_facts(self, kernel: Kernel) -> Target:
        """The target that is named here, else the one that the kernel names."""
        return self.facts if self.target else load_target(kernel.target)

    def for_kernel(self, kernel: Kernel) -> Target:
        """The facts under which a kernel is analysed. Raises `BadInput` for what the target does not have."""
        own = self.own_facts(kernel)
        missing = [each for each in find_misfits(kernel, own) if each.code in NOT_THERE]
        if missing:
            raise BadInput(*missing)
        if self.target:
            return own
        # Liberties that barriers of the kernel's own target would allow are not taken.
        return replace(own, barrier=replace(own.barrier, split=False, performs=self.facts.barrier.performs))


# --- requirements -------------------------------------------------------------------------------------------------


class BarrierType(Enum):
    """What a barrier is for: NONE where a wave waits for itself and meets nobody."""

    NONE = "NONE"
    FILL = Kind.RAW.value
    READY = Kind.WAR.value
    OVERWRITE = Kind.WAW.value


@dataclass(frozen=True, slots=True)
class SyncRequirement:
    """An episode: producers, and then consumers, of one resource that need the same kind of order.

    Positions are the numbers of points in program order; something put at a position stands before that point. The
    window lies behind the latest producer and before the earliest consumer. A requirement that crosses iterations has a
    window in two pieces, to the end of its loop's body and from the beginning of it: a barrier before the producer does
    not serve it.
    """

    resource: str
    producer_region: tuple[Path, ...]  # places in the kernel
    consumer_region: tuple[Path, ...]
    producer_positions: tuple[int, ...]
    consumer_positions: tuple[int, ...]
    is_loop: bool  # whether it crosses iterations
    graph_start: int  # the first and the last point of the region around it: the loop's body if it crosses iterations
    graph_end: int
    barrier_type: BarrierType
    kind: Kind
    loop: str  # whose iterations it crosses
    distance: int  # how many of them
    demand: int  # arrivals that must lie between; 0: a wait within the wave
    witness: Witness
    unordered: str = ""  # why no barrier can order it
    hazards: tuple[Hazard, ...] = field(default=(), compare=False, repr=False)
    analysis: Analysis | None = field(default=None, compare=False, repr=False)

    @property
    def start(self) -> int:
        """The latest producer."""
        return max(self.producer_positions)

    @property
    def end(self) -> int:
        """The earliest consumer."""
        return min(self.consumer_positions)

    @property
    def windows(self) -> tuple[range, ...]:
        """Positions at which a barrier would serve it, as far as the text tells: branches and inner loops aside."""
        if not self.is_loop:
            return (range(self.start + 1, self.end + 1),)
        body = range(self.graph_start + 1, self.graph_end + 1)  # behind the head, where nothing can stand
        if self.distance > 1:  # a whole iteration lies between
            return (body,)
        return (range(self.start + 1, body.stop), range(body.start, self.end + 1))

    def __str__(self) -> str:
        assert self.analysis is not None
        names = "; ".join(dict.fromkeys(name_hazard(each, self.analysis.found.flow) for each in self.hazards))
        return f"{self.barrier_type.name}: {names}"


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """What requirements of one trace have in common; strategies need it."""

    built: KernelGraph | Built
    target: Target
    found: Hazards

    @property
    def program(self) -> Kernel | g.SyncGraph:
        """What was analysed: a kernel, or the graph of a trace of Wave."""
        return self.built.kernel if isinstance(self.built, KernelGraph) else self.built.graph

    def place(self, point: int) -> Path:
        """Where a point stands in the kernel; in a trace of Wave, whose nodes have no such places, its number."""
        return self.built.paths[point] if isinstance(self.built, KernelGraph) else (point,)


def get_barriers_analysis(
    trace: CapturedTrace | WaveTrace,
    target: str = "",
    *,
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> list[SyncRequirement]:
    """All that must be ordered in a trace, whether something orders it already or not."""
    return handle_hazard(trace, target=target, constraints=constraints, subs=subs)


def handle_hazard(
    trace: CapturedTrace | WaveTrace,
    points: Sequence[int] | None = None,
    *,
    target: str = "",
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> list[SyncRequirement]:
    """What must be ordered among the accesses at some points of a trace, as if there were no others.

    Without points, all accesses. Iterations are not written out twice: whether footprints of different iterations meet,
    and how many lie between, is solved for. `constraints` and `subs` belong to a trace of Wave, as for `tg.check`.
    """
    built, facts = _graph_of(trace, target, constraints, subs)
    flow = flow_of(built.graph)
    if points is None:
        found, _ = _trusted(built.graph, facts)
    else:
        some, _ = _trusted(_only(built.graph, frozenset(points)), facts)
        found = replace(some, flow=flow, regions=find_regions(flow))
    return list(_episodes(Analysis(built, facts, found)))


def _trusted(graph: g.SyncGraph, target: Target) -> tuple[Hazards, int]:
    """Hazards that no barrier object orders."""
    session = Session(graph.name, target, None, graph)
    return trust(session.hazards(), target, racing_in(session, None))


def _graph_of(
    trace: CapturedTrace | WaveTrace, target: str, constraints: Iterable[Any] | None, subs: Mapping[Any, Any] | None
) -> tuple[KernelGraph | Built, Target]:
    of_wave = wave_program(trace, target, constraints, subs)
    if of_wave is not None:  # no fence of Wave orders the lanes of one wave
        return of_wave.built, of_wave.target.without_wave_fence()
    kernel = own_trace(trace).kernel
    facts = TargetConfig(target).for_kernel(kernel)
    return build_graph(kernel, facts), facts


def wave_program(
    trace: object, target: str, constraints: Iterable[Any] | None = None, subs: Mapping[Any, Any] | None = None
) -> WaveProgram | None:
    """A trace of Wave with its graph; None if it is none. Without a target it is the one that it was compiled for."""
    found = trace_of(trace)
    if found is None:
        return None
    from tidegate.hosts.wave.dropin.checking import trace_program

    return trace_program(found, target or None, constraints=constraints, sizes=dict(subs) if subs else None)


def own_trace(trace: object) -> CapturedTrace:
    """A trace of Tidegate itself; raises `BadInput` for what is none."""
    if isinstance(trace, CapturedTrace):
        return trace
    help = "`.trace()` of a kernel gives one" if isinstance(trace, KernelFunction) else "give a trace"
    raise BadInput(Finding("TG022", f"`{type(trace).__name__}` is not a trace", (), help=help))


def _only(graph: g.SyncGraph, points: frozenset[int]) -> g.SyncGraph:
    """The graph with all other accesses taken for computation."""
    return replace(
        graph,
        points=tuple(
            replace(point, action=g.Compute())
            if isinstance(point.action, g.Access | g.Unknown) and number not in points
            else point
            for number, point in enumerate(graph.points)
        ),
    )


def _episodes(analysis: Analysis) -> Iterator[SyncRequirement]:
    """Hazards of one resource, kind, loop, distance and demand, as long as one window is left for all of them."""
    hopeless = {each.hazard: each.why for each in analysis.found.unplaced}
    groups: dict[object, list[list[Hazard]]] = {}
    for hazard in dict.fromkeys((*analysis.found.hazards, *hopeless)):
        key = (
            hazard.witness.buffer,
            hazard.kind,
            hazard.loop,
            hazard.distance,
            hazard.demand,
            hopeless.get(hazard),
            _boundary(analysis, hazard),
        )
        episodes = groups.setdefault(key, [])
        episode = next((each for each in episodes if hazard.loop >= 0 or _window_left((*each, hazard))), None)
        if episode is None:
            episodes.append([hazard])
        else:
            episode.append(hazard)
    found = [_requirement(analysis, each, hopeless.get(each[0], "")) for all_of in groups.values() for each in all_of]
    yield from sorted(found, key=lambda each: (each.is_loop, each.end, each.start))


def _window_left(hazards: Sequence[Hazard]) -> bool:
    return max(each.producer for each in hazards) < min(each.consumer for each in hazards)


def _requirement(analysis: Analysis, hazards: Sequence[Hazard], unordered: str) -> SyncRequirement:
    first, flow = hazards[0], analysis.found.flow
    producers = tuple(sorted({flow.origin[each.producer] for each in hazards}))
    consumers = tuple(sorted({flow.origin[each.consumer] for each in hazards}))
    start, end = _boundary(analysis, first)
    return SyncRequirement(
        first.witness.buffer,
        tuple(map(analysis.place, producers)),
        tuple(map(analysis.place, consumers)),
        producers,
        consumers,
        first.loop >= 0,
        start,
        end,
        BarrierType(first.kind.value) if first.demand else BarrierType.NONE,
        first.kind,
        loop_name(flow, first.loop) if first.loop >= 0 else "",
        first.distance,
        first.demand,
        first.witness,
        unordered,
        tuple(hazards),
        analysis,
    )


def _boundary(analysis: Analysis, hazard: Hazard) -> tuple[int, int]:
    """The first and the last point of the region around a hazard."""
    regions, origin = analysis.found.regions, analysis.found.flow.origin
    if regions is None:
        return 0, len(analysis.built.graph.points) - 1
    if hazard.loop >= 0:
        number = next(each.number for each in regions.regions if each.loop == hazard.loop)
    else:
        number = regions.meet(regions.region_of[hazard.producer], regions.region_of[hazard.consumer])[0]
    region = regions.regions[number]
    return origin[regions.text[region.first]], origin[regions.text[region.last - 1]]


# --- strategies ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BarrierPosition:
    """Something to put before a point, or, where a barrier stands there already, in its place."""

    location: int
    place: Path  # in the kernel
    op: SyncOp
    is_upgrade: bool
    serves: tuple[str, ...] = field(compare=False)

    @property
    def edit(self) -> Edit:
        edit = Change if self.is_upgrade else Insert
        return edit(self.location, self.op, self.serves)

    def __str__(self) -> str:
        return f"{'change to' if self.is_upgrade else 'insert'} {next(show_op(self.op))} at {self.location}"


def minimize_placement_strategy(requirements: Sequence[SyncRequirement]) -> list[BarrierPosition]:
    """The least weight of monolithic barriers that serve all requirements, with what stands in the trace already."""
    return _solve(requirements, "minimal")


def find_intersecting_interval_strategy(requirements: Sequence[SyncRequirement]) -> list[BarrierPosition]:
    """As few signals and waits as barriers would be, with as much between the two as there can be.

    A pair across the end of a loop's body comes with a signal before the loop and a wait behind it. A pair that leaves
    nothing between its halves is one whole barrier: so are all that serve copies, for which a signal has to wait, and
    all on a target without split barriers.
    """
    return _solve(requirements, "intersecting")


def _solve(requirements: Sequence[SyncRequirement], strategy: str) -> list[BarrierPosition]:
    analysis = analysis_of(requirements)
    if analysis is None:
        return []
    hazards = tuple(dict.fromkeys(h for each in requirements if not each.unordered for h in each.hazards))
    found = replace(analysis.found, hazards=hazards, unplaced=())
    plan = place(found, analysis.target, Options(strategy, named=False)).plan
    return [_position(edit, analysis) for edit in plan.edits]


def analysis_of(requirements: Sequence[SyncRequirement]) -> Analysis | None:
    """The one analysis that all come from, or several of one kernel on one target."""
    known = [each.analysis for each in requirements if each.analysis is not None]
    if len(known) < len(requirements):
        raise unfit("a requirement was not made by `get_barriers_analysis` or `handle_hazard`")
    if any(each.target != known[0].target or each.program != known[0].program for each in known[1:]):
        raise unfit("the requirements come from different kernels or targets")
    return known[0] if known else None


def _position(edit: Edit, analysis: Analysis) -> BarrierPosition:
    match edit:
        case Insert(before, op, serves) if isinstance(op, SyncOp):
            return BarrierPosition(before, analysis.place(before), op, False, serves)
        case Change(point, op, serves):
            return BarrierPosition(point, analysis.place(point), op, True, serves)
    raise AssertionError(f"placement without removals gave {edit}")


def unfit(message: str) -> BadInput:
    return BadInput(Finding("TG603", message, ()))
