"""What a wait for tokens waits for, as a count.

Needs   a function of TTGIR, and for each copy how many instructions it becomes at least
Gives   for each wait that is handed tokens: how many groups (of a tensor data mover: copies) may be under way behind
        it, and how many instructions these are at least; of all groups, the fewest instructions that one has
Keeps   Triton counts the instructions that were started since, and takes the least of all ways. Where as many groups
        were started on every way, no more of them are left; where none was started on one of them, nothing is left. In
        all other cases nothing is said
Cost    linear in the operations, a few times over for loops

On some GPUs (`target.counts_instructions`) Triton's pipeliner leaves `num = 0` in a wait and names tokens; a later pass
works out of the tokens how many instructions may still be under way, which is more than none.

    %a = ttg.async_commit_group            age of %a: 0
    %b = ttg.async_commit_group            age of %a: 1, of %b: 0
    ttg.async_wait %a {num = 0}            one group may be under way

After that pass the count of instructions is in the text, and only that is compiled (`s_wait_asynccnt`, seen with Triton
3.9): tokens and the count of groups beside it mean nothing any more. What they say holds if no more instructions may be
under way than the groups that were started since become at least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidegate.hosts.mlir.model import Block, Operation, Region, walk
from tidegate.hosts.triton.effects import NOTHING, effects
from tidegate.hosts.triton.values import jumps

# What is counted; how many were started since, at the least and at the most; how many instructions, at the least.
Age = tuple[str, int, int, int]
OLD = 64  # as good as performed, or nobody knows
MANY = 4096  # instructions: more than any counter holds
UNKNOWN: Age = ("", 0, OLD, 0)
Ages = dict[str, Age]  # of tokens
Least = Callable[[Operation], int]  # how many instructions a copy becomes at least
_ENDS = ("scf.yield", "scf.condition")
_BY_COPY = "tdm"  # the queue whose copies are in no groups


@dataclass(frozen=True, slots=True)
class Left:
    """What may be under way behind a wait: so many groups or copies, which are so many instructions at least."""

    count: int
    instructions: int


def count_waits(function: Operation, least: Least = lambda _: 0) -> dict[int, Left]:
    """By `id` of the wait: what may be under way behind it. Where that is not known, it is left out."""
    counter = _Counter(least)
    counter.region(function.regions[0], {})
    return {wait: left for wait, left in counter.waits.items() if left is not None}


def fewest_instructions(functions: Iterable[Operation], least: Least) -> int:
    """Of all groups that some functions may close, how many instructions the smallest has at least."""
    counter = _Counter(least)
    for each in functions:
        counter.region(each.regions[0], {})
    return min(counter.closed, default=0)


class _Counter:
    def __init__(self, least: Least) -> None:
        self.table = effects()
        self.least = least
        self.waits: dict[int, Left | None] = {}
        self.closed: list[int] = []  # the least instructions of groups, where each is closed
        self.begun = 0  # the same of a group that is not closed yet, as far as one block knows

    def region(self, region: Region, ages: Ages) -> tuple[Ages, list[Age]]:
        """The ages behind a region, and those of what it hands on."""
        if len(region.blocks) == 1:
            return self.block(region.blocks[0], ages)
        blocks = {block.label: block for block in region.blocks}
        arriving: dict[str, Ages] = {region.blocks[0].label: ages}
        todo = [region.blocks[0].label]
        while todo:
            block = blocks[todo.pop()]
            left, _ = self.block(block, arriving[block.label])
            for label, given in jumps(block.operations[-1]):
                names = [name for name, _ in blocks[label].arguments]
                coming = _with(left, names, _of(left, given))
                known = arriving.get(label)
                joined = coming if known is None else _join(known, coming)
                if joined != known:
                    arriving[label] = joined
                    todo.append(label)
        return {}, []

    def block(self, block: Block, ages: Ages) -> tuple[Ages, list[Age]]:
        self.begun = 0
        for op in block.operations:
            if op.name in _ENDS:
                return ages, _of(ages, op.operands[1:] if op.name == "scf.condition" else op.operands)
            ages = self.operation(op, ages)
            if op.regions or op.name == "tt.call":  # what was begun before may have been closed inside
                self.begun = 0
        return ages, []

    def operation(self, op: Operation, ages: Ages) -> Ages:
        effect = self.table.get(op.name, NOTHING)
        queue = effect.commit or (effect.queue if effect.queue == _BY_COPY else "")
        if queue:
            instructions = 1 if queue == _BY_COPY else self.begun
            if effect.commit:
                self.closed.append(self.begun)
                self.begun = 0
            older = {each: _older(age, instructions) if age[0] == queue else age for each, age in ages.items()}
            return {**older, op.result: (queue, 0, 0, 0)} if op.results else older
        if effect.queue:
            self.begun += self.least(op)
            return ages
        if effect.wait:
            if op.operands:
                self.waits[id(op)] = _left(effect.wait, _of(ages, op.operands))
            return {**ages, op.result: (effect.wait, OLD, OLD, MANY)} if op.results else ages
        if op.name in ("scf.for", "scf.while"):
            return self.loop(op, ages)
        if op.name == "scf.if":
            return self.either(op, ages)
        if op.name == "scf.execute_region" and len(op.regions[0].blocks) == 1:
            left, results = self.block(op.regions[0].blocks[0], ages)
            return _with(_seen(left, ages), op.results, results)
        if self.starts(op):
            for region in op.regions:  # it may run any number of times: tokens from outside have no age in it
                self.region(region, {})
            return {}
        return ages

    def starts(self, op: Operation) -> bool:
        """Whether something inside makes tokens older, or may."""
        inside = (self.table.get(each.name, NOTHING) for each in walk(op))
        return op.name == "tt.call" or any(each.commit or each.queue == _BY_COPY for each in inside)

    def loop(self, op: Operation, ages: Ages) -> Ages:
        """Goes round until nothing changes: an age that grows is old at once."""
        counted = op.name == "scf.for"
        first, last = op.regions[0].blocks[0], op.regions[-1].blocks[0]
        names = [name for name, _ in first.arguments][counted:]
        start = _with(ages, names, _of(ages, op.operands[3:] if counted else op.operands))
        while True:
            left, handed = self.block(first, start)
            out, results = (start, _of(start, names)) if counted else (left, handed)
            if not counted:
                left, handed = self.block(last, _with(left, [name for name, _ in last.arguments], handed))
            around = _join(start, _with(left, names, handed))
            if around == start:
                return _with(_seen(out, ages), op.results, results)
            start = around

    def either(self, op: Operation, ages: Ages) -> Ages:
        arms = [self.region(region, ages) for region in op.regions if region.blocks]
        if len(arms) == 1:
            arms.append((ages, []))
        (one, first), (other, second) = arms
        results = [_both(a, b) for a, b in zip(first, second, strict=False)]
        return _with(_seen(_join(one, other), ages), op.results, results)


def _older(age: Age, instructions: int) -> Age:
    queue, least, most, issued = age
    return queue, min(least + 1, OLD), min(most + 1, OLD), min(issued + instructions, MANY)


def _left(queue: str, found: list[Age]) -> Left | None:
    """What may be under way if all these are performed."""
    if any(each[0] != queue for each in found):
        return None
    least, most = min(each[1] for each in found), min(each[2] for each in found)
    if least == 0:
        return Left(0, 0)
    return Left(least, min(each[3] for each in found)) if least == most < OLD else None


def _of(ages: Ages, names: Sequence[str]) -> list[Age]:
    return [ages.get(each, UNKNOWN) for each in names]


def _with(ages: Ages, names: Sequence[str], found: Sequence[Age]) -> Ages:
    """Ages under more names."""
    return {**ages, **dict(zip(names, found, strict=False))}


def _seen(ages: Ages, before: Ages) -> Ages:
    """What was known before, as old as it is now."""
    return {each: ages[each] for each in before if each in ages}


def _join(one: Ages, other: Ages) -> Ages:
    """What holds on both ways; what is known on one of them alone is not seen behind."""
    return {each: _both(age, other[each]) for each, age in one.items() if each in other}


def _both(one: Age, other: Age) -> Age:
    if one[0] != other[0]:
        return UNKNOWN
    return one[0], min(one[1], other[1]), one[2] if one[2] == other[2] else OLD, min(one[3], other[3])
