"""Two texts of one program: does each access stay on its side of every barrier and every wait for copies?

Needs   the program before a compiler, and the final code, whose lines are those of the program before
Gives   `moved`: accesses that come to stand next to a barrier that they did not stand next to before
Keeps   all paths. Loops may be unrolled, turned or peeled and blocks copied: an access is asked for the lines of the
        last and the next synchronization on any path, and the final code may have no others than the program had.
        Instructions without a line are counted, and what was merged or removed is not asked
Cost    linear in the code times its barriers

Within one stretch between barriers nothing is asked: only accesses that conflict have to keep their order there, and
the text alone does not say which do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oracles.code import Block, Code, Event

START, END = -1, -2


@dataclass(frozen=True, slots=True)
class Sides:
    """For each access, by its line, the lines of the synchronization that may come last before it and next behind."""

    last: dict[int, frozenset[int]]
    next: dict[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Compared:
    asked: int  # accesses of the program before that the final code still has
    syncs: int  # barriers and waits, too
    unplaced: int  # accesses of the final code without a line
    moved: tuple[str, ...]


def compare(before: Code, after: Code) -> Compared:
    told, found = sides_of(before), sides_of(after)
    wrong = []
    for word, one, other in (("behind", told.last, found.last), ("before", told.next, found.next)):
        for line, syncs in sorted(other.items()):
            if line in one and not syncs <= one[line]:
                places = ", ".join(_place(each) for each in sorted(syncs - one[line]))
                wrong.append(f"line {line} now comes right {word} {places}")
    syncs = {each.line for each in before.events if _is_sync(each)} & {each.line for each in after.events}
    unplaced = sum(each.touches_lds and each.line <= 0 for each in after.events)
    return Compared(len(told.last.keys() & found.last.keys()), len(syncs), unplaced, tuple(wrong))


def _place(line: int) -> str:
    return {START: "the start", END: "the end"}.get(line, f"line {line}")


def sides_of(code: Code) -> Sides:
    turned = _turned(code)
    ends = [number for number, block in enumerate(code.blocks) if block.may_end or not block.after]
    return Sides(_last(code, [0], START), _last(turned, ends, END))


def _turned(code: Code) -> Code:
    """The same code, executed from its ends to its start."""
    blocks = [Block(block.events[::-1]) for block in code.blocks]
    for number, block in enumerate(code.blocks):
        for each in block.after:
            blocks[each].after.append(number)
    return Code(tuple(blocks))


def _last(code: Code, entries: list[int], outside: int) -> dict[int, frozenset[int]]:
    known: list[frozenset[int]] = [frozenset()] * len(code.blocks)
    for each in entries:
        known[each] = frozenset([outside])
    todo, found = list(entries), {}
    while todo:
        number = todo.pop()
        end = _through(code.blocks[number], known[number], lambda event, lasts: None)
        for each in code.blocks[number].after:
            if not end <= known[each]:
                known[each] |= end
                todo.append(each)

    def note(event: Event, lasts: frozenset[int]) -> None:
        if event.touches_lds and event.line > 0 and lasts:
            found[event.line] = found.get(event.line, frozenset()) | lasts

    for number, block in enumerate(code.blocks):
        _through(block, known[number], note)
    return found


def _through(block: Block, lasts: frozenset[int], note: Callable[[Event, frozenset[int]], None]) -> frozenset[int]:
    for event in block.events:
        note(event, lasts)
        if _is_sync(event) and lasts:
            lasts = frozenset([event.line]) | (lasts if event.when else frozenset())
    return lasts


def _is_sync(event: Event) -> bool:
    """Where order is made: barriers, and waits for groups. AMD's compiler adds and merges other waits as it likes."""
    return event.arrives or event.departs or any(queue == "group" for queue, _ in event.waits)
