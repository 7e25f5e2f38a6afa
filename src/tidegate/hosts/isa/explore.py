"""Runs code for all threads of a block at once, in every way that it can go.

Needs   blocks of code, the launch (what `Given` operands hold), lanes per wave
Gives   `Explored`: a finite graph of nodes whose accesses are exact tables over threads, or widened and reported
Keeps   every run of the block is a path through the nodes, seen from each thread: branches on which threads disagree
        are run one arm after the other under masks, which orders nothing, since nothing inside counts as a meeting of
        threads that are not there. A branch on what nobody knows goes both ways
Cost    the operations of each block, once for each state that comes to it, each linear in the threads
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from tidegate.footprint.arithmetic import Range
from tidegate.graph.model import invert, reached_from
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.blocks import Blocks
from tidegate.hosts.isa.cases import find_case, in_case
from tidegate.hosts.isa.effects import Effects
from tidegate.hosts.isa.places import AnyPlace
from tidegate.hosts.isa.plans import (
    MOST_OPEN,
    MOST_STATES,
    MOST_SYMBOLIC,
    MOST_TOGETHER,
    Plan,
    Replan,
    TooMuch,
    is_endless,
)
from tidegate.hosts.isa.states import Arm, Frame, Mask, Registers, State, everybody, keys_of, only
from tidegate.hosts.isa.stepping import Stepper
from tidegate.hosts.isa.symbols import enter_head
from tidegate.hosts.isa.values import Pred, Value
from tidegate.index import Binary, Compare, Cond, Const, names

MOST_NODES = 6_000
MOST_ATTEMPTS = 40
MOST_BLOCKS = 3_000
MOST_OPS = 400_000  # carried out in all attempts, each for all threads: about ten seconds
MOST_BYTES = 400 << 20


def explore(
    blocks: Blocks, given: Mapping[str, Value], ranges: dict[str, Range], lanes: int, group: int = 0
) -> n.Explored:
    """All states that a block of threads can come to. `ranges`: of the symbols that are given.

    `group`: how many lanes of a wave warp barriers are taken to order; 0: all of them.
    """
    if len(blocks.blocks) > MOST_BLOCKS:
        return _given_up(blocks, f"more than {MOST_BLOCKS:,} pieces of code between jumps", 0)
    try:
        plan = Plan(blocks)
    except TooMuch as reason:
        return _given_up(blocks, str(reason), 0)
    work = Work()
    plan.named.update((name, (-1, "")) for value in given.values() for name in names(value.plus))
    for attempt in range(1, MOST_ATTEMPTS + 1):
        try:
            found = _Explorer(blocks, given, dict(ranges), (lanes, group or lanes), plan, work).run()
        except Replan:
            continue
        except TooMuch as reason:
            return _given_up(blocks, str(reason), attempt)
        found.attempts = attempt
        return found
    return _given_up(blocks, "loops could not be summarized", MOST_ATTEMPTS)


def _given_up(blocks: Blocks, why: str, attempts: int) -> n.Explored:
    problem = n.Problem(blocks.code.ops[0], why)
    return n.Explored([n.Node(0)], [], {problem: None}, {}, attempts=attempts)


class Work:
    """What all attempts have cost together."""

    def __init__(self) -> None:
        self.done = 0

    def ops(self, count: int) -> None:
        self.done += count
        if self.done > MOST_OPS:
            raise TooMuch("loops run more often than can be followed")


class _Explorer:
    def __init__(
        self,
        blocks: Blocks,
        given: Mapping[str, Value],
        ranges: dict[str, Range],
        lanes: tuple[int, int],
        plan: Plan,
        work: Work,
    ) -> None:
        self.blocks, self.plan, self.spent = blocks, plan, work
        self.kept: set[int] = set()  # what states hold, by identity
        self.threads = len(next(iter(given.values())).base)
        self.calc = AnyPlace(self.threads, ranges)
        self.out = n.Explored([], [], {}, {})
        self.effects = Effects(blocks.code, self.calc, *lanes, self.out)
        self.stepper = Stepper(blocks, self.calc, given, self.effects)
        self.numbers: dict[object, int] = {}
        self.work: list[tuple[int, int, State]] = []  # a heap: block, node, state
        self.at: dict[int, list[State]] = {}
        self.rounds: dict[object, list[State]] = {}
        # Names whose value never changes.
        self.fixed = frozenset(name for value in given.values() for name in names(value.plus))
        self.open: set[int] = set()  # blocks that end with a choice

    def run(self) -> n.Explored:
        start = Arm(0, everybody(self.threads), {})
        self.out.nodes.append(n.Node(-1))  # where the program starts, which nothing leads back to
        self.out.nodes[0].edges = [e for e in [self.edge(State(start))] if e is not None]
        while self.work:
            # The first block of the text first: a loop is summarized before what follows it is seen in each round.
            _, number, state = heappop(self.work)
            self.step(number, state)
        self.plan.follow(self.calc.whole.wanted)
        self.endless()
        self.out.states = len(self.numbers)
        self.effects.count()
        return self.out

    def endless(self) -> None:
        """Threads that never leave a loop end no arm: what the others do meanwhile has not been looked at."""
        nodes = self.out.nodes
        ends = [number for number, node in enumerate(nodes) if not node.edges]
        left = reached_from(ends, invert([[edge.node for edge in node.edges] for node in nodes]))
        stuck = next((node for number, node in enumerate(nodes) if number not in left and node.block >= 0), None)
        if stuck is not None:
            ops = self.blocks.ops_of(stuck.block)
            self.effects.problem(ops[-1], "a loop that threads never leave")

    def step(self, number: int, state: State) -> None:
        node = self.out.nodes[number]
        block = self.blocks.blocks[state.arm.block]
        together = state.arm.mask.whole and bool(state.arm.mask.sure.all())
        self.out.apart[state.arm.block] = self.out.apart.get(state.arm.block, False) or not together
        self.spent.ops(self.blocks.cost(state.arm.block))
        registers, ended = self.stepper.run(state, node)
        last = self.blocks.code.ops[block.last - 1]
        arm = Arm(state.arm.block, state.arm.mask, registers)
        frames = state.frames
        if ended is not None:
            arm = Arm(arm.block, arm.mask.without(ended), registers)
            frames = tuple(_without(each, ended) for each in frames)
        if not arm.mask.may.any() or not block.successors:
            self.lead(node, [self.next_arm(frames)])
        elif isinstance(last.action, m.End) and last.guard is not None and ended is None and not last.action.aborts:
            # All threads end here, or none does.
            pred = self.stepper.truth(last.guard, registers)
            rest = self.arrive(Arm(block.successors[0], arm.mask, registers), frames)
            if frames:  # the others go on without them
                self.effects.end(last, state, arm.mask, node)
                frames = tuple(_without(each, arm.mask) for each in frames)
            self.choose(node, arm.block, pred.cond, [self.next_arm(frames), rest])
        elif isinstance(last.action, m.Jump) and last.guard is not None and len(block.successors) == 2:
            self.branch(node, arm, frames, self.stepper.truth(last.guard, registers), block.successors)
        else:
            self.lead(node, [self.arrive(Arm(block.successors[0], arm.mask, registers), frames)])

    # --- branches ---

    def branch(
        self, node: n.Node, arm: Arm, frames: tuple[Frame, ...], pred: Pred, successors: tuple[int, ...]
    ) -> None:
        remainder = None if pred.cond is None else find_case(pred.cond, self.fixed)
        if remainder is not None:
            self.by_cases(node, State(arm, frames), remainder)
            return
        there, beside = (Arm(each, arm.mask, arm.registers) for each in successors)
        is_open = pred.cond is not None or (pred.known is not None and pred.same)
        lanes = pred.lanes
        yes, no = arm.mask.within(pred.base, lanes), arm.mask.within(~pred.base, lanes)
        for one, other, taken in ((there, beside, yes), (beside, there, no)):
            # A launch in which a thread may abort has a result only if it does not.
            if one.block in self.blocks.aborting and (is_open or not taken.sure.any()):
                self.lead(node, [self.arrive(other, frames)])
                return
        if is_open:
            self.choose(node, arm.block, pred.cond, [self.arrive(there, frames), self.arrive(beside, frames)])
            return
        if not no.may.any():
            self.lead(node, [self.arrive(there, frames)])
        elif not yes.may.any():
            self.lead(node, [self.arrive(beside, frames)])
        elif there.block in self.blocks.final:
            self.end_some(node, Arm(beside.block, arm.mask, arm.registers), frames, yes)
        elif beside.block in self.blocks.final:
            self.end_some(node, Arm(there.block, arm.mask, arm.registers), frames, no)
        else:
            arms = [Arm(there.block, yes, arm.registers), Arm(beside.block, no, arm.registers)]
            self.part(node, arm, frames, arms)

    def by_cases(self, node: n.Node, state: State, remainder: Binary) -> None:
        """A branch that the remainder of a number decides which never changes: one way for each remainder."""
        block = self.blocks.blocks[state.arm.block]
        last = self.blocks.code.ops[block.last - 1]
        assert isinstance(remainder.right, Const)
        assert last.guard is not None
        most = remainder.right.value - 1
        for value in range(most + 1):
            inner = n.Node(state.arm.block)
            self.out.nodes.append(inner)
            node.edges = [n.Edge(len(self.out.nodes) - 1)]
            if value < most:
                node.cond = Compare("==", remainder, Const(value))
                self.effects.use(node.cond)
                self.out.nodes.append(n.Node(state.arm.block))
                node.edges.append(n.Edge(len(self.out.nodes) - 1))
                node = self.out.nodes[-1]
            case = in_case(state, remainder, value, self.calc, self.blocks.code.wide)
            pred = self.stepper.truth(last.guard, case.arm.registers)
            self.branch(inner, case.arm, case.frames, pred, block.successors)

    def end_some(self, node: n.Node, arm: Arm, frames: tuple[Frame, ...], ended: Mask) -> None:
        """Some threads go where nothing is left to do: for all others they have ended."""
        last = self.blocks.code.ops[self.blocks.blocks[node.block].last - 1]
        self.effects.end(last, State(arm, frames), ended, node)
        frames = tuple(_without(each, ended) for each in frames)
        rest = self.arrive(Arm(arm.block, arm.mask.without(ended), arm.registers), frames)
        if arm.mask.without(ended).sure.any() or arm.block in self.blocks.final:
            self.lead(node, [rest])
        else:  # perhaps all of them
            self.choose(node, node.block, None, [rest, self.next_arm(frames)])

    def part(self, node: n.Node, arm: Arm, frames: tuple[Frame, ...], arms: list[Arm]) -> None:
        """Threads disagree: one arm runs after the other."""
        join = self.blocks.joins[arm.block]
        round_again = [
            each
            for each in arms
            if not each.mask.sure.any() and each.block != join and self.goes_round(arm.block, each.block, join)
        ]
        together = self.launch(arm, frames, arms, join)
        if not round_again:
            self.lead(node, [together])
            return
        # A loop that some threads may go on with ends when none of them does.
        left = [each for each in arms if each not in round_again]
        rest = self.launch(arm, frames, left, join) if left else self.next_arm(frames)
        self.choose(node, arm.block, None, [together, rest])

    def goes_round(self, block: int, start: int, join: int) -> bool:
        return self.blocks.goes_round(block, start, join)

    def launch(self, arm: Arm, frames: tuple[Frame, ...], arms: list[Arm], join: int) -> State | None:
        if frames and frames[-1].join == join and join >= 0:
            frame = frames[-1]
            frames = frames[:-1]
        else:
            frame = Frame(join, arm.block, arm.mask, ())
        waiting: list[Arm] = []
        for each in arms:
            live = self.blocks.live[each.block]
            kept = Arm(each.block, each.mask, only(each.registers, live))
            if each.block == join:
                frame = frame.arrive(kept, self.blocks.changed_by(frame.branch, join))
            else:
                waiting.append(kept)
        frame = Frame(frame.join, frame.branch, frame.parent, (*waiting, *frame.waiting), frame.done)
        return self.next_arm((*frames, frame))

    def next_arm(self, frames: tuple[Frame, ...]) -> State | None:
        """What runs when an arm is over; None if all threads have ended."""
        while frames:
            frame, frames = frames[-1], frames[:-1]
            if frame.waiting:
                arm, *rest = frame.waiting
                left = Frame(frame.join, frame.branch, frame.parent, tuple(rest), frame.done)
                if arm.mask.may.any():
                    return self.arrive(arm, (*frames, left))
                frames = (*frames, left)
            elif frame.done is not None:
                arm = Arm(frame.join, frame.parent, frame.done.registers)
                return self.arrive(arm, frames) if arm.mask.may.any() else self.next_arm(frames)
        return None

    def arrive(self, arm: Arm, frames: tuple[Frame, ...]) -> State | None:
        """Threads come to a block; at a join they wait for the others."""
        if frames and frames[-1].join == arm.block:
            kept = Arm(arm.block, arm.mask, only(arm.registers, self.blocks.live[arm.block]))
            frame = frames[-1]
            changed = self.blocks.changed_by(frame.branch, frame.join)
            return self.next_arm((*frames[:-1], frame.arrive(kept, changed)))
        return State(arm, frames)

    # --- nodes ---

    def choose(self, node: n.Node, block: int, cond: Cond | None, states: list[State | None]) -> None:
        self.open.add(block)
        node.cond = cond
        if cond is not None:
            self.effects.use(cond)
        self.lead(node, states)

    def lead(self, node: n.Node, states: list[State | None]) -> None:
        edges = [self.edge(each) for each in states]
        if len(edges) == 2 and (edges[0] is None or edges[1] is None):
            edges = [each if each is not None else self.the_end() for each in edges]
        node.edges = [each for each in edges if each is not None]

    def the_end(self) -> n.Edge:
        self.out.nodes.append(n.Node(-1))
        return n.Edge(len(self.out.nodes) - 1)

    def edge(self, state: State | None) -> n.Edge | None:
        if state is None:
            return None
        block = state.arm.block
        registers: Registers = only(state.arm.registers, self.blocks.live[block])
        state = State(Arm(block, state.arm.mask, registers), state.frames)
        assigned: n.Assigned = ()
        if block in self.plan.kinds:
            state, assigned = enter_head(state, self.plan, self.calc, self.out.names)
            for _, index in assigned:
                self.effects.use(index)
        key = state.key
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.out.nodes)
            self.out.nodes.append(n.Node(block))
            heappush(self.work, (block, number, state))
            self.keep(registers)
            self.limit(block, state)
        return n.Edge(number, assigned)

    def keep(self, registers: Registers) -> None:
        """States stay until the end: what they hold is counted, since it may be more than memory holds."""
        new = {id(held.key) for held in registers.values()} - self.kept
        self.kept |= new
        if 2 * 8 * self.threads * len(self.kept) > MOST_BYTES:
            raise TooMuch("registers hold more than can be followed")

    def limit(self, block: int, state: State) -> None:
        if len(self.out.nodes) > MOST_NODES:
            busiest = max(self.at, key=lambda each: len(self.at[each]), default=-1)
            if busiest < 0 or len(self.at[busiest]) <= MOST_OPEN:
                raise TooMuch(f"more than {MOST_NODES} states of control")
            self.plan.refine(busiest, self.at[busiest])
        if block not in self.blocks.heads:
            return
        there = self.at.setdefault(block, [])
        there.append(state)
        # What the loop itself does not set tells rounds of a loop around it apart.
        steady = only(state.arm.registers, state.arm.registers.keys() - self.plan.loops[block])
        alike = self.rounds.setdefault((block, keys_of(steady)), [])
        alike.append(state)
        is_open = not self.open.isdisjoint(self.plan.inside[block])
        most = MOST_STATES if not is_open else MOST_SYMBOLIC if is_endless(alike[:MOST_SYMBOLIC]) else MOST_OPEN
        if len(alike) > most:
            self.plan.refine(block, alike)
        if len(there) > MOST_TOGETHER:
            self.plan.refine(block, there)


def _without(frame: Frame, ended: Mask) -> Frame:
    return Frame(frame.join, frame.branch, frame.parent.without(ended), frame.waiting, frame.done)
