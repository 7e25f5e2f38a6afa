"""Random loops that are pipelined in software, for ping-pong scheduling: prologue, a body in any legal order, epilogue.

    case = draw_body(7)         a kernel that can be made right, and into how many clusters it is to be cut
    case = draw_illegal(7)      the same with one thing wrong, and the reason for which it must be declined
    case.sizes(2)               sizes with which its loop runs twice

A *stream* is a buffer and what fills it: tile t + ahead is written or copied while tile t is read. Everything in the
body is a node with what it uses; the order of the text is drawn among the orders that keep its meaning.

    fetch tiles t0 .. t0 + ahead - 1                          prologue
    iterate %k                                                tile t is %k, or %k // 2 where the step is 2
      read tile t, fetch tile t + ahead, products             in any order; with one slot reads stand before the write
    the same for the last tiles, without what is not there    epilogue

Waves read what they wrote, what a neighbour wrote, or what all wrote. Each writes results to rows of its own, so that
results are the same in every run. Most have no synchronization at all, a fifth has what `tidegate sync` puts in.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.session import Session
from tidegate.synchronize import propose
from tidegate.targets import Target, load_target

TARGETS = ("gfx942", "gfx942", "gfx950", "gfx950", "gfx1201", "gfx90a")
NO_COPIES = ("sm_80",)  # groups of copies are another subject
WAVES = (2, 2, 4, 4, 4, 6, 8)
TRIPS = (0, 1, 2, 5)
MOST_LDS = 40_000
ACC = "tile<16x16xf32>"
# How the products of one iteration hang together.
SHAPES = ("chain", "independent", "grid", "attention", "mixture", "mixture")

# What a program may have, in the order of tables.
TAGS = (
    *(f"products: {each}" for each in dict.fromkeys(SHAPES)),
    *("1 buffer", "2 buffers", "3 buffers", "1 slot", "2 slots", "3 slots", "different slots"),
    *("written from registers", "copied", "written and copied", "1 ahead", "2 ahead", "3 ahead"),
    *("fetched across loops", "written and read in one iteration", "slot by counter", "slot carried", "slot by select"),
    *("own rows", "shared by all", "neighbour's rows", "other half's rows", "blocks in turn"),
    *("K can be split", "transposed", "cast", "element-wise before", "product from product", "exchanged through LDS"),
    *("running maximum", "other arithmetic", "stored in each iteration", "stored and read back", "mask", "bounds"),
    *("nothing carried", "lower bound", "step 2", "two workgroups", "flat arrays", "any order", "has barriers"),
)


@dataclass(frozen=True, slots=True)
class Features:
    """What a program has."""

    target: str
    waves: int
    clusters: int
    products: int  # of one iteration
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, and into how many clusters its loop is to be cut. With `least` tiles its loop does not run."""

    name: str
    kernel: Kernel
    target: Target
    clusters: int
    features: Features
    text: str = field(repr=False)
    size: str
    unit: int
    least: int

    @property
    def strategy(self) -> str:
        return f"clusters={self.clusters}"

    def sizes(self, trips: int) -> dict[str, int]:
        return {self.size: (self.least + trips) * self.unit}


@dataclass(frozen=True, slots=True)
class IllegalCase:
    """A kernel that must be declined, and why."""

    name: str
    kernel: Kernel
    target: Target
    strategy: str
    reason: str
    text: str = field(repr=False)


def draw_body(seed: int) -> Case:
    """The loop with this seed; `features.tags` says what it has."""
    body, features = _draw(seed)
    text = body.text()
    kernel, target = parse(text).kernels[0], load_target(body.target)
    if "has barriers" in features.tags:
        kernel = synchronized(kernel, target)
    size, unit = ("C", body.width) if body.flat else ("T", 1)
    least = body.first + body.lookahead
    return Case(f"body {seed}", kernel, target, features.clusters, features, text, size, unit, least)


def draw_features(seed: int) -> Features:
    """What the loop with this seed has."""
    return _draw(seed)[1]


