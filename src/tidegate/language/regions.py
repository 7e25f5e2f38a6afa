"""Loops, conditions and wave groups in traced Python.

Needs   the variables of a traced function, before a region and at its end
Gives   the region as an operation, and what each variable holds behind it
Keeps   a variable that a region leaves without one meaning is `Unusable`; one that nobody uses is no mistake
Cost    linear in the variables that the region assigns, and in what they reach

`rewrite` turns `for k in tidegate.iterate(...)` into calls of `Loop.enter` and `Loop.leave`, so that the variables that
the body assigns become carried values, as a reader expects. These classes hold what lies between those calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, NoReturn

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.index import Const
from tidegate.language.arguments import whole
from tidegate.language.builder import active, reject
from tidegate.language.handles import Handle
from tidegate.language.index_handles import IndexHandle, as_number, to_cond, to_index, to_operand
from tidegate.language.ops import Block, Carried, Group, Op, Operand, Value
from tidegate.language.state import Snapshot, has_ended, is_same
from tidegate.language.tile_handles import wrap
from tidegate.language.types import INDEX
from tidegate.language.unusable import (
    Unusable,
    differs_between_arms,
    differs_between_waves,
    only_in_a_group,
    only_in_one_arm,
)
from tidegate.language.uses import names_in_block


def iterate(*bounds: Any, expect: int | None = None) -> Loop:
    """A loop of the kernel: `iterate(n)`, `iterate(low, high)` or `iterate(low, high, step)`.

    Variables that the body assigns and that had a value before the loop are carried from one trip to the next.
    `expect` is a guess of the number of trips, for costs.
    """
    if not 1 <= len(bounds) <= 3:
        reject("TG012", f"`iterate` takes one to three bounds, not {len(bounds)}")
    lower, upper = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    return Loop(lower, upper, bounds[2] if len(bounds) == 3 else 1, expect)


class Loop:
    """A loop that is being traced: its body runs once."""

    def __init__(self, lower: Any, upper: Any, step: Any, expect: int | None) -> None:
        self.bounds = (to_index(lower), to_index(upper), to_index(step))
        self.expect = None if expect is None else whole(expect, "the expected number of trips", 0)
        self.at, self.key = active().here(), active().promise("loop")
        self.carried: dict[str, Carried] = {}
        self.results: dict[str, Any] = {}
        self.counter_hint, self.entered, self.left = "i", False, False

    def __iter__(self) -> Iterator[IndexHandle]:
        builder = active()
        builder.unentered.pop(self.key, None)
        self.counter = builder.counter(self.counter_hint)
        depth = len(builder.stack)
        builder.open()
        yield wrap(self.counter)
        if not self.entered:
            del builder.stack[depth:]
            reject(
                "TG007",
                "this loop is in a function that is not traced",
                "decorate the function with `@tidegate.function`",
            )
        self._check_left()

    def _check_left(self) -> None:
        """The body is traced once and to its end: leaving it early would drop it from the kernel."""
        if not self.left:
            text = "the body of this loop is left by `break` or `continue`"
            reject("TG007", text, "use `with tidegate.conditional(...)` for what some trips do", at=self.at)

    @property
    def after(self) -> dict[str, Any]:
        """What variables hold after the loop."""
        self._check_left()
        return self.results

    def enter(self, assigned: tuple[str, ...], local: Mapping[str, Any]) -> dict[str, Any]:
        """The body starts: variables that it assigns become carried values."""
        self.entered = True
        builder, inside = active(), {}
        for name in assigned:
            before = local.get(name)
            if isinstance(before, bool) or has_ended(before) or not _is_value(before):
                continue
            type_ = before.type if isinstance(before, Handle) else INDEX
            value = builder.fresh(name, type_)
            self.carried[name] = Carried(value, to_operand(before))
            inside[name] = wrap(value)
        self.snapshot = Snapshot(local, assigned, (self.counter_hint, *self.carried))
        return inside

    def leave(self, local: Mapping[str, Any]) -> None:
        """The body ends: what its variables hold now goes to the next trip."""
        builder = active()
        body = builder.stack[-1]
        self.left = True
        self.snapshot.check_trip(local)
        self._drop_unread(local, body)
        block = builder.close(_carry_on(name, local.get(name)) for name in self.carried)
        lower, upper, step = self.bounds
        carried = tuple(self.carried.values())
        results = builder.loop(lower, upper, block, self.counter, carried, step, self.expect, self.at)
        self.results = {name: wrap(value) for name, value in zip(self.carried, results, strict=True)}

    def _drop_unread(self, local: Mapping[str, Any], body: list[Op]) -> None:
        """What the body never reads is not carried if it ends as it began (the counter of an unrolled loop), or as
        something that cannot be used."""
        candidates = [name for name, each in self.carried.items() if _ends_for_nobody(each, local.get(name))]
        if candidates:
            used = names_in_block(Block(tuple(body)))
            for name in candidates:
                if self.carried[name].value.name not in used:
                    del self.carried[name]


def _ends_for_nobody(carried: Carried, after: Any) -> bool:
    if isinstance(after, Unusable):
        return True
    return isinstance(carried.init, Const) and isinstance(after, int) and carried.init.value == after


def _is_value(item: Any) -> bool:
    """Whether a kernel can carry or merge it."""
    return isinstance(item, Handle | IndexHandle) or as_number(item) is not None


def _carry_on(name: str, item: Any) -> Operand:
    if not isinstance(item, Unusable) and _is_value(item):
        return to_operand(item)
    help = "let it hold a value of the kernel, or use another name in the body"
    reject("TG013", f"`{name}` is carried by the loop, but its body leaves `{item!r}` in it", help)


def conditional(cond: Any) -> Branch:
    """A condition of the kernel; `with tidegate.otherwise():` right after it is its other arm."""
    return Branch(cond)


def otherwise() -> Any:
    """The other arm of the conditional just before."""
    help = "put `with tidegate.otherwise():` right after the block of a `conditional`"
    reject("TG007", "`otherwise` without a `conditional` before it", help)


class Branch:
    """A conditional that is being traced: both arms run."""

    def __init__(self, cond: Any) -> None:
        self.cond, self.at = to_cond(cond), active().here()
        self.before: dict[str, Any] = {}
        self.then_values: dict[str, Any] = {}
        self.then_block = Block()
        self.saved = self.closed = False
        self.key = active().promise("conditional")

    def __enter__(self) -> None:
        active().unentered.pop(self.key, None)
        active().open()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            _stop_after_exception("conditional", self.at)
        if kind is None and not self.closed:
            active().stack.pop()
            _reject_open("conditional", self.saved, self.at, "let its arms end")
        self.closed = False

    def save(self, names: tuple[str, ...], local: Mapping[str, Any]) -> None:
        self.before = {name: local[name] for name in names if name in local}
        self.snapshot = Snapshot(local, names)
        self.saved = True

    def end_then(self, names: tuple[str, ...], local: Mapping[str, Any]) -> None:
        self.snapshot.check_arm(local, "an arm of this conditional")
        self.then_values = {name: local[name] for name in names if name in local and not has_ended(local[name])}
        self.then_block = active().close()
        self.closed = True

    def end_otherwise(self, names: tuple[str, ...], local: Mapping[str, Any]) -> dict[str, Any]:
        """Both arms are traced: variables that differ between them become results."""
        builder = active()
        self.snapshot.check_arm(local, "an arm of this conditional")
        else_values = {name: local[name] for name in names if name in local and not has_ended(local[name])}
        self.closed = True
        merged = [name for name in names if self._differs(name, else_values)]
        for name in merged:
            _same_kind(name, self.then_values[name], else_values[name])
        then = replace(self.then_block, yields=tuple(to_operand(self.then_values[name]) for name in merged))
        other = builder.close(to_operand(else_values[name]) for name in merged)
        results = builder.branch(self.cond, then, other, tuple(merged), self.at)
        found = {name: wrap(value) for name, value in zip(merged, results, strict=True)}
        return self._unusable(names, else_values) | found

    def _unusable(self, names: tuple[str, ...], other: Mapping[str, Any]) -> dict[str, Any]:
        """Variables that have no one meaning after the arms."""
        found, mine = {}, self.then_values
        for name in names:
            if name in mine and name in other:
                if not is_same(mine[name], other[name]):
                    found[name] = differs_between_arms(name, mine[name], other[name])
            elif name in mine or name in other:
                found[name] = only_in_one_arm(name, mine.get(name, other.get(name)))
        return found

    def _differs(self, name: str, other: Mapping[str, Any]) -> bool:
        if name not in self.then_values or name not in other:
            return False
        mine, theirs = self.then_values[name], other[name]
        if not _is_value(mine) or not _is_value(theirs):
            return False
        return not is_same(mine, theirs)


def _same_kind(name: str, mine: Any, theirs: Any) -> None:
    if isinstance(mine, Handle) != isinstance(theirs, Handle):
        help = "give it a value of one type in both"
        reject("TG014", f"`{name}` is `{mine!r}` in one arm and `{theirs!r}` in the other", help)


class wave_group:
    """Waves `first` up to, not including, `last` run what stands in the `with` block; the others pass by."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = whole(first, "the first wave"), whole(last, "the wave after the last")
        self.at, self.key = active().here(), active().promise("wave group")
        self.saved = self.ended = False

    def __enter__(self) -> None:
        active().unentered.pop(self.key, None)
        active().open()

    def save(self, names: tuple[str, ...], local: Mapping[str, Any]) -> None:
        self.before = {name: local[name] for name in names if name in local}
        self.snapshot = Snapshot(local, names)
        self.saved = True

    def end(self, names: tuple[str, ...], local: Mapping[str, Any]) -> dict[str, Any]:
        """The body ends: what it assigned holds for its waves alone, so variables are as before, or unusable."""
        self.snapshot.check_arm(local, "this wave group")
        self.ended = True
        found = {}
        for name in names:
            before = self.before.get(name)
            if name in self.before and (has_ended(before) or is_same(before, local.get(name))):
                found[name] = before
            elif name in self.before:
                found[name] = differs_between_waves(name, local.get(name), before)
            elif name in local:
                found[name] = only_in_a_group(name, local[name])
        return found

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        body = active().close()
        if kind is not None:
            _stop_after_exception("wave group", self.at)
            return
        if not self.ended:
            _reject_open("wave group", self.saved, self.at, "let its body end")
        active().group(Group(self.first, self.last, body, self.at), self.at)


