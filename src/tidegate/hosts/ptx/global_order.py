"""Barriers and waits that may order accesses to global memory.

Needs   a function of a module, and the names of the module's variables outside shared memory
Gives   the places of barriers and waits that advice may not call redundant: they may order more than shared memory
Keeps   two accesses may meet unless they come from different arguments or variables (the assumption `no-alias`); an
        address that was loaded may be any. Of two accesses that a barrier separates, one writes. With fences, volatile
        accesses or atomics on global memory, blocks may talk to each other: any two accesses count
Cost    linear in the instructions, times the nesting of loops

    st.global [out], x        a write to `out` before
    bar.sync 0                stays: it may order them
    ld.global y, [out+4]      a read of `out` after
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.diag import Span
from tidegate.graph.model import invert
from tidegate.hosts.ptx import model as p
from tidegate.hosts.ptx.calls import HARMLESS, callee_of

UNKNOWN = "?"
POINTER = 8  # bytes
_ACCESSES = {
    "ld": "r",
    "st": "w",
    "atom": "rw",
    "red": "rw",
    "cp": "r",
    "wmma": "rw",
    "suld": "r",
    "sust": "w",
    "tex": "r",
}
_ACCESSES |= {"sured": "rw", "ldu": "r", "call": "rw", "multimem": "rw", "tld4": "r"}
_OTHER_SPACES = {"shared", "param", "const", "local"}
_TALKS = {"volatile", "acquire", "release", "acq_rel", "relaxed", "mmio"}
# They read no memory: what they give comes of their operands.
_MEETINGS = ("bar", "barrier")


@dataclass(frozen=True, slots=True)
class _Seen:
    """Which roots were read and written on the way."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def with_(self, other: _Seen) -> _Seen:
        return _Seen(self.read | other.read, self.written | other.written)


_NOTHING = _Seen()


def find_global_order(function: p.Function, variables: Mapping[str, str]) -> frozenset[Span]:
    """`variables`: the space of each variable of the module."""
    return frozenset(_Function(function, variables).ordering())


