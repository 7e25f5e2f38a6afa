"""Several programs in one kernel: partitions of waves, and functions that are called.

Needs   `ttg.warp_specialize`, `tt.call`
Gives   waves that part from the start, each group with a barrier of its own; functions with views as parameters
Keeps   the memory of a called function lies where each call has it
Cost    linear in the operations, each function once
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.assumptions import NO_OVERFLOW
from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Block, Operation, Region, walk
from tidegate.hosts.triton.build_blocks import Pair
from tidegate.hosts.triton.build_flow import Flow
from tidegate.hosts.triton.build_state import Group
from tidegate.hosts.triton.values import is_scalar, name_of
from tidegate.hosts.triton.views import View
from tidegate.index import Flag, Name, names
from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.language.types import BarrierObject


class Programs(Flow):
    def start(self) -> None:
        """Waves of partitions wait for their work from the start; the others run the function."""
        special = [op for op in walk(self.function) if op.name == "ttg.warp_specialize" and partitions_of(op)]
        if not special:
            return
        self.special = special[0]
        self.under = "per_wave"
        own = self.ttgir.waves
        self.split = self.add(g.Dispatch(((0, own),)), self.function, "waves", insertable=False)
        self.add(g.Compute(), self.function, "own", insertable=False)
        self.group = self.group_of(0, own)

    def group_of(self, first: int, count: int) -> Group:
        """Waves that meet at a barrier of their own."""
        name = f"%group{first}"
        type_ = BarrierObject("named_barrier", count)
        if count > 1:
            self.b._part("objects", g.Object(name, type_, tuple(range(first, first + count))))
        return Group(first, count, Value(name, type_))

    def meet_all(self, op: Operation) -> None:
        self.sync(ops.SharedMemoryBarrier(pinned=True), op, insertable=False)

    def specialize(self, op: Operation) -> None:
        """All waves meet, run their regions, and meet again. Without partitions there is nobody to meet."""
        if not partitions_of(op):
            self.execute(op)
            return
        if op is not self.special:
            self.unknown.append(op)
            self.add(g.Unknown(()), op)
            return
        self.capture(op)
        self.meet_all(op)
        self.arrive_once_more(op)
        self.execute(op)
        self.meet_all(op)

    def capture(self, op: Operation) -> None:
        """The waves of the function write what partitions capture to memory that Triton lays out for that; it may have
        held something else before, which other waves may still be reading."""
        offset, known = op.integer("allocation.offset"), self.size_of(op)
        if offset is None:  # there are none, or Triton has not laid out anything yet
            return
        if known is None:
            self.unknown.append(op)
            self.add(g.Unknown(()), op)
            return
        self.captures = self.own_memory(f"%captures{len(self.b.parts.get('buffers', ()))}", known, 1, offset)
        self.add(g.Access("write", self.of_captures(known), as_one=True), op, role="local_write")

    def of_captures(self, known: int) -> g.Footprint:
        assert self.captures is not None
        return g.Footprint(self.captures, (), known, True)

    def arrive_once_more(self, op: Operation) -> None:
        """Triton's lowering lets the waves of the function wait until partitions have read what they capture: the
        memory may be used again in all regions (seen in what its pass makes for sm_90)."""
        if self.captures is not None:
            self.meet_all(op)

    def work(self) -> None:
        """The waves of partitions: each group runs its region, and ends with the function."""
        if self.special is None:
            return
        op, ended = self.special, self.b.open
        self.b.open = [self.split]
        self.at = None
        self.add(g.Compute(), op, "workers", insertable=False)
        self.meet_all(op)
        partitions = op.regions[1].blocks[0].operations[0]  # takes the values that all partitions capture
        counts = op.integers("partitionNumWarps")
        ranges, first = [], self.ttgir.waves
        for count in counts:
            ranges.append((first, first + count))
            first += count
        choose = (
            self.add(g.Dispatch(tuple(ranges[:-1])), op, "partitions", insertable=False) if len(ranges) > 1 else None
        )
        ends: list[int] = []
        for (low, high), region in zip(ranges, partitions.regions, strict=False):
            if choose is not None:
                self.b.open = [choose]
                self.add(g.Compute(), op, "partition", insertable=False)
            self.group = self.group_of(low, high - low)
            self.read_captures(op)
            self.captured(partitions, region)
            self.region(region)
            ends += self.b.open
        self.b.open = ends
        self.meet_all(op)
        self.add(g.End(), op, "end of the workers", insertable=False)
        self.b.open = ended

    def read_captures(self, op: Operation) -> None:
        known = self.size_of(op)
        if self.captures is not None and known is not None:
            self.add(g.Access("read", self.of_captures(known), as_one=True), op, role="local_read", insertable=False)
            self.meet_all(op)

    def captured(self, op: Operation, region: Region) -> None:
        """What a partition takes from outside, as its waves know it: they run nothing of what came before.

        What the others have computed on their way, in loops or by a branch, may be any number, or any slot.
        """
        pairs: list[Pair] = []
        unknown: list[str] = []
        taken = [name for name, _ in region.blocks[0].arguments]
        for (name, type_), value in zip(region.blocks[0].arguments, op.operands, strict=False):
            if value in self.views:
                self.views[name] = self.views[value]
                if not self.is_known(self.views[value].place):
                    type_of_view = self.views[value].type
                    self.views[name] = View(g.Ref(name_of(name)), None, type_of_view, opaque=self.anywhere(value))
                    pairs.append((name_of(name), self.any_place(name, value, unknown)))
            elif self.is_carried(name):
                index = self.values.index(value)
                if set(names(index)) <= self.free.keys() and not self.is_apart((value,)):
                    pairs.append((name_of(name), index))
                else:
                    self.declare(name, type_)
                    unknown.append(name_of(name))
        if unknown:
            self.add(g.Havoc(tuple(unknown), True), op, "captured", insertable=False)
        if pairs:
            self.add(g.Assign(tuple(pairs)), op, "captured", insertable=False)
        self.part(op, taken)

    def is_known(self, place: g.Ref) -> bool:
        """Whether a place is a part of a buffer or a barrier object that all waves find alike."""
        kept = {each.name for part in ("buffers", "objects") for each in self.b.parts.get(part, ())}
        return place.base in kept and {*names(place.slot), *names(place.offset)} <= self.free.keys()

    def anywhere(self, value: str) -> int:
        """In how many bytes of its allocation a descriptor may start anywhere; 0: it is a slot of a buffer."""
        buffers = {each.name: each for each in self.b.parts.get("buffers", ())}
        reached = [buffers[name] for name in self.buffers_of(value) if name in buffers]
        if not self.views[value].opaque and all(each.slots > 1 for each in reached):
            return 0
        return max((each.bytes for each in reached), default=0)

    def any_place(self, name: str, value: str, unknown: list[str]) -> g.Where:
        """Any slot of any allocation that a descriptor may lie in; `unknown` takes the names of what decides."""
        bases = [self.views[each].place for each in self.bases(value, frozenset()) if each in self.views]
        slots = {each.name: each.slots for each in self.b.parts.get("buffers", ())}
        slots |= {each.name: each.type.slots for each in self.b.parts.get("objects", ())}
        found: g.Where | None = None
        for number, base in enumerate(bases or [self.views[value].place]):
            slot, choice = f"{name}.slot{number}", f"{name}.choice{number}"
            place = base
            if slots.get(base.base, 1) > 1:
                self.declare(slot, "i32")
                unknown.append(name_of(slot))
                place = replace(base, slot=Name(name_of(slot)))
            if found is None:
                found = place
            else:
                self.declare(choice, "i1")
                unknown.append(name_of(choice))
                found = g.Either(Flag(name_of(choice)), place, found)
        assert found is not None
        return found

    def call(self, op: Operation) -> None:
        """Another function of the file, with its memory where this call has it."""
        name = op.string("callee")
        callee = next((each for each in self.ttgir.functions if each.string("sym_name") == name), None)
        # In a group the barriers of the function would be those of that group; for some lanes they would be none.
        parted = self.group.barrier is not None or self.under == "divergent"
        # A parameter is taken for a slot from its start: what lies nobody knows where in its memory is none.
        placed = all(value in self.views and not self.views[value].opaque for value in self.descriptors(op))
        size = self.size_of(op)
        if size == 0 and callee is not None and any(each.attribute("allocation.offset") for each in walk(callee)):
            size = None  # its memory lies where nobody has said
        parted |= callee is not None and waves_of(callee, self.ttgir.waves) != self.ttgir.waves
        if callee is None or not callee.regions or parted or not placed or size is None:
            self.unknown.append(op)
            self.add(g.Unknown(()), op)
            return
        function = self.functions.get(name)
        if function is None:
            function = self.functions[name] = f"f{len(self.functions)}"
            self.wanted.append((callee, function))
        offset = op.integer("allocation.offset")
        frame = self.own_memory(f"%call{len(self.b.parts.get('buffers', ()))}", size, 1, offset)
        given: list[tuple[str, g.Where]] = [(f"%{function}_frame", frame)]
        scalars: list[Pair] = []
        apart: list[str] = []
        spreads = self.calls.given[name]
        for place, (value, type_) in enumerate(callee.regions[0].blocks[0].arguments):
            found, argument = self.types.memdesc(type_), op.operands[place]
            own = f"%{function}_{name_of(value)[1:]}"
            if found is not None and found.is_shared and argument in self.views:
                given.append((own, self.views[argument].place))
            elif is_scalar(type_):
                scalars.append((own, self.values.index(argument)))
                apart += [own] * (not spreads[place].is_shared)
        self.havoc(op)
        if scalars:
            self.add(g.Assign(tuple(scalars)), op, "arguments")
        if apart:
            self.add(g.Havoc(tuple(apart), False), op, "apart")
        self.add(g.Call(function, tuple(given)), op)

    def assume(self) -> None:
        """What the numbers of this function rely on."""
        if self.values.ranges.may_overflow:
            self.assumed.add(NO_OVERFLOW)

    def callees(self) -> None:
        """The functions that are called, each once."""
        while self.wanted:
            callee, function = self.wanted.pop(0)
            renamed = with_prefix(callee, function)
            inner = type(self)(self.ttgir, renamed, self.target, self, function)
            inner.body()

    def body(self) -> None:
        """The points of a called function."""
        assert self.frame is not None
        self.find_lanes()
        self.ask()
        params = [self.frame]
        for name, type_ in self.function.regions[0].blocks[0].arguments:
            found = self.types.memdesc(type_)
            if found is not None and found.is_shared:
                params.append(name_of(name))
                self.views[name] = View(g.Ref(name_of(name)), None, found)
        self.b.function(self.around[-1], tuple(params))
        self.region(self.function.regions[0])
        self.assume()
        self.callees()


def waves_of(function: Operation, otherwise: int) -> int:
    """How many waves run a function: it may say so itself, and then the module does not (`maybeLookupNumWarps`)."""
    own = function.integer("ttg.num-warps")
    return otherwise if own is None else own


def partitions_of(op: Operation) -> tuple[Region, ...]:
    """The regions that waves of their own run, of a `ttg.warp_specialize`."""
    return op.regions[1].blocks[0].operations[0].regions


def with_prefix(op: Operation, prefix: str) -> Operation:
    """An operation whose values have names of their own."""

    def name(value: str) -> str:
        return f"%{prefix}_{value[1:]}"

    def block(each: Block) -> Block:
        arguments = tuple((name(value), type_) for value, type_ in each.arguments)
        return Block(each.label, arguments, tuple(with_prefix(inner, prefix) for inner in each.operations))

    return replace(
        op,
        results=tuple(map(name, op.results)),
        operands=tuple(map(name, op.operands)),
        regions=tuple(Region(tuple(map(block, region.blocks))) for region in op.regions),
    )
