"""How far each value of TTGIR is shared: by the whole workgroup, by the lanes of a wave, or by nobody.

Needs   the scalars of a function, and for called functions how far their arguments and results are shared
Gives   a `Spread` for every value of the function, tensors and memory descriptors included
Keeps   an operation that is not listed here as uniform differs by lane. A value is at least as spread as all that flows
        into it: operands, sources of block arguments, and the conditions that decide which source it takes
Cost    linear in the operations, times the longest chain round loops

    %w = ttg.warp_id                    WAVE
    %h = arith.cmpi eq, %w, %c0         WAVE
    %r = scf.if %h -> (i32) ...         WAVE, whatever the arms yield

A tensor is SAME or READ if all copies of an element agree. Triton spreads a tensor over the threads of a workgroup and
holds some elements more than once; a scalar is held by every thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.values import Values, values_of


class Spread(IntEnum):
    """Who finds the same value."""

    SAME = 0  # the whole workgroup, by construction: arguments, program ids, arithmetic on them
    READ = 1  # the whole workgroup, as long as the memory that it was read from does not change
    WAVE = 2  # the lanes of a wave
    LANE = 3  # nobody

    @property
    def under(self) -> str:
        """Who agrees on a condition: one of the `VARIATIONS` of a graph."""
        return "uniform" if self <= Spread.READ else "per_wave" if self == Spread.WAVE else "divergent"

    @property
    def is_shared(self) -> bool:
        return self <= Spread.READ


# Numbers that describe the launch and the workgroup. Sources: the operation definitions of Triton 3.9 and of the `gpu`,
# `rocdl` and `nvvm` dialects. `smid` is not here: PTX calls it volatile.
_OF_LAUNCH = frozenset(
    """
    tt.get_program_id tt.get_num_programs tti.experimental_cluster_cta_id nvg.cluster_id
    gpu.block_id gpu.block_dim gpu.grid_dim gpu.cluster_id gpu.cluster_dim gpu.cluster_block_id gpu.cluster_dim_blocks
    gpu.num_subgroups gpu.subgroup_size rocdl.wavefrontsize
    rocdl.workgroup.id.x rocdl.workgroup.id.y rocdl.workgroup.id.z
    rocdl.workgroup.dim.x rocdl.workgroup.dim.y rocdl.workgroup.dim.z
    rocdl.grid.dim.x rocdl.grid.dim.y rocdl.grid.dim.z
    nvvm.read.ptx.sreg.ctaid.x nvvm.read.ptx.sreg.ctaid.y nvvm.read.ptx.sreg.ctaid.z
    nvvm.read.ptx.sreg.nctaid.x nvvm.read.ptx.sreg.nctaid.y nvvm.read.ptx.sreg.nctaid.z
    nvvm.read.ptx.sreg.ntid.x nvvm.read.ptx.sreg.ntid.y nvvm.read.ptx.sreg.ntid.z
    nvvm.read.ptx.sreg.clusterid.x nvvm.read.ptx.sreg.clusterid.y nvvm.read.ptx.sreg.clusterid.z
    nvvm.read.ptx.sreg.cluster.ctarank nvvm.read.ptx.sreg.warpsize
    """.split()
)
# Scalars that are functions of their operands, besides all of `arith` and `math`.
_OF_OPERANDS = frozenset(
    """
    tt.addptr tt.bitcast tt.int_to_ptr tt.ptr_to_int tt.fp_to_fp tt.mulhiui tt.clampf tt.precise_sqrt tt.precise_divf
    tt.approx_divf ttng.clc_is_canceled ttng.clc_get_program_id
    """.split()
)
# Scalars that every thread reads from one address, or that all threads get through shared memory: Triton 3.9 lets one
# thread carry out a scalar atomic and broadcasts its result; a reduction to a scalar leaves it in every thread.
_READ = frozenset("tt.load tt.atomic_rmw tt.atomic_cas tt.reduce tt.unsplat ttng.clc_load_result".split())
_PER_WAVE = frozenset("ttg.warp_id rocdl.wave.id gpu.subgroup_id nvvm.read.ptx.sreg.warpid".split())
_SAME_IN_WAVE = frozenset("rocdl.readfirstlane rocdl.readlane rocdl.ballot".split())  # whatever the operand
# Text of instructions, and functions of a library: either may ask for the thread that runs it.
_FOREIGN = frozenset("tt.elementwise_inline_asm tt.extern_elementwise ttg.inline_asm".split())
_PURE = ("arith.", "math.")
_TENSORS = ("tt.", "ttg.", "ttng.", "amdg.", "tti.", "gluon.")  # dialects whose tensors have one value per element
_REGIONS = frozenset(
    """
    scf.for scf.while scf.if scf.index_switch scf.execute_region ttg.warp_specialize ttg.warp_specialize.partitions
    """.split()
)
_NUMBER = ("i", "f", "bf", "index")  # how the types of scalars begin


class Spreads:
    """The spread of every value of a function. `given`: of its arguments; `returned`: of what functions return."""

    def __init__(
        self,
        values: Values,
        function: Operation,
        given: tuple[Spread, ...] = (),
        returned: dict[str, Spread] | None = None,
    ) -> None:
        self.values, self.returned = values, returned or {}
        self.found: dict[str, Spread] = {}
        self.ops = [op for op in walk(function) if op is not function]
        entry = function.regions[0].blocks[0].arguments if function.regions else ()
        for (name, _), spread in zip(entry, given, strict=False):
            self.found[name] = spread
        self.turned = [  # blocks that jump: who decides, and what is made behind
            (
                [last.operands[0] for block in region.blocks if len((last := block.operations[-1]).successors) > 1],
                [name for block in region.blocks[1:] for name in _made_in(block.arguments, block.operations)],
            )
            for op in walk(function)
            for region in op.regions
            if len(region.blocks) > 1
        ]
        while self.grows():
            pass

    def of(self, value: str) -> Spread:
        return self.found.get(value, Spread.SAME)

    def most(self, values: Iterable[str]) -> Spread:
        return max(map(self.of, values), default=Spread.SAME)

    def grows(self) -> bool:
        """Whether one more look at everything makes a value more spread."""
        before = sum(self.found.values())
        for op in self.ops:
            if op.name not in _REGIONS:
                self.raise_to(op.results, self.made_by(op))
        for name, argument in self.values.arguments.items():
            self.raise_to((name,), self.most(argument.sources))
        for op in self.ops:
            self.chosen(op)
        for deciding, made in self.turned:
            # A loop that waves leave at different times, or a join of their ways.
            self.raise_to(made, self.most(deciding))
        return sum(self.found.values()) > before

    def raise_to(self, values: Iterable[str], spread: Spread) -> None:
        if spread > Spread.SAME:
            for value in values:
                if spread > self.of(value):
                    self.found[value] = spread

    def chosen(self, op: Operation) -> None:
        """Results that a condition chooses, and those of loops that waves may leave at different times."""
        match op.name:
            case "scf.if" | "scf.index_switch":
                self.raise_to(op.results, self.of(op.operands[0]))
            case "scf.for":
                counter = op.regions[0].blocks[0].arguments[0][0]
                lower, upper, step = op.operands[:3]
                self.raise_to((counter,), self.most((lower, step)))
                for result in op.results:
                    self.raise_to((result,), self.most((self.values.results[result], lower, upper, step)))
            case "scf.while":
                condition = op.regions[0].blocks[0].operations[-1]
                self.raise_to(op.results, self.of(condition.operands[0]))

    def made_by(self, op: Operation) -> Spread:
        """The spread of what an operation makes."""
        inside = (result for each in walk(op) if each is not op for result in each.results) if op.regions else ()
        taken = max(self.most(op.operands), self.most(inside))
        if op.name in _SAME_IN_WAVE:
            return min(taken, Spread.WAVE)
        if op.name == "tt.call":
            return max(taken, self.returned.get(op.string("callee"), Spread.LANE))
        return max(taken, _alone(op))


def _alone(op: Operation) -> Spread:
    """The spread of what an operation makes of operands that are the same everywhere."""
    name = op.name
    if name in _OF_LAUNCH or name in _OF_OPERANDS or name.startswith(_PURE):
        return Spread.SAME
    if name in _READ:
        return Spread.READ
    if name in _PER_WAVE:
        return Spread.WAVE
    tensors = name.startswith(_TENSORS) and not any(type_.startswith(_NUMBER) for type_ in op.result_types)
    return Spread.READ if tensors and name not in _FOREIGN else Spread.LANE


def _made_in(arguments: Iterable[tuple[str, str]], operations: Iterable[Operation]) -> Iterator[str]:
    yield from (name for name, _ in arguments)
    yield from (result for op in operations if op.name != "arith.constant" for result in op.results)


class Calls:
    """How far the arguments of called functions are shared, at all calls of a module together, and what they return."""

    def __init__(self, functions: Iterable[Operation]) -> None:
        self.functions = {each.string("sym_name"): each for each in functions if each.regions}
        self.given: dict[str, tuple[Spread, ...]] = {}
        self.returned: dict[str, Spread] = {}
        calls = {name: _calls_in(each) for name, each in self.functions.items()}
        if any(calls.values()):
            self.returned = dict.fromkeys(self.functions, Spread.SAME)
            values = {name: values_of(each) for name, each in self.functions.items()}
            while self.grows(calls, values):
                pass

    def of(self, function: Operation, values: Values) -> Spreads:
        """The spreads of a function of the module; its values may have other names there."""
        return Spreads(values, function, self.given.get(function.string("sym_name"), ()), self.returned)

    def grows(self, calls: dict[str, list[Operation]], values: dict[str, Values]) -> bool:
        before = (dict(self.given), dict(self.returned))
        for name, function in self.functions.items():
            spreads = self.of(function, values[name])
            for call in calls[name]:
                callee = call.string("callee")
                now = tuple(map(spreads.of, call.operands))
                known = self.given.get(callee, now)
                self.given[callee] = tuple(map(max, known, now))
            ends = [op for op in walk(function) if op.name == "tt.return"]
            deciding = [each for given, _ in spreads.turned for each in given]
            chosen = spreads.most(deciding) if len(ends) > 1 else Spread.SAME
            found = max((spreads.most(op.operands) for op in ends), default=Spread.SAME)
            self.returned[name] = max(self.returned[name], found, chosen)
        return (self.given, self.returned) != before


def _calls_in(function: Operation) -> list[Operation]:
    return [op for op in walk(function) if op.name == "tt.call"]
