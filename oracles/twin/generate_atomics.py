"""Programs with atomic additions on views of the same bytes: other types, widths, element boundaries, used results."""

from __future__ import annotations

from .builder import Builder, row
from .facts import BYTES
from .program import WAVE, Access, Compute, Index, Memory, Place, Sync, Tile, number

FOUR, EIGHT = ("i32", "f32"), ("i64", "f64")


def atomics(b: Builder) -> None:
    """Fill the builder with one program."""
    lanes = b.facts.lanes
    words = b.pick((lanes // 2, lanes, 2 * lanes)) + 8
    base = b.alloc((b.waves, words), b.pick(("i32", "f32", "i32", "i64")))
    if base.dtype == "i64":
        words *= 2
    views = [base, *(_view(b, base, words) for _ in range(b.pick((0, 1, 1, 2))))]
    shared = b.chance(0.65)
    density = b.pick((0.2, 0.5, 0.8, 1.0))
    width = b.pick((lanes // 2, lanes)) if words > lanes else lanes // 2
    main = b.pick((0.5, 0.8, 1.0))  # how often the buffer itself is meant
    total = b.rng.randint(2, 5)

    def some(count: int, start: bool) -> None:
        for k in range(count):
            if (k or start) and b.chance(density):
                _between(b)
            view = base if b.chance(main) else b.pick(views)
            b.maybe_conditional(0.12, lambda v=view: _one(b, v, width, shared), of_waves=0.5)  # type: ignore[misc]

    if b.chance(0.45):
        before = b.rng.randint(0, 2)
        some(before, False)
        b.loop(lambda: some(b.rng.randint(1, 3), True))
        some(b.rng.randint(0, 2), True)
    else:
        some(total, False)


def _view(b: Builder, base: Memory, words: int) -> Memory:
    """Another type of the same bytes; at times it starts one element later, so that boundaries do not meet."""
    dtype = b.pick(FOUR + EIGHT + EIGHT)
    columns = words * 4 // BYTES[dtype]
    if b.chance(0.25):
        size = BYTES[base.dtype]
        total = (b.waves * words * 4 - size) // BYTES[dtype]
        return b.view(base, (1, total), dtype, (0, 1))
    return b.view(base, (b.waves, columns), dtype)


def _between(b: Builder) -> None:
    roll = b.rng.random()
    if roll < 0.65:
        b.maybe_conditional(0.04, b.barrier, of_waves=0.2)
    elif roll < 0.85:
        b.add(Sync("fence"))
    elif b.facts.lds_counter:
        b.wait(b.facts.lds_counter, b.pick((0, 0, 1)))


def _one(b: Builder, view: Memory, width: int, shared: bool) -> None:
    tile = Tile((min(width, view.shape[-1]),), view.dtype)
    room = view.shape[-1] - tile.shape[0]
    kind = b.pick(("atomic", "atomic", "atomic", "read", "write"))
    common = shared and (kind != "write" or b.chance(0.3)) and (kind == "atomic" or b.chance(0.6))
    of = number(0) if common or view.shape[0] == 1 else WAVE
    column = number(0)
    if room and b.chance(0.2):
        column = number(b.rng.randint(1, min(room, 2)))
    elif room >= b.waves and b.chance(0.08):
        column = Index(((1, "wave"),))
    place = row(view, column, of)
    mask = b.mask(tile) if b.chance(0.1) else ""
    if kind == "read":
        name = b.name("r")
        b.add(Access("read", place, tile, result=name, mask=mask))
        b.store(name, tile)
        return
    _update(b, kind, place, tile, mask)


def _update(b: Builder, kind: str, place: Place, tile: Tile, mask: str) -> None:
    value = b.source(tile)
    if kind == "write":
        b.add(Access("write", place, tile, value, mask=mask))
        return
    roll = b.rng.random()
    name = b.name("o") if roll < 0.3 else ""
    b.add(Access("atomic", place, tile, value, name, mask))
    if name and roll < 0.18:
        b.store(name, tile)
    elif name and roll < 0.22:
        dead = b.name("d")
        b.add(Compute(f"%{dead} = add %{name}, %{name} : {tile.text()}", (name,), (name, dead), dead=True))
