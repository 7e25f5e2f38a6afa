"""Random small graphs that dwell on one rule each, for rules that `small_graphs` seldom comes to.

graph, target, env = focused_graph(random.Random(7))

queue      many operations on few counters, counts around every threshold, some operations out of turn
counted    waves that arrive at a named barrier or an mbarrier a different number of times
told       copies that report, arrivals by other waves than the one that copies, waves that end early
handed     a write that others learn of by the end of a copy
proxied    generic and asynchronous accesses to the same bytes, fences here and there
stagger    a loop that one half of the waves enters later

`object_graph` has several barrier objects, programs of their own, and no plan.
"""

from __future__ import annotations

import random

from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.index import ZERO, Binary, Const, Index, Name
from tidegate.language import ops
from tidegate.language.ops import Place, Value
from tidegate.language.types import BarrierObject
from tidegate.targets import Target, load_target

Made = tuple[g.SyncGraph, Target, dict[str, int]]
UNIT = 4


def focused_graph(rng: random.Random) -> Made:
    return rng.choice((queue, counted, told, handed, proxied, stagger))(rng)


def _finish(b: GraphBuilder, target: Target) -> Made:
    return b.finish(), target, {}


def _start(rng: random.Random, targets: tuple[str, ...], waves: int = 2) -> tuple[GraphBuilder, Target]:
    target = load_target(rng.choice(targets))
    b = GraphBuilder("focused", waves=waves, target=target.name, lanes="one")
    b.buffer("%a", 64, 1, 0)
    return b, target


def _mine(step: int = 0) -> Index:
    return Binary("+", Binary("*", Name("wave"), Const(16)), Const(step))


def _theirs(waves: int, step: int = 0) -> Index:
    other = Binary("mod", Binary("+", Name("wave"), Const(1)), Const(waves))
    return Binary("+", Binary("*", other, Const(16)), Const(step))


def _touch(
    b: GraphBuilder, effect: str, offset: Index, issues: tuple[g.Issue, ...] = (), proxy: str = "generic", **how: object
) -> None:
    foot = g.Footprint(g.Ref("%a", ZERO, offset), (), UNIT)
    b.add(g.Access(effect, foot, proxy=proxy, **how), issues=issues)  # type: ignore[arg-type]


# --- queue --------------------------------------------------------------------------------------------------------


def queue(rng: random.Random) -> Made:
    """Operations, then a wait whose count lies at the threshold for one of them, then others read the bytes."""
    b, target = _start(rng, ("gfx942", "gfx942", "gfx950", "gfx1250", "sm_80", "sm_90"))
    b.program(0, 2)
    b.add(g.Alloc("%a"))
    places = 0
    issued: list[g.Issue] = []
    favourite = rng.choice(("gather_to_lds", "local_write"))
    for _ in range(rng.choice((1, 2, 2))):
        for _ in range(rng.choice((1, 2, 3))):
            places += _queued(b, rng, target, places, favourite, issued)
        _wait(b, rng, issued)
    b.sync(ops.WorkgroupBarrier())
    for step in rng.sample(range(places), min(places, 2)):
        _touch(b, "read", _theirs(2, step * UNIT), _issues(rng, target, "local_read"))
    b.add(g.End())
    return _finish(b, target)


def _queued(
    b: GraphBuilder, rng: random.Random, target: Target, places: int, favourite: str, issued: list[g.Issue]
) -> int:
    """One operation on some counter; gives how many places it takes."""
    kinds = [k for k in ("gather_to_lds", "lds_to_global", "tensor_load_to_lds") if target.has(k)]
    beside = "scalar_read" if favourite == "local_write" else "global_read"
    kind = rng.choice((favourite, favourite, favourite, beside, rng.choice((*kinds, "local_write")), "commit"))
    if kind == "commit" or (kind == favourite and not target.has(kind)):
        groups = [name for name, each in target.counters.items() if each.unit == "groups"]
        b.sync(ops.CommitGroup(), issues=tuple(g.Issue(name, 1, 1) for name in groups))
        issued += [g.Issue(name, 1, 1) for name in groups]
        return 0
    issues = _issues(rng, target, kind)
    issued += issues
    if kind in ("global_read", "scalar_read"):
        b.compute(kind, issues=issues)
        return 0
    effect = "read" if kind == "lds_to_global" else "write"
    _touch(b, effect, _mine(places % 4 * UNIT), issues, is_async=kind != "local_write")
    return 1 if places < 4 else 0


