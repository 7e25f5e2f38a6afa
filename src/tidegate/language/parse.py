"""`.tide` text to kernels.

Needs   text, and the name of its file for messages
Gives   a `Module`, or `BadInput` with what is wrong and where
Keeps   `parse(show(m)) == m`; text is never executed; every input ends in a module or a finding
Cost    linear: one pass over the tokens, no look back

    file   ::= (`target` NAME | kernel)*
    kernel ::= `kernel` @name `(` args `)` [`sizes(` N = 4, ... `)`] [`where(` conds `)`] [`grid(` indices `)`]
               `waves` N `{` op* `}`
    op     ::= [results `=`] word ...          the forms are in `syntax`
             | [results `=`] `iterate` %k `in` lower `..` upper [`step` s] [`expect` n]
                             [`carry(` %c = init : type, ... `)`] block
             | [results `=`] `conditional` cond [`:` types] block [`else` block]
             | `specialize` `{` (`waves` a `..` b block)* `}`
    block  ::= `{` op* [`yield` operands] `}`
"""

from __future__ import annotations

from typing import Any, NoReturn

from tidegate.collecting import no_collecting
from tidegate.diag import BadInput, Finding, Label, Span, closest
from tidegate.index import ONE
from tidegate.language.ops import (
    AtomicAdd,
    Block,
    Carried,
    Conditional,
    Elementwise,
    Group,
    Iterate,
    Kernel,
    Module,
    Op,
    Operand,
    Size,
    Specialize,
    Value,
)
from tidegate.language.parse_pieces import Pieces, readers_of
from tidegate.language.problems import a, count_of
from tidegate.language.syntax import ARITY, IMPLIED, REGIONS, all_words, class_of_word, form_of
from tidegate.language.types import INDEX, UNKNOWN, Global, Type

MAX_REGIONS = 40
# What other languages call the same.
ELSEWHERE = {
    "if": "conditional",
    "for": "iterate",
    "barrier": "shared_memory_barrier",
    "s_barrier": "workgroup_barrier",
    "waitcnt": "wait_count",
    "s_waitcnt": "wait_count",
    "syncthreads": "shared_memory_barrier",
    "load": "local_read",
    "store": "local_write",
    "dot": "mma",
    "constant": "fill",
    "return": "exit",
}


def parse(text: str, file: str = "<text>") -> Module:
    """The kernels of a file."""
    with no_collecting():
        parser = Parser(text, file)
        module = parser.module()
    if parser.findings:
        raise BadInput(*parser.findings)
    return module


