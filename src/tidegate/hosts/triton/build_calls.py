"""Functions that are called: each has its points once, with the memory that a call gives it.

Needs   `tt.call`
Gives   calls as points, with views and scalars as arguments; the functions whose points are still to come
Keeps   the memory of a called function lies where each call has it
Cost    linear in the arguments

    tt.call @f(%view, %n) {allocation.offset = 64}        assign %f0_n = %n; call f0(%f0_frame = %call3, %f0_view = ...)
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Block, Operation, Region, walk
from tidegate.hosts.triton.build_descriptors import Descriptors
from tidegate.hosts.triton.build_handing import Pair
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.values import is_scalar, name_of
from tidegate.hosts.triton.views import View


def call(points: Points, descriptors: Descriptors, op: Operation) -> None:
    """Another function of the file, with its memory where this call has it."""
    facts, collected, views = points.facts, points.collected, descriptors.views
    name = op.string("callee")
    callee = next((each for each in facts.ttgir.functions if each.string("sym_name") == name), None)
    # In a group the barriers of the function would be those of that group; for some lanes they would be none.
    parted = points.group.barrier is not None or points.under == "divergent"
    # A parameter is taken for a slot from its start: what lies nobody knows where in its memory is none.
    placed = all(value in views and not views[value].opaque for value in facts.descriptors(op))
    size = facts.size_of(op)
    if size == 0 and callee is not None and any(each.attribute("allocation.offset") for each in walk(callee)):
        size = None  # its memory lies where nobody has said
    parted |= callee is not None and waves_of(callee, facts.ttgir.waves) != facts.ttgir.waves
    if callee is None or not callee.regions or parted or not placed or size is None:
        points.unknown(op)
        return
    function = collected.called.get(name)
    if function is None:
        function = collected.called[name] = f"f{len(collected.called)}"
        collected.wanted.append((callee, function))
    frame = descriptors.unnamed_memory("call", size, op.integer("allocation.offset"))
    given: list[tuple[str, g.Where]] = [(f"%{function}_frame", frame)]
    scalars: list[Pair] = []
    apart: list[str] = []
    spreads = facts.calls.given[name]
    for place, (value, type_) in enumerate(callee.regions[0].blocks[0].arguments):
        found, argument = facts.types.memdesc(type_), op.operands[place]
        own = f"%{function}_{name_of(value)[1:]}"
        if found is not None and found.is_shared and argument in views:
            given.append((own, views[argument].place))
        elif is_scalar(type_):
            scalars.append((own, facts.values.index(argument)))
            apart += [own] * (not spreads[place].is_shared)
    points.havoc(op)
    if scalars:
        points.add(g.Assign(tuple(scalars)), op, "arguments")
    if apart:
        points.add(g.Havoc(tuple(apart), False), op, "apart")
    points.add(g.Call(function, tuple(given)), op)


def enter_function(points: Points, descriptors: Descriptors) -> None:
    """What is added from here on is the body of a called function; its parameters have views."""
    facts = points.facts
    assert facts.frame is not None
    params = [facts.frame]
    for name, type_ in facts.function.regions[0].blocks[0].arguments:
        found = facts.types.memdesc(type_)
        if found is not None and found.is_shared:
            params.append(name_of(name))
            descriptors.views[name] = View(g.Ref(name_of(name)), None, found)
    points.b.function(facts.prefix, tuple(params))


def waves_of(function: Operation, otherwise: int) -> int:
    """How many waves run a function: it may say so itself, and then the module does not (`maybeLookupNumWarps`)."""
    own = function.integer("ttg.num-warps")
    return otherwise if own is None else own


def with_prefix(op: Operation, prefix: str) -> Operation:
    """An operation whose values have names of their own."""

    def name(value: str) -> str:
        return f"%{prefix}_{value[1:]}"

    def block(each: Block) -> Block:
        arguments = tuple((name(value), type_) for value, type_ in each.arguments)
        return Block(each.label, arguments, tuple(with_prefix(inner, prefix) for inner in each.operations))

    return replace(
        op,
        results=tuple(map(name, op.results)),
        operands=tuple(map(name, op.operands)),
        regions=tuple(Region(tuple(map(block, region.blocks))) for region in op.regions),
    )
