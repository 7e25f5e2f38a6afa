"""Random small programs with asynchronous copies, for counts: copies issued ahead, in slots, in and around loops.

    graph, target, features = random_async(random.Random(7))           a graph
    kernel, target, features = random_async_kernel(random.Random(7))   the same in the kernel language
    print(show_features(each_features))                                how many programs have what

Nothing waits in most of them, and all can be made right: one statement in two waves never conflicts with itself, since
each wave copies or writes a part of its own, and where waves part only one of them touches anything.

Two shapes. A *pipeline* copies so many iterations ahead: a prologue fills slots, a loop copies and reads, an epilogue
reads what is left. A *mixture* has copies, reads, loops and conditions in any order.

    copy %a[0]                   prologue, 2 ahead                gfx950, gfx942   vmcnt, with loads and stores on it
    copy %a[1]                                                    gfx1250          asynccnt and tensorcnt
    for %k in 0 .. N                                              sm_80            groups
      copy %a[(%k + 2) mod 3]    1, 2 or more instructions        sm_90            groups and bulk groups
      read %a[%k mod 3]
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.index import ZERO, Binary, Compare, Cond, Const, Flag, Index, Name, Not, Select
from tidegate.language import ops
from tidegate.language.builder import Builder
from tidegate.language.ops import Carried, Kernel, Place, Size, Value
from tidegate.language.types import FLAG, INDEX, Global, Lds, Tile, f32
from tidegate.targets import Target, load_target

TARGETS = ("gfx950", "gfx950", "gfx942", "gfx1250", "gfx1250", "sm_80", "sm_80", "sm_90")
COPIES = ("gather_to_lds", "tensor_load_to_lds", "lds_to_global")
WAVE = Name("wave")
STANDING = "standing wait"  # the label of counts that are part of a program
ROW = 8  # bytes of a slot that belong to one wave

# What a program may have, in the order of tables.
TAGS = (
    *("pipeline", "mixture", "kernel"),
    *("1 queue", "2 queues"),
    *("ahead 0", "ahead 1", "ahead 2", "ahead 3", "more stages than slots"),
    *("slot k mod n", "slot k + c", "slot constant", "slot by size", "slot by select"),
    *("loop", "nest", "loop in the prologue", "epilogue", "constant trips", "symbolic trips", "zero trips possible"),
    *("flag around copy", "any around copy", "counter around copy", "one wave copies", "two arms copy"),
    *("copy in", "copy out", "tensor copy", "two buffers", "private", "ordinary write"),
    *("several instructions", "instructions are a range", "perhaps no instruction", "global reads", "global writes"),
    *("near saturation", "out of order", "several copies in a group", "empty group", "in no group", "proxies"),
    *("standing barrier", "standing wait"),
)


@dataclass(frozen=True, slots=True)
class Features:
    """What a program has."""

    target: str
    waves: int
    depth: int  # of loops
    slots: int  # the most of any buffer
    copies: int  # statements
    tags: frozenset[str]


def show_features(programs: Iterable[Features]) -> str:
    """A table: how many programs have what."""
    found = list(programs)
    rows: list[tuple[str, Counter[str]]] = [
        ("target", Counter(each.target for each in found)),
        ("waves", Counter(str(each.waves) for each in found)),
        ("depth", Counter(str(each.depth) for each in found)),
        ("slots", Counter(str(each.slots) for each in found)),
        ("copies", Counter(str(min(each.copies, 9)) + (" or more" if each.copies > 8 else "") for each in found)),
    ]
    lines = [f"| {name} {value} | {counts[value]} |" for name, counts in rows for value in sorted(counts)]
    tags = Counter(tag for each in found for tag in each.tags)
    lines += (f"| {tag} | {tags[tag]} |" for tag in TAGS)
    return "\n".join([f"| of {len(found)} programs | have it |", "|---|---:|", *lines])


def random_async(rng: random.Random) -> tuple[g.SyncGraph, Target, Features]:
    """A graph; apart from `commit_group`, which belongs to copies, most have no `Sync` in them."""
    maker = _Maker(rng)
    graph = maker.make()
    return graph, maker.target, maker.features()


def binary(op: str, left: Index, right: int) -> Index:
    return Binary(op, left, Const(right))


class _Maker:
    """Builds one graph. `left` is how many more accesses a mixture may have."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.target = load_target(rng.choice(TARGETS))
        self.waves = rng.choice((2, 2, 2, 3, 4))
        self.slots = rng.choice((1, 2, 2, 3, 3, 4))
        self.left = rng.choice((4, 5, 6, 7))
        self.b = GraphBuilder("program", waves=self.waves, target=self.target.name, lanes="one")
        self.tags: set[str] = set()
        self.counters: list[str] = []
        self.number = self.sizes = self.depth = self.copies = self.free = 0
        self.least = 0  # trips of the next loop that are certain, if its bounds are no numbers
        self.private = rng.random() < 0.2
        self.many = rng.random() < 0.35  # copies become several instructions
        self.ranges = rng.random() < 0.3
        self.noisy = rng.choice((0.0, 0.2, 0.5))
        self.heavy = rng.random() < 0.12  # near what a counter can hold
        self.disorder = rng.random() < 0.08
        self.standing = rng.random() < 0.15
        if self.heavy or self.disorder:
            self.noisy = 0.7
        if self.heavy:
            self.slots = rng.choice((2, 3, 4))
        self.kinds = self.choose_kinds()

    def choose_kinds(self) -> list[str]:
        """The copies of this program: some of those that a wait can complete."""
        able = [each for each in COPIES if self.target.has(each) and self.target.counter_of(each)]
        return sorted(self.rng.sample(able, self.rng.randint(1, len(able))))

    def chance(self, of: float) -> bool:
        return self.rng.random() < of

    def tag(self, *words: str) -> None:
        assert all(word in TAGS for word in words), words
        self.tags.update(words)

    def fresh(self, hint: str) -> str:
        self.number += 1
        return f"%{hint}{self.number}"

    def features(self) -> Features:
        queues = {self.target.counter_of(each) for each in self.kinds}
        self.tag("1 queue" if len(queues) == 1 else f"{len(queues)} queues")
        return Features(self.target.name, self.waves, self.depth, self.slots, self.copies, frozenset(self.tags))

    # --- the whole ---

    def make(self) -> g.SyncGraph:
        self.slots_of = {"%a": self.slots}
        self.b.buffer("%a", self.waves * ROW, self.slots)
        if self.chance(0.35):
            self.tag("two buffers")
            self.slots_of["%b"] = self.rng.choice((1, self.slots))
            self.b.buffer("%b", self.waves * ROW, self.slots_of["%b"])
        if self.private:
            self.tag("private")
        self.b.program(0, self.waves)
        if self.chance(0.72):
            self.tag("pipeline")
            self.pipeline()
        else:
            self.tag("mixture")
            while self.left > 0:
                self.part()
        self.b.add(g.End(), label="end")
        return self.b.finish()

    # --- pipelines ---

    def pipeline(self) -> None:
        """Prologue, loop and epilogue; what is done in the loop stands in any order."""
        rng = self.rng
        ahead = min(rng.choice((0, 1, 1, 2, 2, 3)), self.slots - 1 if self.heavy else 3)
        self.tag(f"ahead {ahead}", *(("more stages than slots",) if ahead >= self.slots > 1 else ()))
        bases = list(self.slots_of) if self.chance(0.6) else ["%a"]
        kinds = {
            base: rng.choice([each for each in self.kinds if each != "lds_to_global"] or self.kinds) for base in bases
        }
        self.prologue(bases, kinds, ahead)
        upper, trips, size = self.bounds()
        self.tag("loop")
        with self.loop(upper) as counter:
            parts: list[Callable[[], None]] = []
            for base in bases:
                parts.append(lambda base=base: self.copy_ahead(kinds[base], base, counter, ahead, upper))
                parts.append(lambda base=base: self.read(base, self.at(Name(counter), base, 0)))
            parts += [self.extra] * rng.choice((0, 0, 1, 1, 2))
            if self.chance(0.5):
                rng.shuffle(parts)
            for each in parts:
                each()
                self.noise()
        if ahead and self.chance(0.7):
            self.epilogue(bases, ahead, size, trips)

    def prologue(self, bases: list[str], kinds: dict[str, str], ahead: int) -> None:
        if ahead > 1 and self.chance(0.2):
            self.tag("loop in the prologue")
            with self.loop(Const(ahead)) as counter:
                for base in bases:
                    self.copy(kinds[base], base, self.at(Name(counter), base, 0))
            return
        for step in range(ahead):
            for base in bases:
                self.copy(kinds[base], base, Const(step % self.slots_of[base]))
                self.noise(0.3)

    def copy_ahead(self, kind: str, base: str, counter: str, ahead: int, upper: Index) -> None:
        slot = self.at(Name(counter), base, ahead)
        choice = self.rng.random()
        if choice < 0.6:
            self.copy(kind, base, slot)
        elif choice < 0.75:
            self.tag("counter around copy")
            with self.b.branch(Compare("<", binary("+", Name(counter), ahead), upper)):
                self.copy(kind, base, slot)
        elif choice < 0.85:
            self.under_flag(kind, base, slot)
        elif choice < 0.92:
            self.under_any(kind, base, slot)
        else:
            self.by_one_wave(kind, base, slot)

    def epilogue(self, bases: list[str], ahead: int, size: str, trips: int | None) -> None:
        self.tag("epilogue")
        for step in range(ahead):
            for base in bases:
                slots = self.slots_of[base]
                if trips is not None:
                    slot: Index = Const((trips + step) % slots)
                elif size and slots > 1 and self.chance(0.6):
                    self.tag("slot by size")
                    slot = binary("mod", binary("+", Name(size), step), slots)
                else:
                    slot = Const(step % slots)
                self.read(base, slot)

    # --- mixtures ---

    def part(self) -> None:
        kind = self.rng.random()
        base = self.rng.choice(list(self.slots_of))
        if kind < 0.25 and len(self.counters) < 2:
            self.tag("loop", *(("nest",) if self.counters else ()))
            upper, _, _ = self.bounds()
            with self.loop(upper):
                for _ in range(self.rng.choice((1, 2, 3))):
                    self.part()
        elif kind < 0.35:
            copy = self.rng.choice((self.under_flag, self.under_any, self.by_one_wave, self.in_two_arms))
            copy(self.rng.choice(self.kinds), base, self.slot(base))
        elif kind < 0.6:
            self.copy(self.rng.choice(self.kinds), base, self.slot(base))
        elif kind < 0.9:
            self.read(base, self.slot(base))
        else:
            self.write(base, self.slot(base))
        self.noise()

    def extra(self) -> None:
        """Something beside copies and reads: another access, a copy out, loads, an inner loop."""
        base = self.rng.choice(list(self.slots_of))
        choice = self.rng.random()
        if choice < 0.25 and "lds_to_global" in self.kinds:
            self.copy("lds_to_global", base, self.slot(base))
        elif choice < 0.4:
            self.write(base, self.slot(base))
        elif choice < 0.55 and len(self.counters) < 2:
            self.tag("nest")
            with self.loop(Const(self.rng.choice((0, 1, 2)))) as counter:
                if self.chance(0.5):
                    self.copy(self.rng.choice(self.kinds), base, self.at(Name(counter), base, self.rng.choice((0, 1))))
                else:
                    self.read(base, self.slot(base))
        elif choice < 0.75:
            self.read(base, self.slot(base))
        else:
            self.noise(1.0)

    # --- loops and conditions ---

    def bounds(self) -> tuple[Index, int | None, str]:
        """How often a loop runs, as an index; the number, if it is one; the size by which it is given."""
        self.least = 0
        if not self.sizes and self.chance(0.6):
            self.sizes += 1
            self.tag("symbolic trips")
            least = self.rng.choice((0, 0, 1, 2))
            where = (Compare(">=", Name("N"), Const(least + 1)),) if least else ()
            size = self.b.size("N", 4, *where)
            if least == 0 and self.chance(0.4):
                self.tag("zero trips possible")
                return binary("-", size, 1), None, ""
            self.least = least + 1 if self.chance(0.7) else 0  # whoever made the graph may know it, or not
            return size, None, "N"
        trips = self.rng.choice((0, 1, 2, 3, 4)) if not self.counters else self.rng.choice((0, 1, 2))
        self.tag("constant trips", *(("zero trips possible",) if trips == 0 else ()))
        return Const(trips), trips, ""

    def loop(self, upper: Index) -> _Loop:
        return _Loop(self, upper)

    def under_flag(self, kind: str, base: str, slot: Index) -> None:
        self.tag("flag around copy")
        with self.b.branch(self.flag()) as arms:
            self.copy(kind, base, slot)
            if self.chance(0.3):
                arms.otherwise()
                self.noise(1.0)

    def flag(self) -> Cond:
        if "%f" not in self.b.free:
            self.b.flag("%f")
        return Not(Flag("%f")) if self.chance(0.4) else Flag("%f")

    def under_any(self, kind: str, base: str, slot: Index) -> None:
        if self.free or len(self.counters) > 1:
            self.under_flag(kind, base, slot)
            return
        self.free += 1
        self.tag("any around copy")
        with self.b.branch(None):
            self.copy(kind, base, slot)

    def in_two_arms(self, kind: str, base: str, slot: Index) -> None:
        self.tag("two arms copy")
        with self.b.branch(self.flag()) as arms:
            self.copy(kind, base, slot)
            arms.otherwise()
            self.copy(self.rng.choice(self.kinds), base, slot)
            if self.chance(0.4):
                self.copy(kind, base, self.slot(base))

    def by_one_wave(self, kind: str, base: str, slot: Index) -> None:
        """Only one wave copies, for all others."""
        if self.private:
            self.copy(kind, base, slot)
            return
        self.tag("one wave copies")
        first = len(self.b.points) + 1
        with self.b.branch(Compare("==", WAVE, Const(self.rng.randrange(self.waves)))):
            self.emit(kind, g.Ref(base, slot), self.waves * ROW)
            self.close_group()
        for number in range(first, len(self.b.points) - 1):
            self.b.points[number].under = "per_wave"

    # --- places ---

    def at(self, index: Index, base: str, ahead: int) -> Index:
        slots = self.slots_of[base]
        if slots == 1:
            return ZERO
        self.tag("slot k + c" if ahead % slots else "slot k mod n")
        return binary("mod", binary("+", index, ahead) if ahead else index, slots)

    def slot(self, base: str) -> Index:
        slots = self.slots_of[base]
        if slots == 1:
            return ZERO
        if not self.counters or self.chance(0.25):
            self.tag("slot constant")
            return Const(self.rng.randrange(slots))
        return self.at(Name(self.rng.choice(self.counters)), base, self.rng.randrange(slots + 1))

    def own_row(self) -> Index:
        if self.private or self.chance(0.6):
            return binary("*", WAVE, ROW)
        return binary("*", binary("mod", binary("+", WAVE, self.rng.randrange(1, self.waves)), self.waves), ROW)

    # --- accesses ---

    def copy(self, kind: str, base: str, slot: Index) -> None:
        if kind == "lds_to_global" and not self.private and self.chance(0.2):
            self.emit(kind, g.Ref(base, slot), self.waves * ROW)
        else:
            self.emit(kind, g.Ref(base, slot, self.own_row()), ROW)
        self.close_group()
        self.stand()

    def emit(self, kind: str, place: g.Ref, width: int) -> None:
        self.left -= 1
        self.copies += 1
        effect = "read" if kind == "lds_to_global" else "write"
        proxy = self.target.operations[kind].proxy or "generic"
        self.tag({"lds_to_global": "copy out", "gather_to_lds": "copy in"}.get(kind, "tensor copy"))
        if proxy != "generic":
            self.tag("proxies")
        access = g.Access(effect, g.Footprint(place, (), width), True, proxy)
        self.b.add(access, label=kind, role="copy", issues=self.issues(kind))

    def close_group(self) -> None:
        if all(each.unit != "groups" for each in self.target.counters.values()):
            return
        choice = self.rng.random()
        if choice < 0.12:
            self.tag("several copies in a group" if choice < 0.09 else "in no group")
            return
        times = 2 if choice > 0.94 else 1
        if times == 2:
            self.tag("empty group")
        for _ in range(times):
            self.commit()

    def commit(self) -> None:
        grouped = (name for name, each in self.target.counters.items() if each.unit == "groups")
        self.b.sync(ops.CommitGroup(), issues=tuple(g.Issue(each, 1, 1) for each in grouped), label="commit_group")

    def issues(self, kind: str) -> tuple[g.Issue, ...]:
        counter = self.target.counter_of(kind)
        if not counter:
            return ()
        in_order = self.target.operations[kind].in_order
        if self.target.counters[counter].unit == "groups":
            return (g.Issue(counter, 0, 0, in_order),)
        least = self.rng.choice((1, 2, 3)) if self.many else 1
        if self.heavy and self.chance(0.4):
            self.tag("near saturation")
            least = self.rng.choice((20, 31, 63))
        most = least + (self.rng.choice((0, 1, 2)) if self.ranges else 0)
        if least > 1:
            self.tag("several instructions")
        if most > least:
            self.tag("instructions are a range")
        return (g.Issue(counter, least, most, in_order),)

    def noise(self, of: float | None = None) -> None:
        """Loads and stores that count where copies do, or elsewhere; often many at once if the program is heavy."""
        if not self.chance(self.noisy if of is None else of):
            return
        kind = self.rng.choice(("global_read", "global_read", "global_write"))
        counter = self.target.counter_of(kind)
        if not counter:
            self.many_groups()
            return
        self.tag("global reads" if kind == "global_read" else "global writes")
        least = self.rng.choice((31, 40, 63)) if self.heavy else self.rng.choice((1, 1, 2))
        if self.heavy:
            self.tag("near saturation")
        if self.ranges and self.chance(0.3):
            self.tag("perhaps no instruction")
            least = 0
        in_order = self.target.operations[kind].in_order and not (self.disorder and self.chance(0.5))
        if not in_order and self.target.operations[kind].in_order:
            self.tag("out of order")
        issue = g.Issue(counter, least, least + (1 if self.ranges or not least else 0), in_order)
        self.b.compute(kind, role=kind, issues=(issue,))

    def many_groups(self) -> None:
        """More groups than can be counted, or nearly so; in them is nothing."""
        if self.heavy and self.chance(0.3) and len(self.counters) < 2:
            self.tag("near saturation", "empty group")
            with self.loop(Const(self.rng.choice((30, 61, 63, 70)))):
                self.commit()

    def read(self, base: str, slot: Index) -> None:
        self.left -= 1
        choice = self.rng.random()
        width = ROW
        if self.private or choice < 0.1:
            offset: Index = binary("*", WAVE, ROW)
        elif choice < 0.4:
            offset, width = ZERO, self.waves * ROW
        elif choice < 0.5:
            offset = Const(self.rng.randrange(self.waves) * ROW)
        else:
            offset = binary("*", binary("mod", binary("+", WAVE, 1), self.waves), ROW)
        self.ordinary("read", g.Ref(base, slot, offset), width)

    def write(self, base: str, slot: Index) -> None:
        self.left -= 1
        self.tag("ordinary write")
        self.ordinary("write", g.Ref(base, slot, self.own_row()), ROW)

    def ordinary(self, effect: str, place: g.Ref, width: int) -> None:
        kind = f"local_{effect}"
        counter = self.target.counter_of(kind)
        issues = (g.Issue(counter, 1, 1, self.target.operations[kind].in_order),) if counter else ()
        self.stand()
        self.b.add(g.Access(effect, g.Footprint(place, (), width)), label=kind, role=kind, issues=issues)

    def stand(self) -> None:
        """Some synchronization that stands in the program."""
        if not (self.standing and self.chance(0.2)):
            return
        if self.chance(0.5):
            self.tag("standing barrier")
            self.b.sync(self.rng.choice((ops.WorkgroupBarrier(), ops.SharedMemoryBarrier())), label="barrier")
        else:
            self.tag("standing wait")
            name = self.target.counter_of(self.rng.choice(self.kinds))
            self.b.sync(ops.WaitCount(((name, self.rng.choice((0, 1, 2))),)), label=STANDING)


