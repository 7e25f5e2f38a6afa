"""What a variable holds where regions leave it without one meaning.

Needs   the name of the variable and what is wrong with it
Gives   an object whose every use is a finding
Keeps   a variable that nobody uses is no mistake: showing and copying it finds nothing
Cost    constant
"""

from __future__ import annotations

from typing import Any, NoReturn

from tidegate.language.builder import reject


class Unusable:
    """Nothing to use: any operator, call or attribute of it is rejected with `message`."""

    def __init__(self, shown: str, message: str, help: str) -> None:
        self._shown, self._message, self._help = shown, message, help

    def __repr__(self) -> str:
        return self._shown

    def refuse(self, *_: Any) -> NoReturn:
        reject("TG014", self._message, self._help)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # Python asks for these by itself, to copy something or to show it
        self.refuse()

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __float__ = __index__ = __iter__ = __len__ = __getitem__ = __setitem__ = __contains__ = __call__ = refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = refuse
    __rshift__ = __rrshift__ = __neg__ = __abs__ = __invert__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = refuse


def refuse(*items: Any) -> None:
    """Rejects what cannot be used."""
    for item in items:
        if isinstance(item, Unusable):
            item.refuse()


def differs_between_arms(name: str, mine: Any, theirs: Any) -> Unusable:
    return Unusable(
        f"{mine!r} in one arm, {theirs!r} in the other",
        f"`{name}` is `{mine!r}` in one arm of a conditional and `{theirs!r}` in the other",
        "only tiles, buffers, indices and copies come out of a conditional",
    )


def only_in_one_arm(name: str, mine: Any) -> Unusable:
    return Unusable(
        f"{mine!r} in one arm only",
        f"`{name}` has a value in one arm of a conditional only",
        "give it a value in both arms, or before the conditional",
    )


def differs_between_waves(name: str, inside: Any, outside: Any) -> Unusable:
    return Unusable(
        f"{inside!r} in a wave group, {outside!r} outside it",
        f"`{name}` is `{inside!r}` in a wave group and `{outside!r}` outside it",
        "use it inside the group, or choose with `tidegate.select` or `tidegate.conditional`",
    )


def only_in_a_group(name: str, inside: Any) -> Unusable:
    return Unusable(
        f"{inside!r} in a wave group only",
        f"`{name}` has a value in a wave group only",
        "use it inside the group",
    )
