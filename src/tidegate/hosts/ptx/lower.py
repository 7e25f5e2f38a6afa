"""PTX instructions as operations of `hosts.isa`.

Needs   a function of a module
Gives   `Code`: operations with jumps by number, arrays of shared memory with addresses
Keeps   what an instruction does to shared memory, control and synchronization is said, or it is `Opaque`: an unknown
        instruction with an address may touch all of shared memory. Results of what is not integer are forgotten
Cost    linear

Sections in comments are those of the PTX ISA 9.0. Lanes stay apart unless an instruction says otherwise: shfl, vote,
match, redux, mma and ldmatrix order no memory (8.5, 8.9.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tidegate.hosts.isa import model as m
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.calls import Harm, callee_of, find_harms, harm_of
from tidegate.hosts.ptx.demangle import short_name
from tidegate.hosts.ptx.lower_arithmetic import ARITHMETIC, FORGOTTEN, lower_arithmetic
from tidegate.hosts.ptx.lower_memory import MEMORY, lower_memory
from tidegate.hosts.ptx.lower_objects import lower_object
from tidegate.hosts.ptx.lower_products import lower_product
from tidegate.hosts.ptx.lowering import Lowering

# Addresses of arrays are multiples of this, as far as programs may see: swizzles work on whole addresses.
ALIGNMENT = 1024
# Synchronization and copies that are not modelled yet: nothing is proved of a program that has one.
UNMODELLED = ("tcgen05", "tensormap", "clusterlaunchcontrol", "mapa", "getctarank", "multimem")
# They do nothing to shared memory and order nothing among threads that meet nowhere else.
NOTHING: tuple[str, ...] = (
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "nanosleep",
    "pmevent",
    "brkpt",
    "setmaxnreg",
    "griddepcontrol",
)
NOTHING += ("discard", "applypriority", "stackrestore", "sust", "sured")


def lower(function: p.Function, module: p.Module, dynamic: int) -> m.Code:
    """`dynamic`: how many bytes the launch may give to arrays without a size."""
    found = _Lower(function, module, dynamic)
    return found.code()


class _Lower:
    def __init__(self, function: p.Function, module: p.Module, dynamic: int) -> None:
        self.function, self.dynamic = function, dynamic
        self.module, self.harms = module, find_harms(module)
        self.arrays, names = _lay_out([*module.variables, *function.variables], dynamic)
        self.labels = {each.name: place for place, each in enumerate(function.body) if isinstance(each, p.Label)}
        self.out = Lowering(dict(function.registers), names, {each.name for each in function.params})

    def code(self) -> m.Code:
        out = self.out
        labels: dict[str, int] = {}
        for item in self.function.body:
            if isinstance(item, p.Label):
                labels[item.name] = len(out.ops)
            else:
                self.instruction(item)
        out.add(m.End(), None)  # a function may end without `ret`
        if not self.arrays and (out.has_generic or any(map(_touches_shared, out.ops))):
            # The launch may give memory that the text has no name for.
            self.arrays.append(m.Array("shared memory", ALIGNMENT, max(16, self.dynamic), self.function.at))
        last = len(out.ops) - 1
        ops = [self.resolved(op, labels, last) for op in out.ops]
        kinds = out.registers.items()
        return m.Code(
            self.function.name,
            tuple(ops),
            tuple(self.arrays),
            frozenset(name for name, kind in kinds if kind == "pred"),
            frozenset(name for name, kind in kinds if kind.endswith("64")),
            frozenset(name for name, kind in kinds if kind.endswith(("8", "16"))),
            out.has_generic,
        )

    def resolved(self, op: m.Op, labels: dict[str, int], last: int) -> m.Op:
        if isinstance(op.action, m.Jump) and op.action.target < 0:
            target = labels.get(self.out.targets[~op.action.target])
            if target is None:
                return m.Op(m.Opaque("a jump to a label that is not there", orders=True), None, op.at, op.text)
            return m.Op(m.Jump(min(target, last)), op.guard, op.at, op.text)
        return op

    def instruction(self, item: p.Instruction) -> None:
        out, opcode = self.out, item.opcode
        out.begin(item)
        handler = _HANDLERS.get(opcode)
        if handler is not None:
            handler(self, item)
        elif opcode == "mbarrier":
            lower_object(out, item, self.function.body, self.labels)
        elif opcode in UNMODELLED or opcode.startswith("tcgen05"):
            out.opaque(item, f"`{item.mnemonic}` is not modelled", orders=True)
        elif opcode == "wgmma":
            lower_product(out, item)
        elif opcode == "fence" and item.modifiers[:2] == ("proxy", "async") and "global" not in item.modifiers:
            out.unguarded(m.OrderProxies())
        elif opcode in NOTHING:
            return
        elif opcode in MEMORY:
            lower_memory(out, item)
        elif opcode not in FORGOTTEN | ARITHMETIC:  # it may copy in the background, or wait for other threads
            touches = any(isinstance(each, p.Address) for each in item.operands)
            out.opaque(item, f"`{item.mnemonic}` is not known", orders=True, touches=touches)
        elif opcode in FORGOTTEN or not lower_arithmetic(out, item):
            out.forget(item, has_address=opcode not in FORGOTTEN)

    # --- control ---

    def jump(self, item: p.Instruction) -> None:
        """9.7.13: `bra`. Whether it is `.uni` is decided by its predicate."""
        target = item.operands[0] if item.operands else None
        if (item.modifiers and item.modifiers[0] == "idx") or not isinstance(target, p.Name):
            self.out.opaque(item, "a jump through a table is not modelled", orders=True)
            self.out.guarded(m.End())
            return
        self.out.add(m.Jump(self.out.label(target.name)), self.out.guard)

    def table(self, item: p.Instruction) -> None:
        self.out.opaque(item, "a jump through a table is not modelled", orders=True)
        self.out.add(m.End(), self.out.guard)

    def end(self, item: p.Instruction) -> None:
        self.out.add(m.End(), self.out.guard)

    def abort(self, item: p.Instruction) -> None:
        """9.7.20.5: `trap` aborts the grid, so that what its threads have done before is no result."""
        self.out.add(m.End(aborts=True), self.out.guard)

    def call(self, item: p.Instruction) -> None:
        called = callee_of(item)
        harm = harm_of(called, self.harms, self.module)
        if harm == Harm.NONE:
            self.out.forget(item, has_address=False)
            return
        why = f"the call of `{called or 'a function'}` is not followed"
        self.out.opaque(item, why, orders=harm == Harm.ORDERS, touches=True)

    # --- meetings ---

    def barrier(self, item: p.Instruction) -> None:
        """9.7.13.1: `bar`, `barrier`; 9.7.13.2: `bar.warp.sync`; 9.7.13.3: `barrier.cluster`."""
        out, words = self.out, item.modifiers
        given = [out.operand(each) for each in item.operands]
        if "cluster" in words:
            out.opaque(item, "barriers of a cluster are not modelled", orders=True)
        elif "warp" in words:
            out.unguarded(m.MeetLanes(given[0] if given else m.Constant(0xFFFFFFFF)))
        elif "arrive" in words:
            out.opaque(item, "`bar.arrive`, at which threads do not wait, is not modelled", orders=True)
        elif "red" in words:
            # d, barrier, [count,] predicate: all threads get the same result
            out.unguarded(m.Meet(given[1] if len(given) > 1 else m.Constant(0), given[2] if len(given) > 3 else None))
            out.add(m.Forget(out.results(item)), out.guard)
        elif "sync" in words:
            out.unguarded(m.Meet(given[0] if given else m.Constant(0), given[1] if len(given) > 1 else None))
        else:
            out.opaque(item, f"`{item.mnemonic}` is not known", orders=True)


_HANDLERS: dict[str, Callable[[_Lower, p.Instruction], None]] = {
    "bra": _Lower.jump,
    "brx": _Lower.table,
    "ret": _Lower.end,
    "exit": _Lower.end,
    "trap": _Lower.abort,
    "call": _Lower.call,
    "bar": _Lower.barrier,
    "barrier": _Lower.barrier,
}


def _touches_shared(op: m.Op) -> bool:
    if isinstance(op.action, m.Opaque):
        return op.action.touches and ".shared" in op.text
    return isinstance(op.action, m.Touch) and op.action.space == "shared"


def _lay_out(variables: list[p.Variable], dynamic: int) -> tuple[list[m.Array], dict[str, str]]:
    """Arrays at addresses, and for each variable its array: all without a size begin at one place (5.1.6)."""
    arrays: list[m.Array] = []
    names: dict[str, str] = {}
    free = ALIGNMENT
    called = _called([each.name for each in variables if each.space == "shared"])
    for each in variables:
        if each.space == "shared" and each.bytes is not None:
            arrays.append(m.Array(called[each.name], free, each.bytes, each.at))
            names[each.name] = called[each.name]
            free = -(-(free + max(1, each.bytes)) // ALIGNMENT) * ALIGNMENT
    opened = [each for each in variables if each.space == "shared" and each.bytes is None]
    if opened:
        used = sum(each.bytes for each in arrays)
        name = called[opened[0].name]
        arrays.append(m.Array(name, free, max(16, dynamic - used), opened[0].at))
        names.update({each.name: name for each in opened})
    return arrays, names


def _called(names: list[str]) -> dict[str, str]:
    """`tile` for `_ZZ4swapPfPKfE4tile`, where no other array is called so."""
    short = {each: short_name(each) for each in names}
    count = Counter(short.values())
    return {each: name if count[name] == 1 and name.isidentifier() else each for each, name in short.items()}
