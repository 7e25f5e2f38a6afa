"""Random small graphs with every kind of synchronization, the same ones for the same seed.

    graph, target, env = small_graph(random.Random(7))     two waves, or three, a few events each

All are well-formed and can be executed: no `Havoc`, no `Unknown`, no `branch any`, nothing inexact. They are made of
*phases*: some accesses, then something that may order them against the next ones. Most phases follow a rule that works
(drain, then meet); some are damaged: a count too high, a barrier that half of the waves skip, a parity that is wrong.
About a third of the graphs is clean, about a third races, and many hang or turn an order round.

`proxies`: on a target that has them, bulk copies go through the asynchronous proxy.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.index import ONE, ZERO, Binary, Compare, Cond, Const, Flag, Index, Logic, Name, Not, Select
from tidegate.language import ops
from tidegate.language.ops import Place, Value
from tidegate.language.types import DEP, BarrierObject
from tidegate.targets import Target, load_target

TARGETS = ("", "gfx942", "gfx942", "gfx950", "gfx1201", "gfx1250", "gfx1250", "sm_80", "sm_80", "sm_90", "sm_90")
COPIES = ("gather_to_lds", "tensor_load_to_lds", "lds_to_global")
WAVE = Name("wave")
UNIT = 4  # bytes that one wave touches, mostly


def small_graph(rng: random.Random, proxies: bool = False) -> tuple[g.SyncGraph, Target, dict[str, int]]:
    """A graph, its target, and values for its sizes and free names."""
    maker = _Maker(rng, proxies)
    return maker.make(), maker.target, maker.env


def binary(op: str, left: Index, right: int) -> Index:
    return Binary(op, left, Const(right))


class _Maker:
    """Builds one graph. `left` is how many more events each wave may have."""

    def __init__(self, rng: random.Random, proxies: bool) -> None:
        self.rng, self.proxies = rng, proxies
        self.target = load_target(rng.choice(TARGETS))
        self.waves = rng.choice((2, 2, 2, 2, 3))
        self.left = rng.choice((12, 16, 20)) if self.waves == 2 else rng.choice((8, 10))
        self.most = self.left
        self.flights = 6 if self.waves == 2 else 4  # how many more accesses each wave may have
        self.damage = rng.choice((0.0, 0.1, 0.25, 0.4))  # how often what orders is left out
        self.misfit = rng.choice((0.0, 0.0, 0.0, 0.15))  # how often waves do not fit together
        self.b = GraphBuilder("small", waves=self.waves, target=self.target.name, lanes="one")
        self.env = {"wg0": 0, "wg1": 0, "wg2": 0, "N": rng.randrange(4), "%f": rng.randrange(2), "%t": rng.randrange(4)}
        self.tokens: list[str] = []
        self.counters: list[str] = []  # of the loops around
        self.times = 1  # how often what is added now is executed
        self.copies = 0  # that nobody has waited for
        self.phase = 0  # phases of the mbarrier where all waves meet, when the loops around were entered
        self.met_here = False  # whether they meet there in this loop

    def chance(self, of: float) -> bool:
        return self.rng.random() < of

    def broken(self) -> bool:
        return self.chance(self.damage)

    def mismatched(self) -> bool:
        return self.chance(self.misfit)

    def spend(self, events: int) -> None:
        self.left -= events * max(1, self.times)

    def may_fly(self) -> bool:
        """Whether there is room for another access; it is taken."""
        self.spend(1)
        self.flights -= max(1, self.times)
        return self.flights >= 0

    # --- the whole ---

    def make(self) -> g.SyncGraph:
        self.declare()
        early = self.chance(0.5)
        self.calls = self.chance(0.35)
        if self.calls and early:
            self.function()
        often = (self.phases, self.phases, self.phases, self.phases, self.crossed, self.crossed, self.staggered)
        plans = (*often, self.staggered, self.soup, self.pipeline)
        plan = self.rng.choice(plans)
        if self.chance(0.2):
            self.specialized(plan)
        else:
            self.b.program(0, self.waves)
            self.prepare()
            plan()
            self.b.add(g.End())
        if self.calls and not early:
            self.function()
        return self.b.finish()

    def declare(self) -> None:
        b, rng = self.b, self.rng
        b.size("N", 2)
        b.flag("%f")
        b.scalar("%t")
        shared = self.chance(0.7)
        b.buffer("%a", 16, 2, 0 if shared else None)
        b.buffer("%b", 16, 1, rng.choice((0, 6, 16, 32, 32)) if shared and self.chance(0.9) else None)
        self.bar = b.object(
            "%bar", BarrierObject("named_barrier", self.waves + (rng.choice((-1, 1)) if self.mismatched() else 0))
        )
        self.few = b.object("%few", BarrierObject("named_barrier", 1))
        self.mbar = b.object("%mbar", BarrierObject("mbarrier", self.waves, 2))
        self.full = b.object("%full", BarrierObject("mbarrier", 1, 2))

    def prepare(self) -> None:
        """What a kernel does before its first access: none of it can be seen by other waves."""
        b, rng = self.b, self.rng
        b.add(g.Alloc("%a"))
        places = (g.Ref("%a", Const(1)), g.Ref("%b"), g.Ref("%a", Const(0), Const(4)))
        first, second = rng.sample(places, 2)
        b.add(g.Assign((("%v", g.Either(self.cond(), first, second)), ("%s", Const(rng.randrange(2))))))
        if self.chance(0.3):
            b.sync(rng.choice((ops.SetWavePrio(2), ops.SchedulingBarrier())))
        if self.chance(0.3):
            b.sync(ops.NullAsyncDep(Value("%none", DEP)))
            self.tokens.append("%none")

    def function(self) -> None:
        self.b.function("touch", ("%p",))
        if self.chance(0.7):
            self.lds(self.rng.choice(("read", "write")), "%p", ZERO, self.mine(), 4)
        else:
            with self.b.branch(Compare("<", Name("%t"), Const(2))) as arms:
                self.lds("write", "%p", ZERO, self.mine(), 4)
                arms.otherwise()
                self.lds("read", "%p", ZERO, ZERO, 4)
        if self.chance(0.2):
            self.b.sync(ops.SharedMemoryBarrier())
        self.b.add(g.Return())

    def specialized(self, plan: Callable[[], None]) -> None:
        """Waves with code of their own: programs, or one program that dispatches."""
        cut = self.rng.randrange(1, self.waves)
        total = (self.left, self.flights)
        plans = [plan, plan] if self.chance(0.6) else [plan, self.phases]
        state = self.rng.getstate() if self.chance(0.5) else None  # both do the same: they meet at the same barriers
        if self.chance(0.5):
            for (first, last), each in zip(((0, cut), (cut, self.waves)), plans, strict=True):
                self.again(state, total)
                self.b.program(first, last)
                self.prepare()
                each()
                self.b.add(g.End())
            return
        self.b.program(0, self.waves)
        self.prepare()
        start = self.b.add(g.Dispatch(((0, cut),)))
        ends: list[int] = []
        for each in plans:
            self.b.open = [start]
            self.again(state, total)
            with self.per_wave():
                self.b.compute("group")
                each()
            ends += self.b.open
        self.b.open = ends
        self.b.compute("join", insertable=False)
        if self.chance(0.3):
            self.touch_anywhere()
        self.b.add(g.End())

    def again(self, state: Any, total: tuple[int, int]) -> None:
        (self.left, self.flights), self.phase, self.copies = total, 0, 0
        if state is not None:
            self.rng.setstate(state)

    # --- plans ---

    def phases(self) -> None:
        """Accesses, then something that orders them; again and again, in loops and branches."""
        while self.left > 0:
            self.part()

    def part(self) -> None:
        kind = self.rng.random()
        if kind < 0.2 and self.left > 3 and len(self.counters) < 2:
            with self.loop():
                self.one_phase()
        elif kind < 0.3:
            self.uniform_branch()
        elif kind < 0.4:
            self.wave_branch()
            self.order()
        elif kind < 0.47 and self.chance(0.5):
            self.early_end()
        else:
            self.one_phase()

    def one_phase(self) -> None:
        if self.chance(0.5) and self.left < self.most:
            for _ in range(self.rng.choice((1, 1, 2))):
                self.read_anywhere()
        else:
            self.touch_own()
        if self.chance(0.05 + self.damage / 2):
            self.anything()
        self.order()

    def uniform_branch(self) -> None:
        conds = (Flag("%f"), Not(Flag("%f")), Compare("<", Name("N"), Const(2)), Compare("==", Name("%t"), Const(1)))
        with self.b.branch(self.rng.choice(conds)) as arms:
            self.one_phase()
            if self.chance(0.6):
                arms.otherwise()
                self.one_phase()

    def wave_branch(self) -> None:
        with self.b.branch(self.on_wave()) as arms:
            with self.per_wave():
                self.touch_own() if self.chance(0.6) else self.anything()
            arms.otherwise()
            with self.per_wave():
                if self.chance(0.5):
                    self.touch_own()

    def early_end(self) -> None:
        with self.b.branch(self.on_wave()), self.per_wave():
            if self.chance(0.3) and not self.counters:
                self.touch_own()
            if self.chance(0.3):
                self.b.sync(self.rng.choice((ops.WorkgroupBarrier(), ops.Signal(self.bar), ops.Signal(-1))))
            self.b.add(g.End())

    def crossed(self) -> None:
        """Every wave meets the others once, or twice, but not at the same points as the others."""
        if self.chance(0.4):
            self.turned()
        each = self.rng.choice((1, 1, 2))
        meetings = {wave: each + self.mismatched() for wave in range(self.waves)}
        for place in range(4):
            if self.chance(0.8):
                with self.only(self.rng.randrange(self.waves)):
                    self.touch_common()
            for wave in range(self.waves):
                if meetings[wave] and (self.chance(0.35) or place == 3):
                    with self.only(wave):
                        for _ in range(meetings[wave] if place == 3 else 1):
                            self.rendezvous()
                            meetings[wave] -= 1
        with self.only(self.rng.randrange(self.waves)):
            self.touch_common()

    def turned(self) -> None:
        """The first wave in the program touches memory after all others have."""
        last = self.rng.randrange(self.waves)
        with self.only(last):
            self.rendezvous()
            self.touch_common()
        for wave in range(self.waves):
            if wave != last:
                with self.only(wave):
                    self.touch_common()
                    self.rendezvous()

    def staggered(self) -> None:
        """One half of the waves is a barrier or two behind the other until the end."""
        first, last = self.rng.choice((("high", "low"), ("low", "high")))
        behind = self.rng.choice((1, 2))
        for _ in range(behind):
            self.conditional(first)
        if self.chance(0.4):
            with self.loop(least=1):
                self.touch_own()
                self.rendezvous()
        for _ in range(self.rng.choice((1, 2))):
            self.touch_common() if self.chance(0.4) else self.touch_own()
            self.rendezvous()
        if self.chance(0.5):
            self.touch_common()
        for _ in range(behind):
            self.conditional(last)

    def conditional(self, half: str) -> None:
        if not self.mismatched():
            self.spend(2)
            self.b.sync(ops.ConditionalBarrier(half))

    def rendezvous(self) -> None:
        """At the barrier of the workgroup, drained; unless it is broken."""
        if self.copies:
            self.wait_for_copies()
        if not self.broken() and self.chance(0.7):
            self.spend(2)
            self.b.sync(ops.SharedMemoryBarrier())
            return
        if not self.broken():
            self.drain()
        self.spend(2)
        if self.chance(0.7):
            self.b.sync(ops.WorkgroupBarrier())
        else:
            self.b.sync(ops.Signal(-1))
            self.b.sync(ops.Wait(-1))

    def touch_common(self) -> None:
        """Bytes that other waves touch, too."""
        self.lds(self.rng.choice(("read", "write", "write")), "%a", ZERO, ZERO, self.rng.choice((4, 8)))

    def soup(self) -> None:
        while self.left > 0:
            self.anything()

    def pipeline(self) -> None:
        """One wave fills slots, by stores or by copies that report; the others wait for them."""
        by_copy = self.reporting() and self.chance(0.7)
        trips = self.rng.choice((1, 1, 2)) if self.waves == 2 else 1
        self.counters.append("%k")
        with self.b.loop("%k", 0, trips), self.b.branch(Compare("==", WAVE, Const(0))) as arms:
            with self.per_wave():
                self.fill(by_copy)
            arms.otherwise()
            with self.per_wave():
                self.consume(by_copy)
        self.counters.pop()
        self.left = 0

    def fill(self, by_copy: bool) -> None:
        slot = binary("mod", Name("%k"), 2)
        if by_copy:
            size, told = self.rng.choice((4, 8)), g.Ref("%full", slot)
            arrive = ops.MbarrierArrive(Place(self.full, slot), 0 if self.mismatched() or self.broken() else size)
            first = self.chance(0.8)
            if first:
                self.b.sync(arrive)
            self.copy(self.rng.choice(self.reporting()), "%a", slot, ZERO, size, told)
            if not first:
                self.b.sync(arrive)
            return
        self.lds("write", "%a", slot, ZERO, 4)
        if not self.broken():
            self.drain()
        self.b.sync(ops.Signal(self.few))

    def consume(self, by_copy: bool) -> None:
        slot = binary("mod", Name("%k"), 2)
        if by_copy:
            parity = binary("mod", binary("//", Name("%k"), 2), 2)
            wrong = ONE if self.mismatched() else parity
            self.b.sync(ops.MbarrierWait(Place(self.full, slot), wrong))
        else:
            self.b.sync(ops.Wait(self.few))
        if self.waves == 2 or self.chance(0.5):
            self.lds("read", "%a", slot, ZERO, 4)

    # --- structure ---

    @contextmanager
    def loop(self, least: int = 0) -> Iterator[None]:
        trips = self.rng.choice([each for each in (0, 1, 2, 2, 3) if each >= least])
        upper: Index = Const(trips)
        if self.chance(0.4) and self.env["N"] >= least:
            upper, trips = Name("N"), self.env["N"]
        counter = "%j" if self.counters else "%k"
        phase, times = self.phase, self.times
        self.times, self.met_here = times * trips, False
        self.counters.append(counter)
        with self.b.loop(counter, 0, upper):
            yield
        self.counters.pop()
        self.times, self.phase = times, phase + trips * self.met_here

    @contextmanager
    def per_wave(self) -> Iterator[None]:
        """Points that not all waves reach."""
        start = len(self.b.points)
        yield
        for number in range(start, len(self.b.points)):
            self.b.points[number].under = "per_wave"

    @contextmanager
    def only(self, wave: int) -> Iterator[None]:
        with self.b.branch(Compare("==", WAVE, Const(wave))), self.per_wave():
            yield

    def on_wave(self) -> Cond:
        one = Compare("==", WAVE, Const(self.rng.randrange(self.waves)))
        return self.rng.choice((one, Compare("<", WAVE, Const(1)), Logic("and", one, Flag("%f"))))

    def cond(self) -> Cond:
        return self.rng.choice((self.on_wave(), Flag("%f"), Compare("<", Name("N"), Const(2))))

    # --- accesses ---

    def mine(self) -> Index:
        return binary("*", WAVE, UNIT)

    def anywhere(self) -> Index:
        next_one = binary("*", binary("mod", binary("+", WAVE, 1), self.waves), UNIT)
        first = Select(Compare("==", WAVE, ZERO), ZERO, Const(UNIT))
        return self.rng.choice(
            (self.mine(), next_one, next_one, ZERO, Const(UNIT), first, binary("*", Name("%s"), UNIT))
        )

    def slot(self) -> Index:
        if self.counters and self.chance(0.7):
            counter = Name(self.counters[-1])
            return binary("mod", self.rng.choice((counter, counter, binary("+", counter, 1))), 2)
        return self.rng.choice((ZERO, ZERO, ZERO, ZERO, ONE))

    def touch_own(self) -> None:
        """Each wave on bytes of its own."""
        base = self.rng.choice(("%a", "%a", "%a", "%b"))
        slot = self.slot() if base == "%a" else ZERO
        if self.calls and self.chance(0.4):
            if self.may_fly():
                self.b.add(g.Call("touch", (("%p", g.Ref(base, slot)),)))
            return
        kinds = self.kinds()
        if kinds and self.chance(0.5):
            self.copy(self.rng.choice(kinds), base, slot, self.mine(), 4)
            return
        self.lds(self.rng.choice(("write", "write", "atomic")), base, slot, self.mine(), 4)
        if self.chance(0.3):
            self.lds("read", base, slot, self.mine(), 4)

    def read_anywhere(self) -> None:
        base = self.rng.choice(("%a", "%a", "%a", "%b", "%v"))
        slot = self.slot() if base == "%a" else ZERO
        kinds = [each for each in self.kinds() if each == "lds_to_global"]
        if kinds and self.chance(0.4):
            self.copy(kinds[0], base, slot, self.anywhere(), 4)
        else:
            self.lds("read", base, slot, self.anywhere(), self.rng.choice((4, 4, 8)))

    def touch_anywhere(self) -> None:
        base = self.rng.choice(("%a", "%a", "%b", "%v"))
        slot = self.slot() if base == "%a" else ZERO
        kinds = self.kinds()
        if kinds and self.chance(0.3):
            self.copy(self.rng.choice(kinds), base, slot, self.anywhere(), 4)
        else:
            self.lds(self.rng.choice(("read", "write", "atomic")), base, slot, self.anywhere(), 4)

    def issues(self, kind: str) -> tuple[g.Issue, ...]:
        counter = self.target.counter_of(kind)
        if not counter:
            return ()
        in_order = self.target.operations[kind].in_order and not self.chance(0.1)
        if self.target.counters[counter].unit == "groups":
            return (g.Issue(counter, 0, 0, in_order),)
        least = self.rng.choice((1, 1, 1, 2, 16, 0))  # 0: it may not be issued at all
        return (g.Issue(counter, least, max(1, least + self.rng.choice((0, 0, 2))), in_order),)

    def footprint(self, base: str, slot: Index, offset: Index, size: int) -> g.Footprint:
        """Bytes in one piece, or in steps, some of which may lie beyond a limit."""
        place = g.Ref(base, slot, offset)
        if self.chance(0.7):
            return g.Footprint(place, (), size)
        limit = Name("%t") if self.chance(0.5) else None
        return g.Footprint(place, (g.Extent(size // 2, 2, limit),), self.rng.choice((1, 2)))

    def lds(self, effect: str, base: str, slot: Index, offset: Index, size: int) -> None:
        if not self.may_fly():
            return
        kind = "atomic_add" if effect == "atomic" else f"local_{effect}"
        operator = self.rng.choice(("add", "add", "max")) if effect == "atomic" else ""
        element = self.rng.choice(("i8", "i8", "i8", "i16", "i16", "f16", "i32", "")) if effect == "atomic" else ""
        fetches = effect == "atomic" and self.chance(0.3)
        if effect == "atomic" and self.chance(0.2):  # across the elements of others
            offset = binary("+", offset, 1)
        foot = self.footprint(base, slot, offset, size)
        role = "local_read" if effect == "read" else "local_write"
        access = g.Access(effect, foot, operator=operator, fetches=fetches, element=element)
        self.b.add(access, role=role, issues=self.issues(kind))

    def kinds(self) -> list[str]:
        return [each for each in COPIES if self.target.has(each)]

    def reporting(self) -> list[str]:
        return [each for each in self.kinds() if self.target.operations[each].mbarrier]

    def copy(self, kind: str, base: str, slot: Index, offset: Index, size: int, told: g.Ref | None = None) -> None:
        if not self.may_fly():
            return
        token = ""
        if self.chance(0.5):
            token = self.rng.choice(("%d0", "%d1"))
            self.tokens.append(token)
        effect = "read" if kind == "lds_to_global" else "write"
        foot = (
            self.footprint(base, slot, offset, size)
            if told is None
            else g.Footprint(g.Ref(base, slot, offset), (), size)
        )
        proxy = self.target.operations[kind].proxy if self.proxies else "generic"
        access = g.Access(effect, foot, True, proxy, mbarrier=told, token=token)
        self.b.add(access, role="copy", issues=self.issues(kind))
        self.copies += told is None
        if token and self.chance(0.2):
            self.b.add(g.Assign((("%d2", g.Token(token)),)))
            self.tokens.append("%d2")

    # --- synchronization ---

    def order(self) -> None:
        """What makes accesses before it precede those after it, in all waves; unless it is broken."""
        if not self.broken():
            self.drain()
        if not self.broken():
            self.meet()

    def drain(self) -> None:
        """Everything of the wave is performed."""
        if self.copies:
            self.wait_for_copies()
        counter = self.target.counter_of("local_read")
        if self.target.barrier.performs == "ordinary" and self.chance(0.7):
            return
        choice = self.rng.random()
        if choice < 0.5 and counter:
            self.spend(1)
            self.b.sync(ops.WaitCount(((counter, 0),)))
        elif choice < 0.7:
            self.spend(1)
            kind = self.rng.choice(("wave", "proxy_async"))
            self.b.sync(ops.Fence(kind))
        else:
            self.spend(2)
            self.b.sync(ops.SharedMemoryBarrier(pinned=self.chance(0.2)))

    def wait_for_copies(self) -> None:
        self.copies = 0
        counters = sorted({self.target.counter_of(each) for each in self.kinds()} - {""})
        self.spend(1)
        choice = self.rng.random()
        if choice < 0.25:
            self.spend(1)
            self.b.sync(ops.SharedMemoryBarrier(wait_async_ops=True))
            return
        grouped = [name for name in counters if self.target.counters[name].unit == "groups"]
        if (grouped or not counters) and not self.broken():
            self.commit()
        if choice < 0.45 and self.tokens:
            deps = tuple(Value(name, DEP) for name in sorted(set(self.tokens[-2:])))
            self.b.sync(self.rng.choice((ops.WaitCount((), deps), ops.SharedMemoryBarrier(async_deps=deps))))
        elif counters:
            counts = tuple((name, self.rng.choice((1, 1, 2, 15)) if self.broken() else 0) for name in counters)
            self.b.sync(self.rng.choice((ops.WaitCount(counts), ops.SharedMemoryBarrier(counts))))

    def commit(self) -> None:
        result = None
        if self.chance(0.4):
            result = Value("%group", DEP)
            self.tokens.append("%group")
        counters = [name for name, each in self.target.counters.items() if each.unit == "groups"]
        self.b.sync(ops.CommitGroup(result), issues=tuple(g.Issue(name, 1, 1) for name in counters))

    def meet(self) -> None:
        """All waves come to one point, if all of them execute this."""
        self.spend(2)
        kind = self.rng.choice(("bare", "bare", "shared", "shared", "split", "id", "named", "mbarrier", "mbarrier"))
        if kind == "mbarrier" and not self.meet_at_mbarrier():
            kind = "shared"
        if kind == "bare":
            self.b.sync(ops.WorkgroupBarrier())
        elif kind == "shared":
            self.b.sync(ops.SharedMemoryBarrier())
        elif kind != "mbarrier":
            barrier = {"split": -1, "id": self.rng.choice((0, 3)), "named": self.bar}[kind]
            other = self.rng.choice((-1, 3)) if self.mismatched() else barrier
            self.b.sync(ops.Signal(barrier))
            if self.chance(0.2):
                self.read_anywhere()
            if not self.mismatched():
                self.b.sync(ops.Wait(other))

    def meet_at_mbarrier(self) -> bool:
        """At most once in a loop, and not in a nested one: then the parity is known."""
        if len(self.counters) > 1 or (self.counters and self.met_here):
            return False
        parity: Index = Const(self.phase)
        if self.counters:
            parity = binary("+", Name(self.counters[0]), self.phase)
            self.met_here = True
        else:
            self.phase += 1
        place = Place(self.mbar, ZERO)
        self.b.sync(ops.MbarrierArrive(place))
        wrong = binary("+", parity, 1) if self.mismatched() else parity
        self.b.sync(ops.MbarrierWait(place, binary("mod", wrong, 2)))
        return True

    def anything(self) -> None:
        """An operation, whether it makes sense here or not."""
        choice = self.rng.random()
        if choice < 0.5:
            self.touch_anywhere()
        elif choice < 0.65:
            self.global_access()
        else:
            self.spend(1)
            self.any_sync()

    def global_access(self) -> None:
        """Counts, and touches no shared memory."""
        kind = self.rng.choice(("global_read", "global_write", "scalar_read"))
        if self.may_fly():
            self.b.compute(
                kind, role="global_write" if kind == "global_write" else "global_read", issues=self.issues(kind)
            )

    def any_sync(self) -> None:
        rng = self.rng
        counters = tuple(self.target.counters) or ("vmcnt",)
        counts = ((rng.choice((*counters, "nocnt")), rng.choice((0, 0, 1, 2, 14, 15))),)
        slot = Place(rng.choice((self.mbar, self.full)), rng.choice((ZERO, ONE)))
        barrier = rng.choice((-1, -1, 3, self.bar, self.few))
        deps = tuple(Value(name, DEP) for name in self.tokens[-1:])
        op = rng.choice(
            (
                ops.WorkgroupBarrier(),
                ops.SharedMemoryBarrier(counts),
                ops.SharedMemoryBarrier(async_deps=deps),
                ops.SharedMemoryBarrier(wait_async_ops=True),
                ops.Signal(barrier),
                ops.Wait(barrier),
                ops.ConditionalBarrier(rng.choice(("low", "high"))),
                ops.WaitCount(counts),
                ops.WaitCount((), deps),
                ops.Fence(rng.choice(("wave", "proxy_async"))),
                ops.SchedulingBarrier(),
                ops.MbarrierArrive(slot, rng.choice((0, 0, 4))),
                ops.MbarrierWait(slot, rng.choice((ZERO, ONE))),
                ops.NullAsyncDep(Value("%none", DEP)),
            )
        )
        if isinstance(op, ops.NullAsyncDep):
            self.tokens.append("%none")
        self.b.sync(op)
