"""A TTGIR file as operations with their places.

Needs   text as Triton's cache, `MLIR_ENABLE_DUMP` or `triton-opt` print it; in Triton's own syntax only with Triton
        installed, in generic form always
Gives   a `Ttgir`: the operations in generic form, each with its place in the file, its GPU, its waves
Keeps   the file's text is not changed; where shared memory is not laid out yet, Triton's allocation says where
        everything lies, and that stays out of the text
Cost    Triton's parser and printer, and one pass over the generic text

    text ─▶ without locations ─▶ libtriton: parse, allocate, print generic ─▶ our reader
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.adapters.mlir import Block, Module, Operation, Region, is_generic, parse_generic
from tidegate.adapters.triton import libtriton
from tidegate.adapters.triton.libtriton import INSTALL, Gpu
from tidegate.adapters.triton.names import with_names
from tidegate.adapters.triton.places import Places, take_places
from tidegate.diag import BadInput, Finding, Label, Span

_FUNCTION = "tt.func"
_LOCATION = re.compile(r'"[^"]*":(\d+):(\d+)')
_TARGET = re.compile(r'ttg\.target"?\s*=\s*"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Ttgir:
    """A file: its text, its operations, and where they stand in it."""

    file: str
    text: str
    places: Places
    module: Module
    gpu: Gpu
    waves: int
    lanes: int
    shared: int  # bytes of shared memory, 0 if nobody has laid it out
    is_generic: bool
    is_allocated: bool  # as it was given
    lines: tuple[str, ...]  # without locations
    is_open: bool = False  # from before Triton's barriers, which are still to be placed
    is_compiled: bool = False  # Triton's own barriers are in it, though not in the text
    chosen: str = ""  # the one kernel that is meant
    relaxed: frozenset[int] = frozenset()  # lines of waits at which waves are not to meet
    is_fine: bool = False  # which wave touches what is asked for, also where that decides nothing

    def text_line(self, line: int) -> str:
        """A line without locations."""
        return self.lines[line - 1] if 1 <= line <= len(self.lines) else ""

    def line(self, number: int) -> str:
        """A line as it is in the file."""
        return self.text.split("\n")[number - 1]

    @property
    def functions(self) -> tuple[Operation, ...]:
        return tuple(self.module.functions(_FUNCTION))

    @property
    def kernels(self) -> tuple[Operation, ...]:
        """The functions that are launched: those that no other calls. A file may hold one that is not public."""
        public = tuple(each for each in self.functions if each.string("sym_visibility") in ("", "public"))
        wanted = public or self.functions
        return tuple(each for each in wanted if self.chosen in ("", each.string("sym_name")))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.string("sym_name") for each in self.kernels)

    def only(self, name: str) -> Ttgir:
        """With one kernel."""
        return replace(self, chosen=name)


def read_ttgir(
    text: str, file: str, *, as_compiled: bool = False, before: tuple[str, ...] = (), is_open: bool = False
) -> Ttgir:
    """Reads a file. `before`: passes of Triton's to run first, by the names of `libtriton.PASSES`.

    `as_compiled`: with Triton's own barriers, if the file is from before them and Triton is there to put them in.
    `is_open`: from before them, whatever the text looks like: memory is laid out earlier.
    """
    places = take_places(text)
    allocated = "allocation.offset" in places.text or re.search(r'"?ttg\.shared"?\s*=', places.text) is not None
    if as_compiled and not allocated and libtriton.is_installed():
        return replace(read_ttgir(text, file, before=("barriers", *before)), is_compiled=True)
    if is_generic(places.text) and (allocated or not libtriton.is_installed()) and not before:
        return _ttgir(file, text, places, parse_generic(places.text, file), True, allocated)
    if not libtriton.is_installed():
        at = Label(Span(file, 0, 0, 0))
        help = f"{INSTALL}, or print the file in generic form (`triton-opt --mlir-print-op-generic`)"
        what = "running Triton's passes" if before else "the file is in Triton's own syntax, and reading that"
        raise BadInput(Finding("TG019", f"{what} needs Triton, which is not installed", (at,), help=help))
    parsed = libtriton.parse(places.text, file)
    stages = ("warp-pipeline",) if "warp_pipeline" in places.text else ()
    parsed.run(*stages, *(() if allocated else ("allocate", "fences")), *before)
    module = _placed(parse_generic(parsed.generic(), file), places.lines, file)
    found = _ttgir(file, text, places, module, is_generic(places.text), allocated)
    return replace(found, is_open=(is_open or not allocated) and "barriers" not in before)


def _ttgir(file: str, text: str, places: Places, module: Module, generic: bool, allocated: bool) -> Ttgir:
    top = module.operation
    gpu = Gpu.parse(top.string("ttg.target"))
    waves = top.integer("ttg.num-warps") or 4
    lanes = top.integer("ttg.threads-per-warp") or 32
    shared = top.integer("ttg.shared") or 0
    return Ttgir(file, text, places, module, gpu, waves, lanes, shared, generic, allocated, places.lines)


def target_named(text: str) -> str:
    """The GPU that a text names, as Triton writes it."""
    found = _TARGET.search(text)
    return found[1] if found else ""


# --- places -------------------------------------------------------------------------------------------------------


def _placed(module: Module, lines: Sequence[str], file: str) -> Module:
    """The operations with their places in the file, which their locations say."""

    def place(op: Operation, around: Span) -> Operation:
        regions = op.regions
        at = _span(module.aliases, op, lines, file) or around
        if regions:
            regions = tuple(Region(tuple(_in_block(block, at) for block in region.blocks)) for region in regions)
        return replace(op, at=at, regions=regions)

    def _in_block(block: Block, around: Span) -> Block:
        return Block(block.label, block.arguments, tuple(place(each, around) for each in block.operations))

    def named(block: Block) -> Block:
        return replace(block, operations=tuple(with_names(each, lines) for each in block.operations))

    top = place(module.operation, Span(file, 1, 1, 1))
    regions = tuple(Region(tuple(map(named, region.blocks))) for region in top.regions)
    return replace(module, operation=replace(top, regions=regions))


def _span(aliases: dict[str, str], op: Operation, lines: Sequence[str], file: str) -> Span | None:
    text = op.loc.removeprefix("loc(").removesuffix(")")
    found = _LOCATION.search(aliases.get(text, text))
    if found is None:
        return None
    line, column = int(found[1]), int(found[2])
    if not 1 <= line <= len(lines):
        return None
    own = lines[line - 1]
    end = own.find(" : ", column)
    return Span(file, line, column, (end if end > 0 else len(own)) + 1)


def is_written(ttgir: Ttgir, op: Operation) -> bool:
    """Whether an operation stands in the file itself: passes put others in, and printers leave some out."""
    rest = ttgir.text_line(op.at.line)[op.at.column - 1 :]
    return rest.startswith((op.name, f'"{op.name}"')) or (ttgir.is_generic and f'"{op.name}"' in rest)
