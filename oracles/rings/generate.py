"""Random pipelines that are right.

Needs   a seed
Gives   `draw(seed)`: a program that its author believes to be right
Keeps   the same seed gives the same program, on every machine

Shapes: a ring that copies fill or that waves fill, with a second ring for an epilogue; two consumers in ping-pong;
persistent tiles, with a counter t * R + k, a carried counter, or a carried slot and phase; a ring of named barriers;
one role that fetches ahead.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from oracles.rings.model import (
    PART,
    WORKGROUP,
    Arrive,
    Barrier,
    Buffer,
    Carried,
    Copy,
    Depart,
    Drain,
    Elected,
    Expr,
    Fence,
    Guard,
    Loop,
    Program,
    Read,
    Role,
    Signal,
    Statement,
    Store,
    Sync,
    Wait,
    Write,
    as_expr,
    equal,
    least,
    less,
    select,
)

N, T = Expr("N"), Expr("T")
Body = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """Where a ring stands: the slot, the parity of the generation and of the one before, and the round if it is known.

    Where slot and phase are carried along, no single number is the round.
    """

    slot: Expr
    parity: Expr
    before: Expr
    round: Expr | None = None


def round_of(count: Expr, slots: int) -> Round:
    generation = count // slots
    return Round(count % slots if slots > 1 else as_expr(0), generation % 2, (generation + 1) % 2, count)


class Counting:
    """How the roles of one program count rounds: each makes its own loops, with the same counts."""

    def __init__(self, kind: str, trips: int = 1, peel: bool = False) -> None:
        self.kind, self.trips, self.peel = kind, trips, peel

    @property
    def sizes(self) -> tuple[str, ...]:
        return ("N",) if self.kind in ("flat", "constant") else ("T", "N")

    def loops(
        self, name: str, slots: int, body: Callable[[Round], Body], per_tile: Callable[[Expr], Body] | None = None
    ) -> Body:
        k, t = Expr(f"k_{name}"), Expr(f"t_{name}")
        after = per_tile(t) if per_tile else ()
        if self.kind == "flat":
            if self.peel:
                first = Loop(f"f_{name}", as_expr(0), as_expr(1), body(round_of(Expr(f"f_{name}"), slots)))
                return first, Loop(k.op, as_expr(1), N, body(round_of(k, slots)))
            return (Loop(k.op, as_expr(0), N, body(round_of(k, slots))),)
        if self.kind == "constant":
            inner = Loop(k.op, as_expr(0), as_expr(self.trips), body(round_of(t * self.trips + k, slots)))
            return (Loop(t.op, as_expr(0), N, (inner, *after)),)
        if self.kind == "counted":
            return (self.counted(name, body(round_of(Expr(f"n_{name}"), slots)), after),)
        return (self.carried(name, slots, body, after),)

    def counted(self, name: str, body: Body, after: Body) -> Loop:
        """One number of the round, carried through both loops."""
        inside = Carried(f"n_{name}", Expr(f"no_{name}"), Expr(f"n_{name}") + 1, f"ne_{name}")
        outside = Carried(f"no_{name}", as_expr(0), Expr(f"ne_{name}"), f"nz_{name}")
        inner = Loop(f"k_{name}", as_expr(0), N, body, (inside,))
        return Loop(f"t_{name}", as_expr(0), T, (inner, *after), (outside,))

    def carried(self, name: str, slots: int, body: Callable[[Round], Body], after: Body) -> Loop:
        """A slot and a phase, carried through both loops, as hand-written kernels have them."""
        slot, phase = Expr(f"s_{name}"), Expr(f"p_{name}")
        wraps = equal(slot + 1, slots)
        inner = Loop(
            f"k_{name}",
            as_expr(0),
            N,
            body(Round(slot, phase, as_expr(1) - phase)),
            (
                Carried(slot.op, Expr(f"so_{name}"), select(wraps, 0, slot + 1), f"se_{name}"),
                Carried(phase.op, Expr(f"po_{name}"), select(wraps, as_expr(1) - phase, phase), f"pe_{name}"),
            ),
        )
        return Loop(
            f"t_{name}",
            as_expr(0),
            T,
            (inner, *after),
            (
                Carried(f"so_{name}", as_expr(0), Expr(f"se_{name}"), f"sz_{name}"),
                Carried(f"po_{name}", as_expr(0), Expr(f"pe_{name}"), f"pz_{name}"),
            ),
        )


def draw(seed: int) -> Program:
    rng = random.Random(f"ring {seed}")
    shapes = {draw_ring: 22, draw_pingpong: 5, draw_tiles: 1, draw_named: 4, draw_one: 2}
    make = rng.choices(list(shapes), list(shapes.values()))[0]
    program = make(rng, seed)
    return replace(program, given_by=rng.choices(("size", "argument", "workgroup"), (8, 1, 1))[0])


# --- rings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choices:
    """What the roles of a ring have to agree on."""

    slots: int
    copied: bool
    buffers: tuple[str, ...]
    producers: int
    writers: int
    consumers: tuple[int, ...]  # waves of each consumer
    empty: str  # how the first rounds pass: "parity", "guard", "prologue" or "credit"
    split: bool  # a consumer arrives once for each buffer
    fence: str  # who fences: "consumer" or "producer"
    last: bool  # no arrival for slots that nobody fills again
    late: bool  # copies are issued before their bytes are expected
    twice: bool  # each copy has an arrival of its own
    elected: bool  # one wave of each consumer gives a slot back, behind a named barrier of its waves
    deferred: bool  # a slot is given back a round later

    @property
    def waves(self) -> int:
        return sum(self.consumers)

    @property
    def arrivals(self) -> int:
        """Arrivals that fill a slot."""
        return self.producers * self.writers * (2 if self.doubles else 1)

    @property
    def doubles(self) -> bool:
        return self.twice and self.copied and self.producers == 1 and len(self.buffers) == 2

    @property
    def releases(self) -> int:
        """Arrivals that give a slot back."""
        arrivals = len(self.consumers) if self.elected else self.waves
        return arrivals * (2 if self.splits else 1)

    @property
    def splits(self) -> bool:
        return self.split and not self.deferred and not self.elected


def draw_choices(rng: random.Random, kind: str) -> Choices:
    copied = rng.random() < 0.8
    buffers = ("a", "b") if rng.random() < 0.5 else ("a",)
    roles = rng.randint(1, 4)
    consumers = tuple(rng.choice((1, 1, 2)) for _ in range(roles)) if rng.random() < 0.7 else (roles,)
    flat = kind == "flat"
    empty = ("parity", "credit") if kind == "carried" else ("parity", "parity", "guard", "credit")
    return Choices(
        slots=rng.choice((2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8)),
        copied=copied,
        buffers=buffers,
        producers=2 if len(buffers) == 2 and rng.random() < 0.3 else 1,
        writers=rng.choice((1, 2)) if not copied else 1,
        consumers=consumers,
        empty=rng.choice((*empty, "prologue") if flat else empty),
        split=len(buffers) == 2 and rng.random() < 0.3,
        fence=rng.choice(("consumer", "producer")),
        last=flat and rng.random() < 0.25,
        late=rng.random() < 0.15,
        twice=rng.random() < 0.3,
        elected=rng.random() < 0.25,
        deferred=kind != "carried" and rng.random() < 0.2,
    )


def draw_ring(rng: random.Random, seed: int) -> Program:
    kind = rng.choice(("flat", "flat", "flat", "constant", "carried", "counted"))
    counting = Counting(kind, rng.choice((1, 2, 3, 4, 5)), rng.random() < 0.15)
    it = draw_choices(rng, kind)
    epilogue = rng.choice((0, 0, 1, 2))
    store = rng.choice((1, 2, 3)) if epilogue else 0
    copies_out = epilogue == 1 and rng.random() < 0.5
    opening: Body = (Sync(WORKGROUP),) if rng.random() < 0.2 else ()
    roles = [Role(*role[:2], (*opening, *role[2])) for role in producers(it, counting)]
    roles += consumers_of(it, counting, opening, store)
    buffers = [Buffer(each, it.slots, it.writers) for each in it.buffers]
    barriers = [Barrier("full", it.arrivals, it.slots), Barrier("empty", it.releases, it.slots)]
    if it.elected:
        barriers += [Barrier(f"group{number}", waves) for number, waves in enumerate(it.consumers) if waves > 1]
    if store:
        roles.append(Role("e", epilogue, (*opening, *epilogue_body(counting, store, copies_out))))
        buffers.append(Buffer("c", store, it.waves))
        barriers += [Barrier("cfull", it.waves, store), Barrier("cempty", epilogue, store)]
    return Program(f"ring_{seed}", tuple(buffers), tuple(barriers), tuple(roles), counting.sizes)


def plain_ring(slots: int, consumers: int, kind: str = "flat") -> Program:
    """A ring that copies fill, as large as it is asked for. `kind`: how rounds are counted."""
    counting = Counting(kind)
    it = Choices(slots, True, ("a",), 1, 1, (1,) * consumers, "parity", False, "consumer", *[False] * 5)
    roles = [Role(*each) for each in producers(it, counting)] + consumers_of(it, counting, (), 0)
    barriers = (Barrier("full", 1, slots), Barrier("empty", consumers, slots))
    name = f"ring_{slots}x{consumers}"
    return Program(name, (Buffer("a", slots),), barriers, tuple(roles), counting.sizes)


def producers(it: Choices, counting: Counting) -> list[tuple[str, int, Body]]:
    names = it.buffers if it.producers == 2 else (it.buffers,)
    found = []
    for number, mine in enumerate(names):
        name = f"w{number}"

        def body(at: Round, mine: Sequence[str] = tuple(mine), wait: bool = True) -> Body:
            return fill(it, at, mine, wait)

        if it.empty == "prologue":
            first, k = Expr(f"f_{name}"), Expr(f"k_{name}")
            loops: Body = (
                Loop(first.op, as_expr(0), least(it.slots, N), body(round_of(first, it.slots), wait=False)),
                Loop(k.op, as_expr(it.slots), N, body(round_of(k, it.slots))),
            )
        else:
            loops = counting.loops(name, it.slots, body)
        found.append((name, it.writers, loops))
    return found


def fill(it: Choices, at: Round, mine: Sequence[str], wait: bool) -> Body:
    """One slot: wait until it is empty, then copy into it or write it."""
    parity = at.parity if it.empty == "credit" else at.before
    waits: Body = (Wait("empty", at.slot, parity),) if wait else ()
    if it.fence == "producer" and it.copied:
        waits += (Fence(),)
    if it.empty == "guard" and at.round is not None:
        waits = (Guard(less(it.slots - 1, at.round), waits),)
    if not it.copied:
        writes = tuple(Write(each, at.slot, 0) for each in mine)
        return (*waits, *writes, Arrive("full", at.slot))
    if it.doubles:
        one = Arrive("full", at.slot, PART * it.writers)
        pairs = [(one, Copy(each, at.slot, "full", at.slot)) for each in mine]
        return (*waits, *(each for pair in pairs for each in (reversed(pair) if it.late else pair)))
    copies = tuple(Copy(each, at.slot, "full", at.slot) for each in mine)
    expect = Arrive("full", at.slot, PART * it.writers * len(mine))
    return (*waits, *copies, expect) if it.late else (*waits, expect, *copies)


def consumers_of(it: Choices, counting: Counting, opening: Body, store: int) -> list[Role]:
    per_round = counting.kind == "flat"
    found = []
    for number, waves in enumerate(it.consumers):
        name = f"r{number}"
        part = sum(it.consumers[:number])

        def body(at: Round, part: int = part, number: int = number) -> Body:
            more = put(store, at.round, part) if store and per_round and at.round is not None else ()
            return (*take(it, at, number), *more)

        def per_tile(t: Expr, part: int = part) -> Body:
            return put(store, t, part) if store else ()

        credit: Body = ()
        if it.empty == "credit":
            slot = Expr(f"i_{name}")
            arrivals: Body = (Arrive("empty", slot),) * (2 if it.splits else 1)
            if it.elected:
                arrivals = (Elected(arrivals),)
            credit = (Loop(slot.op, as_expr(0), as_expr(it.slots), arrivals),)
        loops = counting.loops(name, it.slots, body, None if per_round else per_tile)
        found.append(Role(name, waves, (*opening, *credit, *loops)))
    return found


def take(it: Choices, at: Round, number: int) -> Body:
    """One slot: wait until it is full, read it, and give it (or the one before) back."""
    reads = [Read(each, at.slot) for each in it.buffers]
    fence: Body = (Fence(),) if it.fence == "consumer" and it.copied else ()
    slot = at.slot
    if it.deferred and at.round is not None:
        slot = (at.round - 1) % it.slots
    back: Body = (*fence, Arrive("empty", slot))
    if it.elected:
        group: Body = (Sync(f"group{number}"),) if it.consumers[number] > 1 else ()
        back = (*group, Elected(back))
    if it.deferred and at.round is not None:
        back = (Guard(less(0, at.round), back),)
    elif it.last and at.round is not None:
        back = (Guard(less(at.round + it.slots, N), back),)
    body = [part for each in reads for part in (each, *back)] if it.splits else [*reads, *back]
    return (Wait("full", at.slot, at.parity), *body)


def put(store: int, round: Expr, part: int) -> Body:
    at = round_of(round, store)
    return (Wait("cempty", at.slot, at.before), Write("c", at.slot, part), Arrive("cfull", at.slot))


def epilogue_body(counting: Counting, store: int, copies_out: bool) -> Body:
    counter = Expr("k_e")
    at = round_of(counter, store)
    trips = T if "T" in counting.sizes else N
    out: Body = (Fence(), Store("c", at.slot), Drain()) if copies_out else (Read("c", at.slot),)
    body: Body = (Wait("cfull", at.slot, at.parity), *out, Arrive("cempty", at.slot))
    return (Loop(counter.op, as_expr(0), trips, body),)


# --- other shapes -------------------------------------------------------------------------------------------------


def draw_pingpong(rng: random.Random, seed: int) -> Program:
    """Two consumers take slots in turn; a pair of barriers keeps their products from meeting."""
    slots, waves = rng.choice((2, 2, 3, 4, 4, 5, 6)), rng.choice((1, 1, 2))
    # With an odd number of slots each consumer sees every other generation of a slot: only turns keep parity apart.
    turns = rng.choice(("named", "mbarrier", "none") if slots % 2 == 0 else ("named", "mbarrier"))
    k = Expr("k_w0")
    at = round_of(k, slots)
    copy = (Arrive("full", at.slot, PART), Copy("a", at.slot, "full", at.slot))
    fill = Loop(k.op, as_expr(0), N * 2, (Wait("empty", at.slot, at.before), *copy))
    roles = [Role("w0", 1, (fill,))]
    for mine in range(2):
        j = Expr(f"j_r{mine}")
        at = round_of(j * 2 + mine, slots)
        work: Body = (Wait("full", at.slot, at.parity), Read("a", at.slot), Fence(), Arrive("empty", at.slot))
        opening: Body = ()
        if turns == "named":
            work = (Sync(f"turn{mine}"), *work, Signal(f"turn{1 - mine}"))
            opening = (Signal("turn0"),) if mine else ()
        elif turns == "mbarrier":
            parity = j % 2 if mine else (j + 1) % 2
            work = (Wait("turn", as_expr(mine), parity), *work, Arrive("turn", as_expr(1 - mine)))
        roles.append(Role(f"r{mine}", waves, (*opening, Loop(j.op, as_expr(0), N, work))))
    barriers = [Barrier("full", 1, slots), Barrier("empty", waves, slots)]
    if turns == "named":
        barriers += [Barrier("turn0", 2 * waves), Barrier("turn1", 2 * waves)]
    elif turns == "mbarrier":
        barriers.append(Barrier("turn", waves, 2))
    return Program(f"pingpong_{seed}", (Buffer("a", slots),), tuple(barriers), tuple(roles))


def draw_tiles(rng: random.Random, seed: int) -> Program:
    """Two consumers take whole tiles in turn, each N rounds of one ring: the other's rounds are skipped.

    A consumer does not see the generations of the other's rounds: only the turns keep parity apart.
    """
    slots, waves = rng.choice((2, 3, 4, 5)), rng.choice((1, 2))
    at = round_of(Expr("n_w0"), slots)
    copy = (Arrive("full", at.slot, PART), Copy("a", at.slot, "full", at.slot))
    fill = Counting("counted").counted("w0", (Wait("empty", at.slot, at.before), *copy), ())
    roles = [Role("w0", 1, (replace(fill, stop=T * 2),))]
    for mine in range(2):
        name = f"r{mine}"
        at = round_of(Expr(f"n_{name}"), slots)
        work: Body = (Wait("full", at.slot, at.parity), Read("a", at.slot), Fence(), Arrive("empty", at.slot))
        loop = Counting("counted").counted(name, work, ())
        (outer,) = loop.carried
        outer = replace(outer, first=N if mine else as_expr(0), next=outer.next + N)
        j = Expr(loop.counter)
        mine_comes = Wait("turn", as_expr(mine), j % 2 if mine else (j + 1) % 2)
        body = (mine_comes, *loop.body, Arrive("turn", as_expr(1 - mine)))
        roles.append(Role(name, waves, (replace(loop, body=body, carried=(outer,)),)))
    barriers = (Barrier("full", 1, slots), Barrier("empty", waves, slots), Barrier("turn", waves, 2))
    return Program(f"tiles_{seed}", (Buffer("a", slots),), barriers, tuple(roles), ("T", "N"))


def draw_named(rng: random.Random, seed: int) -> Program:
    """A ring of named barriers, one pair for each slot: the slots of an iteration are written out.

    On gfx1250 an arrival performs nothing, so a drain stands before it; and a wait may stand apart from its signal.
    """
    slots, writers, readers = rng.choice((1, 2, 2, 3, 4)), rng.choice((1, 2)), rng.choice((1, 2, 3))
    target = rng.choice(("sm_90", "gfx1250"))
    drain: Body = (Drain(),) if target == "gfx1250" else ()
    apart = target == "gfx1250" and rng.random() < 0.5
    fill: Body = ()
    empty: Body = ()
    for slot in range(slots):
        where = as_expr(slot)
        free: Body = (Sync(f"empty{slot}"),)
        if apart:  # the arrivals of all slots come first
            fill = (*fill[:slot], Signal(f"empty{slot}"), *fill[slot:])
            free = (Depart(f"empty{slot}"),)
        fill += (*free, Write("a", where, 0), *drain, Signal(f"full{slot}"))
        empty += (Sync(f"full{slot}"), Read("a", where), *drain, Signal(f"empty{slot}"))
    opening = tuple(Signal(f"empty{slot}") for slot in range(slots))
    roles = (
        Role("w0", writers, (Loop("k_w0", as_expr(0), N, fill),)),
        Role("r0", readers, (*opening, Loop("k_r0", as_expr(0), N, empty))),
    )
    names = [f"{kind}{slot}" for slot in range(slots) for kind in ("full", "empty")]
    barriers = tuple(Barrier(name, writers + readers) for name in names)
    return Program(f"named_{seed}", (Buffer("a", slots, writers),), barriers, roles, target=target)


def draw_one(rng: random.Random, seed: int) -> Program:
    """All waves run one program; one of them fetches ahead, behind the workgroup's barrier."""
    slots, waves = rng.choice((2, 3, 4, 5)), rng.choice((2, 3, 4))
    k, first = Expr("k_r0"), Expr("f_r0")
    ahead = round_of(k + (slots - 1), slots)
    start = round_of(first, slots)
    at = round_of(k, slots)

    def fetch(to: Round) -> Body:
        return (Elected((Arrive("full", to.slot, PART), Copy("a", to.slot, "full", to.slot))),)

    more = Guard(less(k + (slots - 1), N), (Sync(WORKGROUP), Fence(), *fetch(ahead)))
    body = (
        Loop(first.op, as_expr(0), least(slots - 1, N), fetch(start)),
        Loop(k.op, as_expr(0), N, (more, Wait("full", at.slot, at.parity), Read("a", at.slot))),
    )
    return Program(f"one_{seed}", (Buffer("a", slots),), (Barrier("full", 1, slots),), (Role("r0", waves, body),))