def _issues(rng: random.Random, target: Target, kind: str) -> tuple[g.Issue, ...]:
    counter = target.counter_of(kind) if target.has(kind) else ""
    if not counter:
        return ()
    in_order = target.operations[kind].in_order and rng.random() < 0.85
    if target.counters[counter].unit == "groups":
        return (g.Issue(counter, 0, 0, in_order),)
    least = rng.choice((0, 1, 1, 1, 2, 3, 14, 62, 63, 63))
    return (g.Issue(counter, least, least + 1, in_order),)


def _wait(b: GraphBuilder, rng: random.Random, issued: list[g.Issue]) -> None:
    """For a count that just performs one of the operations, or just does not."""
    wanted: dict[str, int] = {}
    for _ in range(rng.choice((0, 1, 1, 1))):
        if issued:
            place = rng.randrange(len(issued))
            name = issued[place].counter
            newer = sum(each.least for each in issued[place + 1 :] if each.counter == name)
            wanted[name] = max(0, newer + rng.choice((-1, 0, 0, 0, 1)))
    b.sync(ops.WaitCount(tuple(wanted.items())) if rng.random() < 0.65 else ops.SharedMemoryBarrier())


def doubtful(rng: random.Random) -> Made:
    """A copy, operations some of which may not be issued, a count that may rely on them; others read the bytes."""
    b, target = _start(rng, ("gfx942", "gfx950"))
    b.program(0, 2)
    b.add(g.Alloc("%a"))
    _touch(b, "write", _mine(0), (g.Issue("vmcnt", rng.choice((0, 1)), 1),), is_async=True)
    for step in range(rng.choice((1, 2))):
        issues = (g.Issue("vmcnt", rng.choice((0, 0, 1)), 2, rng.random() < 0.9),)
        if rng.random() < 0.5:
            b.compute("global_read", issues=issues)
        else:
            _touch(b, "write", _mine((step + 1) * UNIT), issues, is_async=True)
    b.sync(ops.WaitCount((("vmcnt", rng.choice((0, 1, 1, 2))),)))
    b.sync(ops.WorkgroupBarrier())
    _touch(b, "read", _theirs(2, rng.choice((0, 0, UNIT))), _issues(rng, target, "local_read"))
    b.add(g.End())
    return _finish(b, target)


# --- arrivals -----------------------------------------------------------------------------------------------------


def counted(rng: random.Random) -> Made:
    waves = rng.choice((2, 2, 3))
    b, target = _start(rng, ("gfx1250", "sm_90"), waves)
    need = rng.choice((1, 2, 2, 3))
    bar = b.object("%bar", BarrierObject("named_barrier", need))
    mbar = b.object("%mbar", BarrierObject("mbarrier", need))
    by_parity = rng.random() < 0.4
    for wave in range(waves):
        b.program(wave, wave + 1)
        b.add(g.Alloc("%a"))
        for _ in range(rng.choice((1, 2)) if waves == 2 else 1):
            if rng.random() < 0.8:
                _touch(b, rng.choice(("read", "write")), Const(rng.choice((0, 0, 4))))
                b.sync(ops.Fence("wave"))
            for _ in range(rng.choice((0, 1, 1, 2, 3))):
                b.sync(ops.MbarrierArrive(Place(mbar, ZERO)) if by_parity else ops.Signal(bar))
            if rng.random() < 0.6:
                wait = ops.MbarrierWait(Place(mbar, ZERO), Const(rng.choice((0, 0, 1)))) if by_parity else ops.Wait(bar)
                b.sync(wait)
        if rng.random() < 0.7:
            _touch(b, rng.choice(("read", "read", "write")), Const(rng.choice((0, 0, 4))))
        b.add(g.End())
    return _finish(b, target)


