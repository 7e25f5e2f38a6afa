"""Graphs from `.sync` text.

Needs   text, and the name of its file for messages
Gives   a graph, or `BadInput` with TG601; whether it makes sense is for `wellformed` to say
Keeps   `parse_graph(show_graph(g)) == g`
Cost    linear

    graph   ::= `graph` @name `target` NAME `waves` N [`sizes(...)`] [`where(...)`] [`grid(...)`] declaration*
                `{` point* `}`
    point   ::= NUMBER `:` action clause* [`->` NUMBER, ...]
    action  ::= `compute` | (`read` | `write` | `atomic`) footprint ... | `sync` op | `assign` ... | `branch` cond | ...
    place   ::= %base[slot, bytes]
    threads ::= `threads` %map (`run(`threads, first, step`)` | `none(`threads`)`), ...
    footprint ::= place `box(`count `by` stride [`below` limit], ...`)` `width` N [`may`] [`threads` %map]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from tidegate.collecting import no_collecting
from tidegate.diag import BadInput, Finding
from tidegate.graph import model as g
from tidegate.index import ZERO, Index
from tidegate.language.ops import Size, Value
from tidegate.language.parse import Parser
from tidegate.language.types import DEP, FLAG, BarrierObject

MOST_THREADS = 1 << 16


def parse_graph(text: str, file: str = "<text>") -> g.SyncGraph:
    """A graph from text; `wellformed.check_graph` says whether it makes sense."""
    try:
        with no_collecting():
            reader = _Reader(text, file)
            graph = reader.graph()
    except BadInput as bad:
        raise BadInput(*(_recode(each) for each in bad.findings)) from None
    if reader.findings:
        raise BadInput(*(_recode(each) for each in reader.findings))
    return graph


def _recode(finding: Finding) -> Finding:
    return Finding("TG601", finding.message, finding.labels, finding.notes, finding.help)


class _Reader(Parser):
    """Reads graphs. Names need no definition here: whatever assigns them is a point."""

    def check_name(self, name: str, at: int) -> None:
        pass

    def look_up(self, name: str, at: int) -> Value:
        return self.visible.get(name) or Value(name, DEP)

    def define(self, value: Value, at: int, *, visible: bool = True) -> Value:
        return value

    def is_flag(self, name: str) -> bool:
        return name in self.visible and self.visible[name].type == FLAG

    def graph(self) -> g.SyncGraph:
        cursor = self.cursor
        cursor.expect("graph")
        name = cursor.expect_kind("symbol", "the graph's name, as in `@gemm`")[1:]
        cursor.expect("target")
        target = cursor.expect_kind("word", "the name of a target")
        cursor.expect("waves")
        waves = cursor.integer("the number of waves")
        lanes = cursor.integer("the lanes of a wave") if cursor.accept("lanes") else 0
        sizes: tuple[Size, ...] = self.size_list() if cursor.accept("sizes") else ()
        where = self.listed(self.cond) if cursor.accept("where") else ()
        grid = self.listed(self.index) if cursor.accept("grid") else ()
        found: dict[str, list[Any]] = {word: [] for word in _DECLARATIONS}
        while cursor.text in _DECLARATIONS:
            word = cursor.advance()
            found[word].append(_DECLARATIONS[word](self))
        cursor.expect("{")
        points: list[g.Point] = []
        while not cursor.accept("}"):
            points.append(self.point(len(points)))
        if cursor.kind != "end":
            cursor.fail(f"expected the end of the file, found {cursor.found()}")
        return g.SyncGraph(
            name,
            "" if target == "none" else target,
            waves,
            tuple(points),
            tuple(found["program"]),
            tuple(found["buffer"]),
            tuple(found["loop"]),
            tuple(found["function"]),
            tuple(found["object"]),
            sizes,
            where,
            grid,
            tuple(found["free"]),
            lanes,
            tuple(found["threads"]),
        )

    # --- declarations ---

    def free(self) -> Value:
        value = self.typed()
        self.visible[value.name] = value
        return value

    def typed(self) -> Value:
        name = self.name()
        self.cursor.expect(":")
        return Value(name, self.type())

    def buffer(self) -> g.Buffer:
        name = self.name()
        slot_bytes = self.number_after("bytes")
        slots = self.number_after("slots")
        return g.Buffer(name, slot_bytes, slots, self.cursor.integer("an offset") if self.cursor.accept("at") else None)

    def threads(self) -> g.ThreadMap:
        name = self.name()
        found: list[int | None] = []
        for run in self.comma(self.run):
            found += run
        return g.ThreadMap(name, tuple(found))

    def run(self) -> list[int | None]:
        cursor = self.cursor
        if cursor.accept("none"):
            (count,) = self.listed(lambda: cursor.integer("how many threads"))
            return [None] * self.threads_in(count)
        cursor.expect("run")
        numbers = self.listed(lambda: cursor.integer("a number"))
        if len(numbers) != 3:
            cursor.fail("expected `run(threads, first, step)`")
        count, first, step = numbers
        return [first + step * place for place in range(self.threads_in(count))]

    def threads_in(self, count: int) -> int:
        if not 0 < count <= MOST_THREADS:
            self.cursor.fail(f"a run of {count} threads")
        return count

    def object(self) -> g.Object:
        value = self.typed()
        if not isinstance(value.type, BarrierObject):
            self.cursor.fail(f"a barrier object cannot be a `{value.type}`")
        self.visible[value.name] = value
        waves = self.listed(lambda: self.cursor.integer("a wave")) if self.cursor.accept("waves") else ()
        offset = self.cursor.integer("an offset") if self.cursor.accept("at") else None
        return g.Object(value.name, value.type, waves, offset)

    def loop(self) -> g.Loop:
        cursor = self.cursor
        cursor.integer("the loop's number")
        head, parent, least = self.number_after("head"), self.number_after("parent"), self.number_after("trips")
        cursor.expect("..")
        most = None if cursor.accept("any") else cursor.integer("the most trips")
        cursor.expect("expect")
        expect = self.number()
        counter, step = "", 1
        lower: Index = ZERO
        upper: Index = ZERO
        if cursor.accept("counter"):
            counter = self.name()
            cursor.expect("from")
            lower = self.index()
            cursor.expect("to")
            upper = self.index()
            step = self.number_after("step")
        return g.Loop(head, parent, least, most, expect, counter, lower, upper, step, not cursor.accept("irreducible"))

    def function(self) -> g.Function:
        name = self.cursor.expect_kind("symbol", "a function's name")[1:]
        entry = self.number_after("entry")
        return g.Function(name, entry, self.listed(self.name) if self.cursor.accept("params") else ())

    def program(self) -> g.Program:
        entry, first = self.number_after("entry"), self.number_after("waves")
        self.cursor.expect("..")
        return g.Program(entry, first, self.cursor.integer("the wave after the last"))

    # --- points ---

    def point(self, number: int) -> g.Point:
        cursor, start = self.cursor, self.cursor.position
        if cursor.kind == "end":
            cursor.fail("the graph is never closed", help="close it with `}`")
        if cursor.integer("a point's number") != number:
            cursor.fail(f"expected point {number}: points are numbered in order", at=cursor.span(start))
        cursor.expect(":")
        action = self.action()
        label = cursor.expect_kind("string", "a label")[1:-1] if cursor.accept("label") else ""
        role = self.one_of(g.ROLES) if cursor.accept("role") else "other"
        work = self.work() if cursor.accept("work") else g.NO_WORK
        issues = self.comma(self.issue) if cursor.accept("issues") else ()
        uses = self.comma(lambda: cursor.integer("a point")) if cursor.accept("uses") else ()
        loop = cursor.integer("a loop") if cursor.accept("loop") else -1
        weight = self.number() if cursor.accept("weight") else 1.0
        under = self.one_of(g.VARIATIONS) if cursor.accept("under") else "uniform"
        insertable = not cursor.accept("fixed")
        successors = self.comma(lambda: cursor.integer("a point")) if cursor.accept("->") else ()
        at = cursor.span(start, cursor.position - 1)
        return g.Point(action, successors, label, role, issues, uses, loop, weight, under, insertable, at, work)

    def action(self) -> g.Action:
        cursor = self.cursor
        word = cursor.expect_kind("word", "what the point does")
        match word:
            case "compute":
                return g.Compute()
            case "read" | "write" | "atomic":
                return self.access(word)
            case "unknown":
                return g.Unknown(self.listed(self.name))
            case "sync":
                return self.sync()
            case "assign":
                return g.Assign(self.comma(self.pair))
            case "havoc":
                return g.Havoc(self.comma(self.name), self.cursor.accept("agreed"))
            case "branch":
                return g.Branch(None if cursor.accept("any") else self.cond())
            case "dispatch":
                return g.Dispatch(self.comma(self.range))
            case "call":
                name = cursor.expect_kind("symbol", "a function's name")[1:]
                return g.Call(name, self.listed(self.pair))
            case "alloc":
                return g.Alloc(self.name())
            case "free":
                return g.Free(self.name())
            case "return":
                return g.Return()
            case "end":
                return g.End()
        cursor.fail(f"`{word}` is not an action", at=cursor.span(cursor.position - 1))

    def access(self, effect: str) -> g.Access:
        cursor = self.cursor
        foot = self.footprint()
        is_async = cursor.accept("async")
        proxy = self.one_of(("generic", "async")) if cursor.accept("proxy") else "generic"
        operator = cursor.expect_kind("word", "an operator") if cursor.accept("operator") else ""
        element = cursor.expect_kind("word", "the type of elements") if cursor.accept("element") else ""
        fetches = cursor.accept("fetches")
        mbarrier = self.ref() if cursor.accept("reports") else None
        token = self.name() if cursor.accept("token") else ""
        as_one = cursor.accept("as_one")
        lanes = cursor.expect_kind("string", "a name in quotes")[1:-1] if cursor.accept("lanes") else ""
        before = cursor.integer("the number after `from`") if lanes and cursor.accept("from") else 0
        told = (operator, fetches, mbarrier, token, as_one, element, lanes, before, cursor.accept("collective"))
        return g.Access(effect, foot, is_async, proxy, *told)

    def footprint(self) -> g.Footprint:
        place = self.ref()
        self.cursor.expect("box")
        extents = self.listed(self.extent)
        width = self.number_after("width")
        may = self.cursor.accept("may")
        return g.Footprint(place, extents, width, may, self.name() if self.cursor.accept("threads") else "")

    def extent(self) -> g.Extent:
        count = self.cursor.integer("a number of steps")
        stride = self.number_after("by")
        return g.Extent(count, stride, self.index() if self.cursor.accept("below") else None)

    def ref(self) -> g.Ref:
        base = self.name()
        self.cursor.expect("[")
        slot = self.index()
        self.cursor.expect(",")
        offset = self.index()
        self.cursor.expect("]")
        return g.Ref(base, slot, offset)

    def sync(self) -> g.Action:
        start = self.cursor.position
        op = self.op()
        if not isinstance(op, get_args(g.GraphSyncOp)):
            self.cursor.fail("this operation synchronizes nothing", at=self.cursor.span(start))
        waves = self.listed(lambda: self.cursor.integer("a wave")) if self.cursor.accept("waves") else ()
        return g.Sync(op, waves)

    def pair(self) -> tuple[str, Index | g.Where | g.Token]:
        name = self.name()
        self.cursor.expect("=")
        return name, self.assigned()

    def assigned(self) -> Any:
        if self.cursor.accept("view"):
            return self.ref()
        if self.cursor.accept("token"):
            return g.Token(self.name())
        if self.cursor.text == "either":
            return self.either()
        return self.index()

    def either(self) -> g.Either:
        self.cursor.expect("either")
        self.cursor.expect("(")
        cond = self.cond()
        self.cursor.expect(",")
        then = self.place_value()
        self.cursor.expect(",")
        otherwise = self.place_value()
        self.cursor.expect(")")
        return g.Either(cond, then, otherwise)

    def place_value(self) -> g.Where:
        self.depth += 1
        if self.depth > 40:
            self.cursor.fail("places are nested more than 40 deep")
        found = self.assigned()
        if not isinstance(found, g.Ref | g.Either):
            self.cursor.fail("expected a place in memory, as in `view %a[0, 0]`")
        self.depth -= 1
        return found

    # --- pieces ---

    def name(self) -> str:
        return self.cursor.expect_kind("value", "a name, as in `%a`")

    def number_after(self, word: str) -> int:
        self.cursor.expect(word)
        return self.cursor.integer(f"the number after `{word}`")

    def range(self) -> tuple[int, int]:
        first = self.cursor.integer("the first wave")
        self.cursor.expect("..")
        return first, self.cursor.integer("the wave after the last")

    def issue(self) -> g.Issue:
        counter = self.cursor.expect_kind("word", "a counter")
        return g.Issue(counter, *self.range(), not self.cursor.accept("unordered"))

    def work(self) -> g.Work:
        cursor = self.cursor
        if cursor.text not in ("ops", "bytes"):
            cursor.fail(f"expected `ops` or `bytes`, found {cursor.found()}")
        ops = cursor.integer("a number of operations") if cursor.accept("ops") else 0
        moved = cursor.integer("a number of bytes") if cursor.accept("bytes") else 0
        return g.Work(ops, moved, cursor.expect_kind("word", "the type of elements") if cursor.accept("of") else "")

    def one_of(self, words: tuple[str, ...]) -> str:
        if self.cursor.text not in words:
            self.cursor.fail(f"expected one of {', '.join(words)}, found {self.cursor.found()}")
        return self.cursor.advance()

    def comma(self, each: Callable[[], Any]) -> tuple[Any, ...]:
        items = [each()]
        while self.cursor.accept(","):
            items.append(each())
        return tuple(items)


_DECLARATIONS: dict[str, Callable[[_Reader], Any]] = {
    "free": _Reader.free,
    "buffer": _Reader.buffer,
    "threads": _Reader.threads,
    "object": _Reader.object,
    "loop": _Reader.loop,
    "function": _Reader.function,
    "program": _Reader.program,
}