def _draw(seed: int) -> tuple[_Body, Features]:
    rng = random.Random(f"body {seed}")
    body = _Body(rng)
    if rng.random() < 0.2:
        body.tag("has barriers")
    products = body.count("mma")
    most = products * max(1, body.k // 16)  # that its products may be enough for
    clusters = rng.choice([each for each in (1, 2, 2, 2, 2, 2, 3, 3, 4) if each <= most or each == 2])
    return body, Features(body.target, body.waves, clusters, products, frozenset(body.tags))


def draw_illegal(seed: int) -> IllegalCase:
    """A loop with one thing wrong; the ways to be wrong take turns."""
    rng = random.Random(f"illegal {seed}")
    way = WAYS[seed % len(WAYS)]
    wrong = way(rng)
    text = wrong.body.text()
    kernel, target = parse(text).kernels[0], load_target(wrong.body.target)
    name = f"illegal {seed}, {way.__name__.strip('_').replace('_', ' ')}"
    return IllegalCase(name, kernel, target, wrong.strategy, wrong.reason, text)


def draw_plain(seed: int) -> tuple[Kernel, Target]:
    """A loop as those with one thing wrong are made of: with nothing wrong it is scheduled in two clusters."""
    body = _good(random.Random(f"plain {seed}"))
    return parse(body.text()).kernels[0], load_target(body.target)


def synchronized(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with the synchronization that it needs; nothing is judged."""
    found = propose(Session(kernel.name, target, kernel, None)).kernel
    assert found is not None
    return found


def show_features(programs: Iterable[Features]) -> str:
    """A table: how many programs have what."""
    found = list(programs)
    rows: list[tuple[str, Counter[str]]] = [
        ("target", Counter(each.target for each in found)),
        ("waves", Counter(str(each.waves) for each in found)),
        ("clusters asked for", Counter(str(each.clusters) for each in found)),
        ("products in one iteration", Counter(str(each.products) for each in found)),
    ]
    lines = [f"| {name}: {value} | {counts[value]:,} |" for name, counts in rows for value in sorted(counts)]
    tags = Counter(tag for each in found for tag in each.tags)
    lines += (f"| {tag} | {tags[tag]:,} |" for tag in TAGS)
    return "\n".join([f"| of {len(found):,} programs | have it |", "|---|---:|", *lines])


# --- the parts of a body ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stream:
    """A buffer and what fills it. `along` is the axis along which products sum up."""

    name: str
    along: int
    shape: tuple[int, int]
    part: tuple[int, int]  # of one wave
    dtype: str
    slots: int
    ahead: int
    copies: bool
    staged: bool  # what is written was read from global memory one iteration before
    slot_by: str

    @property
    def lookahead(self) -> int:
        return self.ahead + self.staged

    @property
    def place(self) -> str:
        return f"wave * {self.part[0]}, 0" if self.part[1] == self.shape[1] else f"0, wave * {self.part[1]}"

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.slots * (4 if self.dtype == "f32" else 2)

    def tile(self, shape: tuple[int, int] | None = None) -> str:
        rows, columns = shape or self.part
        return f"tile<{rows}x{columns}x{self.dtype}>"


@dataclass(frozen=True, slots=True)
class _Here:
    """Where a body is written: in the loop (`step` is None), or as a step of the epilogue."""

    suffix: str
    step: int | None
    carried: dict[str, str]


@dataclass(slots=True)
class _Node:
    """One operation of the body: what it defines and uses, and its text at a place."""

    kind: str
    result: str
    uses: tuple[str, ...]
    text: Callable[[_Here], str]
    ahead: int = 0  # it is about the tile so far ahead
    after: list[_Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Carried:
    """What goes round the loop: its type, what it starts with, and the name of its next value."""

    name: str
    type: str
    init: str


class _Body:
    """Draws one kernel. What is given is fixed; `plain` leaves out what may be declined."""

    def __init__(
        self,
        rng: random.Random,
        *,
        waves: int = 0,
        target: str = "",
        shape: str = "",
        products: int = 0,
        copies: bool | None = None,
        plain: bool = False,
        pipelined: bool = True,
        deep: int = 0,
        least: int = 16,  # that a product sums up over
    ) -> None:
        self.rng, self.plain, self.pipelined = rng, plain, pipelined
        self.tags: set[str] = set()
        self.nodes: list[_Node] = []
        self.before: list[str] = []  # operations before the loop that no tile takes part in
        self.invariant: set[str] = set()
        self.carried: list[_Carried] = []
        self.next: dict[str, str] = {}
        self.outputs: list[tuple[str, str]] = []  # names and types of values that are stored at the end
        self.stored: list[str] = []  # arrays that are stored to in each iteration
        self.extra: list[str] = []  # allocations beside those of streams
        self.around: tuple[list[str], list[str]] = ([], [])  # before and after all that is not an allocation
        self.about: tuple[list[str], list[str]] = ([], [])  # before and after the loop
        self.within: list[str] = []  # put somewhere into the loop as it is
        self.loop = True
        self.number = self.k = 0
        self.alone = False  # nothing but slots goes round the loop
        self.target = target or rng.choice(TARGETS + NO_COPIES * self.chance(0.3))
        self.waves = waves or rng.choice(WAVES)
        self.dtype = rng.choice(("f16", "f16", "f16", "bf16"))
        self.flat = self.chance(0.3)
        self.least = least
        self.width = rng.choice([each for each in (16, 32, 32, 64) if each >= least])
        self.copies = rng.choice((None, True, False)) if copies is None and not plain else copies
        self.first = 0 if plain else rng.choice((0, 0, 0, 0, 1, 3))
        self.step = 1 if plain else rng.choice((1, 1, 1, 1, 1, 2))
        self.odd = int(self.step == 2 and self.chance(0.4))
        self.two = self.chance(0.1)
        self.streams = self.draw_streams()
        self.lookahead = max(each.lookahead for each in self.streams)
        self.read: set[str] = set()
        self.draw_products(shape or rng.choice(SHAPES), products, deep)
        if not plain:
            self.draw_more()
        self.fetch()
        self.order()
        self.tag_all()

    def chance(self, of: float) -> bool:
        return self.rng.random() < of

    def tag(self, *words: str) -> None:
        assert all(word in TAGS for word in words), words
        self.tags.update(words)

    def fresh(self, hint: str) -> str:
        self.number += 1
        return f"{hint}{self.number}"

    def count(self, kind: str) -> int:
        return sum(node.kind == kind for node in self.nodes)

    # --- streams ---

    def draw_streams(self) -> list[_Stream]:
        count = 2 if self.plain else self.rng.choice((1, 2, 2, 2, 3))
        while True:
            found = [self.draw_stream(name) for name in "abc"[:count]]
            if sum(each.bytes for each in found) <= MOST_LDS:
                return found

    def draw_stream(self, name: str) -> _Stream:
        rng, waves = self.rng, self.waves
        width = self.width if self.flat else rng.choice((self.width, self.least, 32))
        along = 1 if self.plain else rng.choice((1, 1, 0))
        part = rng.choice([each for each in (16, 16, 16, 8, 4, 2) if each * waves >= 16])
        shape, mine = (part * waves, width), (part, width)
        if along == 0:
            if width % waves == 0 and self.chance(0.5):
                columns = rng.choice((16, 32))
                shape, mine = (width, columns), (width // waves, columns)
            else:
                part = rng.choice([each for each in (16, 8) if each * waves >= 16])
                shape, mine = (width, part * waves), (width, part)
        able = load_target(self.target).has("gather_to_lds") and self.target not in NO_COPIES
        copies = able and (self.chance(0.5) if self.copies is None else self.copies)
        slots, ahead = rng.choice(((1, 1), (1, 1), (2, 1), (2, 1), (3, 1), (3, 2)))
        if copies:
            slots, ahead = rng.choice(((1, 1), (2, 1), (2, 1), (2, 1), (3, 1), (3, 2), (3, 2), (2, 2)))
        staged = not copies and self.chance(0.2)
        if self.plain:
            slots, ahead, staged = (*rng.choice(((1, 1), (2, 1), (3, 1))[copies:]), False)
        elif staged and self.chance(0.3):
            ahead = 0
        if not self.pipelined:
            ahead, staged = 0, False
        dtype = "f32" if not self.plain and self.chance(0.12) else self.dtype
        slot_by = "counter" if self.plain else rng.choice(("counter", "counter", "counter", "carried", "select"))
        return _Stream(name, along, shape, mine, dtype, slots, ahead, copies, staged, slot_by)

    def stream_tags(self) -> None:
        streams = self.streams
        self.tag(f"{len(streams)} buffer{'s' if len(streams) > 1 else ''}")
        slots = {each.slots for each in streams}
        self.tag(*(f"{each} slot{'s' if each > 1 else ''}" for each in slots))
        if self.pipelined:
            self.tag(f"{self.lookahead} ahead")
        if len(slots) > 1:
            self.tag("different slots")
        ways = {"copied" if each.copies else "written from registers" for each in streams}
        self.tag("written and copied" if len(ways) > 1 else ways.pop())
        if any(each.staged for each in streams):
            self.tag("fetched across loops")
        if any(each.staged and each.ahead == 0 for each in streams):
            self.tag("written and read in one iteration")
        self.tag(*(f"slot {_SLOT_BY[each.slot_by]}" for each in streams if each.slots > 1))

    # --- names and places ---

    def name(self, value: str, here: _Here) -> str:
        if value in self.invariant:
            return f"%{value}"
        return here.carried.get(value) or f"%{value}{here.suffix}"

    def tile_index(self, offset: int, here: _Here) -> str:
        """The number of the tile so far ahead of the one at hand."""
        if here.step is None:
            return _plus("%k" if self.step == 1 else "%k // 2", offset)
        return _plus(self.tiles, here.step + offset - self.lookahead)

    @property
    def tiles(self) -> str:
        return f"C // {self.width}" if self.flat else "T"

    def slot(self, stream: _Stream, offset: int, here: _Here) -> str:
        if stream.slots == 1:
            return ""
        if stream.slot_by == "counter":
            return f"[({self.tile_index(offset, here)}) mod {stream.slots}]"
        carried = here.carried[f"slot_{stream.name}"]
        offset += here.step or 0
        return f"[({_plus(carried, offset)}) mod {stream.slots}]" if offset else f"[{carried}]"

    def first_slot(self, stream: _Stream, tile: int) -> str:
        if stream.slots == 1:
            return ""
        return f"[{(tile + (self.first if stream.slot_by == 'counter' else 0)) % stream.slots}]"

    def source(self, stream: _Stream, tile: str) -> str:
        """Where a wave's part of a tile lies in global memory, and bounds now and then."""
        array = f"%{stream.name.upper()}"
        bounds = " bounds({})" if stream.name in self.bounded else ""
        rows, columns = stream.shape
        if self.flat and stream.along == 1:
            first, second = stream.place.split(", ")
            return f"{array}[{first}, ({tile}) * {columns}]" + bounds.format(f"{rows - 3}, C")
        if self.flat:
            first, second = stream.place.split(", ")
            first = "" if first == "0" else f" + {first}"
            return f"{array}[({tile}) * {rows}{first}, {second}]" + bounds.format(f"C, {columns - 3}")
        return f"{array}[{tile}, {stream.place}]" + bounds.format(f"T, {rows - 3}, {columns}")

    def array(self, stream: _Stream) -> str:
        rows, columns = stream.shape
        shape = f"Tx{rows}x{columns}"
        if self.flat:
            shape = f"{rows}xC" if stream.along == 1 else f"Cx{columns}"
        return f"%{stream.name.upper()}: global<{shape}x{stream.dtype}>"

    # --- nodes ---

    def node(self, kind: str, hint: str, uses: Sequence[str], text: Callable[[_Here], str], *, ahead: int = 0) -> _Node:
        made = _Node(kind, self.fresh(hint) if hint else "", tuple(uses), text, ahead)
        self.nodes.append(made)
        return made

    def compute(self, word: str, uses: Sequence[str], type_: str, hint: str = "v") -> str:
        """A value computed from others."""

        def text(here: _Here) -> str:
            head, _, rest = word.partition(" ")
            args = ", ".join(self.name(each, here) for each in uses)
            return f"{head} {args}{' ' + rest if rest else ''} : {type_}"

        if word.startswith("reduce"):
            _, fn, axis = word.split(" ")
            return self.node(
                "alu", hint, uses, lambda here: f"reduce {fn} {self.name(uses[0], here)} axis {axis} : {type_}"
            ).result
        return self.node("mma" if word == "mma" else "alu", hint, uses, text).result

    def constant(self, value: float, type_: str) -> str:
        """A tile with one number, in the body or before it."""
        if self.chance(0.5):
            return self.node("alu", "f", (), lambda here: f"fill {value} : {type_}").result
        name = self.fresh("f")
        self.before.append(f"%{name} = fill {value} : {type_}")
        self.invariant.add(name)
        return name

    def carry(self, hint: str, type_: str, start: float = 0.0, *, out: bool = True) -> str:
        """A value that goes round the loop; its next value is itself until somebody says otherwise."""
        name = self.fresh(hint)
        self.before.append(f"%{name}_0 = fill {start} : {type_}")
        self.carried.append(_Carried(name, type_, f"%{name}_0"))
        self.next[name] = name
        if out:
            self.outputs.append((name, type_))
        return name

    # --- operands ---

    def operand(self, side: str, k: int, offset: int | None = None, stream: _Stream | None = None) -> str:
        """A tile of 16 by k (side a) or k by 16 (side b) from a stream."""
        rng = self.rng
        fitting = [each for each in self.streams if each.shape[each.along] >= k]
        unread = [each for each in fitting if each.name not in self.read]
        stream = stream or rng.choice(unread or fitting)
        self.read.add(stream.name)
        if offset is None:
            offset = rng.randrange(0, stream.shape[stream.along] - k + 1, 16)
        block = self.block(stream.shape[1 - stream.along] // 16)
        place = f"{block}, {offset}" if stream.along == 1 else f"{offset}, {block}"
        shape = (16, k) if stream.along == 1 else (k, 16)
        mask = ""
        if not self.plain and self.chance(0.05):
            mask = self.mask(shape)
        elif not self.plain and self.chance(0.05):
            self.tag("bounds")
            mask = f" bounds({stream.shape[0] - 1}, {stream.shape[1] - 1})"

        def text(here: _Here, stream: _Stream = stream) -> str:
            return f"local_read %{stream.name}{self.slot(stream, 0, here)}[{place}]{mask} : {stream.tile(shape)}"

        value = self.node(f"read {stream.name}", "r", (), text).result
        return self.turned(value, stream, shape, side)

    def turned(self, value: str, stream: _Stream, shape: tuple[int, int], side: str) -> str:
        """What was read, as an operand."""
        if stream.dtype == "f32":
            self.tag("cast")
            value = self.compute("cast", (value,), f"tile<{shape[0]}x{shape[1]}x{self.dtype}>")
        type_ = f"tile<{shape[0]}x{shape[1]}x{self.dtype}>"
        if not self.plain and self.chance(0.12):
            self.tag("element-wise before")
            value = self.compute(self.rng.choice(("neg", "relu", "abs")), (value,), type_)
        if (side == "b") == (stream.along == 1):
            self.tag("transposed")
            value = self.compute("transpose", (value,), f"tile<{shape[1]}x{shape[0]}x{self.dtype}>", "t")
        return value

    def block(self, blocks: int) -> str:
        """Which 16 rows a wave reads."""
        rng, waves = self.rng, self.waves
        if blocks == waves and self.chance(0.8):
            kind = rng.choice(("own rows", "own rows", "neighbour's rows", "other half's rows", "blocks in turn"))
            self.tag(kind)
            half = waves // 2
            return {
                "own rows": "wave * 16",
                "neighbour's rows": f"(wave + 1) mod {waves} * 16",
                "other half's rows": f"(wave + {half}) mod {waves} * 16",
                "blocks in turn": "wave // 2 * 16",
            }[kind]
        if blocks > 1 and self.chance(0.5):
            self.tag("blocks in turn")
            return f"wave mod {blocks} * 16"
        self.tag("shared by all")
        return str(16 * rng.randrange(blocks))

    def mask(self, shape: tuple[int, int]) -> str:
        """A mask that leaves out a column, made before the loop."""
        self.tag("mask")
        name, type_ = self.fresh("m"), f"tile<{shape[0]}x{shape[1]}xi32>"
        self.before += (f"%{name}_i = iota axis 1 : {type_}", f"%{name}_n = splat {shape[1] - 1} : {type_}")
        self.before.append(f"%{name} = lt %{name}_i, %{name}_n : {type_.replace('i32', 'i1')}")
        return f" mask %{name}"

    def widths(self) -> list[int]:
        """What products may sum up over."""
        most = min(each.shape[each.along] for each in self.streams)
        return [each for each in (16, 32, 64) if self.least <= each <= most]

    # --- products ---

    def draw_products(self, shape: str, count: int, deep: int) -> None:
        self.tag(f"products: {shape}")
        self.shape = shape
        if deep:
            self.draw_exchanges(deep)
            return
        getattr(self, f"draw_{shape}")(count or self.rng.choice((1, 2, 2, 3, 4, 6)))

    def mma(self, a: str, b: str, acc: str) -> str:
        return self.compute("mma", (a, b, acc), ACC, "p")

    def width_of_product(self) -> int:
        k = self.k = self.rng.choice(self.widths())
        if k > 16:
            self.tag("K can be split")
        return k

    def pair(self, k: int, offset: int | None = None) -> tuple[str, str]:
        """Operands of one product; with two streams or more, of different ones."""
        fitting = [each for each in self.streams if each.shape[each.along] >= k]
        a = self.rng.choice(fitting)
        b = self.rng.choice([each for each in fitting if each is not a] or fitting)
        return self.operand("a", k, offset, a), self.operand("b", k, offset, b)

    def draw_chain(self, count: int) -> None:
        acc = self.carry("acc", ACC)
        k = self.width_of_product()
        places = min(self.widths()[-1] // k, count)
        for number in range(count):
            self.next[acc] = self.mma(*self.pair(k, number % places * k), self.next[acc])

    def draw_independent(self, count: int) -> None:
        k = self.width_of_product()
        for _ in range(count):
            acc = self.carry("acc", ACC)
            self.next[acc] = self.mma(*self.pair(k), acc)

    def draw_grid(self, count: int) -> None:
        k = self.width_of_product()
        left, top = [self.operand("a", k) for _ in range(2)], [self.operand("b", k) for _ in range(max(1, count // 2))]
        for a in left:
            for b in top[:3]:
                acc = self.carry("acc", ACC)
                self.next[acc] = self.mma(a, b, acc)

    def draw_attention(self, count: int) -> None:
        """Scores, their running maximum, and the sum of values weighted by them."""
        del count
        k = self.width_of_product()
        self.tag("running maximum", "product from product")
        self.before.append(f"%q = global_read %Q[wave * 16, 0] : tile<16x{k}x{self.dtype}>")
        self.invariant.add("q")
        self.queries = k
        column = "tile<16x1xf32>"
        top, out = self.carry("top", column, -100.0), self.carry("out", ACC)
        score = self.mma("q", self.operand("b", k), self.constant(0.0, ACC))
        score = self.compute("mul", (score, self.constant(0.125, ACC)), ACC)
        self.next[top] = self.compute("max", (top, self.compute("reduce max 1", (score,), column)), column)
        wide = self.compute("broadcast", (self.next[top],), ACC)
        weight = self.compute("exp", (self.compute("sub", (score, wide), ACC),), ACC)
        if self.chance(0.5):
            total = self.carry("total", column)
            self.next[total] = self.compute("add", (total, self.compute("reduce add 1", (weight,), column)), column)
        less = self.compute("exp", (self.compute("sub", (top, self.next[top]), column),), column)
        kept = self.compute("mul", (out, self.compute("broadcast", (less,), ACC)), ACC)
        self.next[out] = self.mma(self.narrow(weight), self.operand("b", 16), kept)

    def draw_mixture(self, count: int) -> None:
        """Products of anything: of what is read, and of other products; onto something carried, or onto zero."""
        made: list[str] = []
        accs: list[str] = []
        self.alone = self.chance(0.1)
        for _ in range(count):
            k = self.width_of_product()
            if made and self.chance(0.4):
                self.tag("product from product")
                a, b = self.from_product(self.rng.choice(made)), self.operand("b", 16)
            elif self.chance(0.3):
                a, b = self.operand("a", k), self.operand("b", k)
            else:
                a, b = self.pair(k)
            choice = 1.0 if self.alone else self.rng.random()
            if choice < 0.4 or (choice < 0.7 and not accs):
                accs.append(self.carry("acc", ACC))
                acc = accs[-1]
            elif choice < 0.7:
                acc = self.rng.choice(accs)
            else:
                made.append(self.mma(a, b, self.constant(0.0, ACC)))
                continue
            self.next[acc] = self.mma(a, b, self.next[acc])
        for value in made:
            self.use(value)

    def from_product(self, value: str) -> str:
        """The result of a product as an operand: kept small, perhaps by way of other waves."""
        small = self.narrow(self.compute("tanh", (value,), ACC))
        return self.exchange(small) if not self.plain and self.chance(0.3) else small

    def narrow(self, value: str) -> str:
        return self.compute("cast", (value,), f"tile<16x16x{self.dtype}>")

    def exchange(self, value: str) -> str:
        """Through shared memory to another wave, in one iteration."""
        self.tag("exchanged through LDS")
        name, tile = self.fresh("x"), f"tile<16x16x{self.dtype}>"
        self.extra.append(f"%{name} = alloc : lds<{self.waves * 16}x16x{self.dtype}>")
        write = self.node(
            "exchange", "", (value,), lambda here: f"local_write {self.name(value, here)}, %{name}[wave * 16, 0]"
        )
        read = self.node(
            "exchange",
            "r",
            (),
            lambda here: f"local_read %{name}[(wave + {max(1, self.waves // 2)}) mod {self.waves} * 16, 0] : {tile}",
        )
        read.after.append(write)
        return read.result

    def draw_exchanges(self, deep: int) -> None:
        """Each product of what another wave made of the one before."""
        value = self.mma(*self.pair(16), self.constant(0.0, ACC))
        for number in range(1, deep):
            a = self.exchange(self.narrow(self.compute("tanh", (value,), ACC)))
            acc = self.carry("acc", ACC) if number == deep - 1 else self.constant(0.0, ACC)
            value = self.mma(a, self.operand("b", 16), acc)
            if number == deep - 1:
                self.next[acc] = value

    def use(self, value: str) -> None:
        """Something is done with a result, so that it matters."""
        choice = "store" if self.alone else self.rng.choice(("sum", "sum", "maximum", "maximum", "store"))
        if choice == "sum":
            total = self.carry("sum", ACC)
            self.next[total] = self.compute("add", (total, value), ACC)
        elif choice == "maximum":
            self.tag("running maximum")
            top = self.carry("top", "tile<16x1xf32>", -100.0)
            most = self.compute("reduce max 1", (value,), "tile<16x1xf32>")
            self.next[top] = self.compute("max", (top, most), "tile<16x1xf32>")
        else:
            self.store(value)

    def store(self, value: str) -> None:
        """To global memory, a tile of its own for each iteration."""
        self.tag("stored in each iteration")
        array = self.fresh("P")
        self.stored.append(array)
        limits = self.mask((16, 16)) if self.chance(0.2) else ""

        def place(here: _Here) -> str:
            tile = self.tile_index(0, here)
            return f"%{array}[wave * 16, ({tile}) * {self.width}]" if self.flat else f"%{array}[{tile}, wave * 16, 0]"

        write = self.node(
            "store", "", (value,), lambda here: f"global_write {self.name(value, here)}, {place(here)}{limits}"
        )
        if not self.alone and self.chance(0.4):
            self.tag("stored and read back")
            read = self.node("load", "g", (), lambda here: f"global_read {place(here)} : {ACC}")
            read.after.append(write)
            total = self.carry("sum", ACC)
            self.next[total] = self.compute("add", (total, read.result), ACC)

    # --- what else there is ---

    def draw_more(self) -> None:
        for stream in self.streams:
            if stream.name not in self.read:
                self.read_for_sum(stream)
        products = [node.result for node in self.nodes if node.kind == "mma"]
        if products and self.chance(0.1):
            self.store(self.rng.choice(products))
        if self.chance(0.15):
            self.store(self.compute("cast", (self.operand("a", 16),), ACC))
        for _ in range(self.rng.choice((0, 0, 0, 1, 2))):
            self.tag("other arithmetic")
            value = self.rng.choice(products)
            for word in self.rng.sample(("sigmoid", "neg", "abs", "tanh"), 2):
                value = self.compute(word, (value,), ACC)
            self.use(value)

    def read_for_sum(self, stream: _Stream) -> None:
        """No product uses the stream: its tiles are summed up."""
        value = self.operand("a", 16, None, stream)
        total = self.carry("sum", ACC)
        self.next[total] = self.compute("add", (total, self.compute("cast", (value,), ACC)), ACC)

    def fetch(self) -> None:
        """What fills the buffers; after what reads the same slot, where there is such a thing."""
        self.bounded = {each.name for each in self.streams if not self.plain and self.chance(0.08)}
        if self.bounded:
            self.tag("bounds")
        for stream in self.streams:
            if stream.slots > 1 and stream.slot_by != "counter":
                self.carried.append(_Carried(f"slot_{stream.name}", "index", "0"))
            write = self.fetch_one(stream)
            reads = [node for node in self.nodes if node.kind == f"read {stream.name}"]
            if stream.ahead == 0:
                for node in reads:
                    node.after.append(write)
            elif stream.ahead % stream.slots == 0:
                write.after += reads

    def fetch_one(self, stream: _Stream) -> _Node:
        ahead = stream.ahead

        def load(here: _Here) -> str:
            tile = self.tile_index(stream.lookahead, here)
            return f"global_read {self.source(stream, tile)} : {stream.tile()}"

        def dest(here: _Here) -> str:
            return f"%{stream.name}{self.slot(stream, ahead, here)}[{stream.place}]"

        def copy(here: _Here) -> str:
            source, _, bounds = self.source(stream, self.tile_index(ahead, here)).partition(" bounds")
            bounds = bounds and f" bounds{bounds}"
            return f"gather_to_lds {source} to {dest(here)}{bounds} : {stream.tile()}"

        if stream.copies:
            return self.node("copy", "", (), copy, ahead=ahead)
        loaded = self.node("load", "g", (), load, ahead=stream.lookahead).result
        value = loaded
        if stream.staged:
            value = f"held_{stream.name}"
            self.carried.append(_Carried(value, stream.tile(), f"%held_{stream.name}_0"))
            self.next[value] = loaded
        return self.node(
            "write", "", (value,), lambda here: f"local_write {self.name(value, here)}, {dest(here)}", ahead=ahead
        )

    # --- the order of the body ---

    def order(self) -> None:
        """One of the orders that keep what the body means."""
        weight = self.rng.choice(("as it is", "any", "any", "any", "memory first", "products first"))
        if weight == "any":
            self.tag("any order")
        keys = {id(node): self.key(weight, number, node) for number, node in enumerate(self.nodes)}
        makers = {node.result: node for node in self.nodes if node.result}
        left, done, ordered = list(self.nodes), set[int](), list[_Node]()
        while left:
            ready = [
                node
                for node in left
                if all(id(each) in done for each in node.after)
                and all(id(makers[each]) in done for each in node.uses if each in makers)
            ]
            node = min(ready, key=lambda each: keys[id(each)])
            left.remove(node)
            done.add(id(node))
            ordered.append(node)
        self.nodes = ordered

    def key(self, weight: str, number: int, node: _Node) -> float:
        if weight == "as it is":
            return number
        if weight == "any":
            return self.rng.random()
        is_memory = node.kind.startswith(("read", "load", "copy", "write"))
        return self.rng.random() + (is_memory == (weight == "products first"))

    def tag_all(self) -> None:
        self.stream_tags()
        for has, word in (
            (self.first, "lower bound"),
            (self.step == 2, "step 2"),
            (self.two, "two workgroups"),
            (self.flat, "flat arrays"),
            (not any(each.type != "index" for each in self.carried), "nothing carried"),
        ):
            if has:
                self.tag(word)

    # --- text ---

    def text(self) -> str:
        prologue = [*self.before, *self.prologue()]
        rest = [*prologue, *self.about[0], *self.whole_loop(), *self.about[1], *self.last()]
        allocs = [f"%{each.name} = alloc : {self.buffer(each)}" for each in self.streams] + self.extra
        lines = [*allocs, *self.around[0], *rest, *self.around[1]]
        return f"target {self.target}\n\n{self.head()} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"

    def buffer(self, stream: _Stream) -> str:
        rows, columns = stream.shape
        slots = f", slots = {stream.slots}" if stream.slots > 1 else ""
        return f"lds<{rows}x{columns}x{stream.dtype}{slots}>"

    def head(self) -> str:
        rows = self.waves * 16
        args = [self.array(each) for each in self.streams]
        if self.shape == "attention":
            args.append(f"%Q: global<{rows}x{self.queries}x{self.dtype}>")
        tall = rows * (2 if self.two else 1)
        args += (f"%O_{name}: global<{tall}x{_columns(type_)}xf32>" for name, type_ in self.outputs)
        each = f"{rows}xC" if self.flat else f"Tx{rows}x16"
        args += (f"%{name}: global<{each}xf32>" for name in self.stored)
        least = self.first + self.lookahead
        if self.flat:
            sizes = f"sizes(C = {(least + 2) * self.width})"
            where = f"where(C mod {self.width} == 0, C >= {max(1, least) * self.width})"
        else:
            sizes, where = f"sizes(T = {least + 2})", f"where(T >= {max(1, least)})"
        grid = " grid(2)" if self.two else ""
        return f"kernel @body({', '.join(args)}) {sizes} {where}{grid} waves {self.waves}"

    def prologue(self) -> list[str]:
        lines = []
        for stream in self.streams:
            for tile in range(stream.ahead):
                at, slot = str(self.first + tile), self.first_slot(stream, tile)
                dest = f"%{stream.name}{slot}[{stream.place}]"
                source, _, bounds = self.source(stream, at).partition(" bounds")
                bounds = bounds and f" bounds{bounds}"
                if stream.copies:
                    lines.append(f"gather_to_lds {source} to {dest}{bounds} : {stream.tile()}")
                else:
                    value = f"%{stream.name}_first{tile}"
                    lines.append(f"{value} = global_read {source}{bounds} : {stream.tile()}")
                    lines.append(f"local_write {value}, {dest}")
            if stream.staged:
                source = self.source(stream, str(self.first + stream.ahead))
                lines.append(f"%held_{stream.name}_0 = global_read {source} : {stream.tile()}")
        return lines

    def whole_loop(self) -> list[str]:
        if not self.loop:
            return []
        here = _Here("_k", None, {each.name: f"%{each.name}_in" for each in self.carried})
        lower = self.first * self.step + self.odd
        upper = _plus(f"({_plus(self.tiles, -self.lookahead)}) * {self.step}", self.odd)
        if self.step == 1:
            upper = _plus(self.tiles, -self.lookahead)
        head = f"iterate %k in {lower} .. {upper}{f' step {self.step}' if self.step > 1 else ''}"
        if self.carried:
            carry = ", ".join(f"%{each.name}_in = {each.init} : {each.type}" for each in self.carried)
            head = f"{', '.join(f'%{each.name}_out' for each in self.carried)} = {head} carry({carry})"
        lines = [*self.lines(here)]
        for each in self.within:
            lines.insert(self.rng.randrange(len(lines) + 1), each)
        if self.carried:
            lines.append(f"yield {', '.join(self.yielded(each, here) for each in self.carried)}")
        return [f"{head} {{", *(f"  {line}" for line in lines), "}"]

    def yielded(self, carried: _Carried, here: _Here) -> str:
        if carried.type != "index":
            return self.name(self.next[carried.name], here)
        stream = next(each for each in self.streams if carried.name == f"slot_{each.name}")
        more = f"{here.carried[carried.name]} + 1"
        if stream.slot_by == "carried":
            return f"({more}) mod {stream.slots}"
        return f"select({more} >= {stream.slots}, 0, {more})"

    def lines(self, here: _Here) -> list[str]:
        """The body at one place: without what would fetch tiles that are not there."""
        found = []
        for node in self.nodes:
            if here.step is None or node.ahead == 0 or here.step + node.ahead < self.lookahead:
                result = f"{self.name(node.result, here)} = " if node.result else ""
                found.append(f"{result}{node.text(here)}")
        return found

    def last(self) -> list[str]:
        """The tiles that are left, and the results."""
        suffix = "_out" if self.loop else "_0"
        known = {each.name: f"%{each.name}{suffix}" for each in self.carried}
        lines = []
        for step in range(self.lookahead):
            here = _Here(f"_e{step}", step, dict(known))
            lines += self.lines(here)
            for each in self.carried:
                if each.type == "index":
                    continue
                held = each.name.startswith("held_") and step + self.ahead_of(each.name) >= self.lookahead
                if not held:
                    known[each.name] = self.name(self.next[each.name], here)
        mine = f"wg0 * {self.waves * 16} + wave * 16" if self.two else "wave * 16"
        return [*lines, *(f"global_write {known[name]}, %O_{name}[{mine}, 0]" for name, _ in self.outputs)]

    def ahead_of(self, held: str) -> int:
        return next(each.lookahead for each in self.streams if held == f"held_{each.name}")


_SLOT_BY = {"counter": "by counter", "carried": "carried", "select": "by select"}


def _plus(text: str, number: int) -> str:
    if number == 0:
        return text
    return f"{text} + {number}" if number > 0 else f"{text} - {-number}"


def _columns(type_: str) -> int:
    return int(type_.split("x")[1])


# --- what is wrong ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Wrong:
    body: _Body
    reason: str
    strategy: str = "clusters=2"


def _good(rng: random.Random, **given: object) -> _Body:
    """A body that is surely scheduled in two clusters: two or more products that hang on nothing but carried sums."""
    fixed = {"plain": True, "copies": False, "target": "gfx942", "shape": rng.choice(("chain", "independent"))}
    return _Body(rng, **{**fixed, "products": rng.choice((2, 3, 4)), **given})  # type: ignore[arg-type]


def _odd_waves(rng: random.Random) -> _Wrong:
    return _Wrong(_good(rng, waves=rng.choice((3, 5, 7))), "odd-waves")


def _no_products(rng: random.Random) -> _Wrong:
    body = _good(rng)
    for node in body.nodes:
        if node.kind == "mma":
            acc = node.uses[2]
            node.text = lambda here, acc=acc: f"neg {body.name(acc, here)} : {ACC}"  # type: ignore[misc]
    return _Wrong(body, "no-loop")


def _no_loop(rng: random.Random) -> _Wrong:
    body = _good(rng)
    body.loop = False
    return _Wrong(body, "no-loop")


def _other_loop(name: str) -> list[str]:
    """A loop without products."""
    return [
        f"%{name}_0 = fill 0.0 : {ACC}",
        f"%{name}_out = iterate %{name}_k in 0 .. 3 carry(%{name}_in = %{name}_0 : {ACC}) {{",
        *(f"  %{name}_p = neg %{name}_in : {ACC}", f"  yield %{name}_p", "}"),
    ]


def _inner_loop(rng: random.Random) -> _Wrong:
    body = _good(rng)
    body.within = ["\n    ".join(_other_loop("inner"))]
    return _Wrong(body, "nested")


def _condition_inside(rng: random.Random) -> _Wrong:
    body = _good(rng)
    value = f"%inner = fill 1.0 : {ACC}"
    body.within = [
        rng.choice(
            (
                f"conditional wave < 1 {{ {value} }}",
                f"conditional %k mod 2 == 0 {{ {value} }}",
                "conditional %k > 3 { exit }",  # of one wave alone, others would go on in the loop without it
            )
        )
    ]
    return _Wrong(body, "nested")


def _fenced(rng: random.Random) -> _Wrong:
    body = _good(rng)
    fences = ("scheduling_barrier", "workgroup_barrier pinned", "shared_memory_barrier pinned")
    body.within = rng.sample(fences, rng.choice((1, 1, 2)))
    return _Wrong(body, "fenced")


def _staggered(rng: random.Random) -> _Wrong:
    body = _good(rng)
    first, second = rng.choice((("high", "low"), ("low", "high")))
    body.about[0].append(f"conditional_barrier {first}")
    body.about[1].append(f"conditional_barrier {second}")
    return _Wrong(body, "staggered")


def _wave_groups(rng: random.Random) -> _Wrong:
    body = _good(rng)
    half = body.waves // 2
    body.around[0].append(f"specialize {{ waves 0 .. {half} {{")
    body.around[1].append(f"}} waves {half} .. {body.waves} {{ %idle = fill 0.0 : {ACC} }} }}")
    return _Wrong(body, "wave-groups")


def _under_condition(rng: random.Random) -> _Wrong:
    body = _good(rng)
    body.around[0].append(f"conditional wave < {body.waves // 2} {{")
    body.around[1].append("}")
    return _Wrong(body, "under-condition")


def _objects(rng: random.Random) -> _Wrong:
    body = _good(rng, target="gfx1250", least=32)
    body.extra.append(f"%named = new_barrier : named_barrier<{body.waves}>")
    body.within = ["signal %named\n    wait %named"]
    return _Wrong(body, "objects")


def _not_pipelined(rng: random.Random) -> _Wrong:
    return _Wrong(_good(rng, pipelined=False, copies=rng.choice((True, False))), "not-pipelined")


def _no_split(rng: random.Random) -> _Wrong:
    """One product: over 16 it cannot be split, over 32 not into three."""
    body = _good(rng, shape="chain", products=1)
    return _Wrong(body, "no-split", f"clusters={body.k // 16 + rng.choice((1, 1, 2))}")


def _no_memory(rng: random.Random) -> _Wrong:
    body = _good(rng)
    body.nodes = [node for node in body.nodes if node.kind == "mma"]
    tile = f"tile<16x16x{body.dtype}>"
    body.before.append(f"%one = fill 1.0 : {tile}")
    body.invariant.add("one")
    for node in body.nodes:
        acc = node.uses[2]
        node.text = lambda here, acc=acc: f"mma %one, %one, {body.name(acc, here)} : {ACC}"  # type: ignore[misc]
    return _Wrong(body, "no-memory")


def _too_deep(rng: random.Random) -> _Wrong:
    deep = rng.choice((3, 4))
    return _Wrong(_good(rng, deep=deep), "dependence", f"clusters={deep - 1}")


def _copies_as_writes(rng: random.Random) -> _Wrong:
    body = _good(rng, copies=True, target=rng.choice(("gfx942", "gfx950")))
    return _Wrong(body, "not-copies", "two-pp-cluster")


def _writes_as_copies(rng: random.Random) -> _Wrong:
    return _Wrong(_good(rng, target=rng.choice(("gfx942", "gfx950", "gfx1201"))), "not-copies", "async-two-pp-cluster")


WAYS: tuple[Callable[[random.Random], _Wrong], ...] = (
    *(_odd_waves, _no_products, _no_loop, _inner_loop, _condition_inside, _fenced, _staggered),
    *(_wave_groups, _under_condition, _objects, _not_pipelined, _no_split, _no_memory),
    *(_too_deep, _copies_as_writes, _writes_as_copies),
)
