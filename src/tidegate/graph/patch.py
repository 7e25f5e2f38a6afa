"""A plan carried out on text, so that comments and layout stay as their author wrote them.

Needs   `.tide` text, its kernels as parsed from it, a plan for each with its reasons
Gives   the text with the edits in it, each with the reason why it stands
Keeps   what no edit names stays to the letter; lines in reasons are those of the new text. Whether the text says what
        the plan asks for is not decided here: whoever calls parses it and compares
Cost    linear in the text plus the edits

    local_write %a, %tile[wave]                  local_write %a, %tile[wave]
    # the neighbour's row                        shared_memory_barrier  # RAW %tile: line 1 → 4
    %b = local_read %tile[wave + 1]   becomes    # the neighbour's row
                                                 %b = local_read %tile[wave + 1]
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.diag import BadInput, Finding, Span
from tidegate.graph.drafts import Path
from tidegate.graph.plan import Change, Delete, Insert, Move, NewOp, Plan, Reorder
from tidegate.language.lexer import Cursor
from tidegate.language.ops import Block, Conditional, Kernel, Op, SyncOp, blocks_of
from tidegate.language.show import INDENT, show_op

MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an edit stands: `RAW %a`, from one operation to another, perhaps iterations later; or words alone."""

    what: str
    ends: tuple[Path, Path] | None = None
    later: str = ""  # at %k + 1


@dataclass(frozen=True, slots=True)
class Edited:
    """One kernel of a text: `paths` leads from the plan's points to its operations; `why` is for each edit."""

    kernel: Kernel
    target: str
    paths: tuple[Path, ...] = ()
    plan: Plan = field(default_factory=Plan)
    why: tuple[tuple[Reason, ...], ...] = ()


def patch(text: str, file: str, kernels: Sequence[Edited]) -> str:
    """The text with all plans carried out; `kernels` are all that it holds, in order."""
    patcher = _Patcher(text, file)
    patcher.targets(kernels)
    for each in kernels:
        patcher.kernel(each)
    return patcher.result()


def comment_graph(text: str, why: Mapping[int, Sequence[Reason]], numbers: Sequence[int]) -> str:
    """The text of a graph with reasons behind its points; `numbers` are the new ones of the points as they were."""
    lines: dict[Path, int] = {(old,): new for old, new in enumerate(numbers)}

    def comment(found: re.Match[str]) -> str:
        reasons = why.get(int(found[1]), ())
        return f"{found[0]}  # {show_reasons(reasons, lines, 'point ')}" if reasons else found[0]

    return re.sub(r"(?m)^  (\d+): .*$", comment, text)


def show_reasons(reasons: Sequence[Reason], lines: Mapping[Path, int], word: str = "line ") -> str:
    """The shortest ones, and how many more there are."""

    def length(reason: Reason) -> tuple[bool, int]:
        first, second = (lines[end] for end in reason.ends) if reason.ends else (0, 0)
        return bool(reason.later), abs(second - first)

    found = dict.fromkeys(_show_reason(each, lines, word) for each in sorted(reasons, key=length))
    shown = list(found)[:MOST_REASONS]
    more = len(found) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])


def _show_reason(reason: Reason, lines: Mapping[Path, int], word: str) -> str:
    if reason.ends is None:
        return reason.what
    first, second = (lines[end] for end in reason.ends)
    return f"{reason.what}: {word}{first} → {second}{reason.later}"


# --- operations in text -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Splice:
    """Text between two offsets that becomes other text."""

    start: int
    end: int
    text: str


