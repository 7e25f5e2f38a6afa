"""Plans carried out in a TTGIR text.

Needs   the text, and for each kernel its graph, its plan and the reasons of the plan's edits
Gives   the text with barriers and waits put in, changed or taken away; nothing else in it is touched
Keeps   what is put in stands on lines of its own, in the syntax that the file is written in, with its reason behind it;
        Triton's parser reads the result
Cost    linear in the text plus the edits

    insert shared_memory_barrier before 12        ttg.barrier local  // RAW %a, 90 → 112
    insert wait_count async(1) before 12          %tidegate0 = ttg.async_wait {num = 1 : i32}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.adapters.mlir.model import Operation
from tidegate.adapters.triton.build import Built
from tidegate.adapters.triton.effects import effects
from tidegate.adapters.triton.read import Ttgir, is_written
from tidegate.diag import BadInput, Finding, Label
from tidegate.graph.plan import Change, Delete, Edit, Insert, Move, Plan
from tidegate.language import ops
from tidegate.language.show import show_op

# Waits of each queue: the operation and the attribute that holds the count; in Triton's syntax and in generic form.
_WAITS = {
    "async": ("ttg.async_wait", "num", True),
    "tdm": ("amdg.async_tdm_wait", "num", True),
    "tma": ("ttng.async_tma_store_wait", "pendings", False),
}
_TOKEN = "!ttg.async.token"


@dataclass(frozen=True, slots=True)
class Edited:
    """One kernel with its plan; `reasons` stand behind its edits, one text for each, perhaps empty."""

    built: Built
    plan: Plan
    reasons: tuple[str, ...]


def write_ttgir(ttgir: Ttgir, kernels: Sequence[Edited]) -> str:
    """The text of the file with all plans carried out."""
    writer = _Writer(ttgir)
    for each in kernels:
        writer.kernel(each)
    return writer.text()


@dataclass(slots=True)
class _Writer:
    ttgir: Ttgir
    before: dict[int, list[str]] = field(default_factory=dict)  # line → lines to put before it
    changed: dict[int, str] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    made: int = 0

    def kernel(self, edited: Edited) -> None:
        for op in edited.built.relaxed:
            self.relax(op)
        for edit, reason in zip(edited.plan.edits, edited.reasons, strict=True):
            self.edit(edited.built, edit, reason)

    def relax(self, op: Operation) -> None:
        """Waves do not meet behind a wait: where they have to, a barrier is put in."""
        word = effects()[op.name].meets
        line = self.changed.get(op.at.line, self.ttgir.line(op.at.line))
        count = effects()[op.name].count
        self.changed[op.at.line] = re.sub(rf"(\b{count} = \d+ : i32)", rf"\1, {word}", line, count=1)

    def edit(self, built: Built, edit: Edit, reason: str) -> None:
        match edit:
            case Insert(before, op):
                self.insert(self.place(built, before, edit), op, reason)
            case Delete(point):
                op = self.place(built, point, edit)
                if not effects()[op.name].barrier:
                    self.fail(edit, op, "only barriers can be taken away: what a wait makes is used")
                self.deleted.add(op.at.line)
            case Change(point, op):
                self.change(built, point, op, edit, reason)
            case Move(point, before):
                old = built.graph.points[point].action
                self.deleted.add(self.place(built, point, edit).at.line)
                self.insert(self.place(built, before, edit), old.op, reason)  # type: ignore[union-attr]
            case _:
                raise BadInput(Finding("TG603", "operations of TTGIR are not reordered"))

    def place(self, built: Built, point: int, edit: Edit) -> Operation:
        op = built.before[point]
        if op is None or not is_written(self.ttgir, op):
            self.fail(edit, op, "that place is not written in the file")
        return op

    def fail(self, edit: Edit, op: Operation | None, why: str) -> None:
        labels = (Label(op.at),) if op is not None else ()
        raise BadInput(Finding("TG603", f"the plan cannot be carried out in this file: {why}", labels))

    def insert(self, op: Operation, what: object, reason: str) -> None:
        lines = [*self.lines_for(what)]
        if lines and reason:
            lines[-1] += f"  // {reason}"
        self.before.setdefault(op.at.line, []).extend(lines)

    def change(self, built: Built, point: int, what: object, edit: Edit, reason: str) -> None:
        """A wait gets another count; a barrier that must drain more gets a wait before it."""
        op = self.place(built, point, edit)
        effect = effects()[op.name]
        if effect.wait and isinstance(what, ops.WaitCount):
            count = dict(what.counts).get(effect.wait)
            line = self.changed.get(op.at.line, self.ttgir.line(op.at.line))
            found = re.subn(rf"\b{effect.count} = -?\d+", f"{effect.count} = {count}", line, count=1)
            if count is None or not found[1]:
                self.fail(edit, op, "its count cannot be found in the text")
            self.changed[op.at.line] = found[0]
            return
        counts = getattr(what, "counts", ())
        if counts:
            self.insert(op, ops.WaitCount(tuple(counts)), reason)
        if effect.barrier == "bare" and isinstance(what, ops.SharedMemoryBarrier):
            self.insert(op, ops.SharedMemoryBarrier(), reason)
            self.deleted.add(op.at.line)

    # --- operations as text ---

    def lines_for(self, what: object) -> Iterator[str]:
        match what:
            case ops.SharedMemoryBarrier(counts=counts, wait_async_ops=all_copies):
                wanted = tuple((queue, 0) for queue in ("async",)) if all_copies else counts
                if wanted:
                    yield from self.lines_for(ops.WaitCount(wanted))
                yield self.barrier()
            case ops.WorkgroupBarrier():
                yield self.barrier()
            case ops.WaitCount(counts=counts):
                for queue, count in counts:
                    if queue not in _WAITS:
                        raise BadInput(Finding("TG603", f"a wait for `{queue}` cannot be put into TTGIR"))
                    yield self.wait(queue, count)
            case ops.Fence(kind="proxy_async"):
                generic = '"ttng.fence_async_shared"() <{bCluster = false}> : () -> ()'
                yield generic if self.ttgir.is_generic else "ttng.fence_async_shared {bCluster = false}"
            case _:
                text = next(show_op(what))  # type: ignore[arg-type]
                raise BadInput(Finding("TG603", f"`{text}` cannot be put into TTGIR"))

    def barrier(self) -> str:
        return '"ttg.barrier"() <{addrSpace = 1 : i32}> : () -> ()' if self.ttgir.is_generic else "ttg.barrier local"

    def wait(self, queue: str, count: int) -> str:
        name, attribute, makes = _WAITS[queue]
        result = f"%tidegate{self.made} = " if makes else ""
        self.made += makes
        if self.ttgir.is_generic:
            type_ = _TOKEN if makes else "()"
            return f'{result}"{name}"() <{{{attribute} = {count} : i32}}> : () -> {type_}'
        return f"{result}{name} {{{attribute} = {count} : i32}}"

    # --- the new text ---

    def text(self) -> str:
        if not (self.before or self.changed or self.deleted):
            return self.ttgir.text
        lines = self.ttgir.text.split("\n")
        found: list[str] = []
        for number, line in enumerate(lines, 1):
            indent = line[: len(line) - len(line.lstrip())]
            found += [indent + each for each in self.before.get(number, ())]
            if number not in self.deleted:
                found.append(self.changed.get(number, line))
        return "\n".join(found)
