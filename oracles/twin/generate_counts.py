"""Programs whose waits have counts: copies, and among them plain loads and stores that may or may not be issued."""

from __future__ import annotations

from .builder import Builder, neighbour, row
from .facts import BYTES
from .program import WAVE, Access, Compute, Index, Memory, Place, Sync, Tile, number


def counts(b: Builder) -> None:
    """Fill the builder with one program."""
    if not b.facts.copies or b.chance(0.12):
        _ordinary(b)
    elif b.chance(0.45):
        _straight(b)
    else:
        _pipeline(b)


def _operation(b: Builder) -> str:
    return b.pick(("gather_to_lds", "gather_to_lds", *b.facts.copies))


def _tile(b: Builder) -> Tile:
    lanes = b.facts.lanes
    dtype = b.pick(("f32", "f32", "f16", "i32"))
    words = b.pick((lanes // 4, lanes // 2, lanes, lanes, 2 * lanes))
    return Tile((words * 4 // BYTES[dtype],), dtype)


def _units(b: Builder, operation: str, tile: Tile) -> int:
    return 1 if b.facts.groups else b.facts.instructions(operation, tile.shape[0] * BYTES[tile.dtype])


def _noise(b: Builder, most: int) -> int:
    """Plain loads and stores that look as if they counted; returns how many."""
    made = b.rng.randint(0, most)
    for _ in range(made):
        tile = Tile((b.pick((b.facts.lanes, 16)),), "f32")
        name = b.name("g")
        kind = b.pick(("plain", "uniform", "masked", "dead", "store", "local"))
        if kind == "store":
            value = b.source(tile)
            b.add(Compute(f"global_write %{value}, %Y_f32[wave, 0, 0]", (value,)))
        elif kind == "local":
            _private(b, tile)
        else:
            place = "0, 0, 0" if kind == "uniform" else "wave, 1, 0"
            mask = f" mask %{b.mask(tile)}" if kind == "masked" else ""
            shape = Tile((1,), "f32") if kind == "uniform" else tile
            b.add(Compute(f"%{name} = global_read %X_f32[{place}]{mask} : {shape.text()}"))
            if kind != "dead":
                b.store(name, shape)
    return made


def _private(b: Builder, tile: Tile) -> None:
    """Own rows, own lanes: needs nothing, counts for nothing."""
    memory = next((m for m in b.memory if m.name == f"own{tile.shape[0]}"), None)
    if memory is None:
        memory = Memory(f"own{tile.shape[0]}", (b.waves, tile.shape[0]), "f32")
        b.memory.append(memory)
    if b.chance(0.5):
        b.add(Access(b.pick(("write", "write", "atomic")), row(memory), tile, b.source(tile)))
    else:
        name = b.name("r")
        b.add(Access("read", row(memory), tile, result=name))
        b.store(name, tile)


def _guess(b: Builder, exact: int, tempting: int) -> int:
    """The loosest right count, one off, or one that counts what is not certain."""
    roll = b.rng.random()
    if roll < 0.55:
        return exact
    if roll < 0.65:
        return max(0, exact - 1)
    if roll < 0.8:
        return exact + 1
    return exact + tempting


def _publish(b: Builder, counter: str, n: int, care: float) -> None:
    """Wait for copies, and then make them known to lanes or waves."""
    careful = b.chance(care)
    roll = b.rng.random()
    if roll < 0.4:
        b.add(Sync("drain", ((counter, n),)))
        return
    if roll < 0.5 and n == 0:
        b.add(Sync("drain", all_copies=True))
        return
    b.wait(counter, n)
    if careful or b.chance(0.3):
        if b.chance(0.35):
            b.add(Sync("fence"))
        else:
            b.barrier(b.pick(("bare", "drain", "pair")))


def _copy(
    b: Builder, operation: str, memory: Memory, tile: Tile, column: int, slot: Index | None, commit: bool
) -> None:
    place = Place(memory.name, (WAVE, number(column)), slot)
    b.copy(operation, place, tile)
    if b.facts.groups and commit:
        b.add(Sync("commit"))


def _fetch(b: Builder, memory: Memory, tile: Tile, column: int, slot: Index | None, foreign: float) -> None:
    of = neighbour(b.waves) if b.waves > 1 and b.chance(foreign) else WAVE
    name = b.name("r")
    b.add(Access("read", row(memory, column, of, slot), tile, result=name))
    if b.chance(0.9):
        b.store(name, tile)


def _straight(b: Builder) -> None:
    """Copies one after another, a wait for one of the older, its read."""
    tile, care = _tile(b), b.pick((0.5, 0.9, 1.0))
    number_of = b.rng.randint(1, 4)
    memory = b.alloc((b.waves, number_of * tile.shape[0]), tile.dtype)
    if b.chance(0.25):
        place = row(memory, 0)
        b.add(Access("write", place, tile, b.source(tile)))
        if b.chance(0.6):
            b.barrier()
    operations = [_operation(b)] * number_of
    if b.chance(0.3):
        operations = [_operation(b) for _ in operations]
    units: list[int] = []
    between = 0
    for k, operation in enumerate(operations):
        _copy(b, operation, memory, tile, k * tile.shape[0], None, commit=b.chance(0.85))
        units.append(_units(b, operation, tile))
        if k + 1 < number_of or b.chance(0.6):
            between += _noise(b, 2)
    wanted = b.rng.randrange(number_of)
    counter = b.facts.copies[operations[wanted]]
    younger = sum(
        u for o, u in zip(operations[wanted + 1 :], units[wanted + 1 :], strict=True) if b.facts.copies[o] == counter
    )
    _publish(b, counter, _guess(b, younger, between), care)
    column = wanted * tile.shape[0]
    b.maybe_conditional(0.08, lambda: _fetch(b, memory, tile, column, None, 0.25))
    if b.chance(0.3):
        if b.chance(0.7):
            _publish(b, counter, 0, care)
        _copy(b, operations[0], memory, tile, column, None, commit=True)


def _pipeline(b: Builder) -> None:
    """Copies some iterations ahead, in slots that rotate."""
    tile, operation = _tile(b), b.pick(("gather_to_lds", *(o for o in b.facts.copies if o != "lds_to_global")))
    slots = b.rng.randint(1, 3)
    ahead = b.rng.randint(1, slots)
    if b.chance(0.2):
        ahead = b.rng.randint(1, 2)
    memory = b.alloc((b.waves, tile.shape[0]), tile.dtype, slots)
    counter, care = b.facts.copies[operation], b.pick((0.6, 0.95, 1.0))
    commit = b.chance(0.92)
    units = _units(b, operation, tile)

    def slot(index: Index) -> Index | None:
        return index if slots > 1 else None

    for k in range(ahead):
        _copy(b, operation, memory, tile, 0, slot(number(k % slots)), commit)
        _noise(b, 1)

    def body() -> None:
        now = Index(((1, b.counters[-1]),), mod=slots)
        later = Index(((1, b.counters[-1]),), ahead % slots if b.chance(0.9) else 1 % slots, mod=slots)
        early = b.chance(0.4)

        def copy() -> None:
            _copy(b, operation, memory, tile, 0, slot(later), commit)

        if early:
            b.maybe_conditional(0.15, copy, of_waves=0.1)
        noise = _noise(b, 1)
        exact = (ahead if early else ahead - 1) * units
        _publish(b, counter, _guess(b, exact, noise), care)
        _fetch(b, memory, tile, 0, slot(now), 0.15)
        if not early:
            if b.chance(0.75):
                b.barrier("drain" if b.chance(0.7) else "")
            elif b.chance(0.5):
                if b.facts.lds_counter:
                    b.wait(b.facts.lds_counter, 0)
                else:
                    b.add(Sync("fence"))
            b.maybe_conditional(0.15, copy, of_waves=0.1)
        elif b.chance(0.8):
            b.barrier("drain" if b.chance(0.7) else "")

    b.loop(body)
    if b.chance(0.4):
        _publish(b, counter, 0, care)
        _fetch(b, memory, tile, 0, slot(number(b.rng.randrange(slots))), 0.15)


def _ordinary(b: Builder) -> None:
    """Counts of ordinary accesses, before bare barriers and split pairs."""
    tile = _tile(b)
    memory = b.alloc((b.waves, 2 * tile.shape[0]), tile.dtype)
    counter = b.facts.lds_counter

    def body() -> None:
        for k in range(b.rng.randint(1, 2)):
            b.add(Access("write", row(memory, k * tile.shape[0]), tile, b.source(tile)))
        _noise(b, 2)
        if counter and b.chance(0.85):
            b.wait(counter, b.pick((0, 0, 0, 1, 2)))
        if b.chance(0.9):
            b.barrier(b.pick(("bare", "bare", "drain", "pair")))
        _fetch(b, memory, tile, b.pick((0, 0, tile.shape[0])), None, 0.7)
        if b.counters:
            if counter and b.chance(0.8):
                b.wait(counter, b.pick((0, 0, 0, 0, 1)))
            if b.chance(0.9):
                b.barrier(b.pick(("bare", "drain", "pair")))

    if b.chance(0.5):
        b.loop(body)
    else:
        body()