def _reject_open(what: str, traced: bool, at: Span, help: str) -> NoReturn:
    """A region whose end was never reached."""
    if traced:
        text = f"this {what} is left by `return`, `break` or `continue`"
    else:
        text, help = (
            f"this {what} is in a function that is not traced",
            "decorate the function with `@tidegate.function`",
        )
    reject("TG007", text, help, at=at)


def _stop_after_exception(what: str, at: Span) -> None:
    """The kernel is lost even if its function catches the exception: the rest of this region was not recorded."""
    if active().stopped is None:
        text = f"this {what} is left by an exception that the kernel catches"
        active().stopped = BadInput(Finding("TG007", text, (Label(at),), help="let the region end"))


def discard(item: Any) -> Any:
    """An expression that stands alone: a generator or a coroutine would never run."""
    if isinstance(item, GeneratorType | CoroutineType | AsyncGeneratorType):
        if isinstance(item, CoroutineType):
            item.close()  # or Python warns that it was never awaited
        reject("TG007", "what this statement calls never runs", "call a function without `yield` and `async`")
    return item


def name_result(name: str, item: Any) -> Any:
    """`name = item` in a traced function: an operation just recorded takes the variable's name."""
    if isinstance(item, Handle) and type(item.value) is Value:
        item.value = active().rename_last(item.value, name)
    return item
