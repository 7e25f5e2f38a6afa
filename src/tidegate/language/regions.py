"""Loops, conditions and wave groups in traced Python.

`rewrite` turns `for k in tidegate.iterate(...)` into calls of `Loop.enter` and `Loop.leave`, so that the variables that
the body assigns become carried values, as a reader expects. These classes hold what lies between those calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from tidegate.diag import BadInput, Finding, Label
from tidegate.index import Const, names
from tidegate.language.builder import active, reject
from tidegate.language.handles import CondHandle, Handle, IndexHandle, to_cond, to_index, to_operand, wrap
from tidegate.language.ops import Block, Carried, Group, Op, Operand, Value
from tidegate.language.types import INDEX
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
        self.expect, self.at = expect, active().here()
        self.carried: dict[str, Carried] = {}
        self.results: dict[str, Any] = {}
        self.plain: dict[str, Any] = {}
        self.counter_hint, self.entered, self.left = "i", False, False

    def __iter__(self) -> Iterator[IndexHandle]:
        builder = active()
        self.counter = builder.counter(self.counter_hint)
        depth = len(builder.stack)
        builder.open()
        yield wrap(self.counter)
        if not self.entered:
            del builder.stack[depth:]
            reject(
                "TG007",
                "this loop stands in a function that is not traced",
                "decorate the function with `@tidegate.function`",
            )
        self._check_left()

    def _check_left(self) -> None:
        """The body is traced once and to its end: leaving it early would drop it from the kernel."""
        if not self.left:
            raise BadInput(
                Finding(
                    "TG007",
                    "the body of this loop is left by `break` or `continue`",
                    (Label(self.at),),
                    help="use `with tidegate.conditional(...)` for what some trips do",
                )
            )

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
            if isinstance(before, bool) or not isinstance(before, Handle | IndexHandle | int) or has_ended(before):
                if name in local:
                    self.plain[name] = before
                continue
            type_ = before.type if isinstance(before, Handle) else INDEX
            value = builder.fresh(name, type_)
            self.carried[name] = Carried(value, to_operand(before))
            inside[name] = wrap(value)
        return inside

    def leave(self, local: Mapping[str, Any]) -> None:
        """The body ends: what its variables hold now goes to the next trip."""
        builder = active()
        body = builder.stack[-1]
        self.left = True
        for name, before in self.plain.items():
            if _is_lost(before, local.get(name)):
                reject(
                    "TG013",
                    f"`{name}` is `{before!r}` before the loop and `{local.get(name)!r}` after a trip",
                    "only tiles, buffers, indices and copies are carried, each in a variable of its own",
                )
        self._drop_unread_numbers(local, body)
        block = builder.close(_carry_on(name, local.get(name)) for name in self.carried)
        lower, upper, step = self.bounds
        carried = tuple(self.carried.values())
        results = builder.loop(lower, upper, block, self.counter, carried, step, self.expect, self.at)
        self.results = {name: wrap(value) for name, value in zip(self.carried, results, strict=True)}

    def _drop_unread_numbers(self, local: Mapping[str, Any], body: list[Op]) -> None:
        """A Python number that the body only overwrites (the counter of an unrolled loop) is not carried."""
        candidates = [
            name
            for name, each in self.carried.items()
            if isinstance(each.init, Const) and isinstance(local.get(name), int)
        ]
        if candidates:
            used = names_in_block(Block(tuple(body)))
            for name in candidates:
                if self.carried[name].value.name not in used:
                    del self.carried[name]


def has_ended(item: Any) -> bool:
    """Whether a variable still holds a value of a region that has ended: then it holds nothing."""
    ended = active().ended
    if isinstance(item, Handle):
        return item.value.name in ended
    if isinstance(item, CondHandle):
        return any(name in ended for name in names(item.cond))
    if isinstance(item, tuple | list):
        return any(map(has_ended, item))
    return isinstance(item, IndexHandle) and any(name in ended for name in names(item.expr))


def _is_lost(before: Any, after: Any) -> bool:
    """Whether a loop changes something that it cannot carry: later trips would not see it."""
    return not has_ended(before) and _is_other(before, after)


def _is_other(before: Any, after: Any) -> bool:
    if before is after:
        return False
    if before is None or isinstance(before, bool | float | str):
        return type(before) is not type(after) or bool(before != after)
    if isinstance(before, CondHandle):
        return not (isinstance(after, CondHandle) and after.cond == before.cond)
    items = [each for group in (before, after) if isinstance(group, tuple | list) for each in group]
    return isinstance(before, tuple | list) and any(isinstance(each, Handle | IndexHandle) for each in items)


def _carry_on(name: str, item: Any) -> Operand:
    if isinstance(item, Handle | IndexHandle | int):
        return to_operand(item)
    help = "let it hold a value of the kernel, or use another name in the body"
    reject("TG013", f"`{name}` is carried by the loop, but its body leaves `{item!r}` in it", help)


def conditional(cond: Any) -> Branch:
    """A condition of the kernel; `with tidegate.otherwise():` right after it is its other arm."""
    return Branch(cond)


def otherwise() -> Any:
    """The other arm of the conditional just before."""
    help = "put `with tidegate.otherwise():` right behind the block of a `conditional`"
    reject("TG007", "`otherwise` stands without a `conditional` before it", help)


class Branch:
    """A conditional that is being traced: both arms run."""

    def __init__(self, cond: Any) -> None:
        self.cond, self.at = to_cond(cond), active().here()
        self.before: dict[str, Any] = {}
        self.then_values: dict[str, Any] = {}
        self.then_block = Block()
        self.saved = self.closed = False

    def __enter__(self) -> None:
        active().open()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self.closed:
            active().stack.pop()
            if self.saved:
                text, help = "this conditional is left by `return`, `break` or `continue`", "let its arms end"
            else:
                text = "this conditional stands in a function that is not traced"
                help = "decorate the function with `@tidegate.function`"
            raise BadInput(Finding("TG007", text, (Label(self.at),), help=help))
        self.closed = False

    def save(self, names: tuple[str, ...], local: Mapping[str, Any]) -> None:
        self.before = {name: local[name] for name in names if name in local}
        self.saved = True

    def end_then(self, names: tuple[str, ...], local: Mapping[str, Any]) -> None:
        self.then_values = {name: local[name] for name in names if name in local and not has_ended(local[name])}
        self.then_block = active().close()
        self.closed = True

    def end_otherwise(self, names: tuple[str, ...], local: Mapping[str, Any]) -> dict[str, Any]:
        """Both arms are traced: variables that differ between them become results."""
        builder = active()
        else_values = {name: local[name] for name in names if name in local and not has_ended(local[name])}
        self.closed = True
        merged = [name for name in names if self._differs(name, else_values)]
        for name in merged:
            _same_kind(name, self.then_values[name], else_values[name])
        then = replace(self.then_block, yields=tuple(to_operand(self.then_values[name]) for name in merged))
        other = builder.close(to_operand(else_values[name]) for name in merged)
        results = builder.branch(self.cond, then, other, tuple(merged), self.at)
        both = [name for name in names if name in self.then_values and name in else_values and name not in merged]
        lost = {name: Differs(name, self.then_values[name], else_values[name]) for name in both}
        return {name: each for name, each in lost.items() if each.does()} | {
            name: wrap(value) for name, value in zip(merged, results, strict=True)
        }

    def _differs(self, name: str, other: Mapping[str, Any]) -> bool:
        mine, theirs = self.then_values.get(name), other.get(name)
        kinds = (Handle, IndexHandle, int)
        if not isinstance(mine, kinds) or not isinstance(theirs, kinds):
            return False
        if isinstance(mine, int) and isinstance(theirs, int):
            return mine != theirs
        return mine is not theirs


def _same_kind(name: str, mine: Any, theirs: Any) -> None:
    if isinstance(mine, Handle) != isinstance(theirs, Handle):
        help = "give it a value of one type in both"
        reject("TG014", f"`{name}` is `{mine!r}` in one arm and `{theirs!r}` in the other", help)


class Differs:
    """What a variable holds after a conditional whose arms left different Python values in it: nothing to use."""

    def __init__(self, name: str, mine: Any, theirs: Any) -> None:
        self.name, self.mine, self.theirs = name, mine, theirs

    def does(self) -> bool:
        is_value = [isinstance(each, Handle | IndexHandle | int) for each in (self.mine, self.theirs)]
        return is_value[0] != is_value[1] or (not is_value[0] and _is_other(self.mine, self.theirs))

    def __repr__(self) -> str:
        return f"{self.mine!r} in one arm, {self.theirs!r} in the other"

    def _reject(self, *_: Any) -> NoReturn:
        reject(
            "TG014",
            f"`{self.name}` is `{self.mine!r}` in one arm of a conditional and `{self.theirs!r}` in the other",
            "only tiles, buffers, indices and copies come out of a conditional",
        )

    __bool__ = __float__ = __index__ = __iter__ = __len__ = __getitem__ = __call__ = _reject
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _reject
    __floordiv__ = __mod__ = __neg__ = __and__ = __rand__ = __or__ = __ror__ = __invert__ = _reject
    __lt__ = __le__ = __gt__ = __ge__ = _reject


class wave_group:
    """Waves `first` up to, not including, `last` run what stands in the `with` block; the others pass by."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last, self.at = first, last, active().here()

    def __enter__(self) -> None:
        active().open()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        body = active().close()
        if kind is None:
            active().group(Group(self.first, self.last, body, self.at), self.at)


def name_result(name: str, item: Any) -> Any:
    """`name = item` in a traced function: an operation just recorded takes the variable's name."""
    if isinstance(item, Handle) and type(item.value) is Value:
        item.value = active().rename_last(item.value, name)
    return item
