"""What waits must see complete, as values of the kernel: tokens carried round loops and out of regions.

Needs   a kernel with its graph, and for each wait the copies that it needs (`needs.py`)
Gives   the kernel with `async_deps` at its waits: copies give tokens, loops carry them, conditionals hand them on
Keeps   a value stands for one instance of a copy on every path, and for none where a path brings none: loops that have
        not run yet and arms without the copy bring a `null_async_dep`. Nothing else of the kernel changes, and values
        that nobody waits for are not carried
Cost    for each wanted instance one walk through the regions between it and the wait, backwards

    iterate %k in 0 .. n {              %none = null_async_dep
      shared_memory_barrier             iterate %k in 0 .. n carry(%dep = %none : async_dep) {
      gather_to_lds A to %a               shared_memory_barrier deps(%dep)
    }                         becomes     %t = gather_to_lds A to %a
                                          yield %t
                                        }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tidegate.graph.build import KernelGraph
from tidegate.graph.drafts import Path
from tidegate.language.ops import (
    Block,
    Carried,
    CommitGroup,
    Conditional,
    CopyOp,
    Iterate,
    Kernel,
    NullAsyncDep,
    Op,
    SharedMemoryBarrier,
    Value,
    WaitCount,
    blocks_of,
    map_blocks,
    walk_ops,
)
from tidegate.language.types import DEP
from tidegate.language.uses import names_in_block, names_in_kernel, uses_of
from tidegate.waits.needs import Wanted


@dataclass(frozen=True, slots=True)
class _Token:
    """The copy at a path."""

    path: Path


@dataclass(frozen=True, slots=True)
class _Carried:
    """An instance as a loop carries it: its name in the body (`inside`), or its result."""

    loop: Path
    wanted: Wanted
    inside: bool


@dataclass(frozen=True, slots=True)
class _Merged:
    """What a conditional hands on."""

    conditional: Path
    wanted: Wanted


# None: no copy.
_Dep = _Token | _Carried | _Merged | None


def add_deps(built: KernelGraph, needs: Mapping[int, Sequence[Wanted]]) -> tuple[Kernel, tuple[int, ...]]:
    """The kernel with values at its waits; and the waits whose needs cannot be values, as points."""
    reader = _Reader(built)
    deps: dict[Path, list[_Dep]] = {}
    left: list[int] = []
    for point, wanted in needs.items():
        path = built.paths[point]
        try:
            deps[path] = [reader.read(each, path[:-1], path[-1]) for each in wanted]
        except _Parted:
            left.append(point)
    return _Writer(built.kernel, reader, deps).write(), tuple(left)


class _Parted(Exception):
    """Waves part between a copy and its wait: no value passes there."""


# --- what is brought ----------------------------------------------------------------------------------------------


class _Reader:
    """Follows instances backwards, from waits to the copies."""

    def __init__(self, built: KernelGraph) -> None:
        self.built = built
        self.loop_at = {built.paths[loop.head]: number for number, loop in enumerate(built.graph.loops)}
        self.init: dict[tuple[Path, Wanted], _Dep] = {}
        self.next: dict[tuple[Path, Wanted], _Dep] = {}
        self.arms: dict[tuple[Path, Wanted], tuple[_Dep, _Dep]] = {}

    def read(self, wanted: Wanted, block: Path, place: int) -> _Dep:
        """What a wanted instance is called before an operation of a block."""
        copy = self.built.paths[wanted.copy]
        for number in reversed(range(place)):
            here = (*block, number)
            if here == copy and not any(count for _, count, _ in wanted.rounds):
                return _Token(here)
            if copy[: len(here)] == here and here != copy:
                return self.out_of(here, wanted)
        if not block:
            return None
        around = block[:-1]
        match self.op(around):
            case Iterate():
                return self.carried(around, wanted, inside=True)
            case Conditional():
                return self.read(wanted, around[:-1], around[-1])
        raise _Parted

    def op(self, path: Path) -> Op:
        block = self.block(path[:-1])
        return block.ops[path[-1]]

    def block(self, path: Path) -> Block:
        found = self.built.kernel.body
        for number, region in zip(path[::2], path[1::2], strict=True):
            found = blocks_of(found.ops[number])[region]
        return found

    def out_of(self, path: Path, wanted: Wanted) -> _Dep:
        """What comes out of an operation that holds the copy."""
        match self.op(path):
            case Iterate():
                return self.carried(path, wanted, inside=False)
            case Conditional() as op:
                key = (path, wanted)
                if key not in self.arms:
                    arms = [
                        self.read(wanted, (*path, number), len(block.ops)) for number, block in enumerate(blocks_of(op))
                    ]
                    self.arms[key] = (arms[0], arms[1])
                return _Merged(path, wanted)
        raise _Parted

    def carried(self, path: Path, wanted: Wanted, inside: bool) -> _Dep:
        key = (path, wanted)
        if key not in self.init:
            self.init[key] = self.next[key] = None  # for those who come back here on the way
            body = self.block((*path, 0))
            self.init[key] = self.from_outside(path, wanted)
            earlier = self.earlier(self.loop_at[path], wanted)
            if earlier is not None:
                self.next[key] = self.read(earlier, (*path, 0), len(body.ops))
        return _Carried(path, wanted, inside)

    def from_outside(self, path: Path, wanted: Wanted) -> _Dep:
        """What a loop starts with: nothing, if the ways that are meant do not enter it."""
        loop = self.loop_at[path]
        unfinished = any(each == loop and count for each, count, _ in wanted.rounds)
        if unfinished or wanted.bound == loop:
            return None
        return self.read(wanted, path[:-1], path[-1])

    def earlier(self, loop: int, wanted: Wanted) -> Wanted | None:
        """The same instance as the iteration before knows it; None if no way that is meant goes round."""
        if loop in wanted.frozen:
            return None
        for place, (each, count, exact) in enumerate(wanted.rounds):
            if each == loop and count:
                rounds = (*wanted.rounds[:place], (each, count - 1, exact), *wanted.rounds[place + 1 :])
                return replace(wanted, rounds=rounds)
            if each == loop and exact:
                return None
        return wanted

    # --- values that are others ---

    def settle(self) -> dict[_Dep, _Dep]:
        """What each value is, where it is not one of its own: the same from all sides, or nothing."""
        known: dict[_Dep, _Dep] = {}
        changed = True
        while changed:
            changed = False
            for path, wanted in self.init:
                inside, after = _Carried(path, wanted, True), _Carried(path, wanted, False)
                if inside in known:
                    continue
                start, more = resolve(self.init[path, wanted], known), resolve(self.next[path, wanted], known)
                goes_round = self.earlier(self.loop_at[path], wanted) is not None
                if not goes_round or more in (inside, start):
                    known[inside] = start
                    known[after] = start
                    changed = True
            for (path, wanted), arms in self.arms.items():
                merged = _Merged(path, wanted)
                one, other = (resolve(each, known) for each in arms)
                if merged not in known and one == other:
                    known[merged] = one
                    changed = True
        return known


def resolve(dep: _Dep, known: Mapping[_Dep, _Dep]) -> _Dep:
    while dep in known:
        dep = known[dep]
    return dep


# --- the kernel ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    kernel: Kernel
    reader: _Reader
    deps: Mapping[Path, Sequence[_Dep]]
    known: dict[_Dep, _Dep] = field(init=False)
    live: dict[_Dep, None] = field(default_factory=dict)
    names: dict[_Dep, Value] = field(default_factory=dict)
    taken: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.known = self.reader.settle()
        self.taken = names_in_kernel(self.kernel)

    def write(self) -> Kernel:
        for each in self.deps.values():
            for dep in each:
                self.keep(resolve(dep, self.known))
        if not self.live:
            return self.kernel
        body = self.block(self.kernel.body, ())
        if None in self.names:
            body = self.with_null(body)
        return replace(self.kernel, body=body)

    def keep(self, dep: _Dep) -> None:
        """A value that is waited for, and those that it comes from."""
        if dep in self.live:
            return
        if dep is not None:
            self.live[dep] = None
        match dep:
            case _Carried(path, wanted, inside):
                self.keep(_Carried(path, wanted, not inside))
                self.keep(resolve(self.reader.init[path, wanted], self.known))
                self.keep(resolve(self.reader.next[path, wanted], self.known))
            case _Merged(path, wanted):
                for each in self.reader.arms[path, wanted]:
                    self.keep(resolve(each, self.known))

    def value(self, dep: _Dep) -> Value:
        dep = resolve(dep, self.known)
        if dep not in self.names:
            existing = getattr(self.reader.op(dep.path), "result", None) if isinstance(dep, _Token) else None
            self.names[dep] = existing or Value(self.fresh(_STEMS[type(dep)]), DEP)
        return self.names[dep]

    def fresh(self, stem: str) -> str:
        number, name = 0, stem
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name

    def block(self, block: Block, path: Path) -> Block:
        return replace(block, ops=tuple(self.op(op, (*path, number)) for number, op in enumerate(block.ops)))

    def op(self, op: Op, path: Path) -> Op:
        op = map_blocks(op, partial(self.inner, path))
        if isinstance(op, CopyOp) and _Token(path) in self.live:
            return replace(op, result=self.value(_Token(path)))
        if path in self.deps and isinstance(op, SharedMemoryBarrier | WaitCount):
            found = (resolve(each, self.known) for each in self.deps[path])
            values = dict.fromkeys((*op.async_deps, *(self.value(each) for each in found if each is not None)))
            return replace(op, async_deps=tuple(values))
        if isinstance(op, Iterate):
            return self.loop(op, path)
        if isinstance(op, Conditional):
            return self.conditional(op, path)
        return op

    def inner(self, path: Path, block: Block, number: int) -> Block:
        return self.block(block, (*path, number))

    def loop(self, op: Iterate, path: Path) -> Iterate:
        for dep in self.live:
            if isinstance(dep, _Carried) and dep.loop == path and dep.inside:
                start, more = self.reader.init[path, dep.wanted], self.reader.next[path, dep.wanted]
                body = replace(op.body, yields=(*op.body.yields, self.value(more)))
                carried = (*op.carried, Carried(self.value(dep), self.value(start)))
                op = replace(
                    op, body=body, carried=carried, results=(*op.results, self.value(replace(dep, inside=False)))
                )
        return op

    def conditional(self, op: Conditional, path: Path) -> Conditional:
        for dep in self.live:
            if isinstance(dep, _Merged) and dep.conditional == path:
                then, otherwise = (self.value(each) for each in self.reader.arms[path, dep.wanted])
                op = replace(
                    op,
                    results=(*op.results, self.value(dep)),
                    then=replace(op.then, yields=(*op.then.yields, then)),
                    otherwise=replace(op.otherwise, yields=(*op.otherwise.yields, otherwise)),
                )
        return op

    def with_null(self, body: Block) -> Block:
        """`null_async_dep` once, before the first operation that uses it."""
        null = self.names[None]
        place = next(
            number
            for number, op in enumerate(body.ops)
            if null.name in {*uses_of(op), *(name for each in blocks_of(op) for name in names_in_block(each))}
        )
        return replace(body, ops=(*body.ops[:place], NullAsyncDep(null), *body.ops[place:]))


_STEMS = {_Token: "%copy", _Carried: "%dep", _Merged: "%dep", type(None): "%none"}


# --- dead values --------------------------------------------------------------------------------------------------


def drop_dead_deps(kernel: Kernel) -> Kernel:
    """Without tokens, carried and handed on, that no wait comes to use."""
    needed = _needed(kernel)
    return replace(kernel, body=_without(kernel.body, needed))


def _needed(kernel: Kernel) -> set[str]:
    """Names that waits use, and those they come from."""
    sources: dict[str, list[str]] = {}
    waiting: list[str] = []
    for op in walk_ops(kernel.body):
        match op:
            case SharedMemoryBarrier(async_deps=deps) | WaitCount(async_deps=deps):
                waiting += (each.name for each in deps)
            case Iterate(results=results, carried=carried, body=body):
                for result, each, new in zip(results, carried, body.yields, strict=True):
                    for name in (result.name, each.value.name):
                        sources.setdefault(name, []).extend(_named(each.init, new, each.value))
            case Conditional(results=results, then=then, otherwise=otherwise):
                for result, one, other in zip(results, then.yields, otherwise.yields, strict=True):
                    sources.setdefault(result.name, []).extend(_named(one, other))
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += sources.get(name, ())
    return found


def _named(*operands: object) -> Iterator[str]:
    return (each.name for each in operands if isinstance(each, Value))


def _without(block: Block, needed: set[str]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        op = map_blocks(op, lambda inner, _: _without(inner, needed))
        match op:
            case NullAsyncDep(result) if result.name not in needed:
                continue
            case Iterate():
                op = _lighter_loop(op, needed)
            case Conditional():
                op = _lighter_conditional(op, needed)
            case CommitGroup(result=result) if result is not None and result.name not in needed:
                op = replace(op, result=None)
        if isinstance(op, CopyOp) and op.result is not None and op.result.name not in needed:
            op = replace(op, result=None)
        ops.append(op)
    return replace(block, ops=tuple(ops))


def _lighter_loop(op: Iterate, needed: set[str]) -> Iterate:
    kept = [
        place
        for place, each in enumerate(op.carried)
        if each.value.type != DEP or {each.value.name, op.results[place].name} & needed
    ]
    return replace(
        op,
        results=tuple(op.results[place] for place in kept),
        carried=tuple(op.carried[place] for place in kept),
        body=replace(op.body, yields=tuple(op.body.yields[place] for place in kept)),
    )


def _lighter_conditional(op: Conditional, needed: set[str]) -> Conditional:
    kept = [place for place, each in enumerate(op.results) if each.type != DEP or each.name in needed]
    return replace(
        op,
        results=tuple(op.results[place] for place in kept),
        then=replace(op.then, yields=tuple(op.then.yields[place] for place in kept)),
        otherwise=replace(op.otherwise, yields=tuple(op.otherwise.yields[place] for place in kept)),
    )
