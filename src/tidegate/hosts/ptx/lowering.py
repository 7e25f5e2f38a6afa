"""Operations that come of instructions, while they are being made.

Needs   the registers and variables of a function
Gives   `Lowering`: operands as the evaluator takes them, and ways to add operations
Keeps   what must not happen in some of the guarded threads alone is jumped over instead of guarded
Cost    constant for each operation
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.diag import NOWHERE, Span
from tidegate.hosts.isa import model as m
from tidegate.hosts.ptx import model as p

SPECIAL = ("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%lanemask_")


@dataclass(slots=True)
class Lowering:
    registers: dict[str, str]
    arrays: dict[str, str]  # shared variable → its array
    params: set[str]
    ops: list[m.Op] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)  # labels, by the complement of a jump's target
    has_generic: bool = False
    guard: m.Guard | None = None
    at: Span = NOWHERE
    text: str = ""
    made: int = 0

    def begin(self, item: p.Instruction) -> None:
        guard = item.guard
        self.guard = None if guard is None else m.Guard(guard.register, guard.negated)
        self.at, self.text = item.at, item.mnemonic

    def add(self, action: m.Action, guard: m.Guard | None) -> None:
        self.ops.append(m.Op(action, guard, self.at, self.text))

    def guarded(self, action: m.Action) -> None:
        self.add(action, self.guard)

    def unguarded(self, action: m.Action) -> None:
        """Jumped over where the guard does not hold: whether threads agree on that matters."""
        if self.guard is not None:
            self.add(m.Jump(len(self.ops) + 2), m.Guard(self.guard.register, not self.guard.negated))
        self.add(action, None)

    def label(self, name: str) -> int:
        self.targets.append(name)
        return ~(len(self.targets) - 1)

    def fresh(self, wide: bool = False) -> str:
        self.made += 1
        while (name := f"%made{self.made}") in self.registers:
            self.made += 1
        self.registers[name] = "b64" if wide else "b32"
        return name

    # --- operands ---

    def operand(self, given: p.Operand) -> m.Operand:
        """A register, a constant or what the launch gives; what is none of these is unknown."""
        match given:
            case p.Number(value):
                return m.Constant(value)
            case p.Name(name) if name in self.registers:
                return m.Register(name)
            case p.Name(name) if name in self.arrays:
                return m.Given(f"&{self.arrays[name]}")
            case p.Name("WARP_SZ"):
                return m.Constant(32)
            case p.Name(name) if name.startswith(SPECIAL):
                return m.Given(name)
            case p.Address(base, offset):
                return self.moved(self.operand(base), offset)
            case p.Negated("-", inner) if not (isinstance(inner, p.Number) and inner.fraction):
                found = self.fresh()
                self.guarded(m.Compute(found, "neg", (self.operand(inner),)))
                return m.Register(found)
        return m.Given("?")

    def moved(self, base: m.Operand, offset: int) -> m.Operand:
        if not offset:
            return base
        found = self.fresh(wide=True)
        self.add(m.Compute(found, "add", (base, m.Constant(offset)), 64, True, 64), None)
        return m.Register(found)

    def results(self, item: p.Instruction) -> tuple[str, ...]:
        """The registers that the first operand names."""
        found: list[str] = []
        stack: list[p.Operand] = list(item.operands[:1])
        while stack:
            match stack.pop():
                case p.Name(name) if name in self.registers:
                    found.append(name)
                case p.Vector(items):
                    stack.extend(items)
                case p.Pair(first, second):
                    stack += [first, second]
        return tuple(found)

    def sources(self, item: p.Instruction) -> tuple[m.Operand, ...]:
        """All registers behind the first operand."""
        found: list[m.Operand] = []
        stack: list[p.Operand] = list(item.operands[1:])
        while stack:
            match stack.pop():
                case p.Name() as name:
                    found.append(self.operand(name))
                case p.Vector(items):
                    stack.extend(items)
                case p.Pair(first, second):
                    stack += [first, second]
                case p.Negated(_, inner):
                    stack.append(inner)
                case p.Address(base, _, more):
                    stack += [base, *more]
        return tuple(found)

    # --- what is not followed ---

    def forget(self, item: p.Instruction, *, has_address: bool, uniform: bool = True) -> None:
        """Results that nobody computes; with an address the instruction may do anything to shared memory."""
        results = self.results(item)
        if has_address and any(isinstance(each, p.Address) for each in item.operands):
            self.opaque(item, f"`{item.mnemonic}` is not known", touches=True)
        elif results:
            self.guarded(m.Forget(results, self.sources(item), uniform))

    def opaque(self, item: p.Instruction, why: str, *, orders: bool = False, touches: bool = False) -> None:
        self.unguarded(m.Opaque(why, self.results(item), touches, orders))
