"""What a built kernel is launched with, as a JSON file beside it.

Needs   a kernel that was lowered
Gives   `Manifest`: arguments in order, sizes with their defaults, grid, threads, shared memory
Keeps   whoever launches needs this file and the assembly alone, not the kernel and nothing of its compiler
Cost    constant
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from tidegate.diag import BadInput, Finding
from tidegate.index import evaluate, holds, show
from tidegate.language.lexer import Cursor
from tidegate.language.ops import Kernel
from tidegate.language.parse_index import Scope, parse_cond, parse_index
from tidegate.language.types import Global
from tidegate.lowering.lower import LoweredKernel
from tidegate.targets import Target

EDITION = 1
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array argument: its sides are numbers or names of sizes."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """`grid` and `where` are expressions of sizes, as the language writes them."""

    name: str
    target: str
    threads: int
    shared: int
    arrays: tuple[ArrayArgument, ...]
    scalars: tuple[tuple[str, str], ...]  # indices and flags with their types, in order
    sizes: tuple[tuple[str, int], ...]
    grid: tuple[str, ...]
    where: tuple[str, ...]
    edition: int = EDITION

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def manifest_of(kernel: Kernel, lowered: LoweredKernel, target: Target) -> Manifest:
    arrays = tuple(
        ArrayArgument(each.name[1:], each.type.dtype.name, each.type.shape)
        for each in kernel.args
        if isinstance(each.type, Global)
    )
    plain = tuple((name, kind) for name, kind in lowered.arguments if kind in ("i32", "i1") and "size_" not in name)
    return Manifest(
        kernel.name,
        target.name,
        lowered.threads,
        lowered.shared,
        arrays,
        plain,
        tuple((each.name, each.default) for each in kernel.sizes),
        tuple(show(each) for each in kernel.grid),
        tuple(show(each) for each in kernel.where),
    )


def read_manifest(path: Path) -> Manifest:
    """Raises `BadInput` where the file is none, or of another edition."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        if given["edition"] != EDITION:
            raise ValueError(f"edition {given['edition']}, and this Tidegate writes {EDITION}")
        return Manifest(
            given["name"],
            given["target"],
            given["threads"],
            given["shared"],
            tuple(ArrayArgument(each["name"], each["dtype"], tuple(each["shape"])) for each in given["arrays"]),
            tuple((name, kind) for name, kind in given["scalars"]),
            tuple((name, default) for name, default in given["sizes"]),
            tuple(given["grid"]),
            tuple(given["where"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(Finding("TG007", f"`{path}` is no manifest of a built kernel: {error}")) from None


def sizes_of(manifest: Manifest, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int]) -> dict[str, int]:
    """Each size: what was given, what the arrays say, or its default. Raises `BadInput` where these disagree."""
    found: dict[str, int] = {}
    for array in manifest.arrays:
        shape = shapes[array.name]
        if len(shape) != len(array.shape):
            raise _unfit(f"`{array.name}` has {len(shape)} dimensions, and the kernel asks for {len(array.shape)}")
        for side, wanted in zip(shape, array.shape, strict=True):
            expected = wanted if isinstance(wanted, int) else given.get(wanted, found.setdefault(wanted, side))
            if expected != side:
                raise _unfit(f"`{array.name}` has the shape {shape}, where `{wanted}` is {expected}")
    values = {**dict(manifest.sizes), **found, **given}
    for text in manifest.where:
        if not holds(_read(parse_cond, text), values):
            raise _unfit(f"the sizes break the assumption `{text}`")
    return values


def grid_of(manifest: Manifest, sizes: Mapping[str, int]) -> tuple[int, int, int]:
    counts = [evaluate(_read(parse_index, text), sizes) for text in manifest.grid]
    x, y, z = (*counts, *(1,) * (3 - len(counts)))
    return x, y, z


class _Sizes:
    """Every name is a size."""

    def is_flag(self, name: str) -> bool:
        return False

    def check_name(self, name: str, at: int) -> None:
        pass


def _read(parse: Callable[[Cursor, Scope], Read], text: str) -> Read:
    return parse(Cursor(text, "manifest"), _Sizes())


def _unfit(message: str) -> BadInput:
    return BadInput(Finding("TG022", message))
