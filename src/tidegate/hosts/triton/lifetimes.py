"""Whether a barrier object is set up once, before all that use it, and ended behind them.

Needs   a function, the allocation of the object, which descriptors are views of it
Gives   `lives_once`
Keeps   an object of which that is not certain is none: its phases would not count from where it was set up last. That
        other waves come behind whoever sets it up is a question about its memory
Cost    linear in the operations, for each object

    scf.for ... { ttng.init_barrier %bar, 1; ...; ttng.wait_barrier %bar, %phase }      phase 0 again in each round
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tidegate.hosts.mlir.model import Block, Operation, Region
from tidegate.hosts.triton.effects import Effect, Touches, Views, WaitsFor
from tidegate.hosts.triton.ranges import number_of
from tidegate.hosts.triton.values import jumps

_ONCE = ("tt.func", "ttg.warp_specialize", "ttg.warp_specialize.partitions", "scf.if")  # their regions do not run again


def lives_once(
    function: Operation, base: str, slots: int, views: Mapping[str, str], effect: Callable[[Operation], Effect]
) -> bool:
    found = list(_inside(function, False))
    constants = {op.result: number_of(op) for op, *_ in found if op.name == "arith.constant"}
    indices = {op.result: constants.get(op.operands[-1]) for op, *_ in found if effect(op).does == Views("index")}
    home = {op.result: block for op, block, _ in found if op.name == "ttg.local_alloc"}
    ready, used, ended = set[int](), False, False
    for op, block, again in found:
        kind, bases = effect(op).mbarrier, [_base(each, views) for each in op.operands]
        if kind in ("init", "end") and bases[0] not in home:
            return False  # that of a barrier which a loop carries, or a branch has chosen
        if not (kind or _tells_a_barrier(effect(op))) or base not in bases:
            continue
        if kind == "init":
            slot = 0 if op.operands[0] == base and slots == 1 else indices.get(op.operands[0])
            if block is not home[base] or again or used or ended or slot is None:
                return False
            ready.add(slot)
        elif kind == "end":
            if again:
                return False
            ended = True
        else:
            used = True
            if ended or len(ready) < slots:
                return False
    return True


def _inside(op: Operation, again: bool) -> Iterator[tuple[Operation, Block, bool]]:
    """All inside an operation, with the block that it stands in and whether that may run several times."""
    for region in op.regions:
        back = _going_back(region)
        for number, block in enumerate(region.blocks):
            often = again or op.name not in _ONCE or number in back
            for each in block.operations:
                yield each, block, often
                yield from _inside(each, often)


def _tells_a_barrier(effect: Effect) -> bool:
    return isinstance(effect.does, Touches | WaitsFor) and "barrier" in effect.does.memory


def _going_back(region: Region) -> set[int]:
    """Blocks from which control may come to themselves or to one before them in the text."""
    numbers = {block.label: number for number, block in enumerate(region.blocks)}
    following = [
        {numbers[label] for label, _ in jumps(block.operations[-1]) if label in numbers}
        if len(region.blocks) > 1
        else set()
        for block in region.blocks
    ]
    found: set[int] = set()
    for number in range(len(region.blocks)):
        seen: set[int] = set()
        todo = [*following[number]]
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                todo += following[here]
        if any(each <= number for each in seen):
            found.add(number)
    return found


def _base(value: str, views: Mapping[str, str]) -> str:
    while value in views:
        value = views[value]
    return value
