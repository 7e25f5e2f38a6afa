"""Straight pieces of code, where they lead, where their ways meet again, and which registers matter.

Needs   `Code`
Gives   `Blocks`: blocks with successors, immediate post-dominators, the registers of the slice that are live at each
Keeps   the slice holds every register that an address, a guard, a branch or a barrier depends on
Cost    linear in the code, times the depth of loops for liveness
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.graph.joins import find_joins
from tidegate.graph.model import invert, reached_from
from tidegate.hosts.isa import model as m

MOST_FOLLOWED = 400  # registers behind values that are stored


@dataclass(frozen=True, slots=True)
class Block:
    """Operations `first` up to, not including, `last`. The last one may jump."""

    first: int
    last: int
    successors: tuple[int, ...]  # of a guarded jump: where it leads, then the next block


@dataclass(frozen=True, slots=True)
class Blocks:
    code: m.Code
    blocks: tuple[Block, ...]
    joins: tuple[int, ...]  # block → where its ways meet again, or -1
    live: tuple[frozenset[str], ...]  # registers of the slice that are live at the start of each block
    slice: frozenset[str]
    heads: frozenset[int]  # blocks that a way leads back to
    final: frozenset[int]  # blocks behind which threads do nothing that others could notice
    aborting: frozenset[int]  # blocks from which every way aborts the launch, with no barrier before
    compares: bool = False  # whether values that are stored are compared
    valued: frozenset[str] = frozenset()  # of the slice, those on which nothing but these depends
    changed: dict[tuple[int, int], frozenset[str]] = field(default_factory=dict)
    costs: dict[int, int] = field(default_factory=dict)
    round: dict[tuple[int, int, int], bool] = field(default_factory=dict)

    def arms(self, branch: int, join: int) -> set[int]:
        """The blocks between a branch and the join."""
        seen, stack = {join}, list(self.blocks[branch].successors)
        while stack:
            each = stack.pop()
            if each not in seen:
                seen.add(each)
                stack.extend(self.blocks[each].successors)
        return seen - {join}

    def changed_by(self, branch: int, join: int) -> frozenset[str]:
        """The registers that are set between a branch and the join."""
        if (branch, join) not in self.changed:
            ops = (op for each in self.arms(branch, join) for op in self.ops_of(each))
            self.changed[branch, join] = frozenset(name for op in ops for name in m.results_of(op.action))
        return self.changed[branch, join]

    def cost(self, block: int) -> int:
        """How many operations of a block are carried out: those that set registers of the slice or none at all."""
        if block not in self.costs:
            results = [m.results_of(op.action) for op in self.ops_of(block)]
            self.costs[block] = sum(not each or not self.slice.isdisjoint(each) for each in results)
        return self.costs[block]

    def ops_of(self, block: int) -> tuple[m.Op, ...]:
        return self.code.ops[self.blocks[block].first : self.blocks[block].last]

    def goes_round(self, block: int, start: int, join: int) -> bool:
        """Whether a way from `start` comes to the block again before it comes to the join."""
        key = (block, start, join)
        if key not in self.round:
            self.round[key] = self._leads(block, start, join)
        return self.round[key]

    def _leads(self, block: int, start: int, join: int) -> bool:
        seen, stack = {join}, [start]
        while stack:
            each = stack.pop()
            if each == block:
                return True
            if each not in seen:
                seen.add(each)
                stack.extend(self.blocks[each].successors)
        return False


def find_blocks(code: m.Code, *, values: bool = False) -> Blocks:
    """`values`: what is stored is followed as well, as far as threads store the same."""
    blocks = _divide(code)
    successors = [each.successors for each in blocks]
    basic = _slice(code, values=False)
    wanted = _slice(code, values=True) if values else basic
    return Blocks(
        code,
        blocks,
        tuple(find_joins(successors)),
        _liveness(code, blocks, wanted),
        wanted,
        frozenset(_heads(successors)),
        _final(code, blocks),
        _aborting(code, blocks),
        values,
        wanted - basic,
    )


def _divide(code: m.Code) -> tuple[Block, ...]:
    ops = code.ops
    starts = {0}
    for number, op in enumerate(ops):
        if isinstance(op.action, m.Jump):
            starts.update((op.action.target, number + 1))
        elif isinstance(op.action, m.End):
            starts.add(number + 1)
    ordered = sorted(each for each in starts if each < len(ops))
    number_of = {start: number for number, start in enumerate(ordered)}
    found: list[Block] = []
    for number, start in enumerate(ordered):
        end = ordered[number + 1] if number + 1 < len(ordered) else len(ops)
        last = ops[end - 1]
        following = (number + 1,) if number + 1 < len(ordered) else ()
        if isinstance(last.action, m.Jump):
            there = number_of.get(last.action.target)
            target = () if there is None else (there,)
            following = (*target, *following) if last.guard is not None else target
        elif isinstance(last.action, m.End) and last.guard is None:
            following = ()
        found.append(Block(start, end, following))
    return tuple(found)


def _slice(code: m.Code, *, values: bool) -> frozenset[str]:
    """Registers that decide where and whether shared memory is touched, and who meets whom; with `values`, what is
    written there."""
    definitions: dict[str, list[m.Op]] = {}
    for op in code.ops:
        for result in m.results_of(op.action):
            definitions.setdefault(result, []).append(op)
    found: set[str] = set()
    known: dict[str, bool] = {}
    stack: list[str] = []
    for op in code.ops:
        if isinstance(op.action, m.Touch | m.Meet | m.MeetLanes | m.UseObject | m.Jump | m.End | m.Opaque):
            stack += _registers(op)
        for stored in op.action.values if isinstance(op.action, m.Touch) else ():
            if not isinstance(stored, m.Register):
                continue
            if all(map(_is_constant, definitions.get(stored.name, ()))):
                found.add(stored.name)  # threads that store it store the same
            elif values or _is_of_launch(stored.name, definitions, known):
                stack.append(stored.name)
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            for op in definitions.get(name, ()):
                stack += _registers(op)
    return frozenset(found)


def _is_constant(op: m.Op) -> bool:
    action = op.action
    if not isinstance(action, m.Compute) or op.guard is not None or action.operator != "copy":
        return False
    return isinstance(action.operands[0], m.Constant)


def _is_of_launch(register: str, definitions: dict[str, list[m.Op]], known: dict[str, bool]) -> bool:
    """Whether a register has one value in the whole launch of a block, so that it makes no more states."""
    if register in known or len(known) > MOST_FOLLOWED:
        return known.get(register, False)
    known[register] = False  # one that is set from itself counts
    ops = definitions.get(register, [])
    if len(ops) != 1 or ops[0].guard is not None or not isinstance(ops[0].action, m.Compute):
        return False
    for each in ops[0].action.operands:
        if isinstance(each, m.Given) and not each.name.startswith(("param ", "%ctaid", "%nctaid", "%ntid")):
            return False
        if isinstance(each, m.Register) and not _is_of_launch(each.name, definitions, known):
            return False
    known[register] = ops[0].action.operator != "shuffle"
    return known[register]


def _registers(op: m.Op) -> Iterable[str]:
    if op.guard is not None:
        yield op.guard.register
    for each in m.operands_of(op.action):
        if isinstance(each, m.Register):
            yield each.name


def _read(op: m.Op) -> Iterable[str]:
    """As `_registers`, and what is stored."""
    yield from _registers(op)
    if isinstance(op.action, m.Touch):
        yield from (each.name for each in op.action.values if isinstance(each, m.Register))


def _liveness(code: m.Code, blocks: tuple[Block, ...], wanted: frozenset[str]) -> tuple[frozenset[str], ...]:
    used: list[set[str]] = []
    given: list[set[str]] = []
    for block in blocks:
        use: set[str] = set()
        give: set[str] = set()
        for op in code.ops[block.first : block.last]:
            results = wanted.intersection(m.results_of(op.action))
            if results or not m.results_of(op.action) or isinstance(op.action, m.Opaque):
                use.update(name for name in _read(op) if name in wanted and name not in give)
            if op.guard is None:
                give |= results
        used.append(use)
        given.append(give)
    live = [set(each) for each in used]
    before = invert([each.successors for each in blocks])
    work = list(range(len(blocks)))
    while work:
        number = work.pop()
        for previous in before[number]:
            more = live[number] - given[previous] - live[previous]
            if more:
                live[previous] |= more
                work.append(previous)
    return tuple(map(frozenset, live))


def _final(code: m.Code, blocks: tuple[Block, ...]) -> frozenset[int]:
    """Who comes there is as good as ended: compilers jump to one `ret` from everywhere."""
    doing = m.Touch | m.Meet | m.MeetLanes | m.UseObject | m.Commit | m.WaitGroups | m.OrderProxies | m.Opaque
    noticed = {
        number
        for number, block in enumerate(blocks)
        if any(isinstance(op.action, doing) for op in code.ops[block.first : block.last])
    }
    before = invert([each.successors for each in blocks])
    # Who never comes to an end is waited for by the others.
    ended = reached_from([number for number, block in enumerate(blocks) if not block.successors], before)
    noticed |= set(range(len(blocks))) - ended
    return frozenset(set(range(len(blocks))) - reached_from(noticed, before))


def _aborting(code: m.Code, blocks: tuple[Block, ...]) -> frozenset[int]:
    """From the ends backwards, so that a loop that nothing leads out of is none of them."""
    found: set[int] = set()
    before = invert([each.successors for each in blocks])
    work = list(range(len(blocks)))
    while work:
        number = work.pop()
        ops = code.ops[blocks[number].first : blocks[number].last]
        if number in found or any(isinstance(op.action, m.Meet | m.MeetLanes | m.UseObject | m.Opaque) for op in ops):
            continue
        last = ops[-1]
        ends = isinstance(last.action, m.End) and last.guard is None
        if isinstance(last.action, m.End) and not last.action.aborts:
            continue
        if ends or (blocks[number].successors and found.issuperset(blocks[number].successors)):
            found.add(number)
            work.extend(before[number])
    return frozenset(found)


def _heads(successors: list[tuple[int, ...]]) -> set[int]:
    """Blocks that lead to themselves."""
    component = _components(successors)
    return {
        each
        for number, following in enumerate(successors)
        for each in following
        if each <= number and component[each] == component[number]
    }


def _components(successors: list[tuple[int, ...]]) -> list[int]:
    """For each block a number that those share which lead to each other (Tarjan, without recursion)."""
    found, low, seen, stack = [-1] * len(successors), [0] * len(successors), [-1] * len(successors), list[int]()
    count = 0
    for start in range(len(successors)):
        if seen[start] >= 0:
            continue
        way = [(start, iter(successors[start]))]
        seen[start] = low[start] = count
        count += 1
        stack.append(start)
        while way:
            each, rest = way[-1]
            for following in rest:
                if seen[following] < 0:
                    seen[following] = low[following] = count
                    count += 1
                    stack.append(following)
                    way.append((following, iter(successors[following])))
                    break
                if found[following] < 0:
                    low[each] = min(low[each], seen[following])
            else:
                way.pop()
                if way:
                    low[way[-1][0]] = min(low[way[-1][0]], low[each])
                if low[each] == seen[each]:
                    while found[each] < 0:
                        found[stack.pop()] = each
    return found
