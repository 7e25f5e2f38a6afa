"""Shared memory of a trace: its buffers, and the bytes that each access touches in them.

Needs   `Allocate` nodes, and accesses with Wave's index expressions
Gives   buffers; for each access its footprint
Keeps   an index that names something unknown, or leaves its buffer, stands for the whole buffer
Cost    one evaluation for each different index; the same index is computed once

Element i of a thread lies i further along the dimension that a mapping makes of the fastest one; without a mapping, i
further in memory.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.hosts.wave.arrays import Array, whole
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.copies import of_lanes, of_tile
from tidegate.hosts.wave.iterations import Iterations, by_iteration, named_counters, values_of
from tidegate.hosts.wave.lanes import lane_key
from tidegate.hosts.wave.mappings import mapped_dims, reads_in_a_row
from tidegate.hosts.wave.masks import bounds_of, switched_on
from tidegate.hosts.wave.nodes import argument, op_of, outer, span_of
from tidegate.hosts.wave.numbers import Numbers, Symbols
from tidegate.hosts.wave.touched import Touched, in_bytes, touched
from tidegate.hosts.wave.uniform import Uniform
from tidegate.index import ZERO, Const, Index, add, scale
from tidegate.language.types import DTYPES

BITS = 8
TRANSPOSED_BITS = 64  # the least that a load which transposes gives to each lane
NONE: frozenset[Any] = frozenset()
Numeric = np.ndarray[Any, Any]
# Where the arguments of an access stand: elements of a thread, and the mapping.
_ELEMENTS = {"read": 1, "write": 2, "atomic_add": 2, "atomic_min": 2}
_COPIED = {"gather_to_lds": 4, "tensor_load_to_lds": 2}  # the type of what a copy moves


class Memory:
    """Knows the allocations of a trace."""

    def __init__(
        self, context: Context, target: str = "", *, exact: bool = True, unset: frozenset[str] = frozenset()
    ) -> None:
        """`unset`: symbols that the trace gives other values than those of its sizes."""
        sizes = {symbol: value for symbol, value in context.sizes.items() if str(symbol) not in unset}
        self.context, self.target, self.exact = replace(context, sizes=sizes), target, exact
        threads = context.numbers
        known: dict[Any, Any] = dict(sizes)
        self.numbers = Numbers(Symbols(known, threads))
        self.arrays: dict[Any, Array] = {}
        self.used: set[str] = set()
        self.found: dict[Any, Touched] = {}
        self.turned: dict[Any, Iterations | None] = {}  # accesses that differ from iteration to iteration
        self.starts: dict[Any, tuple[Numeric, int] | None] = {}
        self.outside: dict[Any, tuple[int, int]] = {}  # accesses that leave their buffers → bytes
        self.keys: dict[Any, str] = {}  # for which lane touches which bytes

    def array(self, node: Any) -> Array:
        """What is known of an allocation."""
        if node in self.arrays:
            return self.arrays[node]
        shape = tuple(self.number(each, node) for each in argument(node, 1))
        bits = int(argument(node, 2).bitwidth())
        tail = self.number(argument(node, 7, 0) or 0, node)
        strides = [1]
        for size in reversed(shape[1:]):
            strides.append(strides[-1] * size)
        size = -(-(strides[-1] * (shape[0] if shape else 1) + tail) * bits // BITS)
        parent, place = self.place_of(node)
        found = Array(
            self.fresh(node.name),
            size,
            bits,
            tuple(reversed(strides)),
            parent if parent else node,
            place,
            tuple(argument(node, 0)),
            element if (element := str(argument(node, 2))) in DTYPES else "",
            self.number(argument(node, 4, 0) or 0, node),
        )
        self.arrays[node] = found
        return found

    def place_of(self, node: Any) -> tuple[Any, int | None]:
        """The allocation that one lies in, and where; in the outermost one, where these lie in each other."""
        parent, offset = argument(node, 5), argument(node, 6)
        if parent is None:
            return None, None
        around, before = self.place_of(outer(parent))
        place = self.number(offset or 0, node)
        return (outer(parent), place) if around is None or before is None else (around, before + place)

    def fresh(self, name: str) -> str:
        """A name that nobody has: nodes of different regions may share theirs."""
        found, number = f"%{name}", 1
        while found in self.used:
            found, number = f"%{name}_{number}", number + 1
        self.used.add(found)
        return found

    def number(self, expr: Any, node: Any) -> int:
        found = self.numbers.constant(expr)
        if found is None:
            message = f"the size of `{node.name}` names `{expr}`, which is unknown"
            raise BadInput(Finding("TG008", message, (Label(span_of(node)),)))
        return found

    # --- accesses ---

    def footprint(self, node: Any, array: Array, place: g.Ref, uniform: Uniform) -> g.Footprint:
        """The bytes of an access from a place on."""
        where = self.where(node, array, uniform)
        if where is None:
            return self.beyond(node, array, place) or whole(array, place, may=True)
        may = where.may or self.is_masked(node)
        return g.Footprint(replace(place, offset=where.offset), where.extents, where.width, may)

    def beyond(self, node: Any, array: Array, place: g.Ref) -> g.Footprint | None:
        """All bytes that an access touches which leaves its buffer, and all of the buffer: then nothing is proved
        (test_wave_believed)."""
        if self.key(node, array) not in self.outside:
            return None
        low, high = min(0, self.outside[self.key(node, array)][0]), self.outside[self.key(node, array)][1]
        return g.Footprint(replace(place, offset=add(place.offset, Const(low))), (), max(high, array.bytes) - low, True)

    def is_masked(self, node: Any) -> bool:
        return bool(bounds_of(node))

    def is_exact(self, node: Any, array: Array, uniform: Uniform) -> bool:
        """Whether the index says which bytes these are."""
        return self.where(node, array, uniform) is not None

    def where(self, node: Any, array: Array, uniform: Uniform) -> Touched | None:
        """The bytes of an access; None if nobody knows which."""
        extra = self.extra(node, array, uniform)
        if extra is None:
            return None
        index, turning = extra
        found = self.threads(node, array) if not turning else None
        if found is not None:
            key = self.key(node, array)
            if key not in self.found:
                most = None if self.is_shifted(node) else array.bytes
                self.found[key] = touched(*found, self.context.waves, most)
            where = self.found[key]
        else:
            iterations = self.iterations(node, array, uniform, turning)
            if iterations is None:
                return None
            where = iterations.touched
        return replace(where, offset=add(where.offset, index))

    def key(self, node: Any, array: Array) -> Any:
        """Accesses with one key touch the same bytes of their buffers."""
        index, elements, mapping = self.index_of(node)
        if index is None:
            return (op_of(node), node.name)
        starts = tuple(getattr(each, "start", each) for each in index.values())
        bounds = tuple(bounds_of(node).items())
        # Else elements are neighbours in memory, and all of them are switched on.
        by_size = mapping is not None or bool(bounds) or op_of(node).startswith("atomic")
        sizes = tuple(getattr(each, "size", 1) for each in index.values()) if by_size else ()
        elements = tuple(elements) if isinstance(elements, list) else elements
        mapped = (id(mapping), mapped_dims(node, array)) if mapping is not None else ()
        return op_of(node), starts, sizes, elements, mapped, bounds, array.strides, array.bits, array.bytes

    def index_of(self, node: Any) -> tuple[Any, Any, Any]:
        """Index, elements of a thread, and mapping of an access; no index if there is none that can be followed."""
        op = op_of(node)
        if op == "gather_to_lds":
            return argument(node, 3) or None, argument(node, 5), argument(node, 7)
        if op == "tensor_load_to_lds":
            return argument(node, 4) or None, argument(node, 3), None
        if op not in _ELEMENTS:
            return None, None, None
        at = _ELEMENTS[op]
        return getattr(node, "index", None) or None, argument(node, at), argument(node, at + 1)

    def extra(self, node: Any, array: Array, uniform: Uniform) -> tuple[Index, frozenset[Any]] | None:
        """What the lanes of a wave add alike, and nobody knows the number of: a tile, a turn; and the summands in which
        they differ by something that is not a number. None if it cannot be said."""
        index, _, mapping = self.index_of(node)
        if index is None or mapping is not None:
            return ZERO, NONE
        total: Index = ZERO
        turning: set[Any] = set()
        for each, stride in zip(index.values(), array.strides, strict=False):
            rest = self.split(getattr(each, "start", each))[1]
            for part in rest:
                # A part on which the lanes of each wave agree moves all that the wave touches, and each lane as far as
                # the others: `Mod(floor($T0/64) + $ARG, 4)` is a row of the wave in this iteration.
                found = uniform.index(part)
                if found is None:
                    turning.add(part)
                elif stride * array.bits % BITS:
                    return None
                else:
                    total = add(total, scale(found, stride * array.bits // BITS))
        return total, frozenset(turning)

    def iterations(self, node: Any, array: Array, uniform: Uniform, turning: frozenset[Any]) -> Iterations | None:
        """An access in each iteration of the loops around it, if its summands `turning`, or its mapping, name nothing
        but threads and counters of loops that run a known number of times."""
        index, _, mapping = self.index_of(node)
        if index is None:
            return None
        exprs = list(turning)
        if mapping is not None:
            exprs = [*mapping.input_mapping.values(), *mapping.output_mapping.values()]
            exprs += [getattr(each, "start", each) for each in index.values()]
        symbols = named_counters(exprs, uniform.counters)
        key = (self.key(node, array), turning, tuple((each, uniform.counters[str(each)]) for each in symbols))
        names = [uniform.names[str(each)] for each in symbols]
        if (*key, *names) not in self.turned:
            values = values_of(symbols, uniform.counters)
            found = None if values is None else self.tables(node, array, turning, symbols, values)
            made = None
            if found is not None and values is not None:
                most = None if self.is_shifted(node, turning) else array.bytes
                made = by_iteration(names, values, *found, self.context.waves, self.context.lanes, most)
            self.turned[(*key, *names)] = made
        return self.turned[(*key, *names)]

    def tables(
        self, node: Any, array: Array, turning: frozenset[Any], symbols: list[Any], values: list[tuple[int, ...]]
    ) -> tuple[list[Numeric], int] | None:
        """For all values of some counters what `threads` gives for one."""
        starts: list[Numeric] = []
        widths: set[int] = set()
        mapping = self.index_of(node)[2]
        for each in values:
            known = {**self.context.sizes, **dict(zip(symbols, each, strict=True))}
            numbers = Numbers(Symbols(known, self.context.numbers))
            found = self._threads(node, array, numbers, turning)
            shifted = mapping is None and self.is_shifted(node, turning)
            if found is None or not self.stays(node, *found, array, numbers, shifted):
                return None
            starts.append(found[0])
            widths.add(found[1])
        return (starts, widths.pop()) if len(widths) == 1 else None

    def stays(self, node: Any, starts: Numeric, width: int, array: Array, numbers: Numbers, shifted: bool) -> bool:
        """Whether all threads stay in their buffer; notes between which bytes those that leave it lie.

        `shifted`: whether all of them add something that nobody knows the number of.
        """
        low, high = int(starts.min()), int(starts.max()) + width
        if low >= 0 and high <= array.bytes:
            return True
        if shifted or self.stays_by_mask(node, starts, array, numbers):
            return False
        before = self.outside.get(self.key(node, array), (low, high))
        self.outside[self.key(node, array)] = (min(low, before[0]), max(high, before[1]))
        return False

    def stays_by_mask(self, node: Any, starts: Numeric, array: Array, numbers: Numbers) -> bool:
        """Whether only lanes that a mask switches off leave their buffer."""
        index, elements, mapping = self.index_of(node)
        count = numbers.constant(elements)
        if not self.is_masked(node) or mapping is not None or count is None:
            return False
        on = switched_on(node, index, count, numbers, self.context.count)
        if on is None or not bool(on.any()):
            return on is not None
        ends = (starts * BITS + on * array.bits)[on > 0]
        return int(starts[on > 0].min()) >= 0 and int(ends.max()) <= array.bytes * BITS

    def is_shifted(self, node: Any, turning: frozenset[Any] = NONE) -> bool:
        """Whether all threads add something that nobody knows the number of, beside what they add by turns."""
        index = self.index_of(node)[0] or {}
        return any(not turning.issuperset(self.split(getattr(each, "start", each))[1]) for each in index.values())

    def split(self, expr: Any) -> tuple[list[Any], list[Any]]:
        """The summands that are known, and the others."""
        if self.numbers.fraction(expr) is not None:
            return [expr], []
        parts = expr.args if type(expr).__name__ == "Add" else (expr,)
        known = [each for each in parts if self.numbers.fraction(each) is not None]
        return known, [each for each in parts if self.numbers.fraction(each) is None]

    def threads(self, node: Any, array: Array, key: Any = None) -> tuple[Numeric, int] | None:
        """For each thread the first bytes that it touches, and how many there; None if nobody knows."""
        key = self.key(node, array) if key is None else key
        if key not in self.starts:
            found = self._threads(node, array, self.numbers)
            shifted = self.is_shifted(node)
            stays = found is not None and self.stays(node, *found, array, self.numbers, shifted)
            self.starts[key] = found if stays else None
        return self.starts[key]

    def _threads(
        self, node: Any, array: Array, numbers: Numbers, turning: frozenset[Any] = NONE
    ) -> tuple[Numeric, int] | None:
        index, elements, mapping = self.index_of(node)
        if index is None:
            return None
        op = op_of(node)
        if op in _COPIED and int(argument(node, _COPIED[op]).bitwidth()) != array.bits:
            return None
        if op == "tensor_load_to_lds":
            return self.tile(index, elements, array, numbers, turning)
        count = self.numbers.constant(elements)
        if count is None:
            return None
        by_one = count > 1 and op.startswith("atomic")
        many = 1 if by_one else count
        if mapping is not None:
            found = None if op == "gather_to_lds" else self.mapped(node, index, mapping, many, array, numbers)
        else:
            first = self.linear(index, array, numbers, turning)
            found = None if first is None else in_bytes(first, many, array.bits)
        if found is None:
            return None
        starts, width = found
        if op == "gather_to_lds":
            return of_lanes(starts, width, array, self.context.lanes)
        return self.counted_up(starts, width, count, index, array) if by_one else (starts, width)

    def counted_up(
        self, starts: Numeric, width: int, count: int, index: Any, array: Array
    ) -> tuple[Numeric, int] | None:
        """The elements of an atomic: Wave's code generator counts them up, behind a mapping, along the dimension of the
        greatest size (`handle_generic_atomic`), which need not be the last of the buffer."""
        sizes = [self.numbers.constant(getattr(each, "size", 1)) for each in index.values()]
        known = [each for each in sizes if each is not None]
        if len(known) < len(sizes) or len(sizes) != len(array.strides) or array.bits % BITS:
            return None
        fastest = max(range(len(known)), key=lambda d: (known[d], d))
        return starts[:, None] + np.arange(count) * (array.strides[fastest] * array.bits // BITS), width

    def linear(self, index: Any, array: Array, numbers: Numbers, turning: frozenset[Any]) -> Numeric | None:
        """The first element of each thread, without what all add alike; with what they add by turns.

        Wave's code generator pairs the index with the dimensions of the buffer in the order in which both stand, and
        not by their names (`_get_start_indices`, `linearize_index`): so does this.
        """
        if len(index) != len(array.strides):
            return None
        total: Any = 0
        for each, stride in zip(index.values(), array.strides, strict=True):
            known, rest = self.split(getattr(each, "start", each))
            for part in (*known, *(one for one in rest if one in turning)):
                value = numbers.value(part)
                if value is None:
                    return None
                total = total + value * stride
        return np.broadcast_to(np.asarray(total), (self.context.count,))

    def mapped(
        self, node: Any, index: Any, mapping: Any, elements: int, array: Array, numbers: Numbers
    ) -> tuple[Numeric, int] | None:
        """Each element by itself: a mapping may scatter them."""
        is_write = op_of(node) == "write"  # the mapping of an atomic is taken as that of a read
        shape = mapped_dims(node, array)
        if shape is None:
            return None
        exprs = (mapping.map_output_indices if is_write else mapping.map_input_indices)(shape)
        if len(exprs) != len(array.strides):
            return None
        sizes = [self.numbers.constant(each.size) or 1 for each in index.values()]
        fastest = max(range(len(sizes)), key=lambda d: (sizes[d], d))
        iters: dict[Any, Any] = {}
        for number, (symbol, each) in enumerate(zip(mapping.iters.keys(), index.values(), strict=False)):
            value = numbers.value(each.start)
            if value is None:
                return None
            column = np.broadcast_to(np.asarray(value), (self.context.count,))[:, None]
            iters[symbol] = column + np.arange(elements) if number == fastest else column
        inner = Numbers(Symbols({**numbers.known, **iters}, {}))
        total: Any = 0
        for expr, stride in zip(exprs, array.strides, strict=True):
            value = inner.value(expr)
            if value is None:
                return None
            total = total + value * stride
        apart = np.broadcast_to(np.asarray(total), (self.context.count, elements))
        in_a_row = apart[:, :1] + np.arange(elements)
        if bool((apart == in_a_row).all()):
            return in_bytes(apart[:, 0], elements, array.bits)
        row = reads_in_a_row(node, self.context.constraints, self.target) if self.exact else None
        starts = np.hstack([apart, in_a_row]) if row is None else in_a_row if row else apart
        return starts * array.bits // BITS, max(1, array.bits // BITS)

    def tile(
        self, index: Any, sizes: Any, array: Array, numbers: Numbers, turning: frozenset[Any]
    ) -> tuple[Numeric, int] | None:
        """A copy of a whole tile by one instruction."""
        shape = [self.numbers.constant(each) for each in sizes]
        known = [each for each in shape if each is not None]
        first = self.linear(index, array, numbers, turning)
        if first is None or len(known) < len(shape) or any(each * array.bits % BITS for each in array.strides[:-1]):
            return None
        found = in_bytes(first, 1, array.bits)
        return None if found is None else of_tile(found[0], known, array, self.context.lanes)

    # --- who exchanges with whom ---

    def lanes(self, node: Any, array: Array, uniform: Uniform, *, by_parts: bool = False) -> str:
        """A key for which lane touches which bytes (`lane_key`).

        Copies have none, and nor have reads that may be transposed on the way: the hardware deals their bytes.
        `by_parts`: of two accesses that start in one part nobody knows whether they start at one byte. Then only those
        have one key whose bytes are the same.
        """
        extra = self.extra(node, array, uniform)
        if op_of(node) not in _ELEMENTS or extra is None or self.may_be_transposed(node, array):
            return ""
        key, turning = self.key(node, array), extra[1]
        if turning or self.threads(node, array, key) is None:
            iterations = self.iterations(node, array, uniform, turning)
            return "" if iterations is None or by_parts else iterations.lanes
        if key not in self.keys:
            found = self.threads(node, array, key)
            self.keys[key] = "" if found is None else lane_key(*found, self.context.waves, self.context.lanes)
        where = self.where(node, array, uniform)
        # Nor does anybody know it of waves that start later than is said of them.
        if not self.keys[key] or not (by_parts or (where is not None and where.moved)):
            return self.keys[key]
        starts = None if self.is_shifted(node) else self.starts[key]
        return f"{self.keys[key]}_{blake2b(starts[0].tobytes(), digest_size=16).hexdigest()}" if starts else ""

    def may_be_transposed(self, node: Any, array: Array) -> bool:
        """Whether a lane may touch other bytes than its index says.

        Wave's code generator emits a load or a store of each lane's own bytes (`handle_read`, `handle_write`); what is
        not contiguous `partition_gather_like_ops` takes apart lane by lane. The exception are some reads with a
        mapping, which become `amdgpu.transpose_load`. No such instruction hands a lane less than 64 bits
        (`ds_read_b64_tr_b16`, `ds_load_tr8_b64` and their like), and Wave asks for whole blocks of 64
        (`read_meets_hw_transpose_requirements`). Atomics with a mapping are left out: their lowering is not checked.
        """
        _, elements, mapping = self.index_of(node)
        if mapping is None or op_of(node) == "write":
            return False
        count = self.numbers.constant(elements)
        return op_of(node) != "read" or count is None or count * array.bits >= TRANSPOSED_BITS
