"""Whether a graph makes sense: what every analysis may rely on.

Needs   a graph from anywhere
Gives   findings TG602
Keeps   a graph without findings can be walked and executed: successors fit actions, every name has a meaning
Cost    linear
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.diag import NOWHERE, Finding, Label
from tidegate.graph import model as g
from tidegate.index import INDEX_TYPES, MACHINE_NAMES, MOST_PARTS, ZERO, Cond, Index, find_overgrown, names
from tidegate.language.ops import CommitGroup, NullAsyncDep, Value
from tidegate.language.types import DTYPES

MOST_BYTES = 1 << 40  # of a buffer: no GPU has so much memory, and arithmetic on more would need numbers without end


def check_graph(graph: g.SyncGraph) -> list[Finding]:
    """All that is wrong, in the order of points."""
    return [*_check_whole(graph), *_Checker(graph).points(), *_check_growth(graph)]


def _finding(message: str, point: g.Point | None = None) -> Finding:
    return Finding("TG602", message, (Label(point.at if point else NOWHERE),))


def _check_whole(graph: g.SyncGraph) -> Iterator[Finding]:
    count = len(graph.points)
    if graph.waves < 1:
        yield _finding(f"a workgroup cannot have {graph.waves} waves")
    for kind, entries in (("program", graph.programs), ("function", graph.functions)):
        for each in entries:
            if not 0 <= each.entry < count:
                yield _finding(f"a {kind} starts at point {each.entry}, which does not exist")
    reached = 0
    for first, last in sorted((program.first, program.last) for program in graph.programs):
        reached = last if first == reached and last > first else -1
    if reached != graph.waves:
        yield _finding(f"the programs do not start each of the {graph.waves} waves once")
    for what, given in (
        ("buffer", [each.name for each in graph.buffers]),
        ("barrier object", [each.name for each in graph.objects]),
        ("function", [each.name for each in graph.functions]),
    ):
        for name in sorted({name for name in given if given.count(name) > 1} if len(set(given)) < len(given) else ()):
            yield _finding(f"the {what} `{name}` is declared twice")
    for buffer in graph.buffers:
        if buffer.slot_bytes < 0 or buffer.slots < 1:
            yield _finding(f"the buffer `{buffer.name}` has {buffer.slots} slots of {buffer.slot_bytes} bytes")
        elif max(buffer.bytes, abs(buffer.offset or 0)) > MOST_BYTES:
            yield _finding(f"the buffer `{buffer.name}` has more than {MOST_BYTES:,} bytes, or begins behind so many")
    for map_ in graph.maps:
        if len(map_.starts) > graph.waves * graph.lanes or not graph.lanes:
            yield _finding(f"the map `{map_.name}` has {len(map_.starts)} threads, more than the waves have lanes")
    heads: dict[int, int] = {}
    for number, loop in enumerate(graph.loops):
        if heads.setdefault(loop.head, number) != number:  # which of them a way back goes round cannot be told
            yield _finding(f"loops {heads[loop.head]} and {number} have one head, point {loop.head}")
        if not -1 <= loop.parent < number:
            yield _finding(f"loop {number} has parent {loop.parent}: parents come first")
        if not 0 <= loop.head < count:
            yield _finding(f"loop {number} has its head at point {loop.head}, which does not exist")
        elif loop.least < 0 or (loop.most is not None and loop.most < loop.least) or loop.step < 1:
            yield _finding(f"loop {number} runs {loop.least} to {loop.most} times in steps of {loop.step}")


def _check_growth(graph: g.SyncGraph) -> Iterator[Finding]:
    """Names with one meaning are replaced by it: what grows too large by that is refused as in the kernel language."""
    assigned: dict[str, list[tuple[g.Point, Index]]] = {}
    for point in graph.points:
        if isinstance(point.action, g.Assign):
            for name, value in point.action.pairs:
                if isinstance(value, INDEX_TYPES):
                    assigned.setdefault(name, []).append((point, value))
    once = {name: places[0] for name, places in assigned.items() if len(places) == 1}
    if name := find_overgrown((name, value) for name, (_, value) in once.items()):
        yield _finding(f"`{name}` names an expression of more than {MOST_PARTS:,} parts", once[name][0])


class _Checker:
    """Names and numbers that points refer to."""

    def __init__(self, graph: g.SyncGraph) -> None:
        self.graph = graph
        self.indices = {*MACHINE_NAMES, *(size.name for size in graph.sizes), *(value.name for value in graph.free)}
        self.buffers = {buffer.name for buffer in graph.buffers}
        self.places = set(self.buffers)
        self.places.update(name for function in graph.functions for name in function.params)
        self.objects = {each.name for each in graph.objects}
        self.maps = {each.name for each in graph.maps}
        self.tokens: set[str] = set()
        self.functions = {each.name: each for each in graph.functions}
        self.indices.update(loop.counter for loop in graph.loops if loop.counter)
        for point in graph.points:
            match point.action:
                case g.Assign(pairs):
                    for name, value in pairs:
                        self.kind(value).add(name)
                case g.Havoc(given):
                    self.indices.update(given)
                case g.Access(token=token) if token:
                    self.tokens.add(token)
                case g.Sync(CommitGroup(result=result) | NullAsyncDep(result=result)) if result is not None:
                    self.tokens.add(result.name)
                case _:
                    pass

    def kind(self, value: Index | g.Where | g.Token) -> set[str]:
        if isinstance(value, g.Token):
            return self.tokens
        return self.indices if isinstance(value, INDEX_TYPES) else self.places

    def points(self) -> Iterator[Finding]:
        count, loops = len(self.graph.points), len(self.graph.loops)
        for number, point in enumerate(self.graph.points):
            for message in self.point(point):
                yield _finding(f"point {number}: {message}", point)
            for other in (*point.successors, *point.uses):
                if not 0 <= other < count:
                    yield _finding(f"point {number} refers to point {other}, which does not exist", point)
            if not -1 <= point.loop < loops:
                yield _finding(f"point {number} lies in loop {point.loop}, which does not exist", point)

    def point(self, point: g.Point) -> Iterator[str]:
        wanted = _successors(point.action)
        if len(point.successors) != wanted:
            yield f"has {len(point.successors)} successors, not {wanted}"
        if '"' in point.label or "\n" in point.label:
            yield "a label cannot hold quotation marks or line ends"
        if point.role not in g.ROLES:
            yield f"`{point.role}` is not a role"
        if point.under not in g.VARIATIONS:
            yield f"`{point.under}` is not a variation"
        if not 0 <= point.weight < float("inf"):
            yield f"is executed {point.weight} times"
        for issue in point.issues:
            if not 0 <= issue.least <= issue.most:
                yield f"issues {issue.least} to {issue.most} instructions on {issue.counter}"
        counters = sorted({issue.counter for issue in point.issues})
        if isinstance(point.action, g.Access | g.Unknown) and len(counters) > 1:  # a wait for one would perform it all
            yield f"is one access and counts on {', '.join(counters)}: give each counter a point of its own"
        yield from self.action(point.action)

    def action(self, action: g.Action) -> Iterator[str]:
        match action:
            case g.Access():
                yield from self.access(action)
            case g.Unknown(reaches):
                for name in reaches:
                    yield from self.place_name(name)
            case g.Assign(pairs):
                if not pairs:
                    yield "assigns nothing"
                for _, value in pairs:
                    yield from self.value(value)
            case g.Branch(cond) if cond is not None:
                yield from self.expr(cond)
            case g.Dispatch(ranges):
                for first, last in ranges:
                    if not 0 <= first < last <= self.graph.waves:
                        yield f"dispatches waves {first} to {last} of {self.graph.waves}"
            case g.Call(name, args):
                yield from self.call(name, args)
            case g.Alloc(name) | g.Free(name):
                yield from self.place_name(name)
            case g.Sync(op, waves):
                if any(not 0 <= wave < self.graph.waves for wave in waves):
                    yield f"names waves of which there are {self.graph.waves}"
                barrier = getattr(op, "barrier", None)
                named = barrier if isinstance(barrier, Value) else getattr(barrier, "base", None)
                if named is not None and named.name not in self.objects:
                    yield f"`{named.name}` is not a barrier object"
                for value in getattr(op, "async_deps", ()):
                    yield from self.token(value.name)
            case _:
                pass

    def access(self, access: g.Access) -> Iterator[str]:
        if access.effect not in ("read", "write", "atomic"):
            yield f"`{access.effect}` is not an access"
        foot = access.footprint
        yield from self.value(foot.place)
        if foot.width < 0 or any(extent.count < 0 for extent in foot.extents):
            yield "touches a negative number of bytes"
        if foot.threads and (foot.threads not in self.maps or foot.extents):
            yield f"`{foot.threads}` is not a map of threads, or has steps beside it"
        if access.element and access.element not in DTYPES:
            yield f"`{access.element}` is not an element type: {', '.join(DTYPES)}"
        for extent in foot.extents:
            if extent.limit is not None:
                yield from self.expr(extent.limit)
        if access.mbarrier is not None:
            if access.mbarrier.base not in self.objects:
                yield f"`{access.mbarrier.base}` is not a barrier object"
            yield from self.expr(access.mbarrier.slot)

    def call(self, name: str, args: tuple[tuple[str, g.Where], ...]) -> Iterator[str]:
        function = self.functions.get(name)
        if function is None:
            yield f"there is no function `@{name}`"
        elif tuple(param for param, _ in args) != function.params:
            yield f"`@{name}` takes {', '.join(function.params) or 'nothing'}"
        for _, where in args:
            yield from self.value(where)

    def token(self, name: str) -> Iterator[str]:
        if name not in self.tokens:
            yield f"no asynchronous operation is called `{name}`"

    def value(self, value: Index | g.Where | g.Token) -> Iterator[str]:
        match value:
            case g.Token(name):
                yield from self.token(name)
            case g.Ref(base, slot, offset):
                yield from self.place_name(base)
                if slot != ZERO and base in self.places and base not in self.buffers:
                    yield f"`{base}` is a view, and views have no slots"
                yield from self.expr(slot)
                yield from self.expr(offset)
            case g.Either(cond, then, otherwise):
                yield from self.expr(cond)
                yield from self.value(then)
                yield from self.value(otherwise)
            case _:
                yield from self.expr(value)

    def place_name(self, name: str) -> Iterator[str]:
        if name not in self.places:
            yield f"`{name}` is neither a buffer nor a view"

    def expr(self, expr: Index | Cond) -> Iterator[str]:
        for name in names(expr):
            if name not in self.indices:
                yield f"nothing assigns `{name}`"


def _successors(action: g.Action) -> int:
    match action:
        case g.Branch():
            return 2
        case g.Dispatch(ranges):
            return len(ranges) + 1
        case g.End() | g.Return():
            return 0
    return 1