class _Patcher:
    """Gathers splices, then makes them in one go. A mark in a splice stands for a reason whose lines come last."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.cursor = Cursor(text, file)
        self.starts = [0, *(each.end() for each in re.finditer("\n", text))]
        self.eol = "\r\n" if "\r\n" in text else "\n"
        self.splices: list[_Splice] = []
        self.comments: list[tuple[Edited, tuple[Reason, ...]]] = []
        self.braces: dict[int, str] = {}  # of regions in one line that were taken apart, and what goes before them

    # --- edits ---

    def kernel(self, edited: Edited) -> None:
        before: dict[Path, list[tuple[NewOp, tuple[Reason, ...]]]] = {}
        reasons = edited.why or ((),) * len(edited.plan.edits)
        for edit, why in zip(edited.plan.edits, reasons, strict=True):
            match edit:
                case Insert(point, op):
                    before.setdefault(edited.paths[point], []).append((op, why))
                case Delete(point):
                    self.delete(edited, edited.paths[point])
                case Change(point, op):
                    self.change(edited, edited.paths[point], op, why)
                case Move(point, place):
                    moved = _op_at(edited.kernel, edited.paths[point])
                    assert isinstance(moved, SyncOp)
                    self.delete(edited, edited.paths[point])
                    before.setdefault(edited.paths[place], []).append((moved, why))
                case Reorder():
                    raise BadInput(Finding("TG603", "text is not reordered", ()))
        for path, group in before.items():
            self.insert(edited, path, group)

    def insert(self, edited: Edited, path: Path, group: list[tuple[NewOp, tuple[Reason, ...]]]) -> None:
        block = _block_at(edited.kernel, path)
        at_end = path[-1] == len(block.ops)
        if at_end and not block.at.line:
            self.insert_arm(edited, path, group)
            return
        offset = self.offset(block.at if at_end else block.ops[path[-1]].at)
        if not self.is_first(offset):
            self.insert_within_line(edited, offset, group, self.offset(block.at))
            return
        indent, place = self.indent(offset), self.line_start(offset)
        if not at_end or block.yields:
            place = self.above_comments(place, indent)
        elif block.ops and self.is_first(last := self.offset(block.ops[-1].at)):
            indent = self.indent(last)
        else:
            indent += INDENT
        lines = (f"{indent}{_text(op)}{self.comment(edited, why)}{self.eol}" for op, why in group)
        self.splices.append(_Splice(place, place, "".join(lines)))

    def insert_within_line(
        self, edited: Edited, offset: int, group: list[tuple[NewOp, tuple[Reason, ...]]], brace: int
    ) -> None:
        """Lines of their own, so that reasons can stand behind them: a comment would hide the rest of the line.

        `brace`: where the region ends; in a line of its own as well, if that was in this one.
        """
        start = self.line_start(offset)
        before = self.text[start:offset]
        outside = self.indent(offset) + INDENT * max(0, before.count("{") - before.count("}") - 1)
        indent = outside + INDENT if before.count("{") > before.count("}") else self.indent(offset)
        lines = "".join(f"{indent}{_text(op)}{self.comment(edited, why)}{self.eol}" for op, why in group)
        self.splices.append(_Splice(offset, offset, f"{self.eol}{lines}{outside if offset == brace else indent}"))
        if self.line_start(brace) == start:
            self.braces[brace] = "" if offset == brace else self.braces.get(brace, f"{self.eol}{outside}")

    def insert_arm(self, edited: Edited, path: Path, group: list[tuple[NewOp, tuple[Reason, ...]]]) -> None:
        """An `else` that nobody has written."""
        op = _op_at(edited.kernel, path[:-2])
        assert isinstance(op, Conditional)
        brace = self.offset(op.then.at)
        indent = self.indent(self.offset(op.at))
        lines = [f"{indent}{INDENT}{_text(each)}{self.comment(edited, why)}" for each, why in group]
        self.splices.append(_Splice(brace + 1, brace + 1, self.eol.join([" else {", *lines, indent + "}"])))

    def delete(self, edited: Edited, path: Path) -> None:
        start, end = self.extent(edited.kernel, path)
        rest = self.rest(end)
        if self.is_first(start) and (not rest.strip() or rest.lstrip().startswith("#")):
            start, end = self.line_start(start), min(self.line_end(end) + 1, len(self.text))
        else:
            end += len(rest) - len(rest.lstrip(" \t"))
        self.splices.append(_Splice(start, end, ""))

    def change(self, edited: Edited, path: Path, op: SyncOp, why: tuple[Reason, ...]) -> None:
        start, end = self.extent(edited.kernel, path)
        rest = self.rest(end)
        if not rest.strip():
            self.splices.append(_Splice(start, end, _text(op) + self.comment(edited, why)))
            return
        self.splices.append(_Splice(start, end, _text(op)))
        if rest.lstrip().startswith("#"):
            last = end + len(rest.rstrip())
            self.splices.append(_Splice(last, last, self.comment(edited, why)))

    def comment(self, edited: Edited, why: tuple[Reason, ...]) -> str:
        """A mark, for lines are known only when everything is in its place. No text holds this sign."""
        if not why:
            return ""
        self.comments.append((edited, why))
        return f"\0{len(self.comments) - 1}\0"

    # --- targets ---

    def targets(self, kernels: Sequence[Edited]) -> None:
        """Each kernel stands under the target that it is for."""
        named = self.named_targets()
        current = ""
        for each in kernels:
            start = self.offset(each.kernel.at)
            passed = [offset for offset in named if offset < start]
            for offset in passed:
                current = named.pop(offset)
            if current == each.target:
                continue
            if passed:
                old = self.cursor.texts[bisect_left(self.cursor.offsets, passed[-1])]
                self.splices.append(_Splice(passed[-1], passed[-1] + len(old), each.target or "none"))
            else:
                place = self.above_comments(self.line_start(start), self.indent(start))
                self.splices.append(_Splice(place, place, f"target {each.target or 'none'}{self.eol}{self.eol}"))
            current = each.target

    def named_targets(self) -> dict[int, str]:
        """Where the file names targets."""
        cursor, depth, found = self.cursor, 0, {}
        for number, text in enumerate(cursor.texts):
            if cursor.kinds[number] == "punct":
                depth += (text == "{") - (text == "}")
            elif text == "target" and not depth and number + 1 < len(cursor.texts):
                name = cursor.texts[number + 1]
                found[cursor.offsets[number + 1]] = "" if name == "none" else name
        return found

    # --- places ---

    def offset(self, at: Span) -> int:
        return self.starts[at.line - 1] + at.column - 1

    def line_start(self, offset: int) -> int:
        return self.starts[bisect_right(self.starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Where the line's end of line stands."""
        found = self.text.find("\n", offset)
        return len(self.text) if found < 0 else found

    def rest(self, offset: int) -> str:
        """What stands in the line from here on."""
        return self.text[offset : self.line_end(offset)]

    def is_first(self, offset: int) -> bool:
        return not self.text[self.line_start(offset) : offset].strip()

    def indent(self, offset: int) -> str:
        line = self.text[self.line_start(offset) : self.line_end(offset)]
        return line[: len(line) - len(line.lstrip())]

    def above_comments(self, place: int, indent: str) -> int:
        """A comment right above an operation belongs to it."""
        while place:
            above = self.line_start(place - 1)
            line = self.text[above:place]
            if not line.startswith(indent + "#"):
                break
            place = above
        return place

    def extent(self, kernel: Kernel, path: Path) -> tuple[int, int]:
        """An operation from its first sign to its last: what comes next is where the search for that starts."""
        block = _block_at(kernel, path)
        number = path[-1]
        following = block.ops[number + 1].at if number + 1 < len(block.ops) else block.at
        last = bisect_left(self.cursor.offsets, self.offset(following)) - 1
        return self.offset(block.ops[number].at), self.cursor.offsets[last] + len(self.cursor.texts[last])

    # --- the new text ---

    def result(self) -> str:
        pieces: list[str] = []
        moved: list[tuple[int, int]] = []  # from this offset on, by so much
        place = shift = 0
        self.splices += [_Splice(brace, brace, text) for brace, text in self.braces.items() if text]
        for splice in sorted(self.splices, key=lambda each: (each.start, each.end)):
            kept = self.text[place : splice.start]
            if splice.text.startswith(self.eol):  # no blanks at the end of a line
                kept = kept.rstrip(" \t")
            shift += len(kept) + len(splice.text) - (splice.end - place)
            pieces += [kept, splice.text]
            moved.append((splice.end, shift))
            place = splice.end
        text = "".join([*pieces, self.text[place:]])
        ends = [each.start() for each in re.finditer("\n", text)]

        def line(offset: int) -> int:
            known = bisect_right(moved, (offset, len(text)))
            return bisect_left(ends, offset + (moved[known - 1][1] if known else 0)) + 1

        def comment(mark: re.Match[str]) -> str:
            edited, why = self.comments[int(mark[1])]
            places = {end for reason in why for end in reason.ends or ()}
            lines = {path: line(self.offset(_op_at(edited.kernel, path).at)) for path in places}
            return f"  # {show_reasons(why, lines)}"

        return re.sub("\0(\\d+)\0", comment, text)


def _text(op: Op) -> str:
    return next(show_op(op))


def _op_at(kernel: Kernel, path: Path) -> Op:
    return _block_at(kernel, path).ops[path[-1]]


def _block_at(kernel: Kernel, path: Path) -> Block:
    """The region in which a path ends."""
    block = kernel.body
    for number, region in zip(path[:-1:2], path[1:-1:2], strict=True):
        block = blocks_of(block.ops[number])[region]
    return block
