"""Everything about a kernel that is wrong without running it, except races.

Needs   a kernel, from text, from a trace or from a builder, and a target
Gives   findings
Keeps   a kernel without TG0xx findings can be run; the other findings do not stop it
Cost    linear, and isl for indices that intervals do not settle

Races are not decided here: `simulate` and `verify` do that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidegate.diag import NOWHERE, Finding, Label, Span, sort_findings
from tidegate.index import (
    INDEX_TYPES,
    LANE,
    MACHINE_NAMES,
    MOST_PARTS,
    Cond,
    Flag,
    Index,
    Inexact,
    Name,
    children,
    constant,
    find_overgrown,
    names,
    show,
    why_not_affine,
)
from tidegate.language import ops
from tidegate.language.bounds import find_outside
from tidegate.language.facts import Facts, Variation, find_facts
from tidegate.language.fit import find_misfits
from tidegate.language.lifetimes import find_lifetime_mistakes
from tidegate.language.ops import (
    Block,
    Conditional,
    Iterate,
    Kernel,
    Op,
    Operand,
    Specialize,
    Value,
    blocks_of,
    results_of,
)
from tidegate.language.problems import Problem, a, defined_twice
from tidegate.language.protocol import find_protocol_mistakes
from tidegate.language.rules import problems
from tidegate.language.types import FLAG, INDEX, UNKNOWN, Global, Tile, Type, why_no_type
from tidegate.language.uses import own_names, places_of, uses_of
from tidegate.targets import Target


def check(kernel: Kernel, target: Target) -> list[Finding]:
    """All findings, in source order. Where the text has no meaning, only what shows that."""
    findings = [*_check_types(kernel)] or [*_check_header(kernel), *check_names(kernel)]
    if findings:
        return sort_findings(findings)
    facts = find_facts(kernel)
    if name := find_overgrown(facts.lets.items()):
        return [_overgrown(kernel, name)]
    findings += _check_exactness(kernel.body, facts)
    if not findings:
        findings += find_outside(kernel, facts)
    if any(each.is_bad_input for each in findings):
        return sort_findings(findings)
    findings += find_misfits(kernel, target)
    findings += find_lifetime_mistakes(kernel, facts)
    findings += find_protocol_mistakes(kernel, facts, target.barrier.wave_end == "leaves")
    return sort_findings(findings)


def _overgrown(kernel: Kernel, name: str) -> Finding:
    message = f"`{name}` names an expression of more than {MOST_PARTS:,} parts"
    defined = (op for op in ops.walk_ops(kernel.body) if any(value.name == name for value in results_of(op)))
    at = next((op.at for op in defined), kernel.at)
    return Finding("TG006", message, (Label(at),), help="each `let` that it names is counted with all of its own parts")


def _check_types(kernel: Kernel) -> Iterator[Finding]:
    """Types that the text cannot say: kernels also come from builders and from passes."""
    for value in kernel.args:
        if reason := why_no_type(value.type):
            yield Finding("TG005", reason, (Label(kernel.at),))
    for op in ops.walk_ops(kernel.body):
        for value in (*results_of(op), *own_names(op)):
            if reason := why_no_type(value.type):
                yield Finding("TG005", reason, (Label(op.at),))


def _check_header(kernel: Kernel) -> Iterator[Finding]:
    def bad(code: str, message: str, help: str = "") -> Finding:
        return Finding(code, message, (Label(kernel.at),), help=help)

    if type(kernel.waves) is not int:
        yield bad("TG012", f"the number of waves cannot be `{kernel.waves!r}`", "give a whole number")
        return
    if kernel.waves < 1:
        yield bad("TG016", f"a workgroup cannot have {kernel.waves} waves")
    if len(kernel.grid) > 3:
        yield bad("TG017", f"the grid has {len(kernel.grid)} dimensions", "a grid has at most three")
    if kernel.body.yields:
        yield bad("TG014", "a kernel yields nothing", "store results with `global_write`")
    sizes = [size.name for size in kernel.sizes]
    for size in kernel.sizes:
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", size.name) or "x" in size.name:
            yield bad("TG005", f"`{size.name}` is not a name for a size", "use capital letters, digits and `_`")
        if size.default < 1:
            yield bad("TG016", f"the size `{size.name}` cannot be {size.default}")
        if sizes.count(size.name) > 1:
            yield bad("TG004", f"the size `{size.name}` is defined twice")
            break
    known = {*sizes, *MACHINE_NAMES}
    for arg in kernel.args:
        if isinstance(arg.type, Global):
            for dim in arg.type.shape:
                if isinstance(dim, str) and dim not in sizes:
                    yield bad(
                        "TG008", f"`{dim}` is not a size of this kernel", f"add it to `sizes(...)`, as in `{dim} = 64`"
                    )
        elif arg.type not in (INDEX, FLAG):
            yield bad("TG012", f"an argument cannot be {a(arg.type)}", "arguments are `global<...>`, `index` or `flag`")
    for number in map(constant, kernel.grid):
        if number is not None and number < 1:
            yield bad("TG016", f"a grid of {number} holds no workgroup", "each axis has at least one")
    for expr in (*kernel.where, *kernel.grid):
        reason = why_not_affine(expr)
        if reason:
            yield bad("TG015", f"`{show(expr)}` is not affine: {reason}")
        for name in names(expr):
            if name not in known or name in MACHINE_NAMES:
                yield bad("TG008", f"`{name}` is not a size of this kernel", "assumptions and grids may use only sizes")


def check_names(kernel: Kernel) -> list[Finding]:
    """Whether every name is defined where it is used, and every operation keeps its rules."""
    walker = _Names({size.name for size in kernel.sizes} | set(MACHINE_NAMES), kernel.waves)
    for arg in kernel.args:
        walker.define(arg, kernel.at)
    walker.block(kernel.body)
    return walker.findings


class _Names:
    """Walks the program with the scope in hand: names, types, and each operation's own rules."""

    def __init__(self, known: set[str], waves: int) -> None:
        self.known, self.waves = known, waves
        self.scope: dict[str, Type] = {}
        self.defined: dict[str, Span] = {}
        self.findings: list[Finding] = []

    def report(self, code: str, message: str, at: Span, label: str = "", *more: Label, help: str = "") -> None:
        self.findings.append(Finding(code, message, (Label(at, label), *more), help=help))

    def define(self, value: Value, at: Span) -> None:
        if value.name in self.defined:
            self.findings.append(defined_twice(value.name, at, self.defined[value.name]))
        self.defined.setdefault(value.name, at)
        self.scope[value.name] = value.type

    def block(self, block: Block, *own: Value) -> None:
        inside = [value.name for value in own]
        for value in own:
            self.define(value, block.at)
        for op in block.ops:
            self.op(op)
            inside += [value.name for value in results_of(op)]
        for operand in block.yields:
            self.operand(operand, block.at)
        for name in inside:
            self.scope.pop(name, None)

    def op(self, op: Op) -> None:
        for name in uses_of(op):
            self.check_use(name, op.at)
        for problem in problems(op):
            at = problem.at if problem.at is not None and problem.at.line else op.at
            self.report(problem.code, problem.message, at, "", *self.shown(problem, op), help=problem.help)
        if not isinstance(op, Conditional | Specialize):
            for expr in indices_of(op):
                self.expression(expr, op.at)
        if isinstance(op, Conditional):
            self.expression(op.cond, op.at)
        if isinstance(op, Specialize):
            for group in op.groups:
                if group.last > self.waves:
                    text = f"there is no wave {group.last - 1} among {self.waves} waves"
                    self.report("TG018", text, group.at, help="waves count from 0")
        for block in blocks_of(op):
            self.block(block, *own_names(op))
        for value in results_of(op):
            self.define(value, op.at)

    def shown(self, problem: Problem, op: Op) -> Iterator[Label]:
        """The second places of a problem: where the values were made whose types do not fit."""
        yield from problem.more
        for value in dict.fromkeys(problem.about):
            yield from self.made(value.name, value.type, op.at)

    def made(self, name: str, type_: Type, at: Span) -> Iterator[Label]:
        made = self.defined.get(name, NOWHERE)
        if made.line and made != at:
            yield Label(made, f"`{name}` is {a(type_)}")

    def operand(self, operand: Operand, at: Span) -> None:
        if isinstance(operand, INDEX_TYPES):
            for name in names(operand):
                self.check_use(name, at)
            self.expression(operand, at)
        else:
            self.check_use(operand.name, at)

    def check_use(self, name: str, at: Span) -> None:
        if name in self.scope or name in self.known:
            return
        self.known.add(name)
        if name in self.defined:
            self.report(
                "TG009",
                f"`{name}` is not visible here",
                at,
                "used here",
                Label(self.defined[name], "defined here, in a region that has ended"),
                help="hand it out of the region: assign a variable that exists before it",
            )
        elif name.startswith("%"):
            self.report("TG003", f"`{name}` is not defined", at, "used here")
        else:
            self.report(
                "TG008",
                f"`{name}` is not a size of this kernel",
                at,
                "used here",
                help="name it in an argument's shape, or in `sizes(...)`; in Python `sizes=[...]`",
            )

    def expression(self, expr: Index | Cond, at: Span) -> None:
        """Names have the right type; products and divisions are affine or marked."""
        reason = why_not_affine(expr)
        if reason:
            self.report(
                "TG015",
                f"`{show(expr)}` is neither affine nor marked inexact",
                at,
                reason,
                help="use a positive constant"
                if "must be positive" in reason
                else "write `inexact(...)` around it: it is then computed exactly and analysed as any value",
            )
        stack: list[tuple[Index | Cond, bool]] = [(expr, False)]
        while stack:
            node, marked = stack.pop()
            if isinstance(node, Name) and node.name.startswith("%"):
                self.index_name(node.name, marked, at)
            if isinstance(node, Flag) and self.scope.get(node.name, FLAG) not in (FLAG, UNKNOWN):
                self.report("TG012", f"`{node.name}` is {a(self.scope[node.name])}, not a condition", at)
            stack.extend((child, marked or isinstance(node, Inexact)) for child in children(node))

    def index_name(self, name: str, marked: bool, at: Span) -> None:
        type_ = self.scope.get(name, UNKNOWN)
        if isinstance(type_, Tile) and not type_.dtype.is_float:
            if not marked:
                self.report(
                    "TG015",
                    f"the tile `{name}` is used as an index",
                    at,
                    "differs from element to element",
                    help=f"write `inexact({name})`",
                )
        elif type_ not in (INDEX, UNKNOWN):
            self.report("TG012", f"`{name}` is {a(type_)}, not an index", at, "", *self.made(name, type_, at))


