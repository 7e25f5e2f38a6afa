"""Operations that come of instructions, while they are being made.

Needs   the lanes of a wave, and what is certain at each instruction
Gives   `Emitter`: operands as the evaluator takes them, and ways to add operations
Keeps   a scalar register that changes changes the mask it belongs to, and the other way round: each is forgotten where
        the other is set. A vector register changes in active lanes alone
Cost    constant for each operation

Registers that hold a mask of lanes are two things: numbers of 32 bits, one for the wave, and a truth for each lane.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.diag import NOWHERE, Span
from tidegate.hosts.amdgcn import model as a
from tidegate.hosts.amdgcn.facts import Certain, mask_in, mask_of
from tidegate.hosts.isa import model as m

UNKNOWN = m.Given("?")


@dataclass(slots=True)
class Emitter:
    lanes: int
    arrays: tuple[str, ...] = ()
    listens: bool = False  # whether loads may find what other workgroups write meanwhile
    facts: Certain = field(default_factory=Certain)
    ops: list[m.Op] = field(default_factory=list)
    predicates: set[str] = field(default_factory=lambda: {"scc", "vcc", "exec"})
    at: Span = NOWHERE
    text: str = ""
    made: int = 0
    spills_lost: bool = False  # whether a store to a lane's own memory may change any register that lies there

    def begin(self, item: a.AsmLine, facts: Certain) -> None:
        self.at, self.text, self.facts = item.at, item.text, facts

    def add(self, action: m.Action, guard: m.Guard | None = None) -> None:
        self.ops.append(m.Op(action, guard, self.at, self.text))

    @property
    def active(self) -> m.Guard | None:
        return None if self.facts.full else m.Guard("exec")

    def fresh(self) -> str:
        self.made += 1
        return f"%made{self.made}"

    def truth(self) -> str:
        name = self.fresh()
        self.predicates.add(name)
        return name

    # --- operands ---

    def operand(self, given: a.Operand, part: int = 0) -> m.Operand:
        """32 bits of an operand: a register, a constant; what is neither is unknown."""
        match given:
            case a.Registers(names) if part < len(names):
                return m.Constant(0) if names[part] == "null" else m.Register(names[part])
            case a.Immediate(value):
                return m.Constant(
                    value >> 32 if part else value if -(1 << 31) <= value < 1 << 32 else value & 0xFFFFFFFF
                )
            case a.Symbol(name) if part == 0 and self.arrays == (name.partition("@")[0],) and "+" not in name:
                return m.Constant(0)  # the only array that the linker places comes first
        return UNKNOWN

    def operands(self, given: tuple[a.Operand, ...]) -> tuple[m.Operand, ...]:
        """All registers of some operands."""
        found: list[m.Operand] = []
        for each in given:
            inner = each.operand if isinstance(each, a.Changed) else each
            if isinstance(inner, a.Registers):
                found += [m.Register(name) for name in inner.names if name not in ("null", "off")]
            elif isinstance(inner, a.Symbol) and inner.name != "off":
                found.append(UNKNOWN)
        return tuple(found)

    def mask(self, given: a.Operand) -> m.Operand | None:
        """A mask of lanes: a predicate, or a constant; None where nobody knows."""
        if isinstance(given, a.Immediate) and given.value in (0, -1):
            return m.Constant(int(given.value != 0))
        name = mask_of(given, self.lanes)
        if not name:
            return None
        self.predicates.add(name)
        return m.Register(name)

    # --- results ---

    def scalar(self, register: str, action: m.Action) -> None:
        """A scalar register changes; so does the mask that it belongs to."""
        self.add(action)
        self.drop_mask(register)

    def drop_mask(self, register: str) -> None:
        name = mask_in(register, self.lanes)
        if name:
            self.predicates.add(name)
            self.add(m.Forget((name,), (), False, ""))

    def set_mask(self, given: a.Operand, action: m.Action) -> None:
        """A mask changes; of the numbers in its registers nothing is known."""
        self.add(action)
        if isinstance(given, a.Registers):
            self.add(m.Forget(given.names, (), False, ""))

    def forget_carry(self, given: a.Operand, sources: tuple[m.Operand, ...]) -> None:
        """A mask that nobody computes: what each lane gives, and nothing in lanes that are not active."""
        name = self.mask(given)
        if isinstance(name, m.Register):
            self.set_mask(given, m.Forget((name.name,), (*sources, m.Register("exec")), True, ""))
        else:
            self.forget((given,), (), uniform=False)

    def vector(self, action: m.Action) -> None:
        self.add(action, self.active)

    def compute(
        self, operator: str, *given: m.Operand, bits: int = 32, signed: bool = False, source: int = 32
    ) -> m.Operand:
        """A number in between."""
        name = self.fresh()
        self.add(m.Compute(name, operator, given, bits, signed, source))
        return m.Register(name)

    def copied(self, given: m.Operand) -> m.Operand:
        return given if isinstance(given, m.Constant) else self.compute("copy", given)

    def forget(
        self,
        results: tuple[a.Operand, ...],
        sources: tuple[m.Operand, ...] = (),
        *,
        uniform: bool = True,
        by_wave: bool = False,
    ) -> None:
        """Results that nobody computes. `by_wave`: a lane's result may come from other lanes of its wave."""
        for given in results:
            inner = given.operand if isinstance(given, a.Changed) else given
            if not isinstance(inner, a.Registers):
                continue
            names = tuple(each for each in inner.names if each != "null")
            if not names:
                continue
            is_vector = names[0][0] in "va" and names[0] != "vcc_lo"
            if is_vector:
                self.vector(m.Forget(names, sources, uniform, "", by_wave))
            else:
                self.add(m.Forget(names, sources, uniform, "", by_wave))
                for each in dict.fromkeys(mask_in(name, self.lanes) for name in names):
                    if each:
                        self.predicates.add(each)
                        self.add(m.Forget((each,), (), False, ""))

    def opaque(self, why: str, *, orders: bool = False, touches: bool = False) -> None:
        self.add(m.Opaque(why, (), touches, orders))
