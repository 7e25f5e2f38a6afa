"""Two texts of AMD's assembly side by side: on all paths, what one does between its barriers the other does too.

Needs   the events of what a compiler made, and of what it was told (`tidegate.comparison.paths`)
Gives   `mismatches`: where the first goes a way that the second does not have
Keeps   a way through the one is the same events in a way through the other, with no more of each kind of access
        between them, and no more in flight at them: loops may be unrolled or peeled, blocks copied, accesses joined
Cost    the events of the one times those of the other, at worst; for most kernels a millisecond

    plan                     assembly                 says
    ds_write 16              ds_write_b128 v0, v[2:5]
    s_waitcnt lgkmcnt(0)     s_barrier                line 2: accesses of lines 1 are in flight
    s_barrier                ds_read_b128 v[2:5], v1
    ds_read 16
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.comparison.paths import END, ENTRY, KINDS, WITHOUT_END, Events, Weights


@dataclass(frozen=True, slots=True)
class Mismatch:
    line: int  # of the assembly; ENTRY and END are no lines
    kind: str  # order, between, undrained, copies
    what: str


def mismatches(made: Events, told: Events, *, goes_on: bool = False) -> tuple[list[Mismatch], dict[int, set[int]]]:
    """Where the assembly leaves its plan, and which events of the plan each of its events may be.

    `goes_on`: an event that the plan does not have is passed over, so that what comes behind it is compared, too.
    """
    found: dict[tuple[int, str], Mismatch] = {}
    matched: dict[int, set[int]] = {}
    todo = [(ENTRY, frozenset({ENTRY}))]
    seen = set(todo)
    while todo:
        line, places = todo.pop()
        for after, weights in made.after[line].items():
            fitting, wrong = _fitting(made, told, after, weights, places)
            for each in wrong:
                found.setdefault((each.line, each.kind), each)
            matched.setdefault(after, set()).update(fitting)
            state = (after, frozenset(fitting) or (places if goes_on else frozenset()))
            if state[1] and after != END and state not in seen:
                seen.add(state)
                todo.append(state)
    if not found:
        matched = _told_apart(made, told, matched)
    return sorted(found.values(), key=lambda each: (each.line, each.kind)), matched


def _told_apart(made: Events, told: Events, matched: dict[int, set[int]]) -> dict[int, set[int]]:
    """Without pairs from which the two cannot go on alike, and without what only such pairs lead to."""
    pairs = {(ENTRY, ENTRY)} | {(line, place) for line, places in matched.items() for place in places}
    while True:
        wrong = {pair for pair in pairs if not _can_go_on(made, told, pair, pairs)}
        if not wrong:
            break
        pairs -= wrong
    found: dict[int, set[int]] = {}
    todo = [(ENTRY, ENTRY)] if (ENTRY, ENTRY) in pairs else []
    while todo:
        pair = todo.pop()
        for to in _after(made, pair):
            for place in _goes_on(made, told, pair, to, pairs):
                if place not in found.setdefault(to, set()):
                    found[to].add(place)
                    todo.append((to, place))
    return found or matched


def _can_go_on(made: Events, told: Events, pair: tuple[int, int], pairs: set[tuple[int, int]]) -> bool:
    return all(list(_goes_on(made, told, pair, to, pairs)) for to in _after(made, pair))


def _after(events: Events, pair: tuple[int, int]) -> dict[int, Weights]:
    return events.after.get(pair[0], {})


def _goes_on(made: Events, told: Events, pair: tuple[int, int], to: int, pairs: set[tuple[int, int]]) -> Iterator[int]:
    """Events of the plan that come next where the assembly comes to `to`."""
    weights = made.after[pair[0]][to]
    for place, most in told.after[pair[1]].items():
        is_alike = made.names[to] == told.names[place] and all(map(int.__le__, weights, most))
        if (to, place) in pairs and is_alike and all(rule(made, told, to, place) for rule in RULES.values()):
            yield place


def _fitting(
    made: Events, told: Events, after: int, weights: Weights, places: frozenset[int]
) -> tuple[set[int], list[Mismatch]]:
    """Events of the plan that the next one may be; if there is none, those that it is nearest to, and why not."""
    steps = [(each, most) for place in sorted(places) for each, most in told.after[place].items()]
    named = [(each, most) for each, most in steps if made.names[after] == told.names[each]]
    if not named:
        return set(), [Mismatch(after, "order", f"`{made.names[after]}`, where the plan has {_names(told, steps)}")]
    wrong: list[Mismatch] = []
    roomy = [(each, most) for each, most in named if all(map(int.__le__, weights, most))]
    if not roomy:
        more = f"{_bytes(weights)} before it, in the plan {' or '.join(_bytes(most) for _, most in named)}"
        wrong.append(Mismatch(after, "between", more))
    kept = {each for each, _ in roomy or named}
    for kind, rule in RULES.items():
        good = {each for each in kept if rule(made, told, after, each)}
        if not good:
            wrong.append(Mismatch(after, kind, _why(made, told, after, kept, kind)))
        kept = good or kept
    return kept, wrong


def _is_drained(made: Events, told: Events, after: int, each: int) -> bool:
    return not made.undrained.get(after) or bool(told.undrained.get(each))


def _has_landed(made: Events, told: Events, after: int, each: int) -> bool:
    return made.copies.get(after, 0) <= told.copies.get(each, 0)


RULES = {"undrained": _is_drained, "copies": _has_landed}


def _why(made: Events, told: Events, after: int, places: set[int], kind: str) -> str:
    if kind == "undrained":
        return f"accesses of lines {', '.join(map(str, made.undrained[after]))} are in flight"
    most = max(told.copies.get(each, 0) for each in places)
    return f"{made.copies[after]} copies are in flight, in the plan {most}"


def _names(told: Events, steps: list[tuple[int, Weights]]) -> str:
    return " or ".join(sorted({f"`{told.names[each]}`" for each, _ in steps})) or "nothing"


def _bytes(weights: Weights) -> str:
    said = list(_said(weights))
    return ", ".join(said) or "nothing"


def _said(weights: Weights) -> Iterator[str]:
    for kind, count in zip(KINDS, weights, strict=True):
        if count:
            yield f"{kind} {'without end' if count >= WITHOUT_END else count}"
