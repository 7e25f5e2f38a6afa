"""What differs between the GPUs that kernels are built for.

Needs   a writer of instructions
Gives   `Backend`: the interface that NVIDIA's and AMD's instructions stand behind
Keeps   each operation of the language becomes exactly the instructions that the target's table names
Cost    constant for each operation
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.language import ops
from tidegate.language.types import DType, Tile
from tidegate.lowering.ir import IrWriter, Scalar
from tidegate.lowering.spread import TileSpread
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """How a matrix instruction takes its tiles: who holds what of a, of b and of the accumulator."""

    a: TileSpread
    b: TileSpread
    acc: TileSpread


class Unbuilt(Exception):
    """What no instruction does; in words."""


class Backend(ABC):
    """One target. `lane` and `wave` are the thread's own, once `start` has run."""

    triple: str
    debug_kind = "LineTablesOnly"
    scope: str = ""  # of atomics
    apart = 0  # conditions around on which lanes of a wave disagree
    copies_by_lane = True  # each lane of an asynchronous copy has an address of its own in shared memory
    lane: Scalar = 0
    wave: Scalar = 0

    def __init__(self, target: Target, waves: int) -> None:
        self.target, self.waves = target, waves
        size = target.wave.size
        assert size is not None
        self.lanes = int(size)

    @property
    @abstractmethod
    def attributes(self) -> str:
        """Of the kernel's function, `#0`."""

    @property
    @abstractmethod
    def convention(self) -> str:
        """How the function is called."""

    def metadata(self) -> str:
        """What instructions refer to, beside places in the source."""
        return ""

    @abstractmethod
    def start(self, w: IrWriter) -> None:
        """Finds out which lane of which wave this is."""

    @abstractmethod
    def workgroup(self, w: IrWriter, axis: int) -> Scalar: ...

    def together(self, what: str) -> None:
        """All lanes of a wave must carry this out: the instruction is not defined where some are elsewhere."""
        if self.apart:
            raise Unbuilt(f"{what} under a condition on which the lanes of a wave disagree")

    @abstractmethod
    def from_lane(self, w: IrWriter, value: str, dtype: DType, lane: Scalar) -> str:
        """The value that another lane has."""

    @abstractmethod
    def function(self, w: IrWriter, fn: str, kind: str, args: Sequence[str]) -> str:
        """A function of the mathematical library on floats of `kind`."""

    @abstractmethod
    def product(self, a: Tile, b: Tile, acc: Tile) -> MatrixProduct | None:
        """How a product of tiles is held; None: no matrix instruction takes them."""

    @abstractmethod
    def multiply(
        self, w: IrWriter, a: Sequence[str], b: Sequence[str], acc: Sequence[str], tiles: tuple[Tile, Tile, Tile]
    ) -> list[str]:
        """a · b + acc, each held as `product` says."""

    def fragments(self, memory: Any, spot: Any, spread: TileSpread) -> list[str] | None:
        """A tile read from shared memory by an instruction for fragments of matrices; None: there is none for it."""
        return None

    @abstractmethod
    def shared_memory(self, size: int) -> str:
        """The global variable that is the workgroup's shared memory."""

    @abstractmethod
    def meet(self, w: IrWriter) -> None:
        """A bare rendezvous of the workgroup."""

    @abstractmethod
    def signal(self, w: IrWriter, op: ops.Signal, *, and_wait: bool) -> None:
        """Arrives; `and_wait`: and waits at once, since the target has no halves."""

    @abstractmethod
    def depart(self, w: IrWriter, op: ops.Wait) -> None: ...

    @abstractmethod
    def set_up(self, w: IrWriter, address: str, arrivals: int) -> None: ...

    @abstractmethod
    def end_of_setting_up(self, w: IrWriter) -> None: ...

    @abstractmethod
    def arrive(self, w: IrWriter, address: str, expect: int) -> None: ...

    @abstractmethod
    def wait_for_phase(self, w: IrWriter, address: str, parity: Scalar) -> None: ...

    @abstractmethod
    def sync(self, w: IrWriter, op: ops.Op) -> None:
        """Barriers, waits and fences."""


def refuse(what: str, at: Span, target: Target, help: str = "") -> BadInput:
    """An operation that is not built."""
    return BadInput(Finding("TG025", f"{what} cannot be built for {target.name}", (Label(at),), help=help))


def by_words(w: IrWriter, value: str, dtype: DType, move: Callable[[str], str]) -> str:
    """A value moved as whole words of 32 bits."""
    match dtype.bits:
        case 64:
            whole = w.once(f"bitcast double {value} to i64") if dtype.is_float else value
            low, high = w.once(f"trunc i64 {whole} to i32"), w.once(f"lshr i64 {whole}, 32")
            high = w.once(f"trunc i64 {high} to i32")
            low, high = w.once(f"zext i32 {move(low)} to i64"), w.once(f"zext i32 {move(high)} to i64")
            whole = w.once(f"or i64 {w.once(f'shl i64 {high}, 32')}, {low}")
            return w.once(f"bitcast i64 {whole} to double") if dtype.is_float else whole
        case 32:
            if not dtype.is_float:
                return move(value)
            return w.once(f"bitcast i32 {move(w.once(f'bitcast float {value} to i32'))} to float")
        case bits:
            kind = {"f16": "half", "bf16": "bfloat"}.get(dtype.name, "")
            plain = w.once(f"bitcast {kind} {value} to i{bits}") if kind else value
            word = w.once(f"trunc i32 {move(w.once(f'zext i{bits} {plain} to i32'))} to i{bits}")
            return w.once(f"bitcast i{bits} {word} to {kind}") if kind else word
