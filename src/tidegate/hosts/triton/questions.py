"""What Triton is asked about the text of a file: functions from plain values to plain values.

Needs   text in Triton's own syntax or in generic form; Triton in this process
Gives   `lower`: the operations in generic form, with how far the file is compiled; `convert_stages`: the text with a
        warp pipeline made loops; `is_complete`: whether all that needs memory has some
Keeps   arguments and answers are text, numbers and truth values, so that a child process can be asked as well: Triton's
        parser ends the process that it runs in where a text is nested too deep (test_triton_child.py)
Cost    Triton's parser, passes and printer
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.libtriton import Gpu


@dataclass(frozen=True, slots=True)
class Lowered:
    """What Triton makes of a file."""

    generic: str  # with locations, which are places in the text that was given
    is_laid_out: bool  # as it was given
    is_complete: bool | None  # None: Triton cannot say
    is_compiled: bool  # Triton's own barriers were put in
    has_stages: bool  # of a warp pipeline, which were made loops


def lower(
    text: str, file: str, *, as_compiled: bool, before: Sequence[str], gpu: str, with_scratch: Sequence[str]
) -> Lowered:
    """The operations of a text as Triton's passes leave them. `with_scratch`: those that may need memory of their own.

    `gpu`: for this one, whatever the file names; nothing: for the one it names.
    """
    parsed = libtriton.parse(text, file)
    if gpu:
        parsed.take_for(Gpu.parse(gpu))
    laid_out = parsed.is_laid_out()
    complete = libtriton.is_complete(text, file) if laid_out and parsed.lacks(with_scratch) else True
    laid_out = laid_out and complete is not False  # what was laid out in part is laid out again
    compiled = as_compiled and not laid_out and "barriers" not in before
    passes = (*(("barriers",) if compiled else ()), *before)
    stages = ("warp-pipeline",) if parsed.has_stages() else ()
    parsed.run(*stages, *(() if laid_out else ("allocate", "fences")), *passes)
    return Lowered(parsed.generic(), laid_out, complete, compiled, bool(stages))


def convert_stages(text: str, file: str, *, gpu: str, located: bool) -> str:
    """The text with the stages of a warp pipeline made loops; `located`: with locations."""
    parsed = libtriton.parse(text, file)
    if gpu:
        parsed.take_for(Gpu.parse(gpu))
    parsed.run("warp-pipeline")
    return parsed.text(file) if located else parsed.plain()


def is_complete(text: str, file: str) -> bool | None:
    """As `libtriton.is_complete`."""
    return libtriton.is_complete(text, file)


# Each question by its name, and how its answer is made of what JSON makes of it.
QUESTIONS: Mapping[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "lower": (lower, lambda found: Lowered(**found)),
    "convert_stages": (convert_stages, str),
    "is_complete": (is_complete, lambda found: found),
}
