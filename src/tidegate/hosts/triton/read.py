"""A TTGIR file as operations with their places.

Needs   text as Triton's cache, `MLIR_ENABLE_DUMP` or `triton-opt` print it; in Triton's own syntax only with Triton
        installed, in generic form always
Gives   a `Ttgir`: the operations in generic form, each with its place in the file, its GPU, its waves
Keeps   the file's text is not changed; where shared memory is not laid out yet, Triton's allocation says where
        everything lies, and that stays out of the text; a text that crashes Triton's parser crashes a child
Cost    Triton's parser and printer, and one pass over the generic text

    text ─▶ without locations ─▶ `questions.lower`: parse, allocate, print generic ─▶ our reader
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.hosts.mlir import Block, Module, Operation, Region, is_generic, parse_generic, refuse_deep
from tidegate.hosts.mlir.model import walk
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.effects import UsesScratch, effects
from tidegate.hosts.triton.libtriton import INSTALL, Gpu
from tidegate.hosts.triton.names import starts_with, with_names
from tidegate.hosts.triton.places import Places, take_places
from tidegate.hosts.triton.questions import QUESTIONS

LOOPS = "stages of a warp pipeline were turned into loops first, as Triton does: the text shows the loops"
BROKEN = "lines with several operations were split first: an edit goes between two lines"
_FUNCTION = "tt.func"
_WITH_SCRATCH = frozenset(name for name, effect in effects().items() if isinstance(effect.does, UsesScratch))
_RESULTS = re.compile(r"^%[\w.$-]+(?::\d+)?\s*=\s*")
_RESULTS_BEFORE = re.compile(r"(?:%[\w$.-]+(?::\d+)?\s*,\s*)*%[\w$.-]+(?::\d+)?\s*=\s*$")
_LOCATION = re.compile(r'"[^"]*":(\d+):(\d+)')


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read. `before`: passes of Triton's to run first, by the names of `libtriton.PASSES`.

    `as_compiled`: with Triton's own barriers, if the file is from before them and Triton is there to put them in.
    `is_open`: from before them, whatever the text looks like: memory is laid out earlier.
    `gpu`: for this one, whatever the file names.
    `in_process`: Triton is asked in this process, for texts that it has printed itself; else in a child, which a text
    may crash.
    """

    as_compiled: bool = False
    before: tuple[str, ...] = ()
    is_open: bool = False
    gpu: Gpu | None = None
    in_process: bool = False

    def ask(self, question: str, text: str, file: str, **arguments: Any) -> Any:
        """Asks Triton one of `QUESTIONS`."""
        if self.in_process:
            return QUESTIONS[question][0](text=text, file=file, **arguments)
        from tidegate.hosts.triton.child import ask

        return ask(question, file, text=text, **arguments)


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
    is_complete: bool = True  # nothing lacks memory that needs some, as Triton says; else nobody knows
    is_open: bool = False  # from before Triton's barriers, which are still to be placed
    is_compiled: bool = False  # Triton's own barriers are in it, though not in the text
    chosen: str = ""  # the one kernel that is meant
    relaxed: frozenset[int] = frozenset()  # lines of waits at which waves are not to meet
    is_fine: bool = False  # which wave touches what is asked for, also where that decides nothing
    has_stages: bool = False  # of a warp pipeline, in the text; the operations are those of the loops made of them
    given: str = ""  # the file's own text, where it was changed before edits
    changed: tuple[str, ...] = ()  # how it was changed
    reading: Reading = Reading()

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

    @property
    def used(self) -> frozenset[str]:
        """The values that some operation takes."""
        return frozenset(value for op in walk(self.module.operation) for value in op.operands)

    def only(self, name: str) -> Ttgir:
        """With one kernel."""
        return replace(self, chosen=name)

    def for_gpu(self, gpu: Gpu) -> Ttgir:
        """Read again, for another GPU than the file names."""
        if self.given:
            return read_to_edit(self.given, self.file, gpu=gpu).only(self.chosen)
        asked = self.reading
        return _read(self.text, self.file, replace(asked, gpu=gpu)).only(self.chosen)


def read_ttgir(
    text: str,
    file: str,
    *,
    as_compiled: bool = False,
    before: tuple[str, ...] = (),
    is_open: bool = False,
    gpu: Gpu | None = None,
    in_process: bool = False,
) -> Ttgir:
    """Reads a file, as `Reading` says."""
    return _read(text, file, Reading(as_compiled, before, is_open, gpu, in_process))


