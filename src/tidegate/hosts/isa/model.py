"""Final instructions as a small closed set: what the evaluator knows of a machine.

Needs   nothing but places in the text
Gives   `Op`, a closed union, and `Code`: operations in order, jumps by number
Keeps   frozen; no operation names a vendor or an instruction set. What a front end cannot say with these is `Opaque`
Cost    a few hundred bytes an operation

    %r1 = mul (%tid.x, 4)          Compute
    %p1 = %r1 < 64                 Compare
    if %p1: write [%r1 + 8], 4     Touch, guarded
    meet                           Meet: the threads of the block wait for each other
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.diag import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Register:
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: int


@dataclass(frozen=True, slots=True)
class Given:
    """What the launch or the hardware decides: `tid.x`, `ctaid.x`, an argument, the address of an array."""

    name: str


Operand = Register | Constant | Given


@dataclass(frozen=True, slots=True)
class Guard:
    """The operation takes effect in threads whose predicate holds, or does not."""

    register: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Compute:
    """`operator` is one of `hosts.isa.arithmetic`; `bits` of the result; `source_bits` of the operands."""

    result: str
    operator: str
    operands: tuple[Operand, ...]
    bits: int = 32
    signed: bool = False
    source_bits: int = 32


@dataclass(frozen=True, slots=True)
class Compare:
    """A predicate; `combine` joins it with another one: `and`, `or`, `xor`."""

    result: str
    operator: str  # eq | ne | lt | le | gt | ge
    left: Operand
    right: Operand
    bits: int = 32
    signed: bool = False
    combine: str = ""
    other: Register | None = None
    other_negated: bool = False


@dataclass(frozen=True, slots=True)
class Logic:
    """A predicate from others: `and`, `or`, `xor`, `not`, `copy`; `any`: whether it holds in any lane of the wave."""

    result: str
    operator: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Select:
    result: str
    predicate: str
    then: Operand
    otherwise: Operand
    bits: int = 32
    outside: bool = False  # `otherwise` is no address of any array: who gets it touches nothing


@dataclass(frozen=True, slots=True)
class Forget:
    """Registers take values that nobody knows. They are the same in all threads if all of `sources` are.

    `of`: what the results may be addresses of: "sources", of what these are; "memory", of anything; empty, of nothing.
    """

    results: tuple[str, ...]
    sources: tuple[Operand, ...] = ()
    uniform: bool = True  # whether equal sources give equal results
    of: str = "sources"
    by_wave: bool = False  # whether equal sources in all lanes of two waves give these equal results, lane by lane


# From a number to the first byte of each piece, and the bytes of a piece; None where the number describes nothing.
Pieces = Callable[[int], tuple[tuple[int, ...], int] | None]


@dataclass(frozen=True, slots=True)
class Touch:
    """An access to memory that may be shared. `bytes` by each thread that takes part.

    `collective`: the lanes of a wave carry it out together, each names a piece, and no byte belongs to one of them.
    `lanes`: how many lanes of a wave name pieces, counted from the first; 0: all.
    `pieces`: the register holds no address, but describes where the bytes are.
    """

    effect: str  # read | write | atomic
    address: Operand
    offset: int
    bytes: int
    space: str = (
        "shared"  # shared | near: the same, and no number leads beyond | any: an address that may lead anywhere
    )
    is_async: bool = False
    operator: str = ""
    element: str = ""
    collective: bool = False
    lanes: int = 0
    values: tuple[Operand, ...] = ()  # what decides the bytes that a thread stores; empty: nobody knows
    counter: str = ""  # where the hardware counts instructions in flight: the one that this access is of
    counted: int = 1  # 0: another access of the same instruction counts
    pieces: Pieces | None = None
    queue: str = ""  # of groups: the counter that an asynchronous access is in; empty: that of copies
    proxy: str = "generic"


@dataclass(frozen=True, slots=True)
class Issued:
    """An instruction that touches no shared memory and counts where some do."""

    counter: str


@dataclass(frozen=True, slots=True)
class WaitCounts:
    """A wave goes on when at most so many of its instructions are in flight, counter by counter."""

    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class FromLane:
    """Every lane of a wave gets what one lane holds: that number, or the first for which a predicate holds."""

    result: str
    source: Operand
    lane: Operand | None = None
    active: str = ""


@dataclass(frozen=True, slots=True)
class Meet:
    """Threads of the block wait for each other at a barrier. `count`: how many; None: all.

    `part`: of a barrier in two instructions, "arrive" or "depart".
    """

    barrier: Operand
    count: Operand | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class UseObject:
    """At a barrier object in memory: `init`, `arrive`, `wait` for an arrival's own phase, `track` copies, `end`.

    `operand`: of `init` how many arrivals complete a phase, of `arrive` for how many this counts, of `wait` what the
    arrival gave, which is `result`.
    """

    what: str
    address: Operand
    offset: int = 0
    operand: Operand | None = None
    result: str = ""


@dataclass(frozen=True, slots=True)
class MeetLanes:
    """Lanes of a wave wait for each other: those that the mask names."""

    mask: Operand


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes the group of the copies that each thread has issued, or of what else is in a queue of groups."""

    queue: str = ""


