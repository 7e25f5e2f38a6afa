"""A small model of programs with roles, rings of slots, mbarriers and named barriers.

Needs   nothing of Tidegate: the rules are those of docs/machine-model.md for sm_90, and for named barriers of gfx1250
Gives   `Program`, a value; `expand(program, sizes)`: the steps of each wave for given sizes, in program order
Keeps   control never depends on data or on other waves, so for given sizes each wave has one finite list of steps

A role is a number of waves that run one body. Slots are divided into parts, one `PART` bytes each; an access touches
the whole slot or the part that belongs to its wave. Everything that counts iterations is an `Expr`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

PART = 256
# The barrier of all waves is an object of this name. It no longer counts a wave that has ended; what that wave did is
# taken as known to those that meet there.
WORKGROUP = "workgroup"

# --- expressions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr:
    """`op` is a number's text, a variable's name (without arguments), or an operator."""

    op: str
    args: tuple[Expr, ...] = ()

    def __add__(self, other: Expr | int) -> Expr:
        return self if other == 0 else Expr("+", (self, as_expr(other)))

    def __sub__(self, other: Expr | int) -> Expr:
        return self if other == 0 else Expr("-", (self, as_expr(other)))

    def __mul__(self, other: int) -> Expr:
        return self if other == 1 else Expr("*", (self, as_expr(other)))

    def __floordiv__(self, other: int) -> Expr:
        return self if other == 1 else Expr("//", (self, as_expr(other)))

    def __mod__(self, other: int) -> Expr:
        return Expr("mod", (self, as_expr(other)))


def as_expr(value: Expr | int) -> Expr:
    return value if isinstance(value, Expr) else Expr(str(value))


def less(left: Expr | int, right: Expr | int) -> Expr:
    return Expr("<", (as_expr(left), as_expr(right)))


def equal(left: Expr | int, right: Expr | int) -> Expr:
    return Expr("==", (as_expr(left), as_expr(right)))


def select(condition: Expr, then: Expr | int, otherwise: Expr | int) -> Expr:
    return Expr("select", (condition, as_expr(then), as_expr(otherwise)))


def least(left: Expr | int, right: Expr | int) -> Expr:
    return Expr("min", (as_expr(left), as_expr(right)))


def value_of(expr: Expr, env: Mapping[str, int]) -> int:
    if not expr.args:
        return env[expr.op] if expr.op in env else int(expr.op)
    if expr.op == "select":
        return value_of(expr.args[1 if value_of(expr.args[0], env) else 2], env)
    left, right = (value_of(each, env) for each in expr.args)
    match expr.op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right
        case "mod":
            return left % right
        case "<":
            return left < right
        case "==":
            return left == right
        case "min":
            return min(left, right)
    raise ValueError(expr.op)


# --- programs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrive:
    """One arrival at a slot of an mbarrier, which may also expect bytes."""

    barrier: str
    slot: Expr
    expect: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Passes while the last completed generation of an mbarrier has this parity; generation -1 is complete."""

    barrier: str
    slot: Expr
    parity: Expr


@dataclass(frozen=True, slots=True)
class Copy:
    """An asynchronous copy into a whole slot, which reports its bytes to an mbarrier."""

    buffer: str
    slot: Expr
    barrier: str
    at: Expr


@dataclass(frozen=True, slots=True)
class Read:
    """Each wave reads the whole slot, or one part: this number plus that of the wave in its role."""

    buffer: str
    slot: Expr
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Write:
    buffer: str
    slot: Expr
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """An asynchronous copy of a whole slot to global memory: it reads the slot until the wave drains its stores."""

    buffer: str
    slot: Expr


@dataclass(frozen=True, slots=True)
class Drain:
    """All stores of the wave have read their slots; on gfx1250, its reads and writes are performed."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Between generic accesses and those of the async proxy."""


@dataclass(frozen=True, slots=True)
class Signal:
    """An arrival at a named barrier, without a wait."""

    barrier: str


@dataclass(frozen=True, slots=True)
class Sync:
    """An arrival at a named barrier, then a wait for the generation of that arrival."""

    barrier: str