def _check_exactness(block: Block, facts: Facts) -> list[Finding]:
    """Indices of accesses that come from memory are marked; `lane` occurs in conditions only."""
    findings: list[Finding] = []
    stack = [block]
    while stack:
        for op in stack.pop().ops:
            stack.extend(blocks_of(op))
            for place, _, bounds in places_of(op):
                for expr in (place.slot, *place.index, *bounds):
                    findings += _unmarked(expr, facts, op.at)
                findings += _differs(place.base, facts, op.at)
    return findings


def _differs(base: Value, facts: Facts, at: Span) -> Iterator[Finding]:
    if facts.variation.get(base.name) == Variation.DIVERGENT:
        yield Finding(
            "TG012",
            f"`{base.name}`, which differs between lanes, is used as a buffer",
            (Label(at, "a tile of one wave lies in one buffer"),),
            help="choose the buffer by a condition that is uniform in a wave",
        )


def _unmarked(expr: Index, facts: Facts, at: Span) -> Iterator[Finding]:
    stack: list[Index | Cond] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Inexact):
            continue
        if isinstance(node, Name):
            if node.name in facts.inexact:
                yield Finding(
                    "TG015",
                    f"`{show(expr)}` is neither affine nor marked inexact",
                    (Label(at, f"`{node.name}` is unknown here"),),
                    help=f"write `inexact({node.name})` where it is used as an index",
                )
                return
            if facts.of(node) == Variation.DIVERGENT:
                made = "" if node.name == LANE else ", which differs between lanes,"
                yield Finding(
                    "TG012",
                    f"`{node.name}`{made} is used as an index",
                    (Label(at, "a tile belongs to a whole wave"),),
                    help="`lane` may be used in conditions only; write `inexact(...)` where each lane has its own",
                )
                return
        stack.extend(children(node))


def indices_of(op: Op) -> Iterator[Index | Cond]:
    """The index expressions and conditions of an operation, its places included; regions are not."""
    for place, _, bounds in places_of(op):
        yield place.slot
        yield from place.index
        yield from bounds
    match op:
        case ops.Let() | ops.Splat():
            yield op.value
        case ops.SelectView():
            yield op.cond
        case ops.MbarrierWait():
            yield op.parity
            yield op.barrier.slot
        case ops.MbarrierArrive():
            yield op.barrier.slot
        case ops.GatherToLds() | ops.TensorLoadToLds() if op.mbarrier is not None:
            yield op.mbarrier.slot
        case Iterate():
            yield from (op.lower, op.upper, op.step)
            yield from (each.init for each in op.carried if isinstance(each.init, INDEX_TYPES))
