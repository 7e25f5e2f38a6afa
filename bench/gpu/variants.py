"""The variants of one kernel: Triton's barriers, Tidegate's, and Tidegate's without one of them.

Needs   a function that compiles the kernel as Triton would, and Triton 3.9 in which Tidegate can be switched on
Gives   a `Variant` for each: the text, and what is known of it
Keeps   a variant without a barrier says what the verifier thinks of it, whatever that is: nobody else has judged it
Cost    a compilation for each, and a proof for each barrier
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.gpu.manifest import REMOVED, TIDEGATE, TRITON
from tidegate.hosts.triton.dropin.placing import find_doubt, place_barriers
from tidegate.hosts.triton.dropin.switch import between
from tidegate.triton import FallbackWarning, enabled

Compile = Callable[[], tuple[str, dict[str, Any]]]
RACY, PROVED, UNDECIDED = "race", "proved", "undecided"
_BARRIER = re.compile(r"^[ ]*(?:ttg|gpu)\.barrier\b.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Variant:
    """One text of a kernel."""

    name: str
    ptx: str
    metadata: dict[str, Any]
    fallback: str = ""  # why Tidegate left the kernel to Triton
    verdict: str = ""  # of the verifier, where a barrier is missing: `race`, `proved` or `undecided`


def variants_of(compile_kernel: Compile, merge_waits: str, removed: bool) -> Iterator[Variant]:
    """Triton's, Tidegate's, and if asked for those without a barrier."""
    yield Variant(TRITON, *compile_kernel())
    with warnings.catch_warnings(), enabled(merge_waits=merge_waits):
        warnings.simplefilter("ignore", FallbackWarning)
        ptx, metadata = compile_kernel()
    why_not = metadata["tidegate"]["why_not"]
    yield Variant(TIDEGATE, ptx, metadata, why_not)
    if removed and not why_not:
        yield from without_one_barrier(compile_kernel, merge_waits)


def without_one_barrier(compile_kernel: Compile, merge_waits: str) -> Iterator[Variant]:
    """Tidegate's text without its first barrier, without its second, and so on."""
    whole = text_with_barriers(compile_kernel, merge_waits)
    for number, barrier in enumerate(_BARRIER.finditer(whole)):
        text = whole[: barrier.start()] + whole[barrier.end() :]
        with between(lambda _, text=text: text, f"removed-{number}"):
            ptx, metadata = compile_kernel()
        yield Variant(f"{REMOVED}{number}", ptx, metadata, verdict=judge(text))


def text_with_barriers(compile_kernel: Compile, merge_waits: str) -> str:
    """The module as Tidegate hands it on."""
    found: list[str] = []

    def catch(text: str) -> str | None:
        placed = place_barriers(text, "kernel", merge_waits).text
        found.extend([placed] if placed is not None else [])
        return placed

    with between(catch, "caught"):
        compile_kernel()
    return found[0]


def judge(text: str) -> str:
    doubt = find_doubt(text, "kernel")
    if not doubt.words:
        return PROVED
    return RACY if doubt.is_race else UNDECIDED
