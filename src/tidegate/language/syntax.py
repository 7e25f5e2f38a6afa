"""The grammar of operations, as one table: how each is written is how each is read.

Needs   the operations
Gives   `FORMS`, compiled lazily by the parser and the printer from the same line of text
Keeps   a form that can be printed can be parsed, and gives the same operation

In a form, `{field:kind}` stands for a field, `[...]` for a part that is left out when its field has its default, and
the rest is literal. `{result:type}` is the type of the result; where it is missing, the type is implied.
A choice `{fn:add|max|min}` takes one of these words. Loops and regions have no form: `parse` and `show` write them out.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any

from tidegate.language import ops
from tidegate.language.types import DEP, INDEX, Type

_GUARD = "[bounds {bounds:indices}] [mask {mask:value}]"
_COPY = "{source:place} to {dest:place} [bounds {bounds:indices}]"

FORMS: dict[type, str] = {
    ops.Alloc: "alloc [at {offset:int}] : {result:type}",
    ops.Dealloc: "dealloc {buffer:value}",
    ops.View: "view {place:place} : {result:type}",
    ops.SelectView: "select_view {cond:cond}, {then:value}, {otherwise:value} : {result:type}",
    ops.GlobalRead: f"global_read {{place:place}} {_GUARD} : {{result:type}}",
    ops.GlobalWrite: f"global_write {{tile:value}}, {{place:place}} {_GUARD}",
    ops.ReadIndex: "read_index {place:place}",
    ops.LocalRead: f"local_read {{place:place}} {_GUARD} : {{result:type}}",
    ops.LocalWrite: f"local_write {{tile:value}}, {{place:place}} {_GUARD}",
    ops.AtomicAdd: f"atomic_add {{tile:value}}, {{place:place}} {_GUARD}",
    ops.GatherToLds: f"gather_to_lds {_COPY} [reports {{mbarrier:place}}] : {{tile:tile}}",
    ops.TensorLoadToLds: f"tensor_load_to_lds {_COPY} [reports {{mbarrier:place}}] : {{tile:tile}}",
    ops.LdsToGlobal: f"lds_to_global {_COPY} : {{tile:tile}}",
    ops.Fill: "fill {value:float} : {result:type}",
    ops.Splat: "splat {value:index} : {result:type}",
    ops.Iota: "iota axis {axis:int} : {result:type}",
    ops.Cast: "cast {tile:value} : {result:type}",
    ops.Reduce: "reduce {fn:add|max|min} {tile:value} axis {axis:int} : {result:type}",
    ops.Scan: "scan {fn:add|max|min} {tile:value} axis {axis:int} : {result:type}",
    ops.Transpose: "transpose {tile:value} : {result:type}",
    ops.Broadcast: "broadcast {tile:value} : {result:type}",
    ops.Reshape: "reshape {tile:value} : {result:type}",
    ops.Mma: "mma {a:value}, {b:value}, {acc:value} : {result:type}",
    ops.Let: "let {value:index}",
    ops.NullAsyncDep: "null_async_dep",
    ops.Exit: "exit",
    ops.WorkgroupBarrier: "workgroup_barrier [{pinned:flag}]",
    ops.SharedMemoryBarrier: (
        "shared_memory_barrier {counts:counts} [{wait_async_ops:flag}] [deps {async_deps:group}] [{pinned:flag}]"
    ),
    ops.Signal: "signal {barrier:barrier} [{pinned:flag}]",
    ops.Wait: "wait {barrier:barrier} [{pinned:flag}]",
    ops.ConditionalBarrier: "conditional_barrier {half:low|high}",
    ops.WaitCount: "wait_count {counts:counts} [deps {async_deps:group}]",
    ops.CommitGroup: "commit_group",
    ops.Fence: "fence {kind:wave|proxy_async}",
    ops.NewBarrier: "new_barrier : {result:type}",
    ops.MbarrierArrive: "mbarrier_arrive {barrier:place} [expect {expect:int}]",
    ops.MbarrierWait: "mbarrier_wait {barrier:place} parity {parity:index}",
    ops.SchedulingBarrier: "scheduling_barrier",
    ops.SetWavePrio: "set_wave_prio {level:int}",
}

# Element-wise functions and how many tiles each takes. Their form is `%r = add %a, %b : tile<...>`.
UNARY = tuple("neg abs exp exp2 log log2 sqrt rsqrt recip sin cos tanh sigmoid relu floor not".split())
BINARY = ["add", "sub", "mul", "div", "rem", "max", "min", "pow", "and", "or", "xor"]
COMPARE = ["lt", "le", "eq", "ne", "ge", "gt"]
TERNARY = ["where", "fma"]
ARITY = {fn: n for n, fns in ((1, UNARY), (2, BINARY), (2, COMPARE), (3, TERNARY)) for fn in fns}

# The type of a result that its form does not show. An atomic's result has the type of its tile.
IMPLIED: dict[type, Type] = {
    ops.ReadIndex: INDEX,
    ops.Let: INDEX,
    ops.GatherToLds: DEP,
    ops.TensorLoadToLds: DEP,
    ops.LdsToGlobal: DEP,
    ops.CommitGroup: DEP,
    ops.NullAsyncDep: DEP,
}

REGIONS = {"iterate": ops.Iterate, "conditional": ops.Conditional, "specialize": ops.Specialize}


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class Hole:
    field: str
    kind: str


@dataclass(frozen=True, slots=True)
class Maybe:
    """A part that starts with a keyword and holds one field; left out when the field has its default."""

    keyword: str
    hole: Hole


Part = Literal | Hole | Maybe


@dataclass(frozen=True, slots=True)
class Form:
    """A form, taken apart."""

    word: str
    parts: tuple[Part, ...]
    has_result: bool
    needs_result: bool
    defaults: dict[str, object]


_PIECE = re.compile(r"\[(?:(\w+) )?\{(\w+):(\w+)\}\]|\{(\w+):([\w|]+)\}|([\w]+|[,:])")


def form_of(cls: type) -> Form:
    """The compiled form of an operation."""
    form = _compiled.get(cls)
    if form is None:
        form = _compiled[cls] = _compile(cls)
    return form


_compiled: dict[type, Form] = {}


def _compile(cls: Any) -> Form:
    word, _, rest = FORMS[cls].partition(" ")
    parts: list[Part] = []
    for keyword, maybe, maybe_kind, name, kind, literal in _PIECE.findall(rest):
        if maybe:
            parts.append(Maybe(keyword or maybe, Hole(maybe, maybe_kind)))
        elif name:
            parts.append(Hole(name, kind))
        else:
            parts.append(Literal(literal))
    declared = {each.name: each for each in fields(cls)}
    optional = "result" in declared and "None" in str(declared["result"].type)
    return Form(
        word,
        tuple(parts),
        "result" in declared,
        "result" in declared and not optional,
        {name: each.default for name, each in declared.items() if each.default is not MISSING},
    )


@cache
def class_of_word() -> dict[str, type]:
    """Which operation a line starts with; element-wise functions and regions are not in it."""
    return {form.partition(" ")[0]: cls for cls, form in FORMS.items()}


@cache
def all_words() -> tuple[str, ...]:
    return (*class_of_word(), *ARITY, *REGIONS)