class Parser(Pieces):
    """Reads files, kernels, regions and operations."""

    # --- files and kernels ---

    def module(self) -> Module:
        cursor, target, kernels = self.cursor, "", []
        seen: dict[str, Span] = {}
        while cursor.kind != "end":
            if cursor.accept("target"):
                target = cursor.expect_kind("word", "the name of a target")
                target = "" if target == "none" else target
            elif cursor.text == "kernel":
                start = cursor.position
                kernel = self.kernel(target)
                if kernel.name in seen:
                    self.report(
                        "TG004",
                        f"kernel `@{kernel.name}` is defined twice",
                        cursor.span(start, start + 1),
                        "here again",
                        Label(seen[kernel.name], "first here"),
                    )
                seen.setdefault(kernel.name, cursor.span(start, start + 1))
                kernels.append(kernel)
            else:
                cursor.fail(f"expected `kernel` or `target`, found {cursor.found()}")
        return Module(tuple(kernels))

    def kernel(self, target: str) -> Kernel:
        cursor, start = self.cursor, self.cursor.position
        cursor.expect("kernel")
        name = cursor.expect_kind("symbol", "the kernel's name, as in `@gemm`")[1:]
        self.visible, self.taken, self.sizes = {}, {}, ()
        args = self.args()
        sizes = self.size_list() if cursor.accept("sizes") else ()
        self.sizes = tuple(size.name for size in sizes)
        self.check_shapes(args)
        where = self.listed(self.cond) if cursor.accept("where") else ()
        grid = self.listed(self.index) if cursor.accept("grid") else ()
        cursor.expect("waves")
        waves = cursor.integer("the number of waves")
        at = cursor.span(start, cursor.position - 1)
        body = self.block()
        return Kernel(name, args, body, waves, sizes, where, grid, target, at)

    def args(self) -> tuple[Value, ...]:
        cursor = self.cursor
        cursor.expect("(")
        values: list[Value] = []
        while not cursor.accept(")"):
            if values:
                cursor.expect(",")
            start = cursor.position
            name = cursor.expect_kind("value", "an argument, as in `%A: global<64xf32>`")
            cursor.expect(":")
            values.append(self.define(Value(name, self.type()), start))
        return tuple(values)

    def check_shapes(self, args: tuple[Value, ...]) -> None:
        """The sizes of arguments are declared."""
        for arg in args:
            for dim in arg.type.shape if isinstance(arg.type, Global) else ():
                if isinstance(dim, str) and dim not in self.sizes:
                    self.report(
                        "TG008",
                        f"`{dim}` is not a size of this kernel",
                        self.taken[arg.name],
                        f"is {a(arg.type)}",
                        help=f"add it to `sizes(...)`, as in `{dim} = 64`",
                    )

    def size_list(self) -> tuple[Size, ...]:
        seen: dict[str, Span] = {}

        def one() -> Size:
            place = self.cursor.span(self.cursor.position)
            name = self.cursor.expect_kind("word", "the name of a size")
            self.cursor.expect("=")
            if name in seen:
                first = Label(seen[name], "first here")
                self.report("TG004", f"the size `{name}` is defined twice", place, "here again", first)
            seen.setdefault(name, place)
            return Size(name, self.cursor.integer("the default of a size"))

        return self.listed(one)

    # --- blocks and regions ---

    def block(self, *own: Value) -> Block:
        """A region in braces. What is defined in it is not visible after it."""
        cursor = self.cursor
        start = cursor.position
        cursor.expect("{")
        self.depth += 1
        if self.depth > MAX_REGIONS:
            cursor.fail(f"regions are nested more than {MAX_REGIONS} deep", code="TG006", at=cursor.span(start))
        outside, self.local = self.local, []
        for value in own:
            self.make_visible(value)
        ops: list[Op] = []
        yields: tuple[Operand, ...] = ()
        end: Span | None = None
        while not cursor.accept("}"):
            if cursor.accept("yield"):
                word = cursor.position - 1
                yields = self.operands()
                end = cursor.span(word, cursor.position - 1)
                cursor.expect("}")
                break
            if cursor.kind == "end":
                self.never_closed(start)
            ops.append(self.op())
        self.note_odd_brace(start, cursor.position - 1)
        for name in self.local:
            self.visible.pop(name, None)
        self.local = outside
        self.depth -= 1
        return Block(tuple(ops), yields, end or cursor.span(cursor.position - 1))

    def note_odd_brace(self, opened: int, closed: int) -> None:
        """Keeps the first `}` on a line of its own that stands further left than the line that it closes."""
        here, there = self.cursor.span(closed), self.cursor.span(opened)
        lead = self.cursor.indent(opened)
        if (
            self.odd_brace is None
            and here.line != there.line
            and here.column <= min(lead, self.cursor.indent(closed) + 1)
        ):
            self.odd_brace = Label(here, f"closes the region of line {there.line}, which is further in")

    def never_closed(self, start: int) -> NoReturn:
        odd = (self.odd_brace,) if self.odd_brace is not None else ()
        label = Label(self.cursor.span(start), "opened here")
        raise BadInput(Finding("TG001", "this region is never closed", (label, *odd), help="close it with `}`"))

    def op(self) -> Op:
        cursor, start = self.cursor, self.cursor.position
        results: list[tuple[str, int]] = []
        if cursor.kind == "value":
            results.append((cursor.advance(), start))
            while cursor.accept(","):
                results.append((cursor.expect_kind("value", "a result"), cursor.position - 1))
            cursor.expect("=")
        word_at = cursor.position
        word = cursor.expect_kind("word", "an operation")
        if word in REGIONS:
            return self.region(word, results, start)
        cls: type | None = Elementwise if word in ARITY else class_of_word().get(word)
        if cls is None:
            meant = ELSEWHERE.get(word) or closest(word, all_words())
            cursor.fail(
                f"unknown operation `{word}`",
                code="TG002",
                at=cursor.span(word_at),
                help=f"did you mean `{meant}`?" if meant else "`docs/language.md` lists the operations",
            )
        if len(results) > 1:
            cursor.fail(f"`{word}` has one result at most", at=cursor.span(results[1][1]))
        if cls is Elementwise:
            return self.elementwise(word, results, start)
        return self.formed(cls, results, start)

    def region(self, word: str, results: list[tuple[str, int]], start: int) -> Op:
        if word == "iterate":
            return self.iterate(results, start)
        if word == "conditional":
            return self.conditional(results, start)
        if results:
            self.cursor.fail("`specialize` has no results", at=self.cursor.span(start))
        return self.specialize(start)

    def iterate(self, results: list[tuple[str, int]], start: int) -> Iterate:
        cursor = self.cursor
        counter_at = cursor.position
        counter_name = cursor.expect_kind("value", "the loop's counter")
        cursor.expect("in")
        lower = self.index()
        cursor.expect("..")
        upper = self.index()
        step = self.index() if cursor.accept("step") else ONE
        expect = cursor.integer("the expected number of trips") if cursor.accept("expect") else None
        pending: list[tuple[Carried, int]] = self.carry() if cursor.accept("carry") else []
        at = cursor.span(start, cursor.position - 1)
        counter = self.define(Value(counter_name, INDEX), counter_at, visible=False)
        carried = tuple(each for each, _ in pending)
        for each, place in pending:
            self.define(each.value, place, visible=False)
        body = self.block(counter, *(each.value for each in carried))
        if len(results) != len(carried):
            cursor.fail(
                f"the loop has {count_of(len(results), 'result')} but carries {count_of(len(carried), 'value')}",
                code="TG013",
                at=at,
                help="name one result for each carried value, in order",
            )
        values = tuple(
            self.define(Value(name, each.value.type), place)
            for (name, place), each in zip(results, carried, strict=True)
        )
        return Iterate(values, counter, lower, upper, body, step, carried, expect, at)

    def carry(self) -> list[tuple[Carried, int]]:
        cursor = self.cursor

        def one() -> tuple[Carried, int]:
            place = cursor.position
            name = cursor.expect_kind("value", "a carried name")
            cursor.expect("=")
            init = self.operand()
            cursor.expect(":")
            return Carried(Value(name, self.type()), init), place

        return list(self.listed(one))

    def conditional(self, results: list[tuple[str, int]], start: int) -> Conditional:
        cursor = self.cursor
        cond = self.cond()
        types: list[Type] = []
        if cursor.accept(":"):
            types.append(self.type())
            while cursor.accept(","):
                types.append(self.type())
        at = cursor.span(start, cursor.position - 1)
        if len(results) != len(types):
            cursor.fail(
                f"the conditional has {count_of(len(results), 'result')} but {count_of(len(types), 'type')}",
                code="TG014",
                at=at,
                help="write `: type, ...` before `{`, one type for each result",
            )
        then = self.block()
        otherwise = self.block() if cursor.accept("else") else Block()
        values = tuple(
            self.define(Value(name, type_), place) for (name, place), type_ in zip(results, types, strict=True)
        )
        return Conditional(values, cond, then, otherwise, at)

    def specialize(self, start: int) -> Specialize:
        cursor = self.cursor
        at = cursor.span(start)
        cursor.expect("{")
        groups = []
        while not cursor.accept("}"):
            place = cursor.position
            cursor.expect("waves")
            first = cursor.integer("the first wave")
            cursor.expect("..")
            last = cursor.integer("the wave after the last")
            where = cursor.span(place, cursor.position - 1)
            groups.append(Group(first, last, self.block(), where))
        return Specialize(tuple(groups), at)

    # --- operations with a form ---

    def elementwise(self, fn: str, results: list[tuple[str, int]], start: int) -> Op:
        cursor = self.cursor
        args = [self.value()]
        while cursor.accept(","):
            args.append(self.value())
        cursor.expect(":")
        type_ = self.type()
        at = cursor.span(start, cursor.position - 1)
        if not results:
            cursor.fail(f"`{fn}` needs a name for its result", at=at, help=f"write `%name = {fn} ...`")
        return Elementwise(self.define(Value(results[0][0], type_), results[0][1]), fn, tuple(args), at)

    def formed(self, cls: type, results: list[tuple[str, int]], start: int) -> Op:
        cursor = self.cursor
        form = form_of(cls)
        fields: dict[str, Any] = {}
        for read in readers_of(cls):
            read(self, fields)
        at = cursor.span(start, cursor.position - 1)
        if results and not form.has_result:
            cursor.fail(f"`{form.word}` has no result", at=cursor.span(start))
        if form.needs_result and not results:
            cursor.fail(f"`{form.word}` needs a name for its result", at=at, help=f"write `%name = {form.word} ...`")
        if form.has_result:
            fields["result"] = None
        if results:
            type_ = fields.pop(":", None) or IMPLIED.get(cls)
            if cls is AtomicAdd:
                type_ = fields["tile"].type
            fields["result"] = self.define(Value(results[0][0], type_ or UNKNOWN), results[0][1])
        op: Op = cls(**fields, at=at)
        return op