@dataclass(frozen=True, slots=True)
class WaitGroups:
    """Each thread goes on when at most so many of its groups are in flight. `copies`: groups or not, all are over."""

    count: int
    copies: bool = False
    queue: str = ""


@dataclass(frozen=True, slots=True)
class OrderProxies:
    """What a thread has read and written so far comes before what others do by another way to the same memory."""


@dataclass(frozen=True, slots=True)
class Jump:
    """To another operation, by its number in the code."""

    target: int


@dataclass(frozen=True, slots=True)
class End:
    """The thread ends. `aborts`: so does the whole launch, and nothing it has done counts."""

    aborts: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """What nobody has described. `why`: for the reader. `touches`: it may read and write all shared memory.

    `orders`: it belongs to synchronization that is not modelled, so that nothing is proved of the program.
    """

    why: str
    results: tuple[str, ...] = ()
    touches: bool = False
    orders: bool = False


Action = (
    Compute
    | Compare
    | Logic
    | Select
    | FromLane
    | Forget
    | Touch
    | Issued
    | Meet
    | MeetLanes
    | UseObject
    | Commit
    | WaitGroups
    | OrderProxies
    | WaitCounts
    | Jump
    | End
    | Opaque
)


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: what it does, in which threads, where it stands."""

    action: Action
    guard: Guard | None = None
    at: Span = field(default=NOWHERE, compare=False)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Array:
    """A piece of shared memory. `bytes` is what it may have at most where the launch decides."""

    name: str
    base: int  # its address in the evaluation
    bytes: int
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel as operations, and the memory they work on."""

    name: str
    ops: tuple[Op, ...]
    arrays: tuple[Array, ...]
    predicates: frozenset[str] = frozenset()
    wide: frozenset[str] = frozenset()  # registers of 64 bits
    narrow: frozenset[str] = frozenset()  # registers of 8 and 16 bits
    has_generic: bool = False  # whether an address of shared memory can come to be one that leads anywhere
    by_wave: bool = False  # whether a wave carries out each instruction as one, and branches as one
    absolute: bool = False  # whether any number is an address of the only array


def results_of(action: Action) -> tuple[str, ...]:
    """The registers that an operation sets."""
    match action:
        case Compute(result=result) | Compare(result=result) | Logic(result=result) | Select(result=result):
            return (result,)
        case FromLane(result=result):
            return (result,)
        case UseObject(result=result) if result:
            return (result,)
        case Forget(results=results) | Opaque(results=results):
            return results
    return ()


def operands_of(action: Action) -> tuple[Operand, ...]:
    """What an operation reads, guards aside."""
    match action:
        case Compute(operands=operands) | Logic(operands=operands):
            return operands
        case Compare(left=left, right=right, other=other):
            return (left, right) if other is None else (left, right, other)
        case Select(predicate=predicate, then=then, otherwise=otherwise):
            return (Register(predicate), then, otherwise)
        case FromLane(source=source, lane=lane, active=active):
            return (source, *(() if lane is None else (lane,)), *((Register(active),) if active else ()))
        case Forget(sources=sources):
            return sources
        case Touch(address=address):
            return (address,)  # what is stored decides nothing but whether two threads store the same
        case Meet(barrier=barrier, count=count):
            return (barrier,) if count is None else (barrier, count)
        case MeetLanes(mask=mask):
            return (mask,)
        case UseObject(address=address, operand=operand):
            return (address,) if operand is None else (address, operand)
    return ()
