"""Pairs of threads, against all pairs tried one by one; and fences that only some waves come to."""

from __future__ import annotations

import random

import pytest

from tidegate.footprint.model import Pieces
from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.index import Binary, Const, Name, holds
from tidegate.language.ops import Fence, WorkgroupBarrier
from tidegate.targets import load_target
from tidegate.verify.threads import ThreadPairs
from tidegate.verify.verify import verify

LANES = 4


def pieces(rnd: random.Random, threads: int) -> Pieces:
    top = rnd.choice((8, 40, 100))
    starts = tuple(None if rnd.random() < 0.2 else rnd.randrange(top) for _ in range(threads))
    return Pieces(starts, rnd.choice((1, 2, 4, 8)), LANES, rnd.random() < 0.1)


def tried(x: Pieces, y: Pieces, kind: str, of: frozenset[int] | None, distance: int) -> bool:
    for s, one in enumerate(x.starts):
        for t, other in enumerate(y.starts):
            if one is None or other is None or (of is not None and s // LANES not in of):
                continue
            same = s // LANES == t // LANES
            together = x.collective or y.collective
            wanted = {"apart": not same, "wave": same and (s != t or together), "lane": s == t}[kind]
            if wanted and one < distance + other + y.width and distance + other < one + x.width:
                return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_pairs_are_those_that_trying_finds(seed: int) -> None:
    rnd = random.Random(seed)
    x, y = pieces(rnd, 12), pieces(rnd, 12)
    of = rnd.choice((None, None, frozenset((0, 2))))
    for kind in ("apart", "wave", "lane"):
        for distance in range(-20, 21, 3):
            found = ThreadPairs(x, y, kind, of, Const(distance), Const(0)).condition(lambda _: (None, None))
            assert (found is not None) == tried(x, y, kind, of, distance), (kind, distance)


@pytest.mark.parametrize("seed", range(30))
def test_conditions_hold_where_they_meet(seed: int) -> None:
    rnd = random.Random(seed)
    x, y = pieces(rnd, 8), pieces(rnd, 8)
    step, rest = rnd.choice((4, 8, 16, 64)), rnd.randrange(8)
    apart = Binary("+", Binary("*", Name("#0"), Const(step)), Const(rest))
    for kind in ("apart", "wave"):
        pairs = ThreadPairs(x, y, kind, None, apart, Const(0))
        found = pairs.condition(lambda _: (0, None))
        for k in range(12):
            meets = tried(x, y, kind, None, k * step + rest)
            assert (found is not None and holds(found[0], {"#0": k})) == meets
            if meets:
                assert pairs.witness({"#0": k})


def graph(*between: g.Sync) -> g.SyncGraph:
    b = GraphBuilder("k", waves=2, wave_lanes=32)
    b.buffer("%a", 1024)
    b.threads("%own", tuple(range(0, 256, 4)))
    b.threads("%next", tuple((thread ^ 1) * 4 for thread in range(64)))
    b.add(g.Access("write", g.Footprint(g.Ref("%a"), (), 4, False, "%own")))
    for each in between:
        b.add(each)
    b.add(g.Access("read", g.Footprint(g.Ref("%a"), (), 4, False, "%next")))
    return b.finish()


@pytest.mark.parametrize(
    ("between", "right"),
    [
        ((), False),
        ((g.Sync(Fence("wave")),), True),
        ((g.Sync(Fence("wave"), (1,)),), False),
        ((g.Sync(Fence("wave"), (1,)), g.Sync(Fence("wave"), (0,))), True),
        ((g.Sync(WorkgroupBarrier()),), True),
    ],
)
def test_fences_count_for_waves_that_come_to_them(between: tuple[g.Sync, ...], right: bool) -> None:
    assert verify(graph(*between), load_target("sm_80")).is_proved == right
