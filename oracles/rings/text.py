"""A program of the model as a kernel in the text form of Tidegate's language.

Needs   a Program
Gives   a `.tide` text for its target: roles are groups of waves, a part of a slot is a row of `PART` bytes
Keeps   each statement becomes the operations of the same meaning, in the same order
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import assert_never

from oracles.rings.model import (
    PART,
    WORKGROUP,
    Arrive,
    Copy,
    Depart,
    Drain,
    Elected,
    Expr,
    Fence,
    Guard,
    Loop,
    Program,
    Read,
    Role,
    Signal,
    Statement,
    Store,
    Sync,
    Wait,
    Write,
)

ELEMENTS = PART // 4
LOOSE, SUM, PRODUCT, ATOM = range(4)
LEVELS = {"<": LOOSE, "==": LOOSE, "+": SUM, "-": SUM, "*": PRODUCT, "//": PRODUCT, "mod": PRODUCT}


def expression(expr: Expr, names: Mapping[str, str], level: int = LOOSE) -> str:
    """As the language writes it; `names` says how sizes are written, all other names are values."""
    if not expr.args:
        return names.get(expr.op) or (expr.op if expr.op.lstrip("-").isdigit() else f"%{expr.op}")
    if expr.op in ("select", "min"):
        return f"{expr.op}({', '.join(expression(each, names) for each in expr.args)})"
    mine = LEVELS[expr.op]
    left, right = expr.args
    text = f"{expression(left, names, mine)} {expr.op} {expression(right, names, mine + 1)}"
    return f"({text})" if mine < level else text


def names_of(program: Program) -> dict[str, str]:
    """Sizes as the roles write them: all roles say the same, in whichever way."""
    forms = {"size": "{0}", "argument": "%{1}", "workgroup": "({0} + wg0)"}
    return {each: forms[program.given_by].format(each, each.lower()) for each in program.sizes}


class Writer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers = {each.name: each for each in program.buffers}
        self.barriers = {each.name: each for each in program.barriers}
        self.lines: list[str] = []
        self.names = names_of(program)
        self.numbers = count()
        self.first = 0  # wave of the role

    def put(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def write(self) -> str:
        program = self.program
        self.put(0, f"target {program.target}\n")
        array = f"global<{self.widest()}x{ELEMENTS}xf32>"
        arguments = [f"%X: {array}", f"%Y: {array}"]
        if program.given_by == "argument":
            arguments += [f"{each}: index" for each in self.names.values()]
        self.put(0, f"kernel @{program.name}({', '.join(arguments)})")
        if program.given_by != "argument":
            self.put(2, f"sizes({', '.join(f'{each} = {3 + at}' for at, each in enumerate(program.sizes))})")
        if program.given_by == "workgroup":
            self.put(2, "grid(3)")
        self.put(2, f"waves {sum(each.waves for each in program.roles)} {{")
        for buffer in program.buffers:
            slots = f", slots = {buffer.slots}" if buffer.slots > 1 else ""
            self.put(1, f"%{buffer.name} = alloc : lds<{shape(buffer.parts)}xf32{slots}>")
        for barrier in program.barriers:
            slots = f", slots = {barrier.slots}" if barrier.slots > 1 else ""
            kind = "mbarrier" if barrier.slots else "named_barrier"
            self.put(1, f"%{barrier.name} = new_barrier : {kind}<{barrier.count}{slots}>")
        self.put(1, f"%zero = fill 0.0 : tile<{ELEMENTS}xf32>")
        if len(program.roles) == 1:
            self.body(program.roles[0], 1, program.roles[0].body)
        else:
            self.roles()
        self.put(0, "}")
        return "\n".join(self.lines) + "\n"

    def widest(self) -> int:
        return max((each.parts for each in self.program.buffers), default=1)

    def roles(self) -> None:
        self.put(1, "specialize {")
        for role in self.program.roles:
            self.put(2, f"waves {self.first} .. {self.first + role.waves} {{  # {role.name}")
            self.body(role, 3, role.body)
            self.put(2, "}")
            self.first += role.waves
        self.put(1, "}")

    def body(self, role: Role, depth: int, body: tuple[Statement, ...]) -> None:
        for each in body:
            self.statement(role, depth, each)

    def index(self, expr: Expr) -> str:
        return expression(expr, self.names)

    def place(self, name: str, slot: Expr, row: str = "") -> str:
        """A slot, and a row of it; the bracket of the slot is there if there are several."""
        slots = self.buffers[name].slots if name in self.buffers else self.barriers[name].slots
        where = f"[{self.index(slot)}]" if slots > 1 else ""
        return f"%{name}{where}{f'[{row}, 0]' if row else ''}"

    def access(self, role: Role, op: Read | Write) -> tuple[str, str]:
        """The place, and the shape of what is accessed."""
        parts = self.buffers[op.buffer].parts
        if op.part is None:
            return self.place(op.buffer, op.slot), shape(parts)
        if parts == 1:
            return self.place(op.buffer, op.slot), shape(1)
        offset = op.part - self.first
        row = "wave" if offset == 0 else f"wave {'+' if offset > 0 else '-'} {abs(offset)}"
        return self.place(op.buffer, op.slot, str(op.part) if role.waves == 1 else row), shape(1)

    def statement(self, role: Role, depth: int, op: Statement) -> None:
        match op:
            case Arrive(name, slot, expect):
                more = f" expect {expect}" if expect else ""
                self.put(depth, f"mbarrier_arrive {self.place(name, slot)}{more}")
            case Wait(name, slot, parity):
                self.put(depth, f"mbarrier_wait {self.place(name, slot)} parity {self.index(parity)}")
            case Copy(buffer, slot, name, at):
                to, tile = self.place(buffer, slot), shape(self.buffers[buffer].parts)
                source = "%X[0, 0]"
                says = f"tensor_load_to_lds {source} to {to} reports {self.place(name, at)} : tile<{tile}xf32>"
                self.put(depth, says)
            case Read():
                place, tile = self.access(role, op)
                self.put(depth, f"%v{next(self.numbers)} = local_read {place} : tile<{tile}xf32>")
            case Write():
                place, tile = self.access(role, op)
                self.put(depth, f"local_write {self.filled(depth, tile)}, {place}")
            case Store(buffer, slot):
                tile = shape(self.buffers[buffer].parts)
                self.put(depth, f"lds_to_global {self.place(buffer, slot)} to %Y[0, 0] : tile<{tile}xf32>")
                self.put(depth, "commit_group")
            case Drain():
                counter = "bulk_group" if self.program.target == "sm_90" else "dscnt"
                self.put(depth, f"wait_count {counter}(0)")
            case Depart(name):
                self.put(depth, f"wait %{name}")
            case Fence():
                self.put(depth, "fence proxy_async")
            case Signal(name):
                self.put(depth, f"signal %{name}")
            case Sync(name):
                if name == WORKGROUP:
                    self.put(depth, "workgroup_barrier")
                else:
                    self.put(depth, f"signal %{name}")
                    self.put(depth, f"wait %{name}")
            case Loop():
                self.loop(role, depth, op)
            case Guard(condition, body):
                self.put(depth, f"conditional {self.index(condition)} {{")
                self.body(role, depth + 1, body)
                self.put(depth, "}")
            case Elected(body):
                self.put(depth, f"conditional wave == {self.first} {{")
                self.body(role, depth + 1, body)
                self.put(depth, "}")
            case _:
                assert_never(op)

    def filled(self, depth: int, tile: str) -> str:
        if tile == shape(1):
            return "%zero"
        name = f"%z{next(self.numbers)}"
        self.put(depth, f"{name} = fill 0.0 : tile<{tile}xf32>")
        return name

    def loop(self, role: Role, depth: int, op: Loop) -> None:
        results = ", ".join(f"%{each.result}" for each in op.carried)
        carried = ", ".join(f"%{each.name} = {self.index(each.first)} : index" for each in op.carried)
        head = f"iterate %{op.counter} in {self.index(op.start)} .. {self.index(op.stop)}"
        self.put(depth, f"{results + ' = ' if results else ''}{head}{f' carry({carried})' if carried else ''} {{")
        self.body(role, depth + 1, op.body)
        if op.carried:
            self.put(depth + 1, f"yield {', '.join(self.index(each.next) for each in op.carried)}")
        self.put(depth, "}")


def shape(parts: int) -> str:
    return f"{parts}x{ELEMENTS}" if parts > 1 else str(ELEMENTS)


def to_tide(program: Program) -> str:
    return Writer(program).write()