def _read(text: str, file: str, reading: Reading) -> Ttgir:
    before = reading.before
    places = take_places(text)
    generic = is_generic(places.text)
    missing = libtriton.find_missing()
    if generic and not before:
        module = parse_generic(places.text, file)
        laid_out = _is_laid_out(module)
        lacking = any(
            op.name in _WITH_SCRATCH and op.attribute(libtriton.OFFSET) is None for op in walk(module.operation)
        )
        complete = True if not lacking else None if missing else reading.ask("is_complete", places.text, file)
        if laid_out and complete is not False:
            found = _ttgir(reading, file, text, places, module, True, True)
            return replace(found, is_complete=complete is not None)
        if missing:
            _needs_triton(file, "shared memory has no layout in this file; computing one", missing)
    if missing:
        what = "running Triton's passes" if before else "the file is in Triton's own syntax, and reading that"
        _needs_triton(file, what, missing)
    refuse_deep(places.text, file)
    lowered = reading.ask(
        "lower",
        places.text,
        file,
        as_compiled=reading.as_compiled,
        before=before,
        gpu=str(reading.gpu or ""),
        with_scratch=sorted(_WITH_SCRATCH),
    )
    module = _placed(parse_generic(lowered.generic, file), places.lines, file)
    found = _ttgir(reading, file, text, places, module, generic, lowered.is_laid_out)
    return replace(
        found,
        is_open=(reading.is_open or not lowered.is_laid_out) and not lowered.is_compiled and "barriers" not in before,
        is_compiled=lowered.is_compiled,
        has_stages=lowered.has_stages,
        is_complete=lowered.is_complete is not None or not lowered.is_laid_out,
    )


def _needs_triton(file: str, what: str, missing: str) -> NoReturn:
    at = Label(Span(file, 0, 0, 0))
    help = f"{INSTALL}, or print the file in generic form (`triton-opt --mlir-print-op-generic`)"
    raise BadInput(Finding("TG019", f"{what} needs Triton, {missing}", (at,), help=help))


def _is_laid_out(module: Module) -> bool:
    """As `libtriton.Parsed.is_laid_out`, for text that is read without Triton."""
    ops = list(walk(module.operation))
    stated = module.operation.attribute(libtriton.SHARED) is not None
    stated = stated or any(op.attribute(libtriton.OFFSET) is not None for op in ops)
    return stated and all(op.attribute(libtriton.OFFSET) is not None for op in ops if op.name == libtriton.ALLOC)


def read_to_edit(text: str, file: str, *, gpu: Gpu | None = None) -> Ttgir:
    """Reads a file whose text is going to be edited.

    Stages of a warp pipeline are made loops first, in the text itself: Triton puts barriers between the stages when
    it does that, so that edits of the text from before would come to stand among other barriers than they were made
    for (test_triton_written.py). Lines that hold several operations are broken: an edit goes between two lines.
    """
    found = read_ttgir(text, file, gpu=gpu)
    if (broken := _one_to_a_line(found)) != text:
        inner = read_to_edit(broken, file, gpu=gpu)
        return replace(inner, given=text, changed=(BROKEN, *inner.changed))
    if not found.has_stages:
        return found
    located = bool(take_places(text).locs)
    converted = found.reading.ask("convert_stages", text, file, gpu=str(gpu or ""), located=located)
    return replace(read_ttgir(converted, file, gpu=gpu), given=text, changed=(LOOPS,))


def _one_to_a_line(ttgir: Ttgir) -> str:
    """The text with a line for each operation. Lines with locations stay: what was taken out of them moves columns."""
    starts: dict[int, list[int]] = {}
    for op in walk(ttgir.module.operation):
        if is_written(ttgir, op) and op.at.line not in ttgir.places.locs:
            starts.setdefault(op.at.line, []).append(op.at.column)
    lines = ttgir.text.split("\n")
    for number, columns in starts.items():
        line = lines[number - 1]
        cuts = sorted(len(_RESULTS_BEFORE.sub("", line[: column - 1])) for column in columns)
        inside = [cut for cut in cuts if line[:cut].strip()]
        indent = line[: len(line) - len(line.lstrip())]
        if inside:
            pieces = [line[one:two].rstrip() for one, two in zip([0, *inside], [*inside, len(line)], strict=True)]
            lines[number - 1] = f"\n{indent}".join(pieces)
    return "\n".join(lines)


def _ttgir(
    reading: Reading, file: str, text: str, places: Places, module: Module, generic: bool, allocated: bool
) -> Ttgir:
    top = module.operation
    named = Gpu.parse(top.string(libtriton.TARGET))
    waves = top.integer("ttg.num-warps")
    if waves is None and any(module.functions(_FUNCTION)):  # a guess would decide who may race with whom
        message = "the module does not say how many warps run it (`ttg.num-warps`)"
        raise BadInput(Finding("TG007", message, (Label(Span(file, 0, 0, 0)),)))
    lanes = top.integer("ttg.threads-per-warp") or 32
    shared = top.integer(libtriton.SHARED) or 0
    return Ttgir(
        file,
        text,
        places,
        module,
        reading.gpu or named,
        waves or 1,
        lanes,
        shared,
        generic,
        allocated,
        places.lines,
        reading=reading,
    )


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
    if ttgir.is_generic:
        rest = _RESULTS.sub("", rest, count=1)
    return starts_with(rest, op.name)
