"""What is known of the trips of a loop in TTGIR.

Needs   an `scf.for`, or blocks that jump back; the scalars of the function as expressions
Gives   the counter of a loop, its bounds and its step, if all waves go round alike and the counter does not wrap
Keeps   a loop of which anything is doubtful is not counted
Cost    linear in the blocks around a head

    ^bb1(%i): cmpi slt, %i, %n; cond_br ^bb2, ^bb3        %i from what comes first to %n, by what comes back
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.graph.model import invert, reached_from
from tidegate.hosts.mlir.model import Block, Operation, Region, walk
from tidegate.hosts.triton.build_facts import FunctionFacts
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.values import jumps, name_of
from tidegate.hosts.triton.widths import NARROW, fits, range_of, width_of
from tidegate.index import ZERO, Binary, Compare, Const, Index, Name, constant, names
from tidegate.language.types import INDEX

Counting = tuple[str, Index, Index, int]  # the counter, its lower and upper bound, its step


def step_of(facts: FunctionFacts, op: Operation) -> int:
    """The step of an `scf.for` whose trips can be counted; 0 if they cannot, or not alike in all waves.

    The bound is compared as a signed number, or `unsignedCmp`. A step that is negative or not known may wrap.
    """
    lower, upper, step = op.operands[:3]
    by = constant(facts.values.index(step))
    bits = width_of(op.operand_types[0])
    room = _has_room(facts, bits, facts.values.ranges.bounds(upper)[1], by or 0)
    signed = op.attribute("unsignedCmp") in (None, "false") or all(map(facts.values.ranges.is_natural, (lower, upper)))
    counted = by is not None and by > 0 and room and signed and not facts.is_apart(op.operands[:3])
    return by if counted and by is not None else 0


def rounds_of(points: Points, op: Operation, counter: str) -> Counting | None:
    """A loop whose bounds and step are the same in the whole run, though its trips cannot be counted: how often it
    runs has a name, which loops of several partitions over the same tiles share, and so have its rounds."""
    facts, fixed = points.facts, points.facts.values.fixed
    keys = tuple(map(fixed.key, op.operands[:3]))
    if None in keys or facts.is_apart(op.operands[:3]) or points.under == "divergent":
        return None
    if facts.frame is not None:
        return None  # each call of a function has bounds of its own
    if any(facts.effect(each).mbarrier == "init" for each in walk(op)):
        return None  # each iteration has objects of its own, of which nobody knows that their phases begin anew
    key = (op.attribute("unsignedCmp"), *op.operand_types[:1], *keys)
    name = fixed.firsts.setdefault(("trips", *key), f"{counter}.trips")
    points.b.declare(name, INDEX)
    return f"{counter}.round", ZERO, Name(name), 1


def counting_of(facts: FunctionFacts, block: Block, region: Region) -> Counting | None:
    """What is known of a loop that a block does nothing but test."""
    last = block.operations[-1]
    if last.name != "cf.cond_br" or not block.arguments or any(map(facts.does_something, block.operations[:-1])):
        return None
    test = facts.values.cond(last.operands[0])
    counter = name_of(block.arguments[0][0])
    if not (isinstance(test, Compare) and test.op == "<" and test.left == Name(counter)):
        return None
    inside = _loop_of(block, region)
    stays, leaves = last.successors
    if stays not in inside or leaves in inside or facts.is_apart((last.operands[0],)):
        return None
    starts: list[Index] = []
    steps: list[int | None] = []
    for other in region.blocks:
        for label, given in jumps(other.operations[-1]):
            if label == block.label:
                value = facts.values.index(given[0])
                if other.label in inside:
                    steps.append(_step(value, counter))
                else:
                    starts.append(value)
            elif other.label in inside and label not in inside and other is not block:
                return None  # left from its middle: nobody knows how often it runs
    if len(starts) != 1 or len(steps) != 1 or steps[0] is None or steps[0] <= 0:
        return None
    lower, by = starts[0], steps[0]
    changing = {name_of(name) for each in region.blocks if each.label in inside for name in _made_in(each)}
    bits, most = width_of(block.arguments[0][1]), constant(test.right)
    most = range_of(bits)[1] if most is None else most
    if not changing.isdisjoint((*names(lower), *names(test.right))) or not _has_room(facts, bits, most, by):
        return None
    return counter, lower, test.right, by


def labels_in_loops(region: Region) -> set[str]:
    """The blocks that control may come back to."""
    following, number = _following(region)
    return {label for label, place in number.items() if place in reached_from(following[place], following)}


def _has_room(facts: FunctionFacts, bits: int, upper: int, step: int) -> bool:
    """Whether a counter passes its bound without wrapping. From 32 bits on that is assumed."""
    if fits((0, upper - 1 + step), bits):
        return True
    facts.values.ranges.may_overflow |= bits >= NARROW
    return bits >= NARROW


def _step(value: Index, counter: str) -> int | None:
    """By how much a counter grows, if the value is the counter and a constant."""
    match value:
        case Binary("+", Name(name), Const(step)) if name == counter:
            return step
        case Binary("+", Const(step), Name(name)) if name == counter:
            return step
    return None


def _loop_of(head: Block, region: Region) -> set[str]:
    """The labels of the blocks that a block leads to and from which control comes back to it."""
    following, number = _following(region)
    start = number[head.label]
    inside = reached_from(following[start], following) & reached_from([start], invert(following))
    return {label for label, place in number.items() if place in inside}


def _following(region: Region) -> tuple[list[list[int]], dict[str, int]]:
    """Which blocks follow each, by number; and the number of each label."""
    number = {block.label: place for place, block in enumerate(region.blocks)}
    return [[number[label] for label, _ in jumps(block.operations[-1])] for block in region.blocks], number


def _made_in(block: Block) -> Iterator[str]:
    """The values that a block and the regions in it make."""
    yield from (name for name, _ in block.arguments)
    for op in block.operations:
        yield from op.results
        for region in op.regions:
            for inner in region.blocks:
                yield from _made_in(inner)