class _Loop:
    """`with` a loop around what is added: its counter's name."""

    def __init__(self, maker: _Maker, upper: Index) -> None:
        self.maker, self.counter = maker, maker.fresh("k")
        self.manager = maker.b.loop(self.counter, 0, upper)

    def __enter__(self) -> str:
        self.manager.__enter__()
        head = len(self.maker.b.points) - 1
        known = self.maker.b.counted[head]
        if known.most is None:
            self.maker.b.counted[head] = replace(known, least=self.maker.least)
        self.maker.counters.append(self.counter)
        self.maker.depth = max(self.maker.depth, len(self.maker.counters))
        return self.counter

    def __exit__(self, *error: object) -> None:
        self.maker.counters.pop()
        self.manager.__exit__(*error)  # type: ignore[arg-type]


# --- kernels ------------------------------------------------------------------------------------------------------


def random_async_kernel(rng: random.Random) -> tuple[Kernel, Target, Features]:
    """A kernel with copies ahead, as `random_async` makes them; its tiles say how many instructions there are."""
    maker = _KernelMaker(rng)
    return maker.make(), maker.target, maker.features()


class _KernelMaker:
    """A prologue, a loop of statements in any order, perhaps with a loop inside, and an epilogue."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.target = load_target(rng.choice(TARGETS))
        self.waves = rng.choice((2, 2, 3, 4))
        self.slots = rng.choice((1, 2, 2, 3, 3, 4))
        self.elements = rng.choice((64, 64, 256, 512))
        self.b = Builder(spans=False)
        self.tags: set[str] = {"kernel", "loop"}
        self.copies, self.depth = 0, 1
        self.row_tile = Tile((1, self.elements), f32)
        able = [each for each in COPIES if self.target.has(each) and self.target.counter_of(each)]
        self.kinds = sorted(rng.sample(able, rng.randint(1, len(able))))

    def chance(self, of: float) -> bool:
        return self.rng.random() < of

    def features(self) -> Features:
        count = len({self.target.counter_of(each) for each in self.kinds})
        self.tags.add("1 queue" if count == 1 else f"{count} queues")
        return Features(self.target.name, self.waves, self.depth, self.slots, self.copies, frozenset(self.tags))

    def make(self) -> Kernel:
        shape = Global((self.waves, self.elements), f32)
        self.source, self.dest, flag = Value("%X", shape), Value("%Y", shape), Value("%flag", FLAG)
        self.buffer = self.b.fresh("lds", Lds((self.waves, self.elements), f32, self.slots))
        self.b.emit(ops.Alloc(self.buffer))
        self.tile = self.b.fresh("tile", self.row_tile)
        self.b.emit(ops.Fill(self.tile, 1.0))
        ahead = self.rng.choice((0, 1, 1, 2, 2, 3))
        self.tags |= {f"ahead {ahead}"} | ({"more stages than slots"} if ahead >= self.slots > 1 else set())
        kind = self.rng.choice([each for each in self.kinds if each != "lds_to_global"] or self.kinds)
        for step in range(ahead):
            self.copy(kind, Const(step % self.slots))
        trips = self.rng.choice((None, None, 0, 2, 3))
        self.tags.add("symbolic trips" if trips is None else "constant trips")
        self.main(kind, ahead, Name("N") if trips is None else Const(trips))
        if ahead and self.chance(0.7):
            self.tags.add("epilogue")
            for step in range(ahead):
                slot: Index = Const(step % self.slots)
                if trips is None and self.slots > 1 and self.chance(0.7):
                    self.tags.add("slot by size")
                    slot = binary("mod", binary("+", Name("N"), step), self.slots)
                self.read(slot)
        sizes = (Size("N", 4),) if trips is None else ()
        where = (Compare(">=", Name("N"), Const(2)),) if sizes and self.chance(0.3) else ()
        values = (self.source, self.dest, flag)
        return self.b.kernel("program", values, self.waves, sizes=sizes, where=where, target=self.target.name)

    def main(self, kind: str, ahead: int, upper: Index) -> None:
        """The loop. A slot is `k mod n`, or carried, starting again by a `select`."""
        carried: tuple[Carried, ...] = ()
        counter = self.b.counter("k")
        here: Index = Name(counter.name)
        if self.slots > 1 and self.chance(0.3):
            self.tags.add("slot by select")
            carried = (Carried(self.b.fresh("s", INDEX), ZERO),)
            here = Name(carried[0].value.name)
        parts: list[Callable[[], None]] = [
            lambda: self.copy_ahead(kind, self.at(here, ahead), counter.name, ahead, upper),
            lambda: self.read(self.at(here, 0)),
        ]
        parts += [self.extra(here, counter.name) for _ in range(self.rng.choice((0, 1, 2)))]
        if self.chance(0.5):
            self.rng.shuffle(parts)
        self.b.open()
        for each in parts:
            each()
        after = [self.next_slot(each.value.name) for each in carried]
        self.b.loop(ZERO, upper, self.b.close(after), counter, carried)

    def next_slot(self, name: str) -> Index:
        after = binary("+", Name(name), 1)
        return Select(Compare(">=", after, Const(self.slots)), ZERO, after)

    def at(self, index: Index, ahead: int) -> Index:
        if self.slots == 1:
            return ZERO
        self.tags.add("slot k + c" if ahead % self.slots else "slot k mod n")
        return binary("mod", binary("+", index, ahead) if ahead else index, self.slots)

    def copy_ahead(self, kind: str, slot: Index, counter: str, ahead: int, upper: Index) -> None:
        choice = self.rng.random()
        if choice < 0.6:
            self.copy(kind, slot)
            return
        self.tags.add("counter around copy" if choice < 0.8 else "flag around copy")
        in_range = Compare("<", binary("+", Name(counter), ahead), upper)
        self.b.open()
        self.copy(kind, slot)
        self.b.branch(in_range if choice < 0.8 else Flag("%flag"), self.b.close(), ops.Block())

    def extra(self, here: Index, counter: str) -> Callable[[], None]:
        choice = self.rng.random()
        slot = self.at(here, self.rng.randrange(self.slots))
        far = Place(self.source, ZERO, (WAVE, ZERO))
        if choice < 0.25 and "lds_to_global" in self.kinds:
            return lambda: self.copy("lds_to_global", slot)
        if choice < 0.5:
            self.tags.add("global reads")
            return lambda: self.b.emit(ops.GlobalRead(self.b.fresh("load", self.row_tile), far))
        if choice < 0.65:
            self.tags.add("global writes")
            return lambda: self.b.emit(ops.GlobalWrite(self.tile, Place(self.dest, ZERO, (WAVE, ZERO))))
        if choice < 0.8:
            self.tags.add("ordinary write")
            return lambda: self.b.emit(ops.LocalWrite(self.tile, Place(self.buffer, slot, (WAVE, ZERO))))
        if choice < 0.9:
            return lambda: self.inner(far)
        return lambda: self.read(slot)

    def inner(self, far: Place) -> None:
        """A loop inside, that reads or loads."""
        self.tags.add("nest")
        self.depth = 2
        counter = self.b.counter("j")
        self.b.open()
        if self.chance(0.5):
            self.read(self.at(Name(counter.name), 0))
        else:
            self.b.emit(ops.GlobalRead(self.b.fresh("load", self.row_tile), far))
        self.b.loop(ZERO, Const(self.rng.choice((0, 1, 2))), self.b.close(), counter)

    def row(self) -> Index:
        return WAVE if self.chance(0.4) else binary("mod", binary("+", WAVE, 1), self.waves)

    def read(self, slot: Index) -> None:
        if self.chance(0.3):
            tile = Tile((self.waves, self.elements), f32)
            self.b.emit(ops.LocalRead(self.b.fresh("read", tile), Place(self.buffer, slot, (ZERO, ZERO))))
        else:
            place = Place(self.buffer, slot, (self.row(), ZERO))
            self.b.emit(ops.LocalRead(self.b.fresh("read", self.row_tile), place))

    def copy(self, kind: str, slot: Index) -> None:
        self.copies += 1
        place = Place(self.buffer, slot, (self.row(), ZERO))
        least, most = self.target.instructions(kind, self.row_tile.bytes)
        self.tags |= {"several instructions"} if least > 1 else set()
        self.tags |= {"instructions are a range"} if most > least else set()
        if kind == "lds_to_global":
            self.tags.add("copy out")
            far = Place(self.dest, ZERO, (WAVE, ZERO))
            self.b.emit(ops.LdsToGlobal(None, place, far, self.row_tile))
        else:
            self.tags.add("copy in" if kind == "gather_to_lds" else "tensor copy")
            made = ops.GatherToLds if kind == "gather_to_lds" else ops.TensorLoadToLds
            self.b.emit(made(None, Place(self.source, ZERO, (WAVE, ZERO)), place, self.row_tile))
        if any(each.unit == "groups" for each in self.target.counters.values()):
            if self.chance(0.85):
                self.b.emit(ops.CommitGroup())
            else:
                self.tags.add("several copies in a group")