class _Function:
    def __init__(self, function: p.Function, variables: Mapping[str, str]) -> None:
        self.body = function.body
        self.spaces = {**variables, **{each.name: each.space for each in function.variables}}
        self.params = {each.name for each in function.params}
        self.roots = self.find_roots()
        self.talks = any(map(self.is_talk, self.instructions()))
        self.seen = [self.access(item) for item in self.body]

    def instructions(self) -> Iterator[p.Instruction]:
        return (each for each in self.body if isinstance(each, p.Instruction))

    def ordering(self) -> Iterator[Span]:
        after = successors_of(self.body)
        before = invert(after)
        earlier, later = self.flow(before, after), self.flow(after, before)
        for number, item in enumerate(self.body):
            if isinstance(item, p.Instruction) and _orders(item) and self.may_meet(earlier[number], later[number]):
                yield item.at

    def may_meet(self, before: _Seen, after: _Seen) -> bool:
        if self.talks:
            return bool(before.read | before.written) and bool(after.read | after.written)
        pairs = ((before.written, after.read | after.written), (before.read, after.written))
        return any(one & other or (one and UNKNOWN in other) or (other and UNKNOWN in one) for one, other in pairs)

    # --- ways ---

    def flow(self, sources: list[list[int]], targets: list[list[int]]) -> list[_Seen]:
        """What may have been accessed when one comes to each instruction, along `targets`."""
        found = [_NOTHING] * len(self.body)
        waiting = list(range(len(self.body)))
        while waiting:
            number = waiting.pop()
            new = _NOTHING
            for each in sources[number]:
                new = new.with_(found[each]).with_(self.seen[each])
            if new != found[number]:
                found[number] = new
                waiting += targets[number]
        return found

    # --- accesses ---

    def is_talk(self, item: p.Instruction) -> bool:
        if item.opcode == "call":  # a function of the file may hold fences and atomics
            return callee_of(item) not in HARMLESS
        if item.opcode in ("membar", "fence"):
            return not {"cta", "proxy"} & set(item.modifiers)
        is_global = item.opcode in _ACCESSES and not _OTHER_SPACES.intersection(item.modifiers)
        return is_global and (item.opcode in ("atom", "red", "multimem") or bool(_TALKS.intersection(item.modifiers)))

    def access(self, item: p.Instruction | p.Label) -> _Seen:
        if isinstance(item, p.Label):
            return _NOTHING
        how = _ACCESSES.get(item.opcode, "")
        if item.opcode == "cp":
            how = "rw" if "bulk" in item.modifiers else "r" if "async" in item.modifiers and item.operands else ""
            addresses = item.operands if how == "rw" else item.operands[1:2]
        elif not how or ("nc" in item.modifiers and item.opcode == "ld"):
            return _NOTHING  # what is read so is written by nobody while the kernel runs (9.7.9.8)
        elif _OTHER_SPACES.intersection(item.modifiers):
            return _NOTHING
        else:
            addresses = item.operands
        if not how or (
            item.opcode == "cp" and item.modifiers[-1:] and item.modifiers[-1].startswith(("wait", "commit"))
        ):
            return _NOTHING
        found = frozenset(
            root for each in addresses if isinstance(each, p.Address) for root in self.roots_of(each.base)
        ) or frozenset((UNKNOWN,))
        if "global" not in item.modifiers and found and all(self.spaces.get(each) == "shared" for each in found):
            return _NOTHING  # a generic address of shared memory
        return _Seen(found if "r" in how else frozenset(), found if "w" in how else frozenset())

    # --- where addresses come from ---

    def find_roots(self) -> dict[str, frozenset[str]]:
        """For each register the arguments and variables that it is computed from, whatever the order."""
        found: dict[str, frozenset[str]] = {}
        uses: dict[str, list[p.Instruction]] = {}
        items = list(self.instructions())
        for item in items:
            for name in p.names_of(item.operands[1:]):
                uses.setdefault(name, []).append(item)
        waiting = items[::-1]
        while waiting:
            item = waiting.pop()
            new = self.given_by(item, found)
            results = [each for each in item.operands[:1] if not isinstance(each, p.Address)]  # a store has none
            for name in p.names_of(results):
                if not new <= found.get(name, frozenset()):
                    found[name] = found.get(name, frozenset()) | new
                    waiting += uses.get(name, ())
        return found

    def given_by(self, item: p.Instruction, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
        if item.opcode == "ld" and "param" in item.modifiers:
            wide = item.modifiers[-1].endswith("64")
            count = len(item.operands[0].items) if item.operands and isinstance(item.operands[0], p.Vector) else 1
            addresses = [each for each in item.operands[1:] if wide and isinstance(each, p.Address)]
            return frozenset(place for each in addresses for place in self.places(each, count))
        if item.opcode in _ACCESSES or item.opcode in ("shfl", "ldmatrix"):
            loaded = frozenset((UNKNOWN,))
            return (
                loaded
                if item.opcode != "shfl"
                else loaded.union(*(known.get(n, ()) for n in p.names_of(item.operands)))
            )
        found: frozenset[str] = frozenset()
        for name in p.names_of(item.operands[1:]):
            found |= known.get(name, frozenset())
            if name in self.spaces or name in self.params:
                found |= {name}
        return found

    def places(self, address: p.Address, count: int) -> list[str]:
        """Of so many pointers, one behind the other, in a parameter; at a computed place any of them may stand."""
        if not isinstance(address.base, p.Name) or address.base.name not in self.params:
            return [UNKNOWN]
        return [f"{address.base.name}+{address.offset + POINTER * each}" for each in range(count)]

    def roots_of(self, base: p.Name | p.Number) -> frozenset[str]:
        if isinstance(base, p.Number):
            return frozenset((UNKNOWN,))
        own = frozenset((base.name,)) if base.name in self.spaces else frozenset()
        return own | self.roots.get(base.name, frozenset()) or frozenset((UNKNOWN,))


def _orders(item: p.Instruction) -> bool:
    return item.opcode in _MEETINGS or (item.opcode == "cp" and any(each.startswith("wait") for each in item.modifiers))


def successors_of(body: Sequence[p.Instruction | p.Label]) -> list[list[int]]:
    """What may follow each instruction; of a jump through a table any label."""
    labels = {each.name: number for number, each in enumerate(body) if isinstance(each, p.Label)}
    found: list[list[int]] = []
    for number, item in enumerate(body):
        following = [number + 1] if number + 1 < len(body) else []
        if isinstance(item, p.Instruction) and item.opcode in ("bra", "brx", "ret", "exit", "trap"):
            goes_on = following if item.guard is not None else []
            named = [labels[each.name] for each in item.operands if isinstance(each, p.Name) and each.name in labels]
            jumps = list(labels.values()) if item.opcode == "brx" or "idx" in item.modifiers else named
            following = [*goes_on, *(jumps if item.opcode in ("bra", "brx") else [])]
        found.append(following)
    return found


def _place(address: p.Address) -> str:
    base = address.base.name if isinstance(address.base, p.Name) else UNKNOWN
    return f"{base}+{address.offset}"
