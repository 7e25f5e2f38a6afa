"""What was done to the Wave kernels of this process.

Needs   what came of each trace
Gives   `report()`: a line for each kernel, with its barriers and why they stand
Keeps   a fallback is said once for each kernel and reason
Cost    a few lines of text for each kernel
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.wave.passing import Placement


class FallbackWarning(UserWarning):
    """A kernel keeps Wave's own barriers."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel as it was compiled."""

    kernel: str
    target: str
    placement: Placement
    schedule: str = ""  # how its loop was reordered

    @property
    def why_not(self) -> str:
        """Why it keeps Wave's barriers; empty if it does not."""
        return self.placement.why_not

    @property
    def barriers(self) -> int:
        return self.placement.barriers

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.placement.reasons


@dataclass(frozen=True, slots=True)
class Report:
    """All kernels that were compiled with Tidegate switched on, in their order."""

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        if not self.entries:
            return "no kernel was compiled with Tidegate so far"
        return "\n".join(line for each in self.entries for line in _lines(each))


def _lines(entry: Entry) -> Iterator[str]:
    name = f"@{entry.kernel} on {entry.target}"
    if entry.why_not:
        yield f"{name}: Wave's own barriers, since {entry.why_not}"
    else:
        count = entry.barriers
        proved = "; proved" if "prove" in entry.placement.seconds else ""
        yield f"{name}: {count} barrier{'s' * (count != 1)}{proved}"
        yield from (f"  {reason}" for reason in entry.reasons)
    if entry.schedule:
        yield f"  loop: {entry.schedule}"
    yield from (f"  unclear: {each}" for each in entry.placement.unclear)


_entries: list[Entry] = []
_said: set[tuple[str, str, str]] = set()
_lock = threading.Lock()


def report() -> Report:
    """What was changed in this process: kernels, barriers, why. `str(report())` is a text."""
    with _lock:
        return Report(tuple(_entries))


def clear_report() -> None:
    """Forgets what was compiled so far, and what was said of it."""
    with _lock:
        _entries.clear()
        _said.clear()


def record(entry: Entry) -> None:
    with _lock:
        _entries.append(entry)
    if entry.why_not:
        say_fallback(entry.kernel, entry.target, entry.why_not)


def say_fallback(kernel: str, target: str, why_not: str) -> None:
    with _lock:
        if (kernel, target, why_not) in _said:
            return
        _said.add((kernel, target, why_not))
    message = f"@{kernel} on {target} keeps Wave's own barriers: {why_not}"
    warnings.warn(message, FallbackWarning, stacklevel=2)
