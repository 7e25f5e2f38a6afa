"""What was done to the kernels of this process.

Needs   what came of each module
Gives   `report()`: a line for each kernel, with barriers before and after, and why
Keeps   a fallback is said once for each kernel and reason; Triton's own barriers are counted when somebody asks, and
        what cannot be counted is said to be so: a report never raises
Cost    the text of each module is kept, compressed; counting runs Triton's pass once
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tidegate.hosts.dropin import Log, Report, count_barriers_in_words
from tidegate.hosts.dropin.final import Doubt, RaceWarning
from tidegate.hosts.triton.dropin.placing import Placement, count_barriers
from tidegate.hosts.triton.dropin.split import Given


class FallbackWarning(UserWarning):
    """A kernel keeps Triton's own barriers."""


@dataclass(slots=True)
class Entry:
    """One kernel as it was compiled."""

    kernel: str
    target: str  # as Triton writes it: `cuda:90`
    why_not: str  # why it keeps Triton's barriers; empty if it does not
    reasons: tuple[str, ...]  # for what was put in
    seconds: float
    put: int  # barriers with Tidegate
    proved: bool | None  # None: nobody asked
    doubt: str = ""  # what stands in the way of a proof of Triton's own barriers
    ptx_proved: bool | None = None  # None: no proof of the PTX was requested, or the GPU has none
    ptx_doubt: str = ""  # what stands in the way of that proof
    asm_proved: bool | None = None  # the same for the assembly of AMD GPUs
    asm_doubt: str = ""
    _text: bytes = field(default=b"", repr=False)
    _before: int | None = field(default=None, repr=False)

    @property
    def before(self) -> int | None:
        """Barriers with Triton's own pass; None where they cannot be counted.

        Which waits are barriers depends on the GPU, and a GPU without a target file has nobody to say so.
        """
        if self._before is None and self._text:
            with suppress(Exception):  # a report of what was done must not end the program
                self._before = count_barriers(zlib.decompress(self._text).decode(), self.kernel)
            self._text = b""  # what cannot be counted is not tried again
        return self._before

    @property
    def after(self) -> int | None:
        """Barriers that the kernel has; None where they cannot be counted."""
        return self.before if self.why_not else self.put

    def lines(self) -> Iterator[str]:
        name = f"@{self.kernel} on {self.target}"
        if self.why_not:
            own = "barriers, which were not counted" if self.before is None else count_barriers_in_words(self.before)
            yield f"{name}: Triton's own {own}, since {self.why_not}"
            if self.doubt:
                yield f"  not proved: {self.doubt}"
            elif self.proved:
                yield "  proved"
            yield from self._lines_of_final()
            return
        own = "not counted" if self.before is None else str(self.before)
        yield f"{name}: {count_barriers_in_words(self.put)}, {own} with Triton's own pass; proved"
        yield from (f"  {reason}" for reason in self.reasons)
        yield from self._lines_of_final()

    def _lines_of_final(self) -> Iterator[str]:
        if self.ptx_proved is not None:
            yield "  its PTX: proved" if self.ptx_proved else f"  its PTX: not proved: {self.ptx_doubt}"
        if self.asm_proved is not None:
            yield "  its assembly: proved" if self.asm_proved else f"  its assembly: not proved: {self.asm_doubt}"

    def as_metadata(self) -> dict[str, Any]:
        """What Triton keeps beside the compiled kernel."""
        found = {"why_not": self.why_not, "reasons": list(self.reasons), "proved": self.proved}
        final = {"ptx_proved": self.ptx_proved, "asm_proved": self.asm_proved}
        return {**found, **{name: proved for name, proved in final.items() if proved is not None}}


_log: Log[Entry] = Log()


def report() -> Report[Entry]:
    """What was changed in this process: kernel, barriers before and after, why. `str(report())` is a text."""
    return _log.report()


def clear_report() -> None:
    """Forgets what was compiled so far, and what was said of it."""
    _log.clear()


def record(given: Given, found: Placement, seconds: float) -> Entry:
    proved = True if found.text is not None else None
    kept = zlib.compress(given.text.encode())
    entry = Entry(given.kernel, given.target, found.why_not, found.reasons, seconds, found.barriers, proved, _text=kept)
    _log.add(entry)
    if found.why_not:
        say_fallback(entry.kernel, entry.target, found.why_not)
    return entry


def record_proof(entry: Entry, doubt: Doubt) -> None:
    """What the verifier says of Triton's own barriers."""
    entry.proved, entry.doubt = not doubt.words, doubt.words
    if doubt.is_race:
        message = f"@{entry.kernel} on {entry.target}: Triton's own barriers may be too few: {doubt.words}"
        warnings.warn(message, RaceWarning, stacklevel=2)


def record_final_proof(entry: Entry, doubt: Doubt, *, of_ptx: bool) -> None:
    """What the verifier says of the PTX, or of the assembly, whoever placed its barriers."""
    if of_ptx:
        entry.ptx_proved, entry.ptx_doubt = not doubt.words, doubt.words
    else:
        entry.asm_proved, entry.asm_doubt = not doubt.words, doubt.words
    if doubt.is_race:
        what = "PTX" if of_ptx else "assembly"
        message = f"@{entry.kernel} on {entry.target}: the {what} may have a race: {doubt.words}"
        warnings.warn(message, RaceWarning, stacklevel=2)


def say_fallback(kernel: str, target: str, why_not: str) -> None:
    if not _log.is_new((kernel, target, why_not)):
        return
    who = f"@{kernel} on {target} keeps" if kernel else "kernels keep"
    warnings.warn(f"{who} Triton's own barriers: {why_not}", FallbackWarning, stacklevel=2)
