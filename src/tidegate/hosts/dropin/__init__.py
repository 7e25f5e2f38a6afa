"""What the drop-ins for other compilers share: they are switched on and off, and tell what was compiled.

Needs   what is to be done when the first mode comes and when the last one goes; entries that can say themselves
Gives   `Modes`: who places barriers now, installed or for a while; `Log` and its `Report`
Keeps   modes nest, and may end in another order than they began; what was said of a kernel is said once
Cost    constant
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tidegate.assumptions import OF_HOSTS, assumptions_to_json

Mode = TypeVar("Mode")


class Modes(Generic[Mode]):
    """Who places barriers now: the mode of the innermost `during`, else the installed one, else `off`."""

    def __init__(self, off: Mode, start: Callable[[], None], stop: Callable[[], None]) -> None:
        """`start` is called when a mode has come, `stop` when one has gone, also if others are left."""
        self.off, self.start, self.stop = off, start, stop
        self.lock = threading.RLock()
        self.stack: list[Mode] = []  # the last one holds; the first is the installed one

    @property
    def current(self) -> Mode:
        return self.stack[-1] if self.stack else self.off

    @property
    def is_empty(self) -> bool:
        return not self.stack

    def install(self, mode: Mode) -> None:
        with self.lock:
            self.stack[:1] = [mode]
            self.start()

    def uninstall(self) -> None:
        with self.lock:
            self.stack[:1] = [self.off] if len(self.stack) > 1 else []
            self.stop()

    @contextmanager
    def during(self, mode: Mode) -> Iterator[None]:
        with self.lock:
            if not self.stack:
                self.stack.append(self.off)
            self.stack.append(mode)
            self.start()
        try:
            yield
        finally:
            with self.lock:
                del self.stack[max(place for place, each in enumerate(self.stack) if each is mode)]
                if self.stack == [self.off]:
                    self.stack.clear()
                self.stop()


class Told(Protocol):
    """What was done to one kernel."""

    def lines(self) -> Iterator[str]:
        """The same in words."""


Entry = TypeVar("Entry", bound=Told)


@dataclass(frozen=True, slots=True)
class Report(Generic[Entry]):
    """All kernels that were compiled with Tidegate switched on, in their order."""

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """What proofs of these kernels hold under, as in `check --json`."""
        return assumptions_to_json(OF_HOSTS) if self.entries else []

    def __str__(self) -> str:
        if not self.entries:
            return "no kernel was compiled with Tidegate so far"
        return "\n".join(line for each in self.entries for line in each.lines())


class Log(Generic[Entry]):
    """Entries of one drop-in, and what was said of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: list[Entry] = []
        self.said: set[Hashable] = set()

    def add(self, entry: Entry) -> None:
        with self.lock:
            self.entries.append(entry)

    def is_new(self, what: Hashable) -> bool:
        """Whether this is said for the first time."""
        with self.lock:
            if what in self.said:
                return False
            self.said.add(what)
            return True

    def report(self) -> Report[Entry]:
        with self.lock:
            return Report(tuple(self.entries))

    def clear(self) -> None:
        with self.lock:
            self.entries.clear()
            self.said.clear()


def count_barriers_in_words(count: int) -> str:
    return f"{count} barrier{'s' * (count != 1)}"