def told(rng: random.Random) -> Made:
    waves = rng.choice((2, 2, 3))
    b, target = _start(rng, ("sm_90",), waves)
    full = Value("%full", BarrierObject("mbarrier", rng.choice((1, 1, 2))))
    b.object(full.name, full.type)  # type: ignore[arg-type]
    kinds = [k for k in ("gather_to_lds", "tensor_load_to_lds") if target.operations[k].mbarrier]
    for wave in range(waves):
        b.program(wave, wave + 1)
        b.add(g.Alloc("%a"))
        for _ in range(rng.choice((2, 3, 4)) if waves == 2 else 2):
            action = rng.random()
            if action < 0.25:
                kind = rng.choice(kinds)
                report = g.Ref("%full") if rng.random() < 0.85 else None
                _touch(
                    b, "write", Const(rng.choice((0, 0, 4))), _issues(rng, target, kind), is_async=True, mbarrier=report
                )
            elif action < 0.5:
                b.sync(ops.MbarrierArrive(Place(full, ZERO), rng.choice((0, 4, 4, 8))))
            elif action < 0.75:
                b.sync(ops.MbarrierWait(Place(full, ZERO), Const(rng.choice((0, 0, 0, 1)))))
            elif action < 0.85:
                b.sync(rng.choice((ops.WorkgroupBarrier(), ops.SharedMemoryBarrier(wait_async_ops=rng.random() < 0.5))))
            else:
                _touch(b, rng.choice(("read", "write")), Const(rng.choice((0, 4))))
                b.sync(ops.Fence("wave"))
        if rng.random() < 0.6:
            _touch(b, "read", Const(rng.choice((0, 0, 4))))
        b.add(g.End())
    return _finish(b, target)


def handed(rng: random.Random) -> Made:
    """One wave writes, then starts a copy; the others learn of the write only by the end of the copy."""
    b, target = _start(rng, ("sm_90",), 2)
    full = b.object("%full", BarrierObject("mbarrier", 1))
    b.program(0, 1)
    b.add(g.Alloc("%a"))
    late = rng.random() < 0.3
    if not late:
        _touch(b, "write", Const(rng.choice((0, 4))))
        if rng.random() < 0.8:
            b.sync(ops.Fence("wave"))
    _touch(b, "write", Const(8), is_async=True, mbarrier=g.Ref("%full"))
    if late:
        _touch(b, "write", ZERO)
    b.add(g.End())
    b.program(1, 2)
    b.sync(ops.MbarrierArrive(Place(full, ZERO), 4))
    b.sync(ops.MbarrierWait(Place(full, ZERO), ZERO))
    _touch(b, "read", Const(rng.choice((0, 4, 8))))
    b.add(g.End())
    return _finish(b, target)


# --- proxies ------------------------------------------------------------------------------------------------------


def proxied(rng: random.Random) -> Made:
    waves = rng.choice((2, 2, 3))
    b, target = _start(rng, ("sm_90",), waves)
    meetings = rng.choice((1, 1, 2))
    apart = rng.random() < 0.6
    for wave in range(waves if apart else 1):
        b.program(*((wave, wave + 1) if apart else (0, waves)))
        b.add(g.Alloc("%a"))
        for meeting in range(meetings + 1):
            _by_some_proxy(b, rng, target)
            if meeting < meetings:
                b.sync(ops.SharedMemoryBarrier())
                if rng.random() < 0.3:
                    b.sync(ops.Fence("proxy_async"))
        b.add(g.End())
    return _finish(b, target)


def _by_some_proxy(b: GraphBuilder, rng: random.Random, target: Target) -> None:
    choice = rng.random()
    if choice < 0.45:
        _touch(b, rng.choice(("read", "write", "write")), Const(rng.choice((0, 0, 4))))
        if rng.random() < 0.5:
            b.sync(ops.Fence("proxy_async"))
    elif choice < 0.85:
        _touch(b, "read", Const(rng.choice((0, 0, 4))), _issues(rng, target, "lds_to_global"), "async", is_async=True)
        if rng.random() < 0.7:
            groups = tuple(g.Issue(name, 1, 1) for name, each in target.counters.items() if each.unit == "groups")
            b.sync(ops.CommitGroup(), issues=groups)
            b.sync(ops.WaitCount((("bulk_group", 0),)))
    elif choice < 0.93:
        b.sync(ops.Fence("proxy_async"))


