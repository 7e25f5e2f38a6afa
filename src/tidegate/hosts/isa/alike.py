"""Waves that store copies of one value to the same bytes.

Needs   explored nodes, definitions of registers, what the launch gives
Gives   writes marked `as_one` whose waves hold the same values, lane by lane
Keeps   two waves are alike in a register if every operation that may set it is carried out by all threads together and
        takes operands in which they are alike. What they load from one address is one value: of shared memory that is
        being proved, of global memory it is assumed (docs/assumptions.md, `uniform`). Lanes of one wave that write the
        same bytes at once are assumed to write one value (`as-one`)
Cost    the definitions behind a stored register, for each group of waves that write alike

    r = tid and 63;  x = load [r * 4];  sum = x + shuffle x;  store [0], sum      waves 0 and 2 are alike
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidegate.hosts.isa import model as m
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.arithmetic import Calculator
from tidegate.hosts.isa.blocks import Blocks
from tidegate.hosts.isa.values import Value, number

MOST_DEEP = 60  # computations behind a register that numbers are followed through
MOST_REGISTERS = 4_000


@dataclass
class Alike:
    blocks: Blocks
    calc: Calculator
    given: Mapping[str, Value]
    apart: Mapping[int, bool]  # block → whether some threads may be elsewhere
    lanes: int
    numbers: dict[str, Value | None] = field(default_factory=dict)
    answers: dict[tuple[str, tuple[int, ...]], bool] = field(default_factory=dict)
    made: dict[str, list[tuple[int, m.Op]]] = field(default_factory=dict)  # register → block and operation that set it

    def __post_init__(self) -> None:
        for block in range(len(self.blocks.blocks)):
            for op in self.blocks.ops_of(block):
                for name in m.results_of(op.action):
                    self.made.setdefault(name, []).append((block, op))

    def mark(self, nodes: list[n.Node]) -> None:
        for node in nodes:
            for place, step in enumerate(node.steps):
                if isinstance(step, n.Access) and not step.as_one and self.is_one(node, step):
                    node.steps[place] = replace(step, as_one=True)

    def is_one(self, node: n.Node, step: n.Access) -> bool:
        """Whether waves that write the same bytes are alike in what they store."""
        touch = step.op.action
        if not isinstance(touch, m.Touch) or touch.effect != "write" or not touch.stores:
            return False
        if step.widened or touch.collective or touch.is_async or self.apart.get(node.block, True):
            return False
        return all(self.store_alike(each, group) for group in self.groups_of(step) or [()] for each in touch.stores)

    def store_alike(self, stored: m.Operand, waves: tuple[int, ...]) -> bool:
        if isinstance(stored, m.Register):
            return bool(waves) and self.are_alike(stored.name, waves)
        return bool(waves) and self.is_given_alike(stored, waves)

    def groups_of(self, step: n.Access) -> list[tuple[int, ...]] | None:
        """Waves that write in the same places, lane by lane; None if others write some of their bytes, or none do."""
        if len(step.starts) % self.lanes:
            return None
        waves: dict[tuple[int | None, ...], list[int]] = {}
        for wave in range(len(step.starts) // self.lanes):
            waves.setdefault(step.starts[wave * self.lanes : (wave + 1) * self.lanes], []).append(wave)
        seen: set[int] = set()
        for starts in waves:
            own = {byte for each in {*starts} - {None} if each is not None for byte in range(each, each + step.bytes)}
            if own & seen:
                return None
            seen |= own
        groups = [tuple(each) for starts, each in waves.items() if len(each) > 1 and any(x is not None for x in starts)]
        return groups or None

    def are_alike(self, register: str, waves: tuple[int, ...]) -> bool:
        key = (register, waves)
        if key not in self.answers:
            self.answers[key] = self.ask(register, waves)
        return self.answers[key]

    def ask(self, register: str, waves: tuple[int, ...]) -> bool:
        """By induction over the run: all operations are those of all threads, in one order."""
        seen, stack = {register}, [register]
        while stack:
            name = stack.pop()
            held = self.number_of(name, 0)
            if held is not None:
                if not self.same(held, waves):
                    return False
                continue
            if name not in self.made or len(seen) > MOST_REGISTERS:
                return False
            for block, op in self.made[name]:
                if self.apart.get(block, True):
                    return False
                needed = list(self.operands(op))
                if not needed or not all(self.is_given_alike(each, waves) for each in needed):
                    return False
                more = {each.name for each in needed if isinstance(each, m.Register)} - seen
                seen |= more
                stack += more
        return True

    def operands(self, op: m.Op) -> Iterator[m.Operand]:
        """What decides the result of an operation; nothing if more than its operands does."""
        match op.action:
            case m.Compute() | m.Compare() | m.Logic() | m.Select() | m.Forget(uniform=True) | m.Forget(by_wave=True):
                yield from m.operands_of(op.action)
                if op.guard is not None:
                    yield m.Register(op.guard.register)
                yield m.Constant(0)  # what has no operands is the same for all

    def is_given_alike(self, operand: m.Operand, waves: tuple[int, ...]) -> bool:
        if isinstance(operand, m.Given):
            held = self.given.get(operand.name)
            return held is not None and self.same(held, waves)
        return True

    def same(self, held: Value, waves: tuple[int, ...]) -> bool:
        if not held.is_known:
            return False
        rows = held.base.reshape(-1, self.lanes)[list(waves)]
        return bool((rows == rows[0]).all())

    def number_of(self, name: str, depth: int) -> Value | None:
        """What a register always holds, if one operation sets it, from numbers that the launch gives."""
        if name not in self.numbers:
            self.numbers[name] = None
            self.numbers[name] = self.computed(name, depth)
        return self.numbers[name]

    def computed(self, name: str, depth: int) -> Value | None:
        made = self.made.get(name, [])
        if len(made) != 1 or depth > MOST_DEEP:
            return None
        _, op = made[0]
        action = op.action
        if op.guard is not None or not isinstance(action, m.Compute) or action.operator == "shuffle":
            return None
        given = [self.operand(each, depth) for each in action.operands]
        values = [each for each in given if each is not None]
        if len(values) < len(given):
            return None
        found = self.calc.compute(action.operator, values, action.bits, action.signed, action.source_bits)
        return found if found.is_known else None

    def operand(self, operand: m.Operand, depth: int) -> Value | None:
        match operand:
            case m.Constant(value) if -(1 << 63) <= value < 1 << 63:
                return number(value, self.calc.threads)
            case m.Given(name):
                held = self.given.get(name)
                return held if held is not None and held.is_known else None
            case m.Register(name):
                return self.number_of(name, depth + 1)
        return None
