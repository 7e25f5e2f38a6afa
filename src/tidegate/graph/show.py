"""Graphs as `.sync` text, so that a case from any front end can be kept, shared and replayed.

Needs   a graph, well-formed or not
Gives   text; the grammar stands in `parse`
Keeps   `parse_graph(show_graph(g)) == g`
Cost    linear
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from tidegate.graph import model as g
from tidegate.index import Index
from tidegate.index import show as show_index
from tidegate.language.show import show_op


def show_graph(graph: g.SyncGraph) -> str:
    """The text of a `.sync` file."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: g.SyncGraph) -> Iterator[str]:
    lanes = f" lanes {graph.lanes}" if graph.lanes else ""
    yield f"graph @{graph.name} target {graph.target or 'none'} waves {graph.waves}{lanes}"
    if graph.sizes:
        yield f"sizes({', '.join(f'{size.name} = {size.default}' for size in graph.sizes)})"
    for word, exprs in (("where", graph.where), ("grid", graph.grid)):
        if exprs:
            yield f"{word}({', '.join(map(show_index, exprs))})"
    for value in graph.free:
        yield f"free {value.name}: {value.type}"
    for buffer in graph.buffers:
        at = "" if buffer.offset is None else f" at {buffer.offset}"
        yield f"buffer {buffer.name} bytes {buffer.slot_bytes} slots {buffer.slots}{at}"
    for map_ in graph.maps:
        yield f"threads {map_.name} {', '.join(_show_runs(map_.starts))}"
    for each in graph.objects:
        waves = f" waves({', '.join(map(str, each.waves))})" if each.waves else ""
        at = "" if each.offset is None else f" at {each.offset}"
        yield f"object {each.name}: {each.type}{waves}{at}"
    for number, loop in enumerate(graph.loops):
        yield _show_loop(number, loop)
    for function in graph.functions:
        params = f" params({', '.join(function.params)})" if function.params else ""
        yield f"function @{function.name} entry {function.entry}{params}"
    for program in graph.programs:
        yield f"program entry {program.entry} waves {program.first} .. {program.last}"
    yield "{"
    for number, point in enumerate(graph.points):
        yield _show_point(number, point)
    yield "}"


def _show_runs(starts: tuple[int | None, ...]) -> Iterator[str]:
    """Threads in order: `run(32, 0, 4)` for 32 of them from byte 0 on in steps of 4, `none(32)` for 32 others."""
    place = 0
    while place < len(starts):
        first, end = starts[place], place + 1
        if first is None:
            while end < len(starts) and starts[end] is None:
                end += 1
            yield f"none({end - place})"
        else:
            second = starts[end] if end < len(starts) else None
            step = 0 if second is None else second - first
            while end < len(starts) and starts[end] == first + step * (end - place):
                end += 1
            yield f"run({end - place}, {first}, {step})"
        place = end


def _show_loop(number: int, loop: g.Loop) -> str:
    text = f"loop {number} head {loop.head} parent {loop.parent} trips {loop.least} .. "
    text += f"{'any' if loop.most is None else loop.most} expect {loop.expect!r}"
    if loop.counter:
        text += f" counter {loop.counter} from {show_index(loop.lower)} to {show_index(loop.upper)} step {loop.step}"
    return text if loop.reducible else text + " irreducible"


def _show_point(number: int, point: g.Point) -> str:
    parts = [f"  {number}: {show_action(point.action)}"]
    if point.label:
        parts.append(f'label "{point.label}"')
    if point.role != "other":
        parts.append(f"role {point.role}")
    if point.work != g.NO_WORK:
        parts.append(_show_work(point.work))
    if point.issues:
        parts.append("issues " + ", ".join(map(_show_issue, point.issues)))
    if point.uses:
        parts.append(f"uses {', '.join(map(str, point.uses))}")
    if point.loop >= 0:
        parts.append(f"loop {point.loop}")
    if point.weight != 1.0:
        parts.append(f"weight {point.weight!r}")
    if point.under != "uniform":
        parts.append(f"under {point.under}")
    if not point.insertable:
        parts.append("fixed")
    if point.successors:
        parts.append(f"-> {', '.join(map(str, point.successors))}")
    return " ".join(parts)


def _show_work(work: g.Work) -> str:
    parts = ["work"]
    if work.ops or not work.bytes:
        parts.append(f"ops {work.ops}")
    if work.bytes:
        parts.append(f"bytes {work.bytes}")
    return " ".join([*parts, f"of {work.dtype}"] if work.dtype else parts)


def _show_issue(issue: g.Issue) -> str:
    return f"{issue.counter} {issue.least} .. {issue.most}{'' if issue.in_order else ' unordered'}"


def show_action(action: g.Action) -> str:
    match action:
        case g.Compute():
            return "compute"
        case g.Access():
            return _show_access(action)
        case g.Unknown(reaches):
            return f"unknown({', '.join(reaches)})"
        case g.Sync(op, waves):
            return f"sync {next(show_op(op))}" + (f" waves({', '.join(map(str, waves))})" if waves else "")
        case g.Assign(pairs):
            return "assign " + ", ".join(f"{name} = {_show_value(value)}" for name, value in pairs)
        case g.Havoc(names, agree):
            return f"havoc {', '.join(names)}{' agreed' * agree}"
        case g.Branch(cond):
            return f"branch {'any' if cond is None else show_index(cond)}"
        case g.Dispatch(ranges):
            return "dispatch " + ", ".join(f"{first} .. {last}" for first, last in ranges)
        case g.Call(function, args):
            return f"call @{function}({', '.join(f'{name} = {_show_value(where)}' for name, where in args)})"
        case g.Alloc(buffer):
            return f"alloc {buffer}"
        case g.Free(buffer):
            return f"free {buffer}"
        case g.Return():
            return "return"
        case g.End():
            return "end"
        case _:
            assert_never(action)


def _show_access(access: g.Access) -> str:
    text = f"{access.effect} {show_footprint(access.footprint)}"
    if access.is_async:
        text += " async"
    if access.proxy != "generic":
        text += f" proxy {access.proxy}"
    if access.operator:
        text += f" operator {access.operator}"
    if access.element:
        text += f" element {access.element}"
    if access.fetches:
        text += " fetches"
    if access.mbarrier is not None:
        text += f" reports {show_ref(access.mbarrier)}"
    if access.token:
        text += f" token {access.token}"
    if access.as_one:
        text += " as_one"
    if access.lanes:
        text += f' lanes "{access.lanes}"' + (f" from {access.lanes_from}" if access.lanes_from else "")
    if access.collective:
        text += " collective"
    return text


def show_footprint(foot: g.Footprint) -> str:
    steps = ", ".join(
        f"{each.count} by {each.stride}" + ("" if each.limit is None else f" below {show_index(each.limit)}")
        for each in foot.extents
    )
    threads = f" threads {foot.threads}" if foot.threads else ""
    return f"{show_ref(foot.place)} box({steps}) width {foot.width}" + (" may" if foot.may else "") + threads


def show_ref(ref: g.Ref) -> str:
    return f"{ref.base}[{show_index(ref.slot)}, {show_index(ref.offset)}]"


def _show_value(value: Index | g.Where | g.Token) -> str:
    match value:
        case g.Token(name):
            return f"token {name}"
        case g.Ref():
            return f"view {show_ref(value)}"
        case g.Either():
            return f"either({show_index(value.cond)}, {_show_value(value.then)}, {_show_value(value.otherwise)})"
        case _:
            return show_index(value)
