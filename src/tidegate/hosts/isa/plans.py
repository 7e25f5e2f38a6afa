"""Which registers become symbols at the heads of loops, so that exploration ends.

Needs   blocks, and the states that came to a head
Gives   `Plan`: for each head its registers that are symbols, or lost; a better plan where one fails
Keeps   a plan only ever gets coarser: unplanned, tied to another register, a symbol that is never negative, any
        symbol, lost
Cost    linear in the states of the head

A loop of few states is followed exactly: counters that rotate, trip counts that are numbers. A register with another
value in every state becomes `base + symbol`: its base stays a number for each thread. One that moves a whole multiple
of what another one moves is tied to that one: `tail = head - 3` in each round, of whatever head is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd, lcm

from tidegate.graph.model import invert
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa.blocks import Blocks
from tidegate.hosts.isa.states import State
from tidegate.hosts.isa.values import Held, Value

KINDS = ("tied", "natural", "signed", "lost")
MOST_STATES = 70  # of a head whose loop ends by numbers alone
MOST_OPEN = 20  # of one that ends by what nobody knows
MOST_SYMBOLIC = 8  # of one in which something grows by what nobody knows, so that no two rounds are alike
MOST_TOGETHER = 300  # of one head, in all rounds of the loops around it
MOST_REMAINDERS = 16
MOST_INSIDE = 1_000_000  # operations of loops, those of inner ones once for each
MOST_RATIO = 1 << 20
ROTATING = 7  # values that a register may take in turns


class TooMuch(Exception):
    """Exploration does not end."""


class Replan(Exception):
    """The plan has become coarser: explore again."""


@dataclass(slots=True)
class Plan:
    blocks: Blocks
    kinds: dict[int, dict[str, str]] = field(default_factory=dict)
    loops: dict[int, frozenset[str]] = field(default_factory=dict)  # head → registers that its loop sets
    inside: dict[int, frozenset[int]] = field(default_factory=dict)  # head → blocks of its loop
    lows: dict[tuple[int, str], list[int]] = field(default_factory=dict)  # the least values seen, the last one counts
    moduli: dict[tuple[int, str], int] = field(default_factory=dict)  # remainders that are followed exactly
    steps: dict[tuple[int, str], int] = field(default_factory=dict)  # what all values differ by a multiple of
    symbols: dict[str, tuple[int, str]] = field(default_factory=dict)  # name → head and register
    paces: dict[tuple[int, str], int] = field(default_factory=dict)  # how far a register moves in a round
    leaders: dict[tuple[int, str], str] = field(default_factory=dict)  # of tied registers
    named: dict[str, tuple[int, str]] = field(default_factory=dict)  # the same, without remainders

    def __post_init__(self) -> None:
        successors = [each.successors for each in self.blocks.blocks]
        before = invert(successors)
        size = 0
        for head in self.blocks.heads:
            members, stack = {head}, [each for each in before[head] if each >= head]
            while stack:
                block = stack.pop()
                if block not in members:
                    members.add(block)
                    stack.extend(before[block])
            self.inside[head] = frozenset(members)
            size += sum(self.blocks.blocks[each].last - self.blocks.blocks[each].first for each in members)
            if size > MOST_INSIDE:
                raise TooMuch("loops nested deeper than can be followed")
            self.loops[head] = frozenset(
                name
                for block in members
                for op in self.blocks.code.ops[self.blocks.blocks[block].first : self.blocks.blocks[block].last]
                for name in m.results_of(op.action)
            )

    def coarsen(self, head: int, register: str) -> None:
        """One step; `Replan` says that it was done."""
        kinds = self.kinds.setdefault(head, {})
        known = kinds.get(register)
        if known == KINDS[-1]:
            raise TooMuch("loops whose end depends on unknown registers")
        if known is None:
            leader = self.leader_of(head, register)
            self.leaders[head, register] = leader
            kinds[register] = "tied" if leader else "natural"
            return
        kinds[register] = KINDS[KINDS.index(known) + 1]
        if kinds[register] == "signed":
            for follower in [each for each, kind in kinds.items() if kind == "tied"]:
                if self.leaders[head, follower] == register:
                    kinds[follower] = "natural"

    def leader_of(self, head: int, register: str) -> str:
        """A register that becomes a symbol, and of whose pace the register's is a multiple; empty if there is none."""
        pace = self.paces.get((head, register), 0)
        for other, kind in self.kinds[head].items():
            step = self.paces.get((head, other), 0)
            if kind == "natural" and step and pace and pace % step == 0 and abs(pace // step) <= MOST_RATIO:
                return other
        return ""

    def ratio(self, head: int, register: str) -> int:
        """How many times as far as its leader a tied register moves."""
        return self.paces[head, register] // self.paces[head, self.leaders[head, register]]

    def name_of(self, head: int, register: str) -> str:
        """A name for what a register holds at a head, and for nothing else."""
        plain = "".join(each if each.isalnum() or each == "_" else "_" for each in register.lstrip("%"))
        name = f"%{plain}_at{head}"
        while self.named.setdefault(name, (head, register)) != (head, register):
            name += "_"
        return name

    def follow(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Follows remainders of symbols exactly from now on; `Replan` if that is new."""
        changed = False
        for name, by in wanted:
            at = self.symbols.get(name)
            if at is None or not 1 < by <= MOST_REMAINDERS:
                continue
            old = self.moduli.get(at, 1)
            new = lcm(old, by)
            if new != old and new <= MOST_REMAINDERS:
                self.moduli[at] = new
                changed = True
        if changed:
            raise Replan

    def refine(self, head: int, states: Sequence[State]) -> None:
        """A coarser plan for a head that too many states come to."""
        values: dict[str, set[object]] = {}
        for state in states:
            for name, held in state.arm.registers.items():
                values.setdefault(name, set()).add(held.key)
        most = max((len(each) for each in values.values()), default=0)
        if most < 2:
            raise TooMuch("threads leave a loop in more ways than can be followed")
        wanted = [name for name, each in values.items() if len(each) > min(ROTATING, most - 1)]
        seen = {name: [state.arm.registers.get(name) for state in states] for name in wanted}
        paces = {name: _pace(each) for name, each in seen.items()}
        # Small steps first, and upwards: they lead.
        for name in sorted(wanted, key=lambda name: (paces[name] <= 0, abs(paces[name]), name)):
            home = self.home(head, name)
            self.paces.setdefault((home, name), paces[name])
            if self.kinds.get(home, {}).get(name) == KINDS[-1]:
                home = head  # it is set again behind the head of its own loop
            self.steps.setdefault((home, name), _step(seen[name]))
            self.coarsen(home, name)
            if self.kinds[home][name] == "signed":  # another sign makes no fewer states
                self.coarsen(home, name)
        raise Replan

    def home(self, head: int, register: str) -> int:
        """The innermost loop around a head that sets a register."""
        around = [each for each, members in self.inside.items() if head in members and register in self.loops[each]]
        return min(around, key=lambda each: len(self.inside[each]), default=head)


def _step(held: Sequence[Held | None]) -> int:
    """What the numbers that a register held differ by a multiple of; 1 where that cannot be said."""
    numbers = [int(each.base[0]) for each in held if isinstance(each, Value) and each.is_number]
    if len(numbers) < len(held) or len(numbers) < 2:
        return 1
    return gcd(*(each - numbers[0] for each in numbers)) or 1


def _pace(held: Sequence[Held | None]) -> int:
    """How far a register has moved last, the same for all threads; 0 where that cannot be said."""
    last: Value | None = None
    for each in reversed(held):
        if not isinstance(each, Value) or not each.is_known:
            return 0
        if last is not None and each != last:
            apart = last.base - each.base
            return int(apart[0]) if each.plus == last.plus and (apart == apart[0]).all() else 0
        last = each
    return 0


def is_endless(states: Sequence[State]) -> bool:
    """Whether some register holds another symbol in each state: `block + 3 * grid` will never come again."""
    if len(states) < MOST_SYMBOLIC:
        return False
    first = states[0].arm.registers
    for name in first:
        held = [state.arm.registers.get(name) for state in states]
        symbols = {each.plus for each in held if isinstance(each, Value) and each.is_known}
        if len(symbols) == len(states):
            return True
    return False
