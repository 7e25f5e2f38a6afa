"""Programs whose hazards lie between lanes of one wave: each wave keeps to its rows, mostly.

An access repeats the place, shape and type of an earlier one (each lane keeps to its bytes), or shifts it, or takes
another shape, another element type, a transposition or a matrix operand. Between accesses stands anything or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .builder import Builder, double, elements, neighbour, row
from .facts import BYTES
from .program import WAVE, Access, Compute, Index, Memory, Place, Sync, Tile, number


@dataclass(frozen=True, slots=True)
class Spot:
    """Where and what an access is: all that decides whether lanes keep to their bytes."""

    memory: Memory
    column: int
    tile: Tile
    slot: Index | None = None
    of: Index = WAVE
    bounds: tuple[int, ...] = ()

    def place(self) -> Place:
        return row(self.memory, self.column, self.of, self.slot)


def lanes(b: Builder) -> None:
    """Fill the builder with one program."""
    if b.chance(0.12):
        _matrix(b)
        return
    spots = [_first(b)]
    if b.chance(0.25):
        spots.append(_first(b))
    density = b.pick((0.25, 0.5, 0.75, 0.95, 1.0))
    before, inside, after = b.rng.randint(0, 2), b.rng.randint(2, 4), b.rng.randint(0, 2)
    if b.chance(0.5):
        before, inside, after = b.rng.randint(2, 5), 0, 0
    _accesses(b, spots, before, density)
    if inside:
        b.loop(lambda: _accesses(b, spots, inside, density, start=bool(before)))
    _accesses(b, spots, after, density, start=True)


def _first(b: Builder) -> Spot:
    lane_count = b.facts.lanes
    words = b.pick((lane_count // 2, lane_count, lane_count, 2 * lane_count))
    pad = b.pick((0, 4, 4, 8))
    dtype = b.pick(("f32", "f32", "f32", "i32", "f16", "f64"))
    columns = (words + pad) * 4 // BYTES[dtype]
    memory = b.alloc((b.waves, columns), dtype, b.pick((1, 1, 1, 2, 3)))
    width = words * 4 // BYTES[dtype]
    return Spot(memory, 0, Tile((width,), dtype))


def _accesses(b: Builder, spots: list[Spot], count: int, density: float, start: bool = False) -> None:
    """Accesses with something between them, at times."""
    for k in range(count):
        between = (k or start or b.counters) and b.chance(density)
        if between and b.facts.split and b.chance(0.12):
            _inside_pair(b, spots)
            continue
        if between:
            _between(b)
        if b.counters and b.chance(0.05) and len(b.counters) < 2:
            b.loop(lambda: _accesses(b, spots, 1 + int(b.chance(0.5)), density, start=True))
        else:
            _one(b, spots)


def _inside_pair(b: Builder, spots: list[Spot]) -> None:
    """An access while the wave has signalled and not waited."""
    if b.chance(0.6):
        b.wait(b.facts.lds_counter, 0)
    b.add(Sync("signal"))
    b.add(*b.inside(lambda: _ordinary(b, _vary(b, b.pick(spots)))))
    b.add(Sync("wait"))


def _between(b: Builder) -> None:
    """What may order lanes, and what only looks so."""
    roll = b.rng.random()
    if roll < 0.42:
        b.maybe_conditional(0.12, lambda: b.add(Sync("fence")))
    elif roll < 0.75:
        b.maybe_conditional(0.06, b.barrier, of_waves=0.1)
    elif roll < 0.9 and b.facts.lds_counter:
        b.wait(b.facts.lds_counter, b.pick((0, 0, 0, 1, 2)))
    elif roll < 0.95:
        b.add(Sync("fence"), Sync("fence") if b.chance(0.3) else Compute("scheduling_barrier"))
    else:
        b.add(Compute("scheduling_barrier"))


def _one(b: Builder, spots: list[Spot]) -> None:
    spot = _vary(b, b.pick(spots))
    if b.facts.copies.get("gather_to_lds") and b.chance(0.15) and _fits_copy(spot):
        _copy(b, spot)
        return
    b.maybe_conditional(0.12, lambda: _ordinary(b, spot))


def _ordinary(b: Builder, spot: Spot) -> None:
    kind = b.pick(("read", "write", "write", "read", "atomic" if BYTES[spot.tile.dtype] in (4, 8) else "read"))
    mask = b.mask(spot.tile) if b.chance(0.08) else ""
    place = spot.place()
    if kind == "read":
        result = b.name("r")
        b.add(Access("read", place, spot.tile, result=result, mask=mask, bounds=spot.bounds))
        if len(spot.tile.shape) == 2 and b.chance(0.3):
            turned = Tile(spot.tile.shape[::-1], spot.tile.dtype)
            other = b.name("t")
            b.add(Compute(f"%{other} = transpose %{result} : {turned.text()}", (result,), (result, other), fixed=True))
            b.store(other, turned)
        elif b.chance(0.85):
            b.store(result, spot.tile)
        return
    value = b.source(spot.tile)
    if kind == "write" and len(spot.tile.shape) == 2 and b.chance(0.2):
        turned = Tile(spot.tile.shape[::-1], spot.tile.dtype)
        origin, value = b.source(turned, fresh=True), b.name("t")
        line = f"%{value} = transpose %{origin} : {spot.tile.text()}"
        b.add(Compute(line, (origin,), (origin, value), fixed=True))
    elif b.chance(0.2):
        value, origin = b.name("d"), value
        b.add(double(origin, value, spot.tile))
    b.add(Access(kind, place, spot.tile, value, mask=mask, bounds=spot.bounds))


def _vary(b: Builder, spot: Spot) -> Spot:
    """The same bytes for the same lanes, or not."""
    memory, slot = spot.memory, None
    if memory.slots > 1:
        if b.counters:
            slot = Index(((1, b.counters[-1]),), b.rng.randint(0, memory.slots - 1), mod=memory.slots)
        else:
            slot = number(b.rng.randrange(memory.slots))
    spot = replace(spot, slot=slot)
    roll = b.rng.random()
    if roll < 0.15:
        width = spot.tile.shape[0]
        spot = replace(spot, column=b.pick((1, 2, 4, width // 2)))
    elif roll < 0.25:
        spot = replace(spot, tile=Tile((spot.tile.shape[0] // 2,), spot.tile.dtype))
        if b.chance(0.5):
            spot = replace(spot, column=spot.tile.shape[0])
    elif roll < 0.45 and memory.slots == 1:
        spot = _other_view(b, spot)
    if b.waves > 1 and b.chance(0.06):
        spot = replace(spot, of=neighbour(b.waves))
    if b.chance(0.06) and len(spot.memory.shape) == 2:
        spot = replace(spot, bounds=(b.waves, spot.column + spot.tile.shape[-1] // 2))
    return spot if _inside(spot) else replace(spot, column=0)


def _other_view(b: Builder, spot: Spot) -> Spot:
    memory = spot.memory
    size = elements(memory) * BYTES[memory.dtype]
    if b.chance(0.45):
        dtype = b.pick(tuple(d for d in ("f32", "i32", "f16", "i16", "i64", "f64") if d != memory.dtype))
        columns = size // BYTES[dtype]
        view = b.view(memory, (b.waves, columns), dtype)
        width = spot.tile.shape[0] * BYTES[spot.tile.dtype] // BYTES[dtype]
        if b.chance(0.3):
            width = min(columns, spot.tile.shape[0])
        return replace(spot, memory=view, tile=Tile((width,), dtype))
    rows = b.pick((1, 2, 4))
    columns = elements(memory) // rows
    view = b.view(memory, (b.waves, rows, columns), memory.dtype)
    width = min(columns, spot.tile.shape[0] // rows)
    return replace(spot, memory=view, tile=Tile((rows, width), memory.dtype), bounds=())


def _inside(spot: Spot) -> bool:
    return spot.column + spot.tile.shape[-1] <= spot.memory.shape[-1]


def _fits_copy(spot: Spot) -> bool:
    size = BYTES[spot.tile.dtype]
    width = spot.tile.shape[-1] * size
    start = spot.column * size
    return width % 16 == 0 and start % 16 == 0 and spot.memory.shape[-1] * size % 16 == 0


def _copy(b: Builder, spot: Spot) -> None:
    """A copy, mostly with a wait, and what makes it known to the other lanes."""
    b.copy("gather_to_lds", spot.place(), spot.tile)
    counter = b.facts.copies["gather_to_lds"]
    if b.facts.groups and b.chance(0.9):
        b.add(Sync("commit"))
    roll = b.rng.random()
    if roll < 0.5:
        b.wait(counter, 0 if b.chance(0.9) else 1)
        if b.chance(0.6):
            b.add(Sync("fence"))
    elif roll < 0.8:
        b.add(Sync("drain", ((counter, 0),)) if b.chance(0.6) else Sync("drain", all_copies=True))
    elif roll < 0.9:
        b.add(Sync("fence"))


def _matrix(b: Builder) -> None:
    """A matrix product: operands read from and results written to the rows of the wave."""
    b.waves = min(b.waves, 2)
    depth = b.facts.mma_k
    left, right, result = Tile((16, depth), "f16"), Tile((depth, 16), "f16"), Tile((16, 16), "f32")
    operands = b.alloc((b.waves, 16, depth), "f16")
    results = b.alloc((b.waves, 16, 16), "f32")
    density = b.pick((0.4, 0.8, 1.0))

    def body() -> None:
        place, out = row(operands), row(results)
        if b.chance(0.7):
            b.add(Access("write", place, left, b.source(left)))
        if b.chance(density):
            _between(b)
        a, d = b.name("a"), b.name("d")
        b.add(Access("read", place, left, result=a))
        other, acc = b.source(right, fresh=True), b.source(result, fresh=True)
        names = (a, other, acc)
        b.add(Compute(f"%{d} = mma %{a}, %{other}, %{acc} : {result.text()}", names, (*names, d), fixed=True))
        if b.chance(0.3):
            doubled = b.name("d")
            b.add(double(d, doubled, result))
            d = doubled
        b.add(Access("write", out, result, d))
        if b.chance(0.6):
            if b.chance(density):
                _between(b)
            got = b.name("r")
            b.add(Access("read", out, result, result=got))
            b.store(got, result)
        elif b.chance(density):
            _between(b)

    if b.chance(0.5):
        b.loop(body)
    else:
        body()