# --- stagger ------------------------------------------------------------------------------------------------------


def stagger(rng: random.Random) -> Made:
    b, target = _start(rng, ("gfx942", "sm_80"))
    first, last = rng.choice((("high", "low"), ("low", "high")))
    behind = rng.choice((1, 1, 2, 2))
    b.program(0, 2)
    b.add(g.Alloc("%a"))
    for _ in range(behind):
        b.sync(ops.ConditionalBarrier(first))
    with b.loop("%k", 0, rng.choice((2, 2, 3))):
        for _ in range(rng.choice((1, 2))):
            slot = Binary("*", Binary("mod", Binary("+", Name("%k"), Const(rng.choice((0, 1)))), Const(2)), Const(UNIT))
            _touch(b, rng.choice(("read", "write")), rng.choice((ZERO, slot, _mine(), _theirs(2))))
            b.sync(rng.choice((ops.SharedMemoryBarrier(), ops.SharedMemoryBarrier(), ops.WorkgroupBarrier())))
    if rng.random() < 0.5:
        _touch(b, rng.choice(("read", "write")), ZERO)
    for _ in range(behind):
        b.sync(ops.ConditionalBarrier(last))
    b.add(g.End())
    return _finish(b, target)


# --- barrier objects without a plan -------------------------------------------------------------------------------


def object_graph(rng: random.Random) -> Made:
    """Every wave its own program; many of these hang, and most that do not race."""
    waves = rng.choice((2, 3, 3))
    target = load_target(rng.choice(("sm_90", "sm_90", "gfx1250")))
    b = GraphBuilder("objects", waves=waves, target=target.name, lanes="one")
    b.buffer("%x", 4)
    b.buffer("%y", 4)
    count = rng.choice((1, 2, 2, 3))
    bars = [b.object(f"%b{n}", BarrierObject("mbarrier", rng.choice((1, 1, 2)))) for n in range(count)]
    named = b.object("%n", BarrierObject("named_barrier", rng.choice((1, 2)))) if rng.random() < 0.3 else None
    for wave in range(waves):
        b.program(wave, wave + 1)
        parity = dict.fromkeys(range(len(bars)), 0)
        for _ in range(rng.randint(2, 6 if waves == 2 else 5)):
            _any_object_step(b, rng, target, bars, named, parity)
        b.add(g.End())
    return _finish(b, target)


def _any_object_step(
    b: GraphBuilder, rng: random.Random, target: Target, bars: list[Value], named: Value | None, parity: dict[int, int]
) -> None:
    number, choice = rng.randrange(len(bars)), rng.random()
    place = g.Footprint(g.Ref(rng.choice(("%x", "%y"))), (), 4)
    if choice < 0.3:
        b.sync(ops.MbarrierArrive(Place(bars[number], ZERO), 4 if rng.random() < 0.35 else 0))
    elif choice < 0.55:
        wanted = parity[number] if rng.random() < 0.8 else 1 - parity[number]
        parity[number] = 1 - wanted
        b.sync(ops.MbarrierWait(Place(bars[number], ZERO), Const(wanted)))
    elif choice < 0.68:
        proxy = "generic" if target.name == "sm_90" and rng.random() < 0.5 else "async"
        counted = target.name == "gfx1250" and rng.random() < 0.5
        issues = (g.Issue("asynccnt", 1, 1),) if counted else ()
        effect = rng.choice(("read", "write", "write"))
        b.add(g.Access(effect, place, True, proxy, mbarrier=g.Ref(bars[number].name)), issues=issues)
    elif choice < 0.85:
        b.add(g.Access(rng.choice(("read", "write")), place))
    elif choice < 0.9 or named is None:
        fences = (ops.Fence("wave"), ops.Fence("proxy_async"))
        b.sync(rng.choice((*fences, ops.SharedMemoryBarrier(), ops.WorkgroupBarrier())))
    else:
        b.sync(rng.choice((ops.Signal(named), ops.Wait(named))))
