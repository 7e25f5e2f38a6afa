"""One wave as a generator: it walks its program and yields what it asks of its scheduler.

Needs   a well-formed kernel, and an environment with the machine's names, the sizes and the arguments
Gives   events, in program order; the generator returns when the wave ends
Keeps   every address is inside its memory before its event is yielded; what goes wrong is a `SimulationError`
Cost    constant per operation, plus the arithmetic

A condition that differs between lanes runs both arms, one after the other, each with the lanes that took it; an arm
that no lane took is left out. Inside, accesses of other lanes' elements do not happen (they read as 0), arithmetic
runs on whole tiles, and a barrier counts as an arrival of the wave. A result takes each lane's part from the arm that
this lane took. `exit` there ends these lanes only; the wave ends with its last lane.

`path` says where the wave is, as a key of `program_order`: the number of the operation in its region, then the
iteration or the arm, then the operation inside, and so on. `loops` are the counters around it with their values.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from tidegate.index import Index
from tidegate.language.ops import (
    Alloc,
    AtomicAdd,
    Block,
    CommitGroup,
    Conditional,
    ConditionalBarrier,
    Dealloc,
    Exit,
    Fence,
    GatherToLds,
    GlobalRead,
    GlobalWrite,
    Iterate,
    LdsToGlobal,
    Let,
    LocalRead,
    LocalWrite,
    MbarrierArrive,
    MbarrierWait,
    NewBarrier,
    NullAsyncDep,
    Op,
    Operand,
    ReadIndex,
    SchedulingBarrier,
    SelectView,
    SetWavePrio,
    SharedMemoryBarrier,
    Signal,
    Specialize,
    TensorLoadToLds,
    TileOp,
    Value,
    View,
    Wait,
    WaitCount,
    WorkgroupBarrier,
)
from tidegate.language.types import BarrierObject, Lds
from tidegate.simulate.address import first_byte, single
from tidegate.simulate.compute import compute
from tidegate.simulate.events import Answer, Asking, Event
from tidegate.simulate.faults import Actor, no_value, unfit
from tidegate.simulate.program_order import arm
from tidegate.simulate.requests import Requests
from tidegate.simulate.tiles import Array
from tidegate.simulate.values import (
    BarrierRef,
    Buffer,
    Dep,
    Env,
    NoValue,
    PerLane,
    RunValue,
    as_value,
    evaluate,
    holds,
    merge,
)

# What a region hands on, or None if no lane reached its end.
Handed = tuple[RunValue, ...] | None
Steps = Generator[Event, Answer, Handed]


# A loop with a size of 10^18 would never end. So many take some ten seconds for four waves, and kernels a few thousand.
MOST_OPERATIONS = 25_000


class Wave:
    """The state of one wave. `active` are the lanes that run now, None if all do; `gone` are those that have ended."""

    def __init__(self, body: Block, env: Env, layout: dict[str, int], *, waves: int, lanes: int) -> None:
        self.body = body
        self.env = env
        self.layout = layout
        self.lanes = lanes
        self.active: Array | None = None
        self.gone: Array | None = None
        self.path: list[int] = []
        self.loops: list[tuple[str, int]] = []
        self.requests = Requests(env, waves)
        self.left = MOST_OPERATIONS

    def run(self) -> Asking:
        yield from self._block(self.body)

    def _block(self, block: Block) -> Steps:
        path = self.path
        depth = len(path)
        path.append(0)
        for place, op in enumerate(block.ops):
            path[depth] = place
            self.left -= 1
            if self.left < 0:
                raise unfit(f"a wave performs more than {MOST_OPERATIONS:,} operations", "give smaller sizes")
            try:
                reached = yield from self._op(op)
            except NoValue as reason:
                raise no_value(Actor(op, self.env), reason) from None
            except OverflowError:
                raise no_value(Actor(op, self.env), NoValue("a number needs more than 64 bits")) from None
            if reached is None:
                del path[depth:]
                return None
        del path[depth:]
        return tuple(self._operand(each) for each in block.yields)

    def _inside(self, place: int, block: Block) -> Steps:
        """A region of the current operation: iteration `place`, or the arm with that part of a key."""
        self.path.append(place)
        handed = yield from self._block(block)
        self.path.pop()
        return handed

    def _op(self, op: Op) -> Steps:
        """Runs one operation; binds its results. None if no lane goes on after it."""
        match op:
            case Iterate():
                return (yield from self._iterate(op))
            case Conditional():
                return (yield from self._conditional(op))
            case Specialize():
                return (yield from self._specialize(op))
            case Exit():
                return self._exit()
            case GlobalRead() | LocalRead() | GlobalWrite() | LocalWrite() | AtomicAdd() | ReadIndex():
                yield from self.requests.memory(op, self.active, self.lanes)
            case GatherToLds() | TensorLoadToLds() | LdsToGlobal() | CommitGroup():
                yield from self.requests.copies(op, self.active)
            case (
                WorkgroupBarrier() | SharedMemoryBarrier() | Signal() | Wait() | ConditionalBarrier()
                | WaitCount() | Fence() | MbarrierArrive() | MbarrierWait()
            ):  # fmt: skip
                yield from self.requests.synchronization(op, self.active)
            case Dealloc() | SchedulingBarrier() | SetWavePrio():
                pass
            case _:  # `_made` takes every operation that is left, so that the type checker misses no new one
                self.env[op.result.name] = self._made(op)
        return ()

    # --- regions ---

    def _iterate(self, op: Iterate) -> Steps:
        lower, upper = evaluate(op.lower, self.env), evaluate(op.upper, self.env)
        step = single(op.step, Actor(op, self.env), self.active)
        if step <= 0:
            raise NoValue(f"the loop's step is {step}; a step must be positive")
        handed = tuple(self._operand(each.init) for each in op.carried)
        if not isinstance(lower, int) or not isinstance(upper, int):
            ran = yield from self._iterate_per_lane(op, np.asarray(lower), np.asarray(upper), step, handed)
            return self._bind(op.results, ran)
        names = [each.value.name for each in op.carried]
        self.loops.append((op.counter.name, lower))
        for number, count in enumerate(range(lower, upper, step)):
            self.env[op.counter.name] = count
            self.loops[-1] = (op.counter.name, count)
            self.env.update(zip(names, handed, strict=True))
            ran = yield from self._inside(number, op.body)
            if ran is None:
                self.loops.pop()
                return None
            handed = ran
        self.loops.pop()
        return self._bind(op.results, handed)

    def _iterate_per_lane(self, op: Iterate, count: Array, upper: Array, step: int, handed: Handed) -> Steps:
        """Lanes whose bounds differ: each goes round as often as its own bounds say."""
        before = self.active
        names = [each.value.name for each in op.carried]
        self.loops.append(("iteration", 0))
        number = 0
        while handed is not None:
            going = self._live() & (count < upper)
            if not going.any():
                break
            self.env[op.counter.name] = PerLane(np.broadcast_to(count, (self.lanes,)))
            self.env.update(zip(names, handed, strict=True))
            self.loops[-1] = ("iteration", number)
            ran = yield from self._arm(op.body, going, number)
            number += 1
            self.active = before
            if ran is not None:
                handed = tuple(merge(going, new, old) for new, old in zip(ran, handed, strict=True))
            elif not self._live().any():
                handed = None
            count = count + step
        self.loops.pop()
        self.active = self._still(before)
        return handed

    def _conditional(self, op: Conditional) -> Steps:
        cond = holds(op.cond, self.env)
        if isinstance(cond, bool):
            return self._bind(op.results, (yield from self._inside(arm(not cond), op.then if cond else op.otherwise)))
        before, took = self.active, self._live() & cond
        others = self._live() & ~cond
        first = yield from self._arm(op.then, took, arm(0))
        second = yield from self._arm(op.otherwise, others, arm(1))
        self.active = self._still(before)
        if first is None or second is None:
            return self._bind(op.results, second if first is None else first)
        return self._bind(op.results, tuple(merge(took, a, b) for a, b in zip(first, second, strict=True)))

    def _arm(self, block: Block, lanes: Array, place: int) -> Steps:
        """A region with only these lanes; None if there are none, or all of them ended in it."""
        if not lanes.any():
            return None
        self.active = lanes
        return (yield from self._inside(place, block))

    def _specialize(self, op: Specialize) -> Steps:
        wave = self.env["wave"]
        for number, group in enumerate(op.groups):
            if isinstance(wave, int) and group.first <= wave < group.last:
                return (yield from self._inside(arm(number), group.body))
        return ()

    def _exit(self) -> Handed:
        if self.active is not None:
            self.gone = self.active if self.gone is None else self.gone | self.active
        return None

    def _live(self) -> Array:
        """The lanes that run now, as a mask."""
        lanes = np.ones(self.lanes, bool) if self.active is None else self.active
        return lanes if self.gone is None else lanes & ~self.gone

    def _still(self, before: Array | None) -> Array | None:
        """The lanes of an enclosing region that have not ended in an inner one."""
        if self.gone is None:
            return before
        return ~self.gone if before is None else before & ~self.gone

    # --- values ---

    def _bind(self, results: tuple[Value, ...], handed: Handed) -> Handed:
        if handed is None:
            return None
        self.env.update((result.name, value) for result, value in zip(results, handed, strict=True))
        return ()

    def _operand(self, operand: Operand) -> RunValue:
        return self.env[operand.name] if isinstance(operand, Value) else self._index(operand)

    def _index(self, index: Index) -> int | PerLane:
        return as_value(evaluate(index, self.env))

    def _made(self, op: TileOp | Let | NullAsyncDep | NewBarrier | Alloc | View | SelectView) -> RunValue:
        """What an operation makes that asks nothing of the scheduler."""
        match op:
            case Let(value=index):
                return self._index(index)
            case NullAsyncDep():
                return Dep()
            case NewBarrier(result=Value(name, BarrierObject() as kind)):
                return BarrierRef(name, kind)
            case Alloc(result=Value(name, Lds() as kind)):
                return Buffer(name, self.layout[name], kind)
            case View(result=Value(name, Lds() as kind), place=place):
                return Buffer(name, first_byte(place, kind, Actor(op, self.env), self.active), kind)
            case SelectView(cond=cond, then=then, otherwise=otherwise):
                chosen = holds(cond, self.env)
                if isinstance(chosen, bool):
                    return self.env[(then if chosen else otherwise).name]
                return merge(chosen, self.env[then.name], self.env[otherwise.name])
            case NewBarrier() | Alloc() | View():
                raise NoValue(f"`{op.result.name}` has type `{op.result.type}`, which this operation cannot make")
            case _:
                return compute(op, self.env)
