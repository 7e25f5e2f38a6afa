"""Where a barrier can be put between two instructions of compiled code, and whether that is safe.

Needs   a program, and two instructions of which the first must be over before the second
Gives   the instructions and labels before which a barrier orders the two on every way; why it would not be safe there
Keeps   all threads of the block come to such a place, and none has ended, as far as exploring shows. No register that
        is used behind it holds what was loaded from the array before it, or was stored there if others write the same
        bytes: compiled without a barrier, the code need not look again. By `.loc`, the two stand in the order of the
        source
Cost    a search for each place that is tried; once for a program the ways of its values

    st.shared [a], x
                          ◀─ here
    @p bra skip                          the place of the load is not one: not all threads come there
    ld.shared y, [b]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tidegate.diag import Span
from tidegate.graph.model import invert
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.blocks import Blocks, find_blocks
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.global_order import successors_of
from tidegate.hosts.ptx.program import PtxProgram
from tidegate.hosts.ptx.write import MEETINGS

# They set no register: their first operand is read.
_GIVE_NOTHING = frozenset(
    "st red bra brx bar barrier cp call ret exit trap membar fence prefetch prefetchu stmatrix mbarrier "
    "setmaxnreg nanosleep brkpt pmevent isspacep discard applypriority".split()
)
_FORGET = (*MEETINGS, "membar", "fence")  # compilers load again behind these


@dataclass(frozen=True)
class Gaps:
    program: PtxProgram

    # --- places --------------------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> Blocks:
        return find_blocks(self.program.code)

    @cached_property
    def first(self) -> dict[Span, int]:
        """The first operation of each instruction."""
        found: dict[Span, int] = {}
        for number, op in enumerate(self.program.code.ops):
            found.setdefault(op.at, number)
        return found

    @cached_property
    def block_of(self) -> list[int]:
        return [number for number, each in enumerate(self.blocks.blocks) for _ in range(each.first, each.last)]

    @cached_property
    def after(self) -> list[tuple[int, ...]]:
        """What each operation leads to."""
        blocks = self.blocks.blocks
        found: list[tuple[int, ...]] = []
        for block in blocks:
            found += [(number + 1,) for number in range(block.first, block.last - 1)]
            found.append(tuple(blocks[each].first for each in block.successors))
        return found

    def is_shared_by_all(self, op: int) -> bool:
        """Whether all threads come there together: to the start of its block, and no piece of it parts them."""
        return self.program.explored.apart.get(self.block_of[op]) is False

    def places(self, first: Span, second: Span) -> list[Span]:
        """Instructions and labels before which a barrier stands on every way from one to the other, the best first:
        outside of loops, then the last. Before a label, only who comes from above meets it."""
        start, end = self.first[first], self.first[second]
        blocks, block = self.blocks.blocks, self.block_of[end]
        found = self.places_beside(start, end) if self.is_shared_by_all(end) else []
        while (block := self.above[block]) >= 0:
            last = blocks[block].last - 1
            at = self.program.code.ops[last].at
            jumps = len(blocks[block].successors) != 1 or isinstance(self.program.code.ops[last].action, m.Jump)
            gap = self.first[at] if jumps else last
            if self.is_shared_by_all(gap) and ((gap == start and not jumps) or self._cuts(start, end, gap)):
                found.append((gap, at if jumps else self.body[self.number[at] + 1].at))
        return [at for _, at in sorted(found, key=lambda each: self._repeats(each[0]))]

    def places_beside(self, start: int, end: int) -> list[tuple[int, Span]]:
        """Before the second instruction, and before accesses above it in its block."""
        ops = self.program.code.ops
        above = range(end - 1, self.blocks.blocks[self.block_of[end]].first - 1, -1)
        accesses = [each for each in above if isinstance(ops[each].action, m.Touch) and self._cuts(start, end, each)]
        return [(each, ops[each].at) for each in (end, *accesses) if self.first[ops[each].at] == each]

    @cached_property
    def above(self) -> list[int]:
        """For each block the nearest one that every way to it passes; -1: none."""
        successors = [each.successors for each in self.blocks.blocks]
        before, order, known = invert(successors), _in_order(successors), {0: 0}
        place = {block: number for number, block in enumerate(order)}
        changed = True
        while changed:
            changed = False
            for block in order[1:]:
                new = -1
                for each in before[block]:
                    if each in known:
                        new = each if new < 0 else _meet(new, each, known, place)
                if new >= 0 and known.get(block) != new:
                    known[block] = new
                    changed = True
        return [known.get(each, -1) if each else -1 for each in range(len(successors))]

    def _cuts(self, start: int, end: int, gap: int) -> bool:
        """Whether every way from one to the other passes the gap."""
        return end not in self._reached(start, gap)

    def _reached(self, start: int, without: int = -1) -> set[int]:
        seen: set[int] = {without}
        stack = list(self.after[start])
        while stack:
            each = stack.pop()
            if each not in seen:
                seen.add(each)
                stack += self.after[each]
        return seen - {without}

    def _repeats(self, op: int) -> bool:
        return op in self._reached(op)

    # --- safety --------------------------------------------------------------------------------------------------

    def why_unsafe(self, place: Span, first: Span, second: Span, *, both_write: bool) -> str:
        """Why code that was compiled without a barrier need not do there what its source says; empty: nothing is known
        to speak against it."""
        if self.is_moved(first, second):
            return f"the compiler has moved line {first.line} or {second.line}: the source has them in another order"
        at, arrays = self.number[place], self.touched[first] & self.touched[second]
        for register in sorted(self.live[at]):
            held = self.held[at].get(register)
            if held is None or not held.arrays & arrays or (held.is_stored and not both_write):
                continue
            what = "stored in" if held.is_stored else "loaded from"
            return (
                f"`{register}` holds what line {held.line} {what} `{min(held.arrays & arrays)}` and is used behind it: "
                "with a barrier the compiler might load it again"
            )
        return ""

    def is_moved(self, first: Span, second: Span) -> bool:
        """By the statements of the kernel, whatever was inlined there; round a loop any order is right."""
        places = [place.chain[-1] for each in (first, second) if (place := self.program.place_of(each)) is not None]
        if len(places) < 2 or places[0].file != places[1].file or places[0].line <= places[1].line:
            return False
        return self.first[first] < self.first[second] and first not in self.behind(second)

    def behind(self, at: Span) -> set[Span]:
        return {self.program.code.ops[each].at for each in self._reached(self.first[at])}

    @property
    def body(self) -> tuple[p.Instruction | p.Label, ...]:
        return self.program.function.body

    @cached_property
    def number(self) -> dict[Span, int]:
        return {each.at: number for number, each in enumerate(self.body)}

    @cached_property
    def successors(self) -> list[list[int]]:
        return successors_of(self.body)

    @cached_property
    def live(self) -> list[frozenset[str]]:
        """The registers whose values are used at or behind each instruction."""
        found: list[frozenset[str]] = [frozenset()] * len(self.body)
        before = invert([tuple(each) for each in self.successors])
        waiting = list(range(len(self.body)))
        while waiting:
            number = waiting.pop()
            behind = frozenset().union(*(found[each] for each in self.successors[number]))
            gives, takes = _gives(self.body[number]), _takes(self.body[number])
            kept = behind if _guarded(self.body[number]) else behind - gives
            if (new := kept | takes) != found[number]:
                found[number] = new
                waiting += before[number]
        return found

    @cached_property
    def held(self) -> list[dict[str, _Held]]:
        """What registers hold of shared memory when one comes to each instruction, since the last barrier."""
        found: list[dict[str, _Held]] = [{} for _ in self.body]
        waiting = list(range(len(self.body)))[::-1]
        while waiting:
            number = waiting.pop()
            behind = self._step(number, found[number])
            for each in self.successors[number]:
                more = {name: held for name, held in behind.items() if name not in found[each]}
                if more:
                    found[each] |= more
                    waiting.append(each)
        return found

    def _step(self, number: int, before: dict[str, _Held]) -> dict[str, _Held]:
        item = self.body[number]
        if not isinstance(item, p.Instruction):
            return before
        if item.opcode in _FORGET and item.guard is None:
            return {}
        gives = _gives(item)
        stays = {name: each for name, each in before.items() if item.guard is not None or name not in gives}
        if arrays := self.touched.get(item.at):
            is_stored = item.opcode in ("st", "red")
            names = p.names_of(item.operands[1:]) if is_stored else gives
            return {**stays, **{name: _Held(arrays, item.at.line, is_stored) for name in names}}
        sources = p.names_of(item.operands[1:]) if item.opcode == "mov" else ()
        copied = next((before[name] for name in sources if name in before), None)
        return {**stays, **dict.fromkeys(gives, copied)} if copied is not None else stays

    @cached_property
    def touched(self) -> dict[Span, frozenset[str]]:
        """The arrays that each instruction touches."""
        found: dict[Span, frozenset[str]] = {}
        for node in self.program.explored.nodes:
            for step in node.steps:
                if isinstance(step, n.Access):
                    found[step.op.at] = found.get(step.op.at, frozenset()) | {step.array}
        return found


@dataclass(frozen=True, slots=True)
class _Held:
    """What a register has in common with an array."""

    arrays: frozenset[str]
    line: int
    is_stored: bool


def _guarded(item: p.Instruction | p.Label) -> bool:
    return isinstance(item, p.Instruction) and item.guard is not None


def _gives(item: p.Instruction | p.Label) -> frozenset[str]:
    if not isinstance(item, p.Instruction) or (item.opcode in _GIVE_NOTHING and "red" not in item.modifiers):
        return frozenset()
    return frozenset(p.names_of(each for each in item.operands[:1] if not isinstance(each, p.Address)))


def _takes(item: p.Instruction | p.Label) -> frozenset[str]:
    if not isinstance(item, p.Instruction):
        return frozenset()
    own = (item.guard.register,) if item.guard is not None else ()
    addresses = [each for each in item.operands[:1] if isinstance(each, p.Address) or item.opcode in _GIVE_NOTHING]
    return frozenset((*own, *p.names_of(addresses), *p.names_of(item.operands[1:])))


def _in_order(successors: list[tuple[int, ...]]) -> list[int]:
    """Blocks that are reached, each before those that it leads to, but for the ways back."""
    seen, order = {0}, list[int]()
    stack = [(0, iter(successors[0]))]
    while stack:
        block, rest = stack[-1]
        following = next((each for each in rest if each not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors[following])))
    return order[::-1]


def _meet(one: int, other: int, known: dict[int, int], place: dict[int, int]) -> int:
    """The nearest block above both."""
    while one != other:
        if place[one] > place[other]:
            one = known[one]
        else:
            other = known[other]
    return one
