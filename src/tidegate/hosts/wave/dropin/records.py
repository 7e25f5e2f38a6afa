"""What was done to the Wave kernels of this process.

Needs   what came of each trace
Gives   `report()`: a line for each kernel, with its barriers and why they stand
Keeps   a fallback is said once for each kernel and reason
Cost    a few lines of text for each kernel
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.hosts.dropin import Log, Report, count_barriers_in_words
from tidegate.hosts.dropin.final import Doubt, RaceWarning
from tidegate.hosts.wave.dropin.passing import Placement


class FallbackWarning(UserWarning):
    """A kernel keeps Wave's own barriers."""


@dataclass(slots=True)
class Entry:
    """One kernel as it was compiled."""

    kernel: str
    target: str
    placement: Placement
    schedule: str = ""  # how its loop was reordered
    asm_proved: bool | None = None  # None: nobody asked, or no assembly was made
    asm_doubt: str = ""  # what stands in the way of a proof of the assembly

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

    def lines(self) -> Iterator[str]:
        name = f"@{self.kernel} on {self.target}"
        if self.why_not:
            yield f"{name}: Wave's own barriers, since {self.why_not}"
        else:
            proved = "; proved" if "prove" in self.placement.seconds else ""
            yield f"{name}: {count_barriers_in_words(self.barriers)}{proved}"
            yield from (f"  {reason}" for reason in self.reasons)
        if self.schedule:
            yield f"  loop: {self.schedule}"
        yield from (f"  unclear: {each}" for each in self.placement.unclear)
        if self.asm_proved is not None:
            yield "  its assembly: proved" if self.asm_proved else f"  its assembly: not proved: {self.asm_doubt}"


_log: Log[Entry] = Log()


def report() -> Report[Entry]:
    """What was changed in this process: kernels, barriers, why. `str(report())` is a text."""
    return _log.report()


def clear_report() -> None:
    """Forgets what was compiled so far, and what was said of it."""
    _log.clear()


def record(entry: Entry) -> None:
    _log.add(entry)
    if entry.why_not:
        say_fallback(entry.kernel, entry.target, entry.why_not)


def record_assembly(entry: Entry, doubt: Doubt) -> None:
    """What the verifier says of the assembly, whoever placed its barriers."""
    entry.asm_proved, entry.asm_doubt = not doubt.words, doubt.words
    if doubt.is_race:
        message = f"@{entry.kernel} on {entry.target}: the assembly may have a race: {doubt.words}"
        warnings.warn(message, RaceWarning, stacklevel=2)


def say_fallback(kernel: str, target: str, why_not: str) -> None:
    if not _log.is_new((kernel, target, why_not)):
        return
    message = f"@{kernel} on {target} keeps Wave's own barriers: {why_not}"
    warnings.warn(message, FallbackWarning, stacklevel=2)
