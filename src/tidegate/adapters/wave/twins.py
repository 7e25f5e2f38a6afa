"""Buffers that are always touched together, as parts of one.

Needs   buffers with their parts, and who touches them in which order
Gives   the same parts, numbered through for buffers that are touched alike: the two operands of a product, say
Keeps   two accesses touch a common part afterwards exactly if they did before
Cost    linear in the accesses

    write %a; write %b; read %a; read %b        write %a[0, 2); read %a[0, 2)
"""

from __future__ import annotations

from typing import Any

from tidegate.adapters.wave.parts import Parts
from tidegate.adapters.wave.values import Bases, Touching, Values

# What is done to a buffer, in order: in which region, how, in which turn.
Signature = tuple[tuple[int, str, bool, int], ...]


def join_twins(values: Values, parts: Parts, turns: dict[Any, tuple[Any, int]]) -> dict[Any, Any]:
    """Numbers the parts of twins through; for each allocation the one whose buffer it shares.

    `turns`: for what is used in turn, the first of its group, and its place among them.
    """
    groups: dict[Bases, list[Touching]] = {}
    for each in values.touching.values():
        if each.bases and next(iter(each.bases)) in parts.counts:
            groups.setdefault(each.bases, []).append(each)
    alike: dict[tuple[int, Signature], list[Bases]] = {}
    for bases, accesses in groups.items():
        signature: list[tuple[int, str, bool, int]] = []
        for each in accesses:
            place = turns.get(values.source(each.memory), (None, 0))[1]
            step = (id(each.node.graph), each.effect, each.is_async, place)
            if not signature or signature[-1] != step:
                signature.append(step)
        alike.setdefault((len(bases), tuple(signature)), []).append(bases)
    shares: dict[Any, Any] = {}
    for twins in alike.values():
        if len(twins) < 2 or not all(_is_ordered(each, turns) for each in twins):
            continue
        own = [parts.counts[next(iter(bases))] for bases in twins]
        for number, bases in enumerate(twins):
            shift = sum(own[:number])
            for each in groups[bases]:
                first, many = parts.spans.get(each.node, (0, own[number]))
                parts.spans[each.node] = (first + shift, many)
            parts.counts |= dict.fromkeys(bases, sum(own))
            shares |= {each: _partner(each, twins[0], turns) for each in bases}
    return shares


def _is_ordered(bases: Bases, turns: dict[Any, tuple[Any, int]]) -> bool:
    return len(bases) == 1 or all(each in turns for each in bases)


def _partner(node: Any, bases: Bases, turns: dict[Any, tuple[Any, int]]) -> Any:
    """The allocation of another group with the same place in it."""
    place = turns.get(node, (None, 0))[1]
    return next(each for each in bases if turns.get(each, (None, 0))[1] == place)