@dataclass(frozen=True, slots=True)
class Depart:
    """A wait for the generation of the last arrival at a named barrier, on targets where the two may stand apart."""

    barrier: str


@dataclass(frozen=True, slots=True)
class Carried:
    """A value carried around a loop: `result` is its name behind the loop."""

    name: str
    first: Expr
    next: Expr
    result: str


@dataclass(frozen=True, slots=True)
class Loop:
    counter: str
    start: Expr
    stop: Expr
    body: tuple[Statement, ...]
    carried: tuple[Carried, ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    """Runs where the condition holds; names in it are sizes, counters and carried values."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Elected:
    """Runs in the first wave of the role only."""

    body: tuple[Statement, ...]


Statement = (
    Arrive | Wait | Copy | Read | Write | Store | Drain | Fence | Signal | Sync | Depart | Loop | Guard | Elected
)


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    waves: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    name: str
    slots: int
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Barrier:
    """An object with `slots` mbarriers; a named barrier has none."""

    name: str
    count: int
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    buffers: tuple[Buffer, ...]
    barriers: tuple[Barrier, ...]
    roles: tuple[Role, ...]
    sizes: tuple[str, ...] = ("N",)
    target: str = "sm_90"  # or gfx1250: an arrival there performs nothing by itself
    given_by: str = "size"  # where the kernel has its sizes from: "size", "argument", or "workgroup" (and its number)

    @property
    def slots(self) -> dict[str, int]:
        """Of each buffer and barrier; a named barrier has none."""
        both: tuple[Buffer | Barrier, ...] = (*self.buffers, *self.barriers)
        return {each.name: each.slots for each in both}

    @property
    def stages(self) -> int:
        return max(1, *self.slots.values())


# --- steps --------------------------------------------------------------------------------------------------------

ARRIVE, WAIT, SIGNAL, AWAIT, COPY, READ, WRITE, FENCE, STORE, DRAIN, LEAVE = range(11)


@dataclass(slots=True)
class Step:
    """One step of one wave. `number` names it among all steps; a copy's completion has the number of the copy."""

    number: int
    wave: int
    kind: int
    object: int = -1
    amount: int = 0  # expected bytes, copied bytes, or the parity
    cells: tuple[int, ...] = ()
    says: str = ""


@dataclass(slots=True)
class Steps:
    """All steps for given sizes: of each wave, by number; the objects are the slots of barriers."""

    waves: list[list[Step]]
    all: list[Step]
    counts: list[int]
    names: list[str]
    of_role: list[str]
    arrivals_perform: bool


class Expansion:
    """Walks the bodies with numbers for all names."""

    def __init__(self, program: Program, sizes: Mapping[str, int]) -> None:
        self.program, self.sizes = program, sizes
        self.objects: dict[tuple[str, int], int] = {}
        self.cells: dict[tuple[str, int, int], int] = {}
        self.buffers = {each.name: each for each in program.buffers}
        waves = sum(each.waves for each in program.roles)
        self.steps = Steps([], [], [], [], [], program.target == "sm_90")
        for each in (*program.barriers, Barrier(WORKGROUP, waves)):
            for slot in range(max(each.slots, 1)):
                self.objects[each.name, slot] = len(self.steps.counts)
                self.steps.counts.append(each.count)
                self.steps.names.append(f"{each.name}[{slot}]" if each.slots else each.name)
        meets = any(isinstance(op, Sync) and op.barrier == WORKGROUP for op in all_statements(program))
        for role in program.roles:
            for index in range(role.waves):
                self.role, self.index = role, index
                self.mine: list[Step] = []
                self.steps.waves.append(self.mine)
                self.steps.of_role.append(f"{role.name}.{index}" if role.waves > 1 else role.name)
                self.walk(role.body, dict(sizes))
                if meets:
                    self.add(LEAVE, (WORKGROUP, 0), 0, (), "ends")

    def add(self, kind: int, barrier: tuple[str, int] | None, amount: int, cells: tuple[int, ...], says: str) -> None:
        number = -1 if barrier is None else self.objects[barrier]
        step = Step(len(self.steps.all), len(self.steps.waves) - 1, kind, number, amount, cells, says)
        self.steps.all.append(step)
        self.mine.append(step)

    def touched(self, buffer: str, slot: int, part: int | None) -> tuple[int, ...]:
        parts = range(self.buffers[buffer].parts) if part is None else (part,)
        return tuple(self.cells.setdefault((buffer, slot, each), len(self.cells)) for each in parts)

    def walk(self, body: tuple[Statement, ...], env: dict[str, int]) -> None:
        where = " ".join(f"{name}={value}" for name, value in env.items() if name not in self.sizes)
        for each in body:
            self.visit(each, env, where)

    def visit(self, op: Statement, env: dict[str, int], where: str) -> None:
        match op:
            case Arrive(name, slot, expect):
                at = value_of(slot, env)
                says = f"arrive {name}[{at}]" + (f" expect {expect}" if expect else "")
                self.add(ARRIVE, (name, at), expect, (), f"{says} at {where}")
            case Wait(name, slot, parity):
                at, phase = value_of(slot, env), value_of(parity, env)
                self.add(WAIT, (name, at), phase, (), f"wait {name}[{at}] parity {phase} at {where}")
            case Copy(buffer, slot, name, at_):
                cells = self.touched(buffer, value_of(slot, env), None)
                at = value_of(at_, env)
                says = f"copy to {buffer}[{value_of(slot, env)}] reports {name}[{at}] at {where}"
                self.add(COPY, (name, at), PART * len(cells), cells, says)
            case Read(buffer, slot, part) | Write(buffer, slot, part):
                mine = None if part is None else part + self.index
                cells = self.touched(buffer, value_of(slot, env), mine)
                kind = READ if isinstance(op, Read) else WRITE
                says = "read" if kind == READ else "write"
                self.add(kind, None, 0, cells, f"{says} {buffer}[{value_of(slot, env)}] at {where}")
            case Store(buffer, slot):
                cells = self.touched(buffer, value_of(slot, env), None)
                self.add(STORE, None, 0, cells, f"store from {buffer}[{value_of(slot, env)}] at {where}")
            case Drain():
                self.add(DRAIN, None, 0, (), f"drain at {where}")
            case Fence():
                self.add(FENCE, None, 0, (), f"fence at {where}")
            case Signal(name):
                self.add(SIGNAL, (name, 0), 0, (), f"signal {name} at {where}")
            case Sync(name):
                self.add(SIGNAL, (name, 0), 0, (), f"signal {name} at {where}")
                self.add(AWAIT, (name, 0), 0, (), f"await {name} at {where}")
            case Depart(name):
                self.add(AWAIT, (name, 0), 0, (), f"await {name} at {where}")
            case Loop():
                self.loop(op, env)
            case Guard(condition, body):
                if value_of(condition, env):
                    self.walk(body, env)
            case Elected(body):
                if self.index == 0:
                    self.walk(body, env)
            case _:
                assert_never(op)

    def loop(self, op: Loop, env: dict[str, int]) -> None:
        now = {each.name: value_of(each.first, env) for each in op.carried}
        for count in range(value_of(op.start, env), value_of(op.stop, env)):
            inside = env | now | {op.counter: count}
            self.walk(op.body, inside)
            now = {each.name: value_of(each.next, inside) for each in op.carried}
        env.update({each.result: now[each.name] for each in op.carried})


def expand(program: Program, sizes: Mapping[str, int]) -> Steps:
    return Expansion(program, sizes).steps


def all_statements(program: Program) -> Iterator[Statement]:
    for role in program.roles:
        yield from (each for _, each in statements(role.body))


def statements(body: tuple[Statement, ...], path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Statement]]:
    """Every statement with its path: positions from the outside in."""
    for number, each in enumerate(body):
        yield (*path, number), each
        if isinstance(each, Loop | Guard | Elected):
            yield from statements(each.body, (*path, number))
