"""Pairs of a kernel and a target, and their texts.

Needs   Triton, to compile; a folder for the texts: `--texts=DIR`, or one in the system's own for temporary files
Gives   `pairs()` by number, `text_of` the TTGIR of one, `synchronized_text_of` the same after Triton's own barriers
Keeps   a text is compiled once for each version of Triton and of the kernels, by whichever process comes first
Cost    a fifth of a second for a text that is not there yet
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oracles.triton_kernels import Case, cases, compile_ttgir
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.places import take_places

TEXTS = "--texts="


@dataclass(frozen=True, slots=True)
class Pair:
    """A kernel for a target."""

    case: Case
    target: str

    @property
    def name(self) -> str:
        return f"{self.case.name}.{self.target}"


@cache
def pairs() -> tuple[Pair, ...]:
    """All, in the order of the kernels; the number of a pair is its place here."""
    return tuple(Pair(case, target) for case in cases() for target in case.targets)


def pair_named(name: str) -> Pair:
    return next(each for each in pairs() if each.name == name)


@cache
def folder() -> Path:
    """Where the texts are kept."""
    for each in sys.argv:
        if each.startswith(TEXTS):
            return Path(each.removeprefix(TEXTS))
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"tidegate-ttgir-{libtriton.version()}-{digest}"


def text_of(pair: Pair) -> str:
    """The TTGIR of a pair, as Triton's cache would hold it."""
    return _kept(f"{pair.name}.ttgir", lambda: compile_ttgir(pair.case, pair.target))


def synchronized_text_of(pair: Pair) -> str:
    """The same in generic form without locations, laid out and with Triton's own barriers: read without Triton."""
    return _kept(f"{pair.name}.generic.mlir", lambda: _synchronized_by_triton(text_of(pair), pair.name))


def _synchronized_by_triton(text: str, name: str) -> str:
    plain = take_places(text).text
    parsed = libtriton.parse(plain, name)
    stages = ("warp-pipeline",) if parsed.has_stages() else ()
    parsed.run(*stages, "allocate", "fences", "barriers")
    return re.sub(r"\n{2,}", "\n", take_places(parsed.generic()).text)


def _kept(name: str, make: Callable[[], str]) -> str:
    """A text from the folder; made if it is not there."""
    path = folder() / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(make(), encoding="utf-8")
        new.replace(path)
    return path.read_text(encoding="utf-8")
