"""Plans carried out in a TTGIR text.

Needs   the text, and for each kernel its graph, its plan and the reasons of the plan's edits
Gives   the text with barriers and waits put in, changed or taken away; nothing else in it is touched, but for the name
        of the GPU where the file was taken for another one
Keeps   what is put in stands on lines of its own, in the syntax that the file is written in, with its reason behind it;
        Triton's parser reads the result. Only an operation that begins its line gets something before it, and only
        one that has its line to itself is changed or taken away. A barrier that drains all copies closes their group
        first where one may be open: no wait of TTGIR covers a copy that is in no group
Cost    linear in the text plus the edits

    insert shared_memory_barrier before 12        ttg.barrier local  // RAW %a, 90 → 112
    insert wait_count async(1) before 12          %tidegate0 = ttg.async_wait {num = 1 : i32}
    insert shared_memory_barrier wait_async_ops   %tidegate1 = ttg.async_commit_group, if need be; the wait; the barrier
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.graph.plan import Change, Delete, Edit, Insert, Move, Plan
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.build import Built
from tidegate.hosts.triton.effects import Meets, WaitsFor, effects, may_go
from tidegate.hosts.triton.read import Ttgir, is_written
from tidegate.hosts.triton.target import counts_instructions
from tidegate.language import ops

# Waits of each queue: the operation and the attribute that holds the count; in Triton's syntax and in generic form.
_WAITS = {
    "async": ("ttg.async_wait", "num", True),
    "tdm": ("amdg.async_tdm_wait", "num", True),
    "tma": ("ttng.async_tma_store_wait", "pendings", False),
}
# The same where Triton has counted instructions already: how many a group becomes is not known here, only none.
_COUNTED = {"async": ("amdg.async_wait", "num_inst", True), "tdm": ("amdg.async_tdm_intrinsic_wait", "count", True)}
_TOKEN = "!ttg.async.token"
_COMMIT = "ttg.async_commit_group"
_OWN = "%tidegate"
_TARGET = re.compile(r'(\bttg\.target = )"[^"]*"')
_RESULTS = re.compile(r"\s*(?:%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*\s*=\s*)?")


# From the lines of the given text to those of the new one: the reasons of a plan's edits, one text for each.
Reasons = Callable[[Callable[[int], int]], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Edited:
    """One kernel with its plan, and why each edit stands, if the text is to say so."""

    built: Built
    plan: Plan
    reasons: Reasons | None = None


def write_ttgir(ttgir: Ttgir, kernels: Sequence[Edited], *, located: bool = False) -> str:
    """The text of the file with all plans carried out.

    `located`: what is put in comes from the same place of the source as the operation behind it.
    """
    writer = _Writer(ttgir, located)
    for each in kernels:
        writer.kernel(each)
    return writer.text()


@dataclass(slots=True)
class _Line:
    """A line that is put in; its reason is known when everything is in its place."""

    text: str
    edited: Edited
    edit: int


@dataclass(slots=True)
class _Writer:
    ttgir: Ttgir
    located: bool
    before: dict[int, list[_Line]] = field(default_factory=dict)  # line → lines to put before it
    changed: dict[int, str] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    made: int = 0
    known: dict[int, frozenset[int]] = field(default_factory=dict)  # graph → points where a group may be open
    starts: dict[int, list[int]] = field(default_factory=dict)  # line → the columns at which operations begin in it
    taken: set[str] = field(default_factory=set)  # names of values that the file uses
    used: frozenset[str] = frozenset()  # values that are operands

    def __post_init__(self) -> None:
        self.used = self.ttgir.used
        for op in walk(self.ttgir.module.operation):
            self.taken.update(result.partition("#")[0] for result in op.results)
            if is_written(self.ttgir, op):
                self.starts.setdefault(op.at.line, []).append(op.at.column)
        self.name_target()

    def name_target(self) -> None:
        """A file that was taken for another GPU than it names gets the name of that one: it is what was proved."""
        gpu = self.ttgir.reading.gpu
        if gpu is None:
            return
        for number, line in enumerate(self.ttgir.lines, 1):
            if _TARGET.search(line):
                self.changed[number] = _TARGET.sub(rf'\g<1>"{gpu}"', self.ttgir.line(number), count=1)
                return

    def kernel(self, edited: Edited) -> None:
        for op in edited.built.relaxed:
            self.relax(op)
        for number, edit in enumerate(edited.plan.edits):
            self.edit(edited, number, edit)

    def relax(self, op: Operation) -> None:
        """Waves do not meet behind a wait: where they have to, a barrier is put in."""
        does = effects()[op.name].does
        assert isinstance(does, WaitsFor)
        if not self.rewrite(op, rf"(\b{does.count} = \d+ : i32)", rf"\1, {does.meets}"):
            self.fail(op, "its attributes cannot be found in the text")

    def rewrite(self, op: Operation, pattern: str, new: str) -> bool:
        """Changes an operation in its line: only its own text is searched, not a location or a comment behind it."""
        self.check_alone(op)
        number = op.at.line
        own = self.ttgir.line(number)
        line = self.changed.get(number, own)
        start = op.at.column - 1
        end = len(self.ttgir.text_line(number).rstrip()) + len(line) - len(own)
        found, times = re.subn(pattern, new, line[start:end], count=1)
        self.changed[number] = line[:start] + found + line[end:]
        return bool(times)

    def edit(self, edited: Edited, number: int, edit: Edit) -> None:
        match edit:
            case Insert(before, new):
                self.insert(edited, number, self.place(edited, before), new, before)
            case Delete(point):
                op = self.place(edited, point)
                if not may_go(op, self.used):
                    self.fail(op, "only barriers and waits with unused tokens can be removed")
                self.delete(op)
            case Change(point, new):
                self.change(edited, number, point, new)
            case Move(point, before):
                old = edited.built.graph.points[point].action
                assert isinstance(old, g.Sync)
                self.delete(self.place(edited, point))
                self.insert(edited, number, self.place(edited, before), old.op, before)
            case _:
                self.fail(None, "operations of TTGIR are not reordered")

    def place(self, edited: Edited, point: int) -> Operation:
        op = edited.built.before[point]
        if op is None or not is_written(self.ttgir, op):
            self.fail(op, "that place is not in the text of the file")
        if _RESULTS.fullmatch(self.ttgir.text_line(op.at.line)[: op.at.column - 1]) is None:
            self.fail(op, "its line has something else before it")
        return op

    def delete(self, op: Operation) -> None:
        self.check_alone(op)
        self.deleted.add(op.at.line)

    def check_alone(self, op: Operation) -> None:
        if len(self.starts.get(op.at.line, ())) > 1:
            self.fail(op, "its line has other operations")

    def fail(self, op: Operation | None, why: str) -> NoReturn:
        labels = (Label(op.at),) if op is not None else ()
        raise BadInput(Finding("TG603", f"the plan cannot be applied to this file: {why}", labels))

    def insert(self, edited: Edited, number: int, op: Operation, what: object, point: int) -> None:
        self.put(edited, number, op, list(self.lines_for(op, what, edited, point)))

    def put(self, edited: Edited, number: int, op: Operation, texts: Sequence[str]) -> None:
        lines = [_Line(text, edited, -1) for text in texts]
        if lines:
            lines[-1].edit = number
        self.before.setdefault(op.at.line, []).extend(lines)

    def change(self, edited: Edited, number: int, point: int, what: object) -> None:
        """A wait gets another count; a barrier that must drain more gets a wait before it."""
        op = self.place(edited, point)
        does = effects()[op.name].does
        if isinstance(does, WaitsFor) and isinstance(what, ops.WaitCount):
            count = dict(what.counts).get(does.wait)
            if does.unit == "instructions" and count:
                self.fail(op, "it counts instructions, whose number is unknown")
            if count is None or not self.rewrite(op, rf"\b{does.count} = -?\d+", f"{does.count} = {count}"):
                self.fail(op, "its count cannot be found in the text")
            return
        if not isinstance(what, ops.SharedMemoryBarrier):
            self.fail(op, f"it cannot become `{type(what).__name__}`")
        lines = list(self.drain(op, what, edited, point))
        if isinstance(does, Meets) and does.barrier == "bare":
            lines.append(self.barrier())
            self.delete(op)
        self.put(edited, number, op, lines)

    # --- operations as text ---

    def lines_for(self, op: Operation, what: object, edited: Edited, point: int) -> Iterator[str]:
        match what:
            case ops.SharedMemoryBarrier():
                yield from self.drain(op, what, edited, point)
                yield self.barrier()
            case ops.WorkgroupBarrier():
                yield self.barrier()
            case ops.WaitCount(counts=counts):
                for queue, count in counts:
                    counted = self.ttgir.is_allocated and counts_instructions(self.ttgir.gpu)
                    waits = {**_WAITS, **_COUNTED} if counted else _WAITS
                    if queue not in waits or (waits[queue] != _WAITS[queue] and count):
                        self.fail(op, f"a wait for {count} of `{queue}` cannot be inserted")
                    yield self.wait(waits[queue], count)
            case ops.Fence(kind="proxy_async"):
                generic = '"ttng.fence_async_shared"() <{bCluster = false}> : () -> ()'
                yield generic if self.ttgir.is_generic else "ttng.fence_async_shared {bCluster = false}"
            case _:
                self.fail(op, f"`{type(what).__name__}` cannot be inserted")

    def drain(self, op: Operation, barrier: ops.SharedMemoryBarrier, edited: Edited, point: int) -> Iterator[str]:
        """The waits of a barrier; those for all copies also cover copies in no group, which gets closed first."""
        counts = _drained(barrier, edited.built.graph)
        if barrier.wait_async_ops and point in self.open_groups(edited.built.graph):
            yield self.makes(_COMMIT)
        if counts:
            yield from self.lines_for(op, ops.WaitCount(counts), edited, point)

    def open_groups(self, graph: g.SyncGraph) -> frozenset[int]:
        if id(graph) not in self.known:
            self.known[id(graph)] = find_open_groups(graph)
        return self.known[id(graph)]

    def makes(self, name: str) -> str:
        """An operation without operands and attributes whose result is a token."""
        result = self.new_name()
        return f'{result} = "{name}"() : () -> {_TOKEN}' if self.ttgir.is_generic else f"{result} = {name}"

    def new_name(self) -> str:
        while (name := f"{_OWN}{self.made}") in self.taken:
            self.made += 1
        self.taken.add(name)
        return name

    def barrier(self) -> str:
        return '"ttg.barrier"() <{addrSpace = 1 : i32}> : () -> ()' if self.ttgir.is_generic else "ttg.barrier local"

    def wait(self, form: tuple[str, str, bool], count: int) -> str:
        name, attribute, makes = form
        result = f"{self.new_name()} = " if makes else ""
        if self.ttgir.is_generic:
            type_ = _TOKEN if makes else "()"
            return f'{result}"{name}"() <{{{attribute} = {count} : i32}}> : () -> {type_}'
        return f"{result}{name} {{{attribute} = {count} : i32}}"

    # --- the new text ---

    def text(self) -> str:
        if not (self.before or self.changed or self.deleted):
            return self.ttgir.text
        lines = self.ttgir.text.split("\n")
        shift, new_line = 0, [0] * (len(lines) + 1)
        for number in range(1, len(lines) + 1):
            shift += len(self.before.get(number, ()))
            new_line[number] = number + shift
            shift -= number in self.deleted
        known: dict[int, Sequence[str]] = {}
        found: list[str] = []
        for number, line in enumerate(lines, 1):
            indent = line[: len(line) - len(line.lstrip())]
            loc = self.loc(number)
            for each in self.before.get(number, ()):
                reason = self.reason(each, known, new_line)
                found.append(f"{indent}{each.text}{loc}{reason}")
            if number not in self.deleted:
                found.append(self.changed.get(number, line))
        return "\n".join(found)

    def loc(self, line: int) -> str:
        """The location of an operation that starts in a line, as text behind another one."""
        text = self.ttgir.places.loc(line) if self.located else None
        return f" loc({text})" if text is not None else ""

    @staticmethod
    def reason(line: _Line, known: dict[int, Sequence[str]], new_line: list[int]) -> str:
        if line.edit < 0 or line.edited.reasons is None:
            return ""
        if id(line.edited) not in known:
            known[id(line.edited)] = line.edited.reasons(new_line.__getitem__)
        reason = known[id(line.edited)][line.edit]
        return f"  // {reason}" if reason else ""


def _drained(barrier: object, graph: g.SyncGraph) -> tuple[tuple[str, int], ...]:
    """What a barrier drains beside ordinary accesses; all copies are those of every queue that the program uses."""
    if not isinstance(barrier, ops.SharedMemoryBarrier):
        return ()
    if not barrier.wait_async_ops:
        return barrier.counts
    queues = (issue.counter for each in graph.points if _is_copy(each) for issue in each.issues)
    return tuple((queue, 0) for queue in dict.fromkeys(queues))


def _is_copy(point: g.Point) -> bool:
    return isinstance(point.action, g.Access) and point.action.is_async


def find_open_groups(graph: g.SyncGraph) -> frozenset[int]:
    """The points that a wave may reach with copies in no group: an access of a queue of groups counts 0 there.

    A call may leave some behind, so that with functions all points count as such.
    """
    copies = [number for number, point in enumerate(graph.points) if _is_copy(point) and _counted(point) == {0}]
    if copies and graph.functions:
        return frozenset(range(len(graph.points)))
    found: set[int] = set()
    todo = [following for each in copies for following in graph.points[each].successors]
    while todo:
        number = todo.pop()
        if number in found:
            continue
        found.add(number)
        point = graph.points[number]
        closes = isinstance(point.action, g.Sync) and isinstance(point.action.op, ops.CommitGroup)
        todo += () if closes else point.successors
    return frozenset(found)


def _counted(point: g.Point) -> set[int]:
    return {each.most for each in point.issues}
